//! Routing rules as dialogues in virtual time: a face sends a message, and the messages that the node
//! sends are compared in a short text form.

mod agreement;
mod barriers;
mod bounds;
mod data;
mod declarations;
mod fabric;
mod gossip;
mod gradual;
mod groups;
mod interests;
mod liars;
mod net;
mod network;
mod peers;
mod queries;
mod review;
mod routers;
mod sim;

use super::*;
use crate::{
    Text,
    zenoh::{
        Qos, WhatAmI, ZenohId,
        wire::{
            Declare, Del, Err as ErrBody, ExtBody, Interest, InterestMode, InterestOptions, LinkState,
            LinkStateList, Mapping, Oam, Push, PushBody, Put, Query, QueryTarget, QueryableInfo, Reply,
            Request, Response, ResponseBody, ResponseFinal, WireExpr,
        },
    },
};

struct World {
    node: Node,
    now: Duration,
}

fn zid(number: u32) -> ZenohId {
    ZenohId::new(u128::from(number) + 0x50).unwrap()
}

impl World {
    fn new(mode: NodeMode) -> Self {
        let config = NodeConfig { timestamping: false, ..NodeConfig::new(zid(0xf000), mode) };
        Self { node: Node::new(config), now: Duration::ZERO }
    }

    fn hub() -> Self {
        Self::new(NodeMode::Router)
    }

    fn now(&self) -> Now {
        Now { mono: self.now, wall: Duration::from_secs(1_700_000_000) + self.now }
    }

    fn up(&mut self, face: u32, whatami: WhatAmI) -> Vec<String> {
        self.node.handle_face_up(
            self.now(),
            FaceId(face),
            Remote { zid: zid(face), whatami },
            FaceKind::Unicast,
        );
        self.drain()
    }

    /// A hub with clients 1 to `n`.
    fn with_clients(n: u32) -> Self {
        let mut world = Self::hub();
        for face in 1..=n {
            assert!(world.up(face, WhatAmI::Client).is_empty(), "a client is told nothing unasked");
        }
        world
    }

    fn down(&mut self, face: u32) -> Vec<String> {
        self.node.handle_face_down(self.now(), FaceId(face));
        self.drain()
    }

    /// Hands in `message` of `face`; returns the output of the node, as `to: message`.
    #[track_caller]
    fn says(&mut self, face: u32, message: NetworkMessage) -> Vec<String> {
        self.try_says(face, message).unwrap()
    }

    fn try_says(&mut self, face: u32, message: NetworkMessage) -> Result<Vec<String>, FaceError> {
        self.node.handle_message(self.now(), FaceId(face), message, Reliability::Reliable)?;
        Ok(self.drain())
    }

    fn after(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.node.handle_timeout(self.now());
        self.drain()
    }

    fn drain(&mut self) -> Vec<String> {
        self.drain_raw().into_iter().map(|(to, message)| format!("{to}: {}", show(&message))).collect()
    }

    fn drain_raw(&mut self) -> Vec<(u32, NetworkMessage)> {
        core::iter::from_fn(|| self.node.poll_transmit()).map(|(to, message, _)| (to.0, message)).collect()
    }
}

/// `a/b` in full, `3S:/b` with the sender's number 3, `3R:/b` with the receiver's.
fn wire(text: &str) -> WireExpr {
    let scoped = |letter: &str, mapping| {
        let (scope, suffix) = text.split_once(letter)?;
        Some(WireExpr { scope: scope.parse().ok()?, mapping, suffix: Text::from(suffix) })
    };
    scoped("S:", Mapping::Sender)
        .or_else(|| scoped("R:", Mapping::Receiver))
        .unwrap_or_else(|| WireExpr::full(text))
}

fn show_key(key: &WireExpr) -> String {
    match (key.scope, key.mapping) {
        (0, _) if key.suffix.is_empty() => "(none)".to_owned(),
        (0, _) => key.suffix.to_string(),
        (scope, Mapping::Sender) => format!("{scope}S:{}", key.suffix),
        (scope, Mapping::Receiver) => format!("{scope}R:{}", key.suffix),
    }
}

fn show_body(body: &PushBody) -> String {
    match body {
        PushBody::Put(put) => format!("PUT {}", String::from_utf8_lossy(&put.payload)),
        PushBody::Del(_) => "DEL".to_owned(),
    }
}

fn show(message: &NetworkMessage) -> String {
    match message {
        NetworkMessage::Push(push) => {
            let tree = if push.node_id == 0 { String::new() } else { format!("N={} ", push.node_id) };
            format!("{tree}{} {}", show_key(&push.key), show_body(&push.body))
        }
        NetworkMessage::Request(r) => {
            let tree = if r.node_id == 0 { String::new() } else { format!("N={} ", r.node_id) };
            format!("{tree}REQUEST {} {}", r.id, show_key(&r.key))
        }
        NetworkMessage::Response(r) => {
            let body = match &r.body {
                ResponseBody::Reply(reply) => show_body(&reply.body),
                ResponseBody::Err(err) => format!("ERR {}", String::from_utf8_lossy(&err.payload)),
            };
            format!("RESPONSE {} {} {body}", r.id, show_key(&r.key))
        }
        NetworkMessage::ResponseFinal(r) => format!("FINAL {}", r.id),
        NetworkMessage::Declare(declare) => {
            let tree = if declare.node_id == 0 { String::new() } else { format!("N={} ", declare.node_id) };
            let prefix = declare.interest_id.map_or(tree, |id| format!("I={id} "));
            let ext = |key: &Option<WireExpr>| {
                key.as_ref().map_or(String::new(), |key| format!(" ext {}", show_key(key)))
            };
            let body = match &declare.body {
                Declaration::KeyExpr { id, key } => format!("D_KEYEXPR {id} {}", show_key(key)),
                Declaration::UndeclareKeyExpr { id } => format!("U_KEYEXPR {id}"),
                Declaration::Subscriber { id, key } => format!("D_SUB {id} {}", show_key(key)),
                Declaration::UndeclareSubscriber { id, key } => format!("U_SUB {id}{}", ext(key)),
                Declaration::Queryable { id, key, info } => format!(
                    "D_QABL {id} {}{} distance {}",
                    show_key(key),
                    if info.complete { " complete" } else { "" },
                    info.distance
                ),
                Declaration::UndeclareQueryable { id, key } => format!("U_QABL {id}{}", ext(key)),
                Declaration::Token { id, key } => format!("D_TOKEN {id} {}", show_key(key)),
                Declaration::UndeclareToken { id, key } => format!("U_TOKEN {id}{}", ext(key)),
                Declaration::Final => "D_FINAL".to_owned(),
            };
            prefix + &body
        }
        NetworkMessage::Interest(i) => {
            format!("INTEREST {} {:?} {}", i.id, i.mode, i.key.as_ref().map_or("*".to_owned(), show_key))
        }
        NetworkMessage::Oam(oam) => format!("OAM {}", oam.id),
    }
}

/// A link state: the records in short form, `3=54 sn 7 peer [1, 2] at tcp/...`.
fn show_states(message: &NetworkMessage) -> String {
    let NetworkMessage::Oam(oam) = message else { panic!("an OAM: {message:?}") };
    let ExtBody::ZBuf(body) = &oam.body else { panic!("a ZBuf") };
    let records = LinkStateList::decode(body).unwrap().0.into_iter().map(|record| {
        let zid = record.zid.map_or(String::new(), |zid| format!("={zid}"));
        let whatami = record.whatami.map_or(String::new(), |role| format!(" {role:?}").to_lowercase());
        let gateway = if record.gateway { " gateway" } else { "" };
        let weights = record.weights.map_or(String::new(), |weights| format!(" weights {weights:?}"));
        let at = record.locators.map_or(String::new(), |all| format!(" at {}", all.join(" ")));
        format!("{}{zid} sn {}{whatami}{gateway} {:?}{weights}{at}", record.psid, record.sn, record.links)
    });
    records.collect::<Vec<_>>().join("; ")
}

fn states(records: Vec<LinkState>) -> NetworkMessage {
    NetworkMessage::Oam(Oam::new(Oam::LINK_STATE, ExtBody::ZBuf(LinkStateList(records).encode())))
}

fn hex(message: &NetworkMessage) -> String {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn declare(body: Declaration) -> NetworkMessage {
    NetworkMessage::Declare(Declare::new(None, body))
}
fn d_key(id: u16, key: &str) -> NetworkMessage {
    declare(Declaration::KeyExpr { id, key: wire(key) })
}
fn u_key(id: u16) -> NetworkMessage {
    declare(Declaration::UndeclareKeyExpr { id })
}
fn d_sub(id: u32, key: &str) -> NetworkMessage {
    declare(Declaration::Subscriber { id, key: wire(key) })
}
fn u_sub(id: u32) -> NetworkMessage {
    declare(Declaration::UndeclareSubscriber { id, key: None })
}
fn d_qabl(id: u32, key: &str, complete: bool, distance: u16) -> NetworkMessage {
    declare(Declaration::Queryable { id, key: wire(key), info: QueryableInfo { complete, distance } })
}
fn u_qabl(id: u32) -> NetworkMessage {
    declare(Declaration::UndeclareQueryable { id, key: Some(WireExpr::EMPTY) })
}
fn d_token(id: u32, key: &str) -> NetworkMessage {
    declare(Declaration::Token { id, key: wire(key) })
}
fn u_token(id: u32) -> NetworkMessage {
    declare(Declaration::UndeclareToken { id, key: Some(WireExpr::EMPTY) })
}

/// Options by their letters.
fn interest(id: u32, mode: InterestMode, letters: &str, key: Option<&str>) -> NetworkMessage {
    let options = letters
        .chars()
        .map(|letter| match letter {
            'K' => InterestOptions::KEYEXPRS,
            'S' => InterestOptions::SUBSCRIBERS,
            'Q' => InterestOptions::QUERYABLES,
            'T' => InterestOptions::TOKENS,
            'A' => InterestOptions::AGGREGATE,
            _ => panic!("no option {letter}"),
        })
        .fold(InterestOptions::default(), |a, b| a | b);
    NetworkMessage::Interest(Interest::new(id, mode, options, key.map(wire)))
}
fn no_interest(id: u32) -> NetworkMessage {
    NetworkMessage::Interest(Interest::finished(id))
}
fn put(key: &str, payload: &'static str) -> NetworkMessage {
    NetworkMessage::Push(Push::new(wire(key), PushBody::Put(Put::new(payload.as_bytes()))))
}
fn del(key: &str) -> NetworkMessage {
    NetworkMessage::Push(Push::new(wire(key), PushBody::Del(Del::default())))
}
fn request(rid: u32, key: &str, target: QueryTarget, timeout_ms: Option<u64>) -> NetworkMessage {
    NetworkMessage::Request(Request { target, timeout_ms, ..Request::new(rid, wire(key), Query::default()) })
}
fn get(rid: u32, key: &str) -> NetworkMessage {
    request(rid, key, QueryTarget::BestMatching, None)
}
fn response(rid: u32, key: &str, body: ResponseBody) -> NetworkMessage {
    NetworkMessage::Response(Response {
        id: rid,
        key: if key.is_empty() { WireExpr::EMPTY } else { wire(key) },
        qos: Qos::REQUEST,
        timestamp: None,
        responder: None,
        ts_stack: None,
        body,
    })
}
fn reply(rid: u32, key: &str, payload: &'static str) -> NetworkMessage {
    response(rid, key, ResponseBody::Reply(Reply::new(PushBody::Put(Put::new(payload.as_bytes())))))
}
fn error(rid: u32, key: &str, payload: &'static str) -> NetworkMessage {
    let err = ErrBody { payload: payload.into(), ..ErrBody::default() };
    response(rid, key, ResponseBody::Err(err))
}
fn end(rid: u32) -> NetworkMessage {
    NetworkMessage::ResponseFinal(ResponseFinal { id: rid, qos: Qos::REQUEST, timestamp: None })
}
