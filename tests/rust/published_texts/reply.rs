//! Page "Reply".

use crate::*;
use zwire_proto::zenoh::{
    Qos,
    wire::{BatchItem, BatchReader, Consolidation, Declaration, ExtBody, ResponderId, ResponseFinal},
};

fn last(message: NetworkMessage) -> ResponseFinal {
    match message {
        NetworkMessage::ResponseFinal(last) => last,
        other => panic!("{other:?} is no RESPONSE_FINAL"),
    }
}

fn kinds(mut walk: BatchReader<'_>) -> String {
    let mut kinds = String::new();
    while let Some(item) = walk.next_item().unwrap() {
        kinds.push(match item {
            BatchItem::Transport(_) => 'F',
            BatchItem::Network(NetworkMessage::Response(_)) => 'R',
            BatchItem::Network(NetworkMessage::ResponseFinal(_)) => '.',
            _ => '?',
        });
    }
    kinds
}

/// "Message layering": RESPONSE 0x1b holds REPLY 0x04, which holds PUT or DEL, or ERR 0x05; nothing
/// else.
#[test]
fn layers() {
    assert!(matches!(reply("04 01 00").body, PushBody::Put(_)));
    assert!(matches!(reply("04 02").body, PushBody::Del(_)));
    assert_eq!(err("05 00"), Err::default());
    for id in (0..=0x1f).filter(|id| ![4, 5].contains(id)) {
        assert_eq!(refused(&format!("5b 01 00 {id:02x} 00")), DecodeErrorKind::UnknownId { id });
    }
    for id in (0..=0x1f).filter(|id| ![1, 2].contains(id)) {
        assert_eq!(refused(&format!("5b 01 00 04 {id:02x} 00")), DecodeErrorKind::UnknownId { id });
    }
}

/// Row R1: "then (separate FRAME)". Both are read.
#[test]
fn r1_the_final_may_share_the_frame() {
    let together = unhex("25 07 5b 01 00 05 00 1a 01");
    let apart = unhex("25 07 5b 01 00 05 00 25 08 1a 01");
    assert_eq!(kinds(BatchReader::new(&together)), "FR.");
    assert_eq!(kinds(BatchReader::new(&apart)), "FRF.");
    let bare = unhex("1a 01");
    assert_eq!(kinds(BatchReader::low_latency(&bare)), ".");
}

/// "N", "M" and "Z" of RESPONSE, "request_id: z32".
#[test]
fn flags_of_response() {
    assert_eq!(key_of(0x60, "05 02 2f61").scope, 5);
    assert_eq!(response(both_ways("5b ffffffff0f 00 05 00")).id, u32::MAX);
    assert!(matches!(refused("5b 8080808010 00 05 00"), DecodeErrorKind::OutOfRange { .. }));
    assert_eq!(response(both_ways("db 01 00 21 0d 05 00")).qos, Qos(0x0d));
}

/// RESPONSE extensions 0x1 "Z64, N: QoS" and 0x2 "ZBuf, N: Timestamp".
#[test]
fn extensions_of_every_network_message() {
    let response = response(both_ways("db 01 00 a1 0d 42 03 05 01 09 05 00"));
    assert_eq!(response.qos.0, 0x0d);
    assert!(response.timestamp.is_some());
    // NodeId is not defined here, and mandatory.
    assert_eq!(refused("db 01 00 33 07 05 00"), DecodeErrorKind::UnknownMandatoryExtension { header: 0x33 });
}

/// RESPONSE extension 0x3, "ZBuf, N: ResponderId: zid_len bits 7:4, ZID, eid z32". Row R6: optional,
/// eid may be 0; its length has to be exact, as for SourceInfo.
#[test]
fn r6_responder_id() {
    let responder = |wire: &str| response(both_ways(wire)).responder;
    let zid = zwire_proto::zenoh::ZenohId::new(0xa1a2_a3a4).unwrap();
    assert_eq!(responder("db 01 00 43 06 30 a4a3a2a1 07 05 00"), Some(ResponderId { zid, eid: 7 }));
    assert_eq!(responder("db 01 00 43 06 30 a4a3a2a1 00 05 00"), Some(ResponderId { zid, eid: 0 }));
    assert_eq!(responder("5b 01 00 05 00"), None);
    accepted_as("db 01 00 43 03 00 52 00 05 00", "db 01 00 43 03 0f 52 00 05 00");
    assert_eq!(refused("db 01 00 43 04 00 52 00 ff 05 00"), DecodeErrorKind::TrailingBytes { left: 1 });
}

/// Row R7: TsStack 0x7 exists since 1.10.
#[test]
fn r7_response_may_carry_a_ts_stack() {
    assert_eq!(response(both_ways("db 01 00 47 02 02 00 05 00")).ts_stack.unwrap().flags, 2);
}

/// Row R5: "the key expression of this reply value". An ERR may have the empty key, as a router's
/// "Timeout" has; sessions and nodes refuse a REPLY with one.
#[test]
fn r5_an_err_may_have_the_empty_key() {
    let response = response(both_ways("db 09 00 a1 0d 43 03 00 52 00 05 07 54696d656f7574"));
    assert!(response.key.is_empty());
    assert!(matches!(response.body, ResponseBody::Err(err) if err.payload == "Timeout"));
}

/// Row R2 and "signals that all replies for a request_id have been sent": header with Z only, id, QoS
/// and Timestamp; no key.
#[test]
fn r2_fields_of_response_final() {
    assert_eq!(last(both_ways("1a 01")), ResponseFinal { id: 1, qos: Qos::DEFAULT, timestamp: None });
    assert_eq!(last(both_ways("9a 01 21 0d")).qos, Qos(0x0d));
    assert!(last(both_ways("9a 01 42 03 05 01 09")).timestamp.is_some());
    accepted_as("1a 01", "7a 01");
    assert_eq!(last(both_ways("1a ffffffff0f")).id, u32::MAX);
    // The same id is D_FINAL in the place of a declaration.
    assert_eq!(declare(both_ways("1e 1a")).body, Declaration::Final);
}

/// "C" and "Z" of REPLY; the body "begins immediately after the extension chain".
#[test]
fn flags_of_reply() {
    assert_eq!(reply("04 02").consolidation, Consolidation::Auto);
    assert_eq!(reply("24 01 02").consolidation, Consolidation::None);
    assert_eq!(reply("a4 01 0e 02").extensions.len(), 1);
    accepted_as("5b 01 00 04 02", "5b 01 00 44 02");
}

/// Row R3: "none currently defined". zenoh-pico fails on any: zwire adds none to its own replies, and
/// forwards those of others.
#[test]
fn r3_reply_has_no_extensions() {
    assert_eq!(Reply::new(PushBody::Del(Del::default())), reply("04 02"));
    let kept = reply("84 c5 01 61 0e 02").extensions;
    assert_eq!((kept[0].id, &kept[0].body), (5, &ExtBody::ZBuf(unhex("61"))));
    assert_eq!(kept[1].id, 14);
    assert_eq!(refused("5b 01 00 84 1e 02"), DecodeErrorKind::UnknownMandatoryExtension { header: 0x1e });
}

/// Row R9: "consolidation: u8, same values as QUERY". It is a VLE integer, never set by any
/// implementation.
#[test]
fn r9_consolidation_of_a_reply() {
    for (value, mode) in [(1, Consolidation::None), (2, Consolidation::Monotonic), (3, Consolidation::Latest)]
    {
        assert_eq!(reply(&format!("24 {value:02x} 02")).consolidation, mode);
    }
    accepted_as("5b 01 00 04 02", "5b 01 00 24 00 02");
    accepted_as("5b 01 00 24 03 02", "5b 01 00 24 8300 02");
    assert_eq!(Reply::new(PushBody::Del(Del::default())).consolidation, Consolidation::Auto);
}

/// "E" and "Z" of ERR, the reserved bit, and "pl: <u8;z32>, application-defined".
#[test]
fn flags_of_err() {
    assert_eq!(err("05 00").payload.len(), 0);
    let text = err("45 08 03 626164");
    assert_eq!((text.encoding.id, text.payload), (4, unhex("626164").into()));
    accepted_as("5b 01 00 05 00", "5b 01 00 25 00");
    assert!(matches!(refused("5b 01 00 05 8080808010"), DecodeErrorKind::OutOfRange { .. }));
}

/// Row R4: SourceInfo 0x41 and Shm 0x12; no attachment, so that one is kept as unknown.
#[test]
fn r4_extensions_of_err() {
    assert_eq!(err("85 41 04 00010203 00").source_info.unwrap().eid, 2);
    assert_eq!(refused("5b 01 00 85 12 00"), DecodeErrorKind::SharedMemory);
    assert_eq!(err("85 43 01 61 00").extensions[0].id, 3);
}

/// The complete layout of the page.
#[test]
fn complete_layout() {
    let response = response(both_ways(
        "fb 01 00 01 71 a1 0d c2 03 05 01 09 43 06 30 a4a3a2a1 07 \
         04 e1 05 01 09 09 01 78 c1 04 00010203 43 01 61 02 6869",
    ));
    let ResponseBody::Reply(reply) = response.body else { panic!() };
    let PushBody::Put(put) = reply.body else { panic!() };
    assert_eq!(put.payload, "hi");
}
