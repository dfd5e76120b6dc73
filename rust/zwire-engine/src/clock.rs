//! The clocks behind [`Now`], the only place where this project reads them.

use core::{cell::Cell, time::Duration};
use std::{
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use zwire_proto::Now;

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// How long a reading of the wall clock serves, with what the monotonic one says has passed since: whoever
/// sets the clock is noticed a moment later, and a publication reads one clock instead of two.
const FRESH: Duration = Duration::from_millis(1);

thread_local! {
    /// When this thread has read the wall clock, and what it said.
    static WALL: Cell<(Duration, Duration)> = const { Cell::new((Duration::ZERO, Duration::ZERO)) };
}

/// Both clocks, read now.
#[must_use]
pub fn now() -> Now {
    let mono = mono();
    let (read, wall) = WALL.get();
    let since = mono.saturating_sub(read);
    if since < FRESH && !wall.is_zero() {
        return Now { mono, wall: wall + since };
    }
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    WALL.set((mono, wall));
    Now { mono, wall }
}

/// Time since the first reading in this process.
#[must_use]
pub fn mono() -> Duration {
    epoch().elapsed()
}

/// A monotonic time as condition variables want it.
#[must_use]
pub fn deadline(mono: Duration) -> Instant {
    epoch() + mono
}

/// A monotonic time as tokio wants it.
#[must_use]
pub fn instant(mono: Duration) -> tokio::time::Instant {
    (epoch() + mono).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_goes_on_between_its_readings() {
        let first = now();
        let mut last = first;
        while last.mono - first.mono < FRESH * 3 {
            last = now();
        }
        let (mono, wall) = (last.mono - first.mono, last.wall.saturating_sub(first.wall));
        assert!(wall > Duration::ZERO && wall < mono + Duration::from_secs(1), "{mono:?} {wall:?}");
    }
}
