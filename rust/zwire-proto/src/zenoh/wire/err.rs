//! ERR, id 0x05 in RESPONSE (`zenoh-wire` 5.5).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|E|X|   ERR   |   Z: extensions, E: encoding
//! +-+-+-+---------+
//! ~   encoding    ~   if E
//! ~  extensions   ~   if Z: SourceInfo 0x41, Shm 0x12 (Unit, mandatory)
//! ~ payload <z32> ~
//! +---------------+
//! ```

use super::{
    common::{SOURCE_INFO, SourceInfo, put_encoding, put_source_info, read_encoding, read_source_info},
    ext::{Chain, UnknownExt, Z, keep_unknown, read_header},
    shm,
};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::Result,
    zenoh::{Encoding, Payload},
};

pub(super) const ID: u8 = 0x05;
const E: u8 = 0x40;

/// An error instead of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Err {
    /// Encoding of the payload.
    pub encoding: Encoding,
    /// Entity that made it.
    pub source_info: Option<SourceInfo>,
    /// Whether it is marked as a payload in shared memory, though it is inline.
    pub shm: bool,
    /// Unknown extensions, kept for the next hop.
    pub extensions: Vec<UnknownExt>,
    /// Description of the error, in the format of `encoding`.
    pub payload: Payload,
}

impl Err {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let encoding = if header & E == 0 { Encoding::DEFAULT } else { read_encoding(r)? };
        let mut err = Self { encoding, ..Self::default() };
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "ERR extension")?;
            match ext {
                SOURCE_INFO => err.source_info = Some(read_source_info(r)?),
                shm::MARKER => err.shm = shm::accept(r, "ERR Shm extension")?,
                _ => keep_unknown(&mut err.extensions, ext, r, "ERR extension")?,
            }
        }
        // The marker changes nothing here: unlike in PUT, Eclipse Zenoh keeps the payload inline.
        err.payload = r.zbytes(u64::from(u32::MAX), "ERR payload")?.into();
        Ok(err)
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.source_info.is_some()) + usize::from(self.shm) + self.extensions.len(),
        );
        let e = if self.encoding.is_default() { 0 } else { E };
        sink.put_u8(ID | chain.flag() | e);
        if e != 0 {
            put_encoding(sink, &self.encoding);
        }
        if let Some(info) = &self.source_info {
            put_source_info(sink, &mut chain, info);
        }
        if self.shm {
            chain.header(sink, shm::MARKER);
        }
        chain.unknown(sink, &self.extensions);
        put_vle(sink, self.payload.len() as u64);
        self.payload.encode(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        NetworkMessage, Response, ResponseBody, WireExpr,
        testing::{both_ways, kind, network, unhex},
    };
    use super::*;
    use crate::{
        error::DecodeErrorKind,
        zenoh::{Qos, ZenohId},
    };
    use bytes::Bytes;

    /// In the shortest RESPONSE.
    fn check(hex: &str, err: Err) {
        let response = Response {
            id: 0,
            key: WireExpr::EMPTY,
            qos: Qos::DEFAULT,
            timestamp: None,
            responder: None,
            ts_stack: None,
            body: ResponseBody::Err(err),
        };
        both_ways(&format!("5b 00 00 {hex}"), &NetworkMessage::Response(response));
    }

    #[test]
    fn each_flag_and_extension() {
        check("05 00", Err::default());
        check(
            "45 08 01 78",
            Err {
                encoding: Encoding { id: 4, schema: None },
                payload: Bytes::from_static(b"x").into(),
                ..Err::default()
            },
        );
        let info = SourceInfo { zid: ZenohId::new(1).unwrap(), eid: 2, sn: 3 };
        check("85 41 04 00010203 00", Err { source_info: Some(info), ..Err::default() });
    }

    /// As eclipse-zenoh 1.10.2 sends it between default sessions of one host: 200000 bytes behind the
    /// marker, all of them inline.
    #[test]
    fn behind_the_marker_of_shared_memory_the_payload_is_inline() {
        let hex = "5b 00 00 c5 08 12 03 616263";
        let bytes = unhex(hex);
        let mut r = Reader::new(&bytes).with_shared_memory();
        let message = NetworkMessage::decode(&mut r).unwrap();
        assert!(r.is_empty());
        let NetworkMessage::Response(Response { body: ResponseBody::Err(err), .. }) = &message else {
            panic!("{message:?}")
        };
        assert_eq!((&err.payload[..], err.shm, err.encoding.id), (&b"abc"[..], true, 4));
        let mut out = Vec::new();
        message.encode(&mut out);
        assert_eq!(out, bytes[..]);
    }

    #[test]
    fn shared_memory_is_refused_and_the_reserved_bit_is_ignored() {
        assert_eq!(kind(network("5b 00 00 85 12 00")), DecodeErrorKind::SharedMemory);
        assert_eq!(network("5b 00 00 25 00"), network("5b 00 00 05 00"));
    }
}
