//! What a command refuses, and what a north may not do.

use thiserror::Error;

use super::types::{EntityId, QueryId};
use crate::zenoh::{KeyExpr, keyexpr::KeyExprError, wire::CloseReason};

pub(super) type Result<T> = core::result::Result<T, SessionError>;

/// A command that was not carried out; always the caller's affair.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// After `close`.
    #[error("the session is closed; open another one")]
    Closed,
    /// No such entity, or of another kind than the command works on.
    #[error("no {expected} has the id {}", id.0)]
    UnknownEntity {
        /// What was given.
        id: EntityId,
        /// What the command works on.
        expected: &'static str,
    },
    /// The query was finished, or its asker is gone.
    #[error("query {} is over: it was finished, its queryable undeclared, or its link lost", id.0)]
    QueryOver {
        /// What was given.
        id: QueryId,
    },
    /// A reply to something that was not asked.
    #[error("reply key `{reply}` does not intersect the query's `{query}`, and the query lacks `_anyke`")]
    ReplyKey {
        /// The key of the reply.
        reply: KeyExpr,
        /// The key of the query.
        query: KeyExpr,
    },
    /// The namespace and the key make no key expression together.
    #[error("key `{key}` within the namespace `{namespace}`: {error}")]
    Namespace {
        /// The key that was given.
        key: KeyExpr,
        /// The namespace of the session.
        namespace: KeyExpr,
        /// What is wrong with both joined.
        error: KeyExprError,
    },
    /// A bound of this crate.
    #[error("no more than {limit} {what} at a time")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
}

/// The north declares more than this side is willing to keep. Its link has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the remote side holds more than {limit} {what}")]
pub struct NorthError {
    /// Of what.
    pub what: &'static str,
    /// The bound.
    pub limit: usize,
}

impl NorthError {
    /// What to tell it.
    #[must_use]
    pub const fn close_reason(&self) -> CloseReason {
        CloseReason::INVALID
    }
}
