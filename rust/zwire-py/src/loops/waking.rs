//! Wakeups of event loops: one thread of the process notifies each loop once for all items that have
//! arrived meanwhile. A subscriber needs no thread, descriptor or future of its own.
//!
//! A [`Bell`] is registered at a queue, or at a condition. It notifies its loop once if it is armed,
//! which it is while a coroutine waits, so a busy consumer costs its producer one atomic load.

use crate::{errors::OrRaise, loops::ending};
use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use pyo3::{prelude::*, types::PyTuple};
use std::{
    sync::{Arc, OnceLock, Weak},
    thread,
};
use zwire_engine::{Waker, clock, runtime::Birth};

/// Time for which the exit of the interpreter waits for the thread.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// Work for the thread.
#[derive(Default)]
struct Round {
    loops: Vec<Weak<Loop>>,
    ended: bool,
    /// Set when the thread has ended.
    over: bool,
}

#[derive(Default)]
struct Shared {
    round: Mutex<Round>,
    changed: Condvar,
}

impl Shared {
    fn post(&self, of: Weak<Loop>) {
        self.round.lock().loops.push(of);
        self.changed.notify_all();
    }

    /// Waits for loops to be notified; `None` at the end.
    fn next(&self) -> Option<Vec<Weak<Loop>>> {
        let mut round = self.round.lock();
        loop {
            if round.ended {
                return None;
            }
            if !round.loops.is_empty() {
                return Some(core::mem::take(&mut round.loops));
            }
            self.changed.wait(&mut round);
        }
    }

    /// The thread stays attached to the interpreter from its start to its end, like callback threads.
    fn run(&self) {
        // Without an interpreter there is no loop to notify.
        let _ = Python::try_attach(|py| {
            while let Some(loops) = py.detach(|| self.next()) {
                for of in loops.iter().filter_map(Weak::upgrade) {
                    // Fails if the loop is closed. Nothing waits in it any more, and because it stays
                    // marked as told, it is not notified again.
                    let _ = ending::call(&of.wake, &PyTuple::empty(py));
                }
            }
        });
        self.round.lock().over = true;
        self.changed.notify_all();
    }
}

/// The thread that notifies event loops. One for each process.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct WakeThread {
    shared: Arc<Shared>,
    birth: Birth,
}

#[pymethods]
impl WakeThread {
    #[new]
    fn new() -> PyResult<Self> {
        let shared = Arc::<Shared>::default();
        let running = shared.clone();
        thread::Builder::new().name("zwire-wake".to_owned()).spawn(move || running.run())?;
        Ok(Self { shared, birth: Birth::here() })
    }

    /// Ends the thread. A second call does nothing.
    fn stop(&self, py: Python<'_>) {
        // A forked child does not have the thread, and inherits the lock in an undefined state.
        if !self.birth.is_here() {
            return;
        }
        py.detach(|| {
            let mut round = self.shared.round.lock();
            round.ended = true;
            self.shared.changed.notify_all();
            let end = clock::deadline(clock::mono() + EXIT_PATIENCE);
            while !round.over && !self.shared.changed.wait_until(&mut round, end).timed_out() {}
        });
    }
}

/// Pending notifications of one event loop.
#[derive(Default)]
struct Rung {
    tokens: Vec<u64>,
    /// Whether the loop was notified, or is about to be.
    told: bool,
}

struct Loop {
    wake: Py<PyAny>,
    thread: Arc<Shared>,
    rung: Mutex<Rung>,
}

impl Loop {
    fn ring(self: &Arc<Self>, token: u64) {
        let mut rung = self.rung.lock();
        rung.tokens.push(token);
        if core::mem::replace(&mut rung.told, true) {
            return;
        }
        drop(rung);
        self.thread.post(Arc::downgrade(self));
    }
}

/// Registration of an event loop: `wake` is called in the thread of [`WakeThread`], and has to make the
/// loop call `take`.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct Wakeups {
    inner: Arc<Loop>,
    birth: Birth,
}

#[pymethods]
impl Wakeups {
    #[new]
    fn new(thread: &Bound<'_, WakeThread>, wake: Py<PyAny>) -> Self {
        let thread = thread.get();
        let inner = Loop { wake, thread: thread.shared.clone(), rung: Mutex::default() };
        Self { inner: Arc::new(inner), birth: thread.birth }
    }

    /// Takes the tokens of all bells that have rung since the last call.
    fn take(&self) -> Vec<u64> {
        let mut rung = self.inner.rung.lock();
        rung.told = false;
        core::mem::take(&mut rung.tokens)
    }
}

/// Notifies one event loop while it is armed.
pub(crate) struct Bell {
    to: Weak<Loop>,
    token: u64,
    armed: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        if self.armed.load(Ordering::SeqCst)
            && self.armed.swap(false, Ordering::SeqCst)
            && let Some(to) = self.to.upgrade()
        {
            to.ring(self.token);
        }
    }
}

/// Source that a bell can be registered at.
pub(crate) trait Ready: Send + Sync {
    /// Whether there is something to take, or never will be.
    fn is_ready(&self) -> bool;
    /// Sets a waker that is called when that may have changed.
    fn listen(&self, waker: Waker);
}

/// The bell of one source: the last one registered is used.
#[derive(Default)]
pub(crate) struct Door(Mutex<Option<Arc<Bell>>>);

impl Door {
    /// Registers a bell that notifies that loop with that token.
    pub(crate) fn bind(
        &self,
        py: Python<'_>,
        source: &dyn Ready,
        wakeups: &Bound<'_, Wakeups>,
        token: u64,
    ) -> PyResult<()> {
        let wakeups = wakeups.get();
        wakeups.birth.check().or_raise(py)?;
        let bell = Bell { to: Arc::downgrade(&wakeups.inner), token, armed: AtomicBool::new(false) };
        let bell = Arc::new(bell);
        *self.0.lock() = Some(bell.clone());
        source.listen(Arc::new(move || bell.ring()));
        Ok(())
    }

    /// Arms the bell for one notification. Returns true, without arming it, if the source is ready already.
    pub(crate) fn arm(&self, source: &dyn Ready) -> bool {
        let bell = self.0.lock().clone();
        let Some(bell) = bell else { return source.is_ready() };
        bell.armed.store(true, Ordering::SeqCst);
        // Armed before the check: a change after it rings the bell.
        let ready = source.is_ready();
        if ready {
            bell.armed.store(false, Ordering::SeqCst);
        }
        ready
    }

    /// Disarms the bell.
    pub(crate) fn disarm(&self) {
        if let Some(bell) = &*self.0.lock() {
            bell.armed.store(false, Ordering::SeqCst);
        }
    }
}

/// A flag that another thread sets once.
#[derive(Default)]
pub(crate) struct Flag {
    set: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Flag {
    pub(crate) fn set(&self) {
        self.set.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker();
        }
    }
}

impl Ready for Flag {
    fn is_ready(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }

    fn listen(&self, waker: Waker) {
        // Only one loop waits for it.
        let _ = self.waker.set(waker);
    }
}
