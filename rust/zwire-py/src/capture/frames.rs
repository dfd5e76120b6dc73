//! Decoding of bare Zenoh bytes to rows: `zwire.capture.decode_frames`.
//!
//! Frames are taken from a Python iterator some at a time, and decoded without the interpreter's lock.

use crate::{errors, zenoh::zbytes};
use arrow_array::RecordBatch;
use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyIterator, PyTuple},
};
use std::sync::Arc;
use zwire_columns::{
    ArrowError,
    capture::{self, FrameRows, Limits},
};
use zwire_dissect::Framing;

/// Most frames that are taken from Python at once.
const FRAMES_AT_ONCE: usize = 1024;

/// Approximate number of bytes of frames that are taken from Python at once.
const BYTES_AT_ONCE: usize = 1 << 20;

struct Inner {
    frames: Py<PyIterator>,
    rows: Mutex<FrameRows>,
    /// Set while frames are taken: the iterator runs Python code, which may call this decoder again.
    busy: AtomicBool,
}

impl Inner {
    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(errors::usage(py, "a frame decoder can only be read by one reader at a time"));
        }
        let result = self.take(py);
        self.busy.store(false, Ordering::Release);
        result
    }

    fn take(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        loop {
            let (batch, ended) = py.detach(|| {
                let mut rows = self.rows.lock();
                (rows.batch(), rows.is_ended())
            });
            let batch = batch.map_err(|error| errors::invalid(py, error.to_string()))?;
            if batch.is_some() || ended {
                return Ok(batch);
            }
            self.pull(py)?;
            py.check_signals()?;
        }
    }

    /// Takes some frames from Python. Frames in front of an invalid one are kept.
    fn pull(&self, py: Python<'_>) -> PyResult<()> {
        let (mut count, mut bytes) = (0, 0);
        let mut frames = self.frames.bind(py).clone();
        while count < FRAMES_AT_ONCE && bytes < BYTES_AT_ONCE {
            let Some(frame) = frames.next() else {
                self.rows.lock().finish();
                return Ok(());
            };
            let RawFrame { data, src, dst, time } = RawFrame::of(&frame?)?;
            count += 1;
            bytes += data.len();
            self.rows.lock().push(data, src.as_deref(), dst.as_deref(), time);
        }
        Ok(())
    }
}

/// A frame as given by the caller.
struct RawFrame {
    data: bytes::Bytes,
    src: Option<String>,
    dst: Option<String>,
    time: Option<Duration>,
}

impl RawFrame {
    fn of(obj: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(fields) = obj.cast::<PyTuple>() else {
            return Ok(Self { data: data(obj)?, src: None, dst: None, time: None });
        };
        if fields.is_empty() || fields.len() > 4 {
            return Err(errors::invalid(
                obj.py(),
                format!("a frame is (data, src, dst, ts), not {} fields", fields.len()),
            ));
        }
        let field = |index: usize| fields.get_item(index).ok().filter(|field| !field.is_none());
        let name = |index: usize| {
            let name = |field: Bound<'_, PyAny>| {
                field.extract::<String>().map_err(|_| errors::wrong_type("a text or None", &field))
            };
            field(index).map(name).transpose()
        };
        Ok(Self {
            data: field(0).map_or_else(|| Ok(bytes::Bytes::new()), |field| data(&field))?,
            src: name(1)?,
            dst: name(2)?,
            time: field(3).map(|field| time(&field)).transpose()?,
        })
    }
}

fn data(obj: &Bound<'_, PyAny>) -> PyResult<bytes::Bytes> {
    zbytes::of_buffer(obj)?.ok_or_else(|| errors::wrong_type("bytes, or a tuple that begins with bytes", obj))
}

/// Converts seconds since the UNIX epoch, or a `datetime`.
fn time(obj: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let method = pyo3::intern!(obj.py(), "timestamp");
    let seconds = if obj.hasattr(method)? { obj.call_method0(method)? } else { obj.clone() };
    let seconds: f64 =
        seconds.extract().map_err(|_| errors::wrong_type("seconds, a datetime or None", obj))?;
    // Rows have microseconds, and a present-day float is not much more precise.
    let micros = (seconds * 1e6).round();
    if !(0.0..MAX_MICROS).contains(&micros) {
        return Err(errors::invalid(obj.py(), format!("{seconds} s is no time since 1970")));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(Duration::from_micros(micros as u64))
}

/// The year 9999, the end of the calendar of Python.
const MAX_MICROS: f64 = 253_402_300_800.0 * 1e6;

/// Decodes Zenoh bytes that are not in a capture.
///
/// Memory is bounded: of each session only the state needed to decode later frames is kept. Take record
/// batches by iteration, or all of them by the Arrow C stream interface.
///
/// Args:
///     frames: An iterable of buffers, or of tuples `(data, src, dst, ts)`.
///     stream: Whether frames are pieces of streams, with a length before each batch; else each is a batch.
///     max_rows: Most rows of a record batch.
///     max_bytes: Most bytes of payloads in a record batch, except for a single larger payload.
#[pyclass(module = "zwire", frozen)]
pub(crate) struct FrameDecoder {
    inner: Arc<Inner>,
}

represented! { FrameDecoder, |_slf| "of Zenoh bytes" }

#[pymethods]
impl FrameDecoder {
    #[new]
    #[pyo3(signature = (frames, *, stream=true, max_rows=32_768, max_bytes=8 << 20))]
    fn new(
        py: Python<'_>,
        frames: &Bound<'_, PyAny>,
        stream: bool,
        max_rows: usize,
        max_bytes: usize,
    ) -> PyResult<Self> {
        let limits = Limits::new(max_rows, max_bytes).map_err(|problem| errors::invalid(py, problem))?;
        let framing = if stream { Framing::Stream } else { Framing::Batch };
        let (rows, busy) = (Mutex::new(FrameRows::new(framing, limits)), AtomicBool::new(false));
        Ok(Self { inner: Arc::new(Inner { frames: frames.try_iter()?.unbind(), rows, busy }) })
    }
}

record_batches! { FrameDecoder, capture::schema() }

impl FrameDecoder {
    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        self.inner.next(py)
    }

    fn stream(&self) -> impl FnMut() -> Option<Result<RecordBatch, ArrowError>> + Send + use<> {
        let inner = self.inner.clone();
        move || {
            let batch = Python::attach(|py| inner.next(py));
            batch.map_err(|error| ArrowError::ExternalError(error.to_string().into())).transpose()
        }
    }
}
