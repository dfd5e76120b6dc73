//! The one conversion of errors to Python exceptions. Nothing else in the binding makes one.
//!
//! The classes are written in Python (`zwire.errors`), with docstrings, attributes and pickling.

use crate::loops::{ending, once::Once};
use pyo3::{
    exceptions::{
        PyBlockingIOError, PyBufferError, PyIndexError, PyKeyboardInterrupt, PyOSError, PyRuntimeError,
        PyTypeError, PyUnicodeDecodeError, PyValueError,
    },
    prelude::*,
    types::{PyBytes, PyDict, PyType},
};
use std::path::Path;
use zwire_engine::{
    ConnectReason, Error, RecvError,
    config::ConfigError,
    zmtp::{CloseReason, SocketError},
};
use zwire_proto::{
    DecodeError,
    cdr::{Misfit, Problem},
    zenoh::{
        keyexpr::KeyExprError, link::HandshakeError as OpenError, session::SessionError,
        timestamp::TimestampError, zid::ZenohIdError,
    },
    zmtp::{link::ZmtpHandshakeError, wire::Mechanism},
    zre::node::NodeError,
};
use zwire_spool::{Error as SpoolError, Shard};
use zwire_storage::Error as StorageError;

/// A class of `zwire.errors`.
macro_rules! class {
    ($py:expr, $name:ident) => {{
        static CLASS: Once<Py<PyType>> = Once::new();
        CLASS.class($py, "zwire.errors", stringify!($name))
    }};
}

/// Attributes of an exception.
macro_rules! fields {
    ($py:expr, $($name:ident = $value:expr),+) => {{
        let fields = PyDict::new($py);
        // A missing attribute is None; setting one in a fresh dictionary does not fail.
        $(let _ = fields.set_item(stringify!($name), $value);)+
        Some(fields)
    }};
}

/// An instance of a class of `zwire.errors`, or the error that kept it from being made.
fn instance(
    class: PyResult<&Bound<'_, PyType>>,
    message: String,
    fields: Option<Bound<'_, PyDict>>,
) -> PyErr {
    match class.and_then(|class| class.call((message,), fields.as_ref())) {
        Ok(instance) => PyErr::from_value(instance),
        Err(error) => error,
    }
}

/// An instance of a class named here, with its attributes.
macro_rules! raise {
    ($py:expr, $class:ident, $message:expr) => {
        instance(class!($py, $class), $message, None)
    };
    ($py:expr, $class:ident, $message:expr, $($fields:tt)+) => {
        instance(class!($py, $class), $message, fields!($py, $($fields)+))
    };
}

/// Conversion of a failure to its exception.
pub(crate) trait OrRaise<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

macro_rules! raised_by {
    ($($error:ty: $convert:ident),+) => {
        $(impl<T> OrRaise<T> for Result<T, $error> {
            fn or_raise(self, py: Python<'_>) -> PyResult<T> {
                self.map_err(|error| $convert(py, &error))
            }
        })+
    };
}

raised_by! {
    Error: engine, SocketError: socket, SpoolError: spool, ConfigError: config, KeyExprError: key_expr,
    TimestampError: text, ZenohIdError: text
}

/// Converts an error of the engine.
pub(crate) fn engine(py: Python<'_>, error: &Error) -> PyErr {
    if matches!(error, Error::Closed) {
        ending::stay_at_exit(py);
    }
    let message = error.to_string();
    match error {
        Error::Runtime { .. } => PyRuntimeError::new_err(message),
        Error::Closed => raise!(py, SessionClosed, message),
        Error::Forked { .. }
        | Error::NotStarted
        | Error::Started
        | Error::NoTimestamps
        | Error::Undeclared { .. } => raise!(py, UsageError, message),
        Error::WouldBlock => PyBlockingIOError::new_err(message),
        Error::Config(error) => config(py, error),
        Error::Endpoint(_) => raise!(py, InvalidValue, message),
        Error::Connect { endpoint, reason } | Error::Bind { endpoint, reason } => {
            no_link(py, message, Some(endpoint), reason)
        }
        Error::Listen { endpoint, .. } => raise!(py, ConnectError, message, endpoint = endpoint),
        Error::NobodyFound { failures, .. } => match failures.last() {
            Some((endpoint, reason)) => no_link(py, message, Some(endpoint), reason),
            None => raise!(py, ConnectError, message, endpoint = None::<&str>),
        },
        Error::TimedOut { after, .. } => raise!(py, TimedOut, message, seconds = after.as_secs_f64()),
        Error::LinkLost => raise!(py, LinkClosed, message, reason = "link-lost", by_peer = true),
        // The check that asked to stop has an exception pending, which its caller raises instead.
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        Error::Key(error) => key_expr(py, error),
        Error::Command(error) => command(py, error),
        Error::NoCurve => raise!(py, ConfigError, message),
        Error::Node(error) => node(py, error),
        Error::Tap { .. } => raise!(py, TransportError, message),
    }
}

/// A file of a session beside a spool.
pub(crate) fn spool_io(py: Python<'_>, message: String) -> PyErr {
    raise!(py, SpoolError, message)
}

/// An address on which a server cannot listen.
pub(crate) fn listening(py: Python<'_>, message: String, address: &str) -> PyErr {
    raise!(py, ConnectError, message, endpoint = address)
}

/// Why there is no link to or at an endpoint of Zenoh.
fn no_link(py: Python<'_>, message: String, endpoint: Option<&str>, reason: &ConnectReason) -> PyErr {
    let (class, word) = match reason {
        ConnectReason::TlsSettings(error) => {
            return raise!(py, ConfigError, message, path = error.path());
        }
        ConnectReason::Tls(failure) if failure.is_authentication() => {
            (class!(py, AuthenticationError), failure.word())
        }
        ConnectReason::Tls(failure) => (class!(py, HandshakeError), failure.word()),
        ConnectReason::WebSocket(_) => (class!(py, HandshakeError), "not-understood"),
        ConnectReason::Handshake(error @ OpenError::Auth(_)) => {
            (class!(py, AuthenticationError), error.word())
        }
        ConnectReason::Handshake(error) => (class!(py, HandshakeError), error.word()),
        ConnectReason::Io(_)
        | ConnectReason::TimedOut(_)
        | ConnectReason::Unresolved
        | ConnectReason::Protocol(_)
        | ConnectReason::Connected(_)
        | ConnectReason::NoEndpoint => {
            return raise!(py, ConnectError, message, endpoint = endpoint);
        }
    };
    instance(class, message, fields!(py, endpoint = endpoint, reason = word))
}

/// Converts an error of a ZeroMQ socket.
pub(crate) fn socket(py: Python<'_>, error: &SocketError) -> PyErr {
    let message = error.to_string();
    match error {
        SocketError::Engine(error) => engine(py, error),
        SocketError::Full | SocketError::Nobody => raise!(py, QueueFull, message),
        SocketError::Unreachable { identity } => {
            raise!(py, Unreachable, message, identity = PyBytes::new(py, identity))
        }
        SocketError::NotConnected { endpoint, reason } => close_reason(py, endpoint, reason),
        SocketError::NoIdentity | SocketError::NoSuchEndpoint(_) | SocketError::Subscriptions(_) => {
            raise!(py, InvalidValue, message)
        }
        SocketError::Unsupported { .. } => raise!(py, UsageError, message),
    }
}

/// As [`socket`], after so many messages were taken.
pub(crate) fn socket_after(py: Python<'_>, error: &SocketError, taken: usize) -> PyErr {
    let error = socket(py, error);
    // Only the exceptions of the interpreter itself take no attributes.
    let _ = error.value(py).setattr("sent", taken);
    error
}

/// Converts the reason why a connection of ZeroMQ ended.
pub(crate) fn close_reason(py: Python<'_>, endpoint: &str, reason: &CloseReason) -> PyErr {
    let class = match reason {
        CloseReason::Local | CloseReason::Peer | CloseReason::Silent | CloseReason::Protocol(_) => {
            let by_peer = matches!(reason, CloseReason::Peer);
            let fields = fields!(py, reason = reason.word(), by_peer = by_peer);
            return instance(class!(py, LinkClosed), reason.to_string(), fields);
        }
        // A status of ZAP; other words are about the sockets.
        CloseReason::Handshake(ZmtpHandshakeError::Peer { reason })
            if reason.iter().all(u8::is_ascii_digit) =>
        {
            class!(py, AuthenticationError)
        }
        CloseReason::Handshake(
            ZmtpHandshakeError::Denied(_)
            | ZmtpHandshakeError::Sealed { .. }
            | ZmtpHandshakeError::Vouch
            | ZmtpHandshakeError::ServerKey
            | ZmtpHandshakeError::WeakKey { .. },
        )
        | CloseReason::NotAllowed => class!(py, AuthenticationError),
        CloseReason::ClosedInHandshake { mechanism, .. } if *mechanism != Mechanism::NULL => {
            class!(py, AuthenticationError)
        }
        CloseReason::Handshake(_) | CloseReason::ClosedInHandshake { .. } => class!(py, HandshakeError),
        CloseReason::Io(_)
        | CloseReason::Unresolved
        | CloseReason::HandshakeTimeout(_)
        | CloseReason::TooMany
        | CloseReason::TooManyHandshakes => {
            let message = format!("could not connect to {endpoint}: {reason}");
            return raise!(py, ConnectError, message, endpoint = endpoint);
        }
    };
    let fields = fields!(py, endpoint = endpoint, reason = reason.word());
    instance(class, format!("not connected to {endpoint}: {reason}"), fields)
}

/// Error for an invalid option; `path` names it.
pub(crate) fn option(py: Python<'_>, name: &str, problem: &str) -> PyErr {
    raise!(py, ConfigError, format!("{name}: {problem}"), path = name)
}

/// Converts the reason why a queue returned no item.
pub(crate) fn recv(py: Python<'_>, error: RecvError, seconds: Option<f64>) -> PyErr {
    match error {
        RecvError::Timeout => {
            let message = format!("nothing came within {} s", seconds.unwrap_or_default());
            raise!(py, TimedOut, message, seconds = seconds)
        }
        RecvError::Closed => {
            ending::stay_at_exit(py);
            raise!(py, SessionClosed, "closed, and all that came is taken".to_owned())
        }
        RecvError::Interrupted => PyKeyboardInterrupt::new_err(()),
    }
}

/// Converts an error of the configuration.
pub(crate) fn config(py: Python<'_>, error: &ConfigError) -> PyErr {
    let fields = if let ConfigError::UnknownKey { path, nearest } = error.innermost() {
        fields!(py, path = path, nearest = nearest)
    } else {
        error.path().and_then(|path| fields!(py, path = path))
    };
    instance(class!(py, ConfigError), error.to_string(), fields)
}

/// Converts the refusal of a command.
pub(crate) fn command(py: Python<'_>, error: &SessionError) -> PyErr {
    match error {
        SessionError::Namespace { error, .. } => key_expr(py, error),
        SessionError::Closed => raise!(py, SessionClosed, error.to_string()),
        SessionError::ReplyKey { .. } => raise!(py, LocalProtocolError, error.to_string()),
        SessionError::UnknownEntity { .. }
        | SessionError::QueryOver { .. }
        | SessionError::TooMany { .. } => raise!(py, UsageError, error.to_string()),
    }
}

/// Converts the refusal of a command by a ZRE node.
fn node(py: Python<'_>, error: &NodeError) -> PyErr {
    let message = error.to_string();
    match error {
        NodeError::UnknownPeer { peer } => raise!(py, UnknownPeer, message, peer = peer.to_string()),
        NodeError::Stopped | NodeError::NotInGroup { .. } => raise!(py, UsageError, message),
        NodeError::NoAddress
        | NodeError::Endpoint { .. }
        | NodeError::EndpointKey { .. }
        | NodeError::NoGeneration
        | NodeError::SecureLegacy
        | NodeError::KeyBeginsWithZero => raise!(py, ConfigError, message),
        NodeError::TooManyEndpoints { .. } | NodeError::Encode(_) | NodeError::NotResponding { .. } => {
            raise!(py, InvalidValue, message)
        }
    }
}

/// Converts an illegal key expression.
pub(crate) fn key_expr(py: Python<'_>, error: &KeyExprError) -> PyErr {
    raise!(py, KeyExprError, error.to_string(), offset = error.offset)
}

/// Error for a row of a batch that cannot be published.
pub(crate) fn row(py: Python<'_>, row: usize, key: Option<&str>, problem: &str) -> PyErr {
    let message = match key {
        Some(key) => format!("row {row}, key {key:?}: {problem}"),
        None => format!("row {row}: {problem}"),
    };
    raise!(py, RowError, message, row = row, key = key, reason = problem)
}

/// Converts the refusal of a batch of the program.
pub(crate) fn columns(error: zwire_columns::Error) -> PyErr {
    match error {
        zwire_columns::Error::Type(problem) => PyTypeError::new_err(problem),
        zwire_columns::Error::Value(problem) => PyValueError::new_err(problem),
    }
}

/// Error for bytes that cannot be decoded, or for a file that is no capture.
pub(crate) fn capture(py: Python<'_>, error: &DecodeError, path: Option<&Path>) -> PyErr {
    let message = path.map_or_else(|| error.to_string(), |path| format!("{}: {error}", path.display()));
    raise!(py, DecodeError, message, reading = error.reading, offset = error.offset)
}

/// Converts an error of a spool.
pub(crate) fn spool(py: Python<'_>, error: &SpoolError) -> PyErr {
    let class = match error {
        SpoolError::Corrupt { .. } | SpoolError::Missing { .. } | SpoolError::BadFile { .. } => {
            class!(py, SpoolCorrupt)
        }
        SpoolError::OutOfRange { .. } => class!(py, OffsetOutOfRange),
        SpoolError::Locked { .. } => class!(py, SpoolLocked),
        SpoolError::Mismatch { .. } => class!(py, SpoolMismatch),
        SpoolError::Unreachable { .. } => class!(py, SpoolUnreachable),
        SpoolError::Denied { .. } => class!(py, SpoolDenied),
        SpoolError::Io { .. }
        | SpoolError::Row { .. }
        | SpoolError::Usage(_)
        | SpoolError::Removed { .. } => {
            class!(py, SpoolError)
        }
    };
    let shard = error.shard().map(|shard| match shard {
        Shard::Data(number) => i64::from(number),
        Shard::Gaps => -1,
    });
    let fields = match error.resumes() {
        Some(resumes) => fields!(py, shard = shard, offset = error.offset(), resumes = resumes),
        None => fields!(py, shard = shard, offset = error.offset()),
    };
    instance(class, error.to_string(), fields)
}

/// Converts an error of a storage.
pub(crate) fn storage(py: Python<'_>, error: &StorageError) -> PyErr {
    let message = error.to_string();
    match error {
        StorageError::Session(error) => engine(py, error),
        StorageError::Setting { path, .. } => raise!(py, ConfigError, message, path = path),
        StorageError::Io { file, .. } => raise!(py, StorageError, message, file = file.display().to_string()),
        StorageError::Damaged { file, key, .. } => {
            raise!(py, StorageCorrupt, message, file = file.display().to_string(), key = key)
        }
        StorageError::InUse { file } => raise!(py, StorageLocked, message, file = file.display().to_string()),
        StorageError::Volume { .. } | StorageError::Slow { .. } | StorageError::Thread(_) => {
            raise!(py, StorageError, message)
        }
        StorageError::NotDurable { seconds, .. } => raise!(py, NotDurable, message, seconds = seconds),
        StorageError::Usage(problem) => usage(py, problem),
    }
}

/// Error for a file that cannot be read.
pub(crate) fn file(error: std::io::Error, path: Option<&Path>) -> PyErr {
    match (error.raw_os_error(), path) {
        // Python chooses the class by the number, and shows the path.
        (Some(number), Some(path)) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, text, path.as_os_str().to_os_string()))
        }
        (None, Some(path)) => PyOSError::new_err(format!("{}: {error}", path.display())),
        (_, None) => error.into(),
    }
}

/// Error for a text that is no value.
fn text(py: Python<'_>, error: &impl ToString) -> PyErr {
    invalid(py, error.to_string())
}

/// Converts an error of a payload of CDR; `schema` is the type. Values of a program have no offset.
pub(crate) fn misfit(py: Python<'_>, schema: &str, error: &Misfit) -> PyErr {
    let offset = (!matches!(error.problem, Problem::Value(_))).then_some(error.offset);
    let path = (!error.path.is_empty()).then_some(error.path.as_str());
    let at = path.map_or_else(String::new, |path| format!(" at {path}"));
    let byte = offset.map_or_else(String::new, |offset| format!(" at byte {offset}"));
    let message = format!("{schema}: {error}{at}{byte}");
    let encoding = "application/cdr";
    raise!(py, PayloadError, message, encoding = encoding, schema = schema, path = path, offset = offset)
}

/// Error for an invalid text, number or id.
pub(crate) fn invalid(py: Python<'_>, message: String) -> PyErr {
    raise!(py, InvalidValue, message)
}

/// Error for a wrong use that the binding detects.
pub(crate) fn usage(py: Python<'_>, message: &str) -> PyErr {
    raise!(py, UsageError, message.to_owned())
}

/// Error for an argument of the wrong type.
pub(crate) fn wrong_type(wanted: &str, got: &Bound<'_, PyAny>) -> PyErr {
    let got = got.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("expected {wanted}, not {got}"))
}

/// Error for an item of the wrong type in the list called `name`.
pub(crate) fn wrong_item(name: &str, at: usize, wanted: &str, got: &Bound<'_, PyAny>) -> PyErr {
    let got = got.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{name}[{at}]: expected {wanted}, not {got}"))
}

/// An error that an item of a list raised itself, with a note that names the item.
pub(crate) fn of_item(py: Python<'_>, name: &str, at: usize, error: PyErr) -> PyErr {
    let noted = error.value(py).call_method1("add_note", (format!("{name}[{at}]"),));
    noted.map_or_else(|failed| failed, |_| error)
}

/// Error for bytes that are not UTF-8.
pub(crate) fn not_utf8(py: Python<'_>, bytes: &[u8], error: core::str::Utf8Error) -> PyErr {
    match PyUnicodeDecodeError::new_utf8(py, bytes, error) {
        Ok(error) => PyErr::from_value(error.into_any()),
        Err(error) => error,
    }
}

/// Error for an index beyond the end.
pub(crate) fn out_of_range(what: &str) -> PyErr {
    PyIndexError::new_err(format!("{what} index out of range"))
}

/// Error of sending memory to which views can still write.
pub(crate) fn exported() -> PyErr {
    PyBufferError::new_err(
        "a memoryview or a slice of the loan still exists and could change what was sent: release it first",
    )
}

/// Error for a payload in the memory of another process, which has taken it back.
pub(crate) fn stale(py: Python<'_>, len: usize) -> PyErr {
    let message = format!(
        "a borrowed payload of {len} bytes was taken back by its sender, which frees what this process has not confirmed \
         for 100 ms: copy what is kept, or switch `zwire/shared_memory/borrow` off"
    );
    raise!(py, StalePayload, message)
}

/// Error for a writable view of a read-only object.
pub(crate) fn read_only() -> PyErr {
    PyBufferError::new_err("the object is read-only")
}
