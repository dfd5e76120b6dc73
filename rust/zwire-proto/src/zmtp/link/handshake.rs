//! The handshake (`zmtp` 2, 3, 6): greetings, then the commands of the mechanism.
//!
//! ```text
//!   both:  11 bytes of the greeting          both at once; no side waits
//!   both:  the rest of the greeting          or that of ZMTP 2.0, and the handshake is over
//!   NULL   both: READY                       both at once
//!   PLAIN  HELLO, WELCOME, INITIATE, READY   client first
//!   CURVE  HELLO, WELCOME, INITIATE, READY   client first, sealed
//! ```
//!
//! The 11 bytes are the same for all generations; the rest depends on the peer's 11 bytes. The
//! as-server flag is ignored: the configuration decides which side is the server. The driver limits the
//! duration of a handshake: on timeout it closes the connection without an ERROR.

#[cfg(feature = "curve")]
mod curve;
mod error;
mod null;
mod plain;

pub use curve::{CurveClient, CurveServer};
pub use error::{Denial, ZmtpHandshakeError};
pub use plain::PlainCredentials;

#[cfg(not(feature = "curve"))]
use super::curve;
use super::{Peer, Version, ZmtpLinkParams, curve::CurveSession};
use crate::{
    error::{DecodeError, DecodeErrorKind},
    lending::{LendingOffer, LendingTerms},
    zmtp::{
        limits::{MAX_HANDSHAKE_COMMAND, MAX_IDENTITY},
        wire::{
            Command, Error as ErrorCommand, FrameHead, Greeting, Greeting2, Mechanism, Metadata, Property,
            SocketType, ZmtpGeneration,
        },
    },
};
use bytes::{Bytes, BytesMut};
use core::fmt;
use thiserror::Error;

/// Access control of a socket: which peers may connect, and how each side proves itself.
#[derive(Clone, Debug)]
pub enum Security {
    /// No proof.
    Null {
        /// Whether the authenticator is asked about each peer nevertheless. Peers of ZMTP 2.0 are
        /// refused then.
        authenticate: bool,
    },
    /// This side proves itself by user and password, which travel in clear.
    PlainClient(PlainCredentials),
    /// Peers prove themselves by user and password; the authenticator decides.
    PlainServer,
    /// This side proves itself by its keys, and only the owner of the server's key can read its
    /// traffic.
    CurveClient(Box<CurveClient>),
    /// Peers prove themselves by their keys, and that they know the server's key.
    CurveServer(Box<CurveServer>),
}

impl Security {
    /// Mechanism that the greeting announces.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        match self {
            Self::Null { .. } => Mechanism::NULL,
            Self::PlainClient(_) | Self::PlainServer => Mechanism::PLAIN,
            Self::CurveClient(_) | Self::CurveServer(_) => Mechanism::CURVE,
        }
    }
}

/// Configuration of one side of a handshake.
#[derive(Clone, Debug)]
pub struct ZmtpHandshakeConfig {
    /// Local socket type.
    pub socket_type: SocketType,
    /// Local identity, empty for none; see [`Self::with_identity`].
    pub identity: Bytes,
    /// Further properties sent to the peer, with names that begin with `X-`.
    pub properties: Vec<Property>,
    /// Offer to lend payloads in shared memory, if both ends are on one host.
    pub lending: Option<LendingOffer>,
    /// Security mechanism.
    pub security: Security,
    /// The latest version that is announced: 3.1, or 3.0.
    pub version: Version,
}

impl ZmtpHandshakeConfig {
    /// A socket without identity, without security, of ZMTP 3.1.
    #[must_use]
    pub const fn new(socket_type: SocketType) -> Self {
        Self {
            socket_type,
            identity: Bytes::new(),
            properties: Vec::new(),
            lending: None,
            security: Security::Null { authenticate: false },
            version: Version::V3_1,
        }
    }

    /// Sets the identity by which routers know this socket.
    ///
    /// # Errors
    /// Longer than 255 bytes, or with a first byte of 0, which is reserved for identities that routers
    /// generate.
    pub fn with_identity(self, identity: impl Into<Bytes>) -> Result<Self, InvalidIdentity> {
        let identity = identity.into();
        match identity.first() {
            Some(0) => Err(InvalidIdentity::Reserved),
            _ if identity.len() > MAX_IDENTITY => Err(InvalidIdentity::TooLong(identity.len())),
            _ => Ok(Self { identity, ..self }),
        }
    }

    /// Metadata sent to the peer.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::of_socket(self.socket_type, &self.identity);
        metadata.0.extend(self.properties.iter().cloned());
        if let Some(offer) = self.lending {
            metadata.push(Metadata::LENDING, offer.encode());
        }
        metadata
    }

    fn greeting(&self) -> Greeting {
        let minor = if self.version == Version::V3_1 { 1 } else { 0 };
        // A peer of ZMTP 1.0 reads the length of an identity here.
        let padding = self.identity.len() as u64 + 1;
        let as_server = matches!(self.security, Security::PlainServer | Security::CurveServer(_));
        Greeting { minor, padding, as_server, ..Greeting::new(self.security.mechanism()) }
    }
}

/// Error for an identity that a socket must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvalidIdentity {
    /// Above [`MAX_IDENTITY`].
    #[error("identity of {0} bytes, {MAX_IDENTITY} are allowed")]
    TooLong(usize),
    /// First byte is 0.
    #[error("identities that begin with 0 are made by routers")]
    Reserved,
}

/// Question to the authenticator (`zmtp` 7). The driver knows the address.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthRequest {
    /// Security mechanism of the peer.
    pub mechanism: Mechanism,
    /// Its credentials. NULL: none. PLAIN: user and password. CURVE: the 32 bytes of the client's
    /// permanent key, which it has proved to own.
    pub credentials: Vec<Bytes>,
}

impl fmt::Debug for AuthRequest {
    /// Leaves out the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthRequest").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}

/// Next action after some input.
#[derive(Debug)]
pub enum HandshakeStep {
    /// Transmit pending output and wait for more bytes.
    Continue,
    /// Ask the authenticator, then call [`Handshake::allow`] or [`Handshake::deny`].
    Authenticate(AuthRequest),
    /// The connection is up once pending output was transmitted. Bytes left in the buffer are traffic.
    Done(Box<ZmtpLinkParams>),
}

/// Next action of a mechanism after a command.
pub(super) enum HandshakeOutcome {
    Continue,
    Authenticate(AuthRequest),
    Done {
        /// Metadata of the peer.
        metadata: Metadata,
        /// Reply that is sent if the two socket types may be connected.
        answer: Option<Bytes>,
        /// Keys, under CURVE.
        session: Option<CurveSession>,
    },
}

impl HandshakeOutcome {
    const fn done(metadata: Metadata, answer: Option<Bytes>) -> Self {
        Self::Done { metadata, answer, session: None }
    }
}

pub(super) type MechanismResult = Result<HandshakeOutcome, ZmtpHandshakeError>;

/// The handshake behind the greeting: one side of one mechanism.
#[derive(Debug)]
enum Exchange {
    Null(null::Null),
    PlainClient(plain::PlainClientSide),
    PlainServer(plain::PlainServerSide),
    CurveClient(Box<curve::CurveClientSide>),
    CurveServer(Box<curve::CurveServerSide>),
}

/// State machine of one side of a handshake. Drain [`Self::poll_transmit`] after construction and after
/// each call.
#[derive(Debug)]
pub struct Handshake {
    config: ZmtpHandshakeConfig,
    state: HandshakeState,
    /// The smaller version, known from the peer's greeting on.
    version: Version,
    auth: Option<(Bytes, Metadata)>,
    out: Vec<u8>,
}

#[derive(Debug)]
enum HandshakeState {
    /// Waits for the 11 bytes that tell the generation.
    Prefix,
    Greeting,
    Greeting2,
    Commands(Exchange),
    /// The authenticator was asked.
    Judging(Exchange),
    Over,
}

impl Handshake {
    /// Begins: 11 bytes are ready to be transmitted.
    #[must_use]
    pub fn new(config: ZmtpHandshakeConfig) -> Self {
        let out = config.greeting().to_bytes()[..Greeting::PREFIX_LEN].to_vec();
        Self { version: config.version, config, state: HandshakeState::Prefix, auth: None, out }
    }

    /// The next bytes to transmit.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        (!self.out.is_empty()).then(|| core::mem::take(&mut self.out).into())
    }

    /// Takes the bytes of the handshake off the front of `buf`.
    ///
    /// # Errors
    /// The reason why the handshake failed. The machine must not be used further.
    pub fn handle_bytes(&mut self, buf: &mut BytesMut) -> Result<HandshakeStep, ZmtpHandshakeError> {
        loop {
            let state = core::mem::replace(&mut self.state, HandshakeState::Over);
            let step = match state {
                HandshakeState::Prefix => self.prefix(buf)?,
                HandshakeState::Greeting => self.greeting(buf)?,
                HandshakeState::Greeting2 => self.greeting2(buf)?,
                HandshakeState::Commands(exchange) => self.command(exchange, buf)?,
                HandshakeState::Judging(exchange) => {
                    self.state = HandshakeState::Judging(exchange);
                    Some(HandshakeStep::Continue)
                }
                HandshakeState::Over => return Err(ZmtpHandshakeError::Over),
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    /// Accepts the peer after [`HandshakeStep::Authenticate`]. `user_id` and `metadata` go into [`Peer`].
    ///
    /// # Errors
    /// No peer waits for authentication.
    pub fn allow(&mut self, user_id: Bytes, metadata: Metadata) -> Result<HandshakeStep, ZmtpHandshakeError> {
        let HandshakeState::Judging(mut exchange) = core::mem::replace(&mut self.state, HandshakeState::Over)
        else {
            return Err(ZmtpHandshakeError::NobodyWaits);
        };
        self.auth = Some((user_id, metadata));
        let outcome = match &mut exchange {
            Exchange::Null(m) => m.allow(&self.config, &mut self.out),
            Exchange::PlainServer(m) => m.allow(&mut self.out),
            Exchange::CurveServer(m) => m.allow(&self.config),
            Exchange::PlainClient(_) | Exchange::CurveClient(_) => Err(ZmtpHandshakeError::NobodyWaits),
        }?;
        Ok(self.follow(exchange, outcome)?.unwrap_or(HandshakeStep::Continue))
    }

    /// Refuses the peer after [`HandshakeStep::Authenticate`]. The error returned is for the log.
    pub fn deny(&mut self, denial: Denial) -> ZmtpHandshakeError {
        let HandshakeState::Judging(_) = core::mem::replace(&mut self.state, HandshakeState::Over) else {
            return ZmtpHandshakeError::NobodyWaits;
        };
        if let Some(reason) = denial.reason() {
            self.say_error(reason);
        }
        ZmtpHandshakeError::Denied(denial)
    }

    fn say_error(&mut self, reason: &'static str) {
        ErrorCommand { reason: Bytes::from_static(reason.as_bytes()) }.encode_frame(&mut self.out);
    }

    fn prefix(&mut self, buf: &BytesMut) -> Result<Option<HandshakeStep>, ZmtpHandshakeError> {
        let Some(generation) = ZmtpGeneration::detect(buf) else {
            self.state = HandshakeState::Prefix;
            return Ok(Some(HandshakeStep::Continue));
        };
        match (generation, &self.config.security) {
            (ZmtpGeneration::V3, _) => {
                let greeting = self.config.greeting().to_bytes();
                self.out.extend_from_slice(&greeting[Greeting::PREFIX_LEN..]);
                self.state = HandshakeState::Greeting;
            }
            // A peer of 2.0 cannot prove anything, so it is refused where proof is required (`zmtp`
            // 13).
            (ZmtpGeneration::V2, Security::Null { authenticate: false }) => {
                let greeting = Greeting2 {
                    padding: 0,
                    revision: 0,
                    socket_type: self.config.socket_type,
                    identity: self.config.identity.clone(),
                };
                greeting.encode_end(&mut self.out);
                self.state = HandshakeState::Greeting2;
            }
            _ => return Err(ZmtpHandshakeError::Generation(generation)),
        }
        Ok(None)
    }

    fn greeting(&mut self, buf: &mut BytesMut) -> Result<Option<HandshakeStep>, ZmtpHandshakeError> {
        if buf.len() < Greeting::LEN {
            self.state = HandshakeState::Greeting;
            return Ok(Some(HandshakeStep::Continue));
        }
        let raw = buf.split_to(Greeting::LEN).freeze();
        let greeting = Greeting::decode(&mut crate::buf::Reader::new(&raw))?;
        let (ours, theirs) = (self.config.security.mechanism(), greeting.mechanism);
        if ours != theirs {
            return Err(ZmtpHandshakeError::Mechanism { ours, theirs });
        }
        let own = if self.config.version == Version::V3_1 { 1 } else { 0 };
        self.version = if greeting.common_minor(own) == 0 { Version::V3_0 } else { Version::V3_1 };
        let mut outcome = HandshakeOutcome::Continue;
        let exchange = match &self.config.security {
            Security::Null { authenticate } => {
                outcome = null::Null::start(*authenticate, &self.config, &mut self.out);
                Exchange::Null(null::Null)
            }
            Security::PlainClient(credentials) => {
                Exchange::PlainClient(plain::PlainClientSide::start(credentials, &mut self.out))
            }
            Security::PlainServer => Exchange::PlainServer(plain::PlainServerSide::Hello),
            Security::CurveClient(given) => {
                Exchange::CurveClient(curve::CurveClientSide::start(given, &mut self.out)?)
            }
            Security::CurveServer(given) => Exchange::CurveServer(curve::CurveServerSide::new(given)),
        };
        self.follow(exchange, outcome)
    }

    fn greeting2(&mut self, buf: &mut BytesMut) -> Result<Option<HandshakeStep>, ZmtpHandshakeError> {
        // The length of the identity tells the length of the greeting.
        const LEN_AT: usize = 13;
        let whole = buf.get(LEN_AT).map(|len| LEN_AT + 1 + usize::from(*len));
        let Some(len) = whole.filter(|len| buf.len() >= *len) else {
            self.state = HandshakeState::Greeting2;
            return Ok(Some(HandshakeStep::Continue));
        };
        let raw = buf.split_to(len).freeze();
        let greeting = Greeting2::decode(&mut crate::buf::Reader::new(&raw))?;
        self.version = Version::V2_0;
        let name = Bytes::from_static(greeting.socket_type.name().as_bytes());
        if !self.config.socket_type.accepts(greeting.socket_type) {
            return Err(ZmtpHandshakeError::SocketType { ours: self.config.socket_type, theirs: name });
        }
        let mut metadata = Metadata::default();
        metadata.push(Metadata::SOCKET_TYPE, name);
        metadata.push(Metadata::IDENTITY, greeting.identity);
        self.done(metadata, None, None).map(Some)
    }

    fn command(
        &mut self,
        mut exchange: Exchange,
        buf: &mut BytesMut,
    ) -> Result<Option<HandshakeStep>, ZmtpHandshakeError> {
        let Some(body) = next_command(buf)? else {
            self.state = HandshakeState::Commands(exchange);
            return Ok(Some(HandshakeStep::Continue));
        };
        let outcome = match &mut exchange {
            Exchange::Null(m) => m.handle_command(&body),
            Exchange::PlainClient(m) => m.handle_command(&body, &self.config, &mut self.out),
            Exchange::PlainServer(m) => m.handle_command(&body, &self.config),
            Exchange::CurveClient(m) => m.handle_command(&body, &self.config, &mut self.out),
            Exchange::CurveServer(m) => m.handle_command(&body, &self.config, &mut self.out),
        }?;
        self.follow(exchange, outcome)
    }

    fn follow(
        &mut self,
        exchange: Exchange,
        outcome: HandshakeOutcome,
    ) -> Result<Option<HandshakeStep>, ZmtpHandshakeError> {
        match outcome {
            HandshakeOutcome::Continue => {
                self.state = HandshakeState::Commands(exchange);
                Ok(None)
            }
            HandshakeOutcome::Authenticate(request) => {
                self.state = HandshakeState::Judging(exchange);
                Ok(Some(HandshakeStep::Authenticate(request)))
            }
            HandshakeOutcome::Done { metadata, answer, session } => {
                self.done(metadata, answer, session).map(Some)
            }
        }
    }

    fn done(
        &mut self,
        mut metadata: Metadata,
        answer: Option<Bytes>,
        session: Option<CurveSession>,
    ) -> Result<HandshakeStep, ZmtpHandshakeError> {
        let ours = self.config.socket_type;
        // A peer that does not tell its type is accepted, as libzmq does (`zmtp` 8.1).
        let socket_type = match metadata.get(Metadata::SOCKET_TYPE) {
            None => None,
            Some(name) => match SocketType::from_name(name).filter(|theirs| ours.accepts(*theirs)) {
                Some(theirs) => Some(theirs),
                None => {
                    self.say_error("Invalid socket type");
                    return Err(ZmtpHandshakeError::SocketType { ours, theirs: name.clone() });
                }
            },
        };
        let identity = metadata.get(Metadata::IDENTITY).cloned().unwrap_or_default();
        if identity.len() > MAX_IDENTITY {
            return Err(ZmtpHandshakeError::Identity(identity.len()));
        }
        self.out.extend_from_slice(&answer.unwrap_or_default());
        let offer = metadata.take(Metadata::LENDING);
        let (user_id, auth_metadata) = self.auth.take().unwrap_or_default();
        let peer = Peer { socket_type, identity, metadata, user_id, auth_metadata };
        Ok(HandshakeStep::Done(Box::new(ZmtpLinkParams {
            socket_type: ours,
            version: self.version,
            peer,
            lending: LendingTerms::of(self.config.lending, offer.as_ref()),
            session,
        })))
    }
}

/// The body of the next command; `None` when more bytes are needed. A frame without the command bit is
/// accepted, as libzmq does (`zmtp` 14).
fn next_command(buf: &mut BytesMut) -> Result<Option<Bytes>, ZmtpHandshakeError> {
    let Some((head, start)) = FrameHead::decode(buf)? else { return Ok(None) };
    if head.more {
        return Err(ZmtpHandshakeError::NotACommand);
    }
    let len = usize::try_from(head.len).ok().filter(|len| *len <= MAX_HANDSHAKE_COMMAND);
    let Some(len) = len else { return Err(ZmtpHandshakeError::TooLong(head.len)) };
    if buf.len() - start < len {
        return Ok(None);
    }
    Ok(Some(buf.split_to(start + len).split_off(start).freeze()))
}

/// Decodes the expected command, or returns an error that names the received one.
fn expect<C: Command>(body: &Bytes) -> Result<C, ZmtpHandshakeError> {
    match C::decode(body) {
        Err(DecodeError { kind: DecodeErrorKind::Name, .. }) => {}
        result => return result.map_err(ZmtpHandshakeError::from),
    }
    match ErrorCommand::decode(body) {
        Err(DecodeError { kind: DecodeErrorKind::Name, .. }) => {
            let len = body.first().map_or(0, |len| usize::from(*len));
            Err(ZmtpHandshakeError::Unexpected { expected: C::NAME, got: body.slice(1..=len) })
        }
        result => Err(ZmtpHandshakeError::Peer { reason: result?.reason }),
    }
}
