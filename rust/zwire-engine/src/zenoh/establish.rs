//! Drives the handshake machines over a new connection.

use crate::{
    error::ConnectReason,
    lending::Ticket,
    net::{io::Io, tap::TappedConnection, tls_error::TlsFailure},
    zenoh::contacts::{Contact, Contacts},
};
use bytes::{Bytes, BytesMut};
use core::time::Duration;
use std::{collections::VecDeque, io, sync::Arc};
use tokio::time::timeout;
use zwire_proto::zenoh::{
    Remote,
    discovery::Proof,
    link::{Acceptor, HandshakeError, LinkParams, Opener, Step, StreamFramer},
    wire::CloseReason,
};

/// Established session, with the bytes that were read after its handshake.
pub(crate) struct Established {
    pub(crate) io: Io,
    pub(crate) params: LinkParams,
    pub(crate) rest: BytesMut,
    /// Capture that its bytes are copied to; those of the handshake are in it already.
    pub(crate) tap: Option<TappedConnection>,
    /// Claim on the only session with that node.
    pub(crate) contact: Contact,
    /// Of an acceptor: where the channel for shared memory arrives.
    pub(crate) lending: Option<Ticket>,
}

/// Handshake batches are small; a longer one grows the buffer up to what the framer allows.
const READ_BYTES: usize = 1024;

/// First bytes of a WebSocket connection; a first Zenoh batch of that length (17,735 bytes) does not
/// occur.
const HTTP: &[u8] = b"GET ";

/// A connection, and the capture that records it.
struct HandshakeWire {
    io: Io,
    tap: Option<TappedConnection>,
}

/// A machine, and the check that the connection does not become a second session with the same node.
enum Role<F> {
    Opener(Opener, Arc<Contacts>),
    Acceptor(Acceptor, Arc<Contacts>, F),
}

impl<F> Role<F> {
    fn poll_transmit(&mut self) -> Option<Bytes> {
        match self {
            Self::Opener(m, _) => m.poll_transmit(),
            Self::Acceptor(m, ..) => m.poll_transmit(),
        }
    }

    fn handle_batch(&mut self, batch: Bytes) -> Result<Step, HandshakeError> {
        match self {
            Self::Opener(m, _) => m.handle_batch(batch),
            Self::Acceptor(m, ..) => m.handle_batch(batch),
        }
    }
}

/// Opens a session over a new connection.
///
/// # Errors
/// Reason of the failure; the peer was told.
pub(crate) async fn open(
    io: Io,
    tap: Option<TappedConnection>,
    opener: Opener,
    limit: Duration,
    contacts: &Arc<Contacts>,
) -> Result<Established, ConnectReason> {
    type Never = fn(&Remote, Proof<'_>) -> Result<Option<Contact>, CloseReason>;
    let role = Role::<Never>::Opener(opener, contacts.clone());
    timeout(limit, run(HandshakeWire { io, tap }, role)).await.unwrap_or(Err(ConnectReason::TimedOut(limit)))
}

/// Accepts a session over a new connection. `admit` decides about the peer once its id is known, and what it
/// has proved; it is called again after [`Contacts::answered`] if it returns `None`.
///
/// # Errors
/// Reason of the failure; the peer was told.
pub(crate) async fn accept(
    io: Io,
    tap: Option<TappedConnection>,
    acceptor: Acceptor,
    limit: Duration,
    contacts: &Arc<Contacts>,
    admit: impl FnMut(&Remote, Proof<'_>) -> Result<Option<Contact>, CloseReason>,
) -> Result<Established, ConnectReason> {
    let role = Role::Acceptor(acceptor, contacts.clone(), admit);
    // After a timeout the peer gets no CLOSE.
    timeout(limit, run(HandshakeWire { io, tap }, role)).await.unwrap_or(Err(ConnectReason::TimedOut(limit)))
}

async fn run(
    mut wire: HandshakeWire,
    mut role: Role<impl FnMut(&Remote, Proof<'_>) -> Result<Option<Contact>, CloseReason>>,
) -> Result<Established, ConnectReason> {
    let mut buf = BytesMut::new();
    let framer = StreamFramer::handshake();
    let mut contact = None;
    let mut first = true;
    let (params, contact) = loop {
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
            wire.read(&mut buf, first).await?;
            // Checked on the first bytes, because a TLS record looks like the header of a long batch that
            // never completes.
            if first && TlsFailure::begins(&buf) {
                return Err(TlsFailure::OnlyTls.into());
            }
            if first && buf.starts_with(HTTP) {
                let words = "the other side speaks it, this endpoint does not".to_owned();
                return Err(ConnectReason::WebSocket(words));
            }
        };
        first = false;
        match role.handle_batch(batch) {
            Ok(Step::Continue) => {
                if let Role::Opener(opener, contacts) = &role
                    && let Some(remote) = opener.remote()
                {
                    match contacts.open(remote) {
                        Ok(opened) => contact = Some(opened),
                        Err(reason) => {
                            wire.refuse(Some(close_reason(&reason))).await;
                            return Err(reason);
                        }
                    }
                }
            }
            Ok(Step::Admit(remote)) => {
                if let Role::Acceptor(acceptor, contacts, admit) = &mut role {
                    let admitted = loop {
                        let proof = Proof { username: acceptor.user(), common_name: wire.io.name() };
                        match admit(&remote, proof) {
                            Ok(Some(contact)) => break Ok(contact),
                            Ok(None) => contacts.answered(remote.zid).await,
                            Err(reason) => break Err(reason),
                        }
                    };
                    match admitted {
                        Ok(contact) => {
                            let params = acceptor.admit()?;
                            wire.flush(&mut role).await?;
                            break (params, contact);
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
                // INIT ACK precedes this point, and it created the contact.
                let Some(contact) = contact.take() else { return Err(HandshakeError::NobodyWaits.into()) };
                contact.confirm();
                break (params, contact);
            }
            Err(error) => {
                wire.flush(&mut role).await?;
                wire.refuse(error.close_reason()).await;
                return Err(error.into());
            }
        }
    };
    tracing::debug!(zid = %params.remote.zid, whatami = %params.remote.whatami, "handshake done");
    let HandshakeWire { io, tap } = wire;
    Ok(Established { io, params, rest: buf, tap, contact, lending: None })
}

/// Close reason sent to a node that answered a connection which is no longer wanted.
fn close_reason(reason: &ConnectReason) -> CloseReason {
    match reason {
        ConnectReason::Handshake(error) => error.close_reason().unwrap_or(CloseReason::GENERIC),
        _ => CloseReason::MAX_LINKS,
    }
}

impl HandshakeWire {
    /// Appends the next bytes, at least one. `first`: nothing was received so far.
    async fn read(&mut self, buf: &mut BytesMut, first: bool) -> Result<(), ConnectReason> {
        let before = buf.len();
        loop {
            buf.reserve(READ_BYTES);
            match self.io.try_read(buf) {
                Ok(0) if first && self.io.is_tls() => {
                    let words = "it closed the connection without a reason".to_owned();
                    return Err(TlsFailure::Refused(words).into());
                }
                Ok(0) => {
                    let words = if first {
                        "the peer closed the connection at once: does it speak another protocol there?"
                    } else {
                        "the peer closed the connection within the handshake"
                    };
                    return Err(ConnectReason::io(io::Error::new(io::ErrorKind::UnexpectedEof, words)));
                }
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.io.readable().await.map_err(ConnectReason::io)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ConnectReason::io(error)),
            }
        }
        if let Some(tap) = &self.tap {
            tap.received(&buf[before..]);
        }
        Ok(())
    }

    async fn flush<F>(&mut self, role: &mut Role<F>) -> Result<(), ConnectReason> {
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
        // Captured before it is written, so that no answer precedes its question in the capture.
        if let Some(tap) = &self.tap {
            tap.sent(core::slice::from_ref(&framed));
        }
        let mut out = VecDeque::from([framed]);
        while !self.io.try_write(&mut out, |_| ()).map_err(ConnectReason::io)? {
            self.io.writable().await.map_err(ConnectReason::io)?;
        }
        Ok(())
    }

    async fn refuse(&mut self, reason: Option<CloseReason>) {
        if let Some(reason) = reason {
            // Best effort: the connection is given up either way.
            let _ = self.write_batch(&zwire_proto::zenoh::link::close_batch(reason)).await;
        }
        self.io.close();
    }
}
