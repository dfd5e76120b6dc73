//! FRAME, id 0x05, and FRAGMENT, id 0x06 (`zenoh-wire` 3.9, 3.10).
//!
//! ```text
//!  7 6 5 4 3 2 1 0            7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+          +-+-+-+-+-+-+-+-+
//! |Z|X|R|  FRAME  |          |Z|M|R|FRAGMENT |   R: reliable, M: more fragments follow
//! +-+-+-+---------+          +-+-+-+---------+
//! %      sn       %  z32     %      sn       %
//! ~  extensions   ~          ~  extensions   ~   if Z: QoS 0x31 (mandatory), FRAGMENT also
//! ~   messages    ~          ~     bytes     ~         First 0x02, Drop 0x03
//! +---------------+          +---------------+
//! ```
//!
//! The messages of a FRAME end at the next transport message or at the end of the batch; the bytes
//! of a FRAGMENT end at the end of the batch.

use super::ext::{Chain, Z, read_header, skip_unknown};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::Result,
    zenoh::{Priority, Reliability},
};

pub(super) const ID: u8 = 0x05;
pub(super) const FRAGMENT_ID: u8 = 0x06;
const R: u8 = 0x20;
const MORE: u8 = 0x40;
/// QoS, Z64, mandatory: elided for Data, forbidden unless QoS was negotiated.
pub(super) const PRIORITY: u8 = 0x31;
const FIRST: u8 = 0x02;
const DROP: u8 = 0x03;

pub(super) fn read_priority(r: &mut Reader<'_>) -> Result<Priority> {
    // The upper bits are ignored.
    r.vle("frame QoS").map(|v| Priority::from_bits((v & 0x07) as u8))
}

const fn reliability(header: u8) -> Reliability {
    if header & R == 0 { Reliability::BestEffort } else { Reliability::Reliable }
}

const fn reliable_flag(reliability: Reliability) -> u8 {
    match reliability {
        Reliability::BestEffort => 0,
        Reliability::Reliable => R,
    }
}

/// The head of a FRAME; its network messages follow in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Channel of the priority.
    pub reliability: Reliability,
    /// Sequence number on the channel.
    pub sn: u32,
    /// The priority of all its messages.
    pub priority: Priority,
}

impl Frame {
    #[inline]
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let sn = r.z32("FRAME sn")?;
        let mut priority = Priority::Data;
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "FRAME extension")?;
            match ext {
                PRIORITY => priority = read_priority(r)?,
                _ => skip_unknown(ext, r, "FRAME extension")?,
            }
        }
        Ok(Self { reliability: reliability(header), sn, priority })
    }

    /// Writes the head; the caller writes the network messages behind it.
    #[inline]
    pub fn encode(self, sink: &mut impl Sink) {
        let mut chain = Chain::new(usize::from(self.priority != Priority::Data));
        sink.put_u8(ID | chain.flag() | reliable_flag(self.reliability));
        put_vle(sink, u64::from(self.sn));
        if self.priority != Priority::Data {
            chain.z64(sink, PRIORITY, self.priority as u64);
        }
    }
}

/// The head of a FRAGMENT; a slice of one serialised network message follows, up to the end of the
/// batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Channel of the priority.
    pub reliability: Reliability,
    /// Sequence number on the channel, consecutive within one message.
    pub sn: u32,
    /// The priority of the message.
    pub priority: Priority,
    /// Whether more fragments of this message follow.
    pub more: bool,
    /// Whether it is the first fragment of its message; only with Patch ≥ 1.
    pub first: bool,
    /// Whether the sender abandons this message; only with Patch ≥ 1.
    pub drop: bool,
}

impl Fragment {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let mut out = Self {
            reliability: reliability(header),
            sn: r.z32("FRAGMENT sn")?,
            priority: Priority::Data,
            more: header & MORE != 0,
            first: false,
            drop: false,
        };
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "FRAGMENT extension")?;
            match ext {
                PRIORITY => out.priority = read_priority(r)?,
                FIRST => out.first = true,
                DROP => out.drop = true,
                _ => skip_unknown(ext, r, "FRAGMENT extension")?,
            }
        }
        Ok(out)
    }

    /// Writes the head; the caller writes bytes of the message behind it.
    pub fn encode(self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.priority != Priority::Data) + usize::from(self.first) + usize::from(self.drop),
        );
        let more = if self.more { MORE } else { 0 };
        sink.put_u8(FRAGMENT_ID | chain.flag() | more | reliable_flag(self.reliability));
        put_vle(sink, u64::from(self.sn));
        if self.priority != Priority::Data {
            chain.z64(sink, PRIORITY, self.priority as u64);
        }
        if self.first {
            chain.header(sink, FIRST);
        }
        if self.drop {
            chain.header(sink, DROP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        BatchItem, BatchReader, TransportMessage,
        testing::{kind, transport, unhex},
    };
    use super::*;
    use crate::error::DecodeErrorKind;

    fn frame(hex: &str, reliability: Reliability, sn: u32, priority: Priority) {
        let frame = Frame { reliability, sn, priority };
        let mut out = Vec::new();
        frame.encode(&mut out);
        assert_eq!(out, unhex(hex)[..]);
        assert_eq!(transport(hex), Ok(TransportMessage::Frame(frame)));
    }

    #[test]
    fn each_flag_of_frame() {
        frame("05 00", Reliability::BestEffort, 0, Priority::Data);
        frame("25 7f", Reliability::Reliable, 127, Priority::Data);
        frame("a5 ffffffff0f 31 00", Reliability::Reliable, u32::MAX, Priority::Control);
    }

    #[test]
    fn each_flag_of_fragment() {
        let none = Fragment {
            reliability: Reliability::BestEffort,
            sn: 1,
            priority: Priority::Data,
            more: false,
            first: false,
            drop: false,
        };
        for (hex, fragment) in [
            ("06 01", none),
            ("26 01", Fragment { reliability: Reliability::Reliable, ..none }),
            ("46 01", Fragment { more: true, ..none }),
            ("86 01 02", Fragment { first: true, ..none }),
            ("86 01 03", Fragment { drop: true, ..none }),
            ("86 01 31 07", Fragment { priority: Priority::Background, ..none }),
            ("86 01 b1 01 82 03", Fragment { priority: Priority::RealTime, first: true, drop: true, ..none }),
        ] {
            let mut out = Vec::new();
            fragment.encode(&mut out);
            assert_eq!(out, unhex(hex)[..]);
            let bytes = unhex(&format!("{hex} 1d00"));
            let mut batch = BatchReader::new(&bytes);
            assert_eq!(batch.next_item(), Ok(Some(BatchItem::Fragment(fragment, unhex("1d00")))));
            assert_eq!(batch.next_item(), Ok(None));
        }
    }

    /// "Value bits 2:0 = priority, upper bits ignored."
    #[test]
    fn only_three_bits_of_the_priority_count() {
        assert_eq!(transport("a5 00 31 f901"), transport("a5 00 31 01"));
        assert_eq!(transport("a5 00 31 05"), transport("25 00"));
    }

    #[test]
    fn a_sequence_number_above_32_bits_is_an_error() {
        assert!(matches!(kind(transport("05 8080808010")), DecodeErrorKind::OutOfRange { .. }));
    }
}
