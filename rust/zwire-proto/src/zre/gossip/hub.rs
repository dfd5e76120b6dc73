//! Gossip hub: the table of all tuples, its clients, and connections to other hubs.

use super::{
    super::{
        limits,
        wire::{EncodeError, Gossip},
    },
    CLIENT_EXPIRY, Heard, Stored,
    session::GossipSession,
};
use crate::Now;
use bytes::Bytes;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

/// Shortest time between two changes of a tuple's value. Two hubs with different values of one key
/// would otherwise exchange them endlessly, as those of czmq do.
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);

/// Configuration of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubConfig {
    /// Silence after which a client is expired.
    pub client_expiry: Duration,
    /// Most clients.
    pub max_clients: usize,
    /// Most tuples.
    pub max_tuples: usize,
    /// Most octets of keys and values.
    pub max_bytes: usize,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            client_expiry: CLIENT_EXPIRY,
            max_clients: limits::MAX_GOSSIP_CLIENTS,
            max_tuples: limits::MAX_GOSSIP_TUPLES,
            max_bytes: limits::MAX_GOSSIP_BYTES,
        }
    }
}

/// Counters of a hub. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HubStats {
    /// Tuples that were new or had a new value.
    pub accepted: u64,
    /// Tuples that were known.
    pub repeated: u64,
    /// Tuples refused: the table is full, the value changed too often, the key is this node's own, or
    /// the tuple cannot be forwarded.
    pub refused: u64,
    /// HELLO messages refused because the client table is full.
    pub clients_refused: u64,
    /// Clients that were silent for too long.
    pub clients_expired: u64,
    /// INVALID messages sent.
    pub invalid: u64,
    /// Messages that do not decode.
    pub malformed: u64,
}

/// Keeps all tuples and forwards new ones; see the [module](super).
#[derive(Debug, Default)]
pub struct Hub {
    config: HubConfig,
    tuples: BTreeMap<Bytes, Stored>,
    own: HashSet<Bytes>,
    bytes: usize,
    /// Time of the last message of each client.
    clients: BTreeMap<u64, Duration>,
    /// Same data ordered by time, the most silent client first.
    silence: BTreeSet<(Duration, u64)>,
    /// Connections that this hub opened to other hubs.
    remotes: BTreeMap<u64, GossipSession>,
    transmits: VecDeque<(u64, Bytes)>,
    events: VecDeque<Heard>,
    stats: HubStats,
}

impl Hub {
    /// A hub without tuples.
    #[must_use]
    pub fn new(config: HubConfig) -> Self {
        Self { config, ..Self::default() }
    }

    // Commands.

    /// Publishes a tuple of this node. No other node can change it.
    ///
    /// # Errors
    /// A key or value that is not UTF-8 or is too long.
    pub fn publish(&mut self, now: Now, key: &Bytes, value: &Bytes) -> Result<(), EncodeError> {
        let stored = Stored::new(now.mono, key, value)?;
        self.own.insert(stored.key.clone());
        if self.tuples.get(key).is_none_or(|known| known.value != value) {
            self.store(stored);
        }
        Ok(())
    }

    /// Removes a tuple, for instance of a node that left. Other hubs keep it: the protocol has no
    /// removal.
    pub fn remove(&mut self, key: &Bytes) -> bool {
        self.own.remove(key);
        let Some(tuple) = self.tuples.remove(key) else { return false };
        self.bytes -= tuple.len();
        true
    }

    // Inputs.

    /// A connection that this hub opened to another hub is up.
    pub fn handle_connected(&mut self, now: Now, connection: u64) {
        self.remotes.insert(connection, GossipSession::open(now.mono));
        self.say(connection, &Gossip::Hello);
    }

    /// A connection is closed, whichever side opened it.
    pub fn handle_closed(&mut self, connection: u64) {
        self.remotes.remove(&connection);
        self.forget(connection);
        self.transmits.retain(|(to, _)| *to != connection);
    }

    /// A message from a connection, whichever side opened it.
    pub fn handle_message(&mut self, now: Now, connection: u64, frame: &Bytes) {
        let Ok(message) = Gossip::decode(frame) else {
            self.stats.malformed += 1;
            return;
        };
        if let Some(session) = self.remotes.get_mut(&connection) {
            match message {
                Gossip::Publish { key, value, .. } => self.accept(now, &key, &value),
                Gossip::Invalid => {
                    let say = session.handle_invalid(now.mono);
                    say.into_iter().for_each(|say| self.say(connection, &say));
                }
                Gossip::Pong => {}
                Gossip::Hello | Gossip::Ping => self.stats.malformed += 1,
            }
            return;
        }
        self.expire(now);
        match (message, self.clients.contains_key(&connection)) {
            (Gossip::Hello, false) => self.welcome(now, connection),
            (Gossip::Publish { key, value, .. }, true) => {
                self.hear(now, connection);
                self.accept(now, &key, &value);
            }
            (Gossip::Ping, true) => {
                self.hear(now, connection);
                self.transmit(connection, &Gossip::Pong);
            }
            // Includes a second HELLO: a client that repeats it would get the whole table each time.
            _ => {
                self.forget(connection);
                self.refuse(connection);
            }
        }
    }

    /// Call at the deadline of [`poll_timeout`](Self::poll_timeout); an earlier call has no effect.
    pub fn handle_timeout(&mut self, now: Now) {
        self.expire(now);
        let due = self.remotes.iter_mut().filter_map(|(connection, session)| {
            session.handle_timeout(now.mono).map(|say| (*connection, say))
        });
        for (connection, say) in due.collect::<Vec<_>>() {
            self.say(connection, &say);
        }
    }

    // Outputs.

    /// The next frame, and its connection.
    pub fn poll_transmit(&mut self) -> Option<(u64, Bytes)> {
        self.transmits.pop_front()
    }

    /// The next tuple of another node.
    pub fn poll_event(&mut self) -> Option<Heard> {
        self.events.pop_front()
    }

    /// Deadline of [`handle_timeout`](Self::handle_timeout), in monotonic time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let silent = self.silence.first().map(|(heard, _)| *heard + self.config.client_expiry);
        self.remotes.values().map(|session| session.next).chain(silent).min()
    }

    // Getters.

    /// All tuples, by key.
    pub fn tuples(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.tuples.values().map(|tuple| (&tuple.key, &tuple.value))
    }

    /// Number of clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Octets of all keys and values.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The counters.
    #[must_use]
    pub const fn stats(&self) -> &HubStats {
        &self.stats
    }

    fn welcome(&mut self, now: Now, connection: u64) {
        if self.clients.len() >= self.config.max_clients {
            self.stats.clients_refused += 1;
            return self.refuse(connection);
        }
        self.clients.insert(connection, now.mono);
        self.silence.insert((now.mono, connection));
        self.transmits.extend(self.tuples.values().map(|tuple| (connection, tuple.frame.clone())));
    }

    fn accept(&mut self, now: Now, key: &Bytes, value: &Bytes) {
        let known = self.tuples.get(key);
        if known.is_some_and(|known| known.value == value) {
            self.stats.repeated += 1;
            if !self.own.contains(key) {
                self.events.push_back(Heard { key: key.clone(), value: value.clone() });
            }
            return;
        }
        let full = known.is_none() && self.tuples.len() >= self.config.max_tuples;
        let replaced = known.map_or(0, Stored::len);
        let large = self.bytes - replaced + key.len() + value.len() > self.config.max_bytes;
        let hasty = known.is_some_and(|known| now.mono < known.since + CHANGE_INTERVAL);
        let stored = Stored::new(now.mono, key, value);
        match stored {
            Ok(stored) if !full && !large && !hasty && !self.own.contains(key) => {
                self.stats.accepted += 1;
                self.events.push_back(Heard { key: stored.key.clone(), value: stored.value.clone() });
                self.store(stored);
            }
            _ => self.stats.refused += 1,
        }
    }

    /// Stores a tuple and forwards it to all connections, like czmq also to the one it came from.
    fn store(&mut self, stored: Stored) {
        let all = self.clients.keys().chain(self.remotes.keys());
        self.transmits.extend(all.map(|connection| (*connection, stored.frame.clone())));
        self.bytes += stored.len();
        if let Some(old) = self.tuples.insert(stored.key.clone(), stored) {
            self.bytes -= old.len();
        }
    }

    fn hear(&mut self, now: Now, connection: u64) {
        if let Some(heard) = self.clients.get_mut(&connection) {
            self.silence.remove(&(*heard, connection));
            *heard = now.mono;
            self.silence.insert((now.mono, connection));
        }
    }

    fn forget(&mut self, connection: u64) {
        if let Some(heard) = self.clients.remove(&connection) {
            self.silence.remove(&(heard, connection));
        }
    }

    fn expire(&mut self, now: Now) {
        while let Some((heard, connection)) = self.silence.first().copied()
            && heard + self.config.client_expiry <= now.mono
        {
            self.stats.clients_expired += 1;
            self.forget(connection);
        }
    }

    fn refuse(&mut self, connection: u64) {
        self.stats.invalid += 1;
        self.transmit(connection, &Gossip::Invalid);
    }

    fn say(&mut self, connection: u64, say: &Gossip) {
        self.transmit(connection, say);
        if *say == Gossip::Hello {
            self.transmits.extend(self.tuples.values().map(|tuple| (connection, tuple.frame.clone())));
        }
    }

    /// Sends a message without fields, which no encoder refuses.
    fn transmit(&mut self, connection: u64, message: &Gossip) {
        self.transmits.extend(message.encode().map(|frame| (connection, frame)));
    }
}
