//! Sequence numbers of publishers: which samples are missing, duplicate or late.

use crate::identity::id_bytes;
use arrow_array::{Array, BinaryArray, Int64Array, RecordBatch, StringArray};
use std::collections::{BTreeSet, HashMap};
use zwire_engine::Known;
use zwire_proto::zenoh::{
    KeyExpr, Ntp64, Timestamp, ZenohId,
    advanced::{Miss, SampleSource, limits::MAX_SOURCES as MAX_KNOWN},
    wire::SourceInfo,
};
use zwire_spool::{BatchLimits, Error, Gap, LastNumber, Mark, Rows, Shard, Spool};

/// Rows at the end of each shard that a starting spooler reads for the last numbers of publishers.
pub(crate) const LAST_ROWS: u64 = 1 << 17;

/// Rows after which the last numbers are saved again for the next writer: half of those it reads anyway.
pub(crate) const ROWS_WITHOUT: u64 = LAST_ROWS / 2;

/// Most rows of each shard that are read behind those that the saved numbers cover. A recorder saves the numbers
/// every second; a longer rest was written by another program.
const MOST_ROWS: u64 = 1 << 24;

/// Most publishers with a known last number; beyond it all are forgotten, and learned again from samples.
pub(crate) const MAX_SOURCES: usize = 65_536;

/// Distance behind the last number from which on a sample begins restarted numbers instead of being
/// late.
pub(crate) const FAR: i32 = 1 << 20;

/// Longest range that is reported as missing among the last rows; a longer one is a restart of the numbers.
pub(crate) const MAX_TOLD: u32 = 1 << 16;

/// Id of a node, and the number of a publisher in it.
pub(crate) type Publisher = (ZenohId, u32);

/// Numbers of a publisher that are missing among the last rows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) publisher: Publisher,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Hole {
    /// Row of the log of gaps that names the numbers as missing before an offset of a shard.
    pub(crate) fn gap(self, (shard, offset): (u32, u64), time: i64, detail: &str) -> Gap {
        let Self { publisher, from, to } = self;
        Gap {
            shard,
            offset,
            kind: "gap",
            source: Some((id_bytes(publisher.0), publisher.1)),
            numbers: Some((from, to)),
            count: Some(u64::from(to - from) + 1),
            time,
            detail: detail.to_owned(),
        }
    }
}

pub(crate) fn column<'a, T: 'static>(batch: &'a RecordBatch, name: &str) -> Option<&'a T> {
    batch.column_by_name(name)?.as_any().downcast_ref()
}

/// Publisher and number of each row that has both; `name` is the column of the number.
pub(crate) fn told<'a>(
    batch: &'a RecordBatch,
    name: &str,
) -> impl Iterator<Item = (Publisher, u32)> + use<'a> {
    let zids = column::<BinaryArray>(batch, "source_zid");
    let eids = column::<Int64Array>(batch, "source_eid");
    let sns = column::<Int64Array>(batch, name);
    (0..batch.num_rows()).filter_map(move |row| {
        let (zids, eids, sns) = (zids?, eids?, sns?);
        if zids.is_null(row) || sns.is_null(row) {
            return None;
        }
        let publisher = (ZenohId::from_wire(zids.value(row))?, u32::try_from(eids.value(row)).ok()?);
        Some((publisher, u32::try_from(sns.value(row)).ok()?))
    })
}

/// Offset of the last rows of a shard, and their batches.
fn last_rows(spool: &Spool, shard: Shard, mark: &Mark, columns: &[&str]) -> Result<(u64, Rows), Error> {
    let start = mark.end.saturating_sub(LAST_ROWS).max(mark.earliest);
    Ok((start, spool.read(shard, start, mark.end, Some(columns), BatchLimits::default())?))
}

/// Latest time stamp of each key and clock among the last rows.
pub(crate) fn last_times(spool: &Spool) -> Result<Vec<(KeyExpr, Timestamp)>, Error> {
    let columns = ["key", "hlc", "hlc_id"];
    let mut last: HashMap<(String, ZenohId), Ntp64> = HashMap::new();
    if columns.iter().any(|name| spool.meta().layout.position(name).is_none()) {
        return Ok(Vec::new());
    }
    for shard in (0..spool.shard_count()?).map(Shard::Data) {
        for batch in last_rows(spool, shard, &spool.mark(shard)?, &columns)?.1 {
            let batch = batch?;
            let keys = column::<StringArray>(&batch, "key");
            let times = column::<Int64Array>(&batch, "hlc");
            let ids = column::<BinaryArray>(&batch, "hlc_id");
            let (Some(keys), Some(times), Some(ids)) = (keys, times, ids) else { continue };
            for row in (0..batch.num_rows()).filter(|&row| !times.is_null(row) && !ids.is_null(row)) {
                let Some(id) = ZenohId::from_wire(ids.value(row)) else { continue };
                let time = Ntp64(times.value(row).cast_unsigned());
                if last.len() < MAX_KNOWN {
                    let last = last.entry((keys.value(row).to_owned(), id)).or_insert(time);
                    *last = time.max(*last);
                }
            }
        }
    }
    let known =
        |((key, id), time): ((String, ZenohId), Ntp64)| Some((key.parse().ok()?, Timestamp { time, id }));
    Ok(last.into_iter().filter_map(known).collect())
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// The expected number, or the first one of its publisher.
    Next,
    /// Numbers before it are missing: the first and the last of them.
    Missing(u32, u32),
    /// Same as the last number: a duplicate.
    Again,
    /// Lower than the last number: a late sample.
    Late,
}

#[derive(Clone, Default)]
pub(crate) struct Numbers(HashMap<(ZenohId, u32), u32>);

impl Numbers {
    /// Reads the last numbers from a spool, so that samples missed while no writer ran are detected too. Also
    /// returns the numbers that are missing among the last rows and not in the gap log: a killed writer may have
    /// written the later block of one shard, but not the earlier block of another.
    pub(crate) fn of(spool: &Spool) -> Result<(Self, Vec<Hole>), Error> {
        let mut numbers = Self::default();
        let columns = ["source_zid", "source_eid", "source_sn"];
        if columns.iter().any(|name| spool.meta().layout.position(name).is_none()) {
            return Ok((numbers, Vec::new()));
        }
        let marks = spool.marks()?;
        let mut left = spool.remembered();
        let there_is = |(shard, offset): (&u32, &u64)| {
            marks.get(*shard as usize).is_some_and(|mark| *offset <= mark.end)
        };
        if !left.iter().flat_map(|part| &part.offsets).all(there_is) {
            // Saved offsets lie beyond the end of a shard: the spool was restored from an older copy.
            left.clear();
        }
        for LastNumber { zid, eid, sn } in left.iter().flat_map(|part| &part.publishers).copied() {
            if let Some(zid) = ZenohId::from_wire(&zid) {
                numbers.see(&SourceInfo { zid, eid, sn });
            }
        }
        let mut there: HashMap<Publisher, BTreeSet<u32>> = HashMap::new();
        // Lower numbers may be in rows that were not read.
        let mut lowest: HashMap<Publisher, u32> = HashMap::new();
        for (number, mark) in (0..spool.shard_count()?).zip(&marks) {
            let shard = Shard::Data(number);
            let (start, rows) = last_rows(spool, shard, mark, &columns)?;
            let known = left.iter().filter_map(|part| part.offsets.get(&number)).min().copied();
            let begin = known.unwrap_or(start).max(mark.end.saturating_sub(MOST_ROWS)).max(mark.earliest);
            if begin < start {
                for batch in spool.read(shard, begin, start, Some(&columns), BatchLimits::default())? {
                    for ((zid, eid), sn) in told(&batch?, "source_sn") {
                        numbers.see(&SourceInfo { zid, eid, sn });
                    }
                }
            }
            let mut first: HashMap<Publisher, u32> = HashMap::new();
            for batch in rows {
                for (publisher, sn) in told(&batch?, "source_sn") {
                    numbers.see(&SourceInfo { zid: publisher.0, eid: publisher.1, sn });
                    there.entry(publisher).or_default().insert(sn);
                    first.entry(publisher).or_insert(sn);
                }
            }
            if start > 0 {
                for (publisher, sn) in first {
                    let lowest = lowest.entry(publisher).or_insert(sn);
                    *lowest = sn.max(*lowest);
                }
            }
        }
        let columns = ["source_zid", "source_eid", "sn_from", "sn_to"];
        for batch in last_rows(spool, Shard::Gaps, &spool.mark(Shard::Gaps)?, &columns)?.1 {
            let batch = batch?;
            for ((publisher, from), (_, to)) in told(&batch, "sn_from").zip(told(&batch, "sn_to")) {
                // Numbers in the gap log need not be reported again. Long ranges are never reported.
                numbers.pass(publisher, from, to);
                let there = there.entry(publisher).or_default();
                if to.wrapping_sub(from) < MAX_TOLD {
                    there.extend(from..=to);
                }
            }
        }
        let mut holes = Vec::new();
        for (publisher, there) in there {
            let low = lowest.get(&publisher).copied().unwrap_or(0);
            let mut before = None;
            for &sn in there.range(low..) {
                if let Some(before) = before
                    && sn - before > 1
                    && sn - before < MAX_TOLD
                {
                    holes.push(Hole { publisher, from: before + 1, to: sn - 1 });
                }
                before = Some(sn);
            }
        }
        Ok((numbers, holes))
    }

    /// Last numbers, to be saved for the next writer.
    pub(crate) fn last(&self) -> Vec<LastNumber> {
        let last = |(&(zid, eid), &sn): (&Publisher, &u32)| LastNumber { zid: zid.to_le_bytes(), eid, sn };
        self.0.iter().map(last).collect()
    }

    /// Last numbers for a subscriber, so that it does not query caches for samples that the spool has.
    pub(crate) fn known(&self) -> Known {
        let number = |(&(zid, eid), &sn): (&Publisher, &u32)| (SampleSource { zid, eid }, sn);
        Known { numbers: self.0.iter().map(number).take(MAX_KNOWN).collect(), times: Vec::new() }
    }

    /// Takes the last numbers of other rows; publishers that those do not have keep theirs.
    pub(crate) fn learn(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Leaves out the numbers that others have as well.
    pub(crate) fn leave_out(&mut self, others: &Self) {
        self.0.retain(|publisher, sn| others.0.get(publisher) != Some(sn));
    }

    /// Takes the later ones of other last numbers.
    pub(crate) fn join(&mut self, others: Self) {
        for ((zid, eid), sn) in others.0 {
            self.see(&SourceInfo { zid, eid, sn });
        }
    }

    /// Notes that the next numbers of a publisher were reported as missing.
    pub(crate) fn pass(&mut self, publisher: Publisher, from: u32, to: u32) {
        if let Some(last) = self.0.get_mut(&publisher)
            && from == last.wrapping_add(1)
        {
            *last = to;
        }
    }

    /// Whether samples before missed ones have not been seen yet.
    pub(crate) fn is_ahead(&self, miss: &Miss) -> bool {
        let last = self.0.get(&(miss.source.zid, miss.source.eid));
        last.is_some_and(|last| miss.first().wrapping_sub(last.wrapping_add(1)).cast_signed() > 0)
    }

    /// Notes missed samples. Returns the first and the last number that no sample has revealed.
    pub(crate) fn miss(&mut self, miss: &Miss) -> Option<(u32, u32)> {
        if self.0.len() >= MAX_SOURCES {
            self.0.clear();
        }
        let last = self.0.entry((miss.source.zid, miss.source.eid)).or_insert(miss.first().wrapping_sub(1));
        if miss.last.wrapping_sub(*last).cast_signed() <= 0 {
            return None;
        }
        let expected = last.wrapping_add(1);
        let known = expected.wrapping_sub(miss.first()).cast_signed() > 0;
        *last = miss.last;
        Some((if known { expected } else { miss.first() }, miss.last))
    }

    /// Stores the number of a sample, and classifies it.
    pub(crate) fn see(&mut self, info: &SourceInfo) -> Number {
        if self.0.len() >= MAX_SOURCES {
            self.0.clear();
        }
        let Some(last) = self.0.get_mut(&(info.zid, info.eid)) else {
            self.0.insert((info.zid, info.eid), info.sn);
            return Number::Next;
        };
        // Numbers wrap at 32 bits.
        match info.sn.wrapping_sub(*last).cast_signed() {
            0 => return Number::Again,
            ahead @ ..0 if ahead > -FAR => return Number::Late,
            _ => {}
        }
        let expected = last.wrapping_add(1);
        let missing = info.sn.wrapping_sub(expected).cast_signed();
        *last = info.sn;
        if missing > 0 { Number::Missing(expected, info.sn.wrapping_sub(1)) } else { Number::Next }
    }
}

#[cfg(test)]
mod tests {
    use super::{Number, Numbers};
    use zwire_proto::zenoh::{
        ZenohId,
        advanced::{Miss, SampleSource},
        wire::SourceInfo,
    };

    fn info(eid: u32, sn: u32) -> SourceInfo {
        SourceInfo { zid: ZenohId::from_wire(&[7]).unwrap(), eid, sn }
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.see(&info(1, 5)), Number::Next);
        assert_eq!(numbers.see(&info(1, 6)), Number::Next);
        assert_eq!(numbers.see(&info(2, 0)), Number::Next);
        assert_eq!(numbers.see(&info(1, 10)), Number::Missing(7, 9));
        assert_eq!(numbers.see(&info(1, 10)), Number::Again);
        assert_eq!(numbers.see(&info(1, 8)), Number::Late);
        assert_eq!(numbers.see(&info(1, 11)), Number::Next);
    }

    #[test]
    fn what_no_sample_has_revealed_is_missed() {
        let mut numbers = Numbers::default();
        numbers.see(&info(1, 5));
        let miss = |count, last| Miss { source: SampleSource { zid: info(1, 0).zid, eid: 1 }, count, last };
        assert!(numbers.is_ahead(&miss(2, 8)), "6 is still to come");
        assert!(!numbers.is_ahead(&miss(3, 8)));
        assert_eq!(numbers.miss(&miss(3, 8)), Some((6, 8)));
        assert_eq!(numbers.miss(&miss(3, 8)), None);
        assert_eq!(numbers.see(&info(1, 9)), Number::Next);
        assert_eq!(numbers.see(&info(1, 12)), Number::Missing(10, 11));
        assert_eq!(numbers.miss(&miss(2, 11)), None);
        assert_eq!(numbers.miss(&miss(5, 14)), Some((13, 14)));
        numbers.pass((info(1, 0).zid, 1), 15, 20);
        numbers.pass((info(1, 0).zid, 1), 30, 40);
        assert_eq!(numbers.see(&info(1, 21)), Number::Next);
    }

    #[test]
    fn numbers_wrap_and_begin_again() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.see(&info(1, u32::MAX - 1)), Number::Next);
        assert_eq!(numbers.see(&info(1, u32::MAX)), Number::Next);
        assert_eq!(numbers.see(&info(1, 1)), Number::Missing(0, 0));
        assert_eq!(numbers.see(&info(1, 3 << 20)), Number::Missing(2, (3 << 20) - 1));
        assert_eq!(numbers.see(&info(1, 0)), Number::Next);
        assert_eq!(numbers.see(&info(1, 1)), Number::Next);
    }

    #[test]
    fn numbers_of_several_shards_are_joined_and_left_out_again() {
        let of = |numbers: &[(u32, u32)]| {
            let mut found = Numbers::default();
            for (eid, sn) in numbers {
                found.see(&info(*eid, *sn));
            }
            found
        };
        let mut joined = of(&[(1, 5), (2, 7)]);
        joined.join(of(&[(1, 9), (2, 3), (3, 1)]));
        assert_eq!(joined.0, of(&[(1, 9), (2, 7), (3, 1)]).0);
        let mut later = of(&[(1, 9), (2, 8), (4, 4)]);
        later.leave_out(&joined);
        assert_eq!(later.0, of(&[(2, 8), (4, 4)]).0);
    }
}
