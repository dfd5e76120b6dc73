//! Link-state records of routers, sent and received.

use super::{Changes, Link, Network, OWN, RouterIx, may_number};
use crate::{
    Now, Text,
    limits::MAX_ROUTER_LINKS,
    zenoh::{
        WhatAmI, ZenohId,
        node::FaceId,
        wire::{LinkState, LinkStateList},
    },
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Contents of a record beside the links.
#[derive(Clone, Copy, Default)]
struct Detail {
    /// Whether the id is included, for receivers that do not know the number.
    zid: bool,
    locators: bool,
}

impl Network {
    pub(in super::super) fn link_up(&mut self, now: Now, face: FaceId, zid: ZenohId) -> Changes {
        let before = self.reachable();
        let mut changes = Changes::default();
        if !self.contains(zid) && self.add(zid, WhatAmI::Router).is_some() {
            changes.added.push(zid);
        }
        self.was_linked = true;
        self.links.insert(face, Link { zid, psids: BTreeMap::new(), introduced: false });
        self.relink(now);
        let fresh = self.come_into_reach(&before);
        let introduce = Detail { zid: true, ..Detail::default() };
        let mut news: Vec<LinkState> = fresh.iter().filter_map(|ix| self.record(*ix, introduce)).collect();
        news.extend(self.record(OWN, Detail::default()));
        for other in self.links.keys().filter(|other| **other != face) {
            changes.send.push((*other, LinkStateList(news.clone())));
        }
        let all = self.all().map(|(ix, _)| ix).collect::<Vec<_>>();
        let full = Detail { zid: true, locators: true };
        let table = all.into_iter().filter_map(|ix| self.record(ix, full)).collect();
        changes.send.push((face, LinkStateList(table)));
        self.touch(now.mono);
        changes
    }

    pub(in super::super) fn link_down(&mut self, now: Now, face: FaceId) -> Changes {
        let mut changes = Changes::default();
        let Some(link) = self.links.remove(&face) else { return changes };
        for router in self.routers.iter_mut().flatten() {
            if let Some(told) = &mut router.told {
                told.remove(&face);
            }
        }
        self.touch(now.mono);
        if self.links.values().any(|other| other.zid == link.zid) {
            return changes;
        }
        self.relink(now);
        self.note_reach();
        if self.links.is_empty() {
            // No other way can appear, so removal need not wait.
            changes.removed = self.remove_unreachable();
        }
        changes.send = self.to_all_links(Detail::default());
        changes
    }

    pub(in super::super) fn set_locators(&mut self, now: Now, locators: &[Text]) -> Changes {
        let mut changes = Changes::default();
        if let Some(own) = self.get_mut(OWN) {
            own.locators = locators.to_vec();
        }
        self.relink(now);
        if self.gossip {
            changes.send = self.to_all_links(Detail { locators: true, ..Detail::default() });
        }
        changes
    }

    /// The record of this node, for each link.
    fn to_all_links(&self, detail: Detail) -> Vec<(FaceId, LinkStateList)> {
        let list = LinkStateList(self.record(OWN, detail).into_iter().collect());
        self.links.keys().map(|face| (*face, list.clone())).collect()
    }

    /// Announces the own links as a new state. Its number is the time, so that the states of a
    /// restarted router are newer than its earlier ones.
    fn relink(&mut self, now: Now) {
        let links: BTreeMap<ZenohId, u16> = self
            .links
            .values()
            .filter(|link| self.contains(link.zid))
            .map(|link| (link.zid, self.weights.get(&link.zid).copied().unwrap_or(0)))
            .collect();
        let Some(own) = self.routers[usize::from(OWN)].as_mut() else { return };
        self.edges = self.edges - own.links.len() + links.len();
        own.links = links;
        own.sn = (own.sn + 1).max(micros(now.wall));
    }

    fn record(&self, ix: RouterIx, detail: Detail) -> Option<LinkState> {
        let router = self.get(ix)?;
        let links: Vec<(u64, u16)> = router
            .links
            .iter()
            .filter_map(|(zid, weight)| Some((u64::from(*self.by_zid.get(zid)?), *weight)))
            .collect();
        let locators =
            detail.locators && self.gossip && !router.locators.is_empty() && self.is_near(router.zid);
        Some(LinkState {
            psid: u64::from(ix),
            sn: router.sn,
            zid: detail.zid.then_some(router.zid),
            whatami: detail.zid.then_some(router.whatami),
            locators: locators.then(|| router.locators.clone()),
            gateway: false,
            weights: links
                .iter()
                .any(|(_, weight)| *weight != 0)
                .then(|| links.iter().map(|l| l.1).collect()),
            links: links.into_iter().map(|(psid, _)| psid).collect(),
        })
    }

    /// Handles link states from `face`. Returns their consequences, and the number of ignored records.
    pub(in super::super) fn handle_records(
        &mut self,
        now: Duration,
        face: FaceId,
        list: &LinkStateList,
    ) -> (Changes, u64) {
        let mut changes = Changes::default();
        let mut ignored = 0;
        let Some(mut link) = self.links.remove(&face) else { return (changes, 0) };
        let before = self.reachable();
        for record in &list.0 {
            let named = record.zid.filter(|zid| record.psid != 0 || *zid == link.zid);
            if let Some(zid) = named.filter(|_| may_number(&link, record.psid)) {
                link.psids.insert(record.psid, zid);
            }
        }
        let mut new: BTreeSet<RouterIx> = BTreeSet::new();
        let mut updated: BTreeMap<RouterIx, Detail> = BTreeMap::new();
        for record in &list.0 {
            if !self.handle_record(&link, record, &mut new, &mut updated, &mut changes) {
                ignored += 1;
            }
        }
        link.introduced |= link.psids.contains_key(&0);
        self.links.insert(face, link);
        if new.is_empty() && updated.is_empty() {
            return (changes, ignored);
        }
        self.touch(now);
        changes.added = new.iter().filter_map(|ix| self.get(*ix)).map(|router| router.zid).collect();

        // Routers that come into reach are announced to all neighbours, also to the sender: in this way
        // they learn the numbers of this node. Unreachable routers are not announced.
        let fresh = self.come_into_reach(&before);
        let news: Vec<LinkState> = fresh
            .iter()
            .filter_map(|ix| self.record(*ix, Detail { zid: true, locators: updated.contains_key(ix) }))
            .collect();
        let mut all = news.clone();
        let reached = self.note_reach();
        let rest = updated.iter().filter(|(ix, _)| !fresh.contains(ix) && reached[usize::from(**ix)]);
        all.extend(rest.filter_map(|(ix, detail)| self.record(*ix, *detail)));
        for to in self.links.keys() {
            let list = if *to == face { &news } else { &all };
            if !list.is_empty() {
                changes.send.push((*to, LinkStateList(list.clone())));
            }
        }
        (changes, ignored)
    }

    /// Returns whether the record was about a known router, or made it known.
    fn handle_record(
        &mut self,
        link: &Link,
        record: &LinkState,
        new: &mut BTreeSet<RouterIx>,
        updated: &mut BTreeMap<RouterIx, Detail>,
        changes: &mut Changes,
    ) -> bool {
        // The last meaning given to a number counts, within bounds; 0 is always the neighbour.
        let Some(zid) = link.psids.get(&record.psid).copied() else { return false };
        let known = self.by_zid.get(&zid).copied();
        if known == Some(OWN) {
            return true;
        }
        let whatami = record.whatami.unwrap_or(WhatAmI::Router);
        let Some(ix) = known.or_else(|| self.add(zid, whatami)) else { return false };
        if known.is_none() {
            new.insert(ix);
        }
        // A neighbour's first record about itself always counts: it may have restarted, with smaller
        // numbers.
        let first_word = record.psid == 0 && !link.introduced;
        if known.is_some() && !first_word && self.get(ix).is_none_or(|router| record.sn <= router.sn) {
            return true;
        }
        let old = self.get(ix).map_or(0, |router| router.links.len());
        self.edges -= old;
        let room = MAX_ROUTER_LINKS.saturating_sub(self.edges);
        let mut links = BTreeMap::new();
        for (at, psid) in record.links.iter().enumerate() {
            let Some(other) = link.psids.get(psid).copied().filter(|other| *other != zid) else { continue };
            if !self.contains(other) {
                match self.add(other, WhatAmI::Router) {
                    Some(placeholder) => new.insert(placeholder),
                    None => continue,
                };
            }
            if links.len() >= room {
                break;
            }
            let weight = record.weights.as_ref().and_then(|weights| weights.get(at)).copied();
            links.insert(other, weight.unwrap_or(0));
        }
        self.edges += links.len();
        let locators = record.locators.as_ref().filter(|locators| !locators.is_empty());
        if let Some(locators) = locators {
            changes.discovered.push((zid, whatami, locators.clone()));
        }
        let near = record.psid == 0;
        if let Some(router) = self.get_mut(ix) {
            router.sn = record.sn;
            router.links = links;
            if let Some(locators) = locators.filter(|_| near) {
                router.locators.clone_from(locators);
            }
        }
        updated.insert(ix, Detail { zid: false, locators: near && locators.is_some() });
        true
    }
}

#[allow(clippy::cast_possible_truncation, reason = "u64 microseconds last for half a million years")]
const fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}
