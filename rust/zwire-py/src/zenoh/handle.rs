//! [`Handle`]: an open session, as everything that belongs to it refers to it.

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

/// What every handle of a session holds.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Arc<SessionRef>);

/// The engine's session and what the binding remembers beside it.
pub(crate) struct SessionRef {
    pub(crate) engine: Engine,
    /// Ids of declared key expressions, for `undeclare`.
    pub(crate) keys: Mutex<HashMap<KeyExpr, EntityId>>,
    pub(crate) callbacks: Arc<Group>,
    /// Who makes the stamps of messages instead of the clock.
    pub(crate) stamper: Option<Arc<stamps::Callback>>,
}

impl Drop for SessionRef {
    /// What is queued gets its time, and the other threads of the program the interpreter meanwhile.
    fn drop(&mut self) {
        // Of another process, closed already, or without an interpreter: the engine does what is left.
        let _ = Python::try_attach(|py| py.detach(|| self.engine.close()));
    }
}

impl Handle {
    /// Runs a command that may wait, without the interpreter.
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

    /// Publishes. `at_once` is what mostly does it, with the interpreter, which is let go only where something
    /// has to be written, told or waited for: letting it go and taking it again costs more than the rest.
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

    /// Publishes what is not of a publisher.
    pub(crate) fn put_once(&self, py: Python<'_>, publication: Publication) -> PyResult<()> {
        self.publish(
            py,
            |engine| engine.put_at_once(publication),
            |engine, publication, interrupted| engine.put(publication, interrupted).map(drop),
        )
    }

    /// Fails in a forked child, also for what only looks; a closed session may still be looked at.
    pub(crate) fn look(&self, py: Python<'_>) -> PyResult<&Engine> {
        let engine = &self.0.engine;
        engine.birth().check().map_err(|error| errors::engine(py, &error))?;
        Ok(engine)
    }

    /// The id of an entity of this session.
    pub(crate) fn global_id(&self, id: EntityId) -> PyEntityGlobalId {
        PyEntityGlobalId::of(self.0.engine.zid(), id.0)
    }
}
