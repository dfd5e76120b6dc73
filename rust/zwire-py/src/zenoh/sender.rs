//! [`Sender`]: base class of publishers and queriers.

use crate::zenoh::{declared::Declared, global_id::PyEntityGlobalId, keyexpr::PyKeyExpr};
use pyo3::prelude::*;
use zwire_proto::zenoh::KeyExpr;

/// A declaration that sends to matching subscribers or queryables. A context manager; it undeclares itself when it
/// is dropped.
#[pyclass(module = "zwire._zwire", frozen, subclass)]
pub(crate) struct Sender {
    pub(crate) declared: Declared,
    pub(crate) key: KeyExpr,
}

attributes! { Sender, |this|
    /// Id of the declaration.
    id: PyEntityGlobalId = this.declared.global_id();
    /// Key expression that it publishes on, or queries.
    key_expr: PyKeyExpr = PyKeyExpr(this.key.clone());
}

context_manager! { Sender, |this, py| this.declared.exit(py) }

#[pymethods]
impl Sender {
    /// Waits until at least `n` subscribers of a publisher, or queryables of a querier, are known. Raises
    /// `TimedOut` after `timeout` seconds, if given.
    ///
    /// Subscribers and queryables of this session count one by one, remote ones as reported by the neighbours: a
    /// router reports each key expression once, however many are behind it.
    #[pyo3(signature = (n=1, timeout=None))]
    fn wait_matching(&self, py: Python<'_>, n: usize, timeout: Option<f64>) -> PyResult<()> {
        self.declared.wait_matching(py, n, timeout)
    }

    /// Undeclares it. A second call is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        self.declared.undeclare(py)
    }
}
