//! [`Io`]: the connection under a link, independent of its protocol.
//!
//! An enum and not a trait object, so that the compiler can inline the calls of the hot path. Only the
//! link's task reads; any thread may write.
//!
//! A message-oriented link looks like a stream: each message is preceded by the length prefix that a
//! stream would have, in both directions. The prefix is not sent.

mod group;
mod message;
#[cfg(feature = "quic")]
mod quic;
#[cfg(feature = "tls")]
mod tls;
pub(crate) mod transport;
mod udp;
#[cfg(unix)]
mod unix;
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

pub(crate) use group::{Group, group_of};
pub(crate) use transport::{DATAGRAMS, Ways};
use transport::{Ends, Transport, is_quic};

/// An established connection.
pub(crate) enum Io {
    Tcp(TcpLink),
    Udp(udp::Udp),
    /// A multicast group; its datagrams are received by other means.
    Group(Box<Group>),
    #[cfg(feature = "tls")]
    Tls(Box<tls::TlsStream>),
    #[cfg(feature = "ws")]
    Ws(Box<ws::WsStream>),
    #[cfg(feature = "quic")]
    Quic(Box<quic::QuicStream>),
    #[cfg(unix)]
    Unix(unix::LocalStream),
}

/// Evaluates an expression for the connection inside an [`Io`].
macro_rules! each {
    ($io:expr, $link:ident => $result:expr) => {
        match $io {
            Io::Tcp($link) => $result,
            Io::Udp($link) => $result,
            Io::Group($link) => $result,
            #[cfg(feature = "tls")]
            Io::Tls($link) => $result,
            #[cfg(feature = "ws")]
            Io::Ws($link) => $result,
            #[cfg(feature = "quic")]
            Io::Quic($link) => $result,
            #[cfg(unix)]
            Io::Unix($link) => $result,
        }
    };
}

/// Defines methods of [`Io`] as those of [`Transport`], where they are described.
macro_rules! forward {
    ($(fn $method:ident(&self $(, $argument:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {$(
        #[inline]
        pub(crate) fn $method(&self $(, $argument: $kind)*) $(-> $result)? {
            each!(self, link => link.$method($($argument),*))
        }
    )*};
}

impl Io {
    forward! {
        fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize>;
        fn try_write(&self, out: &mut VecDeque<Bytes>, progress: impl FnMut(usize)) -> io::Result<bool>;
        fn ends(&self) -> io::Result<Ends>;
        fn set_room(&self, bytes: u32);
        fn is_drained(&self) -> bool;
        fn close(&self);
        fn is_delivered(&self) -> bool;
        fn is_tls(&self) -> bool;
        fn name(&self) -> Option<&str>;
        fn expires(&self) -> Option<Duration>;
        fn is_reliable(&self) -> bool;
        fn is_streamed(&self) -> bool;
        fn mtu(&self) -> u16;
        fn set_open(&self, low_latency: bool);
        fn ways(&self) -> Option<Ways>;
        fn try_write_at(&self, way: usize, out: &mut VecDeque<Bytes>, progress: impl FnMut(usize)) -> io::Result<bool>;
        fn last_way(&self) -> usize;
        fn hold(&self);
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        each!(self, link => link.readable().await)
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        each!(self, link => link.writable().await)
    }

    /// Connects to `target`.
    pub(crate) async fn connect(target: &Target, link: &LinkConfig) -> Result<Self, ConnectReason> {
        Ok(match target.endpoint.protocol() {
            "tcp" => Self::Tcp(TcpLink(tcp::connect(target, link).await?)),
            "udp" if !is_quic(target) => Self::Udp(udp::Udp::connect(target, link).await?),
            #[cfg(feature = "tls")]
            tls::PROTOCOL => Self::Tls(Box::new(tls::TlsStream::connect(target, link).await?)),
            #[cfg(feature = "ws")]
            ws::PROTOCOL => Self::Ws(Box::new(ws::WsStream::connect(target, link).await?)),
            #[cfg(feature = "quic")]
            quic::PROTOCOL | "udp" => Self::Quic(Box::new(quic::QuicStream::connect(target, link).await?)),
            #[cfg(unix)]
            unix::PROTOCOL => Self::Unix(unix::LocalStream::connect(target).await?),
            _ => return Err(unsupported(target)),
        })
    }

    /// Checks the requirements of a link to `target` as far as possible without a network.
    #[cfg_attr(not(feature = "tls"), allow(unused_variables, reason = "only TLS has requirements"))]
    pub(crate) fn check(target: &Target, link: &LinkConfig) -> Result<(), ConnectReason> {
        match target.endpoint.protocol() {
            #[cfg(feature = "tls")]
            "tls" | "quic" => tls::check_connect(target, link),
            _ => Ok(()),
        }
    }
}

/// A plain TCP connection.
pub(crate) struct TcpLink(TcpStream);

impl Transport for TcpLink {
    #[inline]
    fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        self.0.try_read_buf(buf)
    }

    #[inline]
    fn try_write(&self, out: &mut VecDeque<Bytes>, progress: impl FnMut(usize)) -> io::Result<bool> {
        gather::write(|slices| self.0.try_write_vectored(slices), out, progress)
    }

    async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    async fn writable(&self) -> io::Result<()> {
        self.0.writable().await
    }

    fn ends(&self) -> io::Result<Ends> {
        Ends::of_socket("tcp", &self.0)
    }

    fn socket(&self) -> Option<&TcpStream> {
        Some(&self.0)
    }
}

/// Handshake by which an accepted TCP connection becomes a link.
#[derive(Clone)]
pub(crate) enum Upgrade {
    None,
    #[cfg(feature = "tls")]
    Tls(Arc<tls::Acceptor>),
    /// With the origins of web pages that may connect.
    #[cfg(feature = "ws")]
    Ws(Arc<[String]>),
}

/// Listener of any protocol.
pub(crate) enum LinkListener {
    Tcp(TcpListener, Upgrade),
    Udp(Box<udp::UdpListener>),
    #[cfg(feature = "quic")]
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
    #[cfg(feature = "quic")]
    Quic(#[allow(dead_code, reason = "held for its drop")] quic::QuicPort),
    #[cfg(unix)]
    Unix(#[allow(dead_code, reason = "held for its drop")] unix::SocketFile),
}

impl LinkListener {
    /// Listens on `target`; must run in a runtime.
    pub(crate) async fn bind(target: &Target, link: &LinkConfig) -> Result<Bound, ConnectReason> {
        let protocol = target.endpoint.protocol();
        let tcp =
            async |upgrade| tcp::listen(target, link).await.map(|listener| Self::Tcp(listener, upgrade));
        let (listener, guard) = match protocol {
            "tcp" => (tcp(Upgrade::None).await?, None),
            #[cfg(feature = "ws")]
            ws::PROTOCOL => (tcp(Upgrade::Ws(link.ws_origins.as_slice().into())).await?, None),
            #[cfg(feature = "tls")]
            tls::PROTOCOL => {
                let acceptor = tls::Acceptor::new(link.tls_at(&target.options))?;
                (tcp(Upgrade::Tls(Arc::new(acceptor))).await?, None)
            }
            "udp" if !is_quic(target) => {
                (Self::Udp(Box::new(udp::UdpListener::bind(target, link).await?)), None)
            }
            #[cfg(feature = "quic")]
            quic::PROTOCOL | "udp" => {
                let listener = quic::QuicListener::bind(target, link).await?;
                let guard = PortGuard::Quic(listener.guard());
                (Self::Quic(listener), Some(guard))
            }
            #[cfg(unix)]
            unix::PROTOCOL => {
                let (listener, guard) = unix::LocalListener::bind(target).await?;
                (Self::Unix(listener), Some(PortGuard::Unix(guard)))
            }
            _ => return Err(unsupported(target)),
        };
        let local = match &listener {
            Self::Tcp(listener, _) => Some(listener.local_addr().map_err(ConnectReason::io)?),
            Self::Udp(listener) => Some(listener.local()),
            #[cfg(feature = "quic")]
            Self::Quic(listener) => Some(listener.local()),
            #[cfg(unix)]
            Self::Unix(_) => None,
        };
        let own = target.endpoint.address();
        let address = match local {
            None => own.to_owned(),
            // A host name is kept, because the certificate is issued for it.
            Some(local) if matches!(protocol, "tls" | "quic") || is_quic(target) => {
                format!("{}:{}", own.rsplit_once(':').map_or("", |(host, _)| host), local.port())
            }
            Some(local) => local.to_string(),
        };
        let bound = target.endpoint.with_address(&address);
        // An address of the system always parses; the result may only exceed the length limit.
        let locator = bound.as_ref().unwrap_or(&target.endpoint).locator().as_str().to_owned();
        Ok(Bound { listener, locator, guard })
    }

    /// Checks the requirements of a listener at `target` as far as possible without a network.
    #[cfg_attr(not(feature = "tls"), allow(unused_variables, reason = "only TLS has requirements"))]
    pub(crate) fn check(target: &Target, link: &LinkConfig) -> Result<(), ConnectReason> {
        match target.endpoint.protocol() {
            #[cfg(feature = "tls")]
            "tls" | "quic" => tls::Acceptor::new(link.tls_at(&target.options)).map(drop),
            _ => Ok(()),
        }
    }

    /// Accepts the next connection, without waiting for data from it. After an error a later call may succeed.
    pub(crate) async fn accept(&self) -> io::Result<IncomingLink> {
        Ok(match self {
            Self::Tcp(listener, upgrade) => IncomingLink::Tcp(listener.accept().await?.0, upgrade.clone()),
            Self::Udp(listener) => IncomingLink::Ready(Io::Udp(listener.accept().await?)),
            #[cfg(feature = "quic")]
            Self::Quic(listener) => IncomingLink::Quic(Box::new(listener.accept().await?)),
            #[cfg(unix)]
            Self::Unix(listener) => IncomingLink::Ready(Io::Unix(listener.accept().await?)),
        })
    }
}

/// An accepted connection.
pub(crate) enum IncomingLink {
    /// A connection that needs no further handshake.
    Ready(Io),
    Tcp(TcpStream, Upgrade),
    #[cfg(feature = "quic")]
    Quic(Box<quic::QuicIncoming>),
}

impl IncomingLink {
    /// Address of the peer, for log texts.
    pub(crate) fn peer(&self) -> String {
        match self {
            Self::Ready(io) => io.ends().map_or_else(|_| String::new(), |ends| ends.peer),
            Self::Tcp(socket, _) => {
                socket.peer_addr().map_or_else(|_| String::new(), |address| address.to_string())
            }
            #[cfg(feature = "quic")]
            Self::Quic(incoming) => incoming.peer().to_string(),
        }
    }

    /// Performs the handshake of the underlying protocol; the caller bounds the time.
    pub(crate) async fn ready(self) -> Result<Io, ConnectReason> {
        let (socket, upgrade) = match self {
            Self::Ready(io) => return Ok(io),
            Self::Tcp(socket, upgrade) => (socket, upgrade),
            #[cfg(feature = "quic")]
            Self::Quic(incoming) => return Ok(Io::Quic(Box::new(incoming.ready().await?))),
        };
        tcp::established(&socket).map_err(ConnectReason::io)?;
        Ok(match upgrade {
            Upgrade::None => Io::Tcp(TcpLink(socket)),
            #[cfg(feature = "tls")]
            Upgrade::Tls(acceptor) => Io::Tls(Box::new(acceptor.accept(socket).await?)),
            #[cfg(feature = "ws")]
            Upgrade::Ws(origins) => Io::Ws(Box::new(ws::WsStream::accept(socket, origins).await?)),
        })
    }
}

/// Refusal of a protocol that this build does not support. The configuration refuses such an endpoint first.
fn unsupported(target: &Target) -> ConnectReason {
    let protocol = if is_quic(target) { "quic" } else { target.endpoint.protocol() };
    ConnectReason::Protocol(protocol.to_owned())
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

#[cfg(all(test, not(all(feature = "tls", feature = "quic", feature = "ws"))))]
mod tests {
    use super::{Io, LinkListener};
    use crate::config::{Config, Target};

    /// Targets as the configuration of another build would have them.
    fn targets() -> Vec<(Target, &'static str)> {
        let config = Config::from_json5("{connect: {endpoints: ['tcp/127.0.0.1:0']}}").unwrap();
        let target = &config.resolve().unwrap().connect.groups[0].targets[0];
        [
            ("tls/127.0.0.1:0", "(feature `tls`)", cfg!(feature = "tls")),
            ("ws/127.0.0.1:0", "(feature `ws`)", cfg!(feature = "ws")),
            ("quic/127.0.0.1:0", "(feature `quic`)", cfg!(feature = "quic")),
        ]
        .into_iter()
        .filter(|(_, _, on)| !on)
        .map(|(text, words, _)| (Target { endpoint: text.parse().unwrap(), ..target.clone() }, words))
        .collect()
    }

    #[tokio::test]
    async fn connecting_and_listening_name_the_feature() {
        let link = Config::default().resolve().unwrap().link;
        for (target, words) in targets() {
            let error = Io::connect(&target, &link).await.err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
            let error = LinkListener::bind(&target, &link).await.err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
