//! One link to one node: handshake, sending, receiving (`zenoh-wire` 3, `zenoh-behaviour` 2).
//!
//! ```text
//!   socket ──▶ StreamFramer ──▶ Opener / Acceptor ──▶ LinkParams
//!          ──▶ StreamFramer ──▶ LinkRx ──▶ network messages
//!          ◀───────────────── LinkTx ◀── network messages
//! ```
//!
//! | Machine | Takes | Gives |
//! | --- | --- | --- |
//! | [`Opener`], [`Acceptor`] | batches of the handshake | batches, then [`LinkParams`] |
//! | [`LinkTx`] | network messages | batches: lanes by priority, FRAME, FRAGMENT, LZ4, keep-alive |
//! | [`LinkRx`] | batches | network messages; lease, sequence numbers, reassembly |
//!
//! What a peer may cost us: one batch of the negotiated size in the framer, the bytes that
//! [`RxConfig`] allows for reassembly, one scratch batch for decompression. What is wrong with its
//! bytes ends its link ([`LinkError`]) or is dropped and counted ([`RxStats`]).

mod announce;
mod auth;
mod batch;
mod compression;
pub mod defrag;
mod framer;
mod handshake;
mod lane;
mod qos_link;
mod rx;
mod sn;
mod tx;

#[cfg(test)]
mod tests;

pub use super::Remote;
pub use announce::JOIN_GAP;
pub use auth::Credentials;
pub use compression::Decompressor;
pub use framer::{StreamFramer, close_batch, frame_batch};
pub use handshake::{Acceptor, AuthFailure, HandshakeConfig, HandshakeError, Opener, Step};
pub use qos_link::QosLink;
pub use rx::{LinkRx, Progress, RxConfig, RxStats};
pub use tx::{Discarded, LinkTx, PushError, TxConfig, TxStats};

use super::{
    Priority,
    wire::{CloseReason, Resolution},
};
use crate::error::{DecodeError, Origin};
use core::time::Duration;
use thiserror::Error;

/// What a handshake has agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkParams {
    /// The other node.
    pub remote: Remote,
    /// Largest batch, everything counted: stream prefix, batch header, messages.
    pub batch_size: u16,
    /// Widths of sequence numbers and request ids.
    pub resolution: Resolution,
    /// Each priority is a pair of channels; else Data is the only priority.
    pub qos: bool,
    /// The priorities and the reliability that this link is for.
    pub qos_link: QosLink,
    /// Every batch has a header byte and may be an LZ4 block.
    pub compression: bool,
    /// Bare network messages behind a `u32` prefix.
    pub low_latency: bool,
    /// 1: FRAGMENT has its First and Drop marks.
    pub patch: u8,
    /// The first sequence number of each of our channels.
    pub tx_initial_sn: u32,
    /// The first sequence number of each of the peer's channels.
    pub rx_initial_sn: u32,
    /// What we announced: we must not be silent for longer.
    pub own_lease: Duration,
    /// What the peer announced: silent for longer, it is gone.
    pub peer_lease: Duration,
    /// Batches travel behind a length prefix; else the link keeps their boundaries. Towards the driver
    /// they stand behind one either way: that of a link that keeps boundaries is not sent.
    pub streamed: bool,
    /// The name by which the peer has proved itself.
    pub user: Option<crate::Text>,
    /// The name of the peer's region.
    pub region_name: Option<crate::Text>,
}

impl LinkParams {
    /// How many bytes of the length prefix there are in front of a batch.
    pub(crate) const fn prefix_len(&self) -> usize {
        if self.low_latency { 4 } else { 2 }
    }

    /// The largest value of the length prefix: the prefix counts (`zenoh-wire` 3.1), except in low
    /// latency (3.14) and where it is not sent.
    #[must_use]
    pub const fn max_batch(&self) -> usize {
        let prefix = if self.streamed && !self.low_latency { 2 } else { 0 };
        (self.batch_size as usize).saturating_sub(prefix)
    }

    /// The largest sequence number.
    pub(crate) const fn sn_mask(&self) -> u32 {
        self.resolution.sn_mask()
    }
}

/// What ends a link in its data phase.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A message that does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A length prefix above what was negotiated.
    #[error("batch of {len} bytes announced, {max} are allowed")]
    TooLong {
        /// The prefix.
        len: usize,
        /// The bound.
        max: usize,
    },
    /// A sequence number with bits outside the negotiated width.
    #[error("sequence number {sn:#x} outside the mask {mask:#x}")]
    SnOutsideMask {
        /// On the wire.
        sn: u32,
        /// Of the resolution.
        mask: u32,
    },
    /// A priority other than Data, though QoS was not negotiated.
    #[error("priority {priority:?} without QoS")]
    PriorityWithoutQos {
        /// Of the FRAME or FRAGMENT.
        priority: Priority,
    },
    /// A transport message that a low-latency link does not have.
    #[error("{message} on a low-latency link")]
    NotLowLatency {
        /// Which.
        message: &'static str,
    },
}

impl LinkError {
    /// Whose fault it is. Everything that arrives is the peer's.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        Origin::Remote
    }

    /// What the peer is told before its connection is closed (`zenoh-wire` 9.4); the reference is
    /// silent here.
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        Some(CloseReason::INVALID)
    }
}
