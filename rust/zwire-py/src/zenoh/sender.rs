//! [`Sender`]: base class of publishers and queriers.

use crate::zenoh::{declared::Declared, global_id::PyEntityGlobalId, keyexpr::PyKeyExpr};
use pyo3::{prelude::*, types::PyDict};
use zwire_proto::zenoh::KeyExpr;

/// A declaration that sends to matching subscribers or queryables. A context manager; it undeclares itself when it
/// is dropped.
#[pyclass(module = "zwire._zwire", frozen, subclass)]
pub(crate) struct Sender {
    pub(crate) declared: Declared,
    pub(crate) key: KeyExpr,
}

#[pymethods]
impl Sender {
    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args, **_kwargs))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _args: &Bound<'_, PyAny>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.declared.exit(py)
    }

    /// Id of the declaration.
    #[getter]
    fn id(&self) -> PyEntityGlobalId {
        self.declared.global_id()
    }

    /// Key expression that it publishes on, or queries.
    #[getter]
    fn key_expr(&self) -> PyKeyExpr {
        PyKeyExpr(self.key.clone())
    }

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
