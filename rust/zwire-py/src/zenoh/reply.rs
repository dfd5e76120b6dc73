//! `Reply` and `ReplyError`, and starting a get.

use crate::{
    errors,
    loops::{
        calling::{Item, Life},
        interrupt::waiting,
    },
    zenoh::{
        encoding::PyEncoding,
        handle::Handle,
        handlers::{Handler, HandlerArg},
        sample::PySample,
        stamps::{self, PyTimestampStack},
        zbytes::PyZBytes,
        zid::PyEntityGlobalId,
    },
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::{Arc, Weak};
use zwire_engine::{Handler as EngineHandler, Replies};
use zwire_proto::zenoh::{
    session::{GetId, Reply as Proto, ReplyError as ProtoError},
    wire::TsStack,
};

/// Error reply of a queryable.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct ReplyError {
    error: ProtoError,
    stack: Option<TsStack>,
}

attributes! { ReplyError, |this|
    /// Description of the error, in the format of the encoding.
    payload: PyZBytes = this.error.payload.clone().into();
    /// Encoding of the payload.
    encoding: PyEncoding = PyEncoding(this.error.encoding.clone());
    /// Time stamps of its way, if the asker wanted them.
    timestamp_stack: Option<PyTimestampStack> = stamps::shown(this.stack.as_ref());
}

pickled! { ReplyError by _restore, |this, _py| (this.payload(), this.encoding(), this.stack.as_ref().map(stamps::parts)) }

#[pymethods]
impl ReplyError {
    fn __repr__(&self) -> String {
        format!("ReplyError({:?})", String::from_utf8_lossy(&self.error.payload))
    }

    /// Constructor for pickle.
    #[staticmethod]
    fn _restore(
        py: Python<'_>,
        payload: &PyZBytes,
        encoding: &PyEncoding,
        stack: Option<stamps::StackParts>,
    ) -> PyResult<Self> {
        let (payload, encoding) = (payload.kept(py)?, encoding.0.clone());
        Ok(Self { error: ProtoError { payload, encoding, stamps: None }, stack: stack.map(stamps::of_parts) })
    }
}

/// Reply to a get: a sample or an error.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct Reply {
    result: Py<PyAny>,
    ok: bool,
    replier: Option<PyEntityGlobalId>,
}

attributes! { Reply, |this, py|
    /// The sample or the error.
    result: Py<PyAny> = this.result.clone_ref(py);
    /// The sample, if it is one.
    ok: Option<Py<PyAny>> = this.ok.then(|| this.result.clone_ref(py));
    /// The error, if it is one.
    err: Option<Py<PyAny>> = (!this.ok).then(|| this.result.clone_ref(py));
    /// Entity that replied, if it is known.
    replier_id: Option<PyEntityGlobalId> = this.replier;
}

represented! { Reply, |slf| slf.get().result.bind(slf.py()).repr()? }

pickled! { Reply by _restore, |this, py| (this.result(py), this.replier) }

#[pymethods]
impl Reply {
    /// Constructor for pickle.
    #[staticmethod]
    fn _restore(result: Bound<'_, PyAny>, replier: Option<&PyEntityGlobalId>) -> PyResult<Self> {
        let ok = result.is_instance_of::<PySample>();
        if !ok {
            result.cast::<ReplyError>()?;
        }
        Ok(Self { result: result.unbind(), ok, replier: replier.copied() })
    }
}

impl Item for Proto {
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (result, ok) = match self.result {
            Ok(sample) => (Py::new(py, PySample::arrived(py, sample)?)?.into_any(), true),
            Err(mut error) => {
                let stack = stamps::arrived(py, error.stamps.take());
                (Py::new(py, ReplyError { error, stack })?.into_any(), false)
            }
        };
        let replier = self.replier.map(|r| PyEntityGlobalId::of(r.zid, r.eid));
        Ok(Py::new(py, Reply { result, ok, replier })?.into_any())
    }
}

/// A get that was started with a token.
struct Running {
    session: Weak<crate::zenoh::handle::SessionRef>,
    get: GetId,
    replies: Replies,
    /// State of its callback, if it has one.
    life: Option<Arc<Life>>,
}

impl Running {
    fn cancel(&self) {
        if let Some(life) = &self.life {
            life.cancel();
        }
        if let Some(session) = self.session.upgrade() {
            // A closed session has no gets any more.
            let _ = session.engine.cancel(self.get);
        }
    }
}

#[derive(Default)]
struct Cancellation {
    cancelled: bool,
    running: Vec<Running>,
}

/// Ends gets early: can be passed to any number of them, and cancelled once.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct CancellationToken(Mutex<Cancellation>);

/// Number of remembered gets from which on finished ones are removed, each time the list has doubled.
const REMEMBERED: usize = 64;

attributes! { CancellationToken, |this|
    /// Whether `cancel` was called.
    is_cancelled: bool = this.0.lock().cancelled;
}

represented! { CancellationToken, |slf| if slf.get().is_cancelled() { "cancelled" } else { "not cancelled" } }

#[pymethods]
impl CancellationToken {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Ends every unfinished get that was started with this token. Returns when their callbacks have made
    /// their last call; within such a callback, at once.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let running = {
            let mut state = self.0.lock();
            state.cancelled = true;
            core::mem::take(&mut state.running)
        };
        waiting(py, |interrupted| {
            running.iter().for_each(Running::cancel);
            for life in running.iter().filter_map(|running| running.life.as_ref()) {
                if !life.wait(interrupted) {
                    break;
                }
            }
        })
    }
}

/// Checks that a token is not cancelled.
fn check_token(py: Python<'_>, token: Option<&Bound<'_, CancellationToken>>) -> PyResult<()> {
    match token {
        Some(token) if token.get().is_cancelled() => {
            Err(errors::usage(py, "the cancellation token is cancelled already"))
        }
        _ => Ok(()),
    }
}

fn remember(
    py: Python<'_>,
    session: &Handle,
    token: Option<&Bound<'_, CancellationToken>>,
    (get, replies): (GetId, &Replies),
    life: Option<Arc<Life>>,
) {
    let Some(token) = token else { return };
    let running = Running { session: Arc::downgrade(&session.0), get, replies: replies.clone(), life };
    let mut state = token.get().0.lock();
    if state.cancelled {
        // Cancelled between the check and now.
        drop(state);
        py.detach(|| running.cancel());
        return;
    }
    if state.running.len() >= REMEMBERED && state.running.len().is_power_of_two() {
        state.running.retain(|running| running.replies.done.get().is_none());
    }
    state.running.push(running);
}

/// Connects the replies of a get with its handler.
fn attach(
    py: Python<'_>,
    session: &Handle,
    handler: HandlerArg,
    token: Option<&Bound<'_, CancellationToken>>,
    (get, replies): (GetId, &Replies),
) -> PyResult<Py<PyAny>> {
    match handler {
        HandlerArg::Channel(_) => {
            remember(py, session, token, (get, replies), None);
            Ok(Py::new(py, Handler::of_get(replies, session))?.into_any())
        }
        callback @ HandlerArg::Callback { .. } => {
            let life = Life::of(&session.0.callbacks);
            let made = callback.attach(py, &replies.queue, Some(session), &life)?;
            remember(py, session, token, (get, replies), Some(life));
            Ok(made)
        }
    }
}

/// Starts a get by a command of the engine: returns a channel of replies, or the handler given with the callback.
pub(crate) fn start(
    py: Python<'_>,
    handler: HandlerArg,
    session: &Handle,
    token: Option<&Bound<'_, CancellationToken>>,
    get: impl FnOnce(EngineHandler) -> PyResult<(GetId, Replies)>,
) -> PyResult<Py<PyAny>> {
    check_token(py, token)?;
    let (id, replies) = get(handler.engine())?;
    attach(py, session, handler, token, (id, &replies))
}
