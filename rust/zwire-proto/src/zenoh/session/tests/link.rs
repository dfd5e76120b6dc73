//! Loss and return of the link, and peers that declare unasked.

use super::*;

#[test]
fn without_a_link_publications_stay_in_the_session() {
    let mut rig = Rig::offline();
    rig.subscriber("a");
    assert_eq!(rig.put("a", "1"), Published { local: 1, sent: false });
    assert_eq!(rig.sent(), [] as [&str; 0]);
    assert_eq!(rig.session.stats().dropped.put_no_link, 1);
    assert!(!rig.session.is_up());
    rig.up(WhatAmI::Router);
    assert_eq!(rig.sent(), ["KEYEXPR 1 0'a'", "SUBSCRIBER 1 1S''"], "and is not made up for");
    assert_eq!(rig.session.remote().unwrap().zid, zid(0x0b));
    assert!(rig.put("a", "2").sent);
}

#[test]
fn gets_lose_the_branch_that_goes_by_the_link() {
    let mut rig = Rig::new();
    rig.queryable("k");
    rig.get("k");
    rig.get("far");
    rig.replied(2, "far", put("held"));
    rig.events();
    rig.down();
    assert_eq!(rig.events(), ["2: REPLY PUT far held", "2: LinkLost"]);
    rig.up(WhatAmI::Router);
    // Numbers of the old link: late answers are not taken for new ones.
    rig.replied(1, "k", put("old"));
    rig.finished(1);
    rig.reply(1, "k", put("near")).unwrap();
    rig.finish(1);
    assert_eq!(rig.events(), ["1: REPLY PUT k near", "1: LinkLost"]);
}

#[test]
fn matching_ends_with_the_link_and_publications_pass_until_the_next_final() {
    let mut rig = Rig::new();
    let publisher = rig.publisher("a");
    rig.declared(Some(1), d_subscriber(1, "a"));
    rig.final_of(1);
    rig.down();
    assert_eq!(rig.events(), ["1: matching true", "1: matching false"]);
    rig.up(WhatAmI::Router);
    assert!(rig.publish(publisher, "1").sent, "not answered yet");
    rig.final_of(1);
    assert!(!rig.publish(publisher, "2").sent);
}

#[test]
fn numbers_of_the_old_link_mean_nothing_on_the_new_one() {
    let mut rig = Rig::new();
    rig.subscriber("**");
    rig.declared(None, Declaration::KeyExpr { id: 1, key: WireExpr::full("old") });
    let scope = || WireExpr { scope: 1, mapping: Mapping::Sender, suffix: Text::EMPTY };
    rig.pushed(scope(), put("1"));
    rig.session.handle_link_up(rig.now, Remote { zid: zid(0x0c), whatami: WhatAmI::Router });
    rig.pushed(scope(), put("2"));
    assert_eq!(rig.events(), ["1: PUT old 1"]);
    assert_eq!(rig.session.stats().links_up, 2);
}

#[test]
fn what_did_not_leave_is_counted() {
    let mut rig = Rig::new();
    rig.put("a", "1");
    rig.put("a", "2");
    rig.down();
    assert_eq!(rig.sent(), [] as [&str; 0]);
    assert_eq!(rig.session.stats().dropped.out_link_lost, 2);
    rig.pushed(WireExpr::full("a"), put("after the end"));
    assert_eq!(rig.session.stats().pushes_received, 0);
}

#[test]
fn a_peer_may_tell_without_being_asked() {
    let mut rig = Rig::offline();
    rig.up(WhatAmI::Peer);
    rig.declared(None, d_subscriber(1, "m/**"));
    rig.final_of(0);
    let publisher = rig.publisher("m/1");
    assert_eq!(rig.session.matching(publisher), Some(true));
    assert!(rig.publish(publisher, "1").sent);
    // The peer will not answer interests, and has sent all declarations: the filter works at once.
    let other = rig.publisher("x/1");
    assert!(!rig.publish(other, "2").sent);
    // Its declarations are not dropped with the interest.
    rig.undeclare(publisher);
    let publisher = rig.publisher("m/1");
    assert_eq!(rig.session.matching(publisher), Some(true));
    rig.declared(None, u_subscriber(1));
    assert_eq!(rig.events(), ["3: matching false"]);
}

#[test]
fn a_router_that_tells_unasked_is_not_listened_to() {
    let mut rig = Rig::new();
    rig.declared(None, d_subscriber(1, "a"));
    let publisher = rig.publisher("a");
    assert_eq!(rig.session.matching(publisher), Some(false));
    assert_eq!(rig.session.stats().dropped.declare_ignored, 1);
}

#[test]
fn a_recorded_answer_of_a_router_is_understood() {
    // `zenoh-wire` E48 with interest 1: one subscriber, then the end.
    let mut rig = Rig::new();
    let publisher = rig.publisher("f/pub");
    rig.hears(unhex("be 01 21 08 62 01 00 04 66 2f 2a 2a"));
    rig.hears(unhex("be 01 21 08 1a"));
    assert_eq!(rig.session.matching(publisher), Some(true));
}

#[test]
fn counters_tell_what_happened() {
    let mut rig = Rig::new();
    rig.subscriber("a");
    rig.queryable("a");
    rig.put("a", "1");
    rig.pushed(WireExpr::full("a"), put("2"));
    rig.get("a");
    rig.replied(1, "a", put("3"));
    rig.finished(1);
    rig.requested(4, WireExpr::full("a"));
    rig.reply(3, "a", put("4")).unwrap();
    rig.finish(1);
    let stats = rig.session.stats();
    assert_eq!((stats.pushes_sent, stats.pushes_received, stats.samples_delivered), (1, 1, 2));
    assert_eq!((stats.requests_sent, stats.requests_received, stats.queries_delivered), (1, 1, 2));
    assert_eq!((stats.responses_sent, stats.responses_received, stats.replies_delivered), (1, 1, 1));
    assert_eq!((stats.declarations_sent, stats.declarations_received), (3, 0));
}
