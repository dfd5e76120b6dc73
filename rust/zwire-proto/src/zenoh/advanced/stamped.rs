//! [`Clock`]: what a subscriber knows of publications whose times tell them apart.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};

use crate::zenoh::{KeyExpr, Ntp64, session::Sample};

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
    last: Option<Ntp64>,
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
        Self { last: None, held: BTreeMap::new(), used: now }
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

    pub(super) const fn is_known(&self) -> bool {
        self.last.is_some()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }
}

impl Clock {
    /// All that is held, in the order of its times.
    pub(super) fn release(&mut self) -> Vec<Sample> {
        let mut all = Vec::with_capacity(self.holding);
        for line in self.keys.values_mut() {
            if let Some((&last, _)) = line.held.last_key_value() {
                line.last = Some(last);
                all.extend(core::mem::take(&mut line.held));
            }
        }
        self.holding = 0;
        all.sort_by_key(|(time, _)| *time);
        all.into_iter().map(|(_, sample)| sample).collect()
    }
}
