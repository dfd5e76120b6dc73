//! The published wire pages "Push", "Query" and "Reply", statement by statement.
//!
//! Each test names a statement of the page, in short. Where Eclipse Zenoh differs from it (section 7 of
//! the wire document), the test pins the forms that zwire sends and accepts, and names the row: `p4` is
//! row P4. [`ROWS`] tells where each row is tested; rows about the behaviour of sessions and nodes
//! point to the tests of those machines.

mod push;
mod query;
mod reply;

use bytes::Bytes;
use zwire_proto::{
    buf::Reader,
    error::{DecodeErrorKind, Result},
    zenoh::wire::{
        Declare, Del, Err, NetworkMessage, Push, PushBody, Put, Query, Reply, Request, Response,
        ResponseBody, WireExpr,
    },
};

fn unhex(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(|b| *b != b' ').collect();
    assert!(digits.len().is_multiple_of(2), "{hex}");
    let digit = |b: u8| char::from(b).to_digit(16).unwrap_or_else(|| panic!("{hex}"));
    digits.chunks(2).map(|pair| (digit(pair[0]) << 4 | digit(pair[1])) as u8).collect()
}

/// Decodes the message that fills the bytes.
fn decode(hex: &str) -> Result<NetworkMessage> {
    let bytes = unhex(hex);
    let mut r = Reader::new(&bytes);
    let message = NetworkMessage::decode(&mut r)?;
    r.finish("end")?;
    Ok(message)
}

fn refused(hex: &str) -> DecodeErrorKind {
    match decode(hex) {
        Ok(message) => panic!("{hex} was read as {message:?}"),
        Err(error) => error.kind,
    }
}

fn hex(message: &NetworkMessage) -> String {
    let mut out = Vec::new();
    message.encode(&mut out);
    out.iter().map(|b| format!("{b:02x}")).collect()
}

/// Checks that the bytes decode, and encode to the same bytes.
fn both_ways(wire: &str) -> NetworkMessage {
    let message = decode(wire).unwrap_or_else(|e| panic!("{wire}: {e}"));
    assert_eq!(hex(&message), wire.replace(' ', ""), "{message:?}");
    message
}

/// Checks that both decode to the same message, and that it encodes to the first.
fn accepted_as(canonical: &str, also: &str) {
    let message = both_ways(canonical);
    assert_eq!(decode(also).as_ref(), Ok(&message), "{also}");
}

fn push(message: NetworkMessage) -> Push {
    match message {
        NetworkMessage::Push(push) => push,
        other => panic!("{other:?} is no PUSH"),
    }
}

fn request(message: NetworkMessage) -> Request {
    match message {
        NetworkMessage::Request(request) => request,
        other => panic!("{other:?} is no REQUEST"),
    }
}

fn response(message: NetworkMessage) -> Response {
    match message {
        NetworkMessage::Response(response) => response,
        other => panic!("{other:?} is no RESPONSE"),
    }
}

fn declare(message: NetworkMessage) -> Declare {
    match message {
        NetworkMessage::Declare(declare) => declare,
        other => panic!("{other:?} is no DECLARE"),
    }
}

/// The PUT in the shortest PUSH.
fn put(body: &str) -> Put {
    match push(both_ways(&format!("5d 00 {body}"))).body {
        PushBody::Put(put) => put,
        PushBody::Del(del) => panic!("{del:?} is no PUT"),
    }
}

fn del(body: &str) -> Del {
    match push(both_ways(&format!("5d 00 {body}"))).body {
        PushBody::Del(del) => del,
        PushBody::Put(put) => panic!("{put:?} is no DEL"),
    }
}

/// The QUERY in the shortest REQUEST.
fn query(body: &str) -> Query {
    request(both_ways(&format!("5c 01 00 {body}"))).query
}

fn reply(body: &str) -> Reply {
    match response(both_ways(&format!("5b 01 00 {body}"))).body {
        ResponseBody::Reply(reply) => reply,
        ResponseBody::Err(err) => panic!("{err:?} is no REPLY"),
    }
}

fn err(body: &str) -> Err {
    match response(both_ways(&format!("5b 01 00 {body}"))).body {
        ResponseBody::Err(err) => err,
        ResponseBody::Reply(reply) => panic!("{reply:?} is no ERR"),
    }
}

/// The key of a PUSH, REQUEST, RESPONSE or of a declaration, by the same bytes.
fn key_of(flags: u8, key: &str) -> WireExpr {
    let header = |id: u8| format!("{:02x}", flags | id);
    let pushed = push(both_ways(&format!("{} {key} 02", header(0x1d)))).key;
    let requested = request(both_ways(&format!("{} 01 {key} 03", header(0x1c)))).key;
    let answered = response(both_ways(&format!("{} 01 {key} 05 00", header(0x1b)))).key;
    assert_eq!((&requested, &answered), (&pushed, &pushed));
    pushed
}

const PUSH: &str = include_str!("push.rs");
const QUERY: &str = include_str!("query.rs");
const REPLY: &str = include_str!("reply.rs");
const SESSION_GET: &str = include_str!("../../../rust/zwire-proto/src/zenoh/session/tests/get.rs");
const SESSION_PUBLISH: &str = include_str!("../../../rust/zwire-proto/src/zenoh/session/tests/publish.rs");
const SESSION_QUERY: &str = include_str!("../../../rust/zwire-proto/src/zenoh/session/tests/query.rs");
const NODE_DATA: &str = include_str!("../../../rust/zwire-proto/src/zenoh/node/tests/data.rs");
const NODE_PEERS: &str = include_str!("../../../rust/zwire-proto/src/zenoh/node/tests/peers.rs");
const NODE_QUERIES: &str = include_str!("../../../rust/zwire-proto/src/zenoh/node/tests/queries.rs");
const LINK_SENDING: &str = include_str!("../../../rust/zwire-proto/src/zenoh/link/tests/sending.rs");
const LINK_MALFORMED: &str = include_str!("../../../rust/zwire-proto/src/zenoh/link/tests/malformed.rs");
const NODE_DECLARATIONS: &str =
    include_str!("../../../rust/zwire-proto/src/zenoh/node/tests/declarations.rs");
const PARAMETERS: &str = include_str!("../../../rust/zwire-proto/src/zenoh/selector/parameters.rs");

/// Row, source, test. A row about wire format and behaviour is listed more than once.
const ROWS: &[(&str, &str, &str)] = &[
    ("P1", PUSH, "p1_frame_qos_is_mandatory_and_elided_for_data"),
    ("P1", LINK_MALFORMED, "priority_other_than_data_without_qos"),
    ("P1", LINK_SENDING, "priorities_have_their_own_numbers_and_the_lowest_goes_first"),
    ("P2", PUSH, "p2_low_latency_has_no_frame"),
    ("P2", LINK_SENDING, "e58_low_latency"),
    ("P2", LINK_MALFORMED, "low_latency_has_bare_messages_only"),
    ("P3", PUSH, "p3_push_may_carry_a_ts_stack"),
    ("P4", PUSH, "p4_only_the_t_flag_carries_a_data_timestamp"),
    ("P4", SESSION_PUBLISH, "timestamps_are_put_where_they_are_wanted_and_missing"),
    ("P4", NODE_DATA, "what_the_sender_said_is_passed_on"),
    ("P5", PUSH, "p5_a_timestamp_has_no_length_of_its_own"),
    ("P6", PUSH, "p6_extensions_of_put_and_del"),
    ("P7", PUSH, "p7_shared_memory_is_refused"),
    ("P8", PUSH, "p8_bits_of_qos"),
    ("P9", PUSH, "p9_scope_and_suffix"),
    ("P9", NODE_DECLARATIONS, "a_prefix_is_joined_without_a_slash_and_the_result_has_to_be_canonical"),
    ("P10", LINK_SENDING, "a_batch_never_exceeds_the_negotiated_size"),
    ("P10", LINK_MALFORMED, "stream_length_above_the_batch_size"),
    ("P11", PUSH, "p11_source_info_fills_its_length"),
    ("P12", PUSH, "p12_z_bounds_values_not_sizes"),
    ("P13", NODE_DATA, "routes_follow_subscribers_at_once"),
    ("P13", SESSION_PUBLISH, "a_put_on_an_undeclared_key_always_leaves"),
    ("P13", NODE_PEERS, "a_peer_sends_everything_to_a_neighbour_until_it_has_told_all"),
    ("Q1", QUERY, "q1_consolidation_is_a_vle_integer"),
    ("Q2", QUERY, "q2_parameters_may_be_longer_than_16_bits"),
    ("Q3", QUERY, "q3_parameters_are_opaque_to_the_codec"),
    ("Q3", PARAMETERS, "table_of_the_document"),
    ("Q4", QUERY, "q4_the_query_body_has_no_inner_length"),
    ("Q5", QUERY, "q5_the_shared_memory_marker_is_skipped"),
    ("Q6", SESSION_GET, "everything_of_a_get_is_in_the_request"),
    ("Q6", QUERY, "extension_timeout"),
    ("Q7", QUERY, "extension_budget"),
    ("Q7", SESSION_GET, "a_budget_ends_the_get"),
    ("Q8", QUERY, "q8_targets_above_2_are_an_error"),
    ("Q8", NODE_QUERIES, "the_target_chooses_who_is_asked"),
    ("Q8", SESSION_QUERY, "all_complete_asks_complete_ones_that_include_the_key"),
    ("Q9", NODE_QUERIES, "the_target_chooses_who_is_asked"),
    ("Q10", QUERY, "q10_request_ids_have_32_bits"),
    ("Q11", NODE_QUERIES, "only_the_last_end_ends_a_query"),
    ("Q11", SESSION_GET, "both_branches_have_to_end"),
    ("Q12", SESSION_GET, "auto_is_latest_and_with_a_time_range_none"),
    ("Q13", SESSION_GET, "latest_holds_the_newest_of_each_key_until_the_end"),
    ("Q13", SESSION_GET, "monotonic_drops_what_is_older_and_none_drops_nothing"),
    ("Q14", QUERY, "q14_request_may_carry_a_ts_stack"),
    ("Q15", QUERY, "q4_the_query_body_has_no_inner_length"),
    ("R1", REPLY, "r1_the_final_may_share_the_frame"),
    ("R2", REPLY, "r2_fields_of_response_final"),
    ("R3", REPLY, "r3_reply_has_no_extensions"),
    ("R4", REPLY, "r4_extensions_of_err"),
    ("R5", REPLY, "r5_an_err_may_have_the_empty_key"),
    ("R5", NODE_QUERIES, "keys_of_answers_are_full_and_only_an_error_may_have_none"),
    ("R6", REPLY, "r6_responder_id"),
    ("R7", REPLY, "r7_response_may_carry_a_ts_stack"),
    ("R8", NODE_QUERIES, "only_the_last_end_ends_a_query"),
    ("R8", NODE_QUERIES, "a_branch_that_takes_too_long_ends_with_an_error"),
    ("R8", SESSION_GET, "a_timeout_delivers_what_was_held_then_an_error_then_the_end"),
    ("R9", REPLY, "r9_consolidation_of_a_reply"),
    ("R10", SESSION_GET, "replies_on_other_keys_need_to_be_welcome"),
    ("R10", SESSION_QUERY, "a_reply_to_something_else_is_refused"),
];

#[test]
fn each_row_has_its_test() {
    let rows = (1..=13).map(|n| format!("P{n}"));
    let rows = rows.chain((1..=15).map(|n| format!("Q{n}"))).chain((1..=10).map(|n| format!("R{n}")));
    for row in rows {
        assert!(ROWS.iter().any(|(name, ..)| *name == row), "{row}");
    }
    for (row, source, test) in ROWS {
        assert!(source.contains(&format!("fn {test}()")), "{row}: there is no test {test}");
    }
}
