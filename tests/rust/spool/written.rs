//! Written rows are read again.

use crate::support::{Folder, column, offsets, open, open_with, push_payload, read, read_all, write};
use arrow_array::{Array as _, BinaryArray, Int32Array};
use bytes::Bytes;
use zwire_spool::{BatchLimits, Error, Options, Shard};

#[test]
fn rows_come_back_while_the_segment_is_open_and_after() {
    let folder = Folder::new();
    let (writer, mut shards) = open(&folder);
    write(&mut shards.data[0], 0, 1000, 64);
    let spool = folder.spool();
    assert_eq!(read_all(&spool).unwrap(), (0..1000).collect::<Vec<_>>());
    shards.data[0].close(0).unwrap();
    writer.close().unwrap();
    assert_eq!(read_all(&spool).unwrap(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn offsets_go_on_after_closing() {
    let folder = Folder::new();
    for round in 0..4 {
        let (writer, mut shards) = open(&folder);
        assert_eq!(shards.data[0].next_offset(), round * 100);
        write(&mut shards.data[0], round * 100, round * 100 + 100, 30);
        shards.data[0].close(0).unwrap();
        writer.close().unwrap();
    }
    assert_eq!(read_all(&folder.spool()).unwrap(), (0..400).collect::<Vec<_>>());
}

#[test]
fn any_part_can_be_read() {
    let folder = Folder::new();
    let options = Options { segment_bytes: 20_000, ..Options::default() };
    let (_writer, mut shards) = open_with(&folder, &options).unwrap();
    write(&mut shards.data[0], 0, 700, 13);
    assert!(folder.files("0", "arrow").len() > 5);
    let spool = folder.spool();
    for (start, stop) in [(0, 0), (0, 1), (12, 14), (13, 26), (100, 650), (699, 700), (700, 700)] {
        assert_eq!(read(&spool, start, stop).unwrap(), (start..stop).collect::<Vec<_>>());
    }
}

#[test]
fn batches_keep_to_their_limit_and_are_the_same_again() {
    let folder = Folder::new();
    let (_writer, mut shards) = open(&folder);
    write(&mut shards.data[0], 0, 900, 25);
    write(&mut shards.data[0], 900, 2000, 400);
    let limits = BatchLimits { rows: 90, ..BatchLimits::default() };
    let all = || -> Vec<_> {
        let rows = folder.spool().read(Shard::Data(0), 5, 1990, None, limits).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let batches = all();
    assert!(batches.iter().all(|batch| batch.num_rows() <= 90));
    assert_eq!(batches.iter().flat_map(offsets).collect::<Vec<_>>(), (5..1990).collect::<Vec<_>>());
    assert_eq!(batches, all());
}

#[test]
fn small_blocks_are_joined() {
    let folder = Folder::new();
    let (_writer, mut shards) = open(&folder);
    write(&mut shards.data[0], 0, 500, 2);
    let rows = folder.spool().read(Shard::Data(0), 0, 500, None, BatchLimits::default()).unwrap();
    assert_eq!(rows.map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>(), [500]);
}

#[test]
fn columns_come_in_the_order_asked_for() {
    let folder = Folder::new();
    let (_writer, mut shards) = open(&folder);
    write(&mut shards.data[0], 0, 10, 4);
    let names = ["offset", "shard", "key"];
    let mut rows = folder.spool().read(Shard::Data(0), 0, 10, Some(&names), BatchLimits::default()).unwrap();
    let batch = rows.next().unwrap().unwrap();
    assert_eq!(batch.schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), names);
    assert!(column::<Int32Array>(&batch, "shard").values().iter().all(|shard| *shard == 0));
    let unknown = folder.spool().read(Shard::Data(0), 0, 10, Some(&["nothing"]), BatchLimits::default());
    assert!(matches!(unknown.map(|_| ()), Err(Error::Usage(problem)) if problem.contains("nothing")));
}

#[test]
fn large_payloads_are_whole() {
    let folder = Folder::new();
    let (_writer, mut shards) = open(&folder);
    let payload =
        |number: u64| Bytes::from(vec![number as u8; [10, 5_000, 300_000, 3 << 20][number as usize % 4]]);
    for number in 0..40 {
        push_payload(&mut shards.data[0], number, payload(number));
        if shards.data[0].is_full() {
            shards.data[0].flush(0).unwrap();
        }
    }
    shards.data[0].flush(0).unwrap();
    let rows = folder.spool().read(Shard::Data(0), 0, 40, None, BatchLimits::default()).unwrap();
    let mut number = 0;
    for batch in rows {
        let batch = batch.unwrap();
        let payloads = column::<BinaryArray>(&batch, "payload");
        for row in 0..batch.num_rows() {
            if !payloads.is_null(row) {
                assert!(payloads.value(row) == payload(number), "payload {number}");
            }
            number += 1;
        }
    }
    assert_eq!(number, 40);
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let folder = Folder::new();
    let (_writer, mut shards) = open(&folder);
    write(&mut shards.data[0], 0, 10, 4);
    let error = read(&folder.spool(), 3, 11).unwrap_err();
    assert_eq!(error.to_string(), "shard 0, offset 11: the spool holds offsets 0 to 10 (exclusive)");
    let error = folder.spool().mark(Shard::Data(1)).unwrap_err();
    assert_eq!(error.to_string(), "shard 1: this spool has shards 0 to 0");
}
