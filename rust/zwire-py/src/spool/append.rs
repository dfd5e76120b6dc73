//! `SpoolAppender`: rows and batches of Python for a spool, without any network.

use crate::{
    arrow::import,
    columns::{check_name, deprecated},
    errors::OrRaise,
    options::Options,
};
use bytes::Bytes;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};
use std::path::PathBuf;
use zwire_recorder::{Appender, Cell, Clock};
use zwire_spool::{
    layout::{Column, Kind},
    stored::Form,
};

/// Warns that a column has the type of files, not the type that readers see.
fn as_stored(py: Python<'_>, name: &str, texts: &str) -> PyResult<()> {
    deprecated(
        py,
        &format!("column {name:?} is a text ({texts}); other types will be refused in the next release"),
    )
}

/// Value of a column, as Python gives it.
fn cell(value: &Bound<'_, PyAny>, column: &Column, name: &str) -> PyResult<Cell> {
    if value.is_none() {
        return Ok(Cell::Null);
    }
    let (kind, form) = (column.kind, column.form);
    if form != Form::Same {
        if let Ok(text) = value.extract::<String>() {
            return form.store(&text).ok_or_else(|| {
                PyValueError::new_err(format!("column {name:?} must be {}, not {text:?}", form.texts()))
            });
        }
        as_stored(value.py(), name, form.texts())?;
    }
    let octets = |value: &Bound<'_, PyAny>| value.extract::<Vec<u8>>().map(Bytes::from);
    Ok(match kind {
        Kind::Text => Cell::Text(value.extract()?),
        Kind::Bytes => match value.extract::<String>() {
            Ok(text) => Cell::Bytes(text.into()),
            Err(_) => Cell::Bytes(octets(value)?),
        },
        Kind::Bool => Cell::Bool(value.extract()?),
        Kind::BytesList => {
            let items = value.try_iter()?.map(|item| octets(&item?)).collect::<PyResult<_>>()?;
            Cell::List(items)
        }
        Kind::TextMap => {
            Cell::Map(value.extract::<std::collections::BTreeMap<_, _>>()?.into_iter().collect())
        }
        _ => Cell::Int(value.extract()?),
    })
}

/// Writes rows and batches into a spool.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolAppender(Appender);

impl SpoolAppender {
    /// Checks that rows may have a column of this name, and warns of a former name.
    fn check(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.0.check_column(name).or_raise(py)?;
        check_name(py, self.0.layout().table.rows, name)
    }
}

methods! { SpoolAppender, |this, py|
    /// Writes buffered rows and publishes them to readers.
    flush: PyResult<()> = py.detach(|| this.0.flush()).or_raise(py);
    /// Ends the open segments, so that programs that read Arrow files can read them.
    seal: PyResult<()> = py.detach(|| this.0.seal()).or_raise(py);
    /// Writes and seals everything and releases the spool. A second call does nothing.
    close: PyResult<()> = py.detach(|| this.0.close()).or_raise(py);
}

#[pymethods]
impl SpoolAppender {
    #[new]
    fn new(py: Python<'_>, dir: PathBuf, settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        let (wanted, options) = Options::read(settings, |from| super::read(py, from))?;
        let appender = py.detach(|| Appender::open(&dir, &wanted, &options, Clock::default()));
        appender.map(Self).or_raise(py)
    }

    /// Appends a row.
    fn append(&self, py: Python<'_>, shard: Option<u32>, row: &Bound<'_, PyDict>) -> PyResult<()> {
        for name in row.keys() {
            self.check(py, &name.extract::<String>()?)?;
        }
        let mut cells = Vec::with_capacity(self.0.layout().columns.len());
        for (column, stored) in self.0.columns() {
            let value = match row.get_item(column.name)? {
                None if stored.name != column.name => row.get_item(stored.name)?,
                value => value,
            };
            cells.push(value.map(|value| cell(&value, stored, column.name)).transpose()?);
        }
        py.detach(|| self.0.append(shard, cells)).or_raise(py)
    }

    /// Appends the rows of a batch; returns how many.
    fn append_batch(&self, py: Python<'_>, shard: Option<u32>, batch: &Bound<'_, PyAny>) -> PyResult<usize> {
        let batch = import(batch)?;
        for field in batch.schema().fields() {
            self.check(py, field.name())?;
        }
        for (name, texts) in self.0.former_types(&batch) {
            as_stored(py, name, texts)?;
        }
        py.detach(|| self.0.append_batch(shard, &batch)).or_raise(py)
    }

    /// Appends a row to the gap log.
    #[pyo3(signature = (shard, kind, count, detail))]
    fn append_gap(
        &self,
        py: Python<'_>,
        shard: u32,
        kind: &str,
        count: Option<u64>,
        detail: String,
    ) -> PyResult<()> {
        py.detach(|| self.0.append_gap(shard, kind, count, detail)).or_raise(py)
    }
}
