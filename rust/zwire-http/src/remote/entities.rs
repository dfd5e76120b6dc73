//! Entities of a remote client, by the numbers that it has chosen.

use crate::{
    listing::Keys,
    node::{Declared, Inbox, OpenGet},
};
use core::ops::Bound;
use std::{collections::BTreeMap, sync::Arc};
use zwire_engine::{
    Query, Session,
    connectivity::{LinkEvent, TransportEvent},
};
use zwire_proto::zenoh::{
    Encoding, KeyExpr, Qos,
    session::{EntityId, QuerierOptions, Sample},
};

/// Most entities, listeners and open gets of a client; a page has a few. Each has a queue in the router.
const MAX_ENTITIES: usize = 4096;

/// Publisher with its options.
pub(super) struct Publisher {
    pub(super) declared: Declared,
    pub(super) encoding: Encoding,
    pub(super) qos: Qos,
}

/// Querier with its options.
pub(super) struct Querier {
    pub(super) declared: Declared,
    pub(super) options: QuerierOptions,
}

/// Listener of a matching state.
pub(super) struct MatchingListener {
    pub(super) session: Session,
    pub(super) entity: EntityId,
    pub(super) inbox: Inbox<bool>,
}

impl Drop for MatchingListener {
    fn drop(&mut self) {
        self.session.forget_matching_listener(self.entity, &self.inbox.queue);
    }
}

/// Listener of transports or links.
pub(super) struct Connectivity<T> {
    pub(super) session: Session,
    pub(super) id: u64,
    pub(super) inbox: Inbox<T>,
}

impl<T> Drop for Connectivity<T> {
    fn drop(&mut self) {
        self.session.forget_listener(self.id);
    }
}

/// Open get, of replies or of liveliness tokens.
pub(super) struct RemoteGet {
    pub(super) open: OpenGet,
    pub(super) tokens: bool,
}

/// Everything that a client has declared. Dropping it undeclares.
#[derive(Default)]
pub(super) struct Entities {
    pub(super) publishers: Table<Publisher>,
    pub(super) subscribers: Table<(Declared, Inbox<Sample>)>,
    pub(super) queryables: Table<(Declared, Inbox<Query>)>,
    pub(super) queriers: Table<Querier>,
    pub(super) tokens: Table<Declared>,
    pub(super) liveliness: Table<(Declared, Inbox<Sample>)>,
    pub(super) gets: Table<RemoteGet>,
    pub(super) matching: Table<MatchingListener>,
    pub(super) transports: Table<Connectivity<TransportEvent>>,
    pub(super) links: Table<Connectivity<LinkEvent>>,
}

impl Entities {
    /// Whether one more may be declared.
    pub(super) fn room(&self) -> Result<(), String> {
        let Self { publishers, subscribers, queryables, queriers, tokens, liveliness, gets, .. } = self;
        let all = publishers.0.len()
            + subscribers.0.len()
            + queryables.0.len()
            + queriers.0.len()
            + tokens.0.len()
            + liveliness.0.len()
            + gets.0.len()
            + self.matching.0.len()
            + self.transports.0.len()
            + self.links.0.len();
        if all < MAX_ENTITIES {
            return Ok(());
        }
        Err(format!("{MAX_ENTITIES} entities and gets of this client are open, which is the most"))
    }
}

/// Entities of one kind, the number of the one that had the last event, and the keys of those that are listed.
pub(super) struct Table<T>(pub(super) BTreeMap<u32, T>, u32, Keys);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(BTreeMap::new(), 0, Keys::default())
    }
}

impl<T> Table<T> {
    /// Asks the entities for an event, from the one behind the last that had one.
    pub(super) fn in_turn<R>(&mut self, mut event: impl FnMut(u32, &T) -> Option<R>) -> Option<R> {
        let behind = self.0.range((Bound::Excluded(self.1), Bound::Unbounded));
        for (id, one) in behind.chain(self.0.range(..=self.1)) {
            if let Some(found) = event(*id, one) {
                self.1 = *id;
                return Some(found);
            }
        }
        None
    }

    /// Adds an entity that is listed.
    pub(super) fn list(&mut self, id: u32, key: KeyExpr, one: T) {
        self.2.insert(id, key);
        self.0.insert(id, one);
    }

    /// Keys of those that are listed.
    pub(super) fn keys(&self) -> Keys {
        self.2.clone()
    }

    /// Removes the entities that the function refuses.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|id, one| {
            let stays = keep(one);
            if !stays {
                self.2.remove(*id);
            }
            stays
        });
    }

    /// Fails if the number is in use.
    pub(super) fn is_free(&self, id: u32) -> Result<(), String> {
        if self.0.contains_key(&id) { Err(format!("the id {id} already exists")) } else { Ok(()) }
    }

    pub(super) fn find(&self, id: u32) -> Result<&T, String> {
        self.0.get(&id).ok_or_else(|| unknown(id))
    }

    pub(super) fn remove(&mut self, id: u32) -> Result<(), String> {
        self.2.remove(id);
        self.0.remove(&id).map(drop).ok_or_else(|| unknown(id))
    }
}

fn unknown(id: u32) -> String {
    format!("the id {id} does not exist")
}

/// Queries that the client has to answer.
#[derive(Default)]
pub(super) struct OpenQueries {
    next: u32,
    open: BTreeMap<u32, Arc<Query>>,
}

/// Most queries that wait for the client; the oldest ends without further replies, as in the reference.
const MAX_QUERIES: usize = 1000;

impl OpenQueries {
    pub(super) fn add(&mut self, query: Query) -> u32 {
        if self.open.len() >= MAX_QUERIES {
            self.open.pop_first();
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.open.insert(id, Arc::new(query));
        id
    }

    pub(super) fn find(&self, id: u32) -> Result<Arc<Query>, String> {
        self.open.get(&id).cloned().ok_or_else(|| unknown(id))
    }

    pub(super) fn finish(&mut self, id: u32) -> Result<(), String> {
        self.open.remove(&id).map(|query| query.finish()).ok_or_else(|| unknown(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_have_turns() {
        let mut table = Table::default();
        table.0.extend([(0, 'a'), (3, 'b'), (u32::MAX, 'c')]);
        let mut order = String::new();
        for _ in 0..6 {
            order.push(table.in_turn(|_, name| Some(*name)).unwrap());
        }
        assert_eq!(order, "bcabca");
        assert_eq!(table.in_turn(|_, _| None::<char>), None);
        assert_eq!(table.in_turn(|id, _| (id == 3).then_some(id)), Some(3));
    }
}
