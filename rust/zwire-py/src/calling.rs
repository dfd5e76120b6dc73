//! Threads of callbacks.
//!
//! A callback has a thread of its own, so that a slow one delays nobody else. The thread takes the
//! interpreter once for a batch of items, not once for each.
//!
//! It stays known to the interpreter from its start to its end. Registering a thread takes a lock of
//! `CPython` that a fork does not look after before 3.12: a thread that registers for each batch leaves
//! one child in some hundred hanging in `os.fork`.

use crate::{errors, handlers::Item};
use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use pyo3::{ffi, prelude::*, types::PyTuple};
use std::{
    sync::{Arc, OnceLock},
    thread::{self, ThreadId},
    time::Instant,
};
use zwire_engine::{Queue, queue::INTERRUPT_PERIOD, runtime::Birth};

/// The name of threads of callbacks.
const NAME: &str = "zwire-callback";

/// Most items that a thread hands over before it looks whether others want the interpreter.
const BATCH: usize = 256;

/// How long the exit of the interpreter waits for callbacks that are at work.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// The life of one callback's thread, for those who end it early.
#[derive(Default)]
pub(crate) struct Life {
    /// No more calls are to be made.
    cancelled: AtomicBool,
    thread: OnceLock<ThreadId>,
    over: Mutex<bool>,
    ended: Condvar,
}

impl Life {
    /// No more calls are made but for the end; one that runs goes on.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Waits until the last call has come back. Within the callback itself that cannot be waited for.
    /// Whether it is over; else `interrupted` said so.
    pub(crate) fn wait(&self, interrupted: &mut dyn FnMut() -> bool) -> bool {
        if self.thread.get().is_some_and(|thread| *thread == thread::current().id()) {
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
}

/// Marks the end, however it comes.
struct Lives(Arc<Life>);

impl Drop for Lives {
    fn drop(&mut self) {
        *self.0.over.lock() = true;
        self.0.ended.notify_all();
    }
}

/// Starts the thread of a callback. It ends with the queue, or with the interpreter.
pub(crate) fn start<T: Item>(
    py: Python<'_>,
    queue: Arc<Queue<T>>,
    callback: Py<PyAny>,
    drop: Option<Py<PyAny>>,
    life: Arc<Life>,
) -> PyResult<()> {
    let callbacks = Callbacks { callback, drop };
    let running = Running::new();
    let lives = Lives(life.clone());
    let thread = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
        // Set once, before anybody can be called.
        let _ = life.thread.set(thread::current().id());
        let callbacks = core::mem::ManuallyDrop::new(callbacks);
        // Without an interpreter there is nobody to call, and nobody to give the callbacks back to.
        let _ = Python::try_attach(|py| {
            let mut items = Vec::with_capacity(BATCH);
            while py.detach(|| queue.wait_readable(None, &mut || false)).is_ok() {
                queue.drain_into(&mut items, BATCH);
                callbacks.call(py, &mut items, &life);
            }
            callbacks.end(py);
            core::mem::drop(core::mem::ManuallyDrop::into_inner(callbacks));
        });
        core::mem::drop(lives);
        core::mem::drop(running);
    });
    match thread {
        Ok(_) => Ok(()),
        Err(source) => {
            let error = zwire_engine::Error::Runtime { source: Arc::new(source) };
            Err(errors::engine(py, &error))
        }
    }
}

/// The thread that ends the interpreter, once it has begun to.
static EXIT: OnceLock<ThreadId> = OnceLock::new();

/// The interpreter has begun to end, and closes what is open.
pub(crate) fn exit_begins() {
    EXIT.get_or_init(|| thread::current().id());
}

/// Does not return in a thread that the end of the interpreter leaves behind.
///
/// What such a daemon thread hears is that its session is closed, and it would print that: while the
/// interpreter ends, `CPython` aborts the process for it if it comes at the wrong moment. Threads of
/// callbacks are waited for.
pub(crate) fn stay_at_exit(py: Python<'_>) {
    let this = thread::current();
    if EXIT.get().is_some_and(|exit| *exit != this.id()) && this.name() != Some(NAME) {
        py.detach(|| {
            loop {
                thread::park();
            }
        });
    }
}

/// Waits a little for callbacks that are at work, after their sessions were closed.
///
/// A thread that comes back from a long callback when the interpreter has gone on with its end is
/// stopped where it stands, see [`Stay`].
pub(crate) fn wait_for_end(py: Python<'_>) {
    py.detach(|| {
        let end = Instant::now() + EXIT_PATIENCE;
        while Running::count() > 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// One thread of a callback, as long as it lives.
struct Running;

/// How many threads run callbacks, below; above, the generation of the process that counts. A forked
/// child has none of the threads of its parent, so its count starts anew.
static RUNNING: AtomicU64 = AtomicU64::new(0);

impl Running {
    fn generation() -> u64 {
        u64::from(Birth::here().generation()) << 32
    }

    fn new() -> Self {
        let generation = Self::generation();
        // The closure never refuses.
        let _ = RUNNING.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            let ours = count >> 32 == generation >> 32;
            Some(if ours { count + 1 } else { generation + 1 })
        });
        Self
    }

    fn count() -> u64 {
        let count = RUNNING.load(Ordering::Acquire);
        if count >> 32 == Self::generation() >> 32 { count & u64::from(u32::MAX) } else { 0 }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Callbacks {
    callback: Py<PyAny>,
    drop: Option<Py<PyAny>>,
}

impl Callbacks {
    fn call<T: Item>(&self, py: Python<'_>, items: &mut Vec<T>, life: &Life) {
        for item in items.drain(..) {
            if life.cancelled.load(Ordering::Acquire) {
                continue;
            }
            let arguments = item.into_py(py).and_then(|item| PyTuple::new(py, [item]));
            // One bad item or one bad call does not end the subscription.
            if let Err(error) = arguments.and_then(|arguments| call(&self.callback, &arguments)) {
                report(py, error, &self.callback);
            }
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

#[allow(unsafe_code, reason = "the declaration is that of the stable ABI")]
unsafe extern "C-unwind" {
    /// As in `pyo3::ffi`, but allowed to unwind, which is what [`Stay`] is there for.
    fn PyObject_CallObject(callable: *mut ffi::PyObject, arguments: *mut ffi::PyObject)
    -> *mut ffi::PyObject;
}

/// Calls what the user gave us; the thread may never come back, see [`Stay`].
#[allow(unsafe_code, reason = "calls of PyO3 do not let an unwinding stack through")]
fn call(callable: &Py<PyAny>, arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
    let stay = Stay;
    // SAFETY: both are live objects, the arguments a tuple, and we hold the interpreter, as `arguments`
    // proves.
    let result = unsafe { PyObject_CallObject(callable.as_ptr(), arguments.as_ptr()) };
    core::mem::forget(stay);
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(arguments.py(), result) }.map(core::mem::drop)
}

/// Says what a callback has raised, through `sys.unraisablehook`.
///
/// Not by printing it: that keeps the traceback in `sys.last_traceback`, and with it the query that the
/// callback has not finished, whose asker then waits for its timeout; and it ends the process for a
/// `SystemExit`.
fn report(py: Python<'_>, error: PyErr, callback: &Py<PyAny>) {
    error.write_unraisable(py, Some(callback.bind(py)));
}

/// Keeps a thread where it is when `CPython` wants to end it in the middle of a callback.
///
/// Before 3.14 a thread that asks for the interpreter during its finalization is ended by `pthread_exit`,
/// which unwinds the stack. That cannot cross the start of a Rust thread: the process would abort, and
/// a program that has done its work would end with an error. So the thread stays in this drop, and goes
/// with the process.
struct Stay;

impl Drop for Stay {
    fn drop(&mut self) {
        // A panic of ours is another matter, and goes on.
        while !thread::panicking() {
            thread::park();
        }
    }
}
