//! Dissection of a capture by its name.

use bytes::Bytes;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::{io::Read, path::PathBuf};
use zwire_dissect::capture::{CaptureReader, LinkType, Packet};
use zwire_dissect::{Dissector, Options, Record, write_jsonl};
use zwire_proto::pcap::PcapWriter;

/// Chunk size of a usual file reader.
const CHUNK: usize = 1 << 20;

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/captures").join(name)
}

#[expect(clippy::disallowed_methods, reason = "a test reads its vectors")]
pub(crate) fn read(name: &str) -> Vec<u8> {
    let path = path(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn gunzip(compressed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut out).unwrap();
    out
}

/// A capture as a file.
pub(crate) fn file(name: &str) -> Bytes {
    let format = if name == "zenoh-router" { "pcapng" } else { "pcap" };
    gunzip(&read(&format!("{name}.{format}.gz"))).into()
}

/// All records of a file.
pub(crate) fn dissect(file: &Bytes, options: Options) -> Vec<Record> {
    let mut dissector = Dissector::new(options);
    let mut records = Vec::new();
    for start in (0..file.len()).step_by(CHUNK) {
        dissector.push(file.slice(start..file.len().min(start + CHUNK)));
        while let Some(record) = dissector.poll_record().unwrap() {
            records.push(record);
        }
    }
    dissector.finish();
    while let Some(record) = dissector.poll_record().unwrap() {
        records.push(record);
    }
    records
}

/// Written form of a record.
pub(crate) fn json(record: &Record) -> Value {
    let mut line = Vec::new();
    write_jsonl(record, &mut line);
    serde_json::from_slice(&line).unwrap()
}

pub(crate) fn packets(name: &str) -> Vec<Packet> {
    packets_of(file(name))
}

/// The packets of a file.
pub(crate) fn packets_of(file: Bytes) -> Vec<Packet> {
    let mut reader = CaptureReader::default();
    reader.push(file);
    let mut packets = Vec::new();
    while let Some(packet) = reader.poll_packet().unwrap() {
        packets.push(packet);
    }
    packets
}

/// Packets as a file.
pub(crate) fn save<'a>(packets: impl IntoIterator<Item = &'a Packet>) -> Bytes {
    let mut writer = PcapWriter::new();
    for packet in packets {
        assert_eq!(packet.link_type, LinkType::ETHERNET);
        writer.write(packet.timestamp, &packet.data, &[]);
    }
    writer.take().into()
}

pub(crate) fn count(records: &[Record], message: &str, kind: Option<&str>) -> usize {
    records.iter().filter(|record| record.message() == message && record.kind() == kind).count()
}

/// The faults among records, as text.
pub(crate) fn faults(records: &[Record]) -> Vec<String> {
    records.iter().filter_map(Record::fault).map(|fault| fault.cause.to_string()).collect()
}
