//! UDP: one batch per datagram, without prefix (`zenoh-behaviour` 1.2, `zenoh-wire` 3.1).
//!
//! Each outgoing and each accepted link has a socket of its own: a second socket on the listener's port,
//! connected to the peer, receives the datagrams of that peer only. No datagram has to be passed between
//! tasks, the kernel buffer of each peer bounds what it may send ahead, and an error of one peer (its
//! port is closed) affects no other.

use super::{
    message::Prefix,
    transport::{Ends, Transport},
};
use crate::{
    config::{LinkConfig, Target},
    error::ConnectReason,
    net::tcp,
};
use bytes::{Bytes, BytesMut};
use core::sync::atomic::{AtomicBool, Ordering};
use parking_lot::Mutex;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};
use tokio::{io::Interest, net::UdpSocket, sync::Notify};

/// Largest batch: 65535 less the headers of UDP and IPv6, as in eclipse-zenoh.
pub(crate) const MTU: u16 = 65_535 - 8 - 40;

/// Room for a datagram of any size.
pub(super) const ROOM: usize = 65_536;

/// Requested receive buffer, used only while data waits: the fragments of some megabytes arrive at once.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Most datagrams of one read, so that their messages are delivered before the next ones arrive.
const MAX_AT_ONCE: usize = 32;

/// Most first datagrams that wait to be accepted; further ones are lost like others.
const MAX_EARLY: usize = 1024;

/// Socket that is connected to one peer.
pub(crate) struct Udp {
    socket: UdpSocket,
    local: SocketAddr,
    peer: SocketAddr,
    prefix: Prefix,
    /// Datagrams received before the socket was connected.
    first: Mutex<VecDeque<Bytes>>,
    has_first: AtomicBool,
    /// Of an accepted peer: where datagrams of others go.
    early: Option<Arc<Early>>,
}

/// Datagrams of new peers that reached the socket of another one: while it was made, until it was connected, or in the
/// moment after, if the system had chosen the socket before.
#[derive(Default)]
struct Early {
    datagrams: Mutex<VecDeque<(SocketAddr, Bytes)>>,
    some: Notify,
}

impl Early {
    fn keep(&self, from: SocketAddr, datagram: &[u8]) {
        let mut datagrams = self.datagrams.lock();
        if is_first_word(datagram) && datagrams.len() < MAX_EARLY {
            // What is longer will not decode.
            let word = &datagram[..datagram.len().min(FIRST_WORD)];
            datagrams.push_back((from, Bytes::copy_from_slice(word)));
            self.some.notify_one();
        }
    }
}

impl Udp {
    /// Connects to the first address of `target` with a route to it. Sends nothing.
    pub(super) async fn connect(target: &Target, link: &LinkConfig) -> Result<Self, ConnectReason> {
        tcp::first(target, |peer| Self::connect_one(target, link, peer)).await
    }

    fn connect_one(target: &Target, link: &LinkConfig, peer: SocketAddr) -> io::Result<Self> {
        let socket = outgoing(target, link, peer)?;
        socket.connect(&peer.into())?;
        let udp = Self::new(UdpSocket::from_std(socket.into())?)?;
        // A free port of the same host may be the one of this socket.
        if udp.local == udp.peer { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(udp) }
    }

    fn new(socket: UdpSocket) -> io::Result<Self> {
        Ok(Self {
            local: canonical(socket.local_addr()?),
            peer: canonical(socket.peer_addr()?),
            socket,
            prefix: Prefix::default(),
            first: Mutex::default(),
            has_first: AtomicBool::new(false),
            early: None,
        })
    }

    /// Reads one datagram behind the others; one of another peer goes to the listener. Returns whether it is of this
    /// peer.
    fn read_one(&self, buf: &mut BytesMut) -> io::Result<bool> {
        let Some(early) = &self.early else { return self.socket.try_recv_buf(buf).map(|_| true) };
        let begin = buf.len();
        let (_, from) = self.socket.try_recv_buf_from(buf)?;
        let own = canonical(from) == self.peer;
        if !own {
            early.keep(from, &buf[begin..]);
        }
        Ok(own)
    }
}

impl Transport for Udp {
    const DATAGRAM_MTU: Option<u16> = Some(MTU);

    fn set_open(&self, low_latency: bool) {
        self.prefix.set_wide(low_latency);
    }

    fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        let before = buf.len();
        if self.has_first.load(Ordering::Relaxed) {
            self.first.lock().drain(..).for_each(|message| self.prefix.append(buf, &message));
            self.has_first.store(false, Ordering::Relaxed);
        }
        for _ in 0..MAX_AT_ONCE {
            if buf.capacity() - buf.len() < ROOM + 4 {
                if buf.len() > before {
                    break;
                }
                buf.reserve(ROOM + 4);
            }
            let at = self.prefix.open(buf);
            match self.read_one(buf) {
                Ok(true) => drop(self.prefix.close(buf, at)),
                Ok(false) => buf.truncate(at),
                Err(error) => {
                    buf.truncate(at);
                    if is_lost(&error) {
                        continue;
                    }
                    if at > before && error.kind() == io::ErrorKind::WouldBlock {
                        break;
                    }
                    return Err(error);
                }
            }
        }
        if buf.len() == before { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(buf.len() - before) }
    }

    fn try_write(&self, out: &mut VecDeque<Bytes>, progress: impl FnMut(usize)) -> io::Result<bool> {
        send_all(&self.socket, &self.prefix, out, progress, is_lost)
    }

    async fn readable(&self) -> io::Result<()> {
        if self.has_first.load(Ordering::Relaxed) {
            return Ok(());
        }
        loop {
            // A closed port of the peer is reported as an error without readable data.
            let ready = self.socket.ready(Interest::READABLE | Interest::ERROR).await?;
            if ready.is_error() {
                let error = self.socket.try_io(Interest::ERROR, || {
                    let error = self.socket.take_error()?;
                    Err::<(), _>(error.unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
                });
                if let Err(error) = error
                    && error.kind() == io::ErrorKind::ConnectionRefused
                {
                    return Err(error);
                }
            }
            if ready.is_readable() {
                return Ok(());
            }
        }
    }

    async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    fn ends(&self) -> io::Result<Ends> {
        Ok(Ends::of_addresses("udp", self.local, self.peer))
    }
}

/// Sends one datagram for each message in `out`: true when all are sent. `progress` is called for each,
/// including those with an error that concerns only that datagram according to `is_lost`.
pub(super) fn send_all(
    socket: &UdpSocket,
    prefix: &Prefix,
    out: &mut VecDeque<Bytes>,
    mut progress: impl FnMut(usize),
    is_lost: impl Fn(&io::Error) -> bool,
) -> io::Result<bool> {
    loop {
        let sent = prefix.send_first(out, |parts, len| {
            let send = || SockRef::from(socket).send_vectored(parts);
            match socket.try_io(Interest::WRITABLE, send) {
                Ok(_) => Ok(len),
                Err(error) if is_lost(&error) => Ok(len),
                Err(error) => Err(error),
            }
        });
        match sent {
            None => return Ok(true),
            Some(Ok(len)) => progress(len),
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Some(Err(error)) => return Err(error),
        }
    }
}

/// Whether a send error concerns only the datagram and not the link: no memory for it now, or no route to
/// the peer at the moment. If that lasts, the lease ends the link.
pub(super) fn is_lost(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused
    )
}

/// Converts an IPv4-mapped address of a dual-stack socket to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The address of all interfaces in the family of another.
pub(super) const fn unspecified(like: SocketAddr) -> IpAddr {
    match like {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// Socket for datagrams to `peer`, bound to the local address that the endpoint asks for.
pub(super) fn outgoing(target: &Target, link: &LinkConfig, peer: SocketAddr) -> io::Result<Socket> {
    let socket = new_socket(target, link, peer)?;
    socket.bind(&target.options.bind.unwrap_or(SocketAddr::new(unspecified(peer), 0)).into())?;
    Ok(socket)
}

/// Socket bound to an address exclusively: another listener there is an error.
pub(super) fn bind(target: &Target, link: &LinkConfig, address: SocketAddr) -> io::Result<Socket> {
    let bound = new_socket(target, link, address).and_then(|socket| {
        socket.bind(&address.into())?;
        Ok(socket)
    });
    match bound {
        // On a host without IPv6, `[::]` falls back to all IPv4 interfaces.
        Err(_) if address.is_ipv6() && address.ip().is_unspecified() && !has_ipv6() => {
            bind(target, link, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()))
        }
        other => other,
    }
}

/// Enlarges the receive buffer, which by default holds three full datagrams, up to `net.core.rmem_max` on Linux.
pub(super) fn hold_a_burst(socket: &Socket) {
    if let Err(error) = socket.set_recv_buffer_size(RECEIVE_BUFFER) {
        tracing::debug!(%error, "a socket for datagrams keeps the system's receive buffer");
    }
}

pub(super) fn new_socket(target: &Target, link: &LinkConfig, like: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(like), Type::DGRAM, Some(Protocol::UDP))?;
    // Set first, so that options of the user override it.
    hold_a_burst(&socket);
    tcp::options(&SockRef::from(&socket), target, link, like.is_ipv6())?;
    socket.set_nonblocking(true)?;
    if let SocketAddr::V6(v6) = like {
        socket.set_only_v6(!v6.ip().is_unspecified())?;
    }
    Ok(socket)
}

/// Socket that receives the first datagram of new peers.
pub(crate) struct UdpListener {
    socket: UdpSocket,
    local: SocketAddr,
    target: Target,
    link: LinkConfig,
    early: Arc<Early>,
}

impl UdpListener {
    pub(super) async fn bind(target: &Target, link: &LinkConfig) -> Result<Self, ConnectReason> {
        tcp::first(target, |address| Self::bind_one(target, link, address)).await
    }

    fn bind_one(target: &Target, link: &LinkConfig, address: SocketAddr) -> io::Result<Self> {
        let socket = bind(target, link, address)?;
        // From now on the sockets of accepted peers may share the port.
        share(&socket)?;
        let socket = UdpSocket::from_std(socket.into())?;
        Ok(Self {
            local: socket.local_addr()?,
            socket,
            target: target.clone(),
            link: link.clone(),
            early: Arc::default(),
        })
    }

    pub(super) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Accepts the next peer that sends INIT. Other datagrams are from unknown sources and ignored.
    pub(super) async fn accept(&self) -> io::Result<Udp> {
        loop {
            let (peer, word) = self.next().await?;
            if is_first_word(&word) {
                return self.adopt(peer, word);
            }
        }
    }

    async fn next(&self) -> io::Result<(SocketAddr, Bytes)> {
        let mut buf = [0; FIRST_WORD];
        loop {
            if let Some(early) = self.early.datagrams.lock().pop_front() {
                return Ok(early);
            }
            tokio::select! {
                readable = self.socket.readable() => readable?,
                () = self.early.some.notified() => continue,
            }
            match self.socket.try_recv_from(&mut buf) {
                // A longer datagram is not INIT, or was truncated and will not decode.
                Ok((len, peer)) => return Ok((peer, Bytes::copy_from_slice(&buf[..len]))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An ICMP error caused by an earlier answer.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes a socket for this peer alone.
    fn adopt(&self, peer: SocketAddr, word: Bytes) -> io::Result<Udp> {
        let socket = new_socket(&self.target, &self.link, self.local)?;
        share(&socket)?;
        socket.bind(&self.local.into())?;
        socket.connect(&peer.into())?;
        let socket = std::net::UdpSocket::from(socket);
        let mut first = VecDeque::from([word]);
        // Datagrams of other peers that arrived before the socket was connected.
        let mut buf = [0; FIRST_WORD];
        for _ in 0..MAX_EARLY {
            let Ok((len, from)) = socket.recv_from(&mut buf) else { break };
            if from == peer {
                first.push_back(Bytes::copy_from_slice(&buf[..len]));
            } else {
                self.early.keep(from, &buf[..len]);
            }
        }
        let mut udp = Udp::new(UdpSocket::from_std(socket)?)?;
        udp.early = Some(self.early.clone());
        *udp.first.lock() = first;
        udp.has_first.store(true, Ordering::Relaxed);
        Ok(udp)
    }
}

/// Longest INIT that is read: its fields and some extensions.
const FIRST_WORD: usize = 2048;

/// Whether a datagram asks for a session: INIT SYN, not INIT ACK.
fn is_first_word(datagram: &[u8]) -> bool {
    const INIT: u8 = 0x01;
    const ID: u8 = 0x1f;
    const ACK: u8 = 0x20;
    datagram.first().is_some_and(|header| header & ID == INIT && header & ACK == 0)
}

/// Allows several sockets of this process on one port.
fn share(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_address(true)?;
    // On these systems SO_REUSEADDR is not sufficient.
    #[cfg(all(
        unix,
        not(any(target_os = "linux", target_os = "android", target_os = "solaris", target_os = "illumos"))
    ))]
    socket.set_reuse_port(true)?;
    Ok(())
}

fn has_ipv6() -> bool {
    Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))
        .and_then(|socket| socket.bind(&SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0).into()))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ConnectRules, LinkOptions};

    /// The system chooses the socket of a datagram a moment before it puts it there: that socket may have another peer by
    /// then.
    #[tokio::test]
    async fn the_first_datagram_of_a_peer_in_the_socket_of_another_one_reaches_the_listener() {
        let endpoint = "udp/127.0.0.1:0".parse().unwrap();
        let target = Target { endpoint, options: LinkOptions::default(), rules: ConnectRules::default() };
        let link = Config::default().resolve().unwrap().link;
        let listener = UdpListener::bind(&target, &link).await.unwrap();
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(listener.local()).unwrap();
        client.send(b"\x01init").unwrap();
        let mut accepted = listener.accept().await.unwrap();
        let mut buf = BytesMut::new();
        assert!(accepted.try_read(&mut buf).unwrap() > 0);
        // As if the socket had another peer, which this client is not.
        let peer = core::mem::replace(&mut accepted.peer, listener.local());
        buf.clear();
        client.send(b"\x01init again").unwrap();
        client.send(b"\x05no init").unwrap();
        accepted.readable().await.unwrap();
        assert_eq!(accepted.try_read(&mut buf).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let (from, word) = listener.next().await.unwrap();
        assert_eq!((from, &word[..]), (peer, &b"\x01init again"[..]));
        assert!(listener.early.datagrams.lock().is_empty());
    }
}
