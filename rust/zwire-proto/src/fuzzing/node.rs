//! Fuzz body of a routing node and its faces.

use crate::{
    Now, Text,
    buf::Reader,
    zenoh::{
        Reliability, Remote, WhatAmI, ZenohId,
        node::{FaceId, FaceKind, FaceLimits, GossipConfig, Node, NodeConfig, NodeMode},
        wire::{
            Declaration, Declare, ExtBody, Interest, InterestMode, InterestOptions, LinkState, LinkStateList,
            Mapping, NetworkMessage, Oam, Push, PushBody, Put, Query, QueryTarget, QueryableInfo, Request,
            Response, ResponseBody, ResponseFinal, WireExpr,
        },
    },
};
use bytes::Bytes;
use core::time::Duration;
use std::collections::BTreeSet;

const FACES: u32 = 8;
const KEYS: [&str; 8] = ["a", "a/b", "a/*", "**", "b/**", "@a/b", "a$*/c", "c/d/e/f/g/h/i/j/k"];
const LIMITS: FaceLimits = FaceLimits {
    table_bytes: 8192,
    node_bytes: 16384,
    interests: 12,
    queries: 12,
    network_bytes: 8192,
    route_cache_bytes: 4096,
};
/// Most outputs of one step: every declaration sent to every face, and the end of every query.
const MOST_AT_ONCE: usize = 20_000;

fn zid(number: u8) -> ZenohId {
    ZenohId::new(u128::from(number % 16) + 1).expect("not zero")
}

/// Runs the bytes as a script: each piece begins with an operation, a face and a length.
pub fn zenoh_node(script: &[u8]) {
    let script = Bytes::copy_from_slice(script);
    let Some(first) = script.first() else { return };
    let mode = if first & 1 == 0 { NodeMode::Router } else { NodeMode::Peer };
    let mut config = NodeConfig::new(zid(7), mode);
    config.limits = LIMITS;
    config.gossip = GossipConfig { multihop: first & 2 != 0, ..GossipConfig::default() };
    config.locators = vec![Text::from("tcp/10.0.0.1:7447")];
    config.transport_weights.insert(zid(3), 30);
    let mut node = Node::new(config);
    let mut now = Duration::from_secs(1);
    let mut up = BTreeSet::new();
    let mut at = 1;
    while let [what, face, len, rest @ ..] = &script[at..] {
        let len = rest.len().min(usize::from(*len));
        let bytes = script.slice(at + 3..at + 3 + len);
        at += 3 + len;
        now += Duration::from_millis(u64::from(what >> 4) * 50);
        let clock = Now::at(now);
        let id = FaceId(1 + u32::from(*face) % FACES);
        let message = match what & 15 {
            0 => {
                node.handle_timeout(clock);
                None
            }
            1 => {
                let byte = bytes.first().copied().unwrap_or(*face);
                let whatami = [WhatAmI::Router, WhatAmI::Peer, WhatAmI::Client][usize::from(byte) % 3];
                let kind = match byte >> 4 {
                    0 => FaceKind::Local,
                    1 => FaceKind::Group,
                    2 => FaceKind::Member { group: FaceId(1) },
                    _ => FaceKind::Unicast,
                };
                node.handle_face_up(clock, id, Remote { zid: zid(*face), whatami }, kind);
                up.insert(id);
                None
            }
            2 => {
                node.handle_face_down(clock, id);
                up.remove(&id);
                None
            }
            3 => {
                node.set_locators(clock, vec![Text::from(format!("tcp/10.0.0.{face}:1"))]);
                None
            }
            4..=7 => NetworkMessage::decode(&mut Reader::new(&bytes)).ok(),
            8..=10 => Some(link_state(&bytes)),
            _ => Some(message(&bytes)),
        };
        if let Some(message) = message.filter(|_| up.contains(&id))
            && node.handle_message(clock, id, message, Reliability::Reliable).is_err()
        {
            node.handle_face_down(clock, id);
            up.remove(&id);
        }
        let mut said = 0;
        while let Some((to, message, _)) = node.poll_transmit() {
            assert!(up.contains(&to), "{to:?} is gone");
            said += 1;
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let bytes = Bytes::from(bytes);
            assert!(NetworkMessage::decode(&mut Reader::new(&bytes)).is_ok(), "we say what can be read");
        }
        assert!(said <= MOST_AT_ONCE);
        while node.poll_event().is_some() {}
        node.check_bounds();
    }
    for face in up {
        node.handle_face_down(Now::at(now), face);
    }
    while node.poll_transmit().is_some() {}
    node.handle_timeout(Now::at(now + Duration::from_secs(7200)));
    node.check_nothing_left();
}

/// A link-state list about routers or peers: each byte gives a record.
fn link_state(bytes: &[u8]) -> NetworkMessage {
    let records = bytes.chunks(4).map(|chunk| {
        let byte = |at: usize| chunk.get(at).copied().unwrap_or(0);
        let (psid, sn, named) = (byte(0) & 15, byte(1), byte(0) & 16 == 0);
        let links: Vec<u64> =
            (0..8).filter(|bit| byte(2) & (1 << bit) != 0).map(|bit| bit + u64::from(byte(3) & 8)).collect();
        LinkState {
            psid: psid.into(),
            sn: sn.into(),
            zid: named.then(|| zid(if psid == 0 { byte(3) } else { psid })),
            whatami: (byte(0) & 32 != 0).then_some(WhatAmI::Peer),
            locators: (byte(0) & 64 != 0).then(|| vec![Text::from("tcp/10.0.0.9:1")]),
            gateway: byte(0) & 128 != 0,
            weights: (byte(3) & 16 != 0).then(|| vec![u16::from(sn); links.len()]),
            links,
        }
    });
    let list = LinkStateList(records.collect());
    NetworkMessage::Oam(Oam::new(Oam::LINK_STATE, ExtBody::ZBuf(list.encode())))
}

/// Makes a message with known keys and small numbers, so that many of the messages refer to each other.
fn message(bytes: &[u8]) -> NetworkMessage {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let (id, node_id) = (u32::from(byte(1) % 5), u16::from(byte(2) % 8));
    let text = KEYS[usize::from(byte(3)) % KEYS.len()];
    let key = match byte(3) >> 5 {
        0 => WireExpr { scope: 1, mapping: Mapping::Sender, suffix: Text::from("/x") },
        _ => WireExpr::full(text),
    };
    let declare = |body| {
        let interest_id = (byte(4) & 1 != 0).then_some(id);
        NetworkMessage::Declare(Declare { node_id, ..Declare::new(interest_id, body) })
    };
    let info = QueryableInfo { complete: byte(4) & 2 != 0, distance: u16::from(byte(4)) };
    let ext = (byte(4) & 4 != 0).then(|| key.clone());
    match byte(0) % 16 {
        0 => declare(Declaration::KeyExpr { id: 1, key: WireExpr::full(text) }),
        1 | 2 => declare(Declaration::Subscriber { id, key }),
        3 => declare(Declaration::Queryable { id, key, info }),
        4 => declare(Declaration::Token { id, key }),
        5 => declare(Declaration::UndeclareSubscriber { id, key: ext }),
        6 => declare(Declaration::UndeclareQueryable { id, key: ext }),
        7 => declare(Declaration::UndeclareToken { id, key: ext }),
        8 => declare(Declaration::Final),
        9 => declare(Declaration::UndeclareKeyExpr { id: 1 }),
        10 => {
            let mode = [InterestMode::Current, InterestMode::Future, InterestMode::CurrentFuture]
                [usize::from(byte(4)) % 3];
            let options = [
                InterestOptions::SUBSCRIBERS,
                InterestOptions::QUERYABLES,
                InterestOptions::TOKENS,
                InterestOptions::AGGREGATE,
            ];
            let options = options.into_iter().enumerate().filter(|(bit, _)| byte(5) & (1 << bit) != 0);
            let options = options.fold(InterestOptions::default(), |all, (_, option)| all | option);
            NetworkMessage::Interest(Interest::new(id, mode, options, (byte(5) & 16 != 0).then_some(key)))
        }
        11 => NetworkMessage::Interest(Interest::finished(id)),
        12 => {
            let put = PushBody::Put(Put::new(Bytes::from_static(b"x")));
            NetworkMessage::Push(Push { node_id, ..Push::new(key, put) })
        }
        13 => {
            let target = [QueryTarget::All, QueryTarget::AllComplete, QueryTarget::BestMatching];
            let target = target[usize::from(byte(4)) % 3];
            let timeout_ms = Some(u64::from(byte(5)));
            let request = Request::new(u32::from(byte(1)), key, Query::default());
            NetworkMessage::Request(Request { node_id, target, timeout_ms, ..request })
        }
        14 => NetworkMessage::Response(Response {
            id,
            key,
            qos: crate::zenoh::Qos::REQUEST,
            timestamp: None,
            responder: None,
            ts_stack: None,
            body: ResponseBody::Err(crate::zenoh::wire::Err::default()),
        }),
        _ => NetworkMessage::ResponseFinal(ResponseFinal {
            id,
            qos: crate::zenoh::Qos::REQUEST,
            timestamp: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_comes(data in prop::collection::vec(any::<u8>(), 0..400)) {
            zenoh_node(&data);
        }

        #[test]
        fn whatever_faces_do(
            first in any::<u8>(),
            steps in prop::collection::vec((any::<u8>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..9)), 0..120),
        ) {
            // All faces are up at first, each in another role.
            let mut script = vec![first];
            for face in 0..8 {
                script.extend([1, face, 1, 0x30 + first.wrapping_add(face) % 3]);
            }
            for (what, face, piece) in steps {
                script.extend([what, face, piece.len() as u8]);
                script.extend(piece);
            }
            zenoh_node(&script);
        }
    }
}
