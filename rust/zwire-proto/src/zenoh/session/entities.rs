//! Entities declared by the application (`zenoh-behaviour` 3.2, 3.4, 3.6, 3.8, 3.10).

use super::{
    Session, SessionResult,
    entity_table::{LivelinessSubscriber, Outlet, OwnEntity, Subscriber},
    error::SessionError,
    types::{EntityId, Locality, PublisherOptions, QuerierOptions, QueryableOptions, SubscriberOptions},
};
use crate::{
    Now,
    zenoh::{
        KeyExpr, Qos, Reliability,
        entity::EntityKind,
        node::Topic,
        wire::{QueryTarget, QueryableInfo, WireExpr},
    },
};
use std::collections::BTreeSet;

impl Session {
    /// Gives a key expression a number on the link, so that publications on it are shorter.
    ///
    /// # Errors
    /// The session is closed, or the key does not fit into the namespace; the same for all
    /// declarations.
    pub fn declare_keyexpr(&mut self, _now: Now, key: KeyExpr) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        self.declare_prefix(&key.outer);
        let id = self.entities.next();
        self.entities.keyexprs.insert(id, key);
        Ok(id)
    }

    /// Declares a subscriber: samples with keys that intersect `key` come as
    /// [`Event::Sample`](super::Event::Sample).
    pub fn declare_subscriber(
        &mut self,
        _now: Now,
        key: KeyExpr,
        options: SubscriberOptions,
    ) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        let id = self.entities.next();
        if options.origin.remote() {
            let shared = self.entities.shared_subscribers.entry(key.outer.clone()).or_default();
            shared.users += 1;
            if shared.users == 1 {
                self.declare_shared_subscriber(&key.outer);
            }
        }
        if options.origin.local() {
            self.turn_matching(EntityKind::Subscriber, &key.inner, true);
        }
        self.entities.subscribers.insert(id, Subscriber { key, origin: options.origin });
        self.forget_routes();
        Ok(id)
    }

    /// Declares a queryable: queries with keys that intersect `key` come as
    /// [`Event::Query`](super::Event::Query).
    pub fn declare_queryable(
        &mut self,
        _now: Now,
        key: KeyExpr,
        options: QueryableOptions,
    ) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        let id = self.entities.next();
        let inner = key.inner.clone();
        let QueryableOptions { complete, origin } = options;
        self.entities.queryables.insert(id, OwnEntity { key, complete, origin, id: 0 });
        self.announce(EntityKind::Queryable, id);
        if origin.local() {
            self.turn_matching(EntityKind::Queryable, &inner, true);
        }
        Ok(id)
    }

    /// Declares a publisher on `key`; [`Event::Matching`](super::Event::Matching) reports whether there
    /// are subscribers.
    pub fn declare_publisher(
        &mut self,
        _now: Now,
        key: KeyExpr,
        options: PublisherOptions,
    ) -> SessionResult<EntityId> {
        let PublisherOptions { qos, reliability, destination } = options;
        let target = QueryTarget::BestMatching;
        self.add_outlet(key, EntityKind::Subscriber, target, (qos, reliability, destination))
    }

    /// Declares a querier on `key`; [`Event::Matching`](super::Event::Matching) reports whether there
    /// are queryables.
    pub fn declare_querier(
        &mut self,
        _now: Now,
        key: KeyExpr,
        options: QuerierOptions,
    ) -> SessionResult<EntityId> {
        let how = (options.qos, Reliability::Reliable, options.destination);
        self.add_outlet(key, EntityKind::Queryable, options.target, how)
    }

    fn add_outlet(
        &mut self,
        key: KeyExpr,
        counterpart: EntityKind,
        target: QueryTarget,
        (qos, reliability, destination): (Qos, Reliability, Locality),
    ) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        let id = self.entities.next();
        let remote = destination.remote();
        let interest = remote.then(|| self.add_interest(counterpart, key.outer.clone(), None));
        let matching = false;
        let mut outlet =
            Outlet { key, counterpart, target, qos, reliability, destination, interest, matching };
        outlet.matching = self.has_match(&outlet);
        self.entities.outlets.insert(id, outlet);
        Ok(id)
    }

    /// Declares a liveliness token: `key` is alive as long as the token and the session exist.
    pub fn declare_token(&mut self, _now: Now, key: KeyExpr) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        let id = self.entities.next();
        let inner = key.inner.clone();
        let token = OwnEntity { key, complete: false, origin: Locality::Any, id: 0 };
        self.entities.tokens.insert(id, token);
        self.announce(EntityKind::Token, id);
        self.token_up(&inner, None);
        Ok(id)
    }

    /// Declares a liveliness subscriber: tokens that appear or vanish come as
    /// [`Event::Sample`](super::Event::Sample); with `history` existing ones, too.
    ///
    /// After a loss of the link existing tokens are reported in any case: they may be new.
    pub fn declare_liveliness_subscriber(
        &mut self,
        _now: Now,
        key: KeyExpr,
        history: bool,
    ) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        let id = self.entities.next();
        let interest = self.add_interest(EntityKind::Token, key.outer.clone(), Some((id, history)));
        if history {
            self.report_living(id, &key.inner);
        }
        self.entities.liveliness_subscribers.insert(id, LivelinessSubscriber { key, interest });
        Ok(id)
    }

    /// Undeclares any entity. Queries that an undeclared queryable has not finished are finished.
    ///
    /// # Errors
    /// Unknown entity.
    pub fn undeclare(&mut self, now: Now, id: EntityId) -> SessionResult<()> {
        self.check_open()?;
        let entities = &mut self.entities;
        if let Some(subscriber) = entities.subscribers.remove(&id) {
            self.undeclare_subscriber(&subscriber);
        } else if let Some(queryable) = entities.queryables.remove(&id) {
            self.finish_queries_of(now, id);
            self.withdraw(EntityKind::Queryable, queryable.id);
            if queryable.origin.local() {
                self.turn_matching(EntityKind::Queryable, &queryable.key.inner, false);
            }
        } else if let Some(outlet) = entities.outlets.remove(&id) {
            outlet.interest.into_iter().for_each(|number| self.drop_interest(number));
        } else if let Some(token) = entities.tokens.remove(&id) {
            self.withdraw(EntityKind::Token, token.id);
            self.token_down(&token.key.inner);
        } else if let Some(subscriber) = entities.liveliness_subscribers.remove(&id) {
            self.drop_interest(subscriber.interest);
        } else if entities.keyexprs.remove(&id).is_none() {
            return Err(SessionError::UnknownEntity { id, expected: "entity" });
        }
        Ok(())
    }

    /// The key of a queryable, without the namespace.
    #[cfg(test)]
    pub(crate) fn key_of(&self, id: EntityId) -> Option<&KeyExpr> {
        Some(&self.entities.queryables.get(&id)?.key.inner)
    }

    /// The keys of all entities of one kind, with the namespace.
    #[must_use]
    pub fn declared_keys(&self, topic: Topic) -> BTreeSet<KeyExpr> {
        let e = &self.entities;
        let outlets = |counterpart| {
            let found = e.outlets.values().filter(move |outlet| outlet.counterpart == counterpart);
            found.map(|outlet| outlet.key.outer.clone()).collect()
        };
        match topic {
            Topic::Subscribers => e.subscribers.values().map(|x| x.key.outer.clone()).collect(),
            Topic::Publishers => outlets(EntityKind::Subscriber),
            Topic::Queryables => e.queryables.values().map(|x| x.key.outer.clone()).collect(),
            Topic::Queriers => outlets(EntityKind::Queryable),
            Topic::Tokens => e.tokens.values().map(|x| x.key.outer.clone()).collect(),
        }
    }

    /// Declares everything to a new north, in the order of Eclipse Zenoh (2.11).
    pub(super) fn declare_everything(&mut self) {
        let keys: Vec<_> = self.entities.keyexprs.values().map(|key| key.outer.clone()).collect();
        for key in keys {
            self.declare_prefix(&key);
        }
        self.send_all_interests();
        let remote = self.entities.subscribers.values().filter(|subscriber| subscriber.origin.remote());
        let keys: Vec<_> = remote.map(|subscriber| subscriber.key.outer.clone()).collect();
        for key in keys {
            self.declare_shared_subscriber(&key);
        }
        for kind in [EntityKind::Queryable, EntityKind::Token] {
            let ids: Vec<_> = self.entities.own(kind).keys().copied().collect();
            ids.into_iter().for_each(|id| self.announce(kind, id));
        }
    }

    /// Resets the ids, which belong to the link.
    pub(super) fn entities_lose_link(&mut self) {
        self.entities.shared_subscribers.values_mut().for_each(|subscriber| subscriber.id = 0);
        self.entities.queryables.values_mut().for_each(|queryable| queryable.id = 0);
        self.entities.tokens.values_mut().for_each(|token| token.id = 0);
    }

    /// Declarations of one kind: id, key and info.
    pub(super) fn declared(&self, kind: EntityKind) -> Vec<(u32, &KeyExpr, QueryableInfo)> {
        let own = match kind {
            EntityKind::Subscriber => {
                let shared = self.entities.shared_subscribers.iter();
                return shared.map(|(key, shared)| (shared.id, key, QueryableInfo::default())).collect();
            }
            EntityKind::Queryable => &self.entities.queryables,
            EntityKind::Token => &self.entities.tokens,
        };
        let remote = own.values().filter(|entity| entity.origin.remote());
        remote.map(|entity| (entity.id, &entity.key.outer, entity.info())).collect()
    }

    fn declare_shared_subscriber(&mut self, key: &KeyExpr) {
        let known = self.entities.shared_subscribers.get(key).is_none_or(|shared| shared.id != 0);
        if known {
            return;
        }
        let id = self.send_declaration(EntityKind::Subscriber, key, QueryableInfo::default());
        if let (Some(id), Some(shared)) = (id, self.entities.shared_subscribers.get_mut(key)) {
            shared.id = id;
        }
    }

    fn undeclare_subscriber(&mut self, subscriber: &Subscriber) {
        self.forget_routes();
        if subscriber.origin.local() {
            self.turn_matching(EntityKind::Subscriber, &subscriber.key.inner, false);
        }
        if !subscriber.origin.remote() {
            return;
        }
        let key = &subscriber.key.outer;
        let Some(shared) = self.entities.shared_subscribers.get_mut(key) else { return };
        shared.users -= 1;
        if shared.users > 0 {
            return;
        }
        let id = shared.id;
        self.entities.shared_subscribers.remove(key);
        if id != 0 {
            self.declare(EntityKind::Subscriber.undeclaration(id, None));
        }
    }

    /// Declares a queryable or a token to the north, if there is one.
    fn announce(&mut self, kind: EntityKind, id: EntityId) {
        let Some(entity) = self.entities.own(kind).get(&id).filter(|entity| entity.origin.remote()) else {
            return;
        };
        let (key, info) = (entity.key.outer.clone(), entity.info());
        let wire_id = self.send_declaration(kind, &key, info);
        if let (Some(wire_id), Some(entity)) = (wire_id, self.entities.own(kind).get_mut(&id)) {
            entity.id = wire_id;
        }
    }

    /// Sends a D_*, and returns its id; `None`: there is no link.
    fn send_declaration(&mut self, kind: EntityKind, key: &KeyExpr, info: QueryableInfo) -> Option<u32> {
        let wire = self.declare_prefix(key)?;
        let id = self.north.as_mut()?.next_id();
        self.declare(kind.declaration(id, wire, info));
        Some(id)
    }

    /// Sends the U_* of a queryable or a token, if it was declared.
    fn withdraw(&mut self, kind: EntityKind, id: u32) {
        if id != 0 {
            // The empty key: Eclipse Zenoh sends it with queryables and tokens (`zenoh-wire` 4.7).
            self.declare(kind.undeclaration(id, Some(WireExpr::EMPTY)));
        }
    }
}
