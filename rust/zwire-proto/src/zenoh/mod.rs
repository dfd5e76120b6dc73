//! Zenoh 1.x, protocol version 0x09.

pub mod advanced;
pub mod discovery;
pub mod encoding;
mod entity;
pub mod group;
pub mod hlc;
pub mod intercept;
pub mod key_table;
pub mod keyexpr;
pub mod link;
pub mod node;
pub mod payload;
pub mod qos;
pub mod remote_api;
pub mod rfc3339;
pub mod selector;
pub mod session;
pub mod timestamp;
pub mod wire;
pub mod zid;

pub use encoding::Encoding;
pub use hlc::Hlc;
pub use key_table::KeyTable;
pub use keyexpr::{KeyExpr, SetIntersectionLevel};
pub use payload::{Payload, PayloadParts, Revocable};
pub use qos::{CongestionControl, Priority, Qos, Reliability, WhatAmI};
pub use selector::{Parameters, Selector, TimeRange};
pub use timestamp::{Ntp64, Timestamp};
pub use zid::ZenohId;

/// A key without any declarations: an interest in it is answered with D_FINAL alone, behind all earlier
/// messages. No wild key matches a chunk that begins with `@`.
pub(crate) const BARRIER_KEY: &str = "@zwire/barrier";

/// The protocol version that INIT, SCOUT, HELLO and JOIN carry.
pub const VERSION: u8 = 0x09;

/// The node at the other end of a link, or behind a session of the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remote {
    /// Id of the node.
    pub zid: ZenohId,
    /// Role of the node.
    pub whatami: WhatAmI,
}
