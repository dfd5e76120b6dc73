//! [`Latest`]: where in a queue the item of each key waits.

use super::Weigh;
use hashbrown::HashMap;

/// Places by key, in a queue that takes items out at its head only.
#[derive(Default)]
pub(super) struct Latest {
    /// How many items have been taken out so far: a place is counted from the first item ever.
    taken: usize,
    places: HashMap<Box<str>, usize>,
}

impl Latest {
    /// Where in the queue the item waits that has the key of this one.
    pub(super) fn place_of(&self, item: &impl Weigh) -> Option<usize> {
        let place = self.places.get(item.key()?)?;
        Some(place.wrapping_sub(self.taken))
    }

    /// An item was put behind so many.
    pub(super) fn added(&mut self, item: &impl Weigh, behind: usize) {
        if let Some(key) = item.key() {
            self.places.insert(key.into(), self.taken.wrapping_add(behind));
        }
    }

    /// The first item was taken out.
    pub(super) fn taken(&mut self, item: &impl Weigh) {
        self.taken = self.taken.wrapping_add(1);
        if let Some(key) = item.key() {
            self.places.remove(key);
        }
    }

    /// All items were taken out.
    pub(super) fn all_taken(&mut self, count: usize) {
        self.taken = self.taken.wrapping_add(count);
        self.places.clear();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
