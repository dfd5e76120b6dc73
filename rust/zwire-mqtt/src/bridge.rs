//! Public handle: start, counters, close.

use crate::{
    connection::{Connection, Direct, Parts, connector},
    counters::{Counters, Stats},
    error::{Error, Result},
    inbound::Inbound,
    ledger::Ledger,
    options::{Durability, Options},
    outbound::Outbound,
    topic::key_of_filter,
};
use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    thread::{Builder, JoinHandle},
};
use tokio::sync::{Notify, Semaphore, mpsc};
use zwire_engine::{Full, Handler, Session, clock, runtime::Birth};
use zwire_proto::zenoh::{
    KeyExpr,
    session::{EntityId, Locality, SubscriberOptions},
};
use zwire_recorder::{Clock, Keeping, Recorder, Settings};
use zwire_spool::{
    Durability as Stored, Layout, Mark, Options as SpoolOptions, Retention, Rule, Shard, Spool, Wanted,
    layout,
};

/// Octets of messages in the memory of the bridge, each way: half a second of 20,000 messages of 6 KiB in a second. A larger
/// message is alone in it.
const ROOM: usize = 64 << 20;
/// Samples that wait for the spool.
const WAITING: usize = 16_384;
/// Samples of rules with QoS 0 that wait for the broker; the oldest are dropped beyond, as MQTT allows.
const DIRECT: usize = 4096;
/// Rows that wait for the connection.
const ROWS: usize = 1024;
/// Time that a row waits for others in its block.
const LINGER: Duration = Duration::from_millis(1);
/// Time for the last rows when the bridge is closed.
const CLOSE: Duration = Duration::from_secs(5);
/// Period of looks in [`Bridge::wait_connected`].
const LOOK: Duration = Duration::from_millis(2);

/// Bridge between a session and a broker.
pub struct Bridge {
    session: Session,
    counters: Arc<Counters>,
    recorder: Recorder,
    view: Spool,
    entities: Vec<EntityId>,
    direct: Vec<Arc<zwire_engine::Queue<zwire_proto::zenoh::session::Sample>>>,
    stop: Arc<AtomicBool>,
    stopping: Arc<Notify>,
    rooms: [Arc<Semaphore>; 2],
    cursor: Arc<AtomicU64>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    closed: AtomicBool,
    birth: Birth,
}

fn spool(options: &Options) -> Result<Recorder> {
    let bytes = options.spool_bytes;
    let wanted = Wanted { layout: Layout::whole(&layout::SAMPLES), shards: 1, rule: Rule::Hash };
    let disk = options.durability == Durability::Disk;
    let stored = SpoolOptions {
        durability: if disk { Stored::Disk } else { Stored::Os },
        // A segment is deleted at once.
        segment_bytes: (bytes / 16).clamp(1 << 16, 64 << 20),
        segment_micros: 60_000_000,
        ..SpoolOptions::default()
    };
    let rule = Retention { micros: Some(0), bytes: Some(bytes) };
    let keeping = Keeping { rule, ..Keeping::default() };
    let settings = Settings { linger: LINGER, keeping, tier: None, shared: None, clock: Clock::default() };
    Ok(Recorder::open(&options.spool, &wanted, &stored, settings)?)
}

impl Bridge {
    /// Starts a bridge. It connects to the broker in the background, as often as needed.
    ///
    /// # Errors
    /// The spool belongs to another bridge or cannot be used, a certificate cannot be used, or the session is closed.
    pub fn start(session: &Session, options: Options) -> Result<Self> {
        session.check()?;
        let tls = connector(&options)?;
        let options = Arc::new(options);
        let recorder = spool(&options)?;
        let mut ledger = Ledger::open(&options.spool, options.durability == Durability::Disk)?;
        let view = Spool::open(&options.spool)?;
        let mark = view.mark(Shard::Data(0))?;
        let fresh = mark.rows_to.max(mark.earliest);
        // The end of the machine may have left less of the spool than of the ledger.
        ledger.cut(fresh);
        ledger.write()?;
        // A consumer that is known keeps its rows.
        let first = ledger.cursor();
        let ledger = Arc::new(Mutex::new(ledger));
        let micros = i64::try_from(clock::now().wall.as_micros()).unwrap_or(i64::MAX);
        view.commit("mqtt", [(0, first)].into(), micros)?;

        let counters = Arc::<Counters>::default();
        let (stop, stopping, news) =
            (Arc::<AtomicBool>::default(), Arc::<Notify>::default(), Arc::<Notify>::default());
        let cursor = Arc::new(AtomicU64::new(first));
        let all_room = ROOM.max(options.max_packet_bytes as usize);
        let rooms = [Arc::new(Semaphore::new(all_room)), Arc::new(Semaphore::new(all_room))];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Error::Io { path: options.spool.clone(), error })?;
        let (rows, row_receiver) = mpsc::channel(ROWS);
        let (work, work_receiver) = mpsc::unbounded_channel();
        let (done, done_receiver) = mpsc::unbounded_channel();

        let mut bridge = Self {
            session: session.clone(),
            counters: counters.clone(),
            recorder,
            view,
            entities: Vec::new(),
            direct: Vec::new(),
            stop: stop.clone(),
            stopping: stopping.clone(),
            rooms: rooms.clone(),
            cursor: cursor.clone(),
            threads: Mutex::default(),
            closed: AtomicBool::new(false),
            birth: Birth::here(),
        };
        let direct = bridge.subscribe(&options, &news)?;
        let outbound = Outbound {
            dir: options.spool.clone(),
            options: options.clone(),
            counters: counters.clone(),
            stop: stop.clone(),
            rows,
            room: rooms[1].clone(),
            all_room,
            next: first,
            cursor: cursor.clone(),
            runtime: runtime.handle().clone(),
        };
        let inbound = Inbound {
            session: session.clone(),
            counters: counters.clone(),
            ledger: ledger.clone(),
            stop: stop.clone(),
            work: work_receiver,
            done,
        };
        let connection = Connection::new(Parts {
            options: options.clone(),
            counters,
            session: session.clone(),
            ledger,
            fresh,
            rows: row_receiver,
            direct,
            news,
            work,
            done: done_receiver,
            room: rooms[0].clone(),
            all_room,
            cursor,
            stop,
            stopping,
            tls,
        });
        let thread = |error| Error::Io { path: options.spool.clone(), error };
        let named = |name: &str| Builder::new().name(name.to_owned());
        let converse = move || {
            runtime.block_on(connection.run());
            // A resolver of host names that does not answer holds up no close.
            runtime.shutdown_background();
        };
        let threads = vec![
            named("zwire-mqtt").spawn(converse).map_err(thread)?,
            named("zwire-mqtt-in").spawn(move || inbound.run()).map_err(thread)?,
            named("zwire-mqtt-out").spawn(move || outbound.run()).map_err(thread)?,
        ];
        *bridge.threads.lock() = threads;
        Ok(bridge)
    }

    /// Declares the subscribers: those of rules with QoS 1 and 2 go into the spool. Returns the others.
    fn subscribe(&mut self, options: &Options, news: &Arc<Notify>) -> Result<Vec<Direct>> {
        let mut direct = Vec::new();
        let mut earlier: [Vec<KeyExpr>; 2] = Default::default();
        for rule in options.rules.iter().filter(|rule| rule.goes_out()) {
            let key = key_of_filter(&options.prefix, rule.filter())
                .map_err(|problem| Error::Usage(format!("rules: {:?}: {problem}", rule.topic)))?;
            let stored = rule.qos > 0;
            let before = &mut earlier[usize::from(stored)];
            if before.iter().any(|known| known.includes(&key)) {
                continue;
            }
            // What the bridge itself publishes does not come back.
            let remote = SubscriberOptions { origin: Locality::Remote };
            let handler =
                if stored { Handler::Fifo(WAITING) } else { Handler::Channel(DIRECT, Full::DropOldest) };
            let (id, queue) = self.session.declare_subscriber(key.clone(), remote, handler)?;
            self.entities.push(id);
            if stored {
                self.recorder.record_samples(key.clone(), queue, None, self.session.origins())?;
            } else {
                let news = news.clone();
                queue.set_waker(Some(Arc::new(move || news.notify_one())));
                self.direct.push(queue.clone());
                direct.push((queue, before.clone()));
            }
            before.push(key);
        }
        Ok(direct)
    }

    /// Waits until the broker has accepted the connection and answered the subscriptions.
    ///
    /// # Errors
    /// [`Error::Broker`] with the last failure, if the time or `interrupted` ended the wait.
    pub fn wait_connected(&self, wait: Duration, interrupted: &mut dyn FnMut() -> bool) -> Result<()> {
        let end = clock::mono() + wait;
        loop {
            // The connection notes its problem before it ends: counters that are read later have it.
            let ended = self.threads.lock().first().is_none_or(JoinHandle::is_finished);
            let stats = self.counters.stats();
            if stats.connected {
                return Ok(());
            }
            if ended || clock::mono() >= end || interrupted() {
                let problem = stats.problem.unwrap_or_else(|| "it has not answered yet".to_owned());
                return Err(Error::Broker { broker: "of the bridge".to_owned(), problem });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until the broker has acknowledged everything that the subscribers received before the call; `false` if the time
    /// or `interrupted` ended the wait.
    ///
    /// # Errors
    /// The bridge is closed.
    pub fn flush(&self, wait: Duration, interrupted: &mut dyn FnMut() -> bool) -> Result<bool> {
        let end = clock::mono() + wait;
        if !self.recorder.flush(wait, interrupted)? {
            return Ok(false);
        }
        let Mark { rows_to, earliest, .. } = self.view.mark(Shard::Data(0))?;
        while self.cursor.load(Ordering::Acquire).max(earliest) < rows_to {
            if clock::mono() >= end || interrupted() {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// Counters as of now.
    pub fn stats(&self) -> Stats {
        let mut stats = self.counters.stats();
        let recorder = self.recorder.stats();
        // The folder may be gone; the recorder has that problem.
        let mark = self.view.mark(Shard::Data(0)).unwrap_or_default();
        let cursor = self.cursor.load(Ordering::Acquire).max(mark.earliest);
        stats.out_waiting = mark.rows_to.saturating_sub(cursor) + recorder.waiting as u64;
        stats.out_dropped = recorder.dropped + self.direct.iter().map(|queue| queue.dropped()).sum::<u64>();
        stats.out_missing = recorder.lost;
        stats.problem = stats.problem.or(recorder.problem);
        stats
    }

    /// Ends the bridge. The broker keeps the session, and the spool what is not acknowledged. A second call does nothing.
    ///
    /// # Errors
    /// The last samples could not be stored.
    pub fn close(&self) -> Result<()> {
        if !self.birth.is_here() || self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.recorder.begin_close();
        for id in &self.entities {
            // It fails if the session is closed, which undeclared everything.
            let _ = self.session.undeclare(*id);
        }
        let stored = self.recorder.close(CLOSE);
        self.stop.store(true, Ordering::Release);
        self.rooms.iter().for_each(|room| room.close());
        self.stopping.notify_one();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!(target: "zwire.bridge.mqtt", "a thread of the bridge has failed");
            }
        }
        Ok(stored?)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(target: "zwire.bridge.mqtt", %error, "the bridge ended without its last samples");
        }
    }
}
