//! Links whose batches leave by several [ways](Ways): what cannot leave by one of them stays with it, and the
//! others go on. A thread that publishes may write also while a way is full, by the others.

use super::{Link, Tx, WRITE_BYTES};
use crate::{
    net::io::{DATAGRAMS, Ways},
    rt::clock,
    zenoh::connectivity::LinkEnd,
};
use bytes::Bytes;
use core::sync::atomic::Ordering;
use parking_lot::MutexGuard;
use std::{collections::VecDeque, io};
use zwire_proto::zenoh::{
    Priority,
    link::{LinkParams, LinkTx},
};

/// The ways of one link.
pub(super) struct Outlets {
    pub(super) by_priority: bool,
    /// Best-effort messages have a sender of their own, with smaller batches.
    pub(super) best_effort: Option<LinkTx>,
    /// Taken from the senders, not yet written. `None` while somebody writes.
    queues: Option<Queues>,
    /// Bit n: way n has not taken all that it was given.
    full: u16,
    /// Nobody is writing; the task will, when a way that was full has room.
    pub(super) waiting: bool,
    /// A way has room, and somebody was writing when that was known.
    pub(super) again: bool,
}

type Queues = Box<[VecDeque<Bytes>; DATAGRAMS + 1]>;

impl Outlets {
    /// `sender` makes a sender for such a link.
    pub(super) fn new(ways: Ways, params: &LinkParams, sender: impl FnOnce(&LinkParams) -> LinkTx) -> Self {
        let best_effort = ways.best_effort.filter(|_| !params.low_latency).map(|batch_size| {
            let params = LinkParams { batch_size, streamed: false, ..params.clone() };
            sender(&params).with_separate_lanes()
        });
        Self {
            by_priority: ways.by_priority,
            best_effort,
            queues: Some(Box::default()),
            full: 0,
            waiting: false,
            again: false,
        }
    }

    /// Whether nothing waits here.
    pub(super) fn is_empty(&self) -> bool {
        self.full == 0 && self.queues.as_ref().is_some_and(|queues| queues.iter().all(VecDeque::is_empty))
    }

    /// Whether something could leave now that has not left.
    pub(super) fn can_go_on(&self, machine: &LinkTx) -> bool {
        let free = !self.full;
        let streams = if self.by_priority { free & 0xff } else { (free & 1) * 0xff };
        let datagrams = self.best_effort.as_ref().map_or(0, LinkTx::ready_lanes);
        u16::from(machine.ready_lanes()) & streams != 0 || (datagrams != 0 && free >> DATAGRAMS & 1 != 0)
    }

    /// Takes batches for the ways that have room, the most urgent first, `most` bytes or a batch for each.
    fn refill(&mut self, machine: &mut LinkTx, most: usize, tap: impl Fn(&[Bytes])) {
        let Some(queues) = &mut self.queues else { return };
        let now = clock::now();
        let mut parts = Vec::new();
        let mut taken = 0;
        for priority in Priority::ALL {
            if taken > 0 && taken >= most {
                return;
            }
            let way = if self.by_priority { priority as usize } else { 0 };
            if self.full >> way & 1 == 0 && queues[way].is_empty() {
                let room = most.saturating_sub(taken);
                taken += match self.by_priority {
                    true => machine.poll_lane(now, priority, &mut parts, room),
                    false => machine.poll_transmit(now, &mut parts, room),
                };
                tap(&parts);
                queues[way].extend(parts.drain(..));
            }
            if let Some(best_effort) = &mut self.best_effort
                && self.full >> DATAGRAMS & 1 == 0
            {
                let room = most.saturating_sub(taken);
                taken += best_effort.poll_lane(now, priority, &mut parts, room);
                tap(&parts);
                queues[DATAGRAMS].extend(parts.drain(..));
            }
        }
    }
}

impl Link {
    /// As `write_out`, by several ways: until each has taken all there is for it, or is full.
    pub(super) fn write_ways<'a>(&'a self, mut tx: MutexGuard<'a, Tx>, rounds: usize) {
        tx.busy = true;
        tx.flush_at = None;
        let mut left = rounds;
        loop {
            self.refill_ways(&mut tx);
            let Some(outlets) = &mut tx.outlets else { return };
            (outlets.waiting, outlets.again) = (false, false);
            if outlets.is_empty() {
                tx.busy = false;
                tx.handed_over = false;
                tx.pace.idle();
                return;
            }
            let (full, Some(mut queues)) = (outlets.full, outlets.queues.take()) else { return };
            drop(tx);
            let (written, result) = self.write_queues(&mut queues, full);
            tx = self.tx.lock();
            let now = clock::mono();
            let full = result.as_ref().copied().unwrap_or_default();
            if let Some(room) = tx.pace.wrote(now, written, full != 0) {
                self.io.set_room(room);
            }
            let Tx { machine, outlets: Some(outlets), .. } = &mut *tx else { return };
            outlets.queues = Some(queues);
            outlets.full = full;
            if let Err(error) = result {
                self.note_end(LinkEnd::of(&error));
                tx.dead = true;
                tx.busy = false;
                drop(tx);
                self.close();
                return;
            }
            left = left.saturating_sub(1);
            if left == 0 || (full != 0 && !outlets.again && !outlets.can_go_on(machine)) {
                outlets.waiting = true;
                break;
            }
        }
        tx.handed_over = true;
        drop(tx);
        self.tx_wake.notify_one();
    }

    fn refill_ways(&self, tx: &mut Tx) {
        let most = tx.pace.chunk(WRITE_BYTES);
        let Tx { machine, outlets: Some(outlets), .. } = &mut *tx else { return };
        let tap = |parts: &[Bytes]| {
            if let Some(tap) = self.tap.as_ref().filter(|_| !parts.is_empty()) {
                tap.sent(parts);
            }
        };
        outlets.refill(machine, most, tap);
        let datagrams = outlets.best_effort.as_ref().map_or(0, LinkTx::ready_lanes);
        // Who reads CLOSE ends the link, whatever else is still on other ways.
        if outlets.is_empty() && datagrams == 0 {
            let mut parts = Vec::new();
            if machine.poll_close(clock::now(), &mut parts) > 0 {
                tap(&parts);
                self.io.hold();
                let way = if outlets.by_priority { self.io.last_way() } else { 0 };
                if let Some(queues) = &mut outlets.queues {
                    queues[way].extend(parts);
                }
            }
        }
        self.tell_waiting(tx);
    }

    /// Writes what the ways take: how many bytes, and a bit for each that is full, as `before` has of the
    /// last time.
    fn write_queues(&self, queues: &mut Queues, before: u16) -> (usize, io::Result<u16>) {
        let (mut total, mut full) = (0, 0);
        for (way, queue) in queues.iter_mut().enumerate() {
            // A way may hold something itself.
            if queue.is_empty() && before >> way & 1 == 0 {
                continue;
            }
            let mut written = 0;
            let result = self.io.try_write_at(way, queue, |bytes| {
                written += bytes;
                self.stats.tx_writes.fetch_add(1, Ordering::Relaxed);
                self.stats.tx_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            });
            if written > 0 {
                total += written;
                self.note_progress(way.min(Priority::COUNT - 1), clock::mono());
            }
            match result {
                Ok(true) => {}
                Ok(false) => full |= 1 << way,
                Err(error) => return (total, Err(error)),
            }
        }
        (total, Ok(full))
    }
}
