//! `Selector`: a key expression and parameters; `Parameters`: the part of it after the `?`.

use crate::{
    errors::{self, OrRaise},
    zenoh::keyexpr::{self, PyKeyExpr},
};
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyString},
};
use zwire_proto::{
    Text,
    zenoh::{KeyExpr, Parameters, Selector},
};

/// Key expression and parameters of a query, written `key?name=value;name=value`.
///
/// Args:
///     arg: The text of a selector, or a key expression if there are parameters beside it.
///     parameters: `Parameters`, text or a dict of texts.
///
/// Raises:
///     KeyExprError: The part before the `?` is no canonical key expression.
#[pyclass(name = "Selector", module = "zwire.zenoh", frozen, skip_from_py_object)]
pub(crate) struct PySelector(Mutex<Selector>);

/// Extracts the two parts of a `Selector`, a `KeyExpr` or a `str`.
pub(crate) fn extract(obj: &Bound<'_, PyAny>) -> PyResult<(KeyExpr, Text)> {
    let selector = whole(obj)?;
    Ok((selector.key, selector.parameters.text().clone()))
}

fn whole(obj: &Bound<'_, PyAny>) -> PyResult<Selector> {
    if let Ok(selector) = obj.cast::<PySelector>() {
        return Ok(selector.get().copy());
    }
    if let Ok(key) = obj.cast::<PyKeyExpr>() {
        return Ok(key.get().0.clone().into());
    }
    match obj.cast::<PyString>() {
        Ok(text) => text.to_str()?.parse::<Selector>().or_raise(obj.py()),
        Err(_) => Err(errors::wrong_type("a Selector, KeyExpr or str", obj)),
    }
}

impl PySelector {
    pub(crate) fn of(key: KeyExpr, parameters: Parameters) -> Self {
        Self(Mutex::new(Selector::new(key, parameters)))
    }

    fn copy(&self) -> Selector {
        self.0.lock().clone()
    }
}

attributes! { PySelector, |this|
    /// The key expression.
    key_expr: PyKeyExpr = PyKeyExpr(this.0.lock().key.clone());
    /// A copy of the parameters; assign one to change them.
    parameters: PyParameters = PyParameters::of(this.0.lock().parameters.clone());
}

pickled! { PySelector, |this, _py| (this.__str__(),) }

mutable_value! { PySelector, 3 }

#[pymethods]
impl PySelector {
    #[new]
    #[pyo3(signature = (arg, /, parameters=None))]
    fn new(arg: &Bound<'_, PyAny>, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        match parameters_option(parameters)? {
            // With parameters given, a text with a `?` is an invalid key expression.
            Some(parameters) => Ok(Self::of(keyexpr::extract(arg)?, parameters)),
            None => Ok(Self(Mutex::new(whole(arg)?))),
        }
    }

    #[setter]
    fn set_key_expr(&self, key_expr: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = keyexpr::extract(key_expr)?;
        self.0.lock().key = key;
        Ok(())
    }

    #[setter]
    fn set_parameters(&self, parameters: &Bound<'_, PyAny>) -> PyResult<()> {
        let parameters = self::parameters(parameters)?;
        self.0.lock().parameters = parameters;
        Ok(())
    }

    fn __str__(&self) -> String {
        self.0.lock().to_string()
    }

    fn __repr__(&self) -> String {
        format!("sel\"{}\"", self.__str__())
    }
}

/// Parameters of a query: `name=value;name=value|value`, from text, from a dict of texts, or empty.
///
/// They keep their order; of several with one name the first is used. There is no quoting: a name cannot
/// contain `;`, `=` or `|`, a value cannot contain `;`.
#[pyclass(name = "Parameters", module = "zwire.zenoh", frozen, skip_from_py_object)]
pub(crate) struct PyParameters(Mutex<Parameters>);

/// Extracts the parameters of a `Parameters`, a `str` or a `dict`.
pub(crate) fn parameters(obj: &Bound<'_, PyAny>) -> PyResult<Parameters> {
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

/// As [`parameters`], for optional arguments.
fn parameters_option(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Parameters>> {
    obj.map(parameters).transpose()
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

text! { PyParameters, |this| this.0.lock().to_string() }

methods! { PyParameters, |this|
    /// Whether there are no parameters.
    is_empty: bool = this.0.lock().is_empty();
    /// Whether the names are in alphabetical order.
    is_ordered: bool = this.0.lock().is_ordered();
}

mutable_value! { PyParameters, 2 }

#[pymethods]
impl PyParameters {
    #[new]
    #[pyo3(signature = (parameters=None))]
    fn new(parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        parameters_option(parameters).map(|parameters| Self::of(parameters.unwrap_or_default()))
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
        let others = self::parameters(parameters)?;
        self.0.lock().extend(&others);
        Ok(())
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
}
