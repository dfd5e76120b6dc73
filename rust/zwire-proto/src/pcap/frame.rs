//! Packets built from the bytes of a connection, for a capture of this process's own traffic.
//!
//! A program that taps its own sockets sees bytes, not packets. This module wraps them in Ethernet, IP
//! and TCP or UDP so that every reader of captures accepts them: sequence numbers join up, every byte
//! is acknowledged, checksums are right. The real behaviour of TCP (segments, retransmissions, timing
//! of acknowledgments) is not reproduced.

use super::direction::Direction;
use super::writer::PcapWriter;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use etherparse::{
    IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder, PacketBuilderStep,
    TcpHeader,
};
use thiserror::Error;

/// Longest data of a TCP segment: an IPv4 packet of 65535 bytes without its two headers.
pub const MAX_SEGMENT: usize = 65_495;
/// Unacknowledged data after which the other side acknowledges, well within the window it announces.
const ACK_EVERY: u32 = 1 << 20;
/// The announced window of 65535 counts in units of 2^7: 8 MiB.
const WINDOW_SCALE: u8 = 7;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// Largest headers: Ethernet 14, IPv6 40, TCP 20, options of a SYN 8.
const MAX_HEAD: usize = 82;

/// Makes the packets of one TCP connection.
#[derive(Clone, Debug)]
pub struct FrameBuilder {
    client: SocketAddr,
    server: SocketAddr,
    /// Next sequence number of each direction.
    seq: [u32; 2],
    /// Last sequence number acknowledged by the other side.
    acked: [u32; 2],
    ip_id: u16,
}

impl FrameBuilder {
    /// A connection between two sockets. `initial_seq` are the sequence numbers of the two SYNs,
    /// client's first; any numbers do.
    #[must_use]
    pub fn new(client: SocketAddr, server: SocketAddr, initial_seq: [u32; 2]) -> Self {
        Self { client, server, seq: initial_seq, acked: initial_seq, ip_id: 0 }
    }

    /// Writes the three packets that open the connection.
    pub fn open(&mut self, timestamp: Duration, out: &mut PcapWriter) {
        self.segment(timestamp, Direction::ToServer, SYN, &[], out);
        self.segment(timestamp, Direction::ToClient, SYN | ACK, &[], out);
        self.segment(timestamp, Direction::ToServer, ACK, &[], out);
    }

    /// Writes bytes that one side sent, in one or more segments.
    pub fn data(&mut self, timestamp: Duration, direction: Direction, data: &[u8], out: &mut PcapWriter) {
        let mut segments = data.chunks(MAX_SEGMENT).peekable();
        while let Some(segment) = segments.next() {
            let flags = if segments.peek().is_none() { PSH | ACK } else { ACK };
            self.segment(timestamp, direction, flags, segment, out);
            let sent = self.seq[direction.index()].wrapping_sub(self.acked[direction.index()]);
            if sent >= ACK_EVERY {
                self.segment(timestamp, direction.reverse(), ACK, &[], out);
            }
        }
    }

    /// Writes the packets that close the connection in both directions; `by` finishes first.
    pub fn close(&mut self, timestamp: Duration, by: Direction, out: &mut PcapWriter) {
        self.segment(timestamp, by, FIN | ACK, &[], out);
        self.segment(timestamp, by.reverse(), FIN | ACK, &[], out);
        self.segment(timestamp, by, ACK, &[], out);
    }

    /// Writes a reset by one side.
    pub fn reset(&mut self, timestamp: Duration, by: Direction, out: &mut PcapWriter) {
        self.segment(timestamp, by, RST | ACK, &[], out);
    }

    fn segment(
        &mut self,
        timestamp: Duration,
        direction: Direction,
        flags: u8,
        data: &[u8],
        out: &mut PcapWriter,
    ) {
        let (src, dst) = match direction {
            Direction::ToServer => (self.client, self.server),
            Direction::ToClient => (self.server, self.client),
        };
        let mut header = TcpHeader::new(src.port(), dst.port(), self.seq[direction.index()], u16::MAX);
        if flags & ACK != 0 {
            header.acknowledgment_number = self.seq[direction.reverse().index()];
            self.acked[direction.reverse().index()] = header.acknowledgment_number;
        }
        header.fin = flags & FIN != 0;
        header.syn = flags & SYN != 0;
        header.rst = flags & RST != 0;
        header.psh = flags & PSH != 0;
        header.ack = flags & ACK != 0;
        if header.syn {
            // Maximum segment size, no operation, window scale.
            let [high, low] = (MAX_SEGMENT as u16).to_be_bytes();
            header.options = [2, 4, high, low, 1, 3, 3, WINDOW_SCALE].into();
        }
        let mut packet = Vec::with_capacity(MAX_HEAD + data.len());
        // No segment is longer than MAX_SEGMENT, so its packet fits the length fields.
        if ip(src, dst, self.ip_id).tcp_header(header).write_to_vec(&mut packet, data).is_ok() {
            out.write(timestamp, &packet, &[]);
        }
        self.ip_id = self.ip_id.wrapping_add(1);
        // SYN and FIN take a sequence number each.
        let len = data.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.seq[direction.index()] = self.seq[direction.index()].wrapping_add(len);
    }
}

/// Error for a payload that no UDP datagram can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a datagram of {len} bytes is longer than {bound}")]
pub struct DatagramTooLong {
    /// The length of the payload.
    pub len: usize,
    /// The longest payload between these addresses.
    pub bound: usize,
}

/// Writes a UDP datagram.
pub fn write_datagram(
    timestamp: Duration,
    src: SocketAddr,
    dst: SocketAddr,
    data: &[u8],
    out: &mut PcapWriter,
) -> Result<(), DatagramTooLong> {
    // The length of an IPv4 packet counts its header, that of an IPv6 packet does not.
    let bound = if src.is_ipv4() && dst.is_ipv4() { 65_507 } else { 65_527 };
    if data.len() > bound {
        return Err(DatagramTooLong { len: data.len(), bound });
    }
    let mut packet = Vec::with_capacity(MAX_HEAD + data.len());
    ip(src, dst, 0)
        .udp(src.port(), dst.port())
        .write_to_vec(&mut packet, data)
        .map_err(|_| DatagramTooLong { len: data.len(), bound })?;
    out.write(timestamp, &packet, &[]);
    Ok(())
}

/// The link and network headers of a packet; the builder fills in lengths and checksums.
fn ip(src: SocketAddr, dst: SocketAddr, id: u16) -> PacketBuilderStep<IpHeaders> {
    let header = match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4Header {
                identification: id,
                dont_fragment: true,
                time_to_live: 64,
                source: src.octets(),
                destination: dst.octets(),
                ..Ipv4Header::default()
            };
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        }
        (src, dst) => {
            let [source, destination] = [src, dst].map(|addr| to_v6(addr).octets());
            let header = Ipv6Header { hop_limit: 64, source, destination, ..Ipv6Header::default() };
            IpHeaders::Ipv6(header, Ipv6Extensions::default())
        }
    };
    // Locally administered addresses that tell the sender from the receiver.
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]).ip(header)
}

fn to_v6(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped(),
        IpAddr::V6(addr) => addr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Internet checksum (RFC 1071), apart from that of the packet builder. All parts but the last have even lengths.
    #[derive(Default)]
    struct Checksum(u64);

    impl Checksum {
        fn add(&mut self, bytes: &[u8]) {
            let mut words = bytes.chunks_exact(4);
            // A one's complement sum may be taken in wider words and folded at the end. A packet has
            // 2^14 words of 32 bits, so the sum stays below 2^47.
            for word in &mut words {
                self.0 += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
            }
            for pair in words.remainder().chunks(2) {
                let low = pair.get(1).copied().unwrap_or(0);
                self.0 += u64::from(u16::from_be_bytes([pair[0], low]));
            }
        }

        fn finish(self) -> u16 {
            let mut sum = self.0;
            while sum > 0xffff {
                sum = (sum >> 16) + (sum & 0xffff);
            }
            !(sum as u16)
        }
    }

    /// The data of all packets of a file.
    fn packets(out: &mut PcapWriter) -> Vec<Vec<u8>> {
        let file = out.take();
        let mut rest = &file[24..];
        let mut packets = Vec::new();
        while let [_, _, _, _, _, _, _, _, a, b, c, d, _, _, _, _, tail @ ..] = rest {
            let (data, tail) = tail.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            packets.push(data.to_vec());
            rest = tail;
        }
        assert!(rest.is_empty());
        packets
    }

    /// Sum over a region with its checksum in place: 0 if the checksum is right.
    fn residue(parts: &[&[u8]]) -> u16 {
        let mut sum = Checksum::default();
        parts.iter().for_each(|part| sum.add(part));
        sum.finish()
    }

    #[test]
    fn the_checksum_of_a_header_from_the_textbook() {
        // The example of RFC 1071, section 3: 0001 f203 f4f5 f6f7 sums to ddf2.
        let mut sum = Checksum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), !0xddf2);
    }

    #[test]
    fn checksums_are_right_in_both_families() {
        for (client, server) in [("10.0.0.1:50000", "10.0.0.2:7447"), ("[fe80::1]:50000", "[fe80::2]:7447")] {
            let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
            let mut out = PcapWriter::new();
            let mut builder = FrameBuilder::new(client, server, [1, 2]);
            builder.open(Duration::ZERO, &mut out);
            for len in [1, 2, 3, 4, 5, MAX_SEGMENT] {
                builder.data(Duration::ZERO, Direction::ToServer, &vec![0xa7; len], &mut out);
            }
            write_datagram(Duration::ZERO, client, server, b"odd", &mut out).unwrap();
            for packet in packets(&mut out) {
                let ip = &packet[14..];
                let (addresses, payload, protocol) = if client.is_ipv4() {
                    assert_eq!(residue(&[&ip[..20]]), 0, "IPv4 header");
                    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
                    (&ip[12..20], &ip[20..], ip[9])
                } else {
                    assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])) + 40, ip.len());
                    (&ip[8..40], &ip[40..], ip[6])
                };
                let pseudo = [0, protocol, (payload.len() >> 8) as u8, payload.len() as u8];
                assert_eq!(residue(&[addresses, &pseudo, payload]), 0, "transport");
            }
        }
    }

    #[test]
    fn a_datagram_that_cannot_exist_is_refused() {
        let addr = "127.0.0.1:7447".parse().unwrap();
        let mut out = PcapWriter::new();
        let error = write_datagram(Duration::ZERO, addr, addr, &[0; 65_508], &mut out).unwrap_err();
        assert_eq!(error, DatagramTooLong { len: 65_508, bound: 65_507 });
        write_datagram(Duration::ZERO, addr, addr, &[0; 65_507], &mut out).unwrap();
        assert_eq!(packets(&mut out).len(), 1);
    }
}
