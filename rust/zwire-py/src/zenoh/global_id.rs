//! `EntityGlobalId`: the id of a session or of one of its declarations.

use crate::zenoh::zid::PyZenohId;
use pyo3::prelude::*;
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
