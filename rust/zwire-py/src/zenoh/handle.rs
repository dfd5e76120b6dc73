//! [`Handle`]: the reference to a session that its declarations share.

use crate::{
    errors::OrRaise,
    loops::{
        calling::Group,
        interrupt::Interrupt,
        turn::{Call, Turn},
    },
    zenoh::{stamps, zid::PyEntityGlobalId},
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::{collections::HashMap, sync::Arc};
use zwire_engine::{Error, Session as Engine};
use zwire_proto::zenoh::{KeyExpr, session::EntityId};
use zwire_storage::StorageManager;

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
    /// The storages of the configuration, if it has any.
    pub(crate) storages: Option<Arc<StorageManager>>,
}

impl SessionRef {
    /// Ends the storages of the configuration, so that what they have received is stored. A failure is logged: the
    /// session closes in any case.
    pub(crate) fn end_storages(&self) {
        if let Some(storages) = &self.storages
            && self.engine.birth().is_here()
            && let Err(error) = storages.close()
        {
            tracing::error!(session = %self.engine.zid(), %error, "a storage closed without its last updates");
        }
    }
}

impl Drop for SessionRef {
    /// Closes the session without the interpreter lock: queued messages are still sent, and other threads of the
    /// program run meanwhile.
    fn drop(&mut self) {
        // Not needed in a forked child or after a close; without an interpreter the engine cleans up itself.
        let _ = Python::try_attach(|py| {
            py.detach(|| {
                self.end_storages();
                self.engine.close()
            })
        });
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
        interrupt.end(py, result)
    }

    /// Gives a command that waits as its caller demands: a thread of the program, or the `turn` of an event loop.
    pub(crate) fn command<'py, R>(
        &self,
        py: Python<'py>,
        turn: Option<&'py Turn>,
        f: impl FnOnce(&Engine, &mut Call<'py>) -> Result<R, Error>,
    ) -> PyResult<R> {
        let mut call = Call::new(py, turn);
        let result = f(&self.0.engine, &mut call);
        call.end(result)
    }

    /// Undeclares an entity, unless the end of the session has done so already.
    pub(crate) fn undeclare(&self, py: Python<'_>, id: EntityId) -> PyResult<()> {
        if self.look(py)?.is_closed() { Ok(()) } else { self.run(py, move |engine, _| engine.undeclare(id)) }
    }

    /// The engine's session, for reading its state: an error in a forked child, but not if it is closed.
    pub(crate) fn look(&self, py: Python<'_>) -> PyResult<&Engine> {
        let engine = &self.0.engine;
        engine.birth().check().or_raise(py)?;
        Ok(engine)
    }

    /// Id of an entity of this session.
    pub(crate) fn global_id(&self, id: EntityId) -> PyEntityGlobalId {
        PyEntityGlobalId::of(self.0.engine.zid(), id.0)
    }
}
