//! Barriers: a session asks when its declarations have reached those who need them.
//!
//! The question is an interest in the tokens on [`BARRIER_KEY`]. A router keeps the tables itself, for all
//! who are connected to it, and answers at once; what other routers know is not its to promise. A peer
//! asks its neighbours the same, behind what it has told them, and answers when all have answered or are
//! gone. There is no time after which it answers all the same: that would be a lie.

use super::{FaceId, Node, NodeMode, face::Region, waiting::Asker};
use crate::{
    Now,
    zenoh::{
        BARRIER_KEY, Reliability,
        wire::{Interest, InterestMode, InterestOptions, NetworkMessage, WireExpr},
    },
};
use core::time::Duration;
use std::collections::BTreeSet;

/// Some neighbours never answer, and those who wait are forgotten after this time.
const FORGET: Duration = Duration::from_secs(3600);

impl Node {
    /// Whether an interest is a barrier that is passed on, which is done then. Otherwise it is answered
    /// like any other.
    pub(super) fn handle_barrier(&mut self, now: Now, from: FaceId, interest: &Interest) -> bool {
        let key = interest.key.as_ref();
        let is_barrier = interest.mode == InterestMode::Current
            && key.is_some_and(|key| key.scope == 0 && key.suffix.as_str() == BARRIER_KEY);
        let of_client = self.faces.get(&from).is_some_and(|face| face.region == Region::Clients);
        if !is_barrier || !of_client || self.config.mode != NodeMode::Peer {
            return false;
        }
        let bound = self.config.limits.interests;
        if self.barriers.count(from, bound) >= bound {
            self.stats.ignored += 1;
            return true;
        }
        let mut asked = BTreeSet::new();
        for (id, face) in &mut self.faces {
            // A group is told in one message, and none of its members answers for the others.
            if !matches!(face.region, Region::Peers | Region::Routers) {
                continue;
            }
            let own = face.new_id();
            face.barriers.insert(own, (from, interest.id));
            asked.insert(*id);
            let options = InterestOptions::KEYEXPRS | InterestOptions::TOKENS;
            let key = Some(WireExpr::full(BARRIER_KEY));
            let mut question = Interest::new(own, InterestMode::Current, options, key);
            // The lane says what it is behind.
            question.qos = interest.qos;
            self.out.push_back((*id, NetworkMessage::Interest(question), Reliability::Reliable));
        }
        if asked.is_empty() {
            return false;
        }
        self.barriers.insert((from, interest.id), asked, now.mono.saturating_add(FORGET));
        true
    }

    /// D_FINAL of a neighbour; whether it answers a barrier.
    pub(super) fn handle_barrier_final(&mut self, of: FaceId, id: u32) -> bool {
        let Some(asker) = self.faces.get_mut(&of).and_then(|face| face.barriers.remove(&id)) else {
            return false;
        };
        if self.barriers.answered(asker, of) {
            self.pass(asker);
        }
        true
    }

    /// A face is gone: nobody waits for it any more, and it waits for nobody.
    pub(super) fn drop_barriers_of(&mut self, of: FaceId) {
        self.barriers.remove_all(of);
        for asker in self.barriers.answered_all(of) {
            self.pass(asker);
        }
    }

    pub(super) fn expire_barriers(&mut self, now: Now) {
        while let Some(asker) = self.barriers.expire(now.mono) {
            for face in self.faces.values_mut() {
                face.barriers.retain(|_, known| *known != asker);
            }
        }
    }

    fn pass(&mut self, (to, id): Asker) {
        self.send_declare(to, Some(id), crate::zenoh::wire::Declaration::Final);
    }
}
