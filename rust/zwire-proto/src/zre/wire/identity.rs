//! Identity of a DEALER: the UUID of the sender, in one of three forms (`zre` 4).
//!
//! ```text
//! 20/ZRE of 2012, 2013    32 hexadecimal digits
//! 20/ZRE, zyre 1.0.0      UUID(16)
//! 36/ZRE, 43/ZRE          01 UUID(16)
//! ```

use super::super::{Generation, Uuid};
use bytes::Bytes;

/// Form of the UUID in the identity of a node's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdentityForm {
    /// 32 hexadecimal digits.
    Hex,
    /// The UUID.
    Bare,
    /// The UUID behind an octet 1, because libzmq up to 4.0 refuses an identity that begins with 0.
    Prefixed,
}

impl IdentityForm {
    /// The form of a generation.
    #[must_use]
    pub const fn of(generation: Generation) -> Self {
        if generation.is_legacy() { Self::Bare } else { Self::Prefixed }
    }

    /// UUID in an identity; `None`: no node of ZRE. The octet in front is not checked; no known
    /// implementation does.
    #[must_use]
    pub fn decode(identity: &[u8]) -> Option<(Self, Uuid)> {
        match identity.len() {
            16 => Some((Self::Bare, Uuid::from_bytes(identity.try_into().ok()?))),
            17 => Some((Self::Prefixed, Uuid::from_bytes(identity[1..].try_into().ok()?))),
            _ => Some((Self::Hex, Uuid::from_hex(identity)?)),
        }
    }

    /// The identity of a node.
    #[must_use]
    pub fn encode(self, uuid: &Uuid) -> Bytes {
        match self {
            Self::Hex => Bytes::copy_from_slice(&uuid.to_hex()),
            Self::Bare => Bytes::copy_from_slice(uuid.as_bytes()),
            Self::Prefixed => [&[1], &uuid.as_bytes()[..]].concat().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms() {
        let uuid: Uuid = "0F1E2D3C4B5A69788796A5B4C3D2E1F0".parse().unwrap();
        for (form, len) in [(IdentityForm::Hex, 32), (IdentityForm::Bare, 16), (IdentityForm::Prefixed, 17)] {
            let identity = form.encode(&uuid);
            assert_eq!(identity.len(), len);
            assert_eq!(IdentityForm::decode(&identity), Some((form, uuid)));
        }
        let other_prefix = [&[2], &uuid.as_bytes()[..]].concat();
        assert_eq!(IdentityForm::decode(&other_prefix), Some((IdentityForm::Prefixed, uuid)));
    }

    #[test]
    fn what_names_nobody() {
        for identity in [&b""[..], b"\0\x01\x02\x03\x04", &[b'A'; 31], &[b'G'; 32], &[1; 18], &[b'A'; 33]] {
            assert_eq!(IdentityForm::decode(identity), None, "{identity:?}");
        }
    }

    #[test]
    fn each_generation_has_its_form() {
        assert_eq!(IdentityForm::of(Generation::Rfc20), IdentityForm::Bare);
        assert_eq!(IdentityForm::of(Generation::Zyre1), IdentityForm::Bare);
        assert_eq!(IdentityForm::of(Generation::Rfc36), IdentityForm::Prefixed);
        assert_eq!(IdentityForm::of(Generation::Rfc43), IdentityForm::Prefixed);
    }
}
