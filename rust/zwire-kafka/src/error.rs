//! Errors of starting a server.

use std::{io, sync::Arc};
use thiserror::Error as ThisError;

/// Any failure of starting a server.
#[derive(Clone, Debug, ThisError)]
pub enum Error {
    /// An address on which the server cannot listen.
    #[error("listen: {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Error of the operating system.
        source: Arc<io::Error>,
    },
    /// An option or a topic that is not accepted.
    #[error("{0}")]
    Usage(String),
    /// A spool that cannot be read.
    #[error(transparent)]
    Spool(#[from] zwire_spool::Error),
    /// The runtime of this process cannot be started.
    #[error(transparent)]
    Engine(#[from] zwire_engine::Error),
}
