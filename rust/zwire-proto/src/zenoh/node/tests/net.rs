//! Nodes and sessions joined, each message through the codec: both machines agree.

mod lives;

use super::*;
use crate::{
    buf::Reader,
    zenoh::{
        KeyExpr,
        session::{
            Event, Get, GetEnd, InboundQuery, Publication, PublisherOptions, QueryReply, QueryReplyBody,
            QueryableOptions, Reply, Session, SessionConfig, SubscriberOptions,
        },
    },
};
use QueryableOptions as Qable;

#[derive(Clone, Copy, PartialEq)]
enum End {
    Node(usize, u32),
    Session(usize),
}

#[derive(Default)]
struct Net {
    nodes: Vec<Node>,
    sessions: Vec<Session>,
    cables: Vec<(End, End)>,
    now: Duration,
}

fn key(text: &str) -> KeyExpr {
    text.parse().unwrap()
}

fn value(payload: &'static str) -> PushBody {
    PushBody::Put(Put::new(payload))
}

impl Net {
    fn now(&self) -> Now {
        Now::at(self.now)
    }

    fn node(&mut self, mode: NodeMode) -> usize {
        self.nodes.push(Node::new(NodeConfig::new(zid(0x1000 + self.nodes.len() as u32), mode)));
        self.nodes.len() - 1
    }

    /// A session, in the process of a node or at the other end of a link to it.
    fn session(&mut self, node: usize, local: bool) -> usize {
        let number = self.sessions.len();
        let config = self.nodes[node].config();
        let north = Remote { zid: config.zid, whatami: config.mode.into() };
        let own = if local { config.zid } else { zid(number as u32) };
        let mut session = Session::new(SessionConfig::new(own));
        session.handle_link_up(self.now(), north);
        self.sessions.push(session);
        let face = self.cables.len() as u32;
        let remote = Remote { zid: own, whatami: WhatAmI::Client };
        let kind = if local { FaceKind::Local } else { FaceKind::Unicast };
        self.nodes[node].handle_face_up(Now::at(self.now), FaceId(face), remote, kind);
        self.cables.push((End::Node(node, face), End::Session(number)));
        self.settle();
        number
    }

    fn link(&mut self, a: usize, b: usize) {
        let face = self.cables.len() as u32;
        let remote = |net: &Self, node: usize| {
            let config = net.nodes[node].config();
            Remote { zid: config.zid, whatami: config.mode.into() }
        };
        let (at_a, at_b) = (remote(self, b), remote(self, a));
        self.nodes[a].handle_face_up(Now::at(self.now), FaceId(face), at_a, FaceKind::Unicast);
        self.nodes[b].handle_face_up(Now::at(self.now), FaceId(face), at_b, FaceKind::Unicast);
        self.cables.push((End::Node(a, face), End::Node(b, face)));
        self.settle();
    }

    /// Breaks the link of a session, or the last one between nodes.
    fn cut(&mut self, cable: usize) {
        let (a, b) = self.cables[cable];
        for end in [a, b] {
            match end {
                End::Node(node, face) => self.nodes[node].handle_face_down(Now::at(self.now), FaceId(face)),
                End::Session(number) => self.sessions[number].handle_link_down(Now::at(self.now)),
            }
        }
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut sent = Vec::new();
            for (number, node) in self.nodes.iter_mut().enumerate() {
                while let Some((face, message, reliability)) = node.poll_transmit() {
                    sent.push((End::Node(number, face.0), message, reliability));
                }
            }
            for (number, session) in self.sessions.iter_mut().enumerate() {
                while let Some((message, reliability)) = session.poll_transmit() {
                    sent.push((End::Session(number), message, reliability));
                }
            }
            if sent.is_empty() {
                return;
            }
            for (from, message, reliability) in sent {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                let bytes = bytes::Bytes::from(bytes);
                let mut reader = Reader::new(&bytes);
                let message = NetworkMessage::decode(&mut reader).unwrap();
                reader.finish("message").unwrap();
                let cable = self.cables.iter().find(|(a, b)| *a == from || *b == from).unwrap();
                let to = if cable.0 == from { cable.1 } else { cable.0 };
                let now = Now::at(self.now);
                match to {
                    End::Node(node, face) => {
                        self.nodes[node].handle_message(now, FaceId(face), message, reliability).unwrap();
                    }
                    End::Session(number) => {
                        self.sessions[number].handle_message(now, message, reliability).unwrap();
                    }
                }
            }
        }
        panic!("the network does not come to rest");
    }

    fn after(&mut self, time: Duration) {
        self.now += time;
        let now = self.now();
        self.nodes.iter_mut().for_each(|node| node.handle_timeout(now));
        self.sessions.iter_mut().for_each(|session| session.handle_timeout(now));
        self.settle();
    }

    fn put(&mut self, session: usize, on: &str, payload: &'static str) {
        let now = self.now();
        self.sessions[session].put(now, Publication::new(key(on), value(payload))).unwrap();
        self.settle();
    }

    fn subscriber(&mut self, session: usize, on: &str) {
        let now = self.now();
        self.sessions[session].declare_subscriber(now, key(on), SubscriberOptions::default()).unwrap();
        self.settle();
    }

    fn queryable(&mut self, session: usize, on: &str, complete: bool) {
        let now = self.now();
        let options = Qable { complete, ..Qable::default() };
        self.sessions[session].declare_queryable(now, key(on), options).unwrap();
        self.settle();
    }

    fn get(&mut self, session: usize, get: Get) {
        let now = self.now();
        self.sessions[session].get(now, get).unwrap();
        self.settle();
    }

    /// The events of a session, in short.
    fn events(&mut self, session: usize) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(event) = self.sessions[session].poll_event() {
            events.push(match event {
                Event::Sample { sample, .. } => format!("{} {:?}", sample.key, sample.kind),
                Event::Reply { reply: Reply { result: Ok(sample), .. }, .. } => {
                    format!("{}={}", sample.key, String::from_utf8_lossy(&sample.payload))
                }
                Event::Reply { reply: Reply { result: Err(error), .. }, .. } => {
                    format!("error {}", String::from_utf8_lossy(&error.payload))
                }
                Event::GetDone { reason, .. } => format!("{reason:?}"),
                Event::Matching { matching, .. } => format!("matching {matching}"),
                Event::Passed { end, .. } => format!("{end:?}"),
                Event::Query { query, .. } => format!("query {}", query.key),
            });
        }
        events
    }

    /// Every waiting query of `session` is answered with `payload`.
    fn answer(&mut self, session: usize, payload: &'static str) -> usize {
        let mut answered = 0;
        let now = self.now();
        while let Some(event) = self.sessions[session].poll_event() {
            let Event::Query { query: InboundQuery { id, key, .. }, .. } = event else { continue };
            let body = QueryReplyBody::Sample { key, body: value(payload) };
            self.sessions[session].reply(now, id, QueryReply { body, express: None, stamps: None }).unwrap();
            self.sessions[session].finish(now, id);
            answered += 1;
        }
        self.settle();
        answered
    }
}

/// Three sessions at a hub, one of them in its process.
fn hub() -> (Net, [usize; 3]) {
    let mut net = Net::default();
    let hub = net.node(NodeMode::Router);
    let sessions = [net.session(hub, false), net.session(hub, false), net.session(hub, true)];
    (net, sessions)
}

/// Two peers with one session each in their processes.
fn mesh() -> (Net, [usize; 2]) {
    let mut net = Net::default();
    let (a, b) = (net.node(NodeMode::Peer), net.node(NodeMode::Peer));
    let sessions = [net.session(a, true), net.session(b, true)];
    net.link(a, b);
    (net, sessions)
}

/// A peer and its gateway: a session at each.
fn behind_a_gateway() -> (Net, [usize; 2]) {
    let mut net = Net::default();
    let (peer, router) = (net.node(NodeMode::Peer), net.node(NodeMode::Router));
    let sessions = [net.session(peer, true), net.session(router, false)];
    net.link(peer, router);
    (net, sessions)
}

/// Runs a story for every topology and pair of sessions.
fn everywhere(story: impl Fn(Net, usize, usize)) {
    let (net, [a, b, _]) = hub();
    story(net, a, b);
    let (net, [_, b, local]) = hub();
    story(net, b, local);
    let (net, [a, _, local]) = hub();
    story(net, local, a);
    let (net, [a, b]) = mesh();
    story(net, a, b);
    let (net, [a, b]) = behind_a_gateway();
    story(net, a, b);
    let (net, [a, b]) = behind_a_gateway();
    story(net, b, a);
}

#[test]
fn data_arrives_once_wherever_it_is_wanted() {
    everywhere(|mut net, a, b| {
        net.subscriber(b, "x/**");
        net.subscriber(b, "x/y");
        net.put(a, "x/y", "1");
        net.put(a, "z", "1");
        // One PUSH, and the session hands it to both subscribers.
        assert_eq!(net.events(b), ["x/y Put", "x/y Put"]);
        assert!(net.events(a).is_empty());
    });
}

#[test]
fn a_declared_publisher_knows_whether_somebody_listens() {
    everywhere(|mut net, a, b| {
        let now = net.now();
        let publisher =
            net.sessions[a].declare_publisher(now, key("p/q"), PublisherOptions::default()).unwrap();
        net.settle();
        assert_eq!(net.sessions[a].matching(publisher), Some(false));
        assert!(!net.sessions[a].publish(now, publisher, value("0")).unwrap().sent);
        net.subscriber(b, "p/*");
        assert_eq!(net.events(a), ["matching true"]);
        assert!(net.sessions[a].publish(now, publisher, value("1")).unwrap().sent);
        net.settle();
        assert_eq!(net.events(b), ["p/q Put"]);
    });
}

#[test]
fn a_get_is_answered_and_ends() {
    everywhere(|mut net, a, b| {
        net.get(a, Get::new(key("q/1")));
        assert_eq!(net.events(a), ["Completed"], "no queryable");
        net.queryable(b, "q/**", true);
        net.get(a, Get::new(key("q/1")));
        assert_eq!(net.answer(b, "one"), 1);
        assert_eq!(net.events(a), ["q/1=one", "Completed"]);
        net.get(a, Get { timeout: Some(Duration::from_millis(100)), ..Get::new(key("q/*")) });
        net.after(Duration::from_millis(100));
        let events = net.events(a);
        assert_eq!(events[0], "error Timeout", "{events:?}");
        assert_eq!(events.len(), 2, "{events:?}");
    });
}

#[test]
fn tokens_are_seen_by_others_and_by_their_own_session_once() {
    everywhere(|mut net, a, b| {
        let now = net.now();
        let before = net.sessions[b].declare_token(now, key("live/b")).unwrap();
        net.settle();
        net.sessions[a].declare_liveliness_subscriber(now, key("live/*"), true).unwrap();
        net.settle();
        assert_eq!(net.events(a), ["live/b Put"]);
        net.sessions[a].declare_token(now, key("live/a")).unwrap();
        net.sessions[a].declare_token(now, key("live/b")).unwrap();
        net.settle();
        assert_eq!(net.events(a), ["live/a Put"]);
        net.sessions[b].undeclare(now, before).unwrap();
        net.settle();
        assert!(net.events(a).is_empty());
        net.sessions[b].liveliness_get(now, key("live/*"), None).unwrap();
        net.settle();
        let mut seen = net.events(b);
        seen.sort();
        assert_eq!(seen, ["Completed", "live/a=", "live/b="]);
    });
}

#[test]
fn what_was_behind_a_lost_link_is_gone_and_comes_back_with_it() {
    everywhere(|mut net, a, b| {
        let now = net.now();
        let publisher =
            net.sessions[a].declare_publisher(now, key("p"), PublisherOptions::default()).unwrap();
        net.sessions[a].declare_liveliness_subscriber(now, key("**"), false).unwrap();
        net.settle();
        net.subscriber(b, "p");
        net.queryable(b, "q", false);
        net.sessions[b].declare_token(now, key("t")).unwrap();
        net.settle();
        assert_eq!(net.events(a), ["matching true", "t Put"]);
        net.get(a, Get::new(key("q")));
        let cable = net.cables.iter().position(|(_, end)| *end == End::Session(b)).unwrap();
        net.cut(cable);
        let mut events = net.events(a);
        events.sort();
        assert_eq!(events, ["Completed", "matching false", "t Delete"]);

        let (End::Node(node, _), _) = net.cables[cable] else { panic!("a node is first") };
        let face = net.cables.len() as u32;
        let config = net.nodes[node].config();
        let north = Remote { zid: config.zid, whatami: config.mode.into() };
        let remote = Remote { zid: zid(77), whatami: WhatAmI::Client };
        net.nodes[node].handle_face_up(now, FaceId(face), remote, FaceKind::Unicast);
        net.cables[cable] = (End::Node(node, face), End::Session(b));
        net.sessions[b].handle_link_up(now, north);
        net.settle();
        assert_eq!(net.sessions[a].matching(publisher), Some(true));
        let mut events = net.events(a);
        events.sort();
        assert_eq!(events, ["matching true", "t Put"]);
    });
}

#[test]
fn a_lost_link_between_nodes_ends_what_waits_behind_it() {
    for (mut net, [a, b]) in [mesh(), behind_a_gateway()] {
        net.queryable(b, "q", false);
        net.subscriber(b, "s");
        net.get(a, Get::new(key("q")));
        let cable = net.cables.len() - 1;
        net.cut(cable);
        assert_eq!(net.events(a), ["Completed"]);
        net.put(a, "s", "1");
        assert_eq!(net.events(b), ["query q"]);
        net.cables.pop();
        net.link(0, 1);
        net.put(a, "s", "2");
        assert_eq!(net.events(b), ["s Put"]);
    }
}

#[test]
fn two_complete_queryables_are_one_answer_and_all_are_two() {
    let (mut net, [a, b, local]) = hub();
    net.queryable(b, "q", true);
    net.queryable(local, "q", true);
    net.get(a, Get { consolidation: crate::zenoh::wire::Consolidation::None, ..Get::new(key("q")) });
    assert_eq!(net.answer(b, "b") + net.answer(local, "l"), 1);
    assert_eq!(net.events(a).len(), 2);
    let all = Get {
        target: QueryTarget::All,
        consolidation: crate::zenoh::wire::Consolidation::None,
        ..Get::new(key("q"))
    };
    net.get(a, all);
    assert_eq!(net.answer(b, "b") + net.answer(local, "l"), 2);
    assert_eq!(net.events(a), ["q=b", "q=l", &format!("{:?}", GetEnd::Completed)]);
}
