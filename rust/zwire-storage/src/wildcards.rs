//! Wildcard updates that have to meet puts which come late.

use crate::rules::Value;
use std::collections::VecDeque;
use zwire_proto::zenoh::{KeyExpr, Ntp64, Timestamp};

/// Most wildcard updates kept. Each put that is older than the newest of them is compared with all.
pub const MAX_WILDCARDS: usize = 4096;

/// Most octets of them in memory, with keys, values and attachments.
pub const MAX_WILDCARD_BYTES: usize = 16 << 20;

/// Update of all keys that a key expression matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    /// Full key expression.
    pub key: KeyExpr,
    /// Time of the update.
    pub stamp: Timestamp,
    /// Value of a put; `None` is a delete.
    pub value: Option<Value>,
}

impl Wildcard {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.value.as_ref().map_or(0, Value::weight)
    }

    /// Whether `older` changes nothing any more because of this update.
    fn replaces(&self, older: &Self) -> bool {
        self.value.is_some() == older.value.is_some()
            && self.stamp >= older.stamp
            && self.key.includes(&older.key)
    }
}

/// The wildcard updates of a storage, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Wildcards {
    all: VecDeque<Wildcard>,
    bytes: usize,
    /// Whether a warning has said that some were forgotten.
    warned: bool,
}

impl Wildcards {
    /// Of updates in any order.
    #[must_use]
    pub fn new(mut all: Vec<Wildcard>) -> Self {
        all.sort_by_key(|wildcard| wildcard.stamp);
        let bytes = all.iter().map(Wildcard::weight).sum();
        Self { all: all.into(), bytes, warned: false }
    }

    /// Number of updates.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The updates, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Wildcard> {
        self.all.iter()
    }

    /// Whether a delete at `stamp` or later matches the key.
    pub(crate) fn deletes(&self, key: &KeyExpr, stamp: Timestamp) -> bool {
        self.since(stamp).any(|known| known.value.is_none() && known.key.intersects(key))
    }

    /// The latest put at `stamp` or later that matches the key.
    pub(crate) fn put(&self, key: &KeyExpr, stamp: Timestamp) -> Option<&Wildcard> {
        self.since(stamp).find(|known| known.value.is_some() && known.key.intersects(key))
    }

    /// Updates at `stamp` or later, the latest first.
    fn since(&self, stamp: Timestamp) -> impl Iterator<Item = &Wildcard> {
        self.all.iter().rev().take_while(move |known| known.stamp >= stamp)
    }

    /// Keeps an update. Returns those that it displaces, or `None` if a known one replaces it already.
    pub(crate) fn add(&mut self, new: Wildcard) -> Option<Vec<Wildcard>> {
        if self.since(new.stamp).any(|known| known.replaces(&new)) {
            return None;
        }
        let mut gone = Vec::new();
        self.remove(|known| new.replaces(known), &mut gone);
        self.bytes += new.weight();
        let place = self.all.partition_point(|known| known.stamp <= new.stamp);
        self.all.insert(place, new);
        // The oldest ones meet the fewest late puts.
        let full = gone.len();
        while self.all.len() > MAX_WILDCARDS || self.bytes > MAX_WILDCARD_BYTES && self.all.len() > 1 {
            // Octets are those of puts: deletes are small, and what they have deleted would come back.
            let puts = self.bytes > MAX_WILDCARD_BYTES;
            let oldest = self.all.iter().position(|known| !puts || known.value.is_some()).unwrap_or(0);
            gone.extend(self.all.remove(oldest).inspect(|oldest| self.bytes -= oldest.weight()));
        }
        if gone.len() > full && !core::mem::replace(&mut self.warned, true) {
            let forgotten = &gone[full];
            tracing::warn!(
                key = %forgotten.key, bytes = self.bytes, count = self.all.len(),
                "too many wildcard updates are remembered: the oldest are forgotten, and older puts of their keys that \
                 come late do not meet them"
            );
        }
        Some(gone)
    }

    /// Removes the updates before a time and returns them.
    pub(crate) fn expire(&mut self, before: Ntp64) -> Vec<Wildcard> {
        let mut gone = Vec::new();
        self.remove(|known| known.stamp.time < before, &mut gone);
        gone
    }

    fn remove(&mut self, which: impl Fn(&Wildcard) -> bool, gone: &mut Vec<Wildcard>) {
        self.all.retain(|known| {
            let goes = which(known);
            if goes {
                self.bytes -= known.weight();
                gone.push(known.clone());
            }
            !goes
        });
    }
}
