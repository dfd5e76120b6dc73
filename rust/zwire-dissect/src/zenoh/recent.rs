//! [`Recent`]: the sequence numbers of the last datagrams, per channel.

use zwire_proto::zenoh::{Priority, Reliability};

/// The sequence numbers that one side has used last.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// By priority and reliability; most are never used.
    channels: Option<Box<[Window; 2 * Priority::COUNT]>>,
}

/// The highest number, and which of the 31 below it were seen: bit 0 is the highest.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    highest: u32,
    seen: u32,
}

impl Recent {
    /// Records a number; `false` if it was seen before.
    pub(crate) fn insert(&mut self, priority: Priority, reliability: Reliability, sn: u32) -> bool {
        let channels = self.channels.get_or_insert_default();
        channels[2 * priority as usize + reliability as usize].insert(sn)
    }
}

impl Window {
    fn insert(&mut self, sn: u32) -> bool {
        let (above, below) = (sn.wrapping_sub(self.highest), self.highest.wrapping_sub(sn));
        if below < u32::BITS {
            let bit = 1 << below;
            let new = self.seen & bit == 0;
            self.seen |= bit;
            return new;
        }
        // A number far away means another session, or that the numbers wrapped.
        self.seen = self.seen.checked_shl(above).unwrap_or(0) | 1;
        self.highest = sn;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_lately_is_known() {
        let mut window = Window::default();
        for sn in [0, 5, 3, 127, 0, 1, u32::MAX, 1 << 27] {
            assert!(window.insert(sn), "{sn}");
            assert!(!window.insert(sn), "{sn}");
        }
        let mut window = Window::default();
        for (sn, new) in [(100, true), (131, true), (100, false), (132, true), (100, true), (99, true)] {
            assert_eq!(window.insert(sn), new, "{sn}");
        }
    }

    #[test]
    fn channels_have_numbers_of_their_own() {
        let mut recent = Recent::default();
        for priority in [Priority::Data, Priority::RealTime] {
            for reliability in [Reliability::Reliable, Reliability::BestEffort] {
                assert!(recent.insert(priority, reliability, 7));
                assert!(!recent.insert(priority, reliability, 7));
            }
        }
    }
}
