//! How nodes find each other and who connects to whom (`zenoh-behaviour` 1.6 to 1.8, 2.3).
//!
//! | File | What |
//! | --- | --- |
//! | `scouting` | SCOUT and HELLO: asking, answering, both bounded |
//! | `candidates` | nodes that scouting or gossip found: whom to connect to, and when again |
//! | `contacts` | one session per node: what to do when two nodes connect to each other at once |
//! | `locators` | which of its locators a node tells to whom |

mod bucket;
mod candidates;
mod contacts;
mod locators;
mod scouting;
#[cfg(test)]
mod tests;

pub use candidates::{Candidates, MAX_DIALS, Outcome};
pub use contacts::{Claim, Contacts};
pub use locators::{address, fitted};
pub use scouting::{Found, Scouting, ScoutingConfig, ScoutingStats, Transmit};

/// Most locators of one node that are kept and tried. A host with more addresses than that is found at
/// its first ones.
pub const MAX_TRIED_LOCATORS: usize = 16;
