//! Captures that `zwire_proto::pcap` wrote, read again.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use proptest::prelude::*;
use zwire_dissect::capture::{CaptureReader, CloseReason, FlowEvent, Flows, Packet};
use zwire_proto::pcap::{Direction, FrameBuilder, PcapWriter, write_datagram};

fn to_v6(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped(),
        IpAddr::V6(addr) => addr,
    }
}

fn packets(out: &mut PcapWriter) -> Vec<Packet> {
    let mut reader = CaptureReader::default();
    reader.push(out.take());
    let mut packets = Vec::new();
    while let Some(packet) = reader.poll_packet().unwrap() {
        packets.push(packet);
    }
    reader.finish().unwrap();
    packets
}

fn events(packets: &[Packet]) -> Vec<FlowEvent> {
    let mut flows = Flows::default();
    for packet in packets {
        flows.handle_packet(packet).unwrap();
    }
    flows.finish();
    core::iter::from_fn(|| flows.poll_event()).collect()
}

#[test]
fn a_connection_reads_back_as_it_was_written() {
    let (client, server) = ("127.0.0.1:50000".parse().unwrap(), "127.0.0.1:7447".parse().unwrap());
    let mut out = PcapWriter::new();
    let mut builder = FrameBuilder::new(client, server, [u32::MAX - 100_000, 7]);
    let second = Duration::from_secs(1);
    builder.open(second, &mut out);
    let large: Vec<u8> = (0..3_000_000u32).map(|index| index as u8).collect();
    builder.data(second * 2, Direction::ToServer, &large, &mut out);
    builder.data(second * 3, Direction::ToClient, b"answer", &mut out);
    builder.close(second * 4, Direction::ToClient, &mut out);
    let mut received = [Vec::new(), Vec::new()];
    let events = events(&packets(&mut out));
    for event in &events {
        if let FlowEvent::Data { direction, offset, data, .. } = event {
            assert_eq!(*offset, received[direction.index()].len() as u64);
            received[direction.index()].extend_from_slice(data);
        }
    }
    assert!(matches!(events[0], FlowEvent::Open { from_start: true, timestamp, connection }
        if timestamp == second && connection.client == client && connection.server == server));
    assert!(matches!(events.last(), Some(FlowEvent::Close { reason: CloseReason::Finished, .. })));
    assert_eq!(received, [large, b"answer".to_vec()]);
}

#[test]
fn a_reset_closes_the_connection() {
    let mut out = PcapWriter::new();
    let addr = "127.0.0.1:7447".parse().unwrap();
    let mut builder = FrameBuilder::new("127.0.0.1:50000".parse().unwrap(), addr, [1, 2]);
    builder.open(Duration::ZERO, &mut out);
    builder.reset(Duration::ZERO, Direction::ToClient, &mut out);
    let events = events(&packets(&mut out));
    assert!(matches!(events.last(), Some(FlowEvent::Close { reason: CloseReason::Reset, .. })));
}

proptest! {
    #[test]
    fn datagrams_read_back_as_they_were_written(
        data in prop::collection::vec(any::<u8>(), 0..3000),
        src in any::<(IpAddr, u16)>(),
        dst in any::<(IpAddr, u16)>(),
        nanos in any::<u32>(),
    ) {
        let (src, dst) = (SocketAddr::from(src), SocketAddr::from(dst));
        let timestamp = Duration::new(1_700_000_000, nanos % 1_000_000_000);
        let mut out = PcapWriter::new();
        write_datagram(timestamp, src, dst, &data, &mut out).unwrap();
        let (src, dst) = if src.is_ipv4() == dst.is_ipv4() {
            (src, dst)
        } else {
            let v6 = |addr: SocketAddr| SocketAddr::new(to_v6(addr.ip()).into(), addr.port());
            (v6(src), v6(dst))
        };
        let expected = FlowEvent::Datagram { timestamp, src, dst, data: data.into(), missing: 0 };
        prop_assert_eq!(events(&packets(&mut out)), vec![expected]);
    }
}
