//! The sockets of scouting: one that hears the group, one per interface that speaks and hears answers.

use crate::{
    config::{MulticastScouting, parse_interfaces},
    net::interfaces::{self, Candidate, Purpose, Selector, Verdict},
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

/// Longest datagram that is read: a HELLO with as many locators as the codec takes.
const MAX_DATAGRAM: usize = 65_536;

/// Environment variable with what `scouting/multicast/interface` says where the configuration says `auto`;
/// `none` for no scouting at all.
pub const INTERFACE_ENV: &str = "ZWIRE_SCOUTING_INTERFACE";

/// In place of a group that cannot be used.
const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// Speaks on one interface.
struct Sender {
    candidate: Candidate,
    socket: UdpSocket,
    address: SocketAddr,
    /// The last send failed; told once.
    failing: bool,
}

/// All of them. What cannot be had is left out, with a warning the first time.
pub(super) struct Sockets {
    group: SocketAddrV4,
    ttl: u8,
    listen: bool,
    selectors: Vec<Selector>,
    receiver: Option<UdpSocket>,
    senders: Vec<Sender>,
    /// Whether somebody was told that it does not work.
    warned: bool,
    /// Which socket is asked first: each has its turn.
    turn: usize,
    buf: BytesMut,
}

impl Sockets {
    /// None yet: [`Self::refresh`] opens them. `listen` wants to hear who asks.
    pub(super) fn new(config: &MulticastScouting, listen: bool) -> Self {
        let (group, warned) = match config.address {
            SocketAddr::V4(group) => (group, false),
            SocketAddr::V6(group) => {
                tracing::warn!(%group, "scouting by IPv6 is not supported: nobody is found by multicast");
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

    /// Looks at the interfaces, opens and closes sockets. True if there are other ones than before.
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
        all.retain(|candidate| candidate.verdict == Verdict::Used);
        let known = |senders: &[Sender], candidate: &Candidate| {
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
                    self.senders.push(Sender { candidate, socket, address, failing: false });
                    changed = true;
                }
                Err(error) => failure = Some(format!("{}: {error}", candidate.name)),
            }
        }
        if self.listen && (changed || self.receiver.is_none()) {
            // A socket of its own for each set of interfaces: leaving a group is not needed then.
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

    /// Once: the node goes on with its endpoints, with gossip, and with the interfaces that work.
    fn warn(&mut self, what: &str, why: &str) {
        if !core::mem::replace(&mut self.warned, true) {
            tracing::warn!(group = %self.group, "scouting: {what} ({why})");
        }
    }

    fn open_sender(&self, candidate: &Candidate) -> io::Result<(UdpSocket, SocketAddr)> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_multicast_if_v4(&candidate.address)?;
        socket.set_multicast_ttl_v4(self.ttl.into())?;
        // Other nodes of this machine hear it, too.
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
        // Only what comes on the interfaces that we have joined, not those of other programs.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_multicast_all_v4(false)?;
        socket.set_nonblocking(true)?;
        // Bound to the group nothing else that comes to the port is heard; Windows cannot.
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
                tracing::info!(interface = sender.candidate.name, %error, "scouting: nobody can be asked on this interface");
            }
            sender.failing = failed;
        }
    }

    /// Answers an asker, from the interface that is in its network.
    pub(super) fn send_to(&self, to: SocketAddr, datagram: &[u8]) {
        let near = |sender: &&Sender| sender.candidate.interface().contains(to.ip());
        if let Some(sender) = self.senders.iter().find(near).or(self.senders.first()) {
            // A datagram may be lost; the asker asks again.
            let _ = send(&sender.socket, datagram, to);
        }
    }

    /// The next datagram that is not our own. Never comes without sockets.
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
            // Errors are those of datagrams sent before (a port that nobody has): the next may be well.
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

    /// Where it asks, for people: names of interfaces.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.senders.iter().map(|s| s.candidate.name.clone()).collect();
        names.dedup();
        names
    }

    /// Whether anybody can be asked.
    pub(super) fn works(&self) -> bool {
        !self.senders.is_empty()
    }
}

/// The interfaces that the configuration selects, or else the environment; and whether it says that there
/// are to be none.
fn selection(config: &MulticastScouting) -> (Vec<Selector>, bool) {
    // They were checked when the configuration was.
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

/// Sends at once or not at all: the bookkeeping of the runtime does not know yet that a new socket is writable.
fn send(socket: &UdpSocket, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
    SockRef::from(socket).send_to(datagram, &to.into()).map(drop)
}

/// Errors in a row of one socket, before the others have their turn.
const MAX_ERRORS: usize = 16;

/// The addresses of this machine that a listener on every interface is reached at: those that others can
/// use, or the loopback where there are no others.
pub(super) fn reachable() -> Vec<IpAddr> {
    let all = interfaces::addresses().unwrap_or_default();
    let others: Vec<IpAddr> = all.iter().copied().filter(|ip| !ip.is_loopback()).collect();
    if others.is_empty() { all } else { others }
}
