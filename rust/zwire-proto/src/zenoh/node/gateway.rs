//! A peer and its gateway, a router (`zenoh-behaviour` 4.4, 4.5, 5.5).
//!
//! The router sends a peer no unrequested declarations, so the interests of the peer's clients are
//! forwarded to it, and the declarations it sends in answer count like those of any face. Data and
//! queries go to it unless it has answered, for exactly that key, that there is no matching entity.

use super::{
    FaceId, Node, NodeMode,
    face::{Face, Forwarded, Region, Watch, relays},
    tables::FaceEntity,
};
use crate::zenoh::{
    KeyExpr,
    entity::EntityKind,
    wire::{Interest, InterestMode, InterestOptions, NetworkMessage, WireExpr},
};

pub(super) enum Fate {
    /// Store it in the tables.
    Keep,
    /// Forward it to this face as the answer to its interest with this id, which asks for current
    /// declarations only. The declaration is not stored, because its end will not be sent.
    PassOn(FaceId, u32),
    /// Drop it: the interest it answers has ended.
    Ignore,
}

impl Face {
    /// Whether the face must be assumed to have a match for `key` without a declaration.
    pub(super) fn may_want(&self, kind: EntityKind, key: &KeyExpr) -> bool {
        if self.region == Region::Group {
            // A member announces itself every 2.5 s, so a group without any may have some that hear this node.
            let may_hear = self.in_group.wanted || !self.in_group.peopled;
            return may_hear && kind == EntityKind::Subscriber;
        }
        if self.is_gateway() {
            // A missing declaration means "no entity" only for a key that was asked for.
            let silent = |f: &Forwarded| {
                f.finished && f.watch.kinds[kind as usize] && f.watch.key.as_ref() == Some(key)
            };
            return !self.forwarded.values().any(silent);
        }
        !self.finalized
    }

    pub(super) fn is_gateway(&self) -> bool {
        self.region == Region::Routers && self.told_all
    }
}

impl Node {
    /// Forwards the interest of `asker` to all gateways. Returns those that will answer.
    pub(super) fn forward_interest(
        &mut self,
        asker: FaceId,
        id: u32,
        mode: InterestMode,
        watch: &Watch,
    ) -> Vec<FaceId> {
        if self.config.mode != NodeMode::Peer {
            return Vec::new();
        }
        let gateways = self.faces_where(|_, face| face.is_gateway());
        for gateway in &gateways {
            self.ask_gateway(*gateway, asker, id, mode, watch.clone());
        }
        gateways
    }

    /// Forwards all interests of the clients to a new gateway.
    pub(super) fn ask_all(&mut self, gateway: FaceId) {
        let wishes: Vec<_> = self
            .faces
            .iter()
            .filter(|(_, face)| face.region == Region::Clients)
            .flat_map(|(asker, face)| face.watches.iter().map(|(id, watch)| (*asker, *id, watch.clone())))
            .collect();
        for (asker, id, watch) in wishes {
            self.ask_gateway(gateway, asker, id, InterestMode::CurrentFuture, watch);
        }
    }

    fn ask_gateway(&mut self, gateway: FaceId, asker: FaceId, id: u32, mode: InterestMode, watch: Watch) {
        let Some(face) = self.faces.get_mut(&gateway) else { return };
        let own_id = face.new_id();
        let wanted = EntityKind::ALL.into_iter().filter(|kind| watch.kinds[*kind as usize]);
        let options = wanted.fold(InterestOptions::default(), |options, kind| options | kind.option());
        let key = watch.key.as_ref().map(|key| face.wire_expr(key));
        face.forwarded.insert(own_id, Forwarded { asker, id, mode, watch, finished: false });
        self.send(gateway, NetworkMessage::Interest(Interest::new(own_id, mode, options, key)));
    }

    /// Ends forwarded interests of `asker`: one, or with `None` all.
    pub(super) fn withdraw_forwarded(&mut self, asker: FaceId, id: Option<u32>) {
        for gateway in self.faces_where(|_, face| face.is_gateway()) {
            let Some(face) = self.faces.get_mut(&gateway) else { continue };
            let ended = |f: &Forwarded| f.asker == asker && id.is_none_or(|id| f.id == id);
            let own = face.forwarded.iter().filter(|(_, f)| ended(f));
            let own: Vec<(u32, bool)> = own.map(|(own, f)| (*own, f.mode.future())).collect();
            if own.is_empty() {
                continue;
            }
            face.forwarded.retain(|_, f| !ended(f));
            for (own, _) in own.into_iter().filter(|(_, future)| *future) {
                self.send(gateway, NetworkMessage::Interest(Interest::finished(own)));
            }
            self.version += 1;
            self.forget_unasked(gateway);
        }
    }

    /// Removes declarations that no forwarded interest covers any more: their end will not be sent.
    fn forget_unasked(&mut self, gateway: FaceId) {
        let Some(face) = self.faces.get(&gateway) else { return };
        let mut unasked: Vec<(EntityKind, FaceEntity)> = Vec::new();
        for kind in EntityKind::ALL {
            for (entity, resource) in &face.entities[kind as usize] {
                let key = self.tables.get(*resource).map(|resource| &resource.key);
                let asked = |key: &KeyExpr| {
                    face.forwarded.values().any(|f| f.mode.future() && f.watch.covers(kind, key))
                };
                if !key.is_some_and(asked) {
                    unasked.push((kind, *entity));
                }
            }
        }
        for (kind, entity) in unasked {
            self.remove_entity(gateway, kind, entity);
        }
    }

    /// Handles D_FINAL of a gateway for interest `id`. Returns whether it was awaited.
    pub(super) fn handle_gateway_final(&mut self, gateway: FaceId, id: u32) -> bool {
        let Some(face) = self.faces.get_mut(&gateway) else { return false };
        let Some(forwarded) = face.forwarded.get_mut(&id) else { return false };
        forwarded.finished = true;
        let asker = (forwarded.asker, forwarded.id);
        if forwarded.mode == InterestMode::Current {
            face.forwarded.remove(&id);
        }
        self.version += 1;
        self.stop_waiting(asker, gateway);
        true
    }

    /// Drops an interest in current declarations that took too long: late answers are not forwarded.
    pub(super) fn forget_current(&mut self, asker: FaceId, id: u32) {
        for face in self.faces.values_mut() {
            face.forwarded.retain(|_, f| f.mode != InterestMode::Current || (f.asker, f.id) != (asker, id));
        }
    }

    /// Handling of a declaration of `from` that answers `interest_id`.
    pub(super) fn fate_of_answer(&self, from: FaceId, interest_id: Option<u32>) -> Fate {
        let (Some(face), Some(id)) = (self.faces.get(&from), interest_id) else { return Fate::Keep };
        if !face.is_gateway() {
            // zenoh-pico marks all its first declarations as answers to interest 0.
            return Fate::Keep;
        }
        match face.forwarded.get(&id) {
            None => Fate::Ignore,
            Some(f) if f.mode == InterestMode::Current => Fate::PassOn(f.asker, f.id),
            Some(_) => Fate::Keep,
        }
    }

    /// Forwards the end of an undeclared entity, for faces that asked for future declarations only.
    pub(super) fn pass_on_withdrawal(&mut self, from: FaceId, kind: EntityKind, key: &KeyExpr) {
        let Some(source) = self.faces.get(&from).filter(|face| face.is_gateway()) else { return };
        let told = self.faces_where(|id, face| {
            relays(self.config.mode, (from, source), (id, face))
                && !face.told_all
                && face.watches_key(kind, key)
                && self.word((id, face), kind, key).is_none()
        });
        for to in told {
            let key = Some(WireExpr::full(key.text().as_str()));
            self.send_declare(to, None, kind.undeclaration(0, key));
        }
    }
}
