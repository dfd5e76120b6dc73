//! Decoding of captures to rows or lines: `zwire.capture` and `zwire decode`.
//!
//! Files are read and decoded without the interpreter's lock; Python gets finished record batches and finished text.

use crate::{errors, loops::interrupt::Interrupt, zenoh::zbytes};
use arrow_array::RecordBatch;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyString},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use zwire_columns::{
    ArrowError,
    capture::{self, CaptureError, Captures, Limits, Source},
};
use zwire_dissect::{Options, write_jsonl, write_text};
use zwire_proto::zmtp::crypto::SecretKey;

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
    captures: Arc<Mutex<Captures>>,
    position: Arc<AtomicU64>,
    /// Size of the sources in bytes; None if one of them is a pipe.
    #[pyo3(get)]
    size: Option<u64>,
}

attributes! { Decoder, |this|
    /// Bytes of the sources read so far; for compressed sources, compressed bytes.
    position: u64 = this.position.load(Ordering::Relaxed);
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
        let limits = Limits::new(max_rows, max_bytes).map_err(|problem| errors::invalid(py, problem))?;
        if keys.len() > MAX_KEYS {
            return Err(errors::invalid(
                py,
                format!("{} keys are given, at most {MAX_KEYS} are tried", keys.len()),
            ));
        }
        let sources: VecDeque<_> = sources.iter().map(source).collect::<PyResult<_>>()?;
        let size = py.detach(|| sources.iter().map(Source::size).sum());
        let position = Arc::new(AtomicU64::new(0));
        let options = Options { ports, keys: keys.into_iter().map(SecretKey::new).collect() };
        let captures = Captures::new(sources, options, limits, position.clone());
        Ok(Self { captures: Arc::new(Mutex::new(captures)), position, size })
    }

    /// The next piece of about a megabyte of JSON Lines; empty at the end.
    fn jsonl<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let text = self.run(py, |captures, stop| captures.text(write_jsonl, stop))?;
        Ok(PyBytes::new(py, &text))
    }

    /// The next piece of about a megabyte of human-readable lines; empty at the end.
    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let text = self.run(py, |captures, stop| captures.text(write_text, stop))?;
        Ok(PyBytes::new(py, &text))
    }
}

/// Most keys: each handshake is tried with each of them, which costs some 50 µs.
const MAX_KEYS: usize = 1024;

represented! { Decoder, |slf| {
    let size = slf.get().size.map_or_else(|| "unknown many".to_owned(), |size| size.to_string());
    format!("{} of {size} bytes read", slf.get().position.load(Ordering::Relaxed))
} }

record_batches! { Decoder, capture::schema() }

impl Decoder {
    fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        self.run(py, Captures::batch)
    }

    fn stream(&self) -> impl FnMut() -> Option<Result<RecordBatch, ArrowError>> + Send + use<> {
        let captures = self.captures.clone();
        // Signals are not checked here: the reader may be written in another language.
        move || {
            let batch = captures.lock().batch(&mut || false).transpose()?;
            Some(batch.map_err(|error| ArrowError::ExternalError(error.to_string().into())))
        }
    }

    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Captures, &mut dyn FnMut() -> bool) -> Result<T, CaptureError> + Send,
    ) -> PyResult<T> {
        let mut interrupt = Interrupt::default();
        let result = py.detach(|| work(&mut self.captures.lock(), &mut || interrupt.check()));
        result.map_err(|failure| raise(py, failure, interrupt))
    }
}

fn raise(py: Python<'_>, error: CaptureError, interrupt: Interrupt) -> PyErr {
    match error {
        CaptureError::Io { error, path } => errors::file(error, path.as_deref()),
        CaptureError::Capture { error, path } => errors::capture(py, &error, path.as_deref()),
        CaptureError::Arrow(error) => errors::invalid(py, error.to_string()),
        CaptureError::Interrupted => match interrupt.raise() {
            Err(error) => error,
            Ok(()) => errors::usage(py, "decoding was interrupted"),
        },
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
