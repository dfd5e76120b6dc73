//! Writing of a store: the one writer of a spool puts its sealed segments there, and takes note of them in the manifest.
//!
//! The order makes every crash harmless: a segment is uploaded, read back, and listed in the manifest, and only then its
//! file may go; rows are trimmed in the manifest, and only then the objects are deleted.

use crate::{
    compact::Pending,
    manifest::{Author, Change, Entry, Manifest, Mapping, Members, Merge, WHOLE},
    place::{Access, Place},
    store::{Client, Clock, LATEST, META, Store, entry_name, hint_of, index_name, page_name, segment_name},
};
use bytes::Bytes;
use core::{sync::atomic::AtomicBool, time::Duration};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    Error as StoreError, MultipartUpload as _, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions,
    UpdateVersion, path::Path as ObjectPath,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};
use tokio::task::JoinHandle;
use zwire_spool::{
    Error, Layout, Meta, Result, Shard, SpoolId, hex, seal_json,
    tier::{Page, Sealed, Tier as _},
};

/// Octets of a part of an upload, and of a request that reads it back.
const PART: usize = 8 << 20;
/// Parts in progress at once: with their size, the memory of an upload.
const PARTS: usize = 3;
/// Age at which the hint is read again: one that went back would lead readers to entries that were deleted.
const HINT: Duration = Duration::from_secs(60);
/// Attempts to replace it, between which other processes have; each of those has added an entry.
const HINTS: u32 = 16;
/// Objects that are deleted at once.
pub(crate) const DELETES: usize = 8;

/// Page of a shard, and its octets.
type NewPage = (Shard, Page, Vec<u8>);

/// Entry that is to be added.
pub(crate) struct Draft {
    pub(crate) shards: BTreeMap<Shard, Change>,
    pub(crate) members: Option<Members>,
    /// Number of shards; `None` if it does not change.
    pub(crate) mapping: Option<Mapping>,
}

/// Maker of an entry, from the state before it; `None` if there is none to add.
pub(crate) type Drafts<'a> = dyn FnMut(&Manifest) -> Option<Draft> + 'a;

/// Writer of a store: the only one, one that takes turns with others, or one of those that hold shards.
#[derive(Debug)]
pub struct TierWriter {
    pub(crate) store: Arc<Store>,
    pub(crate) id: SpoolId,
    pub(crate) layout: Layout,
    pub(crate) author: Author,
    /// Whether several spoolers take turns, by a lease.
    pub(crate) shared: bool,
    pub(crate) manifest: Manifest,
    /// Number of an entry: what it and those before it have doomed was deleted.
    pub(crate) gone: u64,
    /// Number of the entry that readers were told last, and the time of the clock when the hint was read last.
    hinted: (u64, Duration),
    /// Whether the last attempt has found an entry of a later epoch, or a later claim of a shard.
    pub(crate) fenced: bool,
    /// Whether spoolers hold shards, each by a claim in the manifest.
    pub(crate) spread: bool,
    /// Claims that this writer has to have for the entry that it adds: the epochs of shards.
    pub(crate) needs: BTreeMap<Shard, u32>,
    /// Number of shards in the description of the spool.
    pub(crate) described: u32,
    /// Whether the last attempt has found new rows of the log of gaps where its own were to be.
    pub(crate) overtaken: bool,
    /// Work of compaction that is not done.
    pub(crate) pending: Pending,
    /// Set when no merge is to go on.
    pub(crate) halt: Arc<AtomicBool>,
}

impl TierWriter {
    /// The writer of a spool in the store with an address. Nothing is read before [`Self::begin`].
    pub fn new(url: &str, meta: &Meta, clock: Clock) -> Result<Self> {
        Self::over(Arc::new(Store::at(Place::parse(url)?, Access::Write, clock)), meta)
    }

    pub(crate) fn over(store: Arc<Store>, meta: &Meta) -> Result<Self> {
        let mut writer = [0; 8];
        getrandom::fill(&mut writer).map_err(|error| store.without_threads(&io::Error::other(error)))?;
        let author = Author { epoch: meta.epoch, writer: hex(&writer) };
        Ok(Self {
            store,
            id: meta.id,
            layout: meta.layout.clone(),
            author,
            shared: false,
            manifest: Manifest::default(),
            gone: 0,
            hinted: (0, Duration::ZERO),
            fenced: false,
            spread: false,
            needs: BTreeMap::new(),
            described: meta.shards,
            overtaken: false,
            pending: Pending::default(),
            halt: Arc::default(),
        })
    }

    /// Description of the spool in the store with an address. If it has none, it gets this one.
    pub fn describe(url: &str, meta: &Meta, clock: Clock) -> Result<Meta> {
        let store = Store::at(Place::parse(url)?, Access::Lease, clock);
        let octets = meta.encode();
        let there = store.call(|client| async move {
            create(&client, META, octets.into()).await?;
            client.read(META).await
        })?;
        let path = Path::new(url).join(META);
        let problem = || "is not there after it was written".to_owned();
        let there = there.ok_or_else(|| Error::BadFile { path: path.clone(), problem: problem() })?;
        Meta::decode(&there, &path)
    }

    /// Random number of this writer.
    pub fn name(&self) -> &str {
        &self.author.writer
    }

    /// Begins with an epoch of the lease: writers of earlier epochs can add nothing from now on. Fails with
    /// [`Error::Mismatch`] if a later epoch has an entry.
    pub fn claim(&mut self, meta: &Meta, epoch: u32, at: i64) -> Result<()> {
        self.author.epoch = epoch;
        (self.shared, self.fenced) = (true, false);
        self.begin(meta, at)?;
        if self.manifest.author != self.author {
            self.record(BTreeMap::new(), at)?;
        }
        self.hint()
    }

    /// Lets a merge end between two of its parts once this is set.
    pub fn halt_with(&mut self, halt: Arc<AtomicBool>) {
        self.halt = halt;
    }

    /// Whether an entry of a later epoch has stopped this writer, and not another error.
    pub const fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// Address of the store.
    pub fn place(&self) -> &str {
        self.store.place()
    }

    /// What the store has, as far as this writer knows.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads what the store has, and writes the description of the spool and an entry into an empty one. Fails with
    /// [`Error::Mismatch`] if the store has another spool, or was written by a later start of this one.
    pub fn begin(&mut self, meta: &Meta, at: i64) -> Result<()> {
        let octets = meta.encode();
        let (id, place) = (self.id, self.place().to_owned());
        let there = self.store.call(|client| async move {
            match create(&client, META, octets.into()).await? {
                true => Ok(None),
                false => client.read(META).await,
            }
        })?;
        if let Some(octets) = there {
            let there = Meta::decode(&octets, &Path::new(&place).join(META))?;
            if there.id != id {
                let problem = format!("has spool {}, not {}", there.id_text(), hex(&id));
                return Err(Error::Mismatch { path: place.into(), problem });
            }
            self.described = there.shards;
        }
        let torn;
        (self.manifest, torn) = self.store.call(|client| async move {
            let mut manifest = Manifest::default();
            let Err(error) = client.follow(&id, &mut manifest).await else { return Ok((manifest, false)) };
            // The last entry of an earlier start may have arrived torn; the next one takes its number.
            let last = manifest.number > 0 || client.latest().await?.0 == 0;
            let torn = last && matches!(error, Error::BadFile { .. });
            let next = entry_name(manifest.number + 2);
            if torn && client.read(&next).await?.is_none() { Ok((manifest, true)) } else { Err(error) }
        })?;
        if self.manifest.number > 0 {
            self.check_kind(self.manifest.members.is_some())?;
        }
        self.check(&self.manifest.author.clone())?;
        // Readers tell a store by its manifest, also while it has no segments. Behind a torn entry they would see none.
        if self.manifest.number == 0 || torn {
            self.record(BTreeMap::new(), at)?;
        }
        self.hint()
    }

    /// Fails if an entry is of a later start of the spool.
    pub(crate) fn check(&mut self, author: &Author) -> Result<()> {
        let is_first = author.epoch == 0 && author.writer.is_empty();
        // Then the claims tell, and each entry is held against them.
        if self.spread || author.epoch < self.author.epoch || *author == self.author || is_first {
            return Ok(());
        }
        self.fenced = true;
        let (there, here) = (author.epoch, self.author.epoch);
        let problem = if self.shared {
            format!("another spooler has taken over with epoch {there}, and this one wrote in epoch {here}")
        } else {
            format!(
                "start {there} of the spool writes here, and this is start {here}: another spooler has a copy of this \
                 folder, or takes turns at it (shared)"
            )
        };
        Err(Error::Mismatch { path: self.place().into(), problem })
    }

    /// Uploads a segment and the list of its blocks, and reads the segment back. Fails with [`Error::Unreachable`] if
    /// what the store returns differs from the file.
    pub fn upload(&mut self, path: &Path, shard: Shard, sealed: &Sealed, index: Vec<u8>) -> Result<()> {
        self.refuse_doomed([segment_name(shard, sealed)])?;
        self.store.call(|client| async move {
            let name = client.path(&segment_name(shard, sealed));
            send(&client, &name, path, sealed.bytes).await?;
            verify(&client, &name, sealed).await?;
            let list = client.path(&index_name(shard, sealed));
            let put = client.store.put(&list, index.into()).await;
            put.map(|_| ()).map_err(|error| client.failed(&list, "write", &error))
        })
    }

    /// Adds an entry to the manifest. Segments before a trimmed offset are doomed; [`Self::sweep`] deletes them. After
    /// an error the call can be repeated: what an entry says already is left out.
    pub fn record(&mut self, shards: BTreeMap<Shard, Change>, at: i64) -> Result<()> {
        self.record_draft(at, &mut |manifest| {
            Some(Draft { shards: shards.clone(), members: manifest.members.clone(), mapping: None })
        })
        .map(|_| ())
    }

    /// Adds an entry that depends on the state before it: `draft` is called for each attempt. `false` if it says that there
    /// is nothing to add.
    pub(crate) fn record_draft(&mut self, at: i64, draft: &mut Drafts<'_>) -> Result<bool> {
        // Entries that this writer has not seen may have deleted objects that it has uploaded before.
        let mut skipped = false;
        loop {
            let Some(Draft { mut shards, members, mapping }) = draft(&self.manifest) else {
                return Ok(false);
            };
            let adds = shards.values().any(|change| !change.add.is_empty() || !change.merges.is_empty());
            self.spare_named(&shards)?;
            for (shard, change) in &mut shards {
                let known = self.manifest.shards.get(shard);
                change.add.retain(|segment| known.is_none_or(|known| !known.has(segment)));
                change.merges.retain(|merge| known.is_some_and(|known| merge.place(known).is_some()));
            }
            let is_empty =
                |change: &Change| change.add.is_empty() && change.merges.is_empty() && change.trim.is_none();
            if adds && shards.values().all(is_empty) {
                return Ok(true);
            }
            self.check_claims(&shards)?;
            if core::mem::take(&mut skipped) {
                self.find_added(&shards)?;
            }
            let before = self.manifest.number;
            let place = self.place().to_owned();
            let bad = |problem| Error::Mismatch { path: (*place).into(), problem };
            let members = members.or_else(|| self.spread.then(Members::new));
            let (entry, pages) = match self.entry((shards.clone(), members, mapping), at) {
                // A page that another process has replaced.
                Err(Error::BadFile { .. }) if self.catch_up()? => {
                    skipped = true;
                    continue;
                }
                made => made?,
            };
            let names = new_names(&shards, &pages);
            if self.spare(&names) {
                continue;
            }
            self.refuse_doomed(names)?;
            for (shard, page, octets) in pages {
                self.store.call(|client| async move {
                    let (name, octets) = (page_name(shard, &page), Bytes::from(octets));
                    put(&client, &name, octets.clone()).await?;
                    came_back(&client, &name, &octets).await
                })?;
            }
            let mut next = self.manifest.clone();
            next.apply(&entry).map_err(bad)?;
            let octets = Bytes::from(entry.encode(&self.id));
            let (id, number) = (self.id, entry.number);
            let there = self.store.call(|client| async move {
                let name = entry_name(number);
                create(&client, &name, octets.clone()).await?;
                if client.read(&name).await?.as_ref() == Some(&octets) {
                    return Ok(None);
                }
                match client.entry(&id, number).await {
                    Ok(there) => Ok(there),
                    // It did not arrive as it was sent, here or by an earlier start, and cannot be read by anything.
                    Err(Error::BadFile { .. }) => {
                        let whole = |there: &[u8]| {
                            Entry::is_later(there) || Entry::decode(there, &id, number).is_ok()
                        };
                        client.mend(&name, octets.clone(), whole).await?;
                        match client.read(&name).await? {
                            Some(there) if there == octets => Ok(None),
                            _ => client.entry(&id, number).await,
                        }
                    }
                    Err(error) => Err(error),
                }
            })?;
            if self.is_past(number, there.is_none())? {
                skipped = true;
                continue;
            }
            let Some(there) = there else {
                self.manifest = next;
                return Ok(true);
            };
            // Of another writer, or of an attempt without an answer.
            self.check_kind(there.members.is_some())?;
            self.check(&there.author)?;
            self.manifest.apply(&there).map_err(bad)?;
            if self.manifest.number == before {
                return Err(bad(format!("entry {number} of the manifest does not stay what it was")));
            }
        }
    }

    /// Whether entries of this number were deleted: the writer has slept while others wrote entries. The hint is written
    /// before anything is deleted, so it tells. Learns of those entries then, and deletes the one that this writer has
    /// put there; fails if they are of a later start of the spool.
    fn is_past(&mut self, number: u64, own: bool) -> Result<bool> {
        let (last, whole, is_gone) = self.store.call(|client| async move {
            let (last, whole) = match client.latest().await {
                // It arrived torn; the next hint replaces it.
                Err(Error::BadFile { .. }) => (0, 0),
                found => found?,
            };
            // A folder replaces the hint without a condition: an older one may have taken the place of this.
            let asks = number > 1 && client.place.folder().is_some();
            let is_gone = asks && client.read(&entry_name(number - 1)).await?.is_none();
            Ok((last, whole, is_gone))
        })?;
        if whole <= number + WHOLE && !is_gone {
            return Ok(false);
        }
        if own {
            // Readers look behind the last whole state, and do not need it; an error leaves an object that is not read.
            let deleted = self.store.call(|client| async move {
                let path = client.path(&entry_name(number));
                client.store.delete(&path).await.map_err(|error| client.failed(&path, "delete", &error))
            });
            if let Err(error) = deleted {
                tracing::warn!("{error}");
            }
        }
        match self.catch_up() {
            Err(Error::Mismatch { path, .. }) => {
                let problem = format!(
                    "another spooler has written entries up to {last} meanwhile, and this one, start {}, is at entry \
                     {number}",
                    self.author.epoch
                );
                Err(Error::Mismatch { path, problem })
            }
            Ok(false) if is_gone => {
                let place = self.place().to_owned();
                let problem = format!(
                    "{LATEST} is older than entry {number}, and the entry before that was deleted: the spooler that \
                     writes corrects it within a minute"
                );
                Err(Error::Unreachable { place, problem, at: None })
            }
            caught_up => caught_up.map(|_| true),
        }
    }

    /// Tells readers where to begin. Without it they read more entries; the call can be repeated after an error. A hint is
    /// replaced on the condition that it has not changed since it was read, and is looked at each minute.
    pub fn hint(&mut self) -> Result<()> {
        let Manifest { number, whole, .. } = self.manifest;
        let now = self.store.now();
        if number == 0 || self.hinted.0 == number && now.saturating_sub(self.hinted.1) < HINT {
            return Ok(());
        }
        let octets = Bytes::from(seal_json(json!({ "v": 1, "number": number, "whole": whole })));
        self.store.call(|client| async move {
            for _ in 0..HINTS {
                if client.replace_hint(number, octets.clone()).await? {
                    return Ok(());
                }
            }
            let problem = format!("{LATEST} was replaced by another writer {HINTS} times in a row");
            Err(Error::Unreachable { place: client.place.to_string(), problem, at: None })
        })?;
        self.hinted = (number, now);
        Ok(())
    }

    /// Does not doom objects that an entry names: another process may have named them since they were found.
    fn spare_named(&mut self, shards: &BTreeMap<Shard, Change>) -> Result<()> {
        if self.pending.dooming.is_empty() {
            return Ok(());
        }
        let mut kept = self.named_names()?;
        for name in new_names(shards, &[]) {
            // A segment has its list of blocks beside it.
            kept.extend(name.strip_suffix(".arrow").map(|stem| format!("{stem}.idx")));
            kept.insert(name);
        }
        self.pending.dooming.retain(|name| !kept.contains(name));
        Ok(())
    }

    /// Does not doom these objects. Returns whether one of them was to be.
    fn spare(&mut self, names: &[String]) -> bool {
        let before = self.pending.dooming.len();
        self.pending.dooming.retain(|name| !names.contains(name));
        self.pending.dooming.len() < before
    }

    /// Fails with [`Error::Unreachable`] if an object is gone that an entry is to name.
    fn find_added(&self, shards: &BTreeMap<Shard, Change>) -> Result<()> {
        let names = new_names(shards, &[]);
        self.store.call(|client| async move {
            for name in names {
                let path = client.path(&name);
                if let Err(error) = client.store.head(&path).await {
                    let problem = match client.failed(&path, "look for", &error) {
                        Error::Io { .. } => {
                            format!("{name} was deleted before its entry was written; it is uploaded again")
                        }
                        error => return Err(error),
                    };
                    return Err(Error::Unreachable { place: client.place.to_string(), problem, at: None });
                }
            }
            Ok(())
        })
    }

    /// The next entry, with the pages that it names for the first time. After some entries, it has the whole state, and
    /// those before the last such one are doomed.
    fn entry(
        &self,
        (shards, members, mapping): (BTreeMap<Shard, Change>, Option<Members>, Option<Mapping>),
        at: i64,
    ) -> Result<(Entry, Vec<NewPage>)> {
        let Manifest { number, whole, .. } = self.manifest;
        let mut doomed = self.pending.dooming.clone();
        let merges = shards.values().any(|change| !change.merges.is_empty());
        for (shard, change) in &shards {
            let (Some(state), Some(trim)) = (self.manifest.shards.get(shard), change.trim) else { continue };
            let names = |old: &Sealed| [segment_name(*shard, old), index_name(*shard, old)];
            for page in state.pages.iter().filter(|page| page.base < trim) {
                for segments in self.store.pages(*shard, core::slice::from_ref(page))? {
                    let old = |segment: &&Sealed| segment.end <= trim && segment.end > state.trimmed;
                    doomed.extend(segments.iter().filter(old).flat_map(names));
                }
                doomed.extend((page.end <= trim).then(|| page_name(*shard, page)));
            }
            doomed.extend(state.segments.iter().filter(|segment| segment.end <= trim).flat_map(names));
        }
        let author = self.author.clone();
        let entry = Entry {
            number: number + 1,
            author,
            at,
            shards,
            doomed,
            gone: self.gone,
            whole: false,
            members,
            mapping,
        };
        if number > 0 && number + 1 - whole < WHOLE && !merges {
            return Ok((entry, Vec::new()));
        }
        let mut next = self.manifest.clone();
        if next.apply(&entry).is_err() {
            return Ok((entry, Vec::new()));
        }
        let bad = |problem| Error::Mismatch { path: self.store.place().into(), problem };
        let pages = next.turn_pages().map_err(bad)?;
        let mut doomed: Vec<String> = next.doomed.into_iter().map(|(_, name)| name).collect();
        // Readers that know the last whole state may still be reading the entries behind it, and those that know one of
        // the last of several at short intervals.
        let end = whole.min((number + 1).saturating_sub(WHOLE));
        let begin = whole.saturating_sub(WHOLE).min((number + 1).saturating_sub(2 * WHOLE)).max(1);
        doomed.extend((begin..end).map(entry_name));
        let mapping = next.mapping;
        let shards = Manifest { shards: next.shards, claims: next.claims, ..Manifest::default() }.all();
        Ok((Entry { whole: true, shards, doomed, mapping, ..entry }, pages))
    }

    /// Deletes the objects that are no longer needed; the next entry says so.
    pub fn sweep(&mut self) -> Result<()> {
        let Some((last, _)) = self.manifest.doomed.back().filter(|(number, _)| *number > self.gone) else {
            return Ok(());
        };
        let last = *last;
        let names: Vec<String> = self.manifest.doomed.iter().map(|(_, name)| name.clone()).collect();
        self.store.call(|client| async move {
            let deletes = names.iter().map(|name| {
                let path = client.path(name);
                let client = &client;
                async move {
                    match client.store.delete(&path).await {
                        Ok(()) => Ok(()),
                        Err(error) => match client.failed(&path, "delete", &error) {
                            Error::Io { .. } => Ok(()),
                            error => Err(error),
                        },
                    }
                }
            });
            let deletes: Vec<_> = deletes.collect();
            stream::iter(deletes).buffer_unordered(DELETES).try_collect::<()>().await
        })?;
        self.gone = last;
        Ok(())
    }

    /// All segments of a shard, without their keys.
    pub fn segments(&self, shard: Shard) -> Result<Vec<Sealed>> {
        let Some(state) = self.manifest.shards.get(&shard) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut add = |segments: &[Sealed]| {
            let left = segments.iter().filter(|segment| segment.end > state.trimmed);
            found.extend(left.map(|segment| Sealed { keys: None, ..segment.clone() }));
        };
        for pages in state.pages.chunks(DELETES) {
            self.store.pages(shard, pages)?.iter().for_each(|page| add(page));
        }
        add(&state.segments);
        Ok(found)
    }

    /// The store, for reading.
    pub const fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

/// Names of the objects that an entry names for the first time.
fn new_names(shards: &BTreeMap<Shard, Change>, pages: &[NewPage]) -> Vec<String> {
    let of_change = |(shard, change): (&Shard, &Change)| {
        let added = change.add.iter().map(|segment| segment_name(*shard, segment));
        let merged = change.merges.iter().map(|merge| match merge {
            Merge::Segment(into) => segment_name(*shard, into),
            Merge::Page(_, into) => page_name(*shard, into),
        });
        added.chain(merged).collect::<Vec<_>>()
    };
    let pages = pages.iter().map(|(shard, page, _)| page_name(*shard, page));
    shards.iter().flat_map(of_change).chain(pages).collect()
}

impl Client {
    /// Puts a hint into the place of an older one, or of one that is torn. `false` if it was replaced meanwhile.
    async fn replace_hint(&self, number: u64, octets: Bytes) -> Result<bool> {
        let path = self.path(LATEST);
        let failed = |doing, error: &StoreError| self.failed(&path, doing, error);
        let mode = match self.store.get(&path).await {
            Ok(found) => {
                let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
                let there = found.bytes().await.map_err(|error| failed("read", &error))?;
                if there == octets || hint_of(&there).is_ok_and(|(there, _)| there >= number) {
                    return Ok(true);
                }
                PutMode::Update(UpdateVersion { e_tag, version })
            }
            Err(error) => match failed("read", &error) {
                Error::Io { .. } => PutMode::Create,
                error => return Err(error),
            },
        };
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.store.put_opts(&path, octets.clone().into(), options).await {
            Ok(_) => {}
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => return Ok(false),
            // A folder has no such condition.
            Err(StoreError::NotImplemented { .. }) => put(self, LATEST, octets.clone()).await?,
            Err(error) => return Err(failed("write", &error)),
        }
        match came_back(self, LATEST, &octets).await {
            Err(_) if matches!(self.latest().await, Ok((there, _)) if there > number) => Ok(true),
            came_back => came_back.map(|()| true),
        }
    }

    /// Replaces an object that is torn, unless it changes meanwhile or is whole. A store of files has no such condition,
    /// and its objects do not arrive torn: the call changes nothing there.
    async fn mend(&self, name: &str, octets: Bytes, whole: impl FnOnce(&[u8]) -> bool + Send) -> Result<()> {
        let path = self.path(name);
        let failed = |error: StoreError| self.failed(&path, "read", &error);
        let found = self.store.get(&path).await.map_err(failed)?;
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        if whole(&found.bytes().await.map_err(failed)?) {
            return Ok(());
        }
        let options = PutOptions { mode: PutMode::Update(version), ..PutOptions::default() };
        match self.store.put_opts(&path, octets.into(), options).await {
            Ok(_) | Err(StoreError::Precondition { .. } | StoreError::NotImplemented { .. }) => Ok(()),
            Err(error) => Err(self.failed(&path, "write", &error)),
        }
    }
}

/// Writes an object if it does not exist; `false` if it does.
pub(crate) async fn create(client: &Client, name: &str, octets: Bytes) -> Result<bool> {
    let path = client.path(name);
    let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match client.store.put_opts(&path, octets.into(), options).await {
        Ok(_) => Ok(true),
        Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(false),
        Err(error) => Err(client.failed(&path, "write", &error)),
    }
}

pub(crate) async fn put(client: &Client, name: &str, octets: Bytes) -> Result<()> {
    let path = client.path(name);
    let put = client.store.put(&path, octets.into()).await;
    put.map(|_| ()).map_err(|error| client.failed(&path, "write", &error))
}

/// Reads a small object back. Fails with [`Error::Unreachable`] if it differs from what was sent.
pub(crate) async fn came_back(client: &Client, name: &str, sent: &Bytes) -> Result<()> {
    if client.read(name).await?.as_ref() == Some(sent) {
        return Ok(());
    }
    let problem = format!("{name} came back with other octets than were sent");
    Err(Error::Unreachable { place: client.place.to_string(), problem, at: None })
}

/// Sends a file, in parts if it is large.
async fn send(client: &Client, name: &ObjectPath, path: &Path, bytes: u64) -> Result<()> {
    let failed = |error: StoreError| client.failed(name, "write", &error);
    let mut file = File::open(path).map_err(|error| unreadable(path, error))?;
    let mut left = bytes;
    let mut part = || {
        let mut octets = vec![0; left.min(PART as u64) as usize];
        file.read_exact(&mut octets).map_err(|error| unreadable(path, error))?;
        left -= octets.len() as u64;
        Ok::<_, Error>(Bytes::from(octets))
    };
    if bytes <= PART as u64 {
        let octets = part()?;
        return client.store.put(name, octets.into()).await.map(|_| ()).map_err(failed);
    }
    let mut upload = client.store.put_multipart(name).await.map_err(failed)?;
    let sent = async {
        let mut parts = VecDeque::new();
        for _ in 0..bytes.div_ceil(PART as u64) {
            if parts.len() >= PARTS
                && let Some(part) = parts.pop_front()
            {
                joined(part).await.map_err(failed)?;
            }
            parts.push_back(tokio::spawn(upload.put_part(part()?.into())));
        }
        for part in parts {
            joined(part).await.map_err(failed)?;
        }
        upload.complete().await.map_err(failed)
    };
    match sent.await {
        Ok(_) => Ok(()),
        Err(error) => {
            // The parts are not deleted with the error; a store may have a rule for those that stay.
            let _ = upload.abort().await;
            Err(error)
        }
    }
}

/// Result of a part that was sent by a task.
async fn joined(part: JoinHandle<object_store::Result<()>>) -> object_store::Result<()> {
    part.await.unwrap_or_else(|source| Err(StoreError::JoinError { source }))
}

fn unreadable(path: &Path, source: io::Error) -> Error {
    Error::Io { doing: "read", path: path.to_owned(), source: Arc::new(source) }
}

/// Reads a segment back, and compares it with its description.
async fn verify(client: &Client, name: &ObjectPath, sealed: &Sealed) -> Result<()> {
    let failed = |error: StoreError| client.failed(name, "read back", &error);
    let starts: Vec<u64> = (0..sealed.bytes).step_by(PART).collect();
    let reads = starts.into_iter().map(|at| {
        let range = at..(at + PART as u64).min(sealed.bytes);
        client.store.get_range(name, range)
    });
    let reads: Vec<_> = reads.collect();
    let mut reads = stream::iter(reads).buffered(PARTS);
    let (mut crc, mut len) = (0, 0);
    while let Some(octets) = reads.try_next().await.map_err(failed)? {
        crc = crc32c::crc32c_append(crc, &octets);
        len += octets.len() as u64;
    }
    let size = client.store.head(name).await.map_err(failed)?.size;
    if (crc, len, size) == (sealed.crc, sealed.bytes, sealed.bytes) {
        return Ok(());
    }
    let problem = format!(
        "{name} came back with {size} octets and checksum {crc:08x}, and was sent with {} and {:08x}",
        sealed.bytes, sealed.crc
    );
    Err(Error::Unreachable { place: client.place.to_string(), problem, at: None })
}
