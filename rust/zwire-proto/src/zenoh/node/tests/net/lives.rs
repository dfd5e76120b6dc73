//! Each life of a token gives one PUT and one DELETE at every watcher, whatever happens on the way.

use super::*;
use crate::zenoh::session::{EntityId, SampleKind};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const TOKENS: [&str; 4] = ["t/1", "t/2", "u", "t/x/y"];
const WATCHED: [&str; 4] = ["t/*", "**", "u", "t/1"];

/// Two nodes with a link between them, sessions at both.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Hub,
    Peers,
    PeerAndRouter,
    Routers,
}

#[derive(Clone, Debug)]
enum Step {
    Token(usize, usize),
    TokenEnds(usize),
    Watch(usize, usize, bool),
    WatchEnds(usize),
    Cut(usize),
    Restore(usize),
    CutNodes,
    RestoreNodes,
}

fn step() -> impl Strategy<Value = Step> {
    let session = || 0..5_usize;
    prop_oneof![
        6 => (session(), 0..TOKENS.len()).prop_map(|(session, token)| Step::Token(session, token)),
        4 => any::<prop::sample::Index>().prop_map(|nth| Step::TokenEnds(nth.index(1000))),
        4 => (session(), 0..WATCHED.len(), any::<bool>()).prop_map(|(s, key, h)| Step::Watch(s, key, h)),
        1 => any::<prop::sample::Index>().prop_map(|nth| Step::WatchEnds(nth.index(1000))),
        2 => session().prop_map(Step::Cut),
        3 => session().prop_map(Step::Restore),
        1 => Just(Step::CutNodes),
        2 => Just(Step::RestoreNodes),
    ]
}

struct Watcher {
    session: usize,
    id: EntityId,
    key: KeyExpr,
    history: bool,
    /// Last sample of each key.
    told: BTreeMap<KeyExpr, SampleKind>,
}

struct World {
    net: Net,
    /// The node of each session, and whether it is in the same process.
    places: Vec<(usize, bool)>,
    up: Vec<bool>,
    joined: bool,
    tokens: Vec<(usize, EntityId, KeyExpr)>,
    watchers: Vec<Watcher>,
    next_face: u32,
}

impl World {
    fn new(shape: Shape) -> Self {
        let mut net = Net::default();
        let modes = match shape {
            Shape::Hub => vec![NodeMode::Router],
            Shape::Peers => vec![NodeMode::Peer; 2],
            Shape::PeerAndRouter => vec![NodeMode::Peer, NodeMode::Router],
            Shape::Routers => vec![NodeMode::Router; 2],
        };
        for mode in &modes {
            net.node(*mode);
        }
        let last = modes.len() - 1;
        let places = vec![(0, true), (0, false), (last, last > 0), (last, false), (last, false)];
        // A link between nodes comes first, if there is one.
        if last > 0 {
            net.link(0, last);
        }
        for (node, local) in &places {
            net.session(*node, *local);
        }
        let mut world = Self {
            net,
            up: vec![true; places.len()],
            places,
            joined: true,
            tokens: Vec::new(),
            watchers: Vec::new(),
            next_face: 1000,
        };
        world.rest();
        world
    }

    /// Runs until all messages have arrived and the trees are computed.
    fn rest(&mut self) {
        self.net.settle();
        for _ in 0..4 {
            self.net.after(Duration::from_millis(150));
        }
    }

    fn cable(&self, session: usize) -> usize {
        self.net.cables.iter().position(|(_, end)| *end == End::Session(session)).unwrap()
    }

    fn apply(&mut self, step: Step) {
        let now = self.net.now();
        match step {
            Step::Token(session, token) => {
                let token = key(TOKENS[token]);
                let id = self.net.sessions[session].declare_token(now, token.clone()).unwrap();
                self.tokens.push((session, id, token));
            }
            Step::TokenEnds(nth) if !self.tokens.is_empty() => {
                let (session, id, _) = self.tokens.swap_remove(nth % self.tokens.len());
                self.net.sessions[session].undeclare(now, id).unwrap();
            }
            Step::Watch(session, watched, history) => {
                let key = key(WATCHED[watched]);
                let made =
                    self.net.sessions[session].declare_liveliness_subscriber(now, key.clone(), history);
                let (id, told) = (made.unwrap(), BTreeMap::new());
                self.watchers.push(Watcher { session, id, key, history, told });
            }
            Step::WatchEnds(nth) if !self.watchers.is_empty() => {
                let watcher = self.watchers.swap_remove(nth % self.watchers.len());
                self.net.sessions[watcher.session].undeclare(now, watcher.id).unwrap();
            }
            Step::Cut(session) if self.up[session] && !self.places[session].1 => {
                self.up[session] = false;
                self.net.cut(self.cable(session));
            }
            Step::Restore(session) if !self.up[session] => self.restore(session),
            Step::CutNodes if self.joined && self.net.nodes.len() > 1 => {
                self.joined = false;
                self.net.cut(0);
            }
            Step::RestoreNodes if !self.joined => self.join(),
            _ => {}
        }
        self.rest();
    }

    fn restore(&mut self, session: usize) {
        let now = self.net.now();
        let node = self.places[session].0;
        let config = self.net.nodes[node].config();
        let north = Remote { zid: config.zid, whatami: config.mode.into() };
        let remote = Remote { zid: self.net.sessions[session].zid(), whatami: WhatAmI::Client };
        let cable = self.cable(session);
        self.next_face += 1;
        let face = self.next_face;
        self.net.cables[cable] = (End::Node(node, face), End::Session(session));
        self.net.nodes[node].handle_face_up(now, FaceId(face), remote, FaceKind::Unicast);
        self.net.sessions[session].handle_link_up(now, north);
        self.up[session] = true;
    }

    fn join(&mut self) {
        let now = self.net.now();
        self.next_face += 1;
        let face = self.next_face;
        let remote = |net: &Net, node: usize| {
            let config = net.nodes[node].config();
            Remote { zid: config.zid, whatami: config.mode.into() }
        };
        let (first, second) = (remote(&self.net, 0), remote(&self.net, 1));
        self.net.cables[0] = (End::Node(0, face), End::Node(1, face));
        self.net.nodes[0].handle_face_up(now, FaceId(face), second, FaceKind::Unicast);
        self.net.nodes[1].handle_face_up(now, FaceId(face), first, FaceKind::Unicast);
        self.joined = true;
    }

    /// Whether declarations of one session reach another.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let near = self.places[from].0 == self.places[to].0 || self.joined;
        from == to || self.up[from] && self.up[to] && near
    }

    fn alive(&self, watcher: &Watcher) -> BTreeSet<KeyExpr> {
        let tokens = self.tokens.iter().filter(|(session, ..)| self.reaches(*session, watcher.session));
        tokens.map(|(_, _, key)| key.clone()).filter(|key| key.intersects(&watcher.key)).collect()
    }

    /// Takes the samples of the watchers; none may repeat.
    fn hear(&mut self) {
        for session in 0..self.net.sessions.len() {
            while let Some(event) = self.net.sessions[session].poll_event() {
                let Event::Sample { subscriber, sample } = event else { continue };
                let watcher = self.watchers.iter_mut().find(|w| w.session == session && w.id == subscriber);
                let Some(watcher) = watcher else { continue };
                assert!(sample.key.intersects(&watcher.key));
                let before = watcher.told.insert(sample.key.clone(), sample.kind);
                match (before, sample.kind) {
                    (None, SampleKind::Put)
                    | (Some(SampleKind::Put), SampleKind::Delete)
                    | (Some(SampleKind::Delete), SampleKind::Put) => {}
                    // A token may end without a PUT for a watcher that did not ask for existing ones.
                    (None, SampleKind::Delete) if !watcher.history => {}
                    news => panic!("{}: {news:?} on {}", watcher.key, sample.key),
                }
            }
        }
    }

    /// The samples of the watchers agree with the existing tokens.
    fn check(&self) {
        for watcher in &self.watchers {
            let alive = self.alive(watcher);
            let told = watcher.told.iter().filter(|(_, kind)| **kind == SampleKind::Put);
            let told: BTreeSet<KeyExpr> = told.map(|(key, _)| key.clone()).collect();
            let at = format!("{} of session {}, history {}", watcher.key, watcher.session, watcher.history);
            assert!(told.is_subset(&alive), "{at}: told of {told:?}, alive are {alive:?}");
            for key in alive.difference(&told) {
                // Existed before the watcher, which did not ask for history.
                let untold = !watcher.history && !watcher.told.contains_key(key);
                assert!(untold, "{at}: not told of {key}");
            }
        }
    }
}

fn run(shape: Shape, steps: Vec<Step>) {
    let mut world = World::new(shape);
    for step in steps {
        world.apply(step);
        world.hear();
        world.check();
    }
    // All links are restored, then all tokens end.
    (0..world.up.len()).filter(|session| !world.up[*session]).collect::<Vec<_>>().into_iter().for_each(
        |session| {
            world.apply(Step::Restore(session));
        },
    );
    world.apply(Step::RestoreNodes);
    world.hear();
    world.check();
    while !world.tokens.is_empty() {
        world.apply(Step::TokenEnds(0));
    }
    world.hear();
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn at_a_hub(steps in prop::collection::vec(step(), 1..60)) {
        run(Shape::Hub, steps);
    }

    #[test]
    fn between_peers(steps in prop::collection::vec(step(), 1..60)) {
        run(Shape::Peers, steps);
    }

    #[test]
    fn between_a_peer_and_its_router(steps in prop::collection::vec(step(), 1..60)) {
        run(Shape::PeerAndRouter, steps);
    }

    #[test]
    fn between_routers(steps in prop::collection::vec(step(), 1..60)) {
        run(Shape::Routers, steps);
    }
}
