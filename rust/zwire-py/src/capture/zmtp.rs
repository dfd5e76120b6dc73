//! [`ZmtpColumns`]: columns that only messages over ZMTP have.

use arrow_array::{
    ArrayRef,
    builder::{BinaryBuilder, Int32Builder, ListBuilder, MapBuilder, MapFieldNames, StringBuilder},
};
use arrow_schema::DataType;
use core::fmt::Write as _;
use std::sync::Arc;
use zwire_dissect::{Headers, Record, readable};
use zwire_spool::columns::element_field;

/// Approximate cost of an entry of a list or a map in addition to its bytes.
const ENTRY_BYTES: usize = 16;

/// Columns under construction.
pub(crate) struct ZmtpColumns {
    /// Rows at the end without values, not written yet.
    nulls: usize,
    peer: StringBuilder,
    name: StringBuilder,
    address: StringBuilder,
    group: StringBuilder,
    sequence: Int32Builder,
    status: Int32Builder,
    groups: ListBuilder<StringBuilder>,
    headers: MapBuilder<StringBuilder, StringBuilder>,
    content: ListBuilder<BinaryBuilder>,
    scratch: String,
}

impl ZmtpColumns {
    pub(crate) fn new() -> Self {
        let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
        Self {
            nulls: 0,
            peer: StringBuilder::new(),
            name: StringBuilder::new(),
            address: StringBuilder::new(),
            group: StringBuilder::new(),
            sequence: Int32Builder::new(),
            status: Int32Builder::new(),
            groups: ListBuilder::new(StringBuilder::new()).with_field(element_field(DataType::Utf8)),
            headers: MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new()),
            content: ListBuilder::new(BinaryBuilder::new()).with_field(element_field(DataType::Binary)),
            scratch: String::new(),
        }
    }

    /// Approximate number of bytes of a row.
    pub(crate) fn bytes(record: &Record) -> usize {
        if !record.is_of_zmtp() {
            return 0;
        }
        let list = |items: Option<&[bytes::Bytes]>| {
            items.unwrap_or_default().iter().map(|item| item.len() + ENTRY_BYTES).sum::<usize>()
        };
        let headers = record.headers().map_or(0, |headers| {
            let entry = |(name, value): &(_, bytes::Bytes)| {
                let name: &std::borrow::Cow<'_, [u8]> = name;
                name.len() + value.len() + ENTRY_BYTES
            };
            headers.0.iter().map(entry).sum()
        });
        list(record.content()) + list(record.groups()) + headers
    }

    /// Appends a row.
    #[inline]
    pub(crate) fn put(&mut self, record: &Record) {
        if record.is_of_zmtp() {
            self.write(record);
        } else {
            self.nulls += 1;
        }
    }

    fn write(&mut self, record: &Record) {
        self.flush();
        match record.peer() {
            Some(peer) => {
                self.scratch.clear();
                // Writing to a `String` does not fail.
                let _ = write!(self.scratch, "{peer}");
                self.peer.append_value(&self.scratch);
            }
            None => self.peer.append_null(),
        }
        self.name.append_option(record.name().map(|name| readable(name)));
        self.address.append_option(record.address().as_deref().map(readable));
        self.group.append_option(record.group().map(|group| readable(group)));
        self.sequence.append_option(record.sequence().map(i32::from));
        self.status.append_option(record.status().map(i32::from));
        match record.groups() {
            Some(groups) => self.groups.append_value(groups.iter().map(|group| Some(readable(group)))),
            None => self.groups.append_null(),
        }
        let headers = record.headers();
        if let Some(Headers(entries)) = &headers {
            for (name, value) in entries {
                self.headers.keys().append_value(readable(name));
                self.headers.values().append_value(readable(value));
            }
        }
        self.headers.append(headers.is_some()).expect("as many names as values");
        match record.content() {
            Some(frames) => self.content.append_value(frames.iter().map(Some)),
            None => self.content.append_null(),
        }
    }

    fn flush(&mut self) {
        let count = core::mem::take(&mut self.nulls);
        if count == 0 {
            return;
        }
        for text in [&mut self.peer, &mut self.name, &mut self.address, &mut self.group] {
            text.append_nulls(count);
        }
        self.sequence.append_nulls(count);
        self.status.append_nulls(count);
        self.groups.append_nulls(count);
        self.headers.append_nulls(count).expect("as many names as values");
        self.content.append_nulls(count);
    }

    /// Returns the columns in order; the next rows begin new ones.
    pub(crate) fn finish(&mut self) -> [ArrayRef; 9] {
        self.flush();
        [
            Arc::new(self.peer.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.address.finish()),
            Arc::new(self.group.finish()),
            Arc::new(self.sequence.finish()),
            Arc::new(self.status.finish()),
            Arc::new(self.groups.finish()),
            Arc::new(self.headers.finish()),
            Arc::new(self.content.finish()),
        ]
    }
}
