//! Queries that reach queryables, and their replies.

use super::*;
use crate::zenoh::wire::{QueryBody, QueryTarget, SourceInfo};

#[test]
fn each_matching_queryable_is_asked_and_the_final_comes_once() {
    let mut rig = Rig::new();
    rig.queryable("q/**");
    rig.queryable("q/a");
    rig.queryable("other");
    let origin = Locality::SessionLocal;
    rig.session.declare_queryable(rig.now, key("q/a"), QueryableOptions { complete: true, origin }).unwrap();
    rig.sent();
    rig.requested(7, WireExpr::full("q/a"));
    assert_eq!(rig.events(), ["1: QUERY 2 q/a", "2: QUERY 3 q/a"]);
    rig.reply(2, "q/a", put("1")).unwrap();
    rig.finish(2);
    rig.finish(2);
    assert_eq!(rig.sent(), ["RESPONSE 7 0'q/a' PUT 1"]);
    rig.reply(3, "q/a", PushBody::Del(Del::default())).unwrap();
    rig.finish(3);
    assert_eq!(rig.sent(), ["RESPONSE 7 0'q/a' DEL", "FINAL 7"]);
    rig.finish(3);
    assert_eq!(rig.sent(), [] as [&str; 0]);
    let error = rig.reply(3, "q/a", put("late")).unwrap_err();
    assert_eq!(error, SessionError::QueryOver { id: QueryId(3) });
}

#[test]
fn what_matches_nothing_or_has_no_key_is_finished_at_once() {
    let mut rig = Rig::new();
    rig.queryable("q");
    rig.sent();
    rig.requested(1, WireExpr::full("nothing"));
    rig.requested(2, WireExpr { scope: 44, mapping: Mapping::Sender, suffix: Text::EMPTY });
    rig.requested(3, WireExpr::full("q//"));
    assert_eq!(rig.sent(), ["FINAL 1", "FINAL 2", "FINAL 3"]);
    assert_eq!(rig.events(), [] as [&str; 0]);
    assert_eq!(rig.session.stats().dropped.in_bad_key, 2);
}

#[test]
fn all_complete_asks_complete_ones_that_include_the_key() {
    let mut rig = Rig::new();
    for (text, complete) in [("q/**", true), ("q/a", false), ("q/a/b", true)] {
        let options = QueryableOptions { complete, origin: Locality::Any };
        rig.session.declare_queryable(rig.now, key(text), options).unwrap();
    }
    rig.sent();
    let target = QueryTarget::AllComplete;
    let request = Request { target, ..Request::new(1, WireExpr::full("q/*"), Query::default()) };
    rig.hears(NetworkMessage::Request(request));
    assert_eq!(rig.events(), ["1: QUERY 2 q/*"]);
    let request = Request { target, ..Request::new(2, WireExpr::full("**"), Query::default()) };
    rig.hears(NetworkMessage::Request(request));
    assert_eq!(rig.sent(), ["FINAL 2"]);
}

#[test]
fn answers_carry_the_quality_of_the_query_and_who_answers() {
    let mut rig = Rig::new();
    let queryable = rig.queryable("q");
    rig.sent();
    let qos = Qos(0x4a);
    let request = Request { qos, ..Request::new(9, WireExpr::full("q"), Query::default()) };
    rig.hears(NetworkMessage::Request(request));
    rig.reply(2, "q", put("1")).unwrap();
    let body = QueryReplyBody::Sample { key: key("q"), body: put("2") };
    rig.session.reply(rig.now, QueryId(2), QueryReply { body, express: Some(true), stamps: None }).unwrap();
    let encoding = crate::zenoh::Encoding::from_text("text/plain");
    let body =
        QueryReplyBody::Err(ReplyError { encoding: encoding.clone(), payload: "no".into(), stamps: None });
    rig.session.reply(rig.now, QueryId(2), QueryReply { body, express: None, stamps: None }).unwrap();
    rig.finish(2);
    let messages = rig.messages();
    let qualities: Vec<_> = messages.iter().map(NetworkMessage::qos).collect();
    assert_eq!((qualities[0], qualities[2], qualities[3]), (qos, qos, qos));
    assert!(qualities[1].express() && qualities[1].priority() == qos.priority());
    assert_eq!(qualities[1].congestion(), qos.congestion());
    for message in &messages[..3] {
        let NetworkMessage::Response(response) = message else { panic!("{message:?}") };
        let responder = response.responder.unwrap();
        assert_eq!((responder.zid, responder.eid, response.id), (zid(0x0a), queryable.0, 9));
    }
    assert_eq!(show(&messages[2]), "RESPONSE 9 0'q' ERR no");
    let NetworkMessage::Response(Response { body: ResponseBody::Err(error), .. }) = &messages[2] else {
        panic!("no error")
    };
    assert_eq!(error.encoding, encoding);
}

#[test]
fn the_event_holds_all_of_the_query() {
    let mut rig = Rig::new();
    let queryable = rig.queryable("q");
    let body = Some(QueryBody { payload: "value".into(), ..QueryBody::default() });
    let source_info = Some(SourceInfo { zid: zid(3), eid: 4, sn: 5 });
    let query = Query {
        parameters: "a=1;_anyke".into(),
        body: body.clone(),
        attachment: Some("att".into()),
        source_info,
        ..Query::default()
    };
    rig.hears(NetworkMessage::Request(Request::new(1, WireExpr::full("q"), query)));
    let query = InboundQuery {
        id: QueryId(2),
        key: key("q"),
        parameters: "a=1;_anyke".into(),
        body,
        attachment: Some("att".into()),
        source_info,
        qos: Qos::REQUEST,
        accept_any_key: true,
        stamps: None,
    };
    assert_eq!(rig.session.poll_event(), Some(Event::Query { queryable, query }));
    // For that reason any key is accepted.
    rig.sent();
    rig.reply(2, "anything", put("x")).unwrap();
    assert_eq!(rig.sent(), ["RESPONSE 1 0'anything' PUT x"]);
}

#[test]
fn a_reply_to_something_else_is_refused() {
    let mut rig = Rig::new();
    rig.queryable("q/*");
    rig.sent();
    rig.requested(1, WireExpr::full("q/a"));
    let error = rig.reply(2, "q/b", put("x")).unwrap_err();
    assert_eq!(error, SessionError::ReplyKey { reply: key("q/b"), query: key("q/a") });
    rig.reply(2, "q/*", put("x")).unwrap();
    assert_eq!(rig.sent(), ["RESPONSE 1 0'q/*' PUT x"]);
}

#[test]
fn undeclaring_a_queryable_finishes_its_queries() {
    let mut rig = Rig::new();
    let first = rig.queryable("q");
    let second = rig.queryable("q");
    rig.sent();
    rig.requested(5, WireExpr::full("q"));
    rig.get("q");
    rig.sent();
    rig.undeclare(first);
    assert_eq!(rig.sent(), ["U_QUERYABLE 1"]);
    rig.undeclare(second);
    assert_eq!(rig.sent(), ["FINAL 5", "U_QUERYABLE 2"]);
    rig.finished(1);
    assert_eq!(rig.events().last().unwrap(), "1: Completed");
}

#[test]
fn a_lost_link_ends_what_came_by_it_without_a_word() {
    let mut rig = Rig::new();
    rig.queryable("q");
    rig.requested(5, WireExpr::full("q"));
    let get = Get { destination: Locality::SessionLocal, ..Get::new(key("q")) };
    rig.session.get(rig.now, get).unwrap();
    rig.events();
    rig.down();
    rig.up(WhatAmI::Router);
    rig.sent();
    assert!(rig.reply(2, "q", put("x")).is_err());
    rig.finish(2);
    assert_eq!(rig.sent(), [] as [&str; 0], "its number means something else on the new link");
    // The local query stays open.
    rig.reply(3, "q", put("y")).unwrap();
    rig.finish(3);
    assert_eq!(rig.events(), ["1: REPLY PUT q y", "1: Completed"]);
}

#[test]
fn two_requests_with_one_number_get_two_finals() {
    let mut rig = Rig::new();
    rig.queryable("q");
    rig.sent();
    rig.requested(5, WireExpr::full("q"));
    rig.requested(5, WireExpr::full("q"));
    rig.finish(2);
    rig.finish(4);
    assert_eq!(rig.sent(), ["FINAL 5", "FINAL 5"]);
}

#[test]
fn closing_finishes_queries_and_cancels_gets() {
    let mut rig = Rig::new();
    let queryable = rig.queryable("q");
    rig.requested(5, WireExpr::full("q"));
    rig.get("r");
    rig.sent();
    rig.events();
    rig.session.close(rig.now);
    assert_eq!(rig.sent(), ["FINAL 5"]);
    assert_eq!(rig.events(), ["1: Cancelled"]);
    assert_eq!(rig.session.undeclare(rig.now, queryable), Err(SessionError::Closed));
    let publication = Publication::new(key("a"), put("x"));
    assert_eq!(rig.session.put(rig.now, publication), Err(SessionError::Closed));
    assert_eq!(rig.session.get(rig.now, Get::new(key("a"))), Err(SessionError::Closed));
    rig.requested(6, WireExpr::full("q"));
    assert_eq!(rig.sent(), ["FINAL 6"]);
}
