//! [`Transport`]: a connection of one protocol, as a link uses it.

use crate::{config::Target, net::tcp};
use bytes::{Bytes, BytesMut};
use core::time::Duration;
use std::{collections::VecDeque, future::Future, io, net::SocketAddr};
use tokio::net::TcpStream;
use zwire_proto::zenoh::{Priority, Reliability};

/// Index of the way for datagrams of a connection that has streams, too; priorities come before it.
pub(crate) const DATAGRAMS: usize = Priority::COUNT;

/// Independent ways by which the batches of a link leave. Only QUIC has several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    /// Whether there is one way for each priority; else one for all.
    pub(crate) by_priority: bool,
    /// Batch size of the way for best-effort messages, if there is one.
    pub(crate) best_effort: Option<u16>,
}

/// Whether a link is QUIC although its protocol is `udp`.
pub(super) fn is_quic(target: &Target) -> bool {
    target.endpoint.protocol() == "udp" && target.options.reliability == Some(Reliability::Reliable)
}

/// Both ends of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    /// Local end, as a locator.
    pub(crate) local: String,
    /// Remote end, as a locator.
    pub(crate) peer: String,
    /// Both addresses, local first, if the protocol has addresses.
    pub(crate) addresses: Option<(SocketAddr, SocketAddr)>,
}

impl Ends {
    pub(super) fn of_addresses(protocol: &str, local: SocketAddr, peer: SocketAddr) -> Self {
        Self {
            local: format!("{protocol}/{local}"),
            peer: format!("{protocol}/{peer}"),
            addresses: Some((local, peer)),
        }
    }

    pub(super) fn of_socket(protocol: &str, socket: &TcpStream) -> io::Result<Self> {
        Ok(Self::of_addresses(protocol, socket.local_addr()?, socket.peer_addr()?))
    }
}

/// An established connection. The defaults are those of a reliable stream.
pub(super) trait Transport {
    /// Largest batch if each is a datagram that may be lost.
    const DATAGRAM_MTU: Option<u16> = None;

    /// Appends available data: one message, or the bytes that a stream has. Returns 0 at the end.
    /// Any error but `WouldBlock` ends the connection.
    fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize>;

    /// Writes as much as the connection takes: true when all is written. Each write calls `progress`.
    fn try_write(&self, out: &mut VecDeque<Bytes>, progress: impl FnMut(usize)) -> io::Result<bool>;

    /// Returns when a read may succeed; it may still find nothing.
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Returns when a write may succeed; the connection may still take nothing.
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Both ends of the connection.
    fn ends(&self) -> io::Result<Ends>;

    /// The TCP connection underneath, if there is one.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }

    /// Bounds the unsent bytes in the kernel; see [`Pace`](crate::net::pace::Pace). Datagrams are sent at once, and
    /// bytes for a Unix socket go directly into the receive buffer of the other end.
    fn set_room(&self, bytes: u32) {
        if let Some(socket) = self.socket() {
            tcp::set_room(socket, bytes);
        }
    }

    /// Whether the kernel has sent all that was written; if not, [`Self::writable`] returns once it has,
    /// or once the unsent bytes are below the [room](Self::set_room). True if the system does not tell.
    fn is_drained(&self) -> bool {
        self.socket().is_none_or(tcp::is_drained)
    }

    /// Signals the end of the link if the protocol has a message for it that can be sent at once.
    fn close(&self) {}

    /// Whether everything written has left this process, once nothing more will be written; the kernel delivers it.
    fn is_delivered(&self) -> bool {
        true
    }

    /// Whether the connection is TLS over TCP.
    fn is_tls(&self) -> bool {
        false
    }

    /// Common name in the certificate of the other side, if it presented one.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Time at which the link has to end with a certificate, in wall-clock time since 1970.
    fn expires(&self) -> Option<Duration> {
        None
    }

    /// Whether written data arrives unless the connection ends.
    fn is_reliable(&self) -> bool {
        Self::DATAGRAM_MTU.is_none()
    }

    /// Whether batches are preceded by a length prefix; otherwise each is a message.
    fn is_streamed(&self) -> bool {
        Self::DATAGRAM_MTU.is_none()
    }

    /// The largest batch, in bytes.
    fn mtu(&self) -> u16 {
        Self::DATAGRAM_MTU.unwrap_or(u16::MAX)
    }

    /// Marks the end of the handshake. In low-latency mode prefixes have four bytes from now on.
    fn set_open(&self, _low_latency: bool) {}

    /// Independent ways by which batches leave, if there are several.
    fn ways(&self) -> Option<Ways> {
        None
    }

    /// As [`Self::try_write`], by one of the [ways](Self::ways).
    fn try_write_at(
        &self,
        _way: usize,
        out: &mut VecDeque<Bytes>,
        progress: impl FnMut(usize),
    ) -> io::Result<bool> {
        self.try_write(out, progress)
    }

    /// Way by which the last batch has left.
    fn last_way(&self) -> usize {
        0
    }

    /// Makes the next write wait until everything before it has arrived.
    fn hold(&self) {}
}
