//! A face that exceeds a limit is closed, and other faces are not affected.

use super::*;
use crate::zenoh::{KeyExpr, wire::CloseReason};

fn bounded(limits: impl FnOnce(&mut FaceLimits)) -> World {
    let mut world = World::hub();
    limits(&mut world.node.config.limits);
    for face in 1..=3 {
        world.up(face, WhatAmI::Client);
    }
    world
}

/// Face 1 repeats `message(n)` until it is refused; then it goes, and 2 and 3 work as before.
#[track_caller]
fn refused(world: &mut World, message: impl Fn(u32) -> NetworkMessage) -> (u32, FaceError) {
    world.says(2, d_sub(1, "well"));
    let (count, error) = (0..100_000)
        .find_map(|n| world.try_says(1, message(n)).err().map(|error| (n, error)))
        .expect("there is a bound");
    assert!(error.close_reason().is_some());
    assert_eq!(world.says(3, put("well", "1")), ["2: well PUT 1"]);
    world.down(1);
    assert_eq!(world.says(3, put("well", "2")), ["2: well PUT 2"]);
    world.steps();
    assert_eq!(world.node.tables.all().count(), 1);
    (count, error)
}

#[test]
fn declarations_are_bounded_in_bytes() {
    let limits = |limits: &mut FaceLimits| limits.table_bytes = 1 << 20;
    let text = |n| format!("some/key/{n}");
    for message in [
        &(|n| d_sub(n, &text(n))) as &dyn Fn(u32) -> NetworkMessage,
        &|n| d_qabl(n, &text(n), false, 0),
        &|n| d_token(n, &text(n)),
        // One id, one key, repeatedly under other ids: each is charged.
        &|n| d_sub(n, "x"),
        &|n| d_sub(1, &text(n)),
        &|n| d_key(n as u16, &text(n)),
        &|n| interest(n, InterestMode::Future, "S", Some(&text(n))),
    ] {
        let (count, error) = refused(&mut bounded(limits), message);
        assert!((1000..5000).contains(&count), "{count}");
        assert!(matches!(error, FaceError::TableFull { bound: 1_048_576, .. }), "{error}");
        assert_eq!(error.close_reason(), Some(CloseReason::GENERIC));
    }
    // A long key costs its length.
    let (count, _) = refused(&mut bounded(limits), |n| d_sub(n, &format!("{n}{}", "x".repeat(60_000))));
    assert_eq!(count, 17);
}

#[test]
fn undeclaring_gives_the_budget_back() {
    let mut world = bounded(|limits| limits.table_bytes = 10_000);
    for n in 0..1000 {
        world.says(1, d_sub(n, &format!("a/{n}")));
        world.says(1, d_key(7, &format!("a/{n}")));
        world.says(1, interest(n, InterestMode::Future, "T", Some("a/*")));
        world.says(1, interest(n, InterestMode::Future, "T", None));
        world.says(1, u_sub(n));
        world.says(1, u_key(7));
        world.says(1, no_interest(n));
    }
}

#[test]
fn the_number_of_interests_is_bounded() {
    let mut world = bounded(|limits| limits.interests = 100);
    let (count, error) =
        refused(&mut world, |n| interest(n, InterestMode::CurrentFuture, "SQT", Some(&format!("k/{n}"))));
    assert_eq!((count, error), (100, FaceError::TooManyInterests { bound: 100 }));
}

#[test]
fn unfinished_queries_are_bounded_and_end_with_their_asker() {
    let mut world = bounded(|limits| limits.queries = 100);
    world.says(2, d_qabl(1, "q", false, 0));
    for rid in 0..100 {
        assert_eq!(world.says(1, get(rid, "q")).len(), 1);
    }
    assert_eq!(world.try_says(1, get(100, "q")), Err(FaceError::TooManyQueries { bound: 100 }));
    // An interest that ends makes room.
    world.says(2, end(1));
    assert_eq!(world.says(1, get(100, "q")).len(), 1);
    world.down(1);
    assert_eq!(world.node.poll_timeout(), None);
    assert!(world.node.faces.values().all(|face| face.pending.is_empty()));
}

/// Found by the fuzz target `zenoh_node`: the subscribers of an answer fit, its queryables do not.
#[test]
fn a_refused_interest_leaves_no_part_of_its_answer() {
    let mut refusals = 0;
    for node_bytes in (0..20_000).step_by(96) {
        let mut world = bounded(|limits| limits.node_bytes = node_bytes);
        let declared = (0..10).all(|n| {
            world.try_says(2, d_sub(n, &format!("s/{n}"))).is_ok()
                && world.try_says(2, d_qabl(n, &format!("q/{n}"), false, 0)).is_ok()
        });
        if declared && world.try_says(1, interest(1, InterestMode::CurrentFuture, "SQ", None)).is_err() {
            refusals += 1;
            assert_eq!(world.drain(), Vec::<String>::new(), "{node_bytes}");
            world.node.handle_face_down(world.now(), FaceId(1));
            assert!(world.drain().iter().all(|line| !line.starts_with("1:")), "{node_bytes}");
        }
    }
    assert!(refusals > 10, "{refusals}");
}

#[test]
fn a_face_that_is_not_there_is_the_drivers_mistake() {
    let mut world = World::hub();
    for message in [put("a", ""), d_sub(1, "a"), get(1, "a"), reply(1, "a", ""), end(1), no_interest(1)] {
        let error = world.try_says(7, message).unwrap_err();
        assert_eq!(error, FaceError::UnknownFace);
        assert_eq!(error.close_reason(), None);
    }
    assert!(world.down(7).is_empty());
}

#[test]
fn nothing_is_left_of_a_face_that_went() {
    let mut world = bounded(|_| {});
    world.says(1, d_key(1, "a/b"));
    world.says(1, d_sub(1, "1S:/c/d/e/f/g/h/i/j"));
    world.says(1, d_qabl(1, "**", true, 0));
    world.says(1, d_token(1, "t"));
    world.says(1, interest(1, InterestMode::CurrentFuture, "SQT", None));
    world.says(2, get(1, "x"));
    assert_eq!(world.down(1), ["2: FINAL 1"]);
    assert_eq!(world.node.tables.all().count(), 0);
    assert!(world.node.queries.next_deadline().is_none());
    assert!(world.says(2, d_sub(1, "x")).is_empty());
}

#[test]
fn long_keys_with_wildcards_are_refused_and_shorter_ones_are_dear() {
    let mut world = bounded(|limits| limits.table_bytes = 1 << 20);
    world.says(2, d_sub(1, "**"));
    let plain = "x".repeat(60_000);
    assert_eq!(world.says(3, put(&plain, "")).len(), 1);
    assert!(world.says(3, put(&format!("*/{plain}"), "")).is_empty());
    assert!(world.says(3, d_sub(1, &format!("*/{plain}"))).is_empty());
    assert_eq!(world.says(3, get(1, &format!("*/{plain}"))), ["3: FINAL 1"]);
    assert_eq!(world.node.stats().invalid_keys, 3);
    let slow = |n| d_sub(n, &format!("*/{n}{}", "x".repeat(4000)));
    let (count, error) = refused(&mut bounded(|_| {}), slow);
    assert!((90..110).contains(&count), "{count}");
    assert!(matches!(error, FaceError::SlowKeys { .. }), "{error}");
}

/// Declarations of 64 faces: the node keeps its bound, and each face has a share.
#[test]
fn the_node_has_a_bound_in_which_each_face_has_a_share() {
    let mut world = bounded(|limits| limits.node_bytes = 1 << 20);
    (4..=64).for_each(|face| _ = world.up(face, WhatAmI::Client));
    let mut counts = Vec::new();
    for face in 1..=64 {
        let refused = |n: &u32| world.try_says(face, d_sub(*n, &format!("{face}/{n}"))).is_err();
        counts.push((0..100_000).find(refused).unwrap());
    }
    assert!(counts[0] > 1000, "the first one has all that is free: {counts:?}");
    assert!(counts.iter().skip(1).all(|count| (10..20).contains(count)), "{counts:?}");
    let used = world.node.budget.used.bytes;
    assert!((1 << 20..3 << 19).contains(&used), "{used}");
    // The first one goes, and there is room.
    world.down(1);
    (0..100).for_each(|n| _ = world.says(2, d_sub(1000 + n, &format!("late/{n}"))));
}

/// Time, as estimated from the lengths of keys, that matching takes.
#[test]
fn matching_has_a_budget_that_is_charged_to_its_cause() {
    let mut world = World::with_clients(65);
    // Patterns of 4 KiB, and fresh keys of 4 KiB that make the node compare all of them.
    let long = |text: &str| format!("{text}/{}", ["a"; 2040].join("/"));
    for face in 1..=64 {
        for n in 0..120 {
            if world.try_says(face, d_sub(n, &long(&format!("**/{face}$*{n}")))).is_err() {
                break;
            }
        }
    }
    world.says(65, d_sub(1, "honest/**"));
    let (mut handled, mut most, mut at) = (0_u32, 0, [Duration::ZERO; 66]);
    while world.now < Duration::from_secs(10) {
        for face in 1..=64 {
            if at[face as usize] > world.now {
                continue;
            }
            world.node.tables.take_work();
            let key = long(&format!("1/{face}/{handled}"));
            world.says(face, put(&key, ""));
            handled += 1;
            at[face as usize] = world.node.take_wait(FaceId(face)).expect("others come first");
        }
        // A short key costs next to nothing, however long the patterns are.
        let key = format!("honest/{}", world.now.as_nanos());
        let resource = KeyExpr::new(&*key).unwrap();
        assert_eq!(world.node.tables.matching(&resource).count(), 1);
        most = most.max(world.node.tables.take_work());
        assert_eq!(world.says(65, put(&key, "")).len(), 0);
        assert_eq!(world.node.take_wait(FaceId(65)), None);
        world.now += Duration::from_millis(5);
    }
    assert!(most < 5000, "{most} ns");
    // Both twentieths of ten seconds, and what may be used at once.
    let worst = crate::limits::MAX_SLOW_KEYS;
    let allowed = Duration::from_secs(10) / 10 + crate::limits::MATCHING_BURST / 20 * 2 + worst * 64;
    assert!(worst * handled < allowed * 2, "{handled} messages");
    assert!(handled > 100, "they are slow, and not locked out: {handled}");
}
