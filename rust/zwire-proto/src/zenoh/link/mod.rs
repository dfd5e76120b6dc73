//! Links: handshake, sending and receiving on a connection to one node (`zenoh-wire` 3,
//! `zenoh-behaviour` 2).
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
//! Bounds of memory per peer: one batch of the negotiated size in the framer, the bytes that
//! [`RxConfig`] allows for reassembly, one scratch batch for decompression. Malformed bytes end the
//! link ([`LinkError`]) or are dropped and counted ([`RxStats`]).

mod announce;
mod auth;
mod batch;
mod compression;
pub mod defrag;
mod framer;
mod handshake;
mod lane;
pub mod named;
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
use crate::{error::DecodeError, lending::LendingTerms};
use core::time::Duration;
use named::NamedTerms;
use thiserror::Error;

/// Result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkParams {
    /// The other node.
    pub remote: Remote,
    /// Largest batch, everything counted: stream prefix, batch header, messages.
    pub batch_size: u16,
    /// Widths of sequence numbers and request ids.
    pub resolution: Resolution,
    /// Whether each priority is a pair of channels; else Data is the only priority.
    pub qos: bool,
    /// The priorities and the reliability that this link carries.
    pub qos_link: QosLink,
    /// Whether every batch has a header byte and may be an LZ4 block.
    pub compression: bool,
    /// Bare network messages behind a `u32` prefix.
    pub low_latency: bool,
    /// 1: FRAGMENT has its First and Drop marks.
    pub patch: u8,
    /// The first sequence number of each channel of this side.
    pub tx_initial_sn: u32,
    /// The first sequence number of each of the peer's channels.
    pub rx_initial_sn: u32,
    /// Lease announced by this side: its longest allowed silence.
    pub own_lease: Duration,
    /// Lease announced by the peer: after a longer silence it is gone.
    pub peer_lease: Duration,
    /// Whether batches travel behind a length prefix; else the link preserves their boundaries. The
    /// driver gets the prefix in either case; on a link that preserves boundaries it does not send it.
    pub streamed: bool,
    /// User name that the peer has authenticated with.
    pub user: Option<crate::Text>,
    /// The name of the peer's region.
    pub region_name: Option<crate::Text>,
    /// Agreement to lend memory.
    pub lending: Option<LendingTerms>,
    /// Agreement on shared memory with names.
    pub named: Option<NamedTerms>,
}

impl LinkParams {
    /// Length of the prefix in front of a batch.
    pub(crate) const fn prefix_len(&self) -> usize {
        if self.low_latency { 4 } else { 2 }
    }

    /// The largest value of the length prefix: the prefix itself counts (`zenoh-wire` 3.1), except in
    /// low latency (3.14) and where it is not sent.
    #[must_use]
    pub const fn max_batch(&self) -> usize {
        let prefix = if self.streamed && !self.low_latency { 2 } else { 0 };
        (self.batch_size as usize).saturating_sub(prefix)
    }

    /// Whether payloads in shared memory are agreed on.
    #[must_use]
    pub const fn is_lending(&self) -> bool {
        self.lending.is_some() || self.named.is_some()
    }

    /// The largest sequence number.
    pub(crate) const fn sn_mask(&self) -> u32 {
        self.resolution.sn_mask()
    }
}

/// Error that ends a link in its data phase.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// A message that does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A length prefix above the negotiated bound.
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
        /// Number on the wire.
        sn: u32,
        /// Mask of the resolution.
        mask: u32,
    },
    /// A priority other than Data, though QoS was not negotiated.
    #[error("priority {priority:?} without QoS")]
    PriorityWithoutQos {
        /// Priority of the FRAME or FRAGMENT.
        priority: Priority,
    },
    /// A transport message that a low-latency link does not have.
    #[error("{message} on a low-latency link")]
    NotLowLatency {
        /// Name of the message.
        message: &'static str,
    },
}

impl LinkError {
    /// Reason to send in CLOSE before the connection is closed (`zenoh-wire` 9.4); Eclipse Zenoh sends
    /// none here.
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        Some(CloseReason::INVALID)
    }
}
