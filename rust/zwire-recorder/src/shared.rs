//! State that all threads of a recorder share: shards, gap log, retention, housekeeping.

use crate::{numbers::ROWS_WITHOUT, spread::Spread, steps::Sharing, tier::Link, time::Clock};
use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use zwire_spool::{
    Consumer, Deleted, Durability, Error, Gap, Remembered, Retention, Rule, Shard, ShardWriter, Shards,
    Writer,
};

/// Bound of the gap log, a few million gaps, where rows have none; otherwise it is a sixteenth of
/// theirs.
const MAX_GAP_BYTES: u64 = 1 << 30;
const MIN_GAP_BYTES: u64 = 1 << 20;

/// How long rows are kept, and when consumers that stopped committing are forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keeping {
    /// Age of rows, and size of all shards.
    pub rule: Retention,
    /// Time without a commit after which a consumer expires and no longer holds rows back; `None`: never.
    pub consumer_micros: Option<i64>,
    /// Size in octets above which a folder has no more segments than it has to, if there is a store with the others.
    pub local_bytes: Option<u64>,
    /// Most octets of a segment of the store into which small ones are merged; `None`: none are.
    pub compact_bytes: Option<u64>,
}

pub(crate) struct Shared {
    /// Locked one at a time, and before `gaps`.
    pub(crate) shards: Vec<Mutex<ShardWriter>>,
    pub(crate) gaps: Mutex<ShardWriter>,
    pub(crate) writer: Mutex<Option<Writer>>,
    pub(crate) by_hash: bool,
    pub(crate) durability: Durability,
    /// Longest time that a row waits for others in its block.
    pub(crate) linger: Duration,
    keeping: Keeping,
    pub(crate) clock: Clock,
    pub(crate) stop: AtomicBool,
    /// Set when the folder of the spool was removed.
    removed: AtomicBool,
    /// Set when the sources are about to end on purpose: their end is no problem then.
    pub(crate) closing: AtomicBool,
    /// Set while a flush waits: threads write at once instead of lingering.
    pub(crate) hurry: AtomicBool,
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    /// Consumers that have expired.
    pub(crate) expired: AtomicU64,
    /// Items that reached no shard: too large, or abandoned at close.
    pub(crate) refused: AtomicU64,
    pub(crate) problem: Mutex<Option<String>>,
    /// Last numbers of publishers by source, as of when all rows of the source were written.
    pub(crate) publishers: Mutex<BTreeMap<usize, Remembered>>,
    /// Number of rows when these were last saved for the next writer.
    remembered: AtomicU64,
    /// Store of sealed segments, if there is one.
    pub(crate) tier: Option<Arc<Link>>,
    /// Turns with other spoolers of the spool, if it is shared.
    pub(crate) sharing: Option<Arc<Sharing>>,
}

impl Shared {
    pub(crate) fn new(
        writer: Writer,
        shards: Shards,
        durability: Durability,
        linger: Duration,
        keeping: Keeping,
        clock: Clock,
    ) -> Self {
        Self {
            by_hash: writer.meta().rule == Rule::Hash,
            shards: shards.data.into_iter().map(Mutex::new).collect(),
            gaps: Mutex::new(shards.gaps),
            writer: Mutex::new(Some(writer)),
            durability,
            linger,
            keeping,
            clock,
            stop: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            problem: Mutex::new(None),
            publishers: Mutex::default(),
            remembered: AtomicU64::new(0),
            tier: None,
            sharing: None,
        }
    }

    /// Number of shards that have rows, or may get some.
    pub(crate) fn shard_count(&self) -> usize {
        let most = self.shards.len();
        self.spread().map_or(most, |spread| most.min(spread.shards() as usize))
    }

    /// Writers of all shards, and finally of the gap log.
    pub(crate) fn writers(&self) -> impl Iterator<Item = &Mutex<ShardWriter>> {
        self.shards.iter().chain([&self.gaps])
    }

    /// State of the spoolers, if they share the spool by its shards.
    pub(crate) fn spread(&self) -> Option<&Spread> {
        self.sharing.as_ref().and_then(|sharing| sharing.spread.as_ref())
    }

    /// Whether rows of a shard are written: another spooler may have the right to.
    fn writes(&self, shard: u32) -> bool {
        self.spread().is_none_or(|spread| spread.holds(shard))
    }

    /// Whether a consumer has not expired.
    pub(crate) fn is_fresh(&self, consumer: &Consumer, now: i64) -> bool {
        self.keeping.consumer_micros.is_none_or(|ttl| now.saturating_sub(consumer.at) < ttl)
    }

    /// Logs and counts a consumer that has expired.
    pub(crate) fn expire(&self, name: &str, consumer: &Consumer, now: i64) {
        let days = now.saturating_sub(consumer.at) as f64 / 86400e6;
        tracing::warn!(
            "consumer {name} has not committed for {days:.1} days and expires: rows are no longer kept for it"
        );
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes gaps into the gap log. Gaps that cannot be written stay buffered in the log until the next call.
    pub(crate) fn tell(&self, gaps: &[Gap], now: i64) {
        if gaps.is_empty() {
            return;
        }
        if let Some(spread) = self.spread() {
            return spread.tell(gaps);
        }
        let mut log = self.gaps.lock();
        let told = gaps.iter().try_for_each(|gap| Shards::tell(&mut log, gap));
        let told = told.and_then(|()| log.flush(now));
        drop(log);
        self.note(told);
    }

    /// Stores the text of an error for the statistics, and logs it when it changes.
    pub(crate) fn note<T>(&self, result: Result<T, Error>) -> Option<T> {
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

    /// Checks that the folder of the spool is still there; if not, all threads stop.
    pub(crate) fn check_folder(&self) -> Result<(), Error> {
        let checked = self.writer.lock().as_ref().map_or(Ok(()), Writer::check_folder);
        if checked.is_err() {
            self.removed.store(true, Ordering::Release);
            self.stop.store(true, Ordering::Release);
        }
        checked
    }

    /// Whether the folder of the spool was removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Offsets of consumers that have not expired; empty where no rule needs them, `None` if they are
    /// unreadable, or those of the store were not read yet.
    fn consumers(&self, now: i64) -> Option<BTreeMap<String, Consumer>> {
        if self.keeping.rule == Retention::default() {
            return Some(BTreeMap::new());
        }
        let writer = self.writer.lock();
        let writer = writer.as_ref()?;
        let mut consumers = self.note(writer.consumers())?;
        consumers.retain(|name, consumer| {
            let fresh = self.is_fresh(consumer, now);
            if !fresh {
                self.expire(name, consumer, now);
                self.note(writer.forget(name));
            }
            fresh
        });
        // One that commits here and in the store counts with its last commit.
        let there = self.tier.as_ref().map_or(Some(BTreeMap::new()), |tier| tier.consumers.lock().clone())?;
        for (name, there) in there {
            let here = consumers.entry(name).or_insert_with(|| there.clone());
            if here.at < there.at {
                *here = there;
            }
        }
        Some(consumers)
    }

    /// Saves the last numbers of publishers for the next writer, once at least `rows` rows were added.
    pub(crate) fn remember(&self, rows: u64) {
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

    /// Has deleted rows deleted in the store as well.
    fn trim(&self, shard: Shard, deleted: &[Deleted]) {
        if let (Some(tier), Some(last)) = (&self.tier, deleted.iter().rfind(|range| range.stored)) {
            tier.trim(shard, last.to);
        }
    }

    /// Applies retention, and seals segments that are old enough.
    pub(crate) fn keep_house(&self, now: i64) {
        if self.writer.lock().is_none() {
            return;
        }
        let consumers = self.consumers(now);
        let mut unread = Vec::new();
        let bytes = self.keeping.rule.bytes.map(|bytes| bytes / self.shard_count().max(1) as u64);
        let keeping = Retention { bytes, ..self.keeping.rule };
        for shard in &self.shards {
            let mut writer = shard.lock();
            let Shard::Data(number) = writer.shard() else { continue };
            if !self.writes(number) {
                continue;
            }
            self.note(writer.seal_if_due(now));
            // Without the offsets of consumers, rows that are still unread could be deleted.
            let Some(consumers) = &consumers else { continue };
            let read = |consumer: &Consumer| consumer.offsets.get(&number).copied().unwrap_or(0);
            let committed = consumers.values().map(read).min();
            let deleted = self.note(writer.retain(&keeping, committed, now)).unwrap_or_default();
            self.trim(writer.shard(), &deleted);
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
        self.tell(&unread, now);
        // One of the spoolers that share the spool by its shards deletes rows of the log of gaps.
        if !self.writes(0) {
            return self.remember(ROWS_WITHOUT);
        }
        let own = self.shards.iter().filter_map(|shard| shard.lock().oldest_time());
        let oldest = own.chain(self.spread().and_then(Spread::oldest)).min();
        let mut log = self.gaps.lock();
        self.note(log.seal_if_due(now));
        let bytes = bytes.map_or(MAX_GAP_BYTES, |bytes| (bytes / 16).max(MIN_GAP_BYTES));
        let rule = Retention { bytes: Some(bytes), ..self.keeping.rule };
        // Rows past their age that still exist are held for a consumer; the gaps between them are held too.
        let old = |time: i64| rule.micros.is_some_and(|age| now.saturating_sub(time) >= age);
        let held = oldest.is_some_and(old).then_some(0);
        let deleted = self.note(log.retain(&rule, held, now)).unwrap_or_default();
        drop(log);
        self.trim(Shard::Gaps, &deleted);
        self.remember(ROWS_WITHOUT);
    }
}
