//! [`Lanes`]: a bounded queue for each sender, served in turn.
//!
//! A sender that is faster than the way out loses its own oldest messages, and delays no other sender.

use core::hash::Hash;
use std::collections::{HashMap, VecDeque};

/// Bounds of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneBounds {
    /// Most messages of one sender.
    pub messages: usize,
    /// Most octets of one sender; a single message may be larger.
    pub bytes: usize,
    /// Most octets of all senders.
    pub total: usize,
}

impl Default for LaneBounds {
    /// Some tenths of a second of a fast sender; and as much memory as a queue of a session.
    fn default() -> Self {
        Self { messages: 16_384, bytes: 16 << 20, total: 64 << 20 }
    }
}

struct Lane<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
}

/// Queues by sender.
pub struct Lanes<K, T> {
    lanes: HashMap<K, Lane<T>>,
    /// Senders with messages, in the order of their turns.
    turns: VecDeque<K>,
    bounds: LaneBounds,
    bytes: usize,
    dropped: u64,
}

impl<K: Clone + Eq + Hash, T> Lanes<K, T> {
    /// Empty lanes.
    #[must_use]
    pub fn new(bounds: LaneBounds) -> Self {
        Self { lanes: HashMap::new(), turns: VecDeque::new(), bounds, bytes: 0, dropped: 0 }
    }

    /// Whether no message waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Number of senders with messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Messages that were dropped at a bound.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds a message of a sender; drops the oldest ones beyond the bounds.
    pub fn push(&mut self, sender: &K, bytes: usize, item: T) {
        let LaneBounds { messages, bytes: most, total } = self.bounds;
        let lane = match self.lanes.get_mut(sender) {
            Some(lane) => lane,
            None => {
                self.turns.push_back(sender.clone());
                self.lanes.entry(sender.clone()).or_insert_with(|| Lane { items: VecDeque::new(), bytes: 0 })
            }
        };
        while (lane.items.len() >= messages.max(1) || lane.bytes + bytes > most || self.bytes + bytes > total)
            && let Some((size, _)) = lane.items.pop_front()
        {
            lane.bytes -= size;
            self.bytes -= size;
            self.dropped += 1;
        }
        lane.items.push_back((bytes, item));
        lane.bytes += bytes;
        self.bytes += bytes;
        // The messages of others are in the way.
        while self.bytes > total
            && let Some(at) = self.turns.iter().position(|other| other != sender)
            && let Some(other) = self.turns.remove(at)
        {
            let Some(lane) = self.lanes.get_mut(&other) else { continue };
            if let Some((size, _)) = lane.items.pop_front() {
                lane.bytes -= size;
                self.bytes -= size;
                self.dropped += 1;
            }
            if lane.items.is_empty() {
                self.lanes.remove(&other);
            } else {
                self.turns.push_back(other);
            }
        }
    }

    /// The sender whose turn it is, and its next message.
    #[must_use]
    pub fn front(&self) -> Option<(&K, &T)> {
        let sender = self.turns.front()?;
        Some((sender, &self.lanes.get(sender)?.items.front()?.1))
    }

    /// Takes the next messages of the sender whose turn it is, as long as `fits`, at most so many. Then it is the turn of
    /// the next sender.
    pub fn take(&mut self, most: usize, mut fits: impl FnMut(&T) -> bool, out: &mut Vec<T>) {
        let Some(sender) = self.turns.pop_front() else { return };
        let Some(lane) = self.lanes.get_mut(&sender) else { return };
        for _ in 0..most {
            if !lane.items.front().is_some_and(|(_, item)| fits(item)) {
                break;
            }
            let Some((size, item)) = lane.items.pop_front() else { break };
            lane.bytes -= size;
            self.bytes -= size;
            out.push(item);
        }
        if lane.items.is_empty() {
            self.lanes.remove(&sender);
        } else {
            self.turns.push_back(sender);
        }
    }

    /// Makes it the turn of the next sender.
    pub fn pass(&mut self) {
        if !self.turns.is_empty() {
            self.turns.rotate_left(1);
        }
    }

    /// Drops everything, and counts it.
    pub fn clear(&mut self) {
        self.dropped += self.lanes.values().map(|lane| lane.items.len() as u64).sum::<u64>();
        self.lanes.clear();
        self.turns.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(lanes: &mut Lanes<u8, u32>, at_once: usize) -> Vec<u32> {
        let mut out = Vec::new();
        while !lanes.is_empty() {
            lanes.take(at_once, |_| true, &mut out);
        }
        out
    }

    #[test]
    fn senders_take_turns() {
        let mut lanes = Lanes::new(LaneBounds::default());
        for (sender, item) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (2, 21)] {
            lanes.push(&sender, 1, item);
        }
        assert_eq!(all(&mut lanes, 1), [10, 20, 30, 11, 21, 12]);
    }

    #[test]
    fn a_fast_sender_loses_its_own_oldest() {
        let mut lanes = Lanes::new(LaneBounds { messages: 3, bytes: 100, total: 1000 });
        lanes.push(&2, 1, 20);
        (0..10).for_each(|item| lanes.push(&1, 1, item));
        assert_eq!(lanes.dropped(), 7);
        assert_eq!(all(&mut lanes, 8), [20, 7, 8, 9]);
        lanes.push(&1, 60, 1);
        lanes.push(&1, 60, 2);
        assert_eq!((all(&mut lanes, 8), lanes.dropped()), (vec![2], 8));
        // One that is too large alone passes alone.
        lanes.push(&1, 500, 3);
        assert_eq!(all(&mut lanes, 8), [3]);
    }

    #[test]
    fn memory_is_bounded_for_all_together() {
        let mut lanes: Lanes<u8, u32> = Lanes::new(LaneBounds { messages: 10, bytes: 100, total: 250 });
        (0..20_u8).for_each(|sender| lanes.push(&sender, 100, sender.into()));
        assert_eq!((lanes.bytes, lanes.dropped(), lanes.len()), (200, 18, 2));
        lanes.clear();
        assert_eq!((lanes.bytes, lanes.dropped(), lanes.len()), (0, 20, 0));
    }

    proptest! {
        #[test]
        fn order_of_a_sender_is_kept_and_all_is_counted(
            steps in prop::collection::vec((0_u8..4, 0_usize..60, any::<bool>()), 0..300)
        ) {
            let mut lanes = Lanes::new(LaneBounds { messages: 5, bytes: 100, total: 200 });
            let (mut out, mut pushed) = (Vec::new(), 0_u32);
            for (sender, bytes, takes) in steps {
                lanes.push(&sender, bytes, (sender, pushed));
                pushed += 1;
                prop_assert!(lanes.bytes <= 200);
                if takes {
                    lanes.take(2, |_| true, &mut out);
                }
            }
            while !lanes.is_empty() {
                lanes.take(2, |_| true, &mut out);
            }
            prop_assert_eq!(out.len() as u64 + lanes.dropped(), u64::from(pushed));
            prop_assert_eq!(lanes.bytes, 0);
            for sender in 0..4 {
                let numbers: Vec<u32> = out.iter().filter(|(from, _)| *from == sender).map(|(_, n)| *n).collect();
                prop_assert!(numbers.is_sorted());
            }
        }
    }
}
