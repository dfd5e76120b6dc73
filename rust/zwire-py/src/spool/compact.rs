//! `SpoolCompactor`: merging of small segments of a store.

use crate::{errors::OrRaise, spool::writer::clamped};
use pyo3::prelude::*;
use std::path::PathBuf;
use zwire_recorder::Compactor;

/// Compaction of a store by a program without a spooler.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolCompactor(Compactor);

attributes! { SpoolCompactor, |this|
    /// Seconds until `retire` deletes the last of the replaced segments; `None` if there are none.
    retires_in: Option<f64> = this.0.retires_in().map(|left| left.as_secs_f64());
}

#[pymethods]
impl SpoolCompactor {
    #[new]
    fn new(py: Python<'_>, place: PathBuf, grace: f64) -> PyResult<Self> {
        py.detach(|| Compactor::open(&place, clamped(grace))).map(Self).or_raise(py)
    }

    /// Merges some segments into one of at most so many bytes, by a file at `scratch`: their number, and its size; `None`
    /// if none are left.
    fn step(&self, py: Python<'_>, bytes: u64, scratch: PathBuf) -> PyResult<Option<(u64, u64)>> {
        let done = py.detach(|| self.0.step(bytes, &scratch)).or_raise(py)?;
        Ok(done.map(|done| (done.segments, done.bytes)))
    }

    /// Deletes replaced segments that no reader needs any more.
    fn retire(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.retire()).or_raise(py)
    }

    /// Deletes objects of at least this age that belong to no segment: their number and bytes.
    fn sweep(&self, py: Python<'_>, seconds: f64) -> PyResult<(u64, u64)> {
        let swept = py.detach(|| self.0.sweep(clamped(seconds))).or_raise(py)?;
        Ok((swept.objects, swept.bytes))
    }
}
