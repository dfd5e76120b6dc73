//! One segment made of several that follow each other, with their blocks unchanged.

use crate::{
    describe::Describer,
    error::{Error, Result},
    head::{Head, SpoolId},
    index::Entry,
    layout::{Layout, Shard},
    read_at::{ReadAt, Source},
    sealed::Sealed,
    segment::{Found, Segment},
    shard::footer_block,
    tier::describe,
};
use arrow_buffer::Buffer;
use std::{
    fs::File,
    io::{self, BufWriter, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

/// Writer of a file with the blocks of several segments.
pub struct Merger<'a> {
    id: SpoolId,
    shard: Shard,
    layout: &'a Layout,
    path: PathBuf,
    out: BufWriter<File>,
    /// Head of the new segment: that of the first one, which follows the same offset.
    head: Option<Head>,
    len: u64,
    next: u64,
    describer: Describer<'a>,
}

impl<'a> Merger<'a> {
    /// A writer of a file, which is replaced if it exists.
    pub fn new(path: &Path, id: SpoolId, shard: Shard, layout: &'a Layout) -> Result<Self> {
        let file = File::create(path).map_err(Error::io("write", path))?;
        let describer = Describer::new(layout);
        let (path, out) = (path.to_owned(), BufWriter::new(file));
        Ok(Self { id, shard, layout, path, out, head: None, len: 0, next: 0, describer })
    }

    /// Appends the blocks of the next segment, which is read from a place that errors name. Fails with
    /// [`Error::Corrupt`], [`Error::BadFile`] or [`Error::Mismatch`] if it is damaged, or does not follow the last one.
    pub fn add(&mut self, part: &Sealed, place: PathBuf, file: Box<dyn ReadAt + Send + Sync>) -> Result<()> {
        let shard = self.shard;
        let corrupt = |offset, path: &Path, problem: String| Error::Corrupt {
            shard,
            offset,
            path: path.to_owned(),
            problem,
            resumes: None,
        };
        let segment = Segment::new(Source::Object(file), place.clone(), self.layout)?;
        let Some(segment) = segment else {
            return Err(corrupt(part.base, &place, "is shorter than the beginning of a segment".to_owned()));
        };
        segment.belongs(&self.id, self.shard, part.base)?;
        match &mut self.head {
            None => {
                self.len = segment.head.encode(self.layout).len() as u64;
                let begin = self.out.seek(SeekFrom::Start(self.len));
                begin.map_err(Error::io("write", &*self.path))?;
                self.head = Some(segment.head.clone());
            }
            Some(_) if self.next != part.base => {
                return Err(corrupt(part.base, &place, format!("does not follow offset {}", self.next)));
            }
            // Readers of compressed blocks have to know of them by the head.
            Some(head) => head.format = head.format.max(segment.head.format),
        }
        segment.file.expect(part.bytes);
        let (out, len, describer) = (&mut self.out, &mut self.len, &mut self.describer);
        let mut written: io::Result<()> = Ok(());
        let each = &mut |entry: Entry, octets: &Buffer| {
            if written.is_ok() {
                written = out.write_all(octets);
                describer.add(Entry { at: *len, ..entry }, octets);
                *len += entry.len;
            }
        };
        let (_, next, found) = segment.scan(segment.start, part.base, each)?;
        written.map_err(Error::io("write", &*self.path))?;
        match found {
            Found::Broken(problem) => Err(corrupt(next, &place, problem)),
            _ if next != part.end => {
                Err(corrupt(next, &place, format!("ends at offset {next}, and is listed up to {}", part.end)))
            }
            _ => {
                self.next = next;
                Ok(())
            }
        }
    }

    /// Ends the segment, and reads all of it again: its description, and the list of its blocks.
    pub fn finish(mut self) -> Result<(Sealed, Vec<u8>)> {
        let Some(head) = self.head.clone() else {
            return Err(Error::Usage("a segment of no others".to_owned()));
        };
        let sealed = Sealed { bytes: self.len, ..self.describer.describe(head.base) };
        let blocks: Vec<_> = self.describer.entries.iter().map(footer_block).collect();
        let footer = head.encode_footer(self.layout, &blocks, &sealed);
        let begin = head.encode(self.layout);
        let ended = (|| {
            self.out.write_all(&footer)?;
            self.out.seek(SeekFrom::Start(0))?;
            self.out.write_all(&begin)?;
            self.out.flush()
        })();
        ended.map_err(Error::io("write", &*self.path))?;
        let range = (head.base, self.next);
        let (found, index) = describe(&self.path, &self.id, (self.shard, self.layout), range)?;
        let same = (found.base, found.end, found.rows, found.times)
            == (sealed.base, self.next, sealed.rows, sealed.times);
        if same && found.problem.is_none() {
            return Ok((found, index));
        }
        let problem = found.problem.unwrap_or_else(|| "has other rows than were written".to_owned());
        Err(Error::BadFile { path: self.path.clone(), problem })
    }
}
