//! Segments: Arrow files with the blocks of a range of offsets.

use crate::{
    block::{TRAILER, Trailer, verify},
    error::{Error, Result},
    head::{CONTINUATION, Head, hex},
    index::Entry,
    layout::{Layout, Shard},
    read_at::{ReadAt, names, read_aligned, read_exactly},
};
use arrow_buffer::Buffer;
use arrow_ipc::root_as_message;
use std::path::{Path, PathBuf};

/// File name extensions of segments, and of their indexes.
pub(crate) const ENDING: &str = "arrow";
pub(crate) const INDEX_ENDING: &str = "idx";

/// Longest block: a column has less than 2 GiB, and at most one column of a row is that long.
const MAX_BLOCK: u64 = 4 << 30;
/// Longest head of a block: less than 100 octets for each column.
const MAX_BLOCK_HEAD: u32 = 64 << 10;

pub(crate) fn name(base: u64) -> String {
    format!("{base:020}.{ENDING}")
}

pub(crate) fn base(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(ENDING)?.strip_suffix('.')?;
    (digits.len() == 20 && digits.bytes().all(|c| c.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// First offsets of all segments in a folder, ascending. Empty if the folder does not exist.
pub(crate) fn bases(folder: &Path) -> Result<Vec<u64>> {
    let mut found: Vec<u64> = names(folder)?.iter().filter_map(|name| base(name)).collect();
    found.sort_unstable();
    Ok(found)
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A block, not verified yet: its length, and the length of the part before its body.
    Block(u64, u32),
    /// The end of a sealed segment.
    Sealed,
    End,
    /// Data that is not a complete block.
    Broken(String),
}

pub(crate) struct Segment<R> {
    pub(crate) file: R,
    pub(crate) path: PathBuf,
    pub(crate) head: Head,
    /// Position of the first block.
    pub(crate) start: u64,
}

impl<R: ReadAt> Segment<R> {
    /// Reads and verifies the head. `Ok(None)`: the file is shorter than a head.
    pub(crate) fn new(file: R, path: PathBuf, layout: &Layout) -> Result<Option<Self>> {
        let Some((head, start)) = Head::read(&file, &path, layout)? else { return Ok(None) };
        Ok(Some(Self { file, path, head, start }))
    }

    /// Checks that the segment belongs to a spool, shard and position.
    pub(crate) fn belongs(&self, spool: &[u8; 16], shard: Shard, base: u64) -> Result<()> {
        let differs = |problem: String| Err(Error::Mismatch { path: self.path.clone(), problem });
        if self.head.spool != *spool {
            return differs(format!("a segment of spool {}, not of {}", hex(&self.head.spool), hex(spool)));
        }
        if self.head.shard != shard || self.head.base != base {
            return differs(format!(
                "a segment of {}, offset {}, not of {shard}, offset {base}",
                self.head.shard, self.head.base
            ));
        }
        Ok(())
    }

    pub(crate) fn look(&self, at: u64) -> Result<Found> {
        let total = self.file.len().map_err(Error::io("read", &*self.path))?;
        let broken = |problem: &str| Ok(Found::Broken(problem.to_owned()));
        if at >= total {
            return Ok(Found::End);
        }
        if total - at < 8 {
            return broken("a block that was cut off");
        }
        let start = read_exactly(&self.file, &self.path, at, 8)?;
        let len = u32::from_le_bytes([start[4], start[5], start[6], start[7]]);
        if start[..4] != CONTINUATION || len % 8 != 0 || len > MAX_BLOCK_HEAD {
            return broken("no block where one should begin");
        }
        if len == 0 {
            return Ok(Found::Sealed);
        }
        let body = at + 8 + u64::from(len);
        if body > total {
            return broken("a block that was cut off");
        }
        let head = read_exactly(&self.file, &self.path, at + 8, len as usize)?;
        let Ok(message) = root_as_message(&head) else {
            return broken("the head of a block is not a message");
        };
        let body_len = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        if !(TRAILER as u64..=MAX_BLOCK).contains(&body_len) {
            return broken("the head of a block has a wrong length");
        }
        if total - body < body_len {
            return broken("a block that was cut off");
        }
        Ok(Found::Block(8 + u64::from(len) + body_len, 8 + len))
    }

    /// Octets of a block, not verified.
    pub(crate) fn octets(&self, at: u64, len: u64) -> Result<Buffer> {
        read_aligned(&self.file, &self.path, at, len as usize)
    }

    pub(crate) fn block(&self, at: u64, len: u64) -> Result<core::result::Result<(Buffer, Trailer), String>> {
        let octets = self.octets(at, len)?;
        Ok(verify(&octets, self.head.shard).map(|trailer| (octets, trailer)))
    }

    /// Verifies blocks from a position and offset on, until something else follows, which is returned
    /// too.
    pub(crate) fn scan(
        &self,
        mut at: u64,
        mut next: u64,
        each: &mut dyn FnMut(Entry, &Buffer),
    ) -> Result<(u64, u64, Found)> {
        loop {
            let (len, head) = match self.look(at)? {
                Found::Block(len, head) => (len, head),
                other => return Ok((at, next, other)),
            };
            let (octets, trailer) = match self.block(at, len)? {
                Ok(block) => block,
                Err(problem) => return Ok((at, next, Found::Broken(problem))),
            };
            if trailer.first != next {
                let problem = format!("a block that begins at offset {} and not at {next}", trailer.first);
                return Ok((at, next, Found::Broken(problem)));
            }
            each(Entry::new(at, head, &trailer), &octets);
            at += len;
            next = trailer.end();
        }
    }
}
