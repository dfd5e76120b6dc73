//! [`Inbox`]: a channel in an event loop.

use crate::{
    errors,
    loops::waking::{Door, Wakeups},
    zenoh::{
        handle::SessionRef,
        handlers::{Handler, Source},
    },
};
use pyo3::{exceptions::PyStopAsyncIteration, prelude::*};
use std::sync::{Arc, Weak};
use zwire_engine::runtime::Birth;

/// A channel as an event loop reads it: nothing in it waits.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct Inbox {
    channel: Arc<dyn Source>,
    birth: Birth,
    door: Door,
    session: Option<Weak<SessionRef>>,
}

#[pymethods]
impl Inbox {
    #[new]
    fn new(handler: &Bound<'_, Handler>) -> Self {
        let handler = handler.get();
        Self {
            channel: handler.channel.clone(),
            birth: handler.birth,
            door: Door::default(),
            session: handler.session.clone(),
        }
    }

    /// The next item, or None if there is none right now; `StopAsyncIteration` if there never will be.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.birth.check().map_err(|error| errors::engine(py, &error))?;
        match self.channel.try_recv(py)? {
            Ok(item) => Ok(item),
            Err(_) => Err(PyStopAsyncIteration::new_err(())),
        }
    }

    /// A callback that takes from here has raised: `Session.stats` counts that.
    fn count_error(&self) {
        if let Some(session) = self.session.as_ref().and_then(Weak::upgrade) {
            session.callbacks.count_error();
        }
    }

    /// Hangs a bell, see `Wakeups`.
    fn bind(&self, py: Python<'_>, wakeups: &Bound<'_, Wakeups>, token: u64) -> PyResult<()> {
        self.birth.check().map_err(|error| errors::engine(py, &error))?;
        self.door.bind(py, &*self.channel, wakeups, token)
    }

    /// From now on the bell rings, once; unless there is something to take, or never will be.
    fn arm(&self) -> bool {
        self.door.arm(&*self.channel)
    }

    /// The bell rings no more.
    fn disarm(&self) {
        self.door.disarm();
    }
}
