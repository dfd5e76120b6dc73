//! Scouting: discovery of nodes by multicast datagrams and by gossip of neighbours (`zenoh-behaviour` 1.6
//! to 1.8).
//!
//! | File | Content |
//! | --- | --- |
//! | `sockets` | sockets on every suitable interface, updated as interfaces change |
//! | `station` | the scouting machine, driven over those sockets |
//! | `node` | a node that scouts, answers, and connects to the nodes found |
//! | `client` | scouting of a client without endpoints |
//! | `listing` | listing of nodes, for people and programs |

mod client;
mod listing;
mod node;
mod sockets;
mod station;

pub(crate) use client::find;
pub use listing::{Listing, scout};
pub(crate) use node::{gossiped, run, scouting_config, update_locators};
pub use sockets::INTERFACE_ENV;
pub(crate) use station::Station;
pub use zwire_proto::zenoh::discovery::Found;
