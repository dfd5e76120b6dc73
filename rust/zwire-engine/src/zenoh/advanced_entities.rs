//! Declaring and using advanced publishers and subscribers, and answering from their caches.

use crate::{
    config::{NodeConfig, SharedMessage},
    error::Error,
    lending::is_shared,
    rt::queue::Queue,
    zenoh::{
        advanced::{
            AdvancedPublisherOptions, AdvancedSubscriberOptions, Following, Known, Publishing, rearm,
        },
        caller::{Caller, Patience},
        core::SessionCore,
        effects::{Effects, Garbage},
        query::Query,
        session::{Handler, Session, weight},
        shared::SessionShared,
    },
};
use bytes::Bytes;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;
use zwire_proto::{
    Now,
    zenoh::{
        CongestionControl, KeyExpr, Parameters, Payload, Priority, Qos, Reliability,
        advanced::{
            AdvancedPublisher, AdvancedSubscriber, Answer, Answered, HeartbeatMode, Miss, PublisherConfig,
            Recovery, SampleSource, Sequencing, SubscriberConfig, keys,
        },
        session::{
            EntityId, Get, Published, PublisherOptions, QueryReply, QueryReplyBody, QueryableOptions, Sample,
            SessionError, Stamps, SubscriberOptions,
        },
        wire::{Consolidation, PushBody, Put, QueryTarget},
    },
};

/// Samples of an answer that are sent under one hold of the lock.
const AT_ONCE: usize = 64;

impl SessionCore {
    /// Sends the collected cache queries. Returns whether any was sent.
    pub(crate) fn ask_caches(&mut self, now: Now, effects: &mut Effects) -> bool {
        if self.advanced.wanted.is_empty() {
            return false;
        }
        for (id, ask) in core::mem::take(&mut self.advanced.wanted) {
            let Some(following) = self.advanced.subscribers.get(&id) else { continue };
            let get = Get {
                parameters: ask.parameters,
                target: QueryTarget::All,
                consolidation: Consolidation::None,
                destination: following.origin,
                ..Get::new(ask.key)
            };
            match self.api.get(now, get) {
                Ok(get) => {
                    self.advanced.asks.insert(get, (id, ask.id));
                }
                Err(error) => {
                    tracing::debug!(%error, "querying a cache failed");
                    let answered = |machine: &mut AdvancedSubscriber| {
                        machine.handle_answered(now, ask.id, Answered::NotAsked);
                    };
                    self.advanced.turn(id, effects, answered);
                }
            }
        }
        true
    }

    /// Publishes with a sequence number and puts the sample into the cache. `placed`: the payload to be sent.
    fn publish_advanced(
        &mut self,
        now: Now,
        id: EntityId,
        mut body: PushBody,
        placed: Payload,
        stamps: Option<Box<Stamps>>,
        effects: &mut Effects,
    ) -> Result<Published, SessionError> {
        let Some(publishing) = self.advanced.publishers.get_mut(&id) else {
            return Err(SessionError::UnknownEntity { id, expected: "advanced publisher" });
        };
        let stamp = match &mut body {
            PushBody::Put(put) => &mut put.timestamp,
            PushBody::Del(del) => &mut del.timestamp,
        };
        // The cache keeps samples as they are sent: with the time of the sample, not of the answer.
        if publishing.stamps && stamp.is_none() {
            *stamp = Some(self.api.new_timestamp(now));
        }
        if let PushBody::Put(put) = &mut body
            && publishing.cached
            && put.payload.parts().iter().any(|part| is_shared(part))
        {
            // A cache would keep the pool full.
            put.payload = Bytes::copy_from_slice(&put.payload).into();
        }
        if let Some(old) = publishing.machine.publish(now, &mut body) {
            effects.garbage.push(Garbage::Body(old));
        }
        if let PushBody::Put(put) = &mut body {
            put.payload = placed;
        }
        let at = publishing.machine.poll_timeout();
        rearm(&mut self.advanced.deadlines, &mut publishing.armed, id, at);
        let (api, mut sink) = self.outwards(now, effects);
        api.publish_to(now, id, body, stamps, &mut sink)
    }

    /// Drives the machines that are due.
    pub(crate) fn advanced_timeouts(&mut self, now: Now, effects: &mut Effects) {
        // A machine that gets a new deadline meanwhile is handled in the next turn.
        let end = (now.mono, EntityId(u32::MAX));
        let due: Vec<EntityId> = self.advanced.deadlines.range(..=end).map(|&(_, id)| id).collect();
        for id in due {
            self.advanced.turn(id, effects, |machine| machine.handle_timeout(now));
            let Some(publishing) = self.advanced.publishers.get_mut(&id) else { continue };
            let told = publishing.machine.handle_timeout(now);
            let at = publishing.machine.poll_timeout();
            rearm(&mut self.advanced.deadlines, &mut publishing.armed, id, at);
            if let (Some(payload), Some(heartbeat)) = (told, publishing.heartbeat) {
                let (api, mut sink) = self.outwards(now, effects);
                let body = PushBody::Put(Put::new(payload));
                if let Err(error) = api.publish_to(now, heartbeat, body, None, &mut sink) {
                    tracing::debug!(%error, "sending a heartbeat failed");
                }
            }
        }
    }

    /// Sends the next part of a cache answer. Returns whether there may be more.
    fn answer(&mut self, now: Now, publisher: EntityId, query: &Query, answer: &mut Option<Answer>) -> bool {
        let Some(publishing) = self.advanced.publishers.get(&publisher) else { return false };
        let answer = match answer {
            Some(answer) => answer,
            None => {
                let parameters = Parameters::new(query.parameters.clone());
                let Some(begun) = publishing.machine.answer(&parameters, now.wall) else { return false };
                answer.insert(begun)
            }
        };
        let (key, express) = (publishing.key.clone(), publishing.express);
        let bodies = publishing.machine.next_of(answer, AT_ONCE);
        let more = bodies.len() == AT_ONCE;
        for body in bodies {
            let body = QueryReplyBody::Sample { key: key.clone(), body };
            if let Err(error) = self.api.reply(now, query.id, QueryReply { body, express, stamps: None }) {
                tracing::debug!(%error, "answering from a cache failed");
                return false;
            }
        }
        more
    }

    /// Undeclares the parts of an advanced publisher or subscriber.
    pub(crate) fn undeclare_advanced(&mut self, now: Now, id: EntityId, effects: &mut Effects) {
        let (parts, gets) = self.advanced.remove(id, effects);
        for get in gets {
            self.api.cancel(now, get);
        }
        for part in parts {
            if let Err(error) = self.api.undeclare(now, part) {
                tracing::debug!(%error, "a part of an advanced entity was undeclared before");
            }
            self.forget(part, effects);
        }
    }
}

/// Task of a cache: answers its queries one after the other until the publisher is undeclared.
async fn answer(
    shared: Weak<SessionShared>,
    publisher: EntityId,
    queue: Arc<Queue<Query>>,
    asked: Arc<Notify>,
) {
    loop {
        match queue.try_recv() {
            Ok(Some(query)) => {
                let mut answer = None;
                let mut more = true;
                while more {
                    let Some(strong) = shared.upgrade() else { return };
                    let mut effects = Effects::default();
                    more = strong.with_core(&mut effects, |core, now, _| {
                        core.answer(now, publisher, &query, &mut answer)
                    });
                    let patience = strong.config.link.wait_before_close;
                    drop(strong);
                    effects.wait_all(patience).await;
                }
            }
            Ok(None) => asked.notified().await,
            Err(_) => return,
        }
    }
}

impl Session {
    /// Declares an advanced publisher.
    ///
    /// # Errors
    /// [`Error::NoTimestamps`] if timestamps have to identify the publications and the session gives
    /// none.
    pub fn declare_advanced_publisher(
        &self,
        key: KeyExpr,
        mut options: PublisherOptions,
        advanced: AdvancedPublisherOptions,
    ) -> Result<EntityId, Error> {
        self.overwrite(&key, &mut options.qos, (&mut options.reliability, &mut options.destination));
        let config: &NodeConfig = self.config();
        let stamps = config.timestamping.enabled;
        let sequencing = match (advanced.numbered, advanced.cache) {
            (true, _) => Sequencing::Number,
            (false, Some(_)) if !stamps => return Err(Error::NoTimestamps),
            (false, Some(_)) => Sequencing::Timestamp,
            (false, None) => Sequencing::None,
        };
        let queue = self.queue("cache", &key, Handler::Default);
        let zid = self.zid();
        let id = self.declare(|core, now| {
            let origin = options.destination;
            let id = core.api.declare_publisher(now, key.clone(), options)?;
            let source = SampleSource { zid, eid: id.0 };
            let beside = keys::of_publisher(&key, zid, advanced.numbered.then_some(id.0))?;
            let config =
                PublisherConfig { source, sequencing, cache: advanced.cache, heartbeat: advanced.heartbeat };
            let mut parts = Vec::new();
            if advanced.cache.is_some() {
                let options = QueryableOptions { complete: false, origin };
                let queryable = core.api.declare_queryable(now, beside.clone(), options)?;
                core.queries.insert(queryable, queue.clone());
                parts.push(queryable);
            }
            let mut heartbeat = None;
            if let Some(mode) = advanced.heartbeat.filter(|_| advanced.numbered) {
                let congestion = match mode {
                    HeartbeatMode::Periodic(_) => CongestionControl::Drop,
                    // A lost sporadic heartbeat has no successor that would make up for it.
                    HeartbeatMode::Sporadic(_) => CongestionControl::Block,
                };
                let options = PublisherOptions {
                    qos: Qos::new(Priority::Data, congestion, false),
                    reliability: Reliability::Reliable,
                    destination: origin,
                };
                heartbeat = Some(core.api.declare_publisher(now, beside.clone(), options)?);
                parts.extend(heartbeat);
            }
            if advanced.detection {
                parts.push(core.api.declare_token(now, beside)?);
            }
            let publishing = Publishing {
                machine: AdvancedPublisher::new(config),
                key,
                express: advanced.express,
                cached: advanced.cache.is_some(),
                stamps,
                heartbeat,
                parts,
                armed: None,
            };
            core.advanced.publishers.insert(id, publishing);
            Ok(id)
        })?;
        if advanced.cache.is_some() {
            let asked = Arc::new(Notify::new());
            let wake = asked.clone();
            queue.set_waker(Some(Arc::new(move || wake.notify_one())));
            let task = answer(Arc::downgrade(self.shared()), id, queue, asked);
            self.shared().spawn(task);
        }
        Ok(id)
    }

    /// Publishes or deletes with the key and options of an advanced publisher.
    pub fn publish_advanced(
        &self,
        publisher: EntityId,
        qos: Qos,
        body: PushBody,
        stamps: Option<Box<Stamps>>,
        caller: &mut (impl Caller + ?Sized),
    ) -> Result<Published, Error> {
        caller.aside(|patience| {
            self.shared().grace(qos, weight(&body), patience)?;
            let mut placed = match &body {
                PushBody::Put(put) => put.payload.clone(),
                PushBody::Del(_) => Payload::new(),
            };
            self.shared().lending.place(SharedMessage::Put, &mut placed);
            self.command(patience, |core, now, effects| {
                Ok(core.publish_advanced(now, publisher, body, placed, stamps, effects)?)
            })
        })
    }

    /// Declares an advanced subscriber; its samples arrive in the queue returned. With `known` it delivers every
    /// sample, for a log for example, and does not query samples that are known already.
    pub fn declare_advanced_subscriber(
        &self,
        key: KeyExpr,
        options: AdvancedSubscriberOptions,
        handler: Handler,
        known: Option<&Known>,
    ) -> Result<(EntityId, Arc<Queue<Sample>>), Error> {
        let AdvancedSubscriberOptions { origin, history, recovery, detection } = options;
        let options = SubscriberOptions { origin };
        let queue = self.queue("advanced subscriber", &key, handler);
        let zid = self.zid();
        let publishers = keys::of_all_publishers(&key)?;
        let followed = queue.clone();
        let id = self.command(&mut Patience::Block(&mut || false), |core, now, effects| {
            effects.told = true;
            let id = core.api.declare_subscriber(now, key.clone(), options)?;
            let keeps = known.is_some();
            let config = SubscriberConfig { history, recovery, keeps, ..SubscriberConfig::new(key.clone()) };
            let mut parts = Vec::new();
            if recovery == Some(Recovery::Heartbeat) {
                let part = core.api.declare_subscriber(now, publishers.clone(), options)?;
                core.advanced.heartbeats.insert(part, id);
                parts.push(part);
            }
            if history.is_some_and(|history| history.late) {
                let part = core.api.declare_liveliness_subscriber(now, publishers, true)?;
                core.advanced.tokens.insert(part, id);
                parts.push(part);
            }
            if detection {
                let token = keys::of_subscriber(&key, SampleSource { zid, eid: id.0 })?;
                parts.push(core.api.declare_token(now, token)?);
            }
            let mut machine = AdvancedSubscriber::new(config);
            if let Some(known) = known {
                known.numbers.iter().for_each(|&(source, sn)| machine.know(now, source, sn));
                known.times.iter().for_each(|(key, time)| machine.know_time(now, key, *time));
            }
            let following =
                Following { machine, queue: followed, misses: Vec::new(), origin, parts, armed: None };
            core.advanced.subscribers.insert(id, following);
            core.advanced.drain(id, effects);
            Ok(id)
        })?;
        Ok((id, queue))
    }

    /// Registers a listener: misses of an advanced subscriber arrive in the queue returned.
    pub fn miss_listener(&self, subscriber: EntityId, handler: Handler) -> Result<Arc<Queue<Miss>>, Error> {
        let queue = Queue::new(self.bounds(handler));
        self.declare(|core, _| {
            let following = core.advanced.subscribers.get_mut(&subscriber);
            following.ok_or_else(|| self.shared().undeclared("subscriber"))?.misses.push(queue.clone());
            Ok(queue)
        })
    }

    /// Ends a listener made by [`Self::miss_listener`].
    pub fn forget_miss_listener(&self, subscriber: EntityId, queue: &Arc<Queue<Miss>>) {
        let Some(mut core) = self.shared().core_here() else { return };
        if let Some(following) = core.advanced.subscribers.get_mut(&subscriber) {
            following.misses.retain(|known| !Arc::ptr_eq(known, queue));
        }
        queue.close();
    }
}
