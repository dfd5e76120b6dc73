//! Interests, queries and repeated declarations that wait for other faces or for a deadline.

use super::ids::FaceId;
use crate::zenoh::Qos;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Asking face, and the id of its interest.
pub(super) type WaitingAsker = (FaceId, u32);

#[derive(Debug, Default)]
pub(super) struct WaitingRoom {
    waiting: BTreeMap<WaitingAsker, (BTreeSet<FaceId>, Duration)>,
    deadlines: BTreeSet<(Duration, WaitingAsker)>,
}

impl WaitingRoom {
    /// Number of waiting interests of `face`, counted up to `bound`.
    pub(super) fn count(&self, face: FaceId, bound: usize) -> usize {
        self.waiting.range((face, 0)..=(face, u32::MAX)).take(bound).count()
    }

    /// `asker` waits for all of `on`, until `deadline`.
    pub(super) fn insert(&mut self, asker: WaitingAsker, on: BTreeSet<FaceId>, deadline: Duration) {
        self.remove(asker);
        self.deadlines.insert((deadline, asker));
        self.waiting.insert(asker, (on, deadline));
    }

    pub(super) fn remove(&mut self, asker: WaitingAsker) {
        if let Some((_, deadline)) = self.waiting.remove(&asker) {
            self.deadlines.remove(&(deadline, asker));
        }
    }

    pub(super) fn remove_all(&mut self, face: FaceId) {
        let own: Vec<WaitingAsker> =
            self.waiting.range((face, 0)..=(face, u32::MAX)).map(|(asker, _)| *asker).collect();
        own.into_iter().for_each(|asker| self.remove(asker));
    }

    /// `of` has answered `asker`. Returns whether that was the last one, and the wait is over.
    pub(super) fn answered(&mut self, asker: WaitingAsker, of: FaceId) -> bool {
        let over = self.waiting.get_mut(&asker).is_some_and(|(on, _)| on.remove(&of) && on.is_empty());
        if over {
            self.remove(asker);
        }
        over
    }

    /// `of` has answered all, or is gone. Returns the interests that need not wait any longer.
    pub(super) fn answered_all(&mut self, of: FaceId) -> Vec<WaitingAsker> {
        let askers: Vec<WaitingAsker> = self.waiting.keys().copied().collect();
        askers.into_iter().filter(|asker| self.answered(*asker, of)).collect()
    }

    /// The next wait with an expired deadline.
    pub(super) fn expire(&mut self, now: Duration) -> Option<WaitingAsker> {
        let (deadline, asker) = *self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        self.remove(asker);
        Some(asker)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

/// A request that still has branches.
#[derive(Debug)]
pub(super) struct RoutedQuery {
    pub(super) source: FaceId,
    pub(super) rid: u32,
    pub(super) qos: Qos,
    /// Replies that may still be forwarded, if the querier limits them.
    pub(super) budget: Option<u32>,
    pub(super) branches: BTreeSet<(FaceId, u32)>,
}

#[derive(Debug, Default)]
pub(super) struct RoutedQueries {
    pub(super) next: u64,
    pub(super) open: BTreeMap<u64, RoutedQuery>,
    pub(super) deadlines: BTreeSet<(Duration, FaceId, u32)>,
}

impl RoutedQueries {
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _, _)| *deadline)
    }
}

/// The multicast groups of a node, and the times at which the declarations to each are repeated.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) groups: BTreeSet<FaceId>,
    pub(super) retell: BTreeMap<FaceId, Duration>,
}

impl Groups {
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.retell.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_wait_ends_with_the_last_answer_or_with_its_time() {
        let mut room = WaitingRoom::default();
        let on = || BTreeSet::from([FaceId(8), FaceId(9)]);
        room.insert((FaceId(1), 5), on(), 2 * MS);
        room.insert((FaceId(1), 6), on(), MS);
        room.insert((FaceId(2), 5), on(), 3 * MS);
        assert_eq!((room.count(FaceId(1), 10), room.count(FaceId(1), 1)), (2, 1));
        assert_eq!(room.next_deadline(), Some(MS));
        assert!(!room.answered((FaceId(1), 5), FaceId(8)));
        assert!(!room.answered((FaceId(1), 5), FaceId(8)));
        assert_eq!(room.answered_all(FaceId(9)), [(FaceId(1), 5)]);
        assert_eq!(room.expire(MS), Some((FaceId(1), 6)));
        assert_eq!(room.expire(MS), None);
        room.remove_all(FaceId(2));
        assert_eq!((room.next_deadline(), room.waiting.len()), (None, 0));
    }
}
