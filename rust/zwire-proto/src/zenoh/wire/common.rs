//! Extensions and fields that several messages share (`zenoh-wire` 1.4–1.6, 4.2, 5.6).

use super::ext::{Chain, zbuf};
use crate::{
    buf::{Reader, Sink, put_vle, put_zbytes, vle_len},
    error::{DecodeErrorKind, Result},
    limits::MAX_TS_STACK,
    zenoh::{Encoding, Ntp64, Qos, Timestamp, WhatAmI, ZenohId},
};
use bytes::Bytes;

/// QoS, Z64, on all network messages.
pub(super) const QOS: u8 = 0x21;
/// Timestamp, ZBuf, on all network messages. No known implementation sends it.
pub(super) const TIMESTAMP: u8 = 0x42;
/// NodeId, Z64, mandatory, between routers.
pub(super) const NODE_ID: u8 = 0x33;
/// TsStack, ZBuf, instrumentation since 1.10.
pub(super) const TS_STACK: u8 = 0x47;
/// SourceInfo, ZBuf, on data messages.
pub(super) const SOURCE_INFO: u8 = 0x41;

pub(super) fn read_qos(r: &mut Reader<'_>) -> Result<Qos> {
    #[allow(clippy::cast_possible_truncation, reason = "one byte is significant, the upper bits are ignored")]
    r.vle("QoS extension").map(|v| Qos(v as u8))
}

pub(super) fn read_node_id(r: &mut Reader<'_>) -> Result<u16> {
    r.z16("NodeId extension")
}

/// S: size parameters follow, in INIT and JOIN.
pub(super) const S: u8 = 0x40;

/// Version, role and id, at the start of INIT, JOIN and HELLO. The names are those of the three fields.
pub(super) fn read_node(r: &mut Reader<'_>, names: [&'static str; 3]) -> Result<(u8, WhatAmI, ZenohId)> {
    let version = r.u8(names[0])?;
    let offset = r.offset();
    let flags = r.u8(names[1])?;
    let whatami = WhatAmI::from_bits(flags & 0x03)
        .ok_or_else(|| r.error(names[1], offset, DecodeErrorKind::Illegal { value: 3 }))?;
    Ok((version, whatami, read_zid(r, usize::from(flags >> 4) + 1, names[2])?))
}

pub(super) fn put_node(sink: &mut impl Sink, version: u8, whatami: WhatAmI, zid: ZenohId) {
    sink.put_u8(version);
    sink.put_u8(zid_len_bits(zid) | whatami.to_bits());
    put_zid(sink, zid);
}

/// Widths of FrameSN (bits 1:0) and RequestID (bits 3:2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resolution(pub u8);

impl Resolution {
    /// Both 32 bit: the value when S=0.
    pub const DEFAULT: Self = Self(0x0a);

    /// FrameSN: 0 8 bit, 1 16 bit, 2 32 bit, 3 64 bit.
    #[must_use]
    pub const fn frame_sn(self) -> u8 {
        self.0 & 0x03
    }
    /// RequestID, as above.
    #[must_use]
    pub const fn request_id(self) -> u8 {
        self.0 >> 2 & 0x03
    }
    /// From both widths.
    #[must_use]
    pub const fn new(frame_sn: u8, request_id: u8) -> Self {
        Self(frame_sn & 0x03 | (request_id & 0x03) << 2)
    }
    /// The largest id of a request. Multiples of seven bits, as for sequence numbers: such an id is in range
    /// whether the width counts the bits of the number or those of its encoding.
    #[must_use]
    pub const fn request_id_mask(self) -> u32 {
        Self::new(self.request_id(), 0).sn_mask()
    }
    /// The smaller width of each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self::new(self.frame_sn().min(other.frame_sn()), self.request_id().min(other.request_id()))
    }
    /// The largest sequence number: widths are multiples of seven bits (`zenoh-wire` 3.11). The 64-bit
    /// width is treated as 32 bits, the width of the field in known implementations.
    #[must_use]
    pub const fn sn_mask(self) -> u32 {
        match self.frame_sn() {
            0 => 0x7f,
            1 => 0x3fff,
            2 => 0x0fff_ffff,
            _ => u32::MAX,
        }
    }
}

/// Resolution and batch size, if the header has S. The names are those of the two fields.
pub(super) fn read_size(
    header: u8,
    r: &mut Reader<'_>,
    names: [&'static str; 2],
) -> Result<Option<(Resolution, u16)>> {
    if header & S == 0 {
        return Ok(None);
    }
    Ok(Some((Resolution(r.u8(names[0])? & 0x0f), r.u16_le(names[1])?)))
}

pub(super) fn put_size(sink: &mut impl Sink, size: Option<(Resolution, u16)>) {
    if let Some((resolution, batch_size)) = size {
        sink.put_u8(resolution.0);
        sink.put(&batch_size.to_le_bytes());
    }
}

pub(super) fn read_zid(r: &mut Reader<'_>, len: usize, reading: &'static str) -> Result<ZenohId> {
    let offset = r.offset();
    let raw = r.slice(len, reading)?;
    ZenohId::from_wire(raw).ok_or_else(|| r.error(reading, offset, DecodeErrorKind::Illegal { value: 0 }))
}

pub(super) fn put_zid(sink: &mut impl Sink, zid: ZenohId) {
    sink.put(&zid.to_le_bytes()[..zid.wire_len()]);
}

/// The four high bits of the byte in front of a ZenohID: its length minus one.
#[allow(clippy::cast_possible_truncation, reason = "at most 15")]
pub(super) const fn zid_len_bits(zid: ZenohId) -> u8 {
    ((zid.wire_len() - 1) as u8) << 4
}

pub(super) fn read_timestamp(r: &mut Reader<'_>) -> Result<Timestamp> {
    let time = Ntp64(r.vle("timestamp time")?);
    let offset = r.offset();
    let len = r.vle("timestamp id")?;
    if !(1..=16).contains(&len) {
        return Err(r.error("timestamp id", offset, DecodeErrorKind::Illegal { value: len }));
    }
    #[allow(clippy::cast_possible_truncation, reason = "at most 16")]
    let id = read_zid(r, len as usize, "timestamp id")?;
    Ok(Timestamp { time, id })
}

pub(super) fn put_timestamp(sink: &mut impl Sink, timestamp: &Timestamp) {
    put_vle(sink, timestamp.time.0);
    put_vle(sink, timestamp.id.wire_len() as u64);
    put_zid(sink, timestamp.id);
}

const fn timestamp_len(timestamp: &Timestamp) -> usize {
    vle_len(timestamp.time.0) + 1 + timestamp.id.wire_len()
}

pub(super) fn read_timestamp_ext(r: &mut Reader<'_>) -> Result<Timestamp> {
    let mut inner = zbuf(r, "Timestamp extension")?;
    let timestamp = read_timestamp(&mut inner)?;
    inner.finish("Timestamp extension")?;
    Ok(timestamp)
}

pub(super) fn put_timestamp_ext(sink: &mut impl Sink, chain: &mut Chain, timestamp: &Timestamp) {
    chain.header(sink, TIMESTAMP);
    put_vle(sink, timestamp_len(timestamp) as u64);
    put_timestamp(sink, timestamp);
}

pub(super) fn read_encoding(r: &mut Reader<'_>) -> Result<Encoding> {
    let word = r.z32("encoding id")?;
    // Receivers truncate the id to 16 bits.
    #[allow(clippy::cast_possible_truncation, reason = "as the peers do")]
    let id = (word >> 1) as u16;
    let schema =
        if word & 1 == 1 { Some(Box::new(r.zbytes(u64::from(u8::MAX), "encoding schema")?)) } else { None };
    Ok(Encoding { id, schema })
}

pub(super) fn put_encoding(sink: &mut impl Sink, encoding: &Encoding) {
    put_vle(sink, u64::from(encoding.id) << 1 | u64::from(encoding.schema.is_some()));
    if let Some(schema) = &encoding.schema {
        put_zbytes(sink, schema);
    }
}

pub(super) fn encoding_len(encoding: &Encoding) -> usize {
    let schema = encoding.schema.as_ref().map_or(0, |s| vle_len(s.len() as u64) + s.len());
    vle_len(u64::from(encoding.id) << 1 | 1) + schema
}

/// Entity that published a data message, and its own counter (`zenoh-wire` 5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceInfo {
    /// Node of the entity.
    pub zid: ZenohId,
    /// Number of the entity within the node.
    pub eid: u32,
    /// Counter of the entity; independent of transport sequence numbers.
    pub sn: u32,
}

pub(super) fn read_source_info(r: &mut Reader<'_>) -> Result<SourceInfo> {
    let mut inner = zbuf(r, "SourceInfo extension")?;
    let (zid, eid) = read_entity(&mut inner, "SourceInfo extension")?;
    let sn = inner.z32("SourceInfo sn")?;
    inner.finish("SourceInfo extension")?;
    Ok(SourceInfo { zid, eid, sn })
}

pub(super) fn put_source_info(sink: &mut impl Sink, chain: &mut Chain, info: &SourceInfo) {
    chain.header(sink, SOURCE_INFO);
    put_vle(sink, (entity_len(info.zid, info.eid) + vle_len(u64::from(info.sn))) as u64);
    put_entity(sink, info.zid, info.eid);
    put_vle(sink, u64::from(info.sn));
}

pub(super) fn read_entity(r: &mut Reader<'_>, reading: &'static str) -> Result<(ZenohId, u32)> {
    let len = usize::from(r.u8(reading)? >> 4) + 1;
    Ok((read_zid(r, len, reading)?, r.z32(reading)?))
}

pub(super) fn put_entity(sink: &mut impl Sink, zid: ZenohId, eid: u32) {
    sink.put_u8(zid_len_bits(zid));
    put_zid(sink, zid);
    put_vle(sink, u64::from(eid));
}

pub(super) const fn entity_len(zid: ZenohId, eid: u32) -> usize {
    1 + zid.wire_len() + vle_len(eid as u64)
}

/// Time stamps that a message collected on its way (`zenoh-wire` 4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TsStack {
    /// Requested points: 1 send, 2 route, 4 receive; never 0.
    pub flags: u8,
    /// Collected stamps, at most 255.
    pub records: Vec<TsRecord>,
}

/// Entry of a [`TsStack`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TsRecord {
    /// 1 send, 2 route, 4 receive; bit 7: `bytes` are in a format of the application.
    pub flags: u8,
    /// A timestamp, unless bit 7 of `flags` is set.
    pub bytes: Bytes,
}

impl TsStack {
    /// Point where the message leaves its sender.
    pub const SEND: u8 = 1;
    /// Point at each node on the way.
    pub const ROUTE: u8 = 2;
    /// Point where a session receives the message.
    pub const RECEIVE: u8 = 4;

    /// Adds a stamp, if stamps of that point are requested and there is room.
    pub fn stamp(&mut self, point: u8, record: impl FnOnce() -> TsRecord) {
        if self.flags & point != 0 && self.records.len() < MAX_TS_STACK {
            self.records.push(record());
        }
    }
}

impl TsRecord {
    /// Flag: `bytes` are in a format of the application.
    pub const USER: u8 = 0x80;

    /// A timestamp, taken at a point.
    #[must_use]
    pub fn new(point: u8, timestamp: &Timestamp) -> Self {
        let mut bytes = Vec::with_capacity(timestamp_len(timestamp));
        put_timestamp(&mut bytes, timestamp);
        Self { flags: point, bytes: bytes.into() }
    }

    /// The timestamp; `None` if `bytes` are in another format.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        if self.flags & Self::USER != 0 {
            return None;
        }
        let mut reader = Reader::new(&self.bytes);
        let timestamp = read_timestamp(&mut reader).ok()?;
        reader.finish("TsStack record").ok()?;
        Some(timestamp)
    }
}

pub(super) fn read_ts_stack(r: &mut Reader<'_>) -> Result<Box<TsStack>> {
    const READING: &str = "TsStack extension";
    let mut inner = zbuf(r, READING)?;
    let offset = inner.offset();
    let flags = inner.u8(READING)?;
    if flags == 0 {
        return Err(inner.error(READING, offset, DecodeErrorKind::Illegal { value: 0 }));
    }
    let count = inner.count(MAX_TS_STACK, READING)?;
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        let flags = inner.u8(READING)?;
        records.push(TsRecord { flags, bytes: inner.zbytes(u64::from(u32::MAX), READING)? });
    }
    inner.finish(READING)?;
    Ok(Box::new(TsStack { flags, records }))
}

pub(super) fn put_ts_stack(sink: &mut impl Sink, chain: &mut Chain, stack: &TsStack) {
    chain.header(sink, TS_STACK);
    let records: usize =
        stack.records.iter().map(|r| 1 + vle_len(r.bytes.len() as u64) + r.bytes.len()).sum();
    put_vle(sink, (1 + vle_len(stack.records.len() as u64) + records) as u64);
    sink.put_u8(stack.flags);
    put_vle(sink, stack.records.len() as u64);
    for record in &stack.records {
        sink.put_u8(record.flags);
        put_zbytes(sink, &record.bytes);
    }
}
