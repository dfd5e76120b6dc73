//! REQUEST, RESPONSE, RESPONSE_FINAL (`zenoh-behaviour` 3.9, 5.4, 9.4 c and d).

use super::*;
use QueryTarget::{All, AllComplete, BestMatching};
use core::num::NonZeroU32;

#[test]
fn a_query_goes_out_under_a_new_number_and_its_answers_come_back_under_the_old() {
    let mut world = World::with_clients(2);
    world.says(2, d_qabl(20, "d/q/**", true, 0));
    assert_eq!(world.says(1, get(9, "d/q/one")), ["2: REQUEST 1 d/q/one"]);
    assert_eq!(world.says(2, reply(1, "d/q/one", "answer")), ["1: RESPONSE 9 d/q/one PUT answer"]);
    assert_eq!(world.says(2, error(1, "d/q/one", "oops")), ["1: RESPONSE 9 d/q/one ERR oops"]);
    assert_eq!(world.says(2, end(1)), ["1: FINAL 9"]);
    // Late: ignored.
    assert!(world.says(2, reply(1, "d/q/one", "late")).is_empty());
    assert!(world.says(2, end(1)).is_empty());
    assert_eq!(world.node.stats().unknown_requests, 2);
    assert_eq!(world.says(1, get(9, "d/q/one")), ["2: REQUEST 2 d/q/one"]);
}

#[test]
fn a_query_that_nobody_can_answer_ends_at_once() {
    let mut world = World::with_clients(2);
    world.says(1, d_qabl(1, "a", true, 0));
    world.says(2, d_sub(1, "a"));
    assert_eq!(world.says(1, get(3, "nothing/here")), ["1: FINAL 3"]);
    // The session asks its own queryable itself.
    assert_eq!(world.says(1, get(4, "a")), ["1: FINAL 4"]);
    // Unknown scope, wrong key.
    assert_eq!(world.says(1, get(5, "7S:/x")), ["1: FINAL 5"]);
    assert_eq!(world.says(1, get(6, "a//b")), ["1: FINAL 6"]);
    assert_eq!(world.node.poll_timeout(), None);
}

fn three_queryables() -> World {
    let mut world = World::with_clients(4);
    world.says(2, d_qabl(1, "q/a", true, 2));
    world.says(3, d_qabl(1, "q/**", true, 1));
    world.says(4, d_qabl(1, "q/a", false, 0));
    world
}

#[test]
fn the_target_chooses_who_is_asked() {
    let mut world = three_queryables();
    let mut asked = |key, target| -> Vec<String> {
        let out = world.says(1, request(1, key, target, None));
        out.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect()
    };
    assert_eq!(asked("q/a", BestMatching), ["3"]);
    assert_eq!(asked("q/a", All), ["2", "3", "4"]);
    assert_eq!(asked("q/a", AllComplete), ["2", "3"]);
    // Complete counts only where the queryable includes the query.
    assert_eq!(asked("q/*", AllComplete), ["3"]);
    assert_eq!(asked("q/*", BestMatching), ["3"]);
    assert_eq!(asked("**", AllComplete), ["1"], "the end, to the asker");
    assert_eq!(asked("**", BestMatching), ["2", "3", "4"], "none is complete");
}

#[test]
fn a_face_with_several_queryables_is_asked_once() {
    let mut world = World::with_clients(2);
    world.says(2, d_qabl(1, "q/a", false, 0));
    world.says(2, d_qabl(2, "q/*", true, 0));
    assert_eq!(world.says(1, request(1, "q/a", All, None)), ["2: REQUEST 1 q/a"]);
}

#[test]
fn only_the_last_end_ends_a_query() {
    let mut world = three_queryables();
    world.says(1, request(7, "q/a", All, None));
    assert!(world.says(3, end(1)).is_empty());
    assert!(world.says(3, end(1)).is_empty());
    assert_eq!(world.says(4, reply(1, "q/a", "x")), ["1: RESPONSE 7 q/a PUT x"]);
    assert!(world.says(4, end(1)).is_empty());
    assert_eq!(world.says(2, end(1)), ["1: FINAL 7"]);
    assert_eq!(world.node.poll_timeout(), None);
}

#[test]
fn what_the_asker_said_is_passed_on() {
    let mut world = World::with_clients(2);
    world.says(2, d_key(3, "q"));
    world.says(2, d_qabl(1, "q/**", false, 0));
    let query =
        Query { parameters: Text::from("a=1;b=2"), attachment: Some("att".into()), ..Query::default() };
    let asked = Request {
        qos: Qos(0x11),
        target: All,
        budget: NonZeroU32::new(5),
        timeout_ms: Some(3000),
        node_id: 2,
        ..Request::new(8, wire("q/x"), query.clone())
    };
    world
        .node
        .handle_message(world.now(), FaceId(1), NetworkMessage::Request(asked.clone()), Reliability::Reliable)
        .unwrap();
    let expected = Request { id: 1, key: wire("3R:/x"), node_id: 0, ..asked };
    assert_eq!(world.drain_raw(), [(2, NetworkMessage::Request(expected))]);
    // The end carries the QoS of the query, whatever QoS the replier writes.
    world.node.handle_message(world.now(), FaceId(2), end(1), Reliability::Reliable).unwrap();
    let expected = ResponseFinal { id: 8, qos: Qos(0x11), timestamp: None };
    assert_eq!(world.drain_raw(), [(1, NetworkMessage::ResponseFinal(expected))]);
}

/// No more replies are forwarded than the querier has asked for, of all branches together.
#[test]
fn a_budget_bounds_the_replies() {
    let mut world = World::with_clients(3);
    world.says(2, d_qabl(1, "q/*", false, 0));
    world.says(3, d_qabl(1, "q/*", false, 0));
    let limited = |rid| {
        NetworkMessage::Request(Request {
            target: All,
            budget: NonZeroU32::new(2),
            timeout_ms: Some(3000),
            ..Request::new(rid, wire("q/*"), Query::default())
        })
    };
    assert_eq!(world.says(1, limited(7)).len(), 2);
    assert_eq!(world.says(2, reply(1, "q/a", "x")), ["1: RESPONSE 7 q/a PUT x"]);
    assert_eq!(world.says(3, error(1, "q/b", "no")).len(), 2, "the error, and the end");
    assert!(world.says(2, reply(1, "q/c", "z")).is_empty());
    assert!(world.says(2, end(1)).is_empty() && world.says(3, end(1)).is_empty());
    assert_eq!(world.node.poll_timeout(), None);
    // With fewer replies the branches end it.
    assert_eq!(world.says(1, limited(8)).len(), 2);
    assert_eq!(world.says(2, reply(2, "q/a", "x")).len(), 1);
    assert!(world.says(2, end(2)).is_empty());
    assert_eq!(world.says(3, end(2)), ["1: FINAL 8"]);
}

/// The ids of requests stay within the width negotiated with the link; with all of them pending, the branch is
/// left out.
#[test]
fn request_ids_are_in_the_negotiated_range() {
    let mut world = World::with_clients(2);
    world.node.limit_request_ids(FaceId(2), crate::zenoh::wire::Resolution::new(2, 0));
    world.says(2, d_qabl(1, "q", false, 0));
    let mut ids = Vec::new();
    for round in 0..300 {
        world.node.handle_message(world.now(), FaceId(1), get(round, "q"), Reliability::Reliable).unwrap();
        for (to, message) in world.drain_raw() {
            let NetworkMessage::Request(request) = message else { panic!("{to}") };
            ids.push(request.id);
            world
                .node
                .handle_message(world.now(), FaceId(2), end(request.id), Reliability::Reliable)
                .unwrap();
        }
        world.drain_raw();
    }
    assert_eq!(ids.len(), 300);
    assert!(ids.iter().all(|id| (1..=0x7f).contains(id)), "{ids:?}");
    let sent = (0..0x80).map(|round| world.says(1, get(1000 + round, "q")));
    let ended = sent.filter(|out| out.iter().any(|line| line.contains("FINAL"))).count();
    assert_eq!(ended, 1, "the one that found no id ends at once");
}

/// The bytes of `zenoh-wire` E40.
#[test]
fn a_branch_that_takes_too_long_ends_with_an_error() {
    let mut world = World::with_clients(2);
    world.says(2, d_qabl(1, "q", false, 0));
    world.says(1, request(9, "q", BestMatching, Some(700)));
    assert_eq!(world.node.poll_timeout(), Some(Duration::from_millis(700)));
    assert!(world.after(Duration::from_millis(699)).is_empty());
    world.now += Duration::from_millis(1);
    world.node.handle_timeout(world.now());
    let out: String =
        world.drain_raw().iter().map(|(to, message)| format!("{to}>{} ", hex(message))).collect();
    assert_eq!(out, "1>db0900a10d4303005200050754696d656f7574 1>9a09210d ");
    assert!(world.says(2, end(1)).is_empty());
    assert!(world.says(2, reply(1, "q", "late")).is_empty());
    assert_eq!(world.node.stats().query_timeouts, 1);
}

#[test]
fn each_branch_has_its_time() {
    let mut world = three_queryables();
    world.says(1, request(7, "q/a", All, None));
    world.says(3, end(1));
    assert_eq!(
        world.after(Duration::from_secs(10)),
        ["1: RESPONSE 7 (none) ERR Timeout", "1: RESPONSE 7 (none) ERR Timeout", "1: FINAL 7"]
    );
    // Zero is not a usable timeout; one beyond the range of time never expires.
    world.says(1, request(8, "q/a", BestMatching, Some(0)));
    assert_eq!(world.node.poll_timeout(), Some(Duration::from_secs(20)));
    world.says(1, request(9, "q/a", BestMatching, Some(u64::MAX)));
    assert_eq!(world.after(Duration::from_secs(10)).len(), 2);
    assert!(world.node.poll_timeout().unwrap() > Duration::from_secs(1 << 50));
}

#[test]
fn a_lost_replier_ends_its_part_without_an_error() {
    let mut world = three_queryables();
    world.says(1, request(7, "q/a", All, None));
    assert!(world.down(2).is_empty());
    assert!(world.down(3).is_empty());
    assert_eq!(world.down(4), ["1: FINAL 7"]);
}

#[test]
fn a_lost_asker_is_forgotten() {
    let mut world = three_queryables();
    world.says(1, request(7, "q/a", All, None));
    assert!(world.down(1).is_empty());
    assert_eq!(world.node.poll_timeout(), None);
    world.up(1, WhatAmI::Client);
    assert!(world.says(2, reply(1, "q/a", "late")).is_empty());
    assert!(world.says(2, end(1)).is_empty());
    assert!(world.node.faces.values().all(|face| face.pending.is_empty()));
}

#[test]
fn keys_of_answers_are_full_and_only_an_error_may_have_none() {
    let mut world = World::with_clients(2);
    world.says(2, d_qabl(1, "q/**", false, 0));
    world.says(2, d_key(1, "q"));
    world.says(1, d_key(1, "q"));
    world.says(1, get(1, "q/*"));
    assert_eq!(world.says(2, reply(1, "1S:/a", "x")), ["1: RESPONSE 1 q/a PUT x"]);
    assert_eq!(world.says(2, error(1, "", "x")), ["1: RESPONSE 1 (none) ERR x"]);
    assert!(world.says(2, reply(1, "", "x")).is_empty());
    assert!(world.says(2, reply(1, "q//a", "x")).is_empty());
    assert!(world.says(2, error(1, "5S:", "x")).is_empty());
    assert_eq!(world.says(2, end(1)), ["1: FINAL 1"]);
}

#[test]
fn an_undeclared_queryable_may_still_answer() {
    let mut world = World::with_clients(2);
    world.says(2, d_qabl(1, "q", false, 0));
    world.says(1, get(1, "q"));
    world.says(2, u_qabl(1));
    assert_eq!(world.says(2, reply(1, "q", "x")), ["1: RESPONSE 1 q PUT x"]);
    assert_eq!(world.says(2, end(1)), ["1: FINAL 1"]);
    assert_eq!(world.says(1, get(2, "q")), ["1: FINAL 2"]);
}
