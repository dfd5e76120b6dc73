//! Gossip: the records of `zenoh-behaviour` 1.7 and 9.4.

use super::*;

const FIRST: &str = "tcp/127.0.0.1:9991";
const SECOND: &str = "tcp/127.0.0.1:9992";

impl World {
    /// Like [`Self::up`], returning the link states as text.
    fn joins(&mut self, face: u32, whatami: WhatAmI) -> Vec<String> {
        self.node.handle_face_up(
            self.now(),
            FaceId(face),
            Remote { zid: zid(face), whatami },
            FaceKind::Unicast,
        );
        self.states()
    }

    /// The link states in the output of the node.
    fn states(&mut self) -> Vec<String> {
        let out = self.drain_raw().into_iter();
        let states = out.filter(|(_, message)| matches!(message, NetworkMessage::Oam(_)));
        states.map(|(to, message)| format!("{to}: {}", show_states(&message))).collect()
    }

    fn hears(&mut self, face: u32, records: Vec<LinkState>) -> Vec<String> {
        let message = states(records);
        self.node.handle_message(self.now(), FaceId(face), message, Reliability::Reliable).unwrap();
        self.states()
    }
}

fn record(psid: u64, sn: u64, number: u32, locators: &[&str], links: &[u64]) -> LinkState {
    LinkState {
        psid,
        sn,
        zid: Some(zid(number)),
        whatami: Some(WhatAmI::Peer),
        locators: (!locators.is_empty()).then(|| locators.iter().map(|l| Text::from(*l)).collect()),
        links: links.to_vec(),
        ..LinkState::default()
    }
}

fn discovered(world: &mut World) -> Vec<(ZenohId, Vec<Text>)> {
    core::iter::from_fn(|| world.node.poll_event())
        .filter_map(|event| match event {
            NodeEvent::Discovered { zid, locators, .. } => Some((zid, locators)),
            NodeEvent::Ready { .. } | NodeEvent::ClockAhead { .. } => None,
        })
        .collect()
}

/// 9.4: to B on connect `{1 A peer locators}`; to A when B announced itself `{2 B peer locators}`.
#[test]
fn a_router_tells_its_peers_of_each_other() {
    let mut world = World::hub();
    assert_eq!(world.joins(1, WhatAmI::Peer), ["1: "]);
    assert!(world.hears(1, vec![record(0, 1, 1, &[FIRST], &[1]), record(1, 0, 0xf000, &[], &[])]).is_empty());
    assert_eq!(world.joins(2, WhatAmI::Peer), [format!("2: 1=51 sn 1 peer [] at {FIRST}")]);
    assert_eq!(
        world.hears(2, vec![record(0, 1, 2, &[SECOND], &[])]),
        [format!("1: 2=52 sn 1 peer [] at {SECOND}")]
    );
    // The same again, an older one, one without locators, one about another node: no neighbour is told.
    for (sn, number, locators) in [(1, 2, &[SECOND][..]), (0, 2, &[FIRST]), (7, 2, &[]), (9, 9, &[FIRST])] {
        let psid = if number == 2 { 0 } else { 5 };
        assert!(world.hears(2, vec![record(psid, sn, number, locators, &[])]).is_empty(), "{sn}");
    }
    let moved = world.hears(2, vec![record(0, 8, 2, &[FIRST], &[])]);
    assert_eq!(moved, [format!("1: 2=52 sn 8 peer [] at {FIRST}")]);
    let of_nine = (zid(9), vec![Text::from(FIRST)]);
    assert!(discovered(&mut world).contains(&of_nine));
    // A node that left is not announced.
    world.down(1);
    world.down(2);
    assert_eq!(world.joins(3, WhatAmI::Peer), ["3: "]);
    assert!(world.joins(4, WhatAmI::Client).is_empty());
}

#[test]
fn a_peer_says_who_it_is_and_of_its_neighbours_where_they_are() {
    let mut world = World::new(NodeMode::Peer);
    let now = world.now();
    world.node.set_locators(now, vec![Text::from("tcp/10.0.0.1:7447")]);
    assert_eq!(
        world.joins(1, WhatAmI::Peer),
        ["1: 0=f050 sn 2 peer [] at tcp/10.0.0.1:7447; 1=51 sn 0 peer []"]
    );
    world.hears(1, vec![record(0, 3, 1, &[FIRST], &[])]);
    assert_eq!(
        world.joins(2, WhatAmI::Peer),
        [format!(
            "2: 0=f050 sn 3 peer [] at tcp/10.0.0.1:7447; 1=51 sn 3 peer [] at {FIRST}; 2=52 sn 0 peer []"
        )]
    );
    assert_eq!(
        world.hears(2, vec![record(0, 1, 2, &[SECOND], &[])]),
        [format!("1: 2=52 sn 1 peer [] at {SECOND}")]
    );
    // New locators: all neighbours are told, none of them twice.
    let now = world.now();
    world.node.set_locators(now, vec![Text::from("tcp/10.0.0.2:7447")]);
    world.node.set_locators(now, vec![Text::from("tcp/10.0.0.2:7447")]);
    let told = world.states();
    assert_eq!(told, [1, 2].map(|face| format!("{face}: 0=f050 sn 4 peer [] at tcp/10.0.0.2:7447")));
}

#[test]
fn a_gateway_is_told_who_joins_and_who_parts() {
    let mut world = World::new(NodeMode::Peer);
    world.joins(1, WhatAmI::Router);
    assert_eq!(
        world.joins(2, WhatAmI::Peer),
        [
            "1: 0=f050 sn 2 peer [1, 2]; 2=52 sn 0 peer []",
            "2: 0=f050 sn 2 peer []; 1=51 sn 0 router gateway []; 2=52 sn 0 peer []"
        ]
    );
    world.node.handle_face_down(world.now(), FaceId(2));
    assert_eq!(world.states(), ["1: 0=f050 sn 3 peer [1]"]);
}

#[test]
fn gossip_may_be_off_or_for_some_only_or_far() {
    let with = |gossip, mode| {
        let mut world = World::new(mode);
        world.node.config.gossip = gossip;
        world.node.config.locators = vec![Text::from("tcp/10.0.0.1:7447")];
        world
    };
    let off = GossipConfig { enabled: false, ..GossipConfig::default() };
    let mut world = with(off, NodeMode::Peer);
    assert_eq!(world.joins(1, WhatAmI::Peer), ["1: 0=f050 sn 1 peer []; 1=51 sn 0 peer []"]);
    world.joins(2, WhatAmI::Peer);
    assert!(world.hears(2, vec![record(0, 1, 2, &[SECOND], &[])]).is_empty());

    let routers_only = GossipConfig { target: 1, ..GossipConfig::default() };
    let mut world = with(routers_only, NodeMode::Peer);
    assert_eq!(world.joins(1, WhatAmI::Peer), ["1: 0=f050 sn 1 peer []; 1=51 sn 0 peer []"]);
    assert!(world.joins(2, WhatAmI::Router)[0].contains("at tcp/10.0.0.1:7447"));
    let told = world.hears(1, vec![record(0, 1, 1, &[FIRST], &[])]);
    assert_eq!(told, [format!("2: 1=51 sn 1 peer [] at {FIRST}")]);

    // With multihop nodes further away are announced, too, once.
    let far = GossipConfig { multihop: true, ..GossipConfig::default() };
    let mut world = with(far, NodeMode::Router);
    assert_eq!(world.joins(1, WhatAmI::Peer), ["1: 0=f050 sn 0 router [] at tcp/10.0.0.1:7447"]);
    world.joins(2, WhatAmI::Peer);
    let far_one = || vec![record(4, 6, 9, &[FIRST], &[])];
    assert_eq!(world.hears(1, far_one()), [format!("2: 3=59 sn 6 peer [] at {FIRST}")]);
    assert!(world.hears(1, far_one()).is_empty());
    assert!(world.hears(2, far_one()).is_empty());
}

#[test]
fn what_gossip_keeps_is_bounded() {
    let mut world = World::new(NodeMode::Peer);
    world.node.config.gossip.multihop = true;
    world.joins(1, WhatAmI::Peer);
    for chunk in 0..30 {
        let records = (0..500).map(|n| record(n + 1, 1, 0x10_0000 + chunk * 500 + n as u32, &[FIRST], &[]));
        world.hears(1, records.collect());
    }
    let bound = crate::limits::MAX_LINK_STATES;
    assert_eq!(discovered(&mut world).len(), bound);
    let face = &world.node.faces[&FaceId(1)];
    assert!(face.psids.len() <= bound);
    world.down(1);
    assert_eq!(world.joins(2, WhatAmI::Peer).len(), 1, "what came from it went with it");
}
