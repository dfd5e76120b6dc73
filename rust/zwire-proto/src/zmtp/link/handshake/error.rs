//! Errors of the handshake.

use crate::{
    error::DecodeError,
    zmtp::{
        limits::{MAX_HANDSHAKE_COMMAND, MAX_IDENTITY},
        wire::{Mechanism, SocketType, ZmtpGeneration},
    },
};
use bytes::Bytes;
use core::fmt;
use thiserror::Error;

/// Reason why the authenticator refuses a peer (`zmtp` 7): the status codes of ZAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// 300: temporary. The peer gets no ERROR, is closed, and may try again.
    Temporary,
    /// 400: its credentials are wrong.
    Refused,
    /// 500: the authenticator failed.
    Internal,
}

impl Denial {
    /// The reason in ERROR. libzmq takes an ERROR for final and does not retry, so a temporary denial
    /// sends none.
    pub(super) const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Temporary => None,
            Self::Refused => Some("400"),
            Self::Internal => Some("500"),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Temporary => "temporarily (300)",
            Self::Refused => "wrong credentials (400)",
            Self::Internal => "the authenticator failed (500)",
        })
    }
}

/// Reason why a handshake failed. The driver transmits pending bytes, then closes the connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ZmtpHandshakeError {
    /// A greeting, frame or command that does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A peer of a generation that this side does not speak, or not with this security.
    #[error("the peer speaks {0}")]
    Generation(ZmtpGeneration),
    /// The peer wants another mechanism.
    #[error("the peer uses the mechanism {theirs}, this side {ours}")]
    Mechanism {
        /// Mechanism of this side.
        ours: Mechanism,
        /// Mechanism in the peer's greeting.
        theirs: Mechanism,
    },
    /// A command above [`MAX_HANDSHAKE_COMMAND`]; its bytes are not awaited.
    #[error("command of {0} bytes, {MAX_HANDSHAKE_COMMAND} are allowed")]
    TooLong(u64),
    /// Part of a message of several frames.
    #[error("a message frame during the handshake")]
    NotACommand,
    /// A command other than the next one of the handshake.
    #[error("{} instead of {expected}", .got.escape_ascii())]
    Unexpected {
        /// Expected command.
        expected: &'static str,
        /// Name of the received command.
        got: Bytes,
    },
    /// The types of the two sockets must not be connected. The peer was sent ERROR.
    #[error("a {ours} cannot be connected to a {}", .theirs.escape_ascii())]
    SocketType {
        /// Local socket type.
        ours: SocketType,
        /// Name of the peer's socket type.
        theirs: Bytes,
    },
    /// An identity above [`MAX_IDENTITY`].
    #[error("identity of {0} bytes, {MAX_IDENTITY} are allowed")]
    Identity(usize),
    /// The peer sent ERROR. The driver must not retry with the same credentials.
    #[error("the peer refused: {}", .reason.escape_ascii())]
    Peer {
        /// Reason given by the peer: a status code of an authenticator, or text.
        reason: Bytes,
    },
    /// The local authenticator denied the peer.
    #[error("denied: {0}")]
    Denied(Denial),
    /// A box made with other keys than the known ones, or changed on the way.
    #[error("the box of {command} does not open")]
    Sealed {
        /// Command that holds the box.
        command: &'static str,
    },
    /// A public key of small order, which gives no shared secret.
    #[error("{command} has a key of small order")]
    WeakKey {
        /// Command that holds the key.
        command: &'static str,
    },
    /// The configured server key is of small order and gives no shared secret.
    #[error("the server key of the configuration is of small order")]
    ServerKey,
    /// An unsupported version of CURVE.
    #[error("CURVE {}.{}", .0[0], .0[1])]
    CurveVersion([u8; 2]),
    /// A short nonce that is not larger than the one before.
    #[error("nonce {got} after {last}")]
    Nonce {
        /// Nonce on the wire.
        got: u64,
        /// Previous nonce.
        last: u64,
    },
    /// A cookie that this server did not make.
    #[error("wrong cookie")]
    Cookie,
    /// The client's permanent key does not vouch for this connection.
    #[error("the client's key does not vouch for this connection")]
    Vouch,
    /// `allow` or `deny` without a [`HandshakeStep::Authenticate`](super::HandshakeStep::Authenticate) before it.
    #[error("no peer waits for authentication")]
    NobodyWaits,
    /// The machine has already ended.
    #[error("the handshake is over")]
    Over,
}

impl ZmtpHandshakeError {
    /// Whether the same attempt may succeed later. Only a temporary denial is: the peer asks for a
    /// retry without saying so in an ERROR.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Denied(Denial::Temporary))
    }

    /// Short name of the failure, for programs.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Peer { .. } => "refused",
            Self::Denied(_) => "denied",
            Self::Mechanism { .. } => "mechanism",
            Self::SocketType { .. } => "socket-type",
            Self::Sealed { .. } | Self::Vouch | Self::ServerKey => "key",
            Self::Decode(_)
            | Self::Generation(_)
            | Self::TooLong(_)
            | Self::NotACommand
            | Self::Unexpected { .. }
            | Self::Identity(_)
            | Self::WeakKey { .. }
            | Self::CurveVersion(_)
            | Self::Nonce { .. }
            | Self::Cookie
            | Self::NobodyWaits
            | Self::Over => "protocol",
        }
    }
}
