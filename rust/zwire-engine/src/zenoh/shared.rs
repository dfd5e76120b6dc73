//! [`SessionShared`]: everything behind a session: the core and its lock, timers, tasks.

use crate::{
    config::{Config, ErrorReply, NodeConfig, Secret, SharedMessage},
    error::Error,
    lending::Lending,
    net::{
        burst::{LastPublication, Moment},
        io::PortGuard,
        tap::Tap,
    },
    rt::{
        clock,
        memory::{self, Freed},
        queue::{Asker, INTERRUPT_PERIOD},
        runtime::Birth,
        timer::{Timed, Timer},
        watch::{Missed, Watch},
    },
    zenoh::{
        caller::Patience,
        connectivity::LinkInfo,
        contacts::{Contact, Contacts, Dials},
        core::{NodeSide, SessionCore, Side},
        effects::{Effects, Wait},
        gate::Gate,
        intercept::Rules,
        link::{Link, LinkEnd, PeerFault},
        live::LiveConfig,
        query::QueryHost,
        reassembly::Pool,
    },
};
use bytes::Bytes;
use core::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};
use tokio::{runtime::Handle, task::AbortHandle};
use zwire_proto::{
    Now, Text,
    zenoh::{
        CongestionControl, Qos, Reliability, Remote, Timestamp, WhatAmI, ZenohId,
        discovery::{Binding, ClaimVerdict, Proof},
        node::{FaceId, FaceLimits, GossipConfig, Node, NodeConfig as RoutingConfig, NodeEvent, NodeMode},
        session::{EntityId, QueryId, QueryReply, QueryReplyBody, Session as Api, SessionConfig},
        wire::{CloseReason, NetworkMessage},
    },
};

thread_local! {
    /// Whether this thread holds a core.
    static HOLDS_CORE: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as the holder of a core.
struct Holding;

impl Holding {
    fn new() -> Self {
        HOLDS_CORE.set(true);
        Self
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        HOLDS_CORE.set(false);
    }
}

/// Number of the calling thread, which no other live thread has: the address of its flag.
fn this_thread() -> usize {
    HOLDS_CORE.with(|holds| core::ptr::from_ref(holds).addr())
}

/// Everything behind a session; tasks hold it weakly.
pub(crate) struct SessionShared {
    pub(crate) birth: Birth,
    pub(crate) zid: ZenohId,
    pub(crate) config: NodeConfig,
    /// Policy of links, which may be another one than configured at first.
    pub(crate) rules: Rules,
    /// What may change of the configuration, and has.
    pub(crate) live: LiveConfig,
    pub(crate) runtime: Handle,
    pub(crate) tap: Option<Arc<Tap>>,
    pub(crate) reassembly: Arc<Pool>,
    /// Memory of the declarations of links that have ended.
    freed: Freed,
    /// Conditions that `open` waits for.
    pub(crate) gate: Gate,
    /// Nodes that there is a session with.
    pub(crate) contacts: Arc<Contacts>,
    /// Users and passwords that are let in, where a password is demanded.
    users: Mutex<Option<Users>>,
    pub(crate) core: Mutex<SessionCore>,
    /// Queries that were dropped while a thread held the core.
    finished: Mutex<Vec<QueryId>>,
    some_finished: AtomicBool,
    /// A lane was full not long ago; spares the look at it otherwise.
    congested: AtomicBool,
    /// Tells the publications of a loop from those that are alone.
    last: LastPublication,
    /// Questions may be among the messages that are collected.
    asked: AtomicBool,
    timer: Timer,
    pub(crate) watch: Watch,
    /// Told when a link has written everything, or is dead.
    pub(crate) progress: Arc<Watch>,
    tasks: Mutex<Vec<AbortHandle>>,
    closed: AtomicBool,
    pub(crate) listening: Mutex<Vec<Listening>>,
    /// Where others reach this node, as far as is known.
    pub(crate) locators: Mutex<Vec<Text>>,
    /// Nodes that were found.
    pub(crate) dials: Arc<Dials>,
    /// Shared memory with neighbours on this host.
    pub(crate) lending: Arc<Lending>,
    /// Sources of keys of the admin space about plugins.
    pub(crate) statuses: Mutex<Vec<StatusSource>>,
    /// Whether the admin space has the last lines of the log.
    pub(crate) log_served: AtomicBool,
    /// Called for each node that a neighbour tells of.
    on_gossip: OnGossip,
    me: Weak<Self>,
}

/// Key of the admin space: its path, below `plugins` or `status/plugins`, with the encoding and the payload of the reply.
pub type StatusEntry = (String, zwire_proto::zenoh::Encoding, Vec<u8>);

/// Source of keys of the admin space; `None`: its plugin has ended.
pub type StatusSource = Arc<dyn Fn() -> Option<Vec<StatusEntry>> + Send + Sync>;

/// Handler of a node that a neighbour tells of.
pub(crate) type OnGossip = fn(&Arc<SessionShared>, FaceId, ZenohId, WhatAmI, Vec<Text>);

/// Users and their passwords.
type Users = Arc<HashMap<Text, Text>>;

fn users(dictionary: &BTreeMap<String, Secret>) -> Users {
    let pairs = dictionary.iter().map(|(user, password)| (user.as_str().into(), password.reveal().into()));
    Arc::new(pairs.collect())
}

/// Where a session listens.
pub(crate) struct Listening {
    pub(crate) locator: String,
    pub(crate) guard: Option<PortGuard>,
}

impl SessionShared {
    /// The machines of a node that is not connected to anything yet.
    pub(crate) fn new(
        (config, tree): (NodeConfig, Config),
        runtime: Handle,
        zid: ZenohId,
        tap: Option<Arc<Tap>>,
        on_gossip: OnGossip,
    ) -> Arc<Self> {
        let users = config.usrpwd.dictionary.as_ref().map(users);
        let gate = Gate::new(config.open.declares);
        Arc::new_cyclic(|weak: &Weak<Self>| {
            let host: Weak<dyn QueryHost> = weak.clone();
            let memory = match config.zwire.memory_limit {
                0 => memory::available(),
                limit => Some(limit as u64),
            };
            let api = Api::new(SessionConfig {
                queries_default_timeout: config.queries_default_timeout,
                namespace: config.namespace.clone(),
                timestamping: config.timestamping.enabled,
                max_drift: config.timestamping.max_drift,
                ..SessionConfig::new(zid)
            });
            let node = |mode| {
                Side::Node(Box::new(NodeSide::new(Node::new(RoutingConfig {
                    timestamping: config.timestamping.enabled,
                    drop_future_timestamp: config.timestamping.drop_future,
                    max_drift: config.timestamping.max_drift,
                    query_timeout: config.queries_default_timeout,
                    interest_timeout: config.interests_timeout,
                    transport_weights: config.transport_weights.clone(),
                    limits: memory.map_or_else(FaceLimits::default, FaceLimits::within),
                    gossip: GossipConfig {
                        enabled: config.scouting.gossip.enabled,
                        multihop: config.scouting.gossip.multihop,
                        target: config.scouting.gossip.target.mask(),
                    },
                    ..RoutingConfig::new(zid, mode)
                }))))
            };
            let side = match config.mode {
                WhatAmI::Client => Side::Client(None),
                WhatAmI::Peer => node(NodeMode::Peer),
                WhatAmI::Router => node(NodeMode::Router),
            };
            SessionShared {
                birth: Birth::here(),
                zid,
                // A capture is to hold the payloads.
                lending: Lending::new(&config.shared_memory, tap.is_none()),
                rules: Rules::new(&config.intercept),
                live: LiveConfig::new(tree, &config),
                config,
                runtime,
                tap,
                reassembly: Arc::new(Pool::within(memory)),
                freed: Freed::default(),
                gate,
                contacts: Contacts::new(zid),
                users: Mutex::new(users),
                core: Mutex::new(SessionCore::new(api, side, host)),
                finished: Mutex::new(Vec::new()),
                some_finished: AtomicBool::new(false),
                congested: AtomicBool::new(false),
                last: LastPublication::default(),
                asked: AtomicBool::new(false),
                timer: Timer::default(),
                watch: Watch::default(),
                progress: Arc::default(),
                tasks: Mutex::new(Vec::new()),
                closed: AtomicBool::new(false),
                listening: Mutex::new(Vec::new()),
                statuses: Mutex::new(Vec::new()),
                log_served: AtomicBool::new(false),
                locators: Mutex::new(Vec::new()),
                dials: Arc::default(),
                on_gossip,
                me: weak.clone(),
            }
        })
    }

    /// Users that are let in; `None`: no password is demanded.
    pub(crate) fn users(&self) -> Option<Users> {
        self.users.lock().clone()
    }

    /// Replaces the users, if passwords are demanded. Links that are open stay so.
    pub(crate) fn set_users(&self, dictionary: &BTreeMap<String, Secret>) {
        if let Some(known) = &mut *self.users.lock() {
            *known = users(dictionary);
        }
    }

    /// In the process of its birth, and open.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.birth.check()?;
        if self.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Error of a call that finds its entity undeclared. Closing a session undeclares its entities, also
    /// between the check of a call and its lookup; then the close is the reason.
    pub(crate) fn undeclared(&self, what: &'static str) -> Error {
        if self.is_closed() { Error::Closed } else { Error::Undeclared { what } }
    }

    /// Runs a command or input on the machines, drains their outputs, and writes what they send.
    pub(crate) fn with_core<R>(
        &self,
        effects: &mut Effects,
        f: impl FnOnce(&mut SessionCore, Now, &mut Effects) -> R,
    ) -> R {
        let now = clock::now();
        let result = self.turn(self.core.lock(), now, effects, f);
        self.settle_command(now, effects);
        result
    }

    /// Runs a command or input on the machines and drains their outputs; [`Self::settle_command`] follows.
    #[inline]
    pub(crate) fn turn<R>(
        &self,
        mut core: MutexGuard<'_, SessionCore>,
        now: Now,
        effects: &mut Effects,
        f: impl FnOnce(&mut SessionCore, Now, &mut Effects) -> R,
    ) -> R {
        let _holding = Holding::new();
        effects.moment = Some(Moment { now: now.mono, before: self.last.of(this_thread()) });
        let result = f(&mut core, now, effects);
        core.pump(now, effects);
        self.finish_dropped(&mut core, now, effects);
        self.arm(&core);
        result
    }

    /// Performs the effects of a command after the lock is released.
    pub(crate) fn settle_command(&self, now: Now, effects: &mut Effects) {
        self.note(effects);
        self.handle_events(effects);
        if let Some((wrote, left)) = effects.settle(now.mono) {
            self.last.note(this_thread(), now.mono, wrote);
            if effects.asks && left {
                self.asked.store(true, Ordering::Release);
            }
        }
    }

    /// Messages of a link. When all that were read together are in, [`Self::settle`] follows. Messages that are
    /// left wait until the returned time; without one they have to be admitted again, because they are no longer
    /// `judged`: by the rules in force.
    pub(crate) fn deliver(
        &self,
        face: FaceId,
        messages: &mut Vec<(NetworkMessage, Reliability)>,
        effects: &mut Effects,
        judged: impl FnOnce() -> bool,
    ) -> Result<Option<Duration>, PeerFault> {
        let now = clock::now();
        let mut result = Ok(None);
        let mut handled = 0;
        {
            let mut core = self.core.lock();
            // Rules are replaced with the lock of the core.
            if !judged() {
                return Ok(None);
            }
            let _holding = Holding::new();
            effects.moment = None;
            for (message, reliability) in messages.iter_mut() {
                handled += 1;
                result = match core.handle_message(now, face, message, *reliability, effects) {
                    Ok(()) => Ok(core.take_wait(face)),
                    Err(fault) => Err(fault),
                };
                if result != Ok(None) {
                    break;
                }
            }
            core.hear(now, effects);
            effects.hand_over();
            self.finish_dropped(&mut core, now, effects);
            self.arm(&core);
        }
        match &result {
            Ok(Some(_)) => drop(messages.drain(..handled)),
            _ => messages.clear(),
        }
        result
    }

    /// Sends on and tells consumers what was delivered.
    pub(crate) fn settle(&self, effects: &mut Effects) {
        self.note(effects);
        self.handle_events(effects);
        effects.settle(clock::mono());
    }

    /// Handles events of the node about other nodes. No lock is held.
    fn handle_events(&self, effects: &mut Effects) {
        for event in effects.events.drain(..) {
            match event {
                (NodeEvent::Ready { .. }, neighbour) => {
                    neighbour.into_iter().for_each(|zid| self.gate.ready(zid))
                }
                (NodeEvent::ClockAhead { clock, ahead, dropped, .. }, via) => tracing::warn!(
                    %clock,
                    via = via.map(tracing::field::display),
                    ?ahead,
                    "time stamps of a clock lie in the future: they are {}",
                    if dropped { "dropped" } else { "replaced" }
                ),
                (NodeEvent::Discovered { from, zid, whatami, locators }, _) => {
                    if let Some(shared) = self.me.upgrade() {
                        (self.on_gossip)(&shared, from, zid, whatami, locators);
                    }
                }
            }
        }
    }

    fn note(&self, effects: &mut Effects) {
        if core::mem::take(&mut effects.told) {
            self.watch.notify();
        }
        if core::mem::take(&mut effects.congested) {
            self.congested.store(true, Ordering::Release);
        }
    }

    fn finish_dropped(&self, core: &mut SessionCore, now: Now, effects: &mut Effects) {
        while self.some_finished.load(Ordering::Acquire) {
            self.some_finished.store(false, Ordering::Release);
            let queries = core::mem::take(&mut *self.finished.lock());
            for query in queries {
                core.api.finish(now, query);
                core.pump(now, effects);
            }
        }
    }

    fn arm(&self, core: &SessionCore) {
        self.timer.arm(core.poll_timeout());
    }

    /// Runs a task until it ends or the session closes.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let task = self.runtime.spawn(task).abort_handle();
        let mut all = self.tasks.lock();
        all.retain(|task| !task.is_finished());
        all.push(task.clone());
        task
    }

    /// The machines, except in a forked child: it inherits locks in an undefined state, and has nothing to end.
    pub(crate) fn core_here(&self) -> Option<MutexGuard<'_, SessionCore>> {
        self.birth.is_here().then(|| self.core.lock())
    }

    /// Whether a peer that wants in may come in (`zenoh-behaviour` 2.3). `None`: ask again after
    /// [`Contacts::answered`](super::contacts::Contacts::answered).
    pub(crate) fn admit(&self, remote: &Remote, proof: Proof<'_>) -> Result<Option<Contact>, CloseReason> {
        let verdict = Binding::judge(&self.config.zwire.bindings, *remote, proof);
        if verdict == ClaimVerdict::Refused {
            tracing::warn!(
                zid = %remote.zid,
                whatami = %remote.whatami,
                user = proof.username,
                certificate = proof.common_name,
                "refusing a node: zwire/auth/bindings gives its id or role to others"
            );
            return Err(CloseReason::INVALID);
        }
        let contact = self.contacts.admit(*remote);
        let core = self.core.lock();
        let Side::Node(side) = &core.side else { return Err(CloseReason::GENERIC) };
        if contact.is_err() && verdict == ClaimVerdict::Bound {
            // The session of before is its own, and dead: it connects again, and finds the place free.
            let mine = side.links.values().find(|link| link.params.remote.zid == remote.zid);
            mine.into_iter().for_each(|link| link.close());
        }
        let contact = contact?;
        let live = side.links.values().filter(|link| !link.is_closed());
        if live.count() >= self.config.unicast.max_sessions {
            return Err(CloseReason::MAX_SESSIONS);
        }
        Ok(contact)
    }

    pub(crate) fn link_down(&self, face: FaceId, link: &Arc<Link>, info: &LinkInfo) {
        let alone = self.with_core(&mut Effects::default(), |core, now, effects| {
            effects.told = true;
            core.connectivity.down(info, link.end());
            core.past.links.add(link);
            match &mut core.side {
                Side::Client(slot) => {
                    // A newer link may have taken its place already.
                    if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
                        *slot = None;
                        core.api.handle_link_down(now);
                        return true;
                    }
                }
                Side::Node(side) => {
                    if side.links.remove(&face).is_some() {
                        side.node.handle_face_down(now, face);
                        self.freed.add(side.node.take_freed());
                    }
                }
            }
            false
        });
        link.tell_end(alone && !self.is_closed());
        self.gate.gone(link.params.remote.zid);
    }

    /// After a command of the application: waits where something is over its bound, or leaves that to the caller.
    pub(crate) fn wait(&self, effects: &mut Effects, patience: &mut Patience<'_>) -> Result<(), Error> {
        let limit = self.config.link.wait_before_close;
        let interrupted = match patience {
            Patience::Block(interrupted) => interrupted,
            Patience::Defer(deferred) => {
                deferred.add(&self.runtime, limit, &mut effects.waits);
                return Ok(());
            }
        };
        for wait in effects.waits.drain(..) {
            match wait {
                Wait::Link(link, priority) => {
                    if !link.wait_space_blocking(priority, limit, interrupted) {
                        return Err(Error::Interrupted);
                    }
                }
                Wait::Queue(consumer) => consumer.wait_space_blocking(),
            }
        }
        Ok(())
    }

    /// Whether a link was full not long ago.
    pub(crate) fn is_congested(&self) -> bool {
        self.congested.load(Ordering::Acquire)
    }

    /// The grace of a message before it is sent. A message that blocks waits for room in shared memory.
    ///
    /// A droppable message waits a moment for a full link (`wait_before_drop`), and longer if it would be cut into
    /// fragments. A link that stays full is waited for once and then left alone, so that one which has stopped costs the
    /// others no more than that.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] to a caller that must not wait.
    pub(crate) fn grace(&self, qos: Qos, bytes: usize, patience: &Patience<'_>) -> Result<(), Error> {
        if qos.congestion() == CongestionControl::Block && self.lending.is_tight(bytes) {
            if matches!(patience, Patience::Defer(_)) {
                return Err(Error::WouldBlock);
            }
            self.lending.wait_room(bytes);
        }
        // A forked child must not wait for a lock that its parent may have held; it is told so next.
        if qos.congestion() != CongestionControl::Drop || !self.is_congested() || !self.birth.is_here() {
            return Ok(());
        }
        self.congested.store(false, Ordering::Release);
        let links = self.core.lock().links();
        for link in links.iter().filter(|link| link.is_congested(qos.priority())) {
            // A link gets no second grace period until it has drained.
            if link.is_weary(qos.priority()) {
                continue;
            }
            if matches!(patience, Patience::Defer(_)) {
                self.congested.store(true, Ordering::Release);
                return Err(Error::WouldBlock);
            }
            let limit = if bytes > usize::from(link.params.batch_size) {
                self.config.link.max_wait_before_drop_fragments
            } else {
                self.config.link.wait_before_drop
            };
            link.wait_briefly(qos.priority(), limit);
        }
        Ok(())
    }

    /// The wait for what is queued ends when `interrupted` says so.
    pub(crate) fn shut_down(&self, linger: Duration, interrupted: &mut dyn FnMut() -> bool) {
        if !self.birth.is_here() || self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let links = self.with_core(&mut Effects::default(), |core, now, effects| {
            effects.told = true;
            core.api.close(now);
            core.pump(now, effects);
            let entities: Vec<EntityId> =
                core.samples.keys().chain(core.queries.keys()).chain(core.matching.keys()).copied().collect();
            for entity in entities {
                core.forget(entity, effects);
            }
            for (_, replies) in core.gets.drain() {
                replies.queue.close();
            }
            core.advanced.close(effects);
            core.connectivity.close();
            core.links()
        });
        let end = clock::mono().saturating_add(linger);
        // Messages that wait for the authority come before the CLOSE.
        let released = || (!links.iter().any(|link| link.own_guard().holds_messages())).then_some(());
        let interrupted_early =
            self.progress.wait(Some(linger), interrupted, released) == Err(Missed::Interrupted);
        for link in &links {
            // The peer answers by closing its end, which may be seen first.
            link.note_end(LinkEnd::Closed);
            link.finish(CloseReason::GENERIC);
        }
        let rest = end.saturating_sub(clock::mono());
        let written = || links.iter().all(|link| link.is_written()).then_some(());
        if !interrupted_early && self.progress.wait(Some(rest), interrupted, written).is_ok() {
            // Nothing wakes a thread when the peer has acknowledged everything, as QUIC tells: it is asked for.
            let mut asked = clock::mono();
            while links.iter().any(|link| !link.is_delivered()) && clock::mono() < end {
                std::thread::sleep(Duration::from_millis(1));
                if clock::mono() - asked > INTERRUPT_PERIOD {
                    if interrupted() {
                        break;
                    }
                    asked = clock::mono();
                }
            }
        }
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
        self.end_authority();
        for link in &links {
            link.close();
            if !link.is_group() {
                // The task that reads from it is aborted before it could log the end.
                link.tell_end(false);
            }
        }
        tracing::info!(zid = %self.zid, "session closed");
        // Where it has listened stays known.
        for listening in self.listening.lock().iter_mut() {
            listening.guard = None;
        }
        if let Some(tap) = &self.tap {
            tap.flush();
        }
    }
}

impl QueryHost for SessionShared {
    fn check(&self) -> Result<(), Error> {
        Self::check(self)
    }

    fn copy(&self, bytes: &[u8]) -> Bytes {
        self.lending.copy(SharedMessage::Reply, bytes)
    }

    fn reply(&self, query: QueryId, mut reply: QueryReply, patience: &mut Patience<'_>) -> Result<(), Error> {
        if let QueryReplyBody::Sample { body, .. } = &mut reply.body {
            self.lending.place_body(SharedMessage::Reply, body);
        }
        let mut effects = Effects::default();
        self.with_core(&mut effects, |core, now, _| core.api.reply(now, query, reply))?;
        self.wait(&mut effects, patience)
    }

    fn error_reply(&self) -> ErrorReply {
        self.config.zwire.handler.error_reply
    }

    fn new_timestamp(&self) -> Timestamp {
        self.core.lock().api.new_timestamp(clock::now())
    }

    /// A query was dropped. It is finished at once, unless this very thread holds a core: then the
    /// holder finishes it before it lets go.
    fn finish_query(&self, query: QueryId, followed: bool) {
        if !self.birth.is_here() {
            return;
        }
        if HOLDS_CORE.get() {
            self.finished.lock().push(query);
            self.some_finished.store(true, Ordering::Release);
        } else {
            let mut effects = Effects::default();
            effects.followed = followed;
            self.with_core(&mut effects, |core, now, _| core.api.finish(now, query));
        }
    }
}

impl Asker for SessionShared {
    fn send_collected(&self) {
        if self.birth.is_here() && self.asked.swap(false, Ordering::AcqRel) {
            let links = self.core.lock().links();
            links.iter().for_each(|link| link.flush());
        }
    }
}

impl Timed for SessionShared {
    const CATCH_UP: Duration = Duration::ZERO;

    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn handle_timeouts(self: &Arc<Self>) -> Option<Option<Duration>> {
        self.timer.hold();
        self.with_core(&mut Effects::default(), |core, now, effects| {
            if core.poll_timeout().is_some_and(|deadline| deadline <= now.mono) {
                core.handle_timeout(now, effects);
                if let Side::Node(side) = &mut core.side {
                    self.freed.add(side.node.take_freed());
                }
            }
        });
        let core = self.core.lock();
        let next = core.poll_timeout();
        self.timer.set(next);
        Some(next)
    }
}

impl Drop for SessionShared {
    fn drop(&mut self) {
        // No caller is left that could wait: queued messages get one chance to be written.
        self.shut_down(Duration::ZERO, &mut || false);
    }
}
