//! Messages of zgossip, with which nodes find each other without beacons (`zre` 6).
//!
//! ```text
//! +----+----+----+----+    +------------+---------------------+--------+
//! | AA | A0 | id | 01 |    | key string | value long string   | ttl(4) |  PUBLISH only
//! +----+----+----+----+    +------------+---------------------+--------+
//! ```

use super::{
    super::{Uuid, limits, z85},
    EncodeError,
    field::{expect, long_string, put_long_string, put_name, string},
};
use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;

const SIGNATURE: u16 = 0xaaa0;
const VERSION: u8 = 1;

/// A message between a client and a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gossip {
    /// Asks for all tuples, present and future.
    Hello,
    /// A tuple.
    Publish {
        /// Key; for a node of ZRE its UUID, 32 upper-case hexadecimal digits.
        key: Bytes,
        /// Value; for a node of ZRE its endpoint, see [`Tuple`].
        value: Bytes,
        /// Time to live in milliseconds; no implementation evaluates it.
        ttl: u32,
    },
    /// Keeps the client registered; a hub expires it after one second of silence.
    Ping,
    /// Answer to PING.
    Pong,
    /// The hub does not know the client: it must send HELLO.
    Invalid,
}

impl Gossip {
    /// Reads a frame. Octets behind the end are ignored.
    ///
    /// # Errors
    /// A frame that does not decode and should be dropped.
    pub fn decode(frame: &Bytes) -> Result<Self> {
        let mut r = Reader::new(frame);
        expect(&mut r, SIGNATURE, Reader::u16_be, "gossip signature")?;
        let id = r.u8("gossip id")?;
        expect(&mut r, VERSION, Reader::u8, "gossip version")?;
        match id {
            1 => Ok(Self::Hello),
            2 => Ok(Self::Publish {
                key: string(&mut r, "PUBLISH key")?,
                value: long_string(&mut r, limits::MAX_TUPLE_VALUE, "PUBLISH value")?,
                ttl: r.u32_be("PUBLISH ttl")?,
            }),
            3 => Ok(Self::Ping),
            4 => Ok(Self::Pong),
            5 => Ok(Self::Invalid),
            id => Err(r.error("gossip id", 2, DecodeErrorKind::UnknownId { id })),
        }
    }

    /// The frame.
    ///
    /// # Errors
    /// A key or value that is not UTF-8 or is too long.
    pub fn encode(&self) -> core::result::Result<Bytes, EncodeError> {
        let mut frame = Vec::new();
        frame.put(&SIGNATURE.to_be_bytes());
        let id = match self {
            Self::Hello => 1,
            Self::Publish { .. } => 2,
            Self::Ping => 3,
            Self::Pong => 4,
            Self::Invalid => 5,
        };
        frame.put(&[id, VERSION]);
        if let Self::Publish { key, value, ttl } = self {
            put_name(&mut frame, key, "PUBLISH key")?;
            put_long_string(&mut frame, value, limits::MAX_TUPLE_VALUE, "PUBLISH value")?;
            frame.put(&ttl.to_be_bytes());
        }
        Ok(frame.into())
    }
}

/// Tuple that a node of ZRE publishes about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// UUID of the node.
    pub uuid: Uuid,
    /// Endpoint of its ROUTER.
    pub endpoint: Bytes,
    /// CURVE key of the node.
    pub public_key: Option<[u8; 32]>,
}

impl Tuple {
    /// Parses a tuple; `None`: no tuple of ZRE, as other applications may use the same hub.
    #[must_use]
    pub fn of(key: &[u8], value: &Bytes) -> Option<Self> {
        let uuid = Uuid::from_hex(key)?;
        let Some(bar) = value.iter().position(|octet| *octet == b'|') else {
            return Some(Self { uuid, endpoint: value.clone(), public_key: None });
        };
        let public_key = Some(z85::decode_key(&value[bar + 1..])?);
        Some(Self { uuid, endpoint: value.slice(..bar), public_key })
    }

    /// The message that publishes the tuple.
    #[must_use]
    pub fn publish(&self) -> Gossip {
        let value = match &self.public_key {
            None => self.endpoint.clone(),
            Some(key) => [&self.endpoint[..], b"|", &z85::encode_key(key)].concat().into(),
        };
        Gossip::Publish { key: Bytes::copy_from_slice(&self.uuid.to_hex()), value, ttl: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::unhex;
    use super::*;

    /// `zre` 20.8.
    #[test]
    fn the_messages_of_the_document() {
        let tuple = Tuple {
            uuid: "0F1E2D3C4B5A69788796A5B4C3D2E1F0".parse().unwrap(),
            endpoint: Bytes::from_static(b"tcp://10.99.0.3:49200"),
            public_key: None,
        };
        let publish = "AAA0020120304631453244334334423541363937383837393641354234433344324531463000000015\
                       7463703A2F2F31302E39392E302E333A343932303000000000";
        for (hex, message) in [
            ("AAA00101", Gossip::Hello),
            (publish, tuple.publish()),
            ("AAA00301", Gossip::Ping),
            ("AAA00401", Gossip::Pong),
            ("AAA00501", Gossip::Invalid),
        ] {
            let raw = unhex(hex);
            assert_eq!(Gossip::decode(&raw), Ok(message.clone()));
            assert_eq!(message.encode().unwrap(), raw);
            for cut in 0..raw.len() {
                assert!(Gossip::decode(&raw.slice(..cut)).is_err(), "cut at {cut}");
            }
        }
        let Gossip::Publish { key, value, .. } = tuple.publish() else { panic!() };
        assert_eq!(Tuple::of(&key, &value), Some(tuple));
    }

    #[test]
    fn a_tuple_may_hold_a_key() {
        let tuple = Tuple {
            uuid: Uuid::from_bytes([7; 16]),
            endpoint: Bytes::from_static(b"tcp://a:1"),
            public_key: Some([9; 32]),
        };
        let Gossip::Publish { key, value, .. } = tuple.publish() else { panic!() };
        assert_eq!(value.len(), 9 + 1 + 40);
        assert_eq!(Tuple::of(&key, &value), Some(tuple));
        assert_eq!(Tuple::of(&key, &value.slice(..49)), None);
        assert_eq!(Tuple::of(b"inproc key of others", &value), None);
    }

    #[test]
    fn what_is_dropped() {
        for (hex, reading) in [
            ("AAA10101", "gossip signature"),
            ("AAA00102", "gossip version"),
            ("AAA00601", "gossip id"),
            ("AAA00201 0161 00000401", "PUBLISH value"),
        ] {
            assert_eq!(Gossip::decode(&unhex(hex)).unwrap_err().reading, reading, "{hex}");
        }
    }
}
