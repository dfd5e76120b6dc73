//! `Encoding`: the type of a payload.

use crate::{errors, zenoh::zbytes};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyString},
};
use zwire_proto::zenoh::Encoding;

/// Type of a payload: a name like a MIME type, and optionally a schema after a `;`.
///
/// The predefined ones are attributes, such as `Encoding.APPLICATION_JSON`; on the wire they are a number
/// of one or two bytes. Any other text is a custom encoding and is sent as text. Equal to its text and
/// hashed like it.
///
/// Raises:
///     InvalidValue: The schema, or the text of a custom encoding, is longer than 255 bytes of UTF-8.
#[pyclass(name = "Encoding", module = "zwire.zenoh", frozen, skip_from_py_object)]
#[derive(Clone)]
pub(crate) struct PyEncoding(pub(crate) Encoding);

/// Extracts the encoding of an `Encoding` or a `str`.
pub(crate) fn extract(obj: &Bound<'_, PyAny>) -> PyResult<Encoding> {
    if let Ok(encoding) = obj.cast::<PyEncoding>() {
        return Ok(encoding.get().0.clone());
    }
    let Ok(text) = obj.cast::<PyString>() else {
        return Err(errors::wrong_type("an Encoding or str", obj));
    };
    checked(obj.py(), Encoding::from_text(text.to_str()?))
}

/// As [`extract`], for optional arguments: the default is `zenoh/bytes`.
pub(crate) fn extract_option(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Encoding>> {
    obj.map(extract).transpose()
}

/// Refuses an encoding that does not fit into a message.
fn checked(py: Python<'_>, encoding: Encoding) -> PyResult<Encoding> {
    match encoding.schema.as_ref().map_or(0, |schema| schema.len()) {
        0..=Encoding::MAX_SCHEMA_LEN => Ok(encoding),
        len => {
            let max = Encoding::MAX_SCHEMA_LEN;
            Err(errors::invalid(
                py,
                format!("a schema or custom encoding has at most {max} bytes, not {len}"),
            ))
        }
    }
}

/// Adds the predefined encodings to the class. Their names are derived from the texts.
pub(crate) fn add_predefined(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<PyEncoding>();
    for encoding in Encoding::PREDEFINED {
        let name: String = encoding
            .name()
            .unwrap_or_default()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        class.setattr(name, PyEncoding(encoding.clone()))?;
    }
    Ok(())
}

attributes! { PyEncoding, |this, py|
    /// The number on the wire; 65535 for a custom encoding.
    id: u16 = this.0.id;
    /// The schema on the wire, `None` if there is none; for a custom encoding its whole text.
    schema: Option<Bound<'py, PyBytes>> = this.0.schema.as_ref().map(|schema| PyBytes::new(py, schema));
}

pickled! { PyEncoding by from_id, |this, py| (this.0.id, this.schema(py)) }

#[pymethods]
impl PyEncoding {
    #[new]
    #[pyo3(signature = (encoding=None))]
    fn new(encoding: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        extract_option(encoding).map(|encoding| Self(encoding.unwrap_or_default()))
    }

    /// The same encoding with that schema instead of its own.
    ///
    /// Raises:
    ///     InvalidValue: The schema is longer than 255 bytes of UTF-8.
    fn with_schema(&self, py: Python<'_>, schema: &str) -> PyResult<Self> {
        checked(py, self.0.clone().with_schema(schema)).map(Self)
    }

    /// An encoding of the number and schema on the wire, without checks: peers may use numbers without a
    /// name here, and schemas that are not text.
    ///
    /// Raises:
    ///     InvalidValue: The schema is longer than 255 bytes.
    #[staticmethod]
    #[pyo3(signature = (id, schema=None))]
    fn from_id(py: Python<'_>, id: u16, schema: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        checked(py, Encoding { id, schema: zbytes::extract_option(schema)?.map(Box::new) }).map(Self)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Encoding({})", PyString::new(py, &self.0.to_string()).repr()?))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, &self.0.to_string()).hash()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let equal = if let Ok(other) = other.cast::<PyEncoding>() {
            self.0 == other.get().0
        } else if let Ok(other) = other.cast::<PyString>() {
            self.0 == Encoding::from_text(other.to_str()?)
        } else {
            return Ok(py.NotImplemented());
        };
        Ok(equal.into_pyobject(py)?.to_owned().into_any().unbind())
    }
}
