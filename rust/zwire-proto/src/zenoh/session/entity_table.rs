//! [`Entities`]: declarations of the application.

use std::collections::{BTreeMap, HashMap};

use super::types::{EntityId, Locality};
use crate::zenoh::{
    KeyExpr, Qos, Reliability,
    entity::EntityKind,
    wire::{QueryTarget, QueryableInfo},
};

/// A key as the application and as the network writes it: without and with the namespace.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) inner: KeyExpr,
    pub(super) outer: KeyExpr,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) key: Key,
    pub(super) origin: Locality,
}

/// A queryable or a token.
#[derive(Debug)]
pub(super) struct OwnEntity {
    pub(super) key: Key,
    /// Of a queryable.
    pub(super) complete: bool,
    /// `Any` for a token.
    pub(super) origin: Locality,
    /// Its id on this link; 0: not declared.
    pub(super) id: u32,
}

/// A publisher or a querier.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) key: Key,
    /// Subscribers of a publisher, queryables of a querier.
    pub(super) counterpart: EntityKind,
    /// Queryables that match a querier.
    pub(super) target: QueryTarget,
    /// Of the publications of a publisher, like `reliability`.
    pub(super) qos: Qos,
    pub(super) reliability: Reliability,
    pub(super) destination: Locality,
    pub(super) interest: Option<u32>,
    pub(super) matching: bool,
}

#[derive(Debug)]
pub(super) struct LivelinessSubscriber {
    pub(super) key: Key,
    pub(super) interest: u32,
}

/// One D_SUBSCRIBER for all subscribers on the same key.
#[derive(Debug, Default)]
pub(super) struct SharedSubscriber {
    pub(super) users: usize,
    pub(super) id: u32,
}

/// All of it, each kind in the order of declaration.
#[derive(Debug, Default)]
pub(super) struct Entities {
    last: u32,
    pub(super) keyexprs: BTreeMap<EntityId, Key>,
    pub(super) subscribers: BTreeMap<EntityId, Subscriber>,
    pub(super) shared_subscribers: HashMap<KeyExpr, SharedSubscriber>,
    pub(super) queryables: BTreeMap<EntityId, OwnEntity>,
    pub(super) tokens: BTreeMap<EntityId, OwnEntity>,
    pub(super) outlets: BTreeMap<EntityId, Outlet>,
    pub(super) liveliness_subscribers: BTreeMap<EntityId, LivelinessSubscriber>,
}

impl Entities {
    pub(super) fn next(&mut self) -> EntityId {
        self.last += 1;
        EntityId(self.last)
    }

    /// The queryables or the tokens.
    pub(super) fn own(&mut self, kind: EntityKind) -> &mut BTreeMap<EntityId, OwnEntity> {
        if kind == EntityKind::Token { &mut self.tokens } else { &mut self.queryables }
    }

    pub(super) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }
}

impl OwnEntity {
    /// Whether a query on `key` is for it (3.8).
    pub(super) fn answers(&self, key: &KeyExpr, target: QueryTarget) -> bool {
        match target {
            QueryTarget::AllComplete => self.complete && self.key.inner.includes(key),
            QueryTarget::BestMatching | QueryTarget::All => self.key.inner.intersects(key),
        }
    }

    pub(super) const fn info(&self) -> QueryableInfo {
        QueryableInfo { complete: self.complete, distance: 0 }
    }
}
