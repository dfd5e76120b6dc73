//! Sockets and links of every protocol: TCP, TLS, UDP, QUIC, WebSocket, Unix; and the pace of writing to them.

pub(crate) mod burst;
pub(crate) mod gather;
pub mod interfaces;
pub(crate) mod io;
pub(crate) mod outbox;
pub(crate) mod pace;
pub(crate) mod race;
pub(crate) mod tap;
pub(crate) mod tcp;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod tls_error;
