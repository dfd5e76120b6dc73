//! Publications: their receivers, and the messages sent.

use super::*;
use crate::zenoh::{
    Payload,
    wire::{TsRecord, TsStack},
};

#[test]
fn a_put_on_an_undeclared_key_always_leaves() {
    let mut rig = Rig::new();
    assert_eq!(rig.put("a/b", "1"), Published { local: 0, sent: true });
    assert_eq!(rig.put("a/*", "2"), Published { local: 0, sent: true });
    assert_eq!(rig.sent(), ["PUSH 0'a/b' PUT 1", "PUSH 0'a/*' PUT 2"]);
}

#[test]
fn the_filter_is_for_exactly_the_declared_key() {
    let mut rig = Rig::new();
    let publisher = rig.publisher("a/*");
    // Not answered yet: everything leaves.
    assert!(rig.publish(publisher, "1").sent);
    rig.final_of(1);
    assert!(!rig.publish(publisher, "2").sent);
    assert!(!rig.put("a/*", "3").sent, "the same resource");
    assert!(rig.put("a/b", "4").sent, "another resource, though covered");
    assert_eq!(rig.session.stats().dropped.put_no_subscriber, 2);
    assert_eq!(
        rig.sent(),
        ["KEYEXPR 1 0'a'", "INTEREST 1 CurrentFuture 1S'/*'", "PUSH 1S'/*' PUT 1", "PUSH 0'a/b' PUT 4"]
    );
}

#[test]
fn two_ids_for_one_key_count_until_both_are_gone() {
    let mut rig = Rig::new();
    let publisher = rig.publisher("a");
    rig.declared(Some(1), d_subscriber(1, "a"));
    rig.final_of(1);
    rig.declared(None, d_subscriber(2, "a"));
    // Declared again, as in the answer to another interest.
    rig.declared(None, d_subscriber(2, "a"));
    rig.declared(None, u_subscriber(1));
    assert!(rig.publish(publisher, "1").sent);
    rig.declared(None, u_subscriber(2));
    assert!(!rig.publish(publisher, "2").sent);
    assert_eq!(rig.events(), ["1: matching true", "1: matching false"]);
}

#[test]
fn an_id_that_turns_up_with_another_key_has_moved() {
    let mut rig = Rig::new();
    let publisher = rig.publisher("a");
    rig.declared(Some(1), d_subscriber(1, "a"));
    rig.publisher("b");
    rig.declared(Some(2), d_subscriber(1, "b"));
    assert_eq!(rig.session.matching(publisher), Some(false));
    assert_eq!(rig.events(), ["1: matching true", "2: matching true", "1: matching false"]);
}

#[test]
fn declarations_with_id_zero_are_known_by_their_key() {
    let mut rig = Rig::new();
    let publisher = rig.publisher("a");
    rig.declared(Some(1), d_subscriber(0, "a"));
    rig.declared(None, d_subscriber(0, "**"));
    rig.declared(None, Declaration::UndeclareSubscriber { id: 0, key: Some(WireExpr::full("a")) });
    assert_eq!(rig.session.matching(publisher), Some(true));
    rig.declared(None, Declaration::UndeclareSubscriber { id: 0, key: Some(WireExpr::full("**")) });
    assert_eq!(rig.session.matching(publisher), Some(false));
}

#[test]
fn what_no_interest_covers_any_more_is_forgotten() {
    let mut rig = Rig::new();
    let publisher = rig.publisher("a");
    rig.declared(Some(1), d_subscriber(1, "a"));
    rig.undeclare(publisher);
    // The router stops updating: subscriber 1 may be gone by now, and counts as gone.
    let publisher = rig.publisher("a");
    assert_eq!(rig.session.matching(publisher), Some(false));
    rig.final_of(2);
    assert!(!rig.publish(publisher, "1").sent);
    // Declarations for the ended interest do not count.
    rig.declared(Some(1), d_subscriber(5, "a"));
    assert_eq!(rig.session.matching(publisher), Some(false));
    assert_eq!(rig.session.stats().dropped.declare_ignored, 1);
}

#[test]
fn local_subscribers_are_served_directly_and_the_network_once() {
    let mut rig = Rig::new();
    rig.subscriber("a/*");
    rig.subscriber("a/b");
    rig.subscriber("b");
    assert_eq!(rig.put("a/b", "x"), Published { local: 2, sent: true });
    assert_eq!(rig.events(), ["1: PUT a/b x", "2: PUT a/b x"]);
    assert_eq!(rig.sent().last().unwrap(), "PUSH 2S'' PUT x", "by the number that its declaration brought");
    // A wildcard publication reaches each subscriber that intersects, with its own key.
    assert_eq!(rig.put("**", "y").local, 3);
    assert_eq!(rig.events(), ["1: PUT ** y", "2: PUT ** y", "3: PUT ** y"]);
}

#[test]
fn localities_of_both_sides_decide() {
    use Locality::{Any, Remote, SessionLocal};
    for (origin, destination, local, sent) in [
        (Any, Any, 1, true),
        (Any, Remote, 0, true),
        (Any, SessionLocal, 1, false),
        (Remote, Any, 0, true),
        (Remote, SessionLocal, 0, false),
        (SessionLocal, Any, 1, true),
        (SessionLocal, Remote, 0, true),
        (SessionLocal, SessionLocal, 1, false),
    ] {
        let mut rig = Rig::new();
        rig.session.declare_subscriber(rig.now, key("a"), SubscriberOptions { origin }).unwrap();
        let publication = Publication { destination, ..Publication::new(key("a"), put("x")) };
        let published = rig.session.put(rig.now, publication).unwrap();
        assert_eq!(published, Published { local, sent }, "{origin:?} {destination:?}");
        assert_eq!(rig.events().len(), local);
        rig.pushed(WireExpr::full("a"), put("far"));
        assert_eq!(rig.events().len(), usize::from(origin.remote()), "{origin:?} from far");
    }
}

#[test]
fn matching_takes_both_sides_into_account() {
    let mut rig = Rig::new();
    let publisher = rig.publisher("a/*");
    let destination = Locality::Remote;
    let options = PublisherOptions { destination, ..PublisherOptions::default() };
    let remote_only = rig.session.declare_publisher(rig.now, key("a/*"), options).unwrap();
    let subscriber = rig.subscriber("a/b");
    assert_eq!(rig.events(), ["1: matching true"]);
    rig.declared(Some(1), d_subscriber(1, "a/c"));
    assert_eq!(rig.events(), ["2: matching true"]);
    rig.declared(None, u_subscriber(1));
    assert_eq!(rig.events(), ["2: matching false"]);
    rig.undeclare(subscriber);
    assert_eq!(rig.events(), ["1: matching false"]);
    assert_eq!(rig.session.matching(publisher), Some(false));
    assert_eq!(rig.session.matching(remote_only), Some(false));
    assert_eq!(rig.session.matching(EntityId(99)), None);
}

#[test]
fn a_local_subscriber_gets_what_the_filter_keeps_from_the_network() {
    let mut rig = Rig::new();
    let publisher = rig.publisher("a");
    rig.subscriber("a");
    rig.final_of(1);
    assert_eq!(rig.publish(publisher, "x"), Published { local: 1, sent: false });
}

#[test]
fn a_publisher_lends_its_options() {
    let mut rig = Rig::new();
    let qos = Qos(0x1a);
    let options = PublisherOptions { qos, reliability: Reliability::BestEffort, destination: Locality::Any };
    let publisher = rig.session.declare_publisher(rig.now, key("a"), options).unwrap();
    rig.sent();
    rig.publish(publisher, "x");
    rig.session.publish(rig.now, publisher, PushBody::Del(Del::default())).unwrap();
    let mut pushes = 0;
    while let Some((NetworkMessage::Push(push), reliability)) = rig.session.poll_transmit() {
        assert_eq!((push.qos, reliability), (qos, Reliability::BestEffort));
        pushes += 1;
    }
    assert_eq!(pushes, 2);
    let subscriber = rig.subscriber("b");
    let error = rig.session.publish(rig.now, subscriber, put("z")).unwrap_err();
    assert_eq!(error, SessionError::UnknownEntity { id: subscriber, expected: "publisher" });
}

#[test]
fn pushes_use_both_tables_and_bad_keys_are_counted() {
    let mut rig = Rig::new();
    rig.subscriber("n/**");
    rig.declared(None, Declaration::KeyExpr { id: 1, key: WireExpr::full("n/a") });
    let scoped = |mapping, suffix: &str| WireExpr { scope: 1, mapping, suffix: suffix.into() };
    for _ in 0..3 {
        rig.pushed(scoped(Mapping::Sender, ""), put("1"));
        rig.pushed(scoped(Mapping::Sender, "/b"), put("2"));
        rig.pushed(scoped(Mapping::Receiver, "/c"), put("3"));
        assert_eq!(rig.events(), ["1: PUT n/a 1", "1: PUT n/a/b 2", "1: PUT n/c 3"]);
    }
    rig.pushed(WireExpr { scope: 5, mapping: Mapping::Sender, suffix: Text::EMPTY }, put("4"));
    rig.pushed(WireExpr::full("n//a"), put("5"));
    rig.pushed(WireExpr::full("m"), put("6"));
    assert_eq!(rig.events(), [] as [&str; 0]);
    let dropped = rig.session.stats().dropped;
    assert_eq!((dropped.in_bad_key, dropped.push_no_subscriber), (2, 1));
}

#[test]
fn a_number_that_gets_another_key_is_not_remembered() {
    let mut rig = Rig::new();
    rig.subscriber("**");
    let scope = || WireExpr { scope: 1, mapping: Mapping::Sender, suffix: Text::EMPTY };
    rig.declared(None, Declaration::KeyExpr { id: 1, key: WireExpr::full("a") });
    rig.pushed(scope(), put("1"));
    rig.declared(None, Declaration::UndeclareKeyExpr { id: 1 });
    rig.pushed(scope(), put("2"));
    rig.declared(None, Declaration::KeyExpr { id: 1, key: WireExpr::full("b") });
    rig.pushed(scope(), put("3"));
    assert_eq!(rig.events(), ["1: PUT a 1", "1: PUT b 3"]);
}

#[test]
fn routes_follow_each_change() {
    let mut rig = Rig::new();
    rig.put("a", "1");
    let subscriber = rig.subscriber("a");
    assert_eq!(rig.put("a", "2").local, 1);
    rig.pushed(WireExpr::full("a"), put("3"));
    rig.undeclare(subscriber);
    assert_eq!(rig.put("a", "4").local, 0);
    rig.pushed(WireExpr::full("a"), put("5"));
    assert_eq!(rig.events(), ["1: PUT a 2", "1: PUT a 3"]);
    rig.sent();
    // The number declared meanwhile is used from then on.
    let publisher = rig.publisher("a");
    rig.put("a", "6");
    rig.final_of(2);
    rig.put("a", "7");
    rig.undeclare(publisher);
    rig.put("a", "8");
    let sent = rig.sent();
    assert_eq!(sent[1..], ["PUSH 1S'' PUT 6", "INTEREST 2 Final", "PUSH 1S'' PUT 8"]);
}

#[test]
fn everything_of_a_publication_reaches_the_sample() {
    let mut rig = Rig::new();
    rig.subscriber("a");
    let source_info = Some(Box::new(crate::zenoh::wire::SourceInfo { zid: zid(5), eid: 6, sn: 7 }));
    let timestamp = Some(Timestamp { time: crate::zenoh::Ntp64(8), id: zid(9) });
    let body = PushBody::Put(Put {
        timestamp,
        encoding: crate::zenoh::Encoding::from_text("text/plain;utf8"),
        source_info: source_info.clone(),
        attachment: Some(Bytes::new()),
        ..Put::new("x")
    });
    let push = Push { qos: Qos(0x1a), ..Push::new(WireExpr::full("a"), body) };
    rig.session.handle_message(rig.now, NetworkMessage::Push(push), Reliability::BestEffort).unwrap();
    let Some(Event::Sample { sample, .. }) = rig.session.poll_event() else { panic!("no sample") };
    assert_eq!(
        sample,
        Sample {
            key: key("a"),
            kind: SampleKind::Put,
            payload: "x".into(),
            encoding: crate::zenoh::Encoding::from_text("text/plain;utf8"),
            timestamp,
            qos: Qos(0x1a),
            reliability: Reliability::BestEffort,
            source_info,
            attachment: Some(Bytes::new()),
            stamps: None,
            link: 0,
        }
    );
}

#[test]
fn subscribers_share_the_join_of_a_payload_that_leaves_divided() {
    let mut rig = Rig::new();
    rig.subscriber("a");
    rig.subscriber("*");
    let buffer = Bytes::from(vec![7; crate::buf::Segments::SHARE_FROM]);
    let payload: Payload = [buffer.clone(), buffer].into_iter().collect();
    let put = Put { payload, ..Put::default() };
    rig.session.put(rig.now, Publication::new(key("a"), PushBody::Put(put))).unwrap();
    let mut payloads = Vec::new();
    while let Some(event) = rig.session.poll_event() {
        let Event::Sample { sample, .. } = event else { continue };
        assert_eq!(sample.payload.parts().len(), 2, "not joined yet");
        payloads.push(sample.payload);
    }
    assert_eq!((payloads.len(), payloads[0].as_ptr()), (2, payloads[1].as_ptr()));
    let mut left = 0;
    while let Some((message, _)) = rig.session.poll_transmit() {
        let NetworkMessage::Push(Push { body: PushBody::Put(put), .. }) = message else { continue };
        assert_eq!(put.payload.parts().len(), 2);
        left += 1;
    }
    assert_eq!(left, 1);
}

#[test]
fn timestamps_are_put_where_they_are_wanted_and_missing() {
    let mut rig = Rig::with(SessionConfig { timestamping: true, ..SessionConfig::new(zid(0x0a)) });
    rig.up(WhatAmI::Router);
    rig.put("a", "1");
    rig.session.put(rig.now, Publication::new(key("a"), PushBody::Del(Del::default()))).unwrap();
    rig.session.put(rig.now, Publication::new(key("a"), put_at("2", 77))).unwrap();
    let mut stamps = Vec::new();
    while let Some((NetworkMessage::Push(push), _)) = rig.session.poll_transmit() {
        stamps.push(*push.body.timestamp().unwrap());
    }
    assert_eq!(stamps[0].id, zid(0x0a));
    assert!(stamps[0] < stamps[1], "a delete is stamped, too");
    assert_eq!((stamps[2].time.0, stamps[2].id), (77, zid(9)));
    assert!(stamps[1] < rig.session.new_timestamp(rig.now));
    // Without the option nothing is stamped.
    let mut rig = Rig::new();
    rig.put("a", "1");
    let Some((NetworkMessage::Push(push), _)) = rig.session.poll_transmit() else { panic!("no push") };
    assert_eq!(push.body.timestamp(), None);
}

#[test]
fn timestamps_follow_those_that_arrive() {
    let mut rig = Rig::with(SessionConfig { timestamping: true, ..SessionConfig::new(zid(0x0a)) });
    rig.up(WhatAmI::Router);
    let ahead = rig.session.new_timestamp(rig.now).time.0 + (1 << 30);
    rig.pushed(WireExpr::full("a"), put_at("1", ahead));
    assert_eq!(rig.session.new_timestamp(rig.now).time.0, ahead + 1);
}

#[test]
fn a_namespace_is_put_on_and_taken_off() {
    let namespace = Some(key("ns/x"));
    let mut rig = Rig::with(SessionConfig { namespace, ..SessionConfig::new(zid(0x0a)) });
    rig.up(WhatAmI::Router);
    rig.subscriber("a/*");
    rig.put("a/b", "1");
    rig.put("@/c", "2");
    assert_eq!(
        rig.sent(),
        ["KEYEXPR 1 0'ns/x/a'", "SUBSCRIBER 1 1S'/*'", "PUSH 0'ns/x/a/b' PUT 1", "PUSH 0'ns/x/@/c' PUT 2"]
    );
    rig.pushed(WireExpr::full("ns/x/a/c"), put("3"));
    rig.pushed(WireExpr::full("ns/xa/c"), put("4"));
    rig.pushed(WireExpr::full("a/c"), put("5"));
    assert_eq!(rig.events(), ["1: PUT a/b 1", "1: PUT a/c 3"]);
    assert_eq!(rig.session.stats().dropped.in_bad_key, 2);
    // Queries and replies, too.
    rig.queryable("q");
    rig.sent();
    rig.requested(4, WireExpr::full("ns/x/q"));
    rig.requested(5, WireExpr::full("q"));
    assert_eq!(rig.sent(), ["FINAL 5"]);
    assert_eq!(rig.events(), ["2: QUERY 2 q"]);
    rig.reply(2, "q", put("r")).unwrap();
    assert_eq!(rig.sent(), ["RESPONSE 4 0'ns/x/q' PUT r"]);
    let get = Get { destination: Locality::Remote, ..Get::new(key("q")) };
    rig.session.get(rig.now, get).unwrap();
    assert_eq!(rig.sent(), ["REQUEST 1 2S''"]);
    rig.replied(1, "ns/x/q", put("s"));
    rig.finished(1);
    assert_eq!(rig.events(), ["1: REPLY PUT q s", "1: Completed"]);
}

#[test]
fn stamps_are_made_where_a_message_leaves_and_arrives() {
    let (send, route) = (
        TsRecord { flags: TsStack::SEND, bytes: "s".into() },
        TsRecord { flags: TsStack::ROUTE, bytes: "r".into() },
    );
    let mut rig = Rig::new();
    rig.subscriber("a");
    rig.sent();
    let stack =
        TsStack { flags: TsStack::SEND | TsStack::ROUTE | TsStack::RECEIVE, records: vec![send.clone()] };
    let stamps = Stamps { stack: stack.clone(), route: Some(route.clone()), pending: None };
    let publication = Publication { stamps: Some(Box::new(stamps)), ..Publication::new(key("a"), put("x")) };
    rig.session.put(rig.now, publication).unwrap();
    let points = |stack: &TsStack| stack.records.iter().map(|record| record.flags).collect::<Vec<_>>();
    // The own session gets it without a ROUTE stamp.
    let Some(Event::Sample { sample, .. }) = rig.session.poll_event() else { panic!("no sample") };
    let near = sample.stamps.unwrap();
    assert_eq!(points(&near.stack), [TsStack::SEND, TsStack::RECEIVE]);
    assert_eq!(near.stack.records[1].timestamp().unwrap().id, rig.session.zid());
    let Some((NetworkMessage::Push(push), _)) = rig.session.poll_transmit() else { panic!("no push") };
    assert_eq!(*push.ts_stack.unwrap(), TsStack { records: vec![send, route], ..stack.clone() });
    // From another node: it has passed the node of this process.
    let push = Push { ts_stack: Some(Box::new(stack.clone())), ..Push::new(WireExpr::full("a"), put("x")) };
    rig.session.handle_message(rig.now, NetworkMessage::Push(push.clone()), Reliability::Reliable).unwrap();
    let Some(Event::Sample { sample, .. }) = rig.session.poll_event() else { panic!("no sample") };
    let far = sample.stamps.unwrap();
    assert_eq!(points(&far.stack), [TsStack::SEND, TsStack::ROUTE, TsStack::RECEIVE]);
    assert!(far.pending.is_none());
    // With a stamper: empty places are left, with the stamper and their number.
    rig.session.set_stamper(std::sync::Arc::new(7_u8));
    rig.session.handle_message(rig.now, NetworkMessage::Push(push), Reliability::Reliable).unwrap();
    let Some(Event::Sample { sample, .. }) = rig.session.poll_event() else { panic!("no sample") };
    let open = sample.stamps.unwrap();
    let user = TsRecord::USER;
    assert_eq!(points(&open.stack), [TsStack::SEND, TsStack::ROUTE | user, TsStack::RECEIVE | user]);
    let (stamper, count) = open.pending.unwrap();
    assert_eq!((stamper.downcast_ref::<u8>(), count), (Some(&7), 2));
}
