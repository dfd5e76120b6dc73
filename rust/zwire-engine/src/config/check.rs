//! Check of a whole configuration text: every key that is wrong or has no effect, with its line.

use super::{
    Config, ConfigError,
    error::Result,
    keys::{self, Place},
    locate::{Position, Positions},
    text,
    tree::segments,
};
use serde_json::Value;

/// Format of a configuration text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON5, of which JSON is a part.
    Json5,
    /// YAML.
    #[cfg(feature = "yaml")]
    Yaml,
}

/// Gravity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// The configuration cannot be used.
    Error,
    /// The key is accepted without effect.
    NoEffect,
}

/// Key of a configuration text that is wrong or has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Gravity.
    pub gravity: Gravity,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// Path of the key; empty for a text that does not parse.
    pub path: String,
    /// Description, with what is expected or the nearest known name.
    pub problem: String,
}

impl Format {
    /// The format that the end of a file name stands for.
    #[must_use]
    pub fn of(file: &std::path::Path) -> Option<Self> {
        match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "json5" | "json" => Some(Self::Json5),
            #[cfg(feature = "yaml")]
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    pub(super) fn parse(self, text: &str) -> Result<Value> {
        match self {
            Self::Json5 => text::parse(text),
            #[cfg(feature = "yaml")]
            Self::Yaml => super::yaml::parse(text),
        }
    }

    fn locate(self, text: &str) -> Positions {
        match self {
            Self::Json5 => Positions::of_json5(text),
            #[cfg(feature = "yaml")]
            Self::Yaml => super::yaml::locate(text),
        }
    }
}

/// Checks a text, and reports all that is wrong in the order of lines.
#[must_use]
pub fn check(text: &str, format: Format) -> Vec<Finding> {
    let whole = match format.parse(text) {
        Ok(whole) => whole,
        Err(error) => {
            let (line, column, problem) = match error {
                ConfigError::Syntax { line, column, problem } => (line, column, problem),
                other => (1, 1, other.to_string()),
            };
            return vec![Finding { gravity: Gravity::Error, line, column, path: String::new(), problem }];
        }
    };
    let mut audit = Audit { config: Config::default(), positions: format.locate(text), found: Vec::new() };
    audit.visit("", whole);
    // The file is read as that of a router: its command serves these sections.
    for name in keys::OF_COMMAND {
        let section = format!("plugins/{name}");
        if let Ok(without) = audit.config.edited(&section, None) {
            audit.config = without;
        }
    }
    if audit.found.is_empty()
        && let Err(error) = audit.config.resolve()
    {
        audit.report("", &error);
    }
    audit.report_effectless();
    audit.found.sort_by_key(|finding| (finding.line, finding.column));
    audit.found
}

struct Audit {
    /// The keys that are right.
    config: Config,
    positions: Positions,
    found: Vec<Finding>,
}

impl Audit {
    fn visit(&mut self, path: &str, value: Value) {
        match (keys::find(path), value) {
            (Place::Branch, Value::Object(map)) => {
                for (name, value) in map {
                    let below = if path.is_empty() { name } else { format!("{path}/{name}") };
                    self.visit(&below, value);
                }
            }
            (_, value) => {
                if let Err(error) = self.config.insert(path, value) {
                    self.report(path, &error);
                }
            }
        }
    }

    fn report(&mut self, path: &str, error: &ConfigError) {
        let path = error.path().unwrap_or(path).to_owned();
        self.find(Gravity::Error, path, error.to_string());
    }

    fn report_effectless(&mut self) {
        let keys: Vec<String> =
            self.config.ignored().filter(|key| *key != "plugins").map(str::to_owned).collect();
        let plugins: Vec<String> = self.config.plugins_without_effect().collect();
        for key in keys.into_iter().chain(plugins) {
            let problem = format!("`{key}` has no effect here");
            self.find(Gravity::NoEffect, key, problem);
        }
    }

    fn find(&mut self, gravity: Gravity, path: String, problem: String) {
        let Position { line, column } = self.positions.nearest(segments(&path));
        self.found.push(Finding { gravity, line, column, path, problem });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, format: Format) -> Vec<(usize, String)> {
        check(text, format).into_iter().map(|finding| (finding.line, finding.problem)).collect()
    }

    #[test]
    fn each_wrong_key_is_reported_with_its_line() {
        let text = "{\n  // a comment\n  mode: 'rooter',\n  conect: {endpoints: []},\n  \"transport\": {\n    \
                    link: { tx: {\n      lease: \"long\", /* two\n lines */ keep_alive: 4,\n    } },\n  },\n  \
                    access_control: {\n    rules: [\n      {id: 'a', permission: 'deny', messages: ['put'], \
                    key_exprs: ['a']},\n      {id: 'b', permission: 'maybe', messages: ['put'], key_exprs: ['a']},\n    \
                    ],\n  },\n  region_name: 'north',\n  plugins: {\n    webserver: {http_port: 8080},\n  },\n}\n";
        let found = found(text, Format::Json5);
        let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 4, 7, 14, 17, 19], "{found:?}");
        for ((_, problem), words) in found.iter().zip([
            "\"router\"",
            "did you mean `connect`",
            "an integer",
            "\"deny\", \"allow\"",
            "no effect",
            "plugins/webserver",
        ]) {
            assert!(problem.contains(words), "{problem}");
        }
    }

    #[test]
    fn sections_that_the_command_serves_have_an_effect() {
        let text = "{mode: 'router', plugins: {rest: {__required__: true, http_port: 8000}, remote_api: {}, \
                    storage_manager: {}, dds: {}}}";
        let found = found(text, Format::Json5);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].1.contains("plugins/dds"), "{found:?}");
    }

    #[cfg(feature = "yaml")]
    #[test]
    fn yaml_has_lines_as_well() {
        let text = "mode: router\nlisten:\n  endpoints:\n    - tcp/127.0.0.1:7447\n    - tcp\nscoutin: {}\n";
        let found = found(text, Format::Yaml);
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [5, 6], "{found:?}");
    }

    #[test]
    fn a_text_that_does_not_parse_and_one_that_is_right() {
        assert_eq!(found("{mode: ", Format::Json5).len(), 1);
        assert_eq!(found("{mode: 'router', adminspace: {permissions: {write: true}}}", Format::Json5), []);
        let conflict = "{\n transport: {unicast: {\n lowlatency: true}}}";
        assert_eq!(found(conflict, Format::Json5)[0].0, 3);
    }
}
