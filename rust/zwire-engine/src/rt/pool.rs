//! [`CallbackPool`]: threads that run callbacks of an interpreter, which they enter through a [`Host`].
//!
//! One thread for each callback would keep a slow one from delaying the others, but need five thousand
//! threads for five thousand subscribers. So a few threads take turns running ready tasks, and more are
//! started when those are blocked: `docs/design/2026-11-22-callbacks.md`.
//!
//! A thread stays attached to the interpreter from its start to its end. Attaching takes a lock of
//! `CPython` that is not fork-safe before 3.12: with a thread that attaches for each batch, one child in
//! some hundred hangs in `os.fork`.

use crate::rt::{
    clock,
    runtime::{self, Birth, PerProcess},
};
use core::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use std::{collections::VecDeque, io, sync::Arc, thread};

/// Name of callback threads.
pub const NAME: &str = "zwire-callback";

/// Interpreter in which callbacks run.
#[derive(Debug)]
pub struct Host {
    /// Enters the interpreter for a function; returns `false`, without calling it, if the interpreter is gone.
    pub enter: fn(&mut dyn FnMut()) -> bool,
    /// Leaves the interpreter, in a thread that has entered it, for a function.
    pub leave: fn(&mut (dyn FnMut() + Send)),
}

/// Most callback threads, and so callbacks that may block at once; a waiting thread costs some ten kilobytes.
const MOST: usize = 1024;

/// Interval of the check for blocked threads; a task that waits this long starts one more thread.
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
pub enum Turn {
    /// No work is left; the next is [announced](PoolTask::announce).
    Done,
    /// More to do.
    More,
    /// The work has ended.
    Over,
}

/// Work for the pool, done turn by turn: never two turns at once, and in the order of their announcement.
pub trait Work: Send + Sync {
    /// Does a part of the work; takes a short time unless the callback blocks.
    fn turn(&self) -> Turn;

    /// Called after a turn has panicked: there will be no other.
    fn abandon(&self);
}

const RESTING: u8 = 0;
const WAITING: u8 = 1;
const RUNNING: u8 = 2;
/// Running, and announced again since the turn has begun.
const AGAIN: u8 = 3;

/// A work and its scheduling state.
pub struct PoolTask {
    state: AtomicU8,
    pool: &'static CallbackPool,
    work: Box<dyn Work>,
}

impl PoolTask {
    /// Announces that there is something to do.
    pub fn announce(self: &Arc<Self>) {
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
    task: Mutex<Option<Arc<PoolTask>>>,
}

#[derive(Default)]
struct PoolState {
    /// Announced tasks, with the time of their announcement.
    ready: VecDeque<(Arc<PoolTask>, Duration)>,
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

impl PoolState {
    /// Number of further threads that would help if the existing ones are blocked.
    fn room(&self) -> usize {
        self.works.min(MOST).saturating_sub(self.threads)
    }

    fn worth_watching(&self) -> bool {
        self.idle.is_empty() && self.room() > 0 && self.threads > 0 && !self.frozen
    }
}

/// The callback threads of one process.
pub struct CallbackPool {
    host: &'static Host,
    birth: Birth,
    state: Mutex<PoolState>,
    /// Threads that wait for the interpreter lock: another one would only wait behind them.
    entering: AtomicUsize,
}

static POOL: PerProcess<CallbackPool> = PerProcess::new();

impl core::fmt::Debug for CallbackPool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CallbackPool").finish_non_exhaustive()
    }
}

impl CallbackPool {
    /// The pool of this process; a forked child has none of the threads of its parent, and gets a new
    /// one.
    pub fn here(host: &'static Host) -> &'static Self {
        POOL.get(|| Self::new(host))
    }

    fn new(host: &'static Host) -> Self {
        let (birth, state, entering) = (Birth::here(), Mutex::default(), AtomicUsize::new(0));
        Self { host, birth, state, entering }
    }

    /// Adds a work; its turns have to be announced.
    ///
    /// # Errors
    ///
    /// There is no thread yet, and the system refuses one.
    pub fn employ(&'static self, work: Box<dyn Work>) -> io::Result<Arc<PoolTask>> {
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
        Ok(Arc::new(PoolTask { state: AtomicU8::new(RESTING), pool: self, work }))
    }

    /// Starts a thread, which is counted already.
    fn start(&'static self) -> io::Result<()> {
        self.entering.fetch_add(1, Ordering::AcqRel);
        let started = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            let counted = Counted(self);
            if (self.host.enter)(&mut || self.serve()) {
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
    fn serve(&'static self) {
        let seat = Arc::<Seat>::default();
        self.entering.fetch_sub(1, Ordering::AcqRel);
        let next = || {
            let mut next = None;
            (self.host.leave)(&mut || next = self.next(&seat));
            next
        };
        while let Some(first) = next() {
            self.entering.fetch_sub(1, Ordering::AcqRel);
            let end = clock::mono() + SLICE;
            let mut next = Some(first);
            while let Some(task) = next {
                let turn = self.run(&task);
                next = self.finish(task, turn, clock::mono() < end);
            }
        }
    }

    fn run(&self, task: &Arc<PoolTask>) -> Turn {
        /// Guard that ends the work of a turn that panics; its thread ends as well.
        struct Panics<'a>(&'a CallbackPool, &'a PoolTask);
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
        let turn = task.work.turn();
        drop(panics);
        // In a child forked within a callback, the state belongs to the parent, with locks of threads it lacks.
        while !self.birth.is_here() {
            (self.host.leave)(&mut || thread::sleep(LINGER));
        }
        turn
    }

    /// Handles the end of a turn; returns the next task if there is one and `go_on` is set.
    fn finish(&self, task: Arc<PoolTask>, turn: Turn, go_on: bool) -> Option<Arc<PoolTask>> {
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
    fn next(&self, seat: &Arc<Seat>) -> Option<Arc<PoolTask>> {
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

    /// Schedules a task for the thread that became idle last, so that others time out if not needed.
    fn add(&'static self, task: Arc<PoolTask>) {
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
                // The interpreter lock is the bottleneck while a thread waits for it.
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
    pub fn is_quiet(&self) -> bool {
        self.state.lock().works == 0 && self.entering.load(Ordering::Acquire) == 0
    }

    /// Parks threads that wait now, until the process ends.
    pub fn freeze(&self) {
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
struct Counted(&'static CallbackPool);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state.lock().threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;

    static NO_INTERPRETER: Host = Host {
        enter: |work| {
            work();
            true
        },
        leave: |wait| wait(),
    };

    struct Turns {
        left: AtomicU32,
        done: Arc<AtomicU32>,
    }

    impl Work for Turns {
        fn turn(&self) -> Turn {
            self.done.fetch_add(1, Ordering::AcqRel);
            match self.left.fetch_sub(1, Ordering::AcqRel) {
                1 => Turn::Over,
                n if n % 2 == 0 => Turn::More,
                _ => Turn::Done,
            }
        }

        fn abandon(&self) {}
    }

    fn pool() -> &'static CallbackPool {
        Box::leak(Box::new(CallbackPool::new(&NO_INTERPRETER)))
    }

    fn until(condition: impl Fn() -> bool) {
        for _ in 0..5_000 {
            if condition() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("the condition did not become true within five seconds");
    }

    #[test]
    fn turns_follow_announcements_until_the_work_is_over() {
        let (pool, done) = (pool(), Arc::<AtomicU32>::default());
        let work = Turns { left: AtomicU32::new(5), done: done.clone() };
        let task = pool.employ(Box::new(work)).unwrap();
        assert!(!pool.is_quiet());
        // 5 is odd: its turn waits for the next announcement, which asks for the turns of 4 and 3.
        for turns in [1, 3, 5] {
            task.announce();
            until(|| done.load(Ordering::Acquire) == turns);
            until(|| turns == 5 || task.state.load(Ordering::Acquire) == RESTING);
        }
        until(|| pool.is_quiet());
    }

    #[test]
    fn a_work_that_panics_counts_as_ended() {
        struct Panics(Arc<AtomicBool>);
        impl Work for Panics {
            fn turn(&self) -> Turn {
                panic!("a test of a panic");
            }

            fn abandon(&self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let (pool, abandoned) = (pool(), Arc::<AtomicBool>::default());
        pool.employ(Box::new(Panics(abandoned.clone()))).unwrap().announce();
        until(|| abandoned.load(Ordering::Acquire) && pool.state.lock().works == 0);
    }
}
