//! `Querier`: repeated gets on one key expression.

use crate::{
    loops::turn::Turn,
    zenoh::{
        bodies::{parameters, query_body, reply_key},
        declared::Sender,
        enums,
        handlers::HandlerArg,
        publisher::matching,
        reply, sample, stamps, zbytes,
    },
};
use pyo3::prelude::*;
use zwire_proto::zenoh::session::{Get, QuerierOptions};

/// A declared querier. A context manager; it undeclares itself when it is dropped.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic, extends = Sender)]
pub(crate) struct Querier {
    pub(crate) options: QuerierOptions,
}

attributes! { Querier, |this|
    /// Keys on which it accepts replies.
    accept_replies: enums::PyReplyKeyExpr = reply_key(this.options.accept_any_key);
}

matching! { Querier, "Whether there is a matching queryable." }

#[pymethods]
impl Querier {
    /// Sends a query; replies arrive through the handler.
    #[pyo3(
        signature = (
            handler=None, *, parameters=None, payload=None, encoding=None, attachment=None, source_info=None,
            cancellation_token=None, timestamp_instrumentation=None, _turn=None
        ),
        text_signature = "($self, handler=None, *, parameters=None, payload=None, encoding=None, attachment=None, \
            source_info=None, cancellation_token=None, timestamp_instrumentation=None)"
    )]
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
            body: query_body(&declared.session.0.engine, payload, encoding)?,
            attachment: zbytes::attachment(attachment)?,
            source_info: sample::source_info(source_info)?,
            accept_any_key: options.accept_any_key,
            destination: options.destination,
            querier: Some(declared.id),
            stamps: stamps::wanted(py, &declared.session, timestamp_instrumentation)?,
            ..Get::new(slf.as_super().get().key.clone())
        };
        reply::start(py, HandlerArg::parse(py, handler)?, &declared.session, cancellation_token, |handler| {
            declared.session.command(py, _turn.map(Bound::get), |engine, call| engine.get(get, handler, call))
        })
    }
}
