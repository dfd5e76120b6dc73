//! Barriers: round trips that show when the north has taken all earlier messages (`zenoh-behaviour`
//! 4.3).
//!
//! An interest in existing tokens is answered with D_FINAL by every node, whatever its declarations,
//! and a node handles the messages on one channel of a link in order. The key of the interest is one on
//! which no application declares anything, so that the answer is D_FINAL alone.

use super::{
    Session, SessionResult,
    error::SessionError,
    limits::MAX_PENDING_BARRIERS,
    types::{Barrier, BarrierEnd, BarrierId, Event},
};
use crate::{
    Now,
    zenoh::{
        BARRIER_KEY, CongestionControl, Priority, Qos,
        wire::{Interest, InterestMode, InterestOptions, NetworkMessage, WireExpr},
    },
};

impl Session {
    /// Asks the north to confirm all messages sent so far; the answer is [`Event::Passed`].
    ///
    /// # Errors
    /// The session is closed, or too many barriers are waiting.
    pub fn barrier(&mut self, _now: Now, what: Barrier) -> SessionResult<BarrierId> {
        self.check_open()?;
        if self.barriers.pending.len() >= MAX_PENDING_BARRIERS {
            return Err(SessionError::TooMany { what: "waits for neighbours", limit: MAX_PENDING_BARRIERS });
        }
        self.barriers.last += 1;
        let id = BarrierId(self.barriers.last);
        self.barriers.pending.insert(id, what);
        if self.north.is_some() {
            self.send_barrier(id);
        } else if what == Barrier::Everything {
            self.end_barrier(id, BarrierEnd::LinkLost);
        }
        Ok(id)
    }

    /// Drops a barrier; its caller no longer waits.
    pub fn forget_barrier(&mut self, id: BarrierId) {
        if self.barriers.pending.remove(&id).is_some() {
            self.barriers.by_id.retain(|_, known| *known != id);
        }
    }

    fn send_barrier(&mut self, id: BarrierId) {
        let (Some(north), Some(what)) = (&mut self.north, self.barriers.pending.get(&id)) else { return };
        let wire = north.next_id();
        let options = InterestOptions::KEYEXPRS | InterestOptions::TOKENS;
        let key = Some(WireExpr::full(BARRIER_KEY));
        let mut interest = Interest::new(wire, InterestMode::Current, options, key);
        if *what == Barrier::Everything {
            // The last of all lanes: once this is answered, all others are done as well.
            interest.qos = Qos::new(Priority::Background, CongestionControl::Block, false);
        }
        self.barriers.by_id.insert(wire, id);
        self.send(NetworkMessage::Interest(interest));
    }

    /// Sends all barriers on a new link, after all declarations.
    pub(super) fn send_all_barriers(&mut self) {
        let ids: Vec<BarrierId> = self.barriers.pending.keys().copied().collect();
        for id in ids {
            self.send_barrier(id);
        }
    }

    /// Handles D_FINAL of a barrier; `false` if the id belongs to none.
    pub(super) fn barrier_answered(&mut self, interest_id: u32) -> bool {
        let Some(id) = self.barriers.by_id.remove(&interest_id) else { return false };
        self.end_barrier(id, BarrierEnd::Passed);
        true
    }

    /// Data on the way may be lost; declarations are sent again on the next link.
    pub(super) fn barriers_lose_link(&mut self) {
        self.barriers.by_id.clear();
        let lost = self.barriers.pending.iter().filter(|(_, what)| **what == Barrier::Everything);
        let lost: Vec<BarrierId> = lost.map(|(id, _)| *id).collect();
        for id in lost {
            self.end_barrier(id, BarrierEnd::LinkLost);
        }
    }

    pub(super) fn end_all_barriers(&mut self) {
        self.barriers.by_id.clear();
        while let Some((id, _)) = self.barriers.pending.pop_first() {
            self.events.push_back(Event::Passed { barrier: id, end: BarrierEnd::Closed });
        }
    }

    fn end_barrier(&mut self, id: BarrierId, end: BarrierEnd) {
        if self.barriers.pending.remove(&id).is_some() {
            self.events.push_back(Event::Passed { barrier: id, end });
        }
    }
}
