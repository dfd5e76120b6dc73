//! [`Columns`]: records to Arrow columns. JSON Lines have the same names, and a time stamp as one text.
//!
//! Each value is copied once, from the capture into its column. Repeated values are written in runs, and so are
//! nulls: most fields of most records are null.

use crate::{arrow::micros, capture::zmtp::ZmtpColumns};
use arrow_array::{
    ArrayRef, RecordBatch,
    builder::{
        ArrayBuilder, BinaryBuilder, BooleanBuilder, Int8Builder, Int32Builder, Int64Builder, StringBuilder,
        TimestampMicrosecondBuilder,
    },
};
use arrow_schema::{ArrowError, SchemaRef};
use core::{fmt::Write as _, net::SocketAddr};
use std::sync::{Arc, LazyLock};
use zwire_dissect::{Protocol, Record, Stamp};
use zwire_proto::zenoh::{Encoding, ZenohId};
use zwire_spool::columns::RECORD;

/// Approximate cost of a row in addition to its payload, so that batches of empty rows are bounded too.
const ROW_BYTES: usize = 64;

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(RECORD.schema()));

/// Columns under construction.
pub(crate) struct Columns {
    max_rows: usize,
    max_bytes: usize,
    rows: usize,
    bytes: usize,
    ts: Runs<i64, TimestampMicrosecondBuilder>,
    src: Runs<End, StringBuilder>,
    dst: Runs<End, StringBuilder>,
    protocol: Runs<&'static str, StringBuilder>,
    message: Runs<&'static str, StringBuilder>,
    kind: Runs<&'static str, StringBuilder>,
    key: Column<StringBuilder>,
    scope: Column<Int32Builder>,
    suffix: Column<StringBuilder>,
    payload: Column<BinaryBuilder>,
    encoding: Runs<Encoding, StringBuilder>,
    timestamp: Column<TimestampMicrosecondBuilder>,
    hlc: Column<Int64Builder>,
    hlc_id: Runs<ZenohId, BinaryBuilder>,
    attachment: Column<BinaryBuilder>,
    priority: Runs<u8, Int8Builder>,
    congestion: Runs<&'static str, StringBuilder>,
    express: Runs<bool, BooleanBuilder>,
    request_id: Column<Int64Builder>,
    parameters: Column<StringBuilder>,
    consolidation: Runs<&'static str, StringBuilder>,
    target: Runs<&'static str, StringBuilder>,
    sn: Runs<u32, Int64Builder>,
    zmtp: ZmtpColumns,
    error: Column<StringBuilder>,
    offset: Column<Int64Builder>,
    scratch: String,
}

/// Column of values that differ from row to row, or are null for many rows.
#[derive(Default)]
struct Column<B> {
    builder: B,
    /// Null rows at the end, not written yet.
    nulls: usize,
}

/// Column of values that repeat, written in runs.
struct Runs<T, B> {
    builder: B,
    value: Option<T>,
    /// Rows at the end that have this value and are not written yet.
    count: usize,
    write: fn(&mut B, &T, usize),
}

/// A builder that takes many nulls at once.
trait Nulls: ArrayBuilder {
    fn nulls(&mut self, count: usize);
}

macro_rules! nulls {
    ($($builder:ty),+) => { $(impl Nulls for $builder {
        fn nulls(&mut self, count: usize) {
            self.append_nulls(count);
        }
    })+ };
}

nulls!(
    StringBuilder,
    BinaryBuilder,
    BooleanBuilder,
    Int8Builder,
    Int32Builder,
    Int64Builder,
    TimestampMicrosecondBuilder
);

impl<B: Nulls> Column<B> {
    /// Adds a row: the value, written by `append`, or null.
    #[inline]
    fn put<T>(&mut self, value: Option<T>, append: impl FnOnce(&mut B, T)) {
        match value {
            None => self.nulls += 1,
            Some(value) => {
                if self.nulls > 0 {
                    self.builder.nulls(core::mem::take(&mut self.nulls));
                }
                append(&mut self.builder, value);
            }
        }
    }

    fn finish(&mut self) -> ArrayRef {
        self.builder.nulls(core::mem::take(&mut self.nulls));
        ArrayBuilder::finish(&mut self.builder)
    }
}

impl<T: PartialEq + Clone, B: Nulls> Runs<T, B> {
    fn new(builder: B, write: fn(&mut B, &T, usize)) -> Self {
        Self { builder, value: None, count: 0, write }
    }

    /// Adds a row.
    #[inline]
    fn put(&mut self, value: Option<&T>) {
        if self.value.as_ref() != value {
            self.flush();
            self.value = value.cloned();
        }
        self.count += 1;
    }

    fn flush(&mut self) {
        let count = core::mem::take(&mut self.count);
        match &self.value {
            _ if count == 0 => {}
            Some(value) => (self.write)(&mut self.builder, value, count),
            None => self.builder.nulls(count),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        self.flush();
        ArrayBuilder::finish(&mut self.builder)
    }
}

fn words() -> Runs<&'static str, StringBuilder> {
    Runs::new(StringBuilder::new(), |builder, word, count| builder.append_value_n(word, count))
}

/// Sender or receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Address(SocketAddr),
    Name(Arc<str>),
}

fn ends() -> Runs<End, StringBuilder> {
    Runs::new(StringBuilder::new(), |builder, end, count| match end {
        End::Address(address) => builder.append_value_n(address.to_string(), count),
        End::Name(name) => builder.append_value_n(name, count),
    })
}

impl Columns {
    pub(crate) fn new(max_rows: usize, max_bytes: usize) -> Self {
        let times = || TimestampMicrosecondBuilder::new().with_timezone("UTC");
        Self {
            max_rows,
            max_bytes,
            rows: 0,
            bytes: 0,
            ts: Runs::new(times(), |builder, time, count| builder.append_value_n(*time, count)),
            src: ends(),
            dst: ends(),
            protocol: words(),
            message: words(),
            kind: words(),
            key: Column::default(),
            scope: Column::default(),
            suffix: Column::default(),
            payload: Column::default(),
            encoding: Runs::new(StringBuilder::new(), |builder, encoding, count| {
                builder.append_value_n(encoding.to_string(), count);
            }),
            timestamp: Column { builder: times(), nulls: 0 },
            hlc: Column::default(),
            hlc_id: Runs::new(BinaryBuilder::new(), |builder, id, count| {
                let octets = id.to_le_bytes();
                (0..count).for_each(|_| builder.append_value(&octets[..id.wire_len()]));
            }),
            attachment: Column::default(),
            // At most 7.
            priority: Runs::new(Int8Builder::new(), |builder, priority, count| {
                builder.append_value_n(priority.cast_signed(), count);
            }),
            congestion: words(),
            express: Runs::new(BooleanBuilder::new(), |builder, value, count| {
                builder.append_n(count, *value)
            }),
            request_id: Column::default(),
            parameters: Column::default(),
            consolidation: words(),
            target: words(),
            sn: Runs::new(Int64Builder::new(), |builder, sn, count| {
                builder.append_value_n((*sn).into(), count);
            }),
            zmtp: ZmtpColumns::new(),
            error: Column::default(),
            offset: Column::default(),
            scratch: String::new(),
        }
    }

    pub(crate) fn schema() -> SchemaRef {
        SCHEMA.clone()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends a row; `false` if the batch is full. An empty batch takes a row of any size.
    #[inline]
    pub(crate) fn append(&mut self, record: &Record) -> bool {
        self.append_between(record, record.src.map(End::Address), record.dst.map(End::Address))
    }

    /// As [`Self::append`], with the given sender and receiver instead of those of the record.
    #[inline]
    pub(crate) fn append_between(&mut self, record: &Record, src: Option<End>, dst: Option<End>) -> bool {
        let (key, payload, attachment) = (record.key(), record.payload(), record.attachment());
        let bytes = ROW_BYTES
            + payload.map_or(0, bytes::Bytes::len)
            + attachment.map_or(0, bytes::Bytes::len)
            + key.map_or(0, |key| key.prefix.len() + key.suffix.len())
            + record.parameters().map_or(0, |text| text.len())
            + ZmtpColumns::bytes(record);
        if self.rows > 0 && (self.rows >= self.max_rows || self.bytes + bytes > self.max_bytes) {
            return false;
        }
        self.rows += 1;
        self.bytes += bytes;
        // An unknown time is `Duration::MAX`, which does not fit and becomes null.
        self.ts.put(i64::try_from(record.time.as_micros()).ok().as_ref());
        self.src.put(src.as_ref());
        self.dst.put(dst.as_ref());
        self.protocol.put(record.protocol().map(Protocol::name).as_ref());
        self.message.put(Some(&record.message()));
        self.kind.put(record.kind().as_ref());
        self.key.put(key, |builder, key| {
            // A builder of strings takes pieces, and never fails.
            let _ = builder.write_str(key.prefix);
            builder.append_value(key.suffix);
        });
        let unresolved = record.unresolved();
        self.scope.put(unresolved, |builder, key| builder.append_value(key.scope.into()));
        self.suffix.put(unresolved, |builder, key| builder.append_value(key.suffix.as_str()));
        self.payload.put(payload, |builder, bytes| builder.append_value(bytes));
        self.encoding.put(record.encoding());
        let stamp = record.stamp();
        let time = stamp.as_ref().and_then(|stamp| match stamp {
            Stamp::Zenoh(timestamp) => micros(**timestamp),
            Stamp::Log(time) => i64::try_from(time.as_micros()).ok(),
        });
        self.timestamp.put(time, TimestampMicrosecondBuilder::append_value);
        let stamp = record.timestamp();
        self.hlc.put(stamp, |builder, stamp| builder.append_value(stamp.time.0.cast_signed()));
        self.hlc_id.put(stamp.map(|stamp| stamp.id).as_ref());
        self.attachment.put(attachment, |builder, bytes| builder.append_value(bytes));
        self.priority.put(record.priority().as_ref());
        self.congestion.put(record.congestion().as_ref());
        self.express.put(record.express().as_ref());
        self.request_id.put(record.request_id(), |builder, id| builder.append_value(id.into()));
        self.parameters.put(record.parameters(), |builder, text| builder.append_value(text.as_str()));
        self.consolidation.put(record.consolidation().as_ref());
        self.target.put(record.target().as_ref());
        self.sn.put(record.sn.as_ref());
        self.zmtp.put(record);
        let fault = record.fault();
        self.error.put(fault, |builder, fault| {
            self.scratch.clear();
            let _ = write!(self.scratch, "{}", fault.cause);
            builder.append_value(&self.scratch);
        });
        self.offset.put(fault, |builder, fault| builder.append_option(i64::try_from(fault.offset).ok()));
        true
    }

    /// Returns the rows so far as a batch, and starts an empty one.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        (self.rows, self.bytes) = (0, 0);
        let mut columns: Vec<ArrayRef> = vec![
            self.ts.finish(),
            self.src.finish(),
            self.dst.finish(),
            self.protocol.finish(),
            self.message.finish(),
            self.kind.finish(),
            self.key.finish(),
            self.scope.finish(),
            self.suffix.finish(),
            self.payload.finish(),
            self.encoding.finish(),
            self.timestamp.finish(),
            self.hlc.finish(),
            self.hlc_id.finish(),
            self.attachment.finish(),
            self.priority.finish(),
            self.congestion.finish(),
            self.express.finish(),
            self.request_id.finish(),
            self.parameters.finish(),
            self.consolidation.finish(),
            self.target.finish(),
            self.sn.finish(),
        ];
        columns.extend(self.zmtp.finish());
        columns.extend([self.error.finish(), self.offset.finish()]);
        RecordBatch::try_new(SCHEMA.clone(), columns)
    }
}
