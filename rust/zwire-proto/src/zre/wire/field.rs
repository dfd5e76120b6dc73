//! Strings, lists and dictionaries (`zre` 8).
//!
//! ```text
//!            20/ZRE                              zyre 1.0.0, 36/ZRE, 43/ZRE
//! strings    count(1), { length(1), octets }*    count(4), { length(4), octets }*
//! dictionary count(1), { length(1), name=value}* count(4), { length(1), name, length(4), value }*
//! ```

use super::{
    super::{Generation, limits},
    EncodeError,
};
use crate::{
    buf::{Reader, Sink},
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;

pub(super) type Encoded = core::result::Result<(), EncodeError>;

const GROUPS: &str = "HELLO groups";
const HEADERS: &str = "HELLO headers";

/// Names and values of headers, in the order of the wire; a name may come twice.
pub(super) type Dictionary = Vec<(Bytes, Bytes)>;

/// Reads a number that has only one legal value.
pub(super) fn expect<'a, T: PartialEq + Into<u64>>(
    r: &mut Reader<'a>,
    expected: T,
    read: impl FnOnce(&mut Reader<'a>, &'static str) -> Result<T>,
    reading: &'static str,
) -> Result<()> {
    let offset = r.offset();
    let value = read(r, reading)?;
    if value == expected {
        return Ok(());
    }
    Err(r.error(reading, offset, DecodeErrorKind::Illegal { value: value.into() }))
}

/// A length of one octet, then octets.
pub(super) fn string(r: &mut Reader<'_>, reading: &'static str) -> Result<Bytes> {
    let len = r.u8(reading)?;
    r.bytes(usize::from(len), reading)
}

/// A length of four octets, then at most `bound` octets.
pub(super) fn long_string(r: &mut Reader<'_>, bound: usize, reading: &'static str) -> Result<Bytes> {
    let offset = r.offset();
    let len = r.u32_be(reading)? as usize;
    if len > bound {
        let kind = DecodeErrorKind::OutOfRange { value: len as u64, bound: bound as u64 };
        return Err(r.error(reading, offset, kind));
    }
    r.bytes(len, reading)
}

/// A count of entries that take at least `smallest` octets each, bounded before memory is taken.
fn count(
    r: &mut Reader<'_>,
    generation: Generation,
    smallest: usize,
    bound: usize,
    reading: &'static str,
) -> Result<usize> {
    let offset = r.offset();
    let value = match generation {
        Generation::Rfc20 => usize::from(r.u8(reading)?),
        _ => r.u32_be(reading)? as usize,
    };
    if value > bound {
        let kind = DecodeErrorKind::OutOfRange { value: value as u64, bound: bound as u64 };
        return Err(r.error(reading, offset, kind));
    }
    let (needed, there) = (value * smallest, r.remaining());
    if needed > there {
        return Err(r.error(reading, offset, DecodeErrorKind::Truncated { needed: needed - there }));
    }
    Ok(value)
}

pub(super) fn groups(r: &mut Reader<'_>, generation: Generation) -> Result<Vec<Bytes>> {
    let reading = GROUPS;
    let legacy = generation == Generation::Rfc20;
    let count = count(r, generation, if legacy { 1 } else { 4 }, limits::MAX_GROUPS, reading)?;
    (0..count)
        .map(|_| if legacy { string(r, reading) } else { long_string(r, limits::MAX_LONG_STRING, reading) })
        .collect()
}

pub(super) fn headers(r: &mut Reader<'_>, generation: Generation) -> Result<Dictionary> {
    let reading = HEADERS;
    let legacy = generation == Generation::Rfc20;
    let count = count(r, generation, if legacy { 1 } else { 5 }, limits::MAX_HEADERS, reading)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        if legacy {
            let entry = string(r, reading)?;
            // "split at the first `=`; no `=`: ignore the entry" (`zre` 16.6).
            if let Some(at) = entry.iter().position(|octet| *octet == b'=') {
                entries.push((entry.slice(..at), entry.slice(at + 1..)));
            }
        } else {
            let name = string(r, reading)?;
            entries.push((name, long_string(r, limits::MAX_LONG_STRING, reading)?));
        }
    }
    Ok(entries)
}

/// Checks for UTF-8 without zero octets, within the bound.
fn check(octets: &[u8], bound: usize, field: &'static str) -> Encoded {
    if octets.len() > bound {
        return Err(EncodeError::TooLong { field, len: octets.len(), bound });
    }
    if octets.contains(&0) || core::str::from_utf8(octets).is_err() {
        return Err(EncodeError::NotText { field });
    }
    Ok(())
}

#[allow(clippy::cast_possible_truncation, reason = "checked in the line before")]
pub(super) fn put_string(sink: &mut impl Sink, octets: &[u8], field: &'static str) -> Encoded {
    check(octets, limits::MAX_STRING, field)?;
    sink.put_u8(octets.len() as u8);
    sink.put(octets);
    Ok(())
}

/// Writes the name of a group or a node, which must not be empty.
pub(super) fn put_name(sink: &mut impl Sink, octets: &[u8], field: &'static str) -> Encoded {
    if octets.is_empty() {
        return Err(EncodeError::Empty { field });
    }
    put_string(sink, octets, field)
}

#[allow(clippy::cast_possible_truncation, reason = "checked in the line before")]
pub(super) fn put_long_string(
    sink: &mut impl Sink,
    octets: &[u8],
    bound: usize,
    field: &'static str,
) -> Encoded {
    check(octets, bound, field)?;
    sink.put(&(octets.len() as u32).to_be_bytes());
    sink.put(octets);
    Ok(())
}

#[allow(clippy::cast_possible_truncation, reason = "checked before")]
fn put_count(
    sink: &mut impl Sink,
    generation: Generation,
    count: usize,
    bound: usize,
    field: &'static str,
) -> Encoded {
    let bound = if generation == Generation::Rfc20 { bound.min(usize::from(u8::MAX)) } else { bound };
    if count > bound {
        return Err(EncodeError::TooMany { field, count, bound });
    }
    match generation {
        Generation::Rfc20 => sink.put_u8(count as u8),
        _ => sink.put(&(count as u32).to_be_bytes()),
    }
    Ok(())
}

/// Writes the groups of a HELLO, with the same rules as in JOIN.
pub(super) fn put_groups(sink: &mut impl Sink, generation: Generation, list: &[Bytes]) -> Encoded {
    let field = GROUPS;
    put_count(sink, generation, list.len(), limits::MAX_GROUPS, field)?;
    for octets in list {
        match generation {
            _ if octets.is_empty() => return Err(EncodeError::Empty { field }),
            Generation::Rfc20 => put_string(sink, octets, field)?,
            _ => put_long_string(sink, octets, limits::MAX_STRING, field)?,
        }
    }
    Ok(())
}

pub(super) fn put_headers(sink: &mut impl Sink, generation: Generation, entries: &Dictionary) -> Encoded {
    let field = HEADERS;
    put_count(sink, generation, entries.len(), limits::MAX_HEADERS, field)?;
    for (name, value) in entries {
        if name.is_empty() {
            return Err(EncodeError::Empty { field });
        }
        if generation != Generation::Rfc20 {
            put_string(sink, name, field)?;
            put_long_string(sink, value, limits::MAX_LONG_STRING, field)?;
            continue;
        }
        if name.contains(&b'=') {
            return Err(EncodeError::HeaderName { generation });
        }
        let entry = [&name[..], b"=", value].concat();
        check(&entry, limits::MAX_HEADER_ENTRY, field)?;
        put_string(sink, &entry, field)?;
    }
    Ok(())
}

pub(super) fn content_of(frames: &[Bytes], reading: &'static str) -> Result<Vec<Bytes>> {
    let (value, bound) = (frames.len() as u64, limits::MAX_CONTENT_FRAMES as u64);
    if value > bound {
        let kind = DecodeErrorKind::OutOfRange { value, bound };
        return Err(crate::DecodeError { reading, offset: 0, kind });
    }
    Ok(frames.to_vec())
}

/// Checks for at least one frame, and no more than the generation allows.
pub(super) fn check_content(generation: Generation, frames: &[Bytes], message: &'static str) -> Encoded {
    match frames.len() {
        0 => Err(EncodeError::NoContent { message }),
        1 => Ok(()),
        frames if generation == Generation::Rfc20 => Err(EncodeError::MultiFrame { generation, frames }),
        count if count > limits::MAX_CONTENT_FRAMES => {
            Err(EncodeError::TooMany { field: message, count, bound: limits::MAX_CONTENT_FRAMES })
        }
        _ => Ok(()),
    }
}
