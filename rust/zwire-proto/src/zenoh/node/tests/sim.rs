//! Random actions of faces, against a naive model: which faces get data, which are asked, that each
//! request ends exactly once, and that the declarations sent to each face are the existing ones.

use super::*;
use crate::zenoh::KeyExpr;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Faces 1 to 4 are clients, 5 to 7 peers.
const FACES: u32 = 7;
const KEYS: [&str; 11] = ["a", "b", "a/b", "a/*", "**", "*/b", "a/**", "a/@c", "@c", "a$*", "a/b/c"];
const KINDS: [&str; 3] = ["D_SUB", "D_QABL", "D_TOKEN"];

#[derive(Clone, Debug)]
enum Step {
    Up(u32),
    Down(u32),
    Declare(u32, usize, u32, usize, bool, u16),
    Undeclare(u32, usize, u32),
    Interest(u32, u32, [bool; 3], Option<usize>, bool),
    NoInterest(u32, u32),
    Put(u32, usize),
    Get(u32, usize, QueryTarget),
    Reply(u32, usize),
    End(u32, usize),
    Links(u32, BTreeSet<u32>),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let face = || 1..=FACES;
    let key = || 0..KEYS.len();
    let target =
        prop::sample::select(vec![QueryTarget::BestMatching, QueryTarget::All, QueryTarget::AllComplete]);
    prop_oneof![
        1 => face().prop_map(Step::Up),
        1 => face().prop_map(Step::Down),
        8 => (face(), 0..3usize, 0..4u32, key(), any::<bool>(), 0..3u16)
            .prop_map(|(f, kind, id, key, complete, distance)| Step::Declare(f, kind, id, key, complete, distance)),
        5 => (face(), 0..3usize, 0..4u32).prop_map(|(f, kind, id)| Step::Undeclare(f, kind, id)),
        3 => (face(), 0..3u32, any::<[bool; 3]>(), prop::option::of(key()), any::<bool>())
            .prop_map(|(f, id, kinds, key, aggregate)| Step::Interest(f, id, kinds, key, aggregate)),
        1 => (face(), 0..3u32).prop_map(|(f, id)| Step::NoInterest(f, id)),
        6 => (face(), key()).prop_map(|(f, key)| Step::Put(f, key)),
        4 => (face(), key(), target).prop_map(|(f, key, target)| Step::Get(f, key, target)),
        3 => (face(), 0..8usize).prop_map(|(f, nth)| Step::Reply(f, nth)),
        4 => (face(), 0..8usize).prop_map(|(f, nth)| Step::End(f, nth)),
        1 => (5..=FACES, prop::collection::btree_set(5..=FACES, 0..3)).prop_map(|(f, links)| Step::Links(f, links)),
        1 => (0..6000u64).prop_map(Step::Wait),
    ]
}

#[derive(Clone, Debug)]
struct Wish {
    kinds: [bool; 3],
    key: Option<KeyExpr>,
    aggregate: bool,
}

#[derive(Default)]
struct Side {
    /// By kind and id; several keys under one id stay until the face goes.
    entities: BTreeMap<(usize, u32), Vec<(KeyExpr, QueryableInfo)>>,
    wishes: BTreeMap<u32, Wish>,
    /// Declarations it was sent: by kind and id.
    told: BTreeMap<(usize, u32), (KeyExpr, QueryableInfo)>,
    /// Declarations it was sent for an interest that has ended: their end will be sent.
    kept: BTreeSet<(usize, KeyExpr)>,
    links: BTreeSet<u32>,
    next_rid: u32,
    /// Its own requests that have not ended.
    open: BTreeSet<u32>,
    /// Requests to it: the rid on this face, and the original request.
    asked: Vec<(u32, u32, u32)>,
}

struct Model {
    world: World,
    sides: BTreeMap<u32, Side>,
    link_state_sn: u64,
    questions: u64,
}

fn is_peer(face: u32) -> bool {
    face >= 5
}

fn key(index: usize) -> KeyExpr {
    KeyExpr::new(KEYS[index]).unwrap()
}

impl Model {
    fn new() -> Self {
        let mut model = Self { world: World::hub(), sides: BTreeMap::new(), link_state_sn: 0, questions: 0 };
        for face in 1..=FACES {
            model.up(face);
        }
        model
    }

    fn up(&mut self, face: u32) {
        self.down(face);
        let whatami = if is_peer(face) { WhatAmI::Peer } else { WhatAmI::Client };
        assert_eq!(self.world.up(face, whatami).len(), usize::from(is_peer(face)));
        self.sides.insert(face, Side::default());
    }

    /// The model's own version of the forwarding rules.
    fn hears(&self, from: u32, to: u32) -> bool {
        let linked = |a: u32, b: u32| self.sides[&a].links.contains(&b);
        from != to && !(is_peer(from) && is_peer(to) && (linked(from, to) || linked(to, from)))
    }

    fn entities(&self, kind: usize) -> impl Iterator<Item = (u32, &KeyExpr, QueryableInfo)> {
        self.sides.iter().flat_map(move |(face, side)| {
            side.entities
                .iter()
                .filter(move |((k, _), _)| *k == kind)
                .flat_map(move |(_, keys)| keys.iter().map(move |(key, info)| (*face, key, *info)))
        })
    }

    fn merged(infos: impl Iterator<Item = QueryableInfo>) -> Option<QueryableInfo> {
        let infos: Vec<_> = infos.collect();
        let complete = infos.iter().any(|info| info.complete);
        let distance = infos.iter().filter(|info| info.complete == complete).map(|info| info.distance).min();
        Some(QueryableInfo { complete, distance: distance? })
    }

    /// Whether `face` is sent declarations of `from`.
    fn audible(&self, from: u32, face: u32, kind: usize) -> bool {
        if from == face { kind == 2 && !is_peer(face) } else { self.hears(from, face) }
    }

    /// Entities of `kind` on exactly `key` for `face`, merged.
    fn exact(&self, face: u32, kind: usize, key: &KeyExpr) -> Option<QueryableInfo> {
        let infos = self.entities(kind).filter(|(from, k, _)| self.audible(*from, face, kind) && *k == key);
        Self::merged(infos.map(|(_, _, info)| info))
    }

    /// Declarations of `kind` that `face` should have, by key.
    fn expected(&self, face: u32, kind: usize) -> BTreeMap<KeyExpr, QueryableInfo> {
        let audible = |from: u32| self.audible(from, face, kind);
        let mut keys = BTreeMap::new();
        let wishes: Vec<&Wish> = self.sides[&face].wishes.values().filter(|wish| wish.kinds[kind]).collect();
        let mut add = |key: &KeyExpr, info: QueryableInfo| {
            let old = keys.insert(key.clone(), info);
            keys.insert(key.clone(), Self::merged([info].into_iter().chain(old)).unwrap());
        };
        for wish in wishes {
            match &wish.key {
                Some(asked) if wish.aggregate => {
                    let infos = self
                        .entities(kind)
                        .filter(|(from, key, _)| audible(*from) && key.intersects(asked))
                        .map(|(_, key, info)| QueryableInfo {
                            complete: info.complete && key.includes(asked),
                            ..info
                        });
                    if let Some(info) = Self::merged(infos) {
                        add(asked, info);
                    }
                }
                asked => {
                    let there: BTreeSet<&KeyExpr> = self
                        .entities(kind)
                        .filter(|(from, key, _)| {
                            audible(*from) && asked.as_ref().is_none_or(|a| a.intersects(key))
                        })
                        .map(|(_, key, _)| key)
                        .collect();
                    for key in there {
                        add(key, self.exact(face, kind, key).unwrap());
                    }
                }
            }
        }
        for (_, key) in self.sides[&face].kept.iter().filter(|(k, _)| *k == kind) {
            if let Some(info) = self.exact(face, kind, key) {
                add(key, info);
            }
        }
        keys
    }

    /// Takes in the output of the node; returns data and requests.
    fn hear(&mut self) -> Vec<(u32, NetworkMessage)> {
        let mut rest = Vec::new();
        for (to, message) in self.world.drain_raw() {
            let side = self.sides.get_mut(&to).expect("nothing is said to a face that is gone");
            let declare = match message {
                NetworkMessage::Declare(declare) => declare,
                NetworkMessage::ResponseFinal(end) => {
                    assert!(side.open.remove(&end.id), "request {} of {to} ends once", end.id);
                    continue;
                }
                NetworkMessage::Response(response) => {
                    assert!(side.open.contains(&response.id), "no answer after the end");
                    rest.push((to, NetworkMessage::Response(response)));
                    continue;
                }
                other => {
                    rest.push((to, other));
                    continue;
                }
            };
            let full = |key: &WireExpr| KeyExpr::new(key.suffix.clone()).unwrap();
            let known = match &declare.body {
                Declaration::Subscriber { id, key } => Some((0, *id, full(key), QueryableInfo::default())),
                Declaration::Queryable { id, key, info } => Some((1, *id, full(key), *info)),
                Declaration::Token { id, key } => Some((2, *id, full(key), QueryableInfo::default())),
                Declaration::UndeclareSubscriber { id, .. } => {
                    assert!(side.told.remove(&(0, *id)).is_some(), "U_ of what was told");
                    None
                }
                Declaration::UndeclareQueryable { id, .. } => {
                    assert!(side.told.remove(&(1, *id)).is_some(), "U_ of what was told");
                    None
                }
                Declaration::UndeclareToken { id, .. } => {
                    assert!(side.told.remove(&(2, *id)).is_some(), "U_ of what was told");
                    None
                }
                Declaration::Final => None,
                other => panic!("the node declares no {other:?}"),
            };
            if let Some((kind, id, key, info)) = known {
                let old = side.told.insert((kind, id), (key.clone(), info));
                if let Some((old_key, old_info)) = old {
                    assert_eq!(old_key, key, "an id keeps its key");
                    assert!(
                        old_info != info || declare.interest_id.is_some(),
                        "{} {key} told twice",
                        KINDS[kind]
                    );
                }
            }
        }
        rest
    }

    fn say(&mut self, face: u32, message: NetworkMessage) -> Vec<(u32, NetworkMessage)> {
        self.world
            .node
            .handle_message(self.world.now(), FaceId(face), message, Reliability::Reliable)
            .unwrap();
        self.hear()
    }

    fn down(&mut self, face: u32) {
        if self.sides.remove(&face).is_none() {
            return;
        }
        for side in self.sides.values_mut() {
            side.asked.retain(|(_, asker, _)| *asker != face);
        }
        self.world.node.handle_face_down(self.world.now(), FaceId(face));
        assert!(self.hear().is_empty());
    }

    fn put(&mut self, face: u32, what: usize) {
        let asked = key(what);
        let expected: BTreeSet<u32> = self
            .entities(0)
            .filter(|(to, key, _)| self.hears(face, *to) && key.intersects(&asked))
            .map(|(to, _, _)| to)
            .collect();
        let got: Vec<u32> =
            self.say(face, super::put(KEYS[what], "v")).into_iter().map(|(to, _)| to).collect();
        assert_eq!(got, expected.into_iter().collect::<Vec<_>>(), "PUT {asked} of {face}");
    }

    fn get(&mut self, face: u32, what: usize, target: QueryTarget) {
        let asked = key(what);
        let mut candidates: BTreeMap<u32, QueryableInfo> = BTreeMap::new();
        for (to, key, info) in self.entities(1) {
            if self.hears(face, to) && key.intersects(&asked) {
                let info = QueryableInfo { complete: info.complete && key.includes(&asked), ..info };
                let old = candidates.get(&to).copied();
                candidates.insert(to, Self::merged([info].into_iter().chain(old)).unwrap());
            }
        }
        match target {
            QueryTarget::All => {}
            QueryTarget::AllComplete => candidates.retain(|_, info| info.complete),
            QueryTarget::BestMatching => {
                for peers in [false, true] {
                    let best = candidates
                        .iter()
                        .filter(|(to, info)| is_peer(**to) == peers && info.complete)
                        .min_by_key(|(to, info)| (info.distance, **to))
                        .map(|(to, _)| *to);
                    if let Some(best) = best {
                        candidates.retain(|to, _| is_peer(*to) != peers || *to == best);
                    }
                }
            }
        }
        let side = self.sides.get_mut(&face).unwrap();
        let rid = side.next_rid;
        side.next_rid += 1;
        side.open.insert(rid);
        self.questions += 1;
        let out = self.say(face, request(rid, KEYS[what], target, Some(5000)));
        let mut got = Vec::new();
        for (to, message) in out {
            let NetworkMessage::Request(request) = message else { panic!("{message:?}") };
            got.push(to);
            self.sides.get_mut(&to).unwrap().asked.push((request.id, face, rid));
        }
        assert_eq!(got, candidates.into_keys().collect::<Vec<_>>(), "GET {asked} of {face}");
        let open = self.sides[&face].open.contains(&rid);
        assert_eq!(open, !got.is_empty(), "ends at once if no face is asked");
    }

    fn reply(&mut self, face: u32, nth: usize) {
        let Some((own, asker, rid)) = self.sides[&face].asked.get(nth).copied() else { return };
        let out = self.say(face, super::reply(own, "a", "x"));
        let [(to, NetworkMessage::Response(response))] = &out[..] else { panic!("one answer: {out:?}") };
        assert_eq!((*to, response.id), (asker, rid));
    }

    fn end(&mut self, face: u32, nth: usize) {
        if nth >= self.sides[&face].asked.len() {
            // The end of a request that does not exist.
            assert!(self.say(face, super::end(1_000_000)).is_empty());
            return;
        }
        let (own, asker, rid) = self.sides.get_mut(&face).unwrap().asked.remove(nth);
        assert!(self.say(face, super::end(own)).is_empty());
        let left = self.sides.values().flat_map(|side| &side.asked).any(|(_, a, r)| (*a, *r) == (asker, rid));
        assert_eq!(self.sides[&asker].open.contains(&rid), left, "ends with the last branch");
    }

    fn wait(&mut self, time: Duration) {
        self.world.now += time;
        self.world.node.handle_timeout(self.world.now());
        let errors = self.hear().len();
        // Every error is a branch that ended; the model has no clock and relies on the node.
        let mut gone = 0;
        for (face, side) in &mut self.sides {
            let pending = &self.world.node.faces[&FaceId(*face)].pending;
            side.asked.retain(|(rid, _, _)| {
                gone += usize::from(!pending.contains_key(rid));
                pending.contains_key(rid)
            });
        }
        assert_eq!(errors, gone);
    }

    fn link(&mut self, face: u32, others: BTreeSet<u32>) {
        self.link_state_sn += 1;
        let record = |psid: u64, number| LinkState {
            psid,
            sn: self.link_state_sn,
            zid: Some(zid(number)),
            ..LinkState::default()
        };
        let mut list =
            vec![LinkState { links: others.iter().map(|o| u64::from(*o)).collect(), ..record(0, face) }];
        list.extend(others.iter().map(|other| record(u64::from(*other), *other)));
        let oam = Oam::new(Oam::LINK_STATE, ExtBody::ZBuf(LinkStateList(list).encode()));
        self.sides.get_mut(&face).unwrap().links = others;
        assert!(self.say(face, NetworkMessage::Oam(oam)).is_empty());
    }

    fn apply(&mut self, step: Step) {
        let there = |face: u32| self.sides.contains_key(&face);
        match step {
            Step::Up(face) => self.up(face),
            Step::Down(face) => self.down(face),
            Step::Wait(ms) => self.wait(Duration::from_millis(ms)),
            Step::Declare(face, kind, id, what, complete, distance) if there(face) => {
                let (message, info) = match kind {
                    0 => (d_sub(id, KEYS[what]), QueryableInfo::default()),
                    1 => (d_qabl(id, KEYS[what], complete, distance), QueryableInfo { complete, distance }),
                    _ => (d_token(id, KEYS[what]), QueryableInfo::default()),
                };
                let keys = self.sides.get_mut(&face).unwrap().entities.entry((kind, id)).or_default();
                match keys.iter_mut().find(|(k, _)| *k == key(what)) {
                    Some(entry) => entry.1 = info,
                    None => keys.push((key(what), info)),
                }
                assert!(self.say(face, message).is_empty());
            }
            Step::Undeclare(face, kind, id) if there(face) => {
                if let Some(keys) = self.sides.get_mut(&face).unwrap().entities.get_mut(&(kind, id)) {
                    keys.pop();
                }
                let message = [u_sub, u_qabl, u_token][kind](id);
                assert!(self.say(face, message).is_empty());
            }
            Step::Interest(face, id, kinds, what, aggregate) if there(face) => {
                let letters: String = "SQT"
                    .chars()
                    .zip(kinds)
                    .filter(|(_, wanted)| *wanted)
                    .map(|(letter, _)| letter)
                    .collect();
                let letters = letters + if aggregate { "A" } else { "" };
                let aggregate = aggregate && !kinds[2] && !is_peer(face) && what.is_some();
                // A reused id stands for the new interest; declarations for the old one may be dropped.
                self.no_interest(face, id);
                let wish = Wish { kinds, key: what.map(key), aggregate };
                self.sides.get_mut(&face).unwrap().wishes.insert(id, wish);
                let message =
                    interest(id, InterestMode::CurrentFuture, &letters, what.map(|what| KEYS[what]));
                assert!(self.say(face, message).is_empty());
            }
            Step::NoInterest(face, id) if there(face) => self.no_interest(face, id),
            Step::Put(face, what) if there(face) => self.put(face, what),
            Step::Get(face, what, target) if there(face) => self.get(face, what, target),
            Step::Reply(face, nth) if there(face) => self.reply(face, nth),
            Step::End(face, nth) if there(face) => self.end(face, nth),
            Step::Links(face, others) if there(face) => self.link(face, others),
            _ => {}
        }
        self.check_told();
        self.forget_ended();
    }

    fn no_interest(&mut self, face: u32, id: u32) {
        let wish = self.sides.get_mut(&face).unwrap().wishes.remove(&id);
        let told: Vec<_> =
            self.sides[&face].told.iter().map(|((kind, _), (key, _))| (*kind, key.clone())).collect();
        for (kind, key) in told {
            let of_it = |wish: &Wish| {
                let asked = wish.key.as_ref();
                wish.kinds[kind] && !wish.aggregate && asked.is_none_or(|a| a.intersects(&key))
            };
            let asked = self.expected(face, kind).contains_key(&key);
            if wish.as_ref().is_some_and(of_it) && !asked && self.exact(face, kind, &key).is_some() {
                self.sides.get_mut(&face).unwrap().kept.insert((kind, key));
            }
        }
        assert!(self.say(face, super::no_interest(id)).is_empty());
        let expected: Vec<_> = (0..3).map(|kind| self.expected(face, kind)).collect();
        let side = self.sides.get_mut(&face).unwrap();
        side.told.retain(|(kind, _), (key, _)| expected[*kind].contains_key(key));
    }

    /// Ended declarations are not sent.
    fn forget_ended(&mut self) {
        let faces: Vec<u32> = self.sides.keys().copied().collect();
        for face in faces {
            let mut kept = core::mem::take(&mut self.sides.get_mut(&face).unwrap().kept);
            kept.retain(|(kind, key)| self.exact(face, *kind, key).is_some());
            self.sides.get_mut(&face).unwrap().kept = kept;
        }
    }

    fn check_told(&self) {
        for (face, side) in &self.sides {
            for (kind, name) in KINDS.into_iter().enumerate() {
                let told: Vec<_> =
                    side.told.iter().filter(|((k, _), _)| *k == kind).map(|(_, told)| told.clone()).collect();
                let by_key: BTreeMap<KeyExpr, QueryableInfo> = told.iter().cloned().collect();
                assert_eq!(by_key.len(), told.len(), "each key under one id");
                assert_eq!(by_key, self.expected(*face, kind), "{name} at {face}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn what_the_node_does_is_what_the_model_says(steps in prop::collection::vec(step(), 1..120)) {
        let mut model = Model::new();
        for step in steps {
            model.apply(step);
        }
        // All open requests end.
        model.wait(Duration::from_secs(6));
        for (face, side) in &model.sides {
            assert!(side.open.is_empty(), "requests of {face} without end: {:?}", side.open);
            assert!(side.asked.is_empty());
        }
        prop_assert_eq!(model.world.node.poll_timeout(), None);
        prop_assert_eq!(model.world.node.stats().requests_in, model.questions);
        for face in 1..=FACES {
            model.down(face);
        }
        prop_assert_eq!(model.world.node.tables.all().count(), 0);
        prop_assert!(model.world.node.faces.is_empty());
    }
}
