//! [`Event`]: changes of the connections of a socket.

use super::super::CloseReason;
use crate::rt::queue::Weigh;
use bytes::Bytes;
use std::net::SocketAddr;

/// Kind of an event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A handshake has succeeded.
    Connected,
    /// A connection has ended.
    Disconnected(CloseReason),
    /// An attempt to connect, or an incoming handshake, has failed.
    Failed(CloseReason),
    /// A new peer was closed because another one has its identity.
    IdentityTaken,
    /// A peer has lost its identity to a new peer, and its connection was closed.
    HandedOver,
}

impl EventKind {
    /// Name of the event for users.
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

/// A change of a connection of a socket.
#[derive(Clone, Debug)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Endpoint as it was bound or connected to.
    pub endpoint: String,
    /// Address of the peer, if there was a connection.
    pub remote: Option<SocketAddr>,
    /// Identity of the peer: at a ROUTER the one under which it knows the peer, elsewhere the one that
    /// the peer announced.
    pub identity: Bytes,
}

impl Weigh for Event {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.endpoint.len()
    }
}
