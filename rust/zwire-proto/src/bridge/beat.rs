//! Sign of life of a bridge, as a put of Zenoh and as a WHISPER of ZRE to other bridges.
//!
//! ```text
//! ~ zwire-zre-bridge ~   16 octets
//! |   version = 1    |
//! ~     bridge       ~   16 octets of the id, little-endian
//! ~      term        ~   u64, little-endian; 0: the bridge is in reserve
//! ~     number       ~   u64, little-endian: an earlier one that comes late has no effect
//! ~  network <z8>    ~   name of the network
//! +------------------+
//! ```

use crate::{
    Text,
    buf::{Reader, Sink, put_zbytes},
    error::{DecodeError, DecodeErrorKind, Result},
    zenoh::ZenohId,
};
use bytes::{Bytes, BytesMut};

const MAGIC: [u8; 16] = *b"zwire-zre-bridge";
const VERSION: u8 = 1;
/// Longest name of a network.
const MAX_NAME: u64 = 255;

/// Sign of life of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The bridge.
    pub bridge: ZenohId,
    /// Term in which it forwards; 0: another one does.
    pub term: u64,
    /// Number of the sign of life, which rises.
    pub number: u64,
    /// Name of its network.
    pub network: Text,
}

impl Beat {
    /// Whether a frame is meant as one.
    #[must_use]
    pub fn is_one(frame: &[u8]) -> bool {
        frame.starts_with(&MAGIC)
    }

    /// The octets.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut sink = BytesMut::with_capacity(48 + self.network.len());
        sink.put(&MAGIC);
        sink.put_u8(VERSION);
        sink.put(&self.bridge.to_le_bytes());
        sink.put(&self.term.to_le_bytes());
        sink.put(&self.number.to_le_bytes());
        put_zbytes(&mut sink, self.network.as_bytes());
        sink.freeze()
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is none, or of another version.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let illegal = |offset, value: u8| DecodeError {
            reading: "sign of life of a bridge",
            offset,
            kind: DecodeErrorKind::Illegal { value: value.into() },
        };
        let mut r = Reader::new(bytes);
        let magic: [u8; 16] = r.array("begin of a sign of life")?;
        if magic != MAGIC {
            return Err(illegal(0, magic[0]));
        }
        let version = r.u8("version of a sign of life")?;
        if version != VERSION {
            return Err(illegal(16, version));
        }
        let bridge: [u8; 16] = r.array("bridge of a sign of life")?;
        let bridge = ZenohId::from_wire(&bridge).ok_or_else(|| illegal(17, 0))?;
        let term = u64::from_le_bytes(r.array("term of a sign of life")?);
        let number = u64::from_le_bytes(r.array("number of a sign of life")?);
        let network = r.text(MAX_NAME, "network of a sign of life")?;
        Ok(Self { bridge, term, number, network })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_by_hand() {
        let beat = Beat { bridge: "a1b2".parse().unwrap(), term: 7, number: 5, network: "zre".into() };
        let mut wanted = b"zwire-zre-bridge\x01\xb2\xa1".to_vec();
        wanted.extend([0; 14]);
        wanted.extend(b"\x07\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x03zre");
        let raw = beat.encode();
        assert_eq!(raw, wanted);
        assert!(Beat::is_one(&raw) && !Beat::is_one(b"zwire"));
        for len in 0..raw.len() {
            assert!(Beat::decode(&raw.slice(..len)).is_err(), "{len}");
        }
        assert_eq!(Beat::decode(&raw), Ok(beat));
        let mut later = wanted.clone();
        later[16] = 2;
        assert_eq!(Beat::decode(&later.into()).unwrap_err().offset, 16);
    }
}
