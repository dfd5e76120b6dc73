//! What a node tells its driver.

use super::FaceId;
use crate::{
    Text,
    limits::MAX_LINK_STATES,
    zenoh::{WhatAmI, ZenohId},
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// How often one clock is spoken of.
const CLOCK_PERIOD: Duration = Duration::from_secs(60);
/// Most clocks that are told apart for that.
const MAX_CLOCKS: usize = 1024;

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
    /// Timestamps of a clock lie too far in the future. Comes at most once per clock and minute.
    ClockAhead {
        /// Whose clock it is.
        clock: ZenohId,
        /// Over which face they came.
        face: FaceId,
        /// How far it is ahead.
        ahead: Duration,
        /// They are dropped, not stamped anew.
        dropped: bool,
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
    ahead: Vec<NodeEvent>,
    /// When each clock was last spoken of.
    spoken_of: BTreeMap<ZenohId, Duration>,
}

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.discovered.is_empty() && self.ahead.is_empty()
    }

    pub(super) fn ready(&mut self, face: FaceId) {
        self.ready.insert(face);
    }

    pub(super) fn discovered(&mut self, zid: ZenohId, whatami: WhatAmI, locators: Vec<Text>) {
        if self.discovered.len() < MAX_LINK_STATES || self.discovered.contains_key(&zid) {
            self.discovered.insert(zid, (whatami, locators));
        }
    }

    /// A clock is too far ahead.
    #[cold]
    pub(super) fn clock_ahead(&mut self, now: Duration, clock: ZenohId, event: NodeEvent) {
        if self.spoken_of.get(&clock).is_some_and(|last| now.saturating_sub(*last) < CLOCK_PERIOD) {
            return;
        }
        if self.spoken_of.len() >= MAX_CLOCKS {
            self.spoken_of.retain(|_, last| now.saturating_sub(*last) < CLOCK_PERIOD);
        }
        // Whoever makes up clocks is heard so often and not more.
        if self.spoken_of.len() < MAX_CLOCKS {
            self.spoken_of.insert(clock, now);
            self.ahead.push(event);
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
        if let Some(event) = self.ahead.pop() {
            return Some(event);
        }
        let (zid, (whatami, locators)) = self.discovered.pop_first()?;
        Some(NodeEvent::Discovered { zid, whatami, locators })
    }
}
