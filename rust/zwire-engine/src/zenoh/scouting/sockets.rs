//! Sockets of scouting: one receives from the group, one per interface sends and receives answers.

use crate::{
    config::{MulticastScouting, parse_interfaces},
    net::interfaces::{self, Candidate, InterfaceVerdict, Purpose, Selector},
};
use bytes::{Bytes, BytesMut};
use core::{
    future::poll_fn,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4},
    task::{Context, Poll},
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use tokio::{io::ReadBuf, net::UdpSocket};
use zwire_proto::zre::node::Interface;

/// Longest datagram that is read: a HELLO with as many locators as the codec accepts.
const MAX_DATAGRAM: usize = 65_536;

/// Environment variable that replaces `scouting/multicast/interface` if that is `auto`; `none` turns
/// scouting off.
pub const INTERFACE_ENV: &str = "ZWIRE_SCOUTING_INTERFACE";

/// Placeholder for a group that cannot be used.
const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// Socket that sends on one interface.
struct ScoutSender {
    candidate: Candidate,
    socket: UdpSocket,
    address: SocketAddr,
    /// Whether the last send failed, which is logged once.
    failing: bool,
}

/// All sockets of scouting. Sockets that cannot be opened are left out, with a warning the first time.
pub(super) struct Sockets {
    group: SocketAddrV4,
    ttl: u8,
    listen: bool,
    selectors: Vec<Selector>,
    receiver: Option<UdpSocket>,
    senders: Vec<ScoutSender>,
    /// Whether the warning was logged.
    warned: bool,
    /// Index of the socket that is polled first, so that all get their turn.
    turn: usize,
    buf: BytesMut,
}

impl Sockets {
    /// Opens no sockets yet: [`Self::refresh`] does. `listen`: whether to receive SCOUT messages.
    pub(super) fn new(config: &MulticastScouting, listen: bool) -> Self {
        let (group, warned) = match config.address {
            SocketAddr::V4(group) => (group, false),
            SocketAddr::V6(group) => {
                tracing::warn!(%group, "scouting by IPv6 is not supported: no nodes are found by multicast");
                (NOWHERE, true)
            }
        };
        let (selectors, off) = selection(config);
        Self {
            group: if off { NOWHERE } else { group },
            ttl: config.ttl,
            listen,
            selectors,
            receiver: None,
            senders: Vec::new(),
            warned,
            turn: 0,
            buf: BytesMut::new(),
        }
    }

    /// Lists the interfaces, opens and closes sockets. Returns whether the set has changed.
    pub(super) fn refresh(&mut self) -> bool {
        if self.group == NOWHERE {
            return false;
        }
        let mut all = match interfaces::list(Purpose::Multicast, &self.selectors) {
            Ok(all) => all,
            Err(error) => {
                self.warn("the interfaces cannot be listed", &error.to_string());
                return false;
            }
        };
        all.retain(|candidate| candidate.verdict == InterfaceVerdict::Used);
        let known = |senders: &[ScoutSender], candidate: &Candidate| {
            senders.iter().any(|sender| sender.candidate == *candidate)
        };
        let before = self.senders.len();
        self.senders.retain(|sender| all.contains(&sender.candidate));
        let mut changed = self.senders.len() != before;
        let mut failure = None;
        for candidate in all {
            if known(&self.senders, &candidate) {
                continue;
            }
            match self.open_sender(&candidate) {
                Ok((socket, address)) => {
                    self.senders.push(ScoutSender { candidate, socket, address, failing: false });
                    changed = true;
                }
                Err(error) => failure = Some(format!("{}: {error}", candidate.name)),
            }
        }
        if self.listen && (changed || self.receiver.is_none()) {
            // A new socket for each set of interfaces, so that no group has to be left.
            self.receiver = match self.open_receiver() {
                Ok(receiver) => Some(receiver),
                Err(error) => {
                    failure = Some(format!("{}: {error}", self.group));
                    None
                }
            };
        }
        match failure {
            Some(failure) => self.warn("multicast does not work everywhere", &failure),
            None if self.senders.is_empty() => self.warn("no interface has multicast", "or is selected"),
            None => self.warned = false,
        }
        changed
    }

    /// Logs one warning; the node continues with its endpoints, with gossip, and with the interfaces that
    /// work.
    fn warn(&mut self, what: &str, why: &str) {
        if !core::mem::replace(&mut self.warned, true) {
            tracing::warn!(group = %self.group, "scouting: {what} ({why})");
        }
    }

    fn open_sender(&self, candidate: &Candidate) -> io::Result<(UdpSocket, SocketAddr)> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_multicast_if_v4(&candidate.address)?;
        socket.set_multicast_ttl_v4(self.ttl.into())?;
        // Other nodes on this machine receive the datagrams as well.
        socket.set_multicast_loop_v4(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddr::from((candidate.address, 0)).into())?;
        let socket = UdpSocket::from_std(socket.into())?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    }

    fn open_receiver(&self) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        #[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
        socket.set_reuse_port(true)?;
        // Receive only from interfaces that this socket has joined, not from those that other programs
        // have.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_multicast_all_v4(false)?;
        socket.set_nonblocking(true)?;
        // Bound to the group address the socket receives nothing else on the port; Windows does not
        // support that.
        let ip = if cfg!(windows) { Ipv4Addr::UNSPECIFIED } else { *self.group.ip() };
        socket.bind(&SocketAddr::from((ip, self.group.port())).into())?;
        let mut last = Err(io::ErrorKind::AddrNotAvailable.into());
        let mut joined = false;
        for sender in &self.senders {
            last = socket.join_multicast_v4(self.group.ip(), &sender.candidate.address);
            joined |= match &last {
                Ok(()) => true,
                // Two addresses of one interface.
                Err(error) => error.kind() == io::ErrorKind::AddrInUse,
            };
        }
        if joined {
            UdpSocket::from_std(socket.into())
        } else {
            Err(last.err().unwrap_or(io::ErrorKind::Other.into()))
        }
    }

    /// Sends a datagram to the group, on every interface.
    pub(super) fn send_to_group(&mut self, datagram: &[u8]) {
        let group = self.group.into();
        for sender in &mut self.senders {
            let sent = send(&sender.socket, datagram, group);
            let failed = sent.is_err();
            if let Err(error) = sent
                && !sender.failing
            {
                tracing::info!(interface = sender.candidate.name, %error, "scouting: sending to the group fails on this interface");
            }
            sender.failing = failed;
        }
    }

    /// Answers a SCOUT, from the interface in the network of the asker.
    pub(super) fn send_to(&self, to: SocketAddr, datagram: &[u8]) {
        let near = |sender: &&ScoutSender| sender.candidate.interface().contains(to.ip());
        if let Some(sender) = self.senders.iter().find(near).or(self.senders.first()) {
            // A datagram may be lost; the asker repeats its SCOUT.
            let _ = send(&sender.socket, datagram, to);
        }
    }

    /// The next datagram from another node. Pending for ever if there are no sockets.
    pub(super) async fn receive(&mut self) -> (SocketAddr, Bytes) {
        loop {
            let (from, datagram) = poll_fn(|cx| self.poll(cx)).await;
            if !self.senders.iter().any(|sender| sender.address == from) {
                return (from, datagram);
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(SocketAddr, Bytes)> {
        let Self { receiver, senders, turn, buf, .. } = self;
        let sockets: Vec<&UdpSocket> = receiver.iter().chain(senders.iter().map(|s| &s.socket)).collect();
        *turn = turn.wrapping_add(1);
        for n in 0..sockets.len() {
            let socket = sockets[turn.wrapping_add(n) % sockets.len()];
            // Errors concern datagrams sent before (an ICMP port unreachable): the next read may succeed.
            for left in (0..MAX_ERRORS).rev() {
                buf.resize(MAX_DATAGRAM, 0);
                let mut into = ReadBuf::new(buf);
                match socket.poll_recv_from(cx, &mut into) {
                    Poll::Ready(Ok(from)) => {
                        let len = into.filled().len();
                        return Poll::Ready((from, Bytes::copy_from_slice(&buf[..len])));
                    }
                    Poll::Ready(Err(_)) if left == 0 => cx.waker().wake_by_ref(),
                    Poll::Ready(Err(_)) => {}
                    Poll::Pending => break,
                }
            }
        }
        Poll::Pending
    }

    /// The networks of this machine on which it scouts.
    pub(super) fn networks(&self) -> Vec<Interface> {
        self.senders.iter().map(|sender| sender.candidate.interface()).collect()
    }

    /// Names of the interfaces on which it scouts, for log texts.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.senders.iter().map(|s| s.candidate.name.clone()).collect();
        names.dedup();
        names
    }

    /// Whether there is an interface to send on.
    pub(super) fn works(&self) -> bool {
        !self.senders.is_empty()
    }
}

/// Interfaces selected by the configuration, or else by the environment; the flag says that none are to
/// be used.
fn selection(config: &MulticastScouting) -> (Vec<Selector>, bool) {
    // Parsing was checked with the configuration.
    let selectors: Vec<Selector> = config.interfaces.iter().filter_map(|text| text.parse().ok()).collect();
    if !selectors.is_empty() {
        return (selectors, false);
    }
    let chosen = std::env::var(INTERFACE_ENV).unwrap_or_default();
    if chosen == "none" {
        return (selectors, true);
    }
    match parse_interfaces(&chosen) {
        Ok(names) => (names.iter().filter_map(|text| text.parse().ok()).collect(), false),
        Err(word) => {
            tracing::warn!(word, "{INTERFACE_ENV}: this is no interface, so all are used");
            (selectors, false)
        }
    }
}

/// Sends without waiting: tokio does not know yet that a new socket is writable.
fn send(socket: &UdpSocket, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
    SockRef::from(socket).send_to(datagram, &to.into()).map(drop)
}

/// Most successive errors of one socket before the others get their turn.
const MAX_ERRORS: usize = 16;

/// Addresses at which a listener on all interfaces can be reached: those usable by other machines, or the
/// loopback if there are none.
pub(super) fn reachable() -> Vec<IpAddr> {
    let all = interfaces::addresses().unwrap_or_default();
    let others: Vec<IpAddr> = all.iter().copied().filter(|ip| !ip.is_loopback()).collect();
    if others.is_empty() { all } else { others }
}
