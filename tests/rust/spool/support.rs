//! Folders, writers and rows for tests.

use arrow_array::{Array as _, BinaryArray, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};
use zwire_spool::{
    BatchLimits, Error, Layout, Options, Rule, Shard, ShardWriter, Shards, Spool, Value, Wanted, Writer,
    layout::SAMPLES,
};

pub(crate) const ID: [u8; 16] = *b"spool under test";
/// A time in 2026, in microseconds.
pub(crate) const NOW: i64 = 1_795_000_000_000_000;

/// A folder that is removed after the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("zwire-spool-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Another one with the same files.
    pub(crate) fn copy(&self) -> Self {
        let other = Self::new();
        copy(&self.0, &other.0);
        other
    }

    pub(crate) fn spool(&self) -> Spool {
        Spool::open(&self.0).unwrap()
    }

    /// The files of a shard with this ending of the name, in order.
    pub(crate) fn files(&self, shard: &str, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join(shard)).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|e| e == ending)).collect();
        files.sort();
        files
    }

    pub(crate) fn last_segment(&self) -> PathBuf {
        self.files("0", "arrow").pop().unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn wanted(shards: u32) -> Wanted {
    Wanted { layout: Layout::whole(&SAMPLES), shards, rule: Rule::Hash }
}

pub(crate) fn open(folder: &Folder) -> (Writer, Shards) {
    open_with(folder, &Options::default()).unwrap()
}

pub(crate) fn open_with(folder: &Folder, options: &Options) -> Result<(Writer, Shards), Error> {
    Writer::open(&folder.0, &wanted(1), ID, options, NOW)
}

/// Writes the row with this number: a payload that contains it, and every other column now and then.
pub(crate) fn push(writer: &mut ShardWriter, number: u64) {
    push_payload(writer, number, format!("payload {number}").into());
}

pub(crate) fn push_payload(writer: &mut ShardWriter, number: u64, payload: Bytes) {
    let (key, zid) = (format!("robot/{}/battery", number % 7), [number as u8; 16]);
    let odd = number % 2 == 1;
    let time = NOW + number.cast_signed() * 1000;
    writer
        .push(&[
            Value::Text(&key),
            if number % 11 == 10 { Value::Null } else { Value::Shared(&payload) },
            Value::Int((number % 11 == 10).into()),
            Value::Text("zenoh/bytes"),
            if odd { Value::Int(time - 5) } else { Value::Null },
            if odd { Value::Int(-1) } else { Value::Null },
            if odd { Value::Bytes(&zid) } else { Value::Null },
            if odd { Value::Bytes(&zid) } else { Value::Null },
            if odd { Value::Int(3) } else { Value::Null },
            if odd { Value::Int(number.cast_signed()) } else { Value::Null },
            Value::Null,
            Value::Int(5),
            Value::Bool(odd),
            Value::Bool(false),
            Value::Bool(true),
            Value::Text("tcp/127.0.0.1:7447"),
            Value::Int(time),
            Value::Null,
        ])
        .unwrap();
}

/// Writes rows `from..to` in blocks of `block` rows.
pub(crate) fn write(writer: &mut ShardWriter, from: u64, to: u64, block: u64) {
    for number in from..to {
        push(writer, number);
        if (number + 1 - from).is_multiple_of(block) {
            writer.flush(NOW).unwrap();
        }
    }
    writer.flush(NOW).unwrap();
}

pub(crate) fn column<'a, T: 'static>(batch: &'a RecordBatch, name: &str) -> &'a T {
    batch.column_by_name(name).unwrap().as_any().downcast_ref().unwrap()
}

/// Checks rows against their offsets, and returns these.
pub(crate) fn offsets(batch: &RecordBatch) -> Vec<u64> {
    let (keys, payloads) = (column::<StringArray>(batch, "key"), column::<BinaryArray>(batch, "payload"));
    let (offsets, numbers) =
        (column::<Int64Array>(batch, "offset"), column::<Int64Array>(batch, "source_sn"));
    (0..batch.num_rows())
        .map(|row| {
            let offset = offsets.value(row).cast_unsigned();
            assert_eq!(keys.value(row), format!("robot/{}/battery", offset % 7));
            assert_eq!(payloads.is_null(row), offset % 11 == 10);
            if !payloads.is_null(row) {
                assert_eq!(payloads.value(row), format!("payload {offset}").as_bytes());
            }
            assert_eq!(numbers.is_null(row), offset % 2 == 0);
            offset
        })
        .collect()
}

/// The offsets of all rows of a range.
pub(crate) fn read(spool: &Spool, start: u64, stop: u64) -> Result<Vec<u64>, Error> {
    let mut found = Vec::new();
    for batch in spool.read(Shard::Data(0), start, stop, None, BatchLimits::default())? {
        found.extend(offsets(&batch?));
    }
    Ok(found)
}

/// All ranges that the spool reports.
pub(crate) fn read_all(spool: &Spool) -> Result<Vec<u64>, Error> {
    let mark = spool.mark(Shard::Data(0))?;
    read(spool, mark.earliest, mark.end)
}
