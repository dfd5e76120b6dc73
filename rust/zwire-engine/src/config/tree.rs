//! [`Config`]: the tree of all keys.

use std::{env, ffi::OsString, fmt, fs, io::Read as _, path::Path, sync::LazyLock};

use serde_json::{Map, Value};
use zwire_proto::zenoh::WhatAmI;

use super::{
    ConfigError, KEYS, Key,
    check::Format,
    keys::{self, Place, below},
    nearest::nearest_path,
    text, values,
};

/// Environment variable with the name of a configuration file, shared with eclipse-zenoh.
pub const ENV: &str = "ZENOH_CONFIG";
/// Environment variable that names a second file; its keys override those of [`ENV`].
pub const ENV_OVERRIDE: &str = "ZWIRE_CONFIG";
/// Environment variable of rmw_zenoh with the file of a session's configuration; read where [`ENV`] is unset.
pub const ENV_SESSION: &str = "ZENOH_SESSION_CONFIG_URI";
/// Environment variable of rmw_zenoh with single keys, `key/path=value;key2=value2`; they override all files.
pub const ENV_KEYS: &str = "ZENOH_CONFIG_OVERRIDE";

/// Deepest path below a key, bounded like the nesting of a text because code that walks the tree recurses.
pub(super) const MAX_SEGMENTS: usize = 32;

/// Longest external path that an error repeats, in characters; no key is longer.
pub(super) const MAX_PATH: usize = 200;

/// A configuration: every key has a checked value, or `null` where its default applies.
#[derive(Clone, PartialEq)]
pub struct Config {
    root: Value,
}

impl Default for Config {
    fn default() -> Self {
        static INITIAL: LazyLock<Value> = LazyLock::new(|| {
            let mut root = Value::Object(Map::new());
            for key in KEYS {
                *slot(&mut root, key.path) = key.initial();
            }
            root
        });
        Self { root: INITIAL.clone() }
    }
}

impl Config {
    /// The defaults, overridden by a JSON5 text.
    ///
    /// # Errors
    /// The first error in the text.
    pub fn from_json5(text: &str) -> Result<Self, ConfigError> {
        Self::from_value(text::parse(text)?)
    }

    /// The defaults, overridden by an object. Its names are keys or paths of keys:
    /// `{"connect": {"timeout_ms": 0}}` and `{"connect/timeout_ms": 0}` are equivalent.
    ///
    /// # Errors
    /// The first invalid key or value.
    pub fn from_value(value: Value) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.merge("", value)?;
        Ok(config)
    }

    /// The defaults, overridden by a file: JSON5 (`.json5`, `.json`) or YAML (`.yaml`, `.yml`).
    ///
    /// # Errors
    /// The file cannot be read, has another extension, or its content is invalid.
    pub fn from_file(file: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.merge_file(file.as_ref())?;
        Ok(config)
    }

    /// The defaults, overridden by a file, a second file and single keys: the file named by `ZENOH_CONFIG`,
    /// or else by `ZENOH_SESSION_CONFIG_URI`; the file named by `ZWIRE_CONFIG`; the keys in
    /// `ZENOH_CONFIG_OVERRIDE`.
    ///
    /// # Errors
    /// None of them is set, a file cannot be used, or a key or value is invalid.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_lookup(|name| env::var_os(name))
    }

    pub(super) fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let lookup = |name| lookup(name).filter(|value| !value.is_empty());
        let mut config = Self::default();
        let base = lookup(ENV).or_else(|| lookup(ENV_SESSION));
        let files = [base, lookup(ENV_OVERRIDE)];
        let keys = lookup(ENV_KEYS);
        if files.iter().chain([&keys]).all(Option::is_none) {
            return Err(ConfigError::NoEnvironment);
        }
        for file in files.iter().flatten() {
            config.merge_file(Path::new(file))?;
        }
        if let Some(keys) = keys {
            config
                .merge_keys(&keys.to_string_lossy())
                .map_err(|e| ConfigError::InVariable { name: ENV_KEYS, source: Box::new(e) })?;
        }
        Ok(config)
    }

    /// Merges `key/path=value;key2=value2`; each value is JSON5.
    fn merge_keys(&mut self, text: &str) -> Result<(), ConfigError> {
        for pair in pairs(text).map(str::trim).filter(|pair| !pair.is_empty()) {
            let Some((path, value)) = pair.split_once('=') else {
                // What follows the key may be a secret.
                let key = pair.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '/'))).next();
                let key = values::shorten(key.unwrap_or_default(), MAX_PATH);
                return Err(ConfigError::value(&key, "KEY=VALUE", "no ="));
            };
            self.merge(path.trim().trim_matches('/'), text::parse(value)?)?;
        }
        Ok(())
    }

    fn merge_file(&mut self, file: &Path) -> Result<(), ConfigError> {
        let format = Format::of(file).ok_or_else(|| ConfigError::FileFormat { file: file.to_owned() })?;
        let text = read(file, text::MAX_TEXT as u64)?;
        format
            .parse(&text)
            .and_then(|value| self.merge("", value))
            .map_err(|e| ConfigError::InFile { file: file.to_owned(), source: Box::new(e) })
    }

    /// Sets the value at a path from a JSON5 text. An object for a branch sets the keys that it names and
    /// leaves the others; `null` resets a key, or all keys of a branch, to the default. On an error
    /// nothing is changed.
    ///
    /// # Errors
    /// The text, the path or the value is invalid.
    pub fn insert_json5(&mut self, path: &str, text: &str) -> Result<(), ConfigError> {
        self.insert(path, text::parse(text)?)
    }

    /// [`Config::insert_json5`] with a value that is parsed already.
    ///
    /// # Errors
    /// The path or the value is invalid.
    pub fn insert(&mut self, path: &str, value: Value) -> Result<(), ConfigError> {
        let mut changed = self.clone();
        changed.merge(path.trim_matches('/'), value)?;
        *self = changed;
        Ok(())
    }

    /// The value at a path: of a key, of a branch, or below a key of free form.
    ///
    /// # Errors
    /// The path does not exist.
    pub fn get(&self, path: &str) -> Result<&Value, ConfigError> {
        let path = path.trim_matches('/');
        let found = match keys::find(path) {
            Place::Unknown => None,
            _ => self.find(path),
        };
        found.ok_or_else(|| unknown(path))
    }

    /// The value at a path, if there is one. For keys that may be absent: the error of [`Config::get`] compares the
    /// path with every key, to suggest the nearest.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&Value> {
        segments(path).try_fold(&self.root, |value, name| value.get(name))
    }

    /// [`Config::get`] as JSON text.
    ///
    /// # Errors
    /// The path does not exist.
    pub fn get_json(&self, path: &str) -> Result<String, ConfigError> {
        self.get(path).map(Value::to_string)
    }

    /// As [`Config::get_json`], with `***` in place of secrets.
    ///
    /// # Errors
    /// The path does not exist.
    pub fn shown(&self, path: &str) -> Result<String, ConfigError> {
        let mut value = self.get(path)?.clone();
        let last = segments(path).last().unwrap_or_default();
        values::without_secrets(&mut value, values::is_secret_key(last));
        Ok(value.to_string())
    }

    /// The whole tree as JSON text, secrets included; [`Config::from_json5`] makes an equal one.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.root.to_string()
    }

    /// The role of the node.
    #[must_use]
    pub fn mode(&self) -> WhatAmI {
        self.root.get("mode").and_then(Value::as_str).and_then(values::role).unwrap_or(WhatAmI::Peer)
    }

    /// Effective value of a key in a mode: the value, or the default.
    pub(super) fn effective(&self, key: &Key, mode: WhatAmI) -> Value {
        match self.find(key.path).map(|value| (value, values::for_mode(key, value, mode))) {
            Some((_, Some(value))) => value.clone(),
            // As in eclipse-zenoh, a mode that a per-mode list of endpoints leaves out has no endpoints.
            Some((Value::Object(_), None)) if matches!(key.kind, super::Kind::Endpoints { .. }) => {
                Value::Array(Vec::new())
            }
            _ => key.default_for(mode),
        }
    }

    /// Keys that were changed but have no effect, for a warning; see [`Key::acted_on`].
    pub fn ignored(&self) -> impl Iterator<Item = &'static str> {
        let changed = |key: &&Key| self.find(key.path).is_some_and(|value| *value != key.initial());
        KEYS.iter().filter(|key| !key.acted_on()).filter(changed).map(|key| key.path)
    }

    /// Sections of `plugins` without an effect here, as keys.
    pub fn plugins_without_effect(&self) -> impl Iterator<Item = String> {
        let sections = self.find("plugins").and_then(Value::as_object);
        let names = sections.into_iter().flat_map(Map::keys);
        names.filter(|name| !keys::BUILT_IN.contains(&name.as_str())).map(|name| format!("plugins/{name}"))
    }

    /// Parses JSON5 without looking at its content.
    ///
    /// # Errors
    /// The text is not JSON5.
    pub fn parse_json5(text: &str) -> Result<Value, ConfigError> {
        text::parse(text)
    }

    /// Merges a value. On failure a part of it may be merged already; the callers work on copies.
    fn merge(&mut self, path: &str, value: Value) -> Result<(), ConfigError> {
        match keys::find(path) {
            Place::Unknown => obsolete(path, &value).unwrap_or_else(|| Err(unknown(path))),
            Place::Leaf(key, "") => {
                *slot(&mut self.root, path) = values::check(key, value)?;
                Ok(())
            }
            Place::Leaf(key, rest) => self.insert_free(key, rest, value),
            Place::Branch => match value {
                Value::Object(map) => map.into_iter().try_for_each(|(name, value)| {
                    let below = if path.is_empty() { name } else { format!("{path}/{name}") };
                    if below.ends_with('/') || below.is_empty() {
                        // An empty name would refer to this branch again.
                        return Err(unknown(&format!("{below}/")));
                    }
                    self.merge(&below, value)
                }),
                Value::Null => KEYS
                    .iter()
                    .filter(|key| below(path, key.path).is_some())
                    .try_for_each(|key| self.merge(key.path, Value::Null)),
                // There may be secrets below this branch, and the value may be one.
                other => Err(ConfigError::value(path, "an object", values::type_of(&other))),
            },
        }
    }

    /// Sets a value below a key of free form.
    fn insert_free(&mut self, key: &Key, rest: &str, value: Value) -> Result<(), ConfigError> {
        if rest.split('/').count() > MAX_SEGMENTS || rest.split('/').any(str::is_empty) {
            return Err(unknown(&format!("{}/{rest}", key.path)));
        }
        let mut here = slot(&mut self.root, key.path);
        let mut path = key.path.to_owned();
        for name in rest.split('/') {
            if here.is_null() {
                *here = Value::Object(Map::new());
            }
            // The value may be a secret, or have one.
            let got = values::type_of(here);
            let Value::Object(map) = here else {
                return Err(ConfigError::value(&path, "an object", got));
            };
            here = map.entry(name).or_insert(Value::Null);
            path = format!("{path}/{name}");
        }
        *here = value;
        slot(&mut self.root, key.path).sort_all_objects();
        Ok(())
    }
}

/// As [`Config::to_json`], with the names in alphabetical order, and with `***` in place of secrets.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = values::sorted(self.root.clone());
        values::without_secrets(&mut shown, false);
        fmt::Display::fmt(&shown, f)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads a text file of at most `max` bytes.
pub(super) fn read(file: &Path, max: u64) -> Result<String, ConfigError> {
    let open = || {
        let mut text = String::new();
        // One byte above the limit reveals a longer file; a device file reports no length.
        fs::File::open(file)?.take(max + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = open().map_err(|source| ConfigError::File { file: file.to_owned(), source })?;
    if text.len() as u64 > max {
        let source = Box::new(ConfigError::TooLong { len: text.len() as u64, max });
        return Err(ConfigError::InFile { file: file.to_owned(), source });
    }
    Ok(text)
}

/// Parts between semicolons that are outside of quoted text.
fn pairs(text: &str) -> impl Iterator<Item = &str> {
    let (mut quote, mut escaped) = (None, false);
    text.split(move |c| {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            _ => {}
        }
        quote.is_none() && c == ';'
    })
}

pub(super) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Slot of a known path; missing branches are created.
fn slot<'a>(root: &'a mut Value, path: &str) -> &'a mut Value {
    segments(path).fold(root, |value, name| {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        &mut value[name]
    })
}

/// Accepts and drops keys of configuration files for eclipse-zenoh up to 1.8 that have no effect any
/// more, as it does itself. `None` if `path` is not one of them.
fn obsolete(path: &str, value: &Value) -> Option<Result<(), ConfigError>> {
    let (fits, expected) = match path {
        "routing/router/peers_failover_brokering" => (value.is_boolean(), "true or false"),
        "routing/peer" => (value.is_object(), "an object"),
        _ => return None,
    };
    let linkstate = |mode: &Value| match mode {
        // A value for each mode.
        Value::Object(map) => map.values().any(|mode| mode == "linkstate"),
        mode => mode == "linkstate",
    };
    if value.get("mode").is_some_and(linkstate) {
        tracing::warn!(
            path = "routing/peer/mode",
            "linkstate routing between peers is not supported: peers exchange data over direct links or \
             through a router, and forward nothing to each other; connect them to a router, or remove the key"
        );
        return Some(Ok(()));
    }
    if fits || value.is_null() {
        tracing::info!(path, "this key is obsolete and has no effect");
        return Some(Ok(()));
    }
    Some(Err(ConfigError::value(path, expected, values::shown(value))))
}

/// Names the shortest part of `path` that is unknown.
fn unknown(path: &str) -> ConfigError {
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    let first =
        ends.map(|end| &path[..end]).find(|part| matches!(keys::find(part), Place::Unknown)).unwrap_or(path);
    ConfigError::UnknownKey {
        path: values::shorten(first, MAX_PATH),
        nearest: nearest_path(first, keys::known_paths()).unwrap_or_default().to_owned(),
    }
}
