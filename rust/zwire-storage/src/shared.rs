//! State that the threads of one storage share.

use crate::{
    error::{Error, Result},
    place::Place,
    replication::inlet::Replica,
    volume::{Counts, Persistence, Store},
};
use core::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use zwire_engine::{Bell, Queue, clock};
use zwire_proto::zenoh::session::Sample;

/// Period at which a wait asks its caller whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// Declares the counters of a storage: once as atomics, and once as a snapshot.
macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)+
        }

        /// Counters of a storage.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])+ pub $name: u64,)+
            /// Samples that came to the queue of the subscriber.
            pub received: u64,
            /// Samples that the queue has dropped at its bound.
            pub dropped: u64,
            /// Samples in the queue.
            pub waiting: usize,
            /// Contents of the volume.
            pub contents: Counts,
            /// Failure that the storage tries to get over, if there is one.
            pub problem: Option<String>,
        }

        impl Counters {
            fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)+ ..Stats::default() }
            }
        }
    };
}

counters! {
    /// Puts that were stored.
    stored,
    /// Deletes that left a tombstone.
    deleted,
    /// Updates that were older than what was known.
    outdated,
    /// Wildcard updates that were kept and applied.
    wildcards,
    /// Updates that the volume did not take.
    refused,
    /// Tombstones and wildcard updates that were forgotten after their lifespan.
    expired,
    /// Commits that made updates durable.
    commits,
    /// Failures of the volume.
    failures,
    /// Queries that were answered.
    queries,
    /// Replies that were sent.
    replies,
    /// Digests that were published for replicas.
    digests,
    /// Replicas' digests that had something which is not here.
    differences,
    /// Updates that came from replicas.
    aligned,
    /// Messages and events of replicas that are none.
    malformed,
    /// Events of replicas that were too far ahead of the clock, and wait until their time has come.
    ahead,
    /// Updates that were not stored when the storage was closed, because the volume failed.
    lost,
}

/// Samples by their number in the queue.
#[derive(Default)]
struct Progress {
    /// Visible to readers.
    applied: u64,
    /// There after a crash.
    durable: u64,
    problem: Option<String>,
    /// Whether the writing thread has ended.
    ended: bool,
    /// Samples dropped at the bound of the queue, and updates refused, that a caller of `flush` knows of.
    told: [u64; 2],
}

pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) store: Box<dyn Store>,
    pub(crate) samples: Arc<Queue<Sample>>,
    pub(crate) counters: Counters,
    pub(crate) bell: Bell,
    pub(crate) stop: AtomicBool,
    /// Number of samples that a caller wants to be durable.
    pub(crate) wanted: AtomicU64,
    /// Queries that are being answered.
    pub(crate) streams: AtomicUsize,
    /// State for replicas, if the storage has some.
    pub(crate) replica: Option<Replica>,
    progress: Mutex<Progress>,
    moved: Condvar,
}

impl Shared {
    pub(crate) fn new(
        name: String,
        place: Place,
        store: Box<dyn Store>,
        samples: Arc<Queue<Sample>>,
    ) -> Self {
        Self {
            name,
            place,
            store,
            samples,
            counters: Counters::default(),
            bell: Bell::default(),
            stop: AtomicBool::new(false),
            wanted: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
            replica: None,
            progress: Mutex::default(),
            moved: Condvar::new(),
        }
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.store.capability().persistence == Persistence::Durable
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Notes how many samples are applied and durable. Only the writing thread calls this.
    pub(crate) fn advance(&self, applied: u64, durable: u64) {
        let mut progress = self.progress.lock();
        (progress.applied, progress.durable) = (applied, durable);
        drop(progress);
        self.moved.notify_all();
    }

    /// Notes the failure of the volume, or its end. Logs each change.
    pub(crate) fn note(&self, failure: Option<&Error>) {
        let problem = failure.map(ToString::to_string);
        let mut progress = self.progress.lock();
        if progress.problem == problem {
            return;
        }
        match &problem {
            Some(problem) => tracing::error!(
                storage = self.name,
                problem,
                "the volume failed: updates wait, and the storage tries again"
            ),
            None => tracing::info!(storage = self.name, "the volume works again"),
        }
        progress.problem = problem;
        drop(progress);
        self.moved.notify_all();
    }

    pub(crate) fn end(&self) {
        self.progress.lock().ended = true;
        self.moved.notify_all();
    }

    /// Waits until readers see every sample that came before the call; at most that long.
    pub(crate) fn wait_visible(&self, longest: Duration) {
        let (wanted, _) = self.accepted();
        let end = clock::deadline(clock::mono() + longest);
        let mut progress = self.progress.lock();
        // A volume that fails shows its last state.
        while progress.applied < wanted.min(self.accepted().0)
            && !progress.ended
            && progress.problem.is_none()
            && !self.moved.wait_until(&mut progress, end).timed_out()
        {}
    }

    /// Numbers of samples that the queue has taken, and of those that it has dropped.
    fn accepted(&self) -> (u64, u64) {
        let stats = self.samples.stats();
        (stats.received.saturating_sub(stats.dropped), stats.dropped)
    }

    /// Waits until every sample that came before the call is durable. Fails once for samples that were dropped, and for
    /// updates that the volume has refused, since the last call.
    pub(crate) fn flush(&self, timeout: Duration, interrupted: &mut dyn FnMut() -> bool) -> Result<()> {
        let (wanted, dropped) = self.accepted();
        self.wanted.fetch_max(wanted, Ordering::AcqRel);
        self.bell.ring();
        let start = clock::mono();
        let end = start + timeout;
        let mut progress = self.progress.lock();
        loop {
            // A sample is counted before it is dropped.
            if progress.durable >= wanted.min(self.accepted().0) {
                return self.confirm(&mut progress, dropped, clock::mono().saturating_sub(start));
            }
            let left = end.saturating_sub(clock::mono());
            if left.is_zero() || progress.ended {
                let problem = progress.problem.clone();
                let problem = problem.unwrap_or_else(|| {
                    if progress.ended {
                        "the storage is closed"
                    } else {
                        "the volume is slower than the updates"
                    }
                    .to_owned()
                });
                return Err(Error::NotDurable { seconds: timeout.as_secs_f64(), problem });
            }
            self.moved.wait_for(&mut progress, left.min(LOOK));
            drop(progress);
            if interrupted() {
                return Err(zwire_engine::Error::Interrupted.into());
            }
            progress = self.progress.lock();
        }
    }

    /// Fails for updates that are not stored and of which no caller knows yet.
    fn confirm(&self, progress: &mut Progress, dropped: u64, waited: Duration) -> Result<()> {
        let refused = self.counters.refused.load(Ordering::Relaxed);
        let now = [dropped.max(progress.told[0]), refused.max(progress.told[1])];
        let [dropped, refused] = [now[0] - progress.told[0], now[1] - progress.told[1]];
        progress.told = now;
        if dropped == 0 && refused == 0 {
            return Ok(());
        }
        let problem = format!(
            "of the updates since the last confirmation {dropped} were dropped because too many waited, and {refused} \
             were refused by the volume; the log says why"
        );
        Err(Error::NotDurable { seconds: waited.as_secs_f64(), problem })
    }

    pub(crate) fn stats(&self) -> Stats {
        let queue = self.samples.stats();
        Stats {
            received: queue.received,
            dropped: queue.dropped,
            waiting: queue.waiting,
            // Zeros while the volume fails; the problem says so.
            contents: self.store.counts().unwrap_or_default(),
            problem: self.progress.lock().problem.clone(),
            ..self.counters.snapshot()
        }
    }
}
