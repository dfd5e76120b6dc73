//! [`Timely`]: a map with a deadline for each call, because a program supplies it.

use crate::{
    error::{Error, Result},
    keyed::KeyValue,
    rules::Value,
    volume::Persistence,
};
use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
};
use zwire_proto::zenoh::Timestamp;

type Job<K> = Box<dyn FnOnce(&K) + Send>;

/// Map that answers in time, or not at all: one thread calls it, and its callers wait up to a deadline.
///
/// After a late call the thread is busy until the map returns; calls meanwhile fail at their deadline, without being
/// made.
pub struct Timely<K> {
    jobs: SyncSender<Job<K>>,
    deadline: Duration,
    persistence: Persistence,
    /// Held by the caller while its job runs: one job at a time, in the order of the callers.
    turn: Mutex<()>,
}

impl<K: KeyValue + 'static> Timely<K> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn new(map: K, deadline: Duration) -> Result<Self> {
        let persistence = map.persistence();
        let (jobs, work): (_, Receiver<Job<K>>) = sync_channel(1);
        let serve = move || {
            while let Ok(job) = work.recv() {
                job(&map);
            }
        };
        std::thread::Builder::new()
            .name("zwire-storage-map".to_owned())
            .spawn(serve)
            .map_err(Error::Thread)?;
        Ok(Self { jobs, deadline, persistence, turn: Mutex::new(()) })
    }

    fn call<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&K) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let late = || Error::Slow { action, seconds: self.deadline.as_secs_f64() };
        let _turn = self.turn.try_lock_for(self.deadline).ok_or_else(late)?;
        let (answer, answers) = sync_channel(1);
        let given_up = Arc::new(AtomicBool::new(false));
        let is_given_up = given_up.clone();
        let job: Job<K> = Box::new(move |map| {
            if !is_given_up.load(Ordering::Acquire) {
                // The caller is gone if the map was late.
                let _ = answer.send(work(map));
            }
        });
        match self.jobs.try_send(job) {
            Ok(()) => {}
            // The thread is busy with a late call, and the job of another late caller waits.
            Err(TrySendError::Full(_)) => return Err(late()),
            Err(TrySendError::Disconnected(_)) => {
                return Err(Error::Volume { action, problem: "its thread has failed".to_owned() });
            }
        }
        answers.recv_timeout(self.deadline).unwrap_or_else(|_| {
            given_up.store(true, Ordering::Release);
            Err(late())
        })
    }
}

impl<K: KeyValue + 'static> KeyValue for Timely<K> {
    fn persistence(&self) -> Persistence {
        self.persistence
    }

    fn put(&self, key: &str, stamp: Timestamp, value: &Value) -> Result<()> {
        let (key, value) = (key.to_owned(), value.clone());
        self.call("store a value", move |map| map.put(&key, stamp, &value))
    }

    fn delete(&self, key: &str, stamp: Timestamp) -> Result<()> {
        let key = key.to_owned();
        self.call("delete a key", move |map| map.delete(&key, stamp))
    }

    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>> {
        let key = key.to_owned();
        self.call("return a value", move |map| map.get(&key))
    }

    fn keys(&self) -> Result<Vec<(String, Timestamp)>> {
        self.call("list its keys", K::keys)
    }

    fn sync(&self) -> Result<()> {
        self.call("sync", K::sync)
    }

    fn reopen(&self) -> Result<()> {
        self.call("open again", K::reopen)
    }

    fn close(&self) -> Result<()> {
        self.call("close", K::close)
    }
}
