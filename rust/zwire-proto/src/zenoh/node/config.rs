//! Configuration of a node.

use super::ids::FaceId;
use crate::{
    Text,
    zenoh::{WhatAmI, ZenohId, hlc::MAX_DELTA},
};
use core::time::Duration;
use std::collections::BTreeMap;

/// The two modes in which a node routes. A client has one neighbour and nothing to route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeMode {
    /// A hub: clients and peers connect to it.
    Router,
    /// A member of a mesh: forwards for its own clients, never between two other peers.
    Peer,
}

impl From<NodeMode> for WhatAmI {
    fn from(mode: NodeMode) -> Self {
        match mode {
            NodeMode::Router => Self::Router,
            NodeMode::Peer => Self::Peer,
        }
    }
}

/// Kind of connection between a face and the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaceKind {
    /// A session of the same process: a client, whatever role its remote has.
    Local,
    /// A link, or several that carry one transport, to one other node.
    Unicast,
    /// A multicast group: messages sent to it reach all members. Its remote is this node itself, and no
    /// messages come from it.
    Group,
    /// A member of that group, from which messages come. No messages are sent to it alone. It goes down
    /// before its group does.
    Member {
        /// The face of the group.
        group: FaceId,
    },
}

/// Contents of gossip: what neighbours are told about each other (`zenoh-behaviour` 1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GossipConfig {
    /// Whether gossip contains locators. Without them no node connects because of it.
    pub enabled: bool,
    /// Whether gossip contains nodes beyond the neighbours, too.
    pub multihop: bool,
    /// Roles that gossip contains, as the mask of SCOUT: router 1, peer 2, client 4.
    pub target: u8,
}

impl Default for GossipConfig {
    /// Enabled, one hop, routers and peers.
    fn default() -> Self {
        Self { enabled: true, multihop: false, target: 3 }
    }
}

/// The configuration of a [`Node`](super::Node).
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The id of the node; signs its timestamps.
    pub zid: ZenohId,
    /// Role of the node.
    pub mode: NodeMode,
    /// Locators on which the node listens, announced by gossip; see
    /// [`Node::set_locators`](super::Node::set_locators).
    pub locators: Vec<Text>,
    /// Contents of gossip.
    pub gossip: GossipConfig,
    /// Costs of links to other routers, by their ids; 100 for links without an entry. The greater of
    /// the costs announced by the two ends counts.
    pub transport_weights: BTreeMap<ZenohId, u16>,
    /// Whether a PUT without timestamp gets one, and timestamps of the future are replaced or their
    /// messages dropped.
    pub timestamping: bool,
    /// Whether a PUT with a timestamp of the future is dropped instead of stamped anew.
    pub drop_future_timestamp: bool,
    /// Largest accepted lead of a timestamp over the local clock.
    pub max_drift: Duration,
    /// Timeout of a query branch for queries that name none. After it the querier gets the error
    /// `Timeout` and the end of that branch.
    pub query_timeout: Duration,
    /// Longest wait of an interest for neighbours that were asked on its behalf. After it the querying
    /// face gets D_FINAL, although declarations may still be missing.
    pub interest_timeout: Duration,
    /// Resource limits of a face.
    pub limits: FaceLimits,
}

impl NodeConfig {
    /// The defaults of Eclipse Zenoh (`zenoh-behaviour` 1.3, 2.14): a router stamps, a peer does not.
    #[must_use]
    pub fn new(zid: ZenohId, mode: NodeMode) -> Self {
        Self {
            zid,
            mode,
            locators: Vec::new(),
            gossip: GossipConfig::default(),
            transport_weights: BTreeMap::new(),
            timestamping: mode == NodeMode::Router,
            drop_future_timestamp: false,
            max_drift: MAX_DELTA,
            query_timeout: Duration::from_secs(10),
            interest_timeout: Duration::from_secs(10),
            limits: FaceLimits::default(),
        }
    }
}

/// Resource limits of a face. Beyond a bound of declared state the face is closed, with the reason that
/// the error names; other faces are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceLimits {
    /// Bytes of declared keys, entities and interests, each with a surcharge for the memory of its
    /// entry. The default of 32 MiB holds about 40 000 subscribers on keys of usual length.
    pub table_bytes: usize,
    /// Bytes of the declarations of all faces together, made and sent. Beyond it a face may still use half of an
    /// equal part. The default of 1 GiB holds about 1.2 million subscribers.
    pub node_bytes: usize,
    /// Most open interests. Each costs a comparison whenever a face declares something. The default of
    /// 16 384 allows as many publishers in one session.
    pub interests: usize,
    /// Most open queries of a querying face. The default of 65 536 takes 20 MiB.
    pub queries: usize,
    /// Bytes of the declarations of all other routers of the network together, as reported by one link.
    /// A link that exceeds the bound is closed. The default of 256 MiB holds about 300 000 subscribers.
    pub network_bytes: usize,
    /// Bytes of cached routes. Beyond it the older half is dropped and computed again when needed. The
    /// default of 8 MiB holds 20 000 keys of usual length.
    pub route_cache_bytes: usize,
}

impl FaceLimits {
    /// The default limits, in a process that may use so much memory: an eighth of it for declarations, and a
    /// sixteenth for those of other routers.
    #[must_use]
    pub fn within(memory: u64) -> Self {
        let all = Self::default();
        let part = |bytes: usize, part: u64| bytes.min(usize::try_from(memory / part).unwrap_or(bytes));
        Self {
            table_bytes: part(all.table_bytes, 16).max(MIN_TABLE),
            node_bytes: part(all.node_bytes, 8).max(MIN_TABLE),
            network_bytes: part(all.network_bytes, 16).max(MIN_TABLE),
            route_cache_bytes: part(all.route_cache_bytes, 64).max(MIN_TABLE / 4),
            ..all
        }
    }
}

/// Least bound of declarations, however little memory there is: a node without any serves no purpose.
const MIN_TABLE: usize = 1 << 20;

impl Default for FaceLimits {
    fn default() -> Self {
        Self {
            table_bytes: 32 << 20,
            node_bytes: 1 << 30,
            interests: 16_384,
            queries: 65_536,
            network_bytes: 256 << 20,
            route_cache_bytes: 8 << 20,
        }
    }
}
