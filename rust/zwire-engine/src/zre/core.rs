//! The machine of a node, and all that it has opened.

use super::{
    beacon::Sender,
    effects::NodeEffects,
    gossip::Gossip,
    interfaces::{Candidate, Verdict},
    log::Collectors,
    node::Shared,
    options::{Keys, NodeOptions},
};
use crate::{
    error::Error,
    net::tcp,
    rt::{
        clock,
        queue::Weigh,
        timer::{Timed, Timer},
        watch::Watch,
    },
    zmtp::{
        CloseReason, Connection, ConnectionConfig, Listener, Outbound, Owner, Pause, Reconnect,
        Verdict as Judgement,
    },
};
use bytes::Bytes;
use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
};
use zwire_proto::{
    Now,
    zmtp::{
        crypto::{KeyPair, PublicKey, SecretKey},
        link::{
            AuthRequest, CurveClient, CurveServer, Denial, HandshakeConfig, Heartbeat, Inbound, Message,
            RxConfig, Security, TxConfig,
        },
        wire::{Metadata, SocketType},
    },
    zre::{
        Uuid,
        node::{Action, DealerId, Event, EventKind, Interface, Node as Machine},
        wire::{Beacon, IdentityForm},
    },
};

/// First pause before a peer that does not answer is tried again, and the longest.
const RECONNECT: Reconnect =
    Reconnect { first: Duration::from_millis(100), max: Duration::from_secs(2), jitter: true, again: false };

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// An event, and when it happened.
#[derive(Clone, Debug)]
pub struct NodeEvent {
    /// It.
    pub event: Event,
    /// Since 1970.
    pub time: Duration,
}

impl Weigh for NodeEvent {
    fn weight(&self) -> usize {
        let content = match &self.event.kind {
            EventKind::Whisper { content } | EventKind::Shout { content, .. } => content.as_slice(),
            _ => &[],
        };
        size_of::<Self>() + content.iter().map(|frame| frame.len() + size_of::<Bytes>()).sum::<usize>()
    }
}

/// How long a goodbye waits for the next message of whoever says it. A datagram overtakes what was sent
/// before it on a connection, and what comes after a goodbye is nobody's.
const LEAVING: Duration = Duration::from_millis(200);

/// How long it waits at most.
const LEAVING_LIMIT: Duration = Duration::from_secs(2);

/// A goodbye that waits.
struct Leaving {
    at: Duration,
    until: Duration,
    source: IpAddr,
    datagram: Bytes,
}

/// A node that runs.
pub(crate) struct Core {
    pub(crate) machine: Machine,
    /// Goodbyes of peers whose last messages may not be read yet, by connection.
    leaving: HashMap<u64, Leaving>,
    pub(super) ways: HashMap<DealerId, Arc<Outbound>>,
    /// Which connection speaks for an identity: the newest.
    inbound: HashMap<Bytes, Arc<Connection>>,
    pub(crate) listener: Listener,
    pub(crate) senders: Vec<Arc<Mutex<Sender>>>,
    /// Writes that are due once the lock of the node is released.
    pub(super) effects: NodeEffects,
    /// All interfaces, as last seen.
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) gossip: Gossip,
    collectors: Collectors,
    /// Messages that found the queue of their peer full.
    pub(crate) full: u64,
    /// Connections that lost their identity to a newer one.
    pub(crate) taken_over: u64,
}

impl Core {
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
            gossip: Gossip::default(),
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
        for candidate in candidates.iter().filter(|c| beacons && c.verdict == Verdict::Used) {
            let known = old.iter().position(|sender| sender.lock().candidate == *candidate);
            self.senders.push(match known {
                Some(at) => old.swap_remove(at),
                None => Arc::new(Mutex::new(Sender::new(candidate.clone(), port))),
            });
        }
        self.candidates = candidates;
    }

    /// The interfaces may have changed. Without any network the ones from before are kept: a cable that is
    /// pulled comes back, and until then nobody is told another address.
    pub(crate) fn look_at_interfaces(&mut self, now: Now, candidates: Vec<Candidate>, port: u16) {
        let used = |all: &[Candidate]| -> Vec<_> {
            all.iter().filter(|c| c.verdict == Verdict::Used).map(Candidate::interface).collect()
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
        let lost = |connection: &Connection| match connection.local().ip() {
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

    fn poll_timeout(&self) -> Option<Duration> {
        let leaving = self.leaving.values().map(|leaving| leaving.at);
        leaving.chain(self.machine.poll_timeout()).chain(self.gossip.poll_timeout()).min()
    }

    /// The connection that speaks for a node.
    fn connection_of(&self, uuid: &Uuid) -> Option<&Arc<Connection>> {
        let forms = [IdentityForm::Prefixed, IdentityForm::Bare, IdentityForm::Hex];
        forms.iter().find_map(|form| self.inbound.get(&form.encode(uuid)))
    }

    /// A datagram of discovery. A goodbye waits until the connection of its sender is closed or quiet.
    fn handle_beacon(&mut self, now: Now, source: IpAddr, datagram: Bytes) {
        let goodbye = Beacon::decode(&datagram).ok().filter(|beacon| beacon.port == 0);
        let Some(connection) = goodbye.and_then(|beacon| self.connection_of(&beacon.uuid)) else {
            return self.machine.handle_beacon(now, source, &datagram);
        };
        let (at, until) = (now.mono + LEAVING, now.mono + LEAVING_LIMIT);
        self.leaving.entry(connection.id()).or_insert(Leaving { at, until, source, datagram });
    }

    /// A goodbye has waited long enough.
    fn leave(&mut self, now: Now, connection: u64) {
        if let Some(Leaving { source, datagram, .. }) = self.leaving.remove(&connection) {
            self.machine.handle_beacon(now, source, &datagram);
        }
    }

    /// Who has said goodbye by then is gone.
    pub(crate) fn leave_until(&mut self, now: Now, end: Duration) {
        let due = self.leaving.iter().filter(|(_, leaving)| leaving.at <= end);
        for connection in due.map(|(connection, _)| *connection).collect::<Vec<_>>() {
            self.leave(now, connection);
        }
    }

    /// Connections to peers and collectors of logs.
    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        let ways = self.ways.values().filter_map(|way| way.connection());
        ways.chain(self.collectors.connections()).collect()
    }

    /// Whether a connection speaks for its identity.
    fn speaks(&self, connection: &Connection) -> bool {
        self.inbound.get(&connection.peer().identity).is_some_and(|known| known.id() == connection.id())
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

fn as_key(bytes: &[u8]) -> Option<[u8; 32]> {
    bytes.try_into().ok()
}

/// Which peers could not take a message.
pub(crate) type Full = HashSet<Uuid>;

impl Shared {
    /// Carries out the actions of the machine and queues its events for the application. Writes are left to the
    /// effects of the core. Returns the peers whose queue was full.
    pub(crate) fn settle(self: &Arc<Self>, core: &mut Core, now: Now) -> Full {
        let mut full = Full::new();
        let mut failed = Vec::new();
        loop {
            while let Some(action) = core.machine.poll_action() {
                self.act(core, action, &mut failed);
            }
            if failed.is_empty() {
                break;
            }
            for (dealer, peer) in failed.drain(..) {
                full.extend(peer);
                core.machine.handle_dealer_failed(now, dealer);
            }
        }
        let mut told = false;
        let mut presence = false;
        while let Some(event) = core.machine.poll_event() {
            presence |= !matches!(event.kind, EventKind::Whisper { .. } | EventKind::Shout { .. });
            told = true;
            if event.kind == EventKind::Exit {
                core.gossip.forget(&event.peer);
            }
            // What does not fit is counted there.
            let _ = self.events.push(NodeEvent { event, time: now.wall });
        }
        if told {
            self.events.signal();
        }
        if presence {
            core.effects.tell_presence();
        }
        self.timer.arm(core.poll_timeout());
        full
    }

    fn act(self: &Arc<Self>, core: &mut Core, action: Action, failed: &mut Vec<(DealerId, Option<Uuid>)>) {
        match action {
            Action::Connect { dealer, peer, endpoint, identity, server_key } => {
                match self.connect(dealer, &endpoint, identity, server_key) {
                    Ok(outbound) => drop(core.ways.insert(dealer, outbound)),
                    Err(error) => {
                        tracing::info!(?peer, endpoint = %endpoint.escape_ascii(), %error, "a peer cannot be connected");
                        failed.push((dealer, None));
                    }
                }
            }
            Action::Disconnect { dealer } => {
                if let Some(way) = core.ways.remove(&dealer) {
                    way.close();
                }
            }
            Action::Send { dealer, peer, frames } => {
                // A dealer that could not be opened has been told so already.
                let Some(way) = core.ways.get(&dealer) else { return };
                let Some(message) = Message::of(frames) else { return };
                match way.try_defer(message) {
                    Ok(connection) => core.effects.flush(connection),
                    Err(_) => {
                        core.full += 1;
                        failed.push((dealer, peer));
                    }
                }
            }
            Action::Beacon { interface, datagram } => {
                if let Some(sender) = core.senders.get(interface) {
                    core.effects.send_beacon(sender.clone(), datagram);
                }
            }
            Action::Resolve { endpoint } => {
                let shared = Arc::downgrade(self);
                self.runtime.spawn(resolve(shared, endpoint));
            }
            Action::ConnectLog { endpoint } => {
                if let Err(error) = core.collectors.connect(&self.runtime, endpoint.clone()) {
                    tracing::info!(endpoint = %endpoint.escape_ascii(), %error, "a collector of logs cannot be connected");
                }
            }
            Action::DisconnectLog { endpoint } => core.collectors.disconnect(&endpoint),
            Action::Log { frame } => {
                core.collectors.send(&frame, |connection| core.effects.flush(connection))
            }
        }
    }

    fn connect(
        self: &Arc<Self>,
        dealer: DealerId,
        endpoint: &Bytes,
        identity: Bytes,
        server_key: Option<[u8; 32]>,
    ) -> Result<Arc<Outbound>, Error> {
        let owner = Arc::new(DealerOwner { shared: Arc::downgrade(self), dealer });
        let config =
            connection_config(&self.options, &self.progress, SocketType::Dealer, identity, server_key);
        let endpoint = String::from_utf8_lossy(endpoint);
        Outbound::connect(&self.runtime, &endpoint, config, RECONNECT, owner)
    }

    /// Tells the machine something, and does what it wants then.
    fn with_core(self: &Arc<Self>, f: impl FnOnce(&mut Core, Now)) {
        let now = clock::now();
        let mut state = self.lock();
        let Some(core) = state.running() else { return };
        f(core, now);
        self.settle(core, now);
    }

    /// Datagrams of discovery have come.
    pub(crate) fn handle_beacons(self: &Arc<Self>, datagrams: &mut Vec<(IpAddr, Bytes)>) {
        self.with_core(|core, now| {
            for (source, datagram) in datagrams.drain(..) {
                core.handle_beacon(now, source, datagram);
            }
        });
    }
}

impl Timed for Shared {
    const CATCH_UP: Duration = Duration::from_millis(100);

    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn handle_timeouts(self: &Arc<Self>) -> Option<Option<Duration>> {
        let now = clock::now();
        self.timer.hold();
        let mut state = self.lock();
        let core = state.running()?;
        if core.poll_timeout().is_some_and(|at| at <= now.mono) {
            core.machine.handle_timeout(now);
            core.gossip.handle_timeout(now);
            core.leave_until(now, now.mono);
            self.settle_gossip(core, now);
        }
        if !core.machine.is_stopped() {
            let next = core.poll_timeout();
            self.timer.set(next);
            return Some(next);
        }
        // The goodbyes are written when the lock is released, and only then the connections are closed.
        drop(state);
        self.stopped();
        None
    }
}

/// Asks for the addresses of a host.
async fn resolve(shared: Weak<Shared>, endpoint: Bytes) {
    let text = String::from_utf8_lossy(&endpoint);
    let found = match tcp::resolve(text.strip_prefix("tcp://").unwrap_or(&text)).await {
        Ok(found) => found,
        Err(reason) => {
            tracing::info!(endpoint = %text, %reason, "the name of an endpoint was not found");
            Vec::new()
        }
    };
    if let Some(shared) = shared.upgrade() {
        shared.with_core(|core, now| core.machine.handle_resolved(now, &endpoint, &found));
    }
}

/// How connections of a node are made.
pub(crate) fn connection_config(
    options: &NodeOptions,
    progress: &Arc<Watch>,
    socket_type: SocketType,
    identity: Bytes,
    server_key: Option<[u8; 32]>,
) -> ConnectionConfig {
    let pair = |keys: &Keys| KeyPair::of(SecretKey::new(keys.secret));
    // The random parts are made anew for each connection.
    let security = match (&options.keys, server_key) {
        (None, _) => Security::Null { authenticate: false },
        (Some(keys), None) => Security::CurveServer(Box::new(CurveServer::new(pair(keys), true, &[0; 96]))),
        (Some(keys), Some(server)) => {
            Security::CurveClient(Box::new(CurveClient::new(pair(keys), PublicKey(server), &[0; 48])))
        }
    };
    let handshake = HandshakeConfig { identity, security, ..HandshakeConfig::new(socket_type) };
    let heartbeat = options.heartbeat.map(|interval| {
        // Not before the peer has expired: a session outlives a cable that is pulled for a while.
        let timeout = options.machine.expired.max(interval);
        Heartbeat { interval, timeout, ttl: timeout, also_to_3_0: false }
    });
    ConnectionConfig {
        tx: TxConfig {
            max_messages: options.high_water_mark,
            max_bytes: options.high_water_bytes,
            heartbeat,
        },
        rx: RxConfig { max_message_size: options.max_message_size, heartbeat },
        handshake_timeout: HANDSHAKE_TIMEOUT,
        max_connections: options.machine.max_peers,
        progress: progress.clone(),
        ..ConnectionConfig::new(handshake)
    }
}

/// The owner of a DEALER. Nothing ever comes back on it (`zre` 3).
struct DealerOwner {
    shared: Weak<Shared>,
    dealer: DealerId,
}

impl Owner for DealerOwner {
    fn opened(&self, _connection: &Arc<Connection>) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.with_core(|core, now| core.machine.handle_dealer_connected(now, self.dealer));
    }

    fn received(&self, _connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        inbound.clear();
        None
    }

    /// A connection that broke may have lost messages, and one that is refused for good will not come
    /// about: in both cases the machine knows what to do. Other attempts go on by themselves.
    fn closed(&self, connection: Option<&Arc<Connection>>, reason: &CloseReason) {
        if connection.is_none() && !reason.is_final() {
            return;
        }
        let Some(shared) = self.shared.upgrade() else { return };
        tracing::debug!(dealer = self.dealer.0, %reason, "the connection to a peer is gone");
        let ended = match reason {
            CloseReason::Peer => true,
            CloseReason::Io(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            _ => false,
        };
        shared.with_core(|core, now| match ended {
            true => core.machine.handle_dealer_ended(now, self.dealer),
            false => core.machine.handle_dealer_failed(now, self.dealer),
        });
    }
}

/// The owner of the ROUTER.
pub(crate) struct RouterOwner {
    pub(crate) shared: Weak<Shared>,
}

impl Owner for RouterOwner {
    /// Under CURVE: the key has to be allowed, and becomes the user id of the connection.
    fn authenticate(&self, _remote: SocketAddr, request: &AuthRequest) -> Judgement {
        let Some(shared) = self.shared.upgrade() else { return Judgement::Deny(Denial::Temporary) };
        let credential = request.credentials.first().cloned().unwrap_or_default();
        let Some(key) = as_key(&credential) else { return Judgement::Deny(Denial::Refused) };
        match &shared.options.allow {
            Some(allow) if !allow(&key) => Judgement::Deny(Denial::Refused),
            _ => Judgement::Allow { user_id: credential, metadata: Metadata::default() },
        }
    }

    /// The newest connection speaks for an identity; the one before it is closed (`zre` 3, `zmtp` 12.1), and a
    /// goodbye that waited for its last words is over before the next session begins.
    fn opened(&self, connection: &Arc<Connection>) {
        let Some(shared) = self.shared.upgrade() else { return connection.close() };
        let now = clock::now();
        let mut state = shared.lock();
        let Some(core) = state.running() else { return connection.close() };
        // Each peer has one connection; whoever has no identity is heard by nobody.
        let identity = connection.peer().identity.clone();
        if core.inbound.len() >= core.machine.config().max_peers && !core.inbound.contains_key(&identity) {
            return connection.close();
        }
        if let Some(old) = core.inbound.insert(identity, connection.clone()) {
            core.taken_over += 1;
            core.leave(now, old.id());
            shared.settle(core, now);
            old.close();
        }
    }

    fn received(&self, connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        let shared = self.shared.upgrade()?;
        let now = clock::now();
        let mut state = shared.lock();
        let core = state.running()?;
        if !core.speaks(connection) {
            inbound.clear();
            return None;
        }
        if let Some(leaving) = core.leaving.get_mut(&connection.id()) {
            leaving.at = (now.mono + LEAVING).min(leaving.until);
        }
        let identity = connection.peer().identity.clone();
        let key = as_key(&connection.peer().user_id);
        for item in inbound.drain(..) {
            if let Inbound::Message(message) = item {
                core.machine.handle_message_by(now, &identity, key.as_ref(), message.frames());
            }
        }
        shared.settle(core, now);
        drop(state);
        if shared.events.has_space() {
            return None;
        }
        let events = shared.events.clone();
        Some(Box::pin(async move { events.wait_space().await }))
    }

    fn closed(&self, connection: Option<&Arc<Connection>>, _reason: &CloseReason) {
        let (Some(shared), Some(connection)) = (self.shared.upgrade(), connection) else { return };
        shared.with_core(|core, now| {
            if core.speaks(connection) {
                core.inbound.remove(&connection.peer().identity);
            }
            core.leave(now, connection.id());
        });
    }
}
