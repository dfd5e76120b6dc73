//! Steps of a shared spooler: its threads agree on when they write.
//!
//! The thread of the lease says what this spooler may do. The thread of the store acts on it and leads the threads of the
//! sources through steps: each of them has carried out a step before the next one begins.

use crate::{
    identity::Recognition,
    missing::Missing,
    numbers::Numbers,
    spread::Spread,
    standby::{Held, Listed},
};
use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use std::{collections::VecDeque, sync::Arc};
use zwire_spool::Gap;
use zwire_tier::lease::Author;

/// Rows for the log of gaps that wait until this spooler writes; the oldest go first.
const MAX_NOTES: usize = 64;
/// Period in which a waiting thread looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// Shards that a step is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    All,
    One(u32),
}

impl Scope {
    pub(crate) fn has(self, shard: usize) -> bool {
        match self {
            Self::All => true,
            Self::One(number) => number as usize == shard,
        }
    }
}

/// Settings of a spooler that takes turns with others.
#[derive(Clone, Debug)]
pub struct Turns {
    /// Name of this host, for messages and rows of others.
    pub host: String,
    /// Most octets of the samples of a source that wait until the store has them.
    pub standby_bytes: usize,
    /// Whether the spoolers share the spool by its shards, instead of one that writes all of them.
    pub spread: bool,
}

/// Counters of a shared spooler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseStats {
    /// `finding`, `standby`, `starting` or `holding`.
    pub state: &'static str,
    /// Epoch of the spooler that has the lease.
    pub epoch: u32,
    /// Its host; empty if there is none.
    pub holder: String,
    /// Samples that wait until the store has them, and their octets.
    pub standby_messages: u64,
    /// See above.
    pub standby_bytes: u64,
    /// Samples that were dropped because there were too many of them.
    pub standby_dropped: u64,
    /// Times that this spooler has begun to write.
    pub takeovers: u64,
    /// Shards that this spooler writes, if the spoolers share the spool by them.
    pub shards: Option<Vec<u32>>,
}

/// State of the lease, for the thread of the store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Wanted {
    /// Follows the store.
    #[default]
    Standby,
    /// Finds out where rows of the epoch begin.
    Claimed { epoch: u32, floors: Option<Vec<u64>> },
    /// Writes.
    Holding { epoch: u32 },
}

/// Samples that this spooler takes over.
pub(crate) struct Takeover {
    pub(crate) scope: Scope,
    /// Numbers of the rows in the store.
    pub(crate) numbers: Numbers,
    /// Numbers that are neither there nor in its log of gaps.
    pub(crate) missing: Mutex<Missing>,
}

/// Step of the threads of the sources.
#[derive(Clone)]
pub(crate) enum Step {
    /// The store has these rows.
    Learn(Arc<Listed>),
    /// Rows are written from now on.
    Write(Arc<Takeover>),
    /// No row is written from now on.
    Stand(Scope),
    /// Keys are spread over so many shards from now on, and the rows before have these last numbers of publishers. None is
    /// written meanwhile.
    Spread(u32, Arc<Numbers>),
}

#[derive(Default)]
struct Steps {
    step: Option<Step>,
    number: u64,
    /// Threads of sources, and those of them that have carried out the step.
    members: usize,
    done: usize,
    /// Whether rows are written, by shard.
    writing: Vec<bool>,
    /// Number of shards over which keys are spread.
    count: u32,
}

impl Steps {
    fn set(&mut self, scope: Scope, writes: bool) {
        let shards = self.writing.iter_mut().enumerate().filter(|(shard, _)| scope.has(*shard));
        shards.for_each(|(_, writing)| *writing = writes);
    }
}

/// State of the lease, for statistics.
#[derive(Default)]
struct Told {
    wanted: Wanted,
    /// Epoch, and spooler that has the lease; `None` until it is known.
    holder: Option<(u32, Author)>,
    /// Spooler that had it before.
    before: Option<Author>,
    /// Offsets from which the claimed epoch writes.
    offer: Option<(u32, Vec<u64>)>,
    /// Rows for the log of gaps.
    notes: VecDeque<Gap>,
}

pub(crate) struct Sharing {
    pub(crate) turns: Turns,
    pub(crate) recognition: Recognition,
    pub(crate) held: Arc<Held>,
    steps: Mutex<Steps>,
    done: Condvar,
    /// Number of the current step, for a look without a lock.
    number: AtomicU64,
    told: Mutex<Told>,
    /// Set when the lease of a shard is lost: nothing waits for room on the disk any more.
    fenced: Vec<AtomicBool>,
    /// Set while the store has samples that this spooler has received as well: it has those behind them, too.
    connected: AtomicBool,
    /// Set when the lease is to be given back.
    release: AtomicBool,
    /// Set when the thread of the lease is to end without giving it back.
    abandon: AtomicBool,
    /// Set when the lease is to be given back because this spooler cannot write; it stands by then.
    give_up: AtomicBool,
    pub(crate) takeovers: AtomicU64,
    /// State of the spoolers, if they share the spool by its shards.
    pub(crate) spread: Option<Spread>,
}

impl Sharing {
    /// State of a spooler of a spool with at most so many shards, over `count` of which keys are spread. `name`: its random
    /// number.
    pub(crate) fn new(
        turns: Turns,
        recognition: Recognition,
        (shards, count): (usize, u32),
        name: &str,
    ) -> Self {
        Self {
            spread: turns.spread.then(|| Spread::new(name, count)),
            turns,
            recognition,
            held: Arc::default(),
            steps: Mutex::new(Steps { writing: vec![false; shards], count, ..Steps::default() }),
            done: Condvar::new(),
            number: AtomicU64::new(0),
            told: Mutex::default(),
            fenced: (0..shards).map(|_| AtomicBool::new(true)).collect(),
            connected: AtomicBool::new(false),
            release: AtomicBool::new(false),
            abandon: AtomicBool::new(false),
            give_up: AtomicBool::new(false),
            takeovers: AtomicU64::new(0),
        }
    }

    pub(crate) fn stats(&self) -> LeaseStats {
        let told = self.told.lock();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counted = LeaseStats {
            standby_messages: load(&self.held.messages),
            standby_bytes: load(&self.held.bytes),
            standby_dropped: load(&self.held.dropped),
            takeovers: load(&self.takeovers),
            ..LeaseStats::default()
        };
        if let Some(spread) = &self.spread {
            let (state, epoch, shards) = spread.state();
            let holder = if shards.is_empty() { String::new() } else { self.turns.host.clone() };
            return LeaseStats { state, epoch, holder, shards: Some(shards), ..counted };
        }
        let holder = told.holder.clone();
        let state = match &told.wanted {
            Wanted::Holding { .. } if self.is_writing() => "holding",
            Wanted::Standby if holder.is_none() => "finding",
            Wanted::Standby => "standby",
            Wanted::Claimed { .. } | Wanted::Holding { .. } => "starting",
        };
        let (epoch, author) = holder.unwrap_or_default();
        LeaseStats { state, epoch, holder: author.host, ..counted }
    }

    /// Whether rows of some shard are written.
    pub(crate) fn is_writing(&self) -> bool {
        self.steps.lock().writing.iter().any(|writing| *writing)
    }

    /// Whether rows of a shard are written.
    pub(crate) fn writes(&self, shard: usize) -> bool {
        self.steps.lock().writing.get(shard).is_some_and(|writing| *writing)
    }

    /// Whether a thread of a source has begun.
    pub(crate) fn has_sources(&self) -> bool {
        self.steps.lock().members > 0
    }

    pub(crate) fn is_fenced(&self, shard: usize) -> bool {
        self.fenced.get(shard).is_none_or(|fenced| fenced.load(Ordering::Acquire))
    }

    pub(crate) fn fence(&self) {
        self.set_fence(Scope::All, true);
    }

    /// Sets whether the lease of shards is lost.
    pub(crate) fn set_fence(&self, scope: Scope, lost: bool) {
        let shards = self.fenced.iter().enumerate().filter(|(shard, _)| scope.has(*shard));
        shards.for_each(|(_, fenced)| fenced.store(lost, Ordering::Release));
    }

    /// Lets the threads of the sources wait for room on the disk; `false` if the lease of the epoch is lost already.
    pub(crate) fn unfence(&self, epoch: u32) -> bool {
        let told = self.told.lock();
        let holds = told.wanted == Wanted::Holding { epoch };
        if holds {
            self.set_fence(Scope::All, false);
        }
        holds
    }

    pub(crate) fn wanted(&self) -> Wanted {
        self.told.lock().wanted.clone()
    }

    pub(crate) fn want(&self, wanted: Wanted) {
        let mut told = self.told.lock();
        if !matches!(wanted, Wanted::Holding { .. }) {
            self.fence();
        }
        if wanted == Wanted::Standby {
            self.give_up.store(false, Ordering::Release);
        }
        told.wanted = wanted;
    }

    /// Has the lease given back, because this spooler cannot write.
    pub(crate) fn give_up(&self) {
        self.give_up.store(true, Ordering::Release);
    }

    pub(crate) fn is_giving_up(&self) -> bool {
        self.give_up.load(Ordering::Acquire)
    }

    pub(crate) fn holder(&self) -> Option<(u32, Author)> {
        self.told.lock().holder.clone()
    }

    pub(crate) fn note_holder(&self, epoch: u32, holder: Option<&Author>) {
        let mut told = self.told.lock();
        let holder = holder.map(|author| (epoch, author.clone()));
        if let Some((_, old)) = core::mem::replace(&mut told.holder, holder.clone())
            && holder.is_some_and(|(_, new)| new.writer != old.writer)
        {
            told.before = Some(old);
        }
    }

    /// Host of the spooler that had the lease before this one, if it is known.
    pub(crate) fn host_before(&self) -> Option<String> {
        self.told.lock().before.as_ref().map(|author| author.host.clone())
    }

    /// Offers the offsets from which a claimed epoch writes.
    pub(crate) fn offer(&self, epoch: u32, offsets: Vec<u64>) {
        self.told.lock().offer = Some((epoch, offsets));
    }

    pub(crate) fn take_offer(&self) -> Option<(u32, Vec<u64>)> {
        self.told.lock().offer.take()
    }

    /// Keeps a row of the log of gaps until this spooler writes.
    pub(crate) fn keep(&self, gap: Gap) {
        let notes = &mut self.told.lock().notes;
        if notes.len() >= MAX_NOTES {
            notes.pop_front();
        }
        notes.push_back(gap);
    }

    /// Rows that were kept for shards.
    pub(crate) fn take_notes(&self, scope: Scope) -> Vec<Gap> {
        let notes = &mut self.told.lock().notes;
        let (taken, left): (VecDeque<Gap>, _) =
            notes.drain(..).partition(|gap: &Gap| scope.has(gap.shard as usize));
        *notes = left;
        taken.into()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Takes note that the store has a sample that this spooler has received as well.
    pub(crate) fn connect(&self) {
        self.connected.store(true, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.release.store(true, Ordering::Release);
    }

    pub(crate) fn abandon(&self) {
        self.abandon.store(true, Ordering::Release);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandon.load(Ordering::Acquire)
    }

    pub(crate) fn is_released(&self) -> bool {
        self.release.load(Ordering::Acquire)
    }

    /// Leads the threads of the sources through a step. Returns when all have carried it out.
    pub(crate) fn run(&self, step: Step) {
        let mut steps = self.steps.lock();
        match &step {
            Step::Write(takeover) => steps.set(takeover.scope, true),
            Step::Stand(scope) => {
                steps.set(*scope, false);
                self.connected.store(false, Ordering::Relaxed);
            }
            Step::Spread(count, _) => steps.count = *count,
            Step::Learn(_) => {}
        }
        steps.step = Some(step);
        steps.number += 1;
        steps.done = 0;
        self.number.store(steps.number, Ordering::Release);
        while steps.done < steps.members {
            self.done.wait_for(&mut steps, LOOK);
        }
        // What it has may be large.
        steps.step = None;
    }
}

/// Thread of a source among those that carry out steps.
pub(crate) struct Member {
    sharing: Arc<Sharing>,
    number: u64,
    /// Whether it has to carry out the current step.
    owes: bool,
}

impl Member {
    /// A member, whether it writes rows, by shard, and the number of shards over which keys are spread.
    pub(crate) fn join(sharing: Arc<Sharing>) -> (Self, (Vec<bool>, u32)) {
        let mut steps = sharing.steps.lock();
        steps.members += 1;
        steps.done += 1;
        let (number, state) = (steps.number, (steps.writing.clone(), steps.count));
        drop(steps);
        (Self { sharing, number, owes: false }, state)
    }

    /// The next step, if there is one. [`Self::carried_out`] has to follow.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if self.sharing.number.load(Ordering::Acquire) == self.number {
            return None;
        }
        let steps = self.sharing.steps.lock();
        self.number = steps.number;
        self.owes = true;
        steps.step.clone()
    }

    pub(crate) fn carried_out(&mut self) {
        self.owes = false;
        self.sharing.steps.lock().done += 1;
        self.sharing.done.notify_all();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut steps = self.sharing.steps.lock();
        steps.members -= 1;
        // A step that it has carried out does not count for the others.
        if steps.number == self.number && !self.owes {
            steps.done = steps.done.saturating_sub(1);
        }
        drop(steps);
        self.sharing.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zwire_spool::{Layout, layout::SAMPLES};

    fn sharing() -> Arc<Sharing> {
        let turns = Turns { host: "here".to_owned(), standby_bytes: 1000, spread: false };
        Arc::new(Sharing::new(turns, Recognition::new(&Layout::whole(&SAMPLES)), (1, 1), "ab"))
    }

    #[test]
    fn a_step_ends_when_every_thread_has_carried_it_out() {
        let sharing = sharing();
        let (mut first, (writing, _)) = Member::join(sharing.clone());
        let (second, _) = Member::join(sharing.clone());
        assert!(writing == [false] && first.next().is_none());
        let lead = sharing.clone();
        let thread = std::thread::spawn(move || lead.run(Step::Stand(Scope::All)));
        while first.next().is_none() {
            std::thread::yield_now();
        }
        // A thread that joins meanwhile has nothing to carry out, and one that ends holds nothing up.
        let (mut third, _) = Member::join(sharing.clone());
        assert!(third.next().is_none());
        first.carried_out();
        std::thread::sleep(Duration::from_millis(20));
        assert!(!thread.is_finished(), "the second one has not carried it out");
        drop(second);
        thread.join().unwrap();
        drop(first);
        drop(third);
        sharing.run(Step::Stand(Scope::All));
    }

    #[test]
    fn the_state_is_that_of_the_lease_and_of_the_threads() {
        let sharing = sharing();
        assert_eq!(sharing.stats().state, "finding");
        let author = |name: &str| Author { writer: name.to_owned(), host: name.to_owned() };
        sharing.note_holder(1, Some(&author("a")));
        assert_eq!((sharing.stats().state, sharing.host_before()), ("standby", None));
        sharing.want(Wanted::Claimed { epoch: 2, floors: None });
        sharing.note_holder(2, Some(&author("b")));
        sharing.want(Wanted::Holding { epoch: 2 });
        assert_eq!(sharing.stats().state, "starting");
        assert!(sharing.unfence(2) && !sharing.unfence(1));
        let takeover = Takeover { scope: Scope::All, numbers: Numbers::default(), missing: Mutex::default() };
        sharing.run(Step::Write(Arc::new(takeover)));
        let stats = sharing.stats();
        assert_eq!((stats.state, stats.epoch, &*stats.holder), ("holding", 2, "b"));
        assert_eq!(sharing.host_before().as_deref(), Some("a"));
        sharing.give_up();
        sharing.want(Wanted::Standby);
        assert!(sharing.is_fenced(0) && !sharing.unfence(2) && !sharing.is_giving_up());
    }
}
