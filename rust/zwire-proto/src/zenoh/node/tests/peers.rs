//! Peers at a hub, and a node that is a peer (`zenoh-behaviour` 1.4, 4.5, 4.6, 5.5, 5.7).

use super::*;

fn d_final() -> NetworkMessage {
    NetworkMessage::Declare(Declare::new(Some(0), Declaration::Final))
}

/// A link state of `own`, which is linked to `others`.
fn links(own: u32, sn: u64, others: &[u32]) -> NetworkMessage {
    let record = |psid, number| LinkState { psid, sn, zid: Some(zid(number)), ..LinkState::default() };
    let mut list = vec![LinkState { links: (1..=others.len() as u64).collect(), ..record(0, own) }];
    list.extend((1..).zip(others).map(|(psid, other)| record(psid, *other)));
    NetworkMessage::Oam(Oam::new(Oam::LINK_STATE, ExtBody::ZBuf(LinkStateList(list).encode())))
}

#[test]
fn a_hub_greets_peers_with_a_link_state_and_nobody_else() {
    let mut world = World::hub();
    world.node.handle_face_up(
        world.now(),
        FaceId(1),
        Remote { zid: zid(1), whatami: WhatAmI::Peer },
        FaceKind::Unicast,
    );
    let [(1, message)] = &world.drain_raw()[..] else { panic!("one message to the peer") };
    // OAM with ENC ZBuf, id 1, QoS, and the empty list: one byte of count.
    assert_eq!(hex(message), "df0121080100");
    assert!(world.up(2, WhatAmI::Client).is_empty());
}

#[test]
fn a_hub_serves_peers_like_clients_but_for_their_own_tokens() {
    let mut world = World::with_clients(1);
    world.up(2, WhatAmI::Peer);
    world.says(2, d_token(1, "t/peer"));
    world.says(1, d_token(1, "t/client"));
    assert_eq!(
        world.says(2, interest(1, InterestMode::Current, "KT", Some("t/*"))),
        ["2: I=1 D_TOKEN 0 t/client", "2: I=1 D_FINAL"]
    );
    world.says(2, d_sub(1, "a"));
    assert_eq!(world.says(1, put("a", "")), ["2: a PUT "]);
    world.says(1, d_qabl(1, "q", true, 0));
    assert_eq!(world.says(2, get(1, "q")), ["1: REQUEST 1 q"]);
}

#[test]
fn a_hub_relays_between_peers_until_they_have_a_link_of_their_own() {
    let mut world = World::hub();
    world.up(1, WhatAmI::Peer);
    world.up(2, WhatAmI::Peer);
    world.says(1, links(1, 1, &[0xf000]));
    world.says(1, interest(1, InterestMode::CurrentFuture, "KS", None));
    assert_eq!(world.says(2, d_sub(1, "a")), ["1: D_SUB 1 a"]);
    assert_eq!(world.says(1, put("a", "")), ["2: a PUT "]);
    // The two peers connect: the first to announce it counts.
    assert_eq!(world.says(2, links(2, 1, &[0xf000, 1])), ["1: U_SUB 1"]);
    assert!(world.says(1, put("a", "")).is_empty());
    assert!(world.says(1, get(1, "a")).contains(&"1: FINAL 1".to_owned()));
    assert!(world.says(1, links(1, 2, &[0xf000, 2])).is_empty());
    // The two peers disconnect.
    assert!(world.says(2, links(2, 2, &[0xf000])).is_empty());
    assert_eq!(world.says(1, links(1, 3, &[0xf000])), ["1: D_SUB 2 a"]);
    assert_eq!(world.says(1, put("a", "")), ["2: a PUT "]);
    // An old state changes nothing.
    assert!(world.says(1, links(1, 2, &[0xf000, 2])).is_empty());
    assert_eq!(world.says(1, put("a", "")), ["2: a PUT "]);
}

#[test]
fn broken_link_states_close_the_link_of_a_peer_and_are_ignored_from_a_client() {
    let mut world = World::with_clients(1);
    world.up(2, WhatAmI::Peer);
    let broken = || NetworkMessage::Oam(Oam::new(1, ExtBody::ZBuf(bytes::Bytes::from_static(&[3, 1]))));
    assert!(world.says(1, broken()).is_empty());
    let error = world.try_says(2, broken()).unwrap_err();
    assert!(matches!(error, FaceError::LinkState(_)));
    assert_eq!(error.close_reason(), Some(crate::zenoh::wire::CloseReason::INVALID));
    assert!(world.says(2, NetworkMessage::Oam(Oam::new(9, ExtBody::Unit))).is_empty());
}

#[test]
fn the_driver_hears_when_a_neighbour_is_ready_and_of_whom_it_told() {
    let mut world = peer_with_session();
    world.up(2, WhatAmI::Peer);
    world.up(3, WhatAmI::Router);
    assert_eq!(world.node.poll_event(), None);
    world.says(2, d_final());
    assert_eq!(world.node.poll_event(), Some(NodeEvent::Ready { face: FaceId(2) }));
    world.says(3, links(3, 1, &[0xf000]));
    assert_eq!(world.node.poll_event(), Some(NodeEvent::Ready { face: FaceId(3) }));
    let locators = vec![Text::from("tcp/127.0.0.1:9991")];
    let record = LinkState {
        psid: 1,
        sn: 1,
        zid: Some(zid(9)),
        whatami: Some(WhatAmI::Peer),
        locators: Some(locators.clone()),
        ..LinkState::default()
    };
    let gossip = Oam::new(Oam::LINK_STATE, ExtBody::ZBuf(LinkStateList(vec![record]).encode()));
    world.says(3, NetworkMessage::Oam(gossip));
    let discovered = NodeEvent::Discovered { from: FaceId(3), zid: zid(9), whatami: WhatAmI::Peer, locators };
    assert_eq!(world.node.poll_event(), Some(discovered));
    assert_eq!(world.node.poll_event(), None);
}

fn peer_with_session() -> World {
    let mut world = World::new(NodeMode::Peer);
    let own = Remote { zid: zid(0xf000), whatami: WhatAmI::Peer };
    world.node.handle_face_up(world.now(), FaceId(1), own, FaceKind::Local);
    assert!(world.drain().is_empty());
    world
}

#[test]
fn a_peer_tells_a_new_neighbour_all_and_then_that_this_was_all() {
    let mut world = peer_with_session();
    world.says(1, d_sub(1, "s"));
    world.says(1, d_qabl(1, "q", true, 0));
    world.says(1, d_token(1, "t"));
    assert_eq!(
        world.up(2, WhatAmI::Peer),
        ["2: OAM 1", "2: D_SUB 1 s", "2: D_QABL 2 q complete distance 0", "2: D_TOKEN 3 t", "2: I=0 D_FINAL"]
    );
    // Later declarations are sent without being asked for.
    assert_eq!(world.says(1, d_sub(2, "s2")), ["2: D_SUB 4 s2"]);
    assert_eq!(world.says(1, u_sub(2)), ["2: U_SUB 4"]);
    assert_eq!(world.down(1), ["2: U_SUB 1", "2: U_QABL 2 ext (none)", "2: U_TOKEN 3 ext (none)"]);
}

/// The bytes of `zenoh-wire` E41 behind its FRAME; the preceding record names the node.
#[test]
fn the_first_words_of_a_peer() {
    let mut world = peer_with_session();
    world.node.config.locators = vec![Text::from("tcp/127.0.0.1:7447")];
    world.node.handle_face_up(
        world.now(),
        FaceId(2),
        Remote { zid: zid(2), whatami: WhatAmI::Peer },
        FaceKind::Unicast,
    );
    let out = world.drain_raw();
    let [(2, NetworkMessage::Oam(oam)), (2, last)] = &out[..] else { panic!("two messages: {out:?}") };
    assert_eq!(hex(last), "be0021081a");
    let ExtBody::ZBuf(body) = &oam.body else { panic!("a ZBuf") };
    let list = LinkStateList::decode(body).unwrap().0;
    assert_eq!((list[0].psid, list[0].zid, list[0].whatami), (0, Some(zid(0xf000)), Some(WhatAmI::Peer)));
    assert_eq!(list[0].locators, Some(vec![Text::from("tcp/127.0.0.1:7447")]));
    assert!(list[0].links.is_empty());
    assert_eq!((list[1].psid, list[1].zid, list[1].whatami), (1, Some(zid(2)), Some(WhatAmI::Peer)));
}

#[test]
fn a_peer_sends_everything_to_a_neighbour_until_it_has_told_all() {
    let mut world = peer_with_session();
    world.up(2, WhatAmI::Peer);
    assert_eq!(world.says(1, put("x", "1")), ["2: x PUT 1"]);
    assert_eq!(world.says(1, request(1, "x", QueryTarget::AllComplete, None)), ["2: REQUEST 1 x"]);
    world.says(2, end(1));
    world.says(2, d_sub(1, "m/**"));
    assert!(world.says(2, d_final()).is_empty());
    assert!(world.says(1, put("x", "2")).is_empty());
    assert_eq!(world.says(1, put("m/1", "3")), ["2: m/1 PUT 3"]);
    assert_eq!(world.says(1, get(2, "x")), ["1: FINAL 2"]);
}

#[test]
fn an_interest_waits_until_the_neighbours_have_told_all() {
    let mut world = peer_with_session();
    world.up(2, WhatAmI::Peer);
    world.up(3, WhatAmI::Peer);
    assert!(world.says(1, interest(5, InterestMode::CurrentFuture, "KS", Some("m/*"))).is_empty());
    assert_eq!(world.says(2, d_sub(1, "m/**")), ["1: D_SUB 1 m/**"]);
    assert!(world.says(2, d_final()).is_empty());
    assert_eq!(world.down(3), ["1: I=5 D_FINAL"]);
    assert_eq!(world.says(1, interest(6, InterestMode::Current, "T", None)), ["1: I=6 D_FINAL"]);
    // A neighbour that never does delays others for no longer than the timeout of interests, once.
    world.up(4, WhatAmI::Peer);
    assert!(world.says(1, interest(7, InterestMode::Current, "T", None)).is_empty());
    assert_eq!(world.node.poll_timeout(), Some(Duration::from_secs(10)));
    assert_eq!(world.after(Duration::from_secs(10)), ["1: I=7 D_FINAL"]);
    assert_eq!(world.says(1, interest(8, InterestMode::Current, "T", None)), ["1: I=8 D_FINAL"]);
    // A neighbour's own interest is answered at once.
    world.up(5, WhatAmI::Peer);
    assert_eq!(world.says(5, interest(1, InterestMode::Current, "T", None)), ["5: I=1 D_FINAL"]);
}

#[test]
fn a_peer_does_not_pass_on_between_neighbours_but_for_its_clients() {
    let mut world = peer_with_session();
    for face in [2, 3] {
        world.up(face, WhatAmI::Peer);
        world.says(face, d_final());
    }
    world.up(4, WhatAmI::Client);
    assert!(world.says(2, d_sub(1, "a")).is_empty(), "not told to the other neighbour");
    assert!(world.says(3, put("a", "")).is_empty());
    assert_eq!(world.says(4, put("a", "")), ["2: a PUT "]);
    assert_eq!(world.says(4, d_sub(1, "a")), ["2: D_SUB 1 a", "3: D_SUB 1 a"]);
    assert_eq!(world.says(3, put("a", "")), ["4: a PUT "]);
    assert_eq!(world.says(1, put("a", "")), ["2: a PUT ", "4: a PUT "]);
    assert_eq!(world.says(3, get(1, "a")), ["3: FINAL 1"]);
}

// ---- a peer and its gateway ----

fn answer(id: u32, body: Declaration) -> NetworkMessage {
    NetworkMessage::Declare(Declare::new(Some(id), body))
}

/// A peer with a session at face 1 and a router at face 2.
fn peer_with_gateway() -> World {
    let mut world = peer_with_session();
    assert_eq!(world.up(2, WhatAmI::Router), ["2: OAM 1"]);
    world
}

#[test]
fn a_gateway_is_told_all_links_of_a_peer_and_what_its_clients_declare() {
    let mut world = peer_with_session();
    world.says(1, d_sub(1, "s"));
    world.says(1, interest(7, InterestMode::CurrentFuture, "KS", Some("p")));
    world.up(3, WhatAmI::Peer);
    world.node.handle_face_up(
        world.now(),
        FaceId(2),
        Remote { zid: zid(2), whatami: WhatAmI::Router },
        FaceKind::Unicast,
    );
    let out = world.drain_raw();
    let words: Vec<_> = out.iter().map(|(to, message)| format!("{to}: {}", show(message))).collect();
    assert_eq!(words, ["2: OAM 1", "2: D_SUB 1 s", "2: INTEREST 2 CurrentFuture p"]);
    let NetworkMessage::Oam(Oam { body: ExtBody::ZBuf(body), .. }) = &out[0].1 else { panic!("an OAM") };
    let list = LinkStateList::decode(body).unwrap().0;
    assert_eq!(list[0].links, [1, 2], "both neighbours, by our numbers");
    assert_eq!(list.iter().map(|record| record.gateway).collect::<Vec<_>>(), [false, true, false]);
    // The gateway is told of new neighbours, too.
    assert_eq!(world.up(4, WhatAmI::Peer)[0], "2: OAM 1");
}

#[test]
fn data_goes_to_the_gateway_unless_it_said_that_nobody_wants_it() {
    let mut world = peer_with_gateway();
    assert_eq!(world.says(1, put("f/pub", "1")), ["2: f/pub PUT 1"]);
    assert_eq!(
        world.says(1, interest(7, InterestMode::CurrentFuture, "KS", Some("f/pub"))),
        ["2: INTEREST 1 CurrentFuture f/pub"]
    );
    assert_eq!(world.says(1, put("f/pub", "2")), ["2: f/pub PUT 2"]);
    assert_eq!(world.says(2, answer(1, Declaration::Final)), ["1: I=7 D_FINAL"]);
    assert!(world.says(1, put("f/pub", "3")).is_empty());
    assert_eq!(world.says(1, put("f/other", "4")), ["2: f/other PUT 4"]);
    assert_eq!(world.says(2, d_sub(5, "f/**")), ["1: D_SUB 1 f/**"]);
    assert_eq!(world.says(1, put("f/pub", "5")), ["2: f/pub PUT 5"]);
    assert_eq!(world.says(2, u_sub(5)), ["1: U_SUB 1"]);
    assert!(world.says(1, put("f/pub", "6")).is_empty());
    assert_eq!(world.says(1, no_interest(7)), ["2: INTEREST 1 Final *"]);
    assert_eq!(world.says(1, put("f/pub", "7")), ["2: f/pub PUT 7"]);
}

#[test]
fn queries_go_to_the_gateway_unless_it_said_that_nobody_answers() {
    let mut world = peer_with_gateway();
    assert_eq!(world.says(1, request(1, "q", QueryTarget::AllComplete, None)), ["2: REQUEST 1 q"]);
    assert_eq!(world.says(2, reply(1, "q", "x")), ["1: RESPONSE 1 q PUT x"]);
    assert_eq!(world.says(2, end(1)), ["1: FINAL 1"]);
    world.says(1, interest(7, InterestMode::CurrentFuture, "KQ", Some("q")));
    world.says(2, answer(1, Declaration::Final));
    assert_eq!(world.says(1, get(2, "q")), ["1: FINAL 2"]);
    assert_eq!(world.says(2, d_qabl(9, "q", true, 1)), ["1: D_QABL 1 q complete distance 1"]);
    assert_eq!(world.says(1, get(3, "q")), ["2: REQUEST 2 q"]);
    assert_eq!(world.down(2), ["1: FINAL 3", "1: U_QABL 1 ext (none)"]);
}

#[test]
fn tokens_behind_the_gateway_are_found_and_watched() {
    let mut world = peer_with_gateway();
    world.says(1, d_token(1, "live/own"));
    assert_eq!(
        world.says(1, interest(4, InterestMode::Current, "KT", Some("live/**"))),
        ["1: I=4 D_TOKEN 0 live/own", "2: INTEREST 2 Current live/**"]
    );
    let token = |id| Declaration::Token { id, key: wire("live/far") };
    assert_eq!(world.says(2, answer(2, token(0))), ["1: I=4 D_TOKEN 0 live/far"]);
    assert_eq!(world.says(2, answer(2, Declaration::Final)), ["1: I=4 D_FINAL"]);
    assert_eq!(world.node.tables.all().count(), 1, "an answer about the present is not kept");
    // Future declarations only, for a face that does not want the present ones.
    assert_eq!(
        world.says(1, interest(5, InterestMode::Future, "KT", Some("live/**"))),
        ["2: INTEREST 3 Future live/**"]
    );
    assert_eq!(world.says(2, answer(3, Declaration::Final)), ["1: I=5 D_FINAL"]);
    let gone = Declaration::UndeclareToken { id: 0, key: Some(wire("live/far")) };
    assert_eq!(world.says(2, declare(gone)), ["1: U_TOKEN 0 ext live/far"]);
    assert_eq!(world.says(2, d_token(9, "live/new")), ["1: D_TOKEN 1 live/new"]);
    // Declarations without an interest are dropped; the gateway may not send their end.
    assert_eq!(world.says(1, no_interest(5)), ["2: INTEREST 3 Final *", "1: U_TOKEN 1 ext (none)"]);
    assert_eq!(world.node.tables.all().count(), 1);
}

#[test]
fn a_silent_gateway_holds_nobody_up_for_longer_than_the_timeout() {
    let mut world = peer_with_gateway();
    world.says(1, interest(4, InterestMode::Current, "T", None));
    assert_eq!(world.after(Duration::from_secs(10)), ["1: I=4 D_FINAL"]);
    assert_eq!(world.node.stats().interest_timeouts, 1);
    let late = Declaration::Token { id: 0, key: wire("late") };
    world.says(1, interest(5, InterestMode::Current, "T", None));
    assert!(world.says(2, answer(1, Declaration::Final)).is_empty());
    assert_eq!(world.down(2), ["1: I=5 D_FINAL"]);
    world.up(2, WhatAmI::Router);
    assert!(world.says(2, answer(2, late)).is_empty());
    assert_eq!(world.node.tables.all().count(), 0);
    // A face with endless interests is closed.
    world.node.config.limits.interests = 10;
    let refused =
        (100..200).find(|id| world.try_says(1, interest(*id, InterestMode::Current, "T", None)).is_err());
    assert_eq!(refused, Some(110));
}

#[test]
fn a_peer_passes_nothing_on_between_its_neighbours_and_its_gateway() {
    let mut world = peer_with_gateway();
    world.up(3, WhatAmI::Peer);
    world.says(3, d_final());
    assert!(world.says(3, d_sub(1, "a")).is_empty());
    assert!(world.says(2, put("a", "")).is_empty());
    assert!(world.says(3, put("b", "")).is_empty());
    assert_eq!(world.says(3, get(1, "a")), ["3: FINAL 1"]);
    assert!(world.says(2, interest(1, InterestMode::CurrentFuture, "S", None)).is_empty());
}
