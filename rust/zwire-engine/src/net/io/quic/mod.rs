//! QUIC: `quic/<host>:<port>` (`zenoh-behaviour` 1.2, 7.1). A bidirectional stream carries the batches,
//! framed as on any stream; options add [more streams](streams), or [datagrams]. `udp/<address>?rel=1` is
//! the same [without encryption](plain).
//!
//! Connections are polled like non-blocking sockets: when an operation becomes possible, the waiting task
//! is woken.

mod datagrams;
mod offer;
mod plain;
mod refusal;
mod streams;

use super::{
    transport::{DATAGRAMS, Ends, Transport, Ways, is_quic},
    udp,
};
use crate::{
    config::{LinkConfig, Target, TlsSettings},
    error::ConnectReason,
    net::{
        tcp::{first, resolve},
        tls::{anonymous_client, anonymous_server, client_config, identity, server_config, server_name},
    },
    rt::{clock, runtime::Birth},
};
use bytes::{Bytes, BytesMut};
use core::{future::pending, time::Duration};
use datagrams::Datagrams;
use offer::Offer;
use plain::{PlainClient, PlainServer};
use quinn::{
    Connection, ConnectionError, Endpoint, EndpointConfig, MtuDiscoveryConfig, Side, TokioRuntime,
    TransportConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use refusal::{misfit, refused, unusable};
use rustls::pki_types::CertificateDer;
use socket2::Socket;
use std::{collections::VecDeque, io, net::SocketAddr, sync::Arc};
use streams::{End, SEND_WINDOW, Streams};
use tokio::{runtime::Handle, time::timeout};

/// Protocol name in endpoints.
pub(super) const PROTOCOL: &str = "quic";

/// Protocol name in endpoints of links without encryption.
const PLAIN: &str = "udp";

/// Bytes that the other side may send ahead on one stream: 64 ms of 1 Gbit/s. All streams together have twice as
/// much, so that one that is stuck leaves room for the others.
const RECEIVE_WINDOW: u32 = 8 << 20;

/// Bytes that the other side may send ahead on all streams before it is authenticated.
const STRANGERS_WINDOW: u32 = 128 * 1024;

/// Largest datagram that is probed. Ten are sent in one system call, which takes at most 65,507 bytes: larger ones
/// would be lost in it, as if the network carried only the smallest.
const MAX_DATAGRAM: u16 = 65_507 / 10;

/// Time by which a connection outlives its link, for data on the way.
const LINGER: Duration = Duration::from_secs(1);

/// Interval at which a lingering connection checks whether its datagrams are sent.
const LOOK: Duration = Duration::from_millis(1);

/// Most incoming connections that wait to be accepted.
const MAX_INCOMING: usize = 1024;

pub(crate) struct QuicStream {
    connection: Connection,
    streams: Option<Streams>,
    datagrams: Option<Datagrams>,
    ends: Ends,
    expires: Option<Duration>,
    /// Common name in the certificate of the other side.
    name: Option<String>,
    runtime: Handle,
}

impl QuicStream {
    /// Connects to the first address of `target` that answers.
    pub(super) async fn connect(target: &Target, link: &LinkConfig) -> Result<Self, ConnectReason> {
        let plain = is_quic(target);
        let settings = if plain { TlsSettings::default() } else { link.tls_at(&target.options) };
        let name = server_name(target.endpoint.address())?;
        let offer = Offer::of(&target.options);
        let mut tls = if plain { anonymous_client()? } else { client_config(&settings)? };
        tls.alpn_protocols = offer.names();
        let tls = Arc::new(QuicClientConfig::try_from(tls).map_err(unusable)?);
        let mut config = quinn::ClientConfig::new(if plain { Arc::new(PlainClient(tls)) } else { tls });
        config.transport_config(Arc::new(transport(target, offer, false)));
        let mut last = ConnectReason::Unresolved;
        for peer in resolve(target.endpoint.address()).await? {
            let endpoint = endpoint(udp::outgoing(target, link, peer), None).map_err(ConnectReason::io)?;
            let connecting = endpoint.connect_with(config.clone(), peer, &name.to_str());
            match connecting.map_err(unusable)?.await {
                Ok(connection) => {
                    let port = endpoint.local_addr().map_err(ConnectReason::io)?.port();
                    let protocol = if plain { PLAIN } else { PROTOCOL };
                    return Self::new(connection, (protocol, offer), port, &settings).await;
                }
                Err(error) => last = refused(&error, &name.to_str()),
            }
        }
        Err(last)
    }

    async fn new(
        connection: Connection,
        (protocol, offer): (&str, Offer),
        port: u16,
        settings: &TlsSettings,
    ) -> Result<Self, ConnectReason> {
        let peer = connection.remote_address();
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        // Where the system does not report the local address of datagrams, only the family is known.
        let local = connection.local_ip().map_or(udp::unspecified(peer), |ip| ip.to_canonical());
        let chain = connection.peer_identity().and_then(|chain| chain.downcast().ok());
        let chain: Vec<CertificateDer<'static>> = chain.map(|chain| *chain).unwrap_or_default();
        let (name, expires) = identity(chain.iter().map(AsRef::as_ref), settings);
        let (streams, datagrams) = Self::ways_of(&connection, offer).await?;
        Ok(Self {
            ends: Ends::of_addresses(protocol, SocketAddr::new(local, port), peer),
            connection,
            streams,
            datagrams,
            expires,
            name,
            runtime: Handle::current(),
        })
    }

    /// Ways that both sides have agreed on.
    async fn ways_of(
        connection: &Connection,
        offer: Offer,
    ) -> Result<(Option<Streams>, Option<Datagrams>), ConnectReason> {
        let refused = |error: ConnectionError| refused(&error, "");
        let no_streams = || {
            let words = "it takes no streams: is its endpoint one with rel=0?";
            misfit(connection, words, "it takes streams only: its endpoint is without rel=0")
        };
        let no_datagrams = || {
            let words = "it takes no datagrams: is its endpoint without rel=0?";
            misfit(connection, words, "it takes no streams: its endpoint is one with rel=0")
        };
        let shape = offer.agreed(connection);
        let datagrams = if shape.datagrams {
            let most = if shape.streams { datagrams::MIXED_MTU } else { datagrams::MTU };
            let datagrams = Datagrams::new(connection, most);
            Some(datagrams.ok_or_else(no_datagrams)?)
        } else {
            None
        };
        if !shape.streams {
            return Ok((None, datagrams));
        }
        let first = match connection.side() {
            Side::Client => {
                // Possible at once, unless the other side allows no streams.
                let opened = timeout(Duration::ZERO, connection.open_bi()).await;
                opened.map_err(|_| no_streams())?
            }
            // The peer opens it with the first batch.
            Side::Server => connection.accept_bi().await,
        };
        let first = first.map_err(refused)?;
        let streams = Streams::new(connection, first, shape.multistream, shape.datagrams);
        let streams = streams.map_err(refused)?.ok_or_else(no_streams)?;
        Ok((Some(streams), datagrams))
    }
}

impl Transport for QuicStream {
    fn ways(&self) -> Option<Ways> {
        let streams = self.streams.as_ref()?;
        let best_effort = self.datagrams.as_ref().map(Datagrams::mtu);
        let by_priority = streams.is_multistream();
        (by_priority || best_effort.is_some()).then_some(Ways { by_priority, best_effort })
    }

    /// Whether batches are sent on streams, which are reliable.
    fn is_streamed(&self) -> bool {
        self.streams.is_some()
    }

    fn is_reliable(&self) -> bool {
        self.is_streamed()
    }

    fn mtu(&self) -> u16 {
        match (&self.streams, &self.datagrams) {
            (None, Some(datagrams)) => datagrams.mtu(),
            _ => u16::MAX,
        }
    }

    fn set_open(&self, low_latency: bool) {
        if let Some(streams) = &self.streams {
            let times = if streams.is_multistream() { 2 } else { 1 };
            self.connection.set_receive_window(VarInt::from_u32(times * RECEIVE_WINDOW));
            if low_latency {
                streams.set_low_latency();
            }
            streams.open();
        } else if let Some(datagrams) = &self.datagrams {
            datagrams.set_low_latency(low_latency);
        }
    }

    fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        let before = buf.len();
        let mut end = self.streams.as_ref().map(|streams| streams.read(buf));
        if let Some(datagrams) = &self.datagrams
            && self.streams.as_ref().is_none_or(Streams::is_open)
        {
            let last = datagrams.read(buf);
            end.get_or_insert(last);
        }
        match end {
            _ if buf.len() > before => Ok(buf.len() - before),
            Some(End::Closed) => Ok(0),
            Some(End::Lost(error)) => Err(error),
            Some(End::Open) | None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn try_write(&self, out: &mut VecDeque<Bytes>, progress: impl FnMut(usize)) -> io::Result<bool> {
        let way = if self.streams.is_some() { 0 } else { DATAGRAMS };
        self.try_write_at(way, out, progress)
    }

    fn try_write_at(
        &self,
        way: usize,
        out: &mut VecDeque<Bytes>,
        progress: impl FnMut(usize),
    ) -> io::Result<bool> {
        match (&self.streams, &self.datagrams) {
            (_, Some(datagrams)) if way == DATAGRAMS => datagrams.write(out, progress),
            (Some(streams), _) => streams.write(way, out, progress),
            (None, _) => Ok(true),
        }
    }

    fn last_way(&self) -> usize {
        self.streams.as_ref().map_or(DATAGRAMS, Streams::last)
    }

    /// Makes the next batch, which ends the link, wait for all others.
    fn hold(&self) {
        if let Some(streams) = &self.streams {
            streams.hold();
        }
    }

    fn set_room(&self, bytes: u32) {
        if let Some(streams) = &self.streams {
            streams.set_room(bytes);
        }
    }

    async fn readable(&self) -> io::Result<()> {
        let streams = async {
            match &self.streams {
                Some(streams) => streams.readable().await,
                None => pending().await,
            }
        };
        let datagrams = async {
            match &self.datagrams {
                Some(datagrams) if self.streams.as_ref().is_none_or(Streams::is_open) => {
                    datagrams.readable().await;
                }
                _ => pending().await,
            }
        };
        tokio::select! {
            () = streams => {}
            () = datagrams => {}
        }
        Ok(())
    }

    async fn writable(&self) -> io::Result<()> {
        let full = self.streams.as_ref().filter(|streams| streams.take_full());
        let held = self.datagrams.as_ref().and_then(|datagrams| Some((datagrams, datagrams.held()?)));
        // A writer that stopped for another reason than missing room is not woken here.
        match (full, held) {
            (None, None) => {}
            (Some(streams), None) => streams.sending.signal.raised().await,
            (None, Some((datagrams, held))) => datagrams.send_held(held).await,
            (Some(streams), Some((datagrams, held))) => tokio::select! {
                () = streams.sending.signal.raised() => {}
                () = datagrams.send_held(held) => {}
            },
        }
        Ok(())
    }

    /// Whether everything written has arrived, or was sent where arrival is not reported.
    fn is_delivered(&self) -> bool {
        self.streams.as_ref().is_none_or(Streams::is_delivered)
            && self.datagrams.as_ref().is_none_or(Datagrams::are_sent)
    }

    /// Ends the connection when everything has arrived, or after a short time.
    fn close(&self) {
        let stopped = self.streams.as_ref().map(Streams::finish);
        let connection = self.connection.clone();
        self.runtime.spawn(async move {
            let end = async {
                match stopped {
                    Some(stopped) => stopped.await,
                    None => {
                        while connection.datagram_send_buffer_space() < datagrams::SEND_BUFFER {
                            tokio::time::sleep(LOOK).await;
                        }
                    }
                }
            };
            let _ = timeout(LINGER, end).await;
            connection.close(VarInt::from_u32(0), b"");
        });
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn expires(&self) -> Option<Duration> {
        self.expires
    }

    fn ends(&self) -> io::Result<Ends> {
        Ok(self.ends.clone())
    }
}

/// Endpoint of a socket, which accepts connections if `server` is given.
fn endpoint(socket: io::Result<Socket>, server: Option<quinn::ServerConfig>) -> io::Result<Endpoint> {
    let mut config = EndpointConfig::default();
    // The value is within the limits of the protocol.
    let _ = config.max_udp_payload_size(MAX_DATAGRAM);
    Endpoint::new(config, server, socket?.into(), Arc::new(TokioRuntime))
}

fn transport(target: &Target, offer: Offer, accepts: bool) -> TransportConfig {
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(MAX_DATAGRAM);
    if let Some(interval) = target.options.mtu_discovery_interval {
        mtu.interval(interval);
    }
    let mut config = TransportConfig::default();
    let two_ways = u32::from(accepts && offer.has_streams());
    let one_way = offer.streams_of_one_direction();
    config
        // The Zenoh lease detects dead peers.
        .max_idle_timeout(None)
        .max_concurrent_bidi_streams(VarInt::from_u32(two_ways))
        .max_concurrent_uni_streams(VarInt::from_u32(one_way))
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .receive_window(VarInt::from_u32(STRANGERS_WINDOW))
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(offer.has_datagrams().then_some(datagrams::RECEIVE_BUFFER))
        .datagram_send_buffer_size(datagrams::SEND_BUFFER)
        .mtu_discovery_config(Some(mtu));
    if let Some(mtu) = target.options.initial_mtu {
        config.initial_mtu(mtu.min(MAX_DATAGRAM));
    }
    config
}

/// Listener for QUIC connections.
pub(crate) struct QuicListener {
    endpoint: Endpoint,
    local: SocketAddr,
    protocol: &'static str,
    offer: Offer,
    settings: Arc<TlsSettings>,
}

impl QuicListener {
    pub(super) async fn bind(target: &Target, link: &LinkConfig) -> Result<Self, ConnectReason> {
        let plain = is_quic(target);
        let settings = if plain { TlsSettings::default() } else { link.tls_at(&target.options) };
        let offer = Offer::of(&target.options);
        let mut tls = if plain { anonymous_server()? } else { server_config(&settings)? };
        tls.alpn_protocols = offer.names();
        // QUIC has session tickets of its own, and only TLS 1.3.
        let tls = Arc::new(QuicServerConfig::try_from(tls).map_err(unusable)?);
        let mut config =
            quinn::ServerConfig::with_crypto(if plain { Arc::new(PlainServer(tls)) } else { tls });
        config.transport_config(Arc::new(transport(target, offer, true))).max_incoming(MAX_INCOMING);
        let settings = Arc::new(settings);
        let protocol = if plain { PLAIN } else { PROTOCOL };
        let bound = first(target, |address| {
            let endpoint = endpoint(udp::bind(target, link, address), Some(config.clone()))?;
            Ok((endpoint.local_addr()?, endpoint))
        });
        let (local, endpoint) = bound.await?;
        Ok(Self { endpoint, local, protocol, offer, settings })
    }

    pub(super) const fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn guard(&self) -> QuicPort {
        QuicPort { birth: Birth::here(), endpoint: Some(self.endpoint.clone()) }
    }

    pub(super) async fn accept(&self) -> io::Result<QuicIncoming> {
        let closed = || io::Error::other("the endpoint is closed");
        let incoming = self.endpoint.accept().await.ok_or_else(closed)?;
        Ok(QuicIncoming {
            incoming,
            port: self.local.port(),
            kind: (self.protocol, self.offer),
            settings: self.settings.clone(),
        })
    }
}

/// Releases the port when it is dropped: an ended connection keeps it for a while, to repeat its close.
pub(crate) struct QuicPort {
    birth: Birth,
    endpoint: Option<Endpoint>,
}

/// Longest wait for the draining period of closed connections, which is three probe timeouts.
const PORT_LINGER: Duration = Duration::from_millis(500);

impl Drop for QuicPort {
    fn drop(&mut self) {
        // In a forked child the endpoint belongs to its parent, and has no thread.
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

/// An incoming connection before its handshake.
pub(crate) struct QuicIncoming {
    incoming: quinn::Incoming,
    port: u16,
    kind: (&'static str, Offer),
    settings: Arc<TlsSettings>,
}

impl QuicIncoming {
    pub(super) fn peer(&self) -> SocketAddr {
        self.incoming.remote_address()
    }

    pub(super) async fn ready(self) -> Result<QuicStream, ConnectReason> {
        let refused = |error: ConnectionError| refused(&error, "");
        let connection = self.incoming.await.map_err(refused)?;
        QuicStream::new(connection, self.kind, self.port, &self.settings).await
    }
}
