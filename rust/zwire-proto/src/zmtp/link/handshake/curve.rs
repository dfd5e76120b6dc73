//! CURVE: keys prove both sides, and all later traffic is sealed (`zmtp` 6.3).
//!
//! ```text
//!   client:  HELLO ──▶ waits for WELCOME ──▶ INITIATE ──▶ waits for READY
//!   server:  waits for HELLO ──▶ WELCOME ──▶ waits for INITIATE ──▶ asks ──▶ READY
//! ```
//!
//! A box that does not open ends the handshake without an ERROR: to the client a wrong server key looks
//! like a closed connection.

use super::{
    AuthRequest, HandshakeOutcome, MechanismResult, ZmtpHandshakeConfig, ZmtpHandshakeError, expect,
};
use crate::{
    buf::Reader,
    zmtp::{
        crypto::{KeyPair, PublicKey, SecretKey, SharedKey},
        link::curve::{CurveSession, HELLO, INITIATE, READY, WELCOME, long_nonce, short_nonce},
        wire::{
            Command, Mechanism, Metadata,
            curve::{COOKIE_LEN, CurveHello, CurveInitiate, CurveReady, CurveWelcome},
        },
    },
};
use bytes::Bytes;

const COOKIE: &[u8; 8] = b"COOKIE--";
const VOUCH: &[u8; 8] = b"VOUCH---";
const VOUCH_LEN: usize = 96;

/// Keys and random bytes of a client, for one connection.
#[derive(Clone, Debug)]
pub struct CurveClient {
    /// Its permanent keys.
    pub keys: KeyPair,
    /// The permanent key of the server, known beforehand.
    pub server: PublicKey,
    transient: KeyPair,
    vouch_nonce: [u8; 16],
}

impl CurveClient {
    /// `random` must be fresh for each connection, and from an unpredictable source.
    #[must_use]
    pub fn new(keys: KeyPair, server: PublicKey, random: &[u8; 48]) -> Self {
        let transient = KeyPair::of(SecretKey::new(part(random, 0)));
        Self { keys, server, transient, vouch_nonce: part(random, 32) }
    }

    /// Replaces the random parts for another connection.
    pub fn renew(&mut self, random: &[u8; 48]) {
        *self = Self::new(self.keys.clone(), self.server, random);
    }
}

/// Keys and random bytes of a server, for one connection.
#[derive(Clone, Debug)]
pub struct CurveServer {
    /// Its permanent keys.
    pub keys: KeyPair,
    /// Whether the authenticator is asked about each client; else any client that knows the server's
    /// key is accepted.
    pub authenticate: bool,
    transient: KeyPair,
    cookie_key: SharedKey,
    cookie_nonce: [u8; 16],
    welcome_nonce: [u8; 16],
}

impl CurveServer {
    /// `random` must be fresh for each connection, and from an unpredictable source.
    #[must_use]
    pub fn new(keys: KeyPair, authenticate: bool, random: &[u8; 96]) -> Self {
        Self {
            keys,
            authenticate,
            transient: KeyPair::of(SecretKey::new(part(random, 0))),
            cookie_key: SharedKey::new(part(random, 32)),
            cookie_nonce: part(random, 64),
            welcome_nonce: part(random, 80),
        }
    }

    /// Replaces the random parts for another connection.
    pub fn renew(&mut self, random: &[u8; 96]) {
        *self = Self::new(self.keys.clone(), self.authenticate, random);
    }
}

fn part<const N: usize>(random: &[u8], at: usize) -> [u8; N] {
    core::array::from_fn(|i| random[at + i])
}

const fn sealed(command: &'static str) -> ZmtpHandshakeError {
    ZmtpHandshakeError::Sealed { command }
}

fn shared(
    secret: &SecretKey,
    public: &PublicKey,
    command: &'static str,
) -> Result<SharedKey, ZmtpHandshakeError> {
    secret.shared(public).ok_or(ZmtpHandshakeError::WeakKey { command })
}

fn encoded(metadata: &Metadata) -> Vec<u8> {
    let mut out = Vec::new();
    metadata.encode(&mut out);
    out
}

#[derive(Debug)]
pub(super) struct CurveClientSide {
    given: CurveClient,
    /// The key between C' and S', known from WELCOME on.
    key: Option<SharedKey>,
}

impl CurveClientSide {
    pub(super) fn start(given: &CurveClient, out: &mut Vec<u8>) -> Result<Box<Self>, ZmtpHandshakeError> {
        // The local configuration names a key that no server can have.
        let key = given.transient.secret.shared(&given.server).ok_or(ZmtpHandshakeError::ServerKey)?;
        let signature = key.seal(&short_nonce(HELLO, 1), &[&[0; 64]]);
        CurveHello {
            version: CurveHello::VERSION,
            client_transient: given.transient.public.0,
            nonce: 1,
            signature: signature.try_into().expect("64 bytes and their tag"),
        }
        .encode_frame(out);
        Ok(Box::new(Self { given: given.clone(), key: None }))
    }

    pub(super) fn handle_command(
        &mut self,
        body: &Bytes,
        config: &ZmtpHandshakeConfig,
        out: &mut Vec<u8>,
    ) -> MechanismResult {
        let Some(key) = &self.key else {
            let welcome = expect::<CurveWelcome>(body)?;
            self.initiate(&welcome, config, out)?;
            return Ok(HandshakeOutcome::Continue);
        };
        let ready = expect::<CurveReady>(body)?;
        let nonce = short_nonce(READY, ready.nonce);
        let metadata = Bytes::from(key.open(&nonce, &ready.sealed).ok_or(sealed("READY"))?);
        let session = CurveSession { key: key.clone(), server: false, sent: 2, received: ready.nonce };
        Ok(HandshakeOutcome::Done {
            metadata: Metadata::decode(&mut Reader::new(&metadata))?,
            answer: None,
            session: Some(session),
        })
    }

    fn initiate(
        &mut self,
        welcome: &CurveWelcome,
        config: &ZmtpHandshakeConfig,
        out: &mut Vec<u8>,
    ) -> Result<(), ZmtpHandshakeError> {
        let given = &self.given;
        let key = given.transient.secret.shared(&given.server).ok_or(ZmtpHandshakeError::ServerKey)?;
        let opened = key.open(&long_nonce(WELCOME, &welcome.nonce), &welcome.sealed);
        let opened = Bytes::from(opened.ok_or(sealed("WELCOME"))?);
        let mut r = Reader::new(&opened);
        let server_transient = PublicKey(r.array("WELCOME server key")?);
        let cookie = r.array::<COOKIE_LEN>("WELCOME cookie")?;

        let vouching = shared(&given.keys.secret, &server_transient, "WELCOME")?;
        let vouch = vouching
            .seal(&long_nonce(VOUCH, &given.vouch_nonce), &[&given.transient.public.0, &given.server.0]);
        let key = shared(&given.transient.secret, &server_transient, "WELCOME")?;
        let metadata = encoded(&config.metadata());
        let parts = [&given.keys.public.0[..], &given.vouch_nonce, &vouch, &metadata];
        let sealed = key.seal(&short_nonce(INITIATE, 2), &parts).into();
        CurveInitiate { cookie, nonce: 2, sealed }.encode_frame(out);
        self.key = Some(key);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct CurveServerSide {
    given: CurveServer,
    state: ServerState,
}

#[derive(Debug)]
enum ServerState {
    Hello,
    Initiate { client_transient: PublicKey, nonce: u64, cookie: [u8; COOKIE_LEN] },
    Judging { session: CurveSession, metadata: Metadata },
}

impl CurveServerSide {
    pub(super) fn new(given: &CurveServer) -> Box<Self> {
        Box::new(Self { given: given.clone(), state: ServerState::Hello })
    }

    pub(super) fn handle_command(
        &mut self,
        body: &Bytes,
        config: &ZmtpHandshakeConfig,
        out: &mut Vec<u8>,
    ) -> MechanismResult {
        match core::mem::replace(&mut self.state, ServerState::Hello) {
            ServerState::Hello => {
                let hello = expect::<CurveHello>(body)?;
                self.welcome(&hello, out)?;
                Ok(HandshakeOutcome::Continue)
            }
            ServerState::Initiate { client_transient, nonce, cookie } => {
                let initiate = expect::<CurveInitiate>(body)?;
                if initiate.nonce <= nonce {
                    return Err(ZmtpHandshakeError::Nonce { got: initiate.nonce, last: nonce });
                }
                // Only the cookie of this connection is accepted: it holds C' and s'.
                if initiate.cookie != cookie {
                    return Err(ZmtpHandshakeError::Cookie);
                }
                self.admit(&client_transient, &initiate, config)
            }
            ServerState::Judging { .. } => Err(ZmtpHandshakeError::Over),
        }
    }

    fn welcome(&mut self, hello: &CurveHello, out: &mut Vec<u8>) -> Result<(), ZmtpHandshakeError> {
        if hello.version != CurveHello::VERSION {
            return Err(ZmtpHandshakeError::CurveVersion(hello.version));
        }
        let given = &self.given;
        let client_transient = PublicKey(hello.client_transient);
        let key = shared(&given.keys.secret, &client_transient, "HELLO")?;
        let opened = key.open(&short_nonce(HELLO, hello.nonce), &hello.signature);
        if opened.ok_or(sealed("HELLO"))?.iter().any(|byte| *byte != 0) {
            return Err(sealed("HELLO"));
        }
        // K is of this connection alone: an eavesdropper cannot open the cookie.
        let inner = given.cookie_key.seal(
            &long_nonce(COOKIE, &given.cookie_nonce),
            &[&client_transient.0, given.transient.secret.expose()],
        );
        let mut cookie = [0; COOKIE_LEN];
        cookie[..16].copy_from_slice(&given.cookie_nonce);
        cookie[16..].copy_from_slice(&inner);
        let sealed =
            key.seal(&long_nonce(WELCOME, &given.welcome_nonce), &[&given.transient.public.0, &cookie]);
        let sealed = sealed.try_into().expect("a key, a cookie and their tag");
        CurveWelcome { nonce: given.welcome_nonce, sealed }.encode_frame(out);
        self.state = ServerState::Initiate { client_transient, nonce: hello.nonce, cookie };
        Ok(())
    }

    fn admit(
        &mut self,
        client_transient: &PublicKey,
        initiate: &CurveInitiate,
        config: &ZmtpHandshakeConfig,
    ) -> MechanismResult {
        let given = &self.given;
        let key = shared(&given.transient.secret, client_transient, "INITIATE")?;
        let opened = key.open(&short_nonce(INITIATE, initiate.nonce), &initiate.sealed);
        let opened = Bytes::from(opened.ok_or(sealed("INITIATE"))?);
        let mut r = Reader::new(&opened);
        let client = PublicKey(r.array("INITIATE client key")?);
        let vouch_nonce = r.array::<16>("INITIATE vouch nonce")?;
        let vouch = r.array::<{ VOUCH_LEN - 16 }>("INITIATE vouch")?;
        let metadata = Metadata::decode(&mut r)?;

        // C vouches for C', and only towards S.
        let vouching = shared(&given.transient.secret, &client, "INITIATE")?;
        let vouched = vouching.open(&long_nonce(VOUCH, &vouch_nonce), &vouch);
        if vouched.ok_or(ZmtpHandshakeError::Vouch)? != [client_transient.0, given.keys.public.0].concat() {
            return Err(ZmtpHandshakeError::Vouch);
        }
        let session = CurveSession { key, server: true, sent: 1, received: initiate.nonce };
        if given.authenticate {
            self.state = ServerState::Judging { session, metadata };
            let credentials = vec![Bytes::copy_from_slice(&client.0)];
            return Ok(HandshakeOutcome::Authenticate(AuthRequest {
                mechanism: Mechanism::CURVE,
                credentials,
            }));
        }
        Ok(finish(session, metadata, config))
    }

    pub(super) fn allow(&mut self, config: &ZmtpHandshakeConfig) -> MechanismResult {
        match core::mem::replace(&mut self.state, ServerState::Hello) {
            ServerState::Judging { session, metadata } => Ok(finish(session, metadata, config)),
            _ => Err(ZmtpHandshakeError::NobodyWaits),
        }
    }
}

/// READY, the first sealed command that the server counts.
fn finish(session: CurveSession, metadata: Metadata, config: &ZmtpHandshakeConfig) -> HandshakeOutcome {
    let own = encoded(&config.metadata());
    let sealed = session.key.seal(&short_nonce(READY, 1), &[&own]).into();
    let answer = CurveReady { nonce: 1, sealed }.to_frame();
    HandshakeOutcome::Done { metadata, answer: Some(answer), session: Some(session) }
}
