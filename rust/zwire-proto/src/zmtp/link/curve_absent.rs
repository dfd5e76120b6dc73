//! CURVE in a build without the feature `curve`: one type without values stands for its keys, sides,
//! sessions and boxes. No side can be configured for the mechanism, so that a peer that announces it is
//! refused like one with an unknown mechanism.

use super::{ZmtpHandshakeConfig, ZmtpHandshakeError, ZmtpLinkError, handshake::MechanismResult};
use crate::buf::Sink;
use bytes::Bytes;

/// Stands for a type of CURVE; needs the feature `curve`.
#[derive(Clone, Debug)]
pub enum Absent {}

pub use Absent as CurveClient;
pub(super) use Absent as CurveClientSide;
pub(super) use Absent as CurveOpener;
pub use Absent as CurveServer;
pub(super) use Absent as CurveServerSide;
pub(super) use Absent as CurveSession;
pub(super) use Absent as Sealer;

impl Absent {
    /// Replaces the random parts for another connection.
    pub fn renew<const N: usize>(&mut self, _random: &[u8; N]) {
        match *self {}
    }

    pub(super) fn new(given: &Self) -> Box<Self> {
        match *given {}
    }

    pub(super) fn start(given: &Self, _out: &mut Vec<u8>) -> Result<Box<Self>, ZmtpHandshakeError> {
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

    pub(super) fn sealer(&self) -> Self {
        match *self {}
    }

    pub(super) fn opener(&self) -> Self {
        match *self {}
    }

    pub(super) fn put(&mut self, _sink: &mut impl Sink, _flags: u8, _body: &[u8]) {
        match *self {}
    }

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
