//! [`Bucket`]: rate limit with a burst.

use core::time::Duration;

/// Limits events to a rate.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Time between two events, in the long run.
    period: Duration,
    /// Allowed lead of `due` over the clock: `burst` periods.
    slack: Duration,
    /// Time of the next event if all came evenly.
    due: Duration,
}

impl Bucket {
    pub(crate) const fn new(per_second: u32, burst: u32) -> Self {
        let period = Duration::from_nanos(1_000_000_000 / per_second as u64);
        Self { period, slack: period.saturating_mul(burst), due: Duration::ZERO }
    }

    /// Takes one event, if the rate allows it.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        let due = self.due.max(now);
        if due.saturating_sub(now) > self.slack {
            return false;
        }
        self.due = due + self.period;
        true
    }

    /// Counts an event that has happened, beyond the rate too: the next ones are allowed later.
    pub(crate) fn charge(&mut self, now: Duration) {
        self.due = self.due.max(now) + self.period;
    }

    /// Time at which the next event is allowed, if not now.
    pub(crate) fn next(&self, now: Duration) -> Option<Duration> {
        let next = self.due.saturating_sub(self.slack);
        (next > now).then_some(next)
    }
}
