//! ZRE: sockets, timers and interfaces for the node of `zwire_proto::zre`.
//!
//! | File | Content |
//! | --- | --- |
//! | `options` | options of a node |
//! | `batch` | batches of messages |
//! | `beacon` | discovery datagrams |
//! | `core` | the machine, its sockets and its connections, behind one lock; writes that are due after it |
//! | `node` | the handle that applications hold |
//! | `shared` | the node behind its lock, and the owners of its connections |
//! | `tasks` | the tasks of a node: receiving beacons, following the interfaces |
//! | `gossip` | clients and hub of zgossip |
//! | `log` | ZRE/LOG: collector and sender |
//!
//! One node is one ROUTER and, for each peer, one DEALER. It has tasks but no threads of its own.

mod batch;
mod beacon;
mod core;
mod gossip;
mod gossip_links;
mod log;
mod node;
pub mod options;
mod shared;
mod tasks;
#[cfg(test)]
mod tests;

pub use self::core::NodeEvent;
pub use crate::net::interfaces;
pub use batch::{BatchTarget, Sent};
pub use beacon::SenderReport;
pub use log::{LogCollector, LogRecord, LogSender, RECORDS};
pub use node::{Doctor, Node, Stats};
pub use options::{Keys, NodeOptions};
