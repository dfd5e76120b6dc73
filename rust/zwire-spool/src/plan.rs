//! Planning of reads: which part of a backlog is read next, and by how many readers at once.

use crate::{
    consumers::Offsets,
    cursor::{Listed, Log},
    error::{Error, Result},
    layout::Shard,
    reader::Spool,
    sealed::share,
    select::Selection,
    shard::Mark,
};
use arrow_array::{RecordBatch, cast::AsArray as _, types::TimestampMicrosecondType};

/// Range of offsets of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The shard.
    pub shard: u32,
    /// First offset.
    pub start: u64,
    /// Offset after the last.
    pub stop: u64,
    /// Approximate number of octets.
    pub bytes: u64,
}

/// Segments that a reader opens, and those that it passes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Number of segments that may have wanted rows.
    pub segments: u64,
    /// Number of segments that have none.
    pub skipped: u64,
    /// Size in octets of the former.
    pub bytes: u64,
}

/// Segments that are looked for at once, of which the first mostly has the time.
const LOOKS: usize = 64;

/// Contiguous offsets, with their number of octets.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    to: u64,
    bytes: u64,
}

impl Spool {
    /// First offset of each shard received at or after a time in microseconds since 1970, or its end.
    pub fn at(&self, time: i64) -> Result<Offsets> {
        (0..self.shard_count()?)
            .map(|number| Ok((number, self.shard_at(Shard::Data(number), time)?)))
            .collect()
    }

    /// As [`Self::at`], of one shard.
    pub fn shard_at(&self, shard: Shard, time: i64) -> Result<u64> {
        let mark = self.mark(shard)?;
        let mut log = self.log(shard, 0)?;
        let since = Selection { since: Some(time), ..Selection::default() };
        let mut from = 0;
        loop {
            let (found, _) = log.select((from, mark.end), Some(&since), LOOKS)?;
            let Some(last) = found.last().copied() else { return Ok(mark.end) };
            for listed in found {
                if let Some(offset) = self.at_in(&mut log, listed.base, time, &mark)? {
                    return Ok(offset);
                }
            }
            from = last.base.saturating_add(1).max(last.behind.min(mark.end));
            if from >= mark.end {
                return Ok(mark.end);
            }
        }
    }

    /// First offset of a segment received at or after a time.
    fn at_in(&self, log: &mut Log, base: u64, time: i64, mark: &Mark) -> Result<Option<u64>> {
        let view = log.view(base)?;
        view.load(mark.end)?;
        // Clocks may be set back: the first block that reaches the time counts, without a search.
        let Some(entry) = view.entries.iter().find(|entry| entry.max_time >= time).copied() else {
            return Ok(None);
        };
        let start = entry.first.max(mark.earliest);
        let stop = entry.end().min(mark.end);
        if start >= stop {
            return Ok(None);
        }
        let mut rows = self.read(log.shard, start, stop, Some(&["recv_ts"]), Default::default())?;
        let mut offset = start;
        while let Some(batch) = rows.next_batch()? {
            if let Some(row) = times(&batch).iter().position(|at| *at >= time) {
                return Ok(Some(offset + row as u64));
            }
            offset += batch.num_rows() as u64;
        }
        Ok(None)
    }

    /// Time at which a row was received, in microseconds since 1970.
    pub fn received(&self, shard: u32, offset: u64) -> Result<Option<i64>> {
        let stop = offset.saturating_add(1);
        let mut rows = self.read(Shard::Data(shard), offset, stop, Some(&["recv_ts"]), Default::default())?;
        Ok(rows.next_batch()?.and_then(|batch| times(&batch).first().copied()))
    }

    /// Brings ends nearer, so that a reader of all rows between `start` and them sees the rows of each key in order: if the
    /// number of shards has changed there, it reads those before the change first.
    fn keep_order(&self, start: &Offsets, ends: &mut Offsets) -> Result<()> {
        for past in self.changes()?.past {
            let is_before =
                |(shard, end): (&u32, &u64)| ends.contains_key(shard) && from(start, *shard) < *end;
            if past.ends.iter().any(is_before) {
                for (shard, to) in ends {
                    let end = past.ends.get(shard).copied().unwrap_or(0);
                    *to = (*to).min(end.max(from(start, *shard)));
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// An end between `start` and `end` within a limit that shards share by their backlog, with progress. Segments
    /// without wanted rows do not count. Rows of a key are in order: the end is not behind a change of the shards that
    /// `start` is before.
    pub fn walk(
        &self,
        start: &Offsets,
        end: &Offsets,
        (rows, bytes): (Option<u64>, Option<u64>),
        selection: Option<&Selection>,
    ) -> Result<Offsets> {
        let mut ends: Offsets =
            end.iter().map(|(shard, to)| (*shard, (*to).max(from(start, *shard)))).collect();
        self.keep_order(start, &mut ends)?;
        let end = &ends.clone();
        if let (Some(limit), Some(selection)) = (rows, selection) {
            self.walk_rows(start, &mut ends, limit, selection)?;
        } else if let Some(limit) = rows {
            let backlog: u64 = ends.iter().map(|(shard, to)| to - from(start, *shard)).sum();
            if backlog > limit {
                let mut left = limit.max(1);
                for (shard, to) in &mut ends {
                    let own = *to - from(start, *shard);
                    let part = share(limit, own, backlog).min(left);
                    *to = from(start, *shard) + part;
                    left -= part;
                }
                // The remainder of rounding goes to the first shards that still have a backlog.
                for (shard, to) in &mut ends {
                    let most = end.get(shard).copied().unwrap_or(*to).max(*to);
                    let more = (most - *to).min(left);
                    *to += more;
                    left -= more;
                    *to = self.behind_hole(*shard, *to, most)?;
                }
            }
        }
        if let Some(limit) = bytes {
            let mut pieces = Vec::new();
            for (&shard, &to) in &ends {
                let mut log = self.log(Shard::Data(shard), from(start, shard))?;
                let found = log.pieces(from(start, shard), to, selection)?;
                pieces.push((shard, log, found));
            }
            let sum = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum::<u64>();
            let total: u64 = pieces.iter().map(|(_, _, pieces)| sum(pieces)).sum();
            if total > limit {
                let mut moved = false;
                for (shard, log, pieces) in pieces.iter_mut().filter(|(_, _, pieces)| !pieces.is_empty()) {
                    let to = log.reach(pieces, share(limit, sum(pieces), total))?;
                    let begin = from(start, *shard);
                    let to = to.unwrap_or(begin);
                    moved |= to > begin;
                    ends.insert(*shard, to);
                }
                // A single row may exceed the limit.
                let first = pieces.iter().find_map(|(shard, _, pieces)| Some((*shard, pieces.first()?.from)));
                if let (false, Some((shard, offset))) = (moved, first) {
                    ends.insert(shard, offset + 1);
                }
            }
        }
        Ok(ends)
    }

    /// Offset from which on there is the next row: offsets that no row has are passed at once, however many.
    fn behind_hole(&self, shard: u32, offset: u64, end: u64) -> Result<u64> {
        let mut log = self.log(Shard::Data(shard), offset)?;
        let (Some(base), Some(behind)) = log.around(offset)? else { return Ok(offset) };
        let sealed = log.described(base)?.filter(|sealed| sealed.end <= offset);
        Ok(if sealed.is_some() { behind.min(end).max(offset) } else { offset })
    }

    /// Brings ends nearer, so that segments with wanted rows have about `limit` rows before them.
    fn walk_rows(
        &self,
        start: &Offsets,
        ends: &mut Offsets,
        limit: u64,
        selection: &Selection,
    ) -> Result<()> {
        let mut shards = Vec::new();
        for (&shard, to) in ends.iter_mut() {
            let begin = from(start, shard);
            let pieces = self.log(Shard::Data(shard), begin)?.pieces(begin, *to, Some(selection))?;
            let own: u64 = pieces.iter().map(|piece| piece.to.min(*to) - piece.from).sum();
            shards.push((to, pieces, own));
        }
        let backlog: u64 = shards.iter().map(|(_, _, own)| own).sum();
        if backlog <= limit {
            return Ok(());
        }
        let mut left = limit.max(1);
        let parts: Vec<u64> = shards.iter().map(|(_, _, own)| share(limit, *own, backlog)).collect();
        left -= parts.iter().sum::<u64>().min(left);
        for ((to, pieces, own), part) in shards.into_iter().zip(parts) {
            // The remainder of rounding goes to the first shards that still have a backlog.
            let more = (own - part).min(left);
            left -= more;
            let mut rows = part + more;
            for piece in pieces {
                let here = piece.to.min(*to) - piece.from;
                if here > rows {
                    *to = piece.from + rows;
                    break;
                }
                rows -= here;
            }
        }
        Ok(())
    }

    /// Segments that a reader of the rows between `start` and `end` opens; none is opened for it.
    pub fn plan(&self, start: &Offsets, end: &Offsets, selection: Option<&Selection>) -> Result<Plan> {
        let mut plan = Plan::default();
        for (&shard, &to) in end {
            let begin = from(start, shard);
            if begin < to {
                let mut log = self.log(Shard::Data(shard), begin)?;
                let (found, skipped) = log.select((begin, to), selection, usize::MAX)?;
                plan.segments += found.len() as u64;
                plan.skipped += skipped;
                for listed in found {
                    plan.bytes += log.bytes(&listed)?;
                }
            }
        }
        Ok(plan)
    }

    /// Divides the rows between `start` and `end` into about `parts` similar ranges, one or more a shard. Segments
    /// without wanted rows are in the ranges, and count nothing: a reader passes over them, but not over missing ones.
    pub fn split(
        &self,
        start: &Offsets,
        end: &Offsets,
        parts: usize,
        selection: Option<&Selection>,
    ) -> Result<Vec<Range>> {
        let mut shards = Vec::new();
        for (&shard, &to) in end {
            let begin = from(start, shard);
            if begin < to {
                let mut log = self.log(Shard::Data(shard), begin)?;
                let pieces = log.pieces(begin, to, selection)?;
                let bytes = pieces.iter().map(|piece| piece.bytes).sum::<u64>();
                shards.push((shard, begin, to, log, pieces, bytes));
            }
        }
        let total: u64 = shards.iter().map(|shard| shard.5).sum();
        let spare = (parts as u64).saturating_sub(shards.len() as u64);
        let (mut ranges, mut before) = (Vec::new(), 0);
        for (shard, begin, to, mut log, pieces, bytes) in shards {
            let cuts = 1 + share(spare, before + bytes, total) - share(spare, before, total);
            before += bytes;
            let (mut at, mut done) = (begin, 0);
            for cut in 1..=cuts {
                let wanted = share(bytes, cut, cuts);
                let stop = if cut == cuts { to } else { log.reach(&pieces, wanted)?.unwrap_or(at) };
                if stop > at {
                    let bytes = match selection {
                        None => share(bytes, stop - at, to - begin),
                        Some(_) => wanted - done,
                    };
                    ranges.push(Range { shard, start: at, stop, bytes });
                    (at, done) = (stop, wanted);
                }
            }
        }
        Ok(ranges)
    }
}

/// Times of a batch with no other column.
fn times(batch: &RecordBatch) -> &[i64] {
    batch.column(0).as_primitive::<TimestampMicrosecondType>().values()
}

fn from(start: &Offsets, shard: u32) -> u64 {
    start.get(&shard).copied().unwrap_or(0)
}

impl Log {
    /// Segments of a range of offsets that may have wanted rows; the sizes of the first and the last are estimated in
    /// proportion.
    fn pieces(&mut self, from: u64, to: u64, selection: Option<&Selection>) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let (found, _) = self.select((from, to), selection, usize::MAX)?;
        for listed in found {
            let Listed { base, behind, .. } = listed;
            if base >= from && behind <= to {
                pieces.push(Piece { from: base, to: behind, bytes: self.bytes(&listed)? });
            } else {
                pieces.extend(self.blocks(&listed, from, to)?);
            }
        }
        Ok(pieces)
    }

    /// Offset before which the pieces have `bytes` octets, ending a block if possible; `None`: not a row.
    fn reach(&mut self, pieces: &[Piece], bytes: u64) -> Result<Option<u64>> {
        let mut left = bytes;
        let mut reached = None;
        for piece in pieces {
            if piece.bytes <= left {
                left -= piece.bytes;
                reached = Some(piece.to);
                continue;
            }
            // A segment that no octet is left for is not opened.
            if left == 0 && reached.is_some() {
                break;
            }
            let Some(listed) = self.listed(piece.from)? else { break };
            let inner = self.blocks(&listed, piece.from, piece.to)?;
            if inner.len() == 1 {
                let part = share(piece.to - piece.from, left, piece.bytes);
                reached = if part > 0 { Some(piece.from + part) } else { reached };
                break;
            }
            for block in inner {
                if block.bytes > left {
                    break;
                }
                left -= block.bytes;
                reached = Some(block.to);
            }
            break;
        }
        // A first block that is too large is divided.
        if let (None, Some(first)) = (reached, pieces.first())
            && let Some(listed) = self.listed(first.from)?
            && let Some(block) = self.blocks(&listed, first.from, first.to)?.first()
        {
            let part = share(block.to - block.from, bytes, block.bytes);
            reached = (part > 0).then_some(block.from + part);
        }
        Ok(reached)
    }

    /// Blocks of a segment with rows of a range; sizes of the first and last are proportional estimates.
    fn blocks(&mut self, listed: &Listed, from: u64, to: u64) -> Result<Vec<Piece>> {
        let base = listed.base;
        let view = match self.view(base) {
            Ok(view) => view,
            // The reader will report the damage; a reader that resumes behind it has to be able to plan.
            Err(Error::Corrupt { .. }) => {
                let to = self.around(base)?.1.map_or(to, |behind| behind.min(to));
                return Ok(vec![Piece { from: from.max(base), to, bytes: self.bytes(listed)? }]);
            }
            Err(error) => return Err(error),
        };
        view.load(to)?;
        let pieces =
            view.entries.iter().filter(|entry| entry.end() > from && entry.first < to).map(|entry| {
                let (first, last) = (entry.first.max(from), entry.end().min(to));
                Piece { from: first, to: last, bytes: share(entry.len, last - first, entry.rows.into()) }
            });
        Ok(pieces.collect())
    }

    /// Segment around an offset.
    fn listed(&mut self, offset: u64) -> Result<Option<Listed>> {
        let (Some(base), behind) = self.around(offset)? else { return Ok(None) };
        let bytes = self.stored(base)?.map(|sealed| sealed.bytes);
        Ok(Some(Listed { base, behind: behind.unwrap_or(u64::MAX), bytes }))
    }

    /// Size of a segment in octets.
    fn bytes(&self, listed: &Listed) -> Result<u64> {
        if let Some(bytes) = listed.bytes {
            return Ok(bytes);
        }
        let path = self.file(listed.base);
        Ok(std::fs::metadata(&path).map_err(Error::io("read", path))?.len())
    }
}
