//! Spoolers in virtual time, with the writers of a store in memory: they are killed, paused, cut off, and start again.
//!
//! The store is real but for its clock. Spoolers, their folders and the network are models: each spooler receives every
//! sample, writes those of its shards, and keeps the others until the store has them. Meanwhile a program changes the number of
//! shards, so that keys get other ones.

use super::{Plan, Pulse, Ring, SEASON, fill, shares};
use crate::{
    lease::{PATIENCE, PERIOD, RANGE, tests::Random},
    manifest::{Change, Claim, Entry, Manifest, Members},
    runtime::wait,
    store::{Store, segment_name},
    writer::TierWriter,
};
use core::{ops::Range, time::Duration};
use object_store::{ObjectStoreExt as _, memory::InMemory, path::Path as ObjectPath};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
use zwire_spool::{Layout, Meta, Rule, Shard, Wanted, layout::SAMPLES, tier::Sealed};

/// Step of the virtual time in milliseconds.
const STEP: u64 = 100;
const SHARDS: u32 = 5;
/// Keys, and most shards.
const KEYS: u32 = 12;
const MANY: u32 = 8;
/// Time within which another spooler writes the shards of one that was killed or cut off.
const TAKEOVER: u64 = 10_000;

fn meta() -> Meta {
    Wanted { layout: Layout::whole(&SAMPLES), shards: SHARDS, rule: Rule::Hash }.meta([7; 16], 0)
}

/// Number of shards over which keys are spread, and number of changes before.
fn spread_of(manifest: &Manifest) -> (u32, u32) {
    manifest.mapping.as_ref().map_or((SHARDS, 0), |mapping| (mapping.shards, mapping.generation))
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// Shard that a spooler writes.
struct Written {
    epoch: u32,
    start: u64,
    next: u64,
    /// Last number of each key that was written, and rows that the store does not have: key, number and offset.
    last: BTreeMap<u32, u64>,
    rows: Vec<(u32, u64, u64)>,
    /// Whether it is given back, and the spooler that it is on its way to.
    leaves: Option<Option<String>>,
}

/// A spooler.
struct Spooler {
    ring: Ring,
    tier: TierWriter,
    born: u64,
    pulse: u64,
    beats: u64,
    looks: u64,
    paused: u64,
    cut: u64,
    inbox: Vec<(u32, u64)>,
    /// Numbers by key that the store is not known to have.
    waiting: Vec<VecDeque<u64>>,
    shards: BTreeMap<u32, Written>,
    /// Number of shards over which it spreads keys, and number of the changes before.
    count: u32,
    generation: u32,
}

struct World {
    random: Random,
    objects: Arc<InMemory>,
    now: u64,
    spoolers: Vec<Option<Spooler>>,
    pulses: BTreeMap<String, Pulse>,
    sent: Vec<u64>,
    /// Keys and numbers in each segment, and offsets that were written.
    segments: BTreeMap<(u32, u64), Vec<(u32, u64)>>,
    used: BTreeSet<(u32, u64)>,
    /// Rows that were written and lost with a kill, or a claim of another spooler.
    lost: BTreeSet<(u32, u64)>,
    calm: u64,
    /// Time at which the last fault ends.
    settles: u64,
    free: Vec<u64>,
    takeovers: u64,
    longest: u64,
    /// The program that changes the number of shards, and the number that it asks for.
    tool: Option<TierWriter>,
    asks: Option<u32>,
    changes: u32,
}

impl World {
    fn new(seed: u64, count: usize) -> Self {
        let mut world = Self {
            random: Random(seed),
            objects: Arc::default(),
            now: 0,
            spoolers: (0..count).map(|_| None).collect(),
            pulses: BTreeMap::new(),
            sent: vec![0; KEYS as usize],
            segments: BTreeMap::new(),
            used: BTreeSet::new(),
            lost: BTreeSet::new(),
            calm: 0,
            settles: 0,
            free: vec![0; MANY as usize],
            takeovers: 0,
            longest: 0,
            tool: None,
            asks: None,
            changes: 0,
        };
        (0..count).for_each(|index| world.start(index));
        world
    }

    fn store(&self) -> Arc<Store> {
        Arc::new(Store::over(self.objects.clone(), || Duration::ZERO))
    }

    fn start(&mut self, index: usize) {
        let mut tier = TierWriter::over(self.store(), &meta()).unwrap();
        tier.enter(&meta(), 0).unwrap();
        let (count, generation) = spread_of(tier.manifest());
        self.spoolers[index] = Some(Spooler {
            ring: Ring::new(tier.name().to_owned()),
            tier,
            born: self.now,
            pulse: 0,
            beats: self.now,
            looks: self.now,
            paused: 0,
            cut: 0,
            inbox: Vec::new(),
            waiting: vec![VecDeque::new(); KEYS as usize],
            shards: BTreeMap::new(),
            count,
            generation,
        });
        self.calm = self.now;
    }

    fn lose(&mut self, written: &Written) {
        self.lost.extend(written.rows.iter().map(|(key, number, _)| (*key, *number)));
    }

    fn kill(&mut self, index: usize) {
        if let Some(spooler) = self.spoolers[index].take() {
            spooler.shards.values().for_each(|written| self.lose(written));
            // Samples that no running spooler has are lost with it, too, unless they are stored.
            let waiting = (0..KEYS).zip(&spooler.waiting);
            let waiting = waiting.flat_map(|(key, numbers)| numbers.iter().map(move |number| (key, *number)));
            for (key, number) in waiting.chain(spooler.inbox.iter().copied()) {
                let has = |other: &Spooler| {
                    other.waiting[key as usize].contains(&number) || other.inbox.contains(&(key, number))
                };
                if !self.spoolers.iter().flatten().any(has) {
                    self.lost.insert((key, number));
                }
            }
        }
        self.calm = self.now;
    }

    /// Last number of each key in a state of the store.
    fn stored(&self, manifest: &Manifest) -> BTreeMap<u32, u64> {
        let mut last = BTreeMap::new();
        for (shard, tiered) in &manifest.shards {
            let Shard::Data(shard) = shard else { continue };
            for (key, number) in tiered.segments.iter().flat_map(|each| &self.segments[&(*shard, each.base)])
            {
                let known = last.entry(*key).or_insert(*number);
                *known = (*number).max(*known);
            }
        }
        last
    }

    /// Asks for another number of shards, and looks how far the spoolers are.
    fn look_on(&mut self) {
        let Some(mut tool) = self.tool.take() else { return };
        tool.look().unwrap();
        let changes = tool.generation();
        if let Some(shards) = self.asks
            && tool.ask_shards(shards, 0).unwrap().is_some()
        {
            self.asks = None;
        }
        let waits = tool.manifest().mapping.as_ref().is_some_and(|mapping| mapping.wanted.is_some());
        if waits || changes != self.changes {
            // Shards have no spooler meanwhile.
            (self.calm, self.settles) = (self.now, self.settles.max(self.now));
            self.free.fill(self.now);
        }
        self.changes = changes;
        self.tool = Some(tool);
    }

    fn step(&mut self) {
        self.now += STEP;
        if self.now.is_multiple_of(200) {
            for key in 0..KEYS {
                let number = self.sent[key as usize];
                self.sent[key as usize] += 1;
                let there = self.spoolers.iter_mut().flatten();
                there.for_each(|spooler| spooler.inbox.push((key, number)));
            }
            self.look_on();
        }
        for index in 0..self.spoolers.len() {
            let Some(mut spooler) = self.spoolers[index].take() else { continue };
            if spooler.paused <= self.now {
                self.turn(&mut spooler);
            }
            self.spoolers[index] = Some(spooler);
        }
        self.judge();
    }

    fn turn(&mut self, spooler: &mut Spooler) {
        for (key, number) in core::mem::take(&mut spooler.inbox) {
            let shard = key % spooler.count;
            match spooler.shards.get_mut(&shard).filter(|written| written.leaves.is_none()) {
                Some(written) => self.write(shard, written, (key, number)),
                None => spooler.waiting[key as usize].push_back(number),
            }
        }
        if spooler.cut > self.now {
            return;
        }
        if self.now >= spooler.beats {
            self.beat(spooler);
        }
        if self.now >= spooler.looks {
            spooler.looks = self.now + 400 + self.random.below(200);
            self.look(spooler);
        }
    }

    fn age(&self, spooler: &Spooler) -> Duration {
        ms(self.now - spooler.born)
    }

    fn beat(&mut self, spooler: &mut Spooler) {
        spooler.beats = self.now + PERIOD.as_millis() as u64;
        spooler.pulse += 1;
        let pulse = Pulse::new(spooler.pulse, Some(self.age(spooler).as_secs()));
        self.pulses.insert(spooler.tier.name().to_owned(), pulse);
        let members = spooler.tier.manifest().members.clone().unwrap_or_default();
        for writer in members.keys().filter(|writer| *writer != spooler.tier.name()) {
            spooler.ring.hear(writer, self.pulses.get(writer).copied(), ms(self.now), ms(self.now));
        }
    }

    fn write(&mut self, shard: u32, written: &mut Written, (key, number): (u32, u64)) {
        if written.last.get(&key).is_some_and(|last| number <= *last) {
            return;
        }
        assert!(self.used.insert((shard, written.next)), "offset {} of shard {shard} twice", written.next);
        assert!(written.next < written.start + RANGE);
        written.rows.push((key, number, written.next));
        written.last.insert(key, number);
        written.next += 1;
    }

    /// Uploads the rows of a shard; `false` if another spooler has claimed it.
    fn upload(&mut self, spooler: &mut Spooler, shard: u32) -> bool {
        let Some(written) = spooler.shards.get_mut(&shard) else { return false };
        let (Some(&(_, _, base)), Some(&(_, _, last))) = (written.rows.first(), written.rows.last()) else {
            return true;
        };
        let rows = written.rows.len() as u64;
        let sealed = Sealed { base, end: last + 1, rows, bytes: rows, crc: base as u32, ..Sealed::default() };
        let place = ObjectPath::from(format!("spool/{}", segment_name(Shard::Data(shard), &sealed)));
        wait(self.objects.put(&place, "rows".into())).unwrap().unwrap();
        self.segments
            .insert((shard, base), written.rows.iter().map(|(key, number, _)| (*key, *number)).collect());
        let needs = BTreeMap::from([(Shard::Data(shard), written.epoch)]);
        let change = Change { add: vec![sealed], ..Change::default() };
        match spooler.tier.record_under(&needs, BTreeMap::from([(Shard::Data(shard), change)]), 0) {
            Ok(()) => {
                written.rows.clear();
                spooler.tier.hint().unwrap();
                spooler.tier.sweep().unwrap();
                true
            }
            Err(error) => {
                assert!(spooler.tier.is_fenced(), "{error}");
                false
            }
        }
    }

    fn look(&mut self, spooler: &mut Spooler) {
        spooler.tier.look().unwrap();
        let me = spooler.tier.name().to_owned();
        for shard in spooler.shards.keys().copied().collect::<Vec<_>>() {
            let kept = self.upload(spooler, shard);
            let written = &spooler.shards[&shard];
            let claim = spooler.tier.manifest().claims.get(&Shard::Data(shard));
            if !kept || !claim.is_some_and(|claim| claim.is_of(&me, written.epoch)) {
                let written = spooler.shards.remove(&shard).unwrap();
                self.lose(&written);
            } else if let Some(to) = &written.leaves {
                let claims = BTreeMap::from([(shard, (written.epoch, to.clone()))]);
                spooler.tier.release_shards(&claims, false, 0).unwrap();
                spooler.shards.remove(&shard);
            }
        }
        let stored = self.stored(spooler.tier.manifest());
        for (key, waiting) in (0..).zip(&mut spooler.waiting) {
            waiting.retain(|number| stored.get(&key).is_none_or(|stored| number > stored));
        }
        // Nothing of the shards before is written any more: the last entry says so.
        let (count, generation) = spread_of(spooler.tier.manifest());
        if generation != spooler.generation {
            assert!(spooler.shards.is_empty(), "{:?} are held through a change", spooler.shards.keys());
            (spooler.count, spooler.generation) = (count, generation);
        }
        let age = self.age(spooler);
        let plan = spooler.ring.plan(spooler.tier.manifest(), SHARDS, age, ms(self.now));
        for (shard, to) in &plan.release {
            if let Some(written) = spooler.shards.get_mut(shard) {
                written.leaves.get_or_insert(Some(to.clone()));
            }
        }
        if plan.closes {
            spooler
                .shards
                .values_mut()
                .filter(|written| written.leaves.is_none())
                .for_each(|written| written.leaves = Some(None));
        }
        spooler.tier.claim_shards("host", &plan, &BTreeMap::new(), 0).unwrap();
        // The answer may be lost: the next look finds the claim.
        if !plan.claim.is_empty() && self.random.chance(10) {
            return;
        }
        if spread_of(spooler.tier.manifest()).1 != spooler.generation {
            return;
        }
        for shard in 0..spooler.tier.manifest().shard_count(SHARDS) {
            let claim = spooler.tier.manifest().claims.get(&Shard::Data(shard)).cloned();
            let Some(Claim { epoch, start, .. }) =
                claim.filter(|claim| claim.writer == me && !claim.released)
            else {
                continue;
            };
            if spooler.shards.contains_key(&shard) {
                continue;
            }
            let last = self.stored(spooler.tier.manifest());
            let mut written = Written { epoch, start, next: start, last, rows: Vec::new(), leaves: None };
            for key in (0..KEYS).filter(|key| key % spooler.count == shard) {
                for number in core::mem::take(&mut spooler.waiting[key as usize]) {
                    self.write(shard, &mut written, (key, number));
                }
            }
            spooler.shards.insert(shard, written);
            self.takeovers += 1;
        }
        if plan.closes && spooler.shards.is_empty() {
            spooler.tier.close_shards(0).unwrap();
        }
    }

    /// Number of shards that have rows, or may get some.
    fn shards(&self) -> u32 {
        self.tool.as_ref().map_or(SHARDS, |tool| tool.manifest().shard_count(SHARDS))
    }

    /// How long shards have no spooler that writes them, and how many each has.
    fn judge(&mut self) {
        let now = self.now;
        let runs = |spooler: &&Spooler| spooler.paused <= now && spooler.cut <= now;
        let shards = self.shards();
        for shard in 0..shards {
            let held = self.spoolers.iter().flatten().filter(runs);
            let held = held
                .filter(|spooler| spooler.shards.get(&shard).is_some_and(|written| written.leaves.is_none()));
            if held.count() > 0 {
                self.free[shard as usize] = now;
            }
            let since = self.free[shard as usize];
            // A further fault, and a spooler that has just started, take their time.
            if self.calm <= since && self.spoolers.iter().flatten().any(|spooler| runs(&spooler)) {
                self.longest = self.longest.max(now - since);
                assert!(now - since <= TAKEOVER, "shard {shard} has no spooler for {} ms", now - since);
            }
        }
        let since = self.calm.max(self.settles);
        let settled = now.saturating_sub(since) > 2 * TAKEOVER
            && self.spoolers.iter().flatten().all(|each| runs(&each));
        if settled {
            let counts: Vec<u32> =
                self.spoolers.iter().flatten().map(|spooler| spooler.shards.len() as u32).collect();
            let count = counts.len() as u32;
            assert_eq!(counts.iter().sum::<u32>(), shards, "{counts:?} after {now} ms");
            let part = shards / count;
            assert!(counts.iter().all(|held| (part..=shards.div_ceil(count)).contains(held)), "{counts:?}");
        }
    }

    /// At least one runs: what none receives is not in the model.
    fn keep_one_running(&mut self) {
        if self.spoolers.iter().flatten().all(|each| each.paused > self.now) {
            let index = self.spoolers.iter().position(Option::is_none).unwrap_or(0);
            match &mut self.spoolers[index] {
                Some(spooler) => spooler.paused = 0,
                None => self.start(index),
            }
        }
    }

    fn fault(&mut self) {
        let index = self.random.below(self.spoolers.len() as u64) as usize;
        let kind = self.random.below(4);
        let long = self.now + 1_000 + self.random.below(20_000);
        match (&mut self.spoolers[index], kind) {
            (None, _) => self.start(index),
            (Some(_), 0 | 1) => self.kill(index),
            (Some(spooler), 2) => spooler.paused = long,
            (Some(spooler), _) => spooler.cut = long,
        }
        (self.calm, self.settles) = (self.now, self.settles.max(long));
    }

    /// Numbers of each key, as readers see them: all before a change of the shards, and then those behind it.
    fn rows(&self, manifest: &Manifest) -> BTreeMap<u32, Vec<u64>> {
        let past = manifest.mapping.iter().flat_map(|mapping| &mapping.closed);
        let mut rows: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut from: BTreeMap<u32, u64> = BTreeMap::new();
        for ends in past.map(|past| Some(&past.ends)).chain([None]) {
            for shard in 0..manifest.shard_count(SHARDS) {
                let to = ends.map_or(u64::MAX, |ends| ends.get(&shard).copied().unwrap_or(0));
                let begin = from.get(&shard).copied().unwrap_or(0);
                let segments =
                    manifest.shards.get(&Shard::Data(shard)).into_iter().flat_map(|each| &each.segments);
                for segment in segments.filter(|segment| (begin..to).contains(&segment.base)) {
                    assert!(segment.end <= to, "a segment of shard {shard} goes over the end of the shard");
                    for (key, number) in &self.segments[&(shard, segment.base)] {
                        rows.entry(*key).or_default().push(*number);
                    }
                }
                from.insert(shard, to);
            }
        }
        rows
    }

    /// Ends the faults, and compares what the store has with what was sent.
    fn finish(mut self) -> Self {
        for index in 0..self.spoolers.len() {
            match &mut self.spoolers[index] {
                Some(spooler) => (spooler.paused, spooler.cut) = (0, 0),
                None => self.start(index),
            }
        }
        (self.calm, self.settles) = (self.now, self.now);
        for _ in 0..40_000 / STEP {
            self.step();
        }
        let mut tier = TierWriter::over(self.store(), &meta()).unwrap();
        tier.enter(&meta(), 0).unwrap();
        let rows = self.rows(tier.manifest());
        for key in 0..KEYS {
            let rows = &rows[&key];
            assert!(rows.is_sorted_by(|a, b| a < b), "rows of key {key} are twice there, or out of order");
            let end = self.sent[key as usize] - 20;
            let there: BTreeSet<u64> = rows.iter().copied().collect();
            let missing: Vec<u64> = (0..end)
                .filter(|number| !there.contains(number) && !self.lost.contains(&(key, *number)))
                .collect();
            // Samples of the time before the first spooler was there, or while none ran, were not received.
            assert!(missing.is_empty(), "key {key}: {missing:?} are neither there nor lost with a spooler");
            self.lost.retain(|(lost, number)| *lost != key || !there.contains(number));
        }
        self
    }
}

#[test]
fn shards_are_spread_evenly_and_few_of_them_move() {
    let names = ["a", "b", "c", "d"];
    let mut held = BTreeMap::new();
    for count in [1, 2, 3, 4, 2, 1] {
        let takers = names[..count].iter().copied().collect();
        let given = shares(7, &held, &takers);
        let moved =
            given.iter().filter(|(shard, taker)| held.get(shard).is_some_and(|old| old != *taker)).count();
        let of = |name: &&str| given.values().filter(|taker| *taker == name).count();
        let loads: Vec<usize> = names[..count].iter().map(of).collect();
        assert!(loads.iter().all(|load| (7 / count..=7_usize.div_ceil(count)).contains(load)), "{loads:?}");
        assert!(moved <= 7_usize.div_ceil(count) * 2, "{moved} moved for {count}");
        held = given;
    }
    assert_eq!(shares(3, &held, &BTreeSet::new()), BTreeMap::new());
    // Free shards go to those that have the fewest.
    let held = BTreeMap::from([(0, "a"), (1, "a"), (2, "b")]);
    let given = fill(6, &held, &BTreeSet::from(["a", "b"]));
    let of = |name| given.values().filter(|taker| **taker == name).count();
    assert_eq!((of("a"), of("b"), given.len()), (1, 2, 3));
}

#[test]
fn a_spooler_that_was_paused_takes_nothing_before_it_has_looked_again() {
    let mut ring = Ring::new("a".to_owned());
    let claim = Claim { epoch: 1, writer: "b".to_owned(), ..Claim::default() };
    let members = Members::from(["a", "b"].map(|name| (name.to_owned(), String::new())));
    let manifest = Manifest {
        claims: BTreeMap::from([(Shard::Data(0), claim)]),
        members: Some(members),
        ..Manifest::default()
    };
    let pulse = |number| Some(Pulse::new(number, Some(60)));
    ring.hear("b", pulse(1), ms(0), ms(0));
    let later = ms(60_000);
    assert_eq!(ring.plan(&manifest, 1, 2 * SEASON, later), Plan::default());
    ring.hear("b", pulse(2), later, later);
    assert_eq!(ring.plan(&manifest, 1, 2 * SEASON, later), Plan::default());
    let still = later + PATIENCE;
    ring.hear("b", pulse(2), still, still);
    let plan = ring.plan(&manifest, 1, 2 * SEASON, still);
    assert_eq!((plan.claim, plan.gone), (BTreeMap::from([(0, 1)]), vec!["b".to_owned()]));
}

#[test]
fn spoolers_share_the_shards_through_kills_pauses_and_partitions() {
    share(0..2);
}

#[test]
#[ignore = "takes its time; `make test-long` runs it"]
fn spoolers_share_the_shards_for_many_seeds() {
    share(2..12);
}

fn share(seeds: Range<u64>) {
    let (mut takeovers, mut lost, mut longest, count) = (0, 0, 0, seeds.clone().count());
    for seed in seeds {
        let mut world = World::new(seed, 3);
        let mut next = 20_000;
        while world.now < 150_000 {
            world.step();
            if world.now >= next {
                world.fault();
                next = world.now + 1_000 + world.random.below(25_000);
            }
            world.keep_one_running();
        }
        let world = world.finish();
        (takeovers, lost, longest) =
            (takeovers + world.takeovers, lost + world.lost.len(), longest.max(world.longest));
    }
    let figures =
        format!("{takeovers} shards taken over, after at most {longest} ms; {lost} rows lost with spoolers");
    assert!(takeovers > 16 * count as u64 && lost < 400 * count && longest <= TAKEOVER, "{figures}");
}

#[test]
fn the_number_of_shards_changes_through_kills_pauses_and_partitions() {
    change(100..101);
}

#[test]
#[ignore = "takes its time; `make test-long` runs it"]
fn the_number_of_shards_changes_for_many_seeds() {
    change(101..106);
}

fn change(seeds: Range<u64>) {
    let (mut changes, mut takeovers, mut lost, count) = (0, 0, 0, seeds.clone().count());
    for seed in seeds {
        let mut world = World::new(seed, 3);
        let mut tool = TierWriter::over(world.store(), &meta()).unwrap();
        tool.enter(&meta(), 0).unwrap();
        world.tool = Some(tool);
        let (mut next, mut asks) = (30_000, 25_000);
        while world.now < 150_000 {
            world.step();
            if world.now >= next {
                world.fault();
                next = world.now + 3_000 + world.random.below(25_000);
            }
            if world.now >= asks {
                world.asks = Some(1 + world.random.below(u64::from(MANY)) as u32);
                asks = world.now + 2_000 + world.random.below(30_000);
            }
            world.keep_one_running();
        }
        let world = world.finish();
        (changes, takeovers, lost) =
            (changes + world.changes, takeovers + world.takeovers, lost + world.lost.len());
    }
    let figures = format!("{changes} changes, {takeovers} shards taken over, {lost} rows lost with spoolers");
    assert!(changes >= 2 * count as u32 && takeovers > 20 * count as u64 && lost < 1400 * count, "{figures}");
}

#[test]
fn the_number_of_shards_changes_without_a_loss_while_spoolers_run() {
    let mut world = World::new(7, 3);
    let mut tool = TierWriter::over(world.store(), &meta()).unwrap();
    tool.enter(&meta(), 0).unwrap();
    world.tool = Some(tool);
    while world.now < 120_000 {
        world.step();
        for (at, shards) in [(25_000, 8), (45_000, 2), (65_000, 7), (85_000, 1)] {
            if world.now == at {
                world.asks = Some(shards);
            }
        }
    }
    let world = world.finish();
    assert_eq!((world.changes, world.lost.len()), (4, 0));
}

#[test]
fn a_change_waits_for_shards_that_are_on_their_way_and_ends_them_in_one_entry() {
    let objects = Arc::new(InMemory::new());
    let tier = || {
        let mut tier =
            TierWriter::over(Arc::new(Store::over(objects.clone(), || Duration::ZERO)), &meta()).unwrap();
        tier.enter(&meta(), 0).unwrap();
        tier
    };
    let (mut one, mut tool) = (tier(), tier());
    let all = |generation| Plan {
        claim: (0..SHARDS).map(|shard| (shard, 0)).collect(),
        generation,
        ..Plan::default()
    };
    one.claim_shards("one", &Plan::default(), &BTreeMap::new(), 0).unwrap();
    tool.look().unwrap();
    assert_eq!(tool.ask_shards(2, 0).unwrap(), None, "shards have no spooler yet");
    // One that has just joined may lack what no shard gets meanwhile: it is not among the first that take shards.
    tier().claim_shards("new", &Plan::default(), &BTreeMap::new(), 0).unwrap();
    one.look().unwrap();
    one.claim_shards("one", &all(0), &BTreeMap::new(), 0).unwrap();
    for impossible in [0, 65] {
        assert!(tool.ask_shards(impossible, 0).is_err_and(|error| error.to_string().contains("1 to 64")));
    }
    tool.look().unwrap();
    // It would take the entry of a change for a torn one.
    let old = Pulse { reads: 3, ..Pulse::new(1, Some(60)) };
    one.store.beat(&meta().id, one.name(), old).unwrap();
    let refused = tool.ask_shards(7, 0).unwrap_err().to_string();
    assert!(refused.contains("the spooler on one is of a version that does not know changes"), "{refused}");
    one.store.beat(&meta().id, one.name(), Pulse::new(2, Some(60))).unwrap();
    assert_eq!(tool.ask_shards(SHARDS, 0).unwrap(), Some(0), "nothing changes");
    assert_eq!(tool.ask_shards(7, 0).unwrap(), Some(1));
    assert_eq!(tool.ask_shards(2, 0).unwrap(), Some(1), "the change before is not made");
    assert!(!tool.close_shards(0).unwrap(), "its spooler has the shards");
    let sealed = Sealed { base: 0, end: 3, rows: 3, ..Sealed::default() };
    let change = |sealed: &Sealed| Change { add: vec![sealed.clone()], ..Change::default() };
    let under = BTreeMap::from([(Shard::Data(1), 1)]);
    one.record_under(&under, BTreeMap::from([(Shard::Data(1), change(&sealed))]), 0).unwrap();
    one.release_shards(&(0..SHARDS).map(|shard| (shard, (1, None))).collect(), false, 0).unwrap();
    // Two try it at once: one entry makes the change, and the other writer learns of it.
    tool.look().unwrap();
    assert!(tool.close_shards(0).unwrap());
    assert!(one.close_shards(0).unwrap() && one.generation() == 1);
    let mapping = one.manifest().mapping.clone().unwrap();
    assert_eq!((mapping.shards, mapping.greatest, mapping.wanted.is_none()), (2, SHARDS, true));
    assert_eq!([0, 1].map(|changes| mapping.shards_after(changes)), [SHARDS, 2]);
    assert_eq!(mapping.closed[0].ends, BTreeMap::from([(0, 0), (1, 3), (2, 0), (3, 0), (4, 0)]));
    // A spooler that has not heard of it writes nothing, and claims nothing that it planned before.
    let late = Sealed { base: 3, end: 4, rows: 1, crc: 1, ..Sealed::default() };
    assert!(one.record_under(&under, BTreeMap::from([(Shard::Data(1), change(&late))]), 0).is_err());
    assert!(one.is_fenced());
    let again: BTreeMap<u32, u32> = (0..SHARDS).map(|shard| (shard, 1)).collect();
    let plan = |generation| Plan { claim: again.clone(), generation, ..Plan::default() };
    tool.claim_shards("tool", &plan(0), &BTreeMap::new(), 0).unwrap();
    assert!(tool.manifest().claims.values().all(|claim| claim.released));
    assert_eq!(tool.manifest().mapping.as_ref().unwrap().takers, [one.name().to_owned()]);
    one.claim_shards("one", &plan(1), &BTreeMap::new(), 0).unwrap();
    let claims = &one.manifest().claims;
    assert_eq!((claims[&Shard::Data(1)].epoch, claims[&Shard::Data(1)].start), (2, 3));
    assert!(one.manifest().mapping.as_ref().unwrap().takers.is_empty(), "each shard has a spooler");
    // Programs that do not know of it refuse the entries that have it.
    let at = ObjectPath::from(format!("spool/{}", crate::store::entry_name(one.manifest().number)));
    let entry = wait(async { objects.get(&at).await.unwrap().bytes().await.unwrap() }).unwrap();
    assert_eq!(zwire_spool::open_json(&entry).unwrap()["v"], 4);
}

#[test]
fn shards_move_between_running_spoolers_without_a_loss() {
    for seed in 0..2 {
        let mut world = World::new(seed, 1);
        world.spoolers.extend([None, None]);
        while world.now < 60_000 {
            world.step();
            if world.now == 20_000 || world.now == 30_000 {
                let index = if world.now == 20_000 { 1 } else { 2 };
                world.start(index);
            }
        }
        let world = world.finish();
        assert_eq!(world.lost.len(), 0);
        assert!(world.takeovers >= u64::from(SHARDS) + 3, "{}", world.takeovers);
    }
}

#[test]
fn an_entry_of_a_spooler_that_has_lost_its_shard_is_refused() {
    let objects = Arc::new(InMemory::new());
    let tier = || {
        let mut tier =
            TierWriter::over(Arc::new(Store::over(objects.clone(), || Duration::ZERO)), &meta()).unwrap();
        tier.enter(&meta(), 0).unwrap();
        tier
    };
    let (mut first, mut second) = (tier(), tier());
    let plan = |claim: &[(u32, u32)]| Plan { claim: claim.iter().copied().collect(), ..Plan::default() };
    first.claim_shards("one", &plan(&[(0, 0), (1, 0)]), &BTreeMap::new(), 0).unwrap();
    second.claim_shards("two", &plan(&[(0, 1), (1, 7)]), &BTreeMap::new(), 0).unwrap();
    let claims = &second.manifest().claims;
    assert_eq!((claims[&Shard::Data(0)].epoch, claims[&Shard::Data(0)].start), (2, RANGE));
    assert_eq!(claims[&Shard::Data(1)].writer, first.name(), "its last claim was another one");
    let crc = core::cell::Cell::new(0);
    let change = |base: u64| {
        crc.set(crc.get() + 1);
        let sealed = Sealed { base, end: base + 1, rows: 1, crc: crc.get(), ..Sealed::default() };
        Change { add: vec![sealed], ..Change::default() }
    };
    let under = |shard| BTreeMap::from([(Shard::Data(shard), 1)]);
    let refused = first.record_under(&under(0), BTreeMap::from([(Shard::Data(0), change(0))]), 0);
    assert!(refused.is_err_and(|error| error.to_string().contains("shard 0 over with claim 2")));
    assert!(first.is_fenced());
    // The other shard is still its own, and its rows of the log of gaps are told under that claim alone.
    first.record_under(&under(1), BTreeMap::from([(Shard::Data(1), change(0))]), 0).unwrap();
    assert!(!first.is_fenced());
    let gaps = |tier: &mut TierWriter, needs| {
        tier.record_under(&needs, BTreeMap::from([(Shard::Gaps, change(0))]), 0)
    };
    assert!(gaps(&mut first, under(0)).is_err());
    gaps(&mut first, under(1)).unwrap();
    let late = gaps(&mut second, BTreeMap::from([(Shard::Data(0), 2)]));
    assert!(late.is_err() && second.is_overtaken(), "its offsets are taken");
    first.release_shards(&BTreeMap::from([(1, (1, None))]), true, 0).unwrap();
    let left = first.manifest();
    assert!(
        left.claims[&Shard::Data(1)].released && left.members.as_ref().is_some_and(|left| left.len() == 1)
    );
    let entry = first.manifest().number;
    assert!(entry > 5 && Entry::default().members.is_none());
    // A writer of the other kind does not get in.
    let mut alone =
        TierWriter::over(Arc::new(Store::over(objects.clone(), || Duration::ZERO)), &meta()).unwrap();
    assert!(alone.begin(&meta(), 0).is_err_and(|error| error.to_string().contains("with spread alone")));
}

#[test]
fn a_last_entry_that_has_arrived_torn_is_mended_by_a_spooler_that_starts() {
    let objects = Arc::new(InMemory::new());
    let tier =
        || TierWriter::over(Arc::new(Store::over(objects.clone(), || Duration::ZERO)), &meta()).unwrap();
    let mut first = tier();
    first.enter(&meta(), 0).unwrap();
    let plan = Plan { claim: BTreeMap::from([(0, 0)]), ..Plan::default() };
    first.claim_shards("first", &plan, &BTreeMap::new(), 0).unwrap();
    let at = ObjectPath::from(format!("spool/{}", crate::store::entry_name(first.manifest().number)));
    wait(async {
        let entry = objects.get(&at).await.unwrap().bytes().await.unwrap();
        objects.put(&at, entry.slice(..entry.len() / 2).into()).await.unwrap();
    })
    .unwrap();
    let read = || Store::over(objects.clone(), || Duration::ZERO).check_kind(&meta().id, true);
    assert!(read().is_err(), "readers see no entry behind it");
    let mut second = tier();
    second.enter(&meta(), 0).unwrap();
    assert!(second.manifest().claims.is_empty(), "the claim was torn");
    read().unwrap();
    second.look().unwrap();
    second.claim_shards("second", &plan, &BTreeMap::new(), 0).unwrap();
    assert_eq!(second.manifest().claims[&Shard::Data(0)].writer, second.name());
}

#[test]
fn an_entry_of_a_later_program_is_not_taken_for_a_torn_one() {
    let objects = Arc::new(InMemory::new());
    let tier =
        || TierWriter::over(Arc::new(Store::over(objects.clone(), || Duration::ZERO)), &meta()).unwrap();
    let mut first = tier();
    first.enter(&meta(), 0).unwrap();
    let at = ObjectPath::from(format!("spool/{}", crate::store::entry_name(2)));
    let later = zwire_spool::seal_json(serde_json::json!({ "v": 5 }));
    wait(objects.put(&at, later.clone().into())).unwrap().unwrap();
    let is_refused = |done: zwire_spool::Result<()>| {
        done.is_err_and(|error| error.to_string().contains("has version 5, this program knows 1 to 4"))
    };
    assert!(is_refused(first.claim_shards("first", &Plan::default(), &BTreeMap::new(), 0)));
    assert!(is_refused(first.look()) && is_refused(tier().enter(&meta(), 0)));
    let there = wait(async { objects.get(&at).await.unwrap().bytes().await.unwrap() }).unwrap();
    assert_eq!(there, later, "it was replaced");
}
