//! Conversion of blocks to batches, for blocks from files and from a network alike.

use crate::{
    block::verify,
    columns::{Column, schema},
    cursor::{Cursor, Place},
    decode::Block,
    error::{Error, Result},
    layout::{Layout, Shard},
    reader::BatchLimits,
};
use arrow_array::{ArrayRef, Int32Array, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use std::{collections::VecDeque, sync::Arc};

/// Builder of batches from the blocks of a range, which arrive in order.
pub(crate) struct Batches {
    pub(crate) shard: Shard,
    layout: Layout,
    pub(crate) schema: SchemaRef,
    /// Indices of the selected columns in the block; `None` for the computed one.
    stored: Vec<Option<usize>>,
    /// Offset of the first row that is not in a batch yet.
    pub(crate) next: u64,
    pub(crate) stop: u64,
    limits: BatchLimits,
    /// Small batches to be concatenated, with their rows and octets.
    joined: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    ready: VecDeque<RecordBatch>,
}

impl Batches {
    /// Builder for rows `start` to `stop` (exclusive), with some columns in the requested order; all if
    /// `None`. Fails with [`Error::Usage`] for unknown columns.
    pub(crate) fn new(
        shard: Shard,
        layout: Layout,
        (start, stop): (u64, u64),
        columns: Option<&[&str]>,
        limits: BatchLimits,
    ) -> Result<Self> {
        if start > stop {
            return Err(Error::Usage(format!("{shard}: a range from {start} to {stop}")));
        }
        let known = layout.places();
        let chosen: Vec<(Column, Option<usize>)> = match columns {
            None => known,
            Some(names) => names
                .iter()
                .map(|name| {
                    let former = layout.position(name);
                    let is = |(column, place): &&(Column, Option<usize>)| {
                        column.name == *name || (former.is_some() && former == *place)
                    };
                    known.iter().find(is).copied().ok_or_else(|| {
                        let names: Vec<_> = known.iter().map(|(column, _)| column.name).collect();
                        Error::Usage(format!("column {name:?}: this spool has {}", names.join(", ")))
                    })
                })
                .collect::<Result<_>>()?,
        };
        Ok(Self {
            shard,
            schema: Arc::new(schema(chosen.iter().map(|(column, _)| (column.name, column.kind)))),
            stored: chosen.iter().map(|(_, place)| *place).collect(),
            layout,
            next: start,
            stop,
            limits: BatchLimits { rows: limits.rows.max(1), bytes: limits.bytes.max(1) },
            joined: Vec::new(),
            rows: 0,
            bytes: 0,
            ready: VecDeque::new(),
        })
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.next >= self.stop
    }

    pub(crate) fn pop(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front()
    }

    pub(crate) fn skip(&mut self, end: u64) {
        self.next = end.min(self.stop).max(self.next);
    }

    /// Takes the block with the next row: `rows` rows from `first` on. Returns why it is invalid.
    pub(crate) fn take(
        &mut self,
        octets: Buffer,
        (first, rows): (u64, u32),
    ) -> core::result::Result<(), String> {
        let len = octets.len();
        // Concatenation copies: for full blocks of a mebibyte it costs more than it saves.
        let small = (rows as usize) < self.limits.rows / 8 && len < self.limits.bytes / 16;
        let fits = self.rows + rows as usize <= self.limits.rows && self.bytes + len <= self.limits.bytes;
        if !(small && fits) {
            self.join()?;
        }
        let batch = self.decode(octets, (first, rows))?;
        self.next += batch.num_rows() as u64;
        if small {
            self.rows += batch.num_rows();
            self.bytes += len;
            self.joined.push(batch);
            return Ok(());
        }
        for at in (0..batch.num_rows()).step_by(self.limits.rows) {
            self.ready.push_back(batch.slice(at, self.limits.rows.min(batch.num_rows() - at)));
        }
        Ok(())
    }

    /// Concatenates the small batches collected so far.
    pub(crate) fn join(&mut self) -> core::result::Result<(), String> {
        (self.rows, self.bytes) = (0, 0);
        let mut joined = std::mem::take(&mut self.joined);
        let batch = match joined.len() {
            0 | 1 => joined.pop(),
            _ => Some(concat_batches(&self.schema, &joined).map_err(|error| error.to_string())?),
        };
        self.ready.extend(batch);
        Ok(())
    }

    /// Verifies and decodes the rows of a block that belong to the range.
    fn decode(&self, octets: Buffer, (first, rows): (u64, u32)) -> core::result::Result<RecordBatch, String> {
        let trailer = verify(&octets, self.shard)?;
        if (trailer.first, trailer.rows) != (first, rows) || !(first..trailer.end()).contains(&self.next) {
            return Err(format!("a block with offsets {} to {}", trailer.first, trailer.end()));
        }
        let wanted: Vec<usize> = self.stored.iter().copied().flatten().collect();
        let mut arrays = Block::new(octets, rows)?.columns(&self.layout, &wanted)?.into_iter();
        let number = i32::try_from(self.shard.code()).unwrap_or(-1);
        let made = || Arc::new(Int32Array::from_value(number, rows as usize)) as ArrayRef;
        let columns: Vec<ArrayRef> = self
            .stored
            .iter()
            .map(|stored| stored.and_then(|_| arrays.next()).unwrap_or_else(made))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| error.to_string())?;
        let (from, to) = ((self.next - first) as usize, (self.stop.min(trailer.end()) - first) as usize);
        Ok(batch.slice(from, to - from))
    }
}

/// Rows of a range, batch by batch.
pub struct Rows {
    pub(crate) cursor: Cursor,
    pub(crate) batches: Batches,
    /// Error that follows the batches that are ready.
    pub(crate) failed: Option<Error>,
}

impl Rows {
    /// Schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.batches.schema.clone()
    }

    /// The next batch, or `None` after the last row. Verifies checksums, and that no offset is missing.
    /// An error is returned after all rows that precede the offset it names. Fails with
    /// [`Error::Corrupt`], [`Error::Missing`], [`Error::OutOfRange`] if rows were deleted meanwhile.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.batches.pop() {
                return Ok(Some(batch));
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let done = self.batches.is_done();
            let step = if done { Ok(()) } else { self.step() };
            if done || step.is_err() {
                let next = self.batches.next;
                self.batches.join().map_err(|problem| self.cursor.corrupt(next, problem, None))?;
            }
            match step {
                Err(error) => self.failed = Some(error),
                Ok(()) if done => return Ok(self.batches.pop()),
                Ok(()) => {}
            }
        }
    }

    fn step(&mut self) -> Result<()> {
        let (next, stop) = (self.batches.next, self.batches.stop);
        match self.cursor.locate(next, stop)? {
            Place::Hole(end) => self.batches.skip(end),
            Place::Block(entry) => {
                let octets = self.cursor.octets(&entry)?;
                self.batches
                    .take(octets, (entry.first, entry.rows))
                    .map_err(|problem| self.cursor.corrupt(next, problem, Some(entry.end())))?;
            }
        }
        Ok(())
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}
