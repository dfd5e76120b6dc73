//! [`Connection`]: one established ZMTP connection.

use super::{
    CloseReason, ConnectionConfig, Owner,
    establish::ShakenStream,
    lending::ConnectionLending,
    reader,
    sending::{MessageQueue, broken},
};
use crate::{
    lending::Ticket,
    net::outbox::{self, Outbox, Written},
    rt::{clock, runtime::Birth, watch::Watch},
};
use bytes::{Bytes, BytesMut};
use core::{
    fmt,
    mem::MaybeUninit,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
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
use zwire_proto::{
    lending::LendingTerms,
    zmtp::{
        link::{Message, Peer, ZmtpRx, ZmtpTx},
        wire::{Ping, SocketType},
    },
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
    /// Read calls that returned data.
    pub rx_reads: u64,
}

#[derive(Debug, Default)]
pub(super) struct ReceivedCounters {
    pub(super) bytes: AtomicU64,
    pub(super) messages: AtomicU64,
    pub(super) reads: AtomicU64,
}

/// Established connection. It stays open until one side closes it; dropping this handle does not close
/// it.
pub struct Connection {
    /// Number of the connection, unique in this process.
    pub id: u64,
    pub(super) birth: Birth,
    /// Type of the local socket.
    pub socket_type: SocketType,
    /// Description of the socket at the other end.
    pub peer: Peer,
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub remote: SocketAddr,
    pub(super) stream: TcpStream,
    pub(super) outbox: Outbox<MessageQueue>,
    pub(super) received: ReceivedCounters,
    /// Told when everything is written, when there may be room again, and when the connection is dead.
    pub(crate) progress: Arc<Watch>,
    /// Messages were queued that a caller of [`Self::try_defer`] has to flush.
    pub(super) deferred: AtomicBool,
    closed: AtomicBool,
    close_wake: Notify,
    /// Reason of the end; the first one is kept.
    reason: Mutex<Option<CloseReason>>,
}

/// A number that is unique in this process.
pub(super) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Connection before its tasks are started.
pub(super) struct Fresh {
    pub(super) connection: Arc<Connection>,
    rx: ZmtpRx,
    rest: BytesMut,
    lending: Option<AgreedLending>,
}

/// Lending that both sides of a connection have agreed on.
struct AgreedLending {
    loans: Arc<ConnectionLending>,
    terms: LendingTerms,
    ticket: Option<Ticket>,
}

impl Connection {
    /// Makes a connection, with messages that were queued before it.
    pub(super) fn fresh(
        established: ShakenStream,
        config: &ConnectionConfig,
        waiting: VecDeque<Message>,
    ) -> io::Result<Fresh> {
        let ShakenStream { stream, remote, params, ticket, rest } = established;
        let now = clock::now();
        let mut tx = ZmtpTx::new(&params, config.tx, now);
        // The task writes messages that wait from before when it starts.
        let loaded = !waiting.is_empty();
        tx.restore(waiting);
        let mut rx = ZmtpRx::new(&params, config.rx, now);
        let lending = params.lending.zip(config.lending.clone()).map(|(terms, host)| {
            let loans = ConnectionLending::new(host);
            rx.set_borrow(loans.borrow());
            AgreedLending { loans, terms, ticket }
        });
        let connection = Arc::new(Self {
            id: next_id(),
            birth: Birth::here(),
            socket_type: params.socket_type,
            peer: params.peer,
            local: stream.local_addr()?,
            remote,
            stream,
            outbox: Outbox::new(MessageQueue::new(tx, &config.tx), loaded, config.progress.clone()),
            received: ReceivedCounters::default(),
            progress: config.progress.clone(),
            deferred: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            close_wake: Notify::new(),
            reason: Mutex::new(None),
        });
        Ok(Fresh { connection, rx, rest, lending })
    }

    /// Subscribes at a publisher to the messages with a first frame that begins with `prefix`.
    pub fn subscribe(&self, prefix: Bytes) {
        self.control(|tx| tx.subscribe(prefix));
    }

    /// Cancels a subscription.
    pub fn cancel(&self, prefix: Bytes) {
        self.control(|tx| tx.cancel(prefix));
    }

    pub(super) fn pong(&self, ping: &Ping) {
        self.control(|tx| tx.pong(ping));
    }

    /// Counters of the connection.
    #[must_use]
    pub fn stats(&self) -> ConnectionStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sending = self.outbox.lock();
        let Written { bytes, calls } = sending.backlog.written;
        ConnectionStats {
            tx_bytes: bytes as u64,
            tx_messages: sending.backlog.machine.stats().messages,
            tx_writes: calls,
            rx_bytes: get(&self.received.bytes),
            rx_messages: get(&self.received.messages),
            rx_reads: get(&self.received.reads),
        }
    }

    /// Closes the connection at once; queued messages are dropped.
    pub fn close(&self) {
        self.end(CloseReason::Local);
    }

    pub(super) fn end(&self, reason: CloseReason) {
        if !self.birth.is_here() {
            return;
        }
        self.reason.lock().get_or_insert(reason);
        self.outbox.kill();
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.close_wake.notify_waiters();
        }
    }

    /// Reason of the end, once the connection is closed.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.reason.lock().clone()
    }

    /// Whether the connection is closed, or about to close.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether there are bytes that were not read yet, or the end of the stream.
    pub(crate) fn has_unread(&self) -> bool {
        SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]).is_ok()
    }

    /// Returns once the connection is closed.
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
    /// Starts the tasks. The task returned ends with the connection, after `ended` was called and the
    /// owner was notified.
    pub(super) fn start(
        self,
        runtime: &Handle,
        owner: Arc<dyn Owner>,
        ended: impl FnOnce(&Arc<Connection>) + Send + 'static,
    ) -> JoinHandle<()> {
        let Self { connection, rx, rest, lending } = self;
        if let Some(AgreedLending { loans, terms, ticket }) = lending {
            loans.start(runtime, &connection, terms, ticket);
        }
        runtime.spawn(async move {
            owner.opened(&connection);
            let writing = tokio::spawn(run_outbox(connection.clone(), owner.clone()));
            let reason = reader::run(&connection, rx, rest, &*owner).await;
            connection.end(reason);
            // Ends because the connection is closed; waited for so that the owner gets no call after
            // `closed`.
            let _ = writing.await;
            // A handle that the application still holds must not keep the socket open. Both sides may
            // have closed already.
            let _ = SockRef::from(&connection.stream).shutdown(Shutdown::Both);
            ended(&connection);
            let reason = connection.close_reason().unwrap_or(CloseReason::Local);
            tracing::debug!(remote = %connection.remote, %reason, "connection closed");
            owner.closed(Some(&connection), &reason);
        })
    }
}

/// Task that writes what no other thread has written, and tells the owner of room.
async fn run_outbox(connection: Arc<Connection>, owner: Arc<dyn Owner>) {
    let on_room = || {
        connection.progress.notify();
        owner.writable(&connection);
    };
    if let Err(error) = outbox::run(&connection, on_room).await {
        connection.end(broken(error));
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
