//! Page "Query".

use crate::*;
use zwire_proto::{
    buf::Reader,
    zenoh::{
        Qos,
        wire::{BatchItem, BatchReader, Consolidation, QueryTarget},
    },
};

/// "Message layering": FRAME, REQUEST 0x1c, QUERY 0x03, and REQUEST bare in low latency.
#[test]
fn three_layers() {
    let batch = unhex("25 07 7c 01 00 01 71 03");
    let mut walk = BatchReader::new(&batch);
    assert!(matches!(walk.next_item(), Ok(Some(BatchItem::Transport(_)))));
    assert!(matches!(walk.next_item(), Ok(Some(BatchItem::Network(NetworkMessage::Request(_))))));
    let batch = unhex("7c 01 00 01 71 03");
    assert!(BatchReader::low_latency(&batch).next_item().unwrap().is_some());
    for id in (0..=0x1f).filter(|id| *id != 3) {
        assert_eq!(refused(&format!("5c 01 00 {id:02x} 00")), DecodeErrorKind::UnknownId { id });
    }
}

/// "N", "M" and "Z" of REQUEST: those of every WireExpr, and extensions.
#[test]
fn flags_of_request() {
    for flags in [0x00, 0x40] {
        assert_eq!(key_of(flags, "05").scope, 5);
    }
    assert_eq!(key_of(0x60, "00 01 71").suffix, "q");
    assert_eq!(request(both_ways("dc 01 05 21 0d 03")).qos, Qos(0x0d));
}

/// Row Q10 and "request_id: z32, within the negotiated range": 32 bits are the only bound.
#[test]
fn q10_request_ids_have_32_bits() {
    assert_eq!(request(both_ways("5c 00 00 03")).id, 0);
    assert_eq!(request(both_ways("5c ffffffff0f 00 03")).id, u32::MAX);
    assert!(matches!(refused("5c 8080808010 00 03"), DecodeErrorKind::OutOfRange { .. }));
}

/// REQUEST extensions 0x1 to 0x3, as on the page "Push".
#[test]
fn extensions_of_every_network_message() {
    let request = request(both_ways("dc 01 00 a1 1c c2 03 05 01 09 33 07 03"));
    assert_eq!((request.qos.0, request.node_id), (0x1c, 7));
    assert!(request.timestamp.is_some());
}

/// REQUEST extension 0x4, "Z64, Y: QueryTarget", and its table of values.
#[test]
fn extension_target() {
    accepted_as("5c 01 00 03", "dc 01 00 34 00 03");
    assert_eq!(request(both_ways("5c 01 00 03")).target, QueryTarget::BestMatching);
    assert_eq!(request(both_ways("dc 01 00 34 01 03")).target, QueryTarget::All);
    assert_eq!(request(both_ways("dc 01 00 34 02 03")).target, QueryTarget::AllComplete);
    assert_eq!(request(decode("dc 01 00 24 01 03").unwrap()).target, QueryTarget::BestMatching);
}

/// Row Q8: a value above 2 closes the link.
#[test]
fn q8_targets_above_2_are_an_error() {
    assert_eq!(refused("dc 01 00 34 03 03"), DecodeErrorKind::OutOfRange { value: 3, bound: 2 });
}

/// REQUEST extension 0x5, "Z64, N: Budget (max response count)". 0 is none. Row Q7: ending the query
/// with it is the task of the session.
#[test]
fn extension_budget() {
    assert_eq!(request(both_ways("dc 01 00 25 05 03")).budget.map(u32::from), Some(5));
    accepted_as("5c 01 00 03", "dc 01 00 25 00 03");
}

/// REQUEST extension 0x6, "Z64, N: Timeout". Row Q6: in milliseconds.
#[test]
fn extension_timeout() {
    assert_eq!(request(both_ways("dc 01 00 26 904e 03")).timeout_ms, Some(10_000));
    assert_eq!(request(both_ways("dc 01 00 26 00 03")).timeout_ms, Some(0));
    assert_eq!(request(both_ways("5c 01 00 03")).timeout_ms, None);
}

/// Row Q14: TsStack 0x7 exists since 1.10.
#[test]
fn q14_request_may_carry_a_ts_stack() {
    assert_eq!(request(both_ways("dc 01 00 47 02 04 00 03")).ts_stack.unwrap().flags, 4);
}

/// "C", "P" and "Z" of QUERY.
#[test]
fn flags_of_query() {
    assert_eq!(query("03"), Query::default());
    assert_eq!(query("23 03").consolidation, Consolidation::Latest);
    assert_eq!(query("43 01 61").parameters, "a");
    assert!(query("83 45 00").attachment.is_some());
    let all = query("e3 01 01 61 45 00");
    assert_eq!((all.consolidation, all.parameters.as_str()), (Consolidation::None, "a"));
    assert!(all.attachment.is_some());
}

/// The table of consolidation values.
#[test]
fn consolidations() {
    assert_eq!(query("03").consolidation, Consolidation::Auto);
    assert_eq!(query("23 01").consolidation, Consolidation::None);
    assert_eq!(query("23 02").consolidation, Consolidation::Monotonic);
    assert_eq!(query("23 03").consolidation, Consolidation::Latest);
}

/// Row Q1: "a u8". It is a VLE integer; one byte is written, unknown values mean Auto.
#[test]
fn q1_consolidation_is_a_vle_integer() {
    accepted_as("5c 01 00 23 03", "5c 01 00 23 8300");
    accepted_as("5c 01 00 03", "5c 01 00 23 00");
    accepted_as("5c 01 00 03", "5c 01 00 23 04");
    accepted_as("5c 01 00 03", "5c 01 00 23 8302");
}

/// "UTF-8, not NUL-terminated". An explicit empty string is legal.
#[test]
fn parameters_are_utf8() {
    assert_eq!(query("43 04 c3a93d31").parameters, "é=1");
    assert_eq!(query("43 02 6100").parameters, "a\0");
    assert_eq!(refused("5c 01 00 43 02 c328"), DecodeErrorKind::Utf8);
    accepted_as("5c 01 00 03", "5c 01 00 43 00");
}

/// Row Q2: "ps: <u8;z16>". The length is not bounded to 16 bits.
#[test]
fn q2_parameters_may_be_longer_than_16_bits() {
    let long = "61".repeat(70_000);
    assert_eq!(query(&format!("43 f0a204 {long}")).parameters.len(), 70_000);
}

/// Row Q3: "key=value pairs separated by &". The codec does not parse them; separators are tested with
/// the parameters.
#[test]
fn q3_parameters_are_opaque_to_the_codec() {
    assert_eq!(query("43 07 613d3126623d32").parameters, "a=1&b=2");
    assert_eq!(query("43 07 613d313b623d32").parameters, "a=1;b=2");
}

/// QUERY extension 0x1, "ZBuf, N: SourceInfo", and 0x5, "ZBuf, N: Attachment".
#[test]
fn extensions_of_query() {
    let query = query("83 c1 04 00010203 45 02 7a7a");
    assert_eq!(query.source_info.unwrap().sn, 3);
    assert_eq!(query.attachment.unwrap(), "zz");
}

/// QUERY extension 0x3 and rows Q4 and Q15: ZBuf, optional; an encoding, then "pl: <u8;z32>". There
/// is no such length: the payload is the rest. The encoding is always there.
#[test]
fn q4_the_query_body_has_no_inner_length() {
    let body = query("83 43 04 08 616263").body.unwrap();
    assert_eq!((body.encoding.id, body.payload), (4, unhex("616263").into()));
    // In the form of the page: the length becomes part of the payload.
    assert_eq!(query("83 43 05 08 03 616263").body.unwrap().payload, "\u{3}abc");
    assert_eq!(query("83 43 01 00").body.unwrap().payload.len(), 0);
    assert_eq!(*query("83 43 07 09 01 78 616263 00").body.unwrap().encoding.schema.unwrap(), "x");
    assert_eq!(refused("5c 01 00 83 43 00"), DecodeErrorKind::Truncated { needed: 1 });
}

/// zenoh-pico writes QueryBody before SourceInfo; zwire writes SourceInfo first.
#[test]
fn the_order_of_pico_is_accepted() {
    accepted_as("5c 01 00 83 c1 04 00010203 43 02 00 61", "5c 01 00 83 c3 02 00 61 41 04 00010203");
}

/// Row Q5: "the SHM marker is a secondary extension 0x04". It is an element of the same chain, right
/// before the body. zwire never writes it and skips it.
#[test]
fn q5_the_shared_memory_marker_is_skipped() {
    accepted_as("5c 01 00 83 43 02 00 61", "5c 01 00 83 84 43 02 00 61");
    let bytes = unhex("5c 01 00 83 84 43 a21f 00 01 01 07 a01ff4b1010000");
    let mut r = Reader::new(&bytes).with_shared_memory();
    let message = NetworkMessage::decode(&mut r).unwrap();
    assert!(r.is_empty());
    assert!(request(message).query.body.unwrap().shm);
}

/// The complete layout of the page.
#[test]
fn complete_layout() {
    let request = request(both_ways(
        "fc 01 00 01 71 a1 0d c2 03 05 01 09 b4 01 a5 05 a6 d00f 33 07 \
         e3 01 01 61 c1 04 00010203 c3 02 00 62 45 01 63",
    ));
    assert_eq!((request.target, request.timeout_ms, request.node_id), (QueryTarget::All, Some(2000), 7));
    assert_eq!(request.query.body.unwrap().payload, "b");
}

/// The request of the page in its default form, as all implementations send it.
#[test]
fn what_we_write() {
    let query = Query { consolidation: Consolidation::Latest, ..Query::default() };
    let request = Request { timeout_ms: Some(10_000), ..Request::new(1, WireExpr::full("q"), query) };
    assert_eq!(hex(&NetworkMessage::Request(request)), "fc0100 0171 a10d 26904e 2303".replace(' ', ""));
}
