//! Retention, housekeeping and gap accounting with a clock that the tests advance.

use crate::{
    append::open,
    compact::Compacting,
    numbers::Numbers,
    samples::Samples,
    shared::{Keeping, Shared},
    taker::{Source, Taker, Turn},
    tier::{self, Link, Uploader, open_spool},
    time::Clock,
};
use arrow_array::{Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use zwire_engine::{
    Origins, Queue, RecvError,
    queue::{Bounds, Overflow},
};
use zwire_proto::{
    Now,
    zenoh::{
        Qos, Reliability, ZenohId,
        advanced::{Miss, SampleSource},
        session::Sample,
        wire::{PushBody, Put, SourceInfo},
    },
};
use zwire_spool::{BatchLimits, Layout, Options, Retention, Rule, Shard, Spool, Wanted, layout::SAMPLES};

/// Start of the virtual time: ages do not reach below 1970.
const START: Duration = Duration::from_secs(1_000_000);
const LINGER: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);
const BOUNDS: Bounds = Bounds { messages: 8, bytes: 1 << 20, overflow: Overflow::DropNewest };

/// A recorder without its thread: the test takes the turns and advances the clock.
struct Bench {
    dir: PathBuf,
    time: Arc<Mutex<Duration>>,
    /// Writes that the disk refuses from now on.
    refusals: Arc<AtomicU64>,
    shared: Arc<Shared>,
    source: Arc<Source>,
    queue: Arc<Queue<Sample>>,
    misses: Arc<Queue<Miss>>,
    taker: Taker<Samples>,
    uploader: Option<Uploader>,
}

impl Bench {
    fn new(keeping: Keeping) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("zwire-recorder-{}-{number}", std::process::id()));
        Self::open(dir, keeping, None)
    }

    fn open(dir: PathBuf, keeping: Keeping, tier: Option<&str>) -> Self {
        let time = Arc::new(Mutex::new(START));
        let refusals = Arc::new(AtomicU64::new(0));
        let (read, left) = (time.clone(), refusals.clone());
        let clock = Clock::new(move || Now::at(*read.lock()));
        let room = move |_: &Path, wanted: usize| {
            let less = |left: u64| left.checked_sub(1);
            match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
                Ok(_) => 0,
                Err(_) => wanted,
            }
        };
        let wanted = Wanted { layout: Layout::whole(&SAMPLES), shards: 1, rule: Rule::Hash };
        let options =
            Options { segment_micros: 10_000_000, room: Some(Arc::new(room)), ..Options::default() };
        let (writer, mut shards) = open(&dir, &wanted, &options, &clock).unwrap();
        let meta = writer.meta().clone();
        let tier = tier::writer(&dir, &meta, tier, false, false).unwrap();
        let link = tier.as_ref().map(|_| Arc::new(Link::default()));
        if tier.is_some() {
            shards.data[0].await_tier();
        }
        let known = Numbers::of(&Spool::open(&dir).unwrap()).unwrap().0;
        let mut shared = Shared::new(writer, shards, options.durability, LINGER, keeping, clock);
        shared.tier.clone_from(&link);
        let shared = Arc::new(shared);
        let given = (meta, keeping.local_bytes);
        let compacting = Compacting::new(&dir, keeping.compact_bytes, shared.clock.clone());
        let uploader =
            tier.zip(link).map(|(tier, link)| Uploader::new(&shared, &link, tier, given, compacting));
        let queue = Queue::new(BOUNDS);
        let misses = Queue::new(BOUNDS);
        let (name, done) = ("the subscriber to robot/**".to_owned(), AtomicU64::new(0));
        let counted = queue.clone();
        let source = Arc::new(Source { name, stats: Box::new(move || counted.stats()), done });
        let rows = Samples::new(
            &wanted.layout,
            Vec::new(),
            known,
            Some(misses.clone()),
            Arc::new(Origins::default()),
        );
        let taker = Taker::new(shared.clone(), source.clone(), queue.clone(), rows, 0);
        Self { dir, time, refusals, shared, source, queue, misses, taker, uploader }
    }

    fn now(&self) -> Now {
        self.shared.clock.now()
    }

    fn advance(&self, by: Duration) {
        *self.time.lock() += by;
    }

    /// Publishes samples with these numbers.
    fn publish(&self, numbers: impl IntoIterator<Item = u32>) {
        for sn in numbers {
            let zid = ZenohId::from_wire(&[7]).unwrap();
            let source_info = Some(Box::new(SourceInfo { zid, eid: 1, sn }));
            let put = Put { source_info, payload: vec![0; 100].into(), ..Put::default() };
            let key = "robot/1/battery".parse().unwrap();
            let sample = Sample::new(key, PushBody::Put(put), Qos::default(), Reliability::Reliable);
            self.queue.push(sample);
        }
    }

    /// Tells that samples up to this number are missed.
    fn miss(&self, count: u64, last: u32) {
        let source = SampleSource { zid: ZenohId::from_wire(&[7]).unwrap(), eid: 1 };
        self.misses.push(Miss { source, count, last });
    }

    /// A turn of the thread, with the items that are in the queue.
    fn turn(&mut self) -> Turn {
        let came = if self.queue.is_empty() { Err(RecvError::Timeout) } else { Ok(()) };
        self.taker.turn(came, self.shared.stop.load(Ordering::Relaxed), self.now())
    }

    /// Publishes samples, and lets the thread write them.
    fn record(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.publish(numbers);
        assert_eq!(self.turn(), Turn::Again);
        self.advance(LINGER);
        assert_eq!(self.turn(), Turn::Again);
    }

    fn spool(&self) -> Spool {
        Spool::open(&self.dir).unwrap()
    }

    /// First offset of the rows, and the one behind the last.
    fn bounds(&self) -> (u64, u64) {
        let mark = self.spool().mark(Shard::Data(0)).unwrap();
        (mark.earliest, mark.end)
    }

    /// Kind, count and time of the gaps in the log, without those that the start of a writer logs.
    fn gaps(&self) -> Vec<(String, Option<i64>, Duration)> {
        let spool = self.spool();
        let mark = spool.mark(Shard::Gaps).unwrap();
        let rows = spool.read(Shard::Gaps, mark.earliest, mark.end, None, BatchLimits::default()).unwrap();
        let mut gaps = Vec::new();
        for batch in rows.map(Result::unwrap) {
            let (kinds, counts) =
                (column::<StringArray>(&batch, "kind"), column::<Int64Array>(&batch, "count"));
            let times = column::<TimestampMicrosecondArray>(&batch, "recv_ts");
            for row in 0..batch.num_rows() {
                let count = (!counts.is_null(row)).then(|| counts.value(row));
                let time = Duration::from_micros(times.value(row).cast_unsigned());
                gaps.push((kinds.value(row).to_owned(), count, time));
            }
        }
        gaps.retain(|(kind, ..)| kind != "epoch");
        gaps
    }

    /// Ends the recording, as [`crate::Recorder::close`] does.
    fn close(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        assert_eq!(self.taker.turn(Err(RecvError::Timeout), true, self.now()), Turn::Ended);
        self.shared.remember(0);
        let writer = self.shared.writer.lock().take().unwrap();
        for shard in self.shared.shards.iter().chain([&self.shared.gaps]) {
            shard.lock().close(self.shared.clock.micros()).unwrap();
        }
        writer.close().unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn column<'a, T: 'static>(batch: &'a RecordBatch, name: &str) -> &'a T {
    batch.column_by_name(name).unwrap().as_any().downcast_ref().unwrap()
}

fn micros(time: Duration) -> i64 {
    time.as_micros() as i64
}

fn keep(age: Option<Duration>, bytes: Option<u64>) -> Keeping {
    Keeping {
        rule: Retention { micros: age.map(micros), bytes },
        consumer_micros: Some(micros(300 * SECOND)),
        local_bytes: None,
        compact_bytes: None,
    }
}

#[test]
fn rows_wait_for_others_until_the_linger_is_over() {
    let mut bench = Bench::new(Keeping::default());
    bench.publish([1]);
    assert_eq!(bench.turn(), Turn::Again);
    assert_eq!(bench.taker.patience(bench.now().mono), LINGER);
    bench.advance(LINGER / 2);
    bench.publish([2]);
    assert_eq!(bench.turn(), Turn::Again);
    assert_eq!(bench.bounds(), (0, 0));
    // The first of the rows decides.
    bench.advance(LINGER / 2);
    assert_eq!(bench.turn(), Turn::Again);
    assert_eq!(bench.bounds(), (0, 2));
    assert_eq!(bench.source.done.load(Ordering::Relaxed), 2);
}

#[test]
fn a_flush_ends_the_linger() {
    let mut bench = Bench::new(Keeping::default());
    bench.publish([1]);
    assert_eq!(bench.turn(), Turn::Again);
    bench.shared.hurry.store(true, Ordering::Relaxed);
    assert_eq!(bench.turn(), Turn::Again);
    assert_eq!(bench.bounds(), (0, 1));
    assert!(!bench.shared.hurry.load(Ordering::Relaxed));
}

#[test]
fn rows_are_deleted_at_their_age() {
    let mut bench = Bench::new(keep(Some(60 * SECOND), None));
    bench.record(0..4);
    // Sealed by housekeeping once the segment is old enough.
    bench.advance(10 * SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (0, 4));
    bench.advance(49 * SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (0, 4));
    bench.advance(SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (4, 4));
    assert_eq!(bench.gaps(), []);
}

#[test]
fn a_consumer_holds_rows_back_until_it_expires() {
    let mut bench = Bench::new(keep(Some(60 * SECOND), None));
    bench.record(0..4);
    bench.spool().commit("slow", [(0, 2)].into(), bench.shared.clock.micros()).unwrap();
    bench.advance(10 * SECOND);
    bench.turn();
    bench.advance(289 * SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (0, 4));
    bench.advance(SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (4, 4));
    assert!(bench.spool().consumers().unwrap().is_empty());
    assert_eq!(bench.shared.expired.load(Ordering::Relaxed), 1);
}

#[test]
fn rows_beyond_the_size_are_deleted_unread_and_logged() {
    let mut bench = Bench::new(keep(None, Some(1)));
    bench.record(0..4);
    bench.spool().commit("slow", [(0, 3)].into(), bench.shared.clock.micros()).unwrap();
    bench.advance(10 * SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (4, 4));
    assert_eq!(bench.gaps(), [("gap".to_owned(), Some(1), bench.now().wall)]);
}

#[test]
fn missing_and_repeated_numbers_are_counted_and_logged() {
    let mut bench = Bench::new(Keeping::default());
    bench.record([1, 2]);
    bench.advance(SECOND);
    let time = bench.now().wall;
    bench.record([5, 5, 4, 6]);
    let told = [("gap".to_owned(), Some(2), time), ("duplicate".to_owned(), Some(1), time)];
    assert_eq!(bench.gaps(), told);
    assert_eq!(bench.shared.lost.load(Ordering::Relaxed), 2);
    assert_eq!(bench.shared.duplicates.load(Ordering::Relaxed), 1);
    assert_eq!(bench.bounds(), (0, 6));
}

#[test]
fn a_full_queue_is_a_gap_too() {
    let mut bench = Bench::new(Keeping::default());
    bench.record(0..11);
    let gaps = bench.gaps();
    assert_eq!(gaps, [("drop".to_owned(), Some(3), START)]);
    assert_eq!(bench.spool().mark(Shard::Data(0)).unwrap().drops, 3);
}

#[test]
fn too_many_gaps_at_once_are_logged_together() {
    let mut bench = Bench::new(Keeping::default());
    for turn in 0..100 {
        bench.publish((0..8).map(|n| (turn * 8 + n) * 2));
        assert_eq!(bench.turn(), Turn::Again);
    }
    bench.advance(LINGER);
    bench.turn();
    let gaps = bench.gaps();
    assert_eq!(gaps.len(), 257);
    assert_eq!(gaps[256].1, Some(799 - 256));
}

#[test]
fn the_next_writer_knows_the_numbers_of_the_last() {
    let mut bench = Bench::new(Keeping::default());
    bench.record([1, 2]);
    bench.close();
    let mut next = Bench::open(bench.dir.clone(), Keeping::default(), None);
    next.record([2, 5]);
    let kinds: Vec<_> = next.gaps().into_iter().map(|(kind, count, _)| (kind, count)).collect();
    assert_eq!(kinds, [("duplicate".to_owned(), Some(1)), ("gap".to_owned(), Some(2))]);
}

#[test]
fn a_full_disk_is_asked_again_and_loses_nothing() {
    let mut bench = Bench::new(Keeping::default());
    bench.publish([1, 2]);
    bench.turn();
    bench.advance(LINGER);
    bench.refusals.store(2, Ordering::Relaxed);
    assert_eq!(bench.turn(), Turn::Again);
    assert_eq!(bench.bounds(), (0, 2));
    assert!(bench.shared.problem.lock().is_some());
}

#[test]
fn a_recorder_that_closes_gives_a_full_disk_up() {
    let mut bench = Bench::new(Keeping::default());
    bench.publish([1, 2]);
    bench.turn();
    bench.refusals.store(u64::MAX, Ordering::Relaxed);
    bench.shared.stop.store(true, Ordering::Relaxed);
    assert_eq!(bench.turn(), Turn::GaveUp);
    bench.refusals.store(0, Ordering::Relaxed);
}

/// Also by the next writer, and not again by the next sample.
#[test]
fn what_a_heartbeat_reveals_is_a_gap_at_once() {
    let mut bench = Bench::new(Keeping::default());
    bench.publish([1, 2]);
    // Known before the samples are taken.
    bench.miss(3, 5);
    assert_eq!(bench.turn(), Turn::Again);
    bench.record([6]);
    bench.miss(2, 8);
    bench.advance(LINGER);
    assert_eq!(bench.turn(), Turn::Again);
    bench.advance(LINGER);
    assert_eq!(bench.turn(), Turn::Again);
    let counts = |bench: &Bench| bench.gaps().into_iter().map(|(_, count, _)| count).collect::<Vec<_>>();
    assert_eq!(counts(&bench), [Some(3), Some(2)]);
    assert_eq!(bench.shared.lost.load(Ordering::Relaxed), 5);
    bench.close();
    let mut next = Bench::open(bench.dir.clone(), Keeping::default(), None);
    next.miss(2, 8);
    next.record([9]);
    assert_eq!(counts(&next), [Some(3), Some(2)]);
}

#[test]
fn a_folder_that_is_removed_ends_the_recording() {
    let mut bench = Bench::new(Keeping::default());
    bench.publish([1, 2]);
    assert_eq!(bench.turn(), Turn::Again);
    bench.advance(SECOND);
    assert_eq!(bench.turn(), Turn::Again);
    let moved = bench.dir.with_extension("moved");
    fs::rename(&bench.dir, &moved).unwrap();
    bench.advance(SECOND);
    assert_eq!(bench.turn(), Turn::GaveUp);
    let problem = bench.shared.problem.lock().clone();
    assert!(problem.is_some_and(|problem| problem.contains("was removed or replaced")));
    // What comes afterwards is not counted as written.
    bench.publish([3]);
    assert_eq!(bench.turn(), Turn::GaveUp);
    assert_eq!(bench.shared.rows.load(Ordering::Relaxed), 2);
    // Another folder in its place is not the one that is written.
    fs::create_dir(&bench.dir).unwrap();
    assert!(bench.shared.check_folder().is_err());
    fs::remove_dir(&bench.dir).unwrap();
    fs::rename(&moved, &bench.dir).unwrap();
}

#[test]
fn a_source_that_ends_by_itself_is_a_problem() {
    let mut bench = Bench::new(Keeping::default());
    bench.queue.close();
    assert_eq!(bench.taker.turn(Err(RecvError::Closed), false, bench.now()), Turn::Ended);
    let problem = bench.shared.problem.lock().clone();
    assert_eq!(problem.as_deref(), Some("the subscriber to robot/** has ended, nothing more is kept of it"));
}

/// Size of the files of the shard's segments.
fn local(bench: &Bench) -> u64 {
    let files = fs::read_dir(bench.dir.join("0")).unwrap().map(|entry| entry.unwrap());
    files.filter(|file| file.path().extension().is_some_and(|e| e == "arrow")).count() as u64
}

#[test]
fn segments_move_into_the_store_and_are_kept_as_long_as_their_rows() {
    let store = std::env::temp_dir().join(format!("zwire-recorder-tier-{}", std::process::id()));
    let url = format!("file://{}", store.display());
    let keeping = Keeping { local_bytes: Some(0), ..keep(Some(60 * SECOND), None) };
    let dir = std::env::temp_dir().join(format!("zwire-recorder-{}-tier", std::process::id()));
    let mut bench = Bench::open(dir, keeping, Some(&url));
    // Nothing is deleted before the store has told what it has.
    for number in 0..3 {
        bench.record(4 * number..4 * number + 4);
        bench.advance(10 * SECOND);
        bench.turn();
    }
    bench.advance(100 * SECOND);
    bench.turn();
    assert_eq!((bench.bounds(), local(&bench)), ((0, 12), 3));
    assert_eq!(bench.shared.tier.as_ref().unwrap().stats(&bench.shared).behind, 3);

    let mut uploader = bench.uploader.take().unwrap();
    // A consumer that reads the store alone holds rows as one that reads the folder does.
    uploader.turn().unwrap();
    let alone = open_spool(Path::new(&url)).unwrap();
    assert_eq!((alone.marks().unwrap()[0].end, local(&bench)), (12, 1), "the newest one stays");
    let stats = bench.shared.tier.as_ref().unwrap().stats(&bench.shared);
    assert!(stats.behind == 0 && stats.uploaded == stats.bytes && stats.bytes > 0 && stats.problem.is_none());
    alone.commit("nightly", [(0, 8)].into(), micros(*bench.time.lock())).unwrap();
    (0..tier::CONSUMERS).for_each(|_| uploader.turn().unwrap());
    bench.advance(SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (8, 12));
    uploader.turn().unwrap();
    let left = open_spool(Path::new(&url)).unwrap();
    assert_eq!(left.segments(Shard::Data(0)).unwrap(), [8]);
    assert_eq!(fs::read_dir(store.join("0")).unwrap().count(), 2, "a segment and its list");
    assert_eq!(bench.gaps(), []);

    // A store that goes away stops nothing.
    bench.record(12..16);
    bench.advance(10 * SECOND);
    bench.turn();
    uploader.turn().unwrap();
    assert_eq!(local(&bench), 1);
    fs::remove_dir_all(&store).unwrap();
    bench.record(16..20);
    bench.advance(10 * SECOND);
    bench.turn();
    let error = uploader.turn().unwrap_err();
    assert!(matches!(error, zwire_spool::Error::Unreachable { .. }), "{error}");
    assert_eq!(bench.bounds(), (8, 20), "recording goes on");
}

#[test]
fn nothing_is_deleted_before_the_consumers_of_the_store_are_known() {
    let store = std::env::temp_dir().join(format!("zwire-recorder-consumers-{}", std::process::id()));
    let url = format!("file://{}", store.display());
    let dir = std::env::temp_dir().join(format!("zwire-recorder-{}-consumers", std::process::id()));
    let mut bench = Bench::open(dir, keep(Some(60 * SECOND), None), Some(&url));
    for number in 0..3 {
        bench.record(4 * number..4 * number + 4);
        bench.advance(10 * SECOND);
        bench.turn();
    }
    let bad = store.join("consumers/nightly.json");
    fs::create_dir_all(store.join("consumers")).unwrap();
    fs::write(&bad, "torn").unwrap();
    let mut uploader = bench.uploader.take().unwrap();
    uploader.turn().unwrap_err();
    bench.advance(100 * SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (0, 12), "a consumer is not known");
    fs::remove_file(&bad).unwrap();
    uploader.turn().unwrap();
    let alone = open_spool(Path::new(&url)).unwrap();
    // Another spooler writes meanwhile, and the consumer begins.
    uploader.end_epoch();
    bench.advance(SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (0, 12), "the consumers of an earlier epoch do not count");
    alone.commit("nightly", [(0, 4)].into(), micros(*bench.time.lock())).unwrap();
    uploader.begin_epoch();
    bench.advance(SECOND);
    bench.turn();
    assert_eq!(bench.bounds(), (4, 12));
    fs::remove_dir_all(&store).unwrap();
}

#[test]
fn small_segments_of_the_store_are_merged_in_a_share_of_the_time() {
    let store = std::env::temp_dir().join(format!("zwire-recorder-merges-{}", std::process::id()));
    let url = format!("file://{}", store.display());
    let keeping = Keeping { compact_bytes: Some(1 << 20), ..keep(None, None) };
    let dir = std::env::temp_dir().join(format!("zwire-recorder-{}-merges", std::process::id()));
    let mut bench = Bench::open(dir, keeping, Some(&url));
    let mut uploader = bench.uploader.take().unwrap();
    let grow = |bench: &mut Bench, segments: u32| {
        let from = bench.bounds().1 as u32;
        for number in from..from + segments {
            bench.record(number..number + 1);
            bench.advance(10 * SECOND);
            bench.turn();
        }
    };
    let bases = || open_spool(Path::new(&url)).unwrap().segments(Shard::Data(0)).unwrap();
    grow(&mut bench, 15);
    uploader.turn().unwrap();
    assert_eq!(bases().len(), 15, "a merge has 16 parts");
    grow(&mut bench, 5);
    uploader.turn().unwrap();
    let stats = bench.shared.tier.as_ref().unwrap().stats(&bench.shared);
    assert_eq!((bases(), stats.merged, stats.behind), (vec![0], 20, 0));
    let rows = |place: &Path| {
        let rows = open_spool(place).unwrap().read(Shard::Data(0), 0, 20, None, Default::default()).unwrap();
        rows.map(Result::unwrap).collect::<Vec<RecordBatch>>()
    };
    assert_eq!(rows(Path::new(&url)), rows(&bench.dir));
    assert!(!bench.dir.join("merging.tmp").exists());
    fs::remove_dir_all(&store).unwrap();
}

#[test]
fn merges_take_a_tenth_of_the_time() {
    let store = std::env::temp_dir().join(format!("zwire-recorder-share-{}", std::process::id()));
    let url = format!("file://{}", store.display());
    let dir = std::env::temp_dir().join(format!("zwire-recorder-{}-share", std::process::id()));
    let mut bench = Bench::open(dir, keep(None, None), Some(&url));
    let mut uploader = bench.uploader.take().unwrap();
    let mut grow = |bench: &mut Bench, numbers: core::ops::Range<u32>| {
        for number in numbers {
            bench.record(number..number + 1);
            bench.advance(10 * SECOND);
            bench.turn();
        }
        uploader.turn().unwrap();
    };
    grow(&mut bench, 0..20);
    let mut tier = zwire_tier::compact::join(Path::new(&url), zwire_engine::clock::mono).unwrap();
    // Each look at the clock takes a second, and so a merge two.
    let seconds = AtomicU64::new(0);
    let clock = Clock::new(move || Now::at(Duration::from_secs(seconds.fetch_add(1, Ordering::Relaxed))));
    let mut compacting = Compacting::new(&bench.dir, Some(1 << 20), clock);
    assert_eq!(compacting.turn(&mut tier).unwrap().merged, 20);
    grow(&mut bench, 20..40);
    tier.adopt().unwrap();
    let rests = (0..).take_while(|_| compacting.turn(&mut tier).unwrap().merged == 0).count();
    assert!((16..=19).contains(&rests), "{rests} seconds");
    // Errors of the compaction are not those of the uploads.
    fs::remove_dir_all(&store).unwrap();
    assert!((0..1000).any(|_| {
        compacting.attempt(&mut tier).unwrap();
        compacting.problem.is_some()
    }));
}
