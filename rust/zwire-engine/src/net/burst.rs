//! [`Burst`]: whether a thread publishes in a loop.
//!
//! The time between two messages does not tell where processors are few: each write wakes a reader, who takes
//! the processor away from the loop, so that its next message seems to be alone, is written at once, and wakes
//! the reader again. What tells is the time that the thread spent outside of the session.

use crate::rt::clock;
use core::{cell::Cell, time::Duration};

/// Who publishes again so soon has a loop: what a few lines of Python take. An answer to a message takes longer,
/// the peer has to be woken for it.
const SOON: Duration = Duration::from_micros(5);

/// When a thread has published for the last time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    began: Duration,
    /// Everything was written that was to be written.
    ended: Duration,
}

thread_local! {
    static LAST: Cell<Burst> = const { Cell::new(Burst { began: Duration::ZERO, ended: Duration::ZERO }) };
}

/// When a thread publishes, and what it did before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Duration,
    pub(crate) before: Burst,
}

impl Moment {
    /// This thread publishes now.
    pub(crate) fn at(now: Duration) -> Self {
        Self { now, before: Burst::last() }
    }
}

impl Burst {
    /// What this thread did last.
    pub(crate) fn last() -> Self {
        LAST.get()
    }

    /// This thread began to publish at `began` and is done now.
    pub(crate) fn note(began: Duration, wrote: bool) {
        LAST.set(Self { began, ended: if wrote { clock::mono() } else { began } });
    }

    /// Whether a message of this thread at `now` goes on with what it did last on a link: the link got its last
    /// message then.
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
