//! Waiting for room in the lanes of a link: producers that block, and the grace of droppable messages.

use super::{Link, backlog::LinkBacklog, end::LinkEnd};
use crate::{net::outbox::Sending, rt::clock};
use core::{sync::atomic::Ordering, time::Duration};
use zwire_proto::zenoh::{Priority, wire::CloseReason};

impl Link {
    /// Waiting producers go on when a quarter of the lane is free: waking them for each message would cost more
    /// than sending it.
    pub(super) const fn low_water(&self, lane: Priority) -> usize {
        let bytes = self.policy.lane_bytes[lane as usize];
        bytes - bytes / 4
    }

    /// Whether a message of `priority` would find its lane full.
    #[must_use]
    pub fn is_congested(&self, priority: Priority) -> bool {
        self.lane_over(&self.outbox.lock(), priority)
    }

    fn lane_over(&self, tx: &Sending<LinkBacklog>, priority: Priority) -> bool {
        let lane = self.lane(priority);
        let over = !tx.dead && tx.backlog.queued(lane) >= self.policy.lane_bytes[lane as usize];
        if !over {
            self.blocked[lane as usize].store(false, Ordering::Relaxed);
            self.refresh_lane(lane);
        }
        over
    }

    /// Lets droppable messages wait again the next time the lane is full, because it has room now.
    pub(super) fn refresh_lane(&self, lane: Priority) {
        let weary = &self.weary[lane as usize];
        if weary.load(Ordering::Relaxed) {
            weary.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the grace of a droppable message of `priority` expired and the lane has not drained since.
    pub(crate) fn is_weary(&self, priority: Priority) -> bool {
        self.weary[self.lane(priority) as usize].load(Ordering::Relaxed)
    }

    /// Whether producers that wait for the lane have to go on waiting.
    fn lane_tight(&self, tx: &Sending<LinkBacklog>, priority: Priority) -> bool {
        let lane = self.lane(priority);
        let tight = !tx.dead && tx.backlog.queued(lane) > self.low_water(lane);
        if !tight {
            self.blocked[lane as usize].store(false, Ordering::Relaxed);
        }
        tight
    }

    /// Waits until the lane has room again. A peer that has taken nothing for `limit` is
    /// unresponsive and loses its connection.
    pub(crate) async fn wait_space(&self, priority: Priority, limit: Duration) {
        let start = clock::mono();
        self.waiting[self.lane(priority) as usize].fetch_add(1, Ordering::AcqRel);
        loop {
            let notified = self.space_async.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if !self.lane_tight(&self.outbox.lock(), priority) {
                break;
            }
            let deadline = self.stuck_at(start, priority, limit);
            if tokio::time::timeout_at(clock::instant(deadline), notified).await.is_err()
                && clock::mono() >= self.stuck_at(start, priority, limit)
            {
                self.abandon();
                break;
            }
        }
        self.waiting[self.lane(priority) as usize].fetch_sub(1, Ordering::AcqRel);
    }

    /// As [`Self::wait_space`], for a thread of the application. False when `interrupted` said so.
    pub(crate) fn wait_space_blocking(
        &self,
        priority: Priority,
        limit: Duration,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> bool {
        let start = clock::mono();
        self.waiting[self.lane(priority) as usize].fetch_add(1, Ordering::AcqRel);
        let mut go_on = true;
        let mut tx = self.outbox.lock();
        while self.lane_tight(&tx, priority) {
            if clock::mono() >= self.stuck_at(start, priority, limit) {
                drop(tx);
                self.abandon();
                break;
            }
            let slice = clock::deadline(clock::mono() + crate::rt::queue::INTERRUPT_PERIOD);
            if self.space.wait_until(&mut tx, slice).timed_out() {
                drop(tx);
                if interrupted() {
                    go_on = false;
                    break;
                }
                tx = self.outbox.lock();
            }
        }
        self.waiting[self.lane(priority) as usize].fetch_sub(1, Ordering::AcqRel);
        go_on
    }

    /// Grace of droppable messages: waits at most `limit` for space and then gives up. A lane whose grace
    /// expired gives none to the next messages until it has had room again.
    pub(crate) fn wait_briefly(&self, priority: Priority, limit: Duration) {
        let mut tx = self.outbox.lock();
        if !self.lane_over(&tx, priority) || self.is_weary(priority) {
            return;
        }
        let end = clock::deadline(clock::mono() + limit);
        self.waiting[self.lane(priority) as usize].fetch_add(1, Ordering::AcqRel);
        while self.lane_over(&tx, priority) {
            // The low-water mark wakes this thread; at the end of the grace any room will do.
            if self.space.wait_until(&mut tx, end).timed_out() {
                if self.lane_over(&tx, priority)
                    && !self.weary[self.lane(priority) as usize].swap(true, Ordering::Relaxed)
                {
                    tracing::warn!(
                        target: crate::log::QUEUE,
                        peer = self.peer, zid = %self.params.remote.zid,
                        priority = ?self.lane(priority), bytes = tx.backlog.queued(self.lane(priority)),
                        "the queue of a link is full: droppable messages are dropped until it has room"
                    );
                }
                break;
            }
        }
        drop(tx);
        self.waiting[self.lane(priority) as usize].fetch_sub(1, Ordering::AcqRel);
    }

    fn stuck_at(&self, start: Duration, priority: Priority, limit: Duration) -> Duration {
        let way = if self.by_priority { self.lane(priority) as usize } else { 0 };
        start.max(Duration::from_micros(self.last_progress_us[way].load(Ordering::Relaxed))) + limit
    }

    /// Ends the connection of a peer that does not read; CLOSE tells it the reason if it ever reads again.
    fn abandon(&self) {
        tracing::warn!(peer = self.peer, zid = %self.params.remote.zid, "the peer does not read what was sent to it: closing its link");
        self.note_end(LinkEnd::Unresponsive);
        self.finish(CloseReason::UNRESPONSIVE);
        self.close();
    }
}
