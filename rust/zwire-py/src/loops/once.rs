//! [`Once`]: cache for values looked up in Python modules.

use crate::loops::ending::import;
use pyo3::{prelude::*, types::PyType};
use std::sync::OnceLock;

/// A value that is made once, such as a class of a Python module.
///
/// Nothing waits here: the value is made before the cell is touched, and two threads at the same time
/// make it twice. The cell of `PyO3` releases the interpreter lock while it is being filled, and stays
/// half filled for ever in a child that another thread forks at that moment.
pub(crate) struct Once<T>(OnceLock<T>);

impl<T> Once<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The value, made on first use.
    pub(crate) fn get(&self, make: impl FnOnce() -> PyResult<T>) -> PyResult<&T> {
        if let Some(value) = self.0.get() {
            return Ok(value);
        }
        let value = make()?;
        Ok(self.0.get_or_init(|| value))
    }
}

impl Once<Py<PyType>> {
    /// A class of a module.
    pub(crate) fn class<'py>(
        &self,
        py: Python<'py>,
        module: &str,
        name: &str,
    ) -> PyResult<&Bound<'py, PyType>> {
        let class = self.get(|| Ok(import(py, module)?.getattr(name)?.cast_into()?.unbind()))?;
        Ok(class.bind(py))
    }
}
