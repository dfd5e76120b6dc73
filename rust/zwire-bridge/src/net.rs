//! Samples and queries of Zenoh, on their way to ZRE.

use crate::{
    lan::rate_key,
    mirror::Info,
    options::Mode,
    worker::{Kind, RETRY, Role, Worker},
};
use bytes::Bytes;
use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::{collections::BTreeSet, hash::DefaultHasher, sync::Arc};
use zwire_engine::{
    Error, Query,
    zre::{BatchTarget, Node},
};
use zwire_proto::{
    Text,
    bridge::{Attachment, Channel, MAX_HOPS, Place, Sender, Way, split},
    zenoh::{
        Encoding, ZenohId,
        session::{QueryReplyBody, ReplyError, Sample, SampleKind},
        wire::{PushBody, Put},
    },
    zre::{
        Uuid,
        node::{Delivery, NodeError},
    },
};

/// Frames of a message.
pub(crate) type Content = Vec<Bytes>;

/// Messages that are handed to the node in one go.
const CHUNK: usize = 64;

/// Most WHISPERs in reserve whose times are kept.
const WHISPERS: usize = 65_536;

/// Most peers of other bridges and programs, and most groups, that tokens can name: a stranger can declare any number.
const MOST: usize = 65_536;

/// Peer of another bridge, or of a program of Zenoh.
pub(crate) struct Far {
    /// Bridges and programs that have a token for it.
    pub(crate) bridges: BTreeSet<ZenohId>,
    /// Time since which it is known.
    pub(crate) since: Duration,
    pub(crate) info: Info,
}

/// Message on its way to ZRE.
pub(crate) struct Incoming {
    pub(crate) target: BatchTarget,
    pub(crate) content: Content,
    /// Query that waits for the outcome.
    pub(crate) query: Option<Arc<Query>>,
}

/// Way of a sample by its key.
enum To {
    Group(Text),
    Peer(Uuid),
}

impl Worker {
    pub(crate) fn handle_bridge_token(&mut self, now: Duration, sample: Sample) {
        let Some(Place::Bridge(bridge)) = self.network.parse(&sample.key) else { return };
        if bridge == self.own {
            return;
        }
        // It begins or ends: its numbers may begin again.
        self.windows.forget(bridge);
        match sample.kind {
            SampleKind::Put => self.election.handle_present(now, bridge),
            SampleKind::Delete => self.election.handle_gone(now, Channel::Zenoh, bridge),
        }
    }

    pub(crate) fn handle_peer_token(&mut self, now: Duration, sample: Sample) {
        let Some(Place::Peer { uuid, bridge }) = self.network.parse(&sample.key) else { return };
        if bridge == self.own {
            return;
        }
        match sample.kind {
            SampleKind::Put => {
                if self.far.len() >= MOST && !self.far.contains_key(&uuid) {
                    return;
                }
                let far = || Far { bridges: BTreeSet::new(), since: now, info: Info::Unknown };
                self.far.entry(uuid).or_insert_with(far).bridges.insert(bridge);
            }
            SampleKind::Delete => {
                let Some(far) = self.far.get_mut(&uuid) else { return };
                far.bridges.remove(&bridge);
                if far.bridges.is_empty() {
                    self.far.remove(&uuid);
                    self.end_virtual(&uuid);
                }
            }
        }
    }

    pub(crate) fn handle_member_token(&mut self, _now: Duration, sample: Sample) {
        let Some(Place::Member { group, uuid }) = self.network.parse(&sample.key) else { return };
        let put = sample.kind == SampleKind::Put;
        if put {
            let crosses = self.rule_of(&group).is_some_and(|rule| self.rules.passes(rule, Way::ToZre));
            let is_real = self.peers.get(&uuid).is_some_and(|peer| peer.kind == Kind::Real);
            if !crosses || is_real || (self.groups.len() >= MOST && !self.groups.contains_key(&group)) {
                return;
            }
            self.groups.entry(group.clone()).or_default().far.insert(uuid);
        } else if let Some(known) = self.groups.get_mut(&group) {
            known.far.remove(&uuid);
        }
        self.settle_group(&group);
        if let Some(node) = self.virtuals.get(&uuid) {
            node.set_member(&group, put);
        }
    }

    pub(crate) fn handle_sample(&mut self, now: Duration, sample: Sample) {
        let counters = &self.shared.counters;
        let own = sample.attachment.as_ref().is_some_and(|octets| Attachment::is_of(octets, self.own));
        if own || sample.kind == SampleKind::Delete {
            return;
        }
        let (to, sender) = match self.network.parse(&sample.key) {
            Some(Place::Shout { group, sender }) => (To::Group(group), sender),
            Some(Place::Whisper { to, sender }) => (To::Peer(to), sender),
            _ => return counters.malformed.add(1),
        };
        let attachment = sample.attachment.as_ref().and_then(|bytes| Attachment::decode(bytes).ok());
        let mut bridge = None;
        if let Some(Attachment { sender: from, bridge: by, number, hops, .. }) = attachment {
            if sender.uuid() != Some(from) {
                return counters.malformed.add(1);
            }
            if hops > MAX_HOPS {
                return counters.looped.add(1);
            }
            if !self.windows.accept(by, from, number) {
                return counters.duplicates.add(1);
            }
            bridge = Some(by);
        }
        // ZRE has no message without frames: handed to the node it would take others of its sender with it.
        let content = split(sample.payload, &sample.encoding).ok().filter(|content| !content.is_empty());
        let Some(content) = content else { return counters.malformed.add(1) };
        let of_lan = bridge.is_some_and(|bridge| self.election.is_of_lan(now, bridge));
        let real =
            sender.uuid().and_then(|uuid| self.peers.get(&uuid)).is_some_and(|peer| peer.kind == Kind::Real);
        if of_lan || real {
            // A message of this LAN, which its peers have already.
            match (bridge, sender.uuid(), &to) {
                (Some(_), Some(from), To::Group(group)) => self.note_passed(now, from, group, &content),
                (None, ..) => counters.spoofed.add(1),
                _ => {}
            }
            return;
        }
        if self.mode == Mode::Observer {
            return;
        }
        self.deliver(now, sender, to, content, None);
    }

    fn deliver(
        &mut self,
        now: Duration,
        sender: Sender,
        to: To,
        content: Content,
        query: Option<Arc<Query>>,
    ) {
        let rate = match &sender {
            Sender::Peer(uuid) => rate_key(uuid),
            Sender::Named(name) => {
                let mut hasher = DefaultHasher::new();
                name.hash(&mut hasher);
                hasher.finish()
            }
        };
        match to {
            To::Group(group) => {
                let rule = self.rule_of(&group).filter(|rule| self.rules.passes(*rule, Way::ToZre));
                let Some(rule) = rule else { return self.shared.counters.not_named.add(1) };
                if !self.rules.admit(now, rule, rate) {
                    return self.shared.counters.above_rate.add(1);
                }
                if self.role == Role::Active {
                    if !self.reserve_in.was_passed((&group, &content)) {
                        let target = BatchTarget::Group(group);
                        self.queue_in(&sender, Incoming { target, content, query });
                    }
                } else {
                    let fingerprint = self.reserve_in.fingerprint((&group, &content));
                    let from = self.reserve_in.fingerprint(&sender);
                    let bytes = content.iter().map(Bytes::len).sum();
                    let message = Incoming { target: BatchTarget::Group(group), content, query };
                    self.reserve_in.handle_own(now, fingerprint, from, bytes, (sender, message));
                }
            }
            To::Peer(peer) => {
                // It may be a peer of another LAN.
                if self.peers.get(&peer).is_none_or(|peer| peer.kind != Kind::Real) {
                    return;
                }
                if self.role != Role::Active {
                    if self.whispers_seen.len() >= WHISPERS {
                        self.whispers_seen.pop_front();
                    }
                    return self.whispers_seen.push_back(now);
                }
                if !self.rules.admit_whisper(now, rate) {
                    return self.shared.counters.above_rate.add(1);
                }
                self.queue_in(&sender, Incoming { target: BatchTarget::Peer(peer), content, query });
            }
        }
    }

    /// A WHISPER that its sender wants an answer to.
    pub(crate) fn handle_whisper_query(&mut self, now: Duration, query: Query) {
        let Some(Place::Whisper { to, sender }) = self.network.parse(&query.key) else { return };
        let is_here = self.peers.get(&to).is_some_and(|peer| peer.kind == Kind::Real);
        if self.role != Role::Active || (!is_here && self.far.contains_key(&to)) {
            // Another bridge answers.
            return;
        }
        if !is_here {
            return self.refuse(
                &query,
                &format!("no peer {to}: see the tokens of {}/@peer/*/*", self.network.name()),
            );
        }
        let (payload, encoding) = match &query.body {
            Some(body) => (body.payload.clone(), body.encoding.clone()),
            None => Default::default(),
        };
        match split(payload, &encoding) {
            Ok(content) if content.is_empty() => self.refuse(&query, "the payload is a list of no frames"),
            Ok(content) => self.deliver(now, sender, To::Peer(to), content, Some(Arc::new(query))),
            Err(error) => self.refuse(&query, &format!("the payload is no list of frames: {error}")),
        }
    }

    fn refuse(&self, query: &Query, problem: &str) {
        let payload = Bytes::copy_from_slice(problem.as_bytes()).into();
        let error = ReplyError { encoding: Encoding::TEXT_PLAIN, payload, stamps: None };
        self.reply(query, QueryReplyBody::Err(error));
    }

    pub(crate) fn queue_in(&mut self, sender: &Sender, message: Incoming) {
        let bytes = message.content.iter().map(Bytes::len).sum::<usize>() + size_of::<Incoming>();
        self.inward.push(sender, bytes, message);
    }

    /// Node that speaks for a sender.
    fn node_of(&self, sender: &Sender) -> &Node {
        let node = sender.uuid().and_then(|uuid| self.virtuals.get(&uuid));
        node.map_or(&self.node, |node| &node.node)
    }

    /// Hands messages to ZRE, as long as peers have room; whether any was.
    pub(crate) fn pump_in(&mut self, now: Duration) -> bool {
        /// Octets that a message, and each of its frames, takes in a queue of ZRE beside those of the frames: at most.
        const MESSAGE: usize = 512;
        const FRAME: usize = 64;
        let (mut busy, mut held) = (false, 0);
        let mut list = Vec::new();
        while let Some((sender, first)) = self.inward.front() {
            let (sender, target, answered) = (sender.clone(), first.target.clone(), first.query.is_some());
            let room = self.node_of(&sender).room(&target);
            let (room, bytes) = room.map_or((0, 0), |room| (room.messages.min(room.bytes), room.bytes));
            if room == 0 && !self.is_overdue(now, &target) {
                held += 1;
                if held >= self.inward.len() {
                    break;
                }
                self.inward.pass();
                continue;
            }
            // Without room one message is sent nevertheless: the peer begins a new session. One that is answered goes alone.
            let most = if answered { 1 } else { room.clamp(1, CHUNK) };
            self.full.remove(&target);
            let mut left = bytes.max(1);
            let fits = |message: &Incoming| {
                let fits = message.target == target && message.query.is_some() == answered && left > 0;
                let bytes = message.content.iter().map(|frame| frame.len() + FRAME).sum::<usize>();
                left = left.saturating_sub(MESSAGE + bytes);
                fits
            };
            self.inward.take(most, fits, &mut list);
            self.send(&sender, &target, &mut list, room > 0);
            busy = true;
        }
        if self.inward.is_empty() {
            // Messages that were waited for may have been dropped: the next ones have the whole patience.
            self.full.clear();
        }
        busy
    }

    /// Whether a target has been without room for longer than the patience.
    fn is_overdue(&mut self, now: Duration, target: &BatchTarget) -> bool {
        /// Targets without room are few: beyond, all of them are given their patience again.
        const TARGETS: usize = 4096;
        if self.full.len() >= TARGETS {
            self.full.clear();
        }
        let since = *self.full.entry(target.clone()).or_insert(now);
        now.saturating_sub(since) >= self.patience.max(RETRY)
    }

    fn send(&self, sender: &Sender, target: &BatchTarget, list: &mut Vec<Incoming>, fits: bool) {
        let (node, counters) = (self.node_of(sender), &self.shared.counters);
        let count = list.len() as u64;
        if let [Incoming { query: Some(query), .. }] = &list[..]
            && let BatchTarget::Peer(peer) = target
        {
            let query = query.clone();
            let content = list.drain(..).flat_map(|message| message.content).collect();
            let sent = node.whisper(peer, content, Duration::ZERO, &mut || false);
            return self.note_answer(&query, peer, sent);
        }
        let mut contents = list.drain(..).map(|message| message.content);
        let sent = match (target, fits) {
            (BatchTarget::Group(group), false) => contents.next().map_or(Ok(Default::default()), |content| {
                node.shout(group, content, Duration::ZERO, &mut || false).map(|shouted| {
                    [Delivery::Full, Delivery::NotResponding, Delivery::Refused]
                        .map(|it| shouted.count(it) as u64)
                })
            }),
            (BatchTarget::Peer(peer), false) => contents.next().map_or(Ok(Default::default()), |content| {
                node.whisper(peer, content, Duration::ZERO, &mut || false).map(|delivery| {
                    [Delivery::Full, Delivery::NotResponding, Delivery::Refused]
                        .map(|it| u64::from(it == delivery))
                })
            }),
            _ => node
                .send_many(target, &mut contents, Duration::ZERO, &mut || false)
                .map(|sent| [sent.full, sent.not_responding, sent.refused]),
        };
        match sent {
            Ok([full, not_responding, refused]) => {
                counters.to_zre.add(count);
                counters.full.add(full);
                counters.not_responding.add(not_responding);
                counters.refused.add(refused);
            }
            Err(Error::Node(NodeError::UnknownPeer { .. })) => counters.unknown_peer.add(count),
            Err(error) => {
                tracing::debug!(%error, "messages of Zenoh cannot be sent to ZRE");
                counters.failed.add(count);
            }
        }
    }

    /// Answers the query of a WHISPER.
    fn note_answer(&self, query: &Query, peer: &Uuid, sent: Result<Delivery, Error>) {
        let counters = &self.shared.counters;
        let problem = match sent {
            Ok(Delivery::Queued) => {
                counters.to_zre.add(1);
                let (key, body) = (query.key.clone(), PushBody::Put(Put::default()));
                return self.reply(query, QueryReplyBody::Sample { key, body });
            }
            Ok(Delivery::Full) => {
                counters.full.add(1);
                format!("the queue of peer {peer} is full: try again")
            }
            Ok(Delivery::NotResponding) => {
                counters.not_responding.add(1);
                format!("peer {peer} does not take messages at present: try again")
            }
            Ok(Delivery::Refused) => {
                counters.refused.add(1);
                format!("peer {peer} takes one frame per message")
            }
            Err(error) => {
                match error {
                    Error::Node(NodeError::UnknownPeer { .. }) => counters.unknown_peer.add(1),
                    _ => counters.failed.add(1),
                }
                error.to_string()
            }
        };
        self.refuse(query, &problem);
    }
}
