//! [`Socket`]: ROUTER, DEALER, PUB and SUB over connections.
//!
//! What a socket keeps is in the machines of `zwire_proto::zmtp::socket`, behind one lock. Outgoing messages
//! wait at their connections, incoming ones in one queue; at either bound the other side has to wait, and a
//! connection whose messages do not fit is not read.

mod event;
mod options;
mod owner;
mod sending;

pub use event::{Event, EventKind};
pub use options::{Authenticator, MISSED, SocketOptions};
pub use sending::Unsent;

use super::{CloseReason, Connection, Listener, Outbound, connection::next_id};
use crate::{
    error::Error,
    rt::{
        clock,
        queue::{Bounds, Overflow, Queue, RecvError, Weigh},
        runtime::{self, Birth},
        watch::Missed,
    },
};
use bytes::Bytes;
use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use owner::{Ear, Origin};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::Arc,
};
use thiserror::Error as ThisError;
use tokio::runtime::Handle;
use zwire_proto::zmtp::{
    link::Message,
    socket::{Dealer, PeerKey, Router, Subscriber, Subscriptions, TooManySubscriptions},
    wire::SocketType,
};

/// Events that are kept until somebody asks for them.
const MAX_EVENTS: usize = 1000;

/// What a socket was asked that it cannot do, or could not.
#[derive(Clone, Debug, ThisError)]
pub enum SocketError {
    /// Closed, in another process, a wrong endpoint, too late, interrupted.
    #[error(transparent)]
    Engine(#[from] Error),
    /// Nobody has room for the message, and it was not to wait.
    #[error("the high-water mark is reached")]
    Full,
    /// Nobody is connected who could get the message, and it was not to wait.
    #[error("nobody is connected")]
    Nobody,
    /// Nobody has this identity.
    #[error("no peer has the identity {:?}", .identity.escape_ascii().to_string())]
    Unreachable {
        /// The first frame.
        identity: Bytes,
    },
    /// The first frame of what a ROUTER sends is the identity, and something has to be behind it.
    #[error("a ROUTER sends an identity and at least one frame")]
    NoIdentity,
    /// An endpoint has no connection.
    #[error("not connected to {endpoint}: {reason}")]
    NotConnected {
        /// The endpoint.
        endpoint: String,
        /// Why the last attempt failed.
        reason: CloseReason,
    },
    /// Neither bound nor connected to.
    #[error("{0:?} is neither bound nor connected to")]
    NoSuchEndpoint(String),
    /// Another type of socket does that.
    #[error("a {socket_type} does not {what}")]
    Unsupported {
        /// Which it is.
        socket_type: SocketType,
        /// The verb.
        what: &'static str,
    },
    /// More subscriptions than a publisher remembers.
    #[error(transparent)]
    Subscriptions(#[from] TooManySubscriptions),
}

/// A message that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Of the sender, at a ROUTER; else empty.
    pub identity: Bytes,
    /// It, without the identity.
    pub message: Message,
}

impl Weigh for Received {
    fn weight(&self) -> usize {
        self.message.cost()
    }
}

/// A socket of ZeroMQ.
pub struct Socket {
    shared: Arc<Shared>,
}

struct Shared {
    birth: Birth,
    runtime: Handle,
    options: SocketOptions,
    state: Mutex<State>,
    inbox: Arc<Queue<Received>>,
    events: Arc<Queue<Event>>,
    room: Room,
    /// Something was sent that may wait to be written together with more.
    dirty: AtomicBool,
    /// Takes no more messages.
    closed: AtomicBool,
    /// Has no more connections.
    ended: AtomicBool,
    counters: Counters,
}

struct State {
    machine: Machine,
    pipes: HashMap<PeerKey, Pipe>,
    listeners: Vec<Bound>,
}

struct Bound {
    endpoint: String,
    listener: Listener,
}

enum Machine {
    Dealer(Dealer),
    Router(Router),
    Pub(Subscriptions),
    Sub(Subscriber),
}

/// A connection, an endpoint that is to have one, or both.
#[derive(Clone, Default)]
struct Pipe {
    outbound: Option<Arc<Outbound>>,
    connection: Option<Arc<Connection>>,
    /// Why there is no connection.
    failure: Option<CloseReason>,
}

/// Counts what may let a waiting sender go on.
#[derive(Default)]
struct Room {
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Room {
    fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    fn change(&self) {
        *self.changes.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until there was a change since `seen`, at most `limit`.
    fn wait(&self, seen: u64, limit: Duration) {
        let mut changes = self.changes.lock();
        if *changes == seen {
            self.changed.wait_for(&mut changes, limit);
        }
    }
}

#[derive(Default)]
struct Counters {
    dropped_full: AtomicU64,
    dropped_unroutable: AtomicU64,
    ignored: AtomicU64,
    connections: AtomicU64,
    failures: AtomicU64,
    gone: Mutex<super::ConnectionStats>,
}

impl Socket {
    /// A socket without connections.
    ///
    /// # Errors
    /// The runtime does not start.
    pub fn open(options: SocketOptions) -> Result<Self, SocketError> {
        let socket_type = options.connection.handshake.socket_type;
        let machine = match socket_type {
            SocketType::Dealer => Machine::Dealer(Dealer::default()),
            SocketType::Router => {
                // Without randomness identities are made up from 0 on.
                Machine::Router(Router::new(options.handover, getrandom::u32().unwrap_or(0)))
            }
            SocketType::Pub => Machine::Pub(Subscriptions::default()),
            SocketType::Sub => Machine::Sub(Subscriber::default()),
            _ => return Err(SocketError::Unsupported { socket_type, what: "exist here" }),
        };
        let inbox = Queue::new(Bounds {
            messages: options.max_received,
            bytes: options.max_received_bytes,
            overflow: Overflow::Hold,
        });
        let events =
            Queue::new(Bounds { messages: MAX_EVENTS, bytes: usize::MAX, overflow: Overflow::DropOldest });
        Ok(Self {
            shared: Arc::new(Shared {
                birth: Birth::here(),
                runtime: runtime::handle()?,
                options,
                state: Mutex::new(State { machine, pipes: HashMap::new(), listeners: Vec::new() }),
                inbox,
                events,
                room: Room::default(),
                dirty: AtomicBool::new(false),
                closed: AtomicBool::new(false),
                ended: AtomicBool::new(false),
                counters: Counters::default(),
            }),
        })
    }

    /// What it was made with.
    #[must_use]
    pub fn options(&self) -> &SocketOptions {
        &self.shared.options
    }

    /// Listens on `tcp://host:port`; `*` or 0 is a free port. Answers the endpoint with the port.
    ///
    /// # Errors
    /// It is none, or cannot be bound.
    pub fn bind(&self, endpoint: &str) -> Result<String, SocketError> {
        let shared = &self.shared;
        shared.check()?;
        let ear = Ear::new(shared, Origin::Listener { endpoint: endpoint.to_owned() });
        let listener =
            Listener::bind(&shared.runtime, endpoint, shared.options.connection.clone(), Arc::new(ear))?;
        let bound = format!("tcp://{}", listener.local_addr());
        shared.state.lock().listeners.push(Bound { endpoint: bound.clone(), listener });
        Ok(bound)
    }

    /// Connects to `tcp://host:port`, now and whenever the connection is lost. With `wait`, waits for the
    /// first connection.
    ///
    /// # Errors
    /// It is no endpoint; with `wait`, why there is no connection. The endpoint stays nevertheless.
    pub fn connect(
        &self,
        endpoint: &str,
        wait: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), SocketError> {
        let shared = &self.shared;
        shared.check()?;
        let key = next_id();
        {
            // Held until the pipe is there, so that its connection finds it.
            let mut state = shared.state.lock();
            let ear = Ear::new(shared, Origin::Outbound { endpoint: endpoint.to_owned(), key });
            let outbound = Outbound::connect(
                &shared.runtime,
                endpoint,
                shared.options.connection.clone(),
                shared.options.reconnect,
                Arc::new(ear),
            )?;
            state.pipes.insert(key, Pipe { outbound: Some(outbound), ..Pipe::default() });
            if let (Machine::Dealer(dealer), false) = (&mut state.machine, shared.options.immediate) {
                dealer.open(key);
            }
        }
        shared.room.change();
        wait.map_or(Ok(()), |limit| shared.wait_connected(endpoint, key, limit, interrupted))
    }

    /// Takes back a [`Self::bind`] or a [`Self::connect`]; its connections are closed at once.
    ///
    /// # Errors
    /// There was none.
    pub fn release(&self, endpoint: &str) -> Result<(), SocketError> {
        let shared = &self.shared;
        shared.check()?;
        let (bound, outbound) = {
            let mut state = shared.state.lock();
            let bound = state.listeners.iter().position(|bound| bound.endpoint == endpoint);
            let bound = bound.map(|at| state.listeners.remove(at));
            let outbound = state.pipes.iter().find_map(|(key, pipe)| {
                let outbound = pipe.outbound.as_ref().filter(|outbound| outbound.endpoint() == endpoint);
                outbound.map(|outbound| (*key, outbound.clone()))
            });
            if let (None, Some((key, _))) = (&bound, &outbound) {
                state.forget(*key);
            }
            (bound, outbound)
        };
        match (bound, outbound) {
            (Some(bound), _) => bound.listener.close(),
            (None, Some((_, outbound))) => outbound.close(),
            (None, None) => return Err(SocketError::NoSuchEndpoint(endpoint.to_owned())),
        }
        Ok(())
    }

    /// The next message, waited for.
    ///
    /// # Errors
    /// Why none came.
    pub fn recv(
        &self,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Received, RecvError> {
        if let Some(received) = self.shared.inbox.try_recv()? {
            return Ok(received);
        }
        self.flush();
        self.shared.inbox.recv(timeout, interrupted)
    }

    /// What has come, for those who take many at once. [`Self::flush`] before waiting there.
    #[must_use]
    pub fn inbox(&self) -> &Arc<Queue<Received>> {
        &self.shared.inbox
    }

    /// What has happened to connections. The oldest is dropped when nobody asks.
    #[must_use]
    pub fn events(&self) -> &Arc<Queue<Event>> {
        &self.shared.events
    }

    /// Whether it can be used.
    ///
    /// # Errors
    /// It is closed, or this is another process.
    pub fn check(&self) -> Result<(), SocketError> {
        self.shared.check()
    }

    /// Whether this is the process that it was made in.
    ///
    /// # Errors
    /// It is not.
    pub fn look(&self) -> Result<(), SocketError> {
        Ok(self.shared.birth.check()?)
    }

    /// Writes now what is collected to be written together.
    pub fn flush(&self) {
        if self.shared.dirty.swap(false, Ordering::AcqRel) {
            for connection in self.shared.connections() {
                connection.flush();
            }
        }
    }

    /// Asks for messages whose first frame begins so.
    ///
    /// # Errors
    /// This is no SUB, or it wants too much.
    pub fn subscribe(&self, prefix: &Bytes) -> Result<(), SocketError> {
        self.shared.check()?;
        let mut state = self.shared.state.lock();
        let State { machine, pipes, .. } = &mut *state;
        let Machine::Sub(subscriber) = machine else { return Err(self.unsupported("subscribe")) };
        if subscriber.subscribe(prefix)? {
            // Under the lock, so that they reach each connection in this order.
            let connections = pipes.values().filter_map(|pipe| pipe.connection.as_ref());
            connections.for_each(|connection| connection.subscribe(prefix.clone()));
        }
        Ok(())
    }

    /// Takes one subscription back. Whether there was one.
    ///
    /// # Errors
    /// This is no SUB.
    pub fn cancel(&self, prefix: &Bytes) -> Result<bool, SocketError> {
        self.shared.check()?;
        let mut state = self.shared.state.lock();
        let State { machine, pipes, .. } = &mut *state;
        let Machine::Sub(subscriber) = machine else { return Err(self.unsupported("unsubscribe")) };
        let told = subscriber.cancel(prefix);
        if told == Some(true) {
            let connections = pipes.values().filter_map(|pipe| pipe.connection.as_ref());
            connections.for_each(|connection| connection.cancel(prefix.clone()));
        }
        Ok(told.is_some())
    }

    fn unsupported(&self, what: &'static str) -> SocketError {
        SocketError::Unsupported { socket_type: self.shared.socket_type(), what }
    }

    /// Identities of the peers of a ROUTER.
    #[must_use]
    pub fn identities(&self) -> Vec<Bytes> {
        match &self.shared.state.lock().machine {
            Machine::Router(router) => router.identities().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// How many connections are up.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.shared.connections().len()
    }

    /// Where it listens.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.shared.state.lock().listeners.iter().map(|bound| bound.endpoint.clone()).collect()
    }

    /// Counters by name.
    #[must_use]
    pub fn stats(&self) -> BTreeMap<&'static str, u64> {
        let shared = &self.shared;
        let connections = shared.connections();
        let mut sum = *shared.counters.gone.lock();
        connections.iter().for_each(|connection| owner::add(&mut sum, &connection.stats()));
        let queued: usize = shared.state.lock().pipes.values().map(Pipe::queued).sum();
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &shared.counters;
        BTreeMap::from([
            ("connected", connections.len() as u64),
            ("connections", get(&counters.connections)),
            ("failures", get(&counters.failures)),
            ("sent.messages", sum.tx_messages),
            ("sent.bytes", sum.tx_bytes),
            ("sent.writes", sum.tx_writes),
            ("sent.waiting", queued as u64),
            ("sent.dropped_full", get(&counters.dropped_full)),
            ("sent.dropped_unroutable", get(&counters.dropped_unroutable)),
            ("received.messages", sum.rx_messages),
            ("received.bytes", sum.rx_bytes),
            ("received.reads", sum.rx_reads),
            ("received.waiting", shared.inbox.len() as u64),
            ("received.ignored", get(&counters.ignored)),
            ("events.dropped", shared.events.dropped()),
        ])
    }

    /// Takes nothing more, waits at most `linger` (`None`: for as long as it takes) until what waits is
    /// written, and closes everything. What has come can still be taken.
    ///
    /// # Errors
    /// Interrupted; then all is closed as well.
    pub fn close(
        &self,
        linger: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), SocketError> {
        let shared = &self.shared;
        if !shared.birth.is_here() || shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        shared.room.change();
        let mut result = Ok(());
        shared.connections().iter().for_each(|connection| connection.flush());
        let progress = &shared.options.connection.progress;
        if progress.wait(linger, interrupted, || shared.is_flushed().then_some(()))
            == Err(Missed::Interrupted)
        {
            result = Err(Error::Interrupted.into());
        }
        shared.shut_down();
        result
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Nobody can wait any more.
        if self.shared.birth.is_here() && !self.shared.closed.swap(true, Ordering::AcqRel) {
            self.shared.shut_down();
        }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("socket_type", &self.shared.socket_type()).finish_non_exhaustive()
    }
}

impl Shared {
    fn socket_type(&self) -> SocketType {
        self.options.connection.handshake.socket_type
    }

    fn check(&self) -> Result<(), SocketError> {
        self.birth.check()?;
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed.into()) } else { Ok(()) }
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        let state = self.state.lock();
        state.pipes.values().filter_map(|pipe| pipe.connection.clone()).collect()
    }

    fn is_flushed(&self) -> bool {
        self.state.lock().pipes.values().all(|pipe| match (&pipe.outbound, &pipe.connection) {
            (Some(outbound), _) => outbound.is_flushed(),
            (None, Some(connection)) => connection.is_closed() || connection.is_flushed(),
            (None, None) => true,
        })
    }

    fn shut_down(&self) {
        self.ended.store(true, Ordering::Release);
        let (listeners, pipes) = {
            let mut state = self.state.lock();
            (core::mem::take(&mut state.listeners), core::mem::take(&mut state.pipes))
        };
        listeners.iter().for_each(|bound| bound.listener.close());
        for pipe in pipes.into_values() {
            if let Some(outbound) = pipe.outbound {
                outbound.close();
            }
            if let Some(connection) = pipe.connection {
                connection.close();
            }
        }
        self.inbox.close();
        self.events.close();
        self.room.change();
    }

    /// Waits for the connection of an endpoint. A server that is not there yet may come; one that does not
    /// let us in is told at once.
    fn wait_connected(
        &self,
        endpoint: &str,
        key: PeerKey,
        limit: Duration,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), SocketError> {
        let end = clock::mono().saturating_add(limit);
        loop {
            let seen = self.room.changes();
            self.check()?;
            let pipe = self.state.lock().pipes.get(&key).cloned().unwrap_or_default();
            if pipe.connection.is_some() {
                return Ok(());
            }
            let over = pipe.outbound.as_ref().is_none_or(|outbound| outbound.is_over());
            let late = clock::mono() >= end;
            match pipe.failure {
                Some(reason) if over || late || reason.is_refusal() => {
                    return Err(SocketError::NotConnected { endpoint: endpoint.to_owned(), reason });
                }
                None if late => return Err(Error::TimedOut { what: "connecting", after: limit }.into()),
                _ => {}
            }
            let left = end.saturating_sub(clock::mono());
            self.room.wait(seen, left.min(crate::rt::queue::INTERRUPT_PERIOD));
            if interrupted() {
                return Err(Error::Interrupted.into());
            }
        }
    }

    fn tell(&self, kind: EventKind, endpoint: &str, remote: Option<SocketAddr>, identity: Bytes) {
        let reason = match &kind {
            EventKind::Disconnected(reason) | EventKind::Failed(reason) => Some(reason),
            _ => None,
        };
        tracing::debug!(endpoint, ?remote, event = kind.name(), reason = reason.map(tracing::field::display));
        self.events.push(Event { kind, endpoint: endpoint.to_owned(), remote, identity });
        self.events.signal();
    }
}

impl State {
    /// A connection or an endpoint is gone for good.
    fn forget(&mut self, key: PeerKey) {
        self.pipes.remove(&key);
        match &mut self.machine {
            Machine::Dealer(dealer) => dealer.close(key),
            Machine::Pub(subscriptions) => subscriptions.disconnect(key),
            Machine::Router(router) => {
                router.close(key);
            }
            Machine::Sub(_) => {}
        }
    }
}

impl Pipe {
    fn queued(&self) -> usize {
        match (&self.outbound, &self.connection) {
            (Some(outbound), _) => outbound.queued(),
            (None, Some(connection)) => connection.queued(),
            (None, None) => 0,
        }
    }
}
