//! [`NodeEffects`]: writes that a node owes once its lock is released.

use super::beacon::BeaconSender;
use crate::{
    rt::watch::Watch,
    zmtp::{Connection, Writing},
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Writes to sockets and wake-ups that the machine has asked for.
#[derive(Default)]
pub(crate) struct NodeEffects {
    flush: Vec<Arc<Connection>>,
    beacons: Vec<(Arc<Mutex<BeaconSender>>, Bytes)>,
    presence: bool,
    /// How soon the messages are written.
    pub(super) writing: Writing,
}

impl NodeEffects {
    /// Writes the messages that were queued on a connection.
    pub(super) fn flush(&mut self, connection: Option<Arc<Connection>>) {
        self.flush.extend(connection);
    }

    pub(super) fn send_beacon(&mut self, sender: Arc<Mutex<BeaconSender>>, datagram: Bytes) {
        self.beacons.push((sender, datagram));
    }

    /// Wakes the callers that wait for peers.
    pub(super) fn tell_presence(&mut self) {
        self.presence = true;
    }

    pub(super) fn perform(self, presence: &Watch) {
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
