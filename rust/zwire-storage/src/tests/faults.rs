//! Storages whose volume fails, refuses or hangs.

use super::{
    Bench, Folder as Place, at, delete, key, put,
    running::{LONG, get, open, publish, shown},
};
use crate::{
    DURABLE, Disk, Error, Folder, FolderSettings, KeyValue, Keyed, Memory, Result, Settings, Storage,
    StorageManager,
    rules::{self, Outcome, Value},
    shared::Shared,
    volume::{Persistence, Reach, Store},
    wildcards::{MAX_WILDCARD_BYTES, Wildcards},
};
use bytes::Bytes;
use core::{
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use serde_json::json;
use std::{collections::BTreeMap, fs, io, sync::Arc};
use zwire_engine::{
    Queue, clock,
    queue::{Bounds, Overflow},
};
use zwire_proto::zenoh::{Encoding, Ntp64, Timestamp, ZenohId, session::Sample};

const WORKS: u8 = 0;
const FAILS: u8 = 1;
const REFUSES: u8 = 2;
const HANGS: u8 = 3;

type Values = BTreeMap<String, (Timestamp, Value)>;

/// Map of a program: calls for keys that end with `bad` fail as the mode says.
#[derive(Clone, Default)]
struct Map(Arc<(AtomicU8, Mutex<Values>)>);

impl Map {
    fn set(&self, mode: u8) {
        self.0.0.store(mode, Ordering::SeqCst);
    }

    fn values(&self) -> Vec<String> {
        self.0.1.lock().keys().cloned().collect()
    }

    fn check(&self, key: &str) -> Result<()> {
        let mode = || if key.ends_with("bad") { self.0.0.load(Ordering::SeqCst) } else { WORKS };
        while mode() == HANGS {
            std::thread::sleep(Duration::from_millis(1));
        }
        match mode() {
            FAILS => Err(Error::Io { file: "map".into(), source: io::Error::other("no connection") }),
            REFUSES => Err(Error::Volume { action: "store a value", problem: "too long".to_owned() }),
            _ => Ok(()),
        }
    }
}

impl KeyValue for Map {
    fn persistence(&self) -> Persistence {
        Persistence::Durable
    }

    fn put(&self, key: &str, stamp: Timestamp, value: &Value) -> Result<()> {
        self.check(key)?;
        self.0.1.lock().insert(key.to_owned(), (stamp, value.clone()));
        Ok(())
    }

    fn delete(&self, key: &str, _: Timestamp) -> Result<()> {
        self.check(key)?;
        self.0.1.lock().remove(key);
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>> {
        Ok(self.0.1.lock().get(key).cloned())
    }

    fn keys(&self) -> Result<Vec<(String, Timestamp)>> {
        Ok(self.0.1.lock().iter().map(|(key, (stamp, _))| (key.clone(), *stamp)).collect())
    }
}

fn storage(session: &zwire_engine::Session, map: &Map) -> Storage {
    Storage::start(session, Settings::new(key("k/**")), Box::new(Keyed::open(map.clone()).unwrap())).unwrap()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let end = clock::mono() + LONG;
    while !condition() {
        assert!(clock::mono() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_timestamp_of_the_future_does_not_block_its_key() {
    let session = open();
    let storage = Storage::start(&session, Settings::new(key("k/**")), Box::new(Memory::default())).unwrap();
    let year_2100 = Timestamp { time: Ntp64(4_102_444_800 << 32), id: ZenohId::new(7).unwrap() };
    publish(&session, "k/a", None, Some(year_2100));
    publish(&session, "k/**", None, Some(year_2100));
    publish(&session, "k/a", Some("1"), Some(year_2100));
    publish(&session, "k/a", Some("2"), None);
    let (samples, _) = get(&session, "k/a", "");
    assert_eq!(shown(&samples), "k/a=2");
    assert!(samples[0].timestamp.unwrap() < year_2100);
    assert_eq!(storage.stats().unwrap().outdated, 0);
}

#[test]
fn a_flush_tells_once_of_refused_updates() {
    let (session, map) = (open(), Map::default());
    let storage = storage(&session, &map);
    map.set(REFUSES);
    publish(&session, "k/bad", Some("1"), None);
    publish(&session, "k/good", Some("1"), None);
    let told = storage.flush(LONG, &mut || false).unwrap_err().to_string();
    assert!(told.contains("1 were refused by the volume"), "{told}");
    storage.flush(LONG, &mut || false).unwrap();
    publish(&session, "k/bad", Some("2"), None);
    let (_, errors) = get(&session, "k/good", DURABLE);
    assert!(errors.len() == 1 && errors[0].contains("1 were refused"), "{errors:?}");
    assert_eq!(get(&session, "k/good", DURABLE).1, [""; 0]);
}

#[test]
fn a_flush_does_not_take_dropped_samples_for_stored_ones() {
    let bounds = Bounds { messages: 2, bytes: 1 << 20, overflow: Overflow::DropNewest };
    let queue: Arc<Queue<Sample>> = Queue::new(bounds);
    let place = crate::place::Place::new(key("**"), None).unwrap();
    let shared = Shared::new("s".to_owned(), place, Box::new(Memory::default()), queue.clone());
    let session = open();
    let (_, samples) =
        session.declare_subscriber(key("a"), Default::default(), zwire_engine::Handler::Fifo(16)).unwrap();
    for _ in 0..5 {
        publish(&session, "a", Some("1"), None);
        queue.push(samples.recv(Some(LONG), &mut || false).unwrap());
    }
    let short = Duration::from_millis(10);
    assert!(shared.flush(short, &mut || false).is_err(), "nothing is stored yet");
    shared.advance(2, 2);
    let told = shared.flush(short, &mut || false).unwrap_err().to_string();
    assert!(told.contains("3 were dropped"), "{told}");
    shared.flush(short, &mut || false).unwrap();
}

#[test]
fn a_close_tells_of_the_updates_that_fail() {
    let (session, map) = (open(), Map::default());
    let storage = storage(&session, &map);
    map.set(FAILS);
    publish(&session, "k/bad", Some("1"), None);
    until("the failure is seen", || storage.stats().unwrap().problem.is_some());
    let lost = storage.close(LONG).unwrap_err().to_string();
    assert!(lost.contains("1 updates: map: no connection"), "{lost}");
}

#[test]
fn a_close_after_a_timeout_waits_on() {
    let (session, map) = (open(), Map::default());
    let storage = storage(&session, &map);
    map.set(HANGS);
    publish(&session, "k/bad", Some("1"), None);
    for _ in 0..2 {
        let late = storage.close(Duration::from_millis(20)).unwrap_err();
        assert!(matches!(late, Error::NotDurable { .. }), "{late}");
    }
    map.set(WORKS);
    storage.close(LONG).unwrap();
    assert_eq!(map.values(), ["k/bad"]);
}

#[test]
fn a_durable_query_learns_that_its_storage_is_closing() {
    let (session, map) = (open(), Map::default());
    let storage = storage(&session, &map);
    map.set(FAILS);
    publish(&session, "k/bad", Some("1"), None);
    until("the failure is seen", || storage.stats().unwrap().problem.is_some());
    let errors = std::thread::scope(|scope| {
        let asked = scope.spawn(|| get(&session, "k/x", DURABLE).1);
        until("the query has come", || storage.stats().unwrap().queries == 1);
        assert!(storage.close(LONG).is_err());
        asked.join().unwrap()
    });
    assert!(errors.len() == 1 && errors[0].contains("not durable"), "{errors:?}");
}

#[test]
fn a_wildcard_update_goes_on_past_a_key_that_is_refused() {
    let map = Map::default();
    let mut bench = Bench::new(Keyed::open(map.clone()).unwrap());
    for name in ["a", "bad", "c"] {
        bench.take(&put(name, "1", 1));
    }
    map.set(REFUSES);
    let (wildcards, place) = (&mut bench.wildcards, &bench.place);
    let done = bench.store.change(Reach::Visible, &mut |table| {
        let refused = rules::apply(table, wildcards, place, &delete("**", 2)).unwrap_err();
        assert!(matches!(refused, Error::Volume { .. }), "{refused}");
        Ok(())
    });
    done.unwrap();
    assert_eq!(map.values(), ["bad"]);
    assert_eq!(bench.store.wildcards().unwrap().len(), 1);
}

#[test]
fn a_wildcard_update_that_failed_halfway_is_finished() {
    let (session, map) = (open(), Map::default());
    let storage = storage(&session, &map);
    for name in ["k/a", "k/bad", "k/c"] {
        publish(&session, name, Some("1"), None);
    }
    storage.flush(LONG, &mut || false).unwrap();
    map.set(FAILS);
    publish(&session, "k/**", None, None);
    until("the failure is seen", || storage.stats().unwrap().problem.is_some());
    map.set(WORKS);
    storage.flush(LONG, &mut || false).unwrap();
    assert_eq!(map.values(), [""; 0]);
}

#[test]
fn updates_do_not_shorten_the_pause_after_a_failure() {
    let (session, map) = (open(), Map::default());
    let storage = storage(&session, &map);
    map.set(FAILS);
    publish(&session, "k/bad", Some("1"), None);
    until("the failure is seen", || storage.stats().unwrap().problem.is_some());
    for number in 0..200 {
        publish(&session, &format!("k/{number}"), Some("1"), None);
        std::thread::sleep(Duration::from_micros(200));
    }
    assert!(storage.stats().unwrap().failures < 20, "{:?}", storage.stats());
    map.set(WORKS);
    storage.close(LONG).unwrap();
    assert_eq!(map.values().len(), 201);
}

#[test]
fn a_change_that_fails_leaves_the_storage_as_it_was() {
    let (folder, session) = (Place::new(), open());
    fs::create_dir_all(&*folder).unwrap();
    fs::write(folder.join("file"), "").unwrap();
    let section = |dir: &str| {
        let dir = folder.join(dir);
        json!({"key_expr": "d/**", "volume": {"id": "disk", "dir": dir.to_str().unwrap()}})
    };
    let manager = StorageManager::start(&session, &json!({"storages": {"d": section("a")}})).unwrap();
    publish(&session, "d/a", Some("1"), None);
    manager.add("d", &section("file/below")).unwrap_err();
    assert_eq!(shown(&get(&session, "d/**", "").0), "d/a=1");
    manager.add("d", &section("b")).unwrap();
    assert_eq!(shown(&get(&session, "d/**", "").0), "");
    manager.close().unwrap();
}

#[test]
fn a_change_of_a_volume_starts_its_storages_again() {
    let (folder, session) = (Place::new(), open());
    let section = |backend: &str| {
        let volume = json!({"id": "v", "dir": folder.to_str().unwrap()});
        json!({
            "volumes": {"v": {"backend": backend}},
            "storages": {"d": {"key_expr": "d/**", "volume": volume}},
        })
    };
    let manager = StorageManager::start(&session, &section("disk")).unwrap();
    publish(&session, "d/a", Some("1"), None);
    assert_eq!(shown(&get(&session, "d/**", "").0), "d/a=1");
    manager.apply(&section("fs")).unwrap();
    publish(&session, "d/b", Some("2"), None);
    assert_eq!(shown(&get(&session, "d/**", "").0), "d/b=2");
    manager.close().unwrap();
    assert!(folder.join("d/b").exists());
}

#[test]
fn keys_outside_the_storage_do_not_cut_an_answer_short() {
    let (folder, session) = (Place::new(), open());
    let mut bench = Bench::new(Disk::open(&folder, 1 << 20).unwrap());
    for name in ["a/1", "b/1", "c/1"] {
        bench.take(&put(name, "1", 1));
    }
    drop(bench);
    let disk = Disk::open(&folder, 1 << 20).unwrap();
    let kept = Storage::start(&session, Settings::new(key("b/**")), Box::new(disk)).unwrap();
    let (samples, errors) = get(&session, "**", "");
    assert_eq!((shown(&samples), errors), ("b/1=1".to_owned(), vec![]));
    kept.close(LONG).unwrap();
}

#[test]
fn large_wildcard_puts_do_not_displace_deletes() {
    let mut bench = Bench::new(Memory::default());
    assert_eq!(bench.take(&delete("d/*", 5)), Outcome::Wild(0));
    let large = "x".repeat(MAX_WILDCARD_BYTES / 4);
    for number in 0..8 {
        bench.take(&put(&format!("p{number}/*"), &large, 10 + number));
    }
    assert!(bench.wildcards.len() < 6);
    assert_eq!(bench.take(&put("d/a", "1", 4)), Outcome::Outdated);
    // Attachments count as well.
    let mut wildcards = Wildcards::default();
    for number in 0..8 {
        let mut update = put(&format!("p{number}/*"), "", 10 + number);
        update.value.as_mut().unwrap().attachment = Some(Bytes::from(large.clone()));
        let place = &bench.place;
        let apply =
            &mut |table: &mut dyn rules::Table| rules::apply(table, &mut wildcards, place, &update).map(drop);
        bench.store.change(Reach::Visible, apply).unwrap();
    }
    assert!(wildcards.len() < 5);
}

#[test]
fn an_entry_that_the_disk_cannot_hold_is_refused_alone() {
    let folder = Place::new();
    let disk = Disk::open(&folder, 1 << 20).unwrap();
    let encoding = Encoding { id: 0, schema: Some(Box::new(Bytes::from(vec![b's'; 256]))) };
    let value = Value { encoding, ..Value::default() };
    let done = disk.change(Reach::Durable, &mut |table| {
        let refused = table.put("a", at(1), at(1), &value).unwrap_err();
        assert!(refused.to_string().contains("255"), "{refused}");
        table.put("b", at(1), at(1), &Value::default())
    });
    done.unwrap();
    assert_eq!(disk.counts().unwrap().keys, 1);
}

#[test]
fn a_delete_removes_a_file_of_another_program() {
    let root = Place::new();
    let folder = Folder::open(&root, FolderSettings::default()).unwrap();
    let mut bench = Bench::new(Keyed::open(folder).unwrap());
    fs::write(root.join("theirs"), "x").unwrap();
    let late = Timestamp { time: Ntp64(4_102_444_800 << 32), ..at(1) };
    assert_eq!(bench.take(&delete("theirs", 1)), Outcome::Outdated);
    assert!(root.join("theirs").exists());
    bench.take(&super::Update { stamp: late, ..delete("theirs", 1) });
    assert!(!root.join("theirs").exists());
}
