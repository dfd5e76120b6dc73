//! Thread of one source: takes items from a queue and appends them as rows.

mod share;

use crate::{
    identity::{Identity, Recognition},
    numbers::{Numbers, Publisher},
    shared::Shared,
    time::wall_micros,
};
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use share::Turned;
use std::sync::Arc;
use zwire_engine::{
    Queue, RecvError,
    queue::{QueueStats, Weigh},
};
use zwire_proto::Now;
use zwire_spool::{Durability, Error, Gap, LastNumber, Offsets, Rule, ShardWriter};

/// Items taken at once: about as many as fit the caches near a core.
const AT_ONCE: usize = 4096;
const AT_ONCE_BYTES: usize = 8 << 20;

/// Pause between two attempts to write to a full disk.
const RETRY: Duration = Duration::from_millis(100);

/// Gaps that are logged one by one between two blocks; a publisher with random numbers would fill the disk
/// with them. Further gaps are logged as one of each kind.
const MAX_GAPS: usize = 256;

const HOUSE: Duration = Duration::from_secs(1);
/// Period in which the first thread looks whether the folder is still there: an operator learns of it within a second.
const LOOK: Duration = Duration::from_millis(250);

/// How the items of a queue become rows of a spool.
pub(crate) trait Rows: Send + 'static {
    type Item: Weigh + Send + 'static;

    /// Whether the item is recorded; `false` if another source of the same recorder records it.
    fn is_ours(&self, _: &Self::Item) -> bool {
        true
    }

    /// Text that chooses the shard of the item, where keys choose one.
    fn key<'a>(&self, item: &'a Self::Item) -> &'a str;

    /// Gap that the item reveals, such as missing numbers before it. The caller adds place and time.
    fn look(&mut self, _: &Self::Item) -> Option<Gap> {
        None
    }

    /// Gaps that no item reveals. If the queue is not idle, items before them may be in it.
    /// `place` tells the shard of a publisher; what it does not tell waits.
    fn misses(&mut self, _is_idle: bool, _place: &dyn Fn(Publisher) -> Option<usize>) -> Vec<(usize, Gap)> {
        Vec::new()
    }

    /// Publisher of the item, if it is known.
    fn publisher(&self, _: &Self::Item) -> Option<Publisher> {
        None
    }

    /// Last numbers of publishers, as of the last item that was looked at.
    fn publishers(&self) -> Vec<LastNumber> {
        Vec::new()
    }

    /// How the item is recognised in rows of another spooler; `None` if it cannot be.
    fn identify(&self, _: &Self::Item, _: &Recognition) -> Option<Identity> {
        None
    }

    /// Copies what the item shares with others, before it is kept for longer.
    fn detach(_: &mut Self::Item) {}

    /// Bounds what is known of gaps while another spooler writes.
    fn stand_by(&mut self) {}

    /// Goes on after rows of another spooler, with the last numbers of publishers there.
    fn begin(&mut self, _: Numbers) {}

    /// Appends the item; returns the size of its payload in octets, `None` if the item is no row.
    fn push(&mut self, writer: &mut ShardWriter, item: &Self::Item, time: i64) -> Result<Option<u64>, Error>;
}

/// Source of rows, as the recorder sees it.
pub(crate) struct Source {
    /// Name in log messages.
    pub(crate) name: String,
    /// Counters of the queue, whatever its items are.
    pub(crate) stats: Box<dyn Fn() -> QueueStats + Send + Sync>,
    /// Items that were taken and are readable, or will reach no shard.
    pub(crate) done: AtomicU64,
}

/// Whether a thread goes on after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Again,
    /// The source has ended, or the recorder was closed; everything is written.
    Ended,
    /// The recorder was closed while the disk was full.
    GaveUp,
}

pub(crate) struct Taker<R: Rows> {
    shared: Arc<Shared>,
    source: Arc<Source>,
    queue: Arc<Queue<R::Item>>,
    rows: R,
    /// Shard of all its rows, where keys do not choose one.
    shard: usize,
    first: bool,
    /// Items that were taken and are not readable yet.
    unseen: u64,
    dropped: u64,
    gaps: Vec<Gap>,
    number: usize,
    /// Whether items came since publishers were last noted.
    fresh: bool,
    /// Monotonic times of the last housekeeping, and of when publishers were last noted.
    house: Duration,
    noted: Duration,
    /// Monotonic time at which the folder was last looked at.
    looked: Duration,
    /// Monotonic time at which the oldest unreadable row has to be written.
    due: Option<Duration>,
    turned: Option<Turned<R::Item>>,
}

impl<R: Rows> Taker<R> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        source: Arc<Source>,
        queue: Arc<Queue<R::Item>>,
        rows: R,
        number: usize,
    ) -> Self {
        let start = shared.clock.now().mono;
        let turned = shared.sharing.as_ref().map(Turned::new);
        let count = turned.as_ref().map_or(shared.shards.len(), |turned| turned.count);
        Self {
            turned,
            shard: if shared.by_hash { 0 } else { number.min(count - 1) },
            first: number == 0,
            shared,
            source,
            queue,
            rows,
            unseen: 0,
            dropped: 0,
            gaps: Vec::new(),
            number,
            fresh: true,
            house: start,
            noted: start,
            looked: start,
            due: None,
        }
    }

    /// Runs until the recorder is closed, or the source ends.
    pub(crate) fn run(mut self) {
        let (queue, shared) = (self.queue.clone(), self.shared.clone());
        loop {
            let stopping = shared.stop.load(Ordering::Acquire);
            let wait = if stopping { Duration::ZERO } else { self.patience(shared.clock.now().mono) };
            let mut hurried = || shared.hurry.load(Ordering::Acquire) || shared.stop.load(Ordering::Acquire);
            let came = queue.wait_readable(Some(wait), &mut hurried);
            match self.turn(came, stopping, shared.clock.now()) {
                Turn::Again => {}
                Turn::Ended => return,
                Turn::GaveUp => break,
            }
        }
        // Rows that the full disk did not take are lost.
        let rest = self.queue.len() as u64 + self.unseen;
        self.shared.refused.fetch_add(rest, Ordering::Relaxed);
    }

    pub(crate) fn patience(&self, mono: Duration) -> Duration {
        self.due.map_or(RETRY, |due| due.saturating_sub(mono))
    }

    /// Appends the items that have arrived, and writes blocks that are due. Called after each wait for items.
    pub(crate) fn turn(&mut self, came: Result<(), RecvError>, stopping: bool, now: Now) -> Turn {
        if !self.take_step(now) {
            return Turn::GaveUp;
        }
        if self.turned.as_ref().is_some_and(Turned::is_idle) {
            return self.stand_by(came, stopping, now);
        }
        if came.is_ok() {
            let mut items = self.queue.take_many(AT_ONCE, AT_ONCE_BYTES, usize::MAX);
            self.keep_others(&mut items, now);
            let time = wall_micros(now);
            let written = self.append(items.iter().map(|item| (item, time)));
            self.queue.give_back(items);
            if !written {
                return Turn::GaveUp;
            }
            self.due.get_or_insert(now.mono + self.shared.linger);
        }
        if self.tell_misses(came.is_err(), now) {
            self.fresh = true;
            self.due.get_or_insert(now.mono + self.shared.linger);
        }
        self.count_drops(wall_micros(now));
        let ended = matches!(came, Err(RecvError::Closed)) || stopping && came.is_err();
        let hurry = came.is_err() && self.shared.hurry.load(Ordering::Acquire);
        if ended || hurry || self.due.is_some_and(|due| now.mono >= due) {
            if !self.write() {
                return Turn::GaveUp;
            }
            self.due = None;
            if hurry && self.queue.is_empty() {
                self.shared.hurry.store(false, Ordering::Release);
            }
        }
        if self.unseen == 0 && (ended || now.mono.saturating_sub(self.noted) >= HOUSE) {
            self.note_publishers();
            self.noted = now.mono;
        }
        if ended {
            if !stopping && !self.shared.closing.load(Ordering::Acquire) {
                let name = &self.source.name;
                let problem = format!("{name} has ended, nothing more is kept of it");
                self.shared.note::<()>(Err(Error::Usage(problem)));
            }
            return Turn::Ended;
        }
        if self.first && now.mono.saturating_sub(self.looked) >= LOOK {
            self.looked = now.mono;
            let checked = self.shared.check_folder();
            if self.shared.note(checked).is_none() {
                return Turn::GaveUp;
            }
        }
        if self.first && now.mono.saturating_sub(self.house) >= HOUSE {
            self.shared.keep_house(wall_micros(now));
            self.house = now.mono;
        }
        Turn::Again
    }

    /// Names numbers that no sample reveals. Returns whether there were some.
    fn tell_misses(&mut self, is_idle: bool, now: Now) -> bool {
        let shared = self.shared.clone();
        let (turned, shard) = (&self.turned, self.shard);
        let place = |publisher| match turned {
            Some(turned) => turned.place(publisher, shard),
            None => Some(shard),
        };
        let misses = self.rows.misses(is_idle, &place);
        let found = !misses.is_empty();
        for (shard, gap) in misses {
            let writer = shared.shards[shard].lock();
            self.notice(gap, shard, &writer, wall_micros(now));
        }
        found
    }

    /// Whether rows of a shard are written.
    fn writes(&self, shard: usize) -> bool {
        self.turned.as_ref().is_none_or(|turned| turned.writes(shard))
    }

    /// Shard for gaps that belong to none.
    fn home(&self) -> usize {
        self.turned.as_ref().and_then(|turned| turned.home(self.shard)).unwrap_or(self.shard)
    }

    /// Appends items; `false` if the recorder was closed while the disk was full.
    fn append<'a>(&mut self, items: impl ExactSizeIterator<Item = (&'a R::Item, i64)>) -> bool {
        self.fresh = true;
        let shared = self.shared.clone();
        if shared.is_removed() {
            self.unseen += items.len() as u64;
            return false;
        }
        let count = self.turned.as_ref().map_or(shared.shards.len(), |turned| turned.count);
        let mut held = None;
        let mut written = (0, 0);
        for (item, time) in items {
            self.unseen += 1;
            if !self.rows.is_ours(item) {
                continue;
            }
            let key = self.rows.key(item);
            let shard = self.shard_of(key, count);
            if self.was_written(item, shard) {
                continue;
            }
            // One lock at a time: another thread locks shards in another order.
            if held.as_ref().is_some_and(|(number, _)| *number != shard) {
                held = None;
            }
            let mut writer = match held.take() {
                Some((_, writer)) => writer,
                None => shared.shards[shard].lock(),
            };
            if let Some(gap) = self.rows.look(item) {
                self.notice(gap, shard, &writer, time);
            }
            if writer.is_full() {
                drop(writer);
                if !self.insist(shard, |writer, now| writer.flush(now)) {
                    return false;
                }
                writer = shared.shards[shard].lock();
            }
            match self.rows.push(&mut writer, item, time) {
                Ok(Some(bytes)) => written = (written.0 + 1, written.1 + bytes),
                Ok(None) => {}
                Err(error) => {
                    shared.refused.fetch_add(1, Ordering::Relaxed);
                    let detail = format!("{key}: {error}");
                    let gap = self.gap(shard, &writer, "drop", time, detail);
                    self.add_gap(Gap { count: Some(1), ..gap });
                }
            }
            held = Some((shard, writer));
        }
        shared.rows.fetch_add(written.0, Ordering::Relaxed);
        shared.bytes.fetch_add(written.1, Ordering::Relaxed);
        true
    }

    fn shard_of(&self, key: &str, count: usize) -> usize {
        if self.shared.by_hash && count > 1 { Rule::hash(key, count) as usize } else { self.shard }
    }

    fn gap(&self, shard: usize, writer: &ShardWriter, kind: &'static str, time: i64, detail: String) -> Gap {
        let (shard, offset) = (shard as u32, writer.next_offset());
        Gap { shard, offset, kind, time, detail, ..Gap::default() }
    }

    /// Counts and stores a gap that an item revealed.
    fn notice(&mut self, gap: Gap, shard: usize, writer: &ShardWriter, time: i64) {
        let counter = match gap.kind {
            "gap" => Some(&self.shared.lost),
            "duplicate" => Some(&self.shared.duplicates),
            _ => None,
        };
        if let Some(counter) = counter {
            counter.fetch_add(gap.count.unwrap_or(0), Ordering::Relaxed);
        }
        self.add_gap(Gap { shard: shard as u32, offset: writer.next_offset(), time, ..gap });
    }

    fn add_gap(&mut self, gap: Gap) {
        if self.gaps.len() < MAX_GAPS {
            return self.gaps.push(gap);
        }
        let beyond = &mut self.gaps[MAX_GAPS..];
        if let Some(more) = beyond.iter_mut().find(|more| more.kind == gap.kind && more.shard == gap.shard) {
            more.count = more.count.zip(gap.count).map(|(more, count)| more + count);
            return;
        }
        let detail = "too many gaps at once to be recorded one by one".to_owned();
        self.gaps.push(Gap { source: None, numbers: None, detail, ..gap });
    }

    /// Runs `act` on a shard and retries while the disk is full; `false` if the recorder is closed meanwhile.
    /// The shard is unlocked between two attempts, so that housekeeping can free room.
    fn insist(&self, shard: usize, act: impl Fn(&mut ShardWriter, i64) -> Result<(), Error>) -> bool {
        loop {
            let now = self.shared.clock.micros();
            let done = act(&mut self.shared.shards[shard].lock(), now);
            if self.shared.note(done).is_some() {
                return true;
            }
            if self.shared.stop.load(Ordering::Acquire) {
                return false;
            }
            if self.shared.sharing.as_ref().is_some_and(|sharing| sharing.is_fenced(shard)) {
                // The rows belong to another spooler now.
                return true;
            }
            if self.first {
                self.shared.keep_house(now);
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Writes and publishes all rows; `false` as in [`Self::insist`].
    fn write(&mut self) -> bool {
        self.shared.tell(&core::mem::take(&mut self.gaps), self.shared.clock.micros());
        let disk = self.shared.durability == Durability::Disk;
        for number in 0..self.shared.shards.len() {
            if !self.shared.by_hash && number != self.shard || !self.writes(number) {
                continue;
            }
            let written = self.insist(number, |writer, now| {
                writer.flush(now)?;
                if disk && writer.unpublished() { writer.sync() } else { Ok(()) }
            });
            if !written {
                return false;
            }
        }
        self.source.done.fetch_add(self.unseen, Ordering::Release);
        self.unseen = 0;
        true
    }

    /// Stores the last numbers of publishers, once all rows are written.
    fn note_publishers(&mut self) {
        let mut offsets = Offsets::new();
        for (number, shard) in (0..).zip(&self.shared.shards) {
            if (self.shared.by_hash || number as usize == self.shard) && self.writes(number as usize) {
                offsets.insert(number, shard.lock().mark().end);
            }
        }
        let publishers = core::mem::take(&mut self.fresh).then(|| self.rows.publishers());
        let mut known = self.shared.publishers.lock();
        let part = known.entry(self.number).or_default();
        part.offsets = offsets;
        if let Some(publishers) = publishers {
            part.publishers = publishers;
        }
    }

    /// Logs as a gap how many items the queue has dropped since the last call.
    fn count_drops(&mut self, now: i64) {
        let dropped = self.queue.dropped();
        let count = dropped - self.dropped;
        if count == 0 {
            return;
        }
        self.dropped = dropped;
        let shard = self.home();
        let mut writer = self.shared.shards[shard].lock();
        writer.count_drops(count);
        let detail = format!("{}: the queue was full", self.source.name);
        let gap = self.gap(shard, &writer, "drop", now, detail);
        drop(writer);
        self.add_gap(Gap { count: Some(count), ..gap });
    }
}
