//! Errors of a bridge.

use std::{io, path::PathBuf};
use thiserror::Error as ThisError;
use zwire_engine::TlsSettingsError;

/// Result of the bridge.
pub type Result<T> = core::result::Result<T, Error>;

/// Any failure of a bridge.
#[derive(Debug, ThisError)]
pub enum Error {
    /// An option that is not accepted.
    #[error("{0}")]
    Usage(String),
    /// The broker cannot be reached, or refuses the bridge.
    #[error("broker {broker}: {problem}")]
    Broker {
        /// Address of the broker.
        broker: String,
        /// Explanation.
        problem: String,
    },
    /// A file of the session.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A certificate or key that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsSettingsError),
    /// A failure of the spool.
    #[error(transparent)]
    Recorder(#[from] zwire_recorder::Error),
    /// The session is closed, or the runtime of this process cannot be started.
    #[error(transparent)]
    Engine(#[from] zwire_engine::Error),
}

impl From<zwire_spool::Error> for Error {
    fn from(error: zwire_spool::Error) -> Self {
        Self::Recorder(error.into())
    }
}
