//! Sockets, tasks and timers for the machines of `zwire-proto`.
//!
//! [`Session`] is the public surface: it owns the machines of one node behind one lock, the links, and
//! the tasks that drive them. Every decision that a protocol document prescribes is made in
//! `zwire-proto`.
//!
//! Locks are taken in one order: core, link, queue; locks that belong to a connection come last. User
//! code runs under none of them.

mod admin;
mod advanced;
mod at_once;
mod burst;
pub mod clock;
pub mod config;
pub mod connectivity;
mod connector;
mod contacts;
mod core;
pub mod deferred;
mod driver;
pub mod error;
mod establish;
mod gate;
mod gather;
mod intercept;
pub mod interfaces;
mod io;
pub mod link;
pub mod log;
mod multicast;
mod origins;
mod pace;
mod query;
pub mod queue;
mod race;
mod reassembly;
pub mod runtime;
pub mod scouting;
mod session;
mod shared;
pub mod stats;
mod tap;
mod tcp;
mod tls;
mod waits;
mod watch;
pub mod zmtp;
pub mod zre;

pub use crate::core::Replies;
pub use advanced::{AdvancedPublisherOptions, AdvancedSubscriberOptions, Known};
pub use at_once::{AtOnce, Begun, Content};
pub use config::Config;
pub use error::{ConnectReason, Error};
pub use origins::Origins;
pub use query::{InboundQuery, Query};
pub use queue::{Queue, RecvError};
pub use session::{Full, Handler, LINGER, Session};
pub use tls::{TlsFailure, TlsSettingsError};
pub use waits::{BarrierWait, MatchingWait};
