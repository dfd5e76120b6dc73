//! Gets: branches, consolidation, timeouts.

use super::*;
use crate::zenoh::wire::{Err as WireErr, QueryTarget, ResponderId};
use core::num::NonZeroU32;

fn err(payload: &'static str) -> ResponseBody {
    ResponseBody::Err(WireErr { payload: payload.into(), ..WireErr::default() })
}

#[test]
fn the_bytes_of_a_default_get_are_those_of_the_reference() {
    // `zenoh-wire` E33, without the head of the FRAME.
    let mut rig = Rig::new();
    let timeout = Some(Duration::from_millis(2_000));
    rig.session.get(rig.now, Get { timeout, ..Get::new(key("demo/q")) }).unwrap();
    let bytes: String = rig.messages().iter().map(hex).collect();
    assert_eq!(bytes, "fc01000664656d6f2f71a10d26d00f2303");
}

#[test]
fn everything_of_a_get_is_in_the_request() {
    let mut rig = Rig::new();
    let get = Get {
        parameters: "a=1".into(),
        target: QueryTarget::All,
        consolidation: Consolidation::Monotonic,
        budget: NonZeroU32::new(3),
        qos: Qos(0x1e),
        attachment: Some("att".into()),
        accept_any_key: true,
        ..Get::new(key("a"))
    };
    rig.session.get(rig.now, get).unwrap();
    let Some((NetworkMessage::Request(request), _)) = rig.session.poll_transmit() else {
        panic!("no request")
    };
    assert_eq!((request.id, request.qos, request.target), (1, Qos(0x1e), QueryTarget::All));
    assert_eq!((request.budget, request.timeout_ms), (NonZeroU32::new(3), Some(10_000)));
    assert_eq!(request.query.parameters, "a=1;_anyke");
    assert_eq!(request.query.consolidation, Consolidation::Monotonic);
    assert_eq!(request.query.attachment.as_deref(), Some(&b"att"[..]));
}

#[test]
fn auto_is_latest_and_with_a_time_range_none() {
    for (parameters, resolved) in [
        ("", Consolidation::Latest),
        ("_timer=1", Consolidation::Latest),
        ("_time=[now(-1h)..]", Consolidation::None),
    ] {
        let mut rig = Rig::new();
        rig.session.get(rig.now, Get { parameters: parameters.into(), ..Get::new(key("a")) }).unwrap();
        let Some((NetworkMessage::Request(request), _)) = rig.session.poll_transmit() else { panic!() };
        assert_eq!(request.query.consolidation, resolved, "{parameters}");
    }
}

#[test]
fn latest_holds_the_newest_of_each_key_until_the_end() {
    let mut rig = Rig::new();
    rig.get("k/*");
    rig.replied(1, "k/a", put_at("new", 2));
    rig.replied(1, "k/a", put_at("old", 1));
    rig.replied(1, "k/b", put("first"));
    rig.replied(1, "k/b", put("second"));
    rig.replied(1, "k/c", put_at("same", 3));
    rig.replied(1, "k/c", put_at("later", 3));
    rig.replied(1, "k/d", PushBody::Del(Del::default()));
    assert_eq!(rig.events(), [] as [&str; 0]);
    rig.finished(1);
    assert_eq!(
        rig.events(),
        [
            "1: REPLY PUT k/a new",
            "1: REPLY PUT k/b second",
            "1: REPLY PUT k/c later",
            "1: REPLY DELETE k/d",
            "1: Completed"
        ]
    );
    assert_eq!(rig.session.stats().dropped.reply_consolidated, 3);
}

#[test]
fn monotonic_drops_what_is_older_and_none_drops_nothing() {
    let replies = |rig: &mut Rig| {
        rig.replied(1, "k", put("unstamped"));
        rig.replied(1, "k", put_at("2", 2));
        rig.replied(1, "k", put_at("1", 1));
        rig.replied(1, "k", put("unstamped"));
        rig.replied(1, "k", put_at("2 again", 2));
        rig.replied(1, "k/b", put_at("other", 1));
        rig.events()
    };
    let mut rig = Rig::new();
    rig.get_with("k/**", Consolidation::Monotonic);
    assert_eq!(
        replies(&mut rig),
        ["1: REPLY PUT k unstamped", "1: REPLY PUT k 2", "1: REPLY PUT k 2 again", "1: REPLY PUT k/b other"]
    );
    let mut rig = Rig::new();
    rig.get_with("k/**", Consolidation::None);
    assert_eq!(replies(&mut rig).len(), 6);
}

#[test]
fn errors_come_at_once_in_each_mode() {
    for mode in [Consolidation::Auto, Consolidation::None, Consolidation::Monotonic, Consolidation::Latest] {
        let mut rig = Rig::new();
        rig.get_with("k", mode);
        rig.hears(NetworkMessage::Response(response(1, "k", err("oops"))));
        rig.hears(NetworkMessage::Response(response(1, "", err("empty key"))));
        assert_eq!(rig.events(), ["1: ERR oops", "1: ERR empty key"], "{mode:?}");
    }
}

#[test]
fn replies_on_other_keys_need_to_be_welcome() {
    let mut rig = Rig::new();
    rig.get_with("k", Consolidation::None);
    rig.replied(1, "other", put("x"));
    assert_eq!(rig.events(), [] as [&str; 0]);
    assert_eq!(rig.session.stats().dropped.reply_bad_key, 1);
    let (parameters, consolidation) = ("_anyke".into(), Consolidation::None);
    rig.session.get(rig.now, Get { parameters, consolidation, ..Get::new(key("k")) }).unwrap();
    rig.replied(2, "other", put("y"));
    let get = Get { accept_any_key: true, consolidation, ..Get::new(key("k")) };
    rig.session.get(rig.now, get).unwrap();
    rig.replied(3, "other", put("z"));
    assert_eq!(rig.events(), ["2: REPLY PUT other y", "3: REPLY PUT other z"]);
}

#[test]
fn the_replier_is_reported() {
    let mut rig = Rig::new();
    rig.get_with("k", Consolidation::None);
    let replier = Some(ResponderId { zid: zid(7), eid: 8 });
    let body = ResponseBody::Reply(WireReply::new(put("x")));
    rig.hears(NetworkMessage::Response(Response { responder: replier, ..response(1, "k", body) }));
    let Some(Event::Reply { reply, .. }) = rig.session.poll_event() else { panic!("no reply") };
    assert_eq!(reply.replier, replier);
}

#[test]
fn a_timeout_delivers_what_was_held_then_an_error_then_the_end() {
    let mut rig = Rig::new();
    let timeout = Some(Duration::from_millis(700));
    rig.session.get(rig.now, Get { timeout, ..Get::new(key("k")) }).unwrap();
    rig.replied(1, "k", put("kept"));
    rig.pass(699);
    assert_eq!(rig.events(), [] as [&str; 0]);
    rig.pass(1);
    let events: Vec<_> = core::iter::from_fn(|| rig.session.poll_event()).collect();
    assert_eq!(
        events.iter().map(show_event).collect::<Vec<_>>(),
        ["1: REPLY PUT k kept", "1: ERR Timeout", "1: TimedOut"]
    );
    let Event::Reply { reply, .. } = &events[1] else { panic!("no error") };
    assert_eq!(reply.result.as_ref().unwrap_err().encoding.to_string(), "zenoh/bytes");
    // Late replies are ignored.
    rig.replied(1, "k", put("late"));
    rig.finished(1);
    assert_eq!(rig.events(), [] as [&str; 0]);
    assert_eq!(rig.session.stats().dropped.reply_late, 2);
    assert_eq!(rig.session.poll_timeout(), None);
}

#[test]
fn a_timeout_that_nodes_tell_of_is_told_once() {
    let mut rig = Rig::new();
    let timeout = Some(Duration::from_millis(700));
    rig.session.get(rig.now, Get { timeout, ..Get::new(key("k")) }).unwrap();
    let node = Response {
        key: WireExpr::EMPTY,
        responder: Some(ResponderId { zid: zid(7), eid: 0 }),
        ..response(1, "k", err("Timeout"))
    };
    rig.hears(NetworkMessage::Response(node.clone()));
    rig.hears(NetworkMessage::Response(node));
    // The same text from a queryable is an ordinary reply.
    rig.hears(NetworkMessage::Response(response(1, "k", err("Timeout"))));
    rig.pass(700);
    assert_eq!(rig.events(), ["1: ERR Timeout", "1: ERR Timeout", "1: TimedOut"]);
}

/// The timers of nodes on the way and that of the session run for the same time, and any may be first.
#[test]
fn a_get_times_out_whichever_timer_is_first() {
    let node = Response {
        key: WireExpr::EMPTY,
        responder: Some(ResponderId { zid: zid(7), eid: 0 }),
        ..response(1, "k", err("Timeout"))
    };
    let timeout = Some(Duration::from_millis(700));
    let waited = |millis| {
        let mut rig = Rig::new();
        rig.session.get(rig.now, Get { timeout, ..Get::new(key("k")) }).unwrap();
        // The clock goes on, and the driver has not looked at its timers yet.
        rig.now.mono += Duration::from_millis(millis);
        rig
    };
    // The timer of a node, whose milliseconds are those of the query rounded down, and then the end.
    for millis in [699, 700, 701] {
        let mut rig = waited(millis);
        rig.hears(NetworkMessage::Response(node.clone()));
        rig.finished(1);
        assert_eq!(rig.events(), ["1: ERR Timeout", "1: TimedOut"]);
        rig.pass(10);
        assert_eq!(rig.events(), [] as [&str; 0]);
    }
    // The end of a query that no node tells of, on either side of the timeout.
    for (millis, end) in [(699, &["1: Completed"][..]), (700, &["1: ERR Timeout", "1: TimedOut"])] {
        let mut rig = waited(millis);
        rig.finished(1);
        assert_eq!(rig.events(), end);
    }
}

#[test]
fn a_timeout_on_the_way_is_kept_until_the_own_queryable_has_finished() {
    let mut rig = Rig::new();
    rig.queryable("k");
    rig.get_with("k", Consolidation::None);
    rig.hears(NetworkMessage::Response(Response {
        key: WireExpr::EMPTY,
        responder: Some(ResponderId { zid: zid(7), eid: 0 }),
        ..response(1, "k", err("Timeout"))
    }));
    rig.finished(1);
    assert_eq!(rig.events(), ["1: QUERY 1 k", "1: ERR Timeout"]);
    rig.finish(1);
    assert_eq!(rig.events(), ["1: TimedOut"]);
}

#[test]
fn a_get_without_any_time_has_a_millisecond() {
    let mut rig = Rig::new();
    for timeout in [Duration::ZERO, Duration::from_micros(400)] {
        let timeout = Some(timeout);
        let id = rig.session.get(rig.now, Get { timeout, ..Get::new(key("k")) }).unwrap();
        let sent = rig.messages();
        let [NetworkMessage::Request(request)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(request.timeout_ms, Some(1));
        assert_eq!(rig.session.poll_timeout(), Some(rig.now.mono + Duration::from_millis(1)));
        rig.session.handle_timeout(rig.now);
        assert_eq!(rig.events(), [] as [&str; 0]);
        rig.pass(1);
        assert_eq!(rig.events(), [format!("{}: ERR Timeout", id.0), format!("{}: TimedOut", id.0)]);
    }
    rig.session.liveliness_get(rig.now, key("k"), Some(Duration::ZERO)).unwrap();
    assert_eq!(rig.session.poll_timeout(), Some(rig.now.mono + Duration::from_millis(1)));
}

#[test]
fn the_default_timeout_is_that_of_the_session() {
    let mut rig = Rig::new();
    rig.get("k");
    assert_eq!(rig.session.poll_timeout(), Some(rig.now.mono + Duration::from_secs(10)));
    rig.get_with("k", Consolidation::None);
    rig.finished(1);
    rig.pass(10_000);
    assert_eq!(rig.events(), ["1: Completed", "2: ERR Timeout", "2: TimedOut"]);
}

#[test]
fn both_branches_have_to_end() {
    let mut rig = Rig::new();
    rig.queryable("k");
    rig.get("k");
    assert_eq!(rig.events(), ["1: QUERY 1 k"]);
    rig.finished(1);
    assert_eq!(rig.events(), [] as [&str; 0], "the local one has not");
    rig.reply(1, "k", put("near")).unwrap();
    rig.finish(1);
    assert_eq!(rig.events(), ["1: REPLY PUT k near", "1: Completed"]);
    rig.get("k");
    rig.finish(2);
    assert_eq!(rig.events(), ["1: QUERY 2 k"], "the far one has not");
    rig.finished(2);
    assert_eq!(rig.events(), ["2: Completed"]);
    assert_eq!(rig.sent()[2..], ["REQUEST 1 1S''", "REQUEST 2 1S''"], "and no final for our own");
}

#[test]
fn local_and_remote_replies_are_consolidated_together() {
    let mut rig = Rig::new();
    rig.queryable("k");
    rig.get("k");
    rig.replied(1, "k", put_at("far", 2));
    rig.reply(1, "k", put_at("near", 1)).unwrap();
    rig.finish(1);
    rig.finished(1);
    assert_eq!(rig.events(), ["1: QUERY 1 k", "1: REPLY PUT k far", "1: Completed"]);
}

#[test]
fn localities_and_targets_choose_the_local_queryables() {
    use Locality::{Any, Remote, SessionLocal};
    let ask = |target, destination| {
        let mut rig = Rig::new();
        for (text, complete, origin) in [
            ("k/**", true, Any),
            ("k/a", false, Any),
            ("k/a", true, Remote),
            ("k/a", true, SessionLocal),
            ("k/b", true, Any),
        ] {
            let options = QueryableOptions { complete, origin };
            rig.session.declare_queryable(rig.now, key(text), options).unwrap();
        }
        rig.sent();
        rig.session.get(rig.now, Get { target, destination, ..Get::new(key("k/a")) }).unwrap();
        let asked: Vec<_> =
            rig.events().iter().filter_map(|e| e.split(": QUERY").next()?.parse::<u32>().ok()).collect();
        (asked, rig.sent().len())
    };
    assert_eq!(ask(QueryTarget::BestMatching, Any), (vec![1, 2, 4], 1));
    assert_eq!(ask(QueryTarget::All, Any), (vec![1, 2, 4], 1));
    assert_eq!(ask(QueryTarget::AllComplete, Any), (vec![1, 4], 1));
    assert_eq!(ask(QueryTarget::All, SessionLocal), (vec![1, 2, 4], 0));
    assert_eq!(ask(QueryTarget::All, Remote), (vec![], 1));
}

#[test]
fn a_complete_queryable_has_to_include_the_query() {
    let mut rig = Rig::new();
    let complete = QueryableOptions { complete: true, origin: Locality::Any };
    rig.session.declare_queryable(rig.now, key("k/a"), complete).unwrap();
    let (target, destination) = (QueryTarget::AllComplete, Locality::SessionLocal);
    rig.session.get(rig.now, Get { target, destination, ..Get::new(key("k/*")) }).unwrap();
    assert_eq!(rig.events(), ["1: Completed"]);
}

#[test]
fn a_querier_that_knows_of_nobody_asks_nobody() {
    let mut rig = Rig::new();
    let querier = rig.querier("q");
    rig.sent();
    let ask = |rig: &mut Rig| {
        rig.session.get(rig.now, Get { querier: Some(querier), ..Get::new(key("q")) }).unwrap();
        rig.sent()
    };
    assert_eq!(ask(&mut rig), ["REQUEST 1 1S''"], "not answered yet");
    rig.finished(1);
    rig.final_of(1);
    assert_eq!(ask(&mut rig), [] as [&str; 0]);
    assert_eq!(rig.events(), ["1: Completed", "2: NoQueryable"]);
    rig.declared(None, d_queryable(4, "q", false));
    assert_eq!(ask(&mut rig), ["REQUEST 3 1S''"]);
    rig.declared(None, Declaration::UndeclareQueryable { id: 4, key: Some(WireExpr::EMPTY) });
    assert_eq!(ask(&mut rig), [] as [&str; 0]);
    assert_eq!(rig.events(), ["1: matching true", "1: matching false", "4: NoQueryable"]);
    // A local queryable is queried nevertheless.
    rig.queryable("q");
    rig.sent();
    assert_eq!(ask(&mut rig), [] as [&str; 0]);
    rig.finish(1);
    assert_eq!(rig.events(), ["1: matching true", "2: QUERY 1 q", "5: Completed"]);
}

#[test]
fn a_querier_of_all_complete_matches_complete_ones_that_include_its_key() {
    let mut rig = Rig::new();
    let target = QueryTarget::AllComplete;
    let options = QuerierOptions { target, ..QuerierOptions::default() };
    let querier = rig.session.declare_querier(rig.now, key("q/*"), options).unwrap();
    rig.declared(Some(1), d_queryable(1, "q/*", false));
    rig.declared(Some(1), d_queryable(2, "q/a", true));
    rig.final_of(1);
    assert_eq!(rig.session.matching(querier), Some(false));
    rig.session.get(rig.now, Get { target, ..Get::new(key("q/*")) }).unwrap();
    assert_eq!(rig.events(), ["1: NoQueryable"]);
    // The first one is complete from now on.
    rig.declared(None, d_queryable(1, "q/*", true));
    assert_eq!(rig.events(), ["1: matching true"]);
    rig.declared(None, d_queryable(1, "q/*", false));
    assert_eq!(rig.events(), ["1: matching false"]);
}

#[test]
fn ids_are_in_the_negotiated_range() {
    let mut rig = Rig::new();
    rig.session.limit_request_ids(crate::zenoh::wire::Resolution::new(2, 0));
    let mut last = None;
    for _ in 0..300 {
        let id = rig.session.get(rig.now, Get::new(key("k"))).unwrap();
        assert!((1..=0x7f).contains(&id.0), "{id:?}");
        assert_ne!(Some(id), last.replace(id));
        rig.session.cancel(rig.now, id);
    }
    let open = (0..0x80).filter(|_| rig.session.get(rig.now, Get::new(key("k"))).is_ok()).count();
    assert!(open <= 0x7f, "{open}");
}

#[test]
fn a_budget_ends_the_get() {
    let mut rig = Rig::new();
    let budget = NonZeroU32::new(2);
    rig.session.get(rig.now, Get { budget, ..Get::new(key("k/*")) }).unwrap();
    rig.replied(1, "k/a", put("1"));
    rig.replied(1, "k/b", put("2"));
    rig.replied(1, "k/c", put("3"));
    rig.finished(1);
    assert_eq!(rig.events(), ["1: REPLY PUT k/a 1", "1: REPLY PUT k/b 2", "1: BudgetSpent"]);
}

#[test]
fn cancelling_drops_what_was_held_and_says_nothing_to_the_north() {
    let mut rig = Rig::new();
    let get = rig.get("k");
    rig.sent();
    rig.replied(1, "k", put("held"));
    rig.session.cancel(rig.now, get);
    rig.session.cancel(rig.now, get);
    assert_eq!(rig.events(), ["1: Cancelled"]);
    assert_eq!(rig.sent(), [] as [&str; 0]);
}

#[test]
fn a_get_without_a_link_asks_only_the_own_session() {
    let mut rig = Rig::offline();
    rig.get("k");
    assert_eq!(rig.events(), ["1: LinkLost"]);
    rig.queryable("k");
    rig.get("k");
    rig.reply(1, "k", put("near")).unwrap();
    rig.finish(1);
    assert_eq!(rig.events(), ["1: QUERY 1 k", "2: REPLY PUT k near", "2: LinkLost"]);
}

#[test]
fn replies_to_somebody_elses_branch_are_ignored() {
    let mut rig = Rig::new();
    rig.queryable("k");
    let get = Get { destination: Locality::SessionLocal, ..Get::new(key("k")) };
    rig.session.get(rig.now, get).unwrap();
    rig.events();
    // The north was not queried.
    rig.replied(1, "k", put("forged"));
    rig.finished(1);
    rig.finish(1);
    assert_eq!(rig.events(), ["1: Completed"]);
}
