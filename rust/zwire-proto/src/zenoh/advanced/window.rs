//! [`Window`]: what a subscriber knows of one publisher that numbers.

use core::time::Duration;
use std::collections::{BTreeMap, btree_map::Entry};

use super::types::AskId;
use crate::zenoh::session::Sample;

/// Places count as numbers do, but never wrap. The first number that is seen gets a place that leaves room
/// for all before it.
const BASE: u64 = 1 << 32;

/// One publisher.
#[derive(Debug)]
pub(super) struct Window {
    /// A place near which the next numbers lie.
    near: Option<u64>,
    /// The place of the next sample to hand over; `None` until it is known where to begin.
    pub(super) next: Option<u64>,
    /// Behind the last place that a heartbeat has told of.
    pub(super) told: u64,
    /// Samples that wait for others.
    held: BTreeMap<u64, Sample>,
    /// Samples with places that are held already, for who keeps everything.
    again: BTreeMap<(u64, u64), Sample>,
    /// How many of them there were: what keeps their order.
    times_again: u64,
    /// Questions for its history that are not answered.
    pub(super) histories: u32,
    /// The question for what is missing that is not answered.
    pub(super) ask: Option<AskId>,
    /// How often what is missing first was asked for in vain; an answer counts more than none.
    pub(super) attempts: u32,
    /// Whether the question under way has got a reply.
    pub(super) replied: bool,
    /// How many answers had nothing in them, one after the other.
    pub(super) fruitless: u32,
    /// Until when it is not asked again because of that.
    pub(super) quiet_until: Duration,
    /// When it is asked for again.
    pub(super) retry_at: Option<Duration>,
    /// When it was heard of last.
    pub(super) used: Duration,
    /// Whether its token is there.
    pub(super) alive: bool,
    /// Whether its token was there at some time.
    pub(super) was_alive: bool,
    /// Its token was gone and is there again; no sample has come since.
    pub(super) back: bool,
}

impl Window {
    pub(super) const fn new(now: Duration) -> Self {
        Self {
            near: None,
            next: None,
            told: 0,
            held: BTreeMap::new(),
            again: BTreeMap::new(),
            times_again: 0,
            histories: 0,
            ask: None,
            attempts: 0,
            replied: false,
            fruitless: 0,
            quiet_until: Duration::ZERO,
            retry_at: None,
            used: now,
            alive: false,
            was_alive: false,
            back: false,
        }
    }

    /// The place of a number: the one nearest to where the window is.
    pub(super) fn place(&mut self, sn: u32) -> u64 {
        let near = *self.next.as_ref().or(self.near.as_ref()).unwrap_or(&(BASE + u64::from(sn)));
        self.near = Some(near);
        #[allow(clippy::cast_possible_truncation, reason = "numbers are the low half of places")]
        let ahead = sn.wrapping_sub(near as u32).cast_signed();
        // A window begins at `BASE` and never goes back by as much.
        near.saturating_add_signed(i64::from(ahead))
    }

    /// Keeps a sample for later, unless it is there already; with `again` also then. Whether it did.
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

    /// The first place that is held.
    pub(super) fn first_held(&self) -> Option<u64> {
        self.held.first_key_value().map(|(&place, _)| place)
    }

    /// The next sample, if it is there.
    pub(super) fn take_next(&mut self) -> Option<Sample> {
        let next = self.next?;
        if let Some(again) = self.again.first_entry().filter(|again| again.key().0 < next) {
            return Some(again.remove());
        }
        let first = self.held.first_entry().filter(|first| *first.key() == next)?;
        self.next = Some(next + 1);
        Some(first.remove())
    }

    /// Behind the last place that is missing: before the last samples held, or where a heartbeat ends. `None`
    /// if nothing is missing.
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

    /// Where the first missing ones end: before the first sample held, or where a heartbeat ends.
    pub(super) fn first_missing_to(&self) -> Option<u64> {
        let next = self.next?;
        self.first_held().or_else(|| (self.told > next).then_some(self.told)).filter(|&to| to > next)
    }

    /// Whether it may be forgotten.
    pub(super) fn is_idle(&self) -> bool {
        let asks = self.histories > 0 || self.ask.is_some() || self.retry_at.is_some();
        !self.alive && !asks && self.held.is_empty()
    }
}
