//! End of queries that Python objects still refer to.
//!
//! A query ends when nothing refers to it any more, but tracebacks, lists and loop variables may keep queries
//! alive that will get no further answer, so that their askers would wait for the whole timeout. So the
//! callback or loop iteration that was handed a query ends it on return, if it has answered the query itself.
//! Answers of other threads do not count: a query that was given to one of them may get more.

use crate::errors;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::{
    sync::{Arc, Weak},
    thread::{self, ThreadId},
};
use zwire_engine::Query as Engine;

/// Way in which a query ended that is still referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Dropped by the program.
    Dropped,
    /// The callback that answered it has returned.
    Returned,
    /// The callback that got it has raised an exception.
    Raised,
    /// The loop that answered it has asked for the next one, or was left.
    LoopWentOn,
}

impl End {
    /// Error text for later answers.
    const fn text(self) -> &'static str {
        match self {
            Self::Dropped => "the query is finished: it was dropped, or its `with` block has ended",
            Self::Returned => {
                "the query is finished: the callback that has answered it has returned. Send all answers before \
                 that, or leave all of them to the thread that keeps the query"
            }
            Self::Raised => "the query is finished: the callback that got it has raised an exception",
            Self::LoopWentOn => {
                "the query is finished: the loop that has answered it has gone on. Send all answers before that, \
                 or leave all of them to the thread that keeps the query"
            }
        }
    }
}

struct State {
    query: Result<Arc<Engine>, End>,
    /// Thread that ends the query by its answers.
    holder: Option<ThreadId>,
    /// Whether that thread has answered.
    answered: bool,
}

/// State of a query shared by its Python objects and the code that hands them out.
pub(crate) struct OpenQuery(Mutex<State>);

impl OpenQuery {
    pub(crate) fn new(query: Engine) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { query: Ok(Arc::new(query)), holder: None, answered: false })))
    }

    /// The query, for an answer.
    pub(crate) fn query(&self, py: Python<'_>) -> PyResult<Arc<Engine>> {
        self.0.lock().query.clone().map_err(|end| errors::usage(py, end.text()))
    }

    /// Records that this thread has answered the query.
    pub(crate) fn answered(&self) {
        let mut state = self.0.lock();
        if state.holder == Some(thread::current().id()) {
            state.answered = true;
        }
    }

    /// Ends the query, so that the asker gets its final response. Does nothing the second time.
    pub(crate) fn end(&self, py: Python<'_>, how: End) {
        let mut state = self.0.lock();
        if state.query.is_err() {
            return;
        }
        let query = core::mem::replace(&mut state.query, Err(how));
        drop(state);
        if let Ok(query) = query {
            py.detach(|| query.finish());
        }
    }
}

/// A query that this thread has handed to the program. Does not keep the query alive.
pub(crate) struct Handed(Weak<OpenQuery>);

impl Handed {
    pub(crate) fn new(query: &Arc<OpenQuery>) -> Self {
        query.0.lock().holder = Some(thread::current().id());
        Self(Arc::downgrade(query))
    }

    /// Called when the program returns: ends the query if this thread has answered it, or after an exception.
    pub(crate) fn back(self, py: Python<'_>, how: End) {
        let Some(query) = self.0.upgrade() else { return };
        let done = {
            let mut state = query.0.lock();
            // Later answers come from other holders of the query, and do not end it.
            let own = state.holder.take() == Some(thread::current().id());
            own && (state.answered || how == End::Raised)
        };
        if done {
            query.end(py, how);
        }
    }
}

/// Last query given to a loop, until the loop asks for the next one or is left.
#[derive(Default)]
pub(crate) struct Turn(Mutex<Option<Handed>>);

impl Turn {
    pub(crate) fn begin(&self, query: Option<Handed>) {
        *self.0.lock() = query;
    }

    pub(crate) fn end(&self, py: Python<'_>) {
        let query = self.0.lock().take();
        if let Some(query) = query {
            query.back(py, End::LoopWentOn);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.0.get_mut().is_some() {
            // Without an interpreter the session is closed already.
            let _ = Python::try_attach(|py| self.end(py));
        }
    }
}
