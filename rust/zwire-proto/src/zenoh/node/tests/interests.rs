//! Interests (`zenoh-behaviour` 4.3, 3.10, 9.4).

use super::*;
use InterestMode::{Current, CurrentFuture, Future};

/// 9.4 a and f: the life of a declared publisher.
#[test]
fn a_publisher_is_told_of_subscribers_as_they_come_and_go() {
    let mut world = World::with_clients(3);
    world.says(2, d_sub(4, "demo/**"));
    world.says(1, d_key(1, "demo/decl"));
    assert_eq!(
        world.says(1, interest(7, CurrentFuture, "KS", Some("1S:"))),
        ["1: I=7 D_SUB 1 demo/**", "1: I=7 D_FINAL"]
    );
    // Its own number is used, and ids continue.
    assert_eq!(world.says(3, d_sub(1, "demo/decl")), ["1: D_SUB 2 1R:"]);
    // Another subscriber on the same key changes nothing; one elsewhere neither.
    assert!(world.says(2, d_sub(5, "demo/decl")).is_empty());
    assert!(world.says(2, d_sub(6, "other")).is_empty());
    assert_eq!(world.says(2, u_sub(4)), ["1: U_SUB 1"]);
    assert!(world.says(2, u_sub(5)).is_empty());
    assert_eq!(world.says(3, u_sub(1)), ["1: U_SUB 2"]);
    world.says(1, no_interest(7));
    assert!(world.says(3, d_sub(1, "demo/decl")).is_empty());
}

/// The bytes of `zenoh-wire` E48 behind their FRAME, and of E45.
#[test]
fn answers_are_written_as_the_reference_writes_them() {
    let mut world = World::with_clients(2);
    world.says(2, d_sub(9, "f/**"));
    let ask = interest(2, CurrentFuture, "KS", Some("f/pub"));
    world.node.handle_message(world.now(), FaceId(1), ask, Reliability::Reliable).unwrap();
    let answer: String = world.drain_raw().iter().map(|(_, message)| hex(message)).collect();
    assert_eq!(answer, "be02210862010004662f2a2abe0221081a");

    world.says(1, interest(3, CurrentFuture, "KQ", Some("f/pub")));
    world.says(2, d_qabl(9, "f/pub", false, 0));
    for message in [u_sub(9), u_qabl(9)] {
        world.node.handle_message(world.now(), FaceId(2), message, Reliability::Reliable).unwrap();
    }
    let answer: String = world.drain_raw().iter().map(|(_, message)| hex(message)).collect();
    assert_eq!(answer, "9e21080301".to_owned() + "9e210885025f020000");
}

#[test]
fn subscribers_and_queryables_of_the_asker_are_not_told_to_it() {
    let mut world = World::with_clients(2);
    world.says(1, d_sub(1, "a"));
    world.says(1, d_qabl(1, "a", false, 0));
    assert_eq!(world.says(1, interest(1, CurrentFuture, "SQ", None)), ["1: I=1 D_FINAL"]);
    assert!(world.says(1, d_sub(2, "b")).is_empty());
    // The key of another face's declaration does not vanish with one's own.
    assert_eq!(world.says(2, d_sub(1, "a")), ["1: D_SUB 1 a"]);
    assert!(world.says(1, u_sub(1)).is_empty());
}

/// 9.4 g: the liveliness exchanges of a client.
#[test]
fn a_client_hears_of_tokens_including_its_own() {
    let mut world = World::with_clients(2);
    world.says(2, d_token(1, "live/py"));
    world.says(1, d_token(1, "live/a"));
    assert_eq!(
        world.says(1, interest(40, Current, "KT", Some("live/**"))),
        ["1: I=40 D_TOKEN 0 live/a", "1: I=40 D_TOKEN 0 live/py", "1: I=40 D_FINAL"]
    );
    assert_eq!(
        world.says(1, interest(41, CurrentFuture, "KT", Some("live/**"))),
        ["1: I=41 D_TOKEN 1 live/a", "1: I=41 D_TOKEN 2 live/py", "1: I=41 D_FINAL"]
    );
    assert_eq!(world.says(1, d_token(2, "live/b")), ["1: D_TOKEN 3 live/b"]);
    assert_eq!(world.says(2, u_token(1)), ["1: U_TOKEN 2 ext (none)"]);
    // One per key, not per token.
    assert!(world.says(2, d_token(2, "live/a")).is_empty());
    assert!(world.says(1, u_token(1)).is_empty());
    assert_eq!(world.down(2), ["1: U_TOKEN 1 ext (none)"]);
}

#[test]
fn who_asks_only_for_what_comes_hears_the_end_of_what_was_there_by_key() {
    let mut world = World::with_clients(2);
    world.says(2, d_token(1, "live/py"));
    assert_eq!(world.says(1, interest(42, Future, "KT", Some("live/**"))), ["1: I=42 D_FINAL"]);
    assert_eq!(world.says(2, d_token(2, "live/b")), ["1: D_TOKEN 1 live/b"]);
    assert_eq!(world.says(2, u_token(1)), ["1: U_TOKEN 0 ext live/py"]);
    assert_eq!(world.says(2, u_token(2)), ["1: U_TOKEN 1 ext (none)"]);
}

#[test]
fn a_current_interest_is_for_tokens_only() {
    let mut world = World::with_clients(2);
    world.says(2, d_sub(1, "s"));
    for options in ["KS", "KQ", "KST", "K", ""] {
        assert!(world.says(1, interest(43, Current, options, Some("s"))).is_empty(), "{options}");
    }
    assert_eq!(world.node.stats().ignored, 5);
}

#[test]
fn an_unrestricted_interest_is_told_everything() {
    let mut world = World::with_clients(2);
    world.says(2, d_sub(1, "s"));
    world.says(2, d_qabl(1, "q", true, 3));
    world.says(2, d_token(1, "t"));
    assert_eq!(
        world.says(1, interest(44, CurrentFuture, "KSQT", None)),
        [
            "1: I=44 D_SUB 1 s",
            "1: I=44 D_QABL 2 q complete distance 3",
            "1: I=44 D_TOKEN 3 t",
            "1: I=44 D_FINAL"
        ]
    );
    assert_eq!(world.down(2), ["1: U_SUB 1", "1: U_QABL 2 ext (none)", "1: U_TOKEN 3 ext (none)"]);
}

/// zenoh-pico opens its publisher only for exactly the key that it asked for.
#[test]
fn an_aggregate_interest_is_told_of_exactly_its_key() {
    let mut world = World::with_clients(3);
    world.says(2, d_sub(1, "s/a"));
    world.says(2, d_sub(2, "s/b"));
    assert_eq!(
        world.says(1, interest(45, CurrentFuture, "KSA", Some("s/**"))),
        ["1: I=45 D_SUB 1 s/**", "1: I=45 D_FINAL"]
    );
    assert!(world.says(3, d_sub(1, "s/c")).is_empty());
    assert!(world.says(2, u_sub(1)).is_empty());
    assert!(world.says(2, u_sub(2)).is_empty());
    assert_eq!(world.down(3), ["1: U_SUB 1"]);
    // A wide subscriber for a narrow interest.
    assert_eq!(world.says(1, interest(46, CurrentFuture, "KSA", Some("c/x"))), ["1: I=46 D_FINAL"]);
    assert_eq!(world.says(2, d_sub(3, "c/**")), ["1: D_SUB 2 c/x"]);
}

#[test]
fn an_aggregate_queryable_is_complete_if_one_includes_the_interest() {
    let mut world = World::with_clients(2);
    world.says(1, interest(1, CurrentFuture, "KQA", Some("q/*")));
    assert_eq!(world.says(2, d_qabl(1, "q/a", true, 0)), ["1: D_QABL 1 q/*  distance 0".replace("  ", " ")]);
    assert_eq!(world.says(2, d_qabl(2, "q/**", true, 7)), ["1: D_QABL 1 q/* complete distance 7"]);
    assert!(world.says(2, d_qabl(3, "q/*", true, 9)).is_empty());
    assert_eq!(world.says(2, u_qabl(2)), ["1: D_QABL 1 q/* complete distance 9"]);
    assert_eq!(world.says(2, u_qabl(3)), ["1: D_QABL 1 q/* distance 0"]);
    assert_eq!(world.says(2, u_qabl(1)), ["1: U_QABL 1 ext (none)"]);
}

#[test]
fn aggregation_is_not_for_tokens_and_not_for_peers() {
    let mut world = World::with_clients(2);
    world.up(3, WhatAmI::Peer);
    world.says(2, d_sub(1, "s/a"));
    assert_eq!(
        world.says(1, interest(1, CurrentFuture, "KSTA", Some("s/*"))),
        ["1: I=1 D_SUB 1 s/a", "1: I=1 D_FINAL"]
    );
    assert_eq!(
        world.says(3, interest(1, CurrentFuture, "KSA", Some("s/*"))),
        ["3: I=1 D_SUB 1 s/a", "3: I=1 D_FINAL"]
    );
}

#[test]
fn the_info_of_a_queryable_is_merged_and_told_again_when_it_changes() {
    let mut world = World::with_clients(3);
    world.says(1, interest(1, CurrentFuture, "KQ", Some("d/q")));
    assert_eq!(world.says(2, d_qabl(20, "d/q", true, 4)), ["1: D_QABL 1 d/q complete distance 4"]);
    assert!(world.says(3, d_qabl(7, "d/q", false, 1)).is_empty());
    // Declared again with the same id: an update.
    assert_eq!(world.says(2, d_qabl(20, "d/q", false, 4)), ["1: D_QABL 1 d/q distance 1"]);
    assert_eq!(world.says(3, u_qabl(7)), ["1: D_QABL 1 d/q distance 4"]);
    assert_eq!(world.says(2, u_qabl(20)), ["1: U_QABL 1 ext (none)"]);
}

#[test]
fn an_id_once_announced_stays_for_other_interests() {
    let mut world = World::with_clients(2);
    world.says(2, d_sub(1, "a/b"));
    world.says(1, interest(1, CurrentFuture, "S", Some("a/*")));
    assert_eq!(
        world.says(1, interest(2, CurrentFuture, "S", Some("a/b"))),
        ["1: I=2 D_SUB 1 a/b", "1: I=2 D_FINAL"]
    );
    world.says(1, no_interest(1));
    assert_eq!(world.says(2, u_sub(1)), ["1: U_SUB 1"]);
}

/// Same as in an eclipse-zenoh router; its clients keep declarations for their next publisher.
#[test]
fn what_was_told_is_withdrawn_after_its_interest_too() {
    let mut world = World::with_clients(2);
    world.says(2, d_sub(1, "a/b"));
    world.says(2, d_qabl(2, "a/b", true, 0));
    world.says(2, d_token(3, "a/b"));
    world.says(1, interest(1, CurrentFuture, "SQT", Some("a/*")));
    assert!(world.says(1, no_interest(1)).is_empty());
    // New declarations are not covered by an interest.
    assert!(world.says(2, d_sub(4, "a/c")).is_empty());
    assert_eq!(world.says(2, d_qabl(2, "a/b", false, 0)), ["1: D_QABL 2 a/b distance 0"]);
    assert_eq!(world.says(2, u_sub(1)), ["1: U_SUB 1"]);
    assert_eq!(world.says(2, u_qabl(2)), ["1: U_QABL 2 ext (none)"]);
    assert_eq!(world.says(2, u_token(3)), ["1: U_TOKEN 3 ext (none)"]);
    assert!(world.says(2, d_sub(1, "a/b")).is_empty());
    assert_eq!(
        world.says(1, interest(2, CurrentFuture, "S", Some("a/b"))),
        ["1: I=2 D_SUB 4 a/b", "1: I=2 D_FINAL"]
    );
}

#[test]
fn the_word_for_an_aggregate_goes_with_its_interest() {
    let mut world = World::with_clients(2);
    world.says(2, d_sub(1, "a/**"));
    world.says(1, interest(1, CurrentFuture, "SA", Some("a/b")));
    assert!(world.says(1, no_interest(1)).is_empty());
    assert!(world.says(2, u_sub(1)).is_empty());
}

#[test]
fn interests_on_wrong_keys_and_unknown_ids_are_ignored() {
    let mut world = World::with_clients(1);
    assert!(world.says(1, interest(1, CurrentFuture, "S", Some("a//b"))).is_empty());
    assert!(world.says(1, interest(1, CurrentFuture, "S", Some("3S:"))).is_empty());
    assert!(world.says(1, no_interest(1)).is_empty());
    assert_eq!((world.node.stats().invalid_keys, world.node.stats().ignored), (2, 1));
}

#[test]
fn a_local_session_is_a_client() {
    let mut world = World::with_clients(1);
    let own = Remote { zid: zid(0xf000), whatami: WhatAmI::Router };
    world.node.handle_face_up(world.now(), FaceId(9), own, FaceKind::Local);
    assert!(world.drain().is_empty());
    world.says(9, interest(1, CurrentFuture, "T", None));
    assert_eq!(world.says(9, d_token(1, "me")), ["9: D_TOKEN 1 me"]);
    world.says(9, d_sub(2, "x"));
    assert_eq!(world.says(1, put("x", "1")), ["9: x PUT 1"]);
}

/// A key declared by itself stays declared when the aggregate on the same key ends.
#[test]
fn the_end_of_an_aggregate_does_not_forget_what_was_told_before_it() {
    let mut world = World::with_clients(2);
    world.says(1, d_qabl(1, "k", false, 0));
    let told = "2: I=7 D_QABL 1 k distance 0".to_owned();
    assert_eq!(world.says(2, interest(7, InterestMode::CurrentFuture, "Q", None))[0], told);
    world.says(2, no_interest(7));
    assert_eq!(world.says(2, interest(7, InterestMode::CurrentFuture, "QA", Some("k")))[0], told);
    world.says(2, no_interest(7));
    assert_eq!(world.says(2, interest(7, InterestMode::CurrentFuture, "Q", None))[0], told);
    assert_eq!(world.says(1, u_qabl(1)), ["2: U_QABL 1 ext (none)"]);
}
