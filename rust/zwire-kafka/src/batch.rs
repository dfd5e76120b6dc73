//! Batches of records, of version 2: rows are written into an answer once, and not copied again.
//!
//! ```text
//!  0  base offset (8)    8  length of what follows (4)   12  epoch of the leader, -1 (4)   16  version, 2 (1)
//! 17  crc32c of what follows (4)   21  attributes (2)   23  last offset - base offset (4)
//! 27  first time in ms (8)   35  greatest time (8)   43  producer: -1 (8), -1 (2), -1 (4)   57  records (4)
//!
//! record: length, attributes (1), time - first time, offset - base offset, key, value, headers
//! ```
//!
//! Numbers of a record are zigzag integers of variable length; a key or value of length -1 is null.

use bytes::BufMut as _;

const LENGTH: usize = 8;
const BODY: usize = 12;
const CRC: usize = 17;
const ATTRIBUTES: usize = 21;
const LAST_DELTA: usize = 23;
const MAX_TIME: usize = 35;
const COUNT: usize = 57;

/// Headers that a row may have.
pub(crate) const MAX_HEADERS: usize = 6;

/// A row as a record.
pub(crate) struct Record<'a> {
    pub(crate) offset: u64,
    /// Milliseconds since 1970.
    pub(crate) time: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a [(&'static str, &'a [u8])],
}

/// The batch at the end of an answer.
#[derive(Default)]
pub(crate) struct BatchWriter(Option<OpenBatch>);

struct OpenBatch {
    at: usize,
    base: u64,
    first_time: i64,
    max_time: i64,
    last: u64,
    records: i32,
}

impl BatchWriter {
    /// Appends a record. The next offset may be any greater one.
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let far = |batch: &OpenBatch| i32::try_from(record.offset - batch.base).is_err();
        if self.0.as_ref().is_some_and(|batch| far(batch) || batch.records == i32::MAX) {
            self.finish(out);
        }
        let batch = self.0.get_or_insert_with(|| begin(out, record));
        batch.max_time = batch.max_time.max(record.time);
        batch.last = record.offset;
        batch.records += 1;
        let times = zigzag(record.time.wrapping_sub(batch.first_time));
        let offsets = zigzag((record.offset - batch.base).cast_signed());
        let headers = zigzag_len(record.headers.len());
        let named = |(name, value): &(&str, &[u8])| field_len(Some(name.as_bytes())) + field_len(Some(value));
        let len = 1
            + varint_len(times)
            + varint_len(offsets)
            + field_len(record.key)
            + field_len(record.value)
            + varint_len(headers)
            + record.headers.iter().map(named).sum::<usize>();
        put_varint(out, zigzag_len(len));
        out.put_u8(0);
        put_varint(out, times);
        put_varint(out, offsets);
        put_field(out, record.key);
        put_field(out, record.value);
        put_varint(out, headers);
        for (name, value) in record.headers {
            put_field(out, Some(name.as_bytes()));
            put_field(out, Some(value));
        }
    }

    /// Completes the batch: lengths, counts and checksum.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "offsets are compared in `push`, answers have 31 bits"
    )]
    pub(crate) fn finish(&mut self, out: &mut [u8]) {
        let Some(batch) = self.0.take() else { return };
        let octets = &mut out[batch.at..];
        let len = (octets.len() - BODY) as u32;
        let mut set = |at: usize, value: &[u8]| octets[at..at + value.len()].copy_from_slice(value);
        set(LENGTH, &len.to_be_bytes());
        set(LAST_DELTA, &((batch.last - batch.base) as u32).to_be_bytes());
        set(MAX_TIME, &batch.max_time.to_be_bytes());
        set(COUNT, &batch.records.to_be_bytes());
        let crc = crc32c::crc32c(&octets[ATTRIBUTES..]);
        octets[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
    }
}

fn begin(out: &mut Vec<u8>, record: &Record<'_>) -> OpenBatch {
    let at = out.len();
    out.put_u64(record.offset);
    out.put_i32(0);
    out.put_i32(-1);
    out.put_u8(2);
    out.put_u32(0);
    out.put_i16(0);
    out.put_i32(0);
    out.put_i64(record.time);
    out.put_i64(record.time);
    out.put_i64(-1);
    out.put_i16(-1);
    out.put_i32(-1);
    out.put_i32(0);
    OpenBatch {
        at,
        base: record.offset,
        first_time: record.time,
        max_time: record.time,
        last: record.offset,
        records: 0,
    }
}

const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

/// A length as a zigzag integer; lengths of memory have fewer than 63 bits.
const fn zigzag_len(len: usize) -> u64 {
    (len as u64) << 1
}

const fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn field_len(octets: Option<&[u8]>) -> usize {
    octets.map_or(1, |octets| varint_len(zigzag_len(octets.len())) + octets.len())
}

fn put_field(out: &mut Vec<u8>, octets: Option<&[u8]>) {
    match octets {
        // -1
        None => out.put_u8(1),
        Some(octets) => {
            put_varint(out, zigzag_len(octets.len()));
            out.put_slice(octets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Four records as kafka-python 3.0 encodes them, which writes 0 as the epoch of the leader.
    const FOREIGN: &str = "00000000000000000000015effffffff022405831b00000000012c000001936cf7cf7b000001936cf7d2e8\
        ffffffffffffffffffffffffffff00000004580000000e726f626f742f3104383704086b696e640670757410656e636f64696e67\
        14746578742f706c61696e2c002d020e726f626f742f310102086b696e640664656c0e00da0d0a010000be0300da0dd804026b9003";

    fn octets(digits: &str) -> Vec<u8> {
        let digits: Vec<u8> = digits
            .bytes()
            .filter_map(|digit| (digit as char).to_digit(16).map(|digit| digit as u8))
            .collect();
        digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn records_are_those_of_another_implementation() {
        let mut expected = octets(FOREIGN);
        expected.extend([b'x'; 200]);
        expected.extend(octets("0212736f757263655f736e043132"));
        let mut out = b"before".to_vec();
        let mut batch = BatchWriter::default();
        let key = Some(&b"robot/1"[..]);
        for record in [
            Record {
                offset: 0,
                time: 1_732_700_000_123,
                key,
                value: Some(b"87"),
                headers: &[("kind", b"put"), ("encoding", b"text/plain")],
            },
            Record { offset: 1, time: 1_732_700_000_100, key, value: None, headers: &[("kind", b"del")] },
            Record { offset: 5, time: 1_732_700_001_000, key: None, value: Some(b""), headers: &[] },
            Record {
                offset: 300,
                time: 1_732_700_001_000,
                key: Some(b"k"),
                value: Some(&[b'x'; 200]),
                headers: &[("source_sn", b"12")],
            },
        ] {
            batch.push(&mut out, &record);
        }
        batch.finish(&mut out);
        assert_eq!(out[6..], expected);
    }

    #[test]
    fn offsets_that_are_far_apart_are_in_two_batches() {
        let mut out = Vec::new();
        let mut batch = BatchWriter::default();
        for offset in [7, 7 + (1 << 31)] {
            batch.push(&mut out, &Record { offset, time: 0, key: None, value: None, headers: &[] });
        }
        batch.finish(&mut out);
        let len = u32::from_be_bytes([out[8], out[9], out[10], out[11]]) as usize;
        assert_eq!(out[len + 12..][..8], (7 + (1u64 << 31)).to_be_bytes());
        assert_eq!(out.len(), 2 * (len + 12));
    }

    proptest! {
        #[test]
        fn lengths_are_those_of_what_is_written(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
        }
    }
}
