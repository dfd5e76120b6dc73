//! NULL: READY from both at once (`zmtp` 6.1).

use super::{AuthRequest, HandshakeOutcome, MechanismResult, ZmtpHandshakeConfig, expect};
use crate::zmtp::wire::{Command, Mechanism, Ready};
use bytes::Bytes;

#[derive(Debug)]
pub(super) struct Null;

impl Null {
    /// Sends READY without waiting for the peer's; with an authenticator, once it has agreed.
    pub(super) fn start(
        authenticate: bool,
        config: &ZmtpHandshakeConfig,
        out: &mut Vec<u8>,
    ) -> HandshakeOutcome {
        if authenticate {
            let request = AuthRequest { mechanism: Mechanism::NULL, credentials: Vec::new() };
            return HandshakeOutcome::Authenticate(request);
        }
        Ready { metadata: config.metadata() }.encode_frame(out);
        HandshakeOutcome::Continue
    }

    pub(super) fn allow(&mut self, config: &ZmtpHandshakeConfig, out: &mut Vec<u8>) -> MechanismResult {
        Ready { metadata: config.metadata() }.encode_frame(out);
        Ok(HandshakeOutcome::Continue)
    }

    /// Traffic may be sent only after the peer's READY (`zmtp` 2, rule 4), which this command is.
    pub(super) fn handle_command(&mut self, body: &Bytes) -> MechanismResult {
        Ok(HandshakeOutcome::done(expect::<Ready>(body)?.metadata, None))
    }
}
