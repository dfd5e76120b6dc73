//! Recovery: opening a shard for writing at the point where the last writer stopped.

use crate::{
    block::BlockBuilder,
    describe::Describer,
    error::{Error, Result},
    head::SpoolId,
    index::{self, Entry},
    layout::{Layout, Shard},
    listing::Listing,
    meta::{make_folder, sync_folder, write_private},
    read_at::{ReadAt as _, open_file, read_exactly},
    retain::{Kept, Tiering, delete_segment},
    sealed::Sealed,
    segment::{Found, INDEX_ENDING, Segment, bases, name},
    shard::{Durability, Mark, Options, ShardWriter, footer_block},
    slots::{self, Record},
};
use std::{
    collections::VecDeque,
    fs::{self, File},
    path::{Path, PathBuf},
};

/// Result of opening an existing shard for writing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Shard concerned.
    pub shard: Shard,
    /// Offset of its next row.
    pub next: u64,
    /// First offset without a row: offsets from here to `next`, if they differ, are not used.
    pub hole: u64,
    /// Octets after the last complete block, which were cut off.
    pub cut: u64,
    /// Damaged file, and a description of the damage; the file was left unchanged.
    pub damaged: Option<(PathBuf, String)>,
    /// Receive time of the last row, in microseconds since 1970; 0 if there is none.
    pub last_time: i64,
}

/// State in which the last writer left the spool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Closed, or the writer was stopped while the machine kept running: the kernel has all data written.
    Whole,
    /// The machine has stopped: any data that was not on disk may be missing.
    Torn,
}

pub(crate) struct Site<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) id: SpoolId,
    /// Index of this shard in the files that all shards share.
    pub(crate) index: usize,
    pub(crate) shards: usize,
    pub(crate) left: Left,
    pub(crate) epoch: u32,
}

/// Files with a record for each shard.
pub(crate) const MARKS: &str = "marks";
pub(crate) const AHEAD: &str = "ahead";

pub(crate) fn open(
    site: &Site<'_>,
    shard: Shard,
    layout: Layout,
    options: Options,
) -> Result<(ShardWriter, Recovered)> {
    let folder = site.dir.join(shard.folder());
    make_folder(&folder)?;
    let marks_path = site.dir.join(MARKS);
    let known = slots::read(&marks_path, &site.id, site.shards)?[site.index].map(Mark::decode);
    let ahead_path = site.dir.join(AHEAD);
    let reserved = slots::read(&ahead_path, &site.id, site.shards)?[site.index].map_or(0, |values| values[0]);

    // After a stop of the machine, rows that were only passed to the kernel may be lost, in unknown
    // number; the same applies without a mark. Then numbering resumes after all reserved offsets.
    let certain = known.filter(|_| site.left == Left::Whole || options.durability == Durability::Disk);
    let must = certain.map_or(Must::default(), |mark| Must { rows: mark.rows_to, end: mark.end });
    let mut report = Recovered {
        shard,
        next: 0,
        hole: 0,
        cut: 0,
        damaged: None,
        last_time: known.map_or(0, |mark| mark.last_time),
    };
    let (mut kept, end) = last_segment(site, shard, &folder, &layout, must, &mut report)?;
    let end = end.unwrap_or_else(|| known.map_or(0, |mark| mark.rows_to));
    let next = if certain.is_some() && report.damaged.is_none() {
        end.max(must.end)
    } else {
        reserved.max(end).max(known.map_or(0, |mark| mark.end))
    };
    report.hole = end.max(must.rows).min(next);
    report.next = next;

    // A writer that was stopped while deleting may have left segments before `earliest`.
    let told = known.map_or(0, |mark| mark.earliest);
    while let Some(oldest) = kept.front().copied().filter(|oldest| oldest.end <= told) {
        delete_segment(&folder, oldest.base)?;
        kept.pop_front();
    }
    let listing = Listing::open(&folder, kept.iter());
    let first = kept.front().map_or(next, |segment| segment.base);
    let mark = Mark {
        // A removed segment is reported as missing, not silently skipped.
        earliest: known.map_or(first, |mark| mark.earliest.min(next)),
        end: next,
        rows_to: report.hole,
        last_time: report.last_time,
        drops: known.map_or(0, |mark| mark.drops),
        bytes: kept.iter().map(|segment| segment.bytes).sum(),
    };
    let mut writer = ShardWriter {
        shard,
        block: BlockBuilder::new(shard, &layout, options.compression),
        folder,
        id: site.id,
        layout,
        epoch: site.epoch,
        options,
        next,
        follows: report.hole,
        reserved,
        limit: u64::MAX,
        ahead: Record::open(&ahead_path, &site.id, site.index)?,
        marks: Record::open(&marks_path, &site.id, site.index)?,
        mark,
        kept,
        listing,
        tiering: Tiering::Never,
        remembered: known.is_some(),
        open: None,
    };
    writer.publish()?;
    Ok((writer, report))
}

/// Offsets that are known to have been published.
#[derive(Clone, Copy, Default)]
struct Must {
    /// Offset up to which there are rows.
    rows: u64,
    /// Offset up to which offsets are used.
    end: u64,
}

/// Lists the segments, seals the last without incomplete blocks, and finds the offset after its rows.
fn last_segment(
    site: &Site<'_>,
    shard: Shard,
    folder: &Path,
    layout: &Layout,
    must: Must,
    report: &mut Recovered,
) -> Result<(VecDeque<Kept>, Option<u64>)> {
    let mut bases = bases(folder)?;
    let mut last = None;
    while let Some(base) = bases.last().copied() {
        let path = folder.join(name(base));
        let file = File::options().read(true).write(true).open(&path).map_err(Error::io("open", &*path))?;
        let problem = match Segment::new(file, path.clone(), layout) {
            Ok(Some(segment)) => {
                segment.belongs(&site.id, shard, base)?;
                let kept = recover_segment(&segment, layout, must, report)?;
                if kept.end > base || report.damaged.is_some() {
                    last = Some(kept);
                    break;
                }
                None
            }
            // The writer was stopped while creating it, before it had a row.
            Ok(None) if base >= must.end => None,
            Ok(None) => Some("is shorter than the beginning of a segment".to_owned()),
            Err(Error::BadFile { problem, .. }) => Some(problem),
            Err(error) => return Err(error),
        };
        bases.pop();
        match problem {
            // The next segment would get the name of this empty one.
            None => delete_segment(folder, base)?,
            Some(problem) => {
                if base >= must.end {
                    // No reader is known to need it, but an unknown file must not be deleted.
                    let aside = path.with_extension("damaged");
                    fs::rename(&path, &aside).map_err(Error::io("rename", &*path))?;
                }
                report.damaged = Some((path, problem));
            }
        }
    }
    let mut kept = VecDeque::new();
    for pair in bases.windows(2) {
        kept.push_back(sealed(folder, pair[0], pair[1])?);
    }
    let end = last.map(|last: Kept| last.end);
    kept.extend(last);
    Ok((kept, end))
}

/// Greatest receive time of a segment's last block, from the index; `None` if that cannot be read.
fn max_time(list: &Path) -> Option<i64> {
    let file = open_file(list).ok()?;
    let last = (file.len().ok()? / index::ENTRY as u64).checked_sub(1)?;
    let octets = read_exactly(&file, list, last * index::ENTRY as u64, index::ENTRY).ok()?;
    Entry::decode(octets.first_chunk()?).map(|entry| entry.max_time)
}

/// A segment that is followed by another one.
fn sealed(folder: &Path, base: u64, next: u64) -> Result<Kept> {
    let path = folder.join(name(base));
    let bytes = fs::metadata(&path).map_err(Error::io("read", &*path))?.len();
    let max_time = max_time(&path.with_extension(INDEX_ENDING)).unwrap_or(i64::MAX);
    Ok(Kept { base, end: next, bytes, max_time, local: true, stored: false })
}

/// Finds the end of the last segment, cuts off the data after it, and seals it.
fn recover_segment(
    segment: &Segment<File>,
    layout: &Layout,
    must: Must,
    report: &mut Recovered,
) -> Result<Kept> {
    let mut describer = Describer::new(layout);
    let each = &mut |entry, octets: &_| describer.add(entry, octets);
    let (at, end, found) = segment.scan(segment.start, segment.head.base, each)?;
    let entries = &describer.entries;
    let total = segment.file.len().map_err(Error::io("read", &*segment.path))?;
    if let Some(last) = entries.last() {
        report.last_time = last.max_time;
    }
    let max_time = entries.iter().map(|entry| entry.max_time).max().unwrap_or(i64::MIN);
    let kept = Kept { base: segment.head.base, end, bytes: total, max_time, local: true, stored: false };
    if end < must.rows {
        // The segment contains rows that readers may have seen, and later ones may still be intact.
        let problem = match found {
            Found::Broken(problem) => problem,
            _ => format!("ends at offset {end}, and {} was published", must.rows),
        };
        report.damaged = Some((segment.path.clone(), problem));
        return Ok(kept);
    }
    if found == Found::Sealed {
        return Ok(kept);
    }
    report.cut += total - at;
    let path = &segment.path;
    segment.file.set_len(at).map_err(Error::io("cut", &**path))?;
    if entries.is_empty() {
        return Ok(kept);
    }
    let blocks: Vec<_> = entries.iter().map(footer_block).collect();
    let sealed = Sealed { bytes: at, ..describer.describe(segment.head.base) };
    let footer = segment.head.encode_footer(layout, &blocks, &sealed);
    slots::write_at(&segment.file, &footer, at).map_err(Error::io("write", &**path))?;
    segment.file.sync_data().map_err(Error::io("sync", &**path))?;
    let list: Vec<u8> = entries.iter().flat_map(Entry::encode).collect();
    let list_path = path.with_extension(INDEX_ENDING);
    write_private(&list_path, &list).map_err(Error::io("write", list_path))?;
    path.parent().map_or(Ok(()), sync_folder)?;
    Ok(Kept { bytes: at + footer.len() as u64, ..kept })
}
