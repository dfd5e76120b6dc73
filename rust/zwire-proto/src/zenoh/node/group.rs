//! Multicast groups (`zenoh-behaviour` 2.13): one face for everything sent to the group, and one face
//! for the messages of each member.
//!
//! A group cannot be asked for the interests of its members, and they do not repeat declarations to new
//! ones. So all data goes to it, as if it had subscribed to everything, and the declarations of this
//! node are sent again when a member joins. Queries are not sent: their replies have no way back.
//!
//! A node with a link beside the group gets everything over the link. Its messages in the group are
//! then ignored, and a group is sent nothing if all its known members have links. A group without known
//! members is sent all data, as the reference does: members hear a JOIN before they send their own.

use super::{
    FaceId, Node,
    face::{Face, Region},
};
use crate::{
    Now,
    zenoh::{
        entity::EntityKind,
        wire::{QueryableInfo, WireExpr},
    },
};
use core::time::Duration;
use std::collections::BTreeSet;

/// Delay after a join before all declarations are sent to the group again: members that join together,
/// or a flood of them, cause one repetition.
const RETELL_AFTER: Duration = Duration::from_millis(100);

impl Node {
    /// Handles a new face: a group, a member of one, or a link that changes which nodes need the group.
    pub(super) fn join_groups(&mut self, now: Now, id: FaceId) {
        let Some(face) = self.faces.get(&id) else { return };
        match (face.region, face.in_group.group) {
            (Region::Group, _) => drop(self.groups.groups.insert(id)),
            (Region::Members, Some(group)) => {
                self.groups.retell.entry(group).or_insert(now.mono.saturating_add(RETELL_AFTER));
            }
            _ => {}
        }
        self.sort_groups();
    }

    pub(super) fn leave_groups(&mut self, id: FaceId) {
        self.groups.groups.remove(&id);
        self.groups.retell.remove(&id);
        self.sort_groups();
    }

    /// Determines which nodes are reached only through which group.
    fn sort_groups(&mut self) {
        if self.groups.groups.is_empty() {
            return;
        }
        let zids = |wanted: fn(&Face) -> bool| -> BTreeSet<_> {
            self.faces.values().filter(|face| wanted(face)).map(|face| face.remote.zid).collect()
        };
        let members = zids(|face| face.region == Region::Members);
        let linked = zids(|face| !matches!(face.region, Region::Members | Region::Group));
        let (mut wanted, mut peopled) = (BTreeSet::new(), BTreeSet::new());
        let mut moved = Vec::new();
        for (id, face) in &mut self.faces {
            let zid = face.remote.zid;
            match face.region {
                Region::Members => {
                    face.in_group.twice = linked.contains(&zid);
                    peopled.extend(face.in_group.group);
                    wanted.extend(face.in_group.group.filter(|_| !linked.contains(&zid)));
                }
                Region::Group => {}
                _ => {
                    let twice = members.contains(&zid);
                    if core::mem::replace(&mut face.in_group.twice, twice) != twice {
                        moved.push(*id);
                    }
                }
            }
        }
        self.version += 1;
        for group in self.groups.groups.clone() {
            for link in &moved {
                self.relation_changed(*link, group);
                self.relation_changed(group, *link);
            }
            let Some(face) = self.faces.get_mut(&group) else { continue };
            face.in_group.peopled = peopled.contains(&group);
            let now = wanted.contains(&group);
            if core::mem::replace(&mut face.in_group.wanted, now) == now {
                continue;
            }
            if now {
                // The budget of the group's face suffices for one key.
                let key = WireExpr::full("**");
                let _ = self.declare(group, None, EntityKind::Subscriber, 0, &key, QueryableInfo::default());
            } else {
                self.withdraw_all(group);
            }
        }
    }

    /// Repeats the declarations to groups, for members that joined since.
    pub(super) fn retell_groups(&mut self, now: Now) {
        let due: Vec<FaceId> =
            self.groups.retell.iter().filter(|(_, at)| **at <= now.mono).map(|(group, _)| *group).collect();
        for group in due {
            self.groups.retell.remove(&group);
            let Some(face) = self.faces.get_mut(&group) else { continue };
            let told = face.announced.clone();
            for kind in EntityKind::ALL {
                for (key, known) in &told[kind as usize] {
                    self.announce(group, None, kind, key, known.info);
                }
            }
        }
    }
}
