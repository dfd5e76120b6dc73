//! Callbacks: from a queue of the engine to a function of the user.
//!
//! The threads are those of the [pool](crate::loops::pool). A turn takes the interpreter once for a run of items,
//! not once for each.

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

/// Most items that one turn hands over, one by one.
const BATCH: usize = 256;

/// Most bytes of items that one turn takes out of their queue.
const BATCH_BYTES: usize = 8 << 20;

/// How long the exit of the interpreter waits for callbacks that are at work.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// The callbacks of one session.
#[derive(Default)]
pub(crate) struct Group {
    counts: Mutex<Counts>,
    changed: Condvar,
    /// No more calls are to be made.
    cancelled: AtomicBool,
    /// How often one of them has raised.
    errors: AtomicU64,
}

#[derive(Default)]
struct Counts {
    /// Callbacks that are not over.
    live: usize,
    /// Those of them that are closing their session right now: their end cannot be waited for.
    closing: usize,
}

impl Group {
    /// How many callbacks are not over, but for those that wait here themselves.
    fn others(counts: &Counts) -> usize {
        counts.live.saturating_sub(counts.closing)
    }

    /// Waits for the callbacks of a closed session until `end`, or until `interrupted` says so. Then no more
    /// calls are made, but one that runs goes on. How many do.
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

    /// How often a callback of the session has raised.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// One has raised.
    pub(crate) fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock());
        self.changed.notify_all();
    }
}

/// The life of one callback, for those who end it early or wait for its end.
#[derive(Default)]
pub(crate) struct Life {
    group: Arc<Group>,
    /// No more calls are to be made.
    cancelled: AtomicBool,
    /// How often it has raised.
    errors: AtomicU64,
    over: Mutex<bool>,
    ended: Condvar,
}

thread_local! {
    /// Whose callback this thread runs.
    static CURRENT: RefCell<Option<Arc<Life>>> = const { RefCell::new(None) };
}

impl Life {
    /// One of a group.
    pub(crate) fn of(group: &Arc<Group>) -> Arc<Self> {
        Arc::new(Self { group: group.clone(), ..Self::default() })
    }

    /// No more calls are made but for the end; one that runs goes on.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire) || self.group.cancelled.load(Ordering::Acquire)
    }

    /// How often the callback has raised.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Waits until the last call has come back. Within the callback itself that cannot be waited for.
    /// Whether it is over; else `interrupted` said so.
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

/// What the user gave to be called.
pub(crate) struct Called {
    pub(crate) callback: Py<PyAny>,
    /// What to call at the end.
    pub(crate) drop: Option<Py<PyAny>>,
    /// What to call with an exception of the callback.
    pub(crate) on_error: Option<Py<PyAny>>,
    /// Most items of one call, which gets a list of them; `None` for one by one.
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
                // One bad item or one bad call does not end the subscription.
                self.good(py, result, handed, life);
            }
        }
    }

    /// Without the error, which is counted and told. What was handed to the callback is back.
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

/// A queue and who is called with what comes in it.
struct Calls<T: Item> {
    queue: Arc<Queue<T>>,
    /// Given back at the end.
    called: Mutex<Option<Arc<Called>>>,
    life: Arc<Life>,
}

/// Says whose callback this thread runs.
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
                // The queue holds the waker, the waker this.
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

/// Calls what the user gave with what comes in the queue, until that is closed and empty.
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
            // The work lives as long as something may come: its queue holds it.
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

/// Waits a little for callbacks that are at work, after their sessions were closed.
///
/// A thread that comes back from a long callback when the interpreter has gone on with its end is
/// stopped where it stands, see [`Stay`].
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

/// Says what a callback has raised, through `sys.unraisablehook`.
///
/// Not by printing it: that keeps the traceback in `sys.last_traceback`, and with it all that the callback
/// referred to; and it ends the process for a `SystemExit`.
fn report(py: Python<'_>, error: PyErr, callback: &Py<PyAny>) {
    error.write_unraisable(py, Some(callback.bind(py)));
}
