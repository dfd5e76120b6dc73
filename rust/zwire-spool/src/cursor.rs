//! Finding the block that holds an offset, in the segments of a shard.

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

/// The segments of a shard.
pub(crate) struct Log {
    id: SpoolId,
    pub(crate) shard: Shard,
    layout: Layout,
    folder: PathBuf,
    pub(crate) bases: Vec<u64>,
    view: Option<View>,
}

/// One of them, with its blocks as far as they were needed.
pub(crate) struct View {
    pub(crate) segment: Segment<File>,
    pub(crate) entries: Vec<Entry>,
    /// What stands behind the last block, if it is nothing that a writer leaves there.
    broken: Option<String>,
}

impl View {
    /// The offset behind the blocks that are known.
    pub(crate) fn end(&self) -> u64 {
        self.entries.last().map_or(self.segment.head.base, Entry::end)
    }

    /// Finds the blocks that hold rows before an offset, by the list beside the segment, or in the
    /// segment itself.
    pub(crate) fn load(&mut self, until: u64) -> Result<()> {
        if self.end() >= until {
            return Ok(());
        }
        let list = self.segment.path.with_extension(INDEX_ENDING);
        let len = self.segment.file.len().map_err(Error::io("read", &*self.segment.path))?;
        // The list is a cache: what cannot be read of it, the segment tells.
        if let Ok(file) = open_file(&list) {
            let (start, base) = (self.segment.start, self.segment.head.base);
            read_more(&file, &list, start, base, &mut self.entries).ok();
            // A list that tells more than there is, is not the list of this file.
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
    pub(crate) const fn new(
        id: SpoolId,
        shard: Shard,
        layout: Layout,
        folder: PathBuf,
        bases: Vec<u64>,
    ) -> Self {
        Self { id, shard, layout, folder, bases, view: None }
    }

    /// Looks for new segments.
    fn refresh(&mut self) -> Result<()> {
        self.bases = bases(&self.folder)?;
        Ok(())
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

    /// Where the segments before and behind an offset begin.
    pub(crate) fn around(&self, offset: u64) -> (Option<u64>, Option<u64>) {
        let behind = self.bases.partition_point(|base| *base <= offset);
        (behind.checked_sub(1).map(|index| self.bases[index]), self.bases.get(behind).copied())
    }
}

/// What stands at an offset.
pub(crate) enum Place {
    /// This block.
    Block(Entry),
    /// Nothing, and that is known: the next row has this offset, or a later one.
    Hole(u64),
}

/// Goes through the blocks of one shard, in any order, and remembers where it was.
pub struct Cursor {
    pub(crate) spool: Spool,
    pub(crate) log: Log,
}

impl Cursor {
    /// What holds the row with an offset, for a reader that wants those before `stop`.
    pub(crate) fn locate(&mut self, next: u64, stop: u64) -> Result<Place> {
        match self.look(next, stop) {
            // Written, or deleted, since the folder was listed.
            Ok(None) | Err(Error::Io { .. }) => {}
            Ok(Some(place)) => return Ok(place),
            Err(error) => return self.say_where_it_goes_on(error, next),
        }
        self.log.refresh()?;
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

    /// Adds the next segment, or the end, to an error of a segment as a whole.
    fn say_where_it_goes_on<T>(&self, mut error: Error, next: u64) -> Result<T> {
        if let Error::Corrupt { resumes: resumes @ None, offset, .. } = &mut error {
            *resumes = match self.log.around(next.max(*offset)).1 {
                Some(base) => Some(base),
                None => Some(self.spool.mark(self.log.shard)?.end),
            };
        }
        Err(error)
    }

    /// What is wrong with the segment that should hold a row.
    fn damage(&mut self, next: u64) -> Result<Option<String>> {
        match self.log.around(next).0 {
            Some(base) => {
                // It is looked at anew where the segment behind it was looked at meanwhile.
                let view = self.log.view(base)?;
                view.load(next.saturating_add(1))?;
                Ok(view.broken.clone())
            }
            None => Ok(None),
        }
    }

    /// What holds a row, as far as the segments tell that are known.
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

    /// The octets of a block of the segment that was found last, not verified.
    pub(crate) fn octets(&self, entry: &Entry) -> Result<Buffer> {
        match &self.log.view {
            Some(view) => view.segment.octets(entry.at, entry.len),
            None => Err(Error::Usage("a block that nobody has looked for".to_owned())),
        }
    }

    /// The blocks of the segment that was found last, from the one that holds an offset on.
    pub(crate) fn from(&self, next: u64) -> &[Entry] {
        let entries = self.log.view.as_ref().map_or(&[][..], |view| &view.entries);
        &entries[entries.partition_point(|entry| entry.end() <= next)..]
    }

    /// The error that says so, of the segment that was found last.
    pub(crate) fn corrupt(&self, offset: u64, problem: String, resumes: Option<u64>) -> Error {
        let path = self.log.view.as_ref().map_or_else(PathBuf::new, |view| view.segment.path.clone());
        Error::Corrupt { shard: self.log.shard, offset, path, problem, resumes }
    }
}
