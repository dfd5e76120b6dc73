//! Counters of a server.

use core::sync::atomic::{AtomicU64, Ordering};
use hyper::StatusCode;

/// Counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Answers by the first digit of their status.
    pub(crate) answers: [AtomicU64; 6],
    /// Connections that were closed to make room, or refused.
    pub(crate) evicted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) events_dropped: AtomicU64,
}

impl Counters {
    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(self.answers.len() - 1);
        self.answers[class].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn events_dropped(&self, count: u64) {
        self.events_dropped.fetch_add(count, Ordering::Relaxed);
    }
}
