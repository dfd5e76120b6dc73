//! [`EventLog`]: the events of a storage by time.
//!
//! An event is the last update of a key, a value or a tombstone, or a wildcard update that is kept. The log has one entry
//! for each, and a fingerprint for each part of an interval with events: so a digest costs the hot and warm intervals, and
//! the whole log is read for a fetch alone, part by part.

use crate::{
    error::Result,
    place::Span,
    replication::{
        ReplicaSettings, event_fingerprint,
        wire::{Difference, Digest, Sums},
    },
    rules::{Mark, Table},
    wildcards::Wildcard,
};
use core::{ops::Bound, time::Duration};
use std::collections::{BTreeMap, BTreeSet};
use zwire_proto::zenoh::{Ntp64, Timestamp, ZenohId};

/// Difference of clocks at which two replicas still agree about which intervals are cold, such as that of one that is two
/// seconds fast and one that is two slow: without that, each digest would ask for all cold ones.
const SKEW: Duration = Duration::from_secs(4);

/// The first clock in the order of timestamps.
const FIRST: ZenohId = ZenohId::from_random([0; 16]);

/// Most ends of the cold intervals that a digest is compared with.
const MAX_CUTS: u64 = 64;

/// Wildcard update in the log: time, whether it is a put, key expression.
type WildEntry = (Timestamp, bool, Box<str>);

/// Events of a storage by time.
#[derive(Debug)]
pub struct EventLog {
    settings: ReplicaSettings,
    fingerprint: u64,
    keys: BTreeSet<(Timestamp, Box<str>)>,
    wild: BTreeMap<WildEntry, Wildcard>,
    sums: BTreeMap<(u64, u64), u64>,
    total: u64,
}

/// Position in a log, behind an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    stamp: Timestamp,
    key: Box<str>,
}

impl EventLog {
    /// An empty log of a storage with this fingerprint.
    #[must_use]
    pub const fn new(settings: ReplicaSettings, fingerprint: u64) -> Self {
        Self {
            settings,
            fingerprint,
            keys: BTreeSet::new(),
            wild: BTreeMap::new(),
            sums: BTreeMap::new(),
            total: 0,
        }
    }

    /// Reads the events of a volume in place of those in the log.
    ///
    /// # Errors
    /// Those of the volume.
    pub fn fill<'w>(
        &mut self,
        table: &mut dyn Table,
        wildcards: impl Iterator<Item = &'w Wildcard>,
    ) -> Result<()> {
        *self = Self::new(self.settings, self.fingerprint);
        wildcards.for_each(|wildcard| self.keep(wildcard));
        let all = Span::default();
        let mut after: Option<String> = None;
        loop {
            let keys = table.keys(&all, after.as_deref())?;
            for (key, mark) in &keys {
                self.add(key, mark);
            }
            match keys.into_iter().last() {
                Some((last, _)) => after = Some(last),
                None => break,
            }
        }
        after = None;
        loop {
            let graves = table.graves(after.as_deref())?;
            for (key, stamp) in &graves {
                self.add(key, &Mark::Gone(*stamp));
            }
            match graves.into_iter().last() {
                Some((last, _)) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    /// Parameters of the replication.
    #[must_use]
    pub const fn settings(&self) -> &ReplicaSettings {
        &self.settings
    }

    /// Fingerprint of the parameters and of the storage's place.
    #[must_use]
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len() + self.wild.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn sum(&mut self, key: &str, stamp: Timestamp) {
        let sum = event_fingerprint(key, stamp);
        self.total ^= sum;
        let slot = self.settings.slot(stamp);
        let known = self.sums.entry(slot).or_default();
        *known ^= sum;
        if *known == 0 {
            self.sums.remove(&slot);
        }
    }

    /// Adds the last update of a key.
    pub(crate) fn add(&mut self, key: &str, mark: &Mark) {
        let stamp = mark.stamp();
        if self.keys.insert((stamp, key.into())) {
            self.sum(key, stamp);
        }
    }

    /// Removes an update of a key.
    pub(crate) fn drop_key(&mut self, key: &str, mark: &Mark) {
        let stamp = mark.stamp();
        if self.keys.remove(&(stamp, Box::from(key))) {
            self.sum(key, stamp);
        }
    }

    /// Adds a wildcard update.
    pub(crate) fn keep(&mut self, wildcard: &Wildcard) {
        if self.wild.insert(entry(wildcard), wildcard.clone()).is_none() {
            self.sum(&wildcard.key, wildcard.stamp);
        }
    }

    /// Removes a wildcard update.
    pub(crate) fn forget(&mut self, wildcard: &Wildcard) {
        if self.wild.remove(&entry(wildcard)).is_some() {
            self.sum(&wildcard.key, wildcard.stamp);
        }
    }

    /// Whether the log has this last update of a key.
    #[must_use]
    pub fn has(&self, key: &str, stamp: Timestamp) -> bool {
        self.keys.contains(&(stamp, Box::from(key)))
    }

    /// The wildcard update of a kind, key expression and time.
    #[must_use]
    pub fn wildcard(&self, is_put: bool, key: &str, stamp: Timestamp) -> Option<&Wildcard> {
        self.wild.get(&(stamp, is_put, key.into()))
    }

    /// First warm and first hot interval.
    const fn eras(&self, present: u64) -> (u64, u64) {
        let hot = present.saturating_add(1).saturating_sub(self.settings.hot);
        (hot.saturating_sub(self.settings.warm), hot)
    }

    /// State up to the present interval. Later events are in no digest yet.
    #[must_use]
    pub fn digest(&self, present: u64) -> Digest {
        let (warm, hot) = self.eras(present);
        let mut digest = Digest { settings: self.fingerprint, cold: self.cold(warm), ..Digest::default() };
        for ((interval, _), sum) in self.sums.range((warm, 0)..(hot, 0)) {
            *digest.warm.entry(*interval).or_default() ^= sum;
        }
        digest.warm.retain(|_, sum| *sum != 0);
        for ((interval, part), sum) in self.sums.range((hot, 0)..(present.saturating_add(1).max(hot), 0)) {
            digest.hot.entry(*interval).or_default().insert(*part, *sum);
        }
        digest
    }

    /// Fingerprint of the events before an interval.
    fn cold(&self, end: u64) -> u64 {
        self.sums.range((end, 0)..).fold(self.total, |total, (_, sum)| total ^ sum)
    }

    /// Fingerprint of an interval.
    fn interval(&self, interval: u64) -> u64 {
        self.sums.range((interval, 0)..=(interval, u64::MAX)).fold(0, |total, (_, sum)| total ^ sum)
    }

    /// Parts of a digest of another replica that have events which are not here.
    ///
    /// The clock of the other one may differ, and with it the interval at which its cold ones end: any end near that here
    /// will do, because the digest has all intervals from its end on.
    #[must_use]
    pub fn difference(&self, digest: &Digest, present: u64) -> Difference {
        let (warm, _) = self.eras(present);
        let around = self.settings.interval_of(SKEW).saturating_add(1).min(MAX_CUTS / 2);
        let first = warm.saturating_sub(around);
        let mut cold = self.cold(first);
        let mut is_known = digest.cold == 0 || cold == digest.cold;
        for cut in first..first + 2 * around {
            cold ^= self.interval(cut);
            is_known |= cold == digest.cold;
        }
        let differs = |(interval, sum): (&u64, &u64)| (self.interval(*interval) != *sum).then_some(*interval);
        let mut difference = Difference {
            cold: !is_known,
            warm: digest.warm.iter().filter_map(differs).collect(),
            hot: BTreeMap::new(),
        };
        for (interval, parts) in &digest.hot {
            let other: BTreeSet<u64> = self.unlike(*interval, parts).collect();
            if !other.is_empty() {
                difference.hot.insert(*interval, other);
            }
        }
        difference
    }

    /// What a replica without any events asks for: everything.
    #[must_use]
    pub fn everything(&self, present: u64) -> Difference {
        let (warm, _) = self.eras(present);
        // The clock of the other one may be ahead.
        let ahead = self.settings.interval_of(SKEW) + 1;
        Difference { cold: true, warm: (warm..=present + ahead).collect(), hot: BTreeMap::new() }
    }

    /// Intervals whose fingerprints are not these.
    pub fn unlike_intervals<'a>(&'a self, sums: &'a Sums) -> impl Iterator<Item = u64> + 'a {
        sums.iter()
            .filter(|(interval, sum)| self.interval(**interval) != **sum)
            .map(|(interval, _)| *interval)
    }

    /// Parts of an interval whose fingerprints are not these.
    pub fn unlike<'a>(&'a self, interval: u64, parts: &'a Sums) -> impl Iterator<Item = u64> + 'a {
        let here = move |part: u64| self.sums.get(&(interval, part)).copied().unwrap_or(0);
        parts.iter().filter(move |(part, sum)| here(**part) != **sum).map(|(part, _)| *part)
    }

    /// Fingerprints of the cold intervals from one on; at most that many.
    #[must_use]
    pub fn cold_sums(&self, present: u64, from: u64, most: usize) -> Sums {
        let (end, _) = self.eras(present);
        let mut sums = Sums::new();
        for ((interval, _), sum) in self.sums.range((from, 0)..(end.max(from), 0)) {
            if sums.len() >= most && !sums.contains_key(interval) {
                break;
            }
            *sums.entry(*interval).or_default() ^= sum;
        }
        sums
    }

    /// Fingerprints of the parts of an interval.
    #[must_use]
    pub fn part_sums(&self, interval: u64) -> Sums {
        let parts = self.sums.range((interval, 0)..=(interval, u64::MAX));
        parts.map(|((_, part), sum)| (*part, *sum)).collect()
    }

    /// Whether a part of an interval has events.
    #[must_use]
    pub fn has_part(&self, slot: (u64, u64)) -> bool {
        self.sums.contains_key(&slot)
    }

    /// Events of a part of an interval, or of every time, behind a position; at most that many, and of keys first.
    #[must_use]
    pub fn events(
        &self,
        slot: Option<(u64, u64)>,
        after: Option<&Position>,
        most: usize,
    ) -> Vec<(Timestamp, Box<str>)> {
        let (from, to) = slot.map_or((Ntp64(0), Ntp64::MAX), |slot| self.times(slot));
        let start = match after {
            Some(after) => Bound::Excluded((after.stamp, after.key.clone())),
            None => Bound::Included((Timestamp { time: from, id: FIRST }, Box::default())),
        };
        let inside = self.keys.range((start, Bound::Unbounded)).take_while(|(stamp, _)| stamp.time <= to);
        let wanted = inside.filter(|(stamp, _)| slot.is_none_or(|slot| self.settings.slot(*stamp) == slot));
        wanted.take(most).cloned().collect()
    }

    /// Wildcard updates of a part of an interval, or of every time: their number has a bound.
    #[must_use]
    pub fn wild(&self, slot: Option<(u64, u64)>) -> Vec<Wildcard> {
        let wanted = self.wild.values();
        let wanted = wanted.filter(|wild| slot.is_none_or(|slot| self.settings.slot(wild.stamp) == slot));
        wanted.cloned().collect()
    }

    /// Position behind an event.
    #[must_use]
    pub fn behind(event: &(Timestamp, Box<str>)) -> Position {
        Position { stamp: event.0, key: event.1.clone() }
    }

    /// Times that include a part of an interval, and up to a millisecond around it.
    fn times(&self, (interval, part): (u64, u64)) -> (Ntp64, Ntp64) {
        let millis = self.settings.millis();
        let at = |millis: u64| Ntp64::from_duration(Duration::from_millis(millis));
        let first = part.saturating_mul(self.settings.part()).min(millis);
        let start = interval.saturating_mul(millis).saturating_add(first);
        let end = start.saturating_add(self.settings.part()).saturating_add(1);
        (at(start.saturating_sub(1)).unwrap_or(Ntp64::MAX), at(end).unwrap_or(Ntp64::MAX))
    }
}

fn entry(wildcard: &Wildcard) -> WildEntry {
    (wildcard.stamp, wildcard.value.is_some(), wildcard.key.as_str().into())
}
