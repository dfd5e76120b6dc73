//! Several routers: declarations that name their router, and routes along its tree (`zenoh-behaviour`
//! 5.5, 5.6).
//!
//! A router declares for all nodes behind it, once per key; receivers forward the declaration along the
//! tree of that router. Data and queries take the same ways. The trees are the only protection against
//! loops, so a message on a link outside the tree goes no further than to this node's own faces.

use super::{
    FaceError, FaceId, Node, NodeMode,
    budget::Cost,
    face::{Face, FaceRef, Region, relays},
    ids::RouterIx,
    network::{Changes, OWN},
    tables::{Holder, Resource, merge},
};
use crate::{
    Now,
    zenoh::{
        KeyExpr, ZenohId,
        entity::{EntityChange, EntityKind},
        wire::{Declare, ExtBody, LinkStateList, NetworkMessage, Oam, QueryableInfo, WireExpr},
    },
};
use std::collections::BTreeSet;

/// Way by which a message came.
#[derive(Clone, Copy, Debug)]
pub(super) enum RouterWay {
    /// From an own face, not from a router.
    Own,
    /// From a router, along its tree.
    Along(RouterIx),
    /// From a router, but not along a tree: the routers do not agree yet. Holds the root of the tree that
    /// the message should follow, if known.
    Astray(Option<RouterIx>),
}

/// Declaration of a router for all nodes behind it; without `info` its withdrawal.
#[derive(Clone, Copy)]
struct Sourced<'a> {
    origin: RouterIx,
    kind: EntityKind,
    key: &'a KeyExpr,
    info: Option<QueryableInfo>,
}

impl Node {
    // ---- forwarding between faces and routers ----

    /// Way of a message of `from` that names `node_id`.
    pub(super) fn way(&mut self, from: FaceId, node_id: u16) -> RouterWay {
        if !self.faces.get(&from).is_some_and(Face::in_network) {
            return RouterWay::Own;
        }
        match self.network.meaning(from, node_id) {
            Some(root) if root != OWN && self.network.is_upstream(root, from) => RouterWay::Along(root),
            root => RouterWay::Astray(root.filter(|root| *root != OWN)),
        }
    }

    /// Whether messages from `from` on this way are forwarded to `to`, which is no router.
    pub(super) fn passes(&self, way: RouterWay, from: FaceRef<'_>, to: FaceRef<'_>) -> bool {
        match way {
            RouterWay::Own => relays(self.config.mode, from, to),
            RouterWay::Along(root) => self.hears(Some(root), to.1),
            RouterWay::Astray(root) => self.hears(root, to.1),
        }
    }

    /// Whether this node forwards messages of a router of the network to a face: to a client always, to
    /// a peer if it has no link to that router itself and this node is the one of its gateways in
    /// charge. A multicast group gets none: it would get everything.
    pub(super) fn hears(&self, router: Option<RouterIx>, face: &Face) -> bool {
        let linked = |zid: ZenohId| face.gateways.contains(&zid);
        let linked = || router.and_then(|ix| self.network.get(ix)).is_some_and(|r| linked(r.zid));
        let concerned = matches!(face.region, Region::Clients | Region::Peers);
        concerned && self.speaks_for(face) && !linked()
    }

    /// Whether this node represents a face in the network of routers. Of several gateways of a peer the
    /// one with the greatest id does; gateways outside this network do not count.
    fn speaks_for(&self, face: &Face) -> bool {
        let gateways = face.gateways.iter().filter(|zid| self.network.contains(**zid));
        gateways.max().is_none_or(|greatest| *greatest == self.config.zid)
    }

    /// Next hop among the routers, and its tree, for a message from `from` on this way to `to`.
    pub(super) fn hop(&mut self, from: FaceId, way: RouterWay, to: RouterIx) -> Option<(FaceId, u16)> {
        let root = match way {
            RouterWay::Own => {
                let source = self.faces.get(&from)?;
                let zid = self.network.get(to)?.zid;
                if !self.speaks_for(source) || source.gateways.contains(&zid) {
                    return None;
                }
                OWN
            }
            RouterWay::Along(root) => root,
            RouterWay::Astray(_) => return None,
        };
        let hop = self.network.next_hop(root, to).filter(|hop| *hop != from)?;
        Some((hop, root))
    }

    // ---- own declarations ----

    /// Updates the declaration of `key` by this node in the network.
    pub(super) fn refresh_own(&mut self, kind: EntityKind, key: &KeyExpr) {
        if self.config.mode != NodeMode::Router {
            return;
        }
        let offer = self.tables.exact(key).and_then(|resource| self.own_offer(kind, resource));
        let announced = &mut self.network.announced[kind as usize];
        if announced.get(key).copied() == offer {
            return;
        }
        match offer {
            Some(info) => announced.insert(key.clone(), info),
            None => announced.remove(key),
        };
        if self.network.is_alone() {
            return;
        }
        let (zid, now) = (self.config.zid, self.mono);
        if offer.is_none() {
            self.network.withdrawn.insert(now, zid, kind, key);
        }
        self.pass_on(None, Sourced { origin: OWN, kind, key, info: offer });
    }

    /// Declaration of this node for all its faces together.
    fn own_offer(&self, kind: EntityKind, resource: &Resource) -> Option<QueryableInfo> {
        let spoken_for = |id: &FaceId| {
            let face = self.faces.get(id);
            face.is_some_and(|face| match face.region {
                Region::Clients | Region::Peers => self.speaks_for(face),
                Region::Members => kind == EntityKind::Token,
                Region::Group | Region::Routers => false,
            })
        };
        resource.entities(kind).filter(|(id, _)| spoken_for(id)).map(|(_, info)| info).reduce(merge)
    }

    // ---- declarations of other routers ----

    /// Handles D_* and U_* of a router: they name the router that they are about.
    pub(super) fn handle_sourced(&mut self, from: FaceId, declare: Declare) -> Result<(), FaceError> {
        let origin = self.network.meaning(from, declare.node_id).filter(|origin| *origin != OWN);
        let change = EntityChange::of(declare.body);
        // Ids are always 0 between routers: a withdrawal without key has no meaning.
        let (Some(origin), Some(EntityChange { kind, key: Some(key), info, .. })) =
            (origin, change.filter(|change| change.key.as_ref().is_some_and(|key| !key.is_empty())))
        else {
            self.stats.ignored += 1;
            return Ok(());
        };
        let Some(key) = self.faces.get(&from).and_then(|face| face.resolve_owned(&key)) else {
            self.stats.invalid_keys += 1;
            return Ok(());
        };
        let sourced = Sourced { origin, kind, key: &key, info };
        match info {
            Some(info) => self.sourced(from, sourced, info),
            None => {
                self.unsourced(from, sourced);
                Ok(())
            }
        }
    }

    fn sourced(&mut self, from: FaceId, sourced: Sourced<'_>, info: QueryableInfo) -> Result<(), FaceError> {
        let Sourced { origin, kind, key, .. } = sourced;
        let Some(router) = self.network.get_mut(origin) else { return Ok(()) };
        let known = self.tables.find(key).is_some_and(|id| router.declares(kind, id));
        if !known {
            let (needed, bound) =
                (self.network.table_bytes + Cost::of(key).bytes, self.config.limits.network_bytes);
            if needed > bound {
                return Err(FaceError::TableFull { needed, bound });
            }
            self.network.table_bytes = needed;
        }
        let (id, before) = self.tables.insert(key, kind, Holder::Router(origin), info);
        if before == Some(info) {
            return Ok(());
        }
        if let Some(router) = self.network.get_mut(origin) {
            router.entities[kind as usize].insert(id);
        }
        self.changed_far(kind, key);
        self.pass_on(Some(from), sourced);
        Ok(())
    }

    fn unsourced(&mut self, from: FaceId, sourced: Sourced<'_>) {
        let Sourced { origin, kind, key, .. } = sourced;
        let Some(router) = self.network.get_mut(origin) else { return };
        let zid = router.zid;
        let id = self.tables.find(key).filter(|id| router.entities[kind as usize].remove(id));
        if let Some(id) = id {
            self.tables.remove(id, kind, Holder::Router(origin));
            self.network.table_bytes -= Cost::of(key).bytes;
            self.changed_far(kind, key);
        }
        // Routers further out may have a declaration that this node never received.
        if self.network.withdrawn.insert(self.mono, zid, kind, key) || id.is_some() {
            self.pass_on(Some(from), sourced);
        }
    }

    /// Handles that an entity of `kind` on `key` appeared at a router, changed or vanished.
    fn changed_far(&mut self, kind: EntityKind, key: &KeyExpr) {
        if kind == EntityKind::Subscriber {
            self.version += 1;
        }
        let mut concerned = Vec::new();
        for (id, face) in self.faces.iter().filter(|(_, face)| !face.in_network()) {
            concerned.extend(face.concerned(kind, key).into_iter().map(|key| (*id, key)));
        }
        for (to, key) in concerned {
            self.refresh(to, kind, &key);
        }
    }

    /// Sends a declaration or withdrawal to the children in the tree of its router.
    fn pass_on(&mut self, from: Option<FaceId>, sourced: Sourced<'_>) {
        let Sourced { origin, kind, key, info } = sourced;
        if info.is_some() {
            self.network.declared_again(origin, kind, key);
        }
        for to in self.network.told(origin).into_iter().filter(|to| Some(*to) != from) {
            self.send_sourced(to, sourced);
        }
    }

    fn send_sourced(&mut self, to: FaceId, Sourced { origin, kind, key, info }: Sourced<'_>) {
        let Some(face) = self.faces.get(&to) else { return };
        let key: WireExpr = face.wire_expr(key);
        let body = match info {
            Some(info) => kind.declaration(0, key, info),
            None => kind.undeclaration(0, Some(key)),
        };
        self.send(to, NetworkMessage::Declare(Declare { node_id: origin, ..Declare::new(None, body) }));
    }

    // ---- changes of the network ----

    /// Carries out the consequences of a change of the network.
    pub(super) fn apply(&mut self, changes: Changes) {
        for (faces, list) in changes.send {
            let oam = Oam::new(Oam::LINK_STATE, ExtBody::ZBuf(list.encode()));
            faces.into_iter().for_each(|to| self.send(to, NetworkMessage::Oam(oam.clone())));
        }
        let mut members: BTreeSet<ZenohId> = changes.added.into_iter().collect();
        if !changes.removed.is_empty() {
            self.version += 1;
        }
        for (ix, router) in changes.removed {
            members.insert(router.zid);
            for kind in EntityKind::ALL {
                for id in &router.entities[kind as usize] {
                    let Some(key) = self.tables.get(*id).map(|resource| resource.key.clone()) else {
                        continue;
                    };
                    self.tables.remove(*id, kind, Holder::Router(ix));
                    self.network.table_bytes -= Cost::of(&key).bytes;
                    self.changed_far(kind, &key);
                }
            }
        }
        if members.is_empty() {
            return;
        }
        let served = self.faces_where(|_, face| !face.gateways.is_disjoint(&members));
        served.into_iter().for_each(|face| self.gateways_changed(face));
    }

    /// Handles a change of a peer's gateways in the network: another router may represent it.
    pub(super) fn gateways_changed(&mut self, of: FaceId) {
        self.version += 1;
        let Some(face) = self.faces.get(&of) else { return };
        let mut own = BTreeSet::new();
        for kind in EntityKind::ALL {
            let resources = face.entities[kind as usize].values().filter_map(|id| self.tables.get(*id));
            own.extend(resources.map(|resource| (kind, resource.key.clone())));
        }
        let mut far = BTreeSet::new();
        for resource in self.tables.all() {
            for kind in EntityKind::ALL.into_iter().filter(|kind| resource.routers(*kind).next().is_some()) {
                far.extend(face.concerned(kind, &resource.key).into_iter().map(|key| (kind, key)));
            }
        }
        for (kind, key) in own {
            self.refresh_own(kind, &key);
        }
        for (kind, key) in far {
            self.refresh(of, kind, &key);
        }
    }

    /// Computes the trees, if due, and sends new children all declarations for their branch.
    pub(super) fn grow_trees(&mut self, now: Now) {
        let answers = self.network.answer_claims(now.mono);
        self.apply(answers);
        let news = self.network.tell_in_time(now.mono);
        self.apply(news);
        let Some(mut changes) = self.network.handle_timeout(now.mono) else { return };
        let fresh = core::mem::take(&mut changes.fresh);
        self.version += 1;
        self.apply(changes);
        for (origin, faces) in fresh {
            let all = self.declared(origin);
            for to in faces {
                for (kind, key, info) in &all {
                    self.send_sourced(to, Sourced { origin, kind: *kind, key, info: *info });
                }
            }
        }
    }

    /// Declarations of a router, and its recent withdrawals.
    fn declared(&self, origin: RouterIx) -> Vec<(EntityKind, KeyExpr, Option<QueryableInfo>)> {
        let Some(router) = self.network.get(origin) else { return Vec::new() };
        let ended = self.network.withdrawn.of(router.zid).map(|(kind, key)| (kind, key.clone(), None));
        let mut all: Vec<_> = ended.collect();
        for kind in EntityKind::ALL {
            if origin == OWN {
                let own = &self.network.announced[kind as usize];
                all.extend(own.iter().map(|(key, info)| (kind, key.clone(), Some(*info))));
                continue;
            }
            for resource in router.entities[kind as usize].iter().filter_map(|id| self.tables.get(*id)) {
                let info = resource.router(kind, origin);
                all.extend(info.map(|info| (kind, resource.key.clone(), Some(info))));
            }
        }
        all
    }

    pub(super) fn send_link_state(&mut self, to: FaceId, list: &LinkStateList) {
        let oam = Oam::new(Oam::LINK_STATE, ExtBody::ZBuf(list.encode()));
        self.send(to, NetworkMessage::Oam(oam));
    }
}
