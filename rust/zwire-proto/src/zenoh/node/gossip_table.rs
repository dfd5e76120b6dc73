//! [`GossipTable`]: nodes that a node has heard of.

use super::ids::FaceId;
use crate::{
    Text,
    limits::MAX_LINK_STATES,
    zenoh::{WhatAmI, ZenohId, wire::LinkState},
};
use std::collections::{BTreeMap, BTreeSet};

/// A node that gossip knows: our neighbours, and with `multihop` all nodes.
#[derive(Debug)]
pub(super) struct Known {
    /// Our number for it.
    pub(super) psid: u64,
    pub(super) sn: u64,
    whatami: WhatAmI,
    pub(super) locators: Vec<Text>,
    /// The faces behind which it is, or was heard of.
    faces: BTreeSet<FaceId>,
}

#[derive(Debug, Default)]
pub(super) struct GossipTable {
    pub(super) sn: u64,
    pub(super) known: BTreeMap<ZenohId, Known>,
    last_psid: u64,
}

impl GossipTable {
    /// Adds a node that `face` is, or that it told of. `None`: there are too many.
    pub(super) fn note(&mut self, zid: ZenohId, whatami: WhatAmI, face: FaceId) -> Option<&mut Known> {
        if self.known.len() >= MAX_LINK_STATES && !self.known.contains_key(&zid) {
            return None;
        }
        let last_psid = &mut self.last_psid;
        let known = self.known.entry(zid).or_insert_with(|| {
            // Numbers are never used twice. 0 is ourselves.
            *last_psid += 1;
            let (psid, locators, faces) = (*last_psid, Vec::new(), BTreeSet::new());
            Known { psid, sn: 0, whatami, locators, faces }
        });
        known.faces.insert(face);
        Some(known)
    }

    pub(super) fn forget(&mut self, face: FaceId) {
        self.known.retain(|_, known| {
            known.faces.remove(&face);
            !known.faces.is_empty()
        });
    }

    pub(super) fn record(&self, zid: ZenohId, locators: bool) -> Option<LinkState> {
        let known = self.known.get(&zid)?;
        Some(LinkState {
            psid: known.psid,
            sn: known.sn,
            zid: Some(zid),
            whatami: Some(known.whatami),
            locators: (locators && !known.locators.is_empty()).then(|| known.locators.clone()),
            gateway: known.whatami == WhatAmI::Router,
            ..LinkState::default()
        })
    }
}
