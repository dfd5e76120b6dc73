//! ZRE/LOG in Python: collectors, senders, records.

use crate::{
    errors::{self, OrRaise},
    loops::interrupt::seconds,
    zenoh::{handlers::Handler, receiver::Source},
    zre::settings,
};
use core::time::Duration;
use pyo3::{prelude::*, types::PyInt};
use std::sync::Arc;
use zwire_engine::{
    Queue,
    queue::{Bounds, Overflow},
    zre::{LogCollector as Collector, LogRecord as Record, LogSender as Sender},
};
use zwire_proto::zre::wire::{LogEvent, LogLevel, log_hash};

/// Name of a number; the number itself if it is not defined.
fn word(name: Option<&str>, number: u8) -> String {
    name.map_or_else(|| number.to_string(), str::to_owned)
}

/// The number of a name.
fn number<T>(py: Python<'_>, found: Option<T>, name: &str, what: &str, names: &[&str]) -> PyResult<T> {
    found.ok_or_else(|| errors::invalid(py, format!("{what} is one of {}, not {name:?}", names.join(", "))))
}

/// A ZRE/LOG record.
#[pyclass(module = "zwire.zre", frozen)]
pub(crate) struct LogRecord(Record);

attributes! { LogRecord, |this|
    /// `ERROR`, `WARNING` or `INFO`.
    level: String = word(this.0.log.level.name(), this.0.log.level.0);
    /// `JOIN`, `LEAVE`, `ENTER`, `EXIT`, `SEND`, `RECV`, or empty for a warning or an error.
    event: String = match this.0.log.event {
        LogEvent::NONE => String::new(),
        event => word(event.name(), event.0),
    };
    /// Hash of the node that logged it, 0 to 65535; see `log_hash`. Nodes hash `ip:port` of their mailbox.
    node: u16 = this.0.log.node;
    /// Hash of the peer concerned; 0 if there is none.
    peer: u16 = this.0.log.peer;
    /// Time of the record, in seconds since 1970. zyre sends whole seconds, other nodes milliseconds; the
    /// size of the number tells which.
    time: f64 = this.0.log.timestamp().as_secs_f64();
    /// Text of the record.
    data: String = String::from_utf8_lossy(&this.0.log.data).into_owned();
    /// Address of the sender, `ip:port` of the connection.
    sender: String = this.0.from.to_string();
}

#[pymethods]
impl LogRecord {
    fn __repr__(&self) -> String {
        let (node, peer) = (self.node(), self.peer());
        format!("<LogRecord {} {} {node:04X} {peer:04X} {:?}>", self.level(), self.event(), self.data())
    }
}

items! { Record => LogRecord }

/// Collector of the logs of nodes (ZRE/LOG of 20/ZRE). A context manager, and an iterator over records.
///
/// Give its `endpoint` to a node as `collector`: the node announces it, and every node that supports
/// ZRE/LOG sends its log there. When `queue` records wait, or `queue_bytes` of them, the oldest are
/// dropped; with `on_overflow="drop_newest"` the newest.
#[pyclass(module = "zwire.zre", frozen, weakref)]
pub(crate) struct LogCollector {
    engine: Collector,
    handler: Py<Handler>,
}

impl LogCollector {
    /// Queue of records, for a thread of this module that takes them.
    pub(crate) fn queue(&self) -> Arc<Queue<Record>> {
        self.engine.records().clone()
    }
}

attributes! { LogCollector, |this|
    /// Endpoint that nodes are given.
    endpoint: &str = this.engine.endpoint();
    /// Number of records dropped because the queue was full.
    dropped: u64 = this.engine.records().dropped();
    /// Number of messages that were not valid ZRE/LOG.
    malformed: u64 = this.engine.malformed();
}

receives! { LogCollector, "record", |this, py| Source::Channel(this.handler.bind(py).clone()) }
receives_many! { LogCollector, "records", |slf, _py| slf.get().handler.get() }

context_manager! { LogCollector, |this, py| {
    this.close(py);
    Ok(())
} }

#[pymethods]
impl LogCollector {
    /// Stops collecting. Records received before can still be taken.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.engine.close());
    }

    #[new]
    #[pyo3(signature = (
        bind="tcp://*:*", advertise=None, *, queue=65536, queue_bytes=33_554_432, on_overflow="drop_oldest"
    ))]
    fn new(
        py: Python<'_>,
        bind: &str,
        advertise: Option<&str>,
        queue: usize,
        queue_bytes: usize,
        on_overflow: &str,
    ) -> PyResult<Self> {
        crate::log::attach(py)?;
        let overflow =
            settings::overflow(on_overflow).filter(|overflow| !matches!(overflow, Overflow::Wait { .. }));
        let overflow = overflow.ok_or_else(|| {
            let problem = format!("expected drop_newest or drop_oldest, not {on_overflow:?}");
            errors::option(py, "on_overflow", &problem)
        })?;
        let bounds = Bounds { messages: queue, bytes: queue_bytes, overflow };
        let engine = py.detach(|| Collector::bind_bounded(bind, advertise, bounds));
        let engine = engine.or_raise(py)?;
        let handler = Py::new(py, Handler::new(engine.records().clone()))?;
        Ok(Self { engine, handler })
    }
}

/// Sender of log records for a node that is not a `Node` of this module (ZRE/LOG of 20/ZRE). A context
/// manager.
///
/// The hash of the text `node` identifies the sender; zyre uses `ip:port` of the mailbox.
#[pyclass(module = "zwire.zre", frozen, weakref)]
pub(crate) struct LogSender(Sender);

context_manager! { LogSender, |this, py| this.close(py, 1.0) }

represented! { LogSender, |_slf| "of ZRE/LOG" }
represented! { LogCollector, |slf| format!("{}, {} records dropped", slf.get().endpoint(), slf.get().dropped()) }

#[pymethods]
impl LogSender {
    #[new]
    fn new(py: Python<'_>, node: &str) -> PyResult<Self> {
        crate::log::attach(py)?;
        Sender::new(node).map(Self).or_raise(py)
    }

    /// Adds the collector at `tcp://host:port`. Lines logged before it has subscribed wait for it, the
    /// newest 256 of them.
    fn connect(&self, py: Python<'_>, endpoint: &str) -> PyResult<()> {
        py.detach(|| self.0.connect(endpoint)).or_raise(py)
    }

    /// Logs a line. `peer` is a hash, or a text to be hashed; `time` is in seconds since 1970, by default
    /// now.
    #[pyo3(signature = (level, event="", data="", *, peer=None, time=None))]
    fn log(
        &self,
        py: Python<'_>,
        level: &str,
        event: &str,
        data: &str,
        peer: Option<&Bound<'_, PyAny>>,
        time: Option<f64>,
    ) -> PyResult<()> {
        let level = number(py, LogLevel::of(level), level, "level", LogLevel::NAMES)?;
        let event = match event {
            "" => LogEvent::NONE,
            name => number(py, LogEvent::of(name), name, "event", LogEvent::NAMES)?,
        };
        let peer = match peer {
            None => 0,
            Some(peer) if peer.is_instance_of::<PyInt>() => peer.extract()?,
            Some(peer) => log_hash(peer.extract::<String>()?.as_bytes()),
        };
        let time = time.map(|time| {
            Duration::try_from_secs_f64(time)
                .map_err(|_| errors::invalid(py, format!("time is seconds since 1970, not {time}")))
        });
        let time = time.transpose()?;
        let result = py.detach(|| self.0.log(level, event, peer, time, data));
        result.or_raise(py)
    }

    /// Waits until the records were sent to collectors, at most `linger` seconds, and closes.
    #[pyo3(signature = (linger=1.0))]
    fn close(&self, py: Python<'_>, linger: f64) -> PyResult<()> {
        let linger = seconds(Some(linger))?.unwrap_or_default();
        py.detach(|| self.0.close(linger));
        Ok(())
    }
}
