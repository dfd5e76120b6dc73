//! Update rules of a storage (`zenoh-services` 4.4): no input and output, no clock.
//!
//! The state after a set of updates does not depend on the order in which they come. For each key:
//!
//! - The key exists if its latest put of its own is later than each delete that matches the key.
//! - Its value is that of the latest wildcard put that is not older than that put, or else the value of the put itself.
//!
//! So a wildcard put creates no key, and brings none back; a delete removes a key even if a wildcard put came between
//! the put of the key and the delete. Two differences of stamps decide nothing: a put at the stamp of a known put is
//! stored again, and at equal stamps a delete is later than a put.
//!
//! The state of a key in a replica is joined by the same rules: the later put, the later value. Its tombstone is kept
//! even below a wildcard delete, so that replicas have the same tombstones in the end.

use crate::{
    error::{Error, Result},
    place::{Place, Span},
    wildcards::{Wildcard, Wildcards},
};
use bytes::Bytes;
use zwire_proto::zenoh::{Encoding, KeyExpr, Ntp64, Timestamp};

/// Keys read at once while a wildcard update is applied: a bound of the memory that it needs.
pub(crate) const AT_ONCE: usize = 1024;

/// Most calls of one wildcard update that a volume may leave unanswered: each of them lasts as long as its deadline.
const MAX_LATE: usize = 8;

/// Content of a put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The value.
    pub payload: Bytes,
    /// Encoding of the payload.
    pub encoding: Encoding,
    /// Attachment of the publisher; present and empty is not the same as absent.
    pub attachment: Option<Bytes>,
}

impl Value {
    /// Octets in memory, for bounds.
    pub(crate) fn weight(&self) -> usize {
        let schema = self.encoding.schema.as_ref().map_or(0, |schema| schema.len());
        self.payload.len() + schema + self.attachment.as_ref().map_or(0, Bytes::len)
    }
}

/// Times of a key in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The key has a value.
    Live {
        /// Time of the latest put of the key itself.
        put: Timestamp,
        /// Time of the value: later than `put` if a wildcard put replaced it.
        stamp: Timestamp,
    },
    /// The key was deleted.
    Gone(Timestamp),
}

impl Mark {
    /// Whether a delete at that time changes nothing: a tombstone is not older, or the put of the key is later.
    fn outlives(&self, delete: Timestamp) -> bool {
        match self {
            Self::Gone(at) => *at >= delete,
            Self::Live { put, .. } => *put > delete,
        }
    }

    /// Time of the value or of the tombstone.
    #[must_use]
    pub const fn stamp(&self) -> Timestamp {
        match self {
            Self::Live { stamp, .. } | Self::Gone(stamp) => *stamp,
        }
    }
}

/// Change of a key or of all keys that a key expression matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Full key, or key expression with wildcards.
    pub key: KeyExpr,
    /// Time of the update.
    pub stamp: Timestamp,
    /// Value of a put; `None` is a delete.
    pub value: Option<Value>,
    /// State of a replica rather than an update of a publisher, with the time of the value: later than `stamp` if a
    /// wildcard put has replaced the value of the put.
    pub shown: Option<Timestamp>,
}

/// Effect of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A value was stored.
    Stored,
    /// The key was deleted.
    Deleted,
    /// Later updates are known: nothing changed.
    Outdated,
    /// The key belongs to another place.
    Foreign,
    /// A wildcard update was kept, and applied to this number of keys.
    Wild(u64),
}

/// Keys of a volume within one change. Keys are those of the volume, without the prefix of the storage.
pub trait Table {
    /// Times of a key; `None` if the volume does not know it.
    fn mark(&mut self, key: &str) -> Result<Option<Mark>>;
    /// Stores a value, in place of an earlier value or of a tombstone.
    fn put(&mut self, key: &str, put: Timestamp, stamp: Timestamp, value: &Value) -> Result<()>;
    /// Sets the time of the key's own put and leaves the value.
    fn raise(&mut self, key: &str, put: Timestamp) -> Result<()>;
    /// Stores a tombstone in place of a value.
    fn bury(&mut self, key: &str, stamp: Timestamp) -> Result<()>;
    /// Forgets the key, its value or its tombstone.
    fn remove(&mut self, key: &str) -> Result<()>;
    /// Keys with a value behind `after`, at most [`AT_ONCE`] and in order.
    fn keys(&mut self, span: &Span, after: Option<&str>) -> Result<Vec<(String, Mark)>>;
    /// Tombstones behind `after`, at most [`AT_ONCE`] and in order.
    fn graves(&mut self, after: Option<&str>) -> Result<Vec<(String, Timestamp)>>;
    /// Keeps a wildcard update.
    fn keep(&mut self, wildcard: &Wildcard) -> Result<()>;
    /// Forgets a wildcard update.
    fn forget(&mut self, wildcard: &Wildcard) -> Result<()>;
}

/// Applies an update. After an error the change must be abandoned, and `wildcards` be read again.
///
/// # Errors
/// Those of the table.
pub fn apply(
    table: &mut dyn Table,
    wildcards: &mut Wildcards,
    place: &Place,
    update: &Update,
) -> Result<Outcome> {
    if update.key.is_wild() {
        return apply_wild(table, wildcards, place, update);
    }
    let Some(key) = place.strip(&update.key) else { return Ok(Outcome::Foreign) };
    let stamp = update.stamp;
    let known = table.mark(key)?;
    let Some(value) = &update.value else {
        let outdated = known.is_some_and(|known| known.outlives(stamp));
        if outdated || update.shown.is_none() && wildcards.deletes(&update.key, stamp) {
            return Ok(Outcome::Outdated);
        }
        table.bury(key, stamp)?;
        return Ok(Outcome::Deleted);
    };
    let shown = update.shown.unwrap_or(stamp).max(stamp);
    let (put, has) = match known {
        Some(Mark::Gone(at)) if at >= stamp => return Ok(Outcome::Outdated),
        Some(Mark::Live { put, stamp: has }) if put > stamp && has >= shown => return Ok(Outcome::Outdated),
        Some(Mark::Live { put, stamp: has }) => (put.max(stamp), Some(has)),
        _ => (stamp, None),
    };
    if wildcards.deletes(&update.key, put) {
        return Ok(Outcome::Outdated);
    }
    let over = wildcards.put(&update.key, put).filter(|over| over.stamp >= shown);
    let latest = over.map_or(shown, |over| over.stamp);
    if has.is_some_and(|has| has > stamp && has >= latest) {
        table.raise(key, put)?;
    } else {
        let value = over.and_then(|over| over.value.as_ref()).unwrap_or(value);
        table.put(key, put, latest, value)?;
    }
    Ok(Outcome::Stored)
}

fn apply_wild(
    table: &mut dyn Table,
    wildcards: &mut Wildcards,
    place: &Place,
    update: &Update,
) -> Result<Outcome> {
    let Update { key, stamp, value, .. } = update;
    let wildcard = Wildcard { key: key.clone(), stamp: *stamp, value: value.clone() };
    let Some(displaced) = wildcards.add(wildcard.clone()) else { return Ok(Outcome::Outdated) };
    let span = place.span(key);
    let (mut after, mut changed, mut refused) = (None, 0, Refused::default());
    loop {
        let keys = table.keys(&span, after.as_deref())?;
        for (stored, mark) in &keys {
            let &Mark::Live { put, stamp: has } = mark else { continue };
            if put > *stamp || !place.restore(stored).is_ok_and(|stored| key.intersects(&stored)) {
                continue;
            }
            let done = match value {
                None => table.remove(stored),
                Some(value) if has < *stamp => table.put(stored, put, *stamp, value),
                Some(_) => continue,
            };
            match done {
                Ok(()) => changed += 1,
                Err(error) => refused.add(error)?,
            }
        }
        match keys.into_iter().last() {
            Some((last, _)) => after = Some(last),
            None => break,
        }
    }
    // It is known from here on: after a failure above, the next attempt applies it to the keys that are left.
    for old in &displaced {
        table.forget(old)?;
    }
    // The new one may be the oldest of too many.
    if !displaced.contains(&wildcard) {
        table.keep(&wildcard)?;
    }
    refused.first.map_or(Ok(Outcome::Wild(changed)), Err)
}

/// Keys that the table did not take while a wildcard update was applied to others.
#[derive(Default)]
struct Refused {
    first: Option<Error>,
    late: usize,
}

impl Refused {
    /// Notes an error of one key; any other, and too many late calls, end the update.
    fn add(&mut self, error: Error) -> Result<()> {
        self.late += usize::from(matches!(error, Error::Slow { .. }));
        if !error.is_of_one_update() || self.late > MAX_LATE {
            return Err(error);
        }
        self.first.get_or_insert(error);
        Ok(())
    }
}

/// Forgets tombstones before a time: one step of at most [`AT_ONCE`] keys. Returns where the next step begins, and
/// the number of tombstones forgotten.
///
/// # Errors
/// Those of the table.
pub fn sweep(table: &mut dyn Table, before: Ntp64, after: Option<&str>) -> Result<(Option<String>, u64)> {
    let graves = table.graves(after)?;
    let mut count = 0;
    for (key, stamp) in &graves {
        if stamp.time < before {
            table.remove(key)?;
            count += 1;
        }
    }
    Ok((graves.into_iter().last().map(|(key, _)| key), count))
}
