//! WireExpr: a key expression on the wire (`zenoh-wire` 1.9).
//!
//! `scope: z16`, then `suffix: <utf8;z16>` if N. M=1: the scope was declared by the sender of this
//! message, M=0: by its receiver. The full key is the declared string followed by the suffix; no
//! `/` is inserted.

use crate::{
    Text,
    buf::{Reader, Sink, put_vle, put_zbytes, vle_len},
    error::{DecodeErrorKind, Result},
};

/// N: the suffix is present.
pub(super) const N: u8 = 0x20;
/// M: the scope is in the sender's table.
pub(super) const M: u8 = 0x40;

/// Side that declared the scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// The receiver of this message, M=0.
    Receiver,
    /// The sender of this message, M=1.
    Sender,
}

impl Mapping {
    #[inline]
    pub(super) const fn of(header: u8) -> Self {
        if header & M == 0 { Self::Receiver } else { Self::Sender }
    }
}

/// A number for a declared prefix, and the rest of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WireExpr {
    /// The declared prefix; 0: none.
    pub scope: u16,
    /// Side that declared the number; irrelevant for scope 0, where senders write `Sender`.
    pub mapping: Mapping,
    /// The rest of the key, or all of it.
    pub suffix: Text,
}

impl WireExpr {
    /// The empty key: legal only in a RESPONSE that carries ERR, and as a null extension.
    pub const EMPTY: Self = Self { scope: 0, mapping: Mapping::Sender, suffix: Text::EMPTY };

    /// A full key without scope, in the usual form: M=1.
    #[must_use]
    pub fn full(key: impl Into<Text>) -> Self {
        Self { scope: 0, mapping: Mapping::Sender, suffix: key.into() }
    }

    /// The suffix behind the declared `prefix`, in memory of its own: a table that keeps the text keeps no
    /// receive buffer alive.
    #[must_use]
    pub fn joined_to(&self, prefix: &str) -> Text {
        let mut text = String::with_capacity(prefix.len() + self.suffix.len());
        text.push_str(prefix);
        text.push_str(&self.suffix);
        text.into()
    }

    /// Whether this is the empty key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scope == 0 && self.suffix.is_empty()
    }

    /// M and N for the header of the carrying message.
    pub(super) fn flags(&self) -> u8 {
        let n = if self.suffix.is_empty() { 0 } else { N };
        n | match self.mapping {
            Mapping::Sender => M,
            Mapping::Receiver => 0,
        }
    }

    #[inline]
    pub(super) fn decode(header: u8, r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        let scope = r.z16(reading)?;
        let suffix = if header & N == 0 { Text::EMPTY } else { r.text(u64::from(u16::MAX), reading)? };
        Ok(Self { scope, mapping: Mapping::of(header), suffix })
    }

    #[inline]
    pub(super) fn encode(&self, sink: &mut impl Sink) {
        put_vle(sink, u64::from(self.scope));
        if !self.suffix.is_empty() {
            put_zbytes(sink, self.suffix.as_bytes());
        }
    }

    /// The contents of the WireExpr extension of U_*: flags (bit 0 N, bit 1 M), scope, and the suffix
    /// up to the end, without a length.
    pub(super) fn decode_ext(r: &mut Reader<'_>) -> Result<Self> {
        const READING: &str = "WireExpr extension";
        let flags = r.u8(READING)?;
        let scope = r.z16(READING)?;
        let suffix = if flags & 0x01 == 0 {
            r.finish(READING)?;
            Text::EMPTY
        } else if r.remaining() > usize::from(u16::MAX) {
            let kind = DecodeErrorKind::OutOfRange { value: r.remaining() as u64, bound: u16::MAX.into() };
            return Err(r.error(READING, r.offset(), kind));
        } else {
            r.text_of(r.remaining(), READING)?
        };
        if scope == 0 && suffix.is_empty() {
            return Ok(Self::EMPTY);
        }
        let mapping = if flags & 0x02 == 0 { Mapping::Receiver } else { Mapping::Sender };
        Ok(Self { scope, mapping, suffix })
    }

    pub(super) fn encode_ext(&self, sink: &mut impl Sink) {
        // The empty key is flags 0, scope 0, whatever the mapping.
        let m = if self.mapping == Mapping::Sender && !self.is_empty() { 0x02 } else { 0 };
        let n = u8::from(!self.suffix.is_empty());
        put_vle(sink, (1 + vle_len(u64::from(self.scope)) + self.suffix.len()) as u64);
        sink.put_u8(m | n);
        put_vle(sink, u64::from(self.scope));
        sink.put(self.suffix.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::unhex;
    use super::*;

    fn ext(hex: &str) -> Result<WireExpr> {
        let bytes = unhex(hex);
        WireExpr::decode_ext(&mut Reader::new(&bytes))
    }

    fn check_ext(hex: &str, key: &WireExpr) {
        let mut out = Vec::new();
        key.encode_ext(&mut out);
        assert_eq!(out[1..], unhex(hex)[..], "{key:?}");
        assert_eq!(usize::from(out[0]), out.len() - 1);
        assert_eq!(ext(hex).as_ref(), Ok(key));
    }

    #[test]
    fn each_form_of_the_extension() {
        check_ext("00 00", &WireExpr::EMPTY);
        check_ext("02 01", &WireExpr { scope: 1, mapping: Mapping::Sender, suffix: Text::EMPTY });
        check_ext("00 01", &WireExpr { scope: 1, mapping: Mapping::Receiver, suffix: Text::EMPTY });
        check_ext("03 00 6b", &WireExpr::full("k"));
        check_ext("01 8001 2f78", &WireExpr { scope: 128, mapping: Mapping::Receiver, suffix: "/x".into() });
    }

    #[test]
    fn the_extension_must_fill_its_length() {
        assert_eq!(ext("00 01 6b").unwrap_err().kind, DecodeErrorKind::TrailingBytes { left: 1 });
        assert_eq!(ext("01 00 ff").unwrap_err().kind, DecodeErrorKind::Utf8);
        assert!(ext("").is_err());
        assert!(ext("00").is_err());
    }

    #[test]
    fn the_empty_key_has_one_form() {
        assert_eq!(ext("02 00"), Ok(WireExpr::EMPTY));
        assert_eq!(ext("01 00"), Ok(WireExpr::EMPTY));
    }

    #[test]
    fn the_bounds_of_scope_and_suffix() {
        let read = |hex: &str, header: u8| {
            let bytes = unhex(hex);
            WireExpr::decode(header, &mut Reader::new(&bytes), "key")
        };
        assert_eq!(read("ffff03", 0).unwrap().scope, 65_535);
        assert!(matches!(
            read("808004", 0).unwrap_err().kind,
            DecodeErrorKind::OutOfRange { value: 65_536, bound: 65_535 }
        ));
        let longest = format!("00 ffff03 {}", "61".repeat(65_535));
        assert_eq!(read(&longest, N | M).unwrap().suffix.len(), 65_535);
        let too_long = format!("00 808004 {}", "61".repeat(65_536));
        assert!(matches!(read(&too_long, N).unwrap_err().kind, DecodeErrorKind::OutOfRange { .. }));
        let error = read("00 02 c328", N).unwrap_err();
        assert_eq!((error.kind, error.offset, error.reading), (DecodeErrorKind::Utf8, 2, "key"));
    }
}
