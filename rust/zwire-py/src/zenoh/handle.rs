//! [`Handle`]: the reference to a session that its declarations share.

use crate::{
    errors,
    loops::{calling::Group, interrupt::Interrupt},
    zenoh::{global_id::PyEntityGlobalId, stamps},
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::{collections::HashMap, sync::Arc};
use zwire_engine::{AtOnce, Error, Session as Engine};
use zwire_proto::zenoh::{
    KeyExpr,
    session::{EntityId, Publication},
};

/// Shared reference to a session.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Arc<SessionRef>);

/// Session of the engine, and the state that the binding adds to it.
pub(crate) struct SessionRef {
    pub(crate) engine: Engine,
    /// Ids of declared key expressions, for `undeclare`.
    pub(crate) keys: Mutex<HashMap<KeyExpr, EntityId>>,
    pub(crate) callbacks: Arc<Group>,
    /// Function of the program that makes the stamps of messages, in place of the clock.
    pub(crate) stamper: Option<Arc<stamps::Callback>>,
}

impl Drop for SessionRef {
    /// Closes the session without the interpreter lock: queued messages are still sent, and other threads of the
    /// program run meanwhile.
    fn drop(&mut self) {
        // Not needed in a forked child or after a close; without an interpreter the engine cleans up itself.
        let _ = Python::try_attach(|py| py.detach(|| self.engine.close()));
    }
}

impl Handle {
    /// Runs a command that may wait, without the interpreter lock.
    pub(crate) fn run<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Engine, &mut dyn FnMut() -> bool) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let mut interrupt = Interrupt::default();
        let result = py.detach(|| f(&self.0.engine, &mut || interrupt.check()));
        match result {
            Ok(value) => Ok(value),
            Err(Error::Interrupted) => {
                interrupt.raise()?;
                Err(errors::engine(py, &Error::Interrupted))
            }
            Err(error) => Err(errors::engine(py, &error)),
        }
    }

    /// Publishes a message: by `at_once`, and if that is refused by `otherwise`. `at_once` keeps the interpreter
    /// lock, because releasing and taking it costs more than the rest; the lock is released only if something has
    /// to be written, notified or waited for.
    pub(crate) fn publish<P: Send>(
        &self,
        py: Python<'_>,
        at_once: impl FnOnce(&Engine) -> Result<AtOnce<P>, Error>,
        otherwise: impl FnOnce(&Engine, P, &mut dyn FnMut() -> bool) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        match at_once(&self.0.engine) {
            Ok(AtOnce::Done) => Ok(()),
            Ok(AtOnce::Begun(begun)) => self.run(py, |engine, interrupted| engine.finish(begun, interrupted)),
            Ok(AtOnce::Refused(publication)) => {
                self.run(py, |engine, interrupted| otherwise(engine, publication, interrupted))
            }
            Err(error) => Err(errors::engine(py, &error)),
        }
    }

    /// Publishes a message without a declared publisher.
    pub(crate) fn put_once(&self, py: Python<'_>, publication: Publication) -> PyResult<()> {
        self.publish(
            py,
            |engine| engine.put_at_once(publication),
            |engine, publication, interrupted| engine.put(publication, interrupted).map(drop),
        )
    }

    /// The engine's session, for reading its state: an error in a forked child, but not if it is closed.
    pub(crate) fn look(&self, py: Python<'_>) -> PyResult<&Engine> {
        let engine = &self.0.engine;
        engine.birth().check().map_err(|error| errors::engine(py, &error))?;
        Ok(engine)
    }

    /// Id of an entity of this session.
    pub(crate) fn global_id(&self, id: EntityId) -> PyEntityGlobalId {
        PyEntityGlobalId::of(self.0.engine.zid(), id.0)
    }
}
