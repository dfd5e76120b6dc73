//! Traffic under CURVE: each frame in a box of its own (`zmtp` 6.3, MESSAGE).

use super::ZmtpLinkError;
use crate::{
    buf::Sink,
    zmtp::{
        crypto::SharedKey,
        wire::{Command, curve},
    },
};
use bytes::Bytes;

/// Purposes of the boxes of the handshake, the fixed part of their nonces.
pub(super) const HELLO: &[u8; 16] = b"CurveZMQHELLO---";
/// Purpose of the nonce of INITIATE.
pub const INITIATE: &[u8; 16] = b"CurveZMQINITIATE";
/// Purpose of the nonce of READY.
pub const READY: &[u8; 16] = b"CurveZMQREADY---";
/// Purpose of the nonce of WELCOME.
pub const WELCOME: &[u8; 8] = b"WELCOME-";

const OF_CLIENT: &[u8; 16] = b"CurveZMQMESSAGEC";
const OF_SERVER: &[u8; 16] = b"CurveZMQMESSAGES";

/// A nonce of 24 bytes: its purpose and a count.
#[must_use]
pub fn short_nonce(purpose: &[u8; 16], count: u64) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(purpose);
    nonce[16..].copy_from_slice(&count.to_be_bytes());
    nonce
}

/// A nonce of 24 bytes: its purpose and 16 random bytes.
#[must_use]
pub fn long_nonce(purpose: &[u8; 8], random: &[u8; 16]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(purpose);
    nonce[8..].copy_from_slice(random);
    nonce
}

/// Result of a handshake: the key between C' and S', and the last short nonce of each side.
#[derive(Clone, Debug)]
pub(super) struct CurveSession {
    pub(super) key: SharedKey,
    pub(super) server: bool,
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl CurveSession {
    pub(super) fn sealer(&self) -> Sealer {
        let purpose = if self.server { OF_SERVER } else { OF_CLIENT };
        Sealer { key: self.key.clone(), purpose, last: self.sent }
    }

    pub(super) fn opener(&self) -> CurveOpener {
        CurveOpener { last: self.received, ..CurveOpener::new(self.key.clone(), !self.server) }
    }
}

/// Seals frames in boxes.
#[derive(Debug)]
pub(super) struct Sealer {
    key: SharedKey,
    purpose: &'static [u8; 16],
    last: u64,
}

impl Sealer {
    /// Writes a sealed frame.
    pub(super) fn put(&mut self, sink: &mut impl Sink, flags: u8, body: &[u8]) {
        // A link never sends 2^64 frames, and overflow checks would panic.
        self.last += 1;
        let nonce = short_nonce(self.purpose, self.last);
        let sealed = self.key.seal(&nonce, &[&[flags], body]).into();
        curve::CurveMessage { nonce: self.last, sealed }.encode_frame(sink);
    }
}

/// Opens boxes.
#[derive(Debug)]
pub struct CurveOpener {
    key: SharedKey,
    purpose: &'static [u8; 16],
    last: u64,
}

/// A frame taken out of its box.
#[derive(Debug)]
pub struct Opened {
    /// Another frame of the message follows.
    pub more: bool,
    /// The frame is a command, not part of a message.
    pub command: bool,
    /// The bytes of the frame.
    pub body: Bytes,
}

impl CurveOpener {
    /// The opener of what one side sends, before its first box.
    #[must_use]
    pub const fn new(key: SharedKey, from_server: bool) -> Self {
        let purpose = if from_server { OF_SERVER } else { OF_CLIENT };
        Self { key, purpose, last: 0 }
    }

    /// Opens the body of a MESSAGE.
    ///
    /// # Errors
    /// The body is no MESSAGE, the box does not open with the key, its nonce was used before, or the flags
    /// in it mean nothing.
    pub fn open(&mut self, body: &Bytes) -> Result<Opened, ZmtpLinkError> {
        let message = curve::CurveMessage::decode(body)?;
        // "The receiver rejects a value not greater than the last"; gaps are allowed.
        if message.nonce <= self.last {
            return Err(ZmtpLinkError::Nonce { got: message.nonce, last: self.last });
        }
        let nonce = short_nonce(self.purpose, message.nonce);
        let opened = self.key.open(&nonce, &message.sealed).ok_or(ZmtpLinkError::Sealed)?;
        self.last = message.nonce;
        let body = Bytes::from(opened);
        // A MESSAGE decodes only if its box has room for the flags.
        let flags = body.first().copied().unwrap_or_default();
        let (more, command) =
            (flags & curve::CurveMessage::MORE != 0, flags & curve::CurveMessage::COMMAND != 0);
        if flags & !(curve::CurveMessage::MORE | curve::CurveMessage::COMMAND) != 0 || (more && command) {
            return Err(ZmtpLinkError::SealedFlags { flags });
        }
        Ok(Opened { more, command, body: body.slice(1..) })
    }
}
