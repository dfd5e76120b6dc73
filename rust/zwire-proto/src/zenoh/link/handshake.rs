//! Handshake of a link (`zenoh-wire` 3.3–3.6, `zenoh-behaviour` 2.1–2.3): parts shared by both roles.
//!
//! ```text
//!  Opener                                            Acceptor
//!    | INIT SYN  zid, role, sizes, extensions          |
//!    |------------------------------------------------>|
//!    |          INIT ACK  the same, each ≤; cookie     |
//!    |<------------------------------------------------|
//!    | OPEN SYN  lease, initial sn, cookie             |
//!    |------------------------------------------------>|  Step::Admit: the driver decides
//!    |          OPEN ACK  lease, initial sn            |
//!    |<------------------------------------------------|
//!  Step::Done                                        admit()
//! ```
//!
//! Each message is alone in its batch; bytes behind it are ignored. The driver limits the duration of a
//! handshake: on timeout it closes the connection without a CLOSE.

mod acceptor;
mod opener;

pub use acceptor::Acceptor;
pub use opener::Opener;

use super::{
    Credentials, LinkError, LinkParams, QosLink, Remote, compression,
    named::{NamedError, NamedOffer},
    sn,
};
use crate::{
    Text,
    buf::Reader,
    error::{DecodeError, DecodeErrorKind},
    lending::{LendingOffer, LendingTerms},
    limits::{MAX_BATCH_SIZE, MIN_BATCH_SIZE},
    zenoh::{
        VERSION, WhatAmI, ZenohId,
        wire::{CloseReason, Init, InitExt, Open, Resolution, TransportMessage},
    },
};
use bytes::Bytes;
use core::time::Duration;
use thiserror::Error;

/// Offered patch level: FRAGMENT has First and Drop marks.
const PATCH: u8 = 1;
/// Longest region name (`zenoh-wire` 3.6).
const MAX_REGION_NAME: usize = 32;

/// Configuration of one side of a handshake.
#[derive(Clone, Debug)]
pub struct HandshakeConfig {
    /// Local id.
    pub zid: ZenohId,
    /// Local role.
    pub whatami: WhatAmI,
    /// Largest widths.
    pub resolution: Resolution,
    /// Largest batch, bounded by what the link can carry.
    pub batch_size: u16,
    /// Announced lease: the longest silence of this side.
    pub lease: Duration,
    /// Whether each priority should have channels of its own.
    pub qos: bool,
    /// Priorities and reliability of the link; only with `qos`.
    pub qos_link: QosLink,
    /// Whether batches may be compressed. Without effect in a build without the feature `lz4`.
    pub compression: bool,
    /// Whether the link should carry bare messages; ignored with `qos`, which excludes it.
    pub low_latency: bool,
    /// The name of the local region, 1 to 32 bytes.
    pub region_name: Option<Text>,
    /// Whether batches travel behind a length prefix.
    pub streamed: bool,
    /// The node that an opener expects, from scouting or gossip.
    pub expected: Option<ZenohId>,
    /// Credentials of an opener.
    pub credentials: Option<Credentials>,
    /// Offer to lend memory, with a door on the side of an acceptor.
    pub lending: Option<LendingOffer>,
    /// Offer of shared memory with names, which counts if the peer does not lend.
    pub named: Option<NamedOffer>,
}

impl HandshakeConfig {
    /// The defaults of Eclipse Zenoh, over a stream.
    #[must_use]
    pub const fn new(zid: ZenohId, whatami: WhatAmI) -> Self {
        Self {
            zid,
            whatami,
            resolution: Resolution::DEFAULT,
            batch_size: MAX_BATCH_SIZE,
            lease: Duration::from_secs(10),
            qos: true,
            qos_link: QosLink { priorities: None, reliability: None },
            compression: false,
            low_latency: false,
            region_name: None,
            streamed: true,
            expected: None,
            credentials: None,
            lending: None,
            named: None,
        }
    }

    const fn low_latency(&self) -> bool {
        self.low_latency && !self.qos
    }

    const fn compression(&self) -> bool {
        self.compression && compression::AVAILABLE
    }

    /// S=0 when both values are the defaults.
    fn size(resolution: Resolution, batch_size: u16) -> Option<(Resolution, u16)> {
        let defaults = resolution == Resolution::DEFAULT && batch_size == MAX_BATCH_SIZE;
        (!defaults).then_some((resolution, batch_size))
    }

    fn init(&self, size: Option<(Resolution, u16)>, cookie: Option<Bytes>, ext: InitExt) -> Init {
        Init { version: VERSION, whatami: self.whatami, zid: self.zid, size, cookie, ext }
    }

    /// Parameters of the link after INIT; OPEN sets the rest.
    fn params(
        &self,
        init: &Init,
        resolution: Resolution,
        batch_size: u16,
        qos_link: Option<QosLink>,
        patch: u8,
    ) -> Result<LinkParams, HandshakeError> {
        let low_latency = self.low_latency() && init.ext.low_latency;
        let batch_size = batch_size.min(self.batch_size);
        if batch_size < MIN_BATCH_SIZE {
            return Err(HandshakeError::BatchSize(batch_size));
        }
        Ok(LinkParams {
            remote: Remote { zid: init.zid, whatami: init.whatami },
            batch_size,
            resolution,
            qos: qos_link.is_some(),
            qos_link: qos_link.unwrap_or_default(),
            compression: self.compression() && init.ext.compression && !low_latency,
            low_latency,
            patch,
            tx_initial_sn: sn::initial(self.zid, init.zid, resolution.sn_mask()),
            rx_initial_sn: 0,
            own_lease: self.lease,
            peer_lease: Duration::ZERO,
            streamed: self.streamed,
            user: None,
            region_name: init.ext.region_name.clone(),
            lending: LendingTerms::of(self.lending, init.ext.lending.as_ref()),
            named: None,
        })
    }

    /// Checks the other side's OPEN, and only now its role and id; the link is complete then. Two clients,
    /// and a node with itself, have no session.
    fn complete(
        &self,
        open: &Open,
        mut params: LinkParams,
        accepting: bool,
    ) -> Result<LinkParams, HandshakeError> {
        if params.remote.zid == self.zid {
            return Err(HandshakeError::ToSelf);
        }
        if params.remote.whatami == WhatAmI::Client && self.whatami == WhatAmI::Client {
            return Err(HandshakeError::Clients);
        }
        let (sn, mask) = (open.initial_sn, params.sn_mask());
        if sn & mask != sn {
            return Err(HandshakeError::InitialSn { sn, mask, accepting });
        }
        params.rx_initial_sn = sn;
        params.peer_lease = Duration::from_millis(open.lease_ms);
        Ok(params)
    }

    #[allow(clippy::cast_possible_truncation, reason = "a lease is not 600 million years long")]
    const fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
    }
}

/// Next action after a batch of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one exists at a time, and is taken apart where it is made")]
pub enum Step {
    /// Transmit pending output and wait for the next batch.
    Continue,
    /// Acceptor: all checks passed; call [`Acceptor::admit`] or [`Acceptor::refuse`].
    Admit(Remote),
    /// Opener: the session is up.
    Done(LinkParams),
}

/// Reason why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// A batch that does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A batch that the framer refuses.
    #[error(transparent)]
    Framing(#[from] LinkError),
    /// A message other than the next one of the handshake.
    #[error("{got} instead of {expected}")]
    Unexpected {
        /// Expected message.
        expected: &'static str,
        /// Received message.
        got: &'static str,
    },
    /// A protocol version other than 9 in INIT SYN.
    #[error("protocol version {0:#04x}, only 0x09 is supported")]
    Version(u8),
    /// An INIT ACK with widths above the proposed ones.
    #[error("the answered resolution {theirs:?} exceeds the proposed {ours:?}")]
    Resolution {
        /// Proposed resolution.
        ours: Resolution,
        /// Received resolution.
        theirs: Resolution,
    },
    /// A batch size below the smallest that works.
    #[error("batch size {0}, at least {MIN_BATCH_SIZE} is needed")]
    BatchSize(u16),
    /// An INIT ACK with a patch above the proposed one.
    #[error("patch {0} exceeds the proposed {PATCH}")]
    Patch(u64),
    /// Priorities or reliabilities of the link that are invalid or do not match the local ones.
    #[error("the QoS of the link does not match")]
    QosLink,
    /// A region name of a length that is not allowed.
    #[error("region name of {0} bytes, 1 to {MAX_REGION_NAME} are allowed")]
    RegionName(usize),
    /// A RemoteBound that is neither north nor south.
    #[error("remote bound {0}")]
    RemoteBound(u64),
    /// A cookie that this acceptor did not make.
    #[error("wrong cookie")]
    Cookie,
    /// An initial sequence number outside the negotiated width.
    #[error("initial sequence number {sn:#x} outside the mask {mask:#x}")]
    InitialSn {
        /// Number on the wire.
        sn: u32,
        /// Mask of the resolution.
        mask: u32,
        /// Whether this side is the acceptor, which sends no CLOSE for it.
        accepting: bool,
    },
    /// Another node than the expected one answered.
    #[error("node {got} answered, {expected} was expected")]
    WrongNode {
        /// Expected node.
        expected: ZenohId,
        /// Answering node.
        got: ZenohId,
    },
    /// The peer is this node itself.
    #[error("connection to self")]
    ToSelf,
    /// Both ends are clients.
    #[error("a client cannot have a session with a client")]
    Clients,
    /// User and password are missing, wrong, or not asked for.
    #[error("authentication failed: {0}")]
    Auth(AuthFailure),
    /// The peer counts on shared memory that this side cannot use.
    #[error(transparent)]
    Named(#[from] NamedError),
    /// The peer closed instead of continuing.
    #[error("the peer closed: {reason}")]
    Closed {
        /// Reason in its CLOSE.
        reason: CloseReason,
        /// Whether the same reason is sent back, as acceptors do.
        echo: bool,
    },
    /// The driver refused the peer.
    #[error("refused: {0}")]
    Refused(CloseReason),
    /// `admit` or `refuse` without a [`Step::Admit`] before it.
    #[error("no peer waits for admission")]
    NobodyWaits,
}

/// Reason why the authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AuthFailure {
    /// The acceptor requires credentials and the opener offers none.
    #[error("credentials are demanded and were not offered")]
    Missing,
    /// The opener has credentials and the acceptor does not ask for them.
    #[error("credentials were offered and not asked for")]
    NotAsked,
    /// Unknown user or wrong password.
    #[error("unknown user or wrong password")]
    Wrong,
    /// The acceptor closed after it got the credentials.
    #[error("the peer does not accept user or password")]
    Refused,
    /// The opener has no credentials and the acceptor closes without a reason, as one that requires
    /// them does.
    #[error("the peer closed without saying why; it may demand user and password")]
    MaybeDemanded,
}

impl HandshakeError {
    /// Short name of the failure, for programs.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Auth(AuthFailure::NotAsked) => "not-asked",
            Self::Auth(AuthFailure::Missing | AuthFailure::MaybeDemanded) => "demanded",
            Self::Auth(AuthFailure::Wrong | AuthFailure::Refused) => "denied",
            Self::Closed { .. } | Self::Refused(_) => "refused",
            Self::WrongNode { .. } => "wrong-node",
            Self::ToSelf => "self",
            Self::Decode(_)
            | Self::Framing(_)
            | Self::Unexpected { .. }
            | Self::Version(_)
            | Self::Resolution { .. }
            | Self::BatchSize(_)
            | Self::Patch(_)
            | Self::QosLink
            | Self::RegionName(_)
            | Self::RemoteBound(_)
            | Self::Cookie
            | Self::InitialSn { .. }
            | Self::Named(_)
            | Self::Clients
            | Self::NobodyWaits => "protocol",
        }
    }

    /// Reason to send in a CLOSE before the connection is closed; `None` sends none (`zenoh-wire` 9.1).
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self {
            // The only decoding error that Eclipse Zenoh treats like a refusing extension.
            Self::Decode(DecodeError { kind: DecodeErrorKind::ConflictingExtension { .. }, .. }) => {
                Some(CloseReason::GENERIC)
            }
            // The peer has closed already.
            Self::Auth(AuthFailure::Refused | AuthFailure::MaybeDemanded) => None,
            Self::Decode(_)
            | Self::Framing(_)
            | Self::Unexpected { .. }
            | Self::Version(_)
            | Self::Resolution { .. }
            | Self::BatchSize(_)
            | Self::Cookie
            | Self::WrongNode { .. }
            | Self::InitialSn { accepting: false, .. } => Some(CloseReason::INVALID),
            Self::Patch(_)
            | Self::QosLink
            | Self::RegionName(_)
            | Self::RemoteBound(_)
            | Self::Named(_)
            | Self::Clients
            | Self::Auth(_) => Some(CloseReason::GENERIC),
            Self::ToSelf => Some(CloseReason::CONNECTION_TO_SELF),
            Self::Closed { reason, echo: true } => Some(*reason),
            Self::Refused(reason) => Some(*reason),
            Self::InitialSn { accepting: true, .. }
            | Self::Closed { echo: false, .. }
            | Self::NobodyWaits => None,
        }
    }
}

fn encode(message: &TransportMessage) -> Bytes {
    let mut out = Vec::with_capacity(64);
    message.encode(&mut out);
    out.into()
}

fn decode(batch: &Bytes) -> Result<TransportMessage, DecodeError> {
    TransportMessage::decode(&mut Reader::new(batch))
}

const fn name(message: &TransportMessage) -> &'static str {
    match message {
        TransportMessage::Init(Init { cookie: None, .. }) => "INIT SYN",
        TransportMessage::Init(_) => "INIT ACK",
        TransportMessage::Open(Open { cookie: None, .. }) => "OPEN ACK",
        TransportMessage::Open(_) => "OPEN SYN",
        TransportMessage::Close(_) => "CLOSE",
        TransportMessage::KeepAlive => "KEEP_ALIVE",
        TransportMessage::Frame(_) => "FRAME",
        TransportMessage::Fragment(_) => "FRAGMENT",
        TransportMessage::Join(_) => "JOIN",
        TransportMessage::Oam(_) => "OAM",
    }
}

fn check_region_name(ext: &InitExt) -> Result<(), HandshakeError> {
    match &ext.region_name {
        Some(name) if name.is_empty() || name.len() > MAX_REGION_NAME => {
            Err(HandshakeError::RegionName(name.len()))
        }
        _ => Ok(()),
    }
}

const fn check_remote_bound(open: &Open) -> Result<(), HandshakeError> {
    match open.ext.remote_bound {
        Some(bound) if bound > 1 => Err(HandshakeError::RemoteBound(bound)),
        _ => Ok(()),
    }
}
