//! [`Contacts`]: one session with each node, however many connections are tried at once.

use crate::zenoh::ZenohId;
use std::collections::BTreeMap;

/// The right to a session with a node. Who holds it gives it back with [`Contacts::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(u64);

/// With whom this node has a session, or is about to.
///
/// Two nodes that find each other may connect to each other at the same time. Each learns from INIT ACK,
/// or from OPEN SYN, whom it talks to, and asks here before it goes on:
///
/// ```text
///   our connection                          theirs
///   INIT ACK came   open()                  OPEN SYN came   admit()
///   OPEN ACK came   confirm()
/// ```
///
/// When both sides have sent OPEN SYN, the connection of the node with the greater id stays: that node
/// refuses the other connection with `MAX_LINKS`, the other node admits it and gives up its own. Before
/// that point whoever comes first is first. Either way one session remains, and no session that was
/// already used is lost.
#[derive(Debug)]
pub struct Contacts {
    own: ZenohId,
    next: u64,
    all: BTreeMap<ZenohId, Contact>,
}

#[derive(Debug)]
struct Contact {
    claim: Claim,
    /// Our OPEN SYN is on its way; nothing is agreed yet.
    opening: bool,
}

impl Contacts {
    /// Nobody yet.
    #[must_use]
    pub const fn new(own: ZenohId) -> Self {
        Self { own, next: 0, all: BTreeMap::new() }
    }

    /// INIT ACK of a connection of ours came from `zid`. `None`: there is a session, or another connection
    /// that is about to become one; this one is closed with `MAX_LINKS`.
    pub fn open(&mut self, zid: ZenohId) -> Option<Claim> {
        if self.all.contains_key(&zid) {
            return None;
        }
        Some(self.enter(zid, true))
    }

    /// OPEN ACK came on the connection with that claim. False: the other node's connection was admitted
    /// in the meantime, and this one is closed with `MAX_LINKS`.
    pub fn confirm(&mut self, zid: ZenohId, claim: Claim) -> bool {
        match self.all.get_mut(&zid) {
            Some(contact) if contact.claim == claim => {
                contact.opening = false;
                true
            }
            _ => false,
        }
    }

    /// OPEN SYN came from `zid`. `None`: it is refused with `MAX_LINKS`.
    pub fn admit(&mut self, zid: ZenohId) -> Option<Claim> {
        match self.all.get(&zid) {
            Some(contact) if !contact.opening || self.own > zid => None,
            _ => Some(self.enter(zid, false)),
        }
    }

    /// The connection with that claim is over, or never became a session.
    pub fn release(&mut self, zid: ZenohId, claim: Claim) {
        if self.all.get(&zid).is_some_and(|contact| contact.claim == claim) {
            self.all.remove(&zid);
        }
    }

    /// Whether there is a session with `zid`, or one is being opened.
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
