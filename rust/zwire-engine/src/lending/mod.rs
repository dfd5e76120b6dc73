//! Lending of payloads in shared memory to neighbours on the same host (`zwire_proto::lending`).
//!
//! [`Lending`] belongs to a session or a node: the pool that large payloads are placed in, and the door by which neighbours
//! connect channels. [`ChannelLending`] belongs to a link: the loans of both sides.

use core::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

#[cfg(not(target_os = "linux"))]
mod absent;
#[cfg(target_os = "linux")]
mod borrower;
mod buffer;
#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod door;
#[cfg(target_os = "linux")]
pub(crate) mod files;
#[cfg(target_os = "linux")]
pub(crate) mod lender;

pub use buffer::{PayloadBuffer, SharedPool, is_shared};

#[cfg(not(target_os = "linux"))]
pub(crate) use absent::{ChannelLending, DoorTask, Lending, Ticket, run};
#[cfg(target_os = "linux")]
pub(crate) use {
    channel::{ChannelLending, run},
    door::{DoorTask, Ticket},
    lender::Lending,
};

/// Reason for which a link does not lend although both sides have offered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LendingFailure {
    /// The door of the other side is out of reach: another network namespace.
    Unreachable,
    /// The process at the other end belongs to another user.
    User,
    /// The other side does not answer.
    TimedOut,
    /// The system has no memory or no descriptors.
    System,
    /// The other side breaks the rules of the channel.
    Protocol,
}

impl LendingFailure {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::Unreachable, Self::User, Self::TimedOut, Self::System, Self::Protocol];

    /// Short name of the reason, for programs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::User => "user",
            Self::TimedOut => "timed_out",
            Self::System => "system",
            Self::Protocol => "protocol",
        }
    }
}

/// Counters of the lending of a session or node.
#[derive(Debug, Default)]
pub(crate) struct LendingStats {
    /// Payloads that were not placed, because the pool was full.
    pub(crate) pool_full: AtomicU64,
    /// Payloads that were delivered in the memory of a neighbour of Eclipse Zenoh.
    pub(crate) borrowed: AtomicU64,
    /// Number of them that are held now.
    pub(crate) held: AtomicU64,
    /// Messages that did not reach a receiver, because such a payload was taken back before it was copied.
    pub(crate) stale: AtomicU64,
    /// Links that could not lend, by [`LendingFailure`].
    pub(crate) failed: [AtomicU64; LendingFailure::ALL.len()],
}

impl LendingStats {
    /// Calls `add` with the name and value of each counter.
    pub(crate) fn each(&self, mut add: impl FnMut(&str, u64)) {
        add("lending.pool_full", self.pool_full.load(Ordering::Relaxed));
        add("lending.borrowed", self.borrowed.load(Ordering::Relaxed));
        add("lending.held", self.held.load(Ordering::Relaxed));
        add("lending.stale", self.stale.load(Ordering::Relaxed));
        for (failure, count) in LendingFailure::ALL.iter().zip(&self.failed) {
            add(&format!("lending.failed.{}", failure.word()), count.load(Ordering::Relaxed));
        }
    }
}

/// Time within which both sides have a channel, once one of them opens it.
pub(crate) const OPENING: Duration = Duration::from_secs(5);

/// Whether both ends of a connection are in this network namespace.
pub(crate) fn is_local(local: SocketAddr, peer: SocketAddr) -> bool {
    let (local, peer) = (local.ip().to_canonical(), peer.ip().to_canonical());
    // That of a QUIC socket may be unspecified.
    local == peer || peer.is_loopback()
}
