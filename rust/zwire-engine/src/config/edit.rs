//! Changes of a configuration by path, as writes to the admin space name them (`zenoh-behaviour` 6.1).

use super::{
    Config, ConfigError, KEYS, Key,
    keys::{self, Place},
    tree::{MAX_PATH, MAX_SEGMENTS, segments},
    values,
};
use serde_json::{Map, Value};

impl Config {
    /// This configuration with another value at a path; without one the value is removed: a key has its default
    /// again, an element of a list or of a free object is gone.
    ///
    /// Below a list a part of the path is the number of an element, `FIELD=VALUE` for the element with that field,
    /// or `+` for a new one at the end.
    ///
    /// # Errors
    /// The path does not exist, or the result is not valid there.
    pub fn edited(&self, path: &str, value: Option<Value>) -> Result<Self, ConfigError> {
        let path = path.trim_matches('/');
        let mut after = self.clone();
        let Some((key, rest)) = leaf(path) else {
            after.insert(path, value.unwrap_or(Value::Null))?;
            return Ok(after);
        };
        let mut whole = self.get(key.path)?.clone();
        let parts: Vec<&str> = segments(rest).collect();
        if parts.len() > MAX_SEGMENTS {
            let (expected, got) = (format!("at most {MAX_SEGMENTS} parts below `{}`", key.path), parts.len());
            return Err(ConfigError::value(&values::shorten(path, MAX_PATH), expected, got.to_string()));
        }
        // The whole value may have secrets.
        place(&mut whole, &parts, value)
            .map_err(|problem| ConfigError::value(path, problem, values::type_of(&whole)))?;
        after.insert(key.path, whole)?;
        Ok(after)
    }

    /// Keys that differ from those of another configuration for this one's mode; of `plugins` each section by itself.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mode = self.mode();
        let differs = |key: &&Key| self.effective(key, mode) != other.effective(key, other.mode());
        let sections =
            |config: &Self| config.find("plugins").and_then(Value::as_object).cloned().unwrap_or_default();
        let (own, theirs) = (sections(self), sections(other));
        let mut names: Vec<&String> = own.keys().chain(theirs.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let plugins = names.into_iter().filter(|name| own.get(*name) != theirs.get(*name));
        let keys = KEYS.iter().filter(|key| key.path != "plugins").filter(differs);
        keys.map(|key| key.path.to_owned()).chain(plugins.map(|name| format!("plugins/{name}"))).collect()
    }
}

/// The key that a path leads into, and the rest of the path; `None` for a key itself, for a branch, and for a path
/// that leads nowhere.
fn leaf(path: &str) -> Option<(&'static Key, &str)> {
    let ends = path.match_indices('/').map(|(end, _)| end);
    ends.filter_map(|end| match keys::find(&path[..end]) {
        Place::Leaf(key, "") => Some((key, &path[end + 1..])),
        _ => None,
    })
    .next()
}

/// Sets or removes the value at a path within a value; the error says what was expected there.
fn place(here: &mut Value, path: &[&str], value: Option<Value>) -> Result<(), String> {
    let Some((part, rest)) = path.split_first() else {
        *here = value.unwrap_or(Value::Null);
        return Ok(());
    };
    if here.is_null() {
        *here = if *part == "+" || part.contains('=') {
            Value::Array(Vec::new())
        } else {
            Value::Object(Map::new())
        };
    }
    match here {
        Value::Object(map) if rest.is_empty() && value.is_none() => {
            map.remove(*part).map(drop).ok_or_else(|| format!("an object with `{part}`"))
        }
        Value::Object(map) => place(map.entry(*part).or_insert(Value::Null), rest, value),
        Value::Array(list) if *part == "+" => {
            let mut element = Value::Null;
            place(&mut element, rest, value)?;
            list.push(element);
            Ok(())
        }
        Value::Array(list) => {
            let at = position(list, part);
            match (at, rest.is_empty(), value) {
                (Some(at), true, None) => drop(list.remove(at)),
                (Some(at), _, value) => place(&mut list[at], rest, value)?,
                // An element that is written by its field does not have to be there already.
                (None, true, Some(value)) if has_field(&value, part) => list.push(value),
                (None, ..) => return Err(format!("a list with an element `{part}`")),
            }
            Ok(())
        }
        _ => Err("an object or a list".to_owned()),
    }
}

/// Place of the element that a part of a path names.
fn position(list: &[Value], part: &str) -> Option<usize> {
    match part.parse::<usize>() {
        Ok(at) => (at < list.len()).then_some(at),
        Err(_) => list.iter().position(|element| has_field(element, part)),
    }
}

/// Whether an element has the field and the value of `FIELD=VALUE`.
fn has_field(element: &Value, part: &str) -> bool {
    let Some((field, value)) = part.split_once('=') else { return false };
    match element.get(field) {
        Some(Value::String(text)) => text == value,
        Some(Value::Number(number)) => number.to_string().as_str() == value,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules() -> Config {
        let rule =
            |id: &str| json!({"id": id, "permission": "deny", "messages": ["put"], "key_exprs": ["a"]});
        Config::from_value(json!({"access_control": {"rules": [rule("one"), rule("two")]}})).unwrap()
    }

    #[test]
    fn an_element_of_a_list_is_named_by_its_field_or_number() {
        let config = rules().edited("access_control/rules/id=two/permission", Some("allow".into())).unwrap();
        let value = |path| config.get(path).unwrap().clone();
        assert_eq!(value("access_control/rules")[1]["permission"], "allow");
        assert_eq!(value("access_control/rules")[0]["permission"], "deny");
        let config = config.edited("access_control/rules/0", None).unwrap();
        assert_eq!(config.get("access_control/rules").unwrap().as_array().unwrap().len(), 1);
        let three = json!({"id": "three", "permission": "deny", "messages": ["put"], "key_exprs": ["b"]});
        for path in ["access_control/rules/+", "access_control/rules/id=three"] {
            let config = config.edited(path, Some(three.clone())).unwrap();
            assert_eq!(config.get("access_control/rules").unwrap()[1]["id"], "three", "{path}");
        }
    }

    #[test]
    fn a_wrong_path_or_value_is_refused_with_its_place() {
        for (path, value, words) in [
            ("access_control/rules/id=nine/permission", Some(json!("deny")), "id=nine"),
            (
                "access_control/rules/id=two/permission",
                Some(json!("perhaps")),
                "access_control/rules/1/permission",
            ),
            ("access_control/rule", Some(json!([])), "access_control/rules"),
            ("metadata/a", None, "`a`"),
            ("mode/x", Some(json!(1)), "expected one of"),
        ] {
            let error = rules().edited(path, value).unwrap_err().to_string();
            assert!(error.contains(words), "{path}: {error}");
        }
    }

    #[test]
    fn a_refusal_shows_no_secret_and_a_path_has_a_bound() {
        let hidden = json!({"transport/auth/usrpwd": {"user": "ann", "password": "hidden"},
            "plugins": {"rest": {"tokens": "hidden"}}, "metadata": "hidden"});
        let config = Config::from_value(hidden).unwrap();
        for path in ["transport/auth/usrpwd/password/x", "plugins/rest/tokens/x/y", "metadata/x"] {
            let edited = config.edited(path, Some(json!(1))).unwrap_err().to_string();
            assert!(!edited.contains("hidden") && edited.contains("an object"), "{path}: {edited}");
            let inserted = config.clone().insert(path, json!(1)).unwrap_err().to_string();
            assert!(!inserted.contains("hidden"), "{path}: {inserted}");
        }
        let deep = |chunks| format!("metadata{}", "/a".repeat(chunks));
        assert!(Config::default().edited(&deep(32), Some(json!(1))).is_ok());
        for chunks in [33, 32_000] {
            let error = Config::default().edited(&deep(chunks), Some(json!(1))).unwrap_err();
            assert!(error.to_string().contains("at most 32 parts"), "{error}");
        }
    }

    #[test]
    fn free_keys_get_the_objects_that_a_path_needs() {
        let path = "plugins/storage_manager/storages/demo";
        let config = Config::default().edited(path, Some(json!({"key_expr": "demo/**"}))).unwrap();
        assert_eq!(
            config.get("plugins").unwrap()["storage_manager"]["storages"]["demo"]["key_expr"],
            "demo/**"
        );
        assert_eq!(config.differences(&Config::default()), ["plugins/storage_manager"]);
        let config = config.edited(path, None).unwrap();
        assert_eq!(config.get("plugins").unwrap()["storage_manager"]["storages"], json!({}));
        assert_eq!(config.edited("metadata", Some(json!(1))).unwrap().differences(&config), ["metadata"]);
        assert_eq!(config.edited("plugins", None).unwrap(), Config::default());
    }
}
