//! Machines of zgossip: nodes find each other through hubs instead of beacons (`zre` 6).
//!
//! | Machine | Connections | Role |
//! | --- | --- | --- |
//! | [`Client`] | one DEALER to one hub | publishes tuples of its own and receives those of others |
//! | [`Hub`] | a ROUTER, and DEALERs to other hubs | keeps all tuples and forwards them |
//!
//! ```text
//! client                    hub
//!    |------- HELLO -------->|
//!    |------ PUBLISH ------->|  stored, and forwarded to all, also to the publisher
//!    |<----- PUBLISH --------|  each stored tuple, and from now on each new one
//!    |-------- PING -------->|  at least once a second, or the hub expires the client
//!    |<------- PONG ---------|
//!    |<----- INVALID --------|  the client has expired: HELLO again
//! ```
//!
//! The families of methods are those of every machine: `handle_*` for inputs, `poll_transmit` and
//! `poll_event` to be drained afterwards, `poll_timeout` for the deadline of `handle_timeout`. A
//! message is one frame; the driver removes the identity that a ROUTER puts in front, and numbers the
//! connections.

mod client;
mod hub;
mod session;
#[cfg(test)]
mod tests;

pub use super::wire::Tuple;
pub use client::{Client, ClientStats};
pub use hub::{Hub, HubConfig, HubStats};

use super::wire::{EncodeError, Gossip};
use bytes::Bytes;
use core::time::Duration;

/// Silence after which the hubs of czmq expire a client.
pub const CLIENT_EXPIRY: Duration = Duration::from_secs(1);

/// Interval of a client's PING: twice within [`CLIENT_EXPIRY`].
pub const PING_INTERVAL: Duration = Duration::from_millis(500);

/// A tuple of another node. It may repeat a known one, as the application may have removed the node
/// meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Key of the tuple.
    pub key: Bytes,
    /// Value of the tuple.
    pub value: Bytes,
}

impl Heard {
    /// The ZRE node described by the tuple. `None`: another application of the hub.
    #[must_use]
    pub fn node(&self) -> Option<Tuple> {
        Tuple::of(&self.key, &self.value)
    }
}

/// A tuple as the frame that publishes it; key and value are slices of it.
#[derive(Clone, Debug)]
struct Stored {
    key: Bytes,
    value: Bytes,
    frame: Bytes,
    /// Time of the last change of the value.
    since: Duration,
}

impl Stored {
    fn new(since: Duration, key: &Bytes, value: &Bytes) -> Result<Self, EncodeError> {
        let frame = Gossip::Publish { key: key.clone(), value: value.clone(), ttl: 0 }.encode()?;
        // Signature, id, version, length of the key; then its octets and the length of the value.
        let (key_at, value_at) = (5, 5 + key.len() + 4);
        Ok(Self {
            key: frame.slice(key_at..key_at + key.len()),
            value: frame.slice(value_at..value_at + value.len()),
            frame,
            since,
        })
    }

    fn len(&self) -> usize {
        self.key.len() + self.value.len()
    }
}
