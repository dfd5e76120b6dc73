//! Reading a spool: offsets, ranges, batches.

use crate::{
    arrow::{ArrowBatch, schema_capsule},
    columns::checked_names,
    errors::{self, OrRaise},
    spool::range::SpoolReceiver,
};
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict, PyIterator},
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
use zwire_spool::{BatchLimits, Mark, Rows, Rule, Selection, Shard, Spool};

/// Offsets by shard, as in Python.
pub(crate) type Offsets = BTreeMap<u32, u64>;

/// The shard of a number, or the gap log for `None`.
pub(crate) fn shard(number: Option<u32>) -> Shard {
    number.map_or(Shard::Gaps, Shard::Data)
}

/// Key expressions, and the times from which on and before which rows were received, as in Python.
pub(crate) type Wanted = (Option<Vec<String>>, Option<i64>, Option<i64>);

/// The selection of rows; `None` for all of them.
pub(crate) fn selection(py: Python<'_>, wanted: Option<Wanted>) -> PyResult<Option<Arc<Selection>>> {
    let (keys, since, until) = wanted.unwrap_or_default();
    zwire_recorder::selection(keys.as_deref(), since, until).map_err(|error| errors::key_expr(py, &error))
}

/// Reader of a spool in a directory, or in a store; takes no lock.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolView(Spool);

attributes! { SpoolView, |this|
    /// Id of the spool, 32 hexadecimal digits.
    id: String = this.0.meta().id_text();
    /// The name of the table.
    table: &'static str = this.0.meta().layout.table.name;
    /// Key expressions of its shards; `None` if the checksum of the key selects the shard.
    shard_keys: Option<Vec<String>> = match &this.0.meta().rule {
        Rule::Hash => None,
        Rule::Keys(keys) => Some(keys.clone()),
    };
    /// Time of its creation, in microseconds since 1970.
    created: i64 = this.0.meta().created;
    /// Address of the store that has segments of the spool; `None` if there is none.
    tier: Option<&str> = this.0.tier().map(|tier| tier.place());
    /// Columns of the rows.
    columns: Vec<&'static str> =
        this.0.meta().layout.read_columns().iter().map(|column| column.name).collect();
}

#[pymethods]
impl SpoolView {
    #[new]
    fn new(py: Python<'_>, dir: PathBuf) -> PyResult<Self> {
        py.detach(|| zwire_recorder::open_spool(&dir)).map(Self).or_raise(py)
    }

    /// Number of shards.
    #[getter]
    fn shard_count(&self, py: Python<'_>) -> PyResult<u32> {
        py.detach(|| self.0.shard_count()).or_raise(py)
    }

    /// Ends of all shards at each change of their number, the oldest first.
    fn changes(&self, py: Python<'_>) -> PyResult<Vec<Offsets>> {
        let changes = py.detach(|| self.0.changes()).or_raise(py)?;
        Ok(changes.past.into_iter().map(|past| past.ends).collect())
    }

    /// Number of shards over which keys are spread, and number of changes of it; `None` if it cannot change.
    fn spread(&self, py: Python<'_>) -> PyResult<Option<(u32, u32)>> {
        let changes = py.detach(|| self.0.changes()).or_raise(py)?;
        Ok((changes.count > 0).then_some((changes.count, changes.generation)))
    }

    /// First offsets of the segments of a shard; without a shard, of the gap log.
    fn segments(&self, py: Python<'_>, shard: Option<u32>) -> PyResult<Vec<u64>> {
        py.detach(|| self.0.segments(self::shard(shard))).or_raise(py)
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

    /// End and octets of each shard in the store, and finally of the gap log; `None` if there is no store.
    fn tier_ends(&self, py: Python<'_>) -> PyResult<Option<Vec<(u64, u64)>>> {
        let marks = py.detach(|| self.0.tier_marks()).or_raise(py)?;
        Ok(marks.map(|marks| marks.iter().map(|mark| (mark.end, mark.bytes)).collect()))
    }

    /// Spoolers that hold the shards of a spool which several share by them: by shard the number of the claim, and the host.
    fn holders(&self, py: Python<'_>) -> PyResult<Option<BTreeMap<u32, (u32, String)>>> {
        py.detach(|| self.0.tier().map_or(Ok(None), |tier| tier.holders())).or_raise(py)
    }

    /// Spooler that writes a spool which several share: its epoch of the lease, and its host.
    fn holder(&self, py: Python<'_>) -> PyResult<Option<(u32, String)>> {
        py.detach(|| self.0.tier().map_or(Ok(None), |tier| tier.holder())).or_raise(py)
    }

    /// First offset of each shard received at or after a time, in microseconds since 1970.
    fn at(&self, py: Python<'_>, time: i64) -> PyResult<Offsets> {
        py.detach(|| self.0.at(time)).or_raise(py)
    }

    /// Time at which a row was received, in microseconds since 1970; `None` if no row has the offset.
    fn received(&self, py: Python<'_>, shard: u32, offset: u64) -> PyResult<Option<i64>> {
        py.detach(|| self.0.received(shard, offset)).or_raise(py)
    }

    /// An end of a range, between both offsets, that respects the limits: rows and octets.
    #[pyo3(signature = (start, end, limits, wanted=None))]
    fn walk(
        &self,
        py: Python<'_>,
        start: Offsets,
        end: Offsets,
        limits: (Option<u64>, Option<u64>),
        wanted: Option<Wanted>,
    ) -> PyResult<Offsets> {
        let selection = selection(py, wanted)?;
        py.detach(|| self.0.walk(&start, &end, limits, selection.as_deref())).or_raise(py)
    }

    /// Numbers of segments between two offsets that may have wanted rows, and of the others; octets of the former.
    #[pyo3(signature = (start, end, wanted=None))]
    fn plan(
        &self,
        py: Python<'_>,
        start: Offsets,
        end: Offsets,
        wanted: Option<Wanted>,
    ) -> PyResult<(u64, u64, u64)> {
        let selection = selection(py, wanted)?;
        let plan = py.detach(|| self.0.plan(&start, &end, selection.as_deref())).or_raise(py)?;
        Ok((plan.segments, plan.skipped, plan.bytes))
    }

    /// Splits a range into parts: shard, start, stop and octets of each.
    #[pyo3(signature = (start, end, parts, wanted=None))]
    fn split(
        &self,
        py: Python<'_>,
        start: Offsets,
        end: Offsets,
        parts: usize,
        wanted: Option<Wanted>,
    ) -> PyResult<Vec<(u32, u64, u64, u64)>> {
        let selection = selection(py, wanted)?;
        let ranges = py.detach(|| self.0.split(&start, &end, parts, selection.as_deref())).or_raise(py)?;
        Ok(ranges.iter().map(|range| (range.shard, range.start, range.stop, range.bytes)).collect())
    }

    /// Reads the rows of a range; without a shard, those of the gap log.
    // Offsets, and rows and octets of a batch, are passed as pairs: eight arguments would be too many.
    #[pyo3(signature = (shard, range, columns, limits, wanted=None))]
    fn read(
        &self,
        py: Python<'_>,
        shard: Option<u32>,
        range: (u64, u64),
        columns: Option<Vec<String>>,
        limits: (usize, usize),
        wanted: Option<Wanted>,
    ) -> PyResult<SpoolRows> {
        let selection = selection(py, wanted)?;
        let limits = BatchLimits { rows: limits.0, bytes: limits.1 };
        let shard = self::shard(shard);
        let names = checked_names(py, self.0.layout(shard).table.rows, columns.as_deref())?;
        let read = || {
            let rows = self.0.read(shard, range.0, range.1, names.as_deref(), limits)?;
            match selection {
                Some(selection) => rows.select(selection),
                None => Ok(rows),
            }
        };
        let rows = py.detach(read).or_raise(py)?;
        let (schema, counts) = (rows.schema(), Mutex::new(Some((0, 0))));
        Ok(SpoolRows { schema, from: From::Files(Box::new(Mutex::new(Some(rows)))), counts })
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
    /// Numbers of segments that were opened, and passed over.
    counts: Mutex<Option<(u64, u64)>>,
}

attributes! { SpoolRows, |this|
    /// Numbers of the segments opened so far, and of those passed over; `None` of a range server.
    segments: Option<(u64, u64)> = *this.counts.lock();
}

represented! { SpoolRows, |slf| {
    let fields = slf.get().schema.fields();
    format!("with {}", fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", "))
} }

#[pymethods]
impl SpoolRows {
    /// Rows of batches that an iterator makes with this receiver.
    #[staticmethod]
    fn over(receiver: &SpoolReceiver, batches: &Bound<'_, PyIterator>) -> Self {
        let from = From::Iterator(batches.clone().unbind());
        Self { schema: receiver.schema(), from, counts: Mutex::new(None) }
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
            *self.counts.lock() = Some(rows.segments());
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
