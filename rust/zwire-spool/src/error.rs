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
    /// A store of segments that does not answer, or answers with an error.
    #[error("{}{place}: {problem}", At(*at))]
    Unreachable { place: String, problem: String, at: Option<(Shard, u64)> },
    /// A store of segments that refuses the credentials of this process.
    #[error("{}{place}: {problem}", At(*at))]
    Denied { place: String, problem: String, at: Option<(Shard, u64)> },
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
        move |source| match source.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            Some(inner) => inner.clone(),
            None => Self::Io { doing, path, source: Arc::new(source) },
        }
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// Whether a file or an object does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Adds the place up to which rows were read to an error of a store.
    pub(crate) fn reading(mut self, shard: Shard, offset: u64) -> Self {
        if let Self::Unreachable { at, .. } | Self::Denied { at, .. } = &mut self {
            *at = Some((shard, offset));
        }
        self
    }

    /// Shard concerned, if there is one.
    pub const fn shard(&self) -> Option<Shard> {
        match self {
            Self::Corrupt { shard, .. }
            | Self::Missing { shard, .. }
            | Self::OutOfRange { shard, .. }
            | Self::Row { shard, .. } => Some(*shard),
            Self::Unreachable { at: Some(at), .. } | Self::Denied { at: Some(at), .. } => Some(at.0),
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
            Self::Unreachable { at: Some(at), .. } | Self::Denied { at: Some(at), .. } => Some(at.1),
            _ => None,
        }
    }
}

/// Displays the place up to which rows were read.
struct At(Option<(Shard, u64)>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |(shard, offset)| write!(f, "{shard}, offset {offset}: "))
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
