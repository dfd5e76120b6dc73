//! [`Options`] of a bridge.

use core::time::Duration;
use zwire_engine::zre::NodeOptions;
use zwire_proto::bridge::{GroupRule, LaneBounds, Network};

/// Form in which Zenoh appears in the ZRE network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As one node, that of the bridge.
    #[default]
    One,
    /// As one node for each peer of other bridges and programs, beside that of the bridge.
    Mirror,
    /// Not at all: nothing goes from Zenoh to ZRE.
    Observer,
}

impl Mode {
    /// Name of the mode.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Mirror => "mirror",
            Self::Observer => "observer",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        [Self::One, Self::Mirror, Self::Observer].into_iter().find(|mode| mode.name() == name)
    }
}

/// Options of a bridge.
#[derive(Clone, Debug)]
pub struct Options {
    /// Network, the prefix of its keys.
    pub network: Network,
    /// Form in which Zenoh appears in the ZRE network.
    pub mode: Mode,
    /// Groups that cross; none unless named.
    pub groups: Vec<GroupRule>,
    /// Whether WHISPERs cross.
    pub whispers: bool,
    /// Most WHISPERs of a sender in a second.
    pub whisper_rate: Option<u32>,
    /// Whether the bridge collects ZRE/LOG of its peers, and publishes the records.
    pub log: bool,
    /// Options of the ZRE node of the bridge. Nodes of the mirror mode have the same but for name, UUID and headers.
    pub node: NodeOptions,
    /// Most nodes of the mirror mode: each costs a connection to every peer of the LAN.
    pub virtual_nodes: usize,
    /// Bounds of the messages that wait, for each direction.
    pub lanes: LaneBounds,
    /// Time that a full queue of a ZRE peer is waited for. A peer that is slower loses messages and begins a new session.
    pub patience: Duration,
}

impl Options {
    /// Most nodes of the mirror mode, by default.
    pub const VIRTUAL_NODES: usize = 200;

    /// Options with defaults.
    #[must_use]
    pub fn new(network: Network, node: NodeOptions) -> Self {
        Self {
            network,
            mode: Mode::One,
            groups: Vec::new(),
            whispers: true,
            whisper_rate: None,
            log: false,
            node,
            virtual_nodes: Self::VIRTUAL_NODES,
            lanes: LaneBounds::default(),
            patience: Duration::from_millis(50),
        }
    }
}
