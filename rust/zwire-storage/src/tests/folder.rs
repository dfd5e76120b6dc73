//! Volume `files`: names, conflicts, files of other programs.

use super::{Bench, Folder as Place, at, delete, put};
use crate::{
    Error, Folder, FolderSettings, KeyValue, Keyed,
    files::is_name_of_windows,
    rules::{Outcome, Value},
    volume::{Reach, Store},
};
use bytes::Bytes;
use std::fs;
use zwire_proto::zenoh::Encoding;

fn open(root: &Place, settings: FolderSettings) -> Bench<Keyed<Folder>> {
    Bench::new(Keyed::open(Folder::open(root, settings).unwrap()).unwrap())
}

#[test]
fn a_key_is_the_path_of_its_file() {
    let root = Place::new();
    let mut bench = open(&root, FolderSettings::default());
    for update in [put("a/b", "1", 1), put("a", "2", 2), put("c", "3", 3), put("c/d/e", "4", 4)] {
        assert_eq!(bench.take(&update), Outcome::Stored);
    }
    let read = |name: &str| fs::read_to_string(root.join(name)).ok();
    assert_eq!(read("a/b").as_deref(), Some("1"));
    // A file beside a folder of its name, whichever was there first.
    assert_eq!(read("a.##z").as_deref(), Some("2"));
    assert_eq!((read("c.##z").as_deref(), read("c/d/e").as_deref()), (Some("3"), Some("4")));
    assert_eq!(bench.shown(), "a=2@2 a/b=1@1 c=3@3 c/d/e=4@4");
    bench.take(&delete("c/d/e", 5));
    assert!(!root.join("c").exists(), "empty folders stay");
    drop(bench);
    let again = open(&root, FolderSettings::default());
    assert_eq!(again.shown(), "a=2@2 a/b=1@1 c=3@3");
}

#[test]
fn files_of_other_programs_are_values() {
    let root = Place::new();
    let mut bench = open(&root, FolderSettings::default());
    bench.take(&put("x/own.txt", "1", 1));
    fs::write(root.join("x/theirs.json"), "{}").unwrap();
    fs::write(root.join("x/own.txt"), "changed").unwrap();
    fs::write(root.join("@root"), "the prefix").unwrap();
    fs::create_dir_all(root.join(".zenoh_datainfo")).unwrap();
    fs::write(root.join(".zenoh_datainfo/LOCK"), "").unwrap();
    let page = bench.store.page(&Default::default(), None, &|_| true).unwrap();
    let keys: Vec<_> = page.found.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["", "x/own.txt", "x/theirs.json"]);
    let (stamp, value) = bench.store.get("x/theirs.json").unwrap().unwrap();
    assert_eq!(value.encoding, Encoding::APPLICATION_JSON);
    assert!(stamp > at(1));
    // A change of another program is later than the put here.
    let (stamp, value) = bench.store.get("x/own.txt").unwrap().unwrap();
    assert_eq!(value.payload, "changed");
    assert!(stamp > at(1));
}

#[test]
fn encodings_and_attachments_come_back() {
    let root = Place::new();
    let value = Value {
        payload: Bytes::from_static(b"{}"),
        encoding: Encoding::from_text("application/json;v=2"),
        attachment: Some(Bytes::from_static(b"note")),
    };
    let folder = Folder::open(&root, FolderSettings::default()).unwrap();
    folder.put("a.txt", at(5), &value).unwrap();
    folder.sync().unwrap();
    assert_eq!(folder.get("a.txt").unwrap(), Some((at(5), value)));
    folder.close().unwrap();
    drop(folder);
    let guessing = FolderSettings { guess_encoding: true, ..FolderSettings::default() };
    let folder = Folder::open(&root, guessing).unwrap();
    assert_eq!(folder.get("a.txt").unwrap().unwrap().1.encoding, Encoding::TEXT_PLAIN);
}

#[test]
fn no_key_leaves_the_folder() {
    let root = Place::new();
    let outside = Place::new();
    fs::create_dir_all(&*outside).unwrap();
    let folder = Folder::open(&root, FolderSettings::default()).unwrap();
    let value = Value { payload: Bytes::from_static(b"x"), ..Value::default() };
    let long = "x".repeat(256);
    for key in ["../x", "a/../../x", "./x", ".zwire_datainfo/x", ".zenoh_datainfo", "@root", &long] {
        let refused = folder.put(key, at(1), &value).unwrap_err();
        assert!(matches!(refused, Error::Volume { .. }), "{key}: {refused}");
    }
    std::os::unix::fs::symlink(&*outside, root.join("link")).unwrap();
    fs::write(outside.join("secret"), "s").unwrap();
    assert!(folder.put("link/x", at(1), &value).is_err());
    assert_eq!(folder.get("link/secret").unwrap(), None);
    assert_eq!(folder.keys().unwrap(), []);
    assert_eq!(fs::read_dir(&*outside).unwrap().count(), 1);
}

#[test]
fn names_that_leave_the_folder_on_windows_are_known() {
    for name in ["a", "über", "a.b", "console", "com10", "lpt", "nul_", "a b", ".x"] {
        assert!(is_name_of_windows(name), "{name}");
    }
    let refused = [
        "C:", "a:b", "..\\x", "a?", "a<", "a|b", "a\"", "a.", "a ", "nul", "NUL.txt", "aux ", "Com1", "lpt²",
    ];
    for name in refused.into_iter().chain(["conin$", "a\n", "con .x"]) {
        assert!(!is_name_of_windows(name), "{name}");
    }
}

#[test]
fn a_read_only_folder_is_read_and_a_temporary_one_goes() {
    let root = Place::new();
    let mut bench = open(&root, FolderSettings::default());
    bench.take(&put("a", "1", 1));
    bench.store.change(Reach::Durable, &mut |_| Ok(())).unwrap();
    drop(bench);
    let settings = FolderSettings { read_only: true, ..FolderSettings::default() };
    let folder = Folder::open(&root, settings).unwrap();
    assert!(folder.put("b", at(1), &Value::default()).is_err());
    assert!(folder.get("a").unwrap().is_some());
    drop(folder);
    let settings = FolderSettings { delete_at_end: true, ..FolderSettings::default() };
    Folder::open(&root, settings).unwrap().close().unwrap();
    assert!(!root.exists());
}
