//! The session: declarations, publications and queries of one application (`zenoh-behaviour` 3, 4).
//!
//! A [`Session`] exchanges network messages with exactly one **north**: a link to a router or peer, or the
//! node of the own process. It keeps all that the application declared over the loss of the link and
//! declares it anew on the next one.
//!
//! | Family | Methods |
//! | --- | --- |
//! | input | [`handle_link_up`](Session::handle_link_up), [`handle_link_down`](Session::handle_link_down), [`handle_message`](Session::handle_message), [`handle_timeout`](Session::handle_timeout) |
//! | command | `declare_*`, [`undeclare`](Session::undeclare), [`put_to`](Session::put_to), [`publish_to`](Session::publish_to), [`get`](Session::get), [`liveliness_get`](Session::liveliness_get), [`cancel`](Session::cancel), [`barrier`](Session::barrier), [`reply`](Session::reply), [`finish`](Session::finish), [`new_timestamp`](Session::new_timestamp), [`close`](Session::close) |
//! | output | [`poll_transmit`](Session::poll_transmit), [`poll_event`](Session::poll_event), [`poll_timeout`](Session::poll_timeout) |
//! | getter | [`matching`](Session::matching), [`matches`](Session::matches), [`zid`](Session::zid), [`stats`](Session::stats) |
//!
//! After each input or command, drain `poll_transmit` and `poll_event`, then arm a timer with
//! `poll_timeout`. Messages and events must be passed on in order.

mod barrier;
mod entities;
mod entity_table;
mod error;
mod gets;
mod interest;
mod interest_table;
mod keys;
pub mod limits;
mod liveliness;
mod matching;
mod north;
mod pending;
mod publish;
mod queries;
mod routes;
mod sample;
mod stamping;
mod stamps;
mod stats;
#[cfg(test)]
mod tests;
mod types;

pub use error::{NorthError, SessionError};
pub use publish::DataSink;
pub use sample::{Sample, SampleKind};
pub use stamps::{Stamper, Stamps};
pub use stats::{SessionDrops, SessionStats};
pub use types::{
    Barrier, BarrierEnd, BarrierId, EntityId, Event, Get, GetEnd, GetId, InboundQuery, Locality, Matches,
    Publication, Published, PublisherOptions, QuerierOptions, QueryId, QueryReply, QueryReplyBody,
    QueryableOptions, Reply, ReplyError, SessionConfig, SubscriberOptions,
};

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use super::{
    Hlc, KeyExpr, Reliability, Remote, Timestamp, ZenohId,
    entity::{EntityChange, EntityKind},
    wire::{Declaration, Declare, NetworkMessage, Resolution, WireExpr},
};
use crate::Now;
use entity_table::{Entities, Key};
use error::SessionResult;
use interest_table::Interests;
use north::North;
use pending::{Barriers, Gets, PendingQueries};
use routes::{InRoute, OutRoute, Routes};

/// Session of an application; see the [module](self).
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    closed: bool,
    hlc: Hlc,
    /// State of the link, while there is one.
    north: Option<North>,
    entities: Entities,
    interests: Interests,
    /// Number of tokens of each living key; without the namespace.
    living: HashMap<KeyExpr, usize>,
    gets: Gets,
    queries: PendingQueries,
    barriers: Barriers,
    out_routes: Routes<KeyExpr, OutRoute>,
    in_routes: Routes<WireExpr, InRoute>,
    transmits: VecDeque<(NetworkMessage, Reliability)>,
    events: VecDeque<Event>,
    stats: SessionStats,
    stamper: Option<Stamper>,
}

impl Session {
    /// A session without a link.
    #[must_use]
    pub fn new(config: SessionConfig) -> Self {
        Self {
            closed: false,
            hlc: Hlc::with_max_delta(config.zid, config.max_drift),
            config,
            north: None,
            entities: Entities::default(),
            interests: Interests::default(),
            living: HashMap::new(),
            gets: Gets::default(),
            queries: PendingQueries::default(),
            barriers: Barriers::default(),
            out_routes: Routes::new(),
            in_routes: Routes::new(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            stats: SessionStats::default(),
            stamper: None,
        }
    }

    // Inputs.

    /// The link to the north is open: sends all declarations. An existing link counts as lost.
    pub fn handle_link_up(&mut self, now: Now, remote: Remote) {
        self.handle_link_down(now);
        if self.closed {
            return;
        }
        self.stats.links_up += 1;
        self.north = Some(North::new(remote));
        self.forget_routes();
        self.declare_everything();
        self.send_all_barriers();
    }

    /// Keeps the ids of gets within the range negotiated with the link to the north.
    pub fn limit_request_ids(&mut self, resolution: Resolution) {
        self.gets.max = resolution.request_id_mask();
    }

    /// The link to the north is lost: its state is dropped, gets lose that branch.
    pub fn handle_link_down(&mut self, _now: Now) {
        let Some(north) = self.north.take() else { return };
        self.stats.dropped.out_link_lost += self.transmits.len() as u64;
        self.transmits.clear();
        self.forget_routes();
        self.entities_lose_link();
        self.interests_lose_link();
        for (key, _) in north.declared[EntityKind::Token as usize].iter() {
            self.remote_token_down(key);
        }
        self.gets_lose_link();
        self.queries_lose_link();
        self.barriers_lose_link();
    }

    /// Handles a message of the north.
    ///
    /// # Errors
    /// The north exceeds a memory bound: close its link, then call
    /// [`handle_link_down`](Self::handle_link_down).
    #[inline]
    pub fn handle_message(
        &mut self,
        now: Now,
        message: NetworkMessage,
        reliability: Reliability,
    ) -> Result<(), NorthError> {
        if self.north.is_none() {
            return Ok(());
        }
        match message {
            NetworkMessage::Push(push) => self.handle_push(now, push, reliability),
            NetworkMessage::Request(request) => self.handle_request(now, request),
            NetworkMessage::Response(response) => self.handle_response(now, response, reliability),
            NetworkMessage::ResponseFinal(message) => self.handle_response_final(now, &message),
            NetworkMessage::Declare(declare) => return self.handle_declare(declare),
            NetworkMessage::Interest(interest) => {
                self.stats.declarations_received += 1;
                self.handle_interest(interest);
            }
            // Link states concern only nodes that route.
            NetworkMessage::Oam(_) => {}
        }
        Ok(())
    }

    fn handle_declare(&mut self, declare: Declare) -> Result<(), NorthError> {
        self.stats.declarations_received += 1;
        let Some(north) = &mut self.north else { return Ok(()) };
        let interest_id = declare.interest_id;
        let body = match declare.body {
            Declaration::KeyExpr { id, key } => {
                let known = north.keys.north_declares(id, &key)?;
                self.stats.dropped.declare_ignored += u64::from(!known);
                return Ok(());
            }
            Declaration::UndeclareKeyExpr { id } => {
                if north.keys.north_undeclares(id) {
                    self.in_routes.forget();
                }
                return Ok(());
            }
            Declaration::Final => {
                self.handle_final(interest_id);
                return Ok(());
            }
            body => body,
        };
        let Some(EntityChange { kind, id, key, info }) = EntityChange::of(body) else { return Ok(()) };
        let key = key.filter(|key| info.is_some() || !key.is_empty());
        let key = key.and_then(|key| north.keys.resolve(&key));
        match (info, key) {
            (Some(_), Some(key)) if kind == EntityKind::Token => {
                return self.handle_token(interest_id, id, &key);
            }
            (Some(info), Some(key)) => {
                return self.handle_declared(kind, interest_id, id, &key, info.complete);
            }
            (Some(_), None) => self.stats.dropped.in_bad_key += 1,
            (None, key) if kind == EntityKind::Token => self.handle_token_gone(id, key.as_ref()),
            (None, key) => self.handle_undeclared(kind, id, key.as_ref()),
        }
        Ok(())
    }

    /// Call at the deadline of [`poll_timeout`](Self::poll_timeout); an earlier call has no effect.
    pub fn handle_timeout(&mut self, now: Now) {
        self.gets_time_out(now);
    }

    // Other commands.

    /// A timestamp that is later than all earlier ones.
    pub fn new_timestamp(&mut self, now: Now) -> Timestamp {
        self.hlc.new_timestamp(now)
    }

    /// Ends all gets and queries and drops all entities. The driver closes the link after the last
    /// transmit; nothing is undeclared, as in Eclipse Zenoh.
    pub fn close(&mut self, now: Now) {
        if self.closed {
            return;
        }
        self.finish_all_queries(now);
        self.cancel_all_gets();
        self.end_all_barriers();
        self.closed = true;
        self.entities.clear();
        self.interests.clear();
        self.living.clear();
        self.forget_routes();
    }

    // Outputs.

    /// The next message for the north.
    #[inline]
    pub fn poll_transmit(&mut self) -> Option<(NetworkMessage, Reliability)> {
        self.transmits.pop_front()
    }

    /// Takes all messages for the north at once in exchange for an empty queue, without moving them.
    /// Equivalent to [`Self::poll_transmit`] until it returns `None`.
    pub fn take_transmits(&mut self, into: &mut VecDeque<(NetworkMessage, Reliability)>) {
        debug_assert!(into.is_empty(), "what was taken before has to be passed on first");
        core::mem::swap(&mut self.transmits, into);
    }

    /// Whether neither [`Self::poll_transmit`] nor [`Self::poll_event`] has anything.
    #[inline]
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.transmits.is_empty() && self.events.is_empty()
    }

    /// Takes all events at once in exchange for an empty queue. Equivalent to [`Self::poll_event`]
    /// until it returns `None`.
    pub fn take_events(&mut self, into: &mut VecDeque<Event>) {
        debug_assert!(into.is_empty(), "what was taken before has to be passed on first");
        core::mem::swap(&mut self.events, into);
    }

    /// The next event for the application.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Deadline of [`handle_timeout`](Self::handle_timeout), in monotonic time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.gets.deadlines.first().map(|(deadline, _)| *deadline)
    }

    // Getters.

    #[cfg(test)]
    const fn is_up(&self) -> bool {
        self.north.is_some()
    }

    #[cfg(test)]
    fn remote(&self) -> Option<&Remote> {
        self.north.as_ref().map(|north| &north.remote)
    }

    /// The id of this node.
    #[must_use]
    pub const fn zid(&self) -> ZenohId {
        self.config.zid
    }

    /// Counters since the start.
    #[must_use]
    pub const fn stats(&self) -> &SessionStats {
        &self.stats
    }

    /// Number of unfinished queries of other sessions.
    #[must_use]
    pub fn open_queries(&self) -> usize {
        self.queries.asked.len()
    }

    // Shared by the parts.

    fn check_open(&self) -> SessionResult<()> {
        if self.closed { Err(SessionError::Closed) } else { Ok(()) }
    }

    /// The key with the namespace, as sent to the network.
    fn outward(&self, inner: KeyExpr) -> SessionResult<Key> {
        self.check_open()?;
        let Some(namespace) = &self.config.namespace else {
            return Ok(Key { outer: inner.clone(), inner });
        };
        match namespace.join(&inner) {
            Ok(outer) => Ok(Key { inner, outer }),
            Err(error) => Err(SessionError::Namespace { key: inner, namespace: namespace.clone(), error }),
        }
    }

    /// The key without the namespace, for the application; `None`: it lies outside the namespace.
    fn inward(&self, outer: &KeyExpr) -> Option<KeyExpr> {
        let Some(namespace) = &self.config.namespace else { return Some(outer.clone()) };
        let inner = outer.strip_prefix(namespace.as_str())?.strip_prefix('/')?;
        KeyExpr::from_text(outer.text().slice_ref(inner)).ok()
    }

    /// Has a number for the non-wild prefix of `key`, declared if need be, and gives the short form.
    /// `None`: there is no link.
    pub(super) fn declare_prefix(&mut self, key: &KeyExpr) -> Option<WireExpr> {
        let north = self.north.as_mut()?;
        if let Some((id, prefix)) = key.non_wild_prefix().and_then(|prefix| north.keys.declare(prefix)) {
            self.out_routes.forget();
            self.declare(Declaration::KeyExpr { id, key: WireExpr::full(prefix) });
        }
        Some(self.north.as_ref()?.keys.shortest(key))
    }

    pub(super) fn declare(&mut self, body: Declaration) {
        self.send(NetworkMessage::Declare(Declare::new(None, body)));
    }

    /// Sends what goes by the reliable channel, if there is a link.
    pub(super) fn send(&mut self, message: NetworkMessage) {
        if self.north.is_none() {
            return;
        }
        match &message {
            NetworkMessage::Declare(_) | NetworkMessage::Interest(_) => self.stats.declarations_sent += 1,
            NetworkMessage::Request(_) => self.stats.requests_sent += 1,
            NetworkMessage::Response(_) => self.stats.responses_sent += 1,
            NetworkMessage::Push(_) | NetworkMessage::ResponseFinal(_) | NetworkMessage::Oam(_) => {}
        }
        self.transmits.push_back((message, Reliability::Reliable));
    }
}
