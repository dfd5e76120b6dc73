//! Files of the volume `disk` that are damaged, in use, or on a full disk.

use super::{Bench, Folder, delete, put};
use crate::{
    Disk, Error,
    place::Span,
    rules::Outcome,
    volume::{Reach, Store},
};
use std::fs;

/// A volume with some keys, closed.
fn filled(folder: &Folder) -> usize {
    let mut bench = Bench::new(Disk::open(folder, 1 << 20).unwrap());
    for number in 0..200 {
        bench.take(&put(&format!("k/{number:03}"), &format!("value-{number:03}"), number + 1));
    }
    bench.take(&delete("k/**/none", 3));
    bench.contents().len()
}

#[test]
fn values_are_there_after_the_next_start() {
    let folder = Folder::new();
    assert_eq!(filled(&folder), 200);
    let mut bench = Bench::new(Disk::open(&folder, 1 << 20).unwrap());
    assert_eq!(bench.contents().len(), 200);
    assert_eq!(bench.contents()["k/007"], ("value-007".to_owned(), 8));
    assert_eq!(bench.take(&put("k/007", "older", 7)), Outcome::Outdated);
}

#[test]
fn a_second_user_of_a_folder_is_refused() {
    let folder = Folder::new();
    let first = Disk::open(&folder, 1 << 20).unwrap();
    let refused = Disk::open(&folder, 1 << 20).err().unwrap();
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains("storage.redb"), "{refused}");
    first.close().unwrap();
    Disk::open(&folder, 1 << 20).unwrap();
}

#[test]
fn a_file_of_something_else_and_a_read_only_folder_are_named() {
    let folder = Folder::new();
    fs::create_dir_all(&*folder).unwrap();
    fs::write(folder.join("storage.redb"), b"no database, but more than a few octets".repeat(200)).unwrap();
    let refused = Disk::open(&folder, 1 << 20).err().unwrap();
    assert!(matches!(refused, Error::Damaged { key: None, .. }), "{refused}");
    let below = folder.join("storage.redb");
    let refused = Disk::open(&below, 1 << 20).err().unwrap();
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
}

/// Every value that is served is one that was stored, whatever happened to the file.
#[test]
fn no_flipped_bit_is_served() {
    let folder = Folder::new();
    filled(&folder);
    let file = folder.join("storage.redb");
    let whole = fs::read(&file).unwrap();
    // Spread over the file: pages of all kinds are hit.
    for place in (0..whole.len()).step_by(whole.len() / 61) {
        let mut octets = whole.clone();
        octets[place] ^= 1 << (place % 8);
        fs::write(&file, &octets).unwrap();
        let disk = match Disk::open(&folder, 1 << 20) {
            Ok(disk) => disk,
            Err(Error::Damaged { .. }) => continue,
            Err(error) => panic!("octet {place}: {error}"),
        };
        for number in 0..200 {
            let stored = format!("value-{number:03}");
            let value = disk.get(&format!("k/{number:03}")).unwrap();
            assert!(value.is_some_and(|(_, value)| value.payload == stored), "octet {place}, key {number}");
        }
    }
}

#[test]
fn a_damaged_entry_of_a_trusted_file_is_named_and_replaced() {
    let folder = Folder::new();
    let disk = Disk::open(&folder, 1 << 20).unwrap();
    let mut bench = Bench::new(disk);
    bench.take(&put("a", "1", 1));
    bench.take(&put("b", "2", 2));
    bench.store.damage("a");
    let error = bench.store.get("a").unwrap_err();
    assert!(matches!(&error, Error::Damaged { key: Some(key), .. } if key == "a"), "{error}");
    assert!(error.to_string().contains("the entry of \"a\" is damaged"), "{error}");
    let page = bench.store.page(&Span::default(), None, &|_| true).unwrap();
    assert_eq!((page.found.len(), page.damaged.len()), (1, 1));
    assert_eq!(bench.take(&put("a", "3", 3)), Outcome::Stored);
    assert_eq!(bench.shown(), "a=3@3 b=2@2");
}

#[test]
fn a_change_that_fails_leaves_nothing() {
    let folder = Folder::new();
    let disk = Disk::open(&folder, 1 << 20).unwrap();
    let failed = disk.change(Reach::Durable, &mut |table| {
        table.bury("a", super::at(1))?;
        Err(Error::Usage("a reason"))
    });
    assert!(matches!(failed, Err(Error::Usage("a reason"))));
    assert_eq!(disk.counts().unwrap().tombstones, 0);
}

#[test]
fn what_was_visible_only_may_be_gone_and_what_was_durable_is_not() {
    let folder = Folder::new();
    let copy = Folder::new();
    let disk = Disk::open(&folder, 1 << 20).unwrap();
    let value = put("a", "1", 1).value.unwrap();
    let store = |reach, key: &str| {
        disk.change(reach, &mut |table| table.put(key, super::at(1), super::at(1), &value)).unwrap();
    };
    store(Reach::Durable, "a");
    store(Reach::Visible, "b");
    assert!(disk.get("b").unwrap().is_some());
    // The file as a crash would leave it.
    fs::create_dir_all(&*copy).unwrap();
    fs::copy(folder.join("storage.redb"), copy.join("storage.redb")).unwrap();
    let after = Disk::open(&copy, 1 << 20).unwrap();
    assert!(after.get("a").unwrap().is_some());
    assert!(after.get("b").unwrap().is_none());
    store(Reach::Durable, "c");
    fs::copy(folder.join("storage.redb"), copy.join("second.redb")).unwrap();
    drop(after);
    fs::rename(copy.join("second.redb"), copy.join("storage.redb")).unwrap();
    let after = Disk::open(&copy, 1 << 20).unwrap();
    for key in ["a", "b", "c"] {
        assert!(after.get(key).unwrap().is_some(), "{key}");
    }
}
