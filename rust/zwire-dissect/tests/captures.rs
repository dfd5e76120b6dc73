//! Reassembly of every capture in `tests/vectors/captures`, from its file to its streams.

use bytes::Bytes;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;
use zwire_dissect::capture::{
    CaptureReader, CloseReason, ConnectionId, Direction, FlowEvent, FlowStats, Flows, Packet, StreamBuffer,
};

/// Name, packets and TCP connections, as the notes beside the captures count them.
const CAPTURES: [(&str, u64, usize); 21] = [
    ("zenoh-bulk.pcap", 349, 1),
    ("zenoh-compression.pcap", 139, 1),
    ("zenoh-declared-keyexpr.pcap", 596, 3),
    ("zenoh-fragmented.pcap", 5664, 2),
    ("zenoh-handshakes.pcap", 324, 17),
    ("zenoh-liveliness-interest.pcap", 162, 4),
    ("zenoh-lowlatency.pcap", 140, 1),
    ("zenoh-old-version.pcap", 221, 1),
    ("zenoh-pico.pcap", 299, 11),
    ("zenoh-pubsub-basic.pcap", 424, 1),
    ("zenoh-query.pcap", 198, 2),
    ("zenoh-router.pcapng", 342, 2),
    ("zenoh-scouting.pcap", 142, 4),
    ("zenoh-udp.pcap", 305, 0),
    ("zmtp-curve.pcap", 224, 12),
    ("zmtp-null.pcap", 503, 11),
    ("zre-draft-curve.pcap", 56, 2),
    ("zre-draft-election.pcap", 183, 6),
    ("zre-v1-rfc20.pcap", 412, 13),
    ("zre-v1-zyre100.pcap", 413, 13),
    ("zre-v2-chat.pcap", 570, 10),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/captures")
}

#[expect(clippy::disallowed_methods, reason = "a test reads its vectors")]
fn file(name: &str) -> Bytes {
    let path = folder().join(format!("{name}.gz"));
    let compressed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut file = Vec::new();
    GzDecoder::new(&compressed[..]).read_to_end(&mut file).unwrap();
    file.into()
}

fn packets(file: &Bytes, chunk: usize) -> Vec<Packet> {
    let mut reader = CaptureReader::default();
    let mut packets = Vec::new();
    for start in (0..file.len()).step_by(chunk) {
        reader.push(file.slice(start..file.len().min(start + chunk)));
        while let Some(packet) = reader.poll_packet().unwrap() {
            packets.push(packet);
        }
    }
    reader.finish().unwrap();
    packets
}

#[derive(Default, PartialEq, Eq)]
struct Stream {
    bytes: Vec<u8>,
    gaps: u64,
}

#[derive(Default)]
struct Outcome {
    streams: BTreeMap<(ConnectionId, usize), Stream>,
    closes: BTreeMap<ConnectionId, CloseReason>,
    datagrams: Vec<Bytes>,
    stats: FlowStats,
}

fn run<'a>(packets: impl IntoIterator<Item = &'a Packet>) -> Outcome {
    let mut flows = Flows::default();
    let mut outcome = Outcome::default();
    let drain = |flows: &mut Flows, outcome: &mut Outcome| {
        while let Some(event) = flows.poll_event() {
            match event {
                FlowEvent::Open { connection, .. } => {
                    for direction in [Direction::ToServer, Direction::ToClient] {
                        outcome.streams.insert((connection.id, direction.index()), Stream::default());
                    }
                }
                FlowEvent::Data { connection, direction, offset, data, .. } => {
                    let stream = outcome.streams.get_mut(&(connection.id, direction.index())).unwrap();
                    assert_eq!(offset, stream.bytes.len() as u64 + stream.gaps);
                    stream.bytes.extend_from_slice(&data);
                }
                FlowEvent::Gap { connection, direction, missing, .. } => {
                    outcome.streams.get_mut(&(connection.id, direction.index())).unwrap().gaps += missing;
                }
                FlowEvent::Close { connection, reason, .. } => {
                    assert_eq!(outcome.closes.insert(connection.id, reason), None);
                }
                FlowEvent::Datagram { data, missing, .. } => {
                    assert_eq!(missing, 0);
                    outcome.datagrams.push(data);
                }
            }
        }
    };
    for packet in packets {
        flows.handle_packet(packet).unwrap();
        drain(&mut flows, &mut outcome);
    }
    flows.finish();
    drain(&mut flows, &mut outcome);
    outcome.stats = flows.stats();
    outcome
}

#[test]
fn every_capture_gives_whole_streams() {
    for (name, count, connections) in CAPTURES {
        let outcome = run(&packets(&file(name), usize::MAX));
        let stats = outcome.stats;
        assert_eq!(stats.packets, count, "{name}");
        assert_eq!((stats.malformed, stats.dropped_fragments, stats.evicted), (0, 0, 0), "{name}");
        assert_eq!(outcome.streams.len(), 2 * connections, "{name}");
        assert_eq!(outcome.closes.len(), connections, "{name}");
        for (key, stream) in &outcome.streams {
            assert_eq!(stream.gaps, 0, "{name} {key:?}");
        }
    }
}

#[test]
fn no_capture_was_forgotten() {
    let mut names: Vec<String> = folder()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".gz").map(str::to_owned))
        .filter(|name| name.ends_with(".pcap") || name.ends_with(".pcapng"))
        .collect();
    names.sort();
    assert_eq!(names, CAPTURES.map(|(name, ..)| name));
}

/// Zenoh puts a length of two octets (four behind OPEN with low latency) in front of each batch, so
/// the lengths of a whole stream lead exactly to its end.
#[test]
fn the_batches_of_zenoh_fill_their_streams() {
    let mut batches = 0;
    for (name, ..) in CAPTURES.iter().filter(|(name, ..)| name.starts_with("zenoh-")) {
        for (key, stream) in &run(&packets(&file(name), usize::MAX)).streams {
            let mut buffer = StreamBuffer::default();
            buffer.push(Bytes::copy_from_slice(&stream.bytes));
            let low_latency = name.starts_with("zenoh-lowlatency");
            for index in 0.. {
                let len = if low_latency && index >= 2 {
                    // Each of these streams ends with a CLOSE after two octets of length.
                    if buffer.peek() == Some([2, 0, 3, 0]) && buffer.len() == 4 {
                        buffer.skip(4);
                    }
                    buffer.take(4).map(|len| u32::from_le_bytes(len[..].try_into().unwrap()) as usize)
                } else {
                    buffer.take(2).map(|len| usize::from(u16::from_le_bytes(len[..].try_into().unwrap())))
                };
                let Some(len) = len else { break };
                assert!(buffer.take(len).is_some(), "{name} {key:?}: batch of {len} at the end");
                batches += 1;
            }
            assert!(buffer.is_empty(), "{name} {key:?}: {} octets left", buffer.len());
        }
    }
    assert!(batches > 2500, "{batches}");
}

#[test]
fn chunks_of_any_size_give_the_same_packets() {
    for name in ["zenoh-router.pcapng", "zenoh-scouting.pcap", "zenoh-udp.pcap"] {
        let file = file(name);
        let whole = packets(&file, usize::MAX);
        for chunk in [1, 13, 4096] {
            assert!(packets(&file, chunk) == whole, "{name} in chunks of {chunk}");
        }
    }
}

/// Flags of a TCP segment over IPv4 without options, which is all that these captures hold.
fn flags(packet: &Packet) -> u8 {
    let data = &packet.data;
    if data.get(12..15) == Some(&[8, 0, 0x45]) && data.get(23) == Some(&6) { data[47] } else { 0 }
}

#[test]
fn packets_out_of_order_and_twice_give_the_same_streams() {
    for (name, ..) in CAPTURES.iter().filter(|(name, ..)| !name.contains("bulk")) {
        let packets = packets(&file(name), usize::MAX);
        let mut shuffled: Vec<&Packet> = Vec::new();
        let mut late: Vec<&Packet> = Vec::new();
        let mut random = 1u32;
        for packet in &packets {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // A SYN marks the start, a FIN or a reset the end: no segment is moved across these. A
            // segment that was acknowledged and comes a second late counts as lost.
            let is_border = flags(packet) & 0x07 != 0;
            let is_old = |late: &&Packet| packet.timestamp - late.timestamp > Duration::from_millis(500);
            if is_border || late.len() > 6 || late.first().is_some_and(is_old) {
                shuffled.extend(late.drain(..).rev());
            }
            match random >> 30 {
                _ if is_border => shuffled.push(packet),
                0 => late.push(packet),
                1 => shuffled.extend([packet, packet]),
                _ => shuffled.push(packet),
            }
        }
        shuffled.extend(late);
        let (expected, got) = (run(&packets), run(shuffled));
        assert!(expected.streams == got.streams, "{name}");
    }
}

#[test]
fn a_capture_that_starts_later_gives_the_ends_of_the_streams() {
    for (name, ..) in CAPTURES {
        let packets = packets(&file(name), usize::MAX);
        let whole = run(&packets);
        let half = run(&packets[packets.len() / 2..]);
        for (key, stream) in &half.streams {
            assert_eq!(stream.gaps, 0, "{name} {key:?}");
            assert!(
                whole.streams.values().any(|other| other.bytes.ends_with(&stream.bytes)),
                "{name} {key:?}: {} bytes are the end of no stream",
                stream.bytes.len()
            );
        }
    }
}

#[test]
fn large_datagrams_are_put_together() {
    let outcome = run(&packets(&file("zenoh-udp.pcap"), usize::MAX));
    // 150000 octets in batches of at most 65507 octets, which are IP fragments in the file.
    let longest = outcome.datagrams.iter().map(Bytes::len).max();
    assert!(longest.is_some_and(|longest| longest > 40_000), "{longest:?}");
    let total: usize = outcome.datagrams.iter().map(Bytes::len).sum();
    assert!(total > 30_000 + 2 * 150_000, "{total}");
}
