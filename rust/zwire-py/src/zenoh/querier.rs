//! `Querier`: repeated gets on one key expression.

use crate::{
    loops::turn::Turn,
    zenoh::{
        bodies::{parameters, query_body, reply_key},
        declared::Declared,
        enums,
        handle::Handle,
        handlers::HandlerArg,
        publisher::{MatchingListener, MatchingStatus, matching_status},
        reply, sample,
        sender::Sender,
        stamps, zbytes,
    },
};
use pyo3::prelude::*;
use zwire_proto::zenoh::{
    KeyExpr,
    session::{EntityId, Get, QuerierOptions},
};

/// A declared querier. A context manager; it undeclares itself when it is dropped.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic, extends = Sender)]
pub(crate) struct Querier {
    options: QuerierOptions,
}

impl Querier {
    pub(crate) fn new(
        py: Python<'_>,
        session: Handle,
        id: EntityId,
        key: KeyExpr,
        options: QuerierOptions,
    ) -> PyResult<Py<Self>> {
        let base = Sender { declared: Declared::new(session, id, "querier"), key };
        Py::new(py, (Self { options }, base))
    }
}

attributes! { Querier, |this|
    /// Keys on which it accepts replies.
    accept_replies: enums::PyReplyKeyExpr = reply_key(this.options.accept_any_key);
}

#[pymethods]
impl Querier {
    /// Whether there is a matching queryable.
    #[getter]
    fn matching_status(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<MatchingStatus> {
        let declared = &slf.as_super().get().declared;
        matching_status(py, &declared.session, declared.id)
    }

    /// Sends a query; replies arrive through the handler.
    #[pyo3(
        signature = (
            handler=None, *, parameters=None, payload=None, encoding=None, attachment=None, source_info=None,
            cancellation_token=None, timestamp_instrumentation=None, _turn=None
        ),
        text_signature = "($self, handler=None, *, parameters=None, payload=None, encoding=None, attachment=None, \
            source_info=None, cancellation_token=None, timestamp_instrumentation=None)"
    )]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn get(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyAny>>,
        payload: Option<&Bound<'_, PyAny>>,
        encoding: Option<&Bound<'_, PyAny>>,
        attachment: Option<&Bound<'_, PyAny>>,
        source_info: Option<&Bound<'_, PyAny>>,
        cancellation_token: Option<&Bound<'_, reply::CancellationToken>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<Py<PyAny>> {
        let declared = &slf.as_super().get().declared;
        declared.check(py)?;
        let options = &slf.get().options;
        let get = Get {
            parameters: self::parameters(parameters)?,
            target: options.target,
            consolidation: options.consolidation,
            timeout: options.timeout,
            budget: options.budget,
            qos: options.qos,
            body: query_body(payload, encoding)?,
            attachment: zbytes::attachment(attachment)?,
            source_info: sample::source_info(source_info)?,
            accept_any_key: options.accept_any_key,
            destination: options.destination,
            querier: Some(declared.id),
            stamps: stamps::wanted(py, &declared.session, timestamp_instrumentation)?,
            ..Get::new(slf.as_super().get().key.clone())
        };
        reply::start(py, HandlerArg::parse(py, handler)?, &declared.session, cancellation_token, |handler| {
            declared.session.command(py, _turn, |engine, call| engine.get(get, handler, call))
        })
    }

    /// Listens for changes of the matching status.
    #[pyo3(signature = (handler=None))]
    fn declare_matching_listener(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<MatchingListener>> {
        let declared = &slf.as_super().get().declared;
        MatchingListener::new(py, &declared.session, declared.id, handler)
    }
}
