//! [`Ways`]: independent ways by which the batches of a link leave. Only QUIC has several.

use crate::config::Target;
use zwire_proto::zenoh::{Priority, Reliability};

/// Index of the way for datagrams of a connection that has streams, too; priorities come before it.
pub(crate) const DATAGRAMS: usize = Priority::COUNT;

/// Independent ways by which batches leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    /// Whether there is one way for each priority; else one for all.
    pub(crate) by_priority: bool,
    /// Batch size of the way for best-effort messages, if there is one.
    pub(crate) best_effort: Option<u16>,
}

/// Whether a link is QUIC although its protocol is `udp`.
pub(super) fn is_quic(target: &Target) -> bool {
    target.endpoint.protocol() == "udp" && target.options.reliability == Some(Reliability::Reliable)
}
