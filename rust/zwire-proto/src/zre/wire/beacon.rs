//! The UDP beacon (`zre` 5).
//!
//! ```text
//! +---+---+---+-----------+----------+---------+  +---------------+
//! | Z | R | E | 01 or 03  | UUID(16) | port(2) |  | public key(32)|  the key: version 3 only
//! +---+---+---+-----------+----------+---------+  +---------------+
//! ```
//!
//! 22 octets, or 54 with the key. A port of zero means goodbye.

use super::super::Uuid;
use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;

const MAGIC: &[u8] = b"ZRE";
const PLAIN: u8 = 1;
const SECURE: u8 = 3;

/// Beacon: announces a node, or its leaving if the port is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beacon {
    /// UUID of the sender.
    pub uuid: Uuid,
    /// Port of its ROUTER, at the source address of the datagram; zero: goodbye.
    pub port: u16,
    /// CURVE key of a node that requires CURVE.
    pub public_key: Option<[u8; 32]>,
}

impl Beacon {
    /// Reads a datagram. The caller should drop anything else silently.
    ///
    /// # Errors
    /// Not `ZRE`, another version, or not the size of the version.
    pub fn decode(datagram: &Bytes) -> Result<Self> {
        let mut r = Reader::new(datagram);
        let magic = r.slice(MAGIC.len(), "beacon header")?;
        if magic != MAGIC {
            let value = magic.iter().fold(0, |value, octet| value << 8 | u64::from(*octet));
            return Err(r.error("beacon header", 0, DecodeErrorKind::Illegal { value }));
        }
        let version = r.u8("beacon version")?;
        if version != PLAIN && version != SECURE {
            let kind = DecodeErrorKind::Illegal { value: version.into() };
            return Err(r.error("beacon version", 3, kind));
        }
        let uuid = Uuid::from_bytes(r.array("beacon UUID")?);
        let port = r.u16_be("beacon port")?;
        let public_key = if version == SECURE { Some(r.array("beacon public key")?) } else { None };
        r.finish("beacon")?;
        Ok(Self { uuid, port, public_key })
    }

    /// The datagram.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut datagram = Vec::with_capacity(54);
        datagram.put(MAGIC);
        datagram.put_u8(if self.public_key.is_some() { SECURE } else { PLAIN });
        datagram.put(self.uuid.as_bytes());
        datagram.put(&self.port.to_be_bytes());
        if let Some(key) = &self.public_key {
            datagram.put(key);
        }
        datagram.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::unhex;
    use super::*;

    const UUID: &str = "0F1E2D3C4B5A69788796A5B4C3D2E1F0";

    /// `zre` 20.1.
    #[test]
    fn the_beacons_of_the_document() {
        let uuid = UUID.parse().unwrap();
        let key: [u8; 32] = core::array::from_fn(|i| 0x20 + i as u8);
        let tail: String = key.iter().map(|octet| format!("{octet:02x}")).collect();
        for (hex, beacon) in [
            (format!("5a5245 01 {UUID} c030"), Beacon { uuid, port: 49200, public_key: None }),
            (format!("5a5245 01 {UUID} 0000"), Beacon { uuid, port: 0, public_key: None }),
            (format!("5a5245 03 {UUID} c030 {tail}"), Beacon { uuid, port: 49200, public_key: Some(key) }),
        ] {
            let raw = unhex(&hex);
            assert_eq!(Beacon::decode(&raw), Ok(beacon));
            assert_eq!(beacon.encode(), raw);
            for cut in 0..raw.len() {
                assert!(Beacon::decode(&raw.slice(..cut)).is_err(), "cut at {cut}");
            }
            let longer = Bytes::from([&raw[..], &[0]].concat());
            assert_eq!(Beacon::decode(&longer).unwrap_err().kind, DecodeErrorKind::TrailingBytes { left: 1 });
        }
    }

    /// `zre` 5.3: "anything else -> drop".
    #[test]
    fn what_is_no_beacon() {
        for (hex, reading) in [
            (format!("5a5246 01 {UUID} c030"), "beacon header"),
            (format!("5a5245 02 {UUID} c030"), "beacon version"),
            (format!("5a5245 03 {UUID} c030"), "beacon public key"),
            (format!("5a5245 01 {UUID} c030 {}", "20".repeat(32)), "beacon"),
            (String::new(), "beacon header"),
        ] {
            assert_eq!(Beacon::decode(&unhex(&hex)).unwrap_err().reading, reading, "{hex}");
        }
    }
}
