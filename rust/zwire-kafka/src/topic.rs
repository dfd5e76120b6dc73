//! A spool as a topic: its partitions are the shards, and its rows records.

use crate::{
    batch::{BatchWriter, MAX_HEADERS, Record},
    error::Error,
    limits::{FRESH, MAX_CONSUMERS, MAX_CURSORS, MAX_ROW, READ_BYTES, READ_ROWS},
    wire::{
        Code,
        fetch::WantedRows,
        list_offsets::{EARLIEST, LATEST, ListedOffset},
    },
};
use arrow_array::{
    Array as _, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray,
    cast::AsArray as _,
    types::{Int64Type, TimestampMicrosecondType},
};
use core::{
    fmt::Write as _,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::sync::Arc;
use zwire_engine::clock;
use zwire_spool::{BatchLimits, Cursor, Error as SpoolError, Mark, Offsets, Rows, Shard, Spool};

/// Columns of a record, as far as a spool has them; the first five it always has.
const COLUMNS: [&str; 11] = [
    "offset",
    "kind",
    "key",
    "payload",
    "recv_ts",
    "timestamp",
    "encoding",
    "attachment",
    "source_zid",
    "source_eid",
    "source_sn",
];

/// Longest name of a topic.
const MAX_NAME: usize = 249;

/// A spool with the name under which clients know it.
pub(crate) struct Topic {
    name: String,
    spool: Spool,
    columns: Vec<&'static str>,
    /// Positions of the last fetches: the next one often continues there.
    cursors: Mutex<Vec<Cursor>>,
    /// Marks of the shards, with the time of the reading.
    marks: Mutex<Option<(Duration, Arc<[Mark]>)>>,
    /// Number of shards, as of that reading.
    partitions: AtomicU32,
    /// Held while a commit is merged with the one before.
    committing: Mutex<()>,
    /// Text of the last error that was logged, so that a client that repeats its request fills no log.
    logged: Mutex<String>,
}

impl Topic {
    /// A topic. Fails for a name that Kafka does not allow, and for a spool without samples.
    pub(crate) fn new(name: String, spool: Spool) -> Result<Self, Error> {
        let legal = |octet: u8| octet.is_ascii_alphanumeric() || b"._-".contains(&octet);
        if name.is_empty()
            || name.len() > MAX_NAME
            || [".", ".."].contains(&&*name)
            || !name.bytes().all(legal)
        {
            return Err(Error::Usage(format!(
                "topic {name:?}: a name is 1 to {MAX_NAME} letters, digits, '.', '_' or '-'; give the spool another one"
            )));
        }
        let layout = &spool.meta().layout;
        if layout.position("key").is_none() {
            return Err(Error::Usage(format!(
                "topic {name}: its spool has rows of {:?}, and a topic has samples of Zenoh",
                layout.table.name
            )));
        }
        let columns = COLUMNS.into_iter().filter(|name| layout.position(name).is_some()).collect();
        // A store that does not answer now is asked again with the first reading of marks.
        let partitions = AtomicU32::new(spool.shard_count().unwrap_or(spool.meta().shards));
        Ok(Self {
            name,
            spool,
            columns,
            cursors: Mutex::default(),
            marks: Mutex::default(),
            partitions,
            committing: Mutex::default(),
            logged: Mutex::default(),
        })
    }

    /// Name of the topic.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Number of partitions: it grows with the shards of a spool that several spoolers share by them.
    pub(crate) fn partitions(&self) -> u32 {
        self.partitions.load(Ordering::Relaxed)
    }

    fn shard(&self, partition: i32) -> Result<u32, Code> {
        let number = u32::try_from(partition).ok().filter(|number| *number < self.partitions());
        number.ok_or(Code::UnknownTopicOrPartition)
    }

    /// Marks of all shards, a moment old at most.
    fn marks(&self) -> Result<Arc<[Mark]>, Code> {
        let mut known = self.marks.lock();
        let now = clock::mono();
        if let Some((at, marks)) = &*known
            && now.saturating_sub(*at) < FRESH
        {
            return Ok(marks.clone());
        }
        let marks: Arc<[Mark]> = self.spool.marks().map_err(|error| self.failed(&error))?.into();
        self.partitions.store(marks.len().saturating_sub(1) as u32, Ordering::Relaxed);
        *known = Some((now, marks.clone()));
        Ok(marks)
    }

    /// First offset of a partition, and the one after its last row; behind that, offsets may be skipped.
    pub(crate) fn bounds(&self, partition: i32) -> Result<(u64, u64), Code> {
        let (mark, _) = self.mark(partition)?;
        Ok((mark.earliest, end(&mark)))
    }

    fn mark(&self, partition: i32) -> Result<(Mark, Shard), Code> {
        let number = self.shard(partition)?;
        let mark = self.marks()?.get(number as usize).copied().ok_or(Code::UnknownTopicOrPartition)?;
        Ok((mark, Shard::Data(number)))
    }

    /// Closes the files of earlier fetches.
    pub(crate) fn rest(&self) {
        self.cursors.lock().clear();
    }

    /// Appends batches with rows of a partition up to about `room` octets; with `progress` at least one row.
    pub(crate) fn fetch(
        &self,
        wanted: &WantedRows,
        room: usize,
        progress: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Code> {
        let (mark, shard) = self.mark(wanted.number)?;
        let offset = u64::try_from(wanted.offset).map_err(|_| Code::OffsetOutOfRange)?;
        if offset < mark.earliest || offset > mark.end {
            return Err(Code::OffsetOutOfRange);
        }
        let room = room.min(usize::try_from(wanted.max_bytes).unwrap_or(0));
        if offset >= end(&mark) || (room == 0 && !progress) {
            return Ok(());
        }
        let mut cursors = self.cursors.lock();
        let known = cursors.iter().rposition(|cursor| cursor.shard() == shard);
        let known = known.map(|at| cursors.swap_remove(at));
        drop(cursors);
        let cursor =
            known.map_or_else(|| self.spool.cursor(shard), Ok).map_err(|error| self.failed(&error))?;
        let limits = BatchLimits { rows: READ_ROWS, bytes: room.min(READ_BYTES) };
        let rows = cursor.rows((offset, end(&mark)), Some(&self.columns), limits);
        let mut rows = rows.map_err(|error| self.failed(&error))?;
        let appended = self.append(&mut rows, room, progress, out);
        let mut cursors = self.cursors.lock();
        if cursors.len() < MAX_CURSORS {
            cursors.push(rows.into_cursor());
        }
        appended
    }

    /// Appends rows while there is room. An error counts only if it is met first: the next fetch begins with it.
    fn append(&self, rows: &mut Rows, room: usize, progress: bool, out: &mut Vec<u8>) -> Result<(), Code> {
        let begin = out.len();
        loop {
            let code = match rows.next_batch() {
                Ok(None) => return Ok(()),
                Ok(Some(batch)) => match push_rows(&batch, (begin, room, progress), out) {
                    Ok(true) => continue,
                    Ok(false) => return Ok(()),
                    Err(code) => code,
                },
                Err(error) if out.len() == begin => self.failed(&error),
                Err(_) => return Ok(()),
            };
            return if out.len() > begin { Ok(()) } else { Err(code) };
        }
    }

    /// Answers which offset a time stands for: that of the first row received then or later.
    pub(crate) fn list_offset(&self, number: i32, time: i64) -> ListedOffset {
        let found = self.mark(number).and_then(|(mark, shard)| match time {
            LATEST => Ok((-1, end(&mark))),
            EARLIEST => Ok((-1, mark.earliest)),
            0.. => {
                let found = self.spool.shard_at(shard, time.saturating_mul(1000));
                let offset = found.map_err(|error| self.failed(&error))?;
                if offset >= end(&mark) {
                    return Ok((-1, u64::MAX));
                }
                let received = self.spool.received(self.shard(number)?, offset);
                let received = received.map_err(|error| self.failed(&error))?;
                Ok((received.map_or(-1, millis), offset))
            }
            _ => Err(Code::UnsupportedVersion),
        });
        let (code, (time, offset)) = match found {
            Ok(found) => (Code::None, found),
            Err(code) => (code, (-1, u64::MAX)),
        };
        // No row: -1.
        ListedOffset { number, code, time, offset: offset.cast_signed() }
    }

    /// Stores positions of a consumer beside those of partitions that are not among them.
    pub(crate) fn commit(&self, name: &str, offsets: &[(i32, i64)]) -> Code {
        if offsets.iter().any(|(_, offset)| *offset < 0) {
            return Code::OffsetOutOfRange;
        }
        let _alone = self.committing.lock();
        let stored = (|| {
            let mut known = self.spool.consumers()?;
            let full = known.len() >= MAX_CONSUMERS;
            let mut all = match known.remove(name) {
                Some(known) => known.offsets,
                None if full => return Err(SpoolError::Usage(format!("{MAX_CONSUMERS} consumers"))),
                None => Offsets::default(),
            };
            all.extend(offsets.iter().filter_map(|(number, offset)| {
                Some((u32::try_from(*number).ok()?, u64::try_from(*offset).ok()?))
            }));
            let now = i64::try_from(clock::now().wall.as_micros()).unwrap_or(i64::MAX);
            self.spool.commit(name, all, now)
        })();
        match stored {
            Ok(()) => Code::None,
            Err(SpoolError::Usage(_)) => Code::InvalidGroupId,
            Err(error) => self.failed(&error),
        }
    }

    /// Whether a partition exists.
    pub(crate) fn has(&self, partition: i32) -> bool {
        self.shard(partition).is_ok()
    }

    /// Positions that a consumer has committed.
    pub(crate) fn committed(&self, name: &str) -> Result<Offsets, Code> {
        let mut known = self.spool.consumers().map_err(|error| self.failed(&error))?;
        Ok(known.remove(name).map(|consumer| consumer.offsets).unwrap_or_default())
    }

    /// Logs an error of the spool, and returns its number on the wire.
    fn failed(&self, error: &SpoolError) -> Code {
        let code = match error {
            SpoolError::OutOfRange { .. } => return Code::OffsetOutOfRange,
            SpoolError::Corrupt { .. } | SpoolError::Missing { .. } | SpoolError::BadFile { .. } => {
                Code::CorruptMessage
            }
            SpoolError::Io { .. } | SpoolError::Unreachable { .. } | SpoolError::Denied { .. } => {
                Code::KafkaStorageError
            }
            SpoolError::Removed { .. } => Code::UnknownTopicOrPartition,
            _ => Code::Unknown,
        };
        let text = error.to_string();
        let mut logged = self.logged.lock();
        if *logged != text {
            tracing::warn!(target: "zwire.spool.kafka", topic = self.name, "a request failed: {text}");
            *logged = text;
        }
        code
    }
}

/// Offset after the last row. A client that plans up to offsets which no row will have would wait for them.
fn end(mark: &Mark) -> u64 {
    mark.rows_to.max(mark.earliest)
}

const fn millis(micros: i64) -> i64 {
    micros.div_euclid(1000)
}

/// Appends rows as one batch; `false` if there was no room for all of them.
fn push_rows(
    rows: &RecordBatch,
    (begin, room, progress): (usize, usize, bool),
    out: &mut Vec<u8>,
) -> Result<bool, Code> {
    let columns = Columns::of(rows);
    let mut batch = BatchWriter::default();
    let (mut eid, mut sn) = (String::new(), String::new());
    out.reserve(room.min(rows.get_array_memory_size()));
    let mut end = Ok(true);
    for row in 0..rows.num_rows() {
        let (key, value) = (text(columns.key, row), octets(columns.payload, row));
        let (encoding, attachment) = (text(columns.encoding, row), octets(columns.attachment, row));
        let parts = [key, value, encoding, attachment];
        let len: usize = parts.iter().flatten().map(|part| part.len()).sum();
        let first = progress && out.len() == begin;
        if len > MAX_ROW && out.len() == begin {
            end = Err(Code::MessageTooLarge);
            break;
        }
        if !first && out.len() - begin + len > room {
            end = Ok(false);
            break;
        }
        let kind = text(columns.kind, row);
        let deleted = kind == Some(b"del");
        let mut headers = [("", &[][..]); MAX_HEADERS];
        let mut count = 0;
        for (name, value) in [
            ("kind", kind),
            ("encoding", encoding),
            ("attachment", attachment),
            ("source_zid", octets(columns.source_zid, row)),
            ("source_eid", number(columns.source_eid, row, &mut eid)),
            ("source_sn", number(columns.source_sn, row, &mut sn)),
        ] {
            if let Some(value) = value {
                headers[count] = (name, value);
                count += 1;
            }
        }
        let time = time(columns.timestamp, row).or_else(|| time(columns.received, row));
        batch.push(
            out,
            &Record {
                offset: columns.offset.map_or(0, |offsets| offsets.value(row).cast_unsigned()),
                time: time.map_or(-1, millis),
                key,
                value: value.filter(|_| !deleted),
                headers: &headers[..count],
            },
        );
    }
    batch.finish(out);
    end
}

/// Columns of a batch; `None` for those that its spool does not have.
struct Columns<'a> {
    offset: Option<&'a Int64Array>,
    received: Option<&'a ArrayRef>,
    key: Option<&'a StringArray>,
    payload: Option<&'a BinaryArray>,
    kind: Option<&'a StringArray>,
    timestamp: Option<&'a ArrayRef>,
    encoding: Option<&'a StringArray>,
    attachment: Option<&'a BinaryArray>,
    source_zid: Option<&'a BinaryArray>,
    source_eid: Option<&'a Int64Array>,
    source_sn: Option<&'a Int64Array>,
}

impl<'a> Columns<'a> {
    fn of(rows: &'a RecordBatch) -> Self {
        let texts = |name: &str| rows.column_by_name(name).and_then(|column| column.as_string_opt());
        let octets = |name: &str| rows.column_by_name(name).and_then(|column| column.as_binary_opt());
        let numbers =
            |name: &str| rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>());
        Self {
            offset: numbers("offset"),
            received: rows.column_by_name("recv_ts"),
            key: texts("key"),
            payload: octets("payload"),
            kind: texts("kind"),
            timestamp: rows.column_by_name("timestamp"),
            encoding: texts("encoding"),
            attachment: octets("attachment"),
            source_zid: octets("source_zid"),
            source_eid: numbers("source_eid"),
            source_sn: numbers("source_sn"),
        }
    }
}

fn text(column: Option<&StringArray>, row: usize) -> Option<&[u8]> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row).as_bytes())
}

fn octets(column: Option<&BinaryArray>, row: usize) -> Option<&[u8]> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

/// A number as decimal text.
fn number<'a>(column: Option<&Int64Array>, row: usize, text: &'a mut String) -> Option<&'a [u8]> {
    let number = column.filter(|column| column.is_valid(row)).map(|column| column.value(row))?;
    text.clear();
    write!(text, "{number}").ok()?;
    Some(text.as_bytes())
}

fn time(column: Option<&ArrayRef>, row: usize) -> Option<i64> {
    let column = column.filter(|column| column.is_valid(row))?;
    Some(column.as_primitive_opt::<TimestampMicrosecondType>()?.value(row))
}
