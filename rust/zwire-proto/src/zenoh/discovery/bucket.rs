//! [`Bucket`]: so many things at once, and so many each second.

use core::time::Duration;

/// Counts what happens against a rate.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Pause between two, in the long run.
    period: Duration,
    /// How far behind the clock the next one may be: `burst` periods.
    slack: Duration,
    /// When the next one would be due if all came evenly.
    due: Duration,
}

impl Bucket {
    pub(super) const fn new(per_second: u32, burst: u32) -> Self {
        let period = Duration::from_nanos(1_000_000_000 / per_second as u64);
        Self { period, slack: period.saturating_mul(burst), due: Duration::ZERO }
    }

    /// Takes one, if there is one.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let due = self.due.max(now);
        if due.saturating_sub(now) > self.slack {
            return false;
        }
        self.due = due + self.period;
        true
    }

    /// When the next one can be taken, if not now.
    pub(super) fn next(&self, now: Duration) -> Option<Duration> {
        let next = self.due.saturating_sub(self.slack);
        (next > now).then_some(next)
    }
}
