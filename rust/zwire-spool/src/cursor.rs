//! Lookup of the block that holds an offset, in the segments of a shard.

use crate::{
    error::{Error, Result},
    head::SpoolId,
    index::{Entry, read_more},
    layout::{Layout, Shard},
    listing,
    read_at::{ReadAt as _, Source, open_file},
    reader::Spool,
    sealed::{Page, Sealed, share},
    segment::{Found, INDEX_ENDING, Segment, bases, name},
    select::Selection,
    tier::{MOMENT, STALE, Tier, TierState},
};
use arrow_buffer::Buffer;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Segments of a shard.
pub(crate) struct Log {
    id: SpoolId,
    pub(crate) shard: Shard,
    layout: Layout,
    /// Folder of the shard; `None` for a spool that is in a store alone.
    folder: Option<PathBuf>,
    tier: Option<Arc<dyn Tier>>,
    /// First offsets of the segments in the folder, ascending.
    local: Vec<u64>,
    /// Descriptions of them, as far as known; read when a selection needs them.
    described: Option<BTreeMap<u64, Sealed>>,
    /// State of the store; `None` while rows before those of the folder are not needed.
    state: Option<Arc<TierState>>,
    /// First offsets of segments that the store lists and does not have.
    gone: BTreeSet<u64>,
    /// First offset of the segment that the store did not have when it was opened last.
    absent: Option<u64>,
    /// Page of the store used last, by its first offset.
    page: Option<(u64, Arc<Vec<Sealed>>)>,
    view: Option<View>,
    /// Number of segments that were opened, and of those that had no wanted rows.
    pub(crate) opened: u64,
    pub(crate) passed: u64,
}

/// Segment that is known without opening it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) base: u64,
    /// Offset of the next segment, or after the last row.
    pub(crate) behind: u64,
    /// Its size in octets, if the store has it.
    pub(crate) bytes: Option<u64>,
}

/// Pages of a store that are fetched at once, and in memory at once.
const PAGES: usize = 16;

/// A segment, with its blocks as far as they were needed.
pub(crate) struct View {
    pub(crate) segment: Segment<Source>,
    pub(crate) entries: Vec<Entry>,
    /// Description of a segment in the store, until the list of its blocks was read there.
    listed: Option<(Arc<dyn Tier>, Sealed)>,
    /// Problem behind the last block, unless it is a state that a writer leaves behind.
    broken: Option<String>,
}

impl View {
    /// Offset after the known blocks.
    pub(crate) fn end(&self) -> u64 {
        self.entries.last().map_or(self.segment.head.base, Entry::end)
    }

    /// The block with a row, for a reader of the rows before `until`.
    fn find(&mut self, next: u64, until: u64) -> Result<Option<Entry>> {
        self.load(next.saturating_add(1))?;
        if next >= self.end() {
            return Ok(None);
        }
        self.load(until)?;
        let index = self.entries.partition_point(|entry| entry.end() <= next);
        let wanted = self.entries[..self.entries.partition_point(|entry| entry.first < until)].last();
        self.segment.file.expect(wanted.map_or(0, |entry| entry.at + entry.len));
        Ok(self.entries.get(index).copied())
    }

    const fn is_stored(&self) -> bool {
        matches!(self.segment.file, Source::Object(_))
    }

    /// Finds the blocks with rows before an offset, in the index beside the segment or in the segment.
    pub(crate) fn load(&mut self, until: u64) -> Result<()> {
        if self.end() >= until {
            return Ok(());
        }
        let list = self.segment.path.with_extension(INDEX_ENDING);
        let len = self.segment.file.len().map_err(Error::io("read", &*self.segment.path))?;
        let (start, base) = (self.segment.start, self.segment.head.base);
        // The index is a cache: entries that cannot be read from it are found by scanning the segment.
        match (&self.segment.file, self.listed.take()) {
            (Source::Object(_), Some((tier, sealed))) => match tier.index(self.segment.head.shard, &sealed) {
                Ok(octets) => read_more(&&*octets, &list, start, base, &mut self.entries).ok(),
                Err(error @ (Error::Unreachable { .. } | Error::Denied { .. })) => {
                    self.listed = Some((tier, sealed));
                    return Err(error);
                }
                Err(_) => None,
            },
            (Source::Object(_), None) => None,
            (Source::File(_), _) => {
                let file = open_file(&list).ok();
                file.and_then(|file| read_more(&file, &list, start, base, &mut self.entries).ok())
            }
        };
        // Entries beyond the end of the segment belong to another file.
        while self.entries.last().is_some_and(|last| last.at.saturating_add(last.len) > len) {
            self.entries.pop();
        }
        if self.end() >= until {
            return Ok(());
        }
        let at = self.entries.last().map_or(self.segment.start, |last| last.at + last.len);
        let (end, entries) = (self.end(), &mut self.entries);
        let (_, _, found) = self.segment.scan(at, end, &mut |entry, _| entries.push(entry))?;
        self.broken = match found {
            Found::Broken(problem) => Some(problem),
            _ => None,
        };
        Ok(())
    }
}

impl Log {
    /// Lists the segments of a shard, for a reader of the rows from an offset on.
    pub(crate) fn new(
        id: SpoolId,
        (shard, layout): (Shard, Layout),
        folder: Option<PathBuf>,
        tier: Option<Arc<dyn Tier>>,
        from: u64,
    ) -> Result<Self> {
        let mut log = Self {
            id,
            shard,
            layout,
            folder,
            tier,
            local: Vec::new(),
            described: None,
            state: None,
            gone: BTreeSet::new(),
            absent: None,
            page: None,
            view: None,
            opened: 0,
            passed: 0,
        };
        log.list(Some(from), STALE)?;
        Ok(log)
    }

    /// Lists the segments again, for a reader of the rows from an offset on. The store is asked for rows before those
    /// of the folder, and without an offset for all rows; what it said is used up to an age.
    pub(crate) fn list(&mut self, from: Option<u64>, age: Duration) -> Result<()> {
        self.local = self.folder.as_deref().map_or_else(|| Ok(Vec::new()), bases)?;
        self.described = None;
        if self.tier.is_some() && self.local.first().is_none_or(|first| from.is_none_or(|from| from < *first))
        {
            self.refresh(age)?;
            self.gone.clear();
        }
        Ok(())
    }

    /// Leaves out the segment that is listed and was not there when it was opened; `false` if there is none.
    fn leave_out(&mut self) -> bool {
        self.absent.take().is_some_and(|base| self.gone.insert(base))
    }

    fn is_local(&self, base: u64) -> bool {
        self.local.binary_search(&base).is_ok()
    }

    /// Description of a segment that is in the store alone.
    pub(crate) fn stored(&mut self, base: u64) -> Result<Option<Sealed>> {
        if self.is_local(base) {
            return Ok(None);
        }
        let found = self.stored_around(base)?.0;
        Ok(found.filter(|sealed| sealed.base == base))
    }

    /// Description of a segment, if there is one.
    pub(crate) fn described(&mut self, base: u64) -> Result<Option<Sealed>> {
        if !self.is_local(base) {
            return self.stored(base);
        }
        if self.described.is_none() {
            self.described = Some(self.folder.as_deref().map_or_else(BTreeMap::new, listing::read));
        }
        Ok(self.described.as_ref().and_then(|described| described.get(&base)).cloned())
    }

    /// Segments of the store before and after an offset: a description, and a first offset.
    fn stored_around(&mut self, offset: u64) -> Result<(Option<Sealed>, Option<u64>)> {
        match self.known_around(offset) {
            // The page may have been replaced since the state was read.
            Err(Error::BadFile { .. }) if self.refresh(MOMENT)? => self.known_around(offset),
            found => found,
        }
    }

    /// Reads the state of the store; `false` if it is the one that is known.
    fn refresh(&mut self, age: Duration) -> Result<bool> {
        let Some(tier) = &self.tier else { return Ok(false) };
        let state = tier.state(age)?;
        let same = self.state.as_ref().is_some_and(|known| Arc::ptr_eq(known, &state));
        if !same {
            // Segments of the store may have been replaced by a larger one that begins where they did.
            self.view = self.view.take().filter(|view| !view.is_stored());
            self.page = None;
        }
        self.state = Some(state);
        Ok(!same)
    }

    fn known_around(&mut self, offset: u64) -> Result<(Option<Sealed>, Option<u64>)> {
        let Some(state) = self.state.clone() else { return Ok((None, None)) };
        let Some(tiered) = state.get(&self.shard) else { return Ok((None, None)) };
        let is_before = |sealed: &Sealed| sealed.base <= offset || sealed.end <= tiered.trimmed;
        let tail = tiered.segments.first().map(|first| first.base);
        let page = tiered.pages.partition_point(|page| page.base <= offset || page.end <= tiered.trimmed);
        let (segments, behind);
        let loaded;
        if tail.is_some_and(|tail| tail <= offset) || page == 0 {
            let next = tiered.pages.get(page).map(|page| page.base);
            (segments, behind) = (&tiered.segments, next.filter(|_| tail.is_none_or(|tail| tail > offset)));
        } else {
            loaded = self.load(&tiered.pages[page - 1])?;
            (segments, behind) = (&*loaded, tiered.pages.get(page).map(|page| page.base).or(tail));
        }
        let at = segments.partition_point(is_before);
        let before = segments[..at].iter().rev().find(|sealed| !self.gone.contains(&sealed.base));
        let before = before.filter(|sealed| sealed.end > tiered.trimmed);
        let after = segments[at..].iter().find(|sealed| !self.gone.contains(&sealed.base));
        let after = after.map(|sealed| sealed.base);
        // Pages come before the segments that are in none.
        Ok((before.cloned(), if page == 0 { behind.or(after) } else { after.or(behind) }))
    }

    /// Segments of a page.
    fn load(&mut self, page: &Page) -> Result<Arc<Vec<Sealed>>> {
        if let Some((base, loaded)) = &self.page
            && *base == page.base
        {
            return Ok(loaded.clone());
        }
        let Some(tier) = &self.tier else { return Ok(Arc::default()) };
        let loaded = tier.pages(self.shard, core::slice::from_ref(page))?.pop().unwrap_or_default();
        self.page = Some((page.base, loaded.clone()));
        Ok(loaded)
    }

    /// Segments with rows between two offsets that may have wanted rows, at most so many, and the number of those that
    /// have none. Opens none of them.
    pub(crate) fn select(
        &mut self,
        (from, to): (u64, u64),
        selection: Option<&Selection>,
        most: usize,
    ) -> Result<(Vec<Listed>, u64)> {
        let (mut found, mut skipped) = (Vec::new(), 0);
        let may = |sealed: &Sealed| selection.is_none_or(|selection| selection.may_be_in(sealed));
        if let Some(state) = self.state.clone()
            && let Some(tiered) = state.get(&self.shard)
        {
            let from = from.max(tiered.trimmed);
            let mut each = |sealed: &Sealed| {
                let Sealed { base, end, bytes, .. } = *sealed;
                // The folder may still have the last of the segments that this one has replaced.
                let local = self.local.partition_point(|local| *local < base);
                let behind = self.local.get(local).map_or(end, |local| end.min(*local));
                let outside = behind <= from || base >= to || behind == base;
                if outside || self.gone.contains(&base) {
                    return false;
                }
                if may(sealed) {
                    let bytes = share(bytes, behind - base, end - base);
                    found.push(Listed { base, behind, bytes: Some(bytes) });
                } else {
                    skipped += 1;
                }
                found.len() >= most
            };
            let mut left = 0;
            let pages = tiered.pages.iter().filter(|page| page.end > from && page.base < to);
            let pages = pages.filter(|page| {
                let may = selection.is_none_or(|selection| selection.may_be_in_page(page));
                left += if may { 0 } else { page.segments };
                may
            });
            let pages: Vec<Page> = pages.cloned().collect();
            let mut full = false;
            for pages in pages.chunks(PAGES) {
                let Some(tier) = &self.tier else { break };
                let loaded = tier.pages(self.shard, pages)?;
                full = loaded.iter().flat_map(|page| page.iter()).any(&mut each);
                if full {
                    break;
                }
            }
            let _ = full || tiered.segments.iter().any(&mut each);
            skipped += left;
        }
        let at = self.local.partition_point(|base| *base <= from).saturating_sub(1);
        let bases: Vec<u64> = self.local[at..].iter().copied().take_while(|base| *base < to).collect();
        for (index, &base) in bases.iter().enumerate() {
            if found.len() >= most {
                break;
            }
            let behind = self.local.get(at + index + 1).copied().unwrap_or(u64::MAX);
            if behind <= from {
                continue;
            }
            let described = match selection {
                Some(_) => self.described(base)?.filter(|sealed| sealed.end <= behind),
                None => None,
            };
            if described.as_ref().is_none_or(may) {
                let end = described.map_or(behind, |sealed| sealed.end);
                found.push(Listed { base, behind: end, bytes: None });
            } else {
                skipped += 1;
            }
        }
        found.sort_unstable_by_key(|listed| listed.base);
        if selection.is_none() {
            // Offsets without a row behind a segment count with it.
            let last = found.last().map(|last| last.base);
            for index in 1..found.len() {
                found[index - 1].behind = found[index].base;
            }
            if let (Some(base), Some(last)) = (last, found.last_mut()) {
                last.behind = u64::MAX;
                if let Some(next) = self.around(base)?.1 {
                    last.behind = next;
                }
            }
        }
        Ok((found, skipped))
    }

    /// First offsets of all segments, ascending.
    pub(crate) fn all(&mut self) -> Result<Vec<u64>> {
        let (found, _) = self.select((0, u64::MAX), None, usize::MAX)?;
        Ok(found.iter().map(|listed| listed.base).collect())
    }

    /// The segment that begins at an offset.
    pub(crate) fn view(&mut self, base: u64) -> Result<&mut View> {
        let stored = !self.is_local(base);
        if self.view.as_ref().is_some_and(|view| (view.segment.head.base, view.is_stored()) == (base, stored))
        {
            return self.known_view();
        }
        let sealed = self.stored(base)?;
        self.open(base, sealed)
    }

    fn known_view(&mut self) -> Result<&mut View> {
        self.view.as_mut().ok_or_else(|| Error::Usage("a segment that is not there".to_owned()))
    }

    /// The segment of the store that has a row, beside files of the folder that do not have it.
    fn view_in_store(&mut self, offset: u64) -> Result<Option<&mut View>> {
        let sealed = self.stored_around(offset)?.0.filter(|sealed| sealed.end > offset);
        sealed.map(|sealed| self.open(sealed.base, Some(sealed))).transpose()
    }

    /// Opens a segment, of the store if it has a description.
    fn open(&mut self, base: u64, sealed: Option<Sealed>) -> Result<&mut View> {
        let is_known = |view: &View| view.segment.head.base == base && view.is_stored() && sealed.is_some();
        if !self.view.as_ref().is_some_and(is_known) {
            let stored = self.tier.clone().zip(sealed);
            let path = match (&stored, &self.folder) {
                (Some((tier, sealed)), _) => tier.path(self.shard, sealed),
                (None, folder) => folder.as_deref().unwrap_or(Path::new("")).join(name(base)),
            };
            let file = match &stored {
                Some((tier, sealed)) => {
                    let opened = tier.open(self.shard, sealed);
                    self.absent = opened.as_ref().is_err_and(Error::is_missing).then_some(base);
                    Source::Object(opened?)
                }
                None => Source::File(open_file(&path).map_err(Error::io("open", &*path))?),
            };
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
            self.view = Some(View { segment, entries: Vec::new(), listed: stored, broken: None });
            self.opened += 1;
        }
        self.known_view()
    }

    /// File of a segment in the folder.
    pub(crate) fn file(&self, base: u64) -> PathBuf {
        self.folder.as_deref().unwrap_or(Path::new("")).join(name(base))
    }

    /// First offsets of the segments before and after an offset.
    pub(crate) fn around(&mut self, offset: u64) -> Result<(Option<u64>, Option<u64>)> {
        let behind = self.local.partition_point(|base| *base <= offset);
        let before = behind.checked_sub(1).map(|index| self.local[index]);
        let after = self.local.get(behind).copied();
        let (stored, next) = self.stored_around(offset)?;
        let before = before.max(stored.map(|sealed| sealed.base));
        Ok((before, [after, next].into_iter().flatten().min()))
    }

    /// Offset up to which no row of the segment around an offset is wanted; `None` if some may be.
    fn pass(&mut self, offset: u64, selection: &Selection) -> Result<Option<u64>> {
        let before = self.local.first().is_none_or(|first| offset < *first);
        if before && self.state.is_none() && self.tier.is_some() {
            self.list(Some(offset), STALE)?;
        }
        if let Some(state) = self.state.clone()
            && let Some(tiered) = state.get(&self.shard)
            && self.local.first().is_none_or(|first| offset < *first)
        {
            let page = tiered.pages.partition_point(|page| page.end <= offset);
            let page = tiered.pages.get(page).filter(|page| page.base <= offset);
            if let Some(page) = page.filter(|page| !selection.may_be_in_page(page)) {
                self.passed += page.segments;
                let first = self.local.first().copied().unwrap_or(u64::MAX);
                return Ok(Some(page.end.min(first)));
            }
        }
        let (Some(base), behind) = self.around(offset)? else { return Ok(None) };
        if self.view.as_ref().is_some_and(|view| view.segment.head.base == base) {
            return Ok(None);
        }
        let end = behind.unwrap_or(u64::MAX);
        let mut described = self.described(base)?;
        if !self.is_local(base)
            && let Some(sealed) = &mut described
        {
            // The folder may still have the last of the segments that this one has replaced.
            sealed.end = sealed.end.min(end);
        }
        let described = described.filter(|sealed| (offset + 1..=end).contains(&sealed.end));
        let passed = described.filter(|sealed| !selection.may_be_in(sealed));
        self.passed += u64::from(passed.is_some());
        Ok(passed.map(|sealed| sealed.end))
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
    /// Rows that are wanted; `None`: all.
    pub(crate) selection: Option<Arc<Selection>>,
}

impl Cursor {
    /// Offset up to which no row from another offset on is wanted, as far as known without opening a segment.
    pub(crate) fn pass(&mut self, next: u64, stop: u64) -> Result<u64> {
        let Some(selection) = self.selection.clone() else { return Ok(next) };
        let mut at = next;
        while at < stop
            && let Some(end) = self.log.pass(at, &selection)?
        {
            at = end;
        }
        Ok(at.min(stop))
    }

    /// Finds the block or hole at an offset, for a reader of the rows before `stop`.
    pub(crate) fn locate(&mut self, next: u64, stop: u64) -> Result<Place> {
        match self.look(next, stop) {
            // Written or deleted since the folder was listed; an object may have been replaced since it was opened.
            Ok(None) => {}
            Err(Error::Io { .. }) => self.log.view = None,
            Ok(Some(place)) => return Ok(place),
            Err(error) => return self.say_where_it_goes_on(error, next),
        }
        self.log.list(Some(next), MOMENT)?;
        let (shard, mark) = (self.log.shard, self.spool.mark(self.log.shard)?);
        if next < mark.earliest {
            let (earliest, end) = (mark.earliest, mark.end);
            return Err(Error::OutOfRange { shard, offset: next, earliest, end });
        }
        let mut looked = self.look(next, stop);
        if matches!(looked, Ok(None)) && next < mark.rows_to && self.log.tier.is_some() {
            // A file that was removed may be in the store, for less than the moment that the state is known.
            self.log.list(None, Duration::ZERO)?;
            looked = self.look(next, stop);
        }
        // What a store lists and does not have is missing, like a file that was removed from a folder.
        while looked.as_ref().is_err_and(Error::is_missing) && self.log.leave_out() {
            looked = self.look(next, stop);
        }
        match looked {
            Ok(Some(place)) => Ok(place),
            Ok(None) if mark.rows_to <= next => Ok(Place::Hole(mark.end)),
            Ok(None) => {
                let until = self.log.around(next)?.1.unwrap_or(mark.rows_to);
                match self.damage(next)? {
                    Some(problem) => Err(self.corrupt(next, problem, Some(until.max(next)))),
                    None => Err(Error::Missing { shard, offset: next, until: until.min(stop) }),
                }
            }
            Err(error) => self.say_where_it_goes_on(error, next),
        }
    }

    /// Adds the offset at which reading resumes (the next segment, or the end) to damage of a segment.
    fn say_where_it_goes_on<T>(&mut self, mut error: Error, next: u64) -> Result<T> {
        if let Error::Corrupt { resumes: resumes @ None, offset, .. } = &mut error {
            *resumes = match self.log.around(next.max(*offset))?.1 {
                Some(base) => Some(base),
                None => Some(self.spool.mark(self.log.shard)?.end),
            };
        }
        Err(error)
    }

    /// Problem of the segment that should hold a row.
    fn damage(&mut self, next: u64) -> Result<Option<String>> {
        match self.log.around(next)?.0 {
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
        let (at, behind) = self.log.around(next)?;
        let until = stop.min(behind.unwrap_or(u64::MAX));
        if let Some(base) = at {
            if let Some(entry) = self.log.view(base)?.find(next, until)? {
                return Ok(Some(Place::Block(entry)));
            }
            // A file may have been removed whose rows are in a segment of the store that begins before the others.
            if self.log.is_local(base)
                && let Some(view) = self.log.view_in_store(next)?
                && let Some(entry) = view.find(next, until)?
            {
                return Ok(Some(Place::Block(entry)));
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

    /// The block that was found at an offset, with its octets. An object that was replaced or deleted since it was
    /// opened is looked for again.
    pub(crate) fn fetch(&mut self, entry: Entry, (next, stop): (u64, u64)) -> Result<(Entry, Buffer)> {
        let error = match self.octets(&entry) {
            Err(error) if error.is_missing() => error,
            octets => return Ok((entry, octets?)),
        };
        self.log.view = None;
        self.log.list(Some(next), MOMENT)?;
        match self.locate(next, stop)? {
            Place::Block(entry) => Ok((entry, self.octets(&entry)?)),
            Place::Hole(_) => Err(error),
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
