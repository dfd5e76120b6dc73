//! [`Timer`]: deadlines of the machines of a node, and the task that turns them.

use crate::rt::clock;
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// A timer that comes so late tells that the process was stopped, or that the machine slept.
const LATE: Duration = Duration::from_secs(1);

/// Deadline that the timer task of a node waits for.
#[derive(Debug)]
pub(crate) struct Timer {
    /// In microseconds of the monotonic clock; [`u64::MAX`]: none.
    armed: AtomicU64,
    wake: Arc<Notify>,
}

impl Default for Timer {
    fn default() -> Self {
        Self { armed: AtomicU64::new(u64::MAX), wake: Arc::default() }
    }
}

impl Timer {
    /// Wakes the task if `next` is nearer than the deadline that it waits for; it finds a later one itself.
    pub(crate) fn arm(&self, next: Option<Duration>) {
        let next = micros(next);
        if next < self.armed.load(Ordering::Acquire) {
            self.armed.store(next, Ordering::Release);
            self.wake.notify_one();
        }
    }

    /// Sets the deadline that the task is about to wait for.
    pub(crate) fn set(&self, next: Option<Duration>) {
        self.armed.store(micros(next), Ordering::Release);
    }

    /// Lets [`Self::arm`] wake nothing until [`Self::set`]: the task reads the deadlines then.
    pub(crate) fn hold(&self) {
        self.armed.store(0, Ordering::Release);
    }
}

/// Node with machines that are turned at deadlines.
pub(crate) trait Timed: Send + Sync + 'static {
    /// How long to read, after the process was stopped for a second, before peers count as silent.
    const CATCH_UP: Duration;

    fn timer(&self) -> &Timer;

    /// Handles deadlines that are over. The next one; `None` once the node is stopped.
    fn handle_timeouts(self: &Arc<Self>) -> Option<Option<Duration>>;
}

/// Task that turns the machines of a node when their deadlines come. Ends with the node.
pub(crate) async fn run<N: Timed>(node: Weak<N>) {
    let Some(wake) = node.upgrade().map(|node| node.timer().wake.clone()) else { return };
    loop {
        let Some(strong) = node.upgrade() else { return };
        let Some(deadline) = strong.handle_timeouts() else { return };
        drop(strong);
        // Work that is due at once comes in steps; the timer of the runtime would round each up to a millisecond.
        if deadline.is_some_and(|deadline| deadline <= clock::mono()) {
            tokio::task::yield_now().await;
            continue;
        }
        let notified = wake.notified();
        let Some(deadline) = deadline.map(clock::instant) else {
            notified.await;
            continue;
        };
        // Either way the deadlines are read again.
        let _ = tokio::time::timeout_at(deadline, notified).await;
        if !N::CATCH_UP.is_zero() && deadline.elapsed() > LATE {
            tokio::time::sleep(N::CATCH_UP).await;
        }
    }
}

fn micros(at: Option<Duration>) -> u64 {
    at.map_or(u64::MAX, clock::micros)
}
