//! Configuration errors, with the place of the error.

use std::{io, path::PathBuf};

use thiserror::Error;
use zwire_proto::zenoh::keyexpr::KeyExprError;

use super::endpoint::EndpointError;

/// Result of reading a configuration.
pub(super) type Result<T> = core::result::Result<T, ConfigError>;

const FORMATS: &str = if cfg!(feature = "yaml") {
    "the extension must be json5, json, yaml or yml"
} else {
    "the extension must be json5 or json; this build has no YAML (feature `yaml`)"
};

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The text is not JSON5, or not YAML. Line and column count from 1.
    #[error("line {line} column {column}: {problem}")]
    Syntax {
        /// Line of the first unexpected character.
        line: usize,
        /// Column of that character, in characters.
        column: usize,
        /// Message of the parser.
        problem: String,
    },
    /// The text is longer than the allowed maximum.
    #[error("{len} bytes of configuration, at most {max}")]
    TooLong {
        /// Length of the text in bytes.
        len: u64,
        /// The maximum.
        max: u64,
    },
    /// A key that does not exist.
    #[error("unknown key `{path}`, did you mean `{nearest}`?")]
    UnknownKey {
        /// The full path of the first part that is unknown.
        path: String,
        /// The most similar known path.
        nearest: String,
    },
    /// A value of the wrong type or outside its range.
    #[error("`{path}`: expected {expected}, got {got}")]
    Value {
        /// The full path; an element of a list has its index: `connect/endpoints/2`.
        path: String,
        /// Description of valid values.
        expected: String,
        /// The value as JSON, shortened; for a secret only its type.
        got: String,
    },
    /// An endpoint that does not parse.
    #[error("`{path}`: {source}")]
    Endpoint {
        /// The full path with the index in the list.
        path: String,
        /// Reason, with the invalid part of the endpoint.
        source: EndpointError,
    },
    /// A key expression that is not legal.
    #[error("`{path}`: key expression `{text}`: {source}")]
    KeyExpr {
        /// The full path with the index in the list.
        path: String,
        /// The text that was given, shortened.
        text: String,
        /// The violated rule.
        source: KeyExprError,
    },
    /// Two values that are valid alone but exclude each other.
    #[error("`{first}` and `{second}`: {rule}")]
    Conflict {
        /// The first key.
        first: &'static str,
        /// The other key.
        second: &'static str,
        /// The rule that the combination violates.
        rule: &'static str,
    },
    /// A change that an open session does not accept.
    #[error("`{path}`: {reason}")]
    Refused {
        /// The key.
        path: String,
        /// Why it is refused.
        reason: String,
    },
    /// A file that cannot be read.
    #[error("{}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file with an extension of no supported format.
    #[error("{}: {FORMATS}", file.display())]
    FileFormat {
        /// The file.
        file: PathBuf,
    },
    /// A line of a credentials file without `user:password`.
    #[error("{} line {line}: expected `user:password`", file.display())]
    Credentials {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The content of a file is invalid.
    #[error("{}: {source}", file.display())]
    InFile {
        /// The file.
        file: PathBuf,
        /// Error in the content.
        source: Box<ConfigError>,
    },
    /// The content of an environment variable is invalid.
    #[error("{name}: {source}")]
    InVariable {
        /// The variable.
        name: &'static str,
        /// Error in the content.
        source: Box<ConfigError>,
    },
    /// No environment variable with a configuration is set.
    #[error(
        "neither ZENOH_CONFIG nor ZWIRE_CONFIG, ZENOH_SESSION_CONFIG_URI or ZENOH_CONFIG_OVERRIDE is set in the environment"
    )]
    NoEnvironment,
}

impl ConfigError {
    /// A value of the wrong type or outside its range.
    pub(super) fn value(path: &str, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self::Value { path: path.to_owned(), expected: expected.into(), got: got.into() }
    }

    /// The error itself, without the file that it happened in.
    #[must_use]
    pub fn innermost(&self) -> &Self {
        match self {
            Self::InFile { source, .. } | Self::InVariable { source, .. } => source.innermost(),
            other => other,
        }
    }

    /// The key path, for errors that have one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self.innermost() {
            Self::UnknownKey { path, .. }
            | Self::Value { path, .. }
            | Self::Endpoint { path, .. }
            | Self::KeyExpr { path, .. }
            | Self::Refused { path, .. } => Some(path),
            Self::Conflict { first, .. } => Some(first),
            _ => None,
        }
    }
}
