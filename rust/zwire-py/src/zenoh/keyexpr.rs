//! `KeyExpr`: a canonical key expression.

use crate::{
    errors::{self, OrRaise},
    zenoh::enums::PySetIntersectionLevel,
};
use pyo3::{
    basic::CompareOp,
    prelude::*,
    types::{PyString, PyType},
};
use zwire_proto::zenoh::KeyExpr;

/// A key expression: a set of keys, written as chunks between slashes, some of them wild.
///
/// `*` stands for one chunk, `**` for any number of chunks, `$*` for anything within a chunk. The text
/// has to be canonical; :meth:`autocanonize` brings others to that form. Equal to its text, hashed
/// like it, ordered by it.
///
/// Raises:
///     KeyExprError: The text is no canonical key expression; `offset` is the byte where it goes wrong.
#[pyclass(name = "KeyExpr", module = "zwire.zenoh", frozen, skip_from_py_object)]
#[derive(Clone)]
pub(crate) struct PyKeyExpr(pub(crate) KeyExpr);

/// Extracts a key expression of a `KeyExpr` or a `str`.
pub(crate) fn extract(obj: &Bound<'_, PyAny>) -> PyResult<KeyExpr> {
    if let Ok(key) = obj.cast::<PyKeyExpr>() {
        return Ok(key.get().0.clone());
    }
    let Ok(text) = obj.cast::<PyString>() else {
        return Err(errors::wrong_type("a KeyExpr or str", obj));
    };
    text.to_str()?.parse::<KeyExpr>().or_raise(obj.py())
}

/// Text of a part of a key expression, which need not be a key expression itself.
fn text<'a>(obj: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    if let Ok(key) = obj.cast::<PyKeyExpr>() {
        return Ok(key.get().0.as_str());
    }
    match obj.cast::<PyString>() {
        Ok(text) => text.to_str(),
        Err(_) => Err(errors::wrong_type("a KeyExpr or str", obj)),
    }
}

pickled! { PyKeyExpr, |this, _py| (this.0.to_string(),) }

#[pymethods]
impl PyKeyExpr {
    #[new]
    fn new(key_expr: &Bound<'_, PyAny>) -> PyResult<Self> {
        extract(key_expr).map(Self)
    }

    /// Converts a text to canonical form first: `a/**/**` becomes `a/**`.
    ///
    /// Raises:
    ///     KeyExprError: The text has no canonical form.
    #[classmethod]
    fn autocanonize(cls: &Bound<'_, PyType>, key_expr: &str) -> PyResult<Self> {
        KeyExpr::autocanonize(key_expr).map(Self).or_raise(cls.py())
    }

    /// Whether there is a key that both match.
    fn intersects(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.0.intersects(&extract(other)?))
    }

    /// Whether this matches every key that the other one matches.
    fn includes(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.0.includes(&extract(other)?))
    }

    /// Relation of the keys of this one to those of the other one: the highest level that holds.
    fn relation_to(&self, other: &Bound<'_, PyAny>) -> PyResult<PySetIntersectionLevel> {
        Ok(PySetIntersectionLevel(self.0.relation_to(&extract(other)?)))
    }

    /// Joins this and the other one with a slash, in canonical form. The `/` operator does the same.
    ///
    /// Raises:
    ///     KeyExprError: The result is no key expression.
    fn join(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.0.join(text(other)?).map(Self).or_raise(py)
    }

    /// Concatenates this and the other one without a slash. In most cases :meth:`join` is the right one.
    ///
    /// Raises:
    ///     KeyExprError: The result is no canonical key expression.
    fn concat(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.0.concat(text(other)?).map(Self).or_raise(py)
    }

    fn __truediv__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.join(py, other)
    }

    fn __rtruediv__(&self, py: Python<'_>, other: &str) -> PyResult<Self> {
        let first = other.parse::<KeyExpr>().or_raise(py)?;
        first.join(self.0.as_str()).map(Self).or_raise(py)
    }

    fn __str__(&self) -> &str {
        self.0.as_str()
    }

    fn __repr__(&self) -> String {
        format!("ke`{}`", self.0)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, self.0.as_str()).hash()
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let order = if let Ok(other) = other.cast::<PyKeyExpr>() {
            self.0.as_str().cmp(other.get().0.as_str())
        } else if let Ok(other) = other.cast::<PyString>() {
            self.0.as_str().cmp(other.to_str()?)
        } else {
            return Ok(py.NotImplemented());
        };
        Ok(op.matches(order).into_pyobject(py)?.to_owned().into_any().unbind())
    }
}
