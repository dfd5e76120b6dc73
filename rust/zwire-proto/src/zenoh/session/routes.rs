//! [`Routes`]: cache of the targets of recent messages, by key.

use super::{limits::MAX_ROUTE_BYTES, types::EntityId};
use crate::zenoh::{KeyExpr, wire::WireExpr};
use core::hash::Hash;
use hashbrown::HashMap;

/// Targets of publications of this session on one key.
#[derive(Debug)]
pub(super) struct OutRoute {
    pub(super) wire: WireExpr,
    /// Whether the write-side filter lets it pass.
    pub(super) leaves: bool,
    pub(super) subscribers: Box<[EntityId]>,
}

/// Targets of received PUSH on one key.
#[derive(Debug)]
pub(super) struct InRoute {
    pub(super) key: KeyExpr,
    pub(super) subscribers: Box<[EntityId]>,
}

/// A bounded cache of values by key, fastest for the key used last.
///
/// Peers choose the keys, but can only fill this bounded memory, which is emptied when it is full. So a
/// fast, unkeyed hash is safe here, and only here.
#[derive(Debug)]
pub(super) struct Routes<K, V> {
    by_key: HashMap<K, usize>,
    slots: Vec<(K, V)>,
    last: usize,
    bytes: usize,
}

impl<K: Clone + Eq + Hash, V> Routes<K, V> {
    pub(super) fn new() -> Self {
        Self { by_key: HashMap::new(), slots: Vec::new(), last: 0, bytes: 0 }
    }

    /// The index of the value of `key`, valid until the next `insert` or `forget`.
    #[inline]
    pub(super) fn find(&mut self, key: &K) -> Option<usize> {
        if self.slots.get(self.last).is_none_or(|(last, _)| last != key) {
            self.last = *self.by_key.get(key)?;
        }
        Some(self.last)
    }

    #[inline]
    pub(super) fn at(&self, place: usize) -> Option<&V> {
        self.slots.get(place).map(|(_, value)| value)
    }

    /// Caches a value that holds so many bytes elsewhere.
    pub(super) fn insert(&mut self, key: K, value: V, bytes: usize) -> usize {
        // The hash table is at most half full after it has grown.
        let bytes = bytes + size_of::<(K, V)>() + 2 * size_of::<(K, usize)>();
        if self.bytes + bytes > MAX_ROUTE_BYTES {
            self.forget();
        }
        self.bytes += bytes;
        self.last = self.slots.len();
        self.by_key.insert(key.clone(), self.last);
        self.slots.push((key, value));
        self.last
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Empties the cache after any change.
    pub(super) fn forget(&mut self) {
        if !self.slots.is_empty() {
            self.by_key.clear();
            self.slots.clear();
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_until_everything_is_forgotten() {
        let mut routes = Routes::new();
        routes.insert("a", 1, 1);
        routes.insert("b", 2, 1);
        let found = |routes: &mut Routes<&str, i32>, key| {
            routes.find(&key).and_then(|place| routes.at(place).copied())
        };
        assert_eq!((found(&mut routes, "a"), found(&mut routes, "b")), (Some(1), Some(2)));
        routes.forget();
        assert_eq!(found(&mut routes, "a"), None);
    }

    #[test]
    fn no_more_is_remembered_than_the_bound() {
        let mut routes = Routes::new();
        let most = MAX_ROUTE_BYTES / 1_000;
        for key in 0..3 * most {
            let place = routes.insert(key, key, 1_000);
            assert_eq!(routes.at(place), Some(&key));
            assert!(routes.slots.len() <= most && routes.by_key.len() <= most);
        }
        assert!(routes.find(&(3 * most - 1)).is_some() && routes.find(&0).is_none());
    }
}
