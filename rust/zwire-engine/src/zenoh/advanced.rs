//! Advanced publishers and subscribers: drives their state machines beside the session that they use.
//!
//! The machines share the lock of the session. Publications numbered by an advanced publisher leave in
//! the order of their numbers; samples released by an advanced subscriber enter the queue of its user at
//! once, like any sample. Cache queries are gets of the session. A cache answers from a task of its own,
//! a few samples at a time, so that a long answer waits for its link and blocks nothing else.

use crate::{
    rt::queue::{Queue, Weigh},
    zenoh::effects::{Effects, Garbage, give},
};
use core::time::Duration;
use hashbrown::HashMap;
use std::{collections::BTreeSet, sync::Arc};
use zwire_proto::{
    Now,
    zenoh::{
        KeyExpr, Timestamp,
        advanced::{
            AdvancedPublisher, AdvancedSubscriber, Answered, Ask, AskId, HeartbeatMode, History, Miss,
            Output, Recovery, SampleSource,
        },
        session::{EntityId, GetEnd, GetId, Locality, Sample, SampleKind},
    },
};

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
    pub heartbeat: Option<HeartbeatMode>,
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
    pub numbers: Vec<(SampleSource, u32)>,
    /// Last timestamp of all other samples, by key and clock.
    pub times: Vec<(KeyExpr, Timestamp)>,
}

impl Weigh for Miss {
    fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

/// State of an advanced subscriber.
pub(super) struct Following {
    pub(super) machine: AdvancedSubscriber,
    pub(super) queue: Arc<Queue<Sample>>,
    pub(super) misses: Vec<Arc<Queue<Miss>>>,
    pub(super) origin: Locality,
    /// Entities declared on behalf of it.
    pub(super) parts: Vec<EntityId>,
    pub(super) armed: Option<Duration>,
}

/// State of an advanced publisher.
pub(super) struct Publishing {
    pub(super) machine: AdvancedPublisher,
    pub(super) key: KeyExpr,
    pub(super) express: Option<bool>,
    /// Whether it has a cache.
    pub(super) cached: bool,
    /// Whether its publications get timestamps from the session's clock.
    pub(super) stamps: bool,
    /// Publisher of its heartbeats.
    pub(super) heartbeat: Option<EntityId>,
    /// Entities declared on behalf of it.
    pub(super) parts: Vec<EntityId>,
    pub(super) armed: Option<Duration>,
}

/// All advanced publishers and subscribers of a session.
#[derive(Default)]
pub(crate) struct Advanced {
    pub(super) subscribers: HashMap<EntityId, Following>,
    pub(super) publishers: HashMap<EntityId, Publishing>,
    /// Subscribers to tokens, and the advanced subscriber that each belongs to; likewise for heartbeats
    /// below.
    pub(super) tokens: HashMap<EntityId, EntityId>,
    pub(super) heartbeats: HashMap<EntityId, EntityId>,
    /// Gets in flight, with the subscriber and the request that each belongs to.
    pub(super) asks: HashMap<GetId, (EntityId, AskId)>,
    /// Cache queries that are yet to be sent as gets.
    pub(super) wanted: Vec<(EntityId, Ask)>,
    pub(super) deadlines: BTreeSet<(Duration, EntityId)>,
}

pub(super) fn rearm(
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

    pub(super) fn turn(
        &mut self,
        id: EntityId,
        effects: &mut Effects,
        work: impl FnOnce(&mut AdvancedSubscriber),
    ) {
        if let Some(following) = self.subscribers.get_mut(&id) {
            work(&mut following.machine);
            self.drain(id, effects);
        }
    }

    /// Processes the outputs of a subscriber; its cache queries are only collected in `wanted`.
    pub(super) fn drain(&mut self, id: EntityId, effects: &mut Effects) {
        let Some(following) = self.subscribers.get_mut(&id) else { return };
        while let Some(output) = following.machine.poll_output() {
            match output {
                Output::Sample(sample) => give(&following.queue, sample, effects),
                Output::Miss(miss) => {
                    for queue in &following.misses {
                        effects.pushed(queue, queue.push(miss).0);
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
    pub(super) fn remove(&mut self, id: EntityId, effects: &mut Effects) -> (Vec<EntityId>, Vec<GetId>) {
        if let Some(mut publishing) = self.publishers.remove(&id) {
            rearm(&mut self.deadlines, &mut publishing.armed, id, None);
            effects.garbage.push(Garbage::Publisher(Box::new(publishing.machine)));
            return (publishing.parts, Vec::new());
        }
        let Some(mut following) = self.subscribers.remove(&id) else { return Default::default() };
        following.queue.close();
        following.misses.iter().for_each(|queue| queue.close());
        rearm(&mut self.deadlines, &mut following.armed, id, None);
        self.wanted.retain(|&(owner, _)| owner != id);
        for part in &following.parts {
            self.tokens.remove(part);
            self.heartbeats.remove(part);
        }
        let gets = self.asks.extract_if(|_, (owner, _)| *owner == id).map(|(get, _)| get).collect();
        effects.garbage.push(Garbage::Subscriber(Box::new(following.machine)));
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
