//! Turns the handshake machines over a TCP stream.

use crate::{clock, error::ConnectReason, tap::TappedConnection};
use bytes::{Bytes, BytesMut};
use core::time::Duration;
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use zwire_proto::zenoh::{
    Remote,
    link::{Acceptor, HandshakeError, LinkParams, Opener, Step, StreamFramer},
    wire::CloseReason,
};

/// An established session, and what was read behind its handshake.
pub(crate) struct Established {
    pub(crate) stream: TcpStream,
    pub(crate) params: LinkParams,
    pub(crate) rest: BytesMut,
    /// Where its bytes go to as well; those so far are there.
    pub(crate) tap: Option<TappedConnection>,
}

/// A connection, and who listens in.
struct Wire {
    stream: TcpStream,
    tap: Option<TappedConnection>,
}

enum Role {
    Opener(Opener),
    Acceptor(Acceptor),
}

impl Role {
    fn poll_transmit(&mut self) -> Option<Bytes> {
        match self {
            Self::Opener(m) => m.poll_transmit(),
            Self::Acceptor(m) => m.poll_transmit(),
        }
    }
    fn handle_batch(&mut self, batch: Bytes) -> Result<Step, HandshakeError> {
        match self {
            Self::Opener(m) => m.handle_batch(batch),
            Self::Acceptor(m) => m.handle_batch(batch),
        }
    }
}

/// Opens a session over a fresh connection.
///
/// # Errors
/// Why there is none; the peer was told.
pub(crate) async fn open(
    stream: TcpStream,
    tap: Option<TappedConnection>,
    opener: Opener,
    limit: Duration,
) -> Result<Established, ConnectReason> {
    let admit = |_: &Remote| Ok(());
    match timeout(limit, run(Wire { stream, tap }, Role::Opener(opener), admit)).await {
        Ok(result) => result,
        Err(_) => Err(ConnectReason::TimedOut(limit)),
    }
}

/// Accepts a session over a fresh connection. `admit` decides about the peer once it is known.
///
/// # Errors
/// Why there is none; the peer was told.
pub(crate) async fn accept(
    stream: TcpStream,
    tap: Option<TappedConnection>,
    acceptor: Acceptor,
    limit: Duration,
    admit: impl FnMut(&Remote) -> Result<(), CloseReason>,
) -> Result<Established, ConnectReason> {
    match timeout(limit, run(Wire { stream, tap }, Role::Acceptor(acceptor), admit)).await {
        Ok(result) => result,
        // Silence is answered with silence.
        Err(_) => Err(ConnectReason::TimedOut(limit)),
    }
}

async fn run(
    mut wire: Wire,
    mut role: Role,
    mut admit: impl FnMut(&Remote) -> Result<(), CloseReason>,
) -> Result<Established, ConnectReason> {
    // Handshake batches are small; a longer one grows the buffer up to what the framer allows.
    let mut buf = BytesMut::with_capacity(1024);
    let framer = StreamFramer::handshake();
    let result = loop {
        wire.flush(&mut role).await?;
        let batch = loop {
            match framer.next(&mut buf) {
                Ok(Some(batch)) => break batch,
                Ok(None) => {}
                Err(error) => {
                    let error = HandshakeError::from(error);
                    wire.refuse(error.close_reason()).await;
                    return Err(error.into());
                }
            }
            wire.read(&mut buf).await?;
        };
        match role.handle_batch(batch) {
            Ok(Step::Continue) => {}
            Ok(Step::Admit(remote)) => {
                if let Role::Acceptor(acceptor) = &mut role {
                    match admit(&remote) {
                        Ok(()) => {
                            let params = acceptor.admit()?;
                            wire.flush(&mut role).await?;
                            break params;
                        }
                        Err(reason) => {
                            let error = acceptor.refuse(reason);
                            wire.flush(&mut role).await?;
                            return Err(error.into());
                        }
                    }
                }
            }
            Ok(Step::Done(params)) => {
                wire.flush(&mut role).await?;
                break params;
            }
            Err(error) => {
                wire.flush(&mut role).await?;
                wire.refuse(error.close_reason()).await;
                return Err(error.into());
            }
        }
    };
    tracing::debug!(peer = %result.remote.zid, at = ?clock::mono(), "session established");
    let Wire { stream, tap } = wire;
    Ok(Established { stream, params: result, rest: buf, tap })
}

impl Wire {
    /// Appends what comes next, at least a byte.
    async fn read(&mut self, buf: &mut BytesMut) -> Result<(), ConnectReason> {
        let before = buf.len();
        if self.stream.read_buf(buf).await.map_err(io)? == 0 {
            return Err(io(std::io::ErrorKind::UnexpectedEof.into()));
        }
        if let Some(tap) = &self.tap {
            tap.received(&buf[before..]);
        }
        Ok(())
    }

    async fn flush(&mut self, role: &mut Role) -> Result<(), ConnectReason> {
        while let Some(batch) = role.poll_transmit() {
            self.write_batch(&batch).await?;
        }
        Ok(())
    }

    async fn write_batch(&mut self, batch: &Bytes) -> Result<(), ConnectReason> {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "handshake batches are bounded by the cookie, a z16"
        )]
        let len = (batch.len() as u16).to_le_bytes();
        let mut framed = Vec::with_capacity(2 + batch.len());
        framed.extend_from_slice(&len);
        framed.extend_from_slice(batch);
        let framed = Bytes::from(framed);
        // Before it is written: no answer stands in front of its question.
        if let Some(tap) = &self.tap {
            tap.sent(core::slice::from_ref(&framed));
        }
        self.stream.write_all(&framed).await.map_err(io)
    }

    async fn refuse(&mut self, reason: Option<CloseReason>) {
        if let Some(reason) = reason {
            // Best effort: the connection is given up either way.
            let _ = self.write_batch(&zwire_proto::zenoh::link::close_batch(reason)).await;
            let _ = self.stream.shutdown().await;
        }
    }
}

fn io(error: std::io::Error) -> ConnectReason {
    ConnectReason::Io(Arc::new(error))
}
