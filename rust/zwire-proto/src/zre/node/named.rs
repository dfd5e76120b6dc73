//! Configured endpoints, of which no beacon tells the node (`zre` 7).
//!
//! A DEALER connects there and sends HELLO; the node answers with its own HELLO, over a connection of
//! its own. The endpoint in the answer tells which configured endpoint it belongs to. Behind an address
//! translation, or on a node of several networks, that is a different one: then the endpoint gets a
//! PING, and a peer without any other connection that sends PING-OK is the node of this endpoint.

use super::{
    super::{
        Generation, Uuid, limits,
        wire::{Body, IdentityForm},
    },
    Action, DealerId, NodeError, ZreNode,
    discovery::QUIET,
    endpoint_of, ip_of,
    peer::PeerDealer,
    split_endpoint,
};
use crate::{Now, Text};
use bytes::Bytes;
use core::{net::SocketAddr, time::Duration};

/// Time that a connection waits for a HELLO before the next generation is tried.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Delay before a name that did not resolve is resolved again.
const RESOLVE_WAIT: Duration = Duration::from_secs(30);

/// The longest pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Delay before an endpoint that did not answer a PING gets another one.
const PROBE_PAUSE: Duration = Duration::from_secs(5);

/// Target of a DEALER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndpointWay {
    Peer(Uuid),
    /// A configured endpoint without an answer so far.
    Named(Bytes),
}

/// State of a configured endpoint.
#[derive(Debug, Default)]
pub(super) struct Named {
    public_key: Option<[u8; 32]>,
    /// `tcp://ip:port`: the resolved name, or the endpoint itself.
    addresses: Vec<Bytes>,
    /// The connection, until the node answers.
    pub(super) dealer: Option<PeerDealer>,
    pub(super) peer: Option<Uuid>,
    /// Time of the next attempt.
    at: Option<Duration>,
    backoff: Duration,
    /// Attempts since the last pause, each with another generation or address.
    tries: usize,
    /// Time at which a PING stayed unanswered.
    deaf: Option<Duration>,
}

impl Named {
    fn is_at(&self, key: &Bytes, endpoint: &Bytes) -> bool {
        key == endpoint || self.addresses.contains(endpoint)
    }

    /// Connected, with the node still unknown.
    fn is_open(&self) -> bool {
        self.peer.is_none() && self.dealer.as_ref().is_some_and(|dealer| dealer.connected)
    }

    fn pause(&mut self) -> Duration {
        let pause = self.backoff;
        self.backoff = (pause * 2).min(MAX_BACKOFF);
        pause
    }
}

impl ZreNode {
    /// Keeps a session with the node at `tcp://host:port`: connects now, and again whenever the node is
    /// gone. A host name is resolved by [`Action::Resolve`].
    ///
    /// # Errors
    /// The endpoint has another form or lacks the key that this node needs, there are too many
    /// endpoints, or this node is stopped.
    pub fn handle_endpoint(
        &mut self,
        now: Now,
        endpoint: &Text,
        public_key: Option<[u8; 32]>,
    ) -> Result<(), NodeError> {
        self.check_running()?;
        let key = Bytes::copy_from_slice(endpoint.as_bytes());
        if split_endpoint(&key).is_none_or(|(_, port)| port == 0) {
            return Err(NodeError::Endpoint { endpoint: endpoint.clone() });
        }
        if public_key.is_some() != self.config.public_key.is_some() {
            return Err(NodeError::EndpointKey { endpoint: endpoint.clone(), needed: public_key.is_none() });
        }
        if self.named.contains_key(&key) || key == self.own_endpoint(ip_of(&key)) {
            return Ok(());
        }
        if self.named.len() >= limits::MAX_ENDPOINTS {
            return Err(NodeError::TooManyEndpoints { bound: limits::MAX_ENDPOINTS });
        }
        let addresses = if ip_of(&key).is_some() { vec![key.clone()] } else { Vec::new() };
        let backoff = self.config.ping_interval;
        self.named.insert(key.clone(), Named { public_key, addresses, backoff, ..Named::default() });
        self.try_named(now, &key);
        Ok(())
    }

    /// Addresses of an endpoint's host, the answer to [`Action::Resolve`]. An empty list means that the
    /// name did not resolve; it is resolved again later.
    pub fn handle_resolved(&mut self, now: Now, endpoint: &Bytes, addresses: &[SocketAddr]) {
        if self.check_running().is_err() {
            return;
        }
        let all = addresses.iter().take(limits::MAX_ADDRESSES);
        let all: Vec<Bytes> = all.map(|address| endpoint_of(address.ip(), address.port())).collect();
        let own = all.iter().any(|address| *address == self.own_endpoint(ip_of(address)));
        let Some(named) = self.named.get_mut(endpoint) else { return };
        named.addresses = all;
        if named.peer.is_some() || named.dealer.is_some() {
            return;
        }
        if named.addresses.is_empty() {
            named.at = Some(now.mono + named.pause());
            return self.wake_named(endpoint);
        }
        if own {
            // A list of all nodes contains this one as well.
            self.named.remove(endpoint);
            return;
        }
        self.try_named(now, endpoint);
    }

    /// A DEALER has connected.
    pub fn handle_dealer_connected(&mut self, now: Now, dealer: DealerId) {
        match self.dealers.get(&dealer) {
            Some(EndpointWay::Peer(uuid)) => {
                if let Some(dealer) = self.peers.get_mut(uuid).and_then(|peer| peer.dealer.as_mut()) {
                    dealer.connected = true;
                }
            }
            Some(EndpointWay::Named(endpoint)) => {
                let endpoint = endpoint.clone();
                let ways = self.ways().count();
                let (evasive, expired) = (self.config.evasive, self.config.expired);
                let Some(named) = self.named.get_mut(&endpoint) else { return };
                let Some(dealer) = &mut named.dealer else { return };
                dealer.connected = true;
                // A second HELLO makes peers of the first generations abort, unless this node has
                // expired there.
                let wait = match dealer.generation.is_legacy() {
                    true => expired,
                    false if named.tries + 1 < ways => ANSWER_WAIT,
                    false => evasive.max(named.backoff),
                };
                named.at = Some(now.mono + wait);
                self.wake_named(&endpoint);
                self.probe(now);
            }
            None => {}
        }
    }

    /// Generations in the order of the attempts, the one that is harmless to all first (`zre` 15.2). A
    /// peer of 20/ZRE could mistake the HELLO of zyre 1.0.0, so that comes last, and likewise a large
    /// one of 36/ZRE.
    fn ways(&self) -> impl Iterator<Item = Generation> {
        use Generation::{Rfc20, Rfc36, Rfc43, Zyre1};
        let order = if self.is_mistakable(None) {
            [Rfc20, Rfc36, Rfc43, Zyre1]
        } else {
            [Rfc36, Rfc43, Rfc20, Zyre1]
        };
        order.into_iter().filter(|generation| self.config.generations.contains(*generation))
    }

    /// Connects to an endpoint, unless its node is known.
    fn try_named(&mut self, now: Now, key: &Bytes) {
        let Some(named) = self.named.get_mut(key) else { return };
        named.at = None;
        if named.addresses.is_empty() {
            named.at = Some(now.mono + RESOLVE_WAIT);
            self.actions.push_back(Action::Resolve { endpoint: key.clone() });
            return self.wake_named(key);
        }
        // The node of this endpoint may have a session with this one: it hears the goodbye first.
        if let Some(at) = self.restart_at
            && self.given_up.values().any(|endpoint| named.is_at(key, endpoint))
        {
            named.at = Some(at + QUIET);
            return self.wake_named(key);
        }
        let tries = named.tries;
        let known = |address: &Bytes| self.endpoints.get(address).copied();
        if let Some(uuid) = known(key).or_else(|| named.addresses.iter().find_map(known)) {
            named.peer = Some(uuid);
            return;
        }
        let endpoint = named.addresses[tries % named.addresses.len()].clone();
        let server_key = named.public_key;
        let ways: Vec<Generation> = self.ways().collect();
        let generation = ways[tries % ways.len()];
        let id = self.new_dealer(EndpointWay::Named(key.clone()));
        let identity = IdentityForm::of(generation).encode(&self.config.uuid);
        let remote = ip_of(&endpoint);
        self.actions.push_back(Action::Connect { dealer: id, peer: None, endpoint, identity, server_key });
        let mut dealer = PeerDealer::new(id, generation);
        self.greet(&mut dealer, None, remote);
        if let Some(named) = self.named.get_mut(key) {
            named.dealer = Some(dealer);
        }
    }

    pub(super) fn new_dealer(&mut self, way: EndpointWay) -> DealerId {
        let id = DealerId(self.next_dealer);
        self.next_dealer += 1;
        self.dealers.insert(id, way);
        id
    }

    fn wake_named(&mut self, key: &Bytes) {
        let at = self.named.get(key).and_then(|named| named.at);
        self.next_named = [self.next_named, at].into_iter().flatten().min();
    }

    /// Runs the due timers of endpoints without a known node.
    pub(super) fn check_named(&mut self, now: Now) {
        if self.next_named.is_none_or(|at| now.mono < at) {
            return;
        }
        if let Some((key, until)) = self.probed.take_if(|(_, until)| *until <= now.mono) {
            if let Some(named) = self.named.get_mut(&key) {
                named.deaf = Some(until);
            }
            self.probe(now);
        }
        let due = self.named.iter().filter(|(_, named)| named.at.is_some_and(|at| at <= now.mono));
        for key in due.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.retry_named(now, &key);
        }
        let probe = self.probed.as_ref().map(|(_, until)| *until);
        self.next_named = self.named.values().filter_map(|named| named.at).chain(probe).min();
    }

    fn retry_named(&mut self, now: Now, key: &Bytes) {
        let ways = self.ways().count();
        let Some(named) = self.named.get_mut(key) else { return };
        let Some(dealer) = named.dealer.take() else { return self.try_named(now, key) };
        // The connection is up, but no HELLO came.
        self.dealers.remove(&dealer.id);
        self.actions.push_back(Action::Disconnect { dealer: dealer.id });
        named.tries += 1;
        if named.tries.is_multiple_of(ways) {
            self.pause_named(now, key, Duration::ZERO);
        } else {
            self.try_named(now, key);
        }
    }

    /// Schedules the next attempt after a pause, and resolves the name again.
    fn pause_named(&mut self, now: Now, key: &Bytes, least: Duration) {
        let Some(named) = self.named.get_mut(key) else { return };
        named.at = Some(now.mono + named.pause().max(least));
        if ip_of(key).is_none() {
            named.addresses.clear();
        }
        self.wake_named(key);
    }

    /// The connection to an endpoint broke before its node answered.
    pub(super) fn named_failed(&mut self, now: Now, key: &Bytes) {
        let Some(named) = self.named.get_mut(key) else { return };
        let Some(dealer) = named.dealer.take() else { return };
        named.tries += 1;
        self.actions.push_back(Action::Disconnect { dealer: dealer.id });
        let least = if dealer.generation.is_legacy() { self.config.expired } else { Duration::ZERO };
        self.pause_named(now, key, least);
    }

    /// A peer is gone: its endpoints are tried again. If a second HELLO would make it abort, they wait
    /// until it has expired this node.
    pub(super) fn part_named(&mut self, now: Now, uuid: &Uuid, legacy: bool) {
        let least = if legacy { self.config.expired } else { Duration::ZERO };
        let left = self.named.iter_mut().filter(|(_, named)| named.peer == Some(*uuid));
        let left = left.map(|(key, named)| {
            (named.peer, named.tries) = (None, 0);
            key.clone()
        });
        for key in left.collect::<Vec<_>>() {
            self.pause_named(now, &key, least);
        }
    }

    /// The peer that was reached at this endpoint or through a name that resolves to it.
    pub(super) fn named_peer(&self, endpoint: &Bytes) -> Option<Uuid> {
        let at = |(key, named): (&Bytes, &Named)| named.peer.filter(|_| named.is_at(key, endpoint));
        self.named.iter().find_map(at)
    }

    /// A peer announces this endpoint: connections opened there become connections to the peer.
    pub(super) fn meet(&mut self, now: Now, uuid: &Uuid, endpoint: &Bytes) {
        let meant =
            self.named.iter().filter(|(key, named)| named.peer.is_none() && named.is_at(key, endpoint));
        for key in meant.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.claim(now, uuid, &key);
        }
    }

    fn claim(&mut self, now: Now, uuid: &Uuid, key: &Bytes) {
        let (Some(named), Some(peer)) = (self.named.get_mut(key), self.peers.get_mut(uuid)) else { return };
        if named.public_key.is_some() && peer.public_key.is_some() && named.public_key != peer.public_key {
            return;
        }
        named.peer = Some(*uuid);
        named.at = None;
        named.backoff = self.config.ping_interval;
        named.deaf = None;
        let at = named.tries.checked_rem(named.addresses.len());
        let endpoint = at.map_or_else(|| key.clone(), |at| named.addresses[at].clone());
        let Some(dealer) = named.dealer.take() else { return };
        let spare = if peer.dealer.as_ref().is_some_and(|dealer| dealer.connected) {
            Some(dealer)
        } else {
            if self.endpoints.get(&peer.endpoint) == Some(uuid) {
                self.endpoints.remove(&peer.endpoint);
            }
            self.dealers.insert(dealer.id, EndpointWay::Peer(*uuid));
            self.endpoints.insert(endpoint.clone(), *uuid);
            (peer.endpoint, peer.public_key) = (endpoint, peer.public_key.or(named.public_key));
            (peer.detect_at, peer.retry_at) = (None, None);
            peer.dealer.replace(dealer)
        };
        if let Some(spare) = spare {
            self.dealers.remove(&spare.id);
            self.actions.push_back(Action::Disconnect { dealer: spare.id });
        }
        self.flush(now, uuid);
    }

    /// Whether a peer of this generation may be the node of a connected endpoint.
    pub(super) fn may_be_named(&self, now: Now, generation: Option<Generation>) -> bool {
        self.named.values().any(|named| is_candidate(now, named, generation))
    }

    /// Sends PING to an endpoint if an unreached peer may be its node.
    pub(super) fn probe(&mut self, now: Now) {
        if self.probed.is_some() || !self.may_be_named(now, None) {
            return;
        }
        let lost = self.peers.values().filter(|peer| {
            let unreached = peer.dealer.as_ref().is_none_or(|dealer| !dealer.connected);
            unreached && (peer.session.is_some() || peer.detect_at.is_some())
        });
        let wanted: Vec<Option<Generation>> =
            lost.map(|peer| peer.session.as_ref().map(|session| session.generation)).collect();
        let mut all = self.named.iter_mut();
        let fits = |named: &Named| wanted.iter().any(|generation| is_candidate(now, named, *generation));
        let Some((key, named)) = all.find(|(_, named)| fits(named)) else { return };
        let Some(dealer) = &mut named.dealer else { return };
        self.stats.messages_out += 1;
        self.actions.extend(dealer.message(None, Body::Ping));
        let until = now.mono + self.config.detection_wait;
        self.probed = Some((key.clone(), until));
        self.next_named = Some(self.next_named.map_or(until, |next| next.min(until)));
    }

    /// Handles PING-OK. If no connection to this peer exists, no other PING can have reached it: the peer
    /// is the node of the probed endpoint.
    pub(super) fn handle_ping_ok(&mut self, now: Now, uuid: &Uuid) {
        let dealer = self.peers.get(uuid).and_then(|peer| peer.dealer.as_ref());
        if self.probed.is_some() && dealer.is_none_or(|dealer| !dealer.connected) {
            let Some((key, _)) = self.probed.take() else { return };
            self.claim(now, uuid, &key);
            self.probe(now);
        }
    }

    /// Sends a change to the endpoints that have this node's HELLO and have not answered.
    pub(super) fn tell_named(&mut self, body: &Body) {
        for named in self.named.values_mut() {
            if let Some(dealer) = &mut named.dealer {
                self.stats.messages_out += 1;
                self.actions.extend(dealer.message(None, body.clone()));
            }
        }
    }

    pub(super) fn close_named(&mut self) {
        for (_, named) in core::mem::take(&mut self.named) {
            let dealer = named.dealer.map(|dealer| dealer.id);
            self.actions.extend(dealer.map(|dealer| Action::Disconnect { dealer }));
        }
        (self.probed, self.next_named) = (None, None);
    }
}

/// Whether an endpoint may belong to a peer of this generation, and was not probed recently.
fn is_candidate(now: Now, named: &Named, generation: Option<Generation>) -> bool {
    let spoken = named.dealer.as_ref().map(|dealer| dealer.generation);
    let fits = generation.is_none_or(|generation| {
        spoken == Some(generation) || spoken == Some(Generation::Rfc36) && generation == Generation::Rfc43
    });
    fits && named.is_open() && named.deaf.is_none_or(|at| at + PROBE_PAUSE <= now.mono)
}
