//! [`Pace`]: bounds how much data of a link may be ahead of more urgent messages.
//!
//! Priorities apply between the lanes of a link. Data taken out of the lanes, waiting for the socket or
//! in its buffer, leaves in FIFO order: behind megabytes in the buffer of the kernel a message of the
//! highest priority waits for all of them, on a slow link for more than a second. On a fast link, little
//! room means that the sender is woken for every few batches. So the room follows the measured rate: the
//! bytes that the link carries in [`AHEAD`].

use core::time::Duration;

/// Longest queueing delay of unsent data, unless the least room takes longer.
const AHEAD: Duration = Duration::from_millis(2);

/// Below this rate a link is slow: the next batch is taken when the kernel has sent all of the one
/// before, so that an urgent message waits for one batch at most. Waking a task takes 0.1 ms, in which
/// such a link carries less than a kilobyte.
const SLOW: u32 = 16 * 1024;

/// Room of a slow link. With this the kernel reports room only when nothing is unsent.
const NONE: u32 = 2;

/// Largest room in bytes: a link that carries it in 2 ms is not slow, and seldom wakes the sender.
const MOST: u32 = 1 << 20;

/// Room of a link with unknown rate.
const START: u32 = 128 * 1024;

/// Shortest time over which a rate is measured; in less, the kernel only fills its buffers.
const WINDOW: Duration = Duration::from_millis(20);

/// Rate of one link, measured only while its socket is full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    room: u32,
    /// Time since which the socket is full, and the bytes that it has taken since.
    window: Option<(Duration, u64)>,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self { room: START, window: None }
    }

    /// Bytes that may wait unsent in the kernel.
    pub(crate) const fn room(&self) -> u32 {
        self.room
    }

    /// Whether the next batch waits until the kernel has sent everything.
    pub(crate) const fn is_slow(&self) -> bool {
        self.room == NONE
    }

    /// Bytes to take out of the lanes at once, about as much as may wait behind them; at least one batch.
    pub(crate) const fn chunk(&self, most: usize) -> usize {
        let room = self.room as usize;
        if room < most { room } else { most }
    }

    /// Records that the socket has taken `bytes` and, if `full`, no more; returns a new room worth setting.
    pub(crate) fn wrote(&mut self, now: Duration, bytes: usize, full: bool) -> Option<u32> {
        let Some((since, taken)) = &mut self.window else {
            if full {
                self.window = Some((now, 0));
            }
            return None;
        };
        *taken += bytes as u64;
        let (elapsed, taken) = (now.saturating_sub(*since), *taken);
        if elapsed < WINDOW {
            return None;
        }
        self.window = full.then_some((now, 0));
        let room = u128::from(taken) * AHEAD.as_micros() / elapsed.as_micros().max(1);
        let room = u32::try_from(room).unwrap_or(MOST).min(MOST);
        let room = if room < SLOW { NONE } else { room };
        let moved = room > self.room.saturating_mul(2) || room < self.room / 2;
        if !moved {
            return None;
        }
        self.room = room;
        Some(room)
    }

    /// Records that nothing is left to write: until the socket is full again, the rate is that of the sender.
    pub(crate) const fn idle(&mut self) {
        self.window = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A socket that takes `rate` bytes per millisecond, always full.
    fn run(pace: &mut Pace, from: u32, millis: u32, rate: usize) -> Vec<u32> {
        (from..from + millis).filter_map(|ms| pace.wrote(ms * MS, rate, true)).collect()
    }

    #[test]
    fn a_slow_link_gets_no_room_and_a_fast_one_the_most() {
        let mut pace = Pace::new();
        assert_eq!(run(&mut pace, 0, 100, 2_500), [NONE], "20 Mbit/s");
        assert_eq!((pace.room(), pace.chunk(262_144)), (NONE, NONE as usize));
        assert_eq!(run(&mut pace, 100, 100, 5_000_000).last(), Some(&MOST), "40 Gbit/s");
        assert_eq!(pace.chunk(262_144), 262_144);
    }

    #[test]
    fn the_room_is_what_the_link_carries_in_two_milliseconds() {
        let mut pace = Pace::new();
        assert!(run(&mut pace, 0, 100, 125_000).is_empty(), "1 Gbit/s: near enough to the start");
        let told = run(&mut pace, 100, 100, 12_500);
        assert_eq!(told, [25_000], "100 Mbit/s");
    }

    #[test]
    fn an_idle_link_is_not_a_slow_one() {
        let mut pace = Pace::new();
        for ms in 0..1_000 {
            assert_eq!(pace.wrote(ms * MS, 100, false), None);
        }
        // Full for a moment, then idle for long.
        pace.wrote(1_000 * MS, 100_000, true);
        assert_eq!(pace.wrote(1_001 * MS, 100_000, false), None);
        pace.idle();
        assert_eq!(pace.wrote(2_000 * MS, 100, true), None);
        assert_eq!(pace.room(), START);
    }
}
