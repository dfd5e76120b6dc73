//! Integers at fixed places of headers.

use zwire_proto::error::{DecodeError, DecodeErrorKind, Result};

pub(super) fn field<const N: usize>(bytes: &[u8], at: usize, reading: &'static str) -> Result<[u8; N]> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| DecodeError {
        reading,
        offset: bytes.len(),
        kind: DecodeErrorKind::Truncated { needed: (at + N).saturating_sub(bytes.len()) },
    })
}

pub(super) fn byte(bytes: &[u8], at: usize, reading: &'static str) -> Result<u8> {
    field::<1>(bytes, at, reading).map(|[value]| value)
}

pub(super) fn be_u16(bytes: &[u8], at: usize, reading: &'static str) -> Result<u16> {
    field(bytes, at, reading).map(u16::from_be_bytes)
}

pub(super) fn be_u32(bytes: &[u8], at: usize, reading: &'static str) -> Result<u32> {
    field(bytes, at, reading).map(u32::from_be_bytes)
}

/// An error at `offset` about a value that the field forbids.
pub(super) fn illegal(reading: &'static str, offset: usize, value: u64) -> DecodeError {
    DecodeError { reading, offset, kind: DecodeErrorKind::Illegal { value } }
}

/// An error at `offset` about a value above the bound of its field.
pub(super) fn out_of_range(reading: &'static str, offset: usize, value: u64, bound: u64) -> DecodeError {
    DecodeError { reading, offset, kind: DecodeErrorKind::OutOfRange { value, bound } }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    /// The `N` bytes at `at`, the lowest first.
    fn field<const N: usize>(self, bytes: &[u8], at: usize, reading: &'static str) -> Result<[u8; N]> {
        let mut field = field(bytes, at, reading)?;
        if self == Self::Big {
            field.reverse();
        }
        Ok(field)
    }

    pub(super) fn u16(self, bytes: &[u8], at: usize, reading: &'static str) -> Result<u16> {
        self.field(bytes, at, reading).map(u16::from_le_bytes)
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize, reading: &'static str) -> Result<u32> {
        self.field(bytes, at, reading).map(u32::from_le_bytes)
    }

    pub(super) fn i64(self, bytes: &[u8], at: usize, reading: &'static str) -> Result<i64> {
        self.field(bytes, at, reading).map(i64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_beyond_the_end_says_how_many_bytes_are_missing() {
        let error = be_u32(&[1, 2, 3], 1, "a field").unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Truncated { needed: 2 });
        assert_eq!(be_u16(&[1, 2, 3], 1, "a field"), Ok(0x0203));
        assert!(byte(&[], usize::MAX - 1, "a field").is_err());
    }

    #[test]
    fn both_byte_orders() {
        assert_eq!(Order::Little.u16(&[1, 2], 0, ""), Ok(0x0201));
        assert_eq!(Order::Big.u16(&[1, 2], 0, ""), Ok(0x0102));
        assert_eq!(Order::Big.i64(&[0xff; 8], 0, ""), Ok(-1));
    }
}
