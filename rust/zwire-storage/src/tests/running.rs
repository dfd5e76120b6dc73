//! Storages in a session: samples in, replies out.

use super::{Folder, at, key};
use crate::{DURABLE, Disk, Memory, Settings, Spooled, Storage, StorageManager, volume::Store};
use core::time::Duration;
use serde_json::json;
use zwire_engine::{Config, Handler, RecvError, Session};
use zwire_proto::zenoh::{
    Encoding, Timestamp,
    session::{Get, Publication, Sample, SampleKind},
    wire::{Del, PushBody, Put},
};

pub(super) const LONG: Duration = Duration::from_secs(20);

pub(super) fn open() -> Session {
    let json = "{mode: 'peer', listen: {endpoints: []}, scouting: {multicast: {enabled: false}}}";
    Session::open(&Config::from_json5(json).unwrap(), &mut || false).unwrap()
}

pub(super) fn publish(session: &Session, text: &str, value: Option<&str>, stamp: Option<Timestamp>) {
    let body = match value {
        Some(value) => PushBody::Put(Put {
            timestamp: stamp,
            encoding: Encoding::TEXT_PLAIN,
            attachment: Some(b"note".as_slice().into()),
            ..Put::new(value.to_owned())
        }),
        None => PushBody::Del(Del { timestamp: stamp, ..Del::default() }),
    };
    session.put(Publication::new(key(text), body), &mut || false).unwrap();
}

/// Samples of the replies in the order of their keys, and texts of errors.
pub(super) fn get(session: &Session, text: &str, parameters: &str) -> (Vec<Sample>, Vec<String>) {
    let get = Get { parameters: parameters.into(), ..Get::new(key(text)) };
    let (_, replies) = session.get(get, Handler::Default, &mut || false).unwrap();
    let (mut samples, mut errors) = (Vec::new(), Vec::new());
    loop {
        match replies.queue.recv(Some(LONG), &mut || false) {
            Ok(reply) => match reply.result {
                Ok(sample) => samples.push(sample),
                Err(error) => errors.push(String::from_utf8_lossy(&error.payload).into_owned()),
            },
            Err(RecvError::Closed) => break,
            Err(error) => panic!("no end of the replies: {error:?}"),
        }
    }
    samples.sort_by(|a, b| a.key.as_str().cmp(b.key.as_str()));
    (samples, errors)
}

pub(super) fn shown(samples: &[Sample]) -> String {
    let all = samples.iter().map(|s| format!("{}={}", s.key, String::from_utf8_lossy(&s.payload)));
    all.collect::<Vec<_>>().join(" ")
}

fn storage(session: &Session, text: &str, store: impl Store + 'static) -> Storage {
    Storage::start(session, Settings::new(key(text)), Box::new(store)).unwrap()
}

#[test]
fn a_query_sees_every_update_before_it() {
    let folder = Folder::new();
    let session = open();
    let _storages = [
        storage(&session, "m/**", Memory::default()),
        storage(&session, "d/**", Disk::open(&folder, 1 << 20).unwrap()),
    ];
    for place in ["m", "d"] {
        for round in 0..50 {
            publish(&session, &format!("{place}/a"), Some(&round.to_string()), None);
            let (samples, errors) = get(&session, &format!("{place}/a"), "");
            assert_eq!((shown(&samples), errors), (format!("{place}/a={round}"), vec![]));
        }
        let (samples, _) = get(&session, &format!("{place}/a"), "");
        assert_eq!(samples[0].encoding, Encoding::TEXT_PLAIN);
        assert_eq!(samples[0].attachment.as_deref(), Some(&b"note"[..]));
        assert!(samples[0].timestamp.is_some());
        publish(&session, &format!("{place}/b/c"), Some("x"), None);
        assert_eq!(
            shown(&get(&session, &format!("{place}/**"), "").0),
            format!("{place}/a=49 {place}/b/c=x")
        );
        assert_eq!(shown(&get(&session, &format!("{place}/b/*"), "").0), format!("{place}/b/c=x"));
        publish(&session, &format!("{place}/**"), None, None);
        assert_eq!(shown(&get(&session, "**", "").0), "");
    }
}

#[test]
fn times_choose_values_and_wrong_ones_are_an_error() {
    let session = open();
    let storage = storage(&session, "t/**", Memory::default());
    publish(&session, "t/old", Some("1"), Some(at(1000)));
    publish(&session, "t/new", Some("2"), None);
    assert_eq!(shown(&get(&session, "t/*", "_time=[now(-1h)..]").0), "t/new=2");
    assert_eq!(shown(&get(&session, "t/*", "_time=[..now(-1h)]").0), "t/old=1");
    let (samples, errors) = get(&session, "t/old", "_time=yesterday");
    assert_eq!(samples, []);
    assert!(errors.len() == 1 && errors[0].starts_with("_time: "), "{errors:?}");
    let stats = storage.stats().unwrap();
    assert_eq!((stats.stored, stats.queries, stats.contents.keys), (2, 3, 2));
    assert_eq!(stats.received, 2);
}

#[test]
fn a_flush_and_a_durable_query_end_when_the_updates_are_on_the_disk() {
    let folder = Folder::new();
    let session = open();
    let settings = Settings { commit: Duration::from_secs(3600), ..Settings::new(key("d/**")) };
    let disk = Disk::open(&folder, 1 << 20).unwrap();
    let storage = Storage::start(&session, settings, Box::new(disk)).unwrap();
    publish(&session, "d/a", Some("1"), None);
    get(&session, "d/a", "");
    assert_eq!(storage.stats().unwrap().commits, 0);
    storage.flush(LONG, &mut || false).unwrap();
    assert_eq!(storage.stats().unwrap().commits, 1);
    publish(&session, "d/a", Some("2"), None);
    assert_eq!(shown(&get(&session, "d/a", DURABLE).0), "d/a=2");
    assert_eq!(storage.stats().unwrap().commits, 2);
    // Nothing is left to do.
    storage.flush(LONG, &mut || false).unwrap();
    assert_eq!(storage.stats().unwrap().commits, 2);
}

#[test]
fn a_closed_storage_has_stored_everything_and_frees_its_folder() {
    let folder = Folder::new();
    let session = open();
    let storage = storage(&session, "d/**", Disk::open(&folder, 1 << 20).unwrap());
    for number in 0..5000 {
        publish(&session, &format!("d/{number}"), Some("x"), None);
    }
    storage.close(LONG).unwrap();
    storage.close(LONG).unwrap();
    assert!(storage.check().is_err());
    assert_eq!(shown(&get(&session, "d/1", "").0), "");
    let disk = Disk::open(&folder, 1 << 20).unwrap();
    assert_eq!(disk.counts().unwrap().keys, 5000);
}

#[test]
fn a_session_that_closes_leaves_everything_on_the_disk() {
    let folder = Folder::new();
    let session = open();
    let storage = storage(&session, "d/**", Disk::open(&folder, 1 << 20).unwrap());
    for number in 0..1000 {
        publish(&session, &format!("d/{number}"), Some("x"), Some(at(number)));
    }
    session.close().unwrap();
    drop(storage);
    assert_eq!(Disk::open(&folder, 1 << 20).unwrap().counts().unwrap().keys, 1000);
}

#[test]
fn a_large_answer_comes_whole() {
    let session = open();
    let storage = storage(&session, "w/**", Memory::default());
    for number in 0..5000 {
        publish(&session, &format!("w/{number:05}"), Some("x"), None);
    }
    let (samples, errors) = get(&session, "w/*", "");
    assert_eq!((samples.len(), errors.len()), (5000, 0));
    assert_eq!(storage.stats().unwrap().replies, 5000);
}

#[test]
fn a_history_has_every_update_of_a_time() {
    let folder = Folder::new();
    let session = open();
    let first = storage(&session, "h/**", Spooled::open(&folder, 1 << 20).unwrap());
    for number in 0..300 {
        publish(&session, "h/a", Some(&number.to_string()), None);
    }
    publish(&session, "h/a", Some("late"), Some(at(1000)));
    publish(&session, "h/a", None, None);
    publish(&session, "h/b/c", Some("b"), None);
    // The latest values.
    assert_eq!(shown(&get(&session, "h/**", "").0), "h/b/c=b");
    let check = || {
        let (samples, errors) = get(&session, "h/a", "_time=[now(-1h)..]");
        assert_eq!((samples.len(), errors), (301, vec![]));
        assert_eq!(samples[7].payload.as_ref(), b"7");
        assert_eq!(samples[7].encoding, Encoding::TEXT_PLAIN);
        assert_eq!(samples[7].attachment.as_deref(), Some(&b"note"[..]));
        assert_eq!(samples[300].kind, SampleKind::Delete);
        assert_eq!(shown(&get(&session, "h/*", "_time=[..now(-1h)]").0), "h/a=late");
        assert_eq!(get(&session, "h/**", "_time=[..]").0.len(), 303);
        assert_eq!(get(&session, "h/none", "_time=[..]").0.len(), 0);
    };
    check();
    first.close(LONG).unwrap();
    let _second = storage(&session, "h/**", Spooled::open(&folder, 1 << 20).unwrap());
    check();
}

#[test]
fn a_manager_follows_its_section() {
    let folder = Folder::new();
    let session = open();
    let disk = json!({"key_expr": "d/**", "volume": {"id": "disk", "dir": folder.to_str().unwrap()}});
    let memory = json!({"key_expr": "m/**", "volume": "memory"});
    let manager = StorageManager::start(&session, &json!({"storages": {"d": disk, "m": memory}})).unwrap();
    publish(&session, "d/a", Some("1"), None);
    publish(&session, "m/a", Some("2"), None);
    assert_eq!(shown(&get(&session, "**", "").0), "d/a=1 m/a=2");
    // A wrong section changes nothing, the same one neither.
    assert!(manager.apply(&json!({"storages": {"d": {"key_expr": "x"}}})).is_err());
    manager.apply(&json!({"storages": {"d": disk, "m": memory}})).unwrap();
    assert_eq!(shown(&get(&session, "**", "").0), "d/a=1 m/a=2");
    manager.apply(&json!({"storages": {"d": disk}})).unwrap();
    assert_eq!(shown(&get(&session, "**", "").0), "d/a=1");
    manager.add("m", &memory).unwrap();
    manager.remove("d").unwrap();
    assert!(manager.remove("d").is_err());
    publish(&session, "m/b", Some("3"), None);
    assert_eq!(shown(&get(&session, "**", "").0), "m/b=3");
    manager.add("d", &disk).unwrap();
    assert_eq!(shown(&get(&session, "**", "").0), "d/a=1 m/b=3");
    manager.close().unwrap();
    assert_eq!(shown(&get(&session, "**", "").0), "");
}
