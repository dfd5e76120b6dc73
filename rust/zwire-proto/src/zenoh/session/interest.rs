//! Interests of the session in declarations of the north, and the declarations received
//! (`zenoh-behaviour` 4.3, 4.5).

use super::{Session, error::NorthError, interest_table::NorthInterest, types::EntityId};
use crate::zenoh::{
    KeyExpr, WhatAmI,
    entity::EntityKind,
    wire::{
        Declaration, Declare, Interest as WireInterest, InterestMode, InterestOptions, NetworkMessage,
        WireExpr,
    },
};

impl Session {
    /// Adds a user of an interest; returns the number of the interest.
    pub(super) fn add_interest(
        &mut self,
        kind: EntityKind,
        key: KeyExpr,
        subscriber: Option<(EntityId, bool)>,
    ) -> u32 {
        let interests = &mut self.interests;
        if let Some(&number) = interests.shared(kind).and_then(|shared| shared.get(&key)) {
            if let Some(interest) = interests.list.get_mut(&number) {
                interest.users += 1;
            }
            return number;
        }
        interests.last += 1;
        let number = interests.last;
        if let Some(shared) = interests.shared(kind) {
            shared.insert(key.clone(), number);
        }
        let mut interest = NorthInterest {
            kind,
            key,
            users: 1,
            subscriber: subscriber.map(|(id, _)| id),
            history: subscriber.is_some_and(|(_, history)| history),
            id: 0,
            answered: false,
            matches: 0,
            complete: 0,
        };
        if let Some(north) = &self.north {
            for (key, complete) in north.declared[kind as usize].iter() {
                if interest.key.intersects(key) {
                    interest.matches += 1;
                    interest.complete += usize::from(complete && key.includes(&interest.key));
                }
            }
        }
        interests.list.insert(number, interest);
        self.send_interest(number);
        self.out_routes.forget();
        number
    }

    pub(super) fn send_interest(&mut self, number: u32) {
        let Some(interest) = self.interests.list.get(&number) else { return };
        let (kind, key) = (interest.kind, interest.key.clone());
        let Some(key) = self.declare_prefix(&key) else { return };
        let Some(north) = &mut self.north else { return };
        let id = north.next_id();
        let told = north.told_everything;
        if let Some(interest) = self.interests.list.get_mut(&number) {
            interest.id = id;
            interest.answered = told;
        }
        self.interests.by_id.insert(id, number);
        let mode = InterestMode::CurrentFuture;
        let options = InterestOptions::KEYEXPRS | kind.option();
        self.send(NetworkMessage::Interest(WireInterest::new(id, mode, options, Some(key))));
    }

    pub(super) fn send_all_interests(&mut self) {
        let numbers: Vec<u32> = self.interests.list.keys().copied().collect();
        // Existing tokens may be new to subscribers that are older than the link.
        self.interests.list.values_mut().for_each(|interest| interest.history = true);
        for number in numbers {
            self.send_interest(number);
        }
    }

    /// Removes a user of an interest; the last one ends it.
    pub(super) fn drop_interest(&mut self, number: u32) {
        let Some(interest) = self.interests.list.get_mut(&number) else { return };
        interest.users -= 1;
        if interest.users > 0 {
            return;
        }
        let Some(interest) = self.interests.list.remove(&number) else { return };
        if let Some(shared) = self.interests.shared(interest.kind) {
            shared.remove(&interest.key);
        }
        self.out_routes.forget();
        if interest.id == 0 {
            return;
        }
        self.interests.by_id.remove(&interest.id);
        self.send(NetworkMessage::Interest(WireInterest::finished(interest.id)));
        // From now on the end of these declarations will not be reported.
        let Some(north) = &mut self.north else { return };
        if north.tells_unasked {
            return;
        }
        let interests = &self.interests;
        let gone = north.declared[interest.kind as usize]
            .prune(|key| !interest.key.intersects(key) || interests.covers(interest.kind, key));
        if interest.kind == EntityKind::Token {
            for key in gone {
                self.remote_token_down(&key);
            }
        }
    }

    pub(super) fn interests_lose_link(&mut self) {
        let turned: Vec<u32> =
            self.interests.list.iter().filter(|(_, i)| i.matches > 0).map(|(&number, _)| number).collect();
        self.interests.link_lost();
        for number in turned {
            self.update_matching_of(number);
        }
    }

    pub(super) fn handle_final(&mut self, interest_id: Option<u32>) {
        self.out_routes.forget();
        match interest_id {
            Some(0) => {
                // A peer has sent all its declarations, and will send later ones as well
                // (`zenoh-behaviour` 4.6).
                if let Some(north) = &mut self.north {
                    north.tells_unasked = true;
                    north.told_everything = true;
                }
                for interest in self.interests.list.values_mut() {
                    interest.answered = true;
                }
            }
            Some(id) if self.interests.by_id.contains_key(&id) => {
                let number = self.interests.by_id[&id];
                if let Some(interest) = self.interests.list.get_mut(&number) {
                    interest.answered = true;
                }
            }
            Some(id) if self.liveliness_get_answered(id) || self.barrier_answered(id) => {}
            _ => self.stats.dropped.declare_ignored += 1,
        }
    }

    /// Whether to store a received declaration.
    pub(super) fn is_wanted(&mut self, kind: EntityKind, interest_id: Option<u32>, key: &KeyExpr) -> bool {
        let Some(north) = &mut self.north else { return false };
        let wanted = match interest_id {
            Some(0) => {
                north.tells_unasked = true;
                true
            }
            Some(id) => self.interests.by_id.contains_key(&id),
            None if north.tells_unasked || self.interests.covers(kind, key) => true,
            // A router may still answer an interest that has ended; a peer sends all declarations
            // unasked.
            None => {
                north.tells_unasked = north.remote.whatami == WhatAmI::Peer;
                north.tells_unasked
            }
        };
        self.stats.dropped.declare_ignored += u64::from(!wanted);
        wanted
    }

    /// Handles D_SUBSCRIBER or D_QUERYABLE.
    pub(super) fn handle_declared(
        &mut self,
        kind: EntityKind,
        interest_id: Option<u32>,
        id: u32,
        key: &KeyExpr,
        complete: bool,
    ) -> Result<(), NorthError> {
        if !self.is_wanted(kind, interest_id, key) {
            return Ok(());
        }
        let Some(north) = &mut self.north else { return Ok(()) };
        let old = north.declared[kind as usize].insert(id, key, complete)?;
        if old.as_ref().is_some_and(|(old, was_complete)| old == key && *was_complete == complete) {
            return Ok(());
        }
        let mut turned = self.interests.matched(kind, key, complete, true);
        if let Some((old, complete)) = old {
            turned.extend(self.interests.matched(kind, &old, complete, false));
        }
        self.turn(&turned);
        Ok(())
    }

    /// Handles U_SUBSCRIBER or U_QUERYABLE.
    pub(super) fn handle_undeclared(&mut self, kind: EntityKind, id: u32, key: Option<&KeyExpr>) {
        let Some(north) = &mut self.north else { return };
        match north.declared[kind as usize].remove(id, key) {
            Some((key, complete)) => {
                let turned = self.interests.matched(kind, &key, complete, false);
                self.turn(&turned);
            }
            None => self.stats.dropped.declare_ignored += 1,
        }
    }

    fn turn(&mut self, turned: &[u32]) {
        if !turned.is_empty() {
            self.out_routes.forget();
        }
        for &number in turned {
            self.update_matching_of(number);
        }
    }

    /// Whether a publication or query on exactly this key is sent: not if an interest on it was
    /// answered and no declaration matches (`zenoh-behaviour` 4.5).
    pub(super) fn may_leave(&self, kind: EntityKind, key: &KeyExpr, only_complete: bool) -> bool {
        self.interests.on(kind, key).is_none_or(|interest| {
            !interest.answered || if only_complete { interest.complete > 0 } else { interest.matches > 0 }
        })
    }

    /// Handles INTEREST of the north. The north has all declarations of this session already, so that
    /// only an interest in existing ones needs an answer, and a Future one an immediate D_FINAL.
    pub(super) fn handle_interest(&mut self, interest: WireInterest) {
        let (mode, options) = (interest.mode, interest.options);
        let wants = |kind: EntityKind| options.contains(kind.option());
        let others = wants(EntityKind::Subscriber) || wants(EntityKind::Queryable);
        let legal = match mode {
            InterestMode::Final => false,
            // Same rule as in Eclipse Zenoh (4.3).
            InterestMode::Current => wants(EntityKind::Token) && !others,
            InterestMode::Future | InterestMode::CurrentFuture => true,
        };
        let Some(north) = &self.north else { return };
        let key = interest.key.as_ref().map(|wire| north.keys.resolve(wire).ok_or(()));
        let Ok(key) = key.transpose() else {
            self.stats.dropped.in_bad_key += 1;
            return;
        };
        if !legal {
            return;
        }
        if mode.current() {
            let mut answers = Vec::new();
            let asked = |own: &KeyExpr| key.as_ref().is_none_or(|key| key.intersects(own));
            for kind in EntityKind::ALL.into_iter().filter(|kind| wants(*kind)) {
                for (id, key, info) in self.declared(kind).into_iter().filter(|(_, key, _)| asked(key)) {
                    let id = if mode == InterestMode::Current { 0 } else { id };
                    answers.push(kind.declaration(id, WireExpr::full(key.text().clone()), info));
                }
            }
            for answer in answers {
                self.send(NetworkMessage::Declare(Declare::new(Some(interest.id), answer)));
            }
        }
        self.send(NetworkMessage::Declare(Declare::new(Some(interest.id), Declaration::Final)));
    }

    /// Checks that the counters of interests equal a fresh count, and that matching agrees with them.
    #[cfg(test)]
    pub(super) fn check_interests(&self) {
        for interest in self.interests.list.values() {
            let declared = self.north.iter().flat_map(|north| north.declared[interest.kind as usize].iter());
            let matching: Vec<_> = declared
                .filter(|(key, _)| interest.key.intersects(key))
                .map(|(key, complete)| (key.clone(), complete))
                .collect();
            let complete = matching.iter().filter(|(key, complete)| *complete && key.includes(&interest.key));
            if interest.kind != EntityKind::Token {
                assert_eq!((interest.matches, interest.complete), (matching.len(), complete.count()));
            }
            assert_eq!(self.interests.by_id.contains_key(&interest.id), self.north.is_some());
        }
        self.check_matching();
    }
}
