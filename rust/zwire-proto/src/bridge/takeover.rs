//! [`Takeover`]: the time between the decision to take over and the takeover.
//!
//! The bridge before may have ended a moment ago, with messages on their way that it has passed on: in the buffers of the
//! connection to this bridge, or behind the news of its end, which overtakes messages in Zenoh. Passed on once more by this
//! bridge they would come twice.

use core::time::Duration;

/// Time without a message of the bridge before. Longer than a message takes in Zenoh after the news of the end.
const QUIET: Duration = Duration::from_millis(30);

/// Longest time. A bridge that only lost its link to Zenoh keeps its connections, and passes on nothing any more.
const LONGEST: Duration = Duration::from_millis(300);

/// Wait of a bridge that takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover {
    quiet: Duration,
    end: Duration,
}

impl Takeover {
    /// The wait of a bridge that has just decided to take over.
    #[must_use]
    pub const fn new(now: Duration) -> Self {
        Self { quiet: now.saturating_add(QUIET), end: now.saturating_add(LONGEST) }
    }

    /// A message that the bridge before has passed on was seen.
    pub const fn handle_passed(&mut self, now: Duration) {
        self.quiet = now.saturating_add(QUIET);
    }

    /// Whether the bridge forwards from now on. `is_read`: each connection of the bridge before was read to its end.
    #[must_use]
    pub fn is_due(&self, now: Duration, is_read: bool) -> bool {
        now >= self.end || (is_read && now >= self.quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(9);
    const STEP: Duration = Duration::from_millis(1);

    #[test]
    fn messages_of_the_bridge_before_are_waited_for() {
        let mut takeover = Takeover::new(NOW);
        assert!(!takeover.is_due(NOW + QUIET - STEP, true) && takeover.is_due(NOW + QUIET, true));
        assert!(!takeover.is_due(NOW + LONGEST - STEP, false));
        takeover.handle_passed(NOW + QUIET - STEP);
        assert!(!takeover.is_due(NOW + QUIET, true) && takeover.is_due(NOW + 2 * QUIET - STEP, true));
    }

    #[test]
    fn the_wait_has_an_end() {
        let mut takeover = Takeover::new(NOW);
        takeover.handle_passed(NOW + LONGEST - STEP);
        assert!(takeover.is_due(NOW + LONGEST, false));
    }
}
