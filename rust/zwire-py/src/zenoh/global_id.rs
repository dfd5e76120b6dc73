//! `EntityGlobalId`: the id of a session or of one of its declarations.

use crate::zenoh::zid::PyZenohId;
use pyo3::{prelude::*, types::PyType};
use zwire_proto::zenoh::ZenohId;

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

#[pymethods]
impl PyEntityGlobalId {
    #[new]
    fn new(zid: &PyZenohId, eid: u32) -> Self {
        Self { zid: zid.0, eid }
    }

    /// The id of the node.
    #[getter]
    fn zid(&self) -> PyZenohId {
        PyZenohId(self.zid)
    }

    /// The number within the node.
    #[getter]
    fn eid(&self) -> u32 {
        self.eid
    }

    pub(crate) fn __repr__(&self) -> String {
        format!("EntityGlobalId(zid={}, eid={})", self.zid, self.eid)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (PyZenohId, u32)) {
        (slf.get_type(), (slf.get().zid(), slf.get().eid))
    }
}
