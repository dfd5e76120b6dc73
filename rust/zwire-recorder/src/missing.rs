//! Numbers of publishers that are missing among the rows of a spool, and not named in its log of gaps yet.

use crate::numbers::{Hole, MAX_TOLD, Publisher};
use std::collections::{BTreeMap, HashMap};

/// Most ranges. A store names the missing numbers of its rows within a period of uploads; with more ranges than these,
/// the further ones count without their numbers.
const MAX_RANGES: usize = 1 << 16;

/// Ranges of numbers, by publisher; by their first number, each with its last one.
#[derive(Clone, Default, Debug)]
pub(crate) struct Missing {
    ranges: HashMap<Publisher, BTreeMap<u32, u32>>,
    count: usize,
    /// Numbers in ranges that were too many.
    beyond: u64,
}

impl Missing {
    /// Adds numbers. A longer range than those of losses is a restart of the numbers.
    pub(crate) fn add(&mut self, publisher: Publisher, from: u32, to: u32) {
        if to < from || to - from >= MAX_TOLD {
            return;
        }
        if self.count >= MAX_RANGES {
            self.beyond += u64::from(to - from) + 1;
            return;
        }
        if self.ranges.entry(publisher).or_default().insert(from, to).is_none() {
            self.count += 1;
        }
    }

    /// Removes numbers that are there, or named.
    pub(crate) fn remove(&mut self, publisher: Publisher, from: u32, to: u32) {
        let Some(ranges) = self.ranges.get_mut(&publisher) else { return };
        let touched: Vec<(u32, u32)> =
            ranges.range(..=to).rev().take_while(|(_, last)| **last >= from).map(|(a, b)| (*a, *b)).collect();
        for (first, last) in touched {
            ranges.remove(&first);
            self.count -= 1;
            if first < from {
                ranges.insert(first, from - 1);
                self.count += 1;
            }
            if last > to {
                ranges.insert(to + 1, last);
                self.count += 1;
            }
        }
        if ranges.is_empty() {
            self.ranges.remove(&publisher);
        }
    }

    /// Takes all ranges, and the count of numbers beyond them.
    pub(crate) fn take(&mut self) -> (Vec<Hole>, u64) {
        self.count = 0;
        let hole = |publisher| move |(from, to)| Hole { publisher, from, to };
        let ranges = core::mem::take(&mut self.ranges).into_iter();
        let holes = ranges.flat_map(|(publisher, ranges)| ranges.into_iter().map(hole(publisher))).collect();
        (holes, core::mem::take(&mut self.beyond))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zwire_proto::zenoh::ZenohId;

    #[test]
    fn numbers_that_turn_up_are_no_longer_missing() {
        let publisher = (ZenohId::from_wire(&[7]).unwrap(), 1);
        let mut missing = Missing::default();
        missing.add(publisher, 10, 20);
        missing.add(publisher, 30, 30);
        missing.add(publisher, 5, 4);
        missing.add(publisher, 1000, 1000 + MAX_TOLD);
        for (from, to) in [(10, 10), (14, 16), (20, 40), (1, 2)] {
            missing.remove(publisher, from, to);
        }
        assert_eq!(missing.count, 2);
        let (holes, beyond) = missing.take();
        let holes: Vec<_> = holes.into_iter().map(|hole| (hole.from, hole.to)).collect();
        assert_eq!((holes, beyond), (vec![(11, 13), (17, 19)], 0));
    }

    #[test]
    fn ranges_beyond_the_bound_count_without_their_numbers() {
        let publisher = (ZenohId::from_wire(&[7]).unwrap(), 1);
        let mut missing = Missing::default();
        (0..MAX_RANGES as u32 + 3).for_each(|n| missing.add(publisher, 4 * n, 4 * n + 1));
        let (holes, beyond) = missing.take();
        assert_eq!((holes.len(), beyond, missing.take().0.len()), (MAX_RANGES, 6, 0));
    }
}
