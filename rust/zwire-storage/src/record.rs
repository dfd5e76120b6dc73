//! Octets of an entry of the volume `disk`.
//!
//! ```text
//!  0       4       8                 24                26      27      28              32
//! +-------+-------+-----------------+-----------------+-------+-------+---------------+
//! | crc of| crc of| time   | clock  | encoding        | flags | schema| attachment    |
//! | head  | body  | u64    | 16     | u16             |       | u8    | u32           |
//! +-------+-------+-----------------+-----------------+-------+-------+---------------+
//! ```
//!
//! Little endian; offsets from the time on are those after 8 further octets. With [`OVER`] a second stamp follows:
//! the first is that of the key's own put, the second that of the value. Then the body: schema, attachment, payload.
//! Both checksums are CRC-32C. That of the head begins with the key, so that an entry under a wrong key is found.

use crate::rules::{Mark, Value};
use bytes::Bytes;
use zwire_proto::zenoh::{Encoding, Timestamp, ZenohId, timestamp::Ntp64};

const SCHEMA: u8 = 1;
const ATTACHMENT: u8 = 2;
const OVER: u8 = 4;

pub(crate) const STAMP: usize = 24;
const HEAD: usize = 8 + STAMP + 8;

/// Reason why octets are no entry.
pub(crate) type Flaw = &'static str;

pub(crate) fn write_stamp(out: &mut Vec<u8>, stamp: Timestamp) {
    out.extend_from_slice(&stamp.time.0.to_le_bytes());
    out.extend_from_slice(&stamp.id.to_le_bytes());
}

pub(crate) fn read_stamp(octets: &[u8]) -> Result<Timestamp, Flaw> {
    let (time, id) = octets.split_at_checked(8).ok_or("its stamp is cut")?;
    let time = Ntp64(u64::from_le_bytes(time.try_into().map_err(|_| "its stamp is cut")?));
    let id = id.get(..16).ok_or("its stamp is cut")?;
    let id = u128::from_le_bytes(id.try_into().map_err(|_| "its stamp is cut")?);
    Ok(Timestamp { time, id: ZenohId::new(id).ok_or("its clock has id 0")? })
}

fn crc(key: &str, head: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key.as_bytes()), head)
}

/// Writes an entry in place of the contents of `out`.
///
/// # Errors
/// A schema or an attachment that is longer than those of the wire.
pub(crate) fn write(
    out: &mut Vec<u8>,
    key: &str,
    put: Timestamp,
    stamp: Timestamp,
    value: &Value,
) -> Result<(), Flaw> {
    out.clear();
    let schema = value.encoding.schema.as_deref();
    let schema_len = u8::try_from(schema.map_or(0, |schema| schema.len()));
    let schema_len = schema_len.map_err(|_| "the schema of its encoding has more than 255 octets")?;
    let attachment_len = u32::try_from(value.attachment.as_ref().map_or(0, Bytes::len));
    let attachment_len = attachment_len.map_err(|_| "its attachment has 4 GiB or more")?;
    out.extend_from_slice(&[0; 8]);
    write_stamp(out, put);
    let mut flags = 0;
    for (given, flag) in
        [(schema.is_some(), SCHEMA), (value.attachment.is_some(), ATTACHMENT), (put != stamp, OVER)]
    {
        flags |= if given { flag } else { 0 };
    }
    out.extend_from_slice(&value.encoding.id.to_le_bytes());
    out.push(flags);
    out.push(schema_len);
    out.extend_from_slice(&attachment_len.to_le_bytes());
    if put != stamp {
        write_stamp(out, stamp);
    }
    let body = out.len();
    for part in [schema, value.attachment.as_ref(), Some(&value.payload)].into_iter().flatten() {
        out.extend_from_slice(part);
    }
    let of_body = crc32c::crc32c(&out[body..]);
    out[4..8].copy_from_slice(&of_body.to_le_bytes());
    let of_head = crc(key, &out[4..body]);
    out[..4].copy_from_slice(&of_head.to_le_bytes());
    Ok(())
}

/// Entry with a valid head.
pub(crate) struct Head<'a> {
    pub(crate) put: Timestamp,
    pub(crate) stamp: Timestamp,
    encoding: u16,
    flags: u8,
    schema: usize,
    attachment: usize,
    body_crc: u32,
    body: &'a [u8],
}

impl Head<'_> {
    pub(crate) const fn mark(&self) -> Mark {
        Mark::Live { put: self.put, stamp: self.stamp }
    }

    /// The value, after a check of its octets.
    pub(crate) fn value(&self) -> Result<Value, Flaw> {
        if crc32c::crc32c(self.body) != self.body_crc {
            return Err("its value has another checksum");
        }
        let (schema, rest) = self.body.split_at_checked(self.schema).ok_or("its schema is cut")?;
        let (attachment, payload) = rest.split_at_checked(self.attachment).ok_or("its attachment is cut")?;
        let given = |flag, octets: &[u8]| (self.flags & flag != 0).then(|| Bytes::copy_from_slice(octets));
        let encoding = Encoding { id: self.encoding, schema: given(SCHEMA, schema).map(Box::new) };
        Ok(Value {
            payload: Bytes::copy_from_slice(payload),
            encoding,
            attachment: given(ATTACHMENT, attachment),
        })
    }
}

/// Reads the head of an entry, and checks it.
pub(crate) fn read<'a>(key: &str, octets: &'a [u8]) -> Result<Head<'a>, Flaw> {
    let flags = *octets.get(HEAD - 6).ok_or("its head is cut")?;
    let len = if flags & OVER == 0 { HEAD } else { HEAD + STAMP };
    let (head, body) = octets.split_at_checked(len).ok_or("its head is cut")?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if crc(key, &head[4..]) != word(0) {
        return Err("its head has another checksum");
    }
    let put = read_stamp(&head[8..])?;
    Ok(Head {
        put,
        stamp: if flags & OVER == 0 { put } else { read_stamp(&head[HEAD..])? },
        encoding: u16::from_le_bytes([head[HEAD - 8], head[HEAD - 7]]),
        flags,
        schema: usize::from(head[HEAD - 5]),
        attachment: word(HEAD - 4) as usize,
        body_crc: word(4),
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(time: u64, id: u128) -> Timestamp {
        Timestamp { time: Ntp64(time), id: ZenohId::new(id).unwrap() }
    }

    fn values() -> [Value; 3] {
        let text = Value { payload: Bytes::from_static(b"hello"), ..Value::default() };
        let full = Value {
            encoding: Encoding::from_text("application/json;v=1"),
            attachment: Some(Bytes::from_static(b"who")),
            ..text.clone()
        };
        [text, full, Value { attachment: Some(Bytes::new()), ..Value::default() }]
    }

    #[test]
    fn an_entry_comes_back() {
        for value in values() {
            for over in [stamp(7, 0x33), stamp(9, 0xab)] {
                let mut octets = vec![1, 2, 3];
                write(&mut octets, "a/b", stamp(7, 0x33), over, &value).unwrap();
                let head = read("a/b", &octets).unwrap();
                assert_eq!((head.put, head.stamp), (stamp(7, 0x33), over));
                assert_eq!(head.value().unwrap(), value);
            }
        }
    }

    #[test]
    fn a_schema_that_does_not_fit_is_refused() {
        let long = |len: usize| Value {
            encoding: Encoding { id: 0, schema: Some(Box::new(Bytes::from(vec![b's'; len]))) },
            ..Value::default()
        };
        let mut octets = Vec::new();
        write(&mut octets, "a", stamp(7, 1), stamp(7, 1), &long(255)).unwrap();
        assert_eq!(read("a", &octets).unwrap().value().unwrap(), long(255));
        assert!(write(&mut octets, "a", stamp(7, 1), stamp(7, 1), &long(256)).is_err());
    }

    #[test]
    fn each_flipped_bit_and_each_other_key_is_found() {
        let mut octets = Vec::new();
        let [_, value, _] = values();
        write(&mut octets, "a/b", stamp(7, 0x33), stamp(9, 0x33), &value).unwrap();
        assert!(read("a/c", &octets).is_err());
        for bit in 0..octets.len() * 8 {
            let mut flipped = octets.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read("a/b", &flipped).and_then(|head| head.value()).is_err(), "bit {bit}");
        }
        for len in 0..octets.len() {
            assert!(read("a/b", &octets[..len]).and_then(|head| head.value()).is_err(), "{len} octets");
        }
    }
}
