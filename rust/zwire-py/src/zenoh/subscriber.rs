//! `Subscriber`: samples of a key expression.

use crate::{
    errors,
    loops::{calling::Life, item::Item},
    zenoh::{
        declared::Declared,
        global_id::PyEntityGlobalId,
        handle::Handle,
        handlers::{Handler, HandlerArg},
        keyexpr::PyKeyExpr,
        receiver::{Source, channel},
    },
};
use pyo3::{prelude::*, types::PyDict};
use std::sync::Arc;
use zwire_engine::{Origins, Queue};
use zwire_proto::zenoh::{
    KeyExpr,
    session::{EntityId, Sample},
};

/// A declared subscriber. A context manager, and an iterator over its samples unless it has a
/// callback. It undeclares itself when it is dropped, unless it has a callback.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic)]
pub(crate) struct Subscriber {
    pub(crate) declared: Declared,
    key: KeyExpr,
    queue: Arc<Queue<Sample>>,
    handler: Py<PyAny>,
    life: Arc<Life>,
}

impl Subscriber {
    pub(crate) fn new(
        py: Python<'_>,
        session: Handle,
        id: EntityId,
        key: KeyExpr,
        queue: Arc<Queue<Sample>>,
        handler: HandlerArg,
    ) -> PyResult<Self> {
        let background = matches!(handler, HandlerArg::Callback { .. });
        let life = Life::of(&session.0.callbacks);
        let handler = handler.attach(py, &queue, Some(&session), &life)?;
        Ok(Self {
            declared: Declared::new(session, id, "subscriber").background(background),
            key,
            queue,
            handler,
            life,
        })
    }

    /// The end of a `with` block.
    pub(crate) fn exit(&self, py: Python<'_>) -> PyResult<()> {
        self.declared.exit(py)
    }

    /// Fails when it was undeclared.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.declared.check(py)
    }

    /// What it subscribes to, and where samples wait: for a thread of ours that takes them.
    pub(crate) fn source(&self) -> (KeyExpr, Arc<Queue<Sample>>) {
        (self.key.clone(), self.queue.clone())
    }

    /// Whose samples they are.
    pub(crate) fn origins(&self) -> Arc<Origins> {
        self.declared.session.0.engine.origins()
    }

    fn channel<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Handler>> {
        channel(py, &self.handler)
    }
}

#[pymethods]
impl Subscriber {
    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args, **_kwargs))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _args: &Bound<'_, PyAny>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.exit(py)
    }

    /// Its id.
    #[getter]
    pub(crate) fn id(&self) -> PyEntityGlobalId {
        self.declared.global_id()
    }

    /// What it subscribes to.
    #[getter]
    pub(crate) fn key_expr(&self) -> PyKeyExpr {
        PyKeyExpr(self.key.clone())
    }

    /// The channel, or what was given with the callback.
    #[getter]
    pub(crate) fn handler(&self, py: Python<'_>) -> Py<PyAny> {
        self.handler.clone_ref(py)
    }

    /// How many samples were dropped because the handler was full.
    #[getter]
    pub(crate) fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// How many samples gave their place to newer ones of their key, with a `LatestChannel`.
    #[getter]
    fn replaced(&self) -> u64 {
        self.queue.replaced()
    }

    /// How often its callback has raised.
    #[getter]
    fn errors(&self) -> u64 {
        self.life.errors()
    }

    /// Waits until all neighbours know of it: what they send from then on can arrive. With a timeout in
    /// seconds, `TimedOut` when it is over.
    #[pyo3(signature = (timeout=None))]
    pub(crate) fn wait_ready(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.declared.wait_ready(py, timeout)
    }

    /// Ends the subscription. A second time is an error.
    pub(crate) fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        self.declared.undeclare(py)
    }

    /// The next sample, or None if there is none right now.
    pub(crate) fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Source::of(py, &self.handler)?.try_recv(py)
    }

    /// The next sample, waited for. With a timeout in seconds, `TimedOut` when it is over.
    #[pyo3(signature = (timeout=None))]
    pub(crate) fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        Source::of(py, &self.handler)?.recv(py, timeout)
    }

    /// Up to `max_items` samples in one go; waits for the first one only, an empty list at the timeout.
    #[pyo3(signature = (max_items, timeout=None))]
    pub(crate) fn recv_many(
        &self,
        py: Python<'_>,
        max_items: usize,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Py<PyAny>>> {
        self.channel(py)?.get().recv_many(py, max_items, timeout)
    }

    /// Up to `max_rows` samples as an Arrow record batch, built without a Python object per sample.
    ///
    /// Columns: key, payload, kind, encoding, timestamp, attachment, priority, congestion, express.
    /// Waits for the first sample only; at the timeout the batch is empty. A batch holds about 8 MiB at
    /// most, and a sample of 256 KiB or more alone, without a copy. The result offers the
    /// Arrow C interface, which `pyarrow.record_batch(...)` and polars read without a copy.
    #[pyo3(signature = (max_rows=65536, timeout=None))]
    pub(crate) fn recv_batch(
        &self,
        py: Python<'_>,
        max_rows: usize,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let channel = self.channel(py)?;
        self.declared.session.0.engine.check().map_err(|e| errors::engine(py, &e)).or_else(|e| {
            // What has arrived before the end can still be taken.
            if self.queue.is_empty() { Err(e) } else { Ok(()) }
        })?;
        let failed = |error| channel.get().error(py, error, timeout);
        crate::arrow::recv_batch(py, &self.queue, max_rows, timeout, failed)
    }

    pub(crate) fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Source::of(py, &self.handler)?.iter()
    }
}

impl Item for Sample {
    #[inline]
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, crate::zenoh::sample::PySample::arrived(py, self)?)?.into_any())
    }
}
