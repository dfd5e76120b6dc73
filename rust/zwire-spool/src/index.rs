//! Index of a segment: the list of its blocks, in a file beside it.
//!
//! The index is a cache: missing or damaged entries are found again by scanning the segment. One entry
//! has 64 octets:
//!
//! ```text
//!  0  position   8  length   16  first offset   24  least recv_ts   32  greatest recv_ts
//! 40  rows      44  crc32c of the block   48  octets of its head   52  0 0 0 0 0 0 0 0   60  crc32c of all before
//! ```

use crate::{
    block::Trailer,
    error::{Error, Result},
    read_at::{ReadAt, read_exactly},
    slots::{seal, sealed},
};
use bytes::Buf as _;
use std::path::Path;

pub(crate) const ENTRY: usize = 64;
/// Most entries: 256 MiB of blocks of 64 octets would be 4 million.
const MAX_ENTRIES: u64 = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) first: u64,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    pub(crate) rows: u32,
    pub(crate) crc: u32,
    /// Octets before its body.
    pub(crate) head: u32,
}

impl Entry {
    pub(crate) const fn new(at: u64, head: u32, trailer: &Trailer) -> Self {
        Self {
            at,
            len: trailer.len,
            first: trailer.first,
            min_time: trailer.min_time,
            max_time: trailer.max_time,
            rows: trailer.rows,
            crc: trailer.crc,
            head,
        }
    }

    /// Offset after its last row.
    pub(crate) const fn end(&self) -> u64 {
        self.first.saturating_add(self.rows as u64)
    }

    pub(crate) fn encode(&self) -> [u8; ENTRY] {
        let mut out = [0; ENTRY];
        out[..8].copy_from_slice(&self.at.to_le_bytes());
        out[8..16].copy_from_slice(&self.len.to_le_bytes());
        out[16..24].copy_from_slice(&self.first.to_le_bytes());
        out[24..32].copy_from_slice(&self.min_time.to_le_bytes());
        out[32..40].copy_from_slice(&self.max_time.to_le_bytes());
        out[40..44].copy_from_slice(&self.rows.to_le_bytes());
        out[44..48].copy_from_slice(&self.crc.to_le_bytes());
        out[48..52].copy_from_slice(&self.head.to_le_bytes());
        seal(&mut out);
        out
    }

    /// Decodes an entry; `None` if its checksum is wrong.
    pub(crate) fn decode(octets: &[u8; ENTRY]) -> Option<Self> {
        let mut fields = &octets[..];
        sealed(octets).then(|| Self {
            at: fields.get_u64_le(),
            len: fields.get_u64_le(),
            first: fields.get_u64_le(),
            min_time: fields.get_i64_le(),
            max_time: fields.get_i64_le(),
            rows: fields.get_u32_le(),
            crc: fields.get_u32_le(),
            head: fields.get_u32_le(),
        })
    }
}

/// Appends complete, contiguous entries that were added to a file; `start` and `base` are of its first.
pub(crate) fn read_more(
    file: &dyn ReadAt,
    path: &Path,
    start: u64,
    base: u64,
    entries: &mut Vec<Entry>,
) -> Result<()> {
    let there = (file.len().map_err(Error::io("read", path))? / ENTRY as u64).min(MAX_ENTRIES);
    let known = entries.len() as u64;
    if there <= known {
        return Ok(());
    }
    let octets = read_exactly(file, path, known * ENTRY as u64, (there - known) as usize * ENTRY)?;
    let (mut at, mut next) = entries.last().map_or((start, base), |last| (last.at + last.len, last.end()));
    for octets in octets.as_chunks::<ENTRY>().0 {
        let Some(entry) = Entry::decode(octets) else { break };
        if entry.at != at || entry.first != next || entry.rows == 0 {
            break;
        }
        at = at.saturating_add(entry.len);
        next = entry.end();
        entries.push(entry);
    }
    Ok(())
}
