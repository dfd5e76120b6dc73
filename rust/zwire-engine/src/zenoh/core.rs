//! [`SessionCore`]: the machines of one node behind one lock, and the dispatch of their outputs.

use crate::{
    rt::queue::{Queue, Weigh},
    zenoh::{
        advanced::Advanced,
        connectivity::Connectivity,
        effects::{Effects, Garbage, Replies, Wait, give},
        link::{Link, PeerFault, PushOutcome, Urgency},
        origins::Origins,
        query::{Query, QueryHost},
        totals::{ConsumerKind, Past},
    },
};
// Its hash is quicker than that of the standard library. The keys in here are numbers of ours.
use core::time::Duration;
use hashbrown::HashMap;
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};
use zwire_proto::{
    Now,
    zenoh::{
        KeyExpr, Priority, Qos, Reliability,
        intercept::refusal,
        node::{FaceId, Node, NodeEvent},
        session::{BarrierEnd, BarrierId, DataSink, EntityId, Event, GetId, Sample, Session},
        wire::{NetworkMessage, ResponseFinal},
    },
};

/// The face of the session in the same process.
pub(crate) const LOCAL: FaceId = FaceId(0);

/// Side that the API session exchanges messages with.
pub(crate) enum Side {
    /// A client: its only link, while there is one.
    Client(Option<Arc<Link>>),
    /// A router or peer: the routing machine and its links.
    Node(Box<NodeSide>),
}

impl Side {
    /// Gives a message of a face, other than data, to the machine that faces the links.
    fn take(
        &mut self,
        api: &mut Session,
        now: Now,
        face: FaceId,
        message: NetworkMessage,
        reliability: Reliability,
    ) -> Result<(), PeerFault> {
        match self {
            Self::Client(_) => Ok(api.handle_message(now, message, reliability)?),
            Self::Node(side) => Ok(side.node.handle_message(now, face, message, reliability)?),
        }
    }
}

pub(crate) struct NodeSide {
    pub(crate) node: Node,
    pub(crate) links: HashMap<FaceId, Arc<Link>>,
    /// Members of multicast groups, with the links of these.
    pub(crate) members: HashMap<FaceId, Arc<Link>>,
    next_face: u32,
}

impl NodeSide {
    pub(crate) fn new(node: Node) -> Self {
        Self { node, links: HashMap::new(), members: HashMap::new(), next_face: LOCAL.0 + 1 }
    }

    /// Takes the events of the node about other nodes.
    fn hear(&mut self, effects: &mut Effects) {
        while let Some(event) = self.node.poll_event() {
            let neighbour = match &event {
                NodeEvent::Ready { face } => self.links.get(face).map(|link| link.params.remote.zid),
                NodeEvent::ClockAhead { face, .. } => self.node.remote(*face).map(|remote| remote.zid),
                NodeEvent::Discovered { .. } => None,
            };
            effects.events.push((event, neighbour));
        }
    }

    pub(crate) fn new_face(&mut self) -> FaceId {
        // 2^32 links in the life of one process do not happen; wrapping into LOCAL would be wrong.
        let face = FaceId(self.next_face);
        self.next_face = self.next_face.checked_add(1).unwrap_or(LOCAL.0 + 1);
        face
    }
}

/// Messages of the node for which there is always room.
const MANY_MESSAGES: usize = 4096;

/// The machines of one node.
pub(crate) struct SessionCore {
    pub(crate) api: Session,
    pub(crate) side: Side,
    pub(crate) samples: HashMap<EntityId, Arc<Queue<Sample>>>,
    pub(crate) queries: HashMap<EntityId, Arc<Queue<Query>>>,
    pub(crate) gets: HashMap<GetId, Replies>,
    pub(crate) advanced: Advanced,
    /// Locators of the other ends of links, by the link numbers of samples.
    pub(crate) origins: Arc<Origins>,
    /// The number of a client's link; those of nodes are their faces.
    client_link: u32,
    pub(crate) matching: HashMap<EntityId, Vec<Arc<Queue<bool>>>>,
    pub(crate) connectivity: Connectivity,
    /// Counters of links and queues that no longer exist.
    pub(crate) past: Past,
    /// Kind and key of each consumer.
    pub(crate) consumers: HashMap<EntityId, (ConsumerKind, KeyExpr)>,
    /// Barriers that callers wait for, and how they ended.
    pub(crate) barriers: HashMap<BarrierId, Option<BarrierEnd>>,
    // Emptied by `pump`, kept for their memory.
    events: VecDeque<Event>,
    from_api: VecDeque<(NetworkMessage, Reliability)>,
    from_node: VecDeque<(FaceId, NetworkMessage, Reliability)>,
    back: Vec<(FaceId, NetworkMessage)>,
    host: Weak<dyn QueryHost>,
}

impl SessionCore {
    pub(crate) fn new(api: Session, side: Side, host: Weak<dyn QueryHost>) -> Self {
        let one_link = matches!(side, Side::Client(_));
        Self {
            api,
            side,
            samples: HashMap::new(),
            queries: HashMap::new(),
            gets: HashMap::new(),
            advanced: Advanced::default(),
            origins: Arc::default(),
            client_link: 0,
            matching: HashMap::new(),
            connectivity: Connectivity::new(one_link),
            past: Past::default(),
            consumers: HashMap::new(),
            barriers: HashMap::new(),
            events: VecDeque::new(),
            from_api: VecDeque::new(),
            from_node: VecDeque::new(),
            back: Vec::new(),
            host,
        }
    }

    /// Handles a message of a link and takes its content.
    pub(crate) fn handle_message(
        &mut self,
        now: Now,
        face: FaceId,
        message: &mut NetworkMessage,
        reliability: Reliability,
        effects: &mut Effects,
    ) -> Result<(), PeerFault> {
        if matches!(message, NetworkMessage::Push(_)) {
            return self.handle_push(now, face, message, reliability, effects);
        }
        effects.told = true;
        let message = core::mem::replace(message, NOTHING);
        let result = self.side.take(&mut self.api, now, face, message, reliability);
        self.pump(now, effects);
        result
    }

    /// After a message of a link: the time until which its further messages wait; see [`Node::take_wait`].
    #[inline]
    pub(crate) fn take_wait(&mut self, face: FaceId) -> Option<Duration> {
        match &mut self.side {
            Side::Client(_) => None,
            Side::Node(side) => side.node.take_wait(face),
        }
    }

    /// Counts the new link of a client.
    pub(crate) fn client_link_up(&mut self, locator: &str) {
        self.client_link = self.client_link.wrapping_add(1).max(1);
        self.origins.add(self.client_link, locator);
    }

    /// A PUSH of a link. Data does not wait in the queues of the machines, which are empty between two
    /// inputs: it goes from machine to machine by reference, and is moved once, into the queue of its
    /// subscriber.
    fn handle_push(
        &mut self,
        now: Now,
        face: FaceId,
        message: &mut NetworkMessage,
        reliability: Reliability,
        effects: &mut Effects,
    ) -> Result<(), PeerFault> {
        let Self { api, side, samples, advanced, client_link, .. } = self;
        match side {
            Side::Client(_) => {
                let mut sink = ToSubscribers { now, samples, advanced, effects };
                sink.push(api, message, reliability, *client_link);
                Ok(())
            }
            Side::Node(side) => {
                let links = &side.links;
                let result = side.node.forward(now, face, message, |to, message| {
                    if to != LOCAL {
                        if let Some(link) = links.get(&to) {
                            send(link, message, reliability, effects);
                        }
                    } else {
                        let mut sink = ToSubscribers { now, samples, advanced, effects };
                        sink.push(api, message, reliability, face.0);
                    }
                });
                result.map_err(PeerFault::from)
            }
        }
    }

    /// The session of the application, and the sink that its publications go to.
    #[inline]
    pub(crate) fn outwards<'a>(
        &'a mut self,
        now: Now,
        effects: &'a mut Effects,
    ) -> (&'a mut Session, Outwards<'a>) {
        let Self { api, side, samples, advanced, .. } = self;
        let subscribers = ToSubscribers { now, samples, advanced, effects };
        (api, Outwards { now, side, subscribers })
    }

    /// Drains every output of the machines.
    ///
    /// Whole queues are taken, not single messages, which are large: the machines pass nothing on
    /// out of order, so it does not matter that several wait together.
    pub(crate) fn pump(&mut self, now: Now, effects: &mut Effects) {
        // Fast path: publications leave nothing in the output queues.
        if self.is_drained() {
            return;
        }
        loop {
            let mut events = core::mem::take(&mut self.events);
            self.api.take_events(&mut events);
            let mut quiet = events.is_empty();
            for event in events.drain(..) {
                self.dispatch(now, event, effects);
            }
            self.events = events;
            quiet &= !self.ask_caches(now, effects);

            self.api.take_transmits(&mut self.from_api);
            quiet &= self.from_api.is_empty();
            match &mut self.side {
                Side::Client(link) => {
                    if let Some(link) = link {
                        for (message, reliability) in &self.from_api {
                            let back = send(link, message, *reliability, effects);
                            self.back.extend(back.map(|message| (FaceId(1), message)));
                        }
                    }
                    self.from_api.clear();
                }
                Side::Node(side) => {
                    for (message, reliability) in self.from_api.drain(..) {
                        // Our own session stays within the bounds that hostile faces meet.
                        if let Err(error) = side.node.handle_message(now, LOCAL, message, reliability) {
                            tracing::warn!(%error, "the node refused a message of its own session");
                        }
                    }
                    side.hear(effects);
                    side.node.take_transmits(&mut self.from_node);
                    quiet &= self.from_node.is_empty();
                    for (face, message, reliability) in self.from_node.drain(..) {
                        if face != LOCAL {
                            if let Some(link) = side.links.get(&face) {
                                let back = send(link, &message, reliability, effects);
                                self.back.extend(back.map(|message| (face, message)));
                            }
                        } else if let Err(error) = self.api.handle_message(now, message, reliability) {
                            tracing::warn!(%error, "the session refused a message of its own node");
                        }
                    }
                }
            }
            quiet &= self.back.is_empty();
            let mut back = core::mem::take(&mut self.back);
            for (face, message) in back.drain(..) {
                // The answer to a message that the policy refused is handled as if the peer had sent it.
                let result = self.side.take(&mut self.api, now, face, message, Reliability::Reliable);
                if result.is_err() {
                    tracing::warn!("an answer to what was held back is refused");
                }
            }
            self.back = back;
            if quiet {
                // An answer to an interest may have filled it with a message for each key there is.
                if self.from_node.capacity() > MANY_MESSAGES {
                    self.from_node.shrink_to(MANY_MESSAGES);
                }
                return;
            }
        }
    }

    /// Whether the output queues of all machines are empty.
    fn is_drained(&self) -> bool {
        self.api.is_drained()
            && !self.advanced.wants()
            && match &self.side {
                Side::Client(_) => true,
                Side::Node(side) => side.node.is_drained(),
            }
    }

    fn dispatch(&mut self, now: Now, event: Event, effects: &mut Effects) {
        match event {
            Event::Sample { subscriber, sample } => {
                let Self { samples, advanced, .. } = self;
                ToSubscribers { now, samples, advanced, effects }.sample(subscriber, sample);
            }
            Event::Query { queryable, query } => {
                let query = Query::new(self.host.clone(), query);
                match self.queries.get(&queryable) {
                    Some(queue) => {
                        let (pushed, out) = queue.push(query);
                        effects.garbage.extend(out.into_iter().map(Garbage::Query));
                        effects.pushed(queue, pushed);
                    }
                    None => effects.garbage.push(Garbage::Query(query)),
                }
            }
            Event::Reply { get, mut reply } => {
                if let Some(replies) = self.gets.get(&get) {
                    let (pushed, out) = replies.queue.push(reply);
                    effects.garbage.extend(out.into_iter().map(Garbage::Reply));
                    effects.pushed(&replies.queue, pushed);
                } else if reply.secure() {
                    self.advanced.handle_reply(now, get, reply.result.ok(), effects);
                } else {
                    effects.garbage.push(Garbage::Reply(reply));
                }
            }
            Event::GetDone { get, reason } => {
                if let Some(replies) = self.gets.remove(&get) {
                    // Set once: a get ends once.
                    let _ = replies.done.set(reason);
                    self.past.replies_dropped += replies.queue.dropped();
                    replies.queue.close();
                } else {
                    self.advanced.handle_done(now, get, reason, effects);
                }
            }
            Event::Matching { entity, matching } => {
                for queue in self.matching.get(&entity).into_iter().flatten() {
                    queue.push(matching);
                    queue.signal();
                }
            }
            Event::Passed { barrier, end } => {
                effects.told = true;
                if let Some(slot) = self.barriers.get_mut(&barrier) {
                    *slot = Some(end);
                }
            }
        }
    }

    /// Takes the events of the node that data caused, and asks for samples that are missing.
    pub(crate) fn hear(&mut self, now: Now, effects: &mut Effects) {
        if self.advanced.wants() {
            self.pump(now, effects);
        }
        if let Side::Node(side) = &mut self.side {
            side.hear(effects);
        }
    }

    /// Number of counterparts of a publisher or querier that this node knows.
    pub(crate) fn count_matching(&self, id: EntityId) -> Option<usize> {
        let matches = self.api.matches(id)?;
        let remote = match &self.side {
            Side::Client(_) => matches.remote,
            Side::Node(_) if !matches.wants_remote => 0,
            Side::Node(side) => {
                side.node.count_matching(LOCAL, matches.queryables, &matches.key, matches.only_complete)
            }
        };
        Some(matches.local + remote)
    }

    /// The established links.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        match &self.side {
            Side::Client(link) => link.iter().cloned().collect(),
            Side::Node(side) => side.links.values().cloned().collect(),
        }
    }

    /// Removes the queues of an entity and closes them.
    pub(crate) fn forget(&mut self, entity: EntityId, effects: &mut Effects) {
        self.consumers.remove(&entity);
        if let Some(queue) = self.samples.remove(&entity) {
            queue.close();
            self.past.samples_dropped += queue.dropped();
            self.past.samples_replaced += queue.replaced();
        }
        if let Some(queue) = self.queries.remove(&entity) {
            queue.close();
            self.past.queries_dropped += queue.dropped();
            // Queries without a consumer are finished when the last owner of the queue drops them.
            effects.garbage.push(Garbage::Queries(queue));
        }
        for queue in self.matching.remove(&entity).into_iter().flatten() {
            queue.close();
        }
    }

    /// The next time at which a machine wants to be turned.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let node = match &self.side {
            Side::Client(_) => None,
            Side::Node(side) => side.node.poll_timeout(),
        };
        [self.api.poll_timeout(), self.advanced.poll_timeout(), node].into_iter().flatten().min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Now, effects: &mut Effects) {
        self.api.handle_timeout(now);
        self.pump(now, effects);
        self.advanced_timeouts(now, effects);
        if let Side::Node(side) = &mut self.side {
            let NodeSide { node, links, .. } = &mut **side;
            // Declarations go on the lane of control.
            node.handle_timeout_where(now, &|face| {
                links.get(&face).is_none_or(|link| !link.is_congested(Priority::Control))
            });
        }
        self.pump(now, effects);
    }
}

/// Placeholder for a message that was taken out.
const NOTHING: NetworkMessage =
    NetworkMessage::ResponseFinal(ResponseFinal { id: 0, qos: Qos::DEFAULT, timestamp: None });

/// Samples into the queues of their subscribers.
struct ToSubscribers<'a> {
    now: Now,
    samples: &'a HashMap<EntityId, Arc<Queue<Sample>>>,
    advanced: &'a mut Advanced,
    effects: &'a mut Effects,
}

impl ToSubscribers<'_> {
    /// Delivers a PUSH that has come by `link`.
    #[inline]
    fn push(&mut self, api: &mut Session, message: &mut NetworkMessage, reliability: Reliability, link: u32) {
        if let NetworkMessage::Push(push) = message {
            api.handle_push_to(self.now, push, reliability, |id, mut sample| {
                sample.link = link;
                self.sample(id, sample);
            });
        }
    }

    #[inline]
    fn sample(&mut self, subscriber: EntityId, mut sample: Sample) {
        match self.samples.get(&subscriber) {
            Some(queue) => give(queue, sample, self.effects),
            // One that waits for those before it does so in memory that stays.
            None if sample.payload.secure() => {
                self.advanced.handle_sample(self.now, subscriber, sample, self.effects);
            }
            None => self.effects.garbage.push(Garbage::Sample(sample)),
        }
    }
}

/// Publications of our own session to the links that want them.
pub(crate) struct Outwards<'a> {
    now: Now,
    side: &'a mut Side,
    subscribers: ToSubscribers<'a>,
}

impl DataSink for Outwards<'_> {
    #[inline]
    fn push(&mut self, message: &mut NetworkMessage, reliability: Reliability) {
        let effects = &mut *self.subscribers.effects;
        match &mut *self.side {
            // No peer waits for an answer to data.
            Side::Client(Some(link)) => drop(send(link, message, reliability, effects)),
            // The session knows that it has no link, and sends nothing.
            Side::Client(None) => {}
            Side::Node(side) => {
                let links = &side.links;
                // Our own session stays within the bounds that hostile faces meet. What it says does not
                // come back to it.
                let result = side.node.forward(self.now, LOCAL, message, |to, message| {
                    if let Some(link) = links.get(&to) {
                        send(link, message, reliability, effects);
                    }
                });
                if let Err(error) = result {
                    tracing::warn!(%error, "the node refused a message of its own session");
                }
            }
        }
    }

    #[inline]
    fn sample(&mut self, subscriber: EntityId, sample: Sample) {
        self.subscribers.sample(subscriber, sample);
    }
}

/// Sends a message on a link. Returns the answer to a message that the policy of the node refuses, if its sender
/// waits for one.
fn send(
    link: &Arc<Link>,
    message: &NetworkMessage,
    reliability: Reliability,
    effects: &mut Effects,
) -> Option<NetworkMessage> {
    // A link sends what stays. A message that lost its payload is as one that the policy refuses.
    let Some(message) = message.secured() else { return refusal(message) };
    let message = &*message;
    let collect = match message {
        NetworkMessage::Push(push) if !effects.many && !push.qos.express() => effects.moment,
        _ => None,
    };
    match link.push(message, reliability, collect) {
        PushOutcome::Refused => return refusal(message),
        PushOutcome::Dropped => {
            // A lane gets no second grace until it has drained.
            effects.congested |= !link.is_weary(message.qos().priority());
            return None;
        }
        PushOutcome::Gathered => {
            effects.gathered = true;
            return None;
        }
        PushOutcome::Urgent => {
            effects.settle_later(link, Urgency::Now);
            return None;
        }
        PushOutcome::Queued => {}
        PushOutcome::Full => effects.congested |= !link.is_weary(message.qos().priority()),
        PushOutcome::Over => {
            effects.congested = true;
            let priority = message.qos().priority();
            let known = |w: &Wait| matches!(w, Wait::Link(l, p) if *p == priority && Arc::ptr_eq(l, link));
            if !effects.waits.iter().any(known) {
                effects.waits.push(Wait::Link(link.clone(), priority));
            }
        }
    }
    let urgency = match message {
        NetworkMessage::Push(push) if !push.qos.express() => Urgency::Batch,
        NetworkMessage::Request(request) if effects.asks && !request.qos.express() => Urgency::Batch,
        // The final follows, and takes it along.
        NetworkMessage::Response(response) if !response.qos.express() => Urgency::Later,
        NetworkMessage::ResponseFinal(last) if effects.followed && !last.qos.express() => Urgency::Later,
        _ => Urgency::Now,
    };
    effects.settle_later(link, urgency);
    None
}
