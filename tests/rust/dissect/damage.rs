//! Captures that begin late, end early, lack packets or have them out of order: no record is invented,
//! and the readable parts are read.

use super::run::{count, dissect, faults, file, json, packets, save};
use bytes::Bytes;
use proptest::prelude::*;
use std::{collections::BTreeMap, net::SocketAddr};
use zwire_dissect::capture::{FlowEvent, Flows, Packet, StreamBuffer};
use zwire_dissect::{Cause, Message, Options, Record, Torn};
use zwire_proto::pcap::{FrameBuilder, PcapWriter};

const CAPTURES: [&str; 13] = [
    "zenoh-compression",
    "zenoh-declared-keyexpr",
    "zenoh-fragmented",
    "zenoh-handshakes",
    "zenoh-liveliness-interest",
    "zenoh-lowlatency",
    "zenoh-old-version",
    "zenoh-pico",
    "zenoh-pubsub-basic",
    "zenoh-query",
    "zenoh-router",
    "zenoh-scouting",
    "zenoh-udp",
];

fn records(packets: &[Packet]) -> Vec<Record> {
    dissect(&save(packets), Options::default())
}

/// Content of a message, without fields that depend on the rest of the capture.
fn essence(record: &Record) -> String {
    format!("{:?} {:?} {:?} {:?}", record.src, record.dst, record.sn, record.message)
}

/// Checks that `part` has no record that `whole` lacks, and returns the number of its messages. A key
/// known in both must be the same.
fn check_nothing_invented(name: &str, whole: &[Record], part: &[Record]) -> usize {
    let mut known: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in whole {
        known.entry(essence(record)).or_default().push(record);
    }
    let mut messages = 0;
    for record in part.iter().filter(|record| record.fault().is_none()) {
        messages += 1;
        let same = known.get_mut(&essence(record)).and_then(Vec::pop);
        let same = same.unwrap_or_else(|| panic!("{name}: {} is not in the whole capture", json(record)));
        if let Some(key) = record.key() {
            assert_eq!(Some(key), same.key(), "{name}");
        }
    }
    messages
}

fn is_push(record: &&Record) -> bool {
    record.message() == "push"
}

#[test]
fn a_capture_that_begins_late_invents_nothing() {
    for name in CAPTURES {
        let packets = packets(name);
        let whole = records(&packets);
        for tenth in [1, 5, 8] {
            check_nothing_invented(name, &whole, &records(&packets[packets.len() * tenth / 10..]));
        }
    }
}

/// The connections of a capture from their SYNs on, but without INIT and OPEN, as if none had been
/// sent.
fn without_handshakes(packets: &[Packet]) -> Bytes {
    let mut flows = Flows::default();
    let mut out = PcapWriter::new();
    let mut links: BTreeMap<SocketAddr, (FrameBuilder, [(StreamBuffer, u32); 2])> = BTreeMap::new();
    for packet in packets {
        flows.handle_packet(packet).unwrap();
        while let Some(event) = flows.poll_event() {
            let FlowEvent::Data { timestamp, connection, direction, data, .. } = event else { continue };
            let (frames, sides) = links.entry(connection.client).or_insert_with(|| {
                let mut frames = FrameBuilder::new(connection.client, connection.server, [1, 2]);
                frames.open(timestamp, &mut out);
                (frames, Default::default())
            });
            let (buffer, handshakes) = &mut sides[direction.index()];
            buffer.push(data);
            while *handshakes < 2
                && let Some(len) = buffer.peek::<2>()
                && buffer.take(2 + usize::from(u16::from_le_bytes(len))).is_some()
            {
                *handshakes += 1;
            }
            let rest = buffer.len();
            if *handshakes == 2
                && let Some(data) = buffer.take(rest)
            {
                frames.data(timestamp, direction, &data, &mut out);
            }
        }
    }
    out.take().into()
}

#[test]
fn a_connection_without_handshake_is_recognised_by_its_first_batches() {
    without_handshakes_are_recognised(
        &CAPTURES,
        &[
            "zenoh-compression",
            "zenoh-declared-keyexpr",
            "zenoh-fragmented",
            "zenoh-lowlatency",
            "zenoh-pubsub-basic",
            "zenoh-query",
        ],
    );
}

#[test]
#[ignore = "takes its time; `make test-long` runs it"]
fn a_large_connection_without_handshake_is_recognised_by_its_first_batches() {
    without_handshakes_are_recognised(&["zenoh-bulk"], &["zenoh-bulk"]);
}

fn without_handshakes_are_recognised(nothing_invented: &[&str], all_said: &[&str]) {
    for name in nothing_invented {
        let packets = packets(name);
        let whole = records(&packets);
        check_nothing_invented(name, &whole, &dissect(&without_handshakes(&packets), Options::default()));
    }
    for name in all_said {
        let packets = packets(name);
        // In the order of each side: while one side waits for a decision, the other may go on, and a
        // key declared by the one may not be known yet when the other uses it.
        let said = |records: &[Record]| {
            let mut sides: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for record in records {
                if matches!(record.message(), "push" | "declare" | "request" | "response") {
                    sides.entry((record.src, record.dst)).or_default().push(essence(record));
                }
            }
            sides
        };
        let expected = said(&records(&packets));
        let got = said(&dissect(&without_handshakes(&packets), Options::default()));
        assert!(expected.values().map(Vec::len).sum::<usize>() > 20, "{name}");
        assert!(expected == got, "{name}");
    }
}

/// Reading starts at the first batch that is complete in the capture.
#[test]
fn a_capture_that_begins_late_is_read_from_there() {
    late_captures_are_read(&[("zenoh-pubsub-basic", 0), ("zenoh-lowlatency", 0)]);
}

#[test]
#[ignore = "takes its time; `make test-long` runs it"]
fn a_large_capture_that_begins_late_is_read_from_there() {
    late_captures_are_read(&[("zenoh-bulk", 4)]);
}

fn late_captures_are_read(captures: &[(&str, usize)]) {
    for &(name, slack) in captures {
        let packets = packets(name);
        let whole = records(&packets);
        for cut in [packets.len() / 5, packets.len() / 2] {
            let late = records(&packets[cut..]);
            let begin = packets[cut + slack].timestamp;
            let expected: Vec<_> =
                whole.iter().filter(is_push).filter(|record| record.time > begin).map(essence).collect();
            let got: Vec<_> = late.iter().filter(is_push).map(essence).collect();
            assert!(expected.len() > 20, "{name}");
            assert!(got.ends_with(&expected), "{name}: {} of {}", got.len(), expected.len());
            // The declarations are not in the capture.
            let unresolved = late.iter().filter(is_push).filter(|record| record.key().is_none());
            for record in unresolved {
                let value = json(record);
                assert!(value["key"].is_null() && value["scope"].as_u64() > Some(0), "{value}");
                assert!(value["suffix"].is_string());
            }
        }
    }
}

#[test]
fn a_compressed_session_is_recognised_late() {
    let packets = packets("zenoh-compression");
    let whole = records(&packets);
    let late = records(&packets[30..]);
    let messages = check_nothing_invented("zenoh-compression", &whole, &late);
    assert!(count(&late, "push", Some("put")) > 40, "{messages} {:?}", faults(&late));
}

/// Each loss is reported, and costs only the batches that it hits.
#[test]
fn lost_packets_cost_little() {
    for name in CAPTURES {
        let packets = packets(name);
        let whole = records(&packets);
        let kept: Vec<_> = packets
            .iter()
            .enumerate()
            .filter(|(i, _)| i % 11 != 3 || *i < 40)
            .map(|(_, packet)| packet.clone())
            .collect();
        check_nothing_invented(name, &whole, &records(&kept));
    }
    let packets = packets("zenoh-bulk");
    let whole = records(&packets);
    // Three large segments in the middle of the puts.
    let lost: Vec<_> =
        (0..packets.len()).filter(|i| packets[*i].data.len() > 60_000).step_by(40).take(3).collect();
    let kept: Vec<_> = packets
        .iter()
        .enumerate()
        .filter(|(i, _)| !lost.contains(i))
        .map(|(_, packet)| packet.clone())
        .collect();
    let part = records(&kept);
    check_nothing_invented("zenoh-bulk", &whole, &part);
    let gaps = part.iter().filter(|r| matches!(r.fault().map(|f| &f.cause), Some(Cause::Missing { .. })));
    assert_eq!(gaps.count(), 3, "{:?}", faults(&part));
    let missing = count(&whole, "push", Some("put")) - count(&part, "push", Some("put"));
    // 64 KiB are about 550 puts, and the batches at both ends are hit too.
    assert!(missing > 1000 && missing < 3 * 2000, "{missing}");
    assert!(part.iter().filter(is_push).all(|record| record.key().is_some()));
}

#[test]
fn fragments_lost_in_the_middle_cost_their_message() {
    let packets = packets("zenoh-fragmented");
    let whole = records(&packets);
    let lost = packets.len() / 2..packets.len() / 2 + 40;
    let kept: Vec<_> = packets
        .iter()
        .enumerate()
        .filter(|(i, _)| !lost.contains(i))
        .map(|(_, packet)| packet.clone())
        .collect();
    let part = records(&kept);
    let messages = check_nothing_invented("zenoh-fragmented", &whole, &part);
    assert!(messages >= whole.len() - 3, "{messages} of {}", whole.len());
    assert!(messages < whole.len());
    let torn = |record: &&Record| {
        matches!(record.fault().map(|f| &f.cause), Some(Cause::Torn { why: Torn::Missing, bytes: 1.., .. }))
    };
    assert_eq!(part.iter().filter(torn).count(), 1, "{:?}", faults(&part));
}

/// Neighbouring segments of one direction are swapped; the streams are put in order again.
#[test]
fn reordering_changes_nothing() {
    for name in CAPTURES.iter().filter(|name| **name != "zenoh-udp") {
        let packets = packets(name);
        let mut shuffled = packets.clone();
        let ports = |packet: &Packet| packet.data.get(34..38).map(<[u8]>::to_vec);
        let has_data = |packet: &Packet| packet.data.len() > 66 && packet.data[47] & 0x07 == 0;
        let mut at = 10;
        let mut swaps = 0;
        while at + 1 < shuffled.len() {
            let [a, b] = [&shuffled[at], &shuffled[at + 1]];
            if ports(a) == ports(b) && has_data(a) && has_data(b) {
                shuffled.swap(at, at + 1);
                swaps += 1;
                at += 1;
            }
            at += 1;
        }
        let (expected, got) = (records(&packets), records(&shuffled));
        let all = |records: &[Record]| {
            let mut all: Vec<_> =
                records.iter().map(|record| (essence(record), format!("{:?}", record.key()))).collect();
            all.sort();
            all
        };
        assert!(all(&expected) == all(&got), "{name}, {swaps} swaps");
    }
}

#[test]
fn the_port_does_not_matter() {
    let mut packets = packets("zenoh-pubsub-basic");
    let expected = records(&packets);
    for packet in &mut packets {
        let mut data = packet.data.to_vec();
        for at in [34, 36] {
            if data[at..at + 2] == 7447u16.to_be_bytes() {
                data[at..at + 2].copy_from_slice(&443u16.to_be_bytes());
            }
        }
        packet.data = data.into();
    }
    let got = records(&packets);
    assert_eq!(got.len(), expected.len());
    for (expected, got) in expected.iter().zip(&got) {
        assert_eq!((&expected.message, expected.key()), (&got.message, got.key()));
        assert!([got.src.unwrap().port(), got.dst.unwrap().port()].contains(&443));
    }
}

/// A file of a capturing program that was killed.
#[test]
fn a_file_that_ends_anywhere_is_read_up_to_there() {
    for name in ["zenoh-query", "zenoh-router"] {
        let file = file(name);
        let whole = dissect(&file, Options::default());
        for eighth in 1..8 {
            let part = dissect(&file.slice(..file.len() * eighth / 8 + 1), Options::default());
            let messages = check_nothing_invented(name, &whole, &part);
            assert!(messages > 0);
            let last = part.iter().rev().filter_map(Record::fault).map(|fault| &fault.cause);
            assert!(last.into_iter().any(|cause| matches!(cause, Cause::Capture(_))), "{:?}", faults(&part));
        }
    }
}

#[test]
fn what_is_no_capture_is_an_error() {
    for file in [&b""[..], b"\xd4\xc3", b"not a capture at all"] {
        let mut dissector = zwire_dissect::Dissector::new(Options::default());
        dissector.push(file);
        let early = dissector.poll_record();
        dissector.finish();
        assert!(early.is_err() || dissector.poll_record().is_err(), "{file:?}");
    }
}

/// A batch in the middle of the stream that does not decode is reported with its offset, and the next
/// one is read.
#[test]
fn a_damaged_batch_costs_itself() {
    let packets = packets("zenoh-pubsub-basic");
    let whole = records(&packets);
    let mut damaged = packets.clone();
    // One frame in its own segment: prefix, FRAME, sn, then an unknown network id.
    let at = damaged
        .iter()
        .position(|packet| packet.timestamp > packets[200].timestamp && packet.data.len() > 150)
        .unwrap();
    let mut data = damaged[at].data.to_vec();
    let payload = data.len() - (usize::from(u16::from_be_bytes([data[16], data[17]])) - 52);
    let len = usize::from(u16::from_le_bytes([data[payload], data[payload + 1]]));
    assert_eq!(payload + 2 + len, data.len(), "the segment is one batch");
    assert_eq!(data[payload + 2] & 0x1f, 0x05, "a FRAME");
    // Skips the sn and the extension with the priority.
    let mut header = payload + 3;
    while data[header] & 0x80 != 0 {
        header += 1;
    }
    header += if data[payload + 2] & 0x80 == 0 { 1 } else { 3 };
    assert_eq!(data[header] & 0x1f, 0x1d, "a PUSH");
    data[header] = 0x18;
    damaged[at].data = data.into();
    let part = records(&damaged);
    check_nothing_invented("damaged", &whole, &part);
    assert_eq!(part.len(), whole.len(), "one push less, one error more");
    let errors: Vec<_> = part.iter().filter(|record| record.message() == "error").map(json).collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0]["offset"].as_u64() > Some(0), "{}", errors[0]);
    assert!(errors[0]["error"].as_str().unwrap().contains("unknown id"), "{}", errors[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Bytes of a real capture, changed anywhere: no panic, and the dissector terminates.
    #[test]
    fn hostile_captures_are_survived(
        name in prop::sample::select(&CAPTURES[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..200),
    ) {
        let mut file = file(name).to_vec();
        file.truncate(120_000);
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        // Every record can be written, whatever it contains.
        let mut dissector = zwire_dissect::Dissector::new(Options { ports: vec![7447], ..Options::default() });
        dissector.push(file);
        dissector.finish();
        while let Ok(Some(record)) = dissector.poll_record() {
            json(&record);
            prop_assert!(matches!(record.message, Message::Error(_)) == (record.message() == "error"));
        }
    }
}
