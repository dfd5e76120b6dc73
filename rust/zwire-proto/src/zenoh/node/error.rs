//! Errors that close a face.

use crate::{DecodeError, zenoh::wire::CloseReason};
use core::time::Duration;
use thiserror::Error;

/// Result of an input of a face.
pub(super) type FaceResult = Result<(), FaceError>;

/// A message that closes the connection of its sender. The message had no effect, the node is in the
/// state before it; the driver sends CLOSE with [`Self::close_reason`] and calls
/// [`Node::handle_face_down`](super::Node::handle_face_down).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FaceError {
    /// Unknown face: the driver handed over a message after it had taken the face down.
    #[error("no such face")]
    UnknownFace,
    /// The declarations of the face need more than
    /// [`FaceLimits::table_bytes`](super::FaceLimits::table_bytes).
    #[error("declarations of {needed} bytes where {bound} are allowed")]
    TableFull {
        /// Bytes that all its declarations would take.
        needed: usize,
        /// Bytes allowed.
        bound: usize,
    },
    /// The declarations of all faces need more than
    /// [`FaceLimits::node_bytes`](super::FaceLimits::node_bytes), and this face has used its share.
    #[error(
        "declarations of all links of {needed} bytes where {bound} are allowed, and more than {share} on this link"
    )]
    NodeFull {
        /// Bytes that all declarations would take.
        needed: usize,
        /// Bytes allowed.
        bound: usize,
        /// Bytes that this face may use in any case.
        share: usize,
    },
    /// The long keys with wildcards of all faces take longer to compare than
    /// [`MAX_SLOW_KEYS`](crate::limits::MAX_SLOW_KEYS), and this face has used its share.
    #[error(
        "long keys with wildcards of all links that take {needed:?} to compare where {bound:?} are allowed, and \
         more than its share on this link"
    )]
    SlowKeys {
        /// Time that all of them would take.
        needed: Duration,
        /// Time allowed.
        bound: Duration,
    },
    /// More interests than [`FaceLimits::interests`](super::FaceLimits::interests).
    #[error("more than {bound} interests")]
    TooManyInterests {
        /// Number allowed.
        bound: usize,
    },
    /// More unfinished queries than [`FaceLimits::queries`](super::FaceLimits::queries).
    #[error("more than {bound} unfinished queries")]
    TooManyQueries {
        /// Number allowed.
        bound: usize,
    },
    /// A link state of a peer or router that does not decode.
    #[error(transparent)]
    LinkState(#[from] DecodeError),
}

impl FaceError {
    /// Reason for the CLOSE message; `None`: there is no link to close.
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        match self {
            Self::UnknownFace => None,
            Self::LinkState(_) => Some(CloseReason::INVALID),
            // The protocol has no reason for an exceeded resource limit.
            Self::TableFull { .. }
            | Self::NodeFull { .. }
            | Self::SlowKeys { .. }
            | Self::TooManyInterests { .. }
            | Self::TooManyQueries { .. } => Some(CloseReason::GENERIC),
        }
    }
}
