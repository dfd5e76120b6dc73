//! A WebSocket: frames, pings, and the order of reading and writing.

use super::session::RemoteSession;
use crate::{
    body::BodyRoom,
    client::Client,
    limits::{BODY, STALLED},
};
use bytes::{Buf as _, Bytes, BytesMut};
use core::{convert::Infallible, time::Duration};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::io::{self, Read, Write};
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, split},
    sync::SemaphorePermit,
    time::interval,
};
use tungstenite::{
    Error as WsError, Message, WebSocket,
    protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
};
use zwire_engine::clock;

/// Octets that wait for a client before nothing more is read from it.
const HIGH: usize = 256 << 10;
/// Octets that wait for a client before nothing more is taken from its queues: fewer, so that a client with many events
/// is still read, and answered.
const EVENTS: usize = HIGH / 2;
/// Period of pings, and the silence after which a client is gone: three of them.
const PING: Duration = Duration::from_secs(20);
/// Memory for reading: most requests are shorter.
const READ: usize = 4096;
/// Octets that are read at once. As many of a message that is not complete are not counted.
const READ_ONCE: usize = 16 << 10;
/// Octets of a ping or pong of a client beside its payload.
const CONTROL: usize = 6;

/// Octets between the frames and the connection.
#[derive(Default)]
struct Pipe {
    input: BytesMut,
    output: BytesMut,
}

impl Read for Pipe {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = buf.len().min(self.input.len());
        self.input.copy_to_slice(&mut buf[..len]);
        Ok(len)
    }
}

impl Write for Pipe {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves a WebSocket until it ends, its token expires, or the server is closed.
pub(super) async fn serve(stream: Upgraded, client: Client) {
    let most = client.site.options.limits.body;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ)
        .write_buffer_size(0)
        .max_message_size(Some(most))
        .max_frame_size(Some(most));
    let (reader, writer) = split(TokioIo::new(stream));
    let mut socket = Socket {
        frames: WebSocket::from_raw_socket(Pipe::default(), Role::Server, Some(config)),
        reader,
        writer,
        heard: clock::mono(),
        is_full: false,
        is_dirty: false,
    };
    let peer = client.peer;
    let mut session = RemoteSession::new(client);
    let Err(end) = socket.run(&mut session).await;
    // What it has declared ends now, not when the client has taken the reason.
    drop(session);
    tracing::debug!(target: "zwire.http", "{peer}: WebSocket closed: {end}");
    socket.close(&end).await;
}

struct Socket {
    frames: WebSocket<Pipe>,
    reader: ReadHalf<TokioIo<Upgraded>>,
    writer: WriteHalf<TokioIo<Upgraded>>,
    /// Monotonic time of the last octets of the client.
    heard: Duration,
    /// Whether messages of the client wait until it takes their answers.
    is_full: bool,
    /// Whether octets may wait in the layers below, such as TLS.
    is_dirty: bool,
}

/// Octets of a message that is not complete, which the frames keep. They count among the bodies of requests.
struct Unfinished<'room> {
    rooms: &'room BodyRoom,
    octets: usize,
    /// Monotonic time at which the message began.
    since: Duration,
    room: Option<SemaphorePermit<'room>>,
}

impl<'room> Unfinished<'room> {
    fn new(rooms: &'room BodyRoom) -> Self {
        Self { rooms, octets: 0, since: Duration::ZERO, room: None }
    }

    /// Notes octets that were read.
    const fn read(&mut self, octets: usize, now: Duration) {
        if self.octets == 0 {
            self.since = now;
        }
        self.octets += octets;
    }

    /// Notes the end of a message.
    fn completed(&mut self) {
        (self.octets, self.room) = (0, None);
    }

    /// Notes that octets were those of a ping or a pong, which may stand between the parts of a message.
    const fn control(&mut self, payload: usize) {
        self.octets = self.octets.saturating_sub(CONTROL + payload);
    }

    /// Counts the octets that are kept.
    fn count(&mut self) -> Result<(), Ended> {
        if self.octets <= READ_ONCE {
            return Ok(());
        }
        let counted = self.room.as_ref().map_or(0, SemaphorePermit::num_permits);
        let uncounted = self.octets.saturating_sub(counted);
        self.rooms.hold(&mut self.room, uncounted).map_err(|problem| Ended::Broken(problem.text))
    }

    /// Whether a message that has begun is not complete for too long.
    fn is_late(&self, now: Duration) -> bool {
        self.room.is_some() && now.saturating_sub(self.since) > BODY
    }
}

/// Reason of the end of a WebSocket.
enum Ended {
    Closed,
    Silent,
    Expired(&'static str),
    Shutdown,
    Broken(String),
}

impl core::fmt::Display for Ended {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Closed => f.write_str("the client has closed it"),
            Self::Silent => f.write_str("the client answers no ping"),
            Self::Expired(reason) => f.write_str(reason),
            Self::Shutdown => f.write_str("the server is closed"),
            Self::Broken(problem) => f.write_str(problem),
        }
    }
}

impl Socket {
    /// Reads and writes until there is a reason to end.
    async fn run(&mut self, session: &mut RemoteSession) -> Result<Infallible, Ended> {
        let client = session.client().clone();
        let bell = session.bell();
        let mut closing = client.site.closing.clone();
        let expired = client.expired();
        tokio::pin!(expired);
        let mut unfinished = Unfinished::new(&client.site.bodies);
        let mut pings = interval(PING);
        // The first tick is at once.
        pings.tick().await;
        loop {
            if self.is_full && self.waiting() < HIGH {
                self.take(session, &mut unfinished).await?;
            }
            while self.waiting() < EVENTS
                && let Some(event) = session.next_event()
            {
                self.send(Message::Binary(event.into()))?;
            }
            let waiting = self.waiting();
            let (reads, writes) = (!self.is_full && waiting < HIGH, waiting > 0 || self.is_dirty);
            let Pipe { input, output } = self.frames.get_mut();
            input.reserve(READ_ONCE);
            tokio::select! {
                read = self.reader.read_buf(input), if reads => match read {
                    Ok(0) => return Err(Ended::Closed),
                    Err(error) => return Err(broken(error)),
                    Ok(octets) => {
                        self.heard = clock::mono();
                        unfinished.read(octets, self.heard);
                        self.take(session, &mut unfinished).await?;
                        unfinished.count()?;
                    }
                },
                written = write_out(&mut self.writer, output), if writes => {
                    self.is_dirty = written.map_err(broken)?;
                }
                () = bell.notified(), if waiting < EVENTS => {}
                _ = pings.tick() => self.ping(reads, &unfinished)?,
                reason = &mut expired => return Err(Ended::Expired(reason)),
                _ = closing.changed() => return Err(Ended::Shutdown),
            }
        }
    }

    /// Asks the client whether it is there. A client that is not read cannot answer; writing to it has a limit of its own.
    fn ping(&mut self, reads: bool, unfinished: &Unfinished<'_>) -> Result<(), Ended> {
        if !reads {
            self.heard = clock::mono();
            return Ok(());
        }
        if clock::mono().saturating_sub(self.heard) > 3 * PING {
            return Err(Ended::Silent);
        }
        if unfinished.is_late(clock::mono()) {
            return Err(Ended::Broken("a message did not arrive in time".to_owned()));
        }
        self.send(Message::Ping(Bytes::new()))
    }

    /// Octets that wait for the client.
    fn waiting(&self) -> usize {
        self.frames.get_ref().output.len()
    }

    fn send(&mut self, message: Message) -> Result<(), Ended> {
        self.frames.send(message).map_err(|error| match error {
            WsError::ConnectionClosed | WsError::AlreadyClosed => Ended::Closed,
            other => Ended::Broken(other.to_string()),
        })
    }

    /// Handles the messages that are complete, as long as the client takes their answers.
    async fn take(
        &mut self,
        session: &mut RemoteSession,
        unfinished: &mut Unfinished<'_>,
    ) -> Result<(), Ended> {
        loop {
            self.is_full = self.waiting() >= HIGH;
            if self.is_full {
                return Ok(());
            }
            match self.frames.read() {
                Ok(Message::Binary(message)) => {
                    unfinished.completed();
                    for answer in session.handle(&message).await {
                        self.send(Message::Binary(answer.into()))?;
                    }
                }
                Ok(Message::Text(_)) => {
                    unfinished.completed();
                    tracing::debug!(target: "zwire.http", "{}: text in a WebSocket was ignored", session.client().peer);
                }
                Ok(Message::Ping(payload) | Message::Pong(payload)) => unfinished.control(payload.len()),
                Ok(Message::Frame(_)) => {}
                Ok(Message::Close(_)) | Err(WsError::ConnectionClosed | WsError::AlreadyClosed) => {
                    return Err(Ended::Closed);
                }
                Err(WsError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Ended::Broken(error.to_string())),
            }
        }
    }

    /// Tells the client why, if it takes that.
    async fn close(mut self, end: &Ended) {
        let code = match end {
            Ended::Closed => None,
            Ended::Silent | Ended::Broken(_) => Some(CloseCode::Policy),
            Ended::Expired(_) => Some(CloseCode::Policy),
            Ended::Shutdown => Some(CloseCode::Away),
        };
        // A frame of a client that is gone cannot be sent.
        let _ = self.frames.close(code.map(|code| CloseFrame { code, reason: end.to_string().into() }));
        let _ = self.frames.flush();
        let rest = core::mem::take(&mut self.frames.get_mut().output);
        let _ = tokio::time::timeout(STALLED, self.writer.write_all(&rest)).await;
        let _ = tokio::time::timeout(STALLED, self.writer.shutdown()).await;
    }
}

fn broken(error: io::Error) -> Ended {
    Ended::Broken(error.to_string())
}

/// Writes some of `output`; once it is empty, what the layers below have kept. Returns whether these may keep something.
async fn write_out(writer: &mut (impl AsyncWrite + Unpin), output: &mut BytesMut) -> io::Result<bool> {
    if output.is_empty() {
        writer.flush().await?;
        return Ok(false);
    }
    match writer.write(output).await? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        octets => {
            output.advance(octets);
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufWriter;

    #[tokio::test]
    async fn the_last_octets_leave_the_layers_below() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut writer = BufWriter::new(server);
        let mut output = BytesMut::from(&b"answer"[..]);
        while write_out(&mut writer, &mut output).await.unwrap() {}
        let mut got = [0; 6];
        let read = tokio::time::timeout(STALLED, client.read_exact(&mut got));
        read.await.expect("the octets were kept").unwrap();
        assert_eq!(&got, b"answer");
    }

    #[test]
    fn messages_in_parts_count_and_have_a_time() {
        let rooms = BodyRoom::new(4 * READ_ONCE, 4 * READ_ONCE);
        let (mut one, mut other) = (Unfinished::new(&rooms), Unfinished::new(&rooms));
        let (begin, late) = (Duration::from_secs(5), Duration::from_secs(6) + BODY);
        let read = |part: &mut Unfinished<'_>, octets, now| {
            part.read(octets, now);
            part.count().map_err(|end| end.to_string())
        };
        for _ in 0..3 {
            read(&mut one, READ_ONCE, begin).unwrap();
        }
        read(&mut other, READ_ONCE, begin).unwrap();
        let end = read(&mut other, 1, begin).unwrap_err();
        assert!(end.contains("memory"), "{end}");
        read(&mut one, 1, late).unwrap();
        assert!(!one.is_late(begin + BODY));
        assert!(one.is_late(late), "parts do not prolong it");
        one.completed();
        assert!(!one.is_late(late));
        read(&mut other, 1, begin).unwrap();
        // A client that sends pongs alone has no message.
        for _ in 0..READ_ONCE {
            one.read(CONTROL, begin);
            one.control(0);
            one.count().unwrap_or_else(|end| panic!("{end}"));
        }
        assert!(!one.is_late(late));
    }
}
