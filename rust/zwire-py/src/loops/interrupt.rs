//! Timeouts of waiting engine calls, and their interruption by Ctrl-C or by another thread.

use crate::{errors::OrRaise, loops::ending};
use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use pyo3::{
    exceptions::{PyInterruptedError, PyValueError},
    prelude::*,
};
use std::{
    sync::Arc,
    thread::{self, ThreadId},
};
use zwire_engine::Error;

/// Threads that another thread may interrupt, as Ctrl-C interrupts the main thread, each with the flag that says
/// so. Accessed with the interpreter lock only: a forked child never inherits a locked list.
static INTERRUPTIBLE: Mutex<Vec<(ThreadId, Arc<AtomicBool>)>> = Mutex::new(Vec::new());

/// Lets `flag` end waits in this thread until the guard is dropped.
pub(crate) fn stopped_by(_py: Python<'_>, flag: &Arc<AtomicBool>) -> Until {
    let this = thread::current().id();
    INTERRUPTIBLE.lock().push((this, flag.clone()));
    Until(this)
}

/// Guard returned by [`stopped_by`]; dropped with the interpreter lock.
pub(crate) struct Until(ThreadId);

impl Drop for Until {
    fn drop(&mut self) {
        let mut all = INTERRUPTIBLE.lock();
        if let Some(at) = all.iter().rposition(|(thread, _)| *thread == self.0) {
            all.remove(at);
        }
    }
}

/// Flag of the calling thread, if another thread may interrupt it.
fn flag(_py: Python<'_>) -> Option<Arc<AtomicBool>> {
    let this = thread::current().id();
    let all = INTERRUPTIBLE.lock();
    all.iter().rev().find(|(thread, _)| *thread == this).map(|(_, flag)| flag.clone())
}

/// Runs work that may wait, without the interpreter lock; raises the exception that ended its wait.
pub(crate) fn waiting<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> R + Send,
) -> PyResult<R> {
    let mut interrupt = Interrupt::default();
    let result = py.detach(|| work(&mut || interrupt.check()));
    interrupt.raise().map(|()| result)
}

/// Check for waiting engine calls, which hold no lock meanwhile; stores the exception that Python raised.
#[derive(Default)]
pub(crate) struct Interrupt {
    raised: Option<PyErr>,
    /// Flag of this thread, looked up by the first check.
    stop: Option<Arc<AtomicBool>>,
}

impl Interrupt {
    /// Whether a signal handler of Python has raised, or this thread is asked to stop.
    pub(crate) fn check(&mut self) -> bool {
        if self.raised.is_none() && (self.stop.is_some() || !ending::is_left_behind()) {
            self.raised = match &self.stop {
                Some(stop) => stopped(stop),
                None => Python::attach(|py| match flag(py) {
                    Some(stop) => stopped(self.stop.insert(stop)),
                    // Python runs signal handlers in its main thread only, which is never stopped by a flag.
                    None => py.check_signals().err(),
                }),
            };
        }
        self.raised.is_some()
    }

    /// Raises the stored exception.
    pub(crate) fn raise(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }

    /// Raises the error of a command, or the exception that ended its wait.
    pub(crate) fn end<R>(self, py: Python<'_>, result: Result<R, Error>) -> PyResult<R> {
        if matches!(result, Err(Error::Interrupted)) {
            self.raise()?;
        }
        result.or_raise(py)
    }
}

fn stopped(stop: &AtomicBool) -> Option<PyErr> {
    let asked = stop.load(Ordering::Acquire);
    asked.then(|| PyInterruptedError::new_err("the caller does not wait for it any longer"))
}

/// Converts the seconds of a timeout; negative numbers and NaN raise `ValueError`.
pub(crate) fn seconds(value: Option<f64>) -> PyResult<Option<Duration>> {
    seconds_of("timeout", value)
}

/// As [`seconds`], for an argument of another name.
pub(crate) fn seconds_of(name: &str, value: Option<f64>) -> PyResult<Option<Duration>> {
    let problem = |s: f64| PyValueError::new_err(format!("{name} must be seconds >= 0, not {s}"));
    value.map(|s| Duration::try_from_secs_f64(s).map_err(|_| problem(s))).transpose()
}
