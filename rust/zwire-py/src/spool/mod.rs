//! Spools: views, appenders, ranges and writers.

pub(crate) mod append;
pub(crate) mod range;
pub(crate) mod settings;
pub(crate) mod view;
pub(crate) mod writer;

use crate::errors::{self, OrRaise};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};
use zwire_recorder::Error;

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
