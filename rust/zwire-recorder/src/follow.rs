//! Following the rows of a store that another spooler writes: which samples are there, and which numbers are missing.

use crate::{
    identity::{Identity, Recognition},
    missing::Missing,
    numbers::{LAST_ROWS, Number, Numbers, column, told},
    standby::{Listed, REMEMBERED},
};
use arrow_array::Int64Array;
use core::time::Duration;
use std::{collections::BTreeMap, sync::Arc};
use zwire_engine::clock;
use zwire_proto::zenoh::wire::SourceInfo;
use zwire_spool::{BatchLimits, Error, Mark, Offsets, Result, Shard, Spool, tier::MOMENT};

/// Time after which reading is interrupted, and rows of a batch: a store that is far away takes long for the small segments of
/// many rows, and claims are looked at in between.
const READING: Duration = Duration::from_secs(1);
const AT_ONCE: usize = 1024;

/// Reader of the rows that are new in a spool.
pub(crate) struct Follower {
    spool: Spool,
    /// Offset up to which rows are known, by shard.
    at: BTreeMap<Shard, u64>,
    /// What the rows tell: of all shards, or of each.
    known: BTreeMap<u32, Known>,
    apart: bool,
    /// What was known when the number of shards changed last: any shard may get rows of each publisher then.
    before: Numbers,
    /// The same, as the threads of the sources have learned it.
    given: Arc<Numbers>,
    /// Number of changes of the shards behind which rows are read.
    generation: u32,
}

/// Publishers of rows that were read.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// Last numbers of the publishers.
    pub(crate) numbers: Numbers,
    /// Numbers that are missing among the rows and not in the log of gaps.
    pub(crate) missing: Missing,
}

fn begin(mark: &Mark, end: u64) -> u64 {
    mark.rows_to.min(end).saturating_sub(LAST_ROWS).max(mark.earliest)
}

/// The shards that marks are those of.
fn shards_of(marks: &[Mark]) -> impl Iterator<Item = Shard> + use<> {
    (0..marks.len().saturating_sub(1) as u32).map(Shard::Data).chain([Shard::Gaps])
}

/// Offset of a shard up to which rows are read before a change of the shards.
fn limit(ends: Option<&Offsets>, shard: Shard) -> u64 {
    match (ends, shard) {
        (Some(ends), Shard::Data(number)) => ends.get(&number).copied().unwrap_or(0),
        _ => u64::MAX,
    }
}

impl Follower {
    /// A follower from the last rows on: late samples of them may still arrive. `apart`: publishers are told apart by shard.
    pub(crate) fn new(spool: Spool, apart: bool) -> Result<Self> {
        let (marks, changes) = (spool.marks()?, spool.changes()?);
        // The last rows of each shard may lie on both sides of changes; those before them are not read.
        let generation = changes.oldest();
        let first = |(shard, mark): (Shard, Mark)| (shard, begin(&mark, u64::MAX));
        let at = shards_of(&marks).zip(marks.iter().copied()).map(first).collect();
        let (known, before, given) = (BTreeMap::new(), Numbers::default(), Arc::default());
        Ok(Self { spool, at, known, apart, before, given, generation })
    }

    /// Number of changes of the shards behind which rows are read.
    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    /// Number of shards over which the keys of the rows that are read are spread; 0 if it is that of the description.
    pub(crate) fn count(&self) -> Result<u32> {
        Ok(self.spool.changes()?.count_after(self.generation))
    }

    /// Goes on behind the next change of the shards, if it is made and all rows before it are known. Rows behind it are not
    /// read before: a key may have another shard there.
    pub(crate) fn cross(&mut self) -> Result<bool> {
        let changes = self.spool.changes()?;
        self.generation = self.generation.max(changes.oldest());
        let Some(past) = changes.after(self.generation) else { return Ok(false) };
        if !past.ends.iter().all(|(shard, end)| self.has_of(*shard, *end)) {
            return Ok(false);
        }
        // The spoolers that have written these rows have named what is missing among them.
        for Known { numbers, .. } in core::mem::take(&mut self.known).into_values() {
            self.before.join(numbers);
        }
        self.given = Arc::new(self.before.clone());
        self.generation += 1;
        Ok(true)
    }

    fn known(&mut self, shard: u32) -> &mut Known {
        let slot = if self.apart { shard } else { 0 };
        let before = &self.before;
        self.known
            .entry(slot)
            .or_insert_with(|| Known { numbers: before.clone(), missing: Missing::default() })
    }

    /// Last numbers of publishers when the number of shards has changed last.
    pub(crate) fn given(&self) -> Arc<Numbers> {
        self.given.clone()
    }

    /// Takes what the rows have told of the publishers of a shard, since the number of shards has changed last.
    pub(crate) fn take(&mut self, shard: u32) -> Known {
        let mut known = core::mem::take(self.known(shard));
        known.numbers.leave_out(&self.given);
        known
    }

    /// Begins with the last rows of a shard again: they were not followed for a while. The log of gaps is read again, too: it
    /// names what is missing among them.
    pub(crate) fn begin_again(&mut self, shard: u32) -> Result<()> {
        self.known.remove(&shard);
        let changes = self.spool.changes()?;
        let ends = changes.after(self.generation).map(|past| &past.ends);
        for shard in [Shard::Data(shard), Shard::Gaps] {
            self.at.insert(shard, begin(&self.spool.mark(shard)?, limit(ends, shard)));
        }
        Ok(())
    }

    /// Does not read rows of a shard before an offset.
    pub(crate) fn pass_to(&mut self, shard: u32, offset: u64) {
        let at = self.at.entry(Shard::Data(shard)).or_default();
        *at = offset.max(*at);
    }

    /// Whether all rows of a shard before an offset are known.
    pub(crate) fn has_of(&self, shard: u32, end: u64) -> bool {
        self.at_of(Shard::Data(shard)) >= end
    }

    /// Whether the log of gaps is known before an offset.
    pub(crate) fn has_log(&self, end: u64) -> bool {
        self.at_of(Shard::Gaps) >= end
    }

    fn at_of(&self, shard: Shard) -> u64 {
        self.at.get(&shard).copied().unwrap_or(0)
    }

    /// Reads some rows of shards that are followed, as many as a thread of a source takes note of at once; `None` if there
    /// are no more.
    pub(crate) fn turn(
        &mut self,
        recognition: &Recognition,
        is_followed: &dyn Fn(Shard) -> bool,
    ) -> Result<Option<Listed>> {
        if let Some(tier) = self.spool.tier() {
            tier.state(MOMENT)?;
        }
        let marks = self.spool.marks()?;
        // The changes are those of the same state, or of a later one.
        let changes = self.spool.changes()?;
        let ends = changes.after(self.generation).map(|past| &past.ends);
        for (shard, mark) in shards_of(&marks).zip(marks.iter().copied()) {
            if !is_followed(shard) {
                continue;
            }
            let (most, from) = (limit(ends, shard), self.at_of(shard).max(mark.earliest));
            let to = mark.rows_to.min(most);
            if from >= to {
                self.at.insert(shard, from.max(mark.end.min(most)));
                continue;
            }
            let mut listed = Listed::default();
            let read = match shard {
                Shard::Gaps => self.read_gaps((from, to)),
                Shard::Data(number) => self.read((from, to), (number, recognition), &mut listed),
            };
            match read {
                // Retention has deleted rows meanwhile; the next turn looks again.
                Ok(()) | Err(Error::OutOfRange { .. }) => {}
                Err(error) => match error.resumes() {
                    Some(offset) => {
                        tracing::warn!("{error}; samples in these rows are not recognised");
                        self.at.insert(shard, offset.max(self.at_of(shard) + 1));
                    }
                    None => return Err(error),
                },
            }
            return Ok(Some(listed));
        }
        Ok(None)
    }

    /// Whether all rows before these offsets are known.
    pub(crate) fn has(&self, ends: &[u64]) -> bool {
        self.at.values().zip(ends).all(|(at, end)| at >= end)
    }

    fn read(
        &mut self,
        (from, to): (u64, u64),
        (shard, recognition): (u32, &Recognition),
        listed: &mut Listed,
    ) -> Result<()> {
        let columns = recognition.columns();
        let mut rows = 0;
        let (end, limits) =
            (clock::mono() + READING, BatchLimits { rows: AT_ONCE, ..BatchLimits::default() });
        for batch in self.spool.read(Shard::Data(shard), from, to, Some(&columns), limits)? {
            let batch = batch?;
            for identity in recognition.of_rows(&batch) {
                listed.add(shard, identity);
                if let Identity::Number(publisher, sn) = identity {
                    self.see(shard, &SourceInfo { zid: publisher.0, eid: publisher.1, sn });
                }
            }
            self.pass(Shard::Data(shard), column(&batch, "offset"));
            rows += batch.num_rows();
            if rows >= REMEMBERED / 2 || clock::mono() >= end {
                return Ok(());
            }
        }
        self.at.insert(Shard::Data(shard), to);
        Ok(())
    }

    fn see(&mut self, shard: u32, info: &SourceInfo) {
        let publisher = (info.zid, info.eid);
        let Known { numbers, missing } = self.known(shard);
        match numbers.see(info) {
            Number::Missing(from, to) => missing.add(publisher, from, to),
            Number::Late => missing.remove(publisher, info.sn, info.sn),
            Number::Next | Number::Again => {}
        }
    }

    fn read_gaps(&mut self, (from, to): (u64, u64)) -> Result<()> {
        let columns = ["source_zid", "source_eid", "sn_from", "sn_to"];
        for batch in self.spool.read(Shard::Gaps, from, to, Some(&columns), BatchLimits::default())? {
            let batch = batch?;
            for ((publisher, from), (_, to)) in told(&batch, "sn_from").zip(told(&batch, "sn_to")) {
                self.before.pass(publisher, from, to);
                for Known { numbers, missing } in self.known.values_mut() {
                    missing.remove(publisher, from, to);
                    numbers.pass(publisher, from, to);
                }
            }
        }
        self.at.insert(Shard::Gaps, to);
        Ok(())
    }

    /// Takes note of the offsets that were read.
    fn pass(&mut self, shard: Shard, offsets: Option<&Int64Array>) {
        if let Some(last) = offsets.and_then(|offsets| offsets.values().last()) {
            self.at.insert(shard, last.cast_unsigned() + 1);
        }
    }
}
