//! Conversion of blocks to batches, for blocks from files and from a network alike.

use crate::{
    block::verify,
    columns::{Column, schema},
    cursor::{Cursor, Place},
    decode::Block,
    error::{Error, Result},
    index::Entry,
    layout::{Layout, Shard},
    reader::BatchLimits,
    select::Selection,
};
use arrow_array::{
    Array as _, ArrayRef, Int32Array, RecordBatch, RecordBatchOptions, cast::AsArray as _,
    types::TimestampMicrosecondType,
};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use arrow_select::{concat::concat_batches, filter::filter_record_batch};
use hashbrown::HashMap;
use std::{collections::VecDeque, sync::Arc};

/// Rows that batches keep.
struct Filter {
    selection: Arc<Selection>,
    /// Indices of the columns that decide, in the block.
    key: Option<usize>,
    time: usize,
    /// Known answers for keys.
    answers: HashMap<Box<str>, bool>,
}

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
    filter: Option<Filter>,
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
            filter: None,
            joined: Vec::new(),
            rows: 0,
            bytes: 0,
            ready: VecDeque::new(),
        })
    }

    /// Leaves out rows that are not wanted.
    pub(crate) fn select(&mut self, selection: Arc<Selection>) -> Result<()> {
        let key = selection.keys.as_ref().map(|_| {
            let problem = || Error::Usage(format!("{}: its rows have no key", self.shard));
            self.layout.position("key").ok_or_else(problem)
        });
        let key = key.transpose()?;
        let time = self.layout.position("recv_ts");
        let time = time.ok_or_else(|| Error::Usage(format!("{}: its rows have no time", self.shard)))?;
        self.filter = Some(Filter { selection, key, time, answers: HashMap::new() });
        Ok(())
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
        let (batch, taken) = self.decode(octets, (first, rows))?;
        self.next += taken;
        if batch.num_rows() == 0 {
            return Ok(());
        }
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

    /// Verifies and decodes the wanted rows of a block that belong to the range, with the number of all those.
    fn decode(
        &mut self,
        octets: Buffer,
        (first, rows): (u64, u32),
    ) -> core::result::Result<(RecordBatch, u64), String> {
        let trailer = verify(&octets, self.shard)?;
        if (trailer.first, trailer.rows) != (first, rows) || !(first..trailer.end()).contains(&self.next) {
            return Err(format!("a block with offsets {} to {}", trailer.first, trailer.end()));
        }
        let mut wanted: Vec<usize> = self.stored.iter().copied().flatten().collect();
        let shown = wanted.len();
        wanted.extend(self.filter.iter().flat_map(|filter| filter.key.into_iter().chain([filter.time])));
        let mut arrays = Block::new(octets, rows)?.columns(&self.layout, &wanted)?;
        let deciding = arrays.split_off(shown);
        let mut arrays = arrays.into_iter();
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
        let batch = batch.slice(from, to - from);
        let Some(Filter { selection, answers, .. }) = &mut self.filter else {
            return Ok((batch, (to - from) as u64));
        };
        let deciding: Vec<ArrayRef> = deciding.iter().map(|array| array.slice(from, to - from)).collect();
        let keys = deciding.first().and_then(|keys| keys.as_string_opt::<i32>());
        let times = deciding.last().and_then(|times| times.as_primitive_opt::<TimestampMicrosecondType>());
        let times = times.ok_or("times that are none")?;
        let mask = selection.mask(keys, times, answers);
        let batch = filter_record_batch(&batch, &mask).map_err(|error| error.to_string())?;
        Ok((batch, (to - from) as u64))
    }
}

/// Rows of a range, batch by batch.
pub struct Rows {
    pub(crate) cursor: Cursor,
    pub(crate) batches: Batches,
    /// Error that follows the batches that are ready.
    pub(crate) failed: Option<Error>,
}

impl Cursor {
    /// Reads a range of offsets, as [`Spool::read`](crate::Spool::read) does, from the position of the cursor.
    pub fn rows(self, range: (u64, u64), columns: Option<&[&str]>, limits: BatchLimits) -> Result<Rows> {
        self.spool.check(self.log.shard, range.0, range.1)?;
        self.unchecked_rows(range, columns, limits)
    }

    /// As [`Self::rows`], of a range that exists.
    pub(crate) fn unchecked_rows(
        self,
        range: (u64, u64),
        columns: Option<&[&str]>,
        limits: BatchLimits,
    ) -> Result<Rows> {
        let shard = self.log.shard;
        let batches = Batches::new(shard, self.spool.layout(shard), range, columns, limits)?;
        Ok(Rows { cursor: self, batches, failed: None })
    }
}

impl Rows {
    /// Returns the cursor for another range.
    pub fn into_cursor(self) -> Cursor {
        self.cursor
    }

    /// Schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.batches.schema.clone()
    }

    /// Leaves out rows that are not wanted, and opens no segment that has none of the others, as far as known. Fails
    /// with [`Error::Usage`] if rows have no keys, and some are wanted.
    pub fn select(mut self, selection: Arc<Selection>) -> Result<Self> {
        self.batches.select(selection.clone())?;
        self.cursor.select(Some(selection));
        Ok(self)
    }

    /// Numbers of segments that were opened, and of those that were passed over.
    pub const fn segments(&self) -> (u64, u64) {
        (self.cursor.log.opened, self.cursor.log.passed)
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
                Err(error) => self.failed = Some(error.reading(self.batches.shard, self.batches.next)),
                Ok(()) if done => return Ok(self.batches.pop()),
                Ok(()) => {}
            }
        }
    }

    fn step(&mut self) -> Result<()> {
        let (next, stop) = (self.batches.next, self.batches.stop);
        let passed = self.cursor.pass(next, stop)?;
        if passed > next {
            self.batches.skip(passed);
            return Ok(());
        }
        let selection = self.cursor.selection.clone();
        let is_wanted = |entry: &Entry| {
            selection.as_ref().is_none_or(|wanted| wanted.may_be_at((entry.min_time, entry.max_time)))
        };
        match self.cursor.locate(next, stop)? {
            Place::Hole(end) => self.batches.skip(end),
            Place::Block(entry) if !is_wanted(&entry) => self.batches.skip(entry.end()),
            Place::Block(entry) => {
                let (entry, octets) = self.cursor.fetch(entry, (next, stop))?;
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
