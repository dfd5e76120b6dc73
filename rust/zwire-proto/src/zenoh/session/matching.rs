//! Matching: whether a publisher or querier has a counterpart (`zenoh-behaviour` 3.11).

use super::{
    Session,
    entity_table::{Entities, Publisher, Querier},
    interest_table::InterestKind,
    types::{EntityId, Event, Matches},
};
use crate::zenoh::{KeyExpr, wire::QueryTarget};

impl Entities {
    fn is_published_to(&self, key: &KeyExpr) -> bool {
        self.subscribers.values().any(|s| s.origin.local() && s.key.inner.intersects(key))
    }

    fn is_asked(&self, key: &KeyExpr, target: QueryTarget) -> bool {
        self.queryables.values().any(|q| q.origin.local() && q.answers(key, target))
    }
}

impl Session {
    /// Whether this publisher has a subscriber, or this querier a queryable; `None`: unknown entity.
    #[must_use]
    pub fn matching(&self, id: EntityId) -> Option<bool> {
        let publisher = self.entities.publishers.get(&id).map(|publisher| publisher.matching);
        publisher.or_else(|| self.entities.queriers.get(&id).map(|querier| querier.matching))
    }

    /// Counterparts of a publisher or querier, as far as this session knows; `None`: unknown entity.
    ///
    /// A north declares each key expression once, however many nodes are behind it. The entities of
    /// this session count one by one.
    #[must_use]
    pub fn matches(&self, id: EntityId) -> Option<Matches> {
        let remote = |interest: Option<u32>, only_complete| {
            let interest = interest.and_then(|number| self.interests.get(number));
            interest.map_or(0, |i| if only_complete { i.complete } else { i.matches })
        };
        if let Some(Publisher { key, options, interest, .. }) = self.entities.publishers.get(&id) {
            let near = self.entities.subscribers.values().filter(|s| s.origin.local());
            let near = near.filter(|s| s.key.inner.intersects(&key.inner));
            return Some(Matches {
                queryables: false,
                key: key.outer.clone(),
                only_complete: false,
                wants_remote: options.destination.remote(),
                local: if options.destination.local() { near.count() } else { 0 },
                remote: remote(*interest, false),
            });
        }
        let Querier { key, options, interest, .. } = self.entities.queriers.get(&id)?;
        let only_complete = options.target == QueryTarget::AllComplete;
        let near = self.entities.queryables.values().filter(|q| q.origin.local());
        let near = near.filter(|q| q.answers(&key.inner, options.target));
        Some(Matches {
            queryables: true,
            key: key.outer.clone(),
            only_complete,
            wants_remote: options.destination.remote(),
            local: if options.destination.local() { near.count() } else { 0 },
            remote: remote(*interest, only_complete),
        })
    }

    pub(super) fn publisher_matches(&self, publisher: &Publisher) -> bool {
        let remote = publisher.interest.and_then(|number| self.interests.get(number));
        remote.is_some_and(|interest| interest.matches > 0)
            || publisher.options.destination.local() && self.entities.is_published_to(&publisher.key.inner)
    }

    pub(super) fn querier_matches(&self, querier: &Querier) -> bool {
        let remote = querier.interest.and_then(|number| self.interests.get(number));
        let remote = remote.is_some_and(|interest| match querier.options.target {
            QueryTarget::AllComplete => interest.complete > 0,
            QueryTarget::BestMatching | QueryTarget::All => interest.matches > 0,
        });
        remote
            || querier.options.destination.local()
                && self.entities.is_asked(&querier.key.inner, querier.options.target)
    }

    /// Updates matching after a declaration of the north that concerns an interest.
    pub(super) fn update_matching_of(&mut self, interest: u32) {
        let publishers = self.entities.publishers.iter().filter(|(_, p)| p.interest == Some(interest));
        let publishers: Vec<_> = publishers.map(|(&id, _)| id).collect();
        let queriers = self.entities.queriers.iter().filter(|(_, q)| q.interest == Some(interest));
        let queriers: Vec<_> = queriers.map(|(&id, _)| id).collect();
        publishers.into_iter().chain(queriers).for_each(|id| self.update_matching(id));
    }

    /// Updates matching after a local subscriber or queryable was declared or undeclared.
    pub(super) fn turn_matching(&mut self, kind: InterestKind, key: &KeyExpr, came: bool) {
        let ids: Vec<_> = match kind {
            InterestKind::Subscribers => {
                let all = self.entities.publishers.iter();
                let touched = all.filter(|(_, p)| p.matching != came && p.key.inner.intersects(key));
                touched.map(|(&id, p)| (id, p.options.destination)).collect()
            }
            InterestKind::Queryables => {
                let all = self.entities.queriers.iter();
                let touched = all.filter(|(_, q)| q.matching != came && q.key.inner.intersects(key));
                touched.map(|(&id, q)| (id, q.options.destination)).collect()
            }
            InterestKind::Tokens => return,
        };
        for (id, destination) in ids {
            if !destination.local() {
                continue;
            }
            if came && kind == InterestKind::Subscribers {
                self.set_matching(id, true);
            } else {
                self.update_matching(id);
            }
        }
    }

    fn update_matching(&mut self, id: EntityId) {
        let publisher = self.entities.publishers.get(&id).map(|publisher| self.publisher_matches(publisher));
        let querier = || self.entities.queriers.get(&id).map(|querier| self.querier_matches(querier));
        if let Some(matching) = publisher.or_else(querier) {
            self.set_matching(id, matching);
        }
    }

    fn set_matching(&mut self, id: EntityId, matching: bool) {
        let publisher = self.entities.publishers.get_mut(&id).map(|publisher| &mut publisher.matching);
        let old = publisher.or_else(|| self.entities.queriers.get_mut(&id).map(|q| &mut q.matching));
        if let Some(old) = old.filter(|old| **old != matching) {
            *old = matching;
            self.events.push_back(Event::Matching { entity: id, matching });
        }
    }

    #[cfg(test)]
    pub(super) fn check_matching(&self) {
        for publisher in self.entities.publishers.values() {
            assert_eq!(publisher.matching, self.publisher_matches(publisher));
        }
        for querier in self.entities.queriers.values() {
            assert_eq!(querier.matching, self.querier_matches(querier));
        }
    }
}
