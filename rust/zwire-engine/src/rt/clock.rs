//! Clocks behind [`Now`]: the only place where this project reads a clock.

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

/// Lifetime of a reading of the wall clock, which the monotonic clock advances meanwhile: a publication
/// reads one clock instead of two, and a step of the wall clock is noticed a moment later.
const FRESH: Duration = Duration::from_millis(1);

thread_local! {
    /// Monotonic time of the thread's last reading of the wall clock, and its result.
    static WALL: Cell<(Duration, Duration)> = const { Cell::new((Duration::ZERO, Duration::ZERO)) };
}

/// Reads both clocks.
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

/// Monotonic time since the first reading in this process.
#[must_use]
pub fn mono() -> Duration {
    epoch().elapsed()
}

/// Microseconds of a time, for an atomic.
#[allow(clippy::cast_possible_truncation, reason = "u64 microseconds last for half a million years")]
pub(crate) const fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}

/// Nanoseconds of a time, for an atomic.
#[allow(clippy::cast_possible_truncation, reason = "u64 nanoseconds last for five hundred years")]
pub(crate) const fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Converts a monotonic time to a tokio instant.
#[must_use]
pub fn instant(mono: Duration) -> tokio::time::Instant {
    (epoch() + mono).into()
}

/// Converts a monotonic time to the instant that condition variables wait for.
#[must_use]
pub fn deadline(mono: Duration) -> Instant {
    epoch() + mono
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
