//! Vectors of the published TypeScript client 1.10.0, and properties.

use super::*;
use crate::{
    error::DecodeErrorKind,
    zenoh::{
        CongestionControl, Encoding, KeyExpr, Priority, Qos, Reliability, Timestamp, ZenohId,
        session::{Locality, SampleKind},
        timestamp::Ntp64,
        wire::{Consolidation, QueryTarget},
    },
};
use bytes::Bytes;
use proptest::prelude::*;

fn octets(hex: &str) -> Bytes {
    let digits: String = hex.split_whitespace().collect();
    let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(octet).collect::<Vec<_>>().into()
}

fn key(text: &str) -> KeyExpr {
    text.parse().unwrap()
}

fn qos(congestion: CongestionControl) -> RemoteQos {
    RemoteQos {
        qos: Qos::new(Priority::Data, congestion, false),
        reliability: Reliability::Reliable,
        locality: Locality::Any,
    }
}

fn read_request(raw: &Bytes) -> Result<(Option<u32>, RemoteRequest)> {
    let mut r = Reader::new(raw);
    let head = RemoteHead::decode(&mut r)?;
    Ok((head.sequence, RemoteRequest::decode(head.id, &mut r)?))
}

fn read_event(raw: &Bytes) -> Result<(Option<u32>, RemoteEvent)> {
    let mut r = Reader::new(raw);
    let head = RemoteHead::decode(&mut r)?;
    Ok((head.sequence, RemoteEvent::decode(head.id, &mut r)?))
}

fn vectors() -> Vec<(&'static str, Option<u32>, RemoteRequest)> {
    let dropped = qos(CongestionControl::Drop);
    vec![
        ("99 00000000", Some(0), RemoteRequest::Ping {}),
        (
            "82 01000000 00000000 03 612f62 02",
            Some(1),
            RemoteRequest::DeclareSubscriber { id: 0, key: key("a/b"), origin: Locality::Any },
        ),
        (
            "84 02000000 01000000 04 712f2a2a 01 02",
            Some(2),
            RemoteRequest::DeclareQueryable {
                id: 1,
                key: key("q/**"),
                complete: true,
                origin: Locality::Any,
            },
        ),
        (
            "80 03000000 02000000 01 70 0000 00 a5",
            Some(3),
            RemoteRequest::DeclarePublisher {
                id: 2,
                key: key("p"),
                encoding: Encoding::DEFAULT,
                qos: dropped,
            },
        ),
        (
            "0e 01 61 02 6869 0000 00 00 00 a5",
            None,
            RemoteRequest::Put {
                key: key("a"),
                payload: (&b"hi"[..]).into(),
                encoding: Encoding::DEFAULT,
                attachment: None,
                timestamp: None,
                qos: dropped,
            },
        ),
        (
            "0f 01 61 00 00 a5",
            None,
            RemoteRequest::Delete { key: key("a"), attachment: None, timestamp: None, qos: dropped },
        ),
        (
            "10 02000000 01 78 00 00 00",
            None,
            RemoteRequest::PublisherPut {
                publisher: 2,
                payload: (&b"x"[..]).into(),
                encoding: None,
                attachment: None,
                timestamp: None,
            },
        ),
        (
            "12 03000000 03 672f2a 03 783d31 00 00 00 ad 10 10270000",
            None,
            RemoteRequest::Get {
                id: 3,
                key: key("g/*"),
                parameters: "x=1".into(),
                payload: None,
                encoding: None,
                attachment: None,
                qos: qos(CongestionControl::Block),
                settings: RemoteSettings {
                    target: QueryTarget::BestMatching,
                    consolidation: Consolidation::Auto,
                    accept_any_key: false,
                },
                timeout_ms: 10_000,
            },
        ),
        ("83 04000000 00000000", Some(4), RemoteRequest::UndeclareSubscriber { id: 0 }),
    ]
}

#[test]
fn messages_of_the_published_client_are_read_and_written() {
    for (hex, sequence, message) in vectors() {
        let raw = octets(hex);
        assert_eq!(read_request(&raw).unwrap(), (sequence, message.clone()), "{hex}");
        let mut written = Vec::new();
        message.encode(sequence, &mut written);
        assert_eq!(written, raw, "{message:?}");
    }
}

#[test]
fn answers_are_those_of_the_tables() {
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    let mut written = Vec::new();
    RemoteEvent::PingAck { uuid: uuid.into() }.encode(Some(0), &mut written);
    assert_eq!(written, [&octets("80 00000000 24")[..], uuid.as_bytes()].concat());
    written.clear();
    RemoteEvent::Done { request: 2 }.encode(Some(1), &mut written);
    assert_eq!(written, octets("81 01000000 02"));
    written.clear();
    let zid = ZenohId::new(0x0102).unwrap();
    RemoteEvent::Timestamp { timestamp: Timestamp { time: Ntp64(1), id: zid } }.encode(Some(5), &mut written);
    assert_eq!(written, octets("83 05000000 0100000000000000 10 02010000000000000000000000000000"));
}

#[test]
fn a_message_that_is_cut_is_refused_at_each_octet() {
    for (hex, sequence, _) in vectors() {
        let raw = octets(hex);
        for end in 0..raw.len() {
            assert!(read_request(&raw.slice(..end)).is_err(), "{hex} until {end}");
        }
        let more = [&raw[..], &[0xff]].concat().into();
        assert_eq!(read_request(&more).unwrap().0, sequence, "octets behind the last field");
    }
}

#[test]
fn illegal_values_are_named() {
    for (hex, reading, kind) in [
        ("25", "remote message id", DecodeErrorKind::UnknownId { id: 0x25 }),
        ("02 00000000 01 61 03", "DeclareSubscriber origin", DecodeErrorKind::Illegal { value: 3 }),
        ("02 00000000 02 612f 02", "DeclareSubscriber key", DecodeErrorKind::KeyExpr),
        ("02 00000000 02 ffff 02", "DeclareSubscriber key", DecodeErrorKind::Utf8),
        ("04 00000000 01 61 02 02", "DeclareQueryable complete", DecodeErrorKind::Illegal { value: 2 }),
        ("0f 01 61 00 00 a0", "Delete qos", DecodeErrorKind::Illegal { value: 0xa0 }),
        ("0f 01 61 00 00 e5", "Delete qos", DecodeErrorKind::Illegal { value: 0xe5 }),
        ("0f 01 61 00 01 0000000000000000 0f", "Delete timestamp", DecodeErrorKind::Illegal { value: 15 }),
        (
            "12 03000000 01 67 00 00 00 00 ad 03 10270000",
            "Get settings",
            DecodeErrorKind::Illegal { value: 3 },
        ),
    ] {
        let error = read_request(&octets(hex)).unwrap_err();
        assert_eq!((error.reading, &error.kind), (reading, &kind), "{hex}");
    }
}

#[test]
fn lengths_that_lie_allocate_nothing() {
    let error = read_request(&octets("0e 01 61 ffffffff7f 00")).unwrap_err();
    assert_eq!(error.reading, "Put payload");
    // A list of 2^32 nodes in an answer of ten octets.
    let error = read_event(&octets("8b 00000000 ffffffff0f")).unwrap_err();
    assert_eq!(error.reading, "Transports transports");
}

fn any_qos() -> impl Strategy<Value = RemoteQos> {
    let localities = [Locality::SessionLocal, Locality::Remote, Locality::Any];
    (1..8u8, any::<[bool; 3]>(), prop::sample::select(localities.to_vec())).prop_map(
        |(priority, [block, express, reliable], locality)| RemoteQos {
            qos: Qos::new(
                Priority::from_bits(priority),
                if block { CongestionControl::Block } else { CongestionControl::Drop },
                express,
            ),
            reliability: if reliable { Reliability::Reliable } else { Reliability::BestEffort },
            locality,
        },
    )
}

fn any_encoding() -> impl Strategy<Value = Encoding> {
    (any::<u16>(), "[a-z;=]{0,20}").prop_map(|(id, schema)| Encoding {
        id,
        schema: (!schema.is_empty()).then(|| Box::new(Bytes::from(schema))),
    })
}

fn any_timestamp() -> impl Strategy<Value = Timestamp> {
    (any::<u64>(), 1..u128::MAX)
        .prop_map(|(time, id)| Timestamp { time: Ntp64(time), id: ZenohId::new(id).unwrap() })
}

fn any_sample() -> impl Strategy<Value = RemoteReply> {
    (
        "[a-z]{1,8}(/[a-z]{1,8}){0,3}",
        prop::collection::vec(any::<u8>(), 0..300),
        any::<bool>(),
        any_encoding(),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
        prop::option::of(any_timestamp()),
        any_qos(),
    )
        .prop_map(|(name, payload, put, encoding, attachment, timestamp, qos)| RemoteReply::Sample {
            key: key(&name),
            payload: payload.into(),
            kind: if put { SampleKind::Put } else { SampleKind::Delete },
            encoding,
            attachment: attachment.map(Bytes::from),
            timestamp,
            qos,
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read(sample in any_sample(), get: u32, sequence: Option<u32>) {
        let event = RemoteEvent::Reply { get, reply: sample.clone() };
        let mut raw = Vec::new();
        event.encode(sequence, &mut raw);
        prop_assert_eq!(read_event(&raw.into()).unwrap(), (sequence, event));
        let RemoteReply::Sample { key, payload, encoding, attachment, timestamp, qos, .. } = sample else {
            unreachable!()
        };
        let request = RemoteRequest::ReplyOk { query: get, key, payload, encoding, attachment, timestamp, qos };
        let mut raw = Vec::new();
        request.encode(sequence, &mut raw);
        prop_assert_eq!(read_request(&raw.into()).unwrap(), (sequence, request));
    }

    #[test]
    fn mutated_messages_are_read_or_refused(
        which: prop::sample::Index, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let all = vectors();
        let mut raw = octets(all[which.index(all.len())].0).to_vec();
        for (at, octet) in changes {
            let at = at.index(raw.len());
            raw[at] = octet;
        }
        crate::zenoh::remote_api::both_ways(&raw);
    }
}

#[test]
fn schemas_that_are_no_text_are_left_out() {
    let encoding = Encoding { id: 4, schema: Some(Box::new(Bytes::from_static(b"\xff"))) };
    let request = RemoteRequest::ReplyErr { query: 0, payload: Default::default(), encoding };
    let mut raw = Vec::new();
    request.encode(None, &mut raw);
    assert_eq!(raw, octets("17 00000000 00 0400 00"));
}
