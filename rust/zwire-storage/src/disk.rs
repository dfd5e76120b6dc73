//! Volume on the disk: one file of redb in a folder.
//!
//! A change is visible at once, and durable with the next durable commit. Each entry has checksums of its own, because
//! the database verifies its pages only when it is opened.

use crate::{
    error::{Error, Result},
    place::Span,
    record,
    rules::{AT_ONCE, Mark, Table, Value},
    volume::{
        Capability, Counts, Found, History, PAGE_BYTES, PAGE_ENTRIES, PAGE_KEYS, Page, Persistence, Reach,
        Store,
    },
    wildcards::Wildcard,
};
use core::{ops::Bound, time::Duration};
use parking_lot::RwLock;
use redb::{
    Builder, Database, DatabaseError, Durability, ReadableDatabase as _, ReadableTable,
    ReadableTableMetadata as _, TableDefinition, WriteTransaction,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};
use zwire_proto::zenoh::{KeyExpr, Timestamp};

type Octets = TableDefinition<'static, &'static str, &'static [u8]>;

/// Values by key.
const LIVE: Octets = TableDefinition::new("live");
/// Tombstones by key.
const GONE: Octets = TableDefinition::new("gone");
/// Wildcard updates by kind and key expression.
const WILD: Octets = TableDefinition::new("wild");
/// Version of this layout.
const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");

const VERSION: u64 = 1;

/// Name of the file in the folder.
const FILE: &str = "storage.redb";

/// Default for the memory of the database, of which most holds pages that were read.
pub const CACHE_BYTES: usize = 64 << 20;

/// Files up to this size are verified as a whole when they are opened: about a second. Of larger ones each entry is
/// verified when it is read.
const VERIFY_BYTES: u64 = 256 << 20;

/// Kind of the error of a database that refuses all work after a failed write.
const LATCHED: std::io::ErrorKind = std::io::ErrorKind::ResourceBusy;

/// Interval and number of the looks of a reader whether the file is open again: two seconds, in which the largest file
/// that is verified as a whole is open.
const LOOK: Duration = Duration::from_millis(20);
const REOPENED: u32 = 100;

type Opener = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

/// Volume on the disk.
pub struct Disk {
    file: PathBuf,
    open: Opener,
    /// `None` after a failure to open the file again.
    database: RwLock<Option<Database>>,
}

impl Disk {
    /// Opens the volume in a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be written, is in use, or its file is damaged.
    pub fn open(dir: &Path, cache_bytes: usize) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|source| Error::Io { file: dir.to_owned(), source })?;
        let file = dir.join(FILE);
        let path = file.clone();
        Self::with(
            file,
            Box::new(move || {
                let verify = std::fs::metadata(&path).is_ok_and(|meta| meta.len() <= VERIFY_BYTES);
                Builder::new().set_cache_size(cache_bytes).set_check_integrity_on_open(verify).create(&path)
            }),
        )
    }

    fn with(file: PathBuf, open: Opener) -> Result<Self> {
        let disk = Self { file, open, database: RwLock::new(None) };
        disk.reopen()?;
        Ok(disk)
    }

    /// Creates the tables of a new file, checks the version of an old one.
    fn prepare(&self, database: &Database) -> Result<()> {
        let change = database.begin_write().map_err(|error| self.failed(error))?;
        let version = {
            let mut meta = change.open_table(META).map_err(|error| self.failed(error))?;
            let known = meta.get("version").map_err(|error| self.failed(error))?.map(|known| known.value());
            if known.is_none() {
                meta.insert("version", VERSION).map_err(|error| self.failed(error))?;
            }
            for table in [LIVE, GONE, WILD] {
                change.open_table(table).map_err(|error| self.failed(error))?;
            }
            known.unwrap_or(VERSION)
        };
        if version != VERSION {
            return Err(
                self.damaged(None, format!("its layout has version {version}, this program reads {VERSION}"))
            );
        }
        change.commit().map_err(|error| self.failed(error))
    }

    fn damaged(&self, key: Option<&str>, problem: impl Into<String>) -> Error {
        Error::Damaged { file: self.file.clone(), key: key.map(str::to_owned), problem: problem.into() }
    }

    fn failed(&self, error: impl Into<redb::Error>) -> Error {
        let file = self.file.clone();
        match error.into() {
            redb::Error::DatabaseAlreadyOpen => Error::InUse { file },
            redb::Error::Io(source) if source.kind() == std::io::ErrorKind::InvalidData => {
                self.damaged(None, source.to_string())
            }
            redb::Error::Io(source) => Error::Io { file, source },
            redb::Error::PreviousIo => {
                let source = std::io::Error::new(LATCHED, "an earlier access to the file has failed");
                Error::Io { file, source }
            }
            redb::Error::Corrupted(problem) => self.damaged(None, problem),
            redb::Error::UpgradeRequired(version) => {
                self.damaged(None, format!("its format, version {version}, is of another release of redb"))
            }
            other => Error::Io { file, source: std::io::Error::other(other) },
        }
    }

    /// Does work on the database. A panic of it is the sign of a damaged file.
    fn on<T>(&self, work: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        let database = self.database.read();
        let Some(database) = database.as_ref() else {
            return Err(Error::Usage("the file of the storage is closed"));
        };
        self.guarded(|| work(database))
    }

    /// As [`Self::on`], for readers: a write that fails makes all reads fail until the writer has opened the file again.
    fn read<T>(&self, work: impl Fn(&Database) -> Result<T>) -> Result<T> {
        for _ in 0..REOPENED {
            match self.on(&work) {
                Err(Error::Io { source, .. }) if source.kind() == LATCHED => std::thread::sleep(LOOK),
                done => return done,
            }
        }
        self.on(work)
    }

    fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            Err(self.damaged(None, format!("the database stopped: {text}")))
        })
    }

    /// Damages the value of an entry, as an error of the disk would.
    #[cfg(test)]
    pub(crate) fn damage(&self, key: &str) {
        let database = self.database.read();
        let change = database.as_ref().unwrap().begin_write().unwrap();
        {
            let mut live = change.open_table(LIVE).unwrap();
            let mut octets = live.get(key).unwrap().unwrap().value().to_vec();
            *octets.last_mut().unwrap() ^= 1;
            octets[0] ^= 1;
            live.insert(key, octets.as_slice()).unwrap();
        }
        change.commit().unwrap();
    }

    fn grave(&self, key: &str, octets: &[u8]) -> Option<Timestamp> {
        let stamp = octets.split_at_checked(4).and_then(|(crc, stamp)| {
            let valid = crc == crc_of(key, stamp);
            record::read_stamp(stamp).ok().filter(|_| valid)
        });
        if stamp.is_none() {
            tracing::warn!(file = %self.file.display(), key, "a damaged tombstone is not applied");
        }
        stamp
    }

    fn head(&self, key: &str, octets: &[u8]) -> Option<Mark> {
        record::read(key, octets).map(|head| head.mark()).inspect_err(|problem| {
            let file = self.file.display();
            tracing::warn!(%file, key, problem, "a damaged entry counts as absent for updates: the next put replaces it");
        }).ok()
    }

    /// Times of a key in the tables of a change or of a snapshot.
    fn mark_in(
        &self,
        key: &str,
        live: &impl ReadableTable<&'static str, &'static [u8]>,
        gone: &impl ReadableTable<&'static str, &'static [u8]>,
    ) -> Result<Option<Mark>> {
        if let Some(entry) = live.get(key).map_err(|error| self.failed(error))? {
            return Ok(self.head(key, entry.value()));
        }
        let grave = gone.get(key).map_err(|error| self.failed(error))?;
        Ok(grave.and_then(|grave| self.grave(key, grave.value())).map(Mark::Gone))
    }

    fn commit(&self, change: WriteTransaction) -> Result<()> {
        change.commit().map_err(|error| self.failed(error))
    }
}

fn bounds<'a>(
    span: &'a Span,
    after: Option<&'a str>,
    end: Option<&'a str>,
) -> (Bound<&'a str>, Bound<&'a str>) {
    let start = after.map_or(Bound::Included(span.start()), Bound::Excluded);
    (start, end.map_or(Bound::Unbounded, Bound::Excluded))
}

/// Name of a wildcard update in its table.
fn name(wildcard: &Wildcard) -> String {
    format!("{}{}", if wildcard.value.is_some() { 'p' } else { 'd' }, wildcard.key)
}

/// Tables of a change.
struct Change<'t> {
    disk: &'t Disk,
    live: redb::Table<'t, &'static str, &'static [u8]>,
    gone: redb::Table<'t, &'static str, &'static [u8]>,
    wild: redb::Table<'t, &'static str, &'static [u8]>,
    scratch: Vec<u8>,
}

fn refused(key: &str, flaw: record::Flaw) -> Error {
    Error::Volume { action: "store a value", problem: format!("{key}: {flaw}") }
}

fn crc_of(key: &str, stamp: &[u8]) -> [u8; 4] {
    crc32c::crc32c_append(crc32c::crc32c(key.as_bytes()), stamp).to_le_bytes()
}

impl Table for Change<'_> {
    fn mark(&mut self, key: &str) -> Result<Option<Mark>> {
        self.disk.mark_in(key, &self.live, &self.gone)
    }

    fn put(&mut self, key: &str, put: Timestamp, stamp: Timestamp, value: &Value) -> Result<()> {
        record::write(&mut self.scratch, key, put, stamp, value).map_err(|flaw| refused(key, flaw))?;
        let replaced =
            self.live.insert(key, self.scratch.as_slice()).map_err(|error| self.disk.failed(error))?;
        if replaced.is_none() {
            self.gone.remove(key).map_err(|error| self.disk.failed(error))?;
        }
        Ok(())
    }

    fn raise(&mut self, key: &str, put: Timestamp) -> Result<()> {
        let (stamp, value) = {
            let entry = self.live.get(key).map_err(|error| self.disk.failed(error))?;
            let Some(entry) = entry else { return Ok(()) };
            let flawed = |flaw| self.disk.damaged(Some(key), flaw);
            let head = record::read(key, entry.value()).map_err(flawed)?;
            (head.stamp, head.value().map_err(flawed)?)
        };
        self.put(key, put, stamp, &value)
    }

    fn bury(&mut self, key: &str, stamp: Timestamp) -> Result<()> {
        self.live.remove(key).map_err(|error| self.disk.failed(error))?;
        self.scratch.clear();
        self.scratch.extend_from_slice(&[0; 4]);
        record::write_stamp(&mut self.scratch, stamp);
        let crc = crc_of(key, &self.scratch[4..]);
        self.scratch[..4].copy_from_slice(&crc);
        self.gone.insert(key, self.scratch.as_slice()).map_err(|error| self.disk.failed(error))?;
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<()> {
        let live = self.live.remove(key).map_err(|error| self.disk.failed(error))?.is_some();
        if !live {
            self.gone.remove(key).map_err(|error| self.disk.failed(error))?;
        }
        Ok(())
    }

    fn keys(&mut self, span: &Span, after: Option<&str>) -> Result<Vec<(String, Mark)>> {
        let end = span.end();
        let mut keys = Vec::new();
        let range = self.live.range::<&str>(bounds(span, after, end.as_deref()));
        for entry in range.map_err(|error| self.disk.failed(error))? {
            let (key, octets) = entry.map_err(|error| self.disk.failed(error))?;
            if span.contains(key.value())
                && let Some(mark) = self.disk.head(key.value(), octets.value())
            {
                keys.push((key.value().to_owned(), mark));
            }
            if keys.len() == AT_ONCE {
                break;
            }
        }
        Ok(keys)
    }

    fn graves(&mut self, after: Option<&str>) -> Result<Vec<(String, Timestamp)>> {
        let mut graves = Vec::new();
        let range = self.gone.range::<&str>(bounds(&Span::default(), after, None));
        for entry in range.map_err(|error| self.disk.failed(error))? {
            let (key, octets) = entry.map_err(|error| self.disk.failed(error))?;
            if let Some(stamp) = self.disk.grave(key.value(), octets.value()) {
                graves.push((key.value().to_owned(), stamp));
            }
            if graves.len() == AT_ONCE {
                break;
            }
        }
        Ok(graves)
    }

    fn keep(&mut self, wildcard: &Wildcard) -> Result<()> {
        let (name, none) = (name(wildcard), Value::default());
        let value = wildcard.value.as_ref().unwrap_or(&none);
        let stamp = wildcard.stamp;
        record::write(&mut self.scratch, &name, stamp, stamp, value).map_err(|flaw| refused(&name, flaw))?;
        self.wild.insert(&*name, self.scratch.as_slice()).map_err(|error| self.disk.failed(error))?;
        Ok(())
    }

    fn forget(&mut self, wildcard: &Wildcard) -> Result<()> {
        self.wild.remove(&*name(wildcard)).map_err(|error| self.disk.failed(error))?;
        Ok(())
    }
}

impl Store for Disk {
    fn capability(&self) -> Capability {
        Capability { persistence: Persistence::Durable, history: History::Latest }
    }

    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>> {
        self.read(|database| {
            let read = database.begin_read().map_err(|error| self.failed(error))?;
            let live = read.open_table(LIVE).map_err(|error| self.failed(error))?;
            let Some(entry) = live.get(key).map_err(|error| self.failed(error))? else { return Ok(None) };
            let head = record::read(key, entry.value()).map_err(|flaw| self.damaged(Some(key), flaw))?;
            let value = head.value().map_err(|flaw| self.damaged(Some(key), flaw))?;
            Ok(Some((head.stamp, value)))
        })
    }

    fn mark(&self, key: &str) -> Result<Option<Mark>> {
        self.read(|database| {
            let read = database.begin_read().map_err(|error| self.failed(error))?;
            let open = |table| read.open_table(table).map_err(|error| self.failed(error));
            self.mark_in(key, &open(LIVE)?, &open(GONE)?)
        })
    }

    fn page(&self, span: &Span, after: Option<&str>, wanted: &dyn Fn(&str) -> bool) -> Result<Page> {
        self.read(|database| {
            let read = database.begin_read().map_err(|error| self.failed(error))?;
            let live = read.open_table(LIVE).map_err(|error| self.failed(error))?;
            let (mut page, mut bytes, mut looked) = (Page::default(), 0, 0);
            let end = span.end();
            let range = live.range::<&str>(bounds(span, after, end.as_deref()));
            for entry in range.map_err(|error| self.failed(error))? {
                let (key, octets) = entry.map_err(|error| self.failed(error))?;
                let key = key.value();
                looked += 1;
                if span.contains(key) && wanted(key) {
                    let entry = record::read(key, octets.value())
                        .and_then(|head| head.value().map(|value| (head.stamp, value)));
                    match entry {
                        Ok((stamp, value)) => {
                            bytes += value.weight();
                            page.found.push(Found { key: key.to_owned(), stamp, value });
                        }
                        Err(flaw) => page.damaged.push(self.damaged(Some(key), flaw)),
                    }
                }
                let entries = page.found.len() + page.damaged.len();
                if entries >= PAGE_ENTRIES || bytes >= PAGE_BYTES || looked >= PAGE_KEYS {
                    page.next = Some(key.to_owned());
                    break;
                }
            }
            Ok(page)
        })
    }

    fn change(&self, reach: Reach, work: &mut dyn FnMut(&mut dyn Table) -> Result<()>) -> Result<()> {
        self.on(|database| {
            let mut change = database.begin_write().map_err(|error| self.failed(error))?;
            if reach == Reach::Visible {
                change.set_durability(Durability::None).map_err(|error| self.failed(error))?;
            } else {
                // After a crash the file is ready at once, whatever its size.
                change.set_quick_repair(true);
            }
            {
                let open = |table| change.open_table(table).map_err(|error| self.failed(error));
                let (live, gone, wild) = (open(LIVE)?, open(GONE)?, open(WILD)?);
                work(&mut Change { disk: self, live, gone, wild, scratch: Vec::new() })?;
            }
            self.commit(change)
        })
    }

    fn wildcards(&self) -> Result<Vec<Wildcard>> {
        self.read(|database| {
            let read = database.begin_read().map_err(|error| self.failed(error))?;
            let wild = read.open_table(WILD).map_err(|error| self.failed(error))?;
            let mut all = Vec::new();
            for entry in wild.iter().map_err(|error| self.failed(error))? {
                let (name, octets) = entry.map_err(|error| self.failed(error))?;
                let (name, flawed) = (name.value(), |flaw| self.damaged(Some(name.value()), flaw));
                let head = record::read(name, octets.value()).map_err(flawed)?;
                let value = head.value().map_err(flawed)?;
                let (kind, text) = name.split_at_checked(1).unwrap_or_default();
                let key = KeyExpr::new(text).map_err(|_| flawed("its name is no key expression"))?;
                all.push(Wildcard { key, stamp: head.stamp, value: (kind == "p").then_some(value) });
            }
            Ok(all)
        })
    }

    fn counts(&self) -> Result<Counts> {
        self.read(|database| {
            let read = database.begin_read().map_err(|error| self.failed(error))?;
            let len = |table| {
                let table = read.open_table(table).map_err(|error| self.failed(error))?;
                table.len().map_err(|error| self.failed(error))
            };
            let bytes = std::fs::metadata(&self.file).map_or(0, |meta| meta.len());
            Ok(Counts { keys: len(LIVE)?, tombstones: len(GONE)?, bytes })
        })
    }

    fn reopen(&self) -> Result<()> {
        let mut database = self.database.write();
        // The lock of the file is released first.
        drop(database.take());
        let opened = self.guarded(|| {
            let opened = (self.open)().map_err(|error| self.failed(error))?;
            self.prepare(&opened)?;
            Ok(opened)
        })?;
        *database = Some(opened);
        Ok(())
    }

    fn close(&self) -> Result<()> {
        drop(self.database.write().take());
        Ok(())
    }
}
