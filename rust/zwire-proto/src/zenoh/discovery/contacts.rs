//! [`Contacts`]: one session with each node, however many connections are tried at once.

use crate::zenoh::ZenohId;
use std::collections::BTreeMap;

/// Answer to OPEN SYN of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The connection becomes the session.
    Admitted(Claim),
    /// The other node has yet to answer OPEN SYN of the own connection: ask again after [`Contacts::confirm`] or
    /// [`Contacts::release`].
    Wait,
    /// The connection must be closed with `MAX_LINKS`.
    Refused,
}

/// The right to a session with a node. The holder returns it with [`Contacts::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(u64);

/// Nodes with a session, or with one being opened.
///
/// Two nodes that find each other may connect to each other at the same time. Each learns the id of the
/// other from INIT ACK, or from OPEN SYN, and asks here before it continues:
///
/// ```text
///   outgoing connection                     incoming connection
///   INIT ACK came   open()                  OPEN SYN came   admit()
///   OPEN ACK came   confirm()
/// ```
///
/// When both sides have sent OPEN SYN, the node with the greater id refuses the connection of the other one with
/// `MAX_LINKS`. The node with the lesser id waits until its own connection is answered: zwire refuses it, then that of
/// the other node is admitted; eclipse-zenoh, which does not compare ids, accepts it, then that of the other node is
/// refused. Admitting both would end both: eclipse-zenoh refuses OPEN ACK of a node that it has a session with
/// (`zenoh-behaviour` 1.8). Before that point the first connection wins. Either way one session remains, and no session
/// already in use is lost.
#[derive(Debug)]
pub struct Contacts {
    own: ZenohId,
    next: u64,
    all: BTreeMap<ZenohId, Contact>,
}

#[derive(Debug)]
struct Contact {
    claim: Claim,
    /// OPEN SYN was sent on the outgoing connection; the session is not confirmed yet.
    opening: bool,
}

impl Contacts {
    /// No contacts.
    #[must_use]
    pub const fn new(own: ZenohId) -> Self {
        Self { own, next: 0, all: BTreeMap::new() }
    }

    /// Handles INIT ACK from `zid` on an outgoing connection. `None`: a session exists, or another
    /// connection is about to become one; this one must be closed with `MAX_LINKS`.
    pub fn open(&mut self, zid: ZenohId) -> Option<Claim> {
        if self.all.contains_key(&zid) {
            return None;
        }
        Some(self.enter(zid, true))
    }

    /// Handles OPEN ACK on the connection with that claim: it is a session now.
    pub fn confirm(&mut self, zid: ZenohId, claim: Claim) {
        if let Some(contact) = self.all.get_mut(&zid)
            && contact.claim == claim
        {
            contact.opening = false;
        }
    }

    /// Handles OPEN SYN from `zid`.
    pub fn admit(&mut self, zid: ZenohId) -> Admission {
        match self.all.get(&zid) {
            None => Admission::Admitted(self.enter(zid, false)),
            Some(_) if self.waits(zid) => Admission::Wait,
            Some(_) => Admission::Refused,
        }
    }

    /// Whether OPEN SYN from `zid` has to wait for the answer to the own one.
    #[must_use]
    pub fn waits(&self, zid: ZenohId) -> bool {
        self.own < zid && self.all.get(&zid).is_some_and(|contact| contact.opening)
    }

    /// Releases the claim of a connection that is closed, or never became a session.
    pub fn release(&mut self, zid: ZenohId, claim: Claim) {
        if self.all.get(&zid).is_some_and(|contact| contact.claim == claim) {
            self.all.remove(&zid);
        }
    }

    /// Whether a session with `zid` exists or is being opened.
    #[must_use]
    pub fn contains(&self, zid: ZenohId) -> bool {
        self.all.contains_key(&zid)
    }

    fn enter(&mut self, zid: ZenohId, opening: bool) -> Claim {
        let claim = Claim(self.next);
        self.next += 1;
        self.all.insert(zid, Contact { claim, opening });
        claim
    }
}
