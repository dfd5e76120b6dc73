//! [`LinkEnd`]: reasons why links end.

use std::io;
use thiserror::Error;
use zwire_proto::zenoh::{link::LinkError, node::FaceError, session::NorthError, wire::CloseReason};

/// Reason for the end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkEnd {
    /// Closed locally.
    #[error("closed here")]
    Closed,
    /// The peer closed it.
    #[error("closed by the peer: {0}")]
    ByPeer(CloseReason),
    /// The connection ended without a CLOSE message.
    #[error("the connection ended without a goodbye")]
    Lost,
    /// The operating system reported an error.
    #[error("{0}")]
    Io(String),
    /// No data was received within the lease that the peer had announced.
    #[error("the lease of the peer expired")]
    Silent,
    /// The peer violated the protocol.
    #[error("{0}")]
    Protocol(PeerFault),
    /// The peer did not take the data sent to it in time.
    #[error("the peer did not take what was sent to it")]
    Unresponsive,
}

/// Rule that a peer has broken, which costs it its link.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PeerFault {
    /// Of the framing or the sequence of its messages.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Of the bounds that a node keeps for each neighbour.
    #[error(transparent)]
    Face(#[from] FaceError),
    /// Of the bounds that a client keeps for its router.
    #[error(transparent)]
    North(#[from] NorthError),
}

impl PeerFault {
    /// Reason in the CLOSE that the peer gets; `None`: it gets none.
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        match self {
            Self::Link(error) => error.close_reason(),
            Self::Face(error) => error.close_reason(),
            Self::North(error) => Some(error.close_reason()),
        }
    }
}

impl LinkEnd {
    /// Reason for an error of a connection. The system of a peer that dies with unread data reports a
    /// reset instead of an end of file: both are `Lost`.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => Self::Lost,
            _ => Self::Io(error.to_string()),
        }
    }

    /// All results of [`Self::word`].
    pub const WORDS: [&'static str; 7] =
        ["closed", "closed-by-peer", "lost", "io", "silent", "protocol", "unresponsive"];

    /// Short name of the reason, as used in statistics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::ByPeer(_) => "closed-by-peer",
            Self::Lost => "lost",
            Self::Io(_) => "io",
            Self::Silent => "silent",
            Self::Protocol(_) => "protocol",
            Self::Unresponsive => "unresponsive",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_reset_is_lost() {
        for kind in [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe] {
            assert_eq!(LinkEnd::of(&kind.into()), LinkEnd::Lost);
        }
        let unreachable = io::Error::from(io::ErrorKind::HostUnreachable);
        assert_eq!(LinkEnd::of(&unreachable), LinkEnd::Io(unreachable.to_string()));
    }
}
