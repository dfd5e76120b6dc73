//! Events of ZRE, on their way to Zenoh.

use crate::{
    net::Content,
    worker::{HEADER, Kind, MIRROR_HEADER, NOTE, Never, Outgoing, Peer, Role, Target, Worker},
};
use bytes::Bytes;
use core::time::Duration;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};
use zwire_engine::{Deferred, Query};
use zwire_proto::{
    Text,
    bridge::{Beat, Channel, Way, join},
    zenoh::{
        Encoding, KeyExpr,
        session::{QueryReply, QueryReplyBody},
        wire::{PushBody, Put},
    },
    zre::{
        Uuid,
        node::{EventKind, ZreEvent},
        wire::log_hash_of,
    },
};

/// Most groups of a peer whose keys are remembered. A peer can send to any number.
const TARGETS: usize = 16_384;

fn kind_of(headers: &[(Text, Text)]) -> Kind {
    let value = |wanted: &str| headers.iter().find(|(name, _)| **name == *wanted).map(|(_, value)| value);
    match value(HEADER) {
        Some(id) => Kind::Bridge { id: id.parse().ok(), mirror: value(MIRROR_HEADER).is_some() },
        None => Kind::Real,
    }
}

/// Number that stands for a sender in the rates.
pub(crate) fn rate_key(uuid: &Uuid) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|at| uuid.as_bytes()[at] ^ uuid.as_bytes()[at + 8]))
}

impl Worker {
    pub(crate) fn handle_event(&mut self, now: Duration, event: ZreEvent) {
        let ZreEvent { peer: uuid, name, address, generation, kind, .. } = event;
        match kind {
            EventKind::Shout { group, content } => self.handle_shout(now, uuid, group, content),
            EventKind::Whisper { content } => self.handle_whisper(now, uuid, None, content),
            EventKind::Enter { headers } => {
                self.forget_peer(now, &uuid);
                let kind = kind_of(&headers);
                let mut peer = Peer {
                    kind,
                    name,
                    log_hash: log_hash_of(address.as_bytes()),
                    address,
                    headers,
                    generation,
                    groups: BTreeSet::new(),
                    token: None,
                    members: HashMap::new(),
                    number: self.fresh_number(),
                    targets: HashMap::new(),
                    evasive: false,
                    changed: true,
                };
                if kind == Kind::Real {
                    // It is not one of another network.
                    self.end_virtual(&uuid);
                    let key = self.network.peer(&uuid, self.own);
                    peer.token = key.and_then(|key| self.session.declare_token(key).ok());
                }
                self.peers.insert(uuid, peer);
            }
            EventKind::Exit => self.forget_peer(now, &uuid),
            EventKind::Join { group } => self.handle_join(&uuid, &group),
            EventKind::Leave { group } => self.handle_leave(&uuid, &group),
            EventKind::Evasive | EventKind::Silent => self.note_state(&uuid, true),
            EventKind::MessagesLost { lost } => self.shared.counters.lost_by_zre.add(lost.max(1).into()),
            EventKind::Leader { .. } | EventKind::Stop => {}
        }
    }

    fn forget_peer(&mut self, now: Duration, uuid: &Uuid) {
        let Some(peer) = self.peers.remove(uuid) else { return };
        for entity in peer.token.iter().chain(peer.members.values()) {
            // The session is closed if this fails, and the tokens are gone.
            let _ = self.session.undeclare(*entity);
        }
        match peer.kind {
            Kind::Real => {
                for group in &peer.groups {
                    self.count_member(group, false);
                }
            }
            Kind::Bridge { id: Some(id), mirror: false } => self.election.handle_gone(now, Channel::Lan, id),
            Kind::Bridge { .. } => {}
        }
    }

    fn count_member(&mut self, name: &Text, joined: bool) {
        if joined {
            self.groups.entry(name.clone()).or_default().lan += 1;
        } else if let Some(group) = self.groups.get_mut(name) {
            group.lan = group.lan.saturating_sub(1);
        }
        self.settle_group(name);
    }

    fn handle_join(&mut self, uuid: &Uuid, group: &Text) {
        let rule = self.rule_of(group);
        let Some(peer) = self.peers.get_mut(uuid) else { return };
        if peer.kind != Kind::Real || rule.is_none() || !peer.groups.insert(group.clone()) {
            return;
        }
        peer.changed = true;
        let token = self.network.member(group, uuid).and_then(|key| self.session.declare_token(key).ok());
        if let Some(token) = token {
            peer.members.insert(group.clone(), token);
        }
        self.count_member(group, true);
    }

    fn handle_leave(&mut self, uuid: &Uuid, group: &Text) {
        let Some(peer) = self.peers.get_mut(uuid) else { return };
        if !peer.groups.remove(group) {
            return;
        }
        peer.changed = true;
        if let Some(token) = peer.members.remove(group) {
            let _ = self.session.undeclare(token);
        }
        self.count_member(group, false);
    }

    /// Publishes whether a peer answers.
    fn note_state(&mut self, uuid: &Uuid, evasive: bool) {
        let Some(peer) = self.peers.get_mut(uuid) else { return };
        if peer.kind != Kind::Real || peer.evasive == evasive {
            return;
        }
        peer.evasive = evasive;
        if self.role == Role::Active
            && let Some(key) = self.network.state(uuid)
        {
            let state = if evasive { &b"evasive"[..] } else { b"ok" };
            self.put(key, Bytes::from_static(state), Encoding::TEXT_PLAIN, NOTE);
        }
    }

    fn handle_shout(&mut self, now: Duration, uuid: Uuid, group: Text, content: Vec<Bytes>) {
        let Some(peer) = self.peers.get(&uuid) else { return };
        if let Kind::Bridge { id, .. } = peer.kind {
            // The active bridge has passed on a message that this one keeps.
            if id != Some(self.own) && self.role != Role::Active {
                let fingerprint = self.reserve_in.fingerprint((&group, &content));
                self.reserve_in.handle_passed(now, fingerprint);
                self.note_unquiet(now);
            }
            return;
        }
        let is_evasive = peer.evasive;
        let target = match peer.targets.get(&group) {
            Some(target) => target.clone(),
            None => self.find_target(&uuid, &group),
        };
        let Some(Target { key, rule }) = target else {
            self.shared.counters.not_named.add(1);
            return;
        };
        if is_evasive {
            self.note_state(&uuid, false);
        }
        if !self.rules.admit(now, rule, rate_key(&uuid)) {
            self.shared.counters.above_rate.add(1);
            return;
        }
        if self.role == Role::Active {
            if !self.reserve_out.was_passed((uuid, &group, &content)) {
                let message = self.outgoing(uuid, key, content);
                self.queue_out(message);
            }
        } else {
            let fingerprint = self.reserve_out.fingerprint((uuid, &group, &content));
            let sender = self.reserve_out.fingerprint(uuid);
            let bytes = content.iter().map(Bytes::len).sum();
            let message = self.outgoing(uuid, key, content);
            self.reserve_out.handle_own(now, fingerprint, sender, bytes, message);
        }
    }

    fn outgoing(&self, sender: Uuid, key: KeyExpr, content: Vec<Bytes>) -> Outgoing {
        let (payload, encoding) = join(content, &self.several);
        Outgoing { sender, key, payload, encoding, attachment: Bytes::new() }
    }

    #[cold]
    fn find_target(&mut self, uuid: &Uuid, group: &Text) -> Option<Target> {
        let rule = self.rule_of(group).filter(|rule| self.rules.passes(*rule, Way::ToZenoh));
        let key = self.network.shout(group, uuid);
        let target = rule.zip(key).map(|(rule, key)| Target { key, rule });
        if let Some(peer) = self.peers.get_mut(uuid) {
            if peer.targets.len() >= TARGETS {
                peer.targets.clear();
            }
            peer.targets.insert(group.clone(), target.clone());
        }
        target
    }

    /// A WHISPER to the node of the bridge, or to one of the mirror mode.
    pub(crate) fn handle_whisper(
        &mut self,
        now: Duration,
        from: Uuid,
        to: Option<Uuid>,
        content: Vec<Bytes>,
    ) {
        let Some(peer) = self.peers.get(&from) else { return };
        if let Kind::Bridge { id, mirror } = peer.kind {
            if !mirror
                && let [frame] = &content[..]
                && let Ok(beat) = Beat::decode(frame)
                && Some(beat.bridge) == id
                && *beat.network == *self.network.name()
            {
                self.hear_beat(now, Channel::Lan, &beat);
            }
            return;
        }
        if peer.evasive {
            self.note_state(&from, false);
        }
        if !self.whispers {
            self.shared.counters.not_named.add(1);
            return;
        }
        if !self.rules.admit_whisper(now, rate_key(&from)) {
            self.shared.counters.above_rate.add(1);
            return;
        }
        let to = to.unwrap_or_else(|| self.node.uuid());
        if let Some(key) = self.network.whisper(&to, &from) {
            let message = self.outgoing(from, key, content);
            self.queue_out(message);
        }
    }

    /// Description of a peer.
    fn describe(&self, peer: &Peer) -> Bytes {
        let headers: Map<String, Value> = peer
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.as_str().into()))
            .collect();
        let groups: Vec<&str> = peer.groups.iter().map(Text::as_str).collect();
        let generation = peer.generation.map(|generation| generation.name());
        let info = json!({
            "name": peer.name.as_str(),
            "headers": headers,
            "groups": groups,
            "via": self.own.to_string(),
            "generation": generation,
        });
        info.to_string().into()
    }

    /// Publishes the descriptions that have changed.
    pub(crate) fn publish_changes(&mut self) {
        let changed = self.peers.iter_mut().filter(|(_, peer)| peer.kind == Kind::Real && peer.changed);
        let changed: Vec<Uuid> = changed
            .map(|(uuid, peer)| {
                peer.changed = false;
                *uuid
            })
            .collect();
        for uuid in changed {
            if let (Some(key), Some(peer)) = (self.network.info(&uuid), self.peers.get(&uuid)) {
                self.put(key, self.describe(peer), Encoding::APPLICATION_JSON, NOTE);
            }
        }
    }

    /// Answers a query for descriptions, unless another bridge speaks for the LAN. As long as none does, all of them answer:
    /// the bridge that asks has no second chance.
    pub(crate) fn answer_info(&self, now: Duration, query: &Query) {
        if self.role != Role::Active && self.election.is_led(now) {
            return;
        }
        for (uuid, peer) in self.peers.iter().filter(|(_, peer)| peer.kind == Kind::Real) {
            let Some(key) = self.network.info(uuid).filter(|key| query.key.intersects(key)) else { continue };
            let put = Put { encoding: Encoding::APPLICATION_JSON, ..Put::new(self.describe(peer)) };
            let body = QueryReplyBody::Sample { key, body: PushBody::Put(put) };
            self.reply(query, body);
        }
    }

    pub(crate) fn reply(&self, query: &Query, body: QueryReplyBody) {
        let reply = QueryReply { body, express: None, stamps: None };
        // The asker is gone, or the session is closed.
        let _ = query.reply(reply, &mut Never(&mut Deferred::default()));
    }

    /// Content for a fingerprint that both sides of a message have.
    pub(crate) fn note_passed(&mut self, now: Duration, sender: Uuid, group: &Text, content: &Content) {
        if self.role != Role::Active {
            let fingerprint = self.reserve_out.fingerprint((sender, group, content));
            self.reserve_out.handle_passed(now, fingerprint);
            self.note_unquiet(now);
        }
    }

    /// The bridge that forwards, or did so until now, has passed a message on.
    fn note_unquiet(&mut self, now: Duration) {
        if let Role::Taking(takeover) = &mut self.role {
            takeover.handle_passed(now);
        }
    }
}
