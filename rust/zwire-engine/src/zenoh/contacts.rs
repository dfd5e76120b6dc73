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
    discovery::{Admission, Candidates, Claim, Contacts as Machine},
    link::HandshakeError,
    wire::CloseReason,
};

/// Nodes that are neighbours of this one, or are about to become neighbours.
pub(crate) struct Contacts {
    own: ZenohId,
    machine: Mutex<Machine>,
    /// A claim was confirmed or released.
    changed: Notify,
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
        Arc::new(Self { own, machine: Mutex::new(Machine::new(own)), changed: Notify::new() })
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

    /// Registers that `remote` asks to be accepted. `None`: ask again after [`Self::answered`].
    ///
    /// # Errors
    /// There is a session with it already, or it is this node itself.
    pub(crate) fn admit(self: &Arc<Self>, remote: Remote) -> Result<Option<Contact>, CloseReason> {
        let zid = remote.zid;
        if zid == self.own {
            return Err(CloseReason::CONNECTION_TO_SELF);
        }
        match self.machine.lock().admit(zid) {
            Admission::Admitted(claim) => Ok(Some(Contact { contacts: self.clone(), zid, claim })),
            Admission::Wait => Ok(None),
            Admission::Refused => Err(CloseReason::MAX_LINKS),
        }
    }

    /// Whether there is a session with `zid`, or one is being opened.
    pub(crate) fn contains(&self, zid: ZenohId) -> bool {
        self.machine.lock().contains(zid)
    }

    /// Returns once there is no session with `zid`.
    pub(crate) async fn gone(&self, zid: ZenohId) {
        self.when(|machine| !machine.contains(zid)).await;
    }

    /// Returns once `zid` has answered the own connection to it, if its connection has to wait for that.
    pub(crate) async fn answered(&self, zid: ZenohId) {
        self.when(|machine| !machine.waits(zid)).await;
    }

    async fn when(&self, condition: impl Fn(&Machine) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if condition(&self.machine.lock()) {
                return;
            }
            changed.await;
        }
    }
}

impl Contact {
    /// Confirms the claim after the other node has agreed to the connection.
    pub(crate) fn confirm(&self) {
        self.contacts.machine.lock().confirm(self.zid, self.claim);
        self.contacts.changed.notify_waiters();
    }
}

impl Drop for Contact {
    fn drop(&mut self) {
        self.contacts.machine.lock().release(self.zid, self.claim);
        self.contacts.changed.notify_waiters();
    }
}
