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
    zenoh::{
        keyexpr::KeyExprError,
        link::{AuthFailure, HandshakeError as OpenError},
        session::SessionError,
    },
    zmtp::{link::ZmtpHandshakeError, wire::Mechanism},
    zre::node::NodeError,
};
use zwire_spool::{Error as SpoolError, Shard};

macro_rules! classes {
    ($($function:ident = $name:literal),+ $(,)?) => {
        $(fn $function(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
            static CLASS: Once<Py<PyType>> = Once::new();
            CLASS.class(py, "zwire.errors", $name)
        })+
    };
}

classes! {
    config_error = "ConfigError",
    usage_error = "UsageError",
    session_closed = "SessionClosed",
    invalid_value = "InvalidValue",
    key_expr_error = "KeyExprError",
    row_error = "RowError",
    local_protocol_error = "LocalProtocolError",
    decode_error = "DecodeError",
    transport_error = "TransportError",
    connect_error = "ConnectError",
    timed_out = "TimedOut",
    queue_full = "QueueFull",
    unreachable_peer = "Unreachable",
    handshake_error = "HandshakeError",
    authentication_error = "AuthenticationError",
    link_closed = "LinkClosed",
    unknown_peer = "UnknownPeer",
    spool_error = "SpoolError",
    spool_corrupt = "SpoolCorrupt",
    spool_locked = "SpoolLocked",
    spool_mismatch = "SpoolMismatch",
    offset_out_of_range = "OffsetOutOfRange",
}

/// An instance of a class of `zwire.errors`, or the error that kept it from being made.
fn raise(class: PyResult<&Bound<'_, PyType>>, message: String, fields: Option<Bound<'_, PyDict>>) -> PyErr {
    match class.and_then(|class| class.call((message,), fields.as_ref())) {
        Ok(instance) => PyErr::from_value(instance),
        Err(error) => error,
    }
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

/// Converts an error of the engine.
pub(crate) fn engine(py: Python<'_>, error: &Error) -> PyErr {
    if matches!(error, Error::Closed) {
        ending::stay_at_exit(py);
    }
    let message = error.to_string();
    match error {
        Error::Runtime { .. } => PyRuntimeError::new_err(message),
        Error::Closed => raise(session_closed(py), message, None),
        Error::Forked { .. }
        | Error::NotStarted
        | Error::Started
        | Error::NoTimestamps
        | Error::Undeclared { .. } => raise(usage_error(py), message, None),
        Error::WouldBlock => PyBlockingIOError::new_err(message),
        Error::Config(error) => config(py, error),
        Error::Endpoint(_) => raise(invalid_value(py), message, None),
        Error::Connect { endpoint, reason } | Error::Bind { endpoint, reason } => {
            no_link(py, message, Some(endpoint), reason)
        }
        Error::Listen { endpoint, .. } => raise(connect_error(py), message, fields!(py, endpoint = endpoint)),
        Error::NobodyFound { failures, .. } => match failures.last() {
            Some((endpoint, reason)) => no_link(py, message, Some(endpoint), reason),
            None => raise(connect_error(py), message, fields!(py, endpoint = None::<&str>)),
        },
        Error::TimedOut { after, .. } => {
            raise(timed_out(py), message, fields!(py, seconds = after.as_secs_f64()))
        }
        Error::LinkLost => raise(link_closed(py), message, fields!(py, reason = "link-lost", by_peer = true)),
        // The check that asked to stop has an exception pending, which its caller raises instead.
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        Error::Key(error) => key_expr(py, error),
        Error::Command(error) => command(py, error),
        Error::NoCurve => raise(config_error(py), message, None),
        Error::Node(error) => node(py, error),
        Error::Tap { .. } => raise(transport_error(py), message, None),
    }
}

/// Why there is no link to or at an endpoint of Zenoh.
fn no_link(py: Python<'_>, message: String, endpoint: Option<&str>, reason: &ConnectReason) -> PyErr {
    let (class, word) = match reason {
        ConnectReason::TlsSettings(error) => {
            return raise(config_error(py), message, fields!(py, path = error.path()));
        }
        ConnectReason::Tls(failure) if failure.is_authentication() => {
            (authentication_error(py), failure.word())
        }
        ConnectReason::Tls(failure) => (handshake_error(py), failure.word()),
        ConnectReason::WebSocket(_) => (handshake_error(py), "not-understood"),
        ConnectReason::Handshake(OpenError::Auth(failure)) => (
            authentication_error(py),
            match failure {
                AuthFailure::NotAsked => "not-asked",
                AuthFailure::Missing | AuthFailure::MaybeDemanded => "demanded",
                AuthFailure::Wrong | AuthFailure::Refused => "denied",
            },
        ),
        ConnectReason::Handshake(error) => (
            handshake_error(py),
            match error {
                OpenError::Closed { .. } | OpenError::Refused(_) => "refused",
                OpenError::WrongNode { .. } => "wrong-node",
                OpenError::ToSelf => "self",
                OpenError::Decode(_)
                | OpenError::Framing(_)
                | OpenError::Unexpected { .. }
                | OpenError::Version(_)
                | OpenError::Resolution { .. }
                | OpenError::BatchSize(_)
                | OpenError::Patch(_)
                | OpenError::QosLink
                | OpenError::RegionName(_)
                | OpenError::RemoteBound(_)
                | OpenError::Cookie
                | OpenError::InitialSn { .. }
                | OpenError::Clients
                | OpenError::Auth(_)
                | OpenError::NobodyWaits => "protocol",
            },
        ),
        ConnectReason::Io(_)
        | ConnectReason::TimedOut(_)
        | ConnectReason::Unresolved
        | ConnectReason::Protocol(_)
        | ConnectReason::Connected(_)
        | ConnectReason::NoEndpoint => {
            return raise(connect_error(py), message, fields!(py, endpoint = endpoint));
        }
    };
    raise(class, message, fields!(py, endpoint = endpoint, reason = word))
}

/// Converts an error of a ZeroMQ socket.
pub(crate) fn socket(py: Python<'_>, error: &SocketError) -> PyErr {
    let message = error.to_string();
    match error {
        SocketError::Engine(error) => engine(py, error),
        SocketError::Full | SocketError::Nobody => raise(queue_full(py), message, None),
        SocketError::Unreachable { identity } => {
            raise(unreachable_peer(py), message, fields!(py, identity = PyBytes::new(py, identity)))
        }
        SocketError::NotConnected { endpoint, reason } => close_reason(py, endpoint, reason),
        SocketError::NoIdentity | SocketError::NoSuchEndpoint(_) | SocketError::Subscriptions(_) => {
            raise(invalid_value(py), message, None)
        }
        SocketError::Unsupported { .. } => raise(usage_error(py), message, None),
    }
}

/// As [`socket`], after so many messages were taken.
pub(crate) fn socket_after(py: Python<'_>, error: &SocketError, taken: usize) -> PyErr {
    let error = socket(py, error);
    // Only the exceptions of the interpreter itself take no attributes.
    let _ = error.value(py).setattr("sent", taken);
    error
}

/// Why there is no connection of ZeroMQ, in a word.
pub(crate) fn close_word(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::Local => "closed",
        CloseReason::Peer => "closed-by-peer",
        CloseReason::Io(_) => "io",
        CloseReason::Unresolved => "unresolved",
        CloseReason::HandshakeTimeout(_) => "timeout",
        CloseReason::ClosedInHandshake { answered: false, mechanism } if *mechanism != Mechanism::NULL => {
            "not-understood"
        }
        CloseReason::ClosedInHandshake { .. } => "closed-in-handshake",
        CloseReason::Handshake(error) => match error {
            ZmtpHandshakeError::Peer { .. } => "refused",
            ZmtpHandshakeError::Denied(_) => "denied",
            ZmtpHandshakeError::Mechanism { .. } => "mechanism",
            ZmtpHandshakeError::SocketType { .. } => "socket-type",
            ZmtpHandshakeError::Sealed { .. } | ZmtpHandshakeError::Vouch | ZmtpHandshakeError::ServerKey => {
                "key"
            }
            ZmtpHandshakeError::Decode(_)
            | ZmtpHandshakeError::Generation(_)
            | ZmtpHandshakeError::TooLong(_)
            | ZmtpHandshakeError::NotACommand
            | ZmtpHandshakeError::Unexpected { .. }
            | ZmtpHandshakeError::Identity(_)
            | ZmtpHandshakeError::WeakKey { .. }
            | ZmtpHandshakeError::CurveVersion(_)
            | ZmtpHandshakeError::Nonce { .. }
            | ZmtpHandshakeError::Cookie
            | ZmtpHandshakeError::NobodyWaits
            | ZmtpHandshakeError::Over => "protocol",
        },
        CloseReason::Protocol(_) => "protocol",
        CloseReason::Silent => "silent",
        CloseReason::TooMany => "too-many",
    }
}

/// Converts the reason why a connection of ZeroMQ ended.
pub(crate) fn close_reason(py: Python<'_>, endpoint: &str, reason: &CloseReason) -> PyErr {
    let class = match reason {
        CloseReason::Local | CloseReason::Peer | CloseReason::Silent | CloseReason::Protocol(_) => {
            let by_peer = matches!(reason, CloseReason::Peer);
            let fields = fields!(py, reason = close_word(reason), by_peer = by_peer);
            return raise(link_closed(py), reason.to_string(), fields);
        }
        // A status of ZAP; other words are about the sockets.
        CloseReason::Handshake(ZmtpHandshakeError::Peer { reason })
            if reason.iter().all(u8::is_ascii_digit) =>
        {
            authentication_error(py)
        }
        CloseReason::Handshake(
            ZmtpHandshakeError::Denied(_)
            | ZmtpHandshakeError::Sealed { .. }
            | ZmtpHandshakeError::Vouch
            | ZmtpHandshakeError::ServerKey
            | ZmtpHandshakeError::WeakKey { .. },
        ) => authentication_error(py),
        CloseReason::ClosedInHandshake { mechanism, .. } if *mechanism != Mechanism::NULL => {
            authentication_error(py)
        }
        CloseReason::Handshake(_) | CloseReason::ClosedInHandshake { .. } => handshake_error(py),
        CloseReason::Io(_)
        | CloseReason::Unresolved
        | CloseReason::HandshakeTimeout(_)
        | CloseReason::TooMany => {
            let message = format!("could not connect to {endpoint}: {reason}");
            return raise(connect_error(py), message, fields!(py, endpoint = endpoint));
        }
    };
    let fields = fields!(py, endpoint = endpoint, reason = close_word(reason));
    raise(class, format!("not connected to {endpoint}: {reason}"), fields)
}

/// Error for an invalid option; `path` names it.
pub(crate) fn option(py: Python<'_>, name: &str, problem: &str) -> PyErr {
    raise(config_error(py), format!("{name}: {problem}"), fields!(py, path = name))
}

/// Converts the reason why a queue returned no item.
pub(crate) fn recv(py: Python<'_>, error: RecvError, seconds: Option<f64>) -> PyErr {
    match error {
        RecvError::Timeout => {
            let message = format!("nothing came within {} s", seconds.unwrap_or_default());
            raise(timed_out(py), message, fields!(py, seconds = seconds))
        }
        RecvError::Closed => {
            ending::stay_at_exit(py);
            raise(session_closed(py), "closed, and all that came is taken".to_owned(), None)
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
    raise(config_error(py), error.to_string(), fields)
}

/// Converts the refusal of a command.
pub(crate) fn command(py: Python<'_>, error: &SessionError) -> PyErr {
    match error {
        SessionError::Namespace { error, .. } => key_expr(py, error),
        SessionError::Closed => raise(session_closed(py), error.to_string(), None),
        SessionError::ReplyKey { .. } => raise(local_protocol_error(py), error.to_string(), None),
        SessionError::UnknownEntity { .. }
        | SessionError::QueryOver { .. }
        | SessionError::TooMany { .. } => raise(usage_error(py), error.to_string(), None),
    }
}

/// Converts the refusal of a command by a ZRE node.
fn node(py: Python<'_>, error: &NodeError) -> PyErr {
    let message = error.to_string();
    match error {
        NodeError::UnknownPeer { peer } => {
            raise(unknown_peer(py), message, fields!(py, peer = peer.to_string()))
        }
        NodeError::Stopped | NodeError::NotInGroup { .. } => raise(usage_error(py), message, None),
        NodeError::NoAddress
        | NodeError::Endpoint { .. }
        | NodeError::EndpointKey { .. }
        | NodeError::NoGeneration
        | NodeError::SecureLegacy
        | NodeError::KeyBeginsWithZero => raise(config_error(py), message, None),
        NodeError::TooManyEndpoints { .. } | NodeError::Encode(_) | NodeError::NotResponding { .. } => {
            raise(invalid_value(py), message, None)
        }
    }
}

/// Converts an illegal key expression.
pub(crate) fn key_expr(py: Python<'_>, error: &KeyExprError) -> PyErr {
    raise(key_expr_error(py), error.to_string(), fields!(py, offset = error.offset))
}

/// Error for a row of a batch that cannot be published.
pub(crate) fn row(py: Python<'_>, row: usize, key: Option<&str>, problem: &str) -> PyErr {
    let message = match key {
        Some(key) => format!("row {row}, key {key:?}: {problem}"),
        None => format!("row {row}: {problem}"),
    };
    raise(row_error(py), message, fields!(py, row = row, key = key, reason = problem))
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
    raise(decode_error(py), message, fields!(py, reading = error.reading, offset = error.offset))
}

/// Converts an error of a spool.
pub(crate) fn spool(py: Python<'_>, error: &SpoolError) -> PyErr {
    let class = match error {
        SpoolError::Corrupt { .. } | SpoolError::Missing { .. } | SpoolError::BadFile { .. } => {
            spool_corrupt(py)
        }
        SpoolError::OutOfRange { .. } => offset_out_of_range(py),
        SpoolError::Locked { .. } => spool_locked(py),
        SpoolError::Mismatch { .. } => spool_mismatch(py),
        SpoolError::Io { .. } | SpoolError::Row { .. } | SpoolError::Usage(_) => spool_error(py),
    };
    let shard = error.shard().map(|shard| match shard {
        Shard::Data(number) => i64::from(number),
        Shard::Gaps => -1,
    });
    let fields = match error.resumes() {
        Some(resumes) => fields!(py, shard = shard, offset = error.offset(), resumes = resumes),
        None => fields!(py, shard = shard, offset = error.offset()),
    };
    raise(class, error.to_string(), fields)
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

/// Error for an invalid text, number or id.
pub(crate) fn invalid(py: Python<'_>, message: String) -> PyErr {
    raise(invalid_value(py), message, None)
}

/// Error for a wrong use that the binding detects.
pub(crate) fn usage(py: Python<'_>, message: &str) -> PyErr {
    raise(usage_error(py), message.to_owned(), None)
}

/// Error for an argument of the wrong type.
pub(crate) fn wrong_type(wanted: &str, got: &Bound<'_, PyAny>) -> PyErr {
    let got = got.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("expected {wanted}, not {got}"))
}

/// Error for an item of a list, called `name`, whose type is not accepted.
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

/// Error for a writable view of a read-only object.
pub(crate) fn read_only() -> PyErr {
    PyBufferError::new_err("the object is read-only")
}
