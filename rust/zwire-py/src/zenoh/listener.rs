//! [`Listener`]: base class of listeners for events of a declaration or session.

use crate::{
    errors,
    loops::calling::{Item, Life},
    zenoh::{handle::Handle, handlers::HandlerArg, receiver::Source},
};
use core::sync::atomic::{AtomicBool, Ordering};
use pyo3::prelude::*;
use std::sync::Arc;
use zwire_engine::{Handler, Queue, Session as Engine};

/// Command that removes a listener from the engine.
type Forget = Box<dyn Fn(&Engine) + Send + Sync>;

/// A listener: a context manager, and an iterator over its items unless it has a callback. It ends when it is
/// dropped, unless it has a callback.
#[pyclass(module = "zwire._zwire", frozen, subclass)]
pub(crate) struct Listener {
    session: Handle,
    what: &'static str,
    handler: Py<PyAny>,
    /// Set with a callback: the listener outlives its object, as users of callbacks expect.
    background: bool,
    live: AtomicBool,
    forget: Forget,
}

impl Listener {
    /// Adds a listener to the engine; `listen` returns its queue, and the command that removes it.
    pub(crate) fn new<T: Item>(
        py: Python<'_>,
        session: &Handle,
        what: &'static str,
        handler: Option<&Bound<'_, PyAny>>,
        listen: impl FnOnce(&Engine, Handler) -> Result<(Arc<Queue<T>>, Forget), zwire_engine::Error> + Send,
    ) -> PyResult<Self> {
        let handler = HandlerArg::parse(py, handler)?;
        let engine_handler = handler.engine();
        let (queue, forget) = session.run(py, move |engine, _| listen(engine, engine_handler))?;
        let background = matches!(handler, HandlerArg::Callback { .. });
        let life = Life::of(&session.0.callbacks);
        let handler = handler.attach(py, &queue, Some(session), &life)?;
        let live = AtomicBool::new(true);
        Ok(Self { session: session.clone(), what, handler, background, live, forget })
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let engine = self.session.look(py)?;
        self.live.store(false, Ordering::Release);
        (self.forget)(engine);
        Ok(())
    }
}

attributes! { Listener, |this, py|
    /// The channel, or the handler given with the callback.
    handler: Py<PyAny> = this.handler.clone_ref(py);
}

receives! { Listener, "item", |this, py| Source::of(py, &this.handler)? }

context_manager! { Listener, |this, py| this.end(py) }

represented! { Listener, |slf| {
    let this = slf.get();
    let live = this.live.load(Ordering::Acquire) && !this.session.0.engine.is_closed();
    format!("of session {}, {}", this.session.0.engine.zid(), if live { "listening" } else { "ended" })
} }

#[pymethods]
impl Listener {
    /// Undeclares the listener. A second call is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        if !self.live.load(Ordering::Acquire) {
            return Err(errors::usage(py, &format!("the {} is undeclared", self.what)));
        }
        self.end(py)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.background {
            (self.forget)(&self.session.0.engine);
        }
    }
}
