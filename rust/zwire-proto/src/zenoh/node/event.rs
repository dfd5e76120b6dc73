//! What a node tells its driver.

use super::FaceId;
use crate::{
    Text,
    limits::MAX_LINK_STATES,
    zenoh::{WhatAmI, ZenohId},
};
use std::collections::{BTreeMap, BTreeSet};

/// Something that the driver may act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// Gossip told of a node and where it listens. It may be connected to already, or be ourselves under
    /// an address of ours: the driver decides what to do.
    Discovered {
        /// The node.
        zid: ZenohId,
        /// Its role.
        whatami: WhatAmI,
        /// Where it listens: at least one locator.
        locators: Vec<Text>,
    },
    /// The condition of start of a face is met (`zenoh-behaviour` 1.4): a peer has told all that it had
    /// to declare, a router has sent its first link state. Comes once per face, or not at all.
    Ready {
        /// The face.
        face: FaceId,
    },
}

/// Events that wait for the driver.
#[derive(Debug, Default)]
pub(super) struct Events {
    ready: BTreeSet<FaceId>,
    discovered: BTreeMap<ZenohId, (WhatAmI, Vec<Text>)>,
}

impl Events {
    pub(super) fn ready(&mut self, face: FaceId) {
        self.ready.insert(face);
    }

    pub(super) fn discovered(&mut self, zid: ZenohId, whatami: WhatAmI, locators: Vec<Text>) {
        if self.discovered.len() < MAX_LINK_STATES || self.discovered.contains_key(&zid) {
            self.discovered.insert(zid, (whatami, locators));
        }
    }

    /// A face is gone: nothing is to be told of it any more.
    pub(super) fn forget(&mut self, face: FaceId) {
        self.ready.remove(&face);
    }

    pub(super) fn pop(&mut self) -> Option<NodeEvent> {
        if let Some(face) = self.ready.pop_first() {
            return Some(NodeEvent::Ready { face });
        }
        let (zid, (whatami, locators)) = self.discovered.pop_first()?;
        Some(NodeEvent::Discovered { zid, whatami, locators })
    }
}
