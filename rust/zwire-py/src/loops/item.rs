//! [`Item`]: conversion of the items of a queue to Python objects.

use crate::zenoh::open_query::Handed;
use pyo3::prelude::*;
use zwire_engine::queue::Weigh;

/// Item of a queue of the engine that can be converted to a Python object.
pub(crate) trait Item: Weigh + Send + 'static {
    /// Whether a program has to answer it.
    const IS_ANSWERED: bool = false;

    /// The Python object.
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>>;

    /// Records that this thread hands the item to the program, if the item has to be answered.
    fn handed(_item: &Bound<'_, PyAny>) -> Option<Handed> {
        None
    }
}
