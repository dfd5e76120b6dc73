//! Stores that fail: what a crash after each step leaves, and what readers see of it.

mod compaction;

use crate::{
    manifest::{Author, Change, Entry, Manifest, WHOLE},
    runtime::wait,
    store::{Store, entry_name, segment_name},
    writer::TierWriter,
};
use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    time::Duration,
};
use futures_util::{StreamExt as _, stream::BoxStream};
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result as StoreResult, memory::InMemory, path::Path as ObjectPath,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use zwire_spool::{
    BatchLimits, Error, KeyChoice, Layout, Meta, Options, Retention, Rule, Selection, Shard, ShardWriter,
    Shards, Spool, Value, Wanted, Writer,
    layout::SAMPLES,
    tier::{Keys, Noted, PAGE, Sealed, describe, note_place},
};

const ID: &[u8; 16] = b"spool under test";
const NOW: i64 = 1_795_000_000_000_000;

/// Seconds of the clock of all tests; it stands still but where a test advances it.
static TIME: AtomicU64 = AtomicU64::new(0);

fn clock() -> Duration {
    Duration::from_secs(TIME.load(Ordering::Relaxed))
}

/// Store in memory that fails on demand.
#[derive(Debug)]
struct Faulty {
    inner: InMemory,
    /// Writes and deletions that still work; those after them, and all reads then, fail.
    left: AtomicI64,
    /// Whether the write that fails was carried out, and its answer lost.
    late: bool,
    /// Names of objects that lose their second half while they are written, with the number of times.
    torn: Mutex<Vec<(&'static str, u32)>>,
    /// Names of objects that were read.
    read: Mutex<Vec<String>>,
    /// Octets that another writer puts before an object is replaced on the condition that it has not changed.
    before: Mutex<Option<Bytes>>,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

impl Faulty {
    fn new() -> Self {
        Self {
            inner: InMemory::new(),
            left: AtomicI64::new(i64::MAX),
            late: false,
            torn: Mutex::default(),
            read: Mutex::default(),
            before: Mutex::default(),
        }
    }

    fn broken() -> StoreError {
        StoreError::Generic { store: "faulty", source: "500 Internal Server Error".into() }
    }

    fn check(&self) -> StoreResult<()> {
        if self.left.load(Ordering::SeqCst) < 0 { Err(Self::broken()) } else { Ok(()) }
    }

    /// Counts a write: whether it is carried out, and whether its answer arrives.
    fn step(&self) -> (bool, bool) {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        (left > 0 || left == 0 && self.late, left > 0)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        at: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        let (done, answered) = self.step();
        let other = if matches!(options.mode, PutMode::Update(_)) { self.before.lock().take() } else { None };
        if let Some(octets) = other {
            self.inner.put(at, octets.into()).await?;
        }
        let mut payload = payload;
        if let Some((_, times)) =
            self.torn.lock().iter_mut().find(|(name, times)| at.as_ref().contains(name) && *times > 0)
        {
            *times -= 1;
            let whole = Bytes::from(payload);
            payload = whole.slice(..whole.len() / 2).into();
        }
        let put = if done { self.inner.put_opts(at, payload, options).await } else { Err(Self::broken()) };
        if answered { put } else { Err(Self::broken()) }
    }

    async fn put_multipart_opts(
        &self,
        at: &ObjectPath,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.check()?;
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &ObjectPath, options: GetOptions) -> StoreResult<GetResult> {
        self.check()?;
        self.read.lock().push(at.to_string());
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, StoreResult<ObjectPath>>,
    ) -> BoxStream<'static, StoreResult<ObjectPath>> {
        let (done, answered) = self.step();
        if !done {
            return futures_util::stream::once(async { Err(Self::broken()) }).boxed();
        }
        let deleted = self.inner.delete_stream(paths);
        if answered { deleted } else { deleted.map(|_| Err(Self::broken())).boxed() }
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("zwire-tier-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn open(&self) -> (Writer, Shards) {
        let layout = Layout::select(&SAMPLES, &["key", "payload"]).unwrap();
        let wanted = Wanted { layout, shards: 1, rule: Rule::Hash };
        Writer::open(&self.0, &wanted, *ID, &Options::default(), NOW).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Writes segments of so many blocks of a row each.
fn fill(shards: &mut Shards, segments: usize, blocks: usize) {
    let shard = &mut shards.data[0];
    for _ in 0..segments {
        for _ in 0..blocks {
            let time = NOW + shard.next_offset() as i64;
            let payload = vec![shard.next_offset() as u8; 5000];
            let row =
                [Value::Text("a/b"), Value::Bytes(&payload), Value::Int(0), Value::Int(time), Value::Null];
            shard.push(&row).unwrap();
            shard.flush(time).unwrap();
        }
        shard.seal().unwrap();
        publish(shard);
    }
}

/// Makes what was written readable.
fn publish(shard: &mut ShardWriter) {
    shard.flush(NOW).unwrap();
    shard.sync().unwrap();
}

/// Uploads, lists and marks what waits, as a spooler does.
fn upload(tier: &mut TierWriter, spool: &Spool, shards: &mut Shards) -> Result<(), Error> {
    let shard = Shard::Data(0);
    let writer = &mut shards.data[0];
    for waiting in writer.waiting() {
        let layout = spool.layout(shard);
        let id = &spool.meta().id;
        let (sealed, index) = describe(&waiting.path, id, (shard, &layout), (waiting.base, waiting.end))?;
        tier.upload(&waiting.path, shard, &sealed, index)?;
        let change = Change { add: vec![sealed], drops: Some(writer.mark().drops), ..Change::default() };
        tier.record(BTreeMap::from([(shard, change)]), NOW)?;
        tier.hint()?;
        writer.is_stored(waiting.base);
    }
    Ok(())
}

/// Deletes rows received before a time, from folder and store.
fn trim(tier: &mut TierWriter, shards: &mut Shards, before: i64) -> Result<(), Error> {
    let rule = Retention { micros: Some(0), bytes: None };
    let deleted = shards.data[0].retain(&rule, None, before)?;
    if let Some(last) = deleted.iter().rfind(|range| range.stored) {
        let change = Change { trim: Some(last.to), ..Change::default() };
        tier.record(BTreeMap::from([(Shard::Data(0), change)]), NOW)?;
        tier.hint()?;
    }
    tier.sweep()
}

fn join(tier: &TierWriter, shards: &mut Shards) -> Option<u64> {
    shards.data[0].join_tier(&tier.segments(Shard::Data(0)).unwrap()).unwrap()
}

fn of_store(store: &Arc<Faulty>) -> Spool {
    Spool::of_tier(Arc::new(Store::over(store.clone(), clock))).unwrap()
}

fn rows(spool: &Spool, start: u64, stop: u64) -> Result<Vec<RecordBatch>, Error> {
    spool.read(Shard::Data(0), start, stop, None, Default::default())?.collect()
}

/// Writer of the store after a start of the spool.
fn start(store: &Arc<Faulty>, meta: &Meta) -> Result<TierWriter, Error> {
    let mut tier = TierWriter::over(Arc::new(Store::over(store.clone(), clock)), meta)?;
    tier.begin(meta, NOW)?;
    Ok(tier)
}

#[test]
fn a_store_alone_gives_the_rows_of_the_folder() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 5, 30);
    let local = Spool::open(&folder.0).unwrap();
    let before = rows(&local, 0, 150).unwrap();

    let tier = &mut start(&store, writer.meta()).unwrap();
    shards.data[0].await_tier();
    assert_eq!(shards.data[0].waiting(), [], "it is not known what the store has");
    assert_eq!(join(tier, &mut shards), None);
    upload(tier, &local, &mut shards).unwrap();
    let remote = of_store(&store);
    assert_eq!(remote.meta().id, local.meta().id);
    let (mark, there) = (local.marks().unwrap()[0], remote.marks().unwrap()[0]);
    assert_eq!((mark.earliest, mark.end, mark.last_time), (there.earliest, there.end, there.last_time));
    assert_eq!(mark.bytes, there.bytes);
    assert_eq!(rows(&remote, 0, 150).unwrap(), before);
    assert_eq!(rows(&remote, 37, 91).unwrap(), rows(&local, 37, 91).unwrap());
    let ends = |spool: &Spool| spool.at(NOW + 40).unwrap();
    assert_eq!(ends(&remote), ends(&local));
    let (start, end) = ([(0, 0)].into(), [(0, 150)].into());
    assert_eq!(remote.split(&start, &end, 4, None).unwrap(), local.split(&start, &end, 4, None).unwrap());
    assert_eq!(
        remote.walk(&start, &end, (None, Some(200_000)), None).unwrap(),
        local.walk(&start, &end, (None, Some(200_000)), None).unwrap()
    );
    let error = rows(&remote, 100, 151).unwrap_err();
    assert_eq!(error.to_string(), rows(&local, 100, 151).unwrap_err().to_string());
    remote.commit("nightly", [(0, 7)].into(), NOW).unwrap();
    assert_eq!(remote.consumers().unwrap()["nightly"].offsets, [(0, 7)].into());

    // A file that an operator removes from the folder, because it is damaged, is read in the store.
    let both = local.clone().with_tier(Arc::new(Store::over(store.clone(), clock)));
    let middle = folder.0.join("0").join(format!("{:020}.arrow", 60));
    let octets = fs::read(&middle).unwrap();
    fs::remove_file(&middle).unwrap();
    assert!(matches!(rows(&local, 0, 150), Err(Error::Missing { offset: 60, until: 90, .. })));
    assert_eq!(rows(&both, 0, 150).unwrap(), before);
    fs::write(&middle, octets).unwrap();

    let noted = |url: &str| Noted { url: url.to_owned(), shared: None, claims: None };
    // The folder keeps the newest segment alone, and its readers find the others in the store.
    note_place(&folder.0, local.meta(), &noted("s3://test/spool")).unwrap();
    let reading = local.read(Shard::Data(0), 0, 150, None, Default::default()).unwrap();
    assert!(shards.data[0].release(0).unwrap() > 0);
    assert_eq!(fs::read_dir(folder.0.join("0")).unwrap().count(), 3, "a segment and the lists");
    assert!(rows(&local, 0, 150).is_err(), "without the store");
    assert_eq!(rows(&both, 0, 150).unwrap(), before);
    assert_eq!(both.segments(Shard::Data(0)).unwrap(), [0, 30, 60, 90, 120]);
    drop(reading);
    let other = note_place(&folder.0, local.meta(), &noted("s3://test/other")).unwrap_err();
    assert!(other.to_string().contains("segments of this spool are in s3://test/spool"), "{other}");
}

#[test]
fn a_reader_goes_on_when_segments_move_while_it_reads() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 4, 10);
    let local = Spool::open(&folder.0).unwrap().with_tier(Arc::new(Store::over(store.clone(), clock)));
    let before = rows(&local, 0, 40).unwrap();
    let limits = BatchLimits { rows: 10, bytes: 8 << 20 };
    let mut reading = local.read(Shard::Data(0), 0, 40, None, limits).unwrap();
    let first = reading.next_batch().unwrap().unwrap();

    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    upload(tier, &local, &mut shards).unwrap();
    shards.data[0].release(0).unwrap();
    let mut read = first.num_rows();
    while let Some(batch) = reading.next_batch().unwrap() {
        read += batch.num_rows();
    }
    assert_eq!((read, before.iter().map(RecordBatch::num_rows).sum::<usize>()), (40, 40));
}

/// The state that the reader knows is as old as that moment, and the folder has the segments between no more.
#[test]
fn a_reader_finds_a_segment_that_moved_a_moment_after_it_asked_the_store() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    let local = Spool::open(&folder.0).unwrap().with_tier(Arc::new(Store::over(store.clone(), clock)));
    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    for round in 1..=3 {
        fill(&mut shards, 2, 10);
        upload(tier, &local, &mut shards).unwrap();
        shards.data[0].release(0).unwrap();
        let end = 20 * round;
        let read = rows(&local, 0, end).unwrap();
        assert_eq!(read.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, end);
    }
}

/// Every number of writes after which the spooler and its store stop, and whether the last one was carried out.
#[test]
fn a_crash_after_each_write_is_mended_by_the_next_start() {
    let mut steps = 0;
    for late in [false, true] {
        for crash in 0.. {
            let store = Arc::new(Faulty { late, ..Faulty::new() });
            let folder = Folder::new();
            let (writer, mut shards) = folder.open();
            fill(&mut shards, 3, 4);
            let local = Spool::open(&folder.0).unwrap();
            let before = rows(&local, 8, 12).unwrap();
            store.left.store(crash, Ordering::SeqCst);
            let run = |shards: &mut Shards| -> Result<(), Error> {
                let mut tier = start(&store, writer.meta())?;
                join(&tier, shards);
                upload(&mut tier, &local, shards)?;
                trim(&mut tier, shards, NOW + 7)
            };
            let done = run(&mut shards);
            store.left.store(i64::MAX, Ordering::SeqCst);
            // Whatever was listed can be read, whatever the spooler had done next.
            for (name, there) in listed(&store.inner) {
                assert!(there, "crash {crash}: {name} is listed and not there");
            }
            drop((writer, shards));

            let (writer, mut shards) = folder.open();
            let mut tier = start(&store, writer.meta()).unwrap();
            if let Some(offset) = join(&tier, &mut shards) {
                let change = Change { trim: Some(offset), ..Change::default() };
                tier.record(BTreeMap::from([(Shard::Data(0), change)]), NOW).unwrap();
            }
            upload(&mut tier, &local, &mut shards).unwrap();
            trim(&mut tier, &mut shards, NOW + 7).unwrap();
            let remote = of_store(&store);
            assert_eq!(remote.marks().unwrap()[0].earliest, 8, "crash {crash}");
            assert_eq!(rows(&remote, 8, 12).unwrap(), before, "crash {crash}");
            assert!(matches!(rows(&remote, 0, 12), Err(Error::OutOfRange { earliest: 8, .. })));
            let left = names(&store.inner).into_iter().filter(|name| name.ends_with(".arrow"));
            let left: Vec<_> = left.collect();
            assert!(left.len() == 1 && left[0].contains("/00000000000000000008-"), "crash {crash}: {left:?}");
            if done.is_ok() {
                break;
            }
            steps += 1;
        }
    }
    assert!(steps > 30, "{steps} steps");
}

/// Names of all objects.
fn names(store: &InMemory) -> Vec<String> {
    let found = store.list(None).map(|found| found.unwrap().location.to_string());
    wait(found.collect()).unwrap()
}

/// Segments in the last state of the manifest, and whether each is there.
fn listed(store: &InMemory) -> Vec<(String, bool)> {
    let there = names(store);
    let mut state = Manifest::default();
    for name in (1..).map(|number| format!("spool/{}", entry_name(number))) {
        if !there.contains(&name) {
            break;
        }
        let octets = wait(async { store.get(&ObjectPath::from(name)).await.unwrap().bytes().await.unwrap() });
        state.apply(&Entry::decode(&octets.unwrap(), ID, state.number + 1).unwrap()).unwrap();
    }
    let segments = state.shards.get(&Shard::Data(0)).map_or(&[][..], |shard| &shard.segments);
    let names = segments.iter().map(|segment| format!("spool/{}", segment_name(Shard::Data(0), segment)));
    names.map(|name| (name.clone(), there.contains(&name))).collect()
}

#[test]
fn a_torn_upload_is_noticed_and_sent_again() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 2, 4);
    let local = Spool::open(&folder.0).unwrap();
    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    *store.torn.lock() = vec![(".arrow", 1), ("manifest/00000000000000000002", 1)];
    let error = upload(tier, &local, &mut shards).unwrap_err();
    assert!(
        matches!(&error, Error::Unreachable { problem, .. } if problem.contains("was sent with")),
        "{error}"
    );
    assert_eq!(tier.manifest().number, 1, "nothing is listed that was not read back");
    upload(tier, &local, &mut shards).unwrap();
    assert_eq!(rows(&of_store(&store), 0, 8).unwrap(), rows(&local, 0, 8).unwrap());
}

#[test]
fn an_error_at_each_write_is_overcome_by_the_next_attempt() {
    for late in [false, true] {
        for crash in 0.. {
            let (folder, store) = (Folder::new(), Arc::new(Faulty { late, ..Faulty::new() }));
            let (writer, mut shards) = folder.open();
            fill(&mut shards, 3, 4);
            let local = Spool::open(&folder.0).unwrap();
            let before = rows(&local, 8, 12).unwrap();
            let mut tier = start(&store, writer.meta()).unwrap();
            join(&tier, &mut shards);
            store.left.store(crash, Ordering::SeqCst);
            let mut run = |shards: &mut Shards| {
                upload(&mut tier, &local, shards)?;
                trim(&mut tier, shards, NOW + 7)
            };
            let done = run(&mut shards);
            store.left.store(i64::MAX, Ordering::SeqCst);
            run(&mut shards).unwrap();
            assert_eq!(rows(&of_store(&store), 8, 12).unwrap(), before, "{crash}");
            if done.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn a_last_entry_that_arrived_torn_is_written_anew_by_the_next_start() {
    for number in [1, 2] {
        let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
        let (writer, mut shards) = folder.open();
        fill(&mut shards, 2, 4);
        let local = Spool::open(&folder.0).unwrap();
        if number == 2 {
            start(&store, writer.meta()).unwrap();
        }
        let name = ObjectPath::from(format!("spool/{}", entry_name(number)));
        wait(store.inner.put(&name, Bytes::from_static(b"{\"v\": 1").into())).unwrap().unwrap();
        assert!(matches!(of_reader(&store), Err(Error::BadFile { .. } | Error::Usage(_))));
        let meta = Meta { epoch: writer.meta().epoch + 1, ..writer.meta().clone() };
        let mut tier = start(&store, &meta).unwrap();
        join(&tier, &mut shards);
        upload(&mut tier, &local, &mut shards).unwrap();
        assert_eq!(rows(&of_store(&store), 0, 8).unwrap(), rows(&local, 0, 8).unwrap());
    }
}

#[test]
fn a_torn_entry_is_not_replaced_when_another_spooler_has_mended_it() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 1, 4);
    let local = Spool::open(&folder.0).unwrap();
    let mut tier = start(&store, writer.meta()).unwrap();
    join(&tier, &mut shards);
    let name = ObjectPath::from(format!("spool/{}", entry_name(2)));
    wait(store.inner.put(&name, Bytes::from_static(b"{\"v\": 1").into())).unwrap().unwrap();
    let later = Author { epoch: writer.meta().epoch + 1, writer: "other".to_owned() };
    let entry = Entry { number: 2, author: later, ..Entry::default() };
    let octets = Bytes::from(entry.encode(&writer.meta().id));
    *store.before.lock() = Some(octets.clone());
    let error = upload(&mut tier, &local, &mut shards).unwrap_err();
    assert!(matches!(&error, Error::Mismatch { problem, .. } if problem.contains("start 2")), "{error}");
    let there = wait(async { store.inner.get(&name).await?.bytes().await }).unwrap().unwrap();
    assert_eq!(there, octets);
}

#[test]
fn an_epoch_that_has_begun_lets_no_earlier_one_write() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 1, 4);
    let local = Spool::open(&folder.0).unwrap();
    let meta = writer.meta();
    let mut writers = [1, 2].map(|epoch| {
        let store = Arc::new(Store::over(store.clone(), clock));
        let mut tier = TierWriter::over(store, meta).unwrap();
        tier.claim(meta, epoch, NOW).unwrap();
        tier
    });
    join(&writers[0], &mut shards);
    let error = upload(&mut writers[0], &local, &mut shards).unwrap_err();
    let said = "another spooler has taken over with epoch 2, and this one wrote in epoch 1";
    assert!(matches!(&error, Error::Mismatch { problem, .. } if problem == said), "{error}");
    let error = writers[0].claim(meta, 1, NOW).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    upload(&mut writers[1], &local, &mut shards).unwrap();
    assert_eq!(rows(&of_store(&store), 0, 4).unwrap(), rows(&local, 0, 4).unwrap());
}

/// Two folders of one spool: the second goes on where no offset of the first is used.
#[test]
fn a_shard_goes_on_in_another_folder_behind_a_hole() {
    let (store, folders) = (Arc::new(Faulty::new()), [Folder::new(), Folder::new()]);
    let (first, mut shards) = folders[0].open();
    let meta = first.meta();
    let mut tier = TierWriter::over(Arc::new(Store::over(store.clone(), clock)), meta).unwrap();
    tier.claim(meta, 1, NOW).unwrap();
    join(&tier, &mut shards);
    fill(&mut shards, 2, 4);
    upload(&mut tier, &Spool::open(&folders[0].0).unwrap(), &mut shards).unwrap();
    // These rows do not get there.
    fill(&mut shards, 1, 4);

    let (second, mut others) = folders[1].open();
    let mut next = TierWriter::over(Arc::new(Store::over(store.clone(), clock)), second.meta()).unwrap();
    next.claim(second.meta(), 2, NOW).unwrap();
    let shard = Shard::Data(0);
    let resume = |shards: &mut Shards, next: &TierWriter, at, epoch| {
        let (tiered, there) = (next.manifest().shards[&shard].clone(), next.segments(shard).unwrap());
        shards.data[0].resume(&tiered, &there, at, epoch).unwrap();
    };
    resume(&mut others, &next, 1 << 32, 2);
    others.gaps.join_tier(&[]).unwrap();
    fill(&mut others, 1, 4);
    upload(&mut next, &Spool::open(&folders[1].0).unwrap(), &mut others).unwrap();
    let count =
        |spool: &Spool, end| rows(spool, 0, end).unwrap().iter().map(RecordBatch::num_rows).sum::<usize>();
    let found = of_store(&store);
    assert_eq!(found.marks().unwrap()[0].end, (1 << 32) + 4);
    assert_eq!(count(&found, (1 << 32) + 4), 12);
    assert_eq!(found.segments(shard).unwrap(), [0, 4, 1 << 32]);
    // A reader with a limit of rows does not stop in the hole.
    let walk = |from, rows| {
        let end = [(0, (1 << 32) + 4)].into();
        found.walk(&[(0, from)].into(), &end, (Some(rows), None), None).unwrap()[&0]
    };
    assert_eq!(
        [walk(0, 6), walk(0, 8), walk(6, 1000), walk(1 << 32, 3)],
        [6, 1 << 32, 1 << 32, (1 << 32) + 3]
    );

    // The first one has lost: it sets its rows aside, and goes on behind those of the second later.
    assert_eq!(shards.data[0].fence().unwrap(), 1);
    let aside = |ending: &str| {
        let files = fs::read_dir(folders[0].0.join("0")).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|e| e == ending)).count()
    };
    assert_eq!((aside("fenced"), aside("arrow"), aside("idx")), (1, 0, 0));
    tier.claim(meta, 3, NOW).unwrap();
    resume(&mut shards, &tier, 1 << 33, 3);
    shards.data[0].limit((1 << 33) + 4);
    fill(&mut shards, 1, 4);
    assert_eq!(shards.data[0].next_offset(), (1 << 33) + 4);
    upload(&mut tier, &Spool::open(&folders[0].0).unwrap(), &mut shards).unwrap();
    assert_eq!(count(&of_store(&store), (1 << 33) + 4), 16);
    assert_eq!(of_store(&store).marks().unwrap()[0].earliest, 0);
}

/// State of the store, as a reader finds it.
fn of_reader(store: &Arc<Faulty>) -> Result<u64, Error> {
    let spool = Spool::of_tier(Arc::new(Store::over(store.clone(), clock)))?;
    Ok(spool.marks()?[0].end)
}

#[test]
fn damage_of_an_object_is_reported_like_that_of_a_file() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 3, 20);
    let local = Spool::open(&folder.0).unwrap();
    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    upload(tier, &local, &mut shards).unwrap();
    let middle = tier.manifest().shards[&Shard::Data(0)].segments[1].clone();
    let name = ObjectPath::from(format!("spool/{}", segment_name(Shard::Data(0), &middle)));
    let file = folder.0.join("0").join(format!("{:020}.arrow", middle.base));
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[40_000] ^= 4;
    let read_all = |spool: &Spool| {
        let mut reading = spool.read(Shard::Data(0), 0, 60, None, Default::default()).unwrap();
        let mut count = 0;
        loop {
            match reading.next_batch() {
                Ok(Some(batch)) => count += batch.num_rows(),
                Ok(None) => return (count, None),
                Err(error) => return (count, Some(error)),
            }
        }
    };
    for (octets, what) in
        [(flipped, "flipped"), (whole[..60_000].to_vec(), "cut"), (whole[..10].to_vec(), "short")]
    {
        fs::write(&file, &octets).unwrap();
        wait(store.inner.put(&name, octets.into())).unwrap().unwrap();
        let (rows_here, here) = read_all(&local);
        let (rows_there, there) = read_all(&of_store(&store));
        let (here, there) = (here.unwrap(), there.unwrap());
        assert!(matches!(there, Error::Corrupt { .. }), "{what}: {there}");
        assert_eq!(
            (rows_here, here.offset(), here.resumes()),
            (rows_there, there.offset(), there.resumes()),
            "{what}"
        );
        assert!(there.to_string().contains("s3://test/spool/0/"), "{there}");
    }
    fs::remove_file(&file).unwrap();
    wait(store.inner.delete(&name)).unwrap().unwrap();
    let ((rows_here, here), (rows_there, there)) = (read_all(&local), read_all(&of_store(&store)));
    assert_eq!((rows_here, here.unwrap().to_string()), (rows_there, there.unwrap().to_string()));
}

#[test]
fn a_later_start_of_the_spool_stops_an_earlier_one() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 3, 2);
    let local = Spool::open(&folder.0).unwrap();
    let mut first = start(&store, writer.meta()).unwrap();
    join(&first, &mut shards);
    upload(&mut first, &local, &mut shards).unwrap();
    let meta = Meta { epoch: writer.meta().epoch + 1, ..writer.meta().clone() };
    let mut later = start(&store, &meta).unwrap();
    let trim = Change { trim: Some(2), ..Change::default() };
    later.record(BTreeMap::from([(Shard::Data(0), trim)]), NOW).unwrap();
    let error = first.record(BTreeMap::new(), NOW).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }) && error.to_string().contains("start 2"), "{error}");
    let error = start(&store, writer.meta()).unwrap_err();
    assert!(error.to_string().contains("another spooler has a copy"), "{error}");
    let error = start(&store, &Meta { id: [1; 16], ..meta.clone() }).unwrap_err();
    assert!(error.to_string().contains("has spool"), "{error}");
    start(&store, &Meta { epoch: meta.epoch + 1, ..meta }).unwrap();
}

#[test]
fn old_entries_of_the_manifest_are_deleted_and_readers_find_the_last_ones() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 2, 2);
    let local = Spool::open(&folder.0).unwrap();
    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    upload(tier, &local, &mut shards).unwrap();
    let idle = of_store(&store);
    assert_eq!(idle.marks().unwrap()[0].end, 4);
    for _ in 0..3 * WHOLE {
        tier.record(BTreeMap::new(), NOW).unwrap();
        tier.hint().unwrap();
        tier.sweep().unwrap();
    }
    let entries = names(&store.inner).into_iter().filter(|name| name.contains("manifest/0")).count() as u64;
    assert!((WHOLE..=2 * WHOLE + 1).contains(&entries), "{entries} entries");
    assert_eq!(tier.manifest().number, 3 + 3 * WHOLE);
    // A reader that has slept through it, and one that begins.
    TIME.fetch_add(2, Ordering::Relaxed);
    fill(&mut shards, 1, 2);
    upload(tier, &local, &mut shards).unwrap();
    for spool in [&idle, &of_store(&store)] {
        assert_eq!(spool.marks().unwrap()[0].end, 6);
        assert_eq!(rows(spool, 0, 6).unwrap(), rows(&local, 0, 6).unwrap());
    }
}

#[test]
fn a_writer_that_slept_until_its_next_entry_was_deleted_is_stopped() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    fill(&mut shards, 1, 2);
    let local = Spool::open(&folder.0).unwrap();
    let mut first = start(&store, writer.meta()).unwrap();
    join(&first, &mut shards);
    upload(&mut first, &local, &mut shards).unwrap();
    let idle = of_store(&store);
    assert_eq!(idle.marks().unwrap()[0].end, 2);
    let meta = Meta { epoch: writer.meta().epoch + 1, ..writer.meta().clone() };
    let mut later = start(&store, &meta).unwrap();
    for _ in 0..3 * WHOLE {
        later.record(BTreeMap::new(), NOW).unwrap();
        later.hint().unwrap();
        later.sweep().unwrap();
    }
    let before = names(&store.inner);
    let next = entry_name(first.manifest().number + 1);
    assert!(!before.iter().any(|name| name.contains(&next)), "the number is free again");

    fill(&mut shards, 1, 2);
    for _ in 0..2 {
        let error = upload(&mut first, &local, &mut shards).unwrap_err();
        assert!(
            matches!(error, Error::Mismatch { .. }) && error.to_string().contains("another spooler"),
            "{error}"
        );
        assert_eq!(shards.data[0].waiting().len(), 1, "the segment is not in the store");
    }
    let entries = |names: &[String]| names.iter().filter(|name| name.contains("manifest/")).count();
    assert_eq!(entries(&names(&store.inner)), entries(&before), "nothing is left among the entries");
    TIME.fetch_add(2, Ordering::Relaxed);
    for spool in [&idle, &of_store(&store)] {
        assert_eq!(spool.marks().unwrap()[0].end, 2);
    }
}

/// Octets of the hint.
fn hint(store: &Faulty) -> Bytes {
    wait(async { store.inner.get(&"spool/manifest/latest.json".into()).await.unwrap().bytes().await })
        .unwrap()
        .unwrap()
}

#[test]
fn the_hint_does_not_go_back() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, _shards) = folder.open();
    let mut tier = start(&store, writer.meta()).unwrap();
    let old = hint(&store);
    let mut later = start(&store, &Meta { epoch: writer.meta().epoch + 1, ..writer.meta().clone() }).unwrap();
    for _ in 0..3 {
        later.record(BTreeMap::new(), NOW).unwrap();
    }
    later.hint().unwrap();
    let new = hint(&store);
    let put = |octets: &Bytes| {
        let at = "spool/manifest/latest.json".into();
        wait(store.inner.put(&at, octets.clone().into())).unwrap().unwrap();
    };
    // The later one writes its hint between the look of the earlier one and its own.
    put(&old);
    tier.manifest.number += 1;
    *store.before.lock() = Some(new.clone());
    tier.hint().unwrap();
    assert_eq!(hint(&store), new);
    // One that went back in a store without this condition is corrected within a minute.
    put(&old);
    later.hint().unwrap();
    TIME.fetch_add(61, Ordering::Relaxed);
    later.hint().unwrap();
    assert_eq!(hint(&store), new);
}

#[test]
fn an_old_hint_of_a_folder_does_not_let_a_writer_into_the_deleted_past() {
    let (folder, store) = (Folder::new(), Folder::new());
    let (writer, _shards) = folder.open();
    let url = format!("file://{}", store.0.display());
    let mut first = TierWriter::new(&url, writer.meta(), clock).unwrap();
    first.begin(writer.meta(), NOW).unwrap();
    first.record(BTreeMap::new(), NOW).unwrap();
    let hint = store.0.join("manifest/latest.json");
    let old = fs::read(&hint).unwrap();
    let meta = Meta { epoch: writer.meta().epoch + 1, ..writer.meta().clone() };
    let mut later = TierWriter::new(&url, &meta, clock).unwrap();
    later.begin(&meta, NOW).unwrap();
    for _ in 0..3 * WHOLE {
        later.record(BTreeMap::new(), NOW).unwrap();
        later.hint().unwrap();
        later.sweep().unwrap();
    }
    fs::write(&hint, old).unwrap();
    let entries = || fs::read_dir(store.0.join("manifest")).unwrap().count();
    let before = entries();
    let error = first.record(BTreeMap::new(), NOW).unwrap_err();
    assert!(matches!(&error, Error::Unreachable { problem, .. } if problem.contains("is older")), "{error}");
    assert_eq!(entries(), before, "nothing is left among the entries");
}

#[test]
fn a_large_segment_is_sent_in_parts_and_read_in_ranges() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    let payload = vec![7; 1 << 20];
    let shard = &mut shards.data[0];
    for number in 0..40 {
        let time = NOW + number;
        shard
            .push(&[Value::Text("a"), Value::Bytes(&payload), Value::Int(0), Value::Int(time), Value::Null])
            .unwrap();
        shard.flush(time).unwrap();
    }
    shard.seal().unwrap();
    publish(shard);
    let local = Spool::open(&folder.0).unwrap();
    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    upload(tier, &local, &mut shards).unwrap();
    let remote = of_store(&store);
    assert_eq!(rows(&remote, 0, 40).unwrap(), rows(&local, 0, 40).unwrap());
    assert_eq!(rows(&remote, 39, 40).unwrap(), rows(&local, 39, 40).unwrap());
    assert!(Path::new(&folder.0).join("0").exists());
}

/// Rows with a key alone, and times from one to another.
fn selection(key: Option<&'static str>, times: Option<(i64, i64)>) -> Arc<Selection> {
    let keys = key.map(|key| KeyChoice::new(&[key], Arc::new(move |other: &str| other == key)));
    let (since, until) = times.unzip();
    Arc::new(Selection { keys, since, until })
}

/// Numbers of objects with an ending that were read since the last call, in order of the endings.
fn reads<const N: usize>(store: &Faulty, endings: [&str; N]) -> [usize; N] {
    let read = std::mem::take(&mut *store.read.lock());
    endings.map(|ending| read.iter().filter(|name| name.ends_with(ending)).count())
}

#[test]
fn objects_without_wanted_rows_are_not_requested() {
    let (folder, store) = (Folder::new(), Arc::new(Faulty::new()));
    let (writer, mut shards) = folder.open();
    for number in 0..30_i64 {
        let (shard, key) = (&mut shards.data[0], format!("fleet/{}", number % 10));
        let row =
            [Value::Text(&key), Value::Bytes(b"1"), Value::Int(0), Value::Int(NOW + number), Value::Null];
        shard.push(&row).unwrap();
        shard.flush(NOW).unwrap();
        shard.seal().unwrap();
    }
    publish(&mut shards.data[0]);
    let local = Spool::open(&folder.0).unwrap();
    let tier = &mut start(&store, writer.meta()).unwrap();
    join(tier, &mut shards);
    upload(tier, &local, &mut shards).unwrap();
    let remote = of_store(&store);
    let (begin, end) = ([(0, 0)].into(), [(0, 30)].into());
    let seven = selection(Some("fleet/7"), None);
    reads(&store, []);
    let plan = |spool: &Spool| spool.plan(&begin, &end, Some(&seven)).unwrap();
    assert_eq!(plan(&remote), plan(&local));
    assert_eq!(reads(&store, [".arrow", ".idx"]), [0, 0], "a plan opens nothing");
    let split = |spool: &Spool| spool.split(&begin, &end, 4, Some(&seven)).unwrap();
    assert_eq!(split(&remote), split(&local));
    let cut = reads(&store, [".arrow", ".idx"]);
    assert!(cut[0] <= 3 && cut[1] <= 3, "ranges are cut in wanted segments alone: {cut:?}");
    let read = |selection: &Arc<Selection>| {
        let rows = remote.read(Shard::Data(0), 0, 30, None, Default::default()).unwrap();
        let rows = rows.select(selection.clone()).unwrap();
        rows.map(|batch| batch.unwrap().num_rows()).sum::<usize>()
    };
    assert_eq!(read(&seven), 3);
    assert_eq!(reads(&store, [".arrow", ".idx"]), [3, 3]);
    assert_eq!(read(&selection(Some("fleet/7"), Some((NOW + 15, NOW + 25)))), 1);
    assert_eq!(reads(&store, [".arrow", ".idx"]), [1, 1]);
    assert_eq!(read(&selection(Some("fleet/10"), None)), 0);
    assert_eq!(remote.at(NOW + 20).unwrap(), [(0, 20)].into());
    assert_eq!(reads(&store, [".arrow"])[0], 2, "once for the list of blocks, once for the rows");
}

/// Descriptions of segments of ten rows, each of one of a thousand robots.
fn described(numbers: core::ops::Range<u64>) -> Vec<Sealed> {
    let one = |number: u64| {
        let key = format!("robot/{}", number % 1000);
        let keys = [&[1, 0, key.len() as u8], key.as_bytes()].concat();
        Sealed {
            base: number * 10,
            end: number * 10 + 10,
            rows: 10,
            bytes: 1 << 20,
            crc: number as u32,
            times: (NOW + number as i64, NOW + number as i64 + 1),
            keys: Some(Keys::stored(keys.into())),
            problem: None,
        }
    };
    numbers.map(one).collect()
}

/// Adds entries until one has the whole state.
fn turn(tier: &mut TierWriter) {
    let whole = tier.manifest().whole;
    for _ in 0..=WHOLE {
        tier.record(BTreeMap::new(), NOW).unwrap();
        if tier.manifest().whole != whole {
            break;
        }
    }
    tier.hint().unwrap();
}

const SHARD: Shard = Shard::Data(0);
const SEGMENTS: u64 = 4 * PAGE as u64 + 100;

/// A store that lists segments, and has none of them.
fn listing(folder: &Folder) -> (Arc<Faulty>, Meta, TierWriter) {
    let store = Arc::new(Faulty::new());
    let (writer, _) = folder.open();
    let meta = writer.meta().clone();
    let mut tier = start(&store, &meta).unwrap();
    for part in described(0..SEGMENTS).chunks(PAGE) {
        let change = Change { add: part.to_vec(), drops: Some(7), ..Change::default() };
        tier.record(BTreeMap::from([(SHARD, change)]), NOW).unwrap();
    }
    turn(&mut tier);
    (store, meta, tier)
}

#[test]
fn older_segments_are_in_pages_and_planned_without_the_others() {
    let folder = Folder::new();
    let (store, meta, mut tier) = listing(&folder);
    let state = &tier.manifest().shards[&SHARD];
    assert_eq!((state.pages.len(), state.segments.len()), (3, PAGE + 100));
    let mut all = described(0..SEGMENTS);
    all.iter_mut().for_each(|sealed| sealed.keys = None);
    assert_eq!(tier.segments(SHARD).unwrap(), all);

    let remote = of_store(&store);
    let mark = remote.marks().unwrap()[0];
    assert_eq!((mark.earliest, mark.end, mark.drops), (0, SEGMENTS * 10, 7));
    assert_eq!((mark.bytes, mark.last_time), (SEGMENTS << 20, NOW + SEGMENTS as i64));
    assert_eq!(remote.segments(SHARD).unwrap(), all.iter().map(|sealed| sealed.base).collect::<Vec<_>>());
    let (begin, end) = ([(0, 0)].into(), [(0, SEGMENTS * 10)].into());
    let remote = of_store(&store);
    reads(&store, []);
    let plan = |selection: &Selection| {
        let plan = remote.plan(&begin, &end, Some(selection)).unwrap();
        assert_eq!((plan.segments + plan.skipped, plan.bytes), (SEGMENTS, plan.segments << 20));
        plan.segments
    };
    let late = (NOW + SEGMENTS as i64 - 50, NOW + SEGMENTS as i64);
    assert_eq!(plan(&selection(None, Some(late))), 51);
    assert_eq!(reads(&store, [".page", ".json"])[0], 0, "the newest segments are in no page");
    let second = (NOW + PAGE as i64 + 5, NOW + PAGE as i64 + 25);
    assert_eq!(plan(&selection(None, Some(second))), 21);
    assert_eq!(reads(&store, [".page"]), [1]);
    assert_eq!(plan(&selection(Some("robot/7"), None)), SEGMENTS.div_ceil(1000));
    assert_eq!(plan(&selection(Some("robot/1000"), None)), 0);
    let before = reads(&store, [".page", ".arrow", ".idx"]);
    assert_eq!(before, [2, 0, 0], "each page is read once");
    let parts = remote.split(&begin, &end, 3, Some(&selection(Some("robot/7"), None))).unwrap();
    assert_eq!((parts[0].start, parts.last().unwrap().stop), (0, SEGMENTS * 10));
    assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), 9 << 20);

    // The next start knows all, and goes on.
    let mut tier2 = start(&store, &Meta { epoch: meta.epoch + 1, ..meta }).unwrap();
    assert_eq!(tier2.segments(SHARD).unwrap(), all);
    let more = Change { add: described(SEGMENTS..SEGMENTS + 1), ..Change::default() };
    tier2.record(BTreeMap::from([(SHARD, more.clone())]), NOW).unwrap();
    turn(&mut tier2);
    assert_eq!(of_reader(&store).unwrap(), SEGMENTS * 10 + 10);
    let late = tier.record(BTreeMap::from([(SHARD, more)]), NOW).unwrap_err();
    assert!(late.to_string().contains("another spooler"), "{late}");
}

#[test]
fn rows_that_are_deleted_go_from_pages_as_well() {
    let folder = Folder::new();
    let (store, _, mut tier) = listing(&folder);
    let doomed = |tier: &mut TierWriter, trim: u64| {
        let change = Change { trim: Some(trim), ..Change::default() };
        tier.record(BTreeMap::from([(SHARD, change)]), NOW).unwrap();
        let names: Vec<_> = tier.manifest().doomed.iter().map(|(_, name)| name.clone()).collect();
        tier.sweep().unwrap();
        let count = |ending| names.iter().filter(|name| name.ends_with(ending)).count();
        (count(".arrow"), count(".idx"), count(".page"))
    };
    assert_eq!(doomed(&mut tier, 50), (5, 5, 0));
    let mark = of_store(&store).marks().unwrap()[0];
    assert_eq!(mark.earliest, 50);
    assert_eq!(mark.bytes, (SEGMENTS - 5) << 20);
    assert_eq!(of_store(&store).segments(SHARD).unwrap()[0], 50);
    assert_eq!(tier.segments(SHARD).unwrap()[0].base, 50);
    let page = 10 * PAGE as u64;
    assert_eq!(doomed(&mut tier, page + 20), (PAGE - 5 + 2, PAGE - 5 + 2, 1));
    assert_eq!(tier.manifest().shards[&SHARD].pages.len(), 2);
    assert_eq!(names(&store.inner).iter().filter(|name| name.ends_with(".page")).count(), 2);
    turn(&mut tier);
    assert_eq!(of_store(&store).marks().unwrap()[0].earliest, page + 20);
}

#[test]
fn a_page_that_is_changed_or_gone_is_an_error_with_its_name() {
    let folder = Folder::new();
    let (store, _, _) = listing(&folder);
    let name = names(&store.inner).into_iter().find(|name| name.ends_with(".page")).unwrap();
    let path = ObjectPath::from(name.clone());
    let octets = wait(async { store.get(&path).await.unwrap().bytes().await.unwrap() }).unwrap();
    let plan = || {
        let (begin, end) = ([(0, 0)].into(), [(0, SEGMENTS * 10)].into());
        of_store(&store).plan(&begin, &end, Some(&selection(Some("robot/7"), None)))
    };
    for at in (0..octets.len()).step_by(octets.len() / 40) {
        let mut changed = octets.to_vec();
        changed[at] ^= 4;
        wait(store.inner.put(&path, changed.into())).unwrap().unwrap();
        let error = plan().unwrap_err();
        assert!(matches!(&error, Error::BadFile { problem, .. } if problem.contains("checksum")), "{error}");
        assert!(error.to_string().contains(name.trim_start_matches("spool/")), "{error}");
    }
    wait(store.inner.delete(&path)).unwrap().unwrap();
    assert!(matches!(plan(), Err(Error::BadFile { problem, .. }) if problem == "is missing"));
}

#[test]
fn an_error_at_each_write_of_a_page_is_overcome() {
    for crash in 0..4 {
        let folder = Folder::new();
        let (store, _, mut tier) = listing(&folder);
        let add = described(SEGMENTS..SEGMENTS + PAGE as u64);
        tier.record(BTreeMap::from([(SHARD, Change { add, ..Change::default() })]), NOW).unwrap();
        let before = tier.manifest().clone();
        while tier.manifest().number + 1 - tier.manifest().whole < WHOLE {
            tier.record(BTreeMap::new(), NOW).unwrap();
        }
        store.left.store(crash, Ordering::SeqCst);
        let failed = tier.record(BTreeMap::new(), NOW).is_err();
        store.left.store(i64::MAX, Ordering::SeqCst);
        assert_eq!(failed, crash < 2, "a page and an entry are written");
        turn(&mut tier);
        let state = &tier.manifest().shards[&SHARD];
        assert_eq!(state.pages.len(), before.shards[&SHARD].pages.len() + 1);
        assert_eq!(of_store(&store).segments(SHARD).unwrap().len() as u64, SEGMENTS + PAGE as u64);
    }
}
