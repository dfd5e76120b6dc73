//! Batches as Arrow record batches, handed over by the Arrow C interface.
//!
//! Rows are copied once, from the receive buffer into the column; a large one, which makes a batch of its
//! own, is not copied at all. No Python object is made per row, and pyarrow is not needed: whoever reads the capsules (pyarrow, polars, nanoarrow) imports
//! itself.

use crate::{
    errors,
    handlers::seconds,
    interrupt::Interrupt,
    session::{Handle, Session},
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int8Array, LargeBinaryArray, LargeStringArray, RecordBatch,
    StringArray, StructArray, TimestampMicrosecondArray, UInt8Array,
    builder::StringBuilder,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi},
    make_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bytes::Bytes;
use core::ffi::CStr;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyCapsule, PyTuple},
};
use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock},
};
use zwire_engine::{Queue, RecvError, queue::Weigh};
use zwire_proto::{
    Text,
    zenoh::{
        CongestionControl, Encoding, KeyExpr, Priority, Qos, Timestamp,
        session::{Published, Sample, SampleKind},
        wire::{Del, PushBody, Put},
    },
};

const SCHEMA_NAME: &CStr = c"arrow_schema";
const ARRAY_NAME: &CStr = c"arrow_array";

/// Columns of a batch of samples, in this order. All nullable, as Spark's DDL schemas are.
static SAMPLE_SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("payload", DataType::Binary, true),
        Field::new("kind", DataType::Utf8, true),
        Field::new("encoding", DataType::Utf8, true),
        Field::new("timestamp", utc, true),
        Field::new("attachment", DataType::Binary, true),
        Field::new("priority", DataType::Int8, true),
        Field::new("congestion", DataType::Utf8, true),
        Field::new("express", DataType::Boolean, true),
    ]))
});

/// A record batch that others read by the Arrow C interface.
#[pyclass(module = "zwire", frozen)]
pub(crate) struct ArrowBatch(RecordBatch);

#[pymethods]
impl ArrowBatch {
    /// The Arrow C interface: a pair of capsules, schema and array.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The protocol allows to ignore a requested schema that is not the own one.
        let _ = requested_schema;
        let data = StructArray::from(self.0.clone()).into_data();
        let (array, _) = to_ffi(&data).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let schema = self.schema()?;
        PyTuple::new(
            py,
            [
                PyCapsule::new_with_value(py, schema, SCHEMA_NAME)?,
                PyCapsule::new_with_value(py, array, ARRAY_NAME)?,
            ],
        )
    }

    /// The Arrow C interface: a capsule with the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, self.schema()?, SCHEMA_NAME)
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|f| f.name().clone()).collect()
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<ArrowBatch {} rows>", self.0.num_rows())
    }
}

impl ArrowBatch {
    pub(crate) const fn new(batch: RecordBatch) -> Self {
        Self(batch)
    }

    fn schema(&self) -> PyResult<FFI_ArrowSchema> {
        FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(|e| PyValueError::new_err(e.to_string()))
    }
}

/// A capsule with a schema.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA_NAME)
}

/// About how much a batch holds, if one sample does not hold more: its columns are memory that the
/// allocator has at hand, where that of a hundred large samples comes from the system page by page.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// A sample of so many bytes makes a batch of its own, whose column is the memory it was received in.
const ALONE_BYTES: usize = 256 << 10;

/// Up to `max_rows` samples of a queue; waits for the first one only.
pub(crate) fn recv_batch(
    py: Python<'_>,
    queue: &Arc<Queue<Sample>>,
    max_rows: usize,
    timeout: Option<f64>,
    failed: impl Fn(RecvError) -> PyErr,
) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, take_batch(py, queue, max_rows, timeout, samples_to_batch, failed)?)?.into_any())
}

/// Up to `max_rows` items of a queue as a batch; waits for the first one only, at the timeout the batch is
/// empty. `failed` says what it means that none came otherwise.
pub(crate) fn take_batch<T: Weigh + Send>(
    py: Python<'_>,
    queue: &Arc<Queue<T>>,
    max_rows: usize,
    timeout: Option<f64>,
    to_batch: impl Fn(&VecDeque<T>) -> Result<RecordBatch, String> + Send + Sync,
    failed: impl Fn(RecvError) -> PyErr,
) -> PyResult<ArrowBatch> {
    let wait = seconds(timeout)?;
    let mut interrupt = Interrupt::default();
    let batch = py.detach(|| {
        let items = match queue.wait_readable(wait, &mut || interrupt.check()) {
            Ok(()) => queue.take_many(max_rows, MAX_BATCH_BYTES, ALONE_BYTES),
            Err(RecvError::Timeout) => VecDeque::new(),
            Err(error) => return Err(error),
        };
        let batch = to_batch(&items);
        queue.give_back(items);
        Ok(batch)
    });
    interrupt.raise()?;
    let batch = batch.map_err(failed)?;
    Ok(ArrowBatch(batch.map_err(PyValueError::new_err)?))
}

fn samples_to_batch(samples: &VecDeque<Sample>) -> Result<RecordBatch, String> {
    let rows = samples.len();
    let alike = Alike::of(samples);
    // Offsets of Binary are 32 bits, and Spark takes no wider type.
    if i32::try_from(alike.payload_bytes).is_err() {
        return Err(format!("{} bytes of payload in one batch: ask for fewer rows", alike.payload_bytes));
    }
    let payload = match samples.front() {
        Some(only) if rows == 1 => alone(&only.payload)?,
        _ => joined(samples, alike.payload_bytes),
    };
    let time = |sample: &Sample| sample.timestamp.and_then(micros);
    let timestamp = if alike.timestamps {
        samples.iter().map(time).collect::<TimestampMicrosecondArray>()
    } else {
        TimestampMicrosecondArray::new_null(rows)
    };
    let attachment = if alike.attachments {
        samples.iter().map(|sample| sample.attachment.as_deref()).collect()
    } else {
        BinaryArray::new_null(rows)
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(keys(samples, &alike)),
        Arc::new(payload),
        Arc::new(texts(samples, alike.kind, |sample| kind_name(sample.kind))),
        Arc::new(encodings(samples, alike.encoding)),
        Arc::new(timestamp.with_timezone("UTC")),
        Arc::new(attachment),
        Arc::new(priorities(samples, alike.qos)),
        Arc::new(texts(samples, alike.qos, |sample| congestion_name(sample.qos.congestion()))),
        Arc::new(BooleanArray::from(express(samples, alike.qos))),
    ];
    RecordBatch::try_new(SAMPLE_SCHEMA.clone(), columns).map_err(|e| e.to_string())
}

/// In what the samples of a batch are alike; mostly in everything but the payload, and then columns are
/// filled instead of collected.
struct Alike {
    key: bool,
    kind: bool,
    encoding: bool,
    qos: bool,
    timestamps: bool,
    attachments: bool,
    payload_bytes: usize,
    key_bytes: usize,
}

impl Alike {
    fn of(samples: &VecDeque<Sample>) -> Self {
        let mut alike = Self {
            key: true,
            kind: true,
            encoding: true,
            qos: true,
            timestamps: false,
            attachments: false,
            payload_bytes: 0,
            key_bytes: 0,
        };
        let Some(first) = samples.front() else { return alike };
        for sample in samples {
            alike.key = alike.key && sample.key == first.key;
            alike.kind &= sample.kind == first.kind;
            alike.encoding &= sample.encoding == first.encoding;
            alike.qos &= sample.qos == first.qos;
            alike.timestamps |= sample.timestamp.is_some();
            alike.attachments |= sample.attachment.is_some();
            alike.payload_bytes += sample.payload.len();
            alike.key_bytes += sample.key.as_str().len();
        }
        alike
    }
}

/// The payloads, one behind the other.
fn joined(samples: &VecDeque<Sample>, bytes: usize) -> BinaryArray {
    let mut data = Vec::with_capacity(bytes);
    samples.iter().for_each(|sample| data.extend_from_slice(&sample.payload));
    let offsets = OffsetBuffer::from_lengths(samples.iter().map(|sample| sample.payload.len()));
    BinaryArray::new(offsets, data.into(), None)
}

fn keys(samples: &VecDeque<Sample>, alike: &Alike) -> StringArray {
    if let Some(first) = samples.front().filter(|_| alike.key) {
        return repeated(first.key.as_str(), samples.len());
    }
    let mut column = StringBuilder::with_capacity(samples.len(), alike.key_bytes);
    samples.iter().for_each(|sample| column.append_value(sample.key.as_str()));
    column.finish()
}

fn priorities(samples: &VecDeque<Sample>, alike: bool) -> Int8Array {
    let of = |sample: &Sample| sample.qos.priority() as i8;
    match samples.front() {
        Some(first) if alike => vec![of(first); samples.len()].into(),
        _ => Int8Array::from_iter_values(samples.iter().map(of)),
    }
}

fn express(samples: &VecDeque<Sample>, alike: bool) -> BooleanBuffer {
    match samples.front() {
        Some(first) if alike && first.qos.express() => BooleanBuffer::new_set(samples.len()),
        Some(_) if alike => BooleanBuffer::new_unset(samples.len()),
        _ => BooleanBuffer::collect_bool(samples.len(), |row| samples[row].qos.express()),
    }
}

fn micros(timestamp: Timestamp) -> Option<i64> {
    i64::try_from(timestamp.time.to_duration().as_micros()).ok()
}

/// A column of names; one name throughout if `alike`.
fn texts(samples: &VecDeque<Sample>, alike: bool, name: fn(&Sample) -> &'static str) -> StringArray {
    match samples.front() {
        Some(first) if alike => repeated(name(first), samples.len()),
        _ => samples.iter().map(|sample| Some(name(sample))).collect(),
    }
}

fn encodings(samples: &VecDeque<Sample>, alike: bool) -> StringArray {
    let Some(first) = samples.front() else { return StringArray::new_null(0) };
    let mut last = (&first.encoding, first.encoding.to_string());
    if alike {
        return repeated(&last.1, samples.len());
    }
    let mut column = StringBuilder::new();
    for sample in samples {
        // Encodings repeat; rendering them does not have to.
        if *last.0 != sample.encoding {
            last = (&sample.encoding, sample.encoding.to_string());
        }
        column.append_value(&last.1);
    }
    column.finish()
}

fn repeated(text: &str, rows: usize) -> StringArray {
    let offsets = OffsetBuffer::from_lengths(core::iter::repeat_n(text.len(), rows));
    StringArray::new(offsets, text.repeat(rows).into_bytes().into(), None)
}

const fn kind_name(kind: SampleKind) -> &'static str {
    match kind {
        SampleKind::Put => "put",
        SampleKind::Delete => "del",
    }
}

const fn congestion_name(congestion: CongestionControl) -> &'static str {
    match congestion {
        CongestionControl::Drop => "drop",
        CongestionControl::Block => "block",
        CongestionControl::BlockFirst => "block_first",
    }
}

/// A column of one value, without a copy.
pub(crate) fn alone(payload: &Bytes) -> Result<BinaryArray, String> {
    let offsets = OffsetBuffer::from_lengths([payload.len()]);
    BinaryArray::try_new(offsets, payload.clone().into(), None).map_err(|e| e.to_string())
}

/// A batch that somebody offers by the Arrow C interface.
pub(crate) fn import(obj: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let data = import_data(obj)?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(PyTypeError::new_err("expected a record batch, that is a struct array"));
    }
    Ok(RecordBatch::from(StructArray::from(data)))
}

/// An array that somebody offers by the Arrow C interface.
pub(crate) fn import_array(obj: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    import_data(obj).map(make_array)
}

#[allow(unsafe_code, reason = "the Arrow C interface hands over C structures in capsules")]
fn import_data(obj: &Bound<'_, PyAny>) -> PyResult<ArrayData> {
    if !obj.hasattr("__arrow_c_array__")? {
        let kind = obj.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "expected a record batch with the Arrow C interface (__arrow_c_array__), not {kind}"
        )));
    }
    let pair = obj.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA_NAME))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY_NAME))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold these structures (Arrow PyCapsule interface); the array is
    // moved out, which leaves a released one behind, as the interface demands. The schema is only
    // borrowed while the capsule lives.
    unsafe {
        let array = FFI_ArrowArray::from_raw(array.as_ptr());
        from_ffi(array, schema.as_ref())
    }
    .map_err(|e| PyValueError::new_err(e.to_string()))
}

/// A column of bytes, whatever their offsets; a slice of it shares the column's memory.
pub(crate) struct Binaries {
    values: Bytes,
    offsets: Offsets,
    nulls: Option<NullBuffer>,
}

enum Offsets {
    Short(OffsetBuffer<i32>),
    Long(OffsetBuffer<i64>),
}

/// Keeps a column alive as long as a payload refers to it.
struct Owner(arrow_buffer::Buffer);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Binaries {
    /// `None`: the column is none of bytes or text.
    pub(crate) fn new(column: &ArrayRef) -> Option<Self> {
        let any = column.as_any();
        let (values, offsets) = if let Some(array) = any.downcast_ref::<BinaryArray>() {
            (array.values(), Offsets::Short(array.offsets().clone()))
        } else if let Some(array) = any.downcast_ref::<LargeBinaryArray>() {
            (array.values(), Offsets::Long(array.offsets().clone()))
        } else if let Some(array) = any.downcast_ref::<StringArray>() {
            (array.values(), Offsets::Short(array.offsets().clone()))
        } else {
            let array = any.downcast_ref::<LargeStringArray>()?;
            (array.values(), Offsets::Long(array.offsets().clone()))
        };
        let nulls = column.nulls().cloned();
        Some(Self { values: Bytes::from_owner(Owner(values.clone())), offsets, nulls })
    }

    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "offsets of a valid array")]
    /// The bytes of a row; `None` where it is null.
    pub(crate) fn get(&self, row: usize) -> Option<Bytes> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(self.values.slice(match &self.offsets {
            Offsets::Short(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Offsets::Long(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
        }))
    }
}

/// The rows of a batch as publications.
struct Rows {
    batch: RecordBatch,
    key: usize,
    payload: Option<Binaries>,
    attachment: Option<Binaries>,
    encoding: Option<usize>,
    kind: Option<usize>,
    priority: Option<usize>,
    congestion: Option<usize>,
    express: Option<usize>,
    /// Where every row goes that names no key of its own.
    fixed_key: Option<KeyExpr>,
    defaults: Qos,
    last_encoding: (String, Encoding),
}

/// A row that cannot be published.
struct BadRow {
    row: usize,
    /// As the row says it, whether it is a key or not.
    key: Option<String>,
    problem: String,
}

impl Rows {
    fn text(&self, column: Option<usize>, row: usize) -> Option<&str> {
        let column = self.batch.column(column?).as_any();
        if let Some(array) = column.downcast_ref::<StringArray>() {
            return (!array.is_null(row)).then(|| array.value(row));
        }
        let array = column.downcast_ref::<LargeStringArray>()?;
        (!array.is_null(row)).then(|| array.value(row))
    }

    /// Puts the key of a row in the place of the one before.
    fn key(&self, row: usize, key: &mut Option<KeyExpr>) -> Result<(), BadRow> {
        if let Some(fixed) = &self.fixed_key {
            if key.is_none() {
                *key = Some(fixed.clone());
            }
            return Ok(());
        }
        let Some(text) = self.text(Some(self.key), row) else {
            return Err(self.bad(row, "the key is null".to_owned()));
        };
        // Keys repeat; checking and copying them does not have to.
        if key.as_ref().is_none_or(|last| last.as_str() != text) {
            *key = Some(KeyExpr::new(Text::from(text)).map_err(|error| self.bad(row, error.to_string()))?);
        }
        Ok(())
    }

    fn bad(&self, row: usize, problem: String) -> BadRow {
        let key = match &self.fixed_key {
            Some(key) => Some(key.to_string()),
            None => self.text(Some(self.key), row).map(str::to_owned),
        };
        BadRow { row, key, problem }
    }

    fn encoding(&mut self, row: usize) -> Encoding {
        let Some(text) = self.text(self.encoding, row) else { return Encoding::DEFAULT };
        if self.last_encoding.0 == text {
            return self.last_encoding.1.clone();
        }
        let text = text.to_owned();
        let encoding = Encoding::from_text(text.as_str());
        self.last_encoding = (text, encoding.clone());
        encoding
    }

    fn qos(&self, row: usize) -> Result<Qos, BadRow> {
        let mut priority = self.defaults.priority();
        if let Some(column) = self.priority {
            let column = self.batch.column(column);
            let number = if let Some(a) = column.as_any().downcast_ref::<Int8Array>() {
                (!a.is_null(row)).then(|| i16::from(a.value(row)))
            } else {
                column
                    .as_any()
                    .downcast_ref::<UInt8Array>()
                    .and_then(|a| (!a.is_null(row)).then(|| i16::from(a.value(row))))
            };
            if let Some(number) = number {
                priority = match number {
                    1..=7 => Priority::ALL[number.unsigned_abs() as usize],
                    _ => return Err(self.bad(row, format!("priority {number} is not 1..7"))),
                };
            }
        }
        let congestion = match self.text(self.congestion, row) {
            None => self.defaults.congestion(),
            Some("drop") => CongestionControl::Drop,
            Some("block") => CongestionControl::Block,
            Some("block_first") => CongestionControl::BlockFirst,
            Some(other) => {
                let problem = format!("congestion {other:?} is not drop, block or block_first");
                return Err(self.bad(row, problem));
            }
        };
        let express = self
            .express
            .and_then(|column| {
                let a = self.batch.column(column).as_any().downcast_ref::<BooleanArray>()?;
                (!a.is_null(row)).then(|| a.value(row))
            })
            .unwrap_or(self.defaults.express());
        Ok(Qos::new(priority, congestion, express))
    }

    /// Makes a publication of a row, in the place of the one before.
    fn fill(
        &mut self,
        row: usize,
        key: &mut Option<KeyExpr>,
        qos: &mut Qos,
        body: &mut PushBody,
    ) -> Result<(), BadRow> {
        self.key(row, key)?;
        *qos = self.qos(row)?;
        let attachment = self.attachment.as_ref().and_then(|a| a.get(row));
        match self.text(self.kind, row) {
            None | Some("put") => {
                let payload = self.payload.as_ref().and_then(|p| p.get(row)).unwrap_or_default();
                let encoding = self.encoding(row);
                match body {
                    PushBody::Put(put) => {
                        put.payload = payload;
                        put.encoding = encoding;
                        put.attachment = attachment;
                        // A router stamps what passes.
                        put.timestamp = None;
                    }
                    PushBody::Del(_) => {
                        *body = PushBody::Put(Put { encoding, attachment, ..Put::new(payload) });
                    }
                }
            }
            Some("del" | "delete") => *body = PushBody::Del(Del { attachment, ..Del::default() }),
            Some(other) => {
                return Err(self.bad(row, format!("kind {other:?} is not put or del")));
            }
        }
        Ok(())
    }
}

/// What [`put_batch`] has done.
#[pyclass(module = "zwire", frozen, get_all)]
pub(crate) struct PutSummary {
    /// Rows handed over.
    rows: usize,
    /// Bytes of their payloads.
    bytes: usize,
    /// Rows that neither a link nor a subscriber of this session took.
    unmatched: usize,
    /// The first of them.
    first_unmatched: Option<usize>,
}

#[pymethods]
impl PutSummary {
    fn __repr__(&self) -> String {
        format!("PutSummary(rows={}, bytes={}, unmatched={})", self.rows, self.bytes, self.unmatched)
    }
}

/// Publishes every row of a record batch.
///
/// Columns by name: `key` (string; not needed when `key_expr` is given), `payload` (binary or
/// string), and optionally `encoding`, `attachment`, `kind` (`put` or `del`), `priority` (1 to 7),
/// `congestion` (`drop`, `block`, `block_first`), `express`. Others are an error. Waits as long as
/// congestion control says; the default here is `block`, since a batch fills queues at once.
/// Raises `RowError`, which names row, key and reason, at the first bad row; the rows before it are
/// published. `Session.put_batch` is the same.
#[pyfunction]
#[pyo3(signature = (session, batch, *, key_expr=None, congestion_control=None, priority=None, express=None))]
pub(crate) fn put_batch(
    py: Python<'_>,
    session: &Session,
    batch: &Bound<'_, PyAny>,
    key_expr: Option<&Bound<'_, PyAny>>,
    congestion_control: Option<crate::enums::PyCongestionControl>,
    priority: Option<crate::enums::PyPriority>,
    express: Option<bool>,
) -> PyResult<PutSummary> {
    let batch = import(batch)?;
    let fixed_key = key_expr.map(crate::keyexpr::extract).transpose()?;
    let default = Qos::new(Priority::Data, CongestionControl::Block, false);
    let defaults = crate::session::qos(default, congestion_control, priority, express);
    let rows = rows(batch, fixed_key, defaults)?;
    publish(py, &session.0, rows)
}

fn rows(batch: RecordBatch, fixed_key: Option<KeyExpr>, defaults: Qos) -> PyResult<Rows> {
    const KNOWN: [&str; 9] = [
        "key",
        "payload",
        "kind",
        "encoding",
        "timestamp",
        "attachment",
        "priority",
        "congestion",
        "express",
    ];
    let schema = batch.schema();
    for field in schema.fields() {
        if !KNOWN.contains(&field.name().as_str()) {
            return Err(PyValueError::new_err(format!(
                "column {:?} is not one of {}",
                field.name(),
                KNOWN.join(", ")
            )));
        }
    }
    let find = |name: &str| schema.index_of(name).ok();
    let bytes = |name: &str| -> PyResult<Option<Binaries>> {
        let Some(index) = find(name) else { return Ok(None) };
        let column = batch.column(index);
        Binaries::new(column).map(Some).ok_or_else(|| wrong_type(name, column.data_type(), "binary"))
    };
    let (payload, attachment) = (bytes("payload")?, bytes("attachment")?);
    let rows = Rows {
        key: find("key").unwrap_or(usize::MAX),
        payload,
        attachment,
        encoding: find("encoding"),
        kind: find("kind"),
        priority: find("priority"),
        congestion: find("congestion"),
        express: find("express"),
        fixed_key,
        defaults,
        last_encoding: (String::new(), Encoding::DEFAULT),
        batch,
    };
    if rows.fixed_key.is_none() && rows.key == usize::MAX {
        return Err(PyValueError::new_err("the batch has no column \"key\", and no key_expr was given"));
    }
    let key = rows.fixed_key.is_none().then_some(rows.key);
    for (name, column) in
        [("key", key), ("encoding", rows.encoding), ("kind", rows.kind), ("congestion", rows.congestion)]
    {
        if let Some(column) = column
            && !matches!(rows.batch.column(column).data_type(), DataType::Utf8 | DataType::LargeUtf8)
        {
            return Err(wrong_type(name, rows.batch.column(column).data_type(), "string"));
        }
    }
    Ok(rows)
}

fn wrong_type(name: &str, got: &DataType, wanted: &str) -> PyErr {
    PyTypeError::new_err(format!("column {name:?} must be {wanted}, not {got}"))
}

fn publish(py: Python<'_>, session: &Handle, mut rows: Rows) -> PyResult<PutSummary> {
    let count = rows.batch.num_rows();
    let (mut done, mut bytes, mut unmatched, mut first_unmatched) = (0, 0, 0, None);
    let mut bad = None;
    let result = session.run(py, |engine, interrupted| {
        let mut left = 0..count;
        let fill = |key: &mut Option<KeyExpr>, qos: &mut Qos, body: &mut PushBody| {
            let Some(row) = left.next() else { return *key = None };
            match rows.fill(row, key, qos, body) {
                Ok(()) => {
                    if let PushBody::Put(put) = body {
                        bytes += put.payload.len();
                    }
                }
                Err(problem) => {
                    bad = Some(problem);
                    // Nothing behind a bad row is published, however often the engine asks.
                    left = 0..0;
                    *key = None;
                }
            }
        };
        let each = |published: Published| {
            if !published.sent && published.local == 0 {
                unmatched += 1;
                first_unmatched = first_unmatched.or(Some(done));
            }
            done += 1;
        };
        engine.put_many(fill, each, interrupted)
    });
    result?;
    match bad {
        None => Ok(PutSummary { rows: done, bytes, unmatched, first_unmatched }),
        Some(BadRow { row, key, problem }) => Err(errors::row(py, row, key.as_deref(), &problem)),
    }
}
