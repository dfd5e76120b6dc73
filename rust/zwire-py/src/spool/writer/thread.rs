//! The thread that takes what comes out of a queue and appends it.

use super::{Shared, Source};
use crate::spool::append::now;
use core::sync::atomic::Ordering;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};
use zwire_engine::{Queue, RecvError, queue::Weigh};
use zwire_spool::{Durability, Error, Gap, LastNumber, Offsets, Rule, ShardWriter};

/// Items that are taken at once: as many as the caches near a core hold.
const AT_ONCE: usize = 4096;
const AT_ONCE_BYTES: usize = 8 << 20;

/// How often a disk is asked whether it has room again.
const RETRY: Duration = Duration::from_millis(100);

/// Gaps that are told one by one between two blocks; a publisher that numbers nothing right would fill the
/// disk with them. The others are told as one of each kind.
const MAX_GAPS: usize = 256;

/// How often there is housekeeping.
const HOUSE: Duration = Duration::from_secs(1);

/// How the items of a queue become rows.
pub(super) trait Rows: Send + 'static {
    /// What the queue has.
    type Item: Weigh + Send + 'static;

    /// Whether it belongs into the spool.
    fn is_ours(&self, item: &Self::Item) -> bool;

    /// What it is about: by this it has its shard, where keys choose one.
    fn key<'a>(&self, item: &'a Self::Item) -> &'a str;

    /// What it says of others: that some are missing, say. Where and when is for the caller.
    fn look(&mut self, item: &Self::Item) -> Option<Gap>;

    /// The last numbers of publishers, of all that was looked at.
    fn publishers(&self) -> Vec<LastNumber> {
        Vec::new()
    }

    /// Appends it; how many octets of payload it has. `None`: it is no row.
    fn push(&mut self, writer: &mut ShardWriter, item: &Self::Item, time: i64) -> Result<Option<u64>, Error>;
}

/// What one thread works with.
pub(super) struct Taker<R: Rows> {
    shared: Arc<Shared>,
    source: Arc<Source>,
    queue: Arc<Queue<R::Item>>,
    rows: R,
    /// Its shard, where keys do not choose one.
    shard: usize,
    first: bool,
    /// Items that are in a block, or beyond, and that nobody can see yet.
    unseen: u64,
    dropped: u64,
    gaps: Vec<Gap>,
    number: usize,
    /// Whether something has come since publishers were last noted.
    fresh: bool,
}

impl<R: Rows> Taker<R> {
    pub(super) fn new(
        shared: Arc<Shared>,
        source: Arc<Source>,
        queue: Arc<Queue<R::Item>>,
        rows: R,
        number: usize,
    ) -> Self {
        Self {
            shard: if shared.by_hash { 0 } else { number.min(shared.shards.len() - 1) },
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
        }
    }

    /// Until the spooler is closed, or its session.
    pub(super) fn run(mut self) {
        let mut house = Instant::now();
        let mut noted = house;
        // When the oldest row that nobody can see has to be written.
        let mut due: Option<Instant> = None;
        loop {
            let queue = self.queue.clone();
            let stopping = self.shared.stop.load(Ordering::Acquire);
            let wait = match due {
                _ if stopping => Duration::ZERO,
                Some(due) => due.saturating_duration_since(Instant::now()),
                None => RETRY,
            };
            let shared = self.shared.clone();
            let hurried = || shared.hurry.load(Ordering::Acquire) || shared.stop.load(Ordering::Acquire);
            let came = queue.wait_readable(Some(wait), &mut || hurried());
            if came.is_ok() {
                let items = queue.take_many(AT_ONCE, AT_ONCE_BYTES, usize::MAX);
                let written = self.append(&items);
                queue.give_back(items);
                if !written {
                    break;
                }
                due.get_or_insert_with(|| Instant::now() + self.shared.linger);
            }
            self.count_drops();
            let ended = matches!(came, Err(RecvError::Closed)) || stopping && came.is_err();
            let hurry = came.is_err() && self.shared.hurry.load(Ordering::Acquire);
            if ended || hurry || due.is_some_and(|due| Instant::now() >= due) {
                if !self.write() {
                    break;
                }
                due = None;
                if hurry && queue.is_empty() {
                    self.shared.hurry.store(false, Ordering::Release);
                }
            }
            if self.unseen == 0 && (ended || noted.elapsed() >= HOUSE) {
                self.note_publishers();
                noted = Instant::now();
            }
            if ended {
                if !stopping && !self.shared.closing.load(Ordering::Acquire) {
                    let name = &self.source.name;
                    let problem = format!("{name} has ended, nothing more is kept of it");
                    self.shared.note::<()>(Err(Error::Usage(problem)));
                }
                return;
            }
            if self.first && house.elapsed() >= HOUSE {
                self.shared.keep_house();
                house = Instant::now();
            }
        }
        // Stopped while the disk had no room: what is not written is not there.
        let rest = self.queue.len() as u64 + self.unseen;
        self.shared.refused.fetch_add(rest, Ordering::Relaxed);
    }

    /// Appends items; `false` if the spooler was closed while the disk took nothing.
    fn append(&mut self, items: &VecDeque<R::Item>) -> bool {
        let time = now();
        self.fresh = true;
        let shared = self.shared.clone();
        let count = shared.shards.len();
        let mut held = None;
        let mut written = (0, 0);
        for item in items {
            self.unseen += 1;
            if !self.rows.is_ours(item) {
                continue;
            }
            let key = self.rows.key(item);
            let shard =
                if shared.by_hash && count > 1 { Rule::hash(key, count) as usize } else { self.shard };
            // One at a time: other threads lock shards in an order of their own.
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
                if !self.insist(shard, |writer| writer.flush(now())) {
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

    fn gap(&self, shard: usize, writer: &ShardWriter, kind: &'static str, time: i64, detail: String) -> Gap {
        let (shard, offset) = (shard as u32, writer.next_offset());
        Gap { shard, offset, kind, time, detail, ..Gap::default() }
    }

    /// Takes note of what an item says of others.
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
        let detail = "too many at once to be told one by one".to_owned();
        self.gaps.push(Gap { source: None, numbers: None, detail, ..gap });
    }

    /// Does something with a shard, and tries again as long as the disk has no room; `false` if the spooler
    /// is closed meanwhile. Between two tries others have the shard: they may make room.
    fn insist(&self, shard: usize, act: impl Fn(&mut ShardWriter) -> Result<(), Error>) -> bool {
        loop {
            let done = act(&mut self.shared.shards[shard].lock());
            if self.shared.note(done).is_some() {
                return true;
            }
            if self.shared.stop.load(Ordering::Acquire) {
                return false;
            }
            if self.first {
                self.shared.keep_house();
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Writes all rows and lets others see them; `false` as in [`Self::insist`].
    fn write(&mut self) -> bool {
        self.shared.tell(&core::mem::take(&mut self.gaps));
        let disk = self.shared.durability == Durability::Disk;
        for number in 0..self.shared.shards.len() {
            if !self.shared.by_hash && number != self.shard {
                continue;
            }
            let written = self.insist(number, |writer| {
                writer.flush(now())?;
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

    /// Notes what is known of publishers, now that all rows are written.
    fn note_publishers(&mut self) {
        let mut offsets = Offsets::new();
        for (number, shard) in (0..).zip(&self.shared.shards) {
            if self.shared.by_hash || number as usize == self.shard {
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

    /// Tells what the queue has dropped since the last time.
    fn count_drops(&mut self) {
        let dropped = self.queue.dropped();
        let count = dropped - self.dropped;
        if count == 0 {
            return;
        }
        self.dropped = dropped;
        let mut writer = self.shared.shards[self.shard].lock();
        writer.count_drops(count);
        let detail = format!("{}: the queue was full", self.source.name);
        let gap = self.gap(self.shard, &writer, "drop", now(), detail);
        drop(writer);
        self.add_gap(Gap { count: Some(count), ..gap });
    }
}
