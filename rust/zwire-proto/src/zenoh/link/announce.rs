//! [`Announce`]: schedule of the JOINs of a member of a multicast group (`zenoh-behaviour` 2.13).

use crate::{Now, zenoh::wire::Join};
use core::time::Duration;

/// Shortest distance of two JOINs. A new member is answered at once, but a flood of them gets ten
/// answers per second, and so do a hundred nodes that start together.
pub const JOIN_GAP: Duration = Duration::from_millis(100);

/// Schedule of the JOINs of one member.
#[derive(Debug)]
pub(super) struct Announce {
    /// Template without sequence numbers, which are filled in on sending.
    join: Join,
    interval: Duration,
    next: Duration,
    not_before: Duration,
    due: bool,
}

impl Announce {
    /// The first JOIN is due at once.
    pub(super) fn new(join: Join, interval: Duration, now: Now) -> Self {
        // An interval of zero must not make the driver's loop spin.
        let interval = interval.max(JOIN_GAP);
        let next = now.mono.saturating_add(interval);
        Self { join, interval, next, not_before: now.mono, due: true }
    }

    /// Moves the next JOIN forward for a new member, as far as the distance allows.
    pub(super) fn soon(&mut self, now: Now) {
        self.next = self.next.min(self.not_before.max(now.mono));
        self.handle_timeout(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Now) {
        self.due |= now.mono >= self.next;
        if self.due {
            self.next = now.mono.saturating_add(self.interval);
        }
    }

    pub(super) const fn is_due(&self) -> bool {
        self.due
    }

    pub(super) const fn poll_timeout(&self) -> Duration {
        self.next
    }

    /// The JOIN to send now; the caller fills in its sequence numbers.
    pub(super) fn take(&mut self, now: Now) -> Option<Join> {
        if !core::mem::take(&mut self.due) {
            return None;
        }
        self.not_before = now.mono.saturating_add(JOIN_GAP);
        self.next = now.mono.saturating_add(self.interval);
        Some(self.join.clone())
    }
}
