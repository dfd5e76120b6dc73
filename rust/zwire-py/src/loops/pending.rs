//! [`Pending`]: conditions that an event loop waits for; and calls of commands that must not wait, or
//! that another thread may end early.

use crate::{
    errors,
    loops::{
        interrupt,
        turn::{Turn, end_turn, spend},
        waking::{Door, Flag, Ready, Wakeups},
    },
    zenoh::{
        declared::Sender, handle::Handle, liveliness::LivelinessToken, publisher::Publisher,
        receiver::Receiver, session::Session,
    },
};
use core::sync::atomic::AtomicBool;
use parking_lot::Mutex;
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::sync::Arc;
use zwire_engine::{Error, StateWait, Waker};
use zwire_proto::zenoh::session::Barrier;

/// Condition of a session.
enum State {
    Session(Mutex<StateWait>),
    Room(Arc<Flag>),
}

impl State {
    fn look(&self) -> Option<Result<(), Error>> {
        match self {
            Self::Session(wait) => wait.lock().look(),
            Self::Room(flag) => flag.is_ready().then_some(Ok(())),
        }
    }
}

impl Ready for State {
    fn is_ready(&self) -> bool {
        self.look().is_some()
    }

    fn listen(&self, waker: Waker) {
        match self {
            Self::Session(wait) => wait.lock().listen(waker),
            Self::Room(flag) => flag.listen(waker),
        }
    }
}

/// Condition that an event loop waits for; items of queues are awaited by `Inbox`.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct Pending {
    state: State,
    door: Door,
}

impl Pending {
    fn of(state: State) -> Self {
        Self { state, door: Door::default() }
    }
}

/// The session of a declaration that is still live.
fn session(py: Python<'_>, of: &Bound<'_, PyAny>) -> PyResult<Handle> {
    let declared = if let Ok(session) = of.cast::<Session>() {
        return Ok(session.get().0.clone());
    } else if let Ok(receiver) = of.cast::<Receiver>() {
        &receiver.get().declared
    } else {
        &of.cast::<LivelinessToken>()?.get().declared
    };
    declared.check(py)?;
    Ok(declared.session.clone())
}

methods! { Pending, |this, py|
    /// Arms the wakeup for one notification. True, without arming it, if the condition has a result already.
    arm: bool = py.detach(|| this.door.arm(&this.state));
    /// Disarms the wakeup.
    disarm: () = this.door.disarm();
}

#[pymethods]
impl Pending {
    /// Completed when all neighbours know the declarations of a session, subscriber, queryable or token.
    #[staticmethod]
    fn declarations(py: Python<'_>, of: &Bound<'_, PyAny>) -> PyResult<Self> {
        let session = session(py, of)?;
        let wait = session.run(py, |engine, _| engine.begin_barrier(Barrier::Declarations))?;
        Ok(Self::of(State::Session(Mutex::new(wait))))
    }

    /// Completed when all neighbours have received the publications of a session.
    #[staticmethod]
    fn everything(py: Python<'_>, of: &Bound<'_, Session>) -> PyResult<Self> {
        let wait = of.get().0.run(py, |engine, _| engine.begin_barrier(Barrier::Everything))?;
        Ok(Self::of(State::Session(Mutex::new(wait))))
    }

    /// Completed when at least `n` counterparts match a publisher or querier.
    #[staticmethod]
    fn matching(py: Python<'_>, of: &Bound<'_, PyAny>, n: usize) -> PyResult<Self> {
        let declared = &of.cast::<Sender>()?.get().declared;
        declared.check(py)?;
        let id = declared.id;
        let wait = declared.session.run(py, |engine, _| engine.begin_matching(id, n))?;
        Ok(Self::of(State::Session(Mutex::new(wait))))
    }

    /// Whether the condition holds; raises if it cannot hold any more.
    fn look(&self, py: Python<'_>) -> PyResult<bool> {
        match py.detach(|| self.state.look()) {
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => Err(errors::engine(py, &error)),
            None => Ok(false),
        }
    }

    /// Registers a wakeup, see `Wakeups`.
    fn bind(&self, py: Python<'_>, wakeups: &Bound<'_, Wakeups>, token: u64) -> PyResult<()> {
        self.door.bind(py, &self.state, wakeups, token)
    }
}

/// Turn that no call uses, with the keyword arguments of a call that has no others. Accessed with the interpreter
/// lock only: a forked child never inherits it locked.
static SPARE: Mutex<Option<(Py<Turn>, Py<PyDict>)>> = Mutex::new(None);

/// Result of a command that had a turn, unless it was refused, and the wait that the command has left:
/// None if all is done, a `Pending` if the caller should wait for room next, False if nothing was done
/// because the command would have had to wait first.
fn rest<R>(py: Python<'_>, turn: &Turn, result: PyResult<R>) -> PyResult<(Option<R>, Py<PyAny>)> {
    let Some(outcome) = turn.take() else { return Ok((Some(result?), py.None())) };
    if outcome.refused {
        return Ok((None, false.into_pyobject(py)?.to_owned().into_any().unbind()));
    }
    let flag = Arc::<Flag>::default();
    let done = flag.clone();
    outcome.room.wait(move || done.set());
    Ok((Some(result?), Py::new(py, Pending::of(State::Room(flag)))?.into_any()))
}

/// Calls `function`, a method that takes a `Turn`, without the wait that its command would make; returns its
/// result and the wait, see [`rest`].
#[pyfunction]
#[pyo3(signature = (function, *args, **kwargs))]
pub(crate) fn without_waiting(
    py: Python<'_>,
    function: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Option<Py<PyAny>>, Py<PyAny>)> {
    // One turn and its keywords are kept: most calls allocate neither.
    let (turn, alone) = match SPARE.lock().take() {
        Some(spare) => spare,
        None => {
            let (turn, alone) = (Py::new(py, Turn::default())?, PyDict::new(py));
            alone.set_item(intern!(py, "_turn"), &turn)?;
            (turn, alone.unbind())
        }
    };
    let result = match kwargs {
        None => function.call(args, Some(alone.bind(py))).map(Bound::unbind),
        Some(kwargs) => kwargs
            .set_item(intern!(py, "_turn"), &turn)
            .and_then(|()| function.call(args, Some(kwargs)).map(Bound::unbind)),
    };
    let rest = rest(py, turn.get(), result);
    *SPARE.lock() = Some((turn, alone));
    rest
}

/// Publishes a value without options, as `without_waiting(by.put, ...)` does, without the cost of its arguments. Returns
/// the wait, or True if other tasks have to run before the next message, see `end_turn`.
#[pyfunction]
#[pyo3(signature = (by, payload, key_expr=None))]
pub(crate) fn begin_put(
    by: &Bound<'_, PyAny>,
    payload: &Bound<'_, PyAny>,
    key_expr: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let py = by.py();
    let turn = Turn::default();
    let result = match (by.cast::<Publisher>(), key_expr) {
        (Ok(by), _) => Publisher::put_in_turn(by, py, payload, &turn),
        (_, Some(key)) => by.cast::<Session>()?.get().put_in_turn(py, key, payload, &turn),
        (Err(error), None) => Err(error.into()),
    };
    let (_, room) = rest(py, &turn, result)?;
    spend(1);
    if room.is_none(py) && end_turn() {
        return Ok(true.into_pyobject(py)?.to_owned().into_any().unbind());
    }
    Ok(room)
}

/// Ends a call early that waits in another thread.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct Stopper(Arc<AtomicBool>);

#[pymethods]
impl Stopper {
    /// Ends the waits in `run`, within a twentieth of a second.
    fn stop(&self) {
        self.0.store(true, core::sync::atomic::Ordering::Release);
    }

    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Calls `function`. When `stop` is called meanwhile, waits in it raise `InterruptedError`.
    #[pyo3(signature = (function, *args, **kwargs))]
    fn run<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _until = interrupt::stopped_by(function.py(), &self.0);
        function.call(args, kwargs)
    }
}
