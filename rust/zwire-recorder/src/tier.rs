//! Thread that moves sealed segments of a spool into its store.
//!
//! Errors of the store never stop the recording: segments wait in the folder, and the thread tries again, after longer
//! and longer pauses.

use crate::{compact::Compacting, shared::Shared, spread::Spread};
use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    thread::JoinHandle,
};
use zwire_engine::clock;
use zwire_spool::{
    Consumer, Error, Layout, Meta, Result, Shard, ShardWriter, Shards, Spool, Waiting,
    layout::GAPS,
    tier::{Noted, Sealed, Tiered, consumers_in, describe, note_place, place_of},
};
use zwire_tier::{Store, TierWriter, manifest::Change};

/// Period in which the thread looks for sealed segments.
const LOOK: Duration = Duration::from_millis(500);
/// Shortest and longest pause after an error.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Rows of the log of gaps that one segment takes, and attempts to add it before those of other spoolers.
const TOLD: usize = 4096;
const ATTEMPTS: u32 = 8;
/// Looks between two readings of the consumers of the store.
pub(crate) const CONSUMERS: u32 = 60;

/// Counters of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierStats {
    /// Complete segments that are not in the store yet.
    pub behind: u64,
    /// Their size in octets.
    pub behind_bytes: u64,
    /// Octets of all segments in the store, as far as known.
    pub bytes: u64,
    /// Octets of segments that this recorder has put there.
    pub uploaded: u64,
    /// Segments that this recorder has merged into larger ones.
    pub merged: u64,
    /// Objects that no entry names, and that it has deleted.
    pub orphans: u64,
    /// Attempts that have failed.
    pub failures: u64,
    /// Text of the error of the last attempt, unless it succeeded.
    pub problem: Option<String>,
}

/// State that the thread shares with the others.
#[derive(Default)]
pub(crate) struct Link {
    /// Offsets before which retention has deleted rows of the store, to be deleted there.
    trims: Mutex<BTreeMap<Shard, u64>>,
    /// Consumers that read the store alone; `None` until they were read. Nothing is deleted before: rows past their age may
    /// wait for one of them.
    pub(crate) consumers: Mutex<Option<BTreeMap<String, Consumer>>>,
    /// Set when nothing more will be sealed: the thread ends once all is uploaded, or with the next error.
    finish: Arc<AtomicBool>,
    /// Time of the clock until which the thread of a shared spooler tries to upload the rest.
    until: Mutex<Duration>,
    bytes: AtomicU64,
    uploaded: AtomicU64,
    merged: AtomicU64,
    orphans: AtomicU64,
    failures: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl Link {
    /// Has rows deleted in the store.
    pub(crate) fn trim(&self, shard: Shard, offset: u64) {
        let mut trims = self.trims.lock();
        let known = trims.entry(shard).or_default();
        *known = offset.max(*known);
    }

    /// Whether the thread is to end once all is uploaded.
    pub(crate) fn is_finishing(&self) -> bool {
        self.finish.load(Ordering::Acquire)
    }

    /// Time of the clock until which the rest is to be uploaded.
    pub(crate) fn until(&self) -> Duration {
        *self.until.lock()
    }

    /// Takes note of the outcome of a turn. Returns whether it has failed.
    pub(crate) fn count<T>(&self, done: &Result<T>) -> bool {
        let problem = done.as_ref().err().map(ToString::to_string);
        let failed = problem.is_some();
        *self.problem.lock() = problem;
        self.failures.fetch_add(failed.into(), Ordering::Relaxed);
        failed
    }

    /// Counters as of now.
    pub(crate) fn stats(&self, shared: &Shared) -> TierStats {
        let waiting = shared.writers().flat_map(|writer| writer.lock().unstored()).collect::<Vec<_>>();
        TierStats {
            behind: waiting.len() as u64,
            behind_bytes: waiting.iter().map(|waiting| waiting.bytes).sum(),
            bytes: self.bytes.load(Ordering::Relaxed),
            uploaded: self.uploaded.load(Ordering::Relaxed),
            merged: self.merged.load(Ordering::Relaxed),
            orphans: self.orphans.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            problem: self.problem.lock().clone(),
        }
    }
}

/// The thread.
pub(crate) struct Uploader {
    shared: Arc<Shared>,
    link: Arc<Link>,
    tier: TierWriter,
    meta: Meta,
    /// Most octets of a shard in the folder, of those that the store has as well.
    local_bytes: Option<u64>,
    compacting: Compacting,
    begun: bool,
    looks: u32,
    /// Consumers that have expired, each named in the log once.
    expired: BTreeSet<String>,
    /// Segment of the log of gaps whose entry may be there, and the number of its rows.
    told: Option<(Sealed, usize)>,
}

/// Fails with [`Error::Mismatch`] for a spool that several spoolers share: only its lease lets one of them write.
pub(crate) fn refuse_shared(dir: &Path, meta: &Meta) -> Result<()> {
    if place_of(dir, meta)?.is_some_and(|known| known.shared.is_some()) {
        let problem =
            "several spoolers share this spool: it is written by a spooler with shared alone".to_owned();
        return Err(Error::Mismatch { path: dir.to_owned(), problem });
    }
    Ok(())
}

/// Writer of the store that a spool has or is to have; `None` if it has none. The store is noted in the folder, so
/// that its readers find it.
pub(crate) fn writer(
    dir: &Path,
    meta: &Meta,
    url: Option<&str>,
    is_shared: bool,
    spread: bool,
) -> Result<Option<TierWriter>> {
    if !is_shared {
        refuse_shared(dir, meta)?;
    }
    let known = place_of(dir, meta)?;
    let shared = known.as_ref().and_then(|known| known.shared);
    let known_claims = known.as_ref().and_then(|known| known.claims.clone());
    if known
        .as_ref()
        .is_some_and(|known| (spread || known.shared.is_some()) && known.claims.is_some() != spread)
    {
        let problem = if spread {
            "this spool has one writer at a time: spoolers with spread have a spool that they have begun"
        } else {
            "the spoolers of this spool hold shards: it is written by a spooler with spread alone"
        };
        return Err(Error::Mismatch { path: dir.to_owned(), problem: problem.to_owned() });
    }
    // Without a lease, epochs are those of the folder; this one has just begun.
    let alone = known.as_ref().map_or(0, |_| meta.epoch.saturating_sub(1));
    let Some(url) = url.map(str::to_owned).or(known.map(|known| known.url)) else { return Ok(None) };
    let tier = TierWriter::new(&url, meta, clock::mono)?;
    let url = tier.place().to_owned();
    let claims = known_claims.or_else(|| spread.then(BTreeMap::new));
    note_place(dir, meta, &Noted { url, shared: is_shared.then(|| shared.unwrap_or(alone)), claims })?;
    Ok(Some(tier))
}

/// Opens the spool in a folder, or in the store with an address, for reading.
pub fn open_spool(place: &Path) -> Result<Spool> {
    zwire_tier::open(place, clock::mono)
}

/// Handle of the thread.
pub(crate) struct Running(JoinHandle<()>, Arc<Link>);

impl Running {
    /// Lets the thread upload what is sealed now, and end. That of a shared spooler tries until a time of the clock.
    pub(crate) fn finish(&self, until: Duration) {
        *self.1.until.lock() = until;
        self.1.finish.store(true, Ordering::Release);
        self.0.thread().unpark();
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Uploader {
    /// An uploader without a thread.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        link: &Arc<Link>,
        mut tier: TierWriter,
        (meta, local_bytes): (Meta, Option<u64>),
        compacting: Compacting,
    ) -> Self {
        // The last rows are uploaded in the time that a merge would take.
        tier.halt_with(link.finish.clone());
        Self {
            shared: shared.clone(),
            link: link.clone(),
            tier,
            meta,
            local_bytes,
            compacting,
            begun: false,
            looks: 0,
            expired: BTreeSet::new(),
            told: None,
        }
    }

    /// Starts a thread.
    pub(crate) fn start(self, run: impl FnOnce(Self, &Link) + Send + 'static) -> std::io::Result<Running> {
        let link = self.link.clone();
        let thread = std::thread::Builder::new().name("zwire-spool-tier".to_owned());
        let own = link.clone();
        Ok(Running(thread.spawn(move || run(self, &own))?, link))
    }

    /// The thread of the only spooler of a store.
    pub(crate) fn run(mut self, link: &Link) {
        let mut pause = Duration::ZERO;
        loop {
            let finish = link.is_finishing();
            let done = self.turn();
            let failed = link.count(&done);
            pause = if failed { (pause * 2).clamp(PAUSES.0, PAUSES.1) } else { Duration::ZERO };
            self.shared.note(done);
            let may_succeed = failed && self.shared.spread().is_some();
            if finish && !(may_succeed && self.shared.clock.now().mono < link.until()) {
                return;
            }
            std::thread::park_timeout(pause.max(LOOK));
        }
    }

    /// Uploads what is sealed in the shards that this spooler holds, and the rows of the log of gaps about them.
    fn turn_spread(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        let Some(spread) = shared.spread() else { return Ok(()) };
        if !self.begun {
            self.tier.enter(&self.meta, self.shared.clock.micros())?;
            self.begun = true;
            self.count();
        }
        let read = if self.looks.is_multiple_of(CONSUMERS) { self.read_consumers() } else { Ok(()) };
        if read.is_ok() {
            self.looks = self.looks.wrapping_add(1);
        }
        for (number, epoch) in spread.held() {
            let shard = Shard::Data(number);
            let claims = BTreeMap::from([(shard, epoch)]);
            for waiting in self.shard(shard, |writer| Ok(writer.waiting()))? {
                match self.upload(shard, &waiting, Some(&claims)) {
                    // The thread that follows the claims sees the same, and stops writing.
                    Err(Error::Mismatch { .. }) if self.tier.is_fenced() => {
                        spread.drop_shard(number, epoch);
                        break;
                    }
                    uploaded => uploaded?,
                }
                self.release(shard)?;
            }
        }
        self.tell_gaps(spread)?;
        spread.note_oldest(self.tier.manifest());
        let held = spread.held();
        self.trim_under(&held)?;
        self.tier.hint()?;
        self.tier.sweep()?;
        // One of the spoolers merges.
        if held.contains_key(&0) && !self.link.is_finishing() {
            let done = self.compacting.attempt(&mut self.tier)?;
            self.link.merged.fetch_add(done.merged, Ordering::Relaxed);
            self.link.orphans.fetch_add(done.orphans, Ordering::Relaxed);
            self.count();
        }
        read
    }

    /// Adds rows to the log of gaps, which all spoolers write: where it ends is known with the entry alone. Segments are made
    /// again if another spooler was faster.
    fn tell_gaps(&mut self, spread: &Spread) -> Result<()> {
        if spread.waiting(1).0.is_empty() {
            return Ok(());
        }
        self.tier.look()?;
        if let Some((sealed, count)) = self.told.take() {
            let log = self.tier.manifest().shards.get(&Shard::Gaps);
            if log.is_some_and(|log| log.has(&sealed)) {
                spread.told(count);
            }
        }
        for _ in 0..ATTEMPTS {
            spread.drop_lost(self.tier.manifest(), self.tier.name());
            let (rows, claims) = spread.waiting(TOLD);
            if rows.is_empty() {
                return Ok(());
            }
            let there = self.tier.segments(Shard::Gaps)?;
            let none = Tiered::default();
            let log = self.tier.manifest().shards.get(&Shard::Gaps).unwrap_or(&none);
            let now = self.shared.clock.micros();
            let waiting = {
                let mut writer = self.shared.gaps.lock();
                writer.restart(log, &there, log.mark().end, 1)?;
                rows.iter().try_for_each(|gap| Shards::tell(&mut writer, gap))?;
                writer.flush(now)?;
                writer.seal()?;
                writer.unstored()
            };
            let Some(waiting) = waiting.first() else { return Ok(()) };
            let Some((sealed, change)) = self.send(Shard::Gaps, waiting)? else { return Ok(()) };
            // An answer may be lost.
            self.told = Some((sealed, rows.len()));
            match self.tier.record_under(&claims, BTreeMap::from([(Shard::Gaps, change)]), now) {
                Ok(()) => {
                    self.told = None;
                    spread.told(rows.len());
                    self.shared.gaps.lock().is_stored(waiting.base);
                    return self.release(Shard::Gaps);
                }
                Err(_) if self.tier.is_overtaken() || self.tier.is_fenced() => self.told = None,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Uploads what is sealed, and deletes what is to be deleted.
    pub(crate) fn turn(&mut self) -> Result<()> {
        if self.shared.spread().is_some() {
            return self.turn_spread();
        }
        if !self.begun {
            self.begin()?;
            self.begun = true;
        }
        // Uploads do not depend on the consumers; only deletions do.
        let read = if self.looks.is_multiple_of(CONSUMERS) { self.read_consumers() } else { Ok(()) };
        if read.is_ok() {
            self.looks = self.looks.wrapping_add(1);
        }
        for shard in self.meta.shards() {
            let waiting = self.shard(shard, |writer| Ok(writer.waiting()))?;
            for waiting in waiting {
                self.upload(shard, &waiting, None)?;
                self.tier.hint()?;
                self.release(shard)?;
            }
            self.release(shard)?;
        }
        self.trim()?;
        self.tier.hint()?;
        self.tier.sweep()?;
        // Not while the spooler closes: the segments stay small until the next one.
        if !self.link.finish.load(Ordering::Acquire) {
            let done = self.compacting.attempt(&mut self.tier)?;
            self.link.merged.fetch_add(done.merged, Ordering::Relaxed);
            self.link.orphans.fetch_add(done.orphans, Ordering::Relaxed);
            self.count();
        }
        read
    }

    /// Learns what the store has.
    fn begin(&mut self) -> Result<()> {
        self.tier.begin(&self.meta, self.shared.clock.micros())?;
        self.meta.shards().into_iter().try_for_each(|shard| self.join(shard))?;
        self.count();
        Ok(())
    }

    /// Goes on behind the rows that a shard has in the folder.
    pub(crate) fn join(&self, shard: Shard) -> Result<()> {
        let there = self.tier.segments(shard)?;
        if let Some(offset) = self.shard(shard, |writer| writer.join_tier(&there))? {
            self.link.trim(shard, offset);
        }
        Ok(())
    }

    /// Begins with an epoch of the lease.
    pub(crate) fn claim(&mut self, epoch: u32) -> Result<()> {
        self.tier.claim(&self.meta, epoch, self.shared.clock.micros())
    }

    /// Goes on behind the rows that a shard has in the store.
    pub(crate) fn resume(&self, shard: Shard, next: u64, epoch: u32) -> Result<()> {
        let none = Tiered::default();
        let tiered = self.tier.manifest().shards.get(&shard).unwrap_or(&none);
        let there = self.tier.segments(shard)?;
        self.shard(shard, |writer| writer.resume(tiered, &there, next, epoch))
    }

    /// Takes note that turns are taken from now on, and learns for which consumers rows are kept. After an error nothing is
    /// deleted until a turn has read them.
    pub(crate) fn begin_epoch(&mut self) {
        let read = self.read_consumers();
        self.looks = u32::from(self.shared.note(read).is_some());
        self.begun = true;
        self.count();
    }

    /// Takes note that turns are no longer taken. The spooler that writes next has other consumers.
    pub(crate) fn end_epoch(&self) {
        self.link.trims.lock().clear();
        *self.link.consumers.lock() = None;
    }

    /// Whether another spooler has written in a later epoch.
    pub(crate) const fn is_fenced(&self) -> bool {
        self.tier.is_fenced()
    }

    pub(crate) const fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(crate) fn place(&self) -> &str {
        self.tier.place()
    }

    pub(crate) fn store(&self) -> Arc<Store> {
        self.tier.store().clone()
    }

    /// Offset behind the rows of a shard in the store.
    pub(crate) fn end_in_store(&self, shard: Shard) -> u64 {
        self.tier.manifest().shards.get(&shard).map_or(0, |tiered| tiered.mark().end)
    }

    fn shard<T>(&self, shard: Shard, act: impl FnOnce(&mut ShardWriter) -> Result<T>) -> Result<T> {
        match shard {
            Shard::Data(number) => act(&mut self.shared.shards[number as usize].lock()),
            Shard::Gaps => act(&mut self.shared.gaps.lock()),
        }
    }

    /// Uploads a segment and adds its entry, under claims if spoolers hold shards.
    fn upload(
        &mut self,
        shard: Shard,
        waiting: &Waiting,
        claims: Option<&BTreeMap<Shard, u32>>,
    ) -> Result<()> {
        let Some((sealed, change)) = self.send(shard, waiting)? else { return Ok(()) };
        let (changes, now) = (BTreeMap::from([(shard, change)]), self.shared.clock.micros());
        match claims {
            None => self.tier.record(changes, now)?,
            Some(claims) => self.tier.record_under(claims, changes, now)?,
        }
        self.link.uploaded.fetch_add(sealed.bytes, Ordering::Relaxed);
        self.count();
        let there = self.shard(shard, |writer| Ok(writer.is_stored(waiting.base)))?;
        if !there {
            // Retention has deleted it meanwhile.
            self.link.trim(shard, waiting.end);
        }
        Ok(())
    }

    /// Uploads a segment; `None` if it was deleted meanwhile.
    fn send(&mut self, shard: Shard, waiting: &Waiting) -> Result<Option<(Sealed, Change)>> {
        let layout = match shard {
            Shard::Data(_) => self.meta.layout.clone(),
            Shard::Gaps => Layout::whole(&GAPS),
        };
        let described = describe(&waiting.path, &self.meta.id, (shard, &layout), (waiting.base, waiting.end));
        let (sealed, index) = match described {
            Ok(described) => described,
            // Retention may have deleted it meanwhile.
            Err(Error::Io { .. }) if !waiting.path.exists() => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(problem) = &sealed.problem {
            tracing::warn!("{}: {problem}; it is uploaded as it is", waiting.path.display());
        }
        match self.tier.upload(&waiting.path, shard, &sealed, index) {
            Err(Error::Io { .. }) if !waiting.path.exists() => return Ok(None),
            uploaded => uploaded?,
        }
        let drops = self.shard(shard, |writer| Ok(writer.mark().drops))?;
        let change = Change { add: vec![sealed.clone()], drops: Some(drops), ..Change::default() };
        Ok(Some((sealed, change)))
    }

    /// Deletes files of segments that the store has.
    fn release(&self, shard: Shard) -> Result<()> {
        let Some(bytes) = self.local_bytes else { return Ok(()) };
        let bytes = if shard == Shard::Gaps { bytes / 16 } else { bytes };
        self.shard(shard, |writer| writer.release(bytes)).map(|_| ())
    }

    /// Deletes in the store what retention has deleted, of the shards that this spooler holds.
    fn trim_under(&mut self, held: &BTreeMap<u32, u32>) -> Result<()> {
        let trims = core::mem::take(&mut *self.link.trims.lock());
        for (shard, offset) in trims {
            let number = if let Shard::Data(number) = shard { number } else { 0 };
            let Some(epoch) = held.get(&number) else { continue };
            let known = self.tier.manifest().shards.get(&shard);
            if !known.is_some_and(|tiered| tiered.has_before(offset)) {
                continue;
            }
            let claims = BTreeMap::from([(Shard::Data(number), *epoch)]);
            let change = Change { trim: Some(offset), ..Change::default() };
            let now = self.shared.clock.micros();
            match self.tier.record_under(&claims, BTreeMap::from([(shard, change)]), now) {
                // The spooler that holds the shard now deletes them.
                Err(Error::Mismatch { .. }) if self.tier.is_fenced() => {}
                Err(error) => {
                    self.link.trim(shard, offset);
                    return Err(error);
                }
                Ok(()) => self.count(),
            }
        }
        Ok(())
    }

    /// Deletes in the store what retention has deleted.
    fn trim(&mut self) -> Result<()> {
        let trims = self.link.trims.lock().clone();
        let there = |(shard, offset): &(&Shard, &u64)| {
            self.tier.manifest().shards.get(shard).is_some_and(|tiered| tiered.has_before(**offset))
        };
        let change =
            |(shard, offset): (&Shard, &u64)| (*shard, Change { trim: Some(*offset), ..Change::default() });
        let changes: BTreeMap<_, _> = trims.iter().filter(there).map(change).collect();
        if !changes.is_empty() {
            self.tier.record(changes, self.shared.clock.micros())?;
            self.count();
        }
        Ok(())
    }

    fn count(&self) {
        let shards = self.tier.manifest().shards.values();
        let bytes = shards.map(Tiered::bytes).sum();
        self.link.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Learns of consumers that read the store alone: rows are kept for them, too.
    fn read_consumers(&mut self) -> Result<()> {
        let mut consumers = consumers_in(&**self.tier.store(), &self.meta.id)?;
        let now = self.shared.clock.micros();
        consumers.retain(|name, consumer| {
            let fresh = self.shared.is_fresh(consumer, now);
            if fresh {
                self.expired.remove(name);
            } else if self.expired.insert(name.clone()) {
                self.shared.expire(name, consumer, now);
            }
            fresh
        });
        *self.link.consumers.lock() = Some(consumers);
        Ok(())
    }
}
