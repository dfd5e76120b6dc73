//! `Queryable` and `Query`: questions to this session.

use crate::{
    errors,
    loops::item::Item,
    zenoh::{
        bodies::{del_body, put_body, reply_key},
        encoding, enums,
        handle::Handle,
        handlers::HandlerArg,
        keyexpr::{self, PyKeyExpr},
        open_query::{End, Handed, OpenQuery},
        parameters::PyParameters,
        receiver::Receiver,
        sample::PySourceInfo,
        selector::PySelector,
        stamps::{self, PyTimestampStack},
        zbytes::{self, PyZBytes},
    },
};
use pyo3::{prelude::*, types::PyDict};
use std::sync::Arc;
use zwire_engine::{Error, Query as Engine, Queue, runtime::Birth};
use zwire_proto::zenoh::{
    Encoding, KeyExpr, Parameters,
    session::{EntityId, QueryReply, QueryReplyBody, ReplyError},
    wire::TsStack,
};

/// A declared queryable. A context manager, and an iterator over its queries unless it has a
/// callback. It undeclares itself when it is dropped, unless it has a callback.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic, extends = Receiver)]
pub(crate) struct Queryable;

impl Queryable {
    pub(crate) fn new(
        py: Python<'_>,
        session: Handle,
        id: EntityId,
        key: KeyExpr,
        queue: Arc<Queue<Engine>>,
        handler: HandlerArg,
    ) -> PyResult<Py<Self>> {
        let base = Receiver::new(py, (session, id, "queryable"), key, queue, handler)?;
        Py::new(py, (Self, base))
    }
}

#[pymethods]
impl Queryable {
    /// How often its callback has raised.
    #[getter]
    fn errors(slf: &Bound<'_, Self>) -> u64 {
        slf.as_super().get().life.errors()
    }
}

impl Item for Engine {
    const IS_ANSWERED: bool = true;

    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (key, parameters) = (self.key.clone(), self.parameters.clone());
        let stamps = self.stamps.clone().map(|stamps| stamps::taken(py, *stamps));
        let query = Query {
            key,
            parameters,
            any_key: self.accept_any_key,
            source_info: self.source_info,
            body: self.body.clone(),
            attachment: self.attachment.clone(),
            stamps,
            open: OpenQuery::new(self),
            birth: Birth::here(),
        };
        Ok(Py::new(py, query)?.into_any())
    }

    fn handed(item: &Bound<'_, PyAny>) -> Option<Handed> {
        item.cast::<Query>().ok().map(|query| Handed::new(&query.get().open))
    }
}

/// A question to answer, any number of times. The asker is told that no more answers come when the
/// query is dropped, left as a context manager, or nothing refers to it; also when the callback or the turn of
/// a loop that got it has answered it and is over, whoever keeps it.
#[pyclass(module = "zwire.zenoh", frozen, weakref)]
pub(crate) struct Query {
    key: KeyExpr,
    parameters: zwire_proto::Text,
    any_key: bool,
    source_info: Option<zwire_proto::zenoh::wire::SourceInfo>,
    body: Option<zwire_proto::zenoh::wire::QueryBody>,
    attachment: Option<bytes::Bytes>,
    /// With who makes those of this session, if the clock does not.
    stamps: Option<(TsStack, Option<Arc<stamps::Callback>>)>,
    open: Arc<OpenQuery>,
    birth: Birth,
}

impl Query {
    fn send(&self, py: Python<'_>, body: QueryReplyBody, express: Option<bool>) -> PyResult<()> {
        self.birth.check().map_err(|error| errors::engine(py, &error))?;
        let engine = self.open.query(py)?;
        let clock = || engine.new_timestamp().map_err(|error| errors::engine(py, &error));
        let stamps = match &self.stamps {
            Some((stack, callback)) => Some(stamps::sent(py, stack.clone(), callback.as_deref(), clock)?),
            None => None,
        };
        let reply = QueryReply { body, express, stamps };
        let mut interrupt = crate::loops::interrupt::Interrupt::default();
        let result = py.detach(|| engine.reply(reply, &mut || interrupt.check()));
        match result {
            Ok(()) => {
                self.open.answered();
                Ok(())
            }
            Err(Error::Interrupted) => {
                interrupt.raise()?;
                Err(errors::engine(py, &Error::Interrupted))
            }
            Err(error) => Err(errors::engine(py, &error)),
        }
    }
}

#[pymethods]
impl Query {
    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args, **_kwargs))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyDict>>) {
        self.drop(py);
    }

    fn __str__(&self) -> String {
        if self.parameters.is_empty() {
            self.key.as_str().to_owned()
        } else {
            format!("{}?{}", self.key.as_str(), self.parameters)
        }
    }

    /// What is asked for, with parameters.
    #[getter]
    fn selector(&self) -> PySelector {
        PySelector::of(self.key.clone(), Parameters::from(self.parameters.clone()))
    }

    /// What is asked for.
    #[getter]
    fn key_expr(&self) -> PyKeyExpr {
        PyKeyExpr(self.key.clone())
    }

    /// What stands behind the `?` of the selector.
    #[getter]
    fn parameters(&self) -> PyParameters {
        PyParameters::of(Parameters::from(self.parameters.clone()))
    }

    /// The value that came with it.
    #[getter]
    fn payload(&self) -> Option<PyZBytes> {
        self.body.as_ref().map(|body| PyZBytes(body.payload.clone()))
    }

    /// What the value holds.
    #[getter]
    fn encoding(&self) -> Option<encoding::PyEncoding> {
        self.body.as_ref().map(|body| encoding::PyEncoding(body.encoding.clone()))
    }

    /// Bytes of the asker.
    #[getter]
    fn attachment(&self) -> Option<PyZBytes> {
        self.attachment.clone().map(PyZBytes)
    }

    /// Who asks.
    #[getter]
    fn source_info(&self) -> Option<PySourceInfo> {
        self.source_info.map(PySourceInfo)
    }

    /// When it passed where, if the asker wants to know. Answers go on with it.
    #[getter]
    fn timestamp_stack(&self) -> Option<PyTimestampStack> {
        stamps::shown(self.stamps.as_ref().map(|(stack, _)| stack))
    }

    /// Which keys the asker accepts.
    fn accepts_replies(&self) -> enums::PyReplyKeyExpr {
        reply_key(self.any_key)
    }

    /// Answers with a value.
    ///
    /// Congestion control and priority are those of the query: they are accepted for compatibility,
    /// and have no effect, as in the reference.
    #[pyo3(signature = (
        key_expr, payload, *, encoding=None, congestion_control=None, priority=None, express=None,
        attachment=None, timestamp=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn reply(
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
    ) -> PyResult<()> {
        let _ = (congestion_control, priority);
        let key = keyexpr::extract(key_expr)?;
        let body = put_body(payload, encoding, Encoding::DEFAULT, attachment, timestamp, None)?;
        self.send(py, QueryReplyBody::Sample { key, body }, express)
    }

    /// Answers with an error.
    #[pyo3(signature = (payload, *, encoding=None))]
    fn reply_err(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        encoding: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let encoding = encoding::extract_option(encoding)?.unwrap_or(Encoding::DEFAULT);
        let payload = zbytes::extract(payload)?;
        self.send(py, QueryReplyBody::Err(ReplyError { encoding, payload, stamps: None }), None)
    }

    /// Answers with a deletion. Congestion control and priority as in `reply`.
    #[pyo3(signature = (
        key_expr, *, congestion_control=None, priority=None, express=None, attachment=None, timestamp=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn reply_del(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        congestion_control: Option<enums::PyCongestionControl>,
        priority: Option<enums::PyPriority>,
        express: Option<bool>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (congestion_control, priority);
        let key = keyexpr::extract(key_expr)?;
        let body = del_body(attachment, timestamp, None)?;
        self.send(py, QueryReplyBody::Sample { key, body }, express)
    }

    /// Tells the asker that no more answers come. Does nothing the second time.
    fn drop(&self, py: Python<'_>) {
        self.open.end(py, End::Dropped);
    }
}

/// Ends a query whose callback, or turn of a loop, has come back in an event loop: `returned`, `raised` or
/// `went-on`. Its answers say so from then on.
#[pyfunction]
pub(crate) fn end_query(py: Python<'_>, query: &Bound<'_, Query>, how: &str) -> PyResult<()> {
    let how = match how {
        "returned" => End::Returned,
        "raised" => End::Raised,
        "went-on" => End::LoopWentOn,
        _ => {
            return Err(errors::invalid(py, format!("how must be returned, raised or went-on, not {how:?}")));
        }
    };
    query.get().open.end(py, how);
    Ok(())
}
