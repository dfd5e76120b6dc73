//! Ranges over a network: whoever has the files answers with blocks as they are, and whoever asked verifies
//! them as if they were read from a file.
//!
//! Beside each block goes a label:
//!
//! ```text
//!  0  "ZWRL" 0 0 0 0    8  first offset   16  the one behind the last   24  the one behind this answer
//! 32  1: no row has these offsets, and there is no block   36  crc32c of all before
//! ```
//!
//! Where an answer ends is known from its first label on,
//! so that the next one can be asked for while this one comes.

use crate::{
    columns,
    cursor::{Cursor, Place},
    error::{Error, Result},
    layout::{GAPS, Layout, Shard, table},
    read_at::u64_at,
    reader::{BatchLimits, Spool},
    rows::Batches,
};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use std::path::PathBuf;

/// Octets of a label.
pub const LABEL: usize = 40;
const MARK: &[u8; 8] = b"ZWRL\0\0\0\0";

/// An answer has no more octets than this, or one block.
pub const MAX_ANSWER: u64 = 64 << 20;
/// Nor more blocks: whoever asked has a place for each.
pub const MAX_BLOCKS: usize = 4096;
/// A message of Zenoh has less than 1 GiB by default; some of it is not payload.
const MAX_BLOCK: u64 = (1 << 30) - (64 << 10);

/// What the block beside it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// The offset of its first row.
    pub first: u64,
    /// The one behind its last.
    pub end: u64,
    /// The one behind the last of the answer.
    pub until: u64,
    /// Whether no row has these offsets, and there is no block.
    pub hole: bool,
}

impl Label {
    /// Its octets.
    pub fn encode(&self) -> [u8; LABEL] {
        let mut out = [0; LABEL];
        out[..8].copy_from_slice(MARK);
        out[8..16].copy_from_slice(&self.first.to_le_bytes());
        out[16..24].copy_from_slice(&self.end.to_le_bytes());
        out[24..32].copy_from_slice(&self.until.to_le_bytes());
        out[32] = self.hole.into();
        let crc = crc32c::crc32c(&out[..36]);
        out[36..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None`: these are not the octets of a label.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; LABEL] = octets.try_into().ok()?;
        let label = Self {
            first: u64_at(octets, 8),
            end: u64_at(octets, 16),
            until: u64_at(octets, 24),
            hole: octets[32] == 1,
        };
        (label.encode() == *octets && label.first < label.end && label.end <= label.until).then_some(label)
    }
}

impl Spool {
    /// What goes through a shard to answer from it.
    ///
    /// # Errors
    ///
    /// Of the operating system.
    pub fn cursor(&self, shard: Shard) -> Result<Cursor> {
        Ok(Cursor { spool: self.clone(), log: self.log(shard)? })
    }
}

impl Cursor {
    /// Which shard it goes through.
    pub const fn shard(&self) -> Shard {
        self.log.shard
    }

    /// Answers with the blocks that hold rows `from` to `to` (exclusive): all of them, or as many as have
    /// about `max` octets.
    ///
    /// # Errors
    ///
    /// As reading.
    pub fn answer(mut self, from: u64, to: u64, max: u64) -> Result<Answer> {
        let shard = self.log.shard;
        self.spool.check(shard, from, to)?;
        let max = max.min(MAX_ANSWER);
        let until = if from >= to {
            from
        } else {
            match self.locate(from, to)? {
                Place::Hole(end) => end.min(to),
                Place::Block(_) => {
                    let (mut bytes, mut until) = (0, from);
                    for entry in self.from(from).iter().take(MAX_BLOCKS).take_while(|entry| entry.first < to)
                    {
                        bytes += entry.len;
                        if until > from && bytes > max {
                            break;
                        }
                        until = entry.end();
                    }
                    until.min(to)
                }
            }
        };
        Ok(Answer { cursor: self, next: from, until })
    }
}

/// The blocks of an answer, one by one. None for a range that is empty.
pub struct Answer {
    cursor: Cursor,
    next: u64,
    until: u64,
}

impl Answer {
    /// The next block with its label, or `None` behind the last. It is not verified here.
    ///
    /// # Errors
    ///
    /// As reading; [`Error::Usage`] for a block that is too large for a message.
    pub fn next_block(&mut self) -> Result<Option<(Label, Buffer)>> {
        if self.next >= self.until {
            return Ok(None);
        }
        let (next, until) = (self.next, self.until);
        let (first, end, octets, hole) = match self.cursor.locate(next, until)? {
            Place::Hole(end) => (next, end.min(until), Buffer::from_vec(Vec::<u8>::new()), true),
            Place::Block(entry) if entry.len > MAX_BLOCK => {
                return Err(Error::Usage(format!(
                    "{}, offset {next}: a block of {} octets is too large to be sent",
                    self.cursor.log.shard, entry.len
                )));
            }
            Place::Block(entry) => (entry.first, entry.end(), self.cursor.octets(&entry)?, false),
        };
        self.next = end;
        Ok(Some((Label { first, end, until: until.max(end), hole }, octets)))
    }

    /// For another answer.
    pub fn into_cursor(self) -> Cursor {
        self.cursor
    }
}

/// Columns that readers see of a shard of a spool with this table.
pub fn rows(name: &str, shard: Shard) -> &'static columns::Table {
    match (shard, table(name)) {
        (Shard::Data(_), Some(table)) => table.rows,
        _ => GAPS.rows,
    }
}

/// Makes batches of what was answered.
pub struct Receiver {
    batches: Batches,
    /// Where it comes from, for errors.
    from: PathBuf,
    failed: Option<Error>,
}

impl Receiver {
    /// Of rows `start` to `stop` (exclusive) of a shard of a spool that has these columns of a table.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for an unknown table or column.
    pub fn new(
        from: &str,
        (name, kept): (&str, &[String]),
        shard: Shard,
        range: (u64, u64),
        columns: Option<&[&str]>,
        limits: BatchLimits,
    ) -> Result<Self> {
        let table = table(name).ok_or_else(|| Error::Usage(format!("unknown table {name:?}")))?;
        let layout = match shard {
            Shard::Gaps => Layout::whole(&GAPS),
            Shard::Data(_) => Layout::select(table, kept)
                .map_err(|column| Error::Usage(format!("unknown column {column:?}")))?,
        };
        let batches = Batches::new(shard, layout, range, columns, limits)?;
        Ok(Self { batches, from: PathBuf::from(from), failed: None })
    }

    /// What its batches look like.
    pub fn schema(&self) -> SchemaRef {
        self.batches.schema()
    }

    /// The offset of the first row that has not come.
    pub const fn next(&self) -> u64 {
        self.batches.next
    }

    /// Takes what has come: the label, and what it was beside.
    pub fn take(&mut self, label: &[u8], block: Bytes) {
        if self.failed.is_some() || self.batches.is_done() {
            return;
        }
        let taken = match Label::decode(label) {
            None => Err(self.corrupt("an answer without a label".to_owned(), None)),
            Some(label) if label.first > self.batches.next || label.end <= self.batches.next => {
                Err(self.corrupt(format!("an answer of offsets {} to {}", label.first, label.end), None))
            }
            Some(label) if label.hole => {
                self.batches.skip(label.end);
                Ok(())
            }
            Some(label) => u32::try_from(label.end - label.first)
                .map_err(|_| "an answer of too many rows".to_owned())
                .and_then(|rows| self.batches.take(Buffer::from(block), (label.first, rows)))
                .map_err(|problem| self.corrupt(problem, Some(label.end))),
        };
        self.failed = taken.err();
        if self.failed.is_some() || self.batches.is_done() {
            let joined = self.batches.join();
            let joined = joined.map_err(|problem| self.corrupt(problem, None));
            self.failed = joined.err().or(self.failed.take());
        }
    }

    /// A batch that is complete; `None` if more has to come first, or all has come.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], behind all rows that are before the one that it names.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        match self.batches.pop() {
            Some(batch) => Ok(Some(batch)),
            None => self.failed.clone().map_or(Ok(None), Err),
        }
    }

    /// Makes a batch of what has come until now, though it may be small: an error comes next.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if that is impossible.
    pub fn finish(&mut self) -> Result<()> {
        let joined = self.batches.join();
        joined.map_err(|problem| self.corrupt(problem, None))
    }

    fn corrupt(&self, problem: String, resumes: Option<u64>) -> Error {
        let (shard, offset, path) = (self.batches.shard, self.batches.next, self.from.clone());
        Error::Corrupt { shard, offset, path, problem, resumes }
    }
}
