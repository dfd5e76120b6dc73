//! Thread that puts messages of the broker into Zenoh.
//!
//! A message is acknowledged when the neighbours of the session have processed it: a router then has it, and a kill of the
//! bridge loses nothing. Until then the broker keeps it. Without a link the thread waits, so that the broker's queue
//! fills, and not the memory of the bridge.

use crate::{
    counters::{Counters, count},
    ledger::Ledger,
};
use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use zwire_engine::{Error, Session, link::Link};
use zwire_proto::zenoh::{
    CongestionControl, KeyExpr, Priority, Qos,
    session::{Barrier, Locality, Publication},
    wire::PushBody,
};

/// Messages that share the answer of the neighbours; with QoS 2 a kill loses at most so many.
const AT_ONCE: usize = 64;
/// Period of looks for a link, and whether the bridge was closed.
const LOOK: Duration = Duration::from_millis(20);

/// Message on its way into Zenoh.
pub(crate) struct Work {
    pub(crate) key: KeyExpr,
    pub(crate) body: PushBody,
    pub(crate) taken: Taken,
    /// Room in the memory of the bridge.
    pub(crate) _room: OwnedSemaphorePermit,
}

/// Message that the broker waits to be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) id: u16,
    pub(crate) qos: u8,
    /// Number of the connection that brought it.
    pub(crate) connection: u64,
    /// Number of the session at the broker.
    pub(crate) session: u64,
}

/// Thread that puts messages.
pub(crate) struct Inbound {
    pub(crate) session: Session,
    pub(crate) counters: Arc<Counters>,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) work: mpsc::UnboundedReceiver<Work>,
    pub(crate) done: mpsc::UnboundedSender<Taken>,
}

/// Outcome of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Stored,
    LinkLost,
    Closed,
}

impl Inbound {
    /// Runs until the bridge or the session is closed.
    pub(crate) fn run(mut self) {
        let mut batch = Vec::new();
        while let Some(first) = self.work.blocking_recv() {
            batch.push(first);
            while batch.len() < AT_ONCE {
                let Ok(next) = self.work.try_recv() else { break };
                batch.push(next);
            }
            if !self.put(&mut batch) {
                return;
            }
        }
    }

    /// Links of the session, once there is one.
    fn links(&self) -> Option<Vec<Arc<Link>>> {
        loop {
            if self.stop.load(Ordering::Acquire) || self.session.is_closed() {
                return None;
            }
            let links = self.session.links();
            if !links.is_empty() {
                return Some(links);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Puts a batch, and tells of it once it is acknowledged; `false` if the bridge ends.
    fn put(&self, batch: &mut Vec<Work>) -> bool {
        let mut again = false;
        loop {
            let Some(links) = self.links() else { return false };
            if !again && !self.claim(batch) {
                return false;
            }
            let mut sent = Vec::with_capacity(batch.len());
            for work in &*batch {
                match self.publish(work) {
                    Ok(was_sent) => {
                        sent.push(was_sent);
                        count(if again { &self.counters.in_repeated } else { &self.counters.in_put });
                    }
                    // The broker keeps what was not put when the bridge was closed.
                    Err(Error::Closed | Error::Interrupted) => return false,
                    Err(error) => {
                        tracing::warn!(target: "zwire.bridge.mqtt", key = %work.key, %error, "a message was not put");
                        count(&self.counters.in_unmapped);
                        sent.push(false);
                    }
                }
            }
            let mut end = End::Stored;
            if batch.iter().any(|work| work.taken.qos > 0) {
                end = self.confirm(&links);
            }
            match end {
                End::Closed => return false,
                End::Stored => {
                    self.note_done(batch);
                    batch.drain(..).for_each(|work| self.tell(work.taken));
                    return true;
                }
                End::LinkLost => {
                    // A message with QoS 2 may have arrived, and must not arrive twice.
                    let mut sent = sent.into_iter();
                    batch.retain(|work| {
                        let was_sent = sent.next().unwrap_or(true);
                        if work.taken.qos == 2 && was_sent {
                            count(&self.counters.in_uncertain);
                            self.tell(work.taken);
                        }
                        work.taken.qos == 1 || (work.taken.qos == 2 && !was_sent)
                    });
                    if batch.is_empty() {
                        return true;
                    }
                    again = true;
                }
            }
        }
    }

    /// Notes messages with QoS 2 before they are put; `false` if the bridge ends before that succeeds.
    fn claim(&self, batch: &[Work]) -> bool {
        loop {
            let mut ledger = self.ledger.lock();
            for taken in batch.iter().map(|work| work.taken).filter(|taken| taken.qos == 2) {
                ledger.claim(taken.id, taken.session);
            }
            let written = ledger.write();
            drop(ledger);
            let Err(error) = written else { return true };
            self.counters.fail("of the bridge", error.to_string());
            if self.stop.load(Ordering::Acquire) {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Notes messages with QoS 2 that were put.
    fn note_done(&self, batch: &[Work]) {
        let mut ledger = self.ledger.lock();
        for taken in batch.iter().map(|work| work.taken).filter(|taken| taken.qos == 2) {
            ledger.done(taken.id, taken.session);
        }
        // What cannot be written now is written before the next batch is put.
        if let Err(error) = ledger.write() {
            self.counters.fail("of the bridge", error.to_string());
        }
    }

    fn tell(&self, taken: Taken) {
        // The connection has ended if nobody takes it.
        let _ = self.done.send(taken);
    }

    /// Publishes a message; returns whether it went to a neighbour.
    fn publish(&self, work: &Work) -> Result<bool, Error> {
        let publication = Publication {
            qos: Qos::new(Priority::Data, CongestionControl::Block, false),
            destination: Locality::Remote,
            ..Publication::new(work.key.clone(), work.body.clone())
        };
        let stopped = || self.stop.load(Ordering::Acquire);
        Ok(self.session.put(publication, &mut || stopped())?.sent)
    }

    /// Waits until the neighbours have what was put.
    fn confirm(&self, before: &[Arc<Link>]) -> End {
        loop {
            let stopped = || self.stop.load(Ordering::Acquire);
            match self.session.barrier(Barrier::Everything, Some(Duration::from_secs(1)), &mut || stopped()) {
                Ok(()) => {
                    // The answer of a link that was made meanwhile says nothing about the one before.
                    let lost = before.iter().any(|link| link.is_closed());
                    return if lost { End::LinkLost } else { End::Stored };
                }
                Err(Error::TimedOut { .. }) => {}
                Err(Error::LinkLost) => return End::LinkLost,
                Err(_) => return End::Closed,
            }
        }
    }
}
