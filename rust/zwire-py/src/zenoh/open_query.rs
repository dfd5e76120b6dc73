//! When a query ends that somebody still refers to.
//!
//! A program is done with a query when nothing refers to it any more, but tracebacks, lists and loop variables
//! refer to queries that nobody will answer again, and their askers would wait for the whole timeout. So whoever
//! was handed a query, a callback or the turn of a loop, ends it when it comes back, if it has answered it
//! itself. Answers of other threads do not count: a query that was given to one of them may get more.

use crate::errors;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::{
    sync::{Arc, Weak},
    thread::{self, ThreadId},
};
use zwire_engine::Query as Engine;

/// How a query has ended that somebody refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By the program.
    Dropped,
    /// By the callback that has answered it.
    Returned,
    /// By an exception of the callback that got it.
    Raised,
    /// By the loop that has answered it and asked for the next one, or was left.
    LoopWentOn,
}

impl End {
    /// For whoever answers all the same.
    const fn text(self) -> &'static str {
        match self {
            Self::Dropped => "the query is finished: it was dropped, or its `with` block has ended",
            Self::Returned => {
                "the query is finished: the callback that has answered it has returned. Send all answers before \
                 that, or leave all of them to whoever keeps the query"
            }
            Self::Raised => "the query is finished: the callback that got it has raised an exception",
            Self::LoopWentOn => {
                "the query is finished: the loop that has answered it has gone on. Send all answers before that, \
                 or leave all of them to whoever keeps the query"
            }
        }
    }
}

struct State {
    query: Result<Arc<Engine>, End>,
    /// Whose answers end it.
    holder: Option<ThreadId>,
    /// The holder has answered.
    answered: bool,
}

/// What objects of Python and whoever hands them out share of a query.
pub(crate) struct OpenQuery(Mutex<State>);

impl OpenQuery {
    pub(crate) fn new(query: Engine) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { query: Ok(Arc::new(query)), holder: None, answered: false })))
    }

    /// To answer it.
    pub(crate) fn query(&self, py: Python<'_>) -> PyResult<Arc<Engine>> {
        self.0.lock().query.clone().map_err(|end| errors::usage(py, end.text()))
    }

    /// This thread has answered it.
    pub(crate) fn answered(&self) {
        let mut state = self.0.lock();
        if state.holder == Some(thread::current().id()) {
            state.answered = true;
        }
    }

    /// Tells the asker that no more answers come. Does nothing the second time.
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

/// A query that this thread has handed to a program. Keeps it from nothing.
pub(crate) struct Handed(Weak<OpenQuery>);

impl Handed {
    pub(crate) fn new(query: &Arc<OpenQuery>) -> Self {
        query.0.lock().holder = Some(thread::current().id());
        Self(Arc::downgrade(query))
    }

    /// The program has come back: without an exception its query ends if it was answered by this thread.
    pub(crate) fn back(self, py: Python<'_>, how: End) {
        let Some(query) = self.0.upgrade() else { return };
        let done = {
            let mut state = query.0.lock();
            // What comes from now on comes from whoever keeps it.
            let own = state.holder.take() == Some(thread::current().id());
            own && (state.answered || how == End::Raised)
        };
        if done {
            query.end(py, how);
        }
    }
}

/// The query that a loop was given last, until it asks for the next one or is left.
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
            // Without an interpreter its session is closed.
            let _ = Python::try_attach(|py| self.end(py));
        }
    }
}
