//! [`Inbox`]: a channel for an event loop.

use crate::{
    errors::OrRaise,
    loops::{
        turn::{is_over, spend},
        waking::{Door, Wakeups},
    },
    zenoh::{
        handle::SessionRef,
        handlers::{Handler, Source},
    },
};
use pyo3::{exceptions::PyStopAsyncIteration, prelude::*};
use std::sync::{Arc, Weak};
use zwire_engine::runtime::Birth;

/// A channel as seen by an event loop: none of its methods waits.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct Inbox {
    channel: Arc<dyn Source>,
    birth: Birth,
    door: Door,
    session: Option<Weak<SessionRef>>,
}

methods! { Inbox, |this|
    /// Arms the wakeup for one notification. True, without arming it, if there is an item to take already or
    /// the channel has ended.
    arm: bool = this.door.arm(&*this.channel);
    /// Disarms the wakeup.
    disarm: () = this.door.disarm();
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

    /// The next item, or None if none is waiting; `StopAsyncIteration` at the end.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.birth.check().or_raise(py)?;
        match self.channel.try_recv(py)? {
            Ok(item) => {
                spend(usize::from(item.is_some()));
                Ok(item)
            }
            Err(_) => Err(PyStopAsyncIteration::new_err(())),
        }
    }

    /// As `take`; None also if other tasks have to run first, see `end_turn`.
    fn take_in_turn(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if is_over() { Ok(None) } else { self.take(py) }
    }

    /// Counts an exception of a callback fed from here, for `Session.stats`.
    fn count_error(&self) {
        if let Some(session) = self.session.as_ref().and_then(Weak::upgrade) {
            session.callbacks.count_error();
        }
    }

    /// Registers a wakeup, see `Wakeups`.
    fn bind(&self, py: Python<'_>, wakeups: &Bound<'_, Wakeups>, token: u64) -> PyResult<()> {
        self.birth.check().or_raise(py)?;
        self.door.bind(py, &*self.channel, wakeups, token)
    }
}
