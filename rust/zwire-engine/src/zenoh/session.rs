//! [`Session`]: the handle that language bindings hold; every method may be called from any thread.

use crate::{
    config::{self, Budget, Config, Destination, NodeConfig, Secret, SharedMessage, Target},
    error::Error,
    lending::PayloadBuffer,
    log::keep_recent,
    net::{
        io::{Io, LinkListener, group_of},
        tap::Tap,
    },
    rt::{
        clock,
        queue::{Bounds, Overflow, Queue, Weigh},
        runtime, timer,
    },
    zenoh::{
        admin,
        authority::{Authorise, AuthorityOptions},
        caller::{Caller, Patience},
        changes,
        connect::{client, dial::error_of, keep},
        connectivity::{LinkEvent, LinkInfo, TransportEvent},
        core::{LOCAL, SessionCore, Side},
        effects::{Effects, Replies},
        link::Link,
        listen,
        live::PluginSection,
        multicast,
        origins::Origins,
        query::Query,
        scouting::{self, Station},
        shared::{SessionShared, StatusSource},
        stats::Report,
        totals::ConsumerKind,
        waits::{Awaited, StateWait},
    },
};
use bytes::Bytes;
use core::{sync::atomic::Ordering, time::Duration};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};
use tokio::runtime::Handle;
use zwire_proto::{
    Now,
    zenoh::{
        CongestionControl, KeyExpr, Priority, Qos, Reliability, Remote, Timestamp, WhatAmI, ZenohId,
        intercept::{Answer, Inquiry, LinkFacts, Policy},
        node::FaceKind,
        session::{
            Barrier, EntityId, Get, GetId, Locality, Publication, Published, PublisherOptions,
            QuerierOptions, QueryableOptions, Sample, SessionError, Stamper, Stamps, SubscriberOptions,
        },
        wire::{NetworkMessage, Push, PushBody, Put, WireExpr},
    },
};

/// Time for which [`Session::close`] waits for queued messages. Data that a peer does not take in that time is
/// discarded.
pub const LINGER: Duration = Duration::from_secs(2);

/// Most replies of one get that wait for their consumer.
const REPLY_MESSAGES: usize = 65_536;

/// Queue of a subscriber, queryable or listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// The configured default.
    Default,
    /// A queue of that many items; when it is full the receive loop waits, up to the configured deadline.
    Fifo(usize),
    /// A queue of the newest items, at most this many; older ones are dropped silently.
    Ring(usize),
    /// A queue of at most this many items, with a policy for items that do not fit.
    Channel(usize, Full),
}

/// Policy for an item that does not fit into a [`Handler::Channel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The sender waits, up to this deadline or the configured one; then the newest items are dropped.
    Block(Option<Duration>),
    /// The item is dropped.
    DropNewest,
    /// The oldest is dropped.
    DropOldest,
    /// The item replaces a waiting one with its key; if there is none, the oldest is dropped.
    Latest,
}

/// An open session. Clones are the same session; it closes when the last one is dropped.
///
/// Methods fail with [`Error::Closed`] on a closed session and with [`Error::Forked`] in a forked child; [`Error`]
/// describes the other failures.
#[derive(Clone)]
pub struct Session {
    /// Closes the session when the last handle is dropped; tasks never hold it. First field, so that it
    /// is dropped while the others still exist.
    #[allow(dead_code, reason = "held for its drop")]
    owner: Arc<SessionOwner>,
    shared: Arc<SessionShared>,
}

struct SessionOwner(std::sync::Weak<SessionShared>);

impl Drop for SessionOwner {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.shut_down(LINGER, &mut || false);
        }
    }
}

impl Session {
    /// Opens a session: connects a client, binds the listeners of a router or peer.
    ///
    /// # Errors
    /// A failure of the configuration, the network or the peer. `interrupted` is called regularly.
    pub fn open(config: &Config, interrupted: &mut dyn FnMut() -> bool) -> Result<Self, Error> {
        Self::open_with(config, None, interrupted)
    }

    /// As [`Self::open`], with the function of [`Self::set_authority`], which decides from the first link on.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(
        config: &Config,
        authority: Option<(Authorise, AuthorityOptions)>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Self, Error> {
        let tree = config.clone();
        let config = tree.resolve()?;
        tree.warn_of_rules()?;
        for key in tree.ignored().filter(|key| *key != "plugins") {
            tracing::warn!(key, "this key of the configuration has no effect");
        }
        for key in tree.plugins_without_effect() {
            tracing::warn!(
                key,
                "this section of the configuration has no effect: nothing here does the work of the plugin"
            );
        }
        check_endpoints(&config)?;
        runtime::set_workers(config.zwire.threads);
        let runtime = runtime::handle()?;
        let zid = match config.zid {
            Some(zid) => zid,
            None => random_zid()?,
        };
        let tap = config.zwire.tap.as_ref().map(|path| {
            let failed = |e| Error::Tap { path: path.display().to_string(), source: Arc::new(e) };
            Tap::create(path).map(Arc::new).map_err(failed)
        });
        let tap = tap.transpose()?;
        let shared = SessionShared::new((config, tree), runtime, zid, tap, scouting::gossiped);
        if authority.is_some() {
            shared.set_authority(authority)?;
        }
        let session = Self { owner: Arc::new(SessionOwner(Arc::downgrade(&shared))), shared };
        session.start(interrupted)?;
        tracing::info!(zid = %session.shared.zid, mode = %session.shared.config.mode, "session opened");
        Ok(session)
    }

    fn start(&self, interrupted: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        let shared = &self.shared;
        let weak = Arc::downgrade(shared);
        shared.spawn(timer::run(weak.clone()));
        if shared.config.mode == WhatAmI::Client {
            admin::start(shared)?;
            self.discover(interrupted)?;
            let connecting = shared.clone();
            let connecting = async move { client::connect_client(&connecting).await };
            let link = match wait_for(&shared.runtime, interrupted, connecting)? {
                Ok(link) => Some(link),
                Err(error) if shared.config.connect.rules.exit_on_failure => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "not connected: continuing, and trying again");
                    None
                }
            };
            shared.spawn(client::supervise_client(weak, link));
            return Ok(());
        }
        shared.with_core(&mut Effects::default(), |core, now, _| {
            if let Side::Node(side) = &mut core.side {
                let own = Remote { zid: shared.zid, whatami: WhatAmI::Client };
                side.node.handle_face_up(now, LOCAL, own, FaceKind::Local);
                let node = Remote { zid: shared.zid, whatami: shared.config.mode };
                core.api.handle_link_up(now, node);
            }
        });
        admin::start(shared)?;
        multicast::start(shared)?;
        for target in shared.config.listen.targets.iter().filter(|target| group_of(target).is_none()) {
            let rules = target.rules;
            // An optional listener is tried once here, and retried in the background.
            let now = if rules.exit_on_failure { rules.budget } else { Budget::Once };
            let listening = {
                let (weak, target) = (weak.clone(), target.clone());
                async move { listen::listen(&weak, &target, now).await }
            };
            if let Err(reason) = wait_for(&shared.runtime, interrupted, listening)? {
                let error = Error::Bind { endpoint: target.endpoint.to_string(), reason };
                if rules.exit_on_failure {
                    return Err(error);
                }
                tracing::warn!(%error, "not listening: continuing without this endpoint");
                if rules.budget != Budget::Once {
                    let (weak, target) = (weak.clone(), target.clone());
                    shared.spawn(async move {
                        tokio::time::sleep(rules.retry.delay(0)).await;
                        if let Err(reason) = listen::listen(&weak, &target, rules.budget).await {
                            tracing::warn!(endpoint = %target.endpoint, %reason, "listening failed for good: no further attempt is made");
                        }
                    });
                }
            }
        }
        scouting::update_locators(shared);
        let scouts = self.discover(interrupted)? && shared.config.open.connect_scouted;
        let mut needed = Vec::new();
        for targets in keep::independent(&shared.config.connect) {
            let is_needed = targets.first().is_some_and(|target| target.rules.exit_on_failure);
            let first = changes::keep_connected(shared, targets, Some(shared.gate.ticket()));
            if is_needed {
                needed.push(first);
            }
        }
        let expects = scouts || keep::independent(&shared.config.connect).next().is_some();
        let delay = shared.config.scouting.delay;
        let gate = shared.clone();
        let opened = wait_for(&shared.runtime, interrupted, async move {
            for first in needed {
                // The sender is dropped if the session closes meanwhile.
                if let Ok(Err(failures)) = first.await {
                    return Err(error_of(failures));
                }
            }
            if expects {
                // Nodes that need longer than the delay are not waited for.
                let _ = tokio::time::timeout(delay, gate.gate.passed()).await;
            }
            Ok(())
        })?;
        shared.gate.close();
        opened
    }

    /// Starts scouting and answering scouts. Returns whether scouting may find nodes to connect to.
    fn discover(&self, interrupted: &mut dyn FnMut() -> bool) -> Result<bool, Error> {
        let shared = self.shared.clone();
        let weak = Arc::downgrade(&shared);
        let client = shared.config.mode == WhatAmI::Client;
        // Sockets have to be opened within the runtime.
        wait_for(&shared.runtime.clone(), interrupted, async move {
            let station = scouting::scouting_config(&shared)
                .map(|config| (config.what, Station::new(&shared.config.scouting.multicast, config)));
            let scouts = station.as_ref().is_some_and(|(what, station)| *what != 0 && station.works());
            if station.is_some() || !client {
                shared.spawn(scouting::run(weak, station.map(|(_, station)| station)));
            }
            scouts
        })
    }

    pub(crate) fn command<R>(
        &self,
        patience: &mut Patience<'_>,
        f: impl FnOnce(&mut SessionCore, Now, &mut Effects) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.shared.check()?;
        let mut effects = Effects::default();
        let result = self.shared.with_core(&mut effects, f)?;
        self.shared.wait(&mut effects, patience)?;
        Ok(result)
    }

    pub(crate) fn declare<R>(
        &self,
        f: impl FnOnce(&mut SessionCore, Now) -> Result<R, Error>,
    ) -> Result<R, Error> {
        // Declarations are few and use priority Control: they never wait for room.
        self.command(&mut Patience::Block(&mut || false), |core, now, effects| {
            effects.told = true;
            f(core, now)
        })
    }

    pub(crate) const fn shared(&self) -> &Arc<SessionShared> {
        &self.shared
    }

    /// Replaces the QoS of a publication on `key` by that of `qos/publication`: of the first entry that includes
    /// the key.
    #[inline]
    pub(crate) fn overwrite(&self, key: &KeyExpr, qos: &mut Qos, how: (&mut Reliability, &mut Locality)) {
        let mut rules = self.shared.config.publication_qos.iter();
        let Some(rule) = rules.find(|rule| rule.key_exprs.iter().any(|known| known.includes(key))) else {
            return;
        };
        *qos = Qos::new(
            rule.priority.unwrap_or(qos.priority()),
            rule.congestion_control.unwrap_or(qos.congestion()),
            rule.express.unwrap_or(qos.express()),
        );
        if let Some(reliability) = rule.reliability {
            *how.0 = reliability;
        }
        if let Some(destination) = rule.allowed_destination {
            *how.1 = match destination {
                Destination::Any => Locality::Any,
                Destination::SessionLocal => Locality::SessionLocal,
                Destination::Remote => Locality::Remote,
            };
        }
    }

    pub(crate) fn bounds(&self, handler: Handler) -> Bounds {
        bounds(&self.shared.config.zwire.handler, handler)
    }

    /// Makes the queue of a subscriber or queryable.
    pub(crate) fn queue<T: Weigh>(&self, what: &str, key: &KeyExpr, handler: Handler) -> Arc<Queue<T>> {
        let bounds = self.bounds(handler);
        match handler {
            Handler::Ring(_) => Queue::new(bounds),
            _ => Queue::named(bounds, format!("the {what} of {key}").into()),
        }
    }

    /// Declares a subscriber; its samples arrive in the queue returned.
    pub fn declare_subscriber(
        &self,
        key: KeyExpr,
        options: SubscriberOptions,
        handler: Handler,
    ) -> Result<(EntityId, Arc<Queue<Sample>>), Error> {
        let queue = self.queue("subscriber", &key, handler);
        self.declare(|core, now| {
            let id = core.api.declare_subscriber(now, key.clone(), options)?;
            core.consumers.insert(id, (ConsumerKind::Subscriber, key));
            core.samples.insert(id, queue.clone());
            Ok((id, queue))
        })
    }

    /// As [`Self::declare_subscriber`], with the queue of another subscriber: samples of both arrive in one order. The
    /// queue is closed with the first of them.
    pub fn declare_subscriber_into(
        &self,
        key: KeyExpr,
        options: SubscriberOptions,
        queue: &Arc<Queue<Sample>>,
    ) -> Result<EntityId, Error> {
        self.declare(|core, now| {
            let id = core.api.declare_subscriber(now, key.clone(), options)?;
            core.consumers.insert(id, (ConsumerKind::Subscriber, key));
            core.samples.insert(id, queue.clone());
            Ok(id)
        })
    }

    /// Declares a liveliness subscriber; the queue returned receives tokens that appear and disappear.
    pub fn declare_liveliness_subscriber(
        &self,
        key: KeyExpr,
        history: bool,
        handler: Handler,
    ) -> Result<(EntityId, Arc<Queue<Sample>>), Error> {
        let queue = self.queue("liveliness subscriber", &key, handler);
        self.declare(|core, now| {
            let id = core.api.declare_liveliness_subscriber(now, key.clone(), history)?;
            core.consumers.insert(id, (ConsumerKind::Liveliness, key));
            core.samples.insert(id, queue.clone());
            Ok((id, queue))
        })
    }

    /// Declares a queryable; its queries arrive in the queue returned.
    pub fn declare_queryable(
        &self,
        key: KeyExpr,
        options: QueryableOptions,
        handler: Handler,
    ) -> Result<(EntityId, Arc<Queue<Query>>), Error> {
        let queue = self.queue("queryable", &key, handler);
        self.declare(|core, now| {
            let id = core.api.declare_queryable(now, key.clone(), options)?;
            core.consumers.insert(id, (ConsumerKind::Queryable, key));
            core.queries.insert(id, queue.clone());
            Ok((id, queue))
        })
    }

    /// Declares a publisher.
    pub fn declare_publisher(&self, key: KeyExpr, mut options: PublisherOptions) -> Result<EntityId, Error> {
        let how = (&mut options.reliability, &mut options.destination);
        self.overwrite(&key, &mut options.qos, how);
        self.declare(|core, now| Ok(core.api.declare_publisher(now, key, options)?))
    }

    /// Declares a querier.
    pub fn declare_querier(&self, key: KeyExpr, options: QuerierOptions) -> Result<EntityId, Error> {
        self.declare(|core, now| Ok(core.api.declare_querier(now, key, options)?))
    }

    /// Declares a liveliness token.
    pub fn declare_token(&self, key: KeyExpr) -> Result<EntityId, Error> {
        self.declare(|core, now| Ok(core.api.declare_token(now, key)?))
    }

    /// Declares a key expression: the link then carries a number in its place.
    pub fn declare_keyexpr(&self, key: KeyExpr) -> Result<EntityId, Error> {
        self.declare(|core, now| Ok(core.api.declare_keyexpr(now, key)?))
    }

    /// Undeclares any entity and closes its queue.
    pub fn undeclare(&self, id: EntityId) -> Result<(), Error> {
        self.command(&mut Patience::Block(&mut || false), |core, now, effects| {
            effects.told = true;
            core.api.undeclare(now, id)?;
            core.pump(now, effects);
            core.forget(id, effects);
            core.undeclare_advanced(now, id, effects);
            Ok(())
        })
    }

    /// Publishes or deletes. Waits if congestion control demands it.
    #[inline]
    pub fn put(
        &self,
        mut publication: Publication,
        caller: &mut (impl Caller + ?Sized),
    ) -> Result<Published, Error> {
        let how = (&mut publication.reliability, &mut publication.destination);
        self.overwrite(&publication.key, &mut publication.qos, how);
        self.shared.lending.place_body(SharedMessage::Put, &mut publication.body);
        let (qos, bytes) = (publication.qos, weight(&publication.body));
        self.send(qos, bytes, caller, |core, now, effects| {
            let (api, mut sink) = core.outwards(now, effects);
            api.put_to(now, publication, &mut sink)
        })
    }

    /// Publishes or deletes with the key and options of a publisher.
    #[inline]
    pub fn publish(
        &self,
        publisher: EntityId,
        qos: Qos,
        mut body: PushBody,
        stamps: Option<Box<Stamps>>,
        caller: &mut (impl Caller + ?Sized),
    ) -> Result<Published, Error> {
        self.shared.lending.place_body(SharedMessage::Put, &mut body);
        self.send(qos, weight(&body), caller, |core, now, effects| {
            let (api, mut sink) = core.outwards(now, effects);
            api.publish_to(now, publisher, body, stamps, &mut sink)
        })
    }

    /// Publishes in the calling thread. Has the caller step aside for a system call or a wait: before, if
    /// another thread holds the machines or the message is entitled to a grace period, else after it.
    #[inline]
    fn send<R: Send>(
        &self,
        qos: Qos,
        bytes: usize,
        caller: &mut (impl Caller + ?Sized),
        publish: impl FnOnce(&mut SessionCore, Now, &mut Effects) -> Result<R, SessionError> + Send,
    ) -> Result<R, Error> {
        let shared = &self.shared;
        shared.check()?;
        let grace = match qos.congestion() {
            CongestionControl::Drop => shared.is_congested(),
            CongestionControl::Block => shared.lending.is_tight(bytes),
            CongestionControl::BlockFirst => false,
        };
        let core = if grace { None } else { shared.core.try_lock() };
        let Some(core) = core else {
            return caller.aside(|patience| {
                shared.grace(qos, bytes, patience)?;
                self.command(patience, |core, now, effects| Ok(publish(core, now, effects)?))
            });
        };
        let now = clock::now();
        let mut effects = Effects::default();
        let published = shared.turn(core, now, &mut effects, publish);
        if published.is_ok() && !effects.is_idle() {
            caller.aside(|patience| {
                shared.settle_command(now, &mut effects);
                shared.wait(&mut effects, patience)
            })?;
        } else {
            shared.settle_command(now, &mut effects);
        }
        Ok(published?)
    }

    /// Publishes a batch, many messages under one lock, so that each costs little. `fill` makes the next
    /// message out of the previous one: it must set every field, while the key stays until `fill` changes
    /// it; `None` as key ends the batch. `each` receives the outcome of each message. Waits as
    /// [`Self::put`] does.
    ///
    /// # Errors
    /// The first refused message ends the batch.
    pub fn put_many(
        &self,
        mut fill: impl FnMut(&mut Option<KeyExpr>, &mut Qos, &mut PushBody) + Send,
        mut each: impl FnMut(Published) + Send,
        caller: &mut (impl Caller + ?Sized),
    ) -> Result<(), Error> {
        /// Enough messages that lock and clock cost little for each, few enough that other threads get
        /// the lock.
        const AT_ONCE: usize = 256;
        caller.aside(|patience| {
            let mut message = NetworkMessage::Push(Push::new(WireExpr::EMPTY, PushBody::Put(Put::default())));
            let mut key = None;
            let mut next = |key: &mut Option<KeyExpr>, message: &mut NetworkMessage| match message {
                NetworkMessage::Push(push) => {
                    fill(key, &mut push.qos, &mut push.body);
                    self.shared.lending.place_body(SharedMessage::Put, &mut push.body);
                }
                // Not reached: the message stays a `Push`.
                _ => *key = None,
            };
            next(&mut key, &mut message);
            while key.is_some() {
                if let NetworkMessage::Push(push) = &message {
                    self.shared.grace(push.qos, weight(&push.body), patience)?;
                }
                self.command(patience, |core, now, effects| {
                    let mut left = AT_ONCE;
                    effects.many = true;
                    while let Some(to) = &key {
                        let (mut reliability, mut destination) = (Reliability::Reliable, Locality::Any);
                        if let NetworkMessage::Push(push) = &mut message {
                            self.overwrite(to, &mut push.qos, (&mut reliability, &mut destination));
                        }
                        let (api, mut sink) = core.outwards(now, effects);
                        each(api.put_message_to(
                            now,
                            to,
                            &mut message,
                            reliability,
                            destination,
                            &mut sink,
                        )?);
                        next(&mut key, &mut message);
                        left -= 1;
                        let tight = matches!(&message, NetworkMessage::Push(push)
                            if self.shared.lending.is_tight(weight(&push.body)));
                        if left == 0 || effects.congested || !effects.waits.is_empty() || tight {
                            break;
                        }
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    }

    /// Sends a query to queryables.
    pub fn get(
        &self,
        mut get: Get,
        handler: Handler,
        caller: &mut (impl Caller + ?Sized),
    ) -> Result<(GetId, Replies), Error> {
        if let Some(body) = &mut get.body {
            self.shared.lending.place(SharedMessage::Query, &mut body.payload);
        }
        let replies = self.replies(handler);
        caller.aside(|patience| {
            self.command(patience, |core, now, effects| {
                effects.asks = true;
                let id = core.api.get(now, get)?;
                core.gets.insert(id, replies.clone());
                Ok((id, replies))
            })
        })
    }

    /// Queries liveliness tokens.
    pub fn liveliness_get(
        &self,
        key: KeyExpr,
        timeout: Option<Duration>,
        handler: Handler,
    ) -> Result<(GetId, Replies), Error> {
        let replies = self.replies(handler);
        self.declare(|core, now| {
            let id = core.api.liveliness_get(now, key, timeout)?;
            core.gets.insert(id, replies.clone());
            Ok((id, replies))
        })
    }

    fn replies(&self, handler: Handler) -> Replies {
        let bounds = match handler {
            Handler::Default => self.bounds(Handler::Fifo(REPLY_MESSAGES)),
            other => self.bounds(other),
        };
        let asker: std::sync::Weak<SessionShared> = Arc::downgrade(&self.shared);
        Replies { queue: Queue::of_answers(bounds, asker), done: Arc::new(OnceLock::new()) }
    }

    /// Cancels a get.
    pub fn cancel(&self, get: GetId) -> Result<(), Error> {
        self.declare(|core, now| {
            core.api.cancel(now, get);
            Ok(())
        })
    }

    /// Whether a publisher has matching subscribers, or a querier matching queryables.
    pub fn matching(&self, id: EntityId) -> Result<bool, Error> {
        self.shared.check()?;
        let matching = self.shared.core.lock().api.matching(id);
        matching.ok_or_else(|| self.shared.undeclared("publisher or querier"))
    }

    /// Waits until all neighbours have processed the declarations, or everything, sent to them.
    ///
    /// A client without a link waits for one; neighbours that connect during the wait are not waited for.
    /// A router waits for no neighbour: its clients and peers rely on its own tables.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::LinkLost`] if publications may be lost with the link.
    pub fn barrier(
        &self,
        what: Barrier,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        self.begin_barrier(what)?.wait("the answer of the neighbours", timeout, interrupted)
    }

    /// Starts the operation that [`Self::barrier`] waits for.
    pub fn begin_barrier(&self, what: Barrier) -> Result<StateWait, Error> {
        let id = self.command(&mut Patience::Block(&mut || false), |core, now, _| {
            let id = core.api.barrier(now, what)?;
            core.barriers.insert(id, None);
            Ok(id)
        })?;
        Ok(StateWait::new(self.shared.clone(), Awaited::Barrier(id)))
    }

    /// Waits until at least `n` subscribers are known for a publisher, or queryables for a querier.
    ///
    /// Declarations of this session and of each neighbour count one by one; a client has a single link,
    /// over which each key expression is announced once.
    ///
    /// # Errors
    /// [`Error::TimedOut`].
    pub fn wait_matching(
        &self,
        id: EntityId,
        n: usize,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        self.begin_matching(id, n)?.wait("the match", timeout, interrupted)
    }

    /// Starts the operation that [`Self::wait_matching`] waits for.
    pub fn begin_matching(&self, id: EntityId, n: usize) -> Result<StateWait, Error> {
        self.shared.check()?;
        Ok(StateWait::new(self.shared.clone(), Awaited::Matching { id, n }))
    }

    /// Registers a listener: changes of [`Self::matching`] arrive in the queue returned, the first at
    /// once if there is a counterpart already.
    pub fn matching_listener(&self, id: EntityId, handler: Handler) -> Result<Arc<Queue<bool>>, Error> {
        let queue = Queue::new(self.bounds(handler));
        self.declare(|core, _| {
            let matching =
                core.api.matching(id).ok_or_else(|| self.shared.undeclared("publisher or querier"))?;
            if matching {
                queue.push(true);
                queue.signal();
            }
            core.matching.entry(id).or_default().push(queue.clone());
            Ok(queue)
        })
    }

    /// Ends a listener made by [`Self::matching_listener`].
    pub fn forget_matching_listener(&self, id: EntityId, queue: &Arc<Queue<bool>>) {
        let Some(mut core) = self.shared.core_here() else { return };
        if let Some(all) = core.matching.get_mut(&id) {
            all.retain(|known| !Arc::ptr_eq(known, queue));
        }
        queue.close();
    }

    /// Registers a listener for nodes that connect and disconnect; with `history` it receives the
    /// connected ones first.
    pub fn listen_transports(
        &self,
        history: bool,
        handler: Handler,
    ) -> Result<(u64, Arc<Queue<TransportEvent>>), Error> {
        let queue = Queue::new(self.bounds(handler));
        self.declare(|core, _| Ok((core.connectivity.listen_transports(queue.clone(), history), queue)))
    }

    /// As [`Self::listen_transports`], for each link.
    pub fn listen_links(
        &self,
        history: bool,
        handler: Handler,
    ) -> Result<(u64, Arc<Queue<LinkEvent>>), Error> {
        let queue = Queue::new(self.bounds(handler));
        self.declare(|core, _| Ok((core.connectivity.listen_links(queue.clone(), history), queue)))
    }

    /// Ends a listener made by [`Self::listen_transports`] or [`Self::listen_links`].
    pub fn forget_listener(&self, id: u64) {
        if let Some(mut core) = self.shared.core_here() {
            core.connectivity.forget(id);
        }
    }

    /// A copy of `bytes` for the payload of such a message: in shared memory, if a neighbour on this host reads it there.
    #[must_use]
    pub fn copy(&self, kind: SharedMessage, bytes: &[u8]) -> Bytes {
        self.shared.lending.copy(kind, bytes)
    }

    /// Memory for a payload that is written before it is sent, and then not copied. Where the shared memory of the
    /// session has no room, it is memory of this process alone. `None` if the system has none.
    #[must_use]
    pub fn buffer(&self, len: usize) -> Option<PayloadBuffer> {
        self.shared.lending.buffer(len)
    }

    /// Makes a timestamp that is later than all before it.
    pub fn new_timestamp(&self) -> Result<Timestamp, Error> {
        self.birth().check()?;
        Ok(self.shared.core.lock().api.new_timestamp(clock::now()))
    }

    /// Sets the source of the time stamps in messages that ask for them, in place of the clock.
    pub fn set_stamper(&self, stamper: Stamper) {
        self.shared.core.lock().api.set_stamper(stamper);
    }

    /// The id of this node.
    #[must_use]
    pub fn zid(&self) -> ZenohId {
        self.shared.zid
    }

    /// The configuration as it is now: some keys may change while the session is open.
    #[must_use]
    pub fn tree(&self) -> Config {
        self.shared.live.tree()
    }

    /// Applies a configuration, as far as the session can change while it is open; no link is closed but those to
    /// endpoints that are gone from `connect/endpoints`. Returns the keys that need a restart, with reasons.
    ///
    /// # Errors
    /// The configuration is not valid; nothing has changed then.
    pub fn reconfigure(&self, config: &Config) -> Result<Vec<String>, Error> {
        self.shared.check()?;
        changes::reconfigure(&self.shared, config)
    }

    /// Sets the function that applies a changed section of `plugins`, given its value before and after. It runs on a
    /// thread that may wait, and refuses the change by an error. Without one, changes of a section are refused.
    pub fn on_section(&self, name: &str, section: PluginSection) {
        self.shared.live.set_section(name, section);
    }

    /// Adds a source of keys below `plugins` and `status/plugins` of the admin space, which is called for each query that
    /// may select one of them: paths such as `status/plugins/storage_manager/version`, with encodings and payloads.
    pub fn add_status(&self, source: StatusSource) {
        self.shared.statuses.lock().push(source);
    }

    /// Serves the last lines of the log of this process as `status/log` in the admin space, for clients that may read it.
    pub fn serve_log(&self) {
        keep_recent();
        self.shared.log_served.store(true, Ordering::Relaxed);
    }

    /// The policy of links in force, for clients that come by no link, and how often it was replaced.
    #[must_use]
    pub fn link_policy(&self) -> (u64, Arc<Policy>) {
        // A policy that is replaced in between is read again at the next call.
        let changes = self.link_policy_changes();
        (changes, self.shared.rules.in_force().policy.clone())
    }

    /// Sets the function that decides about messages which no rule of access control is about, in place of
    /// `default_permission`; `None` takes it away. No link is closed. A client has none.
    ///
    /// # Errors
    /// The session is closed, or the operating system refuses a thread.
    pub fn set_authority(&self, authority: Option<(Authorise, AuthorityOptions)>) -> Result<(), Error> {
        self.shared.check()?;
        self.shared.set_authority(authority)
    }

    /// Asks that function about a message of a client that comes by no link, and waits for its answer or the deadline.
    /// `None`: there is none. Not to be called with a lock.
    #[must_use]
    pub fn ask_authority(&self, inquiry: Inquiry, client: &LinkFacts<'_>) -> Option<Answer> {
        self.shared.ask_authority(inquiry, client)
    }

    /// Forgets the answers of that function, so that it is asked again.
    ///
    /// # Errors
    /// The session is closed.
    pub fn forget_answers(&self) -> Result<(), Error> {
        self.shared.check()?;
        self.shared.forget_answers();
        Ok(())
    }

    /// How often the policy of links was replaced.
    #[must_use]
    pub fn link_policy_changes(&self) -> u64 {
        self.shared.rules.changes()
    }

    /// Password of a user that may log in now, by `transport/auth/usrpwd`.
    #[must_use]
    pub fn password_of(&self, user: &str) -> Option<Secret> {
        let users = self.shared.users()?;
        users.get(user).map(|password| Secret::new(password.to_string()))
    }

    /// Whether the admin space may be read now, by `adminspace/permissions/read`.
    #[must_use]
    pub fn admin_is_readable(&self) -> bool {
        self.shared.live.admin().read
    }

    /// The configuration that the session was opened with.
    #[must_use]
    pub fn config(&self) -> &NodeConfig {
        &self.shared.config
    }

    /// Remote ends of links, by the numbers that samples carry.
    #[must_use]
    pub fn origins(&self) -> Arc<Origins> {
        self.shared.core.lock().origins.clone()
    }

    /// Addresses that this node listens on, as locators with the ports that the system chose.
    #[must_use]
    pub fn listening(&self) -> Vec<String> {
        self.shared.listening.lock().iter().map(|listening| listening.locator.clone()).collect()
    }

    /// The established links.
    #[must_use]
    pub fn links(&self) -> Vec<Arc<Link>> {
        if self.is_closed() {
            return Vec::new();
        }
        let mut links = self.shared.core.lock().links();
        // Members of a group are sessions; its link is not.
        links.retain(|link| !link.is_group());
        links
    }

    /// The established links, and the members of multicast groups.
    #[must_use]
    pub fn link_infos(&self) -> Vec<Arc<LinkInfo>> {
        if self.is_closed() { Vec::new() } else { self.shared.core.lock().connectivity.links().to_vec() }
    }

    /// Counters by name.
    #[must_use]
    pub fn stats(&self) -> BTreeMap<String, u64> {
        crate::zenoh::stats::collect(&self.shared.core.lock(), &self.shared)
    }

    /// The counters of [`Self::stats`] in the text format of `OpenMetrics`, as the admin space has them.
    #[must_use]
    pub fn open_metrics(&self) -> String {
        admin::open_metrics(&self.shared)
    }

    /// As [`Self::stats`], plus links, consumers and the rate of drops.
    #[must_use]
    pub fn report(&self) -> Report {
        crate::zenoh::stats::report(&mut self.shared.core.lock(), &self.shared)
    }

    /// Closes all links, waits up to [`LINGER`] for queued messages, and ends every queue. Idempotent.
    ///
    /// # Errors
    /// The session belongs to another process.
    pub fn close(&self) -> Result<(), Error> {
        self.close_within(LINGER, &mut || false)
    }

    /// As [`Self::close`], but waits at most for `linger`, or until `interrupted` returns true. The
    /// session is closed in any case.
    ///
    /// # Errors
    /// The session belongs to another process.
    pub fn close_within(&self, linger: Duration, interrupted: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        self.shared.birth.check()?;
        self.shared.shut_down(linger, interrupted);
        Ok(())
    }

    /// Whether [`Self::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Identity of the process that opened the session.
    ///
    /// Read-only methods ([`Self::links`], [`Self::stats`], [`Self::listening`]) take a lock that may
    /// have been held at the time of a fork, so bindings check this first.
    #[must_use]
    pub fn birth(&self) -> runtime::Birth {
        self.shared.birth
    }

    /// Fails in a forked child and on a closed session.
    ///
    /// # Errors
    /// [`Error::Forked`] or [`Error::Closed`].
    pub fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// Whether the lane of that priority is full on any link.
    #[must_use]
    pub fn is_congested(&self, priority: Priority) -> bool {
        self.links().iter().any(|link| link.is_congested(priority))
    }
}

/// Bytes of a payload.
pub(crate) fn weight(body: &PushBody) -> usize {
    match body {
        PushBody::Put(put) => put.payload.len(),
        PushBody::Del(_) => 0,
    }
}

/// Bounds of the queue behind a handler.
pub(crate) fn bounds(defaults: &config::HandlerDefaults, handler: Handler) -> Bounds {
    let wait = Overflow::Wait { deadline: defaults.block_deadline };
    let (messages, overflow) = match handler {
        Handler::Default => (defaults.capacity_messages, wait),
        Handler::Fifo(messages) => (messages, wait),
        Handler::Ring(messages) => (messages, Overflow::DropOldest),
        Handler::Channel(messages, full) => (
            messages,
            match full {
                Full::Block(None) => wait,
                Full::Block(Some(deadline)) => Overflow::Wait { deadline },
                Full::DropNewest => Overflow::DropNewest,
                Full::DropOldest => Overflow::DropOldest,
                Full::Latest => Overflow::Latest,
            },
        ),
    };
    Bounds { messages, bytes: defaults.capacity_bytes, overflow }
}

/// Runs a future on the runtime and waits for it, calling `interrupted` meanwhile.
fn wait_for<T: Send + 'static>(
    runtime: &Handle,
    interrupted: &mut dyn FnMut() -> bool,
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let task = runtime.spawn(async move {
        // The receiver is gone if the wait was interrupted.
        let _ = sender.send(future.await);
    });
    loop {
        match receiver.recv_timeout(crate::rt::queue::INTERRUPT_PERIOD) {
            Ok(value) => return Ok(value),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                if interrupted() {
                    task.abort();
                    return Err(Error::Interrupted);
                }
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Err(Error::Closed),
        }
    }
}

pub(crate) fn random_zid() -> Result<ZenohId, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::Runtime { source: Arc::new(std::io::Error::other(e.to_string())) })?;
    // Never zero: one bit is always set.
    bytes[0] |= 1;
    ZenohId::from_wire(&bytes).ok_or(Error::Closed)
}

/// Checks certificates and keys of the endpoints: unusable ones are an error of `open`, not of each
/// attempt.
fn check_endpoints(config: &NodeConfig) -> Result<(), Error> {
    let name = |target: &Target| target.endpoint.to_string();
    for target in config.connect.targets() {
        Io::check(target, &config.link)
            .map_err(|reason| Error::Connect { endpoint: name(target), reason })?;
    }
    for target in &config.listen.targets {
        LinkListener::check(target, &config.link)
            .map_err(|reason| Error::Bind { endpoint: name(target), reason })?;
    }
    multicast::check(config)?;
    Ok(())
}
