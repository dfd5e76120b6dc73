//! Connection of a socket: handshake, sending, receiving (`zmtp` 2).
//!
//! ```text
//!   stream ──▶ Handshake ──▶ LinkParams
//!          ──▶ LinkRx ──▶ messages, subscriptions, PINGs
//!          ◀── LinkTx ◀── messages, subscriptions, PONGs
//! ```
//!
//! | Machine | Takes | Gives |
//! | --- | --- | --- |
//! | [`Handshake`] | the stream from its first byte | greeting and commands, a question to the authenticator, then [`ZmtpLinkParams`] |
//! | [`ZmtpRx`] | the stream behind the handshake | [`Inbound`]; whether the peer is gone |
//! | [`ZmtpTx`] | [`Message`]s up to a high-water mark | segments for vectored writes; PINGs |
//!
//! Bounds of memory per peer: 64 KiB in the handshake, one message of the size that [`ZmtpRxConfig`] allows
//! afterwards, and under CURVE the open copy of a frame beside the sealed one. An announced size
//! reserves no memory. Malformed bytes end the connection.

#[cfg_attr(not(feature = "curve"), path = "curve_absent.rs")]
pub mod curve;
mod handshake;
mod message;
mod rx;
mod tx;

#[cfg(test)]
mod tests;

pub use handshake::{
    AuthRequest, CurveClient, CurveServer, Denial, Handshake, HandshakeStep, InvalidIdentity,
    PlainCredentials, Security, ZmtpHandshakeConfig, ZmtpHandshakeError,
};
pub use message::Message;
pub use rx::{Borrow, Inbound, ZmtpRx, ZmtpRxConfig, ZmtpRxStats};
pub use tx::{Lend, Rejected, ZmtpPushError, ZmtpTx, ZmtpTxConfig, ZmtpTxStats};

use super::wire::{Metadata, SocketType};
use crate::{
    error::DecodeError,
    lending::{LendingTerms, LoanDescription},
    named::named,
};
use bytes::Bytes;
use core::{fmt, time::Duration};
use thiserror::Error;

named! {
    /// Version that both ends support.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Version {
        /// No commands at all.
        V2_0 = "2.0",
        /// Commands in the handshake alone.
        V3_0 = "3.0",
        /// Commands in traffic: SUBSCRIBE, CANCEL, PING.
        V3_1 = "3.1",
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The socket at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Socket type, if the peer has sent it; libzmq accepts peers that do not.
    pub socket_type: Option<SocketType>,
    /// Identity; empty if the peer has none. A first byte of 0 is tolerated.
    pub identity: Bytes,
    /// Metadata sent by the peer.
    pub metadata: Metadata,
    /// User id given by the local authenticator; empty if there is none.
    pub user_id: Bytes,
    /// Metadata added by the local authenticator.
    pub auth_metadata: Metadata,
}

/// Result of a handshake.
#[derive(Debug)]
pub struct ZmtpLinkParams {
    /// Local socket type.
    pub socket_type: SocketType,
    /// Version that limits which commands may be sent.
    pub version: Version,
    /// The other side.
    pub peer: Peer,
    /// Agreement to lend payloads in shared memory.
    pub lending: Option<LendingTerms>,
    /// Keys that seal frames, under CURVE.
    session: Option<curve::CurveSession>,
}

/// Heartbeat settings: when to send PING to a silent peer, and when to close the connection (`zmtp`
/// 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time between two PINGs.
    pub interval: Duration,
    /// Longest silence after a PING.
    pub timeout: Duration,
    /// TTL sent in PING: the silence after which the peer should close the connection. Zero requests
    /// none; more than 65.5 s is sent as 65.5 s.
    pub ttl: Duration,
    /// Send PING also to peers of 3.0. libzmq understands PING since 4.2 and announces 3.1 since 4.3.3;
    /// older ones hand it to the application as a message.
    pub also_to_3_0: bool,
}

impl Heartbeat {
    /// A heartbeat with a timeout and a TTL of `missed` intervals.
    #[must_use]
    pub fn every(interval: Duration, missed: u32) -> Self {
        let timeout = interval.saturating_mul(missed.max(1));
        Self { interval, timeout, ttl: timeout, also_to_3_0: false }
    }

    /// Whether a peer of this version gets PINGs.
    const fn reaches(&self, version: Version) -> bool {
        match version {
            Version::V2_0 => false,
            Version::V3_0 => self.also_to_3_0,
            Version::V3_1 => true,
        }
    }
}

/// Error that ends a connection after its handshake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ZmtpLinkError {
    /// A frame or a command that does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message above the bound; its bytes are not awaited.
    #[error("message of at least {len} bytes, {max} are allowed")]
    TooLarge {
        /// Bytes received or announced.
        len: u64,
        /// The bound.
        max: usize,
    },
    /// A command from a peer of ZMTP 2.0, which has none.
    #[error("a command from a peer of ZMTP 2.0")]
    CommandOfOldPeer,
    /// A LOAN of bytes that the peer has not lent, or with a frame behind it that has bytes itself.
    #[error("LOAN of {} bytes: {problem}", .loan.len)]
    Loan {
        /// What the peer has sent.
        loan: LoanDescription,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Under CURVE: a box made with another key, or changed on the way.
    #[error("the box of MESSAGE does not open")]
    Sealed,
    /// Under CURVE: a short nonce that is not larger than the previous one, as in a replay.
    #[error("nonce {got} after {last}")]
    Nonce {
        /// Nonce on the wire.
        got: u64,
        /// Previous nonce.
        last: u64,
    },
    /// Under CURVE: undefined flags in a box.
    #[error("flags {flags:#04x} in a box")]
    SealedFlags {
        /// The byte.
        flags: u8,
    },
    /// The peer sent ERROR.
    #[error("the peer closed: {}", .reason.escape_ascii())]
    Peer {
        /// Reason given by the peer.
        reason: Bytes,
    },
}
