//! ZRE, the ZeroMQ Realtime Exchange protocol, in all its generations.
//!
//! | Module | What |
//! | --- | --- |
//! | [`wire`] | beacons, messages, ZRE/LOG and gossip: bytes and nothing else |
//! | [`node`] | the machine: discovery, peers, groups, liveness, elections, log |
//! | [`gossip`] | the machines of zgossip, client and hub: discovery where beacons do not reach |
//! | [`generation`] | which of the published and unpublished forms a peer speaks |
//! | [`uuid`] | who a node is |
//! | [`z85`] | keys as text |
//! | [`limits`] | every bound, with its reason |
//!
//! A message is a list of frames. The frames of ZMTP around it, and the identity in front of it, are
//! the affair of the transport.

pub mod generation;
pub mod gossip;
pub mod limits;
pub mod node;
pub mod uuid;
pub mod wire;
pub mod z85;

pub use generation::{Generation, Generations};
pub use node::{Node, NodeConfig};
pub use uuid::Uuid;

/// The UDP port of discovery, ZRE-DISC of the IANA.
pub const DISCOVERY_PORT: u16 = 5670;

/// The IPv6 group of discovery. RFC 43 names none; this is the one of czmq (`zre` 17.9).
pub const DISCOVERY_GROUP: core::net::Ipv6Addr = core::net::Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
