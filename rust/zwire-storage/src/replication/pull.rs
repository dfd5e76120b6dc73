//! [`Pull`]: the queries that fetch what a replica has and this storage lacks.
//!
//! Each level of the exchange is asked for in parts, the deepest first, and what does not fit into the bounds is left out
//! and found again by the next pull. So memory has a bound, whatever the other side answers.

use crate::{
    error::Result,
    place::Place,
    record::Flaw,
    replication::{
        answer::EVENTS,
        log::EventLog,
        wire::{Action, AlignQuery, AlignReply, Difference, EventMeta},
    },
    rules::{Mark, Update, Value},
    volume::Store,
};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zwire_proto::zenoh::{KeyExpr, Ntp64};

/// Most intervals, parts of intervals, and events that wait to be asked for.
const WAITING: usize = 65_536;

/// Most octets of events that wait to be asked for.
const WAITING_BYTES: usize = 16 << 20;

/// Most intervals of one query.
const INTERVALS: usize = 1024;

/// Most parts of intervals of one query, while they have few events.
const PARTS: usize = 64;

/// Most octets of the events of one query.
const EVENT_BYTES: usize = 256 << 10;

/// Verdict about an event of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Known, or replaced by what is known.
    Known,
    /// News about this key or key expression.
    News(KeyExpr),
    /// Too far ahead of the clock here.
    Ahead,
    /// No event of this storage.
    Strange(Flaw),
}

/// Storage that fetches events.
pub struct Sink<'a> {
    /// Events of the storage.
    pub log: &'a RwLock<EventLog>,
    /// Values of the storage.
    pub store: &'a dyn Store,
    /// Keys of the storage.
    pub place: &'a Place,
    /// Deletes and wildcard updates before that time are forgotten everywhere.
    pub oldest: Ntp64,
    /// Latest time of an event that is taken.
    pub latest: Ntp64,
}

impl Sink<'_> {
    fn judge(&self, event: &EventMeta) -> Result<Verdict> {
        if event.stamp.time > self.latest {
            return Ok(Verdict::Ahead);
        }
        let is_forgotten = event.stamp.time < self.oldest;
        let (is_put, text) = match &event.action {
            Action::Put => return self.judge_key(event, true),
            Action::Delete if is_forgotten => return Ok(Verdict::Known),
            Action::Delete => return self.judge_key(event, false),
            Action::WildcardPut(text) => (true, text),
            Action::WildcardDelete(text) => (false, text),
        };
        if is_forgotten || self.log.read().wildcard(is_put, text, event.stamp).is_some() {
            return Ok(Verdict::Known);
        }
        Ok(match KeyExpr::new(text.to_string()) {
            Ok(key) if key.is_wild() && key.intersects(self.place.key()) && *text == event.key => {
                Verdict::News(key)
            }
            _ => Verdict::Strange("its key expression is none of this storage"),
        })
    }

    fn judge_key(&self, event: &EventMeta, is_put: bool) -> Result<Verdict> {
        if self.log.read().has(&event.key, event.stamp) {
            return Ok(Verdict::Known);
        }
        let key = match self.place.restore(&event.key) {
            Ok(key) if !key.is_wild() && key.intersects(self.place.key()) => key,
            _ => return Ok(Verdict::Strange("its key is none of this storage")),
        };
        let own = own(event);
        let is_known = match self.store.mark(&event.key)? {
            None => false,
            Some(Mark::Gone(at)) => at >= own,
            Some(Mark::Live { put, stamp }) if is_put => put >= own && stamp >= event.stamp,
            Some(Mark::Live { put, .. }) => put > event.stamp,
        };
        Ok(if is_known { Verdict::Known } else { Verdict::News(key) })
    }
}

/// Time of the last update of the key itself; not later than the event.
fn own(event: &EventMeta) -> zwire_proto::zenoh::Timestamp {
    match event.action {
        Action::Put => event.own.map_or(event.stamp, |own| own.min(event.stamp)),
        _ => event.stamp,
    }
}

pub(super) fn weight(event: &EventMeta) -> usize {
    size_of::<EventMeta>() + 2 * event.key.len()
}

/// Part of a reply that is not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// Events that are no events of this storage.
    pub strange: u64,
    /// Events that are too far ahead of the clock.
    pub ahead: u64,
    /// Reason of the first strange one.
    pub flaw: Option<Flaw>,
}

/// Queries to one replica, and updates out of its replies.
#[derive(Debug, Default)]
pub struct Pull {
    first: Option<AlignQuery>,
    intervals: VecDeque<u64>,
    parts: VecDeque<(u64, u64)>,
    events: VecDeque<EventMeta>,
    bytes: usize,
    /// Parts of the next query; fewer if the last ones had many events.
    at_once: usize,
    /// Events of the replies to the last query.
    seen: usize,
    is_cut: bool,
    /// Events that were not taken.
    pub rejected: Rejected,
}

impl Pull {
    /// Fetches the events of what differs.
    #[must_use]
    pub fn new(difference: Difference) -> Self {
        let first = (!difference.is_empty()).then_some(AlignQuery::Diff(difference));
        Self { first, at_once: 1, ..Self::default() }
    }

    /// Whether something did not fit into the bounds, or was lost: the next pull finds it.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Notes that replies were lost.
    pub const fn cut(&mut self) {
        self.is_cut = true;
    }

    /// The next query; `None` at the end. Its replies come before the next call.
    pub fn next_query(&mut self) -> Option<AlignQuery> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if !self.events.is_empty() {
            let (mut events, mut bytes) = (Vec::new(), 0);
            while events.len() < EVENTS
                && bytes < EVENT_BYTES
                && let Some(event) = self.events.pop_front()
            {
                bytes += weight(&event);
                events.push(event);
            }
            self.bytes = self.bytes.saturating_sub(bytes);
            return Some(AlignQuery::Events(events));
        }
        if !self.parts.is_empty() {
            let seen = core::mem::take(&mut self.seen);
            self.at_once = if seen > WAITING / 4 { 1 } else { (self.at_once * 2).min(PARTS) };
            let mut parts: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
            for (interval, part) in self.parts.drain(..self.at_once.min(self.parts.len())) {
                parts.entry(interval).or_default().insert(part);
            }
            return Some(AlignQuery::SubIntervals(parts));
        }
        if self.intervals.is_empty() {
            return None;
        }
        Some(AlignQuery::Intervals(self.intervals.drain(..INTERVALS.min(self.intervals.len())).collect()))
    }

    /// Takes a reply, with the value that came beside it.
    ///
    /// # Errors
    /// Those of the volume.
    pub fn take(
        &mut self,
        reply: AlignReply,
        value: Value,
        sink: &Sink<'_>,
        apply: &mut dyn FnMut(Update) -> Result<()>,
    ) -> Result<()> {
        match reply {
            AlignReply::Discovery(_) => Ok(()),
            AlignReply::Intervals(sums) => {
                let log = sink.log.read();
                for interval in log.unlike_intervals(&sums) {
                    if self.intervals.len() < WAITING {
                        self.intervals.push_back(interval);
                    } else {
                        self.is_cut = true;
                    }
                }
                Ok(())
            }
            AlignReply::SubIntervals(sums) => {
                let log = sink.log.read();
                for (interval, parts) in &sums {
                    for part in log.unlike(*interval, parts) {
                        if self.parts.len() < WAITING {
                            self.parts.push_back((*interval, part));
                        } else {
                            self.is_cut = true;
                        }
                    }
                }
                Ok(())
            }
            AlignReply::EventsMetadata(events) => {
                self.seen += events.len();
                events.into_iter().try_for_each(|event| self.hear(event, sink, apply))
            }
            AlignReply::Retrieval(event, attachment) => {
                let value = Value { attachment, ..value };
                match sink.judge(&event)? {
                    Verdict::News(key) => apply(update(key, &event, value)),
                    verdict => {
                        self.reject(verdict);
                        Ok(())
                    }
                }
            }
        }
    }

    /// Applies a delete at once, and notes an event with a value.
    fn hear(
        &mut self,
        event: EventMeta,
        sink: &Sink<'_>,
        apply: &mut dyn FnMut(Update) -> Result<()>,
    ) -> Result<()> {
        let key = match sink.judge(&event)? {
            Verdict::News(key) => key,
            verdict => {
                self.reject(verdict);
                return Ok(());
            }
        };
        if matches!(event.action, Action::Delete | Action::WildcardDelete(_)) {
            return apply(update(key, &event, Value::default()));
        }
        if self.events.len() < WAITING && self.bytes < WAITING_BYTES {
            self.bytes += weight(&event);
            self.events.push_back(event);
        } else {
            self.is_cut = true;
        }
        Ok(())
    }

    fn reject(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Ahead => self.rejected.ahead += 1,
            Verdict::Strange(flaw) => {
                self.rejected.strange += 1;
                self.rejected.flaw.get_or_insert(flaw);
            }
            Verdict::Known | Verdict::News(_) => {}
        }
    }
}

/// Update that makes an event of a replica one of this storage.
fn update(key: KeyExpr, event: &EventMeta, value: Value) -> Update {
    let has_value = matches!(event.action, Action::Put | Action::WildcardPut(_));
    Update { key, stamp: own(event), value: has_value.then_some(value), shown: Some(event.stamp) }
}
