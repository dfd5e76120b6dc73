//! The last records as lines, for nodes that serve them in their admin space.

use super::{Layer, Levels, Record};
use crate::rt::runtime::PerProcess;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tracing::level_filters::LevelFilter;

/// Lines that are kept; each has at most some kilobytes.
const MOST: usize = 200;

/// Levels of events that are kept.
pub(super) static KEPT: Levels = Levels::new(0);

/// Lines of a process. A forked child has none of its parent.
#[derive(Default)]
struct Recent(Mutex<VecDeque<String>>);

static HERE: PerProcess<Recent> = PerProcess::new();

impl Recent {
    fn add(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() == MOST {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// Keeps the last records from now on, down to connections and their ends, whatever else is logged.
pub fn keep_recent() {
    KEPT.set(&[LevelFilter::INFO; Layer::COUNT]);
}

/// Adds a record.
pub(super) fn add(record: &Record) {
    HERE.get(Recent::default).add(record.line());
}

/// The last records as lines, the oldest first; empty unless [`keep_recent`] was called.
#[must_use]
pub fn recent() -> Vec<String> {
    HERE.get(Recent::default).0.lock().iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_make_room() {
        let recent = Recent::default();
        for number in 0..MOST + 2 {
            recent.add(number.to_string());
        }
        let lines = recent.0.lock();
        assert_eq!((lines.len(), lines[0].as_str()), (MOST, "2"));
    }
}
