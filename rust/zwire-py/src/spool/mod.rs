//! Spools: views, appenders, ranges and writers.

pub(crate) mod append;
pub(crate) mod range;
pub(crate) mod settings;
pub(crate) mod view;
pub(crate) mod writer;

use crate::errors;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};
use zwire_recorder::Error;

/// Exception of an error of the recorder.
pub(crate) fn failed(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Spool(error) => errors::spool(py, &error),
        Error::Usage(problem) => errors::usage(py, problem),
        Error::UnknownColumn { .. } | Error::ColumnType { .. } => PyTypeError::new_err(error.to_string()),
        Error::Thread(error) => error.into(),
        _ => PyValueError::new_err(error.to_string()),
    }
}
