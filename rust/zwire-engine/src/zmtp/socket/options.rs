//! [`SocketOptions`]: options of a socket.

use super::super::{ConnectionConfig, Reconnect, Verdict};
use core::{fmt, time::Duration};
use std::{net::SocketAddr, sync::Arc};
use zwire_proto::zmtp::{
    limits::{HIGH_WATER_MARK, MAX_QUEUED_BYTES},
    link::{AuthRequest, Heartbeat, ZmtpHandshakeConfig},
    wire::SocketType,
};

/// Default interval between two PINGs.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Number of intervals that a peer may be silent after a PING. If an application is slow, its socket
/// stops reading, and neither PINGs nor the messages before them are answered: that must not end the
/// connection too early, neither here nor, by the TTL, at the peer.
pub const MISSED: u32 = 6;

/// Callback that accepts or refuses peers. Called in a thread where blocking is allowed.
pub type Authenticator = Arc<dyn Fn(SocketAddr, &AuthRequest) -> Verdict + Send + Sync>;

/// Options of a socket.
#[derive(Clone)]
pub struct SocketOptions {
    /// Identity, credentials, and the bounds of each connection.
    pub connection: ConnectionConfig,
    /// Rules for reconnecting.
    pub reconnect: Reconnect,
    /// Most messages of all connections that wait to be received.
    pub max_received: usize,
    /// Most bytes of those messages.
    pub max_received_bytes: usize,
    /// Whether messages are only queued for existing connections.
    pub immediate: bool,
    /// Whether a ROUTER gives an identity that is in use to the new peer.
    pub handover: bool,
    /// Whether a ROUTER reports a message that cannot be delivered; else it is dropped and counted.
    pub mandatory: bool,
    /// Callback that decides about peers, for mechanisms with authentication.
    pub authenticator: Option<Authenticator>,
}

impl SocketOptions {
    /// The default bounds, with heartbeats.
    #[must_use]
    pub fn new(socket_type: SocketType) -> Self {
        let mut connection = ConnectionConfig::new(ZmtpHandshakeConfig::new(socket_type));
        let heartbeat = Some(Heartbeat::every(HEARTBEAT, MISSED));
        (connection.tx.heartbeat, connection.rx.heartbeat) = (heartbeat, heartbeat);
        Self {
            connection,
            reconnect: Reconnect::default(),
            max_received: HIGH_WATER_MARK,
            max_received_bytes: MAX_QUEUED_BYTES,
            immediate: false,
            handover: false,
            mandatory: false,
            authenticator: None,
        }
    }
}

impl fmt::Debug for SocketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketOptions")
            .field("connection", &self.connection)
            .field("reconnect", &self.reconnect)
            .field("authenticator", &self.authenticator.is_some())
            .finish_non_exhaustive()
    }
}
