//! `Querier`: repeated gets on one key expression.

use crate::{
    declared::Declared,
    enums,
    handlers::HandlerArg,
    keyexpr::PyKeyExpr,
    publisher::{MatchingListener, MatchingStatus, matching_status},
    reply,
    sample::{self, PyEntityGlobalId},
    session::{Handle, parameters, query_body, reply_key},
    stamps, zbytes,
};
use pyo3::{prelude::*, types::PyDict};
use zwire_proto::zenoh::{
    KeyExpr,
    session::{EntityId, Get, QuerierOptions},
};

/// A declared querier. A context manager; it undeclares itself when it is dropped.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic)]
pub(crate) struct Querier {
    pub(crate) declared: Declared,
    key: KeyExpr,
    options: QuerierOptions,
}

impl Querier {
    pub(crate) const fn new(session: Handle, id: EntityId, key: KeyExpr, options: QuerierOptions) -> Self {
        Self { declared: Declared::new(session, id, "querier"), key, options }
    }
}

#[pymethods]
impl Querier {
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

    /// Id of the querier.
    #[getter]
    fn id(&self) -> PyEntityGlobalId {
        self.declared.global_id()
    }

    /// Key expression that it queries.
    #[getter]
    fn key_expr(&self) -> PyKeyExpr {
        PyKeyExpr(self.key.clone())
    }

    /// Keys on which it accepts replies.
    #[getter]
    fn accept_replies(&self) -> enums::PyReplyKeyExpr {
        reply_key(self.options.accept_any_key)
    }

    /// Whether there is a matching queryable.
    #[getter]
    fn matching_status(&self, py: Python<'_>) -> PyResult<MatchingStatus> {
        matching_status(py, &self.declared.session, self.declared.id)
    }

    /// Sends a query; replies arrive through the handler.
    #[pyo3(signature = (
        handler=None, *, parameters=None, payload=None, encoding=None, attachment=None, source_info=None,
        cancellation_token=None, timestamp_instrumentation=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn get(
        &self,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyAny>>,
        payload: Option<&Bound<'_, PyAny>>,
        encoding: Option<&Bound<'_, PyAny>>,
        attachment: Option<&Bound<'_, PyAny>>,
        source_info: Option<&Bound<'_, PyAny>>,
        cancellation_token: Option<&Bound<'_, reply::CancellationToken>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.declared.check(py)?;
        let options = &self.options;
        let get = Get {
            parameters: self::parameters(parameters)?,
            target: options.target,
            consolidation: options.consolidation,
            timeout: options.timeout,
            budget: options.budget,
            qos: options.qos,
            body: query_body(payload, encoding)?,
            attachment: zbytes::extract_option(attachment)?,
            source_info: sample::source_info(source_info)?,
            accept_any_key: options.accept_any_key,
            destination: options.destination,
            querier: Some(self.declared.id),
            stamps: stamps::wanted(py, &self.declared.session, timestamp_instrumentation)?,
            ..Get::new(self.key.clone())
        };
        reply::start(py, &self.declared.session, get, HandlerArg::parse(py, handler)?, cancellation_token)
    }

    /// Waits until at least `n` queryables are known. Raises `TimedOut` after `timeout` seconds, if
    /// given.
    ///
    /// Queryables of this session count one by one, remote ones as reported by the neighbours: a router
    /// reports each key expression once, however many queryables are behind it.
    #[pyo3(signature = (n=1, timeout=None))]
    fn wait_matching(&self, py: Python<'_>, n: usize, timeout: Option<f64>) -> PyResult<()> {
        self.declared.wait_matching(py, n, timeout)
    }

    /// Undeclares the querier. A second call is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        self.declared.undeclare(py)
    }

    /// Listens for changes of the matching status.
    #[pyo3(signature = (handler=None))]
    fn declare_matching_listener(
        &self,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<MatchingListener> {
        MatchingListener::new(py, &self.declared.session, self.declared.id, handler)
    }
}
