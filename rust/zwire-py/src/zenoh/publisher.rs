//! `Publisher` and the listeners to whether somebody matches.

use crate::{
    errors,
    loops::{calling::Life, item::Item},
    zenoh::{
        bodies::{del_body, put_body},
        declared::Declared,
        encoding, enums,
        global_id::PyEntityGlobalId,
        handle::Handle,
        handlers::HandlerArg,
        keyexpr::PyKeyExpr,
        receiver::Source,
        stamps,
    },
};
use pyo3::{prelude::*, types::PyDict};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use zwire_engine::Queue;
use zwire_proto::zenoh::{
    Encoding, KeyExpr,
    session::{EntityId, PublisherOptions},
    wire::PushBody,
};

/// Whether somebody is at the other end. True and false in a condition, too.
#[pyclass(module = "zwire.zenoh", frozen, eq, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MatchingStatus {
    /// Whether somebody is there.
    #[pyo3(get)]
    matching: bool,
}

#[pymethods]
impl MatchingStatus {
    const fn __bool__(&self) -> bool {
        self.matching
    }

    fn __repr__(&self) -> String {
        format!("MatchingStatus(matching={})", if self.matching { "True" } else { "False" })
    }
}

impl Item for bool {
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, MatchingStatus { matching: self })?.into_any())
    }
}

/// What publisher and querier have in common. A closed session has nobody at the other end.
pub(crate) fn matching_status(py: Python<'_>, session: &Handle, id: EntityId) -> PyResult<MatchingStatus> {
    if session.look(py)?.is_closed() {
        return Ok(MatchingStatus { matching: false });
    }
    session.run(py, move |engine, _| engine.matching(id)).map(|matching| MatchingStatus { matching })
}

/// A listener to changes of the matching status.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic)]
pub(crate) struct MatchingListener {
    session: Handle,
    id: EntityId,
    queue: Arc<Queue<bool>>,
    handler: Py<PyAny>,
    background: bool,
    live: AtomicBool,
}

impl MatchingListener {
    pub(crate) fn new(
        py: Python<'_>,
        session: &Handle,
        id: EntityId,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let handler = HandlerArg::parse(py, handler)?;
        let engine_handler = handler.engine();
        let queue = session.run(py, move |engine, _| engine.matching_listener(id, engine_handler))?;
        let background = matches!(handler, HandlerArg::Callback { .. });
        let life = Life::of(&session.0.callbacks);
        let handler = handler.attach(py, &queue, Some(session), &life)?;
        let live = AtomicBool::new(true);
        Ok(Self { session: session.clone(), id, queue, handler, background, live })
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.session.look(py)?;
        self.live.store(false, Ordering::Release);
        self.forget();
        Ok(())
    }

    fn forget(&self) {
        self.session.0.engine.forget_matching_listener(self.id, &self.queue);
    }
}

#[pymethods]
impl MatchingListener {
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
        self.end(py)
    }

    /// The channel, or what was given with the callback.
    #[getter]
    fn handler(&self, py: Python<'_>) -> Py<PyAny> {
        self.handler.clone_ref(py)
    }

    /// Ends the listener. A second time is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        if !self.live.load(Ordering::Acquire) {
            return Err(errors::usage(py, "the matching listener is undeclared"));
        }
        self.end(py)
    }

    /// The next change, or None if there is none right now.
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Source::of(py, &self.handler)?.try_recv(py)
    }

    /// The next change, waited for. With a timeout in seconds, `TimedOut` when it is over.
    #[pyo3(signature = (timeout=None))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        Source::of(py, &self.handler)?.recv(py, timeout)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Source::of(py, &self.handler)?.iter()
    }
}

impl Drop for MatchingListener {
    fn drop(&mut self) {
        if !self.background {
            self.forget();
        }
    }
}

/// A declared publisher. A context manager; it undeclares itself when it is dropped.
#[pyclass(module = "zwire.zenoh", frozen, weakref)]
pub(crate) struct Publisher {
    pub(crate) declared: Declared,
    key: KeyExpr,
    /// Of values that come without one.
    encoding: Encoding,
    options: PublisherOptions,
}

impl Publisher {
    pub(crate) const fn new(
        session: Handle,
        id: EntityId,
        key: KeyExpr,
        encoding: Encoding,
        options: PublisherOptions,
    ) -> Self {
        Self { declared: Declared::new(session, id, "publisher"), key, encoding, options }
    }

    fn publish(
        &self,
        py: Python<'_>,
        body: PushBody,
        instrumentation: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let stamps = stamps::wanted(py, &self.declared.session, instrumentation)?;
        let (id, qos) = (self.declared.id, self.options.qos);
        let session = &self.declared.session;
        let result = session.publish(
            py,
            |engine| engine.publish_at_once(id, qos, body, stamps),
            |engine, (body, stamps), interrupted| {
                engine.publish(id, qos, body, stamps, interrupted).map(drop)
            },
        );
        // The engine knows numbers; this knows what was undeclared.
        result.or_else(|error| self.declared.check(py).and(Err(error)))
    }
}

#[pymethods]
impl Publisher {
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
        self.declared.exit(py)
    }

    /// Its id.
    #[getter]
    fn id(&self) -> PyEntityGlobalId {
        self.declared.global_id()
    }

    /// Where it publishes.
    #[getter]
    fn key_expr(&self) -> PyKeyExpr {
        PyKeyExpr(self.key.clone())
    }

    /// The encoding of its values.
    #[getter]
    fn encoding(&self) -> encoding::PyEncoding {
        encoding::PyEncoding(self.encoding.clone())
    }

    /// What happens to its publications when a queue is full.
    #[getter]
    fn congestion_control(&self) -> enums::PyCongestionControl {
        enums::PyCongestionControl(self.options.qos.congestion())
    }

    /// The priority of its publications.
    #[getter]
    fn priority(&self) -> enums::PyPriority {
        enums::PyPriority(self.options.qos.priority())
    }

    /// The channel of its publications.
    #[getter]
    fn reliability(&self) -> enums::PyReliability {
        enums::PyReliability(self.options.reliability)
    }

    /// Whether somebody subscribes to what it publishes.
    #[getter]
    fn matching_status(&self, py: Python<'_>) -> PyResult<MatchingStatus> {
        matching_status(py, &self.declared.session, self.declared.id)
    }

    /// Publishes a value.
    #[pyo3(signature = (
        payload, *, encoding=None, attachment=None, timestamp=None, timestamp_instrumentation=None,
        source_info=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn put(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        encoding: Option<&Bound<'_, PyAny>>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
        source_info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let default = self.encoding.clone();
        let body = put_body(payload, encoding, default, attachment, timestamp, source_info)?;
        self.publish(py, body, timestamp_instrumentation)
    }

    /// Publishes a deletion.
    #[pyo3(signature = (*, attachment=None, timestamp=None, timestamp_instrumentation=None, source_info=None))]
    fn delete(
        &self,
        py: Python<'_>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
        source_info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.publish(py, del_body(attachment, timestamp, source_info)?, timestamp_instrumentation)
    }

    /// Waits until at least `n` subscribers are known. With a timeout in seconds, `TimedOut` when it is
    /// over.
    ///
    /// Those of this session count one by one, those of others as far as the neighbours tell: a router
    /// tells of each key expression once, however many are behind it.
    #[pyo3(signature = (n=1, timeout=None))]
    fn wait_matching(&self, py: Python<'_>, n: usize, timeout: Option<f64>) -> PyResult<()> {
        self.declared.wait_matching(py, n, timeout)
    }

    /// Ends the publisher. A second time is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        self.declared.undeclare(py)
    }

    /// Listens to changes of the matching status.
    #[pyo3(signature = (handler=None))]
    fn declare_matching_listener(
        &self,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<MatchingListener> {
        MatchingListener::new(py, &self.declared.session, self.declared.id, handler)
    }
}
