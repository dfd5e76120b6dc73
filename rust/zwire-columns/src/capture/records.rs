//! Records as columns. JSON Lines have the same names, and a time stamp as one text.
//!
//! Each value is copied once, from the capture into its column.

use crate::builder::{BytesList, Column, Micros, Runs, TextList, TextMap, push_map, repeats, rows};
use arrow_array::{
    RecordBatch,
    builder::{BinaryBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder},
};
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;
use core::{fmt::Write as _, net::SocketAddr};
use std::{collections::VecDeque, sync::Arc};
use zwire_dissect::{Headers, Protocol, Record, Stamp, readable};
use zwire_proto::zenoh::{Encoding, ZenohId};
use zwire_spool::columns::RECORD;

/// Approximate cost of a row in addition to its payload, so that batches of empty rows are bounded too.
const ROW_BYTES: usize = 64;

/// Approximate cost of an entry of a list or a map in addition to its bytes.
const ENTRY_BYTES: usize = 16;

/// Most rows of a batch: larger ones bring no benefit, and it stays far below the limit of the offsets.
const MAX_ROWS: usize = 1 << 24;

/// Most bytes of a batch: with a payload of the largest size added, offsets still fit into 31 bits.
const MAX_BYTES: usize = 1 << 30;

/// Size of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    rows: usize,
    bytes: usize,
}

impl Limits {
    /// Most rows, and most bytes of payloads except for a single larger one. Fails with a text if the
    /// limits are out of range.
    pub fn new(rows: usize, bytes: usize) -> Result<Self, String> {
        if rows == 0 || rows > MAX_ROWS || bytes > MAX_BYTES {
            return Err(format!("max_rows is 1 to {MAX_ROWS}, max_bytes at most {MAX_BYTES}"));
        }
        Ok(Self { rows, bytes })
    }
}

/// Schema of the batches of records.
pub fn schema() -> SchemaRef {
    Rows::schema()
}

rows! {
    Rows of RECORD {
        ts: Runs<Micros>,
        src: Runs<End>,
        dst: Runs<End>,
        protocol: Runs<&'static str>,
        message: Runs<&'static str>,
        kind: Runs<&'static str>,
        key: Column<StringBuilder>,
        scope: Column<Int32Builder>,
        suffix: Column<StringBuilder>,
        payload: Column<BinaryBuilder>,
        encoding: Runs<Encoding>,
        timestamp: Column<TimestampMicrosecondBuilder>,
        hlc: Column<Int64Builder>,
        hlc_id: Runs<ZenohId>,
        attachment: Column<BinaryBuilder>,
        priority: Runs<u8>,
        congestion: Runs<&'static str>,
        express: Runs<bool>,
        request_id: Column<Int64Builder>,
        parameters: Column<StringBuilder>,
        consolidation: Runs<&'static str>,
        target: Runs<&'static str>,
        sn: Runs<u32>,
        peer: Column<StringBuilder>,
        name: Column<StringBuilder>,
        address: Column<StringBuilder>,
        group: Column<StringBuilder>,
        sequence: Column<Int32Builder>,
        status: Column<Int32Builder>,
        groups: Column<TextList>,
        headers: Column<TextMap>,
        content: Column<BytesList>,
        error: Column<StringBuilder>,
        offset: Column<Int64Builder>,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Address(SocketAddr),
    Name(Arc<str>),
}

repeats! {
    End => StringBuilder: |end, to, count| match end {
        End::Address(address) => to.append_value_n(address.to_string(), count),
        End::Name(name) => to.append_value_n(name, count),
    };
}

impl Rows {
    #[inline]
    fn push(&mut self, record: &Record, src: Option<&End>, dst: Option<&End>, scratch: &mut String) {
        // An unknown time is `Duration::MAX`, which does not fit and becomes null.
        self.ts.put(Micros::of(record.time).as_ref());
        self.src.put(src);
        self.dst.put(dst);
        self.protocol.put(record.protocol().map(Protocol::name).as_ref());
        self.message.put(Some(&record.message()));
        self.kind.put(record.kind().as_ref());
        self.key.put(record.key(), |builder, key| {
            // A builder of strings takes pieces, and never fails.
            let _ = builder.write_str(key.prefix);
            builder.append_value(key.suffix);
        });
        let unresolved = record.unresolved();
        self.scope.put(unresolved, |builder, key| builder.append_value(key.scope.into()));
        self.suffix.put(unresolved, |builder, key| builder.append_value(key.suffix.as_str()));
        self.payload.put(record.payload(), BinaryBuilder::append_value);
        self.encoding.put(record.encoding());
        let time = record.stamp().as_ref().and_then(|stamp| match stamp {
            Stamp::Zenoh(timestamp) => Micros::of(timestamp.time.to_duration()),
            Stamp::Log(time) => Micros::of(*time),
        });
        self.timestamp.put(time, |builder, time| builder.append_value(time.0));
        let stamp = record.timestamp();
        self.hlc.put(stamp, |builder, stamp| builder.append_value(stamp.time.0.cast_signed()));
        self.hlc_id.put(stamp.map(|stamp| stamp.id).as_ref());
        self.attachment.put(record.attachment(), BinaryBuilder::append_value);
        self.priority.put(record.priority().as_ref());
        self.congestion.put(record.congestion().as_ref());
        self.express.put(record.express().as_ref());
        self.request_id.put(record.request_id(), |builder, id| builder.append_value(id.into()));
        self.parameters.put(record.parameters(), |builder, text| builder.append_value(text.as_str()));
        self.consolidation.put(record.consolidation().as_ref());
        self.target.put(record.target().as_ref());
        self.sn.put(record.sn.as_ref());
        if record.is_of_zmtp() {
            self.push_zmtp(record, scratch);
        } else {
            for text in [&mut self.peer, &mut self.name, &mut self.address, &mut self.group] {
                text.put_nulls(1);
            }
            self.sequence.put_nulls(1);
            self.status.put_nulls(1);
            self.groups.put_nulls(1);
            self.headers.put_nulls(1);
            self.content.put_nulls(1);
        }
        let fault = record.fault();
        self.error.put(fault, |builder, fault| {
            // Writing to a `String` does not fail.
            let _ = write!(emptied(scratch), "{}", fault.cause);
            builder.append_value(scratch);
        });
        self.offset.put(fault, |builder, fault| builder.append_option(i64::try_from(fault.offset).ok()));
    }

    fn push_zmtp(&mut self, record: &Record, scratch: &mut String) {
        self.peer.put(record.peer(), |builder, peer| {
            let _ = write!(emptied(scratch), "{peer}");
            builder.append_value(scratch);
        });
        self.name.put(record.name(), |builder, name| builder.append_value(readable(name)));
        self.address.put(record.address(), |builder, address| builder.append_value(readable(&address)));
        self.group.put(record.group(), |builder, group| builder.append_value(readable(group)));
        self.sequence.put(record.sequence().map(i32::from), Int32Builder::append_value);
        self.status.put(record.status().map(i32::from), Int32Builder::append_value);
        self.groups.put(record.groups(), |builder, groups| {
            builder.append_value(groups.iter().map(|group| Some(readable(group))));
        });
        self.headers.put(record.headers(), |builder, Headers(entries)| {
            push_map(builder, entries.iter().map(|(name, value)| (readable(name), readable(value))));
        });
        self.content.put(record.content(), |builder, frames| builder.append_value(frames.iter().map(Some)));
    }
}

fn emptied(text: &mut String) -> &mut String {
    text.clear();
    text
}

fn weight(record: &Record) -> usize {
    let len = |bytes: Option<&Bytes>| bytes.map_or(0, Bytes::len);
    let plain = ROW_BYTES
        + len(record.payload())
        + len(record.attachment())
        + record.key().map_or(0, |key| key.prefix.len() + key.suffix.len())
        + record.parameters().map_or(0, |text| text.len());
    if !record.is_of_zmtp() {
        return plain;
    }
    let list = |items: Option<&[Bytes]>| {
        items.unwrap_or_default().iter().map(|item| item.len() + ENTRY_BYTES).sum::<usize>()
    };
    let headers = record.headers().map_or(0, |headers| {
        headers.0.iter().map(|(name, value)| name.len() + value.len() + ENTRY_BYTES).sum()
    });
    plain + list(record.content()) + list(record.groups()) + headers
}

pub(crate) struct Batches {
    limits: Limits,
    rows: Rows,
    count: usize,
    bytes: usize,
    scratch: String,
    ready: VecDeque<RecordBatch>,
}

impl Batches {
    pub(crate) fn new(limits: Limits) -> Self {
        let (rows, scratch, ready) = (Rows::default(), String::new(), VecDeque::new());
        Self { limits, rows, count: 0, bytes: 0, scratch, ready }
    }

    /// Appends a row, in a new batch if the present one is full. An empty batch takes a row of any size.
    #[inline]
    pub(crate) fn push(
        &mut self,
        record: &Record,
        src: Option<&End>,
        dst: Option<&End>,
    ) -> Result<(), ArrowError> {
        let bytes = weight(record);
        if self.count > 0 && (self.count >= self.limits.rows || self.bytes + bytes > self.limits.bytes) {
            self.finish()?;
        }
        self.count += 1;
        self.bytes += bytes;
        self.rows.push(record, src, dst, &mut self.scratch);
        Ok(())
    }

    /// Finishes the batch under construction, unless it is empty.
    pub(crate) fn finish(&mut self) -> Result<(), ArrowError> {
        if self.count > 0 {
            (self.count, self.bytes) = (0, 0);
            self.ready.push_back(self.rows.finish()?);
        }
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_have_the_columns_of_the_table() {
        let names: Vec<_> = RECORD.columns.iter().map(|column| column.name).collect();
        assert_eq!(Rows::names(), names);
        // Making a batch compares the types.
        assert_eq!(Rows::default().finish().unwrap().num_rows(), 0);
    }

    #[test]
    fn limits_have_a_range() {
        assert!(Limits::new(1, 0).is_ok() && Limits::new(MAX_ROWS, MAX_BYTES).is_ok());
        for (rows, bytes) in [(0, 1), (MAX_ROWS + 1, 1), (1, MAX_BYTES + 1)] {
            assert!(Limits::new(rows, bytes).is_err());
        }
    }
}
