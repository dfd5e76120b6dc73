//! Configuration of a node.

use super::super::{Generations, Uuid, limits};
use crate::Text;
use core::{net::IpAddr, time::Duration};

/// An address of this host, with the prefix of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The address announced to peers of this network.
    pub address: IpAddr,
    /// Length of the network prefix, in bits.
    pub prefix: u8,
}

impl Interface {
    /// Whether an address belongs to the same network.
    #[must_use]
    pub fn contains(&self, other: IpAddr) -> bool {
        let (own, other, width) = match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        let differ: u128 = own ^ other;
        differ.checked_shr(width - u32::from(self.prefix).min(width)).unwrap_or(0) == 0
    }
}

/// The configuration of a [`ZreNode`](super::ZreNode). The times are those of `zre` 22, last column.
#[derive(Clone, Debug)]
pub struct ZreNodeConfig {
    /// UUID of the node; a new one for each start.
    pub uuid: Uuid,
    /// Name of the node; by default the first six digits of the UUID.
    pub name: Text,
    /// Headers of its HELLO.
    pub headers: Vec<(Text, Text)>,
    /// Generations that the node speaks. With several it waits for the HELLO of a peer before it sends
    /// its own.
    pub generations: Generations,
    /// Addresses at which the node can be reached; it sends beacons to their networks.
    pub interfaces: Vec<Interface>,
    /// Port of the ROUTER.
    pub mailbox: u16,
    /// `tcp://host:port` to announce instead of interface and mailbox, for a node behind an address
    /// translation.
    pub advertise: Option<Text>,
    /// Interval of beacons; `None`: no beacons, the node is found by gossip or by HELLO.
    pub beacon_interval: Option<Duration>,
    /// Silence after which a peer counts as evasive. It gets a PING one `ping_interval` before.
    pub evasive: Duration,
    /// Silence after which a peer expires.
    pub expired: Duration,
    /// Interval of PING to a silent peer; also the delay before a failed connection is retried.
    pub ping_interval: Duration,
    /// Time that a node of several generations waits for the HELLO of a peer.
    pub detection_wait: Duration,
    /// CURVE key of a node that requires CURVE (RFC 43). Only for generations from 36/ZRE on.
    pub public_key: Option<[u8; 32]>,
    /// Endpoint at which this node collects the log of others (ZRE/LOG).
    pub collector: Option<Text>,
    /// Whether the collector listens on all addresses. Each peer is then given its port at the address that
    /// is announced for the mailbox.
    pub collector_everywhere: bool,
    /// Whether each message sent and received is logged too, as zyre 1.0.0 does when it is verbose.
    pub log_traffic: bool,
    /// Whether all peers from 36/ZRE on understand ELECT and LEADER. Otherwise a peer gets them after
    /// it has sent one: they would end the session with pyre. GOODBYE ends a session anyway, and needs
    /// no such check.
    pub drafts: bool,
    /// Header of peers that get their copy of a SHOUT before the other members. If the process is killed between the
    /// copies, such a peer then has each message that any member has, unless its connection was full.
    pub early: Option<Text>,
    /// Number of messages after which a session is renewed. Needed with pyre, which counts to 65534.
    pub renew_after: Option<u16>,
    /// Most peers.
    pub max_peers: usize,
    /// Most peers without a HELLO.
    pub max_unanswered: usize,
}

impl ZreNodeConfig {
    /// The defaults, without any interface.
    #[must_use]
    pub fn new(uuid: Uuid) -> Self {
        Self {
            uuid,
            name: Text::from(&uuid.to_string()[..6]),
            headers: Vec::new(),
            generations: Generations::default(),
            interfaces: Vec::new(),
            mailbox: 49152,
            advertise: None,
            beacon_interval: Some(Duration::from_secs(1)),
            evasive: Duration::from_secs(5),
            expired: Duration::from_secs(30),
            ping_interval: Duration::from_secs(1),
            detection_wait: Duration::from_millis(300),
            public_key: None,
            collector: None,
            collector_everywhere: false,
            log_traffic: false,
            drafts: false,
            early: None,
            renew_after: None,
            max_peers: limits::MAX_PEERS,
            max_unanswered: limits::MAX_UNANSWERED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let of = |address: &str, prefix| Interface { address: address.parse().unwrap(), prefix };
        let lan = of("10.99.0.3", 24);
        assert!(lan.contains("10.99.0.200".parse().unwrap()));
        assert!(!lan.contains("10.99.1.3".parse().unwrap()));
        assert!(!lan.contains("fe80::1".parse().unwrap()));
        assert!(of("10.0.0.1", 0).contains("192.168.0.1".parse().unwrap()));
        assert!(!of("10.0.0.1", 32).contains("10.0.0.2".parse().unwrap()));
        assert!(!of("10.0.0.1", 99).contains("10.0.0.2".parse().unwrap()));
        assert!(of("fe80::1", 64).contains("fe80::2".parse().unwrap()));
        assert!(of("fe80::1", 0).contains("::1".parse().unwrap()));
    }
}
