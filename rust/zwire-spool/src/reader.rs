//! Reading of a spool. Readers take no lock, and never block the writer.

use crate::{
    consumers::{self, Consumer, Offsets},
    cursor::Log,
    error::{Error, Result},
    layout::{GAPS, Layout, Shard},
    meta::Meta,
    recover::MARKS,
    rows::{Batches, Rows},
    shard::Mark,
    slots::{self, VALUES},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Reader of the spool in a folder.
#[derive(Clone, Debug)]
pub struct Spool {
    pub(crate) dir: PathBuf,
    meta: Meta,
}

/// Limits of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Most rows of a batch.
    pub rows: usize,
    /// Most octets of a batch; only a single larger block exceeds it.
    pub bytes: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { rows: 32_768, bytes: 8 << 20 }
    }
}

impl Spool {
    /// Opens the spool in a folder. Fails with [`Error::Usage`] if there is none, [`Error::BadFile`] if
    /// its description cannot be read.
    pub fn open(dir: &Path) -> Result<Self> {
        match Meta::read(dir)? {
            Some(meta) => Ok(Self { dir: dir.to_owned(), meta }),
            None => Err(Error::Usage(format!("{}: there is no spool (no meta.json)", dir.display()))),
        }
    }

    /// Description of the spool at the time it was opened.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Published marks of each shard and finally of the gap log.
    pub fn marks(&self) -> Result<Vec<Mark>> {
        let shards = (0..self.meta.shards).map(Shard::Data).chain([Shard::Gaps]);
        shards.zip(self.records()?).map(|(shard, record)| self.mark_of(shard, record)).collect()
    }

    /// Stored records of each shard and finally of the gap log.
    fn records(&self) -> Result<Vec<Option<[u64; VALUES]>>> {
        let records = slots::read(&self.dir.join(MARKS), &self.meta.id, self.meta.shards as usize + 1)?;
        // Without its description it is no spool any more, not one whose rows were deleted.
        if records.iter().all(Option::is_none) && Meta::read(&self.dir)?.is_none() {
            return Err(Error::Removed { dir: self.dir.clone() });
        }
        Ok(records)
    }

    fn mark_of(&self, shard: Shard, record: Option<[u64; VALUES]>) -> Result<Mark> {
        record.map_or_else(|| self.find_mark(shard), |values| Ok(Mark::decode(values)))
    }

    /// Published mark of a shard. Fails with [`Error::Usage`] if there is no such shard.
    pub fn mark(&self, shard: Shard) -> Result<Mark> {
        let index = match shard {
            Shard::Gaps => self.meta.shards,
            Shard::Data(number) if number < self.meta.shards => number,
            Shard::Data(number) => return Err(self.no_shard(number)),
        };
        self.mark_of(shard, self.records()?[index as usize])
    }

    fn no_shard(&self, number: u32) -> Error {
        Error::Usage(format!("shard {number}: this spool has shards 0 to {}", self.meta.shards - 1))
    }

    /// Determines the mark of a shard from its segments, if no record of it is stored.
    fn find_mark(&self, shard: Shard) -> Result<Mark> {
        let mut log = self.log(shard)?;
        let (Some(&first), Some(&last)) = (log.bases.first(), log.bases.last()) else {
            return Ok(Mark::default());
        };
        let view = log.view(last)?;
        view.load(u64::MAX)?;
        let end = view.end();
        let last_time = view.entries.last().map_or(0, |entry| entry.max_time);
        Ok(Mark { earliest: first, end, rows_to: end, last_time, ..Mark::default() })
    }

    /// Columns of the rows of a shard.
    pub fn layout(&self, shard: Shard) -> Layout {
        match shard {
            Shard::Data(_) => self.meta.layout.clone(),
            Shard::Gaps => Layout::whole(&GAPS),
        }
    }

    pub(crate) fn log(&self, shard: Shard) -> Result<Log> {
        Log::new(self.meta.id, shard, self.layout(shard), self.dir.join(shard.folder()))
    }

    /// Reads a range of offsets as batches with some columns, in the requested order; all columns if
    /// `None`. Fails with [`Error::OutOfRange`] if a part of it does not exist, [`Error::Usage`] for
    /// unknown columns.
    pub fn read(
        &self,
        shard: Shard,
        start: u64,
        stop: u64,
        columns: Option<&[&str]>,
        limits: BatchLimits,
    ) -> Result<Rows> {
        self.check(shard, start, stop)?;
        let cursor = self.cursor(shard)?;
        let batches = Batches::new(shard, self.layout(shard), (start, stop), columns, limits)?;
        Ok(Rows { cursor, batches, failed: None })
    }

    /// Checks that a range exists.
    pub(crate) fn check(&self, shard: Shard, start: u64, stop: u64) -> Result<()> {
        let mark = self.mark(shard)?;
        for offset in [start, stop] {
            if offset < mark.earliest || offset > mark.end {
                return Err(Error::OutOfRange { shard, offset, earliest: mark.earliest, end: mark.end });
            }
        }
        if start > stop {
            return Err(Error::Usage(format!("{shard}: a range from {start} to {stop}")));
        }
        Ok(())
    }

    /// Stores the position of a consumer, with a time in microseconds since 1970. Fails with
    /// [`Error::Usage`] for an invalid name, or a shard that does not exist.
    pub fn commit(&self, name: &str, offsets: Offsets, now: i64) -> Result<()> {
        if let Some(shard) = offsets.keys().find(|shard| **shard >= self.meta.shards) {
            return Err(self.no_shard(*shard));
        }
        consumers::commit(&self.dir, &self.meta.id, name, &Consumer { offsets, at: now })
    }

    /// Positions of all consumers.
    pub fn consumers(&self) -> Result<BTreeMap<String, Consumer>> {
        consumers::all(&self.dir, &self.meta.id)
    }
}
