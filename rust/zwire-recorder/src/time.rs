//! Source of time, and its conversion to the microseconds of a spool.

use core::time::Duration;
use std::sync::Arc;
use zwire_engine::clock;
use zwire_proto::Now;

/// Source of time of a recorder: the clock of the engine, or a function of a test.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Now + Send + Sync>);

impl Clock {
    /// A clock that returns what a function returns.
    pub fn new(read: impl Fn() -> Now + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Both readings: monotonic and wall clock.
    #[must_use]
    pub fn now(&self) -> Now {
        (self.0)()
    }

    /// Wall clock in microseconds since 1970.
    #[must_use]
    pub fn micros(&self) -> i64 {
        wall_micros(self.now())
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(clock::now)
    }
}

/// Duration in microseconds; `None` if it exceeds 64 bits.
pub(crate) fn micros(time: Duration) -> Option<i64> {
    i64::try_from(time.as_micros()).ok()
}

/// Wall clock of a reading, in microseconds since 1970.
pub(crate) fn wall_micros(now: Now) -> i64 {
    micros(now.wall).unwrap_or(i64::MAX)
}
