//! Network of routers: the links that each router announces (`zenoh-behaviour` 5.6).
//!
//! Each router numbers the routers that it knows, itself 0, and uses these numbers towards its
//! neighbours. The meaning of a neighbour's numbers is kept per link.

mod disputes;
mod records;
mod tree;
mod withdrawn;

use super::{
    config::NodeConfig,
    ids::{FaceId, RouterIx},
    tables::ResourceId,
};
use crate::{
    Text,
    limits::{MAX_LINK_STATES, MAX_ROUTERS},
    zenoh::{
        KeyExpr, WhatAmI, ZenohId,
        entity::EntityKind,
        wire::{LinkStateList, QueryableInfo},
    },
};
use core::time::Duration;
use disputes::Disputes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tree::{Graph, Tree};
use withdrawn::Withdrawn;

/// This node.
pub(super) const OWN: RouterIx = 0;

/// Delay of the trees' computation after a change, so that many link changes count as one.
const TREE_DELAY: Duration = Duration::from_millis(100);
/// Longest delay under continuous changes.
const TREE_PATIENCE: Duration = Duration::from_millis(500);
/// Fewest free numbers before one is assigned to another router: a neighbour may still have messages on
/// the way that use the number in its old meaning.
const FREE_NUMBERS: usize = 256;
/// Routers and links that are visited at once to compute trees, about a millisecond; the other trees follow in
/// further steps.
const VISITED_AT_ONCE: usize = 30_000;
/// Pause between two such steps, in which links that wait for the node get it.
const GROW_PAUSE: Duration = Duration::from_millis(3);
/// Part of the time of a neighbour that the link states of this node may take: a two-hundredth. Data follows them on the
/// link, and waits while the neighbour has no time left for matching, a twentieth (`limits::MATCHING_SHARE`).
const TELL_SHARE: u32 = 200;
/// Shortest pause between two lists of link states. In a network with fewer than 250 routers and links each change is told
/// at once: what it costs a neighbour is about what costs nothing there (`limits::MATCHING_FREE`).
const TELL_PAUSE: Duration = Duration::from_millis(5);

/// Announced links of a router, and their weights; 0: none.
type Links = BTreeMap<ZenohId, u16>;

#[derive(Debug)]
pub(super) struct NetworkRouter {
    pub(super) zid: ZenohId,
    whatami: WhatAmI,
    sn: u64,
    /// Locators; only of neighbours, and of this node.
    locators: Vec<Text>,
    links: Links,
    /// Face of the neighbour that told of the links. `None`: this node did, or a link that has ended.
    teller: Option<FaceId>,
    pub(super) entities: [BTreeSet<ResourceId>; 3],
    /// Faces that were sent them: the children in its tree. `None`: not needed so far, as it has no
    /// declarations.
    told: Option<BTreeSet<FaceId>>,
    /// Whether it was out of reach, if only for a moment: the receivers may have dropped its
    /// declarations.
    retell: bool,
}

/// A link to a neighbour.
#[derive(Debug)]
struct Link {
    zid: ZenohId,
    /// Meaning of the neighbour's numbers.
    psids: BTreeMap<u64, ZenohId>,
    /// Whether the neighbour has announced its id on this link.
    introduced: bool,
    /// Routers with changes that the neighbour is to be told.
    untold: BTreeMap<RouterIx, Detail>,
}

/// Contents of a record beside the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Detail {
    /// Whether the id is included, for receivers that do not know the number.
    zid: bool,
    locators: bool,
}

/// Consequences of a change.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Link states for the neighbours.
    pub(super) send: Vec<(Vec<FaceId>, LinkStateList)>,
    pub(super) added: Vec<ZenohId>,
    /// Routers that left, with their declarations.
    pub(super) removed: Vec<(RouterIx, NetworkRouter)>,
    pub(super) discovered: Vec<(ZenohId, WhatAmI, Vec<Text>)>,
    /// After new trees, for each router with declarations, the neighbours that became children in its tree.
    pub(super) fresh: Vec<(RouterIx, Vec<FaceId>)>,
}

/// The network as known to this node. Without links to routers it consists of this node.
#[derive(Debug, Default)]
pub(super) struct Network {
    gossip: bool,
    weights: BTreeMap<ZenohId, u16>,
    /// Routers by number; the first is this node.
    routers: Vec<Option<NetworkRouter>>,
    free: VecDeque<RouterIx>,
    by_zid: BTreeMap<ZenohId, RouterIx>,
    /// Number of links of all routers together.
    edges: usize,
    links: BTreeMap<FaceId, Link>,
    was_linked: bool,
    /// Time at which the trees must be computed, and the latest time to which that may be put off.
    due: Option<(Duration, Duration)>,
    /// Whether a link of this node has come or gone since the graph was made.
    relinked: bool,
    disputes: Disputes,
    /// Time before which neighbours are told nothing more about other routers.
    tell_at: Duration,
    /// For each number, whether the router is in reach; `None`: not known after a change.
    reach: Option<Vec<bool>>,
    graph: Graph,
    trees: BTreeMap<RouterIx, Tree>,
    /// Routers for which the children in their new trees are not computed yet, and the one after the last.
    growing: BTreeSet<RouterIx>,
    grown: RouterIx,
    /// Time of the next step of that.
    grow_at: Duration,
    /// Estimated time of the work on link states since it was last taken, in nanoseconds.
    work: u64,
    /// Declarations of this node to the network.
    pub(super) announced: [BTreeMap<KeyExpr, QueryableInfo>; 3],
    pub(super) withdrawn: Withdrawn,
    /// Memory charged for the declarations of all other routers.
    pub(super) table_bytes: usize,
}

impl Network {
    pub(super) fn new(config: &NodeConfig) -> Self {
        let own = NetworkRouter::new(config.zid, WhatAmI::Router, config.locators.clone());
        Self {
            gossip: config.gossip.enabled,
            weights: config.transport_weights.clone(),
            by_zid: BTreeMap::from([(config.zid, OWN)]),
            routers: vec![Some(own)],
            ..Self::default()
        }
    }

    // ---- routers ----

    pub(super) fn get(&self, ix: RouterIx) -> Option<&NetworkRouter> {
        self.routers.get(usize::from(ix))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, ix: RouterIx) -> Option<&mut NetworkRouter> {
        self.routers.get_mut(usize::from(ix))?.as_mut()
    }

    /// Whether the router is in the network, this node included.
    pub(super) fn contains(&self, zid: ZenohId) -> bool {
        self.by_zid.contains_key(&zid)
    }

    fn all(&self) -> impl Iterator<Item = (RouterIx, &NetworkRouter)> {
        (0..).zip(&self.routers).filter_map(|(ix, router)| Some((ix, router.as_ref()?)))
    }

    /// The router that a number in a message on a link means; 0 is the neighbour itself.
    pub(super) fn meaning(&self, face: FaceId, node_id: u16) -> Option<RouterIx> {
        let zid = self.links.get(&face)?.psids.get(&u64::from(node_id))?;
        self.by_zid.get(zid).copied()
    }

    /// Number of routers, and of the links that they announce.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.by_zid.len(), self.edges)
    }

    /// Parent and children in the tree of a router.
    #[cfg(test)]
    pub(super) fn place_in(&mut self, root: ZenohId) -> Option<(Option<ZenohId>, Vec<ZenohId>)> {
        let root = *self.by_zid.get(&root)?;
        let (parent, children) = (self.tree(root).parent, self.tree(root).children.clone());
        let zid = |ix| Some(self.get(ix)?.zid);
        Some((parent.and_then(zid), children.into_iter().filter_map(zid).collect()))
    }

    /// Announced links of a router.
    #[cfg(test)]
    pub(super) fn links_of(&self, zid: ZenohId) -> Vec<ZenohId> {
        let router = self.by_zid.get(&zid).and_then(|ix| self.get(*ix));
        router.into_iter().flat_map(|router| router.links.keys().copied()).collect()
    }

    /// The number of a router.
    #[cfg(test)]
    pub(super) fn number(&self, zid: ZenohId) -> Option<RouterIx> {
        self.by_zid.get(&zid).copied()
    }

    /// A number for a router that is not known yet; `None`: there are too many.
    fn add(&mut self, zid: ZenohId, whatami: WhatAmI, teller: FaceId) -> Option<RouterIx> {
        if self.by_zid.len() >= 2 * MAX_ROUTERS {
            return None;
        }
        let reused = if self.free.len() > FREE_NUMBERS { self.free.pop_front() } else { None };
        let ix = match reused {
            Some(ix) => ix,
            None => {
                // Bounded by 2 * MAX_ROUTERS + FREE_NUMBERS.
                self.routers.push(None);
                RouterIx::try_from(self.routers.len() - 1).ok()?
            }
        };
        let router = NetworkRouter::new(zid, whatami, Vec::new());
        self.routers[usize::from(ix)] = Some(NetworkRouter { teller: Some(teller), ..router });
        self.by_zid.insert(zid, ix);
        self.reach = None;
        Some(ix)
    }

    /// For each number, whether the router can be reached from here along announced links.
    fn reachable(&mut self) -> Vec<bool> {
        if let Some(known) = &self.reach {
            return known.clone();
        }
        let seen = self.visit();
        self.reach = Some(seen.clone());
        seen
    }

    fn visit(&self) -> Vec<bool> {
        let mut seen = vec![false; self.routers.len()];
        seen[usize::from(OWN)] = true;
        let mut stack = vec![OWN];
        while let Some(at) = stack.pop() {
            let Some(router) = self.get(at) else { continue };
            let links = router.links.keys().chain(self.disputes.links_of(at));
            for to in links.filter_map(|zid| self.by_zid.get(zid)) {
                if !core::mem::replace(&mut seen[usize::from(*to)], true) {
                    stack.push(*to);
                }
            }
        }
        seen
    }

    /// Marks routers that are out of reach.
    fn note_reach(&mut self) -> Vec<bool> {
        let seen = self.reachable();
        for (router, seen) in self.routers.iter_mut().zip(&seen) {
            if let Some(router) = router.as_mut().filter(|_| !seen) {
                router.retell = true;
            }
        }
        seen
    }

    fn come_into_reach(&mut self, before: &[bool]) -> BTreeSet<RouterIx> {
        let after = self.reachable();
        let fresh = |ix: &usize| after[*ix] && !before.get(*ix).copied().unwrap_or(false);
        (0..after.len()).filter(fresh).filter_map(|ix| RouterIx::try_from(ix).ok()).collect()
    }

    fn remove_unreachable(&mut self) -> Vec<(RouterIx, NetworkRouter)> {
        let seen = self.reachable();
        self.reach = None;
        let mut removed = Vec::new();
        for (ix, slot) in (0..).zip(&mut self.routers) {
            if !seen[usize::from(ix)]
                && let Some(router) = slot.take()
            {
                self.edges -= router.links.len();
                self.by_zid.remove(&router.zid);
                self.free.push_back(ix);
                self.trees.remove(&ix);
                self.links.values_mut().for_each(|link| {
                    link.untold.remove(&ix);
                });
                removed.push((ix, router));
            }
        }
        removed
    }

    // ---- reports ----

    /// The numbers of all routers, this node first, and each link announced by both ends, once.
    pub(super) fn links_of_all(&self) -> (Vec<RouterIx>, Vec<(RouterIx, RouterIx, f64)>) {
        let numbers = self.all().map(|(ix, _)| ix).collect();
        let mut links = Vec::new();
        for (a, neighbours) in (0..).zip(self.edges().0) {
            links.extend(neighbours.into_iter().filter(|(b, _)| *b < a).map(|(b, weight)| (a, b, weight)));
        }
        (numbers, links)
    }

    /// The neighbour through which messages from `source` reach `to`.
    pub(super) fn successor(&mut self, source: RouterIx, to: RouterIx) -> Option<RouterIx> {
        self.tree(source).next(to)
    }

    /// Weights that this node and a neighbour announce for their link; 0 is none.
    pub(super) fn weights_of(&self, neighbour: ZenohId, own: ZenohId) -> Option<(u16, u16)> {
        let ours = self.get(OWN)?.links.get(&neighbour)?;
        let theirs = self.by_zid.get(&neighbour).and_then(|ix| self.get(*ix)).map(|router| &router.links);
        Some((*ours, theirs.and_then(|links| links.get(&own)).copied().unwrap_or(0)))
    }

    // ---- trees ----

    /// Schedules the computation of the trees after a change.
    fn touch(&mut self, now: Duration) {
        let latest = match self.due {
            Some((_, latest)) => latest,
            None => now.saturating_add(TREE_PATIENCE),
        };
        self.due = Some((now.saturating_add(TREE_DELAY).min(latest), latest));
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let growing = (!self.growing.is_empty()).then_some(self.grow_at);
        let telling = self.links.values().any(|link| !link.untold.is_empty()).then_some(self.tell_at);
        let trees = self.due.map(|(due, _)| due);
        [growing, trees, telling, self.disputes.next_deadline()].into_iter().flatten().min()
    }

    /// Tells neighbours of changes, if that is due: before the trees are computed, since declarations follow.
    pub(super) fn tell_in_time(&mut self, now: Duration) -> Changes {
        let mut changes = Changes::default();
        if now >= self.tell_at || self.due.is_some_and(|(due, _)| due <= now) {
            self.tell(now, &mut changes);
        }
        changes
    }

    /// Computes the trees and removes unreachable routers, if due. `None`: not due.
    ///
    /// Removal waits for this moment: after a link state that cuts off routers, the next one may bring
    /// another way, and declarations dropped in between would not be repeated.
    pub(super) fn handle_timeout(&mut self, now: Duration) -> Option<Changes> {
        let mut changes = Changes::default();
        if self.due.is_some_and(|(due, _)| due <= now) {
            self.due = None;
            self.withdrawn.forget(now);
            changes.removed = self.remove_unreachable();
            if self.growing.is_empty() {
                self.grown = OWN;
            }
            let graph = self.edges();
            if core::mem::take(&mut self.relinked) || graph != self.graph {
                self.graph = graph;
                self.trees.clear();
                self.growing = (0..self.routers.len() as RouterIx).collect();
            } else {
                // New numbers alone: of a thousand routers that announce the same links again and again, each
                // would cost a tree.
                let retold = self.all().filter(|(_, router)| router.retell).map(|(ix, _)| ix);
                self.growing = retold.chain(self.growing.iter().copied()).collect();
            }
        } else if self.growing.is_empty() || now < self.grow_at {
            return None;
        }
        changes.fresh = self.grow();
        self.grow_at = now.saturating_add(GROW_PAUSE);
        Some(changes)
    }

    /// Computes the children of routers in their new trees, as many as a step may. Returns those that are new.
    fn grow(&mut self) -> Vec<(RouterIx, Vec<FaceId>)> {
        let mut fresh = Vec::new();
        let mut left = VISITED_AT_ONCE;
        while left > 0 {
            // Changes that come sooner than all trees are computed must not keep any router from its turn.
            let next = self.growing.range(self.grown..).next().or_else(|| self.growing.first()).copied();
            let Some(ix) = next else { break };
            self.growing.remove(&ix);
            self.grown = ix.saturating_add(1);
            let Some(router) = self.get(ix) else { continue };
            if ix != OWN && router.entities.iter().all(BTreeSet::is_empty) && !self.withdrawn.has(router.zid)
            {
                self.get_mut(ix).into_iter().for_each(|router| router.told = None);
                continue;
            }
            left = left.saturating_sub(self.routers.len() + self.graph.size());
            let children = self.children(ix);
            let Some(router) = self.get_mut(ix) else { continue };
            let before = router.told.replace(children.clone());
            let before = before.filter(|_| !core::mem::take(&mut router.retell)).unwrap_or_default();
            let new: Vec<FaceId> = children.difference(&before).copied().collect();
            if !new.is_empty() {
                fresh.push((ix, new));
            }
        }
        fresh
    }

    /// The links announced by both ends.
    fn edges(&self) -> Graph {
        let mut graph = Graph(vec![Vec::new(); self.routers.len()]);
        for (ix, router) in self.all() {
            for (zid, weight) in &router.links {
                let Some(other) = self.by_zid.get(zid).and_then(|ix| Some((*ix, self.get(*ix)?))) else {
                    continue;
                };
                if let Some(back) = other.1.links.get(&router.zid) {
                    graph.0[usize::from(ix)].push((other.0, tree::weight(router.zid, *weight, *zid, *back)));
                }
            }
        }
        graph
    }

    fn tree(&mut self, root: RouterIx) -> &Tree {
        let graph = &self.graph;
        self.trees.entry(root).or_insert_with(|| Tree::new(graph, root, OWN))
    }

    /// The face of a neighbour: of several the youngest.
    fn face_of(&self, ix: RouterIx) -> Option<FaceId> {
        let zid = self.get(ix)?.zid;
        self.links.iter().rev().find(|(_, link)| link.zid == zid).map(|(face, _)| *face)
    }

    fn children(&mut self, root: RouterIx) -> BTreeSet<FaceId> {
        let children = self.tree(root).children.clone();
        children.into_iter().filter_map(|child| self.face_of(child)).collect()
    }

    /// Drops the record of a withdrawal when a router declares the key again.
    pub(super) fn declared_again(&mut self, ix: RouterIx, kind: EntityKind, key: &KeyExpr) {
        if let Some(zid) = self.get(ix).map(|router| router.zid) {
            self.withdrawn.remove(zid, kind, key);
        }
    }

    /// Whether there has been no link to another router yet, so that none has heard of withdrawals.
    pub(super) const fn is_alone(&self) -> bool {
        !self.was_linked
    }

    /// Faces that have all declarations of `root`, and to which new ones are forwarded.
    pub(super) fn told(&mut self, root: RouterIx) -> Vec<FaceId> {
        if self.get(root).is_some_and(|router| router.told.is_none()) {
            let children = self.children(root);
            self.get_mut(root).into_iter().for_each(|router| router.told = Some(children.clone()));
        }
        self.get(root).into_iter().flat_map(|router| router.told.iter().flatten().copied()).collect()
    }

    /// Whether messages along the tree of `root` should come on `face`.
    pub(super) fn is_upstream(&mut self, root: RouterIx, face: FaceId) -> bool {
        let parent = self.tree(root).parent;
        let zid = parent.and_then(|parent| self.get(parent)).map(|router| router.zid);
        zid.is_some() && zid == self.links.get(&face).map(|link| link.zid)
    }

    /// Next face towards `to` in the tree of `root`.
    pub(super) fn next_hop(&mut self, root: RouterIx, to: RouterIx) -> Option<FaceId> {
        let next = self.tree(root).next(to)?;
        self.face_of(next)
    }

    pub(super) fn distance(&mut self, to: RouterIx) -> u16 {
        self.tree(OWN).distance(to)
    }

    /// Takes the estimated time of the work on link states, in nanoseconds.
    pub(super) fn take_work(&mut self) -> u64 {
        core::mem::take(&mut self.work)
    }

    /// Whether a record is about a neighbour or this node.
    fn is_near(&self, zid: ZenohId) -> bool {
        self.get(OWN).is_some_and(|own| own.zid == zid) || self.links.values().any(|link| link.zid == zid)
    }
}

impl NetworkRouter {
    fn new(zid: ZenohId, whatami: WhatAmI, locators: Vec<Text>) -> Self {
        Self {
            zid,
            whatami,
            sn: 0,
            locators,
            links: Links::new(),
            teller: None,
            entities: Default::default(),
            told: None,
            retell: false,
        }
    }

    pub(super) fn declares(&self, kind: EntityKind, resource: ResourceId) -> bool {
        self.entities[kind as usize].contains(&resource)
    }
}

/// Whether a neighbour may assign the number, which is bounded.
fn may_number(link: &Link, psid: u64) -> bool {
    link.psids.len() < MAX_LINK_STATES || link.psids.contains_key(&psid)
}
