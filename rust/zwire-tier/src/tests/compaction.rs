//! Merging of small segments: rows stay as they are, whatever stops the writer, and for readers that began before.

use super::*;
use crate::{
    compact::{Compacted, GRACE, Orphans, Sizes},
    manifest::Merge,
    store::index_name,
};
use std::collections::BTreeSet;
use zwire_spool::{
    Compression,
    tier::{Tier as _, Tiered},
};

/// All that fits into 256 KiB, from two segments on.
const SMALL: Sizes = Sizes { bytes: 256 << 10, parts: 2 };
const DAY: Duration = Duration::from_secs(86_400);

fn pass(time: Duration) {
    TIME.fetch_add(time.as_secs() + 1, Ordering::Relaxed);
}

/// Now, or a time at which all objects of the test are old: they have the time of the system.
fn later() -> i64 {
    i64::MAX / 2
}

fn state(tier: &TierWriter) -> &Tiered {
    &tier.manifest().shards[&SHARD]
}

fn bases(tier: &TierWriter) -> Vec<u64> {
    tier.segments(SHARD).unwrap().iter().map(|segment| segment.base).collect()
}

/// Merges until nothing is left; returns the number of segments that were replaced.
fn compact(tier: &mut TierWriter, folder: &Folder, sizes: Sizes) -> Result<u64, Error> {
    let mut segments = 0;
    while let Some(Compacted { segments: more, .. }) = tier.compact(sizes, &folder.scratch(), NOW)? {
        segments += more;
    }
    Ok(segments)
}

impl Folder {
    fn scratch(&self) -> PathBuf {
        self.0.join("merging")
    }

    fn packed(&self) -> (Writer, Shards) {
        let layout = Layout::select(&SAMPLES, &["key", "payload"]).unwrap();
        let wanted = Wanted { layout, shards: 1, rule: Rule::Hash };
        let options = Options { compression: Compression::Zstd, ..Options::default() };
        Writer::open(&self.0, &wanted, *ID, &options, NOW).unwrap()
    }
}

/// A process beside the spooler.
fn beside(store: &Arc<Faulty>, meta: &Meta) -> TierWriter {
    let mut tier = TierWriter::over(Arc::new(Store::over(store.clone(), clock)), meta).unwrap();
    tier.adopt().unwrap();
    tier
}

/// Numbers of objects of segments.
fn segments_of(store: &Faulty) -> usize {
    names(&store.inner).iter().filter(|name| name.ends_with(".arrow")).count()
}

#[test]
fn a_thousand_small_segments_become_one_with_the_same_rows() {
    const COUNT: u64 = 1000;
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.packed();
    for number in 0..COUNT {
        let (shard, time) = (&mut shards.data[0], NOW + number as i64);
        let (key, payload) = (format!("fleet/{}/pose", number % 7), vec![number as u8; 300]);
        let row = [Value::Text(&key), Value::Bytes(&payload), Value::Int(0), Value::Int(time), Value::Null];
        shard.push(&row).unwrap();
        shard.flush(time).unwrap();
        shard.seal().unwrap();
    }
    publish(&mut shards.data[0]);
    let local = Spool::open(&folder.0).unwrap();
    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    upload(tier, &local, &mut shards).unwrap();
    let before = rows(&local, 0, COUNT).unwrap();
    let old = names(&store.inner);
    let readers = [of_store(&store), of_store(&store)];
    let limits = BatchLimits { rows: 16, bytes: 8 << 20 };
    let reading = || readers[0].read(SHARD, 0, COUNT, None, limits).unwrap();
    let mut during = reading();
    let first = during.next_batch().unwrap().unwrap();

    let sizes = Sizes { bytes: 64 << 20, parts: 16 };
    let done = tier.compact(sizes, &folder.scratch(), NOW).unwrap().unwrap();
    assert_eq!((done.segments, state(tier).segments.len()), (COUNT, 1));
    // The parts stay for a while.
    let there: BTreeSet<_> = names(&store.inner).into_iter().collect();
    assert!(old.iter().all(|name| there.contains(name) || name.contains("manifest/")));
    tier.retire(Duration::MAX, NOW).unwrap();
    assert_eq!(segments_of(&store), COUNT as usize + 1);
    assert!(!folder.scratch().exists());
    let merged = &state(tier).segments[0];
    assert_eq!((merged.base, merged.end, merged.rows), (0, COUNT, COUNT));
    assert_eq!(merged.times, (NOW, NOW + COUNT as i64 - 1));

    // The same rows at the same offsets, of a reader that knew the parts, of a new one, and of one that is in the middle.
    assert_eq!(rows(&readers[1], 0, COUNT).unwrap(), before);
    pass(Duration::from_secs(1));
    let fresh = of_store(&store);
    for spool in [&readers[1], &fresh] {
        assert_eq!(rows(spool, 0, COUNT).unwrap(), before);
        assert_eq!(rows(spool, 333, 338).unwrap(), rows(&local, 333, 338).unwrap());
        assert_eq!(spool.at(NOW + 500).unwrap(), local.at(NOW + 500).unwrap());
        let (mark, there) = (local.marks().unwrap()[0], spool.marks().unwrap()[0]);
        assert_eq!((mark.earliest, mark.end, mark.last_time), (there.earliest, there.end, there.last_time));
        let seven = selection(Some("fleet/3/pose"), Some((NOW + 100, NOW + 200)));
        let some = |spool: &Spool| {
            let rows = spool.read(SHARD, 0, COUNT, None, Default::default()).unwrap();
            rows.select(seven.clone()).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>()
        };
        assert_eq!((some(spool), some(&local)), (15, 15));
    }

    // Readers that are in the middle when the parts go look again.
    pass(GRACE);
    assert_eq!(tier.compact(sizes, &folder.scratch(), NOW).unwrap(), None);
    tier.retire(GRACE, NOW).unwrap();
    assert_eq!((segments_of(&store), tier.retires_in(GRACE)), (1, None));
    let mut read = vec![first];
    while let Some(batch) = during.next_batch().unwrap() {
        read.push(batch);
    }
    let again: Vec<RecordBatch> =
        of_store(&store).read(SHARD, 0, COUNT, None, limits).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, again);
}

#[test]
fn segments_are_chosen_that_are_small_beside_their_sum() {
    let chosen = |octets: &[u64], sizes: Sizes| {
        let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
        let (writer, _) = folder.open();
        let mut tier = start(&store, writer.meta()).unwrap();
        let mut add = described(0..octets.len() as u64);
        for (segment, octets) in add.iter_mut().zip(octets) {
            segment.bytes = *octets;
        }
        let change = Change { add, ..Change::default() };
        tier.record(BTreeMap::from([(SHARD, change)]), NOW).unwrap();
        tier.choose(SHARD, &state(&tier).segments, sizes)
    };
    let sizes = Sizes { bytes: 100, parts: 2 };
    assert_eq!(chosen(&[10; 5], sizes), Some(0..5));
    assert_eq!(chosen(&[10; 30], sizes), Some(0..10), "as many as fit");
    assert_eq!(chosen(&[10, 10, 10], sizes), None, "a merge would not be four times as large");
    assert_eq!(chosen(&[90, 1, 1, 1, 1, 90], sizes), Some(1..5));
    assert_eq!(chosen(&[200, 300], sizes), None);
    assert_eq!(chosen(&[16, 16, 16, 16, 1, 1, 1], sizes), Some(0..7));
    assert_eq!(chosen(&[10; 5], Sizes { parts: 6, ..sizes }), None);
    assert_eq!(chosen(&[], sizes), None);
}

#[test]
fn offsets_without_rows_and_damaged_segments_stay_between_merged_ones() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 15, 1);
    let local = Spool::open(&folder.0).unwrap();
    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    upload(tier, &local, &mut shards).unwrap();
    let segment = state(tier).segments[7].clone();
    let name = ObjectPath::from(format!("spool/{}", segment_name(SHARD, &segment)));
    let octets = wait(async { store.get(&name).await.unwrap().bytes().await.unwrap() }).unwrap();
    let mut changed = octets.to_vec();
    changed[4000] ^= 1;
    wait(store.inner.put(&name, changed.into())).unwrap().unwrap();
    let error = rows(&of_store(&store), 0, 15).unwrap_err();
    assert_eq!(compact(tier, &folder, SMALL).unwrap(), 14);
    assert_eq!(bases(tier), [0, 7, 8]);
    pass(Duration::from_secs(1));
    let now = rows(&of_store(&store), 0, 15).unwrap_err();
    assert_eq!((now.to_string(), now.resumes()), (error.to_string(), error.resumes()));
    assert_eq!(rows(&of_store(&store), 8, 15).unwrap(), rows(&local, 8, 15).unwrap());
}

/// Every number of writes after which the process that merges stops, and whether the last one was carried out.
#[test]
fn a_crash_after_each_write_of_a_merge_loses_no_row_and_doubles_none() {
    let mut steps = 0;
    for late in [false, true] {
        for crash in 0.. {
            let store = Arc::new(Faulty { late, ..Faulty::new() });
            let folder = Folder::new();
            let (writer, mut shards) = folder.open();
            fill(&mut shards, 12, 1);
            let local = Spool::open(&folder.0).unwrap();
            let before = rows(&local, 0, 12).unwrap();
            let mut tier = start(&store, writer.meta()).unwrap();
            join(&tier, &mut shards);
            upload(&mut tier, &local, &mut shards).unwrap();
            let reader = of_store(&store);
            let mut during = reader.read(SHARD, 0, 12, None, BatchLimits { rows: 1, bytes: 1 }).unwrap();
            assert!(during.next_batch().unwrap().is_some());
            store.left.store(crash, Ordering::SeqCst);
            let mut run = || {
                compact(&mut tier, &folder, SMALL)?;
                pass(GRACE);
                tier.retire(GRACE, NOW)
            };
            let done = run();
            store.left.store(i64::MAX, Ordering::SeqCst);
            for (name, there) in listed(&store.inner) {
                assert!(there, "crash {crash}: {name} is listed and not there");
            }
            pass(Duration::from_secs(1));
            assert_eq!(rows(&of_store(&store), 0, 12).unwrap(), before, "crash {crash}");
            assert_eq!(
                during.by_ref().map(|batch| batch.unwrap().num_rows()).sum::<usize>(),
                11,
                "crash {crash}"
            );

            let meta = Meta { epoch: writer.meta().epoch + 1, ..writer.meta().clone() };
            let mut tier = start(&store, &meta).unwrap();
            assert_eq!(join(&tier, &mut shards), None);
            assert_eq!(shards.data[0].waiting(), [], "crash {crash}: the store has all rows");
            compact(&mut tier, &folder, SMALL).unwrap();
            assert_eq!(bases(&tier), [0], "crash {crash}");
            pass(GRACE);
            tier.retire(GRACE, NOW).unwrap();
            tier.sweep().unwrap();
            tier.sweep_orphans(DAY, later()).unwrap();
            assert_eq!(segments_of(&store), 1, "crash {crash}: objects without an entry are deleted");
            pass(Duration::from_secs(1));
            assert_eq!(rows(&of_store(&store), 0, 12).unwrap(), before, "crash {crash}");
            if done.is_ok() {
                break;
            }
            steps += 1;
        }
    }
    assert!(steps > 30, "{steps} steps");
}

#[test]
fn a_process_beside_the_spooler_merges_while_the_spooler_goes_on() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 12, 1);
    let local = Spool::open(&folder.0).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    upload(&mut tier, &local, &mut shards).unwrap();
    let mut other = beside(&store, writer.meta());
    assert_eq!(compact(&mut other, &folder, SMALL).unwrap(), 12);

    // The spooler finds the entry in the place of its next one.
    fill(&mut shards, 2, 1);
    upload(&mut tier, &local, &mut shards).unwrap();
    assert_eq!(bases(&tier), [0, 12, 13]);
    // So does the other process.
    fill(&mut shards, 6, 1);
    upload(&mut tier, &local, &mut shards).unwrap();
    other.adopt().unwrap();
    assert_eq!(compact(&mut other, &folder, SMALL).unwrap(), 8);
    pass(GRACE);
    other.retire(GRACE, NOW).unwrap();
    trim(&mut tier, &mut shards, NOW + 12).unwrap();
    assert_eq!(bases(&tier), [12]);
    assert_eq!(segments_of(&store), 1);
    assert_eq!(rows(&of_store(&store), 13, 20).unwrap(), rows(&local, 13, 20).unwrap());

    // The spooler was idle while so many entries came that those behind its last one are deleted.
    for _ in 0..3 * WHOLE {
        other.record(BTreeMap::new(), NOW).unwrap();
        other.hint().unwrap();
        other.sweep().unwrap();
    }
    let next = entry_name(tier.manifest().number + 1);
    assert!(!names(&store.inner).iter().any(|name| name.contains(&next)), "the number is free again");
    fill(&mut shards, 1, 1);
    upload(&mut tier, &local, &mut shards).unwrap();
    assert_eq!((bases(&tier), tier.manifest().number), (vec![12, 20], other.manifest().number + 1));
    assert!(
        !names(&store.inner).iter().any(|name| name.contains(&next)),
        "nothing is left among the entries"
    );

    // A hint is not set back.
    let number = other.manifest().number;
    tier.record(BTreeMap::new(), NOW).unwrap();
    other.adopt().unwrap();
    other.record(BTreeMap::new(), NOW).unwrap();
    other.hint().unwrap();
    tier.hint().unwrap();
    assert_eq!(tier.manifest().number, number + 2);
    let client = tier.store().client().unwrap();
    assert_eq!(wait(client.latest()).unwrap().unwrap().0, number + 3);

    // A later start of the spool stops the one that merges, until it learns of that.
    let meta = Meta { epoch: writer.meta().epoch + 1, ..writer.meta().clone() };
    let mut later = start(&store, &meta).unwrap();
    later.record(BTreeMap::new(), NOW).unwrap();
    later.hint().unwrap();
    let error = other.record(BTreeMap::new(), NOW).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    other.adopt().unwrap();
    other.record(BTreeMap::new(), NOW).unwrap();
    later.record(BTreeMap::new(), NOW).unwrap();
    let error = tier.record(BTreeMap::new(), NOW).unwrap_err();
    assert!(error.to_string().contains("start 2"), "{error}");
}

#[test]
fn a_folder_that_has_some_of_the_parts_gives_the_same_rows() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 12, 2);
    let local = Spool::open(&folder.0).unwrap();
    let before = rows(&local, 0, 24).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    upload(&mut tier, &local, &mut shards).unwrap();
    compact(&mut tier, &folder, Sizes { bytes: 1 << 20, parts: 2 }).unwrap();
    pass(GRACE);
    tier.retire(GRACE, NOW).unwrap();
    assert_eq!(bases(&tier), [0]);
    let both = local.clone().with_tier(Arc::new(Store::over(store.clone(), clock)));
    assert_eq!(rows(&both, 0, 24).unwrap(), before);

    // A file between others, and the first one, which begins where the merged segment does.
    for base in [8, 0] {
        let file = folder.0.join("0").join(format!("{base:020}.arrow"));
        let octets = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(rows(&local, 0, 24).is_err());
        assert_eq!(rows(&both, 0, 24).unwrap(), before, "without the file of offset {base}");
        fs::write(&file, octets).unwrap();
    }

    // The newest files alone.
    let mark = shards.data[0].mark();
    let file = mark.bytes / 12;
    shards.data[0].release(3 * file + file / 2).unwrap();
    assert_eq!(local.segments(SHARD).unwrap(), [18, 20, 22]);
    pass(Duration::from_secs(1));
    assert_eq!(rows(&both, 0, 24).unwrap(), before);
    assert_eq!(both.segments(SHARD).unwrap(), [0, 18, 20, 22]);
    let (begin, end) = ([(0, 0)].into(), [(0, 24)].into());
    let selected = selection(Some("a/b"), Some((NOW + 3, NOW + 21)));
    let plan = both.plan(&begin, &end, Some(&selected)).unwrap();
    assert_eq!((plan.segments, plan.skipped), (3, 1));
    assert!(plan.bytes <= mark.bytes, "{} of {} octets", plan.bytes, mark.bytes);
    assert_eq!(both.at(NOW + 5).unwrap(), [(0, 5)].into());

    // The next start knows that the store has all, and its retention goes by the files that there were.
    drop((writer, shards));
    let (writer, mut shards) = folder.open();
    let mut tier = start(&store, writer.meta()).unwrap();
    assert_eq!(join(&tier, &mut shards), None);
    assert_eq!(shards.data[0].waiting(), []);
    let now = shards.data[0].mark();
    assert_eq!(now.earliest, 0);
    assert!(now.bytes.abs_diff(mark.bytes) < 4 * file, "{} and {} octets", now.bytes, mark.bytes);
    trim(&mut tier, &mut shards, NOW + 20).unwrap();
    assert_eq!(both.marks().unwrap()[0].earliest, 0, "some rows of the merged segment are newer");
    fill(&mut shards, 1, 1);
    upload(&mut tier, &local, &mut shards).unwrap();
    trim(&mut tier, &mut shards, NOW + 23).unwrap();
    assert_eq!(both.marks().unwrap()[0].earliest, 24);
    assert_eq!(bases(&tier), [24]);
    assert_eq!(segments_of(&store), 1);
}

#[test]
fn segments_in_pages_are_merged_and_small_pages_become_one() {
    const COUNT: usize = 2 * PAGE + 40;
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    // A few segments that exist, first in two pages of their own.
    fill(&mut shards, 20, 1);
    let local = Spool::open(&folder.0).unwrap();
    let before = rows(&local, 0, 20).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    upload(&mut tier, &local, &mut shards).unwrap();
    let add: Vec<Sealed> =
        described(2..COUNT as u64).into_iter().map(|sealed| Sealed { bytes: 1 << 30, ..sealed }).collect();
    for some in add.chunks(PAGE) {
        let change = Change { add: some.to_vec(), ..Change::default() };
        tier.record(BTreeMap::from([(SHARD, change)]), NOW).unwrap();
    }
    turn(&mut tier);
    assert_eq!(state(&tier).pages.len(), 1);
    let page = state(&tier).pages[0].clone();
    let reader = of_store(&store);
    let mut during = reader.read(SHARD, 0, 20, None, BatchLimits { rows: 1, bytes: 1 }).unwrap();
    assert!(during.next_batch().unwrap().is_some());
    let mut other = beside(&store, writer.meta());
    assert_eq!(compact(&mut other, &folder, Sizes { bytes: 1 << 20, parts: 2 }).unwrap(), 20);
    let pages = &state(&other).pages;
    assert_eq!((pages.len(), pages[0].segments), (1, page.segments - 19));
    let first = other.segments(SHARD).unwrap()[0].clone();
    assert_eq!((first.base, first.end), (0, 20));
    pass(GRACE);
    other.retire(GRACE, NOW).unwrap();
    assert_eq!(names(&store.inner).iter().filter(|name| name.ends_with(".page")).count(), 1);
    assert_eq!(
        during.map(|batch| batch.unwrap().num_rows()).sum::<usize>(),
        19,
        "it knew the page that is gone"
    );
    assert_eq!(rows(&of_store(&store), 0, 20).unwrap(), before);

    // The spooler, which does not know of it yet, deletes rows by the page that it knows.
    tier.record(BTreeMap::from([(SHARD, Change { trim: Some(30), ..Change::default() })]), NOW).unwrap();
    assert_eq!(bases(&tier)[0], 30);
    assert_eq!((state(&tier).pages.len(), state(&tier).pages[0].segments), (1, page.segments - 19));
    tier.sweep().unwrap();
    assert_eq!(segments_of(&store), 0);
}

#[test]
fn pages_with_few_segments_become_one() {
    let folder = Folder::new();
    let (store, _, mut tier) = listing(&folder);
    let state = tier.manifest().shards[&SHARD].clone();
    // As after merges: pages of some segments, each with the offsets of many.
    let mut few = Vec::new();
    for page in &state.pages {
        let segments = tier.store().pages(SHARD, core::slice::from_ref(page)).unwrap();
        let parts = segments[0].chunks(PAGE / 4).map(|parts| Sealed {
            end: parts.last().unwrap().end,
            rows: parts.iter().map(|part| part.rows).sum(),
            ..parts[0].clone()
        });
        few.push(parts.collect::<Vec<_>>());
    }
    for (page, segments) in state.pages.iter().zip(&few) {
        let new = tier.write_page(SHARD, segments).unwrap();
        let change = Change { merges: vec![Merge::Page(vec![page.clone()], new)], ..Change::default() };
        tier.record(BTreeMap::from([(SHARD, change)]), NOW).unwrap();
    }
    tier.hint().unwrap();
    let before = of_store(&store).segments(SHARD).unwrap();
    // A reader that wants rows of the second page, and has passed over the first one.
    let mut cursor = of_store(&store).cursor(SHARD).unwrap();
    cursor.select(Some(selection(Some("robot/560"), None)));
    let pass_over = |cursor: zwire_spool::Cursor, at: u64| {
        let mut answer = cursor.answer(at, at + 100, 1 << 20).unwrap();
        let (label, octets) = answer.next_block().unwrap().unwrap();
        assert_eq!((label.first, label.end, label.hole, octets.len()), (at, at + 100, true, 0));
        answer.into_cursor()
    };
    let cursor = pass_over(cursor, 0);
    let none = Sizes { bytes: 1, parts: 2 };
    assert_eq!(compact(&mut tier, &folder, none).unwrap(), 0);
    let pages = &tier.manifest().shards[&SHARD].pages;
    assert_eq!((pages.len(), pages[0].segments), (1, 12));
    pass(GRACE);
    tier.retire(GRACE, NOW).unwrap();
    let left = names(&store.inner).into_iter().filter(|name| name.ends_with(".page")).count();
    assert_eq!(left, state.pages.len() + 1, "the first ones, which the test has replaced, and the last");
    assert_eq!(of_store(&store).segments(SHARD).unwrap(), before);
    reads(&store, []);
    pass_over(cursor, 10 * PAGE as u64 + 50);
    assert_eq!(reads(&store, [".page"]), [2], "the page that is gone, and the one in its place");
}

#[test]
fn an_upload_that_was_stopped_before_its_entry_is_swept_once_it_is_old() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 3, 1);
    let local = Spool::open(&folder.0).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    // Segment and list of blocks arrive, the entry does not; and the files go with the host.
    store.left.store(2, Ordering::SeqCst);
    upload(&mut tier, &local, &mut shards).unwrap_err();
    store.left.store(i64::MAX, Ordering::SeqCst);
    assert_eq!((segments_of(&store), tier.manifest().number), (1, 1));
    let meta = Meta { epoch: writer.meta().epoch + 1, ..writer.meta().clone() };
    let mut tier = start(&store, &meta).unwrap();
    let gaps = Change { drops: Some(0), ..Change::default() };
    tier.record(BTreeMap::from([(SHARD, gaps)]), NOW).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as i64;
    assert_eq!(tier.sweep_orphans(DAY, now).unwrap(), Orphans::default(), "it may be in progress");
    let stranger = ObjectPath::from("spool/0/notes.txt");
    wait(store.inner.put(&stranger, Bytes::from_static(b"x").into())).unwrap().unwrap();
    let number = tier.manifest().number;
    let swept = tier.sweep_orphans(DAY, now + 2 * DAY.as_micros() as i64).unwrap();
    assert_eq!((swept.objects, segments_of(&store)), (2, 0));
    assert!(swept.bytes > 5000);
    assert_eq!(tier.manifest().number, number + 1, "an entry says so before");
    assert!(names(&store.inner).contains(&stranger.to_string()), "other objects stay");
    assert_eq!(tier.sweep_orphans(DAY, later()).unwrap(), Orphans::default());

    // The spooler that comes back with its files uploads them again.
    join(&tier, &mut shards);
    upload(&mut tier, &local, &mut shards).unwrap();
    assert_eq!(rows(&of_store(&store), 0, 3).unwrap(), rows(&local, 0, 3).unwrap());
    assert_eq!(tier.sweep_orphans(DAY, later()).unwrap(), Orphans::default());
}

#[test]
fn an_object_that_another_process_deletes_is_not_named_before_it_is_gone() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 2, 1);
    let local = Spool::open(&folder.0).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    tier.record(BTreeMap::from([(SHARD, Change { drops: Some(0), ..Change::default() })]), NOW).unwrap();
    tier.hint().unwrap();
    store.left.store(2, Ordering::SeqCst);
    upload(&mut tier, &local, &mut shards).unwrap_err();
    store.left.store(i64::MAX, Ordering::SeqCst);
    // The other one dooms the object, which the spooler has just uploaded again.
    let mut other = beside(&store, writer.meta());
    assert_eq!(other.sweep_orphans(DAY, later()).unwrap().objects, 2);
    let error = upload(&mut tier, &local, &mut shards).unwrap_err();
    assert!(
        matches!(&error, Error::Unreachable { problem, .. } if problem.contains("written again")),
        "{error}"
    );
    upload(&mut tier, &local, &mut shards).unwrap();
    assert_eq!(rows(&of_store(&store), 0, 2).unwrap(), rows(&local, 0, 2).unwrap());
}

#[test]
fn a_merge_ends_between_its_parts_when_the_writer_is_to_end() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 20, 1);
    let local = Spool::open(&folder.0).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    upload(&mut tier, &local, &mut shards).unwrap();
    let halt = Arc::new(AtomicBool::new(true));
    tier.halt_with(halt.clone());
    assert_eq!(tier.compact(SMALL, &folder.scratch(), NOW).unwrap(), Some(Compacted::default()));
    assert_eq!((bases(&tier).len(), folder.scratch().exists()), (20, false));
    halt.store(false, Ordering::Release);
    assert_eq!(compact(&mut tier, &folder, SMALL).unwrap(), 20);
}

#[test]
fn parts_of_a_merged_segment_are_not_set_aside() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 8, 1);
    let local = Spool::open(&folder.0).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    upload(&mut tier, &local, &mut shards).unwrap();
    assert_eq!(compact(&mut tier, &folder, SMALL).unwrap(), 8);
    let there = tier.segments(SHARD).unwrap();
    shards.data[0].resume(state(&tier), &there, 1 << 32, 2).unwrap();
    let files = fs::read_dir(folder.0.join("0")).unwrap().map(|file| file.unwrap().path());
    let aside: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "fenced")).collect();
    assert_eq!(aside, Vec::<PathBuf>::new());
}

#[test]
fn an_object_that_was_named_since_the_list_is_not_doomed() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 2, 1);
    let local = Spool::open(&folder.0).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    let mut other = beside(&store, writer.meta());
    upload(&mut tier, &local, &mut shards).unwrap();
    let stored = tier.manifest().shards[&SHARD].segments.clone();
    let stray = "0/00000000000000000099-00000000.arrow".to_owned();
    // What a list had before these entries.
    let listed = stored.iter().flat_map(|old| [segment_name(SHARD, old), index_name(SHARD, old)]);
    other.pending.dooming = listed.chain([stray.clone()]).collect();
    other.retire(DAY, NOW).unwrap();
    assert_eq!(other.manifest().doomed.iter().map(|(_, name)| name).collect::<Vec<_>>(), [&stray]);
    assert_eq!(rows(&of_store(&store), 0, 2).unwrap(), rows(&local, 0, 2).unwrap());
}

#[test]
fn an_object_that_entries_have_deleted_unseen_is_uploaded_again() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 1, 1);
    let local = Spool::open(&folder.0).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    tier.record(BTreeMap::from([(SHARD, Change { drops: Some(0), ..Change::default() })]), NOW).unwrap();
    tier.hint().unwrap();
    let waiting = shards.data[0].waiting().remove(0);
    let (id, layout) = (&local.meta().id, local.layout(SHARD));
    let described = describe(&waiting.path, id, (SHARD, &layout), (waiting.base, waiting.end));
    let (sealed, index) = described.unwrap();
    tier.upload(&waiting.path, SHARD, &sealed, index).unwrap();
    // The spooler sleeps here, until its next entry lies in the deleted past.
    let mut other = beside(&store, writer.meta());
    assert_eq!(other.sweep_orphans(DAY, later()).unwrap().objects, 2);
    for _ in 0..3 * WHOLE {
        other.record(BTreeMap::new(), NOW).unwrap();
        other.hint().unwrap();
        other.sweep().unwrap();
    }
    let change = Change { add: vec![sealed], ..Change::default() };
    let error = tier.record(BTreeMap::from([(SHARD, change)]), NOW).unwrap_err();
    assert!(
        matches!(&error, Error::Unreachable { problem, .. } if problem.contains("uploaded again")),
        "{error}"
    );
    upload(&mut tier, &local, &mut shards).unwrap();
    assert_eq!(rows(&of_store(&store), 0, 1).unwrap(), rows(&local, 0, 1).unwrap());
}

#[test]
fn two_neighbouring_objects_that_are_gone_are_missing() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 5, 2);
    let local = Spool::open(&folder.0).unwrap();
    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    upload(tier, &local, &mut shards).unwrap();
    for gone in [1..3, 0..2, 3..5, 1..4] {
        let removed: Vec<_> = gone
            .clone()
            .map(|at| {
                let segment = &state(tier).segments[at];
                let name = ObjectPath::from(format!("spool/{}", segment_name(SHARD, segment)));
                let octets =
                    wait(async { store.inner.get(&name).await.unwrap().bytes().await.unwrap() }).unwrap();
                wait(store.inner.delete(&name)).unwrap().unwrap();
                let file = folder.0.join("0").join(format!("{:020}.arrow", segment.base));
                let there = fs::read(&file).unwrap();
                fs::remove_file(&file).unwrap();
                (name, octets, file, there)
            })
            .collect();
        let (offset, until) = (2 * gone.start as u64, 2 * gone.end as u64);
        for spool in [&of_store(&store), &local] {
            let error = rows(spool, 0, 10).unwrap_err();
            assert!(
                matches!(error, Error::Missing { offset: at, until: to, .. } if (at, to) == (offset, until)),
                "{gone:?}: {error}"
            );
        }
        for (name, octets, file, there) in removed {
            wait(store.inner.put(&name, octets.into())).unwrap().unwrap();
            fs::write(file, there).unwrap();
        }
    }
    let name = segment_name(SHARD, &state(tier).segments[0]);
    let path = ObjectPath::from(format!("spool/{name}"));
    wait(store.inner.delete(&path)).unwrap().unwrap();
    let error =
        of_store(&store).tier().unwrap().open(SHARD, &state(tier).segments[0]).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("s3://test/spool/{name}: could not read")), "{error}");
}

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Spooler and another process take turns at uploads, merges, deletions; each may be stopped at any write.
#[test]
fn rows_are_the_same_in_any_order_of_uploads_merges_and_crashes() {
    for seed in 1..=24 {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let store = Arc::new(Faulty { late: dice.roll(2) == 0, ..Faulty::new() });
        let (folder, truth) = (Folder::new(), Folder::new());
        let (writer, mut shards) = folder.open();
        let (_kept, mut all) = truth.open();
        let mut meta = writer.meta().clone();
        let (local, whole) = (Spool::open(&folder.0).unwrap(), Spool::open(&truth.0).unwrap());
        let mut tier = start(&store, &meta).unwrap();
        join(&tier, &mut shards);
        let mut other = beside(&store, &meta);
        for step in 0..60 {
            if dice.roll(4) == 0 {
                store.left.store(dice.roll(12) as i64, Ordering::SeqCst);
            }
            let sizes = Sizes { bytes: [20 << 10, 64 << 10, 1 << 20][dice.roll(3) as usize], parts: 2 };
            let result = match dice.roll(9) {
                0..=3 => {
                    let count = dice.roll(5) as usize;
                    fill(&mut shards, count, 1);
                    fill(&mut all, count, 1);
                    upload(&mut tier, &local, &mut shards)
                }
                4 => tier.compact(sizes, &folder.scratch(), NOW).map(|_| ()),
                5 => other.adopt().and_then(|()| other.compact(sizes, &truth.scratch(), NOW)).map(|_| ()),
                6 => {
                    pass(GRACE);
                    tier.retire(GRACE, NOW).and_then(|()| other.retire(GRACE, NOW))
                }
                7 => tier
                    .sweep_orphans(DAY, later())
                    .and_then(|_| other.sweep_orphans(DAY, later()))
                    .map(|_| ()),
                _ => {
                    let before = NOW + dice.roll(shards.data[0].next_offset().max(1)) as i64;
                    let most = NOW + shards.data[0].next_offset() as i64 - 2;
                    trim(&mut tier, &mut shards, before.min(most))
                }
            };
            let crashed = store.left.swap(i64::MAX, Ordering::SeqCst) < 0;
            if let Err(error) = result {
                let expected = crashed || matches!(error, Error::Unreachable { .. } | Error::Mismatch { .. });
                assert!(expected, "seed {seed}, step {step}: {error}");
                // A process that failed is started again.
                if dice.roll(2) == 0 {
                    meta.epoch += 1;
                    tier = start(&store, &meta).unwrap();
                    let trim = join(&tier, &mut shards);
                    let trim = trim.map(|to| Change { trim: Some(to), ..Change::default() });
                    tier.record(trim.map(|trim| (SHARD, trim)).into_iter().collect(), NOW).unwrap();
                } else {
                    other = beside(&store, &meta);
                }
            }
            pass(Duration::from_secs(1));
            let remote = of_store(&store);
            let mark = remote.marks().unwrap()[0];
            assert_eq!(
                rows(&remote, mark.earliest, mark.end).unwrap(),
                rows(&whole, mark.earliest, mark.end).unwrap(),
                "seed {seed}, step {step}"
            );
        }
        upload(&mut tier, &local, &mut shards).or_else(|_| upload(&mut tier, &local, &mut shards)).unwrap();
        pass(Duration::from_secs(1));
        assert_eq!(of_reader(&store).unwrap(), shards.data[0].next_offset(), "seed {seed}");
    }
}
