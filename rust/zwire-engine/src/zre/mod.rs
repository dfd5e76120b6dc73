//! ZRE: sockets, timers and interfaces for the node of `zwire_proto::zre`.
//!
//! | File | What |
//! | --- | --- |
//! | `options` | what a node is told before it starts |
//! | `batch` | many messages at once |
//! | `beacon` | datagrams of discovery |
//! | `core` | the machine and all that it has opened, behind one lock |
//! | `effects` | writes that are due once the lock of a node is released |
//! | `node` | the handle of the application |
//! | `tasks` | the tasks of a node: receiving beacons, following the interfaces |
//! | `gossip` | clients and hub of zgossip |
//! | `log` | ZRE/LOG: collector and sender |
//!
//! One node is one ROUTER and, for each peer, one DEALER. It has tasks but no threads of its own.

mod batch;
mod beacon;
mod core;
mod effects;
mod gossip;
mod log;
mod node;
pub mod options;
mod tasks;

pub use self::core::NodeEvent;
pub use crate::net::interfaces;
pub use batch::{Sent, Target};
pub use log::{LogCollector, LogRecord, LogSender, RECORDS};
pub use node::{Doctor, Node, SenderReport, Stats};
pub use options::{Keys, NodeOptions};
