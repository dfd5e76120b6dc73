//! A spool that is read. Readers take no lock, and never stop the writer.

use crate::{
    block::Trailer,
    consumers::{self, Consumer, Offsets},
    decode::Block,
    error::{Error, Result},
    index::{Entry, read_more},
    layout::{Column, GAPS, Layout, Shard, schema},
    meta::Meta,
    read_at::ReadAt,
    recover::MARKS,
    segment::{Found, INDEX_ENDING, Segment, bases, name},
    shard::Mark,
    slots,
};
use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A spool in a folder, seen from outside.
#[derive(Clone, Debug)]
pub struct Spool {
    dir: PathBuf,
    meta: Meta,
}

/// How much a batch may hold.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Rows; a batch has never more.
    pub rows: usize,
    /// Octets; only a block that has more makes a batch with more.
    pub bytes: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { rows: 32_768, bytes: 8 << 20 }
    }
}

impl Spool {
    /// The spool in a folder.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if there is none, [`Error::BadFile`] if what is there cannot be understood.
    pub fn open(dir: &Path) -> Result<Self> {
        match Meta::read(dir)? {
            Some(meta) => Ok(Self { dir: dir.to_owned(), meta }),
            None => Err(Error::Usage(format!("{}: there is no spool (no meta.json)", dir.display()))),
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it was when it was opened.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What the writer has published of each shard, the gap log at last.
    ///
    /// # Errors
    ///
    /// Of the operating system.
    pub fn marks(&self) -> Result<Vec<Mark>> {
        let path = self.dir.join(MARKS);
        let records = slots::read(&path, &self.meta.id, self.meta.shards as usize + 1)?;
        let shards = (0..self.meta.shards).map(Shard::Data).chain([Shard::Gaps]);
        shards
            .zip(records)
            .map(|(shard, record)| match record {
                Some(values) => Ok(Mark::decode(values)),
                None => self.find_mark(shard),
            })
            .collect()
    }

    /// What the writer has published of a shard.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if there is no such shard; of the operating system.
    pub fn mark(&self, shard: Shard) -> Result<Mark> {
        let index = match shard {
            Shard::Gaps => self.meta.shards,
            Shard::Data(number) if number < self.meta.shards => number,
            Shard::Data(number) => {
                let problem = format!("shard {number}: this spool has shards 0 to {}", self.meta.shards - 1);
                return Err(Error::Usage(problem));
            }
        };
        Ok(self.marks()?[index as usize])
    }

    /// What there is, where nobody has written it down.
    fn find_mark(&self, shard: Shard) -> Result<Mark> {
        let mut log = self.log(shard)?;
        let (Some(&first), Some(&last)) = (log.bases.first(), log.bases.last()) else {
            return Ok(Mark::default());
        };
        let view = log.view(last)?;
        view.load(u64::MAX)?;
        let end = view.end();
        let last_time = view.entries.last().map_or(0, |entry| entry.max_time);
        Ok(Mark { earliest: first, end, rows_to: end, last_time, ..Mark::default() })
    }

    /// The columns that rows of a shard are kept with.
    pub fn layout(&self, shard: Shard) -> Layout {
        match shard {
            Shard::Data(_) => self.meta.layout.clone(),
            Shard::Gaps => Layout::whole(&GAPS),
        }
    }

    pub(crate) fn log(&self, shard: Shard) -> Result<Log> {
        let folder = self.dir.join(shard.folder());
        let bases = bases(&folder)?;
        Ok(Log { id: self.meta.id, shard, layout: self.layout(shard), folder, bases, view: None })
    }

    /// Reads a range of offsets as batches with some columns, in the order asked for; all if `None`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if not all of it is there, [`Error::Usage`] for unknown columns.
    pub fn read(
        &self,
        shard: Shard,
        start: u64,
        stop: u64,
        columns: Option<&[&str]>,
        limits: BatchLimits,
    ) -> Result<Rows> {
        let mark = self.mark(shard)?;
        for offset in [start, stop] {
            if offset < mark.earliest || offset > mark.end {
                return Err(Error::OutOfRange { shard, offset, earliest: mark.earliest, end: mark.end });
            }
        }
        if start > stop {
            return Err(Error::Usage(format!("{shard}: a range from {start} to {stop}")));
        }
        let log = self.log(shard)?;
        let known = log.layout.read_columns();
        let chosen = match columns {
            None => known,
            Some(names) => names
                .iter()
                .map(|name| {
                    known.iter().copied().find(|column| column.name == *name).ok_or_else(|| {
                        let names: Vec<_> = known.iter().map(|column| column.name).collect();
                        Error::Usage(format!("column {name:?}: this spool has {}", names.join(", ")))
                    })
                })
                .collect::<Result<_>>()?,
        };
        let limits = BatchLimits { rows: limits.rows.max(1), bytes: limits.bytes.max(1) };
        Ok(Rows {
            spool: self.clone(),
            schema: Arc::new(schema(&chosen)),
            stored: stored(&log.layout, &chosen),
            log,
            next: start,
            stop,
            limits,
            ready: VecDeque::new(),
        })
    }

    /// Says how far a reader has come, at a time in microseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for a name that is no name of a file, or a shard that is not there.
    pub fn commit(&self, name: &str, offsets: Offsets, now: i64) -> Result<()> {
        if let Some(shard) = offsets.keys().find(|shard| **shard >= self.meta.shards) {
            let problem = format!("shard {shard}: this spool has shards 0 to {}", self.meta.shards - 1);
            return Err(Error::Usage(problem));
        }
        consumers::commit(&self.dir, &self.meta.id, name, &Consumer { offsets, at: now })
    }

    /// Who has read how far.
    ///
    /// # Errors
    ///
    /// Of the operating system, or a damaged file.
    pub fn consumers(&self) -> Result<BTreeMap<String, Consumer>> {
        consumers::all(&self.dir, &self.meta.id)
    }
}

/// Where the chosen columns are kept; `None` for the one that is made.
fn stored(layout: &Layout, chosen: &[Column]) -> Vec<Option<usize>> {
    chosen.iter().map(|column| layout.position(column.name)).collect()
}

/// The segments of a shard.
pub(crate) struct Log {
    id: [u8; 16],
    pub(crate) shard: Shard,
    pub(crate) layout: Layout,
    folder: PathBuf,
    pub(crate) bases: Vec<u64>,
    view: Option<View>,
}

/// One of them, with its blocks as far as they were needed.
pub(crate) struct View {
    pub(crate) segment: Segment<File>,
    pub(crate) entries: Vec<Entry>,
    /// What stands behind the last block, if it is nothing that a writer leaves there.
    broken: Option<String>,
}

impl View {
    /// The offset behind the blocks that are known.
    pub(crate) fn end(&self) -> u64 {
        self.entries.last().map_or(self.segment.head.base, Entry::end)
    }

    /// Finds the blocks that hold rows before an offset, by the list beside the segment, or in the
    /// segment itself.
    pub(crate) fn load(&mut self, until: u64) -> Result<()> {
        if self.end() >= until {
            return Ok(());
        }
        let list = self.segment.path.with_extension(INDEX_ENDING);
        let len = self.segment.file.len().map_err(Error::io("read", &*self.segment.path))?;
        match File::open(&list) {
            Ok(file) => {
                let (start, base) = (self.segment.start, self.segment.head.base);
                read_more(&file, &list, start, base, &mut self.entries)?;
                // A list that tells more than there is, is not the list of this file.
                while self.entries.last().is_some_and(|last| last.at.saturating_add(last.len) > len) {
                    self.entries.pop();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("open", list)(error)),
        }
        if self.end() >= until {
            return Ok(());
        }
        let at = self.entries.last().map_or(self.segment.start, |last| last.at + last.len);
        let (end, entries) = (self.end(), &mut self.entries);
        let (_, _, found) = self.segment.scan(at, end, &mut |entry| entries.push(entry))?;
        self.broken = match found {
            Found::Broken(problem) => Some(problem),
            _ => None,
        };
        Ok(())
    }
}

impl Log {
    /// Looks for new segments.
    fn refresh(&mut self) -> Result<()> {
        self.bases = bases(&self.folder)?;
        Ok(())
    }

    /// The segment that begins at an offset.
    pub(crate) fn view(&mut self, base: u64) -> Result<&mut View> {
        if self.view.as_ref().is_none_or(|view| view.segment.head.base != base) {
            let path = self.path(base);
            let file = File::open(&path).map_err(Error::io("open", &*path))?;
            let corrupt = |problem: String| Error::Corrupt {
                shard: self.shard,
                offset: base,
                path: path.clone(),
                problem,
            };
            let segment = match Segment::new(file, path.clone(), &self.layout) {
                Ok(Some(segment)) => segment,
                Ok(None) => return Err(corrupt("is shorter than the beginning of a segment".to_owned())),
                Err(Error::BadFile { problem, .. }) => return Err(corrupt(problem)),
                Err(error) => return Err(error),
            };
            segment.belongs(&self.id, self.shard, base)?;
            self.view = Some(View { segment, entries: Vec::new(), broken: None });
        }
        self.view.as_mut().ok_or_else(|| Error::Usage("a segment that is not there".to_owned()))
    }

    pub(crate) fn path(&self, base: u64) -> PathBuf {
        self.folder.join(name(base))
    }

    /// Where the segments before and behind an offset begin.
    fn around(&self, offset: u64) -> (Option<u64>, Option<u64>) {
        let behind = self.bases.partition_point(|base| *base <= offset);
        (behind.checked_sub(1).map(|index| self.bases[index]), self.bases.get(behind).copied())
    }
}

/// What stands at an offset.
enum Place {
    /// This block.
    Block(Entry),
    /// Nothing, and that is known: the next row has this offset, or a later one.
    Hole(u64),
}

/// A range of rows, batch by batch.
pub struct Rows {
    spool: Spool,
    log: Log,
    schema: SchemaRef,
    stored: Vec<Option<usize>>,
    next: u64,
    stop: u64,
    limits: BatchLimits,
    ready: VecDeque<RecordBatch>,
}

impl Rows {
    /// What its batches look like.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The offset of the first row that is not in a batch yet.
    pub const fn offset(&self) -> u64 {
        self.next
    }

    /// The next batch, or `None` behind the last row. Everything is verified: checksums, and that no
    /// offset is missing.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], [`Error::Missing`], [`Error::OutOfRange`] if rows were deleted meanwhile.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        // Batches that are smaller than an eighth are joined; joining larger ones costs more than it saves.
        let (mut joined, mut rows, mut bytes) = (Vec::new(), 0, 0);
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.next >= self.stop {
                break;
            }
            let entry = match self.locate()? {
                Place::Hole(end) => {
                    self.next = end.min(self.stop);
                    continue;
                }
                Place::Block(entry) => entry,
            };
            let small =
                (entry.rows as usize) < self.limits.rows / 8 && entry.len < self.limits.bytes as u64 / 8;
            let fits = rows + entry.rows as usize <= self.limits.rows
                && bytes + entry.len as usize <= self.limits.bytes;
            let joins = small && fits;
            if !(joined.is_empty() || joins) {
                break;
            }
            let batch = self.take(&entry)?;
            if small {
                rows += batch.num_rows();
                bytes += entry.len as usize;
                joined.push(batch);
                continue;
            }
            for at in (0..batch.num_rows()).step_by(self.limits.rows) {
                self.ready.push_back(batch.slice(at, self.limits.rows.min(batch.num_rows() - at)));
            }
        }
        match joined.len() {
            0 => Ok(None),
            1 => Ok(joined.pop()),
            _ => concat_batches(&self.schema, &joined)
                .map(Some)
                .map_err(|error| self.corrupt(error.to_string())),
        }
    }

    fn corrupt(&self, problem: String) -> Error {
        let path = self.log.view.as_ref().map_or_else(PathBuf::new, |view| view.segment.path.clone());
        Error::Corrupt { shard: self.log.shard, offset: self.next, path, problem }
    }

    /// The block that holds the next row.
    fn locate(&mut self) -> Result<Place> {
        match self.look() {
            // Written, or deleted, since the folder was listed.
            Ok(None) | Err(Error::Io { .. }) => {}
            Ok(Some(place)) => return Ok(place),
            Err(error) => return Err(error),
        }
        self.log.refresh()?;
        let (shard, mark) = (self.log.shard, self.spool.mark(self.log.shard)?);
        if self.next < mark.earliest {
            return Err(Error::OutOfRange {
                shard,
                offset: self.next,
                earliest: mark.earliest,
                end: mark.end,
            });
        }
        match self.look()? {
            Some(place) => Ok(place),
            None if mark.rows_to <= self.next => Ok(Place::Hole(mark.end)),
            None => {
                if let Some(problem) = self.damage()? {
                    return Err(self.corrupt(problem));
                }
                let until = self.log.around(self.next).1.unwrap_or(mark.rows_to).min(self.stop);
                Err(Error::Missing { shard, offset: self.next, until })
            }
        }
    }

    /// What is wrong with the segment that should hold the next row.
    fn damage(&mut self) -> Result<Option<String>> {
        match self.log.around(self.next).0 {
            Some(base) => Ok(self.log.view(base)?.broken.clone()),
            None => Ok(None),
        }
    }

    /// The same, as far as the segments tell that are known.
    fn look(&mut self) -> Result<Option<Place>> {
        let (at, behind) = self.log.around(self.next);
        if let Some(base) = at {
            let (next, stop) = (self.next, self.stop);
            let view = self.log.view(base)?;
            view.load(next.saturating_add(1))?;
            if next < view.end() {
                view.load(stop.min(behind.unwrap_or(u64::MAX)))?;
                let index = view.entries.partition_point(|entry| entry.end() <= next);
                return Ok(view.entries.get(index).copied().map(Place::Block));
            }
        }
        let Some(base) = behind else { return Ok(None) };
        let follows = self.log.view(base)?.segment.head.follows;
        Ok((follows <= self.next).then_some(Place::Hole(base)))
    }

    /// The rows of a block that belong to the range.
    fn take(&mut self, entry: &Entry) -> Result<RecordBatch> {
        let (shard, next, stop) = (self.log.shard, self.next, self.stop);
        let layout = self.log.layout.clone();
        let view = self.log.view.as_ref().ok_or_else(|| self.corrupt("is gone".to_owned()))?;
        let (octets, trailer) = match view.segment.block(entry.at, entry.len)? {
            Ok(block) => block,
            Err(problem) => return Err(self.corrupt(problem)),
        };
        let Trailer { first, rows, .. } = trailer;
        if (first, rows) != (entry.first, entry.rows) {
            return Err(self.corrupt(format!("a block with offsets {first} to {}", trailer.end())));
        }
        let wanted: Vec<usize> = self.stored.iter().copied().flatten().collect();
        let mut arrays = Block::new(octets, rows)
            .and_then(|block| block.columns(&layout, &wanted))
            .map_err(|problem| self.corrupt(problem))?
            .into_iter();
        let number = i32::try_from(shard.code()).unwrap_or(-1);
        let made = || Arc::new(Int32Array::from_value(number, rows as usize)) as ArrayRef;
        let columns: Vec<ArrayRef> = self
            .stored
            .iter()
            .map(|stored| stored.and_then(|_| arrays.next()).unwrap_or_else(made))
            .collect();
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows as usize));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| self.corrupt(error.to_string()))?;
        let (from, to) = ((next - first) as usize, (stop.min(trailer.end()) - first) as usize);
        self.next = stop.min(trailer.end());
        Ok(batch.slice(from, to - from))
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}
