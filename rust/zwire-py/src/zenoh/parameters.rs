//! `Parameters`: the part of a selector after the `?`.

use crate::errors;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyString},
};
use zwire_proto::zenoh::Parameters;

/// Parameters of a query: `name=value;name=value|value`, from text, from a dict of texts, or empty.
///
/// They keep their order; of several with one name the first is used. There is no quoting: a name cannot
/// contain `;`, `=` or `|`, a value cannot contain `;`.
#[pyclass(name = "Parameters", module = "zwire.zenoh", frozen, skip_from_py_object)]
pub(crate) struct PyParameters(Mutex<Parameters>);

/// Extracts the parameters of a `Parameters`, a `str` or a `dict`.
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

/// As [`extract`], for optional arguments.
pub(crate) fn extract_option(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Parameters>> {
    obj.map(extract).transpose()
}

impl PyParameters {
    pub(crate) fn of(parameters: Parameters) -> Self {
        Self(Mutex::new(parameters))
    }

    /// A clone that shares the text.
    pub(crate) fn copy(&self) -> Parameters {
        self.0.lock().clone()
    }
}

pickled! { PyParameters, |this, _py| (this.__str__(),) }

#[pymethods]
impl PyParameters {
    #[new]
    #[pyo3(signature = (parameters=None))]
    fn new(parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        extract_option(parameters).map(|parameters| Self::of(parameters.unwrap_or_default()))
    }

    /// Whether there are no parameters.
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

    /// Sets a value; returns the previous one.
    fn insert(&self, key: &str, value: &str) -> Option<String> {
        self.0.lock().insert(key, value).map(|old| old.as_str().to_owned())
    }

    /// Removes a name; returns its value.
    fn remove(&self, key: &str) -> Option<String> {
        self.0.lock().remove(key).map(|old| old.as_str().to_owned())
    }

    /// Sets all parameters of another object.
    fn extend(&self, parameters: &Bound<'_, PyAny>) -> PyResult<()> {
        let others = extract(parameters)?;
        self.0.lock().extend(&others);
        Ok(())
    }

    /// Whether the names are in alphabetical order.
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

    /// Constant: equal objects have equal hashes, and the hash stays the same when the content changes.
    const fn __hash__(&self) -> isize {
        2
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.copy() == other.copy()
    }
}
