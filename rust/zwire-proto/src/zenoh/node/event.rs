//! Events of a node for its driver.

use super::ids::FaceId;
use crate::{
    Text,
    limits::MAX_LINK_STATES,
    zenoh::{WhatAmI, ZenohId},
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Interval between two reports of the same clock.
const CLOCK_PERIOD: Duration = Duration::from_secs(60);
/// Most clocks for which the interval is tracked.
const MAX_CLOCKS: usize = 1024;

/// Event for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// Gossip reported a node and its locators. The node may already be connected, or be this node
    /// under one of its addresses: the driver decides whether to connect.
    Discovered {
        /// Face over which the report came.
        from: FaceId,
        /// The node.
        zid: ZenohId,
        /// Its role.
        whatami: WhatAmI,
        /// Locators of the node: at least one.
        locators: Vec<Text>,
    },
    /// Timestamps of a clock lie too far in the future. Reported at most once per clock and minute.
    ClockAhead {
        /// Id of the clock's node.
        clock: ZenohId,
        /// Face over which they came.
        face: FaceId,
        /// Lead over the local clock.
        ahead: Duration,
        /// Whether the messages are dropped instead of stamped anew.
        dropped: bool,
    },
    /// The start condition of a face is met (`zenoh-behaviour` 1.4): a peer has sent all its
    /// declarations, a router its first link state. Raised once per face, or not at all.
    Ready {
        /// The face.
        face: FaceId,
    },
}

#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) ready: BTreeSet<FaceId>,
    discovered: BTreeMap<ZenohId, (FaceId, WhatAmI, Vec<Text>)>,
    ahead: Vec<NodeEvent>,
    /// Time of the last report of each clock.
    spoken_of: BTreeMap<ZenohId, Duration>,
}

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.discovered.is_empty() && self.ahead.is_empty()
    }

    pub(super) fn discovered(&mut self, from: FaceId, zid: ZenohId, whatami: WhatAmI, locators: Vec<Text>) {
        if self.discovered.len() < MAX_LINK_STATES || self.discovered.contains_key(&zid) {
            self.discovered.insert(zid, (from, whatami, locators));
        }
    }

    #[cold]
    pub(super) fn clock_ahead(&mut self, now: Duration, clock: ZenohId, event: NodeEvent) {
        if self.spoken_of.get(&clock).is_some_and(|last| now.saturating_sub(*last) < CLOCK_PERIOD) {
            return;
        }
        if self.spoken_of.len() >= MAX_CLOCKS {
            self.spoken_of.retain(|_, last| now.saturating_sub(*last) < CLOCK_PERIOD);
        }
        // A sender that makes up clocks causes a bounded number of reports.
        if self.spoken_of.len() < MAX_CLOCKS {
            self.spoken_of.insert(clock, now);
            self.ahead.push(event);
        }
    }

    pub(super) fn pop(&mut self) -> Option<NodeEvent> {
        if let Some(face) = self.ready.pop_first() {
            return Some(NodeEvent::Ready { face });
        }
        if let Some(event) = self.ahead.pop() {
            return Some(event);
        }
        let (zid, (from, whatami, locators)) = self.discovered.pop_first()?;
        Some(NodeEvent::Discovered { from, zid, whatami, locators })
    }
}
