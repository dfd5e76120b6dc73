//! Counters of a node.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Counters since the start. They only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ZreNodeStats {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl ZreNodeStats {
            /// The counters by name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),+].into_iter()
            }
        }
    };
}

counters! {
    /// Beacons sent, one per interface.
    beacons_out,
    /// Beacons of other nodes.
    beacons_in,
    /// Beacons of this node itself.
    beacons_own,
    /// Datagrams that are no beacon.
    beacons_malformed,
    /// Beacons with a key if this node has none, or without a key if it has one.
    beacons_security,
    /// New UUIDs refused for lack of room, and those replaced by newer ones.
    unanswered_dropped,
    /// HELLO messages refused because the table of peers is full.
    peers_refused,
    /// Endpoints of HELLO messages that this node did not connect to, because they are of another host than the
    /// connection, and peers with a key that is not allowed.
    endpoints_refused,
    /// Messages sent.
    messages_out,
    /// Messages that decoded and were expected.
    messages_in,
    /// Messages of connections without a node's identity, or with this node's own.
    unknown_identities,
    /// Messages before a HELLO.
    before_hello,
    /// HELLO messages of a generation that is not configured.
    foreign_generation,
    /// HELLO messages without a key, or with another one than the beacon.
    hello_security,
    /// Messages that do not decode.
    malformed,
    /// Breaks in the sequence of a peer.
    gaps,
    /// Group status values that did not fit the number of changes, and were adopted.
    status_repaired,
    /// Groups of a peer beyond the bound.
    groups_dropped,
    /// Sessions that this node renewed.
    renewed,
}
