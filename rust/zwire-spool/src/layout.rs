//! Columns and shards of a spool, as its files have them.
//!
//! Names and types here are those of format 1. Rows are read with the names and types of [`crate::columns`];
//! [`crate::stored`] converts columns that differ.

pub use crate::columns::Kind;
use crate::{columns, stored::Form};
use core::fmt;

/// Most shards of a spool, more than machines have cores; larger numbers are refused, as in a damaged file.
pub const MAX_SHARDS: u32 = 1024;

/// Ordered log of a spool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Shard {
    /// Shard with a part of the messages.
    Data(u32),
    /// Gap log: losses and their reasons.
    Gaps,
}

impl Shard {
    /// Name of its folder.
    pub fn folder(self) -> String {
        match self {
            Self::Data(number) => number.to_string(),
            Self::Gaps => "gaps".to_owned(),
        }
    }

    /// Number of the shard in files.
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

/// Column of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Type of its values.
    pub kind: Kind,
    /// Conversion when it is read.
    pub form: Form,
}

/// Columns of one kind of rows.
#[derive(PartialEq, Eq, Debug)]
pub struct Table {
    /// Its name in files.
    pub name: &'static str,
    /// Columns of its rows as readers see them.
    pub rows: &'static columns::Table,
    /// All columns, in their order.
    pub columns: &'static [Column],
    /// Columns that every spool stores.
    required: &'static [&'static str],
    /// Whether rows have their place: the columns `shard`, which is made on reading, and `offset`.
    pub placed: bool,
}

impl Table {
    /// Column that readers see for a stored column.
    fn read(&self, column: &Column) -> columns::Column {
        let name = self.rows.present(column.name).unwrap_or(column.name);
        let same = columns::Column { name, kind: column.kind, about: "" };
        self.rows.column(name).copied().unwrap_or(same)
    }

    /// Match either name of a column: the one in files or the one that readers see.
    fn is(&self, column: &Column, name: &str) -> bool {
        column.name == name || self.read(column).name == name
    }
}

macro_rules! columns {
    ($($name:literal: $kind:ident $(as $form:ident)?),+ $(,)?) => {
        &[$(Column { name: $name, kind: Kind::$kind, form: columns!(form $($form)?) }),+]
    };
    (form) => { Form::Same };
    (form $form:ident) => { Form::$form };
}

/// Samples of Zenoh.
pub static SAMPLES: Table = Table {
    name: "samples",
    rows: &columns::SAMPLE,
    columns: columns! {
        "key": Text, "payload": Bytes, "kind": Int8 as Kind, "encoding": Text, "ts": Time, "hlc": Int64,
        "hlc_id": Bytes, "source_zid": Bytes, "source_eid": Int64, "source_sn": Int64, "attachment": Bytes,
        "priority": Int8, "congestion_block": Bool as Blocks, "express": Bool, "reliable": Bool, "link": Text,
        "recv_ts": Time, "offset": Int64,
    },
    required: &["key", "payload", "kind", "recv_ts", "offset"],
    placed: true,
};

/// Events of ZRE.
pub static ZRE: Table = Table {
    name: "zre",
    rows: &columns::ZRE,
    columns: columns! {
        "event": Text, "peer": Bytes as Hex, "peer_name": Text, "group": Text, "headers": TextMap,
        "content": BytesList, "status": Int32, "sequence": Int32, "endpoint": Text, "version": Int32,
        "recv_ts": Time, "offset": Int64,
    },
    required: &["event", "peer", "content", "recv_ts", "offset"],
    placed: true,
};

/// Records of ZRE/LOG.
pub static ZRE_LOG: Table = Table {
    name: "zre.log",
    rows: &columns::ZRE_LOG,
    columns: columns! {
        "level": Int8, "event": Int8, "node": Int32, "peer": Int32, "time": Time, "data": Text,
        "recv_ts": Time, "offset": Int64,
    },
    required: &["level", "event", "node", "data", "recv_ts", "offset"],
    placed: true,
};

/// Losses, each with its shard and the offset that it precedes.
pub static GAPS: Table = Table {
    name: "gaps",
    rows: &columns::GAP,
    columns: columns! {
        "shard": Int32, "offset": Int64, "kind": Text, "source_zid": Bytes, "source_eid": Int64,
        "sn_from": Int64, "sn_to": Int64, "count": Int64, "recv_ts": Time, "detail": Text,
    },
    // Layouts of the gap log are whole.
    required: &[],
    placed: false,
};

/// Table of messages by name; the gap log is not among them.
pub fn table(name: &str) -> Option<&'static Table> {
    [&SAMPLES, &ZRE, &ZRE_LOG].into_iter().find(|table| table.name == name)
}

/// Table with a choice of its columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The table.
    pub table: &'static Table,
    /// Stored columns, in the order of the table.
    pub columns: Vec<Column>,
}

impl Layout {
    /// Names of the stored columns in files, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.name).collect()
    }

    /// Layout with all columns of a table.
    pub fn whole(table: &'static Table) -> Self {
        Self { table, columns: table.columns.to_vec() }
    }

    /// Layout with the required columns and those named by either name; fails with the first unknown.
    pub fn select<'a, S: AsRef<str>>(table: &'static Table, names: &'a [S]) -> Result<Self, &'a str> {
        // Made on reading, and not stored.
        let made = |name: &str| table.placed && name == "shard";
        if let Some(unknown) = names
            .iter()
            .map(S::as_ref)
            .find(|name| !made(name) && !table.columns.iter().any(|column| table.is(column, name)))
        {
            return Err(unknown);
        }
        let kept = |column: &&Column| {
            table.required.contains(&column.name) || names.iter().any(|name| table.is(column, name.as_ref()))
        };
        Ok(Self { table, columns: table.columns.iter().filter(kept).copied().collect() })
    }

    /// Position of a column, by either of its names.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| self.table.is(column, name))
    }

    /// Column that readers see for a stored column, by its position.
    pub fn read_column(&self, position: usize) -> columns::Column {
        self.table.read(&self.columns[position])
    }

    /// Columns that readers see: the stored ones, and `shard` before `offset`. Each with its position among the
    /// stored columns; `None` for `shard`, which is made on reading.
    pub(crate) fn places(&self) -> Vec<(columns::Column, Option<usize>)> {
        let mut places: Vec<_> =
            (0..self.columns.len()).map(|position| (self.read_column(position), Some(position))).collect();
        if self.table.placed
            && let Some(shard) = self.table.rows.column("shard")
        {
            places.insert(self.position("offset").unwrap_or(places.len()), (*shard, None));
        }
        places
    }

    /// Columns that readers see.
    pub fn read_columns(&self) -> Vec<columns::Column> {
        self.places().into_iter().map(|(column, _)| column).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rows_are_read_with_the_columns_of_their_table() {
        for table in [&SAMPLES, &ZRE, &ZRE_LOG, &GAPS] {
            assert_eq!(Layout::whole(table).read_columns(), table.rows.columns, "{}", table.name);
            for column in table.columns {
                let read = table.read(column);
                assert_eq!(column.form == Form::Same, column.kind == read.kind, "{}", column.name);
            }
        }
    }

    #[test]
    fn columns_are_selected_by_either_name() {
        let names = |names: &[&str]| Layout::select(&SAMPLES, names).map(|layout| layout.names()).unwrap();
        assert_eq!(names(&["timestamp", "congestion"]), names(&["ts", "congestion_block", "shard"]));
        assert_eq!(Layout::select(&SAMPLES, &["key", "time"]), Err("time"));
        let all = Layout::whole(&ZRE);
        assert_eq!((all.position("peer_name"), all.position("name")), (Some(2), Some(2)));
    }
}
