//! Traffic under CURVE: each frame in a box of its own (`zmtp` 6.3, MESSAGE).

use super::LinkError;
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
pub(crate) const INITIATE: &[u8; 16] = b"CurveZMQINITIATE";
pub(crate) const READY: &[u8; 16] = b"CurveZMQREADY---";
pub(crate) const WELCOME: &[u8; 8] = b"WELCOME-";

const OF_CLIENT: &[u8; 16] = b"CurveZMQMESSAGEC";
const OF_SERVER: &[u8; 16] = b"CurveZMQMESSAGES";

/// A nonce of 24 bytes: the purpose and a counter.
pub(crate) fn short_nonce(purpose: &[u8; 16], count: u64) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(purpose);
    nonce[16..].copy_from_slice(&count.to_be_bytes());
    nonce
}

/// A nonce of 24 bytes: the purpose and 16 random bytes.
pub(crate) fn long_nonce(purpose: &[u8; 8], random: &[u8; 16]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(purpose);
    nonce[8..].copy_from_slice(random);
    nonce
}

/// Result of a handshake: the key between C' and S', and the last short nonce of each side.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) key: SharedKey,
    pub(crate) server: bool,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Session {
    pub(super) fn sealer(&self) -> Sealer {
        let purpose = if self.server { OF_SERVER } else { OF_CLIENT };
        Sealer { key: self.key.clone(), purpose, last: self.sent }
    }

    pub(crate) fn opener(&self) -> Opener {
        let purpose = if self.server { OF_CLIENT } else { OF_SERVER };
        Opener { key: self.key.clone(), purpose, last: self.received }
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
        curve::Message { nonce: self.last, sealed }.encode_frame(sink);
    }
}

/// Opens boxes.
#[derive(Debug)]
pub(crate) struct Opener {
    key: SharedKey,
    purpose: &'static [u8; 16],
    last: u64,
}

/// A frame taken out of its box.
pub(crate) struct Opened {
    pub(crate) more: bool,
    pub(crate) command: bool,
    pub(crate) body: Bytes,
}

impl Opener {
    pub(crate) fn open(&mut self, body: &Bytes) -> Result<Opened, LinkError> {
        let message = curve::Message::decode(body)?;
        // "The receiver rejects a value not greater than the last"; gaps are allowed.
        if message.nonce <= self.last {
            return Err(LinkError::Nonce { got: message.nonce, last: self.last });
        }
        let nonce = short_nonce(self.purpose, message.nonce);
        let opened = self.key.open(&nonce, &message.sealed).ok_or(LinkError::Sealed)?;
        self.last = message.nonce;
        let body = Bytes::from(opened);
        // A MESSAGE decodes only if its box has room for the flags.
        let flags = body.first().copied().unwrap_or_default();
        let (more, command) = (flags & curve::Message::MORE != 0, flags & curve::Message::COMMAND != 0);
        if flags & !(curve::Message::MORE | curve::Message::COMMAND) != 0 || (more && command) {
            return Err(LinkError::SealedFlags { flags });
        }
        Ok(Opened { more, command, body: body.slice(1..) })
    }
}
