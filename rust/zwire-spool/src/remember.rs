//! Last sequence numbers of publishers, stored for the next writer.
//!
//! Rows contain the last number of each publisher, but reading all of them takes too long. So a writer
//! stores the numbers in a file, together with the offsets up to which they include every row; later rows
//! are read. The file is a cache: if it is missing or damaged, only the last rows are used.
//!
//! ```text
//! "ZWIRPUBS" | spool id | parts | parts x (shards | shards x offset | publishers | publishers x publisher) | crc32c
//! publisher: id of the node, 16 octets | number of the entity | number of its last sample
//! ```

use crate::{
    consumers::Offsets,
    error::{Error, Result},
    head::SpoolId,
    meta::write_private,
    reader::Spool,
    writer::Writer,
};
use bytes::Buf as _;
use std::fs;

const NAME: &str = "publishers";
const MAGIC: &[u8; 8] = b"ZWIRPUBS";
const MAX_PUBLISHERS: usize = 131_072;
/// Most parts that are stored: a writer has one for each of its threads.
const MAX_PARTS: usize = 4096;
const MAX_FILE: u64 = 64 << 20;

/// Last sequence number of a publisher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastNumber {
    /// Id of its node, as a little-endian number of 128 bits.
    pub zid: [u8; 16],
    /// Number of the entity within the node.
    pub eid: u32,
    /// The sequence number.
    pub sn: u32,
}

/// Numbers known when all rows before some offsets had been written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Remembered {
    /// The offsets, by shard.
    pub offsets: Offsets,
    /// Last numbers of the publishers.
    pub publishers: Vec<LastNumber>,
}

fn encode(id: &SpoolId, parts: &[Remembered]) -> Vec<u8> {
    let mut octets = Vec::new();
    octets.extend_from_slice(MAGIC);
    octets.extend_from_slice(id);
    let parts = &parts[..parts.len().min(MAX_PARTS)];
    octets.extend_from_slice(&(parts.len() as u32).to_le_bytes());
    let mut room = MAX_PUBLISHERS;
    for part in parts {
        octets.extend_from_slice(&(part.offsets.len() as u32).to_le_bytes());
        for (shard, offset) in &part.offsets {
            octets.extend_from_slice(&shard.to_le_bytes());
            octets.extend_from_slice(&offset.to_le_bytes());
        }
        let publishers = &part.publishers[..part.publishers.len().min(room)];
        room -= publishers.len();
        octets.extend_from_slice(&(publishers.len() as u32).to_le_bytes());
        for LastNumber { zid, eid, sn } in publishers {
            octets.extend_from_slice(zid);
            octets.extend_from_slice(&eid.to_le_bytes());
            octets.extend_from_slice(&sn.to_le_bytes());
        }
    }
    octets.extend_from_slice(&crc32c::crc32c(&octets).to_le_bytes());
    octets
}

fn decode(id: &SpoolId, octets: &[u8]) -> Option<Vec<Remembered>> {
    let (octets, crc) = octets.split_last_chunk()?;
    if crc32c::crc32c(octets).to_le_bytes() != *crc {
        return None;
    }
    let mut rest = octets.strip_prefix(MAGIC)?.strip_prefix(id)?;
    let mut parts = Vec::new();
    for _ in 0..rest.try_get_u32_le().ok()? {
        let mut part = Remembered::default();
        for _ in 0..rest.try_get_u32_le().ok()? {
            part.offsets.insert(rest.try_get_u32_le().ok()?, rest.try_get_u64_le().ok()?);
        }
        for _ in 0..rest.try_get_u32_le().ok()? {
            let mut zid = [0; 16];
            rest.try_copy_to_slice(&mut zid).ok()?;
            let (eid, sn) = (rest.try_get_u32_le().ok()?, rest.try_get_u32_le().ok()?);
            part.publishers.push(LastNumber { zid, eid, sn });
        }
        parts.push(part);
    }
    rest.is_empty().then_some(parts)
}

impl Writer {
    /// Stores the numbers of publishers for the next writer. Replaces the file atomically, without waiting
    /// for the disk: after a power failure it may be missing or damaged.
    pub fn remember(&self, parts: &[Remembered]) -> Result<()> {
        let path = self.dir.join(NAME);
        let draft = path.with_extension("new");
        let written = write_private(&draft, &encode(&self.meta().id, parts));
        written.and_then(|_| fs::rename(&draft, &path)).map_err(Error::io("write", path))
    }
}

impl Spool {
    /// Numbers stored by the last writer; empty if there are none that can be read.
    pub fn remembered(&self) -> Vec<Remembered> {
        let Some(dir) = &self.dir else { return Vec::new() };
        let path = dir.join(NAME);
        if !fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= MAX_FILE) {
            return Vec::new();
        }
        let octets = fs::read(&path).unwrap_or_default();
        decode(&self.meta().id, &octets).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{LastNumber, Remembered, decode, encode};

    fn parts() -> Vec<Remembered> {
        let number = |n: u32| LastNumber { zid: [n as u8; 16], eid: n, sn: u32::MAX - n };
        vec![
            Remembered { offsets: [(0, 7), (3, u64::MAX)].into(), publishers: (0..3).map(number).collect() },
            Remembered::default(),
        ]
    }

    #[test]
    fn what_is_left_is_found() {
        let octets = encode(&[9; 16], &parts());
        assert_eq!(decode(&[9; 16], &octets), Some(parts()));
        assert_eq!(decode(&[8; 16], &octets), None);
        assert_eq!(decode(&[9; 16], &encode(&[9; 16], &[])), Some(Vec::new()));
    }

    #[test]
    fn what_is_cut_or_changed_is_nothing() {
        let octets = encode(&[9; 16], &parts());
        for end in 0..octets.len() {
            assert_eq!(decode(&[9; 16], &octets[..end]), None);
            let mut changed = octets.clone();
            changed[end] ^= 0x10;
            assert_eq!(decode(&[9; 16], &changed), None);
        }
    }

    #[test]
    fn counts_that_promise_more_than_there_is_are_refused() {
        let mut octets = encode(&[9; 16], &parts());
        octets.truncate(octets.len() - 4);
        for at in (24..octets.len()).step_by(4) {
            let mut changed = octets.clone();
            changed[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            changed.extend_from_slice(&crc32c::crc32c(&changed).to_le_bytes());
            // No panic, and no allocation beyond the size of the input.
            decode(&[9; 16], &changed);
        }
    }
}
