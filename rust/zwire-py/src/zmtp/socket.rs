//! `zwire.zmtp`: ZeroMQ sockets.

use crate::{
    arrow::{ArrowBatch, import_array, take_batch},
    errors::{self, OrRaise},
    loops::interrupt::{seconds, waiting},
    options::Options,
    zenoh::zbytes::{self, PyZBytes},
    zmtp::options,
};
use bytes::Bytes;
use core::time::Duration;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyString, PyTuple},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Weak},
};
use zwire_columns::zmtp;
use zwire_engine::{
    RecvError,
    zmtp::{CloseReason, Event, EventKind, Received, Socket, SocketError},
};
use zwire_proto::zmtp::{link::Message, wire::SocketType};

/// Longest message that is sent without releasing the interpreter lock: copying it takes a few microseconds.
const QUICK: usize = 16 * 1024;

/// Time for which the exit of the interpreter waits for messages of a socket that was left open.
const EXIT_LINGER: Duration = Duration::from_secs(1);

/// Sockets that the exit of the interpreter has to close.
static OPEN: Mutex<Vec<Weak<Socket>>> = Mutex::new(Vec::new());

/// Closes sockets that the program has left open.
pub(crate) fn close_all(py: Python<'_>) {
    let open: Vec<Weak<Socket>> = core::mem::take(&mut *OPEN.lock());
    py.detach(|| {
        for socket in open.iter().filter_map(Weak::upgrade) {
            // In a forked child this does nothing.
            let _ = socket.close(Some(EXIT_LINGER), &mut || false);
        }
    });
}

/// Event of a connection of a socket.
///
/// ``type`` is ``CONNECTED``, ``DISCONNECTED``, ``FAILED``, ``IDENTITY_TAKEN`` or ``HANDED_OVER``. If a
/// connection ended or failed, ``reason`` is a short name of the cause, and ``error`` describes it.
#[pyclass(name = "ZmtpEvent", module = "zwire._zwire", frozen)]
pub(crate) struct PyEvent(Event);

attributes! { PyEvent, |this, py|
    /// Kind of the event.
    r#type: &'static str = this.0.kind.name();
    /// Endpoint as it was bound or connected to.
    endpoint: &str = &this.0.endpoint;
    /// Address of the peer, if there was a connection.
    remote: Option<String> = this.0.remote.map(|address| address.to_string());
    /// Short name of the cause.
    reason: Option<&'static str> = this.why().map(CloseReason::word);
    /// Identity of the peer.
    identity: Bound<'py, PyBytes> = PyBytes::new(py, &this.0.identity);
    /// Cause, as an exception that could be raised.
    error: Option<PyErr> = this.why().map(|reason| errors::close_reason(py, &this.0.endpoint, reason));
}

#[pymethods]
impl PyEvent {
    fn __repr__(&self) -> String {
        let reason = self.why().map_or_else(String::new, |reason| format!(": {reason}"));
        format!("<Event {} {}{reason}>", self.0.kind.name(), self.0.endpoint)
    }
}

impl PyEvent {
    const fn why(&self) -> Option<&zwire_engine::zmtp::CloseReason> {
        match &self.0.kind {
            EventKind::Disconnected(reason) | EventKind::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}

/// Base of `zwire.zmtp.Dealer`, `Router`, `Pub` and `Sub`.
#[pyclass(name = "ZmtpSocket", module = "zwire._zwire", frozen, subclass, weakref)]
pub(crate) struct PySocket {
    pub(crate) socket: Arc<Socket>,
    kind: SocketType,
    linger: Option<Duration>,
}

/// Converts a message: a frame, or a list or tuple of frames.
fn message(py: Python<'_>, head: &[Bytes], obj: &Bound<'_, PyAny>) -> PyResult<Message> {
    let mut frames = head.to_vec();
    if let Ok(list) = obj.cast::<PyList>() {
        frames.reserve(list.len());
        for item in list.iter() {
            frames.push(zbytes::extract(&item)?);
        }
    } else if let Ok(tuple) = obj.cast::<PyTuple>() {
        for item in tuple.iter_borrowed() {
            frames.push(zbytes::extract(&item)?);
        }
    } else if head.is_empty() {
        return zbytes::extract(obj).map(Message::single);
    } else {
        frames.push(zbytes::extract(obj)?);
    }
    Message::of(frames).ok_or_else(|| errors::invalid(py, "a message has at least one frame".to_owned()))
}

fn head(head: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Bytes>> {
    let Some(head) = head else { return Ok(Vec::new()) };
    if head.is_instance_of::<PyList>() || head.is_instance_of::<PyTuple>() {
        return head.try_iter()?.map(|item| zbytes::extract(&item?)).collect();
    }
    Ok(vec![zbytes::extract(head)?])
}

impl PySocket {
    /// Runs an operation that may wait, without the interpreter lock.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&Socket, &mut dyn FnMut() -> bool) -> Result<R, SocketError> + Send,
    ) -> PyResult<R> {
        waiting(py, |interrupted| f(&self.socket, interrupted))?.or_raise(py)
    }

    fn list(&self, py: Python<'_>, received: Received, copy: bool) -> PyResult<Py<PyAny>> {
        let Received { identity, message } = received;
        let list = PyList::empty(py);
        if self.kind == SocketType::Router {
            list.append(PyBytes::new(py, &identity))?;
        }
        if copy {
            for frame in message.frames() {
                list.append(PyBytes::new(py, frame))?;
            }
        } else {
            for frame in message.into_frames() {
                list.append(Py::new(py, PyZBytes::from(frame))?)?;
            }
        }
        Ok(list.into_any().unbind())
    }

    fn next(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Result<Received, RecvError>> {
        self.receives(py)?;
        // A waiting message is taken without releasing the interpreter lock.
        match self.socket.inbox().try_recv() {
            Ok(Some(received)) => return Ok(Ok(received)),
            Ok(None) if timeout == Some(Duration::ZERO) => {
                self.socket.flush();
                return Ok(Err(RecvError::Timeout));
            }
            Ok(None) => {}
            Err(error) => return Ok(Err(error)),
        }
        waiting(py, |interrupted| self.socket.recv(timeout, interrupted))
    }

    /// Refuses to receive on a PUB, which would wait for ever.
    fn receives(&self, py: Python<'_>) -> PyResult<()> {
        if self.kind == SocketType::Pub {
            return Err(errors::usage(py, "a PUB does not receive"));
        }
        self.look(py).map(drop)
    }

    /// Fails in a forked child; messages received before the end can still be taken.
    fn look(&self, py: Python<'_>) -> PyResult<&Socket> {
        self.socket.look().or_raise(py).map(|()| &*self.socket)
    }
}

attributes! { PySocket, |this, py|
    /// Number of open connections.
    connected: PyResult<usize> = Ok(this.look(py)?.connected());
    /// Endpoints that the socket listens on.
    endpoints: PyResult<Vec<String>> = Ok(this.look(py)?.endpoints());
    /// Whether the socket is closed.
    closed: PyResult<bool> = Ok(this.look(py)?.check().is_err());
}

context_manager! { PySocket, |this, py| this.close(py, None) }

represented! { PySocket, |slf| {
    let this = slf.get();
    let closed = if this.socket.check().is_err() { ", closed" } else { "" };
    format!("{} connections, bound to {:?}{closed}", this.socket.connected(), this.socket.endpoints())
} }

methods! { PySocket, |this, py|
    /// Counters by name.
    stats: PyResult<BTreeMap<&'static str, u64>> = Ok(this.look(py)?.stats());
    /// Identities of the connected peers of a ROUTER.
    identities: PyResult<Vec<Bound<'py, PyBytes>>> =
        Ok(this.look(py)?.identities().iter().map(|identity| PyBytes::new(py, identity)).collect());
}

#[pymethods]
impl PySocket {
    #[new]
    fn new(py: Python<'_>, socket_type: &str, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        crate::log::attach(py)?;
        let kind = SocketType::from_name(socket_type.as_bytes());
        let kind = kind.ok_or_else(|| errors::invalid(py, format!("no socket type {socket_type:?}")))?;
        let (options, linger) = Options::read(options, |from| options::read(kind, from))?;
        let socket = Socket::open(options).or_raise(py)?;
        let socket = Arc::new(socket);
        let mut open = OPEN.lock();
        open.retain(|socket| socket.strong_count() > 0);
        open.push(Arc::downgrade(&socket));
        Ok(Self { socket, kind, linger })
    }

    /// Listens on ``tcp://host:port``; ``*`` stands for all addresses, and ``*`` or 0 for a free port.
    ///
    /// Returns the endpoint with the port that was chosen.
    fn bind(&self, py: Python<'_>, endpoint: &str) -> PyResult<String> {
        self.run(py, |socket, _| socket.bind(endpoint))
    }

    /// Connects to ``tcp://host:port``, and reconnects whenever the connection is lost; returns the endpoint.
    ///
    /// With ``wait`` in seconds, waits for the connection. Raises ``AuthenticationError`` or another
    /// ``HandshakeError`` at once if the peer refuses the connection, ``ConnectError`` if it does not
    /// answer in time. The endpoint is kept in both cases; ``disconnect`` removes it.
    #[pyo3(signature = (endpoint, *, wait=None))]
    fn connect(&self, py: Python<'_>, endpoint: String, wait: Option<f64>) -> PyResult<String> {
        let wait = seconds(wait)?;
        self.run(py, |socket, interrupted| socket.connect(&endpoint, wait, interrupted))?;
        Ok(endpoint)
    }

    /// Reverts a ``bind``; its connections are closed.
    fn unbind(&self, py: Python<'_>, endpoint: &str) -> PyResult<()> {
        self.run(py, |socket, _| socket.release(endpoint))
    }

    /// Reverts a ``connect``; its connection is closed, and messages waiting for it are dropped.
    fn disconnect(&self, py: Python<'_>, endpoint: &str) -> PyResult<()> {
        self.run(py, |socket, _| socket.release(endpoint))
    }

    /// Sends a message: one frame, or a list or tuple of frames; bytes, other buffers, or text as UTF-8.
    ///
    /// ``timeout`` limits the wait for room, in seconds: None waits without limit, 0 does not wait. Raises
    /// ``QueueFull`` with 0, ``TimedOut`` otherwise, ``AuthenticationError`` or another ``HandshakeError`` if
    /// all peers refuse the connection. A PUB never waits, nor does a ROUTER without ``mandatory``.
    #[pyo3(signature = (frames, timeout=None))]
    fn send(&self, py: Python<'_>, frames: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let message = message(py, &[], frames)?;
        let timeout = seconds(timeout)?;
        if message.cost() > QUICK {
            return self.run(py, |socket, interrupted| socket.send(message, timeout, interrupted));
        }
        match self.socket.try_send(message) {
            Ok(None) => Ok(()),
            Ok(Some(unsent)) => {
                self.run(py, |socket, interrupted| socket.send_again(unsent, timeout, interrupted))
            }
            Err(error) => Err(errors::socket(py, &error)),
        }
    }

    /// Sends many messages, with one lock and one system call for many of them; returns their number.
    ///
    /// ``messages`` is an iterable of messages, or an Arrow array of binary (each a message of one frame)
    /// or of list<binary>. ``head`` is one frame or several that come first in each: the identity at a
    /// ROUTER, a topic at a PUB. ``timeout`` applies to each message that has to wait; the exception then
    /// has ``sent``, the number of messages sent before it.
    #[pyo3(signature = (messages, timeout=None, *, head=None))]
    fn send_many(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        head: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let timeout = seconds(timeout)?;
        let head = self::head(head)?;
        let arrow = messages.hasattr("__arrow_c_array__")?;
        let (taken, result) = if arrow {
            let mut messages = zmtp::messages(&import_array(messages)?, head).map_err(errors::columns)?;
            self.run(py, |socket, interrupted| Ok(socket.send_many(&mut messages, timeout, interrupted)))?
        } else {
            if messages.is_instance_of::<PyBytes>() || messages.is_instance_of::<PyString>() {
                return Err(errors::wrong_type("an iterable of messages or an Arrow array", messages));
            }
            let list = messages.try_iter()?.map(|item| message(py, &head, &item?));
            let list = list.collect::<PyResult<Vec<_>>>()?;
            let mut list = list.into_iter();
            self.run(py, |socket, interrupted| Ok(socket.send_many(&mut list, timeout, interrupted)))?
        };
        match result {
            Ok(()) => Ok(taken),
            Err(error) => Err(errors::socket_after(py, &error, taken)),
        }
    }

    /// Waits for the next message, and returns a list of frames; at a ROUTER the identity of the sender
    /// is the first.
    ///
    /// Raises ``TimedOut`` after ``timeout`` seconds, if given. Frames are ``bytes``, or with
    /// ``copy=False`` ``ZBytes``, which refer to the receive buffer.
    #[pyo3(signature = (timeout=None, *, copy=true))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>, copy: bool) -> PyResult<Py<PyAny>> {
        match self.next(py, seconds(timeout)?)? {
            Ok(received) => self.list(py, received, copy),
            Err(error) => Err(errors::recv(py, error, timeout)),
        }
    }

    /// Takes up to ``max_items`` messages at once; waits for the first one only, and returns an empty
    /// list at the timeout.
    #[pyo3(signature = (max_items, timeout=None, *, copy=true))]
    fn recv_many(
        &self,
        py: Python<'_>,
        max_items: usize,
        timeout: Option<f64>,
        copy: bool,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let first = match self.next(py, seconds(timeout)?)? {
            _ if max_items == 0 => return Ok(Vec::new()),
            Ok(received) => received,
            Err(RecvError::Timeout) => return Ok(Vec::new()),
            Err(error) => return Err(errors::recv(py, error, timeout)),
        };
        let mut rest = Vec::new();
        self.socket.inbox().drain_into(&mut rest, max_items - 1);
        core::iter::once(first).chain(rest).map(|received| self.list(py, received, copy)).collect()
    }

    /// Takes up to ``max_rows`` messages as an Arrow record batch, without a Python object for each.
    ///
    /// Columns: ``frames``, a list<binary>; at a ROUTER ``identity`` before it. Waits for the first message
    /// only; at the timeout the batch is empty. A batch holds about 8 MiB at most, and a frame of 256 KiB or
    /// more alone, without a copy.
    #[pyo3(signature = (max_rows=65536, timeout=None))]
    fn recv_batch(&self, py: Python<'_>, max_rows: usize, timeout: Option<f64>) -> PyResult<ArrowBatch> {
        self.receives(py)?;
        let queue = self.socket.inbox();
        if queue.is_empty() {
            self.socket.flush();
        }
        let router = self.kind == SocketType::Router;
        let batch = |all: &VecDeque<Received>| {
            let identities = router.then(|| all.iter().map(|received| &received.identity));
            zmtp::batch(all.iter().map(|received| &received.message), identities)
        };
        take_batch(py, queue, max_rows, timeout, batch, |error| errors::recv(py, error, timeout))
    }

    /// Subscribes to messages with a first frame that begins with ``prefix``; two subscriptions have to be
    /// cancelled twice.
    fn subscribe(&self, py: Python<'_>, prefix: &Bound<'_, PyAny>) -> PyResult<()> {
        let prefix = zbytes::extract(prefix)?;
        self.run(py, |socket, _| socket.subscribe(&prefix))
    }

    /// Cancels one subscription; returns whether it existed.
    fn unsubscribe(&self, py: Python<'_>, prefix: &Bound<'_, PyAny>) -> PyResult<bool> {
        let prefix = zbytes::extract(prefix)?;
        self.run(py, |socket, _| socket.cancel(&prefix))
    }

    /// Connection events since the last call, oldest first.
    ///
    /// With a timeout in seconds, waits at most that long for an event. A thousand events are kept.
    #[pyo3(signature = (timeout=None))]
    fn events(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<PyEvent>> {
        let queue = self.look(py)?.events();
        if let Some(timeout) = seconds(timeout)? {
            // A timeout and the end of the socket both mean that there is nothing more.
            let _ = waiting(py, |interrupted| queue.wait_readable(Some(timeout), interrupted))?;
        }
        let mut events = Vec::new();
        queue.drain_into(&mut events, usize::MAX);
        Ok(events.into_iter().map(PyEvent).collect())
    }

    /// Stops accepting messages, waits until queued messages are written, and closes all connections.
    ///
    /// ``linger`` limits the wait, in seconds; the default is that of the socket. Messages received
    /// before can still be taken. A second call does nothing.
    #[pyo3(signature = (linger=None))]
    fn close(&self, py: Python<'_>, linger: Option<f64>) -> PyResult<()> {
        let linger = seconds(linger)?.or(self.linger);
        self.run(py, |socket, interrupted| socket.close(linger, interrupted))
    }

    const fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.next(py, None)? {
            Ok(received) => self.list(py, received, true).map(Some),
            Err(RecvError::Closed) => Ok(None),
            Err(error) => Err(errors::recv(py, error, None)),
        }
    }
}

/// Makes a pair of CURVE keys, public and secret, as Z85 of 40 characters.
#[pyfunction]
pub(crate) fn zmtp_keypair() -> PyResult<(String, String)> {
    crate::zre::settings::keypair()
}
