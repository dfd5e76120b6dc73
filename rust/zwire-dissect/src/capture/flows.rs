//! Turns packets into streams and datagrams.

use super::event::{Connection, FlowEvent};
use super::file::Packet;
use super::fragment::{Fragments, WholePacket};
use super::tcp::Connections;
use super::{ip, link, transport};
use core::net::SocketAddr;
use std::collections::VecDeque;
use zwire_proto::error::{DecodeError, Result};

/// Counts of a [`Flows`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets that were handed in.
    pub packets: u64,
    /// Packets that are neither TCP nor UDP over IP, or of a link type that is not known.
    pub foreign: u64,
    /// Packets with a header that does not decode.
    pub malformed: u64,
    /// IP packets dropped because their fragments were too many, too late or contradictory.
    pub dropped_fragments: u64,
    /// Connections closed to make room for others.
    pub evicted: u64,
}

/// Turns packets into [events](FlowEvent).
///
/// After each input ([`handle_packet`](Self::handle_packet), [`finish`](Self::finish)) call
/// [`poll_event`](Self::poll_event) until it gives `None`. Data of segments in order are slices of the
/// packet; others are copied and wait, within [`MAX_HELD_BYTES`](super::MAX_HELD_BYTES) and its
/// siblings, until what belongs in front of them comes.
#[derive(Debug, Default)]
pub struct Flows {
    events: VecDeque<FlowEvent>,
    connections: Connections,
    fragments: Fragments,
    stats: FlowStats,
}

impl Flows {
    /// Takes in the next packet of the capture. An error says what is wrong with this packet (its
    /// offset counts from the start of the packet) and has no effect on later ones.
    pub fn handle_packet(&mut self, packet: &Packet) -> Result<()> {
        self.stats.packets += 1;
        let result = self.handle(packet);
        self.stats.malformed += u64::from(result.is_err());
        result
    }

    /// The next event; `None` asks for the next packet.
    pub fn poll_event(&mut self) -> Option<FlowEvent> {
        self.events.pop_front()
    }

    /// Stops following a connection of another protocol: no event of it comes, not even `Close`.
    pub fn ignore(&mut self, connection: &Connection) {
        self.connections.ignore(connection);
        let id = connection.id;
        self.events.retain(|event| match event {
            FlowEvent::Open { connection, .. }
            | FlowEvent::Data { connection, .. }
            | FlowEvent::Gap { connection, .. }
            | FlowEvent::Close { connection, .. } => connection.id != id,
            FlowEvent::Datagram { .. } => true,
        });
    }

    /// Marks the end of the capture: waiting data is handed out and every connection is closed.
    pub fn finish(&mut self) {
        self.connections.finish(&mut self.events);
        self.fragments.finish();
    }

    /// Current counters.
    #[must_use]
    pub fn stats(&self) -> FlowStats {
        FlowStats {
            dropped_fragments: self.fragments.dropped,
            evicted: self.connections.evicted,
            ..self.stats
        }
    }

    fn handle(&mut self, packet: &Packet) -> Result<()> {
        let Packet { timestamp, link_type, original_len, ref data } = *packet;
        let Some(at) = link::network_at(link_type, data)? else {
            self.stats.foreign += 1;
            return Ok(());
        };
        let ip = ip::decode(data, at, original_len as usize)?;
        if !matches!(ip.protocol, ip::PROTOCOL_TCP | ip::PROTOCOL_UDP) {
            self.stats.foreign += 1;
            return Ok(());
        }
        let start = ip.payload.start;
        let whole = match ip.fragment {
            None => WholePacket { payload: data.slice(ip.payload.clone()), missing: ip.missing },
            Some(fragment) => {
                let part = data.get(ip.payload.clone()).unwrap_or_default();
                match self.fragments.handle(timestamp, &ip, fragment, part) {
                    Some(whole) => whole,
                    None => return Ok(()),
                }
            }
        };
        let in_packet = |error: DecodeError| DecodeError { offset: error.offset + start, ..error };
        if ip.protocol == ip::PROTOCOL_TCP {
            let segment = transport::decode_tcp(&whole.payload, whole.missing).map_err(in_packet)?;
            self.connections.handle(timestamp, ip.src, ip.dst, segment, &mut self.events);
        } else {
            let datagram = transport::decode_udp(&whole.payload, whole.missing).map_err(in_packet)?;
            self.events.push_back(FlowEvent::Datagram {
                timestamp,
                src: SocketAddr::new(ip.src, datagram.src_port),
                dst: SocketAddr::new(ip.dst, datagram.dst_port),
                data: datagram.data,
                missing: datagram.missing,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{LinkType, MAX_PACKET_LEN};
    use bytes::Bytes;
    use core::time::Duration;
    use proptest::prelude::*;

    fn packet(link_type: LinkType, data: Vec<u8>) -> Packet {
        let original_len = data.len() as u32;
        Packet { timestamp: Duration::from_secs(9), link_type, original_len, data: data.into() }
    }

    fn udp(flags: [u8; 2], payload: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 0, 0, 1, flags[0], flags[1], 64, 17, 0, 0, 10, 0, 0, 1, 224, 0, 0, 224];
        ip.extend_from_slice(payload);
        ip[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        ip
    }

    #[test]
    fn a_datagram_in_fragments_comes_out_whole() {
        let datagram = [0x1d, 0x16, 0x1d, 0x17, 0, 20, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let mut flows = Flows::default();
        flows.handle_packet(&packet(LinkType::RAW, udp([0, 2], &datagram[16..]))).unwrap();
        assert_eq!(flows.poll_event(), None);
        flows.handle_packet(&packet(LinkType::RAW, udp([0x20, 0], &datagram[..16]))).unwrap();
        let expected = FlowEvent::Datagram {
            timestamp: Duration::from_secs(9),
            src: "10.0.0.1:7446".parse().unwrap(),
            dst: "224.0.0.224:7447".parse().unwrap(),
            data: Bytes::copy_from_slice(&datagram[8..]),
            missing: 0,
        };
        assert_eq!(flows.poll_event(), Some(expected));
    }

    #[test]
    fn what_the_capture_cut_is_told() {
        let mut cut =
            packet(LinkType::RAW, udp([0, 0], &[0, 1, 0, 2, 0, 18, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]));
        cut.data.truncate(32);
        let mut flows = Flows::default();
        flows.handle_packet(&cut).unwrap();
        let Some(FlowEvent::Datagram { data, missing, .. }) = flows.poll_event() else {
            panic!("no datagram")
        };
        assert_eq!((&data[..], missing), (&[1, 2, 3, 4][..], 6));
    }

    #[test]
    fn foreign_and_malformed_packets_are_counted() {
        let mut flows = Flows::default();
        let arp = [&[0u8; 12][..], &[8, 6], &[0; 28]].concat();
        flows.handle_packet(&packet(LinkType::ETHERNET, arp)).unwrap();
        let mut icmp = udp([0, 0], &[0; 8]);
        icmp[9] = 1;
        flows.handle_packet(&packet(LinkType::RAW, icmp)).unwrap();
        let error = flows.handle_packet(&packet(LinkType::RAW, udp([0, 0], &[0; 4]))).unwrap_err();
        assert_eq!((error.reading, error.offset), ("UDP length", 24));
        flows.handle_packet(&packet(LinkType::RAW, udp([0x20, 0], &[0; 8]))).unwrap();
        flows.finish();
        let expected = FlowStats { packets: 4, foreign: 2, malformed: 1, dropped_fragments: 1, evicted: 0 };
        assert_eq!(flows.stats(), expected);
        assert_eq!(flows.poll_event(), None);
    }

    proptest! {
        #[test]
        fn noise_never_panics(
            packets in prop::collection::vec(
                (prop::sample::select(vec![0u16, 1, 101, 108, 113, 228, 229, 276, 7]),
                 prop::collection::vec(any::<u8>(), 0..120),
                 prop::option::of(prop::sample::select(vec![0x45u8, 0x46, 0x60])),
                 prop::option::of(prop::sample::select(vec![6u8, 17, 44, 0])),
                 0..=MAX_PACKET_LEN),
                0..40),
        ) {
            let mut flows = Flows::default();
            for (link_type, mut data, version, protocol, original_len) in packets {
                // Random bytes rarely look like IP; set the fields that decide.
                for (at, value) in [(0, version), (9, protocol), (6, protocol)] {
                    if let (Some(byte), Some(value)) = (data.get_mut(at), value) {
                        *byte = value;
                    }
                }
                let link_type = if version.is_some() { LinkType::RAW } else { LinkType(link_type) };
                let packet = Packet { original_len, ..packet(link_type, data) };
                let _ = flows.handle_packet(&packet);
                while flows.poll_event().is_some() {}
            }
            flows.finish();
            while flows.poll_event().is_some() {}
        }
    }
}
