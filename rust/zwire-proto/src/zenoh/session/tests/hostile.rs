//! A north that exceeds the memory bounds.

use super::*;
use crate::zenoh::session::limits::{
    MAX_DECLARED_KEY_BYTES, MAX_HELD_REPLY_BYTES, MAX_PENDING_QUERIES, MAX_ROUTE_BYTES,
};

fn first_error(rig: &mut Rig, mut message: impl FnMut(u32) -> Declaration) -> (u32, NorthError) {
    for count in 1..100_000 {
        let declare = NetworkMessage::Declare(Declare::new(None, message(count)));
        if let Err(error) = rig.session.handle_message(rig.now, declare, Reliability::Reliable) {
            return (count, error);
        }
    }
    panic!("it may go on forever");
}

#[test]
fn key_bytes_are_bounded_in_each_table() {
    let long = |count: u32| WireExpr::full(format!("{count}{}", "k".repeat(60_000)));
    let enough = u32::try_from(MAX_DECLARED_KEY_BYTES / 60_000 + 2).unwrap();
    let mut rig = Rig::new();
    let id = |count: u32| u16::try_from(count).unwrap();
    let (count, error) =
        first_error(&mut rig, |count| Declaration::KeyExpr { id: id(count), key: long(count) });
    assert!(count <= enough && error.limit == MAX_DECLARED_KEY_BYTES);
    assert_eq!(error.close_reason(), crate::zenoh::wire::CloseReason::INVALID);
    rig.publisher("**");
    let (count, _) = first_error(&mut rig, |id| Declaration::Subscriber { id, key: long(id) });
    assert!(count <= enough);
    // Withdrawn declarations do not count.
    rig.down();
    rig.up(WhatAmI::Router);
    for id in 1..=enough {
        rig.declared(None, Declaration::Subscriber { id, key: long(id) });
        rig.declared(None, u_subscriber(id));
        rig.session.events.clear();
    }
}

#[test]
fn declarations_that_nobody_wants_take_no_room() {
    let mut rig = Rig::new();
    for id in 1..10_000 {
        rig.declared(None, d_subscriber(id, "some/key"));
        rig.declared(Some(id), d_queryable(id, "some/key", true));
        rig.declared(None, d_token(id, "some/key"));
        rig.final_of(id);
    }
    let north = rig.session.north.as_ref().unwrap();
    for kind in [EntityKind::Subscriber, EntityKind::Queryable, EntityKind::Token] {
        assert_eq!(north.declared[kind as usize].iter().count(), 0);
    }
    assert_eq!(rig.session.stats().dropped.declare_ignored, 39_996);
}

#[test]
fn queries_that_wait_are_bounded_and_the_rest_is_finished() {
    let mut rig = Rig::new();
    rig.queryable("q");
    rig.sent();
    let count = u32::try_from(MAX_PENDING_QUERIES).unwrap();
    for id in 0..count + 10 {
        rig.requested(id, WireExpr::full("q"));
    }
    assert_eq!(rig.sent().len(), 10);
    assert_eq!(rig.events().len(), MAX_PENDING_QUERIES);
    assert_eq!(rig.session.stats().dropped.request_refused, 10);
    rig.finish(2);
    rig.sent();
    rig.requested(1, WireExpr::full("q"));
    assert_eq!(rig.events().len(), 1, "there is room again");
}

#[test]
fn keys_that_never_repeat_do_not_fill_the_memory_of_routes() {
    let mut rig = Rig::new();
    rig.subscriber("a/*");
    let most = MAX_ROUTE_BYTES / 100_000;
    let long = "h".repeat(50_000);
    for count in 0..2 * most {
        rig.pushed(WireExpr::full(format!("a/{long}{count}")), put("x"));
        assert_eq!(rig.events().len(), 1);
        assert!(rig.session.in_routes.len() <= most);
    }
}

#[test]
fn held_replies_are_bounded_and_none_is_lost() {
    let mut rig = Rig::new();
    rig.get("k/**");
    let body = Bytes::from(vec![0; 1 << 20]);
    let reply = |rig: &mut Rig, count| {
        rig.replied(1, &format!("k/{count}"), PushBody::Put(Put::new(body.clone())));
        core::iter::from_fn(|| rig.session.poll_event()).count()
    };
    let room = MAX_HELD_REPLY_BYTES >> 20;
    assert_eq!((0..room - 1).map(|count| reply(&mut rig, count)).sum::<usize>(), 0);
    assert_eq!(reply(&mut rig, room), room, "all that was held");
    assert_eq!(reply(&mut rig, room + 1), 1, "from now on as they come");
    rig.finished(1);
    assert_eq!(rig.events(), ["1: Completed"]);
    assert_eq!(rig.session.stats().dropped.consolidation_overflow, 1);
}
