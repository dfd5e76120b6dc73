//! Reader of capture files: takes chunks of any size and returns packets.
//!
//! Formats: pcap (draft-ietf-opsawg-pcap) in both byte orders with microseconds or nanoseconds, and
//! pcapng (draft-ietf-opsawg-pcapng). The first four bytes tell the format.

use super::buffer::StreamBuffer;
use super::pcap::{FileHeader, PcapRecord};
use super::pcapng::{Block, SECTION_MAGIC, Section};
use bytes::Bytes;
use core::time::Duration;
use zwire_proto::error::{DecodeError, DecodeErrorKind, Result};

/// Longest packet that the reader accepts. Captures are cut at 256 KiB by convention; segments that
/// a network card joined (BIG TCP) reach 512 KiB. Anything above it is a damaged length.
pub const MAX_PACKET_LEN: u32 = 1 << 20;

/// Type of the outermost header of a packet: a `LINKTYPE_` value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: four bytes of address family in the capturing host's byte order.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// No header, the packet is IPv4 or IPv6.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: four bytes of address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// No header, the packet is IPv4.
    pub const IPV4: Self = Self(228);
    /// No header, the packet is IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

/// A packet of the file, unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it was captured, since the UNIX epoch; a Simple Packet Block takes that of the one before.
    pub timestamp: Duration,
    /// Type of the outermost header.
    pub link_type: LinkType,
    /// Length on the wire; above `data.len()` if the capture kept only the beginning.
    pub original_len: u32,
    /// The bytes in the file: a slice of the pushed chunk wherever one chunk holds the packet.
    pub data: Bytes,
}

/// Reads a capture file that arrives in chunks.
///
/// After each [`push`](Self::push), call [`poll_packet`](Self::poll_packet) until it gives `None`; after
/// the last chunk call [`finish`](Self::finish). The reader keeps less than a record beside it.
///
/// Offsets in errors count from the start of the file. An error inside a pcapng block costs this
/// block: go on polling. An error that loses the place of the next record (a bad magic number, an
/// impossible length) ends the reading: it is reported once, [`is_broken`](Self::is_broken) answers
/// `true` and later chunks are dropped.
#[derive(Debug, Default)]
pub struct CaptureReader {
    buffer: StreamBuffer,
    state: ReaderState,
    /// Time of the last packet, for those that carry none.
    last: Duration,
    /// Bytes of a skipped block, still to be dropped.
    skip: u64,
    /// Announced length of the incomplete record, for the report of a cut file.
    awaited: usize,
}

#[derive(Debug, Default)]
enum ReaderState {
    #[default]
    Start,
    Pcap(FileHeader),
    Pcapng(Section),
    Broken,
}

enum ReaderStep {
    Packet(Packet),
    /// Something else was consumed: try again.
    Again,
}

/// Reason why a step does not end.
enum ReaderStop {
    /// The record is incomplete; it has this many bytes in all.
    Await(usize),
    /// The record is consumed, the next one starts where it should.
    Record(DecodeError),
    /// The place of the next record is unknown.
    File(DecodeError),
}

impl CaptureReader {
    /// Adds the next chunk of the file. Push the whole file, or a mapping of it, as one `Bytes` and
    /// no packet is copied.
    pub fn push(&mut self, chunk: impl Into<Bytes>) {
        if !self.is_broken() {
            self.buffer.push(chunk.into());
        }
    }

    /// The next packet; `None` asks for the next chunk.
    pub fn poll_packet(&mut self) -> Result<Option<Packet>> {
        loop {
            let start = usize::try_from(self.buffer.position()).unwrap_or(usize::MAX);
            let in_file =
                |error: DecodeError| DecodeError { offset: error.offset.saturating_add(start), ..error };
            match self.step() {
                Ok(ReaderStep::Again) => {}
                Ok(ReaderStep::Packet(packet)) => {
                    self.last = packet.timestamp;
                    return Ok(Some(packet));
                }
                Err(ReaderStop::Await(len)) => {
                    self.awaited = len;
                    return Ok(None);
                }
                Err(ReaderStop::Record(error)) => return Err(in_file(error)),
                Err(ReaderStop::File(error)) => {
                    self.buffer.clear();
                    self.state = ReaderState::Broken;
                    return Err(in_file(error));
                }
            }
        }
    }

    /// Marks the end of the file. A file that ends inside a record (the capturing program was killed,
    /// say) gives an error; all packets before it are valid.
    pub fn finish(&mut self) -> Result<()> {
        let reading = match self.state {
            ReaderState::Broken => return Ok(()),
            ReaderState::Start => "capture file header",
            ReaderState::Pcap(_) => "last pcap record",
            ReaderState::Pcapng(_) => "last pcapng block",
        };
        let offset = usize::try_from(self.buffer.position()).unwrap_or(usize::MAX);
        let left = self.buffer.len();
        if left == 0 && self.skip == 0 && !matches!(self.state, ReaderState::Start) {
            return Ok(());
        }
        let needed = match self.skip {
            0 => self.awaited.max(4).saturating_sub(left),
            skip => usize::try_from(skip).unwrap_or(usize::MAX),
        };
        self.buffer.clear();
        self.state = ReaderState::Broken;
        Err(DecodeError { reading, offset, kind: DecodeErrorKind::Truncated { needed } })
    }

    /// Whether the reading ended, at [`finish`](Self::finish) or at an error that lost the place of
    /// the next record.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        matches!(self.state, ReaderState::Broken)
    }

    /// Offset in the file of the next byte that was not read yet.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.buffer.position()
    }

    fn step(&mut self) -> core::result::Result<ReaderStep, ReaderStop> {
        match &mut self.state {
            ReaderState::Broken => Err(ReaderStop::Await(0)),
            ReaderState::Start => {
                let magic = self.buffer.peek::<4>().ok_or(ReaderStop::Await(4))?;
                if magic == SECTION_MAGIC {
                    self.state = ReaderState::Pcapng(Section::default());
                    return Ok(ReaderStep::Again);
                }
                // A wrong magic number is reported at once, not after twenty more bytes.
                FileHeader::decode_magic(magic).map_err(ReaderStop::File)?;
                let bytes = self.buffer.take(FileHeader::LEN).ok_or(ReaderStop::Await(FileHeader::LEN))?;
                self.state = ReaderState::Pcap(FileHeader::decode(&bytes).map_err(ReaderStop::File)?);
                Ok(ReaderStep::Again)
            }
            ReaderState::Pcap(header) => {
                let bytes = self.buffer.peek::<{ PcapRecord::HEADER_LEN }>();
                let bytes = bytes.ok_or(ReaderStop::Await(PcapRecord::HEADER_LEN))?;
                let record = PcapRecord::decode(header, &bytes).map_err(ReaderStop::File)?;
                let bytes = self.buffer.take(record.len()).ok_or(ReaderStop::Await(record.len()))?;
                Ok(ReaderStep::Packet(Packet {
                    timestamp: record.timestamp,
                    link_type: header.link_type,
                    original_len: record.original_len,
                    data: bytes.slice(PcapRecord::HEADER_LEN..),
                }))
            }
            ReaderState::Pcapng(section) => {
                self.skip -= self.buffer.skip(self.skip);
                if self.skip > 0 {
                    return Err(ReaderStop::Await(0));
                }
                let head = self.buffer.peek::<{ Block::HEAD_LEN }>();
                let head = head.ok_or(ReaderStop::Await(Block::HEAD_LEN))?;
                let block = Block::decode(&head, section).map_err(ReaderStop::File)?;
                if !block.is_wanted() {
                    self.skip = u64::from(block.len);
                    return Ok(ReaderStep::Again);
                }
                if let Err(error) = block.check_len() {
                    self.skip = u64::from(block.len);
                    return Err(ReaderStop::Record(error));
                }
                let len = block.len as usize;
                let bytes = self.buffer.take(len).ok_or(ReaderStop::Await(len))?;
                block.check_trailer(&bytes).map_err(ReaderStop::File)?;
                let packet = section.decode(&block, &bytes, self.last).map_err(ReaderStop::Record)?;
                Ok(packet.map_or(ReaderStep::Again, ReaderStep::Packet))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zwire_proto::pcap::PcapWriter;

    /// Reads a file in chunks of this size and returns all its packets and errors.
    fn read(file: &[u8], chunk: usize) -> (Vec<Packet>, Vec<DecodeError>) {
        let mut reader = CaptureReader::default();
        let (mut packets, mut errors) = (Vec::new(), Vec::new());
        for chunk in file.chunks(chunk) {
            reader.push(Bytes::copy_from_slice(chunk));
            loop {
                match reader.poll_packet() {
                    Ok(Some(packet)) => packets.push(packet),
                    Ok(None) => break,
                    Err(error) => errors.push(error),
                }
            }
            // The rest of a record, never more than one.
            assert!(reader.buffer.len() < MAX_PACKET_LEN as usize + (1 << 17));
        }
        errors.extend(reader.finish().err());
        assert!(reader.buffer.is_empty());
        (packets, errors)
    }

    /// A file with one packet `de ad` of length 9 at 0x10 seconds and 7 units, in either byte order.
    fn pcap(magic: u32, big: bool) -> Vec<u8> {
        let fields = [magic, 0, 0, 0, 0x40000, 0x1000_0000 | 1, 0x10, 7, 2, 9];
        let mut out: Vec<u8> = fields
            .iter()
            .flat_map(|field| if big { field.to_be_bytes() } else { field.to_le_bytes() })
            .collect();
        out[4..8].copy_from_slice(if big { &[0, 2, 0, 4] } else { &[2, 0, 4, 0] });
        out.extend_from_slice(&[0xde, 0xad]);
        out
    }

    #[test]
    fn pcap_in_both_byte_orders_and_resolutions() {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            for big in [false, true] {
                for chunk in [1, 7, 1000] {
                    let (packets, errors) = read(&pcap(magic, big), chunk);
                    assert_eq!(errors, []);
                    let data = Bytes::from_static(&[0xde, 0xad]);
                    let timestamp = Duration::new(16, 7 * unit);
                    let link_type = LinkType::ETHERNET;
                    assert_eq!(packets, [Packet { timestamp, link_type, original_len: 9, data }]);
                }
            }
        }
    }

    #[test]
    fn packets_inside_a_chunk_are_slices_of_it() {
        let mut writer = PcapWriter::new();
        writer.write(Duration::from_secs(1), b"head", b"body");
        let file = Bytes::from(writer.take());
        let mut reader = CaptureReader::default();
        reader.push(file.clone());
        let packet = reader.poll_packet().unwrap().unwrap();
        assert_eq!(packet.data, &b"headbody"[..]);
        assert_eq!(packet.data.as_ptr(), file[40..].as_ptr());
        assert_eq!(reader.position(), file.len() as u64);
    }

    #[test]
    fn a_file_that_ends_inside_a_record_says_so() {
        let file = pcap(0xa1b2_c3d4, false);
        let (packets, errors) = read(&[&file[..], &file[24..41]].concat(), 100);
        assert_eq!(packets.len(), 1);
        let kind = DecodeErrorKind::Truncated { needed: 1 };
        assert_eq!(errors, [DecodeError { reading: "last pcap record", offset: 42, kind }]);
        for len in 0..file.len() {
            let (packets, errors) = read(&file[..len], 3);
            assert_eq!(packets, []);
            // A file with no packets is a good file.
            assert_eq!(errors.len(), usize::from(len != 24), "{len}");
        }
    }

    #[test]
    fn an_impossible_length_ends_the_file_at_once() {
        let mut file = pcap(0xa1b2_c3d4, false);
        file[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        file.extend_from_slice(&[0; 1000]);
        let (packets, errors) = read(&file, 50);
        assert_eq!(packets, []);
        let kind = DecodeErrorKind::OutOfRange { value: u32::MAX.into(), bound: MAX_PACKET_LEN.into() };
        assert_eq!(errors, [DecodeError { reading: "pcap captured length", offset: 32, kind }]);
        let (_, errors) = read(b"GIF89a, which is no capture", 5);
        assert_eq!(errors.len(), 1);
    }

    /// A pcapng block around `body`, little endian.
    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let len = ((12 + body.len() + padding.len()) as u32).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, body, &padding, &len].concat()
    }

    fn section() -> Vec<u8> {
        let body = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        block(0x0a0d_0d0a, &body)
    }

    fn interface(link_type: u16, snaplen: u32, options: &[u8]) -> Vec<u8> {
        let body = [&link_type.to_le_bytes()[..], &[0, 0], &snaplen.to_le_bytes(), options].concat();
        block(1, &body)
    }

    fn enhanced(interface: u32, ticks: u64, original: u32, data: &[u8]) -> Vec<u8> {
        let fields = [interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, original];
        let mut body: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        body.extend_from_slice(data);
        body.resize(body.len().next_multiple_of(4), 0);
        // opt_comment "hi", end of options
        body.extend_from_slice(&[1, 0, 2, 0, b'h', b'i', 0, 0, 0, 0, 0, 0]);
        block(6, &body)
    }

    #[test]
    fn pcapng_with_resolutions_offsets_sections_and_foreign_blocks() {
        let nano_and_later = [9, 0, 1, 0, 9, 0, 0, 0, 14, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let binary = [9, 0, 1, 0, 0x80 | 10, 0, 0, 0];
        let old = [&[0, 0, 0, 0][..], &[0; 4], &3_000_000u32.to_le_bytes(), &[1, 0, 0, 0, 1, 0, 0, 0, b'o']];
        let file = [
            section(),
            interface(1, 0, &[]),
            block(0x0bad, &[0; 100]),
            interface(101, 3, &nano_and_later),
            interface(276, 0, &binary),
            enhanced(0, 1_500_000, 60, b"micro"),
            enhanced(1, 1_500_000_000, 4, b"nano"),
            enhanced(2, 1 << 10, 4, b"bin"),
            block(3, &[&8u32.to_le_bytes()[..], b"simple!!"].concat()),
            block(2, &old.concat()),
            section(),
            interface(101, 3, &[]),
            block(3, &[&8u32.to_le_bytes()[..], b"cut\0"].concat()),
        ]
        .concat();
        let packet = |millis, link_type, original_len, data: &'static [u8]| Packet {
            timestamp: Duration::from_millis(millis),
            link_type,
            original_len,
            data: Bytes::from_static(data),
        };
        let expected = [
            packet(1500, LinkType::ETHERNET, 60, b"micro"),
            packet(6500, LinkType::RAW, 4, b"nano"),
            packet(1000, LinkType::LINUX_SLL2, 4, b"bin"),
            packet(1000, LinkType::ETHERNET, 8, b"simple!!"),
            packet(3000, LinkType::ETHERNET, 1, b"o"),
            packet(3000, LinkType::RAW, 8, b"cut"),
        ];
        for chunk in [1, 5, 64, 10_000] {
            let (packets, errors) = read(&file, chunk);
            assert_eq!(errors, []);
            assert_eq!(packets, expected);
        }
    }

    #[test]
    fn pcapng_in_network_byte_order() {
        let file = [
            &[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0][..],
            &[0xff; 8],
            &[0, 0, 0, 28],
            &[0, 0, 0, 1, 0, 0, 0, 20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20],
            &[0, 0, 0, 6, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1],
            &[b'x', 0, 0, 0, 0, 0, 0, 36],
        ]
        .concat();
        let (packets, errors) = read(&file, 100);
        assert_eq!(errors, []);
        assert_eq!(packets[0].timestamp, Duration::from_micros(5));
        assert_eq!(packets[0].data, &b"x"[..]);
    }

    #[test]
    fn a_damaged_block_costs_itself() {
        let mut bad_length = enhanced(0, 0, 4, b"data");
        bad_length[20..24].copy_from_slice(&9999u32.to_le_bytes());
        let good = enhanced(0, 0, 4, b"good");
        let huge = block(6, &vec![0; MAX_PACKET_LEN as usize + (1 << 16)]);
        let file = [
            section(),
            interface(1, 0, &[]),
            bad_length,
            good.clone(),
            enhanced(7, 0, 4, b"data"),
            block(6, &[0, 0, 0, 0, 1]),
            huge,
            good.clone(),
        ]
        .concat();
        let (packets, errors) = read(&file, 4096);
        assert_eq!(packets.len(), 2);
        let readings: Vec<_> = errors.iter().map(|error| error.reading).collect();
        assert_eq!(
            readings,
            ["pcapng captured length", "pcapng packet interface", "pcapng timestamp", "pcapng block length"]
        );
        // A length that disagrees with its repetition loses the place of what follows.
        let mut bad_trailer = good.clone();
        let last = bad_trailer.len() - 4;
        bad_trailer[last] ^= 1;
        let (packets, errors) = read(&[section(), interface(1, 0, &[]), bad_trailer, good].concat(), 4096);
        assert_eq!((packets.len(), errors.len()), (0, 1));
        assert_eq!(errors[0].reading, "pcapng trailing block length");
    }

    #[test]
    fn a_foreign_block_that_never_ends_costs_no_memory() {
        let mut file = section();
        file.extend_from_slice(&0x0badu32.to_le_bytes());
        file.extend_from_slice(&0xffff_fffcu32.to_le_bytes());
        file.resize(3_000_000, 0);
        let mut reader = CaptureReader::default();
        for chunk in file.chunks(1000) {
            reader.push(Bytes::copy_from_slice(chunk));
            assert_eq!(reader.poll_packet(), Ok(None));
            assert!(reader.buffer.is_empty() || reader.position() == 28);
        }
        assert!(reader.finish().is_err());
    }

    proptest! {
        #[test]
        fn a_damaged_file_never_panics(
            ng in any::<bool>(),
            chunk in 1usize..200,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..10),
        ) {
            let mut file = if ng {
                [section(), interface(1, 0, &[9, 0, 1, 0, 6, 0, 0, 0]), enhanced(0, 5, 3, b"abc"), enhanced(0, 6, 3, b"def")].concat()
            } else {
                let file = pcap(0xa1b2_c3d4, true);
                [&file[..], &file[24..], &file[24..]].concat()
            };
            for (at, value) in damage {
                let at = at.index(file.len());
                file[at] = value;
            }
            read(&file, chunk);
        }

        #[test]
        fn any_interface_time_is_a_time(resolution in any::<u8>(), offset in any::<i64>(), ticks in any::<u64>()) {
            let options = [&[9, 0, 1, 0, resolution, 0, 0, 0, 14, 0, 8, 0][..], &offset.to_le_bytes()].concat();
            let file = [section(), interface(1, 0, &options), enhanced(0, ticks, 1, b"x")].concat();
            let (packets, errors) = read(&file, 1000);
            prop_assert_eq!((packets.len(), errors.len()), (1, 0));
        }
    }
}
