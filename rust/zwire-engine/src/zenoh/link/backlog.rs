//! [`LinkBacklog`]: the lanes of a link, and batches on their way from them to the socket.

use super::{Link, Outlets, end::LinkEnd, ways::Queues};
use crate::{
    net::{
        outbox::{Backlog, Outbox, WRITE_BYTES, Wire, Written},
        pace::Pace,
    },
    rt::clock,
};
use bytes::Bytes;
use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{collections::VecDeque, io};
use zwire_proto::{
    Now,
    zenoh::{Priority, Reliability, link::LinkTx},
};

/// Messages of a link that are not written yet.
pub(crate) struct LinkBacklog {
    pub(super) machine: LinkTx,
    /// Taken from the machine, not yet written.
    out: VecDeque<Bytes>,
    /// The connection holds something that it could not write.
    unflushed: bool,
    pub(super) pace: Pace,
    /// Where batches leave by more than one way.
    pub(super) outlets: Option<Outlets>,
}

impl LinkBacklog {
    pub(super) const fn new(machine: LinkTx, pace: Pace, outlets: Option<Outlets>) -> Self {
        Self { machine, out: VecDeque::new(), unflushed: false, pace, outlets }
    }

    fn best_effort(&self) -> Option<&LinkTx> {
        self.outlets.as_ref().and_then(|outlets| outlets.best_effort.as_ref())
    }

    /// The sender that messages of this reliability are queued in.
    pub(super) fn sender(&mut self, reliability: Reliability) -> &mut LinkTx {
        match self.outlets.as_mut().and_then(|outlets| outlets.best_effort.as_mut()) {
            Some(best_effort) if reliability == Reliability::BestEffort => best_effort,
            _ => &mut self.machine,
        }
    }

    /// Whether messages of this reliability may be lost on their way.
    pub(super) fn is_lossy(&self, reliability: Reliability) -> bool {
        reliability == Reliability::BestEffort && self.best_effort().is_some()
    }

    /// Bytes that wait in a lane.
    pub(super) fn queued(&self, lane: Priority) -> usize {
        self.machine.queued_bytes(lane) + self.best_effort().map_or(0, |machine| machine.queued_bytes(lane))
    }

    pub(super) fn is_idle(&self) -> bool {
        let idle = |outlets: &Outlets| {
            outlets.is_empty() && outlets.best_effort.as_ref().is_none_or(LinkTx::is_idle)
        };
        self.out.is_empty() && self.machine.is_idle() && self.outlets.as_ref().is_none_or(idle)
    }
}

impl Backlog for LinkBacklog {
    fn queued_bytes(&self) -> usize {
        self.machine.queued_total() + self.best_effort().map_or(0, LinkTx::queued_total)
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let best_effort = self.best_effort().and_then(LinkTx::poll_timeout);
        [self.machine.poll_timeout(), best_effort].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Now) {
        self.machine.handle_timeout(now);
        if let Some(best_effort) = self.outlets.as_mut().and_then(|outlets| outlets.best_effort.as_mut()) {
            best_effort.handle_timeout(now);
        }
    }

    fn can_go_on(&self) -> bool {
        self.outlets.as_ref().is_some_and(|outlets| outlets.can_go_on(&self.machine))
    }

    fn has_ways(&self) -> bool {
        self.outlets.is_some()
    }
}

/// Batches for one round of writing.
pub(crate) enum LinkBatch {
    /// By the only way.
    One(VecDeque<Bytes>),
    /// By several, with a bit for each that was full before.
    Ways(Queues, u16),
}

impl Wire for Link {
    type Backlog = LinkBacklog;
    type Batch = LinkBatch;

    fn outbox(&self) -> &Outbox<LinkBacklog> {
        &self.outbox
    }

    fn take(&self, backlog: &mut LinkBacklog, _dead: bool) -> Option<LinkBatch> {
        let batch = if backlog.outlets.is_some() {
            self.take_ways(backlog).map(|(queues, full)| LinkBatch::Ways(queues, full))
        } else {
            if backlog.out.is_empty() {
                self.refill(backlog);
            }
            let some = !backlog.out.is_empty() || backlog.unflushed;
            some.then(|| LinkBatch::One(core::mem::take(&mut backlog.out)))
        };
        if batch.is_none() {
            backlog.pace.idle();
        }
        batch
    }

    fn write(&self, batch: &mut LinkBatch) -> (Written, io::Result<u16>) {
        let mut total = Written::default();
        let result = match batch {
            LinkBatch::One(out) => {
                let result = self.io.try_write(out, |bytes| total.count(bytes));
                if total.bytes > 0 {
                    self.note_progress(0, clock::mono());
                }
                result.map(|all| u16::from(!all))
            }
            LinkBatch::Ways(queues, full) => self.write_queues(queues, *full, &mut total),
        };
        self.stats.tx_writes.fetch_add(total.calls, Ordering::Relaxed);
        self.stats.tx_bytes.fetch_add(total.bytes as u64, Ordering::Relaxed);
        (total, result)
    }

    fn put_back(&self, backlog: &mut LinkBacklog, batch: LinkBatch, written: Written, full: u16) -> bool {
        if let Some(room) = backlog.pace.wrote(clock::mono(), written.bytes, full != 0) {
            self.io.set_room(room);
        }
        match batch {
            LinkBatch::One(out) => {
                backlog.out = out;
                backlog.unflushed = full != 0;
                full == 0 && (!backlog.pace.is_slow() || self.io.is_drained())
            }
            LinkBatch::Ways(queues, _) => {
                if let Some(outlets) = &mut backlog.outlets {
                    outlets.put_back(queues, full);
                }
                full == 0
            }
        }
    }

    fn note_failure(&self, error: &io::Error) {
        self.note_end(LinkEnd::of(error));
    }

    fn fail(&self, _error: io::Error) {
        self.close();
    }

    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send {
        self.io.writable()
    }

    fn closed(&self) -> impl Future<Output = ()> + Send {
        Self::closed(self)
    }
}

impl Link {
    fn refill(&self, backlog: &mut LinkBacklog) {
        let mut parts = Vec::new();
        let most = backlog.pace.chunk(WRITE_BYTES);
        backlog.machine.poll_transmit(clock::now(), &mut parts, most);
        if let Some(tap) = &self.tap {
            tap.sent(&parts);
        }
        backlog.out.extend(parts);
        self.tell_waiting(backlog);
    }

    pub(super) fn note_progress(&self, way: usize, now: Duration) {
        self.last_progress_us[way].store(clock::micros(now), Ordering::Relaxed);
    }

    /// Wakes producers that wait for lanes that have room again.
    pub(super) fn tell_waiting(&self, backlog: &LinkBacklog) {
        let roomy = |(lane, waiting): (&Priority, &AtomicUsize)| {
            waiting.load(Ordering::Relaxed) > 0 && backlog.queued(*lane) <= self.low_water(*lane)
        };
        if Priority::ALL.iter().zip(&self.waiting).any(roomy) {
            self.space.notify_all();
            self.space_async.notify_waiters();
        }
    }
}
