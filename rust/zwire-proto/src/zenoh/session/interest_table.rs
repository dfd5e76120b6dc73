//! [`Interests`] of a session, and [`Declared`] by the north.

use std::collections::{BTreeMap, HashMap};

use super::{
    error::NorthError,
    limits::{MAX_DECLARATIONS, MAX_DECLARED_KEY_BYTES},
    types::EntityId,
};
use crate::zenoh::{KeyExpr, entity::EntityKind};

/// An interest of this session in declarations of the north.
#[derive(Debug)]
pub(super) struct NorthInterest {
    pub(super) kind: EntityKind,
    /// With the namespace.
    pub(super) key: KeyExpr,
    /// How many publishers or queriers share it.
    pub(super) users: usize,
    /// Of one in tokens: its subscriber. It is not shared, because each has a history of its own.
    pub(super) subscriber: Option<EntityId>,
    /// Whether its subscriber is told of existing tokens. They are asked for in any case, to be counted.
    pub(super) history: bool,
    /// Its id on this link; 0: not sent.
    pub(super) id: u32,
    /// Whether D_FINAL has come on this link.
    pub(super) answered: bool,
    /// How many declarations of the north intersect its key.
    pub(super) matches: usize,
    /// How many of those are complete and include it.
    pub(super) complete: usize,
}

/// Interests of this session, oldest first.
#[derive(Debug, Default)]
pub(super) struct Interests {
    pub(super) list: BTreeMap<u32, NorthInterest>,
    /// Those that publishers or queriers share, by kind.
    shared: [HashMap<KeyExpr, u32>; 2],
    /// From the ids of this link.
    pub(super) by_id: HashMap<u32, u32>,
    pub(super) last: u32,
}

impl Interests {
    pub(super) fn shared(&mut self, kind: EntityKind) -> Option<&mut HashMap<KeyExpr, u32>> {
        self.shared.get_mut(kind as usize)
    }

    pub(super) fn on(&self, kind: EntityKind, key: &KeyExpr) -> Option<&NorthInterest> {
        self.list.get(self.shared.get(kind as usize)?.get(key)?)
    }

    pub(super) fn by_id(&self, id: u32) -> Option<&NorthInterest> {
        self.list.get(self.by_id.get(&id)?)
    }

    pub(super) fn covers(&self, kind: EntityKind, key: &KeyExpr) -> bool {
        self.list.values().any(|interest| interest.kind == kind && interest.key.intersects(key))
    }

    pub(super) fn matched(&mut self, kind: EntityKind, key: &KeyExpr, complete: bool, up: bool) -> Vec<u32> {
        let mut turned = Vec::new();
        for (&number, interest) in &mut self.list {
            if interest.kind != kind || !interest.key.intersects(key) {
                continue;
            }
            let before = (interest.matches > 0, interest.complete > 0);
            let complete = usize::from(complete && key.includes(&interest.key));
            if up {
                interest.matches += 1;
                interest.complete += complete;
            } else {
                interest.matches -= 1;
                interest.complete -= complete;
            }
            if before != (interest.matches > 0, interest.complete > 0) {
                turned.push(number);
            }
        }
        turned
    }

    pub(super) fn link_lost(&mut self) {
        self.by_id.clear();
        for interest in self.list.values_mut() {
            interest.id = 0;
            interest.answered = false;
            interest.matches = 0;
            interest.complete = 0;
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }
}

/// The declarations of one kind of the north.
#[derive(Debug, Default)]
pub(super) struct Declared {
    by_id: HashMap<u32, (KeyExpr, bool)>,
    /// Those with id 0 are known by their key.
    by_key: HashMap<KeyExpr, bool>,
    bytes: usize,
}

impl Declared {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&KeyExpr, bool)> {
        let by_key = self.by_key.iter().map(|(key, &complete)| (key, complete));
        self.by_id.values().map(|(key, complete)| (key, *complete)).chain(by_key)
    }

    /// Notes a declaration; what was known under its name before is given back.
    pub(super) fn insert(
        &mut self,
        id: u32,
        key: &KeyExpr,
        complete: bool,
    ) -> Result<Option<(KeyExpr, bool)>, NorthError> {
        let (what, limit) = ("declared entities of a kind", MAX_DECLARATIONS);
        if self.by_id.len() + self.by_key.len() >= limit {
            return Err(NorthError { what, limit });
        }
        let old = self.remove(id, Some(key));
        self.bytes += key.len();
        if self.bytes > MAX_DECLARED_KEY_BYTES {
            let what = "bytes of keys of declared entities";
            return Err(NorthError { what, limit: MAX_DECLARED_KEY_BYTES });
        }
        let key = key.unshared();
        if id == 0 {
            self.by_key.insert(key, complete);
        } else {
            self.by_id.insert(id, (key, complete));
        }
        Ok(old)
    }

    /// Forgets a declaration; where the id says nothing the key does.
    pub(super) fn remove(&mut self, id: u32, key: Option<&KeyExpr>) -> Option<(KeyExpr, bool)> {
        let by_key = || key.filter(|_| id == 0).and_then(|key| self.by_key.remove_entry(key));
        let gone = self.by_id.remove(&id).or_else(by_key)?;
        self.bytes -= gone.0.len();
        Some(gone)
    }

    /// Forgets those that `keep` refuses and gives them back.
    pub(super) fn prune(&mut self, mut keep: impl FnMut(&KeyExpr) -> bool) -> Vec<KeyExpr> {
        let mut gone = Vec::new();
        self.by_id.retain(|_, (key, _)| keep(key) || (gone.push(key.clone()), false).1);
        self.by_key.retain(|key, _| keep(key) || (gone.push(key.clone()), false).1);
        self.bytes -= gone.iter().map(|key| key.len()).sum::<usize>();
        gone
    }
}
