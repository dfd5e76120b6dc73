//! [`Ear`]: receives the connection events of one endpoint for its socket.

use super::{
    super::{CloseReason, Connection, ConnectionStats, Owner, Pause, Verdict},
    EventKind, Machine, Received, SocketShared, SocketState,
};
use crate::rt::queue::Pushed;
use bytes::Bytes;
use core::sync::atomic::Ordering;
use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
};
use zwire_proto::zmtp::{
    link::{AuthRequest, Denial, Inbound},
    socket::{Admission, PeerKey},
    wire::SocketType,
};

/// Owner of the connections of one endpoint.
pub(super) struct Ear {
    shared: Weak<SocketShared>,
    endpoint: String,
    /// Key of an outgoing endpoint, which its connections share.
    key: Option<PeerKey>,
}

impl Ear {
    pub(super) fn new(shared: &Arc<SocketShared>, endpoint: &str, key: Option<PeerKey>) -> Self {
        Self { shared: Arc::downgrade(shared), endpoint: endpoint.to_owned(), key }
    }

    fn key(&self, connection: &Connection) -> PeerKey {
        self.key.unwrap_or(connection.id)
    }

    /// Identity under which a ROUTER knows the connection, or `None` if it has to be closed.
    fn admit(&self, shared: &SocketShared, connection: &Arc<Connection>) -> Option<Bytes> {
        let key = self.key(connection);
        let named = connection.peer.identity.clone();
        let mut guard = shared.state.lock();
        let SocketState { machine, pipes, .. } = &mut *guard;
        let mut lost = None;
        let identity = match machine {
            Machine::Router(router) => match router.open(key, &named) {
                Admission::Admitted(identity) => identity,
                Admission::HandedOver { identity, loser } => {
                    lost = pipes.get(&loser).and_then(|pipe| pipe.connection.clone());
                    identity
                }
                Admission::Taken => {
                    drop(guard);
                    shared.tell(EventKind::IdentityTaken, &self.endpoint, Some(connection.remote), named);
                    return None;
                }
            },
            Machine::Dealer(dealer) => {
                dealer.open(key);
                named
            }
            Machine::Pub(subscriptions) => {
                // After reconnecting, the peer sends its subscriptions anew.
                subscriptions.disconnect(key);
                named
            }
            Machine::Sub(subscriber) => {
                subscriber.prefixes().for_each(|prefix| connection.subscribe(prefix.clone()));
                named
            }
        };
        let pipe = pipes.entry(key).or_default();
        pipe.connection = Some(connection.clone());
        pipe.failure = None;
        drop(guard);
        if let Some(lost) = lost {
            shared.tell(EventKind::HandedOver, &self.endpoint, Some(lost.remote), identity.clone());
            lost.close();
        }
        Some(identity)
    }

    fn subscriptions(&self, shared: &SocketShared, connection: &Connection, inbound: &mut Vec<Inbound>) {
        let key = self.key(connection);
        let mut state = shared.state.lock();
        let Machine::Pub(subscriptions) = &mut state.machine else { return };
        for item in inbound.drain(..) {
            let result = match item {
                Inbound::Subscribe(prefix) => subscriptions.subscribe(key, &prefix),
                Inbound::Cancel(prefix) => Ok(subscriptions.cancel(key, &prefix)),
                Inbound::Message(_) | Inbound::Ping(_) => Ok(false),
            };
            if let Err(error) = result {
                tracing::warn!(remote = %connection.remote, %error, "closing a subscriber");
                connection.close();
                return;
            }
        }
    }
}

impl Owner for Ear {
    fn authenticate(&self, remote: SocketAddr, request: &AuthRequest) -> Verdict {
        let Some(shared) = self.shared.upgrade() else { return Verdict::Deny(Denial::Temporary) };
        match &shared.options.authenticator {
            Some(authenticator) => authenticator(remote, request),
            // A mechanism with authentication and no authenticator must refuse every peer.
            None => Verdict::Deny(Denial::Refused),
        }
    }

    fn opened(&self, connection: &Arc<Connection>) {
        let shared = self.shared.upgrade().filter(|shared| !shared.ended.load(Ordering::Acquire));
        let Some(shared) = shared else { return connection.close() };
        let Some(identity) = self.admit(&shared, connection) else { return connection.close() };
        shared.counters.connections.fetch_add(1, Ordering::Relaxed);
        shared.tell(EventKind::Connected, &self.endpoint, Some(connection.remote), identity);
        shared.room.notify();
    }

    fn received(&self, connection: &Arc<Connection>, inbound: &mut Vec<Inbound>) -> Option<Pause> {
        let shared = self.shared.upgrade()?;
        let key = self.key(connection);
        let ignored = |count: usize| shared.counters.ignored.fetch_add(count as u64, Ordering::Relaxed);
        let mut identity = Bytes::new();
        match shared.socket_type() {
            SocketType::Dealer => {}
            SocketType::Pub => {
                self.subscriptions(&shared, connection, inbound);
                return None;
            }
            _ => match &mut shared.state.lock().machine {
                Machine::Router(router) => match router.identity(key) {
                    Some(known) => identity = known.clone(),
                    // The identity was handed over to another connection.
                    None => {
                        ignored(inbound.len());
                        return None;
                    }
                },
                Machine::Sub(subscriber) => {
                    let before = inbound.len();
                    inbound.retain(|item| match item {
                        Inbound::Message(message) => {
                            message.frames().first().is_some_and(|topic| subscriber.wants(topic))
                        }
                        _ => false,
                    });
                    ignored(before - inbound.len());
                }
                Machine::Dealer(_) | Machine::Pub(_) => {}
            },
        }
        let received = inbound.drain(..).filter_map(|item| match item {
            Inbound::Message(message) => Some(Received { identity: identity.clone(), message }),
            Inbound::Subscribe(_) | Inbound::Cancel(_) | Inbound::Ping(_) => None,
        });
        let pushed = shared.inbox.push_all(received);
        shared.inbox.signal();
        let inbox = shared.inbox.clone();
        (pushed == Pushed::Over).then(|| -> Pause { Box::pin(async move { inbox.wait_space().await }) })
    }

    fn writable(&self, _: &Arc<Connection>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.room.notify();
        }
    }

    fn closed(&self, connection: Option<&Arc<Connection>>, reason: &CloseReason) {
        let Some(shared) = self.shared.upgrade() else { return };
        let Some(connection) = connection else {
            if let Some(key) = &self.key {
                let mut state = shared.state.lock();
                let over = state.pipes.get_mut(key).is_some_and(|pipe| {
                    pipe.failure = Some(reason.clone());
                    pipe.outbound.as_ref().is_some_and(|outbound| outbound.is_over())
                });
                if let (true, Machine::Dealer(dealer)) = (over, &mut state.machine) {
                    dealer.close(*key);
                }
            }
            shared.counters.failures.fetch_add(1, Ordering::Relaxed);
            shared.tell(EventKind::Failed(reason.clone()), &self.endpoint, None, Bytes::new());
            shared.room.notify();
            return;
        };
        add(&mut shared.counters.gone.lock(), &connection.stats());
        let key = self.key(connection);
        let (known, identity) = {
            let mut guard = shared.state.lock();
            let state = &mut *guard;
            let current = state.pipes.get(&key).and_then(|pipe| pipe.connection.as_ref());
            let known = current.is_some_and(|current| current.id == connection.id);
            let mut identity = connection.peer.identity.clone();
            if known {
                if let Machine::Router(router) = &mut state.machine {
                    identity = router.close(key).unwrap_or(identity);
                }
                let keeps = state.pipes.get_mut(&key).and_then(|pipe| {
                    pipe.connection = None;
                    pipe.failure = Some(reason.clone());
                    pipe.outbound.clone()
                });
                match keeps.filter(|outbound| !outbound.is_over()) {
                    None => state.forget(key),
                    Some(outbound) if shared.options.immediate => {
                        outbound.clear();
                        state.machine.close(key);
                    }
                    Some(_) => {}
                }
            }
            (known, identity)
        };
        // A connection that was never admitted was reported by another event.
        if known {
            let remote = Some(connection.remote);
            shared.tell(EventKind::Disconnected(reason.clone()), &self.endpoint, remote, identity);
        }
        shared.room.notify();
    }
}

/// Adds the counters of a connection to a sum.
pub(super) fn add(sum: &mut ConnectionStats, more: &ConnectionStats) {
    sum.tx_bytes += more.tx_bytes;
    sum.tx_messages += more.tx_messages;
    sum.tx_writes += more.tx_writes;
    sum.rx_bytes += more.rx_bytes;
    sum.rx_messages += more.rx_messages;
    sum.rx_reads += more.rx_reads;
}
