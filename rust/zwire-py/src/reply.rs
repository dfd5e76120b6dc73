//! `Reply`, `ReplyError`, and how a get is started.

use crate::{
    encoding::PyEncoding,
    errors,
    handlers::{Handler, HandlerArg, Item},
    sample::{PyEntityGlobalId, PySample},
    session::Handle,
    zbytes::PyZBytes,
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};
use zwire_engine::Replies;
use zwire_proto::zenoh::session::{Get, GetId, Reply as Proto, ReplyError as ProtoError};

/// An error that a queryable answered.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct ReplyError(ProtoError);

#[pymethods]
impl ReplyError {
    /// What went wrong, in the format of the encoding.
    #[getter]
    fn payload(&self) -> PyZBytes {
        PyZBytes(self.0.payload.clone())
    }

    /// What the payload holds.
    #[getter]
    fn encoding(&self) -> PyEncoding {
        PyEncoding(self.0.encoding.clone())
    }

    /// Always None: instrumentation of 1.10 is passed on by routers and not kept.
    #[getter]
    fn timestamp_stack(&self, py: Python<'_>) -> Py<PyAny> {
        py.None()
    }

    fn __repr__(&self) -> String {
        format!("ReplyError({:?})", String::from_utf8_lossy(&self.0.payload))
    }
}

/// An answer to a get: a sample or an error.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct Reply {
    result: Py<PyAny>,
    ok: bool,
    replier: Option<PyEntityGlobalId>,
}

#[pymethods]
impl Reply {
    /// The sample or the error.
    #[getter]
    fn result(&self, py: Python<'_>) -> Py<PyAny> {
        self.result.clone_ref(py)
    }

    /// The sample, if it is one.
    #[getter]
    fn ok(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.ok.then(|| self.result.clone_ref(py))
    }

    /// The error, if it is one.
    #[getter]
    fn err(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        (!self.ok).then(|| self.result.clone_ref(py))
    }

    /// Who answered, where it said so.
    #[getter]
    fn replier_id(&self) -> Option<PyEntityGlobalId> {
        self.replier
    }
}

impl Item for Proto {
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (result, ok) = match self.result {
            Ok(sample) => (Py::new(py, PySample(sample))?.into_any(), true),
            Err(error) => (Py::new(py, ReplyError(error))?.into_any(), false),
        };
        let replier = self.replier.map(|r| PyEntityGlobalId::of(r.zid, r.eid));
        Ok(Py::new(py, Reply { result, ok, replier })?.into_any())
    }
}

struct Running {
    session: Weak<crate::session::SessionRef>,
    get: GetId,
}

/// Ends gets early: given to any number of them, cancelled once.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct CancellationToken {
    cancelled: AtomicBool,
    running: Mutex<Vec<Running>>,
}

#[pymethods]
impl CancellationToken {
    #[new]
    const fn new() -> Self {
        Self { cancelled: AtomicBool::new(false), running: Mutex::new(Vec::new()) }
    }

    /// Ends every get that was started with this token and is not over.
    fn cancel(&self, py: Python<'_>) {
        self.cancelled.store(true, Ordering::Release);
        let running = core::mem::take(&mut *self.running.lock());
        py.detach(|| {
            for Running { session, get } in running {
                if let Some(session) = session.upgrade() {
                    // A closed session has no gets any more.
                    let _ = session.engine.cancel(get);
                }
            }
        });
    }

    /// Whether `cancel` was called.
    #[getter]
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// Checks a token before a get, and remembers the get after it.
fn check_token(py: Python<'_>, token: Option<&Bound<'_, CancellationToken>>) -> PyResult<()> {
    match token {
        Some(token) if token.get().is_cancelled() => {
            Err(errors::usage(py, "the cancellation token is cancelled already"))
        }
        _ => Ok(()),
    }
}

fn remember(session: &Handle, token: Option<&Bound<'_, CancellationToken>>, get: GetId) {
    if let Some(token) = token {
        token.get().running.lock().push(Running { session: Arc::downgrade(&session.0), get });
    }
}

fn attach(py: Python<'_>, handler: HandlerArg, replies: &Replies) -> PyResult<Py<PyAny>> {
    match handler {
        HandlerArg::Channel(_) => Ok(Py::new(py, Handler::of_get(replies))?.into_any()),
        callback @ HandlerArg::Callback { .. } => callback.attach(py, &replies.queue),
    }
}

/// Starts a get: a channel of replies, or what was given with the callback.
pub(crate) fn start(
    py: Python<'_>,
    session: &Handle,
    get: Get,
    handler: HandlerArg,
    token: Option<&Bound<'_, CancellationToken>>,
) -> PyResult<Py<PyAny>> {
    check_token(py, token)?;
    let engine_handler = handler.engine();
    let (id, replies) =
        session.run(py, move |engine, interrupted| engine.get(get, engine_handler, interrupted))?;
    remember(session, token, id);
    attach(py, handler, &replies)
}

/// Starts a get of tokens.
pub(crate) fn start_liveliness(
    py: Python<'_>,
    session: &Handle,
    key: zwire_proto::zenoh::KeyExpr,
    timeout: Option<core::time::Duration>,
    handler: HandlerArg,
    token: Option<&Bound<'_, CancellationToken>>,
) -> PyResult<Py<PyAny>> {
    check_token(py, token)?;
    let engine_handler = handler.engine();
    let (id, replies) =
        session.run(py, move |engine, _| engine.liveliness_get(key, timeout, engine_handler))?;
    remember(session, token, id);
    attach(py, handler, &replies)
}
