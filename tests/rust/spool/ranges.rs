//! Ranges as sent over a network: unchanged blocks, verified by the receiver.

use crate::support::{Folder, offsets, open, open_with, push_payload, read, write};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use bytes::Bytes;
use proptest::prelude::*;
use std::fs;
use zwire_spool::{
    BatchLimits, Error, Layout, Options, Shard, Spool,
    layout::SAMPLES,
    wire::{LABEL, Label, Receiver},
};

const SHARD: Shard = Shard::Data(0);

fn names() -> Vec<String> {
    Layout::whole(&SAMPLES).columns.iter().map(|column| column.name.to_owned()).collect()
}

fn receiver(start: u64, stop: u64, limits: BatchLimits) -> Receiver {
    Receiver::new("zwire:test", ("samples", &names()), SHARD, (start, stop), None, limits).unwrap()
}

/// Blocks of one answer.
fn ask(spool: &Spool, from: u64, to: u64, max: u64) -> Result<Vec<(Label, Buffer)>, Error> {
    let mut answer = spool.cursor(SHARD)?.answer(from, to, max)?;
    let mut blocks = Vec::new();
    while let Some(block) = answer.next_block()? {
        blocks.push(block);
    }
    Ok(blocks)
}

/// Result of receiving a range, if `change` changes blocks on their way.
fn fetch(
    spool: &Spool,
    (start, stop): (u64, u64),
    max: u64,
    limits: BatchLimits,
    mut change: impl FnMut(&Label, Vec<u8>) -> Vec<u8>,
) -> (Vec<RecordBatch>, Option<Error>) {
    let mut receiver = receiver(start, stop, limits);
    let mut batches = Vec::new();
    while receiver.next() < stop {
        let before = receiver.next();
        for (label, block) in ask(spool, before, stop, max).unwrap() {
            let block = change(&label, block.to_vec());
            // Behind the rest of a message, so that the block begins at any alignment.
            let before = (label.first % 16) as usize;
            let message = Bytes::from([&vec![0; before], &block[..]].concat());
            receiver.take(&label.encode(), message.slice(before..));
        }
        loop {
            match receiver.next_batch() {
                Ok(Some(batch)) => batches.push(batch),
                Ok(None) => break,
                Err(error) => return (batches, Some(error)),
            }
        }
        assert!(receiver.next() > before, "an answer has at least one block");
    }
    (batches, None)
}

fn rows(batches: &[RecordBatch]) -> Vec<u64> {
    batches.iter().flat_map(offsets).collect()
}

/// Several segments with blocks of several sizes; the last one is open.
fn many() -> Folder {
    let folder = Folder::new();
    let options = Options { segment_bytes: 40_000, ..Options::default() };
    let (_writer, mut shards) = open_with(&folder, &options).unwrap();
    for (from, to, block) in [(0, 40, 1), (40, 300, 20), (300, 333, 3)] {
        write(&mut shards.data[0], from, to, block);
    }
    folder
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_arrives_is_what_files_hold(
        a in 0_u64..=333, b in 0_u64..=333, max in 0_u64..60_000,
        batch_rows in 1_usize..400, batch_bytes in 1_usize..200_000,
    ) {
        let (start, stop) = (a.min(b), a.max(b));
        let limits = BatchLimits { rows: batch_rows, bytes: batch_bytes };
        let folder = many();
        let spool = folder.spool();
        let (batches, error) = fetch(&spool, (start, stop), max, limits, |_, block| block);
        prop_assert!(error.is_none());
        let local: Vec<_> =
            spool.read(SHARD, start, stop, None, limits).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(batches, local);
    }

    #[test]
    fn what_was_changed_on_the_way_is_refused(at in 0_usize..100_000, bit in 0_u8..8, which in 0_u64..333, cut in any::<bool>()) {
        let mut touched = (0, 0);
        let folder = many();
        let spool = folder.spool();
        let (batches, error) = fetch(&spool, (0, 333), 30_000, BatchLimits::default(), |label, mut block| {
            if (label.first..label.end).contains(&which) {
                touched = (label.first, label.end);
                let at = at % block.len();
                if cut { block.truncate(at) } else { block[at] ^= 1 << bit }
            }
            block
        });
        let error = error.unwrap();
        prop_assert_eq!((error.offset(), error.resumes()), (Some(touched.0), Some(touched.1)));
        prop_assert_eq!(rows(&batches), (0..touched.0).collect::<Vec<_>>());
        prop_assert!(error.to_string().contains("zwire:test"));
    }

    #[test]
    fn labels_are_what_they_were_or_nothing(first in 0..1_u64 << 40, rows in 1..1_u64 << 31, more in 0..1_u64 << 40, hole in any::<bool>(), at in 0..LABEL, bit in 0_u8..8) {
        let label = Label { first, end: first + rows, until: first + rows + more, hole };
        let mut octets = label.encode();
        prop_assert_eq!(Label::decode(&octets), Some(label));
        octets[at] ^= 1 << bit;
        prop_assert_eq!(Label::decode(&octets), None);
        prop_assert_eq!(Label::decode(&octets[..at]), None);
    }
}

#[test]
fn an_answer_keeps_to_its_limit_and_says_where_it_ends() {
    let folder = many();
    let spool = folder.spool();
    let all = ask(&spool, 40, 300, u64::MAX).unwrap();
    let until = all[0].0.until;
    assert!(until < 300, "an answer has one segment");
    assert_eq!(all.last().unwrap().0.end, until);
    let some = ask(&spool, 45, 300, 1).unwrap();
    assert_eq!(some.len(), 1);
    assert_eq!((some[0].0.first, some[0].0.end, some[0].0.until), (40, 60, 60));
    assert!(ask(&spool, 7, 7, 1).unwrap().is_empty());
    for (from, to) in [(0, 334), (334, 334), (u64::MAX, u64::MAX)] {
        assert!(matches!(ask(&spool, from, to, 1), Err(Error::OutOfRange { .. })), "{from} {to}");
    }
    assert!(matches!(ask(&spool, 9, 3, 1), Err(Error::Usage(_))));
}

#[test]
fn a_cursor_follows_what_is_written() {
    let folder = Folder::new();
    let options = Options { segment_bytes: 12_000, ..Options::default() };
    let (_writer, mut shards) = open_with(&folder, &options).unwrap();
    let mut cursor = folder.spool().cursor(SHARD).unwrap();
    for at in (0..60).step_by(3) {
        write(&mut shards.data[0], at, at + 3, 3);
        let mut answer = cursor.answer(at, at + 3, 1 << 20).unwrap();
        let (label, block) = answer.next_block().unwrap().unwrap();
        assert_eq!((label.first, label.end, block.is_empty()), (at, at + 3, false));
        assert!(answer.next_block().unwrap().is_none());
        cursor = answer.into_cursor();
    }
    assert!(folder.files("0", "arrow").len() > 2);
}

#[test]
fn damage_says_where_reading_resumes_and_nothing_else_is_lost() {
    let folder = Folder::new();
    let (_writer, mut shards) = open(&folder);
    write(&mut shards.data[0], 0, 100, 20);
    let path = folder.last_segment();
    let mut octets = fs::read(&path).unwrap();
    // In the body of the third block.
    let middle = octets.len() / 2;
    octets[middle] ^= 1;
    fs::write(&path, &octets).unwrap();
    let spool = folder.spool();
    let mut found = Vec::new();
    let mut failed = None;
    for batch in spool.read(SHARD, 5, 100, None, BatchLimits::default()).unwrap() {
        match batch {
            Ok(batch) => found.extend(offsets(&batch)),
            Err(error) => failed = Some(error),
        }
        if failed.is_some() {
            break;
        }
    }
    let error = failed.unwrap();
    let (offset, resumes) = (error.offset().unwrap(), error.resumes().unwrap());
    assert_eq!((offset, resumes), (40, 60));
    assert!(error.to_string().ends_with("; reading resumes at offset 60"), "{error}");
    assert_eq!(found, (5..40).collect::<Vec<_>>());
    assert_eq!(read(&spool, 60, 100).unwrap(), (60..100).collect::<Vec<_>>());
    // The same over a network.
    let (batches, over) = fetch(&spool, (5, 100), 1 << 20, BatchLimits::default(), |_, block| block);
    assert_eq!(rows(&batches), (5..40).collect::<Vec<_>>());
    assert_eq!((over.clone().unwrap().offset(), over.unwrap().resumes()), (Some(40), Some(60)));
}

#[test]
fn a_segment_that_cannot_be_read_is_passed_over_and_planned_around() {
    let folder = Folder::new();
    let options = Options { segment_bytes: 12_000, ..Options::default() };
    let (_writer, mut shards) = open_with(&folder, &options).unwrap();
    write(&mut shards.data[0], 0, 200, 10);
    let segments = folder.files("0", "arrow");
    assert!(segments.len() >= 4);
    let base = |at: usize| segments[at].file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let mut octets = fs::read(&segments[1]).unwrap();
    octets[20] ^= 1;
    fs::write(&segments[1], &octets).unwrap();
    let spool = folder.spool();
    for start in [0, base(1), base(1) + 1] {
        let error = read(&spool, start, 200).unwrap_err();
        assert_eq!(error.resumes(), Some(base(2)), "{error}");
    }
    assert_eq!(read(&spool, base(2), 200).unwrap().len() as u64, 200 - base(2));
    let (start, end) = ([(0, base(1) + 1)].into(), [(0, base(2) + 1)].into());
    let parts = spool.split(&start, &end, 2, None).unwrap();
    assert_eq!((parts[0].start, parts.last().unwrap().stop), (base(1) + 1, base(2) + 1));
    spool.walk(&start, &end, (None, Some(1)), None).unwrap();
    // With the file removed, the result is the same.
    fs::remove_file(&segments[1]).unwrap();
    assert_eq!(read(&spool, 0, 200).unwrap_err().resumes(), Some(base(2)));
}

#[test]
fn a_row_that_is_larger_than_an_answer_is_sent_alone() {
    let folder = Folder::new();
    let (_writer, mut shards) = open(&folder);
    for number in 0..3 {
        push_payload(&mut shards.data[0], number, vec![7; 100_000].into());
        shards.data[0].flush(0).unwrap();
    }
    let found = ask(&folder.spool(), 0, 3, 1000).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].1.len() > 100_000);
}
