//! [`Keyed`]: a volume out of a simple map from keys to values, such as a database of a program.
//!
//! The map knows values and their times; everything else that the rules need is kept in memory: times of puts below
//! wildcard puts, tombstones, wildcard updates. It is gone after a restart.

use crate::{
    error::{Error, Result},
    memory::range,
    place::Span,
    rules::{AT_ONCE, Mark, Table, Value},
    volume::{
        Capability, Counts, Found, History, PAGE_BYTES, PAGE_ENTRIES, PAGE_KEYS, Page, Persistence, Reach,
        Store,
    },
    wildcards::Wildcard,
};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use zwire_proto::zenoh::{KeyExpr, Timestamp};

/// Map from keys to values. A call may fail or take long: it concerns its own key alone.
pub trait KeyValue: Send + Sync {
    /// Whether a value that was put is there after a crash.
    fn persistence(&self) -> Persistence;
    /// Stores a value.
    fn put(&self, key: &str, stamp: Timestamp, value: &Value) -> Result<()>;
    /// Removes a value, if there is one.
    fn delete(&self, key: &str, stamp: Timestamp) -> Result<()>;
    /// Value of a key.
    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>>;
    /// Every key with the time of its value; called at the start, and for a shared map before each wildcard query.
    fn keys(&self) -> Result<Vec<(String, Timestamp)>>;
    /// Whether other programs change the map, too.
    fn is_shared(&self) -> bool {
        false
    }
    /// Time of a value of a shared map that another program may have stored since the last look.
    fn stamp(&self, _key: &str) -> Result<Option<Timestamp>> {
        Ok(None)
    }
    /// Makes everything before the call safe from crashes, as far as `persistence` promises it.
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    /// Opens the map again after a failure.
    fn reopen(&self) -> Result<()> {
        Ok(())
    }
    /// Ends the use of the map.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Index {
    live: BTreeMap<Box<str>, Mark>,
    gone: BTreeMap<Box<str>, Timestamp>,
    /// Wildcard updates by kind and key expression.
    wild: BTreeMap<(bool, Box<str>), Wildcard>,
}

/// Volume out of a map.
pub struct Keyed<K> {
    map: K,
    index: RwLock<Index>,
    /// Held by a change; readers look at the index between two of its calls.
    changing: Mutex<()>,
}

impl<K: KeyValue> Keyed<K> {
    /// Reads the keys of the map.
    ///
    /// # Errors
    /// The map fails.
    pub fn open(map: K) -> Result<Self> {
        let keyed = Self { map, index: RwLock::default(), changing: Mutex::new(()) };
        keyed.look()?;
        Ok(keyed)
    }

    /// Times of a key.
    fn look_up(&self, key: &str) -> Result<Option<Mark>> {
        if self.map.is_shared()
            && !self.index.read().live.contains_key(key)
            && let Some(stamp) = self.map.stamp(key)?
        {
            return Ok(Some(Mark::Live { put: stamp, stamp }));
        }
        let index = self.index.read();
        Ok(index.live.get(key).copied().or_else(|| index.gone.get(key).copied().map(Mark::Gone)))
    }

    /// Reads the keys again. Names that are no keys are left out.
    fn look(&self) -> Result<()> {
        let _changing = self.changing.lock();
        let mut live = BTreeMap::new();
        for (key, stamp) in self.map.keys()? {
            if key.is_empty() || KeyExpr::new(&*key).is_ok_and(|key| !key.is_wild()) {
                live.insert(key.into(), Mark::Live { put: stamp, stamp });
            }
        }
        let mut index = self.index.write();
        for (key, mark) in &mut live {
            if let (Mark::Live { stamp, .. }, Some(known @ Mark::Live { stamp: has, .. })) =
                (&*mark, index.live.get(key))
                && stamp == has
            {
                // The time of the own put, below a wildcard put, is known here alone.
                *mark = *known;
            }
            index.gone.remove(key);
        }
        index.live = live;
        Ok(())
    }
}

/// Name of a wildcard update in the index.
fn name(wildcard: &Wildcard) -> (bool, Box<str>) {
    (wildcard.value.is_some(), wildcard.key.as_str().into())
}

/// Change of the map: each call is done when it returns.
struct Step<'a, K>(&'a Keyed<K>);

impl<K: KeyValue> Table for Step<'_, K> {
    fn mark(&mut self, key: &str) -> Result<Option<Mark>> {
        self.0.look_up(key)
    }

    fn put(&mut self, key: &str, put: Timestamp, stamp: Timestamp, value: &Value) -> Result<()> {
        self.0.map.put(key, stamp, value)?;
        let mut index = self.0.index.write();
        index.gone.remove(key);
        index.live.insert(key.into(), Mark::Live { put, stamp });
        Ok(())
    }

    fn raise(&mut self, key: &str, to: Timestamp) -> Result<()> {
        if let Some(Mark::Live { put, .. }) = self.0.index.write().live.get_mut(key) {
            *put = to;
        }
        Ok(())
    }

    fn bury(&mut self, key: &str, stamp: Timestamp) -> Result<()> {
        // Another program may have stored a value since the last look.
        if self.0.map.is_shared() || self.0.index.read().live.contains_key(key) {
            self.0.map.delete(key, stamp)?;
        }
        let mut index = self.0.index.write();
        index.live.remove(key);
        index.gone.insert(key.into(), stamp);
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<()> {
        let known = self.0.index.read().live.get(key).copied();
        if let Some(Mark::Live { stamp, .. }) = known {
            self.0.map.delete(key, stamp)?;
        }
        let mut index = self.0.index.write();
        if index.live.remove(key).is_none() {
            index.gone.remove(key);
        }
        Ok(())
    }

    fn keys(&mut self, span: &Span, after: Option<&str>) -> Result<Vec<(String, Mark)>> {
        let index = self.0.index.read();
        let inside = range(&index.live, span, after).filter(|(key, _)| span.contains(key));
        Ok(inside.take(AT_ONCE).map(|(key, mark)| (key.to_owned(), *mark)).collect())
    }

    fn graves(&mut self, after: Option<&str>) -> Result<Vec<(String, Timestamp)>> {
        let index = self.0.index.read();
        let all = Span::default();
        let graves = range(&index.gone, &all, after).take(AT_ONCE);
        Ok(graves.map(|(key, stamp)| (key.to_owned(), *stamp)).collect())
    }

    fn keep(&mut self, wildcard: &Wildcard) -> Result<()> {
        self.0.index.write().wild.insert(name(wildcard), wildcard.clone());
        Ok(())
    }

    fn forget(&mut self, wildcard: &Wildcard) -> Result<()> {
        self.0.index.write().wild.remove(&name(wildcard));
        Ok(())
    }
}

impl<K: KeyValue> Store for Keyed<K> {
    fn capability(&self) -> Capability {
        Capability { persistence: self.map.persistence(), history: History::Latest }
    }

    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>> {
        if !self.map.is_shared() && !self.index.read().live.contains_key(key) {
            return Ok(None);
        }
        self.map.get(key)
    }

    fn mark(&self, key: &str) -> Result<Option<Mark>> {
        self.look_up(key)
    }

    fn page(&self, span: &Span, after: Option<&str>, wanted: &dyn Fn(&str) -> bool) -> Result<Page> {
        if after.is_none() && self.map.is_shared() {
            self.look()?;
        }
        let (mut page, mut keys, mut last) = (Page::default(), Vec::new(), None);
        {
            let index = self.index.read();
            for (looked, (key, _)) in (1..).zip(range(&index.live, span, after)) {
                if span.contains(key) && wanted(key) {
                    keys.push(key.to_owned());
                }
                if keys.len() >= PAGE_ENTRIES || looked >= PAGE_KEYS {
                    last = Some(key.to_owned());
                    break;
                }
            }
        }
        let mut bytes = 0;
        for key in keys {
            match self.map.get(&key) {
                Ok(None) => {}
                Ok(Some((stamp, value))) => {
                    bytes += value.weight();
                    page.found.push(Found { key: key.clone(), stamp, value });
                }
                Err(error @ Error::Slow { .. }) => return Err(error),
                Err(error) => page.damaged.push(error),
            }
            if bytes >= PAGE_BYTES {
                last = Some(key);
                break;
            }
        }
        page.next = last;
        Ok(page)
    }

    fn change(&self, reach: Reach, work: &mut dyn FnMut(&mut dyn Table) -> Result<()>) -> Result<()> {
        let _changing = self.changing.lock();
        work(&mut Step(self))?;
        if reach == Reach::Durable { self.map.sync() } else { Ok(()) }
    }

    fn wildcards(&self) -> Result<Vec<Wildcard>> {
        Ok(self.index.read().wild.values().cloned().collect())
    }

    fn counts(&self) -> Result<Counts> {
        let index = self.index.read();
        Ok(Counts { keys: index.live.len() as u64, tombstones: index.gone.len() as u64, bytes: 0 })
    }

    fn reopen(&self) -> Result<()> {
        self.map.reopen()
    }

    fn close(&self) -> Result<()> {
        self.map.close()
    }
}
