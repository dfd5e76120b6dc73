//! [`Query`]: a question that this session has to answer.

use crate::{
    error::Error,
    rt::{clock, queue::Weigh},
    zenoh::{core::Effects, shared::Shared},
};
use bytes::Bytes;
use std::{
    ops::Deref,
    sync::{
        Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use zwire_proto::{
    Text,
    zenoh::{
        KeyExpr, Qos, Timestamp,
        session::{QueryId, QueryReply, Stamps},
        wire::{QueryBody, SourceInfo},
    },
};

/// What is asked.
#[derive(Clone, Debug)]
pub struct InboundQuery {
    /// For replies.
    pub(crate) id: QueryId,
    /// What is asked for.
    pub key: KeyExpr,
    /// What stands behind the `?` of the selector.
    pub parameters: Text,
    /// The value that came with it.
    pub body: Option<QueryBody>,
    /// Bytes of the user.
    pub attachment: Option<Bytes>,
    /// Who asks.
    pub source_info: Option<SourceInfo>,
    /// That of the request; replies copy it.
    pub qos: Qos,
    /// Whether replies on other keys are welcome.
    pub accept_any_key: bool,
    /// When it passed where, if its sender wants to know.
    pub stamps: Option<Box<Stamps>>,
}

/// A question that this session has to answer. Dropping it ends the answer: the asker gets the
/// RESPONSE_FINAL that it waits for, whatever happened to the one who was to answer.
pub struct Query {
    shared: Weak<Shared>,
    query: InboundQuery,
    finished: AtomicBool,
}

impl Query {
    pub(crate) const fn new(shared: Weak<Shared>, query: InboundQuery) -> Self {
        Self { shared, query, finished: AtomicBool::new(false) }
    }

    /// Sends one answer.
    ///
    /// # Errors
    /// The session is closed or of another process, the query is finished, or the key does not fit.
    pub fn reply(&self, reply: QueryReply, interrupted: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        let shared = self.shared.upgrade().ok_or(Error::Closed)?;
        shared.check()?;
        if self.finished.load(Ordering::Acquire) {
            return Err(Error::Undeclared { what: "query" });
        }
        let mut effects = Effects::default();
        shared.with_core(&mut effects, |core, now, _| core.api.reply(now, self.query.id, reply))?;
        shared.wait_blocking(&mut effects, interrupted)
    }

    /// The time by the clock of the session that has to answer.
    ///
    /// # Errors
    /// The session is closed or of another process.
    pub fn new_timestamp(&self) -> Result<Timestamp, Error> {
        let shared = self.shared.upgrade().ok_or(Error::Closed)?;
        shared.check()?;
        Ok(shared.core.lock().api.new_timestamp(clock::now()))
    }

    /// Ends the answer. Idempotent.
    pub fn finish(&self) {
        if !self.finished.swap(true, Ordering::AcqRel)
            && let Some(shared) = self.shared.upgrade()
        {
            shared.finish_query(self.query.id);
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
}
