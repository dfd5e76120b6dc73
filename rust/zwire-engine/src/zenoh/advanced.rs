//! Advanced publishers and subscribers: drives their state machines beside the session that they use.
//!
//! The machines share the lock of the session. Publications numbered by an advanced publisher leave in
//! the order of their numbers; samples released by an advanced subscriber enter the queue of its user at
//! once, like any sample. Cache queries are gets of the session. A cache answers from a task of its own,
//! a few samples at a time, so that a long answer waits for its link and blocks nothing else.

use crate::{
    config::NodeConfig,
    error::Error,
    rt::queue::{Pushed, Queue, Weigh},
    zenoh::{
        core::{Core, Effects, Garbage, Signal, Wait, give},
        query::Query,
        session::{Handler, Session},
        shared::Shared,
    },
};
use core::time::Duration;
use hashbrown::HashMap;
use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};
use tokio::sync::Notify;
use zwire_proto::{
    Now,
    zenoh::{
        CongestionControl, KeyExpr, Parameters, Priority, Qos, Reliability, Timestamp,
        advanced::{
            Answer, Answered, Ask, AskId, Heartbeat, History, Miss, Output, Publisher, PublisherConfig,
            Recovery, Sequencing, Source, Subscriber, SubscriberConfig, keys,
        },
        session::{
            EntityId, Get, GetEnd, GetId, Locality, Published, PublisherOptions, QueryReply, QueryReplyBody,
            QueryableOptions, Sample, SampleKind, SessionError, Stamps, SubscriberOptions,
        },
        wire::{Consolidation, PushBody, Put, QueryTarget},
    },
};

/// Samples of an answer that are sent under one hold of the lock.
const AT_ONCE: usize = 64;

/// Options of an advanced publisher, in addition to those of a plain publisher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvancedPublisherOptions {
    /// Number of publications kept in the cache; `None`: no cache, and no cache queries are answered.
    pub cache: Option<usize>,
    /// Whether replies of the cache are sent without batching.
    pub express: Option<bool>,
    /// Whether publications carry sequence numbers, so that subscribers can detect misses.
    pub numbered: bool,
    /// Announcements of the last sequence number, if any.
    pub heartbeat: Option<Heartbeat>,
    /// Whether a liveliness token announces the publisher.
    pub detection: bool,
}

/// Options of an advanced subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvancedSubscriberOptions {
    /// Origin of the publications to receive: this session, other sessions, or any.
    pub origin: Locality,
    /// Past publications to query on start, if any.
    pub history: Option<History>,
    /// Method of recovering missing samples, if any.
    pub recovery: Option<Recovery>,
    /// Whether a liveliness token announces the subscriber.
    pub detection: bool,
}

/// Samples that a consumer has stored already, by source.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Last sequence number of each publisher that numbers its samples.
    pub numbers: Vec<(Source, u32)>,
    /// Last timestamp of all other samples, by key and clock.
    pub times: Vec<(KeyExpr, Timestamp)>,
}

impl Weigh for Miss {
    fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

/// State of an advanced subscriber.
struct Following {
    machine: Subscriber,
    queue: Arc<Queue<Sample>>,
    misses: Vec<Arc<Queue<Miss>>>,
    origin: Locality,
    /// Entities declared on behalf of it.
    parts: Vec<EntityId>,
    armed: Option<Duration>,
}

/// State of an advanced publisher.
struct Publishing {
    machine: Publisher,
    key: KeyExpr,
    express: Option<bool>,
    /// Whether its publications get timestamps from the session's clock.
    stamps: bool,
    /// Publisher of its heartbeats.
    heartbeat: Option<EntityId>,
    /// Entities declared on behalf of it.
    parts: Vec<EntityId>,
    armed: Option<Duration>,
}

/// All advanced publishers and subscribers of a session.
#[derive(Default)]
pub(crate) struct Advanced {
    subscribers: HashMap<EntityId, Following>,
    publishers: HashMap<EntityId, Publishing>,
    /// Subscribers to tokens, and the advanced subscriber that each belongs to; likewise for heartbeats
    /// below.
    tokens: HashMap<EntityId, EntityId>,
    heartbeats: HashMap<EntityId, EntityId>,
    /// Gets in flight, with the subscriber and the request that each belongs to.
    asks: HashMap<GetId, (EntityId, AskId)>,
    /// Cache queries that are yet to be sent as gets.
    wanted: Vec<(EntityId, Ask)>,
    deadlines: BTreeSet<(Duration, EntityId)>,
}

fn rearm(
    deadlines: &mut BTreeSet<(Duration, EntityId)>,
    armed: &mut Option<Duration>,
    id: EntityId,
    at: Option<Duration>,
) {
    if *armed == at {
        return;
    }
    if let Some(old) = armed.take() {
        deadlines.remove(&(old, id));
    }
    if let Some(at) = at {
        deadlines.insert((at, id));
    }
    *armed = at;
}

impl Advanced {
    /// Handles a sample for an entity that is not a plain subscriber.
    pub(crate) fn handle_sample(&mut self, now: Now, id: EntityId, sample: Sample, effects: &mut Effects) {
        if let Some(following) = self.subscribers.get_mut(&id) {
            if following.machine.is_plain(&sample) {
                return give(&following.queue, sample, effects);
            }
            if let Some(sample) = following.machine.handle_sample(now, sample) {
                give(&following.queue, sample, effects);
            }
            self.drain(id, effects);
        } else if let Some(&owner) = self.heartbeats.get(&id) {
            self.turn(owner, effects, |machine| machine.handle_heartbeat(now, &sample.key, &sample.payload));
        } else if let Some(&owner) = self.tokens.get(&id) {
            let alive = sample.kind == SampleKind::Put;
            self.turn(owner, effects, |machine| machine.handle_token(now, &sample.key, alive));
        }
    }

    /// Handles a reply. Returns whether it belongs to a cache query of this module.
    pub(crate) fn handle_reply(
        &mut self,
        now: Now,
        get: GetId,
        sample: Option<Sample>,
        effects: &mut Effects,
    ) {
        let (Some(&(owner, ask)), Some(sample)) = (self.asks.get(&get), sample) else { return };
        self.turn(owner, effects, |machine| machine.handle_reply(now, ask, sample));
    }

    /// Handles the end of a cache query.
    pub(crate) fn handle_done(&mut self, now: Now, get: GetId, end: GetEnd, effects: &mut Effects) {
        let Some((owner, ask)) = self.asks.remove(&get) else { return };
        let how = match end {
            GetEnd::Completed | GetEnd::NoQueryable | GetEnd::BudgetSpent => Answered::Fully,
            GetEnd::TimedOut | GetEnd::Cancelled => Answered::Partly,
            GetEnd::LinkLost => Answered::NotAsked,
        };
        self.turn(owner, effects, |machine| machine.handle_answered(now, ask, how));
    }

    fn turn(&mut self, id: EntityId, effects: &mut Effects, work: impl FnOnce(&mut Subscriber)) {
        if let Some(following) = self.subscribers.get_mut(&id) {
            work(&mut following.machine);
            self.drain(id, effects);
        }
    }

    /// Processes the outputs of a subscriber; its cache queries are only collected in `wanted`.
    fn drain(&mut self, id: EntityId, effects: &mut Effects) {
        let Some(following) = self.subscribers.get_mut(&id) else { return };
        while let Some(output) = following.machine.poll_output() {
            match output {
                Output::Sample(sample) => give(&following.queue, sample, effects),
                Output::Miss(miss) => {
                    for queue in &following.misses {
                        if queue.push(miss).0 == Pushed::Over {
                            effects.waits.push(Wait::Misses(queue.clone()));
                        }
                        effects.signal(Signal::Misses(queue.clone()));
                    }
                }
                Output::Ask(ask) => self.wanted.push((id, ask)),
            }
        }
        rearm(&mut self.deadlines, &mut following.armed, id, following.machine.poll_timeout());
    }

    /// Whether cache queries are waiting to be sent.
    pub(crate) fn wants(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// The next deadline of any of the machines.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Removes an advanced entity; the caller has to undeclare the parts returned and cancel the gets.
    fn remove(&mut self, id: EntityId, effects: &mut Effects) -> (Vec<EntityId>, Vec<GetId>) {
        if let Some(publishing) = self.publishers.remove(&id) {
            if let Some(at) = publishing.armed {
                self.deadlines.remove(&(at, id));
            }
            effects.garbage(Garbage::Publisher(Box::new(publishing.machine)));
            return (publishing.parts, Vec::new());
        }
        let Some(following) = self.subscribers.remove(&id) else { return Default::default() };
        following.end();
        if let Some(at) = following.armed {
            self.deadlines.remove(&(at, id));
        }
        self.wanted.retain(|&(owner, _)| owner != id);
        for part in &following.parts {
            self.tokens.remove(part);
            self.heartbeats.remove(part);
        }
        let gets = self.asks.extract_if(|_, (owner, _)| *owner == id).map(|(get, _)| get).collect();
        effects.garbage(Garbage::Subscriber(Box::new(following.machine)));
        (following.parts, gets)
    }

    /// Ends all advanced entities.
    pub(crate) fn close(&mut self, effects: &mut Effects) {
        let all: Vec<EntityId> = self.subscribers.keys().chain(self.publishers.keys()).copied().collect();
        for id in all {
            self.remove(id, effects);
        }
    }
}

impl Following {
    fn end(&self) {
        self.queue.close();
        for queue in &self.misses {
            queue.close();
        }
    }
}

impl Core {
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
                    let answered = |machine: &mut Subscriber| {
                        machine.handle_answered(now, ask.id, Answered::NotAsked);
                    };
                    self.advanced.turn(id, effects, answered);
                }
            }
        }
        true
    }

    /// Publishes with a sequence number and puts the sample into the cache.
    fn publish_advanced(
        &mut self,
        now: Now,
        id: EntityId,
        mut body: PushBody,
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
        if let Some(old) = publishing.machine.publish(now, &mut body) {
            effects.garbage(Garbage::Body(old));
        }
        let at = publishing.machine.poll_timeout();
        rearm(&mut self.advanced.deadlines, &mut publishing.armed, id, at);
        self.publish(now, id, body, stamps, effects)
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
            if let (Some(payload), Some(heartbeat)) = (told, publishing.heartbeat)
                && let Err(error) =
                    self.publish(now, heartbeat, PushBody::Put(Put::new(payload)), None, effects)
            {
                tracing::debug!(%error, "sending a heartbeat failed");
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
async fn answer(shared: Weak<Shared>, publisher: EntityId, queue: Arc<Queue<Query>>, asked: Arc<Notify>) {
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
    /// none; see [`Error`].
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
            let source = Source { zid, eid: id.0 };
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
            let heartbeat = match advanced.heartbeat.filter(|_| advanced.numbered) {
                None => None,
                Some(heartbeat) => {
                    let congestion = match heartbeat {
                        Heartbeat::Periodic(_) => CongestionControl::Drop,
                        // A lost sporadic heartbeat has no successor that would make up for it.
                        Heartbeat::Sporadic(_) => CongestionControl::Block,
                    };
                    let options = PublisherOptions {
                        qos: Qos::new(Priority::Data, congestion, false),
                        reliability: Reliability::Reliable,
                        destination: origin,
                    };
                    let id = core.api.declare_publisher(now, beside.clone(), options)?;
                    parts.push(id);
                    Some(id)
                }
            };
            if advanced.detection {
                parts.push(core.api.declare_token(now, beside)?);
            }
            let publishing = Publishing {
                machine: Publisher::new(config),
                key,
                express: advanced.express,
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
            self.shared().adopt([self.shared().runtime.spawn(task).abort_handle()]);
        }
        Ok(id)
    }

    /// Publishes or deletes with the key and options of an advanced publisher.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn publish_advanced(
        &self,
        publisher: EntityId,
        qos: Qos,
        body: PushBody,
        stamps: Option<Box<Stamps>>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Published, Error> {
        self.shared().grace(qos, &body)?;
        self.command(interrupted, |core, now, effects| {
            Ok(core.publish_advanced(now, publisher, body, stamps, effects)?)
        })
    }

    /// Declares an advanced subscriber; its samples arrive in the queue returned.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn declare_advanced_subscriber(
        &self,
        key: KeyExpr,
        options: AdvancedSubscriberOptions,
        handler: Handler,
    ) -> Result<(EntityId, Arc<Queue<Sample>>), Error> {
        self.follow(key, options, handler, None)
    }

    /// Declares a subscriber that delivers every sample, for a log for example, and does not query
    /// samples that are `Known` already; otherwise as [`Self::declare_advanced_subscriber`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn declare_keeping_subscriber(
        &self,
        key: KeyExpr,
        options: AdvancedSubscriberOptions,
        handler: Handler,
        known: &Known,
    ) -> Result<(EntityId, Arc<Queue<Sample>>), Error> {
        self.follow(key, options, handler, Some(known))
    }

    fn follow(
        &self,
        key: KeyExpr,
        options: AdvancedSubscriberOptions,
        handler: Handler,
        known: Option<&Known>,
    ) -> Result<(EntityId, Arc<Queue<Sample>>), Error> {
        let AdvancedSubscriberOptions { origin, history, recovery, detection } = options;
        let queue = self.queue("advanced subscriber", &key, handler);
        let zid = self.zid();
        let publishers = keys::of_all_publishers(&key)?;
        let followed = queue.clone();
        let id = self.command(&mut || false, |core, now, effects| {
            effects.told = true;
            let id = core.api.declare_subscriber(now, key.clone(), SubscriberOptions { origin })?;
            let keeps = known.is_some();
            let config = SubscriberConfig { history, recovery, keeps, ..SubscriberConfig::new(key.clone()) };
            let mut parts = Vec::new();
            if recovery == Some(Recovery::Heartbeat) {
                let part =
                    core.api.declare_subscriber(now, publishers.clone(), SubscriberOptions { origin })?;
                core.advanced.heartbeats.insert(part, id);
                parts.push(part);
            }
            if history.is_some_and(|history| history.late) {
                let part = core.api.declare_liveliness_subscriber(now, publishers, true)?;
                core.advanced.tokens.insert(part, id);
                parts.push(part);
            }
            if detection {
                let token = keys::of_subscriber(&key, Source { zid, eid: id.0 })?;
                parts.push(core.api.declare_token(now, token)?);
            }
            let mut machine = Subscriber::new(config);
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
    ///
    /// # Errors
    /// See [`Error`].
    pub fn miss_listener(&self, subscriber: EntityId, handler: Handler) -> Result<Arc<Queue<Miss>>, Error> {
        let queue = Queue::new(self.bounds(handler));
        self.declare(|core, _| {
            let following = core.advanced.subscribers.get_mut(&subscriber);
            following.ok_or(Error::Undeclared { what: "subscriber" })?.misses.push(queue.clone());
            Ok(queue)
        })
    }

    /// Ends a listener made by [`Self::miss_listener`].
    pub fn forget_miss_listener(&self, subscriber: EntityId, queue: &Arc<Queue<Miss>>) {
        // A forked child inherits locks in an undefined state, and has nothing to end.
        if !self.birth().is_here() {
            return;
        }
        if let Some(following) = self.shared().core.lock().advanced.subscribers.get_mut(&subscriber) {
            following.misses.retain(|known| !Arc::ptr_eq(known, queue));
        }
        queue.close();
    }
}
