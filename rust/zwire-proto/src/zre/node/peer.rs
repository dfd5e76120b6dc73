//! State of one peer.

use super::super::{
    Generation, Uuid, limits,
    wire::{Body, EncodeError, Hello, IdentityForm, ZreMessage},
};
use super::types::{Action, DealerId};
use crate::Text;
use bytes::Bytes;
use core::time::Duration;
use std::collections::BTreeSet;

/// A connection to a peer, with the state of the session on it.
#[derive(Debug)]
pub(super) struct PeerDealer {
    pub(super) id: DealerId,
    pub(super) generation: Generation,
    /// The number of the next message.
    pub(super) sequence: u16,
    pub(super) sent: u32,
    /// Which of this node's endpoints the HELLO on this connection announced; `None`: one that is gone.
    pub(super) announced: Option<u16>,
    /// Whether the driver reported the connection as up.
    pub(super) connected: bool,
}

impl PeerDealer {
    pub(super) const fn new(id: DealerId, generation: Generation) -> Self {
        Self { id, generation, sequence: 1, sent: 0, announced: None, connected: false }
    }

    /// The next message of the session; its number is consumed only if it can be encoded.
    pub(super) fn message(&mut self, peer: Option<Uuid>, body: Body) -> Result<Action, EncodeError> {
        let frames = ZreMessage { sequence: self.sequence, body }.encode(self.generation)?;
        self.count();
        Ok(Action::Send { dealer: self.id, peer, frames })
    }

    /// Consumes and returns the number of the next message.
    pub(super) fn count(&mut self) -> u16 {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.sent += 1;
        sequence
    }
}

#[derive(Debug, Default)]
pub(super) struct KnownPeer {
    /// Endpoint of the DEALER.
    pub(super) endpoint: Bytes,
    pub(super) public_key: Option<[u8; 32]>,
    pub(super) dealer: Option<PeerDealer>,
    /// Time of the first HELLO if the peer's generation is still unknown.
    pub(super) detect_at: Option<Duration>,
    /// Time to open a DEALER again after it failed.
    pub(super) retry_at: Option<Duration>,
    /// Messages that wait until the connection is chosen.
    pub(super) waiting: Vec<Body>,
    /// Time at which this entry was made, or the last session to the peer begun.
    pub(super) since: Duration,
    /// The last beacon from `endpoint`.
    pub(super) beaconed: Option<Duration>,
    /// The last sign of life.
    pub(super) heard: Duration,
    /// The connection to the peer has broken since its last sign of life: another node may have its endpoint.
    pub(super) broken: bool,
    /// Contents of its HELLO; `None` before.
    pub(super) session: Option<PeerSession>,
    /// Time until which a HELLO of the peer counts as the answer to a renewed session, not as a
    /// restart. Otherwise each side would answer the other's HELLO endlessly.
    pub(super) renewed_until: Duration,
    /// The peer closed the connection while it was alive, as a process does at its end: the next HELLO
    /// is that of a new process.
    pub(super) ended: bool,
    /// The peer has sent a message that only zyre 2.0.1 and later has.
    pub(super) drafts: bool,
    pub(super) evasive: bool,
    pub(super) silent: bool,
    /// Time of the next PING; `None`: no PING since its last sign of life.
    pub(super) next_ping: Option<Duration>,
    /// Next deadline, also in the table of deadlines.
    pub(super) due: Option<Duration>,
}

/// The session from a peer to this node.
#[derive(Debug)]
pub(super) struct PeerSession {
    pub(super) generation: Generation,
    pub(super) form: IdentityForm,
    pub(super) name: Text,
    /// Address in the HELLO.
    pub(super) address: Text,
    pub(super) headers: Vec<(Text, Text)>,
    pub(super) groups: BTreeSet<Text>,
    pub(super) status: u8,
    pub(super) expected: u16,
    pub(super) collector: Option<Bytes>,
}

impl PeerSession {
    pub(super) fn new(
        uuid: &Uuid,
        form: IdentityForm,
        generation: Generation,
        sequence: u16,
        hello: Hello,
    ) -> Self {
        let named = |group: &&Bytes| !group.is_empty();
        let groups = hello.groups.iter().filter(named).map(lossy);
        Self {
            generation,
            form,
            name: if hello.name.is_empty() { short_name(uuid) } else { lossy(&hello.name) },
            address: lossy(&hello.address.endpoint()),
            headers: hello.headers.iter().map(|(name, value)| (lossy(name), lossy(value))).collect(),
            groups: groups.filter(|group| group.len() <= limits::MAX_STRING).collect(),
            status: hello.status,
            expected: sequence.wrapping_add(1),
            collector: hello.header(Hello::LOG_COLLECTOR).cloned(),
        }
    }

    pub(super) fn has_header(&self, wanted: &Text) -> bool {
        self.headers.iter().any(|(name, _)| name == wanted)
    }
}

impl KnownPeer {
    pub(super) fn new(now: Duration, endpoint: Bytes, public_key: Option<[u8; 32]>) -> Self {
        Self { endpoint, public_key, since: now, heard: now, ..Self::default() }
    }

    /// Whether messages may wait because the connection is about to be chosen.
    pub(super) const fn may_wait(&self) -> bool {
        self.session.is_some()
            && self.dealer.is_none()
            && self.detect_at.is_some()
            && self.waiting.len() < limits::MAX_WAITING
    }

    pub(super) fn wait(&mut self, body: Body) -> Result<(), EncodeError> {
        if let Some(session) = &self.session {
            ZreMessage { sequence: 1, body: body.clone() }.encode(session.generation)?;
        }
        self.waiting.push(body);
        Ok(())
    }

    pub(super) fn sign_of_life(&mut self, now: Duration) {
        self.heard = now;
        self.broken = false;
        self.evasive = false;
        self.silent = false;
        self.next_ping = None;
    }

    /// Whether a second HELLO, or anything out of order, may make the peer abort. A silent peer has not
    /// received this node's HELLO, or its answer is on the way.
    pub(super) fn is_legacy(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.generation.is_legacy())
    }

    /// Whether nothing but beacons tells of the peer.
    pub(super) const fn is_beacon_only(&self) -> bool {
        self.session.is_none() && self.beaconed.is_some()
    }

    pub(super) fn address(&self) -> Text {
        match &self.session {
            Some(session) => session.address.clone(),
            None => lossy(&self.endpoint),
        }
    }
}

/// The name shown for a node that sent none.
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

    /// Size of a peer's entry, without its name, groups and headers. With those and their allocations
    /// it is 1,800 bytes.
    #[test]
    fn a_peer_is_small() {
        let tables =
            size_of::<(Uuid, KnownPeer)>() + size_of::<(Bytes, Uuid)>() + size_of::<(Duration, Uuid)>();
        assert!(tables <= 512, "{tables}");
    }
}
