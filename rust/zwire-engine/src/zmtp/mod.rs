//! ZMTP connections over TCP, for sockets and for the ZRE node.
//!
//! [`Listener`] accepts connections, [`Outbound`] keeps one to an endpoint; each [`Connection`] has a
//! task that reads and one that writes what the socket did not take at once. Their events go to an
//! [`Owner`].

mod connection;
mod endpoint;
mod establish;
mod lending;
mod listener;
mod outbound;
mod reader;
mod sending;
mod socket;
mod turns;

pub use crate::error::InvalidEndpoint;
pub use connection::{Connection, ConnectionStats};
pub(crate) use lending::LendingHost;
pub use listener::Listener;
pub use outbound::{Outbound, Reconnect, Room};
pub(crate) use sending::Writing;
pub use socket::{
    Authenticator, Event, EventKind, MISSED, Received, Socket, SocketError, SocketOptions, Unsent,
};
pub use turns::Turns;

use crate::rt::watch::Watch;
use bytes::Bytes;
use core::{pin::Pin, time::Duration};
use std::{io, net::SocketAddr, sync::Arc};
use thiserror::Error;
use zwire_proto::zmtp::{
    link::{
        AuthRequest, Denial, Inbound, ZmtpHandshakeConfig, ZmtpHandshakeError, ZmtpLinkError, ZmtpRxConfig,
        ZmtpTxConfig,
    },
    wire::{Mechanism, Metadata},
};

/// Default time limit of a handshake, as in libzmq.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Most handshakes of a listener before its READY, a sixteenth of the limit of open files at most. A fleet that
/// reconnects at once needs milliseconds for each; when one more arrives, the listener waits, and after 0.1 s
/// aborts the oldest one of the address that has most of them. After its READY the peer may have completed the
/// handshake and sent messages: that part is the only bound, and a peer of the same address waits for a second.
pub const MAX_HANDSHAKES: usize = 256;

/// Most connections of a listener. Further ones are closed before the handshake, so that the peer tries
/// again later.
pub const MAX_CONNECTIONS: usize = 16_384;

/// Settings that a socket applies to each of its connections.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// Handshake settings. The random parts of CURVE keys are made anew for each connection.
    pub handshake: ZmtpHandshakeConfig,
    /// Bounds of the messages waiting to be written, and the heartbeat.
    pub tx: ZmtpTxConfig,
    /// Largest message, and the same heartbeat.
    pub rx: ZmtpRxConfig,
    /// Time limit for connecting, and again for the handshake.
    pub handshake_timeout: Duration,
    /// Most handshakes of a listener: see [`MAX_HANDSHAKES`].
    pub max_handshakes: usize,
    /// Most connections of a listener: see [`MAX_CONNECTIONS`].
    pub max_connections: usize,
    /// Bound of the calls of the authenticator. Copies of the configuration share it.
    pub turns: Arc<Turns>,
    /// Told when a connection of this configuration has written everything, may have room again, or is dead.
    /// Copies of the configuration share it.
    pub progress: Arc<Watch>,
    /// Memory to lend to peers on the same host. Copies of the configuration share it.
    pub(crate) lending: Option<Arc<LendingHost>>,
}

impl ConnectionConfig {
    /// The default bounds, and no heartbeat.
    #[must_use]
    pub fn new(handshake: ZmtpHandshakeConfig) -> Self {
        Self {
            handshake,
            tx: ZmtpTxConfig::default(),
            rx: ZmtpRxConfig::default(),
            handshake_timeout: HANDSHAKE_TIMEOUT,
            max_handshakes: MAX_HANDSHAKES,
            max_connections: MAX_CONNECTIONS,
            turns: Arc::default(),
            progress: Arc::default(),
            lending: None,
        }
    }
}

/// Decision of an authenticator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The peer is accepted.
    Allow {
        /// User id of the peer.
        user_id: Bytes,
        /// Further metadata of the peer.
        metadata: Metadata,
    },
    /// The peer is refused.
    Deny(Denial),
}

impl Verdict {
    /// Accepts the peer without user id or metadata.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { user_id: Bytes::new(), metadata: Metadata::default() }
    }
}

/// Future that waits until a receiver has room again.
pub type Pause = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Receiver of connection events.
///
/// Called from tasks, never under a lock of the connection. Every method but [`Self::authenticate`] and
/// [`Self::permits`] must be quick and must not block.
pub trait Owner: Send + Sync + 'static {
    /// Decides whether to accept a peer; runs in a thread where blocking is allowed.
    fn authenticate(&self, remote: SocketAddr, request: &AuthRequest) -> Verdict {
        let _ = (remote, request);
        Verdict::allow()
    }

    /// Decides whether to connect to a CURVE server with the key of the configuration; runs in a thread where
    /// blocking is allowed.
    fn permits(&self) -> bool {
        true
    }

    /// The handshake is complete. Called before the first [`Self::received`].
    fn opened(&self, connection: &Arc<Connection>) {
        let _ = connection;
    }

    /// Delivers received messages and commands, to be drained from `inbound`; by default they are dropped. If a
    /// `Pause` is returned, reading resumes when it is over. PINGs are not delivered.
    fn received(&self, connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        let _ = connection;
        inbound.clear();
        None
    }

    /// Called after a message was rejected because of a full queue, once about half of the queue is free.
    fn writable(&self, connection: &Arc<Connection>) {
        let _ = connection;
    }

    /// Called once for each [`Self::opened`]; and without a connection for each handshake or attempt to
    /// connect that failed.
    fn closed(&self, connection: Option<&Arc<Connection>>, reason: &CloseReason) {
        let _ = (connection, reason);
    }
}

/// Reason why a connection ended, or was not established.
#[derive(Clone, Debug, Error)]
pub enum CloseReason {
    /// Closed locally.
    #[error("closed")]
    Local,
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Peer,
    /// Error of the operating system.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The address does not resolve.
    #[error("the address does not resolve")]
    Unresolved,
    /// Connecting or the handshake exceeded its time limit.
    #[error("no answer within {0:?}")]
    HandshakeTimeout(Duration),
    /// The peer closed before the handshake was complete. A CURVE server does so silently when it cannot
    /// decrypt the handshake, that is, if the server key is wrong.
    #[error("the peer closed in the {mechanism} handshake{}", if *.answered { "" } else { hint(.mechanism) })]
    ClosedInHandshake {
        /// Mechanism of the local side.
        mechanism: Mechanism,
        /// Whether the peer had sent anything after its greeting.
        answered: bool,
    },
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] ZmtpHandshakeError),
    /// The peer violated the protocol.
    #[error(transparent)]
    Protocol(#[from] ZmtpLinkError),
    /// The peer sent no data within the time-to-live of the heartbeat.
    #[error("the peer was silent for too long")]
    Silent,
    /// The key of the server is not allowed.
    #[error("the key of the server is not allowed")]
    NotAllowed,
    /// The listener has reached its limit of connections.
    #[error("too many connections")]
    TooMany,
    /// The listener has reached its limit of handshakes, and this was the oldest one.
    #[error("too many handshakes at once")]
    TooManyHandshakes,
}

fn hint(mechanism: &Mechanism) -> &'static str {
    if *mechanism == Mechanism::CURVE { ": wrong server key?" } else { "" }
}

impl CloseReason {
    /// Whether an attempt with the same credentials is pointless: the peer said so (`zmtp` 11), or the
    /// local configuration cannot work.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Handshake(
                ZmtpHandshakeError::Peer { .. }
                    | ZmtpHandshakeError::ServerKey
                    | ZmtpHandshakeError::Mechanism { .. }
                    | ZmtpHandshakeError::SocketType { .. }
            )
        )
    }

    /// Whether a peer answered and refused the connection. Under NULL a connection closed in its
    /// handshake does not count, because the peer may just have been closing.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Handshake(error) => !error.is_temporary(),
            Self::ClosedInHandshake { mechanism, .. } => *mechanism != Mechanism::NULL,
            _ => false,
        }
    }

    /// Short name of the reason, for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Local => "closed",
            Self::Peer => "closed-by-peer",
            Self::Io(_) => "io",
            Self::Unresolved => "unresolved",
            Self::HandshakeTimeout(_) => "timeout",
            Self::ClosedInHandshake { answered: false, mechanism } if *mechanism != Mechanism::NULL => {
                "not-understood"
            }
            Self::ClosedInHandshake { .. } => "closed-in-handshake",
            Self::Handshake(error) => error.word(),
            Self::Protocol(_) => "protocol",
            Self::Silent => "silent",
            Self::NotAllowed => "not-allowed",
            Self::TooMany => "too-many",
            Self::TooManyHandshakes => "too-many-handshakes",
        }
    }

    /// Whether the peer itself has refused with an ERROR.
    pub(crate) const fn is_told(&self) -> bool {
        matches!(self, Self::Handshake(ZmtpHandshakeError::Peer { .. }))
    }
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}
