//! [`Inlet`]: updates of replicas on their way to the writing thread.

use crate::{
    replication::{ReplicaSettings, log::EventLog},
    rules::{Update, Value},
};
use core::{sync::atomic::AtomicUsize, time::Duration};
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::VecDeque;
use zwire_engine::Bell;

/// Most updates that wait for the writing thread, and most octets of them.
const WAITING: usize = 4096;
const WAITING_BYTES: usize = 8 << 20;

/// Period at which a wait looks whether the storage ends.
const LOOK: Duration = Duration::from_millis(50);

/// State of a storage that has replicas.
pub(crate) struct Replica {
    /// Events of the storage.
    pub(crate) log: RwLock<EventLog>,
    fingerprint: u64,
    /// Number of events in the log, for readers that do not wait for the volume with its lock.
    pub(crate) events: AtomicUsize,
    pub(crate) inlet: Inlet,
    /// Wakes the thread that publishes digests.
    pub(crate) bell: Bell,
}

impl Replica {
    pub(crate) fn new(settings: ReplicaSettings, fingerprint: u64) -> Self {
        Self {
            log: RwLock::new(EventLog::new(settings, fingerprint)),
            fingerprint,
            events: AtomicUsize::new(0),
            inlet: Inlet::default(),
            bell: Bell::default(),
        }
    }

    /// Fingerprint that the replicas have in common.
    pub(crate) const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

#[derive(Default)]
struct Waiting {
    updates: VecDeque<Update>,
    bytes: usize,
    /// Updates that came, and those of them that are applied.
    came: u64,
    done: u64,
    /// Whether the log has the events of the volume.
    is_open: bool,
}

/// Updates of replicas on their way to the writing thread.
#[derive(Default)]
pub(crate) struct Inlet {
    waiting: Mutex<Waiting>,
    moved: Condvar,
}

fn weight(update: &Update) -> usize {
    size_of::<Update>() + update.key.len() + update.value.as_ref().map_or(0, Value::weight)
}

impl Inlet {
    /// Tells that the log has the events of the volume.
    pub(crate) fn open(&self) {
        self.waiting.lock().is_open = true;
        self.moved.notify_all();
    }

    /// Waits until the log has the events of the volume; false if the storage ends.
    pub(crate) fn wait_open(&self, stops: &dyn Fn() -> bool) -> bool {
        self.wait(stops, |waiting| waiting.is_open)
    }

    /// Adds an update, after a wait while too many are there; false if the storage ends.
    pub(crate) fn push(&self, update: Update, stops: &dyn Fn() -> bool) -> bool {
        if !self.wait(stops, |waiting| waiting.updates.len() < WAITING && waiting.bytes < WAITING_BYTES) {
            return false;
        }
        let mut waiting = self.waiting.lock();
        waiting.bytes += weight(&update);
        waiting.came += 1;
        waiting.updates.push_back(update);
        true
    }

    /// Takes updates in the order in which they came.
    pub(crate) fn take(&self, most: usize) -> VecDeque<Update> {
        let mut waiting = self.waiting.lock();
        let count = most.min(waiting.updates.len());
        let rest = waiting.updates.split_off(count);
        let taken = core::mem::replace(&mut waiting.updates, rest);
        waiting.bytes = waiting.updates.iter().map(weight).sum();
        taken
    }

    /// Notes how many of the updates taken are applied.
    pub(crate) fn done(&self, count: u64) {
        if count > 0 {
            self.waiting.lock().done += count;
        }
        self.moved.notify_all();
    }

    /// Waits until all that came is applied; false if the storage ends.
    pub(crate) fn wait_done(&self, stops: &dyn Fn() -> bool) -> bool {
        self.wait(stops, |waiting| waiting.done == waiting.came)
    }

    fn wait(&self, stops: &dyn Fn() -> bool, ready: impl Fn(&Waiting) -> bool) -> bool {
        let mut waiting = self.waiting.lock();
        while !ready(&waiting) {
            if stops() {
                return false;
            }
            self.moved.wait_for(&mut waiting, LOOK);
        }
        !stops()
    }
}
