//! Sockets, tasks and timers for the machines of `zwire-proto`.
//!
//! [`Session`] is the public surface: it owns the machines of one node behind one lock, the links, and
//! the tasks that drive them. Every decision that a protocol document prescribes is made in
//! `zwire-proto`.
//!
//! Locks are taken in one order: core, link, queue; locks that belong to a connection come last. User
//! code runs under none of them.

pub mod config;
pub mod error;
pub mod log;
mod net;
mod rt;
mod zenoh;
pub mod zmtp;
pub mod zre;

pub use config::{Config, SharedMessage};
pub use error::{ConnectReason, Error};
pub use net::{
    interfaces,
    tls_error::{TlsFailure, TlsSettingsError},
};
pub use rt::{
    callbacks, clock, pool, queue,
    queue::{Queue, RecvError},
    runtime,
    watch::{Missed, Waker, Watch},
};
pub use zenoh::{
    advanced::{AdvancedPublisherOptions, AdvancedSubscriberOptions, Known},
    caller::{Caller, Deferred, Patience},
    connectivity,
    effects::Replies,
    lending::{PayloadBuffer, SharedPool, is_shared},
    link,
    origins::Origins,
    query::Query,
    scouting,
    session::{Full, Handler, LINGER, Session},
    stats,
    waits::StateWait,
};
