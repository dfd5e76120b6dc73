//! REQUEST, RESPONSE and RESPONSE_FINAL (`zenoh-behaviour` 3.9, 5.4).
//!
//! Each incoming request becomes a query with one branch per target face. A branch ends with the face's
//! RESPONSE_FINAL, at its deadline, or with the face; the last one ends the query, with exactly one
//! RESPONSE_FINAL to the querier. A budget of replies that is used up ends it as well; later replies are dropped.

use super::{
    FaceError, FaceId, Node,
    face::{Face, Pending, Region},
    ids::RouterIx,
    push::stamp_route,
    routes::Target,
    tables::merge,
    waiting::RoutedQuery,
};
use crate::{
    Now,
    zenoh::{
        KeyExpr, Qos, Reliability,
        entity::EntityKind,
        wire::{
            Err as ErrBody, NetworkMessage, QueryTarget, QueryableInfo, Request, ResponderId, Response,
            ResponseBody, ResponseFinal, WireExpr,
        },
    },
};
use bytes::Bytes;
use core::{num::NonZeroU32, time::Duration};
use std::collections::{BTreeMap, BTreeSet};

/// Payload of the error of a branch that timed out.
const TIMEOUT: &[u8] = b"Timeout";

impl Node {
    pub(super) fn handle_request(
        &mut self,
        now: Now,
        from: FaceId,
        mut request: Request,
        reliability: Reliability,
    ) -> Result<(), FaceError> {
        self.stats.requests_in += 1;
        let Some(face) = self.faces.get(&from) else { return Err(FaceError::UnknownFace) };
        let foreign = face.remote.zid != self.config.zid;
        stamp_route(now, foreign, &mut self.stamps, &mut request.ts_stack);
        let bound = self.config.limits.queries;
        if face.queries.len() >= bound {
            return Err(FaceError::TooManyQueries { bound });
        }
        let node_id = if face.region == Region::Routers { request.node_id } else { 0 };
        let targets = match face.resolve(&request.key) {
            Some(key) => self.query_targets(from, node_id, &key, request.target),
            None => {
                self.stats.invalid_keys += 1;
                Vec::new()
            }
        };
        let timeout = match request.timeout_ms {
            // Zero is not a usable timeout.
            None | Some(0) => self.config.query_timeout,
            Some(ms) => Duration::from_millis(ms),
        };
        let deadline = now.mono.saturating_add(timeout);
        let number = self.queries.next;
        self.queries.next += 1;
        let mut query = RoutedQuery {
            source: from,
            rid: request.id,
            qos: request.qos,
            budget: request.budget.map(NonZeroU32::get),
            branches: BTreeSet::new(),
        };
        for Target { face: to, node_id, key, .. } in targets {
            let (Some(key), Some(face)) = (key, self.faces.get_mut(&to)) else { continue };
            // A link of narrow ids with all of them pending takes no further request.
            let Some(rid) = face.new_rid() else { continue };
            face.pending.insert(rid, Pending { query: number, deadline });
            self.queries.deadlines.insert((deadline, to, rid));
            query.branches.insert((to, rid));
            self.stats.requests_out += 1;
            let copy = Request { id: rid, key, timestamp: None, node_id, ..request.clone() };
            self.out.push_back((to, NetworkMessage::Request(copy), reliability));
        }
        if query.branches.is_empty() {
            self.send_final(from, request.id, request.qos);
            return Ok(());
        }
        self.queries.open.insert(number, query);
        if let Some(face) = self.faces.get_mut(&from) {
            face.queries.insert(number);
        }
        Ok(())
    }

    /// The target faces, and the wire form of the key there.
    fn query_targets(
        &mut self,
        from: FaceId,
        node_id: u16,
        key: &KeyExpr,
        target: QueryTarget,
    ) -> Vec<Target> {
        let way = self.way(from, node_id);
        let Some(source) = self.faces.get(&from) else { return Vec::new() };
        // Per face the merged info; `None` if the declarations of the face are not complete.
        let mut candidates: BTreeMap<FaceId, Option<QueryableInfo>> = BTreeMap::new();
        let mut routers: Vec<(RouterIx, QueryableInfo)> = Vec::new();
        let add = |candidates: &mut BTreeMap<FaceId, Option<QueryableInfo>>, id, info| {
            let merged = candidates.entry(id).or_default();
            *merged = Some(merged.map_or(info, |old| merge(old, info)));
        };
        for resource in self.tables.matching(key) {
            let includes = resource.key.includes(key);
            let seen = |info: QueryableInfo| QueryableInfo { complete: info.complete && includes, ..info };
            for (id, info) in resource.entities(EntityKind::Queryable) {
                add(&mut candidates, id, seen(info));
            }
            routers
                .extend(resource.routers(EntityKind::Queryable).map(|(router, info)| (router, seen(info))));
        }
        for (id, _) in self.faces.iter().filter(|(_, face)| face.may_want(EntityKind::Queryable, key)) {
            candidates.entry(*id).or_default();
        }
        candidates.retain(|id, _| {
            let face = self.faces.get(id);
            face.is_some_and(|face| self.passes(way, (from, source), (*id, face)))
        });
        // For a router the distance of the router counts, not the one it declares for its queryables.
        let mut trees: BTreeMap<FaceId, u16> = BTreeMap::new();
        for (router, info) in routers {
            if let Some((hop, root)) = self.hop(from, way, router) {
                let info = QueryableInfo { distance: self.network.distance(router), ..info };
                add(&mut candidates, hop, info);
                trees.insert(hop, root);
            }
        }
        let mut candidates: Vec<(FaceId, &Face, Option<QueryableInfo>)> =
            candidates.into_iter().filter_map(|(id, info)| Some((id, self.faces.get(&id)?, info))).collect();
        match target {
            QueryTarget::All => {}
            QueryTarget::AllComplete => candidates.retain(|(_, _, info)| info.is_none_or(|i| i.complete)),
            QueryTarget::BestMatching => {
                // In each region the nearest complete one, or all.
                for region in [Region::Clients, Region::Peers, Region::Routers] {
                    let nearest = candidates
                        .iter()
                        .filter(|(_, face, _)| face.region == region)
                        .filter_map(|(id, _, info)| info.filter(|i| i.complete).map(|i| (i.distance, *id)))
                        .min();
                    if let Some((_, nearest)) = nearest {
                        candidates.retain(|(id, face, _)| face.region != region || *id == nearest);
                    }
                }
            }
        }
        let target = |(face, at, _): (FaceId, &Face, _)| Target {
            face,
            is_own: at.remote.zid == self.config.zid,
            node_id: trees.get(&face).copied().unwrap_or(0),
            key: Some(at.wire_expr(key)),
        };
        candidates.into_iter().map(target).collect()
    }

    pub(super) fn handle_response(
        &mut self,
        now: Now,
        from: FaceId,
        mut response: Response,
        reliability: Reliability,
    ) -> Result<(), FaceError> {
        let Some(face) = self.faces.get(&from) else { return Err(FaceError::UnknownFace) };
        let foreign = face.remote.zid != self.config.zid;
        stamp_route(now, foreign, &mut self.stamps, &mut response.ts_stack);
        let number = face.pending.get(&response.id).map(|pending| pending.query);
        let Some((number, query)) = number.and_then(|n| Some((n, self.queries.open.get_mut(&n)?))) else {
            self.stats.unknown_requests += 1;
            return Ok(());
        };
        // Keys of responses are always full strings; only an error may come without one.
        response.key = match face.resolve(&response.key) {
            Some(key) => WireExpr::full(key.into_text()),
            None if response.key.is_empty() && matches!(response.body, ResponseBody::Err(_)) => {
                WireExpr::EMPTY
            }
            None => {
                self.stats.invalid_keys += 1;
                return Ok(());
            }
        };
        response.id = query.rid;
        response.timestamp = None;
        self.stats.responses += 1;
        self.out.push_back((query.source, NetworkMessage::Response(response), reliability));
        if let Some(left) = &mut query.budget {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.end_query(number);
            }
        }
        Ok(())
    }

    pub(super) fn handle_response_final(&mut self, from: FaceId, rid: u32) -> Result<(), FaceError> {
        if !self.faces.contains_key(&from) {
            return Err(FaceError::UnknownFace);
        }
        if !self.end_branch(from, rid) {
            self.stats.unknown_requests += 1;
        }
        Ok(())
    }

    /// Ends the branches that timed out, each with an error.
    pub(super) fn expire_queries(&mut self, now: Now) {
        while let Some((deadline, face, rid)) = self.queries.deadlines.first().copied() {
            if deadline > now.mono {
                return;
            }
            let query = self
                .faces
                .get(&face)
                .and_then(|f| Some((f.remote.zid, self.queries.open.get(&f.pending.get(&rid)?.query)?)));
            if let Some((zid, query)) = query {
                let error = Response {
                    id: query.rid,
                    key: WireExpr::EMPTY,
                    qos: query.qos,
                    timestamp: None,
                    responder: Some(ResponderId { zid, eid: 0 }),
                    ts_stack: None,
                    body: ResponseBody::Err(ErrBody {
                        payload: Bytes::from_static(TIMEOUT).into(),
                        ..ErrBody::default()
                    }),
                };
                let source = query.source;
                self.send(source, NetworkMessage::Response(error));
                self.stats.query_timeouts += 1;
            }
            self.end_branch(face, rid);
            self.queries.deadlines.remove(&(deadline, face, rid));
        }
    }

    pub(super) fn drop_queries_of(&mut self, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let asked: Vec<u32> = face.pending.keys().copied().collect();
        let own = core::mem::take(&mut face.queries);
        for number in own {
            self.take_query(number);
        }
        for rid in asked {
            self.end_branch(id, rid);
        }
    }

    fn take_query(&mut self, number: u64) -> Option<RoutedQuery> {
        let query = self.queries.open.remove(&number)?;
        for (to, rid) in &query.branches {
            if let Some(pending) = self.faces.get_mut(to).and_then(|face| face.pending.remove(rid)) {
                self.queries.deadlines.remove(&(pending.deadline, *to, *rid));
            }
        }
        Some(query)
    }

    /// Ends a query before its branches: later replies are dropped.
    fn end_query(&mut self, number: u64) {
        let Some(query) = self.take_query(number) else { return };
        if let Some(face) = self.faces.get_mut(&query.source) {
            face.queries.remove(&number);
        }
        self.send_final(query.source, query.rid, query.qos);
    }

    /// Ends one branch, and with the last one the query. Returns whether there was one.
    fn end_branch(&mut self, face: FaceId, rid: u32) -> bool {
        let Some(pending) = self.faces.get_mut(&face).and_then(|f| f.pending.remove(&rid)) else {
            return false;
        };
        self.queries.deadlines.remove(&(pending.deadline, face, rid));
        let Some(query) = self.queries.open.get_mut(&pending.query) else { return false };
        query.branches.remove(&(face, rid));
        if query.branches.is_empty() {
            self.end_query(pending.query);
        }
        true
    }

    fn send_final(&mut self, to: FaceId, rid: u32, qos: Qos) {
        self.send(to, NetworkMessage::ResponseFinal(ResponseFinal { id: rid, qos, timestamp: None }));
    }
}
