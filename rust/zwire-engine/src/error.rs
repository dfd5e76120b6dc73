//! Errors of the engine.

use crate::rt::watch::Missed;
use core::time::Duration;
use std::{io, net::SocketAddr, sync::Arc};
use thiserror::Error as ThisError;

/// Any failure of a command or a session.
#[derive(Clone, Debug, ThisError)]
pub enum Error {
    /// The operating system refused threads or an event queue.
    #[error("the runtime could not be started: {source}")]
    Runtime {
        /// Cause.
        source: Arc<io::Error>,
    },
    /// The session belongs to another process.
    #[error(
        "this session belongs to process {born}, this is process {here}: open a new session after a fork"
    )]
    Forked {
        /// Process in which it was opened.
        born: u32,
        /// Process in which it is used.
        here: u32,
    },
    /// The session is closed.
    #[error("the session is closed")]
    Closed,
    /// A node that has not started was asked for a value that only the network knows.
    #[error("the node has not started")]
    NotStarted,
    /// The operation is possible only before the start.
    #[error("the node has started, or stopped, already")]
    Started,
    /// The publisher, subscriber, … is undeclared.
    #[error("the {what} is undeclared")]
    Undeclared {
        /// `publisher`, `subscriber`, …
        what: &'static str,
    },
    /// The configuration is inconsistent.
    #[error(transparent)]
    Config(Arc<crate::config::ConfigError>),
    /// No endpoint could be connected to.
    #[error("could not connect to {endpoint}: {reason}")]
    Connect {
        /// The last endpoint tried.
        endpoint: String,
        /// Reason of its failure.
        reason: ConnectReason,
    },
    /// A client without endpoints has found no node.
    #[error("{}", nobody_found(group, interfaces, after, failures))]
    NobodyFound {
        /// Multicast group that was asked.
        group: SocketAddr,
        /// Names of the interfaces on which it was asked.
        interfaces: String,
        /// Time after which scouting gave up.
        after: Duration,
        /// Endpoints of the nodes that answered, and why no connection to them came about.
        failures: Vec<(String, ConnectReason)>,
    },
    /// Text that is not a ZeroMQ endpoint.
    #[error(transparent)]
    Endpoint(#[from] InvalidEndpoint),
    /// An endpoint could not be listened on.
    #[error("could not listen on {endpoint}: {source}")]
    Listen {
        /// The endpoint.
        endpoint: String,
        /// Cause.
        source: Arc<io::Error>,
    },
    /// An endpoint of the configuration could not be listened on.
    #[error("could not listen on {endpoint}: {reason}")]
    Bind {
        /// The endpoint.
        endpoint: String,
        /// Cause.
        reason: ConnectReason,
    },
    /// The capture file could not be written.
    #[error("could not write the capture {path}: {source}")]
    Tap {
        /// Path of the file.
        path: String,
        /// Cause.
        source: Arc<io::Error>,
    },
    /// An operation exceeded its time limit.
    #[error("{what} took longer than {after:?}")]
    TimedOut {
        /// Operation that was waited for.
        what: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The link went down while an operation was in progress on it.
    #[error("the link was lost, or there is none: operations in progress may be lost")]
    LinkLost,
    /// The caller's interrupt check asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The operation would block, and the caller must not; see [`crate::Patience`].
    #[error("this would have to wait")]
    WouldBlock,
    /// An advanced publisher with a cache has neither timestamps nor sequence numbers to identify its
    /// samples.
    #[error(
        "an advanced publisher with a cache needs timestamps or sequence numbers: set timestamping/enabled=true or \
         pass sample_miss_detection"
    )]
    NoTimestamps,
    /// No internal keys (heartbeats, tokens) can be derived from the key expression of an advanced
    /// publisher.
    #[error("cannot derive the internal keys of an advanced publisher from this key expression: {0}")]
    Key(#[from] zwire_proto::zenoh::keyexpr::KeyExprError),
    /// A command that a state machine refused.
    #[error(transparent)]
    Command(#[from] zwire_proto::zenoh::session::SessionError),
    /// Keys for a ZRE node, in a build without CURVE.
    #[error(
        "the node has CURVE keys, and this build has no CURVE (feature `curve`): build zwire-engine with it, or \
         remove the keys"
    )]
    NoCurve,
    /// A command that a ZRE node refused.
    #[error(transparent)]
    Node(#[from] zwire_proto::zre::node::NodeError),
}

fn nobody_found(
    group: &SocketAddr,
    interfaces: &str,
    after: &Duration,
    failures: &[(String, ConnectReason)],
) -> String {
    let place = match interfaces {
        "" => "no interface of this machine has multicast".to_owned(),
        names => format!("interfaces: {names}"),
    };
    if failures.is_empty() {
        return format!(
            "no node answered on {group} within {after:?} ({place}), and no endpoint is configured"
        );
    }
    let failures: Vec<String> =
        failures.iter().map(|(endpoint, reason)| format!("{endpoint}: {reason}")).collect();
    format!(
        "no node that answered on {group} could be connected to within {after:?}: {}",
        failures.join("; ")
    )
}

/// Reason why a connection was not established.
#[derive(Clone, Debug, ThisError)]
pub enum ConnectReason {
    /// Error of the operating system.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The handshake failed.
    #[error("{0}")]
    Handshake(#[from] zwire_proto::zenoh::link::HandshakeError),
    /// No answer in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The address could not be resolved.
    #[error("the address does not resolve")]
    Unresolved,
    /// The configured certificates or keys cannot be used.
    #[error("{0}")]
    TlsSettings(#[from] crate::net::tls_error::TlsSettingsError),
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(#[from] crate::net::tls_error::TlsFailure),
    /// The WebSocket handshake failed, or the peer speaks WebSocket at an endpoint of another protocol.
    #[error("WebSocket: {0}")]
    WebSocket(String),
    /// This build does not support the protocol of the endpoint.
    #[error("the protocol {_0:?} is not supported by this build{}", crate::config::missing_feature(_0))]
    Protocol(String),
    /// There is a session with the node that answered already.
    #[error("there is a session with {0} already")]
    Connected(zwire_proto::zenoh::ZenohId),
    /// Neither endpoints nor scouting are configured.
    #[error("no endpoint is configured and scouting is off")]
    NoEndpoint,
}

/// Text that is not a valid endpoint.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum InvalidEndpoint {
    /// Another transport than TCP, or none.
    #[error("{0:?} is not of the form tcp://host:port")]
    Scheme(String),
    /// No port, or an invalid one.
    #[error("{0:?} has no port between 0 and 65535")]
    Port(String),
    /// A wildcard host or port in an endpoint to connect to.
    #[error("{0:?} does not say where to connect to")]
    Anywhere(String),
}

impl Error {
    /// Error of a wait for `what` that ended before its condition held.
    pub(crate) fn missed(missed: Missed, what: &'static str, timeout: Option<Duration>) -> Self {
        match missed {
            Missed::TimedOut => Self::TimedOut { what, after: timeout.unwrap_or_default() },
            Missed::Interrupted => Self::Interrupted,
        }
    }
}

impl From<crate::config::ConfigError> for Error {
    fn from(error: crate::config::ConfigError) -> Self {
        Self::Config(Arc::new(error))
    }
}
