//! Callbacks of a session: counted, cancelled and waited for, wherever they run.

use crate::rt::{clock, watch::Watch};
use core::{
    cell::RefCell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// All callbacks of one session.
#[derive(Debug, Default)]
pub struct CallbackGroup {
    counts: Mutex<CallbackCounts>,
    changed: Watch,
    /// Set when no more calls are to be made.
    cancelled: AtomicBool,
    /// Number of exceptions raised by them.
    errors: AtomicU64,
}

#[derive(Debug, Default)]
struct CallbackCounts {
    /// Number of callbacks that have not ended.
    live: usize,
    /// Number of those that are closing their session now: waiting for them would be a deadlock.
    closing: usize,
}

impl CallbackGroup {
    /// Number of callbacks that have not ended, except those that wait in `finish` themselves.
    fn others(counts: &CallbackCounts) -> usize {
        counts.live.saturating_sub(counts.closing)
    }

    /// Waits for the callbacks of a closed session until `end`, or until `interrupted` returns true.
    /// After that no more calls are made, but a running one continues. Returns the number of callbacks
    /// left.
    pub fn finish(self: &Arc<Self>, end: Option<Duration>, interrupted: &mut dyn FnMut() -> bool) -> usize {
        let within =
            CURRENT.with_borrow(|life| life.as_ref().is_some_and(|life| Arc::ptr_eq(&life.group, self)));
        if within {
            self.count(|counts| counts.closing += 1);
        }
        let timeout = end.map(|end| end.saturating_sub(clock::mono()));
        // Whatever ends the wait, the callbacks left are counted below.
        let _ = self
            .changed
            .wait(timeout, interrupted, || (Self::others(&self.counts.lock()) == 0).then_some(()));
        self.cancelled.store(true, Ordering::Release);
        let left = Self::others(&self.counts.lock());
        if within {
            self.count(|counts| counts.closing -= 1);
        }
        left
    }

    /// Number of exceptions raised by callbacks of the session.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Counts an exception.
    pub fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, change: impl FnOnce(&mut CallbackCounts)) {
        change(&mut self.counts.lock());
        self.changed.notify();
    }
}

/// State of one callback, for code that ends it early or waits for its end.
#[derive(Debug, Default)]
pub struct CallbackLife {
    group: Arc<CallbackGroup>,
    /// Set when no more calls are to be made.
    cancelled: AtomicBool,
    /// Number of exceptions that it has raised.
    errors: AtomicU64,
    over: AtomicBool,
    ended: Watch,
}

thread_local! {
    /// State of the callback that this thread runs.
    static CURRENT: RefCell<Option<Arc<CallbackLife>>> = const { RefCell::new(None) };
}

impl CallbackLife {
    /// State of a callback in a group.
    pub fn of(group: &Arc<CallbackGroup>) -> Arc<Self> {
        Arc::new(Self { group: group.clone(), ..Self::default() })
    }

    /// Ends the callback: only `drop` is still called; a running call continues.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Whether no more calls are to be made.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire) || self.group.cancelled.load(Ordering::Acquire)
    }

    /// Counts an exception of the callback.
    pub fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.group.count_error();
    }

    /// Number of exceptions that the callback has raised.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Waits until the last call has returned; within the callback itself it returns at once. False if
    /// `interrupted` returned true.
    pub fn wait(self: &Arc<Self>, interrupted: &mut dyn FnMut() -> bool) -> bool {
        if CURRENT.with_borrow(|life| life.as_ref().is_some_and(|life| Arc::ptr_eq(life, self))) {
            return true;
        }
        self.ended.wait(None, interrupted, || self.over.load(Ordering::SeqCst).then_some(())).is_ok()
    }

    /// Counts the callback among those that a closed session waits for, until [`Self::end`].
    pub fn begin(&self) {
        self.group.count(|counts| counts.live += 1);
    }

    /// Runs a turn of the callback in this thread.
    pub fn run<R>(self: &Arc<Self>, turn: impl FnOnce() -> R) -> R {
        /// Guard that ends the turn, also if it panics.
        struct Current;
        impl Drop for Current {
            fn drop(&mut self) {
                CURRENT.set(None);
            }
        }
        CURRENT.set(Some(self.clone()));
        let _current = Current;
        turn()
    }

    /// Marks the callback as ended. A second call does nothing.
    pub fn end(&self) {
        if !self.over.swap(true, Ordering::SeqCst) {
            self.group.count(|counts| counts.live -= 1);
        }
        self.ended.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_session_waits_for_its_callbacks() {
        let group = Arc::<CallbackGroup>::default();
        let life = CallbackLife::of(&group);
        life.begin();
        let mut asked = 0;
        let mut interrupted = || {
            asked += 1;
            asked == 2
        };
        assert_eq!(group.finish(None, &mut interrupted), 1);
        assert!(life.is_cancelled() && !life.wait(&mut || true));
        life.end();
        life.end();
        assert_eq!(group.finish(None, &mut || false), 0);
        assert!(life.wait(&mut || false));
    }

    #[test]
    fn a_callback_does_not_wait_for_itself() {
        let group = Arc::<CallbackGroup>::default();
        let life = CallbackLife::of(&group);
        life.begin();
        life.run(|| {
            assert!(life.wait(&mut || false));
            assert_eq!(group.finish(None, &mut || false), 0);
        });
        assert_eq!(group.finish(Some(Duration::ZERO), &mut || false), 1);
        life.count_error();
        assert_eq!((life.errors(), group.errors()), (1, 1));
    }
}
