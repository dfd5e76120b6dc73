//! Barriers: when all nodes that need a declaration have it.

use super::*;
use crate::zenoh::KeyExpr;
use InterestMode::Current;

const KEY: Option<&str> = Some(crate::zenoh::BARRIER_KEY);

fn d_final(id: u32) -> NetworkMessage {
    NetworkMessage::Declare(Declare::new(Some(id), Declaration::Final))
}

fn peer(neighbours: u32) -> World {
    let mut world = World::new(NodeMode::Peer);
    let own = Remote { zid: zid(0xf000), whatami: WhatAmI::Peer };
    world.node.handle_face_up(world.now(), FaceId(1), own, FaceKind::Local);
    for face in 2..2 + neighbours {
        world.up(face, WhatAmI::Peer);
        world.says(face, d_final(0));
    }
    world
}

#[test]
fn a_hub_answers_at_once() {
    let mut world = World::with_clients(2);
    world.up(3, WhatAmI::Peer);
    for face in 1..=3 {
        assert_eq!(world.says(face, interest(7, Current, "KT", KEY)), [format!("{face}: I=7 D_FINAL")]);
    }
}

#[test]
fn a_peer_without_neighbours_answers_at_once() {
    assert_eq!(peer(0).says(1, interest(7, Current, "KT", KEY)), ["1: I=7 D_FINAL"]);
}

#[test]
fn a_peer_answers_its_session_when_all_neighbours_have_answered() {
    let mut world = peer(1);
    world.up(3, WhatAmI::Router);
    assert_eq!(world.says(1, d_sub(1, "a")), ["2: D_SUB 1 a", "3: D_SUB 1 a"]);
    assert_eq!(
        world.says(1, interest(7, Current, "KT", KEY)),
        ["2: INTEREST 2 Current @zwire/barrier", "3: INTEREST 2 Current @zwire/barrier"]
    );
    assert!(world.says(2, d_final(2)).is_empty());
    assert!(world.says(2, d_final(2)).is_empty(), "one answer each");
    assert_eq!(world.says(3, d_final(2)), ["1: I=7 D_FINAL"]);
    // A neighbour's barrier is answered at once: it asks the others itself.
    assert_eq!(world.says(2, interest(9, Current, "KT", KEY)), ["2: I=9 D_FINAL"]);
}

#[test]
fn a_lost_neighbour_is_not_waited_for_and_time_is_no_answer() {
    let mut world = peer(2);
    world.says(1, interest(7, Current, "KT", KEY));
    assert!(world.says(2, d_final(1)).is_empty());
    assert!(world.after(Duration::from_secs(60)).is_empty());
    assert!(world.down(3).contains(&"1: I=7 D_FINAL".to_owned()));
    assert_eq!(world.node.poll_timeout(), None);
}

#[test]
fn the_end_of_a_neighbours_first_declarations_is_no_answer() {
    let mut world = peer(0);
    world.up(2, WhatAmI::Peer);
    world.says(1, interest(7, Current, "KT", KEY));
    assert!(world.says(2, d_final(0)).is_empty());
    assert_eq!(world.says(2, d_final(1)), ["1: I=7 D_FINAL"]);
}

#[test]
fn an_asker_that_is_gone_leaves_nothing_behind() {
    let mut world = peer(1);
    world.up(3, WhatAmI::Client);
    world.says(3, interest(7, Current, "KT", KEY));
    world.down(3);
    assert_eq!(world.node.poll_timeout(), None);
    assert!(world.says(2, d_final(1)).is_empty());
    // A barrier with a neighbour that never answers is dropped after an hour.
    world.says(1, interest(8, Current, "KT", KEY));
    assert!(world.node.poll_timeout().is_some());
    assert!(world.after(Duration::from_secs(3600)).is_empty());
    assert_eq!(world.node.poll_timeout(), None);
    assert!(world.says(2, d_final(2)).is_empty());
}

#[test]
fn declarations_of_neighbours_are_counted_one_by_one() {
    let mut world = peer(2);
    world.says(2, d_sub(1, "a/*"));
    world.says(3, d_sub(1, "a/*"));
    world.says(3, d_sub(2, "a/b"));
    world.says(1, d_sub(1, "a/b"));
    world.says(2, d_qabl(3, "a/**", true, 0));
    world.says(3, d_qabl(3, "a/b", false, 0));
    let key = KeyExpr::new("a/b").unwrap();
    let count = |queryables, complete| world.node.count_matching(FaceId(1), queryables, &key, complete);
    assert_eq!((count(false, false), count(true, false), count(true, true)), (3, 2, 1));
}
