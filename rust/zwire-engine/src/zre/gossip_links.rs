//! Connections of gossip: joining hubs, becoming one, and the owners of both.

use super::{
    core::NodeCore,
    gossip::{GossipState, HubWay},
    options::NodeOptions,
    shared::NodeShared,
};
use crate::{
    error::Error,
    rt::clock,
    zmtp::{CloseReason, Connection, ConnectionConfig, Listener, Outbound, Owner, Pause, Reconnect},
};
use bytes::Bytes;
use std::sync::{Arc, Weak};
use zwire_proto::{
    Now,
    zmtp::{
        link::{Inbound, ZmtpHandshakeConfig},
        wire::SocketType,
    },
    zre::{
        gossip::{Client, Hub, HubConfig},
        wire::{Gossip as Frame, Tuple},
    },
};

/// Largest gossip message: a tuple of a key, an endpoint and a CURVE key.
const MAX_MESSAGE_SIZE: usize = 64 << 10;

/// Gossip tuple of this node.
fn own_tuple(core: &NodeCore, options: &NodeOptions) -> (Bytes, Bytes) {
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
    let mut config = ConnectionConfig::new(ZmtpHandshakeConfig::new(socket_type));
    config.rx.max_message_size = MAX_MESSAGE_SIZE;
    config.max_connections = options.machine.max_peers;
    config
}

impl NodeShared {
    /// Starts a hub; returns the endpoint that it listens on.
    pub(crate) fn gossip_bind(
        self: &Arc<Self>,
        core: &mut NodeCore,
        endpoint: &str,
    ) -> Result<String, Error> {
        let owner = Arc::new(HubOwner(Arc::downgrade(self)));
        let listener =
            Listener::bind(&self.runtime, endpoint, config(SocketType::Router, &self.options), owner)?;
        let bound = format!("tcp://{}", listener.local_addr());
        core.gossip.listeners.push(listener);
        if core.gossip.hub.is_none() {
            let mut hub = Box::new(Hub::new(HubConfig::default()));
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
    pub(crate) fn gossip_connect(self: &Arc<Self>, core: &mut NodeCore, endpoint: &str) -> Result<(), Error> {
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
        core.gossip.ways.push(HubWay { outbound, client });
        Ok(())
    }

    /// Changes the gossip state of a running node, and handles the tuples received.
    fn with_gossip(self: &Arc<Self>, f: impl FnOnce(&mut GossipState, Now)) {
        self.with_core(|core, now| f(&mut core.gossip, now));
    }

    pub(crate) fn settle_gossip(self: &Arc<Self>, core: &mut NodeCore, now: Now) {
        let NodeCore { gossip, effects, .. } = core;
        for heard in gossip.drain(|connection| effects.flush.push(connection)) {
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
struct HubOwner(Weak<NodeShared>);

impl Owner for HubOwner {
    fn opened(&self, connection: &Arc<Connection>) {
        let Some(shared) = self.0.upgrade() else { return connection.close() };
        shared.with_gossip(|gossip, now| {
            gossip.connections.insert(connection.id, connection.clone());
            if connection.socket_type == SocketType::Dealer
                && let Some(hub) = &mut gossip.hub
            {
                hub.handle_connected(now, connection.id);
            }
        });
    }

    fn received(&self, connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        self.0.upgrade()?.with_gossip(|gossip, now| {
            let Some(hub) = &mut gossip.hub else { return };
            frames(inbound).for_each(|frame| hub.handle_message(now, connection.id, &frame));
        });
        None
    }

    fn closed(&self, connection: Option<&Arc<Connection>>, _reason: &CloseReason) {
        let (Some(shared), Some(connection)) = (self.0.upgrade(), connection) else { return };
        shared.with_gossip(|gossip, _| {
            gossip.connections.remove(&connection.id);
            if let Some(hub) = &mut gossip.hub {
                hub.handle_closed(connection.id);
            }
        });
    }
}

/// Owner of the connection to a hub that this node is a client of.
struct ClientOwner {
    shared: Weak<NodeShared>,
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
