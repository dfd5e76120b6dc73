//! Rows and batches that a program writes into a spool, without a network.

use crate::tier::refuse_shared;
use crate::{
    error::{Error, Result},
    time::Clock,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array,
    LargeBinaryArray, LargeStringArray, ListArray, MapArray, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::DataType;
use bytes::Bytes;
use parking_lot::Mutex;
use std::path::Path;
use zwire_engine::runtime::Birth;
use zwire_spool::{
    Cell, Error as SpoolError, Gap, Layout, Options, Rule, ShardWriter, Shards, Spool, SpoolId, Value,
    Wanted, Writer, columns,
    layout::{Column, Kind},
    stored::Form,
};

/// Random id of a new spool.
pub(crate) fn random_id() -> Result<SpoolId> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(Error::Random)?;
    Ok(id)
}

/// Opens a spool for writing, with a random id if it is new.
pub(crate) fn open(
    dir: &Path,
    wanted: &Wanted,
    options: &Options,
    clock: &Clock,
) -> Result<(Writer, Shards)> {
    // Such a folder has other shards than its spool.
    if let Ok(there) = Spool::open(dir) {
        refuse_shared(dir, there.meta())?;
    }
    Ok(Writer::open(dir, wanted, random_id()?, options, clock.micros())?)
}

/// Value of a column that a row leaves out.
fn missing(column: &Column, time: i64) -> Cell {
    match column.name {
        "recv_ts" => Cell::Int(time),
        _ if column.form == Form::Kind => Cell::Int(0),
        _ => Cell::Null,
    }
}

/// Value of an Arrow array in a row; `None` if the column does not take the type of the array, or the text.
fn of_array(array: &ArrayRef, column: &Column, row: usize) -> Option<Cell> {
    let any = array.as_any();
    macro_rules! value {
        ($array:ty) => {
            any.downcast_ref::<$array>().map(|array| array.value(row))
        };
    }
    if array.is_null(row) {
        return Some(Cell::Null);
    }
    let text = || value!(StringArray).or_else(|| value!(LargeStringArray)).map(str::to_owned);
    let strings = |array: &ArrayRef| -> Option<Vec<String>> {
        let array = array.as_any().downcast_ref::<StringArray>()?;
        Some(array.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
    };
    if column.form != Form::Same && is_text(array) {
        return column.form.store(&text()?);
    }
    match column.kind {
        Kind::Text => text().map(Cell::Text),
        Kind::Bytes => value!(BinaryArray)
            .or_else(|| value!(LargeBinaryArray))
            .map(|bytes| Cell::Bytes(Bytes::copy_from_slice(bytes)))
            .or_else(|| text().map(|text| Cell::Bytes(text.into()))),
        Kind::Bool => value!(BooleanArray).map(Cell::Bool),
        Kind::Time => value!(TimestampMicrosecondArray).map(Cell::Int),
        Kind::BytesList => {
            let items = value!(ListArray)?;
            let items = items.as_any().downcast_ref::<BinaryArray>()?;
            let item = |item: Option<&[u8]>| Bytes::copy_from_slice(item.unwrap_or_default());
            Some(Cell::List(items.iter().map(item).collect()))
        }
        Kind::TextMap => {
            let entries = value!(MapArray)?;
            let (names, values) = (strings(entries.column(0))?, strings(entries.column(1))?);
            Some(Cell::Map(names.into_iter().zip(values).collect()))
        }
        _ => value!(Int64Array)
            .or_else(|| value!(Int32Array).map(i64::from))
            .or_else(|| value!(Int16Array).map(i64::from))
            .or_else(|| value!(Int8Array).map(i64::from))
            .map(Cell::Int),
    }
}

fn is_text(array: &ArrayRef) -> bool {
    matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8)
}

struct Open {
    writer: Writer,
    shards: Shards,
}

impl Open {
    /// Puts a row into the named shard, or into the one that its key chooses.
    fn push(&mut self, shard: Option<u32>, row: &[Cell], key: Option<usize>, clock: &Clock) -> Result<()> {
        let count = self.shards.data.len();
        let number = shard.unwrap_or_else(|| match key.and_then(|key| row.get(key)) {
            Some(Cell::Text(key)) => Rule::hash(key, count),
            _ => 0,
        });
        let Some(writer) = self.shards.data.get_mut(number as usize) else {
            let problem = format!("shard {number}: this spool has shards 0 to {}", count - 1);
            return Err(SpoolError::Usage(problem).into());
        };
        if writer.is_full() {
            writer.flush(clock.micros())?;
        }
        let mut pairs: Vec<Vec<(&str, &str)>> = row.iter().map(|_| Vec::new()).collect();
        let values: Vec<Value<'_>> =
            row.iter().zip(&mut pairs).map(|(cell, pairs)| cell.value(pairs)).collect();
        Ok(writer.push(&values)?)
    }
}

/// Column of a batch by the name that readers see, or else by the stored one.
fn column_of<'a>(batch: &'a RecordBatch, name: &str, stored: &Column) -> Option<&'a ArrayRef> {
    batch.column_by_name(name).or_else(|| batch.column_by_name(stored.name))
}

/// Writer of rows and batches into a spool.
pub struct Appender {
    open: Mutex<Option<Open>>,
    layout: Layout,
    birth: Birth,
    clock: Clock,
}

impl Appender {
    /// An appender for the spool in a folder, which is created if it does not exist.
    pub fn open(dir: &Path, wanted: &Wanted, options: &Options, clock: Clock) -> Result<Self> {
        let (writer, shards) = open(dir, wanted, options, &clock)?;
        let layout = writer.meta().layout.clone();
        let open = Mutex::new(Some(Open { writer, shards }));
        Ok(Self { open, layout, birth: Birth::here(), clock })
    }

    /// Columns of its rows.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    fn run<R>(&self, f: impl FnOnce(&mut Open) -> Result<R>) -> Result<R> {
        if !self.birth.is_here() {
            return Err(Error::Usage("this spool belongs to another process: open it again after a fork"));
        }
        self.open.lock().as_mut().map_or(Err(Error::Usage("the spool is closed")), f)
    }

    /// Checks that rows may have a column of this name. Fails with [`Error::UnknownColumn`] if not.
    pub fn check_column(&self, name: &str) -> Result<()> {
        // The shard assigns offsets.
        if self.layout.position(name).is_some() && name != "offset" {
            return Ok(());
        }
        let known: Vec<_> = self.columns().map(|(column, _)| column.name).collect();
        Err(Error::UnknownColumn { name: name.to_owned(), known: known.join(", ") })
    }

    /// Columns as readers see them, each with its stored form.
    pub fn columns(&self) -> impl Iterator<Item = (columns::Column, &Column)> {
        self.layout.columns.iter().enumerate().map(|(at, stored)| (self.layout.read_column(at), stored))
    }

    /// Columns of a batch with the type of files instead of the type that readers see, with the texts to use.
    pub fn former_types(&self, batch: &RecordBatch) -> Vec<(&'static str, &'static str)> {
        let former = |(column, stored): (columns::Column, &Column)| {
            let array = column_of(batch, column.name, stored)?;
            (stored.form != Form::Same && !is_text(array)).then(|| (column.name, stored.form.texts()))
        };
        self.columns().filter_map(former).collect()
    }

    /// Appends a row: one cell for each column of the layout, `None` where the row leaves it out.
    pub fn append(&self, shard: Option<u32>, row: Vec<Option<Cell>>) -> Result<()> {
        let time = self.clock.micros();
        let cells = row.into_iter().zip(&self.layout.columns);
        let row: Vec<_> = cells.map(|(cell, column)| cell.unwrap_or_else(|| missing(column, time))).collect();
        let key = self.layout.position("key");
        self.run(|open| open.push(shard, &row, key, &self.clock))
    }

    /// Appends the rows of a batch up to the first value of a wrong type; returns their number.
    pub fn append_batch(&self, shard: Option<u32>, batch: &RecordBatch) -> Result<usize> {
        for field in batch.schema().fields() {
            self.check_column(field.name())?;
        }
        let arrays: Vec<_> = self
            .columns()
            .map(|(column, stored)| (column, stored, column_of(batch, column.name, stored)))
            .collect();
        let key = self.layout.position("key");
        let time = self.clock.micros();
        self.run(|open| {
            let mut row = Vec::with_capacity(arrays.len());
            for number in 0..batch.num_rows() {
                row.clear();
                for (column, stored, array) in &arrays {
                    let cell = array.map_or(Some(Cell::Null), |array| of_array(array, stored, number));
                    row.push(match cell {
                        Some(Cell::Null) => missing(stored, time),
                        Some(cell) => cell,
                        None => {
                            let wanted = match stored.form {
                                Form::Same => column.kind.data_type().to_string(),
                                form => form.texts().to_owned(),
                            };
                            return Err(Error::ColumnType { name: column.name, wanted });
                        }
                    });
                }
                open.push(shard, &row, key, &self.clock)?;
            }
            Ok(batch.num_rows())
        })
    }

    /// Appends a row to the gap log. Fails with [`Error::GapKind`] for an unknown kind.
    pub fn append_gap(&self, shard: u32, kind: &str, count: Option<u64>, detail: String) -> Result<()> {
        let kinds = ["gap", "drop", "reconnect", "epoch", "duplicate"];
        let Some(kind) = kinds.into_iter().find(|known| *known == kind) else {
            return Err(Error::GapKind(kind.to_owned()));
        };
        let time = self.clock.micros();
        self.run(|open| {
            let offset = open.shards.data.get(shard as usize).map_or(0, ShardWriter::next_offset);
            let gap = Gap { shard, offset, kind, count, time, detail, ..Gap::default() };
            Shards::tell(&mut open.shards.gaps, &gap)?;
            Ok(open.shards.gaps.flush(time)?)
        })
    }

    /// Writes buffered rows and publishes them to readers.
    pub fn flush(&self) -> Result<()> {
        let time = self.clock.micros();
        self.run(|open| {
            for writer in open.shards.data.iter_mut().chain([&mut open.shards.gaps]) {
                writer.flush(time)?;
                if writer.unpublished() {
                    writer.sync()?;
                }
            }
            Ok(())
        })
    }

    /// Ends the open segments, so that programs that read Arrow files can read them.
    pub fn seal(&self) -> Result<()> {
        self.flush()?;
        self.run(|open| {
            for writer in open.shards.data.iter_mut().chain([&mut open.shards.gaps]) {
                writer.seal()?;
            }
            Ok(())
        })
    }

    /// Writes and seals everything and releases the spool. A second call does nothing.
    pub fn close(&self) -> Result<()> {
        let Some(mut open) = self.open.lock().take() else { return Ok(()) };
        if !self.birth.is_here() {
            // The files that the parent process has open stay the parent's.
            return Ok(());
        }
        let time = self.clock.micros();
        for writer in open.shards.data.iter_mut().chain([&mut open.shards.gaps]) {
            writer.close(time)?;
        }
        Ok(open.writer.close()?)
    }
}
