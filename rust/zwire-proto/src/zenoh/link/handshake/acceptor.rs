//! [`Acceptor`]: the side that accepts a connection.

use super::{
    AuthFailure, HandshakeConfig, HandshakeError, PATCH, Step, check_region_name, check_remote_bound, decode,
    encode, name,
};
use crate::{
    Text,
    limits::MAX_BATCH_SIZE,
    zenoh::{
        VERSION,
        link::{
            LinkParams, QosLink, auth, close_batch,
            named::{HalfAgreed, open_ack},
        },
        wire::{CloseReason, ExtBody, Init, InitExt, Open, OpenExt, Resolution, TransportMessage},
    },
};
use bytes::Bytes;
use std::{collections::HashMap, sync::Arc};

/// Accepts a session. Drain [`Self::poll_transmit`] after each batch and after
/// [`Self::admit`] or [`Self::refuse`].
#[derive(Debug)]
pub struct Acceptor {
    config: HandshakeConfig,
    cookie: Bytes,
    users: Option<Users>,
    state: AcceptorState,
    out: Option<Bytes>,
}

/// Users that may open a session, and the challenge for this one.
struct Users {
    passwords: Arc<HashMap<Text, Text>>,
    nonce: u64,
}

impl core::fmt::Debug for Users {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} users", self.passwords.len())
    }
}

#[derive(Debug)]
enum AcceptorState {
    InitSyn,
    OpenSyn(Box<LinkParams>, Option<HalfAgreed>),
    Admission(Box<LinkParams>),
    Over,
}

impl Acceptor {
    /// Waits for INIT SYN. The opener must echo `cookie`, which should be random: on a link with
    /// spoofable addresses the echo proves the opener's address.
    #[must_use]
    pub const fn new(config: HandshakeConfig, cookie: Bytes) -> Self {
        Self { config, cookie, users: None, state: AcceptorState::InitSyn, out: None }
    }

    /// Requires one of these users and its password. `nonce` must be random and fresh: an answer is
    /// valid for one nonce alone.
    #[must_use]
    pub fn with_users(mut self, passwords: Arc<HashMap<Text, Text>>, nonce: u64) -> Self {
        self.users = Some(Users { passwords, nonce });
        self
    }

    /// The next batch to transmit, without stream prefix.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        self.out.take()
    }

    /// Takes a batch, without stream prefix.
    ///
    /// # Errors
    /// Reason why the handshake failed. Send the peer its [`HandshakeError::close_reason`], if it has
    /// one, and close the connection; the machine must not be used further.
    pub fn handle_batch(&mut self, batch: Bytes) -> Result<Step, HandshakeError> {
        let state = core::mem::replace(&mut self.state, AcceptorState::Over);
        match (decode(&batch)?, state) {
            (TransportMessage::Init(init), AcceptorState::InitSyn) if init.cookie.is_none() => {
                let (params, mut ext) = self.agree(&init)?;
                // A node that lends has its own way, and one whose memory cannot be read gets no answer.
                let named =
                    self.config.named.as_ref().filter(|_| params.lending.is_none()).and_then(|offer| {
                        let agreed = offer.accept(init.ext.shm.as_ref()?)?;
                        ext.shm = Some(agreed.init_ack());
                        Some(agreed)
                    });
                let size = HandshakeConfig::size(params.resolution, params.batch_size);
                let ack = self.config.init(size, Some(self.cookie.clone()), ext);
                self.out = Some(encode(&TransportMessage::Init(ack)));
                self.state = AcceptorState::OpenSyn(Box::new(params), named);
                Ok(Step::Continue)
            }
            (TransportMessage::Open(open), AcceptorState::OpenSyn(params, named))
                if open.cookie.is_some() =>
            {
                let mut params = self.opening(&open, *params)?;
                if let Some(agreed) = named {
                    params.named = agreed.confirm(open.ext.shm.as_ref())?;
                }
                let remote = params.remote;
                self.state = AcceptorState::Admission(Box::new(params));
                Ok(Step::Admit(remote))
            }
            (TransportMessage::Close(close), AcceptorState::OpenSyn(..)) => {
                Err(HandshakeError::Closed { reason: close.reason, echo: true })
            }
            (message, state) => {
                let expected = match state {
                    AcceptorState::InitSyn => "INIT SYN",
                    AcceptorState::OpenSyn(..) => "OPEN SYN",
                    AcceptorState::Admission(_) | AcceptorState::Over => "nothing",
                };
                Err(HandshakeError::Unexpected { expected, got: name(&message) })
            }
        }
    }

    /// Accepts the peer after [`Step::Admit`]. The session is up once OPEN ACK is transmitted.
    ///
    /// # Errors
    /// No peer waits for admission.
    pub fn admit(&mut self) -> Result<LinkParams, HandshakeError> {
        let AcceptorState::Admission(params) = core::mem::replace(&mut self.state, AcceptorState::Over)
        else {
            return Err(HandshakeError::NobodyWaits);
        };
        let ack = Open {
            lease_ms: self.config.lease_ms(),
            initial_sn: params.tx_initial_sn,
            cookie: None,
            ext: OpenExt {
                auth: self.users.as_ref().map(|_| auth::unit()),
                shm: params.named.as_ref().map(open_ack),
                ..OpenExt::default()
            },
        };
        self.out = Some(encode(&TransportMessage::Open(ack)));
        Ok(*params)
    }

    /// After [`Step::Admit`]: the user that the peer has proved to be.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match &self.state {
            AcceptorState::Admission(params) => params.user.as_ref().map(Text::as_str),
            _ => None,
        }
    }

    /// Refuses the peer after [`Step::Admit`], with `MAX_LINKS` (its id is connected already),
    /// `INVALID` (the same, with other parameters), or `MAX_SESSIONS` (no room is left). CLOSE must be
    /// transmitted; the error returned is for the log.
    pub fn refuse(&mut self, reason: CloseReason) -> HandshakeError {
        match core::mem::replace(&mut self.state, AcceptorState::Over) {
            AcceptorState::Admission(_) => {
                self.out = Some(close_batch(reason));
                HandshakeError::Refused(reason)
            }
            _ => HandshakeError::NobodyWaits,
        }
    }

    /// Answers INIT SYN: the smaller of each value, the extensions that both sides want.
    /// MultiLink is never answered, which turns it off.
    fn agree(&self, init: &Init) -> Result<(LinkParams, InitExt), HandshakeError> {
        let config = &self.config;
        if init.version != VERSION {
            return Err(HandshakeError::Version(init.version));
        }
        check_region_name(&init.ext)?;
        let offered =
            QosLink::from_offer(init.ext.qos).map_err(|_| HandshakeError::QosLink)?.filter(|_| config.qos);
        let qos_link = offered
            .map(|theirs| QosLink::merge(config.qos_link, theirs))
            .transpose()
            .map_err(|_| HandshakeError::QosLink)?;
        let challenge = match (&self.users, &init.ext.auth) {
            (None, _) => None,
            (Some(users), Some(chain)) if auth::find(chain)?.is_some() => Some(auth::challenge(users.nonce)),
            (Some(_), _) => return Err(HandshakeError::Auth(AuthFailure::Missing)),
        };
        let (resolution, batch_size) = init.size.unwrap_or((Resolution::DEFAULT, MAX_BATCH_SIZE));
        let resolution = resolution.min(config.resolution);
        #[allow(clippy::cast_possible_truncation, reason = "at most 1")]
        let patch = init.ext.patch.min(u64::from(PATCH)) as u8;
        let params = config.params(init, resolution, batch_size, qos_link, patch)?;
        let ext = InitExt {
            qos: qos_link.map(QosLink::to_offer),
            auth: challenge,
            low_latency: params.low_latency,
            compression: config.compression() && init.ext.compression,
            patch: u64::from(patch),
            region_name: config.region_name.clone(),
            // Only an answer: a node that has not offered it need not hear of doors.
            lending: params.lending.and(config.lending).map(|offer| offer.encode()),
            ..InitExt::default()
        };
        Ok((params, ext))
    }

    fn opening(&self, open: &Open, mut params: LinkParams) -> Result<LinkParams, HandshakeError> {
        if open.cookie.as_ref() != Some(&self.cookie) {
            return Err(HandshakeError::Cookie);
        }
        check_remote_bound(open)?;
        if let Some(users) = &self.users {
            let answer = open.ext.auth.as_ref().map(auth::find).transpose()?.flatten();
            let Some(ExtBody::ZBuf(answer)) = answer else {
                return Err(HandshakeError::Auth(AuthFailure::Missing));
            };
            let user = auth::verify(&answer, users.nonce, |user| users.passwords.get(user).cloned())?;
            params.user = Some(user.ok_or(HandshakeError::Auth(AuthFailure::Wrong))?);
        }
        self.config.complete(open, params, true)
    }
}
