//! Reading of a spool. Readers take no lock, and never block the writer.

use crate::{
    consumers::{self, Consumer, Offsets, commit_in},
    cursor::Log,
    error::{Error, Result},
    layout::{GAPS, Layout, Shard},
    meta::Meta,
    recover::MARKS,
    rows::Rows,
    shard::Mark,
    slots::{self, VALUES},
    tier::{Changes, STALE, Tier, TierState, Tiered, consumers_in},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Reader of the spool in a folder, in a store, or in both.
#[derive(Clone, Debug)]
pub struct Spool {
    /// Folder; `None` for a spool that is in a store alone.
    pub(crate) dir: Option<PathBuf>,
    meta: Meta,
    /// Store that has segments which the folder no longer has.
    tier: Option<Arc<dyn Tier>>,
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
            Some(meta) => Ok(Self { dir: Some(dir.to_owned()), meta, tier: None }),
            None => Err(Error::Usage(format!("{}: there is no spool (no meta.json)", dir.display()))),
        }
    }

    /// Opens the spool in a store, which may have no writer. Fails as [`Self::open`] does.
    pub fn of_tier(tier: Arc<dyn Tier>) -> Result<Self> {
        let path = Path::new(tier.place()).join("meta.json");
        match tier.meta()? {
            Some(octets) => Ok(Self { dir: None, meta: Meta::decode(&octets, &path)?, tier: Some(tier) }),
            None => Err(Error::Usage(format!("{}: there is no spool (no meta.json)", tier.place()))),
        }
    }

    /// Reads segments from a store that are no longer in the folder. The store is used when they are needed.
    #[must_use]
    pub fn with_tier(self, tier: Arc<dyn Tier>) -> Self {
        Self { tier: Some(tier), ..self }
    }

    /// Store with segments of the spool, if there is one.
    pub fn tier(&self) -> Option<&Arc<dyn Tier>> {
        self.tier.as_ref()
    }

    /// First offsets of the segments of a shard, in the folder and in the store.
    pub fn segments(&self, shard: Shard) -> Result<Vec<u64>> {
        self.log(shard, 0)?.all()
    }

    /// Description of the spool at the time it was opened.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// How the number of shards has changed. A spool in a folder keeps its shards.
    pub fn changes(&self) -> Result<Changes> {
        match (&self.dir, &self.tier) {
            (None, Some(tier)) => tier.changes(),
            _ => Ok(Changes::default()),
        }
    }

    /// Number of shards of messages, as of now.
    pub fn shard_count(&self) -> Result<u32> {
        Ok(self.changes()?.shards.max(self.meta.shards))
    }

    /// All shards of messages, and finally the gap log.
    pub fn shards(&self) -> Result<Vec<Shard>> {
        Ok((0..self.shard_count()?).map(Shard::Data).chain([Shard::Gaps]).collect())
    }

    /// Published marks of each shard and finally of the gap log.
    pub fn marks(&self) -> Result<Vec<Mark>> {
        match &self.dir {
            Some(dir) => {
                let records = self.meta.shards().into_iter().zip(self.records(dir)?);
                records.map(|(shard, record)| self.mark_of(shard, record)).collect()
            }
            None => self.marks_in_tier(),
        }
    }

    /// Marks of what the store has, as [`Self::marks`]; `None` if there is no store.
    pub fn tier_marks(&self) -> Result<Option<Vec<Mark>>> {
        self.tier.as_ref().map(|_| self.marks_in_tier()).transpose()
    }

    /// Marks of one state of the store: a shard that is read later has no rows behind a change of the shards that those read
    /// before lack.
    fn marks_in_tier(&self) -> Result<Vec<Mark>> {
        let state = self.tier.as_ref().map(|tier| tier.state(STALE)).transpose()?;
        let mark = |shard| state.as_ref().map_or_else(Mark::default, |state| mark_in(state, shard));
        Ok(self.shards()?.into_iter().map(mark).collect())
    }

    fn mark_in_tier(&self, shard: Shard) -> Result<Mark> {
        let Some(tier) = &self.tier else { return Ok(Mark::default()) };
        Ok(mark_in(&*tier.state(STALE)?, shard))
    }

    /// Stored records of each shard and finally of the gap log.
    fn records(&self, dir: &Path) -> Result<Vec<Option<[u64; VALUES]>>> {
        let records = slots::read(&dir.join(MARKS), &self.meta.id, self.meta.shards as usize + 1)?;
        // Without its description it is no spool any more, and not a spool with deleted rows.
        if records.iter().all(Option::is_none) && Meta::read(dir)?.is_none() {
            return Err(Error::Removed { dir: dir.to_owned() });
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
            Shard::Data(number) => self.check_shard(number)?,
        };
        match &self.dir {
            Some(dir) => self.mark_of(shard, self.records(dir)?[index as usize]),
            None => self.mark_in_tier(shard),
        }
    }

    fn check_shard(&self, number: u32) -> Result<u32> {
        if number < self.meta.shards {
            return Ok(number);
        }
        let count = self.shard_count()?;
        if number < count {
            return Ok(number);
        }
        Err(Error::Usage(format!("shard {number}: this spool has shards 0 to {}", count - 1)))
    }

    /// Determines the mark of a shard from its segments, if no record of it is stored.
    fn find_mark(&self, shard: Shard) -> Result<Mark> {
        let mut log = self.log(shard, 0)?;
        let bases = log.all()?;
        let (Some(&first), Some(&last)) = (bases.first(), bases.last()) else {
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

    /// Segments of a shard, for a reader of the rows from an offset on.
    pub(crate) fn log(&self, shard: Shard, from: u64) -> Result<Log> {
        let folder = self.dir.as_ref().map(|dir| dir.join(shard.folder()));
        Log::new(self.meta.id, (shard, self.layout(shard)), folder, self.tier.clone(), from)
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
        self.cursor_from(shard, start)?.unchecked_rows((start, stop), columns, limits)
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
        offsets.keys().try_for_each(|shard| self.check_shard(*shard).map(|_| ()))?;
        let consumer = Consumer { offsets, at: now };
        match (&self.dir, &self.tier) {
            (None, Some(tier)) => commit_in(&**tier, &self.meta.id, name, &consumer),
            (dir, _) => {
                let dir = dir.as_deref().unwrap_or(Path::new(""));
                consumers::commit(dir, &self.meta.id, name, &consumer)
            }
        }
    }

    /// Positions of all consumers: of the folder, or of the store of a spool without one.
    pub fn consumers(&self) -> Result<BTreeMap<String, Consumer>> {
        match (&self.dir, &self.tier) {
            (None, Some(tier)) => consumers_in(&**tier, &self.meta.id),
            (dir, _) => consumers::all(dir.as_deref().unwrap_or(Path::new("")), &self.meta.id),
        }
    }
}

fn mark_in(state: &TierState, shard: Shard) -> Mark {
    state.get(&shard).map_or_else(Mark::default, Tiered::mark)
}
