//! Errors of a bridge.

use thiserror::Error as ThisError;
use zwire_proto::bridge::{NetworkError, PatternError};

/// Every way in which a call of this crate can fail.
#[derive(Debug, ThisError)]
#[allow(missing_docs, reason = "the text of each error names its fields")]
pub enum Error {
    /// Failure of the session or of the ZRE node.
    #[error(transparent)]
    Engine(#[from] zwire_engine::Error),
    /// Name of a network that cannot be the beginning of keys.
    #[error("network: {0}")]
    Network(#[from] NetworkError),
    /// Text that is no pattern of groups.
    #[error("groups: {0}")]
    Pattern(#[from] PatternError),
    /// Second bridge of a session to one network.
    #[error("network: this session has a bridge to {0:?} already; give the second one another name")]
    Twice(String),
    /// Call that the state of the bridge does not allow.
    #[error("{0}")]
    Usage(&'static str),
    #[error("could not start the thread of the bridge: {0}")]
    Thread(std::io::Error),
}

/// Result of the calls of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
