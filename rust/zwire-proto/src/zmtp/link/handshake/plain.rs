//! PLAIN: user and password in clear (`zmtp` 6.2).
//!
//! ```text
//!   client:  HELLO ──▶ waits for WELCOME ──▶ INITIATE ──▶ waits for READY
//!   server:  waits for HELLO ──▶ asks ──▶ WELCOME ──▶ waits for INITIATE ──▶ READY
//! ```

use super::{AuthRequest, HandshakeConfig, HandshakeError, MechanismResult, Outcome, expect};
use crate::zmtp::wire::{
    Command, Error, Mechanism, Ready,
    plain::{Hello, Initiate, Welcome},
};
use bytes::Bytes;
use core::fmt;

/// Credentials of a client; at most 255 bytes each.
#[derive(Clone, PartialEq, Eq)]
pub struct PlainCredentials {
    /// The name.
    pub username: Bytes,
    /// The secret, which travels in clear.
    pub password: Bytes,
}

impl fmt::Debug for PlainCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainCredentials").field("username", &self.username).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) enum Client {
    Welcome,
    Ready,
}

impl Client {
    pub(super) fn start(credentials: &PlainCredentials, out: &mut Vec<u8>) -> Self {
        let PlainCredentials { username, password } = credentials.clone();
        Hello { username, password }.encode_frame(out);
        Self::Welcome
    }

    pub(super) fn handle_command(
        &mut self,
        body: &Bytes,
        config: &HandshakeConfig,
        out: &mut Vec<u8>,
    ) -> MechanismResult {
        // libzmq misspells ERROR here.
        if let Some(error) = Error::decode_of_plain_server(body) {
            return Err(HandshakeError::Peer { reason: error?.reason });
        }
        match self {
            Self::Welcome => {
                expect::<Welcome>(body)?;
                Initiate { metadata: config.metadata() }.encode_frame(out);
                *self = Self::Ready;
                Ok(Outcome::Continue)
            }
            Self::Ready => Ok(Outcome::done(expect::<Ready>(body)?.metadata, None)),
        }
    }
}

#[derive(Debug)]
pub(super) enum Server {
    Hello,
    Initiate,
}

impl Server {
    pub(super) const fn start() -> Self {
        Self::Hello
    }

    pub(super) fn handle_command(&mut self, body: &Bytes, config: &HandshakeConfig) -> MechanismResult {
        match self {
            Self::Hello => {
                let Hello { username, password } = expect(body)?;
                let credentials = vec![username, password];
                Ok(Outcome::Authenticate(AuthRequest { mechanism: Mechanism::PLAIN, credentials }))
            }
            Self::Initiate => {
                let Initiate { metadata } = expect(body)?;
                let answer = Ready { metadata: config.metadata() }.to_frame();
                Ok(Outcome::done(metadata, Some(answer)))
            }
        }
    }

    pub(super) fn allow(&mut self, out: &mut Vec<u8>) -> MechanismResult {
        Welcome.encode_frame(out);
        *self = Self::Initiate;
        Ok(Outcome::Continue)
    }
}
