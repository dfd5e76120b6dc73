//! Errors of a spool, with their place.

use crate::layout::Shard;
use core::fmt;
use std::{io, path::PathBuf, sync::Arc};
use thiserror::Error as ThisError;

/// Any failure of reading or writing a spool.
#[derive(Clone, Debug, ThisError)]
pub enum Error {
    /// The operating system reported an error.
    #[error("{}: could not {doing}: {source}", path.display())]
    Io {
        /// `write`, `open`, …
        doing: &'static str,
        /// File or folder concerned.
        path: PathBuf,
        /// Cause.
        source: Arc<io::Error>,
    },
    /// Damaged data in a segment.
    #[error("{shard}, offset {offset}: {}: {problem}{}", path.display(), Resumes(*resumes))]
    Corrupt {
        /// Shard concerned.
        shard: Shard,
        /// The first offset that cannot be read.
        offset: u64,
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        problem: String,
        /// Offset from which on rows may be readable again.
        resumes: Option<u64>,
    },
    /// A file of the spool, other than a segment, that cannot be read.
    #[error("{}: {problem}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// Offsets that should exist but are in no segment.
    #[error("{shard}, offset {offset}: no segment holds offsets {offset} to {until}{}", Resumes(Some(*until)))]
    Missing {
        /// Shard concerned.
        shard: Shard,
        /// First missing offset.
        offset: u64,
        /// Offset after the last missing one.
        until: u64,
    },
    /// Offsets that were deleted, or are not written yet.
    #[error("{shard}, offset {offset}: the spool holds offsets {earliest} to {end} (exclusive)")]
    OutOfRange {
        /// Shard concerned.
        shard: Shard,
        /// Requested offset.
        offset: u64,
        /// First existing offset.
        earliest: u64,
        /// Offset after the last existing one.
        end: u64,
    },
    /// Another writer has the spool open.
    #[error("{}: another writer has this spool open", dir.display())]
    Locked {
        /// The spool.
        dir: PathBuf,
    },
    /// A spool or a file differs from the expected one.
    #[error("{}: {problem}", path.display())]
    Mismatch {
        /// The file or folder.
        path: PathBuf,
        /// Description of the difference.
        problem: String,
    },
    /// A row that cannot be stored.
    #[error("{shard}: column {column:?}: {problem}")]
    Row {
        /// Shard concerned.
        shard: Shard,
        /// Column concerned.
        column: &'static str,
        /// Description of the problem.
        problem: String,
    },
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
