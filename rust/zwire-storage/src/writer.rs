//! Thread of a storage that applies samples.

use crate::{
    arrivals::Arrivals,
    error::{Error, Result},
    replication::logged::LoggedTable,
    rules::{self, Outcome, Table, Update, Value},
    shared::Shared,
    storage::Collection,
    volume::Reach,
    wildcards::Wildcards,
};
use core::{sync::atomic::Ordering, time::Duration};
use std::{collections::VecDeque, sync::Arc};
use zwire_engine::{Session, clock, queue::Rest};
use zwire_proto::zenoh::{
    Ntp64, Timestamp,
    session::{Sample, SampleKind},
};

/// Most samples of one change: readers of a volume in memory wait for it.
const AT_ONCE: usize = 1024;
const AT_ONCE_BYTES: usize = 4 << 20;

/// Most octets of updates that are visible and not durable. They are applied again after a failure.
const UNSURE_BYTES: usize = 16 << 20;
const UNSURE: usize = 65_536;

/// Pause after a failure of the volume; doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Time between two warnings about clocks: there may be one for each update.
const WARNING: Duration = Duration::from_secs(60);

/// Longest wait for work.
const IDLE: Duration = Duration::from_secs(1);

/// Effects of a change, counted once it is committed.
#[derive(Default)]
struct Tally {
    stored: u64,
    deleted: u64,
    outdated: u64,
    wildcards: u64,
    refused: u64,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    session: Session,
    wildcards: Wildcards,
    collection: Collection,
    commit: Duration,
    applied: u64,
    durable: u64,
    /// Updates of visible changes since the last durable one.
    unsure: Vec<Update>,
    unsure_bytes: usize,
    /// Monotonic times of the next commit, and of the next collection.
    due: Option<Duration>,
    collect: Duration,
    /// Last tombstone that the collection in progress has looked at, and its limit.
    sweep: Option<(Ntp64, Option<String>)>,
    /// Monotonic time of the last warning about a clock.
    warned: Option<Duration>,
    arrivals: Arrivals,
    /// Whether the log of events is to be read from the volume again: at the start, and after a change that failed.
    is_stale: bool,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        session: Session,
        wildcards: Wildcards,
        collection: Collection,
        commit: Duration,
    ) -> Self {
        Self {
            shared,
            session,
            wildcards,
            commit,
            applied: 0,
            durable: 0,
            unsure: Vec::new(),
            unsure_bytes: 0,
            due: None,
            collect: clock::mono() + collection.period,
            collection,
            sweep: None,
            warned: None,
            arrivals: Arrivals::default(),
            is_stale: true,
        }
    }

    /// Runs until the queue has ended, or the storage is closed while its volume fails.
    pub(crate) fn run(mut self) {
        let shared = self.shared.clone();
        // Samples that were taken from the queue, and could not be applied.
        let mut failing = 0;
        if let Some(replica) = &shared.replica {
            // With no update: the log reads the events of the volume.
            if self.insist(&[], Reach::Visible) {
                replica.inlet.open();
            }
        }
        loop {
            let samples = shared.samples.take_many(AT_ONCE, AT_ONCE_BYTES, usize::MAX);
            let of_replicas = shared.replica.as_ref().map(|replica| replica.inlet.take(AT_ONCE));
            let of_replicas = of_replicas.unwrap_or_default();
            let (count, replicated) = (samples.len() as u64, of_replicas.len() as u64);
            let is_idle = count + replicated == 0;
            if !self.take(samples, of_replicas) {
                failing = count;
                break;
            }
            if let Some(replica) = &shared.replica {
                replica.inlet.done(replicated);
            }
            let ended = is_idle && shared.samples.rest() == Rest::Ended;
            if !self.make_durable(ended) || ended {
                break;
            }
            self.collect();
            if is_idle {
                shared.bell.wait(self.patience());
            }
        }
        let lost = (self.unsure.len() + shared.samples.len()) as u64 + failing;
        shared.counters.lost.fetch_add(lost, Ordering::Relaxed);
        shared.end();
    }

    fn patience(&self) -> Duration {
        let now = clock::mono();
        let due = self.due.map_or(IDLE, |due| due.saturating_sub(now));
        if self.sweep.is_some() {
            Duration::ZERO
        } else {
            due.min(self.collect.saturating_sub(now)).min(IDLE)
        }
    }

    /// Applies samples, and updates of replicas; false if the storage was closed while its volume failed.
    fn take(&mut self, samples: VecDeque<Sample>, of_replicas: VecDeque<Update>) -> bool {
        if samples.is_empty() && of_replicas.is_empty() {
            return true;
        }
        let count = samples.len() as u64;
        let mut updates: Vec<Update> = samples.into_iter().filter_map(|sample| self.update(sample)).collect();
        updates.extend(of_replicas);
        if !self.append(&updates) || !self.insist(&updates, Reach::Visible) {
            return false;
        }
        self.applied += count;
        if self.shared.is_durable() {
            self.unsure_bytes += updates.iter().map(weight).sum::<usize>();
            self.unsure.append(&mut updates);
            self.due.get_or_insert(clock::mono() + self.commit);
        } else {
            self.durable = self.applied;
        }
        self.shared.advance(self.applied, self.durable);
        true
    }

    /// Adds updates to the history; as in [`Self::insist`].
    fn append(&self, updates: &[Update]) -> bool {
        let (mut done, mut pause, mut failed) = (0, PAUSE, false);
        while let Err(error) = self.shared.store.append(&self.shared.place, updates, &mut done) {
            failed = true;
            if !self.wait_out(&error, &mut pause) {
                return false;
            }
        }
        if failed {
            self.shared.note(None);
        }
        true
    }

    /// Waits after a failure, longer each time; false if the storage is closed.
    fn wait_out(&self, error: &Error, pause: &mut Duration) -> bool {
        self.shared.counters.failures.fetch_add(1, Ordering::Relaxed);
        self.shared.note(Some(error));
        if self.shared.is_stopping() {
            return false;
        }
        let end = clock::mono() + *pause;
        // Each sample that comes rings the bell.
        while !self.shared.is_stopping() {
            let left = end.saturating_sub(clock::mono());
            if left.is_zero() {
                break;
            }
            self.shared.bell.wait(left);
        }
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        true
    }

    /// The update of a sample; `None` if the session is closed, so that there is no clock for a sample without time.
    fn update(&mut self, sample: Sample) -> Option<Update> {
        let window = self.session.config().timestamping.max_drift;
        let stamp = sample.timestamp.filter(|stamp| {
            !self.is_ahead(&sample, *stamp)
                && !self.arrivals.come_before(&sample.key, sample.link, *stamp, window)
        });
        let stamp = match stamp {
            Some(stamp) => stamp,
            None => {
                let stamp = self.session.new_timestamp().ok()?;
                self.arrivals.note(&sample.key, sample.link, stamp);
                stamp
            }
        };
        let value = (sample.kind == SampleKind::Put).then(|| Value {
            payload: sample.payload.into_bytes(),
            encoding: sample.encoding,
            attachment: sample.attachment,
        });
        Some(Update { key: sample.key, stamp, value, shown: None })
    }

    /// Whether a stamp is too far ahead of the clock: kept, it would refuse all updates of its keys until then.
    fn is_ahead(&mut self, sample: &Sample, stamp: Timestamp) -> bool {
        let now = clock::now();
        let latest = now.wall.saturating_add(self.session.config().timestamping.max_drift);
        let is_ahead = stamp.time > Ntp64::from_duration(latest).unwrap_or(Ntp64::MAX);
        if is_ahead && self.warned.is_none_or(|warned| now.mono >= warned + WARNING) {
            self.warned = Some(now.mono);
            let ahead = stamp.time.to_duration().saturating_sub(now.wall);
            tracing::warn!(
                storage = self.shared.name, key = %sample.key, clock = %stamp.id, ?ahead,
                "the timestamp of an update is ahead of the clock here: the update gets the present time instead; set \
                 the clocks of both hosts"
            );
        }
        is_ahead
    }

    /// Commits if it is time; false if the storage was closed while its volume failed.
    fn make_durable(&mut self, ended: bool) -> bool {
        let is_due = self.due.is_some_and(|due| clock::mono() >= due);
        let wanted = self.shared.wanted.load(Ordering::Acquire) > self.durable;
        let full = self.unsure.len() >= UNSURE || self.unsure_bytes >= UNSURE_BYTES;
        if self.due.is_none() || !(is_due || wanted || full || ended) {
            return true;
        }
        if !self.insist(&[], Reach::Durable) {
            return false;
        }
        self.shared.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.unsure.clear();
        (self.unsure_bytes, self.due, self.durable) = (0, None, self.applied);
        self.shared.advance(self.applied, self.durable);
        true
    }

    /// Applies updates, again and again while the volume fails; false if the storage is closed meanwhile.
    fn insist(&mut self, updates: &[Update], reach: Reach) -> bool {
        let mut pause = PAUSE;
        let Err(mut error) = self.attempt(&[], updates, reach) else { return true };
        loop {
            // Before the pause, so that queries get what is durable.
            let recovered = self.recover();
            if !self.wait_out(&error, &mut pause) {
                return false;
            }
            let done = recovered.or_else(|_| self.recover()).and_then(|()| self.again(updates, reach));
            match done {
                Ok(()) => {
                    self.shared.note(None);
                    return true;
                }
                Err(next) => error = next,
            }
        }
    }

    /// Opens the volume again, in its last durable state.
    fn recover(&mut self) -> Result<()> {
        self.shared.store.reopen()?;
        self.wildcards = Wildcards::new(self.shared.store.wildcards()?);
        Ok(())
    }

    /// Applies updates, and before them those that were visible and are gone.
    fn again(&mut self, updates: &[Update], reach: Reach) -> Result<()> {
        let unsure = core::mem::take(&mut self.unsure);
        let done = self.attempt(&unsure, updates, reach);
        self.unsure = unsure;
        done
    }

    fn attempt(&mut self, before: &[Update], updates: &[Update], reach: Reach) -> Result<()> {
        let (shared, mut tally) = (self.shared.clone(), Tally::default());
        self.change(reach, &mut |table, wildcards| {
            for (number, update) in before.iter().chain(updates).enumerate() {
                let outcome = rules::apply(table, wildcards, &shared.place, update);
                match outcome {
                    // Those before were counted when they were applied first.
                    Ok(_) if number < before.len() => {}
                    Ok(Outcome::Stored) => tally.stored += 1,
                    Ok(Outcome::Deleted) => tally.deleted += 1,
                    Ok(Outcome::Outdated) => tally.outdated += 1,
                    Ok(Outcome::Wild(_)) => tally.wildcards += 1,
                    Ok(Outcome::Foreign) => tally.refused += 1,
                    // The volume of a program: others may be taken.
                    Err(error) if error.is_of_one_update() => {
                        tracing::warn!(storage = shared.name, key = %update.key, %error, "an update is not stored");
                        tally.refused += 1;
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })?;
        let counters = &shared.counters;
        for (counter, count) in [
            (&counters.stored, tally.stored),
            (&counters.deleted, tally.deleted),
            (&counters.outdated, tally.outdated),
            (&counters.wildcards, tally.wildcards),
            (&counters.refused, tally.refused),
        ] {
            counter.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Does one change of the volume. Its effects are events for replicas as well.
    fn change(
        &mut self,
        reach: Reach,
        work: &mut dyn FnMut(&mut dyn Table, &mut Wildcards) -> Result<()>,
    ) -> Result<()> {
        let Self { shared, wildcards, is_stale, .. } = self;
        let Some(replica) = &shared.replica else {
            return shared.store.change(reach, &mut |table| work(table, wildcards));
        };
        let mut log = replica.log.write();
        let is_new = core::mem::replace(is_stale, true);
        shared.store.change(reach, &mut |table| {
            if is_new {
                log.fill(table, wildcards.iter())?;
            }
            work(&mut LoggedTable::new(table, &mut log), wildcards)
        })?;
        replica.events.store(log.len(), Ordering::Relaxed);
        *is_stale = false;
        Ok(())
    }

    /// Forgets old tombstones and wildcard updates, one step at a time.
    fn collect(&mut self) {
        let now = clock::now();
        if self.sweep.is_none() {
            if now.mono < self.collect {
                return;
            }
            self.collect = now.mono + self.collection.period;
            let before = now.wall.saturating_sub(self.collection.lifespan);
            self.sweep = Some((Ntp64::from_duration(before).unwrap_or(Ntp64::MAX), None));
        }
        let Some((before, after)) = self.sweep.take() else { return };
        let mut expired = if after.is_none() { self.wildcards.expire(before) } else { Vec::new() };
        let (mut next, mut count) = (None, expired.len() as u64);
        let done = self.change(Reach::Visible, &mut |table, _| {
            for wildcard in expired.drain(..) {
                table.forget(&wildcard)?;
            }
            let (to, swept) = rules::sweep(table, before, after.as_deref())?;
            (next, count) = (to, count + swept);
            Ok(())
        });
        match done {
            Ok(()) => {
                self.shared.counters.expired.fetch_add(count, Ordering::Relaxed);
                self.sweep = next.map(|next| (before, Some(next)));
                if count > 0 && self.shared.is_durable() {
                    self.due.get_or_insert(now.mono + self.commit);
                }
            }
            // The next collection tries again.
            Err(error) => {
                tracing::warn!(storage = self.shared.name, %error, "old tombstones stay for now");
                // Updates that were visible are applied again.
                self.insist(&[], Reach::Visible);
            }
        }
    }
}

fn weight(update: &Update) -> usize {
    let value = update.value.as_ref().map_or(0, Value::weight);
    size_of::<Update>() + update.key.len() + value
}
