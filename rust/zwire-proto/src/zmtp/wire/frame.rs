//! The head of a frame (`zmtp` 4).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |0 0 0 0 0|C|L|M|   C: command, L: long, M: more frames of the message follow
//! +---------+-+-+-+
//! ~     size      ~   one byte, or eight if L; of the body alone
//! +---------------+
//! ```

use crate::{
    buf::Sink,
    error::{DecodeError, DecodeErrorKind, Result},
};
use bytes::Bytes;

const MORE: u8 = 0x01;
const LONG: u8 = 0x02;
const COMMAND: u8 = 0x04;
const RESERVED: u8 = 0xf8;
/// The largest size that the long form may hold.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Head in front of the body of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Whether more frames of the same message follow.
    pub more: bool,
    /// Whether the body is a command; else it is a part of a message.
    pub command: bool,
    /// Length of the body. Memory must not be reserved for it before its bytes have arrived.
    pub len: u64,
}

impl FrameHead {
    /// Length of the longest head.
    pub const MAX_LEN: usize = 9;

    /// The head of a message's frame.
    #[must_use]
    pub const fn message(len: usize, more: bool) -> Self {
        Self { more, command: false, len: len as u64 }
    }

    /// The head of a command.
    #[must_use]
    pub const fn command(len: usize) -> Self {
        Self { more: false, command: true, len: len as u64 }
    }

    /// The head at the start of a stream and its length; `None` when more bytes are needed. The long
    /// form is accepted for every size.
    ///
    /// # Errors
    /// A reserved flag, a command with MORE, a size above 2^63-1. Reading cannot go on: there is no way
    /// to find the next frame.
    #[inline]
    pub fn decode(stream: &[u8]) -> Result<Option<(Self, usize)>> {
        let illegal = |reading, kind| Err(DecodeError { reading, offset: 0, kind });
        let Some((&flags, rest)) = stream.split_first() else { return Ok(None) };
        let (more, command) = (flags & MORE != 0, flags & COMMAND != 0);
        if flags & RESERVED != 0 || (more && command) {
            return illegal("frame flags", DecodeErrorKind::Illegal { value: flags.into() });
        }
        let (len, taken) = if flags & LONG == 0 {
            let Some(&len) = rest.first() else { return Ok(None) };
            (u64::from(len), 2)
        } else {
            let Some(len) = rest.first_chunk() else { return Ok(None) };
            (u64::from_be_bytes(*len), Self::MAX_LEN)
        };
        if len > MAX_SIZE {
            return illegal("frame size", DecodeErrorKind::OutOfRange { value: len, bound: MAX_SIZE });
        }
        Ok(Some((Self { more, command, len }, taken)))
    }

    /// Writes the head, in the short form up to 255 bytes.
    #[inline]
    pub fn encode(&self, sink: &mut impl Sink) {
        let flags = if self.more { MORE } else { 0 } | if self.command { COMMAND } else { 0 };
        match u8::try_from(self.len) {
            Ok(len) => sink.put(&[flags, len]),
            Err(_) => {
                let mut raw = [0; Self::MAX_LEN];
                raw[0] = flags | LONG;
                raw[1..].copy_from_slice(&self.len.to_be_bytes());
                sink.put(&raw);
            }
        }
    }
}

/// Writes a frame of a message.
#[inline]
pub fn put_frame(sink: &mut impl Sink, body: &Bytes, more: bool) {
    FrameHead::message(body.len(), more).encode(sink);
    sink.put_shared(body);
}

#[cfg(test)]
mod tests {
    use super::super::testing::unhex;
    use super::*;

    fn check(hex: &str, head: FrameHead) {
        let wire = unhex(hex);
        assert_eq!(FrameHead::decode(&wire), Ok(Some((head, wire.len()))));
        for cut in 0..wire.len() {
            assert_eq!(FrameHead::decode(&wire[..cut]), Ok(None), "{hex} cut at {cut}");
        }
        let mut out = Vec::new();
        head.encode(&mut out);
        assert_eq!(out, wire);
    }

    /// `zmtp` 4, 15.4, 15.5: each of the six flag bytes.
    #[test]
    fn the_heads_of_the_examples() {
        check("00 05", FrameHead::message(5, false));
        check("01 05", FrameHead::message(5, true));
        check("00 FF", FrameHead::message(255, false));
        check("02 00 00 00 00 00 00 01 00", FrameHead::message(256, false));
        check("03 00 00 00 00 00 01 00 00", FrameHead::message(65_536, true));
        check("04 3A", FrameHead::command(58));
        check("06 00 00 00 00 00 00 01 04", FrameHead::command(260));
        check("02 7F FF FF FF FF FF FF FF", FrameHead { more: false, command: false, len: MAX_SIZE });
    }

    #[test]
    fn a_message_of_two_frames() {
        let mut out = Vec::new();
        put_frame(&mut out, &Bytes::from_static(b"Hello"), true);
        put_frame(&mut out, &Bytes::from_static(b"World"), false);
        assert_eq!(out, unhex("01 05 48 65 6C 6C 6F 00 05 57 6F 72 6C 64"));
    }

    #[test]
    fn the_long_form_is_accepted_for_a_small_size() {
        let head = FrameHead::decode(&unhex("06 00 00 00 00 00 00 00 05")).unwrap();
        assert_eq!(head, Some((FrameHead::command(5), 9)));
    }

    #[test]
    fn reserved_flags_commands_with_more_and_sizes_beyond_63_bits_are_refused() {
        for flags in (0..=255u8).filter(|f| f & RESERVED != 0 || f & (MORE | COMMAND) == MORE | COMMAND) {
            let error = FrameHead::decode(&[flags]).unwrap_err();
            assert_eq!(error.kind, DecodeErrorKind::Illegal { value: flags.into() });
        }
        for hex in ["02 80 00 00 00 00 00 00 00", "06 FF FF FF FF FF FF FF FF"] {
            let error = FrameHead::decode(&unhex(hex)).unwrap_err();
            assert!(matches!(error.kind, DecodeErrorKind::OutOfRange { bound: MAX_SIZE, .. }));
        }
    }
}
