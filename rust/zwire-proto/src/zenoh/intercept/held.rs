//! [`Held`]: refused declarations of a peer, which a later change of the rules may let in.

use super::SubjectKey;
use crate::zenoh::{
    KeyExpr,
    entity::{EntityChange, EntityKind},
    wire::{Declaration, Declare, Interest, InterestMode, NetworkMessage, QueryableInfo, WireExpr},
};
use std::collections::BTreeMap;

/// Most refused declarations and interests of one link. A program has some tens; 1,000 hostile links hold 0.2 GB
/// together with the bound of their keys.
pub(super) const MAX_HELD: usize = 1024;

/// Most bytes of keys of refused declarations and interests of one link.
const MAX_HELD_BYTES: usize = 64 << 10;

/// Refused declarations and interests of one peer, by the ids that it has given them.
#[derive(Debug, Default)]
pub(super) struct Held {
    entities: BTreeMap<(EntityKind, u32), (KeyExpr, QueryableInfo)>,
    interests: BTreeMap<u32, Interest>,
    bytes: usize,
    /// Declarations beyond the bounds: they come in only when the peer declares them again.
    pub(super) lost: u64,
}

fn length(interest: &Interest) -> usize {
    interest.key.as_ref().map_or(0, |key| key.suffix.len())
}

impl Held {
    fn has_room(&self, more: usize) -> bool {
        self.entities.len() + self.interests.len() < MAX_HELD && self.bytes + more <= MAX_HELD_BYTES
    }

    /// Keeps a refused message, if it declares something that lasts.
    pub(super) fn keep(&mut self, message: &NetworkMessage, key: &SubjectKey) {
        match (message, key) {
            (NetworkMessage::Declare(declare), SubjectKey::Known(key)) => {
                let change = EntityChange::of(declare.body.clone());
                let Some(EntityChange { kind, id, info: Some(info), .. }) = change else { return };
                self.drop_entity(kind, id);
                self.keep_entity(kind, id, key.unshared(), info);
            }
            (NetworkMessage::Interest(interest), SubjectKey::Known(_) | SubjectKey::All)
                if interest.mode.future() =>
            {
                let key = match key {
                    SubjectKey::Known(key) => Some(WireExpr::full(key.unshared().text().clone())),
                    _ => None,
                };
                self.drop_interest(interest.id);
                self.keep_interest(Interest { key, ..interest.clone() });
            }
            _ => {}
        }
    }

    fn keep_entity(&mut self, kind: EntityKind, id: u32, key: KeyExpr, info: QueryableInfo) {
        if self.has_room(key.len()) {
            self.bytes += key.len();
            self.entities.insert((kind, id), (key, info));
        } else {
            self.lost += 1;
        }
    }

    fn keep_interest(&mut self, interest: Interest) {
        if self.has_room(length(&interest)) {
            self.bytes += length(&interest);
            self.interests.insert(interest.id, interest);
        } else {
            self.lost += 1;
        }
    }

    fn drop_entity(&mut self, kind: EntityKind, id: u32) {
        if let Some((key, _)) = self.entities.remove(&(kind, id)) {
            self.bytes -= key.len();
        }
    }

    fn drop_interest(&mut self, id: u32) {
        if let Some(interest) = self.interests.remove(&id) {
            self.bytes -= length(&interest);
        }
    }

    /// Forgets the declaration or the interest that a message of the peer ends.
    pub(super) fn end(&mut self, message: &NetworkMessage) {
        if self.entities.is_empty() && self.interests.is_empty() {
            return;
        }
        match message {
            NetworkMessage::Interest(Interest { id, mode: InterestMode::Final, .. }) => {
                self.drop_interest(*id)
            }
            NetworkMessage::Declare(Declare { body, .. }) => match body {
                Declaration::UndeclareSubscriber { id, .. } => self.drop_entity(EntityKind::Subscriber, *id),
                Declaration::UndeclareQueryable { id, .. } => self.drop_entity(EntityKind::Queryable, *id),
                Declaration::UndeclareToken { id, .. } => self.drop_entity(EntityKind::Token, *id),
                _ => {}
            },
            _ => {}
        }
    }

    /// Splits into what stays refused, and messages of the peer for what `allowed` lets in.
    pub(super) fn release(
        self,
        allowed: impl Fn(EntityKind, &KeyExpr) -> bool,
        heard: impl Fn(Option<&KeyExpr>) -> bool,
    ) -> (Self, Vec<NetworkMessage>) {
        let (mut kept, mut free) = (Self { lost: self.lost, ..Self::default() }, Vec::new());
        for ((kind, id), (key, info)) in self.entities {
            if allowed(kind, &key) {
                let body = kind.declaration(id, WireExpr::full(key.text().clone()), info);
                free.push(NetworkMessage::Declare(Declare::new(None, body)));
            } else {
                kept.keep_entity(kind, id, key, info);
            }
        }
        for interest in self.interests.into_values() {
            let key = interest.key.as_ref().map(|key| KeyExpr::from_text(key.suffix.clone()));
            let key = key.transpose().ok().flatten();
            if heard(key.as_ref()) {
                // Its answer has been given. Present tokens are news for the peer; see `Node::tell_tokens`.
                let mode = InterestMode::Future;
                free.push(NetworkMessage::Interest(Interest { mode, ..interest }));
            } else {
                kept.keep_interest(interest);
            }
        }
        (kept, free)
    }
}
