//! ZRE, the ZeroMQ Realtime Exchange protocol, in all its generations.
//!
//! | Module | Content |
//! | --- | --- |
//! | [`wire`] | beacons, messages, ZRE/LOG and gossip: the wire format alone |
//! | [`node`] | the machine: discovery, peers, groups, liveness, elections, log |
//! | [`gossip`] | the machines of zgossip, client and hub: discovery where beacons do not reach |
//! | [`generation`] | the published and unpublished forms of the protocol |
//! | [`uuid`] | ids of nodes |
//! | [`z85`] | keys as text |
//! | [`limits`] | every bound, with its reason |
//!
//! A message is a list of frames. The transport adds the ZMTP framing around them and the identity in
//! front.

pub mod generation;
pub mod gossip;
pub mod limits;
pub mod node;
pub mod uuid;
pub mod wire;
pub mod z85;

pub use generation::{Generation, Generations};
pub use node::{ZreNode, ZreNodeConfig};
pub use uuid::Uuid;

/// The UDP port of discovery, ZRE-DISC of the IANA.
pub const DISCOVERY_PORT: u16 = 5670;

/// IPv6 multicast group of discovery. RFC 43 names none; this is the one of czmq (`zre` 17.9).
pub const DISCOVERY_GROUP: core::net::Ipv6Addr = core::net::Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
