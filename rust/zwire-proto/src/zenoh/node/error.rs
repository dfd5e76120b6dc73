//! Why a face must be closed.

use crate::{DecodeError, zenoh::wire::CloseReason};
use thiserror::Error;

/// A message that costs its sender the connection. The message was not obeyed, the node is as before
/// it; the driver sends CLOSE with [`Self::close_reason`] and calls
/// [`Node::handle_face_down`](super::Node::handle_face_down).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FaceError {
    /// There is no such face: the driver handed over a message after it had taken the face down.
    #[error("no such face")]
    UnknownFace,
    /// The declarations of the face need more than
    /// [`FaceLimits::table_bytes`](super::FaceLimits::table_bytes).
    #[error("declarations of {needed} bytes where {bound} are allowed")]
    TableFull {
        /// What all its declarations would take.
        needed: usize,
        /// What they may take.
        bound: usize,
    },
    /// More interests than [`FaceLimits::interests`](super::FaceLimits::interests).
    #[error("more than {bound} interests")]
    TooManyInterests {
        /// How many are allowed.
        bound: usize,
    },
    /// More unfinished queries than [`FaceLimits::queries`](super::FaceLimits::queries).
    #[error("more than {bound} unfinished queries")]
    TooManyQueries {
        /// How many are allowed.
        bound: usize,
    },
    /// A link state of a peer or router that does not decode.
    #[error(transparent)]
    LinkState(#[from] DecodeError),
}

impl FaceError {
    /// What the CLOSE message says; `None`: there is nobody to tell.
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        match self {
            Self::UnknownFace => None,
            Self::LinkState(_) => Some(CloseReason::INVALID),
            // The protocol has no reason for "you want too much".
            Self::TableFull { .. } | Self::TooManyInterests { .. } | Self::TooManyQueries { .. } => {
                Some(CloseReason::GENERIC)
            }
        }
    }
}
