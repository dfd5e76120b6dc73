//! Scenarios of a session and a scripted north, in virtual time.

mod barrier;
mod declare;
mod get;
mod hostile;
mod hub;
mod laws;
mod link;
mod liveliness;
mod publish;
mod query;

use super::*;
use crate::{
    Text,
    buf::Reader,
    zenoh::{
        Qos, WhatAmI,
        wire::{
            Consolidation, Del, Interest as WireInterest, Mapping, Push, PushBody, Put, Query,
            Reply as WireReply, Request, Response, ResponseBody, ResponseFinal,
        },
    },
};
use bytes::Bytes;

/// A session, its north, and a clock.
struct Rig {
    session: Session,
    now: Now,
}

fn zid(number: u128) -> ZenohId {
    ZenohId::new(number).unwrap()
}

fn key(text: &str) -> KeyExpr {
    text.parse().unwrap()
}

fn put(payload: &'static str) -> PushBody {
    PushBody::Put(Put::new(payload))
}

fn put_at(payload: &'static str, time: u64) -> PushBody {
    let timestamp = Some(Timestamp { time: crate::zenoh::Ntp64(time), id: zid(9) });
    PushBody::Put(Put { timestamp, ..Put::new(payload) })
}

/// Compact text form of a message, as in the behaviour document.
fn show(message: &NetworkMessage) -> String {
    let wire = |key: &WireExpr| {
        let mapping = match (key.scope, key.mapping) {
            (0, _) => "",
            (_, Mapping::Sender) => "S",
            (_, Mapping::Receiver) => "R",
        };
        format!("{}{mapping}'{}'", key.scope, key.suffix)
    };
    let data = |body: &PushBody| match body {
        PushBody::Put(put) => format!("PUT {}", String::from_utf8_lossy(&put.payload)),
        PushBody::Del(_) => "DEL".into(),
    };
    match message {
        NetworkMessage::Push(push) => format!("PUSH {} {}", wire(&push.key), data(&push.body)),
        NetworkMessage::Request(request) => format!("REQUEST {} {}", request.id, wire(&request.key)),
        NetworkMessage::Response(response) => {
            let body = match &response.body {
                ResponseBody::Reply(reply) => data(&reply.body),
                ResponseBody::Err(err) => format!("ERR {}", String::from_utf8_lossy(&err.payload)),
            };
            format!("RESPONSE {} {} {body}", response.id, wire(&response.key))
        }
        NetworkMessage::ResponseFinal(message) => format!("FINAL {}", message.id),
        NetworkMessage::Interest(interest) => {
            let key = interest.key.as_ref().map_or(String::new(), |key| format!(" {}", wire(key)));
            format!("INTEREST {} {:?}{key}", interest.id, interest.mode)
        }
        NetworkMessage::Declare(declare) => {
            let interest = declare.interest_id.map_or(String::new(), |id| format!("[{id}] "));
            let body = match &declare.body {
                Declaration::KeyExpr { id, key } => format!("KEYEXPR {id} {}", wire(key)),
                Declaration::UndeclareKeyExpr { id } => format!("U_KEYEXPR {id}"),
                Declaration::Subscriber { id, key } => format!("SUBSCRIBER {id} {}", wire(key)),
                Declaration::UndeclareSubscriber { id, key } => {
                    assert_eq!(*key, None);
                    format!("U_SUBSCRIBER {id}")
                }
                Declaration::Queryable { id, key, info } => {
                    let complete = if info.complete { " complete" } else { "" };
                    format!("QUERYABLE {id} {}{complete}", wire(key))
                }
                Declaration::UndeclareQueryable { id, key } => {
                    assert_eq!(key.as_ref(), Some(&WireExpr::EMPTY));
                    format!("U_QUERYABLE {id}")
                }
                Declaration::Token { id, key } => format!("TOKEN {id} {}", wire(key)),
                Declaration::UndeclareToken { id, key } => {
                    assert_eq!(key.as_ref(), Some(&WireExpr::EMPTY));
                    format!("U_TOKEN {id}")
                }
                Declaration::Final => "FINAL".into(),
            };
            format!("{interest}{body}")
        }
        NetworkMessage::Oam(oam) => format!("OAM {}", oam.id),
    }
}

fn hex(message: &NetworkMessage) -> String {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> NetworkMessage {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let bytes =
        digits.chunks(2).map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap());
    let bytes: Bytes = bytes.collect::<Vec<u8>>().into();
    NetworkMessage::decode(&mut Reader::new(&bytes)).unwrap()
}

fn show_event(event: &Event) -> String {
    let sample = |sample: &Sample| match sample.kind {
        SampleKind::Put => format!("PUT {} {}", sample.key, String::from_utf8_lossy(&sample.payload)),
        SampleKind::Delete => format!("DELETE {}", sample.key),
    };
    match event {
        Event::Sample { subscriber, sample: s } => format!("{}: {}", subscriber.0, sample(s)),
        Event::Query { queryable, query } => format!("{}: QUERY {} {}", queryable.0, query.id.0, query.key),
        Event::Reply { get, reply } => match &reply.result {
            Ok(s) => format!("{}: REPLY {}", get.0, sample(s)),
            Err(error) => format!("{}: ERR {}", get.0, String::from_utf8_lossy(&error.payload)),
        },
        Event::GetDone { get, reason } => format!("{}: {reason:?}", get.0),
        Event::Matching { entity, matching } => format!("{}: matching {matching}", entity.0),
        Event::Passed { barrier, end } => format!("barrier {}: {end:?}", barrier.0),
    }
}

impl Rig {
    fn offline() -> Self {
        Self::with(SessionConfig::new(zid(0x0a)))
    }

    fn with(config: SessionConfig) -> Self {
        Self { session: Session::new(config), now: Now::at(Duration::from_secs(1_000)) }
    }

    /// A session connected to a router.
    fn new() -> Self {
        let mut rig = Self::offline();
        rig.up(WhatAmI::Router);
        rig
    }

    fn up(&mut self, whatami: WhatAmI) {
        self.session.handle_link_up(self.now, Remote { zid: zid(0x0b), whatami });
    }

    fn down(&mut self) {
        self.session.handle_link_down(self.now);
    }

    /// Advances the time and handles the deadlines on the way.
    fn pass(&mut self, millis: u64) {
        let end = self.now.mono + Duration::from_millis(millis);
        for _ in 0..1_000 {
            match self.session.poll_timeout().filter(|&deadline| deadline <= end) {
                Some(deadline) => self.now = Now::at(deadline.max(self.now.mono)),
                None => break,
            }
            self.session.handle_timeout(self.now);
        }
        assert!(self.session.poll_timeout().is_none_or(|deadline| deadline > end), "a deadline that stays");
        self.now = Now::at(end);
    }

    fn messages(&mut self) -> Vec<NetworkMessage> {
        core::iter::from_fn(|| self.session.poll_transmit()).map(|(message, _)| message).collect()
    }

    fn sent(&mut self) -> Vec<String> {
        self.messages().iter().map(show).collect()
    }

    fn events(&mut self) -> Vec<String> {
        core::iter::from_fn(|| self.session.poll_event()).map(|event| show_event(&event)).collect()
    }

    fn hears(&mut self, message: NetworkMessage) {
        self.session.handle_message(self.now, message, Reliability::Reliable).unwrap();
    }

    fn declared(&mut self, interest_id: Option<u32>, body: Declaration) {
        self.hears(NetworkMessage::Declare(Declare::new(interest_id, body)));
    }

    fn final_of(&mut self, interest_id: u32) {
        self.declared(Some(interest_id), Declaration::Final);
    }

    fn pushed(&mut self, wire: WireExpr, body: PushBody) {
        self.hears(NetworkMessage::Push(Push::new(wire, body)));
    }

    fn requested(&mut self, id: u32, wire: WireExpr) {
        self.hears(NetworkMessage::Request(Request::new(id, wire, Query::default())));
    }

    fn replied(&mut self, id: u32, key: &str, body: PushBody) {
        self.hears(NetworkMessage::Response(response(id, key, ResponseBody::Reply(WireReply::new(body)))));
    }

    fn finished(&mut self, id: u32) {
        self.hears(NetworkMessage::ResponseFinal(ResponseFinal { id, qos: Qos::REQUEST, timestamp: None }));
    }

    fn subscriber(&mut self, text: &str) -> EntityId {
        self.session.declare_subscriber(self.now, key(text), SubscriberOptions::default()).unwrap()
    }

    fn queryable(&mut self, text: &str) -> EntityId {
        self.session.declare_queryable(self.now, key(text), QueryableOptions::default()).unwrap()
    }

    fn publisher(&mut self, text: &str) -> EntityId {
        self.session.declare_publisher(self.now, key(text), PublisherOptions::default()).unwrap()
    }

    fn querier(&mut self, text: &str) -> EntityId {
        self.session.declare_querier(self.now, key(text), QuerierOptions::default()).unwrap()
    }

    fn token(&mut self, text: &str) -> EntityId {
        self.session.declare_token(self.now, key(text)).unwrap()
    }

    fn watch(&mut self, text: &str, history: bool) -> EntityId {
        self.session.declare_liveliness_subscriber(self.now, key(text), history).unwrap()
    }

    fn undeclare(&mut self, id: EntityId) {
        self.session.undeclare(self.now, id).unwrap();
    }

    fn put(&mut self, text: &str, payload: &'static str) -> Published {
        self.session.put(self.now, Publication::new(key(text), put(payload))).unwrap()
    }

    fn publish(&mut self, publisher: EntityId, payload: &'static str) -> Published {
        self.session.publish(self.now, publisher, put(payload)).unwrap()
    }

    fn get(&mut self, text: &str) -> GetId {
        self.session.get(self.now, Get::new(key(text))).unwrap()
    }

    fn get_with(&mut self, text: &str, consolidation: Consolidation) -> GetId {
        self.session.get(self.now, Get { consolidation, ..Get::new(key(text)) }).unwrap()
    }

    fn ask_living(&mut self, text: &str) -> GetId {
        self.session.liveliness_get(self.now, key(text), None).unwrap()
    }

    fn reply(&mut self, query: u64, text: &str, body: PushBody) -> SessionResult<()> {
        let body = QueryReplyBody::Sample { key: key(text), body };
        self.session.reply(self.now, QueryId(query), QueryReply { body, express: None, stamps: None })
    }

    fn finish(&mut self, query: u64) {
        self.session.finish(self.now, QueryId(query));
    }
}

fn response(id: u32, key: &str, body: ResponseBody) -> Response {
    let key = WireExpr::full(key);
    Response { id, key, qos: Qos::REQUEST, timestamp: None, responder: None, ts_stack: None, body }
}

fn d_subscriber(id: u32, key: &str) -> Declaration {
    Declaration::Subscriber { id, key: WireExpr::full(key) }
}

fn u_subscriber(id: u32) -> Declaration {
    Declaration::UndeclareSubscriber { id, key: None }
}

fn d_queryable(id: u32, key: &str, complete: bool) -> Declaration {
    let info = crate::zenoh::wire::QueryableInfo { complete, distance: 1 };
    Declaration::Queryable { id, key: WireExpr::full(key), info }
}

fn d_token(id: u32, key: &str) -> Declaration {
    Declaration::Token { id, key: WireExpr::full(key) }
}

fn u_token(id: u32) -> Declaration {
    Declaration::UndeclareToken { id, key: Some(WireExpr::EMPTY) }
}
