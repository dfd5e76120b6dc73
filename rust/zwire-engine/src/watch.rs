//! [`Watch`]: threads and event loops that wait for a state of the machines.

use crate::{clock, deferred::Waker, queue::INTERRUPT_PERIOD};
use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};

/// What comes of a wait that did not bring what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The time was up.
    TimedOut,
    /// The caller's check asked to stop.
    Interrupted,
}

/// Wakes threads whenever the machines may be in another state. Nobody waiting, it costs one look at a
/// number.
#[derive(Default)]
pub(crate) struct Watch {
    waiting: AtomicUsize,
    changes: Mutex<u64>,
    changed: Condvar,
    listeners: Mutex<Listeners>,
}

/// Who is called at each change.
#[derive(Default)]
struct Listeners {
    next: u64,
    all: Vec<(u64, Waker)>,
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Watch {
    /// Something has changed; no lock of the machines is held.
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

    /// Ends what [`Self::listen`] began.
    pub(crate) fn forget(&self, id: u64) {
        let mut listeners = self.listeners.lock();
        let before = listeners.all.len();
        listeners.all.retain(|(known, _)| *known != id);
        self.waiting.fetch_sub(before - listeners.all.len(), Ordering::SeqCst);
    }

    /// Looks until there is something to see. `look` takes the locks that it needs.
    pub(crate) fn wait<R>(
        &self,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
        mut look: impl FnMut() -> Option<R>,
    ) -> Result<R, Missed> {
        // A time that no clock reaches is no bound.
        let deadline = timeout.and_then(|timeout| clock::mono().checked_add(timeout));
        // Before the first look: whoever changes something after it sees that somebody waits.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
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
