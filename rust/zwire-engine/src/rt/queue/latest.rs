//! [`Latest`]: positions of the items of a queue by key.

use super::Weigh;
use hashbrown::HashMap;

/// Positions by key, for a queue that gives out items at its head only.
#[derive(Default)]
pub(super) struct Latest {
    /// Number of items taken so far: positions count from the first item ever.
    taken: usize,
    places: HashMap<Box<str>, usize>,
}

impl Latest {
    /// Position in the queue of the item with the same key.
    pub(super) fn place_of(&self, item: &impl Weigh) -> Option<usize> {
        let place = self.places.get(item.key()?)?;
        Some(place.wrapping_sub(self.taken))
    }

    /// Records an item that was added with `behind` items before it.
    pub(super) fn added(&mut self, item: &impl Weigh, behind: usize) {
        if let Some(key) = item.key() {
            self.places.insert(key.into(), self.taken.wrapping_add(behind));
        }
    }

    /// Records that the first item was taken.
    pub(super) fn taken(&mut self, item: &impl Weigh) {
        self.taken = self.taken.wrapping_add(1);
        if let Some(key) = item.key() {
            self.places.remove(key);
        }
    }

    /// Records that all items were taken.
    pub(super) fn all_taken(&mut self, count: usize) {
        self.taken = self.taken.wrapping_add(count);
        self.places.clear();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
