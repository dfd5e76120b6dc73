//! Discovery of peers: beacons, gossip tuples, endpoints of a configuration (`zre` 5, 6, 7, 11.8).

use super::{
    super::{
        Generation, Uuid, limits,
        wire::{Beacon, Body, Hello},
    },
    Action, DealerId, EventKind, Interface, NodeError, Reason, Source, ZreNode, endpoint_of, ip_of,
    peer::{KnownPeer, PeerDealer},
};
use crate::Now;
use bytes::Bytes;
use core::{net::IpAddr, time::Duration};
use std::collections::HashMap;

/// Number of goodbye beacons, and the distance between them: UDP may lose one (`zre` 22).
const GOODBYES: u8 = 3;
const GOODBYE_INTERVAL: Duration = Duration::from_millis(25);

/// Time for the first HELLO of a peer, before a new one can take its entry.
const PATIENCE: Duration = Duration::from_secs(2);

/// Delay of the goodbye after the last message. That message is still on its way through queues and
/// TCP; the datagram would overtake it, and peers drop messages that follow a goodbye.
const GRACE: Duration = Duration::from_millis(50);

/// Time for a peer to send HELLO before it gets one that a peer of 20/ZRE would mistake for its own
/// form and crash. Such a peer sends its HELLO when it receives a beacon.
pub(super) const MISTAKABLE_WAIT: Duration = Duration::from_secs(3);

/// Time for which beacons from another address than that of the session still count as signs of life.
const MOVED: Duration = Duration::from_secs(3);

/// Time that peers of the first generations need to remove a node after its goodbye (`zre` 15.5).
pub(super) const QUIET: Duration = Duration::from_millis(300);

/// Period in which new nodes are counted: the interval of beacons (`zre` 22), so that each may be met by its next.
const PERIOD: Duration = Duration::from_secs(1);

/// New nodes that beacons have announced in the present period.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    since: Duration,
    all: usize,
    of: HashMap<IpAddr, usize>,
}

impl Newcomers {
    /// Counts a new node. Whether it is within the bounds: an address that invents nodes leaves others their part.
    fn admit(&mut self, now: Now, source: IpAddr) -> bool {
        if now.mono >= self.since + PERIOD {
            (self.since, self.all) = (now.mono, 0);
            self.of.clear();
        }
        if self.all >= limits::MAX_NEW {
            return false;
        }
        let count = self.of.entry(source).or_default();
        if *count >= limits::MAX_NEW_OF_ADDRESS {
            return false;
        }
        *count += 1;
        self.all += 1;
        true
    }
}

impl ZreNode {
    /// Handles a datagram on the port of discovery. A datagram that is no beacon is dropped silently.
    pub fn handle_beacon(&mut self, now: Now, source: IpAddr, datagram: &Bytes) {
        if self.check_running().is_err() {
            return;
        }
        let Ok(beacon) = Beacon::decode(datagram) else {
            self.stats.beacons_malformed += 1;
            return self.diary.note(now, Source::Address(source), Reason::NoBeacon);
        };
        if beacon.uuid == self.config.uuid {
            self.stats.beacons_own += 1;
            return;
        }
        // "A secure node ignores v1 beacons and a plain node ignores v3 beacons."
        if beacon.public_key.is_some() != self.config.public_key.is_some() {
            return self.ignore_key(now, Source::Address(source), beacon.public_key.is_some());
        }
        self.stats.beacons_in += 1;
        if beacon.port == 0 {
            self.exit(now, &beacon.uuid);
            return;
        }
        let endpoint = endpoint_of(source, beacon.port);
        if self.peers.contains_key(&beacon.uuid) {
            self.handle_known_beacon(now, beacon.uuid, endpoint);
        } else if !self.newcomers.admit(now, source) {
            self.stats.unanswered_dropped += 1;
            self.diary.note(now, Source::Address(source), Reason::TooManyBeacons);
        } else {
            self.find(now, beacon.uuid, endpoint, beacon.public_key);
            if let Some(peer) = self.peers.get_mut(&beacon.uuid) {
                peer.beaconed = Some(now.mono);
            }
        }
    }

    /// Replaces the addresses of this host and sends a beacon at once. A peer that this node has told an
    /// address that is gone gets a new HELLO: it would go on connecting to that address.
    pub fn set_interfaces(&mut self, now: Now, interfaces: Vec<Interface>) {
        self.config.interfaces = interfaces;
        let endpoints = Self::endpoints_of(&self.config);
        // Without any address the last one is kept: a HELLO must contain one.
        if !endpoints.is_empty() {
            let before = core::mem::replace(&mut self.own_endpoints, endpoints);
            self.hellos.clear();
            self.announce_again(now, &before);
        }
        if self.next_beacon.is_some() && self.goodbyes.is_none() && self.quiet_until.is_none() {
            self.next_beacon = Some(now.mono);
        }
    }

    /// Starts new sessions with the peers that know this node by an endpoint that is gone.
    fn announce_again(&mut self, now: Now, before: &[Bytes]) {
        let own = &self.own_endpoints;
        // Renumbers the endpoint of a connection; `true` if it is gone.
        let is_gone = |dealer: &mut PeerDealer| {
            let announced = dealer.announced.and_then(|at| before.get(usize::from(at)));
            let kept = own.iter().position(|endpoint| Some(endpoint) == announced);
            dealer.announced = kept.and_then(|at| u16::try_from(at).ok());
            kept.is_none()
        };
        let peers = self.peers.iter_mut().filter_map(|(uuid, peer)| Some((uuid, peer.dealer.as_mut()?)));
        let peers: Vec<Uuid> = peers.filter_map(|(uuid, dealer)| is_gone(dealer).then_some(*uuid)).collect();
        let named = self.named.values_mut().filter_map(|named| named.dealer.as_mut());
        let named: Vec<DealerId> = named.filter_map(|dealer| is_gone(dealer).then_some(dealer.id)).collect();
        if self.check_running().is_ok() {
            peers.iter().for_each(|uuid| self.renew(now, uuid));
            named.iter().for_each(|dealer| self.handle_dealer_failed(now, *dealer));
        }
    }

    /// A peer known from gossip or from the configuration. Unlike a beacon this is no sign of life.
    pub fn handle_found(&mut self, now: Now, uuid: Uuid, endpoint: Bytes, public_key: Option<[u8; 32]>) {
        let own = uuid == self.config.uuid || endpoint == self.own_endpoint(ip_of(&endpoint));
        if own || self.peers.contains_key(&uuid) || self.check_running().is_err() {
            return;
        }
        if public_key.is_some() != self.config.public_key.is_some() {
            return self.ignore_key(now, Source::Peer(uuid), public_key.is_some());
        }
        self.find(now, uuid, endpoint, public_key);
    }

    /// A secure and a plain node never meet.
    fn ignore_key(&mut self, now: Now, source: Source, secure: bool) {
        self.stats.beacons_security += 1;
        self.diary.note(now, source, if secure { Reason::SecureBeacon } else { Reason::PlainBeacon });
    }

    /// "A live session wins; if the session is dead or expired, replace it" (`zre` 16.10).
    fn handle_known_beacon(&mut self, now: Now, uuid: Uuid, endpoint: Bytes) {
        let Some(peer) = self.peers.get_mut(&uuid) else { return };
        // A node with several interfaces sends beacons from each: prefer the first address while it
        // works.
        let alive = match peer.session {
            Some(_) => !peer.evasive && peer.dealer.is_some(),
            None => now.mono < peer.since + PATIENCE,
        };
        if peer.endpoint == endpoint {
            peer.beaconed = Some(now.mono);
        }
        // Beacons from another address alone may mean that the peer has moved: then only its connection
        // counts.
        if peer.beaconed.is_none_or(|at| now.mono < at + MOVED) {
            peer.sign_of_life(now.mono);
        }
        if !alive && peer.endpoint != endpoint {
            if peer.is_legacy() {
                return self.restart_with_legacy(now, &uuid);
            }
            let public_key = peer.public_key;
            self.exit(now, &uuid);
            self.find(now, uuid, endpoint, public_key);
        }
    }

    fn find(&mut self, now: Now, uuid: Uuid, endpoint: Bytes, public_key: Option<[u8; 32]>) {
        if self.quiet_until.is_some_and(|until| now.mono < until) {
            return;
        }
        if self.given_up.contains_key(&uuid) {
            if self.may_restart(now) {
                self.given_up.remove(&uuid);
                self.restart(now);
            }
            return;
        }
        if self.is_taken(now, &endpoint, &uuid) {
            return self.diary.note(now, Source::Peer(uuid), Reason::EndpointInUse);
        }
        self.purge(now, &endpoint, &uuid);
        if self.unanswered.len() >= self.config.max_unanswered || self.peers.len() >= self.config.max_peers {
            self.stats.unanswered_dropped += 1;
            match self.unanswered.first().copied() {
                Some((since, oldest)) if since + PATIENCE <= now.mono => self.exit(now, &oldest),
                _ => return self.diary.note(now, Source::Peer(uuid), Reason::TooManyPeers),
            }
        }
        self.insert(now, uuid, endpoint, public_key);
        let reached = self.peers.get(&uuid).is_some_and(|peer| peer.dealer.is_some());
        match self.first_generation() {
            _ if reached => {}
            Some(generation) if !self.may_be_named(now, Some(generation)) => {
                self.open(now, &uuid, generation)
            }
            _ => self.detect(now, &uuid),
        }
        self.wake(&uuid, now.mono + self.config.expired);
    }

    /// Waits before opening a connection: the peer or its configured endpoint may send HELLO first.
    pub(super) fn detect(&mut self, now: Now, uuid: &Uuid) {
        let at = now.mono + self.config.detection_wait;
        if let Some(peer) = self.peers.get_mut(uuid) {
            peer.detect_at = Some(at);
        }
        self.wake(uuid, at);
        self.probe(now);
    }

    pub(super) fn insert(&mut self, now: Now, uuid: Uuid, endpoint: Bytes, public_key: Option<[u8; 32]>) {
        self.unanswered.insert((now.mono, uuid));
        self.endpoints.insert(endpoint.clone(), uuid);
        self.peers.insert(uuid, KnownPeer::new(now.mono, endpoint.clone(), public_key));
        self.meet(now, &uuid, &endpoint);
    }

    /// Generation of the first HELLO to a silent peer; `None`: wait, as several generations are
    /// configured.
    fn first_generation(&self) -> Option<Generation> {
        let mut all = self.config.generations.iter();
        let first = all.next();
        if all.next().is_some() { None } else { first }
    }

    /// Whether this node's HELLO of 36/ZRE also decodes as 20/ZRE, as it does with some dozen groups. A
    /// peer of 20/ZRE would then abort at the next message (`zre` 15.2).
    pub(super) fn is_mistakable(&self, remote: Option<IpAddr>) -> bool {
        let speaks = |generation| self.config.generations.contains(generation);
        if !speaks(Generation::Rfc20) || !speaks(Generation::Rfc36) {
            return false;
        }
        let frames = self.hello(Generation::Rfc36, remote).encode(Generation::Rfc36);
        frames.is_ok_and(|frames| Hello::looks_like_rfc20(&frames[0]))
    }

    /// Generation of the HELLO to a peer that is still silent. 36/ZRE is harmless to all (`zre` 15.2).
    pub(super) fn optimistic_generation(&self) -> Option<Generation> {
        [Generation::Rfc36, Generation::Rfc43, Generation::Rfc20, Generation::Zyre1]
            .into_iter()
            .find(|generation| self.config.generations.contains(*generation))
    }

    /// "New UUID on an endpoint in use: disconnect the old peer (as zyre), raise EXIT" (`zre` 16.11).
    pub(super) fn purge(&mut self, now: Now, endpoint: &Bytes, uuid: &Uuid) {
        if let Some(other) = self.owner_of(endpoint, uuid) {
            self.exit(now, &other);
        }
    }

    /// "Not while it answers": whether an endpoint belongs to another peer, which answers. A datagram proves
    /// nothing about its sender; the HELLO of a node that has taken the place of the peer does.
    pub(super) fn is_taken(&self, now: Now, endpoint: &Bytes, uuid: &Uuid) -> bool {
        let owner = self.owner_of(endpoint, uuid).and_then(|other| self.peers.get(&other));
        owner.is_some_and(|peer| {
            peer.session.is_some() && !peer.broken && now.mono < peer.heard + self.config.evasive
        })
    }

    /// The peer other than `uuid` that has this endpoint.
    fn owner_of(&self, endpoint: &Bytes, uuid: &Uuid) -> Option<Uuid> {
        let owner = self.endpoints.get(endpoint).copied().or_else(|| self.named_peer(endpoint));
        owner.filter(|owner| owner != uuid)
    }

    /// Removes a peer; raises `Exit` if it had entered.
    pub(super) fn exit(&mut self, now: Now, uuid: &Uuid) {
        if !self.peers.contains_key(uuid) {
            return;
        }
        let legacy = self.peers.get(uuid).is_some_and(KnownPeer::is_legacy);
        self.close_session(now, uuid);
        let Some(peer) = self.peers.remove(uuid) else { return };
        self.unanswered.remove(&(peer.since, *uuid));
        peer.due.into_iter().for_each(|due| _ = self.deadlines.remove(&(due, *uuid)));
        if let Some(dealer) = peer.dealer {
            self.dealers.remove(&dealer.id);
            self.actions.push_back(Action::Disconnect { dealer: dealer.id });
        }
        if self.endpoints.get(&peer.endpoint) == Some(uuid) {
            self.endpoints.remove(&peer.endpoint);
        }
        self.part_named(now, uuid, legacy);
    }

    pub(super) fn beacon(&mut self, now: Now) {
        let (Some(at), Some(interval)) = (self.next_beacon, self.config.beacon_interval) else { return };
        if now.mono < at || self.goodbyes.is_some() {
            return;
        }
        if let Some(until) = self.quiet_until.filter(|until| now.mono < *until) {
            // UDP may lose a goodbye, and a peer that missed it aborts at the next HELLO.
            self.send_beacons(0);
            self.next_beacon = Some(until.min(now.mono + QUIET / 3));
            return;
        }
        self.quiet_until = None;
        self.send_beacons(self.config.mailbox);
        self.next_beacon = Some(now.mono + interval);
    }

    fn send_beacons(&mut self, port: u16) {
        let beacon = Beacon { uuid: self.config.uuid, port, public_key: self.config.public_key };
        let datagram = beacon.encode();
        for interface in 0..self.config.interfaces.len() {
            self.stats.beacons_out += 1;
            self.actions.push_back(Action::Beacon { interface, datagram: datagram.clone() });
        }
    }

    /// Peers of the first generations abort on anything out of order, also on a second HELLO. So this
    /// node leaves, which they do not check, and comes back (`zre` 15.5). All peers notice, so if it did that
    /// a moment ago, it drops the peer that is the cause alone, and meets it again after the next restart.
    pub(super) fn restart_with_legacy(&mut self, now: Now, cause: &Uuid) {
        if self.may_restart(now) {
            self.exit(now, cause);
            return self.restart(now);
        }
        self.diary.note(now, Source::Peer(*cause), Reason::RestartedAgain);
        self.give_up(cause);
        if self.config.beacon_interval.is_some() {
            self.restart_at = self.restarted.map(|(at, pause)| at + pause);
        }
        self.exit(now, cause);
    }

    /// Remembers that a peer of the first generations may have a session with this node.
    pub(super) fn give_up(&mut self, uuid: &Uuid) {
        let Some(peer) = self.peers.get(uuid).filter(|_| self.given_up.len() < limits::MAX_GIVEN_UP) else {
            return;
        };
        self.given_up.insert(*uuid, peer.endpoint.clone());
    }

    /// Leaves the network for peers of the first generations, and comes back.
    pub(super) fn restart(&mut self, now: Now) {
        self.restart_at = None;
        if self.quiet_until.is_none() {
            let pause = match self.restarted {
                Some((at, pause)) if now.mono < at + 2 * pause => limits::MAX_RESTART_PAUSE.min(2 * pause),
                _ => limits::RESTART_PAUSE,
            };
            self.restarted = Some((now.mono, pause));
        }
        let legacy = self.peers.iter().filter(|(_, peer)| peer.is_legacy());
        let all: Vec<Uuid> = legacy.map(|(uuid, _)| *uuid).collect();
        all.iter().for_each(|uuid| self.exit(now, uuid));
        if self.config.beacon_interval.is_some() && self.quiet_until.is_none() {
            self.send_beacons(0);
            self.given_up.clear();
            self.quiet_until = Some(now.mono + QUIET);
            self.next_beacon = Some(now.mono + QUIET / 3);
        }
    }

    /// Whether this node may leave and come back for peers of the first generations: it does so at this moment,
    /// or has not for a while.
    fn may_restart(&self, now: Now) -> bool {
        self.quiet_until.is_some() || self.restarted.is_none_or(|(at, pause)| at + pause <= now.mono)
    }

    /// Leaves the network: sends goodbye three times in 50 ms, then closes everything and raises
    /// `Stop`.
    ///
    /// # Errors
    /// The node is already stopped.
    pub fn stop(&mut self, now: Now) -> Result<(), NodeError> {
        self.check_running()?;
        self.goodbyes = Some(GOODBYES);
        self.next_beacon = Some(self.last_sent.map_or(now.mono, |sent| now.mono.max(sent + GRACE)));
        self.deadlines.clear();
        (self.next_named, self.restart_at) = (None, None);
        if self.config.beacon_interval.is_none() {
            // Without beacons no peer hears a goodbye. zyre since 2.0.1 and zwire understand GOODBYE;
            // pyre drops the peer on an unknown message, which serves as well; older zyre ignores it
            // and lets the peer expire. Only the first generations would abort.
            let all: Vec<Uuid> = self.peers.keys().copied().collect();
            for uuid in all {
                if self.is_young(&uuid) {
                    let _queued = self.send(now, &uuid, Body::Goodbye);
                }
            }
        }
        self.say_goodbye(now);
        Ok(())
    }

    pub(super) fn say_goodbye(&mut self, now: Now) {
        let (Some(left), Some(at)) = (self.goodbyes, self.next_beacon) else { return };
        if now.mono < at {
            return;
        }
        if left > 0 {
            if self.config.beacon_interval.is_some() {
                self.send_beacons(0);
            }
            self.goodbyes = Some(left - 1);
            self.next_beacon = Some(now.mono + GOODBYE_INTERVAL);
            return;
        }
        self.next_beacon = None;
        self.goodbyes = None;
        self.stopped = true;
        for (_, peer) in core::mem::take(&mut self.peers) {
            if let Some(dealer) = peer.dealer {
                self.actions.push_back(Action::Disconnect { dealer: dealer.id });
            }
        }
        self.close_named();
        for (endpoint, _) in core::mem::take(&mut self.collectors) {
            self.actions.push_back(Action::DisconnectLog { endpoint });
        }
        (self.unanswered, self.endpoints, self.dealers, self.members) = Default::default();
        self.event(&self.config.uuid.clone(), EventKind::Stop);
    }
}
