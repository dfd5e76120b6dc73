//! The table of columns for Python, and former names of columns.

use pyo3::prelude::*;
use std::collections::BTreeMap;
use zwire_spool::columns::{ALL, Table};

/// Name, type of SQL and meaning of each column of a table, and its former names.
type Described = (Vec<(&'static str, &'static str, &'static str)>, BTreeMap<&'static str, &'static str>);

/// All tables of columns by name: name, type of SQL and meaning of each column; former names with the present ones.
#[pyfunction]
pub(crate) fn column_tables() -> BTreeMap<&'static str, Described> {
    let described = |table: &&'static Table| {
        let columns = table.columns.iter().map(|c| (c.name, c.kind.sql(), c.about)).collect();
        (table.name, (columns, table.renamed.iter().copied().collect()))
    };
    ALL.iter().map(described).collect()
}

/// Warns of input that is accepted for one more release, at the line of the program that gave it.
pub(crate) fn deprecated(py: Python<'_>, text: &str) -> PyResult<()> {
    py.import("zwire.columns")?.call_method1("deprecated", (text,)).map(drop)
}

/// Names of the columns that a caller selects; warns of former names.
pub(crate) fn checked_names<'a>(
    py: Python<'_>,
    table: &Table,
    names: Option<&'a [String]>,
) -> PyResult<Option<Vec<&'a str>>> {
    let checked = |name: &'a String| check_name(py, table, name).map(|()| name.as_str());
    names.map(|names| names.iter().map(checked).collect()).transpose()
}

/// Warns if this is the former name of a column.
pub(crate) fn check_name(py: Python<'_>, table: &Table, name: &str) -> PyResult<()> {
    let Some(new) = table.present(name) else { return Ok(()) };
    let problem =
        format!("column {name:?} is called {new:?} now; the former name will be refused in the next release");
    deprecated(py, &problem)
}
