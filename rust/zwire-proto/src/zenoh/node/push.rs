//! PUSH: one copy to each face that subscribes (`zenoh-behaviour` 3.3, 5.3).

use super::{
    FaceError, FaceId, Node, NodeConfig, NodeStats,
    face::{Region, relays},
    routes::Route,
    tables::Kind,
};
use crate::{
    Now,
    zenoh::{
        Hlc, KeyExpr, Reliability,
        wire::{NetworkMessage, Push, PushBody, WireExpr},
    },
};
use std::collections::VecDeque;

impl Node {
    /// `message` is a PUSH. It is not taken apart: moving it is a good part of what passing it on costs.
    pub(super) fn handle_push(
        &mut self,
        now: Now,
        from: FaceId,
        mut message: NetworkMessage,
        reliability: Reliability,
    ) -> Result<(), FaceError> {
        let Some(face) = self.faces.get_mut(&from) else { return Err(FaceError::UnknownFace) };
        let NetworkMessage::Push(push) = &mut message else { return Ok(()) };
        self.stats.pushes_in += 1;
        if !stamp(now, &mut self.hlc, &self.config, &mut self.stats, &mut push.body) {
            return Ok(());
        }
        // Only routers say whose tree a message follows.
        let node_id = if face.region == Region::Routers { push.node_id } else { 0 };
        if let Some(route) = face.cache.get(self.version, node_id, &push.key) {
            self.stats.route_hits += 1;
            send(&mut self.out, &mut self.stats, message, &route.targets, reliability);
            return Ok(());
        }
        self.stats.route_misses += 1;
        let Some(key) = face.resolve_owned(&push.key) else {
            self.stats.invalid_keys += 1;
            return Ok(());
        };
        let wire = push.key.clone();
        let targets = self.data_route(from, &key, &wire);
        send(&mut self.out, &mut self.stats, message, &targets, reliability);
        if let Some(face) = self.faces.get_mut(&from) {
            face.cache.insert(node_id, &wire, Route { version: self.version, targets });
        }
        Ok(())
    }

    /// The faces that data on `key` from `from` goes to, and how the key is written there if not as in
    /// `wire`.
    fn data_route(&self, from: FaceId, key: &KeyExpr, wire: &WireExpr) -> Box<[(FaceId, Option<WireExpr>)]> {
        let Some(source) = self.faces.get(&from) else { return Box::default() };
        let mut targets: Vec<FaceId> =
            self.tables.matching(key).flat_map(|r| r.entities(Kind::Subscriber)).map(|(id, _)| id).collect();
        targets
            .extend(self.faces.iter().filter(|(_, f)| f.may_want(Kind::Subscriber, key)).map(|(id, _)| *id));
        targets.sort_unstable();
        targets.dedup();
        // Only a full key means the same to everybody.
        let as_it_came = |out: WireExpr| if wire.scope == 0 && out == *wire { None } else { Some(out) };
        targets
            .into_iter()
            .filter_map(|id| self.faces.get(&id).map(|face| (id, face)))
            .filter(|target| relays(self.config.mode, (from, source), *target))
            .map(|(id, face)| (id, as_it_came(face.wire_expr(key))))
            .collect()
    }
}

/// Hands one copy to each target. The last one gets the original.
fn send(
    out: &mut VecDeque<(FaceId, NetworkMessage, Reliability)>,
    stats: &mut NodeStats,
    mut message: NetworkMessage,
    targets: &[(FaceId, Option<WireExpr>)],
    reliability: Reliability,
) {
    let (Some(((last, last_key), others)), NetworkMessage::Push(push)) = (targets.split_last(), &mut message)
    else {
        stats.pushes_unmatched += 1;
        return;
    };
    // NodeId is for routers, and the timestamp of the network message is not passed on.
    push.node_id = 0;
    push.timestamp = None;
    stats.pushes_out += targets.len() as u64;
    for (to, key) in others {
        let copy = Push {
            key: key.as_ref().unwrap_or(&push.key).clone(),
            qos: push.qos,
            timestamp: None,
            node_id: 0,
            ts_stack: push.ts_stack.clone(),
            body: push.body.clone(),
        };
        out.push_back((*to, NetworkMessage::Push(copy), reliability));
    }
    if let Some(key) = last_key {
        push.key = key.clone();
    }
    out.push_back((*last, message, reliability));
}

/// `zenoh-behaviour` 3.3: a PUT without timestamp gets one; a timestamp of the future is replaced, or
/// the message dropped; a DEL is left alone. Returns whether the message goes on.
fn stamp(
    now: Now,
    hlc: &mut Option<Hlc>,
    config: &NodeConfig,
    stats: &mut NodeStats,
    body: &mut PushBody,
) -> bool {
    let (Some(hlc), PushBody::Put(put)) = (hlc, body) else { return true };
    match &put.timestamp {
        None => put.timestamp = Some(hlc.new_timestamp(now)),
        Some(timestamp) => {
            if hlc.update(timestamp, now).is_err() {
                if config.drop_future_timestamp {
                    stats.future_dropped += 1;
                    return false;
                }
                stats.future_replaced += 1;
                put.timestamp = Some(hlc.new_timestamp(now));
            }
        }
    }
    true
}
