//! Parameters of links that follow from the configuration of a session.

use crate::{
    config::{NodeConfig, PROTOCOLS, Target},
    error::ConnectReason,
    net::{io::Io, tap::TappedConnection},
    zenoh::{link::LinkPolicy, shared::SessionShared},
};
use core::time::Duration;
use zwire_proto::zenoh::{
    WhatAmI,
    link::{Credentials, HandshakeConfig},
    wire::Resolution,
};

/// Share of `wait_before_close` that a destination of forwarded messages gets. While this node waits for
/// it, it does not read from the source, and a source that blocks gives this link up after its own
/// `wait_before_close`, which is the same 5 s by default: this wait has to be shorter, or the innocent
/// link is the one that dies.
const FORWARDING_PATIENCE: f64 = 0.6;

pub(crate) fn handshake_config(shared: &SessionShared, io: &Io) -> HandshakeConfig {
    let config = &shared.config;
    HandshakeConfig {
        zid: shared.zid,
        whatami: config.mode,
        resolution: Resolution::new(config.link.sn_resolution as u8, Resolution::DEFAULT.request_id()),
        batch_size: config.link.batch_size.min(io.mtu()),
        streamed: io.is_streamed(),
        lease: config.link.lease,
        qos: config.unicast.qos,
        compression: config.unicast.compression,
        low_latency: config.unicast.lowlatency,
        credentials: config.usrpwd.own.as_ref().map(|(user, password)| Credentials {
            user: user.as_str().into(),
            password: password.reveal().into(),
        }),
        ..HandshakeConfig::new(shared.zid, config.mode)
    }
}

pub(crate) fn link_policy(config: &NodeConfig) -> LinkPolicy {
    LinkPolicy {
        lane_bytes: config.link.queue_size.map(|batches| lane_bytes(config, batches)),
        batching: config.link.batching,
        time_limit: config.link.batching_time_limit,
        keep_alive: config.link.keep_alive,
    }
}

/// Longest wait of a forwarded message for its destination.
pub(crate) fn patience(config: &NodeConfig) -> Duration {
    config.link.wait_before_close.mul_f64(FORWARDING_PATIENCE)
}

/// Bytes of incomplete messages that peers not chosen by this node may occupy per link or group, 256 MiB
/// at most.
pub(crate) fn stranger_bytes(config: &NodeConfig) -> usize {
    const STRANGER: usize = 256 << 20;
    config.link.max_message_size.min(STRANGER)
}

/// Bytes of incomplete messages that one link may occupy. A client or peer chooses its neighbours; a
/// router accepts any node, and fragments of strangers must not exhaust its memory.
pub(super) fn reassembly_bytes(config: &NodeConfig) -> usize {
    match config.mode {
        WhatAmI::Router => stranger_bytes(config),
        WhatAmI::Peer | WhatAmI::Client => config.link.max_message_size,
    }
}

/// Byte bound of a lane. Scaled by its size in batches: 2 is the default of `queue/size/*`.
const fn lane_bytes(config: &NodeConfig, batches: usize) -> usize {
    const DEFAULT_BATCHES: usize = 2;
    (config.zwire.queue_bytes_per_priority / DEFAULT_BATCHES).saturating_mul(batches)
}

pub(super) fn tapped(
    shared: &SessionShared,
    io: &Io,
    accepted: bool,
) -> Result<Option<TappedConnection>, ConnectReason> {
    let Some(tap) = &shared.tap else { return Ok(None) };
    let ends = io.ends().map_err(ConnectReason::io)?;
    Ok(Some(TappedConnection::open(tap, &ends, accepted)))
}

/// Whether this build speaks the protocol of an endpoint and the configuration allows it.
pub(crate) fn is_supported(config: &NodeConfig, target: &Target) -> bool {
    let protocol = target.endpoint.protocol();
    PROTOCOLS.contains(&protocol)
        && config.link.protocols.as_ref().is_none_or(|all| all.iter().any(|p| p == protocol))
}
