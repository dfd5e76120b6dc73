//! Spools that were cut, changed or taken apart: no wrong rows are served, and errors name the place.

use crate::support::{Folder, ID, NOW, open, open_with, push, read, read_all, wanted, write};
use proptest::prelude::*;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use zwire_spool::{Durability, Error, Options, Shard, Writer};

/// Step between tested octets. Testing every octet takes a minute without optimisation:
/// `ZWIRE_EVERY_OCTET=1`, or `--release`.
fn stride() -> usize {
    if cfg!(debug_assertions) && std::env::var_os("ZWIRE_EVERY_OCTET").is_none() { 23 } else { 1 }
}

/// Three segments, the last one open, as after a killed writer.
fn killed() -> Folder {
    let folder = Folder::new();
    let options = Options { segment_bytes: 12_000, ..Options::default() };
    let (_writer, mut shards) = open_with(&folder, &options).unwrap();
    write(&mut shards.data[0], 0, 80, 20);
    assert!(folder.files("0", "arrow").len() >= 2);
    folder
}

#[test]
fn after_a_kill_the_next_writer_goes_on_densely() {
    let folder = killed();
    let (_writer, mut shards) = open(&folder);
    assert_eq!(shards.data[0].next_offset(), 80);
    write(&mut shards.data[0], 80, 100, 7);
    assert_eq!(read_all(&folder.spool()).unwrap(), (0..100).collect::<Vec<_>>());
}

#[test]
fn the_last_segment_cut_at_each_byte_gives_the_rows_before_or_an_error() {
    let folder = killed();
    let path = folder.last_segment();
    let octets = fs::read(&path).unwrap();
    let base: u64 = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let other = folder.copy();
    let path = other.last_segment();
    for len in (0..octets.len()).step_by(stride()) {
        fs::write(&path, &octets[..len]).unwrap();
        let spool = other.spool();
        let error = read_all(&spool).unwrap_err();
        assert_eq!(error.shard(), Some(Shard::Data(0)), "{error}");
        assert!((base..80).contains(&error.offset().unwrap()), "{error}");
        // Everything before is unchanged.
        assert_eq!(read(&spool, 0, base).unwrap(), (0..base).collect::<Vec<_>>());
    }
}

#[test]
fn a_writer_that_was_killed_in_a_write_leaves_only_whole_blocks() {
    let folder = killed();
    let path = folder.last_segment();
    let whole = fs::read(&path).unwrap();
    // The beginning of another block, which no reader has seen.
    for more in [1, 7, 8, 60, 2000] {
        let other = folder.copy();
        let mut octets = whole.clone();
        octets.extend_from_slice(&whole[whole.len() - 3000..][..more]);
        fs::write(other.last_segment(), &octets).unwrap();
        let (writer, mut shards) = open(&other);
        assert_eq!(writer.recovered()[0].cut, more as u64);
        write(&mut shards.data[0], 80, 90, 3);
        assert_eq!(read_all(&other.spool()).unwrap(), (0..90).collect::<Vec<_>>());
    }
}

#[test]
fn flipped_bits_are_found_wherever_they_are() {
    let folder = killed();
    let path = folder.last_segment();
    let octets = fs::read(&path).unwrap();
    let other = folder.copy();
    let path = other.last_segment();
    for at in (0..octets.len()).step_by(stride()) {
        let mut changed = octets.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&path, &changed).unwrap();
        let error = read_all(&other.spool()).unwrap_err();
        assert_eq!(error.shard(), Some(Shard::Data(0)), "bit of octet {at}: {error}");
        assert!(error.offset().is_some());
    }
}

#[test]
fn a_damaged_list_of_blocks_changes_nothing() {
    let folder = killed();
    let list = folder.files("0", "idx").pop().unwrap();
    let octets = fs::read(&list).unwrap();
    for at in 0..octets.len() {
        let mut changed = octets.clone();
        changed[at] ^= 0x10;
        fs::write(&list, &changed).unwrap();
        assert_eq!(read_all(&folder.spool()).unwrap(), (0..80).collect::<Vec<_>>(), "octet {at}");
    }
    fs::remove_file(&list).unwrap();
    assert_eq!(read_all(&folder.spool()).unwrap(), (0..80).collect::<Vec<_>>());
}

#[test]
fn damaged_marks_are_found_again() {
    let folder = killed();
    let path = folder.0.join("marks");
    let octets = fs::read(&path).unwrap();
    for at in 0..octets.len() {
        let mut changed = octets.clone();
        changed[at] ^= 0x10;
        fs::write(&path, &changed).unwrap();
        match read_all(&folder.spool()) {
            // The place before the newest: the last block is not visible yet.
            Ok(rows) => assert!(rows.iter().copied().eq(0..rows.len() as u64), "octet {at}"),
            Err(error) => assert!(matches!(error, Error::Mismatch { .. }), "octet {at}: {error}"),
        }
    }
}

#[test]
fn a_damaged_meta_is_refused() {
    let folder = killed();
    let path = folder.0.join("meta.json");
    let octets = fs::read(&path).unwrap();
    for at in 0..octets.len() {
        let mut changed = octets.clone();
        changed[at] ^= 1 << (at % 7);
        fs::write(&path, &changed).unwrap();
        let error = zwire_spool::Spool::open(&folder.0).unwrap_err();
        assert!(error.to_string().contains("meta.json"), "octet {at}: {error}");
    }
}

#[test]
fn damage_in_front_of_another_segment_is_said_without_a_list() {
    let folder = killed();
    let path = folder.files("0", "arrow")[0].clone();
    fs::remove_file(path.with_extension("idx")).unwrap();
    let mut octets = fs::read(&path).unwrap();
    let start = 16 + u32::from_le_bytes(octets[12..16].try_into().unwrap()) as usize;
    // The length of the first block's head.
    octets[start + 4..start + 8].copy_from_slice(&0xfff8_u32.to_le_bytes());
    fs::write(&path, octets).unwrap();
    let error = read_all(&folder.spool()).unwrap_err().to_string();
    assert!(error.contains("arrow: a block that was cut off"), "{error}");
}

#[test]
fn a_missing_segment_is_missed() {
    for missing in [0, 1] {
        let folder = killed();
        let files = folder.files("0", "arrow");
        fs::remove_file(&files[missing]).unwrap();
        let base: u64 = files[missing].file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let error = read_all(&folder.spool()).unwrap_err();
        assert_eq!(error.offset(), Some(base), "{error}");
        assert!(error.to_string().starts_with(&format!("shard 0, offset {base}: ")), "{error}");
        let (_writer, mut shards) = open(&folder);
        // A writer continues behind the missing segment, and does not reuse its offsets.
        assert!(shards.data[0].next_offset() >= 80);
        write(&mut shards.data[0], 80, 81, 1);
        assert_eq!(read_all(&folder.spool()).unwrap_err().offset(), Some(base));
    }
}

#[test]
fn segments_of_other_spools_are_refused() {
    let (folder, other) = (killed(), Folder::new());
    let (_writer, mut shards) =
        Writer::open(&other.0, &wanted(1), [7; 16], &Options::default(), NOW).unwrap();
    write(&mut shards.data[0], 0, 80, 20);
    fs::copy(other.last_segment(), &folder.files("0", "arrow")[0]).unwrap();
    let error = read_all(&folder.spool()).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    assert!(error.to_string().contains("07070707"), "{error}");
}

#[test]
fn there_is_one_writer() {
    let folder = Folder::new();
    let (writer, shards) = open(&folder);
    let error = open_with(&folder, &Options::default()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    drop((writer, shards));
    open(&folder);
}

#[test]
fn a_spool_stays_what_it_is() {
    let folder = Folder::new();
    drop(open(&folder));
    let error = Writer::open(&folder.0, &wanted(2), ID, &Options::default(), NOW).map(|_| ()).unwrap_err();
    assert!(error.to_string().ends_with("this spool has 1 shards, not 2"), "{error}");
}

/// A disk with so much room.
fn disk(room: usize) -> (Options, Arc<AtomicUsize>) {
    let left = Arc::new(AtomicUsize::new(room));
    let there = left.clone();
    let take = move |_: &std::path::Path, wanted: usize| {
        let given = there.load(Ordering::Relaxed).min(wanted);
        there.fetch_sub(given, Ordering::Relaxed);
        given
    };
    (Options { room: Some(Arc::new(take)), ..Options::default() }, left)
}

#[test]
fn a_full_disk_loses_nothing_that_was_published() {
    for room in (0..30_000).step_by(1237) {
        let folder = Folder::new();
        let (options, left) = disk(room);
        let (_writer, mut shards) = open_with(&folder, &options).unwrap();
        let writer = &mut shards.data[0];
        let mut number = 0;
        let error = loop {
            (number..number + 10).for_each(|number| push(writer, number));
            match writer.flush(NOW) {
                Ok(()) => number += 10,
                Err(error) => break error,
            }
        };
        assert!(error.is_full(), "{error}");
        assert_eq!(read_all(&folder.spool()).unwrap(), (0..number).collect::<Vec<_>>(), "room {room}");
        // Waiting rows are written once there is room again.
        left.store(usize::MAX / 2, Ordering::Relaxed);
        writer.flush(NOW).unwrap();
        assert_eq!(read_all(&folder.spool()).unwrap(), (0..number + 10).collect::<Vec<_>>());
        writer.close(NOW).unwrap();
        assert_eq!(read_all(&folder.spool()).unwrap(), (0..number + 10).collect::<Vec<_>>());
    }
}

/// Makes a spool look as if the machine had stopped since it was written.
fn stopped(folder: &Folder) {
    let path = folder.0.join("meta.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["boot"] = "another start of the machine".into();
    json.as_object_mut().unwrap().shift_remove("crc32c");
    let crc = crc32c::crc32c(json.to_string().as_bytes());
    json["crc32c"] = crc.into();
    fs::write(path, json.to_string()).unwrap();
}

#[test]
fn after_a_power_cut_offsets_are_not_used_again() {
    let folder = killed();
    stopped(&folder);
    // Data that the kernel had not written yet.
    let path = folder.last_segment();
    let octets = fs::read(&path).unwrap();
    fs::write(&path, &octets[..octets.len() - 100]).unwrap();
    let (writer, mut shards) = open(&folder);
    let found = &writer.recovered()[0];
    assert!(found.hole < 80 && found.next > 80, "{found:?}");
    let (hole, next) = (found.hole, found.next);
    assert!(found.damaged.is_none());
    for number in next..next + 10 {
        push(&mut shards.data[0], number);
    }
    shards.data[0].flush(NOW).unwrap();
    let spool = folder.spool();
    assert_eq!(read_all(&spool).unwrap(), (0..hole).chain(next..next + 10).collect::<Vec<_>>());
    // A reader had seen row 80 already, and asks for more.
    assert_eq!(read(&spool, 80, next + 10).unwrap(), (next..next + 10).collect::<Vec<_>>());
    let gaps: Vec<_> = spool
        .read(Shard::Gaps, 0, spool.mark(Shard::Gaps).unwrap().end, None, Default::default())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(gaps.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
}

#[test]
fn a_hole_stays_one_when_nothing_was_written_behind_it() {
    let folder = killed();
    stopped(&folder);
    let next = open(&folder).1.data[0].next_offset();
    for _ in 0..2 {
        let (writer, mut shards) = open(&folder);
        assert_eq!(shards.data[0].next_offset(), next);
        assert!(writer.recovered()[0].damaged.is_none());
        assert_eq!(read_all(&folder.spool()).unwrap(), (0..80).collect::<Vec<_>>());
        shards.data[0].close(NOW).unwrap();
        writer.close().unwrap();
    }
}

#[test]
fn what_only_the_kernel_has_is_not_published_if_the_disk_should_have_it() {
    let folder = Folder::new();
    let options = Options { durability: Durability::Disk, ..Options::default() };
    let (_writer, mut shards) = open_with(&folder, &options).unwrap();
    write(&mut shards.data[0], 0, 30, 10);
    assert_eq!(read_all(&folder.spool()).unwrap(), Vec::<u64>::new());
    shards.data[0].sync().unwrap();
    assert_eq!(read_all(&folder.spool()).unwrap(), (0..30).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Blocks and segments of any size, writers killed at any place, ranges anywhere.
    #[test]
    fn every_row_is_there_once(
        rounds in prop::collection::vec((1_u64..60, 1_u64..20, 0_usize..500), 1..5),
        segment in 3_000_u64..60_000,
        cut in 0.0..1.0_f64,
    ) {
        let folder = Folder::new();
        let options = Options { segment_bytes: segment, ..Options::default() };
        let mut number = 0;
        for (rows, block, torn) in rounds {
            let (_writer, mut shards) = open_with(&folder, &options).unwrap();
            prop_assert_eq!(shards.data[0].next_offset(), number);
            write(&mut shards.data[0], number, number + rows, block);
            number += rows;
            // A block that a writer has begun and no reader has seen.
            let path = folder.last_segment();
            let mut octets = fs::read(&path).unwrap();
            octets.extend(std::iter::repeat_n(0xff, torn));
            fs::write(path, octets).unwrap();
        }
        let spool = folder.spool();
        prop_assert_eq!(read_all(&spool).unwrap(), (0..number).collect::<Vec<_>>());
        let from = (number as f64 * cut) as u64;
        prop_assert_eq!(read(&spool, from, number).unwrap(), (from..number).collect::<Vec<_>>());
    }
}
