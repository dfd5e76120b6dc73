//! Batches as Arrow record batches, handed over by the Arrow C interface.
//!
//! Rows are copied once, from the receive buffer into the column. A large sample makes a batch of its own, and is
//! not copied. No Python object is made per row, and pyarrow is not needed: the reader of the capsules (pyarrow,
//! polars, nanoarrow) is chosen and imported by the program.

use crate::loops::{interrupt::Interrupt, timeout::seconds};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int8Array, LargeBinaryArray, LargeStringArray, RecordBatch,
    StringArray, StructArray, TimestampMicrosecondArray,
    builder::StringBuilder,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi},
    make_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema};
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
use zwire_proto::zenoh::{
    CongestionControl, Timestamp,
    session::{Sample, SampleKind},
};
use zwire_spool::columns::RECEIVED;

const SCHEMA_NAME: &CStr = c"arrow_schema";
const ARRAY_NAME: &CStr = c"arrow_array";

/// Columns of a batch of samples.
static SAMPLE_SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(RECEIVED.schema()));

/// A record batch, for readers of the Arrow C interface.
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
        // The protocol allows to ignore a requested schema.
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

/// Approximate size of a batch, except for a single larger sample. Columns of this size reuse memory of the
/// allocator; memory for a hundred large samples would come from the system page by page.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Size from which on a sample makes a batch of its own; its column refers to the receive buffer.
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

/// Takes up to `max_rows` items of a queue as a batch; waits for the first one only, and returns an empty batch at
/// the timeout. `failed` converts other errors of the queue.
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

/// Fields that are equal in all samples of a batch: their columns are filled with one value instead of collected.
/// Mostly these are all but the payload.
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

/// Column of the payloads.
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

/// A time as Spark and Arrow have it: microseconds since 1970.
pub(crate) fn micros(timestamp: Timestamp) -> Option<i64> {
    i64::try_from(timestamp.time.to_duration().as_micros()).ok()
}

/// Column of names; filled with the first name if `alike`.
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
        // Encodings repeat; an equal one is not formatted again.
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

/// Imports a record batch of an object with the Arrow C interface.
pub(crate) fn import(obj: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let data = import_data(obj)?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(PyTypeError::new_err("expected a record batch, that is a struct array"));
    }
    Ok(RecordBatch::from(StructArray::from(data)))
}

/// Imports an array of an object with the Arrow C interface.
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
    /// Wraps a column; `None` if its type is neither bytes nor text.
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

    /// The bytes of a row; `None` where it is null.
    pub(crate) fn get(&self, row: usize) -> Option<Bytes> {
        self.range(row).map(|range| self.values.slice(range))
    }

    /// As [`Self::get`], but borrowed.
    pub(crate) fn octets(&self, row: usize) -> Option<&[u8]> {
        self.range(row).map(|range| &self.values[range])
    }

    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "offsets of a valid array")]
    fn range(&self, row: usize) -> Option<core::ops::Range<usize>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(match &self.offsets {
            Offsets::Short(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Offsets::Long(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
        })
    }
}

/// Error for a column with the wrong type in a batch of the caller.
pub(crate) fn wrong_type(name: &str, got: &DataType, wanted: &str) -> PyErr {
    PyTypeError::new_err(format!("column {name:?} must be {wanted}, not {got}"))
}
