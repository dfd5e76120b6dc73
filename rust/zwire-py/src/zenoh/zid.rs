//! `ZenohId`: the id of a node.

use crate::errors;
use pyo3::{prelude::*, types::PyBytes};
use zwire_proto::zenoh::ZenohId;

/// Id of a node: a number of up to 128 bits, written in lower-case hexadecimal without leading zeros.
///
/// `bytes(zid)` returns all 16 bytes, the lowest first.
///
/// Raises:
///     InvalidValue: The text is no id.
#[pyclass(name = "ZenohId", module = "zwire.zenoh", frozen, eq, ord, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PyZenohId(pub(crate) ZenohId);

pickled! { PyZenohId, |this, _py| (this.0.to_string(),) }

#[pymethods]
impl PyZenohId {
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        text.parse()
            .map(Self)
            .map_err(|error: zwire_proto::zenoh::zid::ZenohIdError| errors::invalid(py, error.to_string()))
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_le_bytes())
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}
