//! What can go wrong in the engine.

use core::time::Duration;
use std::{io, net::SocketAddr, sync::Arc};
use thiserror::Error as ThisError;

/// Every way in which a command or a session can fail.
#[derive(Clone, Debug, ThisError)]
pub enum Error {
    /// The operating system refused threads or an event queue.
    #[error("the runtime could not be started: {source}")]
    Runtime {
        /// Why.
        source: Arc<io::Error>,
    },
    /// The session belongs to another process.
    #[error(
        "this session belongs to process {born}, this is process {here}: open a new session after a fork"
    )]
    Forked {
        /// Where it was opened.
        born: u32,
        /// Where it is used.
        here: u32,
    },
    /// The session is closed.
    #[error("the session is closed")]
    Closed,
    /// A node that has not started is asked for something that only the network knows.
    #[error("the node has not started")]
    NotStarted,
    /// What is possible before the start only.
    #[error("the node has started, or stopped, already")]
    Started,
    /// The publisher, subscriber, … is undeclared.
    #[error("the {what} is undeclared")]
    Undeclared {
        /// `publisher`, `subscriber`, …
        what: &'static str,
    },
    /// The configuration does not hold together.
    #[error(transparent)]
    Config(Arc<crate::config::ConfigError>),
    /// No endpoint could be connected to.
    #[error("could not connect to {endpoint}: {reason}")]
    Connect {
        /// The last endpoint tried.
        endpoint: String,
        /// What went wrong there.
        reason: ConnectReason,
    },
    /// A client without endpoints has found no node.
    #[error("{}", nobody_found(group, interfaces, after, failures))]
    NobodyFound {
        /// Where it asked.
        group: SocketAddr,
        /// The names of the interfaces on which it asked.
        interfaces: String,
        /// How long.
        after: Duration,
        /// Endpoints of those that answered, and why they are of no use.
        failures: Vec<(String, ConnectReason)>,
    },
    /// A text that is no endpoint of ZeroMQ.
    #[error(transparent)]
    Endpoint(#[from] crate::zmtp::InvalidEndpoint),
    /// An endpoint could not be listened on.
    #[error("could not listen on {endpoint}: {source}")]
    Listen {
        /// The endpoint.
        endpoint: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// An endpoint of the configuration could not be listened on.
    #[error("could not listen on {endpoint}: {reason}")]
    Bind {
        /// The endpoint.
        endpoint: String,
        /// Why.
        reason: ConnectReason,
    },
    /// The capture file could not be written.
    #[error("could not write the capture {path}: {source}")]
    Tap {
        /// Its path.
        path: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// Something took longer than it may.
    #[error("{what} took longer than {after:?}")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// The link went while something was under way on it.
    #[error("the link was lost, or there is none: what was under way may be lost")]
    LinkLost,
    /// The caller's interrupt check asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// It has to wait first, and the caller must not; see [`crate::rt::deferred`].
    #[error("this would have to wait")]
    WouldBlock,
    /// The samples of an advanced publisher would have nothing that tells them apart.
    #[error(
        "a cache without sample_miss_detection tells samples apart by their times, and this session gives none: \
         set timestamping/enabled, or sample_miss_detection"
    )]
    NoTimestamps,
    /// A key expression leaves no room for what has to be declared beside it.
    #[error("nothing can be declared beside this key: {0}")]
    Key(#[from] zwire_proto::zenoh::keyexpr::KeyExprError),
    /// A command that a machine refused.
    #[error(transparent)]
    Command(#[from] zwire_proto::zenoh::session::SessionError),
    /// A command that a node of ZRE refused.
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
            "nobody answered on {group} within {after:?} ({place}), and no endpoint is configured"
        );
    }
    let failures: Vec<String> =
        failures.iter().map(|(endpoint, reason)| format!("{endpoint}: {reason}")).collect();
    format!("nobody who answered on {group} could be connected to within {after:?}: {}", failures.join("; "))
}

/// Why a connection did not come about.
#[derive(Clone, Debug, ThisError)]
pub enum ConnectReason {
    /// The operating system says so.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The handshake failed.
    #[error("{0}")]
    Handshake(#[from] zwire_proto::zenoh::link::HandshakeError),
    /// Nothing came in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The address could not be resolved.
    #[error("the address does not resolve")]
    Unresolved,
    /// What is configured of certificates is of no use.
    #[error("{0}")]
    TlsSettings(#[from] crate::net::tls::TlsSettingsError),
    /// TLS did not come about.
    #[error("{0}")]
    Tls(#[from] crate::net::tls::TlsFailure),
    /// The handshake of WebSocket failed, or there is one where none belongs.
    #[error("WebSocket: {0}")]
    WebSocket(String),
    /// This build does not speak the protocol of the endpoint.
    #[error("the protocol {0:?} is not supported")]
    Protocol(String),
    /// There is a session with the node that answered.
    #[error("there is a session with {0} already")]
    Connected(zwire_proto::zenoh::ZenohId),
    /// Neither endpoints nor scouting are configured.
    #[error("no endpoint is configured and scouting is off")]
    NoEndpoint,
}

impl From<crate::config::ConfigError> for Error {
    fn from(error: crate::config::ConfigError) -> Self {
        Self::Config(Arc::new(error))
    }
}
