//! Open gets: branches, consolidation, timeouts (`zenoh-behaviour` 3.6, 3.7, 3.9).

use bytes::Bytes;
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::{
    Result, Session,
    error::SessionError,
    interest::Kind,
    limits::{MAX_HELD_REPLY_BYTES, MAX_PENDING_GETS},
    sample::Sample,
    types::{Event, Get, GetEnd, GetId, Reply, ReplyError},
};
use crate::{
    Now,
    zenoh::{
        KeyExpr, Parameters, Qos, Reliability, Timestamp,
        wire::{
            Consolidation, NetworkMessage, Query, QueryTarget, Request, Response, ResponseBody, ResponseFinal,
        },
    },
};

/// Payload of the error reply when a query times out.
const TIMEOUT: &[u8] = b"Timeout";

/// Shortest timeout of a get. Timers of Eclipse Zenoh tick once in a millisecond: there a get with a
/// timeout of zero still receives immediate replies, and nodes on the way take a zero for no timeout.
const SHORTEST: Duration = Duration::from_millis(1);

/// A get that is waiting for a branch: the network, or queryables of the own session.
#[derive(Debug)]
pub(super) struct Pending {
    key: KeyExpr,
    any_key: bool,
    consolidation: Consolidation,
    deadline: Duration,
    /// Whether the network has not finished.
    pub(super) network: bool,
    /// Number of unfinished queries of the own session.
    pub(super) local: usize,
    end: GetEnd,
    /// Whether a node on the way has reported its timeout.
    told_timeout: bool,
    budget: Option<u32>,
    held: Held,
    /// For a liveliness get: the keys that were reported.
    pub(super) tokens: Option<HashSet<KeyExpr>>,
}

impl Pending {
    pub(super) fn new(key: KeyExpr, consolidation: Consolidation, now: Now, timeout: Duration) -> Self {
        Self {
            key,
            any_key: false,
            consolidation,
            deadline: now.mono.saturating_add(timeout.max(SHORTEST)),
            network: false,
            local: 0,
            end: GetEnd::Completed,
            told_timeout: false,
            budget: None,
            held: Held::default(),
            tokens: None,
        }
    }
}

/// State of consolidation.
#[derive(Debug, Default)]
struct Held {
    /// Latest: the replies, and the index of each key's reply. Monotonic: the keys alone.
    replies: Vec<Reply>,
    by_key: HashMap<KeyExpr, (usize, Option<Timestamp>)>,
    bytes: usize,
}

impl Held {
    /// Latest: keeps the newer of two replies of a key. Returns whether one was dropped.
    fn keep(&mut self, mut reply: Reply) -> bool {
        let Ok(sample) = &mut reply.result else { return false };
        let timestamp = sample.timestamp;
        if let Some((at, known)) = self.by_key.get_mut(&sample.key) {
            // Equal or both absent: the later arrival replaces.
            if timestamp >= *known {
                sample.key = self.replies[*at].result.as_ref().map_or(sample.key.clone(), |s| s.key.clone());
                unshare(sample);
                self.bytes += sample.cost();
                self.bytes -= self.replies[*at].result.as_ref().map_or(0, Sample::cost);
                *known = timestamp;
                self.replies[*at] = reply;
            }
            return true;
        }
        sample.key = sample.key.unshared();
        unshare(sample);
        self.bytes += sample.cost();
        self.by_key.insert(sample.key.clone(), (self.replies.len(), timestamp));
        self.replies.push(reply);
        false
    }

    /// Monotonic: whether a reply is not older than the last one of its key.
    fn is_newer(&mut self, sample: &Sample) -> bool {
        if let Some((_, known)) = self.by_key.get_mut(&sample.key) {
            let newer = sample.timestamp >= *known;
            if newer {
                *known = sample.timestamp;
            }
            return newer;
        }
        self.bytes += size_of::<(KeyExpr, Timestamp)>() + sample.key.len();
        self.by_key.insert(sample.key.unshared(), (0, sample.timestamp));
        true
    }
}

/// Copies small payloads, because each would keep the whole receive buffer alive.
pub(super) fn unshare(sample: &mut Sample) {
    const SMALL: usize = 4096;
    if sample.payload.len() < SMALL {
        sample.payload = Bytes::copy_from_slice(&sample.payload);
    }
    if let Some(attachment) = &mut sample.attachment
        && attachment.len() < SMALL
    {
        *attachment = Bytes::copy_from_slice(attachment);
    }
}

/// All open gets.
#[derive(Debug, Default)]
pub(super) struct Gets {
    pending: HashMap<GetId, Pending>,
    deadlines: BTreeSet<(Duration, GetId)>,
    last: u32,
    /// Largest id, as negotiated with the link; 0 for no limit.
    max: u32,
}

impl Gets {
    /// # Errors
    /// Too many gets are open.
    pub(super) fn insert(&mut self, pending: Pending) -> Result<GetId> {
        let max = if self.max == 0 { u32::MAX } else { self.max };
        let limit = MAX_PENDING_GETS.min(max as usize);
        if self.pending.len() >= limit {
            return Err(SessionError::TooMany { what: "pending gets", limit });
        }
        loop {
            self.last = if self.last >= max { 1 } else { self.last + 1 };
            let id = GetId(self.last);
            if !self.pending.contains_key(&id) {
                self.deadlines.insert((pending.deadline, id));
                self.pending.insert(id, pending);
                return Ok(id);
            }
        }
    }

    /// Keeps later ids within the range negotiated with the link.
    pub(super) fn limit_ids(&mut self, max: u32) {
        self.max = max;
    }

    pub(super) fn get_mut(&mut self, id: GetId) -> Option<&mut Pending> {
        self.pending.get_mut(&id)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    fn remove(&mut self, id: GetId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.deadlines.remove(&(pending.deadline, id));
        Some(pending)
    }

    /// Ids in the order of the gets.
    fn ids(&self, which: impl Fn(&Pending) -> bool) -> Vec<GetId> {
        let mut ids: Vec<_> =
            self.pending.iter().filter(|(_, pending)| which(pending)).map(|(&id, _)| id).collect();
        ids.sort_unstable();
        ids
    }
}

impl Session {
    /// Queries queryables. Replies come as [`Event::Reply`], the end as [`Event::GetDone`].
    ///
    /// # Errors
    /// The session is closed, the key does not fit into the namespace, or there are too many gets.
    pub fn get(&mut self, now: Now, get: Get) -> Result<GetId> {
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
        let mut pending = Pending::new(key.inner.clone(), consolidation, now, timeout);
        pending.any_key = any_key;
        pending.budget = get.budget.map(core::num::NonZeroU32::get);
        let complete = get.target == QueryTarget::AllComplete;
        if get.destination.remote() {
            if self.north.is_none() {
                pending.end = GetEnd::LinkLost;
            } else if self.may_leave(Kind::Queryables, &key.outer, complete) {
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
            self.ask_locally(now, id, get, text, any_key);
        }
        self.settle(id);
        Ok(id)
    }

    /// Ends a get; replies held back are dropped. No effect on a finished one.
    pub fn cancel(&mut self, _now: Now, get: GetId) {
        self.end(get, GetEnd::Cancelled);
    }

    /// Handles RESPONSE.
    pub(super) fn handle_response(&mut self, now: Now, mut response: Response, reliability: Reliability) {
        self.stats.responses_received += 1;
        let id = GetId(response.id);
        // Ignores replies to a get that was not sent, or that was sent on an earlier link.
        let pending = self.gets.get_mut(id).filter(|pending| pending.network && pending.tokens.is_none());
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

    /// Handles RESPONSE_FINAL.
    pub(super) fn handle_response_final(&mut self, message: &ResponseFinal) {
        let id = GetId(message.id);
        if self.gets.get_mut(id).is_some_and(|pending| pending.network && pending.tokens.is_none()) {
            self.network_done(id, GetEnd::Completed);
        } else {
            self.stats.dropped.reply_late += 1;
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

    /// Records that so many queryables of the own session were queried.
    pub(super) fn asked_locally(&mut self, id: GetId, count: usize) {
        let Some(pending) = self.gets.pending.get_mut(&id) else { return };
        pending.local = count;
        // A local queryable exists, so the get does not end for lack of queryables.
        if pending.end == GetEnd::NoQueryable {
            pending.end = GetEnd::Completed;
        }
    }

    /// Records that a queryable of the own session has finished.
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
            let error = ReplyError { payload: Bytes::from_static(TIMEOUT), ..ReplyError::default() };
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
        for id in self.gets.ids(|pending| pending.network) {
            self.network_done(id, GetEnd::LinkLost);
        }
    }

    pub(super) fn cancel_all_gets(&mut self) {
        for id in self.gets.ids(|_| true) {
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

/// The QoS of a reply: that of the query, except for express.
pub(super) fn reply_qos(qos: Qos, express: Option<bool>) -> Qos {
    match express {
        Some(express) if express != qos.express() => Qos::new(qos.priority(), qos.congestion(), express),
        _ => qos,
    }
}
