//! Volume in memory.

use crate::{
    error::Result,
    place::Span,
    rules::{AT_ONCE, Mark, Table, Value},
    volume::{
        Capability, Counts, Found, History, PAGE_BYTES, PAGE_ENTRIES, PAGE_KEYS, Page, Persistence, Reach,
        Store,
    },
    wildcards::Wildcard,
};
use bytes::Bytes;
use core::ops::Bound;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use zwire_proto::zenoh::Timestamp;

/// Largest payload that is copied: it would keep alive the whole receive buffer that it came in.
const SMALL: usize = 4096;

struct Slot {
    put: Timestamp,
    stamp: Timestamp,
    value: Value,
}

#[derive(Default)]
struct Entries {
    live: BTreeMap<Box<str>, Slot>,
    gone: BTreeMap<Box<str>, Timestamp>,
    bytes: u64,
}

/// Volume in memory: fast, and empty at each start.
#[derive(Default)]
pub struct Memory(RwLock<Entries>);

fn unshared(bytes: &Bytes) -> Bytes {
    if bytes.len() < SMALL { Bytes::copy_from_slice(bytes) } else { bytes.clone() }
}

/// Entries of an ordered map that belong to a span and lie behind a key.
pub(crate) fn range<'a, T>(
    map: &'a BTreeMap<Box<str>, T>,
    span: &Span,
    after: Option<&str>,
) -> impl Iterator<Item = (&'a str, &'a T)> {
    let start = match after {
        Some(after) => Bound::Excluded(after),
        None => Bound::Included(span.start()),
    };
    let end = span.end();
    let bounds = (start, end.as_deref().map_or(Bound::Unbounded, Bound::Excluded));
    // A range that starts behind its end would panic.
    let is_empty = after.zip(end.as_deref()).is_some_and(|(after, end)| after >= end);
    let entries = (!is_empty).then(|| map.range::<str, _>(bounds));
    entries.into_iter().flatten().map(|(key, entry)| (&**key, entry))
}

impl Entries {
    fn look(&self, key: &str) -> Option<Mark> {
        let live = self.live.get(key).map(|slot| Mark::Live { put: slot.put, stamp: slot.stamp });
        live.or_else(|| self.gone.get(key).copied().map(Mark::Gone))
    }
}

impl Table for Entries {
    fn mark(&mut self, key: &str) -> Result<Option<Mark>> {
        Ok(self.look(key))
    }

    fn put(&mut self, key: &str, put: Timestamp, stamp: Timestamp, value: &Value) -> Result<()> {
        self.bytes += value.payload.len() as u64;
        let value = Value {
            payload: unshared(&value.payload),
            encoding: value.encoding.clone(),
            attachment: value.attachment.as_ref().map(unshared),
        };
        let slot = Slot { put, stamp, value };
        if let Some(known) = self.live.get_mut(key) {
            self.bytes -= known.value.payload.len() as u64;
            *known = slot;
            return Ok(());
        }
        self.gone.remove(key);
        self.live.insert(key.into(), slot);
        Ok(())
    }

    fn raise(&mut self, key: &str, put: Timestamp) -> Result<()> {
        if let Some(slot) = self.live.get_mut(key) {
            slot.put = put;
        }
        Ok(())
    }

    fn bury(&mut self, key: &str, stamp: Timestamp) -> Result<()> {
        self.remove(key)?;
        self.gone.insert(key.into(), stamp);
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<()> {
        match self.live.remove(key) {
            Some(slot) => self.bytes -= slot.value.payload.len() as u64,
            None => drop(self.gone.remove(key)),
        }
        Ok(())
    }

    fn keys(&mut self, span: &Span, after: Option<&str>) -> Result<Vec<(String, Mark)>> {
        let inside = range(&self.live, span, after).filter(|(key, _)| span.contains(key));
        let marks =
            inside.map(|(key, slot)| (key.to_owned(), Mark::Live { put: slot.put, stamp: slot.stamp }));
        Ok(marks.take(AT_ONCE).collect())
    }

    fn graves(&mut self, after: Option<&str>) -> Result<Vec<(String, Timestamp)>> {
        let all = Span::default();
        let graves = range(&self.gone, &all, after).take(AT_ONCE);
        Ok(graves.map(|(key, stamp)| (key.to_owned(), *stamp)).collect())
    }

    // The storage has them in memory already.
    fn keep(&mut self, _: &Wildcard) -> Result<()> {
        Ok(())
    }

    fn forget(&mut self, _: &Wildcard) -> Result<()> {
        Ok(())
    }
}

impl Store for Memory {
    fn capability(&self) -> Capability {
        Capability { persistence: Persistence::Volatile, history: History::Latest }
    }

    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>> {
        Ok(self.0.read().live.get(key).map(|slot| (slot.stamp, slot.value.clone())))
    }

    fn mark(&self, key: &str) -> Result<Option<Mark>> {
        Ok(self.0.read().look(key))
    }

    fn page(&self, span: &Span, after: Option<&str>, wanted: &dyn Fn(&str) -> bool) -> Result<Page> {
        let (mut page, mut bytes, mut looked) = (Page::default(), 0, 0);
        let entries = self.0.read();
        for (key, slot) in range(&entries.live, span, after) {
            looked += 1;
            if span.contains(key) && wanted(key) {
                bytes += slot.value.weight();
                page.found.push(Found { key: key.to_owned(), stamp: slot.stamp, value: slot.value.clone() });
            }
            if page.found.len() >= PAGE_ENTRIES || bytes >= PAGE_BYTES || looked >= PAGE_KEYS {
                page.next = Some(key.to_owned());
                break;
            }
        }
        Ok(page)
    }

    fn change(&self, _: Reach, work: &mut dyn FnMut(&mut dyn Table) -> Result<()>) -> Result<()> {
        work(&mut *self.0.write())
    }

    fn wildcards(&self) -> Result<Vec<Wildcard>> {
        Ok(Vec::new())
    }

    fn counts(&self) -> Result<Counts> {
        let entries = self.0.read();
        let (keys, tombstones) = (entries.live.len() as u64, entries.gone.len() as u64);
        Ok(Counts { keys, tombstones, bytes: entries.bytes })
    }
}
