//! [`ZreNode`]: what the application holds.

use super::{
    batch::BatchTarget,
    beacon::SenderReport,
    core::{NodeCore, NodeEvent},
    interfaces::{self, Candidate, InterfaceVerdict, Purpose, Selector},
    log,
    options::{self, NodeOptions},
    shared::{NodeShared, NodeState, RouterOwner, connection_config},
    tasks,
};
use crate::{
    config::SharedMemory,
    error::Error,
    lending::Lending,
    rt::{
        clock, descriptors,
        queue::Queue,
        runtime::{self, Birth},
        timer::{self, Timer},
        watch::Watch,
    },
    zmtp::{ConnectionConfig, LendingHost, Listener, Writing},
};
use bytes::Bytes;
use core::{
    net::Ipv4Addr,
    sync::atomic::{AtomicU16, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    io,
    sync::{Arc, Weak},
};
use zwire_proto::{
    Now, Text,
    zmtp::wire::SocketType,
    zre::{
        Uuid,
        node::{Delivery, Ignored, NodeError, Shouted, ZreNode as Machine, ZreNodeConfig, ZreNodeStats},
        wire::EncodeError,
    },
};

/// Counters since the start. All rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters of the machine.
    pub machine: ZreNodeStats,
    /// Messages that found the queue of their peer full.
    pub queue_full: u64,
    /// Connections that lost their identity to a newer one.
    pub taken_over: u64,
    /// Connections refused because the node of their UUID answers on another one, or has another key.
    pub takeovers_refused: u64,
    /// Events that the application did not take in time.
    pub events_dropped: u64,
    /// Frames that peers on this host read in the memory of this process.
    pub frames_lent: u64,
    /// Large frames for peers on this host that crossed the socket.
    pub frames_unlent: u64,
    /// Frames read in the memory of peers.
    pub frames_borrowed: u64,
}

/// Why a node is, or is not, found.
#[derive(Clone, Debug)]
pub struct Doctor {
    /// All interfaces.
    pub interfaces: Vec<Candidate>,
    /// Interfaces that beacons are sent on.
    pub senders: Vec<SenderReport>,
    /// Why beacons cannot be heard.
    pub deaf: Option<String>,
    /// Ignored datagrams and messages, with reasons.
    pub ignored: Vec<Ignored>,
}

/// A node of a ZRE network.
///
/// Dropping it stops it, with a goodbye. Its methods fail in a forked child, and those that ask or tell the network
/// fail unless the node runs.
pub struct Node {
    pub(super) shared: Arc<NodeShared>,
}

impl Node {
    /// A node that has not started.
    ///
    /// # Errors
    /// The runtime cannot be started, or a configuration that peers could not be told.
    pub fn new(options: NodeOptions) -> Result<Self, Error> {
        let runtime = runtime::handle()?;
        // Everything but addresses is checked here, not at the start.
        Machine::new(Now::default(), trial(machine_config(&options)))?;
        if options.keys.is_some() && !cfg!(feature = "curve") {
            return Err(Error::NoCurve);
        }
        let headers = options.machine.headers.clone();
        Ok(Self {
            shared: Arc::new_cyclic(|weak: &Weak<NodeShared>| NodeShared {
                lending: Arc::new(lending_host(&options.shared_memory, weak.clone())),
                birth: Birth::here(),
                runtime,
                events: Queue::new(options.events),
                options,
                state: Mutex::new(NodeState::Idle { groups: Vec::new(), headers }),
                presence: Watch::default(),
                progress: Arc::default(),
                last_sent: AtomicU64::new(0),
                timer: Timer::default(),
                deaf: Mutex::default(),
                tasks: Mutex::default(),
            }),
        })
    }

    /// UUID of the node.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.shared.options.machine.uuid
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Text {
        &self.shared.options.machine.name
    }

    /// The process that it belongs to.
    #[must_use]
    pub fn birth(&self) -> Birth {
        self.shared.birth
    }

    /// Events for the application.
    #[must_use]
    pub fn events(&self) -> &Arc<Queue<NodeEvent>> {
        &self.shared.events
    }

    /// Sets a header of the HELLO; replaces the one of the same name.
    ///
    /// # Errors
    /// The node has started: peers are told once.
    pub fn set_header(&self, name: &str, value: &str) -> Result<(), Error> {
        self.with_state(|state| {
            let NodeState::Idle { headers, .. } = state else { return Err(Error::Started) };
            let mut all = headers.clone();
            all.retain(|(known, _)| known != name);
            all.push((name.into(), value.into()));
            let config = ZreNodeConfig { headers: all.clone(), ..machine_config(&self.shared.options) };
            Machine::new(Now::default(), trial(config))?;
            *headers = all;
            Ok(())
        })
    }

    /// Opens the mailbox, and is found from now on.
    ///
    /// # Errors
    /// It has started before; no port of the mailbox is free; no interface can be used.
    pub fn start(&self) -> Result<(), Error> {
        self.with_state(|state| self.start_in(state))
    }

    fn start_in(&self, state: &mut NodeState) -> Result<(), Error> {
        let NodeState::Idle { groups, headers } = state else { return Err(Error::Started) };
        let shared = &self.shared;
        let options = &shared.options;
        let bind = bind_address(&options.bind)?;
        let selectors = match bind {
            // A mailbox that listens on one address is told of that one.
            Some(address) if options.interfaces.is_empty() => vec![Selector::address(address)],
            _ => options.interfaces.clone(),
        };
        let candidates = interfaces::list(Purpose::Broadcast, &selectors).map_err(|source| {
            Error::Listen { endpoint: "interfaces".to_owned(), source: Arc::new(source) }
        })?;
        let _guard = shared.runtime.enter();
        let listener = self.listen(bind)?;
        let used =
            candidates.iter().filter(|c| c.verdict == InterfaceVerdict::Used).map(Candidate::interface);
        let config = ZreNodeConfig {
            interfaces: used.collect(),
            mailbox: listener.local_addr().port(),
            headers: headers.clone(),
            collector_everywhere: options.machine.collector.as_ref().is_some_and(|at| log::is_everywhere(at)),
            // Each takes a descriptor for its attempt.
            max_unanswered: options.machine.max_unanswered.min(descriptors::for_strangers()),
            ..machine_config(options)
        };
        let now = clock::now();
        let mut machine = Machine::new(now, config)?;
        for group in &*groups {
            machine.join(now, group)?;
        }
        for group in &options.contest {
            let group = Text::from(group.as_str());
            machine.join(now, &group)?;
            machine.contest(now, &group)?;
        }
        for (endpoint, public_key) in &options.peers {
            machine.handle_endpoint(now, &Text::from(endpoint.as_str()), *public_key)?;
        }
        let beacons = machine.config().beacon_interval.is_some();
        let mut core = NodeCore::new(machine, listener, candidates, options.beacon_port);
        for endpoint in &options.gossip_bind {
            shared.gossip_bind(&mut core, endpoint)?;
        }
        for endpoint in &options.gossip_connect {
            shared.gossip_connect(&mut core, endpoint)?;
        }
        shared.settle(&mut core, now);
        *state = NodeState::Running(Box::new(core));
        let weak = || Arc::downgrade(shared);
        let mut running = vec![shared.runtime.spawn(timer::run(weak())).abort_handle()];
        if beacons {
            let hearing = tasks::run_beacons(weak(), options.beacon_port);
            let looking = tasks::run_interfaces(weak(), selectors);
            running.extend(
                [shared.runtime.spawn(hearing), shared.runtime.spawn(looking)].map(|t| t.abort_handle()),
            );
        }
        shared.tasks.lock().extend(running);
        Ok(())
    }

    /// The first port of the mailbox that is free.
    fn listen(&self, bind: Option<Ipv4Addr>) -> Result<Listener, Error> {
        /// Where the search among the ports of the RFCs begins: behind the last one that this process took.
        static HINT: AtomicU16 = AtomicU16::new(*options::MAILBOX_PORTS.start());
        let options = &self.shared.options;
        let ports = options.mailbox.clone();
        let (start, end) = ports.into_inner();
        let first = match options.mailbox == options::MAILBOX_PORTS {
            true => HINT.load(Ordering::Relaxed),
            false => start,
        };
        let host = bind.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let config =
            connection_config(options, &self.shared.progress, SocketType::Router, Bytes::new(), None)?;
        let config = ConnectionConfig { lending: Some(self.shared.lending.clone()), ..config };
        let mut last = None;
        for port in (first..=end).chain(start..first) {
            let owner = Arc::new(RouterOwner { shared: Arc::downgrade(&self.shared) });
            let endpoint = format!("tcp://{host}:{port}");
            match Listener::bind(&self.shared.runtime, &endpoint, config.clone(), owner) {
                Ok(listener) => {
                    HINT.store(
                        port.saturating_add(1).max(*options::MAILBOX_PORTS.start()),
                        Ordering::Relaxed,
                    );
                    return Ok(listener);
                }
                Err(Error::Listen { source, endpoint }) if source.kind() == io::ErrorKind::AddrInUse => {
                    last = Some(Error::Listen { source, endpoint });
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::Listen {
            endpoint: format!("tcp://{host}:*"),
            source: Arc::new(io::ErrorKind::InvalidInput.into()),
        }))
    }

    /// Whether it has started and not stopped.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.shared.birth.is_here() && self.shared.is_running()
    }

    /// Leaves the network: what is queued may go out for `linger`, then peers hear a goodbye, and everything
    /// is closed. A second time does nothing.
    pub fn stop(&self, linger: Duration, interrupted: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        let shared = &self.shared;
        let connections =
            self.with_state(|state| Ok(state.running().map(|core| core.connections()).unwrap_or_default()))?;
        connections.iter().for_each(|connection| connection.flush());
        let written = || connections.iter().all(|c| c.is_closed() || c.is_flushed()).then_some(());
        // Messages that are not written by the end of the linger are given up.
        let _ = shared.progress.wait(Some(linger), interrupted, written);
        self.begin_stop()?;
        let stopped = || (!shared.is_running()).then_some(());
        if shared.presence.wait(Some(STOP_LIMIT), &mut || false, stopped).is_err() {
            // The tasks had no chance to run: the interpreter ends, or the machine stands still.
            shared.stopped();
        }
        shared.end_tasks();
        Ok(())
    }

    /// Says goodbye and waits for nothing.
    pub fn begin_stop(&self) -> Result<(), Error> {
        let now = clock::now();
        self.with_state(|state| {
            match state {
                NodeState::Idle { .. } => {
                    *state = NodeState::Stopped;
                    self.shared.events.close();
                }
                NodeState::Running(core) => {
                    core.leave_all(now);
                    // It may be stopping already.
                    if core.machine.stop(now).is_ok() {
                        self.shared.settle(core, now);
                    }
                }
                NodeState::Stopped => {}
            }
            Ok(())
        })
    }

    /// Joins a group; `false`: it is in it already.
    ///
    /// # Errors
    /// A name that peers could not be told; the node is stopped.
    pub fn join(&self, group: &str) -> Result<bool, Error> {
        let group = Text::from(group);
        self.with_state(|state| {
            let NodeState::Idle { groups, .. } = state else {
                return self.command_in(state, |machine, now| machine.join(now, &group));
            };
            if groups.contains(&group) {
                return Ok(false);
            }
            let mut machine = Machine::new(Now::default(), trial(machine_config(&self.shared.options)))?;
            for known in groups.iter().chain([&group]) {
                machine.join(Now::default(), known)?;
            }
            groups.push(group);
            Ok(true)
        })
    }

    /// Leaves a group; `false`: it is not in it.
    ///
    /// # Errors
    /// The node is stopped.
    pub fn leave(&self, group: &str) -> Result<bool, Error> {
        let group = Text::from(group);
        self.with_state(|state| {
            let NodeState::Idle { groups, .. } = state else {
                return self.command_in(state, |machine, now| machine.leave(now, &group));
            };
            let before = groups.len();
            groups.retain(|known| *known != group);
            Ok(groups.len() < before)
        })
    }

    /// Sends a content to one peer. With `patience` it waits for room in its queue, at most so long.
    ///
    /// # Errors
    /// No such peer, a content that no peer could be told, or the node does not run.
    pub fn whisper(
        &self,
        peer: &Uuid,
        content: Vec<Bytes>,
        patience: Duration,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Delivery, Error> {
        if !patience.is_zero() {
            self.wait_for_room(&BatchTarget::Peer(*peer), 1, patience, interrupted)?;
        }
        let content = self.place(content, !patience.is_zero());
        self.run_sending(|shared, core, now| whisper(shared, core, now, peer, content))
    }

    /// Sends a content to each peer of a group. With `patience` it waits for room in the queues of all, at
    /// most so long.
    ///
    /// # Errors
    /// A group or a content that no peer could be told, or the node does not run.
    pub fn shout(
        &self,
        group: &str,
        content: Vec<Bytes>,
        patience: Duration,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Shouted, Error> {
        let group = Text::from(group);
        if !patience.is_zero() {
            self.wait_for_room(&BatchTarget::Group(group.clone()), 1, patience, interrupted)?;
        }
        let content = self.place(content, !patience.is_zero());
        self.run_sending(|shared, core, now| shout(shared, core, now, &group, content))
    }

    /// Copies large frames into the memory that peers on this host read. A caller that `waits` also waits until they
    /// have returned so much that the frames can be lent, for as long as the socket would take.
    pub(super) fn place(&self, content: Vec<Bytes>, waits: bool) -> Vec<Bytes> {
        let memory = &self.shared.lending.memory;
        let place = |frame: Bytes| {
            if waits && memory.is_tight(frame.len()) {
                memory.wait_room(frame.len());
            }
            memory.place_bytes(frame)
        };
        content.into_iter().map(place).collect()
    }

    /// A copy of bytes, for a frame: in the memory that peers on this host read, if it is large and a peer does.
    #[must_use]
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        self.shared.lending.memory.copy_bytes(bytes)
    }

    /// Has `tcp://host:port` as a peer, now and whenever it is not there. A node with keys needs that of the
    /// peer.
    ///
    /// # Errors
    /// It is no endpoint, it lacks its key, or the node does not run.
    pub fn require_peer(&self, endpoint: &str, public_key: Option<[u8; 32]>) -> Result<(), Error> {
        self.command(|machine, now| machine.handle_endpoint(now, &Text::from(endpoint), public_key))
    }

    /// Wants to lead a group that it is in.
    ///
    /// # Errors
    /// It is not in the group, or does not run.
    pub fn contest(&self, group: &str) -> Result<(), Error> {
        self.command(|machine, now| machine.contest(now, &Text::from(group)))
    }

    /// Runs a command of the machine, and what the machine asks for then.
    fn command<R>(&self, f: impl FnOnce(&mut Machine, Now) -> Result<R, NodeError>) -> Result<R, Error> {
        self.with_state(|state| self.command_in(state, f))
    }

    fn command_in<R>(
        &self,
        state: &mut NodeState,
        f: impl FnOnce(&mut Machine, Now) -> Result<R, NodeError>,
    ) -> Result<R, Error> {
        let (core, now) = (state.core()?, clock::now());
        let result = f(&mut core.machine, now)?;
        self.shared.settle(core, now);
        Ok(result)
    }

    /// Becomes a hub of gossip; the endpoint that it listens on.
    ///
    /// # Errors
    /// It cannot be listened on; the node does not run.
    pub fn gossip_bind(&self, endpoint: &str) -> Result<String, Error> {
        self.run(|shared, core, now| {
            let bound = shared.gossip_bind(core, endpoint)?;
            shared.settle_gossip(core, now);
            Ok(bound)
        })
    }

    /// Finds peers by a hub of gossip.
    ///
    /// # Errors
    /// The endpoint is none; the node does not run.
    pub fn gossip_connect(&self, endpoint: &str) -> Result<(), Error> {
        self.run(|shared, core, _| shared.gossip_connect(core, endpoint))
    }

    /// Waits until so many peers are there, or in the group.
    ///
    /// # Errors
    /// They are not there in time; the node does not run, or stops meanwhile.
    pub fn wait_for_peers(
        &self,
        count: usize,
        group: Option<&str>,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Uuid>, Error> {
        self.shared.birth.check()?;
        let look = || {
            let mut state = self.shared.state.lock();
            let Some(core) = state.running() else { return Some(Err(Error::Closed)) };
            let peers: Vec<Uuid> = match group {
                Some(group) => core.machine.peers_of(group).collect(),
                None => core.machine.peers().collect(),
            };
            (peers.len() >= count).then_some(Ok(peers))
        };
        let found = self.shared.presence.wait(timeout, interrupted, look);
        found.unwrap_or_else(|missed| Err(Error::missed(missed, "waiting for peers", timeout)))
    }

    /// Reads something of the machine.
    pub fn look<R>(&self, f: impl FnOnce(&Machine) -> R) -> Result<R, Error> {
        self.run(|_, core, _| Ok(f(&core.machine)))
    }

    /// Whether a connection from a peer is open: messages that the peer has sent may be on it. Once it is not, the events of
    /// all of them are in the queue.
    ///
    /// # Errors
    /// The node does not run.
    pub fn is_connected_from(&self, peer: &Uuid) -> Result<bool, Error> {
        self.run(|_, core, _| Ok(core.connection_of(peer).is_some()))
    }

    /// The groups that it is in, also before the start.
    pub fn own_groups(&self) -> Result<Vec<Text>, Error> {
        self.with_state(|state| {
            Ok(match state {
                NodeState::Idle { groups, .. } => groups.clone(),
                NodeState::Running(core) => core.machine.own_groups().cloned().collect(),
                NodeState::Stopped => Vec::new(),
            })
        })
    }

    /// Where it listens, as peers are told.
    pub fn endpoint(&self) -> Result<String, Error> {
        self.look(|machine| String::from_utf8_lossy(&machine.endpoint()).into_owned())
    }

    /// Counters.
    pub fn stats(&self) -> Result<Stats, Error> {
        let events_dropped = self.shared.events.dropped();
        let LendingHost { lent, unlent, borrowed, .. } = &*self.shared.lending;
        let [frames_lent, frames_unlent, frames_borrowed] =
            [lent, unlent, borrowed].map(|count| count.load(Ordering::Relaxed));
        self.run(|_, core, _| {
            let (queue_full, taken_over) = (core.full, core.taken_over);
            let takeovers_refused = core.speakers.refused();
            Ok(Stats {
                machine: *core.machine.stats(),
                queue_full,
                taken_over,
                takeovers_refused,
                events_dropped,
                frames_lent,
                frames_unlent,
                frames_borrowed,
            })
        })
    }

    /// Why it is, or is not, found.
    pub fn doctor(&self) -> Result<Doctor, Error> {
        let deaf = self.shared.deaf.lock().clone();
        self.run(|_, core, _| {
            let senders = core.senders.iter().map(|sender| sender.lock().report.clone()).collect();
            let ignored = core.machine.ignored().to_vec();
            Ok(Doctor { interfaces: core.candidates.clone(), senders, deaf, ignored })
        })
    }

    fn with_state<R>(&self, f: impl FnOnce(&mut NodeState) -> Result<R, Error>) -> Result<R, Error> {
        self.shared.birth.check()?;
        self.shared.with_state(f)
    }

    /// Runs a send of the application; messages of a loop of sends are coalesced.
    fn run_sending<R>(
        &self,
        f: impl FnOnce(&Arc<NodeShared>, &mut NodeCore, Now) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let result = self.run(|shared, core, now| {
            if shared.sends_in_a_loop(now) {
                core.effects.writing = Writing::Gather;
            }
            f(shared, core, now)
        });
        self.shared.note_sent();
        result
    }

    pub(super) fn run<R>(
        &self,
        f: impl FnOnce(&Arc<NodeShared>, &mut NodeCore, Now) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.with_state(|state| f(&self.shared, state.core()?, clock::now()))
    }
}

/// How long a stop waits for the goodbyes, which take 75 ms.
const STOP_LIMIT: Duration = Duration::from_secs(2);

impl Drop for Node {
    fn drop(&mut self) {
        if self.begin_stop().is_err() {
            return;
        }
        // The node says its goodbyes in the background; this task keeps it alive until then.
        let shared = self.shared.clone();
        self.shared.runtime.spawn(async move {
            let end = clock::instant(clock::mono() + STOP_LIMIT);
            shared.presence.until(end, || !shared.is_running()).await;
        });
    }
}

/// Configuration of the machine without the addresses, which are known at the start.
fn machine_config(options: &NodeOptions) -> ZreNodeConfig {
    ZreNodeConfig { public_key: options.keys.as_ref().map(|keys| keys.public), ..options.machine.clone() }
}

/// The same with an address, which is not known before the start.
fn trial(config: ZreNodeConfig) -> ZreNodeConfig {
    let advertise = config.advertise.or_else(|| Some("tcp://0.0.0.0:1".into()));
    ZreNodeConfig { advertise, ..config }
}

/// Memory that the connections of a node lend.
fn lending_host(settings: &SharedMemory, node: Weak<NodeShared>) -> LendingHost {
    LendingHost::new(Lending::new(settings, true), move |door| {
        if let Some(shared) = node.upgrade() {
            shared.spawn(door);
        }
    })
}

/// `None`: all addresses.
fn bind_address(text: &str) -> Result<Option<Ipv4Addr>, Error> {
    match text {
        "*" | "0.0.0.0" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| Error::Listen {
            endpoint: text.to_owned(),
            source: Arc::new(io::Error::new(io::ErrorKind::InvalidInput, "`bind` is an IPv4 address or *")),
        }),
    }
}

/// Sends a content to one peer.
pub(super) fn whisper(
    shared: &Arc<NodeShared>,
    core: &mut NodeCore,
    now: Now,
    peer: &Uuid,
    content: Vec<Bytes>,
) -> Result<Delivery, Error> {
    let (outcome, full) = (core.machine.whisper(now, peer, content), shared.settle(core, now));
    match outcome {
        Ok(()) if full.contains(peer) => Ok(Delivery::Full),
        Ok(()) => Ok(Delivery::Queued),
        Err(NodeError::NotResponding { .. }) => Ok(Delivery::NotResponding),
        Err(NodeError::Encode(EncodeError::MultiFrame { .. })) => Ok(Delivery::Refused),
        Err(error) => Err(error.into()),
    }
}

/// Sends a content to each peer of a group.
pub(super) fn shout(
    shared: &Arc<NodeShared>,
    core: &mut NodeCore,
    now: Now,
    group: &Text,
    content: Vec<Bytes>,
) -> Result<Shouted, Error> {
    let (shouted, full) = (core.machine.shout(now, group, content), shared.settle(core, now));
    let mut shouted = shouted?;
    full.iter().for_each(|peer| shouted.correct(peer, Delivery::Full));
    Ok(shouted)
}

#[cfg(test)]
mod tests {
    use super::{Node, NodeOptions};
    use crate::rt::clock;
    use core::time::Duration;
    use std::sync::Arc;
    use zwire_proto::zre::Uuid;

    /// A connection with small frames alone never opens a channel, and keeps nothing after its end.
    #[test]
    fn what_a_node_lends_from_ends_with_it() {
        let local = |peers: Vec<(String, Option<[u8; 32]>)>, byte| {
            let mut options = NodeOptions::new(Uuid::from_bytes([byte; 16]));
            options.machine.beacon_interval = None;
            (options.bind, options.mailbox, options.peers) = ("127.0.0.1".to_owned(), 0..=0, peers);
            let node = Node::new(options).unwrap();
            node.start().unwrap();
            node
        };
        let one = local(Vec::new(), 1);
        let two = local(vec![(one.endpoint().unwrap(), None)], 2);
        for node in [&one, &two] {
            node.wait_for_peers(1, None, Some(Duration::from_secs(10)), &mut || false).unwrap();
        }
        let lending = [&one, &two].map(|node| Arc::downgrade(&node.shared.lending));
        for node in [one, two] {
            node.stop(Duration::from_secs(1), &mut || false).unwrap();
        }
        let end = clock::mono() + Duration::from_secs(10);
        while lending.iter().any(|lending| lending.strong_count() > 0) {
            assert!(clock::mono() < end, "{:?} are left", lending.map(|lending| lending.strong_count()));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
