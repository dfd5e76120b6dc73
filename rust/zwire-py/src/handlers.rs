//! `zwire.zenoh.handlers`: channels and callbacks, and how items get from a queue of the engine to
//! Python.

use crate::{
    calling::{self, Life},
    errors,
    interrupt::Interrupt,
};
use core::time::Duration;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyTuple};
use std::sync::{Arc, OnceLock};
use zwire_engine::{Handler as EngineHandler, Queue, RecvError, Replies, queue::Weigh, runtime::Birth};
use zwire_proto::zenoh::session::GetEnd;

/// Something that a queue of the engine holds and Python wants.
pub(crate) trait Item: Weigh + Send + 'static {
    /// The Python object.
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

/// A channel with the default capacity.
#[pyclass(module = "zwire.zenoh.handlers", frozen)]
pub(crate) struct DefaultHandler;

#[pymethods]
impl DefaultHandler {
    #[new]
    const fn new() -> Self {
        Self
    }
}

/// A channel of that many items; when it is full, the sender is slowed down.
#[pyclass(module = "zwire.zenoh.handlers", frozen)]
pub(crate) struct FifoChannel(usize);

#[pymethods]
impl FifoChannel {
    #[new]
    const fn new(capacity: usize) -> Self {
        Self(capacity)
    }
}

/// A channel of the newest that many items; it never slows the sender down.
#[pyclass(module = "zwire.zenoh.handlers", frozen)]
pub(crate) struct RingChannel(usize);

#[pymethods]
impl RingChannel {
    #[new]
    const fn new(capacity: usize) -> Self {
        Self(capacity)
    }
}

/// A callback, and optionally what to call when no more items come.
#[pyclass(module = "zwire.zenoh.handlers", frozen)]
pub(crate) struct Callback {
    #[pyo3(get)]
    callback: Py<PyAny>,
    #[pyo3(get)]
    drop: Option<Py<PyAny>>,
    #[pyo3(get)]
    indirect: bool,
}

#[pymethods]
impl Callback {
    #[new]
    #[pyo3(signature = (callback, drop=None, *, indirect=true))]
    const fn new(callback: Py<PyAny>, drop: Option<Py<PyAny>>, indirect: bool) -> Self {
        Self { callback, drop, indirect }
    }

    fn __call__(&self, py: Python<'_>, arg: Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.callback.call1(py, (arg,))
    }
}

/// What the user gave as `handler`.
pub(crate) enum HandlerArg {
    /// A channel; the queue is read through a [`Handler`].
    Channel(EngineHandler),
    /// A callback, what to call at the end, and the `handler` attribute of the result.
    Callback { callback: Py<PyAny>, drop: Option<Py<PyAny>>, handler: Py<PyAny> },
}

impl HandlerArg {
    /// `None`, a channel, a callable, a [`Callback`], or a tuple of callable and handler.
    pub(crate) fn parse(py: Python<'_>, arg: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(arg) = arg.filter(|arg| !arg.is_none()) else {
            return Ok(Self::Channel(EngineHandler::Default));
        };
        if arg.is_instance_of::<DefaultHandler>() {
            return Ok(Self::Channel(EngineHandler::Default));
        }
        if let Ok(fifo) = arg.cast::<FifoChannel>() {
            return Ok(Self::Channel(EngineHandler::Fifo(fifo.get().0)));
        }
        if let Ok(ring) = arg.cast::<RingChannel>() {
            return Ok(Self::Channel(EngineHandler::Ring(ring.get().0)));
        }
        if let Ok(tuple) = arg.cast::<PyTuple>()
            && tuple.len() == 2
        {
            let (callback, drop) = Self::callable(py, &tuple.get_item(0)?)?;
            return Ok(Self::Callback { callback, drop, handler: tuple.get_item(1)?.unbind() });
        }
        let (callback, drop) = Self::callable(py, arg)?;
        Ok(Self::Callback { callback, drop, handler: py.None() })
    }

    fn callable(py: Python<'_>, arg: &Bound<'_, PyAny>) -> PyResult<(Py<PyAny>, Option<Py<PyAny>>)> {
        if let Ok(callback) = arg.cast::<Callback>() {
            let callback = callback.get();
            return Ok((callback.callback.clone_ref(py), callback.drop.as_ref().map(|d| d.clone_ref(py))));
        }
        if arg.is_callable() {
            return Ok((arg.clone().unbind(), None));
        }
        let kind = arg.get_type().name()?;
        // A matter of types, but a `ValueError` in eclipse-zenoh.
        Err(PyValueError::new_err(format!(
            "handler must be a channel, a callable or a tuple of a callable and a handler, not {kind}"
        )))
    }

    /// How the engine queues for it.
    pub(crate) const fn engine(&self) -> EngineHandler {
        match self {
            Self::Channel(handler) => *handler,
            Self::Callback { .. } => EngineHandler::Default,
        }
    }

    /// Puts the queue to its use: the `handler` attribute of the result.
    pub(crate) fn attach<T: Item>(self, py: Python<'_>, queue: &Arc<Queue<T>>) -> PyResult<Py<PyAny>> {
        self.attach_for(py, queue, Arc::default())
    }

    /// As [`Self::attach`], for a callback that may be ended early.
    pub(crate) fn attach_for<T: Item>(
        self,
        py: Python<'_>,
        queue: &Arc<Queue<T>>,
        life: Arc<Life>,
    ) -> PyResult<Py<PyAny>> {
        match self {
            Self::Channel(_) => Ok(Py::new(py, Handler::new(queue.clone()))?.into_any()),
            Self::Callback { callback, drop, handler } => {
                calling::start(py, queue.clone(), callback, drop, life)?;
                Ok(handler)
            }
        }
    }
}

trait Channel: Send + Sync {
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>>;
    fn recv(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Result<Py<PyAny>, RecvError>>;
    fn recv_many(&self, py: Python<'_>, max: usize) -> PyResult<Vec<Py<PyAny>>>;
    fn len(&self) -> usize;
    fn dropped(&self) -> u64;
}

impl<T: Item> Channel for Arc<Queue<T>> {
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match Queue::try_recv(self) {
            Ok(Some(item)) => item.into_py(py).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(errors::recv(py, error, None)),
        }
    }

    fn recv(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Result<Py<PyAny>, RecvError>> {
        // What is there is taken without giving the interpreter away.
        match Queue::try_recv(self) {
            Ok(Some(item)) => return item.into_py(py).map(Ok),
            Ok(None) => {}
            Err(error) => return Ok(Err(error)),
        }
        let mut interrupt = Interrupt::default();
        let result = py.detach(|| Queue::recv(self, timeout, &mut || interrupt.check()));
        interrupt.raise()?;
        match result {
            Ok(item) => item.into_py(py).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    fn recv_many(&self, py: Python<'_>, max: usize) -> PyResult<Vec<Py<PyAny>>> {
        let mut items = Vec::new();
        self.drain_into(&mut items, max);
        items.into_iter().map(|item| item.into_py(py)).collect()
    }

    fn len(&self) -> usize {
        Queue::len(self)
    }

    fn dropped(&self) -> u64 {
        Queue::dropped(self)
    }
}

/// The receiving end of a channel.
#[pyclass(module = "zwire.zenoh.handlers", frozen)]
pub(crate) struct Handler {
    channel: Box<dyn Channel>,
    birth: Birth,
    /// How the get ended whose replies these are.
    end: Option<Arc<OnceLock<GetEnd>>>,
}

impl Handler {
    pub(crate) fn new<T: Item>(queue: Arc<Queue<T>>) -> Self {
        Self { channel: Box::new(queue), birth: Birth::here(), end: None }
    }

    pub(crate) fn of_get(replies: &Replies) -> Self {
        Self { end: Some(replies.done.clone()), ..Self::new(replies.queue.clone()) }
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.birth.check().map_err(|error| errors::engine(py, &error))
    }

    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.check(py)?;
        match self.channel.recv(py, None)? {
            Ok(item) => Ok(Some(item)),
            Err(RecvError::Closed) => Ok(None),
            Err(error) => Err(errors::recv(py, error, None)),
        }
    }
}

/// Seconds of the user as a duration; negative and NaN are no durations.
pub(crate) fn seconds(value: Option<f64>) -> PyResult<Option<Duration>> {
    value
        .map(|s| {
            Duration::try_from_secs_f64(s).map_err(|_| {
                pyo3::exceptions::PyValueError::new_err(format!("timeout must be seconds >= 0, not {s}"))
            })
        })
        .transpose()
}

#[pymethods]
impl Handler {
    /// The next item, or None if there is none right now.
    pub(crate) fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.check(py)?;
        self.channel.try_recv(py)
    }

    /// The next item, waited for. With a timeout in seconds, `TimedOut` when it is over.
    #[pyo3(signature = (timeout=None))]
    pub(crate) fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        self.check(py)?;
        match self.channel.recv(py, seconds(timeout)?)? {
            Ok(item) => Ok(item),
            Err(error) => Err(errors::recv(py, error, timeout)),
        }
    }

    /// Up to `max_items` items that are there, in one go; waits for the first one only.
    #[pyo3(signature = (max_items, timeout=None))]
    pub(crate) fn recv_many(
        &self,
        py: Python<'_>,
        max_items: usize,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Py<PyAny>>> {
        self.check(py)?;
        if max_items == 0 {
            return Ok(Vec::new());
        }
        let first = match self.channel.recv(py, seconds(timeout)?)? {
            Ok(item) => item,
            Err(RecvError::Timeout) => return Ok(Vec::new()),
            Err(error) => return Err(errors::recv(py, error, timeout)),
        };
        let mut items = vec![first];
        items.extend(self.channel.recv_many(py, max_items - 1)?);
        Ok(items)
    }

    /// How the get ended whose replies come here; None while it goes on, and for anything else.
    ///
    /// `completed`, `no_queryable`, `budget_spent`, `timed_out`, `link_lost` or `cancelled`.
    #[getter]
    fn end(&self) -> Option<&'static str> {
        Some(match self.end.as_ref()?.get()? {
            GetEnd::Completed => "completed",
            GetEnd::NoQueryable => "no_queryable",
            GetEnd::BudgetSpent => "budget_spent",
            GetEnd::TimedOut => "timed_out",
            GetEnd::LinkLost => "link_lost",
            GetEnd::Cancelled => "cancelled",
        })
    }

    /// How many items were dropped because the channel was full.
    #[getter]
    fn dropped(&self) -> u64 {
        self.channel.dropped()
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.check(py)?;
        Ok(self.channel.len())
    }

    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.next(py)
    }

    fn __bool__(&self) -> bool {
        true
    }
}
