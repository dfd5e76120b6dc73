//! QUIC without encryption: `udp/<address>?rel=1`, compatible with eclipse-zenoh.
//!
//! The TLS handshake takes place, with empty certificates that are not verified. Packets are sent without
//! packet protection: no tag, and readable headers.

use bytes::BytesMut;
use quinn::{
    ConnectError, ConnectionId, Side,
    crypto::{
        ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
        ServerConfig, Session, UnsupportedVersion,
        rustls::{QuicClientConfig, QuicServerConfig},
    },
};
use quinn_proto::{TransportError, transport_parameters::TransportParameters};
use std::{any::Any, sync::Arc};

/// Null cipher in place of every key.
struct Clear;

impl PacketKey for Clear {
    fn encrypt(&self, _packet: u64, _buf: &mut [u8], _header_len: usize) {}
    fn decrypt(&self, _packet: u64, _header: &[u8], _payload: &mut BytesMut) -> Result<(), CryptoError> {
        Ok(())
    }
    fn tag_len(&self) -> usize {
        0
    }
    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }
    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for Clear {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}
    fn sample_size(&self) -> usize {
        0
    }
}

fn packets() -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(Clear), remote: Box::new(Clear) }
}

fn keys() -> Keys {
    Keys { header: KeyPair { local: Box::new(Clear), remote: Box::new(Clear) }, packet: packets() }
}

/// Session that performs the usual handshake but does not use its keys.
struct Plain(Box<dyn Session>);

impl Session for Plain {
    fn initial_keys(&self, _dst_cid: &ConnectionId, _side: Side) -> Keys {
        keys()
    }
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.0.handshake_data()
    }
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.0.peer_identity()
    }
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        // Without resumption there is no early data.
        None
    }
    fn early_data_accepted(&self) -> Option<bool> {
        self.0.early_data_accepted()
    }
    fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }
    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.0.read_handshake(buf)
    }
    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.0.transport_parameters()
    }
    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        self.0.write_handshake(buf).map(|_| keys())
    }
    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.0.next_1rtt_keys().map(|_| packets())
    }
    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.0.is_valid_retry(orig_dst_cid, header, payload)
    }
    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.0.export_keying_material(output, label, context)
    }
}

/// Configuration of the connecting side.
pub(super) struct PlainClient(pub(super) Arc<QuicClientConfig>);

impl ClientConfig for PlainClient {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let session = self.0.clone().start_session(version, server_name, params)?;
        Ok(Box::new(Plain(session)))
    }
}

/// Configuration of the listening side.
pub(super) struct PlainServer(pub(super) Arc<QuicServerConfig>);

impl ServerConfig for PlainServer {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        // The inner configuration knows the supported versions.
        self.0.initial_keys(version, dst_cid).map(|_| keys())
    }
    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.0.retry_tag(version, orig_dst_cid, packet)
    }
    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(Plain(self.0.clone().start_session(version, params)))
    }
}
