//! Reading a spool: offsets, ranges, batches.

use crate::{
    arrow::{ArrowBatch, schema_capsule},
    columns::checked_names,
    errors::OrRaise,
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

/// Offsets by shard, as in Python.
pub(crate) type Offsets = BTreeMap<u32, u64>;

/// The shard of a number, or the gap log for `None`.
pub(crate) fn shard(number: Option<u32>) -> Shard {
    number.map_or(Shard::Gaps, Shard::Data)
}

/// Reader of a spool directory; takes no lock.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolView(Spool);

attributes! { SpoolView, |this|
    /// Id of the spool, 32 hexadecimal digits.
    id: String = this.0.meta().id_text();
    /// The name of the table.
    table: &'static str = this.0.meta().layout.table.name;
    /// Number of shards.
    shard_count: u32 = this.0.meta().shards;
    /// Key expressions of its shards; `None` if the checksum of the key selects the shard.
    shard_keys: Option<Vec<String>> = match &this.0.meta().rule {
        Rule::Hash => None,
        Rule::Keys(keys) => Some(keys.clone()),
    };
    /// Time of its creation, in microseconds since 1970.
    created: i64 = this.0.meta().created;
    /// Columns of the rows.
    columns: Vec<&'static str> =
        this.0.meta().layout.read_columns().iter().map(|column| column.name).collect();
}

#[pymethods]
impl SpoolView {
    #[new]
    fn new(py: Python<'_>, dir: PathBuf) -> PyResult<Self> {
        py.detach(|| Spool::open(&dir)).map(Self).or_raise(py)
    }

    /// Earliest offset, and the one after the last, of each shard and finally of the gap log.
    fn bounds(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        let marks = py.detach(|| self.0.marks()).or_raise(py)?;
        Ok(marks.iter().map(|mark| (mark.earliest, mark.end)).collect())
    }

    /// Published state of each shard and finally of the gap log.
    fn marks<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |mark: &Mark| {
            Ok(dict! { py;
                of mark: earliest, end;
                last_recv_ts = mark.last_time, dropped = mark.drops;
                of mark: bytes
            })
        };
        py.detach(|| self.0.marks()).or_raise(py)?.iter().map(dict).collect()
    }

    /// First offset of each shard received at or after a time, in microseconds since 1970.
    fn at(&self, py: Python<'_>, time: i64) -> PyResult<Offsets> {
        py.detach(|| self.0.at(time)).or_raise(py)
    }

    /// Time at which a row was received, in microseconds since 1970; `None` if no row has the offset.
    fn received(&self, py: Python<'_>, shard: u32, offset: u64) -> PyResult<Option<i64>> {
        py.detach(|| self.0.received(shard, offset)).or_raise(py)
    }

    /// An end of a range, between both offsets, that respects the limits.
    fn walk(
        &self,
        py: Python<'_>,
        start: Offsets,
        end: Offsets,
        max_rows: Option<u64>,
        max_bytes: Option<u64>,
    ) -> PyResult<Offsets> {
        py.detach(|| self.0.walk(&start, &end, max_rows, max_bytes)).or_raise(py)
    }

    /// Splits a range into parts: shard, start, stop and octets of each.
    fn split(
        &self,
        py: Python<'_>,
        start: Offsets,
        end: Offsets,
        parts: usize,
    ) -> PyResult<Vec<(u32, u64, u64, u64)>> {
        let ranges = py.detach(|| self.0.split(&start, &end, parts)).or_raise(py)?;
        Ok(ranges.iter().map(|range| (range.shard, range.start, range.stop, range.bytes)).collect())
    }

    /// Reads the rows of a range; without a shard, those of the gap log.
    // Rows and octets of a batch are passed as a pair: eight arguments would be too many.
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
        let shard = self::shard(shard);
        let names = checked_names(py, self.0.layout(shard).table.rows, columns.as_deref())?;
        let rows = py.detach(|| self.0.read(shard, start, stop, names.as_deref(), limits)).or_raise(py)?;
        Ok(SpoolRows { schema: rows.schema(), from: From::Files(Box::new(Mutex::new(Some(rows)))) })
    }

    /// Stores the progress of a reader, with a time in microseconds since 1970.
    fn commit(&self, py: Python<'_>, consumer: &str, offsets: Offsets, now: i64) -> PyResult<()> {
        py.detach(|| self.0.commit(consumer, offsets, now)).or_raise(py)
    }

    /// Stored offsets and time of each reader.
    fn consumers(&self, py: Python<'_>) -> PyResult<BTreeMap<String, (Offsets, i64)>> {
        let consumers = py.detach(|| self.0.consumers()).or_raise(py)?;
        Ok(consumers.into_iter().map(|(name, consumer)| (name, (consumer.offsets, consumer.at))).collect())
    }
}

/// Source of batches.
enum From {
    /// Files; `None` after the last batch.
    Files(Box<Mutex<Option<Rows>>>),
    /// A Python iterator.
    Iterator(Py<PyIterator>),
}

/// Rows of a range, batch by batch; also a schema by the Arrow C interface.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolRows {
    schema: SchemaRef,
    from: From,
}

#[pymethods]
impl SpoolRows {
    /// Rows of batches that an iterator makes with this receiver.
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
            // After an error there are no further batches, and files are not kept open.
            if !matches!(batch, Ok(Some(_))) {
                *place = None;
            }
            batch
        });
        match batch.or_raise(py)? {
            Some(batch) => Ok(Some(Py::new(py, ArrowBatch(batch))?.into_any())),
            None => Ok(None),
        }
    }

    /// The Arrow C interface: a capsule with the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}
