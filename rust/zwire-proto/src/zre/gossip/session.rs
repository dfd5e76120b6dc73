//! Our side of a connection to a hub, of a client and of a hub alike.

use super::{super::wire::Gossip, PING_INTERVAL};
use core::time::Duration;

/// What is to be said to the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// HELLO, and all tuples.
    Hello,
    /// I am there.
    Ping,
}

impl Say {
    pub(super) const fn message(self) -> Gossip {
        match self {
            Self::Hello => Gossip::Hello,
            Self::Ping => Gossip::Ping,
        }
    }
}

/// A connection that is open.
#[derive(Debug)]
pub(super) struct Session {
    /// When we said HELLO.
    greeted: Duration,
    /// When to say something again.
    next: Duration,
    /// The hub does not know us.
    invalid: bool,
}

impl Session {
    /// The connection has opened: [`Say::Hello`] comes first.
    pub(super) fn open(now: Duration) -> Self {
        Self { greeted: now, next: now + PING_INTERVAL, invalid: false }
    }

    pub(super) const fn next(&self) -> Duration {
        self.next
    }

    /// INVALID came. A hub that says so to every HELLO is not asked more often than it is pinged.
    pub(super) fn handle_invalid(&mut self, now: Duration) -> Option<Say> {
        self.invalid = true;
        if now < self.greeted + PING_INTERVAL { None } else { Some(self.say(now)) }
    }

    /// What is due.
    pub(super) fn handle_timeout(&mut self, now: Duration) -> Option<Say> {
        if now < self.next { None } else { Some(self.say(now)) }
    }

    fn say(&mut self, now: Duration) -> Say {
        self.next = now + PING_INTERVAL;
        if !core::mem::take(&mut self.invalid) {
            return Say::Ping;
        }
        self.greeted = now;
        Say::Hello
    }
}
