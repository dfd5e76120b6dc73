//! Entities declared by the application (`zenoh-behaviour` 3.2, 3.4, 3.6, 3.8, 3.10).

use super::entity_table::{Key, LivelinessSubscriber, Publisher, Querier, Queryable, Subscriber, Token};
use std::collections::BTreeSet;

use super::{
    Session, SessionResult,
    error::SessionError,
    interest_table::InterestKind,
    types::{EntityId, PublisherOptions, QuerierOptions, QueryableOptions, SubscriberOptions},
};
use crate::{
    Now,
    zenoh::{
        KeyExpr,
        node::Topic,
        wire::{Declaration, QueryableInfo, WireExpr},
    },
};

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
    ///
    /// # Errors
    /// See [`declare_keyexpr`](Self::declare_keyexpr).
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
            self.turn_matching(InterestKind::Subscribers, &key.inner, true);
        }
        self.entities.subscribers.insert(id, Subscriber { key, origin: options.origin });
        self.forget_routes();
        Ok(id)
    }

    /// Declares a queryable: queries with keys that intersect `key` come as
    /// [`Event::Query`](super::Event::Query).
    ///
    /// # Errors
    /// See [`declare_keyexpr`](Self::declare_keyexpr).
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
        self.entities.queryables.insert(id, Queryable { key, complete, origin, id: 0 });
        self.announce_queryable(id);
        if origin.local() {
            self.turn_matching(InterestKind::Queryables, &inner, true);
        }
        Ok(id)
    }

    /// Declares a publisher on `key`; [`Event::Matching`](super::Event::Matching) reports whether there
    /// are subscribers.
    ///
    /// # Errors
    /// See [`declare_keyexpr`](Self::declare_keyexpr).
    pub fn declare_publisher(
        &mut self,
        _now: Now,
        key: KeyExpr,
        options: PublisherOptions,
    ) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        let id = self.entities.next();
        let remote = options.destination.remote();
        let interest = remote.then(|| self.add_interest(InterestKind::Subscribers, key.outer.clone(), None));
        let mut publisher = Publisher { key, options, interest, matching: false };
        publisher.matching = self.publisher_matches(&publisher);
        self.entities.publishers.insert(id, publisher);
        Ok(id)
    }

    /// Declares a querier on `key`; [`Event::Matching`](super::Event::Matching) reports whether there
    /// are queryables.
    ///
    /// # Errors
    /// See [`declare_keyexpr`](Self::declare_keyexpr).
    pub fn declare_querier(
        &mut self,
        _now: Now,
        key: KeyExpr,
        options: QuerierOptions,
    ) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        let id = self.entities.next();
        let remote = options.destination.remote();
        let interest = remote.then(|| self.add_interest(InterestKind::Queryables, key.outer.clone(), None));
        let mut querier = Querier { key, options, interest, matching: false };
        querier.matching = self.querier_matches(&querier);
        self.entities.queriers.insert(id, querier);
        Ok(id)
    }

    /// Declares a liveliness token: `key` is alive as long as the token and the session exist.
    ///
    /// # Errors
    /// See [`declare_keyexpr`](Self::declare_keyexpr).
    pub fn declare_token(&mut self, _now: Now, key: KeyExpr) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        let id = self.entities.next();
        let inner = key.inner.clone();
        self.entities.tokens.insert(id, Token { key, id: 0 });
        self.announce_token(id);
        self.token_up(&inner, None);
        Ok(id)
    }

    /// Declares a liveliness subscriber: tokens that appear or vanish come as
    /// [`Event::Sample`](super::Event::Sample); with `history` existing ones, too.
    ///
    /// After a loss of the link existing tokens are reported in any case: they may be new.
    ///
    /// # Errors
    /// See [`declare_keyexpr`](Self::declare_keyexpr).
    pub fn declare_liveliness_subscriber(
        &mut self,
        _now: Now,
        key: KeyExpr,
        history: bool,
    ) -> SessionResult<EntityId> {
        let key = self.outward(key)?;
        let id = self.entities.next();
        let interest = self.add_interest(InterestKind::Tokens, key.outer.clone(), Some((id, history)));
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
            if queryable.id != 0 {
                // The empty key: Eclipse Zenoh sends it with queryables and tokens (`zenoh-wire` 4.7).
                let key = Some(WireExpr::EMPTY);
                self.declare(Declaration::UndeclareQueryable { id: queryable.id, key });
            }
            if queryable.origin.local() {
                self.turn_matching(InterestKind::Queryables, &queryable.key.inner, false);
            }
        } else if let Some(publisher) = entities.publishers.remove(&id) {
            publisher.interest.into_iter().for_each(|number| self.drop_interest(number));
        } else if let Some(querier) = entities.queriers.remove(&id) {
            querier.interest.into_iter().for_each(|number| self.drop_interest(number));
        } else if let Some(token) = entities.tokens.remove(&id) {
            if token.id != 0 {
                self.declare(Declaration::UndeclareToken { id: token.id, key: Some(WireExpr::EMPTY) });
            }
            self.token_down(&token.key.inner);
        } else if let Some(subscriber) = entities.liveliness_subscribers.remove(&id) {
            self.drop_interest(subscriber.interest);
        } else if entities.keyexprs.remove(&id).is_none() {
            return Err(SessionError::UnknownEntity { id, expected: "entity" });
        }
        Ok(())
    }

    /// The options of a publisher.
    #[must_use]
    pub fn publisher_options(&self, id: EntityId) -> Option<&PublisherOptions> {
        self.entities.publishers.get(&id).map(|publisher| &publisher.options)
    }

    /// The options of a querier.
    #[must_use]
    pub fn querier_options(&self, id: EntityId) -> Option<&QuerierOptions> {
        self.entities.queriers.get(&id).map(|querier| &querier.options)
    }

    /// The key of any entity, without the namespace.
    #[must_use]
    pub fn key_of(&self, id: EntityId) -> Option<&KeyExpr> {
        let e = &self.entities;
        let key = e.publishers.get(&id).map(|x| &x.key);
        let key = key.or_else(|| e.subscribers.get(&id).map(|x| &x.key));
        let key = key.or_else(|| e.queryables.get(&id).map(|x| &x.key));
        let key = key.or_else(|| e.queriers.get(&id).map(|x| &x.key));
        let key = key.or_else(|| e.tokens.get(&id).map(|x| &x.key));
        let key = key.or_else(|| e.liveliness_subscribers.get(&id).map(|x| &x.key));
        key.or_else(|| e.keyexprs.get(&id)).map(|key| &key.inner)
    }

    /// The keys of all entities of one kind, with the namespace.
    #[must_use]
    pub fn declared_keys(&self, topic: Topic) -> BTreeSet<KeyExpr> {
        let e = &self.entities;
        let outer = |key: &Key| key.outer.clone();
        match topic {
            Topic::Subscribers => e.subscribers.values().map(|x| outer(&x.key)).collect(),
            Topic::Publishers => e.publishers.values().map(|x| outer(&x.key)).collect(),
            Topic::Queryables => e.queryables.values().map(|x| outer(&x.key)).collect(),
            Topic::Queriers => e.queriers.values().map(|x| outer(&x.key)).collect(),
            Topic::Tokens => e.tokens.values().map(|x| outer(&x.key)).collect(),
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
        let ids: Vec<_> = self.entities.queryables.keys().copied().collect();
        for id in ids {
            self.announce_queryable(id);
        }
        let ids: Vec<_> = self.entities.tokens.keys().copied().collect();
        for id in ids {
            self.announce_token(id);
        }
    }

    /// Resets the ids, which belong to the link.
    pub(super) fn entities_lose_link(&mut self) {
        self.entities.shared_subscribers.values_mut().for_each(|subscriber| subscriber.id = 0);
        self.entities.queryables.values_mut().for_each(|queryable| queryable.id = 0);
        self.entities.tokens.values_mut().for_each(|token| token.id = 0);
    }

    pub(super) fn declared_subscribers(&self) -> impl Iterator<Item = (&KeyExpr, u32)> {
        self.entities.shared_subscribers.iter().map(|(key, shared)| (key, shared.id))
    }

    pub(super) fn declared_queryables(&self) -> impl Iterator<Item = (&KeyExpr, u32, QueryableInfo)> {
        let remote = self.entities.queryables.values().filter(|queryable| queryable.origin.remote());
        remote.map(|queryable| (&queryable.key.outer, queryable.id, queryable.info()))
    }

    pub(super) fn declared_tokens(&self) -> impl Iterator<Item = (&KeyExpr, u32)> {
        self.entities.tokens.values().map(|token| (&token.key.outer, token.id))
    }

    fn declare_shared_subscriber(&mut self, key: &KeyExpr) {
        let known = self.entities.shared_subscribers.get(key).is_none_or(|shared| shared.id != 0);
        if known {
            return;
        }
        let Some(wire) = self.declare_prefix(key) else { return };
        let Some(north) = &mut self.north else { return };
        let id = north.next_id();
        if let Some(shared) = self.entities.shared_subscribers.get_mut(key) {
            shared.id = id;
        }
        self.declare(Declaration::Subscriber { id, key: wire });
    }

    fn undeclare_subscriber(&mut self, subscriber: &Subscriber) {
        self.forget_routes();
        if subscriber.origin.local() {
            self.turn_matching(InterestKind::Subscribers, &subscriber.key.inner, false);
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
            self.declare(Declaration::UndeclareSubscriber { id, key: None });
        }
    }

    fn announce_queryable(&mut self, entity: EntityId) {
        let Some(queryable) = self.entities.queryables.get(&entity) else { return };
        if !queryable.origin.remote() {
            return;
        }
        let (key, info) = (queryable.key.outer.clone(), queryable.info());
        let Some(key) = self.declare_prefix(&key) else { return };
        let Some(north) = &mut self.north else { return };
        let id = north.next_id();
        if let Some(queryable) = self.entities.queryables.get_mut(&entity) {
            queryable.id = id;
        }
        self.declare(Declaration::Queryable { id, key, info });
    }

    fn announce_token(&mut self, entity: EntityId) {
        let Some(token) = self.entities.tokens.get(&entity) else { return };
        let key = token.key.outer.clone();
        let Some(key) = self.declare_prefix(&key) else { return };
        let Some(north) = &mut self.north else { return };
        let id = north.next_id();
        if let Some(token) = self.entities.tokens.get_mut(&entity) {
            token.id = id;
        }
        self.declare(Declaration::Token { id, key });
    }
}
