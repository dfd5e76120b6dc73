//! What holds of a node whatever its faces do; tests and fuzzing ask.

use super::Node;
use crate::limits::{MAX_LINK_STATES, MAX_ROUTER_LINKS, MAX_ROUTERS};

impl Node {
    /// What faces cost stays within their limits.
    ///
    /// # Panics
    /// When it does not.
    pub(crate) fn check_bounds(&self) {
        let limits = &self.config.limits;
        for face in self.faces.values() {
            assert!(face.cost() <= limits.table_bytes);
            assert!(face.watches.len() <= limits.interests && face.queries.len() <= limits.queries);
            assert!(face.psids.len() <= MAX_LINK_STATES);
        }
        let (routers, links) = self.network.size();
        assert!(routers <= MAX_ROUTERS && links <= MAX_ROUTER_LINKS);
        assert!(self.network.table_bytes <= limits.network_bytes);
    }

    /// All faces are gone, and everything with them.
    ///
    /// # Panics
    /// When something is left.
    pub(crate) fn check_nothing_left(&self) {
        assert!(self.faces.is_empty());
        assert_eq!(self.tables.all().count(), 0);
        assert!(self.network.announced.iter().all(std::collections::BTreeMap::is_empty));
        assert_eq!((self.network.size(), self.network.table_bytes), ((1, 0), 0));
        assert_eq!(self.poll_timeout(), None);
    }
}
