//! [`Pending`]: what an event loop waits for that is no item of a queue; and calls of commands that must not
//! wait, or that somebody may end early.

use crate::{
    errors,
    loops::{
        interrupt,
        waking::{Door, Flag, Ready, Wakeups},
    },
    zenoh::{
        handle::Handle, liveliness::LivelinessToken, receiver::Receiver, sender::Sender, session::Session,
    },
};
use core::sync::atomic::AtomicBool;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::sync::Arc;
use zwire_engine::{
    BarrierWait, Error, MatchingWait,
    deferred::{self, Turned, Waker},
};
use zwire_proto::zenoh::session::Barrier;

/// A state of a session.
enum State {
    Barrier(Mutex<BarrierWait>),
    Matching(Mutex<MatchingWait>),
    Room(Arc<Flag>),
}

impl State {
    fn look(&self) -> Option<Result<(), Error>> {
        match self {
            Self::Barrier(wait) => wait.lock().look(),
            Self::Matching(wait) => wait.lock().look(),
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
            Self::Barrier(wait) => wait.lock().listen(waker),
            Self::Matching(wait) => wait.lock().listen(waker),
            Self::Room(flag) => flag.listen(waker),
        }
    }
}

/// What an event loop waits for that is no item of a queue.
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

/// The session behind a declaration that is still there.
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

#[pymethods]
impl Pending {
    /// Until all neighbours know what a session, subscriber, queryable or token has declared.
    #[staticmethod]
    fn declarations(py: Python<'_>, of: &Bound<'_, PyAny>) -> PyResult<Self> {
        let session = session(py, of)?;
        let wait = session.run(py, |engine, _| engine.begin_barrier(Barrier::Declarations))?;
        Ok(Self::of(State::Barrier(Mutex::new(wait))))
    }

    /// Until all neighbours have taken what a session has published.
    #[staticmethod]
    fn everything(py: Python<'_>, of: &Bound<'_, Session>) -> PyResult<Self> {
        let wait = of.get().0.run(py, |engine, _| engine.begin_barrier(Barrier::Everything))?;
        Ok(Self::of(State::Barrier(Mutex::new(wait))))
    }

    /// Until so many match a publisher or querier.
    #[staticmethod]
    fn matching(py: Python<'_>, of: &Bound<'_, PyAny>, n: usize) -> PyResult<Self> {
        let declared = &of.cast::<Sender>()?.get().declared;
        declared.check(py)?;
        let id = declared.id;
        let wait = declared.session.run(py, |engine, _| engine.begin_matching(id, n))?;
        Ok(Self::of(State::Matching(Mutex::new(wait))))
    }

    /// Whether it has come; raises what has come instead.
    fn look(&self, py: Python<'_>) -> PyResult<bool> {
        match py.detach(|| self.state.look()) {
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => Err(errors::engine(py, &error)),
            None => Ok(false),
        }
    }

    /// Hangs a bell, see `Wakeups`.
    fn bind(&self, py: Python<'_>, wakeups: &Bound<'_, Wakeups>, token: u64) -> PyResult<()> {
        self.door.bind(py, &self.state, wakeups, token)
    }

    /// From now on the bell rings, once; unless `look` has something to say already.
    fn arm(&self, py: Python<'_>) -> bool {
        py.detach(|| self.door.arm(&self.state))
    }

    /// The bell rings no more.
    fn disarm(&self) {
        self.door.disarm();
    }
}

/// Calls `function`; what commands of a session in it would wait for is not waited for.
///
/// Its result, and: None when all is done, a `Pending` when the caller should wait for room next, False when
/// nothing is done because it has to be waited for first. Then the result means nothing.
#[pyfunction]
#[pyo3(signature = (function, *args, **kwargs))]
pub(crate) fn without_waiting(
    py: Python<'_>,
    function: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
    let (result, turned) = deferred::without_waiting(|| function.call(args, kwargs));
    let pending = match turned {
        Turned::Refused => return Ok((py.None(), false.into_pyobject(py)?.to_owned().into_any().unbind())),
        Turned::Done => py.None(),
        Turned::Full(room) => {
            let flag = Arc::<Flag>::default();
            let done = flag.clone();
            room.wait(move || done.set());
            Py::new(py, Pending::of(State::Room(flag)))?.into_any()
        }
    };
    Ok((result?.unbind(), pending))
}

/// Ends a call early that waits in another thread.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct Stopper(Arc<AtomicBool>);

#[pymethods]
impl Stopper {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Calls `function`. When `stop` is called meanwhile, what waits in it raises `InterruptedError`.
    #[pyo3(signature = (function, *args, **kwargs))]
    fn run<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _until = interrupt::stopped_by(self.0.clone());
        function.call(args, kwargs)
    }

    /// Ends what waits in `run`, within a twentieth of a second.
    fn stop(&self) {
        self.0.store(true, core::sync::atomic::Ordering::Release);
    }
}
