//! [`Burst`]: detects whether a thread publishes in a loop.
//!
//! On machines with few processors the time between two messages is no indicator: each write wakes a
//! reader, which takes the processor away from the loop, so that the next message seems to be alone, is
//! written at once, and wakes the reader again. The indicator used is the time that the thread has spent
//! outside of the session.

use crate::rt::clock;
use core::{cell::Cell, time::Duration};

/// A thread that publishes again within this time runs a loop: a few lines of Python take that long. An
/// answer to a message takes longer, because the peer has to be woken for it.
const SOON: Duration = Duration::from_micros(5);

/// Last publication of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    began: Duration,
    /// End of the publication; equal to `began` if it wrote nothing itself.
    ended: Duration,
}

thread_local! {
    static LAST: Cell<Burst> = const { Cell::new(Burst { began: Duration::ZERO, ended: Duration::ZERO }) };
}

/// Time of a publication, and the previous one of the same thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Duration,
    pub(crate) before: Burst,
}

impl Moment {
    /// Publication of the calling thread at `now`.
    pub(crate) fn at(now: Duration) -> Self {
        Self { now, before: Burst::last() }
    }
}

impl Burst {
    /// Last publication of the calling thread.
    pub(crate) fn last() -> Self {
        LAST.get()
    }

    /// Records that the calling thread began to publish at `began` and is done now.
    pub(crate) fn note(began: Duration, wrote: bool) {
        LAST.set(Self { began, ended: if wrote { clock::mono() } else { began } });
    }

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
        assert!(!slow.goes_on(us(906), us(100)), "it did something else meanwhile");
        assert!(!slow.goes_on(us(901), us(50)), "the message before went by another link");
        assert!(slow.goes_on(us(901), us(500)), "another thread uses the link too");
    }

    #[test]
    fn each_thread_has_its_own() {
        let began = clock::mono();
        Burst::note(began, true);
        let last = Burst::last();
        assert!(last.began == began && last.ended >= began);
        std::thread::spawn(|| assert_eq!(Burst::last().ended, Duration::ZERO)).join().unwrap();
    }
}
