//! Decoding of columns from a block. No length or position in a block is trusted without a check.
//!
//! Texts and bytes are never copied, numbers if the block is not aligned, as after a network transfer.

use crate::{
    block::{TRAILER, entries},
    columns::{element_field, entries_field, map_fields},
    layout::{Column, Kind, Layout},
    pack,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Int8Array, Int32Array, Int64Array, ListArray, MapArray, StringArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use arrow_ipc::{CompressionType, RecordBatch as Head, root_as_message};
use arrow_schema::DataType;
use std::sync::Arc;

type Result<T> = core::result::Result<T, String>;

pub(crate) struct Block {
    octets: Buffer,
    body: usize,
    rows: usize,
}

impl Block {
    /// Decodes a whole block of `rows` rows with a valid checksum.
    pub(crate) fn new(octets: Buffer, rows: u32) -> Result<Self> {
        let body = 8 + octets
            .get(4..8)
            .map_or(0, |len| u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize);
        if body % 8 != 0 || body.checked_add(TRAILER).is_none_or(|least| least > octets.len()) {
            return Err(format!("a head of {body} octets in a block of {}", octets.len()));
        }
        Ok(Self { octets, body, rows: rows as usize })
    }

    /// Decodes some of its columns, with the names and types that readers see.
    pub(crate) fn columns(&self, layout: &Layout, wanted: &[usize]) -> Result<Vec<ArrayRef>> {
        let head = aligned(self.octets.slice_with_length(8, self.body - 8));
        let message = root_as_message(&head).map_err(|error| error.to_string())?;
        let head = message.header_as_record_batch().ok_or("a block that is no record batch")?;
        let codec = head.compression().map(|compression| compression.codec());
        let mut left = pack::bound(self.octets.len());
        if usize::try_from(head.length()) != Ok(self.rows) {
            return Err(format!("{} rows in a block of {}", head.length(), self.rows));
        }
        let mut first = Vec::with_capacity(layout.columns.len());
        let (mut node, mut buffer) = (0, 0);
        for column in &layout.columns {
            first.push((node, buffer));
            let (nodes, buffers) = entries(column.kind);
            node += nodes;
            buffer += buffers;
        }
        let there = (head.nodes().map_or(0, |n| n.len()), head.buffers().map_or(0, |b| b.len()));
        if there != (node, buffer) {
            return Err(format!("{} columns with {} buffers, not {node} with {buffer}", there.0, there.1));
        }
        wanted
            .iter()
            .map(|&index| {
                let (node, buffer) = first[index];
                let Column { name, kind, form } = layout.columns[index];
                let mut reader = Reader { block: self, head, node, buffer, codec, left: &mut left };
                let array = reader.array(kind, Some(self.rows));
                array.map(|array| form.read(array)).map_err(|problem| format!("column {name:?}: {problem}"))
            })
            .collect()
    }
}

/// Aligns octets for numbers; copies them if they are not aligned.
fn aligned(octets: Buffer) -> Buffer {
    if octets.as_ptr().align_offset(align_of::<u64>()) == 0 {
        return octets;
    }
    let mut copy = MutableBuffer::with_capacity(octets.len());
    copy.extend_from_slice(&octets);
    copy.into()
}

/// Iterator over the head entries of one column.
struct Reader<'a> {
    block: &'a Block,
    head: Head<'a>,
    node: usize,
    buffer: usize,
    codec: Option<CompressionType>,
    /// Octets that compressed buffers of the block may still have.
    left: &'a mut usize,
}

impl Reader<'_> {
    /// Rows and nulls of the next node.
    fn next_node(&mut self) -> Result<(usize, usize)> {
        let nodes = self.head.nodes().ok_or("no nodes")?;
        let node = nodes.get(self.node);
        self.node += 1;
        let number = |n: i64| usize::try_from(n).map_err(|_| format!("{n} rows"));
        let (rows, nulls) = (number(node.length())?, number(node.null_count())?);
        if nulls > rows {
            return Err(format!("{nulls} nulls in {rows} rows"));
        }
        Ok((rows, nulls))
    }

    /// The next buffer, which must have at least `least` octets.
    fn next_buffer(&mut self, least: usize) -> Result<Buffer> {
        let buffers = self.head.buffers().ok_or("no buffers")?;
        let entry = *buffers.get(self.buffer);
        self.buffer += 1;
        let (at, len) = (usize::try_from(entry.offset()), usize::try_from(entry.length()));
        let (Ok(at), Ok(len)) = (at, len) else { return Err("a buffer before the body".to_owned()) };
        let end = self.block.octets.len() - TRAILER - self.block.body;
        if at.checked_add(len).is_none_or(|last| last > end) || at % 8 != 0 {
            return Err(format!("a buffer of {len} octets at {at} in a body of {end}"));
        }
        let octets = self.block.octets.slice_with_length(self.block.body + at, len);
        let octets = match self.codec {
            None => octets,
            Some(codec) => pack::unpack(codec, &octets, self.left)?,
        };
        if octets.len() < least {
            return Err(format!("a buffer of {} octets where {least} are needed", octets.len()));
        }
        Ok(octets)
    }

    fn nulls(&mut self, rows: usize, nulls: usize) -> Result<Option<NullBuffer>> {
        let bits = self.next_buffer(if nulls == 0 { 0 } else { rows.div_ceil(8) })?;
        if nulls == 0 {
            return Ok(None);
        }
        let bits = NullBuffer::new(BooleanBuffer::new(aligned(bits), 0, rows));
        if bits.null_count() != nulls {
            return Err(format!("{} nulls where the head declares {nulls}", bits.null_count()));
        }
        Ok(Some(bits))
    }

    fn values<T: ArrowNativeType>(&mut self, rows: usize) -> Result<ScalarBuffer<T>> {
        let buffer = self.next_buffer(rows.saturating_mul(size_of::<T>()))?;
        Ok(ScalarBuffer::new(aligned(buffer), 0, rows))
    }

    /// Ascending offsets; the last one bounds the values.
    fn offsets(&mut self, rows: usize) -> Result<OffsetBuffer<i32>> {
        let offsets: ScalarBuffer<i32> = self.values(rows.checked_add(1).ok_or("too many rows")?)?;
        if offsets[0] < 0 || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err("positions that do not grow".to_owned());
        }
        Ok(OffsetBuffer::new(offsets))
    }

    fn array(&mut self, kind: Kind, expected: Option<usize>) -> Result<ArrayRef> {
        let (rows, null_count) = self.next_node()?;
        if expected.is_some_and(|expected| expected != rows) {
            return Err(format!("{rows} rows"));
        }
        let nulls = self.nulls(rows, null_count)?;
        let text = |error: arrow_schema::ArrowError| error.to_string();
        Ok(match kind {
            Kind::Text => {
                let (offsets, bytes) = (self.offsets(rows)?, self.next_buffer(0)?);
                Arc::new(StringArray::try_new(offsets, bytes, nulls).map_err(text)?)
            }
            Kind::Bytes => {
                let (offsets, bytes) = (self.offsets(rows)?, self.next_buffer(0)?);
                Arc::new(BinaryArray::try_new(offsets, bytes, nulls).map_err(text)?)
            }
            Kind::Bool => {
                let bits = self.next_buffer(rows.div_ceil(8))?;
                Arc::new(BooleanArray::new(BooleanBuffer::new(aligned(bits), 0, rows), nulls))
            }
            Kind::Int8 => Arc::new(Int8Array::try_new(self.values(rows)?, nulls).map_err(text)?),
            Kind::Int32 => Arc::new(Int32Array::try_new(self.values(rows)?, nulls).map_err(text)?),
            Kind::Int64 => Arc::new(Int64Array::try_new(self.values(rows)?, nulls).map_err(text)?),
            Kind::Time => {
                let times = TimestampMicrosecondArray::try_new(self.values(rows)?, nulls).map_err(text)?;
                Arc::new(times.with_timezone("UTC"))
            }
            Kind::BytesList => {
                let offsets = self.offsets(rows)?;
                let items = self.array(Kind::Bytes, None)?;
                Arc::new(
                    ListArray::try_new(element_field(DataType::Binary), offsets, items, nulls)
                        .map_err(text)?,
                )
            }
            Kind::TextList => return Err("a list of texts, which no spool has".to_owned()),
            Kind::TextMap => {
                let offsets = self.offsets(rows)?;
                let (pairs, struct_nulls) = self.next_node()?;
                if struct_nulls != 0 {
                    return Err("a map with null entries".to_owned());
                }
                self.nulls(pairs, 0)?;
                let columns =
                    vec![self.array(Kind::Text, Some(pairs))?, self.array(Kind::Text, Some(pairs))?];
                let pairs = StructArray::try_new(map_fields(), columns, None).map_err(text)?;
                Arc::new(MapArray::try_new(entries_field(), offsets, pairs, nulls, false).map_err(text)?)
            }
        })
    }
}
