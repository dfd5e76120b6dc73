//! Retention: deletion of old segments.

use crate::{
    error::{Error, Result},
    sealed::{Sealed, share},
    segment::{INDEX_ENDING, name},
    shard::ShardWriter,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A segment that is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub(crate) base: u64,
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    /// Greatest receive time of its rows.
    pub(crate) max_time: i64,
    /// Whether it is in the folder.
    pub(crate) local: bool,
    /// Whether it is in the store.
    pub(crate) stored: bool,
}

/// Whether segments of a shard are also in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Tiering {
    /// There is no store.
    #[default]
    Never,
    /// What the store has is not known yet: nothing is deleted.
    Unknown,
    Known,
}

/// Complete segment that is not in the store yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Its file.
    pub path: PathBuf,
    /// Offset of its first row.
    pub base: u64,
    /// Offset after its last row.
    pub end: u64,
    /// Its size in octets.
    pub bytes: u64,
}

/// Retention rules of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// Age in microseconds at which rows are deleted that all consumers have read; `None`: never.
    pub micros: Option<i64>,
    /// Most octets of a shard, in the folder and in the store, read or not; its open segment is never deleted.
    pub bytes: Option<u64>,
}

/// Range of offsets that was deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deleted {
    /// First offset.
    pub from: u64,
    /// Offset after the last.
    pub to: u64,
    /// First offset that not every consumer has read; `to` if all have read the range.
    pub unread: u64,
    /// Whether the store has it, too; it is not deleted there.
    pub stored: bool,
}

/// Deletes a file; a missing file counts as deleted.
pub(crate) fn delete(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("delete", path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn delete_segment(folder: &Path, base: u64) -> Result<()> {
    let path = folder.join(name(base));
    delete(&path)?;
    delete(&path.with_extension(INDEX_ENDING))
}

/// Whether one of these segments has the offsets of another: it is the same, or a larger one that has replaced it.
pub(crate) fn is_in(there: &[Sealed], base: u64, end: u64) -> bool {
    let before = there.partition_point(|stored| stored.base <= base).checked_sub(1);
    before.is_some_and(|at| there[at].base == base || there[at].end >= end.max(base + 1))
}

impl ShardWriter {
    /// Greatest receive time in the oldest complete segment, if there is one.
    pub fn oldest_time(&self) -> Option<i64> {
        self.kept.front().map(|segment| segment.max_time)
    }

    /// Deletes segments according to `rule`. `committed` is the position of the slowest consumer, if
    /// any.
    pub fn retain(&mut self, rule: &Retention, committed: Option<u64>, now: i64) -> Result<Vec<Deleted>> {
        let mut deleted: Vec<Deleted> = Vec::new();
        if self.tiering == Tiering::Unknown {
            return Ok(deleted);
        }
        let kept: u64 = self.kept.iter().map(|segment| segment.bytes).sum();
        let mut total = kept + self.open_bytes();
        while let Some(oldest) = self.kept.front().copied() {
            let read = committed.is_none_or(|committed| committed >= oldest.end);
            let old = rule.micros.is_some_and(|age| now.saturating_sub(oldest.max_time) >= age);
            let full = rule.bytes.is_some_and(|bytes| total > bytes);
            if !(full || read && old) {
                break;
            }
            self.kept.pop_front();
            total -= oldest.bytes;
            // Without consumers, rows deleted because of the size limit count as unread.
            let unread = match committed {
                Some(committed) => committed.clamp(oldest.base, oldest.end),
                None if old => oldest.end,
                None => oldest.base,
            };
            deleted.push(Deleted { from: oldest.base, to: oldest.end, unread, stored: oldest.stored });
        }
        let Some(last) = deleted.last() else { return Ok(deleted) };
        // Readers see the new mark before the files are deleted.
        self.mark.earliest = self.kept.front().map_or(last.to.max(self.follows), |segment| segment.base);
        if let Some(base) = self.open_base().filter(|_| self.kept.is_empty()) {
            self.mark.earliest = base;
        }
        self.mark.bytes = total;
        self.publish_mark()?;
        for range in &deleted {
            delete_segment(&self.folder, range.from)?;
        }
        Ok(deleted)
    }

    /// Announces a store that will have the complete segments. Nothing is deleted until [`Self::join_tier`] tells
    /// what it has.
    pub const fn await_tier(&mut self) {
        self.tiering = Tiering::Unknown;
    }

    /// Takes note of the segments that the store has. Those that are no longer in the folder count for retention.
    /// Returns the offset before which retention had deleted rows that the store still has, if it has some.
    pub fn join_tier(&mut self, there: &[Sealed]) -> Result<Option<u64>> {
        self.tiering = Tiering::Known;
        for segment in self.kept.iter_mut() {
            segment.stored = is_in(there, segment.base, segment.end);
        }
        let first =
            self.kept.front().map(|segment| segment.base).or(self.open_base()).unwrap_or(self.follows);
        // Without its mark, what the store has tells what was not deleted.
        let earliest = if self.remembered { self.mark.earliest } else { 0 };
        let earlier = there.iter().filter(|stored| stored.base < first && stored.end > earliest);
        for stored in earlier.rev() {
            let Sealed { base, bytes, times, .. } = *stored;
            let end = stored.end.min(first);
            let bytes = share(bytes, end - base, stored.end - base);
            self.kept.push_front(Kept { base, end, bytes, max_time: times.1, local: false, stored: true });
        }
        if let Some(oldest) = self.kept.front().filter(|_| !self.remembered) {
            self.mark.earliest = oldest.base;
        }
        self.mark.bytes = self.kept.iter().map(|segment| segment.bytes).sum::<u64>() + self.open_bytes();
        self.publish_mark()?;
        Ok(there.first().filter(|stored| stored.end <= earliest).map(|_| earliest))
    }

    /// Complete segments that the store does not have, the oldest first; none while it is not known what it has.
    pub fn waiting(&self) -> Vec<Waiting> {
        if self.tiering == Tiering::Known { self.unstored() } else { Vec::new() }
    }

    /// Complete segments that the store is not known to have, the oldest first.
    pub fn unstored(&self) -> Vec<Waiting> {
        let waiting = self.kept.iter().filter(|segment| !segment.stored);
        let path = |base| self.folder.join(name(base));
        waiting.map(|&Kept { base, end, bytes, .. }| Waiting { path: path(base), base, end, bytes }).collect()
    }

    /// Takes note that the store has a segment; `false` if it was deleted meanwhile.
    pub fn is_stored(&mut self, base: u64) -> bool {
        let found = self.kept.iter_mut().find(|segment| segment.base == base);
        found.map(|segment| segment.stored = true).is_some()
    }

    /// Deletes the oldest files of segments that the store has, until the folder has at most `bytes` octets of the
    /// shard. The newest complete segment stays: the next writer begins behind it.
    pub fn release(&mut self, bytes: u64) -> Result<u64> {
        let local =
            self.kept.iter().filter(|segment| segment.local).map(|segment| segment.bytes).sum::<u64>();
        let (mut total, mut released) = (local + self.open_bytes(), 0);
        let last = self.kept.len().saturating_sub(1);
        for segment in self.kept.iter_mut().take(last).filter(|segment| segment.local) {
            if total <= bytes || !segment.stored {
                break;
            }
            delete_segment(&self.folder, segment.base)?;
            segment.local = false;
            total -= segment.bytes;
            released += segment.bytes;
        }
        Ok(released)
    }
}
