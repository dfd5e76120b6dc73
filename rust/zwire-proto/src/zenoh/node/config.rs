//! What a node is told before it starts.

use crate::{
    Text,
    zenoh::{WhatAmI, ZenohId},
};
use core::time::Duration;

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

/// The configuration of a [`Node`](super::Node).
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The id of the node; signs its timestamps.
    pub zid: ZenohId,
    /// Hub or peer.
    pub mode: NodeMode,
    /// Where the node listens; a peer tells its neighbours.
    pub locators: Vec<Text>,
    /// Whether a PUT without timestamp gets one, and timestamps of the future are not let through.
    pub timestamping: bool,
    /// A PUT with a timestamp of the future is dropped instead of stamped anew.
    pub drop_future_timestamp: bool,
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
    /// The defaults of the reference (`zenoh-behaviour` 2.14): a router stamps, a peer does not.
    #[must_use]
    pub fn new(zid: ZenohId, mode: NodeMode) -> Self {
        Self {
            zid,
            mode,
            locators: Vec::new(),
            timestamping: mode == NodeMode::Router,
            drop_future_timestamp: false,
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
    /// Bytes of remembered routes. Beyond it the oldest half is forgotten and, where it is needed
    /// again, worked out again. The default of 8 MiB holds 20 000 keys of usual length.
    pub route_cache_bytes: usize,
}

impl Default for FaceLimits {
    fn default() -> Self {
        Self { table_bytes: 32 << 20, interests: 16_384, queries: 65_536, route_cache_bytes: 8 << 20 }
    }
}
