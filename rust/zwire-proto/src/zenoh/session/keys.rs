//! The two tables of declared key expressions of a link (`zenoh-behaviour` 4.1).

use super::{
    error::NorthError,
    limits::{MAX_DECLARED_KEY_BYTES, MAX_OWN_KEYEXPRS},
};
use crate::{
    Text,
    zenoh::{
        KeyExpr,
        key_table::{KeyTable, NumberUse, NumbersByKey},
        wire::{Mapping, WireExpr},
    },
};
use core::convert::Infallible;

/// Numbers for key strings, those that we gave and those that the north gave.
#[derive(Debug, Default)]
pub(super) struct KeyTables {
    pub(super) own: KeyTable<Text, NumbersByKey<Text>>,
    /// All numbers up to this one are taken.
    own_last: u16,
    north: KeyTable<Text>,
    north_bytes: usize,
}

impl KeyTables {
    /// Gives `prefix` the smallest number that is free in both tables. `None`: it has one, or there
    /// are too many.
    ///
    /// Numbers are never taken back: publications that name one may wait behind the declaration that
    /// would give it to another key.
    pub(super) fn declare(&mut self, prefix: &str) -> Option<(u16, Text)> {
        if self.own.len() >= MAX_OWN_KEYEXPRS || self.own.number(prefix).is_some() {
            return None;
        }
        let mut id = self.own_last.checked_add(1)?;
        while self.north.contains(id) {
            id = id.checked_add(1)?;
        }
        self.own_last = id;
        let prefix = Text::from(prefix);
        match self.own.declare(id, prefix.clone(), |_| Ok::<_, Infallible>(())) {
            Ok(NumberUse::New) => Some((id, prefix)),
            Ok(NumberUse::Taken(_) | NumberUse::Zero) => None,
        }
    }

    /// `key` by its number, by the number of its non-wild prefix, or in full.
    pub(super) fn shortest(&self, key: &KeyExpr) -> WireExpr {
        let known = key.non_wild_prefix().and_then(|prefix| Some((prefix, self.own.number(prefix)?)));
        match known {
            Some((prefix, scope)) => {
                let suffix = key.text().slice_ref(&key[prefix.len()..]);
                WireExpr { scope, mapping: Mapping::Sender, suffix }
            }
            None => WireExpr::full(key.text().clone()),
        }
    }

    /// The key that a message of the north means; `None`: an unknown number, or no key expression.
    pub(super) fn resolve(&self, wire: &WireExpr) -> Option<KeyExpr> {
        KeyExpr::from_text(self.text(wire)?).ok()
    }

    fn text(&self, wire: &WireExpr) -> Option<Text> {
        if wire.scope == 0 {
            return Some(wire.suffix.clone());
        }
        let prefix = match wire.mapping {
            Mapping::Sender => self.north.get(wire.scope)?,
            Mapping::Receiver => self.own.get(wire.scope)?,
        };
        if wire.suffix.is_empty() {
            return Some(prefix.clone());
        }
        Some(wire.joined_to(prefix))
    }

    /// D_KEYEXPR of the north. `false`: it makes no sense and was ignored, as by the reference: number
    /// 0, a number in use for another key, an unknown scope.
    ///
    /// # Errors
    /// More bytes of keys than it may declare.
    pub(super) fn north_declares(&mut self, id: u16, key: &WireExpr) -> Result<bool, NorthError> {
        let Some(text) = self.text(key) else { return Ok(false) };
        if text.is_empty() {
            return Ok(false);
        }
        // A copy: the text as it came keeps a whole receive buffer alive.
        let copy = Text::from(text.as_str());
        let bytes = &mut self.north_bytes;
        let number = self.north.declare(id, copy, |key| {
            *bytes += key.len();
            if *bytes > MAX_DECLARED_KEY_BYTES {
                return Err(NorthError {
                    what: "bytes of declared key expressions",
                    limit: MAX_DECLARED_KEY_BYTES,
                });
            }
            Ok(())
        })?;
        Ok(match number {
            NumberUse::New => true,
            NumberUse::Taken(known) => *known == text,
            NumberUse::Zero => false,
        })
    }

    /// U_KEYEXPR of the north; whether there was one.
    pub(super) fn north_undeclares(&mut self, id: u16) -> bool {
        let Some(text) = self.north.undeclare(id) else { return false };
        self.north_bytes -= text.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &'static str) -> KeyExpr {
        text.parse().unwrap()
    }

    fn sender(scope: u16, suffix: &str) -> WireExpr {
        WireExpr { scope, mapping: Mapping::Sender, suffix: suffix.into() }
    }

    #[test]
    fn numbers_are_the_smallest_free_in_both_tables() {
        let mut keys = KeyTables::default();
        assert!(keys.north_declares(2, &WireExpr::full("north")).unwrap());
        let ids: Vec<_> = ["a", "b", "c"].iter().map(|key| keys.declare(key).unwrap().0).collect();
        assert_eq!(ids, [1, 3, 4]);
        assert_eq!(keys.declare("b"), None);
        assert_eq!(keys.own.number("b"), Some(3));
    }

    #[test]
    fn the_shortest_form_uses_the_non_wild_prefix() {
        let mut keys = KeyTables::default();
        assert_eq!(keys.shortest(&key("k/s/*")), WireExpr::full("k/s/*"));
        keys.declare("k/s");
        assert_eq!(keys.shortest(&key("k/s/*")), sender(1, "/*"));
        assert_eq!(keys.shortest(&key("k/s")), sender(1, ""));
        assert_eq!(keys.shortest(&key("k/s/t")), WireExpr::full("k/s/t"));
        assert_eq!(keys.shortest(&key("**")), WireExpr::full("**"));
    }

    #[test]
    fn both_mappings_resolve_and_nonsense_does_not() {
        let mut keys = KeyTables::default();
        keys.declare("own");
        keys.north_declares(1, &WireExpr::full("north/**")).unwrap();
        assert_eq!(keys.resolve(&sender(1, "")).unwrap(), "north/**");
        assert_eq!(keys.resolve(&sender(1, "/a")).unwrap(), "north/**/a");
        let own = WireExpr { scope: 1, mapping: Mapping::Receiver, suffix: "/x".into() };
        assert_eq!(keys.resolve(&own).unwrap(), "own/x");
        assert_eq!(keys.resolve(&WireExpr::full("a/b")).unwrap(), "a/b");
        for bad in [sender(2, ""), sender(1, "//"), WireExpr::full("a//b"), WireExpr::EMPTY] {
            assert_eq!(keys.resolve(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_number_keeps_its_key_until_it_is_undeclared() {
        let mut keys = KeyTables::default();
        assert!(!keys.north_declares(0, &WireExpr::full("a")).unwrap());
        assert!(keys.north_declares(7, &WireExpr::full("a")).unwrap());
        assert!(keys.north_declares(7, &WireExpr::full("a")).unwrap());
        assert!(!keys.north_declares(7, &WireExpr::full("b")).unwrap());
        assert_eq!(keys.resolve(&sender(7, "")).unwrap(), "a");
        assert!(keys.north_undeclares(7));
        assert!(!keys.north_undeclares(7));
        assert_eq!(keys.resolve(&sender(7, "")), None);
        assert!(keys.north_declares(7, &sender(9, "b")).is_ok_and(|known| !known));
    }

    #[test]
    fn the_north_declares_no_more_bytes_than_it_may() {
        let mut keys = KeyTables::default();
        let long = "k".repeat(60_000);
        let mut declared = 0;
        let error = (1..u16::MAX).find_map(|id| {
            declared += 1;
            keys.north_declares(id, &WireExpr::full(format!("{id}{long}"))).err()
        });
        assert_eq!(error.unwrap().limit, MAX_DECLARED_KEY_BYTES);
        assert!(declared * long.len() <= MAX_DECLARED_KEY_BYTES + 2 * long.len());
    }
}
