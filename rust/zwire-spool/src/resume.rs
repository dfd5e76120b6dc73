//! Taking over a shard that other writers have written into a store, from folders of their own.

use crate::{
    error::{Error, Result},
    retain::{Kept, Tiering, delete, delete_segment, is_in},
    sealed::Sealed,
    segment::{INDEX_ENDING, name},
    shard::{Mark, ShardWriter},
    tier::Tiered,
};
use std::{fs, io};

/// Ending of a segment that was set aside: its offsets belong to another writer now.
const ASIDE: &str = "fenced";

impl ShardWriter {
    /// Goes on behind the rows that a store has, at an offset that no other writer has used. Segments of this folder
    /// that the store does not have are set aside, the others are deleted here. `there` are all segments of the store.
    pub fn resume(&mut self, tiered: &Tiered, there: &[Sealed], next: u64, epoch: u32) -> Result<()> {
        for segment in &mut self.kept {
            segment.stored = is_in(there, segment.base, segment.end);
        }
        self.fence()?;
        let end = tiered.end().max(tiered.trimmed);
        self.kept = there
            .iter()
            .map(|&Sealed { base, end, bytes, times, .. }| Kept {
                base,
                end,
                bytes,
                max_time: times.1,
                local: false,
                stored: true,
            })
            .collect();
        (self.next, self.follows, self.reserved, self.epoch) = (next, end, 0, epoch);
        (self.tiering, self.remembered) = (Tiering::Known, true);
        self.mark = Mark { end: next, rows_to: end, earliest: tiered.first().min(next), ..tiered.mark() };
        self.publish_mark()
    }

    /// Goes on as [`Self::resume`] does, and deletes the segments that the store does not have: their rows are written again.
    pub fn restart(&mut self, tiered: &Tiered, there: &[Sealed], next: u64, epoch: u32) -> Result<()> {
        self.block.clear();
        self.seal()?;
        self.kept.iter_mut().for_each(|segment| segment.stored = true);
        self.fence()?;
        self.resume(tiered, there, next, epoch)
    }

    /// Ends the open segment without the rows that are not written, and sets aside the segments that the store does not
    /// have. Returns their number. No row may be written before [`Self::resume`].
    pub fn fence(&mut self) -> Result<usize> {
        self.block.clear();
        // A segment without its end can be set aside as well.
        let sealed = self.seal();
        let mut aside = 0;
        while let Some(segment) = self.kept.pop_front() {
            if segment.stored {
                delete_segment(&self.folder, segment.base)?;
                continue;
            }
            let path = self.folder.join(name(segment.base));
            delete(&path.with_extension(INDEX_ENDING))?;
            match fs::rename(&path, path.with_extension(ASIDE)) {
                Ok(()) => aside += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("rename", path)(error)),
            }
        }
        sealed.map(|()| aside)
    }

    /// Bounds the offsets of later rows: those from this one on belong to other writers.
    pub const fn limit(&mut self, limit: u64) {
        self.limit = limit;
    }
}
