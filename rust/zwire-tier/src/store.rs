//! Reading of a store: its manifest, segments, and consumers.
//!
//! ```text
//! meta.json                      description of the spool, as in its folder
//! manifest/<number>.json         entries of the manifest; the number has 20 digits
//! manifest/latest.json           number of an entry and of the last one with the whole state: where to begin reading
//! <shard>/<offset>-<crc>.arrow   segments, unchanged; the checksum of the file keeps two writers from one name
//! <shard>/<offset>-<crc>.idx     list of the blocks of a segment
//! <shard>/<offset>-<crc>.page    descriptions of at most 2048 segments, the older ones
//! lease/<epoch>.claim            host that writes from this epoch of the lease on, if several share the spool; .start, .beat
//! live/<writer>.beat             counter of a spooler, if several hold shards of the spool
//! consumers/<name>.json          progress of a consumer that reads the store alone
//! ```
//!
//! Nothing depends on a list of objects, which may be old: entries of the manifest are found by their numbers.

use crate::{
    lease::{Answer, LeaseObject, Record, Request},
    manifest::{Claim, Entry, Manifest},
    object::Object,
    place::{self, Access, Place},
    runtime::wait,
};
use bytes::Bytes;
use core::time::Duration;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{ObjectStore, ObjectStoreExt as _, path::Path as ObjectPath};
use parking_lot::Mutex;
use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
};
use zwire_spool::{
    Error, Meta, ReadAt, Result, Shard, Spool, SpoolId, open_json,
    tier::{Changes, Page, STALE, Sealed, Tier, TierState, place_of},
};

/// Small objects that are read at once.
pub(crate) const AT_ONCE: usize = 8;
/// Pages that are read at once, and those in memory, of less than a megabyte each.
const PAGES_AT_ONCE: usize = 16;
const PAGES: usize = 32;
/// Most octets of an object other than a segment.
const MAX_SMALL: u64 = 256 << 20;

/// Client of a store.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) root: ObjectPath,
    pub(crate) place: Place,
}

/// State of the store, and when it was read.
#[derive(Debug, Default)]
struct Known {
    manifest: Manifest,
    shared: Arc<TierState>,
    at: Option<Duration>,
}

/// Pages of a store, by their names; the one used last at the end.
type Pages = VecDeque<(String, Arc<Vec<Sealed>>)>;

/// Monotonic clock of the process. Ages of what was read are measured with it.
pub type Clock = fn() -> Duration;

/// Store with the segments of a spool.
#[derive(Debug)]
pub struct Store {
    place: Place,
    access: Access,
    clock: Clock,
    /// Client, and the process that made it: connections do not survive a fork.
    client: Mutex<Option<(u32, Client)>>,
    /// Id of the spool, once it was read.
    id: Mutex<Option<SpoolId>>,
    known: Mutex<Known>,
    pages: Mutex<Pages>,
}

/// Opens the spool in a folder, or in the store with an address. A folder that gives its segments to a store is read
/// together with it. A store in files may be given by its path, too, and the folder of a spool by a `file` address.
pub fn open(place: &Path, clock: Clock) -> Result<Spool> {
    match find(place)? {
        Site::Folder(folder) => of_folder(&folder, clock),
        Site::Store(store) => Spool::of_tier(Arc::new(Store::at(store, Access::Read, clock))),
    }
}

/// Place that a path or an address leads to.
pub(crate) enum Site {
    /// Folder of a spool.
    Folder(PathBuf),
    Store(Place),
}

/// Finds out whether a path or an address is that of a folder or of a store.
pub(crate) fn find(place: &Path) -> Result<Site> {
    let url = place.to_str().filter(|text| text.contains("://")).map(Place::parse).transpose()?;
    let folder = match &url {
        Some(url) => url.folder(),
        None => Some(place.to_owned()),
    };
    Ok(match (folder, url) {
        (Some(folder), _) if !folder.join(MANIFEST).is_dir() => Site::Folder(folder),
        (_, Some(url)) => Site::Store(url),
        (folder, None) => Site::Store(Place::of_folder(&folder.unwrap_or_default())?),
    })
}

/// Opens the spool in a folder, together with its store if it has one.
fn of_folder(folder: &Path, clock: Clock) -> Result<Spool> {
    let spool = Spool::open(folder)?;
    Ok(match place_of(folder, spool.meta())? {
        // Rows in the folder of a shared spool may be written by another spooler as well.
        Some(noted) if noted.shared.is_some() => return of_store(&noted.url, clock),
        Some(noted) => spool.with_tier(Arc::new(Store::at(Place::parse(&noted.url)?, Access::Read, clock))),
        None => spool,
    })
}

/// Opens the spool in the store with an address, for reading.
pub fn of_store(url: &str, clock: Clock) -> Result<Spool> {
    Spool::of_tier(Arc::new(Store::at(Place::parse(url)?, Access::Read, clock)))
}

impl Client {
    pub(crate) fn path(&self, name: &str) -> ObjectPath {
        name.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    pub(crate) fn failed(
        &self,
        path: &ObjectPath,
        doing: &'static str,
        error: &object_store::Error,
    ) -> Error {
        place::failed(&self.place, path, doing, error)
    }

    /// Reads a small object; `None` if it does not exist.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Bytes>> {
        let path = self.path(name);
        let read = async {
            let found = self.store.get(&path).await?;
            if found.meta.size > MAX_SMALL {
                let source = format!("it has {} octets", found.meta.size).into();
                return Err(object_store::Error::Generic { store: "size", source });
            }
            found.bytes().await
        };
        match read.await {
            Ok(octets) => Ok(Some(octets)),
            Err(error) => match self.failed(&path, "read", &error) {
                Error::Io { .. } => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Path of an object in errors.
    pub(crate) fn shown(&self, name: &str) -> PathBuf {
        Path::new(self.place.as_str()).join(name)
    }

    /// Reads an entry of the manifest; `None` if it does not exist.
    pub(crate) async fn entry(&self, spool: &SpoolId, number: u64) -> Result<Option<Entry>> {
        let name = entry_name(number);
        let Some(octets) = self.read(&name).await? else { return Ok(None) };
        Entry::decode(&octets, spool, number).map(Some).map_err(|problem| {
            let path = self.shown(&name);
            // A torn one is written anew. One of a later program has to stay.
            if Entry::is_later(&octets) {
                Error::Mismatch { path, problem }
            } else {
                Error::BadFile { path, problem }
            }
        })
    }

    /// Reads a page, and returns it with its name.
    async fn page(&self, name: String, page: &Page) -> Result<(String, Arc<Vec<Sealed>>)> {
        let bad = |problem| Error::BadFile { path: self.shown(&name), problem };
        let octets = self.read(&name).await?.ok_or_else(|| bad("is missing".to_owned()))?;
        let segments = page.unpack(&octets).map_err(bad)?;
        Ok((name, Arc::new(segments)))
    }

    /// Numbers of the last entry, and of the last with the whole state, or of earlier ones.
    pub(crate) async fn latest(&self) -> Result<(u64, u64)> {
        let Some(octets) = self.read(LATEST).await? else { return Ok((0, 1)) };
        hint_of(&octets).map_err(|problem| Error::BadFile { path: self.shown(LATEST), problem })
    }

    /// Brings a state up to date.
    pub(crate) async fn follow(&self, spool: &SpoolId, manifest: &mut Manifest) -> Result<()> {
        let bad = |number, problem| Error::BadFile { path: self.shown(&entry_name(number)), problem };
        if manifest.number > 0 {
            self.probe(spool, manifest).await?;
        }
        let (number, whole) = self.latest().await?;
        if manifest.number >= number.max(1) {
            return Ok(());
        }
        // Entries between may be deleted already, but none from the whole one on.
        let from = if manifest.number < whole { whole } else { manifest.number + 1 };
        let numbers = stream::iter(from..=number.max(1));
        let entries = numbers.map(|number| async move { (number, self.entry(spool, number).await) });
        let mut entries = entries.buffered(AT_ONCE);
        while let Some((number, entry)) = entries.next().await {
            match entry? {
                Some(entry) => manifest.apply(&entry).map_err(|problem| bad(number, problem))?,
                // A store without an entry.
                None if number == 1 => return Ok(()),
                None => return Err(bad(number, "is missing".to_owned())),
            }
        }
        self.probe(spool, manifest).await
    }

    /// Applies the entries that follow.
    async fn probe(&self, spool: &SpoolId, manifest: &mut Manifest) -> Result<()> {
        while let Some(entry) = self.entry(spool, manifest.number + 1).await? {
            let bad = |problem| Error::BadFile { path: self.shown(&entry_name(entry.number)), problem };
            manifest.apply(&entry).map_err(bad)?;
        }
        Ok(())
    }
}

/// Numbers in a hint: of an entry, and of the last one with the whole state.
pub(crate) fn hint_of(octets: &[u8]) -> core::result::Result<(u64, u64), String> {
    let json = open_json(octets)?;
    let number = |name: &str| json.get(name).and_then(Json::as_u64).unwrap_or(0);
    Ok((number("number"), number("whole").max(1)))
}

pub(crate) const META: &str = "meta.json";
const MANIFEST: &str = "manifest";
pub(crate) const LATEST: &str = "manifest/latest.json";
const CONSUMERS: &str = "consumers";

pub(crate) fn entry_name(number: u64) -> String {
    format!("manifest/{number:020}.json")
}

pub(crate) fn segment_name(shard: Shard, segment: &Sealed) -> String {
    format!("{}/{:020}-{:08x}.arrow", shard.folder(), segment.base, segment.crc)
}

pub(crate) fn index_name(shard: Shard, segment: &Sealed) -> String {
    format!("{}/{:020}-{:08x}.idx", shard.folder(), segment.base, segment.crc)
}

pub(crate) fn page_name(shard: Shard, page: &Page) -> String {
    format!("{}/{:020}-{:08x}.page", shard.folder(), page.base, page.crc)
}

impl Store {
    /// A store with an address. It is not used before it is needed.
    pub(crate) fn at(place: Place, access: Access, clock: Clock) -> Self {
        let (client, id, known) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { place, access, clock, client, id, known, pages: Mutex::default() }
    }

    /// A store that is given, for tests.
    #[cfg(test)]
    pub(crate) fn over(store: Arc<dyn ObjectStore>, clock: Clock) -> Self {
        let this = Self::at(Place::parse("s3://test/spool").expect("an address"), Access::Read, clock);
        let client = Client { store, root: ObjectPath::from("spool"), place: this.place.clone() };
        *this.client.lock() = Some((std::process::id(), client));
        this
    }

    /// Client of the store in this process.
    pub(crate) fn client(&self) -> Result<Client> {
        let here = std::process::id();
        let mut place = self.client.lock();
        if let Some((process, client)) = &*place
            && *process == here
        {
            // Writing would make it again, without what it had.
            if self.place.folder().is_some_and(|folder| !folder.is_dir()) {
                let problem = "the folder of the store was removed".to_owned();
                return Err(Error::Unreachable { place: self.place.to_string(), problem, at: None });
            }
            return Ok(client.clone());
        }
        let (store, root) = self.place.connect(self.access)?;
        let client = Client { store, root, place: self.place.clone() };
        *place = Some((here, client.clone()));
        Ok(client)
    }

    /// Waits for a call of the client.
    pub(crate) fn call<T, F: Future<Output = Result<T>>>(&self, call: impl FnOnce(Client) -> F) -> Result<T> {
        let client = self.client()?;
        wait(call(client)).map_err(|error| self.without_threads(&error))?
    }

    pub(crate) fn without_threads(&self, error: &std::io::Error) -> Error {
        Error::Unreachable {
            place: self.place.to_string(),
            problem: format!("no threads: {error}"),
            at: None,
        }
    }

    /// Time of the clock with which ages are measured.
    pub(crate) fn now(&self) -> Duration {
        (self.clock)()
    }

    fn id(&self) -> Result<SpoolId> {
        if let Some(id) = *self.id.lock() {
            return Ok(id);
        }
        let Some(octets) = self.meta()? else {
            return Err(Error::Usage(format!("{}: there is no spool (no meta.json)", self.place)));
        };
        let id = Meta::decode(&octets, &Path::new(self.place()).join(META))?.id;
        *self.id.lock() = Some(id);
        Ok(id)
    }
}

impl Tier for Store {
    fn place(&self) -> &str {
        self.place.as_str()
    }

    fn meta(&self) -> Result<Option<Vec<u8>>> {
        self.call(|client| async move { Ok(client.read(META).await?.map(|octets| octets.to_vec())) })
    }

    fn state(&self, age: Duration) -> Result<Arc<TierState>> {
        let id = self.id()?;
        let mut known = self.known.lock();
        let now = self.now();
        if known.at.is_some_and(|at| now.saturating_sub(at) < age) {
            return Ok(known.shared.clone());
        }
        let before = known.manifest.number;
        let mut manifest = known.manifest.clone();
        let manifest = self.call(|client| async move {
            client.follow(&id, &mut manifest).await?;
            Ok(manifest)
        })?;
        if manifest.number != before || known.at.is_none() {
            known.shared = Arc::new(manifest.shards.clone());
        }
        known.manifest = manifest;
        known.at = Some(now);
        Ok(known.shared.clone())
    }

    fn path(&self, shard: Shard, segment: &Sealed) -> PathBuf {
        Path::new(self.place()).join(segment_name(shard, segment))
    }

    fn pages(&self, shard: Shard, pages: &[Page]) -> Result<Vec<Arc<Vec<Sealed>>>> {
        let mut found: BTreeMap<String, Arc<Vec<Sealed>>> = BTreeMap::new();
        let names: Vec<String> = pages.iter().map(|page| page_name(shard, page)).collect();
        let mut known = self.pages.lock();
        for name in &names {
            if let Some(at) = known.iter().position(|(known, _)| known == name)
                && let Some((name, page)) = known.remove(at)
            {
                known.push_back((name.clone(), page.clone()));
                found.insert(name, page);
            }
        }
        drop(known);
        let missing = names.iter().zip(pages).filter(|(name, _)| !found.contains_key(*name));
        let missing: Vec<_> = missing.map(|(name, page)| (name.clone(), page.clone())).collect();
        if !missing.is_empty() {
            let read = self.call(|client| async move {
                let reads = missing.into_iter().map(|(name, page)| {
                    let client = client.clone();
                    async move { client.page(name, &page).await }
                });
                let reads: Vec<_> = reads.collect();
                stream::iter(reads).buffered(PAGES_AT_ONCE).try_collect::<Vec<_>>().await
            })?;
            let mut known = self.pages.lock();
            for (name, page) in read {
                while known.len() >= PAGES {
                    known.pop_front();
                }
                known.push_back((name.clone(), page.clone()));
                found.insert(name, page);
            }
        }
        Ok(names.iter().filter_map(|name| found.get(name).cloned()).collect())
    }

    fn open(&self, shard: Shard, segment: &Sealed) -> Result<Box<dyn ReadAt + Send + Sync>> {
        let object = self.call(|client| async move {
            let path = client.path(&segment_name(shard, segment));
            Object::open(client.store, client.place, path).await
        })?;
        Ok(Box::new(object))
    }

    fn index(&self, shard: Shard, segment: &Sealed) -> Result<Vec<u8>> {
        let name = index_name(shard, segment);
        self.call(|client| async move { Ok(client.read(&name).await?.unwrap_or_default().to_vec()) })
    }

    fn holder(&self) -> Result<Option<(u32, String)>> {
        let id = self.id()?;
        self.state(STALE)?;
        let epoch = self.known.lock().manifest.author.epoch;
        match self.lease(&id, &Request::Get(LeaseObject::Claim(epoch)))? {
            Answer::Found(Some(Record::Claim(author))) => Ok(Some((epoch, author.host))),
            _ => Ok(None),
        }
    }

    fn holders(&self) -> Result<Option<BTreeMap<u32, (u32, String)>>> {
        self.state(STALE)?;
        let known = self.known.lock();
        let Some(members) = &known.manifest.members else { return Ok(None) };
        let holder = |(shard, claim): (&Shard, &Claim)| match shard {
            Shard::Data(number) if !claim.released => {
                // A spooler that has left holds what it could not give back no more.
                members.get(&claim.writer).map(|host| (*number, (claim.epoch, host.clone())))
            }
            _ => None,
        };
        Ok(Some(known.manifest.claims.iter().filter_map(holder).collect()))
    }

    fn changes(&self) -> Result<Changes> {
        self.state(STALE)?;
        let known = self.known.lock();
        Ok(known.manifest.mapping.as_ref().map_or_else(Changes::default, |mapping| Changes {
            shards: mapping.greatest,
            count: mapping.shards,
            generation: mapping.generation,
            past: mapping.closed.clone(),
        }))
    }

    fn consumers(&self, most: usize) -> Result<Vec<(String, Vec<u8>)>> {
        self.call(|client| async move {
            let folder = client.path(CONSUMERS);
            let failed = |error| client.failed(&folder, "list", &error);
            let found =
                client.store.list(Some(&folder)).take(most).try_collect::<Vec<_>>().await.map_err(failed)?;
            let names = found.iter().filter_map(|found| found.location.filename());
            let reads = names.map(|name| {
                let (name, client) = (name.to_owned(), client.clone());
                async move {
                    let octets = client.read(&format!("{CONSUMERS}/{name}")).await?;
                    Ok(octets.map(|octets| (name, octets.to_vec())))
                }
            });
            let reads: Vec<_> = reads.collect();
            stream::iter(reads)
                .buffered(AT_ONCE)
                .try_filter_map(|read| async { Ok(read) })
                .try_collect()
                .await
        })
    }

    fn write_consumer(&self, name: &str, octets: Vec<u8>) -> Result<()> {
        self.call(|client| async move {
            let path = client.path(&format!("{CONSUMERS}/{name}"));
            let put = client.store.put(&path, octets.into()).await;
            put.map(|_| ()).map_err(|error| client.failed(&path, "write", &error))
        })
    }
}
