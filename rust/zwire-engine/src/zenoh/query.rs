//! [`Query`]: a query that this session has to answer.

use crate::{
    config::ErrorReply,
    error::Error,
    rt::queue::Weigh,
    zenoh::caller::{Caller, Patience},
};
use bytes::Bytes;
use std::{
    ops::Deref,
    sync::{
        Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use zwire_proto::zenoh::{
    Timestamp,
    session::{InboundQuery, QueryId, QueryReply},
};

/// Session that queries are answered through.
pub(crate) trait QueryHost: Send + Sync {
    /// # Errors
    /// The session is closed or of another process.
    fn check(&self) -> Result<(), Error>;

    /// # Errors
    /// The query is over, or the key does not fit.
    fn reply(&self, query: QueryId, reply: QueryReply, patience: &mut Patience<'_>) -> Result<(), Error>;

    fn new_timestamp(&self) -> Timestamp;

    /// A copy of `bytes` for the payload of a reply.
    fn copy(&self, bytes: &[u8]) -> Bytes;

    /// Part of an exception that the asker gets.
    fn error_reply(&self) -> ErrorReply;

    /// Sends the RESPONSE_FINAL of a query. `followed`: that of another query is likely to follow.
    fn finish_query(&self, query: QueryId, followed: bool);
}

/// A query that this session has to answer. Dropping it finishes the answer: the asker gets the
/// RESPONSE_FINAL that it waits for even if the handler has failed.
pub struct Query {
    host: Weak<dyn QueryHost>,
    query: InboundQuery,
    finished: AtomicBool,
    /// Whether other queries wait for the same handler, so that the answers may leave together.
    followed: bool,
}

impl Query {
    pub(crate) const fn new(host: Weak<dyn QueryHost>, query: InboundQuery) -> Self {
        Self { host, query, finished: AtomicBool::new(false), followed: false }
    }

    /// Sends one reply.
    ///
    /// # Errors
    /// The session is closed or of another process, the query is finished, or the key does not fit.
    pub fn reply(&self, reply: QueryReply, caller: &mut (impl Caller + ?Sized)) -> Result<(), Error> {
        let host = self.host.upgrade().ok_or(Error::Closed)?;
        host.check()?;
        if self.finished.load(Ordering::Acquire) {
            return Err(Error::Undeclared { what: "query" });
        }
        caller.aside(|patience| host.reply(self.query.id, reply, patience))
    }

    /// Timestamp by the clock of the session that has to answer.
    ///
    /// # Errors
    /// The session is closed or of another process.
    pub fn new_timestamp(&self) -> Result<Timestamp, Error> {
        let host = self.host.upgrade().ok_or(Error::Closed)?;
        host.check()?;
        Ok(host.new_timestamp())
    }

    /// A copy of `bytes` for the payload of a reply: in shared memory, if a neighbour on this host reads it there.
    #[must_use]
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        self.host.upgrade().map_or_else(|| Bytes::copy_from_slice(bytes), |host| host.copy(bytes))
    }

    /// Part of an exception of the program that the asker gets.
    #[must_use]
    pub fn error_reply(&self) -> ErrorReply {
        self.host.upgrade().map_or(ErrorReply::Nothing, |host| host.error_reply())
    }

    /// Finishes the answer. Idempotent.
    pub fn finish(&self) {
        if !self.finished.swap(true, Ordering::AcqRel)
            && let Some(host) = self.host.upgrade()
        {
            host.finish_query(self.query.id, self.followed);
        }
    }
}

impl Deref for Query {
    type Target = InboundQuery;
    fn deref(&self) -> &InboundQuery {
        &self.query
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Weigh for Query {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.query.body.as_ref().map_or(0, |b| b.payload.len())
    }

    fn set_followed(&mut self) {
        self.followed = true;
    }

    fn secure(&mut self) -> bool {
        self.query.body.as_mut().is_none_or(|body| body.payload.secure())
    }
}
