//! Blocks: some rows each, as an Arrow record batch message with a trailer at the end of its body.
//!
//! ```text
//! ffffffff | length | message | padding | body: buffers | padding | trailer
//!
//! trailer, 64 octets, little endian:
//!  0  "ZWIRBLK1"      8  length of the block   16  offset of its first row   24  rows   28  epoch
//! 32  least recv_ts  40  greatest recv_ts      48  shard   52  0 0 0 0 0 0 0 0   60  crc32c of all before
//! ```
//!
//! No buffer of the message refers to the trailer, so Arrow readers never see it. Body and block are
//! multiples of 64 octets long, and in the file each body begins at a multiple of 64.

use crate::{
    column::{ColumnBuilder, Entries, Part, Refused, Value},
    error::{Error, Result},
    head::{CONTINUATION, finish_message},
    keys::KeyCollector,
    layout::{Kind, Layout, Shard},
    pack::{self, Compression, Packer},
};
use arrow_ipc::{
    BodyCompressionBuilder, BodyCompressionMethod, Buffer as BufferEntry, CompressionType, FieldNode,
    MessageHeader, RecordBatchBuilder,
};
use bytes::Buf as _;
use flatbuffers::FlatBufferBuilder;
use std::io::IoSlice;

pub(crate) const TRAILER: usize = 64;
const MARK: &[u8; 8] = b"ZWIRBLK1";

/// Trailer of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trailer {
    /// Length of the whole block in octets.
    pub len: u64,
    /// Offset of its first row.
    pub first: u64,
    /// Number of rows; at least one.
    pub rows: u32,
    /// Epoch in which it was written.
    pub epoch: u32,
    /// Least receive time of its rows, in microseconds since 1970.
    pub min_time: i64,
    /// Greatest receive time of its rows.
    pub max_time: i64,
    /// Shard, as encoded in files.
    pub(crate) shard: u32,
    /// Checksum of everything before it.
    pub(crate) crc: u32,
}

impl Trailer {
    /// Encodes all fields but the checksum.
    fn encode(&self) -> [u8; TRAILER - 4] {
        let mut out = [0; TRAILER - 4];
        out[..8].copy_from_slice(MARK);
        out[8..16].copy_from_slice(&self.len.to_le_bytes());
        out[16..24].copy_from_slice(&self.first.to_le_bytes());
        out[24..28].copy_from_slice(&self.rows.to_le_bytes());
        out[28..32].copy_from_slice(&self.epoch.to_le_bytes());
        out[32..40].copy_from_slice(&self.min_time.to_le_bytes());
        out[40..48].copy_from_slice(&self.max_time.to_le_bytes());
        out[48..52].copy_from_slice(&self.shard.to_le_bytes());
        out
    }

    /// Decodes the last 64 octets of a block; only the mark is verified.
    pub(crate) fn decode(octets: &[u8; TRAILER]) -> Option<Self> {
        let (mut fields, mut crc) = (octets.strip_prefix(MARK)?, &octets[TRAILER - 4..]);
        Some(Self {
            len: fields.get_u64_le(),
            first: fields.get_u64_le(),
            rows: fields.get_u32_le(),
            epoch: fields.get_u32_le(),
            min_time: fields.get_i64_le(),
            max_time: fields.get_i64_le(),
            shard: fields.get_u32_le(),
            crc: crc.get_u32_le(),
        })
    }

    /// Offset after its last row.
    pub const fn end(&self) -> u64 {
        self.first.saturating_add(self.rows as u64)
    }
}

/// Verifies a whole block; returns its trailer, or a description of the problem.
pub(crate) fn verify(block: &[u8], shard: Shard) -> core::result::Result<Trailer, String> {
    let (before, last) = block.split_last_chunk::<TRAILER>().ok_or("a block without a trailer")?;
    let trailer = Trailer::decode(last).ok_or("a block without a trailer")?;
    let (covered, _) = block.split_at(before.len() + TRAILER - 4);
    let crc = crc32c::crc32c(covered);
    if crc != trailer.crc {
        return Err(format!("the checksum of a block is {crc:08x} and should be {:08x}", trailer.crc));
    }
    if trailer.len != block.len() as u64 {
        return Err(format!("a block of {} octets says that it has {}", block.len(), trailer.len));
    }
    if trailer.shard != shard.code() {
        return Err("a block of another shard".to_owned());
    }
    if trailer.rows == 0 {
        return Err("a block without rows".to_owned());
    }
    Ok(trailer)
}

/// Builder of a block, row by row. Its memory is reused for the next block.
pub struct BlockBuilder {
    shard: Shard,
    names: Vec<&'static str>,
    columns: Vec<ColumnBuilder>,
    /// Index of the column with the offset, if the layout has one.
    offset: Option<usize>,
    time: usize,
    key: Option<usize>,
    rows: u32,
    min_time: i64,
    max_time: i64,
    bytes: usize,
    head: Vec<u8>,
    /// Padding and trailer.
    tail: Vec<u8>,
    message: FlatBufferBuilder<'static>,
    compression: Compression,
    packer: Packer,
    /// Whether the body of the block made last is that of the packer.
    is_packed: bool,
    /// Octets of the bodies of all blocks made, before compression and after it.
    sizes: (u64, u64),
}

impl BlockBuilder {
    /// Makes an empty builder.
    pub fn new(shard: Shard, layout: &Layout, compression: Compression) -> Self {
        Self {
            shard,
            names: (0..layout.columns.len()).map(|position| layout.read_column(position).name).collect(),
            columns: layout.columns.iter().map(|column| ColumnBuilder::new(column.kind)).collect(),
            offset: layout.position("offset").filter(|_| layout.table.placed),
            time: layout.position("recv_ts").unwrap_or(usize::MAX),
            key: layout.position("key"),
            rows: 0,
            min_time: i64::MAX,
            max_time: i64::MIN,
            bytes: 0,
            head: Vec::new(),
            tail: Vec::new(),
            message: FlatBufferBuilder::new(),
            compression,
            packer: Packer::default(),
            is_packed: false,
            sizes: (0, 0),
        }
    }

    /// Octets of the bodies of all blocks made, before compression and after it.
    pub(crate) const fn sizes(&self) -> (u64, u64) {
        self.sizes
    }

    /// Number of rows so far.
    pub const fn rows(&self) -> u32 {
        self.rows
    }

    /// Approximate number of octets so far.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a row: one value for each column of the layout; the value of a column `offset` is replaced
    /// by the argument `offset`. After an [`Error::Row`] nothing of the row is stored.
    pub fn push(&mut self, row: &[Value<'_>], offset: u64) -> Result<()> {
        if row.len() != self.columns.len() {
            return Err(Error::Usage(format!("a row of {} values, not {}", row.len(), self.columns.len())));
        }
        let own = Value::Int(offset.cast_signed());
        let value = |index: usize| if Some(index) == self.offset { &own } else { &row[index] };
        for (index, column) in self.columns.iter().enumerate() {
            column.check(value(index)).map_err(|refused| Error::Row {
                shard: self.shard,
                column: self.names[index],
                problem: match refused {
                    Refused::Kind => format!("does not take {:?}", value(index)),
                    Refused::TooLarge => "a block has less than 2 GiB in one column".to_owned(),
                },
            })?;
        }
        let Some(Value::Int(time)) = row.get(self.time).copied() else {
            let problem = "every row has a receive time".to_owned();
            return Err(Error::Row { shard: self.shard, column: "recv_ts", problem });
        };
        for (index, column) in self.columns.iter_mut().enumerate() {
            let value = if Some(index) == self.offset { &own } else { &row[index] };
            self.bytes += column.push(value);
        }
        self.min_time = self.min_time.min(time);
        self.max_time = self.max_time.max(time);
        self.rows += 1;
        Ok(())
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(ColumnBuilder::clear);
        self.rows = 0;
        self.bytes = 0;
        self.min_time = i64::MAX;
        self.max_time = i64::MIN;
    }

    /// Encodes the rows as a block for [`Self::slices`]; also returns the length of head and padding.
    pub(crate) fn encode(&mut self, first: u64, epoch: u32) -> (Trailer, u32) {
        self.columns.iter_mut().for_each(ColumnBuilder::complete);
        let mut entries = self.plain();
        let whole = entries.body;
        let packed =
            self.compression.codec().and_then(|codec| Some((codec, self.pack(codec, entries.body)?)));
        self.is_packed = packed.is_some();
        let codec = packed.map(|(codec, packed)| {
            entries = packed;
            codec
        });
        let body = entries.body;
        self.sizes.0 += whole as u64;
        self.sizes.1 += body as u64;
        let body_len = (body + TRAILER).next_multiple_of(64);
        self.encode_head(&entries, codec, body_len);
        let mut trailer = Trailer {
            len: (self.head.len() + body_len) as u64,
            first,
            rows: self.rows,
            epoch,
            min_time: self.min_time,
            max_time: self.max_time,
            shard: self.shard.code(),
            crc: 0,
        };
        self.tail.clear();
        self.tail.resize(body_len - body - TRAILER, 0);
        self.tail.extend_from_slice(&trailer.encode());
        let mut slices = Vec::new();
        self.slices(&mut slices);
        trailer.crc = slices.iter().fold(0, |crc, slice| crc32c::crc32c_append(crc, slice));
        drop(slices);
        self.tail.extend_from_slice(&trailer.crc.to_le_bytes());
        (trailer, self.head.len() as u32)
    }

    /// Adds the keys of the block made by [`Self::encode`].
    pub(crate) fn collect_keys(&self, keys: &mut KeyCollector) {
        let mut last = &b""[..];
        for key in self.key.iter().flat_map(|key| self.columns[*key].texts()) {
            // Rows without a key have an empty one.
            if key != last && !key.is_empty() {
                keys.add(key);
                last = key;
            }
        }
    }

    /// Nodes and buffers as the columns have them.
    fn plain(&self) -> Entries {
        let mut entries = Entries::default();
        for column in &self.columns {
            column.visit(&mut |part| match part {
                Part::Node(node) => entries.nodes.push(node),
                buffer => drop(entries.buffer(buffer.len())),
            });
        }
        entries
    }

    /// Compresses all buffers, which have `whole` octets, into the packer. `None` if the block is better left as it is.
    fn pack(&mut self, codec: CompressionType, whole: usize) -> Option<Entries> {
        let (packer, mut entries) = (&mut self.packer, Entries::default());
        packer.body.clear();
        for column in &self.columns {
            column.visit(&mut |part| {
                let len = match part {
                    Part::Node(node) => return entries.nodes.push(node),
                    Part::Octets(octets) => packer.push(codec, octets),
                    Part::Rope(rope) => packer.push_rope(codec, rope),
                };
                let padding = entries.buffer(len);
                packer.body.push(&[0; 8][..padding]);
            });
        }
        (entries.body < whole && whole <= pack::bound(entries.body)).then_some(entries)
    }

    fn encode_head(&mut self, entries: &Entries, codec: Option<CompressionType>, body_len: usize) {
        let nodes: Vec<_> = entries.nodes.iter().map(|node| FieldNode::new(node.rows, node.nulls)).collect();
        let buffers: Vec<_> = entries.buffers.iter().map(|b| BufferEntry::new(b.at, b.len)).collect();
        let builder = &mut self.message;
        builder.reset();
        let nodes = builder.create_vector(&nodes);
        let buffers = builder.create_vector(&buffers);
        let compression = codec.map(|codec| {
            let mut compression = BodyCompressionBuilder::new(builder);
            compression.add_method(BodyCompressionMethod::BUFFER);
            compression.add_codec(codec);
            compression.finish()
        });
        let mut batch = RecordBatchBuilder::new(builder);
        if let Some(compression) = compression {
            batch.add_compression(compression);
        }
        batch.add_length(i64::from(self.rows));
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        let batch = batch.finish().as_union_value();
        let message = finish_message(builder, MessageHeader::RecordBatch, batch, body_len);

        let len = (8 + message.len()).next_multiple_of(64);
        self.head.clear();
        self.head.extend_from_slice(&CONTINUATION);
        self.head.extend_from_slice(&((len - 8) as u32).to_le_bytes());
        self.head.extend_from_slice(message);
        self.head.resize(len, 0);
    }

    /// Appends all octets of the block made by [`Self::encode`].
    pub(crate) fn slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>) {
        out.push(IoSlice::new(&self.head));
        if self.is_packed {
            self.packer.body.slices(out);
        } else {
            self.columns.iter().for_each(|column| column.visit(&mut |part| part.slices(out)));
        }
        out.push(IoSlice::new(&self.tail));
    }
}

/// Numbers of node and buffer entries that a column of a kind has in the head of a block.
pub(crate) const fn entries(kind: Kind) -> (usize, usize) {
    match kind {
        Kind::Text | Kind::Bytes => (1, 3),
        Kind::BytesList | Kind::TextList => (2, 5),
        Kind::TextMap => (4, 9),
        _ => (1, 2),
    }
}
