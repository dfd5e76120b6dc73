//! Gossip: discovery of nodes where broadcasts do not reach (`zre` 6).
//!
//! Without a hub of its own a node is a client of each hub that it connects to. With one, those hubs are
//! remotes of its hub, which forwards what it receives. As in zyre, gossip is not encrypted; public keys
//! are part of it.

use crate::zmtp::{Connection, Listener, Outbound, Writing};
use bytes::Bytes;
use core::time::Duration;
use std::{collections::HashMap, sync::Arc};
use zwire_proto::{
    Now,
    zmtp::link::Message,
    zre::{
        Uuid,
        gossip::{Client, Heard, Hub},
    },
};

/// A hub that this node connects to.
pub(super) struct HubWay {
    pub(super) outbound: Arc<Outbound>,
    /// `None` if the hub of this node speaks to it.
    pub(super) client: Option<Client>,
}

/// Gossip state of a node.
#[derive(Default)]
pub(crate) struct GossipState {
    /// Boxed: few nodes are a hub, and thousands of nodes run in a process.
    pub(super) hub: Option<Box<Hub>>,
    pub(super) listeners: Vec<Listener>,
    pub(super) ways: Vec<HubWay>,
    /// Connections of the hub to its clients and remotes.
    pub(super) connections: HashMap<u64, Arc<Connection>>,
}

impl GossipState {
    /// The next deadline.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let clients = self.ways.iter().filter_map(|way| way.client.as_ref()?.poll_timeout());
        clients.chain(self.hub.as_ref().and_then(|hub| hub.poll_timeout())).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Now) {
        if let Some(hub) = &mut self.hub {
            hub.handle_timeout(now);
        }
        self.ways.iter_mut().filter_map(|way| way.client.as_mut()).for_each(|c| c.handle_timeout(now));
    }

    /// Forgets a peer that is gone, so that new clients do not get its endpoint.
    pub(crate) fn forget(&mut self, peer: &Uuid) {
        if let Some(hub) = &mut self.hub {
            hub.remove(&Bytes::copy_from_slice(&peer.to_hex()));
        }
    }

    /// Queues the frames of hub and clients, which `flush` writes once the lock is released. Returns the tuples
    /// that were heard.
    pub(super) fn drain(&mut self, mut flush: impl FnMut(Arc<Connection>)) -> Vec<Heard> {
        let mut heard = Vec::new();
        let mut send = |connection: &Arc<Connection>, frame| {
            // A peer that does not read loses the frame: the hub forgets it, and it asks for everything later.
            if let Ok(true) = connection.try_defer(Message::single(frame), Writing::Alone) {
                flush(connection.clone());
            }
        };
        if let Some(hub) = &mut self.hub {
            while let Some((to, frame)) = hub.poll_transmit() {
                if let Some(connection) = self.connections.get(&to) {
                    send(connection, frame);
                }
            }
            heard.extend(core::iter::from_fn(|| hub.poll_event()));
        }
        for way in &mut self.ways {
            let Some(client) = &mut way.client else { continue };
            while let Some(frame) = client.poll_transmit() {
                // Frames without an open connection are dropped; the client starts anew with the next
                // connection.
                if let Some(connection) = way.outbound.connection() {
                    send(&connection, frame);
                }
            }
            heard.extend(core::iter::from_fn(|| client.poll_event()));
        }
        heard
    }

    pub(crate) fn close(&mut self) {
        self.listeners.drain(..).for_each(|listener| listener.close());
        self.ways.drain(..).for_each(|way| way.outbound.close());
        self.connections.drain().for_each(|(_, connection)| connection.close());
    }
}
