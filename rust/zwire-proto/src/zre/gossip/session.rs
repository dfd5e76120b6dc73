//! Local side of a connection to a hub, used by client and hub alike.

use super::{super::wire::Gossip, PING_INTERVAL};
use core::time::Duration;

#[derive(Debug)]
pub(super) struct GossipSession {
    /// Time of the last HELLO.
    greeted: Duration,
    /// Deadline of the next message.
    pub(super) next: Duration,
    /// The hub answered INVALID: it does not know this client.
    invalid: bool,
}

impl GossipSession {
    /// Starts a session; [`Gossip::Hello`] is sent first.
    pub(super) fn open(now: Duration) -> Self {
        Self { greeted: now, next: now + PING_INTERVAL, invalid: false }
    }

    /// Handles INVALID. A hub that answers so to every HELLO gets HELLO no more often than PING.
    pub(super) fn handle_invalid(&mut self, now: Duration) -> Option<Gossip> {
        self.invalid = true;
        if now < self.greeted + PING_INTERVAL { None } else { Some(self.say(now)) }
    }

    /// The message that is due.
    pub(super) fn handle_timeout(&mut self, now: Duration) -> Option<Gossip> {
        if now < self.next { None } else { Some(self.say(now)) }
    }

    fn say(&mut self, now: Duration) -> Gossip {
        self.next = now + PING_INTERVAL;
        if !core::mem::take(&mut self.invalid) {
            return Gossip::Ping;
        }
        self.greeted = now;
        Gossip::Hello
    }
}
