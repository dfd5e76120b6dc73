//! Invariants of a node under any input, checked by tests and fuzzing.

use super::{Node, budget::Cost, face::Face};
use crate::limits::{MAX_LINK_STATES, MAX_ROUTER_LINKS, MAX_ROUTERS};
use std::collections::BTreeMap;

impl Node {
    /// Checks that the memory charged to faces stays within their limits.
    pub(crate) fn check_bounds(&self) {
        let limits = &self.config.limits;
        let mut used = Cost::default();
        self.faces.values().for_each(|face| used.add(face.account.used));
        self.work.accounts().for_each(|account| used.add(account.used));
        assert_eq!(used, self.budget.used);
        let sent = |face: &Face| face.announced.iter().map(BTreeMap::len).sum::<usize>();
        self.faces.values().for_each(|face| assert_eq!(face.account.announced, sent(face)));
        assert_eq!(self.budget.announced, self.faces.values().map(sent).sum::<usize>());
        // Shares exceed the bound by half; the session of this process has none.
        assert!(used.bytes <= limits.node_bytes * 3 / 2 + limits.table_bytes);
        for face in self.faces.values() {
            assert!(face.account.used.bytes <= limits.table_bytes);
            assert!(face.watches.len() <= limits.interests && face.queries.len() <= limits.queries);
            assert!(face.psids.len() <= MAX_LINK_STATES);
        }
        let (routers, links) = self.network.size();
        // Shares exceed the bounds, but not twice.
        assert!(routers <= 2 * MAX_ROUTERS && links <= 2 * MAX_ROUTER_LINKS + self.faces.len());
        assert!(self.network.claimed() <= MAX_ROUTER_LINKS);
        assert!(self.network.table_bytes <= limits.network_bytes);
    }

    /// Checks that no state is left after all faces are gone.
    pub(crate) fn check_nothing_left(&self) {
        assert!(self.faces.is_empty() && self.work.is_empty());
        assert_eq!((self.budget.used, self.budget.announced, self.budget.faces), (Cost::default(), 0, 0));
        assert_eq!(self.tables.all().count(), 0);
        assert!(self.network.announced.iter().all(std::collections::BTreeMap::is_empty));
        assert_eq!((self.network.size(), self.network.table_bytes), ((1, 0), 0));
        assert_eq!(self.network.claimed(), 0);
        assert_eq!(self.poll_timeout(), None);
    }
}
