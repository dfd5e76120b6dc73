//! Channels and callbacks (`zwire.zenoh.handlers`), and the transfer of items from a queue of the engine
//! to Python.

use crate::{
    errors::{self, OrRaise},
    loops::{
        calling::{self, Called, Item, Life},
        interrupt::{seconds, seconds_of, waiting},
        waking::Ready,
    },
    zenoh::{
        handle::{Handle, SessionRef},
        open_query::{Handed, Turn},
    },
};
use core::time::Duration;
use pyo3::{
    PyTraverseError, PyTypeInfo, PyVisit,
    exceptions::PyValueError,
    prelude::*,
    types::{PyFunction, PyTuple},
};
use std::sync::{Arc, OnceLock, Weak};
use zwire_engine::{Full, Handler as EngineHandler, Queue, RecvError, Replies, Waker, runtime::Birth};
use zwire_proto::zenoh::session::GetEnd;

/// A channel with the default capacity.
#[pyclass(module = "zwire.zenoh.handlers", frozen, generic)]
pub(crate) struct DefaultHandler;

#[pymethods]
impl DefaultHandler {
    #[new]
    const fn new() -> Self {
        Self
    }
}

/// Text of a channel as the expression that makes it.
macro_rules! expression {
    ($class:ident, |$this:ident| $arguments:expr) => {
        #[pymethods]
        impl $class {
            fn __repr__(&self) -> String {
                let $this = self;
                format!("{}({})", stringify!($class), $arguments)
            }
        }
    };
}

expression! { DefaultHandler, |_this| "" }
expression! { FifoChannel, |this| this.0 }
expression! { RingChannel, |this| this.0 }
expression! { LatestChannel, |this| this.0 }
expression! { Channel, |this| {
    let deadline = this.deadline.map(|deadline| format!(", deadline={deadline}")).unwrap_or_default();
    format!("{}, full='{}'{deadline}", this.capacity, this.full)
} }

represented! { Callback, |slf| format!("of {}", slf.get().callback.bind(slf.py()).repr()?) }
represented! { BatchCallback, |slf| {
    format!("of {}, max_items={}", slf.get().callback.bind(slf.py()).repr()?, slf.get().max_items)
} }
represented! { Handler, |slf| format!("{} waiting, {} dropped", slf.get().channel.len(), slf.get().dropped()) }

/// A channel of at most that many items; when it is full, the sender is slowed down.
#[pyclass(module = "zwire.zenoh.handlers", frozen, generic)]
pub(crate) struct FifoChannel(usize);

#[pymethods]
impl FifoChannel {
    #[new]
    const fn new(capacity: usize) -> Self {
        Self(capacity)
    }
}

/// A channel of the newest items, at most that many; it never slows the sender down.
#[pyclass(module = "zwire.zenoh.handlers", frozen, generic)]
pub(crate) struct RingChannel(usize);

#[pymethods]
impl RingChannel {
    #[new]
    const fn new(capacity: usize) -> Self {
        Self(capacity)
    }
}

/// A channel of at most that many items, with a policy for when it is full.
///
/// `drop_oldest` drops the oldest item and `drop_newest` the new one; neither slows the sender down.
/// `block` makes the sender wait, at most `deadline` seconds, then drops new items until one is taken;
/// without `deadline` that of the configuration applies. Dropped items are counted, and the first time
/// one warning is logged.
#[pyclass(module = "zwire.zenoh.handlers", frozen, generic)]
pub(crate) struct Channel {
    /// Maximum number of items.
    #[pyo3(get)]
    capacity: usize,
    /// `drop_oldest`, `drop_newest` or `block`.
    #[pyo3(get)]
    full: String,
    /// Seconds, or None.
    #[pyo3(get)]
    deadline: Option<f64>,
    policy: Full,
}

#[pymethods]
impl Channel {
    #[new]
    #[pyo3(signature = (capacity=256, *, full="drop_oldest", deadline=None))]
    fn new(py: Python<'_>, capacity: usize, full: &str, deadline: Option<f64>) -> PyResult<Self> {
        let policy = match (full, deadline) {
            ("drop_oldest", None) => Full::DropOldest,
            ("drop_newest", None) => Full::DropNewest,
            ("block", deadline) => Full::Block(seconds_of("deadline", deadline)?),
            ("drop_oldest" | "drop_newest", Some(_)) => {
                return Err(errors::invalid(py, format!("{full} never waits, so it takes no deadline")));
            }
            _ => {
                let known = "drop_oldest, drop_newest or block";
                return Err(errors::invalid(py, format!("full must be {known}, not {full:?}")));
            }
        };
        some(py, "capacity", capacity)?;
        Ok(Self { capacity, full: full.to_owned(), deadline, policy })
    }
}

/// A channel of the newest item of each key, for at most that many keys.
///
/// A newer item replaces the waiting one with the same key, and keeps its place in the order. If there
/// are more keys than fit, the oldest item is dropped and counted; it never slows the sender down. Items
/// without a key, that is queries and events, are all kept up to the capacity.
#[pyclass(module = "zwire.zenoh.handlers", frozen, generic)]
pub(crate) struct LatestChannel(usize);

attributes! { LatestChannel, |this|
    /// Maximum number of keys.
    capacity: usize = this.0;
}

#[pymethods]
impl LatestChannel {
    #[new]
    fn new(py: Python<'_>, capacity: usize) -> PyResult<Self> {
        some(py, "capacity", capacity).map(Self)
    }
}

/// Checks that a value is at least 1.
fn some(py: Python<'_>, name: &str, value: usize) -> PyResult<usize> {
    if value == 0 { Err(errors::invalid(py, format!("{name} must be 1 or more"))) } else { Ok(value) }
}

/// A callback, and optionally functions to call when no more items come, and with exceptions.
///
/// Without `on_error` exceptions go to `sys.unraisablehook`. `indirect` has no effect: a callback never
/// runs in a network thread.
#[pyclass(module = "zwire.zenoh.handlers", frozen, generic, get_all)]
pub(crate) struct Callback {
    /// Function that is called with each item.
    callback: Py<PyAny>,
    /// Function that is called when no more items come; None: nothing.
    drop: Option<Py<PyAny>>,
    /// The value given; it has no effect.
    indirect: bool,
    /// Function that is called with an exception of the callback; None: `sys.unraisablehook`.
    on_error: Option<Py<PyAny>>,
}

#[pymethods]
impl Callback {
    #[new]
    #[pyo3(signature = (callback, drop=None, *, indirect=true, on_error=None))]
    const fn new(
        callback: Py<PyAny>,
        drop: Option<Py<PyAny>>,
        indirect: bool,
        on_error: Option<Py<PyAny>>,
    ) -> Self {
        Self { callback, drop, indirect, on_error }
    }

    fn __call__(&self, py: Python<'_>, arg: Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.callback.call1(py, (arg,))
    }
}

/// A callback that gets a list of at most `max_items` items: those that are waiting, without waiting for
/// more.
#[pyclass(module = "zwire.zenoh.handlers", frozen, generic, get_all)]
pub(crate) struct BatchCallback {
    /// Function that is called with each list of items.
    callback: Py<PyAny>,
    /// Function that is called when no more items come; None: nothing.
    drop: Option<Py<PyAny>>,
    /// Maximum number of items of a list.
    max_items: usize,
    /// Function that is called with an exception of the callback; None: `sys.unraisablehook`.
    on_error: Option<Py<PyAny>>,
}

#[pymethods]
impl BatchCallback {
    #[new]
    #[pyo3(signature = (callback, drop=None, *, max_items=1024, on_error=None))]
    fn new(
        py: Python<'_>,
        callback: Py<PyAny>,
        drop: Option<Py<PyAny>>,
        max_items: usize,
        on_error: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        some(py, "max_items", max_items)?;
        Ok(Self { callback, drop, max_items, on_error })
    }

    fn __call__(&self, py: Python<'_>, arg: Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.callback.call1(py, (arg,))
    }
}

/// The `handler` argument of the user.
pub(crate) enum HandlerArg {
    /// A channel; the queue is read through a [`Handler`].
    Channel(EngineHandler),
    /// A callback with its other functions, and the `handler` attribute of the result.
    Callback { called: Called, handler: Py<PyAny> },
}

/// Flags of a code object of an `async def` function, with or without `yield`.
const ASYNC: u32 = 0x80 | 0x200;

/// Most wrapped functions that are unwrapped.
const NESTED: usize = 16;

/// Refuses functions that return a coroutine, which would never be awaited.
pub(crate) fn check_sync(callback: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = callback.py();
    let mut callback = callback.clone();
    for _ in 0..NESTED {
        let call = if callback.is_instance(&PyFunction::type_object(py))? || callback.hasattr("__code__")? {
            callback.clone()
        } else if let Ok(inner) = callback.getattr("func")
            && callback.hasattr("keywords")?
        {
            // A `functools.partial` object.
            callback = inner;
            continue;
        } else {
            callback.get_type().getattr("__call__")?
        };
        let flags = call.getattr("__code__").and_then(|code| code.getattr("co_flags"));
        if flags.and_then(|flags| flags.extract::<u32>()).is_ok_and(|flags| flags & ASYNC != 0) {
            let what = "the callback is an `async def` function, which would never be awaited here: \
                        use `zwire.aio`, or a function that is not async";
            return Err(errors::usage(py, what));
        }
        break;
    }
    Ok(())
}

impl HandlerArg {
    /// Parses `None`, a channel, a callable, a callback class, or a tuple of callable and handler.
    pub(crate) fn parse(py: Python<'_>, arg: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(arg) = arg.filter(|arg| !arg.is_instance_of::<DefaultHandler>()) else {
            return Ok(Self::Channel(EngineHandler::Default));
        };
        if let Ok(fifo) = arg.cast::<FifoChannel>() {
            return Ok(Self::Channel(EngineHandler::Fifo(fifo.get().0)));
        }
        if let Ok(ring) = arg.cast::<RingChannel>() {
            return Ok(Self::Channel(EngineHandler::Ring(ring.get().0)));
        }
        if let Ok(channel) = arg.cast::<Channel>() {
            let channel = channel.get();
            return Ok(Self::Channel(EngineHandler::Channel(channel.capacity, channel.policy)));
        }
        if let Ok(latest) = arg.cast::<LatestChannel>() {
            return Ok(Self::Channel(EngineHandler::Channel(latest.get().0, Full::Latest)));
        }
        if let Ok(tuple) = arg.cast::<PyTuple>()
            && tuple.len() == 2
        {
            let called = Self::called(py, &tuple.get_item(0)?)?;
            return Ok(Self::Callback { called, handler: tuple.get_item(1)?.unbind() });
        }
        Ok(Self::Callback { called: Self::called(py, arg)?, handler: py.None() })
    }

    fn called(py: Python<'_>, arg: &Bound<'_, PyAny>) -> PyResult<Called> {
        let (callback, drop, on_error, batch) = if let Ok(given) = arg.cast::<Callback>() {
            let Callback { callback, drop, on_error, .. } = given.get();
            (callback, drop.as_ref(), on_error.as_ref(), None)
        } else if let Ok(given) = arg.cast::<BatchCallback>() {
            let BatchCallback { callback, drop, max_items, on_error } = given.get();
            (callback, drop.as_ref(), on_error.as_ref(), Some(*max_items))
        } else if arg.is_callable() {
            (arg.as_unbound(), None, None, None)
        } else {
            let kind = arg.get_type().name()?;
            // A type error, but eclipse-zenoh raises `ValueError`.
            return Err(PyValueError::new_err(format!(
                "handler must be a channel, a callable or a tuple of a callable and a handler, not {kind}"
            )));
        };
        check_sync(callback.bind(py))?;
        let clone = |object: &Py<PyAny>| object.clone_ref(py);
        Ok(Called { callback: clone(callback), drop: drop.map(clone), on_error: on_error.map(clone), batch })
    }

    /// Queue policy for the engine.
    pub(crate) const fn engine(&self) -> EngineHandler {
        match self {
            Self::Channel(handler) => *handler,
            Self::Callback { .. } => EngineHandler::Default,
        }
    }

    /// Connects the queue with the user; returns the `handler` attribute of the result. The channel ends
    /// with `session`.
    pub(crate) fn attach<T: Item>(
        self,
        py: Python<'_>,
        queue: &Arc<Queue<T>>,
        session: Option<&Handle>,
        life: &Arc<Life>,
    ) -> PyResult<Py<PyAny>> {
        match self {
            Self::Channel(_) => {
                let handler = Handler::new(queue.clone());
                let handler = match session {
                    Some(session) => handler.of(session),
                    None => handler,
                };
                Ok(Py::new(py, handler)?.into_any())
            }
            Self::Callback { called, handler } => {
                calling::start(py, queue.clone(), called, life.clone())?;
                Ok(handler)
            }
        }
    }
}

/// A queue with items of any type.
pub(crate) trait Source: Ready {
    fn try_recv(&self, py: Python<'_>) -> PyResult<Result<Option<Py<PyAny>>, RecvError>>;
    fn recv(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Result<Py<PyAny>, RecvError>>;
    fn recv_many(&self, py: Python<'_>, max: usize) -> PyResult<Vec<Py<PyAny>>>;
    fn len(&self) -> usize;
    fn dropped(&self) -> u64;
    fn replaced(&self) -> u64;
}

impl<T: Item> Ready for Arc<Queue<T>> {
    fn is_ready(&self) -> bool {
        !self.is_empty() || self.is_closed()
    }

    fn listen(&self, waker: Waker) {
        self.set_waker(Some(waker));
    }
}

impl<T: Item> Source for Arc<Queue<T>> {
    fn try_recv(&self, py: Python<'_>) -> PyResult<Result<Option<Py<PyAny>>, RecvError>> {
        match Queue::try_recv(self) {
            Ok(Some(item)) => item.into_py(py).map(|item| Ok(Some(item))),
            Ok(None) => {
                // A loop that polls waits as well.
                if self.is_of_answers() {
                    py.detach(|| self.before_waiting());
                }
                Ok(Ok(None))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn recv(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Result<Py<PyAny>, RecvError>> {
        // Waiting items are taken without releasing the interpreter lock.
        match Queue::try_recv(self) {
            Ok(Some(item)) => return item.into_py(py).map(Ok),
            Ok(None) => {}
            Err(error) => return Ok(Err(error)),
        }
        match waiting(py, |interrupted| Queue::recv(self, timeout, interrupted))? {
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

    fn replaced(&self) -> u64 {
        Queue::replaced(self)
    }
}

/// The receiving end of a channel.
#[pyclass(module = "zwire.zenoh.handlers", frozen, generic)]
pub(crate) struct Handler {
    pub(crate) channel: Arc<dyn Source>,
    pub(crate) birth: Birth,
    /// Session that fills the channel.
    pub(crate) session: Option<Weak<SessionRef>>,
    /// End of the get that fills the channel.
    end: Option<Arc<OnceLock<GetEnd>>>,
    turns: Turns,
    source: Held,
}

/// Source of the items of a handler, kept open by the handler.
enum Held {
    /// Nothing: the handler of a declaration ends with it.
    Nothing,
    /// Session of a get.
    Session { _asks: Handle },
    /// Object that a loop iterates over.
    Object(Py<PyAny>),
}

/// Records that an item is handed to the program, see [`Item::handed`].
type Hand = fn(&Bound<'_, PyAny>) -> Option<Handed>;

/// Action on the previous item when a loop asks for the next one.
enum Turns {
    /// No action: an item ends when nothing refers to it.
    None,
    /// Handler of a queryable; each loop over it has a handler of its own, with the last variant.
    Loops(Hand),
    /// End the previous query if it was answered.
    Loop(Hand, Turn),
}

impl Handler {
    pub(crate) fn new<T: Item>(queue: Arc<Queue<T>>) -> Self {
        let turns = if T::IS_ANSWERED { Turns::Loops(T::handed) } else { Turns::None };
        let (channel, birth) = (Arc::new(queue), Birth::here());
        Self { channel, birth, session: None, end: None, turns, source: Held::Nothing }
    }

    /// Returns the handler for one loop over the object that it belongs to, which stays declared as long as the loop.
    pub(crate) fn loop_over(&self, object: &Bound<'_, PyAny>) -> Self {
        let turns = match self.turns {
            Turns::Loops(hand) | Turns::Loop(hand, _) => Turns::Loop(hand, Turn::default()),
            Turns::None => Turns::None,
        };
        Self {
            channel: self.channel.clone(),
            birth: self.birth,
            session: self.session.clone(),
            end: self.end.clone(),
            turns,
            source: Held::Object(object.clone().unbind()),
        }
    }

    /// Ties the handler to the end of a session.
    pub(crate) fn of(self, session: &Handle) -> Self {
        Self { session: Some(Arc::downgrade(&session.0)), ..self }
    }

    pub(crate) fn of_get(replies: &Replies, session: &Handle) -> Self {
        let source = Held::Session { _asks: session.clone() };
        Self { end: Some(replies.done.clone()), source, ..Self::new(replies.queue.clone()).of(session) }
    }

    /// Error for a failed receive; tells whether the session is closed.
    pub(crate) fn error(&self, py: Python<'_>, error: RecvError, timeout: Option<f64>) -> PyErr {
        let open = |session: &Weak<SessionRef>| session.upgrade().is_some_and(|s| !s.engine.is_closed());
        if error == RecvError::Closed && self.session.as_ref().is_some_and(open) {
            return errors::usage(py, "the channel is closed and empty");
        }
        errors::recv(py, error, timeout)
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.birth.check().or_raise(py)
    }

    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.check(py)?;
        match self.channel.recv(py, None)? {
            Ok(item) => Ok(Some(item)),
            Err(RecvError::Closed) => Ok(None),
            Err(error) => Err(self.error(py, error, None)),
        }
    }
}

attributes! { Handler, |this|
    /// Outcome of the get that fills the channel; None while it continues, and for other channels.
    ///
    /// `completed`, `no_queryable`, `budget_spent`, `timed_out`, `link_lost` or `cancelled`.
    end: Option<&'static str> = Some(match this.end.as_ref()?.get()? {
        GetEnd::Completed => "completed",
        GetEnd::NoQueryable => "no_queryable",
        GetEnd::BudgetSpent => "budget_spent",
        GetEnd::TimedOut => "timed_out",
        GetEnd::LinkLost => "link_lost",
        GetEnd::Cancelled => "cancelled",
    });
    /// Number of items dropped because the channel was full.
    dropped: u64 = this.channel.dropped();
    /// Number of items replaced by newer ones of their key, in a `LatestChannel`.
    replaced: u64 = this.channel.replaced();
}

#[pymethods]
impl Handler {
    /// The next item, or None if none is waiting.
    pub(crate) fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.check(py)?;
        self.channel.try_recv(py)?.map_err(|error| self.error(py, error, None))
    }

    /// Waits for the next item. Raises `TimedOut` after `timeout` seconds, if given.
    #[pyo3(signature = (timeout=None))]
    pub(crate) fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        self.check(py)?;
        match self.channel.recv(py, seconds(timeout)?)? {
            Ok(item) => Ok(item),
            Err(error) => Err(self.error(py, error, timeout)),
        }
    }

    /// Takes up to `max_items` items at once; waits for the first one only.
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
            Err(error) => return Err(self.error(py, error, timeout)),
        };
        let mut items = vec![first];
        items.extend(self.channel.recv_many(py, max_items - 1)?);
        Ok(items)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.check(py)?;
        Ok(self.channel.len())
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        match &slf.get().turns {
            Turns::Loops(_) => Bound::new(slf.py(), slf.get().loop_over(&slf)),
            Turns::None | Turns::Loop(..) => Ok(slf),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Held::Object(object) = &self.source else { return Ok(()) };
        visit.call(object)
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Turns::Loop(hand, turn) = &self.turns else { return self.next(py) };
        turn.end(py);
        let item = self.next(py)?;
        if let Some(item) = &item {
            turn.begin(hand(item.bind(py)));
        }
        Ok(item)
    }

    fn __bool__(&self) -> bool {
        true
    }
}
