//! Declarations of all faces, by key.

use super::{
    budget::{VISIT_NS, compare_ns},
    ids::{FaceId, RouterIx},
    trie::{Trie, shortest, shrink},
};
use crate::zenoh::{KeyExpr, entity::EntityKind, wire::QueryableInfo};
use core::cell::Cell;
use std::collections::BTreeMap;

/// A declaration of a face: its id, and a number that distinguishes keys declared under the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FaceEntity {
    pub(super) id: u32,
    pub(super) nth: u32,
}

/// Place of a declaration: an entity of a face, or another router with all nodes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    Face(FaceId, FaceEntity),
    Router(RouterIx),
}

/// A key with declarations.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) key: KeyExpr,
    /// Length of the shortest key that it matches.
    shortest: usize,
    holders: [BTreeMap<Holder, QueryableInfo>; 3],
}

impl Resource {
    /// Entities of `kind` on this key, by face; a face with several is listed several times.
    pub(super) fn entities(&self, kind: EntityKind) -> impl Iterator<Item = (FaceId, QueryableInfo)> {
        self.holders[kind as usize].iter().filter_map(|(holder, info)| match holder {
            Holder::Face(face, _) => Some((*face, *info)),
            Holder::Router(_) => None,
        })
    }

    /// Other routers with a declaration of `kind` on this key.
    pub(super) fn routers(&self, kind: EntityKind) -> impl Iterator<Item = (RouterIx, QueryableInfo)> {
        self.holders[kind as usize].iter().filter_map(|(holder, info)| match holder {
            Holder::Router(router) => Some((*router, *info)),
            Holder::Face(..) => None,
        })
    }

    pub(super) fn router(&self, kind: EntityKind, router: RouterIx) -> Option<QueryableInfo> {
        self.holders[kind as usize].get(&Holder::Router(router)).copied()
    }
}

pub(super) type ResourceId = u32;

#[derive(Debug)]
pub(super) struct Tables {
    resources: Vec<Option<Resource>>,
    free: Vec<ResourceId>,
    by_key: BTreeMap<KeyExpr, ResourceId>,
    trie: Trie,
    /// Estimated time of comparisons, in nanoseconds, since it was last taken.
    work: Cell<u64>,
}

impl Tables {
    pub(super) fn new() -> Self {
        Self {
            resources: Vec::new(),
            free: Vec::new(),
            by_key: BTreeMap::new(),
            trie: Trie::new(),
            work: Cell::new(0),
        }
    }

    /// Stores a declaration. Returns the previous info.
    pub(super) fn insert(
        &mut self,
        key: &KeyExpr,
        kind: EntityKind,
        holder: Holder,
        info: QueryableInfo,
    ) -> (ResourceId, Option<QueryableInfo>) {
        let id = self.find(key).unwrap_or_else(|| self.create(key.clone()));
        let resource = self.resources[id as usize].as_mut();
        (id, resource.and_then(|resource| resource.holders[kind as usize].insert(holder, info)))
    }

    /// Removes a declaration, and its resource if that was the last one on it.
    pub(super) fn remove(&mut self, id: ResourceId, kind: EntityKind, holder: Holder) {
        let Some(slot) = self.resources.get_mut(id as usize) else { return };
        let Some(resource) = slot else { return };
        resource.holders[kind as usize].remove(&holder);
        let is_bare = |resource: &mut Resource| resource.holders.iter().all(BTreeMap::is_empty);
        let Some(resource) = slot.take_if(is_bare) else { return };
        self.by_key.remove(&resource.key);
        self.trie.remove(&resource.key, resource.shortest, id);
        self.free.push(id);
    }

    /// Gives back the memory of keys that are gone.
    pub(super) fn shrink(&mut self) {
        shrink(&mut self.resources, &mut self.free);
        self.trie.shrink();
    }

    /// The number of the resource on exactly this key.
    pub(super) fn find(&self, key: &KeyExpr) -> Option<ResourceId> {
        self.by_key.get(key).copied()
    }

    pub(super) fn get(&self, id: ResourceId) -> Option<&Resource> {
        self.resources.get(id as usize)?.as_ref()
    }

    pub(super) fn exact(&self, key: &KeyExpr) -> Option<&Resource> {
        self.get(self.find(key)?)
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The numbers of the keys that may intersect `key`, or of all.
    pub(super) fn numbers(&self, key: Option<&KeyExpr>) -> Vec<ResourceId> {
        match key {
            Some(key) => {
                let candidates = self.trie.candidates(key);
                self.note_work(VISIT_NS * candidates.visited as u64);
                candidates.numbers
            }
            None => self.by_key.values().copied().collect(),
        }
    }

    /// All resources, by key.
    pub(super) fn all(&self) -> impl Iterator<Item = &Resource> {
        self.by_key.values().filter_map(|id| self.get(*id))
    }

    /// The resources with a key that intersects `key`, in no particular order.
    pub(super) fn matching(&self, key: &KeyExpr) -> impl Iterator<Item = &Resource> {
        let candidates = self.trie.candidates(key);
        self.note_work(VISIT_NS * candidates.visited as u64);
        let is_wild = key.is_wild();
        candidates.numbers.into_iter().filter_map(|id| self.get(id)).filter(move |resource| {
            let fast = !is_wild && !resource.key.is_wild();
            self.note_work(if fast { VISIT_NS } else { compare_ns(resource.key.len(), key.len()) });
            resource.key.intersects(key)
        })
    }

    /// Counts comparisons that are made elsewhere.
    pub(super) fn note_work(&self, nanoseconds: u64) {
        self.work.set(self.work.get().saturating_add(nanoseconds));
    }

    /// The time of comparisons since the last call, in nanoseconds.
    pub(super) fn take_work(&mut self) -> u64 {
        self.work.take()
    }

    fn create(&mut self, key: KeyExpr) -> ResourceId {
        let shortest = shortest(&key);
        let resource = Some(Resource { key: key.clone(), shortest, holders: Default::default() });
        let id = self.free.pop().unwrap_or_else(|| {
            self.resources.push(None);
            // Every resource costs a face more than 100 bytes of its budget.
            ResourceId::try_from(self.resources.len() - 1).expect("fewer than 2³² resources")
        });
        self.resources[id as usize] = resource;
        self.trie.insert(&key, shortest, id);
        self.by_key.insert(key, id);
        id
    }
}

/// Merges the infos of several queryables: complete if one is, and the distance of the nearest among
/// those that decide it (`zenoh-behaviour` 5.4).
pub(super) fn merge(a: QueryableInfo, b: QueryableInfo) -> QueryableInfo {
    match (a.complete, b.complete) {
        (true, false) => a,
        (false, true) => b,
        _ => QueryableInfo { complete: a.complete, distance: a.distance.min(b.distance) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> KeyExpr {
        KeyExpr::new(text).unwrap()
    }

    const FIRST: FaceEntity = FaceEntity { id: 1, nth: 0 };

    #[test]
    fn a_resource_lives_as_long_as_its_last_entity() {
        let mut tables = Tables::new();
        let info = QueryableInfo::default();
        let id = tables.insert(&key("a/*"), EntityKind::Subscriber, Holder::Face(FaceId(1), FIRST), info).0;
        assert_eq!(tables.insert(&key("a/*"), EntityKind::Token, Holder::Face(FaceId(2), FIRST), info).0, id);
        tables.remove(id, EntityKind::Subscriber, Holder::Face(FaceId(1), FIRST));
        assert_eq!(tables.matching(&key("a/b")).count(), 1);
        assert_eq!(tables.exact(&key("a/*")).unwrap().entities(EntityKind::Subscriber).count(), 0);
        tables.remove(id, EntityKind::Token, Holder::Face(FaceId(2), FIRST));
        assert!(tables.exact(&key("a/*")).is_none());
        assert_eq!(tables.matching(&key("a/b")).count(), 0);
        // The number is reused.
        assert_eq!(tables.insert(&key("b"), EntityKind::Token, Holder::Face(FaceId(2), FIRST), info).0, id);
    }

    #[test]
    fn keys_that_are_gone_give_their_memory_back() {
        let mut tables = Tables::new();
        let (info, holder) = (QueryableInfo::default(), Holder::Face(FaceId(1), FIRST));
        let ids: Vec<_> = (0..5000)
            .map(|n| tables.insert(&key(&format!("a{n}/b")), EntityKind::Token, holder, info).0)
            .collect();
        for (n, id) in ids.iter().enumerate().filter(|(n, _)| *n != 10) {
            assert!(tables.get(*id).is_some(), "{n}");
            tables.remove(*id, EntityKind::Token, holder);
        }
        tables.shrink();
        assert!(tables.resources.capacity() < 100 && tables.free.capacity() < 100);
        assert_eq!(tables.matching(&key("**")).count(), 1);
        let again: Vec<_> = (0..100)
            .map(|n| tables.insert(&key(&format!("a{n}/b")), EntityKind::Token, holder, info).0)
            .collect();
        assert_eq!(again.iter().collect::<std::collections::BTreeSet<_>>().len(), 100);
        assert_eq!(tables.matching(&key("*/b")).count(), 100);
    }

    #[test]
    fn merging_prefers_complete_then_near() {
        let info = |complete, distance| QueryableInfo { complete, distance };
        assert_eq!(merge(info(true, 9), info(false, 1)), info(true, 9));
        assert_eq!(merge(info(false, 1), info(true, 9)), info(true, 9));
        assert_eq!(merge(info(true, 9), info(true, 4)), info(true, 4));
        assert_eq!(merge(info(false, 3), info(false, 4)), info(false, 3));
    }
}
