//! IPv4 and IPv6 headers.

use super::field::{be_u16, be_u32, byte, field, illegal, out_of_range};
use core::net::IpAddr;
use core::ops::Range;
use zwire_proto::error::Result;

/// Most extension headers of an IPv6 packet. Eight kinds exist; a longer chain only burns time.
const MAX_EXTENSION_HEADERS: usize = 16;

pub(super) const PROTOCOL_TCP: u8 = 6;
pub(super) const PROTOCOL_UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// An IP packet, or one fragment of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IpPacket {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    /// Protocol of the payload, behind all extension headers.
    pub(super) protocol: u8,
    /// Range of the payload in the packet, as far as it was captured.
    pub(super) payload: Range<usize>,
    /// Number of payload bytes that the capture did not keep.
    pub(super) missing: usize,
    pub(super) fragment: Option<Fragment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) id: u32,
    /// Offset of its payload in the payload of the whole.
    pub(super) offset: usize,
    pub(super) more: bool,
}

/// Decodes the IP packet at `at`; `wire_len` is its whole length, before the capture cut it.
pub(super) fn decode(data: &[u8], at: usize, wire_len: usize) -> Result<IpPacket> {
    match byte(data, at, "IP version")? >> 4 {
        4 => decode_v4(data, at, wire_len),
        6 => decode_v6(data, at, wire_len),
        version => Err(illegal("IP version", at, version.into())),
    }
}

/// Splits `start..end` of the wire into the captured range and the number of bytes not captured. An
/// Ethernet frame may be longer than the IP packet (padding), so the end is taken from the IP header.
fn captured(data: &[u8], start: usize, end: usize) -> (Range<usize>, usize) {
    let have = end.min(data.len());
    if have < start {
        // Even the headers are cut: none of the payload was captured.
        return (have..have, end.saturating_sub(start));
    }
    (start..have, end - have)
}

fn decode_v4(data: &[u8], at: usize, wire_len: usize) -> Result<IpPacket> {
    let header_len = usize::from(byte(data, at, "IPv4 header length")? & 0x0f) * 4;
    if header_len < 20 {
        return Err(illegal("IPv4 header length", at, header_len as u64));
    }
    let src: [u8; 4] = field(data, at + 12, "IPv4 source")?;
    let dst: [u8; 4] = field(data, at + 16, "IPv4 destination")?;
    let end = match usize::from(be_u16(data, at + 2, "IPv4 total length")?) {
        // A host that offloads segmentation to its network card records packets without a length.
        0 => wire_len,
        total if total < header_len => return Err(illegal("IPv4 total length", at + 2, total as u64)),
        total => at + total,
    };
    let (payload, missing) = captured(data, at + header_len, end);
    let flags = be_u16(data, at + 6, "IPv4 fragment offset")?;
    let more = flags & 0x2000 != 0;
    let offset = usize::from(flags & 0x1fff) * 8;
    let id = be_u16(data, at + 4, "IPv4 identification")?.into();
    Ok(IpPacket {
        src: src.into(),
        dst: dst.into(),
        protocol: byte(data, at + 9, "IPv4 protocol")?,
        payload,
        missing,
        fragment: (more || offset > 0).then_some(Fragment { id, offset, more }),
    })
}

fn decode_v6(data: &[u8], at: usize, wire_len: usize) -> Result<IpPacket> {
    let src: [u8; 16] = field(data, at + 8, "IPv6 source")?;
    let dst: [u8; 16] = field(data, at + 24, "IPv6 destination")?;
    let end = match usize::from(be_u16(data, at + 4, "IPv6 payload length")?) {
        // A jumbogram or a segment that a network card joined.
        0 => wire_len,
        len => at + 40 + len,
    };
    let mut protocol = byte(data, at + 6, "IPv6 next header")?;
    let mut next = at + 40;
    let mut fragment = None;
    for count in 0.. {
        if count == MAX_EXTENSION_HEADERS {
            let bound = MAX_EXTENSION_HEADERS as u64;
            return Err(out_of_range("IPv6 extension headers", next, bound + 1, bound));
        }
        let len = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HIP | SHIM6 => {
                (usize::from(byte(data, next + 1, "IPv6 extension length")?) + 1) * 8
            }
            AUTHENTICATION => (usize::from(byte(data, next + 1, "IPv6 extension length")?) + 2) * 4,
            FRAGMENT => {
                let offset = be_u16(data, next + 2, "IPv6 fragment offset")?;
                let id = be_u32(data, next + 4, "IPv6 fragment identification")?;
                let (offset, more) = (usize::from(offset & 0xfff8), offset & 1 != 0);
                // RFC 6946: a fragment that is the whole packet needs no reassembly.
                fragment = (more || offset > 0).then_some(Fragment { id, offset, more });
                8
            }
            _ => break,
        };
        protocol = byte(data, next, "IPv6 next header")?;
        next += len;
        // The rest of a later fragment is payload, not headers.
        if fragment.is_some_and(|fragment| fragment.offset > 0) {
            break;
        }
    }
    if next > end {
        return Err(out_of_range("IPv6 extension length", at, next as u64, end as u64));
    }
    let (payload, missing) = captured(data, next, end);
    Ok(IpPacket { src: src.into(), dst: dst.into(), protocol, payload, missing, fragment })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zwire_proto::error::DecodeErrorKind;

    fn v4(head: &[u8; 12], rest: &[u8]) -> Vec<u8> {
        [&head[..], &[10, 0, 0, 1, 10, 0, 0, 2], rest].concat()
    }

    #[test]
    fn ipv4_with_options_and_padding() {
        // 24 bytes of header, 2 of payload, 3 of padding.
        let packet = v4(&[0x46, 0, 0, 26, 0, 9, 0x40, 0, 64, 17, 0, 0], &[1, 1, 1, 1, 7, 8, 0, 0, 0]);
        let ip = decode(&packet, 0, packet.len()).unwrap();
        assert_eq!((ip.payload, ip.missing, ip.protocol, ip.fragment), (24..26, 0, 17, None));
        assert_eq!((ip.src, ip.dst), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        for len in 0..24 {
            let cut = decode(&packet[..len], 0, packet.len());
            // Options alone may be cut: then all of the payload is missing.
            assert!(matches!(cut, Ok(IpPacket { missing: 2, .. })) == (len >= 20), "{len}: {cut:?}");
        }
        assert_eq!(decode(&packet[..25], 0, packet.len()).map(|ip| ip.missing), Ok(1));
    }

    #[test]
    fn ipv4_fragments() {
        let packet = v4(&[0x45, 0, 0, 28, 0x12, 0x34, 0x20, 0x03, 64, 17, 0, 0], &[0; 8]);
        let fragment = Fragment { id: 0x1234, offset: 24, more: true };
        assert_eq!(decode(&packet, 0, 28).map(|ip| ip.fragment), Ok(Some(fragment)));
    }

    #[test]
    fn a_length_of_zero_means_all_of_the_packet() {
        let packet = v4(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0], &[0; 100]);
        assert_eq!(decode(&packet, 0, 200).map(|ip| (ip.payload, ip.missing)), Ok((20..120, 80)));
    }

    #[test]
    fn impossible_lengths_are_errors() {
        let short_header = v4(&[0x44, 0, 0, 28, 0, 0, 0, 0, 64, 6, 0, 0], &[0; 8]);
        let short_total = v4(&[0x45, 0, 0, 19, 0, 0, 0, 0, 64, 6, 0, 0], &[0; 8]);
        for packet in [short_header, short_total] {
            let error = decode(&packet, 0, packet.len()).unwrap_err();
            assert!(matches!(error.kind, DecodeErrorKind::Illegal { .. }), "{error}");
        }
    }

    fn v6(len: u16, next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        packet.extend_from_slice(&[0xfe; 32]);
        packet.extend_from_slice(rest);
        packet
    }

    #[test]
    fn ipv6_extension_headers() {
        let hop_by_hop = [43, 0, 1, 4, 0, 0, 0, 0];
        let routing = [51, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let authentication = [44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let whole_fragment = [17, 0, 0, 0, 0, 0, 0, 5];
        let rest = [&hop_by_hop[..], &routing, &authentication, &whole_fragment, b"payload"].concat();
        let packet = v6(rest.len() as u16, 0, &rest);
        let ip = decode(&packet, 0, packet.len()).unwrap();
        assert_eq!((ip.protocol, ip.fragment), (17, None));
        assert_eq!(&packet[ip.payload], b"payload");
        for len in 0..packet.len() - 7 {
            assert!(decode(&packet[..len], 0, packet.len()).is_err(), "{len}");
        }
    }

    #[test]
    fn later_ipv6_fragments_have_no_headers_inside() {
        // The payload would parse as a chain of headers if it were examined.
        let packet = v6(16, 44, &[60, 0, 0, 0x19, 0, 0, 0, 5, 0xff, 0xff, 0, 0, 0, 0, 0, 0]);
        let ip = decode(&packet, 0, packet.len()).unwrap();
        assert_eq!(ip.fragment, Some(Fragment { id: 5, offset: 24, more: true }));
        assert_eq!((ip.protocol, ip.payload), (60, 48..56));
    }

    #[test]
    fn an_endless_chain_of_headers_is_an_error() {
        let packet = v6(8 * 20, 60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(20));
        let error = decode(&packet, 0, packet.len()).unwrap_err();
        assert_eq!(error.reading, "IPv6 extension headers");
        let packet = v6(8, 60, &[6, 9, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode(&packet, 0, packet.len()).unwrap_err().reading, "IPv6 extension length");
    }

    proptest! {
        #[test]
        fn the_payload_lies_inside_the_packet(
            version in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x60]),
            mut data in prop::collection::vec(any::<u8>(), 1..200),
            wire_len in any::<u32>(),
        ) {
            data[0] = version;
            if let Ok(ip) = decode(&data, 0, wire_len as usize) {
                prop_assert!(data.get(ip.payload).is_some());
            }
        }
    }
}
