//! `Session`: opening, declaring, publishing, querying.

use crate::{
    calling::Group,
    encoding, enums, errors,
    handlers::{HandlerArg, seconds},
    info::SessionInfo,
    interrupt::Interrupt,
    keyexpr::{self, PyKeyExpr},
    liveliness::Liveliness,
    publisher::Publisher,
    querier::Querier,
    queryable::Queryable,
    reply,
    sample::{self, PyEntityGlobalId},
    selector, stamps,
    subscriber::Subscriber,
    timestamp::{self, PyTimestamp},
    zbytes,
    zid::PyZenohId,
};
use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyDict};
use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Weak},
    time::Instant,
};
use zwire_engine::{AtOnce, Error, LINGER, Session as Engine};
use zwire_proto::{
    Text,
    zenoh::{
        Encoding, KeyExpr, Qos, Reliability,
        session::{
            Barrier, EntityId, Get, Locality, Publication, PublisherOptions, QuerierOptions,
            QueryableOptions, SubscriberOptions,
        },
        wire::{Consolidation, Del, PushBody, Put, QueryBody, QueryTarget},
    },
};

/// Reference to a session, held by all objects that belong to it.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Arc<SessionRef>);

/// The engine's session and the state that the binding adds.
pub(crate) struct SessionRef {
    pub(crate) engine: Engine,
    /// Ids of declared key expressions, for `undeclare`.
    keys: Mutex<HashMap<KeyExpr, EntityId>>,
    pub(crate) callbacks: Arc<Group>,
    /// Callback that makes the stamps of messages in place of the clock.
    pub(crate) stamper: Option<Arc<stamps::Callback>>,
}

impl Drop for SessionRef {
    /// Queued messages get time to be sent; meanwhile other threads of the program can run.
    fn drop(&mut self) {
        // In another process, or if it is closed already, the call does nothing. Without an interpreter
        // the engine closes it.
        let _ = Python::try_attach(|py| py.detach(|| self.engine.close()));
    }
}

impl Handle {
    /// Runs a command that may wait, without the interpreter lock.
    pub(crate) fn run<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Engine, &mut dyn FnMut() -> bool) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let mut interrupt = Interrupt::default();
        let result = py.detach(|| f(&self.0.engine, &mut || interrupt.check()));
        match result {
            Ok(value) => Ok(value),
            Err(Error::Interrupted) => {
                interrupt.raise()?;
                Err(errors::engine(py, &Error::Interrupted))
            }
            Err(error) => Err(errors::engine(py, &error)),
        }
    }

    /// Publishes. In most cases `at_once` completes it with the interpreter lock held; the lock is only
    /// released if data has to be written, consumers notified or room waited for: releasing and taking it
    /// again costs more than the rest.
    pub(crate) fn publish<P: Send>(
        &self,
        py: Python<'_>,
        at_once: impl FnOnce(&Engine) -> Result<AtOnce<P>, Error>,
        otherwise: impl FnOnce(&Engine, P, &mut dyn FnMut() -> bool) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        match at_once(&self.0.engine) {
            Ok(AtOnce::Done) => Ok(()),
            Ok(AtOnce::Begun(begun)) => self.run(py, |engine, interrupted| engine.finish(begun, interrupted)),
            Ok(AtOnce::Refused(publication)) => {
                self.run(py, |engine, interrupted| otherwise(engine, publication, interrupted))
            }
            Err(error) => Err(errors::engine(py, &error)),
        }
    }

    /// Publishes without a publisher.
    fn put_once(&self, py: Python<'_>, publication: Publication) -> PyResult<()> {
        self.publish(
            py,
            |engine| engine.put_at_once(publication),
            |engine, publication, interrupted| engine.put(publication, interrupted).map(drop),
        )
    }

    /// Fails in a forked child, also for read-only access; a closed session may still be read.
    pub(crate) fn look(&self, py: Python<'_>) -> PyResult<&Engine> {
        let engine = &self.0.engine;
        engine.birth().check().map_err(|error| errors::engine(py, &error))?;
        Ok(engine)
    }

    /// Global id of an entity of this session.
    pub(crate) fn global_id(&self, id: EntityId) -> PyEntityGlobalId {
        PyEntityGlobalId::of(self.0.engine.zid(), id.0)
    }
}

/// Sessions that the exit of the interpreter has to close.
static OPEN: Mutex<Vec<Weak<SessionRef>>> = Mutex::new(Vec::new());

/// Closes sessions and nodes that the program has left open, each within the engine's time limit.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    crate::calling::exit_begins();
    zwire_engine::log::leave();
    crate::zre::stop_all(py);
    let open: Vec<Weak<SessionRef>> = core::mem::take(&mut *OPEN.lock());
    py.detach(|| {
        for session in open.iter().filter_map(Weak::upgrade) {
            // In a forked child this does nothing.
            let _ = session.engine.close();
        }
    });
    crate::scout::stop_all();
    crate::zmtp::close_all(py);
    crate::calling::wait_for_end(py);
    crate::log::end(py);
}

/// Opens a session.
///
/// `timestamp_callback` makes the stamps of messages that ask for them (`timestamp_instrumentation`) in
/// place of the clock: it gets a `TimestampContext` and returns bytes. It is called where a message is
/// sent and where the program takes one.
///
/// Raises `ConnectError` when no endpoint answers, `ConfigError` when the configuration is inconsistent.
#[pyfunction]
#[pyo3(signature = (config=None, *, timestamp_callback=None))]
pub(crate) fn open(
    py: Python<'_>,
    config: Option<&Bound<'_, PyAny>>,
    timestamp_callback: Option<&Bound<'_, PyAny>>,
) -> PyResult<Session> {
    crate::log::attach(py)?;
    let config = match config.filter(|config| !config.is_none()) {
        Some(config) => crate::config::extract(config)?,
        None => zwire_engine::Config::default(),
    };
    let mut interrupt = Interrupt::default();
    let result = py.detach(|| Engine::open(&config, &mut || interrupt.check()));
    interrupt.raise()?;
    let engine = result.map_err(|error| errors::engine(py, &error))?;
    let stamper = timestamp_callback
        .filter(|callback| !callback.is_none())
        .map(|callback| stamps::Callback::install(callback, &engine))
        .transpose()?;
    let (keys, callbacks) = (Mutex::default(), Arc::default());
    let session = Arc::new(SessionRef { engine, keys, callbacks, stamper });
    let mut open = OPEN.lock();
    open.retain(|known| known.strong_count() > 0);
    open.push(Arc::downgrade(&session));
    Ok(Session(Handle(session)))
}

/// An open session. A context manager; it closes when it is dropped.
#[pyclass(module = "zwire.zenoh", frozen, weakref)]
pub(crate) struct Session(pub(crate) Handle);

/// Makes a QoS from its optional parts.
pub(crate) fn qos(
    default: Qos,
    congestion: Option<enums::PyCongestionControl>,
    priority: Option<enums::PyPriority>,
    express: Option<bool>,
) -> Qos {
    Qos::new(
        priority.map_or(default.priority(), |p| p.0),
        congestion.map_or(default.congestion(), |c| c.0),
        express.unwrap_or(default.express()),
    )
}

/// Makes the body of a put; `default` is its encoding if none is given.
pub(crate) fn put_body(
    payload: &Bound<'_, PyAny>,
    encoding: Option<&Bound<'_, PyAny>>,
    default: Encoding,
    attachment: Option<&Bound<'_, PyAny>>,
    timestamp: Option<&Bound<'_, PyAny>>,
    source_info: Option<&Bound<'_, PyAny>>,
) -> PyResult<PushBody> {
    Ok(PushBody::Put(Put {
        timestamp: timestamp::extract_option(timestamp)?,
        encoding: encoding::extract_option(encoding)?.unwrap_or(default),
        source_info: sample::source_info(source_info)?.map(Box::new),
        attachment: zbytes::extract_option(attachment)?,
        ..Put::new(zbytes::extract(payload)?)
    }))
}

/// Makes the body of a delete.
pub(crate) fn del_body(
    attachment: Option<&Bound<'_, PyAny>>,
    timestamp: Option<&Bound<'_, PyAny>>,
    source_info: Option<&Bound<'_, PyAny>>,
) -> PyResult<PushBody> {
    Ok(PushBody::Del(Del {
        timestamp: timestamp::extract_option(timestamp)?,
        source_info: sample::source_info(source_info)?.map(Box::new),
        attachment: zbytes::extract_option(attachment)?,
        ..Del::default()
    }))
}

pub(crate) fn locality(value: Option<enums::PyLocality>) -> Locality {
    value.map_or(Locality::Any, |l| l.0)
}

#[pymethods]
impl Session {
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
        self.close(py, None)
    }

    fn __repr__(&self) -> String {
        let state = if self.0.0.engine.is_closed() { "closed" } else { "open" };
        format!("<Session {} {state}>", self.0.0.engine.zid())
    }

    /// Id of this node.
    fn zid(&self) -> PyZenohId {
        PyZenohId(self.0.0.engine.zid())
    }

    /// Id of this session as an entity.
    #[getter]
    fn id(&self) -> PyEntityGlobalId {
        self.0.global_id(EntityId(0))
    }

    /// Information about links and neighbours.
    #[getter]
    fn info(&self) -> SessionInfo {
        SessionInfo(self.0.clone())
    }

    /// Closes the session: its links, handlers and callbacks. May be called repeatedly and from any
    /// thread.
    ///
    /// Queued messages and running callbacks get `timeout` seconds together, two if it is None. After
    /// that no callback is called any more except for its `drop`; callbacks still running are reported by
    /// a warning in the log. If called within a callback, that one is not waited for. Threads that wait
    /// for the session get `SessionClosed`; items received before can still be taken.
    #[pyo3(signature = (timeout=None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = seconds(timeout)?.unwrap_or(LINGER);
        let session = &self.0.0;
        let mut interrupt = Interrupt::default();
        let result = py.detach(|| {
            let end = Instant::now().checked_add(timeout);
            session.engine.close_within(timeout, &mut || interrupt.check())?;
            let left = session.callbacks.finish(end, &mut || interrupt.check());
            if left > 0 {
                tracing::warn!(session = %session.engine.zid(), callbacks = left, "session closed while callbacks are running");
            }
            Ok(())
        });
        interrupt.raise()?;
        result.map_err(|error| errors::engine(py, &error))
    }

    /// Whether the session is closed.
    fn is_closed(&self) -> bool {
        self.0.0.engine.is_closed()
    }

    /// Another handle of the same session, as returned by `zwire.spark.session`.
    fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// Waits until all neighbours know the declarations of this session. False if the timeout, in
    /// seconds, expires first.
    ///
    /// A client waits for its link as well. Neighbours that connect later get the declarations
    /// automatically.
    #[pyo3(signature = (timeout=None))]
    fn ready(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = seconds(timeout)?;
        self.0.run(py, |engine, interrupted| {
            match engine.barrier(Barrier::Declarations, timeout, interrupted) {
                Ok(()) => Ok(true),
                Err(Error::TimedOut { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Waits until all neighbours have received the publications of this session, except best-effort
    /// ones.
    ///
    /// Raises `TimedOut` after `timeout` seconds, if given; `LinkClosed` if the link of a client ended
    /// before, so that publications may be lost.
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = seconds(timeout)?;
        self.0.run(py, |engine, interrupted| engine.barrier(Barrier::Everything, timeout, interrupted))
    }

    /// A timestamp that is later than all previous ones.
    fn new_timestamp(&self, py: Python<'_>) -> PyResult<PyTimestamp> {
        self.0.run(py, |engine, _| engine.new_timestamp()).map(PyTimestamp)
    }

    /// Statistics by name, and of each link, subscriber and queryable: see `zwire.stats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
        let engine = self.0.look(py)?;
        let report = py.detach(|| engine.report());
        crate::stats::session(py, &report, self.0.0.callbacks.errors())
    }

    /// The endpoints on which this node listens, as `tcp/address:port`.
    fn listening(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.0.look(py)?.listening())
    }

    /// Declares a key expression, so that publications on it are shorter on the wire.
    fn declare_keyexpr(&self, py: Python<'_>, key_expr: &Bound<'_, PyAny>) -> PyResult<PyKeyExpr> {
        let key = keyexpr::extract(key_expr)?;
        let declared = key.clone();
        let id = self.0.run(py, move |engine, _| engine.declare_keyexpr(declared))?;
        self.0.0.keys.lock().insert(key.clone(), id);
        Ok(PyKeyExpr(key))
    }

    /// Undeclares a key expression declared with `declare_keyexpr`, or any other declaration.
    fn undeclare(&self, py: Python<'_>, obj: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(key) = obj.cast::<PyKeyExpr>() {
            let Some(id) = self.0.0.keys.lock().remove(&key.get().0) else {
                return Err(errors::usage(py, "this key expression is not declared in this session"));
            };
            // The end of the session has undeclared it already.
            if self.0.look(py)?.is_closed() {
                return Ok(());
            }
            return self.0.run(py, move |engine, _| engine.undeclare(id));
        }
        if obj.is_instance_of::<pyo3::types::PyString>() {
            let what = "a text is not declared: give what `declare_keyexpr` returned";
            return Err(errors::usage(py, what));
        }
        obj.call_method0("undeclare").map(|_| ())
    }

    /// Publishes a value.
    #[pyo3(signature = (
        key_expr, payload, *, encoding=None, congestion_control=None, priority=None, express=None,
        attachment=None, timestamp=None, timestamp_instrumentation=None, allowed_destination=None,
        source_info=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn put(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        payload: &Bound<'_, PyAny>,
        encoding: Option<&Bound<'_, PyAny>>,
        congestion_control: Option<enums::PyCongestionControl>,
        priority: Option<enums::PyPriority>,
        express: Option<bool>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
        allowed_destination: Option<enums::PyLocality>,
        source_info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let publication = Publication {
            key: keyexpr::extract(key_expr)?,
            body: put_body(payload, encoding, Encoding::DEFAULT, attachment, timestamp, source_info)?,
            qos: qos(Qos::DEFAULT, congestion_control, priority, express),
            reliability: Reliability::Reliable,
            destination: locality(allowed_destination),
            stamps: stamps::wanted(py, &self.0, timestamp_instrumentation)?,
        };
        self.0.put_once(py, publication)
    }

    /// Publishes every row of an Arrow record batch, without a Python object per row.
    ///
    /// Args:
    ///     batch: An object with the Arrow C interface. Columns by name: `key` (not needed when `key_expr` is
    ///         given), `payload`, and optionally `encoding`, `attachment`, `kind` (`put` or `del`),
    ///         `priority` (1 to 7), `congestion` (`drop`, `block`, `block_first`), `express`.
    ///     congestion_control: For rows without a value; BLOCK, since a batch fills queues at once.
    ///
    /// Raises:
    ///     RowError: A row is invalid; `row`, `key` and `reason` describe it. The rows before it are
    ///         published.
    #[pyo3(signature = (batch, *, key_expr=None, congestion_control=None, priority=None, express=None))]
    fn put_batch(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, PyAny>,
        key_expr: Option<&Bound<'_, PyAny>>,
        congestion_control: Option<enums::PyCongestionControl>,
        priority: Option<enums::PyPriority>,
        express: Option<bool>,
    ) -> PyResult<crate::put_batch::PutSummary> {
        crate::put_batch::put_batch(py, self, batch, key_expr, congestion_control, priority, express)
    }

    /// Publishes a deletion.
    #[pyo3(signature = (
        key_expr, *, congestion_control=None, priority=None, express=None, attachment=None, timestamp=None,
        timestamp_instrumentation=None, allowed_destination=None, source_info=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn delete(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        congestion_control: Option<enums::PyCongestionControl>,
        priority: Option<enums::PyPriority>,
        express: Option<bool>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
        allowed_destination: Option<enums::PyLocality>,
        source_info: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let publication = Publication {
            key: keyexpr::extract(key_expr)?,
            body: del_body(attachment, timestamp, source_info)?,
            qos: qos(Qos::DEFAULT, congestion_control, priority, express),
            reliability: Reliability::Reliable,
            destination: locality(allowed_destination),
            stamps: stamps::wanted(py, &self.0, timestamp_instrumentation)?,
        };
        self.0.put_once(py, publication)
    }

    /// Queries queryables; replies arrive through the handler.
    #[pyo3(signature = (
        selector, handler=None, *, target=None, consolidation=None, accept_replies=None, timeout=None,
        congestion_control=None, priority=None, express=None, payload=None, encoding=None, attachment=None,
        allowed_destination=None, source_info=None, cancellation_token=None, timestamp_instrumentation=None,
        budget=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn get(
        &self,
        py: Python<'_>,
        selector: &Bound<'_, PyAny>,
        handler: Option<&Bound<'_, PyAny>>,
        target: Option<enums::PyQueryTarget>,
        consolidation: Option<&Bound<'_, PyAny>>,
        accept_replies: Option<enums::PyReplyKeyExpr>,
        timeout: Option<f64>,
        congestion_control: Option<enums::PyCongestionControl>,
        priority: Option<enums::PyPriority>,
        express: Option<bool>,
        payload: Option<&Bound<'_, PyAny>>,
        encoding: Option<&Bound<'_, PyAny>>,
        attachment: Option<&Bound<'_, PyAny>>,
        allowed_destination: Option<enums::PyLocality>,
        source_info: Option<&Bound<'_, PyAny>>,
        cancellation_token: Option<&Bound<'_, reply::CancellationToken>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
        budget: Option<u64>,
    ) -> PyResult<Py<PyAny>> {
        let (key, parameters) = selector::extract(selector)?;
        let get = Get {
            parameters,
            target: target.map_or(QueryTarget::BestMatching, |t| t.0),
            consolidation: consolidation
                .map(enums::consolidation)
                .transpose()?
                .unwrap_or(Consolidation::Auto),
            budget: self::budget(py, budget)?,
            timeout: seconds(timeout)?,
            qos: qos(Qos::REQUEST, congestion_control, priority, express),
            body: query_body(payload, encoding)?,
            attachment: zbytes::extract_option(attachment)?,
            source_info: sample::source_info(source_info)?,
            accept_any_key: accept_replies.is_some_and(|a| a.0 == enums::ReplyKey::Any),
            destination: locality(allowed_destination),
            stamps: stamps::wanted(py, &self.0, timestamp_instrumentation)?,
            ..Get::new(key)
        };
        reply::start(py, &self.0, get, HandlerArg::parse(py, handler)?, cancellation_token)
    }

    /// Declares a subscriber for a key expression.
    #[pyo3(signature = (key_expr, handler=None, *, allowed_origin=None))]
    fn declare_subscriber(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        handler: Option<&Bound<'_, PyAny>>,
        allowed_origin: Option<enums::PyLocality>,
    ) -> PyResult<Subscriber> {
        let key = keyexpr::extract(key_expr)?;
        let handler = HandlerArg::parse(py, handler)?;
        let options = SubscriberOptions { origin: locality(allowed_origin) };
        let (declared, engine_handler) = (key.clone(), handler.engine());
        let (id, queue) =
            self.0.run(py, move |engine, _| engine.declare_subscriber(declared, options, engine_handler))?;
        Subscriber::new(py, self.0.clone(), id, key, queue, handler)
    }

    /// Declares a queryable, which answers queries on a key expression.
    #[pyo3(signature = (key_expr, handler=None, *, complete=None, allowed_origin=None))]
    fn declare_queryable(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        handler: Option<&Bound<'_, PyAny>>,
        complete: Option<bool>,
        allowed_origin: Option<enums::PyLocality>,
    ) -> PyResult<Queryable> {
        let key = keyexpr::extract(key_expr)?;
        let handler = HandlerArg::parse(py, handler)?;
        let options =
            QueryableOptions { complete: complete.unwrap_or(false), origin: locality(allowed_origin) };
        let (declared, engine_handler) = (key.clone(), handler.engine());
        let (id, queue) =
            self.0.run(py, move |engine, _| engine.declare_queryable(declared, options, engine_handler))?;
        Queryable::new(py, self.0.clone(), id, key, queue, handler)
    }

    /// Declares a publisher for a key expression.
    #[pyo3(signature = (
        key_expr, *, encoding=None, congestion_control=None, priority=None, express=None, reliability=None,
        allowed_destination=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn declare_publisher(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        encoding: Option<&Bound<'_, PyAny>>,
        congestion_control: Option<enums::PyCongestionControl>,
        priority: Option<enums::PyPriority>,
        express: Option<bool>,
        reliability: Option<enums::PyReliability>,
        allowed_destination: Option<enums::PyLocality>,
    ) -> PyResult<Publisher> {
        let key = keyexpr::extract(key_expr)?;
        let encoding = encoding::extract_option(encoding)?.unwrap_or(Encoding::DEFAULT);
        let options = PublisherOptions {
            qos: qos(Qos::DEFAULT, congestion_control, priority, express),
            reliability: reliability.map_or(Reliability::Reliable, |r| r.0),
            destination: locality(allowed_destination),
        };
        let (declared, with) = (key.clone(), options.clone());
        let id = self.0.run(py, move |engine, _| engine.declare_publisher(declared, with))?;
        Ok(Publisher::new(self.0.clone(), id, key, encoding, options))
    }

    /// Declares a querier for a key expression.
    #[pyo3(signature = (
        key_expr, *, target=None, consolidation=None, accept_replies=None, timeout=None,
        congestion_control=None, priority=None, express=None, allowed_destination=None, budget=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn declare_querier(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        target: Option<enums::PyQueryTarget>,
        consolidation: Option<&Bound<'_, PyAny>>,
        accept_replies: Option<enums::PyReplyKeyExpr>,
        timeout: Option<f64>,
        congestion_control: Option<enums::PyCongestionControl>,
        priority: Option<enums::PyPriority>,
        express: Option<bool>,
        allowed_destination: Option<enums::PyLocality>,
        budget: Option<u64>,
    ) -> PyResult<Querier> {
        let key = keyexpr::extract(key_expr)?;
        let options = QuerierOptions {
            target: target.map_or(QueryTarget::BestMatching, |t| t.0),
            consolidation: consolidation
                .map(enums::consolidation)
                .transpose()?
                .unwrap_or(Consolidation::Auto),
            budget: self::budget(py, budget)?,
            timeout: seconds(timeout)?,
            qos: qos(Qos::REQUEST, congestion_control, priority, express),
            accept_any_key: accept_replies.is_some_and(|a| a.0 == enums::ReplyKey::Any),
            destination: locality(allowed_destination),
        };
        let declared = key.clone();
        let id = self.0.run(py, move |engine, _| engine.declare_querier(declared, options))?;
        Ok(Querier::new(self.0.clone(), id, key, options))
    }

    /// Liveliness tokens of this session and others.
    fn liveliness(&self) -> Liveliness {
        Liveliness(self.0.clone())
    }
}

/// Most replies of a query.
fn budget(py: Python<'_>, budget: Option<u64>) -> PyResult<Option<NonZeroU32>> {
    let checked = |budget| u32::try_from(budget).ok().and_then(NonZeroU32::new);
    let wrong = |budget| errors::option(py, "budget", &format!("expected 1 to {}, not {budget}", u32::MAX));
    budget.map(|budget| checked(budget).ok_or_else(|| wrong(budget))).transpose()
}

/// Makes the value sent with a query.
pub(crate) fn query_body(
    payload: Option<&Bound<'_, PyAny>>,
    encoding: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<QueryBody>> {
    let payload = payload.filter(|p| !p.is_none());
    let encoding = encoding.filter(|e| !e.is_none());
    if payload.is_none() && encoding.is_none() {
        return Ok(None);
    }
    Ok(Some(QueryBody {
        encoding: encoding::extract_option(encoding)?.unwrap_or(Encoding::DEFAULT),
        shm: false,
        payload: payload.map(zbytes::extract).transpose()?.unwrap_or_default(),
    }))
}

/// Converts the parameters given to a querier.
pub(crate) fn parameters(given: Option<&Bound<'_, PyAny>>) -> PyResult<Text> {
    match given {
        Some(given) if !given.is_none() => Ok(crate::parameters::extract(given)?.text().clone()),
        _ => Ok(Text::EMPTY),
    }
}

/// Policy for the keys of replies to a query.
pub(crate) const fn reply_key(any: bool) -> enums::PyReplyKeyExpr {
    enums::PyReplyKeyExpr(if any { enums::ReplyKey::Any } else { enums::ReplyKey::MatchingQuery })
}
