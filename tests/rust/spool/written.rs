//! Written rows are read again.

use crate::support::{Folder, column, offsets, open, open_with, push_payload, read, read_all, write};
use arrow_array::{Array as _, BinaryArray, Int32Array};
use bytes::Bytes;
use zwire_spool::{BatchLimits, Compression, Error, Options, Shard};

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

fn compressed(compression: Compression) -> Options {
    Options { compression, segment_bytes: 20_000, ..Options::default() }
}

/// Total length of the segments of a spool.
fn octets(folder: &Folder) -> u64 {
    folder.files("0", "arrow").iter().map(|path| path.metadata().unwrap().len()).sum()
}

#[test]
fn compressed_rows_are_the_same_rows() {
    let all = |folder: &Folder| -> Vec<_> {
        let rows = folder.spool().read(Shard::Data(0), 0, 3000, None, BatchLimits::default()).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let written = |compression| {
        let folder = Folder::new();
        let (writer, mut shards) = open_with(&folder, &compressed(compression)).unwrap();
        write(&mut shards.data[0], 0, 3000, 150);
        shards.data[0].close(0).unwrap();
        writer.close().unwrap();
        folder
    };
    let plain = written(Compression::None);
    for compression in [Compression::Lz4, Compression::Zstd] {
        let folder = written(compression);
        assert_eq!(all(&folder), all(&plain), "{compression:?}");
        assert!(octets(&folder) < octets(&plain) / 2, "{compression:?}: {} octets", octets(&folder));
    }
}

#[test]
fn one_spool_may_have_segments_of_each_compression() {
    let folder = Folder::new();
    let each = [Compression::None, Compression::Zstd, Compression::Lz4, Compression::None];
    for (round, compression) in (0..).zip(each) {
        let (_writer, mut shards) = open_with(&folder, &compressed(compression)).unwrap();
        // Without closing: the next writer recovers the last segment, whatever its blocks are.
        write(&mut shards.data[0], round * 500, (round + 1) * 500, 100);
    }
    assert_eq!(read_all(&folder.spool()).unwrap(), (0..2000).collect::<Vec<_>>());
}

/// What is large stays where it is, and what cannot be compressed is no longer than before, but for eight octets.
#[test]
fn large_and_random_payloads_are_written_as_they_are() {
    let mut state = 1_u64;
    let mut random = |len: usize| -> Bytes {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect::<Vec<_>>().into()
    };
    for len in [1000, 300_000] {
        let payloads: Vec<_> = (0..10).map(|_| random(len)).collect();
        let folder = Folder::new();
        let (_writer, mut shards) = open_with(&folder, &compressed(Compression::Zstd)).unwrap();
        for (number, payload) in (0..).zip(&payloads) {
            push_payload(&mut shards.data[0], number, payload.clone());
        }
        shards.data[0].flush(0).unwrap();
        let all = octets(&folder);
        assert!(all < 10 * len as u64 + 6000, "{all} octets");
        let mut rows = folder.spool().read(Shard::Data(0), 0, 10, None, BatchLimits::default()).unwrap();
        let batch = rows.next().unwrap().unwrap();
        let read = column::<BinaryArray>(&batch, "payload");
        assert!(payloads.iter().enumerate().all(|(row, payload)| read.value(row) == payload));
    }
}

/// A few octets that stand for very many are not written, because no reader would unpack them.
#[test]
fn a_block_that_shrinks_too_much_is_written_as_it_is() {
    let folder = Folder::new();
    let (_writer, mut shards) = open_with(&folder, &compressed(Compression::Zstd)).unwrap();
    for number in 0..9 {
        // One after another, so that they are copied.
        for _ in 0..1000 {
            push_payload(&mut shards.data[0], number, Bytes::from(vec![0; 9000]));
        }
    }
    shards.data[0].flush(0).unwrap();
    assert!(octets(&folder) > 80_000_000);
    let names = Some(&["offset"][..]);
    let rows = folder.spool().read(Shard::Data(0), 0, 9000, names, BatchLimits::default()).unwrap();
    assert_eq!(rows.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 9000);
}
