//! `Session`: opening, declaring, publishing, querying.

use crate::{
    config::PyConfig,
    errors::{self, OrRaise},
    loops::{
        interrupt::{seconds, waiting},
        turn::Turn,
    },
    zenoh::{
        authoriser,
        bodies::{self, del_body, locality, put_body, qos, query_body},
        declared::{Declared, Sender},
        encoding, enums,
        handle::{Handle, SessionRef},
        handlers::HandlerArg,
        info::SessionInfo,
        keyexpr::{self, PyKeyExpr},
        liveliness::Liveliness,
        loan::Loan,
        publisher::Publisher,
        querier::Querier,
        queryable::Queryable,
        receiver::Receiver,
        reply, sample, selector, stamps,
        subscriber::Subscriber,
        timestamp::PyTimestamp,
        zbytes::{self, Copier},
        zid::{PyEntityGlobalId, PyZenohId},
    },
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::{Arc, Weak};
use zwire_engine::{AuthorityOptions, Error, LINGER, Session as Engine, SharedMessage, clock};
use zwire_proto::zenoh::{
    Encoding, Qos, Reliability, WhatAmI,
    session::{
        Barrier, EntityId, Get, Publication, PublisherOptions, QuerierOptions, QueryableOptions,
        SubscriberOptions,
    },
    wire::{PushBody, QueryTarget},
};

/// Sessions that the exit of the interpreter has to close.
static OPEN: Mutex<Vec<Weak<SessionRef>>> = Mutex::new(Vec::new());

/// Closes sessions and nodes that the program has left open, each within the engine's time limit.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    crate::loops::ending::exit_begins();
    zwire_engine::log::leave();
    crate::bridge::close_all(py);
    crate::zre::node::stop_all(py);
    crate::storage::close_all(py);
    let open: Vec<Weak<SessionRef>> = core::mem::take(&mut *OPEN.lock());
    py.detach(|| {
        for session in open.iter().filter_map(Weak::upgrade) {
            session.end_storages();
            // In a forked child this does nothing.
            let _ = session.engine.close();
        }
    });
    crate::zenoh::scout::stop_all();
    crate::zmtp::socket::close_all(py);
    crate::loops::calling::wait_for_end(py);
    crate::log::end(py);
}

/// Opens a session.
///
/// `timestamp_callback` makes the stamps of messages that ask for them (`timestamp_instrumentation`) in
/// place of the clock: it gets a `TimestampContext` and returns bytes. It is called where a message is
/// sent and where the program takes one. `authoriser` decides about messages which no rule of access control is about,
/// from the first link on.
///
/// Raises `ConnectError` when no endpoint answers, `ConfigError` when the configuration is inconsistent.
#[pyfunction]
#[pyo3(signature = (config=None, *, timestamp_callback=None, authoriser=None))]
pub(crate) fn open(
    py: Python<'_>,
    config: Option<&Bound<'_, PyAny>>,
    timestamp_callback: Option<&Bound<'_, PyAny>>,
    authoriser: Option<&Bound<'_, PyAny>>,
) -> PyResult<Session> {
    crate::log::attach(py)?;
    let config = crate::config::extract_option(config)?;
    let authority = authoriser.map(authoriser::function).transpose()?;
    let authority = authority.map(|function| (function, AuthorityOptions::default()));
    let engine =
        waiting(py, |interrupted| Engine::open_with(&config, authority, interrupted))?.or_raise(py)?;
    let stamper =
        timestamp_callback.map(|callback| stamps::Callback::install(callback, &engine)).transpose()?;
    let (keys, callbacks) = (Mutex::default(), Arc::default());
    let storages = crate::storage::of_config(py, &config, &engine)?;
    let session = Arc::new(SessionRef { engine, keys, callbacks, stamper, storages });
    let mut open = OPEN.lock();
    open.retain(|known| known.strong_count() > 0);
    open.push(Arc::downgrade(&session));
    Ok(Session(Handle(session)))
}

/// An open session. A context manager; it closes when it is dropped.
#[pyclass(module = "zwire.zenoh", frozen, weakref)]
pub(crate) struct Session(pub(crate) Handle);

attributes! { Session, |this|
    /// Id of this session as an entity.
    id: PyEntityGlobalId = this.0.global_id(EntityId(0));
    /// Information about links and neighbours.
    info: SessionInfo = SessionInfo(this.0.clone());
}

context_manager! { Session, |this, py| this.close(py, None) }

methods! { Session, |this, py|
    /// Id of this node.
    zid: PyZenohId = PyZenohId(this.0.0.engine.zid());
    /// Whether the session is closed.
    is_closed: bool = this.0.0.engine.is_closed();
    /// Another handle of the same session, as returned by `zwire.spark.session`.
    share: Session = Session(this.0.clone());
    /// A timestamp that is later than all previous ones.
    new_timestamp: PyResult<PyTimestamp> =
        this.0.run(py, |engine, _| engine.new_timestamp()).map(PyTimestamp);
    /// The endpoints on which this node listens, as `tcp/address:port`.
    listening: PyResult<Vec<String>> = Ok(this.0.look(py)?.listening());
    /// The configuration as it is now: some keys may change while the session is open.
    config: PyResult<PyConfig> = Ok(PyConfig::of(this.0.look(py)?.tree()));
    /// Liveliness tokens of this session and others.
    liveliness: Liveliness = Liveliness(this.0.clone());
}

impl Session {
    /// Refuses a client: its rules stay those with which it was opened.
    fn judges(&self, py: Python<'_>) -> PyResult<()> {
        match self.0.look(py)?.config().mode {
            WhatAmI::Client => Err(errors::usage(py, "the authoriser of a client is given to open")),
            WhatAmI::Router | WhatAmI::Peer => Ok(()),
        }
    }

    /// Publishes a value without options in a turn of an event loop.
    pub(crate) fn put_in_turn(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        payload: &Bound<'_, PyAny>,
        turn: &Turn,
    ) -> PyResult<()> {
        let key = keyexpr::extract(key_expr)?;
        let publication = Publication::new(key, self.body(payload, None, None, None, None)?);
        self.0.command(py, Some(turn), |engine, call| engine.put(publication, call).map(drop))
    }

    fn body(
        &self,
        payload: &Bound<'_, PyAny>,
        encoding: Option<&Bound<'_, PyAny>>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        source: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PushBody> {
        let copier: Copier<'_> = &|bytes| self.0.0.engine.copy(SharedMessage::Put, bytes);
        put_body(Some(copier), payload, encoding, Encoding::DEFAULT, attachment, timestamp, source)
    }
}

#[pymethods]
impl Session {
    fn __repr__(&self) -> String {
        let state = if self.0.0.engine.is_closed() { "closed" } else { "open" };
        format!("<Session {} {state}>", self.0.0.engine.zid())
    }

    /// Closes the session: its links, handlers and callbacks. May be called repeatedly and from any thread.
    ///
    /// Queued messages and running callbacks get `timeout` seconds together, two if it is None. After
    /// that no callback is called any more except for its `drop`; callbacks still running are reported by
    /// a warning in the log. If called within a callback, that one is not waited for. Threads that wait
    /// for the session get `SessionClosed`; items received before can still be taken.
    #[pyo3(signature = (timeout=None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = seconds(timeout)?.unwrap_or(LINGER);
        let session = &self.0.0;
        let result = waiting(py, |interrupted| {
            let end = clock::mono().checked_add(timeout);
            session.end_storages();
            session.engine.close_within(timeout, interrupted)?;
            let left = session.callbacks.finish(end, interrupted);
            if left > 0 {
                tracing::warn!(session = %session.engine.zid(), callbacks = left, "session closed while callbacks are running");
            }
            Ok::<_, Error>(())
        });
        result?.or_raise(py)
    }

    /// Waits until all neighbours know the declarations of this session. False if the timeout, in
    /// seconds, expires first.
    ///
    /// A client waits for its link as well. Neighbours that connect later get the declarations automatically.
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

    /// Waits until all neighbours have received the publications of this session, except best-effort ones.
    ///
    /// Raises `TimedOut` after `timeout` seconds, if given; `LinkClosed` if the link of a client ended
    /// before, so that publications may be lost.
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = seconds(timeout)?;
        self.0.run(py, |engine, interrupted| engine.barrier(Barrier::Everything, timeout, interrupted))
    }

    /// Applies a configuration, as far as an open session can change, without closing links; returns the keys that
    /// need a restart, with reasons.
    fn reconfigure(&self, py: Python<'_>, config: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        let config = crate::config::extract(config)?;
        self.0.run(py, move |engine, _| engine.reconfigure(&config))
    }

    /// Sets the function that decides about messages which no rule of access control is about, in place of
    /// `default_permission`; None takes it away.
    ///
    /// Raises:
    ///     UsageError: The session is a client, whose function `open` takes.
    #[pyo3(signature = (authoriser, *, deadline=0.1, ttl=10.0, fallback=false))]
    fn set_authoriser(
        &self,
        py: Python<'_>,
        authoriser: Option<&Bound<'_, PyAny>>,
        deadline: f64,
        ttl: f64,
        fallback: bool,
    ) -> PyResult<()> {
        self.judges(py)?;
        let options = authoriser::options(py, deadline, ttl, fallback)?;
        let function = authoriser.map(authoriser::function).transpose()?;
        self.0.run(py, |engine, _| engine.set_authority(function.map(|function| (function, options))))
    }

    /// Forgets the answers of the authoriser, so that it is asked again.
    ///
    /// Raises:
    ///     UsageError: The session is a client.
    fn invalidate_authoriser(&self, py: Python<'_>) -> PyResult<()> {
        self.judges(py)?;
        self.0.run(py, |engine, _| engine.forget_answers())
    }

    /// Statistics by name, and of each link, subscriber and queryable: see `zwire.stats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
        let engine = self.0.look(py)?;
        let report = py.detach(|| engine.report());
        crate::stats::session(py, &report, self.0.0.callbacks.errors())
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
            return self.0.undeclare(py, id);
        }
        if obj.is_instance_of::<pyo3::types::PyString>() {
            let what = "a text is not declared: give what `declare_keyexpr` returned";
            return Err(errors::usage(py, what));
        }
        obj.call_method0("undeclare").map(|_| ())
    }

    /// Publishes a value.
    #[pyo3(
        signature = (
            key_expr, payload, *, encoding=None, congestion_control=None, priority=None, express=None,
            attachment=None, timestamp=None, timestamp_instrumentation=None, allowed_destination=None,
            source_info=None, _turn=None
        ),
        text_signature = "($self, key_expr, payload, *, encoding=None, congestion_control=None, priority=None, \
            express=None, attachment=None, timestamp=None, timestamp_instrumentation=None, \
            allowed_destination=None, source_info=None)"
    )]
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
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        let publication = Publication {
            key: keyexpr::extract(key_expr)?,
            body: self.body(payload, encoding, attachment, timestamp, source_info)?,
            qos: qos(Qos::DEFAULT, congestion_control, priority, express),
            reliability: Reliability::Reliable,
            destination: locality(allowed_destination),
            stamps: stamps::wanted(py, &self.0, timestamp_instrumentation)?,
        };
        self.0.command(py, _turn.map(Bound::get), |engine, call| engine.put(publication, call).map(drop))
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
    ) -> PyResult<crate::zenoh::put_batch::PutSummary> {
        crate::zenoh::put_batch::put_batch(py, self, batch, key_expr, congestion_control, priority, express)
    }

    /// Memory for a payload that is written in place and then sent by `put` without a copy: `loan(nbytes)`, or
    /// `loan(shape, dtype)` for a NumPy array.
    #[pyo3(signature = (shape, dtype=None))]
    fn loan(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Loan> {
        Loan::of_session(self.0.look(py)?, shape, dtype)
    }

    /// Publishes a deletion.
    #[pyo3(
        signature = (
            key_expr, *, congestion_control=None, priority=None, express=None, attachment=None, timestamp=None,
            timestamp_instrumentation=None, allowed_destination=None, source_info=None, _turn=None
        ),
        text_signature = "($self, key_expr, *, congestion_control=None, priority=None, express=None, attachment=None, \
            timestamp=None, timestamp_instrumentation=None, allowed_destination=None, source_info=None)"
    )]
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
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        let publication = Publication {
            key: keyexpr::extract(key_expr)?,
            body: del_body(attachment, timestamp, source_info)?,
            qos: qos(Qos::DEFAULT, congestion_control, priority, express),
            reliability: Reliability::Reliable,
            destination: locality(allowed_destination),
            stamps: stamps::wanted(py, &self.0, timestamp_instrumentation)?,
        };
        self.0.command(py, _turn.map(Bound::get), |engine, call| engine.put(publication, call).map(drop))
    }

    /// Queries queryables; replies arrive through the handler.
    #[pyo3(
        signature = (
            selector, handler=None, *, target=None, consolidation=None, accept_replies=None, timeout=None,
            congestion_control=None, priority=None, express=None, payload=None, encoding=None, attachment=None,
            allowed_destination=None, source_info=None, cancellation_token=None, timestamp_instrumentation=None,
            budget=None, _turn=None
        ),
        text_signature = "($self, selector, handler=None, *, target=None, consolidation=None, accept_replies=None, \
            timeout=None, congestion_control=None, priority=None, express=None, payload=None, encoding=None, \
            attachment=None, allowed_destination=None, source_info=None, cancellation_token=None, \
            timestamp_instrumentation=None, budget=None)"
    )]
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
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<Py<PyAny>> {
        let (key, parameters) = selector::extract(selector)?;
        let get = Get {
            parameters,
            target: target.map_or(QueryTarget::BestMatching, |t| t.0),
            consolidation: enums::consolidation(consolidation)?,
            budget: bodies::budget(py, budget)?,
            timeout: seconds(timeout)?,
            qos: qos(Qos::REQUEST, congestion_control, priority, express),
            body: query_body(&self.0.0.engine, payload, encoding)?,
            attachment: zbytes::attachment(attachment)?,
            source_info: sample::source_info(source_info)?,
            accept_any_key: accept_replies.is_some_and(|a| a.0 == enums::ReplyKey::Any),
            destination: locality(allowed_destination),
            stamps: stamps::wanted(py, &self.0, timestamp_instrumentation)?,
            ..Get::new(key)
        };
        reply::start(py, HandlerArg::parse(py, handler)?, &self.0, cancellation_token, |handler| {
            self.0.command(py, _turn.map(Bound::get), |engine, call| engine.get(get, handler, call))
        })
    }

    /// Declares a subscriber for a key expression.
    #[pyo3(signature = (key_expr, handler=None, *, allowed_origin=None))]
    fn declare_subscriber(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        handler: Option<&Bound<'_, PyAny>>,
        allowed_origin: Option<enums::PyLocality>,
    ) -> PyResult<Py<Subscriber>> {
        let options = SubscriberOptions { origin: locality(allowed_origin) };
        Subscriber::declare(py, &self.0, keyexpr::extract(key_expr)?, handler, |engine, key, handler| {
            engine.declare_subscriber(key, options, handler)
        })
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
    ) -> PyResult<Py<Queryable>> {
        let key = keyexpr::extract(key_expr)?;
        let options =
            QueryableOptions { complete: complete.unwrap_or(false), origin: locality(allowed_origin) };
        let declare = |engine: &Engine, key, handler| engine.declare_queryable(key, options, handler);
        let (base, _) = Receiver::declare(py, (&self.0, "queryable"), key, handler, declare)?;
        Py::new(py, (Queryable, base))
    }

    /// Declares a publisher for a key expression.
    #[pyo3(signature = (
        key_expr, *, encoding=None, congestion_control=None, priority=None, express=None, reliability=None,
        allowed_destination=None
    ))]
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
    ) -> PyResult<Py<Publisher>> {
        let key = keyexpr::extract(key_expr)?;
        let encoding = encoding::extract_option(encoding)?.unwrap_or(Encoding::DEFAULT);
        let options = PublisherOptions {
            qos: qos(Qos::DEFAULT, congestion_control, priority, express),
            reliability: reliability.map_or(Reliability::Reliable, |r| r.0),
            destination: locality(allowed_destination),
        };
        let (declared, with) = (key.clone(), options.clone());
        let id = self.0.run(py, move |engine, _| engine.declare_publisher(declared, with))?;
        let declared = Declared::new(self.0.clone(), id, "publisher");
        Py::new(py, (Publisher { encoding, options }, Sender { declared, key }))
    }

    /// Declares a querier for a key expression.
    #[pyo3(signature = (
        key_expr, *, target=None, consolidation=None, accept_replies=None, timeout=None,
        congestion_control=None, priority=None, express=None, allowed_destination=None, budget=None
    ))]
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
    ) -> PyResult<Py<Querier>> {
        let key = keyexpr::extract(key_expr)?;
        let options = QuerierOptions {
            target: target.map_or(QueryTarget::BestMatching, |t| t.0),
            consolidation: enums::consolidation(consolidation)?,
            budget: bodies::budget(py, budget)?,
            timeout: seconds(timeout)?,
            qos: qos(Qos::REQUEST, congestion_control, priority, express),
            accept_any_key: accept_replies.is_some_and(|a| a.0 == enums::ReplyKey::Any),
            destination: locality(allowed_destination),
        };
        let declared = key.clone();
        let id = self.0.run(py, move |engine, _| engine.declare_querier(declared, options))?;
        let declared = Declared::new(self.0.clone(), id, "querier");
        Py::new(py, (Querier { options }, Sender { declared, key }))
    }
}
