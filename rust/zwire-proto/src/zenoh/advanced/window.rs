//! [`Window`]: a subscriber's state of one publisher with numbers.

use core::time::Duration;
use std::collections::{BTreeMap, btree_map::Entry};

use super::types::AskId;
use crate::zenoh::session::Sample;

/// Place of the first number seen, with room for all before it. Places count like numbers, but never
/// wrap.
const BASE: u64 = 1 << 32;

#[derive(Debug, Default)]
pub(super) struct Window {
    /// A place near which the next numbers lie.
    near: Option<u64>,
    /// The place of the next sample to hand over; `None` until it is known where to begin.
    pub(super) next: Option<u64>,
    /// Place behind the last one announced by a heartbeat.
    pub(super) told: u64,
    /// Samples held back.
    held: BTreeMap<u64, Sample>,
    /// Repetitions of samples already held, in the mode that keeps everything.
    again: BTreeMap<(u64, u64), Sample>,
    /// Counter of repetitions, which keeps their order.
    times_again: u64,
    /// Unanswered queries for its history.
    pub(super) histories: u32,
    /// The open query for missing samples.
    pub(super) ask: Option<AskId>,
    /// Weighted number of queries in vain for the first missing samples; an answered one weighs more.
    pub(super) attempts: u32,
    /// Whether the open query has got a reply.
    pub(super) replied: bool,
    /// Number of consecutive empty answers.
    pub(super) fruitless: u32,
    /// Time until which missing samples are not queried because of empty answers.
    pub(super) quiet_until: Duration,
    /// Time of the next query for the missing samples.
    pub(super) retry_at: Option<Duration>,
    /// Time of its last message.
    pub(super) used: Duration,
    /// Whether its token is alive.
    pub(super) alive: bool,
    /// Whether its token was ever alive.
    pub(super) was_alive: bool,
    /// Whether its token vanished and reappeared, without a sample since.
    pub(super) back: bool,
}

impl Window {
    pub(super) fn new(now: Duration) -> Self {
        Self { used: now, ..Self::default() }
    }

    /// The place of a number: the one nearest to the window.
    pub(super) fn place(&mut self, sn: u32) -> u64 {
        let near = *self.next.as_ref().or(self.near.as_ref()).unwrap_or(&(BASE + u64::from(sn)));
        self.near = Some(near);
        #[allow(clippy::cast_possible_truncation, reason = "numbers are the low half of places")]
        let ahead = sn.wrapping_sub(near as u32).cast_signed();
        // A window begins at `BASE` and never moves back as far as that.
        near.saturating_add_signed(i64::from(ahead))
    }

    /// Holds back a sample, unless that place is taken; with `again` also then. Returns whether it did.
    pub(super) fn hold(&mut self, place: u64, sample: Sample, again: bool) -> bool {
        match self.held.entry(place) {
            Entry::Vacant(slot) => {
                slot.insert(sample);
                true
            }
            Entry::Occupied(_) => {
                if again {
                    self.times_again += 1;
                    self.again.insert((place, self.times_again), sample);
                }
                again
            }
        }
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn first_held(&self) -> Option<u64> {
        self.held.first_key_value().map(|(&place, _)| place)
    }

    /// The next sample, if it is held.
    pub(super) fn take_next(&mut self) -> Option<Sample> {
        let next = self.next?;
        if let Some(again) = self.again.first_entry().filter(|again| again.key().0 < next) {
            return Some(again.remove());
        }
        let first = self.held.first_entry().filter(|first| *first.key() == next)?;
        self.next = Some(next + 1);
        Some(first.remove())
    }

    /// Place behind the last missing one: before the last samples held, or the end of a heartbeat.
    /// `None` if no samples are missing.
    pub(super) fn missing_to(&self) -> Option<u64> {
        let next = self.next?;
        let Some((&last, _)) = self.held.last_key_value() else {
            return (self.told > next).then_some(self.told);
        };
        if self.told > last + 1 {
            return Some(self.told);
        }
        let mut first = last;
        for &place in self.held.keys().rev().skip(1) {
            if place + 1 != first {
                break;
            }
            first = place;
        }
        (first > next).then_some(first)
    }

    /// Place behind the first missing ones: the first sample held, or the end of a heartbeat.
    pub(super) fn first_missing_to(&self) -> Option<u64> {
        let next = self.next?;
        self.first_held().or_else(|| (self.told > next).then_some(self.told)).filter(|&to| to > next)
    }

    /// Whether the state may be dropped.
    pub(super) fn is_idle(&self) -> bool {
        let asks = self.histories > 0 || self.ask.is_some() || self.retry_at.is_some();
        !self.alive && !asks && self.held.is_empty()
    }
}
