//! The clocks behind [`Now`], the only place where this project reads them.

use core::time::Duration;
use std::{
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use zwire_proto::Now;

fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// Both clocks, read now.
#[must_use]
pub fn now() -> Now {
    Now { mono: mono(), wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO) }
}

/// Time since the first reading in this process.
#[must_use]
pub fn mono() -> Duration {
    epoch().elapsed()
}

/// A monotonic time as tokio wants it.
#[must_use]
pub fn instant(mono: Duration) -> tokio::time::Instant {
    (epoch() + mono).into()
}
