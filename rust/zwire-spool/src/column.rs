//! Columns under construction, in the memory format of Arrow.

use crate::layout::Kind;
use bytes::Bytes;
use std::io::IoSlice;

/// Size from which on a byte string is not copied into its column, which refers to it until it is on
/// disk. An additional slice costs the kernel about as much as copying this many bytes.
const SHARED_BYTES: usize = 4 << 10;

/// Value of one column in one row.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the types tell")]
pub enum Value<'a> {
    Null,
    Bool(bool),
    /// A number, or microseconds since 1970; truncated to the width of the column.
    Int(i64),
    Text(&'a str),
    /// Bytes, which are copied.
    Bytes(&'a [u8]),
    /// Bytes that need not be copied.
    Shared(&'a Bytes),
    List(&'a [Bytes]),
    Map(&'a [(&'a str, &'a str)]),
}

/// Owned value of one column in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the types tell")]
pub enum Cell {
    Null,
    Bool(bool),
    /// An integer of any width, or a time in microseconds since 1970.
    Int(i64),
    Text(String),
    Bytes(Bytes),
    List(Vec<Bytes>),
    Map(Vec<(String, String)>),
}

impl Cell {
    /// Borrows the value; `pairs` takes those of a map.
    pub fn value<'a>(&'a self, pairs: &'a mut Vec<(&'a str, &'a str)>) -> Value<'a> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Shared(bytes),
            Self::List(items) => Value::List(items),
            Self::Map(map) => {
                pairs.extend(map.iter().map(|(name, value)| (name.as_str(), value.as_str())));
                Value::Map(pairs)
            }
        }
    }
}

impl<'a, T> From<Option<T>> for Value<'a>
where
    T: Into<Value<'a>>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! values {
    ($($variant:ident of $type:ty),+) => {
        $(impl<'a> From<$type> for Value<'a> {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        })+
    };
}

values!(Int of i64, Bytes of &'a [u8], Text of &'a str, Shared of &'a Bytes);

/// Byte sequence that refers to large pieces instead of copying them.
#[derive(Default)]
pub(crate) struct Rope {
    copied: Vec<u8>,
    /// Referenced pieces, with the number of bytes copied before each.
    shared: Vec<(usize, Bytes)>,
    len: usize,
}

impl Rope {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        self.copied.extend_from_slice(bytes);
        self.len += bytes.len();
        bytes.len()
    }

    fn push_shared(&mut self, bytes: &Bytes) -> usize {
        if bytes.len() < SHARED_BYTES {
            return self.push(bytes);
        }
        self.shared.push((self.copied.len(), bytes.clone()));
        self.len += bytes.len();
        bytes.len()
    }

    /// Appends another sequence; its large pieces stay references.
    pub(crate) fn append(&mut self, other: &Self) {
        let before = self.copied.len();
        self.copied.extend_from_slice(&other.copied);
        self.shared.extend(other.shared.iter().map(|(at, bytes)| (before + at, bytes.clone())));
        self.len += other.len;
    }

    /// Its bytes, if all of them were copied.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        self.shared.is_empty().then_some(&self.copied[..])
    }

    /// A copy of its first bytes.
    pub(crate) fn copy(&self, most: usize) -> Vec<u8> {
        let mut slices = Vec::new();
        self.slices(&mut slices);
        let mut copy = Vec::with_capacity(self.len.min(most));
        for slice in slices {
            let left = most - copy.len();
            copy.extend_from_slice(&slice[..slice.len().min(left)]);
        }
        copy
    }

    /// Number of its bytes.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        self.copied.clear();
        self.shared.clear();
        self.len = 0;
    }

    pub(crate) fn slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>) {
        let mut from = 0;
        for (at, bytes) in &self.shared {
            push_slice(out, &self.copied[from..*at]);
            push_slice(out, bytes);
            from = *at;
        }
        push_slice(out, &self.copied[from..]);
    }
}

fn push_slice<'a>(out: &mut Vec<IoSlice<'a>>, bytes: &'a [u8]) {
    if !bytes.is_empty() {
        out.push(IoSlice::new(bytes));
    }
}

/// Padding after each buffer, up to the next multiple of eight.
static PADDING: [u8; 8] = [0; 8];

/// Position of a buffer in the body, and its length without padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Buffer {
    pub(crate) at: i64,
    pub(crate) len: i64,
}

/// Rows and nulls of a column, as in the head of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub(crate) rows: i64,
    pub(crate) nulls: i64,
}

pub(crate) struct ColumnBuilder {
    kind: Kind,
    rows: usize,
    nulls: usize,
    /// Number of leading null rows that are not in the buffers yet: mostly a column has no other rows.
    only_nulls: usize,
    /// Bits of all rows, stored from the first null on.
    validity: Vec<u8>,
    /// Little-endian offsets; the first one is 0.
    offsets: Vec<u8>,
    /// Values of a fixed width, or a bit each.
    values: Vec<u8>,
    bytes: Rope,
    children: Vec<ColumnBuilder>,
}

/// Reason why a column refuses a value.
pub(crate) enum Refused {
    /// The value has another type.
    Kind,
    /// Positions in a column have 31 bits.
    TooLarge,
}

impl ColumnBuilder {
    pub(crate) fn new(kind: Kind) -> Self {
        let children = match kind {
            Kind::BytesList => vec![Self::new(Kind::Bytes)],
            Kind::TextMap => vec![Self::new(Kind::Text), Self::new(Kind::Text)],
            _ => Vec::new(),
        };
        let mut column = Self {
            kind,
            rows: 0,
            nulls: 0,
            only_nulls: 0,
            validity: Vec::new(),
            offsets: Vec::new(),
            values: Vec::new(),
            bytes: Rope::default(),
            children,
        };
        column.clear();
        column
    }

    /// Texts of the rows, an empty one for a null; none if they were not copied. Requires [`Self::complete`].
    pub(crate) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let octets = self.bytes.whole().unwrap_or_default();
        let ends = self.offsets.as_chunks::<4>().0.iter().map(|end| u32::from_le_bytes(*end) as usize);
        let begins = ends.clone();
        begins.zip(ends.skip(1)).filter_map(|(begin, end)| octets.get(begin..end))
    }

    /// Removes all rows, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.rows = 0;
        self.nulls = 0;
        self.only_nulls = 0;
        self.validity.clear();
        self.offsets.clear();
        self.values.clear();
        self.bytes.clear();
        if self.has_offsets() {
            self.offsets.extend_from_slice(&0_i32.to_le_bytes());
        }
        self.children.iter_mut().for_each(Self::clear);
    }

    const fn has_offsets(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Bytes | Kind::BytesList | Kind::TextMap)
    }

    /// Checks whether a value can be appended, before any column of the row is changed.
    pub(crate) fn check(&self, value: &Value<'_>) -> Result<(), Refused> {
        let room = |len: usize, more: usize| match i32::try_from(len.saturating_add(more)) {
            Ok(_) => Ok(()),
            Err(_) => Err(Refused::TooLarge),
        };
        match (self.kind, value) {
            (_, Value::Null) | (Kind::Bool, Value::Bool(_)) => Ok(()),
            (Kind::Int8 | Kind::Int32 | Kind::Int64 | Kind::Time, Value::Int(_)) => Ok(()),
            (Kind::Text | Kind::Bytes, Value::Text(text)) => room(self.bytes.len, text.len()),
            (Kind::Bytes, Value::Bytes(bytes)) => room(self.bytes.len, bytes.len()),
            (Kind::Bytes, Value::Shared(bytes)) => room(self.bytes.len, bytes.len()),
            (Kind::BytesList, Value::List(items)) => {
                let child = &self.children[0];
                room(child.rows, items.len())?;
                room(child.bytes.len, items.iter().map(Bytes::len).sum())
            }
            (Kind::TextMap, Value::Map(pairs)) => {
                room(self.children[0].rows, pairs.len())?;
                room(self.children[0].bytes.len, pairs.iter().map(|pair| pair.0.len()).sum())?;
                room(self.children[1].bytes.len, pairs.iter().map(|pair| pair.1.len()).sum())
            }
            _ => Err(Refused::Kind),
        }
    }

    /// Appends a value that [`Self::check`] has accepted; returns its approximate size in octets.
    #[inline]
    pub(crate) fn push(&mut self, value: &Value<'_>) -> usize {
        let null = matches!(value, Value::Null);
        if null && self.only_nulls == self.rows {
            self.only_nulls += 1;
            self.nulls += 1;
            self.rows += 1;
            return self.kind.width().unwrap_or(4);
        }
        self.complete();
        let bytes = match value {
            Value::Null => {
                self.push_nothing();
                0
            }
            Value::Bool(value) => {
                push_bit(&mut self.values, self.rows, *value);
                0
            }
            Value::Int(value) => {
                // With a constant length the compiler inlines the copy.
                match self.kind.width() {
                    Some(1) => self.values.push(*value as u8),
                    Some(4) => self.values.extend_from_slice(&(*value as i32).to_le_bytes()),
                    _ => self.values.extend_from_slice(&value.to_le_bytes()),
                }
                0
            }
            Value::Text(text) => self.bytes.push(text.as_bytes()),
            Value::Bytes(bytes) => self.bytes.push(bytes),
            Value::Shared(bytes) => self.bytes.push_shared(bytes),
            Value::List(items) => items.iter().map(|item| self.children[0].push(&Value::Shared(item))).sum(),
            Value::Map(pairs) => {
                let [names, values] = &mut self.children[..] else { unreachable!("a map has two columns") };
                let each = |(name, value): &(&str, &str)| {
                    names.push(&Value::Text(name)) + values.push(&Value::Text(value))
                };
                pairs.iter().map(each).sum()
            }
        };
        if self.has_offsets() {
            let end = self.children.first().map_or(self.bytes.len, |child| child.rows);
            self.offsets.extend_from_slice(&(end as u32).to_le_bytes());
        }
        if null && self.nulls == 0 {
            self.validity.clear();
            self.validity.resize(self.rows / 8, 0xff);
            if !self.rows.is_multiple_of(8) {
                self.validity.push((1 << (self.rows % 8)) - 1);
            }
        }
        if null || self.nulls > 0 {
            push_bit(&mut self.validity, self.rows, !null);
        }
        self.nulls += usize::from(null);
        self.rows += 1;
        self.kind.width().unwrap_or(4) + bytes
    }

    /// Writes the leading nulls into the buffers. Required before [`Self::visit`].
    #[inline]
    pub(crate) fn complete(&mut self) {
        if self.only_nulls > 0 {
            self.write_nulls();
        }
    }

    fn write_nulls(&mut self) {
        let rows = core::mem::take(&mut self.only_nulls);
        self.validity.resize(rows.div_ceil(8), 0);
        match self.kind {
            Kind::Bool => self.values.resize(rows.div_ceil(8), 0),
            kind => self.values.resize(rows * kind.width().unwrap_or(0), 0),
        }
        if self.has_offsets() {
            self.offsets.resize((rows + 1) * 4, 0);
        }
    }

    fn push_nothing(&mut self) {
        match self.kind {
            Kind::Bool => push_bit(&mut self.values, self.rows, false),
            kind => self.values.resize(self.values.len() + kind.width().unwrap_or(0), 0),
        }
    }

    /// Calls `each` with the nodes and buffers of this column, in their order in a block.
    pub(crate) fn visit<'a>(&'a self, each: &mut dyn FnMut(Part<'a>)) {
        each(Part::Node(Node { rows: self.rows as i64, nulls: self.nulls as i64 }));
        each(Part::Octets(&self.validity));
        if self.has_offsets() {
            each(Part::Octets(&self.offsets));
        }
        match self.kind {
            Kind::Text | Kind::Bytes => each(Part::Rope(&self.bytes)),
            Kind::BytesList => self.children[0].visit(each),
            Kind::TextMap => {
                // The struct of name and value: as many rows as names, none of them null.
                each(Part::Node(Node { rows: self.children[0].rows as i64, nulls: 0 }));
                each(Part::Octets(&[]));
                self.children.iter().for_each(|child| child.visit(each));
            }
            _ => each(Part::Octets(&self.values)),
        }
    }
}

/// Node or buffer of a column.
pub(crate) enum Part<'a> {
    Node(Node),
    Octets(&'a [u8]),
    Rope(&'a Rope),
}

impl<'a> Part<'a> {
    /// Number of octets; 0 of a node, which has none in the body.
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Node(_) => 0,
            Self::Octets(octets) => octets.len(),
            Self::Rope(rope) => rope.len(),
        }
    }

    /// Appends the octets and their padding.
    pub(crate) fn slices(self, out: &mut Vec<IoSlice<'a>>) {
        let len = self.len();
        match self {
            Self::Node(_) => {}
            Self::Octets(octets) => push_slice(out, octets),
            Self::Rope(rope) => rope.slices(out),
        }
        push_slice(out, &PADDING[..padded(len) - len]);
    }
}

/// Nodes and buffers of columns, as in the head of a block.
#[derive(Default)]
pub(crate) struct Entries {
    pub(crate) nodes: Vec<Node>,
    pub(crate) buffers: Vec<Buffer>,
    /// Length of the body so far.
    pub(crate) body: usize,
}

impl Entries {
    /// Notes a buffer of that length; returns the length of the padding behind it.
    pub(crate) fn buffer(&mut self, len: usize) -> usize {
        self.buffers.push(Buffer { at: self.body as i64, len: len as i64 });
        self.body += padded(len);
        padded(len) - len
    }
}

/// Rounds up to the next multiple of eight, at which buffers begin.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

fn push_bit(bits: &mut Vec<u8>, row: usize, bit: bool) {
    if row.is_multiple_of(8) {
        bits.push(0);
    }
    if let (true, Some(last)) = (bit, bits.last_mut()) {
        *last |= 1 << (row % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 7] =
        [Kind::Bool, Kind::Int8, Kind::Int32, Kind::Int64, Kind::Text, Kind::BytesList, Kind::TextMap];

    fn value(kind: Kind) -> Value<'static> {
        match kind {
            Kind::Bool => Value::Bool(true),
            Kind::Text => Value::Text("some"),
            Kind::BytesList => Value::List(&[]),
            Kind::TextMap => Value::Map(&[("name", "value")]),
            _ => Value::Int(-2),
        }
    }

    /// Nodes, buffers, and all octets of a column.
    fn written(column: &mut ColumnBuilder) -> (Vec<Node>, Vec<Buffer>, Vec<u8>) {
        column.complete();
        let (mut entries, mut slices) = (Entries::default(), Vec::new());
        column.visit(&mut |part| {
            match &part {
                Part::Node(node) => entries.nodes.push(*node),
                buffer => drop(entries.buffer(buffer.len())),
            }
            part.slices(&mut slices);
        });
        let octets: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        assert_eq!(octets.len(), entries.body);
        (entries.nodes, entries.buffers, octets)
    }

    #[test]
    fn nulls_that_a_column_begins_with_are_like_any() {
        for kind in KINDS {
            for nulls in [1, 7, 8, 9, 16] {
                let (mut late, mut soon) = (ColumnBuilder::new(kind), ColumnBuilder::new(kind));
                for row in 0..nulls + 3 {
                    let value = if row < nulls || row == nulls + 1 { Value::Null } else { value(kind) };
                    assert_eq!(late.push(&value), soon.push(&value));
                    // As if a block was made that could not be written.
                    let (nodes, _, octets) = written(&mut soon);
                    assert_eq!(nodes[0].nulls, (row + 1).min(nulls + i64::from(row > nulls)));
                    assert!(row + 1 > nulls || octets.iter().all(|octet| *octet == 0), "{kind:?} {row}");
                }
                let all = written(&mut late);
                assert_eq!(all, written(&mut soon), "{kind:?}");
                // Rows that are not null: the one after the leading nulls, and the last.
                let bits = (0..nulls + 3).map(|row| all.2[row as usize / 8] >> (row % 8) & 1);
                let there: Vec<_> =
                    (0..).zip(bits).filter(|(_, bit)| *bit == 1).map(|(row, _)| row).collect();
                assert_eq!(there, [nulls, nulls + 2], "{kind:?}");
            }
        }
    }

    #[test]
    fn a_column_of_nulls_has_buffers_of_its_rows() {
        for kind in KINDS {
            let mut column = ColumnBuilder::new(kind);
            for _ in 0..13 {
                column.push(&Value::Null);
            }
            let (nodes, buffers, _) = written(&mut column);
            assert_eq!((nodes[0].rows, nodes[0].nulls, buffers[0].len), (13, 13, 2));
            let wanted = match kind {
                Kind::Bool => 2,
                kind => kind.width().map_or(14 * 4, |width| 13 * width as i64),
            };
            assert_eq!(buffers[1].len, wanted, "{kind:?}");
            column.clear();
            assert_eq!(written(&mut column), written(&mut ColumnBuilder::new(kind)));
        }
    }
}
