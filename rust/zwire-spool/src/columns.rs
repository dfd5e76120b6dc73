//! Names, types and meanings of all columns: one table for Rust, Python and Spark.
//!
//! A name has one type in all tables. Importing `zwire.columns` reads these tables, and batches that are received,
//! decoded or read from a spool get their schemas from here.
//!
//! All columns may be null, and are of types that Spark takes from Arrow without a conversion: no dictionaries, no
//! unsigned numbers, no nanoseconds, no wide offsets.

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use std::sync::Arc;

/// Type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names tell")]
pub enum Kind {
    Text,
    Bytes,
    Bool,
    Int8,
    Int32,
    Int64,
    /// Microseconds since 1970, UTC.
    Time,
    BytesList,
    TextList,
    TextMap,
}

impl Kind {
    /// Type in Arrow.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Text => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Bool => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::BytesList => DataType::List(element_field(DataType::Binary)),
            Self::TextList => DataType::List(element_field(DataType::Utf8)),
            Self::TextMap => DataType::Map(entries_field(), false),
        }
    }

    /// Type in SQL, as Spark writes it.
    pub const fn sql(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Bytes => "binary",
            Self::Bool => "boolean",
            Self::Int8 => "tinyint",
            Self::Int32 => "int",
            Self::Int64 => "bigint",
            Self::Time => "timestamp",
            Self::BytesList => "array<binary>",
            Self::TextList => "array<string>",
            Self::TextMap => "map<string,string>",
        }
    }

    /// Octets of one value; `None` if the size varies or is not whole octets.
    pub(crate) const fn width(self) -> Option<usize> {
        match self {
            Self::Int8 => Some(1),
            Self::Int32 => Some(4),
            Self::Int64 | Self::Time => Some(8),
            _ => None,
        }
    }
}

/// The items of a list, named as Spark names them.
pub fn element_field(kind: DataType) -> Arc<Field> {
    Arc::new(Field::new("element", kind, true))
}

pub(crate) fn map_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)])
}

pub(crate) fn entries_field() -> Arc<Field> {
    Arc::new(Field::new("entries", DataType::Struct(map_fields()), false))
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its meaning.
    pub about: &'static str,
}

impl Column {
    const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, about }
    }

    /// Override the meaning for the rows of one table.
    const fn of(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

/// Columns of one kind of rows.
#[derive(PartialEq, Eq, Debug)]
pub struct Table {
    /// Name of the table in Python.
    pub name: &'static str,
    /// The columns, in their order.
    pub columns: &'static [Column],
    /// Former names, each with the present one. Accepted as input for one release.
    pub renamed: &'static [(&'static str, &'static str)],
}

impl Table {
    /// Arrow schema of the table.
    pub fn schema(&self) -> Schema {
        schema(self.columns.iter().map(|column| (column.name, column.kind)))
    }

    /// Column by name.
    pub fn column(&self, name: &str) -> Option<&'static Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The present name of a column that was renamed.
    pub fn present(&self, former: &str) -> Option<&'static str> {
        self.renamed.iter().find(|(old, _)| *old == former).map(|(_, new)| *new)
    }
}

/// Arrow schema for names with types. All columns may be null, as in schemas that Spark makes of text.
pub fn schema(columns: impl IntoIterator<Item = (&'static str, Kind)>) -> Schema {
    Schema::new(
        columns.into_iter().map(|(name, kind)| Field::new(name, kind.data_type(), true)).collect::<Vec<_>>(),
    )
}

const KEY: Column = Column::new("key", Kind::Text, "key expression");
const PAYLOAD: Column = Column::new("payload", Kind::Bytes, "value; null of a deletion");
const KIND: Column = Column::new("kind", Kind::Text, "`put` or `del`");
const ENCODING: Column = Column::new("encoding", Kind::Text, "type of the payload, `name` or `name;schema`");
const TIMESTAMP: Column =
    Column::new("timestamp", Kind::Time, "time stamp that the sender or a router made, cut to microseconds");
const HLC: Column =
    Column::new("hlc", Kind::Int64, "all 64 bits of the time stamp (NTP64); negative from 2038 on");
const HLC_ID: Column =
    Column::new("hlc_id", Kind::Bytes, "id of the clock of the time stamp, as on the wire");
const SOURCE_ZID: Column = Column::new(
    "source_zid",
    Kind::Bytes,
    "source information: id of the publisher's session, as on the wire",
);
const SOURCE_EID: Column =
    Column::new("source_eid", Kind::Int64, "source information: number of the publisher in its session");
const SOURCE_SN: Column = Column::new("source_sn", Kind::Int64, "source information: number of the sample");
const ATTACHMENT: Column = Column::new("attachment", Kind::Bytes, "attachment");
const PRIORITY: Column =
    Column::new("priority", Kind::Int8, "1 (real time) to 7 (background); 0 (control) in records only");
const CONGESTION: Column =
    Column::new("congestion", Kind::Text, "congestion control: `drop`, `block` or `block_first`");
const EXPRESS: Column = Column::new("express", Kind::Bool, "sent without waiting for a batch to fill");
const RELIABLE: Column = Column::new("reliable", Kind::Bool, "came over the reliable channel");
const LINK: Column = Column::new("link", Kind::Text, "locator of the neighbour that it came from");
const RECV_TS: Column = Column::new("recv_ts", Kind::Time, "time of receipt, by the clock of the receiver");
const SHARD: Column = Column::new("shard", Kind::Int32, "shard of the spool");
const OFFSET: Column = Column::new("offset", Kind::Int64, "place in the shard: dense and never used twice");

const TYPE: Column = Column::new(
    "type",
    Kind::Text,
    "`ENTER`, `EXIT`, `EVASIVE`, `SILENT`, `JOIN`, `LEAVE`, `WHISPER`, `SHOUT`, `MESSAGES_LOST`, `LEADER` or `STOP`",
);
const PEER: Column = Column::new("peer", Kind::Text, "UUID of the peer: 32 upper-case hexadecimal digits");
const NAME: Column = Column::new("name", Kind::Text, "name of the peer");
const ADDRESS: Column = Column::new("address", Kind::Text, "endpoint of the peer, `tcp://host:port`");
const GROUP: Column = Column::new("group", Kind::Text, "group that the event is about");
const HEADERS: Column = Column::new("headers", Kind::TextMap, "headers of the HELLO");
const CONTENT: Column = Column::new("content", Kind::BytesList, "frames of the message");
const LOST: Column = Column::new("lost", Kind::Int32, "number of messages that are missing");
const STATUS: Column =
    Column::new("status", Kind::Int32, "how often the peer joined or left a group, modulo 256");
const SEQUENCE: Column = Column::new("sequence", Kind::Int32, "number of the message");
const VERSION: Column = Column::new("version", Kind::Int32, "version of the protocol: 1, 2 or 3");
const ERROR: Column = Column::new("error", Kind::Text, "reason of a failure");

/// Rows of `recv_batch` of a subscriber.
pub static RECEIVED: Table = Table {
    name: "received",
    columns: &[KEY, PAYLOAD, KIND, ENCODING, TIMESTAMP, ATTACHMENT, PRIORITY, CONGESTION, EXPRESS],
    renamed: &[],
};

/// Rows of `put_batch`.
pub static PUT: Table = Table {
    name: "put",
    columns: &[
        KEY, PAYLOAD, ENCODING, ATTACHMENT, KIND, PRIORITY, CONGESTION, EXPRESS, TIMESTAMP, HLC, HLC_ID,
    ],
    renamed: &[("ts", "timestamp")],
};

/// Samples, as spools and recordings have them.
pub static SAMPLE: Table = Table {
    name: "sample",
    columns: &[
        KEY, PAYLOAD, KIND, ENCODING, TIMESTAMP, HLC, HLC_ID, SOURCE_ZID, SOURCE_EID, SOURCE_SN, ATTACHMENT,
        PRIORITY, CONGESTION, EXPRESS, RELIABLE, LINK, RECV_TS, SHARD, OFFSET,
    ],
    renamed: &[("ts", "timestamp"), ("congestion_block", "congestion")],
};

/// Replies to queries.
pub static REPLY: Table = Table {
    name: "reply",
    columns: &[
        KEY,
        PAYLOAD.of("value, or the bytes of an error reply; null of a deletion"),
        ENCODING,
        TIMESTAMP,
        Column::new("replier", Kind::Text, "id of the session that answered"),
        ERROR.of("an error reply as text, or why there is no reply"),
    ],
    renamed: &[],
};

/// Messages in captured traffic.
pub static RECORD: Table = Table {
    name: "record",
    columns: &[
        Column::new("ts", Kind::Time, "time of capture of the last byte"),
        Column::new("src", Kind::Text, "`ip:port` of the sender"),
        Column::new("dst", Kind::Text, "`ip:port` of the receiver"),
        Column::new("protocol", Kind::Text, "`zenoh`, `zre`, `zrelog` or `zmtp`"),
        Column::new("message", Kind::Text, "name of the message; `error` where bytes could not be decoded"),
        KIND.of("`put` or `del` of a push; of other messages what the protocol distinguishes"),
        KEY,
        Column::new("scope", Kind::Int32, "number of a key whose declaration was not captured"),
        Column::new("suffix", Kind::Text, "text behind that number"),
        PAYLOAD,
        ENCODING,
        TIMESTAMP,
        HLC,
        HLC_ID,
        ATTACHMENT,
        PRIORITY,
        CONGESTION,
        EXPRESS,
        Column::new("request_id", Kind::Int64, "joins a request, its responses and their end on one link"),
        Column::new("parameters", Kind::Text, "parameters of a query"),
        Column::new("consolidation", Kind::Text, "`auto`, `none`, `monotonic` or `latest`"),
        Column::new("target", Kind::Text, "`best_matching`, `all` or `all_complete`"),
        Column::new("sn", Kind::Int64, "sequence number of the frame; the initial one of `open`"),
        PEER,
        NAME,
        ADDRESS,
        GROUP,
        SEQUENCE,
        STATUS,
        Column::new("groups", Kind::TextList, "groups of a HELLO"),
        HEADERS.of("headers of a HELLO, properties of a handshake, fields of a log or gossip"),
        CONTENT,
        ERROR.of("what could not be decoded"),
        OFFSET.of("where in the stream, datagram or file it could not be decoded"),
    ],
    renamed: &[],
};

/// Rows of `recv_batch` of a ZRE node.
pub static ZRE_RECEIVED: Table = Table {
    name: "zre_received",
    columns: &[TYPE, PEER, NAME, ADDRESS, GROUP, HEADERS, CONTENT, LOST, RECV_TS],
    renamed: &[],
};

/// Events of ZRE, as spools have them.
pub static ZRE: Table = Table {
    name: "zre",
    columns: &[
        TYPE, PEER, NAME, GROUP, HEADERS, CONTENT, STATUS, SEQUENCE, ADDRESS, VERSION, RECV_TS, SHARD, OFFSET,
    ],
    renamed: &[("event", "type"), ("peer_name", "name"), ("endpoint", "address")],
};

/// Records of ZRE/LOG, as spools have them.
pub static ZRE_LOG: Table = Table {
    name: "zre_log",
    columns: &[
        Column::new("level", Kind::Int8, "1 (error), 2 (warning) or 3 (info)"),
        Column::new(
            "event",
            Kind::Int8,
            "0 (none), 1 (join), 2 (leave), 3 (enter), 4 (exit), 5 (send), 6 (receive)",
        ),
        Column::new("node_hash", Kind::Int32, "hash of the node that logged it, 0 to 65535"),
        Column::new("peer_hash", Kind::Int32, "hash of the peer that it is about; 0 where there is none"),
        TIMESTAMP.of("time that the record says, cut to microseconds"),
        Column::new("data", Kind::Text, "text of the record"),
        RECV_TS,
        SHARD,
        OFFSET,
    ],
    renamed: &[("node", "node_hash"), ("peer", "peer_hash"), ("time", "timestamp")],
};

/// Rows of the gap log of a spool.
pub static GAP: Table = Table {
    name: "gap",
    columns: &[
        SHARD,
        OFFSET.of("place of the next row behind what is missing"),
        KIND.of("`gap`, `drop`, `reconnect`, `epoch` or `duplicate`"),
        SOURCE_ZID,
        SOURCE_EID,
        Column::new("sn_from", Kind::Int64, "first number of the publisher that is missing"),
        Column::new("sn_to", Kind::Int64, "last number of the publisher that is missing"),
        Column::new("count", Kind::Int64, "number of messages that are missing"),
        RECV_TS.of("time at which it was noticed"),
        Column::new("detail", Kind::Text, "explanation"),
    ],
    renamed: &[],
};

const FRAMES: Column = Column::new("frames", Kind::BytesList, "frames of the message");

/// Rows of `recv_batch` of a ZMTP socket.
pub static ZMTP: Table = Table { name: "zmtp", columns: &[FRAMES], renamed: &[] };

/// Rows of `recv_batch` of a ROUTER socket of ZMTP.
pub static ZMTP_ROUTER: Table = Table {
    name: "zmtp_router",
    columns: &[Column::new("identity", Kind::Bytes, "identity of the sender"), FRAMES],
    renamed: &[],
};

/// All tables.
pub static ALL: [&Table; 11] =
    [&SAMPLE, &RECEIVED, &PUT, &REPLY, &RECORD, &GAP, &ZRE, &ZRE_RECEIVED, &ZRE_LOG, &ZMTP, &ZMTP_ROUTER];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_name_has_one_type_everywhere() {
        let mut kinds = BTreeMap::new();
        for (table, column) in ALL.iter().flat_map(|table| table.columns.iter().map(move |c| (table, c))) {
            let (first, kind) = *kinds.entry(column.name).or_insert((table.name, column.kind));
            assert_eq!(kind, column.kind, "{} in {first} and {}", column.name, table.name);
        }
        assert!(kinds.len() > 40);
    }

    #[test]
    fn a_table_has_a_name_once() {
        for table in ALL {
            let names: BTreeSet<_> = table.columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            for (old, new) in table.renamed {
                assert!(
                    table.column(old).is_none() && table.column(new).is_some(),
                    "{old} in {}",
                    table.name
                );
                assert_eq!(table.present(old), Some(*new));
            }
        }
    }
}
