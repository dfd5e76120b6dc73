//! Sockets of a multicast group: one receives, the other sends, and its address identifies this node in
//! the group (`zenoh-wire` 3.15).

use super::{
    message::Prefix,
    transport::{Ends, Transport},
    udp,
};
use crate::{config::Target, error::ConnectReason, net::tcp};
use bytes::{Bytes, BytesMut};
use getifaddrs::Address;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
};
use tokio::net::UdpSocket;

/// Default TTL, as in eclipse-zenoh: a group does not extend beyond one network.
const TTL: u32 = 1;

/// Group address of an endpoint, if it is a multicast endpoint.
pub(crate) fn group_of(target: &Target) -> Option<SocketAddr> {
    if target.endpoint.protocol() != "udp" {
        return None;
    }
    target.endpoint.address().parse().ok().filter(|address: &SocketAddr| address.ip().is_multicast())
}

/// Membership of this node in a group.
pub(crate) struct Group {
    ears: UdpSocket,
    mouth: UdpSocket,
    /// Address that identifies this node.
    local: SocketAddr,
    group: SocketAddr,
    prefix: Prefix,
}

/// Interface used for a group: its index, and its first address of each family.
#[derive(Default)]
struct GroupPlace {
    index: u32,
    v4: Option<Ipv4Addr>,
    v6: Option<Ipv6Addr>,
}

impl GroupPlace {
    /// Finds the interface with that name or address; without one the system chooses.
    fn find(wanted: Option<&str>) -> io::Result<Self> {
        let Some(wanted) = wanted else { return Ok(Self::default()) };
        let address: Option<IpAddr> = wanted.parse().ok();
        let all: Vec<_> = getifaddrs::getifaddrs()?.collect();
        let has = |interface: &getifaddrs::Interface| {
            if address.is_some() { interface.address.ip_addr() == address } else { interface.name == wanted }
        };
        let none = || io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {wanted}"));
        let name = all.iter().find(|interface| has(interface)).map(|found| found.name.clone());
        let name = name.ok_or_else(none)?;
        let mut place = Self::default();
        for interface in all.iter().filter(|interface| interface.name == name) {
            place.index = interface.index.unwrap_or(place.index);
            match &interface.address {
                Address::V4(v4) => drop(place.v4.get_or_insert(v4.address)),
                Address::V6(v6) => drop(place.v6.get_or_insert(v6.address)),
                Address::Mac(_) => {}
            }
        }
        match address {
            Some(IpAddr::V4(v4)) => place.v4 = Some(v4),
            Some(IpAddr::V6(v6)) => place.v6 = Some(v6),
            None => {}
        }
        Ok(place)
    }
}

impl Group {
    /// Joins the group of an endpoint; must run in a runtime.
    pub(crate) fn join(target: &Target, group: SocketAddr) -> Result<Self, ConnectReason> {
        Self::open(target, group).map_err(ConnectReason::io)
    }

    fn open(target: &Target, group: SocketAddr) -> io::Result<Self> {
        let options = &target.options;
        let place = GroupPlace::find(options.interface.as_deref())?;
        let ttl = options.ttl.unwrap_or(TTL);
        let no_address =
            || io::Error::new(io::ErrorKind::AddrNotAvailable, "the interface has no address of that family");
        let mouth = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))?;
        let named = options.interface.is_some();
        match group.ip() {
            IpAddr::V4(_) => {
                let own = if named { place.v4.ok_or_else(no_address)? } else { Ipv4Addr::UNSPECIFIED };
                mouth.bind(&SocketAddr::from((own, 0)).into())?;
                if named {
                    mouth.set_multicast_if_v4(&own)?;
                }
                mouth.set_multicast_ttl_v4(ttl)?;
                mouth.set_multicast_loop_v4(true)?;
            }
            IpAddr::V6(_) => {
                let own = if named { place.v6.ok_or_else(no_address)? } else { Ipv6Addr::UNSPECIFIED };
                mouth.bind(&SocketAddr::V6(SocketAddrV6::new(own, 0, 0, place.index)).into())?;
                mouth.set_multicast_if_v6(place.index)?;
                mouth.set_multicast_hops_v6(ttl)?;
                mouth.set_multicast_loop_v6(true)?;
            }
        }
        if let Some(tos) = options.tos {
            tcp::set_tos(&mouth, tos, group.is_ipv6())?;
        }
        // Connected to learn which local address the system chooses.
        mouth.connect(&group.into())?;
        mouth.set_nonblocking(true)?;

        let ears = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))?;
        udp::hold_a_burst(&ears);
        // Several nodes on one host receive from the group.
        ears.set_reuse_address(true)?;
        #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
        ears.set_reuse_port(true)?;
        let mut groups = vec![group.ip()];
        groups.extend(options.join.iter().filter(|other| other.is_ipv4() == group.is_ipv4()));
        // Bound to the group address to receive nothing else, which is possible for a single group.
        let at = if groups.len() == 1 && cfg!(unix) { group.ip() } else { udp::unspecified(group) };
        ears.bind(&SocketAddr::new(at, group.port()).into())?;
        for group in groups {
            match group {
                IpAddr::V4(v4) if named => {
                    ears.join_multicast_v4_n(&v4, &InterfaceIndexOrAddress::Index(place.index))?;
                }
                IpAddr::V4(v4) => ears.join_multicast_v4(&v4, &Ipv4Addr::UNSPECIFIED)?,
                IpAddr::V6(v6) => ears.join_multicast_v6(&v6, place.index)?,
            }
        }
        ears.set_nonblocking(true)?;
        let (ears, mouth) = (UdpSocket::from_std(ears.into())?, UdpSocket::from_std(mouth.into())?);
        Ok(Self { local: mouth.local_addr()?, ears, mouth, group, prefix: Prefix::default() })
    }

    /// Appends the next datagram of another node, and returns its source; `WouldBlock` if there is none now.
    pub(crate) fn try_hear(&self, buf: &mut BytesMut) -> io::Result<SocketAddr> {
        loop {
            buf.reserve(udp::ROOM);
            let before = buf.len();
            match self.ears.try_recv_buf_from(buf) {
                Ok((_, from)) if from == self.local => buf.truncate(before),
                Ok((_, from)) => return Ok(from),
                Err(error) if udp::is_lost(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) async fn audible(&self) -> io::Result<()> {
        self.ears.readable().await
    }
}

impl Transport for Group {
    const DATAGRAM_MTU: Option<u16> = Some(udp::MTU);

    fn try_read(&self, _: &mut BytesMut) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    async fn readable(&self) -> io::Result<()> {
        core::future::pending().await
    }

    fn try_write(&self, out: &mut VecDeque<Bytes>, progress: impl FnMut(usize)) -> io::Result<bool> {
        // An error caused by one member must not end the group.
        let is_lost =
            |error: &io::Error| udp::is_lost(error) || error.kind() == io::ErrorKind::ConnectionRefused;
        udp::send_all(&self.mouth, &self.prefix, out, progress, is_lost)
    }

    async fn writable(&self) -> io::Result<()> {
        self.mouth.writable().await
    }

    fn ends(&self) -> io::Result<Ends> {
        Ok(Ends::of_addresses("udp", self.local, self.group))
    }
}
