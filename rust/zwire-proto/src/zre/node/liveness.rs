//! Timers (`zre` 11.7): who gives no sign of life, and what is to be tried again.

use super::{
    super::{Uuid, limits, wire::Body},
    Action, DealerId, EventKind, Node,
};
use crate::Now;
use core::time::Duration;

impl Node {
    /// The deadline of [`poll_timeout`](Self::poll_timeout) has come. Earlier it does nothing.
    pub fn handle_timeout(&mut self, now: Now) {
        self.say_goodbye(now);
        if self.check_running().is_err() {
            return;
        }
        self.beacon(now);
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

    /// Does what is due for a peer; when to look again, `None` when it is gone.
    fn check_peer(&mut self, now: Now, uuid: &Uuid) -> Option<Duration> {
        #[cfg(test)]
        (self.checks += 1);
        let (evasive, expired) = (self.config.evasive, self.config.expired);
        let ping_interval = self.config.ping_interval.max(Duration::from_millis(1));
        let peer = self.peers.get_mut(uuid)?;
        if peer.detect_at.is_some_and(|at| at <= now.mono) {
            peer.detect_at = None;
            if let Some(generation) = self.optimistic_generation() {
                self.open(now, uuid, generation);
            }
        } else if peer.retry_at.is_some_and(|at| at <= now.mono) {
            peer.retry_at = None;
            self.renew(now, uuid);
        }
        let peer = self.peers.get_mut(uuid)?;
        let timers = [peer.detect_at, peer.retry_at];
        // Who never said HELLO is forgotten, however often it beacons: the next beacon starts over.
        let start = if peer.session.is_some() { peer.heard } else { peer.since };
        let gone_at = start + expired;
        if gone_at <= now.mono {
            if peer.is_legacy() && self.given_up.len() < limits::MAX_GIVEN_UP {
                self.given_up.insert(*uuid);
            }
            self.exit(now, uuid);
            return None;
        }
        let mut next = timers.into_iter().flatten().fold(gone_at, Duration::min);
        if peer.session.is_none() {
            return Some(next);
        }
        let evasive_at = peer.heard + evasive;
        if evasive_at > now.mono {
            return Some(next.min(evasive_at));
        }
        let silent_at = evasive_at + ping_interval;
        let was = (peer.evasive, peer.silent);
        peer.evasive = true;
        peer.silent = silent_at <= now.mono;
        let is_silent = peer.silent;
        if !is_silent {
            next = next.min(silent_at);
        }
        let ping = !was.0 || peer.next_ping <= now.mono;
        if ping {
            peer.next_ping = now.mono + ping_interval;
        }
        next = next.min(peer.next_ping);
        if !was.0 {
            self.event(uuid, EventKind::Evasive);
        }
        if is_silent && !was.1 {
            self.event(uuid, EventKind::Silent);
        }
        if ping {
            let _asked = self.send(now, uuid, Body::Ping);
        }
        Some(next)
    }

    /// A DEALER could not take a message, or its connection broke and may have lost some. The peer is
    /// not responding; a new session is tried after the interval of PING.
    pub fn handle_dealer_failed(&mut self, now: Now, dealer: DealerId) {
        let Some(uuid) = self.dealers.remove(&dealer) else { return };
        let Some(peer) = self.peers.get_mut(&uuid) else { return };
        if peer.is_legacy() {
            self.restart_with_legacy(now);
            return;
        }
        self.actions.push_back(Action::Disconnect { dealer });
        peer.dealer = None;
        let at = now.mono + self.config.ping_interval;
        peer.retry_at = Some(at);
        self.wake(&uuid, at);
    }
}
