//! Lookup of the block that holds an offset, in the segments of a shard.

use crate::{
    error::{Error, Result},
    head::SpoolId,
    index::{Entry, read_more},
    layout::{Layout, Shard},
    read_at::{ReadAt as _, open_file},
    reader::Spool,
    segment::{Found, INDEX_ENDING, Segment, bases, name},
};
use arrow_buffer::Buffer;
use std::{fs::File, path::PathBuf};

/// Segments of a shard.
pub(crate) struct Log {
    id: SpoolId,
    pub(crate) shard: Shard,
    layout: Layout,
    folder: PathBuf,
    pub(crate) bases: Vec<u64>,
    view: Option<View>,
}

/// A segment, with its blocks as far as they were needed.
pub(crate) struct View {
    pub(crate) segment: Segment<File>,
    pub(crate) entries: Vec<Entry>,
    /// Problem behind the last block, unless it is a state that a writer leaves behind.
    broken: Option<String>,
}

impl View {
    /// Offset after the known blocks.
    pub(crate) fn end(&self) -> u64 {
        self.entries.last().map_or(self.segment.head.base, Entry::end)
    }

    /// Finds the blocks with rows before an offset, in the index beside the segment or in the segment.
    pub(crate) fn load(&mut self, until: u64) -> Result<()> {
        if self.end() >= until {
            return Ok(());
        }
        let list = self.segment.path.with_extension(INDEX_ENDING);
        let len = self.segment.file.len().map_err(Error::io("read", &*self.segment.path))?;
        // The index is a cache: entries that cannot be read from it are found by scanning the segment.
        if let Ok(file) = open_file(&list) {
            let (start, base) = (self.segment.start, self.segment.head.base);
            read_more(&file, &list, start, base, &mut self.entries).ok();
            // Entries beyond the end of the segment belong to another file.
            while self.entries.last().is_some_and(|last| last.at.saturating_add(last.len) > len) {
                self.entries.pop();
            }
        }
        if self.end() >= until {
            return Ok(());
        }
        let at = self.entries.last().map_or(self.segment.start, |last| last.at + last.len);
        let (end, entries) = (self.end(), &mut self.entries);
        let (_, _, found) = self.segment.scan(at, end, &mut |entry| entries.push(entry))?;
        self.broken = match found {
            Found::Broken(problem) => Some(problem),
            _ => None,
        };
        Ok(())
    }
}

impl Log {
    /// Lists the segments in the folder of a shard.
    pub(crate) fn new(id: SpoolId, shard: Shard, layout: Layout, folder: PathBuf) -> Result<Self> {
        Ok(Self { id, shard, layout, bases: bases(&folder)?, folder, view: None })
    }

    /// The segment that begins at an offset.
    pub(crate) fn view(&mut self, base: u64) -> Result<&mut View> {
        if self.view.as_ref().is_none_or(|view| view.segment.head.base != base) {
            let path = self.path(base);
            let file = open_file(&path).map_err(Error::io("open", &*path))?;
            let corrupt = |problem: String| Error::Corrupt {
                shard: self.shard,
                offset: base,
                path: path.clone(),
                problem,
                resumes: None,
            };
            let segment = match Segment::new(file, path.clone(), &self.layout) {
                Ok(Some(segment)) => segment,
                Ok(None) => return Err(corrupt("is shorter than the beginning of a segment".to_owned())),
                Err(Error::BadFile { problem, .. }) => return Err(corrupt(problem)),
                Err(error) => return Err(error),
            };
            segment.belongs(&self.id, self.shard, base)?;
            self.view = Some(View { segment, entries: Vec::new(), broken: None });
        }
        self.view.as_mut().ok_or_else(|| Error::Usage("a segment that is not there".to_owned()))
    }

    pub(crate) fn path(&self, base: u64) -> PathBuf {
        self.folder.join(name(base))
    }

    /// First offsets of the segments before and after an offset.
    pub(crate) fn around(&self, offset: u64) -> (Option<u64>, Option<u64>) {
        let behind = self.bases.partition_point(|base| *base <= offset);
        (behind.checked_sub(1).map(|index| self.bases[index]), self.bases.get(behind).copied())
    }
}

pub(crate) enum Place {
    Block(Entry),
    /// A known hole: the next row has this offset, or a later one.
    Hole(u64),
}

/// Reader of the blocks of one shard, in any order; caches the last segment.
pub struct Cursor {
    pub(crate) spool: Spool,
    pub(crate) log: Log,
}

impl Cursor {
    /// Finds the block or hole at an offset, for a reader of the rows before `stop`.
    pub(crate) fn locate(&mut self, next: u64, stop: u64) -> Result<Place> {
        match self.look(next, stop) {
            // Written or deleted since the folder was listed.
            Ok(None) | Err(Error::Io { .. }) => {}
            Ok(Some(place)) => return Ok(place),
            Err(error) => return self.say_where_it_goes_on(error, next),
        }
        self.log.bases = bases(&self.log.folder)?;
        let (shard, mark) = (self.log.shard, self.spool.mark(self.log.shard)?);
        if next < mark.earliest {
            let (earliest, end) = (mark.earliest, mark.end);
            return Err(Error::OutOfRange { shard, offset: next, earliest, end });
        }
        match self.look(next, stop) {
            Ok(Some(place)) => Ok(place),
            Ok(None) if mark.rows_to <= next => Ok(Place::Hole(mark.end)),
            Ok(None) => {
                let until = self.log.around(next).1.unwrap_or(mark.rows_to);
                match self.damage(next)? {
                    Some(problem) => Err(self.corrupt(next, problem, Some(until.max(next)))),
                    None => Err(Error::Missing { shard, offset: next, until: until.min(stop) }),
                }
            }
            Err(error) => self.say_where_it_goes_on(error, next),
        }
    }

    /// Adds the offset at which reading resumes (the next segment, or the end) to damage of a segment.
    fn say_where_it_goes_on<T>(&self, mut error: Error, next: u64) -> Result<T> {
        if let Error::Corrupt { resumes: resumes @ None, offset, .. } = &mut error {
            *resumes = match self.log.around(next.max(*offset)).1 {
                Some(base) => Some(base),
                None => Some(self.spool.mark(self.log.shard)?.end),
            };
        }
        Err(error)
    }

    /// Problem of the segment that should hold a row.
    fn damage(&mut self, next: u64) -> Result<Option<String>> {
        match self.log.around(next).0 {
            Some(base) => {
                // Loaded again, because the lookup may have replaced it by the following segment.
                let view = self.log.view(base)?;
                view.load(next.saturating_add(1))?;
                Ok(view.broken.clone())
            }
            None => Ok(None),
        }
    }

    /// Finds the content at an offset in the segments known so far.
    fn look(&mut self, next: u64, stop: u64) -> Result<Option<Place>> {
        let (at, behind) = self.log.around(next);
        if let Some(base) = at {
            let view = self.log.view(base)?;
            view.load(next.saturating_add(1))?;
            if next < view.end() {
                view.load(stop.min(behind.unwrap_or(u64::MAX)))?;
                let index = view.entries.partition_point(|entry| entry.end() <= next);
                return Ok(view.entries.get(index).copied().map(Place::Block));
            }
        }
        let Some(base) = behind else { return Ok(None) };
        let follows = self.log.view(base)?.segment.head.follows;
        Ok((follows <= next).then_some(Place::Hole(base)))
    }

    /// Octets of a block of the segment found last, not verified.
    pub(crate) fn octets(&self, entry: &Entry) -> Result<Buffer> {
        match &self.log.view {
            Some(view) => view.segment.octets(entry.at, entry.len),
            None => Err(Error::Usage("a block was read before it was located".to_owned())),
        }
    }

    /// Blocks of the segment found last, beginning with the one that holds an offset.
    pub(crate) fn from(&self, next: u64) -> &[Entry] {
        let entries = self.log.view.as_ref().map_or(&[][..], |view| &view.entries);
        &entries[entries.partition_point(|entry| entry.end() <= next)..]
    }

    /// Makes an error for the segment found last.
    pub(crate) fn corrupt(&self, offset: u64, problem: String, resumes: Option<u64>) -> Error {
        let path = self.log.view.as_ref().map_or_else(PathBuf::new, |view| view.segment.path.clone());
        Error::Corrupt { shard: self.log.shard, offset, path, problem, resumes }
    }
}
