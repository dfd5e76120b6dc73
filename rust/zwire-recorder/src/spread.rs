//! State of a spooler that shares its spool with others by shards, for all of its threads.

use core::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use zwire_spool::{Gap, Shard, tier::Tiered};
use zwire_tier::{manifest::Manifest, spread::Ring};

/// Rows for the log of gaps that wait for the store; those beyond count as one for each shard.
const MAX_GAPS: usize = 1 << 16;

/// Time without a turn of the thread of the claims after which this spooler no longer shows that it runs. A turn may write the
/// whole buffer of a standby to a slow disk.
const HANGS: Duration = Duration::from_secs(30);

/// Rows for the log of gaps, each with the claim under which it was found.
#[derive(Default)]
struct Found {
    rows: VecDeque<(Gap, u32)>,
    /// Rows that were too many: their count, by shard.
    beyond: BTreeMap<u32, u64>,
}

pub(crate) struct Spread {
    /// The other spoolers.
    pub(crate) ring: Mutex<Ring>,
    /// Random numbers of the others.
    others: Mutex<Vec<String>>,
    /// Claims of the shards that this spooler writes, or has written and not uploaded yet.
    held: Mutex<BTreeMap<u32, u32>>,
    found: Mutex<Found>,
    /// Time of the clock at which the thread of the claims has begun its last turn; none before the first.
    turned: Mutex<Option<Duration>>,
    /// Least time of the first rows of all shards in the store, in microseconds since 1970.
    oldest: Mutex<Option<i64>>,
    /// Whether the store was read; whether shards are being taken over.
    known: AtomicBool,
    /// Number of shards that have rows, or may get some.
    shards: AtomicU32,
    starting: AtomicBool,
    /// Seconds for which this spooler has had its subscriptions, for the others; none if it takes no shards.
    age: Mutex<Option<u64>>,
}

impl Spread {
    pub(crate) fn new(name: &str, shards: u32) -> Self {
        Self {
            shards: AtomicU32::new(shards),
            ring: Mutex::new(Ring::new(name.to_owned())),
            others: Mutex::default(),
            held: Mutex::default(),
            found: Mutex::default(),
            turned: Mutex::default(),
            oldest: Mutex::default(),
            known: AtomicBool::new(false),
            starting: AtomicBool::new(false),
            age: Mutex::default(),
        }
    }

    /// State, greatest claim, and shards, for statistics.
    pub(crate) fn state(&self) -> (&'static str, u32, Vec<u32>) {
        let held = self.held.lock();
        let state = match (held.is_empty(), self.known.load(Ordering::Relaxed)) {
            (false, _) => "holding",
            (true, false) => "finding",
            (true, true) if self.starting.load(Ordering::Relaxed) => "starting",
            (true, true) => "standby",
        };
        (state, held.values().copied().max().unwrap_or(0), held.keys().copied().collect())
    }

    /// Takes note of the others, and of the number of shards, as of the manifest.
    pub(crate) fn learn(&self, others: Vec<String>, starting: bool, shards: u32) {
        self.shards.store(shards, Ordering::Relaxed);
        *self.others.lock() = others;
        self.known.store(true, Ordering::Relaxed);
        self.starting.store(starting, Ordering::Relaxed);
    }

    /// Takes note of a turn of the thread of the claims.
    pub(crate) fn turn(&self, now: Duration) {
        *self.turned.lock() = Some(now);
    }

    /// Whether that thread makes no progress.
    pub(crate) fn hangs(&self, now: Duration) -> bool {
        self.turned.lock().is_some_and(|at| now.saturating_sub(at) >= HANGS)
    }

    /// Takes note of how old the rows of the store are.
    pub(crate) fn note_oldest(&self, manifest: &Manifest) {
        let first = |(shard, tiered): (&Shard, &Tiered)| {
            let page = tiered.pages.first().map(|page| page.times.1);
            let found = page.or(tiered.segments.first().map(|first| first.times.1));
            found.filter(|_| *shard != Shard::Gaps)
        };
        *self.oldest.lock() = manifest.shards.iter().filter_map(first).min();
    }

    pub(crate) fn oldest(&self) -> Option<i64> {
        *self.oldest.lock()
    }

    /// Number of shards that have rows, or may get some.
    pub(crate) fn shards(&self) -> u32 {
        self.shards.load(Ordering::Relaxed)
    }

    pub(crate) fn others(&self) -> Vec<String> {
        self.others.lock().clone()
    }

    pub(crate) fn set_age(&self, age: Option<u64>) {
        *self.age.lock() = age;
    }

    pub(crate) fn age(&self) -> Option<u64> {
        *self.age.lock()
    }

    /// Claims of the shards that are held.
    pub(crate) fn held(&self) -> BTreeMap<u32, u32> {
        self.held.lock().clone()
    }

    pub(crate) fn holds(&self, shard: u32) -> bool {
        self.held.lock().contains_key(&shard)
    }

    pub(crate) fn hold(&self, shard: u32, epoch: u32) {
        self.held.lock().insert(shard, epoch);
    }

    /// Takes note that a shard is no longer held under a claim.
    pub(crate) fn drop_shard(&self, shard: u32, epoch: u32) {
        let mut held = self.held.lock();
        if held.get(&shard) == Some(&epoch) {
            held.remove(&shard);
        }
    }

    /// Keeps rows for the log of gaps until the store has them. Of a shard that another spooler writes, that one tells.
    pub(crate) fn tell(&self, gaps: &[Gap]) {
        let held = self.held();
        let mut found = self.found.lock();
        for gap in gaps {
            let Some(epoch) = held.get(&gap.shard) else { continue };
            if found.rows.len() < MAX_GAPS {
                found.rows.push_back((gap.clone(), *epoch));
            } else {
                *found.beyond.entry(gap.shard).or_default() += gap.count.unwrap_or(0);
            }
        }
    }

    /// The oldest rows, at most so many, and the claims that they need.
    pub(crate) fn waiting(&self, most: usize) -> (Vec<Gap>, BTreeMap<Shard, u32>) {
        let mut found = self.found.lock();
        if found.rows.len() < MAX_GAPS {
            let held = self.held();
            for (shard, count) in core::mem::take(&mut found.beyond) {
                let detail = "too many gaps at once to be recorded one by one".to_owned();
                let gap = Gap { shard, kind: "gap", count: Some(count), detail, ..Gap::default() };
                found.rows.extend(held.get(&shard).map(|epoch| (gap, *epoch)));
            }
        }
        let rows = found.rows.iter().take(most);
        let claims = rows.clone().map(|(gap, epoch)| (Shard::Data(gap.shard), *epoch)).collect();
        (rows.map(|(gap, _)| gap.clone()).collect(), claims)
    }

    /// Takes note that the store has the oldest rows.
    pub(crate) fn told(&self, count: usize) {
        let mut found = self.found.lock();
        let count = count.min(found.rows.len());
        found.rows.drain(..count);
    }

    /// Drops rows about shards that another spooler has claimed: it tells what is missing.
    pub(crate) fn drop_lost(&self, manifest: &Manifest, me: &str) {
        let is_held = |gap: &Gap, epoch: u32| {
            manifest.claims.get(&Shard::Data(gap.shard)).is_some_and(|claim| claim.is_of(me, epoch))
        };
        self.found.lock().rows.retain(|(gap, epoch)| is_held(gap, *epoch));
    }

    /// Whether rows about a shard wait.
    pub(crate) fn has_rows(&self, shard: u32) -> bool {
        let found = self.found.lock();
        found.beyond.contains_key(&shard) || found.rows.iter().any(|(gap, _)| gap.shard == shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zwire_spool::tier::Sealed;
    use zwire_tier::manifest::Claim;

    fn gap(shard: u32, count: u64) -> Gap {
        Gap { shard, kind: "gap", count: Some(count), ..Gap::default() }
    }

    #[test]
    fn rows_wait_under_the_claim_with_which_they_were_found() {
        let spread = Spread::new("me", 4);
        spread.hold(0, 3);
        spread.hold(1, 5);
        spread.tell(&[gap(0, 1), gap(1, 1), gap(2, 1)]);
        let (rows, claims) = spread.waiting(10);
        assert_eq!((rows.len(), claims), (2, BTreeMap::from([(Shard::Data(0), 3), (Shard::Data(1), 5)])));
        let claim = |epoch, writer: &str| Claim { epoch, writer: writer.to_owned(), ..Claim::default() };
        let claims = [(Shard::Data(0), claim(4, "other")), (Shard::Data(1), claim(5, "me"))];
        spread.drop_lost(&Manifest { claims: claims.into(), ..Manifest::default() }, "me");
        assert!(!spread.has_rows(0) && spread.has_rows(1));
        spread.told(7);
        assert_eq!(spread.waiting(10).0, []);
    }

    #[test]
    fn rows_beyond_the_bound_count_by_shard() {
        let spread = Spread::new("me", 4);
        spread.hold(0, 1);
        spread.tell(&vec![gap(0, 1); MAX_GAPS + 5]);
        assert_eq!(spread.waiting(usize::MAX).0.len(), MAX_GAPS);
        spread.told(MAX_GAPS);
        assert_eq!(spread.waiting(1).0[0].count, Some(5));
    }

    #[test]
    fn a_thread_without_turns_hangs() {
        let spread = Spread::new("me", 4);
        assert!(!spread.hangs(HANGS), "it reads the store for the first time");
        spread.turn(HANGS);
        assert!(!spread.hangs(2 * HANGS - Duration::from_millis(1)) && spread.hangs(2 * HANGS));
    }

    #[test]
    fn the_oldest_rows_are_those_of_all_shards() {
        let of = |times: (i64, i64)| Tiered {
            segments: vec![Sealed { times, ..Sealed::default() }, Sealed::default()],
            ..Tiered::default()
        };
        let shards = [(Shard::Data(0), of((5, 9))), (Shard::Data(3), of((2, 7))), (Shard::Gaps, of((0, 1)))];
        let spread = Spread::new("me", 4);
        spread.note_oldest(&Manifest { shards: shards.into(), ..Manifest::default() });
        assert_eq!(spread.oldest(), Some(7));
    }
}
