//! Errors of recorders and appenders.

use std::io;
use thiserror::Error as ThisError;

/// Every way in which a call of this crate can fail.
#[derive(Debug, ThisError)]
pub enum Error {
    /// Failure of the spool itself.
    #[error(transparent)]
    Spool(#[from] zwire_spool::Error),
    /// Call that the state of the object does not allow: closed, or created by another process.
    #[error("{0}")]
    Usage(&'static str),
    /// Column that the spool does not have.
    #[error("column {name:?} is not one of {known}")]
    UnknownColumn {
        /// Name that was given.
        name: String,
        /// Names of the spool, separated by commas.
        known: String,
    },
    /// Column of an Arrow batch with the wrong type.
    #[error("column {name:?} must be {wanted}")]
    ColumnType {
        /// Name of the column.
        name: &'static str,
        /// Type of Arrow, or texts, that the column takes.
        wanted: String,
    },
    /// Kind that the gap log does not have.
    #[error("{0:?} is no kind of a gap")]
    GapKind(String),
    /// Random source of the operating system failed.
    #[error("{0}")]
    Random(getrandom::Error),
    /// Thread that the operating system refused to start.
    #[error("could not start a recording thread: {0}")]
    Thread(io::Error),
}

/// Result of the calls of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
