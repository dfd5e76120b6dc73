//! [`AdvancedPublisher`]: numbers, a cache and heartbeats for the publications of one publisher.

use bytes::Bytes;
use core::time::Duration;

use super::{
    cache::{Answer, Cache},
    keys::{SampleSource, encode_heartbeat},
    limits::MIN_PERIOD,
};
use crate::{
    Now,
    zenoh::{
        Parameters,
        wire::{PushBody, SourceInfo},
    },
};

/// Ordering of the samples of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequencing {
    /// None.
    None,
    /// By timestamps, which the session must add.
    Timestamp,
    /// By numbers from 0, which wrap.
    Number,
}

/// Schedule of heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatMode {
    /// A heartbeat in each period.
    Periodic(Duration),
    /// A heartbeat at this delay after a publication, for all publications in between.
    Sporadic(Duration),
}

/// Configuration of a publisher.
#[derive(Clone, Copy, Debug)]
pub struct PublisherConfig {
    /// Node and entity number of the publisher.
    pub source: SampleSource,
    /// Ordering of its samples.
    pub sequencing: Sequencing,
    /// Number of samples in the cache; `None`: no cache.
    pub cache: Option<usize>,
    /// Schedule of heartbeats.
    pub heartbeat: Option<HeartbeatMode>,
}

/// The rules of one publisher; see the [module](super).
#[derive(Debug)]
pub struct AdvancedPublisher {
    config: PublisherConfig,
    /// The number of the next sample.
    next: u32,
    /// Whether a sample was published.
    begun: bool,
    cache: Option<Cache>,
    due: Option<Duration>,
}

impl AdvancedPublisher {
    /// A publisher without publications.
    #[must_use]
    pub fn new(config: PublisherConfig) -> Self {
        Self { config, next: 0, begun: false, cache: config.cache.map(Cache::new), due: None }
    }

    /// Sets the next number, as after earlier publications.
    #[cfg(test)]
    pub(super) const fn starting_at(mut self, next: u32) -> Self {
        self.next = next;
        self
    }

    /// Prepares a sample for publication, after the session has filled it in: numbers and stores it.
    /// Returns the sample displaced from the cache.
    pub fn publish(&mut self, now: Now, body: &mut PushBody) -> Option<PushBody> {
        if self.config.sequencing == Sequencing::Number {
            let SampleSource { zid, eid } = self.config.source;
            let info = Some(Box::new(SourceInfo { zid, eid, sn: self.next }));
            match body {
                PushBody::Put(put) => put.source_info = info,
                PushBody::Del(del) => del.source_info = info,
            }
            self.next = self.next.wrapping_add(1);
            self.begun = true;
            if let Some(HeartbeatMode::Periodic(period) | HeartbeatMode::Sporadic(period)) =
                self.config.heartbeat
            {
                self.due.get_or_insert_with(|| now.mono.saturating_add(period.max(MIN_PERIOD)));
            }
        }
        self.cache.as_mut()?.keep(body.clone())
    }

    /// Deadline of the next heartbeat.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Duration> {
        self.due
    }

    /// Returns the payload of the heartbeat if its deadline has passed.
    pub fn handle_timeout(&mut self, now: Now) -> Option<Bytes> {
        let due = self.due.filter(|&due| due <= now.mono)?;
        self.due = match self.config.heartbeat {
            // Missed periods are skipped.
            Some(HeartbeatMode::Periodic(period)) => {
                let period = period.max(MIN_PERIOD);
                let next = due.saturating_add(period);
                Some(if next > now.mono { next } else { now.mono.saturating_add(period) })
            }
            _ => None,
        };
        self.begun.then(|| encode_heartbeat(self.next.wrapping_sub(1)))
    }

    /// Begins to answer a query for earlier publications.
    #[must_use]
    pub fn answer(&self, parameters: &Parameters, wall: Duration) -> Option<Answer> {
        Some(self.cache.as_ref()?.answer(parameters, wall))
    }

    /// The next samples of an answer, at most `most`; an empty list ends it.
    pub fn next_of(&self, answer: &mut Answer, most: usize) -> Vec<PushBody> {
        self.cache.as_ref().map_or_else(Vec::new, |cache| cache.next(answer, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zenoh::{
        ZenohId,
        wire::{Del, Put},
    };

    fn publisher(sequencing: Sequencing, heartbeat: Option<HeartbeatMode>) -> AdvancedPublisher {
        let source = SampleSource { zid: ZenohId::new(0x1e).unwrap(), eid: 7 };
        AdvancedPublisher::new(PublisherConfig { source, sequencing, cache: Some(2), heartbeat })
    }

    fn at(ms: u64) -> Now {
        Now::at(Duration::from_millis(ms))
    }

    fn publish(publisher: &mut AdvancedPublisher, ms: u64, mut body: PushBody) -> Option<u32> {
        publisher.publish(at(ms), &mut body);
        match body {
            PushBody::Put(put) => put.source_info.map(|info| info.sn),
            PushBody::Del(del) => del.source_info.map(|info| info.sn),
        }
    }

    fn put() -> PushBody {
        PushBody::Put(Put::new("x"))
    }

    #[test]
    fn puts_and_deletes_are_numbered() {
        let mut publisher = publisher(Sequencing::Number, None);
        assert_eq!(publish(&mut publisher, 0, put()), Some(0));
        assert_eq!(publish(&mut publisher, 0, PushBody::Del(Del::default())), Some(1));
        publisher.next = u32::MAX;
        assert_eq!(publish(&mut publisher, 0, put()), Some(u32::MAX));
        assert_eq!(publish(&mut publisher, 0, put()), Some(0));
        assert_eq!(publisher.poll_timeout(), None);
        let mut answer = publisher.answer(&Parameters::new("_anyke"), Duration::ZERO).unwrap();
        assert_eq!(publisher.next_of(&mut answer, 9).len(), 2);
        assert!(publisher.next_of(&mut answer, 9).is_empty());
    }

    #[test]
    fn without_numbers_there_is_no_heartbeat() {
        for sequencing in [Sequencing::None, Sequencing::Timestamp] {
            let mut publisher =
                publisher(sequencing, Some(HeartbeatMode::Periodic(Duration::from_millis(10))));
            assert_eq!(publish(&mut publisher, 0, put()), None);
            assert_eq!(publisher.poll_timeout(), None);
        }
    }

    #[test]
    fn a_periodic_heartbeat_begins_with_the_first_sample() {
        let mut publisher =
            publisher(Sequencing::Number, Some(HeartbeatMode::Periodic(Duration::from_millis(10))));
        assert_eq!(publisher.poll_timeout(), None);
        publish(&mut publisher, 5, put());
        publish(&mut publisher, 7, put());
        assert_eq!(publisher.poll_timeout(), Some(at(15).mono));
        assert_eq!(publisher.handle_timeout(at(14)), None);
        assert_eq!(publisher.handle_timeout(at(16)), Some(encode_heartbeat(1)));
        assert_eq!(publisher.poll_timeout(), Some(at(25).mono));
        // Late, as on a machine that slept.
        assert_eq!(publisher.handle_timeout(at(99)), Some(encode_heartbeat(1)));
        assert_eq!(publisher.poll_timeout(), Some(at(109).mono));
    }

    #[test]
    fn a_sporadic_heartbeat_follows_samples() {
        let mut publisher =
            publisher(Sequencing::Number, Some(HeartbeatMode::Sporadic(Duration::from_millis(10))));
        publish(&mut publisher, 5, put());
        publish(&mut publisher, 14, put());
        assert_eq!(publisher.handle_timeout(at(15)), Some(encode_heartbeat(1)));
        assert_eq!(publisher.poll_timeout(), None);
        assert_eq!(publisher.handle_timeout(at(99)), None);
        publish(&mut publisher, 100, put());
        assert_eq!(publisher.handle_timeout(at(110)), Some(encode_heartbeat(2)));
    }
}
