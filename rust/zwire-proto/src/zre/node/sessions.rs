//! Sessions: HELLO, sequences, restarts (`zre` 11.1 to 11.3, 15).

use super::{
    super::{
        Generation, Uuid,
        wire::{Body, Header, Hello, IdentityForm, LogEvent, MessageId, ZreMessage},
    },
    Action, EndpointWay, EventKind, NodeError, Origin, Reason, Source, ZreNode, diary, endpoint_of, ip_of,
    peer::{PeerDealer, PeerSession, lossy},
    split_endpoint,
};
use crate::{Now, buf::Reader};
use bytes::Bytes;
use core::net::IpAddr;
use std::collections::BTreeSet;

impl ZreNode {
    /// Handles a message of the ROUTER: the identity of its connection, and its frames.
    pub fn handle_message(&mut self, now: Now, identity: &[u8], frames: &[Bytes]) {
        self.handle_message_by(now, identity, &Origin::default(), frames);
    }

    /// Like [`Self::handle_message`], for a connection of that origin. Messages of a peer that announces a key
    /// are accepted only over connections that have proved to own it, and endpoints only of the host that the
    /// connection comes from.
    pub fn handle_message_by(&mut self, now: Now, identity: &[u8], origin: &Origin, frames: &[Bytes]) {
        if self.check_running().is_err() {
            return;
        }
        let Some((form, uuid)) = IdentityForm::decode(identity).filter(|(_, uuid)| *uuid != self.config.uuid)
        else {
            self.stats.unknown_identities += 1;
            let reason = IdentityForm::decode(identity).map_or(Reason::NoUuid, |_| Reason::OwnUuid);
            return self.diary.note(now, diary::of_identity(identity), reason);
        };
        let first = frames.first().cloned().unwrap_or_default();
        if let Ok((generation, sequence, hello)) = Hello::read(&first) {
            let (public_key, endpoint) = (hello.public_key(), hello.address.endpoint());
            let session = PeerSession::new(&uuid, form, generation, sequence, hello);
            return self.handle_hello(now, uuid, origin, public_key, endpoint, session);
        }
        // A peer without HELLO has no session and is refused below; this check is for peers with one.
        let owner = self.peers.get(&uuid).and_then(|peer| peer.public_key);
        if origin.key.is_some() && owner != origin.key {
            self.stats.hello_security += 1;
            return self.diary.note(now, Source::Peer(uuid), Reason::OtherKey);
        }
        // "it SHALL silently ignore any commands that precede a HELLO command" (RFC 20).
        let Some(session) = self.peers.get_mut(&uuid).and_then(|peer| peer.session.as_mut()) else {
            self.stats.before_hello += 1;
            return self.diary.note(now, Source::Peer(uuid), Reason::BeforeHello);
        };
        // A message without a readable header has no number; if it did have one, the next message shows
        // a gap.
        let Ok(header) = Header::decode(session.generation, &mut Reader::new(&first)) else {
            self.stats.malformed += 1;
            return self.diary.note(now, Source::Peer(uuid), Reason::Malformed);
        };
        // pyre goes from 65534 to 0.
        let wrapped = session.expected == u16::MAX && header.sequence == 0;
        if header.sequence != session.expected && !wrapped {
            let lost = header.sequence.wrapping_sub(session.expected);
            self.handle_gap(now, &uuid, lost);
            return;
        }
        session.expected = header.sequence.wrapping_add(1);
        let generation = session.generation;
        if let Some(peer) = self.peers.get_mut(&uuid) {
            peer.sign_of_life(now.mono);
        }
        match ZreMessage::decode(generation, frames) {
            Ok(message) => self.handle_body(now, &uuid, message),
            // The message has consumed its number, so the session goes on.
            Err(_) => {
                self.stats.malformed += 1;
                self.diary.note(now, Source::Peer(uuid), Reason::Malformed);
            }
        }
    }

    /// Whether a connection with this identity and key may speak for its node: under CURVE only one with
    /// the key that the node has announced.
    pub fn may_speak(&mut self, now: Now, identity: &[u8], key: Option<&[u8; 32]>) -> bool {
        let Some((_, uuid)) = IdentityForm::decode(identity) else { return true };
        let owner = self.peers.get(&uuid).and_then(|peer| peer.public_key);
        let other = key.is_some() && owner.is_some() && owner.as_ref() != key;
        if other {
            self.stats.hello_security += 1;
            self.diary.note(now, Source::Peer(uuid), Reason::OtherKey);
        }
        !other
    }

    /// Records that a connection was refused because its node answers on another one.
    pub fn note_refused_speaker(&mut self, now: Now, identity: &Bytes) {
        self.diary.note(now, diary::of_identity(identity), Reason::Claimed);
    }

    fn handle_body(&mut self, now: Now, uuid: &Uuid, message: ZreMessage) {
        self.stats.messages_in += 1;
        self.log_message(now, LogEvent::RECV, uuid, message.body.id(), message.sequence);
        if message.body.id().0 > MessageId::PING_OK.0
            && let Some(peer) = self.peers.get_mut(uuid)
        {
            peer.drafts = true;
        }
        match message.body {
            Body::Whisper { content } => self.event(uuid, EventKind::Whisper { content }),
            Body::Shout { group, content } => {
                self.event(uuid, EventKind::Shout { group: lossy(&group), content });
            }
            Body::Join { group, status } => self.handle_join(now, uuid, lossy(&group), status),
            Body::Leave { group, status } => self.handle_leave(now, uuid, lossy(&group), status),
            // "When a node receives a PING command it SHALL reply with a PING-OK command."
            Body::Ping => drop(self.send(now, uuid, Body::PingOk)),
            Body::Elect { group, challenger } => self.handle_elect(now, uuid, lossy(&group), &challenger),
            Body::Leader { group, leader } => self.handle_leader(now, uuid, lossy(&group), leader),
            Body::Goodbye => self.exit(now, uuid),
            // A HELLO that decodes was handled by the caller, one that does not cannot get here.
            Body::Hello(_) => {}
            Body::PingOk => self.handle_ping_ok(now, uuid),
        }
    }

    fn handle_hello(
        &mut self,
        now: Now,
        uuid: Uuid,
        origin: &Origin,
        public_key: Option<[u8; 32]>,
        endpoint: Bytes,
        mut session: PeerSession,
    ) {
        let generation = session.generation;
        let spoken = match generation {
            // The layout is the same; a peer that sends version 3 understands version 3.
            Generation::Rfc43 => [Generation::Rfc36, Generation::Rfc43],
            other => [other, other],
        };
        if !spoken.iter().any(|generation| self.config.generations.contains(*generation)) {
            self.stats.foreign_generation += 1;
            return self.diary.note(now, Source::Peer(uuid), Reason::ForeignGeneration);
        }
        let known_key = self.peers.get(&uuid).and_then(|peer| peer.public_key);
        if self.config.public_key.is_some()
            && (public_key.is_none()
                || known_key.is_some() && known_key != public_key
                || origin.key.is_some() && origin.key != public_key)
        {
            self.stats.hello_security += 1;
            let reason = if public_key.is_none() { Reason::NoKey } else { Reason::OtherKey };
            return self.diary.note(now, Source::Peer(uuid), reason);
        }
        // Copied configuration, or an address translation: the DEALER would connect to this node
        // itself.
        if endpoint == self.own_endpoint(ip_of(&endpoint)) {
            self.stats.unknown_identities += 1;
            return self.diary.note(now, Source::Peer(uuid), Reason::OwnEndpoint);
        }
        let known = self.peers.get(&uuid);
        let ready = known.is_some_and(|peer| peer.session.is_some());
        let renewed = known.is_some_and(|peer| now.mono < peer.renewed_until);
        let connected = known.is_some_and(|peer| peer.dealer.is_some());
        let greeted = known.is_some_and(|peer| peer.ended && peer.dealer.is_some());
        let begins = ready && !renewed && !greeted;
        // The connection that reached the peer reaches it again, whatever address it announces.
        let same = known.filter(|peer| begins && peer.address().as_bytes() == &endpoint[..]);
        let reach = match same.map(|peer| peer.endpoint.clone()) {
            Some(reached) => reached,
            // The connection to the peer is kept, and the endpoint is not connected to.
            None if connected && !begins => endpoint,
            None => match self.reach(now, &uuid, origin, endpoint) {
                Some(reach) => reach,
                None => return,
            },
        };
        if let Some(collector) = &session.collector
            && !self.is_plausible(origin, collector)
        {
            self.refuse_endpoint(now, &uuid);
            session.collector = None;
        }
        if ready && greeted {
            // "End the old session, start a new one (EXIT, ENTER)" (`zre` 16.14). The connection to the
            // peer is new and has carried this node's HELLO.
            self.close_session(now, &uuid);
        } else if begins {
            // Same, and the peer needs a new HELLO.
            self.exit(now, &uuid);
        }
        if !self.peers.contains_key(&uuid) {
            self.purge(now, &reach, &uuid);
            if self.peers.len() >= self.config.max_peers {
                self.stats.peers_refused += 1;
                return self.diary.note(now, Source::Peer(uuid), Reason::TooManyPeers);
            }
            self.insert(now, uuid, reach, public_key);
        } else if let Some(peer) = self.peers.get_mut(&uuid)
            && peer.dealer.is_none()
        {
            if self.endpoints.get(&peer.endpoint) == Some(&uuid) {
                self.endpoints.remove(&peer.endpoint);
            }
            peer.endpoint = reach.clone();
            self.purge(now, &reach, &uuid);
            self.endpoints.insert(reach, uuid);
        }
        if ready
            && !renewed
            && let Some(peer) = self.peers.get_mut(&uuid)
        {
            // The peer may still have a session with this node, which the following HELLO ends.
            peer.renewed_until = now.mono + 2 * self.config.ping_interval;
        }
        self.stats.messages_in += 1;
        self.adopt(now, uuid, public_key, session);
    }

    /// The endpoint to connect to for one that a HELLO names: that one if its host is the one that the
    /// connection comes from, else the same port there, since anyone can name the endpoint of another node
    /// (`zre` 16.11). `None`: it belongs to this node, or to a peer that answers.
    fn reach(&mut self, now: Now, uuid: &Uuid, origin: &Origin, endpoint: Bytes) -> Option<Bytes> {
        let Some(address) = origin.address.filter(|_| !self.is_plausible(origin, &endpoint)) else {
            return Some(endpoint);
        };
        self.refuse_endpoint(now, uuid);
        let reach = split_endpoint(&endpoint).map_or_else(Bytes::new, |(_, port)| endpoint_of(address, port));
        let reason = match () {
            () if reach == self.own_endpoint(Some(address)) => Reason::OwnEndpoint,
            () if self.is_taken(now, &reach, uuid) => Reason::EndpointInUse,
            () => return Some(reach),
        };
        self.diary.note(now, Source::Peer(*uuid), reason);
        None
    }

    /// Whether a connection of that origin may name this endpoint: it is of the same host. Addresses of this
    /// host are all the same one.
    fn is_plausible(&self, origin: &Origin, endpoint: &[u8]) -> bool {
        let Some(address) = origin.address else { return true };
        let is_own = |at: IpAddr| {
            at.is_loopback() || self.config.interfaces.iter().any(|interface| interface.address == at)
        };
        ip_of(endpoint).is_some_and(|host| host == address || is_own(host) && is_own(address))
    }

    fn refuse_endpoint(&mut self, now: Now, uuid: &Uuid) {
        self.stats.endpoints_refused += 1;
        self.diary.note(now, Source::Peer(*uuid), Reason::OtherHost);
    }

    fn adopt(&mut self, now: Now, uuid: Uuid, public_key: Option<[u8; 32]>, session: PeerSession) {
        let generation = session.generation;
        let failed = self.peers.get(&uuid).is_some_and(|peer| peer.retry_at.is_some());
        if failed && generation.is_legacy() {
            // The peer has this node's HELLO, and the connection that carried it is gone.
            return self.restart_with_legacy(now, &uuid);
        }
        let Some(peer) = self.peers.get_mut(&uuid) else { return };
        self.given_up.remove(&uuid);
        self.unanswered.remove(&(peer.since, uuid));
        peer.sign_of_life(now.mono);
        peer.ended = false;
        peer.detect_at = None;
        peer.public_key = peer.public_key.or(public_key);
        let (groups, headers) = (session.groups.clone(), session.headers.clone());
        match self.config.early.as_ref().is_some_and(|wanted| session.has_header(wanted)) {
            true => self.early.insert(uuid),
            false => self.early.remove(&uuid),
        };
        let old = peer.session.replace(session);
        // 36 and 43 decode alike, so an existing connection is kept instead of switching back and
        // forth.
        let fits = peer.dealer.as_ref().is_some_and(|dealer| {
            let same = dealer.generation == generation;
            same || dealer.generation == Generation::Rfc36 && generation == Generation::Rfc43
        });
        if !fits {
            if peer.dealer.is_none() && self.may_be_named(now, Some(generation)) {
                self.detect(now, &uuid);
            } else {
                self.open(now, &uuid, generation);
            }
        }
        let before = match old {
            Some(old) => old.groups,
            None => {
                self.event(&uuid, EventKind::Enter { headers });
                self.connect_log(&uuid);
                self.log_peer(now, &uuid, true);
                BTreeSet::new()
            }
        };
        before.difference(&groups).for_each(|group| self.remove_member(group, &uuid));
        groups.difference(&before).for_each(|group| self.add_member(group, &uuid));
        for group in before.difference(&groups) {
            self.event(&uuid, EventKind::Leave { group: group.clone() });
        }
        for group in groups.difference(&before) {
            self.event(&uuid, EventKind::Join { group: group.clone() });
            self.start_election(now, group);
        }
        self.wake(&uuid, now.mono + self.ask_after());
    }

    /// Messages of a peer are missing. Its session ends, and a new HELLO tells it so; it answers with
    /// its own HELLO.
    fn handle_gap(&mut self, now: Now, uuid: &Uuid, lost: u16) {
        self.stats.gaps += 1;
        self.diary.note(now, Source::Peer(*uuid), Reason::OutOfSequence);
        // A number that went back does not tell how many are missing.
        let lost = if lost > u16::MAX / 2 { 0 } else { lost };
        self.event(uuid, EventKind::MessagesLost { lost });
        let Some(peer) = self.peers.get(uuid) else { return };
        let generation = peer.session.as_ref().map(|session| session.generation);
        let (endpoint, key, drafts) = (peer.endpoint.clone(), peer.public_key, peer.drafts);
        match generation {
            Some(generation) if !generation.is_legacy() => {
                self.exit(now, uuid);
                self.insert(now, *uuid, endpoint, key);
                if let Some(peer) = self.peers.get_mut(uuid) {
                    peer.drafts = drafts;
                }
                self.open(now, uuid, generation);
                self.wake(uuid, now.mono + self.config.expired);
            }
            _ => self.restart_with_legacy(now, uuid),
        }
    }

    /// Connects to a peer, closing the existing connection, and sends HELLO.
    pub(super) fn open(&mut self, now: Now, uuid: &Uuid, generation: Generation) {
        let Some(peer) = self.peers.get_mut(uuid) else { return };
        if let Some(old) = peer.dealer.take() {
            self.dealers.remove(&old.id);
            self.actions.push_back(Action::Disconnect { dealer: old.id });
        }
        peer.detect_at = None;
        peer.retry_at = None;
        // A peer that writes its identity in another form expects the same form.
        let form = match &peer.session {
            Some(session) if session.form == IdentityForm::Hex && generation.is_legacy() => session.form,
            _ => IdentityForm::of(generation),
        };
        let (endpoint, server_key) = (peer.endpoint.clone(), peer.public_key);
        let identity = form.encode(&self.config.uuid);
        let remote = ip_of(&endpoint);
        let dealer = self.new_dealer(EndpointWay::Peer(*uuid));
        let peer = Some(*uuid);
        self.actions.push_back(Action::Connect { dealer, peer, endpoint, identity, server_key });
        let mut dealer = PeerDealer::new(dealer, generation);
        self.greet(&mut dealer, peer, remote);
        if let Some(peer) = self.peers.get_mut(uuid) {
            peer.dealer = Some(dealer);
        }
        self.log_message(now, LogEvent::SEND, uuid, MessageId::HELLO, 1);
        self.flush(now, uuid);
    }

    /// Sends the messages that waited for a connection to the peer.
    pub(super) fn flush(&mut self, now: Now, uuid: &Uuid) {
        let waiting = self.peers.get_mut(uuid).map(|peer| core::mem::take(&mut peer.waiting));
        for body in waiting.into_iter().flatten() {
            // Messages that its generation cannot express were refused before they were queued.
            let _sent = self.send(now, uuid, body);
        }
    }

    /// Renews the session to a peer without raising Exit and Enter.
    pub(super) fn renew(&mut self, now: Now, uuid: &Uuid) {
        let Some(peer) = self.peers.get_mut(uuid) else { return };
        let generation = match (&peer.session, &peer.dealer) {
            _ if peer.is_legacy() => return self.restart_with_legacy(now, uuid),
            (Some(session), _) => Some(session.generation),
            (None, Some(dealer)) => Some(dealer.generation),
            (None, None) => None,
        };
        if peer.session.is_some() {
            peer.renewed_until = now.mono + 2 * self.config.ping_interval;
        }
        self.stats.renewed += 1;
        if let Some(generation) = generation.or_else(|| self.optimistic_generation()) {
            self.open(now, uuid, generation);
        }
    }

    /// Renews a session before pyre, which does not count to the end, loses it; `true`: HELLO was sent.
    pub(super) fn renew_when_long(&mut self, now: Now, uuid: &Uuid) -> bool {
        let (Some(most), Some(peer)) = (self.config.renew_after, self.peers.get(uuid)) else { return false };
        let sent = peer.dealer.as_ref().map_or(0, |dealer| dealer.sent);
        let is_pyre = peer.session.as_ref().is_some_and(|session| !session.generation.is_legacy());
        let long = is_pyre && sent >= u32::from(most.max(1));
        if long {
            self.renew(now, uuid);
        }
        long
    }

    /// Numbers a message and queues it.
    pub(super) fn send(&mut self, now: Now, uuid: &Uuid, body: Body) -> Result<(), NodeError> {
        self.renew_when_long(now, uuid);
        self.send_now(now, uuid, body)
    }

    /// Like [`Self::send`], without renewing a long session.
    pub(super) fn send_now(&mut self, now: Now, uuid: &Uuid, body: Body) -> Result<(), NodeError> {
        let Some(peer) = self.peers.get_mut(uuid) else {
            return Err(NodeError::UnknownPeer { peer: *uuid });
        };
        if peer.may_wait() {
            peer.wait(body)?;
            return Ok(());
        }
        let Some(dealer) = &mut peer.dealer else {
            return Err(NodeError::NotResponding { peer: *uuid });
        };
        let (id, sequence) = (body.id(), dealer.sequence);
        let action = dealer.message(Some(*uuid), body)?;
        self.stats.messages_out += 1;
        if matches!(id, MessageId::WHISPER | MessageId::SHOUT) {
            self.last_sent = Some(now.mono);
        }
        self.actions.push_back(action);
        self.log_message(now, LogEvent::SEND, uuid, id, sequence);
        Ok(())
    }

    /// Raises `Exit` for a peer that had entered, and ends all that depends on its session.
    pub(super) fn close_session(&mut self, now: Now, uuid: &Uuid) {
        if self.peers.get(uuid).is_none_or(|peer| peer.session.is_none()) {
            return;
        }
        self.log_peer(now, uuid, false);
        self.disconnect_log(uuid);
        self.event(uuid, EventKind::Exit);
        let Some(session) = self.peers.get_mut(uuid).and_then(|peer| peer.session.take()) else { return };
        self.early.remove(uuid);
        session.groups.iter().for_each(|group| self.remove_member(group, uuid));
        for group in &session.groups {
            self.member_left(now, group, uuid);
        }
    }
}
