//! The writer of one shard.

use crate::{
    block::BlockBuilder,
    column::Value,
    describe::summed,
    error::{Error, Result},
    head::{Head, SpoolId, format_of},
    index::Entry,
    keys::KeyCollector,
    layout::{Layout, Shard},
    listing::Listing,
    meta::{private, sync_folder},
    pack::Compression,
    retain::{Kept, Tiering, delete_segment},
    sealed::Sealed,
    segment::{INDEX_ENDING, name},
    slots::Record,
};
use arrow_ipc::Block as FooterBlock;
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, IoSlice, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Number of offsets reserved at once. A power failure may skip this many; offsets have 63 bits.
const RESERVE: u64 = 1 << 24;
/// Most slices that the kernel takes in one call.
const MAX_SLICES: usize = 1024;

/// Condition for written rows to become visible to readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Visible as soon as the kernel has them: they survive a crash of the writer, not of the machine.
    #[default]
    Os,
    /// Visible when they are on disk.
    Disk,
}

/// Test hook: number of the given octets that fit on a simulated disk.
pub type Room = Arc<dyn Fn(&Path, usize) -> usize + Send + Sync>;

/// Sizes of segments and blocks.
#[derive(Clone)]
pub struct Options {
    /// Condition for written rows to become visible to readers.
    pub durability: Durability,
    /// Size in octets at which a segment is sealed.
    pub segment_bytes: u64,
    /// Age in microseconds at which a segment is sealed.
    pub segment_micros: i64,
    /// Size in octets at which a block is written.
    pub block_bytes: usize,
    /// Number of rows at which a block is written.
    pub block_rows: u32,
    /// Compression of blocks.
    pub compression: Compression,
    /// Simulated room on the disk; `None` for the real one.
    #[doc(hidden)]
    pub room: Option<Room>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Os,
            segment_bytes: 256 << 20,
            segment_micros: 600_000_000,
            // Large enough that its head weighs little, small enough that little is lost with it.
            block_bytes: 1 << 20,
            block_rows: 32_768,
            compression: Compression::None,
            room: None,
        }
    }
}

/// Published state of a shard, readable without opening a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// First existing offset.
    pub earliest: u64,
    /// Offset after the last.
    pub end: u64,
    /// Offset after the last row: offsets from here to `end` are not used.
    pub rows_to: u64,
    /// Receive time of the last row, in microseconds since 1970.
    pub last_time: i64,
    /// Number of messages that were dropped on the way to this shard.
    pub drops: u64,
    /// Size of its segments in octets.
    pub bytes: u64,
}

impl Mark {
    pub(crate) const fn encode(&self) -> [u64; 6] {
        [self.earliest, self.end, self.rows_to, self.last_time.cast_unsigned(), self.drops, self.bytes]
    }

    pub(crate) const fn decode(values: [u64; 6]) -> Self {
        let [earliest, end, rows_to, last_time, drops, bytes] = values;
        Self { earliest, end, rows_to, last_time: last_time.cast_signed(), drops, bytes }
    }
}

/// Segment that is being written.
pub(crate) struct Open {
    file: File,
    path: PathBuf,
    /// Index of the segment; `None` after a write to it has failed.
    index: Option<File>,
    head: Head,
    len: u64,
    entries: Vec<Entry>,
    /// Keys of its rows, if they have some.
    keys: Option<KeyCollector>,
    since: i64,
}

impl Open {
    fn describe(&self) -> Sealed {
        Sealed { bytes: self.len, ..summed(self.head.base, &self.entries, self.keys.as_ref()) }
    }
}

/// Writer of one shard. Rows are collected in a block, blocks are appended to the open segment.
pub struct ShardWriter {
    pub(crate) shard: Shard,
    pub(crate) folder: PathBuf,
    pub(crate) id: SpoolId,
    pub(crate) layout: Layout,
    pub(crate) epoch: u32,
    pub(crate) options: Options,
    pub(crate) block: BlockBuilder,
    /// Offset after the last block.
    pub(crate) next: u64,
    /// End of the last segment.
    pub(crate) follows: u64,
    pub(crate) reserved: u64,
    /// First offset that rows may not have.
    pub(crate) limit: u64,
    pub(crate) ahead: Record,
    pub(crate) marks: Record,
    /// Published state, except for `end`.
    pub(crate) mark: Mark,
    pub(crate) kept: VecDeque<Kept>,
    pub(crate) listing: Listing,
    pub(crate) tiering: Tiering,
    /// Whether the mark of the last writer was there.
    pub(crate) remembered: bool,
    pub(crate) open: Option<Open>,
}

impl ShardWriter {
    /// Shard that it writes.
    pub const fn shard(&self) -> Shard {
        self.shard
    }

    /// Columns of the shard.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Offset of the next row.
    pub const fn next_offset(&self) -> u64 {
        self.next + self.block.rows() as u64
    }

    /// Published state of the shard.
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// Octets of the columns in all blocks that this writer has made, before compression and after it.
    pub const fn sizes(&self) -> (u64, u64) {
        self.block.sizes()
    }

    /// Whether the block should be written before the next row is added.
    pub const fn is_full(&self) -> bool {
        self.block.bytes() >= self.options.block_bytes || self.block.rows() >= self.options.block_rows
    }

    /// Whether no row waits in the block or in a segment that is not complete.
    pub const fn is_empty(&self) -> bool {
        self.block.rows() == 0 && self.open.is_none()
    }

    /// Appends a row, one value for each column of the layout; the values of columns for offset and shard
    /// are filled in here. The row is written by [`Self::flush`]. Fails with [`Error::Row`] if the row
    /// cannot be stored.
    pub fn push(&mut self, row: &[Value<'_>]) -> Result<()> {
        if self.next_offset() >= self.limit {
            let problem =
                format!("the store has not taken rows for so long that offset {} is the limit", self.limit);
            return Err(Error::Row { shard: self.shard, column: "offset", problem });
        }
        self.block.push(row, self.next_offset())
    }

    /// Counts dropped messages. The number is published with the next block.
    pub const fn count_drops(&mut self, drops: u64) {
        self.mark.drops += drops;
    }

    /// Writes the rows as a block, at a time in microseconds since 1970. With [`Durability::Os`] they are
    /// visible now, otherwise after [`Self::sync`]. After an error the rows are kept, so that the call
    /// can be repeated.
    pub fn flush(&mut self, now: i64) -> Result<()> {
        if self.block.rows() == 0 {
            // The last call may have failed after writing the block and before publishing it.
            let late = self.options.durability == Durability::Os && self.unpublished();
            return if late { self.publish() } else { Ok(()) };
        }
        let end = self.next_offset();
        if end > self.reserved {
            let reserved = end + RESERVE;
            self.ahead.write([reserved, 0, 0, 0, 0, 0])?;
            self.ahead.sync()?;
            self.reserved = reserved;
        }
        if self.is_due(now) {
            self.seal()?;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin(now)?,
        };
        let written = self.write_block(&mut open);
        // If the incomplete block cannot be cut off, the segment takes no more blocks.
        if written.is_ok() || self.rewind(&mut open).is_ok() {
            self.open = Some(open);
        } else {
            self.abandon(open);
        }
        written?;
        if self.options.durability == Durability::Os {
            self.publish()?;
        }
        Ok(())
    }

    fn write_block(&mut self, open: &mut Open) -> Result<()> {
        let (trailer, head) = self.block.encode(self.next, self.epoch);
        let mut slices = Vec::new();
        self.block.slices(&mut slices);
        write_slices(&mut open.file, &open.path, &mut slices, self.options.room.as_ref())
            .map_err(Error::io("write", &*open.path))?;
        let entry = Entry::new(open.len, head, &trailer);
        open.len += trailer.len;
        self.mark.bytes += trailer.len;
        self.mark.last_time = trailer.max_time;
        // The index is a cache; readers find the remaining blocks by scanning.
        if open.index.as_mut().is_some_and(|index| index.write_all(&entry.encode()).is_err()) {
            open.index = None;
        }
        open.entries.push(entry);
        if let Some(keys) = &mut open.keys {
            self.block.collect_keys(keys);
        }
        self.next = trailer.end();
        self.block.clear();
        Ok(())
    }

    /// Cuts off the result of an incomplete write.
    fn rewind(&self, open: &mut Open) -> Result<()> {
        let cut = open.file.set_len(open.len).and_then(|()| open.file.seek(SeekFrom::Start(open.len)));
        cut.map(|_| ()).map_err(Error::io("cut", &*open.path))
    }

    fn begin(&self, now: i64) -> Result<Open> {
        let path = self.folder.join(name(self.next));
        let head = Head {
            spool: self.id,
            shard: self.shard,
            base: self.next,
            follows: self.follows,
            epoch: self.epoch.into(),
            format: format_of(self.options.compression),
        };
        let octets = head.encode(&self.layout);
        let begun = (|| {
            let mut file = private().truncate(true).open(&path)?;
            write_slices(&mut file, &path, &mut [IoSlice::new(&octets)], self.options.room.as_ref())?;
            let index = private().truncate(true).open(path.with_extension(INDEX_ENDING))?;
            Ok((file, index))
        })();
        let (file, index) = begun.map_err(|error: io::Error| {
            // Removes an incomplete segment that readers should not see.
            let _ = fs::remove_file(&path);
            Error::io("write", &*path)(error)
        })?;
        if self.options.durability == Durability::Disk {
            sync_folder(&self.folder)?;
        }
        let len = octets.len() as u64;
        let keys = self.layout.position("key").map(|_| KeyCollector::new());
        Ok(Open { file, path, index: Some(index), head, len, entries: Vec::new(), keys, since: now })
    }

    /// Whether the open segment is large or old enough to be sealed.
    fn is_due(&self, now: i64) -> bool {
        let Options { segment_bytes, segment_micros, .. } = self.options;
        let due = |open: &Open| open.len >= segment_bytes || now.saturating_sub(open.since) >= segment_micros;
        self.open.as_ref().is_some_and(due)
    }

    /// Seals the open segment if it is large or old enough.
    pub fn seal_if_due(&mut self, now: i64) -> Result<()> {
        if self.is_due(now) { self.seal() } else { Ok(()) }
    }

    /// Seals the open segment, so that programs that read Arrow files can read it. Rows that are not
    /// written yet stay in the block. After an error, written data may not be on disk.
    pub fn seal(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if open.entries.is_empty() {
            return delete_segment(&self.folder, open.head.base);
        }
        let blocks: Vec<_> = open.entries.iter().map(footer_block).collect();
        let footer = open.head.encode_footer(&self.layout, &blocks, &open.describe());
        let slices = &mut [IoSlice::new(&footer)];
        let ended = match write_slices(&mut open.file, &open.path, slices, self.options.room.as_ref()) {
            Ok(()) => {
                open.len += footer.len() as u64;
                Ok(())
            }
            // Readers of the spool do not need the footer; a full disk is no reason to stop here.
            Err(_) => self.rewind(&mut open),
        };
        let synced = match self.options.durability {
            Durability::Os => Ok(()),
            Durability::Disk => open.file.sync_data().map_err(Error::io("sync", &*open.path)),
        };
        self.abandon(open);
        ended.and(synced)
    }

    /// Continues after a segment that takes no more blocks.
    fn abandon(&mut self, open: Open) {
        self.follows = self.next;
        if !open.entries.is_empty() {
            let sealed = open.describe();
            self.kept.push_back(Kept {
                base: open.head.base,
                end: self.next,
                bytes: open.len,
                max_time: sealed.times.1,
                local: true,
                stored: false,
            });
            self.listing.add(&sealed, &self.kept);
        }
    }

    /// Waits until all blocks are on disk, and publishes them; after an error nothing is published.
    pub fn sync(&mut self) -> Result<()> {
        if let Some(open) = &self.open {
            open.file.sync_data().map_err(Error::io("sync", &*open.path))?;
        }
        self.publish()
    }

    /// Whether there are blocks that are not published yet.
    pub const fn unpublished(&self) -> bool {
        self.mark.end < self.next
    }

    pub(crate) fn publish(&mut self) -> Result<()> {
        self.mark.end = self.next;
        self.mark.rows_to = if self.open.is_some() { self.next } else { self.follows };
        self.publish_mark()
    }

    pub(crate) fn publish_mark(&mut self) -> Result<()> {
        self.marks.write(self.mark.encode())
    }

    pub(crate) fn open_base(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.head.base)
    }

    pub(crate) fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.len)
    }

    /// Writes and seals everything.
    pub fn close(&mut self, now: i64) -> Result<()> {
        self.flush(now)?;
        self.seal()?;
        self.publish()?;
        self.marks.sync()
    }
}

#[allow(clippy::cast_possible_wrap, reason = "files are shorter than 2^63, heads than 64 KiB")]
pub(crate) fn footer_block(entry: &Entry) -> FooterBlock {
    FooterBlock::new(entry.at as i64, entry.head as i32, (entry.len - u64::from(entry.head)) as i64)
}

/// Writes all slices, which are consumed.
pub(crate) fn write_slices(
    file: &mut File,
    path: &Path,
    slices: &mut [IoSlice<'_>],
    room: Option<&Room>,
) -> io::Result<()> {
    if let Some(room) = room {
        let octets: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let allowed = room(path, octets.len());
        if allowed < octets.len() {
            // Write as much as there is room for, to the octet.
            file.write_all(&octets[..allowed])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
    }
    let mut rest = slices;
    while !rest.is_empty() {
        match file.write_vectored(&rest[..rest.len().min(MAX_SLICES)]) {
            Ok(0) if rest.iter().any(|slice| !slice.is_empty()) => {
                return Err(io::ErrorKind::WriteZero.into());
            }
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
