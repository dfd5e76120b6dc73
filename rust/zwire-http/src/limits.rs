//! Bounds on what one client costs, each with its reason. Those that an operator may change are in
//! [`Limits`](crate::Limits).

use core::time::Duration;

/// Connections that the system holds until they are accepted: those that arrive while a connection is made.
pub(crate) const BACKLOG: i32 = 1024;
/// Time for the handshake of TLS.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for the head of a request, also for the next one of an open connection: a client that is mute costs a
/// descriptor for no longer.
pub(crate) const HEAD: Duration = Duration::from_secs(30);
/// Time for the body of a request. The largest default body arrives in it at 300 KiB/s.
pub(crate) const BODY: Duration = Duration::from_secs(60);
/// Time in which a client accepts a part of an answer. It frees the memory of answers that are not read.
pub(crate) const STALLED: Duration = Duration::from_secs(30);
/// Most octets of the head of a request: a key has 64 KiB at most, and escaped three times that.
pub(crate) const MAX_HEAD: usize = 256 << 10;
/// Most header lines of a request; browsers send 20.
pub(crate) const MAX_HEADERS: usize = 64;
/// Octets of an answer that are collected before they are sent. A shorter answer has a length.
pub(crate) const CHUNK: usize = 64 << 10;
/// Chunks of an answer that wait for the connection.
pub(crate) const CHUNKS: usize = 2;
/// Shortest answer that is compressed: shorter ones fit into a packet.
pub(crate) const COMPRESSED_FROM: usize = 1024;
/// Events that wait for a client; the oldest are dropped beyond.
pub(crate) const EVENTS: usize = 256;
/// Octets of all request bodies together that are in memory: four of the largest default ones.
pub(crate) const ALL_BODIES: usize = 64 << 20;
/// Silence after which a comment is sent, so that proxies and dead connections are noticed.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Pause after an error of the listener, such as too many open files.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
