//! Payloads in shared memory (`zenoh-wire` 5.8): the sliced form of a payload.
//!
//! ```text
//! count          VLE     number of slices
//! per slice:     kind    u8: 0 raw, 1 segment of Eclipse Zenoh, 2 loan of zwire
//!                <u8;z>  the raw bytes, or the description
//! ```
//!
//! A loan (kind 2) is sent only on a link that has agreed on lending (`lending`); its description is
//!
//! ```text
//! loan, segment  VLE u32 each
//! offset, len    VLE u64 each, in bytes; len is not 0
//! ```
//!
//! A segment of Eclipse Zenoh (kind 1) is sent on a link that has agreed on shared memory with names (`link::named`), and
//! in multicast groups, which agree on nothing; its description is
//!
//! ```text
//! len            VLE u64, in bytes; not 0
//! metadata       VLE u16, number of the metadata segment
//! index          VLE u16, of the header in it
//! generation     VLE u32
//! ```
//!
//! Releases up to 1.1.1 have another one. It is decoded where the memory is read, so that a dissector keeps each.

use crate::{
    buf::{Reader, Sink, put_vle, put_zbytes},
    error::{DecodeErrorKind, Result},
    lending::LoanDescription,
    zenoh::{Payload, PayloadParts},
};
use bytes::Bytes;

/// The Unit extension that marks PUT and ERR payloads; mandatory. Only those of PUT change their form.
pub(super) const MARKER: u8 = 0x12;
/// The Unit extension in front of a QueryBody.
pub(super) const BODY_MARKER: u8 = 0x04;

const RAW: u8 = 0;
const FOREIGN: u8 = 1;
const LOAN: u8 = 2;

/// Longest slice with a loan: its kind, its length, the description.
const LONGEST_LOAN: usize = 1 + 1 + LoanDescription::LONGEST;

/// Bytes in a segment of Eclipse Zenoh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedDescription {
    /// Number of bytes, not 0.
    pub len: u64,
    /// Number of the metadata segment.
    pub metadata: u16,
    /// Number of the header in it.
    pub index: u16,
    /// How often the header was used before.
    pub generation: u32,
}

impl NamedDescription {
    /// The bytes of a slice.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        /// One number of 64 bits, two of 16, one of 32.
        const LONGEST: usize = 9 + 3 + 3 + 5;
        let mut out = Vec::with_capacity(LONGEST);
        for field in [self.len, self.metadata.into(), self.index.into(), self.generation.into()] {
            put_vle(&mut out, field);
        }
        out.into()
    }

    /// The description in a slice.
    ///
    /// # Errors
    /// It is that of a release up to 1.1.1, or no description.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let len = r.vle("segment length")?;
        if len == 0 {
            return Err(r.error("segment length", 0, DecodeErrorKind::Illegal { value: 0 }));
        }
        let metadata = r.z16("segment metadata")?;
        let index = r.z16("segment index")?;
        let generation = r.z32("segment generation")?;
        r.finish("segment")?;
        Ok(Self { len, metadata, index, generation })
    }
}

/// One slice of a payload in sliced form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadSlice {
    /// Bytes.
    Raw(Bytes),
    /// Bytes in a segment of the sender.
    Loan(LoanDescription),
    /// Bytes in a segment of Eclipse Zenoh: a [`NamedDescription`], not decoded.
    Foreign(Bytes),
}

impl PayloadSlice {
    /// Most slices of a payload that is decoded, each of which takes at least two bytes: payloads of more parts are sent
    /// as bytes.
    pub const MOST: usize = 256;

    /// The payload of a message that carries these slices.
    #[must_use]
    pub fn encode_all(slices: &[Self]) -> Payload {
        // The usual payload is one loan, in one piece of memory.
        let mut head = Vec::with_capacity(1 + slices.len() * LONGEST_LOAN);
        let mut parts = PayloadParts::default();
        put_vle(&mut head, slices.len() as u64);
        for slice in slices {
            match slice {
                Self::Raw(bytes) => {
                    head.put_u8(RAW);
                    put_vle(&mut head, bytes.len() as u64);
                    parts.push(core::mem::take(&mut head).into());
                    parts.push(bytes.clone());
                }
                Self::Loan(description) => {
                    head.put_u8(LOAN);
                    put_vle(&mut head, description.encoded_len() as u64);
                    description.encode(&mut head);
                }
                Self::Foreign(bytes) => {
                    head.put_u8(FOREIGN);
                    put_zbytes(&mut head, bytes);
                }
            }
        }
        if slices.iter().any(|slice| matches!(slice, Self::Raw(_))) {
            parts.push(head.into());
            return parts.finish();
        }
        Payload::from(head)
    }

    /// The slices of a payload that a message has carried.
    ///
    /// # Errors
    /// The payload is not in sliced form, or has more than [`Self::MOST`] slices.
    pub fn decode_all(payload: &Bytes) -> Result<Vec<Self>> {
        let mut r = Reader::new(payload);
        let count = r.count(Self::MOST, "payload slices")?;
        let mut slices = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = read_kind(&mut r, "payload slice")?;
            let bytes = r.zbytes(u64::from(u32::MAX), "payload slice")?;
            slices.push(match kind {
                RAW => Self::Raw(bytes),
                FOREIGN => Self::Foreign(bytes),
                _ => Self::Loan(LoanDescription::decode(&mut Reader::new(&bytes))?),
            });
        }
        r.finish("payload slices")?;
        Ok(slices)
    }
}

/// Handles the marker; `true` if the reader accepts shared memory.
pub(super) fn accept(r: &Reader<'_>, reading: &'static str) -> Result<bool> {
    if r.shared_memory() {
        Ok(true)
    } else {
        Err(r.error(reading, r.offset() - 1, DecodeErrorKind::SharedMemory))
    }
}

/// Kind of the next slice.
fn read_kind(r: &mut Reader<'_>, reading: &'static str) -> Result<u8> {
    let offset = r.offset();
    let kind = r.u8(reading)?;
    if kind > LOAN {
        return Err(r.error(reading, offset, DecodeErrorKind::UnknownId { id: kind }));
    }
    Ok(kind)
}

/// The whole sliced form, count included.
pub(super) fn read_slices(r: &mut Reader<'_>, reading: &'static str) -> Result<Bytes> {
    let mut ahead = r.clone();
    let count = ahead.count(usize::MAX, reading)?;
    for _ in 0..count {
        read_kind(&mut ahead, reading)?;
        let len = ahead.len(u64::from(u32::MAX), reading)?;
        ahead.slice(len, reading)?;
    }
    r.bytes(ahead.offset() - r.offset(), reading)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kind, unhex};
    use super::*;
    use proptest::prelude::*;

    const LOAN_7: LoanDescription = LoanDescription { loan: 7, segment: 1, offset: 4096, len: 100_000 };

    #[test]
    fn each_kind_of_slice() {
        let slices = [
            PayloadSlice::Raw(Bytes::from_static(b"ab")),
            PayloadSlice::Loan(LOAN_7),
            PayloadSlice::Foreign(unhex("bbb3 01")),
        ];
        let bytes = unhex("03 00 02 6162 02 07 07 01 8020 a08d06 01 03 bbb301");
        assert_eq!(PayloadSlice::encode_all(&slices), bytes);
        assert_eq!(PayloadSlice::decode_all(&bytes).as_deref(), Ok(&slices[..]));
        for cut in 0..bytes.len() {
            assert!(PayloadSlice::decode_all(&bytes.slice(..cut)).is_err(), "cut at {cut}");
        }
    }

    /// The description in a message of 1.10.2.
    #[test]
    fn a_segment_of_eclipse_zenoh() {
        let description = NamedDescription { len: 100_000, metadata: 22_971, index: 0, generation: 0 };
        assert_eq!(description.encode(), unhex("a08d06 bbb301 00 00"));
        assert_eq!(NamedDescription::decode(&description.encode()), Ok(description));
        for (hex, expected) in [
            ("00 00 00 00", DecodeErrorKind::Illegal { value: 0 }),
            ("01 00 00", DecodeErrorKind::Truncated { needed: 1 }),
            ("01 00 00 00 00", DecodeErrorKind::TrailingBytes { left: 1 }),
            ("01 808004 00 00", DecodeErrorKind::OutOfRange { value: 65_536, bound: 65_535 }),
        ] {
            assert_eq!(kind(NamedDescription::decode(&unhex(hex))), expected, "{hex}");
        }
    }

    #[test]
    fn malformed_slices_are_named() {
        for (hex, expected) in [
            ("01 02 04 07 01 00 00", DecodeErrorKind::Illegal { value: 0 }),
            ("01 02 05 07 01 00 01 00", DecodeErrorKind::TrailingBytes { left: 1 }),
            (
                "01 02 08 8080808010 01 00 01",
                DecodeErrorKind::OutOfRange { value: 1 << 32, bound: u32::MAX.into() },
            ),
            ("01 00 01 61 00", DecodeErrorKind::TrailingBytes { left: 1 }),
            ("02 00 00", DecodeErrorKind::Truncated { needed: 1 }),
            ("01 03 00", DecodeErrorKind::UnknownId { id: 3 }),
        ] {
            assert_eq!(kind(PayloadSlice::decode_all(&unhex(hex))), expected, "{hex}");
        }
        let many = [&unhex("8102")[..], &[0; 600]].concat();
        let bound = DecodeErrorKind::OutOfRange { value: 257, bound: 256 };
        assert_eq!(kind(PayloadSlice::decode_all(&many.into())), bound);
    }

    proptest! {
        #[test]
        fn loans_survive_the_wire(loan: u32, segment: u32, offset: u64, len in 1..=u64::MAX, raw in 0..9000_usize) {
            let slices = [
                PayloadSlice::Loan(LoanDescription { loan, segment, offset, len }),
                PayloadSlice::Raw(vec![7; raw].into()),
            ];
            let bytes = PayloadSlice::encode_all(&slices).into_bytes();
            let found = PayloadSlice::decode_all(&bytes);
            prop_assert_eq!(found.as_deref(), Ok(&slices[..]));
        }
    }
}
