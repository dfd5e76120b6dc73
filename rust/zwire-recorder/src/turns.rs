//! Thread of a shared spooler: follows the store while another spooler writes, takes over, and stands by again.

use crate::{
    follow::{Follower, Known},
    numbers::Hole,
    shared::Shared,
    steps::{Scope, Sharing, Step, Takeover, Wanted},
    tier::{Link, Uploader},
};
use core::{sync::atomic::Ordering, time::Duration};
use parking_lot::Mutex;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use zwire_spool::{
    Error, Gap, Result, Shard, Spool,
    tier::{Noted, note_place, place_of},
};
use zwire_tier::{lease::RANGE, of_store};

/// Period in which a spooler that stands by looks for new rows, and in which one that writes looks for sealed segments.
const LOOK: Duration = Duration::from_millis(500);
/// Pauses while the lease changes, and after an error then.
const SOON: Duration = Duration::from_millis(50);
const LATER: Duration = Duration::from_secs(1);
/// Pause between two attempts to upload the rest while the spooler closes.
const AGAIN: Duration = Duration::from_millis(200);
/// Time after which a spooler that has the lease and fails to begin to write gives it back: another one may be able to.
const FUTILE: Duration = Duration::from_secs(10);

/// How far this spooler is.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    Standby,
    /// Rows of the epoch begin at these offsets, one for each shard and finally for the gap log.
    Claimed {
        epoch: u32,
        offsets: Vec<u64>,
    },
    Writing {
        epoch: u32,
        offsets: Vec<u64>,
    },
    /// Another spooler has written in a later epoch; the lease will tell.
    Fenced {
        epoch: u32,
    },
}

/// The thread.
pub(crate) struct Successor {
    uploader: Uploader,
    shared: Arc<Shared>,
    sharing: Arc<Sharing>,
    dir: PathBuf,
    phase: Phase,
    /// `None` until the store was read.
    follower: Option<Follower>,
    /// Whether the folder may have rows of the epoch that it was written in last.
    fresh: bool,
    /// Time of the clock since when this spooler has the lease and does not write.
    idle: Option<Duration>,
}

impl Successor {
    pub(crate) fn new(uploader: Uploader, shared: &Arc<Shared>, sharing: &Arc<Sharing>, dir: &Path) -> Self {
        let (shared, sharing, dir) = (shared.clone(), sharing.clone(), dir.to_owned());
        Self {
            uploader,
            shared,
            sharing,
            dir,
            phase: Phase::Standby,
            follower: None,
            fresh: true,
            idle: None,
        }
    }

    pub(crate) fn run(mut self, link: &Link) {
        loop {
            let finish = link.is_finishing();
            let done = if finish { self.end() } else { self.turn() };
            let failed = link.count(&done);
            self.shared.note(done);
            self.look_for_use(failed);
            let may_succeed = failed && !self.uploader.is_fenced();
            if finish && !(may_succeed && self.shared.clock.now().mono < link.until()) {
                return;
            }
            std::thread::park_timeout(if finish { AGAIN } else { self.pause(failed) });
        }
    }

    fn pause(&self, failed: bool) -> Duration {
        match (&self.phase, self.sharing.wanted()) {
            _ if failed => LATER,
            (Phase::Claimed { .. }, _)
            | (Phase::Standby, Wanted::Claimed { .. } | Wanted::Holding { .. }) => SOON,
            (Phase::Standby, _) if self.sharing.holder().is_none() => SOON,
            _ => LOOK,
        }
    }

    /// Has the lease given back if this spooler has had it for a while, and cannot begin to write.
    fn look_for_use(&mut self, failed: bool) {
        let is_futile = match self.phase {
            Phase::Writing { .. } => None,
            Phase::Fenced { .. } => Some(true),
            // A spooler that reads a large store has no error.
            Phase::Standby | Phase::Claimed { .. } => Some(failed),
        };
        let Some(is_futile) = is_futile.filter(|_| self.sharing.wanted() != Wanted::Standby) else {
            self.idle = None;
            return;
        };
        let now = self.shared.clock.now().mono;
        let since = *self.idle.get_or_insert(now);
        if is_futile && now.saturating_sub(since) >= FUTILE {
            self.sharing.give_up();
        }
    }

    /// Uploads the rest, if this spooler writes.
    fn end(&mut self) -> Result<()> {
        match self.phase {
            Phase::Writing { .. } => self.uploader.turn(),
            _ => Ok(()),
        }
    }

    fn turn(&mut self) -> Result<()> {
        let wanted = self.sharing.wanted();
        let epoch = match wanted {
            Wanted::Standby => None,
            Wanted::Claimed { epoch, .. } | Wanted::Holding { epoch } => Some(epoch),
        };
        let own = match &self.phase {
            Phase::Standby => None,
            Phase::Claimed { epoch, .. } | Phase::Writing { epoch, .. } | Phase::Fenced { epoch } => {
                Some(*epoch)
            }
        };
        if own.is_some() && own != epoch {
            self.stand()?;
            self.phase = Phase::Standby;
        }
        match (&self.phase, wanted) {
            // The lease is on its way back: no row may be written any more.
            (Phase::Standby | Phase::Claimed { .. }, _) if self.sharing.is_giving_up() => {
                self.follow().map(|_| ())
            }
            (Phase::Standby, Wanted::Claimed { epoch, floors }) => {
                let claimed = self.claim(epoch, floors.as_deref());
                self.unless_fenced(epoch, claimed)
            }
            (Phase::Claimed { epoch, offsets }, Wanted::Holding { .. }) => {
                self.take_over(*epoch, offsets.clone())
            }
            (Phase::Writing { epoch, offsets }, _) => {
                let (epoch, offsets) = (*epoch, offsets.clone());
                let done = self.uploader.turn();
                self.limit(&offsets);
                self.unless_fenced(epoch, done)
            }
            _ => self.follow().map(|_| ()),
        }
    }

    /// Stands by if another spooler has written in a later epoch.
    fn unless_fenced(&mut self, epoch: u32, done: Result<()>) -> Result<()> {
        if done.is_err() && self.uploader.is_fenced() {
            self.sharing.fence();
            self.stand()?;
            self.phase = Phase::Fenced { epoch };
        }
        done
    }

    /// Takes note of rows that are new in the store. Returns whether there were some.
    fn follow(&mut self) -> Result<bool> {
        let follower = match &mut self.follower {
            Some(follower) => follower,
            none => none
                .insert(Follower::new(of_store(self.uploader.place(), zwire_engine::clock::mono)?, false)?),
        };
        let mut found = false;
        while let Some(listed) = follower.turn(&self.sharing.recognition, &|_| true)? {
            found = true;
            self.sharing.run(Step::Learn(Arc::new(listed)));
        }
        Ok(found)
    }

    /// Finds out where the rows of an epoch begin.
    fn claim(&mut self, epoch: u32, floors: Option<&[u64]>) -> Result<()> {
        self.uploader.claim(epoch)?;
        let ends = self.ends();
        if floors.is_some_and(|floors| floors.len() != ends.len()) {
            let problem =
                format!("the start of an earlier epoch has {} offsets", floors.map_or(0, <[u64]>::len));
            return Err(Error::BadFile { path: self.uploader.place().into(), problem });
        }
        // Nothing is added in an earlier epoch from now on.
        while !self.follower.as_ref().is_some_and(|follower| follower.has(&ends)) {
            if !self.follow()? && !self.follower.as_ref().is_some_and(|follower| follower.has(&ends)) {
                std::thread::sleep(SOON);
            }
        }
        let floor = |index: usize| floors.map_or(0, |floors| floors[index]);
        let begun = ends.iter().any(|end| *end > 0) || floors.is_some();
        let behind = |(index, end): (usize, &u64)| (*end).max(floor(index)) + if begun { RANGE } else { 0 };
        let mut offsets: Vec<u64> = ends.iter().enumerate().map(behind).collect();
        if self.has_own_rows(epoch)? {
            // They go on behind those in the folder, which no other spooler has used.
            let writers = self.shared.writers();
            let next: Vec<u64> = writers.map(|writer| writer.lock().next_offset()).collect();
            let fits = |(index, next): (usize, &u64)| (ends[index]..offsets[index]).contains(next);
            if next.iter().enumerate().all(fits) {
                offsets = next;
            } else {
                self.fresh = false;
            }
        } else {
            self.fresh = false;
        }
        self.sharing.offer(epoch, offsets.clone());
        self.phase = Phase::Claimed { epoch, offsets };
        Ok(())
    }

    /// Whether the folder has the rows of the epoch before, so that no other spooler has written since. Without a lease
    /// the epochs of the folder count its starts, also those that were stopped before their first entry: the first epoch of
    /// the lease may have a lower number than the last of them.
    fn has_own_rows(&self, epoch: u32) -> Result<bool> {
        let noted = place_of(&self.dir, self.uploader.meta())?.and_then(|noted| noted.shared);
        Ok(self.fresh && noted.is_some_and(|noted| noted > 0 && noted + 1 >= epoch))
    }

    /// Ends of the shards in the store, and of the gap log.
    fn ends(&self) -> Vec<u64> {
        let meta = self.uploader.meta();
        meta.shards().into_iter().map(|shard| self.uploader.end_in_store(shard)).collect()
    }

    /// Begins to write.
    fn take_over(&mut self, epoch: u32, offsets: Vec<u64>) -> Result<()> {
        let noted = place_of(&self.dir, self.uploader.meta())?.and_then(|noted| noted.shared);
        let before = self.sharing.host_before();
        let goes_on = self.fresh;
        let shards = self.uploader.meta().shards();
        for (shard, next) in shards.iter().zip(&offsets) {
            if goes_on {
                self.uploader.join(*shard)?;
            } else {
                self.uploader.resume(*shard, *next, epoch)?;
            }
        }
        self.limit(&offsets);
        // The folder is in order: from now on its rows are those of this epoch. No row of it was written before.
        let url = self.uploader.place().to_owned();
        note_place(&self.dir, self.uploader.meta(), &Noted { url, shared: Some(epoch), claims: None })?;
        self.uploader.begin_epoch();
        // Every attempt goes on behind the rows of the folder until one of them has succeeded.
        self.fresh = false;
        let mut gaps: Vec<Gap> = Vec::new();
        let now = self.shared.clock.micros();
        let host = &self.sharing.turns.host;
        for (shard, next) in shards.iter().zip(&offsets) {
            let Shard::Data(number) = shard else { continue };
            let gap = |kind, detail| Gap {
                shard: *number,
                offset: *next,
                kind,
                time: now,
                detail,
                ..Gap::default()
            };
            let end = self.uploader.end_in_store(*shard);
            let after = before.as_ref().map_or_else(String::new, |before| format!(", after {before}"));
            let detail = format!("{host} writes the spool from here on{after}, epoch {epoch} of the lease");
            gaps.push(gap("epoch", detail));
            if *next > end && !goes_on {
                let other = before.as_deref().unwrap_or("another host");
                let detail = format!(
                    "offsets {end} to {next} (exclusive) are not used: the folder of the spooler before ({other}) may \
                     have rows there"
                );
                gaps.push(gap("gap", detail));
            }
        }
        gaps.extend(
            self.sharing
                .take_notes(Scope::All)
                .into_iter()
                .map(|gap| Gap { offset: offsets.get(gap.shard as usize).copied().unwrap_or(0), ..gap }),
        );
        self.shared.tell(&gaps, now);
        tracing::info!(
            "{host} writes the spool, epoch {epoch} of the lease; it has {} samples that the store does not have",
            self.sharing.held.messages.load(Ordering::Relaxed)
        );
        let mut follower = self.follower.take();
        if goes_on {
            follower = self.with_own_rows(noted).or(follower);
        }
        let Known { numbers, missing } =
            follower.map_or_else(Known::default, |mut follower| follower.take(0));
        let takeover = Arc::new(Takeover { scope: Scope::All, numbers, missing: Mutex::new(missing) });
        if !self.sharing.unfence(epoch) {
            // The lease was lost meanwhile: the next turn stands by.
            return Ok(());
        }
        self.sharing.run(Step::Write(takeover.clone()));
        tell_missing(&self.shared, 0, takeover.missing.lock().take());
        self.sharing.takeovers.fetch_add(1, Ordering::Relaxed);
        self.phase = Phase::Writing { epoch, offsets };
        // What was taken over is uploaded at once: this spooler may be lost as well.
        let now = self.shared.clock.micros();
        for writer in self.shared.writers() {
            let mut writer = writer.lock();
            self.shared.note(writer.flush(now).and_then(|()| writer.seal()));
        }
        Ok(())
    }

    /// Follower that knows the rows in the folder, too: those of the spooler that this one goes on after.
    fn with_own_rows(&self, before: Option<u32>) -> Option<Follower> {
        tracing::info!(
            "the folder has rows of epoch {} of the lease, and goes on behind them",
            before.unwrap_or(0)
        );
        let read = || -> Result<Follower> {
            let mut follower =
                Follower::new(Spool::open(&self.dir)?.with_tier(self.uploader.store()), false)?;
            while let Some(listed) = follower.turn(&self.sharing.recognition, &|_| true)? {
                self.sharing.run(Step::Learn(Arc::new(listed)));
            }
            Ok(follower)
        };
        self.shared.note(read())
    }

    /// Bounds the offsets of this epoch: the next one begins behind them.
    fn limit(&self, offsets: &[u64]) {
        for ((writer, start), end) in self.shared.writers().zip(offsets).zip(self.ends()) {
            writer.lock().limit(end.max(*start).saturating_add(RANGE));
        }
    }

    /// Stops writing; segments that the store does not have are set aside.
    fn stand(&mut self) -> Result<()> {
        self.sharing.run(Step::Stand(Scope::All));
        self.follower = None;
        self.uploader.end_epoch();
        if !matches!(self.phase, Phase::Writing { .. }) {
            return Ok(());
        }
        let mut aside = 0;
        for writer in self.shared.writers() {
            aside += writer.lock().fence()?;
        }
        self.uploader.end_epoch();
        tracing::warn!(
            "{}: {aside} segments that the store does not have were set aside, with names that end in .fenced",
            self.dir.display()
        );
        Ok(())
    }
}

/// Names numbers that neither the store nor this spooler has, as missing before the next row of a shard.
pub(crate) fn tell_missing(shared: &Shared, shard: u32, (holes, beyond): (Vec<Hole>, u64)) {
    let now = shared.clock.micros();
    let offset = shared.shards[shard as usize].lock().next_offset();
    let detail = "neither the spooler before nor this one has written these";
    let mut gaps: Vec<Gap> = holes.into_iter().map(|hole| hole.gap((shard, offset), now, detail)).collect();
    if beyond > 0 {
        gaps.push(Gap {
            shard,
            offset,
            kind: "gap",
            count: Some(beyond),
            time: now,
            detail: detail.to_owned(),
            ..Gap::default()
        });
    }
    let count = gaps.iter().filter_map(|gap| gap.count).sum();
    shared.lost.fetch_add(count, Ordering::Relaxed);
    shared.tell(&gaps, now);
}
