//! Replies to the queries of a replica, in parts of bounded size.

use crate::{
    error::{Error, Result},
    replication::{
        log::EventLog,
        pull::weight,
        wire::{Action, AlignQuery, AlignReply, EventMeta, PartSums},
    },
    rules::{Mark, Value},
    volume::Store,
    wildcards::Wildcard,
};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use zwire_proto::zenoh::Timestamp;

/// Most events of one reply.
pub const EVENTS: usize = 512;

/// Octets of events at which a reply ends, far below [`MAX_MESSAGE`](super::wire::MAX_MESSAGE): a key may have 64 KiB.
const PAGE_BYTES: usize = 1 << 20;

/// Most fingerprints of one reply: 64 KiB.
const SUMS: usize = 4096;

/// Receiver of replies with their values.
pub type Give<'a> = dyn FnMut(AlignReply, Option<Value>) -> Result<()> + 'a;

/// Storage that answers a replica.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Events of the storage.
    pub log: &'a RwLock<EventLog>,
    /// Values of the storage.
    pub store: &'a dyn Store,
    /// Present interval.
    pub present: u64,
    /// Id of the session.
    pub zid: &'a str,
    /// Whether the replica still waits: asked before each step, also where the steps give no reply.
    pub goes_on: &'a dyn Fn() -> bool,
}

impl Source<'_> {
    /// Answers a query. No lock is held while a reply is given.
    ///
    /// # Errors
    /// Those of the volume, and of `give`; the answer did not go on.
    pub fn answer(&self, query: AlignQuery, give: &mut Give<'_>) -> Result<()> {
        match query {
            AlignQuery::Discovery => give(AlignReply::Discovery(self.zid.into()), None),
            AlignQuery::All => self.events(None, give, |event, give| self.retrieve(event, give)),
            AlignQuery::Diff(difference) => {
                if difference.cold {
                    self.cold(give)?;
                }
                self.parts(&difference.warm, give)?;
                self.metadata(&difference.hot, give)
            }
            AlignQuery::Intervals(intervals) => self.parts(&intervals, give),
            AlignQuery::SubIntervals(parts) => self.metadata(&parts, give),
            AlignQuery::Events(events) => events.into_iter().try_for_each(|event| {
                self.check()?;
                self.wanted(&event, give)
            }),
        }
    }

    fn check(&self) -> Result<()> {
        if (self.goes_on)() {
            return Ok(());
        }
        Err(Error::Usage("the answer to a replica took too long, or the storage ends"))
    }

    /// Fingerprints of the cold intervals.
    fn cold(&self, give: &mut Give<'_>) -> Result<()> {
        let mut from = 0;
        loop {
            self.check()?;
            let sums = self.log.read().cold_sums(self.present, from, SUMS);
            let Some((last, _)) = sums.last_key_value() else { return Ok(()) };
            from = last.saturating_add(1);
            give(AlignReply::Intervals(sums), None)?;
        }
    }

    /// Fingerprints of the parts of intervals.
    fn parts(&self, intervals: &BTreeSet<u64>, give: &mut Give<'_>) -> Result<()> {
        let (mut sums, mut count) = (PartSums::new(), 0);
        for interval in intervals {
            self.check()?;
            let parts = self.log.read().part_sums(*interval);
            count += parts.len();
            if !parts.is_empty() {
                sums.insert(*interval, parts);
            }
            if count >= SUMS {
                count = 0;
                give(AlignReply::SubIntervals(core::mem::take(&mut sums)), None)?;
            }
        }
        if sums.is_empty() { Ok(()) } else { give(AlignReply::SubIntervals(sums), None) }
    }

    /// Events of parts of intervals.
    fn metadata(&self, parts: &BTreeMap<u64, BTreeSet<u64>>, give: &mut Give<'_>) -> Result<()> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        for (interval, parts) in parts {
            for part in parts {
                self.check()?;
                // To look for events reads all of the interval.
                if !self.log.read().has_part((*interval, *part)) {
                    continue;
                }
                self.events(Some((*interval, *part)), give, |event, give| {
                    bytes += weight(&event);
                    page.push(event);
                    if page.len() < EVENTS && bytes < PAGE_BYTES {
                        return Ok(());
                    }
                    bytes = 0;
                    give(AlignReply::EventsMetadata(core::mem::take(&mut page)), None)
                })?;
            }
        }
        if page.is_empty() { Ok(()) } else { give(AlignReply::EventsMetadata(page), None) }
    }

    /// Passes on the events of a part of an interval, or all.
    fn events<'g>(
        &self,
        slot: Option<(u64, u64)>,
        give: &mut Give<'g>,
        mut each: impl FnMut(EventMeta, &mut Give<'g>) -> Result<()>,
    ) -> Result<()> {
        let wild = self.log.read().wild(slot);
        wild.iter().try_for_each(|wildcard| each(of_wildcard(wildcard), give))?;
        let mut after = None;
        loop {
            self.check()?;
            let page = self.log.read().events(slot, after.as_ref(), EVENTS);
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(EventLog::behind(last));
            for (stamp, key) in page {
                if let Some(event) = self.event(&key, stamp)? {
                    each(event, give)?;
                }
            }
        }
    }

    /// Event of a key; `None` if a later one has replaced it meanwhile, or if the volume no longer has it.
    fn event(&self, key: &str, stamp: Timestamp) -> Result<Option<EventMeta>> {
        let mark = self.store.mark(key)?.filter(|mark| mark.stamp() == stamp);
        if mark.is_none() {
            self.correct(key, stamp)?;
        }
        Ok(mark.map(|mark| {
            let (own, action) = match mark {
                Mark::Live { put, .. } => (put, Action::Put),
                Mark::Gone(at) => (at, Action::Delete),
            };
            EventMeta { key: key.into(), stamp, own: Some(own), action }
        }))
    }

    /// Removes an event that the volume does not have, because another program has changed its files: replicas would ask
    /// for it in each interval. The event that the volume has instead takes its place.
    fn correct(&self, key: &str, stamp: Timestamp) -> Result<()> {
        if !self.log.read().has(key, stamp) {
            return Ok(());
        }
        // The volume does not change while the log is locked.
        let mut log = self.log.write();
        let mark = self.store.mark(key)?;
        if mark.is_none_or(|mark| mark.stamp() != stamp) {
            log.drop_key(key, &Mark::Gone(stamp));
            mark.inspect(|mark| log.add(key, mark));
        }
        Ok(())
    }

    /// The value of an event that a replica has asked for, if it is still the last one of its key.
    fn wanted(&self, asked: &EventMeta, give: &mut Give<'_>) -> Result<()> {
        let is_put = match &asked.action {
            Action::Put | Action::Delete => {
                return match self.event(&asked.key, asked.stamp)? {
                    Some(event) => self.retrieve(event, give),
                    None => Ok(()),
                };
            }
            Action::WildcardPut(_) => true,
            Action::WildcardDelete(_) => false,
        };
        let known = self.log.read().wildcard(is_put, &asked.key, asked.stamp).cloned();
        known.map_or(Ok(()), |wildcard| send(of_wildcard(&wildcard), wildcard.value, give))
    }

    fn retrieve(&self, event: EventMeta, give: &mut Give<'_>) -> Result<()> {
        let value = match &event.action {
            Action::Put => match self.store.get(&event.key) {
                Ok(Some((stamp, value))) if stamp == event.stamp => Some(value),
                Ok(_) => return Ok(()),
                // The replica may have it from another one.
                Err(error @ Error::Damaged { .. }) => {
                    tracing::warn!(%error, "a replica does not get a damaged entry");
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
            Action::Delete | Action::WildcardDelete(_) => None,
            Action::WildcardPut(key) => {
                let known = self.log.read().wildcard(true, key, event.stamp).cloned();
                let Some(wildcard) = known else { return Ok(()) };
                wildcard.value
            }
        };
        send(event, value, give)
    }
}

fn send(event: EventMeta, value: Option<Value>, give: &mut Give<'_>) -> Result<()> {
    let attachment = value.as_ref().and_then(|value| value.attachment.clone());
    give(AlignReply::Retrieval(event, attachment), value)
}

fn of_wildcard(wildcard: &Wildcard) -> EventMeta {
    let key: Box<str> = wildcard.key.as_str().into();
    let action = match wildcard.value {
        Some(_) => Action::WildcardPut(key.clone()),
        None => Action::WildcardDelete(key.clone()),
    };
    EventMeta { key, stamp: wildcard.stamp, own: None, action }
}
