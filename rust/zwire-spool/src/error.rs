//! What can go wrong with a spool, and where.

use crate::layout::Shard;
use core::fmt;
use std::{io, path::PathBuf, sync::Arc};
use thiserror::Error as ThisError;

/// Every way in which reading or writing a spool can fail.
#[derive(Clone, Debug, ThisError)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: could not {doing}: {source}", path.display())]
    Io {
        /// `write`, `open`, …
        doing: &'static str,
        /// What was to be read or written.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// Bytes that the writer did not write so.
    #[error("{shard}, offset {offset}: {}: {problem}{}", path.display(), Resumes(*resumes))]
    Corrupt {
        /// Where.
        shard: Shard,
        /// The first offset that cannot be read.
        offset: u64,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// The offset from which on rows may be readable again.
        resumes: Option<u64>,
    },
    /// A file of the spool as a whole that cannot be understood.
    #[error("{}: {problem}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A range that should be there and that no segment holds.
    #[error("{shard}, offset {offset}: no segment holds offsets {offset} to {until}{}", Resumes(Some(*until)))]
    Missing {
        /// Where.
        shard: Shard,
        /// The first of them.
        offset: u64,
        /// The one behind the last.
        until: u64,
    },
    /// Offsets that are no longer, or not yet, there.
    #[error("{shard}, offset {offset}: the spool holds offsets {earliest} to {end} (exclusive)")]
    OutOfRange {
        /// Where.
        shard: Shard,
        /// What was asked for.
        offset: u64,
        /// The first offset that is there.
        earliest: u64,
        /// The one behind the last.
        end: u64,
    },
    /// Another writer has the spool.
    #[error("{}: another writer has this spool open", dir.display())]
    Locked {
        /// The spool.
        dir: PathBuf,
    },
    /// A spool or a file that is another one than expected.
    #[error("{}: {problem}", path.display())]
    Mismatch {
        /// The file or folder.
        path: PathBuf,
        /// What differs.
        problem: String,
    },
    /// A row that has no place in a block.
    #[error("{shard}: column {column:?}: {problem}")]
    Row {
        /// Where it was to go.
        shard: Shard,
        /// Its column.
        column: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Something that was asked for and does not exist.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source: Arc::new(source) }
    }

    /// Whether the disk has no room for what was to be written.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// The shard that it is about, if it is about one.
    pub const fn shard(&self) -> Option<Shard> {
        match self {
            Self::Corrupt { shard, .. }
            | Self::Missing { shard, .. }
            | Self::OutOfRange { shard, .. }
            | Self::Row { shard, .. } => Some(*shard),
            _ => None,
        }
    }

    /// The offset from which on rows may be readable again, if something is wrong with those before.
    pub const fn resumes(&self) -> Option<u64> {
        match self {
            Self::Corrupt { resumes, .. } => *resumes,
            Self::Missing { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// The offset that it is about, if it is about one.
    pub const fn offset(&self) -> Option<u64> {
        match self {
            Self::Corrupt { offset, .. } | Self::Missing { offset, .. } | Self::OutOfRange { offset, .. } => {
                Some(*offset)
            }
            _ => None,
        }
    }
}

/// Says where reading can go on, behind what is wrong.
struct Resumes(Option<u64>);

impl fmt::Display for Resumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |offset| write!(f, "; reading resumes at offset {offset}"))
    }
}

/// What functions of this crate return.
pub type Result<T> = core::result::Result<T, Error>;
