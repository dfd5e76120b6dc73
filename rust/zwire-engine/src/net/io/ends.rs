//! [`Ends`]: the two ends of a connection, as locators.

use std::{io, net::SocketAddr};
use tokio::net::TcpStream;

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
