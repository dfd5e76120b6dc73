//! `Config`: the configuration of a session.

use crate::{
    errors::{self, OrRaise},
    loops::ending::{call, import},
};
use parking_lot::Mutex;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{IntoPyDict, PyDict, PyMapping, PyString, PyTuple, PyType},
};
use std::path::PathBuf;
use zwire_engine::{
    CertificatePair, KeygenError,
    config::{AccessQuestion, Config, ConfigError, ENV, Format, Gravity, check, defaults_json, explain},
    make_authority, make_certificate,
};
use zwire_proto::zenoh::{ZenohId, intercept::LinkFacts};

/// The configuration of a session: a tree of keys with checked values.
///
/// Keys and defaults are those of eclipse-zenoh, so that its files work; additional keys are below
/// `zwire/`. A key that does not exist is an error that names the nearest one.
///
/// Args:
///     tree: A dict of keys (nested, or with paths such as `"connect/endpoints"`), or a
///         `zwire.config.SessionConfig`; the defaults if left out.
///
/// Raises:
///     ConfigError: A key or value is wrong; `path` names it, `nearest` a known key like it.
#[pyclass(name = "Config", module = "zwire.zenoh", frozen, skip_from_py_object)]
pub(crate) struct PyConfig(Mutex<Config>);

/// Extracts the configuration of a `Config`, a `dict` or a `SessionConfig`.
pub(crate) fn extract(obj: &Bound<'_, PyAny>) -> PyResult<Config> {
    let py = obj.py();
    if let Ok(config) = obj.cast::<PyConfig>() {
        return Ok(config.get().0.lock().clone());
    }
    let text = if obj.cast::<PyMapping>().is_ok() {
        to_json(obj)?
    } else if let Some(method) = obj.getattr_opt("to_json")? {
        to_json(&call(&method.unbind(), &PyTuple::empty(py))?)?
    } else {
        return Err(errors::wrong_type("a Config, a dict or a SessionConfig", obj));
    };
    Config::from_json5(&text).or_raise(py)
}

/// As [`extract`], for optional arguments: the defaults.
pub(crate) fn extract_option(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Config> {
    obj.map_or_else(|| Ok(Config::default()), extract)
}

/// Converts a Python value to JSON; a value without JSON form raises the ValueError or TypeError of the
/// `json` module.
fn to_json(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = value.py();
    let strict = [("allow_nan", false)].into_py_dict(py)?;
    let dumps = import(py, "json")?.getattr("dumps")?;
    // `call` takes no keywords.
    let dumps = import(py, "functools")?.getattr("partial")?.call((dumps,), Some(&strict))?;
    call(&dumps.unbind(), &PyTuple::new(py, [value])?)?.extract()
}

/// Every key with its default for each mode, as a JSON object by path.
#[pyfunction]
pub(crate) fn config_defaults() -> String {
    defaults_json()
}

/// Whether it is an error, line, column, path and problem.
type ShownFinding = (bool, usize, usize, String, String);

/// Checks a configuration text: `(is_error, line, column, path, problem)` of each finding, by line. `name` is that of
/// the file, whose end says which format it has.
#[pyfunction]
pub(crate) fn config_check(py: Python<'_>, name: PathBuf, text: &str) -> PyResult<Vec<ShownFinding>> {
    let format = Format::of(&name).ok_or(ConfigError::FileFormat { file: name }).or_raise(py)?;
    let found = py.detach(|| check(text, format));
    Ok(found
        .into_iter()
        .map(|f| (f.gravity == Gravity::Error, f.line, f.column, f.path, f.problem))
        .collect())
}

/// Decides about a message as a link with the rules of a configuration does; JSON with the rule that decides.
#[pyfunction]
#[pyo3(signature = (config, message, flow, key, *, user=None, certificate=None, zid=None, interfaces=None, protocol="tcp"))]
pub(crate) fn config_explain(
    py: Python<'_>,
    config: &Bound<'_, PyAny>,
    message: &str,
    flow: &str,
    key: &str,
    user: Option<&str>,
    certificate: Option<&str>,
    zid: Option<&str>,
    interfaces: Option<Vec<String>>,
    protocol: &str,
) -> PyResult<String> {
    let config = extract(config)?;
    let zid = zid.map(str::parse::<ZenohId>).transpose();
    let zid = zid.map_err(|error| PyValueError::new_err(format!("zid: {error}")))?;
    let interfaces = interfaces.unwrap_or_default();
    let link = LinkFacts { zid, interfaces: &interfaces, protocol, common_name: certificate, username: user };
    let question = AccessQuestion::new(link, message, flow, key).or_raise(py)?;
    explain(&config, &question).or_raise(py).map(|verdict| verdict.to_json().to_string())
}

fn keygen(result: Result<CertificatePair, KeygenError>) -> PyResult<(String, String)> {
    let pair = result.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((pair.certificate, pair.key))
}

/// Makes an authority for TLS: its certificate and its key, as PEM.
#[pyfunction]
pub(crate) fn tls_authority(name: &str, days: u32) -> PyResult<(String, String)> {
    keygen(make_authority(name, days))
}

/// Makes a certificate for both ends of a link, signed by an authority: the certificate and its key, as PEM.
#[pyfunction]
pub(crate) fn tls_certificate(
    authority: (String, String),
    name: &str,
    hosts: Vec<String>,
    days: u32,
) -> PyResult<(String, String)> {
    let by = CertificatePair { certificate: authority.0, key: authority.1 };
    keygen(make_certificate(&by, name, &hosts, days))
}

impl PyConfig {
    pub(crate) fn of(config: Config) -> Self {
        Self(Mutex::new(config))
    }
}

pickled! { PyConfig by from_json5, |this, _py| (this.0.lock().to_json(),) }

mutable_value! { PyConfig, 1 }

#[pymethods]
impl PyConfig {
    /// Keys that were set although they have no effect here.
    fn ignored(&self) -> Vec<&'static str> {
        self.0.lock().ignored().collect()
    }

    /// The environment variable that :meth:`from_env` reads.
    #[classattr]
    const DEFAULT_CONFIG_PATH_ENV: &'static str = ENV;

    #[new]
    #[pyo3(signature = (tree=None))]
    fn new(tree: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        extract_option(tree).map(Self::of)
    }

    /// The defaults, overridden by the file named by `ZENOH_CONFIG`, or else by `ZENOH_SESSION_CONFIG_URI`,
    /// then by that of `ZWIRE_CONFIG`, then by the keys in `ZENOH_CONFIG_OVERRIDE`: `key/path=value;key2=value2`.
    ///
    /// Raises:
    ///     ConfigError: None of them is set, or a file, a key or a value cannot be used.
    #[classmethod]
    fn from_env(cls: &Bound<'_, PyType>) -> PyResult<Self> {
        Config::from_env().or_raise(cls.py()).map(Self::of)
    }

    /// The defaults, overridden by a file: JSON5 (`.json5`, `.json`) or YAML (`.yaml`, `.yml`).
    ///
    /// Raises:
    ///     ConfigError: The file cannot be read, or its content is invalid.
    #[classmethod]
    fn from_file(cls: &Bound<'_, PyType>, path: PathBuf) -> PyResult<Self> {
        cls.py().detach(|| Config::from_file(path)).or_raise(cls.py()).map(Self::of)
    }

    /// The defaults, overridden by a JSON5 text.
    ///
    /// Raises:
    ///     ConfigError: The text is not JSON5, or its content is invalid.
    #[classmethod]
    fn from_json5(cls: &Bound<'_, PyType>, json: &str) -> PyResult<Self> {
        Config::from_json5(json).or_raise(cls.py()).map(Self::of)
    }

    /// The defaults, overridden by a dict; the same as `Config(tree)`.
    ///
    /// Raises:
    ///     ConfigError: A key or value is wrong.
    #[classmethod]
    fn from_dict(_cls: &Bound<'_, PyType>, tree: &Bound<'_, PyDict>) -> PyResult<Self> {
        extract(tree).map(Self::of)
    }

    /// The value of a key, or of all keys below a path, as JSON text. `null` stands for the default of
    /// the mode.
    ///
    /// Raises:
    ///     ConfigError: There is no such key.
    fn get_json(&self, py: Python<'_>, key: &str) -> PyResult<String> {
        self.0.lock().get_json(key).or_raise(py)
    }

    /// Sets a key, or all keys that an object names below a path. `null` restores defaults. On an error
    /// nothing is changed.
    ///
    /// Args:
    ///     key: The path, such as `"connect/endpoints"`.
    ///     value: JSON5 text, or a value other than str that `json.dumps` accepts.
    ///
    /// Raises:
    ///     ConfigError: The key or the value is wrong.
    fn insert_json5(&self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let text = match value.cast::<PyString>() {
            Ok(text) => text.to_str()?.to_owned(),
            Err(_) => to_json(value)?,
        };
        self.0.lock().insert_json5(key, &text).or_raise(value.py())
    }

    /// All keys as JSON text, in alphabetical order, with `***` in place of passwords and private keys;
    /// `get_json("")` has these, too.
    fn __str__(&self) -> String {
        self.0.lock().to_string()
    }

    fn __repr__(&self) -> String {
        // The whole tree would fill a screen.
        let config = self.0.lock();
        let shown = |path| config.shown(path).unwrap_or_default();
        format!(
            "<Config mode={} connect={} listen={}>",
            config.mode(),
            shown("connect/endpoints"),
            shown("listen/endpoints")
        )
    }
}
