//! `ZenohId`: the id of a node; `EntityGlobalId`: that of a session or of one of its declarations.

use crate::errors::OrRaise;
use pyo3::{prelude::*, types::PyBytes};
use zwire_proto::zenoh::ZenohId;

/// Id of a node: a number of up to 128 bits, written in lower-case hexadecimal without leading zeros.
///
/// `bytes(zid)` returns its bytes, the lowest first, without zeros at the end.
///
/// Raises:
///     InvalidValue: The text is no id.
#[pyclass(name = "ZenohId", module = "zwire.zenoh", frozen, eq, ord, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PyZenohId(pub(crate) ZenohId);

pickled! { PyZenohId, |this, _py| (this.0.to_string(),) }

text! { PyZenohId, |this| this.0.to_string() }

#[pymethods]
impl PyZenohId {
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Self> {
        text.parse::<ZenohId>().map(Self).or_raise(py)
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_le_bytes()[..self.0.wire_len()])
    }
}

/// The id of a session, publisher, subscriber, queryable or querier.
#[pyclass(name = "EntityGlobalId", module = "zwire.zenoh", frozen, eq, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyEntityGlobalId {
    pub(crate) zid: ZenohId,
    pub(crate) eid: u32,
}

impl PyEntityGlobalId {
    pub(crate) const fn of(zid: ZenohId, eid: u32) -> Self {
        Self { zid, eid }
    }
}

attributes! { PyEntityGlobalId, |this|
    /// The id of the node.
    zid: PyZenohId = PyZenohId(this.zid);
    /// The number within the node.
    eid: u32 = this.eid;
}

pickled! { PyEntityGlobalId, |this, _py| (this.zid(), this.eid) }

#[pymethods]
impl PyEntityGlobalId {
    #[new]
    fn new(zid: &PyZenohId, eid: u32) -> Self {
        Self { zid: zid.0, eid }
    }

    pub(crate) fn __repr__(&self) -> String {
        format!("EntityGlobalId(zid={}, eid={})", self.zid, self.eid)
    }
}
