//! Expiry of publishers' state: after long silence, and, if there are too many, of the most silent.

use core::time::Duration;

use super::{limits::STATE_LIFE, subscriber::AdvancedSubscriber};
use crate::{Now, zenoh::ZenohId};

/// Shortest time between two sweeps for expired state.
const MIN_SWEEP: Duration = Duration::from_secs(60);

impl AdvancedSubscriber {
    /// Drops the state of publishers that were silent for long.
    pub(super) fn sweep(&mut self, now: Now) {
        let old = |used: Duration| used + STATE_LIFE <= now.mono;
        self.windows.retain(|_, window| !window.is_idle() || !old(window.used));
        self.clocks.retain(|_, clock| {
            if !clock.alive && clock.histories == 0 {
                clock.keys.retain(|_, line| !line.is_idle() || !old(line.used));
            }
            clock.alive || clock.histories > 0 || !clock.keys.is_empty()
        });
        self.lines = self.clocks.values().map(|clock| clock.keys.len()).sum();
        let windows = self.windows.values().filter(|window| window.is_idle()).map(|window| window.used);
        let lines = self.clocks.values().flat_map(|clock| clock.keys.values()).map(|line| line.used);
        let oldest = windows.chain(lines).min();
        self.next_sweep = match oldest {
            Some(used) => Some((used + STATE_LIFE).max(now.mono + MIN_SWEEP)),
            None if self.windows.is_empty() => None,
            None => Some(now.mono + STATE_LIFE),
        };
    }

    /// Makes room: drops a quarter of the windows, those silent for longest.
    pub(super) fn forget_windows(&mut self, now: Now) {
        let mut all: Vec<_> =
            self.windows.iter().map(|(&source, window)| (!window.is_idle(), window.used, source)).collect();
        all.sort_unstable();
        for &(_, _, source) in &all[..all.len().div_ceil(4)] {
            while self.give_up_first(source) {}
            if let Some(at) = self.windows.remove(&source).and_then(|window| window.retry_at) {
                self.retries.remove(&(at, source));
            }
        }
        // Open queries about dropped windows are dropped as well.
        let windows = &self.windows;
        self.asks.retain(|_, asked| asked.source().is_none_or(|source| windows.contains_key(&source)));
        self.next_sweep.get_or_insert(now.mono + STATE_LIFE);
    }

    /// Makes room: drops a quarter of the lines.
    pub(super) fn forget_lines(&mut self) {
        let clocks: Vec<ZenohId> = self.clocks.keys().copied().collect();
        for zid in clocks {
            self.release_clock(zid);
        }
        let mut used: Vec<_> =
            self.clocks.values().flat_map(|clock| clock.keys.values()).map(|line| line.used).collect();
        used.sort_unstable();
        // All lines of the limiting age are dropped.
        let Some(&limit) = used.get(used.len() / 4) else { return };
        for clock in self.clocks.values_mut() {
            clock.keys.retain(|_, line| line.used > limit);
        }
        self.clocks.retain(|_, clock| clock.alive || clock.histories > 0 || !clock.keys.is_empty());
        self.lines = self.clocks.values().map(|clock| clock.keys.len()).sum();
    }
}
