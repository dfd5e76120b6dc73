//! PLAIN: user and password in clear (`zmtp` 6.2).
//!
//! ```text
//!   client:  HELLO ──▶ waits for WELCOME ──▶ INITIATE ──▶ waits for READY
//!   server:  waits for HELLO ──▶ asks ──▶ WELCOME ──▶ waits for INITIATE ──▶ READY
//! ```

use super::{
    AuthRequest, HandshakeOutcome, MechanismResult, ZmtpHandshakeConfig, ZmtpHandshakeError, expect,
};
use crate::zmtp::wire::{
    Command, Error, Mechanism, Ready,
    plain::{PlainHello, PlainInitiate, PlainWelcome},
};
use bytes::Bytes;

/// Credentials of a client, in the form in which it sends them.
pub use crate::zmtp::wire::plain::PlainHello as PlainCredentials;

#[derive(Debug)]
pub(super) enum PlainClientSide {
    Welcome,
    Ready,
}

impl PlainClientSide {
    pub(super) fn start(credentials: &PlainCredentials, out: &mut Vec<u8>) -> Self {
        credentials.encode_frame(out);
        Self::Welcome
    }

    pub(super) fn handle_command(
        &mut self,
        body: &Bytes,
        config: &ZmtpHandshakeConfig,
        out: &mut Vec<u8>,
    ) -> MechanismResult {
        // libzmq misspells ERROR here.
        if let Some(error) = Error::decode_of_plain_server(body) {
            return Err(ZmtpHandshakeError::Peer { reason: error?.reason });
        }
        match self {
            Self::Welcome => {
                expect::<PlainWelcome>(body)?;
                PlainInitiate { metadata: config.metadata() }.encode_frame(out);
                *self = Self::Ready;
                Ok(HandshakeOutcome::Continue)
            }
            Self::Ready => Ok(HandshakeOutcome::done(expect::<Ready>(body)?.metadata, None)),
        }
    }
}

#[derive(Debug)]
pub(super) enum PlainServerSide {
    Hello,
    Initiate,
}

impl PlainServerSide {
    pub(super) fn handle_command(&mut self, body: &Bytes, config: &ZmtpHandshakeConfig) -> MechanismResult {
        match self {
            Self::Hello => {
                let PlainHello { username, password } = expect(body)?;
                let credentials = vec![username, password];
                Ok(HandshakeOutcome::Authenticate(AuthRequest { mechanism: Mechanism::PLAIN, credentials }))
            }
            Self::Initiate => {
                let PlainInitiate { metadata } = expect(body)?;
                let answer = Ready { metadata: config.metadata() }.to_frame();
                Ok(HandshakeOutcome::done(metadata, Some(answer)))
            }
        }
    }

    pub(super) fn allow(&mut self, out: &mut Vec<u8>) -> MechanismResult {
        PlainWelcome.encode_frame(out);
        *self = Self::Initiate;
        Ok(HandshakeOutcome::Continue)
    }
}
