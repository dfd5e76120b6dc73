//! Traffic that is neither Zenoh nor ZMTP gives no record, unless its port is configured as Zenoh.

use super::run::{dissect, faults};
use proptest::prelude::*;
use std::{net::SocketAddr, time::Duration};
use zwire_dissect::Options;
use zwire_dissect::capture::Direction;
use zwire_proto::pcap::{FrameBuilder, PcapWriter, write_datagram};

fn addresses(port: u16) -> (SocketAddr, SocketAddr) {
    (SocketAddr::from(([127, 0, 0, 1], 40_000)), SocketAddr::from(([127, 0, 0, 1], port)))
}

/// A connection in which each side sends some bytes, with or without its first packets.
fn connection(client: &[u8], server: &[u8], open: bool, port: u16) -> bytes::Bytes {
    let (from, to) = addresses(port);
    let mut out = PcapWriter::new();
    let mut frames = FrameBuilder::new(from, to, [1, 2]);
    let now = Duration::from_secs(1);
    if open {
        frames.open(now, &mut out);
    }
    frames.data(now, Direction::ToServer, client, &mut out);
    frames.data(now, Direction::ToClient, server, &mut out);
    frames.data(now, Direction::ToServer, client, &mut out);
    frames.close(now, Direction::ToServer, &mut out);
    out.take().into()
}

#[test]
fn streams_of_other_protocols_give_no_record() {
    let tls = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 500]].concat();
    let talks: [(&[u8], &[u8]); 7] = [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", b"SSH-2.0-OpenSSH_9.6\r\n"),
        (&tls, &tls),
        (b"EHLO x\r\n", b"220 mail\r\n"),
        (&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1, b'N', b'U', b'L', b'L'], &[0xff, 0, 0]),
        (&[0; 3000], &[0; 3000]),
        (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
    ];
    for (client, server) in talks {
        for open in [true, false] {
            let records = dissect(&connection(client, server, open, 7447), Options::default());
            assert!(records.is_empty(), "{client:?}: {records:?}");
        }
    }
}

/// The same bytes on a configured port are undecodable Zenoh.
#[test]
fn a_forced_port_makes_errors_of_them() {
    let garbage = [&[3u8, 0, 0x1f, 1, 2][..], &[3, 0, 0x1e, 1, 2]].concat();
    let options = Options { ports: vec![7777], ..Options::default() };
    let records = dissect(&connection(&garbage, &[], true, 7777), options.clone());
    assert!(!faults(&records).is_empty() && faults(&records).len() == records.len(), "{records:?}");
    assert!(dissect(&connection(&garbage, &[], true, 7778), options).is_empty());
}

/// A FRAME of one PUSH of an empty PUT, on a connection without a handshake.
#[test]
fn a_forced_port_needs_no_handshake_and_no_run() {
    let frame = [6, 0, 0x25, 1, 0x1d, 1, 1, 0];
    for open in [true, false] {
        let one = connection(&frame, &[], open, 7777);
        let records = dissect(&one, Options { ports: vec![7777], ..Options::default() });
        assert_eq!(records.iter().filter(|record| record.message() == "push").count(), 2, "{open}");
        assert!(dissect(&connection(&frame, &[], true, 7777), Options::default()).is_empty());
    }
}

#[test]
fn datagrams_of_others_give_no_record() {
    let (from, to) = addresses(5353);
    let group = SocketAddr::from(([224, 0, 0, 251], 5353));
    let scouting = SocketAddr::from(([224, 0, 0, 224], 7446));
    let mut out = PcapWriter::new();
    let dns = [&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7][..], b"example\x03org\0\0\x01\0\x01"].concat();
    for data in [&dns[..], b"hello", &[0; 40], &[4], &[0xff; 9]] {
        for dst in [to, group, scouting] {
            for _ in 0..3 {
                write_datagram(Duration::from_secs(1), from, dst, data, &mut out).unwrap();
            }
        }
    }
    let records = dissect(&out.take().into(), Options::default());
    assert!(records.is_empty(), "{records:?}");
}

proptest! {
    #[test]
    fn noise_gives_no_record(
        client in prop::collection::vec(any::<u8>(), 0..3000),
        server in prop::collection::vec(any::<u8>(), 0..3000),
        open: bool,
    ) {
        let records = dissect(&connection(&client, &server, open, 7447), Options::default());
        prop_assert!(records.is_empty(), "{records:?}");
    }
    /// Another protocol may have the same lengths in front of its messages.
    #[test]
    fn noise_behind_lengths_gives_no_record(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..200),
        open: bool,
    ) {
        let framed = |message: &Vec<u8>| [&(message.len() as u16).to_le_bytes()[..], message].concat();
        let stream: Vec<u8> = messages.iter().flat_map(framed).collect();
        let records = dissect(&connection(&stream, &stream, open, 7447), Options::default());
        prop_assert!(records.is_empty(), "{records:?}");
    }
}
