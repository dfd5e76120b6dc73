//! From subscribers, and from what knows ZRE, into a spool: one thread for each takes what has come, and
//! appends it.
//!
//! The thread that takes also appends. Handing a message on to a thread of its shard would cost more than
//! appending it, so shards are locked instead; by key expressions, each thread has a shard of its own.

mod numbers;
mod samples;
mod thread;
mod zre;

use crate::{
    errors,
    spool::append::{Settings, now, open},
    zenoh::{handlers::HandlerArg, keyexpr, session::Session, subscriber::Subscriber},
    zre::{log::LogCollector, node::Node},
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use numbers::{Hole, Numbers, ROWS_WITHOUT, last_times};
use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyDict};
use samples::{Samples, id_bytes};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};
use thread::{Rows, Taker};
use zre::{Events, Records};
use zwire_engine::{
    AdvancedSubscriberOptions, Queue,
    queue::{QueueStats, Weigh},
    runtime::Birth,
};
use zwire_proto::zenoh::{
    KeyExpr,
    advanced::{History, Recovery},
};
use zwire_spool::{
    Consumer, Durability, Error, Gap, Layout, Remembered, Retention, Rule, Shard, ShardWriter, Shards, Writer,
};

/// The log of gaps has a bound in any case: a few million of them, or a sixteenth of what the spool may have.
const MAX_GAP_BYTES: u64 = 1 << 30;
const MIN_GAP_BYTES: u64 = 1 << 20;

/// How long a spool's rows are kept, and when readers that say nothing are forgotten.
#[derive(Clone, Copy)]
pub(crate) struct Keeping {
    rule: Retention,
    consumer_micros: Option<i64>,
}

/// What all threads share.
pub(crate) struct Shared {
    /// Locked one at a time, and before `gaps`.
    shards: Vec<Mutex<ShardWriter>>,
    gaps: Mutex<ShardWriter>,
    writer: Mutex<Option<Writer>>,
    by_hash: bool,
    durability: Durability,
    /// How long a row may wait for company in its block.
    linger: Duration,
    keeping: Keeping,
    stop: AtomicBool,
    /// Subscribers end because they are meant to.
    closing: AtomicBool,
    /// Somebody waits for everything to be written.
    hurry: AtomicBool,
    rows: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    duplicates: AtomicU64,
    /// Rows that came to no shard: too large, or given up at the end.
    refused: AtomicU64,
    problem: Mutex<Option<String>>,
    /// What each source knows of publishers, as of when all its rows were written.
    publishers: Mutex<BTreeMap<usize, Remembered>>,
    /// How many rows there were when that was last left to the next writer.
    remembered: AtomicU64,
}

impl Shared {
    /// Writes gaps into the log. What cannot be written is kept for the next time, by the log itself.
    fn tell(&self, gaps: &[Gap]) {
        if gaps.is_empty() {
            return;
        }
        let mut log = self.gaps.lock();
        let told = gaps.iter().try_for_each(|gap| Shards::tell(&mut log, gap));
        let told = told.and_then(|()| log.flush(now()));
        drop(log);
        self.note(told);
    }

    /// Remembers what went wrong last.
    fn note<T>(&self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let text = error.to_string();
                let mut problem = self.problem.lock();
                if problem.as_ref() != Some(&text) {
                    tracing::warn!("{text}");
                }
                *problem = Some(text);
                None
            }
        }
    }

    /// Who has read how far, without those who are forgotten; nobody where nothing depends on it.
    fn consumers(&self, now: i64) -> Option<BTreeMap<String, Consumer>> {
        let Keeping { rule, consumer_micros } = self.keeping;
        if rule == Retention::default() && consumer_micros.is_none() {
            return Some(BTreeMap::new());
        }
        let writer = self.writer.lock();
        let writer = writer.as_ref()?;
        let mut consumers = self.note(writer.consumers())?;
        consumers.retain(|name, consumer| {
            let fresh = consumer_micros.is_none_or(|ttl| now.saturating_sub(consumer.at) < ttl);
            if !fresh {
                tracing::info!("consumer {name} has not committed for long and is forgotten");
                self.note(writer.forget(name));
            }
            fresh
        });
        Some(consumers)
    }

    /// Leaves what is known of publishers to the next writer, once there are so many rows more.
    fn remember(&self, rows: u64) {
        let parts: Vec<_> = self.publishers.lock().values().cloned().collect();
        let written = parts.iter().flat_map(|part| part.offsets.values()).sum::<u64>();
        let more = written.saturating_sub(self.remembered.load(Ordering::Relaxed));
        if more < rows || parts.iter().all(|part| part.publishers.is_empty()) {
            return;
        }
        if let Some(writer) = self.writer.lock().as_ref()
            && self.note(writer.remember(&parts)).is_some()
        {
            self.remembered.store(written, Ordering::Relaxed);
        }
    }

    /// Deletes what need not be kept, and seals what is old enough.
    fn keep_house(&self) {
        if self.writer.lock().is_none() {
            return;
        }
        let now = now();
        let consumers = self.consumers(now);
        let mut unread = Vec::new();
        for shard in &self.shards {
            let mut writer = shard.lock();
            let Shard::Data(number) = writer.shard() else { continue };
            self.note(writer.seal_if_due(now));
            // Where it is not known who has read what, nothing is deleted.
            let Some(consumers) = &consumers else { continue };
            let read = |consumer: &Consumer| consumer.offsets.get(&number).copied().unwrap_or(0);
            let committed = consumers.values().map(read).min();
            let deleted = self.note(writer.retain(&self.keeping.rule, committed, now)).unwrap_or_default();
            unread.extend(deleted.iter().filter(|range| range.unread < range.to).map(|range| Gap {
                shard: number,
                offset: range.to,
                kind: "gap",
                count: Some(range.to - range.unread),
                time: now,
                detail: format!(
                    "offsets {} to {} (exclusive) were deleted before everybody had read them: the spool has \
                     reached its greatest size",
                    range.unread, range.to
                ),
                ..Gap::default()
            }));
        }
        self.tell(&unread);
        let oldest = self.shards.iter().filter_map(|shard| shard.lock().oldest_time()).min();
        let mut log = self.gaps.lock();
        self.note(log.seal_if_due(now));
        let bytes = self.keeping.rule.bytes.map_or(MAX_GAP_BYTES, |bytes| (bytes / 16).max(MIN_GAP_BYTES));
        let rule = Retention { bytes: Some(bytes), ..self.keeping.rule };
        // Rows that are older and still there are kept for a consumer, and so is what is missing between them.
        let old = |time: i64| rule.micros.is_some_and(|age| now.saturating_sub(time) >= age);
        let held = oldest.is_some_and(old).then_some(0);
        self.note(log.retain(&rule, held, now));
        drop(log);
        self.remember(ROWS_WITHOUT);
    }
}

/// What of a queue does not depend on what it has.
trait Counted: Send + Sync {
    fn stats(&self) -> QueueStats;
}

impl<T: Weigh + Send> Counted for Queue<T> {
    fn stats(&self) -> QueueStats {
        Self::stats(self)
    }
}

/// What a thread tells about its queue.
pub(crate) struct Source {
    /// What it takes from, for people.
    name: String,
    queue: Arc<dyn Counted>,
    /// Items that were taken and can be seen by readers, or are in no shard for good.
    done: AtomicU64,
}

/// Where rows come from.
#[derive(FromPyObject)]
enum Feed<'py> {
    Subscriber(PyRef<'py, Subscriber>),
    Node(PyRef<'py, Node>),
    Log(PyRef<'py, LogCollector>),
}

/// What is started for each source.
#[derive(Default)]
struct Started {
    /// Of the subscribers that have a thread.
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
    ) -> PyResult<()> {
        let number = self.sources.len();
        let source = Arc::new(Source { name, queue: queue.clone(), done: AtomicU64::new(0) });
        self.sources.push(source.clone());
        let taker = Taker::new(shared.clone(), source, queue, rows, number);
        let thread = std::thread::Builder::new().name(format!("zwire-spool-{number}"));
        self.threads.push(thread.spawn(move || taker.run())?);
        Ok(())
    }
}

/// Writes what comes from a network into a spool.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolWriter {
    shared: Arc<Shared>,
    started: Mutex<Started>,
    dir: PathBuf,
    layout: Layout,
    known: Numbers,
    /// When the last row was received that was there at the beginning, in microseconds since 1970.
    last: Option<i64>,
    birth: Birth,
    /// Of the spool.
    id: String,
}

#[pymethods]
impl SpoolWriter {
    #[new]
    #[pyo3(signature = (dir, settings, linger, keep_seconds, keep_bytes, consumer_seconds))]
    #[allow(clippy::too_many_arguments, reason = "what Python has as keywords")]
    fn new(
        py: Python<'_>,
        dir: PathBuf,
        settings: Settings,
        linger: f64,
        keep_seconds: Option<f64>,
        keep_bytes: Option<u64>,
        consumer_seconds: Option<f64>,
    ) -> PyResult<Self> {
        let (wanted, options) = settings.parse(py)?;
        let (writer, shards) = open(py, &dir, &wanted, &options)?;
        // Damaged rows are the matter of whoever reads them; numbers begin anew then.
        let (known, holes) = py.detach(|| Numbers::of(&dir)).unwrap_or_default();
        let micros = |seconds: f64| (seconds * 1e6) as i64;
        let count = shards.data.len() as u64;
        let rule =
            Retention { micros: keep_seconds.map(micros), bytes: keep_bytes.map(|bytes| bytes / count) };
        let (id, by_hash) = (writer.meta().id_text(), writer.meta().rule == Rule::Hash);
        let shared = Arc::new(Shared {
            by_hash,
            durability: options.durability,
            shards: shards.data.into_iter().map(Mutex::new).collect(),
            gaps: Mutex::new(shards.gaps),
            writer: Mutex::new(Some(writer)),
            linger: Duration::from_secs_f64(linger.clamp(0.0, 60.0)),
            keeping: Keeping { rule, consumer_micros: consumer_seconds.map(micros) },
            stop: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            problem: Mutex::new(None),
            publishers: Mutex::default(),
            remembered: AtomicU64::new(0),
        });
        let offset = shared.shards[0].lock().next_offset();
        let told: Vec<Gap> = holes
            .into_iter()
            .map(|Hole { publisher, from, to }| Gap {
                offset,
                kind: "gap",
                source: Some((id_bytes(publisher.0), publisher.1)),
                numbers: Some((from, to)),
                count: Some(u64::from(to - from) + 1),
                time: now(),
                detail: "the last spooler has not written these".to_owned(),
                ..Gap::default()
            })
            .collect();
        shared.tell(&told);
        let layout = shared.shards[0].lock().layout().clone();
        let last = shared.shards.iter().map(|shard| shard.lock().mark().last_time).max().filter(|&at| at > 0);
        let (started, birth) = (Mutex::default(), Birth::here());
        Ok(Self { shared, started, dir, layout, known, last, birth, id })
    }

    /// When the last row was received that was there at the beginning, in microseconds since 1970; None of a
    /// spool without rows.
    #[getter]
    const fn last(&self) -> Option<i64> {
        self.last
    }

    /// Takes what comes to a subscriber, a node or a collector, from now on.
    fn feed(&self, py: Python<'_>, feed: Feed<'_>) -> PyResult<()> {
        self.check(py)?;
        let started = &mut *self.started.lock();
        match feed {
            Feed::Subscriber(subscriber) => {
                let (key, queue) = subscriber.source();
                let (keys, origins) = (started.keys.clone(), subscriber.origins());
                let rows = Samples::new(&self.layout, keys, self.known.clone(), origins);
                let name = format!("the subscriber to {key}");
                started.keys.push(key);
                started.start(&self.shared, name, queue, rows)
            }
            Feed::Node(node) => {
                let rows = Events::new(&self.layout);
                started.start(&self.shared, "the node".to_owned(), node.queue(py)?, rows)
            }
            Feed::Log(log) => {
                let rows = Records::new(&self.layout);
                started.start(&self.shared, "the collector".to_owned(), log.queue(), rows)
            }
        }
    }

    /// A subscriber that asks caches of publishers for what it misses, and with `history` at the beginning for
    /// what they have, none older than `max_age` seconds; what is in the spool already is not taken again.
    #[pyo3(signature = (session, key_expr, handler, *, history, max_age=None))]
    #[allow(clippy::too_many_arguments, reason = "what Python has as keywords")]
    fn subscriber(
        &self,
        py: Python<'_>,
        session: &Bound<'_, Session>,
        key_expr: &Bound<'_, PyAny>,
        handler: &Bound<'_, PyAny>,
        history: bool,
        max_age: Option<f64>,
    ) -> PyResult<Subscriber> {
        self.check(py)?;
        let session = session.get().0.clone();
        let key = keyexpr::extract(key_expr)?;
        let handler = HandlerArg::parse(py, Some(handler))?;
        let max_age = max_age.map(Duration::try_from_secs_f64).transpose();
        let max_age = max_age.map_err(|error| errors::option(py, "history", &error.to_string()))?;
        let history = history.then_some(History { late: true, max_samples: None, max_age });
        let options = AdvancedSubscriberOptions {
            history,
            recovery: Some(Recovery::Heartbeat),
            ..AdvancedSubscriberOptions::default()
        };
        let mut known = self.known.known();
        if history.is_some() {
            let times = py.detach(|| last_times(&self.dir));
            known.times = times.map_err(|error| errors::spool(py, &error))?;
        }
        let (declared, engine_handler) = (key.clone(), handler.engine());
        let (id, queue) = session.run(py, move |engine, _| {
            engine.declare_keeping_subscriber(declared, options, engine_handler, &known)
        })?;
        Subscriber::new(py, session, id, key, queue, handler)
    }

    /// The id of the spool.
    #[getter]
    fn id(&self) -> &str {
        &self.id
    }

    /// What has come and what became of it.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stats: Vec<_> = self.started.lock().sources.iter().map(|source| source.queue.stats()).collect();
        dict.set_item("received", stats.iter().map(|stats| stats.received).sum::<u64>())?;
        dict.set_item("dropped", stats.iter().map(|stats| stats.dropped).sum::<u64>())?;
        dict.set_item("waiting", stats.iter().map(|stats| stats.waiting).sum::<usize>())?;
        dict.set_item("waiting_bytes", stats.iter().map(|stats| stats.waiting_bytes).sum::<usize>())?;
        let shared = &self.shared;
        dict.set_item("rows", load(&shared.rows))?;
        dict.set_item("bytes", load(&shared.bytes))?;
        dict.set_item("lost", load(&shared.lost))?;
        dict.set_item("duplicates", load(&shared.duplicates))?;
        dict.set_item("refused", load(&shared.refused))?;
        dict.set_item("problem", shared.problem.lock().clone())?;
        Ok(dict)
    }

    /// Waits until everything that has come until now can be read; `False` if the time was up first.
    fn flush(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        self.check(py)?;
        let end = Instant::now() + Duration::from_secs_f64(timeout.clamp(0.0, 1e6));
        let sources = self.started.lock().sources.clone();
        let wanted: Vec<u64> = sources.iter().map(|source| source.queue.stats().received).collect();
        loop {
            let there = sources.iter().zip(&wanted).all(|(source, wanted)| {
                source.done.load(Ordering::Acquire) + source.queue.stats().dropped >= *wanted
            });
            if there {
                return Ok(true);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            self.shared.hurry.store(true, Ordering::Release);
            py.check_signals()?;
            py.detach(|| std::thread::sleep(Duration::from_millis(2)));
        }
    }

    /// Writes a row into the log of gaps.
    fn gap(&self, py: Python<'_>, kind: &str, detail: String) -> PyResult<()> {
        self.check(py)?;
        let kind = ["reconnect", "epoch"].into_iter().find(|known| *known == kind).unwrap_or("gap");
        py.detach(|| {
            let time = now();
            let gap = |(shard, writer): (u32, &Mutex<ShardWriter>)| Gap {
                shard,
                offset: writer.lock().next_offset(),
                kind,
                time,
                detail: detail.clone(),
                ..Gap::default()
            };
            let gaps: Vec<_> = (0..).zip(&self.shared.shards).map(gap).collect();
            self.shared.tell(&gaps);
        });
        Ok(())
    }

    /// Says that the subscribers will end now.
    fn begin_close(&self) {
        self.shared.closing.store(true, Ordering::Release);
    }

    /// Writes what is in the queues, ends the segments and lets go of the spool. A second time does nothing.
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        if !self.birth.is_here() {
            return Ok(());
        }
        let closed = py.detach(|| {
            self.shared.stop.store(true, Ordering::Release);
            let end = Instant::now() + Duration::from_secs_f64(timeout.clamp(0.0, 1e6));
            let threads = core::mem::take(&mut self.started.lock().threads);
            for thread in threads {
                while !thread.is_finished() && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if thread.is_finished() && thread.join().is_err() {
                    return Err(Error::Usage("a thread of the spooler has failed".to_owned()));
                }
            }
            self.shared.remember(0);
            let Some(writer) = self.shared.writer.lock().take() else { return Ok(()) };
            for shard in self.shared.shards.iter().chain([&self.shared.gaps]) {
                shard.lock().close(now())?;
            }
            writer.close()
        });
        closed.map_err(|error| errors::spool(py, &error))
    }
}

impl SpoolWriter {
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if !self.birth.is_here() {
            return Err(errors::usage(py, "this spooler belongs to another process"));
        }
        if self.shared.writer.lock().is_none() {
            return Err(errors::usage(py, "the spooler is closed"));
        }
        Ok(())
    }
}

impl Drop for SpoolWriter {
    fn drop(&mut self) {
        // Threads end by themselves, and let go of the spool with the last of them.
        self.shared.stop.store(true, Ordering::Release);
    }
}
