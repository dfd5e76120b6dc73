//! Claims of routers about others that speak for themselves (`zenoh-behaviour` 5.6).
//!
//! Link states carry no proof of their origin, so a router may tell anything of another one. A neighbour's links
//! are those that it tells itself, over its own link; this node's are its own. A claim of a third router that is
//! newer, or different under the same number, changes nothing here, but others may believe it. So the router
//! concerned is told of the number, and announces its state anew under a greater one, which takes the place of
//! the claim in the whole network. When the last link to a neighbour ends, the newest claim about it counts.

use super::{Changes, Detail, Links, Network, NetworkRouter, OWN, RouterIx};
use crate::{
    limits::MAX_ROUTER_LINKS,
    zenoh::{ZenohId, wire::LinkStateList},
};
use core::time::Duration;
use std::collections::BTreeMap;

/// Delay of the answer to a claim. A neighbour's state may reach this node on another way first, so it is not yet
/// a claim to be contradicted; and the answer has to come before trees are computed, after 100 ms.
const DELAY: Duration = Duration::from_millis(20);

/// A state of a router, told by another one.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) sn: u64,
    pub(super) links: Links,
    is_answered: bool,
}

/// The newest claim about this node and each neighbour.
#[derive(Debug, Default)]
pub(super) struct Disputes {
    claims: BTreeMap<RouterIx, Claim>,
    /// Number of links in all claims.
    links: usize,
    due: Option<Duration>,
}

impl Disputes {
    pub(super) const fn next_deadline(&self) -> Option<Duration> {
        self.due
    }

    fn insert(&mut self, about: RouterIx, sn: u64, links: Links) {
        self.remove(about);
        let room = MAX_ROUTER_LINKS.saturating_sub(self.links);
        let links: Links = links.into_iter().take(room).collect();
        self.links += links.len();
        self.claims.insert(about, Claim { sn, links, is_answered: false });
    }

    fn remove(&mut self, about: RouterIx) -> Option<Claim> {
        let claim = self.claims.remove(&about)?;
        self.links -= claim.links.len();
        Some(claim)
    }

    /// The newest links of a neighbour as others tell them. They are in reach, although no way leads over them: when
    /// the link to the neighbour ends, nothing of it is told again.
    pub(super) fn links_of(&self, router: RouterIx) -> impl Iterator<Item = &ZenohId> {
        self.claims.get(&router).into_iter().flat_map(|claim| claim.links.keys())
    }
}

/// Whether a state has a newer number than another one of the same router. Numbers wrap around, so a router can
/// exceed each number that others invent; 0 is no state.
pub(super) const fn is_newer(sn: u64, than: u64) -> bool {
    sn != than && (than == 0 || sn.wrapping_sub(than) < 1 << 63)
}

/// The number of the state after another one.
pub(super) const fn next_sn(sn: u64) -> u64 {
    if sn == u64::MAX { 1 } else { sn + 1 }
}

impl NetworkRouter {
    /// Whether a claim differs from this state, and is not an older state.
    fn is_contradicted(&self, sn: u64, links: &Links) -> bool {
        is_newer(sn, self.sn) || (sn == self.sn && sn != 0 && *links != self.links)
    }

    /// Whether a state takes the place of this one. Of two different states with one number all routers prefer
    /// the same one, until their router announces another.
    pub(super) fn is_superseded(&self, sn: u64, links: &Links) -> bool {
        is_newer(sn, self.sn) || (sn == self.sn && sn != 0 && *links > self.links)
    }
}

impl Network {
    /// Records a claim about this node or a neighbour, if it contradicts the router's own state. Returns
    /// whether it does.
    pub(super) fn dispute(&mut self, now: Duration, about: RouterIx, sn: u64, links: Links) -> bool {
        if self.get(about).is_none_or(|router| !router.is_contradicted(sn, &links)) {
            return false;
        }
        if self.disputes.claims.get(&about).is_none_or(|claim| is_newer(sn, claim.sn)) {
            self.disputes.insert(about, sn, links);
            self.reach = None;
            self.disputes.due.get_or_insert(now.saturating_add(DELAY));
        }
        true
    }

    /// Takes the newest claim about a neighbour with which there is no link any more.
    pub(super) fn take_claim(&mut self, about: RouterIx) -> Option<Claim> {
        self.disputes.remove(about)
    }

    /// Number of links in all claims.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(in super::super) fn claimed(&self) -> usize {
        assert_eq!(
            self.disputes.links,
            self.disputes.claims.values().map(|claim| claim.links.len()).sum::<usize>()
        );
        self.disputes.links
    }

    /// Answers claims that still contradict the states of their routers, if due: this node announces its state
    /// anew, and neighbours are told of the numbers.
    pub(in super::super) fn answer_claims(&mut self, now: Duration) -> Changes {
        let mut changes = Changes::default();
        if self.disputes.due.is_none_or(|due| now < due) {
            return changes;
        }
        self.disputes.due = None;
        self.tell(now, &mut changes);
        self.reach = None;
        let mut claims = core::mem::take(&mut self.disputes.claims);
        claims.retain(|about, claim| {
            let Some(router) = self.get_mut(*about) else { return false };
            if !router.is_contradicted(claim.sn, &claim.links) {
                return false;
            }
            let (zid, greater) = (router.zid, next_sn(claim.sn));
            if *about == OWN {
                router.sn = greater;
                changes.send.push(self.to_all_links(Detail::default()));
                return false;
            }
            if core::mem::replace(&mut claim.is_answered, true) {
                return true;
            }
            // With the links that the neighbour told: one that believes claims about itself keeps them.
            let told = if claim.sn == router.sn { greater } else { claim.sn };
            if let Some(mut record) = self.record(*about, Detail { zid: true, locators: false }) {
                record.sn = told;
                let faces = self.links.iter().filter(|(_, link)| link.zid == zid).map(|(face, _)| *face);
                changes.send.push((faces.collect(), LinkStateList(vec![record])));
            }
            true
        });
        self.disputes.links = claims.values().map(|claim| claim.links.len()).sum();
        self.disputes.claims = claims;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_can_be_exceeded() {
        for sn in [1, 5, u64::MAX / 2, 1 << 63, u64::MAX - 1, u64::MAX] {
            assert!(is_newer(next_sn(sn), sn) && !is_newer(sn, next_sn(sn)) && !is_newer(sn, sn));
            assert!(is_newer(sn, 0) && next_sn(sn) != 0);
        }
        assert!(is_newer(7, 5) && !is_newer(5, 7) && !is_newer(0, 5));
    }
}
