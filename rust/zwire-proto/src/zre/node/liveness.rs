//! Timers (`zre` 11.7): detection of silent peers, and retries.

use super::{
    super::{Uuid, wire::Body},
    Action, DealerId, EndpointWay, EventKind, Reason, Source, ZreNode,
    discovery::MISTAKABLE_WAIT,
    ip_of,
    peer::KnownPeer,
};
use crate::Now;
use core::time::Duration;

impl ZreNode {
    /// Call at the deadline of [`poll_timeout`](Self::poll_timeout); an earlier call has no effect.
    pub fn handle_timeout(&mut self, now: Now) {
        self.say_goodbye(now);
        if self.check_running().is_err() {
            return;
        }
        if self.restart_at.is_some_and(|at| at <= now.mono) {
            self.restart(now);
        }
        self.beacon(now);
        self.check_named(now);
        let mut due = Vec::new();
        while let Some((at, uuid)) = self.deadlines.first().copied()
            && at <= now.mono
        {
            self.deadlines.remove(&(at, uuid));
            due.push(uuid);
        }
        for uuid in due {
            if let Some(peer) = self.peers.get_mut(&uuid) {
                peer.due = None;
            }
            if let Some(next) = self.check_peer(now, &uuid) {
                self.wake(&uuid, next);
            }
        }
    }

    /// Silence after which a peer gets a PING.
    pub(super) fn ask_after(&self) -> Duration {
        let evasive = self.config.evasive;
        evasive - self.config.ping_interval.min(evasive / 2)
    }

    /// Runs the due timers of a peer; returns its next deadline, `None` if the peer was removed.
    fn check_peer(&mut self, now: Now, uuid: &Uuid) -> Option<Duration> {
        #[cfg(test)]
        (self.checks += 1);
        let (evasive, expired, ask_after) = (self.config.evasive, self.config.expired, self.ask_after());
        let ping_interval = self.config.ping_interval.max(Duration::from_millis(1));
        let peer = self.peers.get_mut(uuid)?;
        if peer.detect_at.is_some_and(|at| at <= now.mono) {
            let spoken = peer.session.as_ref().map(|session| session.generation);
            let (patient_until, remote) = (peer.since + MISTAKABLE_WAIT, ip_of(&peer.endpoint));
            let wait = spoken.is_none() && now.mono < patient_until && self.is_mistakable(remote);
            if let Some(peer) = self.peers.get_mut(uuid) {
                peer.detect_at = wait.then_some(patient_until);
            }
            if let Some(generation) = spoken.or_else(|| self.optimistic_generation()).filter(|_| !wait) {
                self.open(now, uuid, generation);
            }
        } else if let Some(peer) = self.peers.get_mut(uuid)
            && peer.retry_at.is_some_and(|at| at <= now.mono)
        {
            peer.retry_at = None;
            self.renew(now, uuid);
        }
        let peer = self.peers.get_mut(uuid)?;
        let timers = [peer.detect_at, peer.retry_at];
        // A peer that never sent HELLO expires, however often it beacons: the next beacon starts over.
        let start = if peer.session.is_some() { peer.heard } else { peer.since };
        let gone_at = start + expired;
        if gone_at <= now.mono {
            if peer.is_legacy() {
                self.give_up(uuid);
            }
            self.exit(now, uuid);
            return None;
        }
        let mut next = timers.into_iter().flatten().fold(gone_at, Duration::min);
        if peer.session.is_none() {
            return Some(next);
        }
        // A live peer without traffic gets its PING early enough to answer before it counts as evasive.
        let evasive_at = peer.heard + evasive;
        let ask_at = peer.heard + ask_after;
        if ask_at > now.mono {
            return Some(next.min(ask_at));
        }
        let silent_at = evasive_at + ping_interval;
        let was = (peer.evasive, peer.silent);
        (peer.evasive, peer.silent) = (evasive_at <= now.mono, silent_at <= now.mono);
        let is = (peer.evasive, peer.silent);
        let ping = peer.next_ping.is_none_or(|at| at <= now.mono);
        if ping {
            peer.next_ping = Some(now.mono + ping_interval);
        }
        for at in [Some(evasive_at), Some(silent_at), peer.next_ping].into_iter().flatten() {
            if at > now.mono {
                next = next.min(at);
            }
        }
        if is.0 && !was.0 {
            self.event(uuid, EventKind::Evasive);
        }
        if is.1 && !was.1 {
            self.event(uuid, EventKind::Silent);
        }
        if ping {
            let _asked = self.send(now, uuid, Body::Ping);
        }
        Some(next)
    }

    /// Asks a peer for a sign of life: another connection claims to be the peer.
    pub fn ask(&mut self, now: Now, uuid: &Uuid) {
        if self.peers.get(uuid).is_some_and(|peer| peer.session.is_some()) {
            // A peer without room for it is asked by nothing, and silent.
            let _asked = self.send(now, uuid, Body::Ping);
        }
    }

    /// The peer closed the connection of a DEALER. If the peer was alive a moment ago, its process has
    /// ended: after a restart it has no state of the session.
    pub fn handle_dealer_ended(&mut self, now: Now, dealer: DealerId) {
        if let Some(EndpointWay::Peer(uuid)) = self.dealers.get(&dealer)
            && let Some(peer) = self.peers.get_mut(uuid)
        {
            peer.ended = now.mono < peer.heard + self.config.evasive;
        }
        self.handle_dealer_failed(now, dealer);
    }

    /// An attempt to connect a DEALER failed, and the driver is about to make another one. Any sender can invent
    /// a beacon, so a peer known from beacons alone gets one attempt, and is forgotten until its next beacon.
    pub fn handle_attempt_failed(&mut self, now: Now, dealer: DealerId) {
        if let Some(EndpointWay::Peer(uuid)) = self.dealers.get(&dealer)
            && self.peers.get(uuid).is_some_and(KnownPeer::is_beacon_only)
        {
            let uuid = *uuid;
            self.actions.retain(|action| !matches!(action, Action::Send { dealer: to, .. } if *to == dealer));
            self.exit(now, &uuid);
        }
    }

    /// The key of the other side of a DEALER is not allowed, so it was not opened.
    pub fn handle_dealer_refused(&mut self, now: Now, dealer: DealerId) {
        self.stats.endpoints_refused += 1;
        if let Some(EndpointWay::Peer(uuid)) = self.dealers.get(&dealer) {
            let uuid = *uuid;
            self.diary.note(now, Source::Peer(uuid), Reason::KeyNotAllowed);
            return self.exit(now, &uuid);
        }
        self.handle_dealer_failed(now, dealer);
    }

    /// A DEALER could not queue a message, or its connection broke and may have lost some. The peer
    /// does not respond; a new session is tried after the PING interval.
    pub fn handle_dealer_failed(&mut self, now: Now, dealer: DealerId) {
        // Messages behind a lost one would be out of sequence.
        self.actions.retain(|action| !matches!(action, Action::Send { dealer: to, .. } if *to == dealer));
        let uuid = match self.dealers.remove(&dealer) {
            Some(EndpointWay::Peer(uuid)) => uuid,
            Some(EndpointWay::Named(key)) => return self.named_failed(now, &key),
            None => return,
        };
        let Some(peer) = self.peers.get_mut(&uuid) else { return };
        if peer.is_legacy() {
            return self.restart_with_legacy(now, &uuid);
        }
        // A peer of the first generations may have this node's HELLO, and abort at a second one.
        let harmless = peer.dealer.as_ref().is_none_or(|dealer| !dealer.generation.is_legacy());
        if peer.is_beacon_only() && harmless {
            return self.exit(now, &uuid);
        }
        self.actions.push_back(Action::Disconnect { dealer });
        peer.dealer = None;
        peer.broken = true;
        let at = now.mono + self.config.ping_interval;
        peer.retry_at = Some(at);
        self.wake(&uuid, at);
        self.probe(now);
    }
}
