//! The machines of zgossip: how nodes find each other through hubs instead of beacons (`zre` 6).
//!
//! | Machine | Connections | What it does |
//! | --- | --- | --- |
//! | [`Client`] | one DEALER to one hub | publishes tuples of its own and hears those of others |
//! | [`Hub`] | a ROUTER, and DEALERs to other hubs | keeps all tuples and passes them on |
//!
//! ```text
//! client                    hub
//!    |------- HELLO -------->|
//!    |------ PUBLISH ------->|  stored, and passed on to all, also to whom it came from
//!    |<----- PUBLISH --------|  each tuple there is, and from now on each new one
//!    |-------- PING -------->|  at least once a second, or the hub forgets the client
//!    |<------- PONG ---------|
//!    |<----- INVALID --------|  it has forgotten: HELLO again
//! ```
//!
//! The family of methods is that of every machine: `handle_*` for what came, `poll_transmit` and
//! `poll_event` to be drained after it, `poll_timeout` for when `handle_timeout` is due. A message is
//! one frame; the identity that a ROUTER puts in front is the affair of the driver, which numbers the
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

/// The hubs of czmq forget a client after this long without a word.
pub const CLIENT_EXPIRY: Duration = Duration::from_secs(1);

/// How often a client says that it is there: twice within [`CLIENT_EXPIRY`].
pub const PING_INTERVAL: Duration = Duration::from_millis(500);

/// A tuple of somebody else. It may be one that was heard before: whoever it names may have been
/// forgotten meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What it is about.
    pub key: Bytes,
    /// What it says.
    pub value: Bytes,
}

impl Heard {
    /// The node of ZRE that it names. `None`: others use the same hub.
    #[must_use]
    pub fn node(&self) -> Option<Tuple> {
        Tuple::of(&self.key, &self.value)
    }
}

/// A tuple as the frame that publishes it; key and value are parts of it.
#[derive(Clone, Debug)]
struct Stored {
    key: Bytes,
    value: Bytes,
    frame: Bytes,
    /// When it got this value.
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
