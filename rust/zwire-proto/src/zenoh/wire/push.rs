//! PUSH, id 0x1d (`zenoh-wire` 4.3).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|M|N|  PUSH   |   Z: extensions, M: scope of the sender, N: suffix
//! +-+-+-+---------+
//! ~   WireExpr    ~
//! ~  extensions   ~   if Z: QoS 0x21, Timestamp 0x42, NodeId 0x33 (mandatory), TsStack 0x47
//! ~  PUT or DEL   ~
//! +---------------+
//! ```

use super::{
    common::{
        NODE_ID, QOS, TIMESTAMP, TS_STACK, TsStack, put_timestamp_ext, put_ts_stack, read_node_id, read_qos,
        read_timestamp_ext, read_ts_stack,
    },
    del::{self, Del},
    ext::{Chain, Z, read_header, skip_unknown},
    put::{self, Put},
    wire_expr::{Mapping, N, WireExpr},
};
use crate::{
    Text,
    buf::{MAX_VLE_LEN, Reader, Sink, Words},
    error::{DecodeErrorKind, Result},
    zenoh::{Encoding, Ntp64, Qos, Timestamp, ZenohId},
};
use bytes::Bytes;

pub(super) const ID: u8 = 0x1d;

/// The data message of a PUSH or a REPLY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushBody {
    /// A value.
    Put(Put),
    /// A deletion.
    Del(Del),
}

impl PushBody {
    #[inline]
    pub(super) fn decode(r: &mut Reader<'_>, reading: &'static str) -> Result<Self> {
        let offset = r.offset();
        let header = r.u8(reading)?;
        match header & super::header::ID_MASK {
            put::ID => Put::decode(header, r).map(Self::Put),
            del::ID => Del::decode(header, r).map(Self::Del),
            id => Err(r.error(reading, offset, DecodeErrorKind::UnknownId { id })),
        }
    }

    #[inline]
    pub(super) fn encode(&self, sink: &mut impl Sink) {
        match self {
            Self::Put(put) => put.encode(sink),
            Self::Del(del) => del.encode(sink),
        }
    }

    /// The timestamp of either.
    #[must_use]
    pub const fn timestamp(&self) -> Option<&Timestamp> {
        match self {
            Self::Put(put) => put.timestamp.as_ref(),
            Self::Del(del) => del.timestamp.as_ref(),
        }
    }
}

/// The most frequent messages, with a fast codec: no extension but QoS, a PUT without schema and
/// extensions, a key of ASCII, integers of up to two bytes (four for the payload). A timestamp is
/// allowed, as messages forwarded by a router have one.
///
/// All fields are checked before the first is consumed, so that the message can be built at once in its
/// final place. The general decoder works in many steps, each of which may fail and therefore moves the
/// fields decoded so far.
pub(super) struct Plain<'a> {
    buf: &'a Bytes,
    header: u8,
    scope: u16,
    qos: Qos,
    timestamp: Option<Timestamp>,
    encoding: u16,
    suffix: &'a [u8],
    suffix_at: usize,
    payload_at: usize,
    payload_len: usize,
}

impl<'a> Plain<'a> {
    /// `r` is at the header byte. `None`: the message is not plain, or malformed; nothing was consumed.
    #[inline]
    pub(super) fn decode(r: &mut Reader<'a>) -> Option<Self> {
        let whole = r.ahead();
        let (&header, rest) = whole.split_first()?;
        if header & super::header::ID_MASK != ID {
            return None;
        }
        let (scope, mut rest) = short(rest)?;
        let (mut suffix, mut suffix_at) = (&rest[..0], 0);
        if header & N != 0 {
            let len;
            (len, rest) = short(rest)?;
            suffix_at = whole.len() - rest.len();
            (suffix, rest) = rest.split_at_checked(usize::from(len))?;
            if !suffix.is_ascii() {
                return None;
            }
        }
        let mut qos = Qos::DEFAULT;
        if header & Z != 0 {
            let [QOS, value @ 0..=0x7f, after @ ..] = rest else { return None };
            (qos, rest) = (Qos(*value), after);
        }
        let (&body, mut rest) = rest.split_first()?;
        if body & !(put::E | put::T) != put::ID {
            return None;
        }
        let mut timestamp = None;
        if body & put::T != 0 {
            let time;
            (time, rest) = long(rest)?;
            let (&len @ 1..=16, after) = rest.split_first()? else { return None };
            let (id, after) = after.split_at_checked(usize::from(len))?;
            timestamp = Some(Timestamp { time: Ntp64(time), id: ZenohId::from_wire(id)? });
            rest = after;
        }
        let mut encoding = 0;
        if body & put::E != 0 {
            (encoding, rest) = short(rest)?;
            // The lowest bit announces a schema.
            if encoding & 1 != 0 {
                return None;
            }
        }
        let (payload_len, rest) = length(rest)?;
        let payload_at = whole.len() - rest.len();
        let rest = rest.get(payload_len..)?;
        let (buf, start) = r.place();
        r.skip_to(rest);
        Some(Self {
            buf,
            header,
            scope,
            qos,
            timestamp,
            encoding: encoding >> 1,
            suffix,
            suffix_at: start + suffix_at,
            payload_at: start + payload_at,
            payload_len,
        })
    }

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "the point is to build the message where it is wanted")]
    pub(super) fn build(self) -> Push {
        Push {
            key: WireExpr {
                scope: self.scope,
                mapping: Mapping::of(self.header),
                suffix: Text::of_checked(self.buf, self.suffix_at, self.suffix),
            },
            qos: self.qos,
            timestamp: None,
            node_id: 0,
            ts_stack: None,
            body: PushBody::Put(Put {
                timestamp: self.timestamp,
                encoding: Encoding { id: self.encoding, schema: None },
                source_info: None,
                shm: false,
                attachment: None,
                extensions: Vec::new(),
                payload: self.buf.slice(self.payload_at..self.payload_at + self.payload_len).into(),
            }),
        }
    }
}

/// A VLE integer of one or two bytes, and the rest.
#[inline]
fn short(rest: &[u8]) -> Option<(u16, &[u8])> {
    match rest {
        [a, rest @ ..] if *a < 0x80 => Some((u16::from(*a), rest)),
        [a, b, rest @ ..] if *b < 0x80 => Some((u16::from(*a & 0x7f) | u16::from(*b) << 7, rest)),
        _ => None,
    }
}

/// A VLE integer of up to four bytes, and the rest.
#[inline]
fn length(rest: &[u8]) -> Option<(usize, &[u8])> {
    if let Some((len, rest)) = short(rest) {
        return Some((usize::from(len), rest));
    }
    match rest {
        [a, b, c, rest @ ..] if *c < 0x80 => {
            Some((usize::from(*a & 0x7f) | usize::from(*b & 0x7f) << 7 | usize::from(*c) << 14, rest))
        }
        [a, b, c, d, rest @ ..] if *d < 0x80 => {
            let low = usize::from(*a & 0x7f) | usize::from(*b & 0x7f) << 7;
            Some((low | usize::from(*c & 0x7f) << 14 | usize::from(*d) << 21, rest))
        }
        _ => None,
    }
}

/// A VLE integer, and the rest.
#[inline]
fn long(rest: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, &byte) in rest.iter().enumerate().take(MAX_VLE_LEN - 1) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((value, &rest[at + 1..]));
        }
    }
    // The last byte has eight bits.
    let (_, [last, rest @ ..]) = rest.split_at_checked(MAX_VLE_LEN - 1)? else { return None };
    Some((value | u64::from(*last) << (7 * (MAX_VLE_LEN - 1)), rest))
}

/// The longest suffix of a message that [`Push::encode_plain`] writes: its length is one byte.
const PLAIN_SUFFIX: usize = 127;

/// PUSH: a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// Key of the publication.
    pub key: WireExpr,
    /// Priority, congestion control, express.
    pub qos: Qos,
    /// Never sent by known implementations, ignored by receivers; kept unchanged.
    pub timestamp: Option<Box<Timestamp>>,
    /// The root of the tree that the message follows, in the sender's numbering; 0: the sender.
    pub node_id: u16,
    /// Instrumentation.
    pub ts_stack: Option<Box<TsStack>>,
    /// The data.
    pub body: PushBody,
}

impl Push {
    /// A publication with default options.
    #[must_use]
    pub const fn new(key: WireExpr, body: PushBody) -> Self {
        Self { key, qos: Qos::DEFAULT, timestamp: None, node_id: 0, ts_stack: None, body }
    }

    #[inline(never)]
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let key = WireExpr::decode(header, r, "PUSH key")?;
        let (mut qos, mut timestamp, mut node_id, mut ts_stack) = (Qos::DEFAULT, None, 0, None);
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "PUSH extension")?;
            match ext {
                QOS => qos = read_qos(r)?,
                TIMESTAMP => timestamp = Some(Box::new(read_timestamp_ext(r)?)),
                NODE_ID => node_id = read_node_id(r)?,
                TS_STACK => ts_stack = Some(read_ts_stack(r)?),
                _ => skip_unknown(ext, r, "PUSH extension")?,
            }
        }
        let body = PushBody::decode(r, "PUSH body")?;
        Ok(Self { key, qos, timestamp, node_id, ts_stack, body })
    }

    /// Encoder for the messages of [`Plain`]: fields between key, timestamp and payload are gathered in a register.
    /// Returns `false` if the message is not plain; nothing was written then.
    #[inline]
    pub(super) fn encode_plain(&self, sink: &mut impl Sink) -> bool {
        let PushBody::Put(put) = &self.body else { return false };
        let suffix = self.key.suffix.as_bytes();
        let rich = self.timestamp.is_some()
            | self.ts_stack.is_some()
            | put.encoding.schema.is_some()
            | put.source_info.is_some()
            | put.attachment.is_some()
            | !put.extensions.is_empty()
            | put.shm
            | (self.node_id != 0)
            | (suffix.len() > PLAIN_SUFFIX);
        if rich {
            return false;
        }
        let mut words = Words::new(sink);
        let plain_qos = self.qos == Qos::DEFAULT;
        words.u8(ID | if plain_qos { 0 } else { Z } | self.key.flags());
        words.vle(self.key.scope.into());
        if !suffix.is_empty() {
            words.vle(suffix.len() as u64);
            words.sink().put(suffix);
        }
        if !plain_qos {
            words.u8(QOS);
            words.vle(self.qos.0.into());
        }
        let t = if put.timestamp.is_some() { put::T } else { 0 };
        let e = if put.encoding.id == 0 { 0 } else { put::E };
        words.u8(put::ID | t | e);
        if let Some(Timestamp { time, id }) = &put.timestamp {
            words.vle(time.0);
            let len = id.wire_len();
            #[allow(clippy::cast_possible_truncation, reason = "at most 16")]
            words.u8(len as u8);
            words.sink().put(&id.to_le_bytes()[..len]);
        }
        if e != 0 {
            words.vle(u64::from(put.encoding.id) << 1);
        }
        words.vle(put.payload.len() as u64);
        put.payload.encode(words.sink());
        true
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.qos != Qos::DEFAULT)
                + usize::from(self.timestamp.is_some())
                + usize::from(self.node_id != 0)
                + usize::from(self.ts_stack.is_some()),
        );
        sink.put_u8(ID | chain.flag() | self.key.flags());
        self.key.encode(sink);
        if self.qos != Qos::DEFAULT {
            chain.z64(sink, QOS, u64::from(self.qos.0));
        }
        if let Some(timestamp) = &self.timestamp {
            put_timestamp_ext(sink, &mut chain, timestamp);
        }
        if self.node_id != 0 {
            chain.z64(sink, NODE_ID, u64::from(self.node_id));
        }
        if let Some(stack) = &self.ts_stack {
            put_ts_stack(sink, &mut chain, stack);
        }
        self.body.encode(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Mapping, NetworkMessage, TsRecord,
        testing::{both_ways, kind, network, unhex},
    };
    use super::*;
    use crate::zenoh::{Ntp64, ZenohId};

    fn check(hex: &str, push: Push) {
        both_ways(hex, &NetworkMessage::Push(push));
    }

    fn del(key: WireExpr) -> Push {
        Push::new(key, PushBody::Del(Del::default()))
    }

    #[test]
    fn each_flag() {
        let key = |mapping, suffix: &str| WireExpr { scope: 1, mapping, suffix: suffix.into() };
        check("1d 01 02", del(key(Mapping::Receiver, "")));
        check("3d 01 01 61 02", del(key(Mapping::Receiver, "a")));
        check("5d 01 02", del(key(Mapping::Sender, "")));
        check("7d 01 01 61 02", del(key(Mapping::Sender, "a")));
        check("dd 01 21 08 02", Push { qos: Qos(8), ..del(key(Mapping::Sender, "")) });
    }

    #[test]
    fn each_extension_in_the_order_of_the_reference() {
        let timestamp = Timestamp { time: Ntp64(1), id: ZenohId::new(2).unwrap() };
        let records = vec![TsRecord { flags: 0x81, bytes: unhex("ff") }];
        let push = Push {
            qos: Qos(0xff),
            timestamp: Some(Box::new(timestamp)),
            node_id: 3,
            ts_stack: Some(Box::new(TsStack { flags: 1, records })),
            ..del(WireExpr::EMPTY)
        };
        check("dd 00 a1 ff01 c2 03 010102 b3 03 47 05 01 01 81 01 ff 02", push);
    }

    #[test]
    fn the_order_is_free_and_of_duplicates_the_last_counts() {
        assert_eq!(network("dd 00 b3 03 21 08 02"), network("dd 00 a1 08 33 03 02"));
        assert_eq!(network("dd 00 a1 01 a1 08 33 03 02"), network("dd 00 a1 08 33 03 02"));
    }

    /// "The default value 0x05 is elided", an explicit one is legal; upper bits are forwarded.
    #[test]
    fn qos() {
        assert_eq!(network("dd 00 21 05 02"), network("5d 00 02"));
        assert_eq!(network("dd 00 21 8506 02"), network("dd 00 21 05 02"));
        check("dd 00 21 c501 02", Push { qos: Qos(0xc5), ..del(WireExpr::EMPTY) });
    }

    #[test]
    fn a_body_of_another_carrier_is_an_error() {
        for id in (0..0x20).filter(|id| ![1, 2].contains(id)) {
            assert_eq!(kind(network(&format!("5d 00 {id:02x} 00"))), DecodeErrorKind::UnknownId { id });
        }
    }

    #[test]
    fn a_ts_stack_must_be_whole() {
        assert_eq!(kind(network("dd 00 47 02 00 00 02")), DecodeErrorKind::Illegal { value: 0 });
        assert_eq!(kind(network("dd 00 47 03 01 00 ff 02")), DecodeErrorKind::TrailingBytes { left: 1 });
        assert!(matches!(kind(network("dd 00 47 03 01 8002 02")), DecodeErrorKind::OutOfRange { .. }));
        assert!(network("dd 00 47 02 01 00 02").is_ok());
    }

    /// Compares both decoders and both encoders on messages that are plain, nearly plain, and cut.
    #[test]
    fn the_plain_way_and_the_general_way_agree() {
        let mut plain = 0;
        let keys = ["00", "07", "8001", "808001"];
        let suffixes = ["", "00", "01 61", "02 c3a9", "02 c328", "17 @", "18 @", "40 @", "41 @", "8001 @"];
        let qos = ["", "21 00", "21 7f", "21 8001", "a1 08 33 03", "31 08"];
        let bodies = [
            "01 00",
            "01 02 6869",
            "01 20 @",
            "01 21 @",
            "01 8001 @",
            "01 8000",
            "01 03 68",
            "41 08 01 78",
            "41 09 00 00",
            "41 fe7f 00",
            "41 ffff07 00 00",
            "21 01 01 01 00",
            "21 01 02 0102 02 6869",
            "61 8001 01 07 08 02 6869",
            "61 8001 01 07 09 00 00",
            "21 ffffffffffffffffff 10 ffffffffffffffffffffffffffffffff 00",
            "21 808080808080808001 01 01 01 78",
            "21 8080808080808080 01 01 00",
            "21 01 01 00 00",
            "21 01 00 00",
            "21 01 11 ffffffffffffffffffffffffffffffffff 00",
            "21 01 04 0102",
            "21 ff",
            "21 01 02 0100 00",
            "81 43 00 00",
            "02",
            "03",
            "01 80808000",
            "01 8080808000",
        ];
        for (scope, suffix) in keys.iter().flat_map(|k| suffixes.map(|s| (*k, s))) {
            for (ext, body) in qos.iter().flat_map(|q| bodies.map(|b| (*q, b))) {
                let fill = |part: &str| match part.split_once('@') {
                    Some((head, _)) => {
                        let digits = head.trim().split(' ').next_back().unwrap();
                        let len = match digits {
                            "8001" => 128,
                            _ => usize::from_str_radix(digits, 16).unwrap(),
                        };
                        format!("{head}{}", "6b".repeat(len))
                    }
                    None => part.to_owned(),
                };
                let n = if suffix.is_empty() { 0 } else { N };
                let header = 0x40 | n | if ext.is_empty() { 0 } else { Z } | ID;
                let bytes = unhex(&format!("{header:02x} {scope} {} {ext} {} ff", fill(suffix), fill(body)));
                let mut general = Reader::new(&bytes);
                general.u8("header").unwrap();
                let expected = Push::decode(header, &mut general);
                let mut ahead = Reader::new(&bytes);
                let Some(found) = Plain::decode(&mut ahead) else {
                    assert_eq!(ahead.offset(), 0, "nothing may be taken");
                    continue;
                };
                plain += 1;
                let found = found.build();
                assert_eq!((Ok(&found), ahead.offset()), (expected.as_ref(), general.offset()), "{bytes:?}");
                let (mut one, mut other) = (Vec::new(), Vec::new());
                if found.encode_plain(&mut one) {
                    found.encode(&mut other);
                    assert_eq!(one, other, "{found:?}");
                }
            }
        }
        assert!(plain > 500, "{plain}");
    }

    #[test]
    fn the_longest_plain_message_fits() {
        let key = WireExpr {
            scope: 65_535,
            mapping: Mapping::Sender,
            suffix: "k".repeat(PLAIN_SUFFIX).as_str().into(),
        };
        for len in [0, 127, 128, 16_383, 16_384, 1 << 22] {
            let timestamp = Some(Timestamp { time: Ntp64(u64::MAX), id: ZenohId::new(u128::MAX).unwrap() });
            let encoding = Encoding { id: 65_535, schema: None };
            let put = Put { timestamp, encoding, ..Put::new(vec![7; len]) };
            let push = Push { qos: Qos(0xff), ..Push::new(key.clone(), PushBody::Put(put)) };
            let (mut one, mut other) = (Vec::new(), Vec::new());
            assert!(push.encode_plain(&mut one));
            push.encode(&mut other);
            assert!(one == other, "{len}");
        }
    }
}
