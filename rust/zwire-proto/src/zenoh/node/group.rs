//! Multicast groups (`zenoh-behaviour` 2.13): one face to which everything goes that concerns the group,
//! one face for what each of its members says.
//!
//! A group cannot be asked what its members want, and they tell no newcomer what they told before. So
//! all data goes to it, as if it had subscribed to everything, and what we have to declare is said
//! again when somebody joins. Queries stay away: their answers have no way back.
//!
//! Who is connected to us beside the group gets everything there. What he says in the group is then
//! left out, and a group of nobody else is told nothing.

use super::{
    FaceId, Node,
    face::{Face, Region},
    tables::Kind,
};
use crate::{
    Now,
    zenoh::wire::{QueryableInfo, WireExpr},
};
use core::time::Duration;
use std::collections::BTreeSet;

/// So long after somebody has joined the group hears all our declarations again: those who join
/// together, or a flood of them, hear them once.
const RETELL_AFTER: Duration = Duration::from_millis(100);

impl Node {
    /// A face is up: a group, a member of one, or something that changes who is where.
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

    /// A face is gone.
    pub(super) fn leave_groups(&mut self, id: FaceId) {
        self.groups.groups.remove(&id);
        self.groups.retell.remove(&id);
        self.sort_groups();
    }

    /// Works out who is reached only through which group.
    fn sort_groups(&mut self) {
        if self.groups.groups.is_empty() {
            return;
        }
        let zids = |wanted: fn(&Face) -> bool| -> BTreeSet<_> {
            self.faces.values().filter(|face| wanted(face)).map(|face| face.remote.zid).collect()
        };
        let members = zids(|face| face.region == Region::Members);
        let linked = zids(|face| !matches!(face.region, Region::Members | Region::Group));
        let mut wanted = BTreeSet::new();
        let mut moved = Vec::new();
        for (id, face) in &mut self.faces {
            let zid = face.remote.zid;
            match face.region {
                Region::Members => {
                    face.in_group.twice = linked.contains(&zid);
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
            let now = wanted.contains(&group);
            if core::mem::replace(&mut face.in_group.wanted, now) == now {
                continue;
            }
            if now {
                // Its own budget bears one key.
                let key = WireExpr::full("**");
                let _ = self.declare(group, None, Kind::Subscriber, 0, &key, QueryableInfo::default());
            } else {
                self.withdraw_all(group);
            }
        }
    }

    /// Says again what groups were told, for those who have joined since.
    pub(super) fn retell_groups(&mut self, now: Now) {
        let due: Vec<FaceId> =
            self.groups.retell.iter().filter(|(_, at)| **at <= now.mono).map(|(group, _)| *group).collect();
        for group in due {
            self.groups.retell.remove(&group);
            let Some(face) = self.faces.get_mut(&group) else { continue };
            let told = face.announced.clone();
            for kind in Kind::ALL {
                for (key, known) in &told[kind as usize] {
                    self.announce(group, None, kind, key, known.info);
                }
            }
        }
    }
}
