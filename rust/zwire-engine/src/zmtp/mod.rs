//! Connections of ZMTP over TCP, for sockets and for the ZRE node.
//!
//! [`Listener`] accepts connections, [`Outbound`] keeps one to an endpoint; each [`Connection`] has a task
//! that reads and one that writes what the socket did not take at once. Whoever made them is their
//! [`Owner`] and hears what happens.

mod connection;
mod endpoint;
mod establish;
mod listener;
mod outbound;
mod reader;
mod sending;
mod socket;

pub use connection::{Connection, ConnectionStats};
pub use endpoint::InvalidEndpoint;
pub use listener::Listener;
pub use outbound::{Outbound, Reconnect, Room};
pub(crate) use sending::Writing;
pub use socket::{
    Authenticator, Event, EventKind, MISSED, Received, Socket, SocketError, SocketOptions, Unsent,
};

use crate::rt::watch::Watch;
use bytes::Bytes;
use core::{pin::Pin, time::Duration};
use std::{io, net::SocketAddr, sync::Arc};
use thiserror::Error;
use zwire_proto::zmtp::{
    link::{AuthRequest, Denial, HandshakeConfig, HandshakeError, Inbound, LinkError, RxConfig, TxConfig},
    wire::{Mechanism, Metadata},
};

/// How long a connection may take until its handshake is done, as the reference.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Handshakes that a listener has under way at most. A fleet that comes back at once needs milliseconds for
/// each; who says nothing is given up when one more comes.
pub const MAX_HANDSHAKES: usize = 256;

/// Connections that a listener has at most. A peer beyond it is closed without a word, which makes it come
/// back later.
pub const MAX_CONNECTIONS: usize = 16_384;

/// What a socket brings to each of its connections.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// What is said in handshakes. The random parts of CURVE keys are made anew for each.
    pub handshake: HandshakeConfig,
    /// Bounds of what waits for the network, and the heartbeat.
    pub tx: TxConfig,
    /// The bound of a message, and the same heartbeat.
    pub rx: RxConfig,
    /// For connecting, and again for the handshake.
    pub handshake_timeout: Duration,
    /// Of a listener: see [`MAX_HANDSHAKES`].
    pub max_handshakes: usize,
    /// Of a listener: see [`MAX_CONNECTIONS`].
    pub max_connections: usize,
    /// Told when a connection of this configuration has written everything, may have room again, or is dead.
    /// Copies of the configuration share it.
    pub progress: Arc<Watch>,
}

impl ConnectionConfig {
    /// The bounds of the reference, no heartbeat.
    #[must_use]
    pub fn new(handshake: HandshakeConfig) -> Self {
        Self {
            handshake,
            tx: TxConfig::default(),
            rx: RxConfig::default(),
            handshake_timeout: HANDSHAKE_TIMEOUT,
            max_handshakes: MAX_HANDSHAKES,
            max_connections: MAX_CONNECTIONS,
            progress: Arc::default(),
        }
    }
}

/// What an authenticator says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The peer may come in.
    Allow {
        /// Who it is.
        user_id: Bytes,
        /// What else is known about it.
        metadata: Metadata,
    },
    /// It may not.
    Deny(Denial),
}

impl Verdict {
    /// The peer may come in; nothing is known about it.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { user_id: Bytes::new(), metadata: Metadata::default() }
    }
}

/// Waits until a receiver has room again.
pub type Pause = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who is told about connections.
///
/// Called from tasks, never under a lock of the connection. Everything but [`Self::authenticate`] must be
/// quick and must not block.
pub trait Owner: Send + Sync + 'static {
    /// Who asks to come in is judged, in a thread where waiting is allowed.
    fn authenticate(&self, remote: SocketAddr, request: &AuthRequest) -> Verdict {
        let _ = (remote, request);
        Verdict::allow()
    }

    /// The handshake is done. Called before the first [`Self::received`].
    fn opened(&self, connection: &Arc<Connection>);

    /// What came at once; to be taken out. With a `Pause` nothing more is read before it is over. PINGs are
    /// not told.
    fn received(&self, connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause>;

    /// A message was rejected because too many waited; now about half of them are gone.
    fn writable(&self, connection: &Arc<Connection>) {
        let _ = connection;
    }

    /// Once for each [`Self::opened`]; and without a connection for each handshake or attempt to connect
    /// that failed.
    fn closed(&self, connection: Option<&Arc<Connection>>, reason: &CloseReason);
}

/// Why a connection ended, or did not come about.
#[derive(Clone, Debug, Error)]
pub enum CloseReason {
    /// We closed it.
    #[error("closed")]
    Local,
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Peer,
    /// The operating system says so.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The address does not resolve.
    #[error("the address does not resolve")]
    Unresolved,
    /// Connecting or the handshake took too long.
    #[error("no answer within {0:?}")]
    HandshakeTimeout(Duration),
    /// The peer closed before the handshake was done. A server of CURVE does so without a word when it
    /// does not understand us: then we have the wrong key for it.
    #[error("the peer closed in the {mechanism} handshake{}", if *.answered { "" } else { hint(.mechanism) })]
    ClosedInHandshake {
        /// How we prove ourselves.
        mechanism: Mechanism,
        /// Whether it had answered anything behind its greeting.
        answered: bool,
    },
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The peer broke the protocol.
    #[error(transparent)]
    Protocol(#[from] LinkError),
    /// Nothing came for as long as the heartbeat allows.
    #[error("the peer was silent for too long")]
    Silent,
    /// The listener has as many connections as it may have.
    #[error("too many connections")]
    TooMany,
}

fn hint(mechanism: &Mechanism) -> &'static str {
    if *mechanism == Mechanism::CURVE { ": wrong server key?" } else { "" }
}

impl CloseReason {
    /// Whether the peer must not be asked again with the same credentials: it said so (`zmtp` 11), or our
    /// own configuration cannot work.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Handshake(
                HandshakeError::Peer { .. }
                    | HandshakeError::ServerKey
                    | HandshakeError::Mechanism { .. }
                    | HandshakeError::SocketType { .. }
            )
        )
    }

    /// Whether somebody was there and did not let us in. Under NULL a connection that is closed in its
    /// handshake may also be one that came at a bad moment.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Handshake(error) => !error.is_temporary(),
            Self::ClosedInHandshake { mechanism, .. } => *mechanism != Mechanism::NULL,
            _ => false,
        }
    }

    /// Whether the peer itself has said that it does not want us.
    pub(crate) const fn is_told(&self) -> bool {
        matches!(self, Self::Handshake(HandshakeError::Peer { .. }))
    }
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}
