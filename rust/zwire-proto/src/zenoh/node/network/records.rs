//! Link-state records of routers, sent and received.

use super::{
    Changes, Detail, Link, Links, Network, NetworkRouter, OWN, RouterIx, TELL_PAUSE, TELL_SHARE,
    TREE_PATIENCE,
    disputes::{is_newer, next_sn},
    may_number,
};
use crate::{
    Now, Text,
    limits::{MAX_ROUTER_LINKS, MAX_ROUTERS},
    zenoh::{
        WhatAmI, ZenohId,
        node::FaceId,
        wire::{LinkState, LinkStateList},
    },
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// Time to visit a router or a link, in nanoseconds.
const VISIT_NS: u64 = 100;

/// Routers and links that a neighbour has told of, and may tell of.
///
/// A neighbour gets what it asks for while the network has it, and half of an equal part even if others have taken
/// all: routers that one of them invents do not keep out those behind the others.
struct Told {
    face: FaceId,
    routers: usize,
    links: usize,
    /// Number of links to neighbours.
    tellers: usize,
}

impl Told {
    /// Room for more of something of which there are `all`, `own` of them told by this neighbour.
    fn room(&self, all: usize, own: usize, bound: usize) -> usize {
        let share = bound / (2 * self.tellers.max(1));
        bound.saturating_sub(all).max(share.saturating_sub(own)).min((2 * bound).saturating_sub(all))
    }
}

/// List of link states of a neighbour, while it is handled.
struct Hearing {
    now: Duration,
    link: Link,
    told: Told,
    /// Neighbours that have announced themselves on links of their own.
    near: BTreeSet<ZenohId>,
    new: BTreeSet<RouterIx>,
    updated: BTreeMap<RouterIx, Detail>,
    changes: Changes,
}

impl Network {
    pub(in super::super) fn link_up(&mut self, now: Now, face: FaceId, zid: ZenohId) -> Changes {
        let mut changes = Changes::default();
        self.tell(now.mono, &mut changes);
        let before = self.reachable();
        if !self.contains(zid) && self.add(zid, WhatAmI::Router, face).is_some() {
            changes.added.push(zid);
        }
        self.was_linked = true;
        self.links
            .insert(face, Link { zid, psids: BTreeMap::new(), introduced: false, untold: BTreeMap::new() });
        self.relink(now);
        let fresh = self.come_into_reach(&before);
        let introduce = Detail { zid: true, ..Detail::default() };
        let mut news: Vec<LinkState> = fresh.iter().filter_map(|ix| self.record(*ix, introduce)).collect();
        news.extend(self.record(OWN, Detail::default()));
        let others = self.links.keys().filter(|other| **other != face).copied().collect();
        changes.send.push((others, LinkStateList(news)));
        let all = self.all().map(|(ix, _)| ix).collect::<Vec<_>>();
        let full = Detail { zid: true, locators: true };
        let table = all.into_iter().filter_map(|ix| self.record(ix, full)).collect();
        changes.send.push((vec![face], LinkStateList(table)));
        self.relinked = true;
        self.touch(now.mono);
        changes
    }

    pub(in super::super) fn link_down(&mut self, now: Now, face: FaceId) -> Changes {
        let mut changes = Changes::default();
        let Some(link) = self.links.remove(&face) else { return changes };
        self.tell(now.mono, &mut changes);
        for router in self.routers.iter_mut().flatten() {
            if let Some(told) = &mut router.told {
                told.remove(&face);
            }
            if router.teller == Some(face) {
                router.teller = None;
            }
        }
        self.relinked = true;
        self.touch(now.mono);
        if self.links.values().any(|other| other.zid == link.zid) {
            return changes;
        }
        self.relink(now);
        let believed = self.believe_claim(link.zid);
        self.note_reach();
        if self.links.is_empty() {
            // No other way can appear, so removal need not wait.
            changes.removed = self.remove_unreachable();
        }
        let (faces, mut list) = self.to_all_links(Detail::default());
        list.0.extend(believed.and_then(|ix| self.record(ix, Detail::default())));
        changes.send.push((faces, list));
        changes
    }

    pub(in super::super) fn set_locators(&mut self, now: Now, locators: &[Text]) -> Changes {
        let mut changes = Changes::default();
        if let Some(own) = self.get_mut(OWN) {
            own.locators = locators.to_vec();
        }
        self.tell(now.mono, &mut changes);
        self.relink(now);
        if self.gossip {
            changes.send.push(self.to_all_links(Detail { locators: true, ..Detail::default() }));
        }
        changes
    }

    /// Takes over the newest state that others told of a neighbour, after the last link to it has ended. Returns
    /// its number, if there was a newer one.
    fn believe_claim(&mut self, zid: ZenohId) -> Option<RouterIx> {
        let ix = self.by_zid.get(&zid).copied()?;
        let claim = self.take_claim(ix)?;
        self.reach = None;
        self.get(ix).filter(|router| router.is_superseded(claim.sn, &claim.links))?;
        let room = MAX_ROUTER_LINKS.saturating_sub(self.edges);
        let links: Links =
            claim.links.into_iter().filter(|(other, _)| self.contains(*other)).take(room).collect();
        let router = self.routers[usize::from(ix)].as_mut()?;
        self.edges = self.edges - router.links.len() + links.len();
        (router.sn, router.links, router.teller) = (claim.sn, links, None);
        Some(ix)
    }

    /// The record of this node, for all links.
    pub(super) fn to_all_links(&self, detail: Detail) -> (Vec<FaceId>, LinkStateList) {
        let list = LinkStateList(self.record(OWN, detail).into_iter().collect());
        (self.links.keys().copied().collect(), list)
    }

    /// Announces the own links as a new state. Its number is the time, so that the states of a
    /// restarted router are newer than its earlier ones.
    fn relink(&mut self, now: Now) {
        let links: Links = self
            .links
            .values()
            .filter(|link| self.contains(link.zid))
            .map(|link| (link.zid, self.weights.get(&link.zid).copied().unwrap_or(0)))
            .collect();
        self.reach = None;
        let Some(own) = self.routers[usize::from(OWN)].as_mut() else { return };
        self.edges = self.edges - own.links.len() + links.len();
        own.links = links;
        let (next, wall) = (next_sn(own.sn), micros(now.wall));
        own.sn = if is_newer(wall, next) { wall } else { next };
    }

    pub(super) fn record(&self, ix: RouterIx, detail: Detail) -> Option<LinkState> {
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
        let mut ignored = 0;
        let Some(mut link) = self.links.remove(&face) else { return (Changes::default(), 0) };
        let before = self.reachable();
        for record in &list.0 {
            let named = record.zid.filter(|zid| record.psid != 0 || *zid == link.zid);
            if let Some(zid) = named.filter(|_| may_number(&link, record.psid)) {
                link.psids.insert(record.psid, zid);
            }
        }
        let mut hearing = self.listen(now, face, link);
        for record in &list.0 {
            if !self.handle_record(&mut hearing, record) {
                ignored += 1;
            }
        }
        let Hearing { mut link, new, updated, mut changes, .. } = hearing;
        link.introduced |= link.psids.contains_key(&0);
        self.links.insert(face, link);
        self.note_work(visits(&list.0));
        if new.is_empty() && updated.is_empty() {
            return (changes, ignored);
        }
        self.touch(now);
        changes.added = new.iter().filter_map(|ix| self.get(*ix)).map(|router| router.zid).collect();

        if self.reach.is_none() {
            // All of them are visited, to see which are in reach.
            self.note_work(self.by_zid.len() + self.edges);
        }
        // Routers that come into reach are announced to all neighbours, also to the sender: in this way
        // they learn the numbers of this node. Unreachable routers are not announced.
        let fresh = self.come_into_reach(&before);
        let with_id = |ix| (ix, Detail { zid: true, locators: updated.contains_key(&ix) });
        let news: BTreeMap<RouterIx, Detail> = fresh.into_iter().map(with_id).collect();
        let reached = self.note_reach();
        let rest = updated.iter().filter(|(ix, _)| !news.contains_key(ix) && reached[usize::from(**ix)]);
        let rest: BTreeMap<RouterIx, Detail> = rest.map(|(ix, detail)| (*ix, *detail)).collect();
        let written = news.keys().chain(rest.keys()).filter_map(|ix| self.get(*ix));
        self.note_work(written.map(|router| 1 + router.links.len()).sum());
        for (to, link) in &mut self.links {
            let rest = rest.iter().filter(|_| *to != face);
            for (ix, detail) in news.iter().chain(rest) {
                let told = link.untold.entry(*ix).or_default();
                *told = Detail { zid: told.zid || detail.zid, locators: told.locators || detail.locators };
            }
        }
        if now >= self.tell_at {
            self.tell(now, &mut changes);
        }
        (changes, ignored)
    }

    /// Tells neighbours of the changes so far. Further ones wait for as long as these keep a neighbour busy, many times
    /// over: it handles the changes of a moment together.
    pub(super) fn tell(&mut self, now: Duration, changes: &mut Changes) {
        let mut lists: Vec<(Vec<FaceId>, BTreeMap<RouterIx, Detail>)> = Vec::new();
        for (face, link) in &mut self.links {
            let untold = core::mem::take(&mut link.untold);
            match lists.iter_mut().find(|(_, other)| *other == untold) {
                Some((faces, _)) => faces.push(*face),
                None if untold.is_empty() => {}
                None => lists.push((vec![*face], untold)),
            }
        }
        if lists.is_empty() {
            return;
        }
        let reached = self.reachable();
        let mut visited = 0;
        for (faces, untold) in lists {
            let is_reached = |ix: &RouterIx| reached.get(usize::from(*ix)).copied().unwrap_or(false);
            let (named, known): (Vec<_>, Vec<_>) = untold.into_iter().partition(|(_, detail)| detail.zid);
            let all = named.into_iter().chain(known).filter(|(ix, _)| is_reached(ix));
            let list: Vec<LinkState> = all.filter_map(|(ix, detail)| self.record(ix, detail)).collect();
            if list.is_empty() {
                continue;
            }
            visited = visits(&list).max(visited);
            changes.send.push((faces, LinkStateList(list)));
        }
        // A neighbour reads the list, visits the network, and writes it on.
        let work = VISIT_NS * (2 * visited + self.by_zid.len() + self.edges) as u64;
        let pause = Duration::from_nanos(work).saturating_mul(TELL_SHARE);
        let pause = if pause < TELL_PAUSE { Duration::ZERO } else { pause.min(TREE_PATIENCE) };
        self.tell_at = now.saturating_add(pause);
    }

    fn listen(&self, now: Duration, face: FaceId, link: Link) -> Hearing {
        let by_it = || self.routers.iter().flatten().filter(|router| router.teller == Some(face));
        Hearing {
            now,
            told: Told {
                face,
                routers: by_it().count(),
                links: by_it().map(|router| router.links.len()).sum(),
                tellers: self.links.len() + 1,
            },
            near: self.links.values().filter(|other| other.introduced).map(|other| other.zid).collect(),
            link,
            new: BTreeSet::new(),
            updated: BTreeMap::new(),
            changes: Changes::default(),
        }
    }

    fn note_work(&mut self, visited: usize) {
        self.work += VISIT_NS * visited as u64;
    }

    /// Returns whether the record was about a known router, or made it known, and may be told by this neighbour.
    fn handle_record(&mut self, hearing: &mut Hearing, record: &LinkState) -> bool {
        // The last meaning given to a number counts, within bounds; 0 is always the neighbour.
        let Some(zid) = hearing.link.psids.get(&record.psid).copied() else { return false };
        let told = hearing.links(zid, record);
        let links: Links = told.iter().copied().collect();
        let known = self.by_zid.get(&zid).copied();
        let speaks_for_itself = zid != hearing.link.zid && hearing.near.contains(&zid);
        if let Some(ix) = known.filter(|ix| *ix == OWN || speaks_for_itself) {
            return !self.dispute(hearing.now, ix, record.sn, links);
        }
        let whatami = record.whatami.unwrap_or(WhatAmI::Router);
        let Some(ix) = known.or_else(|| self.add_told(hearing, zid, whatami)) else { return false };
        // A neighbour's first record about itself always counts: it may have restarted, with smaller
        // numbers.
        let first_word = record.psid == 0 && !hearing.link.introduced;
        let is_superseded = |router: &NetworkRouter| router.is_superseded(record.sn, &links);
        if known.is_some() && !first_word && !self.get(ix).is_some_and(is_superseded) {
            return true;
        }
        let same = |router: &NetworkRouter| router.teller == Some(hearing.told.face) && router.links == links;
        if !self.get(ix).is_some_and(same) {
            self.set_links(hearing, ix, told);
        }
        let locators = record.locators.as_ref().filter(|locators| !locators.is_empty());
        if let Some(locators) = locators {
            hearing.changes.discovered.push((zid, whatami, locators.clone()));
        }
        let near = record.psid == 0;
        if let Some(router) = self.get_mut(ix) {
            router.sn = record.sn;
            if let Some(locators) = locators.filter(|_| near) {
                router.locators.clone_from(locators);
            }
        }
        hearing.updated.insert(ix, Detail { zid: false, locators: near && locators.is_some() });
        true
    }

    /// Adds a router of which a neighbour told, within bounds.
    fn add_told(&mut self, hearing: &mut Hearing, zid: ZenohId, whatami: WhatAmI) -> Option<RouterIx> {
        let told = &mut hearing.told;
        if told.room(self.by_zid.len(), told.routers, MAX_ROUTERS) == 0 {
            return None;
        }
        let ix = self.add(zid, whatami, told.face)?;
        told.routers += 1;
        hearing.new.insert(ix);
        Some(ix)
    }

    /// Sets the links of a router that a neighbour told, within bounds.
    fn set_links(&mut self, hearing: &mut Hearing, ix: RouterIx, told: Vec<(ZenohId, u16)>) {
        let face = hearing.told.face;
        self.reach = None;
        let Some(router) = self.routers.get_mut(usize::from(ix)).and_then(Option::as_mut) else { return };
        self.edges -= router.links.len();
        if router.teller == Some(face) {
            hearing.told.links -= router.links.len();
        }
        router.links.clear();
        router.teller = Some(face);
        let room = hearing.told.room(self.edges, hearing.told.links, MAX_ROUTER_LINKS);
        let mut links = Links::new();
        for (other, weight) in told {
            if links.len() >= room {
                break;
            }
            if self.contains(other) || self.add_told(hearing, other, WhatAmI::Router).is_some() {
                links.insert(other, weight);
            }
        }
        self.edges += links.len();
        hearing.told.links += links.len();
        if let Some(router) = self.get_mut(ix) {
            router.links = links;
        }
    }
}

/// Number of routers and links that are visited to read or to write records.
fn visits(records: &[LinkState]) -> usize {
    records.iter().map(|record| 1 + record.links.len()).sum()
}

impl Hearing {
    /// The links in a record about a router, as far as their numbers have a meaning.
    fn links(&self, of: ZenohId, record: &LinkState) -> Vec<(ZenohId, u16)> {
        let weight = |at: usize| record.weights.as_ref().and_then(|weights| weights.get(at)).copied();
        let named = record.links.iter().enumerate().filter_map(|(at, psid)| {
            let other = self.link.psids.get(psid).copied().filter(|other| *other != of)?;
            Some((other, weight(at).unwrap_or(0)))
        });
        named.collect()
    }
}

#[allow(clippy::cast_possible_truncation, reason = "u64 microseconds last for half a million years")]
const fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}
