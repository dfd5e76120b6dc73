//! Callbacks: pass items from a queue of the engine to a function of the user.
//!
//! They run in the threads of the [pool](crate::loops::pool). A turn takes the interpreter lock once for many
//! items.

use crate::{
    errors,
    loops::{
        ending::call,
        item::Item,
        pool::{Pool, Task, Turn, Work},
    },
    zenoh::open_query::{End, Handed},
};
use core::{
    cell::RefCell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};
use std::{collections::VecDeque, sync::Arc, thread};
use zwire_engine::{
    Queue, clock,
    queue::{INTERRUPT_PERIOD, Rest},
};

/// Most items that one turn passes on, one by one.
const BATCH: usize = 256;

/// Most bytes of items that one turn takes out of their queue.
const BATCH_BYTES: usize = 8 << 20;

/// Time for which the exit of the interpreter waits for running callbacks.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// All callbacks of one session.
#[derive(Default)]
pub(crate) struct Group {
    counts: Mutex<Counts>,
    changed: Condvar,
    /// Set when no more calls are to be made.
    cancelled: AtomicBool,
    /// Number of exceptions raised by them.
    errors: AtomicU64,
}

#[derive(Default)]
struct Counts {
    /// Number of callbacks that have not ended.
    live: usize,
    /// Number of those that are closing their session right now: waiting for their end would be a
    /// deadlock.
    closing: usize,
}

impl Group {
    /// Number of callbacks that have not ended, except those that wait in `finish` themselves.
    fn others(counts: &Counts) -> usize {
        counts.live.saturating_sub(counts.closing)
    }

    /// Waits for the callbacks of a closed session until `end`, or until `interrupted` returns true.
    /// After that no more calls are made, but a running one continues. Returns the number of callbacks
    /// left.
    pub(crate) fn finish(
        self: &Arc<Self>,
        end: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> usize {
        let within =
            CURRENT.with_borrow(|life| life.as_ref().is_some_and(|life| Arc::ptr_eq(&life.group, self)));
        if within {
            self.count(|counts| counts.closing += 1);
        }
        loop {
            let now = clock::mono();
            let mut counts = self.counts.lock();
            if Self::others(&counts) == 0 || end.is_some_and(|end| now >= end) {
                break;
            }
            let slice = end.map_or(INTERRUPT_PERIOD, |end| (end - now).min(INTERRUPT_PERIOD));
            self.changed.wait_for(&mut counts, slice);
            drop(counts);
            if interrupted() {
                break;
            }
        }
        self.cancelled.store(true, Ordering::Release);
        let left = Self::others(&self.counts.lock());
        if within {
            self.count(|counts| counts.closing -= 1);
        }
        left
    }

    /// Number of exceptions raised by callbacks of the session.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Counts an exception.
    pub(crate) fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock());
        self.changed.notify_all();
    }
}

/// State of one callback, for code that ends it early or waits for its end.
#[derive(Default)]
pub(crate) struct Life {
    group: Arc<Group>,
    /// Set when no more calls are to be made.
    cancelled: AtomicBool,
    /// Number of exceptions that it has raised.
    errors: AtomicU64,
    over: Mutex<bool>,
    ended: Condvar,
}

thread_local! {
    /// State of the callback that this thread runs.
    static CURRENT: RefCell<Option<Arc<Life>>> = const { RefCell::new(None) };
}

impl Life {
    /// State of a callback in a group.
    pub(crate) fn of(group: &Arc<Group>) -> Arc<Self> {
        Arc::new(Self { group: group.clone(), ..Self::default() })
    }

    /// Ends the callback: only `drop` is still called; a running call continues.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire) || self.group.cancelled.load(Ordering::Acquire)
    }

    /// Number of exceptions that the callback has raised.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Waits until the last call has returned; within the callback itself it returns at once. False if
    /// `interrupted` returned true.
    pub(crate) fn wait(self: &Arc<Self>, interrupted: &mut dyn FnMut() -> bool) -> bool {
        if CURRENT.with_borrow(|life| life.as_ref().is_some_and(|life| Arc::ptr_eq(life, self))) {
            return true;
        }
        loop {
            {
                let mut over = self.over.lock();
                if !*over {
                    self.ended.wait_for(&mut over, INTERRUPT_PERIOD);
                }
                if *over {
                    return true;
                }
            }
            if interrupted() {
                return false;
            }
        }
    }

    fn end(&self) {
        if !core::mem::replace(&mut *self.over.lock(), true) {
            self.group.count(|counts| counts.live -= 1);
        }
        self.ended.notify_all();
    }
}

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
            let list = items.drain(..).filter_map(|item| self.good(py, item.into_py(py), None, life));
            let list: Vec<Py<PyAny>> = list.collect();
            if !list.is_empty() && !life.is_cancelled() {
                let handed: Vec<_> = list.iter().filter_map(|item| T::handed(item.bind(py))).collect();
                let argument = PyList::new(py, list).map(Bound::into_any);
                let result = argument.and_then(|list| call_with(&self.callback, list));
                self.good(py, result, handed, life);
            }
            return;
        }
        for item in items.drain(..) {
            if !life.is_cancelled() {
                let argument = item.into_py(py).map(|item| item.into_bound(py));
                let handed = argument.as_ref().ok().and_then(T::handed);
                let result = argument.and_then(|item| call_with(&self.callback, item));
                // An invalid item or a raising call does not end the subscription.
                self.good(py, result, handed, life);
            }
        }
    }

    /// Unwraps a result; an error is counted and reported. The items in `handed` count as returned by the
    /// callback.
    fn good<R>(
        &self,
        py: Python<'_>,
        result: PyResult<R>,
        handed: impl IntoIterator<Item = Handed>,
        life: &Life,
    ) -> Option<R> {
        let result = result.map_err(|error| {
            life.errors.fetch_add(1, Ordering::Relaxed);
            life.group.count_error();
            self.tell(py, error);
        });
        let how = if result.is_ok() { End::Returned } else { End::Raised };
        handed.into_iter().for_each(|query| query.back(py, how));
        result.ok()
    }

    fn tell(&self, py: Python<'_>, error: PyErr) {
        let Some(on_error) = &self.on_error else {
            report(py, error, &self.callback);
            return;
        };
        if let Err(worse) = call_with(on_error, error.value(py).clone().into_any()) {
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

/// Guard that sets [`CURRENT`] while a callback runs.
struct Current;

impl Current {
    fn set(life: &Arc<Life>) -> Self {
        CURRENT.set(Some(life.clone()));
        Self
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

impl<T: Item> Work for Calls<T> {
    fn turn(&self, py: Python<'_>) -> Turn {
        let Some(called) = self.called.lock().clone() else { return Turn::Over };
        let _current = Current::set(&self.life);
        let mut items = self.queue.take_many(called.batch.unwrap_or(BATCH), BATCH_BYTES, usize::MAX);
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
    life.group.count(|counts| counts.live += 1);
    match Pool::here().employ(Box::new(work)) {
        Ok(task) => {
            // The queue holds the work, so it lives as long as items may come.
            queue.set_waker(Some(Arc::new(move || Task::announce(&task))));
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
        let pool = Pool::here();
        let end = clock::mono() + EXIT_PATIENCE;
        while !pool.is_quiet() && clock::mono() < end {
            thread::sleep(Duration::from_millis(1));
        }
        pool.freeze();
    });
}

fn call_with(callable: &Py<PyAny>, argument: Bound<'_, PyAny>) -> PyResult<()> {
    call(callable, &PyTuple::new(argument.py(), [argument])?)
}

/// Reports an exception of a callback through `sys.unraisablehook`.
///
/// It is not printed with `PyErr_Print`: that keeps the traceback in `sys.last_traceback`, with all
/// objects that the callback referred to, and it ends the process for a `SystemExit`.
fn report(py: Python<'_>, error: PyErr, callback: &Py<PyAny>) {
    error.write_unraisable(py, Some(callback.bind(py)));
}
