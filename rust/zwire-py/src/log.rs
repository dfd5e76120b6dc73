//! Output of the Rust log: to Python's `logging`, and to standard error as configured by `RUST_LOG`.
//!
//! Records come from threads that must never wait for the interpreter, so they wait in the engine's
//! queue. One thread, started with the first record, attaches to Python and runs the reader that
//! `zwire.log` has set.

use crate::loops::ending;
use core::time::Duration;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::{sync::OnceLock, thread};
use tracing::level_filters::LevelFilter;
use zwire_engine::log::{self, Filter, Layer, Log, Record, Value};

/// Name of the thread that passes records on.
const NAME: &str = "zwire-log";

/// Functions set by `zwire.log` when it is imported: the reader, and the one that ends it.
static READER: OnceLock<(Py<PyAny>, Py<PyAny>)> = OnceLock::new();

/// Set once line output is enabled, which happens at most once.
static LINES: OnceLock<()> = OnceLock::new();

/// Installs the logger of this process.
pub(crate) fn install() {
    log::on_first(start);
    log::install();
}

/// Guard that marks the consumer as gone, however it ends.
struct Leave(&'static Log);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Starts the consumer thread, which waits for the interpreter; the caller does not.
fn start() -> bool {
    let Some((reader, _)) = READER.get() else { return false };
    let thread = thread::Builder::new().name(NAME.to_owned()).spawn(move || {
        let leave = Leave(Log::here());
        // At the end of the interpreter there is no logger left.
        let _ = Python::try_attach(|py| {
            if let Err(error) = ending::call(reader, &PyTuple::empty(py)) {
                error.write_unraisable(py, None);
            }
        });
        drop(leave);
    });
    thread.is_ok()
}

/// Imports `zwire.log` before something is opened that may log. Importing this module alone does not
/// import `logging`.
pub(crate) fn attach(py: Python<'_>) -> PyResult<()> {
    if READER.get().is_none() {
        ending::import(py, "zwire.log")?;
    }
    Ok(())
}

/// Ends the reader: everything is closed, and the interpreter is about to end.
pub(crate) fn end(py: Python<'_>) {
    if let Some((_, end)) = READER.get()
        && let Err(error) = end.call0(py)
    {
        error.write_unraisable(py, Some(end.bind(py)));
    }
}

/// Sets the function that the consumer thread runs, which calls `log_take` until nothing more comes, and
/// the function for the end of the interpreter.
#[pyfunction]
pub(crate) fn log_reader(py: Python<'_>, reader: Py<PyAny>, end: Py<PyAny>) {
    // Set once: a module is imported once.
    let _ = READER.set((reader, end));
    py.detach(|| Log::here().call_again());
}

/// Names of the loggers, in the order of `log_levels`.
#[pyfunction]
pub(crate) fn log_names() -> Vec<String> {
    Layer::ALL.iter().map(|layer| layer.target().replace("::", ".")).collect()
}

/// Sets the levels that the loggers let pass, as numbers of `logging`.
#[pyfunction]
pub(crate) fn log_levels(levels: [i64; Layer::COUNT]) {
    let levels = levels.map(|level| match level {
        ..=5 => LevelFilter::TRACE,
        6..=10 => LevelFilter::DEBUG,
        11..=20 => LevelFilter::INFO,
        21..=30 => LevelFilter::WARN,
        31..=40 => LevelFilter::ERROR,
        _ => LevelFilter::OFF,
    });
    log::set_record_levels(&levels);
}

const fn number(level: tracing::Level) -> u8 {
    match level {
        tracing::Level::ERROR => 40,
        tracing::Level::WARN => 30,
        tracing::Level::INFO => 20,
        tracing::Level::DEBUG => 10,
        tracing::Level::TRACE => 5,
    }
}

/// Sets how many records of one place in the source are passed on per `seconds`; None for all.
#[pyfunction]
pub(crate) fn log_limit(py: Python<'_>, burst: Option<u32>, seconds: f64) -> PyResult<()> {
    let period = Duration::try_from_secs_f64(seconds).ok().filter(|period| !period.is_zero());
    let Some(period) = period else {
        return Err(PyValueError::new_err("the period must be longer than 0 s"));
    };
    py.detach(|| Log::here().limit(burst, period));
    Ok(())
}

/// Waits for records and returns them; None at the end. Also writes the lines.
#[pyfunction]
pub(crate) fn log_take(py: Python<'_>) -> PyResult<Option<Vec<Bound<'_, PyTuple>>>> {
    let (records, end) = py.detach(|| {
        let taken = Log::here().take();
        log::write_lines(&taken.lines);
        (taken.records, taken.end)
    });
    if end && records.is_empty() {
        return Ok(None);
    }
    records.iter().map(|record| tuple(py, record)).collect::<PyResult<_>>().map(Some)
}

/// Converts a record: index of its logger, level, seconds since 1970, thread, file, line, text, fields.
fn tuple<'py>(py: Python<'py>, record: &Record) -> PyResult<Bound<'py, PyTuple>> {
    let fields = PyDict::new(py);
    for (name, value) in &record.fields {
        match value {
            Value::Signed(value) => fields.set_item(name, value)?,
            Value::Unsigned(value) => fields.set_item(name, value)?,
            Value::Float(value) => fields.set_item(name, value)?,
            Value::Bool(value) => fields.set_item(name, value)?,
            Value::Text(value) => fields.set_item(name, value)?,
        }
    }
    (
        record.layer as usize,
        number(record.level),
        record.time.as_secs_f64(),
        &record.thread,
        record.file,
        record.line,
        record.text(),
        fields,
    )
        .into_pyobject(py)
}

/// Waits until all records so far were passed on; False if that takes longer than `seconds`.
#[pyfunction]
pub(crate) fn log_flush(py: Python<'_>, seconds: f64) -> bool {
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
    py.detach(|| Log::here().flush(limit))
}

/// Ends the consumer thread after the waiting records. Returns whether it ended in time.
#[pyfunction]
pub(crate) fn log_close(py: Python<'_>, seconds: f64) -> bool {
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
    py.detach(|| Log::here().close(limit))
}

fn lines(py: Python<'_>, filter: &Filter) -> PyResult<()> {
    attach(py)?;
    // A second call changes nothing, as in eclipse-zenoh.
    if LINES.set(()).is_ok() {
        log::set_line_levels(&filter.levels());
    }
    Ok(())
}

/// Filter in `RUST_LOG`. As in eclipse-zenoh: nothing if any part of it is invalid, errors if it is empty.
fn from_env() -> Option<Filter> {
    let (filter, wrong) = Filter::parse(&std::env::var("RUST_LOG").ok()?);
    wrong.is_empty().then(|| filter.or_all(LevelFilter::ERROR))
}

/// Writes the log to standard error as configured by the environment variable `RUST_LOG`, such as
/// `zenoh::net=debug,info`; if it is unset or invalid, nothing is written.
#[pyfunction]
pub(crate) fn try_init_log_from_env(py: Python<'_>) -> PyResult<()> {
    from_env().map_or(Ok(()), |filter| lines(py, &filter))
}

/// As `try_init_log_from_env`, with a default if the variable is unset or invalid: a level (`off`,
/// `error`, `warn`, `info`, `debug`, `trace`) or any other value for the variable.
#[pyfunction]
#[pyo3(signature = (level))]
pub(crate) fn init_log_from_env_or(py: Python<'_>, level: &str) -> PyResult<()> {
    let filter = from_env().unwrap_or_else(|| {
        let (filter, wrong) = Filter::parse(level);
        let wrong: Vec<String> = wrong.iter().map(|error| format!("ignored: {error}")).collect();
        log::write_lines(&wrong);
        filter.or_all(LevelFilter::ERROR)
    });
    lines(py, &filter)
}

/// Whether line output is enabled.
#[pyfunction]
pub(crate) fn log_has_lines() -> bool {
    LINES.get().is_some()
}
