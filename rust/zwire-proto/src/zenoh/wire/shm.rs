//! Payloads in shared memory, for recognition only (`zenoh-wire` 5.8).
//!
//! Links of zwire never negotiate shared memory, so receiving it is an error there. Members of a multicast group
//! negotiate nothing, and a group drops such a message alone. A dissector of other nodes' traffic keeps the
//! description unchanged: VLE count, then per slice a kind byte (0 raw, 1 pointer) and `<u8;z>`.

use crate::{
    buf::Reader,
    error::{DecodeErrorKind, Result},
};
use bytes::Bytes;

/// The Unit extension that marks PUT and ERR payloads; mandatory. Only those of PUT change their form.
pub(super) const MARKER: u8 = 0x12;
/// The Unit extension in front of a QueryBody.
pub(super) const BODY_MARKER: u8 = 0x04;

/// The larger of the two kinds of slices.
const POINTER: u8 = 1;

/// Handles the marker; `true` if the reader accepts shared memory.
pub(super) fn accept(r: &Reader<'_>, reading: &'static str) -> Result<bool> {
    if r.shared_memory() {
        Ok(true)
    } else {
        Err(r.error(reading, r.offset() - 1, DecodeErrorKind::SharedMemory))
    }
}

/// The whole sliced form, count included.
pub(super) fn read_slices(r: &mut Reader<'_>, reading: &'static str) -> Result<Bytes> {
    let mut ahead = r.clone();
    let count = ahead.count(usize::MAX, reading)?;
    for _ in 0..count {
        let offset = ahead.offset();
        let kind = ahead.u8(reading)?;
        if kind > POINTER {
            return Err(ahead.error(reading, offset, DecodeErrorKind::UnknownId { id: kind }));
        }
        let len = ahead.len(u64::from(u32::MAX), reading)?;
        ahead.slice(len, reading)?;
    }
    r.bytes(ahead.offset() - r.offset(), reading)
}
