//! Discovery datagrams: one socket that receives, one per interface that sends (`zre` 5.2, 5.3).

use super::interfaces::Candidate;
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use socket2::{Domain, Protocol, Socket, Type};
use std::{io, net::UdpSocket as StdSocket};
use tokio::net::UdpSocket;

/// Receive buffer, longer than any beacon; longer datagrams are truncated and rejected.
const MAX_DATAGRAM: usize = 128;

/// Most datagrams of one wake-up, so that a flood does not starve other tasks of the thread.
const MAX_AT_ONCE: usize = 64;

/// Beacons on one interface.
#[derive(Clone, Debug)]
pub struct SenderReport {
    /// The interface.
    pub candidate: Candidate,
    /// Beacons that went out.
    pub sent: u64,
    /// Beacons that did not.
    pub failed: u64,
    /// Why the last one did not.
    pub error: Option<String>,
}

/// Sender of beacons on one interface.
#[derive(Debug)]
pub(crate) struct BeaconSender {
    pub(crate) report: SenderReport,
    to: SocketAddrV4,
    /// `None` if the operating system refused the socket.
    socket: Option<StdSocket>,
}

impl BeaconSender {
    /// Opens a socket with the address of the interface: receivers derive the endpoint from the source
    /// address.
    pub(crate) fn new(candidate: Candidate, port: u16) -> Self {
        let to = SocketAddrV4::new(candidate.broadcast, port);
        let (socket, error) = match bind_sender(candidate.address) {
            Ok(socket) => (Some(socket), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { report: SenderReport { candidate, sent: 0, failed: 0, error }, to, socket }
    }

    /// Sends a beacon. After a failure the next call tries again, so that a returning cable needs no
    /// further action.
    pub(crate) fn send(&mut self, datagram: &[u8]) {
        let report = &mut self.report;
        if self.socket.is_none() {
            // The address may exist again.
            let bound = bind_sender(report.candidate.address);
            report.error = bound.as_ref().err().map(ToString::to_string);
            self.socket = bound.ok();
        }
        let result = match &self.socket {
            Some(socket) => socket.send_to(datagram, self.to).map(drop),
            None => Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        match result {
            Ok(()) => {
                report.sent += 1;
                report.error = None;
            }
            Err(error) => {
                report.failed += 1;
                if report.error.is_none() {
                    // Logged when sending begins to fail, not once a second.
                    tracing::warn!(interface = report.candidate.name, %error, "beacons cannot be sent on this interface");
                }
                report.error = Some(error.to_string());
            }
        }
    }
}

fn bind_sender(address: Ipv4Addr) -> io::Result<StdSocket> {
    let socket = StdSocket::bind((address, 0))?;
    socket.set_broadcast(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Socket that receives beacons. Several nodes on one host receive them all.
///
/// # Errors
/// Another program uses the port exclusively, or there is no IPv4.
pub(crate) fn bind_receiver(port: u16) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
    socket.set_reuse_port(true)?;
    socket.set_broadcast(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    UdpSocket::from_std(socket.into())
}

/// Waits for datagrams and takes all that are available.
///
/// # Errors
/// The socket has failed.
pub(crate) async fn receive(socket: &UdpSocket, into: &mut Vec<(IpAddr, Bytes)>) -> io::Result<()> {
    socket.readable().await?;
    let mut buf = [0; MAX_DATAGRAM];
    while into.len() < MAX_AT_ONCE {
        match socket.try_recv_from(&mut buf) {
            Ok((len, from)) => into.push((from.ip(), Bytes::copy_from_slice(&buf[..len]))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // An ICMP answer to a datagram of this host; does not concern this socket.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
