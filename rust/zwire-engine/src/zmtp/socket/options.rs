//! [`SocketOptions`]: how a socket behaves.

use super::super::{ConnectionConfig, Reconnect, Verdict};
use core::{fmt, time::Duration};
use std::{net::SocketAddr, sync::Arc};
use zwire_proto::zmtp::{
    limits::{HIGH_WATER_MARK, MAX_QUEUED_BYTES},
    link::{AuthRequest, HandshakeConfig, Heartbeat},
    wire::SocketType,
};

/// Between two PINGs, unless told otherwise.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How many intervals a peer may be silent after a PING. An application that is behind lets its socket fill, and
/// then neither our PINGs nor the messages before them are read: that must not look like death too soon, to us
/// or, by the TTL, to the peer.
pub const MISSED: u32 = 6;

/// Judges who wants to come in. Called in a thread where waiting is allowed.
pub type Authenticator = Arc<dyn Fn(SocketAddr, &AuthRequest) -> Verdict + Send + Sync>;

/// How a socket behaves.
#[derive(Clone)]
pub struct SocketOptions {
    /// What it says of itself, how it proves itself, and the bounds of each of its connections.
    pub connection: ConnectionConfig,
    /// When it connects again.
    pub reconnect: Reconnect,
    /// Most messages that wait to be taken, of all connections together.
    pub max_received: usize,
    /// Most bytes of them.
    pub max_received_bytes: usize,
    /// Messages only go where there is a connection; none wait for one.
    pub immediate: bool,
    /// A ROUTER gives an identity that is in use to the newcomer.
    pub handover: bool,
    /// A ROUTER says so when a message cannot be delivered; else it is dropped and counted.
    pub mandatory: bool,
    /// Who is asked about peers, where the mechanism asks.
    pub authenticator: Option<Authenticator>,
}

impl SocketOptions {
    /// The bounds of the reference, with heartbeats.
    #[must_use]
    pub fn new(socket_type: SocketType) -> Self {
        let mut connection = ConnectionConfig::new(HandshakeConfig::new(socket_type));
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
