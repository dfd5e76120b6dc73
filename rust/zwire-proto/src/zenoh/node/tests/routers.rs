//! Several routers: the records and messages of `zenoh-behaviour` 5.5, 5.6 and 9.4.

use super::*;

/// A link state of a router.
pub(super) fn record(psid: u64, sn: u64, number: Option<u32>, links: &[u64]) -> LinkState {
    LinkState {
        psid,
        sn,
        zid: number.map(zid),
        whatami: number.map(|_| WhatAmI::Router),
        links: links.to_vec(),
        ..LinkState::default()
    }
}

/// A message of another router, sent along a tree.
pub(super) fn along(node_id: u16, message: NetworkMessage) -> NetworkMessage {
    match message {
        NetworkMessage::Push(push) => NetworkMessage::Push(Push { node_id, ..push }),
        NetworkMessage::Request(request) => NetworkMessage::Request(Request { node_id, ..request }),
        NetworkMessage::Declare(declare) => NetworkMessage::Declare(Declare { node_id, ..declare }),
        other => other,
    }
}

fn u_key_ext(kind: fn(u32, Option<WireExpr>) -> Declaration, key: &str) -> NetworkMessage {
    declare(kind(0, Some(wire(key))))
}
fn u_far_sub(key: &str) -> NetworkMessage {
    u_key_ext(|id, key| Declaration::UndeclareSubscriber { id, key }, key)
}

impl World {
    /// Output of the node, with link states in full.
    pub(super) fn words(&mut self) -> Vec<String> {
        let out = self.drain_raw().into_iter();
        out.map(|(to, message)| match message {
            NetworkMessage::Oam(_) => format!("{to}: {}", show_states(&message)),
            _ => format!("{to}: {}", show(&message)),
        })
        .collect()
    }

    pub(super) fn tells(&mut self, face: u32, message: NetworkMessage) -> Vec<String> {
        self.node.handle_message(self.now(), FaceId(face), message, Reliability::Reliable).unwrap();
        self.words()
    }

    pub(super) fn meets(&mut self, face: u32, whatami: WhatAmI) -> Vec<String> {
        let remote = Remote { zid: zid(face), whatami };
        self.node.handle_face_up(self.now(), FaceId(face), remote, FaceKind::Unicast);
        self.words()
    }

    /// A router at face 9 that is linked to this node only; the trees are computed.
    pub(super) fn with_router() -> Self {
        let mut world = Self::with_clients(2);
        world.meets(9, WhatAmI::Router);
        world.tells(9, states(vec![record(0, 1, Some(9), &[1]), record(1, 0, Some(0xf000), &[])]));
        world.after(Duration::from_millis(100));
        world
    }
}

/// State numbers are microseconds of the wall clock; the clock of these tests begins here.
pub(super) const SN: u64 = 1_700_000_000_000_000;

/// 9.4 "Router <-> router", with this node as R.
#[test]
fn two_routers_introduce_themselves_and_then_declare() {
    let mut world = World::with_clients(1);
    world.says(1, d_sub(3, "e/**"));
    assert_eq!(
        world.meets(9, WhatAmI::Router),
        [format!("9: 0=f050 sn {SN} router [1]; 1=59 sn 0 router []")]
    );
    // Declarations before the first link state are ignored.
    assert!(world.tells(9, d_sub(0, "early")).is_empty());
    let introduction = states(vec![record(0, 1, Some(9), &[1]), record(1, 0, Some(0xf000), &[])]);
    assert!(world.tells(9, introduction).is_empty(), "no new router");
    assert_eq!(world.node.poll_event(), Some(NodeEvent::Ready { face: FaceId(9) }));
    assert_eq!(world.node.poll_timeout(), Some(Duration::from_millis(100)));
    assert!(world.after(Duration::from_millis(99)).is_empty());
    assert_eq!(world.after(Duration::from_millis(1)), ["9: D_SUB 0 e/**"]);
    assert_eq!(world.node.poll_timeout(), None);
    // Later ones are sent at once, each key once.
    assert!(world.says(1, d_sub(4, "e/**")).is_empty());
    assert_eq!(world.says(1, d_qabl(1, "q", true, 3)), ["9: D_QABL 0 q complete distance 3"]);
    assert_eq!(world.says(1, d_token(1, "t")), ["9: D_TOKEN 0 t"]);
    assert!(world.says(1, u_sub(3)).is_empty());
    assert_eq!(world.says(1, u_sub(4)), ["9: U_SUB 0 ext e/**"]);
    assert_eq!(world.down(1), ["9: U_QABL 0 ext q", "9: U_TOKEN 0 ext t"]);
}

#[test]
fn what_a_router_declares_is_told_and_reached() {
    let mut world = World::with_router();
    world.says(1, interest(1, InterestMode::CurrentFuture, "KSQT", None));
    assert_eq!(world.tells(9, d_sub(0, "e/r/**")), ["1: D_SUB 1 e/r/**"]);
    assert!(world.tells(9, d_sub(0, "e/r/**")).is_empty());
    assert_eq!(world.says(2, put("e/r/1", "x")), ["9: e/r/1 PUT x"]);
    assert!(world.says(2, put("e/s", "x")).is_empty());
    assert_eq!(world.tells(9, d_qabl(0, "q/**", true, 0)), ["1: D_QABL 2 q/** complete distance 0"]);
    assert_eq!(world.says(2, get(1, "q/1")), ["9: REQUEST 1 q/1"]);
    assert_eq!(world.tells(9, reply(1, "q/1", "x")), ["2: RESPONSE 1 q/1 PUT x"]);
    assert_eq!(world.tells(9, end(1)), ["2: FINAL 1"]);
    assert_eq!(world.tells(9, d_token(0, "t")), ["1: D_TOKEN 3 t"]);
    // A PUSH without NodeId is the neighbour's own; a request, too.
    world.says(1, d_sub(1, "e/c"));
    world.says(1, d_qabl(1, "p", false, 0));
    assert_eq!(world.tells(9, put("e/c", "y")), ["1: e/c PUT y"]);
    assert_eq!(world.tells(9, get(4, "p")), ["1: REQUEST 1 p"]);
    assert_eq!(world.says(1, reply(1, "p", "z")), ["9: RESPONSE 4 p PUT z"]);
    assert_eq!(world.says(1, end(1)), ["9: FINAL 4"]);
    assert_eq!(world.tells(9, get(5, "nothing")), ["9: FINAL 5"]);
    // Interests are not for routers; withdrawals name their key.
    assert!(world.tells(9, interest(1, InterestMode::CurrentFuture, "S", None)).is_empty());
    assert!(world.tells(9, u_sub(0)).is_empty(), "which one?");
    assert_eq!(world.tells(9, u_far_sub("e/r/**")), ["1: U_SUB 1"]);
    assert_eq!(world.down(9), ["1: U_QABL 2 ext (none)", "1: U_TOKEN 3 ext (none)"]);
    assert_eq!(world.node.network.table_bytes, 0);
}

/// 9.4: `{0 us sn 2 links=[1,2]}{2 X sn 1 links=[0]}` puts a third router behind the neighbour.
#[test]
fn a_router_behind_another_comes_and_goes() {
    let mut world = World::with_router();
    world.says(1, interest(1, InterestMode::CurrentFuture, "KS", None));
    let third = states(vec![record(0, 2, None, &[1, 2]), record(2, 1, Some(0x77), &[0])]);
    assert_eq!(world.tells(9, third), ["9: 2=c7 sn 1 router [1]"], "our number for it");
    world.after(Duration::from_millis(100));
    assert_eq!(world.tells(9, along(2, d_sub(0, "e/v/**"))), ["1: D_SUB 1 e/v/**"]);
    assert_eq!(world.says(2, put("e/v/1", "x")), ["9: e/v/1 PUT x"]);
    world.says(2, d_sub(1, "e/w"));
    assert_eq!(world.tells(9, along(2, put("e/w", "y"))), ["2: e/w PUT y"]);
    assert!(world.tells(9, along(7, d_sub(0, "unknown"))).is_empty());
    assert_eq!(world.tells(9, along(7, put("e/w", "z"))), ["2: e/w PUT z"], "the tree is not known");
    let gone = states(vec![record(0, 3, None, &[1])]);
    assert!(world.tells(9, gone).is_empty(), "there may be another way in a moment");
    assert_eq!(world.after(Duration::from_millis(100)), ["1: U_SUB 1"]);
    assert!(world.says(1, put("e/v/1", "x")).is_empty());
    // An old state restores nothing.
    assert!(world.tells(9, states(vec![record(0, 2, None, &[1, 2])])).is_empty());
}

/// This node in the middle of a line.
#[test]
fn a_router_in_the_middle_passes_on() {
    let mut world = World::with_router();
    assert_eq!(
        world.meets(8, WhatAmI::Router),
        [
            format!("9: 2=58 sn 0 router []; 0 sn {} [2, 1]", SN + 100_000),
            format!("8: 0=f050 sn {} router [2, 1]; 1=59 sn 1 router [0]; 2=58 sn 0 router []", SN + 100_000)
        ]
    );
    // The neighbour has another order of numbers: 9 is its 1, this node its 2.
    let introduction =
        vec![record(0, 5, Some(8), &[2]), record(2, 0, Some(0xf000), &[]), record(1, 0, Some(9), &[])];
    assert_eq!(world.tells(8, states(introduction)), ["9: 2 sn 5 [0]"]);
    world.says(1, d_sub(1, "own"));
    world.after(Duration::from_millis(100));
    assert_eq!(world.tells(9, d_sub(0, "nine")), ["8: N=1 D_SUB 0 nine"]);
    assert_eq!(world.tells(8, d_sub(0, "eight")), ["9: N=2 D_SUB 0 eight"]);
    assert_eq!(world.tells(9, put("eight", "x")), ["8: N=1 eight PUT x"]);
    assert_eq!(world.tells(8, put("nine", "x")), ["9: N=2 nine PUT x"]);
    assert_eq!(world.says(2, put("*", "x")), ["1: * PUT x", "8: * PUT x", "9: * PUT x"]);
    // A query and its end over two hops.
    world.tells(9, d_qabl(0, "q", true, 0));
    assert_eq!(world.tells(8, get(6, "q")), ["9: N=2 REQUEST 1 q"]);
    assert_eq!(world.tells(9, reply(1, "q", "a")), ["8: RESPONSE 6 q PUT a"]);
    assert_eq!(world.tells(9, end(1)), ["8: FINAL 6"]);
    assert_eq!(world.tells(8, get(7, "q")), ["9: N=2 REQUEST 2 q"]);
    let lost = world.down(9);
    assert_eq!(lost[0], "8: FINAL 7", "{lost:?}");
    // 8 finds out by itself that 9 is gone.
    assert_eq!(lost[1..], ["8: OAM 1"]);
    assert_eq!(world.tells(8, put("nine", "x")), Vec::<String>::new());
}

/// A message on a link outside the tree goes to own faces and no further: there is no other protection
/// against loops.
#[test]
fn what_goes_astray_goes_no_further() {
    let mut world = World::with_router();
    world.meets(8, WhatAmI::Router);
    world.meets(7, WhatAmI::Router);
    for (face, number) in [(8, 8), (7, 7)] {
        world.tells(face, states(vec![record(0, 5, Some(number), &[2]), record(2, 0, Some(0xf000), &[])]));
    }
    world.after(Duration::from_millis(100));
    world.tells(8, d_sub(0, "k"));
    world.says(1, d_sub(1, "k"));
    // 7 knows 9 by a number, though 9 is not behind it.
    world.tells(7, states(vec![record(3, 1, Some(9), &[])]));
    assert_eq!(world.tells(7, along(3, put("k", ""))), ["1: k PUT "]);
    assert_eq!(world.tells(9, put("k", "")), ["1: k PUT ", "8: N=1 k PUT "]);
    // The same for queries.
    world.tells(8, d_qabl(0, "q", false, 0));
    assert_eq!(world.tells(7, along(3, get(1, "q"))), ["7: FINAL 1"]);
}

#[test]
fn a_query_goes_to_the_nearest_complete_router() {
    let mut world = World::with_router();
    world.meets(8, WhatAmI::Router);
    // 5 and 6 in a row behind 8.
    let behind = vec![
        record(0, 5, Some(8), &[2, 3]),
        record(2, 0, Some(0xf000), &[]),
        record(3, 1, Some(6), &[0, 4]),
        record(4, 1, Some(5), &[3]),
    ];
    world.tells(8, states(behind));
    world.after(Duration::from_millis(100));
    // The distance of the tree counts, not the declared one.
    world.tells(8, along(4, d_qabl(0, "q", true, 0)));
    assert_eq!(world.says(1, get(1, "q")), ["8: REQUEST 1 q"]);
    world.tells(9, d_qabl(0, "q", true, 900));
    assert_eq!(world.says(1, get(2, "q")), ["9: REQUEST 1 q"]);
    let all = |rid, target| request(rid, "q", target, None);
    assert_eq!(world.says(1, all(3, QueryTarget::All)), ["8: REQUEST 2 q", "9: REQUEST 2 q"]);
    // One of each region: a client beside the routers.
    world.says(2, d_qabl(1, "q", true, 0));
    assert_eq!(world.says(1, get(4, "q")), ["2: REQUEST 1 q", "9: REQUEST 3 q"]);
}

#[test]
fn links_have_the_weights_of_the_configuration() {
    let mut config = NodeConfig::new(zid(0xf000), NodeMode::Router);
    config.transport_weights.insert(zid(9), 30);
    let mut world = World { node: Node::new(config), now: Duration::ZERO };
    world.meets(8, WhatAmI::Router);
    assert_eq!(
        world.meets(9, WhatAmI::Router),
        [
            format!("8: 2=59 sn 0 router []; 0 sn {} [1, 2] weights [0, 30]", SN + 1),
            format!(
                "9: 0=f050 sn {} router [1, 2] weights [0, 30]; 1=58 sn 0 router []; 2=59 sn 0 router []",
                SN + 1
            )
        ]
    );
    // 8 and 9 are linked, and by 9 the way to 8 is shorter: 30 + 40 < 100.
    let of_8 = LinkState { weights: Some(vec![0, 40]), ..record(0, 1, Some(8), &[1, 2]) };
    world.tells(8, states(vec![of_8, record(1, 0, Some(0xf000), &[]), record(2, 0, Some(9), &[])]));
    let of_9 =
        vec![record(0, 1, Some(9), &[1, 2]), record(1, 0, Some(0xf000), &[]), record(2, 0, Some(8), &[])];
    world.tells(9, states(of_9));
    world.after(Duration::from_millis(100));
    world.tells(9, along(2, d_sub(0, "eight")));
    world.meets(1, WhatAmI::Client);
    assert_eq!(world.says(1, put("eight", "")), ["9: eight PUT "]);
}

#[test]
fn who_becomes_a_child_is_told_what_there_is_and_what_has_just_ended() {
    let mut world = World::with_router();
    world.says(1, d_sub(1, "stays"));
    world.says(1, d_sub(2, "ends"));
    world.meets(8, WhatAmI::Router);
    world.tells(8, states(vec![record(0, 5, Some(8), &[2]), record(2, 0, Some(0xf000), &[])]));
    // 8 may have received it on another way.
    assert_eq!(world.says(1, u_sub(2)), ["9: U_SUB 0 ext ends"]);
    assert_eq!(world.after(Duration::from_millis(100)), ["8: U_SUB 0 ext ends", "8: D_SUB 0 stays"]);
    // An old withdrawal is not sent again.
    world.after(Duration::from_secs(11));
    world.meets(7, WhatAmI::Router);
    world.tells(7, states(vec![record(0, 5, Some(7), &[2]), record(2, 0, Some(0xf000), &[])]));
    assert_eq!(world.after(Duration::from_millis(100)), ["7: D_SUB 0 stays"]);
}

#[test]
fn several_gateways_of_a_peer_do_not_double_what_passes() {
    let mut world = World::with_router();
    world.meets(3, WhatAmI::Peer);
    let gateway = |psid, number| LinkState { gateway: true, ..record(psid, 0, Some(number), &[]) };
    let of_peer = |sn, links: &[u64]| {
        let own = LinkState { whatami: Some(WhatAmI::Peer), ..record(0, sn, Some(3), links) };
        states(vec![own, gateway(1, 0xf000), gateway(2, 9), gateway(4, 0xffff)])
    };
    world.tells(9, d_sub(0, "nine"));
    world.says(3, interest(1, InterestMode::CurrentFuture, "KS", None));
    assert_eq!(world.says(3, d_sub(1, "peer")), ["9: D_SUB 0 peer"]);
    assert_eq!(world.says(3, put("nine", "")), ["9: nine PUT "]);
    assert_eq!(world.tells(9, put("peer", "")), ["3: peer PUT "]);
    // Linked to 9 as well: messages between the two take the direct link.
    assert_eq!(world.tells(3, of_peer(1, &[1, 2])), ["3: U_SUB 1"]);
    assert!(world.says(3, put("nine", "")).is_empty());
    assert!(world.tells(9, put("peer", "")).is_empty());
    // A third gateway outside this network does not count; once it joins, it has the greatest id.
    assert!(world.tells(3, of_peer(2, &[1, 2, 4])).is_empty());
    let third = states(vec![record(0, 2, None, &[1, 2]), record(2, 1, Some(0xffff), &[0])]);
    let words = world.tells(9, third);
    assert!(words.contains(&"9: U_SUB 0 ext peer".to_owned()), "{words:?}");
    // It leaves, and this node represents the peer again.
    assert!(world.tells(9, states(vec![record(0, 3, None, &[1])])).is_empty());
    let words = world.after(Duration::from_millis(100));
    assert!(words.contains(&"9: D_SUB 0 peer".to_owned()), "{words:?}");
    assert_eq!(world.tells(3, of_peer(3, &[1])), ["3: D_SUB 2 nine"]);
}

#[test]
fn a_neighbour_that_starts_again_is_believed_about_itself() {
    let mut world = World::with_router();
    let twice = states(vec![record(0, 900, None, &[1])]);
    world.tells(9, twice);
    world.down(9);
    world.meets(9, WhatAmI::Router);
    world.tells(9, states(vec![record(0, 1, Some(9), &[1]), record(1, 0, Some(0xf000), &[])]));
    world.after(Duration::from_millis(100));
    world.tells(9, d_sub(0, "a"));
    assert_eq!(world.says(1, put("a", "")), ["9: a PUT "]);
}

#[test]
fn hostile_routers_are_bounded() {
    let mut world = World::with_router();
    // Many invented routers, each linked to all: more links than a list may have.
    let psids: Vec<u64> = (0..3000).collect();
    let number = |n| if n == 0 { 9 } else { 0x9000 + n };
    let crowd = |links: usize| {
        let record = |n: u32| record(u64::from(n), 9, Some(number(n)), &psids[..links]);
        states((0..3000).map(record).collect())
    };
    assert!(matches!(world.try_says(9, crowd(3000)), Err(FaceError::LinkState(_))));
    world.tells(9, crowd(20));
    world.after(Duration::from_millis(100));
    let (routers, links) = world.node.network.size();
    assert!(routers <= crate::limits::MAX_ROUTERS && links <= crate::limits::MAX_ROUTER_LINKS);
    // Endless declarations close the link.
    world.node.config.limits.network_bytes = 100_000;
    let refused = (0..1000).find(|n| world.try_says(9, d_sub(0, &format!("k/{n}"))).is_err());
    assert!(refused.is_some_and(|n| n < 300), "{refused:?}");
    world.down(9);
    assert_eq!((world.node.network.size(), world.node.network.table_bytes), ((1, 0), 0));
    assert_eq!(world.node.tables.all().count(), 0);
    let broken = || NetworkMessage::Oam(Oam::new(1, ExtBody::ZBuf(bytes::Bytes::from_static(&[3, 1]))));
    world.meets(9, WhatAmI::Router);
    assert!(matches!(world.try_says(9, broken()), Err(FaceError::LinkState(_))));
}
