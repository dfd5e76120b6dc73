//! [`Storage`]: the values of a key expression, kept in a volume and given to queriers.

use crate::{
    answer,
    error::{Error, Result},
    place::Place,
    replication::{ReplicaSettings, inlet::Replica, replicator::Replicator},
    shared::{Shared, Stats},
    volume::Store,
    wildcards::Wildcards,
    writer::Writer,
};
use core::{sync::atomic::Ordering, time::Duration};
use parking_lot::Mutex;
use std::{sync::Arc, thread::JoinHandle};
use zwire_engine::{Handler, Session, clock, runtime::Birth};
use zwire_proto::zenoh::{
    KeyExpr,
    session::{EntityId, QueryableOptions, SubscriberOptions},
};

/// Samples that may wait for the volume: some seconds of fast publishers in memory, of whose octets the session has a
/// bound of its own.
const WAITING: usize = 65_536;

/// Queries that may wait for their answer.
const QUERIES: usize = 4096;

/// Shortest period of collections: each looks at all tombstones.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

/// Collection of old tombstones and wildcard updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Time between two collections.
    pub period: Duration,
    /// Age at which they are forgotten: a later update that is older than them can change the state again.
    pub lifespan: Duration,
}

impl Default for Collection {
    /// The defaults of Eclipse Zenoh.
    fn default() -> Self {
        Self { period: Duration::from_secs(30), lifespan: Duration::from_secs(86_400) }
    }
}

/// Settings of a storage.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name in log messages and in the admin space.
    pub name: String,
    /// Keys that are stored.
    pub key: KeyExpr,
    /// Prefix that the volume does not store.
    pub prefix: Option<KeyExpr>,
    /// Whether the storage has every value of its key expression: then queriers need not ask others.
    pub complete: bool,
    /// Collection of old tombstones.
    pub collection: Collection,
    /// Longest time until an update is durable, if the volume is.
    pub commit: Duration,
    /// Parameters that the replicas of the storage in other sessions have as well; `None` for a storage without replicas.
    pub replication: Option<ReplicaSettings>,
}

impl Settings {
    /// Longest time until an update is durable, by default: half of the time that a person notices.
    pub const COMMIT: Duration = Duration::from_millis(50);

    /// Settings with defaults; the name is the key expression.
    #[must_use]
    pub fn new(key: KeyExpr) -> Self {
        Self {
            name: key.to_string(),
            key,
            prefix: None,
            complete: false,
            collection: Collection::default(),
            commit: Self::COMMIT,
            replication: None,
        }
    }
}

/// The values of a key expression, kept in a volume and given to queriers.
pub struct Storage {
    shared: Arc<Shared>,
    session: Session,
    entities: [EntityId; 2],
    /// What replicas need: the subscriber of their digests, and the queryable for their queries.
    for_replicas: Option<[EntityId; 2]>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    birth: Birth,
}

impl Storage {
    /// Starts a storage: declares its subscriber and its queryable. Both are declared before the call returns, so the
    /// session that publishes next is heard.
    ///
    /// # Errors
    /// The settings contradict each other, the volume cannot be read, or the session is closed.
    pub fn start(session: &Session, settings: Settings, store: Box<dyn Store>) -> Result<Self> {
        let Settings { name, key, prefix, complete, mut collection, commit, replication } = settings;
        collection.period = collection.period.max(SHORTEST_PERIOD);
        let place = Place::new(key.clone(), prefix)?;
        let replica = replication.map(|settings| replica(settings, &place)).transpose()?;
        let wildcards = Wildcards::new(store.wildcards()?);
        let options = SubscriberOptions::default();
        let (subscriber, samples) =
            session.declare_subscriber(key.clone(), options, Handler::Fifo(WAITING))?;
        let mut shared = Shared::new(name, place, store, samples);
        shared.replica = replica;
        let shared = Arc::new(shared);
        let (woken, bell) = (shared.samples.clone(), Arc::downgrade(&shared));
        woken.set_waker(Some(Arc::new(move || {
            if let Some(shared) = bell.upgrade() {
                shared.bell.ring();
            }
        })));
        let options = QueryableOptions { complete, ..QueryableOptions::default() };
        let declared = session.declare_queryable(key, options, Handler::Fifo(QUERIES));
        let (queryable, queries) = declared.inspect_err(|_| {
            // The session is closed, and with it the subscriber.
            let _ = session.undeclare(subscriber);
        })?;
        let replicator = shared
            .replica
            .as_ref()
            .map(|replica| Replicator::start(session, &shared, replica.fingerprint(), collection.lifespan));
        let (for_replicas, of_replicas) = replicator.transpose()?.unzip();
        let writer = Writer::new(shared.clone(), session.clone(), wildcards, collection, commit);
        let storage = Self {
            shared: shared.clone(),
            session: session.clone(),
            entities: [queryable, subscriber],
            for_replicas,
            threads: Mutex::default(),
            birth: Birth::here(),
        };
        storage.spawn("zwire-storage-write", move || writer.run())?;
        storage.spawn("zwire-storage-read", move || answer::run(&shared, &queries))?;
        for (name, work) in of_replicas.into_iter().flatten() {
            storage.spawn(name, work)?;
        }
        Ok(storage)
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(Error::Thread)?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Name of the storage.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Keys that are stored.
    #[must_use]
    pub fn key(&self) -> &KeyExpr {
        self.shared.place.key()
    }

    /// Checks that the storage is open, and belongs to this process.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<()> {
        self.birth.check()?;
        if self.shared.is_stopping() { Err(Error::Usage("the storage is closed")) } else { Ok(()) }
    }

    /// Waits until every sample that this session received before the call is durable: in a volume that is not, until it
    /// is applied.
    ///
    /// # Errors
    /// [`Error::NotDurable`] after the timeout.
    pub fn flush(&self, timeout: Duration, interrupted: &mut dyn FnMut() -> bool) -> Result<()> {
        self.check()?;
        self.shared.flush(timeout, interrupted)
    }

    /// Fingerprint that the replicas have in common, and number of events in the log; `None` without replicas.
    #[must_use]
    pub fn replication(&self) -> Option<(u64, usize)> {
        let replica = self.shared.replica.as_ref()?;
        Some((replica.fingerprint(), replica.events.load(Ordering::Relaxed)))
    }

    /// Counters.
    ///
    /// # Errors
    /// The storage belongs to another process.
    pub fn stats(&self) -> Result<Stats> {
        self.birth.check()?;
        Ok(self.shared.stats())
    }

    /// Ends the storage: applies the samples that it has received, makes them durable, and releases the volume. A
    /// call after that does nothing, one after a timeout waits on.
    ///
    /// # Errors
    /// The volume failed, or was slower than the timeout: updates are lost.
    pub fn close(&self, timeout: Duration) -> Result<()> {
        self.birth.check()?;
        // A second caller waits for the first.
        let mut threads = self.threads.lock();
        if threads.is_empty() {
            return Ok(());
        }
        let [queryable, subscriber] = self.entities;
        // The session is closed if this fails, and its queues with it.
        let _ = self.session.undeclare(subscriber);
        for entity in self.for_replicas.into_iter().flatten() {
            let _ = self.session.undeclare(entity);
        }
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        if let Some(replica) = &self.shared.replica {
            replica.bell.ring();
        }
        let end = clock::mono() + timeout;
        let wait = |is_busy: &dyn Fn() -> bool| {
            while is_busy() && clock::mono() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            is_busy()
        };
        while let Some(thread) = threads.first() {
            if wait(&|| !thread.is_finished()) {
                // A further call waits on.
                let problem = "the volume is slower than the timeout of the close".to_owned();
                return Err(Error::NotDurable { seconds: timeout.as_secs_f64(), problem });
            }
            if threads.remove(0).join().is_err() {
                return Err(Error::Usage("a thread of the storage has failed"));
            }
            // The writer has ended, and queriers with `_durable` learn how. This ends the queue of the reader.
            wait(&|| self.shared.streams.load(Ordering::Acquire) > 0);
            let _ = self.session.undeclare(queryable);
        }
        let stats = self.shared.stats();
        let closed = self.shared.store.close();
        if stats.lost > 0 {
            let problem = format!("{} updates: {}", stats.lost, stats.problem.unwrap_or_default());
            return Err(Error::Volume { action: "store the last updates", problem });
        }
        closed
    }
}

/// State for the replicas of a storage.
fn replica(settings: ReplicaSettings, place: &Place) -> Result<Replica> {
    settings.check().map_err(|(field, problem)| Error::Setting {
        path: format!("replication/{field}"),
        problem: problem.to_owned(),
    })?;
    Ok(Replica::new(settings, settings.fingerprint(place)))
}

impl Drop for Storage {
    fn drop(&mut self) {
        /// Longest delay of the program.
        const LONGEST: Duration = Duration::from_secs(5);
        if self.birth.is_here()
            && let Err(error) = self.close(LONGEST)
        {
            tracing::error!(storage = self.shared.name, %error, "the storage was dropped before its updates were durable");
        }
    }
}
