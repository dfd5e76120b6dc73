//! Errors of storages and their volumes.

use std::path::PathBuf;
use thiserror::Error as ThisError;

/// Every way in which a call of this crate can fail.
#[derive(Debug, ThisError)]
#[allow(missing_docs, reason = "the text of each error names its fields")]
pub enum Error {
    /// Failure of the session that the storage belongs to.
    #[error(transparent)]
    Session(#[from] zwire_engine::Error),
    /// Setting of a storage or of the plugin, with its path in the configuration.
    #[error("{path}: {problem}")]
    Setting { path: String, problem: String },
    /// Failure of the file system.
    #[error("{}: {source}", file.display())]
    Io { file: PathBuf, source: std::io::Error },
    /// Content of a volume that its checksums or its structure contradict.
    #[error("{}: {} is damaged: {problem}", file.display(), damaged(key.as_deref()))]
    Damaged { file: PathBuf, key: Option<String>, problem: String },
    /// Folder that another storage has open.
    #[error("{}: another storage, of this process or another one, has this folder open", file.display())]
    InUse { file: PathBuf },
    /// Failure of a volume that a program supplies.
    #[error("the volume failed to {action}: {problem}")]
    Volume { action: &'static str, problem: String },
    /// Call that a volume did not answer in time.
    #[error("the volume did not {action} within {seconds} s")]
    Slow { action: &'static str, seconds: f64 },
    /// End of the wait for a durable state.
    #[error("what came before is not durable after {seconds} s: {problem}")]
    NotDurable { seconds: f64, problem: String },
    /// Call that the state of the object does not allow.
    #[error("{0}")]
    Usage(&'static str),
    #[error("could not start a thread of the storage: {0}")]
    Thread(std::io::Error),
}

impl Error {
    /// Whether one update is refused, for a reason of its own, and others may be taken.
    pub(crate) const fn is_of_one_update(&self) -> bool {
        matches!(self, Self::Volume { .. } | Self::Slow { .. })
    }
}

/// Part of a file that is damaged: the entry of a key, or all of the file.
fn damaged(key: Option<&str>) -> String {
    key.map_or_else(|| "it".to_owned(), |key| format!("the entry of {key:?}"))
}

/// Result of the calls of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
