//! The same sessions over other links: the batches of real captures, carried by WebSocket and UDP.

use super::run::{dissect, json, packets, packets_of, save};
use bytes::Bytes;
use serde_json::Value;
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use zwire_dissect::capture::{Direction, FlowEvent, Flows, Packet, StreamBuffer};
use zwire_dissect::{Options, Record};
use zwire_proto::pcap::{FrameBuilder, PcapWriter, write_datagram};

/// The batches of a capture of one connection, in the order of their last bytes.
fn batches(name: &str) -> Vec<(Duration, Direction, Bytes)> {
    let mut flows = Flows::default();
    let mut buffers: BTreeMap<usize, StreamBuffer> = BTreeMap::new();
    let mut batches = Vec::new();
    for packet in packets(name) {
        flows.handle_packet(&packet).unwrap();
        while let Some(event) = flows.poll_event() {
            let FlowEvent::Data { timestamp, direction, data, .. } = event else { continue };
            let buffer = buffers.entry(direction.index()).or_default();
            buffer.push(data);
            while let Some(len) = buffer.peek::<2>() {
                let Some(batch) = buffer.take(2 + usize::from(u16::from_le_bytes(len))) else { break };
                batches.push((timestamp, direction, batch.slice(2..)));
            }
        }
    }
    batches
}

/// A binary message, from the client with a mask.
fn web_socket(direction: Direction, batch: &[u8]) -> Vec<u8> {
    let (flag, mask) = match direction {
        Direction::ToServer => (0x80, [1u8, 2, 3, 4]),
        Direction::ToClient => (0, [0; 4]),
    };
    let mut out = vec![0x82];
    match batch.len() {
        len @ 0..126 => out.push(flag | len as u8),
        len => {
            out.push(flag | 126);
            out.extend((len as u16).to_be_bytes());
        }
    }
    if flag != 0 {
        out.extend(mask);
    }
    out.extend(batch.iter().enumerate().map(|(i, byte)| byte ^ mask[i % 4]));
    out
}

/// Content of a record, without its link.
fn content(records: &[Record]) -> Vec<Value> {
    let mut values: Vec<_> = records.iter().map(json).collect();
    for value in &mut values {
        for field in ["src", "dst", "offset"] {
            value[field] = Value::Null;
        }
    }
    values
}

const SESSIONS: [&str; 3] = ["zenoh-pubsub-basic", "zenoh-compression", "zenoh-old-version"];

/// Bytes before the batches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// Request and response.
    Heads,
    /// Segments of messages that began before the capture.
    Rest,
    Nothing,
}

fn over_web_socket(batches: &[(Duration, Direction, Bytes)], lead: Lead) -> Bytes {
    let client = SocketAddr::from(([127, 0, 0, 1], 40_000));
    let server = SocketAddr::from(([127, 0, 0, 1], 8080));
    let mut frames = FrameBuilder::new(client, server, [1, 2]);
    let mut out = PcapWriter::new();
    let start = batches[0].0;
    if lead == Lead::Heads {
        let request = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        let response = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n";
        frames.open(start, &mut out);
        frames.data(start, Direction::ToServer, request, &mut out);
        frames.data(start, Direction::ToClient, response, &mut out);
    }
    if lead == Lead::Rest {
        for direction in [Direction::ToServer, Direction::ToClient] {
            frames.data(start, direction, &[0x55; 1000], &mut out);
        }
    }
    for (time, direction, batch) in batches {
        frames.data(*time, *direction, &web_socket(*direction, batch), &mut out);
    }
    frames.close(start, Direction::ToServer, &mut out);
    out.take().into()
}

#[test]
fn over_web_socket_the_records_are_the_same() {
    for name in SESSIONS {
        let expected = dissect(&super::run::file(name), Options::default());
        let got = dissect(&over_web_socket(&batches(name), Lead::Heads), Options::default());
        assert!(content(&expected) == content(&got), "{name}");
    }
}

#[test]
fn a_web_socket_is_recognised_late() {
    for name in ["zenoh-pubsub-basic", "zenoh-compression"] {
        let batches = batches(name);
        let expected = dissect(&super::run::file(name), Options::default());
        let [got, behind_rest] = [Lead::Nothing, Lead::Rest]
            .map(|lead| dissect(&over_web_socket(&batches[30..], lead), Options::default()));
        let pushes = |records: &[Record]| -> Vec<_> {
            records.iter().filter(|r| r.message() == "push").map(|r| (r.sn, r.message.clone())).collect()
        };
        let (expected, got) = (pushes(&expected), pushes(&got));
        assert!(got.len() > 30 && expected.ends_with(&got), "{name}: {}", got.len());
        assert_eq!(pushes(&behind_rest), got, "{name}");
    }
}

#[test]
fn the_answer_to_an_upgrade_may_be_captured_before_the_request() {
    let capture = over_web_socket(&batches("zenoh-pubsub-basic"), Lead::Heads);
    let mut packets = packets_of(capture.clone());
    let place = |packets: &[Packet], start: &[u8]| {
        let holds = |packet: &Packet| packet.data.windows(start.len()).any(|window| window == start);
        packets.iter().position(holds).unwrap()
    };
    let (request, response) = (place(&packets, b"GET / "), place(&packets, b"HTTP/1.1 101"));
    packets.swap(request, response);
    let [expected, got] = [capture, save(&packets)].map(|file| dissect(&file, Options::default()));
    assert!(expected.len() > 100);
    assert!(content(&expected) == content(&got));
}

fn over_udp(batches: &[(Duration, Direction, Bytes)]) -> Bytes {
    let a = "[fe80::1]:40000".parse().unwrap();
    let b = "[fe80::2]:9000".parse().unwrap();
    let mut out = PcapWriter::new();
    for (time, direction, batch) in batches {
        let (src, dst) = if *direction == Direction::ToServer { (a, b) } else { (b, a) };
        write_datagram(*time, src, dst, batch, &mut out).unwrap();
    }
    out.take().into()
}

#[test]
fn over_udp_the_records_are_the_same() {
    for name in SESSIONS {
        let expected = dissect(&super::run::file(name), Options::default());
        let got = dissect(&over_udp(&batches(name)), Options::default());
        assert!(content(&expected) == content(&got), "{name}");
    }
}

#[test]
fn a_session_over_udp_is_recognised_late() {
    let name = "zenoh-pubsub-basic";
    let batches = batches(name);
    let expected = dissect(&super::run::file(name), Options::default());
    let got = dissect(&over_udp(&batches[40..]), Options::default());
    let last =
        |records: &[Record]| records.iter().rev().take(100).map(|r| r.message.clone()).collect::<Vec<_>>();
    assert!(got.len() > 150, "{}", got.len());
    assert_eq!(last(&expected), last(&got));
}

/// A capture on all interfaces of a host holds a datagram once for each interface that it passes.
#[test]
fn datagrams_that_were_captured_twice_are_told_once() {
    for name in [&SESSIONS[..], &["zenoh-udp"]].concat() {
        let once = if name == "zenoh-udp" { save(&packets(name)) } else { over_udp(&batches(name)) };
        let twice: Vec<_> = packets_of(once.clone()).into_iter().flat_map(|p| [p.clone(), p]).collect();
        let framed = |file: &Bytes| -> Vec<_> {
            let mut values = content(&dissect(file, Options::default()));
            values.retain(|value| {
                let message = value["message"].as_str().unwrap();
                !["init", "open", "join", "close", "scout", "hello"].contains(&message)
            });
            values
        };
        let expected = framed(&once);
        assert!(expected.len() > 20, "{name}: {}", expected.len());
        assert!(expected == framed(&save(&twice)), "{name}");
    }
}
