//! The thread that takes samples out of a queue and appends them.

use super::{
    Shared, Source,
    numbers::{Number, Numbers},
};
use crate::spool_append::now;
use core::sync::atomic::Ordering;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};
use zwire_engine::RecvError;
use zwire_proto::zenoh::{
    CongestionControl, Encoding, KeyExpr, Reliability, ZenohId,
    session::{Sample, SampleKind},
};
use zwire_spool::{Durability, Error, Gap, Layout, Rule, ShardWriter, Value};

/// Samples that are taken at once: as many as the caches near a core hold.
const AT_ONCE: usize = 4096;
const AT_ONCE_BYTES: usize = 8 << 20;

/// How often a disk is asked whether it has room again.
const RETRY: Duration = Duration::from_millis(100);

/// Gaps that are told one by one between two blocks; a publisher that numbers nothing right would fill the
/// disk with them. The others are told as one of each kind.
const MAX_GAPS: usize = 256;

/// How often there is housekeeping.
const HOUSE: Duration = Duration::from_secs(1);

/// What a column takes of a sample.
#[derive(Clone, Copy)]
enum Field {
    Key,
    Payload,
    Kind,
    Encoding,
    Time,
    Hlc,
    HlcId,
    SourceZid,
    SourceEid,
    SourceSn,
    Attachment,
    Priority,
    Block,
    Express,
    Reliable,
    Received,
    /// Nothing that a sample has, or that is made by the shard.
    Other,
}

fn fields(layout: &Layout) -> Vec<Field> {
    let field = |name: &str| match name {
        "key" => Field::Key,
        "payload" => Field::Payload,
        "kind" => Field::Kind,
        "encoding" => Field::Encoding,
        "ts" => Field::Time,
        "hlc" => Field::Hlc,
        "hlc_id" => Field::HlcId,
        "source_zid" => Field::SourceZid,
        "source_eid" => Field::SourceEid,
        "source_sn" => Field::SourceSn,
        "attachment" => Field::Attachment,
        "priority" => Field::Priority,
        "congestion_block" => Field::Block,
        "express" => Field::Express,
        "reliable" => Field::Reliable,
        "recv_ts" => Field::Received,
        _ => Field::Other,
    };
    layout.columns.iter().map(|column| field(column.name)).collect()
}

/// The octets of an id as they travel, and how many they are.
const fn id_octets(id: ZenohId) -> ([u8; 16], usize) {
    (id.to_le_bytes(), id.wire_len())
}

fn octets(id: &([u8; 16], usize)) -> &[u8] {
    &id.0[..id.1]
}

/// The same, by themselves.
pub(super) fn id_bytes(id: ZenohId) -> Vec<u8> {
    octets(&id_octets(id)).to_vec()
}

/// What one thread works with.
pub(super) struct Taker {
    shared: Arc<Shared>,
    source: Arc<Source>,
    /// Its shard, where keys do not choose one.
    shard: usize,
    first: bool,
    earlier: Vec<KeyExpr>,
    fields: Vec<Field>,
    numbers: Numbers,
    /// Samples that are in a block, or beyond, and that nobody can see yet.
    unseen: u64,
    dropped: u64,
    gaps: Vec<Gap>,
    encoding: (Encoding, String),
}

impl Taker {
    pub(super) fn new(
        shared: Arc<Shared>,
        source: Arc<Source>,
        number: usize,
        earlier: Vec<KeyExpr>,
        numbers: Numbers,
    ) -> Self {
        let fields = fields(shared.shards[0].lock().layout());
        Self {
            shard: if shared.by_hash { 0 } else { number.min(shared.shards.len() - 1) },
            first: number == 0,
            shared,
            source,
            earlier,
            fields,
            numbers,
            unseen: 0,
            dropped: 0,
            gaps: Vec::new(),
            encoding: (Encoding::DEFAULT, Encoding::DEFAULT.to_string()),
        }
    }

    /// Until the spooler is closed, or its session.
    pub(super) fn run(mut self) {
        let mut house = Instant::now();
        // When the oldest row that nobody can see has to be written.
        let mut due: Option<Instant> = None;
        loop {
            let queue = self.source.queue.clone();
            let stopping = self.shared.stop.load(Ordering::Acquire);
            let wait = match due {
                _ if stopping => Duration::ZERO,
                Some(due) => due.saturating_duration_since(Instant::now()),
                None => RETRY,
            };
            let shared = self.shared.clone();
            let hurried = || shared.hurry.load(Ordering::Acquire) || shared.stop.load(Ordering::Acquire);
            let came = queue.wait_readable(Some(wait), &mut || hurried());
            if came.is_ok() {
                let samples = queue.take_many(AT_ONCE, AT_ONCE_BYTES, usize::MAX);
                let written = self.append(&samples);
                queue.give_back(samples);
                if !written {
                    break;
                }
                due.get_or_insert_with(|| Instant::now() + self.shared.linger);
            }
            self.count_drops();
            let ended = matches!(came, Err(RecvError::Closed)) || stopping && came.is_err();
            let hurry = came.is_err() && self.shared.hurry.load(Ordering::Acquire);
            if ended || hurry || due.is_some_and(|due| Instant::now() >= due) {
                if !self.write() {
                    break;
                }
                due = None;
                if hurry && queue.is_empty() {
                    self.shared.hurry.store(false, Ordering::Release);
                }
            }
            if ended {
                if !stopping && !self.shared.closing.load(Ordering::Acquire) {
                    let key = &self.source.key;
                    let problem = format!("{key}: the subscriber has ended, nothing more is kept of it");
                    self.shared.note::<()>(Err(Error::Usage(problem)));
                }
                return;
            }
            if self.first && house.elapsed() >= HOUSE {
                self.shared.keep_house();
                house = Instant::now();
            }
        }
        // Stopped while the disk had no room: what is not written is not there.
        let rest = self.source.queue.len() as u64 + self.unseen;
        self.shared.refused.fetch_add(rest, Ordering::Relaxed);
    }

    /// Appends samples; `false` if the spooler was closed while the disk took nothing.
    fn append(&mut self, samples: &VecDeque<Sample>) -> bool {
        let time = now();
        let shared = self.shared.clone();
        let count = shared.shards.len();
        let mut held = None;
        let mut written = (0, 0);
        for sample in samples {
            self.unseen += 1;
            let key = sample.key.as_str();
            if self.earlier.iter().any(|earlier| earlier.intersects(&sample.key)) {
                continue;
            }
            let shard =
                if shared.by_hash && count > 1 { Rule::hash(key, count) as usize } else { self.shard };
            // One at a time: other threads lock shards in an order of their own.
            if held.as_ref().is_some_and(|(number, _)| *number != shard) {
                held = None;
            }
            let mut writer = match held.take() {
                Some((_, writer)) => writer,
                None => shared.shards[shard].lock(),
            };
            if let Some(info) = &sample.source_info {
                let number = self.numbers.see(info);
                self.tell_number(&number, sample, shard, &writer, time);
            }
            if writer.is_full() {
                drop(writer);
                if !self.insist(shard, |writer| writer.flush(now())) {
                    return false;
                }
                writer = shared.shards[shard].lock();
            }
            match self.push(&mut writer, sample, time) {
                Ok(()) => written = (written.0 + 1, written.1 + sample.payload.len() as u64),
                Err(error) => {
                    shared.refused.fetch_add(1, Ordering::Relaxed);
                    let detail = format!("{key}: {error}");
                    let gap = self.gap(shard, &writer, "drop", time, detail);
                    self.add_gap(Gap { count: Some(1), ..gap });
                }
            }
            held = Some((shard, writer));
        }
        shared.rows.fetch_add(written.0, Ordering::Relaxed);
        shared.bytes.fetch_add(written.1, Ordering::Relaxed);
        true
    }

    fn push(&mut self, writer: &mut ShardWriter, sample: &Sample, time: i64) -> Result<(), Error> {
        if self.encoding.0 != sample.encoding {
            self.encoding = (sample.encoding.clone(), sample.encoding.to_string());
        }
        let hlc_id = sample.timestamp.map(|timestamp| id_octets(timestamp.id));
        let zid = sample.source_info.as_ref().map(|info| id_octets(info.zid));
        let micros = |sample: &Sample| {
            sample
                .timestamp
                .and_then(|timestamp| i64::try_from(timestamp.time.to_duration().as_micros()).ok())
        };
        // No table has more columns.
        let mut row = [Value::Null; 24];
        for (field, value) in self.fields.iter().zip(&mut row) {
            *value = match field {
                Field::Key => Value::Text(sample.key.as_str()),
                Field::Payload if sample.kind == SampleKind::Delete => Value::Null,
                Field::Payload => Value::Shared(&sample.payload),
                Field::Kind => Value::Int((sample.kind == SampleKind::Delete).into()),
                Field::Encoding => Value::Text(&self.encoding.1),
                Field::Time => micros(sample).into(),
                Field::Hlc => sample.timestamp.map(|timestamp| timestamp.time.0.cast_signed()).into(),
                Field::HlcId => hlc_id.as_ref().map(octets).into(),
                Field::SourceZid => zid.as_ref().map(octets).into(),
                Field::SourceEid => sample.source_info.as_ref().map(|info| i64::from(info.eid)).into(),
                Field::SourceSn => sample.source_info.as_ref().map(|info| i64::from(info.sn)).into(),
                Field::Attachment => sample.attachment.as_ref().into(),
                Field::Priority => Value::Int(sample.qos.priority() as i64),
                Field::Block => Value::Bool(sample.qos.congestion() != CongestionControl::Drop),
                Field::Express => Value::Bool(sample.qos.express()),
                Field::Reliable => Value::Bool(sample.reliability == Reliability::Reliable),
                Field::Received => Value::Int(time),
                Field::Other => Value::Null,
            };
        }
        writer.push(&row[..self.fields.len()])
    }

    fn gap(&self, shard: usize, writer: &ShardWriter, kind: &'static str, time: i64, detail: String) -> Gap {
        let (shard, offset) = (shard as u32, writer.next_offset());
        Gap { shard, offset, kind, time, detail, ..Gap::default() }
    }

    fn tell_number(
        &mut self,
        number: &Number,
        sample: &Sample,
        shard: usize,
        writer: &ShardWriter,
        time: i64,
    ) {
        let Some(info) = &sample.source_info else { return };
        let (kind, numbers, count) = match *number {
            Number::Next | Number::Late => return,
            Number::Missing(from, to) => ("gap", (from, to), u64::from(to.wrapping_sub(from)) + 1),
            Number::Again => ("duplicate", (info.sn, info.sn), 1),
        };
        let counter = if kind == "gap" { &self.shared.lost } else { &self.shared.duplicates };
        counter.fetch_add(count, Ordering::Relaxed);
        let gap = self.gap(shard, writer, kind, time, sample.key.as_str().to_owned());
        let source = Some((id_bytes(info.zid), info.eid));
        self.add_gap(Gap { source, numbers: Some(numbers), count: Some(count), ..gap });
    }

    fn add_gap(&mut self, gap: Gap) {
        if self.gaps.len() < MAX_GAPS {
            return self.gaps.push(gap);
        }
        let beyond = &mut self.gaps[MAX_GAPS..];
        if let Some(more) = beyond.iter_mut().find(|more| more.kind == gap.kind && more.shard == gap.shard) {
            more.count = more.count.zip(gap.count).map(|(more, count)| more + count);
            return;
        }
        let detail = "too many at once to be told one by one".to_owned();
        self.gaps.push(Gap { source: None, numbers: None, detail, ..gap });
    }

    /// Does something with a shard, and tries again as long as the disk has no room; `false` if the spooler
    /// is closed meanwhile. Between two tries others have the shard: they may make room.
    fn insist(&self, shard: usize, act: impl Fn(&mut ShardWriter) -> Result<(), Error>) -> bool {
        loop {
            let done = act(&mut self.shared.shards[shard].lock());
            if self.shared.note(done).is_some() {
                return true;
            }
            if self.shared.stop.load(Ordering::Acquire) {
                return false;
            }
            if self.first {
                self.shared.keep_house();
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Writes all rows and lets others see them; `false` as in [`Self::insist`].
    fn write(&mut self) -> bool {
        self.shared.tell(&core::mem::take(&mut self.gaps));
        let disk = self.shared.durability == Durability::Disk;
        for number in 0..self.shared.shards.len() {
            if !self.shared.by_hash && number != self.shard {
                continue;
            }
            let written = self.insist(number, |writer| {
                writer.flush(now())?;
                if disk && writer.unpublished() { writer.sync() } else { Ok(()) }
            });
            if !written {
                return false;
            }
        }
        self.source.done.fetch_add(self.unseen, Ordering::Release);
        self.unseen = 0;
        true
    }

    /// Tells what the queue has dropped since the last time.
    fn count_drops(&mut self) {
        let dropped = self.source.queue.dropped();
        let count = dropped - self.dropped;
        if count == 0 {
            return;
        }
        self.dropped = dropped;
        let mut writer = self.shared.shards[self.shard].lock();
        writer.count_drops(count);
        let detail = format!("{}: the queue was full", self.source.key);
        let gap = self.gap(self.shard, &writer, "drop", now(), detail);
        drop(writer);
        self.add_gap(Gap { count: Some(count), ..gap });
    }
}
