//! Why there is no connection.

use crate::{
    error::{DecodeError, Origin},
    zmtp::{
        limits::{MAX_HANDSHAKE_COMMAND, MAX_IDENTITY},
        wire::{Generation, Mechanism, SocketType},
    },
};
use bytes::Bytes;
use core::fmt;
use thiserror::Error;

/// Why the authenticator does not let a peer in (`zmtp` 7): the status codes of ZAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// 300: not now. The peer is told nothing, closed, and may try again.
    Temporary,
    /// 400: its credentials are wrong.
    Refused,
    /// 500: the authenticator failed.
    Internal,
}

impl Denial {
    /// The reason in ERROR. To libzmq it means never to come back: not for what may pass.
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

/// Why there is no connection. What there is to transmit has to be, then the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// A greeting, frame or command that does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A peer of a generation that we do not speak, or not with this security.
    #[error("the peer speaks {0}")]
    Generation(Generation),
    /// The peer wants another mechanism.
    #[error("the peer has the mechanism {theirs}, we have {ours}")]
    Mechanism {
        /// Of our security.
        ours: Mechanism,
        /// In its greeting.
        theirs: Mechanism,
    },
    /// A command above [`MAX_HANDSHAKE_COMMAND`]; it was not waited for.
    #[error("command of {0} bytes, {MAX_HANDSHAKE_COMMAND} are allowed")]
    TooLong(u64),
    /// Part of a message of several frames.
    #[error("a message in the handshake")]
    NotACommand,
    /// Another command than the next of the handshake.
    #[error("{} instead of {expected}", .got.escape_ascii())]
    Unexpected {
        /// What was due.
        expected: &'static str,
        /// The name of what came.
        got: Bytes,
    },
    /// The peer's socket must not meet ours. It was told.
    #[error("a {ours} cannot meet a {}", .theirs.escape_ascii())]
    SocketType {
        /// Ours.
        ours: SocketType,
        /// The name of the peer's.
        theirs: Bytes,
    },
    /// An identity above [`MAX_IDENTITY`].
    #[error("identity of {0} bytes, {MAX_IDENTITY} are allowed")]
    Identity(usize),
    /// The peer sent ERROR. It must not be asked again with the same credentials.
    #[error("the peer refused: {}", .reason.escape_ascii())]
    Peer {
        /// What it said: a status code of an authenticator, or words.
        reason: Bytes,
    },
    /// Our authenticator denied it.
    #[error("denied: {0}")]
    Denied(Denial),
    /// A box that was made with other keys than the ones we know, or changed on the way.
    #[error("the box of {command} does not open")]
    Sealed {
        /// In which command.
        command: &'static str,
    },
    /// A public key that makes no secret.
    #[error("{command} has a key of small order")]
    WeakKey {
        /// In which command.
        command: &'static str,
    },
    /// The server key that we were given makes no secret.
    #[error("the server key of the configuration is of small order")]
    ServerKey,
    /// A version of CURVE that we do not speak.
    #[error("CURVE {}.{}", .0[0], .0[1])]
    CurveVersion([u8; 2]),
    /// A short nonce that is not larger than the one before.
    #[error("nonce {got} after {last}")]
    Nonce {
        /// On the wire.
        got: u64,
        /// The one before.
        last: u64,
    },
    /// A cookie that we did not give.
    #[error("wrong cookie")]
    Cookie,
    /// The client's permanent key does not vouch for this connection.
    #[error("the client's key does not vouch for this connection")]
    Vouch,
    /// `allow` or `deny` without a [`Step::Authenticate`](super::Step::Authenticate) before it.
    #[error("nobody waits to be judged")]
    NobodyWaits,
    /// The machine has already ended.
    #[error("the handshake is over")]
    Over,
}

impl HandshakeError {
    /// Whose fault it is.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        match self {
            Self::Denied(_) | Self::ServerKey | Self::NobodyWaits | Self::Over => Origin::Local,
            _ => Origin::Remote,
        }
    }

    /// Whether the same attempt may succeed later: the peer could not be told from one that has just
    /// started, or asks for patience.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Denied(Denial::Temporary))
    }
}
