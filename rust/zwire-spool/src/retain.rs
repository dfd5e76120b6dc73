//! Retention: deletion of old segments.

use crate::{
    error::{Error, Result},
    segment::{INDEX_ENDING, name},
    shard::ShardWriter,
};
use std::{fs, io, path::Path};

/// A segment that is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub(crate) base: u64,
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    /// Greatest receive time of its rows.
    pub(crate) max_time: i64,
}

/// Retention rules of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// Age in microseconds at which rows are deleted that all consumers have read; `None`: never.
    pub micros: Option<i64>,
    /// Most octets of a shard, read or not; its open segment is never deleted.
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

impl ShardWriter {
    /// Greatest receive time in the oldest complete segment, if there is one.
    pub fn oldest_time(&self) -> Option<i64> {
        self.kept.front().map(|segment| segment.max_time)
    }

    /// Deletes segments according to `rule`. `committed` is the position of the slowest consumer, if
    /// any.
    pub fn retain(&mut self, rule: &Retention, committed: Option<u64>, now: i64) -> Result<Vec<Deleted>> {
        let mut deleted: Vec<Deleted> = Vec::new();
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
            deleted.push(Deleted { from: oldest.base, to: oldest.end, unread });
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
}
