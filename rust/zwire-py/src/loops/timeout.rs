//! Timeouts: seconds of Python as durations.

use core::time::Duration;
use pyo3::{exceptions::PyValueError, prelude::*};

/// Converts the seconds of a timeout; negative numbers and NaN raise `ValueError`.
pub(crate) fn seconds(value: Option<f64>) -> PyResult<Option<Duration>> {
    seconds_of("timeout", value)
}

/// As [`seconds`], for an argument of another name.
pub(crate) fn seconds_of(name: &str, value: Option<f64>) -> PyResult<Option<Duration>> {
    let problem = |s: f64| PyValueError::new_err(format!("{name} must be seconds >= 0, not {s}"));
    value.map(|s| Duration::try_from_secs_f64(s).map_err(|_| problem(s))).transpose()
}
