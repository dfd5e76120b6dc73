//! Matching: whether a publisher or querier has a counterpart (`zenoh-behaviour` 3.11).

use super::{
    Session,
    entity_table::{Entities, Outlet},
    types::{EntityId, Event, Matches},
};
use crate::zenoh::{KeyExpr, entity::EntityKind, wire::QueryTarget};

impl Entities {
    /// Counterparts of an outlet in this session: the keys on which they are declared.
    fn near<'a>(&'a self, outlet: &'a Outlet) -> impl Iterator<Item = &'a KeyExpr> {
        let key = &outlet.key.inner;
        let of = |kind| outlet.counterpart == kind && outlet.destination.local();
        let subscribers = of(EntityKind::Subscriber).then(|| self.subscribers.values());
        let queryables = of(EntityKind::Queryable).then(|| self.queryables.values());
        let subscribers = subscribers.into_iter().flatten();
        let queryables = queryables.into_iter().flatten();
        let subscribers = subscribers.filter(|s| s.origin.local() && s.key.inner.intersects(key));
        let queryables = queryables.filter(|q| q.origin.local() && q.answers(key, outlet.target));
        subscribers.map(|s| &s.key.inner).chain(queryables.map(|q| &q.key.inner))
    }
}

impl Session {
    /// Whether this publisher has a subscriber, or this querier a queryable; `None`: unknown entity.
    #[must_use]
    pub fn matching(&self, id: EntityId) -> Option<bool> {
        self.entities.outlets.get(&id).map(|outlet| outlet.matching)
    }

    /// Counterparts of a publisher or querier, as far as this session knows; `None`: unknown entity.
    ///
    /// A north declares each key expression once, however many nodes are behind it. The entities of
    /// this session count one by one.
    #[must_use]
    pub fn matches(&self, id: EntityId) -> Option<Matches> {
        let outlet = self.entities.outlets.get(&id)?;
        Some(Matches {
            queryables: outlet.counterpart == EntityKind::Queryable,
            key: outlet.key.outer.clone(),
            only_complete: outlet.target == QueryTarget::AllComplete,
            wants_remote: outlet.destination.remote(),
            local: self.entities.near(outlet).count(),
            remote: self.count_remote(outlet),
        })
    }

    fn count_remote(&self, outlet: &Outlet) -> usize {
        let interest = outlet.interest.and_then(|number| self.interests.list.get(&number));
        interest.map_or(0, |interest| match outlet.target {
            QueryTarget::AllComplete => interest.complete,
            QueryTarget::BestMatching | QueryTarget::All => interest.matches,
        })
    }

    pub(super) fn has_match(&self, outlet: &Outlet) -> bool {
        self.count_remote(outlet) > 0 || self.entities.near(outlet).next().is_some()
    }

    /// Updates matching after a declaration of the north that concerns an interest.
    pub(super) fn update_matching_of(&mut self, interest: u32) {
        let concerned = self.entities.outlets.iter().filter(|(_, outlet)| outlet.interest == Some(interest));
        let concerned: Vec<_> = concerned.map(|(&id, _)| id).collect();
        concerned.into_iter().for_each(|id| self.update_matching(id));
    }

    /// Updates matching after a local subscriber or queryable was declared or undeclared.
    pub(super) fn turn_matching(&mut self, kind: EntityKind, key: &KeyExpr, came: bool) {
        let touched = self.entities.outlets.iter().filter(|(_, outlet)| {
            outlet.counterpart == kind
                && outlet.matching != came
                && outlet.destination.local()
                && outlet.key.inner.intersects(key)
        });
        let touched: Vec<_> = touched.map(|(&id, _)| id).collect();
        for id in touched {
            if came && kind == EntityKind::Subscriber {
                self.set_matching(id, true);
            } else {
                self.update_matching(id);
            }
        }
    }

    fn update_matching(&mut self, id: EntityId) {
        if let Some(matching) = self.entities.outlets.get(&id).map(|outlet| self.has_match(outlet)) {
            self.set_matching(id, matching);
        }
    }

    fn set_matching(&mut self, id: EntityId, matching: bool) {
        let outlet = self.entities.outlets.get_mut(&id);
        if let Some(outlet) = outlet.filter(|outlet| outlet.matching != matching) {
            outlet.matching = matching;
            self.events.push_back(Event::Matching { entity: id, matching });
        }
    }

    #[cfg(test)]
    pub(super) fn check_matching(&self) {
        for outlet in self.entities.outlets.values() {
            assert_eq!(outlet.matching, self.has_match(outlet));
        }
    }
}
