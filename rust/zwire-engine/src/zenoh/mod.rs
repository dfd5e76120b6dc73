//! Zenoh: sessions of clients, peers and routers on the machines of `zwire_proto::zenoh`.

pub(crate) mod admin;
pub(crate) mod advanced;
pub(crate) mod advanced_entities;
pub(crate) mod caller;
pub(crate) mod connect;
pub mod connectivity;
pub(crate) mod contacts;
pub(crate) mod core;
pub(crate) mod effects;
pub(crate) mod establish;
pub(crate) mod gate;
pub(crate) mod intercept;
pub mod link;
pub(crate) mod link_settings;
pub(crate) mod link_task;
pub(crate) mod listen;
pub(crate) mod multicast;
pub(crate) mod origins;
pub(crate) mod query;
pub(crate) mod reassembly;
pub mod scouting;
pub(crate) mod session;
pub(crate) mod shared;
pub mod stats;
pub(crate) mod totals;
pub(crate) mod waits;
