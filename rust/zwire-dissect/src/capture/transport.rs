//! TCP and UDP headers.

use super::field::{be_u16, be_u32, byte, illegal};
use bytes::Bytes;
use zwire_proto::error::Result;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) seq: u32,
    pub(super) ack: Option<u32>,
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) rst: bool,
    pub(super) data: Bytes,
    /// Bytes behind `data` that were on the wire but not captured.
    pub(super) missing: usize,
}

/// Decodes the payload of an IP packet, of which the capture lacks the last `missing` bytes.
///
/// Checksums are not verified: hosts leave them to the network card, and captures hold wrong ones.
pub(super) fn decode_tcp(payload: &Bytes, missing: usize) -> Result<Segment> {
    let header_len = usize::from(byte(payload, 12, "TCP header length")? >> 4) * 4;
    if header_len < 20 {
        return Err(illegal("TCP header length", 12, header_len as u64));
    }
    let flags = byte(payload, 13, "TCP flags")?;
    let (data, missing) = cut(payload, header_len, payload.len() + missing);
    let ack = be_u32(payload, 8, "TCP acknowledgment")?;
    Ok(Segment {
        src_port: be_u16(payload, 0, "TCP source port")?,
        dst_port: be_u16(payload, 2, "TCP destination port")?,
        seq: be_u32(payload, 4, "TCP sequence number")?,
        ack: (flags & ACK != 0).then_some(ack),
        syn: flags & SYN != 0,
        fin: flags & FIN != 0,
        rst: flags & RST != 0,
        data,
        missing,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UdpDatagram {
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) data: Bytes,
    /// Bytes behind `data` that were on the wire but not captured.
    pub(super) missing: usize,
}

/// Decodes the payload of an IP packet, of which the capture lacks the last `missing` bytes.
pub(super) fn decode_udp(payload: &Bytes, missing: usize) -> Result<UdpDatagram> {
    let end = match usize::from(be_u16(payload, 4, "UDP length")?) {
        // A jumbogram.
        0 => payload.len() + missing,
        len if len < 8 => return Err(illegal("UDP length", 4, len as u64)),
        len => len,
    };
    let (data, missing) = cut(payload, 8, end);
    Ok(UdpDatagram {
        src_port: be_u16(payload, 0, "UDP source port")?,
        dst_port: be_u16(payload, 2, "UDP destination port")?,
        data,
        missing,
    })
}

/// The captured bytes from `start` to `end`, and the number of those not captured.
fn cut(payload: &Bytes, start: usize, end: usize) -> (Bytes, usize) {
    let have = payload.len().min(end);
    if start >= have {
        return (Bytes::new(), end.saturating_sub(start));
    }
    (payload.slice(start..have), end - have)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_segment_with_options() {
        let mut segment = vec![0x1d, 0x17, 0xc3, 0x50, 0, 0, 0, 5, 0, 0, 0, 9, 0x60, 0x11, 0, 0, 0, 0, 0, 0];
        segment.extend_from_slice(&[1, 1, 1, 0, b'h', b'i']);
        let segment = Bytes::from(segment);
        let decoded = decode_tcp(&segment, 3).unwrap();
        let data = Bytes::from_static(b"hi");
        let expected = Segment {
            src_port: 7447,
            dst_port: 50000,
            seq: 5,
            ack: Some(9),
            syn: false,
            fin: true,
            rst: false,
            data,
            missing: 3,
        };
        assert_eq!(decoded, expected);
        for len in 0..segment.len() {
            let cut = decode_tcp(&segment.slice(..len), segment.len() - len);
            assert_eq!(cut.is_ok(), len >= 14, "{len}");
            // The length on the wire is known however much is cut.
            assert!(cut.is_err() || cut.is_ok_and(|cut| cut.data.len() + cut.missing == 2));
        }
    }

    #[test]
    fn the_length_of_a_datagram_is_its_own() {
        let datagram = Bytes::from_static(&[0, 1, 0, 2, 0, 10, 0, 0, b'h', b'i', 0, 0]);
        assert_eq!(decode_udp(&datagram, 0).map(|it| (it.data, it.missing)), Ok((datagram.slice(8..10), 0)));
        assert_eq!(decode_udp(&datagram.slice(..9), 1).map(|it| it.missing), Ok(1));
        assert!(decode_udp(&Bytes::from_static(&[0, 1, 0, 2, 0, 7, 0, 0]), 0).is_err());
    }

    proptest! {
        #[test]
        fn noise_never_panics(payload in prop::collection::vec(any::<u8>(), 0..100), missing in any::<u32>()) {
            let payload = Bytes::from(payload);
            let _ = decode_tcp(&payload, missing as usize);
            let _ = decode_udp(&payload, missing as usize);
        }
    }
}
