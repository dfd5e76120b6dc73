//! Buffer of a spooler that stands by: samples that it has received, until the store has them.

use crate::{
    identity::Identity,
    numbers::{FAR, MAX_SOURCES, Publisher},
    steps::Scope,
};
use core::sync::atomic::{AtomicU64, Ordering};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

/// Identities of stored rows that are remembered, for samples that arrive after the store has them; and most identities
/// of samples that were dropped.
pub(crate) const REMEMBERED: usize = 1 << 18;

/// Rows that a store has: what is needed to recognise their samples. Made of at most [`REMEMBERED`] rows.
#[derive(Default, Debug)]
pub(crate) struct Listed {
    pub(crate) last: Lasts,
    /// Number of rows with each other identity.
    pub(crate) others: HashMap<Identity, u32>,
}

/// Counters of all buffers of a recorder.
#[derive(Default, Debug)]
pub(crate) struct Held {
    pub(crate) messages: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Samples that were dropped because a buffer was full.
    pub(crate) dropped: AtomicU64,
}

/// Sample in the buffer.
pub(crate) struct Waits<I> {
    pub(crate) item: I,
    pub(crate) identity: Option<Identity>,
    pub(crate) time: i64,
    shard: u32,
    bytes: usize,
}

pub(crate) struct Standby<I> {
    waiting: VecDeque<Waits<I>>,
    bytes: usize,
    most: usize,
    counters: Arc<Held>,
    /// Samples that were dropped and are not known to be stored: as far as remembered, and how many beyond.
    gone: VecDeque<(Option<Identity>, u32)>,
    beyond: u64,
    last: Lasts,
    /// The same by the shards before their number has changed last.
    before: Lasts,
    stamps: HashSet<Identity>,
    order: VecDeque<Identity>,
}

/// Last numbers of publishers, by shard.
type Lasts = HashMap<(Publisher, u32), u32>;

/// Whether a number comes after the last one of its publisher; also one that begins again.
const fn is_newer(last: u32, number: u32) -> bool {
    let ahead = number.wrapping_sub(last).cast_signed();
    ahead > 0 || ahead <= -FAR
}

/// Whether a number is the last one or comes before it.
fn is_passed(lasts: &Lasts, publisher: Publisher, shard: u32, number: u32) -> bool {
    lasts.get(&(publisher, shard)).is_some_and(|last| !is_newer(*last, number))
}

/// Takes note of a number.
fn pass(lasts: &mut Lasts, publisher: (Publisher, u32), number: u32) {
    let last = lasts.entry(publisher).or_insert(number);
    if is_newer(*last, number) {
        *last = number;
    }
}

impl Listed {
    /// Takes note of a row.
    pub(crate) fn add(&mut self, shard: u32, identity: Identity) {
        let Identity::Number(publisher, number) = identity else {
            *self.others.entry(identity).or_default() += 1;
            return;
        };
        pass(&mut self.last, (publisher, shard), number);
    }
}

impl<I> Standby<I> {
    /// A buffer of at most so many octets.
    pub(crate) fn new(most: usize, counters: Arc<Held>) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            most,
            counters,
            gone: VecDeque::new(),
            beyond: 0,
            last: HashMap::new(),
            before: HashMap::new(),
            stamps: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    /// Whether the store has a sample, or a later one of its publisher in the same shard: then the log of gaps names it.
    pub(crate) fn has(&self, shard: u32, identity: Option<Identity>) -> bool {
        match identity {
            Some(Identity::Number(publisher, number)) => is_passed(&self.last, publisher, shard, number),
            Some(stamp @ Identity::Stamp(_)) => self.stamps.contains(&stamp),
            Some(Identity::Content(_)) | None => false,
        }
    }

    /// As [`Self::has`], with the shard that the sample had before the number of shards has changed last.
    pub(crate) fn had(&self, shard: u32, identity: Option<Identity>) -> bool {
        match identity {
            Some(Identity::Number(publisher, number)) => is_passed(&self.before, publisher, shard, number),
            _ => false,
        }
    }

    /// Gives the samples new shards. The store has none of them: all rows of the shards before were learned.
    pub(crate) fn spread(&mut self, shard_of: impl Fn(&I) -> u32) {
        self.waiting.iter_mut().for_each(|waits| waits.shard = shard_of(&waits.item));
        // Keys of those that were dropped are not known.
        self.beyond += self.gone.len() as u64;
        self.gone.clear();
        self.before = core::mem::take(&mut self.last);
    }

    /// Forgets the shards before their number has changed.
    pub(crate) fn forget_before(&mut self) {
        self.before.clear();
    }

    /// Items that wait, with their shards.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&I, u32)> {
        self.waiting.iter().map(|waits| (&waits.item, waits.shard))
    }

    /// Adds a sample that the store is not known to have. Returns the number of the oldest that were dropped.
    pub(crate) fn push(
        &mut self,
        shard: u32,
        item: I,
        identity: Option<Identity>,
        (time, bytes): (i64, usize),
    ) -> u64 {
        self.waiting.push_back(Waits { item, identity, time, shard, bytes });
        self.count(1, bytes);
        let mut dropped = 0;
        while self.bytes > self.most
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.discount(1, oldest.bytes);
            if self.gone.len() >= REMEMBERED {
                self.gone.pop_front();
                self.beyond += 1;
            }
            self.gone.push_back((oldest.identity, oldest.shard));
            dropped += 1;
        }
        self.counters.dropped.fetch_add(dropped, Ordering::Relaxed);
        dropped
    }

    fn count(&mut self, messages: u64, bytes: usize) {
        self.bytes += bytes;
        self.counters.messages.fetch_add(messages, Ordering::Relaxed);
        self.counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn discount(&mut self, messages: u64, bytes: usize) {
        self.bytes -= bytes;
        self.counters.messages.fetch_sub(messages, Ordering::Relaxed);
        self.counters.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Removes the samples that the store has. Returns their number.
    pub(crate) fn learn(&mut self, listed: &Listed) -> u64 {
        if self.last.len() + listed.last.len() > 2 * MAX_SOURCES {
            // Publishers that send again are learned again.
            self.last.clear();
        }
        listed.last.iter().for_each(|(publisher, number)| pass(&mut self.last, *publisher, *number));
        let mut others = listed.others.clone();
        let (last, before) = (&self.last, self.waiting.len());
        // Of equal samples, the oldest is the one that was stored.
        let mut is_stored = |identity: Option<Identity>, shard: u32| match identity {
            Some(Identity::Number(publisher, number)) => is_passed(last, publisher, shard, number),
            Some(other) => others.get_mut(&other).is_some_and(|count| {
                let left = *count > 0;
                *count -= u32::from(left);
                left
            }),
            None => false,
        };
        self.gone.retain(|(identity, shard)| !is_stored(*identity, *shard));
        let mut freed = 0;
        self.waiting.retain(|waits| {
            let stored = is_stored(waits.identity, waits.shard);
            freed += if stored { waits.bytes } else { 0 };
            !stored
        });
        let removed = (before - self.waiting.len()) as u64;
        self.discount(removed, freed);
        // Contents are not remembered: a later sample may have the same.
        for identity in listed.others.keys() {
            if matches!(identity, Identity::Stamp(_)) && self.stamps.insert(*identity) {
                self.order.push_back(*identity);
            }
        }
        while self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.stamps.remove(&oldest);
        }
        removed
    }

    /// Takes the samples of shards that the store does not have, in the order of arrival, and the number of those that were
    /// dropped. Those beyond the remembered ones count with the first shards that are taken.
    pub(crate) fn take(&mut self, scope: Scope) -> (VecDeque<Waits<I>>, u64) {
        let (taken, left): (VecDeque<_>, VecDeque<_>) =
            core::mem::take(&mut self.waiting).into_iter().partition(|waits| scope.has(waits.shard as usize));
        self.waiting = left;
        self.discount(taken.len() as u64, taken.iter().map(|waits| waits.bytes).sum());
        let before = self.gone.len();
        self.gone.retain(|(_, shard)| !scope.has(*shard as usize));
        let gone = (before - self.gone.len()) as u64;
        (taken, gone + core::mem::take(&mut self.beyond))
    }

    /// Forgets all that is known of the store.
    pub(crate) fn forget(&mut self) {
        self.last.clear();
        self.stamps.clear();
        self.order.clear();
    }
}

impl<I> Drop for Standby<I> {
    fn drop(&mut self) {
        self.take(Scope::All);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zwire_proto::zenoh::ZenohId;

    const MOST: usize = 1000;

    fn number(sn: u32) -> Identity {
        Identity::Number((ZenohId::from_wire(&[7]).unwrap(), 1), sn)
    }

    fn standby(identities: impl IntoIterator<Item = Option<Identity>>) -> Standby<usize> {
        let mut standby = Standby::new(MOST, Arc::new(Held::default()));
        for (item, identity) in identities.into_iter().enumerate() {
            standby.push(0, item, identity, (0, 100));
        }
        standby
    }

    fn listed(identities: impl IntoIterator<Item = Identity>) -> Listed {
        let mut listed = Listed::default();
        identities.into_iter().for_each(|identity| listed.add(0, identity));
        listed
    }

    fn items(standby: &mut Standby<usize>) -> Vec<usize> {
        standby.take(Scope::All).0.into_iter().map(|waits| waits.item).collect()
    }

    #[test]
    fn samples_up_to_the_last_stored_number_of_the_shard_are_removed() {
        let mut standby = standby((0..6).map(|sn| Some(number(sn))));
        standby.push(1, 6, Some(number(6)), (0, 100));
        assert_eq!(standby.learn(&listed([number(3), number(1)])), 4);
        assert!(standby.has(0, Some(number(2))) && !standby.has(0, Some(number(4))));
        assert!(!standby.has(1, Some(number(2))), "keys of another shard have an order of their own");
        assert_eq!(standby.counters.messages.load(Ordering::Relaxed), 3);
        assert_eq!(items(&mut standby), [4, 5, 6]);
        // Numbers that begin again are newer.
        assert!(!standby.has(0, Some(number(3 + (1 << 31)))));
    }

    #[test]
    fn samples_with_times_are_recognised_in_any_order_and_later_too() {
        let stamp = |n| Some(Identity::Stamp(n));
        let mut standby = standby([stamp(1), stamp(2), stamp(3)]);
        assert_eq!(standby.learn(&listed([2, 9].map(Identity::Stamp))), 1);
        assert!(standby.has(0, stamp(9)) && standby.has(0, stamp(2)) && !standby.has(0, stamp(1)));
        assert_eq!(items(&mut standby), [0, 2]);
        standby.learn(&listed((10..10 + REMEMBERED as u128).map(Identity::Stamp)));
        let left = standby.order.len();
        assert_eq!((left, standby.stamps.len(), standby.has(0, stamp(9))), (REMEMBERED, REMEMBERED, false));
    }

    #[test]
    fn of_equal_samples_as_many_are_removed_as_are_stored() {
        let content = Some(Identity::Content(1));
        let mut standby = standby([content, None, content, content]);
        assert_eq!(standby.learn(&listed([1, 1, 2].map(Identity::Content))), 2);
        assert!(!standby.has(0, Some(Identity::Content(2))));
        assert_eq!(items(&mut standby), [1, 3]);
    }

    #[test]
    fn the_oldest_samples_go_when_the_buffer_is_full() {
        let mut standby = standby((0..14).map(|sn| Some(number(sn))));
        let counters = standby.counters.clone();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!((load(&counters.dropped), load(&counters.bytes)), (4, 1000));
        // Of those that were dropped, the store has three.
        assert_eq!(standby.learn(&listed([number(2)])), 0);
        let (waiting, gone) = standby.take(Scope::All);
        assert_eq!((waiting.len(), gone, load(&counters.bytes)), (10, 1, 0));
    }

    #[test]
    fn samples_get_other_shards_and_stored_ones_are_recognised_by_those_before() {
        let mut standby = standby((0..5).map(|sn| Some(number(sn))));
        assert_eq!(standby.learn(&listed([number(1)])), 2);
        standby.spread(|item| *item as u32 % 2 + 3);
        let late = Some(number(1));
        assert!(standby.had(0, late) && !standby.had(3, late) && !standby.had(0, Some(number(2))));
        assert!(
            !standby.has(0, late),
            "what was stored in a shard before says nothing of the keys that it has now"
        );
        assert_eq!(
            standby.items().map(|(item, shard)| (*item, shard)).collect::<Vec<_>>(),
            [(2, 3), (3, 4), (4, 3)]
        );
        let taken: Vec<usize> = standby.take(Scope::One(3)).0.into_iter().map(|waits| waits.item).collect();
        assert_eq!(taken, [2, 4]);
        standby.forget_before();
        assert!(!standby.had(0, late));
    }

    #[test]
    fn samples_that_were_dropped_before_a_change_count_with_the_first_shard_that_is_taken() {
        let mut standby = standby((0..12).map(|sn| Some(number(sn))));
        standby.spread(|_| 7);
        assert_eq!(standby.take(Scope::One(2)).1, 2);
        assert_eq!(standby.take(Scope::One(7)).1, 0);
    }
}
