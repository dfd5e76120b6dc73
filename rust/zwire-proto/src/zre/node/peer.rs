//! One peer: where it is, what it said, when.

use super::super::{
    Generation, Uuid, limits,
    wire::{Body, EncodeError, IdentityForm, Message},
};
use super::types::{Action, DealerId};
use crate::Text;
use bytes::Bytes;
use core::time::Duration;
use std::collections::BTreeSet;

/// Our way to a peer, and where the session on it is.
#[derive(Debug)]
pub(super) struct Dealer {
    pub(super) id: DealerId,
    pub(super) generation: Generation,
    /// The number of the next message.
    pub(super) sequence: u16,
    /// Messages of this session.
    pub(super) sent: u32,
    /// The driver said so.
    pub(super) connected: bool,
}

impl Dealer {
    pub(super) const fn new(id: DealerId, generation: Generation) -> Self {
        Self { id, generation, sequence: 1, sent: 0, connected: false }
    }

    /// The next message of the session; its number is used only where it can be sent.
    pub(super) fn message(&mut self, peer: Option<Uuid>, body: Body) -> Result<Action, EncodeError> {
        let frames = Message { sequence: self.sequence, body }.encode(self.generation)?;
        self.count();
        Ok(Action::Send { dealer: self.id, peer, frames })
    }

    /// The number of the next message, which is used now.
    pub(super) fn count(&mut self) -> u16 {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.sent += 1;
        sequence
    }
}

#[derive(Debug)]
pub(super) struct Peer {
    /// Where our DEALER goes.
    pub(super) endpoint: Bytes,
    pub(super) public_key: Option<[u8; 32]>,
    pub(super) dealer: Option<Dealer>,
    /// When to speak first, the generation still unknown.
    pub(super) detect_at: Option<Duration>,
    /// When to open a DEALER again after it failed.
    pub(super) retry_at: Option<Duration>,
    /// What is to be sent when the way to it is found.
    pub(super) waiting: Vec<Body>,
    /// When this entry was made, or our last session to it begun.
    pub(super) since: Duration,
    /// The last beacon from `endpoint`.
    pub(super) beaconed: Option<Duration>,
    /// The last sign of life.
    pub(super) heard: Duration,
    /// What its HELLO said; `None` before.
    pub(super) session: Option<PeerSession>,
    /// Until when a HELLO of the peer answers one of ours, by which we began a session anew, and is no
    /// restart. Taken for one it would be answered, and so on for ever.
    pub(super) renewed_until: Duration,
    /// It ended our connection while it was well, as the end of a process does: the next HELLO is that of
    /// another life.
    pub(super) ended: bool,
    /// It has sent what only zyre 2.0.1 and later sends.
    pub(super) drafts: bool,
    pub(super) evasive: bool,
    pub(super) silent: bool,
    /// When to ask it again; `None`: it was not asked since its last sign of life.
    pub(super) next_ping: Option<Duration>,
    /// When it is next looked at; also in the table of deadlines.
    pub(super) due: Option<Duration>,
}

/// The session from a peer to us.
#[derive(Debug)]
pub(super) struct PeerSession {
    pub(super) generation: Generation,
    pub(super) form: IdentityForm,
    pub(super) name: Text,
    /// As the HELLO has it.
    pub(super) address: Text,
    pub(super) headers: Vec<(Text, Text)>,
    pub(super) groups: BTreeSet<Text>,
    pub(super) status: u8,
    /// The number of its next message.
    pub(super) expected: u16,
    pub(super) collector: Option<Bytes>,
}

impl Peer {
    pub(super) const fn new(now: Duration, endpoint: Bytes, public_key: Option<[u8; 32]>) -> Self {
        Self {
            endpoint,
            public_key,
            dealer: None,
            detect_at: None,
            retry_at: None,
            waiting: Vec::new(),
            since: now,
            beaconed: None,
            heard: now,
            session: None,
            renewed_until: Duration::ZERO,
            ended: false,
            drafts: false,
            evasive: false,
            silent: false,
            next_ping: None,
            due: None,
        }
    }

    /// Whether the way to it is just being found.
    pub(super) const fn may_wait(&self) -> bool {
        self.session.is_some()
            && self.dealer.is_none()
            && self.detect_at.is_some()
            && self.waiting.len() < limits::MAX_WAITING
    }

    /// Keeps a message until the way to it is found.
    pub(super) fn wait(&mut self, body: Body) -> Result<(), EncodeError> {
        if let Some(session) = &self.session {
            Message { sequence: 1, body: body.clone() }.encode(session.generation)?;
        }
        self.waiting.push(body);
        Ok(())
    }

    pub(super) fn sign_of_life(&mut self, now: Duration) {
        self.heard = now;
        self.evasive = false;
        self.silent = false;
        self.next_ping = None;
    }

    /// Whether a second HELLO, or anything out of order, may abort it. Who has said nothing has not
    /// heard ours, or its answer is on the way.
    pub(super) fn is_legacy(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.generation.is_legacy())
    }

    /// What to call it.
    pub(super) fn name(&self, uuid: &Uuid) -> Text {
        match &self.session {
            Some(session) => session.name.clone(),
            None => short_name(uuid),
        }
    }

    /// Where it is, as far as we know.
    pub(super) fn address(&self) -> Text {
        match &self.session {
            Some(session) => session.address.clone(),
            None => lossy(&self.endpoint),
        }
    }
}

/// The name of a node that has told none.
pub(super) fn short_name(uuid: &Uuid) -> Text {
    Text::from(&uuid.to_string()[..6])
}

/// Octets of a peer as text. pyre cuts names in the middle of a character.
pub(super) fn lossy(octets: &Bytes) -> Text {
    Text::from_utf8(octets.clone())
        .unwrap_or_else(|octets| Text::from(String::from_utf8_lossy(&octets).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands in the tables of a node for a peer, besides its name, groups and headers. With
    /// those and their allocations it is 1,800 bytes.
    #[test]
    fn a_peer_is_small() {
        let tables = size_of::<(Uuid, Peer)>() + size_of::<(Bytes, Uuid)>() + size_of::<(Duration, Uuid)>();
        assert!(tables <= 512, "{tables}");
    }
}
