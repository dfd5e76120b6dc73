//! Lending on connections (`zwire_proto::lending`): frames of messages that the peer reads in the memory of this process.
//!
//! A channel costs descriptors on both sides, and most connections carry small messages. So the side that has connected
//! opens it for its first large frame, which crosses the socket.

use super::Connection;
use crate::lending::{self, ChannelLending, DoorTask, Lending, LendingFailure, OPENING, Ticket, is_local};
use bytes::Bytes;
use core::{
    fmt, slice,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};
use tokio::{net::TcpStream, runtime::Handle};
use zwire_proto::{
    lending::{LendingOffer, LendingTerms, LoanDescription},
    zmtp::link::{Borrow, Lend},
};

/// Memory that the connections of a node lend, and what they have lent.
pub(crate) struct LendingHost {
    pub(crate) memory: Arc<Lending>,
    /// Starts the task of the door, which ends with the node.
    spawn_door: Box<dyn Fn(DoorTask) + Send + Sync>,
    /// Frames lent to peers.
    pub(crate) lent: AtomicU64,
    /// Large frames that were written to a peer on the same host.
    pub(crate) unlent: AtomicU64,
    /// Frames borrowed from peers.
    pub(crate) borrowed: AtomicU64,
}

impl LendingHost {
    pub(crate) fn new(memory: Arc<Lending>, spawn_door: impl Fn(DoorTask) + Send + Sync + 'static) -> Self {
        Self {
            memory,
            spawn_door: Box::new(spawn_door),
            lent: AtomicU64::new(0),
            unlent: AtomicU64::new(0),
            borrowed: AtomicU64::new(0),
        }
    }

    /// Offer for the handshake on a new connection; `None` if its other end is on another host.
    pub(super) fn offer(&self, stream: &TcpStream, side: Side) -> Option<Offered> {
        let (local, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        if !self.memory.is_enabled() || !is_local(local, peer) {
            return None;
        }
        match side {
            Side::Connects => Lending::offer_to_acceptor().map(|offer| Offered { offer, ticket: None }),
            Side::Accepts => {
                let ticket = self.memory.ticket(|door| (self.spawn_door)(door))?;
                Some(Offered { offer: ticket.offer(), ticket: Some(ticket) })
            }
        }
    }
}

impl fmt::Debug for LendingHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LendingHost").finish_non_exhaustive()
    }
}

/// Which end of a connection this side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Connects,
    Accepts,
}

/// Offer of one side of a connection, and the place for the channel of one that accepts.
pub(super) struct Offered {
    pub(super) offer: LendingOffer,
    pub(super) ticket: Option<Ticket>,
}

/// Loans of both sides of a connection.
pub(super) struct ConnectionLending {
    host: Arc<LendingHost>,
    opened: OnceLock<Result<Arc<ChannelLending>, LendingFailure>>,
    /// Channel to be opened, of the side that has connected; taken by the first large frame.
    unopened: Mutex<Option<UnopenedChannel>>,
}

/// Channel of a connection before it is opened.
struct UnopenedChannel {
    runtime: Handle,
    connection: Weak<Connection>,
    terms: LendingTerms,
    /// Place for it, on the side that accepts.
    ticket: Option<Ticket>,
}

impl ConnectionLending {
    pub(super) fn new(host: Arc<LendingHost>) -> Arc<Self> {
        Arc::new(Self { host, opened: OnceLock::new(), unopened: Mutex::new(None) })
    }

    /// Finds bytes that the peer has lent.
    pub(super) fn borrow(self: &Arc<Self>) -> Borrow {
        let this = self.clone();
        Box::new(move |description| {
            let bytes = this.opened.get()?.as_ref().ok()?.resolve(description)?;
            this.host.borrowed.fetch_add(1, Ordering::Relaxed);
            Some(bytes)
        })
    }

    /// Starts lending on a connection with these terms. A side that accepts passes its `ticket`, and waits for the other
    /// side to open the channel.
    pub(super) fn start(
        self: &Arc<Self>,
        runtime: &Handle,
        connection: &Arc<Connection>,
        terms: LendingTerms,
        ticket: Option<Ticket>,
    ) {
        let accepts = ticket.is_some();
        let weak = Arc::downgrade(connection);
        let unopened = UnopenedChannel { runtime: runtime.clone(), connection: weak, terms, ticket };
        if accepts {
            self.open(unopened, Duration::MAX);
        } else {
            *self.unopened.lock() = Some(unopened);
        }
        let this = self.clone();
        let lend: Lend = Box::new(move |frame| this.lend(frame));
        connection.outbox.lock().backlog.machine.set_lend(Some(lend));
    }

    /// Opens the channel within `limit`, in a task.
    fn open(self: &Arc<Self>, unopened: UnopenedChannel, limit: Duration) {
        let UnopenedChannel { runtime, connection, terms, ticket } = unopened;
        let Some(connection) = connection.upgrade() else { return };
        let peer = connection.remote.to_string();
        let (memory, this) = (self.host.memory.clone(), self.clone());
        let set = move |opened| drop(this.opened.set(opened));
        let closed = async move { connection.closed().await };
        runtime.spawn(lending::run(memory, peer, closed, terms, ticket, limit, set));
    }

    /// Puts a frame on loan.
    #[inline]
    fn lend(self: &Arc<Self>, frame: &Bytes) -> Option<LoanDescription> {
        if frame.len() < self.host.memory.threshold() { None } else { self.lend_large(frame) }
    }

    #[inline(never)]
    fn lend_large(self: &Arc<Self>, frame: &Bytes) -> Option<LoanDescription> {
        let mut description = None;
        match self.opened.get() {
            Some(Ok(lending)) => {
                let each = |_: &Bytes, loan| description = loan;
                let _ = lending.lend(slice::from_ref(frame), frame.len(), each);
            }
            Some(Err(_)) => {}
            None => {
                if let Some(unopened) = self.unopened.lock().take() {
                    self.open(unopened, OPENING);
                }
            }
        }
        let counter = if description.is_some() { &self.host.lent } else { &self.host.unlent };
        counter.fetch_add(1, Ordering::Relaxed);
        description
    }
}
