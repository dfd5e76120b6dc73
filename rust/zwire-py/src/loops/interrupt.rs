//! Interruption of waiting engine calls, by Ctrl-C or by another thread.

use crate::loops::ending;
use core::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering},
};
use pyo3::{exceptions::PyInterruptedError, prelude::*};
use std::sync::Arc;

thread_local! {
    /// Flag with which another thread ends the waits of this thread.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Lets `flag` end waits in this thread until the guard is dropped.
pub(crate) fn stopped_by(flag: Arc<AtomicBool>) -> Until {
    Until(STOP.replace(Some(flag)))
}

/// Guard returned by [`stopped_by`].
pub(crate) struct Until(Option<Arc<AtomicBool>>);

impl Drop for Until {
    fn drop(&mut self) {
        STOP.set(self.0.take());
    }
}

/// Check for waiting engine calls, which hold no lock meanwhile; stores the exception that Python raised.
#[derive(Default)]
pub(crate) struct Interrupt(Option<PyErr>);

impl Interrupt {
    /// Whether a signal handler of Python has raised, or this thread is asked to stop.
    pub(crate) fn check(&mut self) -> bool {
        if self.0.is_none() {
            self.0 = match STOP.with_borrow(|stop| stop.as_ref().map(|stop| stop.load(Ordering::Acquire))) {
                Some(stop) => {
                    stop.then(|| PyInterruptedError::new_err("the caller does not wait for it any longer"))
                }
                None if ending::is_left_behind() => None,
                // Python runs signal handlers in its main thread only, which is never stopped by a flag.
                None => Python::attach(|py| py.check_signals()).err(),
            };
        }
        self.0.is_some()
    }

    /// Raises the stored exception.
    pub(crate) fn raise(self) -> PyResult<()> {
        self.0.map_or(Ok(()), Err)
    }
}
