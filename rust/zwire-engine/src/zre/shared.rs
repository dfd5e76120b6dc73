//! [`NodeShared`]: a node behind its lock, what its machine asks for, and the owners of its connections.

use super::{
    core::{LEAVING, NodeCore, NodeEvent},
    options::{Keys, NodeOptions},
};
use crate::{
    error::Error,
    net::{outbox::ALONE, tcp},
    rt::{
        clock,
        queue::Queue,
        runtime::Birth,
        timer::{Timed, Timer},
        watch::Watch,
    },
    zmtp::{
        CloseReason, Connection, ConnectionConfig, LendingHost, Outbound, Owner, Pause, Reconnect,
        Verdict as Judgement,
    },
};
use bytes::Bytes;
use core::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::HashSet,
    sync::{Arc, Weak},
};
use tokio::{runtime::Handle, sync::oneshot, task::AbortHandle};
use zwire_proto::{
    Now, Text,
    zmtp::{
        link::{
            AuthRequest, Denial, Heartbeat, Inbound, Message, Security, ZmtpHandshakeConfig, ZmtpRxConfig,
            ZmtpTxConfig,
        },
        wire::{Metadata, SocketType},
    },
    zre::{
        Uuid,
        node::{Action, DealerId, EventKind, Origin},
    },
};

pub(crate) enum NodeState {
    /// Not started; groups that were joined all the same.
    Idle {
        groups: Vec<Text>,
        headers: Vec<(Text, Text)>,
    },
    Running(Box<NodeCore>),
    Stopped,
}

impl NodeState {
    pub(super) fn running(&mut self) -> Option<&mut NodeCore> {
        self.core().ok()
    }

    /// The core of a node that runs.
    pub(super) fn core(&mut self) -> Result<&mut NodeCore, Error> {
        match self {
            Self::Running(core) => Ok(core),
            Self::Idle { .. } => Err(Error::NotStarted),
            Self::Stopped => Err(Error::Closed),
        }
    }
}

pub(crate) struct NodeShared {
    pub(crate) birth: Birth,
    pub(crate) runtime: Handle,
    pub(crate) options: NodeOptions,
    pub(crate) events: Arc<Queue<NodeEvent>>,
    pub(crate) state: Mutex<NodeState>,
    /// Told when peers come, leave, or change their groups, and when the node has stopped.
    pub(super) presence: Watch,
    /// Told when a connection has written everything, may have room again, or is dead.
    pub(super) progress: Arc<Watch>,
    /// End of the last send of the application, in nanoseconds of the monotonic clock.
    pub(super) last_sent: AtomicU64,
    pub(crate) timer: Timer,
    pub(super) deaf: Mutex<Option<String>>,
    pub(super) tasks: Mutex<Vec<AbortHandle>>,
    pub(super) lending: Arc<LendingHost>,
}

impl NodeShared {
    /// Works on the state under the lock of the node, and then performs the writes that are due.
    pub(super) fn with_state<R>(&self, f: impl FnOnce(&mut NodeState) -> R) -> R {
        let mut state = self.state.lock();
        let result = f(&mut state);
        let effects = state.running().map(|core| core::mem::take(&mut core.effects));
        drop(state);
        if let Some(effects) = effects {
            effects.perform(&self.presence);
        }
        result
    }

    /// Closes everything after the goodbyes.
    pub(crate) fn stopped(&self) {
        let mut state = self.state.lock();
        if let NodeState::Running(core) = &mut *state {
            core.close();
        }
        *state = NodeState::Stopped;
        drop(state);
        self.events.close();
        self.presence.notify();
    }

    /// Whether the application sends in a loop. Each connection would see a message alone, and write it alone,
    /// because those to other connections come in between.
    pub(super) fn sends_in_a_loop(&self, now: Now) -> bool {
        let last = Duration::from_nanos(self.last_sent.load(Ordering::Relaxed));
        now.mono.saturating_sub(last) < ALONE
    }

    /// Notes the end of a send, its writes included.
    pub(super) fn note_sent(&self) {
        let now = u64::try_from(clock::mono().as_nanos()).unwrap_or(u64::MAX);
        self.last_sent.store(now, Ordering::Relaxed);
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(*self.state.lock(), NodeState::Running(_))
    }

    /// Starts a task that ends with the node.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().push(self.runtime.spawn(task).abort_handle());
    }

    pub(crate) fn end_tasks(&self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }
}

impl Drop for NodeShared {
    fn drop(&mut self) {
        // In a forked child there are neither tasks nor threads, and what is open belongs to the parent.
        if !self.birth.is_here() {
            core::mem::forget(core::mem::replace(self.state.get_mut(), NodeState::Stopped));
            core::mem::take(self.tasks.get_mut()).into_iter().for_each(core::mem::forget);
            return;
        }
        self.end_tasks();
        if let NodeState::Running(core) = self.state.get_mut() {
            core.close();
        }
    }
}

/// First pause before a peer that does not answer is tried again, and the longest.
const RECONNECT: Reconnect =
    Reconnect { first: Duration::from_millis(100), max: Duration::from_secs(2), jitter: true, again: false };

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn as_key(bytes: &[u8]) -> Option<[u8; 32]> {
    bytes.try_into().ok()
}

/// Origin of the messages of a connection.
pub(super) fn origin_of(connection: &Connection) -> Origin {
    let address = Some(connection.remote.ip().to_canonical());
    Origin { address, key: as_key(&connection.peer.user_id) }
}

/// Which peers could not take a message.
pub(crate) type FullPeers = HashSet<Uuid>;

impl NodeShared {
    /// Carries out the actions of the machine and queues its events for the application. Writes are left to the
    /// effects of the core. Returns the peers with a full queue.
    pub(crate) fn settle(self: &Arc<Self>, core: &mut NodeCore, now: Now) -> FullPeers {
        let mut full = FullPeers::new();
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
        core.effects.presence |= presence;
        core.log_refusals(now);
        self.timer.arm(core.poll_timeout());
        full
    }

    fn act(
        self: &Arc<Self>,
        core: &mut NodeCore,
        action: Action,
        failed: &mut Vec<(DealerId, Option<Uuid>)>,
    ) {
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
                match way.try_defer(message, core.effects.writing) {
                    Ok(connection) => core.effects.flush.extend(connection),
                    Err(_) => {
                        core.full += 1;
                        failed.push((dealer, peer));
                    }
                }
            }
            Action::Beacon { interface, datagram } => {
                if let Some(sender) = core.senders.get(interface) {
                    core.effects.beacons.push((sender.clone(), datagram));
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
                core.collectors.send(&frame, |connection| core.effects.flush.extend(connection))
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
        let owner = Arc::new(DealerOwner { shared: Arc::downgrade(self), dealer, server_key });
        let config =
            connection_config(&self.options, &self.progress, SocketType::Dealer, identity, server_key)?;
        let config = ConnectionConfig { lending: Some(self.lending.clone()), ..config };
        let endpoint = String::from_utf8_lossy(endpoint);
        Outbound::connect(&self.runtime, &endpoint, config, RECONNECT, owner)
    }

    /// Tells the machine of a running node something, and does what it wants then. `None`: it does not run.
    pub(super) fn with_core<R>(self: &Arc<Self>, f: impl FnOnce(&mut NodeCore, Now) -> R) -> Option<R> {
        let now = clock::now();
        self.with_state(|state| {
            let core = state.running()?;
            let result = f(core, now);
            self.settle_gossip(core, now);
            Some(result)
        })
    }
}

impl Timed for NodeShared {
    const CATCH_UP: Duration = Duration::from_millis(100);

    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn handle_timeouts(self: &Arc<Self>) -> Option<Option<Duration>> {
        let now = clock::now();
        self.timer.hold();
        let next = self.with_state(|state| {
            let core = state.running()?;
            if core.poll_timeout().is_some_and(|at| at <= now.mono) {
                core.machine.handle_timeout(now);
                core.gossip.handle_timeout(now);
                core.leave_due(now);
                core.speakers.handle_timeout(now);
                core.end_contests(now);
                self.settle_gossip(core, now);
            }
            let next = (!core.machine.is_stopped()).then(|| core.poll_timeout());
            if let Some(next) = next {
                self.timer.set(next);
            }
            Some(next)
        })?;
        if next.is_none() {
            // The goodbyes are written, and only now the connections are closed.
            self.stopped();
        }
        next
    }
}

/// Asks for the addresses of a host.
async fn resolve(shared: Weak<NodeShared>, endpoint: Bytes) {
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

/// Access control of a node with keys. The random parts are made anew for each connection.
#[cfg(feature = "curve")]
fn curve(keys: &Keys, server_key: Option<[u8; 32]>) -> Result<Security, Error> {
    use zwire_proto::zmtp::{
        crypto::{KeyPair, PublicKey, SecretKey},
        link::{CurveClient, CurveServer},
    };
    let keys = KeyPair::of(SecretKey::new(keys.secret));
    Ok(match server_key {
        None => Security::CurveServer(Box::new(CurveServer::new(keys, true, &[0; 96]))),
        Some(server) => Security::CurveClient(Box::new(CurveClient::new(keys, PublicKey(server), &[0; 48]))),
    })
}

#[cfg(not(feature = "curve"))]
fn curve(_: &Keys, _: Option<[u8; 32]>) -> Result<Security, Error> {
    Err(Error::NoCurve)
}

/// How connections of a node are made.
pub(crate) fn connection_config(
    options: &NodeOptions,
    progress: &Arc<Watch>,
    socket_type: SocketType,
    identity: Bytes,
    server_key: Option<[u8; 32]>,
) -> Result<ConnectionConfig, Error> {
    let security = match &options.keys {
        None => Security::Null { authenticate: false },
        Some(keys) => curve(keys, server_key)?,
    };
    let handshake = ZmtpHandshakeConfig { identity, security, ..ZmtpHandshakeConfig::new(socket_type) };
    let heartbeat = options.heartbeat.map(|interval| {
        // Not before the peer has expired: a session outlives a cable that is pulled for a while.
        let timeout = options.machine.expired.max(interval);
        Heartbeat { interval, timeout, ttl: timeout, also_to_3_0: false }
    });
    Ok(ConnectionConfig {
        tx: ZmtpTxConfig {
            max_messages: options.high_water_mark,
            max_bytes: options.high_water_bytes,
            heartbeat,
        },
        rx: ZmtpRxConfig { max_message_size: options.max_message_size, heartbeat },
        handshake_timeout: HANDSHAKE_TIMEOUT,
        max_connections: options.machine.max_peers,
        progress: progress.clone(),
        ..ConnectionConfig::new(handshake)
    })
}

/// The owner of a DEALER. Nothing ever comes back on it (`zre` 3).
struct DealerOwner {
    shared: Weak<NodeShared>,
    dealer: DealerId,
    server_key: Option<[u8; 32]>,
}

impl Owner for DealerOwner {
    /// HELLO tells name, headers and groups of this node, so it goes to allowed keys only.
    fn permits(&self) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        match (&shared.options.allow, &self.server_key) {
            (Some(allow), Some(key)) => allow(key),
            _ => true,
        }
    }

    fn opened(&self, _connection: &Arc<Connection>) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.with_core(|core, now| core.machine.handle_dealer_connected(now, self.dealer));
    }

    /// A connection that broke may have lost messages, and one that is refused for good will not come
    /// about: in both cases the machine knows what to do. Other attempts go on, unless the machine closes the
    /// DEALER.
    fn closed(&self, connection: Option<&Arc<Connection>>, reason: &CloseReason) {
        let Some(shared) = self.shared.upgrade() else { return };
        if matches!(reason, CloseReason::NotAllowed) {
            shared.with_core(|core, now| core.machine.handle_dealer_refused(now, self.dealer));
            return;
        }
        if connection.is_none() && !reason.is_final() {
            shared.with_core(|core, now| core.machine.handle_attempt_failed(now, self.dealer));
            return;
        }
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
    pub(crate) shared: Weak<NodeShared>,
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

    /// Each peer has one connection; messages of a peer without an identity are dropped. A goodbye that waited
    /// for the last words of the connection before is over before the next session begins.
    fn opened(&self, connection: &Arc<Connection>) {
        let admitted = self
            .shared
            .upgrade()
            .and_then(|shared| shared.with_core(|core, now| core.admit(now, connection)));
        if admitted != Some(true) {
            connection.close();
        }
    }

    fn received(&self, connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        let shared = self.shared.upgrade()?;
        let pause = shared.with_core(|core, now| {
            let identity = &connection.peer.identity;
            if let Some(held) = core.held.get_mut(&connection.id) {
                let messages = inbound.drain(..).filter_map(|item| match item {
                    Inbound::Message(message) => Some(message),
                    _ => None,
                });
                held.messages.extend(messages);
                let (done, wait) = oneshot::channel::<()>();
                held.pauses.push(done);
                return Some(wait);
            }
            if !core.speakers.hear(now, connection.id, identity) {
                inbound.clear();
                return None;
            }
            core.end_contests(now);
            if let Some(leaving) = core.leaving.get_mut(&connection.id) {
                leaving.at = now.mono + LEAVING;
            }
            let (identity, origin) = (connection.peer.identity.clone(), origin_of(connection));
            for item in inbound.drain(..) {
                if let Inbound::Message(message) = item {
                    core.machine.handle_message_by(now, &identity, &origin, message.frames());
                }
            }
            core.note_heard(connection);
            None
        })?;
        if let Some(pause) = pause {
            return Some(Box::pin(async move { drop(pause.await) }));
        }
        if shared.events.has_space() {
            return None;
        }
        let events = shared.events.clone();
        Some(Box::pin(async move { events.wait_space().await }))
    }

    fn closed(&self, connection: Option<&Arc<Connection>>, _reason: &CloseReason) {
        let (Some(shared), Some(connection)) = (self.shared.upgrade(), connection) else { return };
        shared.with_core(|core, now| {
            core.forget(connection);
            core.leave(now, connection.id);
            core.end_contests(now);
        });
    }
}
