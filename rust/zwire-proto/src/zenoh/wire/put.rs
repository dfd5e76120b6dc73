//! PUT, id 0x01 in PUSH and REPLY (`zenoh-wire` 5.1).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|E|T|   PUT   |   Z: extensions, E: encoding, T: timestamp
//! +-+-+-+---------+
//! ~   timestamp   ~   if T
//! ~   encoding    ~   if E
//! ~  extensions   ~   if Z: SourceInfo 0x41, Shm 0x12 (Unit, mandatory), Attachment 0x43
//! ~ payload <z32> ~   may be empty
//! +---------------+
//! ```

use super::{
    common::{
        SOURCE_INFO, SourceInfo, put_encoding, put_source_info, put_timestamp, read_encoding,
        read_source_info, read_timestamp,
    },
    ext::{Chain, UnknownExt, Z, keep_unknown, read_header},
    shm,
};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::Result,
    zenoh::{Encoding, Payload, Timestamp},
};
use bytes::Bytes;

pub(super) const ID: u8 = 0x01;
/// An encoding follows.
pub(super) const E: u8 = 0x40;
/// A timestamp follows.
pub(super) const T: u8 = 0x20;
const ATTACHMENT: u8 = 0x43;

/// A new value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// Time of the publication; the only place of a data timestamp.
    pub timestamp: Option<Timestamp>,
    /// Encoding of the payload.
    pub encoding: Encoding,
    /// Entity that published it.
    pub source_info: Option<Box<SourceInfo>>,
    /// Whether the payload is a description of shared memory, not the value (`zenoh-wire` 5.8).
    pub shm: bool,
    /// Attachment of the user; present and empty is not the same as absent.
    pub attachment: Option<Bytes>,
    /// Unknown extensions, kept for the next hop.
    pub extensions: Vec<UnknownExt>,
    /// The value.
    pub payload: Payload,
}

impl Put {
    /// A value with default options.
    #[must_use]
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { payload: payload.into().into(), ..Self::default() }
    }

    #[inline]
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let timestamp = if header & T == 0 { None } else { Some(read_timestamp(r)?) };
        let encoding = if header & E == 0 { Encoding::DEFAULT } else { read_encoding(r)? };
        let mut put = Self { timestamp, encoding, ..Self::default() };
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "PUT extension")?;
            match ext {
                SOURCE_INFO => put.source_info = Some(Box::new(read_source_info(r)?)),
                shm::MARKER => put.shm = shm::accept(r, "PUT Shm extension")?,
                ATTACHMENT => put.attachment = Some(r.zbytes(u64::from(u32::MAX), "PUT attachment")?),
                _ => keep_unknown(&mut put.extensions, ext, r, "PUT extension")?,
            }
        }
        put.payload = if put.shm {
            shm::read_slices(r, "PUT payload")?.into()
        } else {
            r.zbytes(u64::from(u32::MAX), "PUT payload")?.into()
        };
        Ok(put)
    }

    #[inline]
    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.source_info.is_some())
                + usize::from(self.shm)
                + usize::from(self.attachment.is_some())
                + self.extensions.len(),
        );
        let e = if self.encoding.is_default() { 0 } else { E };
        let t = if self.timestamp.is_some() { T } else { 0 };
        sink.put_u8(ID | chain.flag() | e | t);
        if let Some(timestamp) = &self.timestamp {
            put_timestamp(sink, timestamp);
        }
        if e != 0 {
            put_encoding(sink, &self.encoding);
        }
        if let Some(info) = &self.source_info {
            put_source_info(sink, &mut chain, info);
        }
        if self.shm {
            chain.header(sink, shm::MARKER);
        }
        if let Some(attachment) = &self.attachment {
            chain.zbuf(sink, ATTACHMENT, attachment);
        }
        chain.unknown(sink, &self.extensions);
        if !self.shm {
            put_vle(sink, self.payload.len() as u64);
        }
        self.payload.encode(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        ExtBody, NetworkMessage, Push, PushBody, WireExpr,
        testing::{both_ways, kind, network},
    };
    use super::*;
    use crate::{
        error::DecodeErrorKind,
        zenoh::{Ntp64, ZenohId},
    };

    /// In the shortest PUSH.
    fn check(hex: &str, put: Put) {
        let push = Push::new(WireExpr::EMPTY, PushBody::Put(put));
        both_ways(&format!("5d 00 {hex}"), &NetworkMessage::Push(push));
    }

    #[test]
    fn each_flag_and_extension() {
        check("01 00", Put::default());
        check("01 02 6869", Put::new("hi"));
        let timestamp = Timestamp { time: Ntp64(300), id: ZenohId::new(1).unwrap() };
        check("21 ac02 01 01 00", Put { timestamp: Some(timestamp), ..Put::default() });
        check("41 08 00", Put { encoding: Encoding { id: 4, schema: None }, ..Put::default() });
        let schema = Some(Box::default());
        check("41 01 00 00", Put { encoding: Encoding { id: 0, schema }, ..Put::default() });
        let info = SourceInfo { zid: ZenohId::new(1).unwrap(), eid: 2, sn: 3 };
        check("81 41 04 00010203 00", Put { source_info: Some(Box::new(info)), ..Put::default() });
        // "Present but empty is distinct from absent."
        check("81 43 00 00", Put { attachment: Some(Bytes::new()), ..Put::default() });
        let extensions = vec![UnknownExt { id: 14, body: ExtBody::Unit }];
        check(
            "81 c1 04 00010203 c3 01 61 0e 00",
            Put {
                source_info: Some(Box::new(info)),
                attachment: Some(Bytes::from_static(b"a")),
                extensions,
                ..Put::default()
            },
        );
    }

    #[test]
    fn longest_forms() {
        let id = ZenohId::new(u128::MAX).unwrap();
        let timestamp = Timestamp { time: Ntp64(u64::MAX), id };
        let ones = "ff".repeat(16);
        check(
            &format!("21 {} 10 {ones} 00", "ff".repeat(9)),
            Put { timestamp: Some(timestamp), ..Put::default() },
        );
        let schema = Some(Box::new(Bytes::from(vec![0xff; 255])));
        check(
            &format!("41 ffff07 ff01 {} 00", "ff".repeat(255)),
            Put { encoding: Encoding { id: 65_535, schema }, ..Put::default() },
        );
        let info = SourceInfo { zid: id, eid: u32::MAX, sn: u32::MAX };
        check(
            &format!("81 41 1b f0 {ones} ffffffff0f ffffffff0f 00"),
            Put { source_info: Some(Box::new(info)), ..Put::default() },
        );
    }

    #[test]
    fn bounds() {
        let put = |hex: &str| network(&format!("5d 00 {hex}"));
        for (hex, expected) in [
            // Timestamp id of length 0 and 17, and of zeros.
            ("21 01 00 00", DecodeErrorKind::Illegal { value: 0 }),
            ("21 01 11 00", DecodeErrorKind::Illegal { value: 17 }),
            ("21 01 01 00 00", DecodeErrorKind::Illegal { value: 0 }),
            // Encoding word above 2^32-1, schema of 256 bytes.
            ("41 8080808010 00", DecodeErrorKind::OutOfRange { value: 1 << 32, bound: u32::MAX.into() }),
            ("41 01 8002 00", DecodeErrorKind::OutOfRange { value: 256, bound: 255 }),
            // Payload past the end, and above 2^32-1.
            ("01 02 68", DecodeErrorKind::Truncated { needed: 1 }),
            ("01 8080808010", DecodeErrorKind::OutOfRange { value: 1 << 32, bound: u32::MAX.into() }),
            // Contents of SourceInfo that do not fill it, or do not fit.
            ("81 41 05 00010203 ff 00", DecodeErrorKind::TrailingBytes { left: 1 }),
            ("81 41 03 00010203 00", DecodeErrorKind::Truncated { needed: 1 }),
        ] {
            assert_eq!(kind(put(hex)), expected, "{hex}");
        }
    }

    /// "The id itself is then truncated to 16 bits (70 000 becomes 4 464)."
    #[test]
    fn an_encoding_id_above_16_bits_is_truncated() {
        assert_eq!(network("5d 00 41 e0c508 00"), network("5d 00 41 e045 00"));
    }

    #[test]
    fn shared_memory_is_refused_unless_it_is_dissected() {
        use crate::buf::Reader;
        let hex = "5d 00 81 12 01 01 02 aabb";
        assert_eq!(kind(network(hex)), DecodeErrorKind::SharedMemory);
        let bytes = super::super::testing::unhex(hex);
        let mut r = Reader::new(&bytes).with_shared_memory();
        let message = NetworkMessage::decode(&mut r).unwrap();
        let mut out = Vec::new();
        message.encode(&mut out);
        assert_eq!(out, bytes[..]);
    }
}
