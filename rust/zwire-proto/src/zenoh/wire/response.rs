//! RESPONSE, id 0x1b (`zenoh-wire` 4.5).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|M|N|RESPONSE |
//! +-+-+-+---------+
//! %  request id   %   z32, of the REQUEST received on this link
//! ~   WireExpr    ~   the key of the sample; for ERR it may be empty
//! ~  extensions   ~   if Z: QoS 0x21, Timestamp 0x42, ResponderId 0x43, TsStack 0x47
//! ~ REPLY or ERR  ~
//! +---------------+
//! ```

use super::{
    common::{
        QOS, TIMESTAMP, TS_STACK, TsStack, entity_len, put_entity, put_timestamp_ext, put_ts_stack,
        read_entity, read_qos, read_timestamp_ext, read_ts_stack,
    },
    err::{self, Err},
    ext::{Chain, Z, read_header, skip_unknown, zbuf},
    reply::{self, Reply},
    wire_expr::WireExpr,
};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::{DecodeErrorKind, Result},
    zenoh::{Qos, Timestamp, ZenohId},
};

pub(super) const ID: u8 = 0x1b;
const RESPONDER_ID: u8 = 0x43;

/// The entity that replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResponderId {
    /// Node of the entity.
    pub zid: ZenohId,
    /// Number of the entity within the node; 0 for the node itself.
    pub eid: u32,
}

/// The data message of a RESPONSE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// A sample.
    Reply(Reply),
    /// An error.
    Err(Err),
}

/// RESPONSE: a reply or an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Id of the REQUEST received on this link.
    pub id: u32,
    /// The key of the sample.
    pub key: WireExpr,
    /// QoS of the request.
    pub qos: Qos,
    /// Never sent by known implementations; kept unchanged.
    pub timestamp: Option<Box<Timestamp>>,
    /// Entity that replied.
    pub responder: Option<ResponderId>,
    /// Instrumentation.
    pub ts_stack: Option<Box<TsStack>>,
    /// Content of the response.
    pub body: ResponseBody,
}

impl Response {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let id = r.z32("RESPONSE id")?;
        let key = WireExpr::decode(header, r, "RESPONSE key")?;
        let (mut qos, mut timestamp, mut responder, mut ts_stack) = (Qos::DEFAULT, None, None, None);
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "RESPONSE extension")?;
            match ext {
                QOS => qos = read_qos(r)?,
                TIMESTAMP => timestamp = Some(Box::new(read_timestamp_ext(r)?)),
                RESPONDER_ID => {
                    let mut inner = zbuf(r, "ResponderId extension")?;
                    let (zid, eid) = read_entity(&mut inner, "ResponderId extension")?;
                    inner.finish("ResponderId extension")?;
                    responder = Some(ResponderId { zid, eid });
                }
                TS_STACK => ts_stack = Some(read_ts_stack(r)?),
                _ => skip_unknown(ext, r, "RESPONSE extension")?,
            }
        }
        let offset = r.offset();
        let header = r.u8("RESPONSE body")?;
        let body = match header & super::header::ID_MASK {
            reply::ID => ResponseBody::Reply(Reply::decode(header, r)?),
            err::ID => ResponseBody::Err(Err::decode(header, r)?),
            id => return Err(r.error("RESPONSE body", offset, DecodeErrorKind::UnknownId { id })),
        };
        Ok(Self { id, key, qos, timestamp, responder, ts_stack, body })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.qos != Qos::DEFAULT)
                + usize::from(self.timestamp.is_some())
                + usize::from(self.responder.is_some())
                + usize::from(self.ts_stack.is_some()),
        );
        sink.put_u8(ID | chain.flag() | self.key.flags());
        put_vle(sink, u64::from(self.id));
        self.key.encode(sink);
        if self.qos != Qos::DEFAULT {
            chain.z64(sink, QOS, u64::from(self.qos.0));
        }
        if let Some(timestamp) = &self.timestamp {
            put_timestamp_ext(sink, &mut chain, timestamp);
        }
        if let Some(responder) = &self.responder {
            chain.header(sink, RESPONDER_ID);
            put_vle(sink, entity_len(responder.zid, responder.eid) as u64);
            put_entity(sink, responder.zid, responder.eid);
        }
        if let Some(stack) = &self.ts_stack {
            put_ts_stack(sink, &mut chain, stack);
        }
        match &self.body {
            ResponseBody::Reply(reply) => reply.encode(sink),
            ResponseBody::Err(err) => err.encode(sink),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        NetworkMessage,
        testing::{both_ways, kind, network},
    };
    use super::*;

    fn err() -> Response {
        Response {
            id: 1,
            key: WireExpr::EMPTY,
            qos: Qos::DEFAULT,
            timestamp: None,
            responder: None,
            ts_stack: None,
            body: ResponseBody::Err(Err::default()),
        }
    }

    #[test]
    fn each_flag_and_extension() {
        let check = |hex: &str, response: Response| both_ways(hex, &NetworkMessage::Response(response));
        check("5b 01 00 05 00", err());
        check("7b 01 00 01 71 05 00", Response { key: WireExpr::full("q"), ..err() });
        check("db 01 00 21 0d 05 00", Response { qos: Qos::REQUEST, ..err() });
        let responder = Some(ResponderId { zid: ZenohId::new(0x52).unwrap(), eid: 0 });
        check("db 01 00 43 03 005200 05 00", Response { responder, ..err() });
        let stack = TsStack { flags: 2, records: Vec::new() };
        let all = Response { qos: Qos::REQUEST, responder, ts_stack: Some(Box::new(stack)), ..err() };
        check("db 01 00 a1 0d c3 03 005200 47 02 0200 05 00", all);
    }

    /// Eclipse Zenoh ignores the declared length; zwire checks it.
    #[test]
    fn responder_id_must_fill_its_length() {
        assert_eq!(
            kind(network("db 01 00 43 04 005200ff 05 00")),
            DecodeErrorKind::TrailingBytes { left: 1 }
        );
        assert_eq!(kind(network("db 01 00 43 02 0052 05 00")), DecodeErrorKind::Truncated { needed: 1 });
    }
}
