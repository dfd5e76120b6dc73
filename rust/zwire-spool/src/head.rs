//! Head of a segment: the Arrow magic and schema, and the identity of the segment.
//!
//! ```text
//! "ARROW1\0\0" | ffffffff | length | message: schema | padding | "ZWHD" | crc32c of all before
//! ```
//!
//! The length covers padding and checksum, so Arrow readers skip them. The head is padded to 64 octets.

use crate::{
    columns::schema,
    error::{Error, Result},
    layout::{Layout, MAX_SHARDS, Shard},
    pack::Compression,
    read_at::{ReadAt, read_exactly},
    sealed::Sealed,
    stored::unhex,
};
use arrow_ipc::{
    Block as FooterBlock, FooterBuilder, KeyValue, KeyValueArgs, MessageBuilder, MessageHeader,
    MetadataVersion, Schema, convert::IpcSchemaEncoder, root_as_footer, root_as_message,
};
use bytes::Bytes;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};
use serde_json::{Value as Json, json};
use std::{collections::HashMap, path::Path};

/// Version number of the file format; that of spools and of segments without compression.
pub const FORMAT: u64 = 1;

/// Format of segments whose blocks may be compressed, which programs that know [`FORMAT`] alone refuse as a whole.
pub(crate) const PACKED_FORMAT: u64 = 2;

pub(crate) const MAGIC: &[u8; 8] = b"ARROW1\0\0";
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];
const MARK: &[u8; 4] = b"ZWHD";
/// Metadata key under which Arrow readers see the identity of a segment.
const KEY: &str = "zwire.spool";
/// Metadata key of the description of a segment, in its footer.
const DESCRIPTION: &str = "zwire.segment";
/// Longest footer that is read: that of two million blocks.
const MAX_FOOTER: u64 = 64 << 20;
/// Longest head: all tables together have some 50 columns of 100 octets.
const MAX_HEAD: u64 = 64 << 10;

/// Id of a spool: 16 random octets.
pub type SpoolId = [u8; 16];

/// Identity and position of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) spool: SpoolId,
    pub(crate) shard: Shard,
    /// The offset of its first row.
    pub(crate) base: u64,
    /// End of the previous segment: offsets from there to `base` are not used.
    pub(crate) follows: u64,
    /// Number of times that the spool had been opened for writing.
    pub(crate) epoch: u64,
    /// Its version of the file format.
    pub(crate) format: u64,
}

/// Description that a sealed segment of so many octets has in its footer; `None` if it has none.
pub(crate) fn read_description(file: &dyn ReadAt, path: &Path, len: u64) -> Option<Sealed> {
    let ending = read_exactly(file, path, len.checked_sub(10)?, 10).ok()?;
    let (footer, magic) = ending.split_first_chunk::<4>()?;
    let footer = u64::from(u32::from_le_bytes(*footer));
    if magic != &MAGIC[..6] || footer > MAX_FOOTER {
        return None;
    }
    let octets = read_exactly(file, path, (len - 10).checked_sub(footer)?, footer as usize).ok()?;
    let metadata = root_as_footer(&octets).ok()?.custom_metadata()?;
    let described = metadata.iter().find(|pair| pair.key() == Some(DESCRIPTION))?.value()?;
    Sealed::decode(&mut Bytes::from(unhex(described)?))
}

/// Format of a segment with blocks of this compression.
pub(crate) const fn format_of(compression: Compression) -> u64 {
    match compression {
        Compression::None => FORMAT,
        Compression::Lz4 | Compression::Zstd => PACKED_FORMAT,
    }
}

/// Formats octets as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses an id formatted by [`hex`].
pub(crate) fn parse_id(text: &str) -> Option<SpoolId> {
    unhex(text)?.try_into().ok()
}

/// Ends a message of Arrow, and returns its octets.
pub(crate) fn finish_message<'a>(
    builder: &'a mut FlatBufferBuilder<'_>,
    kind: MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    body_len: usize,
) -> &'a [u8] {
    let mut message = MessageBuilder::new(builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(kind);
    message.add_header(header);
    message.add_bodyLength(body_len as i64);
    let message = message.finish();
    builder.finish(message, None);
    builder.finished_data()
}

impl Head {
    pub(crate) fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let schema = self.schema(layout, &mut builder).as_union_value();
        let message = finish_message(&mut builder, MessageHeader::Schema, schema, 0);
        let len = (MAGIC.len() + 8 + message.len() + 8).next_multiple_of(64);
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&CONTINUATION);
        out.extend_from_slice(&((len - MAGIC.len() - 8) as u32).to_le_bytes());
        out.extend_from_slice(message);
        out.resize(len - 8, 0);
        out.extend_from_slice(MARK);
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn schema<'a>(&self, layout: &Layout, builder: &mut FlatBufferBuilder<'a>) -> WIPOffset<Schema<'a>> {
        let columns = layout.names();
        let about = json!({
            "format": self.format, "spool": hex(&self.spool), "shard": self.shard.folder(), "base": self.base,
            "follows": self.follows, "epoch": self.epoch, "table": layout.table.name, "columns": columns,
        });
        let metadata = HashMap::from([(KEY.to_owned(), about.to_string())]);
        let schema =
            schema(layout.columns.iter().map(|column| (column.name, column.kind))).with_metadata(metadata);
        IpcSchemaEncoder::new().schema_to_fb_offset(builder, &schema)
    }

    /// Encodes the end of a sealed segment: end of stream, and footer with the positions of the blocks and the
    /// description of the segment.
    pub(crate) fn encode_footer(&self, layout: &Layout, blocks: &[FooterBlock], sealed: &Sealed) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let schema = self.schema(layout, &mut builder);
        let mut described = Vec::new();
        sealed.encode(&mut described);
        let (key, value) = (builder.create_string(DESCRIPTION), builder.create_string(&hex(&described)));
        let described = KeyValue::create(&mut builder, &KeyValueArgs { key: Some(key), value: Some(value) });
        let metadata = builder.create_vector(&[described]);
        let dictionaries = builder.create_vector::<FooterBlock>(&[]);
        let blocks = builder.create_vector(blocks);
        let mut footer = FooterBuilder::new(&mut builder);
        footer.add_version(MetadataVersion::V5);
        footer.add_schema(schema);
        footer.add_dictionaries(dictionaries);
        footer.add_recordBatches(blocks);
        footer.add_custom_metadata(metadata);
        let footer = footer.finish();
        builder.finish(footer, None);
        let footer = builder.finished_data();

        let mut out = Vec::with_capacity(footer.len() + 18);
        out.extend_from_slice(&CONTINUATION);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(footer);
        out.extend_from_slice(&(footer.len() as u32).to_le_bytes());
        out.extend_from_slice(&MAGIC[..6]);
        out
    }

    /// Reads the head of a segment; also returns its length.
    ///
    /// `Ok(None)`: the file is shorter than a head, because its writer was stopped while creating it.
    pub(crate) fn read(file: &dyn ReadAt, path: &Path, layout: &Layout) -> Result<Option<(Self, u64)>> {
        let bad = |problem: String| Error::BadFile { path: path.to_owned(), problem };
        let total = file.len().map_err(Error::io("read", path))?;
        if total < 16 {
            return Ok(None);
        }
        let start = read_exactly(file, path, 0, 16)?;
        if start[..8] != *MAGIC || start[8..12] != CONTINUATION {
            return Err(bad("does not begin as a segment does".to_owned()));
        }
        let len = 16 + u64::from(u32::from_le_bytes([start[12], start[13], start[14], start[15]]));
        if len > MAX_HEAD || len % 64 != 0 || len < 64 {
            return Err(bad(format!("a beginning of {len} octets")));
        }
        if total < len {
            return Ok(None);
        }
        let octets = read_exactly(file, path, 0, len as usize)?;
        let (octets, crc) = octets.split_at(octets.len() - 4);
        if !octets.ends_with(MARK) || crc != crc32c::crc32c(octets).to_le_bytes() {
            return Err(bad("the checksum of its beginning is wrong".to_owned()));
        }
        let message = root_as_message(&octets[16..]).map_err(|error| bad(error.to_string()))?;
        let about = message
            .header_as_schema()
            .and_then(|schema| schema.custom_metadata())
            .and_then(|pairs| pairs.iter().find(|pair| pair.key() == Some(KEY)))
            .and_then(|pair| serde_json::from_str::<Json>(pair.value()?).ok());
        let head = about.as_ref().and_then(Self::from_json).ok_or_else(|| bad("is no segment".to_owned()))?;
        let about = about.unwrap_or_default();
        if ![FORMAT, PACKED_FORMAT].contains(&head.format) {
            return Err(bad(format!(
                "has format {}, this program knows {FORMAT} and {PACKED_FORMAT}",
                head.format
            )));
        }
        let columns = about["columns"].as_array().cloned().unwrap_or_default();
        let same = about["table"] == layout.table.name
            && columns.len() == layout.columns.len()
            && columns.iter().zip(&layout.columns).all(|(name, column)| name == column.name);
        if !same {
            return Err(Error::Mismatch {
                path: path.to_owned(),
                problem: format!("its columns {} are not those of the spool", about["columns"]),
            });
        }
        Ok(Some((head, len)))
    }

    fn from_json(about: &Json) -> Option<Self> {
        let number = |name: &str| about.get(name).and_then(Json::as_u64);
        let shard = match about.get("shard")?.as_str()? {
            "gaps" => Shard::Gaps,
            number => Shard::Data(number.parse().ok().filter(|number| *number < MAX_SHARDS)?),
        };
        Some(Self {
            spool: parse_id(about.get("spool")?.as_str()?)?,
            shard,
            base: number("base")?,
            follows: number("follows")?,
            epoch: number("epoch")?,
            format: number("format")?,
        })
    }
}
