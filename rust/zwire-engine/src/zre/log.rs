//! ZRE/LOG: collectors and senders of logs (RFC 20, `zre` 13.1).
//!
//! A collector is a SUB that listens and subscribes to everything; a sender is a PUB that connects to
//! each collector.

use super::{
    interfaces::{self, InterfaceVerdict, Purpose},
    options::MAILBOX_PORTS,
};
use crate::{
    error::Error,
    rt::{
        clock,
        queue::{Bounds, Overflow, Queue, Weigh},
        runtime::{self, Birth},
    },
    zmtp::{CloseReason, Connection, ConnectionConfig, Listener, Outbound, Owner, Pause, Reconnect, Writing},
};
use bytes::Bytes;
use core::time::Duration;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};
use tokio::runtime::Handle;
use zwire_proto::{
    zmtp::{
        link::{Heartbeat, Inbound, Message, ZmtpHandshakeConfig},
        wire::SocketType,
    },
    zre::{
        limits::MAX_COLLECTORS,
        node::NodeError,
        wire::{Log, LogEvent, LogLevel, log_hash},
    },
};

/// Largest message; a ZRE/LOG frame is 18 octets and a text of at most 255.
const MAX_MESSAGE_SIZE: usize = 4096;

/// Frames that wait until the subscription of a collector arrives; a PUB would drop them. Large
/// enough for the log lines of a node's start.
const MAX_PENDING: usize = 256;

/// Most prefixes of one collector; zwire and zyre use a single empty one, which matches everything.
const MAX_PREFIXES: usize = 64;

/// Bounds of the records that wait for the application.
pub const RECORDS: Bounds = Bounds { messages: 65536, bytes: 32 << 20, overflow: Overflow::DropOldest };

/// Heartbeat interval of connections; a node that is gone without closing is detected after three of
/// them.
const HEARTBEAT: Duration = Duration::from_secs(5);

fn config(socket_type: SocketType) -> ConnectionConfig {
    let mut config = ConnectionConfig::new(ZmtpHandshakeConfig::new(socket_type));
    let heartbeat = Some(Heartbeat::every(HEARTBEAT, 3));
    config.rx.max_message_size = MAX_MESSAGE_SIZE;
    (config.rx.heartbeat, config.tx.heartbeat) = (heartbeat, heartbeat);
    config
}

/// Received log record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Content of the record.
    pub log: Log,
    /// Address of the sender.
    pub from: SocketAddr,
}

impl Weigh for LogRecord {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.log.data.len()
    }
}

/// Collector of the logs of nodes. Dropping it closes it.
pub struct LogCollector {
    birth: Birth,
    listener: Listener,
    endpoint: String,
    /// Whether [`EVERYWHERE`] has the endpoint.
    everywhere: bool,
    records: Arc<Queue<LogRecord>>,
    owner: Arc<CollectorOwner>,
}

impl LogCollector {
    /// Listens on `tcp://host:port`; a port of `*` or 0 is a free port of the dynamic range, as 20/ZRE
    /// demands. Nodes are given the endpoint `advertise`, or else that of the listener; a wildcard address
    /// is replaced by that of the first suitable interface, and in the HELLO of a node of this process by
    /// that of the interface by which the receiver is reached.
    ///
    /// Senders never wait for the waiting records, whatever their bounds.
    ///
    /// # Errors
    /// The endpoint cannot be listened on.
    pub fn bind_bounded(endpoint: &str, advertise: Option<&str>, bounds: Bounds) -> Result<Self, Error> {
        let runtime = runtime::handle()?;
        let records = Queue::new(bounds);
        let owner = Arc::new(CollectorOwner { records: records.clone(), malformed: Mutex::default() });
        let _guard = runtime.enter();
        let listener = listen(&runtime, endpoint, &owner)?;
        let mut local = listener.local_addr();
        let everywhere = advertise.is_none() && local.ip().is_unspecified();
        if local.ip().is_unspecified()
            && let Ok(all) = interfaces::list(Purpose::Broadcast, &[])
            && let Some(found) = all.iter().find(|candidate| candidate.verdict == InterfaceVerdict::Used)
        {
            local.set_ip(found.address.into());
        }
        let endpoint = advertise.map_or_else(|| format!("tcp://{local}"), str::to_owned);
        if everywhere {
            EVERYWHERE.lock().push(endpoint.clone());
        }
        Ok(Self { birth: Birth::here(), listener, endpoint, everywhere, records, owner })
    }

    /// Process that the collector belongs to.
    #[must_use]
    pub const fn birth(&self) -> Birth {
        self.birth
    }

    /// Endpoint that is given to nodes.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Queue of received records.
    #[must_use]
    pub const fn records(&self) -> &Arc<Queue<LogRecord>> {
        &self.records
    }

    /// Number of messages that were not valid ZRE/LOG.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        *self.owner.malformed.lock()
    }

    /// Stops collecting. Records in the queue can still be taken.
    pub fn close(&self) {
        if self.birth.is_here() {
            self.listener.close();
            self.records.close();
        }
    }
}

/// Listens on the endpoint. If its port is free of choice, on the first free one of the dynamic range; if all
/// are taken, on any that the system has.
fn listen(runtime: &Handle, endpoint: &str, owner: &Arc<CollectorOwner>) -> Result<Listener, Error> {
    /// Start of the search: behind the last port that a collector of this process took. Starts behind the
    /// ports that mailboxes take first.
    static HINT: AtomicU16 = AtomicU16::new(*MAILBOX_PORTS.start() + 0x2000);
    let bind = |endpoint: &str| Listener::bind(runtime, endpoint, config(SocketType::Sub), owner.clone());
    let host = match endpoint.rsplit_once(':') {
        Some((host, "*" | "0")) if host.starts_with("tcp://") => host,
        _ => return bind(endpoint),
    };
    let (start, end) = MAILBOX_PORTS.into_inner();
    let first = HINT.load(Ordering::Relaxed);
    for port in (first..=end).chain(start..first) {
        match bind(&format!("{host}:{port}")) {
            Err(Error::Listen { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {}
            Ok(listener) => {
                HINT.store(port.checked_add(1).unwrap_or(start), Ordering::Relaxed);
                return Ok(listener);
            }
            Err(error) => return Err(error),
        }
    }
    bind(endpoint)
}

impl Drop for LogCollector {
    fn drop(&mut self) {
        self.close();
        if self.everywhere {
            let mut all = EVERYWHERE.lock();
            if let Some(at) = all.iter().position(|known| *known == self.endpoint) {
                all.swap_remove(at);
            }
        }
    }
}

/// Endpoints of the collectors of this process that listen on all addresses. A node that announces one of them
/// gives each network its own address there.
static EVERYWHERE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether a collector of this process has this endpoint and listens on all addresses.
pub(super) fn is_everywhere(endpoint: &str) -> bool {
    EVERYWHERE.lock().iter().any(|known| known == endpoint)
}

struct CollectorOwner {
    records: Arc<Queue<LogRecord>>,
    malformed: Mutex<u64>,
}

impl Owner for CollectorOwner {
    fn opened(&self, connection: &Arc<Connection>) {
        connection.subscribe(Bytes::new());
    }

    fn received(&self, connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        for item in inbound.drain(..) {
            let Inbound::Message(message) = item else { continue };
            match message.frames().first().map(Log::decode) {
                Some(Ok(log)) => {
                    // If nothing takes the records, the oldest is dropped and counted by the queue.
                    let _ = self.records.push(LogRecord { log, from: connection.remote });
                }
                _ => *self.malformed.lock() += 1,
            }
        }
        self.records.signal();
        None
    }
}

/// A collector that records are sent to.
struct CollectorWay {
    outbound: Arc<Outbound>,
    owner: Arc<SenderOwner>,
}

#[derive(Default)]
struct SenderOwner(Mutex<Subscribed>);

#[derive(Default)]
struct Subscribed {
    prefixes: Vec<Bytes>,
    /// Set with the first subscription; before it, frames are kept in `pending`.
    ever: bool,
    pending: VecDeque<Bytes>,
}

impl SenderOwner {
    fn wants(&self, frame: &Bytes) -> bool {
        let mut subscribed = self.0.lock();
        if subscribed.ever {
            return subscribed.prefixes.iter().any(|prefix| frame.starts_with(prefix));
        }
        if subscribed.pending.len() == MAX_PENDING {
            subscribed.pending.pop_front();
        }
        subscribed.pending.push_back(frame.clone());
        false
    }
}

impl Owner for SenderOwner {
    fn received(&self, connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        let mut subscribed = self.0.lock();
        for item in inbound.drain(..) {
            match item {
                Inbound::Subscribe(prefix) if subscribed.prefixes.len() < MAX_PREFIXES => {
                    subscribed.ever = true;
                    subscribed.prefixes.push(prefix.clone());
                    for frame in core::mem::take(&mut subscribed.pending) {
                        if frame.starts_with(&prefix) {
                            // At the high-water mark a PUB drops.
                            let _ = connection.try_send(Message::single(frame));
                        }
                    }
                }
                Inbound::Cancel(prefix) => subscribed.prefixes.retain(|known| *known != prefix),
                _ => {}
            }
        }
        None
    }

    /// Subscriptions end with their connection; the next one subscribes anew.
    fn closed(&self, connection: Option<&Arc<Connection>>, _reason: &CloseReason) {
        if connection.is_some() {
            self.0.lock().prefixes.clear();
        }
    }
}

/// Collectors that a node or [`LogSender`] sends to.
#[derive(Default)]
pub(crate) struct Collectors(HashMap<Bytes, CollectorWay>);

impl Collectors {
    pub(crate) fn connect(&mut self, runtime: &Handle, endpoint: Bytes) -> Result<(), Error> {
        if self.0.contains_key(&endpoint) || self.0.len() >= MAX_COLLECTORS {
            return Ok(());
        }
        let owner = Arc::new(SenderOwner::default());
        let text = String::from_utf8_lossy(&endpoint);
        let config = config(SocketType::Pub);
        let outbound = Outbound::connect(runtime, &text, config, Reconnect::default(), owner.clone())?;
        self.0.insert(endpoint, CollectorWay { outbound, owner });
        Ok(())
    }

    pub(crate) fn disconnect(&mut self, endpoint: &Bytes) {
        if let Some(way) = self.0.remove(endpoint) {
            way.outbound.close();
        }
    }

    /// Publishes a frame; `flush` gets the connections that are to be written. As with any PUB, a collector that
    /// does not take the frame in time misses it.
    pub(crate) fn send(&self, frame: &Bytes, mut flush: impl FnMut(Option<Arc<Connection>>)) {
        for way in self.0.values().filter(|way| way.owner.wants(frame)) {
            flush(way.outbound.try_defer(Message::single(frame.clone()), Writing::Alone).ok().flatten());
        }
    }

    /// The connections to collectors.
    pub(crate) fn connections(&self) -> impl Iterator<Item = Arc<Connection>> {
        self.0.values().filter_map(|way| way.outbound.connection())
    }

    pub(crate) fn close(&mut self) {
        self.0.drain().for_each(|(_, way)| way.outbound.close());
    }
}

/// Sender of log records in the name of a node. Dropping it closes it.
pub struct LogSender {
    birth: Birth,
    runtime: Handle,
    node: u16,
    collectors: Mutex<Collectors>,
}

impl LogSender {
    /// Makes a sender for a node text: zyre uses `ip:port` of its mailbox.
    ///
    /// # Errors
    /// The runtime cannot be started.
    pub fn new(node: &str) -> Result<Self, Error> {
        let node = log_hash(node.as_bytes());
        Ok(Self { birth: Birth::here(), runtime: runtime::handle()?, node, collectors: Mutex::default() })
    }

    /// Adds a collector.
    ///
    /// # Errors
    /// The endpoint is invalid.
    pub fn connect(&self, endpoint: &str) -> Result<(), Error> {
        self.birth.check()?;
        self.collectors.lock().connect(&self.runtime, Bytes::copy_from_slice(endpoint.as_bytes()))
    }

    /// Logs a line. `time` is since 1970; `None` means now.
    ///
    /// # Errors
    /// An undefined level or event, or a text that is too long.
    pub fn log(
        &self,
        level: LogLevel,
        event: LogEvent,
        peer: u16,
        time: Option<Duration>,
        data: &str,
    ) -> Result<(), Error> {
        self.birth.check()?;
        let time = time.unwrap_or_else(|| clock::now().wall);
        let log = Log { level, ..Log::info(event, self.node, peer, time, data) };
        let frame = log.encode().map_err(NodeError::from)?;
        let mut flush = Vec::new();
        self.collectors.lock().send(&frame, |connection| flush.extend(connection));
        flush.iter().for_each(|connection| connection.flush_deferred(Writing::Alone));
        Ok(())
    }

    /// Waits until the records were written to collectors, at most `limit`, and closes.
    pub fn close(&self, limit: Duration) {
        if !self.birth.is_here() {
            return;
        }
        let connections: Vec<_> = self.collectors.lock().connections().collect();
        let end = clock::mono().saturating_add(limit);
        for connection in &connections {
            connection.flush();
            let left = end.saturating_sub(clock::mono());
            let written = || (connection.is_closed() || connection.is_flushed()).then_some(());
            // Lines that are not written by then are given up.
            let _ = connection.progress.wait(Some(left), &mut || false, written);
        }
        self.collectors.lock().close();
    }
}
