//! The pcap file format (draft-ietf-opsawg-pcap), reading.
//!
//! ```text
//! file header   magic u32 | major u16 | minor u16 | reserved u32 | reserved u32 | snaplen u32 | link type u32
//! record        seconds u32 | fraction u32 | captured length u32 | original length u32 | data
//! ```
//!
//! All integers are in the byte order of the host that wrote the file; the magic number tells which
//! order this is and whether the fraction counts microseconds or nanoseconds.

use super::field::{Order, illegal, out_of_range};
use super::file::{LinkType, MAX_PACKET_LEN};
use core::time::Duration;
use zwire_proto::error::Result;

const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
const MAGIC_NANO: u32 = 0xa1b2_3c4d;
/// The only major version that was ever in use.
const MAJOR: u16 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct FileHeader {
    order: Order,
    nanoseconds: bool,
    pub(super) link_type: LinkType,
}

impl FileHeader {
    pub(super) const LEN: usize = 24;

    /// Byte order and whether fractions are nanoseconds.
    pub(super) fn decode_magic(magic: [u8; 4]) -> Result<(Order, bool)> {
        for (order, value) in
            [(Order::Little, u32::from_le_bytes(magic)), (Order::Big, u32::from_be_bytes(magic))]
        {
            match value {
                MAGIC_MICRO => return Ok((order, false)),
                MAGIC_NANO => return Ok((order, true)),
                _ => {}
            }
        }
        Err(illegal("capture file magic", 0, u32::from_be_bytes(magic).into()))
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let magic = super::field::field(bytes, 0, "pcap magic")?;
        let (order, nanoseconds) = Self::decode_magic(magic)?;
        let major = order.u16(bytes, 4, "pcap version")?;
        if major != MAJOR {
            return Err(illegal("pcap version", 4, major.into()));
        }
        // The snapshot length is only a hint of the capturing program; records are checked one by one.
        // The upper bits of the link type tell the length of a frame check sequence, which follows the
        // IP packet and is not read.
        let link_type = order.u32(bytes, 20, "pcap link type")?;
        Ok(Self { order, nanoseconds, link_type: LinkType((link_type & 0xffff) as u16) })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PcapRecord {
    pub(super) timestamp: Duration,
    captured_len: u32,
    pub(super) original_len: u32,
}

impl PcapRecord {
    pub(super) const HEADER_LEN: usize = 16;

    pub(super) fn decode(file: &FileHeader, bytes: &[u8]) -> Result<Self> {
        let seconds = Duration::from_secs(file.order.u32(bytes, 0, "pcap record seconds")?.into());
        let fraction = u64::from(file.order.u32(bytes, 4, "pcap record fraction")?);
        let captured_len = file.order.u32(bytes, 8, "pcap captured length")?;
        if captured_len > MAX_PACKET_LEN {
            return Err(out_of_range("pcap captured length", 8, captured_len.into(), MAX_PACKET_LEN.into()));
        }
        let original_len = file.order.u32(bytes, 12, "pcap original length")?;
        // Fractions of a second or more were seen in the wild; they carry over.
        let fraction =
            if file.nanoseconds { Duration::from_nanos(fraction) } else { Duration::from_micros(fraction) };
        Ok(Self { timestamp: seconds + fraction, captured_len, original_len: original_len.max(captured_len) })
    }

    /// Length of the record with its header.
    pub(super) fn len(&self) -> usize {
        Self::HEADER_LEN + self.captured_len as usize
    }
}
