//! Captures of ZMTP that begin late, end early, lack packets or hold damaged bytes: no record is
//! invented, and the readable parts are read.

use super::{
    run::{dissect, faults, file, json, packets, save},
    truth::facts,
    zre::keys,
};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use zwire_dissect::capture::{Direction, Packet};
use zwire_dissect::{Cause, Dissector, Message, Options, Protocol, Record};
use zwire_proto::{
    pcap::{FrameBuilder, PcapWriter, write_datagram},
    zmtp::wire::{Command as _, Greeting, Mechanism, Metadata, Ready, SocketType},
};

const CAPTURES: [&str; 6] =
    ["zmtp-curve", "zmtp-null", "zre-draft-curve", "zre-v1-rfc20", "zre-v1-zyre100", "zre-v2-chat"];

fn options(name: &str) -> Options {
    Options { keys: keys(&facts(name)), ..Options::default() }
}

fn records(name: &str, packets: &[Packet]) -> Vec<Record> {
    dissect(&save(packets), options(name))
}

/// Content of a message, without fields that depend on its connection's handshake or its HELLO.
fn essence(record: &Record) -> String {
    let mut line = json(record);
    line["ts"] = Value::Null;
    if line["protocol"] == "zre" && line["message"] != "beacon" {
        line["peer"] = Value::Null;
        line["kind"] = Value::Null;
    }
    line.to_string()
}

/// Checks that `part` has no record that `whole` lacks, and returns the number of its messages. The
/// sender of a message is the same, or unknown.
fn check_nothing_invented(name: &str, whole: &[Record], part: &[Record]) -> usize {
    let mut known: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in whole {
        known.entry(essence(record)).or_default().push(record);
    }
    let mut messages = 0;
    for record in part.iter().filter(|record| record.fault().is_none()) {
        // Without the handshake there is no key.
        if matches!(record.kind(), Some("encrypted" | "unknown" | "initiate" | "ready")) {
            continue;
        }
        messages += 1;
        let same = known.get_mut(&essence(record)).and_then(Vec::pop);
        let same = same.unwrap_or_else(|| panic!("{name}: {} is not in the whole capture", json(record)));
        assert!(record.peer().is_none() || record.peer() == same.peer(), "{name}: {}", json(record));
        assert!(record.kind().is_none() || record.kind() == same.kind(), "{name}: {}", json(record));
    }
    messages
}

fn contents(records: &[Record]) -> usize {
    records.iter().filter(|record| record.content().is_some()).count()
}

#[test]
fn a_capture_that_begins_late_invents_nothing_and_says_so() {
    for name in CAPTURES {
        let packets = packets(name);
        let whole = records(name, &packets);
        for tenth in 1..9 {
            let part = records(name, &packets[packets.len() * tenth / 10..]);
            check_nothing_invented(name, &whole, &part);
            // A sender without a greeting was reported as joined late.
            for record in &part {
                let nobody = matches!(&record.message, Message::Zre(message) if message.peer.is_none());
                let joined = |other: &Record| {
                    (other.src, other.dst) == (record.src, record.dst)
                        && matches!(other.fault().map(|fault| &fault.cause), Some(Cause::Joined { .. }))
                };
                assert!(!nobody || part.iter().any(joined), "{name}: {}", json(record));
            }
        }
    }
}

#[test]
fn messages_of_zre_are_found_on_connections_that_were_joined_late() {
    for (name, least) in [("zre-v2-chat", 80), ("zre-v1-rfc20", 25), ("zre-v1-zyre100", 25)] {
        let packets = packets(name);
        let start = packets.len() / 4;
        let whole = records(name, &packets);
        let (after, _): (Vec<_>, Vec<_>) =
            whole.iter().cloned().partition(|record| record.time >= packets[start].timestamp);
        let part = records(name, &packets[start..]);
        let (found, all) = (contents(&part), contents(&after));
        assert!(found >= least && found * 10 >= all * 9, "{name}: {found} of {all}");
    }
}

#[test]
fn a_capture_that_ends_early_is_read_to_its_end() {
    for name in CAPTURES {
        let packets = packets(name);
        let whole = records(name, &packets);
        for tenth in 1..10 {
            let part = records(name, &packets[..packets.len() * tenth / 10]);
            check_nothing_invented(name, &whole, &part);
            for record in part.iter().filter(|record| record.fault().is_some()) {
                let cause = &record.fault().unwrap().cause;
                assert!(matches!(cause, Cause::Unfinished { .. }), "{name}: {cause}");
            }
        }
    }
}

#[test]
fn lost_packets_cost_their_messages() {
    for name in CAPTURES {
        let packets = packets(name);
        let whole = records(name, &packets);
        for nth in [7, 11, 23] {
            let thinned: Vec<_> = packets
                .iter()
                .enumerate()
                .filter(|(at, _)| at % nth != nth - 1)
                .map(|(_, p)| p.clone())
                .collect();
            let part = records(name, &thinned);
            check_nothing_invented(name, &whole, &part);
            for record in part.iter().filter_map(Record::fault) {
                let cause = &record.cause;
                let told = matches!(
                    cause,
                    Cause::Missing { .. }
                        | Cause::Joined { .. }
                        | Cause::Unframed { .. }
                        | Cause::Unfinished { .. }
                        | Cause::Sealed { .. }
                );
                assert!(told, "{name}: {cause}");
            }
        }
    }
    let chat = packets("zre-v2-chat");
    let thinned: Vec<_> =
        chat.iter().enumerate().filter(|(at, _)| at % 50 != 49).map(|(_, packet)| packet.clone()).collect();
    assert!(contents(&records("zre-v2-chat", &thinned)) > 70);
}

#[test]
fn packets_twice_and_out_of_order_say_the_same() {
    for name in ["zre-v2-chat", "zre-v1-rfc20", "zmtp-null"] {
        let packets = packets(name);
        let whole = records(name, &packets);
        let mut shuffled = Vec::new();
        for pair in packets.chunks(2) {
            // Segments that open or close a connection are not swapped, and beacons repeat on purpose.
            let border = |packet: &Packet| packet.data[23] != 6 || packet.data[47] & 7 != 0;
            match pair {
                [a, b] if !border(a) && !border(b) => shuffled.extend([b.clone(), a.clone(), b.clone()]),
                pair => shuffled.extend_from_slice(pair),
            }
        }
        let part = records(name, &shuffled);
        assert_eq!(faults(&part), Vec::<String>::new(), "{name}");
        assert_eq!(check_nothing_invented(name, &whole, &part), part.len() - ready(&part), "{name}");
        assert_eq!(part.len(), whole.len(), "{name}");
    }
}

fn ready(records: &[Record]) -> usize {
    records.iter().filter(|record| record.kind() == Some("ready")).count()
}

fn addresses() -> (SocketAddr, SocketAddr) {
    (SocketAddr::from(([10, 0, 0, 1], 40_000)), SocketAddr::from(([10, 0, 0, 2], 49_152)))
}

/// A connection from a node of ZRE, in the pieces given.
fn connection(pieces: &[&[u8]]) -> Bytes {
    let (client, server) = addresses();
    let mut out = PcapWriter::new();
    let mut frames = FrameBuilder::new(client, server, [1, 2]);
    let now = Duration::from_secs(1);
    frames.open(now, &mut out);
    for piece in pieces {
        frames.data(now, Direction::ToServer, piece, &mut out);
    }
    frames.close(now, Direction::ToServer, &mut out);
    out.take().into()
}

/// Greeting and READY of a node of 36/ZRE.
fn handshake() -> Vec<u8> {
    let identity =
        Bytes::from_static(b"\x01\x0f\x1e\x2d\x3c\x4b\x5a\x69\x78\x87\x96\xa5\xb4\xc3\xd2\xe1\xf0");
    let ready = Ready { metadata: Metadata::of_socket(SocketType::Dealer, &identity) };
    [&Greeting::new(Mechanism::NULL).to_bytes()[..], &ready.to_frame()].concat()
}

/// A message with number 1 to n of 36/ZRE.
const HELLO: &[u8] =
    b"\x00\x18\xaa\xa1\x01\x02\x00\x01\x01e\x00\x00\x00\x01\x00\x00\x00\x01G\x01\x01n\x00\x00\x00\x00";
const JOIN: &[u8] = b"\x00\x09\xaa\xa1\x04\x02\x00\x02\x01G\x01";
const SHOUT: &[u8] = b"\x01\x08\xaa\xa1\x03\x02\x00\x03\x01G\x01\x01a\x00\x02bc";

fn lines(pieces: &[&[u8]]) -> Vec<Value> {
    dissect(&connection(pieces), Options::default()).iter().map(json).collect()
}

#[test]
fn a_connection_cut_anywhere_says_the_same() {
    let stream = [&handshake()[..], HELLO, JOIN, SHOUT].concat();
    let whole = lines(&[&stream]);
    let words: Vec<_> = whole.iter().map(|line| line["message"].as_str().unwrap().to_owned()).collect();
    assert_eq!(words, ["greeting", "command", "hello", "join", "shout"]);
    assert_eq!(whole[4]["content"], json!(["YQ==", "YmM="]));
    assert_eq!(whole[4]["peer"], "0F1E2D3C4B5A69788796A5B4C3D2E1F0");
    for cut in 1..stream.len() {
        let (a, b) = stream.split_at(cut);
        assert_eq!(lines(&[a, b]), whole, "{cut}");
        // A capture that ends there has fewer records, and gives the reason.
        let part = lines(&[a]);
        let faults: Vec<_> = part.iter().filter(|line| line["error"] != Value::Null).collect();
        assert!(faults.len() <= 1 && part.len() - faults.len() < whole.len(), "{cut}");
        for line in part.iter().filter(|line| line["error"] == Value::Null) {
            assert!(whole.contains(line), "{cut}: {line}");
        }
    }
    let bytewise: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(lines(&bytewise), whole);
}

#[test]
fn what_does_not_decode_names_field_and_offset() {
    let start = handshake();
    let at = start.len() as u64;
    for (frames, error, offset) in [
        (&b"\x00\x05\xaa\xa1\x01\x02\x00"[..], "message sequence: 1 more bytes needed", 2 + 4),
        (b"\x00\x0a\xaa\xa1\x01\x02\x00\x01\x01e\x00\x00", "HELLO groups: 2 more bytes needed", 2 + 8),
        (b"\x00\x06\xaa\xa1\x63\x02\x00\x01", "message id: unknown id 0x63", 2 + 2),
        (b"\x04\x05\x04PING", "PING TTL: 2 more bytes needed", 2 + 5),
        (b"\x04\x02\x05P", "command name: 4 more bytes needed", 2 + 1),
        (b"\x08\x00", "frame flags: illegal value 8", 0),
    ] {
        let found = lines(&[&[&start[..], frames].concat()]);
        let fault = found.iter().find(|line| line["error"] != Value::Null).unwrap();
        let told = fault["error"].as_str().unwrap().split(" at offset").next().unwrap();
        assert_eq!((told, fault["offset"].as_u64().unwrap()), (error, at + offset), "{frames:?}");
        assert_eq!(fault["message"], "error");
    }
}

#[test]
fn reading_goes_on_behind_what_does_not_decode() {
    let bad = b"\x00\x06\xaa\xa1\x63\x02\x00\x01";
    let words = |stream: Vec<u8>| -> Vec<String> {
        lines(&[&stream]).iter().map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    };
    let start = handshake();
    assert_eq!(words([&start[..], bad, JOIN].concat()), ["greeting", "command", "error", "join"]);
    // The end of the frame is unknown: the next one with a signature is found.
    let lost = [&start[..], b"\xf8garbage of some length", JOIN, SHOUT].concat();
    assert_eq!(words(lost), ["greeting", "command", "error", "error", "join", "shout"]);
}

#[test]
fn a_frame_of_four_gibibytes_is_told_and_takes_no_memory() {
    let claim = [&handshake()[..], b"\x02\x00\x00\x00\x01\x00\x00\x00\x00", &[7; 100]].concat();
    let found = lines(&[&claim]);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        found[2]["error"],
        format!("frame of {} bytes not read, {} are possible", 1u64 << 32, 256 << 20)
    );
    // Same for a message of more frames than any sender uses.
    let many = [&handshake()[..], &b"\x01\x00".repeat(70_000), b"\x00\x01x", JOIN].concat();
    let found = lines(&[&many]);
    assert!(found[2]["error"].as_str().unwrap().contains("more than 65536 frames"), "{:?}", found[2]);
    assert_eq!((found.len(), found[3]["message"].as_str()), (4, Some("join")));
}

#[test]
fn beacons_are_told_and_damaged_ones_on_their_port_too() {
    let (src, _) = addresses();
    let datagram = |to: u16, data: &[u8]| -> Vec<Value> {
        let dst = SocketAddr::from(([10, 0, 0, 255], to));
        let mut out = PcapWriter::new();
        write_datagram(Duration::from_secs(1), src, dst, data, &mut out).unwrap();
        dissect(&out.take().into(), Options::default()).iter().map(json).collect()
    };
    let good = [b"ZRE\x01".as_slice(), &[7; 16], &[0xc0, 0x30]].concat();
    for port in [5670, 9999] {
        let [beacon] = &datagram(port, &good)[..] else { panic!() };
        assert_eq!(
            (beacon["peer"].as_str(), beacon["address"].as_str()),
            (Some(&*"07".repeat(16)), Some("tcp://10.0.0.1:49200"))
        );
    }
    for (bad, error) in [
        (&good[..20], "beacon port: 2 more bytes needed"),
        (&[&good[..], &[0]].concat(), "beacon: 1 bytes left over"),
        (b"ZRE\x02", "beacon version: illegal value 2"),
    ] {
        let [fault] = &datagram(5670, bad)[..] else { panic!() };
        assert_eq!((fault["protocol"].as_str(), fault["error"].as_str()), (Some("zre"), Some(error)));
        assert_eq!(datagram(9999, bad), Vec::<Value>::new());
    }
}

/// PLAIN: the password is in no record.
#[test]
fn plain_is_read_without_its_password() {
    use zwire_proto::zmtp::wire::plain;
    let hello =
        plain::PlainHello { username: Bytes::from_static(b"admin"), password: Bytes::from_static(b"hidden") };
    let metadata = Metadata::of_socket(SocketType::Dealer, &Bytes::from_static(b"me"));
    let stream = [
        &Greeting::new(Mechanism::PLAIN).to_bytes()[..],
        &hello.to_frame(),
        &plain::PlainInitiate { metadata }.to_frame(),
        b"\x00\x02hi",
    ]
    .concat();
    let found = lines(&[&stream]);
    let kinds: Vec<_> = found.iter().map(|line| line["kind"].as_str().unwrap_or("-")).collect();
    assert_eq!(kinds, ["plain", "hello", "initiate", "-"]);
    assert_eq!(found[1]["headers"], json!({"username": "admin"}));
    assert_eq!(found[2]["headers"], json!({"Socket-Type": "DEALER", "Identity": "me"}));
    assert_eq!(found[3]["content"], json!(["aGk="]));
    let text: String = found.iter().map(ToString::to_string).collect();
    assert!(!text.contains("hidden") && !text.contains("aGlkZGVu"));
}

/// Any bit of a connection may be wrong: no panic, and an error lies within the stream.
#[test]
fn changed_bytes_never_end_the_reading() {
    let stream = [&handshake()[..], HELLO, JOIN, SHOUT, JOIN].concat();
    for at in 0..stream.len() {
        for bit in 0..8 {
            let mut changed = stream.clone();
            changed[at] ^= 1 << bit;
            for line in lines(&[&changed]) {
                if line["error"] != Value::Null {
                    assert!(line["offset"].as_u64().unwrap() <= stream.len() as u64, "{at} {bit}: {line}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn noise_behind_a_handshake_never_panics(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        sealed: bool,
        pieces in 1..5usize,
    ) {
        let mut stream = if sealed { Greeting::new(Mechanism::CURVE).to_bytes().to_vec() } else { handshake() };
        stream.extend(noise);
        let size = stream.len().div_ceil(pieces);
        let pieces: Vec<&[u8]> = stream.chunks(size).collect();
        for record in dissect(&connection(&pieces), options("zre-draft-curve")) {
            if let Some(fault) = record.fault() {
                prop_assert!(fault.offset <= stream.len() as u64 && fault.protocol != Some(Protocol::Zenoh));
            }
        }
    }
}

/// Chunks as read from a pipe.
#[test]
fn a_long_capture_is_read_in_chunks() {
    let file = file("zre-v2-chat");
    let whole = dissect(&file, Options::default()).len();
    let mut dissector = Dissector::new(Options::default());
    let mut count = 0;
    for start in (0..file.len()).step_by(97) {
        dissector.push(file.slice(start..file.len().min(start + 97)));
        while dissector.poll_record().unwrap().is_some() {
            count += 1;
        }
    }
    dissector.finish();
    while dissector.poll_record().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, whole);
}
