//! Every ZMTP frame of every capture, decoded and encoded again to the same bytes.
//!
//! The captures are of libzmq: under pyre, three generations of Zyre, and pyzmq. The walk is simple, as
//! in `captures_roundtrip.rs`: a greeting, then frames to the end of the stream. There is no exception;
//! [`CAPTURES`] counts the frames read, so that a walk that stops early is noticed.

use bytes::Bytes;
use flate2::read::GzDecoder;
use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
};
use zwire_dissect::capture::{CaptureReader, ConnectionId, FlowEvent, Flows};
use zwire_proto::{
    buf::Reader,
    zmtp::wire::{
        Command, Error, FrameHead, Greeting, Mechanism, Ready, TrafficCommand, ZmtpGeneration, command_name,
        curve, put_frame,
    },
};

/// Per capture: greetings, commands and frames of messages.
const CAPTURES: &[(&str, [usize; 3])] = &[
    ("zre-draft-curve.pcap", [4, 8, 6]),
    ("zre-draft-election.pcap", [12, 12, 43]),
    ("zre-v1-rfc20.pcap", [26, 29, 113]),
    ("zre-v1-zyre100.pcap", [26, 29, 113]),
    ("zre-v2-chat.pcap", [20, 20, 277]),
    ("zmtp-curve.pcap", [22, 20, 97]),
    // 22 of READY, 4 of SUBSCRIBE, 1 of CANCEL, 50 of PING, 48 of PONG.
    ("zmtp-null.pcap", [22, 125, 461]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/captures")
}

#[expect(clippy::disallowed_methods, reason = "a test reads its vectors")]
fn file(name: &str) -> Bytes {
    let path = folder().join(format!("{name}.gz"));
    let compressed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut file = Vec::new();
    GzDecoder::new(&compressed[..]).read_to_end(&mut file).unwrap();
    file.into()
}

/// Each direction of each connection.
fn streams(name: &str) -> Vec<Bytes> {
    let mut reader = CaptureReader::default();
    reader.push(file(name));
    let mut flows = Flows::default();
    let mut streams: BTreeMap<(ConnectionId, usize), Vec<u8>> = BTreeMap::new();
    let mut drain = |flows: &mut Flows| {
        while let Some(event) = flows.poll_event() {
            match event {
                FlowEvent::Data { connection, direction, data, .. } => {
                    streams.entry((connection.id, direction.index())).or_default().extend_from_slice(&data);
                }
                FlowEvent::Gap { .. } => panic!("{name} is whole"),
                _ => {}
            }
        }
    };
    while let Some(packet) = reader.poll_packet().unwrap() {
        flows.handle_packet(&packet).unwrap();
        drain(&mut flows);
    }
    reader.finish().unwrap();
    flows.finish();
    drain(&mut flows);
    streams.into_values().map(Bytes::from).collect()
}

/// The frame of this command, encoded by zwire.
fn written<C: Command>(body: &Bytes) -> Bytes {
    C::decode(body).unwrap_or_else(|error| panic!("{error}: {body:?}")).to_frame()
}

/// Decodes and encodes a command in the given mechanism and phase.
fn rewrite(mechanism: Mechanism, open: &mut bool, body: &Bytes) -> Bytes {
    let name = command_name(&mut Reader::new(body)).unwrap();
    match (mechanism, name) {
        (_, b"ERROR") => written::<Error>(body),
        (Mechanism::NULL, b"READY") if !*open => {
            *open = true;
            written::<Ready>(body)
        }
        (Mechanism::NULL, _) if *open => {
            let command = TrafficCommand::decode(body).unwrap();
            assert!(!matches!(command, TrafficCommand::Unknown { .. }), "{command:?}");
            let (mut inner, mut out) = (Vec::new(), Vec::new());
            command.encode(&mut inner);
            FrameHead::command(inner.len()).encode(&mut out);
            out.extend_from_slice(&inner);
            out.into()
        }
        (Mechanism::CURVE, b"HELLO") => written::<curve::CurveHello>(body),
        (Mechanism::CURVE, b"WELCOME") => written::<curve::CurveWelcome>(body),
        (Mechanism::CURVE, b"INITIATE") => written::<curve::CurveInitiate>(body),
        (Mechanism::CURVE, b"READY") => written::<curve::CurveReady>(body),
        other => panic!("{other:?}"),
    }
}

fn run(name: &str) -> [usize; 3] {
    let mut counts = [0; 3];
    for stream in streams(name) {
        assert_eq!(ZmtpGeneration::detect(&stream), Some(ZmtpGeneration::V3), "{name}");
        let mut r = Reader::new(&stream);
        let greeting = Greeting::decode(&mut r).unwrap();
        assert_eq!(greeting.to_bytes()[..], stream[..Greeting::LEN], "{name}");
        counts[0] += 1;
        let mut rest = stream.slice(Greeting::LEN..);
        let mut open = false;
        while let Some((head, start)) = FrameHead::decode(&rest).unwrap() {
            let frame = rest.split_to(start + usize::try_from(head.len).unwrap());
            let body = frame.slice(start..);
            let again = if head.command {
                counts[1] += 1;
                rewrite(greeting.mechanism, &mut open, &body)
            } else {
                counts[2] += 1;
                if greeting.mechanism == Mechanism::CURVE {
                    written::<curve::CurveMessage>(&body)
                } else {
                    let mut out = Vec::new();
                    put_frame(&mut out, &body, head.more);
                    out.into()
                }
            };
            assert_eq!(again, frame, "{name}");
        }
        assert!(rest.is_empty(), "{name}: {} bytes at the end", rest.len());
    }
    counts
}

#[test]
fn every_frame_is_written_as_it_was_read() {
    for &(name, expected) in CAPTURES {
        assert_eq!(run(name), expected, "{name}");
    }
    assert_eq!(CAPTURES.len(), 7);
}
