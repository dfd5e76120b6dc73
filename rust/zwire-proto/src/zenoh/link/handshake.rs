//! The handshake (`zenoh-wire` 3.3–3.6, `zenoh-behaviour` 2.1–2.3): what both roles share.
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
//! Each message is alone in its batch; what follows it there is ignored. How long a handshake may
//! take is the driver's business: when its time is over it closes the connection without a word.

mod acceptor;
mod opener;

pub use acceptor::Acceptor;
pub use opener::Opener;

use super::{Credentials, LinkError, LinkParams, QosLink, Remote};
use crate::{
    Text,
    buf::Reader,
    error::{DecodeError, DecodeErrorKind},
    limits::{MAX_BATCH_SIZE, MIN_BATCH_SIZE},
    zenoh::{
        VERSION, WhatAmI, ZenohId,
        wire::{CloseReason, Init, InitExt, Open, Resolution, TransportMessage},
    },
};
use bytes::Bytes;
use core::time::Duration;
use thiserror::Error;

/// What we offer: FRAGMENT has First and Drop marks.
const PATCH: u8 = 1;
/// Longest region name (`zenoh-wire` 3.6).
const MAX_REGION_NAME: usize = 32;

/// What one side brings to the handshake.
#[derive(Clone, Debug)]
pub struct HandshakeConfig {
    /// Our id.
    pub zid: ZenohId,
    /// Our role.
    pub whatami: WhatAmI,
    /// Largest widths.
    pub resolution: Resolution,
    /// Largest batch, bounded by what the link can carry.
    pub batch_size: u16,
    /// How long we promise never to be silent.
    pub lease: Duration,
    /// Whether priorities are to be channels of their own.
    pub qos: bool,
    /// What the link is for; only with `qos`.
    pub qos_link: QosLink,
    /// Whether batches may be compressed.
    pub compression: bool,
    /// Whether the link is to carry bare messages; ignored with `qos`, which excludes it.
    pub low_latency: bool,
    /// The name of our region, 1 to 32 bytes.
    pub region_name: Option<Text>,
    /// Whether batches travel behind a length prefix.
    pub streamed: bool,
    /// The node that an opener expects, from scouting or gossip.
    pub expected: Option<ZenohId>,
    /// What an opener proves itself with.
    pub credentials: Option<Credentials>,
}

impl HandshakeConfig {
    /// The defaults of the reference, over a stream.
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
        }
    }

    const fn low_latency(&self) -> bool {
        self.low_latency && !self.qos
    }

    /// S=0 when both values are the defaults.
    fn size(resolution: Resolution, batch_size: u16) -> Option<(Resolution, u16)> {
        let defaults = resolution == Resolution::DEFAULT && batch_size == MAX_BATCH_SIZE;
        (!defaults).then_some((resolution, batch_size))
    }

    fn init(&self, size: Option<(Resolution, u16)>, cookie: Option<Bytes>, ext: InitExt) -> Init {
        Init { version: VERSION, whatami: self.whatami, zid: self.zid, size, cookie, ext }
    }

    #[allow(clippy::cast_possible_truncation, reason = "a lease is not 600 million years long")]
    const fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
    }
}

/// What is to be done after a batch of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Transmit what there is and wait for the next batch.
    Continue,
    /// Acceptor: everything is in order; call [`Acceptor::admit`] or [`Acceptor::refuse`].
    Admit(Remote),
    /// Opener: the session is up.
    Done(LinkParams),
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// A batch that does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A batch that the framer refuses.
    #[error(transparent)]
    Framing(#[from] LinkError),
    /// Another message than the next of the handshake.
    #[error("{got} instead of {expected}")]
    Unexpected {
        /// What was due.
        expected: &'static str,
        /// What came.
        got: &'static str,
    },
    /// A protocol version other than 9 in INIT SYN.
    #[error("protocol version {0:#04x}, we speak 0x09")]
    Version(u8),
    /// An INIT ACK with widths above ours.
    #[error("resolution {theirs:?} answered to {ours:?}")]
    Resolution {
        /// What we proposed.
        ours: Resolution,
        /// What came back.
        theirs: Resolution,
    },
    /// A batch size below the smallest that works.
    #[error("batch size {0}, at least {MIN_BATCH_SIZE} is needed")]
    BatchSize(u16),
    /// An INIT ACK with a patch above ours.
    #[error("patch {0}, we proposed {PATCH}")]
    Patch(u64),
    /// Priorities or reliabilities of the link that are none or do not match ours.
    #[error("the QoS of the link does not match")]
    QosLink,
    /// A region name of a length that is not allowed.
    #[error("region name of {0} bytes, 1 to {MAX_REGION_NAME} are allowed")]
    RegionName(usize),
    /// A RemoteBound that is neither north nor south.
    #[error("remote bound {0}")]
    RemoteBound(u64),
    /// A cookie that we did not give.
    #[error("wrong cookie")]
    Cookie,
    /// An initial sequence number outside the negotiated width.
    #[error("initial sequence number {sn:#x} outside the mask {mask:#x}")]
    InitialSn {
        /// On the wire.
        sn: u32,
        /// Of the resolution.
        mask: u32,
        /// Whether we are the acceptor, which is silent about it.
        accepting: bool,
    },
    /// Another node answered than the one that was expected.
    #[error("node {got} answered, {expected} was expected")]
    WrongNode {
        /// Who was expected.
        expected: ZenohId,
        /// Who answered.
        got: ZenohId,
    },
    /// We are talking to ourselves.
    #[error("connection to self")]
    ToSelf,
    /// Both ends are clients.
    #[error("a client cannot have a session with a client")]
    Clients,
    /// User and password are missing, wrong, or not asked for.
    #[error("authentication failed: {0}")]
    Auth(AuthFailure),
    /// The peer closed instead of going on.
    #[error("the peer closed: {reason}")]
    Closed {
        /// What it said.
        reason: CloseReason,
        /// Whether it is to be told the same, as acceptors do.
        echo: bool,
    },
    /// The driver refused the peer.
    #[error("refused: {0}")]
    Refused(CloseReason),
    /// `admit` or `refuse` without a [`Step::Admit`] before it.
    #[error("nobody waits to be admitted")]
    NobodyWaits,
}

/// What is wrong with the credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AuthFailure {
    /// The acceptor demands them and the opener offers none.
    #[error("credentials are demanded and were not offered")]
    Missing,
    /// The opener has them and the acceptor does not ask.
    #[error("credentials were offered and not asked for")]
    NotAsked,
    /// Unknown user or wrong password.
    #[error("unknown user or wrong password")]
    Wrong,
    /// The acceptor has seen them and closed.
    #[error("the peer does not accept user or password")]
    Refused,
    /// The opener has none and the acceptor closes without saying why, as one that demands them does.
    #[error("the peer closed without saying why; it may demand user and password")]
    MaybeDemanded,
}

impl HandshakeError {
    /// What the peer is told in a CLOSE before its connection is closed; `None` is silence
    /// (`zenoh-wire` 9.1).
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self {
            // The one error of decoding that the reference takes for a refusing extension.
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

const fn check_batch_size(size: u16) -> Result<u16, HandshakeError> {
    if size < MIN_BATCH_SIZE { Err(HandshakeError::BatchSize(size)) } else { Ok(size) }
}

/// What stands between both clients and both selves.
fn check_roles(config: &HandshakeConfig, remote: Remote) -> Result<(), HandshakeError> {
    if remote.zid == config.zid {
        return Err(HandshakeError::ToSelf);
    }
    if remote.whatami == WhatAmI::Client && config.whatami == WhatAmI::Client {
        return Err(HandshakeError::Clients);
    }
    Ok(())
}
