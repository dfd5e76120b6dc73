//! Discovery of nodes, and choice of connections (`zenoh-behaviour` 1.6 to 1.8, 2.3).
//!
//! | File | Content |
//! | --- | --- |
//! | `scouting` | SCOUT and HELLO: asking and answering, both rate-limited |
//! | `candidates` | nodes found by scouting or gossip: connection attempts and retries |
//! | `contacts` | one session per node: simultaneous connections of two nodes |
//! | `bindings` | ids and roles that need a proof |
//! | `locators` | selection of the locators sent to a node |

mod bindings;
pub(crate) mod bucket;
mod candidates;
mod contacts;
mod locators;
mod scouting;
#[cfg(test)]
mod tests;

pub use bindings::{Binding, ClaimVerdict, Proof};
pub use candidates::{Candidates, DialOutcome, DueDial, MAX_DIALS};
pub use contacts::{Admission, Claim, Contacts};
pub use locators::{GossipReach, address, fitted};
pub use scouting::{Found, Scouting, ScoutingConfig, ScoutingStats, Transmit};

/// Most locators of one node that are stored and tried. A host with more addresses is reached at its
/// first ones.
pub const MAX_TRIED_LOCATORS: usize = 16;
