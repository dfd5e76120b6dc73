//! ZRE/LOG: events sent to the collectors that peers announce (`zre` 13.1).

use super::{
    super::{
        Uuid, limits,
        wire::{Log, LogEvent, MessageId, log_hash_of},
    },
    Action, ZreNode,
};
use crate::Now;

impl ZreNode {
    /// Nodes and peers are both named by the hash of `ip:port`, so that a collector can match them.
    /// zyre hashes peers with their scheme.
    pub(super) fn log(&mut self, now: Now, event: LogEvent, peer: u16, data: &str) {
        if self.collectors.is_empty() {
            return;
        }
        let node = log_hash_of(&self.own_endpoint(None));
        // A group or an endpoint with a zero octet cannot be sent; the event is skipped.
        if let Ok(frame) = Log::info(event, node, peer, now.wall, data).encode() {
            self.actions.push_back(Action::Log { frame });
        }
    }

    pub(super) fn log_peer(&mut self, now: Now, uuid: &Uuid, entered: bool) {
        let Some(address) = self.peer_address(uuid).cloned() else { return };
        let event = if entered { LogEvent::ENTER } else { LogEvent::EXIT };
        self.log(now, event, log_hash_of(address.as_bytes()), &address);
    }

    /// Logs a message, SEND or RECV, if the configuration asks for it.
    pub(super) fn log_message(
        &mut self,
        now: Now,
        event: LogEvent,
        uuid: &Uuid,
        id: MessageId,
        sequence: u16,
    ) {
        if self.config.log_traffic {
            let hash = self.peer_address(uuid).map_or(0, |address| log_hash_of(address.as_bytes()));
            self.log(now, event, hash, &format!("seq={sequence} command={}", command(id)));
        }
    }

    pub(super) fn connect_log(&mut self, uuid: &Uuid) {
        let session = self.peers.get(uuid).and_then(|peer| peer.session.as_ref());
        let Some(endpoint) = session.and_then(|session| session.collector.clone()) else { return };
        let known = self.collectors.contains_key(&endpoint);
        if !known && self.collectors.len() >= limits::MAX_COLLECTORS {
            return;
        }
        self.collectors.entry(endpoint.clone()).or_default().insert(*uuid);
        if !known {
            self.actions.push_back(Action::ConnectLog { endpoint });
        }
    }

    pub(super) fn disconnect_log(&mut self, uuid: &Uuid) {
        let session = self.peers.get(uuid).and_then(|peer| peer.session.as_ref());
        let Some(endpoint) = session.and_then(|session| session.collector.clone()) else { return };
        let Some(announcers) = self.collectors.get_mut(&endpoint) else { return };
        announcers.remove(uuid);
        if announcers.is_empty() {
            self.collectors.remove(&endpoint);
            self.actions.push_back(Action::DisconnectLog { endpoint });
        }
    }
}

/// The name of a message, as zyre writes it.
fn command(MessageId(id): MessageId) -> &'static str {
    let names =
        ["?", "HELLO", "WHISPER", "SHOUT", "JOIN", "LEAVE", "PING", "PING_OK", "ELECT", "LEADER", "GOODBYE"];
    names.get(usize::from(id)).unwrap_or(&"?")
}
