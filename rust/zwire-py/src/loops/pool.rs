//! [`Pool`]: the threads that run callbacks.
//!
//! One thread for each callback would keep a slow one from delaying the others, and cost five thousand
//! threads for five thousand subscribers. So a few threads take turns at whatever has something to do, and
//! others join them when those are held up: `docs/design/2026-11-22-callbacks.md`.
//!
//! A thread stays known to the interpreter from its start to its end. Registering one takes a lock of
//! `CPython` that a fork does not look after before 3.12: a thread that registers for each batch leaves one
//! child in some hundred hanging in `os.fork`.

use core::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;
use std::{collections::VecDeque, io, sync::Arc, thread};
use zwire_engine::{
    clock,
    runtime::{self, Birth},
};

/// The name of threads of callbacks.
pub(crate) const NAME: &str = "zwire-callback";

/// Most threads of callbacks in a process. So many callbacks may be stuck at once before others wait for
/// them; a thread that waits costs some ten kilobytes.
const MOST: usize = 1024;

/// How often threads that are held up are looked for, and how long work waits before one more joins.
const TICK: Duration = Duration::from_millis(2);

/// Most threads that join in one tick: starting them takes time of a thread of the network.
const JOIN: usize = 16;

/// How long a thread that is not needed waits before it ends.
const LINGER: Duration = Duration::from_secs(1);

/// How long a thread goes from one work to the next before it lets others have the interpreter.
const SLICE: Duration = Duration::from_millis(1);

/// How long there is no other try after the system has refused a thread.
const PAUSE: Duration = Duration::from_secs(1);

/// What a turn has left over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing; somebody will [announce](Task::announce) the next.
    Done,
    /// Something to go on with.
    More,
    /// Nothing will ever come again.
    Over,
}

/// What a pool does, turn by turn: never two at once, and in the order of their announcement.
pub(crate) trait Work: Send + Sync {
    /// Does some of it, not for long unless it is held up.
    fn turn(&self, py: Python<'_>) -> Turn;

    /// The turn has panicked: there will be no other.
    fn abandon(&self);
}

const RESTING: u8 = 0;
const WAITING: u8 = 1;
const RUNNING: u8 = 2;
/// There is more since the turn has begun.
const AGAIN: u8 = 3;

/// A work and what it is about to do.
pub(crate) struct Task {
    state: AtomicU8,
    pool: &'static Pool,
    work: Box<dyn Work>,
}

impl Task {
    /// There is something to do.
    pub(crate) fn announce(self: &Arc<Self>) {
        // The closure refuses where nothing changes.
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

/// Where a thread waits for a task.
#[derive(Default)]
struct Seat {
    wake: Condvar,
    task: Mutex<Option<Arc<Task>>>,
}

#[derive(Default)]
struct State {
    /// Announced, and since when.
    ready: VecDeque<(Arc<Task>, Duration)>,
    /// Threads without anything to do. If there is one, nothing is ready.
    idle: Vec<Arc<Seat>>,
    threads: usize,
    /// Works that are not over.
    works: usize,
    /// Tasks that were taken up so far.
    taken: u64,
    /// Somebody looks every tick whether the threads are held up.
    watched: bool,
    /// The interpreter ends: nobody goes back into it.
    frozen: bool,
}

impl State {
    /// How many more threads would be of use, if those that are there are held up.
    fn room(&self) -> usize {
        self.works.min(MOST).saturating_sub(self.threads)
    }

    fn worth_watching(&self) -> bool {
        self.idle.is_empty() && self.room() > 0 && self.threads > 0 && !self.frozen
    }
}

/// The threads of one process.
pub(crate) struct Pool {
    birth: Birth,
    state: Mutex<State>,
    /// Threads that wait for the interpreter, to do something: another one would wait behind them.
    entering: AtomicUsize,
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(core::ptr::null_mut());

impl Pool {
    /// That of this process; a forked child has none of the threads of its parent, and begins anew.
    #[allow(unsafe_code, reason = "pools are leaked boxes and never freed, so the pointer stays valid")]
    pub(crate) fn here() -> &'static Self {
        loop {
            let current = POOL.load(Ordering::Acquire);
            // SAFETY: what is not null comes from Box::into_raw below and is never freed. No lock is taken,
            // so one that was held at the time of a fork cannot hang us.
            if let Some(pool) = unsafe { current.as_ref() }
                && pool.birth.is_here()
            {
                return pool;
            }
            let fresh = Box::new(Self {
                birth: Birth::here(),
                state: Mutex::default(),
                entering: AtomicUsize::new(0),
            });
            let fresh = Box::into_raw(fresh);
            if POOL.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // Another thread was faster.
                // SAFETY: it was not published, so we are its only owner.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    /// Takes a work on, whose turns are to be announced.
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

    /// A thread, which is counted already.
    fn start(&'static self) -> io::Result<()> {
        self.entering.fetch_add(1, Ordering::AcqRel);
        let started = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            let counted = Counted(self);
            if Python::try_attach(|py| self.serve(py)).is_some() {
                // Who is not needed is not counted any more.
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

    /// The life of a thread.
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
        /// A thread that panics ends, and so does what it was about.
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
        // A child that was forked within a callback and has come back from it: whatever is in here belongs
        // to its parent, locks that are held by threads that it does not have among it.
        while !self.birth.is_here() {
            py.detach(|| thread::sleep(LINGER));
        }
        turn
    }

    /// A turn has ended; the next one if there is any, and if it is wanted.
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
            // Behind the others: whoever has much to do holds up nobody.
            state.ready.push_back((task, clock::mono()));
        }
        if !go_on {
            return None;
        }
        let (next, _) = state.ready.pop_front()?;
        state.taken += 1;
        Some(next)
    }

    /// The next task, waited for without the interpreter; `None` for a thread that is not needed. Either
    /// way the thread is about to enter the interpreter.
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
            // One stays as long as anything may come.
            if late && (state.idle.len() > 1 || state.works == 0) {
                state.idle.retain(|known| !Arc::ptr_eq(known, seat));
                state.threads -= 1;
                self.entering.fetch_add(1, Ordering::AcqRel);
                return None;
            }
        }
    }

    /// A task is ready. Whoever sat down last takes it, so that the others find that they are not needed.
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

    /// Looks after the threads as long as they may be held up.
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
                // Where somebody waits for the interpreter, that is what everybody waits for.
                if self.entering.load(Ordering::Acquire) > 0 || !(stuck || late) {
                    return true;
                }
                // One in reserve, more for what waits.
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

    /// Whether all is over that was taken on, and no thread is about to enter the interpreter.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state.lock().works == 0 && self.entering.load(Ordering::Acquire) == 0
    }

    /// Threads that wait now stay where they are, and go with the process.
    pub(crate) fn freeze(&self) {
        self.state.lock().frozen = true;
    }
}

fn warn_refused(error: &io::Error) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(%error, "no more threads for callbacks: they wait for each other");
    }
}

/// The end of a thread that may not go back into the interpreter.
fn stay() -> ! {
    loop {
        thread::park();
    }
}

/// A thread, until it is not needed or fails.
struct Counted(&'static Pool);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state.lock().threads -= 1;
    }
}
