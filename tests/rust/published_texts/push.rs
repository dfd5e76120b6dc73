//! Page "Push".

use crate::*;
use zwire_proto::{
    buf::Reader,
    zenoh::{
        CongestionControl, Ntp64, Priority, Qos, Reliability, ZenohId,
        wire::{BatchItem, BatchReader, ExtBody, Frame, Mapping, TransportMessage},
    },
};

fn items(hex: &str) -> Vec<BatchItem> {
    let bytes = unhex(hex);
    let mut walk = BatchReader::new(&bytes);
    std::iter::from_fn(|| walk.next_item().unwrap()).collect()
}

/// "Two distinct data sub-messages": PUT and DEL, and no others.
#[test]
fn push_carries_put_or_del() {
    assert!(matches!(push(both_ways("5d 00 01 00")).body, PushBody::Put(_)));
    assert!(matches!(push(both_ways("5d 00 02")).body, PushBody::Del(_)));
    for id in (0..=0x1f).filter(|id| ![1, 2].contains(id)) {
        assert_eq!(refused(&format!("5d 00 {id:02x} 00")), DecodeErrorKind::UnknownId { id });
    }
}

/// "Message layering": FRAME 0x05 holds PUSH 0x1d holds PUT 0x01 or DEL 0x02.
#[test]
fn three_layers() {
    let [BatchItem::Transport(TransportMessage::Frame(frame)), BatchItem::Network(a), BatchItem::Network(b)] =
        &items("25 07 7d 00 01 6b 01 00 7d 00 01 6b 02")[..]
    else {
        panic!()
    };
    assert_eq!((frame.sn, frame.reliability), (7, Reliability::Reliable));
    assert!(matches!(push(a.clone()).body, PushBody::Put(_)));
    assert!(matches!(push(b.clone()).body, PushBody::Del(_)));
}

/// Row P1: "FRAME with seq_num + QoS extension". Emitted for priorities other than Data only, as
/// 0x31, which is mandatory; an explicit Data is accepted.
#[test]
fn p1_frame_qos_is_mandatory_and_elided_for_data() {
    let frame = |priority| {
        let mut out = Vec::new();
        Frame { reliability: Reliability::Reliable, sn: 7, priority }.encode(&mut out);
        out
    };
    assert_eq!(frame(Priority::Data), [0x25, 7]);
    assert_eq!(frame(Priority::RealTime), [0xa5, 7, 0x31, 1]);
    assert_eq!(items("a5 07 31 05"), items("25 07"));
    // Without M it is another, unknown extension.
    assert_eq!(items("a5 07 21 01"), items("25 07"));
}

/// Row P2: "in low-latency mode the PUSH may be serialised directly". The batch is the message; the
/// 32-bit prefix is tested with the links.
#[test]
fn p2_low_latency_has_no_frame() {
    let batch = unhex("7d 00 01 6b 01 00");
    let mut walk = BatchReader::low_latency(&batch);
    assert!(matches!(walk.next_item(), Ok(Some(BatchItem::Network(NetworkMessage::Push(_))))));
    assert_eq!(walk.next_item(), Ok(None));
    assert!(BatchReader::new(&batch).next_item().is_err());
}

/// "N: suffix present", "M: scope in the sender's mapping space; else receiver's", "Z: extensions".
#[test]
fn flags_of_push() {
    assert_eq!(key_of(0x00, "05"), WireExpr { scope: 5, mapping: Mapping::Receiver, suffix: "".into() });
    assert_eq!(key_of(0x40, "05"), WireExpr { scope: 5, mapping: Mapping::Sender, suffix: "".into() });
    assert_eq!(
        key_of(0x20, "05 02 2f61"),
        WireExpr { scope: 5, mapping: Mapping::Receiver, suffix: "/a".into() }
    );
    assert_eq!(
        key_of(0x60, "05 02 2f61"),
        WireExpr { scope: 5, mapping: Mapping::Sender, suffix: "/a".into() }
    );
    assert_eq!(push(both_ways("dd 05 21 08 02")).qos, Qos(8));
}

/// Row P9 and "key_scope: z16, 0 = global scope; suffix <u8;z16>": M is written as 1 for scope 0,
/// accepted as both; the bounds are those of 16 bits. Joining is the receiver's task, without `/`.
#[test]
fn p9_scope_and_suffix() {
    assert_eq!(
        hex(&NetworkMessage::Push(Push::new(WireExpr::full("a"), PushBody::Del(Del::default())))),
        "7d00016102"
    );
    assert_eq!(push(decode("3d 00 01 61 02").unwrap()).key.suffix, "a");
    assert_eq!(key_of(0x40, "ffff03").scope, 65_535);
    assert!(matches!(refused("5d 808004 02"), DecodeErrorKind::OutOfRange { value: 65_536, bound: 65_535 }));
    let longest = "61".repeat(65_535);
    assert_eq!(key_of(0x60, &format!("00 ffff03 {longest}")).suffix.len(), 65_535);
    assert!(matches!(refused(&format!("7d 00 808004 {longest}61 02")), DecodeErrorKind::OutOfRange { .. }));
    assert_eq!(refused("7d 00 02 c328 02"), DecodeErrorKind::Utf8);
}

/// PUSH extension 0x1, "Z64, N: QoS".
#[test]
fn extension_qos() {
    assert_eq!(push(both_ways("dd 00 21 19 02")).qos.0, 0x19);
    // With M it would be another extension, and unknown.
    assert_eq!(refused("dd 00 31 19 02"), DecodeErrorKind::UnknownMandatoryExtension { header: 0x31 });
}

/// PUSH extension 0x2, "ZBuf, N: Timestamp".
#[test]
fn extension_timestamp() {
    let timestamp = push(both_ways("dd 00 42 03 05 01 09 02")).timestamp.unwrap();
    assert_eq!((timestamp.time, timestamp.id), (Ntp64(5), ZenohId::new(9).unwrap()));
}

/// PUSH extension 0x3, "Z64, Y: NodeId".
#[test]
fn extension_node_id() {
    assert_eq!(push(both_ways("dd 00 33 07 02")).node_id, 7);
    // Without M it is unknown, optional, and skipped.
    assert_eq!(push(decode("dd 00 23 07 02").unwrap()).node_id, 0);
}

/// Row P3: TsStack 0x7 (ZBuf, optional) exists since 1.10.
#[test]
fn p3_push_may_carry_a_ts_stack() {
    let stack = push(both_ways("dd 00 47 06 01 01 01 02 0501 02")).ts_stack.unwrap();
    assert_eq!((stack.flags, stack.records.len()), (1, 1));
    assert_eq!(stack.records[0].bytes, unhex("0501"));
}

/// Row P4: QoS carries no timestamp, the one of PUSH is not used. zwire writes T of PUT and DEL and
/// reads the timestamp of the sample there.
#[test]
fn p4_only_the_t_flag_carries_a_data_timestamp() {
    let other = push(both_ways("dd 00 42 03 05 01 09 01 00"));
    assert_eq!(other.body.timestamp(), None);
    let with_t = push(both_ways("5d 00 21 05 01 09 00"));
    assert_eq!(with_t.body.timestamp().map(|t| t.time), Some(Ntp64(5)));
    assert_eq!(with_t.timestamp, None);
}

/// "T: a Timestamp field is present", "E: an Encoding field is present", "Z: extensions".
#[test]
fn flags_of_put() {
    assert_eq!(put("01 00"), Put::default());
    assert!(put("21 05 01 09 00").timestamp.is_some());
    assert_eq!(put("41 08 00").encoding.id, 4);
    assert!(put("81 43 00 00").attachment.is_some());
    // All of them, in the order of the page: timestamp, encoding, extensions, payload.
    let all = put("e1 05 01 09 09 01 78 43 01 61 02 6869");
    assert_eq!(all.timestamp.unwrap().time, Ntp64(5));
    assert_eq!((all.encoding.id, *all.encoding.schema.unwrap()), (4, unhex("78")));
    assert_eq!((all.attachment.unwrap(), all.payload), (unhex("61"), unhex("6869").into()));
}

/// Row P5: "ts: <u8;z16>". It is a z64 and the id with its length; no length around both. The id has
/// 1 to 16 bytes.
#[test]
fn p5_a_timestamp_has_no_length_of_its_own() {
    let time = "b08baeed9fa2bb806b";
    let timestamp = put(&format!("21 {time} 04 a4a3a2a1 00")).timestamp.unwrap();
    assert_eq!((timestamp.time.0, timestamp.id.to_string()), (0x6b00_ed11_fdab_85b0, "a1a2a3a4".into()));
    // In the form of the page, with 14 bytes announced, it is malformed.
    assert!(decode(&format!("5d 00 21 0e {time} 04 a4a3a2a1 00")).is_err());
    assert_eq!(refused("5d 00 21 05 00 00"), DecodeErrorKind::Illegal { value: 0 });
    assert_eq!(refused("5d 00 21 05 11 00"), DecodeErrorKind::Illegal { value: 17 });
}

/// "pl: <u8;z32>, length may be 0".
#[test]
fn payload_of_put() {
    assert_eq!(put("01 00").payload.len(), 0);
    assert_eq!(put(&format!("01 8001 {}", "aa".repeat(128))).payload.len(), 128);
    assert!(matches!(refused("5d 00 01 8080808010"), DecodeErrorKind::OutOfRange { bound: 0xffff_ffff, .. }));
    assert_eq!(refused("5d 00 01 03 6869"), DecodeErrorKind::Truncated { needed: 1 });
}

/// "T", "Z" and the reserved bit of DEL; "it carries no data payload".
#[test]
fn flags_of_del() {
    assert_eq!(del("02"), Del::default());
    assert!(del("22 05 01 09").timestamp.is_some());
    assert!(del("82 42 00").attachment.is_some());
    accepted_as("5d 00 02", "5d 00 42");
    assert_eq!(refused("5d 00 02 00"), DecodeErrorKind::TrailingBytes { left: 1 });
}

/// The table of DEL extensions, the note that Attachment is 0x2 there and 0x3 in PUT, and row P6: the
/// table of PUT that the page lacks. An extension that only one of them defines is kept as unknown by
/// the other.
#[test]
fn p6_extensions_of_put_and_del() {
    let of_put = put("81 c1 04 00010203 43 02 7a7a 00");
    assert!(of_put.source_info.is_some());
    assert_eq!(of_put.attachment.unwrap(), "zz");
    let of_del = del("82 c1 04 00010203 42 02 7a7a");
    assert!(of_del.source_info.is_some());
    assert_eq!(of_del.attachment.unwrap(), "zz");
    let foreign = put("81 42 02 7a7a 00");
    assert_eq!((foreign.attachment, foreign.extensions[0].id), (None, 2));
    let foreign = del("82 43 02 7a7a");
    assert_eq!((foreign.attachment, foreign.extensions[0].id), (None, 3));
}

/// "SourceInfo: zid_len bits 7:4, actual = 1 + zid_len; X bits; ZID; eid z32; sn z32".
#[test]
fn source_info() {
    let info = put("81 41 07 10 0102 8001 ac02 00").source_info.unwrap();
    assert_eq!((info.zid.number(), info.eid, info.sn), (0x0201, 128, 300));
    let longest = format!("81 41 1b f0 {} ffffffff0f ffffffff0f 00", "ff".repeat(16));
    assert_eq!(put(&longest).source_info.unwrap().sn, u32::MAX);
    accepted_as("5d 00 81 41 04 00 01 02 03 00", "5d 00 81 41 04 0f 01 02 03 00");
}

/// Row P11: Eclipse Zenoh ignores the length and decodes in place. zwire writes the exact length and
/// refuses padding, which would desynchronise that decoder.
#[test]
fn p11_source_info_fills_its_length() {
    assert_eq!(refused("5d 00 81 41 05 00010203 00 00"), DecodeErrorKind::TrailingBytes { left: 1 });
    assert_eq!(refused("5d 00 81 41 03 00010203 00"), DecodeErrorKind::Truncated { needed: 1 });
}

/// "Attachment is an opaque ZBuf": any bytes, and empty is not absent.
#[test]
fn attachments_are_opaque() {
    assert_eq!(put("81 43 03 ff00fe 00").attachment.unwrap(), unhex("ff00fe"));
    assert_eq!(put("81 43 00 00").attachment.unwrap().len(), 0);
    assert_eq!(put("01 00").attachment, None);
}

/// Statement "Shm: Unit, M, 0x2; … MUST reject the message", and row P7: zwire
/// never negotiates it. A dissector of other nodes' sessions keeps the description unchanged.
#[test]
fn p7_shared_memory_is_refused() {
    let wire = "5d 00 81 12 01 01 02 aabb";
    assert_eq!(refused(wire), DecodeErrorKind::SharedMemory);
    let bytes = unhex(wire);
    let message = NetworkMessage::decode(&mut Reader::new(&bytes).with_shared_memory()).unwrap();
    assert_eq!(hex(&message), wire.replace(' ', ""));
    // Without M, or with a body, it is an unknown optional extension.
    assert_eq!(put("81 02 00").extensions[0].body, ExtBody::Unit);
}

/// Row P8: 2:0 priority, 3 D, 4 E, 5 F; default 0x05.
#[test]
fn p8_bits_of_qos() {
    for priority in Priority::ALL {
        for (congestion, bits) in [
            (CongestionControl::Drop, 0x00),
            (CongestionControl::Block, 0x08),
            (CongestionControl::BlockFirst, 0x20),
        ] {
            for (express, bit) in [(false, 0x00), (true, 0x10)] {
                let qos = Qos::new(priority, congestion, express);
                assert_eq!(qos.0, priority as u8 | bits | bit);
                assert_eq!(
                    (qos.priority(), qos.congestion(), qos.express()),
                    (priority, congestion, express)
                );
            }
        }
    }
    assert_eq!(Qos(0x28).congestion(), CongestionControl::Block);
    assert_eq!(Qos::DEFAULT.0, 0x05);
    accepted_as("5d 00 02", "dd 00 21 05 02");
    assert_eq!(push(both_ways("dd 00 21 c501 02")).qos.0, 0xc5);
}

/// Row P12: "z16, z32" bound values. The encoding has seven bits per byte and nine bytes at most, the
/// ninth with eight bits; longer forms of a value are accepted, the shortest is written.
#[test]
fn p12_z_bounds_values_not_sizes() {
    accepted_as("5d 05 02", "5d 858080808080808000 02");
    let timestamp = put("21 ffffffffffffffffff 01 09 00").timestamp.unwrap();
    assert_eq!(timestamp.time.0, u64::MAX);
    assert_eq!(put("21 808080808080808080 01 09 00").timestamp.unwrap().time.0, 1 << 63);
}

/// The complete layout of the page: frame with QoS, PUSH with its three extensions, PUT with all.
#[test]
fn complete_layout() {
    let push = push(both_ways(
        "fd 00 01 6b a1 19 c2 03 05 01 09 33 07 e1 05 01 09 09 01 78 c1 04 00010203 43 01 61 02 6869",
    ));
    assert_eq!((push.qos.0, push.node_id), (0x19, 7));
    let PushBody::Put(put) = push.body else { panic!() };
    assert!(put.timestamp.is_some() && put.source_info.is_some() && put.attachment.is_some());
    assert_eq!(put.payload, "hi");
}
