//! TLS over TCP: `tls/<host>:<port>` (`zenoh-behaviour` 1.2, 7.1).
//!
//! One rustls connection behind one lock, which reader and writers share. Each holder decrypts everything
//! that was read, so that a writer never finds data for the reader. Large parts are encrypted in place;
//! small ones are copied together first, to share a record.

use super::transport::{Ends, Transport};
use crate::{
    config::{LinkConfig, Target, TlsSettings},
    error::ConnectReason,
    net::{
        tcp,
        tls::{client_config, identity, server_config, server_name},
        tls_error::TlsFailure,
    },
};
use bytes::{Buf, Bytes, BytesMut};
use core::time::Duration;
use parking_lot::Mutex;
use rustls::{
    Error, ServerConfig,
    client::UnbufferedClientConnection,
    server::UnbufferedServerConnection,
    unbuffered::{AppDataRecord, ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic},
};
use socket2::SockRef;
use std::{collections::VecDeque, io, net::Shutdown, sync::Arc};
use tokio::{net::TcpStream, time::timeout};

/// Protocol name in endpoints.
pub(super) const PROTOCOL: &str = "tls";

/// Largest plaintext of one record.
const FRAGMENT: usize = 16 * 1024;

/// Plaintext that is encrypted before it is written: enough to make a `write` worth its cost.
const CHUNK: usize = 4 * FRAGMENT;

/// More than a record adds to its plaintext, in any version of TLS.
const RECORD_OVERHEAD: usize = 64;

/// Size of the read buffer: at first above the largest record of 18,437 bytes; doubled while reads fill it.
const READ: core::ops::RangeInclusive<usize> = 20 * 1024..=256 * 1024;

/// Type of a record without content; one may precede an alert.
const CHANGE_CIPHER_SPEC: u8 = 0x14;

/// Time for which a listener that refused a peer waits for the peer to close, so that the refusal arrives:
/// closing with unread data would send a reset that overtakes it.
const REFUSED_LINGER: Duration = Duration::from_millis(500);

enum TlsSession {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// Bytes read and not yet decrypted.
#[derive(Default)]
struct TlsIncoming {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl TlsIncoming {
    /// Free part of the buffer to read into. The buffer doubles if the last read filled it.
    fn room(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.bytes.len() {
            let len = (2 * self.bytes.len()).clamp(*READ.start(), *READ.end());
            self.bytes.resize(len.max(self.end + FRAGMENT), 0);
        }
        &mut self.bytes[self.end..]
    }

    fn unread(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }
}

/// Bytes encrypted and not yet written.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    const fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    /// Appends what `encode` writes into at most `room` bytes; `needs` extracts the required size from its error.
    fn append<E: ToString>(
        &mut self,
        room: usize,
        mut encode: impl FnMut(&mut [u8]) -> Result<usize, E>,
        needs: impl Fn(&E) -> Option<usize>,
    ) -> Result<(), Error> {
        let before = self.bytes.len();
        self.bytes.resize(before + room, 0);
        let mut result = encode(&mut self.bytes[before..]);
        if let Err(error) = &result
            && let Some(size) = needs(error)
        {
            self.bytes.resize(before + size, 0);
            result = encode(&mut self.bytes[before..]);
        }
        self.bytes.truncate(before + *result.as_ref().unwrap_or(&0));
        result.map(drop).map_err(|error| Error::General(error.to_string()))
    }

    fn encrypt<D>(&mut self, writer: &mut WriteTraffic<'_, D>, plaintext: &[u8]) -> Result<(), Error> {
        let records = plaintext.len() / FRAGMENT + 1;
        self.append(
            plaintext.len() + records * RECORD_OVERHEAD,
            |room| writer.encrypt(plaintext, room),
            |error| match error {
                EncryptError::InsufficientSize(size) => Some(size.required_size),
                EncryptError::EncryptExhausted => None,
            },
        )
    }
}

/// Task of a turn once application data may be sent.
enum TlsTask<'a> {
    Nothing,
    /// Encrypts about [`CHUNK`] bytes of it.
    Encrypt(&'a mut VecDeque<Bytes>),
    SayGoodbye,
}

/// Result of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TlsTurn {
    /// The handshake waits for the other side.
    Blocked,
    /// Application data may be sent.
    Ready,
    /// Both sides have sent close_notify.
    Closed,
}

struct TlsState {
    session: TlsSession,
    incoming: TlsIncoming,
    outgoing: Outgoing,
    /// Small parts, copied together.
    staging: Vec<u8>,
    /// Data decrypted with the end of the handshake, for the first read.
    early: BytesMut,
    /// Whether close_notify was sent.
    closed: bool,
    /// Whether the other side has sent close_notify.
    peer_closed: bool,
    /// Error after which nothing more is read or sent.
    failed: Option<Error>,
}

impl TlsState {
    fn new(session: TlsSession) -> Self {
        let (incoming, outgoing, staging, early) = Default::default();
        Self { session, incoming, outgoing, staging, early, closed: false, peer_closed: false, failed: None }
    }

    /// Decrypts everything that was read into `plaintext`, and does `task` if possible. Data to be sent
    /// is in `outgoing` afterwards, including the alert of a failure.
    fn turn(&mut self, plaintext: &mut BytesMut, task: TlsTask<'_>) -> Result<TlsTurn, Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.step(plaintext, task);
        self.failed = result.as_ref().err().cloned();
        result
    }

    fn step(&mut self, plaintext: &mut BytesMut, task: TlsTask<'_>) -> Result<TlsTurn, Error> {
        /// The two kinds of connections have the same methods but no common trait.
        macro_rules! turn {
            ($session:expr) => {{
                let mut task = task;
                let mut failed = None;
                loop {
                    let UnbufferedStatus { mut discard, state } =
                        $session.process_tls_records(self.incoming.unread());
                    let mut done = None;
                    match state {
                        // One more iteration encodes the alert.
                        Err(error) if failed.is_none() => failed = Some(error),
                        Err(error) => return Err(failed.unwrap_or(error)),
                        Ok(ConnectionState::EncodeTlsData(mut data)) => {
                            let before = self.outgoing.bytes.len();
                            self.outgoing.append(
                                FRAGMENT,
                                |room| data.encode(room),
                                |error| match error {
                                    EncodeError::InsufficientSize(size) => Some(size.required_size),
                                    EncodeError::AlreadyEncoded => None,
                                },
                            )?;
                            // Another iteration would fail on the same record and send the alert again.
                            if self.outgoing.bytes.get(before) != Some(&CHANGE_CIPHER_SPEC)
                                && let Some(error) = failed
                            {
                                return Err(error);
                            }
                        }
                        Ok(_) if failed.is_some() => {
                            return Err(failed.unwrap_or(Error::HandshakeNotComplete));
                        }
                        // The data is in `outgoing`, which is written before anything else.
                        Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                        Ok(ConnectionState::ReadTraffic(mut records)) => {
                            while let Some(record) = records.next_record() {
                                let AppDataRecord { discard: more, payload, .. } = record?;
                                discard += more;
                                plaintext.extend_from_slice(payload);
                            }
                        }
                        Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                        Ok(ConnectionState::BlockedHandshake) => done = Some(TlsTurn::Blocked),
                        Ok(ConnectionState::Closed) => done = Some(TlsTurn::Closed),
                        Ok(ConnectionState::WriteTraffic(mut writer)) => {
                            match core::mem::replace(&mut task, TlsTask::Nothing) {
                                TlsTask::Nothing => {}
                                TlsTask::Encrypt(out) => {
                                    encrypt(&mut writer, out, &mut self.outgoing, &mut self.staging)?;
                                }
                                TlsTask::SayGoodbye => self.outgoing.append(
                                    RECORD_OVERHEAD,
                                    |room| writer.queue_close_notify(room),
                                    |_| None,
                                )?,
                            }
                            done = Some(TlsTurn::Ready);
                        }
                        Ok(other) => return Err(Error::General(format!("{other:?} was not asked for"))),
                    }
                    self.incoming.start += discard;
                    if let Some(turn) = done {
                        return Ok(turn);
                    }
                }
            }};
        }
        match &mut self.session {
            TlsSession::Client(session) => turn!(session),
            TlsSession::Server(session) => turn!(session),
        }
    }

    /// Writes encrypted bytes: true when nothing is left.
    fn flush(&mut self, socket: &TcpStream, mut progress: impl FnMut(usize)) -> io::Result<bool> {
        let Outgoing { bytes, written } = &mut self.outgoing;
        while *written < bytes.len() {
            match socket.try_write(&bytes[*written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    *written += n;
                    progress(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        bytes.clear();
        *written = 0;
        Ok(true)
    }

    /// Reads available bytes; 0 at the end.
    fn read(&mut self, socket: &TcpStream) -> io::Result<usize> {
        let n = socket.try_read(self.incoming.room())?;
        self.incoming.end += n;
        Ok(n)
    }
}

/// Encrypts about [`CHUNK`] bytes, in full records where possible.
fn encrypt<D>(
    writer: &mut WriteTraffic<'_, D>,
    out: &mut VecDeque<Bytes>,
    outgoing: &mut Outgoing,
    staging: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut taken = 0;
    staging.clear();
    while taken < CHUNK
        && let Some(part) = out.front_mut()
    {
        let direct = staging.is_empty() && part.len() >= FRAGMENT;
        let n = if direct {
            let n = part.len().min(CHUNK) / FRAGMENT * FRAGMENT;
            outgoing.encrypt(writer, &part[..n])?;
            n
        } else {
            let n = part.len().min(FRAGMENT - staging.len());
            staging.extend_from_slice(&part[..n]);
            n
        };
        taken += n;
        if n == part.len() {
            out.pop_front();
        } else {
            part.advance(n);
        }
        if staging.len() == FRAGMENT {
            outgoing.encrypt(writer, staging)?;
            staging.clear();
        }
    }
    if staging.is_empty() { Ok(()) } else { outgoing.encrypt(writer, staging) }
}

/// An established TLS connection.
pub(crate) struct TlsStream {
    socket: TcpStream,
    state: Mutex<TlsState>,
    /// Time at which the link ends with a certificate, in wall-clock time since 1970.
    expires: Option<Duration>,
    /// Common name in the certificate of the other side.
    name: Option<String>,
}

impl TlsStream {
    pub(super) async fn connect(target: &Target, link: &LinkConfig) -> Result<Self, ConnectReason> {
        let settings = link.tls_at(&target.options);
        let config = Arc::new(client_config(&settings)?);
        let name = server_name(target.endpoint.address())?;
        let socket = tcp::connect(target, link).await?;
        let session = UnbufferedClientConnection::new(config, name).map_err(|e| TlsFailure::from(&e))?;
        Self::establish(socket, TlsSession::Client(session), &settings).await
    }

    async fn establish(
        socket: TcpStream,
        session: TlsSession,
        settings: &TlsSettings,
    ) -> Result<Self, ConnectReason> {
        let limit = settings.handshake_limit();
        let mut state = TlsState::new(session);
        match timeout(limit, handshake(&socket, &mut state)).await {
            Err(_) => return Err(TlsFailure::Silent(limit).into()),
            Ok(Err(failure)) => {
                if matches!(state.session, TlsSession::Server(_)) {
                    linger(&socket).await;
                }
                return Err(failure);
            }
            Ok(Ok(())) => {}
        }
        let certificates = match &state.session {
            TlsSession::Client(session) => session.peer_certificates(),
            TlsSession::Server(session) => session.peer_certificates(),
        };
        let chain = certificates.unwrap_or_default().iter().map(|der| &der[..]);
        let (name, expires) = identity(chain, settings);
        Ok(Self { socket, state: Mutex::new(state), expires, name })
    }
}

impl Transport for TlsStream {
    fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        let mut state = self.state.lock();
        if !state.early.is_empty() {
            let early = core::mem::take(&mut state.early);
            buf.extend_from_slice(&early);
            return Ok(early.len());
        }
        let before = buf.len();
        // The protocol sends data of its own at times; the part that the socket does not take follows later.
        state.flush(&self.socket, |_| ())?;
        loop {
            if state.peer_closed || state.read(&self.socket)? == 0 {
                return Ok(0);
            }
            let turn = state.turn(buf, TlsTask::Nothing);
            let flushed = state.flush(&self.socket, |_| ());
            turn.map_err(failed)?;
            flushed?;
            if buf.len() > before {
                return Ok(buf.len() - before);
            }
        }
    }

    fn try_write(&self, out: &mut VecDeque<Bytes>, mut progress: impl FnMut(usize)) -> io::Result<bool> {
        let mut state = self.state.lock();
        loop {
            match state.flush(&self.socket, &mut progress) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return Err(state.last_words(&self.socket).unwrap_or(error)),
            }
            if out.is_empty() {
                return Ok(true);
            }
            if state.closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            // Everything that was read is decrypted already.
            let mut nothing = BytesMut::new();
            let turn = state.turn(&mut nothing, TlsTask::Encrypt(out)).map_err(failed)?;
            debug_assert!(nothing.is_empty());
            if turn != TlsTurn::Ready {
                // Nothing was taken, and nothing will be taken any more.
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
    }

    async fn readable(&self) -> io::Result<()> {
        let flushed = {
            let state = self.state.lock();
            if !state.early.is_empty() {
                return Ok(());
            }
            state.outgoing.is_empty()
        };
        if flushed {
            return self.socket.readable().await;
        }
        tokio::select! {
            ready = self.socket.readable() => ready,
            ready = self.socket.writable() => ready,
        }
    }

    async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Sends close_notify, if that is possible at once.
    fn close(&self) {
        let mut state = self.state.lock();
        let mut nothing = BytesMut::new();
        state.closed = true;
        // The connection ends in any case.
        let _ = state.turn(&mut nothing, TlsTask::SayGoodbye);
        let _ = state.flush(&self.socket, |_| ());
    }

    fn socket(&self) -> Option<&TcpStream> {
        Some(&self.socket)
    }

    fn is_tls(&self) -> bool {
        true
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn expires(&self) -> Option<Duration> {
        self.expires
    }

    fn ends(&self) -> io::Result<Ends> {
        Ends::of_socket(PROTOCOL, &self.socket)
    }
}

impl TlsState {
    /// Reads the alert of the other side, which may reject a client certificate after the handshake.
    fn last_words(&mut self, socket: &TcpStream) -> Option<io::Error> {
        let mut nothing = BytesMut::new();
        while matches!(self.read(socket), Ok(1..)) {
            if let Err(error) = self.turn(&mut nothing, TlsTask::Nothing) {
                return Some(failed(error));
            }
            nothing.clear();
        }
        None
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, TlsFailure::from(&error))
}

async fn handshake(socket: &TcpStream, state: &mut TlsState) -> Result<(), ConnectReason> {
    loop {
        let mut early = BytesMut::new();
        let turn = state.turn(&mut early, TlsTask::Nothing);
        state.early.unsplit(early);
        while !state.flush(socket, |_| ()).map_err(lost)? {
            socket.writable().await.map_err(lost)?;
        }
        match turn {
            Ok(TlsTurn::Ready) => return Ok(()),
            Ok(TlsTurn::Blocked) => {}
            Ok(TlsTurn::Closed) => return Err(TlsFailure::Closed.into()),
            Err(error) => return Err(TlsFailure::from(&error).into()),
        }
        loop {
            match state.read(socket) {
                Ok(0) => return Err(TlsFailure::Closed.into()),
                Ok(_) => break,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => socket.readable().await.map_err(lost)?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(lost(e)),
            }
        }
    }
}

fn lost(error: io::Error) -> ConnectReason {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => TlsFailure::Closed.into(),
        _ => ConnectReason::io(error),
    }
}

/// Shuts down the sending direction, and waits a little for the peer to close the other.
async fn linger(socket: &TcpStream) {
    /// Most bytes that a refused peer may still send.
    const MOST: usize = 64 * 1024;
    let gone = SockRef::from(socket).shutdown(Shutdown::Write).is_err();
    let drained = async {
        let (mut buf, mut left) = ([0; 1024], MOST);
        while left > 0 && socket.readable().await.is_ok() {
            match socket.try_read(&mut buf) {
                Ok(n @ 1..) => left = left.saturating_sub(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                _ => break,
            }
        }
    };
    if !gone {
        // A peer that does not close in that time may miss the reason of the refusal.
        let _ = timeout(REFUSED_LINGER, drained).await;
    }
}

/// TLS settings of a listener.
pub(crate) struct Acceptor {
    config: Arc<ServerConfig>,
    settings: TlsSettings,
}

impl Acceptor {
    pub(super) fn new(settings: TlsSettings) -> Result<Self, ConnectReason> {
        Ok(Self { config: Arc::new(server_config(&settings)?), settings })
    }

    /// Performs the handshake on an accepted connection.
    pub(super) async fn accept(&self, socket: TcpStream) -> Result<TlsStream, ConnectReason> {
        let session =
            UnbufferedServerConnection::new(self.config.clone()).map_err(|e| TlsFailure::from(&e))?;
        TlsStream::establish(socket, TlsSession::Server(session), &self.settings).await
    }
}

/// Checks the TLS settings of an outgoing link.
pub(super) fn check_connect(target: &Target, link: &LinkConfig) -> Result<(), ConnectReason> {
    client_config(&link.tls_at(&target.options))?;
    server_name(target.endpoint.address())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Pem, Secret};
    use tokio::net::TcpListener;

    async fn pair() -> (TlsStream, TlsStream) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = Pem::Raw(Secret::new(params.self_signed(&key).unwrap().pem()));
        let settings = TlsSettings {
            root_ca_certificate: Some(certificate.clone()),
            listen_certificate: Some(certificate),
            listen_private_key: Some(Pem::Raw(Secret::new(key.serialize_pem()))),
            ..TlsSettings::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let name = server_name("localhost:1").unwrap();
        let client = UnbufferedClientConnection::new(client_config(&settings).unwrap().into(), name).unwrap();
        let server = UnbufferedServerConnection::new(server_config(&settings).unwrap().into()).unwrap();
        let (near, far) = tokio::join!(
            TlsStream::establish(near, TlsSession::Client(client), &settings),
            TlsStream::establish(far, TlsSession::Server(server), &settings)
        );
        (near.unwrap(), far.unwrap())
    }

    /// Runs in a thread of its own: a write that does not end fails after ten seconds.
    fn written(stream: Arc<TlsStream>) -> io::Result<bool> {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut out = VecDeque::from([Bytes::from_static(b"late")]);
            tell.send(stream.try_write(&mut out, |_| ())).ok();
        });
        told.recv_timeout(Duration::from_secs(10)).expect("writing comes to an end")
    }

    #[tokio::test]
    async fn behind_the_goodbye_nothing_is_written() {
        let (near, far) = pair().await;
        let (near, far) = (Arc::new(near), Arc::new(far));
        assert!(written(near.clone()).unwrap());
        near.close();
        let error = written(near.clone()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "we have said goodbye");
        let mut read = BytesMut::new();
        loop {
            far.readable().await.unwrap();
            match far.try_read(&mut read) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(&read[..], b"late");
        // The other direction is still open, in TLS.
        assert!(written(far.clone()).unwrap());
        far.close();
        let error = written(far.clone()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "both have");
    }
}
