//! Errors of recorders and appenders.

use std::io;
use thiserror::Error as ThisError;

/// Every way in which a call of this crate can fail.
#[derive(Debug, ThisError)]
#[allow(missing_docs, reason = "the text of each error names its fields")]
pub enum Error {
    /// Failure of the spool itself.
    #[error(transparent)]
    Spool(#[from] zwire_spool::Error),
    /// Call that the state of the object does not allow: closed, or created by another process.
    #[error("{0}")]
    Usage(&'static str),
    /// Column that the spool does not have; `known` are the names that it has, separated by commas.
    #[error("column {name:?} is not one of {known}")]
    UnknownColumn { name: String, known: String },
    /// Column of an Arrow batch with the wrong type; `wanted` is a type of Arrow, or texts, that the column takes.
    #[error("column {name:?} must be {wanted}")]
    ColumnType { name: &'static str, wanted: String },
    #[error("{0:?} is no kind of a gap")]
    GapKind(String),
    /// Random source of the operating system failed.
    #[error("{0}")]
    Random(getrandom::Error),
    #[error("could not start a recording thread: {0}")]
    Thread(io::Error),
}

/// Result of the calls of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
