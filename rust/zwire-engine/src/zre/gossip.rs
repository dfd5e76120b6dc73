//! Gossip: discovery of nodes where broadcasts do not reach (`zre` 6).
//!
//! Without a hub of its own a node is a client of each hub that it connects to. With one, those hubs are
//! remotes of its hub, which forwards what it receives. As in zyre, gossip is not encrypted; public keys
//! are part of it.

use super::{core::Core, node::Shared, options::NodeOptions};
use crate::{
    error::Error,
    rt::clock,
    zmtp::{CloseReason, Connection, ConnectionConfig, Listener, Outbound, Owner, Pause, Reconnect},
};
use bytes::Bytes;
use core::time::Duration;
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};
use zwire_proto::{
    Now,
    zmtp::{
        link::{HandshakeConfig, Inbound, Message},
        wire::SocketType,
    },
    zre::{
        Uuid,
        gossip::{Client, Heard, Hub, HubConfig},
        wire::{Gossip as Frame, Tuple},
    },
};

/// Largest gossip message: a tuple of a key, an endpoint and a CURVE key.
const MAX_MESSAGE_SIZE: usize = 64 << 10;

/// A hub that this node connects to.
struct Way {
    outbound: Arc<Outbound>,
    /// `None` if the hub of this node speaks to it.
    client: Option<Client>,
}

/// Gossip state of a node.
#[derive(Default)]
pub(crate) struct Gossip {
    hub: Option<Hub>,
    listeners: Vec<Listener>,
    ways: Vec<Way>,
    /// Connections of the hub to its clients and remotes.
    connections: HashMap<u64, Arc<Connection>>,
}

impl Gossip {
    /// The next deadline.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        let clients = self.ways.iter().filter_map(|way| way.client.as_ref()?.poll_timeout());
        clients.chain(self.hub.as_ref().and_then(Hub::poll_timeout)).min()
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
    fn drain(&mut self, mut flush: impl FnMut(Arc<Connection>)) -> Vec<Heard> {
        let mut heard = Vec::new();
        let mut send = |connection: &Arc<Connection>, frame| {
            // A peer that does not read loses the frame: the hub forgets it, and it asks for everything later.
            if let Ok(true) = connection.try_defer(Message::single(frame)) {
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

/// Gossip tuple of this node.
fn own_tuple(core: &Core, options: &NodeOptions) -> (Bytes, Bytes) {
    let tuple = Tuple {
        uuid: options.machine.uuid,
        endpoint: core.machine.endpoint(),
        public_key: options.keys.as_ref().map(|keys| keys.public),
    };
    match tuple.publish() {
        Frame::Publish { key, value, .. } => (key, value),
        _ => unreachable!("a tuple is published"),
    }
}

fn config(socket_type: SocketType, options: &NodeOptions) -> ConnectionConfig {
    let mut config = ConnectionConfig::new(HandshakeConfig::new(socket_type));
    config.rx.max_message_size = MAX_MESSAGE_SIZE;
    config.max_connections = options.machine.max_peers;
    config
}

impl Shared {
    /// Starts a hub; returns the endpoint that it listens on.
    pub(crate) fn gossip_bind(self: &Arc<Self>, core: &mut Core, endpoint: &str) -> Result<String, Error> {
        let owner = Arc::new(HubOwner(Arc::downgrade(self)));
        let listener =
            Listener::bind(&self.runtime, endpoint, config(SocketType::Router, &self.options), owner)?;
        let bound = format!("tcp://{}", listener.local_addr());
        core.gossip.listeners.push(listener);
        if core.gossip.hub.is_none() {
            let mut hub = Hub::new(HubConfig::default());
            let (key, value) = own_tuple(core, &self.options);
            hub.publish(clock::now(), &key, &value).map_err(zwire_proto::zre::node::NodeError::from)?;
            core.gossip.hub = Some(hub);
            // The hub takes over the connections to other hubs.
            for way in core::mem::take(&mut core.gossip.ways) {
                way.outbound.close();
                self.gossip_connect(core, way.outbound.endpoint())?;
            }
        }
        Ok(bound)
    }

    /// Connects to a hub to find peers.
    pub(crate) fn gossip_connect(self: &Arc<Self>, core: &mut Core, endpoint: &str) -> Result<(), Error> {
        let config = config(SocketType::Dealer, &self.options);
        let way = core.gossip.ways.len();
        let (owner, client): (Arc<dyn Owner>, _) = if core.gossip.hub.is_some() {
            (Arc::new(HubOwner(Arc::downgrade(self))), None)
        } else {
            let mut client = Client::new();
            let (key, value) = own_tuple(core, &self.options);
            client.publish(clock::now(), &key, &value).map_err(zwire_proto::zre::node::NodeError::from)?;
            (Arc::new(ClientOwner { shared: Arc::downgrade(self), way }), Some(client))
        };
        let outbound = Outbound::connect(&self.runtime, endpoint, config, Reconnect::default(), owner)?;
        core.gossip.ways.push(Way { outbound, client });
        Ok(())
    }

    /// Changes the gossip state of a running node, and handles the tuples received.
    fn with_gossip(self: &Arc<Self>, f: impl FnOnce(&mut Gossip, Now)) {
        let now = clock::now();
        let mut state = self.lock();
        let Some(core) = state.running() else { return };
        f(&mut core.gossip, now);
        self.settle_gossip(core, now);
    }

    pub(crate) fn settle_gossip(self: &Arc<Self>, core: &mut Core, now: Now) {
        let Core { gossip, effects, .. } = core;
        for heard in gossip.drain(|connection| effects.flush(Some(connection))) {
            if let Some(Tuple { uuid, endpoint, public_key }) = heard.node() {
                core.machine.handle_found(now, uuid, endpoint, public_key);
            }
        }
        self.settle(core, now);
    }
}

fn frames(inbound: &mut Vec<Inbound>) -> impl Iterator<Item = Bytes> {
    inbound.drain(..).filter_map(|item| match item {
        Inbound::Message(message) => message.frames().first().cloned(),
        _ => None,
    })
}

/// Owner of the hub's connections: from clients, and to other hubs.
struct HubOwner(Weak<Shared>);

impl Owner for HubOwner {
    fn opened(&self, connection: &Arc<Connection>) {
        let Some(shared) = self.0.upgrade() else { return connection.close() };
        shared.with_gossip(|gossip, now| {
            gossip.connections.insert(connection.id(), connection.clone());
            if connection.socket_type() == SocketType::Dealer
                && let Some(hub) = &mut gossip.hub
            {
                hub.handle_connected(now, connection.id());
            }
        });
    }

    fn received(&self, connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        self.0.upgrade()?.with_gossip(|gossip, now| {
            let Some(hub) = &mut gossip.hub else { return };
            frames(inbound).for_each(|frame| hub.handle_message(now, connection.id(), &frame));
        });
        None
    }

    fn closed(&self, connection: Option<&Arc<Connection>>, _reason: &CloseReason) {
        let (Some(shared), Some(connection)) = (self.0.upgrade(), connection) else { return };
        shared.with_gossip(|gossip, _| {
            gossip.connections.remove(&connection.id());
            if let Some(hub) = &mut gossip.hub {
                hub.handle_closed(connection.id());
            }
        });
    }
}

/// Owner of the connection to a hub that this node is a client of.
struct ClientOwner {
    shared: Weak<Shared>,
    way: usize,
}

impl ClientOwner {
    fn with_client(&self, f: impl FnOnce(&mut Client, Now)) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.with_gossip(|gossip, now| {
            if let Some(client) = gossip.ways.get_mut(self.way).and_then(|way| way.client.as_mut()) {
                f(client, now);
            }
        });
    }
}

impl Owner for ClientOwner {
    fn opened(&self, _connection: &Arc<Connection>) {
        self.with_client(|client, now| client.handle_opened(now));
    }

    fn received(&self, _connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        self.with_client(|client, now| {
            frames(inbound).for_each(|frame| client.handle_message(now, &frame));
        });
        None
    }

    fn closed(&self, connection: Option<&Arc<Connection>>, _reason: &CloseReason) {
        if connection.is_some() {
            self.with_client(|client, _| client.handle_closed());
        }
    }
}
