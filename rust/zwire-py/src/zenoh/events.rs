//! Listeners to nodes and links that connect and disconnect.

use crate::{
    errors,
    loops::{calling::Life, item::Item},
    zenoh::{
        enums::PySampleKind,
        handle::Handle,
        handlers::HandlerArg,
        info::{Link, Transport},
        receiver::Source,
    },
};
use core::sync::atomic::{AtomicBool, Ordering};
use pyo3::{prelude::*, types::PyDict};
use zwire_engine::connectivity::{self, Change};
use zwire_proto::zenoh::session::SampleKind;

const fn kind(change: &Change) -> SampleKind {
    match change {
        Change::Connected | Change::Reconnected => SampleKind::Put,
        Change::Disconnected(_) => SampleKind::Delete,
    }
}

const fn word(change: &Change) -> &'static str {
    match change {
        Change::Connected => "connected",
        Change::Reconnected => "reconnected",
        Change::Disconnected(_) => "disconnected",
    }
}

macro_rules! event {
    ($(#[$doc:meta])* $event:ident, $inner:ident, $what:ident: $of:ident, $getter_doc:literal) => {
        $(#[$doc])*
        #[pyclass(module = "zwire.zenoh", frozen)]
        pub(crate) struct $event(connectivity::$inner);

        #[pymethods]
        impl $event {
            /// PUT: it is there; DELETE: it is gone.
            #[getter]
            const fn kind(&self) -> PySampleKind {
                PySampleKind(kind(&self.0.change))
            }

            #[doc = $getter_doc]
            #[getter]
            fn $what(&self) -> $of {
                $of::of(&self.0.link)
            }

            /// `connected`, `reconnected` or `disconnected`.
            #[getter]
            const fn change(&self) -> &'static str {
                word(&self.0.change)
            }

            /// Why it is gone, in a word: `closed`, `closed-by-peer`, `lost`, `io`, `silent`, `protocol` or
            /// `unresponsive`. None while it is there.
            #[getter]
            const fn reason(&self) -> Option<&'static str> {
                match &self.0.change {
                    Change::Disconnected(end) => Some(end.word()),
                    Change::Connected | Change::Reconnected => None,
                }
            }

            /// Why it is gone, in a sentence for people.
            #[getter]
            fn detail(&self) -> Option<String> {
                match &self.0.change {
                    Change::Disconnected(end) => Some(end.to_string()),
                    Change::Connected | Change::Reconnected => None,
                }
            }

            fn __repr__(&self) -> String {
                let reason = self.reason().map_or(String::new(), |reason| format!(", reason={reason}"));
                format!("{}({}, {}{reason})", stringify!($event), self.change(), self.$what().__repr__())
            }
        }

        impl Item for connectivity::$inner {
            fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                Ok(Py::new(py, $event(self))?.into_any())
            }
        }
    };
}

event! {
    /// A node is connected, or not any more.
    TransportEvent, TransportEvent, transport: Transport, "The node, and how it is connected."
}
event! {
    /// A link is there, or gone.
    LinkEvent, LinkEvent, link: Link, "The link."
}

/// What all listeners hold.
struct Listener {
    session: Handle,
    id: u64,
    handler: Py<PyAny>,
    /// With a callback it stays when the object goes, as users of callbacks expect.
    background: bool,
    live: AtomicBool,
}

impl Listener {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.live.store(false, Ordering::Release);
        self.session.look(py)?.forget_listener(self.id);
        Ok(())
    }

    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        if !self.live.load(Ordering::Acquire) {
            return Err(errors::usage(py, "the listener is undeclared"));
        }
        self.end(py)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.background {
            self.session.0.engine.forget_listener(self.id);
        }
    }
}

macro_rules! listener {
    ($(#[$doc:meta])* $listener:ident, $listen:ident) => {
        $(#[$doc])*
        #[pyclass(module = "zwire.zenoh", frozen, weakref, generic)]
        pub(crate) struct $listener(Listener);

        impl $listener {
            pub(crate) fn new(
                py: Python<'_>,
                session: &Handle,
                handler: Option<&Bound<'_, PyAny>>,
                history: Option<bool>,
            ) -> PyResult<Self> {
                let handler = HandlerArg::parse(py, handler)?;
                let (engine_handler, history) = (handler.engine(), history.unwrap_or(false));
                let (id, queue) = session.run(py, move |engine, _| engine.$listen(history, engine_handler))?;
                let background = matches!(handler, HandlerArg::Callback { .. });
                let life = Life::of(&session.0.callbacks);
                let handler = handler.attach(py, &queue, Some(session), &life)?;
                let live = AtomicBool::new(true);
                Ok(Self(Listener { session: session.clone(), id, handler, background, live }))
            }
        }

        #[pymethods]
        impl $listener {
            const fn __enter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            #[pyo3(signature = (*_args, **_kwargs))]
            fn __exit__(
                &self,
                py: Python<'_>,
                _args: &Bound<'_, PyAny>,
                _kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<()> {
                self.0.end(py)
            }

            /// The channel, or what was given with the callback.
            #[getter]
            fn handler(&self, py: Python<'_>) -> Py<PyAny> {
                self.0.handler.clone_ref(py)
            }

            /// Ends the listener. A second time is an error.
            fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
                self.0.undeclare(py)
            }

            /// The next event, or None if there is none right now.
            fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
                Source::of(py, &self.0.handler)?.try_recv(py)
            }

            /// The next event, waited for. With a timeout in seconds, `TimedOut` when it is over.
            #[pyo3(signature = (timeout=None))]
            fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
                Source::of(py, &self.0.handler)?.recv(py, timeout)
            }

            fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                Source::of(py, &self.0.handler)?.iter()
            }
        }
    };
}

listener! {
    /// A listener to nodes that connect and disconnect.
    TransportEventsListener, listen_transports
}
listener! {
    /// A listener to links that come and go.
    LinkEventsListener, listen_links
}
