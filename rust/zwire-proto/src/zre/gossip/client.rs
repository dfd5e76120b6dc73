//! Gossip client: one connection to one hub.

use super::{
    super::wire::{EncodeError, Gossip},
    Heard, Stored,
    session::GossipSession,
};
use crate::Now;
use bytes::Bytes;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

/// Counters of a client. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// HELLO messages sent.
    pub hellos: u64,
    /// Tuples of other nodes received.
    pub heard: u64,
    /// INVALID messages received: the hub had expired this client.
    pub invalid: u64,
    /// Messages that do not decode or that no hub sends.
    pub malformed: u64,
}

/// Publishes tuples at a hub and receives those of other nodes; see the [module](super).
#[derive(Debug, Default)]
pub struct Client {
    own: BTreeMap<Bytes, Stored>,
    /// State of the connection while it is open.
    session: Option<GossipSession>,
    transmits: VecDeque<Bytes>,
    events: VecDeque<Heard>,
    stats: ClientStats,
}

impl Client {
    /// A client without an open connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes a tuple now, and again whenever the hub answers INVALID.
    ///
    /// # Errors
    /// A key or value that is not UTF-8 or is too long.
    pub fn publish(&mut self, now: Now, key: &Bytes, value: &Bytes) -> Result<(), EncodeError> {
        let stored = Stored::new(now.mono, key, value)?;
        if self.session.is_some() {
            self.transmits.push_back(stored.frame.clone());
        }
        self.own.insert(stored.key.clone(), stored);
        Ok(())
    }

    /// The connection is open: a new one, or the same one again.
    pub fn handle_opened(&mut self, now: Now) {
        self.session = Some(GossipSession::open(now.mono));
        self.say(&Gossip::Hello);
    }

    /// The connection is closed. Frames not yet transmitted are dropped: the next connection starts
    /// anew.
    pub fn handle_closed(&mut self) {
        self.session = None;
        self.transmits.clear();
    }

    /// A message of the hub.
    pub fn handle_message(&mut self, now: Now, frame: &Bytes) {
        let Some(session) = &mut self.session else { return };
        match Gossip::decode(frame) {
            Ok(Gossip::Publish { key, value, .. }) => {
                // A hub also sends a tuple back to its publisher.
                if !self.own.contains_key(&key) {
                    self.stats.heard += 1;
                    self.events.push_back(Heard { key, value });
                }
            }
            Ok(Gossip::Invalid) => {
                self.stats.invalid += 1;
                let say = session.handle_invalid(now.mono);
                say.into_iter().for_each(|say| self.say(&say));
            }
            Ok(Gossip::Pong) => {}
            Ok(Gossip::Hello | Gossip::Ping) | Err(_) => self.stats.malformed += 1,
        }
    }

    /// Call at the deadline of [`poll_timeout`](Self::poll_timeout); an earlier call has no effect.
    pub fn handle_timeout(&mut self, now: Now) {
        let say = self.session.as_mut().and_then(|session| session.handle_timeout(now.mono));
        say.into_iter().for_each(|say| self.say(&say));
    }

    /// The next frame for the hub.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        self.transmits.pop_front()
    }

    /// The next tuple of another node.
    pub fn poll_event(&mut self) -> Option<Heard> {
        self.events.pop_front()
    }

    /// Deadline of [`handle_timeout`](Self::handle_timeout), in monotonic time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.session.as_ref().map(|session| session.next)
    }

    /// Whether the connection is open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.session.is_some()
    }

    /// The counters.
    #[must_use]
    pub const fn stats(&self) -> &ClientStats {
        &self.stats
    }

    fn say(&mut self, say: &Gossip) {
        // HELLO and PING have no fields that an encoder could refuse.
        self.transmits.extend(say.encode());
        if *say == Gossip::Hello {
            self.stats.hellos += 1;
            self.transmits.extend(self.own.values().map(|tuple| tuple.frame.clone()));
        }
    }
}
