//! Declarations: those of a face enter the tables and are forwarded to the faces concerned
//! (`zenoh-behaviour` 4.1, 4.2, `zenoh-wire` 4.7).

use super::{
    FaceError, FaceId, Node,
    budget::{QUICK, compare_ns},
    face::{Announced, Face, FaceRef, Region, Watch, relays},
    gateway::Fate,
    tables::{FaceEntity, Holder, Resource, merge},
};
use crate::zenoh::{
    KeyExpr,
    entity::{EntityChange, EntityKind},
    wire::{Declaration, Declare, NetworkMessage, QueryableInfo, WireExpr},
};
use std::collections::BTreeSet;

impl Node {
    pub(super) fn handle_declare(&mut self, from: FaceId, declare: Declare) -> Result<(), FaceError> {
        let Some(face) = self.faces.get_mut(&from) else { return Err(FaceError::UnknownFace) };
        if face.in_network()
            && !matches!(declare.body, Declaration::KeyExpr { .. } | Declaration::UndeclareKeyExpr { .. })
        {
            return self.handle_sourced(from, declare);
        }
        let (member, interest_id) = (face.region == Region::Members, declare.interest_id);
        let changed = match declare.body {
            Declaration::KeyExpr { id, key } => match face.resolve_owned(&key) {
                Some(key) => face.declare_key(id, key, &mut self.budget, &self.config.limits)?,
                None => {
                    self.stats.invalid_keys += 1;
                    return Ok(());
                }
            },
            Declaration::UndeclareKeyExpr { id } => face.undeclare_key(id, &mut self.budget),
            Declaration::Final => {
                self.handle_final_declaration(from, interest_id);
                return Ok(());
            }
            // A member of a group cannot be queried.
            Declaration::Queryable { .. } if member => false,
            body => match EntityChange::of(body) {
                Some(EntityChange { kind, id, key: Some(key), info: Some(info) }) => {
                    return self.declare(from, interest_id, kind, id, &key, info);
                }
                Some(EntityChange { kind, id, key, .. }) => {
                    self.undeclare(from, kind, id, key.as_ref());
                    return Ok(());
                }
                None => false,
            },
        };
        if changed {
            self.version += 1;
        } else {
            self.stats.ignored += 1;
        }
        Ok(())
    }

    pub(super) fn declare(
        &mut self,
        from: FaceId,
        interest_id: Option<u32>,
        kind: EntityKind,
        id: u32,
        key: &WireExpr,
        info: QueryableInfo,
    ) -> Result<(), FaceError> {
        let Some(face) = self.faces.get_mut(&from) else { return Err(FaceError::UnknownFace) };
        let Some(key) = face.resolve_owned(key) else {
            self.stats.invalid_keys += 1;
            return Ok(());
        };
        match self.fate_of_answer(from, interest_id) {
            Fate::Keep => {}
            Fate::PassOn(asker, id) => {
                self.send_declaration(asker, Some(id), kind, 0, &key, info);
                return Ok(());
            }
            Fate::Ignore => {
                self.stats.ignored += 1;
                return Ok(());
            }
        }
        let Some(face) = self.faces.get_mut(&from) else { return Err(FaceError::UnknownFace) };
        let same = face
            .entities_with_id(kind, id)
            .find(|(_, resource)| self.tables.get(*resource).is_some_and(|r| r.key == key));
        let entity = match same {
            // The same id with the same key is an update of the info, otherwise without effect.
            Some((entity, _)) => entity,
            // The same id with another key: both live, and U_* removes the second. The first stays
            // until the face goes, as in Eclipse Zenoh.
            None => {
                let nth =
                    face.entities_with_id(kind, id).next_back().map_or(0, |(e, _)| e.nth.saturating_add(1));
                self.budget.charge(&mut face.account, &key, &self.config.limits)?;
                FaceEntity { id, nth }
            }
        };
        let (resource, _) = self.tables.insert(&key, kind, Holder::Face(from, entity), info);
        face.entities[kind as usize].insert(entity, resource);
        self.changed(from, kind, &key);
        Ok(())
    }

    fn undeclare(&mut self, from: FaceId, kind: EntityKind, id: u32, key: Option<&WireExpr>) {
        let Some(face) = self.faces.get_mut(&from) else { return };
        // The empty key in the extension means the id.
        let key = key.filter(|key| !key.is_empty()).map(|key| face.resolve(key).ok_or(()));
        let Ok(key) = key.transpose() else {
            self.stats.invalid_keys += 1;
            return;
        };
        let found = face.entities_with_id(kind, id).rev().find(|(_, resource)| {
            key.as_ref().is_none_or(|key| self.tables.get(*resource).is_some_and(|r| r.key == *key))
        });
        match found {
            Some((entity, _)) => self.remove_entity(from, kind, entity),
            None => {
                self.stats.ignored += 1;
                if let Some(key) = key {
                    self.pass_on_withdrawal(from, kind, &key);
                }
            }
        }
    }

    pub(super) fn remove_entity(&mut self, from: FaceId, kind: EntityKind, entity: FaceEntity) {
        let Some(face) = self.faces.get_mut(&from) else { return };
        let Some(id) = face.entities[kind as usize].remove(&entity) else { return };
        let Some(key) = self.tables.get(id).map(|resource| resource.key.clone()) else { return };
        self.budget.refund(&mut face.account, &key);
        self.tables.remove(id, kind, Holder::Face(from, entity));
        self.changed(from, kind, &key);
    }

    /// Calls [`Self::changed_at`] for a face that is still open.
    fn changed(&mut self, from: FaceId, kind: EntityKind, key: &KeyExpr) {
        self.changed_at(Some(from), kind, key);
    }

    /// Invalidates routes and updates interested faces after an entity at `from` came, changed or went; `None`:
    /// at a face that is gone.
    pub(super) fn changed_at(&mut self, from: Option<FaceId>, kind: EntityKind, key: &KeyExpr) {
        if kind == EntityKind::Subscriber {
            self.version += 1;
        }
        let source = from.and_then(|from| Some((from, self.faces.get(&from)?)));
        if from.is_some() && source.is_none() {
            return;
        }
        let mut concerned = Vec::new();
        for (id, face) in &self.faces {
            if source.is_none_or(|source| self.tells(kind, source, (*id, face))) {
                let watched = if key.len() > QUICK { face.watched_bytes } else { face.watched_slow_bytes };
                // Twice: to find the keys that are concerned, and to update each.
                self.tables.note_work(2 * compare_ns(watched, key.len()));
                concerned.extend(face.concerned(kind, key).into_iter().map(|key| (*id, key)));
            }
        }
        for (to, key) in concerned {
            self.refresh(to, kind, &key);
        }
        self.refresh_own(kind, key);
    }

    /// Handles that the entities of `from` are forwarded to `to` from now on, or no longer.
    pub(super) fn relation_changed(&mut self, from: FaceId, to: FaceId) {
        self.version += 1;
        let (Some(source), Some(target)) = (self.faces.get(&from), self.faces.get(&to)) else { return };
        let mut concerned = BTreeSet::new();
        for kind in EntityKind::ALL {
            for resource in source.entities[kind as usize].values().filter_map(|id| self.tables.get(*id)) {
                concerned.extend(target.concerned(kind, &resource.key).into_iter().map(|key| (kind, key)));
            }
        }
        for (kind, key) in concerned {
            self.refresh(to, kind, &key);
        }
    }

    /// Whether `to` is sent the declarations of `from`; a client its own tokens, too (4.3, 9.4 g).
    fn tells(&self, kind: EntityKind, from: FaceRef<'_>, to: FaceRef<'_>) -> bool {
        if from.0 == to.0 {
            return kind == EntityKind::Token && to.1.region == Region::Clients;
        }
        if kind == EntityKind::Queryable && to.1.region == Region::Group {
            return false;
        }
        relays(self.config.mode, from, to)
    }

    /// Entities of `kind` on one resource that `to` is told of, one by one.
    fn audible(
        &self,
        to: FaceRef<'_>,
        kind: EntityKind,
        resource: &Resource,
    ) -> impl Iterator<Item = QueryableInfo> {
        let told =
            move |from: &FaceId| self.faces.get(from).is_some_and(|face| self.tells(kind, (*from, face), to));
        let near = resource.entities(kind).filter(move |(from, _)| told(from)).map(|(_, info)| info);
        let far = resource.routers(kind).filter(move |(router, _)| self.hears(Some(*router), to.1));
        near.chain(far.map(|(_, info)| info))
    }

    /// Declaration of one resource for `to`: the infos of all other faces' entities on it, merged.
    pub(super) fn offer(
        &self,
        to: FaceRef<'_>,
        kind: EntityKind,
        resource: &Resource,
    ) -> Option<QueryableInfo> {
        self.audible(to, kind, resource).reduce(merge)
    }

    /// Declaration of `key` for `to` if it wants a single one for all keys that intersect: complete
    /// only if a complete queryable includes `key`.
    pub(super) fn aggregate_offer(
        &self,
        to: FaceRef<'_>,
        kind: EntityKind,
        key: &KeyExpr,
    ) -> Option<QueryableInfo> {
        self.tables
            .matching(key)
            .flat_map(|resource| {
                let includes = resource.key.includes(key);
                self.audible(to, kind, resource)
                    .map(move |info| QueryableInfo { complete: info.complete && includes, ..info })
            })
            .reduce(merge)
    }

    /// Number of declarations of other faces that intersect `key` and that `of` would be told of:
    /// counted one by one, although they are sent merged.
    #[must_use]
    pub fn count_matching(&self, of: FaceId, queryables: bool, key: &KeyExpr, only_complete: bool) -> usize {
        let Some(face) = self.faces.get(&of) else { return 0 };
        let kind = if queryables { EntityKind::Queryable } else { EntityKind::Subscriber };
        let counts = |resource: &Resource| {
            let includes = !only_complete || resource.key.includes(key);
            let infos = self.audible((of, face), kind, resource);
            infos.filter(|info| includes && (info.complete || !only_complete)).count()
        };
        self.tables.matching(key).map(counts).sum()
    }

    /// All declarations for `to`, restricted to keys that intersect `key`, sorted by key.
    pub(super) fn offers(
        &self,
        to: FaceRef<'_>,
        kind: EntityKind,
        key: Option<&KeyExpr>,
    ) -> Vec<(KeyExpr, QueryableInfo)> {
        let offer =
            |resource: &Resource| self.offer(to, kind, resource).map(|info| (resource.key.clone(), info));
        match key {
            Some(key) => {
                let mut offers: Vec<_> = self.tables.matching(key).filter_map(offer).collect();
                offers.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                offers
            }
            None => self.tables.all().filter_map(offer).collect(),
        }
    }

    /// Declaration of `key` for `to` in view of all its interests, ended ones too: of the key itself
    /// and, if `to` asked for aggregation, of all keys that intersect it.
    pub(super) fn word(&self, to: FaceRef<'_>, kind: EntityKind, key: &KeyExpr) -> Option<QueryableInfo> {
        let exact = (to.1.watches_key(kind, key) || to.1.was_told(kind, key))
            .then(|| self.tables.exact(key).and_then(|resource| self.offer(to, kind, resource)));
        let aggregate = to.1.watches_aggregate(kind, key).then(|| self.aggregate_offer(to, kind, key));
        [exact, aggregate].into_iter().flatten().flatten().reduce(merge)
    }

    /// Updates the declaration of `key` that `to` has.
    pub(super) fn refresh(&mut self, to: FaceId, kind: EntityKind, key: &KeyExpr) {
        let Some(face) = self.faces.get(&to) else { return };
        let offer = self.word((to, face), kind, key);
        let known = face.announced[kind as usize].get(key).copied();
        match (known, offer) {
            (None, None) => {}
            (Some(known), Some(info)) if known.info == info => {}
            (_, Some(info)) => self.announce(to, None, kind, key, info),
            (Some(known), None) => self.withdraw(to, kind, key, known),
        }
    }

    /// Declares `key` to `to`, as the answer to an interest or spontaneously, under an id that stays.
    pub(super) fn announce(
        &mut self,
        to: FaceId,
        interest_id: Option<u32>,
        kind: EntityKind,
        key: &KeyExpr,
        info: QueryableInfo,
    ) {
        let Some(face) = self.faces.get_mut(&to) else { return };
        let known = face.announced[kind as usize].get(key).copied();
        let id = known.and_then(|known| known.id).unwrap_or_else(|| face.new_id());
        let exact = known.is_some_and(|known| known.exact) || face.watches_key(kind, key);
        if face.announced[kind as usize]
            .insert(key.clone(), Announced { id: Some(id), info, exact })
            .is_none()
        {
            self.budget.announce(&mut face.account);
        }
        self.send_declaration(to, interest_id, kind, id, key, info);
    }

    pub(super) fn send_declaration(
        &mut self,
        to: FaceId,
        interest_id: Option<u32>,
        kind: EntityKind,
        id: u32,
        key: &KeyExpr,
        info: QueryableInfo,
    ) {
        let Some(face) = self.faces.get(&to) else { return };
        let key = face.wire_expr(key);
        self.send_declare(to, interest_id, kind.declaration(id, key, info));
    }

    /// Undeclares `key` at `to`: by id, or by key if `to` never got the id. The extension has the form
    /// that Eclipse Zenoh writes (`zenoh-behaviour` 3.10).
    fn withdraw(&mut self, to: FaceId, kind: EntityKind, key: &KeyExpr, known: Announced) {
        let Some(face) = self.faces.get_mut(&to) else { return };
        if face.announced[kind as usize].remove(key).is_some() {
            self.budget.withdraw(&mut face.account, 1);
        }
        let (id, key) = match (known.id, kind) {
            (Some(id), EntityKind::Subscriber) => (id, None),
            (Some(id), _) => (id, Some(WireExpr::EMPTY)),
            (None, _) => (0, Some(WireExpr::full(key.text().clone()))),
        };
        self.send_declare(to, None, kind.undeclaration(id, key));
    }

    pub(super) fn send_declare(&mut self, to: FaceId, interest_id: Option<u32>, body: Declaration) {
        self.send(to, NetworkMessage::Declare(Declare::new(interest_id, body)));
    }

    /// Sends a neighbour in a mesh all declarations that it needs. `false`: the rest follows in steps, and then
    /// D_FINAL.
    pub(super) fn tell_all(&mut self, to: FaceId) -> bool {
        let watch = Watch { kinds: [true; 3], key: None, aggregate: false };
        // A neighbour that may not be told of all is no reason to close a link of the mesh.
        if self.is_long_answer(&watch) && self.answer_gradually(to, None, watch, Vec::new()).is_ok() {
            return false;
        }
        let Some(face) = self.faces.get(&to) else { return true };
        let all = EntityKind::ALL.map(|kind| (kind, self.offers((to, face), kind, None)));
        for (kind, offers) in all {
            offers.iter().for_each(|(key, info)| self.announce(to, None, kind, key, *info));
        }
        true
    }

    pub(super) fn withdraw_all(&mut self, from: FaceId) {
        for kind in EntityKind::ALL {
            let first = |face: &Face| Some(*face.entities[kind as usize].first_key_value()?.0);
            while let Some(entity) = self.faces.get(&from).and_then(first) {
                self.remove_entity(from, kind, entity);
            }
        }
    }
}
