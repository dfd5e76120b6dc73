//! REPLY, id 0x04 in RESPONSE (`zenoh-wire` 5.4).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|X|C|  REPLY  |   C: consolidation; no implementation sets C or Z
//! +-+-+-+---------+
//! % consolidation %   if C
//! ~  extensions   ~   if Z: none defined
//! ~  PUT or DEL   ~
//! +---------------+
//! ```

use super::{
    PushBody,
    ext::{Chain, UnknownExt, Z, keep_unknown, read_header},
    query::Consolidation,
};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::Result,
};

pub(super) const ID: u8 = 0x04;
const C: u8 = 0x20;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Never set by known implementations; kept unchanged.
    pub consolidation: Consolidation,
    /// Unknown extensions. zenoh-pico fails on any, so zwire never adds one.
    pub extensions: Vec<UnknownExt>,
    /// The sample.
    pub body: PushBody,
}

impl Reply {
    /// A reply in the usual form.
    #[must_use]
    pub const fn new(body: PushBody) -> Self {
        Self { consolidation: Consolidation::Auto, extensions: Vec::new(), body }
    }

    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let consolidation = if header & C == 0 {
            Consolidation::Auto
        } else {
            Consolidation::from_wire(r.vle("REPLY consolidation")?)
        };
        let mut extensions = Vec::new();
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "REPLY extension")?;
            keep_unknown(&mut extensions, ext, r, "REPLY extension")?;
        }
        Ok(Self { consolidation, extensions, body: PushBody::decode(r, "REPLY body")? })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(self.extensions.len());
        let c = if self.consolidation == Consolidation::Auto { 0 } else { C };
        sink.put_u8(ID | chain.flag() | c);
        if c != 0 {
            put_vle(sink, self.consolidation.to_wire());
        }
        chain.unknown(sink, &self.extensions);
        self.body.encode(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Del, ExtBody, NetworkMessage, Response, ResponseBody, WireExpr,
        testing::{both_ways, kind, network},
    };
    use super::*;
    use crate::{error::DecodeErrorKind, zenoh::Qos};

    fn check(hex: &str, reply: Reply) {
        let response = Response {
            id: 0,
            key: WireExpr::EMPTY,
            qos: Qos::DEFAULT,
            timestamp: None,
            responder: None,
            ts_stack: None,
            body: ResponseBody::Reply(reply),
        };
        both_ways(&format!("5b 00 00 {hex}"), &NetworkMessage::Response(response));
    }

    #[test]
    fn each_flag() {
        let plain = Reply::new(PushBody::Del(Del::default()));
        check("04 02", plain.clone());
        check("24 02 02", Reply { consolidation: Consolidation::Monotonic, ..plain.clone() });
        let extensions = vec![UnknownExt { id: 1, body: ExtBody::Unit }];
        check("84 01 02", Reply { extensions, ..plain });
    }

    #[test]
    fn a_reply_holds_a_put_or_a_del() {
        assert_eq!(kind(network("5b 00 00 04 03")), DecodeErrorKind::UnknownId { id: 3 });
        assert_eq!(kind(network("5b 00 00 03")), DecodeErrorKind::UnknownId { id: 3 });
    }
}
