//! The pcapng file format (draft-ietf-opsawg-pcapng), reading.
//!
//! ```text
//! block         type u32 | total length u32 | body, padded to four bytes | total length u32
//! section       0x0A0D0D0A, body: byte-order magic u32 | major u16 | minor u16 | section length i64 | options
//! interface     0x00000001, body: link type u16 | reserved u16 | snaplen u32 | options
//! packet (old)  0x00000002, body: interface u16 | drops u16 | time high, low u32 | captured, original length u32 | data
//! simple packet 0x00000003, body: original length u32 | data
//! enhanced      0x00000006, body: interface u32 | time high, low u32 | captured, original length u32 | data | options
//! ```
//!
//! Integers are in the byte order of the section. Every other block is skipped unread.

use super::field::{Order, byte, field, illegal, out_of_range};
use super::file::{LinkType, MAX_PACKET_LEN, Packet};
use bytes::Bytes;
use core::time::Duration;
use zwire_proto::error::Result;

/// Type of a Section Header Block, the same in both byte orders.
pub(super) const SECTION_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const MAJOR: u16 = 1;

const OPT_END: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// Most interfaces of a section: a large router has some thousand; each costs 24 bytes here.
const MAX_INTERFACES: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    kind: u32,
    pub(super) len: u32,
    order: Order,
}

impl Block {
    /// Type, length and, of a section, byte-order magic. No block is shorter.
    pub(super) const HEAD_LEN: usize = 12;
    /// Type and length in front of the body.
    const BODY_AT: usize = 8;
    /// Longest block that is kept in memory: a packet and 64 KiB of options and headers.
    const MAX_LEN: u32 = MAX_PACKET_LEN + (1 << 16);

    pub(super) fn decode(head: &[u8; Self::HEAD_LEN], section: &Section) -> Result<Self> {
        let is_section = head.starts_with(&SECTION_MAGIC);
        let order = if is_section {
            let magic = field(head, 8, "pcapng byte-order magic")?;
            match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
                (BYTE_ORDER_MAGIC, _) => Order::Little,
                (_, BYTE_ORDER_MAGIC) => Order::Big,
                (_, value) => return Err(illegal("pcapng byte-order magic", 8, value.into())),
            }
        } else {
            section.order
        };
        let kind = order.u32(head, 0, "pcapng block type")?;
        let len = order.u32(head, 4, "pcapng block length")?;
        // "MUST be a multiple of 4"; type and two lengths are twelve bytes.
        if len < 12 || !len.is_multiple_of(4) {
            return Err(illegal("pcapng block length", 4, len.into()));
        }
        Ok(Self { kind, len, order })
    }

    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.kind, SECTION | INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET)
    }

    pub(super) fn check_len(&self) -> Result<()> {
        if self.len > Self::MAX_LEN {
            return Err(out_of_range("pcapng block length", 4, self.len.into(), Self::MAX_LEN.into()));
        }
        Ok(())
    }

    /// Checks the length repeated behind the body; if it differs, the next block cannot be found.
    pub(super) fn check_trailer(&self, block: &[u8]) -> Result<()> {
        let at = block.len().saturating_sub(4);
        let trailer = self.order.u32(block, at, "pcapng trailing block length")?;
        if trailer != self.len {
            return Err(illegal("pcapng trailing block length", at, trailer.into()));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: LinkType,
    snaplen: u32,
    /// `if_tsresol` of the file: a negative power of ten, or of two with the top bit.
    resolution: u8,
    /// `if_tsoffset`: seconds to add.
    offset: i64,
}

impl Interface {
    fn timestamp(&self, high: u32, low: u32) -> Duration {
        let ticks = u128::from(u64::from(high) << 32 | u64::from(low));
        let exponent = u32::from(self.resolution & 0x7f);
        let nanoseconds = if self.resolution & 0x80 != 0 {
            (ticks * 1_000_000_000) >> exponent
        } else if exponent <= 9 {
            ticks * 10u128.pow(9 - exponent)
        } else {
            10u128.checked_pow(exponent - 9).map_or(0, |divisor| ticks / divisor)
        };
        // At most 2^64 ticks of one second each: far below the range of an i128.
        let total = nanoseconds as i128 + i128::from(self.offset) * 1_000_000_000;
        Duration::from_nanos(total.clamp(0, u64::MAX.into()) as u64)
    }
}

#[derive(Debug, Default)]
pub(super) struct Section {
    order: Order,
    interfaces: Vec<Interface>,
}

impl Section {
    /// Takes in a whole [wanted](Block::is_wanted) block; packets without a time take `last`.
    pub(super) fn decode(&mut self, block: &Block, bytes: &Bytes, last: Duration) -> Result<Option<Packet>> {
        let order = block.order;
        let end = bytes.len().saturating_sub(4);
        let body = bytes.get(..end).unwrap_or_default();
        let at = Block::BODY_AT;
        match block.kind {
            SECTION => {
                *self = Self { order, interfaces: Vec::new() };
                let major = order.u16(body, at + 4, "pcapng version")?;
                if major != MAJOR {
                    return Err(illegal("pcapng version", at + 4, major.into()));
                }
                Ok(None)
            }
            INTERFACE => {
                if self.interfaces.len() >= MAX_INTERFACES {
                    let count = self.interfaces.len() as u64 + 1;
                    return Err(out_of_range("pcapng interfaces", 0, count, MAX_INTERFACES as u64));
                }
                let mut interface = Interface {
                    link_type: LinkType(order.u16(body, at, "pcapng interface link type")?),
                    snaplen: order.u32(body, at + 4, "pcapng interface snaplen")?,
                    resolution: 6,
                    offset: 0,
                };
                // The interface counts even if its options are damaged: packets name it by position.
                let options = interface.decode_options(order, body, at + 8);
                self.interfaces.push(interface);
                options.map(|()| None)
            }
            ENHANCED_PACKET => {
                let interface = self.interface(order.u32(body, at, "pcapng packet interface")?, at)?;
                self.packet(bytes, body, at + 4, interface).map(Some)
            }
            OLD_PACKET => {
                let id = order.u16(body, at, "pcapng packet interface")?;
                let interface = self.interface(id.into(), at)?;
                self.packet(bytes, body, at + 4, interface).map(Some)
            }
            SIMPLE_PACKET => {
                let interface = self.interface(0, at)?;
                let original_len = order.u32(body, at, "pcapng original length")?;
                let room = body.len() - (at + 4).min(body.len());
                let snaplen = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
                let captured = room.min(original_len.min(snaplen) as usize);
                Ok(Some(Packet {
                    timestamp: last,
                    link_type: interface.link_type,
                    original_len,
                    data: bytes.slice(at + 4..at + 4 + captured),
                }))
            }
            _ => Ok(None),
        }
    }

    fn interface(&self, id: u32, at: usize) -> Result<Interface> {
        // A packet of an interface that no block described has no known link type.
        let interface = self.interfaces.get(id as usize).copied();
        interface.ok_or_else(|| illegal("pcapng packet interface", at, id.into()))
    }

    /// Time, lengths and data, which the old and the enhanced packet block have in common.
    fn packet(&self, bytes: &Bytes, body: &[u8], at: usize, interface: Interface) -> Result<Packet> {
        let high = self.order.u32(body, at, "pcapng timestamp")?;
        let low = self.order.u32(body, at + 4, "pcapng timestamp")?;
        let captured = self.order.u32(body, at + 8, "pcapng captured length")?;
        let original = self.order.u32(body, at + 12, "pcapng original length")?;
        let start = at + 16;
        let room = body.len() - start.min(body.len());
        if captured as usize > room {
            return Err(out_of_range("pcapng captured length", at + 8, captured.into(), room as u64));
        }
        Ok(Packet {
            timestamp: interface.timestamp(high, low),
            link_type: interface.link_type,
            original_len: original.max(captured),
            data: bytes.slice(start..start + captured as usize),
        })
    }
}

impl Interface {
    /// Options are code u16, length u16, value padded to four bytes, up to the end of the body or
    /// an option 0. Each one moves on by four bytes at least.
    fn decode_options(&mut self, order: Order, body: &[u8], mut at: usize) -> Result<()> {
        while at < body.len() {
            let code = order.u16(body, at, "pcapng option code")?;
            let len = usize::from(order.u16(body, at + 2, "pcapng option length")?);
            let value = at + 4;
            match code {
                OPT_END => break,
                IF_TSRESOL => self.resolution = byte(body, value, "pcapng if_tsresol")?,
                IF_TSOFFSET => self.offset = order.i64(body, value, "pcapng if_tsoffset")?,
                _ => {}
            }
            at = value + len.next_multiple_of(4);
        }
        Ok(())
    }
}
