//! Events of a node: one class for each, with the common attributes in a base class.

use crate::loops::item::Item;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList},
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
    fn of_group(&self) -> &str {
        self.0.event.kind.group().unwrap_or_default()
    }

    fn content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let frames = self.0.event.kind.content().unwrap_or_default();
        PyList::new(py, frames.iter().map(|frame| PyBytes::new(py, frame)))
    }

    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.0.event.kind.headers().unwrap_or_default() {
            dict.set_item(name.as_str(), value.as_str())?;
        }
        Ok(dict)
    }
}

/// A peer has connected and sent its HELLO. `headers` are those of the HELLO.
#[pyclass(module = "zwire.zre", frozen, extends = Event)]
pub(crate) struct Enter;

#[pymethods]
impl Enter {
    /// Headers of the HELLO.
    #[getter]
    fn headers<'py>(slf: PyRef<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        slf.as_super().headers(slf.py())
    }

    /// A header of the HELLO, or `default`.
    #[pyo3(signature = (name, default=None))]
    fn header(slf: PyRef<'_, Self>, name: &str, default: Option<String>) -> Option<String> {
        let headers = slf.as_super().0.event.kind.headers().unwrap_or_default();
        let found = headers.iter().find(|(known, _)| *known == *name);
        found.map(|(_, value)| value.as_str().to_owned()).or(default)
    }
}

macro_rules! plain {
    ($($(#[doc = $doc:literal])* $class:ident),+ $(,)?) => {
        $($(#[doc = $doc])*
        #[pyclass(module = "zwire.zre", frozen, extends = Event)]
        pub(crate) struct $class;)+
    };
}

plain! {
    /// A peer is gone. Exactly one for each ENTER.
    Exit,
    /// A peer was silent and has been sent a PING.
    Evasive,
    /// A peer does not answer its PING.
    Silent,
    /// The node has stopped. The last event.
    Stop,
}

macro_rules! grouped {
    ($($(#[doc = $doc:literal])* $class:ident),+ $(,)?) => {
        $($(#[doc = $doc])*
        #[pyclass(module = "zwire.zre", frozen, extends = Event)]
        pub(crate) struct $class;

        #[pymethods]
        impl $class {
            /// Group that the event concerns.
            #[getter]
            fn group(slf: PyRef<'_, Self>) -> String {
                slf.as_super().of_group().to_owned()
            }
        })+
    };
}

grouped! {
    /// A peer has joined a group.
    Join,
    /// A peer has left a group.
    Leave,
    /// A peer, or this node, has become the leader of a group.
    Leader,
}

/// A message of a peer to this node.
#[pyclass(module = "zwire.zre", frozen, extends = Event)]
pub(crate) struct Whisper;

#[pymethods]
impl Whisper {
    /// Frames of the message.
    #[getter]
    fn content<'py>(slf: PyRef<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        slf.as_super().content(slf.py())
    }
}

/// A message of a peer to a group.
#[pyclass(module = "zwire.zre", frozen, extends = Event)]
pub(crate) struct Shout;

#[pymethods]
impl Shout {
    /// Group that the message was sent to.
    #[getter]
    fn group(slf: PyRef<'_, Self>) -> String {
        slf.as_super().of_group().to_owned()
    }

    /// Frames of the message.
    #[getter]
    fn content<'py>(slf: PyRef<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        slf.as_super().content(slf.py())
    }
}

/// Messages of a peer were lost. An EXIT follows, and an ENTER when the peer is connected again.
#[pyclass(module = "zwire.zre", frozen, extends = Event)]
pub(crate) struct MessagesLost;

#[pymethods]
impl MessagesLost {
    /// Number of lost messages; 0 if unknown, because the sequence numbers went back.
    #[getter]
    fn lost(slf: PyRef<'_, Self>) -> u16 {
        match slf.as_super().0.event.kind {
            EventKind::MessagesLost { lost } => lost,
            _ => 0,
        }
    }
}

type Base = PyClassInitializer<Event>;

/// Constructor for the class of an event.
fn maker(kind: &EventKind) -> fn(Python<'_>, Base) -> PyResult<Py<PyAny>> {
    macro_rules! make {
        ($class:ident) => {
            |py, base| Ok(Py::new(py, base.add_subclass($class))?.into_any())
        };
    }
    match kind {
        EventKind::Enter { .. } => make!(Enter),
        EventKind::Exit => make!(Exit),
        EventKind::Evasive => make!(Evasive),
        EventKind::Silent => make!(Silent),
        EventKind::Join { .. } => make!(Join),
        EventKind::Leave { .. } => make!(Leave),
        EventKind::Whisper { .. } => make!(Whisper),
        EventKind::Shout { .. } => make!(Shout),
        EventKind::MessagesLost { .. } => make!(MessagesLost),
        EventKind::Leader { .. } => make!(Leader),
        EventKind::Stop => make!(Stop),
    }
}

impl Item for NodeEvent {
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        maker(&self.event.kind)(py, Event(self).into())
    }
}
