//! QUIC: `quic/<host>:<port>` (`zenoh-behaviour` 1.2, 7.1). One stream that both sides write on carries
//! the batches, framed as on any stream.
//!
//! The stream is asked without waiting, as a socket is: what it can do later wakes a [`Signal`].

use super::{Ends, udp};
use crate::{
    clock,
    config::{Link, Target, TlsSettings},
    error::ConnectReason,
    runtime::Birth,
    tcp::resolve,
    tls::{TlsFailure, client_config, common_name, end_of_validity, server_config, server_name},
};
use bytes::{Bytes, BytesMut};
use core::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};
use parking_lot::Mutex;
use quinn::{
    Connection, ConnectionError, Endpoint, EndpointConfig, MtuDiscoveryConfig, ReadError, RecvStream,
    SendStream, TokioRuntime, TransportConfig, VarInt, WriteError,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rustls::{AlertDescription, pki_types::CertificateDer};
use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    task::Wake,
};
use tokio::{runtime::Handle, sync::Notify, time::timeout};

/// In endpoints.
pub(super) const PROTOCOL: &str = "quic";

/// What a link is called in the handshake: one stream, as the reference calls it, and as it did up to 1.8.
const ALPN: [&[u8]; 2] = [b"zenoh", b"hq-29"];

/// What the other side may send ahead: 16 large messages, or 64 ms of 1 Gbit/s.
const RECEIVE_WINDOW: u32 = 8 << 20;

/// What we may have written that is not acknowledged, at first. Later it is what the congestion window lets
/// go out, and the room of the link behind it.
const SEND_WINDOW: u64 = 128 * 1024;

/// Largest datagram that is tried. On a loopback that makes batches of one or two datagrams; other
/// networks answer with less.
const MAX_DATAGRAM: u16 = 65_527;

/// How long a connection outlives its link, for what is on the way.
const LINGER: Duration = Duration::from_secs(1);

/// Most bytes of one read.
const READ: usize = 256 * 1024;

/// Most parts of one write.
const PARTS: usize = 64;

/// Most connections that wait for being looked at.
const MAX_INCOMING: usize = 1024;

/// Wakes whoever waits for a stream.
#[derive(Default)]
struct Signal(Notify);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

/// One direction of a stream.
struct Half<S> {
    stream: Mutex<S>,
    signal: Arc<Signal>,
    waker: Waker,
}

impl<S> Half<S> {
    fn new(stream: S) -> Self {
        let signal = Arc::new(Signal::default());
        Self { stream: Mutex::new(stream), waker: signal.clone().into(), signal }
    }

    /// What `future` gives at once; else the signal tells when to ask again.
    fn poll<F: Future>(&self, future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}

struct Sender {
    stream: SendStream,
    finished: bool,
}

impl Sender {
    /// Nothing more will be written.
    fn finish(&mut self) {
        if !core::mem::replace(&mut self.finished, true) {
            // It fails where the connection is lost, and then there is nothing to wait for.
            let _ = self.stream.finish();
        }
    }
}

pub(crate) struct Stream {
    connection: Connection,
    send: Half<Sender>,
    receive: Half<RecvStream>,
    /// The last write has found no room.
    full: AtomicBool,
    /// Bytes that may wait behind what is on the way.
    room: AtomicU32,
    /// What the connection was told of both.
    window: AtomicU64,
    ends: Ends,
    expires: Option<Duration>,
    /// The common name in the certificate of the other side.
    name: Option<String>,
    runtime: Handle,
}

impl Stream {
    /// Connects to the first address of `target` that answers.
    pub(super) async fn connect(target: &Target, link: &Link) -> Result<Self, ConnectReason> {
        let settings = link.tls_at(&target.options);
        let name = server_name(target.endpoint.address())?;
        let mut tls = client_config(&settings)?;
        tls.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
        let tls = QuicClientConfig::try_from(tls).map_err(unusable)?;
        let mut config = quinn::ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport(false)));
        let mut last = ConnectReason::Unresolved;
        for peer in resolve(target.endpoint.address()).await? {
            let endpoint = open(target, link, peer).map_err(ConnectReason::io)?;
            let connecting = endpoint.connect_with(config.clone(), peer, &name.to_str());
            match connecting.map_err(unusable)?.await {
                Ok(connection) => {
                    let (send, receive) =
                        connection.open_bi().await.map_err(|e| refused(&e, &name.to_str()))?;
                    let port = endpoint.local_addr().map_err(ConnectReason::io)?.port();
                    return Self::new(connection, (send, receive), port, &settings);
                }
                Err(error) => last = refused(&error, &name.to_str()),
            }
        }
        Err(last)
    }

    fn new(
        connection: Connection,
        (send, receive): (SendStream, RecvStream),
        port: u16,
        settings: &TlsSettings,
    ) -> Result<Self, ConnectReason> {
        let peer = connection.remote_address();
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        // Known wherever the system tells where a datagram went; elsewhere the family has to do.
        let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = connection.local_ip().map_or(any, |ip| ip.to_canonical());
        let chain = connection.peer_identity().and_then(|chain| chain.downcast().ok());
        let chain: Vec<CertificateDer<'static>> = chain.map(|chain| *chain).unwrap_or_default();
        let expires = settings
            .closes_on_expiration()
            .then(|| end_of_validity(chain.iter().map(AsRef::as_ref)))
            .flatten();
        Ok(Self {
            ends: Ends::of_addresses(PROTOCOL, SocketAddr::new(local, port), peer),
            connection,
            send: Half::new(Sender { stream: send, finished: false }),
            receive: Half::new(receive),
            full: AtomicBool::new(false),
            room: AtomicU32::new(SEND_WINDOW as u32),
            window: AtomicU64::new(SEND_WINDOW),
            expires,
            name: chain.first().and_then(|der| common_name(der)),
            runtime: Handle::current(),
        })
    }

    pub(super) fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        let mut stream = self.receive.stream.lock();
        let before = buf.len();
        while buf.len() - before < READ {
            match self.receive.poll(stream.read_chunk(READ, true)) {
                Some(Ok(Some(chunk))) => buf.extend_from_slice(&chunk.bytes),
                // The end, or what comes of it: now, or at the next call.
                Some(_) if buf.len() > before => break,
                Some(Ok(None)) => return Ok(0),
                Some(Err(ReadError::ConnectionLost(ConnectionError::ApplicationClosed(_)))) => return Ok(0),
                Some(Err(ReadError::ConnectionLost(error))) => return Err(lost(error)),
                Some(Err(error)) => return Err(io::Error::other(error)),
                None if buf.len() > before => break,
                None => return Err(io::ErrorKind::WouldBlock.into()),
            }
        }
        Ok(buf.len() - before)
    }

    pub(super) fn try_write(
        &self,
        out: &mut VecDeque<Bytes>,
        mut progress: impl FnMut(usize),
    ) -> io::Result<bool> {
        let mut sender = self.send.stream.lock();
        while !out.is_empty() {
            let parts = out.len().min(PARTS);
            let written = self.send.poll(sender.stream.write_chunks(&mut out.make_contiguous()[..parts]));
            match written {
                // A part that was written to its middle begins there now.
                Some(Ok(written)) => {
                    out.drain(..written.chunks);
                    progress(written.bytes);
                }
                Some(Err(WriteError::ConnectionLost(error))) => return Err(lost(error)),
                Some(Err(error)) => return Err(io::Error::other(error)),
                None if self.widen() => {}
                None => {
                    self.full.store(true, Ordering::Release);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    pub(super) fn set_room(&self, bytes: u32) {
        self.room.store(bytes, Ordering::Relaxed);
    }

    /// Lets as much be written as the network takes, and the room behind it: whether that is more than
    /// before. What is written and waits goes out in order, in front of what is more urgent.
    fn widen(&self) -> bool {
        let congestion = self.connection.stats().path.cwnd;
        let wanted = congestion.saturating_add(self.room.load(Ordering::Relaxed).into());
        let told = self.window.load(Ordering::Relaxed);
        // Each word to the connection wakes it.
        if wanted > told.saturating_add(told / 4) || wanted < told / 2 {
            self.window.store(wanted, Ordering::Relaxed);
            self.connection.set_send_window(wanted);
        }
        wanted > told.saturating_add(told / 4)
    }

    pub(super) async fn readable(&self) {
        self.receive.signal.0.notified().await;
    }

    pub(super) async fn writable(&self) {
        // Who stops for another reason than a full stream is not woken by it.
        if self.full.swap(false, Ordering::AcqRel) {
            self.send.signal.0.notified().await;
        }
    }

    /// Nothing more will be written: whether everything has arrived.
    pub(super) fn is_delivered(&self) -> bool {
        let mut sender = self.send.stream.lock();
        sender.finish();
        self.send.poll(sender.stream.stopped()).is_some()
    }

    /// Ends the connection when everything has arrived, or soon.
    pub(super) fn close(&self) {
        let stopped = {
            let mut sender = self.send.stream.lock();
            sender.finish();
            sender.stream.stopped()
        };
        let connection = self.connection.clone();
        self.runtime.spawn(async move {
            // Whether it has arrived changes nothing any more.
            let _ = timeout(LINGER, stopped).await;
            connection.close(VarInt::from_u32(0), b"");
        });
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) const fn expires(&self) -> Option<Duration> {
        self.expires
    }

    pub(super) fn ends(&self) -> Ends {
        self.ends.clone()
    }
}

fn open(target: &Target, link: &Link, peer: SocketAddr) -> io::Result<Endpoint> {
    let socket = udp::new_socket(target, link, peer)?;
    let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    socket.bind(&target.options.bind.unwrap_or(SocketAddr::new(any, 0)).into())?;
    Endpoint::new(endpoint_config(), None, socket.into(), Arc::new(TokioRuntime))
}

fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    // It is within what the protocol allows.
    let _ = config.max_udp_payload_size(MAX_DATAGRAM);
    config
}

fn transport(accepts: bool) -> TransportConfig {
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(MAX_DATAGRAM);
    let mut config = TransportConfig::default();
    config
        // The lease of Zenoh says when somebody is gone.
        .max_idle_timeout(None)
        .max_concurrent_bidi_streams(VarInt::from_u32(accepts.into()))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        .mtu_discovery_config(Some(mtu));
    config
}

/// Why a connection has ended. Certificates of those who connect are looked at when the connection
/// works for them already.
fn lost(error: ConnectionError) -> io::Error {
    match refused(&error, "") {
        ConnectReason::Tls(failure) => io::Error::other(failure),
        _ => io::Error::other(error),
    }
}

fn unusable(error: impl ToString) -> ConnectReason {
    ConnectReason::Tls(TlsFailure::Protocol(error.to_string()))
}

/// Why there is no connection. QUIC has an error code for each alert of TLS, and where it was ours the
/// reason in words.
fn refused(error: &ConnectionError, expected: &str) -> ConnectReason {
    const ALERTS: core::ops::RangeInclusive<u64> = 0x100..=0x1ff;
    let alert = |code: u64| {
        #[allow(clippy::cast_possible_truncation, reason = "the alert is the low byte")]
        ALERTS.contains(&code).then(|| AlertDescription::from(code as u8))
    };
    let failure = match error {
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code.into()) {
            Some(alert) => TlsFailure::from(&rustls::Error::AlertReceived(alert)),
            None => TlsFailure::Refused(close.to_string()),
        },
        ConnectionError::TransportError(ours) => match alert(ours.code.into()) {
            Some(alert) => complaint(alert, &ours.reason, expected),
            None => TlsFailure::Protocol(ours.to_string()),
        },
        ConnectionError::ApplicationClosed(_) | ConnectionError::Reset => TlsFailure::Closed,
        other => return ConnectReason::io(io::Error::other(other.clone())),
    };
    ConnectReason::Tls(failure)
}

/// What we have against the other side.
fn complaint(alert: AlertDescription, reason: &str, expected: &str) -> TlsFailure {
    match alert {
        AlertDescription::CertificateExpired if reason.contains("not valid yet") => TlsFailure::NotYetValid,
        AlertDescription::CertificateExpired => TlsFailure::Expired,
        AlertDescription::UnknownCA => TlsFailure::UnknownAuthority,
        AlertDescription::CertificateRequired => TlsFailure::NoCertificate,
        _ if reason.contains("not valid for name") => {
            let presented = reason.split_once("only valid for ").map_or("nobody", |(_, names)| names);
            TlsFailure::Name { expected: expected.to_owned(), presented: presented.to_owned() }
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked => TlsFailure::Certificate(reason.to_owned()),
        _ => TlsFailure::Protocol(reason.to_owned()),
    }
}

/// Takes connections in.
pub(crate) struct Listener {
    endpoint: Endpoint,
    local: SocketAddr,
    settings: Arc<TlsSettings>,
}

impl Listener {
    pub(super) async fn bind(target: &Target, link: &Link) -> Result<Self, ConnectReason> {
        let settings = link.tls_at(&target.options);
        let mut tls = server_config(&settings)?;
        tls.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
        // QUIC has other tickets, and knows no older version.
        let tls = QuicServerConfig::try_from(tls).map_err(unusable)?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(transport(true))).max_incoming(MAX_INCOMING);
        let settings = Arc::new(settings);
        let mut last = ConnectReason::Unresolved;
        for address in resolve(target.endpoint.address()).await? {
            let bound = udp::bind(target, link, address).and_then(|socket| {
                let runtime = Arc::new(TokioRuntime);
                Endpoint::new(endpoint_config(), Some(config.clone()), socket.into(), runtime)
            });
            match bound.and_then(|endpoint| Ok((endpoint.local_addr()?, endpoint))) {
                Ok((local, endpoint)) => return Ok(Self { endpoint, local, settings }),
                Err(error) => last = ConnectReason::io(error),
            }
        }
        Err(last)
    }

    pub(super) const fn port(&self) -> u16 {
        self.local.port()
    }

    pub(super) fn guard(&self) -> Guard {
        Guard { birth: Birth::here(), endpoint: Some(self.endpoint.clone()) }
    }

    pub(super) async fn accept(&self) -> io::Result<Incoming> {
        let closed = || io::Error::other("the endpoint is closed");
        let incoming = self.endpoint.accept().await.ok_or_else(closed)?;
        Ok(Incoming { incoming, port: self.local.port(), settings: self.settings.clone() })
    }
}

/// Gives the port back when it is dropped: a connection that is over keeps it a while, so that its end
/// can be told again.
pub(crate) struct Guard {
    birth: Birth,
    endpoint: Option<Endpoint>,
}

/// That while is three times the time after which something counts as lost.
const PORT_LINGER: Duration = Duration::from_millis(500);

impl Drop for Guard {
    fn drop(&mut self) {
        // In a forked child the endpoint is still its parent's, and has no thread.
        let Some(endpoint) = self.endpoint.take() else { return };
        if !self.birth.is_here() {
            core::mem::forget(endpoint);
            return;
        }
        endpoint.close(VarInt::from_u32(0), b"");
        let end = clock::mono() + PORT_LINGER;
        while endpoint.open_connections() > 0 && clock::mono() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Somebody who has said a first word of QUIC.
pub(crate) struct Incoming {
    incoming: quinn::Incoming,
    port: u16,
    settings: Arc<TlsSettings>,
}

impl Incoming {
    pub(super) fn peer(&self) -> SocketAddr {
        self.incoming.remote_address()
    }

    pub(super) async fn ready(self) -> Result<Stream, ConnectReason> {
        let refused = |error: ConnectionError| refused(&error, "");
        let connection = self.incoming.await.map_err(refused)?;
        // It is there with the first batch.
        let streams = connection.accept_bi().await.map_err(refused)?;
        Stream::new(connection, streams, self.port, &self.settings)
    }
}
