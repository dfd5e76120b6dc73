//! Queries to this session's queryables (`zenoh-behaviour` 3.8).

use super::{
    Session, SessionResult,
    error::SessionError,
    limits::MAX_PENDING_QUERIES,
    pending::{Asked, Asker, OpenQuery, ids_of},
    sample::Sample,
    types::{
        EntityId, Event, Get, GetId, InboundQuery, Locality, QueryId, QueryReply, QueryReplyBody, Reply,
        ReplyError,
    },
};
use crate::{
    Now,
    zenoh::{
        KeyExpr, Parameters, Qos, Reliability,
        wire::{
            Err as WireErr, NetworkMessage, QueryTarget, Reply as WireReply, Request, ResponderId, Response,
            ResponseBody, ResponseFinal, WireExpr,
        },
    },
};

impl Session {
    /// Handles REQUEST: one query for each matching queryable, or the end at once.
    pub(super) fn handle_request(&mut self, now: Now, mut request: Request) {
        let stamps = self.arrive(now, request.ts_stack.take());
        self.stats.requests_received += 1;
        let Request { id, qos, target, query, .. } = request;
        let key = self.north.as_ref().and_then(|north| north.keys.resolve(&request.key));
        let Some(key) = key.and_then(|key| self.inward(&key)) else {
            self.stats.dropped.in_bad_key += 1;
            return self.send_final(id, qos);
        };
        // The key is kept until all have finished.
        let key = key.unshared();
        let asked = self.queryables_for(&key, target, Locality::remote);
        if asked.is_empty() {
            return self.send_final(id, qos);
        }
        let open = self.queries.next();
        self.queries.requests.insert(open, OpenQuery { id, qos, unfinished: asked.len() });
        let accept_any_key = Parameters::new(query.parameters.clone()).accepts_any_key();
        let (parameters, body, attachment) = (query.parameters, query.body, query.attachment);
        let source_info = query.source_info;
        let get =
            Get { parameters, body, attachment, source_info, qos, accept_any_key, stamps, ..Get::new(key) };
        self.deliver_query(asked, Asker::North(open), &get);
    }

    /// Runs the branch of a get within this session.
    pub(super) fn ask_locally(&mut self, now: Now, id: GetId, get: Get) {
        let stamps = self.stay(now, get.stamps.as_deref());
        let asked = self.queryables_for(&get.key, get.target, Locality::local);
        if !asked.is_empty() {
            self.asked_locally(id, asked.len());
            self.deliver_query(asked, Asker::Local(id), &Get { stamps, ..get });
        }
    }

    /// The queryables that a query goes to; none if too many queries wait already.
    fn queryables_for(
        &mut self,
        key: &KeyExpr,
        target: QueryTarget,
        from: fn(Locality) -> bool,
    ) -> Vec<EntityId> {
        let all = self.entities.queryables.iter();
        let asked = all.filter(|(_, q)| from(q.origin) && q.answers(key, target));
        let asked: Vec<EntityId> = asked.map(|(&queryable, _)| queryable).collect();
        if !asked.is_empty() && self.queries.asked.len() + asked.len() > MAX_PENDING_QUERIES {
            self.stats.dropped.request_refused += 1;
            return Vec::new();
        }
        asked
    }

    fn deliver_query(&mut self, queryables: Vec<EntityId>, asker: Asker, query: &Get) {
        let &Get { qos, accept_any_key, source_info, .. } = query;
        for queryable in queryables {
            self.stats.queries_delivered += 1;
            let id = QueryId(self.queries.next());
            let key = query.key.clone();
            self.queries.asked.insert(id, Asked { asker, queryable, key, any_key: accept_any_key, qos });
            let query = InboundQuery {
                id,
                key: query.key.clone(),
                parameters: query.parameters.clone(),
                body: query.body.clone(),
                attachment: query.attachment.clone(),
                source_info,
                qos,
                accept_any_key,
                stamps: query.stamps.clone(),
            };
            self.events.push_back(Event::Query { queryable, query });
        }
    }

    /// Answers a query; any number of times until [`finish`](Self::finish).
    ///
    /// # Errors
    /// The query is over, or the key of the reply does not match the query.
    pub fn reply(&mut self, now: Now, query: QueryId, reply: QueryReply) -> SessionResult<()> {
        self.check_open()?;
        let Some(asked) = self.queries.asked.get(&query) else {
            return Err(SessionError::QueryOver { id: query });
        };
        if let QueryReplyBody::Sample { key, .. } = &reply.body
            && !asked.any_key
            && !key.intersects(&asked.key)
        {
            return Err(SessionError::ReplyKey { reply: key.clone(), query: asked.key.clone() });
        }
        let qos = reply_qos(asked.qos, reply.express);
        let replier = Some(ResponderId { zid: self.config.zid, eid: asked.queryable.0 });
        let (asker, asked_key) = (asked.asker, asked.key.clone());
        match asker {
            Asker::Local(get) => {
                let stamps = self.stay(now, reply.stamps.as_deref());
                let result = match reply.body {
                    QueryReplyBody::Sample { key, body } => {
                        Ok(Sample::new(key, body, qos, Reliability::Reliable).stamped(stamps))
                    }
                    QueryReplyBody::Err(error) => Err(ReplyError { stamps, ..error }),
                };
                self.handle_reply(get, Reply { result, replier });
            }
            Asker::North(open) => {
                let Some(&OpenQuery { id, .. }) = self.queries.requests.get(&open) else { return Ok(()) };
                let (key, body) = match reply.body {
                    QueryReplyBody::Sample { key, body } => (key, ResponseBody::Reply(WireReply::new(body))),
                    QueryReplyBody::Err(error) => {
                        let (encoding, payload) = (error.encoding, error.payload);
                        (asked_key, ResponseBody::Err(WireErr { encoding, payload, ..WireErr::default() }))
                    }
                };
                // Keys of replies are always in full (`zenoh-behaviour` 3.8).
                let key = WireExpr::full(self.outward(key)?.outer.into_text());
                let responder = replier;
                self.send(NetworkMessage::Response(Response {
                    id,
                    key,
                    qos,
                    timestamp: None,
                    responder,
                    ts_stack: reply.stamps.map(|stamps| stamps.leaving()),
                    body,
                }));
            }
        }
        Ok(())
    }

    /// Finishes a query. No effect on a finished one.
    pub fn finish(&mut self, _now: Now, query: QueryId) {
        let Some(asked) = self.queries.asked.remove(&query) else { return };
        match asked.asker {
            Asker::Local(get) => self.local_done(get),
            Asker::North(request) => {
                let Some(open) = self.queries.requests.get_mut(&request) else { return };
                open.unfinished -= 1;
                if open.unfinished == 0 {
                    let OpenQuery { id, qos, .. } = *open;
                    self.queries.requests.remove(&request);
                    self.send_final(id, qos);
                }
            }
        }
    }

    fn send_final(&mut self, id: u32, qos: Qos) {
        self.send(NetworkMessage::ResponseFinal(ResponseFinal { id, qos, timestamp: None }));
    }

    pub(super) fn finish_queries_of(&mut self, now: Now, queryable: EntityId) {
        for id in ids_of(&self.queries.asked, |asked| asked.queryable == queryable) {
            self.finish(now, id);
        }
    }

    pub(super) fn finish_all_queries(&mut self, now: Now) {
        for id in ids_of(&self.queries.asked, |_| true) {
            self.finish(now, id);
        }
    }

    pub(super) fn queries_lose_link(&mut self) {
        self.queries.requests.clear();
        self.queries.asked.retain(|_, asked| matches!(asked.asker, Asker::Local(_)));
    }
}

/// The QoS of a reply: that of the query, of which only express may differ.
pub(super) fn reply_qos(qos: Qos, express: Option<bool>) -> Qos {
    match express {
        Some(express) if express != qos.express() => Qos::new(qos.priority(), qos.congestion(), express),
        _ => qos,
    }
}
