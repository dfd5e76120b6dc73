//! Bridge between a Zenoh session and a broker of MQTT 3.1.1 or 5.
//!
//! | Module | Role |
//! |---|---|
//! | [`topic`] | topics as keys, filters as key expressions |
//! | [`attachment`] | user properties as attachments |
//! | [`packet`] | packets of both versions |
//! | [`echo`] | messages that come back from a broker of MQTT 3.1.1 |
//! | `convert` | messages as publications, samples as messages, marks that end loops |
//! | [`ledger`] | what is known of a session after a kill |
//! | [`options`] | options |
//! | `connection` | task of the connection with the broker |
//! | `inbound`, `outbound` | threads that put into Zenoh, and read the spool |
//! | [`bridge`] | public handle |
//!
//! The first five modules have no input and output.

pub mod attachment;
pub mod bridge;
mod connection;
mod convert;
mod counters;
pub mod echo;
mod error;
mod inbound;
pub mod ledger;
pub mod options;
mod outbound;
pub mod packet;
pub mod topic;

pub use bridge::Bridge;
pub use counters::Stats;
pub use error::{Error, Result};
pub use options::Options;
