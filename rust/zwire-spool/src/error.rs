//! Errors of a spool, with their place.

use crate::layout::Shard;
use core::fmt;
use std::{io, path::PathBuf, sync::Arc};
use thiserror::Error as ThisError;

/// Any failure of reading or writing a spool.
#[derive(Clone, Debug, ThisError)]
#[allow(missing_docs, reason = "the text of each error names its fields")]
pub enum Error {
    /// The operating system reported an error while `doing`, such as `write` or `open`.
    #[error("{}: could not {doing}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: Arc<io::Error> },
    /// Damaged data in a segment: `offset` cannot be read, from `resumes` on rows may be readable again.
    #[error("{shard}, offset {offset}: {}: {problem}{}", path.display(), Resumes(*resumes))]
    Corrupt { shard: Shard, offset: u64, path: PathBuf, problem: String, resumes: Option<u64> },
    /// A file of the spool, other than a segment, that cannot be read.
    #[error("{}: {problem}", path.display())]
    BadFile { path: PathBuf, problem: String },
    /// Offsets that should exist but are in no segment, up to `until` (exclusive).
    #[error("{shard}, offset {offset}: no segment holds offsets {offset} to {until}{}", Resumes(Some(*until)))]
    Missing { shard: Shard, offset: u64, until: u64 },
    /// Offsets that were deleted, or are not written yet.
    #[error("{shard}, offset {offset}: the spool holds offsets {earliest} to {end} (exclusive)")]
    OutOfRange { shard: Shard, offset: u64, earliest: u64, end: u64 },
    #[error(
        "{}: the folder of the spool was removed or replaced while it was in use: its rows are gone, and no more are kept",
        dir.display()
    )]
    Removed { dir: PathBuf },
    #[error("{}: another writer has this spool open", dir.display())]
    Locked { dir: PathBuf },
    /// A spool or a file differs from the expected one.
    #[error("{}: {problem}", path.display())]
    Mismatch { path: PathBuf, problem: String },
    /// A row that cannot be stored.
    #[error("{shard}: column {column:?}: {problem}")]
    Row { shard: Shard, column: &'static str, problem: String },
    /// A request for something that does not exist.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source: Arc::new(source) }
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// Shard concerned, if there is one.
    pub const fn shard(&self) -> Option<Shard> {
        match self {
            Self::Corrupt { shard, .. }
            | Self::Missing { shard, .. }
            | Self::OutOfRange { shard, .. }
            | Self::Row { shard, .. } => Some(*shard),
            _ => None,
        }
    }

    /// Offset from which on rows may be readable again, after damage.
    pub const fn resumes(&self) -> Option<u64> {
        match self {
            Self::Corrupt { resumes, .. } => *resumes,
            Self::Missing { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// Offset concerned, if there is one.
    pub const fn offset(&self) -> Option<u64> {
        match self {
            Self::Corrupt { offset, .. } | Self::Missing { offset, .. } | Self::OutOfRange { offset, .. } => {
                Some(*offset)
            }
            _ => None,
        }
    }
}

/// Displays where reading can resume after damage.
struct Resumes(Option<u64>);

impl fmt::Display for Resumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |offset| write!(f, "; reading resumes at offset {offset}"))
    }
}

/// Result of the functions of this crate.
pub type Result<T> = core::result::Result<T, Error>;
