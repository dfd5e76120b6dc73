//! Recent withdrawals of declarations by routers.
//!
//! While trees change, a declaration may reach a router on the old way and its end be sent on the new
//! one before that way exists: the router would never learn of the end. So the end is sent once more to
//! each neighbour that becomes a child in the tree soon after it.

use crate::zenoh::{KeyExpr, ZenohId, entity::EntityKind};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

/// Time for which a withdrawal is kept: much longer than trees take to settle.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Most memory, in bytes: that of the keys and this for each entry.
const BOUND: usize = 4 << 20;
const ENTRY: usize = 200;

type What = (EntityKind, KeyExpr);

#[derive(Debug, Default)]
pub(in super::super) struct Withdrawn {
    /// With the number of the latest withdrawal, because the queue may hold older ones.
    ends: BTreeMap<ZenohId, BTreeMap<What, u64>>,
    queue: VecDeque<(Duration, u64, ZenohId, What)>,
    next: u64,
    bytes: usize,
}

impl Withdrawn {
    /// Records a withdrawal. Returns whether it was not recorded already.
    pub(in super::super) fn insert(
        &mut self,
        now: Duration,
        zid: ZenohId,
        kind: EntityKind,
        key: &KeyExpr,
    ) -> bool {
        self.forget(now);
        self.next += 1;
        self.bytes += ENTRY + key.len();
        self.queue.push_back((now, self.next, zid, (kind, key.clone())));
        self.ends.entry(zid).or_default().insert((kind, key.clone()), self.next).is_none()
    }

    /// Drops old withdrawals, and the oldest above the bound.
    pub(super) fn forget(&mut self, now: Duration) {
        while let Some((at, number, zid, what)) = self.queue.front()
            && (at.saturating_add(REMEMBERED) < now || self.bytes > BOUND)
        {
            self.bytes -= ENTRY + what.1.len();
            if let Some(ends) = self.ends.get_mut(zid) {
                if ends.get(what) == Some(number) {
                    ends.remove(what);
                }
                if ends.is_empty() {
                    self.ends.remove(zid);
                }
            }
            self.queue.pop_front();
        }
    }

    /// Drops the withdrawal of a key that is declared again.
    pub(in super::super) fn remove(&mut self, zid: ZenohId, kind: EntityKind, key: &KeyExpr) {
        if let Some(ends) = self.ends.get_mut(&zid) {
            ends.remove(&(kind, key.clone()));
        }
    }

    pub(super) fn has(&self, zid: ZenohId) -> bool {
        self.ends.get(&zid).is_some_and(|ends| !ends.is_empty())
    }

    pub(in super::super) fn of(&self, zid: ZenohId) -> impl Iterator<Item = (EntityKind, &KeyExpr)> {
        self.ends.get(&zid).into_iter().flatten().map(|((kind, key), _)| (*kind, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_remembered_for_a_while_and_not_without_bound() {
        let (zid, key) = (ZenohId::new(7).unwrap(), |n: u32| KeyExpr::new(format!("a/{n}")).unwrap());
        let mut withdrawn = Withdrawn::default();
        let second = |n| Duration::from_secs(n);
        assert!(withdrawn.insert(second(0), zid, EntityKind::Token, &key(0)));
        assert!(!withdrawn.insert(second(5), zid, EntityKind::Token, &key(0)));
        withdrawn.insert(second(5), zid, EntityKind::Token, &key(1));
        withdrawn.remove(zid, EntityKind::Token, &key(1));
        assert_eq!(withdrawn.of(zid).count(), 1);
        withdrawn.forget(second(11));
        assert!(withdrawn.has(zid), "the second end counts");
        withdrawn.forget(second(16));
        assert!(!withdrawn.has(zid) && withdrawn.queue.is_empty() && withdrawn.bytes == 0);
        for n in 0..100_000 {
            withdrawn.insert(second(20), zid, EntityKind::Token, &key(n));
        }
        assert!(withdrawn.queue.len() * ENTRY <= BOUND + ENTRY);
        assert_eq!(withdrawn.of(zid).count(), withdrawn.queue.len());
    }
}
