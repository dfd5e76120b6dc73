//! Recorder: the public handle of a spool that is written from a network.
//!
//! Each source has one thread, which takes items from the queue of the source and appends them. Handing items
//! to a thread per shard would cost more than appending them, so shards are locked instead; with shards chosen
//! by key expressions, each thread has a shard of its own.

use crate::{
    append::open,
    error::{Error, Result},
    numbers::{Hole, Numbers, last_times},
    samples::{Samples, id_bytes},
    shared::{Keeping, Shared},
    taker::{Rows, Source, Taker},
    time::Clock,
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
use zwire_spool::{Error as SpoolError, Gap, Layout, Options, Wanted};

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
}

impl Recorder {
    /// A recorder for the spool in a folder, which is created if it does not exist.
    pub fn open(dir: &Path, wanted: &Wanted, options: &Options, settings: Settings) -> Result<Self> {
        let Settings { linger, mut keeping, clock } = settings;
        let (writer, shards) = open(dir, wanted, options, &clock)?;
        // Damaged rows are reported to readers; numbers start afresh then.
        let (known, holes) = Numbers::of(dir).unwrap_or_default();
        let count = shards.data.len() as u64;
        keeping.rule.bytes = keeping.rule.bytes.map(|bytes| bytes / count);
        let id = writer.meta().id_text();
        let linger = linger.min(MAX_LINGER);
        let shared = Shared::new(writer, shards, options.durability, linger, keeping, clock);
        let offset = shared.shards[0].lock().next_offset();
        let now = shared.clock.micros();
        let told: Vec<Gap> = holes
            .into_iter()
            .map(|Hole { publisher, from, to }| Gap {
                offset,
                kind: "gap",
                source: Some((id_bytes(publisher.0), publisher.1)),
                numbers: Some((from, to)),
                count: Some(u64::from(to - from) + 1),
                time: now,
                detail: "the last spooler has not written these".to_owned(),
                ..Gap::default()
            })
            .collect();
        shared.tell(&told, now);
        let layout = shared.shards[0].lock().layout().clone();
        let last = shared.shards.iter().map(|shard| shard.lock().mark().last_time).max().filter(|&at| at > 0);
        let (shared, started, birth) = (Arc::new(shared), Mutex::default(), Birth::here());
        Ok(Self { shared, started, dir: dir.to_owned(), layout, known, last, birth, id })
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
            known.times = last_times(&self.dir)?;
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
            ..Stats::default()
        };
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
            .zip(&self.shared.shards)
            .map(|(shard, writer)| Gap {
                shard,
                offset: writer.lock().next_offset(),
                kind,
                time,
                detail: detail.to_owned(),
                ..Gap::default()
            })
            .collect();
        self.shared.tell(&gaps, time);
        Ok(())
    }

    /// Announces that the sources will end now, so that their end is not reported as a problem.
    pub fn begin_close(&self) {
        self.shared.closing.store(true, Ordering::Release);
    }

    /// Writes what the queues hold, ends the segments and releases the spool. A second call does nothing.
    /// Threads that are still busy at the timeout are abandoned.
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
        for shard in self.shared.shards.iter().chain([&self.shared.gaps]) {
            shard.lock().close(clock.micros())?;
        }
        Ok(writer.close()?)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Threads end by themselves; the last one releases the spool.
        self.shared.stop.store(true, Ordering::Release);
    }
}
