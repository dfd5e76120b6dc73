//! Counters of a session beside those of its machines, and kinds of consumers.

use crate::{
    rt::clock,
    zenoh::link::{Link, LinkStats},
};
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::collections::VecDeque;

/// Summed counters of links, named by [`Self::NAMES`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkTotals([u64; Self::NAMES.len()]);

impl LinkTotals {
    pub(super) const NAMES: [&'static str; 10] = [
        "tx_bytes",
        "tx_messages",
        "tx_writes",
        "tx_dropped",
        "rx_bytes",
        "rx_messages",
        "rx_shm_failed",
        "tx_lent",
        "tx_unlent",
        "rx_borrowed",
    ];

    pub(super) fn add(&mut self, link: &Link) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sum = |lanes: &[AtomicU64]| lanes.iter().map(get).sum::<u64>();
        let LinkStats {
            tx_bytes,
            tx_messages,
            tx_writes,
            tx_dropped,
            rx_bytes,
            rx_messages,
            rx_shm_failed,
            tx_lent,
            tx_unlent,
            rx_borrowed,
        } = &link.stats;
        let more = [
            get(tx_bytes),
            sum(tx_messages),
            get(tx_writes),
            sum(tx_dropped),
            get(rx_bytes),
            get(rx_messages),
            get(rx_shm_failed),
            get(tx_lent),
            get(tx_unlent),
            get(rx_borrowed),
        ];
        self.0.iter_mut().zip(more).for_each(|(total, more)| *total += more);
    }

    pub(super) fn named(&self) -> [(&'static str, u64); Self::NAMES.len()] {
        core::array::from_fn(|at| (Self::NAMES[at], self.0[at]))
    }
}

/// Counters of links and queues that no longer exist, kept so that no sum falls.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(super) links: LinkTotals,
    pub(crate) samples_dropped: u64,
    pub(crate) samples_replaced: u64,
    pub(crate) queries_dropped: u64,
    pub(crate) replies_dropped: u64,
    pub(super) rate: Rate,
}

/// Rate of a counter, computed from readings.
#[derive(Debug)]
pub(super) struct Rate {
    /// Readings with their times, the oldest first.
    seen: VecDeque<(Duration, u64)>,
}

impl Default for Rate {
    fn default() -> Self {
        Self { seen: VecDeque::from([(clock::mono(), 0)]) }
    }
}

impl Rate {
    /// Period of the mean if readings are frequent enough; else it begins at the reading before.
    const WINDOW: Duration = Duration::from_secs(10);
    /// Least distance between two readings that are stored.
    const STEP: Duration = Duration::from_secs(1);

    /// Rate per second, and the number of seconds over which it is the mean.
    pub(super) fn look(&mut self, now: Duration, total: u64) -> (f64, f64) {
        while self.seen.get(1).is_some_and(|(at, _)| *at + Self::WINDOW <= now) {
            self.seen.pop_front();
        }
        let (since, before) = self.seen.front().copied().unwrap_or((now, total));
        if self.seen.back().is_none_or(|(at, _)| *at + Self::STEP <= now) {
            self.seen.push_back((now, total));
        }
        let seconds = now.saturating_sub(since).as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "a rate needs no more")]
        let rise = total.saturating_sub(before) as f64;
        (if seconds > 0.0 { rise / seconds } else { 0.0 }, seconds)
    }
}

/// Kind of the entity that takes items out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerKind {
    /// A subscriber.
    Subscriber,
    /// A liveliness subscriber.
    Liveliness,
    /// A queryable.
    Queryable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let at = Duration::from_secs;
        let mut rate = Rate { seen: VecDeque::from([(at(100), 0)]) };
        assert_eq!(rate.look(at(100), 0), (0.0, 0.0));
        assert_eq!(rate.look(at(102), 10), (5.0, 2.0));
        assert_eq!(rate.look(at(104), 10), (2.5, 4.0));
        // The reading of 102 is the last that is at least ten seconds old.
        assert_eq!(rate.look(at(113), 10), (0.0, 11.0));
        assert_eq!(rate.look(at(1_000), 897), (1.0, 887.0), "no reading in between");
        for second in 1_000..2_000 {
            rate.look(at(second), 897 + (second - 1_000) * 3);
        }
        assert!(rate.seen.len() < 15);
        assert_eq!(rate.look(at(2_000), 897 + 3_000), (3.0, 10.0));
    }
}
