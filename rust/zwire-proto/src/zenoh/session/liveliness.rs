//! Liveliness: tokens and the keys they keep alive (`zenoh-behaviour` 3.10).
//!
//! A key is alive as long as it has a token, of this session or of another. A router sends a client its
//! own tokens, too; only the first token of a key and the last one matter.

use core::time::Duration;
use std::collections::HashSet;

use super::{
    Session, SessionResult,
    error::{NorthError, NorthResult},
    limits::MAX_DECLARATIONS,
    pending::PendingGet,
    sample::{Sample, SampleKind},
    types::{EntityId, Event, GetEnd, GetId, Reply},
};
use crate::{
    Now,
    zenoh::{
        KeyExpr,
        entity::EntityKind,
        wire::{Consolidation, Interest, InterestMode, InterestOptions, NetworkMessage},
    },
};

impl Session {
    /// Queries which tokens are alive; each living key comes once, as the sample of a reply.
    ///
    /// # Errors
    /// The session is closed, the key does not fit into the namespace, or there are too many gets.
    pub fn liveliness_get(
        &mut self,
        now: Now,
        key: KeyExpr,
        timeout: Option<Duration>,
    ) -> SessionResult<GetId> {
        let key = self.outward(key)?;
        let timeout = timeout.unwrap_or(self.config.queries_default_timeout);
        let mut pending = PendingGet::new(key.inner.clone(), Consolidation::None, now, timeout);
        pending.tokens = Some(HashSet::new());
        pending.network = self.north.is_some();
        let id = self.gets.insert(pending)?;
        // A north that sends all tokens unasked need not be queried; zenoh-pico would not even answer.
        let told = self.north.as_ref().is_some_and(|north| north.told_everything);
        let known: Vec<_> = if told {
            self.living.keys().filter(|living| living.intersects(&key.inner)).cloned().collect()
        } else {
            let own = self.entities.tokens.values().map(|token| &token.key.inner);
            own.filter(|own| own.intersects(&key.inner)).cloned().collect()
        };
        for key in known {
            self.token_replied(id, &key);
        }
        if told || self.north.is_none() {
            let end = if told { GetEnd::Completed } else { GetEnd::LinkLost };
            self.network_done(id, end);
            return Ok(id);
        }
        if let Some(wire) = self.declare_prefix(&key.outer)
            && let Some(north) = &mut self.north
        {
            let interest = north.next_id();
            north.liveliness_gets.insert(interest, id.0);
            let options = InterestOptions::KEYEXPRS | InterestOptions::TOKENS;
            let message = Interest::new(interest, InterestMode::Current, options, Some(wire));
            self.send(NetworkMessage::Interest(message));
        }
        Ok(id)
    }

    /// Handles a key found by a liveliness get; `false` if the get can store no more keys.
    fn token_replied(&mut self, id: GetId, key: &KeyExpr) -> bool {
        let Some(tokens) = self.gets.pending.get_mut(&id).and_then(|pending| pending.tokens.as_mut()) else {
            return true;
        };
        if tokens.contains(key) {
            return true;
        }
        if tokens.len() >= MAX_DECLARATIONS {
            return false;
        }
        let key = key.unshared();
        tokens.insert(key.clone());
        let sample = Sample::liveliness(key, SampleKind::Put);
        self.handle_reply(id, Reply { result: Ok(sample), replier: None });
        true
    }

    /// Handles D_FINAL of a liveliness get; `false` if the id belongs to none.
    pub(super) fn liveliness_get_answered(&mut self, interest_id: u32) -> bool {
        let Some(north) = &mut self.north else { return false };
        let Some(id) = north.liveliness_gets.remove(&interest_id) else { return false };
        self.network_done(GetId(id), GetEnd::Completed);
        true
    }

    pub(super) fn handle_token(&mut self, interest_id: Option<u32>, id: u32, key: &KeyExpr) -> NorthResult {
        let Some(north) = &mut self.north else { return Ok(()) };
        if let Some(&get) = interest_id.and_then(|id| north.liveliness_gets.get(&id)) {
            let Some(inner) = self.inward(key) else {
                self.stats.dropped.in_bad_key += 1;
                return Ok(());
            };
            let stored = self.token_replied(GetId(get), &inner);
            let error = NorthError { what: "tokens in one answer", limit: MAX_DECLARATIONS };
            return stored.then_some(()).ok_or(error);
        }
        if !self.is_wanted(EntityKind::Token, interest_id, key) {
            return Ok(());
        }
        let Some(north) = &mut self.north else { return Ok(()) };
        let old = north.declared[EntityKind::Token as usize].insert(id, key, false)?;
        match &old {
            Some((old, _)) if old == key => return Ok(()),
            Some((old, _)) => self.remote_token_down(old),
            None => {}
        }
        match self.inward(key) {
            Some(inner) => {
                let asked = interest_id.filter(|&id| id != 0);
                let answers = asked.and_then(|id| self.interests.by_id(id)).and_then(|i| i.subscriber);
                self.token_up(&inner, answers);
            }
            None => self.stats.dropped.in_bad_key += 1,
        }
        Ok(())
    }

    /// Handles U_TOKEN, with the key that it may carry.
    pub(super) fn handle_token_gone(&mut self, id: u32, key: Option<&KeyExpr>) {
        let Some(north) = &mut self.north else { return };
        if let Some((key, _)) = north.declared[EntityKind::Token as usize].remove(id, key) {
            self.remote_token_down(&key);
            return;
        }
        // In this way a subscriber without history learns of the end of tokens that existed before it.
        match key.and_then(|key| self.inward(key)) {
            Some(inner) if !self.living.contains_key(&inner) => {
                self.report_token(&inner, SampleKind::Delete, None);
            }
            _ => self.stats.dropped.declare_ignored += 1,
        }
    }

    pub(super) fn remote_token_down(&mut self, key: &KeyExpr) {
        if let Some(inner) = self.inward(key) {
            self.token_down(&inner);
        }
    }

    /// Adds a token; `answers`: it is the answer to this subscriber's interest, not a change.
    pub(super) fn token_up(&mut self, key: &KeyExpr, answers: Option<EntityId>) {
        if let Some(count) = self.living.get_mut(key) {
            *count += 1;
            return;
        }
        let key = key.unshared();
        self.living.insert(key.clone(), 1);
        self.report_token(&key, SampleKind::Put, answers);
    }

    pub(super) fn token_down(&mut self, key: &KeyExpr) {
        let Some(count) = self.living.get_mut(key) else { return };
        *count -= 1;
        if *count == 0 {
            self.living.remove(key);
            self.report_token(key, SampleKind::Delete, None);
        }
    }

    fn report_token(&mut self, key: &KeyExpr, kind: SampleKind, answers: Option<EntityId>) {
        for (&id, subscriber) in &self.entities.liveliness_subscribers {
            if !subscriber.key.inner.intersects(key) {
                continue;
            }
            // An answer to one subscriber is reported to all that wait for an answer: when the key is
            // sent again for them, it is no longer a change.
            let told = answers.is_none_or(|asker| {
                let interest = self.interests.list.get(&subscriber.interest);
                interest.is_some_and(|interest| interest.history && (asker == id || !interest.answered))
            });
            if told {
                self.stats.samples_delivered += 1;
                let sample = Sample::liveliness(key.clone(), kind);
                self.events.push_back(Event::Sample { subscriber: id, sample });
            }
        }
    }

    /// Reports all living keys to a new subscriber.
    pub(super) fn report_living(&mut self, subscriber: EntityId, key: &KeyExpr) {
        for living in self.living.keys().filter(|living| living.intersects(key)) {
            self.stats.samples_delivered += 1;
            let sample = Sample::liveliness(living.clone(), SampleKind::Put);
            self.events.push_back(Event::Sample { subscriber, sample });
        }
    }
}
