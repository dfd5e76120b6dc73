//! Tests of the public Zenoh captures, one for each: the counts of its notes, and each fact of its truth.
//!
//! Facts are matched in the order of their sender, per receiver, priority and congestion control, which
//! is the order that the wire preserves. Where truth and wire differ, the test names the fact.

use super::run::{count, faults, json};
use super::truth::{Capture, crc32, push};
use serde_json::Value;
use zwire_proto::zenoh::Encoding;

/// Checks the number of records of each message and kind against the notes; other records and errors
/// are not allowed.
fn check_counts(capture: &Capture, counts: &[(&str, Option<&str>, usize)]) {
    assert_eq!(faults(&capture.records), Vec::<String>::new());
    for &(message, kind, expected) in counts {
        assert_eq!(count(&capture.records, message, kind), expected, "{message} {kind:?}");
    }
    assert_eq!(capture.records.len(), counts.iter().map(|(_, _, count)| count).sum::<usize>());
    for record in &capture.records {
        assert!(record.unresolved().is_none(), "{}", json(record));
    }
}

const SYN: Option<&str> = Some("syn");
const ACK: Option<&str> = Some("ack");
const PUT: Option<&str> = Some("put");
const DEL: Option<&str> = Some("del");
const ERR: Option<&str> = Some("err");
const QUERY: Option<&str> = Some("query");
const FINAL: Option<&str> = Some("final");
const KEYEXPR: Option<&str> = Some("keyexpr");
const SUBSCRIBER: Option<&str> = Some("subscriber");
const QUERYABLE: Option<&str> = Some("queryable");
const TOKEN: Option<&str> = Some("token");

#[test]
fn zenoh_pubsub_basic() {
    let capture = Capture::open("zenoh-pubsub-basic");
    check_counts(
        &capture,
        &[
            ("init", SYN, 1),
            ("init", ACK, 1),
            ("open", SYN, 1),
            ("open", ACK, 1),
            ("close", None, 1),
            ("oam", None, 2),
            ("declare", FINAL, 2),
            ("declare", KEYEXPR, 6),
            ("declare", SUBSCRIBER, 6),
            ("push", PUT, 183),
            ("push", DEL, 19),
        ],
    );
    // Three puts to a chunk that begins with @ are marked as not sent.
    assert_eq!(capture.check_pushes(), 202);
}

#[test]
fn zenoh_declared_keyexpr() {
    let capture = Capture::open("zenoh-declared-keyexpr");
    check_counts(
        &capture,
        &[
            ("init", SYN, 3),
            ("init", ACK, 3),
            ("open", SYN, 3),
            ("open", ACK, 3),
            ("close", None, 3),
            ("oam", None, 2),
            ("declare", FINAL, 73),
            ("declare", KEYEXPR, 74),
            ("declare", SUBSCRIBER, 75),
            ("undeclare", SUBSCRIBER, 1),
            ("interest", Some("current_future"), 71),
            ("interest", FINAL, 20),
            ("push", PUT, 187),
        ],
    );
    assert_eq!(capture.check_pushes(), 150);
}

#[test]
fn zenoh_query() {
    let capture = Capture::open("zenoh-query");
    check_counts(
        &capture,
        &[
            ("init", SYN, 2),
            ("init", ACK, 2),
            ("open", SYN, 2),
            ("open", ACK, 2),
            ("close", None, 2),
            ("declare", FINAL, 4),
            ("declare", KEYEXPR, 7),
            ("declare", QUERYABLE, 7),
            ("undeclare", QUERYABLE, 1),
            ("request", QUERY, 40),
            ("response", PUT, 58),
            ("response", DEL, 10),
            ("response", ERR, 4),
            ("response_final", None, 40),
        ],
    );
    // The key of fact 179 has no queryable, so no query was sent.
    assert_eq!(capture.check_queries(&[179]), 28);
    // The querying runtime reports "Timeout" itself, without a key, and the late reply 254 is not sent.
    let (timeouts, records): (Vec<_>, Vec<_>) =
        capture.records.into_iter().partition(|record| record.kind() == ERR && json(record)["key"] == "");
    assert_eq!(timeouts.len(), 1);
    assert_eq!(timeouts[0].payload().unwrap(), &"Timeout");
    let capture = Capture { records, ..capture };
    assert_eq!(capture.check_replies(&[254]), 71);
}

#[test]
fn zenoh_router() {
    let capture = Capture::open("zenoh-router");
    check_counts(
        &capture,
        &[
            ("init", SYN, 2),
            ("init", ACK, 2),
            ("open", SYN, 2),
            ("open", ACK, 2),
            ("close", None, 2),
            ("declare", FINAL, 2),
            ("declare", KEYEXPR, 6),
            ("declare", SUBSCRIBER, 3),
            ("declare", QUERYABLE, 1),
            ("declare", TOKEN, 2),
            ("undeclare", SUBSCRIBER, 2),
            ("interest", Some("current"), 1),
            ("interest", Some("current_future"), 1),
            ("push", PUT, 152),
            ("push", DEL, 12),
            ("request", QUERY, 11),
            ("response", PUT, 10),
            ("response_final", None, 11),
        ],
    );
    assert_eq!(capture.check_pushes(), 83);
    assert_eq!(capture.check_queries(&[]), 6);
    assert_eq!(capture.check_replies(&[]), 5);
}

#[test]
fn zenoh_fragmented() {
    let capture = Capture::open("zenoh-fragmented");
    check_counts(
        &capture,
        &[
            ("init", SYN, 2),
            ("init", ACK, 2),
            ("open", SYN, 2),
            ("open", ACK, 2),
            ("close", None, 2),
            ("oam", None, 3),
            ("declare", FINAL, 4),
            ("declare", KEYEXPR, 4),
            ("declare", SUBSCRIBER, 4),
            ("push", PUT, 28),
        ],
    );
    assert_eq!(capture.check_pushes(), 28);
}

#[test]
fn zenoh_liveliness_interest() {
    let capture = Capture::open("zenoh-liveliness-interest");
    check_counts(
        &capture,
        &[
            ("init", SYN, 4),
            ("init", ACK, 4),
            ("open", SYN, 4),
            ("open", ACK, 4),
            ("close", None, 2),
            ("oam", None, 5),
            ("declare", FINAL, 11),
            ("declare", KEYEXPR, 24),
            ("declare", SUBSCRIBER, 3),
            ("declare", QUERYABLE, 3),
            ("declare", TOKEN, 22),
            ("undeclare", SUBSCRIBER, 3),
            ("undeclare", QUERYABLE, 3),
            ("undeclare", TOKEN, 6),
            ("interest", Some("current"), 2),
            ("interest", Some("future"), 1),
            ("interest", Some("current_future"), 4),
            ("interest", FINAL, 4),
            ("push", PUT, 3),
            ("request", QUERY, 3),
            ("response", PUT, 3),
            ("response_final", None, 3),
        ],
    );
    assert_eq!(capture.check_pushes(), 2);
    assert_eq!(capture.check_queries(&[]), 2);
    assert_eq!(capture.check_replies(&[]), 2);
    // Each token that appears or vanishes is recorded with its key.
    let tokens: Vec<Value> =
        capture.records.iter().filter(|record| record.kind() == TOKEN).map(json).collect();
    for fact in capture.facts.iter().filter(|fact| fact["op"] == "declare_token") {
        assert!(tokens.iter().any(|t| t["message"] == "declare" && t["key"] == fact["key"]), "{fact}");
    }
    for token in tokens.iter().filter(|token| token["message"] == "undeclare") {
        assert!(tokens.iter().any(|t| t["message"] == "declare" && t["key"] == token["key"]), "{token}");
    }
}

#[test]
fn zenoh_scouting() {
    let capture = Capture::open("zenoh-scouting");
    check_counts(
        &capture,
        &[
            ("scout", None, 14),
            ("hello", None, 19),
            ("init", SYN, 5),
            ("init", ACK, 5),
            ("open", SYN, 5),
            ("open", ACK, 4),
            ("close", None, 5),
            ("oam", None, 6),
            ("declare", FINAL, 2),
            ("declare", KEYEXPR, 2),
            ("declare", SUBSCRIBER, 2),
            ("push", PUT, 1),
        ],
    );
    assert_eq!(capture.check_pushes(), 1);
}

#[test]
fn zenoh_compression() {
    compression_or_low_latency("zenoh-compression", 1);
}

#[test]
fn zenoh_lowlatency() {
    // CLOSE comes behind a length of four octets and then once more behind one of two, in both
    // directions.
    compression_or_low_latency("zenoh-lowlatency", 4);
}

fn compression_or_low_latency(name: &str, closes: usize) {
    let capture = Capture::open(name);
    check_counts(
        &capture,
        &[
            ("init", SYN, 1),
            ("init", ACK, 1),
            ("open", SYN, 1),
            ("open", ACK, 1),
            ("close", None, closes),
            ("oam", None, 2),
            ("declare", FINAL, 2),
            ("declare", KEYEXPR, 2),
            ("declare", SUBSCRIBER, 1),
            ("declare", QUERYABLE, 1),
            ("push", PUT, 62),
            ("request", QUERY, 3),
            ("response", PUT, 3),
            ("response", ERR, 3),
            ("response_final", None, 3),
        ],
    );
    assert_eq!(capture.check_pushes(), 62);
    assert_eq!(capture.check_queries(&[]), 3);
    assert_eq!(capture.check_replies(&[]), 6);
}

#[test]
fn zenoh_bulk() {
    let capture = Capture::open("zenoh-bulk");
    check_counts(
        &capture,
        &[
            ("init", SYN, 1),
            ("init", ACK, 1),
            ("open", SYN, 1),
            ("open", ACK, 1),
            ("close", None, 1),
            ("oam", None, 2),
            ("declare", FINAL, 2),
            ("declare", KEYEXPR, 1),
            ("declare", SUBSCRIBER, 1),
            ("push", PUT, 100_000),
        ],
    );
    // One sender, one channel: the order is that of the facts. JSON of so many would take long.
    let pushes = capture.records.iter().filter(|record| record.message() == "push");
    let puts = capture.facts.iter().filter(|fact| fact["op"] == "put");
    let mut compared = 0;
    for (record, fact) in pushes.zip(puts) {
        let key = record.key().unwrap();
        assert_eq!(fact["key"].as_str().unwrap().strip_prefix(key.prefix), Some(key.suffix), "{fact}");
        let payload = record.payload().unwrap();
        assert_eq!(fact["payload_len"], payload.len(), "{fact}");
        assert_eq!(fact["payload_crc32"], crc32(payload), "{fact}");
        assert_eq!((record.priority(), record.congestion()), (Some(5), Some("block")));
        assert_eq!(record.encoding().map(Encoding::is_default), Some(true));
        assert_eq!((record.attachment(), record.express()), (None, Some(false)));
        compared += 1;
    }
    assert_eq!(compared, 100_000);
}

#[test]
fn zenoh_old_version() {
    let capture = Capture::open("zenoh-old-version");
    check_counts(
        &capture,
        &[
            ("init", SYN, 1),
            ("init", ACK, 1),
            ("open", SYN, 1),
            ("open", ACK, 1),
            ("close", None, 1),
            ("oam", None, 2),
            ("declare", FINAL, 2),
            ("declare", KEYEXPR, 5),
            ("declare", SUBSCRIBER, 2),
            ("declare", QUERYABLE, 2),
            ("declare", TOKEN, 1),
            ("undeclare", TOKEN, 1),
            ("push", PUT, 83),
            ("push", DEL, 9),
            ("request", QUERY, 2),
            ("response", PUT, 2),
            ("response", ERR, 1),
            ("response_final", None, 2),
        ],
    );
    // 1.0.0 (A) sends an encoding without an id as id 0 with the text as its schema.
    let found = capture.check("push", &["put", "delete"], &[], |fact, record, value| {
        let old = [("example/custom-type", "zenoh/bytes;example/custom-type")];
        push(fact, record, value, if fact["peer"] == "A" { &old } else { &[] })
    });
    assert_eq!(found, 92);
    assert_eq!(capture.check_queries(&[]), 2);
    assert_eq!(capture.check_replies(&[]), 3);
}

#[test]
fn zenoh_handshakes() {
    let capture = Capture::open("zenoh-handshakes");
    check_counts(
        &capture,
        &[
            ("init", SYN, 17),
            ("init", ACK, 15),
            ("open", SYN, 15),
            ("open", ACK, 11),
            ("close", None, 17),
            ("oam", None, 20),
            ("declare", FINAL, 20),
            ("declare", KEYEXPR, 10),
            ("declare", SUBSCRIBER, 10),
            ("push", PUT, 11),
        ],
    );
    assert_eq!(capture.check_pushes(), 11);
}

#[test]
fn zenoh_udp() {
    let capture = Capture::open("zenoh-udp");
    check_counts(
        &capture,
        &[
            ("init", SYN, 1),
            ("init", ACK, 1),
            ("open", SYN, 1),
            ("open", ACK, 1),
            ("join", None, 6),
            ("close", None, 3),
            ("oam", None, 2),
            ("declare", FINAL, 2),
            ("declare", KEYEXPR, 1),
            ("declare", SUBSCRIBER, 2),
            ("push", PUT, 62),
            ("push", DEL, 1),
        ],
    );
    assert_eq!(capture.check_pushes(), 63);
}

#[test]
fn zenoh_pico() {
    let capture = Capture::open("zenoh-pico");
    check_counts(
        &capture,
        &[
            ("init", SYN, 11),
            ("init", ACK, 11),
            ("open", SYN, 11),
            ("open", ACK, 11),
            ("close", None, 1),
            ("declare", FINAL, 4),
            ("declare", KEYEXPR, 10),
            ("declare", SUBSCRIBER, 5),
            ("declare", QUERYABLE, 2),
            ("declare", TOKEN, 3),
            ("undeclare", KEYEXPR, 6),
            ("undeclare", SUBSCRIBER, 2),
            ("undeclare", QUERYABLE, 1),
            ("interest", Some("current"), 2),
            ("interest", Some("current_future"), 2),
            ("interest", FINAL, 2),
            ("push", PUT, 32),
            ("request", QUERY, 8),
            ("response", PUT, 8),
            ("response_final", None, 8),
        ],
    );
    // The programs do not print their ids, so their puts are accepted from any sender.
    let pushes: Vec<_> = capture
        .records
        .iter()
        .filter(|record| record.message() == "push")
        .map(|record| (record, json(record)))
        .collect();
    let puts: Vec<_> = capture.facts.iter().filter(|fact| fact["op"] == "put").collect();
    assert_eq!(puts.len(), 15);
    for fact in puts {
        assert!(pushes.iter().any(|(record, value)| push(fact, record, value, &[]).is_ok()), "{fact}");
    }
    assert_eq!(capture.check_queries(&[]), 2);
    assert_eq!(capture.check_replies(&[]), 2);
}
