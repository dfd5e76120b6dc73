//! Two nodes that connect to each other at once, in every possible order of messages.

use super::zid;
use crate::zenoh::{
    ZenohId,
    discovery::{Admission, Claim, Contacts},
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
    /// Rules of eclipse-zenoh: one incoming link, with which an outgoing one is joined to one transport if the
    /// terms of both are the same.
    Reference {
        inbound: bool,
        outbound: bool,
        joins: bool,
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
    fn new(id: u128, reference: Option<bool>) -> Self {
        let rules = match reference {
            Some(joins) => Rules::Reference { inbound: false, outbound: false, joins },
            None => Rules::Ours(Contacts::new(zid(id))),
        };
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
            Rules::Ours(contacts) => {
                let claim = self.claim_opened.expect("opened before");
                contacts.confirm(other, claim);
                true
            }
            Rules::Reference { inbound, outbound, joins } => {
                *outbound |= *joins || !*inbound;
                *joins || !*inbound
            }
        }
    }

    fn admits(&mut self, other: ZenohId) -> bool {
        match &mut self.rules {
            Rules::Ours(contacts) => match contacts.admit(other) {
                Admission::Admitted(claim) => {
                    self.claim_accepted = Some(claim);
                    true
                }
                Admission::Refused => false,
                Admission::Wait => panic!("it waits"),
            },
            Rules::Reference { inbound, outbound, joins } => {
                (*joins || !*outbound) && !core::mem::replace(inbound, true)
            }
        }
    }

    fn waits(&self, other: ZenohId) -> bool {
        matches!(&self.rules, Rules::Ours(contacts) if contacts.waits(other))
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
            (Rules::Reference { outbound, .. }, _) if opened => *outbound = false,
            (Rules::Reference { inbound, .. }, _) => *inbound = false,
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
    fn new(ids: [u128; 2], reference: Option<bool>) -> Self {
        let node = |n: usize| Node::new(ids[n], reference.filter(|_| n == 1));
        let mut world = Self { nodes: [node(0), node(1)], wires: Default::default() };
        world.wires[0][1].push_back(Message::InitSyn);
        world.wires[1][0].push_back(Message::InitSyn);
        world
    }

    /// Whether the receiver of a wire can handle its next message.
    fn is_due(&self, connection: usize, to: usize) -> bool {
        match self.wires[connection][to].front() {
            Some(Message::OpenSyn) => !self.nodes[to].waits(self.nodes[1 - to].zid),
            next => next.is_some(),
        }
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
    fn replay(ids: [u128; 2], reference: Option<bool>, steps: &Steps) -> Self {
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
fn all_orders(ids: [u128; 2], reference: Option<bool>, check: &dyn Fn(&World, &Steps)) -> usize {
    let mut todo = vec![Vec::new()];
    let mut ends = 0;
    while let Some(steps) = todo.pop() {
        let world = World::replay(ids, reference, &steps);
        let mut next = Vec::new();
        for connection in 0..2 {
            for to in 0..2 {
                if world.is_due(connection, to) {
                    next.push((connection, to));
                }
            }
        }
        if next.is_empty() {
            assert!(
                world.wires.iter().flatten().all(VecDeque::is_empty),
                "{steps:?}: a message waits for ever"
            );
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
        // A connection that waits leaves fewer orders than one that is answered at once.
        assert!(orders > 30, "only {orders} orders");
    }
}

#[test]
fn one_connection_remains_beside_a_node_of_the_reference() {
    for joins in [false, true] {
        for ids in [[1, 2], [2, 1]] {
            all_orders(ids, Some(joins), &|world, steps| {
                let [ours, theirs] = &world.nodes;
                assert!(ours.opened != ours.accepted, "{ids:?} {joins} {steps:?}: exactly one link of ours");
                assert_eq!(ours.links_ever_lost, 0, "{steps:?}: what we have stays");
                assert_eq!(
                    (theirs.opened, theirs.accepted),
                    (ours.accepted, ours.opened),
                    "{ids:?} {steps:?}"
                );
            });
        }
    }
}

/// The claim of an admission.
fn admitted(admission: Admission) -> Claim {
    let Admission::Admitted(claim) = admission else { panic!("{admission:?}") };
    claim
}

#[test]
fn a_session_is_not_opened_twice() {
    let mut contacts = Contacts::new(zid(5));
    let claim = contacts.open(zid(7)).unwrap();
    assert_eq!(contacts.open(zid(7)), None, "one pending connection per node");
    assert!(contacts.open(zid(8)).is_some(), "others do not wait for it");
    contacts.confirm(zid(7), claim);
    assert_eq!(contacts.admit(zid(7)), Admission::Refused);
    assert_eq!(contacts.open(zid(7)), None);
    contacts.release(zid(7), claim);
    assert!(!contacts.contains(zid(7)));
    let stale = claim;
    let claim = admitted(contacts.admit(zid(7)));
    contacts.release(zid(7), stale);
    contacts.confirm(zid(7), stale);
    assert!(contacts.contains(zid(7)), "an old claim takes nothing away");
    contacts.release(zid(7), claim);
}

#[test]
fn of_crossing_connections_the_greater_id_keeps_its_own() {
    let mut contacts = Contacts::new(zid(5));
    let own = contacts.open(zid(7)).unwrap();
    assert_eq!(contacts.admit(zid(7)), Admission::Wait);
    contacts.release(zid(7), own);
    let theirs = admitted(contacts.admit(zid(7)));
    contacts.release(zid(7), theirs);
    let own = contacts.open(zid(3)).unwrap();
    assert_eq!(contacts.admit(zid(3)), Admission::Refused);
    contacts.confirm(zid(3), own);
    assert_eq!(contacts.admit(zid(3)), Admission::Refused);
}
