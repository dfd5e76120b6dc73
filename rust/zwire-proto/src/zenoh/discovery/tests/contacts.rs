//! Two nodes that connect to each other at once, in every possible order of messages.

use super::zid;
use crate::zenoh::{
    ZenohId,
    discovery::{Claim, Contacts},
};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    InitSyn,
    InitAck,
    OpenSyn,
    OpenAck,
    Close,
}

/// Rules of a node for simultaneous connections.
enum Rules {
    Ours(Contacts),
    /// Rules of Eclipse Zenoh: one incoming link and any number of outgoing ones, joined to one
    /// transport.
    Reference {
        inbound: bool,
    },
}

struct Node {
    rules: Rules,
    zid: ZenohId,
    /// For the connection that it opened and the one that it accepted: whether there is a link.
    opened: bool,
    accepted: bool,
    claim_opened: Option<Claim>,
    claim_accepted: Option<Claim>,
    links_ever_lost: usize,
}

impl Node {
    fn new(id: u128, reference: bool) -> Self {
        let rules =
            if reference { Rules::Reference { inbound: false } } else { Rules::Ours(Contacts::new(zid(id))) };
        Self {
            rules,
            zid: zid(id),
            opened: false,
            accepted: false,
            claim_opened: None,
            claim_accepted: None,
            links_ever_lost: 0,
        }
    }

    fn may_open(&mut self, other: ZenohId) -> bool {
        match &mut self.rules {
            Rules::Ours(contacts) => {
                self.claim_opened = contacts.open(other);
                self.claim_opened.is_some()
            }
            Rules::Reference { .. } => true,
        }
    }

    fn confirms(&mut self, other: ZenohId) -> bool {
        match &mut self.rules {
            Rules::Ours(contacts) => self.claim_opened.is_some_and(|claim| contacts.confirm(other, claim)),
            Rules::Reference { .. } => true,
        }
    }

    fn admits(&mut self, other: ZenohId) -> bool {
        match &mut self.rules {
            Rules::Ours(contacts) => {
                self.claim_accepted = contacts.admit(other);
                self.claim_accepted.is_some()
            }
            Rules::Reference { inbound } => !core::mem::replace(inbound, true),
        }
    }

    fn over(&mut self, other: ZenohId, opened: bool) {
        let (link, claim) = if opened {
            (&mut self.opened, &mut self.claim_opened)
        } else {
            (&mut self.accepted, &mut self.claim_accepted)
        };
        if core::mem::take(link) {
            self.links_ever_lost += 1;
        }
        match (&mut self.rules, claim.take()) {
            (Rules::Ours(contacts), Some(claim)) => contacts.release(other, claim),
            (Rules::Reference { inbound }, _) if !opened => *inbound = false,
            _ => {}
        }
    }
}

/// Two nodes and two connections: the first opened by the first node, the second by the second.
struct World {
    nodes: [Node; 2],
    /// By connection, then by receiver.
    wires: [[VecDeque<Message>; 2]; 2],
}

impl World {
    fn new(ids: [u128; 2], reference: Option<usize>) -> Self {
        let node = |n: usize| Node::new(ids[n], reference == Some(n));
        let mut world = Self { nodes: [node(0), node(1)], wires: Default::default() };
        world.wires[0][1].push_back(Message::InitSyn);
        world.wires[1][0].push_back(Message::InitSyn);
        world
    }

    /// Delivers the next message of a wire.
    fn step(&mut self, connection: usize, to: usize) {
        let Some(message) = self.wires[connection][to].pop_front() else { return };
        let other = self.nodes[1 - to].zid;
        let opener = connection == to;
        let node = &mut self.nodes[to];
        let answer = match message {
            Message::InitSyn => Some(Message::InitAck),
            Message::InitAck if node.may_open(other) => Some(Message::OpenSyn),
            Message::OpenSyn if node.admits(other) => {
                node.accepted = true;
                Some(Message::OpenAck)
            }
            Message::OpenAck if node.confirms(other) => {
                node.opened = true;
                None
            }
            Message::InitAck | Message::OpenSyn => Some(Message::Close),
            Message::OpenAck => {
                node.over(other, true);
                Some(Message::Close)
            }
            Message::Close => {
                node.over(other, opener);
                None
            }
        };
        if let Some(answer) = answer {
            self.wires[connection][1 - to].push_back(answer);
        }
    }

    /// Replays the steps so far; replaying avoids cloning the machines.
    fn replay(ids: [u128; 2], reference: Option<usize>, steps: &Steps) -> Self {
        let mut world = Self::new(ids, reference);
        for (connection, to) in steps {
            world.step(*connection, *to);
        }
        world
    }
}

/// Connections that deliver their next message, and the receivers.
type Steps = [(usize, usize)];

/// Runs every order in which the messages can arrive; returns the number of orders.
fn all_orders(ids: [u128; 2], reference: Option<usize>, check: &dyn Fn(&World, &Steps)) -> usize {
    let mut todo = vec![Vec::new()];
    let mut ends = 0;
    while let Some(steps) = todo.pop() {
        let world = World::replay(ids, reference, &steps);
        let mut next = Vec::new();
        for connection in 0..2 {
            for to in 0..2 {
                if !world.wires[connection][to].is_empty() {
                    next.push((connection, to));
                }
            }
        }
        if next.is_empty() {
            check(&world, &steps);
            ends += 1;
        }
        todo.extend(next.into_iter().map(|step| {
            let mut steps = steps.clone();
            steps.push(step);
            steps
        }));
    }
    ends
}

#[test]
fn of_two_connections_at_once_one_remains() {
    for ids in [[1, 2], [2, 1]] {
        let orders = all_orders(ids, None, &|world, steps| {
            let [a, b] = &world.nodes;
            let first = (a.opened, b.accepted);
            let second = (b.opened, a.accepted);
            assert!(
                matches!((first, second), ((true, true), (false, false)) | ((false, false), (true, true))),
                "{ids:?} {steps:?}: {first:?} {second:?}"
            );
            assert_eq!((a.links_ever_lost, b.links_ever_lost), (0, 0), "{steps:?}: no flapping");
        });
        assert!(orders > 50, "only {orders} orders");
    }
}

#[test]
fn one_connection_remains_beside_a_node_of_the_reference() {
    for ids in [[1, 2], [2, 1]] {
        all_orders(ids, Some(1), &|world, steps| {
            let [ours, theirs] = &world.nodes;
            assert!(ours.opened != ours.accepted, "{ids:?} {steps:?}: exactly one link of ours");
            assert_eq!(ours.links_ever_lost, 0, "{steps:?}: what we have stays");
            assert_eq!((theirs.opened, theirs.accepted), (ours.accepted, ours.opened), "{ids:?} {steps:?}");
        });
    }
}

#[test]
fn a_session_is_not_opened_twice() {
    let mut contacts = Contacts::new(zid(5));
    let claim = contacts.open(zid(7)).unwrap();
    assert_eq!(contacts.open(zid(7)), None, "one pending connection per node");
    assert!(contacts.open(zid(8)).is_some(), "others do not wait for it");
    assert!(contacts.confirm(zid(7), claim));
    assert_eq!(contacts.admit(zid(7)), None);
    assert_eq!(contacts.open(zid(7)), None);
    contacts.release(zid(7), claim);
    assert!(!contacts.contains(zid(7)));
    let stale = claim;
    let claim = contacts.admit(zid(7)).unwrap();
    contacts.release(zid(7), stale);
    assert!(contacts.contains(zid(7)), "an old claim takes nothing away");
    contacts.release(zid(7), claim);
}

#[test]
fn the_claim_of_a_connection_that_lost_is_worth_nothing() {
    let mut contacts = Contacts::new(zid(5));
    let own = contacts.open(zid(7)).unwrap();
    let theirs = contacts.admit(zid(7)).unwrap();
    assert!(!contacts.confirm(zid(7), own));
    contacts.release(zid(7), own);
    assert!(contacts.contains(zid(7)));
    contacts.release(zid(7), theirs);
    let own = contacts.open(zid(3)).unwrap();
    assert_eq!(contacts.admit(zid(3)), None, "the greater id keeps its own connection");
    assert!(contacts.confirm(zid(3), own));
}
