//! Which columns a spool has, and which shards.

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use core::fmt;
use std::sync::Arc;

/// More shards than any machine has cores; a number in a damaged file is not taken for one.
pub const MAX_SHARDS: u32 = 1024;

/// One of the ordered logs of a spool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Shard {
    /// A share of the messages.
    Data(u32),
    /// What was lost, and why.
    Gaps,
}

impl Shard {
    /// The name of its folder.
    pub fn folder(self) -> String {
        match self {
            Self::Data(number) => number.to_string(),
            Self::Gaps => "gaps".to_owned(),
        }
    }

    /// Its number in files.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Data(number) => number,
            Self::Gaps => u32::MAX,
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(number) => write!(f, "shard {number}"),
            Self::Gaps => f.write_str("gap log"),
        }
    }
}

/// What a column holds. Exactly what Spark takes from a data source: no unsigned numbers, no wide offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// Yes or no.
    Bool,
    /// A number of 8 bits.
    Int8,
    /// A number of 32 bits.
    Int32,
    /// A number of 64 bits.
    Int64,
    /// Microseconds since 1970, UTC.
    Time,
    /// Several byte strings.
    BytesList,
    /// Names with values.
    TextMap,
}

impl Kind {
    /// The type of Arrow.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Text => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Bool => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::BytesList => DataType::List(element_field()),
            Self::TextMap => DataType::Map(entries_field(), false),
        }
    }

    /// Octets of one value, where each has the same number.
    pub(crate) const fn width(self) -> Option<usize> {
        match self {
            Self::Int8 => Some(1),
            Self::Int32 => Some(4),
            Self::Int64 | Self::Time => Some(8),
            _ => None,
        }
    }
}

pub(crate) fn element_field() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Binary, true))
}

pub(crate) fn map_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)])
}

pub(crate) fn entries_field() -> Arc<Field> {
    Arc::new(Field::new("entries", DataType::Struct(map_fields()), false))
}

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// The columns that rows of one sort have.
#[derive(PartialEq, Eq, Debug)]
pub struct Table {
    /// Its name in files.
    pub name: &'static str,
    /// All columns, in their order.
    pub columns: &'static [Column],
    /// Columns that are always kept.
    required: &'static [&'static str],
    /// Whether rows know where they stand: columns `shard`, which is made on reading, and `offset`.
    pub placed: bool,
}

macro_rules! columns {
    ($($name:literal: $kind:ident),+ $(,)?) => { &[$(Column { name: $name, kind: Kind::$kind }),+] };
}

/// Samples of Zenoh.
pub static SAMPLES: Table = Table {
    name: "samples",
    columns: columns! {
        "key": Text, "payload": Bytes, "kind": Int8, "encoding": Text, "ts": Time, "hlc": Int64,
        "hlc_id": Bytes, "source_zid": Bytes, "source_eid": Int64, "source_sn": Int64, "attachment": Bytes,
        "priority": Int8, "congestion_block": Bool, "express": Bool, "reliable": Bool, "link": Text,
        "recv_ts": Time, "offset": Int64,
    },
    required: &["key", "payload", "kind", "recv_ts", "offset"],
    placed: true,
};

/// Events of ZRE.
pub static ZRE: Table = Table {
    name: "zre",
    columns: columns! {
        "event": Text, "peer": Bytes, "peer_name": Text, "group": Text, "headers": TextMap,
        "content": BytesList, "status": Int32, "sequence": Int32, "endpoint": Text, "version": Int32,
        "recv_ts": Time, "offset": Int64,
    },
    required: &["event", "peer", "content", "recv_ts", "offset"],
    placed: true,
};

/// Records of ZRE/LOG.
pub static ZRE_LOG: Table = Table {
    name: "zre.log",
    columns: columns! {
        "level": Int8, "event": Int8, "node": Int32, "peer": Int32, "time": Time, "data": Text,
        "recv_ts": Time, "offset": Int64,
    },
    required: &["level", "event", "node", "data", "recv_ts", "offset"],
    placed: true,
};

/// What was lost, in which shard and in front of which offset.
pub static GAPS: Table = Table {
    name: "gaps",
    columns: columns! {
        "shard": Int32, "offset": Int64, "kind": Text, "source_zid": Bytes, "source_eid": Int64,
        "sn_from": Int64, "sn_to": Int64, "count": Int64, "recv_ts": Time, "detail": Text,
    },
    required: &[
        "shard",
        "offset",
        "kind",
        "source_zid",
        "source_eid",
        "sn_from",
        "sn_to",
        "count",
        "recv_ts",
        "detail",
    ],
    placed: false,
};

/// The tables that messages are kept in, by name.
pub fn table(name: &str) -> Option<&'static Table> {
    [&SAMPLES, &ZRE, &ZRE_LOG].into_iter().find(|table| table.name == name)
}

/// A table, and which of its columns are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The table.
    pub table: &'static Table,
    /// Its kept columns, in the table's order.
    pub columns: Vec<Column>,
}

impl Layout {
    /// The names of the columns that are kept, in their order.
    pub fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.name).collect()
    }

    /// All columns.
    pub fn whole(table: &'static Table) -> Self {
        Self { table, columns: table.columns.to_vec() }
    }

    /// These columns, and those that every spool keeps.
    ///
    /// # Errors
    ///
    /// The first name that is no column.
    pub fn select<'a, S: AsRef<str>>(table: &'static Table, names: &'a [S]) -> Result<Self, &'a str> {
        // Made on reading, so there is nothing to keep.
        let made = |name: &str| table.placed && name == "shard";
        if let Some(unknown) = names
            .iter()
            .map(S::as_ref)
            .find(|name| !made(name) && !table.columns.iter().any(|column| column.name == *name))
        {
            return Err(unknown);
        }
        let kept = |column: &&Column| {
            table.required.contains(&column.name) || names.iter().any(|name| name.as_ref() == column.name)
        };
        Ok(Self { table, columns: table.columns.iter().filter(kept).copied().collect() })
    }

    /// Where a column stands.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// What rows look like that are read: the kept columns, and `shard` in front of `offset`.
    pub fn read_columns(&self) -> Vec<Column> {
        let mut columns = self.columns.clone();
        if self.table.placed {
            let at = self.position("offset").unwrap_or(columns.len());
            columns.insert(at, Column { name: "shard", kind: Kind::Int32 });
        }
        columns
    }
}

/// The schema of Arrow for some columns. All may be null, as in schemas that Spark makes of text.
pub fn schema(columns: &[Column]) -> Schema {
    Schema::new(columns.iter().map(|c| Field::new(c.name, c.kind.data_type(), true)).collect::<Vec<_>>())
}
