//! Cached routes of one face.

use super::FaceId;
use crate::zenoh::wire::WireExpr;
use hashbrown::{Equivalent, HashMap};

/// The memory of an entry beside its texts: map slot, key expression twice, vector.
const ENTRY: usize = 256;
const TARGET: usize = size_of::<Target>();

/// Key as written in messages of the face, and the root of the tree that the message follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RouteKey {
    node_id: u16,
    key: WireExpr,
}

/// A [`RouteKey`] by reference: the same fields in the same order, and so with the same hash.
type RouteKeyRef<'a> = (u16, &'a WireExpr);

impl Equivalent<RouteKey> for RouteKeyRef<'_> {
    fn equivalent(&self, other: &RouteKey) -> bool {
        self.0 == other.node_id && *self.1 == other.key
    }
}

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) face: FaceId,
    /// Whether it is the session of this process.
    pub(super) is_own: bool,
    /// Between routers: number of the root of the tree that the message follows.
    pub(super) node_id: u16,
    /// Wire form of the key there; `None`: unchanged.
    pub(super) key: Option<WireExpr>,
}

/// Targets of messages with one key.
#[derive(Debug)]
pub(super) struct Route {
    /// Version of the tables from which the route was computed.
    pub(super) version: u64,
    /// Face by face, in ascending order.
    pub(super) targets: Box<[Target]>,
}

/// Routes by the key on the wire, so that a message with a cached key is neither resolved nor matched,
/// and one with the same key as the previous message skips the look-up. Bounded in bytes, because peers
/// choose keys: when the younger half is full, it becomes the older half, and the previous older half
/// is dropped.
#[derive(Debug)]
pub(super) struct RouteCache {
    bound: usize,
    young: Half,
    young_bytes: usize,
    /// Index in `young` of the route used last.
    last: usize,
    old: Half,
}

/// Routes in the order of insertion, and the index of each.
#[derive(Debug, Default)]
struct Half {
    places: HashMap<RouteKey, usize>,
    routes: Vec<(RouteKey, Route)>,
}

impl RouteCache {
    pub(super) fn new(bound: usize) -> Self {
        Self { bound: bound / 2, young: Half::default(), young_bytes: 0, last: 0, old: Half::default() }
    }

    /// The route of `key`, if it was computed from this version of the tables.
    #[inline]
    pub(super) fn get(&mut self, version: u64, node_id: u16, key: &WireExpr) -> Option<&Route> {
        let asked: RouteKeyRef<'_> = (node_id, key);
        if !self.young.routes.get(self.last).is_some_and(|(last, _)| asked.equivalent(last)) {
            self.last = self.find(version, &asked)?;
        }
        self.young.routes.get(self.last).map(|(_, route)| route).filter(|route| route.version == version)
    }

    fn find(&mut self, version: u64, asked: &RouteKeyRef<'_>) -> Option<usize> {
        if !self.old.routes.is_empty()
            && let Some((key, place)) = self.old.places.remove_entry(asked)
        {
            let gone = Route { version: 0, targets: Box::default() };
            let route = core::mem::replace(&mut self.old.routes[place].1, gone);
            if route.version == version {
                self.put(key, route);
            }
        }
        self.young.places.get(asked).copied()
    }

    pub(super) fn insert(&mut self, node_id: u16, key: &WireExpr, route: Route) {
        // A copy: a slice would keep the receive buffer alive.
        let key = WireExpr { suffix: key.suffix.as_str().into(), ..key.clone() };
        self.put(RouteKey { node_id, key }, route);
    }

    fn put(&mut self, key: RouteKey, route: Route) {
        let cost = cost(&key, &route);
        if self.young_bytes + cost > self.bound {
            self.old = core::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if cost <= self.bound {
            // An outdated entry of the same key stays and is counted as well until the halves change:
            // the count is never too low.
            self.young_bytes += cost;
            match self.young.places.get(&key) {
                Some(place) => self.young.routes[*place].1 = route,
                None => {
                    self.young.places.insert(key.clone(), self.young.routes.len());
                    self.young.routes.push((key, route));
                }
            }
        }
    }
}

fn cost(key: &RouteKey, route: &Route) -> usize {
    let targets: usize =
        route.targets.iter().map(|to| TARGET + to.key.as_ref().map_or(0, |key| key.suffix.len())).sum();
    ENTRY + key.key.suffix.len() + targets
}
