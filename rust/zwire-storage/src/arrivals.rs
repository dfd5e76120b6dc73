//! [`Arrivals`]: updates that came without a time, and the updates of the same link that come after them.
//!
//! A router gives a put without a timestamp its own time, and lets a delete without one pass as it is. The storage gives
//! that delete the time of its arrival, which is later than the time that the router gives to the put behind it. By
//! their stamps the put would be the older one, and lost. A link keeps the order of its messages, so that the order of
//! arrival decides where the stamps are near each other.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use zwire_proto::zenoh::{KeyExpr, Timestamp};

/// Most keys with an update whose time was made here: those of some seconds of a busy link. The oldest is forgotten.
const MAX_KEYS: usize = 4096;

/// Most key expressions with wildcards of such updates: each stamped update is compared with all of them.
const MAX_WILD: usize = 64;

/// Link of samples that this session itself has published.
const OWN: u32 = 0;

/// Update whose time was made here.
#[derive(Clone, Copy, Debug)]
struct Made {
    link: u32,
    stamp: Timestamp,
}

impl Made {
    /// Whether an update that comes now was sent after this one, although its stamp says otherwise.
    fn precedes(&self, link: u32, stamp: Timestamp, window: Duration) -> bool {
        let ahead = self.stamp.time.to_duration().saturating_sub(stamp.time.to_duration());
        self.link == link && self.stamp >= stamp && ahead <= window
    }
}

/// Updates whose times were made here.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    keys: HashMap<KeyExpr, Made>,
    order: VecDeque<KeyExpr>,
    wild: VecDeque<(KeyExpr, Made)>,
}

impl Arrivals {
    /// Whether an update with a stamp comes after one of the same key and the same link that got a later time here.
    /// Stamps that differ by more than `window` decide themselves.
    pub(crate) fn come_before(&self, key: &KeyExpr, link: u32, stamp: Timestamp, window: Duration) -> bool {
        let precedes = |made: &Made| made.precedes(link, stamp, window);
        self.keys.get(key).is_some_and(precedes)
            || self.wild.iter().any(|(wild, made)| precedes(made) && wild.intersects(key))
    }

    /// Notes an update whose time was made here. No router comes before those of this session itself.
    pub(crate) fn note(&mut self, key: &KeyExpr, link: u32, stamp: Timestamp) {
        if link == OWN {
            return;
        }
        let made = Made { link, stamp };
        if key.is_wild() {
            if self.wild.len() >= MAX_WILD {
                self.wild.pop_front();
            }
            self.wild.push_back((key.unshared(), made));
        } else if let Some(known) = self.keys.get_mut(key) {
            *known = made;
        } else {
            if self.order.len() >= MAX_KEYS
                && let Some(oldest) = self.order.pop_front()
            {
                self.keys.remove(&oldest);
            }
            let key = key.unshared();
            self.order.push_back(key.clone());
            self.keys.insert(key, made);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zwire_proto::zenoh::{Ntp64, ZenohId};

    fn at(ms: u64) -> Timestamp {
        let time = Ntp64::from_duration(Duration::from_millis(ms)).unwrap();
        Timestamp { time, id: ZenohId::new(1).unwrap() }
    }

    fn key(text: &str) -> KeyExpr {
        KeyExpr::new(text.to_owned()).unwrap()
    }

    const WINDOW: Duration = Duration::from_millis(500);

    #[test]
    fn the_order_of_a_link_decides_between_near_stamps() {
        let mut all = Arrivals::default();
        all.note(&key("a"), 1, at(1000));
        all.note(&key("fleet/**"), 1, at(1000));
        all.note(&key("own"), 0, at(1000));
        for (of, link, stamp, expected) in [
            ("a", 1, 999, true),
            ("a", 1, 500, true),
            ("a", 1, 499, false),
            ("a", 1, 1001, false),
            ("a", 2, 999, false),
            ("b", 1, 999, false),
            ("own", 0, 999, false),
            ("fleet/7", 1, 999, true),
            ("fleet/7", 2, 999, false),
        ] {
            assert_eq!(all.come_before(&key(of), link, at(stamp), WINDOW), expected, "{of} {link} {stamp}");
        }
    }

    #[test]
    fn few_are_remembered() {
        let mut all = Arrivals::default();
        for number in 0..5000 {
            all.note(&key(&format!("a/{number}")), 1, at(1000));
            all.note(&key(&format!("b/{number}/**")), 1, at(1000));
        }
        assert_eq!((all.keys.len(), all.order.len(), all.wild.len()), (MAX_KEYS, MAX_KEYS, MAX_WILD));
        assert!(!all.come_before(&key("a/0"), 1, at(999), WINDOW));
        assert!(all.come_before(&key("a/4999"), 1, at(999), WINDOW));
    }
}
