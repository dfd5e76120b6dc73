//! Spools: views, appenders, ranges and writers, and the options with which Python opens one for writing.

pub(crate) mod append;
pub(crate) mod compact;
pub(crate) mod kafka;
pub(crate) mod range;
pub(crate) mod reshard;
pub(crate) mod view;
pub(crate) mod writer;

use crate::{
    columns::check_name,
    errors::{self, OrRaise},
    options::{OptionValue, Options},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};
use zwire_recorder::Error;
use zwire_spool::{Compression, Durability, Layout, Options as SpoolOptions, Rule, Wanted, layout::table};

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

/// Reads layout, shards and options with which a spool is opened for writing.
pub(crate) fn read(py: Python<'_>, from: &Options<'_, '_>) -> PyResult<(Wanted, SpoolOptions)> {
    let name = from.take("table")?.unwrap_or_else(|| "samples".to_owned());
    let table = table(&name).ok_or_else(|| PyValueError::new_err(format!("no table {name:?}")))?;
    let columns: Option<Vec<String>> = from.take("columns")?;
    for name in columns.iter().flatten() {
        check_name(py, table.rows, name)?;
    }
    let layout = match &columns {
        None => Layout::whole(table),
        Some(names) => Layout::select(table, names).map_err(|name| {
            let names: Vec<_> = table.rows.columns.iter().map(|column| column.name).collect();
            from.wrong("columns", format!("{name:?} is not one of {}", names.join(", ")))
        })?,
    };
    let durability = match from.take::<String>("durability")?.as_deref() {
        None | Some("os") => Durability::Os,
        Some("disk") => Durability::Disk,
        Some(other) => return Err(from.wrong("durability", format!("{other:?} is not os or disk"))),
    };
    let compression = match from.take::<String>("compression")? {
        None => Compression::default(),
        Some(name) => {
            let found = Compression::ALL.into_iter().find(|(known, _)| *known == name);
            found.ok_or_else(|| from.wrong("compression", format!("{name:?} is not none, lz4 or zstd")))?.1
        }
    };
    let mut options = SpoolOptions { durability, compression, ..SpoolOptions::default() };
    from.set("segment_bytes", &mut options.segment_bytes)?;
    options.segment_micros = from.take("segment_seconds")?.map_or(options.segment_micros, |Micros(age)| age);
    let rule = from.take("shard_keys")?.map_or(Rule::Hash, Rule::Keys);
    Ok((Wanted { layout, shards: from.take("shards")?.unwrap_or(1), rule }, options))
}

/// Seconds of Python in microseconds; infinity is the largest number of them.
pub(crate) struct Micros(pub(crate) i64);

impl OptionValue for Micros {
    const WANTED: &'static str = "a number of seconds, 0 or more";

    fn of(value: &Bound<'_, PyAny>) -> Option<Self> {
        value
            .extract()
            .ok()
            .filter(|seconds| *seconds >= 0.0)
            .map(|seconds: f64| Self((seconds * 1e6) as i64))
    }
}
