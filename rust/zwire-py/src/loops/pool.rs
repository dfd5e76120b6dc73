//! [`Pool`]: the threads that run callbacks.
//!
//! One thread for each callback would keep a slow one from delaying the others, but need five thousand
//! threads for five thousand subscribers. So a few threads take turns running ready tasks, and more are
//! started when those are blocked: `docs/design/2026-11-22-callbacks.md`.
//!
//! A thread stays attached to the interpreter from its start to its end. Attaching takes a lock of
//! `CPython` that is not fork-safe before 3.12: with a thread that attaches for each batch, one child in
//! some hundred hangs in `os.fork`.

use core::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use std::{collections::VecDeque, io, sync::Arc, thread};
use zwire_engine::{
    clock,
    runtime::{self, Birth, PerProcess},
};

/// Name of callback threads.
pub(crate) const NAME: &str = "zwire-callback";

/// Most callback threads in a process, and so the number of callbacks that may block at once before
/// others wait for them; a waiting thread costs some ten kilobytes.
const MOST: usize = 1024;

/// Interval of the check for blocked threads, and the time that a task waits before one more thread is
/// started.
const TICK: Duration = Duration::from_millis(2);

/// Most threads that are started in one tick: starting them takes time of a network thread.
const JOIN: usize = 16;

/// Time after which an idle thread ends.
const LINGER: Duration = Duration::from_secs(1);

/// Time for which a thread goes from one task to the next before it releases the interpreter lock.
const SLICE: Duration = Duration::from_millis(1);

/// Pause before the next attempt after the system has refused a thread.
const PAUSE: Duration = Duration::from_secs(1);

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// No work is left; the next is [announced](Task::announce).
    Done,
    /// More to do.
    More,
    /// The work has ended.
    Over,
}

/// Work for the pool, done turn by turn: never two turns at once, and in the order of their announcement.
pub(crate) trait Work: Send + Sync {
    /// Does a part of the work; takes a short time unless the callback blocks.
    fn turn(&self, py: Python<'_>) -> Turn;

    /// Called after a turn has panicked: there will be no other.
    fn abandon(&self);
}

const RESTING: u8 = 0;
const WAITING: u8 = 1;
const RUNNING: u8 = 2;
/// Running, and announced again since the turn has begun.
const AGAIN: u8 = 3;

/// A work and its scheduling state.
pub(crate) struct Task {
    state: AtomicU8,
    pool: &'static Pool,
    work: Box<dyn Work>,
}

impl Task {
    /// Announces that there is something to do.
    pub(crate) fn announce(self: &Arc<Self>) {
        // The closure returns `None` where the state does not change.
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
            RESTING => Some(WAITING),
            RUNNING => Some(AGAIN),
            _ => None,
        });
        if before == Ok(RESTING) {
            self.pool.add(self.clone());
        }
    }
}

/// Place at which an idle thread waits for a task.
#[derive(Default)]
struct Seat {
    wake: Condvar,
    task: Mutex<Option<Arc<Task>>>,
}

#[derive(Default)]
struct State {
    /// Announced tasks, with the time of their announcement.
    ready: VecDeque<(Arc<Task>, Duration)>,
    /// Idle threads. If there is one, `ready` is empty.
    idle: Vec<Arc<Seat>>,
    threads: usize,
    /// Works that have not ended.
    works: usize,
    /// Number of tasks taken so far.
    taken: u64,
    /// Whether the periodic check for blocked threads runs.
    watched: bool,
    /// Set at the end of the interpreter: threads must not enter it any more.
    frozen: bool,
}

impl State {
    /// Number of further threads that would help if the existing ones are blocked.
    fn room(&self) -> usize {
        self.works.min(MOST).saturating_sub(self.threads)
    }

    fn worth_watching(&self) -> bool {
        self.idle.is_empty() && self.room() > 0 && self.threads > 0 && !self.frozen
    }
}

/// The callback threads of one process.
pub(crate) struct Pool {
    birth: Birth,
    state: Mutex<State>,
    /// Threads that wait for the interpreter lock in order to work: another one would only wait behind
    /// them.
    entering: AtomicUsize,
}

static POOL: PerProcess<Pool> = PerProcess::new();

impl Pool {
    /// The pool of this process; a forked child has none of the threads of its parent, and gets a new
    /// one.
    pub(crate) fn here() -> &'static Self {
        POOL.get(|| Self { birth: Birth::here(), state: Mutex::default(), entering: AtomicUsize::new(0) })
    }

    /// Adds a work; its turns have to be announced.
    ///
    /// # Errors
    /// There is no thread yet, and the system refuses one.
    pub(crate) fn employ(&'static self, work: Box<dyn Work>) -> io::Result<Arc<Task>> {
        let alone = {
            let mut state = self.state.lock();
            state.works += 1;
            let alone = state.threads == 0;
            if alone {
                state.threads = 1;
            }
            alone
        };
        if alone && let Err(error) = self.start() {
            self.state.lock().works -= 1;
            return Err(error);
        }
        Ok(Arc::new(Task { state: AtomicU8::new(RESTING), pool: self, work }))
    }

    /// Starts a thread, which is counted already.
    fn start(&'static self) -> io::Result<()> {
        self.entering.fetch_add(1, Ordering::AcqRel);
        let started = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            let counted = Counted(self);
            if Python::try_attach(|py| self.serve(py)).is_some() {
                // A thread that ended as idle is not counted any more.
                core::mem::forget(counted);
            }
            // Without an interpreter there is nothing to do.
            self.entering.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            self.entering.fetch_sub(1, Ordering::AcqRel);
            self.state.lock().threads -= 1;
        }
        started.map(drop)
    }

    /// Main loop of a thread.
    fn serve(&'static self, py: Python<'_>) {
        let seat = Arc::<Seat>::default();
        self.entering.fetch_sub(1, Ordering::AcqRel);
        while let Some(first) = py.detach(|| self.next(&seat)) {
            self.entering.fetch_sub(1, Ordering::AcqRel);
            let end = clock::mono() + SLICE;
            let mut next = Some(first);
            while let Some(task) = next {
                let turn = self.run(py, &task);
                next = self.finish(task, turn, clock::mono() < end);
            }
        }
    }

    fn run(&self, py: Python<'_>, task: &Arc<Task>) -> Turn {
        /// Guard that ends the work of a turn that panics; its thread ends as well.
        struct Panics<'a>(&'a Pool, &'a Task);
        impl Drop for Panics<'_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    self.1.work.abandon();
                    self.0.state.lock().works -= 1;
                }
            }
        }
        task.state.store(RUNNING, Ordering::Release);
        let panics = Panics(self, task);
        let turn = task.work.turn(py);
        drop(panics);
        // In a child that was forked within a callback and has returned from it, the state belongs to the
        // parent, including locks held by threads that the child does not have.
        while !self.birth.is_here() {
            py.detach(|| thread::sleep(LINGER));
        }
        turn
    }

    /// Handles the end of a turn; returns the next task if there is one and `go_on` is set.
    fn finish(&self, task: Arc<Task>, turn: Turn, go_on: bool) -> Option<Arc<Task>> {
        let again = match turn {
            Turn::Over => false,
            Turn::More => true,
            Turn::Done => {
                let rests =
                    task.state.compare_exchange(RUNNING, RESTING, Ordering::AcqRel, Ordering::Acquire);
                rests.is_err()
            }
        };
        let mut state = self.state.lock();
        if turn == Turn::Over {
            state.works -= 1;
        }
        if again {
            task.state.store(WAITING, Ordering::Release);
            // Queued behind the others, so that a busy work delays no other.
            state.ready.push_back((task, clock::mono()));
        }
        if !go_on {
            return None;
        }
        let (next, _) = state.ready.pop_front()?;
        state.taken += 1;
        Some(next)
    }

    /// Waits for the next task without the interpreter lock; `None` if the thread is not needed. In both
    /// cases the thread counts as entering the interpreter.
    fn next(&self, seat: &Arc<Seat>) -> Option<Arc<Task>> {
        let mut state = self.state.lock();
        if state.frozen {
            drop(state);
            stay();
        }
        if let Some((task, _)) = state.ready.pop_front() {
            state.taken += 1;
            self.entering.fetch_add(1, Ordering::AcqRel);
            return Some(task);
        }
        state.idle.push(seat.clone());
        loop {
            let late = seat.wake.wait_for(&mut state, LINGER).timed_out();
            if let Some(task) = seat.task.lock().take() {
                return Some(task);
            }
            if state.frozen {
                drop(state);
                stay();
            }
            // One thread stays as long as there are works.
            if late && (state.idle.len() > 1 || state.works == 0) {
                state.idle.retain(|known| !Arc::ptr_eq(known, seat));
                state.threads -= 1;
                self.entering.fetch_add(1, Ordering::AcqRel);
                return None;
            }
        }
    }

    /// Schedules a task. The thread that became idle last takes it, so that the others time out if they
    /// are not needed.
    fn add(&'static self, task: Arc<Task>) {
        let mut state = self.state.lock();
        let seat = state.idle.pop();
        if let Some(seat) = &seat {
            *seat.task.lock() = Some(task);
            state.taken += 1;
            self.entering.fetch_add(1, Ordering::AcqRel);
        } else {
            state.ready.push_back((task, clock::mono()));
        }
        let watch = !state.watched && state.worth_watching();
        state.watched |= watch;
        drop(state);
        if let Some(seat) = seat {
            seat.wake.notify_one();
        }
        if watch {
            self.watch();
        }
    }

    /// Checks the threads periodically as long as they may be blocked.
    fn watch(&'static self) {
        let mut taken = None;
        let mut pause = None;
        let watching = runtime::every(TICK, move || {
            if pause.is_some_and(|end| clock::mono() < end) {
                return true;
            }
            let join = {
                let mut state = self.state.lock();
                if !state.worth_watching() {
                    state.watched = false;
                    return false;
                }
                let stuck = taken.replace(state.taken) == Some(state.taken);
                let late = state.ready.front().is_some_and(|(_, since)| clock::mono() - *since >= TICK);
                // While a thread waits for the interpreter lock, that is the bottleneck, and another
                // thread would not help.
                if self.entering.load(Ordering::Acquire) > 0 || !(stuck || late) {
                    return true;
                }
                // One thread in reserve, more for waiting tasks.
                let join = state.ready.len().min(state.threads).min(JOIN).min(state.room()).max(1);
                state.threads += join;
                join
            };
            for started in 0..join {
                if let Err(error) = self.start() {
                    self.state.lock().threads -= join - started - 1;
                    warn_refused(&error);
                    pause = Some(clock::mono() + PAUSE);
                    break;
                }
            }
            true
        });
        if watching.is_err() {
            // Without a runtime there is no session that could call.
            self.state.lock().watched = false;
        }
    }

    /// Whether all works have ended, and no thread is about to enter the interpreter.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state.lock().works == 0 && self.entering.load(Ordering::Acquire) == 0
    }

    /// Parks threads that wait now, until the process ends.
    pub(crate) fn freeze(&self) {
        self.state.lock().frozen = true;
    }
}

fn warn_refused(error: &io::Error) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(%error, "starting a callback thread failed: callbacks may wait for each other");
    }
}

/// Parks a thread that must not enter the interpreter any more.
fn stay() -> ! {
    loop {
        thread::park();
    }
}

/// Guard that counts a thread until it is not needed or fails.
struct Counted(&'static Pool);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state.lock().threads -= 1;
    }
}
