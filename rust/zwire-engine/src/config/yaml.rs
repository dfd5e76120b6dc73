//! Parser from YAML text to a JSON tree, with the same bounds as for JSON5.
//!
//! Follows the parser of eclipse-zenoh: the core schema of YAML 1.2 plus binary numbers, one document,
//! aliases but no merge keys, no tags but those of the core schema. For a key of text type, a scalar that
//! looks like a number is read as text.

use super::{
    ConfigError,
    keys::{self, Kind, Place},
    locate::{Position, Positions, joined},
    text::{MAX_DEPTH, MAX_TEXT},
};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Number, Value};
use std::{borrow::Cow, collections::HashMap};

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Value, ConfigError> {
    if text.len() > MAX_TEXT {
        return Err(ConfigError::TooLong { len: text.len() as u64, max: MAX_TEXT as u64 });
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut tree = Tree::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let at = error.marker();
            syntax(at.line(), at.col(), error.info().to_owned())
        })?;
        tree.take(event).map_err(|problem| located(span, problem))?;
    }
    tree.root.ok_or_else(|| syntax(1, 0, "there is no value".to_owned()))
}

/// Positions in a text, as far as it can be read.
pub(super) fn locate(text: &str) -> Positions {
    let (mut found, mut tree) = (Positions::default(), Tree::default());
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { break };
        let at = Position { line: span.start.line(), column: span.start.col() + 1 };
        let name = match &event {
            Event::Scalar(text, ..) if tree.wants_name() => Some(text.to_string()),
            Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) | Event::Alias(_) => None,
            _ => {
                let _ = tree.take(event);
                continue;
            }
        };
        let path = tree.path();
        found.note(name.map_or(path.clone(), |name| joined(&path, &name)), at);
        if tree.take(event).is_err() {
            break;
        }
    }
    found
}

fn syntax(line: usize, column: usize, problem: String) -> ConfigError {
    ConfigError::Syntax { line, column: column + 1, problem }
}

fn located(span: Span, problem: Problem) -> ConfigError {
    syntax(span.start.line(), span.start.col(), problem.into_owned())
}

type Problem = Cow<'static, str>;

/// List or object that is not complete yet.
struct Open {
    anchor: usize,
    content: YamlContent,
}

enum YamlContent {
    List(Vec<Value>),
    /// Object, with the name of the next value.
    Object(Map<String, Value>, Option<String>),
}

#[derive(Default)]
struct Tree {
    root: Option<Value>,
    open: Vec<Open>,
    /// Values of anchors, by the ids of the parser; 0 means no anchor.
    anchors: HashMap<usize, Value>,
    /// Bytes that expanded aliases have added.
    aliased: usize,
}

impl Tree {
    fn take(&mut self, event: Event<'_>) -> Result<(), Problem> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => Err("a second document".into()),
            Event::DocumentStart(_) => Ok(()),
            Event::Alias(number) => {
                let Some(value) = self.anchors.get(&number).cloned() else {
                    return Err("an alias inside the value of its own anchor".into());
                };
                self.aliased += weight(&value);
                if self.aliased > MAX_TEXT {
                    return Err(format!("aliases expand to more than {MAX_TEXT} bytes").into());
                }
                self.put(value, 0)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = if self.wants_name() {
                    Value::String(text.into_owned())
                } else {
                    scalar(text, style, tag.as_deref(), self.wants_text())?
                };
                self.put(value, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(anchor, tag.as_deref(), YamlContent::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(anchor, tag.as_deref(), YamlContent::Object(Map::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { anchor, content: YamlContent::List(list) }) => {
                    self.put(Value::Array(list), anchor)
                }
                Some(Open { anchor, content: YamlContent::Object(map, _) }) => {
                    self.put(Value::Object(map), anchor)
                }
                None => Ok(()),
            },
        }
    }

    fn begin(&mut self, anchor: usize, tag: Option<&Tag>, content: YamlContent) -> Result<(), Problem> {
        if self.wants_name() {
            return Err("the name of a key must be a scalar".into());
        }
        let own = if matches!(content, YamlContent::List(_)) { "seq" } else { "map" };
        if tag.is_some_and(|tag| !(tag.is_yaml_core_schema() && tag.suffix == own)) {
            return Err("an unknown tag".into());
        }
        if self.open.len() == MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels").into());
        }
        self.open.push(Open { anchor, content });
        Ok(())
    }

    fn wants_name(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: YamlContent::Object(_, None), .. }))
    }

    /// Path of the next value, or of the object that the next name belongs to.
    fn path(&self) -> String {
        let parts = self.open.iter().filter_map(|open| match &open.content {
            YamlContent::List(list) => Some(list.len().to_string()),
            YamlContent::Object(_, name) => name.clone(),
        });
        parts.fold(String::new(), |path, part| joined(&path, &part))
    }

    /// Whether the next value belongs to a key of text type.
    fn wants_text(&self) -> bool {
        let mut path = String::new();
        for open in &self.open {
            let YamlContent::Object(_, Some(name)) = &open.content else { return false };
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(name);
        }
        let Place::Leaf(key, "") = keys::find(path.trim_matches('/')) else { return false };
        matches!(key.kind, Kind::Text(_) | Kind::Secret | Kind::Zid | Kind::Key)
    }

    /// Adds a value or a name.
    fn put(&mut self, value: Value, anchor: usize) -> Result<(), Problem> {
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(value),
            Some(YamlContent::List(list)) => list.push(value),
            Some(YamlContent::Object(map, name)) => match name.take() {
                Some(name) => {
                    map.insert(name, value);
                }
                None => match value {
                    Value::String(text) if map.contains_key(&text) => {
                        return Err(format!("`{text}` is given twice").into());
                    }
                    Value::String(text) => *name = Some(text),
                    _ => return Err("the name of a key must be a scalar".into()),
                },
            },
        }
        Ok(())
    }
}

/// Approximate size of a value in bytes.
fn weight(value: &Value) -> usize {
    const EACH: usize = size_of::<Value>();
    EACH + match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(weight).sum(),
        Value::Object(map) => map.iter().map(|(name, value)| name.len() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn scalar(
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    wants_text: bool,
) -> Result<Value, Problem> {
    let Some(tag) = tag else {
        if style != ScalarStyle::Plain {
            return Ok(Value::String(text.into_owned()));
        }
        return Ok(match plain(&text)? {
            Value::Number(_) | Value::Bool(_) if wants_text => Value::String(text.into_owned()),
            value => value,
        });
    };
    if !tag.is_yaml_core_schema() {
        return Err("an unknown tag".into());
    }
    let value = plain(&text)?;
    match (tag.suffix.as_str(), value) {
        ("str", _) => Ok(Value::String(text.into_owned())),
        ("null", value @ Value::Null) | ("bool", value @ Value::Bool(_)) => Ok(value),
        ("int", Value::Number(number)) if !number.is_f64() => Ok(Value::Number(number)),
        ("float", Value::Number(number)) => Ok(Value::Number(number)),
        ("null" | "bool" | "int" | "float", _) => Err("the value does not match its tag".into()),
        _ => Err("an unknown tag".into()),
    }
}

/// Value of a plain scalar.
fn plain(text: &str) -> Result<Value, Problem> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text)?.map_or_else(|| text.into(), Value::Number),
    })
}

fn number(text: &str) -> Result<Option<Number>, Problem> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (digits, radix) = match unsigned.get(..2) {
        Some("0x") => (&unsigned[2..], 16),
        Some("0o") => (&unsigned[2..], 8),
        Some("0b") => (&unsigned[2..], 2),
        _ => (unsigned, 10),
    };
    if !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix)) {
        if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
            // A text in YAML 1.2; YAML 1.1 would read it as octal.
            return Ok(None);
        }
        let out_of_range = || Problem::from("a number out of range");
        let magnitude = u64::from_str_radix(digits, radix).map_err(|_| out_of_range())?;
        return Ok(Some(if text.starts_with('-') {
            0_i64.checked_sub_unsigned(magnitude).ok_or_else(out_of_range)?.into()
        } else {
            magnitude.into()
        }));
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err("a number must be finite".into());
    }
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Ok(None);
    }
    // The parser accepts words as well (`inf`, `nan`), none of which is finite.
    Ok(text.parse().ok().filter(|value: &f64| value.is_finite()).and_then(Number::from_f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn problem(text: &str) -> (usize, usize, String) {
        match parse(text).expect_err(text) {
            ConfigError::Syntax { line, column, problem } => (line, column, problem),
            other => panic!("{text}: {other}"),
        }
    }

    fn read(text: &str) -> Value {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn lists_and_objects_of_both_styles() {
        let text = "---\nconnect:\n  endpoints:\n    - tcp/a:1 # comment\n    - 'tcp/b:2'\n  timeout_ms: {router: 1}\nlist: [[], {}]\n...\n";
        let value = json!({
            "connect": {"endpoints": ["tcp/a:1", "tcp/b:2"], "timeout_ms": {"router": 1}},
            "list": [[], {}],
        });
        assert_eq!(read(text), value);
        assert_eq!(read("\u{feff}mode: client"), json!({"mode": "client"}));
        assert_eq!(read("{\"mode\": \"client\"}"), json!({"mode": "client"}), "JSON is YAML");
        assert_eq!(read("a: |\n  x\n  y\nb: >-\n  x\n  y"), json!({"a": "x\ny\n", "b": "x y"}));
        assert_eq!(read("{1: a, true: b}"), json!({"1": "a", "true": "b"}));
    }

    #[test]
    fn words_without_quotes_mean_what_the_reference_takes_them_for() {
        let text = "{a: 0x10, b: 0o17, c: yes, d: ~, e: 1_0, f: .5, g: 1e3, h: 2020-01-01, i: null, j: , k: True, \
                    l: off, m: 0b11, n: 017, o: +5, p: -0x1, q: 18446744073709551615, r: -9223372036854775808, \
                    s: 1.0, t: inf, u: ., v: '1', w: \"true\", x: 0, y: -0, z: 0x}";
        let value = json!({
            "a": 16, "b": 15, "c": "yes", "d": null, "e": "1_0", "f": 0.5, "g": 1000.0, "h": "2020-01-01",
            "i": null, "j": null, "k": true, "l": "off", "m": 3, "n": "017", "o": 5, "p": -1,
            "q": u64::MAX, "r": i64::MIN, "s": 1.0, "t": "inf", "u": ".", "v": "1", "w": "true", "x": 0, "y": 0,
            "z": "0x",
        });
        assert_eq!(read(text), value);
        for text in ["99999999999999999999", "-9223372036854775809", "0xfffffffffffffffff"] {
            assert_eq!(problem(text), (1, 1, "a number out of range".to_owned()), "{text}");
        }
        for text in [".inf", "-.inf", ".nan"] {
            assert_eq!(problem(text).2, "a number must be finite", "{text}");
        }
    }

    #[test]
    fn keys_that_are_texts_take_numbers_as_they_are_written() {
        let text = "{id: 12, transport: {auth: {usrpwd: {user: 007, password: 1e3}}}, namespace: true}";
        let value = json!({
            "id": "12", "transport": {"auth": {"usrpwd": {"user": "007", "password": "1e3"}}}, "namespace": "true",
        });
        assert_eq!(read(text), value);
        assert_eq!(read("transport/auth/usrpwd/user: 7"), json!({"transport/auth/usrpwd/user": "7"}));
        assert_eq!(read("{id: ~, metadata: {id: 12}}"), json!({"id": null, "metadata": {"id": 12}}));
    }

    #[test]
    fn tags_and_aliases() {
        let text = "{a: !!str 1, b: !!int \"3\", c: !!float 1, d: !!bool 'true', e: !!null '', f: !!seq [], g: !!map {}}";
        let value = json!({"a": "1", "b": 3, "c": 1, "d": true, "e": null, "f": [], "g": {}});
        assert_eq!(read(text), value);
        for text in ["a: !foo 1", "a: !foo [1]", "a: !!set {}", "a: !!timestamp 2001-01-01"] {
            assert_eq!(problem(text).2, "an unknown tag", "{text}");
        }
        assert_eq!(problem("a: !!int x").2, "the value does not match its tag");
        let text = "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\ne: &y word\n*y : 2";
        let value = json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"<<": {"b": 1}}, "e": "word", "word": 2});
        assert_eq!(read(text), value);
        assert!(problem("a: *x").2.contains("unknown anchor"));
        assert_eq!(problem("a: &x [*x]").2, "an alias inside the value of its own anchor");
    }

    #[test]
    fn errors_name_line_and_column() {
        assert_eq!(problem("mode: client\nmode: peer"), (2, 1, "`mode` is given twice".to_owned()));
        assert_eq!(problem("a: 1\n---\nb: 2").2, "a second document");
        for text in ["", "# comment", "---\n...\n---\n"] {
            assert!(parse(text).is_err() || read(text).is_null(), "{text}");
        }
        assert_eq!(problem("").2, "there is no value");
        assert_eq!(problem("mode:\n\tx").0, 2);
        assert_eq!(problem("? [a]\n: 1").2, "the name of a key must be a scalar");
        assert_eq!(problem("a: 1\nb: ]").0, 2);
        assert!(parse("a: [1").is_err());
    }

    #[test]
    fn depth_length_and_aliases_are_bounded() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        read(&deep(MAX_DEPTH));
        assert!(problem(&deep(MAX_DEPTH + 1)).2.contains("nested deeper"));
        assert!(parse(&deep(100_000)).is_err());
        assert!(matches!(parse(&" ".repeat(MAX_TEXT + 1)), Err(ConfigError::TooLong { .. })));
        let mut laughs = "a0: &a0 [lol]\n".to_owned();
        for level in 1..30 {
            let before = format!("*a{}", level - 1);
            laughs += &format!("a{level}: &a{level} [{before}, {before}, {before}]\n");
        }
        assert!(parse(&laughs).is_err());
        let long = format!("a: &x {}\nb: [{}]", "x".repeat(100_000), vec!["*x"; 100].join(", "));
        assert!(problem(&long).2.contains("aliases expand to more"));
    }

    proptest! {
        #[test]
        fn whatever_a_text_is_it_is_read_or_refused(text in "([-a:&*!?|>\\[\\]{}, \n\t'\"#%0x~]|\\PC){0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn json_is_read_as_it_is(text in "[a-z0-9 ]{0,8}", number in any::<i64>(), flag in any::<bool>()) {
            let value = json!({"a": [text, number, flag, null], "b": {"c": text}});
            prop_assert_eq!(read(&value.to_string()), value);
        }
    }
}
