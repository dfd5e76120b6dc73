//! REQUEST, id 0x1c (`zenoh-wire` 4.4).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|M|N| REQUEST |
//! +-+-+-+---------+
//! %  request id   %   z32, scoped to this hop
//! ~   WireExpr    ~
//! ~  extensions   ~   if Z: QoS 0x21, Timestamp 0x42, Target 0x34 (mandatory), Budget 0x25,
//! ~               ~         Timeout 0x26, NodeId 0x33 (mandatory), TsStack 0x47
//! ~     QUERY     ~
//! +---------------+
//! ```

use super::{
    common::{
        NODE_ID, QOS, TIMESTAMP, TS_STACK, TsStack, put_timestamp_ext, put_ts_stack, read_node_id, read_qos,
        read_timestamp_ext, read_ts_stack,
    },
    ext::{Chain, Z, read_header, skip_unknown},
    query::{self, Query},
    wire_expr::WireExpr,
};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::{DecodeErrorKind, Result},
    zenoh::{Qos, Timestamp},
};
use core::num::NonZeroU32;

pub(super) const ID: u8 = 0x1c;
const TARGET: u8 = 0x34;
const BUDGET: u8 = 0x25;
const TIMEOUT: u8 = 0x26;

/// Queryables to query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueryTarget {
    /// The nearest complete one, or all if none is complete.
    #[default]
    BestMatching,
    /// Every matching one.
    All,
    /// All complete ones with a key that includes the query's.
    AllComplete,
}

/// REQUEST: a query with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Id, chosen by the sender of this hop.
    pub id: u32,
    /// Key expression to query.
    pub key: WireExpr,
    /// Priority, congestion control, express; replies copy it.
    pub qos: Qos,
    /// Never sent by known implementations; kept unchanged.
    pub timestamp: Option<Box<Timestamp>>,
    /// Queryables to query.
    pub target: QueryTarget,
    /// Most replies wanted; carried, but not enforced by any implementation.
    pub budget: Option<NonZeroU32>,
    /// Timeout in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Same as in PUSH.
    pub node_id: u16,
    /// Instrumentation.
    pub ts_stack: Option<Box<TsStack>>,
    /// The question.
    pub query: Query,
}

impl Request {
    /// A request with the usual QoS and default options.
    #[must_use]
    pub const fn new(id: u32, key: WireExpr, query: Query) -> Self {
        Self {
            id,
            key,
            qos: Qos::REQUEST,
            timestamp: None,
            target: QueryTarget::BestMatching,
            budget: None,
            timeout_ms: None,
            node_id: 0,
            ts_stack: None,
            query,
        }
    }

    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let id = r.z32("REQUEST id")?;
        let key = WireExpr::decode(header, r, "REQUEST key")?;
        let mut request = Self { qos: Qos::DEFAULT, ..Self::new(id, key, Query::default()) };
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "REQUEST extension")?;
            match ext {
                QOS => request.qos = read_qos(r)?,
                TIMESTAMP => request.timestamp = Some(Box::new(read_timestamp_ext(r)?)),
                TARGET => {
                    let offset = r.offset();
                    request.target = match r.vle("REQUEST target")? {
                        0 => QueryTarget::BestMatching,
                        1 => QueryTarget::All,
                        2 => QueryTarget::AllComplete,
                        value => {
                            let kind = DecodeErrorKind::OutOfRange { value, bound: 2 };
                            return Err(r.error("REQUEST target", offset, kind));
                        }
                    };
                }
                BUDGET => request.budget = NonZeroU32::new(r.z32("REQUEST budget")?),
                TIMEOUT => request.timeout_ms = Some(r.vle("REQUEST timeout")?),
                NODE_ID => request.node_id = read_node_id(r)?,
                TS_STACK => request.ts_stack = Some(read_ts_stack(r)?),
                _ => skip_unknown(ext, r, "REQUEST extension")?,
            }
        }
        let offset = r.offset();
        let header = r.u8("REQUEST body")?;
        match header & super::header::ID_MASK {
            query::ID => request.query = Query::decode(header, r)?,
            id => return Err(r.error("REQUEST body", offset, DecodeErrorKind::UnknownId { id })),
        }
        Ok(request)
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.qos != Qos::DEFAULT)
                + usize::from(self.timestamp.is_some())
                + usize::from(self.target != QueryTarget::BestMatching)
                + usize::from(self.budget.is_some())
                + usize::from(self.timeout_ms.is_some())
                + usize::from(self.node_id != 0)
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
        match self.target {
            QueryTarget::BestMatching => {}
            QueryTarget::All => chain.z64(sink, TARGET, 1),
            QueryTarget::AllComplete => chain.z64(sink, TARGET, 2),
        }
        if let Some(budget) = self.budget {
            chain.z64(sink, BUDGET, u64::from(budget.get()));
        }
        if let Some(timeout) = self.timeout_ms {
            chain.z64(sink, TIMEOUT, timeout);
        }
        if self.node_id != 0 {
            chain.z64(sink, NODE_ID, u64::from(self.node_id));
        }
        if let Some(stack) = &self.ts_stack {
            put_ts_stack(sink, &mut chain, stack);
        }
        self.query.encode(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        NetworkMessage,
        testing::{both_ways, kind, network},
    };
    use super::*;
    use crate::zenoh::{Ntp64, ZenohId};

    fn check(hex: &str, request: Request) {
        both_ways(hex, &NetworkMessage::Request(request));
    }

    fn plain(id: u32) -> Request {
        Request { qos: Qos::DEFAULT, ..Request::new(id, WireExpr::EMPTY, Query::default()) }
    }

    #[test]
    fn each_flag_and_extension() {
        check("5c 00 00 03", plain(0));
        check("5c ffffffff0f 00 03", plain(u32::MAX));
        check("7c 01 00 01 71 03", Request { key: WireExpr::full("q"), ..plain(1) });
        check("dc 01 00 21 0d 03", Request::new(1, WireExpr::EMPTY, Query::default()));
        check("dc 01 00 34 01 03", Request { target: QueryTarget::All, ..plain(1) });
        check("dc 01 00 34 02 03", Request { target: QueryTarget::AllComplete, ..plain(1) });
        check("dc 01 00 25 05 03", Request { budget: NonZeroU32::new(5), ..plain(1) });
        check("dc 01 00 26 00 03", Request { timeout_ms: Some(0), ..plain(1) });
        check("dc 01 00 33 07 03", Request { node_id: 7, ..plain(1) });
        let timestamp = Timestamp { time: Ntp64(1), id: ZenohId::new(2).unwrap() };
        check("dc 01 00 42 03 010102 03", Request { timestamp: Some(Box::new(timestamp)), ..plain(1) });
        let stack = TsStack { flags: 4, records: Vec::new() };
        let all = Request {
            qos: Qos::REQUEST,
            timestamp: Some(Box::new(timestamp)),
            target: QueryTarget::All,
            budget: NonZeroU32::new(5),
            timeout_ms: Some(2000),
            node_id: 7,
            ts_stack: Some(Box::new(stack)),
            ..plain(1)
        };
        check("dc 01 00 a1 0d c2 03 010102 b4 01 a5 05 a6 d00f b3 07 47 02 0400 03", all);
    }

    #[test]
    fn bounds() {
        assert!(matches!(kind(network("5c 8080808010 00 03")), DecodeErrorKind::OutOfRange { .. }));
        assert_eq!(kind(network("dc 01 00 34 03 03")), DecodeErrorKind::OutOfRange { value: 3, bound: 2 });
        assert_eq!(kind(network("5c 01 00 01 00")), DecodeErrorKind::UnknownId { id: 1 });
        // A budget of 0 is treated as absent; an explicit best matching is legal.
        assert_eq!(network("dc 01 00 a5 00 34 00 03"), network("5c 01 00 03"));
    }
}
