//! [`North`]: state of the other end of the link, dropped with the link.

use std::collections::HashMap;

use super::{
    Session,
    interest::{Declared, Kind},
    keys::KeyTables,
};
use crate::zenoh::{
    KeyExpr, Reliability, Remote, WhatAmI,
    wire::{Declaration, Declare, NetworkMessage, WireExpr},
};

#[derive(Debug)]
pub(super) struct North {
    pub(super) remote: Remote,
    pub(super) keys: KeyTables,
    /// Id counter, shared by subscribers, queryables, tokens and interests, as in Eclipse Zenoh.
    last_id: u32,
    subscribers: Declared,
    queryables: Declared,
    tokens: Declared,
    /// Liveliness gets by the ids of their interests.
    pub(super) liveliness_gets: HashMap<u32, u32>,
    /// Whether the north is a peer that declares, and undeclares, without being asked.
    pub(super) tells_unasked: bool,
    /// Whether it has sent all its declarations.
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

    /// Ids are not reused on a link: no link sees 4 billion declarations.
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

    /// Keys of its tokens; a key with several tokens is repeated.
    pub(super) fn into_token_keys(self) -> Vec<KeyExpr> {
        self.tokens.iter().map(|(key, _)| key.clone()).collect()
    }
}

impl Session {
    /// Short form of `key`, with a number for its non-wild prefix, which is declared if necessary.
    /// `None`: no link.
    pub(super) fn declare_prefix(&mut self, key: &KeyExpr) -> Option<WireExpr> {
        let north = self.north.as_mut()?;
        if let Some((id, prefix)) = key.non_wild_prefix().and_then(|prefix| north.keys.declare(prefix)) {
            self.out_routes.forget();
            self.declare(Declaration::KeyExpr { id, key: WireExpr::full(prefix) });
        }
        Some(self.north.as_ref()?.keys.shortest(key))
    }

    /// Sends a declaration that answers no interest.
    pub(super) fn declare(&mut self, body: Declaration) {
        self.send(NetworkMessage::Declare(Declare::new(None, body)));
    }

    /// Sends a message on the reliable channel, if there is a link.
    pub(super) fn send(&mut self, message: NetworkMessage) {
        if self.north.is_none() {
            return;
        }
        match &message {
            NetworkMessage::Declare(_) | NetworkMessage::Interest(_) => self.stats.declarations_sent += 1,
            NetworkMessage::Request(_) => self.stats.requests_sent += 1,
            NetworkMessage::Response(_) => self.stats.responses_sent += 1,
            NetworkMessage::Push(_) | NetworkMessage::ResponseFinal(_) | NetworkMessage::Oam(_) => {}
        }
        self.transmits.push_back((message, Reliability::Reliable));
    }
}
