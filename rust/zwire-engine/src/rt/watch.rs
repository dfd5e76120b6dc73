//! [`Watch`]: lets threads and event loops wait for a state of the machines.

use crate::rt::{
    clock,
    queue::{INTERRUPT_PERIOD, WaiterCount},
};
use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use tokio::sync::Notify;

/// Reason why a wait ended before its condition held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The timeout expired.
    TimedOut,
    /// The caller's check asked to stop.
    Interrupted,
}

/// Wakes threads and tasks whenever a state that they wait for may have changed. Without waiters a notification
/// costs one atomic load.
#[derive(Default)]
pub struct Watch {
    waiting: AtomicUsize,
    changes: Mutex<u64>,
    changed: Condvar,
    listeners: Mutex<Listeners>,
}

/// Wakers that are called at each change.
#[derive(Default)]
struct Listeners {
    next: u64,
    all: Vec<(u64, Waker)>,
}

/// Wakes a waiter of an event loop; must be quick, and is called from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Listener that ends with the wait of a task.
struct ListenScope<'a>(&'a Watch, u64);

impl Drop for ListenScope<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

impl Watch {
    /// Wakes all waiters. The caller holds no lock of the state.
    pub(crate) fn notify(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            *self.changes.lock() += 1;
            self.changed.notify_all();
            let wakers: Vec<Waker> =
                self.listeners.lock().all.iter().map(|(_, waker)| waker.clone()).collect();
            wakers.iter().for_each(|waker| waker());
        }
    }

    /// Calls `waker` at each change from now on, until [`Self::forget`].
    pub(crate) fn listen(&self, waker: Waker) -> u64 {
        let mut listeners = self.listeners.lock();
        let id = listeners.next;
        listeners.next += 1;
        listeners.all.push((id, waker));
        self.waiting.fetch_add(1, Ordering::SeqCst);
        id
    }

    /// Removes a waker registered by [`Self::listen`].
    pub(crate) fn forget(&self, id: u64) {
        let mut listeners = self.listeners.lock();
        let before = listeners.all.len();
        listeners.all.retain(|(known, _)| *known != id);
        self.waiting.fetch_sub(before - listeners.all.len(), Ordering::SeqCst);
    }

    /// As [`Self::wait`], for a task, without a result: whether `look` was true before `end`.
    pub(crate) async fn until(&self, end: tokio::time::Instant, mut look: impl FnMut() -> bool) -> bool {
        let changed = Arc::new(Notify::new());
        let waker = changed.clone();
        let _listening = ListenScope(self, self.listen(Arc::new(move || waker.notify_one())));
        loop {
            if look() {
                return true;
            }
            if tokio::time::timeout_at(end, changed.notified()).await.is_err() {
                return look();
            }
        }
    }

    /// Waits until `look` finds something. `look` takes the locks that it needs.
    pub(crate) fn wait<R>(
        &self,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
        mut look: impl FnMut() -> Option<R>,
    ) -> Result<R, Missed> {
        // A deadline beyond the range of the clock counts as none.
        let deadline = timeout.and_then(|timeout| clock::mono().checked_add(timeout));
        // Before the first look, so that a thread which changes the state after it sees the waiter.
        let _waiting = WaiterCount::new(&self.waiting);
        let mut next_check = clock::mono() + INTERRUPT_PERIOD;
        loop {
            let seen = *self.changes.lock();
            if let Some(found) = look() {
                return Ok(found);
            }
            if deadline.is_some_and(|deadline| deadline <= clock::mono()) {
                return Err(Missed::TimedOut);
            }
            let until = deadline.map_or(next_check, |deadline| deadline.min(next_check));
            {
                let mut changes = self.changes.lock();
                if *changes == seen {
                    self.changed.wait_until(&mut changes, clock::deadline(until));
                }
            }
            if next_check <= clock::mono() {
                if interrupted() {
                    return Err(Missed::Interrupted);
                }
                next_check = clock::mono() + INTERRUPT_PERIOD;
            }
        }
    }
}

impl core::fmt::Debug for Watch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn listeners_are_called_until_they_are_forgotten() {
        let watch = Watch::default();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let id = watch.listen(Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        watch.notify();
        watch.notify();
        watch.forget(id);
        watch.forget(id);
        watch.notify();
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        assert_eq!(watch.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_change_is_seen_at_once_and_its_lack_after_the_time() {
        let watch = Arc::new(Watch::default());
        let state = Arc::new(Mutex::new(false));
        let look = || state.lock().then_some(());
        let never = &mut || false;
        assert_eq!(watch.wait(Some(Duration::ZERO), never, look), Err(Missed::TimedOut));
        let other = {
            let (watch, state) = (watch.clone(), state.clone());
            std::thread::spawn(move || {
                *state.lock() = true;
                watch.notify();
            })
        };
        assert_eq!(watch.wait(Some(Duration::from_secs(20)), never, look), Ok(()));
        other.join().unwrap();
        *state.lock() = false;
        let start = Instant::now();
        assert_eq!(watch.wait(None, &mut || true, look), Err(Missed::Interrupted));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
