//! The id of a node (`zre` 4).

use core::{cmp::Ordering, fmt, str::FromStr};
use thiserror::Error;

/// The 16 octets that identify a node from its start to its end. As text 32 upper-case hexadecimal
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid([u8; 16]);

impl Ord for Uuid {
    /// Compares the octets, which is the order of the texts as well. As integers for speed: tables of nodes
    /// spend most of their time here.
    fn cmp(&self, other: &Self) -> Ordering {
        u128::from_be_bytes(self.0).cmp(&u128::from_be_bytes(other.0))
    }
}

impl PartialOrd for Uuid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Uuid {
    /// A UUID from the wire.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// A UUID of version 4 from 16 random octets. libzmq up to 4.0 refuses an identity that begins with
    /// a zero octet, and the node would have none; so the first octet is never 0.
    #[must_use]
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        if bytes[0] == 0 {
            bytes[0] = 1;
        }
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The octets.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Parses 32 digits; peers of 2013 use them as identity.
    pub(crate) fn from_hex(text: &[u8]) -> Option<Self> {
        let text: &[u8; 32] = text.try_into().ok()?;
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
        }
        Some(Self(bytes))
    }

    /// The text, as octets.
    #[must_use]
    pub fn to_hex(&self) -> [u8; 32] {
        let mut text = [0; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = b"0123456789ABCDEF"[usize::from(byte >> 4)];
            pair[1] = b"0123456789ABCDEF"[usize::from(byte & 15)];
        }
        text
    }
}

/// Error for a text that is no UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a UUID is written as 32 hexadecimal digits without dashes")]
pub struct UuidError;

impl FromStr for Uuid {
    type Err = UuidError;
    fn from_str(text: &str) -> Result<Self, UuidError> {
        Self::from_hex(text.as_bytes()).ok_or(UuidError)
    }
}
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Digits are ASCII. Every event contains a UUID, so it is not formatted octet by octet.
        f.write_str(core::str::from_utf8(&self.to_hex()).unwrap_or_default())
    }
}
impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_octets() {
        let text = "0F1E2D3C4B5A69788796A5B4C3D2E1F0";
        let uuid: Uuid = text.parse().unwrap();
        assert_eq!(uuid.as_bytes()[..3], [0x0f, 0x1e, 0x2d]);
        assert_eq!(uuid.to_string(), text);
        assert_eq!(uuid.to_hex(), text.as_bytes());
        assert_eq!(text.to_lowercase().parse(), Ok(uuid));
    }

    #[test]
    fn what_is_no_uuid() {
        for text in ["", "0F", "0F1E2D3C4B5A69788796A5B4C3D2E1F", "0F1E2D3C4B5A69788796A5B4C3D2E1F0A"] {
            assert_eq!(text.parse::<Uuid>(), Err(UuidError), "{text}");
        }
        assert_eq!("+F1E2D3C4B5A69788796A5B4C3D2E1F0".parse::<Uuid>(), Err(UuidError));
    }

    /// `zre` 16.16: "generate UUIDs with first octet not 0".
    #[test]
    fn a_random_uuid_never_begins_with_zero() {
        assert_eq!(Uuid::from_random([0; 16]).to_string(), "01000000000040008000000000000000");
        assert_eq!(Uuid::from_random([0xff; 16]).to_string(), "FFFFFFFFFFFF4FFFBFFFFFFFFFFFFFFF");
    }
}
