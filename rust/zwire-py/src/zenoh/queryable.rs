//! `Queryable` and `Query`: queries to this session.

use crate::{
    errors::{self, OrRaise},
    loops::{
        calling::Item,
        ending::import,
        once::Once,
        turn::{Call, Turn},
    },
    zenoh::{
        bodies::{del_body, put_body, reply_key},
        encoding, enums,
        keyexpr::{self, PyKeyExpr},
        open_query::{End, Handed, OpenQuery},
        receiver::Receiver,
        sample::PySourceInfo,
        selector::{PyParameters, PySelector},
        stamps::{self, PyTimestampStack},
        zbytes::{self, Copier, PyZBytes},
    },
};
use pyo3::{
    exceptions::{PyBaseException, PyException},
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::sync::Arc;
use zwire_engine::{Query as Engine, config::ErrorReply, runtime::Birth};
use zwire_proto::zenoh::{
    Encoding, KeyExpr, Parameters,
    session::{QueryReply, QueryReplyBody, ReplyError},
    wire::TsStack,
};

/// A declared queryable. A context manager, and an iterator over its queries unless it has a
/// callback. It undeclares itself when it is dropped, unless it has a callback.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic, extends = Receiver)]
pub(crate) struct Queryable;

attributes! { Queryable in Bound, |slf|
    /// Number of exceptions raised by its callback.
    errors: u64 = slf.as_super().get().life.errors();
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

    fn failed(item: &Bound<'_, PyAny>, error: &Bound<'_, PyBaseException>) {
        if let Ok(query) = item.cast::<Query>() {
            query.get().fail(error);
        }
    }
}

/// A query, to be answered any number of times. The asker is told that no more replies come when the
/// query is dropped, left as a context manager, or not referenced any more; also when the callback or
/// loop iteration that got it has answered it and ends, even if another object still refers to it.
#[pyclass(module = "zwire.zenoh", frozen, weakref)]
pub(crate) struct Query {
    key: KeyExpr,
    parameters: zwire_proto::Text,
    any_key: bool,
    source_info: Option<zwire_proto::zenoh::wire::SourceInfo>,
    body: Option<zwire_proto::zenoh::wire::QueryBody>,
    attachment: Option<bytes::Bytes>,
    /// Stack of time stamps, and the callback that makes those of this session, unless the clock does.
    stamps: Option<(TsStack, Option<Arc<stamps::Callback>>)>,
    open: Arc<OpenQuery>,
    birth: Birth,
}

/// Makes the payload and the encoding of an error reply, in Python.
fn describe<'py>(
    py: Python<'py>,
    error: &Bound<'py, PyBaseException>,
    traceback: bool,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    static DESCRIBE: Once<Py<PyAny>> = Once::new();
    let describe = DESCRIBE.get(|| Ok(import(py, "zwire._failure")?.getattr("describe")?.unbind()))?;
    describe.bind(py).call1((error, traceback))?.extract()
}

impl Query {
    /// Payload and encoding of the error reply for an exception of the program. None if the configuration wants no
    /// reply, if the query is finished, and for what ends a program, such as `SystemExit`.
    fn failure<'py>(
        &self,
        error: &Bound<'py, PyBaseException>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let py = error.py();
        let Ok(query) = self.open.query(py) else { return Ok(None) };
        let wanted = query.error_reply();
        if wanted == ErrorReply::Nothing || !error.is_instance_of::<PyException>() {
            return Ok(None);
        }
        describe(py, error, wanted == ErrorReply::Traceback).map(Some)
    }

    /// Replies with an exception of the program, which the caller reports.
    fn fail(&self, error: &Bound<'_, PyBaseException>) {
        let sent = self.failure(error).and_then(|failure| {
            let Some((payload, encoding)) = failure else { return Ok(()) };
            self.reply_err(error.py(), &payload, Some(&encoding), None)
        });
        if let Err(problem) = sent {
            tracing::warn!(key = %self.key, %problem, "no error reply for an exception of the program");
        }
    }

    fn send(
        &self,
        py: Python<'_>,
        body: QueryReplyBody,
        express: Option<bool>,
        turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        self.birth.check().or_raise(py)?;
        let engine = self.open.query(py)?;
        let clock = || engine.new_timestamp().or_raise(py);
        let stamps = match &self.stamps {
            Some((stack, callback)) => Some(stamps::sent(py, stack.clone(), callback.as_deref(), clock)?),
            None => None,
        };
        let reply = QueryReply { body, express, stamps };
        let mut call = Call::new(py, turn.map(Bound::get));
        let result = engine.reply(reply, &mut call);
        call.end(result)?;
        self.open.answered();
        Ok(())
    }
}

attributes! { Query, |this|
    /// Key expression and parameters of the query.
    selector: PySelector = PySelector::of(this.key.clone(), Parameters::from(this.parameters.clone()));
    /// Key expression of the query.
    key_expr: PyKeyExpr = PyKeyExpr(this.key.clone());
    /// Parameters: the part of the selector after the `?`.
    parameters: PyParameters = PyParameters::of(Parameters::from(this.parameters.clone()));
    /// Value sent with the query.
    payload: Option<PyZBytes> = this.body.as_ref().map(|body| body.payload.clone().into());
    /// Encoding of the value.
    encoding: Option<encoding::PyEncoding> =
        this.body.as_ref().map(|body| encoding::PyEncoding(body.encoding.clone()));
    /// Attachment of the asker.
    attachment: Option<PyZBytes> = this.attachment.clone().map(PyZBytes::from);
    /// Entity that asks.
    source_info: Option<PySourceInfo> = this.source_info.map(PySourceInfo);
    /// Time stamps of its way, if the asker wants them. Replies continue the stack.
    timestamp_stack: Option<PyTimestampStack> = stamps::shown(this.stamps.as_ref().map(|(stack, _)| stack));
}

#[pymethods]
impl Query {
    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Replies with the exception that ends the block, if one does, and finishes the query.
    #[pyo3(signature = (*args, **_kwargs))]
    fn __exit__(&self, py: Python<'_>, args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) {
        if let Ok(error) = args.get_item(1)
            && let Ok(error) = error.cast::<PyBaseException>()
        {
            self.fail(error);
        }
        self.drop(py);
    }
}

represented! { Query, |slf| {
    let state = if slf.get().open.query(slf.py()).is_ok() { "open" } else { "finished" };
    format!("{} {state}", slf.get().__str__())
} }

methods! { Query, |this, py|
    /// Keys on which the asker accepts replies.
    accepts_replies: enums::PyReplyKeyExpr = reply_key(this.any_key);
    /// Finishes the query, so that the asker gets its final response. Does nothing the second time.
    drop: () = this.open.end(py, End::Dropped);
}

#[pymethods]
impl Query {
    fn __str__(&self) -> String {
        if self.parameters.is_empty() {
            self.key.as_str().to_owned()
        } else {
            format!("{}?{}", self.key.as_str(), self.parameters)
        }
    }

    /// Replies with a value.
    ///
    /// Congestion control and priority are those of the query: the arguments are accepted for
    /// compatibility, and have no effect, as in eclipse-zenoh.
    #[pyo3(
        signature = (
            key_expr, payload, *, encoding=None, congestion_control=None, priority=None, express=None,
            attachment=None, timestamp=None, _turn=None
        ),
        text_signature = "($self, key_expr, payload, *, encoding=None, congestion_control=None, priority=None, \
            express=None, attachment=None, timestamp=None)"
    )]
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
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        let _ = (congestion_control, priority);
        let key = keyexpr::extract(key_expr)?;
        let query = self.open.query(py)?;
        let copier: Copier<'_> = &|bytes| query.copy(bytes);
        let body = put_body(Some(copier), payload, encoding, Encoding::DEFAULT, attachment, timestamp, None)?;
        self.send(py, QueryReplyBody::Sample { key, body }, express, _turn)
    }

    /// Replies with an error.
    #[pyo3(
        signature = (payload, *, encoding=None, _turn=None),
        text_signature = "($self, payload, *, encoding=None)"
    )]
    fn reply_err(
        &self,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        encoding: Option<&Bound<'_, PyAny>>,
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        let encoding = encoding::extract_option(encoding)?.unwrap_or(Encoding::DEFAULT);
        let payload = zbytes::payload(payload, "payload")?;
        self.send(py, QueryReplyBody::Err(ReplyError { encoding, payload, stamps: None }), None, _turn)
    }

    /// Replies with a deletion. Congestion control and priority as in `reply`.
    #[pyo3(
        signature = (
            key_expr, *, congestion_control=None, priority=None, express=None, attachment=None, timestamp=None, _turn=None
        ),
        text_signature = "($self, key_expr, *, congestion_control=None, priority=None, express=None, attachment=None, \
            timestamp=None)"
    )]
    fn reply_del(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        congestion_control: Option<enums::PyCongestionControl>,
        priority: Option<enums::PyPriority>,
        express: Option<bool>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        let _ = (congestion_control, priority);
        let key = keyexpr::extract(key_expr)?;
        let body = del_body(attachment, timestamp, None)?;
        self.send(py, QueryReplyBody::Sample { key, body }, express, _turn)
    }
}

/// Payload and encoding of the error reply for an exception of a program in an event loop, or None for no reply.
#[pyfunction]
pub(crate) fn failure_of<'py>(
    query: &Bound<'py, Query>,
    error: &Bound<'py, PyBaseException>,
) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    query.get().failure(error)
}

/// Ends a query after its callback or loop iteration has returned in an event loop: `returned`, `raised` or
/// `went-on`. The error of later replies names the reason.
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
