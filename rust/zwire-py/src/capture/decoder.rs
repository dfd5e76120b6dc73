//! Decoding of captures to rows or lines: `zwire.capture` and `zwire decode`.
//!
//! Files are read and decoded here, without the interpreter's lock; Python gets finished record batches
//! and finished text.

use crate::{
    arrow::ArrowBatch,
    capture::{columns::Columns, source::Input},
    errors,
    loops::interrupt::Interrupt,
    zenoh::zbytes,
};
use arrow_array::{RecordBatch, RecordBatchReader, ffi_stream::FFI_ArrowArrayStream};
use arrow_schema::{ArrowError, SchemaRef};
use core::ffi::CStr;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyCapsule, PyString},
};
use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use zwire_dissect::{Dissector, Options, Record, write_jsonl, write_text};
use zwire_proto::{DecodeError, zmtp::crypto::SecretKey};

pub(crate) const STREAM_NAME: &CStr = c"arrow_array_stream";

/// Approximate size of a piece of text: one write to a file or a pipe.
const TEXT_AT_ONCE: usize = 1 << 20;

/// Source of a capture, and its name in errors.
enum Source {
    File(PathBuf),
    Memory(bytes::Bytes),
}

/// Failure while a capture is read.
enum Failure {
    Io { error: io::Error, path: Option<PathBuf> },
    Capture { error: DecodeError, path: Option<PathBuf> },
    Arrow(String),
    Interrupted,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advance {
    /// Records were passed to the callback.
    Seen,
    /// The next read may block.
    WouldWait,
    End,
}

struct State {
    options: Options,
    sources: VecDeque<Source>,
    current: Option<Current>,
    columns: Columns,
    /// Further batches that one call has finished.
    ready: VecDeque<RecordBatch>,
    position: Arc<AtomicU64>,
}

struct Current {
    input: Input,
    path: Option<PathBuf>,
    dissector: Dissector,
}

impl State {
    /// Passes the next records, of one batch of one session, to `see`. A failing source is dropped, and
    /// the next call continues with the following one. Unless `patient`, a pipe is not waited for.
    fn advance(
        &mut self,
        patient: bool,
        mut see: impl FnMut(&mut Columns, &Record),
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Advance, Failure> {
        loop {
            if self.current.is_none() {
                let Some(source) = self.sources.pop_front() else { return Ok(Advance::End) };
                self.current = Some(Current::open(source, &self.options, &self.position)?);
            }
            let Some(mut current) = self.current.take() else { continue };
            match current.dissector.poll_records() {
                Err(error) => return Err(Failure::Capture { error, path: current.path }),
                Ok([]) if current.input.is_at_end() => continue,
                Ok([]) if !patient && current.input.is_live() => {
                    self.current = Some(current);
                    return Ok(Advance::WouldWait);
                }
                Ok([]) => {}
                Ok(records) => {
                    for record in records {
                        see(&mut self.columns, record);
                    }
                    self.current = Some(current);
                    return Ok(Advance::Seen);
                }
            }
            match current.input.read() {
                // A signal; handled by the check below.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Io { error, path: current.path }),
                Ok(Some(chunk)) => current.dissector.push(chunk),
                Ok(None) => current.dissector.finish(),
            }
            self.current = Some(current);
            if stop() {
                return Err(Failure::Interrupted);
            }
        }
    }

    /// The next batch, full unless it is the last.
    fn batch(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<RecordBatch>, Failure> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            let mut full = Vec::new();
            let advance = self.advance(
                true,
                |columns, record| {
                    if !columns.append(record) {
                        full.push(columns.finish());
                        columns.append(record);
                    }
                },
                stop,
            )?;
            for batch in full {
                self.ready.push_back(batch.map_err(|error| Failure::Arrow(error.to_string()))?);
            }
            if advance == Advance::End {
                let last = (!self.columns.is_empty()).then(|| self.columns.finish()).transpose();
                let last = last.map_err(|error| Failure::Arrow(error.to_string()))?;
                self.ready.extend(last);
                return Ok(self.ready.pop_front());
            }
        }
    }

    fn text(
        &mut self,
        write: fn(&Record, &mut Vec<u8>),
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::with_capacity(TEXT_AT_ONCE + TEXT_AT_ONCE / 8);
        while out.len() < TEXT_AT_ONCE {
            // Text that exists is returned at once, and does not wait for a pipe.
            let patient = out.is_empty();
            match self.advance(patient, |_, record| write(record, &mut out), stop)? {
                Advance::Seen => {}
                Advance::WouldWait | Advance::End => break,
            }
        }
        Ok(out)
    }
}

impl Current {
    fn open(source: Source, options: &Options, position: &Arc<AtomicU64>) -> Result<Self, Failure> {
        let (input, path) = match source {
            Source::File(path) => match Input::file(&path, position.clone()) {
                Ok(input) => (input, Some(path)),
                Err(error) => return Err(Failure::Io { error, path: Some(path) }),
            },
            Source::Memory(bytes) => (Input::memory(bytes, position.clone()), None),
        };
        Ok(Self { input, path, dissector: Dissector::new(options.clone()) })
    }
}

impl Failure {
    fn raise(self, py: Python<'_>, interrupt: Interrupt) -> PyErr {
        match self {
            Self::Io { error, path } => errors::file(error, path.as_deref()),
            Self::Capture { error, path } => errors::capture(py, &error, path.as_deref()),
            Self::Arrow(message) => errors::invalid(py, message),
            Self::Interrupted => match interrupt.raise() {
                Err(error) => error,
                Ok(()) => errors::usage(py, "decoding was interrupted"),
            },
        }
    }
}

/// Reads captures (pcap, pcapng, each also in gzip) and decodes the Zenoh, ZMTP and ZRE traffic in them.
///
/// Captures are read one after the other, in bounded memory. Take record batches (by iteration, or all at
/// once by the Arrow C stream interface) or text, not both: each record is returned once.
///
/// Args:
///     sources: Paths, or buffers that hold a file each.
///     ports: TCP and UDP ports on which all traffic is decoded as Zenoh.
///     keys: Secret keys for decrypting CURVE traffic, 32 bytes each.
///     max_rows: Most rows of a record batch.
///     max_bytes: Most bytes of payloads in a record batch, except for a single larger payload.
#[pyclass(module = "zwire", frozen)]
pub(crate) struct Decoder {
    state: Arc<Mutex<State>>,
    position: Arc<AtomicU64>,
    /// Size of the sources in bytes; None if one of them is a pipe.
    #[pyo3(get)]
    size: Option<u64>,
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (sources, *, ports=Vec::new(), keys=Vec::new(), max_rows=32_768, max_bytes=8 << 20))]
    fn new(
        py: Python<'_>,
        sources: Vec<Bound<'_, PyAny>>,
        ports: Vec<u16>,
        keys: Vec<[u8; 32]>,
        max_rows: usize,
        max_bytes: usize,
    ) -> PyResult<Self> {
        check_bounds(py, max_rows, max_bytes)?;
        if keys.len() > MAX_KEYS {
            return Err(errors::invalid(
                py,
                format!("{} keys are given, at most {MAX_KEYS} are tried", keys.len()),
            ));
        }
        let sources: VecDeque<_> = sources.iter().map(source).collect::<PyResult<_>>()?;
        let size = py.detach(|| sources.iter().map(Source::size).sum());
        let position = Arc::new(AtomicU64::new(0));
        let state = State {
            options: Options { ports, keys: keys.into_iter().map(SecretKey::new).collect() },
            sources,
            current: None,
            columns: Columns::new(max_rows, max_bytes),
            ready: VecDeque::new(),
            position: position.clone(),
        };
        Ok(Self { state: Arc::new(Mutex::new(state)), position, size })
    }

    /// Bytes of the sources read so far; for compressed sources, compressed bytes.
    #[getter]
    fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        self.run(py, |state, stop| state.batch(stop)).map(|batch| batch.map(ArrowBatch::new))
    }

    /// The next piece of about a megabyte of JSON Lines; empty at the end.
    fn jsonl<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let text = self.run(py, |state, stop| state.text(write_jsonl, stop))?;
        Ok(PyBytes::new(py, &text))
    }

    /// The next piece of about a megabyte of human-readable lines; empty at the end.
    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let text = self.run(py, |state, stop| state.text(write_text, stop))?;
        Ok(PyBytes::new(py, &text))
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
        let stream = FFI_ArrowArrayStream::new(Box::new(Batches(self.state.clone())));
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

/// Most keys: each handshake is tried with each of them, which costs some 50 µs.
const MAX_KEYS: usize = 1024;
/// Most rows of a batch: larger ones bring no benefit, and it stays far below the limit of the offsets.
const MAX_ROWS: usize = 1 << 24;
/// Most bytes of a batch: with a payload of the largest size added, offsets still fit into 31 bits.
const MAX_BYTES: usize = 1 << 30;

pub(crate) fn check_bounds(py: Python<'_>, max_rows: usize, max_bytes: usize) -> PyResult<()> {
    if max_rows == 0 || max_rows > MAX_ROWS || max_bytes > MAX_BYTES {
        return Err(errors::invalid(
            py,
            format!("max_rows is 1 to {MAX_ROWS}, max_bytes at most {MAX_BYTES}"),
        ));
    }
    Ok(())
}

impl Decoder {
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut State, &mut dyn FnMut() -> bool) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let mut interrupt = Interrupt::default();
        let result = py.detach(|| work(&mut self.state.lock(), &mut || interrupt.check()));
        result.map_err(|failure| failure.raise(py, interrupt))
    }
}

impl Source {
    /// Size in bytes, if it is known.
    fn size(&self) -> Option<u64> {
        match self {
            Self::File(path) => {
                path.metadata().ok().filter(std::fs::Metadata::is_file).map(|file| file.len())
            }
            Self::Memory(bytes) => Some(bytes.len() as u64),
        }
    }
}

fn source(obj: &Bound<'_, PyAny>) -> PyResult<Source> {
    if obj.is_instance_of::<PyString>() || obj.hasattr("__fspath__")? {
        return Ok(Source::File(obj.extract()?));
    }
    match zbytes::of_buffer(obj)? {
        Some(bytes) => Ok(Source::Memory(bytes)),
        None => Err(errors::wrong_type("a path or the bytes of a capture", obj)),
    }
}

/// Remaining batches of a decoder, for readers in other languages. Signals are not checked here.
struct Batches(Arc<Mutex<State>>);

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0.lock().batch(&mut || false) {
            Ok(batch) => batch.map(Ok),
            Err(failure) => Some(Err(ArrowError::ExternalError(failure.to_string().into()))),
        }
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Columns::schema()
    }
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (path, problem): (_, &dyn core::fmt::Display) = match self {
            Self::Io { error, path } => (path, error),
            Self::Capture { error, path } => (path, error),
            Self::Arrow(message) => (&None, message),
            Self::Interrupted => (&None, &"interrupted"),
        };
        match path {
            Some(path) => write!(f, "{}: {problem}", path.display()),
            None => problem.fmt(f),
        }
    }
}
