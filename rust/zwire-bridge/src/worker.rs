//! [`Worker`]: the thread of a bridge.

use crate::{
    error::Result,
    mirror::{Info, Virtual},
    net::{Far, Incoming},
    options::{Mode, Options},
    shared::{Shared, State},
};
use bytes::{Bytes, BytesMut};
use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};
use zwire_engine::{
    Caller, Deferred, Full, Handler, Patience, Query, Queue, Session, clock,
    zre::{BatchTarget, LogCollector, Node, NodeOptions, RECORDS},
};
use zwire_proto::{
    Text,
    bridge::{
        Attachment, Beat, Channel, Election, Lanes, Network, Reserve, Rules, Sender, Standing, Takeover,
        Windows,
    },
    zenoh::{
        CongestionControl, Encoding, KeyExpr, Payload, Priority, Qos, WhatAmI, ZenohId,
        session::{EntityId, Publication, QueryableOptions, Sample, SubscriberOptions},
        wire::{PushBody, Put},
    },
    zre::{Generation, Uuid},
};

/// Header of the nodes of a bridge, with its id.
pub(crate) const HEADER: &str = "X-ZENOH-BRIDGE";

/// Header of the nodes of a bridge that stand for peers of other networks.
pub(crate) const MIRROR_HEADER: &str = "X-ZENOH-MIRROR";

/// Samples that wait for the thread, which never waits itself.
const QUEUE: Handler = Handler::Channel(65_536, Full::DropOldest);

/// Items, and octets, that are taken from a queue before the other ones have their turn.
const AT_ONCE: usize = 1024;
const AT_ONCE_BYTES: usize = 4 << 20;

/// Messages that are published in one go.
const BATCH: usize = 256;

/// Time between two looks at what has no event of its own: deadlines, the links of the session, descriptions to publish.
const TICK: Duration = Duration::from_millis(50);

/// Pause before a full queue is tried again.
pub(crate) const RETRY: Duration = Duration::from_millis(2);

/// Part that the bridge plays, as far as messages are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Messages are kept, for a takeover.
    Reserve,
    /// The bridge takes over once it has what the one before has passed on.
    Taking(Takeover),
    /// Messages are forwarded.
    Active,
}

/// Kind of a peer of the LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A peer like any other.
    Real,
    /// Node of a bridge, of which the id may be unreadable.
    Bridge {
        id: Option<ZenohId>,
        /// Whether it stands for a peer of another network.
        mirror: bool,
    },
}

/// Where the SHOUTs of a peer to a group go.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) key: KeyExpr,
    pub(crate) rule: usize,
}

/// Peer of the LAN.
pub(crate) struct Peer {
    pub(crate) kind: Kind,
    pub(crate) name: Text,
    /// Endpoint of its mailbox.
    pub(crate) address: Text,
    /// Hash of it, by which records of ZRE/LOG name the peer.
    pub(crate) log_hash: u16,
    pub(crate) headers: Vec<(Text, Text)>,
    pub(crate) generation: Option<Generation>,
    pub(crate) groups: BTreeSet<Text>,
    pub(crate) token: Option<EntityId>,
    pub(crate) members: HashMap<Text, EntityId>,
    /// Number of the last message to Zenoh.
    pub(crate) number: u64,
    /// Groups that it has sent to; `None`: the group does not cross.
    pub(crate) targets: HashMap<Text, Option<Target>>,
    pub(crate) evasive: bool,
    /// Whether its description has changed since it was published.
    pub(crate) changed: bool,
}

/// Group that a rule names.
#[derive(Default)]
pub(crate) struct Group {
    /// Members in the LAN.
    pub(crate) lan: usize,
    /// Members elsewhere.
    pub(crate) far: BTreeSet<Uuid>,
    /// Whether a rule names just this group.
    pub(crate) literal: bool,
    pub(crate) joined: bool,
}

/// Message on its way to Zenoh.
pub(crate) struct Outgoing {
    pub(crate) sender: Uuid,
    pub(crate) key: KeyExpr,
    pub(crate) payload: Payload,
    pub(crate) encoding: Encoding,
    /// Empty as long as the message is in reserve.
    pub(crate) attachment: Bytes,
}

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) session: Session,
    pub(crate) own: ZenohId,
    pub(crate) network: Network,
    pub(crate) mode: Mode,
    pub(crate) whispers: bool,
    pub(crate) patience: Duration,
    pub(crate) most_virtual: usize,
    /// Options of nodes of the mirror mode.
    pub(crate) template: NodeOptions,
    /// Encoding of contents of several frames.
    pub(crate) several: Encoding,
    pub(crate) rules: Rules,
    /// Rules of groups, found before.
    pub(crate) found: HashMap<Text, Option<usize>>,
    pub(crate) node: Node,
    pub(crate) log: Option<LogCollector>,
    entities: Vec<EntityId>,
    token: EntityId,
    samples: Arc<Queue<Sample>>,
    peer_tokens: Arc<Queue<Sample>>,
    member_tokens: Arc<Queue<Sample>>,
    bridge_tokens: Arc<Queue<Sample>>,
    beats: Arc<Queue<Sample>>,
    infos: Arc<Queue<Query>>,
    whisper_queries: Option<Arc<Queue<Query>>>,
    pub(crate) peers: HashMap<Uuid, Peer>,
    pub(crate) far: HashMap<Uuid, Far>,
    pub(crate) groups: HashMap<Text, Group>,
    pub(crate) election: Election,
    pub(crate) role: Role,
    pub(crate) windows: Windows,
    pub(crate) out: Lanes<Uuid, Outgoing>,
    batch: VecDeque<Outgoing>,
    /// Whether the link is full.
    blocked: Arc<AtomicBool>,
    pub(crate) inward: Lanes<Sender, Incoming>,
    /// Targets without room, and since when.
    pub(crate) full: HashMap<BatchTarget, Duration>,
    pub(crate) reserve_out: Reserve<Outgoing>,
    pub(crate) reserve_in: Reserve<(Sender, Incoming)>,
    /// Times of the last WHISPERs to peers of the LAN that the active bridge has to pass on.
    pub(crate) whispers_seen: VecDeque<Duration>,
    pub(crate) virtuals: HashMap<Uuid, Virtual>,
    /// Nodes of the mirror mode with events.
    pub(crate) rung: Arc<Mutex<Vec<Uuid>>>,
    scratch: BytesMut,
    /// Time at the start: microseconds since 1970, and monotonic.
    began: (u64, Duration),
    next_tick: Duration,
}

/// Caller of a command that never waits.
pub(crate) struct Never<'a>(pub(crate) &'a mut Deferred);

impl Caller for Never<'_> {
    fn aside<R: Send>(&mut self, work: impl FnOnce(&mut Patience<'_>) -> R + Send) -> R {
        work(&mut Patience::Defer(self.0))
    }
}

/// Quality of messages: none is dropped by the network.
pub(crate) const MESSAGE: Qos = Qos::new(Priority::Data, CongestionControl::Block, false);

/// Quality of descriptions and states, which come again.
pub(crate) const NOTE: Qos = Qos::new(Priority::DataLow, CongestionControl::Drop, false);

/// Quality of signs of life: a full link must not let a bridge seem dead.
const BEAT: Qos = Qos::new(Priority::InteractiveHigh, CongestionControl::Block, true);

impl Worker {
    /// Starts the node and declares everything.
    pub(crate) fn start(session: &Session, options: Options, shared: Arc<Shared>) -> Result<Self> {
        let Options {
            network,
            mode,
            groups,
            whispers,
            whisper_rate,
            log,
            node: mut template,
            virtual_nodes,
            lanes,
            patience,
        } = options;
        let own = session.zid();
        template.machine.headers.retain(|(name, _)| &**name != HEADER && &**name != MIRROR_HEADER);
        template.machine.headers.push((HEADER.into(), own.to_string().into()));
        // The other bridges know of each message that a peer has, even if this process is killed between the copies.
        template.machine.early = Some(HEADER.into());
        let rules = Rules::new(groups, whisper_rate);
        let log = match log {
            true => {
                let endpoint = format!("tcp://{}:*", template.bind);
                Some(LogCollector::bind_bounded(&endpoint, None, RECORDS)?)
            }
            false => None,
        };
        let mut main = template.clone();
        if let Some(log) = &log {
            main.machine.collector = Some(log.endpoint().into());
        }
        let node = Node::new(main)?;
        let mut known: HashMap<Text, Group> = HashMap::new();
        // All that can fail while the session is open comes before its declarations.
        for (at, rule) in rules.groups().iter().enumerate() {
            if let Some(name) = rule.literal().and_then(|name| Text::from_utf8(name.into()).ok())
                && rules.find(&name) == Some(at)
            {
                known.insert(name, Group { literal: true, joined: true, ..Group::default() });
            }
        }
        node.start()?;
        known.keys().try_for_each(|name| node.join(name).map(drop))?;
        let wake = || {
            let shared = shared.clone();
            Some(Arc::new(move || shared.bell.ring()) as Arc<dyn Fn() + Send + Sync>)
        };
        let key = |key: Option<KeyExpr>| key.ok_or(zwire_proto::bridge::NetworkError);
        let mut entities = Vec::new();
        // One queue for all messages, so that those of a sender stay in order.
        let mut keys = Vec::new();
        keys.extend(rules.subscriptions().into_iter().filter_map(|chunk| network.shouts(chunk)));
        if whispers && mode != Mode::Observer {
            keys.push(key(network.whispers())?);
        }
        let options = SubscriberOptions::default();
        let mut samples: Option<Arc<Queue<Sample>>> = None;
        for key in keys {
            match &samples {
                Some(queue) => entities.push(session.declare_subscriber_into(key, options, queue)?),
                None => {
                    let (entity, queue) = session.declare_subscriber(key, options, QUEUE)?;
                    entities.push(entity);
                    samples = Some(queue);
                }
            }
        }
        let mut tokens = |of: Option<KeyExpr>| -> Result<Arc<Queue<Sample>>> {
            // Tokens come in bursts of any size, and none may be missed.
            let handler = Handler::Fifo(65_536);
            let (entity, queue) = session.declare_liveliness_subscriber(key(of)?, true, handler)?;
            entities.push(entity);
            queue.set_waker(wake());
            Ok(queue)
        };
        let (peer_tokens, member_tokens, bridge_tokens) =
            (tokens(network.peers())?, tokens(network.members())?, tokens(network.bridges())?);
        let (beat, beats) = session.declare_subscriber(key(network.bridges())?, options, QUEUE)?;
        let options = QueryableOptions::default();
        let (info, infos) = session.declare_queryable(key(network.infos())?, options, Handler::Fifo(4096))?;
        entities.extend([beat, info]);
        let whisper_queries = match whispers && mode != Mode::Observer {
            true => {
                let (entity, queue) =
                    session.declare_queryable(key(network.whispers())?, options, Handler::Fifo(4096))?;
                entities.push(entity);
                queue.set_waker(wake());
                Some(queue)
            }
            false => None,
        };
        let samples = samples.unwrap_or_else(|| Queue::new(template.events));
        for queue in [&samples, &beats] {
            queue.set_waker(wake());
        }
        infos.set_waker(wake());
        node.events().set_waker(wake());
        if let Some(log) = &log {
            log.records().set_waker(wake());
        }
        let token = session.declare_token(key(network.bridge(own))?)?;
        let now = clock::mono();
        let seed = getrandom::u64().unwrap_or(0);
        Ok(Self {
            session: session.clone(),
            own,
            mode,
            whispers,
            patience,
            most_virtual: virtual_nodes,
            template,
            several: zwire_proto::bridge::encoding(),
            rules,
            found: HashMap::new(),
            node,
            log,
            entities,
            token,
            samples,
            peer_tokens,
            member_tokens,
            bridge_tokens,
            beats,
            infos,
            whisper_queries,
            peers: HashMap::new(),
            far: HashMap::new(),
            groups: known,
            election: Election::new(now, own),
            role: Role::Reserve,
            windows: Windows::default(),
            out: Lanes::new(lanes),
            batch: VecDeque::new(),
            blocked: Arc::default(),
            inward: Lanes::new(lanes),
            full: HashMap::new(),
            reserve_out: Reserve::new(seed),
            reserve_in: Reserve::new(!seed),
            whispers_seen: VecDeque::new(),
            virtuals: HashMap::new(),
            rung: Arc::default(),
            scratch: BytesMut::new(),
            began: (u64::try_from(clock::now().wall.as_micros()).unwrap_or(0), now),
            next_tick: now,
            shared,
            network,
        })
    }

    /// Serves both sides until the bridge, the session or the node ends.
    pub(crate) fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = clock::mono();
            if now >= self.next_tick {
                self.tick(now);
                self.next_tick = now + TICK;
                if self.session.is_closed() || !self.node.is_running() {
                    break;
                }
            }
            if !self.turn(now) {
                let mut pause = self.next_tick.saturating_sub(clock::mono());
                let takes_over = matches!(self.role, Role::Taking(_));
                if takes_over || !self.inward.is_empty() || (!self.batch.is_empty() && !self.is_blocked()) {
                    pause = pause.min(RETRY);
                }
                self.shared.bell.wait(pause);
            }
        }
        self.end();
    }

    fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// Handles what has come; whether anything has.
    fn turn(&mut self, now: Duration) -> bool {
        let mut busy = false;
        // Before the queues are emptied: all that a connection has brought is in them at its end.
        let ended = matches!(self.role, Role::Taking(_)) && self.has_read_the_one_before();
        let events = self.node.events().clone();
        let mut list = events.take_many(AT_ONCE, AT_ONCE_BYTES, usize::MAX);
        busy |= !list.is_empty();
        list.drain(..).for_each(|event| self.handle_event(now, event.event));
        events.give_back(list);
        type Handle = fn(&mut Worker, Duration, Sample);
        let queues: [(Arc<Queue<Sample>>, Handle); 5] = [
            // The last signs of life of a bridge come before its end.
            (self.beats.clone(), Self::handle_beat),
            (self.bridge_tokens.clone(), Self::handle_bridge_token),
            (self.peer_tokens.clone(), Self::handle_peer_token),
            (self.member_tokens.clone(), Self::handle_member_token),
            (self.samples.clone(), Self::handle_sample),
        ];
        for (queue, handle) in queues {
            let mut list = queue.take_many(AT_ONCE, AT_ONCE_BYTES, usize::MAX);
            busy |= !list.is_empty();
            list.drain(..).for_each(|sample| handle(self, now, sample));
            queue.give_back(list);
        }
        while let Ok(Some(query)) = self.infos.try_recv() {
            self.answer_info(now, &query);
            busy = true;
        }
        if let Some(queries) = self.whisper_queries.clone() {
            while let Ok(Some(query)) = queries.try_recv() {
                self.handle_whisper_query(now, query);
                busy = true;
            }
        }
        busy |= self.handle_virtual_events(now);
        busy |= self.publish_records();
        let is_read = ended && events.is_empty() && self.samples.is_empty();
        self.review(now, is_read);
        busy |= self.pump_out();
        busy |= self.pump_in(now);
        busy
    }

    fn tick(&mut self, now: Duration) {
        let linked = self.session.config().mode == WhatAmI::Router || !self.session.links().is_empty();
        self.election.handle_linked(now, linked);
        if self.election.others(now) > 0 {
            let heard = self.node.look(|node| node.peers().filter_map(|peer| node.peer_heard(&peer)).max());
            if let Ok(Some(heard)) = heard {
                self.election.handle_lan_heard(heard);
            }
        }
        if self.election.handle_timeout(now) {
            self.send_beat();
        }
        self.review(now, false);
        self.reserve_out.handle_timeout(now);
        self.reserve_in.handle_timeout(now);
        if self.role == Role::Active {
            self.publish_changes();
            self.mirror(now);
        }
        let counters = &self.shared.counters;
        counters.dropped_to_zenoh.set(self.out.dropped());
        // Samples that the thread did not take in time were dropped in front of it.
        counters.dropped_to_zre.set(self.inward.dropped() + self.samples.dropped());
        counters.reserve_dropped.set(self.reserve_out.dropped() + self.reserve_in.dropped());
        let real = self.peers.values().filter(|peer| peer.kind == Kind::Real).count();
        *self.shared.state.lock() = State {
            active: self.role == Role::Active,
            term: match self.election.standing() {
                Standing::Active(term) => term,
                Standing::Reserve => 0,
            },
            other_bridges: self.election.others(now),
            peers: real,
            far_peers: self.far.len(),
            groups: self.groups.values().filter(|group| group.joined).count(),
            virtual_nodes: self.virtuals.len(),
            problem: None,
        };
    }

    /// Whether no connection of a bridge that has left is open.
    fn has_read_the_one_before(&self) -> bool {
        let is_open = |(uuid, peer): (&Uuid, &Peer)| {
            let Kind::Bridge { id: Some(id), .. } = peer.kind else { return false };
            // It fails if the node is stopped.
            self.election.has_left(id) && self.node.is_connected_from(uuid).unwrap_or(false)
        };
        !self.peers.iter().any(is_open)
    }

    /// Follows the election. `is_read`: all that the bridge before has passed on to this one was handled.
    fn review(&mut self, now: Duration, is_read: bool) {
        match (self.role, self.election.is_active()) {
            (Role::Reserve, true) => {
                self.role = Role::Taking(Takeover::new(now));
                // Others hear of the term at once.
                self.send_beat();
            }
            (Role::Taking(takeover), true) if takeover.is_due(now, is_read) => self.take_over(),
            (Role::Taking(_) | Role::Active, false) => {
                self.role = Role::Reserve;
                self.virtuals.clear();
                self.far.values_mut().for_each(|far| far.info = Info::Unknown);
                // The other one has passed on what had not left.
                self.out.clear();
                self.batch.clear();
                self.inward.clear();
                tracing::info!(
                    network = self.network.name(),
                    "another bridge of this LAN forwards: this one is in reserve"
                );
            }
            _ => {}
        }
    }

    fn take_over(&mut self) {
        self.role = Role::Active;
        let counters = &self.shared.counters;
        let out: Vec<Outgoing> = self.reserve_out.take_over().collect();
        let inward: Vec<(Sender, Incoming)> = self.reserve_in.take_over().collect();
        if matches!(self.election.standing(), Standing::Active(term) if term > 1) {
            counters.takeovers.add(1);
            counters.taken_over.add((out.len() + inward.len()) as u64);
            counters.in_doubt.add(self.whispers_seen.len() as u64);
        }
        self.whispers_seen.clear();
        tracing::info!(
            network = self.network.name(),
            kept = out.len() + inward.len(),
            "the bridge forwards from now on"
        );
        out.into_iter().for_each(|message| self.queue_out(message));
        for (sender, message) in inward {
            self.queue_in(&sender, message);
        }
        for peer in self.peers.values_mut() {
            peer.changed = true;
        }
    }

    fn send_beat(&mut self) {
        let term = match self.election.standing() {
            Standing::Active(term) => term,
            Standing::Reserve => 0,
        };
        let beat =
            Beat { bridge: self.own, term, number: self.fresh_number(), network: self.network.name().into() };
        let beat = beat.encode();
        let bridges = self.peers.iter().filter(
            |(_, peer)| matches!(peer.kind, Kind::Bridge { id, mirror: false } if id != Some(self.own)),
        );
        let bridges: Vec<Uuid> = bridges.map(|(uuid, _)| *uuid).collect();
        for peer in bridges {
            // One that has just left needs none.
            let _ = self.node.whisper(&peer, vec![beat.clone()], Duration::ZERO, &mut || false);
        }
        if let Some(key) = self.network.bridge(self.own) {
            self.put(key, beat, Encoding::DEFAULT, BEAT);
        }
    }

    /// Publishes a note, if there is room.
    pub(crate) fn put(&self, key: KeyExpr, payload: Bytes, encoding: Encoding, qos: Qos) {
        let put = Put { encoding, ..Put::new(payload) };
        let publication = Publication { qos, ..Publication::new(key, PushBody::Put(put)) };
        // It fails if the session is closed, which the next tick sees.
        let _ = self.session.put(publication, &mut Never(&mut Deferred::default()));
    }

    /// Queues a message for Zenoh, with the next number of its sender.
    pub(crate) fn queue_out(&mut self, mut message: Outgoing) {
        let (number, name) = match self.peers.get_mut(&message.sender) {
            Some(peer) => {
                peer.number += 1;
                (peer.number, peer.name.clone())
            }
            // It has left since: time exceeds all its numbers.
            None => (self.fresh_number(), Text::EMPTY),
        };
        let attachment = Attachment { sender: message.sender, bridge: self.own, number, hops: 0, name };
        self.scratch.reserve(64 + attachment.name.len());
        attachment.encode(&mut self.scratch);
        message.attachment = self.scratch.split().freeze();
        let bytes = message.payload.len() + size_of::<Outgoing>();
        let sender = message.sender;
        self.out.push(&sender, bytes, message);
    }

    /// Publishes what waits, as long as the link has room; whether anything was published.
    fn pump_out(&mut self) -> bool {
        let mut busy = false;
        let mut list = Vec::new();
        while !self.is_blocked() && (!self.batch.is_empty() || !self.out.is_empty()) {
            while self.batch.len() < BATCH && !self.out.is_empty() {
                // Turns are short, so that a slow link is shared fairly.
                self.out.take(BATCH / 4, |_| true, &mut list);
                self.batch.extend(list.drain(..));
            }
            let mut deferred = Deferred::default();
            let published = self.publish(&mut deferred);
            busy |= published > 0;
            if !deferred.is_empty() {
                self.blocked.store(true, Ordering::Release);
                let (blocked, shared) = (self.blocked.clone(), self.shared.clone());
                deferred.wait(move || {
                    blocked.store(false, Ordering::Release);
                    shared.bell.ring();
                });
            }
            if published == 0 {
                break;
            }
        }
        busy
    }

    /// Publishes the messages of the batch; returns their number.
    fn publish(&mut self, deferred: &mut Deferred) -> usize {
        let (mut next, mut done) = (0, 0);
        let batch = &self.batch;
        let fill = |key: &mut Option<KeyExpr>, qos: &mut Qos, body: &mut PushBody| {
            let Some(message) = batch.get(next) else {
                *key = None;
                return;
            };
            next += 1;
            *key = Some(message.key.clone());
            *qos = MESSAGE;
            *body = PushBody::Put(Put {
                payload: message.payload.clone(),
                encoding: message.encoding.clone(),
                attachment: Some(message.attachment.clone()),
                ..Put::default()
            });
        };
        match self.session.put_many(fill, |_| done += 1, &mut Never(deferred)) {
            // What did not fit stays in the batch.
            Ok(()) | Err(zwire_engine::Error::WouldBlock) => {}
            Err(error) => {
                tracing::debug!(%error, "messages of ZRE cannot be published");
                let lost = self.batch.len() - done;
                self.shared.counters.failed.add(lost as u64);
                self.batch.clear();
                return 0;
            }
        }
        self.batch.drain(..done);
        self.shared.counters.to_zenoh.add(done as u64);
        done
    }

    /// Number of the rule for a group; `None`: it does not cross.
    pub(crate) fn rule_of(&mut self, group: &Text) -> Option<usize> {
        /// A stranger can name any number of groups.
        const MOST: usize = 65_536;
        if let Some(found) = self.found.get(group) {
            return *found;
        }
        if self.found.len() >= MOST {
            self.found.clear();
        }
        let rule = self.rules.find(group);
        self.found.insert(group.clone(), rule);
        rule
    }

    /// Joins or leaves a group, as its members demand.
    pub(crate) fn settle_group(&mut self, word: &Text) {
        let Some(group) = self.groups.get_mut(word) else { return };
        let wanted = group.literal || group.lan > 0 || !group.far.is_empty();
        if wanted != group.joined {
            let done = match wanted {
                true => self.node.join(word),
                false => self.node.leave(word),
            };
            match done {
                Ok(_) => group.joined = wanted,
                Err(error) => {
                    tracing::warn!(group = %word, %error, "the bridge cannot join or leave a group")
                }
            }
        }
        if !wanted {
            self.groups.remove(word);
        }
    }

    fn handle_beat(&mut self, now: Duration, sample: Sample) {
        if let Ok(beat) = Beat::decode(&sample.payload.into_bytes())
            && *beat.network == *self.network.name()
            && self.network.bridge(beat.bridge).is_some_and(|key| key == sample.key)
        {
            self.hear_beat(now, Channel::Zenoh, &beat);
        }
    }

    pub(crate) fn hear_beat(&mut self, now: Duration, channel: Channel, beat: &Beat) {
        self.election.handle_beat(now, channel, beat.bridge, beat.term, beat.number);
        // What the active bridge had before its sign of life it has passed on.
        if beat.term > 0 && channel == Channel::Lan {
            self.whispers_seen.clear();
        }
    }

    /// First number of a sender, and number of a sign of life: microseconds, which rise over restarts, and also if the
    /// clock is set back meanwhile.
    pub(crate) fn fresh_number(&self) -> u64 {
        let (wall, mono) = self.began;
        let since = clock::mono().saturating_sub(mono).as_micros();
        wall.saturating_add(u64::try_from(since).unwrap_or(0))
    }

    /// Ends the bridge.
    fn end(mut self) {
        /// Time for messages that wait.
        const LINGER: Duration = Duration::from_millis(500);
        let end = clock::mono() + LINGER;
        while clock::mono() < end && !self.session.is_closed() {
            let now = clock::mono();
            self.turn(now);
            // In reserve there may be WHISPERs to the node of the bridge.
            if self.batch.is_empty() && self.out.is_empty() && self.inward.is_empty() {
                break;
            }
            self.shared.bell.wait(RETRY);
        }
        self.out.clear();
        self.inward.clear();
        self.shared.counters.dropped_to_zenoh.set(self.out.dropped() + self.batch.len() as u64);
        self.shared.counters.dropped_to_zre.set(self.inward.dropped() + self.samples.dropped());
        // First of all, so that another bridge takes over at once. All of it fails if the session is closed.
        let _ = self.session.undeclare(self.token);
        let tokens = self.peers.values().flat_map(|peer| peer.token.iter().chain(peer.members.values()));
        for entity in tokens.chain(&self.entities) {
            let _ = self.session.undeclare(*entity);
        }
        self.virtuals.clear();
        let _ = self.node.stop(LINGER, &mut || false);
        let problem = if self.shared.stop.load(Ordering::Acquire) {
            None
        } else if self.session.is_closed() {
            Some("the session is closed".to_owned())
        } else {
            Some("the ZRE node has stopped".to_owned())
        };
        *self.shared.state.lock() = State { problem, ..State::default() };
    }
}
