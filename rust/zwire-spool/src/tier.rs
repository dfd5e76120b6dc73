//! Sealed segments outside the folder: the interface of a store, and the description of a segment for it.
//!
//! This crate has no sockets: [`Tier`] is implemented elsewhere, and called by readers.

use crate::{
    consumers::{self, Consumer, Offsets},
    describe::Describer,
    error::{Error, Result},
    head::SpoolId,
    index::Entry,
    layout::{Layout, Shard},
    meta::{Meta, read_json, write_json},
    read_at::{ReadAt, open_file, read_exactly},
    sealed::share,
    segment::{Found, Segment},
    shard::Mark,
};
pub use crate::{
    keys::{Keys, MAX_KEYS},
    merge::Merger,
    sealed::{PAGE, Page, Sealed},
};
use core::fmt;
use serde_json::{Value as Json, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Octets read at once for the checksum of a file.
const CHUNK: usize = 1 << 20;
/// Age at which the state of a store is read again: a program may ask for the end of a spool a hundred times a second.
pub const STALE: Duration = Duration::from_secs(1);
/// The same for a reader that did not find what it was looking for.
pub const MOMENT: Duration = Duration::from_millis(100);
/// File of a folder with the place of its store.
const NAME: &str = "tier.json";

/// Segments of one shard in a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tiered {
    /// Offset before which rows were deleted.
    pub trimmed: u64,
    /// Messages that were dropped on the way to the shard.
    pub drops: u64,
    /// Pages of the older segments, by their first offset, ascending.
    pub pages: Vec<Page>,
    /// Segments that are in no page, the newer ones, by their first offset, ascending.
    pub segments: Vec<Sealed>,
}

impl Tiered {
    /// First offset; that of the next row if there is no segment.
    pub fn first(&self) -> u64 {
        let page = self.pages.first().map(|first| first.base.max(self.trimmed));
        page.or(self.segments.first().map(|first| first.base)).unwrap_or(self.trimmed)
    }

    /// Offset after the last row; that of the next row if there is no segment.
    pub fn end(&self) -> u64 {
        let page = self.pages.last().map(|page| page.end);
        self.segments.last().map(|last| last.end).or(page).unwrap_or(0)
    }

    /// Whether a segment is there, or a larger one with its rows, and in no page.
    pub fn has(&self, segment: &Sealed) -> bool {
        let at = self.segments.partition_point(|known| known.base <= segment.base).checked_sub(1);
        let is_in =
            |known: &Sealed| known.end >= segment.end && known.end - known.base > segment.end - segment.base;
        at.is_some_and(|at| self.segments[at] == *segment || is_in(&self.segments[at]))
    }

    /// Whether rows before an offset are not deleted.
    pub fn has_before(&self, offset: u64) -> bool {
        let page = self.pages.first().is_some_and(|page| page.base < offset && self.trimmed < offset);
        page || self.segments.first().is_some_and(|first| first.end <= offset)
    }

    /// Octets of all segments; of a page with deleted ones a share.
    pub fn bytes(&self) -> u64 {
        let page = |page: &Page| {
            let left = page.end - self.trimmed.clamp(page.base, page.end);
            share(page.bytes, left, page.end - page.base)
        };
        let pages = self.pages.iter().map(page).sum::<u64>();
        pages + self.segments.iter().map(|segment| segment.bytes).sum::<u64>()
    }

    /// State of the shard for readers of the store alone.
    pub fn mark(&self) -> Mark {
        let (page, last) = (self.pages.last(), self.segments.last());
        let end = self.end().max(self.trimmed);
        let times = last.map(|last| last.times.1).or(page.map(|page| page.times.1));
        Mark {
            earliest: self.first(),
            end,
            rows_to: end,
            last_time: times.unwrap_or(0),
            drops: self.drops,
            bytes: self.bytes(),
        }
    }
}

/// Changes of the number of shards of a spool in a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Number of shards that have rows, or may get some; 0 if it is that of the description.
    pub shards: u32,
    /// Number of shards that keys are spread over now; 0 likewise.
    pub count: u32,
    /// Number of all changes so far.
    pub generation: u32,
    /// The last changes, the oldest first.
    pub past: Vec<Past>,
}

/// A change of the number of shards.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Past {
    /// Number of shards that keys were spread over before.
    pub count: u32,
    /// Ends of all shards: rows of a key before these offsets come before its rows from there on, which may be in another
    /// shard.
    pub ends: Offsets,
}

impl Changes {
    /// Number of changes before the first one that is known.
    pub fn oldest(&self) -> u32 {
        self.generation - self.past.len() as u32
    }

    /// The change behind so many others; `None` if it was not made yet.
    pub fn after(&self, generation: u32) -> Option<&Past> {
        self.past.get(generation.checked_sub(self.oldest())? as usize)
    }

    /// Number of shards that keys were spread over behind so many changes.
    pub fn count_after(&self, generation: u32) -> u32 {
        self.after(generation).map_or(self.count, |past| past.count)
    }
}

/// Segments of all shards in a store.
pub type TierState = BTreeMap<Shard, Tiered>;

/// Store of sealed segments.
pub trait Tier: fmt::Debug + Send + Sync {
    /// Address of the store, for messages.
    fn place(&self) -> &str;

    /// Octets of the description of the spool; `None` if the store has none.
    fn meta(&self) -> Result<Option<Vec<u8>>>;

    /// Segments that the store has, as read at most so long ago.
    fn state(&self, age: Duration) -> Result<Arc<TierState>>;

    /// Address of a segment, for messages.
    fn path(&self, shard: Shard, segment: &Sealed) -> PathBuf;

    /// Segments of some pages. A page that cannot be read is [`Error::BadFile`].
    fn pages(&self, shard: Shard, pages: &[Page]) -> Result<Vec<Arc<Vec<Sealed>>>>;

    /// Opens a segment. A segment that does not exist is [`Error::Io`] with the kind `NotFound`.
    fn open(&self, shard: Shard, segment: &Sealed) -> Result<Box<dyn ReadAt + Send + Sync>>;

    /// List of the blocks of a segment.
    fn index(&self, shard: Shard, segment: &Sealed) -> Result<Vec<u8>>;

    /// Spooler that writes a spool which several share: its epoch of the lease, and its host.
    fn holder(&self) -> Result<Option<(u32, String)>> {
        Ok(None)
    }

    /// Spoolers that hold the shards of a spool which several share by them: of each shard that has one, the number of
    /// its claim, and the host.
    fn holders(&self) -> Result<Option<BTreeMap<u32, (u32, String)>>> {
        Ok(None)
    }

    /// How the number of shards has changed.
    fn changes(&self) -> Result<Changes> {
        Ok(Changes::default())
    }

    /// Files of consumers, by name; at most so many.
    fn consumers(&self, most: usize) -> Result<Vec<(String, Vec<u8>)>>;

    /// Replaces the file of a consumer.
    fn write_consumer(&self, name: &str, octets: Vec<u8>) -> Result<()>;
}

/// Consumers that have committed in a store.
pub fn consumers_in(tier: &dyn Tier, id: &SpoolId) -> Result<BTreeMap<String, Consumer>> {
    consumers::all_in(tier, id)
}

/// Store of the spool in a folder, as noted there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Noted {
    /// Address of the store.
    pub url: String,
    /// Last epoch of the lease in which this folder was written, 0 before the first; `None` if the spool is not shared.
    /// The folder of a shared spool has no rows for readers.
    pub shared: Option<u32>,
    /// If spoolers hold shards of the spool: by the number of the shard the last claim under which this folder was written.
    pub claims: Option<BTreeMap<u32, u32>>,
}

/// Store that has segments of the spool in a folder, if there is one.
pub fn place_of(dir: &Path, meta: &Meta) -> Result<Option<Noted>> {
    let path = dir.join(NAME);
    let Some(json) = read_json(&path)? else { return Ok(None) };
    if json.get("spool").and_then(Json::as_str) != Some(&meta.id_text()) {
        return Err(Error::Mismatch { path, problem: "of another spool".to_owned() });
    }
    let shared = json.get("shared").and_then(Json::as_u64).and_then(|epoch| u32::try_from(epoch).ok());
    let claim =
        |(shard, epoch): (&String, &Json)| Some((shard.parse().ok()?, u32::try_from(epoch.as_u64()?).ok()?));
    let claims = json.get("claims").and_then(Json::as_object);
    let claims = claims.map(|claims| claims.iter().filter_map(claim).collect());
    match json.get("url").and_then(Json::as_str) {
        Some(url) => Ok(Some(Noted { url: url.to_owned(), shared, claims })),
        None => Err(Error::BadFile { path, problem: "names no store".to_owned() }),
    }
}

/// Notes the store, so that readers of the folder find it. A folder has one store for ever: its segments are there.
pub fn note_place(dir: &Path, meta: &Meta, place: &Noted) -> Result<()> {
    let known = place_of(dir, meta)?;
    if known.as_ref() == Some(place) {
        return Ok(());
    }
    let Noted { url, shared, claims } = place;
    if let Some(known) = known.filter(|known| known.url != *url) {
        let problem = format!("segments of this spool are in {}, not in {url}", known.url);
        return Err(Error::Mismatch { path: dir.to_owned(), problem });
    }
    let mut json = json!({ "v": 1, "spool": meta.id_text(), "url": url });
    if let Some(epoch) = shared {
        json["v"] = 2.into();
        json["shared"] = (*epoch).into();
    }
    if let Some(claims) = claims {
        json["v"] = 3.into();
        json["claims"] = claims.iter().map(|(shard, epoch)| (shard.to_string(), json!(epoch))).collect();
    }
    write_json(&dir.join(NAME), json)
}

/// Describes the sealed segment in a file, and makes the list of its blocks. `end` is the offset up to which its
/// shard has rows in it, for a file that is damaged.
pub fn describe(
    path: &Path,
    id: &SpoolId,
    (shard, layout): (Shard, &Layout),
    (base, end): (u64, u64),
) -> Result<(Sealed, Vec<u8>)> {
    let file = open_file(path).map_err(Error::io("open", path))?;
    let mut sealed = Sealed {
        base,
        end,
        bytes: ReadAt::len(&file).map_err(Error::io("read", path))?,
        ..Sealed::default()
    };
    let mut at = 0;
    while at < sealed.bytes {
        let len = (sealed.bytes - at).min(CHUNK as u64) as usize;
        sealed.crc = crc32c::crc32c_append(sealed.crc, &read_exactly(&file, path, at, len)?);
        at += len as u64;
    }
    let mut describer = Describer::new(layout);
    let damage = match Segment::new(file, path.to_owned(), layout) {
        Ok(Some(segment)) => {
            segment.belongs(id, shard, base)?;
            let each = &mut |entry, octets: &_| describer.add(entry, octets);
            let (_, next, found) = segment.scan(segment.start, base, each)?;
            match found {
                Found::Broken(problem) => Some(problem),
                _ if next == base => Some("has no rows".to_owned()),
                _ => {
                    sealed.end = next;
                    None
                }
            }
        }
        Ok(None) => Some("is shorter than the beginning of a segment".to_owned()),
        Err(Error::BadFile { problem, .. }) => Some(problem),
        Err(error) => return Err(error),
    };
    let Sealed { rows, times, keys, .. } = describer.describe(base);
    sealed = Sealed { rows, times, keys, problem: damage, ..sealed };
    Ok((sealed, describer.entries.iter().flat_map(Entry::encode).collect()))
}
