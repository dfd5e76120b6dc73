//! [`Pending`]: conditions that an event loop waits for; and calls of commands that must not wait, or
//! that another thread may end early.

use crate::{
    advanced_publisher::AdvancedPublisher,
    advanced_subscriber::AdvancedSubscriber,
    errors, interrupt,
    liveliness::LivelinessToken,
    publisher::Publisher,
    querier::Querier,
    queryable::Queryable,
    session::{Handle, Session},
    subscriber::Subscriber,
    waking::{Door, Flag, Ready, Wakeups},
};
use core::sync::atomic::AtomicBool;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::sync::Arc;
use zwire_engine::{
    BarrierWait, Error, MatchingWait, Waker,
    deferred::{self, Turned},
};
use zwire_proto::zenoh::session::Barrier;

/// Condition of a session.
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
    } else if let Ok(subscriber) = of.cast::<Subscriber>() {
        &subscriber.get().declared
    } else if let Ok(subscriber) = of.cast::<AdvancedSubscriber>() {
        &subscriber.get().subscriber.declared
    } else if let Ok(queryable) = of.cast::<Queryable>() {
        &queryable.get().declared
    } else {
        &of.cast::<LivelinessToken>()?.get().declared
    };
    declared.check(py)?;
    Ok(declared.session.clone())
}

#[pymethods]
impl Pending {
    /// Completed when all neighbours know the declarations of a session, subscriber, queryable or token.
    #[staticmethod]
    fn declarations(py: Python<'_>, of: &Bound<'_, PyAny>) -> PyResult<Self> {
        let session = session(py, of)?;
        let wait = session.run(py, |engine, _| engine.begin_barrier(Barrier::Declarations))?;
        Ok(Self::of(State::Barrier(Mutex::new(wait))))
    }

    /// Completed when all neighbours have received the publications of a session.
    #[staticmethod]
    fn everything(py: Python<'_>, of: &Bound<'_, Session>) -> PyResult<Self> {
        let wait = of.get().0.run(py, |engine, _| engine.begin_barrier(Barrier::Everything))?;
        Ok(Self::of(State::Barrier(Mutex::new(wait))))
    }

    /// Completed when at least `n` counterparts match a publisher or querier.
    #[staticmethod]
    fn matching(py: Python<'_>, of: &Bound<'_, PyAny>, n: usize) -> PyResult<Self> {
        let declared = if let Ok(publisher) = of.cast::<Publisher>() {
            &publisher.get().declared
        } else if let Ok(publisher) = of.cast::<AdvancedPublisher>() {
            &publisher.get().declared
        } else {
            &of.cast::<Querier>()?.get().declared
        };
        declared.check(py)?;
        let id = declared.id;
        let wait = declared.session.run(py, |engine, _| engine.begin_matching(id, n))?;
        Ok(Self::of(State::Matching(Mutex::new(wait))))
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

    /// Arms the wakeup for one notification. True, without arming it, if the condition has a result already.
    fn arm(&self, py: Python<'_>) -> bool {
        py.detach(|| self.door.arm(&self.state))
    }

    /// Disarms the wakeup.
    fn disarm(&self) {
        self.door.disarm();
    }
}

/// Calls `function` without the waits that commands of a session in it would make.
///
/// Returns its result, and: None if all is done, a `Pending` if the caller should wait for room next,
/// False if nothing was done because the command would have had to wait first. In that case the result is
/// meaningless.
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

    /// Calls `function`. When `stop` is called meanwhile, waits in it raise `InterruptedError`.
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

    /// Ends the waits in `run`, within a twentieth of a second.
    fn stop(&self) {
        self.0.store(true, core::sync::atomic::Ordering::Release);
    }
}
