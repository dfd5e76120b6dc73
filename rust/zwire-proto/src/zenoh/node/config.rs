//! What a node is told before it starts.

use super::FaceId;
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
    /// A member of a mesh: speaks for its own clients, never between two other peers.
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

/// How a face is joined to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaceKind {
    /// A session of the same process: a client, whatever its remote says.
    Local,
    /// A link, or several that carry one transport, to one other node.
    Unicast,
    /// A multicast group: what is sent to it, all members hear. Its remote is ourselves, and nothing
    /// comes from it.
    Group,
    /// A member of that group, from which things come. Nothing is sent to it alone. It goes down before
    /// its group does.
    Member {
        /// The face of the group.
        group: FaceId,
    },
}

/// What a node tells its neighbours of each other (`zenoh-behaviour` 1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GossipConfig {
    /// Whether locators are told. Without them nobody connects because of us.
    pub enabled: bool,
    /// Whether nodes beyond the neighbours are told of, too.
    pub multihop: bool,
    /// Which roles are told, as the mask of SCOUT: router 1, peer 2, client 4.
    pub target: u8,
}

impl Default for GossipConfig {
    /// On, one hop, routers and peers.
    fn default() -> Self {
        Self { enabled: true, multihop: false, target: 3 }
    }
}

/// The configuration of a [`Node`](super::Node).
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The id of the node; signs its timestamps.
    pub zid: ZenohId,
    /// Hub or peer.
    pub mode: NodeMode,
    /// Where the node listens, which gossip tells; see [`Node::set_locators`](super::Node::set_locators).
    pub locators: Vec<Text>,
    /// What neighbours are told of each other.
    pub gossip: GossipConfig,
    /// Costs of links to other routers, by their ids; 100 where there is none. The greater of what the
    /// two ends say counts.
    pub transport_weights: BTreeMap<ZenohId, u16>,
    /// Whether a PUT without timestamp gets one, and timestamps of the future are not let through.
    pub timestamping: bool,
    /// A PUT with a timestamp of the future is dropped instead of stamped anew.
    pub drop_future_timestamp: bool,
    /// How far ahead of our clock a timestamp may lie.
    pub max_drift: Duration,
    /// How long a branch of a query may take that names no timeout. After it the asker gets the
    /// error `Timeout` and the end of that branch.
    pub query_timeout: Duration,
    /// How long an interest may wait for neighbours that were asked on its behalf. After it the asker
    /// is told that it has heard everything, which may then not be so.
    pub interest_timeout: Duration,
    /// What one face may cost.
    pub limits: FaceLimits,
}

impl NodeConfig {
    /// The defaults of the reference (`zenoh-behaviour` 1.3, 2.14): a router stamps, a peer does not.
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

/// What one face may cost the node. Beyond a bound of declared state the face is closed, with the
/// reason that the error names; nobody else notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceLimits {
    /// Bytes of declared keys, entities and interests, each with a surcharge for the memory of its
    /// entry. The default of 32 MiB holds about 60 000 subscribers on keys of usual length.
    pub table_bytes: usize,
    /// Interests alive. Each costs a comparison whenever somebody declares something. The default of
    /// 16 384 is that many publishers in one session.
    pub interests: usize,
    /// Queries that wait for their end, of the face that asks. The default of 65 536 is 20 MiB.
    pub queries: usize,
    /// Bytes of what all other routers of the network declared together, beside what each link costs.
    /// Whoever tells of more is closed. The default of 256 MiB holds about 300 000 subscribers.
    pub network_bytes: usize,
    /// Bytes of remembered routes. Beyond it the oldest half is forgotten and, where it is needed
    /// again, worked out again. The default of 8 MiB holds 20 000 keys of usual length.
    pub route_cache_bytes: usize,
}

impl Default for FaceLimits {
    fn default() -> Self {
        Self {
            table_bytes: 32 << 20,
            interests: 16_384,
            queries: 65_536,
            network_bytes: 256 << 20,
            route_cache_bytes: 8 << 20,
        }
    }
}
