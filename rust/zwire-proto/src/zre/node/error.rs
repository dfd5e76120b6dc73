//! Errors of commands. They are caused by the caller: messages of peers never cause one.

use super::super::{Uuid, wire::EncodeError};
use crate::Text;
use thiserror::Error;

/// Reason why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeError {
    /// Command after `stop`.
    #[error("the node is stopped; start another one, with another UUID")]
    Stopped,
    /// The node has no address to announce to peers.
    #[error("the node has no address: give it an interface or `advertise`")]
    NoAddress,
    /// A malformed `advertise`.
    #[error("`{endpoint}` is no endpoint of the form tcp://host:port")]
    Endpoint {
        /// The configured text.
        endpoint: Text,
    },
    /// A node with a key and an endpoint without one, or the reverse.
    #[error("`{endpoint}` {}", if *.needed { "needs a public key: this node has one and accepts only peers with one" } else { "has a public key, and this node has none" })]
    EndpointKey {
        /// The configured text.
        endpoint: Text,
        /// Whether the endpoint needs a key.
        needed: bool,
    },
    /// More endpoints than a node keeps trying.
    #[error("a node has {bound} endpoints at most")]
    TooManyEndpoints {
        /// The bound.
        bound: usize,
    },
    /// An empty set of generations.
    #[error("a node speaks at least one generation")]
    NoGeneration,
    /// A key together with a generation that has none.
    #[error("CURVE came with 43/ZRE; a node with a key cannot speak to peers before 36/ZRE")]
    SecureLegacy,
    /// Z36 treats a key that begins with a zero octet as no key.
    #[error("peers ignore a public key with a zero first octet; generate another one")]
    KeyBeginsWithZero,
    /// A message that no configured generation can express.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Unknown peer, or one that has not sent HELLO.
    #[error("no peer {peer}")]
    UnknownPeer {
        /// UUID given by the caller.
        peer: Uuid,
    },
    /// The connection failed, and the next one is not up yet.
    #[error("peer {peer} does not take messages at present")]
    NotResponding {
        /// UUID given by the caller.
        peer: Uuid,
    },
    /// A contest is only possible in a group of this node.
    #[error("the node is not in the group {group}")]
    NotInGroup {
        /// Name of the group.
        group: Text,
    },
}
