//! [`Cache`]: the last publications of one publisher, and the answers to queries for them.

use core::time::Duration;
use std::collections::VecDeque;

use crate::zenoh::{
    Parameters, TimeRange,
    wire::{PushBody, SourceInfo},
};

/// The last publications of one publisher. Payloads are shared with the publications sent.
///
/// Places count all publications from 0, so that a place identifies a publication even after earlier
/// ones were dropped.
#[derive(Debug)]
pub struct Cache {
    most: usize,
    kept: VecDeque<PushBody>,
    /// Number of publications ever stored.
    count: u64,
}

/// State of an answer: the part not yet returned.
#[derive(Clone, Debug)]
pub struct Answer {
    next: u64,
    end: u64,
    time: Option<TimeRange<Duration>>,
}

impl Cache {
    /// A cache of the newest `most` publications.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, kept: VecDeque::new(), count: 0 }
    }

    /// Number of publications stored.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Stores a publication; returns the one that it displaces.
    pub fn keep(&mut self, body: PushBody) -> Option<PushBody> {
        self.count += 1;
        if self.most == 0 {
            return Some(body);
        }
        let out = if self.kept.len() >= self.most { self.kept.pop_front() } else { None };
        self.kept.push_back(body);
        out
    }

    /// The place of the oldest stored publication.
    fn first(&self) -> u64 {
        self.count - self.kept.len() as u64
    }

    fn at(&self, place: u64) -> Option<&PushBody> {
        let index = place.checked_sub(self.first())?;
        self.kept.get(usize::try_from(index).ok()?)
    }

    /// Begins to answer a query: `_sn=a..b` selects numbers, both included and both optional, `_time` a
    /// range of times, and `_max` the newest of those that fit both. An invalid value is ignored.
    #[must_use]
    pub fn answer(&self, parameters: &Parameters, wall: Duration) -> Answer {
        let mut answer = Answer {
            next: self.first(),
            end: self.count,
            time: parameters.time_range().ok().flatten().map(|range| range.resolve(wall)),
        };
        if let Some((from, to)) = parameters.get("_sn").and_then(numbers) {
            match self.numbered_places(from, to) {
                Some((next, end)) => (answer.next, answer.end) = (next, end),
                None => answer.end = answer.next,
            }
        }
        if let Some(most) = parameters.get("_max").and_then(|most| most.parse::<u64>().ok()) {
            answer.next = self.newest(&answer, most);
        }
        answer
    }

    /// The places of publications by their numbers, which wrap. `None` if the last one has no number.
    fn numbered_places(&self, from: Option<u32>, to: Option<u32>) -> Option<(u64, u64)> {
        let last = source_info(self.kept.back()?)?.sn;
        // Half of all numbers count as before the last one; numbers that cannot be stored may lie at
        // either end.
        let place = |number: u32| {
            let back = i64::from(last.wrapping_sub(number).cast_signed());
            (self.count - 1).saturating_add_signed(-back).min(self.count)
        };
        let next = from.map_or(self.first(), |from| place(from).max(self.first()));
        let end = to.map_or(self.count, |to| place(to).saturating_add(1).min(self.count));
        // The first number ahead of all gives the place behind the last.
        Some((next, end.max(next)))
    }

    /// Place at which the newest `most` begin.
    fn newest(&self, answer: &Answer, most: u64) -> u64 {
        let Some(time) = &answer.time else {
            return answer.next.max(answer.end.saturating_sub(most));
        };
        let mut left = most;
        let mut place = answer.end;
        while left > 0 && place > answer.next {
            place -= 1;
            left -= u64::from(self.at(place).is_some_and(|body| is_within(body, time)));
        }
        place
    }

    /// The next publications of an answer, at most `most`; an empty list ends it. Publications dropped
    /// from the cache meanwhile are left out.
    pub fn next(&self, answer: &mut Answer, most: usize) -> Vec<PushBody> {
        answer.next = answer.next.max(self.first());
        let mut taken = Vec::new();
        while taken.len() < most && answer.next < answer.end {
            let Some(body) = self.at(answer.next) else { break };
            answer.next += 1;
            if answer.time.as_ref().is_none_or(|time| is_within(body, time)) {
                taken.push(body.clone());
            }
        }
        taken
    }
}

fn is_within(body: &PushBody, time: &TimeRange<Duration>) -> bool {
    body.timestamp().is_some_and(|timestamp| time.contains_ntp64(timestamp.time))
}

fn source_info(body: &PushBody) -> Option<&SourceInfo> {
    match body {
        PushBody::Put(put) => put.source_info.as_deref(),
        PushBody::Del(del) => del.source_info.as_deref(),
    }
}

/// `a..b`, `a..`, `..b`, `..` or `a`.
fn numbers(text: &str) -> Option<(Option<u32>, Option<u32>)> {
    let number = |text: &str| match text {
        "" => Some(None),
        _ => text.parse().ok().map(Some),
    };
    match text.split_once("..") {
        Some((from, to)) => Some((number(from)?, number(to)?)),
        None => {
            let only = text.parse().ok()?;
            Some((Some(only), Some(only)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zenoh::{Ntp64, Timestamp, ZenohId, wire::Put};
    use bytes::Bytes;

    /// A cache with `count` publications from a number on, one a second.
    fn cache(most: usize, first: u32, count: u32) -> Cache {
        let zid = ZenohId::new(1).unwrap();
        let mut cache = Cache::new(most);
        for i in 0..count {
            let sn = first.wrapping_add(i);
            let time = Ntp64::from_duration(Duration::from_secs(u64::from(i))).unwrap();
            cache.keep(PushBody::Put(Put {
                source_info: Some(Box::new(SourceInfo { zid, eid: 1, sn })),
                timestamp: Some(Timestamp { time, id: zid }),
                ..Put::new(Bytes::new())
            }));
        }
        cache
    }

    fn ask(cache: &Cache, parameters: &str) -> Vec<u32> {
        let mut answer = cache.answer(&Parameters::new(parameters), Duration::from_secs(100));
        let mut all = Vec::new();
        loop {
            let some = cache.next(&mut answer, 3);
            if some.is_empty() {
                return all;
            }
            all.extend(some.iter().map(|body| source_info(body).unwrap().sn));
        }
    }

    #[test]
    fn questions_choose() {
        let cache = cache(10, 0, 15);
        for (parameters, expected) in [
            ("", 5..15),
            ("_anyke", 5..15),
            ("_max=3", 12..15),
            ("_max=0", 0..0),
            ("_max=99", 5..15),
            ("_sn=7..9", 7..10),
            ("_sn=9", 9..10),
            ("_sn=9..", 9..15),
            ("_sn=..6", 5..7),
            ("_sn=..", 5..15),
            ("_sn=..2", 0..0),
            ("_sn=3", 0..0),
            ("_sn=15", 0..0),
            ("_sn=15..", 0..0),
            ("_sn=14..99", 14..15),
            ("_sn=9..7", 0..0),
            ("_sn=0..12;_max=2", 11..13),
            ("_sn=x", 5..15),
            ("_sn=-3..", 5..15),
            ("_max=x", 5..15),
            ("_max=-1", 5..15),
            ("_time=bad", 5..15),
            ("_time=[1970-01-01T00:00:08Z..]", 8..15),
            ("_time=[1970-01-01T00:00:08Z..1970-01-01T00:00:10Z]", 8..11),
            ("_time=[..1970-01-01T00:00:10Z];_max=2", 9..11),
            ("_time=[now(-90s)..];_max=3", 12..15),
            ("_time=[now(-80s)..]", 0..0),
        ] {
            assert_eq!(ask(&cache, parameters), expected.collect::<Vec<_>>(), "{parameters}");
        }
    }

    #[test]
    fn numbers_wrap() {
        let cache = cache(4, u32::MAX - 2, 6);
        assert_eq!(ask(&cache, ""), [u32::MAX, 0, 1, 2]);
        assert_eq!(ask(&cache, "_sn=4294967295..0"), [u32::MAX, 0]);
        assert_eq!(ask(&cache, "_sn=4294967290..1"), [u32::MAX, 0, 1]);
        assert_eq!(ask(&cache, "_sn=1.."), [1, 2]);
        assert_eq!(ask(&cache, "_sn=3.."), [0_u32; 0]);
    }

    #[test]
    fn without_times_nothing_lies_in_a_time() {
        let mut cache = Cache::new(3);
        cache.keep(PushBody::Put(Put::new("x")));
        assert_eq!(cache.next(&mut cache.answer(&Parameters::new("_time=[..]"), Duration::ZERO), 9).len(), 0);
        assert_eq!(cache.next(&mut cache.answer(&Parameters::new("_sn=0.."), Duration::ZERO), 9).len(), 0);
        assert_eq!(cache.next(&mut cache.answer(&Parameters::new("_max=1"), Duration::ZERO), 9).len(), 1);
    }

    #[test]
    fn what_falls_out_meanwhile_is_left_out() {
        let mut cache = cache(4, 0, 4);
        let mut answer = cache.answer(&Parameters::default(), Duration::ZERO);
        assert_eq!(cache.next(&mut answer, 1).len(), 1);
        for _ in 0..2 {
            assert!(cache.keep(PushBody::Put(Put::new("x"))).is_some());
        }
        // 1 was dropped; later publications are no part of the answer.
        assert_eq!(cache.next(&mut answer, 9).len(), 2);
        assert!(cache.next(&mut answer, 9).is_empty());
        let mut none = Cache::new(0);
        assert!(none.keep(PushBody::Put(Put::new("x"))).is_some());
        assert!(none.is_empty());
        assert!(none.next(&mut none.answer(&Parameters::default(), Duration::ZERO), 9).is_empty());
    }
}
