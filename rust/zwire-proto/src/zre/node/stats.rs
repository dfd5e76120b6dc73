//! Counters of a node.

/// Counters since the start. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZreNodeStats {
    /// Beacons sent, one per interface.
    pub beacons_out: u64,
    /// Beacons of other nodes.
    pub beacons_in: u64,
    /// Beacons of this node itself.
    pub beacons_own: u64,
    /// Datagrams that are no beacon.
    pub beacons_malformed: u64,
    /// Beacons with a key if this node has none, or without a key if it has one.
    pub beacons_security: u64,
    /// New UUIDs refused for lack of room, and those replaced by newer ones.
    pub unanswered_dropped: u64,
    /// HELLO messages refused because the table of peers is full.
    pub peers_refused: u64,
    /// Messages sent.
    pub messages_out: u64,
    /// Messages that decoded and were expected.
    pub messages_in: u64,
    /// Messages of connections without a node's identity, or with this node's own.
    pub unknown_identities: u64,
    /// Messages before a HELLO.
    pub before_hello: u64,
    /// HELLO messages of a generation that is not configured.
    pub foreign_generation: u64,
    /// HELLO messages without a key, or with another one than the beacon.
    pub hello_security: u64,
    /// Messages that do not decode.
    pub malformed: u64,
    /// Breaks in the sequence of a peer.
    pub gaps: u64,
    /// Group status values that did not fit the number of changes, and were adopted.
    pub status_repaired: u64,
    /// Groups of a peer beyond the bound.
    pub groups_dropped: u64,
    /// Sessions that this node renewed.
    pub renewed: u64,
}

impl ZreNodeStats {
    /// The counters by name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("beacons_out", self.beacons_out),
            ("beacons_in", self.beacons_in),
            ("beacons_own", self.beacons_own),
            ("beacons_malformed", self.beacons_malformed),
            ("beacons_security", self.beacons_security),
            ("unanswered_dropped", self.unanswered_dropped),
            ("peers_refused", self.peers_refused),
            ("messages_out", self.messages_out),
            ("messages_in", self.messages_in),
            ("unknown_identities", self.unknown_identities),
            ("before_hello", self.before_hello),
            ("foreign_generation", self.foreign_generation),
            ("hello_security", self.hello_security),
            ("malformed", self.malformed),
            ("gaps", self.gaps),
            ("status_repaired", self.status_repaired),
            ("groups_dropped", self.groups_dropped),
            ("renewed", self.renewed),
        ]
        .into_iter()
    }
}
