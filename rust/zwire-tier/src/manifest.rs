//! Manifest: the log of the store's own content.
//!
//! An entry is an object, numbered from 1 without a hole, that is created only if it does not exist: of several writers,
//! one makes an entry, and the others learn of it. The state is that of all entries one after the other; an entry with
//! the whole state makes those before it unnecessary. An entry is JSON with a checksum:
//!
//! | Field | Meaning |
//! |---|---|
//! | `v`, `spool`, `number` | version 1, 2 with pages, 3 if spoolers hold shards, 4 with `mapping`; id of the spool; its own number |
//! | `epoch`, `writer`, `at` | start of the spooler that made it, as in `meta.json`; a random number of that start; time |
//! | `whole` | whether the state begins with this entry |
//! | `shards` | by the name of the shard: `add`, the segments that came, `trim`, an offset before which rows are gone, `drops`, and `pages` |
//! | `members` | of version 3: by their random numbers the hosts of the spoolers that hold shards, or may take some |
//! | `mapping` | of version 4, if it changes or with the whole state: the number of shards, and how it has changed |
//! | `doomed`, `gone` | names of objects that are no longer needed; number of an entry: what it and those before it have doomed is deleted |
//!
//! A segment has `base`, `end`, `rows`, `bytes`, `crc32c`, `times`, `keys` (the summary in hexadecimal digits) and, if it
//! is damaged, `problem`. Readers skip fields that they do not know, so that a lease or a compression can be added.
//!
//! If spoolers hold shards, each shard of the state has a `claim`: the spooler that may write it (`writer`), the number of
//! its claim (`epoch`, from 1 without a hole), the offset before which it writes no rows (`start`), and whether it has given
//! the shard back (`released`), or to which spooler (`to`). Writers of all shards add entries to one log, each with a look at the claims before it.
//!
//! The number of shards is changed by two entries. The first one says which number is wanted (`wanted`). The spoolers give
//! all shards back then, as soon as the store has their rows. The second one closes them: it names the end of each shard
//! (`ends`), behind which rows of keys by the new number come. Between the two, no shard has a new claim, unless its spooler has
//! ended without giving it back.
//!
//! An entry with the whole state names the older segments by pages: an object `<shard>/<offset>-<crc>.page` describes
//! at most [`PAGE`] of them and never changes, so that each whole state names it again. A page has `base`, `end`, `segments`,
//! `bytes`, `crc32c` (of the object), `times`, and `keys`, if all its segments name theirs.
//!
//! Small segments, and pages with few of them, are replaced by larger ones in an entry with the whole state: of the
//! states before and after it, readers see one.

use core::ops::Range;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, VecDeque};
use zwire_spool::{
    Shard, SpoolId, hex, open_json, seal_json,
    tier::{Keys, PAGE, Page, Past, Sealed, TierState, Tiered},
    unhex,
};

/// Entries between two with the whole state: a reader that opens the store reads at most so many.
pub(crate) const WHOLE: u64 = 64;

/// Version of entries with pages.
const PAGED: u64 = 2;
/// Version of entries of a spool with a claim for each shard.
pub(crate) const SPREAD: u64 = 3;
/// Version of entries with the number of shards: programs that do not know it would read keys out of order, or write
/// them elsewhere.
pub(crate) const MAPPED: u64 = 4;
/// Changes of the number of shards that are remembered; a reader that is further behind may read rows of a key out of order.
pub(crate) const CHANGES: usize = 64;

/// Right of a spooler to write a shard, until another one claims it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Claim {
    /// Number of the claim: of two, the greater one counts.
    pub epoch: u32,
    /// Random number of the spooler.
    pub writer: String,
    /// Offset before which it writes no rows.
    pub start: u64,
    /// Whether the spooler has given the shard back.
    pub released: bool,
    /// Spooler that it has given the shard to.
    pub to: Option<String>,
}

impl Claim {
    /// Whether the claim is that of a spooler, and was not given back.
    pub fn is_of(&self, writer: &str, epoch: u32) -> bool {
        self.writer == writer && self.epoch == epoch && !self.released
    }

    fn to_json(&self) -> Json {
        let Self { epoch, writer, start, released, to } = self;
        json!({ "epoch": epoch, "writer": writer, "start": start, "released": released, "to": to })
    }

    fn from_json(json: &Json) -> Option<Self> {
        Some(Self {
            epoch: u32::try_from(number(json, "epoch")?).ok()?,
            writer: json.get("writer")?.as_str()?.to_owned(),
            start: number(json, "start")?,
            released: json.get("released")?.as_bool()?,
            to: json.get("to").and_then(Json::as_str).map(str::to_owned),
        })
    }
}

/// Spoolers that hold shards, or may take some: by their random numbers, the hosts.
pub type Members = BTreeMap<String, String>;

/// Change of the number of shards that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Number of shards.
    pub shards: u32,
    /// Spoolers that held shards then: they have received all that no shard gets meanwhile.
    pub takers: Vec<String>,
}

/// Number of shards over which keys are spread by their checksums, and how it has changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mapping {
    /// Number of changes so far.
    pub generation: u32,
    /// Present number.
    pub shards: u32,
    /// Greatest number that it has had: so many shards may have rows.
    pub greatest: u32,
    /// Change that was asked for and is not made.
    pub wanted: Option<Asked>,
    /// The last changes, the oldest first.
    pub closed: Vec<Past>,
    /// Spoolers that may take shards after the last change, until each shard has one; none if any may.
    pub takers: Vec<String>,
}

impl Mapping {
    /// Number of shards behind so many changes, as far as it is remembered; the present one beyond.
    pub fn shards_after(&self, generation: u32) -> u32 {
        let later = self.generation.saturating_sub(generation) as usize;
        let past = self.closed.len().checked_sub(later).and_then(|at| self.closed.get(at));
        past.map_or(self.shards, |past| past.count)
    }

    fn to_json(&self) -> Json {
        let Self { generation, shards, greatest, wanted, closed, takers } = self;
        let wanted = wanted.as_ref().map(|asked| json!({ "shards": asked.shards, "takers": asked.takers }));
        let ends = |closed: &Past| -> Json {
            closed.ends.iter().map(|(shard, end)| (shard.to_string(), json!(end))).collect()
        };
        let closed: Vec<Json> =
            closed.iter().map(|each| json!({ "shards": each.count, "ends": ends(each) })).collect();
        json!({
            "generation": generation, "shards": shards, "greatest": greatest, "wanted": wanted,
            "closed": closed, "takers": takers,
        })
    }

    fn from_json(json: &Json) -> Option<Self> {
        let count = |json: &Json, name: &str| {
            let count = u32::try_from(number(json, name)?).ok()?;
            (1..=zwire_spool::layout::MAX_SHARDS).contains(&count).then_some(count)
        };
        let takers = |json: &Json| list_of(json, "takers", |name| name.as_str().map(str::to_owned));
        let asked = |json: &Json| Some(Asked { shards: count(json, "shards")?, takers: takers(json)? });
        let wanted = json.get("wanted").filter(|wanted| !wanted.is_null());
        let end = |(shard, end): (&String, &Json)| {
            let shard = shard.parse().ok().filter(|shard| *shard < zwire_spool::layout::MAX_SHARDS);
            Some((shard?, end.as_u64()?))
        };
        let mapping = Self {
            generation: u32::try_from(number(json, "generation")?).ok()?,
            shards: count(json, "shards")?,
            greatest: count(json, "greatest")?,
            wanted: wanted.map_or(Some(None), |wanted| asked(wanted).map(Some))?,
            closed: json
                .get("closed")?
                .as_array()?
                .iter()
                .map(|json| {
                    let ends = json.get("ends")?.as_object()?.iter().map(end).collect::<Option<_>>()?;
                    Some(Past { count: count(json, "shards")?, ends })
                })
                .collect::<Option<_>>()?,
            takers: takers(json)?,
        };
        let fits = mapping.shards <= mapping.greatest && mapping.closed.len() <= mapping.generation as usize;
        fits.then_some(mapping)
    }
}

/// What an entry says of one shard.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Segments that are in the store from now on.
    pub add: Vec<Sealed>,
    /// Pages of the segments before those; of a whole state only.
    pub pages: Vec<Page>,
    /// Offset before which rows are deleted.
    pub trim: Option<u64>,
    /// Messages that were dropped on the way to the shard.
    pub drops: Option<u64>,
    /// Objects that replace others. An entry with one is written as a whole state, so that earlier programs read it.
    pub merges: Vec<Merge>,
    /// Spooler that may write the shard from now on.
    pub claim: Option<Claim>,
}

/// Object in the place of several with the same rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Merge {
    /// A segment in the place of all that have its offsets.
    Segment(Sealed),
    /// A page in the place of some that follow each other.
    Page(Vec<Page>, Page),
}

impl Merge {
    /// Positions of what it replaces in the lists of a shard; `None` if it does not fit there.
    pub(crate) fn place(&self, state: &Tiered) -> Option<Range<usize>> {
        match self {
            Self::Segment(into) => {
                let from = state.segments.binary_search_by_key(&into.base, |known| known.base).ok()?;
                let to = state.segments.partition_point(|known| known.end <= into.end);
                let parts = state.segments.get(from..to).filter(|parts| parts.len() > 1)?;
                let whole = parts.windows(2).all(|pair| pair[0].end == pair[1].base);
                let rows: u64 = parts.iter().map(|part| part.rows).sum();
                (whole && parts.last()?.end == into.end && rows == into.rows).then_some(from..to)
            }
            Self::Page(old, _) => {
                let from = state.pages.iter().position(|page| Some(page) == old.first())?;
                let there = state.pages.get(from..from + old.len())?;
                (there == old).then_some(from..from + old.len())
            }
        }
    }

    fn apply(&self, state: &mut Tiered) -> Result<(), String> {
        let place = self.place(state).ok_or("a merged object has no place in the state")?;
        match self {
            Self::Segment(into) => drop(state.segments.splice(place, [into.clone()])),
            Self::Page(_, into) => drop(state.pages.splice(place, [into.clone()])),
        }
        Ok(())
    }
}

/// Author of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Author {
    /// Number of times that the spool had been opened for writing.
    pub epoch: u32,
    /// Random number of one start.
    pub writer: String,
}

/// Entry of the manifest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Its number.
    pub number: u64,
    /// Author of the entry.
    pub author: Author,
    /// Time, in microseconds since 1970.
    pub at: i64,
    /// Whether the state begins with it.
    pub whole: bool,
    /// Changes, by shard.
    pub shards: BTreeMap<Shard, Change>,
    /// Objects that are no longer needed.
    pub doomed: Vec<String>,
    /// Number of an entry: what it and those before it have doomed is deleted.
    pub gone: u64,
    /// Spoolers that hold shards, or may take some; `None` if one spooler writes all shards.
    pub members: Option<Members>,
    /// Number of shards; `None` if the entry does not change it.
    pub mapping: Option<Mapping>,
}

fn shard(name: &str) -> Option<Shard> {
    match name {
        "gaps" => Some(Shard::Gaps),
        number => {
            number.parse().ok().filter(|number| *number < zwire_spool::layout::MAX_SHARDS).map(Shard::Data)
        }
    }
}

/// Adds the summary of keys to the description of segments.
fn with_keys(mut json: Json, keys: Option<&Keys>) -> Json {
    if let (Some(keys), Some(object)) = (keys, json.as_object_mut()) {
        object.insert("keys".to_owned(), hex(keys.octets()).into());
    }
    json
}

/// Summary of keys. Of one that cannot be read, nothing is known.
fn keys_of(json: &Json) -> Option<Keys> {
    let octets = unhex(json.get("keys")?.as_str()?)?;
    Some(Keys::stored(octets.into()))
}

fn number(json: &Json, name: &str) -> Option<u64> {
    json.get(name).and_then(Json::as_u64)
}

fn crc_of(json: &Json) -> Option<u32> {
    u32::try_from(number(json, "crc32c")?).ok()
}

fn times_of(json: &Json) -> Option<(i64, i64)> {
    let times = json.get("times")?.as_array()?;
    Some((times.first()?.as_i64()?, times.get(1)?.as_i64()?))
}

fn segment_to_json(segment: &Sealed) -> Json {
    let Sealed { base, end, rows, bytes, crc, times, keys, problem } = segment;
    let mut json = json!({
        "base": base, "end": end, "rows": rows, "bytes": bytes, "crc32c": crc, "times": [times.0, times.1],
    });
    if let (Some(problem), Some(object)) = (problem, json.as_object_mut()) {
        object.insert("problem".to_owned(), problem.as_str().into());
    }
    with_keys(json, keys.as_ref())
}

fn segment_of_json(json: &Json) -> Option<Sealed> {
    let segment = Sealed {
        base: number(json, "base")?,
        end: number(json, "end")?,
        rows: number(json, "rows")?,
        bytes: number(json, "bytes")?,
        crc: crc_of(json)?,
        times: times_of(json)?,
        keys: keys_of(json),
        problem: json.get("problem").and_then(Json::as_str).map(str::to_owned),
    };
    (segment.base <= segment.end).then_some(segment)
}

fn page_to_json(page: &Page) -> Json {
    let Page { base, end, segments, bytes, crc, times, keys } = page;
    let json = json!({
        "base": base, "end": end, "segments": segments, "bytes": bytes, "crc32c": crc,
        "times": [times.0, times.1],
    });
    with_keys(json, keys.as_ref())
}

fn page_of_json(json: &Json) -> Option<Page> {
    let page = Page {
        base: number(json, "base")?,
        end: number(json, "end")?,
        segments: number(json, "segments")?,
        bytes: number(json, "bytes")?,
        crc: crc_of(json)?,
        times: times_of(json)?,
        keys: keys_of(json),
    };
    (page.base <= page.end).then_some(page)
}

/// The list of a field; empty without the field.
fn list_of<T>(json: &Json, name: &str, read: fn(&Json) -> Option<T>) -> Option<Vec<T>> {
    json.get(name).map_or(Some(Vec::new()), |list| list.as_array()?.iter().map(read).collect())
}

impl Change {
    fn to_json(&self) -> Json {
        let mut object = Map::new();
        if !self.add.is_empty() {
            object.insert("add".to_owned(), self.add.iter().map(segment_to_json).collect());
        }
        if !self.pages.is_empty() {
            object.insert("pages".to_owned(), self.pages.iter().map(page_to_json).collect());
        }
        let numbers = [("trim", self.trim), ("drops", self.drops)];
        for (name, value) in numbers.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            object.insert(name.to_owned(), value.into());
        }
        if let Some(claim) = &self.claim {
            object.insert("claim".to_owned(), claim.to_json());
        }
        Json::Object(object)
    }

    fn from_json(json: &Json) -> Option<Self> {
        let number = |name: &str| json.get(name).map_or(Some(None), |value| value.as_u64().map(Some));
        Some(Self {
            add: list_of(json, "add", segment_of_json)?,
            pages: list_of(json, "pages", page_of_json)?,
            trim: number("trim")?,
            drops: number("drops")?,
            merges: Vec::new(),
            claim: json.get("claim").map_or(Some(None), |claim| Claim::from_json(claim).map(Some))?,
        })
    }
}

impl Entry {
    pub(crate) fn encode(&self, spool: &SpoolId) -> Vec<u8> {
        let shards: Map<String, Json> =
            self.shards.iter().map(|(shard, change)| (shard.folder(), change.to_json())).collect();
        let paged = self.shards.values().any(|change| !change.pages.is_empty());
        let version = if self.mapping.is_some() && self.members.is_some() {
            MAPPED
        } else if self.members.is_some() {
            SPREAD
        } else if paged {
            PAGED
        } else {
            1
        };
        let mut json = json!({
            "v": version, "spool": hex(spool), "number": self.number, "epoch": self.author.epoch,
            "writer": self.author.writer, "at": self.at, "whole": self.whole, "shards": shards,
            "doomed": self.doomed, "gone": self.gone,
        });
        if let (Some(members), Some(object)) = (&self.members, json.as_object_mut()) {
            object.insert("members".to_owned(), json!(members));
            object.extend(self.mapping.iter().map(|mapping| ("mapping".to_owned(), mapping.to_json())));
        }
        seal_json(json)
    }

    /// Whether an entry is one of a later program. It is whole, although this program cannot read it.
    pub(crate) fn is_later(octets: &[u8]) -> bool {
        let version = open_json(octets).ok().and_then(|json| json.get("v")?.as_u64());
        version.is_some_and(|version| version > MAPPED)
    }

    /// Reads an entry; returns why it is invalid.
    pub(crate) fn decode(octets: &[u8], spool: &SpoolId, number: u64) -> Result<Self, String> {
        let json = open_json(octets)?;
        let field = |name: &str| json.get(name).and_then(Json::as_u64).ok_or(format!("no {name}"));
        let version = field("v")?;
        if !(1..=MAPPED).contains(&version) {
            return Err(format!("has version {version}, this program knows 1 to {MAPPED}"));
        }
        let members = match json.get("members").filter(|_| version >= SPREAD) {
            Some(members) => {
                let members = members.as_object().ok_or("no members")?;
                let member =
                    |(writer, host): (&String, &Json)| Some((writer.clone(), host.as_str()?.to_owned()));
                Some(members.iter().map(member).collect::<Option<Members>>().ok_or("a member that is none")?)
            }
            None if version >= SPREAD => return Err("no members".to_owned()),
            None => None,
        };
        match json.get("spool").and_then(Json::as_str) {
            Some(id) if id == hex(spool) => {}
            other => return Err(format!("is of spool {}, not of {}", other.unwrap_or("?"), hex(spool))),
        }
        if field("number")? != number {
            return Err(format!("says that its number is {}", field("number")?));
        }
        let object = json.get("shards").and_then(Json::as_object).ok_or("no shards")?;
        let change = |(name, json): (&String, &Json)| Some((shard(name)?, Change::from_json(json)?));
        let doomed = json.get("doomed").and_then(Json::as_array).ok_or("no doomed")?;
        let texts = doomed.iter().map(|name| name.as_str().map(str::to_owned));
        Ok(Self {
            number,
            author: Author {
                epoch: u32::try_from(field("epoch")?).map_err(|_| "no epoch")?,
                writer: json.get("writer").and_then(Json::as_str).ok_or("no writer")?.to_owned(),
            },
            at: json.get("at").and_then(Json::as_i64).ok_or("no time")?,
            whole: json.get("whole").and_then(Json::as_bool).ok_or("no whole")?,
            shards: object.iter().map(change).collect::<Option<_>>().ok_or("a shard that is none")?,
            doomed: texts.collect::<Option<_>>().ok_or("no doomed")?,
            gone: field("gone")?,
            members,
            mapping: match json.get("mapping").filter(|_| version == MAPPED) {
                Some(mapping) => Some(Mapping::from_json(mapping).ok_or("a mapping that is none")?),
                None if version == MAPPED => return Err("no mapping".to_owned()),
                None => None,
            },
        })
    }
}

/// State after an entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    /// Number of the last entry; 0 before the first.
    pub number: u64,
    /// Author of the last entry.
    pub author: Author,
    /// Number of the last entry with the whole state.
    pub whole: u64,
    /// Segments of each shard.
    pub shards: TierState,
    /// Objects that are no longer needed and perhaps not deleted, each with the number of its entry.
    pub doomed: VecDeque<(u64, String)>,
    /// Last claim of each shard.
    pub claims: BTreeMap<Shard, Claim>,
    /// Spoolers that hold shards, or may take some; `None` if one spooler writes all shards.
    pub members: Option<Members>,
    /// Number of shards, and how it has changed; `None` if it is that of the description of the spool.
    pub mapping: Option<Mapping>,
}

impl Manifest {
    /// Number of shards that have rows, or may get some. `described`: number in the description of the spool.
    pub fn shard_count(&self, described: u32) -> u32 {
        self.mapping.as_ref().map_or(described, |mapping| mapping.greatest.max(described))
    }

    /// Applies the next entry. Returns why it does not follow.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        if entry.whole {
            *self = Self { whole: entry.number, ..Self::default() };
        } else if entry.number != self.number + 1 {
            return Err(format!("entry {} does not follow entry {}", entry.number, self.number));
        }
        for (shard, change) in &entry.shards {
            if let Some(claim) = &change.claim {
                let known = self.claims.get(shard).filter(|known| known.epoch >= claim.epoch);
                if known.is_some_and(|known| (known.epoch, &known.writer) != (claim.epoch, &claim.writer)) {
                    return Err(format!("claim {} of {shard} comes behind a later one", claim.epoch));
                }
                self.claims.insert(*shard, claim.clone());
            }
            let state = self.shards.entry(*shard).or_default();
            let there = |base| Err(format!("a segment at offset {base} of {shard} is there already"));
            for page in &change.pages {
                if !state.segments.is_empty() || state.end() > page.base {
                    return there(page.base);
                }
                state.pages.push(page.clone());
            }
            if let Some(trim) = change.trim {
                state.trimmed = state.trimmed.max(trim);
                state.pages.retain(|page| page.end > trim);
                state.segments.retain(|segment| segment.end > trim);
            }
            state.drops = change.drops.unwrap_or(state.drops);
            for segment in &change.add {
                if state.end() > segment.base {
                    return there(segment.base);
                }
                state.segments.push(segment.clone());
            }
            change.merges.iter().try_for_each(|merge| merge.apply(state))?;
        }
        self.doomed.retain(|(number, _)| *number > entry.gone);
        self.doomed.extend(entry.doomed.iter().map(|name| (entry.number, name.clone())));
        self.number = entry.number;
        self.author = entry.author.clone();
        self.members.clone_from(&entry.members);
        if let Some(mapping) = &entry.mapping {
            let known = self.mapping.as_ref();
            if known.is_some_and(|known| {
                known.generation > mapping.generation || known.greatest > mapping.greatest
            }) {
                return Err("a number of shards comes behind a later one".to_owned());
            }
            self.mapping = Some(mapping.clone());
        }
        Ok(())
    }

    /// Shards of an entry that has the whole state.
    pub(crate) fn all(&self) -> BTreeMap<Shard, Change> {
        let change = |(shard, state): (&Shard, &Tiered)| {
            let (add, pages) = (state.segments.clone(), state.pages.clone());
            let (trim, drops) = (Some(state.trimmed), Some(state.drops));
            let claim = self.claims.get(shard).cloned();
            (*shard, Change { add, pages, trim, drops, merges: Vec::new(), claim })
        };
        self.shards.iter().map(change).collect()
    }

    /// Moves older segments into new pages; returns those with their octets. The newest stay, so that an attempt to add
    /// them again finds them.
    pub(crate) fn turn_pages(&mut self) -> Result<Vec<(Shard, Page, Vec<u8>)>, String> {
        let mut made = Vec::new();
        for (shard, state) in &mut self.shards {
            while state.segments.len() >= 2 * PAGE {
                let (page, octets) = Page::pack(&state.segments[..PAGE])?;
                state.segments.drain(..PAGE);
                state.pages.push(page.clone());
                made.push((*shard, page, octets));
            }
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOOL: SpoolId = [7; 16];

    pub(crate) fn segment(base: u64, end: u64) -> Sealed {
        let (crc, times) = (base as u32 ^ 0xdead_beef, (base as i64, end as i64));
        let (rows, bytes, keys) =
            (end - base, (end - base) * 100, Some(Keys::stored(vec![1, 0, 1, b'a'].into())));
        Sealed { base, end, rows, bytes, crc, times, keys, problem: None }
    }

    fn entry(number: u64, add: &[(u64, u64)], trim: Option<u64>) -> Entry {
        let add = add.iter().map(|(base, end)| segment(*base, *end)).collect();
        let shards = BTreeMap::from([(
            Shard::Data(0),
            Change { add, trim, drops: Some(number), ..Change::default() },
        )]);
        let author = Author { epoch: 3, writer: "ab".to_owned() };
        Entry { number, author, at: -5, shards, ..Entry::default() }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let mut entry = entry(9, &[(0, 4), (6, 9)], Some(2));
        entry.shards.insert(Shard::Gaps, Change::default());
        if let Some(change) = entry.shards.get_mut(&Shard::Data(0)) {
            change.add[1].problem = Some("a block that was cut off".to_owned());
        }
        (entry.whole, entry.doomed, entry.gone) = (true, vec!["0/1.arrow".to_owned()], 8);
        let octets = entry.encode(&SPOOL);
        assert_eq!(Entry::decode(&octets, &SPOOL, 9), Ok(entry));
        assert!(Entry::decode(&octets, &SPOOL, 8).is_err_and(|problem| problem.contains("number is 9")));
        assert!(
            Entry::decode(&octets, &[8; 16], 9).is_err_and(|problem| problem.contains("is of spool 0707"))
        );
    }

    #[test]
    fn an_entry_that_is_cut_or_changed_is_refused() {
        let octets = entry(1, &[(0, 4)], None).encode(&SPOOL);
        for at in 0..octets.len() {
            assert!(Entry::decode(&octets[..at], &SPOOL, 1).is_err());
            let mut changed = octets.clone();
            changed[at] ^= 1;
            assert!(Entry::decode(&changed, &SPOOL, 1).is_err(), "octet {at}");
        }
    }

    #[test]
    fn fields_of_later_versions_are_skipped() {
        let entry = entry(1, &[(0, 4)], None);
        let mut json = open_json(&entry.encode(&SPOOL)).unwrap();
        json["lease"] = json!({ "until": 5 });
        json["shards"]["0"]["add"][0]["range"] = json!(["a", "b"]);
        assert_eq!(Entry::decode(&seal_json(json), &SPOOL, 1), Ok(entry));
    }

    #[test]
    fn claims_and_members_are_read_as_they_were_written_and_never_go_back() {
        let claim =
            |epoch, writer: &str| Claim { epoch, writer: writer.to_owned(), start: 9, ..Claim::default() };
        let claimed = |number, claim| {
            let shards =
                BTreeMap::from([(Shard::Data(0), Change { claim: Some(claim), ..Change::default() })]);
            let members = Some(Members::from([("aa".to_owned(), "here".to_owned())]));
            Entry { number, shards, members, ..Entry::default() }
        };
        let first = claimed(1, claim(2, "aa"));
        let octets = first.encode(&SPOOL);
        assert_eq!(Entry::decode(&octets, &SPOOL, 1), Ok(first.clone()));
        assert_eq!(open_json(&octets).unwrap()["v"], 3, "programs that do not know claims refuse it");
        let mut state = Manifest::default();
        state.apply(&first).unwrap();
        for (epoch, writer, fits) in [(1, "bb", false), (2, "bb", false), (2, "aa", true), (3, "bb", true)] {
            let applied = state.clone().apply(&claimed(2, claim(epoch, writer)));
            assert_eq!(applied.is_ok(), fits, "claim {epoch} of {writer}");
        }
        let whole = Entry {
            whole: true,
            shards: state.all(),
            members: state.members.clone(),
            ..claimed(2, claim(2, "aa"))
        };
        let mut fresh = Manifest::default();
        fresh.apply(&Entry::decode(&whole.encode(&SPOOL), &SPOOL, 2).unwrap()).unwrap();
        assert_eq!((fresh.claims, fresh.members), (state.claims, state.members));
    }

    #[test]
    fn the_whole_state_replaces_all_entries_before() {
        let mut state = Manifest::default();
        state.apply(&entry(1, &[(0, 4), (4, 8)], None)).unwrap();
        state.apply(&Entry { doomed: vec!["a".to_owned()], ..entry(2, &[(10, 12)], Some(4)) }).unwrap();
        let shard = &state.shards[&Shard::Data(0)];
        assert_eq!((shard.trimmed, shard.drops, shard.segments.len()), (4, 2, 2));
        assert_eq!((shard.mark().earliest, shard.mark().end), (4, 12));
        assert!(state.apply(&entry(4, &[], None)).is_err(), "entry 3 is missing");
        assert!(state.clone().apply(&entry(3, &[(11, 13)], None)).is_err(), "offsets are never used twice");

        let whole =
            Entry { whole: true, doomed: vec!["a".to_owned()], shards: state.all(), ..entry(3, &[], None) };
        let mut fresh = Manifest::default();
        fresh.apply(&Entry::decode(&whole.encode(&SPOOL), &SPOOL, 3).unwrap()).unwrap();
        assert_eq!(fresh.shards, state.shards);
        assert_eq!((fresh.number, fresh.whole, fresh.doomed.len()), (3, 3, 1));
        fresh.apply(&Entry { gone: 3, ..entry(4, &[], None) }).unwrap();
        assert_eq!(fresh.doomed.len(), 0);
    }
}
