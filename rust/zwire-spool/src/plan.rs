//! Planning of reads: which part of a backlog is read next, and by how many readers at once.

use crate::{
    consumers::Offsets,
    cursor::Log,
    error::{Error, Result},
    layout::Shard,
    reader::Spool,
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

/// Contiguous offsets, with their number of octets.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    to: u64,
    bytes: u64,
}

fn share(whole: u64, part: u64, total: u64) -> u64 {
    let wide = u128::from(whole) * u128::from(part) / u128::from(total.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

impl Spool {
    /// First offset of each shard received at or after a time in microseconds since 1970, or its end.
    pub fn at(&self, time: i64) -> Result<Offsets> {
        (0..self.meta().shards)
            .map(|number| Ok((number, self.shard_at(Shard::Data(number), time)?)))
            .collect()
    }

    fn shard_at(&self, shard: Shard, time: i64) -> Result<u64> {
        let mark = self.mark(shard)?;
        let mut log = self.log(shard)?;
        for base in log.bases.clone() {
            let view = log.view(base)?;
            view.load(mark.end)?;
            // Clocks may be set back: the first block that reaches the time counts, without a search.
            let Some(entry) = view.entries.iter().find(|entry| entry.max_time >= time).copied() else {
                continue;
            };
            let start = entry.first.max(mark.earliest);
            let stop = entry.end().min(mark.end);
            if start >= stop {
                continue;
            }
            let mut rows = self.read(shard, start, stop, Some(&["recv_ts"]), Default::default())?;
            let mut offset = start;
            while let Some(batch) = rows.next_batch()? {
                if let Some(row) = times(&batch).iter().position(|at| *at >= time) {
                    return Ok(offset + row as u64);
                }
                offset += batch.num_rows() as u64;
            }
        }
        Ok(mark.end)
    }

    /// Time at which a row was received, in microseconds since 1970.
    pub fn received(&self, shard: u32, offset: u64) -> Result<Option<i64>> {
        let stop = offset.saturating_add(1);
        let mut rows = self.read(Shard::Data(shard), offset, stop, Some(&["recv_ts"]), Default::default())?;
        Ok(rows.next_batch()?.and_then(|batch| times(&batch).first().copied()))
    }

    /// An end between `start` and `end` within a limit that shards share by their backlog, with progress.
    pub fn walk(
        &self,
        start: &Offsets,
        end: &Offsets,
        rows: Option<u64>,
        bytes: Option<u64>,
    ) -> Result<Offsets> {
        let mut ends: Offsets =
            end.iter().map(|(shard, to)| (*shard, (*to).max(from(start, *shard)))).collect();
        if let Some(limit) = rows {
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
                }
            }
        }
        if let Some(limit) = bytes {
            let mut pieces = Vec::new();
            for (&shard, &to) in &ends {
                let mut log = self.log(Shard::Data(shard))?;
                let found = log.pieces(from(start, shard), to)?;
                pieces.push((shard, log, found));
            }
            let sum = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum::<u64>();
            let total: u64 = pieces.iter().map(|(_, _, pieces)| sum(pieces)).sum();
            if total > limit {
                let mut moved = false;
                for (shard, log, pieces) in &mut pieces {
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

    /// Divides the rows between `start` and `end` into about `parts` similar ranges, one or more a shard.
    pub fn split(&self, start: &Offsets, end: &Offsets, parts: usize) -> Result<Vec<Range>> {
        let mut shards = Vec::new();
        for (&shard, &to) in end {
            let begin = from(start, shard);
            if begin < to {
                let mut log = self.log(Shard::Data(shard))?;
                let pieces = log.pieces(begin, to)?;
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
            let mut at = begin;
            for cut in 1..=cuts {
                let wanted = share(bytes, cut, cuts);
                let stop = if cut == cuts { to } else { log.reach(&pieces, wanted)?.unwrap_or(at) };
                if stop > at {
                    let whole: u64 = to - begin;
                    ranges.push(Range { shard, start: at, stop, bytes: share(bytes, stop - at, whole) });
                    at = stop;
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
    /// Segments of a range of offsets; the sizes of the first and the last are estimated in proportion.
    fn pieces(&mut self, from: u64, to: u64) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let bases = self.bases.clone();
        for (index, &base) in bases.iter().enumerate() {
            let behind = bases.get(index + 1).copied().unwrap_or(u64::MAX);
            if behind <= from || base >= to {
                continue;
            }
            if base >= from && behind <= to {
                pieces.push(Piece { from: base, to: behind, bytes: self.bytes(base)? });
            } else {
                pieces.extend(self.blocks(base, from, to)?);
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
            let (Some(base), _) = self.around(piece.from) else { break };
            let inner = self.blocks(base, piece.from, piece.to)?;
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
            && let (Some(base), _) = self.around(first.from)
            && let Some(block) = self.blocks(base, first.from, first.to)?.first()
        {
            let part = share(block.to - block.from, bytes, block.bytes);
            reached = (part > 0).then_some(block.from + part);
        }
        Ok(reached)
    }

    /// Blocks of a segment with rows of a range; sizes of the first and last are proportional estimates.
    fn blocks(&mut self, base: u64, from: u64, to: u64) -> Result<Vec<Piece>> {
        let view = match self.view(base) {
            Ok(view) => view,
            // The reader will report the damage; a reader that resumes behind it has to be able to plan.
            Err(Error::Corrupt { .. }) => {
                let to = self.around(base).1.map_or(to, |behind| behind.min(to));
                return Ok(vec![Piece { from: from.max(base), to, bytes: self.bytes(base)? }]);
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

    /// Size in octets of the segment that begins at an offset.
    fn bytes(&self, base: u64) -> Result<u64> {
        let path = self.path(base);
        Ok(std::fs::metadata(&path).map_err(Error::io("read", path))?.len())
    }
}
