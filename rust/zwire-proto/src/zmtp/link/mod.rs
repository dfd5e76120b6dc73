//! One connection to one socket: handshake, sending, receiving (`zmtp` 2).
//!
//! ```text
//!   stream ──▶ Handshake ──▶ LinkParams
//!          ──▶ LinkRx ──▶ messages, subscriptions, PINGs
//!          ◀── LinkTx ◀── messages, subscriptions, PONGs
//! ```
//!
//! | Machine | Takes | Gives |
//! | --- | --- | --- |
//! | [`Handshake`] | the stream from its first byte | greeting and commands, a question to the authenticator, then [`LinkParams`] |
//! | [`LinkRx`] | the stream behind the handshake | [`Inbound`]; when the peer is gone |
//! | [`LinkTx`] | [`Message`]s up to a high-water mark | segments for vectored writes; PINGs |
//!
//! What a peer may cost us: 64 KiB in the handshake, one message of the size that [`RxConfig`] allows
//! afterwards, and under CURVE the open copy of a frame beside the sealed one. A size that it claims costs
//! nothing. What is wrong with its bytes ends its connection.

pub mod curve;
mod handshake;
mod message;
mod rx;
mod tx;

#[cfg(test)]
mod tests;

pub use handshake::{
    AuthRequest, CurveClient, CurveServer, Denial, Handshake, HandshakeConfig, HandshakeError,
    InvalidIdentity, PlainCredentials, Security, Step,
};
pub use message::Message;
pub use rx::{Inbound, LinkRx, RxConfig, RxStats};
pub use tx::{LinkTx, PushError, Rejected, TxConfig, TxStats};

use super::wire::{Metadata, SocketType};
use crate::error::{DecodeError, Origin};
use bytes::Bytes;
use core::{fmt, time::Duration};
use thiserror::Error;

/// What both ends can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// No commands at all.
    V2_0,
    /// Commands in the handshake alone.
    V3_0,
    /// Commands in traffic: SUBSCRIBE, CANCEL, PING.
    V3_1,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2_0 => "2.0",
            Self::V3_0 => "3.0",
            Self::V3_1 => "3.1",
        })
    }
}

/// The socket at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its type, if it has told it; libzmq accepts peers that do not.
    pub socket_type: Option<SocketType>,
    /// Its identity; empty when it has none. A first byte of 0 is tolerated.
    pub identity: Bytes,
    /// All that it has told.
    pub metadata: Metadata,
    /// Who it is, in the words of our authenticator; empty when nobody was asked.
    pub user_id: Bytes,
    /// What our authenticator added.
    pub auth_metadata: Metadata,
}

/// What a handshake has agreed on.
#[derive(Debug)]
pub struct LinkParams {
    /// Our socket.
    pub socket_type: SocketType,
    /// What may be sent.
    pub version: Version,
    /// The other side.
    pub peer: Peer,
    /// Under CURVE, what frames are sealed with.
    session: Option<curve::Session>,
}

/// When to ask a silent peer whether it is there, and when to give it up (`zmtp` 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Between two PINGs.
    pub interval: Duration,
    /// How long after a PING nothing may come.
    pub timeout: Duration,
    /// What the PING asks of the peer: to give us up when nothing comes for this long. Zero asks nothing;
    /// more than 65.5 s is sent as 65.5 s.
    pub ttl: Duration,
    /// Also to peers of 3.0. libzmq understands PING since 4.2 and announces 3.1 since 4.3.3; older ones
    /// hand it to the application as a message.
    pub also_to_3_0: bool,
}

impl Heartbeat {
    /// With a timeout and a TTL of that many intervals.
    #[must_use]
    pub fn every(interval: Duration, missed: u32) -> Self {
        let timeout = interval.saturating_mul(missed.max(1));
        Self { interval, timeout, ttl: timeout, also_to_3_0: false }
    }

    /// Whether such a peer gets PINGs.
    const fn reaches(&self, version: Version) -> bool {
        match version {
            Version::V2_0 => false,
            Version::V3_0 => self.also_to_3_0,
            Version::V3_1 => true,
        }
    }
}

/// What ends a connection behind its handshake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A frame or a command that does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message above the bound; it was not waited for.
    #[error("message of at least {len} bytes, {max} are allowed")]
    TooLarge {
        /// What is there or announced.
        len: u64,
        /// The bound.
        max: usize,
    },
    /// A command from a peer of ZMTP 2.0, which has none.
    #[error("a command from a peer of ZMTP 2.0")]
    CommandOfOldPeer,
    /// Under CURVE: a box that was made with another key, or changed on the way.
    #[error("the box of MESSAGE does not open")]
    Sealed,
    /// Under CURVE: a short nonce that is not larger than the one before, as of a message sent again.
    #[error("nonce {got} after {last}")]
    Nonce {
        /// On the wire.
        got: u64,
        /// The one before.
        last: u64,
    },
    /// Under CURVE: flags in a box that mean nothing.
    #[error("flags {flags:#04x} in a box")]
    SealedFlags {
        /// The byte.
        flags: u8,
    },
    /// The peer sent ERROR.
    #[error("the peer closed: {}", .reason.escape_ascii())]
    Peer {
        /// What it said.
        reason: Bytes,
    },
}

impl LinkError {
    /// Whose fault it is. Everything that arrives is the peer's.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        Origin::Remote
    }
}
