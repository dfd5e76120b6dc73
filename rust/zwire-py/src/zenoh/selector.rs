//! `Selector`: a key expression and parameters.

use crate::{
    errors::{self, OrRaise},
    zenoh::{
        keyexpr::{self, PyKeyExpr},
        parameters::{self, PyParameters},
    },
};
use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyString};
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

#[pymethods]
impl PySelector {
    #[new]
    #[pyo3(signature = (arg, /, parameters=None))]
    fn new(arg: &Bound<'_, PyAny>, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        match parameters::extract_option(parameters)? {
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
        let parameters = parameters::extract(parameters)?;
        self.0.lock().parameters = parameters;
        Ok(())
    }

    fn __str__(&self) -> String {
        self.0.lock().to_string()
    }

    fn __repr__(&self) -> String {
        format!("sel\"{}\"", self.__str__())
    }

    /// Constant: equal objects have equal hashes, and the hash stays the same when the content changes.
    const fn __hash__(&self) -> isize {
        3
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.copy() == other.copy()
    }
}
