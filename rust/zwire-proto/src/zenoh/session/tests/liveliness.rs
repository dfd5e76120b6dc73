//! Tokens of the own session and of others.

use super::*;

#[test]
fn a_key_is_alive_from_its_first_token_to_its_last() {
    let mut rig = Rig::new();
    rig.watch("l/**", false);
    rig.final_of(1);
    rig.declared(None, d_token(7, "l/a"));
    assert_eq!(rig.events(), ["1: PUT l/a "]);
    // A second one elsewhere, and one of the own session.
    rig.declared(None, d_token(8, "l/a"));
    let own = rig.token("l/a");
    rig.declared(None, u_token(7));
    rig.declared(None, u_token(8));
    assert_eq!(rig.events(), [] as [&str; 0]);
    rig.undeclare(own);
    assert_eq!(rig.events(), ["1: DELETE l/a"]);
}

#[test]
fn the_routers_echo_of_an_own_token_is_no_news() {
    let mut rig = Rig::new();
    rig.watch("l/*", true);
    let own = rig.token("l/own");
    assert_eq!(rig.events(), ["1: PUT l/own "]);
    rig.declared(None, d_token(3, "l/own"));
    assert_eq!(rig.events(), [] as [&str; 0]);
    rig.undeclare(own);
    rig.declared(None, u_token(3));
    assert_eq!(rig.events(), ["1: DELETE l/own"]);
    // A peer does not echo tokens.
    let own = rig.token("l/own");
    rig.undeclare(own);
    assert_eq!(rig.events(), ["1: PUT l/own ", "1: DELETE l/own"]);
}

#[test]
fn history_is_told_once_to_whom_asked() {
    let mut rig = Rig::new();
    rig.token("l/own");
    rig.watch("l/*", false);
    rig.watch("l/*", true);
    rig.watch("l/*", true);
    assert_eq!(rig.events(), ["3: PUT l/own ", "4: PUT l/own "]);
    // Own token 1, interests 2, 3, 4; both histories are answered.
    for interest in [3, 4] {
        rig.declared(Some(interest), d_token(1, "l/own"));
        rig.declared(Some(interest), d_token(2, "l/far"));
        rig.final_of(interest);
    }
    assert_eq!(rig.events(), ["3: PUT l/far ", "4: PUT l/far "]);
    // Changes are reported to all.
    rig.declared(None, d_token(5, "l/new"));
    assert_eq!(rig.events(), ["2: PUT l/new ", "3: PUT l/new ", "4: PUT l/new "]);
}

#[test]
fn a_later_history_is_told_what_is_known() {
    let mut rig = Rig::new();
    rig.watch("l/*", false);
    rig.declared(None, d_token(2, "l/far"));
    rig.events();
    rig.watch("l/far", true);
    assert_eq!(rig.events(), ["2: PUT l/far "]);
    rig.declared(Some(2), d_token(2, "l/far"));
    rig.final_of(2);
    assert_eq!(rig.events(), [] as [&str; 0]);
    rig.declared(None, u_token(2));
    assert_eq!(rig.events(), ["1: DELETE l/far", "2: DELETE l/far"]);
}

#[test]
fn a_token_that_was_never_seen_goes_by_its_key() {
    let mut rig = Rig::new();
    rig.watch("l/*", false);
    rig.token("l/own");
    rig.events();
    let gone = |id, key: &str| Declaration::UndeclareToken { id, key: Some(WireExpr::full(key)) };
    rig.declared(None, gone(0, "l/far"));
    assert_eq!(rig.events(), ["1: DELETE l/far"]);
    // But not as long as another token keeps the key alive.
    rig.declared(None, gone(0, "l/own"));
    rig.declared(None, gone(0, "elsewhere"));
    rig.declared(None, u_token(77));
    rig.declared(None, Declaration::UndeclareToken { id: 78, key: None });
    assert_eq!(rig.events(), [] as [&str; 0]);
}

#[test]
fn tokens_end_with_the_link_and_come_back_with_the_next() {
    let mut rig = Rig::new();
    rig.watch("l/*", false);
    rig.token("l/own");
    rig.declared(None, d_token(9, "l/own"));
    rig.declared(None, d_token(10, "l/far"));
    rig.declared(None, d_token(11, "l/far"));
    rig.events();
    rig.sent();
    rig.down();
    assert_eq!(rig.events(), ["1: DELETE l/far"], "the own one lives");
    rig.up(WhatAmI::Router);
    // Existing tokens are requested, because they may have vanished and reappeared.
    assert_eq!(rig.sent()[1], "INTEREST 1 CurrentFuture 1S'/*'");
    rig.declared(Some(1), d_token(1, "l/own"));
    rig.declared(Some(1), d_token(2, "l/far"));
    rig.final_of(1);
    assert_eq!(rig.events(), ["1: PUT l/far "]);
}

#[test]
fn after_an_outage_all_watchers_hear_what_is_there() {
    let mut rig = Rig::new();
    rig.watch("l/*", false);
    rig.watch("l/*", false);
    rig.down();
    rig.up(WhatAmI::Router);
    for interest in [1, 2] {
        rig.declared(Some(interest), d_token(2, "l/far"));
        rig.final_of(interest);
    }
    assert_eq!(rig.events(), ["1: PUT l/far ", "2: PUT l/far "]);
}

#[test]
fn a_liveliness_get_reports_each_key_once() {
    let mut rig = Rig::new();
    rig.token("l/own");
    rig.sent();
    rig.session.liveliness_get(rig.now, key("l/*"), None).unwrap();
    assert_eq!(rig.sent(), ["KEYEXPR 2 0'l'", "INTEREST 2 Current 2S'/*'"]);
    rig.declared(Some(2), d_token(0, "l/own"));
    rig.declared(Some(2), d_token(0, "l/far"));
    rig.declared(Some(2), d_token(0, "l/far"));
    rig.final_of(2);
    // A second D_FINAL is ignored.
    rig.final_of(2);
    assert_eq!(rig.events(), ["1: REPLY PUT l/own ", "1: REPLY PUT l/far ", "1: Completed"]);
    // An answer is not a declaration.
    rig.watch("l/*", true);
    assert_eq!(rig.events(), ["2: PUT l/own "]);
}

#[test]
fn a_liveliness_get_times_out_and_loses_its_link() {
    let mut rig = Rig::new();
    rig.session.liveliness_get(rig.now, key("l/*"), Some(Duration::from_secs(1))).unwrap();
    rig.pass(1_000);
    assert_eq!(rig.events(), ["1: ERR Timeout", "1: TimedOut"]);
    rig.declared(Some(1), d_token(0, "l/late"));
    rig.final_of(1);
    assert_eq!(rig.events(), [] as [&str; 0]);
    rig.session.liveliness_get(rig.now, key("l/*"), None).unwrap();
    rig.down();
    assert_eq!(rig.events(), ["2: LinkLost"]);
    // The answer to a get cannot be forged with a RESPONSE.
    rig.up(WhatAmI::Router);
    rig.session.liveliness_get(rig.now, key("l/*"), None).unwrap();
    rig.replied(3, "l/x", put("x"));
    rig.finished(3);
    assert_eq!(rig.events(), [] as [&str; 0]);
}

#[test]
fn what_is_watched_no_more_is_forgotten() {
    let mut rig = Rig::new();
    let watch = rig.watch("l/*", false);
    rig.declared(None, d_token(9, "l/far"));
    rig.undeclare(watch);
    rig.events();
    // The token may be gone meanwhile; the router will report it.
    rig.watch("l/*", true);
    assert_eq!(rig.events(), [] as [&str; 0]);
    rig.declared(Some(2), d_token(9, "l/far"));
    assert_eq!(rig.events(), ["2: PUT l/far "]);
}

#[test]
fn a_peer_that_told_everything_need_not_be_asked() {
    let mut rig = Rig::offline();
    rig.up(WhatAmI::Peer);
    rig.declared(Some(0), d_token(1, "l/far"));
    rig.final_of(0);
    rig.session.liveliness_get(rig.now, key("l/*"), None).unwrap();
    assert_eq!(rig.sent(), [] as [&str; 0]);
    assert_eq!(rig.events(), ["1: REPLY PUT l/far ", "1: Completed"]);
    rig.watch("l/*", true);
    assert_eq!(rig.events(), ["1: PUT l/far "]);
}
