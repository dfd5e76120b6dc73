//! What a node is told before it starts, beyond what the machine wants to know.

use super::interfaces::Selector;
use crate::rt::queue::{Bounds, Overflow};
use core::{fmt, ops::RangeInclusive, time::Duration};
use std::sync::Arc;
use zwire_proto::zre::{Uuid, node::NodeConfig};

/// The port of beacons (`zre` 22).
pub const BEACON_PORT: u16 = 5670;

/// Ports of mailboxes, as the RFCs want them.
pub const MAILBOX_PORTS: RangeInclusive<u16> = 49152..=65535;

/// Most messages that wait for one peer: 100 a second, for the 30 seconds after which it is given up
/// (RFC 20).
pub const HIGH_WATER_MARK: usize = 3000;

/// Most bytes that wait for one peer.
pub const HIGH_WATER_BYTES: usize = 64 << 20;

/// Largest message of a peer.
pub const MAX_MESSAGE_SIZE: usize = 64 << 20;

/// Most events that wait for the application, and most bytes of them.
pub const EVENTS: Bounds = Bounds {
    messages: 65536,
    bytes: 64 << 20,
    overflow: Overflow::Wait { deadline: Duration::from_secs(2) },
};

/// The keys of a node that speaks CURVE (43/ZRE).
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// What peers are told.
    pub public: [u8; 32],
    /// What nobody is told.
    pub secret: [u8; 32],
}

impl fmt::Debug for Keys {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// Says which keys may connect.
pub type Allow = Arc<dyn Fn(&[u8; 32]) -> bool + Send + Sync>;

/// The configuration of a [`Node`](super::Node).
#[derive(Clone)]
pub struct NodeOptions {
    /// What the machine wants to know. `interfaces` and `mailbox` are filled in at the start, the UUID if
    /// `uuid` is given.
    pub machine: NodeConfig,
    /// On which interfaces it is found; empty: on all that suit.
    pub interfaces: Vec<Selector>,
    /// The port of discovery.
    pub beacon_port: u16,
    /// The address that the mailbox listens on; `*` for all.
    pub bind: String,
    /// Ports for the mailbox; the first free one is taken. 0 leaves it to the system.
    pub mailbox: RangeInclusive<u16>,
    /// Endpoints of peers that are asked without being found, and their CURVE keys.
    pub peers: Vec<(String, Option<[u8; 32]>)>,
    /// Where to be a hub of gossip.
    pub gossip_bind: Vec<String>,
    /// Hubs of gossip.
    pub gossip_connect: Vec<String>,
    /// Groups that it contests the leadership of.
    pub contest: Vec<String>,
    /// With keys everything is encrypted, and who has none is not spoken to.
    pub keys: Option<Keys>,
    /// Whose keys are let in; nothing: everybody's.
    pub allow: Option<Allow>,
    /// Most messages that wait for one peer.
    pub high_water_mark: usize,
    /// Most bytes that wait for one peer.
    pub high_water_bytes: usize,
    /// Largest message of a peer.
    pub max_message_size: usize,
    /// How often connections are tried by a PING of ZMTP; a dead one is closed when its peer has expired.
    pub heartbeat: Option<Duration>,
    /// What may wait for the application.
    pub events: Bounds,
}

impl fmt::Debug for NodeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeOptions").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl NodeOptions {
    /// The defaults, for a node of this UUID.
    #[must_use]
    pub fn new(uuid: Uuid) -> Self {
        Self {
            machine: NodeConfig::new(uuid),
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
        }
    }
}
