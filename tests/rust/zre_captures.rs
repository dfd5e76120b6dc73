//! The captures of ZRE: each message decodes to the facts of the applications, and encodes to its
//! octets.
//!
//! ZMTP is decoded here by a few separate lines: greeting, commands, frames.

use bytes::Bytes;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use zwire_dissect::capture::{CaptureReader, ConnectionId, Direction, FlowEvent, Flows};
use zwire_proto::zre::wire::{Beacon, Body, EncodeError, Hello, IdentityForm, Log, ZreMessage, log_hash};
use zwire_proto::zre::{Generation, Uuid};

#[expect(clippy::disallowed_methods, reason = "a test reads its vectors")]
fn unpack(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/captures").join(name);
    let compressed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut file = Vec::new();
    if name.ends_with(".xz") {
        lzma_rs::xz_decompress(&mut &compressed[..], &mut file).unwrap();
    } else {
        GzDecoder::new(&compressed[..]).read_to_end(&mut file).unwrap();
    }
    file
}

/// Direction of a connection: the sender, and the messages it sends.
#[derive(Default)]
struct Stream {
    identity: Vec<u8>,
    messages: Vec<Vec<Bytes>>,
}

struct Capture {
    truth: Vec<Value>,
    beacons: Vec<Bytes>,
    streams: Vec<Stream>,
}

/// The frames behind a greeting of ZMTP 3.
fn frames(raw: &[u8]) -> Stream {
    let mut stream = Stream::default();
    let mut rest = raw.get(64..).unwrap_or_default();
    let mut message = Vec::new();
    while let [flags, tail @ ..] = rest {
        let (len, tail) = match flags & 2 {
            0 => (usize::from(tail[0]), &tail[1..]),
            _ => (u64::from_be_bytes(tail[..8].try_into().unwrap()) as usize, &tail[8..]),
        };
        let (body, tail) = tail.split_at(len);
        rest = tail;
        if flags & 4 != 0 {
            let name = b"\x08Identity";
            if let Some(at) = body.windows(name.len()).position(|part| part == name) {
                let value = &body[at + name.len()..];
                let len = u32::from_be_bytes(value[..4].try_into().unwrap()) as usize;
                stream.identity = value[4..4 + len].to_vec();
            }
            continue;
        }
        message.push(Bytes::copy_from_slice(body));
        if flags & 1 == 0 {
            stream.messages.push(std::mem::take(&mut message));
        }
    }
    assert!(message.is_empty());
    stream
}

fn capture(name: &str) -> Capture {
    let format = if name == "zre-v2-chat" { "xz" } else { "gz" };
    let truth = String::from_utf8(unpack(&format!("{name}.truth.jsonl.{format}"))).unwrap();
    let truth = truth.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut reader = CaptureReader::default();
    reader.push(unpack(&format!("{name}.pcap.gz")));
    let mut flows = Flows::default();
    let (mut raw, mut beacons) = (BTreeMap::<(ConnectionId, usize), Vec<u8>>::new(), Vec::new());
    let mut drain = |flows: &mut Flows| {
        while let Some(event) = flows.poll_event() {
            match event {
                FlowEvent::Data { connection, direction, data, .. } => {
                    raw.entry((connection.id, Direction::index(direction))).or_default().extend(&data);
                }
                FlowEvent::Datagram { data, .. } => beacons.push(data),
                _ => {}
            }
        }
    };
    while let Some(packet) = reader.poll_packet().unwrap() {
        flows.handle_packet(&packet).unwrap();
        drain(&mut flows);
    }
    flows.finish();
    drain(&mut flows);
    Capture { truth, beacons, streams: raw.values().map(|raw| frames(raw)).collect() }
}

impl Capture {
    fn facts<'a>(&'a self, op: &'a str) -> impl Iterator<Item = &'a Value> {
        self.truth.iter().filter(move |fact| fact["op"] == op)
    }

    fn uuids(&self) -> BTreeSet<String> {
        self.facts("node").map(|node| node["uuid"].as_str().unwrap().to_owned()).collect()
    }

    /// Checks that datagrams are beacons of the nodes, with so many goodbyes.
    fn check_beacons(&self, count: usize, goodbyes: usize, keys: bool) {
        let uuids = self.uuids();
        let mut gone = BTreeSet::new();
        for datagram in &self.beacons {
            let beacon = Beacon::decode(datagram).unwrap();
            assert_eq!(beacon.encode(), datagram);
            assert!(uuids.contains(&beacon.uuid.to_string()));
            assert_eq!(beacon.public_key.is_some(), keys);
            if beacon.port == 0 {
                gone.insert(beacon.uuid);
            }
        }
        assert_eq!((self.beacons.len(), gone.len()), (count + goodbyes, goodbyes));
    }
}

fn base64(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut value, mut bits) = (0_u32, 0);
    for digit in text.bytes().filter(|digit| *digit != b'=') {
        value = value << 6 | alphabet.iter().position(|known| *known == digit).unwrap() as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((value >> bits) as u8);
            value &= (1 << bits) - 1;
        }
    }
    out
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn string(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

type Heard = (String, String, String, Vec<Vec<u8>>);

/// Decodes and encodes all messages of a capture; returns the number of each kind.
fn check(name: &str, generation: Generation, form: IdentityForm) -> [usize; 11] {
    let capture = capture(name);
    let mut counts = [0; 11];
    let mut leaders = BTreeSet::new();
    let (mut heard, mut joined, mut entered) = (Vec::<Heard>::new(), BTreeSet::new(), BTreeMap::new());
    for stream in capture.streams.iter().filter(|stream| !stream.messages.is_empty()) {
        if stream.messages[0][0].starts_with(&[0xaa, 0xa2]) {
            continue;
        }
        let (found, uuid) = IdentityForm::decode(&stream.identity).unwrap();
        assert_eq!((found, form.encode(&uuid)), (form, stream.identity.clone().into()));
        let from = uuid.to_string();
        assert!(capture.uuids().contains(&from));
        assert_eq!(Hello::generation(&stream.messages[0][0]), Ok(generation), "{name}");
        for (frames, sequence) in stream.messages.iter().zip(1..) {
            let message = ZreMessage::decode(generation, frames).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(message.sequence, sequence, "{name}");
            counts[usize::from(message.body.id().0)] += 1;
            match message.encode(generation) {
                Ok(again) => assert_eq!(again, *frames, "{name}"),
                // zyre sends several frames where the text allows one. zyre 1.0.0 has the same octets.
                Err(EncodeError::MultiFrame { .. }) => {
                    assert_eq!(message.encode(Generation::Zyre1).unwrap(), *frames, "{name}");
                }
                Err(error) => panic!("{error}"),
            }
            for cut in 0..frames[0].len() {
                assert!(ZreMessage::decode(generation, &[frames[0].slice(..cut)]).is_err(), "{name}");
            }
            let content = message.body.content().iter().map(|frame| frame.to_vec()).collect();
            match message.body {
                Body::Hello(hello) => {
                    joined.extend(hello.groups.iter().map(|group| (from.clone(), string(group))));
                    entered.insert(from.clone(), hello);
                }
                Body::Whisper { .. } => heard.push((from.clone(), "WHISPER".into(), String::new(), content)),
                Body::Shout { group, .. } => {
                    heard.push((from.clone(), "SHOUT".into(), string(&group), content));
                }
                Body::Join { group, .. } => drop(joined.insert((from.clone(), string(&group)))),
                Body::Elect { challenger, .. } => {
                    assert!(capture.uuids().contains(&string(&challenger)));
                }
                Body::Leader { leader, .. } => {
                    assert!(capture.uuids().contains(&string(&leader)));
                    leaders.insert(string(&leader));
                }
                _ => {}
            }
        }
    }

    let mut expected: Vec<Heard> = capture
        .facts("event")
        .filter(|fact| fact["event"] == "WHISPER" || fact["event"] == "SHOUT")
        .map(|fact| {
            let content = fact["content_b64"].as_array().unwrap();
            let content = content.iter().map(|frame| base64(frame.as_str().unwrap())).collect();
            (text(&fact["from"]), text(&fact["event"]), text(&fact["group"]), content)
        })
        .collect();
    heard.sort();
    expected.sort();
    assert!(heard == expected, "{name}: {} on the wire, {} heard", heard.len(), expected.len());

    for fact in capture.facts("event") {
        let from = text(&fact["from"]);
        match fact["event"].as_str().unwrap() {
            // The first nodes of the group hold an election before the last one is present.
            "LEADER" => assert!(leaders.contains(&from), "{name}: {fact}"),
            "JOIN" => assert!(joined.contains(&(from, text(&fact["group"]))), "{name}: {fact}"),
            "ENTER" => {
                let hello = &entered[&from];
                for (key, value) in fact["headers"].as_object().unwrap() {
                    assert_eq!(hello.header(key.as_bytes()).map(|value| string(value)), Some(text(value)));
                }
                assert_eq!(hello.headers.len(), fact["headers"].as_object().unwrap().len());
                assert_eq!(string(&hello.name), text(&fact["name"]));
                let endpoint = string(&hello.address.endpoint());
                assert!(endpoint.contains(&text(&fact["address"])), "{endpoint}: {fact}");
            }
            _ => {}
        }
    }
    counts
}

/// By message number, as the notes beside the captures count them: HELLO, WHISPER, SHOUT, JOIN, LEAVE,
/// PING, PING-OK, ELECT, LEADER, GOODBYE.
#[test]
fn rfc_20_of_march_2014() {
    let counts = check("zre-v1-rfc20", Generation::Rfc20, IdentityForm::Bare);
    assert_eq!(counts, [0, 10, 14, 17, 12, 4, 6, 6, 0, 0, 0]);
    capture("zre-v1-rfc20").check_beacons(56, 4, false);
}

#[test]
fn zyre_1_0_0() {
    let counts = check("zre-v1-zyre100", Generation::Zyre1, IdentityForm::Bare);
    assert_eq!(counts, [0, 10, 14, 17, 12, 4, 6, 6, 0, 0, 0]);
    capture("zre-v1-zyre100").check_beacons(56, 4, false);
}

#[test]
fn rfc_36_of_zyre_and_pyre() {
    let counts = check("zre-v2-chat", Generation::Rfc36, IdentityForm::Prefixed);
    assert_eq!(counts, [0, 10, 28, 64, 16, 2, 1, 0, 0, 0, 0]);
    capture("zre-v2-chat").check_beacons(42, 4, false);
}

#[test]
fn elections() {
    let counts = check("zre-draft-election", Generation::Rfc36, IdentityForm::Prefixed);
    assert_eq!(counts, [0, 6, 0, 2, 6, 0, 0, 0, 19, 8, 0]);
    capture("zre-draft-election").check_beacons(21, 3, false);
}

/// Inside CURVE the messages need keys; the beacons hold the keys of the truth.
#[test]
fn secure_beacons() {
    let capture = capture("zre-draft-curve");
    capture.check_beacons(11, 2, true);
    let keys: BTreeMap<Uuid, [u8; 32]> = capture
        .beacons
        .iter()
        .map(|datagram| Beacon::decode(datagram).unwrap())
        .map(|beacon| (beacon.uuid, beacon.public_key.unwrap()))
        .collect();
    assert_eq!(keys.len(), 2);
    for node in capture.facts("node") {
        let key = zwire_proto::zre::z85::decode_key(node["public"].as_str().unwrap().as_bytes()).unwrap();
        assert_eq!(keys[&text(&node["uuid"]).parse().unwrap()], key);
    }
}

#[test]
fn log_messages() {
    for name in ["zre-v1-rfc20", "zre-v1-zyre100"] {
        let capture = capture(name);
        let mut sent: Vec<Bytes> = capture
            .streams
            .iter()
            .flat_map(|stream| &stream.messages)
            .filter(|frames| frames[0].starts_with(&[0xaa, 0xa2]))
            .map(|frames| frames[0].clone())
            .collect();
        let mut received: Vec<Bytes> = capture
            .facts("log_received")
            .map(|fact| base64(fact["frame_b64"].as_str().unwrap()).into())
            .collect();
        sent.sort();
        received.sort();
        assert_eq!(sent.len(), 13, "{name}");
        assert!(sent == received, "{name}");
        // Each sender is a node, identified by the hash of `ip:port` in its HELLO.
        let mailboxes: BTreeSet<u16> = capture
            .streams
            .iter()
            .flat_map(|stream| &stream.messages)
            .filter_map(|frames| Hello::generation(&frames[0]).ok().map(|generation| (generation, frames)))
            .map(|(generation, frames)| match ZreMessage::decode(generation, frames).unwrap().body {
                Body::Hello(hello) => log_hash(&hello.address.endpoint()["tcp://".len()..]),
                other => panic!("{other:?}"),
            })
            .collect();
        for frame in sent {
            let log = Log::decode(&frame).unwrap();
            assert_eq!(log.encode().unwrap(), frame);
            assert!(mailboxes.contains(&log.node), "{log:?}");
            assert!(log.timestamp().as_secs() > 1_700_000_000, "{log:?}");
        }
    }
}
