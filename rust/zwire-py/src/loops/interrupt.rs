//! Ctrl-C while a call of the engine waits, and whoever else may end such a call.

use crate::loops::ending;
use core::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering},
};
use pyo3::{exceptions::PyInterruptedError, prelude::*};
use std::sync::Arc;

thread_local! {
    /// Who else ends what waits in this thread.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Until it is dropped, `flag` ends what waits in this thread.
pub(crate) fn stopped_by(flag: Arc<AtomicBool>) -> Until {
    Until(STOP.replace(Some(flag)))
}

/// What [`stopped_by`] gives.
pub(crate) struct Until(Option<Arc<AtomicBool>>);

impl Drop for Until {
    fn drop(&mut self) {
        STOP.set(self.0.take());
    }
}

/// Asked by waiting engine calls, which hold no lock meanwhile; keeps what Python raised.
#[derive(Default)]
pub(crate) struct Interrupt(Option<PyErr>);

impl Interrupt {
    /// Whether a signal handler of Python has raised, or somebody wants this thread to stop.
    pub(crate) fn check(&mut self) -> bool {
        if self.0.is_none() {
            self.0 = match STOP.with_borrow(|stop| stop.as_ref().map(|stop| stop.load(Ordering::Acquire))) {
                Some(stop) => stop.then(|| PyInterruptedError::new_err("nobody waits for it any longer")),
                None if ending::is_left_behind() => None,
                // Python runs signal handlers in its main thread only, in which nobody stops us.
                None => Python::attach(|py| py.check_signals()).err(),
            };
        }
        self.0.is_some()
    }

    /// Raises what the check has found.
    pub(crate) fn raise(self) -> PyResult<()> {
        self.0.map_or(Ok(()), Err)
    }
}
