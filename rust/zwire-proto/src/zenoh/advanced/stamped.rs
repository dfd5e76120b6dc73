//! [`Clock`]: a subscriber's state of publications ordered by timestamps.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{limits::STATE_LIFE, subscriber::AdvancedSubscriber, types::Output};
use crate::{
    Now,
    zenoh::{KeyExpr, Ntp64, Timestamp, ZenohId, session::Sample},
};

/// All keys with timestamps of one clock. A node has one clock for all of its publishers, so that only
/// times of the same key are in order.
#[derive(Debug, Default)]
pub(super) struct Clock {
    pub(super) keys: HashMap<KeyExpr, Line>,
    /// Unanswered queries for histories.
    pub(super) histories: u32,
    /// Whether a token of its node is alive.
    pub(super) alive: bool,
    pub(super) holding: usize,
}

/// State of one key.
#[derive(Debug)]
pub(super) struct Line {
    /// The time of the last sample delivered.
    pub(super) last: Option<Ntp64>,
    /// In the mode that keeps everything: all samples up to here were delivered before the last query.
    pub(super) floor: Option<Ntp64>,
    /// In the same mode: times of samples delivered while a query was open.
    pub(super) fresh: BTreeSet<Ntp64>,
    /// Samples held back for older ones.
    held: BTreeMap<Ntp64, Sample>,
    /// Time of the last sample.
    pub(super) used: Duration,
}

/// Handling of a sample.
pub(super) enum StampedFate {
    /// Deliver it.
    Pass(Sample),
    /// Held back.
    Held,
    /// Dropped as a repetition, or as too late.
    Drop,
}

impl Line {
    pub(super) const fn new(now: Duration) -> Self {
        Self { last: None, floor: None, fresh: BTreeSet::new(), held: BTreeMap::new(), used: now }
    }

    /// Takes a sample. `waits`: older ones may still come. `old`: it belongs to an answer and may be
    /// older than delivered ones.
    pub(super) fn take(&mut self, time: Ntp64, sample: Sample, waits: bool, old: bool) -> StampedFate {
        let late = !old && self.last.is_some_and(|last| time <= last);
        if late || self.held.contains_key(&time) {
            return StampedFate::Drop;
        }
        if waits {
            self.held.insert(time, sample);
            return StampedFate::Held;
        }
        self.last = self.last.max(Some(time));
        StampedFate::Pass(sample)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.fresh.is_empty()
    }
}

impl Clock {
    /// All samples held back, in the order of their times.
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

impl AdvancedSubscriber {
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
                // A new key is stored for long and must not keep a receive buffer alive.
                clock.keys.entry(sample.key.unshared()).or_insert(Line::new(now.mono))
            }
        };
        line.used = now.mono;
        self.next_sweep.get_or_insert_with(|| now.mono + STATE_LIFE);
        let waits = clock.histories > 0 || (beginning && line.last.is_none());
        let cost = sample.cost();
        let kept = if waits { sample.kept() } else { sample };
        let fate = line.take(timestamp.time, kept, waits, false);
        self.settle_stamped(timestamp.id, fate, cost)
    }

    /// Updates the count of samples held back; returns the sample to deliver.
    pub(super) fn settle_stamped(&mut self, zid: ZenohId, fate: StampedFate, cost: usize) -> Option<Sample> {
        match fate {
            StampedFate::Pass(sample) => return Some(sample),
            StampedFate::Drop => return None,
            StampedFate::Held => {}
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

    /// Delivers the samples held back for a clock.
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
