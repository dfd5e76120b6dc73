//! Numbers that publishers give their samples: what is missing between them.

use arrow_array::{Array, BinaryArray, Int64Array, RecordBatch};
use std::{collections::HashMap, path::Path};
use zwire_proto::zenoh::{ZenohId, wire::SourceInfo};
use zwire_spool::{BatchLimits, Error, Shard, Spool};

/// Rows of each shard that are looked at for the last numbers of publishers, when a spooler starts.
const LAST_ROWS: u64 = 1 << 17;

/// Publishers that are watched at once. Beyond it all are forgotten, and known again with their next sample.
const MAX_SOURCES: usize = 65_536;

/// A sample that is so far behind is the first of a publisher that counts anew.
const FAR: i32 = 1 << 20;

/// What the number of a sample says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// It is the next one, or the first of its publisher.
    Next,
    /// These, first and last, have not come.
    Missing(u32, u32),
    /// It has come before.
    Again,
    /// It comes behind later ones.
    Late,
}

/// The last number of each publisher.
#[derive(Clone, Default)]
pub(crate) struct Numbers(HashMap<(ZenohId, u32), u32>);

impl Numbers {
    /// What the last rows of a spool say, so that what was missed while nobody wrote has numbers too.
    pub(crate) fn of(dir: &Path) -> Result<Self, Error> {
        let mut numbers = Self::default();
        let spool = Spool::open(dir)?;
        let columns = ["source_zid", "source_eid", "source_sn"];
        if columns.iter().any(|name| spool.meta().layout.position(name).is_none()) {
            return Ok(numbers);
        }
        for shard in (0..spool.meta().shards).map(Shard::Data) {
            let mark = spool.mark(shard)?;
            let start = mark.end.saturating_sub(LAST_ROWS).max(mark.earliest);
            let mut rows = spool.read(shard, start, mark.end, Some(&columns), BatchLimits::default())?;
            while let Some(batch) = rows.next_batch()? {
                numbers.see_rows(&batch);
            }
        }
        Ok(numbers)
    }

    fn see_rows(&mut self, batch: &RecordBatch) {
        let (Some(zids), Some(eids), Some(sns)) = (
            batch.column(0).as_any().downcast_ref::<BinaryArray>(),
            batch.column(1).as_any().downcast_ref::<Int64Array>(),
            batch.column(2).as_any().downcast_ref::<Int64Array>(),
        ) else {
            return;
        };
        for row in (0..batch.num_rows()).filter(|row| !sns.is_null(*row) && !zids.is_null(*row)) {
            let zid = ZenohId::from_wire(zids.value(row));
            if let (Some(zid), Ok(eid), Ok(sn)) =
                (zid, u32::try_from(eids.value(row)), u32::try_from(sns.value(row)))
            {
                self.see(&SourceInfo { zid, eid, sn });
            }
        }
    }

    /// Takes note of a sample's number.
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
    use zwire_proto::zenoh::{ZenohId, wire::SourceInfo};

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
    fn numbers_wrap_and_begin_again() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.see(&info(1, u32::MAX - 1)), Number::Next);
        assert_eq!(numbers.see(&info(1, u32::MAX)), Number::Next);
        assert_eq!(numbers.see(&info(1, 1)), Number::Missing(0, 0));
        assert_eq!(numbers.see(&info(1, 3 << 20)), Number::Missing(2, (3 << 20) - 1));
        assert_eq!(numbers.see(&info(1, 0)), Number::Next);
        assert_eq!(numbers.see(&info(1, 1)), Number::Next);
    }
}
