//! [`Watch`]: threads that wait for a state of the machines.

use crate::queue::INTERRUPT_PERIOD;
use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use std::time::Instant;

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
        }
    }

    /// Looks until there is something to see. `look` takes the locks that it needs.
    pub(crate) fn wait<R>(
        &self,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
        mut look: impl FnMut() -> Option<R>,
    ) -> Result<R, Missed> {
        // A time that no clock reaches is no bound.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        // Before the first look: whoever changes something after it sees that somebody waits.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        let mut next_check = Instant::now() + INTERRUPT_PERIOD;
        loop {
            let seen = *self.changes.lock();
            if let Some(found) = look() {
                return Ok(found);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Missed::TimedOut);
            }
            let until = deadline.map_or(next_check, |deadline| deadline.min(next_check));
            {
                let mut changes = self.changes.lock();
                if *changes == seen {
                    self.changed.wait_until(&mut changes, until);
                }
            }
            if next_check <= Instant::now() {
                if interrupted() {
                    return Err(Missed::Interrupted);
                }
                next_check = Instant::now() + INTERRUPT_PERIOD;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

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
