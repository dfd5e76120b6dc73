//! TCP: connecting and listening with the options of an endpoint (`zenoh-behaviour` 1.1, 1.2).

use crate::{
    config::{LinkConfig, Target},
    error::ConnectReason,
    net::race::{STAGGER, race},
};
use core::time::Duration;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Listen backlog, as in eclipse-zenoh.
const BACKLOG: i32 = 1024;

/// TCP keep-alive: the lease detects vanished peers, this frees the socket of one with an absurd lease.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Time limit for one address, with room for two SYNs: the system would double its pauses for minutes, and so miss
/// the moment at which a cable is back.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(2500);

/// Most addresses of one name that are tried: as many as can begin within the time of an attempt.
const MAX_ADDRESSES: usize = 12;

/// Resolves `host:port` to all its addresses.
pub(crate) async fn resolve(address: &str) -> Result<Vec<SocketAddr>, ConnectReason> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let address = address.to_owned();
    let found =
        tokio::task::spawn_blocking(move || address.to_socket_addrs().map(Iterator::collect::<Vec<_>>))
            .await
            .map_err(|_| ConnectReason::Unresolved)?
            .map_err(|e| ConnectReason::Io(Arc::new(e)))?;
    if found.is_empty() { Err(ConnectReason::Unresolved) } else { Ok(found) }
}

/// The first success of `attempt` with an address of `target`, or the reason of the last failure.
pub(crate) async fn first<T>(
    target: &Target,
    attempt: impl Fn(SocketAddr) -> io::Result<T> + Send,
) -> Result<T, ConnectReason> {
    let mut last = ConnectReason::Unresolved;
    for address in resolve(target.endpoint.address()).await? {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(error) => last = ConnectReason::io(error),
        }
    }
    Err(last)
}

/// Applies the options of the endpoint, or else those for all links.
pub(crate) fn options(socket: &SockRef<'_>, target: &Target, link: &LinkConfig, v6: bool) -> io::Result<()> {
    let of_all = match target.endpoint.protocol() {
        "tls" => (link.tls.so_sndbuf, link.tls.so_rcvbuf),
        _ => (link.so_sndbuf, link.so_rcvbuf),
    };
    if let Some(bytes) = target.options.so_sndbuf.or(of_all.0) {
        socket.set_send_buffer_size(bytes as usize)?;
    }
    if let Some(bytes) = target.options.so_rcvbuf.or(of_all.1) {
        socket.set_recv_buffer_size(bytes as usize)?;
    }
    if let Some(tos) = target.options.tos {
        set_tos(socket, tos, v6)?;
    }
    if let Some(interface) = &target.options.interface {
        bind_interface(socket, interface)?;
    }
    Ok(())
}

/// Marks the packets of a socket with a class of service. Systems that set none for IPv6 send unmarked packets.
pub(crate) fn set_tos(socket: &Socket, tos: u8, v6: bool) -> io::Result<()> {
    if !v6 {
        return socket.set_tos_v4(tos.into());
    }
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
    socket.set_tclass_v6(tos.into())?;
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd")))]
    tracing::warn!(tos, "this system marks no IPv6 packets: the option `dscp` has no effect there");
    Ok(())
}

/// Restricts a socket to an interface.
fn bind_interface(socket: &Socket, interface: &str) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return socket.bind_device(Some(interface.as_bytes()));
    // An open socket would reach more networks than the configuration allows.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = socket;
        let text = format!("no socket of this system is bound to interface {interface}: leave out `iface`");
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }
}

/// Applies the options of every established connection.
pub(crate) fn established(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}

/// Bounds the unsent bytes in the kernel, where the system supports it.
pub(crate) fn set_room(stream: &TcpStream, bytes: u32) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(bytes) {
        // Only the latency of urgent messages suffers; delivery is unaffected.
        tracing::debug!(%error, "the bound for unsent data could not be set");
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (stream, bytes);
}

/// Whether the kernel has sent its data down to the [room](set_room); if not, the next `writable` waits for it.
pub(crate) fn is_drained(stream: &TcpStream) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let asked = stream.try_io(tokio::io::Interest::WRITABLE, || {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            match poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&now)) {
                Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                // Errors of the socket are reported by the next write.
                _ => Ok(()),
            }
        });
        asked.is_ok()
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = stream;
        true
    }
}

/// Connects to the first address of `target` that answers; fails with the reason of the last.
pub(crate) async fn connect(target: &Target, link: &LinkConfig) -> Result<TcpStream, ConnectReason> {
    let addresses = resolve(target.endpoint.address()).await?;
    let addresses = addresses.into_iter().take(MAX_ADDRESSES);
    let attempts: Vec<_> = addresses.map(|address| connect_one(target, link, address)).collect();
    race(attempts, STAGGER).await.map_err(|mut errors| {
        errors.pop().map_or(ConnectReason::Unresolved, |e| ConnectReason::Io(Arc::new(e)))
    })
}

async fn connect_one(target: &Target, link: &LinkConfig, address: SocketAddr) -> io::Result<TcpStream> {
    let attempt = connect_to(address, |socket| {
        options(&SockRef::from(socket), target, link, address.is_ipv6())?;
        target.options.bind.map_or(Ok(()), |bind| socket.bind(bind))
    });
    tokio::time::timeout(CONNECT_TIMEOUT, attempt).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Connects to an address with a socket set up by `prepare`.
pub(crate) async fn connect_to(
    address: SocketAddr,
    prepare: impl FnOnce(&TcpSocket) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    prepare(&socket)?;
    let stream = socket.connect(address).await?;
    // A connection to a free port of the same host can connect to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    established(&stream)?;
    Ok(stream)
}

/// Listens on the first usable address of `target`.
pub(crate) async fn listen(target: &Target, link: &LinkConfig) -> Result<TcpListener, ConnectReason> {
    let prepare = |socket: &Socket, address: SocketAddr| {
        options(&SockRef::from(socket), target, link, address.is_ipv6())
    };
    first(target, |address| listen_on(address, &prepare)).await
}

/// Listens on an address with a socket set up by `prepare`; must run in a runtime.
pub(crate) fn listen_on(
    address: SocketAddr,
    prepare: &dyn Fn(&Socket, SocketAddr) -> io::Result<()>,
) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    prepare(&socket, address)?;
    socket.set_reuse_address(true)?;
    if let SocketAddr::V6(v6) = address {
        // `[::]` also takes IPv4, as users of the default endpoint expect.
        socket.set_only_v6(!v6.ip().is_unspecified())?;
    }
    socket.set_nonblocking(true)?;
    match socket.bind(&address.into()) {
        // On a host without IPv6, `[::]` falls back to all IPv4 interfaces.
        Err(e) if address.is_ipv6() && address.ip().is_unspecified() && !ipv6_works(&e) => {
            return listen_on(SocketAddr::from(([0, 0, 0, 0], address.port())), prepare);
        }
        other => other?,
    }
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn ipv6_works(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::AddrNotAvailable
}
