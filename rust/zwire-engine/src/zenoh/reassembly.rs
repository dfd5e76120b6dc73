//! [`Pool`]: bounds the memory that all links of a node together use for incomplete messages.
//!
//! Each link has a bound of its own, which a single large message may need. Many links at their bounds
//! would still exceed the memory of the machine, and a router does not choose which nodes connect.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// Largest [`Pool::plenty`]: four of the largest messages that a link of a router may collect.
const PLENTY: usize = 1 << 30;

/// Bytes of incomplete messages of the links of a node.
#[derive(Debug)]
pub(crate) struct Pool {
    /// From this total on the links share what is left, and at twice this total reassembly stops.
    plenty: usize,
    used: AtomicUsize,
    /// Number of links that hold any.
    holders: AtomicUsize,
}

/// Share of one link; released when it is dropped.
pub(crate) struct Share {
    pool: Arc<Pool>,
    mine: usize,
}

impl Pool {
    /// A pool of at most a quarter of the memory that the process may use.
    pub(crate) fn within(memory: Option<u64>) -> Self {
        let part = memory.and_then(|memory| usize::try_from(memory / 8).ok());
        Self {
            plenty: part.map_or(PLENTY, |part| part.min(PLENTY)),
            used: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
        }
    }
}

impl Share {
    pub(crate) const fn new(pool: Arc<Pool>) -> Self {
        Self { pool, mine: 0 }
    }

    /// Records that the link now holds `holds` bytes; returns its bound from here on, `most` while there
    /// is plenty.
    pub(crate) fn update(&mut self, holds: usize, most: usize) -> usize {
        if holds != self.mine {
            // Wrapping addition of a difference: the bytes that are subtracted were added before.
            self.pool.used.fetch_add(holds.wrapping_sub(self.mine), Relaxed);
            match (self.mine, holds) {
                (0, _) => {
                    self.pool.holders.fetch_add(1, Relaxed);
                }
                (_, 0) => {
                    self.pool.holders.fetch_sub(1, Relaxed);
                }
                _ => {}
            }
            self.mine = holds;
        }
        let (used, plenty) = (self.pool.used.load(Relaxed), self.pool.plenty);
        if used <= plenty {
            // A message that is collected alone may take all of it, and no more.
            return most.min(2 * plenty - used + self.mine);
        }
        // The pool is exhausted: every link loses its incomplete messages rather than the process its
        // memory.
        if used >= 2 * plenty {
            return 0;
        }
        // A link that holds nothing yet counts as one more.
        let holders = self.pool.holders.load(Relaxed) + usize::from(self.mine == 0);
        most.min(plenty / holders.max(1))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.update(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_link_alone_may_have_its_own_bound() {
        let pool = Arc::new(Pool::within(None));
        let mut share = Share::new(pool);
        assert_eq!(share.update(0, 256 * MIB), 256 * MIB);
        assert_eq!(share.update(200 * MIB, 256 * MIB), 256 * MIB);
    }

    #[test]
    fn many_links_share_and_a_late_one_gets_its_part() {
        let pool = Arc::new(Pool::within(None));
        let mut greedy: Vec<Share> = (0..10).map(|_| Share::new(pool.clone())).collect();
        // Each takes up to its bound, repeatedly.
        for _ in 0..4 {
            for share in &mut greedy {
                let may = share.update(share.mine, 256 * MIB);
                share.update(may.max(share.mine), 256 * MIB);
            }
        }
        assert!(pool.used.load(Relaxed) <= 2 * PLENTY, "{}", pool.used.load(Relaxed));
        let mut late = Share::new(pool.clone());
        assert_eq!(late.update(0, 256 * MIB), PLENTY / (pool.holders.load(Relaxed) + 1));
        assert!(late.update(0, 256 * MIB) >= 64 * MIB, "an ordinary message still goes through");
        let mut crowd: Vec<Share> = (0..1000).map(|_| Share::new(pool.clone())).collect();
        for share in &mut crowd {
            let may = share.update(0, 256 * MIB);
            share.update(may, 256 * MIB);
        }
        assert!(pool.used.load(Relaxed) <= 2 * PLENTY + 256 * MIB, "{}", pool.used.load(Relaxed));
        drop(crowd);
        // A link that holds too much learns so at its next fragment.
        let holds = greedy[0].mine;
        assert!(greedy[0].update(holds, 256 * MIB) < holds);
        drop(greedy);
        assert_eq!((pool.used.load(Relaxed), pool.holders.load(Relaxed)), (0, 0));
        assert_eq!(late.update(0, 256 * MIB), 256 * MIB);
    }

    #[test]
    fn little_memory_is_shared_likewise() {
        let pool = Arc::new(Pool::within(Some(400 << 20)));
        let mut links: Vec<Share> = (0..8).map(|_| Share::new(pool.clone())).collect();
        assert_eq!(links[0].update(0, 256 * MIB), 100 * MIB, "a quarter of the memory");
        for _ in 0..4 {
            for link in &mut links {
                let may = link.update(link.mine, 256 * MIB);
                link.update(may.max(link.mine), 256 * MIB);
            }
        }
        assert!(pool.used.load(Relaxed) <= 100 * MIB, "{}", pool.used.load(Relaxed));
    }
}
