//! The machine of a node, and all that it has opened.

use super::{
    beacon::BeaconSender,
    gossip::GossipState,
    interfaces::{Candidate, InterfaceVerdict},
    log::Collectors,
};
use crate::{
    rt::{queue::Weigh, watch::Watch},
    zmtp::{Connection, Listener, Outbound, Writing},
};
use bytes::Bytes;
use core::{net::IpAddr, time::Duration};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use zwire_proto::{
    Now,
    zre::{
        Uuid,
        node::{DealerId, Interface, ZreEvent, ZreNode as Machine},
        wire::{Beacon, IdentityForm},
    },
};

/// An event, and when it happened.
#[derive(Clone, Debug)]
pub struct NodeEvent {
    /// Event of the machine.
    pub event: ZreEvent,
    /// Since 1970.
    pub time: Duration,
}

impl Weigh for NodeEvent {
    fn weight(&self) -> usize {
        let content = self.event.kind.content().unwrap_or_default();
        size_of::<Self>() + content.iter().map(|frame| frame.len() + size_of::<Bytes>()).sum::<usize>()
    }
}

/// Time that a goodbye waits for the next message of its sender. A datagram overtakes messages that were sent
/// before it on a connection, and messages after a goodbye are dropped.
pub(super) const LEAVING: Duration = Duration::from_millis(200);

/// Goodbye that waits until its connection ends, or has nothing to read for [`LEAVING`]. A node without room
/// for events reads nothing, so that may take as long as the application does. A peer that never stops sending
/// costs no more than one that says no goodbye.
pub(super) struct Leaving {
    pub(super) at: Duration,
    connection: Arc<Connection>,
    source: IpAddr,
    datagram: Bytes,
}

/// Writes to sockets and wake-ups that the machine has asked for, due once the lock of the node is released.
#[derive(Default)]
pub(crate) struct NodeEffects {
    /// Connections with queued messages.
    pub(super) flush: Vec<Arc<Connection>>,
    pub(super) beacons: Vec<(Arc<Mutex<BeaconSender>>, Bytes)>,
    /// Whether to wake the callers that wait for peers.
    pub(super) presence: bool,
    /// How soon the messages are written.
    pub(super) writing: Writing,
}

impl NodeEffects {
    pub(super) fn perform(self, presence: &Watch) {
        for connection in &self.flush {
            connection.flush_deferred(self.writing);
        }
        for (sender, datagram) in &self.beacons {
            sender.lock().send(datagram);
        }
        if self.presence {
            presence.notify();
        }
    }
}

/// A node that runs.
pub(crate) struct NodeCore {
    pub(crate) machine: Machine,
    /// Goodbyes of peers whose last messages may not be read yet, by connection.
    pub(super) leaving: HashMap<u64, Leaving>,
    pub(super) ways: HashMap<DealerId, Arc<Outbound>>,
    /// Which connection speaks for an identity: the newest.
    pub(super) inbound: HashMap<Bytes, Arc<Connection>>,
    pub(crate) listener: Listener,
    pub(crate) senders: Vec<Arc<Mutex<BeaconSender>>>,
    pub(super) effects: NodeEffects,
    /// All interfaces, as last seen.
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) gossip: GossipState,
    pub(super) collectors: Collectors,
    /// Messages that found the queue of their peer full.
    pub(crate) full: u64,
    /// Connections that lost their identity to a newer one.
    pub(crate) taken_over: u64,
}

impl NodeCore {
    pub(crate) fn new(machine: Machine, listener: Listener, candidates: Vec<Candidate>, port: u16) -> Self {
        let mut core = Self {
            machine,
            leaving: HashMap::new(),
            ways: HashMap::new(),
            inbound: HashMap::new(),
            listener,
            senders: Vec::new(),
            effects: NodeEffects::default(),
            candidates: Vec::new(),
            gossip: GossipState::default(),
            collectors: Collectors::default(),
            full: 0,
            taken_over: 0,
        };
        core.set_senders(candidates, port);
        core
    }

    fn set_senders(&mut self, candidates: Vec<Candidate>, port: u16) {
        let beacons = self.machine.config().beacon_interval.is_some();
        let mut old = core::mem::take(&mut self.senders);
        for candidate in candidates.iter().filter(|c| beacons && c.verdict == InterfaceVerdict::Used) {
            let known = old.iter().position(|sender| sender.lock().report.candidate == *candidate);
            self.senders.push(match known {
                Some(at) => old.swap_remove(at),
                None => Arc::new(Mutex::new(BeaconSender::new(candidate.clone(), port))),
            });
        }
        self.candidates = candidates;
    }

    /// The interfaces may have changed. Without any network the ones from before are kept: a cable that is
    /// pulled comes back, and until then no peer is told another address.
    pub(crate) fn look_at_interfaces(&mut self, now: Now, candidates: Vec<Candidate>, port: u16) {
        let used = |all: &[Candidate]| -> Vec<_> {
            all.iter().filter(|c| c.verdict == InterfaceVerdict::Used).map(Candidate::interface).collect()
        };
        let (before, after) = (used(&self.candidates), used(&candidates));
        let reaches = |all: &[Interface]| all.iter().any(|i| !i.address.is_loopback());
        if before == after || after.is_empty() || reaches(&before) && !reaches(&after) {
            return;
        }
        tracing::info!(?before, ?after, "the interfaces have changed");
        self.set_senders(candidates, port);
        self.machine.set_interfaces(now, after);
        self.leave_lost_addresses(now);
    }

    /// A connection from an address that is gone is dead. Nothing says so before the heartbeat does, and that
    /// one waits for as long as a peer may be silent.
    fn leave_lost_addresses(&mut self, now: Now) {
        let candidates = &self.candidates;
        let lost = |connection: &Connection| match connection.local.ip() {
            IpAddr::V4(address) => candidates.iter().all(|candidate| candidate.address != address),
            IpAddr::V6(_) => false,
        };
        self.inbound.values().filter(|connection| lost(connection)).for_each(|connection| connection.close());
        let ways = self.ways.iter();
        let ways = ways.filter(|(_, way)| way.connection().is_some_and(|connection| lost(&connection)));
        let dealers: Vec<DealerId> = ways.map(|(dealer, _)| *dealer).collect();
        for dealer in dealers {
            self.machine.handle_dealer_failed(now, dealer);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let leaving = self.leaving.values().map(|leaving| leaving.at);
        leaving.chain(self.machine.poll_timeout()).chain(self.gossip.poll_timeout()).min()
    }

    /// The connection that speaks for a node.
    pub(super) fn connection_of(&self, uuid: &Uuid) -> Option<&Arc<Connection>> {
        let forms = [IdentityForm::Prefixed, IdentityForm::Bare, IdentityForm::Hex];
        forms.iter().find_map(|form| self.inbound.get(&form.encode(uuid)))
    }

    /// A datagram of discovery. A goodbye waits until the connection of its sender is closed or quiet.
    pub(super) fn handle_beacon(&mut self, now: Now, source: IpAddr, datagram: Bytes) {
        let goodbye = Beacon::decode(&datagram).ok().filter(|beacon| beacon.port == 0);
        let Some(connection) = goodbye.and_then(|beacon| self.connection_of(&beacon.uuid)).cloned() else {
            return self.machine.handle_beacon(now, source, &datagram);
        };
        let at = now.mono + LEAVING;
        self.leaving.entry(connection.id).or_insert(Leaving { at, connection, source, datagram });
    }

    /// A goodbye has waited long enough.
    pub(super) fn leave(&mut self, now: Now, connection: u64) {
        if let Some(Leaving { source, datagram, .. }) = self.leaving.remove(&connection) {
            self.machine.handle_beacon(now, source, &datagram);
        }
    }

    /// Removes the peers with a goodbye that is due and nothing left to read.
    pub(crate) fn leave_due(&mut self, now: Now) {
        let due = self.leaving.values_mut().filter(|leaving| leaving.at <= now.mono);
        let (unread, quiet): (Vec<_>, Vec<_>) = due.partition(|leaving| leaving.connection.has_unread());
        unread.into_iter().for_each(|leaving| leaving.at = now.mono + LEAVING);
        for connection in quiet.into_iter().map(|leaving| leaving.connection.id).collect::<Vec<_>>() {
            self.leave(now, connection);
        }
    }

    /// Removes all peers that said goodbye.
    pub(crate) fn leave_all(&mut self, now: Now) {
        for connection in self.leaving.keys().copied().collect::<Vec<_>>() {
            self.leave(now, connection);
        }
    }

    /// Connections to peers and collectors of logs.
    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        let ways = self.ways.values().filter_map(|way| way.connection());
        ways.chain(self.collectors.connections()).collect()
    }

    /// Whether a connection speaks for its identity.
    pub(super) fn speaks(&self, connection: &Connection) -> bool {
        self.inbound.get(&connection.peer.identity).is_some_and(|known| known.id == connection.id)
    }

    /// The end: everything is closed.
    pub(crate) fn close(&mut self) {
        self.gossip.close();
        self.collectors.close();
        self.listener.close();
        for (_, way) in self.ways.drain() {
            way.close();
        }
        for (_, connection) in self.inbound.drain() {
            connection.close();
        }
        self.senders.clear();
    }
}
