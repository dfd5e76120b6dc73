//! Ranges over a network: the server sends blocks unchanged, the client verifies them as if from a file.
//!
//! Each block is accompanied by a label:
//!
//! ```text
//!  0  "ZWRL" 0 0 0 0    8  first offset   16  offset after the last   24  offset after this answer
//! 32  1: no wanted row has these offsets, and there is no block   36  crc32c of all before
//! ```
//!
//! The first label tells where the answer ends, so that the next range can be requested meanwhile.

use crate::{
    columns,
    cursor::{Cursor, Place},
    error::{Error, Result},
    layout::{GAPS, Layout, Shard, table},
    reader::{BatchLimits, Spool},
    rows::Batches,
    select::Selection,
};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use bytes::{Buf as _, Bytes};
use std::{path::PathBuf, sync::Arc};

/// Length of a label.
pub const LABEL: usize = 40;
const MARK: &[u8; 8] = b"ZWRL\0\0\0\0";

/// Most octets of an answer with more than one block.
pub const MAX_ANSWER: u64 = 64 << 20;
/// Most blocks of an answer: the client reserves a slot for each.
pub const MAX_BLOCKS: usize = 4096;
/// Largest block that is sent: a Zenoh message has less than 1 GiB by default, which includes its header.
const MAX_BLOCK: u64 = (1 << 30) - (64 << 10);

/// Label of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// Offset of its first row.
    pub first: u64,
    /// Offset after its last row.
    pub end: u64,
    /// Offset after the last row of the answer.
    pub until: u64,
    /// Whether no row has these offsets, and there is no block.
    pub hole: bool,
}

impl Label {
    /// Encodes the label.
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

    /// Decodes a label; `None` if the octets are not a valid one.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; LABEL] = octets.try_into().ok()?;
        let mut rest = &octets[MARK.len()..];
        let (first, end, until) = (rest.get_u64_le(), rest.get_u64_le(), rest.get_u64_le());
        let label = Self { first, end, until, hole: rest[0] == 1 };
        (label.encode() == *octets && label.first < label.end && label.end <= label.until).then_some(label)
    }
}

impl Spool {
    /// Makes a cursor for answers from a shard.
    pub fn cursor(&self, shard: Shard) -> Result<Cursor> {
        self.cursor_from(shard, u64::MAX)
    }

    /// Makes a cursor that begins at an offset.
    pub(crate) fn cursor_from(&self, shard: Shard, from: u64) -> Result<Cursor> {
        Ok(Cursor { spool: self.clone(), log: self.log(shard, from)?, selection: None })
    }
}

impl Cursor {
    /// Shard of the cursor.
    pub const fn shard(&self) -> Shard {
        self.log.shard
    }

    /// Leaves out segments without wanted rows from now on: answers have no blocks of them. Without a selection, all
    /// rows are wanted.
    pub fn select(&mut self, selection: Option<Arc<Selection>>) {
        self.selection = selection;
    }

    /// Answers with the blocks of rows `from` to `to` (exclusive): all, or the first of about `max`
    /// octets.
    pub fn answer(mut self, from: u64, to: u64, max: u64) -> Result<Answer> {
        let shard = self.log.shard;
        self.spool.check(shard, from, to)?;
        let max = max.min(MAX_ANSWER);
        let passed = self.pass(from, to)?;
        let until = if passed >= to {
            passed
        } else {
            match self.locate(passed, to)? {
                Place::Hole(end) => end.min(to),
                Place::Block(_) => {
                    let (mut bytes, mut until) = (0, passed);
                    for entry in
                        self.from(passed).iter().take(MAX_BLOCKS).take_while(|entry| entry.first < to)
                    {
                        bytes += entry.len;
                        if until > passed && bytes > max {
                            break;
                        }
                        until = entry.end();
                    }
                    until.min(to)
                }
            }
        };
        Ok(Answer { cursor: self, next: from, passed, until })
    }
}

/// Blocks of an answer, one by one; empty for an empty range.
pub struct Answer {
    cursor: Cursor,
    next: u64,
    /// Offset before which no rows are wanted.
    passed: u64,
    until: u64,
}

impl Answer {
    /// The next block with its label, or `None` after the last. The block is not verified here. Fails
    /// with [`Error::Usage`] for a block that is too large for a message.
    pub fn next_block(&mut self) -> Result<Option<(Label, Buffer)>> {
        if self.next >= self.until {
            return Ok(None);
        }
        let (next, until) = (self.next, self.until);
        if next < self.passed {
            self.next = self.passed;
            let label = Label { first: next, end: self.passed, until, hole: true };
            return Ok(Some((label, Buffer::from_vec(Vec::<u8>::new()))));
        }
        let (first, end, octets, hole) = match self.cursor.locate(next, until)? {
            Place::Hole(end) => (next, end.min(until), Buffer::from_vec(Vec::<u8>::new()), true),
            Place::Block(entry) if entry.len > MAX_BLOCK => {
                return Err(Error::Usage(format!(
                    "{}, offset {next}: a block of {} octets is too large to be sent",
                    self.cursor.log.shard, entry.len
                )));
            }
            Place::Block(entry) => {
                let (entry, octets) = self.cursor.fetch(entry, (next, until))?;
                (entry.first, entry.end(), octets, false)
            }
        };
        self.next = end;
        Ok(Some((Label { first, end, until: until.max(end), hole }, octets)))
    }

    /// Returns the cursor for another answer.
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

/// Receiver that makes batches of answers.
pub struct Receiver {
    batches: Batches,
    /// Description of the origin, for errors.
    from: PathBuf,
    failed: Option<Error>,
}

impl Receiver {
    /// Receiver for rows `start` to `stop` (exclusive) of a shard, in a spool that has these columns of a
    /// table. Fails with [`Error::Usage`] for an unknown table or column.
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

    /// Leaves out rows that are not wanted. Fails with [`Error::Usage`] if rows have no keys, and some are wanted.
    pub fn select(&mut self, selection: Arc<Selection>) -> Result<()> {
        self.batches.select(selection)
    }

    /// Schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.batches.schema.clone()
    }

    /// Offset of the first row that has not arrived.
    pub const fn next(&self) -> u64 {
        self.batches.next
    }

    /// Takes a label and its block.
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

    /// The next complete batch; `None` if more blocks are needed first, or the range is complete. Fails
    /// with [`Error::Corrupt`], after all rows that precede the offset it names.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        match self.batches.pop() {
            Some(batch) => Ok(Some(batch)),
            None => self.failed.clone().map_or(Ok(None), Err),
        }
    }

    /// Makes a batch of the rows received so far before an error is returned, or fails as corrupt.
    pub fn finish(&mut self) -> Result<()> {
        let joined = self.batches.join();
        joined.map_err(|problem| self.corrupt(problem, None))
    }

    fn corrupt(&self, problem: String, resumes: Option<u64>) -> Error {
        let (shard, offset, path) = (self.batches.shard, self.batches.next, self.from.clone());
        Error::Corrupt { shard, offset, path, problem, resumes }
    }
}
