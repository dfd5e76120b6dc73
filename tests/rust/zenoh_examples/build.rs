//! Short names for the parts of the examples.

use bytes::Bytes;
use zwire_proto::{
    Text,
    zenoh::{
        Ntp64, Priority, Qos, Reliability, Timestamp, ZenohId,
        wire::{
            BatchItem, Declaration, Declare, Del, Frame, Mapping, NetworkMessage, Push, PushBody, Put,
            SourceInfo, TransportMessage, WireExpr,
        },
    },
};

/// The opener's first sequence number, `c5effd1a`.
pub(crate) const OPENER_SN: u32 = 56_588_229;
/// The acceptor's, `e6cce657`.
pub(crate) const ACCEPTOR_SN: u32 = 184_133_222;

/// Text form `a1a2a3a4`.
pub(crate) fn router() -> ZenohId {
    ZenohId::new(0xa1a2_a3a4).unwrap()
}

/// Text form `b1b2b3b4b5b6b7b8`.
pub(crate) fn client() -> ZenohId {
    ZenohId::new(0xb1b2_b3b4_b5b6_b7b8).unwrap()
}

pub(crate) fn transport(message: TransportMessage) -> BatchItem {
    BatchItem::Transport(message)
}

pub(crate) fn network(message: NetworkMessage) -> BatchItem {
    BatchItem::Network(message)
}

pub(crate) fn frame(sn: u32) -> BatchItem {
    frame_at(sn, Priority::Data)
}

pub(crate) fn frame_at(sn: u32, priority: Priority) -> BatchItem {
    transport(TransportMessage::Frame(Frame { reliability: Reliability::Reliable, sn, priority }))
}

pub(crate) fn control(sn: u32) -> BatchItem {
    frame_at(sn, Priority::Control)
}

pub(crate) fn full(key: &'static str) -> WireExpr {
    WireExpr { scope: 0, mapping: Mapping::Sender, suffix: Text::from_static(key) }
}

pub(crate) fn ours(scope: u16, suffix: &'static str) -> WireExpr {
    WireExpr { scope, mapping: Mapping::Sender, suffix: Text::from_static(suffix) }
}

pub(crate) fn theirs(scope: u16, suffix: &'static str) -> WireExpr {
    WireExpr { scope, mapping: Mapping::Receiver, suffix: Text::from_static(suffix) }
}

pub(crate) fn bytes(s: &'static str) -> Bytes {
    Bytes::from_static(s.as_bytes())
}

pub(crate) fn timestamp(time: u64, id: ZenohId) -> Timestamp {
    Timestamp { time: Ntp64(time), id }
}

pub(crate) fn source(eid: u32, sn: u32) -> SourceInfo {
    SourceInfo { zid: client(), eid, sn }
}

pub(crate) fn put(payload: &'static str) -> Put {
    Put::new(bytes(payload))
}

pub(crate) fn push(key: WireExpr, put: Put) -> Push {
    Push::new(key, PushBody::Put(put))
}

pub(crate) fn push_put(key: WireExpr, payload: &'static str) -> BatchItem {
    network(NetworkMessage::Push(push(key, put(payload))))
}

pub(crate) fn push_del(key: WireExpr, del: Del) -> BatchItem {
    network(NetworkMessage::Push(Push::new(key, PushBody::Del(del))))
}

/// With QoS 0x08, as eclipse-zenoh sends it.
pub(crate) fn declare(body: Declaration) -> BatchItem {
    answer(None, body)
}

pub(crate) fn answer(interest_id: Option<u32>, body: Declaration) -> BatchItem {
    let qos = Qos(0x08);
    network(NetworkMessage::Declare(Declare { interest_id, qos, timestamp: None, node_id: 0, body }))
}

pub(crate) fn keyexpr(id: u16, key: &'static str) -> Declaration {
    Declaration::KeyExpr { id, key: full(key) }
}
