//! [`Opener`]: the side that opens a connection.

use super::{
    AuthFailure, HandshakeConfig, HandshakeError, PATCH, Step, check_region_name, check_remote_bound, decode,
    encode, name,
};
use crate::{
    limits::MAX_BATCH_SIZE,
    zenoh::{
        link::{
            LinkParams, QosLink, Remote, auth,
            named::{HalfAgreed, NamedOffer},
        },
        wire::{CloseReason, ExtBody, Init, InitExt, Open, OpenExt, Resolution, TransportMessage},
    },
};
use bytes::Bytes;

/// Opens a session. Drain [`Self::poll_transmit`] at the start and after each batch.
#[derive(Debug)]
pub struct Opener {
    config: HandshakeConfig,
    state: OpenerState,
    out: Option<Bytes>,
}

#[derive(Debug)]
enum OpenerState {
    InitAck,
    OpenAck(Box<LinkParams>, Option<HalfAgreed>),
    Over,
}

impl Opener {
    /// An opener with INIT SYN ready to be transmitted.
    #[must_use]
    pub fn new(config: HandshakeConfig) -> Self {
        // MultiLink is never announced.
        let ext = InitExt {
            qos: config.qos.then(|| config.qos_link.to_offer()),
            shm: config.named.as_ref().and_then(NamedOffer::syn),
            auth: config.credentials.as_ref().map(|_| auth::unit()),
            low_latency: config.low_latency(),
            compression: config.compression(),
            patch: u64::from(PATCH),
            region_name: config.region_name.clone(),
            lending: config.lending.map(|offer| offer.encode()),
            ..InitExt::default()
        };
        let size = HandshakeConfig::size(config.resolution, config.batch_size);
        let out = Some(encode(&TransportMessage::Init(config.init(size, None, ext))));
        Self { config, state: OpenerState::InitAck, out }
    }

    /// The next batch to transmit, without stream prefix.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        self.out.take()
    }

    /// The answering node, between INIT ACK and OPEN ACK.
    #[must_use]
    pub fn remote(&self) -> Option<Remote> {
        match &self.state {
            OpenerState::OpenAck(params, _) => Some(params.remote),
            OpenerState::InitAck | OpenerState::Over => None,
        }
    }

    /// Takes a batch, without stream prefix.
    ///
    /// # Errors
    /// Reason why the handshake failed. Send the peer its [`HandshakeError::close_reason`], if it has
    /// one, and close the connection; the machine must not be used further.
    pub fn handle_batch(&mut self, batch: Bytes) -> Result<Step, HandshakeError> {
        let state = core::mem::replace(&mut self.state, OpenerState::Over);
        match (decode(&batch)?, state) {
            // An opener closes its connection without a reply.
            (TransportMessage::Close(close), state) => Err(self.closed(close.reason, &state)),
            (TransportMessage::Init(mut init), OpenerState::InitAck) if init.cookie.is_some() => {
                let cookie = init.cookie.take().unwrap_or_default();
                let (params, auth) = self.agree(&init)?;
                let named = match (&self.config.named, &init.ext.shm) {
                    (Some(offer), Some(ack)) if params.lending.is_none() => offer.acknowledged(ack),
                    _ => None,
                };
                let shm = named.as_ref().map(HalfAgreed::open_syn);
                let open = Open {
                    lease_ms: self.config.lease_ms(),
                    initial_sn: params.tx_initial_sn,
                    cookie: Some(cookie),
                    ext: OpenExt { auth, shm, ..OpenExt::default() },
                };
                self.out = Some(encode(&TransportMessage::Open(open)));
                self.state = OpenerState::OpenAck(Box::new(params), named);
                Ok(Step::Continue)
            }
            (TransportMessage::Open(open), OpenerState::OpenAck(mut params, named))
                if open.cookie.is_none() =>
            {
                check_remote_bound(&open)?;
                // 1.10.0 and 1.10.1 answer although nothing was offered.
                if let Some(named) = named {
                    params.named = named.conclude(open.ext.shm.as_ref())?;
                }
                self.config.complete(&open, *params, false).map(Step::Done)
            }
            (message, state) => {
                let expected = match state {
                    OpenerState::InitAck => "INIT ACK",
                    OpenerState::OpenAck(..) => "OPEN ACK",
                    OpenerState::Over => "nothing",
                };
                Err(HandshakeError::Unexpected { expected, got: name(&message) })
            }
        }
    }

    /// Error for an acceptor that closes instead of continuing. Wrong credentials are not named in its
    /// CLOSE (`zenoh-behaviour` 7.2).
    fn closed(&self, reason: CloseReason, state: &OpenerState) -> HandshakeError {
        match (state, &self.config.credentials) {
            (OpenerState::OpenAck(..), Some(_)) if reason == CloseReason::GENERIC => {
                HandshakeError::Auth(AuthFailure::Refused)
            }
            (OpenerState::InitAck, None) if reason == CloseReason::GENERIC => {
                HandshakeError::Auth(AuthFailure::MaybeDemanded)
            }
            _ => HandshakeError::Closed { reason, echo: false },
        }
    }

    /// Checks INIT ACK: no value may exceed the proposed one. Its version is ignored, and so are
    /// extensions that were not offered.
    fn agree(&self, init: &Init) -> Result<(LinkParams, Option<Bytes>), HandshakeError> {
        let config = &self.config;
        let (ours, (theirs, batch_size)) =
            (config.resolution, init.size.unwrap_or((Resolution::DEFAULT, MAX_BATCH_SIZE)));
        if theirs.min(ours) != theirs {
            return Err(HandshakeError::Resolution { ours, theirs });
        }
        if let Some(expected) = config.expected
            && expected != init.zid
        {
            return Err(HandshakeError::WrongNode { expected, got: init.zid });
        }
        let Ok(patch @ 0..=PATCH) = u8::try_from(init.ext.patch) else {
            return Err(HandshakeError::Patch(init.ext.patch));
        };
        check_region_name(&init.ext)?;
        let qos_link = if config.qos {
            QosLink::from_offer(init.ext.qos)
                .and_then(|theirs| theirs.map(|theirs| QosLink::merge(theirs, config.qos_link)).transpose())
                .map_err(|_| HandshakeError::QosLink)?
        } else {
            None
        };
        let auth = match (&config.credentials, &init.ext.auth) {
            (None, _) => None,
            (Some(credentials), Some(chain)) => match auth::find(chain)? {
                Some(ExtBody::Z64(nonce)) => Some(auth::answer(credentials, nonce)),
                _ => return Err(HandshakeError::Auth(AuthFailure::NotAsked)),
            },
            (Some(_), None) => return Err(HandshakeError::Auth(AuthFailure::NotAsked)),
        };
        let params = config.params(init, theirs, batch_size, qos_link, patch)?;
        Ok((params, auth))
    }
}
