//! [`Socket`]: ROUTER, DEALER, PUB and SUB over connections.
//!
//! The state of a socket is in the machines of `zwire_proto::zmtp::socket`, behind one lock. Outgoing
//! messages wait at their connections, incoming ones in one queue. Both are bounded: senders wait or
//! drop, and a connection is not read while its messages do not fit.

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
        queue::{Bounds, Overflow, Queue, RecvError, Weigh},
        runtime::{self, Birth},
        watch::{Missed, Watch},
    },
};
use bytes::Bytes;
use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use owner::Ear;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::Arc,
};
use thiserror::Error as ThisError;
use tokio::runtime::Handle;
use zwire_proto::zmtp::{
    link::Message,
    socket::{Dealer, PeerKey, Router, SubscriberSocket, Subscriptions, TooManySubscriptions},
    wire::SocketType,
};

/// Most events that are kept for the application.
const MAX_EVENTS: usize = 1000;

/// Error of a socket.
#[derive(Clone, Debug, ThisError)]
pub enum SocketError {
    /// Closed, used in another process, an invalid endpoint, timed out, or interrupted.
    #[error(transparent)]
    Engine(#[from] Error),
    /// All queues are full, and the call must not wait.
    #[error("the high-water mark is reached")]
    Full,
    /// No peer that could get the message is connected, and the call must not wait.
    #[error("no peer is connected")]
    Nobody,
    /// No peer has this identity.
    #[error("no peer has the identity {:?}", .identity.escape_ascii().to_string())]
    Unreachable {
        /// Identity given in the first frame.
        identity: Bytes,
    },
    /// A message for a ROUTER consists of the identity of the peer and at least one more frame.
    #[error("a ROUTER sends an identity and at least one frame")]
    NoIdentity,
    /// An endpoint has no connection.
    #[error("not connected to {endpoint}: {reason}")]
    NotConnected {
        /// The endpoint.
        endpoint: String,
        /// Reason of the last failed attempt.
        reason: CloseReason,
    },
    /// The endpoint is neither bound nor connected to.
    #[error("{0:?} is neither bound nor connected to")]
    NoSuchEndpoint(String),
    /// The operation belongs to another type of socket.
    #[error("a {socket_type} does not {what}")]
    Unsupported {
        /// Type of the socket.
        socket_type: SocketType,
        /// Verb of the operation.
        what: &'static str,
    },
    /// More subscriptions than a publisher accepts.
    #[error(transparent)]
    Subscriptions(#[from] TooManySubscriptions),
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Identity of the sender, at a ROUTER; else empty.
    pub identity: Bytes,
    /// The message, without the identity.
    pub message: Message,
}

impl Weigh for Received {
    fn weight(&self) -> usize {
        self.message.cost()
    }
}

/// A ZeroMQ socket.
pub struct Socket {
    shared: Arc<SocketShared>,
}

struct SocketShared {
    birth: Birth,
    runtime: Handle,
    options: SocketOptions,
    state: Mutex<SocketState>,
    inbox: Arc<Queue<Received>>,
    events: Arc<Queue<Event>>,
    /// Told of changes that may let a waiting sender, or a wait for a connection, continue.
    room: Watch,
    /// Whether messages were sent that may wait to be written together with others.
    dirty: AtomicBool,
    /// Set when the socket accepts no more messages.
    closed: AtomicBool,
    /// Set when all connections are closed.
    ended: AtomicBool,
    counters: Counters,
}

struct SocketState {
    machine: Machine,
    pipes: HashMap<PeerKey, Pipe>,
    listeners: Vec<BoundEndpoint>,
}

struct BoundEndpoint {
    endpoint: String,
    listener: Listener,
}

enum Machine {
    Dealer(Dealer),
    Router(Router),
    Pub(Subscriptions),
    Sub(SubscriberSocket),
}

/// A connection, the endpoint of an outgoing one, or both.
#[derive(Clone, Default)]
struct Pipe {
    outbound: Option<Arc<Outbound>>,
    connection: Option<Arc<Connection>>,
    /// Reason why there is no connection.
    failure: Option<CloseReason>,
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
    /// Makes a socket without connections.
    ///
    /// # Errors
    /// The runtime does not start.
    pub fn open(options: SocketOptions) -> Result<Self, SocketError> {
        let socket_type = options.connection.handshake.socket_type;
        let machine = match socket_type {
            SocketType::Dealer => Machine::Dealer(Dealer::default()),
            SocketType::Router => {
                // Without a random source, generated identities count from 0.
                Machine::Router(Router::new(options.handover, getrandom::u32().unwrap_or(0)))
            }
            SocketType::Pub => Machine::Pub(Subscriptions::default()),
            SocketType::Sub => Machine::Sub(SubscriberSocket::default()),
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
            shared: Arc::new(SocketShared {
                birth: Birth::here(),
                runtime: runtime::handle()?,
                options,
                state: Mutex::new(SocketState { machine, pipes: HashMap::new(), listeners: Vec::new() }),
                inbox,
                events,
                room: Watch::default(),
                dirty: AtomicBool::new(false),
                closed: AtomicBool::new(false),
                ended: AtomicBool::new(false),
                counters: Counters::default(),
            }),
        })
    }

    /// Options that the socket was made with.
    #[must_use]
    pub fn options(&self) -> &SocketOptions {
        &self.shared.options
    }

    /// Listens on `tcp://host:port`; `*` or 0 selects a free port. Returns the endpoint with the actual
    /// port.
    ///
    /// # Errors
    /// The endpoint is invalid, or cannot be bound.
    pub fn bind(&self, endpoint: &str) -> Result<String, SocketError> {
        let shared = &self.shared;
        shared.check()?;
        let ear = Ear::new(shared, endpoint, None);
        let listener =
            Listener::bind(&shared.runtime, endpoint, shared.options.connection.clone(), Arc::new(ear))?;
        let bound = format!("tcp://{}", listener.local_addr());
        shared.state.lock().listeners.push(BoundEndpoint { endpoint: bound.clone(), listener });
        Ok(bound)
    }

    /// Connects to `tcp://host:port`, and reconnects whenever the connection is lost. With `wait`, waits
    /// for the first connection.
    ///
    /// # Errors
    /// The endpoint is invalid; with `wait`, the reason why there is no connection. The endpoint is kept
    /// in that case.
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
            // Held until the pipe is stored, so that its connection finds it.
            let mut state = shared.state.lock();
            let ear = Ear::new(shared, endpoint, Some(key));
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
        shared.room.notify();
        wait.map_or(Ok(()), |limit| shared.wait_connected(endpoint, key, limit, interrupted))
    }

    /// Reverts a [`Self::bind`] or a [`Self::connect`]; its connections are closed at once.
    ///
    /// # Errors
    /// The endpoint is neither bound nor connected to.
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

    /// Waits for the next message.
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

    /// Queue of received messages, for consumers that take many at once. Call [`Self::flush`] before
    /// waiting on it.
    #[must_use]
    pub fn inbox(&self) -> &Arc<Queue<Received>> {
        &self.shared.inbox
    }

    /// Queue of connection events. The oldest is dropped when it is full.
    #[must_use]
    pub fn events(&self) -> &Arc<Queue<Event>> {
        &self.shared.events
    }

    /// Checks that the socket is open and was made in this process.
    pub fn check(&self) -> Result<(), SocketError> {
        self.shared.check()
    }

    /// Checks that the socket was made in this process.
    pub fn look(&self) -> Result<(), SocketError> {
        Ok(self.shared.birth.check()?)
    }

    /// Writes the gathered messages now.
    pub fn flush(&self) {
        if self.shared.dirty.swap(false, Ordering::AcqRel) {
            for connection in self.shared.connections() {
                connection.flush();
            }
        }
    }

    /// Subscribes to messages with a first frame that begins with `prefix`.
    ///
    /// # Errors
    /// The socket is not a SUB, or has too many subscriptions.
    pub fn subscribe(&self, prefix: &Bytes) -> Result<(), SocketError> {
        self.shared.check()?;
        let mut state = self.shared.state.lock();
        let SocketState { machine, pipes, .. } = &mut *state;
        let Machine::Sub(subscriber) = machine else { return Err(self.shared.unsupported("subscribe")) };
        if subscriber.subscribe(prefix)? {
            // Under the lock, so that subscriptions reach each connection in order.
            let connections = pipes.values().filter_map(|pipe| pipe.connection.as_ref());
            connections.for_each(|connection| connection.subscribe(prefix.clone()));
        }
        Ok(())
    }

    /// Cancels one subscription. Returns whether it existed.
    ///
    /// # Errors
    /// The socket is not a SUB.
    pub fn cancel(&self, prefix: &Bytes) -> Result<bool, SocketError> {
        self.shared.check()?;
        let mut state = self.shared.state.lock();
        let SocketState { machine, pipes, .. } = &mut *state;
        let Machine::Sub(subscriber) = machine else { return Err(self.shared.unsupported("unsubscribe")) };
        let told = subscriber.cancel(prefix);
        if told == Some(true) {
            let connections = pipes.values().filter_map(|pipe| pipe.connection.as_ref());
            connections.for_each(|connection| connection.cancel(prefix.clone()));
        }
        Ok(told.is_some())
    }

    /// Identities of the connected peers of a ROUTER.
    #[must_use]
    pub fn identities(&self) -> Vec<Bytes> {
        match &self.shared.state.lock().machine {
            Machine::Router(router) => router.identities().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Number of open connections.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.shared.connections().len()
    }

    /// Endpoints that the socket listens on.
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

    /// Stops accepting messages, waits at most `linger` (`None`: without limit) until queued messages are
    /// written, and closes all connections. Received messages can still be taken.
    ///
    /// # Errors
    /// Interrupted; everything is closed in that case as well.
    pub fn close(
        &self,
        linger: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), SocketError> {
        let shared = &self.shared;
        if !shared.birth.is_here() || shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        shared.room.notify();
        shared.connections().iter().for_each(|connection| connection.flush());
        let progress = &shared.options.connection.progress;
        let flushed = progress.wait(linger, interrupted, || shared.is_flushed().then_some(()));
        shared.shut_down();
        if flushed == Err(Missed::Interrupted) { Err(Error::Interrupted.into()) } else { Ok(()) }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A drop must not wait for queued messages.
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

impl SocketShared {
    fn socket_type(&self) -> SocketType {
        self.options.connection.handshake.socket_type
    }

    fn unsupported(&self, what: &'static str) -> SocketError {
        SocketError::Unsupported { socket_type: self.socket_type(), what }
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
        self.room.notify();
    }

    /// Waits for the connection of an endpoint. A server that is not running yet may still start; a
    /// refusal is returned at once.
    fn wait_connected(
        &self,
        endpoint: &str,
        key: PeerKey,
        limit: Duration,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), SocketError> {
        let mut failure = None;
        let fail = |reason| Err(SocketError::NotConnected { endpoint: endpoint.to_owned(), reason });
        let look = || {
            if let Err(error) = self.check() {
                return Some(Err(error));
            }
            let pipe = self.state.lock().pipes.get(&key).cloned().unwrap_or_default();
            if pipe.connection.is_some() {
                return Some(Ok(()));
            }
            let over = pipe.outbound.as_ref().is_none_or(|outbound| outbound.is_over());
            failure = pipe.failure;
            failure.take_if(|reason| over || reason.is_refusal()).map(fail)
        };
        let result = self.room.wait(Some(limit), interrupted, look);
        match (result, failure) {
            (Ok(result), _) => result,
            (Err(Missed::TimedOut), Some(reason)) => fail(reason),
            (Err(missed), _) => Err(Error::missed(missed, "connecting", Some(limit)).into()),
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

impl SocketState {
    /// Removes a connection or an endpoint that is gone for good.
    fn forget(&mut self, key: PeerKey) {
        self.pipes.remove(&key);
        self.machine.close(key);
    }
}

impl Machine {
    /// Removes a peer.
    fn close(&mut self, key: PeerKey) {
        match self {
            Self::Dealer(dealer) => dealer.close(key),
            Self::Pub(subscriptions) => subscriptions.disconnect(key),
            Self::Router(router) => drop(router.close(key)),
            Self::Sub(_) => {}
        }
    }
}

impl Pipe {
    fn queued(&self) -> usize {
        match (&self.outbound, &self.connection) {
            (Some(outbound), _) => outbound.queued(),
            (None, Some(connection)) => connection.waiting().0,
            (None, None) => 0,
        }
    }
}
