//! [`Pending`]: conditions that an event loop waits for; and calls of commands that must not wait, or
//! that another thread may end early.

use crate::{
    errors,
    loops::{
        interrupt,
        turn::Turn,
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

/// Runs a command with a turn. Returns its result, unless it was refused, and the wait that it has left:
/// None if all is done, a `Pending` if the caller should wait for room next, False if nothing was done
/// because the command would have had to wait first.
fn in_turn<R>(
    py: Python<'_>,
    command: impl FnOnce(&Bound<'_, Turn>, &Bound<'_, PyDict>) -> PyResult<R>,
) -> PyResult<(Option<R>, Py<PyAny>)> {
    // One turn and its keywords are kept: most calls allocate neither.
    let (turn, alone) = match SPARE.lock().take() {
        Some(spare) => spare,
        None => {
            let (turn, alone) = (Py::new(py, Turn::default())?, PyDict::new(py));
            alone.set_item(intern!(py, "_turn"), &turn)?;
            (turn, alone.unbind())
        }
    };
    let result = command(turn.bind(py), alone.bind(py));
    let outcome = turn.get().take();
    *SPARE.lock() = Some((turn, alone));
    let Some(outcome) = outcome else { return Ok((Some(result?), py.None())) };
    if outcome.refused {
        return Ok((None, false.into_pyobject(py)?.to_owned().into_any().unbind()));
    }
    let flag = Arc::<Flag>::default();
    let done = flag.clone();
    outcome.room.wait(move || done.set());
    Ok((Some(result?), Py::new(py, Pending::of(State::Room(flag)))?.into_any()))
}

/// Calls `function`, a method that takes a `Turn`, without the wait that its command would make; returns its
/// result and the wait, see [`in_turn`].
#[pyfunction]
#[pyo3(signature = (function, *args, **kwargs))]
pub(crate) fn without_waiting(
    py: Python<'_>,
    function: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Option<Py<PyAny>>, Py<PyAny>)> {
    in_turn(py, |turn, alone| match kwargs {
        None => function.call(args, Some(alone)).map(Bound::unbind),
        Some(kwargs) => {
            kwargs.set_item(intern!(py, "_turn"), turn)?;
            function.call(args, Some(kwargs)).map(Bound::unbind)
        }
    })
}

/// Publishes a value without options, as `without_waiting(by.put, ...)` does, without the cost of its arguments.
#[pyfunction]
#[pyo3(signature = (by, payload, key_expr=None))]
pub(crate) fn begin_put(
    by: &Bound<'_, PyAny>,
    payload: &Bound<'_, PyAny>,
    key_expr: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let py = by.py();
    let done = in_turn(py, |turn, _| match (by.cast::<Publisher>(), key_expr) {
        (Ok(by), _) => Publisher::put(by, py, payload, None, None, None, None, None, Some(turn)),
        (_, Some(key)) => {
            let (none, turn) = (None, Some(turn));
            let by = by.cast::<Session>()?.get();
            by.put(py, key, payload, none, None, None, None, none, none, none, None, none, turn)
        }
        (Err(error), None) => Err(error.into()),
    });
    done.map(|(_, room)| room)
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
