//! [`North`]: what a session knows of the other end of its link, and forgets with it.

use std::collections::HashMap;

use super::{
    interest_table::{Declared, Kind},
    keys::KeyTables,
};
use crate::zenoh::{KeyExpr, Remote, WhatAmI};

#[derive(Debug)]
pub(super) struct North {
    pub(super) remote: Remote,
    pub(super) keys: KeyTables,
    /// One counter for subscribers, queryables, tokens and interests, as in the reference.
    last_id: u32,
    subscribers: Declared,
    queryables: Declared,
    tokens: Declared,
    /// Liveliness gets by the ids of their interests.
    pub(super) liveliness_gets: HashMap<u32, u32>,
    /// A peer that declares without being asked, and will undeclare so, too.
    pub(super) tells_unasked: bool,
    /// It has said that these were all.
    pub(super) told_everything: bool,
}

impl North {
    pub(super) fn new(remote: Remote) -> Self {
        Self {
            remote,
            keys: KeyTables::default(),
            last_id: 0,
            subscribers: Declared::default(),
            queryables: Declared::default(),
            tokens: Declared::default(),
            liveliness_gets: HashMap::new(),
            tells_unasked: false,
            told_everything: false,
        }
    }

    /// Ids are not used twice on a link: 4 billion declarations do not happen on one.
    pub(super) fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    pub(super) fn is_peer(&self) -> bool {
        self.remote.whatami == WhatAmI::Peer
    }

    pub(super) fn declared(&self, kind: Kind) -> &Declared {
        match kind {
            Kind::Subscribers => &self.subscribers,
            Kind::Queryables => &self.queryables,
            Kind::Tokens => &self.tokens,
        }
    }

    pub(super) fn declared_mut(&mut self, kind: Kind) -> &mut Declared {
        match kind {
            Kind::Subscribers => &mut self.subscribers,
            Kind::Queryables => &mut self.queryables,
            Kind::Tokens => &mut self.tokens,
        }
    }

    /// The keys of its tokens; one that has several comes as often.
    pub(super) fn into_token_keys(self) -> Vec<KeyExpr> {
        self.tokens.iter().map(|(key, _)| key.clone()).collect()
    }
}
