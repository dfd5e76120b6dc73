//! Every Zenoh frame of every capture, decoded and encoded again to the same bytes.
//!
//! This walk is separate from the dissector and simpler (the captures are complete, no segment is
//! missing), so that the two check each other. There is no exception: eclipse-zenoh 1.0.0 and 1.10.2
//! and zenoh-pico 1.9.0 write every message of these captures in the canonical form of zwire.
//! [`CAPTURES`] counts the messages read, so that a walk that stops early is noticed.

use bytes::Bytes;
use flate2::read::GzDecoder;
use std::{
    collections::BTreeMap,
    io::Read,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use zwire_dissect::capture::{CaptureReader, ConnectionId, Direction, FlowEvent, Flows};
use zwire_proto::{
    buf::Reader,
    zenoh::{
        Priority, Reliability,
        wire::{
            BatchItem, BatchReader, ExtBody, Fragment, Init, LinkStateList, NetworkMessage, Oam,
            ScoutingMessage, TransportMessage,
        },
    },
};

const SCOUTING_PORT: u16 = 7446;

/// Per capture: scouting messages, batches, and network messages, reassembled ones included.
const CAPTURES: &[(&str, [usize; 3])] = &[
    ("zenoh-bulk.pcap", [0, 1340, 100_006]),
    ("zenoh-compression.pcap", [0, 90, 82]),
    ("zenoh-declared-keyexpr.pcap", [0, 381, 503]),
    ("zenoh-fragmented.pcap", [0, 172, 43]),
    ("zenoh-handshakes.pcap", [0, 140, 71]),
    ("zenoh-liveliness-interest.pcap", [0, 87, 103]),
    ("zenoh-lowlatency.pcap", [0, 90, 82]),
    ("zenoh-old-version.pcap", [0, 116, 114]),
    ("zenoh-pico.pcap", [0, 145, 95]),
    ("zenoh-pubsub-basic.pcap", [0, 216, 218]),
    ("zenoh-query.pcap", [0, 144, 171]),
    ("zenoh-router.pcapng", [0, 210, 214]),
    ("zenoh-scouting.pcap", [33, 53, 13]),
    ("zenoh-udp.pcap", [0, 85, 70]),
];

#[derive(Default)]
struct Tally {
    scouting: usize,
    batches: usize,
    network: usize,
    strange: Vec<String>,
}

impl Tally {
    fn same(&mut self, what: &str, wire: &[u8], written: &[u8]) {
        if wire != written {
            self.strange.push(format!("{what}\n  wire    {}\n  written {}", hex(wire), hex(written)));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(200).map(|b| format!("{b:02x}")).collect()
}

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

/// The two streams of each connection.
type Streams = BTreeMap<ConnectionId, [Vec<u8>; 2]>;
/// Source, destination and contents of datagrams.
type Datagrams = Vec<(SocketAddr, SocketAddr, Bytes)>;

fn flows(name: &str) -> (Streams, Datagrams) {
    let mut reader = CaptureReader::default();
    reader.push(file(name));
    let mut flows = Flows::default();
    let mut streams = Streams::new();
    let mut datagrams = Vec::new();
    let mut drain = |flows: &mut Flows| {
        while let Some(event) = flows.poll_event() {
            match event {
                FlowEvent::Data { connection, direction, data, .. } => {
                    streams.entry(connection.id).or_default()[direction.index()].extend_from_slice(&data);
                }
                FlowEvent::Gap { .. } => panic!("{name} is whole"),
                FlowEvent::Datagram { src, dst, data, .. } => datagrams.push((src, dst, data)),
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
    (streams, datagrams)
}

/// Options negotiated on a connection, from its INITs.
#[derive(Clone, Copy, Default)]
struct Agreed {
    compression: bool,
    low_latency: bool,
}

fn init(batch: &Bytes) -> Option<Init> {
    match TransportMessage::decode(&mut Reader::new(batch)) {
        Ok(TransportMessage::Init(init)) => Some(init),
        _ => None,
    }
}

/// The first batch of a stream.
fn first(stream: &[u8]) -> Option<Bytes> {
    let len = usize::from(u16::from_le_bytes(stream.get(..2)?.try_into().ok()?));
    stream.get(2..2 + len).map(Bytes::copy_from_slice)
}

type Channel = (String, Priority, bool);

#[derive(Default)]
struct Walk {
    tally: Tally,
    fragments: BTreeMap<Channel, Vec<u8>>,
}

impl Walk {
    fn stream(&mut self, name: &str, stream: &[u8], agreed: Agreed) {
        let mut rest = stream;
        let mut handshake = 2u32;
        while !rest.is_empty() {
            let open = handshake > 0;
            let prefix = if agreed.low_latency && !open { 4 } else { 2 };
            let mut len = 0usize;
            for (i, byte) in rest[..prefix.min(rest.len())].iter().enumerate() {
                len |= usize::from(*byte) << (8 * i);
            }
            let Some(batch) = rest.get(prefix..prefix + len) else {
                // The second CLOSE of a low-latency link has the short prefix.
                if agreed.low_latency && rest == [2, 0, 3, 0] {
                    rest = &[];
                    continue;
                }
                self.tally.strange.push(format!("{name}: {} bytes at the end: {}", rest.len(), hex(rest)));
                return;
            };
            rest = &rest[prefix + len..];
            handshake = handshake.saturating_sub(1);
            let batch = Bytes::copy_from_slice(batch);
            if open {
                self.batch(name, &batch, BatchReader::of(Reader::new(&batch).with_shared_memory()));
            } else if agreed.low_latency {
                self.batch(name, &batch, BatchReader::of(Reader::new(&batch).with_shared_memory()).bare());
            } else {
                let batch = if agreed.compression { raw(&batch) } else { batch };
                self.batch(name, &batch, BatchReader::of(Reader::new(&batch).with_shared_memory()));
            }
        }
    }

    fn batch(&mut self, name: &str, bytes: &Bytes, mut walk: BatchReader<'_>) {
        self.tally.batches += 1;
        let mut start = 0;
        loop {
            let item = match walk.next_item() {
                Ok(Some(item)) => item,
                Ok(None) => return,
                Err(error) => {
                    self.tally.strange.push(format!("{name}: {error}: {}", hex(bytes)));
                    return;
                }
            };
            let wire = &bytes[start..walk.offset()];
            start = walk.offset();
            let mut written = Vec::new();
            match item {
                BatchItem::Transport(message) => message.encode(&mut written),
                BatchItem::Network(message) => {
                    message.encode(&mut written);
                    self.network(&message);
                }
                BatchItem::Fragment(head, data) => {
                    head.encode(&mut written);
                    written.extend_from_slice(&data);
                    self.fragment(name, head, &data);
                }
            }
            self.tally.same(name, wire, &written);
        }
    }

    fn network(&mut self, message: &NetworkMessage) {
        self.tally.network += 1;
        if let NetworkMessage::Oam(Oam { id: Oam::LINK_STATE, body, .. }) = message {
            let ExtBody::ZBuf(body) = body else { panic!("link state is a ZBuf") };
            let list = LinkStateList::decode(body).unwrap();
            self.tally.same("link state", body, &list.encode());
        }
    }

    /// Reassembled messages, too, are encoded to the same bytes.
    fn fragment(&mut self, name: &str, head: Fragment, data: &Bytes) {
        let channel = (name.to_owned(), head.priority, head.reliability == Reliability::Reliable);
        let whole = self.fragments.entry(channel.clone()).or_default();
        if head.first {
            whole.clear();
        }
        whole.extend_from_slice(data);
        if head.more {
            return;
        }
        let whole = Bytes::from(self.fragments.remove(&channel).unwrap());
        let mut r = Reader::new(&whole).with_shared_memory();
        match NetworkMessage::decode(&mut r) {
            Ok(message) => {
                let mut written = Vec::new();
                message.encode(&mut written);
                self.network(&message);
                self.tally.same("reassembled", &whole[..r.offset()], &written);
                assert!(r.is_empty());
            }
            Err(error) => self.tally.strange.push(format!("reassembled: {error}: {}", hex(&whole))),
        }
    }
}

/// Removes the batch header of a compressing session, and decompresses.
fn raw(batch: &Bytes) -> Bytes {
    match batch[0] & 1 {
        0 => batch.slice(1..),
        _ => lz4_flex::block::decompress(&batch[1..], 65_535).unwrap().into(),
    }
}

fn run(name: &str) -> Tally {
    let (streams, datagrams) = flows(name);
    let mut walk = Walk::default();
    for (id, streams) in &streams {
        let inits = [&streams[0], &streams[1]].map(|s| first(s).and_then(|batch| init(&batch)));
        // Closed before the first message.
        if streams.iter().all(Vec::is_empty) {
            continue;
        }
        assert!(inits[0].is_some(), "{name} {id:?} does not begin with INIT");
        let both = |has: fn(&Init) -> bool| inits.iter().all(|i| i.as_ref().is_some_and(has));
        let agreed =
            Agreed { compression: both(|i| i.ext.compression), low_latency: both(|i| i.ext.low_latency) };
        for direction in [Direction::ToServer, Direction::ToClient] {
            walk.stream(&format!("{name} {id:?} {direction:?}"), &streams[direction.index()], agreed);
        }
    }
    // HELLOs go from a port of their own to the source of the SCOUT.
    let askers: Vec<SocketAddr> =
        datagrams.iter().filter(|(_, dst, _)| dst.port() == SCOUTING_PORT).map(|(src, ..)| *src).collect();
    for (src, dst, data) in &datagrams {
        let name = &format!("{name} {src}>{dst}");
        if dst.port() == SCOUTING_PORT || askers.contains(dst) {
            let mut r = Reader::new(data);
            let message = ScoutingMessage::decode(&mut r).unwrap();
            let mut written = Vec::new();
            message.encode(&mut written);
            walk.tally.scouting += 1;
            walk.tally.same(name, data, &written);
        } else {
            walk.batch(name, data, BatchReader::of(Reader::new(data).with_shared_memory()));
        }
    }
    assert!(walk.fragments.is_empty(), "{name}: a message without its end");
    walk.tally
}

#[test]
fn every_frame_is_written_as_it_was_read() {
    let mut strange = Vec::new();
    for (name, expected) in CAPTURES {
        let tally = run(name);
        let found = [tally.scouting, tally.batches, tally.network];
        strange.extend(tally.strange);
        if found != *expected {
            strange.push(format!("{name} holds {found:?}"));
        }
    }
    assert!(strange.is_empty(), "{}", strange.join("\n"));
}
