//! `SpoolResharding`: change of the number of shards of a spool.

use crate::errors::OrRaise;
use pyo3::prelude::*;
use std::path::PathBuf;
use zwire_recorder::Resharding;

/// A change of the number of shards that several spoolers share.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolResharding(Resharding);

attributes! { SpoolResharding, |this|
    /// Whether the change was asked for.
    asked: bool = this.0.is_asked();
}

#[pymethods]
impl SpoolResharding {
    #[new]
    fn new(py: Python<'_>, place: PathBuf, shards: u32) -> PyResult<Self> {
        py.detach(|| Resharding::open(&place, shards)).map(Self).or_raise(py)
    }

    /// Does what can be done now: whether keys are spread over the wanted number of shards.
    fn step(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.0.step()).or_raise(py)
    }
}
