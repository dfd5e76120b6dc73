//! [`Clients`]: clients of the remote API, and the keys of what they have declared.

use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};
use zwire_proto::zenoh::KeyExpr;

/// Keys of entities, by the numbers of the client.
#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<Mutex<BTreeMap<u32, KeyExpr>>>);

impl Keys {
    pub(crate) fn insert(&self, id: u32, key: KeyExpr) {
        self.0.lock().insert(id, key);
    }

    pub(crate) fn remove(&self, id: u32) {
        self.0.lock().remove(&id);
    }

    fn octets(&self) -> usize {
        self.0.lock().values().map(|key| key.as_str().len()).sum()
    }
}

impl Serialize for Keys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.lock().iter().map(|(id, key)| (id, key.as_str())))
    }
}

/// Client with what it has declared. The names and their order are those of the reference.
#[derive(Clone, Serialize)]
pub(crate) struct ClientListing {
    pub(crate) uuid: String,
    pub(crate) remote_address: SocketAddr,
    pub(crate) publishers: Keys,
    pub(crate) subscribers: Keys,
    pub(crate) queryables: Keys,
    pub(crate) queriers: Keys,
    pub(crate) liveliness_tokens: Keys,
}

impl ClientListing {
    /// Octets of all keys.
    pub(crate) fn octets(&self) -> usize {
        let Self { publishers, subscribers, queryables, queriers, liveliness_tokens, .. } = self;
        [publishers, subscribers, queryables, queriers, liveliness_tokens].map(Keys::octets).iter().sum()
    }
}

/// Connected clients of a server, by their UUIDs.
#[derive(Default)]
pub(crate) struct Clients(Mutex<BTreeMap<String, ClientListing>>);

impl Clients {
    /// Lists a client until the guard is dropped.
    pub(crate) fn add(self: &Arc<Self>, listing: ClientListing) -> Listed {
        let listed = Listed(self.clone(), listing.uuid.clone());
        self.0.lock().insert(listing.uuid.clone(), listing);
        listed
    }

    pub(crate) fn all(&self) -> Vec<ClientListing> {
        self.0.lock().values().cloned().collect()
    }
}

/// Guard of a client that is listed.
pub(crate) struct Listed(Arc<Clients>, String);

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}
