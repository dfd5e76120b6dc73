//! Ranges of a spool over a network: the server, and the receiver that makes rows of the answers.

use crate::{
    arrow::ArrowBatch,
    columns::checked_names,
    errors::OrRaise,
    spool::view::{Wanted, selection, shard},
    zenoh::zbytes::PyZBytes,
};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::{path::PathBuf, sync::Arc};
use zwire_recorder::{RangeAnswer, RangeServer};
use zwire_spool::{
    BatchLimits,
    wire::{Label, Receiver},
};

/// Server that answers ranges with blocks.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolServer(Arc<RangeServer>);

#[pymethods]
impl SpoolServer {
    /// Closes open segments; the blocks of a deleted file are not freed until then.
    fn rest(&self) {
        self.0.rest();
    }

    #[new]
    fn new(py: Python<'_>, dir: PathBuf) -> PyResult<Self> {
        py.detach(|| RangeServer::open(&dir)).map(Self).or_raise(py)
    }

    /// Returns the blocks with the rows of a range, or the first of them with about `max_bytes`.
    #[pyo3(signature = (shard, start, stop, max_bytes, wanted=None))]
    fn answer(
        &self,
        py: Python<'_>,
        shard: Option<u32>,
        start: u64,
        stop: u64,
        max_bytes: u64,
        wanted: Option<Wanted>,
    ) -> PyResult<SpoolAnswer> {
        let selection = selection(py, wanted)?;
        let answer = py.detach(|| self.0.answer(self::shard(shard), start, stop, max_bytes, selection));
        answer.map(SpoolAnswer).or_raise(py)
    }
}

/// Blocks of an answer, each with its label.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolAnswer(RangeAnswer);

#[pymethods]
impl SpoolAnswer {
    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(PyZBytes, PyZBytes)>> {
        let next = py.detach(|| self.0.next_block()).or_raise(py)?;
        Ok(next.map(|(label, block)| {
            (Bytes::copy_from_slice(&label.encode()).into(), Bytes::from_owner(Shared(block)).into())
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

attributes! { SpoolReceiver, |this|
    /// Offset of the first row not received yet.
    next: u64 = this.0.lock().next();
}

#[pymethods]
impl SpoolReceiver {
    /// Makes a batch of the rows received so far.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.lock().finish()).or_raise(py)
    }

    #[new]
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
        let shard = self::shard(shard);
        let names = checked_names(py, zwire_spool::wire::rows(table, shard), columns.as_deref())?;
        let receiver = Receiver::new(origin, (table, &kept), shard, range, names.as_deref(), limits);
        receiver.map(|receiver| Self(Mutex::new(receiver))).or_raise(py)
    }

    /// Leaves out rows that are not wanted.
    fn select(&self, py: Python<'_>, wanted: Wanted) -> PyResult<()> {
        let selected = |selection| py.detach(|| self.0.lock().select(selection)).or_raise(py);
        selection(py, Some(wanted))?.map_or(Ok(()), selected)
    }

    /// End of the answer that a label belongs to; `None` if it is not a label.
    #[staticmethod]
    fn until(py: Python<'_>, label: &PyZBytes) -> PyResult<Option<u64>> {
        Ok(Label::decode(&label.kept(py)?).map(|label| label.until))
    }

    /// Takes a label and its block.
    fn take(&self, py: Python<'_>, label: &PyZBytes, block: &PyZBytes) -> PyResult<()> {
        let (label, block) = (label.kept(py)?, block.kept(py)?.into_bytes());
        py.detach(|| self.0.lock().take(&label, block));
        Ok(())
    }

    /// A completed batch; `None` if more blocks are needed first, or the range is complete.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let batch = py.detach(|| self.0.lock().next_batch());
        batch.map(|batch| batch.map(ArrowBatch)).or_raise(py)
    }
}

impl SpoolReceiver {
    /// Schema of the batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.0.lock().schema()
    }
}
