//! `AdvancedSubscriber`: samples of the past, in order, without holes where somebody has them.

use crate::{
    errors,
    loops::calling::Life,
    zenoh::{
        advanced::{HistoryConfig, RecoveryConfig},
        bodies::locality,
        enums,
        global_id::PyEntityGlobalId,
        handle::Handle,
        handlers::HandlerArg,
        keyexpr::{self, PyKeyExpr},
        receiver::Source,
        session::Session,
        subscriber::Subscriber,
    },
};
use pyo3::{prelude::*, types::PyDict};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use zwire_engine::{AdvancedSubscriberOptions, Queue};
use zwire_proto::zenoh::{
    KeyExpr,
    advanced::{Miss, keys},
    session::EntityId,
};

/// A subscriber that orders what it gets, asks for what is missing, and says what is lost. A context manager,
/// and an iterator over its samples unless it has a callback. It undeclares itself when it is dropped, unless
/// it has a callback.
#[pyclass(module = "zwire.zenoh.ext", frozen, weakref, generic)]
pub(crate) struct AdvancedSubscriber {
    session: Handle,
    id: EntityId,
    key: KeyExpr,
    pub(crate) subscriber: Subscriber,
}

/// Declares an advanced subscriber.
///
/// `history` is what it gets of the past, `recovery` how it gets what it misses, and `subscriber_detection`
/// says by a token that it is there.
#[pyfunction]
#[pyo3(signature = (
    session, key_expr, handler=None, *, allowed_origin=None, history=None, recovery=None,
    subscriber_detection=None
))]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
pub(crate) fn declare_advanced_subscriber(
    py: Python<'_>,
    session: &Bound<'_, Session>,
    key_expr: &Bound<'_, PyAny>,
    handler: Option<&Bound<'_, PyAny>>,
    allowed_origin: Option<enums::PyLocality>,
    history: Option<&Bound<'_, HistoryConfig>>,
    recovery: Option<&Bound<'_, RecoveryConfig>>,
    subscriber_detection: Option<bool>,
) -> PyResult<AdvancedSubscriber> {
    let session = session.get().0.clone();
    let key = keyexpr::extract(key_expr)?;
    let handler = HandlerArg::parse(py, handler)?;
    let options = AdvancedSubscriberOptions {
        origin: locality(allowed_origin),
        history: history.map(|history| history.get().0),
        recovery: recovery.map(|recovery| recovery.get().0),
        detection: subscriber_detection.unwrap_or(false),
    };
    let (declared, engine_handler) = (key.clone(), handler.engine());
    let (id, queue) = session
        .run(py, move |engine, _| engine.declare_advanced_subscriber(declared, options, engine_handler))?;
    let subscriber = Subscriber::new(py, session.clone(), id, key.clone(), queue, handler)?;
    Ok(AdvancedSubscriber { session, id, key, subscriber })
}

#[pymethods]
impl AdvancedSubscriber {
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
        self.subscriber.exit(py)
    }

    /// Its id.
    #[getter]
    fn id(&self) -> PyEntityGlobalId {
        self.subscriber.id()
    }

    /// What it subscribes to.
    #[getter]
    fn key_expr(&self) -> PyKeyExpr {
        self.subscriber.key_expr()
    }

    /// The channel, or what was given with the callback.
    #[getter]
    fn handler(&self, py: Python<'_>) -> Py<PyAny> {
        self.subscriber.handler(py)
    }

    /// How many samples were dropped because the handler was full.
    #[getter]
    fn dropped(&self) -> u64 {
        self.subscriber.dropped()
    }

    /// Listens to what is missed: reported when nobody has it any more, each publication once.
    ///
    /// Only publishers with `sample_miss_detection` let that be seen.
    #[pyo3(signature = (handler=None))]
    fn sample_miss_listener(
        &self,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SampleMissListener> {
        self.subscriber.check(py)?;
        SampleMissListener::new(py, &self.session, self.id, handler)
    }

    /// Subscribes to the tokens of publishers with `publisher_detection` on its key.
    #[pyo3(signature = (handler=None, *, history=None))]
    fn detect_publishers(
        &self,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
        history: Option<bool>,
    ) -> PyResult<Subscriber> {
        let key = keys::of_all_publishers(&self.key).map_err(|error| errors::key_expr(py, &error))?;
        let handler = HandlerArg::parse(py, handler)?;
        let (declared, engine_handler) = (key.clone(), handler.engine());
        let history = history.unwrap_or(false);
        let (id, queue) = self.session.run(py, move |engine, _| {
            engine.declare_liveliness_subscriber(declared, history, engine_handler)
        })?;
        Subscriber::new(py, self.session.clone(), id, key, queue, handler)
    }

    /// Waits until all neighbours know of it. With a timeout in seconds, `TimedOut` when it is over.
    #[pyo3(signature = (timeout=None))]
    fn wait_ready(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.subscriber.wait_ready(py, timeout)
    }

    /// Ends the subscription. A second time is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        self.subscriber.undeclare(py)
    }

    /// The next sample, or None if there is none right now.
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.subscriber.try_recv(py)
    }

    /// The next sample, waited for. With a timeout in seconds, `TimedOut` when it is over.
    #[pyo3(signature = (timeout=None))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        self.subscriber.recv(py, timeout)
    }

    /// Up to `max_items` samples in one go; waits for the first one only, an empty list at the timeout.
    #[pyo3(signature = (max_items, timeout=None))]
    fn recv_many(&self, py: Python<'_>, max_items: usize, timeout: Option<f64>) -> PyResult<Vec<Py<PyAny>>> {
        self.subscriber.recv_many(py, max_items, timeout)
    }

    /// Up to `max_rows` samples as an Arrow record batch; see `Subscriber.recv_batch`.
    #[pyo3(signature = (max_rows=65536, timeout=None))]
    fn recv_batch(&self, py: Python<'_>, max_rows: usize, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        self.subscriber.recv_batch(py, max_rows, timeout)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.subscriber.__iter__(py)
    }
}

/// A listener to what an advanced subscriber misses.
#[pyclass(module = "zwire.zenoh.ext", frozen, weakref, generic)]
pub(crate) struct SampleMissListener {
    session: Handle,
    id: EntityId,
    queue: Arc<Queue<Miss>>,
    handler: Py<PyAny>,
    background: bool,
    live: AtomicBool,
}

impl SampleMissListener {
    fn new(
        py: Python<'_>,
        session: &Handle,
        id: EntityId,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let handler = HandlerArg::parse(py, handler)?;
        let engine_handler = handler.engine();
        let queue = session.run(py, move |engine, _| engine.miss_listener(id, engine_handler))?;
        let background = matches!(handler, HandlerArg::Callback { .. });
        let life = Life::of(&session.0.callbacks);
        let handler = handler.attach(py, &queue, Some(session), &life)?;
        let live = AtomicBool::new(true);
        Ok(Self { session: session.clone(), id, queue, handler, background, live })
    }

    fn forget(&self) {
        self.live.store(false, Ordering::Release);
        self.session.0.engine.forget_miss_listener(self.id, &self.queue);
    }
}

#[pymethods]
impl SampleMissListener {
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
        self.session.look(py)?;
        self.forget();
        Ok(())
    }

    /// The channel, or what was given with the callback.
    #[getter]
    fn handler(&self, py: Python<'_>) -> Py<PyAny> {
        self.handler.clone_ref(py)
    }

    /// Ends the listener. A second time is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        self.session.look(py)?;
        if !self.live.load(Ordering::Acquire) {
            return Err(errors::usage(py, "the sample miss listener is undeclared"));
        }
        self.forget();
        Ok(())
    }

    /// The next miss, or None if there is none right now.
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Source::of(py, &self.handler)?.try_recv(py)
    }

    /// The next miss, waited for. With a timeout in seconds, `TimedOut` when it is over.
    #[pyo3(signature = (timeout=None))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        Source::of(py, &self.handler)?.recv(py, timeout)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Source::of(py, &self.handler)?.iter()
    }
}

impl Drop for SampleMissListener {
    fn drop(&mut self) {
        if !self.background {
            self.forget();
        }
    }
}
