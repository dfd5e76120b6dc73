//! Replicas in virtual time: partitions, losses, clocks that differ, restarts and wiped volumes, by seeds.

use super::{Folder, delete, key, model, put};
use crate::{
    Disk, Memory,
    place::{Place, Span},
    replication::{
        ReplicaSettings,
        answer::Source,
        log::EventLog,
        logged::LoggedTable,
        pull::{Pull, Rejected, Sink},
        wire::{Action, AlignQuery, AlignReply, Digest, EventMeta},
    },
    rules::{self, Mark, Outcome, Update, Value},
    volume::{Reach, Store},
    wildcards::Wildcards,
};
use core::time::Duration;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use zwire_proto::zenoh::{Ntp64, Timestamp, ZenohId};

/// Short intervals, so that each era has events; no multiple of their parts.
const SETTINGS: ReplicaSettings = ReplicaSettings {
    interval: Duration::from_secs(1),
    sub_intervals: 3,
    hot: 2,
    warm: 3,
    delay: Duration::from_millis(100),
};

const START: Duration = Duration::from_secs(1_700_000_000);
const DRIFT: Duration = Duration::from_millis(500);

/// Random numbers out of a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

struct Replica {
    store: Box<dyn Store>,
    wildcards: Wildcards,
    log: RwLock<EventLog>,
    place: Place,
    id: u128,
    /// Clock compared with the true time, in milliseconds.
    skew: i64,
    /// Last time of the own clock: it is a hybrid one.
    last: Ntp64,
    next_digest: Duration,
    rejected: Rejected,
    /// Updates that came, with the times under which they were applied.
    seen: Vec<Update>,
}

impl Replica {
    fn new(store: Box<dyn Store>, id: u128, skew: i64) -> Self {
        let place = Place::new(key("**"), None).unwrap();
        let log = EventLog::new(SETTINGS, SETTINGS.fingerprint(&place));
        let wildcards = Wildcards::new(store.wildcards().unwrap());
        let mut replica = Self {
            store,
            wildcards,
            log: RwLock::new(log),
            place,
            id,
            skew,
            last: Ntp64(0),
            next_digest: Duration::ZERO,
            rejected: Rejected::default(),
            seen: Vec::new(),
        };
        replica.fill();
        replica
    }

    fn fill(&mut self) {
        let (log, wildcards) = (self.log.get_mut(), &self.wildcards);
        self.store.change(Reach::Visible, &mut |table| log.fill(table, wildcards.iter())).unwrap();
    }

    fn clock(&self, now: Duration) -> Duration {
        let skew = Duration::from_millis(self.skew.unsigned_abs());
        if self.skew < 0 { now - skew } else { now + skew }
    }

    fn stamp(&mut self, now: Duration) -> Timestamp {
        let time = Ntp64::from_duration(self.clock(now)).unwrap().max(Ntp64(self.last.0 + 1));
        self.last = time;
        Timestamp { time, id: ZenohId::new(self.id).unwrap() }
    }

    fn apply(&mut self, update: &Update) -> Outcome {
        let (log, wildcards, place) = (self.log.get_mut(), &mut self.wildcards, &self.place);
        let mut outcome = None;
        self.store
            .change(Reach::Visible, &mut |table| {
                let mut table = LoggedTable::new(table, log);
                outcome = Some(rules::apply(&mut table, wildcards, place, update)?);
                Ok(())
            })
            .unwrap();
        outcome.unwrap()
    }

    /// Takes a publication as a storage does: one from the future gets the present time.
    fn hear(&mut self, mut update: Update, now: Duration) {
        if update.stamp.time > Ntp64::from_duration(self.clock(now) + DRIFT).unwrap() {
            update.stamp = self.stamp(now);
        }
        self.apply(&update);
        self.seen.push(update);
    }

    fn present(&self, now: Duration) -> u64 {
        SETTINGS.interval_of(self.clock(now))
    }

    fn digest(&self, now: Duration) -> Digest {
        self.log.read().digest(self.present(now))
    }

    /// Fetches what another replica has, over octets, until the replies end or the link is cut.
    fn pull(&mut self, other: &Self, now: Duration, first: Pull, mut survives: impl FnMut() -> bool) -> Pull {
        let mut pull = first;
        let zid = format!("{:x}", other.id);
        while let Some(query) = pull.next_query() {
            if !survives() {
                break;
            }
            let query = AlignQuery::decode(&query.encode()).unwrap();
            let source = Source {
                log: &other.log,
                store: &*other.store,
                present: other.present(now),
                zid: &zid,
                goes_on: &|| true,
            };
            let mut replies = Vec::new();
            source
                .answer(query, &mut |reply, value| {
                    replies.push((reply.encode(), value));
                    Ok(())
                })
                .unwrap();
            let mut updates = Vec::new();
            for (reply, value) in replies {
                let reply = AlignReply::decode(&reply).unwrap();
                let sink = self.sink(now);
                // The attachment travels with the event.
                let value = Value { attachment: None, ..value.unwrap_or_default() };
                pull.take(reply, value, &sink, &mut |update| {
                    updates.push(update);
                    Ok(())
                })
                .unwrap();
            }
            for update in &updates {
                self.apply(update);
            }
        }
        self.rejected.strange += pull.rejected.strange;
        self.rejected.ahead += pull.rejected.ahead;
        pull
    }

    fn sink(&self, now: Duration) -> Sink<'_> {
        Sink {
            log: &self.log,
            store: &*self.store,
            place: &self.place,
            oldest: Ntp64(0),
            latest: Ntp64::from_duration(self.clock(now) + DRIFT).unwrap(),
        }
    }

    fn take_digest(&mut self, other: &Self, digest: &Digest, now: Duration, survives: impl FnMut() -> bool) {
        let digest = Digest::decode(&digest.encode()).unwrap();
        let difference = self.log.read().difference(&digest, self.present(now));
        self.pull(other, now, Pull::new(difference), survives);
    }

    fn contents(&self) -> BTreeMap<String, (Value, Timestamp)> {
        let (mut all, mut after) = (BTreeMap::new(), None::<String>);
        loop {
            let page = self.store.page(&Span::default(), after.as_deref(), &|_| true).unwrap();
            all.extend(page.found.into_iter().map(|found| (found.key, (found.value, found.stamp))));
            match page.next {
                Some(next) => after = Some(next),
                None => return all,
            }
        }
    }
}

/// Both of a pair of replicas.
fn pair(all: &mut [Replica], one: usize, other: usize) -> (&mut Replica, &mut Replica) {
    let [one, other] = all.get_disjoint_mut([one, other]).unwrap();
    (one, other)
}

const KEYS: [&str; 6] = ["a", "b", "c/a", "c/b", "d/e/f", "g"];
const WILD: [&str; 4] = ["**", "*", "c/*", "**/a"];

fn some_update(dice: &mut Dice, number: u64, stamp: Timestamp) -> Update {
    let is_wild = dice.roll(8) == 0;
    let text = if is_wild { WILD[dice.roll(4) as usize] } else { KEYS[dice.roll(6) as usize] };
    let update = if dice.roll(4) == 0 { delete(text, 1) } else { put(text, &number.to_string(), 1) };
    Update { stamp, ..update }
}

/// Differences that are left, and what the run was like.
struct Report {
    differences: usize,
    pulls: u64,
    ahead: u64,
}

/// Runs some replicas for half a minute with faults, then without until they agree.
fn run(seed: u64, with_wipes: bool) -> Report {
    const STEP: Duration = Duration::from_millis(50);
    let mut dice = Dice(seed);
    let count = 2 + dice.roll(3) as usize;
    let mut all: Vec<Replica> = (0..count)
        .map(|number| {
            let skew = dice.roll(4001) as i64 - 2000;
            Replica::new(Box::new(Memory::default()), number as u128 + 1, skew)
        })
        .collect();
    // Publications on their way: when they come, to which replica, what.
    let mut flying: Vec<(Duration, usize, Update)> = Vec::new();
    let mut groups = vec![0; count];
    let (mut number, mut pulls) = (0, 0);
    let (mut now, faults) = (START, START + Duration::from_secs(30));
    // The clocks differ by up to four seconds, so that an event is in the future of others for a while.
    let end = faults + Duration::from_secs(14);
    while now < end {
        now += STEP;
        let faulty = now < faults;
        if !faulty {
            groups.fill(0);
        } else if dice.roll(60) == 0 {
            groups.iter_mut().for_each(|group| *group = dice.roll(2));
        }
        if faulty && dice.roll(3) == 0 {
            let from = dice.roll(count as u64) as usize;
            number += 1;
            let stamp = all[from].stamp(now);
            let update = some_update(&mut dice, number, stamp);
            for to in 0..count {
                let is_lost = to != from && (groups[to] != groups[from] || dice.roll(10) == 0);
                if !is_lost {
                    let delay = if to == from { 0 } else { dice.roll(400) };
                    flying.push((now + Duration::from_millis(delay), to, update.clone()));
                }
            }
        }
        let (due, later) = flying.into_iter().partition(|(at, ..)| *at <= now);
        flying = later;
        for (_, to, update) in Vec::from_iter::<Vec<_>>(due) {
            all[to].hear(update, now);
        }
        if faulty && dice.roll(100) == 0 {
            let which = dice.roll(count as u64) as usize;
            if with_wipes && dice.roll(2) == 0 {
                all[which] = Replica::new(Box::new(Memory::default()), which as u128 + 1, all[which].skew);
            } else {
                // What a restart reads is what the changes have left.
                let before = all[which].digest(now + Duration::from_secs(100));
                all[which].fill();
                assert_eq!(before, all[which].digest(now + Duration::from_secs(100)), "seed {seed}");
            }
        }
        for from in 0..count {
            let clock = all[from].clock(now);
            if clock < all[from].next_digest {
                continue;
            }
            all[from].next_digest = clock + SETTINGS.interval;
            let digest = all[from].digest(now);
            for to in (0..count).filter(|to| *to != from) {
                if faulty && (groups[to] != groups[from] || dice.roll(5) == 0) {
                    continue;
                }
                pulls += 1;
                let (one, other) = pair(&mut all, to, from);
                one.take_digest(other, &digest, now, || !faulty || dice.roll(20) != 0);
            }
        }
    }
    let expected = all[0].contents();
    let mut differences = 0;
    for other in &all[1..] {
        let contents = other.contents();
        differences += expected.iter().filter(|(key, value)| contents.get(*key) != Some(*value)).count();
        differences += contents.keys().filter(|key| !expected.contains_key(*key)).count();
    }
    for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
        let digest = all[from].digest(now);
        let difference = all[to].log.read().difference(&digest, all[to].present(now));
        differences += usize::from(!difference.is_empty());
    }
    if !with_wipes {
        let updates: Vec<Update> = all.iter().flat_map(|replica| replica.seen.clone()).collect();
        for name in KEYS {
            let known = expected.get(name).map(|(value, stamp)| {
                (String::from_utf8(value.payload.to_vec()).unwrap(), stamp.time.0 >> 32)
            });
            differences += usize::from(known != model(&updates, name));
        }
    }
    assert!(all.iter().all(|replica| replica.rejected.strange == 0), "seed {seed}");
    Report { differences, pulls, ahead: all.iter().map(|replica| replica.rejected.ahead).sum() }
}

/// Seeds of a run of the tests: `ZWIRE_REPLICA_SEED` names one, `ZWIRE_REPLICA_SEEDS` their number.
fn seeds() -> core::ops::Range<u64> {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match given("ZWIRE_REPLICA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..given("ZWIRE_REPLICA_SEEDS").unwrap_or(100),
    }
}

#[test]
fn replicas_agree_after_faults() {
    let mut ahead = 0;
    for seed in seeds() {
        for with_wipes in [false, true] {
            let report = run(seed, with_wipes);
            assert_eq!(report.differences, 0, "ZWIRE_REPLICA_SEED={seed} wipes={with_wipes}");
            assert!(report.pulls > 25, "seed {seed}: {} pulls", report.pulls);
            ahead += report.ahead;
        }
    }
    // Clocks were far enough apart to matter.
    assert!(ahead > 0 || seeds().count() == 1);
}

/// Number of fetches in which an empty replica gets all keys of a full one.
fn fill_empty(keys: u64, at: impl Fn(u64) -> Duration, store: Box<dyn Store>) -> (usize, Replica) {
    let mut full = Replica::new(Box::new(Memory::default()), 1, 0);
    let now = START + Duration::from_secs(3600);
    for number in 0..keys {
        let stamp = full.stamp(at(number));
        full.apply(&Update { stamp, ..put(&format!("k/{number}"), "x", 1) });
    }
    let stamp = full.stamp(START + Duration::from_secs(1000));
    full.apply(&Update { stamp, ..put("k/7", "hidden", 1) });
    let stamp = full.stamp(START + Duration::from_secs(1001));
    full.apply(&Update { stamp, ..put("k/1/*", "wild", 1) });
    let mut empty = Replica::new(store, 2, 0);
    for round in 1.. {
        let everything = empty.log.read().everything(empty.present(now));
        let pull = empty.pull(&full, now, Pull::new(everything), || true);
        if !pull.is_cut() {
            assert!(empty.contents() == full.contents());
            assert_eq!(empty.digest(now), full.digest(now));
            assert_eq!(empty.log.read().len() as u64, keys + 1);
            return (round, full);
        }
    }
    unreachable!("the loop has no end");
}

#[test]
fn an_empty_replica_gets_everything_in_bounded_parts() {
    let folder = Folder::new();
    let disk = Box::new(Disk::open(&folder, 1 << 20).unwrap());
    // More in one part of an interval than one fetch remembers.
    let (rounds, full) = fill_empty(70_000, |_| START, disk);
    assert_eq!(rounds, 2);
    // A volume that was opened again has the same events.
    let again = Replica::new(Box::new(Disk::open(&folder, 1 << 20).unwrap()), 2, 0);
    let now = START + Duration::from_secs(3600);
    assert_eq!(again.digest(now), full.digest(now));
}

#[test]
#[ignore = "half a minute: part of `make test-rust-long`"]
fn a_million_keys_reach_an_empty_replica() {
    let at = |number: u64| START + Duration::from_micros(number * 100);
    let (rounds, _) = fill_empty(1_000_000, at, Box::new(Memory::default()));
    assert_eq!(rounds, 1);
}

#[test]
fn a_value_comes_with_its_encoding_and_attachment() {
    let (mut one, mut other) =
        (Replica::new(Box::new(Memory::default()), 1, 0), Replica::new(Box::new(Memory::default()), 2, 0));
    let mut update = put("a", "1", 1);
    if let Some(value) = &mut update.value {
        value.attachment = Some(b"note".as_slice().into());
        value.encoding = zwire_proto::zenoh::Encoding::from_text("text/plain;x");
    }
    one.apply(&update);
    let digest = one.digest(START);
    other.take_digest(&one, &digest, START, || true);
    assert_eq!(other.contents(), one.contents());
}

#[test]
fn events_of_the_future_and_of_other_places_are_not_taken() {
    let mut one = Replica::new(Box::new(Memory::default()), 1, 0);
    one.place = Place::new(key("demo/**"), Some(key("demo"))).unwrap();
    let stamp = |seconds: u64| Timestamp {
        time: Ntp64::from_duration(START + Duration::from_secs(seconds)).unwrap(),
        id: ZenohId::new(9).unwrap(),
    };
    let event =
        |key: &str, seconds, action| EventMeta { key: key.into(), stamp: stamp(seconds), own: None, action };
    let wild = |text: &str| Action::WildcardDelete(text.into());
    let events = vec![
        event("a", 2_000_000_000, Action::Put),
        event("a", 1, Action::Delete),
        event("b*", 0, Action::Put),
        event("b//c", 0, Action::Delete),
        event("other/**", 0, wild("other/**")),
        event("demo/**", 0, wild("other/**")),
        event("demo/x", 0, wild("demo/x")),
        event("fine", 0, Action::Put),
    ];
    let mut pull = Pull::default();
    let mut updates = 0;
    pull.take(AlignReply::EventsMetadata(events), Value::default(), &one.sink(START), &mut |_| {
        updates += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(updates, 0);
    assert_eq!((pull.rejected.ahead, pull.rejected.strange), (2, 5));
    let Some(AlignQuery::Events(asked)) = pull.next_query() else { panic!("nothing is asked for") };
    assert_eq!(asked.iter().map(|event| &*event.key).collect::<Vec<_>>(), ["fine"]);
    assert_eq!(pull.next_query(), None);
}

#[test]
fn forgotten_deletes_do_not_come_back() {
    let (mut one, mut other) =
        (Replica::new(Box::new(Memory::default()), 1, 0), Replica::new(Box::new(Memory::default()), 2, 0));
    for text in ["a", "b/**"] {
        let stamp = one.stamp(START);
        one.apply(&Update { stamp, ..delete(text, 1) });
    }
    let now = START + Duration::from_secs(60);
    let everything = other.log.read().everything(other.present(now));
    let mut pull = Pull::new(everything);
    let (source, oldest) = (
        Source { log: &one.log, store: &*one.store, present: one.present(now), zid: "1", goes_on: &|| true },
        Ntp64::from_duration(START + Duration::from_secs(30)).unwrap(),
    );
    let sink = Sink { oldest, ..other.sink(now) };
    let mut updates = 0;
    while let Some(query) = pull.next_query() {
        source
            .answer(query, &mut |reply, _| {
                pull.take(reply, Value::default(), &sink, &mut |_| {
                    updates += 1;
                    Ok(())
                })
            })
            .unwrap();
    }
    assert_eq!(updates, 0);
    let digest = one.digest(now);
    other.take_digest(&one, &digest, now, || true);
    assert_eq!(other.digest(now), digest);
}

/// A million parts without events took a search through the interval each.
#[test]
fn an_answer_skips_parts_without_events_and_ends_in_time() {
    let mut one = Replica::new(Box::new(Memory::default()), 1, 0);
    for number in 0..3000 {
        let stamp = one.stamp(START);
        one.apply(&Update { stamp, ..put(&format!("k{number}"), "x", 1) });
    }
    let lost = one.stamp(START);
    let (now, interval) = (START + Duration::from_secs(60), SETTINGS.interval_of(START));
    let steps = core::cell::Cell::new(0);
    let answer = |query: AlignQuery, most: usize| {
        steps.set(0);
        let goes_on = || {
            steps.set(steps.get() + 1);
            steps.get() <= most
        };
        let (log, store, present) = (&one.log, &*one.store, one.present(now));
        let (mut count, mut pages) = (0, 0);
        let done =
            Source { log, store, present, zid: "1", goes_on: &goes_on }.answer(query, &mut |reply, _| {
                pages += 1;
                if let AlignReply::EventsMetadata(events) = reply {
                    count += events.len();
                }
                Ok(())
            });
        (done.is_ok(), pages, count)
    };
    let parts = |parts| AlignQuery::SubIntervals([(interval, parts)].into());
    assert_eq!(answer(parts((0..1000).collect()), usize::MAX), (true, 6, 3000));
    assert_eq!(answer(parts((1000..1_000_000).collect()), usize::MAX), (true, 0, 0));
    // No query goes on when the time is over, whether it gives replies or not.
    let lost = EventMeta { key: "lost".into(), stamp: lost, own: None, action: Action::Put };
    let everything = one.log.read().everything(one.present(now));
    for query in [
        AlignQuery::All,
        AlignQuery::Diff(everything),
        AlignQuery::Intervals((1000..2000).collect()),
        parts((0..1000).collect()),
        parts((1000..2000).collect()),
        AlignQuery::Events(vec![lost; 100]),
    ] {
        assert!(!answer(query.clone(), 1).0, "{query:?}");
        assert_eq!(steps.get(), 2);
        assert!(answer(query, usize::MAX).0);
    }
}

#[test]
fn events_that_the_volume_has_lost_leave_the_log() {
    let mut one = Replica::new(Box::new(Memory::default()), 1, 0);
    let stamp = one.stamp(START);
    one.apply(&Update { stamp, ..put("kept", "x", 1) });
    // As after another program has removed one file and replaced another.
    let (lost, replaced) = (one.stamp(START), one.stamp(START));
    let right = one.digest(START + Duration::from_secs(60));
    one.log.write().add("lost", &Mark::Gone(lost));
    one.log.write().add("kept", &Mark::Gone(replaced));
    one.log.write().drop_key("kept", &Mark::Gone(stamp));
    let now = START + Duration::from_secs(60);
    assert_ne!(one.digest(now), right);
    let source =
        Source { log: &one.log, store: &*one.store, present: one.present(now), zid: "1", goes_on: &|| true };
    let mut replies = 0;
    source
        .answer(AlignQuery::All, &mut |_, _| {
            replies += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(one.digest(now), right);
    assert!(replies <= 1, "none of an event that the volume does not have");
}

#[test]
fn a_reply_with_long_keys_stays_small() {
    let mut one = Replica::new(Box::new(Memory::default()), 1, 0);
    for number in 0..500 {
        let stamp = one.stamp(START);
        one.apply(&Update { stamp, ..put(&format!("{number}/{}", "k".repeat(60_000)), "x", 1) });
    }
    let now = START + Duration::from_secs(60);
    let (log, store, present) = (&one.log, &*one.store, one.present(now));
    let source = Source { log, store, present, zid: "1", goes_on: &|| true };
    let (mut most, mut count) = (0, 0);
    let parts = [(SETTINGS.interval_of(START), (0..4).collect())].into();
    source
        .answer(AlignQuery::SubIntervals(parts), &mut |reply, _| {
            most = most.max(reply.encode().len());
            let AlignReply::EventsMetadata(events) = reply else { panic!("a reply without events") };
            count += events.len();
            Ok(())
        })
        .unwrap();
    assert_eq!(count, 500);
    assert!(most < 2 << 20, "{most}");
}

#[test]
fn clocks_that_differ_ask_for_no_cold_intervals() {
    let mut one = Replica::new(Box::new(Memory::default()), 1, 2000);
    let mut other = Replica::new(Box::new(Memory::default()), 2, -2000);
    for step in 0..400 {
        let now = START + Duration::from_millis(step * 100);
        let stamp = other.stamp(now);
        let update = Update { stamp, ..put(&format!("k{step}"), "x", 1) };
        one.apply(&update);
        other.apply(&update);
        for (from, to) in [(&one, &other), (&other, &one)] {
            let difference = to.log.read().difference(&from.digest(now), to.present(now));
            assert!(difference.is_empty(), "{step}: {difference:?}");
        }
    }
}
