//! Callbacks: pass items from a queue of the engine, converted to Python objects, to a function of the user.
//!
//! They run in the threads of the [pool](zwire_engine::pool). A turn takes the interpreter lock once for many
//! items.

use crate::{
    errors,
    loops::ending::call,
    zenoh::open_query::{End, Handed},
};
use core::time::Duration;
use parking_lot::Mutex;
use pyo3::{
    exceptions::PyBaseException,
    prelude::*,
    types::{PyList, PyTuple},
};
use std::{collections::VecDeque, sync::Arc, thread};
pub(crate) use zwire_engine::callbacks::{CallbackGroup as Group, CallbackLife as Life};
use zwire_engine::{
    Queue, clock,
    pool::{CallbackPool, Host, PoolTask, Turn, Work},
    queue::{Rest, Weigh},
};

/// Item of a queue of the engine that can be converted to a Python object.
pub(crate) trait Item: Weigh + Send + 'static {
    /// Whether a program has to answer it.
    const IS_ANSWERED: bool = false;

    /// The Python object.
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>>;

    /// Records that this thread hands the item to the program, if the item has to be answered.
    fn handed(_item: &Bound<'_, PyAny>) -> Option<Handed> {
        None
    }

    /// Answers the item with an exception of the program, if the item has to be answered.
    fn failed(_item: &Bound<'_, PyAny>, _error: &Bound<'_, PyBaseException>) {}
}

/// The interpreter of this process.
static HOST: Host = Host {
    enter: |work| Python::try_attach(|_| work()).is_some(),
    leave: |wait| Python::attach(|py| py.detach(wait)),
};

/// Most items that one turn passes on, one by one.
const BATCH: usize = 256;

/// Most bytes of items that one turn takes out of their queue.
const BATCH_BYTES: usize = 8 << 20;

/// Time for which the exit of the interpreter waits for running callbacks.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// Callables given by the user.
pub(crate) struct Called {
    pub(crate) callback: Py<PyAny>,
    /// Function to call at the end.
    pub(crate) drop: Option<Py<PyAny>>,
    /// Function to call with an exception of the callback.
    pub(crate) on_error: Option<Py<PyAny>>,
    /// Most items of a list for one call; `None`: one item for each call.
    pub(crate) batch: Option<usize>,
}

impl Called {
    /// A plain callback.
    pub(crate) const fn new(callback: Py<PyAny>) -> Self {
        Self { callback, drop: None, on_error: None, batch: None }
    }

    fn call<T: Item>(&self, py: Python<'_>, items: &mut VecDeque<T>, life: &Life) {
        if self.batch.is_some() {
            let list = items.drain(..).filter_map(|item| self.good(py, item.into_py(py), life));
            let list: Vec<Bound<'_, PyAny>> = list.map(|item| item.into_bound(py)).collect();
            if !list.is_empty() && !life.is_cancelled() {
                let argument = PyList::new(py, &list).map(Bound::into_any);
                self.pass::<T>(py, &list, argument, life);
            }
            return;
        }
        for item in items.drain(..) {
            if !life.is_cancelled()
                && let Some(item) = self.good(py, item.into_py(py), life)
            {
                let item = item.into_bound(py);
                self.pass::<T>(py, core::slice::from_ref(&item), Ok(item.clone()), life);
            }
        }
    }

    /// Calls the callback. Items that have to be answered get its exception as the answer, and count as returned
    /// afterwards; an exception does not end the subscription.
    fn pass<'py, T: Item>(
        &self,
        py: Python<'py>,
        items: &[Bound<'py, PyAny>],
        argument: PyResult<Bound<'py, PyAny>>,
        life: &Life,
    ) {
        let handed: Vec<_> = items.iter().filter_map(T::handed).collect();
        let result = argument.and_then(|argument| call_with(&self.callback, argument));
        if let Err(error) = &result {
            let error = raised(py, error);
            items.iter().for_each(|item| T::failed(item, &error));
        }
        let how = if self.good(py, result, life).is_some() { End::Returned } else { End::Raised };
        handed.into_iter().for_each(|query| query.back(py, how));
    }

    /// Unwraps a result; an error is counted and reported.
    fn good<R>(&self, py: Python<'_>, result: PyResult<R>, life: &Life) -> Option<R> {
        let result = result.map_err(|error| {
            life.count_error();
            self.tell(py, error);
        });
        result.ok()
    }

    fn tell(&self, py: Python<'_>, error: PyErr) {
        let Some(on_error) = &self.on_error else {
            report(py, error, &self.callback);
            return;
        };
        if let Err(worse) = call_with(on_error, raised(py, &error).into_any()) {
            report(py, worse, on_error);
        }
    }

    fn end(&self, py: Python<'_>) {
        if let Some(drop) = &self.drop
            && let Err(error) = call(drop, &PyTuple::empty(py))
        {
            report(py, error, drop);
        }
    }
}

/// A queue and the callables for its items.
struct Calls<T: Item> {
    queue: Arc<Queue<T>>,
    /// Released at the end.
    called: Mutex<Option<Arc<Called>>>,
    life: Arc<Life>,
}

impl<T: Item> Calls<T> {
    fn take_turn(&self, py: Python<'_>) -> Turn {
        let Some(called) = self.called.lock().clone() else { return Turn::Over };
        let mut items = self.queue.take_singles(called.batch.unwrap_or(BATCH), BATCH_BYTES, usize::MAX);
        called.call(py, &mut items, &self.life);
        self.queue.give_back(items);
        match self.queue.rest() {
            Rest::More => Turn::More,
            Rest::Nothing => Turn::Done,
            Rest::Ended => {
                called.end(py);
                *self.called.lock() = None;
                drop(called);
                // Breaks a cycle: the queue holds the waker, and the waker this work.
                self.queue.set_waker(None);
                self.life.end();
                Turn::Over
            }
        }
    }
}

impl<T: Item> Work for Calls<T> {
    fn turn(&self) -> Turn {
        // The thread is attached already.
        Python::attach(|py| self.life.run(|| self.take_turn(py)))
    }

    fn abandon(&self) {
        self.queue.set_waker(None);
        self.life.end();
    }
}

/// Starts calling the user's functions with the items of a queue, until that is closed and empty.
pub(crate) fn start<T: Item>(
    py: Python<'_>,
    queue: Arc<Queue<T>>,
    called: Called,
    life: Arc<Life>,
) -> PyResult<()> {
    let work = Calls { queue: queue.clone(), called: Mutex::new(Some(Arc::new(called))), life: life.clone() };
    life.begin();
    match CallbackPool::here(&HOST).employ(Box::new(work)) {
        Ok(task) => {
            // The queue holds the work, so it lives as long as items may come.
            queue.set_waker(Some(Arc::new(move || PoolTask::announce(&task))));
            Ok(())
        }
        Err(source) => {
            life.end();
            let error = zwire_engine::Error::Runtime { source: Arc::new(source) };
            Err(errors::engine(py, &error))
        }
    }
}

/// Waits a little for running callbacks, after their sessions were closed.
///
/// A thread that returns from a long callback when the interpreter is ending already is stopped there,
/// see [`Stay`].
pub(crate) fn wait_for_end(py: Python<'_>) {
    py.detach(|| {
        let pool = CallbackPool::here(&HOST);
        let end = clock::mono() + EXIT_PATIENCE;
        while !pool.is_quiet() && clock::mono() < end {
            thread::sleep(Duration::from_millis(1));
        }
        pool.freeze();
    });
}

/// The exception as Python code sees it: with its traceback.
fn raised<'py>(py: Python<'py>, error: &PyErr) -> Bound<'py, PyBaseException> {
    error.clone_ref(py).into_value(py).into_bound(py)
}

fn call_with(callable: &Py<PyAny>, argument: Bound<'_, PyAny>) -> PyResult<()> {
    call(callable, &PyTuple::new(argument.py(), [argument])?).map(drop)
}

/// Reports an exception of a callback through `sys.unraisablehook`.
///
/// It is not printed with `PyErr_Print`: that keeps the traceback in `sys.last_traceback`, with all
/// objects that the callback referred to, and it ends the process for a `SystemExit`.
fn report(py: Python<'_>, error: PyErr, callback: &Py<PyAny>) {
    error.write_unraisable(py, Some(callback.bind(py)));
}
