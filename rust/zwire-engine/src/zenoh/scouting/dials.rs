//! [`Dials`]: nodes that were found, and when to connect to them.

use parking_lot::Mutex;
use tokio::sync::Notify;
use zwire_proto::zenoh::discovery::Candidates;

/// Way in which a node was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// Found by its answer to a SCOUT.
    Multicast,
    /// Found by gossip of a neighbour.
    Gossip,
}

/// Nodes that were found, and the attempts to connect to them.
#[derive(Default)]
pub(crate) struct Dials {
    pub(super) candidates: Mutex<Candidates>,
    pub(super) changed: Notify,
}
