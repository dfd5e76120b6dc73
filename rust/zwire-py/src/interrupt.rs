//! Ctrl-C while a call of the engine waits.

use pyo3::prelude::*;

/// Asked by waiting engine calls, which hold no lock meanwhile; keeps what Python raised.
#[derive(Default)]
pub(crate) struct Interrupt(Option<PyErr>);

impl Interrupt {
    /// Whether a signal handler of Python has raised.
    pub(crate) fn check(&mut self) -> bool {
        if self.0.is_none() {
            self.0 = Python::attach(|py| py.check_signals()).err();
        }
        self.0.is_some()
    }

    /// Raises what the check has found.
    pub(crate) fn raise(self) -> PyResult<()> {
        self.0.map_or(Ok(()), Err)
    }
}
