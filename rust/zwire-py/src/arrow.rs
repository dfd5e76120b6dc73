//! Batches as Arrow record batches, handed over by the Arrow C interface.
//!
//! `zwire-columns` makes the columns. No Python object is made per row, and pyarrow is not needed: the reader of the
//! capsules (pyarrow, polars, nanoarrow) is chosen and imported by the program.

use crate::loops::interrupt::{seconds, waiting};
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchIterator, StructArray,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi},
    ffi_stream::FFI_ArrowArrayStream,
    make_array,
};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use core::ffi::CStr;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyCapsule, PyTuple},
};
use std::{collections::VecDeque, sync::Arc};
use zwire_engine::{Queue, RecvError, clock, queue::Weigh};

const SCHEMA_NAME: &CStr = c"arrow_schema";
const ARRAY_NAME: &CStr = c"arrow_array";
const STREAM_NAME: &CStr = c"arrow_array_stream";

/// A record batch, for readers of the Arrow C interface.
#[pyclass(module = "zwire", frozen)]
pub(crate) struct ArrowBatch(pub(crate) RecordBatch);

attributes! { ArrowBatch, |this|
    /// The names of the columns.
    column_names: Vec<String> = this.0.schema().fields().iter().map(|f| f.name().clone()).collect();
    /// The number of rows.
    num_rows: usize = this.0.num_rows();
}

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
        let array = PyCapsule::new_with_value(py, array, ARRAY_NAME)?;
        PyTuple::new(py, [self.__arrow_c_schema__(py)?, array])
    }

    /// The Arrow C interface: a capsule with the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0.schema())
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<ArrowBatch {} rows>", self.0.num_rows())
    }
}

/// A capsule with a schema.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA_NAME)
}

/// A capsule with a stream of batches.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    next: impl FnMut() -> Option<Result<RecordBatch, ArrowError>> + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    let batches = RecordBatchIterator::new(core::iter::from_fn(next), schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM_NAME)
}

/// Approximate size of a batch, except for a single larger sample. Columns of this size reuse memory of the
/// allocator; memory for a hundred large samples would come from the system page by page.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Size from which on a sample makes a batch of its own; its column refers to the receive buffer.
const ALONE_BYTES: usize = 256 << 10;

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
    let end = wait.and_then(|wait| clock::mono().checked_add(wait));
    let batch = waiting(py, |interrupted| {
        let items = loop {
            let left = end.map(|end| end.saturating_sub(clock::mono()));
            match queue.wait_readable(left, interrupted) {
                // None are left if all were taken back by their senders.
                Ok(()) => match queue.take_many(max_rows, MAX_BATCH_BYTES, ALONE_BYTES) {
                    items if items.is_empty() && max_rows > 0 => {}
                    items => break items,
                },
                Err(RecvError::Timeout) => break VecDeque::new(),
                Err(error) => return Err(error),
            }
        };
        let batch = to_batch(&items);
        queue.give_back(items);
        Ok(batch)
    });
    let batch = batch?.map_err(failed)?;
    Ok(ArrowBatch(batch.map_err(PyValueError::new_err)?))
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
