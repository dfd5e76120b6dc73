//! What one side of a session has declared.

use super::limits::{ENTRY_BYTES, MAX_DECLARED_BYTES, MAX_DECLARED_TOTAL};
use hashbrown::HashMap;
use zwire_proto::{
    Text,
    zenoh::{KeyTable, wire::Declaration},
};

/// Numbers for key strings, and the keys of declared entities.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    keys: KeyTable<Text>,
    entities: HashMap<(Noun, u32), Text>,
    /// What the strings and their places cost.
    bytes: usize,
    /// Bytes of this side are missing, so that what it says later overrides what it said.
    pub(crate) lossy: bool,
}

/// The kinds of entities, each with its own space of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Noun {
    Subscriber,
    Queryable,
    Token,
}

/// [`MAX_DECLARED_BYTES`] or [`MAX_DECLARED_TOTAL`] are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Declared {
    #[inline]
    pub(crate) fn prefix(&self, scope: u16) -> Option<&Text> {
        self.keys.get(scope)
    }

    /// D_KEYEXPR. As with the peers, an id in use keeps its string.
    pub(crate) fn declare_key(&mut self, id: u16, key: Text, total: &mut usize) -> Result<(), Full> {
        if self.lossy {
            self.undeclare_key(id, total);
        }
        let bytes = &mut self.bytes;
        self.keys.declare(id, key, |key| pay(bytes, key.len(), total)).map(drop)
    }

    /// U_KEYEXPR: the string that the id had.
    pub(crate) fn undeclare_key(&mut self, id: u16, total: &mut usize) -> Option<Text> {
        let old = self.keys.undeclare(id);
        self.refund(old.as_ref(), total);
        old
    }

    /// D_SUBSCRIBER and its like. Id 0 is shared by many and names none of them.
    pub(crate) fn declare_entity(
        &mut self,
        noun: Noun,
        id: u32,
        key: Text,
        total: &mut usize,
    ) -> Result<(), Full> {
        if id == 0 {
            return Ok(());
        }
        self.undeclare_entity(noun, id, total);
        pay(&mut self.bytes, key.len(), total)?;
        self.entities.insert((noun, id), key);
        Ok(())
    }

    /// U_SUBSCRIBER and its like: the key that the entity had.
    pub(crate) fn undeclare_entity(&mut self, noun: Noun, id: u32, total: &mut usize) -> Option<Text> {
        let old = self.entities.remove(&(noun, id));
        self.refund(old.as_ref(), total);
        old
    }

    pub(crate) fn clear(&mut self, total: &mut usize) {
        *total -= self.bytes;
        *self = Self::default();
    }

    fn refund(&mut self, old: Option<&Text>, total: &mut usize) {
        let cost = old.map_or(0, |old| old.len() + ENTRY_BYTES);
        self.bytes -= cost;
        *total -= cost;
    }
}

/// Adds what a string of this length costs to what one side and all of them use.
fn pay(bytes: &mut usize, len: usize, total: &mut usize) -> Result<(), Full> {
    let cost = len + ENTRY_BYTES;
    if *bytes + cost > MAX_DECLARED_BYTES || *total + cost > MAX_DECLARED_TOTAL {
        return Err(Full);
    }
    *bytes += cost;
    *total += cost;
    Ok(())
}

/// Kind and id of the entity that a declaration is about.
pub(crate) const fn entity(body: &Declaration) -> Option<(Noun, u32)> {
    match *body {
        Declaration::Subscriber { id, .. } | Declaration::UndeclareSubscriber { id, .. } => {
            Some((Noun::Subscriber, id))
        }
        Declaration::Queryable { id, .. } | Declaration::UndeclareQueryable { id, .. } => {
            Some((Noun::Queryable, id))
        }
        Declaration::Token { id, .. } | Declaration::UndeclareToken { id, .. } => Some((Noun::Token, id)),
        Declaration::KeyExpr { .. } | Declaration::UndeclareKeyExpr { .. } | Declaration::Final => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_use_keeps_its_string() {
        let (mut declared, mut total) = (Declared::default(), 0);
        declared.declare_key(1, "a".into(), &mut total).unwrap();
        declared.declare_key(1, "b".into(), &mut total).unwrap();
        assert_eq!(declared.prefix(1).unwrap(), &"a");
        assert_eq!(declared.undeclare_key(1, &mut total), Some("a".into()));
        assert_eq!(declared.prefix(1), None);
        declared.declare_key(1, "b".into(), &mut total).unwrap();
        declared.lossy = true;
        declared.declare_key(1, "c".into(), &mut total).unwrap();
        assert_eq!(declared.prefix(1).unwrap(), &"c", "an undeclaration may have been lost");
        declared.declare_key(0, "d".into(), &mut total).unwrap();
        assert_eq!(declared.prefix(0), None);
        declared.clear(&mut total);
        assert_eq!(total, 0);
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let (mut declared, mut total) = (Declared::default(), 0);
        let key = Text::from("k".repeat(60_000));
        let mut taken = 0;
        while declared.declare_key(taken + 1, key.clone(), &mut total).is_ok() {
            taken += 1;
        }
        assert!(usize::from(taken) > 100 && declared.bytes <= MAX_DECLARED_BYTES);
        let (token, subscriber) = (Noun::Token, Noun::Subscriber);
        assert_eq!(declared.declare_entity(token, 1, key.clone(), &mut total), Err(Full));
        declared.undeclare_key(1, &mut total);
        declared.declare_entity(token, 1, key.clone(), &mut total).unwrap();
        assert_eq!(declared.undeclare_entity(subscriber, 1, &mut total), None);
        assert_eq!(declared.undeclare_entity(token, 1, &mut total), Some(key));
        for id in 2..=taken {
            declared.undeclare_key(id, &mut total);
        }
        assert_eq!((declared.bytes, total), (0, 0));
    }

    #[test]
    fn all_sessions_together_are_bounded() {
        let (mut sessions, mut total) = (Vec::new(), 0);
        let key = Text::from("k".repeat(65_535));
        for _ in 0..20 {
            let mut declared = Declared::default();
            for id in 1..=u16::MAX {
                if declared.declare_key(id, key.clone(), &mut total).is_err() {
                    break;
                }
            }
            sessions.push(declared);
        }
        assert!(total <= MAX_DECLARED_TOTAL && total > MAX_DECLARED_TOTAL - 70_000);
        assert_eq!(sessions.pop().unwrap().bytes, 0);
        for mut declared in sessions {
            declared.clear(&mut total);
        }
        assert_eq!(total, 0);
    }
}
