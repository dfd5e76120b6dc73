//! Ranges of a spool over a network: the server, and the receiver that makes rows of the answers.

use crate::{arrow::ArrowBatch, columns::check_name, errors, spool::shard, zbytes::PyZBytes};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::path::PathBuf;
use zwire_spool::{
    BatchLimits, Cursor, Spool,
    wire::{Answer, Label, Receiver},
};

/// Most cached cursors; each has a file open, and the positions of its blocks.
const MAX_CURSORS: usize = 16;

/// Server that answers ranges with blocks.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolServer {
    spool: Spool,
    /// Positions of the last answers: the next request often continues there.
    cursors: Mutex<Vec<Cursor>>,
}

#[pymethods]
impl SpoolServer {
    #[new]
    fn new(py: Python<'_>, dir: PathBuf) -> PyResult<Self> {
        let spool = py.detach(|| Spool::open(&dir)).map_err(|error| errors::spool(py, &error))?;
        Ok(Self { spool, cursors: Mutex::default() })
    }

    /// Returns the blocks with the rows of a range, or the first of them with about `max_bytes`.
    fn answer(
        slf: &Bound<'_, Self>,
        shard: Option<u32>,
        start: u64,
        stop: u64,
        max_bytes: u64,
    ) -> PyResult<SpoolAnswer> {
        let (py, this) = (slf.py(), slf.get());
        let answer = py.detach(|| {
            let shard = self::shard(shard);
            let mut cursors = this.cursors.lock();
            let known = cursors.iter().position(|cursor| cursor.shard() == shard);
            let known = known.map(|at| cursors.swap_remove(at));
            drop(cursors);
            let cursor = known.map_or_else(|| this.spool.cursor(shard), Ok)?;
            cursor.answer(start, stop, max_bytes)
        });
        let answer = answer.map_err(|error| errors::spool(py, &error))?;
        Ok(SpoolAnswer { server: slf.clone().unbind(), answer: Mutex::new(Some(answer)) })
    }

    /// Closes open segments; the blocks of a deleted file are not freed until then.
    fn rest(&self) {
        self.cursors.lock().clear();
    }
}

/// Blocks of an answer, each with its label.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolAnswer {
    server: Py<SpoolServer>,
    answer: Mutex<Option<Answer>>,
}

#[pymethods]
impl SpoolAnswer {
    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(PyZBytes, PyZBytes)>> {
        let server = self.server.get();
        let next = py.detach(|| {
            let mut place = self.answer.lock();
            let Some(answer) = place.as_mut() else { return Ok(None) };
            let next = answer.next_block();
            if !matches!(next, Ok(Some(_)))
                && let Some(answer) = place.take()
            {
                let mut cursors = server.cursors.lock();
                if cursors.len() < MAX_CURSORS {
                    cursors.push(answer.into_cursor());
                }
            }
            next
        });
        let next = next.map_err(|error| errors::spool(py, &error))?;
        Ok(next.map(|(label, block)| {
            (PyZBytes(Bytes::copy_from_slice(&label.encode())), PyZBytes(Bytes::from_owner(Shared(block))))
        }))
    }
}

/// A block sent from its read buffer.
struct Shared(Buffer);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Receiver that makes batches of answers.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolReceiver(Mutex<Receiver>);

#[pymethods]
impl SpoolReceiver {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "called in one place, with all of them")]
    fn new(
        py: Python<'_>,
        origin: &str,
        table: &str,
        kept: Vec<String>,
        shard: Option<u32>,
        range: (u64, u64),
        columns: Option<Vec<String>>,
        limits: (usize, usize),
    ) -> PyResult<Self> {
        let limits = BatchLimits { rows: limits.0, bytes: limits.1 };
        let names: Option<Vec<&str>> =
            columns.as_ref().map(|names| names.iter().map(String::as_str).collect());
        let shard = self::shard(shard);
        for name in columns.iter().flatten() {
            check_name(py, zwire_spool::wire::rows(table, shard), name)?;
        }
        let receiver = Receiver::new(origin, (table, &kept), shard, range, names.as_deref(), limits);
        receiver.map(|receiver| Self(Mutex::new(receiver))).map_err(|error| errors::spool(py, &error))
    }

    /// Offset of the first row not received yet.
    #[getter]
    fn next(&self) -> u64 {
        self.0.lock().next()
    }

    /// End of the answer that a label belongs to; `None` if it is not a label.
    #[staticmethod]
    fn until(label: &PyZBytes) -> Option<u64> {
        Label::decode(&label.0).map(|label| label.until)
    }

    /// Takes a label and its block.
    fn take(&self, py: Python<'_>, label: &PyZBytes, block: &PyZBytes) {
        py.detach(|| self.0.lock().take(&label.0, block.0.clone()));
    }

    /// A completed batch; `None` if more blocks are needed first, or the range is complete.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let batch = py.detach(|| self.0.lock().next_batch());
        batch.map(|batch| batch.map(ArrowBatch::new)).map_err(|error| errors::spool(py, &error))
    }

    /// Makes a batch of the rows received so far.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.lock().finish()).map_err(|error| errors::spool(py, &error))
    }
}

impl SpoolReceiver {
    /// Schema of the batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.0.lock().schema()
    }
}
