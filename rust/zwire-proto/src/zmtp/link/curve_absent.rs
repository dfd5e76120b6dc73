//! CURVE in a build without the feature `curve`: types without values. No side can be configured for the
//! mechanism, so that a peer that announces it is refused like one with an unknown mechanism.

use super::{ZmtpHandshakeConfig, ZmtpHandshakeError, ZmtpLinkError, handshake::MechanismResult};
use crate::buf::Sink;
use bytes::Bytes;

/// Keys of a client; needs the feature `curve`.
#[derive(Clone, Debug)]
pub enum CurveClient {}

impl CurveClient {
    /// Replaces the random parts for another connection.
    pub fn renew(&mut self, _random: &[u8; 48]) {
        match *self {}
    }
}

/// Keys of a server; needs the feature `curve`.
#[derive(Clone, Debug)]
pub enum CurveServer {}

impl CurveServer {
    /// Replaces the random parts for another connection.
    pub fn renew(&mut self, _random: &[u8; 96]) {
        match *self {}
    }
}

#[derive(Debug)]
pub(super) enum CurveClientSide {}

impl CurveClientSide {
    pub(super) fn start(given: &CurveClient, _out: &mut Vec<u8>) -> Result<Box<Self>, ZmtpHandshakeError> {
        match *given {}
    }

    pub(super) fn handle_command(
        &mut self,
        _body: &Bytes,
        _config: &ZmtpHandshakeConfig,
        _out: &mut Vec<u8>,
    ) -> MechanismResult {
        match *self {}
    }
}

#[derive(Debug)]
pub(super) enum CurveServerSide {}

impl CurveServerSide {
    pub(super) fn start(given: &CurveServer) -> Box<Self> {
        match *given {}
    }

    pub(super) fn handle_command(
        &mut self,
        _body: &Bytes,
        _config: &ZmtpHandshakeConfig,
        _out: &mut Vec<u8>,
    ) -> MechanismResult {
        match *self {}
    }

    pub(super) fn allow(&mut self, _config: &ZmtpHandshakeConfig) -> MechanismResult {
        match *self {}
    }
}

/// Keys of a connection.
#[derive(Clone, Debug)]
pub(super) enum CurveSession {}

impl CurveSession {
    pub(super) fn sealer(&self) -> Sealer {
        match *self {}
    }

    pub(super) fn opener(&self) -> CurveOpener {
        match *self {}
    }
}

/// Seals frames in boxes.
#[derive(Debug)]
pub(super) enum Sealer {}

impl Sealer {
    pub(super) fn put(&mut self, _sink: &mut impl Sink, _flags: u8, _body: &[u8]) {
        match *self {}
    }
}

/// Opens boxes.
#[derive(Debug)]
pub(super) enum CurveOpener {}

impl CurveOpener {
    pub(super) fn open(&mut self, _body: &Bytes) -> Result<Opened, ZmtpLinkError> {
        match *self {}
    }
}

/// Frame taken out of its box.
pub(super) struct Opened {
    pub(super) more: bool,
    pub(super) command: bool,
    pub(super) body: Bytes,
}
