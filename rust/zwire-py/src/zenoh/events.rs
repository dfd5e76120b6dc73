//! Listeners for nodes and links that connect and disconnect.

use crate::{
    loops::item::Item,
    zenoh::{
        enums::PySampleKind,
        handle::Handle,
        info::{Link, Transport},
        listener::Listener,
    },
};
use pyo3::prelude::*;
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
            /// PUT: connected; DELETE: disconnected.
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

            /// Reason of the end: `closed`, `closed-by-peer`, `lost`, `io`, `silent`, `protocol` or
            /// `unresponsive`. None while it is connected.
            #[getter]
            const fn reason(&self) -> Option<&'static str> {
                match &self.0.change {
                    Change::Disconnected(end) => Some(end.word()),
                    Change::Connected | Change::Reconnected => None,
                }
            }

            /// Reason of the end as a sentence.
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
    /// A node was connected or disconnected.
    TransportEvent, TransportEvent, transport: Transport, "The node, and how it is connected."
}
event! {
    /// A link came up or went down.
    LinkEvent, LinkEvent, link: Link, "The link."
}

macro_rules! listener {
    ($(#[$doc:meta])* $listener:ident, $listen:ident) => {
        $(#[$doc])*
        #[pyclass(module = "zwire.zenoh", frozen, weakref, generic, extends = Listener)]
        pub(crate) struct $listener;

        impl $listener {
            pub(crate) fn new(
                py: Python<'_>,
                session: &Handle,
                handler: Option<&Bound<'_, PyAny>>,
                history: Option<bool>,
            ) -> PyResult<Py<Self>> {
                let history = history.unwrap_or(false);
                let base = Listener::new(py, session, "listener", handler, |engine, handler| {
                    let (id, queue) = engine.$listen(history, handler)?;
                    Ok((queue, Box::new(move |engine| engine.forget_listener(id))))
                })?;
                Py::new(py, (Self, base))
            }
        }
    };
}

listener! {
    /// Listener for nodes that connect and disconnect.
    TransportEventsListener, listen_transports
}
listener! {
    /// Listener for links that come up and go down.
    LinkEventsListener, listen_links
}
