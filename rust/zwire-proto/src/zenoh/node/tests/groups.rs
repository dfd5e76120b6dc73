//! Multicast groups beside links: everything arrives once.

use super::*;
use InterestMode::CurrentFuture;

const GROUP: u32 = 100;

impl World {
    fn group(&mut self) -> Vec<String> {
        let own = Remote { zid: zid(0xf000), whatami: WhatAmI::Peer };
        self.node.handle_face_up(self.now(), FaceId(GROUP), own, FaceKind::Group);
        self.drain()
    }

    /// The node of `face` joins the group, with or without a link; its face there is `face + 100`.
    fn member(&mut self, face: u32) -> Vec<String> {
        let remote = Remote { zid: zid(face), whatami: WhatAmI::Peer };
        let kind = FaceKind::Member { group: FaceId(GROUP) };
        self.node.handle_face_up(self.now(), FaceId(GROUP + face), remote, kind);
        self.drain()
    }
}

fn d_final() -> NetworkMessage {
    NetworkMessage::Declare(Declare::new(Some(0), Declaration::Final))
}

fn peer_with_session() -> World {
    let mut world = World::new(NodeMode::Peer);
    let own = Remote { zid: zid(0xf000), whatami: WhatAmI::Peer };
    world.node.handle_face_up(world.now(), FaceId(1), own, FaceKind::Local);
    world.drain();
    world
}

#[test]
fn data_goes_to_the_group_before_the_first_member_is_known() {
    let mut world = peer_with_session();
    assert!(world.group().is_empty());
    // A member that has heard this node takes it, though its own JOIN comes later.
    assert_eq!(world.says(1, put("a", "1")), ["100: a PUT 1"]);
    assert!(world.member(2).is_empty() && world.member(3).is_empty());
    assert_eq!(world.says(1, put("a", "1")), ["100: a PUT 1"], "once, not for each member");
    assert_eq!(world.says(1, put("@/a", "1")), ["100: @/a PUT 1"]);
    world.down(GROUP + 2);
    assert_eq!(world.says(1, put("a", "1")), ["100: a PUT 1"]);
    world.down(GROUP + 3);
    assert_eq!(world.says(1, put("a", "1")), ["100: a PUT 1"]);
}

#[test]
fn a_publisher_of_the_session_hears_that_somebody_may_listen() {
    let mut world = peer_with_session();
    world.group();
    assert_eq!(world.says(1, interest(1, CurrentFuture, "KS", Some("a"))), ["1: I=1 D_FINAL"]);
    assert_eq!(world.member(2), ["1: D_SUB 1 **"]);
    assert_eq!(world.down(GROUP + 2), ["1: U_SUB 1"]);
}

#[test]
fn what_a_member_says_stays_with_a_peer_and_its_clients() {
    let mut world = peer_with_session();
    world.group();
    world.up(2, WhatAmI::Peer);
    world.says(2, d_final());
    world.says(2, d_sub(1, "**"));
    world.member(3);
    world.member(4);
    world.says(1, d_sub(1, "a"));
    assert_eq!(world.says(GROUP + 3, put("a", "1")), ["1: a PUT 1"]);
    assert!(world.says(GROUP + 3, put("b", "1")).is_empty());
}

#[test]
fn who_has_a_link_too_is_served_there_only() {
    let mut world = peer_with_session();
    world.group();
    world.says(1, d_sub(1, "a"));
    world.member(2);
    world.up(2, WhatAmI::Peer);
    world.says(2, d_final());
    world.says(2, d_sub(1, "a"));
    // All members are also linked, so the group gets nothing.
    assert_eq!(world.says(1, put("a", "1")), ["2: a PUT 1"]);
    assert_eq!(world.says(2, put("a", "2")), ["1: a PUT 2"]);
    assert!(world.says(GROUP + 2, put("a", "2")).is_empty(), "it was on the link");
    // A member without a link, and a linked one that ignores the group's copy.
    world.member(3);
    assert_eq!(world.says(1, put("a", "3")), ["2: a PUT 3", "100: a PUT 3"]);
    // The link is lost.
    world.down(2);
    assert_eq!(world.says(1, put("a", "4")), ["100: a PUT 4"]);
    assert_eq!(world.says(GROUP + 2, put("a", "5")), ["1: a PUT 5"]);
}

#[test]
fn a_hub_passes_on_between_its_links_and_the_group() {
    let mut world = World::with_clients(1);
    world.group();
    world.up(2, WhatAmI::Peer);
    world.up(3, WhatAmI::Peer);
    for face in 1..=3 {
        world.says(face, d_sub(1, "a"));
    }
    world.member(3);
    world.member(4);
    assert_eq!(world.says(GROUP + 4, put("a", "1")), ["1: a PUT 1", "2: a PUT 1"], "3 has heard it itself");
    assert_eq!(world.says(1, put("a", "2")), ["2: a PUT 2", "3: a PUT 2", "100: a PUT 2"]);
    assert_eq!(world.says(2, put("a", "3")), ["1: a PUT 3", "3: a PUT 3", "100: a PUT 3"]);
    assert_eq!(world.says(3, put("a", "4")), ["1: a PUT 4", "2: a PUT 4"], "3 has told the group itself");
}

#[test]
fn declarations_are_said_to_the_group_and_again_for_newcomers() {
    let mut world = peer_with_session();
    world.says(1, d_sub(1, "a"));
    assert_eq!(world.group(), ["100: D_SUB 1 a"]);
    assert_eq!(world.says(1, d_token(2, "t")), ["100: D_TOKEN 2 t"]);
    assert!(world.says(1, d_qabl(3, "q", false, 0)).is_empty(), "no answer would come back");
    assert!(world.member(2).is_empty() && world.member(3).is_empty());
    assert_eq!(world.node.poll_timeout(), Some(world.now + Duration::from_millis(100)));
    assert_eq!(world.after(Duration::from_millis(100)), ["100: D_SUB 1 a", "100: D_TOKEN 2 t"]);
    assert_eq!(world.node.poll_timeout(), None);
    assert_eq!(world.says(1, u_sub(1)), ["100: U_SUB 1"]);
}

#[test]
fn tokens_of_members_live_as_long_as_they_do() {
    let mut world = peer_with_session();
    world.group();
    world.says(1, interest(1, CurrentFuture, "KT", None));
    world.member(2);
    assert_eq!(world.says(GROUP + 2, d_token(0, "t")), ["1: D_TOKEN 1 t"]);
    assert!(world.says(GROUP + 2, d_token(0, "t")).is_empty());
    assert!(world.says(GROUP + 2, d_qabl(0, "q", false, 0)).is_empty());
    assert!(world.says(GROUP + 2, interest(5, CurrentFuture, "KT", None)).is_empty());
    assert!(world.says(GROUP + 2, get(7, "t")).is_empty());
    assert_eq!(world.down(GROUP + 2), ["1: U_TOKEN 1 ext (none)"]);
}
