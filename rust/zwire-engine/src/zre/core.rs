//! The machine of a node, and all that it has opened.

use super::{
    beacon::BeaconSender,
    gossip::GossipState,
    interfaces::{Candidate, InterfaceVerdict},
    log::Collectors,
    shared::{as_key, origin_of},
};
use crate::{
    rt::{descriptors, queue::Weigh, watch::Watch},
    zmtp::{Connection, Listener, Outbound, Writing},
};
use bytes::Bytes;
use core::{net::IpAddr, time::Duration};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::oneshot;
use zwire_proto::{
    Now,
    zmtp::link::Message,
    zre::{
        Uuid,
        node::{
            ContestEnd, DealerId, Interface, SpeakerAdmission, SpeakerLink, Speakers, ZreEvent,
            ZreNode as Machine,
        },
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

/// Messages of a connection that waits until it may speak for its node: those of one read, since reading pauses.
#[derive(Default)]
pub(super) struct HeldMessages {
    pub(super) messages: Vec<Message>,
    /// Reading goes on when these are dropped.
    pub(super) pauses: Vec<oneshot::Sender<()>>,
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
    /// Which connections speak for nodes.
    pub(super) speakers: Speakers,
    /// Accepted connections that speak for nodes, or wait to, by number.
    pub(super) inbound: HashMap<u64, Arc<Connection>>,
    /// Messages of the connections that wait.
    pub(super) held: HashMap<u64, HeldMessages>,
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
    /// Accepted connections of nodes without a session, oldest first, and the bound of their number.
    silent: BTreeSet<u64>,
    most_silent: usize,
    /// Refused endpoints that the log tells of, and the time of its last line.
    refusals_logged: (u64, Option<Duration>),
}

/// Least time between two lines of the log about refused endpoints: a stranger causes any number of them.
const REFUSAL_LOG: Duration = Duration::from_secs(10);

impl NodeCore {
    pub(crate) fn new(machine: Machine, listener: Listener, candidates: Vec<Candidate>, port: u16) -> Self {
        let speakers = Speakers::new(machine.config().max_peers);
        let mut core = Self {
            machine,
            leaving: HashMap::new(),
            ways: HashMap::new(),
            speakers,
            inbound: HashMap::new(),
            held: HashMap::new(),
            listener,
            senders: Vec::new(),
            effects: NodeEffects::default(),
            candidates: Vec::new(),
            gossip: GossipState::default(),
            collectors: Collectors::default(),
            full: 0,
            taken_over: 0,
            silent: BTreeSet::new(),
            most_silent: descriptors::for_strangers(),
            refusals_logged: (0, None),
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
        let speakers = self.speakers.poll_timeout();
        leaving.chain(self.machine.poll_timeout()).chain(self.gossip.poll_timeout()).chain(speakers).min()
    }

    /// Logs that endpoints were refused, at most once in [`REFUSAL_LOG`].
    pub(super) fn log_refusals(&mut self, now: Now) {
        let refused = self.machine.stats().endpoints_refused;
        let (logged, last) = self.refusals_logged;
        if refused > logged && last.is_none_or(|last| last + REFUSAL_LOG <= now.mono) {
            tracing::warn!(
                refused,
                "peers announced endpoints of other hosts, or have keys that are not allowed; this node does not \
                 connect to them: see the doctor of the node for the peers"
            );
            self.refusals_logged = (refused, Some(now.mono));
        }
    }

    /// The connection that speaks for a node.
    pub(super) fn connection_of(&self, uuid: &Uuid) -> Option<&Arc<Connection>> {
        self.inbound.get(&self.speakers.of(uuid)?.id)
    }

    /// A datagram of discovery. A goodbye waits until the connection of its sender is closed or quiet.
    pub(super) fn handle_beacon(&mut self, now: Now, source: IpAddr, datagram: Bytes) {
        let goodbye = Beacon::decode(&datagram).ok().filter(|beacon| beacon.port == 0);
        let Some(connection) = goodbye.and_then(|beacon| self.connection_of(&beacon.uuid)).cloned() else {
            return self.machine.handle_beacon(now, source, &datagram);
        };
        // A datagram proves nothing about its sender; the connection of a node from that address does.
        if connection.remote.ip().to_canonical() != source.to_canonical() {
            return self.machine.note_refused_speaker(now, &connection.peer.identity);
        }
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
        let quiet: Vec<_> = quiet.into_iter().map(|leaving| leaving.connection.clone()).collect();
        for connection in quiet {
            // Under CURVE the end of a node is that of its connection: a datagram can be forged.
            if as_key(&connection.peer.user_id).is_some() && !connection.is_closed() {
                self.leaving.remove(&connection.id);
            } else {
                self.leave(now, connection.id);
            }
        }
    }

    /// Handles a new connection; `false`: it must be closed.
    pub(super) fn admit(&mut self, now: Now, connection: &Arc<Connection>) -> bool {
        let (identity, key) = (connection.peer.identity.clone(), as_key(&connection.peer.user_id));
        if !self.machine.may_speak(now, &identity, key.as_ref()) {
            return false;
        }
        let address = connection.remote.ip().to_canonical();
        let link = SpeakerLink { id: connection.id, identity: identity.clone(), address, key };
        match self.speakers.open(now, link) {
            SpeakerAdmission::Admitted { old } => {
                self.inbound.insert(connection.id, connection.clone());
                if let Some(old) = old {
                    self.replace(now, old);
                }
            }
            SpeakerAdmission::Waits { ask } => {
                self.inbound.insert(connection.id, connection.clone());
                self.held.insert(connection.id, HeldMessages::default());
                if let Some(uuid) = ask {
                    self.machine.ask(now, &uuid);
                }
            }
            SpeakerAdmission::Refused => {
                self.machine.note_refused_speaker(now, &identity);
                return false;
            }
        }
        self.end_contests(now);
        if !self.has_session(connection) {
            self.silent.insert(connection.id);
            if self.silent.len() > self.most_silent
                && let Some(oldest) = self.silent.pop_first().and_then(|oldest| self.inbound.get(&oldest))
            {
                tracing::debug!(remote = %oldest.remote, "closing the oldest connection without HELLO: there are too many");
                oldest.close();
            }
        }
        true
    }

    /// Whether the node of a connection has sent HELLO.
    fn has_session(&self, connection: &Connection) -> bool {
        let uuid = IdentityForm::decode(&connection.peer.identity).map(|(_, uuid)| uuid);
        uuid.is_some_and(|uuid| self.machine.peer_generation(&uuid).is_some())
    }

    /// Notes that a connection has delivered messages.
    pub(super) fn note_heard(&mut self, connection: &Connection) {
        if self.silent.contains(&connection.id) && self.has_session(connection) {
            self.silent.remove(&connection.id);
        }
    }

    /// Forgets a connection that is closed.
    pub(super) fn forget(&mut self, connection: &Connection) {
        self.speakers.close(connection.id, &connection.peer.identity);
        self.inbound.remove(&connection.id);
        self.held.remove(&connection.id);
        self.silent.remove(&connection.id);
    }

    /// Closes a connection that no longer speaks for its node.
    fn replace(&mut self, now: Now, old: u64) {
        self.taken_over += 1;
        self.leave(now, old);
        if let Some(old) = self.inbound.remove(&old) {
            old.close();
        }
    }

    /// Carries out the ends of contests: the loser is closed, the messages of a winner that waited are handled.
    pub(super) fn end_contests(&mut self, now: Now) {
        while let Some(ContestEnd { winner, loser }) = self.speakers.poll_end() {
            match loser {
                Some(loser) if self.held.remove(&loser).is_some() => {
                    if let Some(loser) = self.inbound.remove(&loser) {
                        self.machine.note_refused_speaker(now, &loser.peer.identity);
                        loser.close();
                    }
                }
                Some(loser) => self.replace(now, loser),
                None => {}
            }
            let (Some(held), Some(connection)) =
                (self.held.remove(&winner), self.inbound.get(&winner).cloned())
            else {
                continue;
            };
            let (identity, origin) = (connection.peer.identity.clone(), origin_of(&connection));
            if !held.messages.is_empty() {
                self.speakers.hear(now, winner, &identity);
            }
            for message in &held.messages {
                self.machine.handle_message_by(now, &identity, &origin, message.frames());
            }
            self.note_heard(&connection);
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
