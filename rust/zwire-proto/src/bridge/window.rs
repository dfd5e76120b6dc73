//! [`Window`]: duplicates among numbered messages.

use crate::{zenoh::ZenohId, zre::Uuid};
use std::collections::{HashMap, VecDeque};

/// Numbers below the highest that are told apart.
const SIZE: u64 = 256;

/// Senders that windows are kept for: a window is 48 octets, so some MiB.
const MAX_SENDERS: usize = 65_536;

/// Numbers of the messages of one sender by one bridge.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Highest number; bit `i` of `seen` stands for `highest - i`.
    highest: u64,
    seen: [u64; 4],
}

impl Window {
    /// Whether a message is new: not seen, and not older than the window.
    pub fn accept(&mut self, number: u64) -> bool {
        if number > self.highest || self.seen == [0; 4] {
            self.shift(number.saturating_sub(self.highest));
            self.highest = number;
            self.seen[0] |= 1;
            return true;
        }
        let back = self.highest - number;
        if back >= SIZE {
            return false;
        }
        #[allow(clippy::cast_possible_truncation, reason = "below 256")]
        let (word, bit) = ((back / 64) as usize, 1 << (back % 64));
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }

    fn shift(&mut self, by: u64) {
        if by >= SIZE {
            self.seen = [0; 4];
            return;
        }
        #[allow(clippy::cast_possible_truncation, reason = "below 256")]
        let (words, bits) = ((by / 64) as usize, by % 64);
        for at in (0..self.seen.len()).rev() {
            let whole = at.checked_sub(words).map_or(0, |from| self.seen[from] << bits);
            let part = match (at.checked_sub(words + 1), bits) {
                (Some(from), 1..) => self.seen[from] >> (64 - bits),
                _ => 0,
            };
            self.seen[at] = whole | part;
        }
    }
}

/// Windows of all senders by bridge.
#[derive(Debug, Default)]
pub struct Windows {
    windows: HashMap<(ZenohId, Uuid), Window>,
    /// Senders in the order of their first message.
    order: VecDeque<(ZenohId, Uuid)>,
}

impl Windows {
    /// Whether a message is new.
    pub fn accept(&mut self, bridge: ZenohId, sender: Uuid, number: u64) -> bool {
        let key = (bridge, sender);
        if let Some(window) = self.windows.get_mut(&key) {
            return window.accept(number);
        }
        if self.windows.len() >= MAX_SENDERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.windows.remove(&oldest);
        }
        self.order.push_back(key);
        self.windows.entry(key).or_default().accept(number)
    }

    /// Forgets a bridge: after a restart its numbers may begin again.
    pub fn forget(&mut self, bridge: ZenohId) {
        self.windows.retain(|(known, _), _| *known != bridge);
        self.order.retain(|(known, _)| *known != bridge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn duplicates_and_late_numbers() {
        let mut window = Window::default();
        for (number, new) in [
            (0, true),
            (0, false),
            (5, true),
            (3, true),
            (3, false),
            (300, true),
            (44, false),
            (45, true),
            (45, false),
        ] {
            assert_eq!(window.accept(number), new, "{number}");
        }
        assert!(window.accept(u64::MAX) && !window.accept(u64::MAX) && !window.accept(0));
    }

    #[test]
    fn a_bridge_that_starts_again_is_heard() {
        let (mut windows, sender) = (Windows::default(), Uuid::from_bytes([1; 16]));
        let [a, b] = [1, 2].map(|id| ZenohId::new(id).unwrap());
        assert!(windows.accept(a, sender, 1000) && windows.accept(b, sender, 1000));
        assert!(!windows.accept(a, sender, 1));
        windows.forget(a);
        assert!(windows.accept(a, sender, 1));
        assert!(!windows.accept(b, sender, 1000));
    }

    #[test]
    fn the_number_of_senders_is_bounded() {
        let (mut windows, bridge) = (Windows::default(), ZenohId::new(1).unwrap());
        for sender in 0..MAX_SENDERS as u128 + 10 {
            assert!(windows.accept(bridge, Uuid::from_bytes(sender.to_be_bytes()), 1));
        }
        assert_eq!((windows.windows.len(), windows.order.len()), (MAX_SENDERS, MAX_SENDERS));
    }

    proptest! {
        /// A set of all numbers is the model.
        #[test]
        fn behaves_as_a_set(numbers in prop::collection::vec(0_u64..900, 1..200)) {
            let (mut window, mut seen) = (Window::default(), BTreeSet::new());
            for number in numbers {
                let highest: u64 = seen.last().copied().unwrap_or(0);
                let wanted = highest.saturating_sub(number) < SIZE && !seen.contains(&number);
                prop_assert_eq!(window.accept(number), wanted, "{}", number);
                if wanted {
                    seen.insert(number);
                }
            }
        }
    }
}
