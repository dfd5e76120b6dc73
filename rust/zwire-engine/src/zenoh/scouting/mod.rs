//! Nodes find each other: by datagrams to a group, and by what neighbours tell (`zenoh-behaviour` 1.6 to 1.8).
//!
//! | File | What |
//! | --- | --- |
//! | `sockets` | sockets on every interface that suits, as interfaces come and go |
//! | `station` | the machine of scouting on those sockets |
//! | `node` | a node that scouts, answers, and connects to whom it finds |
//! | `client` | a client without endpoints looks for a node |
//! | `listing` | who is there, for people and programs |

mod client;
mod listing;
mod node;
mod sockets;
mod station;

pub(crate) use client::find;
pub use listing::{Listing, scout};
pub(crate) use node::{Dials, Via, discovered, run, scouting_config, update_locators};
pub use sockets::INTERFACE_ENV;
pub(crate) use station::Station;
pub use zwire_proto::zenoh::discovery::Found;
