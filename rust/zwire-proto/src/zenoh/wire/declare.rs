//! DECLARE, id 0x1e, and its declarations (`zenoh-wire` 4.7).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|X|I| DECLARE |   I: answers the interest with that id
//! +-+-+-+---------+
//! %  interest id  %   if I; z32
//! ~  extensions   ~   if Z: QoS 0x21, Timestamp 0x42, NodeId 0x33 (mandatory)
//! ~  declaration  ~
//! +---------------+
//! ```
//!
//! | id | Declaration | flags | fields |
//! | --- | --- | --- | --- |
//! | 0x00 | D_KEYEXPR | Z, X, N | id z16, WireExpr without M |
//! | 0x01 | U_KEYEXPR | Z | id z16 |
//! | 0x02, 0x04, 0x06 | D_SUBSCRIBER, D_QUERYABLE, D_TOKEN | Z, M, N | id z32, WireExpr, extensions |
//! | 0x03, 0x05, 0x07 | U_SUBSCRIBER, U_QUERYABLE, U_TOKEN | Z | id z32, extensions |
//! | 0x1a | D_FINAL | Z | |

use super::{
    common::{NODE_ID, QOS, TIMESTAMP, put_timestamp_ext, read_node_id, read_qos, read_timestamp_ext},
    ext::{Chain, Z, read_header, skip_chain, skip_unknown, zbuf},
    wire_expr::{Mapping, N, WireExpr},
};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::{DecodeErrorKind, Result},
    zenoh::{Qos, Timestamp},
};

pub(super) const ID: u8 = 0x1e;
const I: u8 = 0x20;
const D_KEYEXPR: u8 = 0x00;
const U_KEYEXPR: u8 = 0x01;
const D_SUBSCRIBER: u8 = 0x02;
const U_SUBSCRIBER: u8 = 0x03;
const D_QUERYABLE: u8 = 0x04;
const U_QUERYABLE: u8 = 0x05;
const D_TOKEN: u8 = 0x06;
const U_TOKEN: u8 = 0x07;
const D_FINAL: u8 = 0x1a;
/// QueryableInfo on D_QUERYABLE, Z64: bit 0 complete, bits 23:8 distance.
const INFO: u8 = 0x21;
/// WireExpr on U_*, ZBuf, mandatory.
const WIRE_EXPR: u8 = 0x5f;

/// Properties of a queryable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueryableInfo {
    /// Whether it knows every value of its key expression.
    pub complete: bool,
    /// Number of hops to it.
    pub distance: u16,
}

impl QueryableInfo {
    const fn to_wire(self) -> u64 {
        self.complete as u64 | (self.distance as u64) << 8
    }

    #[allow(clippy::cast_possible_truncation, reason = "bits 23:8, the others are ignored")]
    const fn from_wire(value: u64) -> Self {
        Self { complete: value & 1 != 0, distance: (value >> 8) as u16 }
    }
}

/// Entity that appears or disappears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declaration {
    /// D_KEYEXPR: a number for a key string, from now on a scope in the sender's table.
    KeyExpr {
        /// 1..65535.
        id: u16,
        /// Key; sent with scope 0 and a full suffix: nested prefixes are ambiguous.
        key: WireExpr,
    },
    /// U_KEYEXPR.
    UndeclareKeyExpr {
        /// The number that becomes free.
        id: u16,
    },
    /// D_SUBSCRIBER.
    Subscriber {
        /// Unique per link, direction and kind; 0 between routers.
        id: u32,
        /// Key expression of the subscriber.
        key: WireExpr,
    },
    /// U_SUBSCRIBER.
    UndeclareSubscriber {
        /// Id of the subscriber.
        id: u32,
        /// Its key, if the id is 0 or unknown to the receiver; the empty key means the id.
        key: Option<WireExpr>,
    },
    /// D_QUERYABLE.
    Queryable {
        /// Unique per link, direction and kind; 0 between routers.
        id: u32,
        /// Key expression of the queryable.
        key: WireExpr,
        /// Properties of the queryable.
        info: QueryableInfo,
    },
    /// U_QUERYABLE.
    UndeclareQueryable {
        /// Id of the queryable.
        id: u32,
        /// Same as in U_SUBSCRIBER.
        key: Option<WireExpr>,
    },
    /// D_TOKEN.
    Token {
        /// Unique per link, direction and kind; 0 in an answer to a Current-only interest.
        id: u32,
        /// Key of the token.
        key: WireExpr,
    },
    /// U_TOKEN.
    UndeclareToken {
        /// Id of the token.
        id: u32,
        /// Same as in U_SUBSCRIBER.
        key: Option<WireExpr>,
    },
    /// D_FINAL: all current declarations that match the interest were sent.
    Final,
}

/// DECLARE message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declare {
    /// The interest that this answers; 0 in the initial D_FINAL between peers.
    pub interest_id: Option<u32>,
    /// Control and Block from all implementations but zenoh-pico, which leaves it out.
    pub qos: Qos,
    /// Never sent by known implementations; kept unchanged.
    pub timestamp: Option<Box<Timestamp>>,
    /// Same as in PUSH.
    pub node_id: u16,
    /// The declaration.
    pub body: Declaration,
}

impl Declare {
    /// A declaration with the usual QoS, optionally as the answer to an interest.
    #[must_use]
    pub const fn new(interest_id: Option<u32>, body: Declaration) -> Self {
        Self { interest_id, qos: Qos::DECLARE, timestamp: None, node_id: 0, body }
    }

    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let interest_id = if header & I == 0 { None } else { Some(r.z32("DECLARE interest id")?) };
        let (mut qos, mut timestamp, mut node_id) = (Qos::DEFAULT, None, 0);
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "DECLARE extension")?;
            match ext {
                QOS => qos = read_qos(r)?,
                TIMESTAMP => timestamp = Some(Box::new(read_timestamp_ext(r)?)),
                NODE_ID => node_id = read_node_id(r)?,
                _ => skip_unknown(ext, r, "DECLARE extension")?,
            }
        }
        Ok(Self { interest_id, qos, timestamp, node_id, body: Declaration::decode(r)? })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.qos != Qos::DEFAULT)
                + usize::from(self.timestamp.is_some())
                + usize::from(self.node_id != 0),
        );
        sink.put_u8(ID | chain.flag() | if self.interest_id.is_some() { I } else { 0 });
        if let Some(id) = self.interest_id {
            put_vle(sink, u64::from(id));
        }
        if self.qos != Qos::DEFAULT {
            chain.z64(sink, QOS, u64::from(self.qos.0));
        }
        if let Some(timestamp) = &self.timestamp {
            put_timestamp_ext(sink, &mut chain, timestamp);
        }
        if self.node_id != 0 {
            chain.z64(sink, NODE_ID, u64::from(self.node_id));
        }
        self.body.encode(sink);
    }
}

impl Declaration {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let offset = r.offset();
        let header = r.u8("declaration")?;
        Ok(match header & super::header::ID_MASK {
            D_KEYEXPR => {
                let id = r.z16("D_KEYEXPR id")?;
                // There is no M here: the declaration fills the sender's own table.
                let mut key = WireExpr::decode(header & !super::wire_expr::M, r, "D_KEYEXPR key")?;
                key.mapping = Mapping::Sender;
                skip_chain(header, r, "D_KEYEXPR extension")?;
                Self::KeyExpr { id, key }
            }
            U_KEYEXPR => {
                let id = r.z16("U_KEYEXPR id")?;
                skip_chain(header, r, "U_KEYEXPR extension")?;
                Self::UndeclareKeyExpr { id }
            }
            D_SUBSCRIBER => {
                let id = r.z32("D_SUBSCRIBER id")?;
                let key = WireExpr::decode(header, r, "D_SUBSCRIBER key")?;
                skip_chain(header, r, "D_SUBSCRIBER extension")?;
                Self::Subscriber { id, key }
            }
            D_QUERYABLE => {
                let id = r.z32("D_QUERYABLE id")?;
                let key = WireExpr::decode(header, r, "D_QUERYABLE key")?;
                let mut info = QueryableInfo::default();
                let mut more = header & Z != 0;
                while more {
                    let ext;
                    (ext, more) = read_header(r, "D_QUERYABLE extension")?;
                    match ext {
                        INFO => info = QueryableInfo::from_wire(r.vle("QueryableInfo extension")?),
                        _ => skip_unknown(ext, r, "D_QUERYABLE extension")?,
                    }
                }
                Self::Queryable { id, key, info }
            }
            D_TOKEN => {
                let id = r.z32("D_TOKEN id")?;
                let key = WireExpr::decode(header, r, "D_TOKEN key")?;
                skip_chain(header, r, "D_TOKEN extension")?;
                Self::Token { id, key }
            }
            U_SUBSCRIBER => {
                let (id, key) = undeclare(header, r, "U_SUBSCRIBER id")?;
                Self::UndeclareSubscriber { id, key }
            }
            U_QUERYABLE => {
                let (id, key) = undeclare(header, r, "U_QUERYABLE id")?;
                Self::UndeclareQueryable { id, key }
            }
            U_TOKEN => {
                let (id, key) = undeclare(header, r, "U_TOKEN id")?;
                Self::UndeclareToken { id, key }
            }
            D_FINAL => {
                skip_chain(header, r, "D_FINAL extension")?;
                Self::Final
            }
            id => return Err(r.error("declaration", offset, DecodeErrorKind::UnknownId { id })),
        })
    }

    fn encode(&self, sink: &mut impl Sink) {
        match self {
            Self::KeyExpr { id, key } => {
                sink.put_u8(D_KEYEXPR | key.flags() & N);
                put_vle(sink, u64::from(*id));
                key.encode(sink);
            }
            Self::UndeclareKeyExpr { id } => {
                sink.put_u8(U_KEYEXPR);
                put_vle(sink, u64::from(*id));
            }
            Self::Subscriber { id, key } => put_declare(sink, D_SUBSCRIBER, *id, key),
            Self::Queryable { id, key, info } => {
                let mut chain = Chain::new(usize::from(*info != QueryableInfo::default()));
                put_declare(sink, D_QUERYABLE | chain.flag(), *id, key);
                if *info != QueryableInfo::default() {
                    chain.z64(sink, INFO, info.to_wire());
                }
            }
            Self::Token { id, key } => put_declare(sink, D_TOKEN, *id, key),
            Self::UndeclareSubscriber { id, key } => put_undeclare(sink, U_SUBSCRIBER, *id, key.as_ref()),
            Self::UndeclareQueryable { id, key } => put_undeclare(sink, U_QUERYABLE, *id, key.as_ref()),
            Self::UndeclareToken { id, key } => put_undeclare(sink, U_TOKEN, *id, key.as_ref()),
            Self::Final => sink.put_u8(D_FINAL),
        }
    }
}

fn undeclare(header: u8, r: &mut Reader<'_>, reading: &'static str) -> Result<(u32, Option<WireExpr>)> {
    let id = r.z32(reading)?;
    let mut key = None;
    let mut more = header & Z != 0;
    while more {
        let ext;
        (ext, more) = read_header(r, reading)?;
        match ext {
            WIRE_EXPR => key = Some(WireExpr::decode_ext(&mut zbuf(r, "WireExpr extension")?)?),
            _ => skip_unknown(ext, r, reading)?,
        }
    }
    Ok((id, key))
}

fn put_declare(sink: &mut impl Sink, message: u8, id: u32, key: &WireExpr) {
    sink.put_u8(message | key.flags());
    put_vle(sink, u64::from(id));
    key.encode(sink);
}

fn put_undeclare(sink: &mut impl Sink, message: u8, id: u32, key: Option<&WireExpr>) {
    let mut chain = Chain::new(usize::from(key.is_some()));
    sink.put_u8(message | chain.flag());
    put_vle(sink, u64::from(id));
    if let Some(key) = key {
        chain.header(sink, WIRE_EXPR);
        key.encode_ext(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        NetworkMessage,
        testing::{both_ways, kind, network},
    };
    use super::*;

    /// A DECLARE without QoS, as zenoh-pico sends it.
    fn check(hex: &str, body: Declaration) {
        let declare = Declare { qos: Qos::DEFAULT, ..Declare::new(None, body) };
        both_ways(&format!("1e {hex}"), &NetworkMessage::Declare(declare));
    }

    fn key(scope: u16, mapping: Mapping, suffix: &str) -> WireExpr {
        WireExpr { scope, mapping, suffix: suffix.into() }
    }

    #[test]
    fn each_declaration() {
        use Mapping::{Receiver, Sender};
        check("00 ffff03 05", Declaration::KeyExpr { id: 65_535, key: key(5, Sender, "") });
        check("20 01 00 01 6b", Declaration::KeyExpr { id: 1, key: key(0, Sender, "k") });
        check("01 01", Declaration::UndeclareKeyExpr { id: 1 });
        check("02 01 05", Declaration::Subscriber { id: 1, key: key(5, Receiver, "") });
        check("62 ffffffff0f 05 01 6b", Declaration::Subscriber { id: u32::MAX, key: key(5, Sender, "k") });
        check("03 01", Declaration::UndeclareSubscriber { id: 1, key: None });
        let info = QueryableInfo { complete: true, distance: u16::MAX };
        check("c4 01 05 21 81feff07", Declaration::Queryable { id: 1, key: key(5, Sender, ""), info });
        let info = QueryableInfo::default();
        check("04 01 05", Declaration::Queryable { id: 1, key: key(5, Receiver, ""), info });
        check("85 01 5f 020000", Declaration::UndeclareQueryable { id: 1, key: Some(WireExpr::EMPTY) });
        check("46 01 05", Declaration::Token { id: 1, key: key(5, Sender, "") });
        let suffix = key(5, Sender, "/x");
        check("87 00 5f 0403052f78", Declaration::UndeclareToken { id: 0, key: Some(suffix) });
        check("1a", Declaration::Final);
    }

    #[test]
    fn each_flag_and_extension_of_declare() {
        let declare = |interest_id, qos, node_id| {
            let body = Declaration::Final;
            NetworkMessage::Declare(Declare { interest_id, qos, timestamp: None, node_id, body })
        };
        both_ways("3e 00 1a", &declare(Some(0), Qos::DEFAULT, 0));
        both_ways("be ac02 21 08 1a", &declare(Some(300), Qos::DECLARE, 0));
        both_ways("9e a1 08 33 ffff03 1a", &declare(None, Qos::DECLARE, 65_535));
    }

    #[test]
    fn an_unknown_declaration_is_an_error() {
        for id in (0x08..0x1a).chain(0x1b..0x20) {
            assert_eq!(kind(network(&format!("1e {id:02x} 00 00"))), DecodeErrorKind::UnknownId { id });
        }
    }

    /// "Since it is mandatory you must decode it": with another id it closes the link.
    #[test]
    fn extensions_of_declarations() {
        assert_eq!(network("1e 83 01 0e"), network("1e 03 01"));
        assert_eq!(network("1e 82 01 05 0e"), network("1e 02 01 05"));
        assert_eq!(network("1e 9a 0e"), network("1e 1a"));
        assert_eq!(
            kind(network("1e 83 01 5e 00")),
            DecodeErrorKind::UnknownMandatoryExtension { header: 0x5e }
        );
    }

    /// Bits 7:1 and above 23 of QueryableInfo are reserved.
    #[test]
    fn reserved_bits_of_queryable_info_are_ignored() {
        assert_eq!(network("1e 84 01 05 21 fe818080f001"), network("1e 04 01 05"));
    }
}
