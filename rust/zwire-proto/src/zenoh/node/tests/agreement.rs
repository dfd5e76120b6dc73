//! Invariants that hold between the routers of a network.

use super::{network::World, *};
use crate::zenoh::{KeyExpr, entity::EntityKind};
use std::collections::BTreeMap;

impl World {
    /// Every parent in a tree lists its child.
    pub(super) fn check_trees(&mut self) {
        let routers: Vec<usize> = (0..self.fabric.nodes.len()).filter(|n| self.is_router(*n)).collect();
        let by_zid: BTreeMap<ZenohId, usize> =
            routers.iter().map(|n| (self.fabric.nodes[*n].config().zid, *n)).collect();
        let components = self.components();
        for (root, top) in &by_zid {
            for (zid, node) in &by_zid {
                let place = self.fabric.nodes[*node].network.place_in(*root);
                if components[*top] != components[*node] {
                    assert_eq!(place, None, "{zid} knows nothing of {root}, which is elsewhere");
                    continue;
                }
                let (parent, _) = place.unwrap_or_else(|| panic!("{zid} knows {root}"));
                assert_eq!(parent.is_none(), zid == root, "{zid} has a way to {root}");
                if let Some(parent) = parent {
                    let above = &mut self.fabric.nodes[by_zid[&parent]].network;
                    assert!(above.place_in(*root).is_some_and(|(_, children)| children.contains(zid)));
                }
            }
        }
    }

    /// A router has exactly the declarations that the other router made.
    pub(super) fn check_tables(&self) {
        let components = self.components();
        let routers: Vec<usize> = (0..self.fabric.nodes.len()).filter(|n| self.is_router(*n)).collect();
        for (near, far) in routers.iter().flat_map(|a| routers.iter().map(move |b| (*a, *b))) {
            if near == far || components[near] != components[far] {
                continue;
            }
            let (node, other) = (&self.fabric.nodes[near], &self.fabric.nodes[far]);
            let ix = node.network.number(other.config().zid).expect("they know each other");
            for kind in EntityKind::ALL {
                let known: BTreeMap<&KeyExpr, QueryableInfo> = node
                    .tables
                    .all()
                    .filter_map(|resource| Some((&resource.key, resource.router(kind, ix)?)))
                    .collect();
                let said: BTreeMap<&KeyExpr, QueryableInfo> =
                    other.network.announced[kind as usize].iter().map(|(key, info)| (key, *info)).collect();
                assert_eq!(known, said, "{near} of {far}");
            }
        }
    }
}
