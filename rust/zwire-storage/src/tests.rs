//! Update rules on both volumes: worked examples of `zenoh-services` 4.4 and 4.7, and a naive model.

mod faults;
mod files;
mod folder;
mod replicas;
mod running;

use crate::{
    Disk, Memory,
    place::{Place, Span},
    rules::{self, Outcome, Update, Value},
    volume::{Reach, Store},
    wildcards::{MAX_WILDCARDS, Wildcards},
};
use bytes::Bytes;
use core::sync::atomic::{AtomicU64, Ordering};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use zwire_proto::zenoh::{KeyExpr, Ntp64, Timestamp, ZenohId};

/// Folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("zwire-storage-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl core::ops::Deref for Folder {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn key(text: &str) -> KeyExpr {
    KeyExpr::new(text).unwrap()
}

fn at(time: u64) -> Timestamp {
    Timestamp { time: Ntp64(time << 32), id: ZenohId::new(0x33).unwrap() }
}

fn put(text: &str, value: &str, time: u64) -> Update {
    let value = Value { payload: Bytes::copy_from_slice(value.as_bytes()), ..Value::default() };
    Update { key: key(text), stamp: at(time), value: Some(value), shown: None }
}

fn delete(text: &str, time: u64) -> Update {
    Update { key: key(text), stamp: at(time), value: None, shown: None }
}

/// A volume with rules, without threads.
struct Bench<S> {
    store: S,
    wildcards: Wildcards,
    place: Place,
}

impl<S: Store> Bench<S> {
    fn new(store: S) -> Self {
        let wildcards = Wildcards::new(store.wildcards().unwrap());
        Self { store, wildcards, place: Place::new(key("**"), None).unwrap() }
    }

    fn take(&mut self, update: &Update) -> Outcome {
        let mut outcome = None;
        let (wildcards, place) = (&mut self.wildcards, &self.place);
        self.store
            .change(Reach::Durable, &mut |table| {
                outcome = Some(rules::apply(table, wildcards, place, update)?);
                Ok(())
            })
            .unwrap();
        outcome.unwrap()
    }

    /// Keys and values with times, page by page.
    fn contents(&self) -> BTreeMap<String, (String, u64)> {
        let (mut all, mut after) = (BTreeMap::new(), None::<String>);
        loop {
            let page = self.store.page(&Span::default(), after.as_deref(), &|_| true).unwrap();
            assert!(page.damaged.is_empty(), "{:?}", page.damaged);
            for found in page.found {
                let value = String::from_utf8(found.value.payload.to_vec()).unwrap();
                assert_eq!(self.store.get(&found.key).unwrap(), Some((found.stamp, found.value)));
                all.insert(found.key, (value, found.stamp.time.0 >> 32));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return all,
            }
        }
    }

    fn shown(&self) -> String {
        let all = self.contents().into_iter().map(|(key, (value, time))| format!("{key}={value}@{time}"));
        all.collect::<Vec<_>>().join(" ")
    }
}

fn on_both(updates: &[Update]) -> String {
    let folder = Folder::new();
    let (mut memory, mut disk) =
        (Bench::new(Memory::default()), Bench::new(Disk::open(&folder, 1 << 20).unwrap()));
    for update in updates {
        assert_eq!(memory.take(update), disk.take(update), "{update:?}");
    }
    assert_eq!(memory.shown(), disk.shown());
    let counts = (memory.store.counts().unwrap(), disk.store.counts().unwrap());
    assert_eq!((counts.0.keys, counts.0.tombstones), (counts.1.keys, counts.1.tombstones));
    memory.shown()
}

#[test]
fn worked_examples_of_the_reference() {
    for (updates, state) in [
        (vec![put("a", "1", 2), put("a", "0", 1)], "a=1@2"),
        (vec![put("a", "1", 2), put("a", "9", 2)], "a=9@2"),
        (vec![put("**", "5", 2)], ""),
        (vec![put("a", "1", 1), put("**", "5", 2)], "a=5@2"),
        (vec![put("**", "5", 2), put("a", "1", 1)], "a=5@2"),
        (vec![delete("**", 2), put("a", "1", 1)], ""),
        (vec![put("a", "1", 1), delete("a", 3), put("a", "2", 2)], ""),
        (vec![put("a", "1", 1), put("**", "5", 3), delete("**", 2)], ""),
        // Defect 6: an older wildcard put that comes later.
        (vec![put("**", "5", 3), put("**", "4", 2), put("a", "1", 1)], "a=5@3"),
        // A put between the wildcard put and the delete survives both, and gets the later value.
        (vec![delete("**", 2), put("**", "5", 4), put("a", "1", 3)], "a=5@4"),
        (vec![put("a", "1", 1), put("**", "5", 4), put("a", "2", 3), delete("a", 2)], "a=5@4"),
        // The scenario of `wildcard_test`.
        (vec![put("*", "0", 1), put("a", "2", 2), put("b", "3", 3), put("*", "4", 4)], "a=4@4 b=4@4"),
        (vec![put("a", "2", 2), put("b/c", "3", 3), delete("*", 5)], "b/c=3@3"),
    ] {
        assert_eq!(on_both(&updates), state, "{updates:?}");
    }
}

#[test]
fn keys_of_another_place_are_not_stored() {
    let mut bench = Bench::new(Memory::default());
    bench.place = Place::new(key("demo/**"), Some(key("demo"))).unwrap();
    assert_eq!(bench.take(&put("other/a", "1", 1)), Outcome::Foreign);
    assert_eq!(bench.take(&put("demo/a", "1", 1)), Outcome::Stored);
    assert_eq!(bench.take(&put("demo", "2", 1)), Outcome::Stored);
    assert_eq!(bench.take(&put("demo/**", "3", 2)), Outcome::Wild(2));
    assert_eq!(bench.take(&put("other/**", "4", 3)), Outcome::Wild(0));
    assert_eq!(bench.shown(), "=3@2 a=3@2");
}

#[test]
fn wildcard_updates_outlive_a_restart() {
    // Defect 5.
    let folder = Folder::new();
    let mut first = Bench::new(Disk::open(&folder, 1 << 20).unwrap());
    first.take(&put("b", "2", 4));
    first.take(&delete("**", 3));
    first.take(&delete("c", 9));
    drop(first);
    let mut second = Bench::new(Disk::open(&folder, 1 << 20).unwrap());
    assert_eq!(second.take(&put("a", "1", 2)), Outcome::Outdated);
    assert_eq!(second.take(&put("c", "1", 8)), Outcome::Outdated);
    assert_eq!(second.shown(), "b=2@4");
}

#[test]
fn a_collection_forgets_the_old_and_keeps_the_recent() {
    // Defect 3.
    let folder = Folder::new();
    let mut bench = Bench::new(Disk::open(&folder, 1 << 20).unwrap());
    for update in [delete("old", 10), delete("new", 20), delete("w/**", 11), delete("x/**", 21)] {
        bench.take(&update);
    }
    let (wildcards, mut swept) = (&mut bench.wildcards, 0);
    bench
        .store
        .change(Reach::Durable, &mut |table| {
            for gone in wildcards.expire(Ntp64(15 << 32)) {
                table.forget(&gone)?;
            }
            swept = rules::sweep(table, Ntp64(15 << 32), None)?.1;
            Ok(())
        })
        .unwrap();
    assert_eq!((swept, bench.wildcards.len()), (1, 1));
    assert_eq!(bench.store.wildcards().unwrap().len(), 1);
    assert_eq!(bench.take(&put("old", "1", 9)), Outcome::Stored);
    assert_eq!(bench.take(&put("new", "1", 9)), Outcome::Outdated);
    assert_eq!(bench.take(&put("w/a", "1", 9)), Outcome::Stored);
    assert_eq!(bench.take(&put("x/a", "1", 9)), Outcome::Outdated);
}

#[test]
fn wildcard_updates_are_bounded() {
    let mut bench = Bench::new(Memory::default());
    for number in 0..MAX_WILDCARDS as u64 + 10 {
        bench.take(&delete(&format!("k{number}/*"), number + 1));
    }
    assert_eq!(bench.wildcards.len(), MAX_WILDCARDS);
    // One that includes the others replaces them.
    bench.take(&delete("**", 1_000_000));
    assert_eq!(bench.wildcards.len(), 1);
}

/// State of a key, by the definition in `rules`.
fn model(updates: &[Update], name: &str) -> Option<(String, u64)> {
    let name = key(name);
    let of = |wild: bool, is_put: bool| {
        let name = &name;
        updates.iter().filter(move |update| {
            update.key.is_wild() == wild && update.value.is_some() == is_put && update.key.intersects(name)
        })
    };
    let deleted = of(false, false).chain(of(true, false)).map(|update| update.stamp).max();
    let last = of(false, true).max_by_key(|update| update.stamp)?;
    if deleted.is_some_and(|deleted| deleted >= last.stamp) {
        return None;
    }
    let over = of(true, true).filter(|over| over.stamp >= last.stamp).max_by_key(|over| over.stamp);
    let shown = over.unwrap_or(last);
    let value = String::from_utf8(shown.value.as_ref()?.payload.to_vec()).ok()?;
    Some((value, shown.stamp.time.0 >> 32))
}

const KEYS: [&str; 4] = ["a", "b", "c/a", "c/b"];
const WILD: [&str; 5] = ["**", "*", "c/*", "**/a", "c/**"];

fn some_updates() -> impl Strategy<Value = Vec<Update>> {
    let one = (0..KEYS.len() + WILD.len(), any::<bool>());
    proptest::collection::vec(one, 1..16)
        .prop_map(|kinds| {
            (1..)
                .zip(kinds)
                .map(|(time, (number, is_put))| {
                    let text = KEYS.iter().chain(&WILD).nth(number).unwrap();
                    if is_put { put(text, &time.to_string(), time) } else { delete(text, time) }
                })
                .collect::<Vec<_>>()
        })
        .prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn any_order_gives_the_state_of_the_model(updates in some_updates()) {
        let mut bench = Bench::new(Memory::default());
        for update in &updates {
            bench.take(update);
        }
        let expected: BTreeMap<_, _> =
            KEYS.iter().filter_map(|name| Some(((*name).to_owned(), model(&updates, name)?))).collect();
        prop_assert_eq!(bench.contents(), expected);
    }

    #[test]
    fn any_order_twice_gives_the_same(updates in some_updates(), again in any::<proptest::sample::Index>()) {
        let mut bench = Bench::new(Memory::default());
        for update in updates.iter().chain(&updates[..again.index(updates.len())]) {
            bench.take(update);
        }
        for name in KEYS {
            prop_assert_eq!(bench.contents().get(name).cloned(), model(&updates, name));
        }
    }
}
