//! Spools: views, appenders, ranges and writers, and the settings with which Python opens one for writing.

pub(crate) mod append;
pub(crate) mod range;
pub(crate) mod view;
pub(crate) mod writer;

use crate::{
    columns::check_name,
    errors::{self, OrRaise},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};
use zwire_recorder::Error;
use zwire_spool::{Durability, Layout, Options, Rule, Wanted, layout::table};

impl<R> OrRaise<R> for Result<R, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<R> {
        self.map_err(|error| match error {
            Error::Spool(error) => errors::spool(py, &error),
            Error::Usage(problem) => errors::usage(py, problem),
            Error::UnknownColumn { .. } | Error::ColumnType { .. } => PyTypeError::new_err(error.to_string()),
            Error::Thread(error) => error.into(),
            _ => PyValueError::new_err(error.to_string()),
        })
    }
}

/// Seconds of Python in microseconds.
pub(crate) const fn micros(seconds: f64) -> i64 {
    (seconds * 1e6) as i64
}

/// Settings from Python with which a spool is opened for writing.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    table: String,
    columns: Option<Vec<String>>,
    shards: u32,
    shard_keys: Option<Vec<String>>,
    durability: String,
    segment_bytes: u64,
    segment_seconds: f64,
}

impl Settings {
    /// Layout, shards and options, as the spool expects them.
    pub(crate) fn parse(&self, py: Python<'_>) -> PyResult<(Wanted, Options)> {
        let usage = |problem: String| PyValueError::new_err(problem);
        let table = table(&self.table).ok_or_else(|| usage(format!("no table {:?}", self.table)))?;
        for name in self.columns.iter().flatten() {
            check_name(py, table.rows, name)?;
        }
        let layout = match &self.columns {
            None => Layout::whole(table),
            Some(names) => Layout::select(table, names).map_err(|name| {
                let names: Vec<_> = table.rows.columns.iter().map(|column| column.name).collect();
                errors::option(py, "columns", &format!("{name:?} is not one of {}", names.join(", ")))
            })?,
        };
        let durability = match self.durability.as_str() {
            "os" => Durability::Os,
            "disk" => Durability::Disk,
            other => return Err(errors::option(py, "durability", &format!("{other:?} is not os or disk"))),
        };
        let rule = self.shard_keys.clone().map_or(Rule::Hash, Rule::Keys);
        let options = Options {
            durability,
            segment_bytes: self.segment_bytes,
            segment_micros: micros(self.segment_seconds),
            ..Options::default()
        };
        Ok((Wanted { layout, shards: self.shards, rule }, options))
    }
}
