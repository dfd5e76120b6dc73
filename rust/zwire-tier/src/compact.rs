//! Compaction: neighbouring small segments of a store become one with the same blocks. Deletion of objects that no
//! entry of the manifest names.
//!
//! A merged segment is written to a file, uploaded and read back like any other; one entry of the manifest then replaces
//! its parts by it. The parts stay for a while ([`GRACE`]), for readers that have planned to read them, and are deleted behind an
//! entry that dooms them. A crash leaves objects that no entry names: the merged one before the entry, its parts after it.
//! They are found by a list of the store ([`TierWriter::sweep_orphans`]), once they are old.
//!
//! A store without a spooler is compacted by another process, which adds its entries on behalf of the last author: a
//! merge has the rows of its parts, so it needs no epoch of its own, and a spooler that finds such an entry in the place of
//! its next one applies it and goes on behind it.

use crate::{
    manifest::{Change, Manifest, Merge},
    object::Object,
    place::{Access, Place},
    store::{Clock, META, Site, Store, find, index_name, page_name, segment_name},
    writer::{TierWriter, came_back, put},
};
use bytes::Bytes;
use core::{ops::Range, sync::atomic::Ordering, time::Duration};
use futures_util::{StreamExt as _, TryStreamExt as _, future::ready, stream};
use object_store::ObjectStore as _;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    fs, io,
    path::Path,
    sync::Arc,
};
use zwire_spool::{
    Error, Layout, Meta, ReadAt, Result, Shard, Spool,
    layout::GAPS,
    tier::{Merger, PAGE, Page, Sealed, Tier as _, place_of},
};

/// Time for which replaced objects stay: a reader looks again for an object that is gone, in a state that is not older
/// than a second.
pub const GRACE: Duration = Duration::from_secs(60);
/// Octets of a merged segment, to those of its largest part, at least: a row is written again a few times, however many
/// small segments follow it.
const GROWTH: u64 = 4;
/// Most segments that become one.
const MOST: usize = 4096;
/// Segments that are opened at once; each has its first 64 KiB in memory.
const AT_ONCE: usize = 8;

/// Sizes of merged segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Most octets of the parts of one.
    pub bytes: u64,
    /// Least number of parts.
    pub parts: usize,
}

/// Segments that were replaced by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compacted {
    /// Number of the replaced segments.
    pub segments: u64,
    /// Size of the new one in octets.
    pub bytes: u64,
}

/// Objects that no entry names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Orphans {
    /// Their number.
    pub objects: u64,
    /// Their size in octets.
    pub bytes: u64,
}

/// Work of compaction that is not done.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Names of objects that the next entry dooms.
    pub(crate) dooming: Vec<String>,
    /// Replaced objects that readers may still need, since a time of the clock.
    retired: VecDeque<(Duration, Vec<String>)>,
    /// Segments that cannot be merged, because they are damaged or missing.
    spoiled: BTreeSet<(Shard, u64)>,
    /// Names of pages without segments that should be merged.
    settled: HashSet<String>,
}

/// Segments that become one: the first that are small beside their sum.
fn choose(segments: &[Sealed], sizes: Sizes, is_spoiled: impl Fn(&Sealed) -> bool) -> Option<Range<usize>> {
    let fits = |segment: &Sealed| segment.problem.is_none() && segment.rows > 0 && !is_spoiled(segment);
    let mut from = 0;
    while from < segments.len() {
        let (mut sum, mut largest, mut best) = (0_u64, 0, None);
        for (at, segment) in segments.iter().enumerate().skip(from).take(MOST) {
            let follows = at == from || segments[at - 1].end == segment.base;
            if !follows || !fits(segment) || sum + segment.bytes > sizes.bytes {
                break;
            }
            sum += segment.bytes;
            largest = largest.max(segment.bytes);
            if at + 1 - from >= sizes.parts.max(2) && sum >= GROWTH * largest {
                best = Some(from..at + 1);
            }
        }
        if best.is_some() {
            return best;
        }
        from += 1;
    }
    None
}

/// Opens the store of a spool for compaction by a process that has no spooler: at its address, or that of the folder
/// which gives its segments to it. Fails with [`Error::Usage`] if a folder has no store.
pub fn join(place: &Path, clock: Clock) -> Result<TierWriter> {
    let place = match find(place)? {
        Site::Store(place) => place,
        Site::Folder(folder) => {
            let noted = place_of(&folder, Spool::open(&folder)?.meta())?.ok_or_else(|| {
                Error::Usage(format!(
                    "{}: the spool has no tier; segments of a folder are not merged",
                    folder.display()
                ))
            })?;
            Place::parse(&noted.url)?
        }
    };
    // A writer would make the folder of a store in files.
    let octets = Store::at(place.clone(), Access::Read, clock).meta()?;
    let octets = octets.ok_or_else(|| Error::Usage(format!("{place}: there is no spool (no {META})")))?;
    let meta = Meta::decode(&octets, &Path::new(place.as_str()).join(META))?;
    let mut writer = TierWriter::over(Arc::new(Store::at(place, Access::Write, clock)), &meta)?;
    writer.adopt()?;
    // What an earlier process has doomed before it was stopped; a merge may have the same name.
    writer.hint()?;
    writer.sweep()?;
    Ok(writer)
}

impl TierWriter {
    /// Learns of the entries that were added, and goes on for the author of the last one.
    pub fn adopt(&mut self) -> Result<()> {
        self.manifest = self.latest()?;
        if self.manifest.number == 0 {
            return Err(Error::Usage(format!("{}: no spooler has written segments there yet", self.place())));
        }
        self.author = self.manifest.author.clone();
        self.spread = self.manifest.members.is_some();
        Ok(())
    }

    /// State after the last entry.
    fn latest(&self) -> Result<Manifest> {
        let (id, mut manifest) = (self.id, self.manifest.clone());
        self.store.call(|client| async move {
            client.follow(&id, &mut manifest).await?;
            Ok(manifest)
        })
    }

    /// Learns of entries of this author that another process has added; `false` if there are none. Fails if they are of a
    /// later start of the spool, each time: a writer that is over learns nothing of those.
    pub(crate) fn catch_up(&mut self) -> Result<bool> {
        let latest = self.latest()?;
        if latest.number > 0 {
            self.check_kind(latest.members.is_some())?;
        }
        self.check(&latest.author)?;
        let has_more = latest.number != self.manifest.number;
        self.manifest = latest;
        Ok(has_more)
    }

    /// Fails if objects are about to be deleted that an entry is to name: their deletion is done before they are written
    /// again.
    pub(crate) fn refuse_doomed(&mut self, names: impl IntoIterator<Item = String>) -> Result<()> {
        let names: HashSet<String> = names.into_iter().collect();
        let gone = self.gone;
        let is_doomed = |(number, name): &&(u64, String)| *number > gone && names.contains(name);
        let Some((_, name)) = self.manifest.doomed.iter().find(is_doomed).cloned() else { return Ok(()) };
        self.hint()?;
        self.sweep()?;
        let problem =
            format!("{name} was left there by an earlier attempt and has been deleted; it is written again");
        Err(Error::Unreachable { place: self.place().to_owned(), problem, at: None })
    }

    /// Replaces some neighbouring small segments by one that is written to a file at `scratch` first. Each call does a part
    /// of the work, of at most `sizes.bytes` octets; `None` if nothing is left to do, a number of 0 if only pages were
    /// replaced, a part is damaged, the writer is to end, or another process was faster.
    pub fn compact(&mut self, sizes: Sizes, scratch: &Path, at: i64) -> Result<Option<Compacted>> {
        self.retire(GRACE, at)?;
        let shards: Vec<Shard> = self.manifest.shards.keys().copied().collect();
        for shard in shards {
            let done = match self.compact_shard(shard, sizes, scratch, at) {
                // A page that another process has replaced.
                Err(Error::BadFile { .. }) if self.catch_up()? => Some(Compacted::default()),
                done => done?,
            };
            if done.is_some() {
                return Ok(done);
            }
        }
        Ok(None)
    }

    fn compact_shard(
        &mut self,
        shard: Shard,
        sizes: Sizes,
        scratch: &Path,
        at: i64,
    ) -> Result<Option<Compacted>> {
        let Some(state) = self.manifest.shards.get(&shard).cloned() else { return Ok(None) };
        if let Some(parts) = self.choose(shard, &state.segments, sizes) {
            let parts = &state.segments[parts];
            let Some(into) = self.merge(shard, parts, scratch)? else {
                return Ok(Some(Compacted::default()));
            };
            let compacted = Compacted { segments: parts.len() as u64, bytes: into.bytes };
            let done = self.replace(shard, Merge::Segment(into), object_names(shard, parts), at)?;
            return Ok(Some(if done { compacted } else { Compacted::default() }));
        }
        for (index, page) in state.pages.iter().enumerate() {
            let name = page_name(shard, page);
            if self.pending.settled.contains(&name) {
                continue;
            }
            let left = |segments: &[Sealed]| {
                segments.iter().filter(|segment| segment.end > state.trimmed).cloned().collect::<Vec<_>>()
            };
            let pages = self.store.pages(shard, core::slice::from_ref(page))?;
            let mut segments = left(&pages[0]);
            if let Some(parts) = self.choose(shard, &segments, sizes) {
                let Some(into) = self.merge(shard, &segments[parts.clone()], scratch)? else {
                    return Ok(Some(Compacted::default()));
                };
                let compacted = Compacted { segments: parts.len() as u64, bytes: into.bytes };
                let mut names = object_names(shard, &segments[parts.clone()]);
                names.push(name);
                segments.splice(parts, [into]);
                let new = self.write_page(shard, &segments)?;
                let done = self.replace(shard, Merge::Page(vec![page.clone()], new), names, at)?;
                return Ok(Some(if done { compacted } else { Compacted::default() }));
            }
            self.pending.settled.insert(name.clone());
            // Pages with few segments become one, which may have some at their seam that fit together.
            if let Some(before) = index.checked_sub(1).map(|index| &state.pages[index])
                && before.segments + page.segments <= PAGE as u64
            {
                let old = [before.clone(), page.clone()];
                let both = self.store.pages(shard, &old)?;
                let segments: Vec<Sealed> = both.iter().flat_map(|page| left(page)).collect();
                let new = self.write_page(shard, &segments)?;
                let names = old.iter().map(|page| page_name(shard, page)).collect();
                self.replace(shard, Merge::Page(old.to_vec(), new), names, at)?;
                return Ok(Some(Compacted::default()));
            }
        }
        Ok(None)
    }

    pub(crate) fn choose(&self, shard: Shard, segments: &[Sealed], sizes: Sizes) -> Option<Range<usize>> {
        let spoiled = &self.pending.spoiled;
        choose(segments, sizes, |segment| spoiled.contains(&(shard, segment.base)))
    }

    /// Puts one object into the place of others; `false` if another process has changed them.
    fn replace(&mut self, shard: Shard, merge: Merge, names: Vec<String>, at: i64) -> Result<bool> {
        let change = Change { merges: vec![merge.clone()], ..Change::default() };
        self.record(BTreeMap::from([(shard, change)]), at)?;
        self.hint()?;
        let state = self.manifest.shards.get(&shard);
        let is_there = state.is_some_and(|state| match &merge {
            Merge::Segment(into) => state.segments.contains(into),
            Merge::Page(_, into) => state.pages.contains(into),
        });
        if is_there {
            self.pending.retired.push_back((self.store.now(), names));
        }
        Ok(is_there)
    }

    /// Uploads one segment with the blocks of several; `None` if one of them cannot be read.
    fn merge(&mut self, shard: Shard, parts: &[Sealed], scratch: &Path) -> Result<Option<Sealed>> {
        let layout = match shard {
            Shard::Data(_) => self.layout.clone(),
            Shard::Gaps => Layout::whole(&GAPS),
        };
        let made = self.merge_into(shard, &layout, parts, scratch);
        if let Err(error) = fs::remove_file(scratch)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("{}: could not delete the file: {error}", scratch.display());
        }
        made
    }

    fn merge_into(
        &mut self,
        shard: Shard,
        layout: &Layout,
        parts: &[Sealed],
        scratch: &Path,
    ) -> Result<Option<Sealed>> {
        let mut merger = Merger::new(scratch, self.id, shard, layout)?;
        for some in parts.chunks(AT_ONCE) {
            if self.halt.load(Ordering::Acquire) {
                return Ok(None);
            }
            let opened = self.store.call(|client| async move {
                let opens = some.iter().map(|part| {
                    let (client, path) = (client.clone(), client.path(&segment_name(shard, part)));
                    async move { Object::open(client.store, client.place, path).await }
                });
                let opens: Vec<_> = opens.collect();
                Ok(stream::iter(opens).buffered(AT_ONCE).collect::<Vec<_>>().await)
            })?;
            for (part, object) in some.iter().zip(opened) {
                let added = object.and_then(|object| {
                    let object: Box<dyn ReadAt + Send + Sync> = Box::new(object);
                    merger.add(part, self.store.path(shard, part), object)
                });
                match added {
                    Ok(()) => {}
                    Err(error) if is_damage(&error) => {
                        tracing::warn!("{error}; the segment stays as it is");
                        self.pending.spoiled.insert((shard, part.base));
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let (sealed, index) = merger.finish()?;
        self.upload(scratch, shard, &sealed, index)?;
        Ok(Some(sealed))
    }

    pub(crate) fn write_page(&self, shard: Shard, segments: &[Sealed]) -> Result<Page> {
        let bad = |problem| Error::Mismatch { path: self.place().into(), problem };
        let (page, octets) = Page::pack(segments).map_err(bad)?;
        let name = page_name(shard, &page);
        self.store.call(|client| async move {
            let octets = Bytes::from(octets);
            put(&client, &name, octets.clone()).await?;
            came_back(&client, &name, &octets).await
        })?;
        Ok(page)
    }

    /// Time until [`Self::retire`] deletes the last replaced objects; `None` if there are none.
    pub fn retires_in(&self, grace: Duration) -> Option<Duration> {
        let (since, _) = self.pending.retired.back()?;
        Some((*since + grace).saturating_sub(self.store.now()))
    }

    /// Deletes objects that were replaced so long ago that no reader needs them any more.
    pub fn retire(&mut self, grace: Duration, at: i64) -> Result<()> {
        let now = self.store.now();
        while let Some((since, _)) = self.pending.retired.front()
            && now.saturating_sub(*since) >= grace
            && let Some((_, names)) = self.pending.retired.pop_front()
        {
            self.pending.dooming.extend(names);
        }
        self.doom(at)
    }

    /// Deletes objects behind an entry that says so: a process that is about to name one of them finds the entry.
    fn doom(&mut self, at: i64) -> Result<()> {
        if self.pending.dooming.is_empty() {
            return Ok(());
        }
        self.record(BTreeMap::new(), at)?;
        self.pending.dooming.clear();
        self.hint()?;
        self.sweep()
    }

    /// Deletes objects of segments and pages that no entry names, and were written longer ago than `age`: those of an
    /// upload or a merge that was stopped before its entry, or before its deletions.
    pub fn sweep_orphans(&mut self, age: Duration, at: i64) -> Result<Orphans> {
        self.catch_up()?;
        let limit = at.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
        let mut orphans = Orphans::default();
        let mut names = HashSet::new();
        let shards: Vec<Shard> = self.manifest.shards.keys().copied().collect();
        for shard in shards {
            let mut named = self.named(shard)?;
            named.sort_unstable();
            let known = self.manifest.doomed.iter().map(|(_, name)| name);
            let retired = self.pending.retired.iter().flat_map(|(_, names)| names);
            let known: HashSet<&str> = known.chain(retired).map(String::as_str).collect();
            let found = self.store.call(|client| async move {
                let folder = client.path(&shard.folder());
                let failed = |error| client.failed(&folder, "list", &error);
                let old = client.store.list(Some(&folder)).try_filter_map(|object| {
                    let name = object.location.filename().map(|name| format!("{}/{name}", shard.folder()));
                    let is_old = object.last_modified.timestamp_micros() < limit;
                    let orphan = name.filter(|name| {
                        let id = object_id(name);
                        is_old
                            && id.is_some_and(|id| named.binary_search(&id).is_err())
                            && !known.contains(&**name)
                    });
                    ready(Ok(orphan.map(|name| (name, object.size))))
                });
                old.try_collect::<Vec<_>>().await.map_err(failed)
            })?;
            orphans.objects += found.len() as u64;
            orphans.bytes += found.iter().map(|(_, size)| size).sum::<u64>();
            names.extend(found.into_iter().map(|(name, _)| name));
        }
        if orphans.objects > 0 {
            tracing::info!(
                "{}: {} objects that belong to no segment of the spool, of an upload that was stopped, are deleted",
                self.place(),
                orphans.objects
            );
        }
        self.pending.dooming.extend(names.iter().cloned());
        let done = self.doom(at);
        if done.is_err() {
            // The next search finds them again, unless an entry names them by then.
            self.pending.dooming.retain(|name| !names.contains(name));
        }
        done.map(|()| orphans)
    }

    /// Names of all objects of segments and pages that an entry names.
    pub(crate) fn named_names(&self) -> Result<HashSet<String>> {
        let mut names = HashSet::new();
        for (shard, state) in &self.manifest.shards {
            names.extend(object_names(*shard, &state.segments));
            names.extend(state.pages.iter().map(|page| page_name(*shard, page)));
            for pages in state.pages.chunks(AT_ONCE) {
                let pages = self.store.pages(*shard, pages)?;
                names.extend(pages.iter().flat_map(|page| object_names(*shard, page)));
            }
        }
        Ok(names)
    }

    /// First offsets and checksums of the segments and pages of a shard.
    fn named(&self, shard: Shard) -> Result<Vec<ObjectId>> {
        let Some(state) = self.manifest.shards.get(&shard) else { return Ok(Vec::new()) };
        let of_segment = |segment: &Sealed| (segment.base, segment.crc, false);
        let mut named: Vec<ObjectId> = state.segments.iter().map(of_segment).collect();
        named.extend(state.pages.iter().map(|page| (page.base, page.crc, true)));
        for pages in state.pages.chunks(AT_ONCE) {
            let pages = self.store.pages(shard, pages)?;
            named.extend(pages.iter().flat_map(|page| page.iter()).map(of_segment));
        }
        Ok(named)
    }
}

/// First offset and checksum of an object, and whether it is a page.
type ObjectId = (u64, u32, bool);

fn object_id(name: &str) -> Option<ObjectId> {
    let (stem, ending) = name.rsplit_once('/')?.1.split_once('.')?;
    let is_page = match ending {
        "arrow" | "idx" => false,
        "page" => true,
        _ => return None,
    };
    let (base, crc) = stem.split_once('-').filter(|(base, crc)| (base.len(), crc.len()) == (20, 8))?;
    Some((base.parse().ok()?, u32::from_str_radix(crc, 16).ok()?, is_page))
}

fn object_names(shard: Shard, segments: &[Sealed]) -> Vec<String> {
    segments.iter().flat_map(|old| [segment_name(shard, old), index_name(shard, old)]).collect()
}

/// Whether an error tells of a segment that stays unreadable.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::Corrupt { .. } | Error::BadFile { .. } | Error::Mismatch { .. } => true,
        Error::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}
