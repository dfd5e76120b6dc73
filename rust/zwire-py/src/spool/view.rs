//! A spool that is read: offsets, ranges, batches.

use crate::{
    arrow::{ArrowBatch, schema_capsule},
    errors,
    spool::range::SpoolReceiver,
};
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict, PyIterator},
};
use std::{collections::BTreeMap, path::PathBuf};
use zwire_spool::{BatchLimits, Mark, Rows, Rule, Shard, Spool};

/// Offsets by shard, as Python has them.
pub(crate) type Offsets = BTreeMap<u32, u64>;

/// A shard, or the gap log where there is none.
pub(crate) fn shard(number: Option<u32>) -> Shard {
    number.map_or(Shard::Gaps, Shard::Data)
}

/// A spool in a folder, read without a lock.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolView(Spool);

impl SpoolView {
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Spool) -> zwire_spool::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| f(&self.0)).map_err(|error| errors::spool(py, &error))
    }
}

/// What has been published of a shard, with names.
fn mark_to_dict<'py>(py: Python<'py>, mark: &Mark) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("earliest", mark.earliest)?;
    dict.set_item("end", mark.end)?;
    dict.set_item("last_recv_ts", mark.last_time)?;
    dict.set_item("dropped", mark.drops)?;
    dict.set_item("bytes", mark.bytes)?;
    Ok(dict)
}

#[pymethods]
impl SpoolView {
    #[new]
    fn new(py: Python<'_>, dir: PathBuf) -> PyResult<Self> {
        py.detach(|| Spool::open(&dir)).map(Self).map_err(|error| errors::spool(py, &error))
    }

    /// The id, 32 hexadecimal digits.
    #[getter]
    fn id(&self) -> String {
        self.0.meta().id_text()
    }

    /// The name of the table.
    #[getter]
    fn table(&self) -> &'static str {
        self.0.meta().layout.table.name
    }

    /// How many shards it has.
    #[getter]
    fn shard_count(&self) -> u32 {
        self.0.meta().shards
    }

    /// The key expressions of its shards; `None` where the key's checksum decides.
    #[getter]
    fn shard_keys(&self) -> Option<Vec<String>> {
        match &self.0.meta().rule {
            Rule::Hash => None,
            Rule::Keys(keys) => Some(keys.clone()),
        }
    }

    /// When it was made, in microseconds since 1970.
    #[getter]
    fn created(&self) -> i64 {
        self.0.meta().created
    }

    /// The columns of rows that are read.
    #[getter]
    fn columns(&self) -> Vec<&'static str> {
        self.0.meta().layout.read_columns().iter().map(|column| column.name).collect()
    }

    /// Earliest offset and the one behind the last, of each shard and, at last, of the gap log.
    fn bounds(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        let marks = self.run(py, Spool::marks)?;
        Ok(marks.iter().map(|mark| (mark.earliest, mark.end)).collect())
    }

    /// What has been published of each shard and, at last, of the gap log.
    fn marks<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.run(py, Spool::marks)?.iter().map(|mark| mark_to_dict(py, mark)).collect()
    }

    /// The first offsets received at a time, in microseconds since 1970, or later.
    fn at(&self, py: Python<'_>, time: i64) -> PyResult<Offsets> {
        self.run(py, |spool| spool.at(time))
    }

    /// When a row was received, in microseconds since 1970; `None` for an offset that no row has.
    fn received(&self, py: Python<'_>, shard: u32, offset: u64) -> PyResult<Option<i64>> {
        self.run(py, |spool| spool.received(shard, offset))
    }

    /// An end between both that keeps to limits.
    fn walk(
        &self,
        py: Python<'_>,
        start: Offsets,
        end: Offsets,
        max_rows: Option<u64>,
        max_bytes: Option<u64>,
    ) -> PyResult<Offsets> {
        self.run(py, |spool| spool.walk(&start, &end, max_rows, max_bytes))
    }

    /// Shard, start, stop and octets of ranges that together are all between both.
    fn split(
        &self,
        py: Python<'_>,
        start: Offsets,
        end: Offsets,
        parts: usize,
    ) -> PyResult<Vec<(u32, u64, u64, u64)>> {
        let ranges = self.run(py, |spool| spool.split(&start, &end, parts))?;
        Ok(ranges.iter().map(|range| (range.shard, range.start, range.stop, range.bytes)).collect())
    }

    /// The rows of a range; those of the gap log without a shard.
    // Rows and octets of a batch come as a pair: eight arguments would be too many.
    fn read(
        &self,
        py: Python<'_>,
        shard: Option<u32>,
        start: u64,
        stop: u64,
        columns: Option<Vec<String>>,
        limits: (usize, usize),
    ) -> PyResult<SpoolRows> {
        let limits = BatchLimits { rows: limits.0, bytes: limits.1 };
        let rows = self.run(py, |spool| {
            let names: Option<Vec<&str>> =
                columns.as_ref().map(|names| names.iter().map(String::as_str).collect());
            spool.read(self::shard(shard), start, stop, names.as_deref(), limits)
        })?;
        Ok(SpoolRows { schema: rows.schema(), from: From::Files(Box::new(Mutex::new(Some(rows)))) })
    }

    /// Says how far a reader has come, at a time in microseconds since 1970.
    fn commit(&self, py: Python<'_>, consumer: &str, offsets: Offsets, now: i64) -> PyResult<()> {
        self.run(py, |spool| spool.commit(consumer, offsets, now))
    }

    /// Offsets and time of each reader.
    fn consumers(&self, py: Python<'_>) -> PyResult<BTreeMap<String, (Offsets, i64)>> {
        let consumers = self.run(py, Spool::consumers)?;
        Ok(consumers.into_iter().map(|(name, consumer)| (name, (consumer.offsets, consumer.at))).collect())
    }
}

/// Where batches come from.
enum From {
    /// Files; nothing behind the last batch.
    Files(Box<Mutex<Option<Rows>>>),
    /// An iterator of Python.
    Iterator(Py<PyIterator>),
}

/// The rows of a range, batch by batch; also a schema by the Arrow C interface.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolRows {
    schema: SchemaRef,
    from: From,
}

#[pymethods]
impl SpoolRows {
    /// Of batches that somebody else makes with this receiver.
    #[staticmethod]
    fn over(receiver: &SpoolReceiver, batches: &Bound<'_, PyIterator>) -> Self {
        Self { schema: receiver.schema(), from: From::Iterator(batches.clone().unbind()) }
    }

    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let rows = match &self.from {
            From::Files(rows) => rows,
            From::Iterator(batches) => {
                return batches.bind(py).clone().next().transpose().map(|batch| batch.map(Bound::unbind));
            }
        };
        let batch = py.detach(|| {
            let mut place = rows.lock();
            let Some(rows) = place.as_mut() else { return Ok(None) };
            let batch = rows.next_batch();
            // Behind an error there is nothing, and files are not kept open for it.
            if !matches!(batch, Ok(Some(_))) {
                *place = None;
            }
            batch
        });
        match batch.map_err(|error| errors::spool(py, &error))? {
            Some(batch) => Ok(Some(Py::new(py, ArrowBatch::new(batch))?.into_any())),
            None => Ok(None),
        }
    }

    /// The Arrow C interface: a capsule with the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}
