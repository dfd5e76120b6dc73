//! Events of a node: one class for each, with the common attributes in a base class.

use crate::{loops::calling::Item, zenoh::zbytes::PyZBytes};
use pyo3::{
    prelude::*,
    types::{IntoPyDict, PyBytes, PyDict, PyList, PyMemoryView},
};
use zwire_engine::zre::NodeEvent;
use zwire_proto::zre::node::EventKind;

/// Event on the network of a node.
///
/// `type` is the name of the event, `peer` the UUID of the peer concerned (32 upper-case hexadecimal
/// digits), `name` and `address` those announced by that peer, `time` when the event was noticed, in
/// seconds since 1970.
#[pyclass(module = "zwire.zre", frozen, subclass)]
pub(crate) struct Event(NodeEvent);

attributes! { Event, |this|
    /// `ENTER`, `EXIT`, `EVASIVE`, `SILENT`, `JOIN`, `LEAVE`, `WHISPER`, `SHOUT`, `MESSAGES_LOST`,
    /// `LEADER` or `STOP`.
    r#type: &'static str = this.0.event.kind.name();
    /// UUID of the peer: 32 upper-case hexadecimal digits. For STOP, and for a LEADER that is this node,
    /// its own.
    peer: String = this.0.event.peer.to_string();
    /// Name of the peer; for peers before 36/ZRE the first six digits of its UUID.
    name: &str = &this.0.event.name;
    /// Endpoint that the peer announced: `tcp://host:port`.
    address: &str = &this.0.event.address;
    /// Time at which the event was noticed, in seconds since 1970.
    time: f64 = this.0.time.as_secs_f64();
}

#[pymethods]
impl Event {
    fn __repr__(&self) -> String {
        let event = &self.0.event;
        let mut text = format!("<{} {} {}", event.kind.name(), event.name.as_str(), event.peer);
        if let Some(group) = event.kind.group() {
            text += &format!(" group={group:?}");
        }
        if let Some(content) = event.kind.content() {
            let bytes: usize = content.iter().map(bytes::Bytes::len).sum();
            text += &format!(" frames={} bytes={bytes}", content.len());
        }
        if let EventKind::MessagesLost { lost } = event.kind {
            text += &format!(" lost={lost}");
        }
        text + ">"
    }
}

impl Event {
    fn group(&self, _py: Python<'_>) -> String {
        self.0.event.kind.group().unwrap_or_default().to_owned()
    }

    const fn lost(&self, _py: Python<'_>) -> u16 {
        match self.0.event.kind {
            EventKind::MessagesLost { lost } => lost,
            _ => 0,
        }
    }

    fn content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let frames = self.0.event.kind.content().unwrap_or_default();
        PyList::new(py, frames.iter().map(|frame| PyBytes::new(py, frame)))
    }

    fn views<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let frames = self.0.event.kind.content().unwrap_or_default();
        let view = |frame: &bytes::Bytes| {
            PyMemoryView::from(Bound::new(py, PyZBytes::from(frame.clone()))?.as_any())
        };
        PyList::new(py, frames.iter().map(view).collect::<PyResult<Vec<_>>>()?)
    }

    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let headers = self.0.event.kind.headers().unwrap_or_default();
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).into_py_dict(py)
    }
}

/// Classes of events, each with the attributes that it has beside those of `Event`.
macro_rules! events {
    ($($(#[doc = $doc:literal])* $class:ident $({
        $($(#[doc = $about:literal])* $name:ident: $type:ty = $read:expr;)+
    })?)+) => {
        $($(#[doc = $doc])*
        #[pyclass(module = "zwire.zre", frozen, extends = Event)]
        pub(crate) struct $class;

        $(#[pymethods]
        impl $class {
            $($(#[doc = $about])*
            #[getter]
            fn $name<'py>(slf: &Bound<'py, Self>) -> $type {
                $read(slf.as_super().get(), slf.py())
            })+
        })?)+
    };
}

events! {
    /// A peer has connected and sent its HELLO. `headers` are those of the HELLO.
    Enter {
        /// Headers of the HELLO.
        headers: PyResult<Bound<'py, PyDict>> = Event::headers;
    }
    /// A peer is gone. Exactly one for each ENTER.
    Exit
    /// A peer was silent and has been sent a PING.
    Evasive
    /// A peer does not answer its PING.
    Silent
    /// The node has stopped. The last event.
    Stop
    /// A peer has joined a group.
    Join {
        /// Group that the event concerns.
        group: String = Event::group;
    }
    /// A peer has left a group.
    Leave {
        /// Group that the event concerns.
        group: String = Event::group;
    }
    /// A peer, or this node, has become the leader of a group.
    Leader {
        /// Group that the event concerns.
        group: String = Event::group;
    }
    /// A message of a peer to this node.
    Whisper {
        /// Frames of the message.
        content: PyResult<Bound<'py, PyList>> = Event::content;
        /// The frames without a copy, read-only. A large one of a peer on this host is in the memory of that peer, which
        /// gets it back when the view and the event are dropped.
        views: PyResult<Bound<'py, PyList>> = Event::views;
    }
    /// A message of a peer to a group.
    Shout {
        /// Group that the message was sent to.
        group: String = Event::group;
        /// Frames of the message.
        content: PyResult<Bound<'py, PyList>> = Event::content;
        /// The frames without a copy, read-only. A large one of a peer on this host is in the memory of that peer, which
        /// gets it back when the view and the event are dropped.
        views: PyResult<Bound<'py, PyList>> = Event::views;
    }
    /// Messages of a peer were lost. An EXIT follows, and an ENTER when the peer is connected again.
    MessagesLost {
        /// Number of lost messages; 0 if unknown, because the sequence numbers went back.
        lost: u16 = Event::lost;
    }
}

#[pymethods]
impl Enter {
    /// A header of the HELLO, or `default`.
    #[pyo3(signature = (name, default=None))]
    fn header(slf: PyRef<'_, Self>, name: &str, default: Option<String>) -> Option<String> {
        let headers = slf.as_super().0.event.kind.headers().unwrap_or_default();
        let found = headers.iter().find(|(known, _)| *known == *name);
        found.map(|(_, value)| value.as_str().to_owned()).or(default)
    }
}

impl Item for NodeEvent {
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        macro_rules! made {
            ($class:ident) => {
                Py::new(py, ($class, Event(self)))?.into_any()
            };
        }
        Ok(match self.event.kind {
            EventKind::Enter { .. } => made!(Enter),
            EventKind::Exit => made!(Exit),
            EventKind::Evasive => made!(Evasive),
            EventKind::Silent => made!(Silent),
            EventKind::Join { .. } => made!(Join),
            EventKind::Leave { .. } => made!(Leave),
            EventKind::Whisper { .. } => made!(Whisper),
            EventKind::Shout { .. } => made!(Shout),
            EventKind::MessagesLost { .. } => made!(MessagesLost),
            EventKind::Leader { .. } => made!(Leader),
            EventKind::Stop => made!(Stop),
        })
    }
}
