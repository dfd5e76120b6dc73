//! Recorder: the public handle of a spool that is written from a network.
//!
//! Each source has one thread, which takes items from the queue of the source and appends them. Handing items
//! to a thread per shard would cost more than appending them, so shards are locked instead; with shards chosen
//! by key expressions, each thread has a shard of its own.

use crate::{
    append::{open, random_id},
    compact::Compacting,
    error::{Error, Result},
    holder::Holder,
    identity::Recognition,
    lease::{Keeper, Kept},
    numbers::{Hole, Numbers, last_times},
    samples::Samples,
    shared::{Keeping, Shared},
    steps::{LeaseStats, Sharing, Turns},
    taker::{Rows, Source, Taker},
    tier::{self, Link, Running, TierStats, Uploader, open_spool},
    time::Clock,
    turns::Successor,
    zre::{Events, Gone, Records},
};
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
};
use zwire_engine::{
    AdvancedSubscriberOptions, Known, Origins, Queue,
    runtime::Birth,
    zre::{LogRecord, NodeEvent},
};
use zwire_proto::zenoh::{
    KeyExpr,
    advanced::{History, Miss, Recovery},
    session::Sample,
};
use zwire_spool::{
    Error as SpoolError, Gap, Layout, Meta, Options, ShardWriter, Spool, SpoolId, Wanted, Writer,
    tier::{Tiered, place_of},
};
use zwire_tier::{Store, TierWriter, lease::Author, spread::MOST};

/// Longest linger; a longer one would delay every reader.
const MAX_LINGER: Duration = Duration::from_secs(60);

/// Period at which [`Recorder::flush`] looks whether everything is readable.
const FLUSH_POLL: Duration = Duration::from_millis(2);

/// Settings of a recorder.
#[derive(Clone, Default)]
pub struct Settings {
    /// Longest time that a row waits for others in its block, at most a minute.
    pub linger: Duration,
    /// Retention; its size is that of the whole spool.
    pub keeping: Keeping,
    /// Address of a store for sealed segments; `None`: the one that the spool has already, if there is one.
    pub tier: Option<String>,
    /// How the spooler takes turns with others at the spool in the store; `None`: it is the only one.
    pub shared: Option<Turns>,
    /// Source of time.
    pub clock: Clock,
}

/// Counters of a recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items that came to the queues.
    pub received: u64,
    /// Items that the queues have dropped at their bounds.
    pub dropped: u64,
    /// Items in the queues.
    pub waiting: usize,
    /// Weight of the items in the queues, in octets.
    pub waiting_bytes: usize,
    /// Rows that were appended.
    pub rows: u64,
    /// Octets of payload of these rows.
    pub bytes: u64,
    /// Octets of the columns of these rows as far as written, before compression.
    pub raw_bytes: u64,
    /// Octets of the columns of these rows as far as written, as they are in the files.
    pub stored_bytes: u64,
    /// Samples and messages that are missing by their numbers.
    pub lost: u64,
    /// Samples that came more than once.
    pub duplicates: u64,
    /// Consumers that have expired, so that rows are no longer kept for them.
    pub expired: u64,
    /// Items that reached no shard.
    pub refused: u64,
    /// Text of the last error.
    pub problem: Option<String>,
    /// Counters of the store, if there is one.
    pub tier: Option<TierStats>,
    /// State of the lease, if the spool is shared.
    pub lease: Option<LeaseStats>,
}

/// Id of a shared spool: that of its store, which gets the spool of the folder or a new one if it has none. Also the number of
/// shards that the folder is to have files for.
fn shared_id(
    dir: &Path,
    wanted: &Wanted,
    (url, spread): (Option<&str>, bool),
    clock: &Clock,
) -> Result<(SpoolId, u32)> {
    let folder = Spool::open(dir).ok();
    let meta = match &folder {
        Some(spool) => Meta { shards: wanted.shards, ..spool.meta().clone() },
        None => wanted.meta(random_id()?, clock.micros()),
    };
    let most = if spread { MOST.max(wanted.shards) } else { wanted.shards };
    let files = folder.as_ref().filter(|_| spread).map_or(most, |spool| spool.meta().shards);
    let noted = if folder.is_some() { place_of(dir, &meta)?.map(|noted| noted.url) } else { None };
    let url = url.map(str::to_owned).or(noted);
    let url = url.ok_or(Error::Usage("shared: a spool that several spoolers share has a tier"))?;
    let there = match TierWriter::describe(&url, &meta, zwire_engine::clock::mono) {
        Ok(there) => there,
        // The spool is known; its lease waits for the store.
        Err(SpoolError::Unreachable { .. }) if folder.is_some() => return Ok((meta.id, files)),
        Err(error) => return Err(error.into()),
    };
    if folder.is_some() && there.id != meta.id {
        let problem = format!("has spool {}, and the folder has {}", there.id_text(), meta.id_text());
        return Err(SpoolError::Mismatch { path: url.into(), problem }.into());
    }
    let now = match Store::of_lease(&url, zwire_engine::clock::mono)?.check_kind(&there.id, spread) {
        // A writer checks it once more with its first entry, and waits for the store or mends what is torn.
        Err(SpoolError::Unreachable { .. } | SpoolError::BadFile { .. }) => None,
        checked => checked?,
    };
    // The number of shards may have changed: the present one is as good as the first.
    let there = Meta { shards: now.filter(|now| *now == wanted.shards).unwrap_or(there.shards), ..there };
    wanted.check(&there, Path::new(&url))?;
    let needed = if spread { MOST.max(there.shards) } else { wanted.shards };
    if folder.is_some() && files < needed {
        let problem =
            format!("has files for {files} shards, and the spool may get {needed}: give an empty folder");
        return Err(SpoolError::Mismatch { path: dir.to_owned(), problem }.into());
    }
    Ok((there.id, files.max(needed)))
}

/// Threads and what they take from.
#[derive(Default)]
struct Started {
    /// Keys of the subscribers that have a thread.
    keys: Vec<KeyExpr>,
    sources: Vec<Arc<Source>>,
    threads: Vec<JoinHandle<()>>,
}

impl Started {
    fn start<R: Rows>(
        &mut self,
        shared: &Arc<Shared>,
        name: String,
        queue: Arc<Queue<R::Item>>,
        rows: R,
    ) -> Result<()> {
        let number = self.sources.len();
        let counted = queue.clone();
        let stats = Box::new(move || counted.stats());
        let source = Arc::new(Source { name, stats, done: AtomicU64::new(0) });
        self.sources.push(source.clone());
        let taker = Taker::new(shared.clone(), source, queue, rows, number);
        let thread = std::thread::Builder::new().name(format!("zwire-spool-{number}"));
        self.threads.push(thread.spawn(move || taker.run()).map_err(Error::Thread)?);
        Ok(())
    }
}

/// Writer of network traffic into a spool.
pub struct Recorder {
    shared: Arc<Shared>,
    started: Mutex<Started>,
    dir: PathBuf,
    layout: Layout,
    known: Numbers,
    last: Option<i64>,
    birth: Birth,
    id: String,
    uploader: Option<Running>,
    keeper: Option<Kept>,
}

impl Recorder {
    /// A recorder for the spool in a folder, which is created if it does not exist.
    pub fn open(dir: &Path, wanted: &Wanted, options: &Options, settings: Settings) -> Result<Self> {
        let Settings { linger, mut keeping, tier, shared: turns, clock } = settings;
        let (writer, mut shards) = match &turns {
            None => open(dir, wanted, options, &clock)?,
            Some(turns) => {
                let (id, shards) = shared_id(dir, wanted, (tier.as_deref(), turns.spread), &clock)?;
                // The folder has files for all shards that the spool may get.
                let folder = Wanted { shards, ..wanted.clone() };
                Writer::open(dir, &folder, id, options, clock.micros())?
            }
        };
        let meta = Meta { shards: wanted.shards, ..writer.meta().clone() };
        let unknown = turns.is_some() && place_of(dir, &meta)?.is_none();
        if unknown && shards.data.iter().any(|shard| shard.next_offset() > 0) {
            return Err(Error::Usage(
                "shared: rows of this folder are in no tier; run a spooler with the tier and without shared first",
            ));
        }
        let is_shared = turns.is_some();
        let spread = turns.as_ref().is_some_and(|turns| turns.spread);
        let tier = tier::writer(dir, &meta, tier.as_deref(), is_shared, spread)?;
        if tier.is_some() {
            shards.data.iter_mut().chain([&mut shards.gaps]).for_each(ShardWriter::await_tier);
        } else if keeping.local_bytes.is_some() {
            return Err(Error::Usage("local_bytes: this spool has no tier that its segments could be in"));
        }
        if spread {
            // Rows about the folder alone: the log of the spool is in the store.
            shards.gaps.restart(&Tiered::default(), &[], 0, 1)?;
        }
        if is_shared {
            // Readers do not need them here.
            keeping.local_bytes.get_or_insert(0);
        }
        let view = if is_shared { open_spool(dir) } else { Spool::open(dir) };
        // Damaged rows are reported to readers; numbers start afresh then.
        let (known, holes) = view.as_ref().ok().and_then(|view| Numbers::of(view).ok()).unwrap_or_default();
        let count = u64::from(wanted.shards);
        let local_bytes = keeping.local_bytes.map(|bytes| bytes / count);
        let link = tier.as_ref().map(|_| Arc::new(Link::default()));
        let linger = linger.min(MAX_LINGER);
        let mut shared = Shared::new(writer, shards, options.durability, linger, keeping, clock);
        shared.tier.clone_from(&link);
        let layout = shared.shards[0].lock().layout().clone();
        let (shards, name) = (shared.shards.len(), tier.as_ref().map_or("", TierWriter::name).to_owned());
        shared.sharing = turns.map(|turns| {
            Arc::new(Sharing::new(turns, Recognition::new(&layout), (shards, wanted.shards), &name))
        });
        let last = match (&view, is_shared) {
            (Ok(view), true) => view.marks().unwrap_or_default().iter().map(|mark| mark.last_time).max(),
            _ => shared.shards.iter().map(|shard| shard.lock().mark().last_time).max(),
        };
        if !is_shared {
            Self::tell_holes(&shared, holes);
        }
        let (shared, started, birth) = (Arc::new(shared), Mutex::default(), Birth::here());
        let id = meta.id_text();
        let (mut uploader, mut keeper) = (None, None);
        if let Some((tier, link)) = tier.zip(link) {
            let (url, name, spool) = (tier.place().to_owned(), tier.name().to_owned(), meta.id);
            let compacting = Compacting::new(dir, keeping.compact_bytes, shared.clock.clone());
            if shared.spread().is_some() {
                let started = Holder::new(&shared, &tier, &meta, dir)?.start()?;
                keeper = Some(started.map_err(Error::Thread)?);
            }
            let upload = Uploader::new(&shared, &link, tier, (meta, local_bytes), compacting);
            let started = match shared.sharing.clone().filter(|sharing| sharing.spread.is_none()) {
                None => upload.start(Uploader::run),
                Some(sharing) => {
                    let author = Author { writer: name, host: sharing.turns.host.clone() };
                    let store = Store::of_lease(&url, zwire_engine::clock::mono)?;
                    let clock = shared.clock.clone();
                    let thread = Keeper::new(store, spool, author, sharing.clone(), clock).start();
                    keeper = Some(thread.map_err(Error::Thread)?);
                    let (shared, dir) = (shared.clone(), dir.to_owned());
                    upload
                        .start(move |upload, link| Successor::new(upload, &shared, &sharing, &dir).run(link))
                }
            };
            uploader = Some(started.map_err(Error::Thread)?);
        }
        let (dir, last) = (dir.to_owned(), last.filter(|&at| at > 0));
        Ok(Self { shared, started, dir, layout, known, last, birth, id, uploader, keeper })
    }

    /// Names numbers that the last spooler has not written.
    fn tell_holes(shared: &Shared, holes: Vec<Hole>) {
        let offset = shared.shards[0].lock().next_offset();
        let now = shared.clock.micros();
        let gap = |hole: Hole| hole.gap((0, offset), now, "the last spooler has not written these");
        let told: Vec<Gap> = holes.into_iter().map(gap).collect();
        shared.tell(&told, now);
    }

    /// Id of the spool.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Receive time in microseconds since 1970 of the last row when the spool was opened, if any.
    pub const fn last(&self) -> Option<i64> {
        self.last
    }

    /// Checks that the recorder is open, and belongs to this process. Fails with [`Error::Usage`] if not, and with
    /// [`SpoolError::Removed`] after the folder was removed.
    pub fn check(&self) -> Result<()> {
        if !self.birth.is_here() {
            return Err(Error::Usage("this spooler belongs to another process"));
        }
        if self.shared.writer.lock().is_none() {
            return Err(Error::Usage("the spooler is closed"));
        }
        Ok(self.shared.check_folder()?)
    }

    /// Records the samples of a subscriber, except those that an earlier one of this recorder receives too. What an
    /// advanced subscriber has missed becomes a gap.
    pub fn record_samples(
        &self,
        key: KeyExpr,
        queue: Arc<Queue<Sample>>,
        misses: Option<Arc<Queue<Miss>>>,
        origins: Arc<Origins>,
    ) -> Result<()> {
        self.check()?;
        let started = &mut *self.started.lock();
        let rows = Samples::new(&self.layout, started.keys.clone(), self.known.clone(), misses, origins);
        let name = format!("the subscriber to {key}");
        started.keys.push(key);
        started.start(&self.shared, name, queue, rows)
    }

    /// Records the events of a ZRE node.
    pub fn record_events(&self, queue: Arc<Queue<NodeEvent>>) -> Result<()> {
        self.check()?;
        let rows = Events { columns: self.layout.names(), gone: Gone::default() };
        self.started.lock().start(&self.shared, "the node".to_owned(), queue, rows)
    }

    /// Records what a collector of ZRE/LOG receives.
    pub fn record_log(&self, queue: Arc<Queue<LogRecord>>) -> Result<()> {
        self.check()?;
        let rows = Records(self.layout.names());
        self.started.lock().start(&self.shared, "the collector".to_owned(), queue, rows)
    }

    /// Options of a subscriber that asks the caches of publishers for the samples that it misses. With
    /// `history` it also asks for older samples when it is declared, none older than the given age.
    #[must_use]
    pub fn subscriber_options(history: Option<Option<Duration>>) -> AdvancedSubscriberOptions {
        AdvancedSubscriberOptions {
            history: history.map(|max_age| History { late: true, max_samples: None, max_age }),
            recovery: Some(Recovery::Heartbeat),
            ..AdvancedSubscriberOptions::default()
        }
    }

    /// Samples that a subscriber need not ask for; with `history` also last times of keys without numbers.
    pub fn known(&self, history: bool) -> Result<Known> {
        let mut known = self.known.known();
        if history {
            known.times = last_times(&open_spool(&self.dir)?)?;
        }
        Ok(known)
    }

    /// Counters as of now.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = Stats {
            rows: load(&shared.rows),
            bytes: load(&shared.bytes),
            lost: load(&shared.lost),
            duplicates: load(&shared.duplicates),
            expired: load(&shared.expired),
            refused: load(&shared.refused),
            problem: shared.problem.lock().clone(),
            tier: shared.tier.as_ref().map(|tier| tier.stats(shared)),
            lease: shared.sharing.as_ref().map(|sharing| sharing.stats()),
            ..Stats::default()
        };
        for (raw, stored) in shared.shards.iter().map(|writer| writer.lock().sizes()) {
            stats.raw_bytes += raw;
            stats.stored_bytes += stored;
        }
        for queue in self.started.lock().sources.iter().map(|source| (source.stats)()) {
            stats.received += queue.received;
            stats.dropped += queue.dropped;
            stats.waiting += queue.waiting;
            stats.waiting_bytes += queue.waiting_bytes;
        }
        stats
    }

    /// Waits until readers see everything that was received before the call; `false` if the timeout or
    /// `interrupted` ended the wait.
    pub fn flush(&self, timeout: Duration, interrupted: &mut dyn FnMut() -> bool) -> Result<bool> {
        self.check()?;
        let end = self.shared.clock.now().mono + timeout;
        let sources = self.started.lock().sources.clone();
        let wanted: Vec<u64> = sources.iter().map(|source| (source.stats)().received).collect();
        loop {
            let done = sources.iter().zip(&wanted).all(|(source, wanted)| {
                source.done.load(Ordering::Acquire) + (source.stats)().dropped >= *wanted
            });
            if done {
                return Ok(true);
            }
            if self.shared.clock.now().mono >= end {
                return Ok(false);
            }
            self.shared.hurry.store(true, Ordering::Release);
            if interrupted() {
                return Ok(false);
            }
            std::thread::sleep(FLUSH_POLL);
        }
    }

    /// Writes a row for each shard into the gap log. The kind is `reconnect` or `epoch`, anything else `gap`.
    pub fn gap(&self, kind: &str, detail: &str) -> Result<()> {
        self.check()?;
        let kind = ["reconnect", "epoch"].into_iter().find(|known| *known == kind).unwrap_or("gap");
        let time = self.shared.clock.micros();
        let gaps: Vec<_> = (0..)
            .zip(self.shared.shards.iter().take(self.shared.shard_count()))
            .map(|(shard, writer)| Gap {
                shard,
                offset: writer.lock().next_offset(),
                kind,
                time,
                detail: detail.to_owned(),
                ..Gap::default()
            })
            .collect();
        match &self.shared.sharing {
            // The spooler that writes has not lost its link with this one.
            Some(sharing) => {
                let (ours, others): (Vec<Gap>, Vec<Gap>) =
                    gaps.into_iter().partition(|gap| sharing.writes(gap.shard as usize));
                others.into_iter().for_each(|gap| sharing.keep(gap));
                self.shared.tell(&ours, time);
            }
            None => self.shared.tell(&gaps, time),
        }
        Ok(())
    }

    /// Announces that the sources will end now, so that their end is not reported as a problem.
    pub fn begin_close(&self) {
        self.shared.closing.store(true, Ordering::Release);
    }

    /// Writes what the queues hold, ends the segments and releases the spool. A second call does nothing.
    /// Threads that are still busy at the timeout are abandoned. Segments that the store does not have by then are
    /// uploaded by the next recorder.
    pub fn close(&self, timeout: Duration) -> Result<()> {
        if !self.birth.is_here() {
            return Ok(());
        }
        self.shared.stop.store(true, Ordering::Release);
        let clock = &self.shared.clock;
        let end = clock.now().mono + timeout;
        let threads = core::mem::take(&mut self.started.lock().threads);
        for thread in threads {
            while !thread.is_finished() && clock.now().mono < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() && thread.join().is_err() {
                return Err(SpoolError::Usage("a thread of the spooler has failed".to_owned()).into());
            }
        }
        let checked = self.shared.check_folder();
        if checked.is_ok() {
            self.shared.remember(0);
        }
        let Some(writer) = self.shared.writer.lock().take() else { return Ok(()) };
        checked?;
        let used = self.shared.shards.iter().take(self.shared.shard_count());
        for shard in used.chain([&self.shared.gaps]) {
            shard.lock().close(clock.micros())?;
        }
        if let Some(uploader) = &self.uploader {
            uploader.finish(end);
            while !uploader.is_finished() && clock.now().mono < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if let Some((keeper, sharing)) = self.keeper.as_ref().zip(self.shared.sharing.as_ref()) {
            let waiting = self.shared.tier.as_ref().map_or(0, |link| link.stats(&self.shared).behind);
            if sharing.spread.is_none() && sharing.is_writing() && waiting > 0 {
                tracing::warn!(
                    "{waiting} segments are not in the store: the lease of the spool is not given back, and this spooler \
                     goes on behind them if it starts again before another one takes over"
                );
                keeper.abandon(sharing);
            } else {
                keeper.release(sharing);
            }
            while !keeper.is_finished() && clock.now().mono < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(writer.close()?)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Threads end by themselves; the last one releases the spool.
        self.shared.stop.store(true, Ordering::Release);
        if let Some(uploader) = &self.uploader {
            uploader.finish(Duration::ZERO);
        }
    }
}
