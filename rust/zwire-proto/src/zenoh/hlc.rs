//! The hybrid logical clock that makes timestamps (`zenoh-wire` 1.5, `zenoh-behaviour` 3.3).

use core::time::Duration;
use thiserror::Error;

use super::{Ntp64, Timestamp, ZenohId};
use crate::Now;

/// Default limit of a timestamp's lead over the wall clock, as in Eclipse Zenoh.
pub const MAX_DELTA: Duration = Duration::from_millis(500);

/// The low bits of the fraction, which hold a counter instead of time.
const COUNTER: u64 = 0xf;

/// Hybrid logical clock: its timestamps are unique, rise, and follow each timestamp passed to
/// [`Self::update`].
///
/// A timestamp is the time of the wall clock with the low four bits of the fraction (3.5 ns) cleared;
/// if that has not advanced, the last timestamp plus one.
#[derive(Clone, Debug)]
pub struct Hlc {
    id: ZenohId,
    max_delta: Ntp64,
    last: Ntp64,
}

impl Hlc {
    /// A clock that signs with `id`, by custom the id of the node.
    #[must_use]
    pub fn new(id: ZenohId) -> Self {
        Self::with_max_delta(id, MAX_DELTA)
    }

    /// A clock that accepts timestamps of other clocks up to `max_delta` ahead.
    #[must_use]
    pub fn with_max_delta(id: ZenohId, max_delta: Duration) -> Self {
        Self { id, max_delta: Ntp64::from_duration(max_delta).unwrap_or(Ntp64::MAX), last: Ntp64(0) }
    }

    /// Id in the timestamps.
    #[must_use]
    pub fn id(&self) -> ZenohId {
        self.id
    }

    /// A timestamp after every earlier one that this clock made or was updated with.
    pub fn new_timestamp(&mut self, now: Now) -> Timestamp {
        let physical = physical(now);
        self.last = if physical.0 > self.last.0 & !COUNTER { physical } else { next(self.last) };
        Timestamp { time: self.last, id: self.id }
    }

    /// Adopts the timestamp of another clock, so that the next one of this clock lies after it.
    ///
    /// # Errors
    /// A timestamp too far ahead, which is ignored: one wrong clock must not set all others.
    pub fn update(&mut self, timestamp: &Timestamp, now: Now) -> Result<(), FutureTimestamp> {
        let physical = physical(now);
        let ahead = timestamp.time.0.saturating_sub(physical.0);
        if ahead > self.max_delta.0 {
            let ahead = Ntp64(ahead).to_duration();
            return Err(FutureTimestamp { ahead, max_delta: self.max_delta.to_duration() });
        }
        self.last = self.last.max(timestamp.time);
        Ok(())
    }
}

/// The wall clock with the counter cleared. From February 2106 on it stands still.
fn physical(now: Now) -> Ntp64 {
    Ntp64(Ntp64::from_duration(now.wall).unwrap_or(Ntp64::MAX).0 & !COUNTER)
}

/// The counter may run into the bits above it; the order holds.
fn next(time: Ntp64) -> Ntp64 {
    Ntp64(time.0.saturating_add(1))
}

/// Error for a timestamp further ahead of the wall clock than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the timestamp is {ahead:?} ahead of this node's clock, {max_delta:?} are tolerated")]
pub struct FutureTimestamp {
    /// Lead of the timestamp.
    pub ahead: Duration,
    /// Allowed lead.
    pub max_delta: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(number: u128) -> ZenohId {
        ZenohId::new(number).unwrap()
    }

    fn wall(millis: u64) -> Now {
        Now { mono: Duration::ZERO, wall: Duration::from_millis(millis) }
    }

    fn at(millis: u64) -> Ntp64 {
        Ntp64::from_duration(Duration::from_millis(millis)).unwrap()
    }

    #[test]
    fn a_fresh_timestamp_is_the_wall_clock_with_a_cleared_counter() {
        let mut clock = Hlc::new(id(7));
        let stamp = clock.new_timestamp(wall(1_700_000_000_123));
        assert_eq!(stamp.id, id(7));
        assert_eq!(stamp.time.0, at(1_700_000_000_123).0 & !0xf);
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_is_counted_on() {
        let mut clock = Hlc::new(id(7));
        let first = clock.new_timestamp(wall(2_000));
        for count in 1..100 {
            // Beyond 15 the counter runs into the time.
            let back = wall(2_000 - count);
            assert_eq!(clock.new_timestamp(back).time.0, first.time.0 + count);
        }
        assert_eq!(clock.new_timestamp(wall(3_000)).time.0, at(3_000).0 & !0xf);
    }

    #[test]
    fn timestamps_follow_the_ones_shown() {
        let mut clock = Hlc::new(id(7));
        let other = Timestamp { time: Ntp64(at(1_400).0 | 3), id: id(9) };
        assert_eq!(clock.update(&other, wall(1_000)), Ok(()));
        assert_eq!(clock.new_timestamp(wall(1_000)).time.0, other.time.0 + 1);
        // A past timestamp changes nothing.
        assert_eq!(clock.update(&Timestamp { time: Ntp64(1), id: id(9) }, wall(1_000)), Ok(()));
        assert_eq!(clock.new_timestamp(wall(1_000)).time.0, other.time.0 + 2);
    }

    #[test]
    fn half_a_second_ahead_is_the_limit() {
        let mut clock = Hlc::new(id(7));
        let limit = Timestamp { time: Ntp64((at(1_000).0 & !0xf) + at(500).0), id: id(9) };
        assert_eq!(clock.update(&limit, wall(1_000)), Ok(()));
        let beyond = Timestamp { time: Ntp64(limit.time.0 + 5), id: id(9) };
        let error = clock.update(&beyond, wall(1_000)).unwrap_err();
        assert_eq!(error.max_delta, MAX_DELTA);
        assert!(error.ahead > MAX_DELTA);
        assert_eq!(clock.new_timestamp(wall(1_000)).time.0, limit.time.0 + 1);
        assert!(clock.update(&Timestamp { time: Ntp64::MAX, id: id(9) }, wall(0)).is_err());
    }

    #[test]
    fn the_end_of_time_does_not_panic() {
        let mut clock = Hlc::new(id(7));
        let late = Now { mono: Duration::ZERO, wall: Duration::MAX };
        assert_eq!(clock.update(&Timestamp { time: Ntp64::MAX, id: id(9) }, late), Ok(()));
        assert_eq!(clock.new_timestamp(late).time, Ntp64::MAX);
    }

    proptest! {
        #[test]
        fn unique_and_rising(steps in proptest::collection::vec((any::<bool>(), 0..2_000_u64, 0..3_000_u64), 1..200)) {
            let mut clock = Hlc::new(id(7));
            let mut last = Ntp64(0);
            for (show, now, other) in steps {
                let now = wall(now);
                if show {
                    let other = Timestamp { time: at(other), id: id(9) };
                    if clock.update(&other, now).is_ok() {
                        last = last.max(other.time);
                    }
                } else {
                    let stamp = clock.new_timestamp(now);
                    prop_assert!(stamp.time > last);
                    last = stamp.time;
                }
            }
        }
    }
}
