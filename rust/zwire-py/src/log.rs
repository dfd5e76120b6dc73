//! Log lines of the Rust side on standard error, as `RUST_LOG` asks for.
//!
//! Nothing here touches the interpreter: log lines come from threads that must never wait for it.

use core::fmt::Write as _;
use pyo3::prelude::*;
use std::io::Write as _;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};

struct Stderr(LevelFilter);

impl Subscriber for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("zwire") && *metadata.level() <= self.0
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let metadata = event.metadata();
        // A closed standard error is no reason to stop.
        let _ = writeln!(
            std::io::stderr(),
            "{} {}: {}{}",
            metadata.level(),
            metadata.target(),
            line.message,
            line.fields
        );
    }

    // There are no spans in this project.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn core::fmt::Debug) {
        // Writing to a String does not fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }
}

fn level(text: &str) -> Option<LevelFilter> {
    // `RUST_LOG` may name targets: `warn,zwire=debug`. The one for us wins, else the bare level.
    let mut found = None;
    for part in text.split(',').map(str::trim) {
        match part.split_once('=') {
            Some((target, level)) if target == "zwire" || target == "zenoh" => return level.parse().ok(),
            Some(_) => {}
            None => found = part.parse().ok().or(found),
        }
    }
    found
}

fn start(level: LevelFilter) {
    // A second call changes nothing, as in the reference.
    let _ = tracing::subscriber::set_global_default(Stderr(level));
}

/// Writes log lines to standard error at the level that the environment variable `RUST_LOG` names;
/// without it nothing is written.
#[pyfunction]
pub(crate) fn try_init_log_from_env() {
    if let Some(level) = std::env::var("RUST_LOG").ok().as_deref().and_then(level) {
        start(level);
    }
}

/// As `try_init_log_from_env`, with a level (`error`, `warn`, `info`, `debug`, `trace`) for when the
/// variable is not set.
#[pyfunction]
#[pyo3(signature = (level))]
pub(crate) fn init_log_from_env_or(level: &str) {
    let from_env = std::env::var("RUST_LOG").ok().as_deref().and_then(self::level);
    start(from_env.or_else(|| self::level(level)).unwrap_or(LevelFilter::from_level(Level::ERROR)));
}
