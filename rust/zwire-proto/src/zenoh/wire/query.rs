//! QUERY, id 0x03 in REQUEST (`zenoh-wire` 5.3).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|P|C|  QUERY  |   Z: extensions, P: parameters, C: consolidation
//! +-+-+-+---------+
//! % consolidation %   if C; VLE, unknown values mean Auto
//! ~  parameters   ~   if P; <utf8;z>
//! ~  extensions   ~   if Z: SourceInfo 0x41, QueryBody 0x43, Attachment 0x45
//! +---------------+
//! ```
//!
//! QueryBody is an encoding and then the payload up to the end of the extension: no inner length.

use super::{
    common::{
        SOURCE_INFO, SourceInfo, encoding_len, put_encoding, put_source_info, read_encoding, read_source_info,
    },
    ext::{Chain, UnknownExt, Z, keep_unknown, read_header, zbuf},
    shm,
};
use crate::{
    Text,
    buf::{Reader, Sink, put_vle, put_zbytes},
    error::Result,
    zenoh::{Encoding, Payload},
};
use bytes::Bytes;

pub(super) const ID: u8 = 0x03;
const P: u8 = 0x40;
const C: u8 = 0x20;
const BODY: u8 = 0x43;
const ATTACHMENT: u8 = 0x45;

/// Consolidation of replies by the querying session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consolidation {
    /// Resolved by the querying session before it sends.
    #[default]
    Auto,
    /// All replies are delivered.
    None,
    /// A reply that is older than the last delivered one of its key is dropped.
    Monotonic,
    /// Only the newest of each key, at the end.
    Latest,
}

impl Consolidation {
    const ALL: [Self; 4] = [Self::Auto, Self::None, Self::Monotonic, Self::Latest];

    pub(super) const fn to_wire(self) -> u64 {
        self as u64
    }

    pub(super) fn from_wire(value: u64) -> Self {
        Self::ALL.into_iter().find(|known| known.to_wire() == value).unwrap_or_default()
    }
}

/// The value that a query carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryBody {
    /// Encoding of the payload; always on the wire.
    pub encoding: Encoding,
    /// Whether the payload describes shared memory.
    pub shm: bool,
    /// The value.
    pub payload: Payload,
}

/// Query to queryables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Consolidation of the querier; for information, other nodes ignore it.
    pub consolidation: Consolidation,
    /// Parameters: the part behind the `?` of the selector.
    pub parameters: Text,
    /// Entity that queries.
    pub source_info: Option<SourceInfo>,
    /// Value sent with the query.
    pub body: Option<QueryBody>,
    /// Attachment of the user.
    pub attachment: Option<Bytes>,
    /// Unknown extensions, kept for the next hop.
    pub extensions: Vec<UnknownExt>,
}

impl Query {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let consolidation = if header & C == 0 {
            Consolidation::Auto
        } else {
            Consolidation::from_wire(r.vle("QUERY consolidation")?)
        };
        let parameters = if header & P == 0 { Text::EMPTY } else { r.text(u64::MAX, "QUERY parameters")? };
        let mut query = Self { consolidation, parameters, ..Self::default() };
        let mut shm_body = false;
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "QUERY extension")?;
            match ext {
                SOURCE_INFO => query.source_info = Some(read_source_info(r)?),
                BODY if shm_body => {
                    // The declared length is that of the shared memory, not of these bytes: parsed in
                    // place.
                    r.z32("QUERY body")?;
                    let encoding = read_encoding(r)?;
                    let payload = shm::read_slices(r, "QUERY body")?.into();
                    query.body = Some(QueryBody { encoding, shm: true, payload });
                }
                BODY => {
                    let mut inner = zbuf(r, "QUERY body")?;
                    let encoding = read_encoding(&mut inner)?;
                    query.body = Some(QueryBody { encoding, shm: false, payload: inner.rest().into() });
                }
                ATTACHMENT => query.attachment = Some(r.zbytes(u64::from(u32::MAX), "QUERY attachment")?),
                // Not kept as unknown: it describes this chain and would be wrong in a chain written
                // here.
                shm::BODY_MARKER => shm_body = r.shared_memory(),
                _ => keep_unknown(&mut query.extensions, ext, r, "QUERY extension")?,
            }
        }
        Ok(query)
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let shm_body = self.body.as_ref().is_some_and(|b| b.shm);
        let mut chain = Chain::new(
            usize::from(self.source_info.is_some())
                + usize::from(self.body.is_some())
                + usize::from(shm_body)
                + usize::from(self.attachment.is_some())
                + self.extensions.len(),
        );
        let p = if self.parameters.is_empty() { 0 } else { P };
        let c = if self.consolidation == Consolidation::Auto { 0 } else { C };
        sink.put_u8(ID | chain.flag() | p | c);
        if c != 0 {
            put_vle(sink, self.consolidation.to_wire());
        }
        if p != 0 {
            put_zbytes(sink, self.parameters.as_bytes());
        }
        if let Some(info) = &self.source_info {
            put_source_info(sink, &mut chain, info);
        }
        if let Some(body) = &self.body {
            if shm_body {
                chain.header(sink, shm::BODY_MARKER);
            }
            chain.header(sink, BODY);
            put_vle(sink, (encoding_len(&body.encoding) + body.payload.len()) as u64);
            put_encoding(sink, &body.encoding);
            body.payload.encode(sink);
        }
        if let Some(attachment) = &self.attachment {
            chain.zbuf(sink, ATTACHMENT, attachment);
        }
        chain.unknown(sink, &self.extensions);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        NetworkMessage,
        testing::{kind, network, unhex},
    };
    use super::*;
    use crate::error::DecodeErrorKind;

    /// In the shortest REQUEST.
    fn query(hex: &str) -> Result<Query> {
        match network(&format!("1c 01 00 {hex}"))? {
            NetworkMessage::Request(request) => Ok(request.query),
            _ => unreachable!("the message is a REQUEST"),
        }
    }

    fn check(hex: &str, expected: &Query) {
        let mut out = Vec::new();
        expected.encode(&mut out);
        assert_eq!(out, unhex(hex)[..], "{expected:?}");
        assert_eq!(query(hex).as_ref(), Ok(expected));
    }

    #[test]
    fn each_flag() {
        check("03", &Query::default());
        check("23 03", &Query { consolidation: Consolidation::Latest, ..Query::default() });
        check("43 01 61", &Query { parameters: Text::from_static("a"), ..Query::default() });
        check("83 45 00", &Query { attachment: Some(Bytes::new()), ..Query::default() });
    }

    #[test]
    fn an_explicit_default_is_legal() {
        assert_eq!(query("23 00"), query("03"));
        assert_eq!(query("43 00"), query("03"));
    }

    /// "Unknown values are read as Auto", and the field is a VLE integer.
    #[test]
    fn unknown_consolidations_mean_auto() {
        for hex in ["23 04", "23 7f", "23 8002", "23 ffffffffffffffffff"] {
            assert_eq!(query(hex).unwrap().consolidation, Consolidation::Auto, "{hex}");
        }
    }

    #[test]
    fn the_body_needs_an_encoding_and_nothing_else() {
        let body = QueryBody::default();
        check("83 43 01 00", &Query { body: Some(body), ..Query::default() });
        assert_eq!(kind(query("83 43 00")), DecodeErrorKind::Truncated { needed: 1 });
    }

    /// The marker belongs to this chain alone: kept as unknown it would mark a body that is not
    /// written.
    #[test]
    fn the_marker_of_shared_memory_is_skipped() {
        let query = query("83 84 43 03 00 6869").unwrap();
        assert_eq!(query.extensions, []);
        assert_eq!(query.body.unwrap().payload, "hi");
    }

    /// Recorded between two sessions that share memory; the declared length of 4002 is that of the
    /// memory, only 11 bytes follow.
    #[test]
    fn a_dissector_reads_a_body_in_shared_memory() {
        let bytes = unhex("1c 01 00 83 84 43 a21f 00 01 01 07 a01ff4b1010000");
        let mut r = Reader::new(&bytes).with_shared_memory();
        let Ok(NetworkMessage::Request(request)) = NetworkMessage::decode(&mut r) else { panic!() };
        r.finish("test").unwrap();
        let body = request.query.body.unwrap();
        assert!(body.shm);
        assert_eq!(body.payload, unhex("01 01 07 a01ff4b1010000"));
        let bytes = unhex("1c 01 00 83 84 43 a21f 00 01 03 07 a01ff4b1010000");
        let error = NetworkMessage::decode(&mut Reader::new(&bytes).with_shared_memory()).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::UnknownId { id: 3 });
    }
}
