//! [`Event`]: what has happened to the connections of a socket.

use super::super::CloseReason;
use crate::rt::queue::Weigh;
use bytes::Bytes;
use std::net::SocketAddr;

/// What has happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A handshake is done.
    Connected,
    /// A connection is gone.
    Disconnected(CloseReason),
    /// An attempt to connect, or somebody's who came, has failed.
    Failed(CloseReason),
    /// A peer has come whose identity another one has, and was closed.
    IdentityTaken,
    /// A peer has lost its identity and its connection to a newcomer.
    HandedOver,
}

impl EventKind {
    /// As users know it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connected => "CONNECTED",
            Self::Disconnected(_) => "DISCONNECTED",
            Self::Failed(_) => "FAILED",
            Self::IdentityTaken => "IDENTITY_TAKEN",
            Self::HandedOver => "HANDED_OVER",
        }
    }
}

/// Something that has happened to the connections of a socket.
#[derive(Clone, Debug)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// As it was bound or connected to.
    pub endpoint: String,
    /// The peer's address, where there was a connection.
    pub remote: Option<SocketAddr>,
    /// What a ROUTER knows the peer by; elsewhere what the peer calls itself.
    pub identity: Bytes,
}

impl Weigh for Event {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.endpoint.len()
    }
}
