//! `Parameters`: what stands behind the `?` of a selector.

use crate::errors;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyString, PyType},
};
use zwire_proto::zenoh::Parameters;

/// Parameters of a query: `name=value;name=value|value`, of text, of a dict of texts, or of nothing.
///
/// They keep their order; of several with one name the first counts. There is no quoting: `;`, `=` and `|`
/// cannot be part of a name, `;` not of a value.
#[pyclass(name = "Parameters", module = "zwire.zenoh", frozen, skip_from_py_object)]
pub(crate) struct PyParameters(Mutex<Parameters>);

/// The parameters of a `Parameters`, a `str` or a `dict`.
pub(crate) fn extract(obj: &Bound<'_, PyAny>) -> PyResult<Parameters> {
    if let Ok(parameters) = obj.cast::<PyParameters>() {
        return Ok(parameters.get().copy());
    }
    if let Ok(text) = obj.cast::<PyString>() {
        return Ok(Parameters::new(text.to_str()?));
    }
    let Ok(dict) = obj.cast::<PyDict>() else {
        return Err(errors::wrong_type("Parameters, a str or a dict", obj));
    };
    let mut parameters = Parameters::default();
    for (name, value) in dict {
        let (Ok(name), Ok(value)) = (name.cast::<PyString>(), value.cast::<PyString>()) else {
            return Err(errors::wrong_type("a dict of str", obj));
        };
        parameters.insert(name.to_str()?, value.to_str()?);
    }
    Ok(parameters)
}

/// As [`extract`], for what may be left out.
pub(crate) fn extract_option(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Parameters>> {
    obj.filter(|obj| !obj.is_none()).map(extract).transpose()
}

impl PyParameters {
    pub(crate) fn of(parameters: Parameters) -> Self {
        Self(Mutex::new(parameters))
    }

    /// A clone, which shares the text.
    pub(crate) fn copy(&self) -> Parameters {
        self.0.lock().clone()
    }
}

#[pymethods]
impl PyParameters {
    #[new]
    #[pyo3(signature = (parameters=None))]
    fn new(parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        extract_option(parameters).map(|parameters| Self::of(parameters.unwrap_or_default()))
    }

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The value of a name, or the default.
    #[pyo3(signature = (key, default=None))]
    fn get(&self, key: &str, default: Option<String>) -> Option<String> {
        self.0.lock().get(key).map(str::to_owned).or(default)
    }

    /// The value of a name, split at each `|`; empty if there is no such name.
    fn values(&self, key: &str) -> Vec<String> {
        self.0.lock().values(key).map(str::to_owned).collect()
    }

    /// Sets a value; gives the one that was there before.
    fn insert(&self, key: &str, value: &str) -> Option<String> {
        self.0.lock().insert(key, value).map(|old| old.as_str().to_owned())
    }

    /// Takes a name away; gives the value that it had.
    fn remove(&self, key: &str) -> Option<String> {
        self.0.lock().remove(key).map(|old| old.as_str().to_owned())
    }

    /// Sets all those of others.
    fn extend(&self, parameters: &Bound<'_, PyAny>) -> PyResult<()> {
        let others = extract(parameters)?;
        self.0.lock().extend(&others);
        Ok(())
    }

    /// Whether the names come in alphabetical order.
    fn is_ordered(&self) -> bool {
        self.0.lock().is_ordered()
    }

    fn __bool__(&self) -> bool {
        !self.is_empty()
    }

    fn __contains__(&self, item: &str) -> bool {
        self.0.lock().contains(item)
    }

    fn __getitem__(&self, item: &str) -> Option<String> {
        self.get(item, None)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let parameters = self.copy();
        Ok(PyList::new(py, parameters.iter().collect::<Vec<_>>())?.try_iter()?.into_any())
    }

    fn __str__(&self) -> String {
        self.0.lock().to_string()
    }

    fn __repr__(&self) -> String {
        self.__str__()
    }

    /// The same for all: what is equal has one hash, and it stays what it is when the content changes.
    const fn __hash__(&self) -> isize {
        2
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = other.py();
        match other.cast::<Self>() {
            // One lock after the other: both may be the same object.
            Ok(other) => {
                let other = other.get().copy();
                Ok((self.copy() == other).into_pyobject(py)?.to_owned().into_any().unbind())
            }
            Err(_) => Ok(py.NotImplemented()),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (String,)) {
        (slf.get_type(), (slf.get().__str__(),))
    }
}
