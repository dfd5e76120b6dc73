//! [`Barriers`]: round trips under way.

use std::collections::{BTreeMap, HashMap};

use super::types::{Barrier, BarrierId};

/// All round trips under way.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    pub(super) pending: BTreeMap<BarrierId, Barrier>,
    /// From the ids of this link.
    pub(super) by_id: HashMap<u32, BarrierId>,
    pub(super) last: u64,
}
