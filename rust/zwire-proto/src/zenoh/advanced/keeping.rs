//! Mode of a subscriber that keeps everything, for instance in a log: no received sample is dropped,
//! and known samples are not queried.
//!
//! Samples without numbers are delivered at once, also while a history is queried: their order in the
//! log is that of their arrival.

use super::{
    keys::SampleSource,
    limits::{FRUITLESS_REST, MAX_FRUITLESS, STATE_LIFE},
    stamped::Line,
    subscriber::AdvancedSubscriber,
    window::Window,
};
use crate::{
    Now,
    zenoh::{KeyExpr, Ntp64, Timestamp, session::Sample},
};

impl AdvancedSubscriber {
    /// Whether a sample of the subscription is delivered without any change of state here.
    #[inline]
    #[must_use]
    pub const fn is_plain(&self, sample: &Sample) -> bool {
        self.config.keeps
            && sample.source_info.is_none()
            && (sample.timestamp.is_none() || self.config.history.is_none())
    }

    /// Marks this number of a publisher, and all earlier ones, as known.
    pub fn know(&mut self, now: Now, source: SampleSource, sn: u32) {
        let window = self.window(now, source);
        let behind = window.place(sn) + 1;
        window.next = window.next.max(Some(behind));
    }

    /// Marks samples with this time on a key, or an earlier one of the same clock, as known.
    pub fn know_time(&mut self, now: Now, key: &KeyExpr, timestamp: Timestamp) {
        self.line(now, timestamp, key).know(timestamp.time);
    }

    /// State of a key with times.
    fn line(&mut self, now: Now, timestamp: Timestamp, key: &KeyExpr) -> &mut Line {
        let clock = self.clocks.get(&timestamp.id);
        if self.lines >= self.config.max_sources && !clock.is_some_and(|clock| clock.keys.contains_key(key)) {
            self.forget_lines();
        }
        self.next_sweep.get_or_insert_with(|| now.mono + STATE_LIFE);
        let clock = self.clocks.entry(timestamp.id).or_default();
        let known = clock.keys.contains_key(key);
        self.lines += usize::from(!known);
        // A new key is stored for long and must not keep a receive buffer alive.
        let key = if known { key.clone() } else { key.unshared() };
        let line = clock.keys.entry(key).or_insert_with(|| Line::new(now.mono));
        line.used = now.mono;
        line
    }

    /// Handles a sample with a time and no number, in the mode that keeps everything.
    pub(super) fn keep_stamped(
        &mut self,
        now: Now,
        timestamp: Timestamp,
        sample: Sample,
        live: bool,
    ) -> Option<Sample> {
        if live && self.config.history.is_none() {
            return Some(sample);
        }
        let beginning = self.beginning;
        let room = self.fresh < self.config.max_pending;
        self.line(now, timestamp, &sample.key);
        let clock = self.clocks.get_mut(&timestamp.id)?;
        let waits = clock.histories > 0 || beginning;
        let line = clock.keys.get_mut(&sample.key)?;
        if live {
            self.fresh += usize::from(line.pass(timestamp.time, waits && room));
            return Some(sample);
        }
        if line.has(timestamp.time) {
            return None;
        }
        let cost = sample.cost();
        let fate = line.take(timestamp.time, sample.kept(), waits, true);
        self.settle_stamped(timestamp.id, fate, cost)
    }
}

impl Window {
    /// Whether repeated queries for missing samples were in vain: then no cache is expected.
    pub(super) fn is_fruitless(&self, now: Now) -> bool {
        now.mono < self.quiet_until
    }

    /// Counts an answered query for missing samples; a reply resets the count.
    pub(super) fn count_answer(&mut self, now: Now, fully: bool) {
        if self.replied {
            self.fruitless = 0;
        } else if fully {
            self.fruitless += 1;
        }
        self.replied = false;
        if self.fruitless >= MAX_FRUITLESS {
            self.fruitless = 0;
            self.quiet_until = now.mono + FRUITLESS_REST;
        }
    }
}

impl Line {
    fn know(&mut self, time: Ntp64) {
        self.last = self.last.max(Some(time));
        self.floor = self.last;
    }

    /// Records a delivered sample. Returns whether its time is stored for answers that contain it.
    fn pass(&mut self, time: Ntp64, remember: bool) -> bool {
        self.last = self.last.max(Some(time));
        if remember {
            return self.fresh.insert(time);
        }
        self.floor = self.last;
        false
    }

    /// Whether an answer contains a sample that was delivered already.
    fn has(&self, time: Ntp64) -> bool {
        self.floor.is_some_and(|floor| time <= floor) || self.fresh.contains(&time)
    }
}
