//! Barriers: a session asks when its declarations have reached all nodes that need them.
//!
//! The request is an interest in the tokens on [`BARRIER_KEY`]. A router keeps the tables itself, for
//! all nodes connected to it, and answers at once; it makes no promise about other routers. A peer
//! sends the same interest to its neighbours, behind its declarations, and answers when all have
//! answered or disconnected. No timeout produces an answer: it would be false.

use super::{FaceId, Node, NodeMode, face::Region, waiting::WaitingAsker};
use crate::{
    Now,
    zenoh::{
        BARRIER_KEY, Reliability,
        wire::{Declaration, Interest, InterestMode, InterestOptions, NetworkMessage, WireExpr},
    },
};
use core::time::Duration;
use std::collections::BTreeSet;

/// Time after which a barrier is dropped without an answer, since some neighbours never answer.
const FORGET: Duration = Duration::from_secs(3600);

impl Node {
    /// Forwards an interest that is a barrier; `false`: it must be answered like any other.
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
            // A group is sent one message, and none of its members answers for the others.
            if !matches!(face.region, Region::Peers | Region::Routers) {
                continue;
            }
            let own = face.new_id();
            face.barriers.insert(own, (from, interest.id));
            asked.insert(*id);
            let options = InterestOptions::KEYEXPRS | InterestOptions::TOKENS;
            let key = Some(WireExpr::full(BARRIER_KEY));
            let mut question = Interest::new(own, InterestMode::Current, options, key);
            // The QoS selects the lane, and the answer only covers messages before it on that lane.
            question.qos = interest.qos;
            self.out.push_back((*id, NetworkMessage::Interest(question), Reliability::Reliable));
        }
        if asked.is_empty() {
            return false;
        }
        self.barriers.insert((from, interest.id), asked, now.mono.saturating_add(FORGET));
        true
    }

    /// Handles D_FINAL of a neighbour; `false` if it does not answer a barrier.
    pub(super) fn handle_barrier_final(&mut self, of: FaceId, id: u32) -> bool {
        let Some(asker) = self.faces.get_mut(&of).and_then(|face| face.barriers.remove(&id)) else {
            return false;
        };
        if self.barriers.answered(asker, of) {
            self.pass(asker);
        }
        true
    }

    /// Removes a closed face: barriers no longer wait for it, and its own are dropped.
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

    fn pass(&mut self, (to, id): WaitingAsker) {
        self.send_declare(to, Some(id), Declaration::Final);
    }
}
