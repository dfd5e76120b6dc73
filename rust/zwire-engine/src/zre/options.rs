//! Options of a node before it starts, beyond those of the machine.

use super::interfaces::Selector;
use crate::{
    config::SharedMemory,
    rt::queue::{Bounds, Overflow},
};
use core::{fmt, ops::RangeInclusive, time::Duration};
use std::sync::Arc;
use zwire_proto::zre::{Uuid, node::ZreNodeConfig};

/// Default port of beacons (`zre` 22).
pub const BEACON_PORT: u16 = 5670;

/// Range of mailbox ports, as in the RFCs.
pub const MAILBOX_PORTS: RangeInclusive<u16> = 49152..=65535;

/// Most messages that wait for one peer: 100 a second for the 30 seconds after which a silent peer
/// expires (RFC 20).
pub const HIGH_WATER_MARK: usize = 3000;

/// Most bytes that wait for one peer.
pub const HIGH_WATER_BYTES: usize = 64 << 20;

/// Largest message of a peer.
pub const MAX_MESSAGE_SIZE: usize = 64 << 20;

/// Bounds of the events that wait for the application.
pub const EVENTS: Bounds = Bounds {
    messages: 65536,
    bytes: 64 << 20,
    overflow: Overflow::Wait { deadline: Duration::from_secs(2) },
};

/// CURVE keys of a node (43/ZRE).
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// Public key, sent to peers.
    pub public: [u8; 32],
    /// Secret key.
    pub secret: [u8; 32],
}

impl fmt::Debug for Keys {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// Decides which public keys may connect.
pub type Allow = Arc<dyn Fn(&[u8; 32]) -> bool + Send + Sync>;

/// The configuration of a [`Node`](super::Node).
#[derive(Clone)]
pub struct NodeOptions {
    /// Configuration of the machine. `interfaces` and `mailbox` are filled in at the start, the UUID if
    /// `uuid` is given.
    pub machine: ZreNodeConfig,
    /// Interfaces for discovery; empty: all suitable ones.
    pub interfaces: Vec<Selector>,
    /// Port of beacons.
    pub beacon_port: u16,
    /// Address that the mailbox listens on; `*` for all.
    pub bind: String,
    /// Ports for the mailbox; the first free one is used. 0 lets the system choose.
    pub mailbox: RangeInclusive<u16>,
    /// Endpoints of peers that are connected to without discovery, and their CURVE keys.
    pub peers: Vec<(String, Option<[u8; 32]>)>,
    /// Endpoints at which to be a gossip hub.
    pub gossip_bind: Vec<String>,
    /// Gossip hubs to connect to.
    pub gossip_connect: Vec<String>,
    /// Groups in which the node contests the leadership.
    pub contest: Vec<String>,
    /// Keys of the node. If set, everything is encrypted, and peers without a key are refused.
    pub keys: Option<Keys>,
    /// Filter for the keys of peers; `None` accepts every key.
    pub allow: Option<Allow>,
    /// Most messages that wait for one peer.
    pub high_water_mark: usize,
    /// Most bytes that wait for one peer.
    pub high_water_bytes: usize,
    /// Largest message of a peer.
    pub max_message_size: usize,
    /// Interval of ZMTP PINGs on connections; a dead one is closed when its peer has expired.
    pub heartbeat: Option<Duration>,
    /// Bounds of the events that wait for the application.
    pub events: Bounds,
    /// Memory for large frames, which peers on the same host read there.
    pub shared_memory: SharedMemory,
}

impl fmt::Debug for NodeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeOptions").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl NodeOptions {
    /// The default options, for a node of this UUID.
    #[must_use]
    pub fn new(uuid: Uuid) -> Self {
        Self {
            machine: ZreNodeConfig::new(uuid),
            interfaces: Vec::new(),
            beacon_port: BEACON_PORT,
            bind: "*".to_owned(),
            mailbox: MAILBOX_PORTS,
            peers: Vec::new(),
            gossip_bind: Vec::new(),
            gossip_connect: Vec::new(),
            contest: Vec::new(),
            keys: None,
            allow: None,
            high_water_mark: HIGH_WATER_MARK,
            high_water_bytes: HIGH_WATER_BYTES,
            max_message_size: MAX_MESSAGE_SIZE,
            heartbeat: Some(Duration::from_secs(5)),
            events: EVENTS,
            shared_memory: SharedMemory::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, zre::Node};

    /// A build without the feature `curve` refuses keys before the start.
    #[test]
    fn keys_need_curve() {
        let mut options = NodeOptions::new(Uuid::from_bytes([7; 16]));
        options.machine.beacon_interval = None;
        options.keys = Some(Keys { public: [1; 32], secret: [2; 32] });
        let error = Node::new(options).err();
        assert_eq!(error.is_none(), cfg!(feature = "curve"), "{error:?}");
        if let Some(error) = error {
            assert!(matches!(error, Error::NoCurve), "{error}");
            assert!(error.to_string().contains("no CURVE (feature `curve`)"), "{error}");
        }
    }
}
