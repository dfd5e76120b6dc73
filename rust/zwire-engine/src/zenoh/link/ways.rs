//! Links whose batches leave by several [ways](Ways): batches that one way cannot take stay with it, and the
//! others go on. A thread that publishes may write by the others while one way is full.

use super::{Link, backlog::LinkBacklog};
use crate::{
    net::{
        io::{DATAGRAMS, Ways},
        outbox::{WRITE_BYTES, Written},
    },
    rt::clock,
};
use bytes::Bytes;
use std::{collections::VecDeque, io};
use zwire_proto::zenoh::{
    Priority,
    link::{LinkParams, LinkTx},
};

/// The ways of one link.
pub(crate) struct Outlets {
    pub(super) by_priority: bool,
    /// Best-effort messages have a sender of their own, with smaller batches.
    pub(super) best_effort: Option<LinkTx>,
    /// Taken from the senders, not yet written. `None` while a thread writes.
    queues: Option<Queues>,
    /// Bit n: way n has not taken all that it was given.
    full: u16,
}

/// Batches for each way.
pub(crate) type Queues = Box<[VecDeque<Bytes>; DATAGRAMS + 1]>;

impl Outlets {
    /// `sender` makes a sender for such a link.
    pub(super) fn new(ways: Ways, params: &LinkParams, sender: impl FnOnce(&LinkParams) -> LinkTx) -> Self {
        let best_effort = ways.best_effort.filter(|_| !params.low_latency).map(|batch_size| {
            let params = LinkParams { batch_size, streamed: false, ..params.clone() };
            sender(&params).with_separate_lanes()
        });
        Self { by_priority: ways.by_priority, best_effort, queues: Some(Box::default()), full: 0 }
    }

    /// Gives back batches with what was not written.
    pub(super) fn put_back(&mut self, queues: Queues, full: u16) {
        self.queues = Some(queues);
        self.full = full;
    }

    /// Whether all ways are empty and have room.
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
    /// Batches for the ways that have room; `None`: nothing is left to write on any.
    pub(super) fn take_ways(&self, backlog: &mut LinkBacklog) -> Option<(Queues, u16)> {
        self.refill_ways(backlog);
        let outlets = backlog.outlets.as_mut()?;
        if outlets.is_empty() {
            return None;
        }
        outlets.queues.take().map(|queues| (queues, outlets.full))
    }

    fn refill_ways(&self, backlog: &mut LinkBacklog) {
        let most = backlog.pace.chunk(WRITE_BYTES);
        let LinkBacklog { machine, outlets: Some(outlets), .. } = &mut *backlog else { return };
        let tap = |parts: &[Bytes]| {
            if let Some(tap) = self.tap.as_ref().filter(|_| !parts.is_empty()) {
                tap.sent(parts);
            }
        };
        outlets.refill(machine, most, tap);
        let datagrams = outlets.best_effort.as_ref().map_or(0, LinkTx::ready_lanes);
        // The peer ends the link when it reads CLOSE, whatever is still on other ways: CLOSE leaves last.
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
        self.tell_waiting(backlog);
    }

    /// Writes as much as the ways accept: a bit for each that is full, as `before` has of the round before.
    pub(super) fn write_queues(
        &self,
        queues: &mut Queues,
        before: u16,
        total: &mut Written,
    ) -> io::Result<u16> {
        let mut full = 0;
        for (way, queue) in queues.iter_mut().enumerate() {
            // A way may hold something itself.
            if queue.is_empty() && before >> way & 1 == 0 {
                continue;
            }
            let before = total.bytes;
            let result = self.io.try_write_at(way, queue, |bytes| total.count(bytes));
            if total.bytes > before {
                self.note_progress(way.min(Priority::COUNT - 1), clock::mono());
            }
            match result {
                Ok(true) => {}
                Ok(false) => full |= 1 << way,
                Err(error) => return Err(error),
            }
        }
        Ok(full)
    }
}
