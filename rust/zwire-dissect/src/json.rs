//! Records as JSON Lines.

use super::{
    record::{Key, Protocol, Record},
    said::{Headers, readable},
};
use bytes::Bytes;
use core::{fmt, net::SocketAddr, time::Duration};
use data_encoding::BASE64;
use std::{borrow::Cow, io::Write as _};
use zwire_proto::{printable, zenoh::Encoding, zre::Uuid};

/// Appends a record as one line: an object with every field, `null` where the message has none.
///
/// | Field | Type |
/// | --- | --- |
/// | `ts` | number: seconds since the UNIX epoch |
/// | `src`, `dst` | string `ip:port` |
/// | `protocol` | string: [`Protocol::name`](super::Protocol::name), `null` for a damaged file |
/// | `message`, `kind` | string: [`Record::message`], [`Record::kind`] |
/// | `key` | string: the full key expression |
/// | `scope`, `suffix` | number and string as on the wire, only where `key` could not be resolved |
/// | `payload`, `attachment` | string: base64 |
/// | `encoding` | string `name` or `name;schema` |
/// | `timestamp` | string `rfc3339/zid`; of ZRE/LOG `rfc3339` |
/// | `priority` | number: 0 (control) to 7 |
/// | `congestion` | string `drop`, `block`, `block_first` |
/// | `express` | boolean |
/// | `request_id`, `sn` | number |
/// | `parameters`, `consolidation`, `target` | string |
/// | `peer` | string: UUID of a node of ZRE, 32 upper-case hexadecimal digits |
/// | `name`, `address`, `group` | string; octets that are not UTF-8 with `\xNN` |
/// | `sequence`, `status` | number |
/// | `groups` | list of strings |
/// | `headers` | object of strings |
/// | `content` | list of strings: base64 |
/// | `error`, `offset` | string and number: what did not decode, and where in the stream |
pub fn write_jsonl(record: &Record, out: &mut Vec<u8>) {
    /// A field, or its null as a constant.
    macro_rules! field {
        ($name:literal, $value:expr, $write:expr) => {
            match $value {
                Some(value) => {
                    out.extend_from_slice(concat!(",\"", $name, "\":").as_bytes());
                    $write(value, out);
                }
                None => out.extend_from_slice(concat!(",\"", $name, "\":null").as_bytes()),
            }
        };
    }
    out.extend_from_slice(b"{\"ts\":");
    seconds(record.time, out);
    field!("src", record.src, address);
    field!("dst", record.dst, address);
    field!("protocol", record.protocol().map(Protocol::name), plain);
    field!("message", Some(record.message()), plain);
    field!("kind", record.kind(), plain);
    field!("key", record.key(), |key: Key<'_>, out: &mut Vec<u8>| {
        match (key.prefix, key.suffix) {
            ("", text) | (text, "") => string(text, out),
            (prefix, suffix) => string(&[prefix, suffix].concat(), out),
        }
    });
    let unresolved = record.unresolved();
    field!("scope", unresolved.map(|key| key.scope), number);
    field!("suffix", unresolved.map(|key| key.suffix.as_str()), string);
    field!("payload", record.payload(), base64);
    field!("encoding", record.encoding(), encoding);
    field!("timestamp", record.stamp().as_ref(), display);
    field!("attachment", record.attachment(), base64);
    field!("priority", record.priority(), number);
    field!("congestion", record.congestion(), plain);
    field!("express", record.express(), |value, out: &mut Vec<u8>| {
        out.extend_from_slice(if value { b"true" } else { b"false" });
    });
    field!("request_id", record.request_id(), number);
    field!("parameters", record.parameters(), string);
    field!("consolidation", record.consolidation(), plain);
    field!("target", record.target(), plain);
    field!("sn", record.sn, number);
    if record.is_of_zmtp() {
        field!("peer", record.peer(), |uuid: Uuid, out: &mut Vec<u8>| display(&uuid, out));
        field!("name", record.name(), octets);
        field!("address", record.address().as_ref(), octets);
        field!("group", record.group(), octets);
        field!("sequence", record.sequence(), number);
        field!("status", record.status(), number);
        field!("groups", record.groups(), |groups, out: &mut Vec<u8>| list(*b"[]", groups, octets, out));
        field!("headers", record.headers(), |headers: Headers, out: &mut Vec<u8>| {
            let entry = |(name, value): &(Cow<'_, [u8]>, Bytes), out: &mut Vec<u8>| {
                string(&readable(name), out);
                out.push(b':');
                octets(value, out);
            };
            list(*b"{}", &headers.0, entry, out);
        });
        field!("content", record.content(), |frames, out: &mut Vec<u8>| {
            list(*b"[]", frames, |frame: &Bytes, out: &mut Vec<u8>| base64(frame, out), out);
        });
    } else {
        out.extend_from_slice(NOT_OF_ZMTP);
    }
    let fault = record.fault();
    // What is wrong is said in ASCII without quotes.
    field!("error", fault.map(|fault| &fault.cause), display);
    field!("offset", fault.map(|fault| fault.offset), number);
    out.extend_from_slice(b"}\n");
}

/// The fields that a message of Zenoh does not have.
const NOT_OF_ZMTP: &[u8] = b",\"peer\":null,\"name\":null,\"address\":null,\"group\":null,\"sequence\":null,\
    \"status\":null,\"groups\":null,\"headers\":null,\"content\":null";

/// Octets that are a text if their sender meant well.
fn octets(octets: &Bytes, out: &mut Vec<u8>) {
    string(&readable(octets), out);
}

fn list<T>(brackets: [u8; 2], items: &[T], write: impl Fn(&T, &mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(brackets[0]);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(brackets[1]);
}

/// An address as `ip:port`; the usual kind without the machinery of formatting.
fn address(address: SocketAddr, out: &mut Vec<u8>) {
    let SocketAddr::V4(v4) = address else { return display(&address, out) };
    let [a, b, c, d] = v4.ip().octets();
    out.push(b'"');
    for (part, separator) in [(a, b'.'), (b, b'.'), (c, b'.'), (d, b':')] {
        number(part, out);
        out.push(separator);
    }
    number(v4.port(), out);
    out.push(b'"');
}

/// A string that needs no escapes.
fn plain(text: &'static str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// The text of a value that needs no escapes.
fn display(value: &impl fmt::Display, out: &mut Vec<u8>) {
    out.push(b'"');
    // A vector takes everything.
    let _ = write!(out, "{value}");
    out.push(b'"');
}

fn encoding(encoding: &Encoding, out: &mut Vec<u8>) {
    match (&encoding.schema, encoding.name()) {
        (None, Some(name)) => plain(name, out),
        _ => string(&encoding.to_string(), out),
    }
}

fn string(text: &str, out: &mut Vec<u8>) {
    if let Cow::Borrowed(text) = printable(text) {
        // A vector takes everything.
        let _ = serde_json::to_writer(out, text);
        return;
    }
    // serde_json escapes the controls of ASCII alone, and the output may be read on a terminal.
    let json = serde_json::to_string(text).unwrap_or_default();
    out.extend_from_slice(printable(&json).as_bytes());
}

fn number(value: impl Into<u64>, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, &value.into());
}

/// Writes a time with as many digits as the capture has.
fn seconds(time: Duration, out: &mut Vec<u8>) {
    number(time.as_secs(), out);
    let (at, nanos) = (out.len(), time.subsec_nanos());
    // A leading one keeps the zeros; the point takes its place.
    number(if nanos.is_multiple_of(1000) { 1_000_000 + nanos / 1000 } else { 1_000_000_000 + nanos }, out);
    out[at] = b'.';
}

/// Writes bytes in base64 (RFC 4648, section 4, padded).
fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let at = out.len();
    out.resize(at + BASE64.encode_len(bytes.len()), 0);
    BASE64.encode_mut(bytes, &mut out[at..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::record::{Cause, Fault, Message, Protocol};
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;
    use zwire_proto::{
        Text,
        error::{DecodeError, DecodeErrorKind},
        zenoh::{
            Timestamp, ZenohId,
            timestamp::Ntp64,
            wire::{NetworkMessage, Push, PushBody, Put, Query, Request, WireExpr},
        },
    };

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn record(message: Message, prefix: Option<Text>) -> Record {
        Record {
            time: Duration::new(1_760_000_000, 123_456_000),
            src: Some("127.0.0.1:7447".parse().unwrap()),
            dst: Some("[::1]:50000".parse().unwrap()),
            sn: Some(7),
            prefix,
            message,
        }
    }

    fn line(record: &Record) -> Value {
        let line = text(|out| write_jsonl(record, out));
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
        serde_json::from_str(&line).unwrap()
    }

    const FIELDS: [&str; 32] = [
        "ts",
        "src",
        "dst",
        "protocol",
        "message",
        "kind",
        "key",
        "scope",
        "suffix",
        "payload",
        "encoding",
        "timestamp",
        "attachment",
        "priority",
        "congestion",
        "express",
        "request_id",
        "parameters",
        "consolidation",
        "target",
        "sn",
        "peer",
        "name",
        "address",
        "group",
        "sequence",
        "status",
        "groups",
        "headers",
        "content",
        "error",
        "offset",
    ];

    #[test]
    fn base64_of_rfc_4648() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(text(|out| base64(bytes.as_bytes(), out)), format!("\"{expected}\""));
        }
        assert_eq!(text(|out| base64(&[0xfb, 0xff], out)), "\"+/8=\"");
    }

    #[test]
    fn numbers_and_times() {
        for value in [0, 9, 10, 12_345, u64::MAX] {
            assert_eq!(text(|out| number(value, out)), value.to_string());
        }
        let time = |nanos| text(|out| seconds(Duration::new(12, nanos), out));
        assert_eq!([time(0), time(1000), time(1)], ["12.000000", "12.000001", "12.000000001"]);
    }

    #[test]
    fn strings_survive() {
        for s in ["", "plain", "é\"\\\n\r\t\u{1}\u{7f}日本", "\u{0}", "\"\\\u{9b}31m\u{202e}"] {
            let json = text(|out| string(s, out));
            assert!(!json.contains(['\u{7f}', '\u{9b}', '\u{202e}']), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), s);
        }
    }

    #[test]
    fn a_push_with_everything() {
        let put = Put {
            encoding: Encoding::from_text("text/plain;utf8"),
            attachment: Some(Bytes::new()),
            timestamp: Some(Timestamp { time: Ntp64(1 << 32), id: ZenohId::new(0xabc).unwrap() }),
            ..Put::new("value")
        };
        let key = WireExpr { scope: 3, suffix: "/\"q".into(), ..WireExpr::EMPTY };
        let push = Push::new(key, PushBody::Put(put));
        let resolved = record(Message::Network(NetworkMessage::Push(push.clone())), Some("a/b".into()));
        let value = line(&resolved);
        let names: BTreeSet<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, BTreeSet::from(FIELDS));
        assert_eq!(
            value,
            json!({
                "ts": 1_760_000_000.123_456, "src": "127.0.0.1:7447", "dst": "[::1]:50000",
                "protocol": "zenoh", "message": "push", "kind": "put", "key": "a/b/\"q", "scope": null,
                "suffix": null, "payload": "dmFsdWU=", "encoding": "text/plain;utf8",
                "timestamp": "1970-01-01T00:00:01.000000000Z/abc", "attachment": "", "priority": 5,
                "congestion": "drop", "express": false, "request_id": null, "parameters": null,
                "consolidation": null, "target": null, "sn": 7, "peer": null, "name": null,
                "address": null, "group": null, "sequence": null, "status": null, "groups": null,
                "headers": null, "content": null, "error": null, "offset": null,
            })
        );
        let value = line(&record(Message::Network(NetworkMessage::Push(push)), None));
        assert_eq!(
            (&value["key"], &value["scope"], &value["suffix"]),
            (&Value::Null, &json!(3), &json!("/\"q"))
        );
    }

    #[test]
    fn a_hello_a_log_and_a_beacon() {
        use zwire_proto::zre::wire::{self, Address, Beacon, Body, Hello, Log, LogEvent};
        let uuid: Uuid = "0F1E2D3C4B5A69788796A5B4C3D2E1F0".parse().unwrap();
        let hello = Hello {
            address: Address::Endpoint(Bytes::from_static(b"tcp://10.0.0.1:49152")),
            groups: vec![Bytes::from_static(b"A"), Bytes::from_static(b"\xff")],
            status: 2,
            name: Bytes::from_static(b"edge\"1"),
            headers: vec![(Bytes::from_static(b"X-A"), Bytes::from_static(b"1"))],
        };
        let message = wire::ZreMessage { sequence: 1, body: Body::Hello(hello) };
        let generation = Some(zwire_proto::zre::Generation::Rfc36);
        let zre = crate::ZreMessage { generation, peer: Some(uuid), message };
        let value = line(&record(Message::Zre(Box::new(zre)), None));
        let names: BTreeSet<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, BTreeSet::from(FIELDS));
        assert_eq!(
            (&value["protocol"], &value["message"], &value["kind"]),
            (&json!("zre"), &json!("hello"), &json!("36"))
        );
        assert_eq!(value["peer"], "0F1E2D3C4B5A69788796A5B4C3D2E1F0");
        assert_eq!((&value["name"], &value["address"]), (&json!("edge\"1"), &json!("tcp://10.0.0.1:49152")));
        assert_eq!((&value["sequence"], &value["status"]), (&json!(1), &json!(2)));
        assert_eq!((&value["groups"], &value["headers"]), (&json!(["A", "\\xff"]), &json!({"X-A": "1"})));
        assert_eq!((&value["group"], &value["content"]), (&Value::Null, &Value::Null));

        let log =
            Log { peer: 7, ..Log::info(LogEvent::SEND, 9, 0, Duration::from_millis(1_795_223_068_500), "x") };
        let value = line(&record(Message::Log(Box::new(log)), None));
        assert_eq!((&value["protocol"], &value["kind"]), (&json!("zrelog"), &json!("send")));
        assert_eq!(value["timestamp"], "2026-11-21T01:04:28.500000000Z");
        assert_eq!(value["headers"], json!({"level": "INFO", "node": "9", "peer": "7"}));
        assert_eq!(value["content"], json!(["eA=="]));

        let beacon = Beacon { uuid, port: 49152, public_key: None };
        let value = line(&record(Message::Beacon(beacon), None));
        assert_eq!((&value["message"], &value["kind"]), (&json!("beacon"), &Value::Null));
        assert_eq!(value["address"], "tcp://127.0.0.1:49152");
        let value = line(&record(Message::Beacon(Beacon { port: 0, ..beacon }), None));
        assert_eq!((&value["kind"], &value["address"]), (&json!("goodbye"), &Value::Null));
    }

    #[test]
    fn a_query_and_an_error() {
        let query = Query { parameters: "a=1".into(), ..Query::default() };
        let request = Request::new(9, WireExpr::full("k"), query);
        let value = line(&record(Message::Network(NetworkMessage::Request(request)), Some(Text::EMPTY)));
        assert_eq!(value["message"], "request");
        assert_eq!(value["kind"], "query");
        assert_eq!((&value["request_id"], &value["parameters"]), (&json!(9), &json!("a=1")));
        assert_eq!((&value["consolidation"], &value["target"]), (&json!("auto"), &json!("best_matching")));
        assert_eq!((&value["payload"], &value["encoding"]), (&Value::Null, &Value::Null));
        let error = DecodeError { reading: "PUT payload", offset: 3, kind: DecodeErrorKind::Utf8 };
        let fault = Fault { protocol: Some(Protocol::Zenoh), offset: 1000, cause: Cause::Decode(error) };
        let value = line(&record(Message::Error(fault), None));
        assert_eq!((&value["message"], &value["offset"]), (&json!("error"), &json!(1000)));
        assert_eq!(value["error"], "PUT payload: not UTF-8");
    }
}
