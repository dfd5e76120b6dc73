//! Errors of commands, and violations by the north.

use thiserror::Error;

use super::types::{EntityId, QueryId};
use crate::zenoh::{KeyExpr, keyexpr::KeyExprError, wire::CloseReason};

pub(super) type SessionResult<T> = Result<T, SessionError>;
pub(super) type NorthResult = Result<(), NorthError>;

/// Reason why a command was not carried out; caused by the caller.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// Command after `close`.
    #[error("the session is closed; open another one")]
    Closed,
    /// Unknown entity, or one of another kind than the command expects.
    #[error("no {expected} has the id {}", id.0)]
    UnknownEntity {
        /// Id given by the caller.
        id: EntityId,
        /// Kind that the command expects.
        expected: &'static str,
    },
    /// The query was finished, or its querier is gone.
    #[error("query {} is over: it was finished, its queryable undeclared, or its link lost", id.0)]
    QueryOver {
        /// Id given by the caller.
        id: QueryId,
    },
    /// A reply on a key that was not queried.
    #[error("reply key `{reply}` does not intersect the query's `{query}`, and the query lacks `_anyke`")]
    ReplyKey {
        /// The key of the reply.
        reply: KeyExpr,
        /// The key of the query.
        query: KeyExpr,
    },
    /// The namespace and the key together form no valid key expression.
    #[error("key `{key}` within the namespace `{namespace}`: {error}")]
    Namespace {
        /// Key given by the caller.
        key: KeyExpr,
        /// The namespace of the session.
        namespace: KeyExpr,
        /// Error of the joined key.
        error: KeyExprError,
    },
    /// A limit of the session is reached.
    #[error("no more than {limit} {what} at a time")]
    TooMany {
        /// Kind of the limited objects.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// The north declares more than the limits of this session. Its link must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the remote side holds more than {limit} {what}")]
pub struct NorthError {
    /// Kind of the limited objects.
    pub what: &'static str,
    /// The limit.
    pub limit: usize,
}

impl NorthError {
    /// Reason for the CLOSE message.
    #[must_use]
    pub const fn close_reason(&self) -> CloseReason {
        CloseReason::INVALID
    }
}
