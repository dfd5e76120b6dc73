//! [`NodeEffects`]: writes that a node owes once its lock is released.

use super::{beacon::Sender, node::State};
use crate::{
    rt::watch::Watch,
    zmtp::{Connection, Writing},
};
use bytes::Bytes;
use core::ops::{Deref, DerefMut};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Writes to sockets and wake-ups that the machine has asked for.
#[derive(Default)]
pub(crate) struct NodeEffects {
    flush: Vec<Arc<Connection>>,
    beacons: Vec<(Arc<Mutex<Sender>>, Bytes)>,
    presence: bool,
    /// How soon the messages are written.
    pub(super) writing: Writing,
}

impl NodeEffects {
    /// Writes the messages that were queued on a connection.
    pub(super) fn flush(&mut self, connection: Option<Arc<Connection>>) {
        self.flush.extend(connection);
    }

    pub(super) fn send_beacon(&mut self, sender: Arc<Mutex<Sender>>, datagram: Bytes) {
        self.beacons.push((sender, datagram));
    }

    /// Wakes the callers that wait for peers.
    pub(super) fn tell_presence(&mut self) {
        self.presence = true;
    }

    fn perform(self, presence: &Watch) {
        for connection in &self.flush {
            connection.flush_deferred(self.writing);
        }
        for (sender, datagram) in &self.beacons {
            sender.lock().send(datagram);
        }
        if self.presence {
            presence.notify();
        }
    }
}

/// State of a node under its lock. The effects of its machine are performed when the lock is released.
pub(crate) struct NodeGuard<'a> {
    state: Option<MutexGuard<'a, State>>,
    presence: &'a Watch,
}

impl<'a> NodeGuard<'a> {
    pub(super) const fn new(state: MutexGuard<'a, State>, presence: &'a Watch) -> Self {
        Self { state: Some(state), presence }
    }
}

impl Deref for NodeGuard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect("the lock is held until the guard is dropped")
    }
}

impl DerefMut for NodeGuard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("the lock is held until the guard is dropped")
    }
}

impl Drop for NodeGuard<'_> {
    fn drop(&mut self) {
        let effects = self.running().map(|core| core::mem::take(&mut core.effects));
        drop(self.state.take());
        if let Some(effects) = effects {
            effects.perform(self.presence);
        }
    }
}
