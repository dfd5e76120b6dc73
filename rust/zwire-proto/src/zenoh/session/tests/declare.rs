//! Declarations of a session, in the bytes and in the order of Eclipse Zenoh.

use super::*;
use crate::zenoh::wire::{InterestMode, InterestOptions};

#[test]
fn the_bytes_of_a_first_subscriber_are_those_of_the_reference() {
    // `zenoh-wire` E42, without the head of the FRAME.
    let mut rig = Rig::new();
    rig.subscriber("k/s/*");
    let bytes: String = rig.messages().iter().map(hex).collect();
    assert_eq!(bytes, "9e2108200100036b2f739e2108620101022f2a");
}

#[test]
fn the_bytes_of_queryable_token_and_their_undeclaration_are_those_of_the_reference() {
    let mut rig = Rig::new();
    let complete = QueryableOptions { complete: true, origin: Locality::Any };
    let queryable = rig.session.declare_queryable(rig.now, key("k/q"), complete).unwrap();
    let token = rig.token("k/t");
    let subscriber = rig.subscriber("k/s");
    let bytes: Vec<String> = rig.messages().iter().map(hex).collect();
    // E43 and E44 with the numbers of this session.
    assert_eq!(bytes[1], "9e2108c401012101");
    assert_eq!(bytes[3], "9e2108460202");
    rig.undeclare(subscriber);
    rig.undeclare(queryable);
    rig.undeclare(token);
    let bytes: Vec<String> = rig.messages().iter().map(hex).collect();
    // E45.
    assert_eq!(bytes, ["9e21080303", "9e210885015f020000", "9e210887025f020000"]);
}

#[test]
fn the_bytes_of_a_publishers_interest_are_those_of_the_reference() {
    // E47 with number 1, then E50.
    let mut rig = Rig::new();
    let publisher = rig.publisher("k/p");
    let bytes: String = rig.messages().iter().map(hex).collect();
    assert_eq!(bytes, "9e2108200100036b2f70f90153012108");
    rig.undeclare(publisher);
    assert_eq!(rig.messages().iter().map(hex).collect::<String>(), "99012108");
}

#[test]
fn the_bytes_of_querier_and_liveliness_interests_are_those_of_the_reference() {
    let mut rig = Rig::new();
    rig.querier("k/q");
    rig.watch("k/l/**", true);
    // Eclipse Zenoh asks for Future alone if there is no history, and cannot tell its own token from
    // one of several.
    rig.watch("k/l/**", false);
    rig.session.liveliness_get(rig.now, key("k/l/**"), None).unwrap();
    let bytes: Vec<String> = rig.messages().iter().map(hex).collect();
    assert_eq!(bytes[1], "f90155012108");
    assert_eq!(bytes[3], "f9027902032f2a2a2108");
    assert_eq!(bytes[4], "f9037902032f2a2a2108");
    // E49.
    assert_eq!(bytes[5], "b9047902032f2a2a2108");
}

#[test]
fn a_session_against_a_router_speaks_as_the_reference_does() {
    // `zenoh-behaviour` 9.4 (f), line by line.
    let mut rig = Rig::new();
    rig.put("f/a", "1");
    assert_eq!(rig.sent(), ["PUSH 0'f/a' PUT 1"]);
    let publisher = rig.publisher("f/pub");
    assert_eq!(rig.sent(), ["KEYEXPR 1 0'f/pub'", "INTEREST 1 CurrentFuture 1S''"]);
    rig.final_of(1);
    assert!(!rig.publish(publisher, "2").sent);
    rig.declared(None, d_subscriber(1, "f/**"));
    assert!(rig.publish(publisher, "3").sent);
    assert_eq!(rig.sent(), ["PUSH 1S'' PUT 3"]);
    rig.declared(None, u_subscriber(1));
    assert!(!rig.publish(publisher, "4").sent);
    assert_eq!(rig.events(), ["1: matching true", "1: matching false"]);
    rig.undeclare(publisher);
    assert_eq!(rig.sent(), ["INTEREST 1 Final"]);
    rig.subscriber("f/s/*");
    assert_eq!(rig.sent(), ["KEYEXPR 2 0'f/s'", "SUBSCRIBER 2 2S'/*'"]);
    rig.pushed(WireExpr::full("f/s/1"), put("x"));
    rig.pushed(WireExpr::full("f/nomatch"), put("y"));
    assert_eq!(rig.events(), ["2: PUT f/s/1 x"]);
    let complete = QueryableOptions { complete: true, origin: Locality::Any };
    rig.session.declare_queryable(rig.now, key("f/q"), complete).unwrap();
    assert_eq!(rig.sent(), ["KEYEXPR 3 0'f/q'", "QUERYABLE 3 3S'' complete"]);
    rig.requested(9, WireExpr { scope: 3, mapping: Mapping::Receiver, suffix: Text::EMPTY });
    assert_eq!(rig.events(), ["3: QUERY 2 f/q"]);
    rig.reply(2, "f/q", put("answer")).unwrap();
    rig.finish(2);
    assert_eq!(rig.sent(), ["RESPONSE 9 0'f/q' PUT answer", "FINAL 9"]);
    rig.token("f/t");
    assert_eq!(rig.sent(), ["KEYEXPR 4 0'f/t'", "TOKEN 4 4S''"]);
    rig.watch("f/live/**", true);
    assert_eq!(rig.sent(), ["KEYEXPR 5 0'f/live'", "INTEREST 5 CurrentFuture 5S'/**'"]);
    rig.session.liveliness_get(rig.now, key("f/live/**"), None).unwrap();
    assert_eq!(rig.sent(), ["INTEREST 6 Current 5S'/**'"]);
    rig.querier("f/querier");
    assert_eq!(rig.sent(), ["KEYEXPR 6 0'f/querier'", "INTEREST 7 CurrentFuture 6S''"]);
    // The link is cut: everything again with new numbers, interests first.
    rig.down();
    rig.up(WhatAmI::Router);
    assert_eq!(
        rig.sent(),
        [
            "KEYEXPR 1 0'f/live'",
            "INTEREST 1 CurrentFuture 1S'/**'",
            "KEYEXPR 2 0'f/querier'",
            "INTEREST 2 CurrentFuture 2S''",
            "KEYEXPR 3 0'f/s'",
            "SUBSCRIBER 3 3S'/*'",
            "KEYEXPR 4 0'f/q'",
            "QUERYABLE 4 4S'' complete",
            "KEYEXPR 5 0'f/t'",
            "TOKEN 5 5S''",
        ]
    );
}

#[test]
fn subscribers_on_one_key_share_a_declaration_and_queryables_do_not() {
    let mut rig = Rig::new();
    let first = rig.subscriber("a");
    let second = rig.subscriber("a");
    assert_eq!(rig.sent(), ["KEYEXPR 1 0'a'", "SUBSCRIBER 1 1S''"]);
    rig.undeclare(first);
    assert_eq!(rig.sent(), [] as [&str; 0]);
    rig.pushed(WireExpr::full("a"), put("still"));
    assert_eq!(rig.events(), ["2: PUT a still"]);
    rig.undeclare(second);
    assert_eq!(rig.sent(), ["U_SUBSCRIBER 1"]);
    rig.subscriber("a");
    assert_eq!(rig.sent(), ["SUBSCRIBER 2 1S''"]);
    let queryable = rig.queryable("a");
    rig.queryable("a");
    assert_eq!(rig.sent(), ["QUERYABLE 3 1S''", "QUERYABLE 4 1S''"]);
    rig.undeclare(queryable);
    assert_eq!(rig.sent(), ["U_QUERYABLE 3"]);
}

#[test]
fn publishers_on_one_key_share_an_interest() {
    let mut rig = Rig::new();
    let first = rig.publisher("a");
    let second = rig.publisher("a");
    let querier = rig.querier("a");
    assert_eq!(
        rig.sent(),
        ["KEYEXPR 1 0'a'", "INTEREST 1 CurrentFuture 1S''", "INTEREST 2 CurrentFuture 1S''"]
    );
    rig.declared(Some(1), d_subscriber(1, "a"));
    assert_eq!(rig.events(), ["1: matching true", "2: matching true"]);
    // The third publisher has the known state at once.
    let third = rig.publisher("a");
    assert_eq!(rig.session.matching(third), Some(true));
    rig.undeclare(first);
    rig.undeclare(third);
    assert_eq!(rig.sent(), [] as [&str; 0]);
    rig.undeclare(second);
    rig.undeclare(querier);
    assert_eq!(rig.sent(), ["INTEREST 1 Final", "INTEREST 2 Final"]);
}

#[test]
fn session_local_things_are_not_declared() {
    let mut rig = Rig::new();
    let origin = Locality::SessionLocal;
    rig.session.declare_subscriber(rig.now, key("a"), SubscriberOptions { origin }).unwrap();
    rig.session.declare_queryable(rig.now, key("a"), QueryableOptions { complete: true, origin }).unwrap();
    let options = PublisherOptions { destination: origin, ..PublisherOptions::default() };
    rig.session.declare_publisher(rig.now, key("a"), options).unwrap();
    let options = QuerierOptions { destination: origin, ..QuerierOptions::default() };
    rig.session.declare_querier(rig.now, key("a"), options).unwrap();
    assert_eq!(rig.sent(), [] as [&str; 0]);
}

#[test]
fn a_key_without_fixed_prefix_travels_in_full() {
    let mut rig = Rig::new();
    rig.subscriber("**");
    rig.token("*/x");
    assert_eq!(rig.sent(), ["SUBSCRIBER 1 0'**'", "TOKEN 2 0'*/x'"]);
}

#[test]
fn a_declared_key_shortens_plain_publications() {
    let mut rig = Rig::new();
    let id = rig.session.declare_keyexpr(rig.now, key("long/key")).unwrap();
    rig.put("long/key", "1");
    rig.put("long/key/more", "2");
    assert_eq!(rig.sent(), ["KEYEXPR 1 0'long/key'", "PUSH 1S'' PUT 1", "PUSH 0'long/key/more' PUT 2"]);
    rig.undeclare(id);
    assert_eq!(rig.sent(), [] as [&str; 0]);
}

#[test]
fn undeclaring_twice_is_an_error_that_names_the_entity() {
    let mut rig = Rig::new();
    let id = rig.subscriber("a");
    rig.undeclare(id);
    let error = rig.session.undeclare(rig.now, id).unwrap_err();
    assert_eq!(error, SessionError::UnknownEntity { id, expected: "entity" });
    assert_eq!(error.to_string(), "no entity has the id 1");
}

#[test]
fn an_interest_of_the_north_is_answered_with_what_exists() {
    let mut rig = Rig::new();
    rig.token("t/a");
    rig.token("u/b");
    rig.subscriber("t/s");
    rig.sent();
    let ask = |rig: &mut Rig, id, mode, options, key: Option<&str>| {
        let key = key.map(WireExpr::full);
        rig.hears(NetworkMessage::Interest(WireInterest::new(id, mode, options, key)));
        rig.sent()
    };
    let tokens = InterestOptions::TOKENS;
    let all = tokens | InterestOptions::SUBSCRIBERS | InterestOptions::QUERYABLES;
    assert_eq!(
        ask(&mut rig, 7, InterestMode::Current, tokens, Some("t/**")),
        ["[7] TOKEN 0 0't/a'", "[7] FINAL"]
    );
    assert_eq!(
        ask(&mut rig, 8, InterestMode::CurrentFuture, all, None),
        ["[8] SUBSCRIBER 3 0't/s'", "[8] TOKEN 1 0't/a'", "[8] TOKEN 2 0'u/b'", "[8] FINAL"]
    );
    assert_eq!(ask(&mut rig, 9, InterestMode::Future, tokens, Some("t/**")), ["[9] FINAL"]);
    // Illegal by the rule of Eclipse Zenoh, and ignored.
    assert_eq!(ask(&mut rig, 10, InterestMode::Current, all, None), [] as [&str; 0]);
    assert_eq!(ask(&mut rig, 8, InterestMode::Final, tokens, None), [] as [&str; 0]);
}
