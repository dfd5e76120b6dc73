//! [`Clock`]: what a subscriber knows of publications whose times tell them apart.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{limits::STATE_LIFE, subscriber::Subscriber, types::Output};
use crate::{
    Now,
    zenoh::{KeyExpr, Ntp64, Timestamp, ZenohId, session::Sample},
};

/// All keys with times of one clock. A node has one clock for all of its publishers, so that only times of
/// the same key are in order.
#[derive(Debug, Default)]
pub(super) struct Clock {
    pub(super) keys: HashMap<KeyExpr, Line>,
    /// Questions for histories that are not answered.
    pub(super) histories: u32,
    /// Whether a token of its node is there.
    pub(super) alive: bool,
    /// How many samples are held.
    pub(super) holding: usize,
}

/// One key.
#[derive(Debug)]
pub(super) struct Line {
    /// The time of the last sample that was handed over.
    pub(super) last: Option<Ntp64>,
    /// For who keeps everything: up to here all was there before the last question.
    pub(super) floor: Option<Ntp64>,
    /// For the same: what came while an answer was waited for.
    pub(super) fresh: BTreeSet<Ntp64>,
    /// Samples that wait for older ones.
    held: BTreeMap<Ntp64, Sample>,
    /// When it was heard of last.
    pub(super) used: Duration,
}

/// What becomes of a sample.
pub(super) enum Fate {
    /// It is handed over.
    Pass(Sample),
    /// It waits.
    Held,
    /// It came before, or too late.
    Drop,
}

impl Line {
    pub(super) const fn new(now: Duration) -> Self {
        Self { last: None, floor: None, fresh: BTreeSet::new(), held: BTreeMap::new(), used: now }
    }

    /// One more. `waits`: others may come that are older.
    pub(super) fn take(&mut self, time: Ntp64, sample: Sample, waits: bool) -> Fate {
        if self.last.is_some_and(|last| time <= last) || self.held.contains_key(&time) {
            return Fate::Drop;
        }
        if waits {
            self.held.insert(time, sample);
            return Fate::Held;
        }
        self.last = Some(time);
        Fate::Pass(sample)
    }

    /// One that an answer has brought, older than some that were handed over perhaps.
    pub(super) fn take_old(&mut self, time: Ntp64, sample: Sample, waits: bool) -> Fate {
        if self.held.contains_key(&time) {
            return Fate::Drop;
        }
        if waits {
            self.held.insert(time, sample);
            return Fate::Held;
        }
        self.last = self.last.max(Some(time));
        Fate::Pass(sample)
    }

    pub(super) const fn is_known(&self) -> bool {
        self.last.is_some()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.fresh.is_empty()
    }
}

impl Clock {
    /// All that is held, in the order of its times.
    pub(super) fn release(&mut self) -> Vec<Sample> {
        let mut all = Vec::with_capacity(self.holding);
        for line in self.keys.values_mut() {
            if let Some((&last, _)) = line.held.last_key_value() {
                line.last = line.last.max(Some(last));
                all.extend(core::mem::take(&mut line.held));
            }
            line.fresh.clear();
            line.floor = line.last;
        }
        self.holding = 0;
        all.sort_by_key(|(time, _)| *time);
        all.into_iter().map(|(_, sample)| sample).collect()
    }
}

impl Subscriber {
    /// A sample with a time and no number.
    pub(super) fn handle_stamped(
        &mut self,
        now: Now,
        timestamp: Timestamp,
        sample: Sample,
    ) -> Option<Sample> {
        if self.lines >= self.config.max_sources {
            self.forget_lines();
        }
        let beginning = self.beginning;
        let clock = self.clocks.entry(timestamp.id).or_default();
        let line = match clock.keys.get_mut(&sample.key) {
            Some(line) => line,
            None => {
                self.lines += 1;
                // It is kept for long: not within the buffer that it came in.
                clock.keys.entry(sample.key.unshared()).or_insert(Line::new(now.mono))
            }
        };
        line.used = now.mono;
        self.next_sweep.get_or_insert_with(|| now.mono + STATE_LIFE);
        let waits = clock.histories > 0 || (beginning && !line.is_known());
        let cost = sample.cost();
        let kept = if waits { sample.kept() } else { sample };
        let fate = line.take(timestamp.time, kept, waits);
        self.settle_stamped(timestamp.id, fate, cost)
    }

    /// Counts what is held; what is handed over.
    pub(super) fn settle_stamped(&mut self, zid: ZenohId, fate: Fate, cost: usize) -> Option<Sample> {
        match fate {
            Fate::Pass(sample) => return Some(sample),
            Fate::Drop => return None,
            Fate::Held => {}
        }
        if let Some(clock) = self.clocks.get_mut(&zid) {
            clock.holding += 1;
        }
        self.held += 1;
        self.held_bytes += cost;
        if self.is_over() {
            self.release_clock(zid);
        }
        None
    }

    /// Hands over what was held of a clock.
    pub(super) fn release_clock(&mut self, zid: ZenohId) {
        let Some(clock) = self.clocks.get_mut(&zid) else { return };
        let forgotten: usize = clock.keys.values().map(|line| line.fresh.len()).sum();
        let released = clock.release();
        self.fresh = self.fresh.saturating_sub(forgotten);
        for sample in released {
            self.held -= 1;
            self.held_bytes -= sample.cost();
            self.outputs.push_back(Output::Sample(sample));
        }
    }
}
