//! [`Io`]: the connection under a link, independent of its protocol.
//!
//! An enum and not a trait object, so that the compiler can inline the calls of the hot path. Only the
//! link's task reads; any thread may write.
//!
//! A message-oriented link looks like a stream: each message is preceded by the length prefix that a
//! stream would have, in both directions. The prefix is not sent.

#[cfg(not(all(feature = "tls", feature = "quic", feature = "ws")))]
mod absent;
pub(crate) mod ends;
mod group;
mod message;
#[cfg(feature = "quic")]
mod quic;
#[cfg(feature = "tls")]
mod tls;
mod udp;
#[cfg(unix)]
mod unix;
mod ways;
#[cfg(feature = "ws")]
mod ws;

use crate::{
    config::{LinkConfig, Target},
    error::ConnectReason,
    net::{gather, tcp, tls_error::TlsFailure},
};
use bytes::{Bytes, BytesMut};
use core::time::Duration;
use std::{collections::VecDeque, io, sync::Arc};
use tokio::net::{TcpListener, TcpStream};

#[cfg(not(feature = "quic"))]
use absent::quic;
#[cfg(not(feature = "tls"))]
use absent::tls;
#[cfg(not(feature = "ws"))]
use absent::ws;
use ends::Ends;
pub(crate) use group::{Group, group_of};
use ways::is_quic;
pub(crate) use ways::{DATAGRAMS, Ways};

/// An established connection.
pub(crate) enum Io {
    Tcp(TcpStream),
    Udp(udp::Udp),
    /// A multicast group; its datagrams are received by other means.
    Group(Box<Group>),
    Tls(Box<tls::TlsStream>),
    Ws(Box<ws::WsStream>),
    Quic(Box<quic::QuicStream>),
    #[cfg(unix)]
    Unix(unix::LocalStream),
}

impl Io {
    /// Connects to `target`.
    ///
    /// # Errors
    /// Reason of the failure.
    pub(crate) async fn connect(target: &Target, link: &LinkConfig) -> Result<Self, ConnectReason> {
        match target.endpoint.protocol() {
            "tcp" => tcp::connect(target, link).await.map(Self::Tcp),
            "udp" if is_quic(target) => {
                Ok(Self::Quic(Box::new(quic::QuicStream::connect(target, link).await?)))
            }
            "udp" => udp::Udp::connect(target, link).await.map(Self::Udp),
            tls::PROTOCOL => Ok(Self::Tls(Box::new(tls::TlsStream::connect(target, link).await?))),
            ws::PROTOCOL => Ok(Self::Ws(Box::new(ws::WsStream::connect(target, link).await?))),
            quic::PROTOCOL => Ok(Self::Quic(Box::new(quic::QuicStream::connect(target, link).await?))),
            #[cfg(unix)]
            unix::PROTOCOL => unix::LocalStream::connect(target).await.map(Self::Unix),
            other => Err(ConnectReason::Protocol(other.to_owned())),
        }
    }

    /// Checks the requirements of a link to `target` as far as possible without a network.
    ///
    /// # Errors
    /// The missing or invalid setting.
    pub(crate) fn check(target: &Target, link: &LinkConfig) -> Result<(), ConnectReason> {
        match target.endpoint.protocol() {
            tls::PROTOCOL | quic::PROTOCOL => tls::check_connect(target, link),
            _ => Ok(()),
        }
    }

    /// Appends available data: one message, or the bytes that a stream has. Returns 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock`: no data now. Any other error ends the connection.
    #[inline]
    pub(crate) fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read_buf(buf),
            Self::Udp(socket) => socket.try_read(buf),
            Self::Group(_) => Err(io::ErrorKind::WouldBlock.into()),
            Self::Tls(stream) => stream.try_read(buf),
            Self::Ws(stream) => stream.try_read(buf),
            Self::Quic(stream) => stream.try_read(buf),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_read(buf),
        }
    }

    /// Writes as much as the connection takes: true when all is written. `progress` is called after each
    /// write.
    ///
    /// # Errors
    /// The connection has failed.
    #[inline]
    pub(crate) fn try_write(
        &self,
        out: &mut VecDeque<Bytes>,
        progress: impl FnMut(usize),
    ) -> io::Result<bool> {
        match self {
            Self::Tcp(stream) => gather::write(|slices| stream.try_write_vectored(slices), out, progress),
            Self::Udp(socket) => socket.try_write(out, progress),
            Self::Group(group) => group.try_write(out, progress),
            Self::Tls(stream) => stream.try_write(out, progress),
            Self::Ws(stream) => stream.try_write(out, progress),
            Self::Quic(stream) => stream.try_write(out, progress),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_write(out, progress),
        }
    }

    /// Returns when a read may succeed; it may still find nothing.
    ///
    /// # Errors
    /// The connection has failed.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Udp(socket) => socket.readable().await,
            Self::Group(_) => core::future::pending().await,
            Self::Tls(stream) => stream.readable().await,
            Self::Ws(stream) => stream.readable().await,
            Self::Quic(stream) => stream.readable().await,
            #[cfg(unix)]
            Self::Unix(stream) => stream.readable().await,
        }
    }

    /// Returns when a write may succeed; the connection may still take nothing.
    ///
    /// # Errors
    /// The connection has failed.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Udp(socket) => socket.writable().await,
            Self::Group(group) => group.writable().await,
            Self::Tls(stream) => stream.writable().await,
            Self::Ws(stream) => stream.writable().await,
            Self::Quic(stream) => stream.writable().await,
            #[cfg(unix)]
            Self::Unix(stream) => stream.writable().await,
        }
    }

    /// Bounds the unsent bytes in the kernel; see [`Pace`](crate::net::pace::Pace).
    pub(crate) fn set_room(&self, bytes: u32) {
        match self {
            Self::Tcp(stream) => tcp::set_room(stream, bytes),
            Self::Tls(stream) => tcp::set_room(stream.socket(), bytes),
            Self::Ws(stream) => tcp::set_room(stream.socket(), bytes),
            // Datagrams are sent at once.
            Self::Udp(_) | Self::Group(_) => {}
            Self::Quic(stream) => stream.set_room(bytes),
            // Bytes go directly into the receive buffer of the other end.
            #[cfg(unix)]
            Self::Unix(_) => {}
        }
    }

    /// Whether the kernel has sent all that was written; if not, [`Self::writable`] returns once it has,
    /// or once the unsent bytes are below the [room](Self::set_room). True if the system does not tell.
    pub(crate) fn is_drained(&self) -> bool {
        match self {
            Self::Tcp(stream) => tcp::is_drained(stream),
            Self::Tls(stream) => tcp::is_drained(stream.socket()),
            Self::Ws(stream) => tcp::is_drained(stream.socket()),
            _ => true,
        }
    }

    /// Signals the end of the link in the underlying protocol, if that has a message for it that can be
    /// sent at once.
    pub(crate) fn close(&self) {
        match self {
            Self::Tls(stream) => stream.close(),
            Self::Ws(stream) => stream.close(),
            Self::Quic(stream) => stream.close(),
            _ => {}
        }
    }

    /// Whether everything written so far has left this process; called when nothing more will be written.
    pub(crate) fn is_delivered(&self) -> bool {
        match self {
            Self::Quic(stream) => stream.is_delivered(),
            // The kernel delivers it.
            _ => true,
        }
    }

    /// Common name in the certificate of the other side, if it presented one.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Tls(stream) => stream.name(),
            Self::Quic(stream) => stream.name(),
            _ => None,
        }
    }

    /// Time at which the link has to end with a certificate, in wall-clock time since 1970.
    pub(crate) const fn expires(&self) -> Option<Duration> {
        match self {
            Self::Tls(stream) => stream.expires(),
            Self::Quic(stream) => stream.expires(),
            _ => None,
        }
    }

    /// Whether written data arrives unless the connection ends.
    pub(crate) const fn is_reliable(&self) -> bool {
        match self {
            Self::Udp(_) | Self::Group(_) => false,
            Self::Quic(stream) => stream.is_streamed(),
            _ => true,
        }
    }

    /// Whether batches are preceded by a length prefix; otherwise each is a message.
    pub(crate) const fn is_streamed(&self) -> bool {
        match self {
            Self::Ws(_) | Self::Udp(_) | Self::Group(_) => false,
            Self::Quic(stream) => stream.is_streamed(),
            _ => true,
        }
    }

    /// The largest batch, in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        match self {
            Self::Udp(_) | Self::Group(_) => udp::MTU,
            Self::Quic(stream) => stream.mtu(),
            _ => u16::MAX,
        }
    }

    /// Marks the end of the handshake. In low-latency mode prefixes have four bytes from now on.
    pub(crate) fn set_open(&self, low_latency: bool) {
        match self {
            Self::Udp(socket) if low_latency => socket.set_low_latency(),
            Self::Ws(stream) if low_latency => stream.set_low_latency(),
            Self::Quic(stream) => stream.set_open(low_latency),
            _ => {}
        }
    }

    /// Independent ways by which batches leave, if there are several.
    pub(crate) fn ways(&self) -> Option<Ways> {
        match self {
            Self::Quic(stream) => stream.ways(),
            _ => None,
        }
    }

    /// As [`Self::try_write`], by one of the [ways](Self::ways).
    pub(crate) fn try_write_at(
        &self,
        way: usize,
        out: &mut VecDeque<Bytes>,
        progress: impl FnMut(usize),
    ) -> io::Result<bool> {
        match self {
            Self::Quic(stream) => stream.try_write_at(way, out, progress),
            _ => self.try_write(out, progress),
        }
    }

    /// Way by which the last batch has left.
    pub(crate) fn last_way(&self) -> usize {
        match self {
            Self::Quic(stream) => stream.last_way(),
            _ => 0,
        }
    }

    /// Makes the next write wait until everything before it has arrived.
    pub(crate) fn hold(&self) {
        if let Self::Quic(stream) = self {
            stream.hold();
        }
    }

    /// Both ends of the connection.
    ///
    /// # Errors
    /// The connection is lost already.
    pub(crate) fn ends(&self) -> io::Result<Ends> {
        match self {
            Self::Tcp(stream) => Ok(Ends::of_addresses("tcp", stream.local_addr()?, stream.peer_addr()?)),
            Self::Udp(socket) => Ok(socket.ends()),
            Self::Group(group) => Ok(group.ends()),
            Self::Tls(stream) => stream.ends(),
            Self::Ws(stream) => stream.ends(),
            Self::Quic(stream) => stream.ends(),
            #[cfg(unix)]
            Self::Unix(stream) => Ok(stream.ends()),
        }
    }
}

/// Listener of any protocol.
pub(crate) enum LinkListener {
    Tcp(TcpListener),
    Udp(Box<udp::UdpListener>),
    Tls(tls::TlsListener),
    Ws(TcpListener),
    Quic(quic::QuicListener),
    #[cfg(unix)]
    Unix(unix::LocalListener),
}

/// A bound listener.
pub(crate) struct Bound {
    pub(crate) listener: LinkListener,
    /// Locator of the listener, with the port that the system chose.
    pub(crate) locator: String,
    /// Cleanup for when the session closes.
    pub(crate) guard: Option<PortGuard>,
}

/// Resource of a listener that is released on drop.
pub(crate) enum PortGuard {
    Quic(#[allow(dead_code, reason = "held for its drop")] quic::QuicPort),
    #[cfg(unix)]
    Unix(#[allow(dead_code, reason = "held for its drop")] unix::SocketFile),
}

impl LinkListener {
    /// Listens on `target`; must run in a runtime.
    ///
    /// # Errors
    /// Reason of the failure.
    pub(crate) async fn bind(target: &Target, link: &LinkConfig) -> Result<Bound, ConnectReason> {
        match target.endpoint.protocol() {
            "tcp" => {
                let listener = tcp::listen(target, link).await?;
                let address = listener.local_addr().map_err(ConnectReason::io)?.to_string();
                Ok(Bound { listener: Self::Tcp(listener), locator: locator(target, &address), guard: None })
            }
            "udp" if !is_quic(target) => {
                let listener = udp::UdpListener::bind(target, link).await?;
                let locator = locator(target, &listener.local().to_string());
                Ok(Bound { listener: Self::Udp(Box::new(listener)), locator, guard: None })
            }
            ws::PROTOCOL => {
                let listener = ws::listen(target, link).await?;
                let address = listener.local_addr().map_err(ConnectReason::io)?.to_string();
                Ok(Bound { listener: Self::Ws(listener), locator: locator(target, &address), guard: None })
            }
            tls::PROTOCOL => {
                let listener = tls::TlsListener::bind(target, link).await?;
                let port = listener.port().map_err(ConnectReason::io)?;
                // A host name is kept, because the certificate is issued for it.
                let host = target.endpoint.address().rsplit_once(':').map_or("", |(host, _)| host);
                let locator = locator(target, &format!("{host}:{port}"));
                Ok(Bound { listener: Self::Tls(listener), locator, guard: None })
            }
            quic::PROTOCOL | "udp" => {
                let listener = quic::QuicListener::bind(target, link).await?;
                let host = target.endpoint.address().rsplit_once(':').map_or("", |(host, _)| host);
                let port = listener.port().map_err(ConnectReason::io)?;
                let locator = locator(target, &format!("{host}:{port}"));
                let guard = Some(PortGuard::Quic(listener.guard()));
                Ok(Bound { listener: Self::Quic(listener), locator, guard })
            }
            #[cfg(unix)]
            unix::PROTOCOL => {
                let (listener, guard) = unix::LocalListener::bind(target).await?;
                Ok(Bound {
                    listener: Self::Unix(listener),
                    locator: locator(target, target.endpoint.address()),
                    guard: Some(PortGuard::Unix(guard)),
                })
            }
            other => Err(ConnectReason::Protocol(other.to_owned())),
        }
    }

    /// Checks the requirements of a listener at `target` as far as possible without a network.
    ///
    /// # Errors
    /// The missing or invalid setting.
    pub(crate) fn check(target: &Target, link: &LinkConfig) -> Result<(), ConnectReason> {
        match target.endpoint.protocol() {
            tls::PROTOCOL | quic::PROTOCOL => tls::check_listen(target, link),
            _ => Ok(()),
        }
    }

    /// Accepts the next connection, without waiting for any data from it.
    ///
    /// # Errors
    /// Errors of the operating system; a later call may succeed.
    pub(crate) async fn accept(&self) -> io::Result<IncomingLink> {
        match self {
            Self::Tcp(listener) => Ok(IncomingLink::Tcp(listener.accept().await?.0)),
            Self::Udp(listener) => listener.accept().await.map(|socket| IncomingLink::Ready(Io::Udp(socket))),
            Self::Ws(listener) => Ok(IncomingLink::Ws(listener.accept().await?.0)),
            Self::Tls(listener) => {
                listener.accept().await.map(|(socket, acceptor)| IncomingLink::Tls(socket, acceptor))
            }
            Self::Quic(listener) => {
                listener.accept().await.map(|incoming| IncomingLink::Quic(Box::new(incoming)))
            }
            #[cfg(unix)]
            Self::Unix(listener) => {
                listener.accept().await.map(|stream| IncomingLink::Ready(Io::Unix(stream)))
            }
        }
    }
}

/// An accepted connection.
pub(crate) enum IncomingLink {
    /// A connection that needs no further handshake.
    Ready(Io),
    Tcp(TcpStream),
    Tls(TcpStream, Arc<tls::Acceptor>),
    Ws(TcpStream),
    Quic(Box<quic::QuicIncoming>),
}

impl IncomingLink {
    /// Address of the peer, for log texts.
    pub(crate) fn peer(&self) -> String {
        let address = match self {
            Self::Tcp(socket) | Self::Ws(socket) | Self::Tls(socket, _) => socket.peer_addr(),
            Self::Ready(io) => return io.ends().map_or_else(|_| String::new(), |ends| ends.peer),
            Self::Quic(incoming) => return incoming.peer().to_string(),
        };
        address.map_or_else(|_| String::new(), |address| address.to_string())
    }

    /// Performs the handshake of the underlying protocol; the caller bounds the time.
    ///
    /// # Errors
    /// Reason of the failure.
    pub(crate) async fn ready(self) -> Result<Io, ConnectReason> {
        match self {
            Self::Ready(io) => Ok(io),
            Self::Tcp(stream) => {
                tcp::established(&stream).map_err(ConnectReason::io)?;
                Ok(Io::Tcp(stream))
            }
            Self::Ws(socket) => Ok(Io::Ws(Box::new(ws::WsStream::accept(socket).await?))),
            Self::Tls(socket, acceptor) => Ok(Io::Tls(Box::new(acceptor.accept(socket).await?))),
            Self::Quic(incoming) => Ok(Io::Quic(Box::new(incoming.ready().await?))),
        }
    }
}

/// Locator of a listener that is bound to `address`.
fn locator(target: &Target, address: &str) -> String {
    let bound = target.endpoint.with_address(address);
    // An address of the system always parses; the result may only exceed the length limit.
    bound.as_ref().unwrap_or(&target.endpoint).locator().as_str().to_owned()
}

impl ConnectReason {
    /// Reason for an error of a connection; TLS failures are recognised.
    pub(crate) fn io(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsFailure>()) {
            Some(failure) => Self::Tls(failure.clone()),
            None => Self::Io(Arc::new(error)),
        }
    }
}
