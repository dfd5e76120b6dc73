//! [`Groups`] of a node, and the part of a face in them.

use super::ids::FaceId;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// What a face has to do with groups.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InGroup {
    /// Of a member: its group.
    pub(super) group: Option<FaceId>,
    /// Of a link: its node is a member, too. Of a member: its node has a link, too.
    pub(super) twice: bool,
    /// Of a group: it has members who hear us only there.
    pub(super) wanted: bool,
}

/// The groups of a node, and when each is told everything again.
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
