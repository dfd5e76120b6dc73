//! [`Connection`]: one established connection.

use super::{CloseReason, ConnectionConfig, Owner, establish::Established, reader, writer::Writer};
use crate::rt::{clock, runtime::Birth};
use bytes::{Bytes, BytesMut};
use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use socket2::SockRef;
use std::{
    collections::VecDeque,
    io,
    net::{Shutdown, SocketAddr},
    sync::Arc,
};
use tokio::{net::TcpStream, runtime::Handle, sync::Notify, task::JoinHandle};
use zwire_proto::zmtp::{
    link::{LinkRx, LinkTx, Message, Peer, PushError, Rejected, Version},
    wire::{Ping, SocketType},
};

/// Counters of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Bytes written.
    pub tx_bytes: u64,
    /// Messages taken from the queue to be written.
    pub tx_messages: u64,
    /// Write calls.
    pub tx_writes: u64,
    /// Bytes read.
    pub rx_bytes: u64,
    /// Messages read.
    pub rx_messages: u64,
    /// Read calls that gave something.
    pub rx_reads: u64,
}

#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) bytes: AtomicU64,
    pub(super) messages: AtomicU64,
    pub(super) reads: AtomicU64,
}

/// One established connection. It stays open until one side closes it; dropping this handle does not.
pub struct Connection {
    id: u64,
    birth: Birth,
    socket_type: SocketType,
    version: Version,
    peer: Peer,
    local: SocketAddr,
    remote: SocketAddr,
    pub(super) stream: TcpStream,
    pub(super) writer: Writer,
    pub(super) received: Received,
    closed: AtomicBool,
    close_wake: Notify,
    /// The first one counts.
    reason: Mutex<Option<CloseReason>>,
}

/// A number that nothing else in this process has.
pub(super) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A connection whose tasks do not run yet.
pub(super) struct Fresh {
    pub(super) connection: Arc<Connection>,
    rx: LinkRx,
    rest: BytesMut,
}

impl Connection {
    /// With messages that wait from before.
    pub(super) fn fresh(
        established: Established,
        config: &ConnectionConfig,
        waiting: VecDeque<Message>,
    ) -> io::Result<Fresh> {
        let Established { stream, remote, params, rest } = established;
        let now = clock::now();
        let mut tx = LinkTx::new(&params, config.tx, now);
        tx.restore(waiting);
        let rx = LinkRx::new(&params, config.rx, now);
        let connection = Arc::new(Self {
            id: next_id(),
            birth: Birth::here(),
            socket_type: params.socket_type,
            version: params.version,
            peer: params.peer,
            local: stream.local_addr()?,
            remote,
            stream,
            writer: Writer::new(tx, &config.tx),
            received: Received::default(),
            closed: AtomicBool::new(false),
            close_wake: Notify::new(),
            reason: Mutex::new(None),
        });
        Ok(Fresh { connection, rx, rest })
    }

    /// A number that no other connection of this process has.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The socket at the other end.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Our own socket.
    #[must_use]
    pub const fn socket_type(&self) -> SocketType {
        self.socket_type
    }

    /// What both ends can do.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Our address.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    #[must_use]
    pub const fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Queues a message, and writes it at once when it is alone. Never waits.
    ///
    /// # Errors
    /// The message, and why it was not taken. After a full queue, [`Owner::writable`] says when to try again.
    pub fn try_send(&self, message: Message) -> Result<(), Rejected> {
        self.push(message, false)
    }

    /// As [`Self::try_send`], but leaves the writing to [`Self::flush`], or to the task within a millisecond:
    /// for one of many connections that are sent something in turns.
    ///
    /// # Errors
    /// As there.
    pub fn try_gather(&self, message: Message) -> Result<(), Rejected> {
        self.push(message, true)
    }

    fn push(&self, message: Message, gather: bool) -> Result<(), Rejected> {
        if !self.birth.is_here() {
            return Err(Rejected { message, error: PushError::Closed });
        }
        self.writer.push(self, message, gather)
    }

    /// Queues messages until one is rejected, and writes them together: how many were taken, and the one
    /// that was not.
    pub fn try_send_many(&self, messages: &mut dyn Iterator<Item = Message>) -> (usize, Option<Rejected>) {
        if !self.birth.is_here() {
            let rejected = messages.next().map(|message| Rejected { message, error: PushError::Closed });
            return (0, rejected);
        }
        self.writer.push_many(self, messages)
    }

    /// Asks a publisher for the messages whose first frame begins so.
    pub fn subscribe(&self, prefix: Bytes) {
        self.writer.control(self, |tx| tx.subscribe(prefix));
    }

    /// Takes a subscription back.
    pub fn cancel(&self, prefix: Bytes) {
        self.writer.control(self, |tx| tx.cancel(prefix));
    }

    pub(super) fn pong(&self, ping: &Ping) {
        self.writer.control(self, |tx| tx.pong(ping));
    }

    /// Writes now what is collected to be written together.
    pub fn flush(&self) {
        if self.birth.is_here() {
            self.writer.flush(self);
        }
    }

    /// Messages that wait for the network.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.writer.queued()
    }

    /// Messages and bytes that wait for the network.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.writer.waiting()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> ConnectionStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (tx_messages, tx_bytes, tx_writes) = self.writer.stats();
        ConnectionStats {
            tx_bytes,
            tx_messages,
            tx_writes,
            rx_bytes: get(&self.received.bytes),
            rx_messages: get(&self.received.messages),
            rx_reads: get(&self.received.reads),
        }
    }

    /// Whether everything was given to the system.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.writer.is_flushed()
    }

    /// Waits until everything was given to the system, at most `limit`. Whether it was.
    pub async fn flushed(&self, limit: Duration) -> bool {
        let end = clock::mono().saturating_add(limit);
        self.flush();
        while !self.is_flushed() {
            if self.is_closed() || clock::mono() >= end {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        true
    }

    /// Ends the connection at once; what waits is dropped.
    pub fn close(&self) {
        self.end(CloseReason::Local);
    }

    pub(super) fn end(&self, reason: CloseReason) {
        if !self.birth.is_here() {
            return;
        }
        self.reason.lock().get_or_insert(reason);
        self.writer.kill();
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.close_wake.notify_waiters();
        }
    }

    /// Why it is closed, once it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.reason.lock().clone()
    }

    /// Whether it is closed, or about to be.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns once it is closed.
    pub async fn closed(&self) {
        let notified = self.close_wake.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if !self.is_closed() {
            notified.await;
        }
    }
}

impl Fresh {
    /// Starts the tasks. The one that is returned ends with the connection, after `ended` was called and the
    /// owner was told.
    pub(super) fn start(
        self,
        runtime: &Handle,
        owner: Arc<dyn Owner>,
        ended: impl FnOnce(&Arc<Connection>) + Send + 'static,
    ) -> JoinHandle<()> {
        let Self { connection, rx, rest } = self;
        runtime.spawn(async move {
            owner.opened(&connection);
            let writing = tokio::spawn(Writer::run(connection.clone(), owner.clone()));
            let reason = reader::run(&connection, rx, rest, &*owner).await;
            connection.end(reason);
            // It ends now that the connection is closed, and says nothing to the owner after `closed`.
            let _ = writing.await;
            // Whoever keeps the handle must not keep the peer waiting. Both sides may have closed already.
            let _ = SockRef::from(&connection.stream).shutdown(Shutdown::Both);
            ended(&connection);
            let reason = connection.close_reason().unwrap_or(CloseReason::Local);
            tracing::debug!(remote = %connection.remote, %reason, "connection closed");
            owner.closed(Some(&connection), &reason);
        })
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("id", &self.id)
            .field("remote", &self.remote)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
