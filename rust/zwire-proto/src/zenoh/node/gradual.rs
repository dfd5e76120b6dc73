//! Work on many declarations, in steps: the end of a face with thousands of them, and the answer to an interest
//! in thousands.
//!
//! A step takes about a millisecond, and other inputs come between two of them, so that no face stalls the
//! others. Answers continue only while their face has room for more messages. Up to [`AT_ONCE`] declarations
//! are handled with the input itself.

use super::{
    FaceId, Node,
    budget::Account,
    error::FaceResult,
    face::{Face, Region, Watch},
    tables::{FaceEntity, Holder, ResourceId},
};
use crate::{
    Now,
    zenoh::{
        KeyExpr,
        entity::EntityKind,
        wire::{Declaration, Interest, InterestMode},
    },
};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

/// Declarations that are handled with the input itself.
pub(super) const AT_ONCE: usize = 1024;
/// Keys that a step looks at.
const SCANNED: usize = 512;
/// Withdrawals of a step in a node without faces; each costs a look at every face.
const WITHDRAWN: usize = 4096;
/// Most withdrawals of a step.
const WITHDRAWN_MOST: usize = 64;
/// Pause before a face without room is looked at again.
const NO_ROOM: Duration = Duration::from_millis(5);

/// A face that is gone, with declarations that are still to be withdrawn.
#[derive(Debug)]
pub(super) struct LeavingFace {
    account: Account,
    entities: [BTreeMap<FaceEntity, ResourceId>; 3],
}

/// Declarations that a face is still to be sent.
#[derive(Debug)]
struct AnswerJob {
    to: FaceId,
    /// The interest that is answered; `None`: a neighbour in a mesh is sent all declarations.
    interest: Option<(u32, InterestMode)>,
    watch: Watch,
    /// The keys that may match and are left to look at, the last one first. Each takes four bytes; a number may
    /// belong to another key by now.
    left: Vec<ResourceId>,
    /// Other nodes that were asked, for the end of the answer.
    asked: Vec<FaceId>,
}

/// Work that is left.
#[derive(Debug, Default)]
pub(super) struct GradualWork {
    leaving: BTreeMap<FaceId, LeavingFace>,
    answers: VecDeque<AnswerJob>,
    /// Time at which a face without room is looked at again.
    blocked: Option<Duration>,
    /// Memory of faces that are gone; reported when all of it is free.
    freed: usize,
}

impl GradualWork {
    /// Time of the next step.
    pub(super) fn next_deadline(&self, now: Duration) -> Option<Duration> {
        if !self.leaving.is_empty() {
            return Some(now);
        }
        (!self.answers.is_empty()).then(|| self.blocked.unwrap_or(now))
    }

    /// Adds the memory of a face that goes.
    pub(super) const fn note_freed(&mut self, bytes: usize) {
        self.freed += bytes;
    }

    /// The memory of faces that are gone, if nothing of it is in use any more.
    pub(super) fn take_freed(&mut self) -> usize {
        if self.leaving.is_empty() { core::mem::take(&mut self.freed) } else { 0 }
    }

    /// Answers to a face that are left, counted up to `bound`.
    pub(super) fn answers_to(&self, face: FaceId, bound: usize) -> usize {
        self.answers.iter().filter(|job| job.to == face).take(bound).count()
    }

    /// Ends the answer to an interest; the face does not want it any more.
    pub(super) fn drop_answer(&mut self, to: FaceId, id: u32) {
        self.answers.retain(|job| job.to != to || job.interest.is_none_or(|(own, _)| own != id));
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.leaving.values().map(|face| &face.account)
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn is_empty(&self) -> bool {
        self.leaving.is_empty() && self.answers.is_empty()
    }
}

impl Node {
    /// Withdraws the declarations of a face that is gone, as many as a step may; the rest follow.
    pub(super) fn withdraw_gradually(&mut self, id: FaceId, face: Face) {
        let Face { account, entities, .. } = face;
        self.work.answers.retain(|job| job.to != id);
        self.work.leaving.insert(id, LeavingFace { account, entities });
        self.withdraw_some(id, AT_ONCE);
    }

    /// Withdraws the entities that a closed face still holds, before a new face takes its number.
    pub(super) fn finish_leaving(&mut self, id: FaceId) {
        while self.work.leaving.contains_key(&id) {
            self.withdraw_some(id, usize::MAX);
        }
    }

    /// Withdraws declarations of a face that is gone.
    fn withdraw_some(&mut self, id: FaceId, most: usize) {
        for _ in 0..most {
            let Some(face) = self.work.leaving.get_mut(&id) else { return };
            let next = EntityKind::ALL.into_iter().find_map(|kind| {
                let (entity, resource) = face.entities[kind as usize].pop_first()?;
                Some((kind, entity, resource))
            });
            let Some((kind, entity, resource)) = next else {
                let Some(face) = self.work.leaving.remove(&id) else { return };
                self.budget.release(&face.account);
                self.tables.shrink();
                return;
            };
            let Some(key) = self.tables.get(resource).map(|resource| resource.key.clone()) else { continue };
            self.budget.refund(&mut face.account, &key);
            self.tables.remove(resource, kind, Holder::Face(id, entity));
            self.changed_at(None, kind, &key);
        }
    }

    /// Whether an interest in so many keys is answered in steps.
    pub(super) fn is_long_answer(&self, watch: &Watch) -> bool {
        self.tables.len() > AT_ONCE
            && !watch.aggregate
            && watch.key.as_ref().is_none_or(|key| self.tables.numbers(Some(key)).len() > AT_ONCE)
    }

    /// Answers an interest in steps; `None`: a neighbour in a mesh is sent all.
    pub(super) fn answer_gradually(
        &mut self,
        to: FaceId,
        interest: Option<&Interest>,
        watch: Watch,
        asked: Vec<FaceId>,
    ) -> FaceResult {
        let mut left = self.tables.numbers(watch.key.as_ref());
        self.check_answer(to, left.len())?;
        left.reverse();
        interest.inspect(|interest| self.work.drop_answer(to, interest.id));
        let interest = interest.map(|interest| (interest.id, interest.mode));
        self.work.answers.push_back(AnswerJob { to, interest, watch, left, asked });
        self.work.blocked = None;
        Ok(())
    }

    /// Does one step of the work that is left. `has_room` tells whether a face has room for messages.
    pub(super) fn step(&mut self, now: Now, has_room: &dyn Fn(FaceId) -> bool) {
        if let Some(id) = self.work.leaving.keys().next().copied() {
            let most = (WITHDRAWN / (self.faces.len() + 1)).clamp(4, WITHDRAWN_MOST);
            self.withdraw_some(id, most);
        }
        for _ in 0..self.work.answers.len() {
            let Some(job) = self.work.answers.pop_front() else { break };
            if !has_room(job.to) {
                self.work.answers.push_back(job);
                continue;
            }
            if let Some(job) = self.answer_more(now, job) {
                self.work.answers.push_back(job);
            }
            self.work.blocked = None;
            return;
        }
        self.work.blocked = (!self.work.answers.is_empty()).then(|| now.mono + NO_ROOM);
    }

    /// Sends the next declarations of an answer; returns what is left of it.
    fn answer_more(&mut self, now: Now, mut job: AnswerJob) -> Option<AnswerJob> {
        for _ in 0..SCANNED {
            let Some(number) = job.left.pop() else { break };
            let Some(key) = self.tables.get(number).map(|resource| resource.key.clone()) else { continue };
            for kind in EntityKind::ALL {
                self.answer_key(&job, kind, &key);
            }
        }
        if !job.left.is_empty() {
            return Some(job);
        }
        match job.interest {
            Some((id, _)) => self.finish_or_wait(now, job.to, id, job.asked),
            // Until it gets this, a peer sends all its data; a gateway does not wait for it.
            None if self.faces.get(&job.to).is_some_and(|face| face.region == Region::Peers) => {
                self.send_declare(job.to, Some(0), Declaration::Final);
            }
            None => {}
        }
        None
    }

    fn answer_key(&mut self, job: &AnswerJob, kind: EntityKind, key: &KeyExpr) {
        let Some(face) = self.faces.get(&job.to) else { return };
        if !job.watch.covers(kind, key) {
            return;
        }
        let Some(info) =
            self.tables.exact(key).and_then(|resource| self.offer((job.to, face), kind, resource))
        else {
            return;
        };
        let id = job.interest.map(|(id, _)| id);
        if job.interest.is_some_and(|(_, mode)| !mode.future()) {
            return self.send_declaration(job.to, id, kind, 0, key, info);
        }
        // A neighbour was told of keys that were declared since.
        if job.interest.is_none() && face.was_told(kind, key) {
            return;
        }
        let info = self.word((job.to, face), kind, key).unwrap_or(info);
        self.announce(job.to, id, kind, key, info);
    }
}
