//! Compaction of a store: in a share of the time of a spooler, or by a process for a spool without one.

use crate::time::Clock;
use core::time::Duration;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use zwire_engine::clock;
use zwire_spool::{Error, Result};
use zwire_tier::{
    TierWriter,
    compact::{self, Compacted, Orphans, Sizes},
};

/// Least number of segments that a spooler merges: each merge adds an entry with the whole state.
const PARTS: usize = 16;
/// Pause after a merge, to the time that it took: a tenth of the time of the thread is for merges.
const REST: u32 = 9;
/// Pause after an error.
const AFTER_ERROR: Duration = Duration::from_secs(60);
/// Time after the start and between two searches for objects that no entry names, which list the whole store.
const FIRST: Duration = Duration::from_secs(600);
const SWEEP: Duration = Duration::from_secs(86_400);
/// Age at which such an object is deleted: no upload takes so long.
const ORPHAN: Duration = Duration::from_secs(86_400);
/// Least time for which replaced segments stay: a reader looks for the new ones in a state that is a moment old.
const LEAST_GRACE: Duration = Duration::from_secs(1);
/// File of the folder in which a merged segment is made.
const SCRATCH: &str = "merging.tmp";
/// Attempts of a process, between which spoolers have started.
const ATTEMPTS: u32 = 5;

/// Part of the compaction that was done in one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tidied {
    /// Segments that were merged.
    pub(crate) merged: u64,
    /// Objects without an entry that were deleted.
    pub(crate) orphans: u64,
}

/// Compaction by a spooler.
pub(crate) struct Compacting {
    /// Most octets of a merged segment; `None`: nothing is merged.
    bytes: Option<u64>,
    scratch: PathBuf,
    clock: Clock,
    /// Times of the clock until which nothing is merged, and not searched for objects.
    rests: Duration,
    sweeps: Duration,
    /// Text of the last error.
    pub(crate) problem: Option<String>,
}

impl Compacting {
    pub(crate) fn new(dir: &Path, bytes: Option<u64>, clock: Clock) -> Self {
        let now = clock.now().mono;
        Self { bytes, scratch: dir.join(SCRATCH), clock, rests: now, sweeps: now + FIRST, problem: None }
    }

    /// Does a part of the work, if it is time for it. Errors are logged, and followed by a rest: uploads go on. Fails if
    /// another spooler has taken over.
    pub(crate) fn attempt(&mut self, tier: &mut TierWriter) -> Result<Tidied> {
        match self.turn(tier) {
            Ok(done) => {
                self.problem = None;
                Ok(done)
            }
            Err(error) if tier.is_fenced() => Err(error),
            Err(error) => {
                let text = error.to_string();
                if self.problem.as_ref() != Some(&text) {
                    tracing::warn!("segments of the store are not merged for now: {text}");
                }
                self.problem = Some(text);
                self.rests = self.rests.max(self.clock.now().mono + AFTER_ERROR);
                Ok(Tidied::default())
            }
        }
    }

    /// Does a part of the work, if it is time for it.
    pub(crate) fn turn(&mut self, tier: &mut TierWriter) -> Result<Tidied> {
        let mut done = Tidied::default();
        let begin = self.clock.now().mono;
        if begin >= self.sweeps {
            // Also after an error: the search lists the whole store, and is not repeated with every turn.
            self.sweeps = begin + SWEEP;
            done.orphans = tier.sweep_orphans(ORPHAN, self.clock.micros())?.objects;
        }
        if let Some(bytes) = self.bytes
            && begin >= self.rests
        {
            let merged = tier.compact(Sizes { bytes, parts: PARTS }, &self.scratch, self.clock.micros());
            let end = self.clock.now().mono;
            self.rests = end + end.saturating_sub(begin) * REST;
            done.merged = merged?.map_or(0, |merged| merged.segments);
        }
        Ok(done)
    }
}

/// Compaction of the store of a spool by a process that does not write the spool.
pub struct Compactor {
    tier: Mutex<TierWriter>,
    grace: Duration,
}

impl Compactor {
    /// Opens the store with an address, or of the spool in a folder. Replaced segments stay for `grace`, and for a second
    /// at least.
    pub fn open(place: &Path, grace: Duration) -> Result<Self> {
        Ok(Self { tier: Mutex::new(compact::join(place, clock::mono)?), grace: grace.max(LEAST_GRACE) })
    }

    /// Merges some segments into one of at most so many octets, by a file at `scratch`; `None` if none are left.
    pub fn step(&self, bytes: u64, scratch: &Path) -> Result<Option<Compacted>> {
        self.attempt(|tier| tier.compact(Sizes { bytes, parts: 2 }, scratch, Clock::default().micros()))
    }

    /// Time until [`Self::retire`] deletes the last of the replaced segments; `None` if there are none.
    pub fn retires_in(&self) -> Option<Duration> {
        self.tier.lock().retires_in(self.grace)
    }

    /// Deletes replaced segments that no reader needs any more.
    pub fn retire(&self) -> Result<()> {
        self.attempt(|tier| tier.retire(self.grace, Clock::default().micros()))
    }

    /// Deletes objects that no entry names and that are older than `age`.
    pub fn sweep(&self, age: Duration) -> Result<Orphans> {
        self.attempt(|tier| tier.sweep_orphans(age, Clock::default().micros()))
    }

    /// Acts for the spooler that has written last. If another one starts meanwhile, the next attempt acts for that.
    fn attempt<T>(&self, mut act: impl FnMut(&mut TierWriter) -> Result<T>) -> Result<T> {
        let mut tier = self.tier.lock();
        let mut left = ATTEMPTS;
        loop {
            tier.adopt()?;
            left -= 1;
            match act(&mut tier) {
                Err(Error::Mismatch { .. }) if left > 0 => {}
                done => return done,
            }
        }
    }
}
