//! Interests: declarations that a face asks for (`zenoh-behaviour` 4.3, 4.4, `zenoh-wire` 4.8).

use super::{
    FaceError, FaceId, Node,
    error::FaceResult,
    face::{Announced, Region, Watch},
    waiting::WaitingAsker,
};
use crate::{
    Now,
    zenoh::{
        KeyExpr,
        entity::EntityKind,
        wire::{Declaration, Interest, InterestMode, InterestOptions, QueryableInfo},
    },
};
use std::collections::{BTreeSet, btree_map::Entry};

impl Node {
    pub(super) fn handle_interest(&mut self, now: Now, from: FaceId, interest: &Interest) -> FaceResult {
        let Some(face) = self.faces.get_mut(&from) else { return Err(FaceError::UnknownFace) };
        // Routers learn all declarations from the network, and a gateway has no interests.
        if face.region == Region::Routers {
            self.stats.ignored += 1;
            return Ok(());
        }
        if interest.mode == InterestMode::Final {
            self.drop_interest(from, interest.id);
            return Ok(());
        }
        if self.handle_barrier(now, from, interest) {
            return Ok(());
        }
        let Some(face) = self.faces.get_mut(&from) else { return Err(FaceError::UnknownFace) };
        let wants = |option| interest.options.contains(option);
        let kinds = EntityKind::ALL.map(|kind| wants(kind.option()));
        if interest.mode == InterestMode::Current && (kinds[0] || kinds[1] || !kinds[2]) {
            // Legal for tokens only; Eclipse Zenoh does not even send D_FINAL.
            self.stats.ignored += 1;
            return Ok(());
        }
        let key = interest.key.as_ref().map(|wire| face.resolve_owned(wire).ok_or(()));
        let Ok(key) = key.transpose() else {
            self.stats.invalid_keys += 1;
            return Ok(());
        };
        // A is ignored for tokens and from peers, and has no meaning without a key.
        let aggregate =
            wants(InterestOptions::AGGREGATE) && !kinds[2] && face.region == Region::Clients && key.is_some();
        let watch = Watch { kinds, key, aggregate };

        // Interests in current declarations need memory only while other nodes are asked.
        let bound = self.config.limits.interests;
        if self.waiting.count(from, bound) + self.work.answers_to(from, bound) >= bound {
            return Err(FaceError::TooManyInterests { bound });
        }

        if interest.mode.future() {
            self.store_watch(from, interest.id, watch.clone())?;
        }
        let is_long = interest.mode.current() && self.is_long_answer(&watch);
        if !interest.mode.current() {
            self.note_existing(from, &watch)?;
        } else if !is_long {
            self.answer(from, interest, &watch)?;
        }
        let asked = match self.faces.get(&from).map(|face| face.region) {
            Some(Region::Clients) => {
                self.withdraw_forwarded(from, Some(interest.id));
                self.forward_interest(from, interest.id, interest.mode, &watch)
            }
            _ => Vec::new(),
        };
        if is_long {
            return self.answer_gradually(from, Some(interest), watch, asked);
        }
        self.finish_or_wait(now, from, interest.id, asked);
        Ok(())
    }

    fn store_watch(&mut self, from: FaceId, id: u32, watch: Watch) -> FaceResult {
        let Some(face) = self.faces.get_mut(&from) else { return Err(FaceError::UnknownFace) };
        let bound = self.config.limits.interests;
        if !face.watches.contains_key(&id) && face.watches.len() >= bound {
            return Err(FaceError::TooManyInterests { bound });
        }
        let key = watch.key.as_deref().unwrap_or_default();
        self.budget.charge(&mut face.account, key, &self.config.limits)?;
        if let Some(old) = face.watch(id, watch) {
            self.settle(from, &old);
        }
        Ok(())
    }

    fn drop_interest(&mut self, from: FaceId, id: u32) {
        self.waiting.remove((from, id));
        self.work.drop_answer(from, id);
        let Some(face) = self.faces.get_mut(&from) else { return };
        match face.watches.remove(&id) {
            Some(watch) => self.settle(from, &watch),
            None => self.stats.ignored += 1,
        }
        self.withdraw_forwarded(from, Some(id));
    }

    /// Ends an interest. Declarations sent because of it stay, and their end will be sent: an
    /// eclipse-zenoh client keeps what it knows for the next publisher or querier on that key. Only an
    /// aggregate declaration is dropped with the interest, because it belongs to no entity that could
    /// end.
    fn settle(&mut self, of: FaceId, watch: &Watch) {
        let Some(face) = self.faces.get_mut(&of) else { return };
        face.unwatched(watch);
        self.budget.refund(&mut face.account, watch.key.as_deref().unwrap_or_default());
        for (kind, key) in face.announced_for(watch) {
            let Some(face) = self.faces.get(&of) else { return };
            let known = face.announced[kind as usize].get(&key).copied();
            let as_word_only = known.is_some_and(|known| !known.exact) && !face.watches_key(kind, &key);
            let ends = watch.aggregate && as_word_only && !face.watches_aggregate(kind, &key);
            let word = self.word((of, face), kind, &key).filter(|_| !ends);
            match (known, word) {
                (Some(known), Some(info)) if known.info != info => self.announce(of, None, kind, &key, info),
                (_, Some(_)) => {}
                (_, None) => {
                    if let Some(face) = self.faces.get_mut(&of)
                        && face.announced[kind as usize].remove(&key).is_some()
                    {
                        self.budget.withdraw(&mut face.account, 1);
                    }
                }
            }
        }
    }

    /// Sends the current declarations. With Future under the ids that U_* will use, otherwise with 0.
    fn answer(&mut self, to: FaceId, interest: &Interest, watch: &Watch) -> FaceResult {
        for kind in EntityKind::ALL.into_iter().filter(|kind| watch.kinds[*kind as usize]) {
            let offers = self.offers_for(to, kind, watch);
            self.check_answer(to, offers.len())?;
            for (key, info) in offers {
                if interest.mode.future() {
                    // An id has one declaration, whichever interest it answers.
                    let face = self.faces.get(&to);
                    let info = face.and_then(|face| self.word((to, face), kind, &key)).unwrap_or(info);
                    self.announce(to, Some(interest.id), kind, &key, info);
                } else {
                    self.send_declaration(to, Some(interest.id), kind, 0, &key, info);
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_answer(&self, to: FaceId, offers: usize) -> FaceResult {
        let Some(face) = self.faces.get(&to) else { return Ok(()) };
        self.budget.check_answer(&face.account, offers, &self.config.limits)
    }

    /// The present declarations that an interest asks for.
    fn offers_for(&self, to: FaceId, kind: EntityKind, watch: &Watch) -> Vec<(KeyExpr, QueryableInfo)> {
        let Some(face) = self.faces.get(&to) else { return Vec::new() };
        match &watch.key {
            Some(key) if watch.aggregate => {
                let offer = self.aggregate_offer((to, face), kind, key);
                offer.map(|info| (key.clone(), info)).into_iter().collect()
            }
            key => self.offers((to, face), kind, key.as_ref()),
        }
    }

    /// Makes sure that a face that asks for future declarations only is sent the end of present ones.
    fn note_existing(&mut self, to: FaceId, watch: &Watch) -> FaceResult {
        for kind in EntityKind::ALL.into_iter().filter(|kind| watch.kinds[*kind as usize]) {
            let offers = self.offers_for(to, kind, watch);
            self.check_answer(to, offers.len())?;
            let Some(face) = self.faces.get_mut(&to) else { return Ok(()) };
            for (key, info) in offers {
                if let Entry::Vacant(entry) = face.announced[kind as usize].entry(key) {
                    entry.insert(Announced { id: None, info, exact: !watch.aggregate });
                    self.budget.announce(&mut face.account);
                }
            }
        }
        Ok(())
    }

    /// Sends D_FINAL, at once or when neighbours that may know more have answered.
    pub(super) fn finish_or_wait(&mut self, now: Now, to: FaceId, id: u32, asked: Vec<FaceId>) {
        let deadline = now.mono.saturating_add(self.config.interest_timeout);
        let timeout = self.config.interest_timeout;
        // A neighbour that has not sent D_FINAL within the timeout never will: some never do.
        let late = self.faces_where(|id, face| {
            id != to && !face.finalized && face.up_since.saturating_add(timeout) > now.mono
        });
        let on: BTreeSet<FaceId> = late.into_iter().chain(asked).collect();
        let to_peer = self.faces.get(&to).is_some_and(|face| face.region == Region::Peers);
        if on.is_empty() || to_peer {
            self.send_declare(to, Some(id), Declaration::Final);
        } else {
            self.waiting.insert((to, id), on, deadline);
        }
    }

    /// `of` has sent all its declarations, or is gone: ends waiting for it.
    pub(super) fn stop_waiting_for(&mut self, of: FaceId) {
        for (to, id) in self.waiting.answered_all(of) {
            self.send_declare(to, Some(id), Declaration::Final);
        }
    }

    /// `of` has answered this one interest.
    pub(super) fn stop_waiting(&mut self, asker: WaitingAsker, of: FaceId) {
        if self.waiting.answered(asker, of) {
            self.send_declare(asker.0, Some(asker.1), Declaration::Final);
        }
    }

    pub(super) fn expire_interests(&mut self, now: Now) {
        while let Some((to, id)) = self.waiting.expire(now.mono) {
            self.stats.interest_timeouts += 1;
            self.forget_current(to, id);
            self.send_declare(to, Some(id), Declaration::Final);
        }
    }

    /// Handles D_FINAL: a neighbour has sent all its initial declarations, or a gateway the answers to
    /// an interest.
    pub(super) fn handle_final_declaration(&mut self, from: FaceId, interest_id: Option<u32>) {
        let Some(face) = self.faces.get_mut(&from) else { return };
        if interest_id == Some(0) && !face.finalized {
            face.finalized = true;
            self.events.ready.insert(from);
            self.version += 1;
            self.stop_waiting_for(from);
        } else if !interest_id
            .is_some_and(|id| self.handle_barrier_final(from, id) || self.handle_gateway_final(from, id))
        {
            self.stats.ignored += 1;
        }
    }
}
