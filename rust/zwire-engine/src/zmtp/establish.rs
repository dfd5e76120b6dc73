//! Drives the handshake machine over a TCP stream.

use super::{
    CloseReason, ConnectionConfig, Owner, Verdict,
    lending::{Offered, Side},
};
use crate::lending::Ticket;
use bytes::BytesMut;
use std::{io, net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use zwire_proto::zmtp::{
    link::{AuthRequest, Denial, Handshake, HandshakeStep, Security, ZmtpHandshakeConfig, ZmtpLinkParams},
    wire::{Greeting, Mechanism},
};

/// Size of reads; a longer command grows the buffer up to the limit of the machine.
const READ_BYTES: usize = 1024;

/// Connection with a completed handshake, and the bytes read after it.
pub(super) struct ShakenStream {
    pub(super) stream: TcpStream,
    pub(super) remote: SocketAddr,
    pub(super) params: ZmtpLinkParams,
    /// Place for the channel of lending, on the side that accepts.
    pub(super) ticket: Option<Ticket>,
    pub(super) rest: BytesMut,
}

/// The configuration with fresh random numbers.
fn fresh(config: &ZmtpHandshakeConfig) -> Result<ZmtpHandshakeConfig, CloseReason> {
    let random = |bytes: &mut [u8]| {
        getrandom::fill(bytes).map_err(|_| CloseReason::from(io::Error::other("no randomness")))
    };
    let mut config = config.clone();
    match &mut config.security {
        Security::CurveClient(client) => {
            let mut bytes = [0; 48];
            random(&mut bytes)?;
            client.renew(&bytes);
        }
        Security::CurveServer(server) => {
            let mut bytes = [0; 96];
            random(&mut bytes)?;
            server.renew(&bytes);
        }
        Security::Null { .. } | Security::PlainClient(_) | Security::PlainServer => {}
    }
    Ok(config)
}

/// Performs the handshake on a new connection. `promise` is called before a READY is sent, with which a peer
/// may complete the handshake and send messages; it may wait, and the handshake ends where it returns an error.
///
/// # Errors
/// Reason of the failure; the peer was sent an ERROR if the protocol provides for it.
pub(super) async fn establish<F: Future<Output = Result<(), CloseReason>> + Send>(
    stream: TcpStream,
    config: &ConnectionConfig,
    owner: &Arc<dyn Owner>,
    side: Side,
    promise: impl Fn() -> F + Send + Sync,
) -> Result<ShakenStream, CloseReason> {
    let limit = config.handshake_timeout;
    let run = run(stream, config, owner, side, promise);
    timeout(limit, run).await.unwrap_or(Err(CloseReason::HandshakeTimeout(limit)))
}

async fn run<F: Future<Output = Result<(), CloseReason>> + Send>(
    mut stream: TcpStream,
    config: &ConnectionConfig,
    owner: &Arc<dyn Owner>,
    side: Side,
    promise: impl Fn() -> F + Send + Sync,
) -> Result<ShakenStream, CloseReason> {
    let remote = stream.peer_addr()?;
    let offered = config.lending.as_ref().and_then(|host| host.offer(&stream, side));
    let (lending, ticket) = offered.map_or((None, None), |Offered { offer, ticket }| (Some(offer), ticket));
    let mut machine = Handshake::new(ZmtpHandshakeConfig { lending, ..fresh(&config.handshake)? });
    let mut buf = BytesMut::with_capacity(READ_BYTES);
    let mut read = 0;
    loop {
        flush(&mut stream, &mut machine).await?;
        let mut step = machine.handle_bytes(&mut buf);
        while let Ok(HandshakeStep::Authenticate(request)) = step {
            step = match judge(config, owner, remote, request).await {
                Verdict::Allow { user_id, metadata } => machine.allow(user_id, metadata),
                Verdict::Deny(denial) => Err(machine.deny(denial)),
            };
        }
        // Under NULL both sides send READY after the greetings, else the server sends the last command.
        let null = config.handshake.security.mechanism() == Mechanism::NULL;
        if matches!(step, Ok(HandshakeStep::Done(_))) || (null && read >= Greeting::LEN) {
            promise().await?;
        }
        // Pending output is also written before an error is returned.
        let flushed = flush(&mut stream, &mut machine).await;
        match step {
            Ok(HandshakeStep::Done(params)) => {
                flushed?;
                return Ok(ShakenStream { stream, remote, params: *params, ticket, rest: buf });
            }
            Err(error) => return Err(error.into()),
            Ok(_) => flushed?,
        }
        match stream.read_buf(&mut buf).await? {
            0 => {
                let mechanism = config.handshake.security.mechanism();
                return Err(CloseReason::ClosedInHandshake { mechanism, answered: read > Greeting::LEN });
            }
            n => read += n,
        }
    }
}

async fn flush(stream: &mut TcpStream, machine: &mut Handshake) -> Result<(), CloseReason> {
    while let Some(bytes) = machine.poll_transmit() {
        stream.write_all(&bytes).await?;
    }
    Ok(())
}

/// Asks the authenticator once it is the turn of the peer.
async fn judge(
    config: &ConnectionConfig,
    owner: &Arc<dyn Owner>,
    remote: SocketAddr,
    request: AuthRequest,
) -> Verdict {
    let turn = config.turns.wait(remote.ip()).await;
    let owner = owner.clone();
    // The call goes on if the handshake is aborted, and so does its turn.
    let call = move || {
        let _turn = turn;
        owner.authenticate(remote, &request)
    };
    let verdict = tokio::task::spawn_blocking(call).await;
    // The authenticator panicked, or the runtime is shutting down.
    verdict.unwrap_or(Verdict::Deny(Denial::Internal))
}
