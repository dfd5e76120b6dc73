//! `Config`: the configuration of a session.

use crate::errors::{self, OrRaise};
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{IntoPyDict, PyDict, PyMapping, PyString, PyType},
};
use std::path::PathBuf;
use zwire_engine::config::{Config, ENV, defaults_json};

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
        to_json(&method.call0()?)?
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
    py.import("json")?.getattr("dumps")?.call((value,), Some(&strict))?.extract()
}

/// Every key with its default for each mode, as a JSON object by path.
#[pyfunction]
pub(crate) fn config_defaults() -> String {
    defaults_json()
}

impl PyConfig {
    fn of(config: Config) -> Self {
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
