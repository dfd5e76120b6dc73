//! Sessions around a node of this crate, without links in between.

use super::*;
use crate::zenoh::node::{FaceId, FaceKind, Node, NodeConfig, NodeMode};

/// A node and sessions that are its local faces.
struct Hub {
    node: Node,
    rigs: Vec<Rig>,
}

impl Hub {
    fn new(sessions: u32) -> Self {
        let config = NodeConfig::new(zid(0xff), NodeMode::Router);
        let mut hub = Self { node: Node::new(config), rigs: Vec::new() };
        for number in 0..sessions {
            let rig = Rig::with(SessionConfig::new(zid(0x100 + u128::from(number))));
            hub.rigs.push(rig);
            hub.connect(number as usize);
        }
        hub.run();
        hub
    }

    fn connect(&mut self, index: usize) {
        let rig = &mut self.rigs[index];
        let remote = Remote { zid: rig.session.zid(), whatami: WhatAmI::Client };
        self.node.handle_face_up(rig.now, FaceId(u32::try_from(index).unwrap()), remote, FaceKind::Local);
        rig.session.handle_link_up(rig.now, Remote { zid: zid(0xff), whatami: WhatAmI::Router });
    }

    fn cut(&mut self, index: usize) {
        let rig = &mut self.rigs[index];
        self.node.handle_face_down(rig.now, FaceId(u32::try_from(index).unwrap()));
        rig.down();
    }

    /// Runs until no machine has output.
    fn run(&mut self) {
        for _ in 0..1_000 {
            let mut quiet = true;
            for index in 0..self.rigs.len() {
                while let Some((message, reliability)) = self.rigs[index].session.poll_transmit() {
                    quiet = false;
                    let face = FaceId(u32::try_from(index).unwrap());
                    self.node.handle_message(self.rigs[index].now, face, message, reliability).unwrap();
                }
            }
            while let Some((face, message, reliability)) = self.node.poll_transmit() {
                quiet = false;
                let rig = &mut self.rigs[face.0 as usize];
                rig.session.handle_message(rig.now, message, reliability).unwrap();
            }
            if quiet {
                return;
            }
        }
        panic!("they go on talking");
    }

    fn events(&mut self, index: usize) -> Vec<String> {
        self.run();
        self.rigs[index].events()
    }
}

#[test]
fn a_publication_crosses_the_node_once() {
    let mut hub = Hub::new(2);
    hub.rigs[0].subscriber("a/**");
    hub.rigs[0].subscriber("a/*");
    let publisher = hub.rigs[1].publisher("a/b");
    hub.run();
    assert_eq!(hub.rigs[1].session.matching(publisher), Some(true));
    assert!(hub.rigs[1].publish(publisher, "1").sent);
    hub.rigs[1].put("a/c", "2");
    assert_eq!(hub.events(0), ["1: PUT a/b 1", "2: PUT a/b 1", "1: PUT a/c 2", "2: PUT a/c 2"]);
    assert_eq!(hub.rigs[0].session.stats().pushes_received, 2);
    // No subscriber is left, and the publisher knows.
    hub.rigs[0].undeclare(EntityId(1));
    hub.rigs[0].undeclare(EntityId(2));
    assert_eq!(hub.events(1), ["1: matching true", "1: matching false"]);
    assert!(!hub.rigs[1].publish(publisher, "3").sent);
}

#[test]
fn a_get_collects_near_and_far() {
    let mut hub = Hub::new(3);
    for index in 0..3 {
        hub.rigs[index].queryable("q/*");
    }
    hub.run();
    hub.rigs[0].get("q/*");
    hub.run();
    for (index, reply) in [(0, "q/0"), (1, "q/1"), (2, "q/2")] {
        let events = hub.rigs[index].events();
        let query: u64 = events[0].split(' ').nth(2).unwrap().parse().unwrap();
        hub.rigs[index].reply(query, reply, put("x")).unwrap();
        hub.rigs[index].finish(query);
        hub.run();
    }
    let mut events = hub.events(0);
    assert_eq!(events.pop().unwrap(), "1: Completed");
    events.sort();
    assert_eq!(events, ["1: REPLY PUT q/0 x", "1: REPLY PUT q/1 x", "1: REPLY PUT q/2 x"]);
}

#[test]
fn a_vanished_queryable_ends_its_part_at_once() {
    let mut hub = Hub::new(2);
    hub.rigs[1].queryable("q");
    hub.run();
    hub.rigs[0].get("q");
    hub.run();
    assert_eq!(hub.events(0), [] as [&str; 0]);
    hub.cut(1);
    assert_eq!(hub.events(0), ["1: Completed"]);
}

#[test]
fn tokens_are_told_per_key_and_die_with_their_session() {
    let mut hub = Hub::new(3);
    hub.rigs[0].watch("l/**", true);
    let own = hub.rigs[0].token("l/a");
    hub.rigs[1].token("l/a");
    hub.rigs[2].token("l/b");
    let mut events = hub.events(0);
    events.sort();
    assert_eq!(events, ["1: PUT l/a ", "1: PUT l/b "]);
    hub.rigs[0].undeclare(own);
    assert_eq!(hub.events(0), [] as [&str; 0], "another one keeps it alive");
    hub.cut(1);
    assert_eq!(hub.events(0), ["1: DELETE l/a"]);
    hub.rigs[1].ask_living("l/**");
    assert_eq!(hub.events(1), ["1: REPLY PUT l/a ", "1: LinkLost"], "its own one");
    hub.connect(1);
    hub.run();
    hub.rigs[1].ask_living("l/**");
    let mut events = hub.events(1);
    assert_eq!(events.pop().unwrap(), "2: Completed");
    events.sort();
    assert_eq!(events, ["2: REPLY PUT l/a ", "2: REPLY PUT l/b "]);
    assert_eq!(hub.events(0), ["1: PUT l/a "]);
}

#[test]
fn a_querier_knows_whether_somebody_may_answer() {
    let mut hub = Hub::new(2);
    let querier = hub.rigs[0].querier("q");
    hub.run();
    let ask = |hub: &mut Hub| {
        let get = Get { querier: Some(querier), ..Get::new(key("q")) };
        let rig = &mut hub.rigs[0];
        rig.session.get(rig.now, get).unwrap();
    };
    ask(&mut hub);
    assert_eq!(hub.events(0), ["1: NoQueryable"]);
    hub.rigs[1].queryable("q");
    assert_eq!(hub.events(0), ["1: matching true"]);
    ask(&mut hub);
    hub.run();
    hub.rigs[1].reply(2, "q", put("x")).unwrap();
    hub.rigs[1].finish(2);
    assert_eq!(hub.events(0), ["2: REPLY PUT q x", "2: Completed"]);
}
