//! [`Record`]: one event with all its fields.

use super::Layer;
use crate::clock;
use core::fmt::{self, Write as _};
use std::time::Duration;
use tracing::{
    Event, Level,
    callsite::Identifier,
    field::{Field, Visit},
};
use zwire_proto::{printable, zenoh::rfc3339::Instant};

/// Longest text of a field, in bytes. Errors quote text of the peer, which may be long.
const TEXT: usize = 1024;

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// Any other value, as text.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// A log event.
#[derive(Clone, Debug)]
pub struct Record {
    /// Layer that it belongs to.
    pub layer: Layer,
    /// Severity.
    pub level: Level,
    /// Time since 1970.
    pub time: Duration,
    /// Name of the thread.
    pub thread: String,
    /// Source file.
    pub file: &'static str,
    /// Line in the source file.
    pub line: u32,
    /// Message, without the fields.
    pub message: String,
    /// Fields, such as peer and error.
    pub fields: Vec<(&'static str, Value)>,
    pub(super) site: Identifier,
}

impl Record {
    pub(super) fn of(event: &Event<'_>, layer: Layer) -> Self {
        let metadata = event.metadata();
        let mut record = Self {
            layer,
            level: *metadata.level(),
            time: clock::now().wall,
            thread: std::thread::current().name().unwrap_or("?").to_owned(),
            file: metadata.file().unwrap_or("?"),
            line: metadata.line().unwrap_or(0),
            message: String::new(),
            fields: Vec::new(),
            site: metadata.callsite(),
        };
        event.record(&mut record);
        record
    }

    /// The message followed by the fields.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.message.clone();
        for (at, (name, value)) in self.fields.iter().enumerate() {
            // Writing to a `String` does not fail.
            let _ = write!(text, "{} {name}={value}", if at == 0 { ":" } else { "," });
        }
        text
    }

    /// The record as a line, without line end.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { time, level, thread, layer, .. } = self;
        let text = self.text();
        format!("{} {level:>5} {thread} {}: {text}", Instant(*time), layer.target())
    }
}

/// Text on one line and of bounded length: a peer can neither imitate a line of the log nor steer the
/// terminal that shows it.
fn shown(text: &str) -> String {
    let mut text = printable(text).into_owned();
    if text.len() > TEXT {
        let end = (0..=TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Visit for Record {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), Value::Float(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), Value::Signed(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), Value::Unsigned(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), Value::Bool(value)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), Value::Text(shown(value))));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = shown(&format!("{value:?}"));
        if field.name() == "message" {
            self.message = text;
        } else {
            self.fields.push((field.name(), Value::Text(text)));
        }
    }
}
