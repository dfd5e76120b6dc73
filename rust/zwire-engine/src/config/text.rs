//! Parser from JSON5 text to a JSON tree, with bounds on size and depth.

use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use super::ConfigError;

/// Longest text: a hundred times the commented default file of eclipse-zenoh, which has 40 KiB.
pub(super) const MAX_TEXT: usize = 4 << 20;

/// Deepest nesting. The deepest key has seven levels; free-form values get more. The parser recurses, so
/// that without a bound a text of brackets would overflow the stack.
pub(super) const MAX_DEPTH: usize = 64;

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Value, ConfigError> {
    if text.len() > MAX_TEXT {
        return Err(ConfigError::TooLong { len: text.len() as u64, max: MAX_TEXT as u64 });
    }
    json5::from_str(text).map(|Root(value)| value).map_err(|e| {
        // If the text ends early, the parser may report no position; then use the end of the text.
        let at = e.position().unwrap_or_else(|| json5::Position::from_offset(text.len(), text));
        let (line, column) = (at.line + 1, at.column + 1);
        let problem = match e.code() {
            Some(code) => code.to_string(),
            // Errors of this module, without the position that `Display` would add.
            None => {
                let text = e.to_string();
                let end = text.rfind(" at line ").unwrap_or(text.len());
                text[..end].to_owned()
            }
        };
        ConfigError::Syntax { line, column, problem }
    })
}

struct Root(Value);

impl<'de> Deserialize<'de> for Root {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TextNode { depth: 0 }.deserialize(deserializer).map(Self)
    }
}

/// A value at a known depth. Unlike the visitor of `Value` this counts the depth, and refuses numbers
/// that JSON lacks (NaN, infinities) and duplicate names in an object.
struct TextNode {
    depth: usize,
}

impl TextNode {
    fn inner<E: serde::de::Error>(&self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format_args!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for TextNode {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextNode {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON5 value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number.map(Value::Number).ok_or_else(|| E::custom("a number must be finite"))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner()?)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self.inner()?)?;
            if map.contains_key(&name) {
                return Err(A::Error::custom(format_args!("`{name}` is given twice")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn position(text: &str) -> (usize, usize, String) {
        match parse(text).expect_err(text) {
            ConfigError::Syntax { line, column, problem } => (line, column, problem),
            other => panic!("{text}: {other}"),
        }
    }

    #[test]
    fn json5_is_more_than_json() {
        let text = "// comment\n{a: 'x', \"b\": [1, 0x10, -1e3, .5,], /* c */ d: null, e: true,}";
        let value = json!({"a": "x", "b": [1, 16, -1000.0, 0.5], "d": null, "e": true});
        assert_eq!(parse(text).unwrap(), value);
    }

    #[test]
    fn errors_name_line_and_column() {
        assert_eq!(position("{\n  mode: client\n}").0, 2);
        assert_eq!(position("{\n  mode: client\n}").1, 9);
        assert_eq!(position("").0, 1);
        let (line, column, problem) = position("{a: 1,\n b: [1, 2\n");
        assert_eq!((line, column), (2, 5), "what the end of the text leaves open");
        assert_eq!(problem, "EOF parsing array");
        assert_eq!(position("{a: 1} x").1, 8);
        assert!(position("{a: 1, a: 2}").2.contains("`a` is given twice"));
        let (line, _, problem) = position("{\n a: NaN}");
        assert_eq!((line, problem.as_str()), (2, "a number must be finite"));
    }

    #[test]
    fn brackets_do_not_overflow_the_stack() {
        for open in ["[", "{a:", "[{a:"] {
            let (_, _, problem) = position(&open.repeat(200_000));
            assert!(problem.contains("64 levels"), "{open}: {problem}");
        }
        let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
        assert!(parse(&deep).is_ok());
    }

    #[test]
    fn a_text_has_a_bound() {
        let text = " ".repeat(MAX_TEXT + 1);
        assert!(matches!(parse(&text), Err(ConfigError::TooLong { .. })));
    }
}
