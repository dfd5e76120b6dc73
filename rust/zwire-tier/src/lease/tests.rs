//! Spoolers in virtual time, on a store that is slow, cut off, and carries out calls after they have failed.
//!
//! The recorder and the manifest are models: each entry of the list that is the manifest can be created once.

use super::{Answer, Author, Beat, Event, HESITATION, Lease, LeaseObject, PATIENCE, PERIOD, Record, Request};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Step of the virtual time in milliseconds.
const STEP: u64 = 20;
/// Time after which a call fails.
const TIMEOUT: u64 = 3_000;
/// Offsets that an epoch uses beyond the manifest.
const RANGE: u64 = 1_000_000;

/// Random numbers (splitmix64), the same for a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// ModelEntry of the manifest: rows from an offset on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ModelEntry {
    epoch: u32,
    writer: String,
    base: u64,
    rows: Vec<u64>,
}

/// Call of the store.
#[derive(Clone, Debug)]
enum Call {
    Lease(Request),
    /// Creates the entry behind so many.
    Append(usize, ModelEntry),
}

#[derive(Clone, Debug)]
enum Reply {
    Lease(Answer),
    /// Entries from the number on: the own one if it was created.
    Entries(Vec<ModelEntry>),
    Failed,
}

/// A call on its way. It arrives at a time, also after its caller has given up or has ended.
#[derive(Debug)]
struct Flight {
    node: usize,
    life: u64,
    call: Call,
    arrives: Option<u64>,
    reply: Option<Reply>,
    answered: u64,
}

#[derive(Default)]
struct ModelStore {
    objects: BTreeMap<LeaseObject, Record>,
    manifest: Vec<ModelEntry>,
    /// The first entry of the manifest that has a row.
    first: BTreeMap<u64, usize>,
}

impl ModelStore {
    fn append(&mut self, entry: ModelEntry) {
        for row in &entry.rows {
            self.first.entry(*row).or_insert(self.manifest.len());
        }
        self.manifest.push(entry);
    }

    fn call(&mut self, call: &Call) -> Reply {
        match call {
            Call::Lease(Request::Get(object)) => {
                Reply::Lease(Answer::Found(self.objects.get(object).cloned()))
            }
            Call::Lease(Request::Create(object, record)) => {
                if self.objects.contains_key(object) {
                    return Reply::Lease(Answer::Exists);
                }
                self.objects.insert(*object, record.clone());
                Reply::Lease(Answer::Done)
            }
            Call::Lease(Request::Put(object, record)) => {
                self.objects.insert(*object, record.clone());
                Reply::Lease(Answer::Done)
            }
            Call::Append(number, entry) => {
                if self.manifest.len() == *number {
                    self.append(entry.clone());
                }
                Reply::Entries(self.manifest[*number..].to_vec())
            }
        }
    }
}

/// What a node writes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Role {
    Standby,
    /// Adds an entry of its epoch to the manifest.
    Claimed(u32, Option<Vec<u64>>),
    /// Creates its start.
    Starting(u32),
    Writing(u32),
}

/// A spooler.
struct Node {
    lease: Lease,
    author: Author,
    life: u64,
    dead_until: u64,
    paused_until: u64,
    cut_until: u64,
    /// Clock: a wrong time, and the length of its seconds in thousandths.
    clock: (u64, u64),
    role: Role,
    /// Entries of the manifest that it knows.
    known: usize,
    /// Rows that it has heard and that the manifest does not have: as a standby, and as a writer.
    heard: Vec<u64>,
    next: u64,
    append_due: u64,
    busy: (bool, bool),
}

struct World {
    random: Random,
    now: u64,
    store: ModelStore,
    nodes: Vec<Node>,
    flights: Vec<Flight>,
    lives: u64,
    /// Rows that a node has heard and lost, because it has ended, or was a writer that lost the lease.
    excused: BTreeSet<(usize, u64)>,
    heard: BTreeSet<(usize, u64)>,
    rows: u64,
    /// Offsets that epochs have used, also those that came into no manifest.
    used: BTreeMap<u32, (u64, u64)>,
    /// Times at which a node began to write.
    held: Vec<(u64, usize, u32)>,
    rough: bool,
}

impl World {
    fn new(seed: u64, count: usize, rough: bool) -> Self {
        let mut world = Self {
            random: Random(seed),
            now: 1_000,
            store: ModelStore::default(),
            nodes: Vec::new(),
            flights: Vec::new(),
            lives: 0,
            excused: BTreeSet::new(),
            heard: BTreeSet::new(),
            rows: 0,
            used: BTreeMap::new(),
            held: Vec::new(),
            rough,
        };
        for _ in 0..count {
            let node = world.node();
            world.nodes.push(node);
        }
        world
    }

    /// A spooler that starts now: its number is new, and it has read the manifest.
    fn node(&mut self) -> Node {
        self.lives += 1;
        let author = Author { writer: self.lives.to_string(), host: String::new() };
        let clock = (self.random.below(1 << 40), 950 + self.random.below(100));
        let now = Duration::from_millis(clock.0 + self.now * clock.1 / 1000);
        let base = self.store.manifest.last().map_or(0, |entry| entry.epoch);
        Node {
            lease: Lease::new(author.clone(), base, now),
            author,
            life: self.lives,
            dead_until: 0,
            paused_until: 0,
            cut_until: 0,
            clock,
            role: Role::Standby,
            known: self.store.manifest.len(),
            heard: Vec::new(),
            next: 0,
            append_due: 0,
            busy: (false, false),
        }
    }

    fn time(&self, node: usize) -> Duration {
        let clock = self.nodes[node].clock;
        Duration::from_millis(clock.0 + self.now * clock.1 / 1000)
    }

    fn send(&mut self, node: usize, call: Call) {
        let mut arrives = Some(self.now + self.random.below(150));
        let mut answered = arrives.unwrap_or(0) + self.random.below(150);
        if self.now < self.nodes[node].cut_until {
            (arrives, answered) = (None, self.now + TIMEOUT);
        } else if self.rough && self.random.chance(4) {
            // It fails, and is carried out all the same: at once, or much later.
            arrives = self.random.chance(70).then(|| self.now + self.random.below(20_000));
            answered = self.now + TIMEOUT;
        }
        let late = arrives.is_some_and(|at| at > answered) || answered == self.now + TIMEOUT;
        let reply = (late || arrives.is_none()).then_some(Reply::Failed);
        let life = self.nodes[node].life;
        self.flights.push(Flight { node, life, call, arrives, reply, answered });
    }

    /// The node loses what it has heard.
    fn forget(&mut self, node: usize) {
        let heard = core::mem::take(&mut self.nodes[node].heard);
        self.excused.extend(heard.into_iter().map(|row| (node, row)));
    }

    fn lose(&mut self, node: usize) {
        if matches!(self.nodes[node].role, Role::Writing(_)) {
            self.forget(node);
        }
        self.nodes[node].role = Role::Standby;
    }

    fn kill(&mut self, node: usize, until: u64) {
        self.forget(node);
        self.nodes[node] = self.node();
        self.nodes[node].dead_until = until;
        // It reads the manifest when it starts.
        self.nodes[node].known = usize::MAX;
    }

    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        let mut arriving: Vec<usize> = (0..self.flights.len())
            .filter(|&at| self.flights[at].arrives.is_some_and(|t| t <= now))
            .collect();
        arriving.sort_by_key(|&at| self.flights[at].arrives);
        for at in arriving {
            let flight = &mut self.flights[at];
            flight.arrives = None;
            let reply = self.store.call(&flight.call);
            flight.reply.get_or_insert(reply);
        }
        for node in 0..self.nodes.len() {
            if now < self.nodes[node].dead_until {
                continue;
            }
            if self.nodes[node].known == usize::MAX {
                self.nodes[node] = self.node();
            }
            if now < self.nodes[node].paused_until {
                continue;
            }
            self.answers(node);
            self.work(node);
        }
        let lives: Vec<u64> = self.nodes.iter().map(|node| node.life).collect();
        // Calls of spoolers that have ended still arrive.
        self.flights.retain(|flight| flight.arrives.is_some() || lives[flight.node] == flight.life);
        if now.is_multiple_of(100) {
            self.rows += 1;
            for node in 0..self.nodes.len() {
                let deaf = now < self.nodes[node].dead_until || now < self.nodes[node].paused_until;
                if !deaf && (!self.rough || self.random.chance(98)) {
                    self.hear(node, self.rows);
                }
            }
        }
    }

    fn hear(&mut self, node: usize, row: u64) {
        // As `Seen` does: the manifest may have it already.
        let known = self.nodes[node].known;
        self.heard.insert((node, row));
        if self.store.first.get(&row).is_none_or(|first| *first >= known) {
            self.nodes[node].heard.push(row);
        }
    }

    fn answers(&mut self, node: usize) {
        let (now, life) = (self.now, self.nodes[node].life);
        let ready = |flight: &Flight| {
            flight.node == node && flight.life == life && flight.answered <= now && flight.reply.is_some()
        };
        let mut found = Vec::new();
        for flight in self.flights.iter_mut().filter(|flight| ready(flight)) {
            found.extend(flight.reply.take().map(|reply| (flight.call.clone(), reply)));
            // It may still arrive, but is answered.
            flight.life = if flight.arrives.is_some() { 0 } else { flight.life };
        }
        let own = |flight: &Flight| flight.node == node && flight.life == life;
        self.flights.retain(|flight| !(own(flight) && flight.reply.is_none() && flight.arrives.is_none()));
        for (call, reply) in found {
            match (call, reply) {
                (Call::Append(number, _), reply) => {
                    self.nodes[node].busy.1 = false;
                    if let Reply::Entries(entries) = reply {
                        self.follow(node, number, entries);
                    }
                }
                (Call::Lease(_), reply) => {
                    self.nodes[node].busy.0 = false;
                    let answer = if let Reply::Lease(answer) = reply { answer } else { Answer::Failed };
                    let time = self.time(node);
                    match self.nodes[node].lease.answer(answer, time) {
                        Some(Event::Claimed { epoch, floors }) => {
                            self.lose(node);
                            // As the writer of a store does: it was slow, and a later epoch has written.
                            let known = &self.store.manifest[..self.nodes[node].known];
                            if known.last().is_none_or(|last| last.epoch <= epoch) {
                                self.nodes[node].role = Role::Claimed(epoch, floors);
                            }
                        }
                        Some(Event::Holding(epoch)) => {
                            assert_eq!(self.nodes[node].role, Role::Starting(epoch));
                            self.nodes[node].role = Role::Writing(epoch);
                            self.held.push((self.now, node, epoch));
                        }
                        Some(Event::Lost { .. }) => self.lose(node),
                        None | Some(Event::GivenUp(_)) => {}
                    }
                }
            }
        }
    }

    /// Reads entries of the manifest, from a number on.
    fn follow(&mut self, node: usize, number: usize, entries: Vec<ModelEntry>) {
        if self.nodes[node].known != number {
            return;
        }
        for entry in entries {
            self.nodes[node].known += 1;
            self.nodes[node].heard.retain(|row| !entry.rows.contains(row));
            let own = match self.nodes[node].role {
                Role::Standby => continue,
                Role::Claimed(epoch, _) | Role::Starting(epoch) | Role::Writing(epoch) => epoch,
            };
            if entry.epoch > own {
                self.lose(node);
            } else if let Role::Claimed(epoch, floors) = self.nodes[node].role.clone()
                && entry.epoch == epoch
            {
                let end = |entry: &ModelEntry| entry.base + entry.rows.len() as u64;
                let known = &self.store.manifest[..self.nodes[node].known];
                let floor = floors.map_or(0, |floors| floors[0]);
                let start = known.iter().map(end).max().unwrap_or(0).max(floor) + RANGE;
                self.nodes[node].next = start;
                self.nodes[node].lease.start(epoch, vec![start]);
                self.nodes[node].role = Role::Starting(epoch);
            }
        }
    }

    fn work(&mut self, node: usize) {
        let time = self.time(node);
        if !self.nodes[node].busy.0
            && let Some(request) = self.nodes[node].lease.next(time)
        {
            self.nodes[node].busy.0 = true;
            self.send(node, Call::Lease(request));
        }
        if self.nodes[node].busy.1 || self.now < self.nodes[node].append_due {
            return;
        }
        let (number, author) = (self.nodes[node].known, self.nodes[node].author.writer.clone());
        self.nodes[node].append_due = self.now + 500;
        let (epoch, rows) = match &self.nodes[node].role {
            Role::Claimed(epoch, _) => (*epoch, Vec::new()),
            Role::Writing(epoch) if !self.nodes[node].heard.is_empty() => {
                (*epoch, self.nodes[node].heard.clone())
            }
            // A standby reads only: an entry behind the end is never created.
            _ => {
                self.nodes[node].busy.1 = true;
                let none = ModelEntry { epoch: 0, writer: author, base: 0, rows: Vec::new() };
                // Reads what there is; `Append` with a number beyond the end creates nothing.
                let entries = self.store.manifest[number..].to_vec();
                let reply = Some(Reply::Entries(entries));
                let (life, answered) = (self.nodes[node].life, self.now + self.random.below(300));
                if self.now < self.nodes[node].cut_until {
                    self.nodes[node].busy.1 = false;
                    return;
                }
                let call = Call::Append(number, none);
                self.flights.push(Flight { node, life, call, arrives: None, reply, answered });
                return;
            }
        };
        let base = self.nodes[node].next;
        self.nodes[node].next += rows.len() as u64;
        if !rows.is_empty() {
            let used = self.used.entry(epoch).or_insert((base, base));
            used.1 = base + rows.len() as u64;
        }
        self.nodes[node].busy.1 = true;
        self.send(node, Call::Append(number, ModelEntry { epoch, writer: author, base, rows }));
    }

    /// Checks what has to hold at any time.
    fn check(&self, seed: u64) {
        let (mut epoch, mut end) = (0, 0);
        let mut seen = BTreeSet::new();
        let mut writers = BTreeMap::new();
        for entry in &self.store.manifest {
            assert!(entry.epoch >= epoch, "seed {seed}: epoch {} behind {epoch}", entry.epoch);
            let writer = writers.entry(entry.epoch).or_insert(&entry.writer);
            assert_eq!(*writer, &entry.writer, "seed {seed}: two writers in epoch {}", entry.epoch);
            epoch = entry.epoch;
            if entry.rows.is_empty() {
                continue;
            }
            assert!(entry.base >= end, "seed {seed}: offset {} is used twice", entry.base);
            end = entry.base + entry.rows.len() as u64;
            for row in &entry.rows {
                assert!(seen.insert(*row), "seed {seed}: row {row} is there twice");
            }
        }
        let mut end = 0;
        for (epoch, (from, to)) in &self.used {
            assert!(*from >= end, "seed {seed}: epoch {epoch} uses offset {from} again, also of a folder");
            end = *to;
        }
        for (node, row) in &self.heard {
            let waits = self.nodes[*node].heard.contains(row);
            let there = seen.contains(row) || waits || self.excused.contains(&(*node, *row));
            assert!(there, "seed {seed}: node {node} has lost row {row}");
        }
    }
}

#[test]
fn one_spooler_writes_whatever_the_others_and_the_store_do() {
    let mut takeovers = 0;
    for seed in 0..60 {
        let mut world = World::new(seed, 3, true);
        while world.now < 300_000 {
            world.step();
            if world.random.chance(98) || !world.now.is_multiple_of(200) {
                continue;
            }
            let node = world.random.below(3) as usize;
            let until = world.now + world.random.below(25_000);
            match world.random.below(4) {
                0 => world.kill(node, until),
                1 => world.nodes[node].paused_until = until,
                // An hour, as far as this test is concerned.
                2 if world.random.chance(20) => world.nodes[node].paused_until = world.now + 150_000,
                _ => world.nodes[node].cut_until = until,
            }
        }
        world.check(seed);
        // Then the network heals, and everything that is heard comes into the store.
        for node in &mut world.nodes {
            (node.dead_until, node.paused_until, node.cut_until) = (0, 0, 0);
        }
        world.rough = false;
        let end = world.now + 60_000;
        let before = world.rows;
        while world.now < end {
            world.step();
        }
        world.check(seed);
        let rows: BTreeSet<u64> = world.store.manifest.iter().flat_map(|entry| entry.rows.clone()).collect();
        let late = (before + 300..world.rows - 50).filter(|row| !rows.contains(row)).count();
        assert_eq!(late, 0, "seed {seed}: rows of the healed network");
        assert!(world.nodes.iter().filter(|node| node.lease.holds()).count() == 1, "seed {seed}");
        takeovers += world.held.len();
    }
    assert!(takeovers > 200, "{takeovers} takeovers are too few to test anything");
}

#[test]
fn another_spooler_writes_within_ten_seconds_of_a_kill_or_partition() {
    let mut longest = 0;
    for seed in 0..40 {
        let mut world = World::new(seed, 3, false);
        while world.now < 20_000 {
            world.step();
        }
        for round in 0..5 {
            let holders: Vec<usize> = (0..3).filter(|&node| world.nodes[node].lease.holds()).collect();
            let &[holder] = &holders[..] else { panic!("seed {seed}: {holders:?} hold") };
            let (count, from) = (world.held.len(), world.now);
            if round % 2 == 0 {
                world.kill(holder, from + 30_000);
            } else {
                world.nodes[holder].cut_until = from + 30_000;
            }
            while world.now < from + 40_000 {
                world.step();
            }
            let (at, node, _) = world.held[count];
            assert_ne!(node, holder, "seed {seed}");
            assert_eq!(world.held.len(), count + 1, "seed {seed}: one takeover");
            longest = longest.max(at - from);
        }
        world.check(seed);
    }
    assert!(longest <= 10_000, "{longest} ms");
    assert!(longest > 4_000, "{longest} ms: a holder that is alive is waited for");
}

#[test]
fn a_claim_whose_answer_was_lost_counts_when_it_is_read() {
    let author = Author { writer: "me".to_owned(), host: "here".to_owned() };
    let claim = || Record::Claim(author.clone());
    let (get, create) =
        (Request::Get(LeaseObject::Claim(1)), Request::Create(LeaseObject::Claim(1), claim()));
    for late in [false, true] {
        let mut lease = Lease::new(author.clone(), 0, Duration::ZERO);
        let mut now = Duration::ZERO;
        let mut turn = |request: &Request, answer: Answer| {
            now = now.max(lease.due().unwrap());
            assert_eq!(lease.next(now).as_ref(), Some(request));
            lease.answer(answer, now)
        };
        assert_eq!(turn(&get, Answer::Found(None)), None);
        assert_eq!(turn(&create, Answer::Failed), None);
        if late {
            assert_eq!(turn(&get, Answer::Found(None)), None);
            assert_eq!(turn(&create, Answer::Exists), None);
        }
        let claimed = Some(Event::Claimed { epoch: 1, floors: None });
        assert_eq!(turn(&get, Answer::Found(Some(claim()))), claimed);
    }
}

#[test]
fn a_spooler_that_has_not_heard_all_waits_for_another_one() {
    for hesitates in [false, true] {
        let author = |name: &str| Author { writer: name.to_owned(), host: name.to_owned() };
        let mut lease = Lease::new(author("me"), 1, Duration::ZERO);
        lease.hesitate(hesitates);
        let claimed = loop {
            let now = lease.due().unwrap();
            let answer = match lease.next(now).unwrap() {
                Request::Get(LeaseObject::Claim(1)) => Some(Record::Claim(author("other"))),
                Request::Get(LeaseObject::Beat(1)) => Some(Record::Beat(Beat { number: 7, released: false })),
                Request::Get(_) => None,
                _ => break now,
            };
            lease.answer(Answer::Found(answer), now);
        };
        let least = PATIENCE + if hesitates { HESITATION } else { Duration::ZERO };
        assert!((least..least + 2 * PERIOD).contains(&claimed), "{hesitates}: {claimed:?}");
    }
}

#[test]
fn a_spooler_that_cannot_write_lets_another_one_go_first() {
    let author = Author { writer: "me".to_owned(), host: "me".to_owned() };
    let mut lease = Lease::new(author, 1, Duration::ZERO);
    let mut beats = Vec::new();
    let mut gave_up = None;
    let mut claims = Vec::new();
    while claims.len() < 2 {
        let now = lease.due().unwrap();
        let answer = match lease.next(now).unwrap() {
            Request::Get(LeaseObject::Beat(_)) => Answer::Found(beats.last().copied().map(Record::Beat)),
            Request::Get(_) => Answer::Found(None),
            Request::Put(_, Record::Beat(beat)) => {
                beats.push(beat);
                Answer::Done
            }
            Request::Create(LeaseObject::Claim(_), _) => {
                claims.push(now);
                Answer::Done
            }
            other => panic!("{other:?}"),
        };
        match lease.answer(answer, now) {
            Some(Event::Claimed { .. }) if gave_up.is_none() => lease.give_up(now),
            Some(Event::GivenUp(epoch)) => {
                assert_eq!(epoch, lease.epoch());
                gave_up = Some(now);
            }
            _ => {}
        }
    }
    assert_eq!(beats.iter().map(|beat| beat.released).collect::<Vec<_>>(), [true]);
    let rest = claims[1] - gave_up.unwrap();
    assert!((super::RELUCTANCE..super::RELUCTANCE + 3 * PERIOD).contains(&rest), "{rest:?}");
}

#[test]
fn a_lease_that_is_given_back_is_taken_at_once() {
    let mut world = World::new(7, 2, false);
    while world.now < 20_000 {
        world.step();
    }
    let holder = (0..2).find(|&node| world.nodes[node].lease.holds()).unwrap();
    let (count, from, time) = (world.held.len(), world.now, world.time(holder));
    world.nodes[holder].lease.release(time);
    while world.held.len() == count {
        world.step();
        assert!(world.now < from + 4_000);
    }
    assert!(world.nodes[holder].lease.is_ended());
    assert!(matches!(world.store.objects[&LeaseObject::Beat(1)], Record::Beat(Beat { released: true, .. })));
}

#[test]
fn a_spool_of_a_single_spooler_is_claimed_behind_its_epoch() {
    let mut world = World::new(1, 0, false);
    world.store.append(ModelEntry { epoch: 41, writer: "alone".to_owned(), base: 0, rows: vec![0] });
    world.rows = 1;
    for _ in 0..2 {
        let node = world.node();
        world.nodes.push(node);
    }
    while world.now < 20_000 {
        world.step();
    }
    assert_eq!(world.held.iter().map(|(_, _, epoch)| *epoch).collect::<Vec<_>>(), [42]);
    world.check(1);
}
