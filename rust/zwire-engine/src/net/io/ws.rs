//! WebSocket: one batch per binary message, without prefix (`zenoh-behaviour` 1.2, RFC 6455).

use super::{
    message::Prefix,
    transport::{Ends, Transport},
};
use crate::{
    config::{LinkConfig, Target},
    error::ConnectReason,
    net::tcp,
};
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    sync::Arc,
};
use tokio::net::TcpStream;
use tungstenite::{
    Error, HandshakeError, Message, WebSocket,
    handshake::{
        HandshakeRole, MidHandshake,
        server::{Callback, ErrorResponse, Request, Response},
    },
    http::StatusCode,
    protocol::WebSocketConfig,
};

/// Protocol name in endpoints.
pub(super) const PROTOCOL: &str = "ws";

/// Largest batch.
const MTU: usize = u16::MAX as usize;

/// Bytes that are framed before they are written: enough to make a `write` worth its cost.
const CHUNK: usize = 128 * 1024;

/// Never reached: at most this much is framed before the socket is written to.
const BUFFER: usize = 2 * (CHUNK + MTU);

/// Non-blocking socket with the traits that the WebSocket library expects.
struct WsSocket(Arc<TcpStream>);

impl Read for WsSocket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buf)
    }
}

impl Write for WsSocket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        // Flushed explicitly, so that it is known when framed data was written.
        .write_buffer_size(BUFFER)
        .max_write_buffer_size(2 * BUFFER)
        .max_message_size(Some(MTU))
        .max_frame_size(Some(MTU))
}

/// An established WebSocket connection.
pub(crate) struct WsStream {
    socket: Arc<TcpStream>,
    state: Mutex<WebSocket<WsSocket>>,
    prefix: Prefix,
}

impl WsStream {
    pub(super) async fn connect(target: &Target, link: &LinkConfig) -> Result<Self, ConnectReason> {
        let socket = Arc::new(tcp::connect(target, link).await?);
        let uri = format!("ws://{}/", target.endpoint.address());
        let started = tungstenite::client::client_with_config(uri, WsSocket(socket.clone()), Some(config()));
        let (state, _) = complete(&socket, started).await?;
        Ok(Self { socket, state: Mutex::new(state), prefix: Prefix::default() })
    }

    /// Performs the handshake on an accepted connection; the caller bounds the time.
    pub(super) async fn accept(socket: TcpStream, origins: Arc<[String]>) -> Result<Self, ConnectReason> {
        let socket = Arc::new(socket);
        let check = OriginCheck { origins, refused: Arc::default() };
        let refused = check.refused.clone();
        let started = tungstenite::accept_hdr_with_config(WsSocket(socket.clone()), check, Some(config()));
        let state = complete(&socket, started).await.map_err(|error| match refused.lock().take() {
            Some(origin) => ConnectReason::WebSocket(format!("{origin:?} is not among zwire/ws/origins")),
            None => error,
        })?;
        Ok(Self { socket, state: Mutex::new(state), prefix: Prefix::default() })
    }
}

/// Check of the `Origin` that browsers add to a request (RFC 6455, 10.2). Programs add none. Without it every
/// page that a user of this network visits could speak to its nodes.
struct OriginCheck {
    origins: Arc<[String]>,
    /// The origin that was refused.
    refused: Arc<Mutex<Option<String>>>,
}

impl Callback for OriginCheck {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let Some(origin) = request.headers().get("origin") else { return Ok(response) };
        let is_listed =
            |listed: &String| listed == "*" || origin.as_bytes().eq_ignore_ascii_case(listed.as_bytes());
        if self.origins.iter().any(is_listed) {
            return Ok(response);
        }
        *self.refused.lock() = Some(origin.to_str().unwrap_or("not ASCII").to_owned());
        let mut refusal = ErrorResponse::new(Some("origin not in zwire/ws/origins".to_owned()));
        *refusal.status_mut() = StatusCode::FORBIDDEN;
        Err(refusal)
    }
}

impl Transport for WsStream {
    /// Reads one message. Pings are answered on the way.
    fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        let mut state = self.state.lock();
        loop {
            match state.read() {
                Ok(Message::Binary(message)) => {
                    let before = buf.len();
                    self.prefix.append(buf, &message);
                    return Ok(buf.len() - before);
                }
                Ok(Message::Text(_)) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a text frame on a WebSocket link",
                    ));
                }
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Ok(0),
                Err(error) => return Err(io_error(error)),
            }
        }
    }

    fn try_write(&self, out: &mut VecDeque<Bytes>, mut progress: impl FnMut(usize)) -> io::Result<bool> {
        let mut state = self.state.lock();
        loop {
            match state.flush() {
                Ok(()) => {}
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(io_error(error)),
            }
            let mut framed = 0;
            while framed < CHUNK {
                let sent = self.prefix.send_first(out, |parts, len| {
                    let mut message = BytesMut::with_capacity(len);
                    parts.iter().for_each(|part| message.put_slice(part));
                    match state.write(Message::Binary(message.freeze())) {
                        // The message is framed; a pong before it waits for the socket.
                        Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(len),
                        other => other.map(|()| len),
                    }
                });
                match sent {
                    None => break,
                    Some(Ok(len)) => framed += len,
                    Some(Err(error)) => return Err(io_error(error)),
                }
            }
            if framed == 0 {
                return Ok(true);
            }
            progress(framed);
        }
    }

    async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    fn socket(&self) -> Option<&TcpStream> {
        Some(&self.socket)
    }

    fn is_streamed(&self) -> bool {
        false
    }

    fn set_open(&self, low_latency: bool) {
        self.prefix.set_wide(low_latency);
    }

    /// Sends a close frame, if that is possible at once.
    fn close(&self) {
        let mut state = self.state.lock();
        // The connection ends in any case.
        let _ = state.close(None);
        let _ = state.flush();
    }

    fn ends(&self) -> io::Result<Ends> {
        Ends::of_socket(PROTOCOL, &self.socket)
    }
}

/// Continues a handshake whenever the socket is readable.
async fn complete<R: HandshakeRole>(
    socket: &TcpStream,
    started: Result<R::FinalResult, HandshakeError<R>>,
) -> Result<R::FinalResult, ConnectReason> {
    let mut result = started;
    loop {
        let waiting: MidHandshake<R> = match result {
            Ok(done) => return Ok(done),
            Err(HandshakeError::Interrupted(waiting)) => waiting,
            Err(HandshakeError::Failure(Error::Io(error))) => return Err(ConnectReason::io(error)),
            Err(HandshakeError::Failure(error)) => return Err(ConnectReason::WebSocket(error.to_string())),
        };
        // A request of a few hundred bytes always fits into the buffer of a new connection.
        socket.readable().await.map_err(ConnectReason::io)?;
        result = waiting.handshake();
    }
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    }
}
