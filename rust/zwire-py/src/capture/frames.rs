//! Decoding of bare Zenoh bytes to rows: `zwire.capture.decode_frames`.
//!
//! Frames are taken from a Python iterator some at a time, and decoded without the interpreter's lock.

use crate::{
    arrow::ArrowBatch,
    capture::{
        columns::{Columns, End},
        decoder::{STREAM_NAME, check_bounds},
    },
    errors,
    zenoh::zbytes,
};
use arrow_array::{RecordBatch, RecordBatchReader, ffi_stream::FFI_ArrowArrayStream};
use arrow_schema::{ArrowError, SchemaRef};
use core::{
    net::{Ipv6Addr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyIterator, PyTuple},
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};
use zwire_dissect::{Frame, FrameDissector, Framing, Record};

/// Most frames that are taken from Python at once.
const FRAMES_AT_ONCE: usize = 1024;

/// Approximate number of bytes of frames that are taken from Python at once.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Number of names from which on those without a session are forgotten.
const MANY_NAMES: usize = 1 << 16;

/// Placeholder for an end without a name.
const NOBODY: SocketAddr = SocketAddr::new(core::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// Names of the ends of sessions, and the addresses that stand for them internally.
struct Names {
    addresses: HashMap<Arc<str>, SocketAddr>,
    names: HashMap<SocketAddr, Arc<str>>,
    /// Number of names that are not addresses, so far.
    count: u64,
    /// Number of names at which unused ones are next looked for.
    many: usize,
}

impl Names {
    fn new() -> Self {
        Self { addresses: HashMap::new(), names: HashMap::new(), count: 0, many: MANY_NAMES }
    }

    fn address(&mut self, name: &str) -> SocketAddr {
        if let Some(address) = self.addresses.get(name) {
            return *address;
        }
        let address = name.parse().unwrap_or_else(|_| {
            self.count += 1;
            // The discard prefix (RFC 6666), from which no host has an address.
            let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (self.count >> shift) as u16);
            SocketAddr::from((Ipv6Addr::new(0x100, 0, 0, 0, a, b, c, d), 0))
        });
        let name: Arc<str> = name.into();
        self.names.insert(address, name.clone());
        self.addresses.insert(name, address);
        address
    }

    fn end(&self, address: Option<SocketAddr>) -> Option<End> {
        let address = address.filter(|address| *address != NOBODY)?;
        Some(self.names.get(&address).map_or(End::Address(address), |name| End::Name(name.clone())))
    }

    /// Forgets names that are not needed, if there are many.
    fn clean(&mut self, needed: impl Iterator<Item = SocketAddr>) {
        if self.addresses.len() < self.many {
            return;
        }
        let needed: HashSet<_> = needed.collect();
        self.addresses.retain(|_, address| needed.contains(address));
        self.names.retain(|address, _| needed.contains(address));
        self.many = MANY_NAMES.max(2 * self.addresses.len());
    }
}

struct State {
    dissector: FrameDissector,
    columns: Columns,
    names: Names,
    /// Finished batches.
    ready: VecDeque<RecordBatch>,
    ended: bool,
}

impl State {
    /// Decodes the frames taken so far. Returns a full batch, or the last one at the end.
    fn batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while self.ready.is_empty() {
            let Self { dissector, columns, names, ready, .. } = self;
            let records = dissector.poll_records();
            if records.is_empty() {
                if self.ended && !self.columns.is_empty() {
                    return self.columns.finish().map(Some);
                }
                return Ok(None);
            }
            for record in records {
                append(columns, names, record, ready)?;
            }
        }
        Ok(self.ready.pop_front())
    }
}

fn append(
    columns: &mut Columns,
    names: &Names,
    record: &Record,
    ready: &mut VecDeque<RecordBatch>,
) -> Result<(), ArrowError> {
    let (src, dst) = (names.end(record.src), names.end(record.dst));
    if !columns.append_between(record, src.clone(), dst.clone()) {
        ready.push_back(columns.finish()?);
        columns.append_between(record, src, dst);
    }
    Ok(())
}

struct Inner {
    frames: Py<PyIterator>,
    state: Mutex<State>,
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
            let batch = py.detach(|| self.state.lock().batch());
            let batch = batch.map_err(|error| errors::invalid(py, error.to_string()))?;
            if batch.is_some() || self.state.lock().ended {
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
                let mut state = self.state.lock();
                state.ended = true;
                state.dissector.finish();
                return Ok(());
            };
            let frame = frame.and_then(|frame| RawFrame::of(&frame))?;
            count += 1;
            bytes += frame.data.len();
            let mut state = self.state.lock();
            let State { dissector, names, .. } = &mut *state;
            let [src, dst] = [&frame.src, &frame.dst]
                .map(|name| name.as_deref().map_or(NOBODY, |name| names.address(name)));
            dissector.push(Frame { time: frame.time, src, dst, data: frame.data });
        }
        let mut state = self.state.lock();
        let State { dissector, names, .. } = &mut *state;
        names.clean(dissector.ends());
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
        check_bounds(py, max_rows, max_bytes)?;
        let state = State {
            dissector: FrameDissector::new(if stream { Framing::Stream } else { Framing::Batch }),
            columns: Columns::new(max_rows, max_bytes),
            names: Names::new(),
            ready: VecDeque::new(),
            ended: false,
        };
        let frames = frames.try_iter()?.unbind();
        Ok(Self { inner: Arc::new(Inner { frames, state: Mutex::new(state), busy: AtomicBool::new(false) }) })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        Ok(self.inner.next(py)?.map(ArrowBatch::new))
    }

    /// The Arrow C interface: a capsule with the stream of all remaining batches.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol allows to ignore a requested schema.
        let _ = requested_schema;
        let stream = FFI_ArrowArrayStream::new(Box::new(Batches(self.inner.clone())));
        PyCapsule::new_with_value(py, stream, STREAM_NAME)
    }

    /// The Arrow C interface: a capsule with the schema.
    #[staticmethod]
    fn schema(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
        crate::arrow::schema_capsule(py, &Columns::schema())
    }

    /// The Arrow C interface: a capsule with the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Self::schema(py)
    }
}

/// Remaining batches of a decoder, for readers in other languages.
struct Batches(Arc<Inner>);

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Python::attach(|py| {
            let batch = self.0.next(py);
            batch.map_err(|error| ArrowError::ExternalError(error.to_string().into())).transpose()
        })
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Columns::schema()
    }
}
