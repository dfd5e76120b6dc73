//! Attachment of everything that a bridge publishes.
//!
//! ```text
//! +---------------+
//! |  version = 1  |
//! ~   sender      ~   16 octets of the UUID
//! ~   bridge      ~   16 octets of the id, little-endian
//! ~   number      ~   u64, little-endian: per bridge and sender
//! |     hops      |   bridges before this one
//! ~  name <z8>    ~   of the sender, UTF-8
//! +---------------+
//! ```
//!
//! It is the tuple `(u8, [u8; 16], [u8; 16], u64, u8, text)` in the serialization of zenoh-ext, so that other programs
//! read it with their library. Octets behind the name are left for later versions.

use crate::{
    Text,
    buf::{Reader, Sink, put_zbytes},
    error::{DecodeError, DecodeErrorKind, Result},
    zenoh::ZenohId,
    zre::Uuid,
};
use bytes::Bytes;

const VERSION: u8 = 1;

/// Most bridges that a message passes.
pub const MAX_HOPS: u8 = 4;

/// Longest name: 255 octets (`zre` 14), each of which may be none of UTF-8 and become U+FFFD, which has three.
const MAX_NAME: u64 = 3 * 255;

/// Origin of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Peer that sent the message.
    pub sender: Uuid,
    /// Bridge that published it.
    pub bridge: ZenohId,
    /// Number of the message among those of this sender by this bridge.
    pub number: u64,
    /// Bridges that it passed before.
    pub hops: u8,
    /// Name of the sender.
    pub name: Text,
}

impl Attachment {
    /// Writes the attachment.
    pub fn encode(&self, sink: &mut impl Sink) {
        sink.put_u8(VERSION);
        sink.put(self.sender.as_bytes());
        sink.put(&self.bridge.to_le_bytes());
        sink.put(&self.number.to_le_bytes());
        sink.put_u8(self.hops);
        put_zbytes(sink, self.name.as_bytes());
    }

    /// Whether octets are the attachment of a bridge, without reading the rest.
    #[must_use]
    pub fn is_of(octets: &[u8], bridge: ZenohId) -> bool {
        octets.first() == Some(&VERSION) && octets.get(17..33) == Some(&bridge.to_le_bytes()[..])
    }

    /// Reads an attachment.
    ///
    /// # Errors
    /// It is none of a bridge, or of a version with another layout.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let illegal = |offset, value: u8| DecodeError {
            reading: "attachment of a bridge",
            offset,
            kind: DecodeErrorKind::Illegal { value: value.into() },
        };
        let version = r.u8("version of an attachment")?;
        if version != VERSION {
            return Err(illegal(0, version));
        }
        let sender = Uuid::from_bytes(r.array("sender of an attachment")?);
        let bridge: [u8; 16] = r.array("bridge of an attachment")?;
        let bridge = ZenohId::from_wire(&bridge).ok_or_else(|| illegal(17, 0))?;
        let number = u64::from_le_bytes(r.array("number of an attachment")?);
        let hops = r.u8("hops of an attachment")?;
        let name = r.text(MAX_NAME, "name in an attachment")?;
        Ok(Self { sender, bridge, number, hops, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use proptest::prelude::*;

    fn encoded(attachment: &Attachment) -> Bytes {
        let mut sink = BytesMut::new();
        attachment.encode(&mut sink);
        sink.freeze()
    }

    /// As `z_serialize` of eclipse-zenoh writes the tuple; the interop tests compare both.
    #[test]
    fn octets_by_hand() {
        let attachment = Attachment {
            sender: "0F1E2D3C4B5A69788796A5B4C3D2E1F0".parse().unwrap(),
            bridge: "a1b2".parse().unwrap(),
            number: 0x0102,
            hops: 3,
            name: "Ada".into(),
        };
        let mut wanted =
            b"\x01\x0f\x1e\x2d\x3c\x4b\x5a\x69\x78\x87\x96\xa5\xb4\xc3\xd2\xe1\xf0\xb2\xa1".to_vec();
        wanted.extend([0; 14]);
        wanted.extend(b"\x02\x01\0\0\0\0\0\0\x03\x03Ada");
        assert_eq!(encoded(&attachment), wanted);
        let raw = encoded(&attachment);
        assert!(Attachment::is_of(&raw, attachment.bridge));
        assert!(
            !Attachment::is_of(&raw, ZenohId::new(1).unwrap())
                && !Attachment::is_of(&raw[..32], attachment.bridge)
        );
        assert_eq!(Attachment::decode(&raw), Ok(attachment));
        for len in 0..raw.len() {
            assert!(Attachment::decode(&raw.slice(..len)).is_err(), "{len}");
        }
    }

    /// A bridge that could not read it would take the message for one of a program, and pass it on at a takeover.
    #[test]
    fn the_longest_name_of_zre_comes_back() {
        let name = String::from_utf8_lossy(&[0xff; 255]).into_owned();
        let attachment = Attachment {
            sender: Uuid::from_bytes([1; 16]),
            bridge: ZenohId::new(1).unwrap(),
            number: 1,
            hops: 0,
            name: name.as_str().into(),
        };
        assert_eq!(Attachment::decode(&encoded(&attachment)), Ok(attachment));
    }

    #[test]
    fn foreign_attachments_are_refused() {
        for (raw, offset) in [(&b""[..], 0), (b"\x02", 0), (b"hello", 0), (&[1; 17], 17)] {
            assert_eq!(Attachment::decode(&Bytes::from_static(raw)).unwrap_err().offset, offset, "{raw:?}");
        }
        let mut zero = vec![1; 17];
        zero.extend([0; 26]);
        assert_eq!(Attachment::decode(&zero.into()).unwrap_err().offset, 17);
    }

    proptest! {
        #[test]
        fn comes_back(
            sender in any::<[u8; 16]>(), bridge in 1_u128.., number in any::<u64>(), hops in any::<u8>(),
            name in "\\PC{0,60}",
        ) {
            let attachment = Attachment {
                sender: Uuid::from_bytes(sender), bridge: ZenohId::new(bridge).unwrap(), number, hops,
                name: name.as_str().into(),
            };
            prop_assert_eq!(Attachment::decode(&encoded(&attachment)), Ok(attachment));
        }
    }
}
