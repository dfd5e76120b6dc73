//! Nodes and sessions joined by links in virtual time: each link has its delay, links break and new ones
//! are made, and the same seed gives the same run.

use super::*;
use crate::zenoh::{
    KeyExpr,
    session::{Event, GetId, InboundQuery, QueryReply, QueryReplyBody, Session, SessionConfig},
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Node(usize),
    Session(usize),
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) ends: [End; 2],
    delay: Duration,
    pub(super) alive: bool,
    /// Which ends still take the link for open.
    up: [bool; 2],
}

#[allow(clippy::large_enum_variant, reason = "messages are what nearly all happenings are")]
enum Happening {
    Message { link: usize, to: usize, message: NetworkMessage, reliability: Reliability },
    Down { link: usize, side: usize },
    Timer(End),
}

/// Result of a get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Got {
    pub(super) replies: Vec<String>,
    pub(super) ends: u32,
}

/// Simulated network. The number of a link is that of its faces.
pub(super) struct Fabric {
    pub(super) now: Duration,
    pub(super) random: Random,
    pub(super) nodes: Vec<Node>,
    pub(super) sessions: Vec<Session>,
    pub(super) links: Vec<Link>,
    /// Link of each session.
    homes: BTreeMap<usize, usize>,
    happenings: BTreeMap<(Duration, u64), Happening>,
    armed: BTreeMap<End, Duration>,
    next: u64,
    /// Number of messages that arrived.
    pub(super) messages: u64,
    /// Requests on links that have no RESPONSE_FINAL yet: link, side that asked, id.
    pub(super) open: BTreeSet<(usize, usize, u32)>,
    /// Number of times that each subscriber of a session got a put, by payload.
    pub(super) samples: BTreeMap<(String, usize, u32), u32>,
    pub(super) gets: BTreeMap<(usize, GetId), Got>,
}

const MS: Duration = Duration::from_millis(1);

impl Fabric {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: Duration::from_secs(1),
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            nodes: Vec::new(),
            sessions: Vec::new(),
            links: Vec::new(),
            homes: BTreeMap::new(),
            happenings: BTreeMap::new(),
            armed: BTreeMap::new(),
            next: 0,
            messages: 0,
            open: BTreeSet::new(),
            samples: BTreeMap::new(),
            gets: BTreeMap::new(),
        }
    }

    pub(super) fn time(&self) -> Now {
        Now { mono: self.now, wall: Duration::from_secs(1_700_000_000) + self.now }
    }

    pub(super) fn node(&mut self, config: NodeConfig) -> usize {
        self.nodes.push(Node::new(config));
        self.nodes.len() - 1
    }

    pub(super) fn session(&mut self) -> usize {
        let number = self.sessions.len();
        self.sessions.push(Session::new(SessionConfig::new(zid(0x10_0000 + number as u32))));
        number
    }

    fn remote(&self, end: End) -> Remote {
        match end {
            End::Node(node) => {
                let config = self.nodes[node].config();
                Remote { zid: config.zid, whatami: config.mode.into() }
            }
            End::Session(session) => Remote { zid: self.sessions[session].zid(), whatami: WhatAmI::Client },
        }
    }

    /// A new link, up at both ends at once.
    pub(super) fn link(&mut self, a: End, b: End, kind: FaceKind) -> usize {
        let link = self.links.len();
        let delay = match kind {
            FaceKind::Local => Duration::ZERO,
            _ => Duration::from_micros(100 + self.random.next() % 5000),
        };
        self.links.push(Link { ends: [a, b], delay, alive: true, up: [true; 2] });
        if let End::Session(session) = b {
            self.homes.insert(session, link);
        }
        let now = self.time();
        for (end, other) in [(a, b), (b, a)] {
            let remote = self.remote(other);
            match end {
                End::Node(node) => {
                    self.nodes[node].handle_face_up(now, FaceId(link as u32), remote, kind);
                }
                End::Session(session) => self.sessions[session].handle_link_up(now, remote),
            }
        }
        self.drain(a);
        self.drain(b);
        link
    }

    /// Sends a message that a node does not send by itself, from one end of a link.
    pub(super) fn say(&mut self, link: usize, from: usize, message: NetworkMessage) {
        let to = usize::from(self.links[link].ends[0] == End::Node(from));
        let reliability = Reliability::Reliable;
        self.plan(self.now + self.links[link].delay, Happening::Message { link, to, message, reliability });
    }

    /// Breaks the link: messages on the way are lost, and each end notices after its own delay.
    pub(super) fn cut(&mut self, link: usize) {
        if !core::mem::replace(&mut self.links[link].alive, false) {
            return;
        }
        self.open.retain(|(of, _, _)| *of != link);
        for side in 0..2 {
            let at = self.now + MS * (self.random.next() % 50) as u32;
            self.plan(at, Happening::Down { link, side });
        }
    }

    /// Restarts the node without its state.
    pub(super) fn restart(&mut self, node: usize) {
        for link in 0..self.links.len() {
            if self.links[link].ends.contains(&End::Node(node)) {
                self.cut(link);
                let side = usize::from(self.links[link].ends[1] == End::Node(node));
                self.links[link].up[side] = false;
            }
        }
        self.nodes[node] = Node::new(self.nodes[node].config().clone());
        self.armed.remove(&End::Node(node));
    }

    fn plan(&mut self, at: Duration, what: Happening) {
        self.next += 1;
        self.happenings.insert((at, self.next), what);
    }

    pub(super) fn with_session<R>(&mut self, session: usize, f: impl FnOnce(&mut Session, Now) -> R) -> R {
        let now = self.time();
        let result = f(&mut self.sessions[session], now);
        self.drain(End::Session(session));
        result
    }

    /// Tells a session that its link is lost.
    pub(super) fn disconnect(&mut self, session: usize) {
        let Some(link) = self.homes.remove(&session) else { return };
        self.cut(link);
        self.links[link].up[1] = false;
        self.with_session(session, Session::handle_link_down);
    }

    /// The link of a session, from the session's view.
    pub(super) fn home(&self, session: usize) -> Option<usize> {
        self.homes.get(&session).copied()
    }

    fn drain(&mut self, end: End) {
        let mut sent: Vec<(usize, NetworkMessage, Reliability)> = Vec::new();
        match end {
            End::Node(node) => {
                while let Some((face, message, reliability)) = self.nodes[node].poll_transmit() {
                    sent.push((face.0 as usize, message, reliability));
                }
                while self.nodes[node].poll_event().is_some() {}
            }
            End::Session(session) => {
                let home = self.home(session);
                loop {
                    while let Some((message, reliability)) = self.sessions[session].poll_transmit() {
                        sent.extend(home.map(|home| (home, message, reliability)));
                    }
                    let Some(event) = self.sessions[session].poll_event() else { break };
                    self.heard(session, event);
                }
            }
        }
        for (link, message, reliability) in sent {
            let Link { ends, delay, alive, .. } = self.links[link];
            if !alive {
                continue;
            }
            let to = usize::from(ends[0] == end);
            match &message {
                NetworkMessage::Request(request) => {
                    assert!(self.open.insert((link, 1 - to, request.id)), "a request id is used once");
                }
                NetworkMessage::ResponseFinal(end) => {
                    assert!(self.open.remove(&(link, to, end.id)), "one final, of what is open");
                }
                NetworkMessage::Response(response) => {
                    assert!(self.open.contains(&(link, to, response.id)), "no answer after the end");
                }
                _ => {}
            }
            self.plan(self.now + delay, Happening::Message { link, to, message, reliability });
        }
        let next = match end {
            End::Node(node) => self.nodes[node].poll_timeout(),
            End::Session(session) => self.sessions[session].poll_timeout(),
        };
        if let Some(next) = next.map(|next| next.max(self.now))
            && self.armed.get(&end).is_none_or(|armed| next < *armed)
        {
            self.armed.insert(end, next);
            self.plan(next, Happening::Timer(end));
        }
    }

    fn heard(&mut self, session: usize, event: Event) {
        match event {
            Event::Sample { subscriber, sample } => {
                let payload = String::from_utf8_lossy(&sample.payload).into_owned();
                *self.samples.entry((payload, session, subscriber.0)).or_default() += 1;
            }
            Event::Query { queryable, query: InboundQuery { id, .. } } => {
                let now = self.time();
                let asked = &mut self.sessions[session];
                let key = asked.key_of(queryable).cloned();
                if let Some(key) = key {
                    let payload = format!("{session}:{}", queryable.0);
                    let body = PushBody::Put(Put::new(bytes::Bytes::from(payload)));
                    let body = QueryReplyBody::Sample { key, body };
                    asked.reply(now, id, QueryReply { body, express: None, stamps: None }).unwrap();
                }
                asked.finish(now, id);
            }
            Event::Reply { get, reply } => {
                let got = self.gets.entry((session, get)).or_default();
                assert_eq!(got.ends, 0, "no reply after the end");
                got.replies.push(match reply.result {
                    Ok(sample) if sample.payload.is_empty() => sample.key.to_string(),
                    Ok(sample) => String::from_utf8_lossy(&sample.payload).into_owned(),
                    Err(error) => format!("error {}", String::from_utf8_lossy(&error.payload)),
                });
            }
            Event::GetDone { get, .. } => self.gets.entry((session, get)).or_default().ends += 1,
            Event::Matching { .. } | Event::Passed { .. } => {}
        }
    }

    /// Advances the time.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(entry) = self.happenings.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), what) = entry.remove_entry();
            self.now = at;
            let now = self.time();
            match what {
                Happening::Message { link, to, message, reliability } => {
                    let Link { ends, alive, up, .. } = &self.links[link];
                    if !alive || !up[to] {
                        continue;
                    }
                    self.messages += 1;
                    let end = ends[to];
                    match end {
                        End::Node(node) => self.nodes[node]
                            .handle_message(now, FaceId(link as u32), message, reliability)
                            .unwrap(),
                        End::Session(session) => {
                            self.sessions[session].handle_message(now, message, reliability).unwrap();
                        }
                    }
                    self.drain(end);
                }
                Happening::Down { link, side } => {
                    if !core::mem::replace(&mut self.links[link].up[side], false) {
                        continue;
                    }
                    let end = self.links[link].ends[side];
                    match end {
                        End::Node(node) => self.nodes[node].handle_face_down(now, FaceId(link as u32)),
                        End::Session(session) => {
                            self.homes.remove(&session);
                            self.sessions[session].handle_link_down(now);
                        }
                    }
                    self.drain(end);
                }
                Happening::Timer(end) => {
                    if self.armed.get(&end) != Some(&at) {
                        continue;
                    }
                    self.armed.remove(&end);
                    match end {
                        End::Node(node) => self.nodes[node].handle_timeout(now),
                        End::Session(session) => self.sessions[session].handle_timeout(now),
                    }
                    self.drain(end);
                }
            }
        }
        self.now = end;
    }

    pub(super) fn put(&mut self, session: usize, key: &KeyExpr, payload: String) {
        use crate::zenoh::session::Publication;
        let body = PushBody::Put(Put::new(bytes::Bytes::from(payload)));
        self.with_session(session, |s, now| s.put(now, Publication::new(key.clone(), body)).unwrap());
    }
}
