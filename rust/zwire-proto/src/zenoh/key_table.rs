//! [`KeyTable`]: the numbers that one side of a link has given to key expressions (`zenoh-behaviour` 4.1).

use core::borrow::Borrow;
use hashbrown::{HashMap, hash_map::Entry};
use std::collections::BTreeMap;

/// Keys by their numbers: D_KEYEXPR adds one, U_KEYEXPR removes it, and the scope of a message names it.
///
/// `N` is the index for the other way round: `()` for none, or [`NumbersByKey`]. What keys may cost is the
/// caller's to say, once for each.
#[derive(Debug)]
pub struct KeyTable<K, N = ()> {
    keys: HashMap<u16, K>,
    numbers: N,
}

impl<K, N: Default> Default for KeyTable<K, N> {
    fn default() -> Self {
        Self { keys: HashMap::new(), numbers: N::default() }
    }
}

/// Result of a declaration.
#[derive(Debug, PartialEq, Eq)]
pub enum NumberUse<'a, K> {
    /// The number means the key from now on.
    New,
    /// The number was in use, and keeps this key.
    Taken(&'a K),
    /// Number 0 stands for no key and cannot be declared.
    Zero,
}

/// Index of a [`KeyTable`] from keys to numbers.
pub trait KeyIndex<K> {
    /// Takes in that a number means a key.
    fn insert(&mut self, key: &K, number: u16);

    /// Takes in that a number no longer means a key.
    fn remove(&mut self, key: &K, number: u16);
}

impl<K> KeyIndex<K> for () {
    fn insert(&mut self, _key: &K, _number: u16) {}

    fn remove(&mut self, _key: &K, _number: u16) {}
}

/// The number of each key. Of two numbers for one key the first is used.
#[derive(Debug)]
pub struct NumbersByKey<K>(BTreeMap<K, u16>);

impl<K> Default for NumbersByKey<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Clone + Ord> KeyIndex<K> for NumbersByKey<K> {
    fn insert(&mut self, key: &K, number: u16) {
        self.0.entry(key.clone()).or_insert(number);
    }

    fn remove(&mut self, key: &K, number: u16) {
        if self.0.get(key) == Some(&number) {
            self.0.remove(key);
        }
    }
}

impl<K, N: KeyIndex<K>> KeyTable<K, N> {
    /// The key of a number.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&K> {
        self.keys.get(&number)
    }

    /// Whether a number is in use.
    #[must_use]
    pub fn contains(&self, number: u16) -> bool {
        self.keys.contains_key(&number)
    }

    /// How many numbers are in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The numbers in use, with their keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &K)> {
        self.keys.iter().map(|(number, key)| (*number, key))
    }

    /// Whether no number is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// D_KEYEXPR. A number in use keeps its key. `charge` accounts for a key that is new.
    ///
    /// # Errors
    /// That of `charge`; nothing is declared then.
    pub fn declare<E>(
        &mut self,
        number: u16,
        key: K,
        charge: impl FnOnce(&K) -> Result<(), E>,
    ) -> Result<NumberUse<'_, K>, E> {
        if number == 0 {
            return Ok(NumberUse::Zero);
        }
        match self.keys.entry(number) {
            Entry::Occupied(known) => Ok(NumberUse::Taken(known.into_mut())),
            Entry::Vacant(free) => {
                charge(&key)?;
                self.numbers.insert(&key, number);
                free.insert(key);
                Ok(NumberUse::New)
            }
        }
    }

    /// U_KEYEXPR: the key that the number had, of which the caller takes back the cost.
    pub fn undeclare(&mut self, number: u16) -> Option<K> {
        let key = self.keys.remove(&number)?;
        self.numbers.remove(&key, number);
        Some(key)
    }
}

impl<K: Borrow<str> + Clone + Ord> KeyTable<K, NumbersByKey<K>> {
    /// The number of a key.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u16> {
        self.numbers.0.get(key).copied()
    }

    /// The longest prefix of `key`, in whole chunks, that has a number: the number and the length of the
    /// prefix.
    #[must_use]
    pub fn longest_prefix(&self, key: &str) -> Option<(u16, usize)> {
        if self.is_empty() {
            return None;
        }
        let mut prefix = key;
        loop {
            if let Some(number) = self.number(prefix) {
                return Some((number, prefix.len()));
            }
            prefix = &prefix[..prefix.rfind('/')?];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Text;
    use core::convert::Infallible;

    type Indexed = KeyTable<Text, NumbersByKey<Text>>;

    fn declare(table: &mut Indexed, number: u16, key: &str) -> bool {
        let free = |_: &Text| Ok::<_, Infallible>(());
        table.declare(number, key.into(), free) == Ok(NumberUse::New)
    }

    #[test]
    fn a_number_keeps_its_key_until_it_is_undeclared() {
        let mut table = Indexed::default();
        assert!(declare(&mut table, 7, "a"));
        assert!(!declare(&mut table, 7, "b"));
        assert!(!declare(&mut table, 0, "a"));
        assert_eq!(table.get(7).map(Text::as_str), Some("a"));
        assert_eq!(table.undeclare(7), Some("a".into()));
        assert_eq!((table.undeclare(7), table.get(7), table.number("a")), (None, None, None));
        assert!(declare(&mut table, 7, "b"));
    }

    #[test]
    fn of_two_numbers_for_one_key_the_first_is_used() {
        let mut table = Indexed::default();
        assert!(declare(&mut table, 2, "a") && declare(&mut table, 1, "a"));
        assert_eq!(table.number("a"), Some(2));
        table.undeclare(1);
        assert_eq!(table.number("a"), Some(2));
        table.undeclare(2);
        assert_eq!((table.number("a"), table.is_empty()), (None, true));
    }

    #[test]
    fn the_longest_prefix_ends_with_a_chunk() {
        let mut table = Indexed::default();
        assert_eq!(table.longest_prefix("a/b"), None);
        assert!(declare(&mut table, 1, "a") && declare(&mut table, 2, "a/b"));
        assert_eq!(table.longest_prefix("a/b/c"), Some((2, 3)));
        assert_eq!(table.longest_prefix("a/bc"), Some((1, 1)));
        assert_eq!(table.longest_prefix("ab"), None);
    }

    #[test]
    fn a_key_that_is_too_much_is_not_declared() {
        let mut table = Indexed::default();
        assert_eq!(table.declare(1, "a".into(), |_| Err("full")), Err("full"));
        assert_eq!((table.len(), table.number("a")), (0, None));
    }
}
