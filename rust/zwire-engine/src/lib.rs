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
mod lending;
pub mod log;
mod net;
mod rt;
mod zenoh;
pub mod zmtp;
pub mod zre;

pub use config::{Config, SharedMessage};
pub use error::{ConnectReason, Error};
pub use lending::{PayloadBuffer, SharedPool, is_shared};
#[cfg(feature = "tls")]
pub use net::tls::keygen::{CertificatePair, KeygenError, make_authority, make_certificate};
#[cfg(feature = "tls")]
pub use net::tls::{
    client_config as tls_client_config, common_name as tls_common_name, server_config as tls_server_config,
};
pub use net::{
    interfaces,
    tls_error::{TlsFailure, TlsSettingsError},
};
pub use rt::{
    bell::Bell,
    callbacks, clock, pool, queue,
    queue::{Queue, RecvError},
    runtime,
    watch::{Missed, Waker, Watch},
};
pub use zenoh::{
    admin::{PLUGIN_PATH, plugin_report},
    advanced::{AdvancedPublisherOptions, AdvancedSubscriberOptions, Known},
    authority::{AccessRequest, AccessSubject, Authorise, AuthorityOptions, Verdict},
    caller::{Caller, Deferred, Patience},
    connectivity,
    effects::Replies,
    link,
    live::PluginSection,
    origins::Origins,
    query::Query,
    scouting,
    session::{Full, Handler, LINGER, Session},
    shared::{StatusEntry, StatusSource},
    stats,
    waits::StateWait,
};
