//! `zwire.zre`: a node of a ZRE network.

use crate::{
    arrow::{ArrowBatch, import, take_batch},
    errors::{self, OrRaise},
    loops::{
        calling::{self, Called},
        interrupt::{seconds, waiting},
    },
    options::Options,
    zenoh::{
        enums::PyDelivery,
        handlers::{Handler, check_sync},
        receiver::Source,
        zbytes::{self, Copier},
    },
    zre::settings,
};
use bytes::Bytes;
use core::time::Duration;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{IntoPyDict, PyDict, PyString},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};
use zwire_columns::zre as columns;
use zwire_engine::{
    Error, Queue,
    zre::{BatchTarget, Node as Engine, NodeEvent},
};
use zwire_proto::{
    zenoh::Payload,
    zre::{
        Generation, Uuid,
        node::{Delivery, ZreNode as Machine},
    },
};

/// Nodes that the exit of the interpreter has to stop.
static OPEN: Mutex<Vec<Weak<Engine>>> = Mutex::new(Vec::new());

/// Stops nodes that the program has left running.
pub(crate) fn stop_all(py: Python<'_>) {
    let open: Vec<Weak<Engine>> = core::mem::take(&mut *OPEN.lock());
    py.detach(|| {
        // All nodes begin to stop at once, and are then waited for together.
        let open: Vec<Arc<Engine>> = open.iter().filter_map(Weak::upgrade).collect();
        open.iter().for_each(|node| drop(node.begin_stop()));
        // In a forked child this does nothing.
        open.iter().for_each(|node| drop(node.stop(Duration::ZERO, &mut || false)));
    });
}

/// Implementation of a node; `zwire.zre.Node` is its public class.
#[pyclass(module = "zwire._zwire", name = "ZreNode", frozen, subclass, weakref)]
pub(crate) struct Node {
    engine: Arc<Engine>,
    handler: Py<Handler>,
    callback: bool,
}

/// Messages that are taken from an iterable before the interpreter lock is released to send them.
const SEND_CHUNK: usize = 1024;

/// Outcome of a message to a group.
#[pyclass(module = "zwire.zre", frozen)]
pub(crate) struct Shouted(zwire_proto::zre::node::Shouted);

attributes! { Shouted, |this, py|
    /// Members of the group by UUID, each with the outcome of its copy.
    peers: PyResult<Bound<'py, PyDict>> =
        this.0.peers.iter().map(|(peer, delivery)| (peer.to_string(), PyDelivery(*delivery))).into_py_dict(py);
}

attributes! { Shouted, |this|
    /// Number of queued copies.
    queued: usize = this.0.count(Delivery::Queued);
    /// Number of copies lost because the queue of the member was full.
    full: usize = this.0.count(Delivery::Full);
    /// Number of copies lost because the connection to the member failed.
    not_responding: usize = this.0.count(Delivery::NotResponding);
    /// Number of copies not sent because the protocol generation of the member allows one frame per
    /// message only.
    refused: usize = this.0.count(Delivery::Refused);
}

#[pymethods]
impl Shouted {
    fn __repr__(&self) -> String {
        let (queued, full) = (self.queued(), self.full());
        let (not_responding, refused) = (self.not_responding(), self.refused());
        format!("<Shouted queued={queued} full={full} not_responding={not_responding} refused={refused}>")
    }
}

/// Parses a UUID: 32 hexadecimal digits, with or without dashes, or a `uuid.UUID`.
pub(crate) fn uuid(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Uuid> {
    let text: String = match value.cast::<PyString>() {
        Ok(text) => text.extract()?,
        // A `uuid.UUID`; objects without `hex` are an error.
        Err(_) => match value.getattr("hex").and_then(|hex| hex.extract()) {
            Ok(hex) => hex,
            Err(_) => return Err(errors::wrong_type("a UUID as text or uuid.UUID", value)),
        },
    };
    text.replace('-', "").parse().map_err(|_| errors::invalid(py, format!("{text:?} is no UUID")))
}

/// Extracts the frames of a message: bytes-like, text, or a sequence of them. What has to be copied is copied by `copier`.
fn frames(copier: Copier<'_>, value: &Bound<'_, PyAny>) -> PyResult<Vec<Bytes>> {
    let frame = |value: &Bound<'_, PyAny>| match value.cast::<PyString>() {
        Ok(text) => Ok(Some(Payload::from(copier(text.to_str()?.as_bytes())))),
        Err(_) => zbytes::buffer_for(copier, value),
    };
    if let Some(frame) = frame(value)? {
        return Ok(vec![frame.into_bytes()]);
    }
    let Ok(parts) = value.try_iter() else {
        return Err(errors::wrong_type("bytes, str or a sequence of them", value));
    };
    let one = |part: PyResult<Bound<'_, PyAny>>| {
        let part = part?;
        let frame = frame(&part)?.map(Payload::into_bytes);
        frame.ok_or_else(|| errors::wrong_type("bytes or str as a frame", &part))
    };
    parts.map(one).collect()
}

impl Node {
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Engine, &mut dyn FnMut() -> bool) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        waiting(py, |interrupted| f(&self.engine, interrupted))?.or_raise(py)
    }

    fn frames(&self, value: &Bound<'_, PyAny>) -> PyResult<Vec<Bytes>> {
        frames(&|bytes| self.engine.copy(bytes), value)
    }

    /// Reads from the machine; the default value before the start and after the end.
    fn look<R: Send + Default>(&self, py: Python<'_>, f: impl FnOnce(&Machine) -> R + Send) -> PyResult<R> {
        match py.detach(|| self.engine.look(f)) {
            Ok(found) => Ok(found),
            Err(Error::NotStarted | Error::Closed) => Ok(R::default()),
            Err(error) => Err(errors::engine(py, &error)),
        }
    }

    /// Queue of events, for a thread of this module that takes them.
    pub(crate) fn queue(&self, py: Python<'_>) -> PyResult<Arc<Queue<NodeEvent>>> {
        self.channel(py)?;
        Ok(self.engine.events().clone())
    }

    fn channel<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, Handler>> {
        if self.callback {
            return Err(errors::usage(py, "this node has a callback: events go there"));
        }
        Ok(self.handler.bind(py))
    }
}

attributes! { Node, |this, py|
    /// UUID of the node: 32 upper-case hexadecimal digits.
    uuid: String = this.engine.uuid().to_string();
    /// Name of the node.
    name: String = this.engine.name().as_str().to_owned();
    /// Whether the node has started and not stopped.
    running: bool = this.engine.is_running();
    /// Endpoint of the mailbox, as sent to peers; None while the node does not run.
    endpoint: PyResult<Option<String>> =
        this.look(py, |machine| Some(String::from_utf8_lossy(&machine.endpoint()).into_owned()));
}

receives! { Node, "event", ", and `UsageError` after STOP", |this, py| Source::Channel(this.channel(py)?.clone()) }
receives_many! { Node, "events", |slf, py| slf.get().channel(py)?.get() }

methods! { Node, |this, py|
    /// Opens the mailbox, greets all peers with HELLO, and starts discovery.
    start: PyResult<()> = this.run(py, |engine, _| engine.start());
    /// UUIDs of the connected peers.
    peers: PyResult<Vec<String>> =
        this.look(py, |machine| machine.peers().map(|peer| peer.to_string()).collect());
    /// Groups that peers are in.
    peer_groups: PyResult<Vec<String>> =
        this.look(py, |machine| machine.peer_groups().iter().map(|g| g.as_str().to_owned()).collect());
}

#[pymethods]
impl Node {
    /// Makes a node; `settings` are those of `zwire.zre.Config`, by name.
    #[new]
    #[pyo3(signature = (settings, callback=None))]
    fn new(py: Python<'_>, settings: &Bound<'_, PyDict>, callback: Option<Py<PyAny>>) -> PyResult<Self> {
        crate::log::attach(py)?;
        let options = Options::read(settings, settings::read)?;
        let engine = py.detach(|| Engine::new(options)).or_raise(py)?;
        let engine = Arc::new(engine);
        {
            let mut open = OPEN.lock();
            open.retain(|known| known.strong_count() > 0);
            open.push(Arc::downgrade(&engine));
        }
        let handler = Py::new(py, Handler::new(engine.events().clone()))?;
        let has_callback = callback.is_some();
        if let Some(callback) = callback {
            if !callback.bind(py).is_callable() {
                return Err(errors::wrong_type("a callable as callback", callback.bind(py)));
            }
            check_sync(callback.bind(py))?;
            calling::start(py, engine.events().clone(), Called::new(callback), Arc::default())?;
        }
        Ok(Self { engine, handler, callback: has_callback })
    }

    /// Leaves the network and stops. Queued messages may be sent for `linger` seconds; then peers are
    /// told that the node leaves. The last event is STOP. A second call does nothing.
    #[pyo3(signature = (linger=1.0))]
    fn stop(&self, py: Python<'_>, linger: f64) -> PyResult<()> {
        let linger = seconds(Some(linger))?.unwrap_or_default();
        self.run(py, |engine, interrupted| engine.stop(linger, interrupted))
    }

    /// Adds a header to the HELLO; before the start only.
    fn set_header(&self, py: Python<'_>, name: &str, value: &str) -> PyResult<()> {
        self.run(py, |engine, _| engine.set_header(name, value))
    }

    /// Joins a group; False if the node is in it already.
    fn join(&self, py: Python<'_>, group: &str) -> PyResult<bool> {
        self.run(py, |engine, _| engine.join(group))
    }

    /// Leaves a group; False if the node is not in it.
    fn leave(&self, py: Python<'_>, group: &str) -> PyResult<bool> {
        self.run(py, |engine, _| engine.leave(group))
    }

    /// Sends a message to one peer, and returns the outcome.
    ///
    /// Args:
    ///     peer: UUID of the peer.
    ///     content: One frame, or several.
    ///     patience: How many seconds to wait for room when the queue of the peer is full; by default the
    ///         call never waits.
    ///
    /// Raises:
    ///     UnknownPeer: The peer is not connected.
    ///     InvalidValue: No frame at all, or more than a message may have.
    ///     UsageError: The node is not running.
    #[pyo3(signature = (peer, content, *, patience=0.0))]
    fn whisper(
        &self,
        py: Python<'_>,
        peer: &Bound<'_, PyAny>,
        content: &Bound<'_, PyAny>,
        patience: f64,
    ) -> PyResult<PyDelivery> {
        let (peer, content) = (uuid(py, peer)?, self.frames(content)?);
        let patience = seconds(Some(patience))?.unwrap_or_default();
        self.run(py, |engine, interrupted| engine.whisper(&peer, content, patience, interrupted))
            .map(PyDelivery)
    }

    /// Sends a message to each peer in a group, and returns the outcome of each copy.
    ///
    /// This node need not be in the group, and gets no copy.
    ///
    /// Args:
    ///     group: Name of the group.
    ///     content: One frame, or several.
    ///     patience: How many seconds to wait for room when the queue of a peer is full; by default the call
    ///         never waits.
    ///
    /// Raises:
    ///     InvalidValue: An invalid group name, no frame at all, or more frames than a message may have.
    ///     UsageError: The node is not running.
    #[pyo3(signature = (group, content, *, patience=0.0))]
    fn shout(
        &self,
        py: Python<'_>,
        group: &str,
        content: &Bound<'_, PyAny>,
        patience: f64,
    ) -> PyResult<Shouted> {
        let content = self.frames(content)?;
        let patience = seconds(Some(patience))?.unwrap_or_default();
        let shouted = self.run(py, |engine, interrupted| engine.shout(group, content, patience, interrupted));
        shouted.map(Shouted)
    }

    fn _send_many<'py>(
        &self,
        py: Python<'py>,
        peer: Option<&Bound<'py, PyAny>>,
        group: Option<&str>,
        contents: &Bound<'py, PyAny>,
        patience: f64,
    ) -> PyResult<[u64; 5]> {
        let target = match (peer, group) {
            (Some(peer), _) => BatchTarget::Peer(uuid(py, peer)?),
            (None, group) => BatchTarget::Group(group.unwrap_or_default().into()),
        };
        let patience = seconds(Some(patience))?.unwrap_or_default();
        let mut total = [0; 5];
        let mut send = |chunk: Vec<Vec<Bytes>>| {
            let sent = self.run(py, |engine, interrupted| {
                engine.send_many(&target, &mut chunk.into_iter(), patience, interrupted)
            })?;
            let counts = [sent.messages, sent.queued, sent.full, sent.not_responding, sent.refused];
            total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
            PyResult::Ok(())
        };
        if contents.hasattr("__arrow_c_array__")? {
            send(columns::contents(&import(contents)?).map_err(errors::columns)?)?;
            return Ok(total);
        }
        let mut chunk = Vec::with_capacity(SEND_CHUNK);
        for content in contents.try_iter()? {
            chunk.push(self.frames(&content?)?);
            if chunk.len() == SEND_CHUNK {
                send(core::mem::replace(&mut chunk, Vec::with_capacity(SEND_CHUNK)))?;
            }
        }
        send(chunk)?;
        Ok(total)
    }

    /// UUIDs of the peers in a group.
    fn peers_by_group(&self, py: Python<'_>, group: &str) -> PyResult<Vec<String>> {
        self.look(py, |machine| machine.peers_of(group).map(|peer| peer.to_string()).collect())
    }

    /// Groups that this node is in.
    fn own_groups(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let groups = self.run(py, |engine, _| engine.own_groups())?;
        Ok(groups.iter().map(|group| group.as_str().to_owned()).collect())
    }

    /// Endpoint of a peer, from its HELLO; None if the peer is not connected.
    fn peer_address(&self, py: Python<'_>, peer: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let peer = uuid(py, peer)?;
        self.look(py, |machine| machine.peer_address(&peer).map(|text| text.as_str().to_owned()))
    }

    /// Name of a peer; None if it is not connected.
    fn peer_name(&self, py: Python<'_>, peer: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let peer = uuid(py, peer)?;
        self.look(py, |machine| machine.peer_name(&peer).map(|text| text.as_str().to_owned()))
    }

    /// Headers of a peer; empty if it is not connected.
    fn peer_headers<'py>(&self, py: Python<'py>, peer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let peer = uuid(py, peer)?;
        let headers = self.look(py, |machine| machine.peer_headers(&peer).unwrap_or_default().to_vec())?;
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).into_py_dict(py)
    }

    /// A header of a peer; None if it has none of that name, or is not connected.
    fn peer_header(&self, py: Python<'_>, peer: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<String>> {
        let peer = uuid(py, peer)?;
        self.look(py, |machine| {
            let headers = machine.peer_headers(&peer).unwrap_or_default();
            let found = headers.iter().find(|(known, _)| *known == *name);
            found.map(|(_, value)| value.as_str().to_owned())
        })
    }

    /// Protocol generation of a peer: `20`, `zyre1`, `36` or `43`; None if it is not connected.
    fn peer_generation(&self, py: Python<'_>, peer: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
        let peer = uuid(py, peer)?;
        self.look(py, |machine| machine.peer_generation(&peer).map(Generation::name))
    }

    /// Waits until at least `n` peers are connected, or in `group`, and returns their UUIDs. Raises
    /// `TimedOut` after `timeout` seconds.
    #[pyo3(signature = (count, timeout=None, *, group=None))]
    fn wait_for_peers(
        &self,
        py: Python<'_>,
        count: usize,
        timeout: Option<f64>,
        group: Option<&str>,
    ) -> PyResult<Vec<String>> {
        let timeout = seconds(timeout)?;
        let peers =
            self.run(py, |engine, interrupted| engine.wait_for_peers(count, group, timeout, interrupted))?;
        Ok(peers.iter().map(ToString::to_string).collect())
    }

    /// Keeps a peer at `tcp://host:port`, and reconnects whenever it is gone. The host may be a name.
    /// Under CURVE the public key of the peer follows: `tcp://host:port|KEY`.
    fn require_peer(&self, py: Python<'_>, endpoint: &str) -> PyResult<()> {
        let (endpoint, key) =
            settings::peer(endpoint).ok_or_else(|| errors::invalid(py, settings::WANTED_PEER.to_owned()))?;
        self.run(py, |engine, _| engine.require_peer(&endpoint, key))
    }

    /// Contests the leadership of a group that the node is in. All members have to support elections, as
    /// zyre does from 2.0.1 on.
    fn contest(&self, py: Python<'_>, group: &str) -> PyResult<()> {
        self.run(py, |engine, _| engine.contest(group))
    }

    /// UUID of the leader of a group, as far as this node knows.
    fn leader(&self, py: Python<'_>, group: &str) -> PyResult<Option<String>> {
        self.look(py, |machine| machine.leader(group).map(|leader| leader.to_string()))
    }

    /// Starts a gossip hub at `tcp://host:port`; returns the endpoint that it listens on.
    fn gossip_bind(&self, py: Python<'_>, endpoint: &str) -> PyResult<String> {
        self.run(py, |engine, _| engine.gossip_bind(endpoint))
    }

    /// Finds peers by the gossip hub at `tcp://host:port`.
    fn gossip_connect(&self, py: Python<'_>, endpoint: &str) -> PyResult<()> {
        self.run(py, |engine, _| engine.gossip_connect(endpoint))
    }

    /// Takes up to `max_rows` events as an Arrow record batch, built without a Python object per event.
    ///
    /// Columns: type, peer, name, address, group, headers (map), content (list of binary), lost, recv_ts.
    /// Waits for the first event only; at the timeout the batch is empty.
    #[pyo3(signature = (max_rows=65536, timeout=None))]
    fn recv_batch(&self, py: Python<'_>, max_rows: usize, timeout: Option<f64>) -> PyResult<ArrowBatch> {
        self.channel(py)?;
        self.engine.birth().check().or_raise(py)?;
        let batch = |events: &VecDeque<NodeEvent>| {
            let events = events.iter().map(|NodeEvent { event, time }| (event, *time));
            columns::batch(events).map_err(|error| error.to_string())
        };
        let failed = |error| errors::recv(py, error, timeout);
        take_batch(py, self.engine.events(), max_rows, timeout, batch, failed)
    }

    /// Counters since the start, by name; none of them falls.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.run(py, |engine, _| engine.stats())?;
        let dict = stats.machine.named().into_py_dict(py)?;
        dict.update(
            dict! { py; of stats: queue_full, taken_over, takeovers_refused, events_dropped,
            frames_lent, frames_unlent, frames_borrowed }
            .as_mapping(),
        )?;
        Ok(dict)
    }

    /// Diagnosis of discovery: why the node is or is not found.
    ///
    /// `interfaces`: name, address, prefix, broadcast, used, why (if not used), and for used ones: sent,
    /// failed, error. `beacons_unheard`: the reason why beacons cannot be received, or None. `ignored`:
    /// source, reason, count, last (seconds since 1970), of the newest 64 kinds.
    fn doctor<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.run(py, |engine, _| engine.doctor())?;
        let mut interfaces = Vec::new();
        for candidate in &found.interfaces {
            let used = candidate.verdict == zwire_engine::zre::interfaces::InterfaceVerdict::Used;
            let dict = dict! { py;
                of candidate: name;
                address = candidate.address.to_string();
                of candidate: prefix;
                broadcast = candidate.broadcast.to_string(), used = used,
                why = (!used).then(|| candidate.verdict.to_string())
            };
            if let Some(sender) = found.senders.iter().find(|sender| sender.candidate == *candidate) {
                dict.update(dict! { py; of sender: sent, failed, error }.as_mapping())?;
            }
            interfaces.push(dict);
        }
        let mut ignored = Vec::new();
        for entry in &found.ignored {
            ignored.push(dict! { py;
                source = entry.source.to_string(), reason = entry.reason.to_string(), count = entry.count,
                last = entry.last.wall.as_secs_f64()
            });
        }
        Ok(dict! { py; interfaces = interfaces, beacons_unheard = found.deaf, ignored = ignored })
    }

    fn __repr__(&self) -> String {
        format!("<Node {} {}>", self.engine.name().as_str(), self.engine.uuid())
    }
}

/// Makes a pair of CURVE keys, public and secret, as Z85 texts of 40 characters. The public key never
/// begins with a zero octet, which peers would take for a missing key.
#[pyfunction]
pub(crate) fn zre_keypair() -> PyResult<(String, String)> {
    settings::keypair()
}

/// The 16-bit hash that ZRE/LOG uses for nodes and peers.
#[pyfunction]
pub(crate) fn zre_log_hash(text: &str) -> u16 {
    zwire_proto::zre::wire::log_hash(text.as_bytes())
}
