//! Networks of routers, peers and clients with real sessions at their ends, through churn
//! (`zenoh-behaviour` 5.3 to 5.6): each put arrives once at every matching subscriber that was stable
//! meanwhile, every request has one end on each link, no state is left when all have gone, and all
//! routers have the same trees.

use super::{
    fabric::{End, Fabric, Got, Random},
    *,
};
use crate::zenoh::{
    KeyExpr,
    session::{EntityId, Get, QueryableOptions, SubscriberOptions},
    wire::Consolidation,
};
use std::collections::{BTreeMap, BTreeSet};

const KEYS: [&str; 12] =
    ["a/1", "a/2", "b/1", "b/2/c", "a/*", "b/**", "**", "*/1", "a/@x", "c/$*d", "c/xd", "*/2/*"];
/// Subscribers of sessions.
type Subscribers = BTreeSet<(usize, u32)>;

const MS: Duration = Duration::from_millis(1);
/// Time until routers have noticed every change and computed their trees, and sessions declared.
const SETTLE: Duration = Duration::from_secs(3);

fn key(text: &str) -> KeyExpr {
    text.parse().unwrap()
}

/// Declarations of a session: by id, with the time of each.
#[derive(Default)]
struct Person {
    subscribers: BTreeMap<EntityId, (KeyExpr, Duration)>,
    queryables: BTreeMap<EntityId, KeyExpr>,
    tokens: BTreeMap<EntityId, KeyExpr>,
    /// The node of the session, and since when.
    node: usize,
    since: Duration,
    local: bool,
}

/// Size of a network.
#[derive(Clone, Copy)]
struct Size {
    routers: usize,
    peers: usize,
    clients: usize,
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    changes: u64,
    puts: u64,
    deliveries: u64,
    /// Puts while routers come and go: arrival, and arrival once, are not guaranteed.
    unsettled: u64,
    lost: u64,
    doubled: u64,
    gets: u64,
    replies: u64,
}

pub(super) struct World {
    pub(super) fabric: Fabric,
    people: Vec<Person>,
    /// Links between nodes that should exist, and their numbers.
    cables: BTreeMap<(usize, usize), usize>,
    /// Links that are cut temporarily.
    cut: BTreeSet<(usize, usize)>,
    /// Peers with one gateway, which may lose it.
    loose: Vec<(usize, usize)>,
    tokens: u32,
    sums: Sums,
}

impl World {
    fn new(seed: u64, size: Size) -> Self {
        let mut world = Self {
            fabric: Fabric::new(seed),
            people: Vec::new(),
            cables: BTreeMap::new(),
            cut: BTreeSet::new(),
            loose: Vec::new(),
            tokens: 0,
            sums: Sums::default(),
        };
        // Ids of routers in random order.
        let base = world.fabric.random.next() as u32 & 0xff_ffff;
        let number = |n: usize| zid((n as u32).wrapping_mul(0x9e37_79b1) ^ base);
        for n in 0..size.routers {
            let mut config = NodeConfig::new(number(n), NodeMode::Router);
            if world.fabric.random.percent(20) && n > 0 {
                let other = world.fabric.random.below(n);
                config.transport_weights.insert(number(other), 20 + world.fabric.random.below(300) as u16);
            }
            let router = world.fabric.node(config);
            if n > 0 {
                let other = world.fabric.random.below(n);
                world.cable(other, router);
            }
        }
        for _ in 0..size.routers * 2 / 3 {
            let (a, b) = (world.fabric.random.below(size.routers), world.fabric.random.below(size.routers));
            if a != b {
                world.cable(a.min(b), a.max(b));
            }
        }
        let mut next = size.routers;
        while next < size.routers + size.peers {
            let many = (2 + world.fabric.random.below(4)).min(size.routers + size.peers - next);
            let group: Vec<usize> = (0..many)
                .map(|n| world.fabric.node(NodeConfig::new(number(next + n), NodeMode::Peer)))
                .collect();
            next += many;
            let gateway = world.fabric.random.below(size.routers);
            let mut gateways = vec![gateway];
            if world.fabric.random.percent(30) {
                // A second gateway with the lesser id, through which no other route leads: the rule of
                // the greatest id duplicates messages that pass a second gateway on their way.
                let own = world.fabric.nodes[gateway].config().zid;
                let lesser = ZenohId::new(own.number() / 2 + 1).unwrap();
                let taken = world.fabric.nodes.iter().any(|node| node.config().zid == lesser);
                if !taken && lesser < own {
                    gateways.push(world.fabric.node(NodeConfig::new(lesser, NodeMode::Router)));
                    world.cable(gateway, gateways[1]);
                }
            }
            for (at, peer) in group.iter().enumerate() {
                for other in &group[..at] {
                    world.cable(*other, *peer);
                }
                for gateway in &gateways {
                    world.cable(*gateway, *peer);
                }
                if gateways.len() == 1 {
                    world.loose.push((gateway, *peer));
                }
                world.person(*peer, true);
            }
        }
        for router in 0..size.routers {
            if world.fabric.random.percent(30) {
                world.person(router, true);
            }
        }
        for _ in 0..size.clients {
            let node = world.fabric.random.below(world.fabric.nodes.len());
            world.person(node, false);
        }
        world
    }

    // ---- the model ----

    fn cable(&mut self, a: usize, b: usize) {
        if !self.cables.contains_key(&(a, b)) {
            let link = self.fabric.link(End::Node(a), End::Node(b), FaceKind::Unicast);
            self.cables.insert((a, b), link);
        }
    }

    fn person(&mut self, node: usize, local: bool) {
        let session = self.fabric.session();
        self.people.push(Person { node, local, ..Person::default() });
        self.connect(session, node);
        for _ in 0..1 + self.fabric.random.below(3) {
            self.declare(session);
        }
    }

    fn connect(&mut self, session: usize, node: usize) {
        self.fabric.disconnect(session);
        let kind = if self.people[session].local { FaceKind::Local } else { FaceKind::Unicast };
        self.fabric.link(End::Node(node), End::Session(session), kind);
        self.people[session].node = node;
        self.people[session].since = self.fabric.now;
    }

    pub(super) fn is_router(&self, node: usize) -> bool {
        self.fabric.nodes[node].config().mode == NodeMode::Router
    }

    /// For each node the component of routers that it is in or attached to; a peer may be attached to
    /// several.
    pub(super) fn components(&self) -> Vec<BTreeSet<usize>> {
        let count = self.fabric.nodes.len();
        let whole = |cable: &&(usize, usize)| !self.cut.contains(*cable);
        let mut of: Vec<usize> = (0..count).collect();
        loop {
            let mut changed = false;
            for (a, b) in self.cables.keys().filter(whole) {
                if self.is_router(*a) && self.is_router(*b) && of[*a] != of[*b] {
                    let least = of[*a].min(of[*b]);
                    (of[*a], of[*b]) = (least, least);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let mut sets: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); count];
        for router in (0..count).filter(|node| self.is_router(*node)) {
            sets[router].insert(of[router]);
        }
        for (a, b) in self.cables.keys().filter(whole) {
            if self.is_router(*a) && !self.is_router(*b) {
                sets[*b].insert(of[*a]);
            }
        }
        sets
    }

    /// Whether messages of a session at one node reach a session at another.
    fn reaches(&self, components: &[BTreeSet<usize>], from: usize, to: usize) -> bool {
        let (a, b) = (self.people[from].node, self.people[to].node);
        let cable = (a.min(b), a.max(b));
        let peers = !self.is_router(a) && !self.is_router(b);
        let linked = peers && self.cables.contains_key(&cable) && !self.cut.contains(&cable);
        a == b || linked || !components[a].is_disjoint(&components[b])
    }

    // ---- events ----

    fn pause(&mut self, most: usize) {
        let time = MS * self.fabric.random.below(most) as u32;
        self.fabric.run(time);
    }

    fn any_key(random: &mut Random) -> KeyExpr {
        key(KEYS[random.below(KEYS.len())])
    }

    fn declare(&mut self, session: usize) {
        let what = self.fabric.random.below(4);
        let on = Self::any_key(&mut self.fabric.random);
        let (now, person) = (self.fabric.now, &mut self.people[session]);
        match what {
            0 | 1 => {
                let id = self.fabric.with_session(session, |s, now| {
                    s.declare_subscriber(now, on.clone(), SubscriberOptions::default()).unwrap()
                });
                person.subscribers.insert(id, (on, now));
            }
            2 => {
                let id = self.fabric.with_session(session, |s, now| {
                    let options = QueryableOptions { complete: true, ..QueryableOptions::default() };
                    s.declare_queryable(now, on.clone(), options).unwrap()
                });
                person.queryables.insert(id, on);
            }
            _ => {
                // Several tokens on one key look like one to other sessions.
                self.tokens += 1;
                let on = key(&format!("live/{}", self.tokens));
                let id =
                    self.fabric.with_session(session, |s, now| s.declare_token(now, on.clone()).unwrap());
                person.tokens.insert(id, on);
            }
        }
    }

    fn undeclare(&mut self, session: usize) {
        let person = &mut self.people[session];
        let id = match self.fabric.random.below(3) {
            0 => person.subscribers.pop_first().map(|(id, _)| id),
            1 => person.queryables.pop_first().map(|(id, _)| id),
            _ => person.tokens.pop_first().map(|(id, _)| id),
        };
        if let Some(id) = id {
            self.fabric.with_session(session, |s, now| s.undeclare(now, id).unwrap());
        }
    }

    /// Applies a random change to sessions.
    fn change_session(&mut self) {
        self.sums.changes += 1;
        let session = self.fabric.random.below(self.people.len());
        match self.fabric.random.below(3) {
            0 => self.declare(session),
            1 => self.undeclare(session),
            _ if self.people[session].local => self.declare(session),
            _ => {
                let node = self.fabric.random.below(self.fabric.nodes.len());
                self.connect(session, node);
            }
        }
    }

    /// Applies a random change to links and nodes.
    fn change_network(&mut self) {
        self.sums.changes += 1;
        let routers: Vec<(usize, usize)> =
            self.cables.keys().filter(|(a, b)| self.is_router(*a) && self.is_router(*b)).copied().collect();
        match self.fabric.random.below(8) {
            0..=2 => {
                let cable = routers[self.fabric.random.below(routers.len())];
                self.fabric.cut(self.cables[&cable]);
                self.cut.insert(cable);
            }
            3 if !self.loose.is_empty() => {
                let cable = self.loose[self.fabric.random.below(self.loose.len())];
                self.fabric.cut(self.cables[&cable]);
                self.cut.insert(cable);
            }
            4 => {
                let node = self.fabric.random.below(self.fabric.nodes.len());
                self.restart(node);
            }
            _ => {
                let nth = self.fabric.random.below(self.cut.len().max(1));
                if let Some(cable) = self.cut.iter().nth(nth).copied() {
                    self.heal(cable);
                }
            }
        }
    }

    fn heal(&mut self, cable: (usize, usize)) {
        self.cut.remove(&cable);
        let link = self.fabric.link(End::Node(cable.0), End::Node(cable.1), FaceKind::Unicast);
        self.cables.insert(cable, link);
    }

    /// Stops a node, and starts it again under the same id. That takes longer than the expiry of an
    /// unreachable router: a node that is back earlier is taken for the previous one.
    fn restart(&mut self, node: usize) {
        self.fabric.restart(node);
        for session in 0..self.people.len() {
            if self.people[session].node == node {
                self.fabric.disconnect(session);
                self.people[session].since = self.fabric.now;
            }
        }
        self.fabric.run(700 * MS);
        let cables: Vec<(usize, usize)> =
            self.cables.keys().filter(|(a, b)| *a == node || *b == node).copied().collect();
        for session in 0..self.people.len() {
            if self.people[session].node == node {
                self.connect(session, node);
            }
        }
        cables
            .into_iter()
            .filter(|cable| !self.cut.contains(cable))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|cable| self.heal(cable));
    }

    // ---- checks ----

    /// Sends a put. Returns the subscribers that must get it, and those that may not.
    fn put(&mut self) -> (String, Subscribers, Subscribers) {
        let from = self.fabric.random.below(self.people.len());
        self.put_from(from)
    }

    fn put_from(&mut self, from: usize) -> (String, Subscribers, Subscribers) {
        let on = Self::any_key(&mut self.fabric.random);
        let components = self.components();
        let (mut reached, mut others) = (BTreeSet::new(), BTreeSet::new());
        for (to, person) in self.people.iter().enumerate() {
            for (id, (key, _)) in &person.subscribers {
                let set = if key.intersects(&on) && self.reaches(&components, from, to) {
                    &mut reached
                } else {
                    &mut others
                };
                set.insert((to, id.0));
            }
        }
        let payload = format!("p{}", self.sums.puts);
        self.sums.puts += 1;
        self.fabric.put(from, &on, payload.clone());
        (payload, reached, others)
    }

    fn samples(&self, payload: &str) -> BTreeMap<(usize, u32), u32> {
        let from = (payload.to_owned(), 0, 0);
        let all = self.fabric.samples.range(from..).take_while(|((p, _, _), _)| p == payload);
        all.map(|((_, to, id), count)| ((*to, *id), *count)).collect()
    }

    fn forget_samples(&mut self) {
        self.sums.deliveries += self.fabric.samples.values().map(|n| u64::from(*n)).sum::<u64>();
        self.fabric.samples.clear();
    }

    /// After a quiet period each put arrives once at all matching subscribers.
    fn check_settled(&mut self, puts: usize) {
        self.check_trees();
        self.check_tables();
        for _ in 0..puts {
            let (payload, reached, _) = self.put();
            self.fabric.run(200 * MS);
            let samples = self.samples(&payload);
            let wrong: Vec<_> = samples.iter().filter(|(to, n)| **n != 1 || !reached.contains(to)).collect();
            let lost: Vec<_> = reached.iter().filter(|to| !samples.contains_key(to)).collect();
            assert!(wrong.is_empty() && lost.is_empty(), "{payload}: too much {wrong:?}, lost {lost:?}");
        }
        self.forget_samples();
        self.check_gets(puts / 2);
    }

    fn check_gets(&mut self, count: usize) {
        let components = self.components();
        let mut asked: Vec<((usize, crate::zenoh::session::GetId), BTreeSet<String>)> = Vec::new();
        for _ in 0..count {
            let from = self.fabric.random.below(self.people.len());
            let reached: Vec<usize> =
                (0..self.people.len()).filter(|to| self.reaches(&components, from, *to)).collect();
            if self.fabric.random.percent(30) {
                let get = self
                    .fabric
                    .with_session(from, |s, now| s.liveliness_get(now, key("live/**"), None).unwrap());
                let tokens = reached.iter().flat_map(|to| self.people[*to].tokens.values());
                asked.push(((from, get), tokens.map(ToString::to_string).collect()));
                continue;
            }
            let on = Self::any_key(&mut self.fabric.random);
            let get =
                Get { target: QueryTarget::All, consolidation: Consolidation::None, ..Get::new(on.clone()) };
            let get = self.fabric.with_session(from, |s, now| s.get(now, get).unwrap());
            let mut answers = BTreeSet::new();
            for to in reached {
                let of = self.people[to].queryables.iter().filter(|(_, key)| key.intersects(&on));
                answers.extend(of.map(|(id, _)| format!("{to}:{}", id.0)));
            }
            asked.push(((from, get), answers));
        }
        self.fabric.run(500 * MS);
        for (get, expected) in asked {
            let mut got: Got = self.fabric.gets.remove(&get).unwrap_or_default();
            got.replies.sort_unstable();
            let expected: Vec<String> = {
                let mut sorted: Vec<String> = expected.into_iter().collect();
                sorted.sort_unstable();
                sorted
            };
            assert_eq!((got.ends, &got.replies), (1, &expected), "{get:?}");
            self.sums.gets += 1;
            self.sums.replies += got.replies.len() as u64;
        }
        assert!(self.fabric.open.is_empty(), "each request has ended on each link");
    }

    /// Sessions come, go and change their declarations, while routers stay: a subscriber that was
    /// present in the second before a put and in the second after it gets it once. A moving one may get
    /// it at both places, or at none.
    fn sessions_come_and_go(&mut self, rounds: usize) {
        const CALM: Duration = Duration::from_secs(1);
        let mut waiting = Vec::new();
        for _ in 0..rounds {
            self.change_session();
            self.pause(40);
            let stable = self.stable(self.fabric.now.saturating_sub(CALM));
            let from = self.fabric.random.below(self.people.len());
            let (payload, reached, others) = self.put_from(from);
            waiting.push((self.fabric.now, from, payload, stable, reached, others));
            self.pause(40);
        }
        self.fabric.run(CALM);
        for (at, from, payload, before, reached, others) in waiting {
            // The last messages of a sender that leaves may be lost with its link.
            let reached = if self.people[from].since >= at { BTreeSet::new() } else { reached };
            let samples = self.samples(&payload);
            let stable: BTreeSet<_> =
                self.stable(at.saturating_sub(CALM)).intersection(&before).copied().collect();
            for to in reached.intersection(&stable) {
                assert_eq!(samples.get(to), Some(&1), "{payload} at {to:?}");
            }
            for to in others.intersection(&stable) {
                assert_eq!(samples.get(to), None, "{payload} at {to:?}");
            }
        }
        self.forget_samples();
    }

    /// Subscribers that have not moved since then.
    fn stable(&self, since: Duration) -> Subscribers {
        let mut stable = Subscribers::new();
        for (number, person) in self.people.iter().enumerate().filter(|(_, p)| p.since <= since) {
            let subscribers = person.subscribers.iter().filter(|(_, (_, at))| *at <= since);
            stable.extend(subscribers.map(|(id, _)| (number, id.0)));
        }
        stable
    }

    /// Routers and links come and go as well.
    fn all_comes_and_goes(&mut self, rounds: usize) {
        let mut puts = Vec::new();
        for _ in 0..rounds {
            self.change_network();
            self.change_session();
            self.pause(150);
            puts.push(self.put());
            self.pause(150);
        }
        self.fabric.run(SETTLE);
        for (payload, reached, _) in puts {
            let samples = self.samples(&payload);
            self.sums.unsettled += reached.len() as u64;
            self.sums.lost += reached.iter().filter(|to| !samples.contains_key(to)).count() as u64;
            self.sums.doubled += samples.values().map(|count| u64::from(count - 1)).sum::<u64>();
        }
        self.forget_samples();
    }

    /// All sessions leave, then all links: nothing is left.
    fn all_leave(&mut self) {
        for session in 0..self.people.len() {
            self.fabric.disconnect(session);
        }
        self.fabric.run(SETTLE);
        self.check_trees();
        assert!(self.fabric.open.is_empty());
        for (number, node) in self.fabric.nodes.iter().enumerate() {
            assert_eq!(node.tables.all().count(), 0, "tables of {number}");
            assert!(node.network.announced.iter().all(BTreeMap::is_empty));
            assert_eq!(node.network.table_bytes, 0);
            assert!(node.faces.values().all(|face| face.pending.is_empty() && face.queries.is_empty()));
        }
        for link in 0..self.fabric.links.len() {
            self.fabric.cut(link);
        }
        self.fabric.run(Duration::from_secs(20));
        for node in &self.fabric.nodes {
            assert!(node.faces.is_empty());
            assert_eq!((node.network.size(), node.poll_timeout()), ((1, 0), None));
        }
    }
}

/// Runs the life of a network.
fn live(seed: u64, size: Size, rounds: usize) -> (Sums, u64) {
    let mut world = World::new(seed, size);
    world.fabric.run(SETTLE);
    world.check_settled(rounds);
    for _ in 0..3 {
        world.sessions_come_and_go(rounds);
        world.fabric.run(SETTLE);
        world.all_comes_and_goes(rounds);
        world.check_settled(rounds);
    }
    world.all_leave();
    (world.sums, world.fabric.messages)
}

const PAGE: &str = include_str!("../../../../../../docs/zenoh-simulation.md");

/// A change of these numbers is a change of behaviour: the page must be updated with it.
fn compare(size: Size, rounds: usize) {
    let (sums, messages) = live(1, size, rounds);
    let Sums { changes, puts, deliveries, unsettled, lost, doubled, gets, replies } = sums;
    let Size { routers, peers, clients } = size;
    let of = [routers, peers, clients].map(|n| n as u64);
    let numbers =
        of.into_iter().chain([changes, puts, deliveries, unsettled, lost, doubled, gets, replies, messages]);
    let line: String = numbers.map(|n| format!(" {n} |")).collect();
    let begin: String = of.map(|n| format!(" {n} |")).concat();
    let documented = PAGE.lines().find(|l| l.starts_with(&format!("|{begin}"))).unwrap_or("no line");
    assert_eq!(documented, format!("|{line}"));
}

#[test]
fn small_networks_keep_their_promises() {
    for seed in 1..=25 {
        let size = Size { routers: 2 + seed as usize % 6, peers: seed as usize % 7, clients: 8 };
        let sums = std::panic::catch_unwind(|| live(seed, size, 10));
        assert!(sums.is_ok(), "seed {seed}");
    }
}

#[test]
fn the_table_of_thirty_nodes() {
    compare(Size { routers: 6, peers: 8, clients: 16 }, 20);
}

#[test]
#[ignore = "takes its time; `make test-long` runs it"]
fn three_hundred_nodes_keep_their_promises() {
    compare(Size { routers: 40, peers: 60, clients: 200 }, 40);
}
