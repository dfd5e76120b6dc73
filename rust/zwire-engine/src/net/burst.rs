//! [`Burst`]: detects whether a thread publishes in a loop.
//!
//! On machines with few processors the time between two messages is no indicator: each write wakes a
//! reader, which takes the processor away from the loop, so that the next message seems to be alone, is
//! written at once, and wakes the reader again. The indicator used is the time that the thread has spent
//! outside of the session.

use crate::rt::clock;
use core::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

/// A thread that publishes again within this time runs a loop: a few lines of Python take that long, and an
/// answer to a message longer, because the peer has to be woken. A build without optimization spends up to 100 µs in
/// one publication that writes nothing; only the start of a publication is measured.
const SOON: Duration = Duration::from_micros(if cfg!(debug_assertions) { 200 } else { 5 });

/// Previous publication of the thread that publishes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    began: Duration,
    /// End of the publication; equal to `began` if it wrote nothing itself.
    ended: Duration,
}

/// Time of a publication, and the previous one of the same thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Duration,
    pub(crate) before: Burst,
}

/// Last publication of a session, of whichever thread. Threads that publish at the same time overwrite each
/// other's; a burst that is not detected for that reason costs one write, and a message that is taken for a part
/// of one waits for the time limit of batching.
#[derive(Debug, Default)]
pub(crate) struct LastPublication {
    /// Number of its thread; 0 while the times change.
    thread: AtomicUsize,
    began_ns: AtomicU64,
    ended_ns: AtomicU64,
}

impl LastPublication {
    /// The last publication if it was one of `thread`.
    pub(crate) fn of(&self, thread: usize) -> Burst {
        if self.thread.load(Ordering::Acquire) != thread {
            return Burst::default();
        }
        let time = |ns: &AtomicU64| Duration::from_nanos(ns.load(Ordering::Relaxed));
        Burst { began: time(&self.began_ns), ended: time(&self.ended_ns) }
    }

    /// Records that `thread`, which is the calling one, began to publish at `began` and is done now.
    pub(crate) fn note(&self, thread: usize, began: Duration, wrote: bool) {
        let ended = if wrote { clock::mono() } else { began };
        self.thread.store(0, Ordering::Relaxed);
        self.began_ns.store(clock::nanos(began), Ordering::Release);
        self.ended_ns.store(clock::nanos(ended), Ordering::Release);
        self.thread.store(thread, Ordering::Release);
    }
}

impl Burst {
    /// Whether a message of the calling thread at `now` continues its last publication on a link, that
    /// is, whether `last_push`, the time of the link's last message, falls into that publication.
    pub(crate) fn goes_on(self, now: Duration, last_push: Duration) -> bool {
        last_push >= self.began && now.saturating_sub(self.ended) < SOON
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn a_loop_goes_on_however_long_its_writes_take() {
        let slow = Burst { began: us(100), ended: us(900) };
        assert!(slow.goes_on(us(901), us(100)));
        assert!(!slow.goes_on(us(900) + SOON, us(100)), "it did something else meanwhile");
        assert!(!slow.goes_on(us(901), us(50)), "the message before went by another link");
        assert!(slow.goes_on(us(901), us(500)), "another thread uses the link too");
    }

    #[test]
    fn each_thread_has_its_own() {
        let began = clock::mono();
        let last = LastPublication::default();
        last.note(1, began, true);
        let burst = last.of(1);
        assert!(burst.began == began && burst.ended >= began);
        assert_eq!(last.of(2).ended, Duration::ZERO);
    }

    #[test]
    fn threads_that_publish_in_turns_run_no_loop() {
        let last = LastPublication::default();
        last.note(1, us(1_100), false);
        assert!(!last.of(2).goes_on(us(1_101), us(1_100)), "the message before is of the other thread");
        last.note(2, us(1_101), false);
        assert!(!last.of(1).goes_on(us(1_102), us(1_101)));
        assert!(last.of(2).goes_on(us(1_102), us(1_101)), "the second thread goes on by itself");
    }
}
