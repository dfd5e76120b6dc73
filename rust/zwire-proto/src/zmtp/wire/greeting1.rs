//! The greeting of ZMTP 1.0: a frame of 1.0 that holds the identity (`zmtp` 13.2).
//!
//! ```text
//! +--------+-------+----------+
//! | length | flags | identity |   length = 1 + identity, one byte below 255, else FF and eight
//! +--------+-------+----------+
//! ```
//!
//! The signature of the later generations is the head of such a frame with a long length; its padding
//! is the length. The greeting is decoded so that a dissector can name such a peer; no machine of zwire
//! speaks 1.0.

use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
    zmtp::limits::MAX_IDENTITY,
};
use bytes::Bytes;

const LONG: u8 = 0xff;

/// Greeting of a peer of ZMTP 1.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting1 {
    /// At most 255 bytes.
    pub identity: Bytes,
}

impl Greeting1 {
    /// Reads a greeting. Flags are ignored.
    ///
    /// # Errors
    /// Too short, or a length that fits no identity.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        const READING: &str = "1.0 identity length";
        let offset = r.offset();
        let len = match r.u8(READING)? {
            LONG => r.u64_be(READING)?,
            len => len.into(),
        };
        let bound = MAX_IDENTITY as u64 + 1;
        if len > bound {
            return Err(r.error(READING, offset, DecodeErrorKind::OutOfRange { value: len, bound }));
        }
        // The length includes the flags.
        let Some(len) = usize::try_from(len).ok().and_then(|len| len.checked_sub(1)) else {
            return Err(r.error(READING, offset, DecodeErrorKind::Illegal { value: len }));
        };
        r.u8("1.0 identity flags")?;
        Ok(Self { identity: r.bytes(len, "1.0 identity")? })
    }

    /// Writes the greeting, with the short length if that suffices.
    pub fn encode(&self, sink: &mut impl Sink) {
        let len = self.identity.len() as u64 + 1;
        match u8::try_from(len) {
            Ok(len) if len != LONG => sink.put_u8(len),
            _ => {
                sink.put_u8(LONG);
                sink.put(&len.to_be_bytes());
            }
        }
        sink.put_u8(0);
        sink.put(&self.identity);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cuts, kind, unhex};
    use super::*;

    fn decode(hex: &str) -> Result<Greeting1> {
        Greeting1::decode(&mut Reader::new(&unhex(hex)))
    }

    /// `zmtp` 13.2.
    #[test]
    fn the_greetings_of_the_examples() {
        for (hex, identity) in [("04 00 01 61 62", &b"\x01ab"[..]), ("01 00", b"")] {
            let greeting = Greeting1 { identity: Bytes::copy_from_slice(identity) };
            assert_eq!(decode(hex).as_ref(), Ok(&greeting));
            let mut out = Vec::new();
            greeting.encode(&mut out);
            assert_eq!(out, unhex(hex));
            cuts(&unhex(hex), Greeting1::decode);
        }
        // A 3.x signature and identity, as a 1.0 peer reads them.
        assert_eq!(decode("FF 0000000000000004 7F 53 52 56").unwrap().identity, "SRV");
    }

    #[test]
    fn long_identities_have_the_long_length() {
        for len in [253, 254, 255] {
            let greeting = Greeting1 { identity: vec![7; len].into() };
            let mut out = Vec::new();
            greeting.encode(&mut out);
            assert_eq!(out.len(), len + if len < 254 { 2 } else { 10 });
            assert_eq!(Greeting1::decode(&mut Reader::new(&out.into())), Ok(greeting));
        }
    }

    #[test]
    fn a_length_of_nothing_and_one_of_too_much_are_refused() {
        assert_eq!(kind(decode("00")), DecodeErrorKind::Illegal { value: 0 });
        assert_eq!(
            kind(decode("FF FFFFFFFFFFFFFFFF 00")),
            DecodeErrorKind::OutOfRange { value: u64::MAX, bound: 256 }
        );
    }
}
