//! [`Reserve`]: messages that the forwarding bridge may not have passed on.
//!
//! A bridge in reserve gets its own copy of each message, and also sees it on the other side once the forwarding bridge has
//! passed it on. What it has seen on one side only is what it has to pass on when it takes over: then nothing is lost and
//! nothing comes twice, although copies of one message have no number in common. They are told by their content; of
//! messages with equal content it only matters how many there are.
//!
//! The forwarding bridge keeps the order of each sender. So once a message of a sender was seen on the other side, it will
//! pass on none before it: each was passed on and not heard of here, or dropped there. Passed on later by this bridge it
//! would come out of order, and possibly twice.

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::{
    collections::{HashMap, VecDeque},
    hash::DefaultHasher,
};

/// Time for which a message is kept: longer than a takeover takes. One that the other bridge has not passed on by then was
/// dropped there, by a rule or for want of room, and is counted there.
const KEEP: Duration = Duration::from_secs(3);

/// Time for which a message that was seen on the other side waits for the own copy, which may come later.
const KEEP_SEEN: Duration = Duration::from_secs(1);

/// Most messages, and most octets of them.
const MAX_MESSAGES: usize = 65_536;
const MAX_BYTES: usize = 16 << 20;

/// Content of a message, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

struct Kept<T> {
    fingerprint: Fingerprint,
    sender: Fingerprint,
    at: Duration,
    bytes: usize,
    /// Taken once the other bridge has passed it on.
    item: Option<T>,
}

/// Numbers of kept messages with one fingerprint.
struct Places {
    numbers: VecDeque<u64>,
    /// Sender of all of them; `None`: they have several, and which of them was seen is not known.
    sender: Option<Fingerprint>,
}

/// Messages of a bridge in reserve.
pub struct Reserve<T> {
    kept: VecDeque<Kept<T>>,
    /// Number of the first of `kept`.
    first: u64,
    /// Numbers of messages in `kept`, by content and by sender.
    places: HashMap<Fingerprint, Places>,
    senders: HashMap<Fingerprint, VecDeque<u64>>,
    /// Messages that were seen on the other side first.
    seen: VecDeque<(Fingerprint, Duration)>,
    counts: HashMap<Fingerprint, usize>,
    bytes: usize,
    dropped: u64,
    seed: u64,
}

impl<T> Reserve<T> {
    /// An empty reserve. `seed` is a random number: without it a peer could make two contents with one fingerprint.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            kept: VecDeque::new(),
            first: 0,
            places: HashMap::new(),
            senders: HashMap::new(),
            seen: VecDeque::new(),
            counts: HashMap::new(),
            bytes: 0,
            dropped: 0,
            seed,
        }
    }

    /// Fingerprint of a content.
    pub fn fingerprint(&self, content: impl Hash) -> Fingerprint {
        let mut hasher = DefaultHasher::new();
        self.seed.hash(&mut hasher);
        content.hash(&mut hasher);
        Fingerprint(hasher.finish())
    }

    /// Messages that were dropped at the bound.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether the own copy of a message that was seen on the other side has not come.
    fn awaits(&self) -> bool {
        !self.seen.is_empty()
    }

    /// The own copy of a message has come after a takeover; whether the bridge before has passed it on.
    pub fn was_passed(&mut self, message: impl Hash) -> bool {
        self.awaits() && self.take_seen(self.fingerprint(message))
    }

    /// The own copy of a message has come; whether the message was passed on before.
    fn take_seen(&mut self, fingerprint: Fingerprint) -> bool {
        let Some(count) = self.counts.get_mut(&fingerprint) else { return false };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&fingerprint);
        }
        if let Some(at) = self.seen.iter().position(|(known, _)| *known == fingerprint) {
            self.seen.remove(at);
        }
        true
    }

    /// The own copy of a message has come; `sender` is the fingerprint of its sender.
    pub fn handle_own(
        &mut self,
        now: Duration,
        fingerprint: Fingerprint,
        sender: Fingerprint,
        bytes: usize,
        item: T,
    ) {
        if self.take_seen(fingerprint) {
            return;
        }
        let number = self.first + self.kept.len() as u64;
        let places = self.places.entry(fingerprint);
        let places = places.or_insert_with(|| Places { numbers: VecDeque::new(), sender: Some(sender) });
        places.numbers.push_back(number);
        places.sender = places.sender.filter(|known| *known == sender);
        self.senders.entry(sender).or_default().push_back(number);
        self.kept.push_back(Kept { fingerprint, sender, at: now, bytes, item: Some(item) });
        self.bytes += bytes;
        while self.kept.len() > MAX_MESSAGES || self.bytes > MAX_BYTES {
            if self.drop_first() {
                self.dropped += 1;
            }
        }
    }

    /// The other bridge has passed a message on.
    pub fn handle_passed(&mut self, now: Duration, fingerprint: Fingerprint) {
        let Some(places) = self.places.get_mut(&fingerprint) else {
            if self.seen.len() < MAX_MESSAGES {
                self.seen.push_back((fingerprint, now));
                *self.counts.entry(fingerprint).or_default() += 1;
            }
            return;
        };
        let (sender, Some(number)) = (places.sender, places.numbers.front().copied()) else { return };
        match sender {
            Some(sender) => {
                while let Some(first) = self.senders.get(&sender).and_then(|all| all.front().copied())
                    && first <= number
                {
                    self.settle(first);
                }
            }
            None => _ = self.settle(number),
        }
        while self.kept.front().is_some_and(|kept| kept.item.is_none()) {
            self.drop_first();
        }
    }

    /// Forgets what is too old to be passed on.
    pub fn handle_timeout(&mut self, now: Duration) {
        while self.kept.front().is_some_and(|kept| now.saturating_sub(kept.at) >= KEEP) {
            self.drop_first();
        }
        while let Some((fingerprint, at)) = self.seen.front().copied()
            && now.saturating_sub(at) >= KEEP_SEEN
        {
            self.seen.pop_front();
            if let Some(count) = self.counts.get_mut(&fingerprint) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&fingerprint);
                }
            }
        }
    }

    /// Takes the messages that the other bridge has not passed on, in their order. Those that were seen on the other side
    /// are still known: their own copies may come later.
    pub fn take_over(&mut self) -> impl Iterator<Item = T> {
        let kept = core::mem::take(&mut self.kept);
        self.first += kept.len() as u64;
        self.places.clear();
        self.senders.clear();
        self.bytes = 0;
        kept.into_iter().filter_map(|kept| kept.item)
    }

    /// Drops the first; whether it had not been passed on.
    fn drop_first(&mut self) -> bool {
        let dropped = self.settle(self.first);
        if self.kept.pop_front().is_some() {
            self.first += 1;
        }
        dropped
    }

    /// Gives up a kept message; whether it was kept until now.
    fn settle(&mut self, number: u64) -> bool {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let Some(kept) = at.and_then(|at| self.kept.get_mut(at)) else { return false };
        if kept.item.take().is_none() {
            return false;
        }
        self.bytes -= core::mem::take(&mut kept.bytes);
        let (fingerprint, sender) = (kept.fingerprint, kept.sender);
        // Mostly the first one of both.
        let remove = |numbers: &mut VecDeque<u64>| {
            if let Ok(at) = numbers.binary_search(&number) {
                numbers.remove(at);
            }
            numbers.is_empty()
        };
        if self.places.get_mut(&fingerprint).is_some_and(|places| remove(&mut places.numbers)) {
            self.places.remove(&fingerprint);
        }
        if self.senders.get_mut(&sender).is_some_and(remove) {
            self.senders.remove(&sender);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Duration = Duration::from_secs(9);

    #[test]
    fn what_was_passed_on_does_not_come_twice() {
        let mut reserve = Reserve::new(7);
        for (at, content) in ["a", "b", "a", "c"].into_iter().enumerate() {
            let fingerprint = reserve.fingerprint(content);
            reserve.handle_own(NOW, fingerprint, Fingerprint(at as u64), 1, (at, content));
        }
        for content in ["a", "b"] {
            let fingerprint = reserve.fingerprint(content);
            reserve.handle_passed(NOW, fingerprint);
        }
        assert_eq!(reserve.take_over().collect::<Vec<_>>(), [(2, "a"), (3, "c")]);
        assert_eq!(reserve.take_over().count(), 0);
    }

    #[test]
    fn the_other_may_be_faster() {
        let mut reserve = Reserve::new(7);
        let fingerprint = reserve.fingerprint("a");
        reserve.handle_passed(NOW, fingerprint);
        reserve.handle_own(NOW, fingerprint, Fingerprint(0), 1, 1);
        reserve.handle_own(NOW, fingerprint, Fingerprint(0), 1, 2);
        assert_eq!(reserve.take_over().collect::<Vec<_>>(), [2]);
        // A copy that never comes is not waited for.
        reserve.handle_passed(NOW, fingerprint);
        reserve.handle_timeout(NOW + KEEP_SEEN);
        reserve.handle_own(NOW + KEEP_SEEN, fingerprint, Fingerprint(0), 1, 3);
        assert_eq!(reserve.take_over().collect::<Vec<_>>(), [3]);
    }

    /// The own copy of a message that the bridge before has passed on comes after the takeover.
    #[test]
    fn the_other_may_be_faster_than_the_takeover() {
        let mut reserve = Reserve::new(7);
        let (one, two) = (reserve.fingerprint("a"), reserve.fingerprint("b"));
        reserve.handle_passed(NOW, one);
        reserve.handle_passed(NOW, one);
        reserve.handle_passed(NOW, two);
        let left: Vec<u32> = reserve.take_over().collect();
        assert!(left.is_empty());
        assert!(
            reserve.awaits() && reserve.take_seen(one) && reserve.take_seen(one) && !reserve.take_seen(one)
        );
        assert!(reserve.awaits());
        reserve.handle_timeout(NOW + KEEP_SEEN);
        assert!(!reserve.awaits() && !reserve.take_seen(two));
    }

    /// A bridge that is killed between two copies of a SHOUT has told one bridge in reserve and not the other. The one that
    /// takes over goes on with the next message.
    #[test]
    fn what_is_before_a_message_that_was_passed_on_is_not_passed_on_any_more() {
        let mut reserve = Reserve::new(7);
        for (sender, content) in [(1, "a"), (2, "b"), (1, "c"), (1, "a"), (2, "d"), (1, "e")] {
            let fingerprint = reserve.fingerprint(content);
            reserve.handle_own(NOW, fingerprint, Fingerprint(sender), 1, content);
        }
        let fingerprint = reserve.fingerprint("c");
        reserve.handle_passed(NOW, fingerprint);
        assert_eq!(reserve.bytes, 4);
        assert_eq!(reserve.take_over().collect::<Vec<_>>(), ["b", "a", "d", "e"]);
        assert!(reserve.senders.is_empty() && reserve.places.is_empty() && reserve.bytes == 0);
    }

    /// The content alone does not say which of two senders it came from.
    #[test]
    fn equal_contents_of_two_senders_settle_nothing_before() {
        let mut reserve = Reserve::new(7);
        for (sender, content) in [(1, "a"), (1, "tick"), (2, "b"), (2, "tick")] {
            let fingerprint = reserve.fingerprint(content);
            reserve.handle_own(NOW, fingerprint, Fingerprint(sender), 1, content);
        }
        let fingerprint = reserve.fingerprint("tick");
        reserve.handle_passed(NOW, fingerprint);
        assert_eq!(reserve.take_over().collect::<Vec<_>>(), ["a", "b", "tick"]);
    }

    #[test]
    fn time_and_memory_are_bounded() {
        let mut reserve = Reserve::new(7);
        for at in 0..40_u32 {
            let fingerprint = reserve.fingerprint(at);
            reserve.handle_own(NOW, fingerprint, Fingerprint(u64::from(at % 3)), 1 << 20, at);
        }
        assert_eq!((reserve.dropped(), reserve.kept.len(), reserve.places.len()), (24, 16, 16));
        assert_eq!(reserve.senders.values().map(VecDeque::len).sum::<usize>(), 16);
        reserve.handle_timeout(NOW + KEEP);
        let left = (reserve.kept.len(), reserve.places.len(), reserve.senders.len(), reserve.bytes);
        assert_eq!(left, (0, 0, 0, 0));
    }

    proptest! {
        /// Lists are the model. Messages have a sender and a content; contents of a sender differ from those of the others, or
        /// all senders have the same ones.
        #[test]
        fn each_comes_once_and_in_order(
            steps in prop::collection::vec((0_u64..3, 0_u8..4, any::<bool>()), 0..200),
            shared in any::<bool>(),
        ) {
            let mut reserve = Reserve::new(7);
            let mut kept: Vec<(usize, u64, (u64, u8))> = Vec::new();
            let mut seen: Vec<(u64, u8)> = Vec::new();
            for (at, (sender, content, is_own)) in steps.into_iter().enumerate() {
                let content = (if shared { 0 } else { sender }, content);
                let fingerprint = reserve.fingerprint(content);
                if is_own {
                    reserve.handle_own(NOW, fingerprint, Fingerprint(sender), 10, at);
                    match seen.iter().position(|known| *known == content) {
                        Some(place) => drop(seen.remove(place)),
                        None => kept.push((at, sender, content)),
                    }
                    continue;
                }
                reserve.handle_passed(NOW, fingerprint);
                match kept.iter().position(|known| known.2 == content) {
                    None => seen.push(content),
                    Some(place) if shared => drop(kept.remove(place)),
                    Some(place) => {
                        let last = kept[place].0;
                        kept.retain(|known| known.1 != sender || known.0 > last);
                    }
                }
                prop_assert!(shared || reserve.awaits() != seen.is_empty());
            }
            if shared {
                // Of equal contents it matters how many there are, and messages before are given up at times.
                let left = reserve.take_over().count();
                prop_assert!(left <= kept.len());
            } else {
                let left: Vec<usize> = reserve.take_over().collect();
                prop_assert_eq!(left, kept.into_iter().map(|known| known.0).collect::<Vec<_>>());
            }
        }
    }
}
