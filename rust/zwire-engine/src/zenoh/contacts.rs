//! [`Contacts`]: nodes with which there is a session, for the tasks that open and accept them. [`Dials`]: nodes to
//! connect to.

use crate::error::ConnectReason;
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::Notify;
use zwire_proto::zenoh::{
    Remote, ZenohId,
    discovery::{Candidates, Claim, Contacts as Machine},
    link::HandshakeError,
    wire::CloseReason,
};

/// Nodes that are neighbours of this one, or are about to become neighbours.
pub(crate) struct Contacts {
    own: ZenohId,
    machine: Mutex<Machine>,
    released: Notify,
}

/// Claim on the only session with a node, from before it is agreed until its link is gone; released on
/// drop.
pub(crate) struct Contact {
    contacts: Arc<Contacts>,
    zid: ZenohId,
    claim: Claim,
}

/// Nodes that were found, and the attempts to connect to them.
#[derive(Default)]
pub(crate) struct Dials {
    pub(super) candidates: Mutex<Candidates>,
    /// Locators that gossip has named and that it may not lead to.
    pub(super) refused: AtomicU64,
    pub(super) changed: Notify,
}

impl Dials {
    /// Locators and nodes of gossip to which this node does not connect, because of their network or their number.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed) + self.candidates.lock().refused()
    }
}

impl Contacts {
    pub(crate) fn new(own: ZenohId) -> Arc<Self> {
        Arc::new(Self { own, machine: Mutex::new(Machine::new(own)), released: Notify::new() })
    }

    /// Registers that `remote` answered a connection opened by this node.
    ///
    /// # Errors
    /// There is a session with it already, or the node has connected to itself.
    pub(crate) fn open(self: &Arc<Self>, remote: Remote) -> Result<Contact, ConnectReason> {
        let zid = remote.zid;
        if zid == self.own {
            return Err(HandshakeError::ToSelf.into());
        }
        let claim = self.machine.lock().open(zid).ok_or(ConnectReason::Connected(zid))?;
        Ok(Contact { contacts: self.clone(), zid, claim })
    }

    /// Registers that `remote` asks to be accepted.
    ///
    /// # Errors
    /// There is a session with it already, or it is this node itself.
    pub(crate) fn admit(self: &Arc<Self>, remote: Remote) -> Result<Contact, CloseReason> {
        let zid = remote.zid;
        if zid == self.own {
            return Err(CloseReason::CONNECTION_TO_SELF);
        }
        let claim = self.machine.lock().admit(zid).ok_or(CloseReason::MAX_LINKS)?;
        Ok(Contact { contacts: self.clone(), zid, claim })
    }

    /// Whether there is a session with `zid`, or one is being opened.
    pub(crate) fn contains(&self, zid: ZenohId) -> bool {
        self.machine.lock().contains(zid)
    }

    /// Returns once there is no session with `zid`.
    pub(crate) async fn gone(&self, zid: ZenohId) {
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if !self.contains(zid) {
                return;
            }
            released.await;
        }
    }
}

impl Contact {
    /// Confirms the claim after the other node has agreed to the connection.
    ///
    /// # Errors
    /// A connection of the other node was admitted in the meantime.
    pub(crate) fn confirm(&self) -> Result<(), ConnectReason> {
        let confirmed = self.contacts.machine.lock().confirm(self.zid, self.claim);
        confirmed.then_some(()).ok_or(ConnectReason::Connected(self.zid))
    }
}

impl Drop for Contact {
    fn drop(&mut self) {
        self.contacts.machine.lock().release(self.zid, self.claim);
        self.contacts.released.notify_waiters();
    }
}
