//! A spool that a program writes row by row or batch by batch, without any network.

use crate::{
    arrow::import,
    columns::{check_name, deprecated},
    errors,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array,
    LargeBinaryArray, LargeStringArray, ListArray, MapArray, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::DataType;
use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyDict,
};
use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};
use zwire_engine::runtime::Birth;
use zwire_spool::{
    Durability, Error, Gap, Layout, Options, Rule, ShardWriter, Shards, Value, Wanted, Writer, columns,
    layout::{Column, Kind, table},
    stored::{Form, Stored},
};

/// Now, in microseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// How a spool is opened for writing, from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    table: String,
    columns: Option<Vec<String>>,
    shards: u32,
    shard_keys: Option<Vec<String>>,
    durability: String,
    segment_bytes: u64,
    segment_seconds: f64,
}

impl Settings {
    /// What the crate wants to know.
    pub(crate) fn parse(&self, py: Python<'_>) -> PyResult<(Wanted, Options)> {
        let usage = |problem: String| PyValueError::new_err(problem);
        let table = table(&self.table).ok_or_else(|| usage(format!("no table {:?}", self.table)))?;
        for name in self.columns.iter().flatten() {
            check_name(py, table.rows, name)?;
        }
        let layout = match &self.columns {
            None => Layout::whole(table),
            Some(names) => Layout::select(table, names).map_err(|name| {
                let names: Vec<_> = table.rows.columns.iter().map(|column| column.name).collect();
                errors::option(py, "columns", &format!("{name:?} is not one of {}", names.join(", ")))
            })?,
        };
        let durability = match self.durability.as_str() {
            "os" => Durability::Os,
            "disk" => Durability::Disk,
            other => return Err(errors::option(py, "durability", &format!("{other:?} is not os or disk"))),
        };
        let rule = self.shard_keys.clone().map_or(Rule::Hash, Rule::Keys);
        let options = Options {
            durability,
            segment_bytes: self.segment_bytes,
            segment_micros: (self.segment_seconds * 1e6) as i64,
            ..Options::default()
        };
        Ok((Wanted { layout, shards: self.shards, rule }, options))
    }
}

/// Opens a spool for writing.
pub(crate) fn open(
    py: Python<'_>,
    dir: &Path,
    wanted: &Wanted,
    options: &Options,
) -> PyResult<(Writer, Shards)> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| PyValueError::new_err(error.to_string()))?;
    py.detach(|| Writer::open(dir, wanted, id, options, now())).map_err(|error| errors::spool(py, &error))
}

/// What a row holds in one column, as taken from Python.
enum Owned {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Bytes(Bytes),
    List(Vec<Bytes>),
    Map(Vec<(String, String)>),
}

/// Convert a text to its stored value; `None` where the column does not take it.
fn word(form: Form, text: &str) -> Option<Owned> {
    Some(match form.store(text)? {
        Stored::Int(number) => Owned::Int(number),
        Stored::Bool(flag) => Owned::Bool(flag),
        Stored::Bytes(octets) => Owned::Bytes(octets.into()),
        Stored::Text => Owned::Text(text.to_owned()),
    })
}

/// Warn that a column has the type of files, not the type that readers see.
fn as_stored(py: Python<'_>, name: &str, form: Form) -> PyResult<()> {
    let wanted = form.texts();
    deprecated(
        py,
        &format!("column {name:?} is a text ({wanted}); other types will be refused in the next release"),
    )
}

/// What Python gives for a column.
fn take(value: &Bound<'_, PyAny>, column: &Column, name: &str) -> PyResult<Owned> {
    if value.is_none() {
        return Ok(Owned::Null);
    }
    let (kind, form) = (column.kind, column.form);
    if form != Form::Same {
        if let Ok(text) = value.extract::<String>() {
            return word(form, &text).ok_or_else(|| not_taken(name, form, &text));
        }
        as_stored(value.py(), name, form)?;
    }
    let octets = |value: &Bound<'_, PyAny>| value.extract::<Vec<u8>>().map(Bytes::from);
    Ok(match kind {
        Kind::Text => Owned::Text(value.extract()?),
        Kind::Bytes => match value.extract::<String>() {
            Ok(text) => Owned::Bytes(text.into()),
            Err(_) => Owned::Bytes(octets(value)?),
        },
        Kind::Bool => Owned::Bool(value.extract()?),
        Kind::BytesList => {
            let items = value.try_iter()?.map(|item| octets(&item?)).collect::<PyResult<_>>()?;
            Owned::List(items)
        }
        Kind::TextMap => {
            Owned::Map(value.extract::<std::collections::BTreeMap<_, _>>()?.into_iter().collect())
        }
        _ => Owned::Int(value.extract()?),
    })
}

impl Owned {
    fn value<'a>(&'a self, pairs: &'a mut Vec<(&'a str, &'a str)>) -> Value<'a> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Shared(bytes),
            Self::List(items) => Value::List(items),
            Self::Map(map) => {
                pairs.extend(map.iter().map(|(name, value)| (name.as_str(), value.as_str())));
                Value::Map(pairs)
            }
        }
    }
}

fn not_taken(name: &str, form: Form, text: &str) -> PyErr {
    PyValueError::new_err(format!("column {name:?} must be {}, not {text:?}", form.texts()))
}

fn is_text(array: &ArrayRef) -> bool {
    matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8)
}

/// What a batch has in a row of a column; `None` where the column is of another type, or has no such text.
fn cell(array: &ArrayRef, column: &Column, row: usize) -> Option<Owned> {
    let kind = column.kind;
    let any = array.as_any();
    macro_rules! value {
        ($array:ty) => {
            any.downcast_ref::<$array>().map(|array| array.value(row))
        };
    }
    if array.is_null(row) {
        return Some(Owned::Null);
    }
    let text = || value!(StringArray).or_else(|| value!(LargeStringArray)).map(str::to_owned);
    let strings = |array: &ArrayRef| -> Option<Vec<String>> {
        let array = array.as_any().downcast_ref::<StringArray>()?;
        Some(array.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
    };
    if column.form != Form::Same && is_text(array) {
        return word(column.form, &text()?);
    }
    match kind {
        Kind::Text => text().map(Owned::Text),
        Kind::Bytes => value!(BinaryArray)
            .or_else(|| value!(LargeBinaryArray))
            .map(|bytes| Owned::Bytes(Bytes::copy_from_slice(bytes)))
            .or_else(|| text().map(|text| Owned::Bytes(text.into()))),
        Kind::Bool => value!(BooleanArray).map(Owned::Bool),
        Kind::Time => value!(TimestampMicrosecondArray).map(Owned::Int),
        Kind::BytesList => {
            let items = value!(ListArray)?;
            let items = items.as_any().downcast_ref::<BinaryArray>()?;
            let item = |item: Option<&[u8]>| Bytes::copy_from_slice(item.unwrap_or_default());
            Some(Owned::List(items.iter().map(item).collect()))
        }
        Kind::TextMap => {
            let entries = value!(MapArray)?;
            let (names, values) = (strings(entries.column(0))?, strings(entries.column(1))?);
            Some(Owned::Map(names.into_iter().zip(values).collect()))
        }
        _ => value!(Int64Array)
            .or_else(|| value!(Int32Array).map(i64::from))
            .or_else(|| value!(Int16Array).map(i64::from))
            .or_else(|| value!(Int8Array).map(i64::from))
            .map(Owned::Int),
    }
}

/// A spool that is open.
struct Open {
    writer: Writer,
    shards: Shards,
}

/// Writes rows and batches into a spool.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolAppender {
    open: Mutex<Option<Open>>,
    layout: Layout,
    birth: Birth,
}

impl SpoolAppender {
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Open) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        if !self.birth.is_here() {
            return Err(errors::usage(
                py,
                "this spool belongs to another process: open it again after a fork",
            ));
        }
        let done = py.detach(|| self.open.lock().as_mut().map(f));
        match done {
            Some(done) => done.map_err(|error| errors::spool(py, &error)),
            None => Err(errors::usage(py, "the spool is closed")),
        }
    }

    fn check(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        // It is made here.
        if self.layout.position(name).is_some() && name != "offset" {
            return check_name(py, self.layout.table.rows, name);
        }
        let names: Vec<_> = self.columns().map(|(column, _)| column.name).collect();
        Err(PyTypeError::new_err(format!("column {name:?} is not one of {}", names.join(", "))))
    }

    /// Columns as readers see them, each with its stored form.
    fn columns(&self) -> impl Iterator<Item = (columns::Column, &Column)> {
        self.layout.columns.iter().enumerate().map(|(at, stored)| (self.layout.read_column(at), stored))
    }
}

/// Puts a row into its shard, or into the one that is named.
fn push(open: &mut Open, shard: Option<u32>, row: &[Owned], key: Option<usize>) -> Result<(), Error> {
    let count = open.shards.data.len();
    let number = shard.unwrap_or_else(|| match key.and_then(|key| row.get(key)) {
        Some(Owned::Text(key)) => Rule::hash(key, count),
        _ => 0,
    });
    let Some(writer) = open.shards.data.get_mut(number as usize) else {
        return Err(Error::Usage(format!("shard {number}: this spool has shards 0 to {}", count - 1)));
    };
    if writer.is_full() {
        writer.flush(now())?;
    }
    let mut pairs: Vec<Vec<(&str, &str)>> = row.iter().map(|_| Vec::new()).collect();
    let values: Vec<Value<'_>> = row.iter().zip(&mut pairs).map(|(cell, pairs)| cell.value(pairs)).collect();
    writer.push(&values)
}

#[pymethods]
impl SpoolAppender {
    #[new]
    fn new(py: Python<'_>, dir: PathBuf, settings: Settings) -> PyResult<Self> {
        let (wanted, options) = settings.parse(py)?;
        let (writer, shards) = open(py, &dir, &wanted, &options)?;
        let layout = writer.meta().layout.clone();
        let open = Mutex::new(Some(Open { writer, shards }));
        Ok(Self { open, layout, birth: Birth::here() })
    }

    /// Appends a row.
    fn append(&self, py: Python<'_>, shard: Option<u32>, row: &Bound<'_, PyDict>) -> PyResult<()> {
        for name in row.keys() {
            self.check(py, &name.extract::<String>()?)?;
        }
        let mut owned = Vec::with_capacity(self.layout.columns.len());
        for (column, stored) in self.columns() {
            let given = match row.get_item(column.name)? {
                None if stored.name != column.name => row.get_item(stored.name)?,
                given => given,
            };
            owned.push(match given {
                Some(value) => take(&value, stored, column.name)?,
                None if column.name == "recv_ts" => Owned::Int(now()),
                None if stored.form == Form::Kind => Owned::Int(0),
                None => Owned::Null,
            });
        }
        let key = self.layout.position("key");
        self.run(py, |open| push(open, shard, &owned, key))
    }

    /// Appends the rows of a batch; returns how many.
    fn append_batch(&self, py: Python<'_>, shard: Option<u32>, batch: &Bound<'_, PyAny>) -> PyResult<usize> {
        let batch = import(batch)?;
        for field in batch.schema().fields() {
            self.check(py, field.name())?;
        }
        let mut arrays = Vec::with_capacity(self.layout.columns.len());
        for (column, stored) in self.columns() {
            let array = batch.column_by_name(column.name).or_else(|| batch.column_by_name(stored.name));
            if stored.form != Form::Same && array.is_some_and(|array| !is_text(array)) {
                as_stored(py, column.name, stored.form)?;
            }
            arrays.push((column, stored, array));
        }
        let key = self.layout.position("key");
        let time = now();
        let mut wrong = None;
        self.run(py, |open| {
            let mut row = Vec::with_capacity(arrays.len());
            for number in 0..batch.num_rows() {
                row.clear();
                for (column, stored, array) in &arrays {
                    let cell = array.map_or(Some(Owned::Null), |array| cell(array, stored, number));
                    row.push(match cell {
                        Some(Owned::Null) if column.name == "recv_ts" => Owned::Int(time),
                        Some(Owned::Null) if stored.form == Form::Kind => Owned::Int(0),
                        Some(cell) => cell,
                        None => {
                            wrong = Some((*column, stored.form));
                            return Ok(());
                        }
                    });
                }
                push(open, shard, &row, key)?;
            }
            Ok(())
        })?;
        match wrong {
            None => Ok(batch.num_rows()),
            Some((columns::Column { name, .. }, form)) if form != Form::Same => {
                Err(PyTypeError::new_err(format!("column {name:?} must be {}", form.texts())))
            }
            Some((columns::Column { name, kind, .. }, _)) => {
                let wanted = kind.data_type();
                Err(PyTypeError::new_err(format!("column {name:?} must be {wanted}")))
            }
        }
    }

    /// Appends a row to the gap log.
    #[pyo3(signature = (shard, kind, count, detail))]
    fn append_gap(
        &self,
        py: Python<'_>,
        shard: u32,
        kind: &str,
        count: Option<u64>,
        detail: String,
    ) -> PyResult<()> {
        let Some(kind) =
            ["gap", "drop", "reconnect", "epoch", "duplicate"].into_iter().find(|known| *known == kind)
        else {
            return Err(PyValueError::new_err(format!("{kind:?} is no kind of a gap")));
        };
        self.run(py, |open| {
            let offset = open.shards.data.get(shard as usize).map_or(0, ShardWriter::next_offset);
            let gap = Gap { shard, offset, kind, count, time: now(), detail, ..Gap::default() };
            Shards::tell(&mut open.shards.gaps, &gap)?;
            open.shards.gaps.flush(now())
        })
    }

    /// Writes what is in no file yet, so that others see it.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |open| {
            for writer in open.shards.data.iter_mut().chain([&mut open.shards.gaps]) {
                writer.flush(now())?;
                if writer.unpublished() {
                    writer.sync()?;
                }
            }
            Ok(())
        })
    }

    /// Ends the open segments, so that programs that read Arrow files can read them.
    fn seal(&self, py: Python<'_>) -> PyResult<()> {
        self.flush(py)?;
        self.run(py, |open| {
            for writer in open.shards.data.iter_mut().chain([&mut open.shards.gaps]) {
                writer.seal()?;
            }
            Ok(())
        })
    }

    /// Writes and seals everything and lets go of the spool. A second time does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(mut open) = self.open.lock().take() else { return Ok(()) };
        if !self.birth.is_here() {
            // What the parent has open is the parent's.
            return Ok(());
        }
        let closed = py.detach(|| {
            for writer in open.shards.data.iter_mut().chain([&mut open.shards.gaps]) {
                writer.close(now())?;
            }
            open.writer.close()
        });
        closed.map_err(|error| errors::spool(py, &error))
    }
}
