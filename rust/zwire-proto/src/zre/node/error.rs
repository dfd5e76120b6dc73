//! What a command refuses. Always the caller's affair: nothing a peer sends is an error of the node.

use super::super::{Uuid, wire::EncodeError};
use crate::Text;
use thiserror::Error;

/// A command that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeError {
    /// After `stop`.
    #[error("the node is stopped; start another one, with another UUID")]
    Stopped,
    /// Peers could not be told where to connect.
    #[error("the node has no address: give it an interface or `advertise`")]
    NoAddress,
    /// What `advertise` holds.
    #[error("`{endpoint}` is no endpoint of the form tcp://host:port")]
    Endpoint {
        /// What was given.
        endpoint: Text,
    },
    /// A node with a key, and an endpoint without, or the other way.
    #[error("`{endpoint}` {}", if *.needed { "needs a public key: this node has one and meets only such" } else { "has a public key, and this node has none" })]
    EndpointKey {
        /// What was given.
        endpoint: Text,
        /// The endpoint needs one.
        needed: bool,
    },
    /// More endpoints than a node keeps trying.
    #[error("a node has {bound} endpoints at most")]
    TooManyEndpoints {
        /// The bound.
        bound: usize,
    },
    /// An empty set.
    #[error("a node speaks at least one generation")]
    NoGeneration,
    /// A key, and a generation that knows none.
    #[error("CURVE came with 43/ZRE; a node with a key cannot speak to peers before 36/ZRE")]
    SecureLegacy,
    /// Z36 takes a key that begins with a zero octet for no key.
    #[error("peers ignore a public key whose first octet is zero; make another one")]
    KeyBeginsWithZero,
    /// What no peer of the configured generations could be told.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// No such peer, or none that has said HELLO.
    #[error("no peer {peer}")]
    UnknownPeer {
        /// Who was named.
        peer: Uuid,
    },
    /// Its connection failed, and another one is not yet there.
    #[error("peer {peer} does not take messages at present")]
    NotResponding {
        /// Who was named.
        peer: Uuid,
    },
    /// A contest is for a group that the node is in.
    #[error("the node is not in the group {group}")]
    NotInGroup {
        /// Which.
        group: Text,
    },
}
