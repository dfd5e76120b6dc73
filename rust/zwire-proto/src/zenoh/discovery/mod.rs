//! How nodes find each other and who connects to whom (`zenoh-behaviour` 1.6 to 1.8, 2.3).
//!
//! | File | What |
//! | --- | --- |
//! | `contacts` | one session per node: what to do when two nodes connect to each other at once |

mod contacts;
#[cfg(test)]
mod tests;

pub use contacts::{Claim, Contacts};
