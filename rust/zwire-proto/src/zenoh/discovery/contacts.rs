//! [`Contacts`]: one session with each node, however many connections are tried at once.

use crate::zenoh::ZenohId;
use std::collections::BTreeMap;

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
/// When both sides have sent OPEN SYN, the connection of the node with the greater id stays: that node
/// refuses the other connection with `MAX_LINKS`, the other node admits it and gives up its own. Before
/// that point the first connection wins. Either way one session remains, and no session already in use
/// is lost.
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

    /// Handles OPEN ACK on the connection with that claim. `false`: the other node's connection was
    /// admitted in the meantime, and this one must be closed with `MAX_LINKS`.
    pub fn confirm(&mut self, zid: ZenohId, claim: Claim) -> bool {
        match self.all.get_mut(&zid) {
            Some(contact) if contact.claim == claim => {
                contact.opening = false;
                true
            }
            _ => false,
        }
    }

    /// Handles OPEN SYN from `zid`. `None`: it must be refused with `MAX_LINKS`.
    pub fn admit(&mut self, zid: ZenohId) -> Option<Claim> {
        match self.all.get(&zid) {
            Some(contact) if !contact.opening || self.own > zid => None,
            _ => Some(self.enter(zid, false)),
        }
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
