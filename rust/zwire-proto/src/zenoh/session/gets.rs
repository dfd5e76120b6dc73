//! Open gets: branches, consolidation, timeouts (`zenoh-behaviour` 3.6, 3.7, 3.9).

use super::{
    Session, SessionResult,
    limits::MAX_HELD_REPLY_BYTES,
    pending::{PendingGet, SHORTEST, TIMEOUT, ids_of},
    sample::Sample,
    types::{Event, Get, GetEnd, GetId, Reply, ReplyError},
};
use crate::{
    Now,
    zenoh::{
        Parameters, Reliability,
        entity::EntityKind,
        wire::{
            Consolidation, NetworkMessage, Query, QueryTarget, Request, Response, ResponseBody, ResponseFinal,
        },
    },
};
use bytes::Bytes;

impl Session {
    /// Queries queryables. Replies come as [`Event::Reply`], the end as [`Event::GetDone`].
    ///
    /// # Errors
    /// The session is closed, the key does not fit into the namespace, or there are too many gets.
    pub fn get(&mut self, now: Now, get: Get) -> SessionResult<GetId> {
        let key = self.outward(get.key.clone())?;
        let mut parameters = Parameters::new(get.parameters.clone());
        let any_key = get.accept_any_key || parameters.accepts_any_key();
        let consolidation = match get.consolidation {
            Consolidation::Auto if parameters.contains(Parameters::TIME) => Consolidation::None,
            Consolidation::Auto => Consolidation::Latest,
            other => other,
        };
        // The repliers must know it, too.
        let text = if any_key && !parameters.accepts_any_key() {
            parameters.set_accepts_any_key(true);
            parameters.text().clone()
        } else {
            get.parameters.clone()
        };
        let timeout = get.timeout.unwrap_or(self.config.queries_default_timeout);
        let mut pending = PendingGet::new(key.inner.clone(), consolidation, now, timeout);
        pending.any_key = any_key;
        pending.budget = get.budget.map(core::num::NonZeroU32::get);
        let complete = get.target == QueryTarget::AllComplete;
        if get.destination.remote() {
            if self.north.is_none() {
                pending.end = GetEnd::LinkLost;
            } else if self.may_leave(EntityKind::Queryable, &key.outer, complete) {
                pending.network = true;
            } else {
                pending.end = GetEnd::NoQueryable;
            }
        }
        let network = pending.network;
        let id = self.gets.insert(pending)?;
        if network {
            let query = Query {
                consolidation,
                parameters: text.clone(),
                source_info: get.source_info,
                body: get.body.clone(),
                attachment: get.attachment.clone(),
                extensions: Vec::new(),
            };
            let wire = self.known_wire(&key.outer);
            let mut request = Request::new(id.0, wire, query);
            request.qos = get.qos;
            request.target = get.target;
            request.budget = get.budget;
            request.ts_stack = get.stamps.clone().map(|stamps| stamps.leaving());
            request.timeout_ms = Some(u64::try_from(timeout.max(SHORTEST).as_millis()).unwrap_or(u64::MAX));
            self.send(NetworkMessage::Request(request));
        }
        if get.destination.local() {
            self.ask_locally(now, id, Get { parameters: text, accept_any_key: any_key, ..get });
        }
        self.settle(id);
        Ok(id)
    }

    /// Ends a get; replies held back are dropped. No effect on a finished one.
    pub fn cancel(&mut self, _now: Now, get: GetId) {
        self.end(get, GetEnd::Cancelled);
    }

    pub(super) fn handle_response(&mut self, now: Now, mut response: Response, reliability: Reliability) {
        self.stats.responses_received += 1;
        let id = GetId(response.id);
        // Ignores replies to a get that was not sent, or that was sent on an earlier link.
        let pending =
            self.gets.pending.get_mut(&id).filter(|pending| pending.network && pending.tokens.is_none());
        let Some(pending) = pending else {
            self.stats.dropped.reply_late += 1;
            return;
        };
        // Every node on the way has a timer of its own for the same time; the timeout is reported once.
        if is_timeout(&response) && core::mem::replace(&mut pending.told_timeout, true) {
            self.stats.dropped.reply_late += 1;
            return;
        }
        let stamps = self.arrive(now, response.ts_stack.take());
        let result = match response.body {
            ResponseBody::Err(err) => {
                Err(ReplyError { encoding: err.encoding, payload: err.payload, stamps })
            }
            ResponseBody::Reply(reply) => {
                let key = self.north.as_ref().and_then(|north| north.keys.resolve(&response.key));
                let Some(key) = key.and_then(|key| self.inward(&key)) else {
                    self.stats.dropped.in_bad_key += 1;
                    return;
                };
                Ok(Sample::new(key, reply.body, response.qos, reliability).stamped(stamps))
            }
        };
        self.handle_reply(id, Reply { result, replier: response.responder });
    }

    pub(super) fn handle_response_final(&mut self, now: Now, message: &ResponseFinal) {
        // Nodes on the way end the query at the same time, and their message may be read before the driver
        // looks at the timers.
        self.gets_time_out(now);
        let id = GetId(message.id);
        let pending = self.gets.pending.get(&id).filter(|get| get.network && get.tokens.is_none());
        match pending.map(|get| get.told_timeout) {
            // The time of a node may be up earlier: it is given in whole milliseconds.
            Some(true) => self.network_done(id, GetEnd::TimedOut),
            Some(false) => self.network_done(id, GetEnd::Completed),
            None => self.stats.dropped.reply_late += 1,
        }
    }

    /// Handles a reply from the network or the own session.
    pub(super) fn handle_reply(&mut self, id: GetId, reply: Reply) {
        let Some(pending) = self.gets.pending.get_mut(&id) else {
            self.stats.dropped.reply_late += 1;
            return;
        };
        if let Ok(sample) = &reply.result
            && !pending.any_key
            && !sample.key.intersects(&pending.key)
        {
            self.stats.dropped.reply_bad_key += 1;
            return;
        }
        if let Some(left) = &mut pending.budget {
            *left = left.saturating_sub(1);
        }
        let spent = pending.budget == Some(0);
        // Errors are never consolidated.
        let pass = match (&reply.result, pending.consolidation) {
            (Ok(sample), Consolidation::Monotonic) => {
                let newer = pending.held.is_newer(sample);
                self.stats.dropped.reply_consolidated += u64::from(!newer);
                newer.then_some(reply)
            }
            (Ok(_), Consolidation::Latest) => {
                self.stats.dropped.reply_consolidated += u64::from(pending.held.keep(reply));
                None
            }
            _ => Some(reply),
        };
        let mut out = Vec::new();
        if pending.held.bytes > MAX_HELD_REPLY_BYTES {
            self.stats.dropped.consolidation_overflow += 1;
            pending.consolidation = Consolidation::None;
            out = core::mem::take(&mut pending.held).replies;
        }
        self.deliver(id, out.into_iter().chain(pass));
        if spent {
            self.end(id, GetEnd::BudgetSpent);
        }
    }

    fn deliver(&mut self, get: GetId, replies: impl IntoIterator<Item = Reply>) {
        for reply in replies {
            self.stats.replies_delivered += 1;
            self.events.push_back(Event::Reply { get, reply });
        }
    }

    /// Ends the network's branch for this reason.
    pub(super) fn network_done(&mut self, id: GetId, end: GetEnd) {
        let Some(pending) = self.gets.pending.get_mut(&id) else { return };
        pending.network = false;
        pending.end = end;
        self.settle(id);
    }

    pub(super) fn asked_locally(&mut self, id: GetId, count: usize) {
        let Some(pending) = self.gets.pending.get_mut(&id) else { return };
        pending.local = count;
        // A local queryable exists, so the get does not end for lack of queryables.
        if pending.end == GetEnd::NoQueryable {
            pending.end = GetEnd::Completed;
        }
    }

    pub(super) fn local_done(&mut self, id: GetId) {
        let Some(pending) = self.gets.pending.get_mut(&id) else { return };
        pending.local = pending.local.saturating_sub(1);
        self.settle(id);
    }

    /// Ends a get if no branch is open.
    fn settle(&mut self, id: GetId) {
        let Some(pending) = self.gets.pending.get(&id) else { return };
        if !pending.network && pending.local == 0 {
            let end = pending.end;
            self.end(id, end);
        }
    }

    fn end(&mut self, id: GetId, reason: GetEnd) {
        let Some(pending) = self.gets.remove(id) else { return };
        if pending.tokens.is_some()
            && let Some(north) = &mut self.north
        {
            north.liveliness_gets.retain(|_, get| *get != id.0);
        }
        if reason != GetEnd::Cancelled {
            self.deliver(id, pending.held.replies);
        }
        if reason == GetEnd::TimedOut && !pending.told_timeout {
            // The default encoding, as in Eclipse Zenoh: there the nearest node is in the same process,
            // and reports the timeout before the session does (`zenoh-behaviour` 3.9).
            let error = ReplyError { payload: Bytes::from_static(TIMEOUT).into(), ..ReplyError::default() };
            self.deliver(id, [Reply { result: Err(error), replier: None }]);
        }
        self.events.push_back(Event::GetDone { get: id, reason });
    }

    pub(super) fn gets_time_out(&mut self, now: Now) {
        while let Some(&(deadline, id)) = self.gets.deadlines.first() {
            if deadline > now.mono {
                return;
            }
            self.end(id, GetEnd::TimedOut);
        }
    }

    pub(super) fn gets_lose_link(&mut self) {
        for id in ids_of(&self.gets.pending, |pending| pending.network) {
            self.network_done(id, GetEnd::LinkLost);
        }
    }

    pub(super) fn cancel_all_gets(&mut self) {
        for id in ids_of(&self.gets.pending, |_| true) {
            self.end(id, GetEnd::Cancelled);
        }
    }
}

/// Whether a node, not a queryable, reports its timeout for the query (`zenoh-behaviour` 3.9).
fn is_timeout(response: &Response) -> bool {
    response.key.is_empty()
        && response.responder.is_some_and(|responder| responder.eid == 0)
        && matches!(&response.body, ResponseBody::Err(err) if err.payload[..] == *TIMEOUT)
}
