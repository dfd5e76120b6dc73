//! [`Receiver`]: base class of subscribers and queryables, and [`Source`], which reads a `handler` attribute.

use crate::{
    errors,
    loops::calling::{Item, Life},
    zenoh::{
        declared::Declared,
        handle::Handle,
        handlers::{self, Handler, HandlerArg},
        keyexpr::PyKeyExpr,
        zid::PyEntityGlobalId,
    },
};
use pyo3::prelude::*;
use std::sync::Arc;
use zwire_engine::{Error, Handler as EngineHandler, Queue, Session as Engine};
use zwire_proto::zenoh::{KeyExpr, session::EntityId};

/// Source of the items of a receiver: a channel of zwire, or a handler given with the callback that has the same
/// methods.
pub(crate) enum Source<'py> {
    Channel(Bound<'py, Handler>),
    Own(Bound<'py, PyAny>),
}

impl<'py> Source<'py> {
    /// Source behind a `handler` attribute.
    pub(crate) fn of(py: Python<'py>, handler: &Py<PyAny>) -> PyResult<Self> {
        let handler = handler.bind(py);
        if handler.is_none() || handler.is_instance_of::<Handler>() {
            return Ok(Self::Channel(channel(py, handler.as_unbound())?));
        }
        Ok(Self::Own(handler.clone()))
    }

    pub(crate) fn try_recv(&self, py: Python<'py>) -> PyResult<Option<Py<PyAny>>> {
        match self {
            Self::Channel(channel) => channel.get().try_recv(py),
            Self::Own(own) => {
                let item = own.call_method0("try_recv")?;
                Ok((!item.is_none()).then(|| item.unbind()))
            }
        }
    }

    pub(crate) fn recv(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        match (self, timeout) {
            (Self::Channel(channel), _) => channel.get().recv(py, timeout),
            (Self::Own(own), None) => Ok(own.call_method0("recv")?.unbind()),
            (Self::Own(own), Some(timeout)) => Ok(own.call_method1("recv", (timeout,))?.unbind()),
        }
    }

    /// Returns an iterator, which keeps the object that it iterates over.
    pub(crate) fn iter(&self, object: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Channel(channel) => Ok(Py::new(object.py(), channel.get().loop_over(object))?.into_any()),
            Self::Own(own) => Ok(own.try_iter()?.into_any().unbind()),
        }
    }
}

/// Channel behind a `handler` attribute.
fn channel<'py>(py: Python<'py>, handler: &Py<PyAny>) -> PyResult<Bound<'py, Handler>> {
    handler
        .bind(py)
        .cast::<Handler>()
        .cloned()
        .map_err(|_| errors::usage(py, "this has a callback: items go there, not through a channel"))
}

/// A declaration that receives items. A context manager, and an iterator over its items unless it has a
/// callback. It undeclares itself when it is dropped, unless it has a callback.
#[pyclass(module = "zwire._zwire", frozen, subclass)]
pub(crate) struct Receiver {
    pub(crate) declared: Declared,
    pub(crate) key: KeyExpr,
    pub(crate) queue: Box<dyn handlers::Source>,
    handler: Py<PyAny>,
    pub(crate) life: Arc<Life>,
}

/// Outcome of a command that declares a receiver.
pub(crate) type Queued<T> = Result<(EntityId, Arc<Queue<T>>), Error>;

impl Receiver {
    /// Declares a receiver by a command of the engine; returns its queue as well.
    pub(crate) fn declare<T: Item>(
        py: Python<'_>,
        (session, what): (&Handle, &'static str),
        key: KeyExpr,
        handler: Option<&Bound<'_, PyAny>>,
        declare: impl FnOnce(&Engine, KeyExpr, EngineHandler) -> Queued<T> + Send,
    ) -> PyResult<(Self, Arc<Queue<T>>)> {
        let handler = HandlerArg::parse(py, handler)?;
        let (declared, engine_handler) = (key.clone(), handler.engine());
        let (id, queue) = session.run(py, move |engine, _| declare(engine, declared, engine_handler))?;
        let background = matches!(handler, HandlerArg::Callback { .. });
        let life = Life::of(&session.0.callbacks);
        let handler = handler.attach(py, &queue, Some(session), &life)?;
        let declared = Declared::new(session.clone(), id, what).background(background);
        Ok((Self { declared, key, queue: Box::new(queue.clone()), handler, life }, queue))
    }

    /// The channel, for methods that a receiver with a callback does not have.
    pub(crate) fn channel<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Handler>> {
        channel(py, &self.handler)
    }
}

attributes! { Receiver, |this, py|
    /// Id of the declaration.
    id: PyEntityGlobalId = this.declared.global_id();
    /// Key expression that it subscribes to, or answers queries on.
    key_expr: PyKeyExpr = PyKeyExpr(this.key.clone());
    /// Number of items dropped because the handler was full.
    dropped: u64 = this.queue.dropped();
    /// The channel, or the handler given with the callback.
    handler: Py<PyAny> = this.handler.clone_ref(py);
}

receives! { Receiver, "item", |this, py| Source::of(py, &this.handler)? }

context_manager! { Receiver, |this, py| this.declared.exit(py) }

represented! { Receiver, |slf| format!("{} {}", slf.get().key, slf.get().declared.state()) }

#[pymethods]
impl Receiver {
    /// Undeclares it. A second call is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        self.declared.undeclare(py)
    }

    /// Waits until all neighbours know the declaration: samples or queries that they send from then on can arrive.
    /// Raises `TimedOut` after `timeout` seconds, if given.
    #[pyo3(signature = (timeout=None))]
    fn wait_ready(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.declared.wait_ready(py, timeout)
    }
}
