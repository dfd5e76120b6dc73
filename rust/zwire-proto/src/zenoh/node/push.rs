//! PUSH: one copy to each face that subscribes (`zenoh-behaviour` 3.3, 5.3).

use super::{
    FaceError, FaceId, Node, NodeConfig, NodeEvent, NodeStats,
    event::Events,
    face::Region,
    ids::RouterIx,
    routers::RouterWay,
    routes::{Route, Target},
};
use crate::{
    Now,
    zenoh::{
        Hlc, KeyExpr, Reliability, Timestamp,
        entity::EntityKind,
        wire::{NetworkMessage, PushBody, TsRecord, TsStack, WireExpr},
    },
};
use std::collections::BTreeSet;

impl Node {
    /// Runs [`Self::forward`] into the queue of outputs.
    pub(super) fn handle_push(
        &mut self,
        now: Now,
        from: FaceId,
        mut message: NetworkMessage,
        reliability: Reliability,
    ) -> Result<(), FaceError> {
        let mut out = core::mem::take(&mut self.out);
        let before = out.len();
        let result = self.forward(now, from, &mut message, |to, message| {
            out.push_back((to, message.clone(), reliability));
        });
        // In the order of faces, like all outputs.
        if let Some(copies) = out.make_contiguous().get_mut(before..) {
            copies.reverse();
        }
        self.out = out;
        result
    }

    /// Handles a PUSH of a face. Same as [`Self::handle_message`], but the message is given to each
    /// target face at once, without a copy and without a place in the queue. For drivers that have
    /// drained [`Self::poll_transmit`].
    ///
    /// Faces come in descending order. The message given to the lowest, which comes last, may be
    /// emptied.
    ///
    /// # Errors
    /// An error that closes the connection of the face; see [`FaceError`].
    #[inline]
    pub fn forward(
        &mut self,
        now: Now,
        from: FaceId,
        message: &mut NetworkMessage,
        give: impl FnMut(FaceId, &mut NetworkMessage),
    ) -> Result<(), FaceError> {
        let Some(face) = self.faces.get_mut(&from) else { return Err(FaceError::UnknownFace) };
        let NetworkMessage::Push(push) = &mut *message else { return Ok(()) };
        self.stats.pushes_in += 1;
        // A member with a link of its own sends the message there as well.
        if face.in_group.twice && face.region == Region::Members {
            self.stats.ignored += 1;
            return Ok(());
        }
        if !stamp(now, from, &mut self.hlc, &self.config, (&mut self.stats, &mut self.events), &mut push.body)
        {
            return Ok(());
        }
        let foreign = face.remote.zid != self.config.zid;
        stamp_route(now, foreign, &mut self.stamps, &mut push.ts_stack);
        // A DEL without a timestamp crosses links as it came. The own session gets it with the time of its arrival:
        // later, a storage there could not tell whether it came before a PUT.
        let arrived = match (&mut self.hlc, &push.body) {
            (Some(hlc), PushBody::Del(del)) if del.timestamp.is_none() && foreign => {
                Some(hlc.new_timestamp(now))
            }
            _ => None,
        };
        // Only routers name the tree that a message follows.
        let node_id = if face.region == Region::Routers { push.node_id } else { 0 };
        if let Some(route) = face.cache.get(self.version, node_id, &push.key) {
            self.stats.route_hits += 1;
            hand_out(&mut self.stats, message, (&route.targets, arrived), give);
            return Ok(());
        }
        let wire = push.key.clone();
        self.tables.take_work();
        let targets = self.work_out(from, node_id, &wire);
        self.charge_matching(now, from);
        if let Some(targets) = targets {
            hand_out(&mut self.stats, message, (&targets, arrived), give);
            if let Some(face) = self.faces.get_mut(&from) {
                face.cache.insert(node_id, &wire, Route { version: self.version, targets });
            }
        }
        Ok(())
    }

    /// The targets of a key without a cached route. `None`: invalid key.
    // Kept apart from the path of cached keys, which is taken a thousand times as often.
    #[cold]
    #[inline(never)]
    fn work_out(&mut self, from: FaceId, node_id: u16, wire: &WireExpr) -> Option<Box<[Target]>> {
        self.stats.route_misses += 1;
        let Some(key) = self.faces.get(&from)?.resolve_owned(wire) else {
            self.stats.invalid_keys += 1;
            return None;
        };
        let way = self.way(from, node_id);
        Some(self.data_route(from, way, &key, wire))
    }

    /// The target faces, and the wire form of the key there unless it is `wire`.
    fn data_route(&mut self, from: FaceId, way: RouterWay, key: &KeyExpr, wire: &WireExpr) -> Box<[Target]> {
        let Some(source) = self.faces.get(&from) else { return Box::default() };
        let mut faces: Vec<FaceId> = Vec::new();
        let mut routers: Vec<RouterIx> = Vec::new();
        for resource in self.tables.matching(key) {
            faces.extend(resource.entities(EntityKind::Subscriber).map(|(id, _)| id));
            routers.extend(resource.routers(EntityKind::Subscriber).map(|(router, _)| router));
        }
        faces.extend(
            self.faces.iter().filter(|(_, f)| f.may_want(EntityKind::Subscriber, key)).map(|(id, _)| *id),
        );
        faces.sort_unstable();
        faces.dedup();
        let reached = |id: &FaceId| {
            let face = self.faces.get(id);
            face.is_some_and(|face| self.passes(way, (from, source), (*id, face)))
        };
        faces.retain(reached);
        let mut targets: Vec<(FaceId, u16)> = faces.into_iter().map(|id| (id, 0)).collect();
        if !routers.is_empty() {
            routers.sort_unstable();
            routers.dedup();
            let hops = routers.into_iter().filter_map(|to| self.hop(from, way, to));
            let hops: BTreeSet<(FaceId, u16)> = hops.collect();
            targets.extend(hops);
            targets.sort_unstable();
        }
        // Only a full key has the same meaning on all faces.
        let as_it_came = |out: WireExpr| if wire.scope == 0 && out == *wire { None } else { Some(out) };
        let targets = targets.into_iter().filter_map(|(id, node_id)| {
            let face = self.faces.get(&id)?;
            let is_own = face.remote.zid == self.config.zid;
            Some(Target { face: id, is_own, node_id, key: as_it_came(face.wire_expr(key)) })
        });
        targets.collect()
    }
}

/// Gives the message to each target, the lowest face last. The own session gets a DEL without timestamp as of `arrived`.
#[inline]
fn hand_out(
    stats: &mut NodeStats,
    message: &mut NetworkMessage,
    (targets, arrived): (&[Target], Option<Timestamp>),
    mut give: impl FnMut(FaceId, &mut NetworkMessage),
) {
    if targets.is_empty() {
        stats.pushes_unmatched += 1;
        return;
    }
    stats.pushes_out += targets.len() as u64;
    // The original key, while that of a face is in its place.
    let mut came = None;
    for target in targets.iter().rev() {
        let NetworkMessage::Push(push) = &mut *message else { return };
        // The timestamp of the network message is not forwarded.
        push.timestamp = None;
        push.node_id = target.node_id;
        if let Some(key) = &target.key {
            let before = core::mem::replace(&mut push.key, key.clone());
            came.get_or_insert(before);
        } else if let Some(came) = came.take() {
            push.key = came;
        }
        let arrived = arrived.filter(|_| target.is_own);
        if arrived.is_some() {
            set_time(message, arrived);
        }
        give(target.face, message);
        if arrived.is_some() {
            set_time(message, None);
        }
    }
}

/// Sets the timestamp of a DEL.
fn set_time(message: &mut NetworkMessage, timestamp: Option<Timestamp>) {
    if let NetworkMessage::Push(push) = message
        && let PushBody::Del(del) = &mut push.body
    {
        del.timestamp = timestamp;
    }
}

/// Adds the time of forwarding. Messages of the own session were stamped by the session.
#[inline]
pub(super) fn stamp_route(now: Now, foreign: bool, stamps: &mut Hlc, stack: &mut Option<Box<TsStack>>) {
    if let Some(stack) = stack.as_mut().filter(|_| foreign) {
        stack.stamp(TsStack::ROUTE, || TsRecord::new(TsStack::ROUTE, &stamps.new_timestamp(now)));
    }
}

/// Timestamps (`zenoh-behaviour` 3.3): a PUT without one gets one; a timestamp of the future is
/// replaced, or the message dropped; a DEL is left alone on the wire. Returns whether the message is forwarded.
fn stamp(
    now: Now,
    from: FaceId,
    hlc: &mut Option<Hlc>,
    config: &NodeConfig,
    (stats, events): (&mut NodeStats, &mut Events),
    body: &mut PushBody,
) -> bool {
    let (Some(hlc), PushBody::Put(put)) = (hlc, body) else { return true };
    match &put.timestamp {
        None => put.timestamp = Some(hlc.new_timestamp(now)),
        Some(timestamp) => {
            if let Err(error) = hlc.update(timestamp, now) {
                let (clock, ahead, dropped) = (timestamp.id, error.ahead, config.drop_future_timestamp);
                let event = NodeEvent::ClockAhead { clock, face: from, ahead, dropped };
                events.clock_ahead(now.mono, clock, event);
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
