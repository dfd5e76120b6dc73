//! Volumes: what keeps the values of a storage.

use crate::{
    error::{Error, Result},
    place::{Place, Span},
    rules::{Mark, Table, Update, Value},
    wildcards::Wildcard,
};
use core::time::Duration;
use zwire_proto::zenoh::{KeyExpr, TimeRange, Timestamp};

/// Whether values outlive the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Values end with the process.
    Volatile,
    /// Values that a commit has made durable are there after a crash.
    Durable,
}

/// Which values of a key are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// The latest one.
    Latest,
    /// Each one.
    All,
}

/// Properties of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Whether values outlive the process.
    pub persistence: Persistence,
    /// Which values of a key are kept.
    pub history: History,
}

/// Contents of a volume in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys with a value.
    pub keys: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Octets on the disk, or of payloads in memory.
    pub bytes: u64,
}

/// How far the effects of a change reach when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Readers see them.
    Visible,
    /// They, and all before them, are there after a crash.
    Durable,
}

/// Most entries, and most octets of payloads, of one page: a wildcard get holds no more in memory.
pub const PAGE_ENTRIES: usize = 256;
/// See [`PAGE_ENTRIES`]; a page has one entry at least.
pub const PAGE_BYTES: usize = 1 << 20;
/// Most keys that one page looks at, so that a sparse answer does not hold a lock or a snapshot for long.
pub const PAGE_KEYS: usize = 4096;

/// Entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Key in the volume.
    pub key: String,
    /// Time of the value.
    pub stamp: Timestamp,
    /// The value.
    pub value: Value,
}

/// Part of the entries of a span.
#[derive(Debug, Default)]
pub struct Page {
    /// Entries in the order of their keys.
    pub found: Vec<Found>,
    /// Entries that cannot be read.
    pub damaged: Vec<Error>,
    /// Last key that was looked at; `None` at the end of the span.
    pub next: Option<String>,
}

/// Update of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Key in the volume.
    pub key: String,
    /// Time of the update.
    pub stamp: Timestamp,
    /// Value of a put; `None` is a delete.
    pub value: Option<Value>,
}

/// Open volume of one storage. Reading does not wait for a change, or not for long.
pub trait Store: Send + Sync {
    /// Properties of the volume.
    fn capability(&self) -> Capability;

    /// Latest value of a key.
    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>>;

    /// Times of a key, as [`Table::mark`] gives them within a change.
    fn mark(&self, key: &str) -> Result<Option<Mark>>;

    /// Entries of a span behind `after` with a wanted key, within the bounds of a page.
    fn page(&self, span: &Span, after: Option<&str>, wanted: &dyn Fn(&str) -> bool) -> Result<Page>;

    /// Does the work of one change, and commits it: all of it or nothing. There is one change at a time.
    fn change(&self, reach: Reach, work: &mut dyn FnMut(&mut dyn Table) -> Result<()>) -> Result<()>;

    /// Adds updates to the history, if the volume has one, whether or not they change a value; `done` counts those that
    /// are in it, also after a failure.
    fn append(&self, _place: &Place, updates: &[Update], done: &mut usize) -> Result<()> {
        *done = updates.len();
        Ok(())
    }

    /// Updates of the past of the keys that a key expression selects, in the order in which they came.
    fn past(
        &self,
        _place: &Place,
        _asked: &KeyExpr,
        _times: TimeRange<Duration>,
        _each: &mut dyn FnMut(Past) -> Result<()>,
    ) -> Result<()> {
        Err(Error::Usage("the volume has no history"))
    }

    /// The wildcard updates that were kept.
    fn wildcards(&self) -> Result<Vec<Wildcard>>;

    /// Contents in numbers.
    fn counts(&self) -> Result<Counts>;

    /// Opens the volume again after a failure. Changes that were visible and not durable may be gone.
    fn reopen(&self) -> Result<()> {
        Ok(())
    }

    /// Ends the use of the volume. The last change was durable.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}
