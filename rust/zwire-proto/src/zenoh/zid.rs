//! ZenohID: the number of a node (`zenoh-wire` 1.4).

use core::{fmt, num::NonZeroU128, str::FromStr};
use thiserror::Error;

/// A node's id: a non-zero 128-bit number. On the wire little-endian without trailing zero bytes, as
/// text in lower-case hexadecimal without leading zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
// Alignment reduced to that of neighbouring fields: messages and samples, which hold several ids, would
// be a quarter larger otherwise.
#[repr(Rust, packed(8))]
pub struct ZenohId(NonZeroU128);

const _: () = assert!(size_of::<Option<ZenohId>>() == 16 && align_of::<ZenohId>() == 8);

impl ZenohId {
    /// From the number; `None` for zero.
    #[must_use]
    pub const fn new(number: u128) -> Option<Self> {
        match NonZeroU128::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// From 16 random bytes. If all of them are zero, which is not expected, the id is `1`.
    #[must_use]
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        match Self::new(u128::from_le_bytes(bytes)) {
            Some(id) => id,
            None => Self(NonZeroU128::MIN),
        }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u128 {
        self.0.get()
    }

    /// From 1 to 16 little-endian bytes. Superfluous high zero bytes are normalised away.
    #[must_use]
    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() > 16 {
            return None;
        }
        let mut le = [0; 16];
        le[..bytes.len()].copy_from_slice(bytes);
        Self::new(u128::from_le_bytes(le))
    }

    /// All 16 little-endian bytes; the first [`Self::wire_len`] of them are sent.
    #[must_use]
    pub const fn to_le_bytes(self) -> [u8; 16] {
        self.0.get().to_le_bytes()
    }

    /// Number of bytes sent: 1 to 16.
    #[must_use]
    pub const fn wire_len(self) -> usize {
        16 - (self.0.leading_zeros() / 8) as usize
    }

    /// From hexadecimal digits, also upper-case ones, which the ids of timestamps may have.
    pub(super) fn from_hex(text: &str) -> Result<Self, ZenohIdError> {
        if text.is_empty() {
            return Err(ZenohIdError::Empty);
        }
        let mut number = 0_u128;
        for (offset, byte) in text.bytes().enumerate() {
            let digit = char::from(byte).to_digit(16).ok_or(ZenohIdError::Digit { offset })?;
            if offset == 0 && digit == 0 {
                return Err(ZenohIdError::LeadingZero);
            }
            if offset >= 32 {
                return Err(ZenohIdError::TooLong);
            }
            number = (number << 4) | u128::from(digit);
        }
        Self::new(number).ok_or(ZenohIdError::LeadingZero)
    }
}

/// Reason why a text is no ZenohID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ZenohIdError {
    /// The text is empty.
    #[error("a ZenohID has at least one digit")]
    Empty,
    /// The first digit is 0, or there is no other.
    #[error("a ZenohID is not zero and has no leading zeros")]
    LeadingZero,
    /// More than 32 digits.
    #[error("a ZenohID has at most 32 digits")]
    TooLong,
    /// Not one of `0123456789abcdef`.
    #[error("a ZenohID is written in lower-case hexadecimal digits (at byte {offset})")]
    Digit {
        /// Offset of the wrong byte.
        offset: usize,
    },
}

impl FromStr for ZenohId {
    type Err = ZenohIdError;
    fn from_str(text: &str) -> Result<Self, ZenohIdError> {
        match text.bytes().position(|byte| byte.is_ascii_uppercase()) {
            Some(offset) => Err(ZenohIdError::Digit { offset }),
            None => Self::from_hex(text),
        }
    }
}
impl fmt::Display for ZenohId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.number(), f)
    }
}
impl fmt::Debug for ZenohId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_the_reverse_of_the_wire() {
        let id = ZenohId::from_wire(&[0xa4, 0xa3, 0xa2, 0xa1]).unwrap();
        assert_eq!(id.to_string(), "a1a2a3a4");
        assert_eq!("a1a2a3a4".parse(), Ok(id));
        assert_eq!(id.wire_len(), 4);
    }

    #[test]
    fn high_zero_bytes_are_normalised_away() {
        let id = ZenohId::from_wire(&[1, 0, 0]).unwrap();
        assert_eq!((id.to_string().as_str(), id.wire_len()), ("1", 1));
        assert_eq!(ZenohId::from_wire(&[0; 16]), None);
        assert_eq!(ZenohId::from_wire(&[]), None);
        assert_eq!(ZenohId::from_wire(&[1; 17]), None);
        assert_eq!(ZenohId::from_wire(&[0xff; 16]).unwrap().wire_len(), 16);
    }

    #[test]
    fn what_is_no_id() {
        for (text, error) in [
            ("", ZenohIdError::Empty),
            ("0", ZenohIdError::LeadingZero),
            ("033", ZenohIdError::LeadingZero),
            ("fffffffffffffffffffffffffffffffff", ZenohIdError::TooLong),
            ("g", ZenohIdError::Digit { offset: 0 }),
            ("+1", ZenohIdError::Digit { offset: 0 }),
            ("a1A2", ZenohIdError::Digit { offset: 2 }),
            ("1é", ZenohIdError::Digit { offset: 1 }),
        ] {
            assert_eq!(text.parse::<ZenohId>(), Err(error), "{text}");
        }
    }

    #[test]
    fn random_bytes_always_make_an_id() {
        assert_eq!(ZenohId::from_random([0; 16]).number(), 1);
        assert_eq!(ZenohId::from_random([0x11; 16]).to_string(), "11".repeat(16));
    }

    proptest! {
        #[test]
        fn text_and_wire_round_trip(number in 1..=u128::MAX, shift in 0_u32..128) {
            let id = ZenohId::new((number >> shift).max(1)).unwrap();
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            prop_assert_eq!(ZenohId::from_wire(&id.to_le_bytes()[..id.wire_len()]), Some(id));
            prop_assert_ne!(id.to_le_bytes()[id.wire_len() - 1], 0);
        }
    }
}
