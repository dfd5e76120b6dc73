//! Invariants under random events: the counters of a session equal a fresh count.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const KEYS: [&str; 7] = ["a", "a/b", "a/*", "**", "b", "a/b/c", "*/b"];

#[derive(Clone, Debug)]
enum Step {
    Publisher(usize),
    Querier(usize),
    Subscriber(usize, Locality),
    Queryable(usize, bool),
    Token(usize),
    Watch(usize, bool),
    Undeclare(u32),
    North(Option<u32>, u32, usize, u8, bool),
    NorthUndeclares(u32, Option<usize>, u8),
    Final(u32),
    Put(usize),
    Get(usize),
    LivelinessGet(usize),
    Request(usize),
    Finish(u64),
    Answer(u32, usize, bool),
    Down,
    Up(bool),
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS.len();
    let kind = || 0_u8..3;
    let locality = prop_oneof![Just(Locality::Any), Just(Locality::Remote), Just(Locality::SessionLocal)];
    prop_oneof![
        1 => key().prop_map(Step::Publisher),
        1 => key().prop_map(Step::Querier),
        1 => (key(), locality).prop_map(|(key, origin)| Step::Subscriber(key, origin)),
        1 => (key(), any::<bool>()).prop_map(|(key, complete)| Step::Queryable(key, complete)),
        1 => key().prop_map(Step::Token),
        1 => (key(), any::<bool>()).prop_map(|(key, history)| Step::Watch(key, history)),
        4 => (1_u32..20).prop_map(Step::Undeclare),
        6 => (prop::option::of(0_u32..8), 0_u32..6, key(), kind(), any::<bool>())
            .prop_map(|(interest, id, key, kind, complete)| Step::North(interest, id, key, kind, complete)),
        4 => (0_u32..6, prop::option::of(key()), kind())
            .prop_map(|(id, key, kind)| Step::NorthUndeclares(id, key, kind)),
        2 => (0_u32..8).prop_map(Step::Final),
        1 => key().prop_map(Step::Put),
        1 => key().prop_map(Step::Get),
        1 => key().prop_map(Step::LivelinessGet),
        1 => key().prop_map(Step::Request),
        1 => (1_u64..20).prop_map(Step::Finish),
        1 => (1_u32..5, key(), any::<bool>()).prop_map(|(id, key, last)| Step::Answer(id, key, last)),
        1 => Just(Step::Down),
        1 => any::<bool>().prop_map(Step::Up),
        1 => (0_u64..8_000).prop_map(Step::Time),
    ]
}

fn declaration(kind: u8, id: u32, text: &str, complete: bool) -> Declaration {
    match kind {
        0 => d_subscriber(id, text),
        1 => d_queryable(id, text, complete),
        _ => d_token(id, text),
    }
}

fn undeclaration(kind: u8, id: u32, text: Option<&str>) -> Declaration {
    let key = text.map(WireExpr::full);
    match kind {
        0 => Declaration::UndeclareSubscriber { id, key },
        1 => Declaration::UndeclareQueryable { id, key },
        _ => Declaration::UndeclareToken { id, key },
    }
}

fn act(rig: &mut Rig, step: Step) {
    let text = |index: usize| KEYS[index];
    match step {
        Step::Publisher(key) => drop(rig.publisher(text(key))),
        Step::Querier(key) => drop(rig.querier(text(key))),
        Step::Subscriber(at, origin) => {
            rig.session.declare_subscriber(rig.now, key(text(at)), SubscriberOptions { origin }).unwrap();
        }
        Step::Queryable(at, complete) => {
            let options = QueryableOptions { complete, origin: Locality::Any };
            rig.session.declare_queryable(rig.now, key(text(at)), options).unwrap();
        }
        Step::Token(key) => drop(rig.token(text(key))),
        Step::Watch(key, history) => drop(rig.watch(text(key), history)),
        Step::Undeclare(id) => drop(rig.session.undeclare(rig.now, EntityId(id))),
        Step::North(interest, id, key, kind, complete) => {
            rig.declared(interest, declaration(kind, id, text(key), complete));
        }
        Step::NorthUndeclares(id, key, kind) => rig.declared(None, undeclaration(kind, id, key.map(text))),
        Step::Final(id) => rig.final_of(id),
        Step::Put(key) => drop(rig.put(text(key), "x")),
        Step::Get(key) => drop(rig.get(text(key))),
        Step::LivelinessGet(at) => drop(rig.session.liveliness_get(rig.now, key(text(at)), None)),
        Step::Request(key) => rig.requested(1, WireExpr::full(text(key))),
        Step::Finish(id) => rig.finish(id),
        Step::Answer(id, key, false) => rig.replied(id, text(key), put("x")),
        Step::Answer(id, _, true) => rig.finished(id),
        Step::Down => rig.down(),
        Step::Up(peer) => rig.up(if peer { WhatAmI::Peer } else { WhatAmI::Router }),
        Step::Time(millis) => rig.pass(millis),
    }
}

/// Checks everything that can be counted anew.
fn check(rig: &Rig) {
    let session = &rig.session;
    let mut living: HashMap<KeyExpr, usize> = HashMap::new();
    for token in session.entities.tokens.values() {
        *living.entry(token.key.inner.clone()).or_default() += 1;
    }
    if let Some(north) = &session.north {
        for (key, _) in north.declared[EntityKind::Token as usize].iter() {
            *living.entry(key.clone()).or_default() += 1;
        }
    }
    assert_eq!(session.living, living);
    session.check_interests();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn counts_are_what_there_is(steps in prop::collection::vec(step(), 1..60)) {
        let mut rig = Rig::new();
        let mut matching: HashMap<EntityId, bool> = HashMap::new();
        let (mut gets, mut done) = (0, 0);
        for step in steps {
            gets += usize::from(matches!(step, Step::Get(_) | Step::LivelinessGet(_)));
            act(&mut rig, step);
            check(&rig);
            while let Some(event) = rig.session.poll_event() {
                match event {
                    Event::Matching { entity, matching: now } => {
                        prop_assert_ne!(matching.insert(entity, now), Some(now), "no news");
                    }
                    Event::GetDone { .. } => done += 1,
                    _ => {}
                }
            }
            rig.session.transmits.clear();
        }
        for (entity, told) in matching {
            if let Some(now) = rig.session.matching(entity) {
                prop_assert_eq!(now, told);
            }
        }
        // Time ends every open get.
        for id in 1..200 {
            rig.finish(id);
        }
        rig.pass(10_000);
        done += core::iter::from_fn(|| rig.session.poll_event())
            .filter(|event| matches!(event, Event::GetDone { .. }))
            .count();
        prop_assert_eq!(gets, done);
        prop_assert_eq!(rig.session.poll_timeout(), None);
    }
}
