//! WebSocket (RFC 6455) over the two streams of a TCP connection.
//!
//! ```text
//!  0               1               2               3
//! |F|RSV| opcode |M| length 7     | length 16 or 64 if 126 or 127 | mask if M | payload
//! ```

use super::buffer::StreamBuffer;
use super::field::{illegal, out_of_range};
use bytes::{Bytes, BytesMut};
use zwire_proto::error::{DecodeError, DecodeErrorKind, Result};
use zwire_proto::pcap::Direction;

/// Longest head of an HTTP request or response. Servers commonly refuse heads above 8 to 16 KiB.
pub const MAX_HTTP_HEAD: usize = 16 << 10;
/// Longest message that is reassembled: a Zenoh batch has at most 65535 bytes, longer ones are skipped.
pub const MAX_WS_MESSAGE: usize = 1 << 20;

const FIN: u8 = 0x80;
const RSV: u8 = 0x70;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;

const CONTINUATION: u8 = 0;
/// Last of the data opcodes: continuation, text, binary.
const BINARY: u8 = 2;
/// First of the control opcodes: close, ping, pong.
const CLOSE: u8 = 8;
const PONG: u8 = 10;
/// "All control frames MUST have a payload length of 125 bytes or less".
const MAX_CONTROL: u64 = 125;

/// Protocol of a connection, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WsState {
    /// The HTTP request is not complete yet.
    Undecided,
    /// The client asked for a WebSocket, and the server did not refuse so far.
    Open,
    /// The streams carry another protocol.
    Foreign,
}

/// A binary message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WsMessage {
    /// Stream that carried the message.
    pub direction: Direction,
    /// Offset in the stream of its first frame.
    pub offset: u64,
    /// The unmasked payload of all its frames, or the reason why it is lost.
    pub payload: Result<Bytes>,
}

/// The messages of one connection; by default it is at its start, and the HTTP heads are still to come.
///
/// Hand in the [`FlowEvent`](super::FlowEvent)s of the connection, and after each input call
/// [`poll_message`](Self::poll_message) until it gives `None`. Control frames and text messages are
/// skipped. Memory: one message and one head per direction at most.
#[derive(Debug, Default)]
pub struct WebSocket {
    streams: [WsStream; 2],
    foreign: bool,
}

#[derive(Debug, Default)]
struct WsStream {
    buffer: StreamBuffer,
    phase: WsPhase,
    /// Number of bytes of the HTTP head that were searched for its end.
    searched: usize,
    frame: Option<WsFrame>,
    message: Option<WsAssembly>,
}

#[derive(Clone, Copy, Debug, Default)]
enum WsPhase {
    /// In the HTTP head.
    #[default]
    Head,
    Frames,
    /// The place of the next frame is unknown: it may be at the start of a segment.
    Lost,
}

/// A frame after its header was taken.
#[derive(Clone, Copy, Debug)]
struct WsFrame {
    first: u8,
    mask: Option<[u8; 4]>,
    /// Bytes of the payload that were not taken yet.
    left: u64,
    skip: bool,
}

/// A message of which the first frame arrived.
#[derive(Debug)]
struct WsAssembly {
    offset: u64,
    binary: bool,
    payload: BytesMut,
    error: Option<DecodeError>,
}

impl WebSocket {
    /// A connection that began before the capture: frames are searched for at each start of a segment.
    #[must_use]
    pub fn resume() -> Self {
        let stream = || WsStream { phase: WsPhase::Lost, ..WsStream::default() };
        Self { streams: [stream(), stream()], foreign: false }
    }

    /// Whether a client's stream with this start may become a WebSocket.
    #[must_use]
    pub fn is_request_start(start: &[u8]) -> bool {
        let method = b"GET ";
        let len = start.len().min(method.len());
        start[..len] == method[..len]
    }

    /// Protocol of the connection, as far as it is known.
    #[must_use]
    pub fn state(&self) -> WsState {
        let client = &self.streams[Direction::ToServer.index()];
        match client.phase {
            _ if self.foreign => WsState::Foreign,
            WsPhase::Head => WsState::Undecided,
            WsPhase::Frames | WsPhase::Lost => WsState::Open,
        }
    }

    /// Takes in the next bytes of a stream.
    pub fn handle_data(&mut self, direction: Direction, data: Bytes) {
        if self.foreign {
            return;
        }
        let stream = &mut self.streams[direction.index()];
        if matches!(stream.phase, WsPhase::Lost) {
            stream.buffer.clear();
            if is_plausible(&data) {
                stream.phase = WsPhase::Frames;
            }
        }
        stream.buffer.push(data);
    }

    /// Takes in a gap: bytes that are missing in a stream.
    pub fn handle_gap(&mut self, direction: Direction, missing: u64) {
        if !self.foreign {
            self.streams[direction.index()].handle_gap(missing);
        }
    }

    /// The next message; `None` asks for the next bytes.
    pub fn poll_message(&mut self) -> Option<WsMessage> {
        for direction in [Direction::ToServer, Direction::ToClient] {
            if self.foreign {
                break;
            }
            let stream = &mut self.streams[direction.index()];
            if matches!(stream.phase, WsPhase::Head) {
                match stream.poll_head(direction) {
                    None => continue,
                    Some(true) => stream.phase = WsPhase::Frames,
                    Some(false) => {
                        *self = Self { foreign: true, ..Self::default() };
                        return None;
                    }
                }
            }
            if let Some((offset, payload)) = self.streams[direction.index()].poll_message() {
                return Some(WsMessage { direction, offset, payload });
            }
        }
        None
    }
}

impl WsStream {
    /// Whether the HTTP head opens a WebSocket; `None`: it is incomplete.
    fn poll_head(&mut self, direction: Direction) -> Option<bool> {
        let waiting = self.buffer.as_slice();
        let start: &[u8] = match direction {
            Direction::ToServer => b"GET ",
            Direction::ToClient => b"HTTP/1.1 101",
        };
        let len = waiting.len().min(start.len());
        if waiting[..len] != start[..len] {
            return Some(false);
        }
        let end = b"\r\n\r\n";
        let from = self.searched.saturating_sub(end.len() - 1).min(waiting.len());
        let found = waiting[from..].windows(end.len()).position(|window| window == end);
        let Some(found) = found else {
            self.searched = waiting.len();
            // Buffered bytes must not keep the packets they came with alive.
            self.buffer.settle();
            return (self.searched > MAX_HTTP_HEAD).then_some(false);
        };
        let head_len = from + found + end.len();
        let asks = asks_for_websocket(&waiting[..head_len]);
        self.buffer.skip(head_len as u64);
        Some(asks)
    }

    fn poll_message(&mut self) -> Option<(u64, Result<Bytes>)> {
        loop {
            if matches!(self.phase, WsPhase::Lost) {
                self.buffer.clear();
                return None;
            }
            let Some(frame) = self.frame else {
                let offset = self.buffer.position();
                match self.poll_frame() {
                    Ok(Some(frame)) => self.frame = Some(frame),
                    Ok(None) => return None,
                    Err(error) => {
                        self.phase = WsPhase::Lost;
                        let message = self.message.take();
                        return Some((message.map_or(offset, |message| message.offset), Err(error)));
                    }
                }
                continue;
            };
            if frame.skip {
                let left = frame.left - self.buffer.skip(frame.left);
                if left > 0 {
                    self.frame = Some(WsFrame { left, ..frame });
                    return None;
                }
            }
            let payload = if frame.skip {
                Bytes::new()
            } else {
                // A length above the bound of a message was refused with the header.
                self.buffer.take(usize::try_from(frame.left).ok()?)?
            };
            self.frame = None;
            if let Some(message) = self.finish_frame(frame, payload) {
                return Some(message);
            }
        }
    }

    /// The header of the next frame, and how to treat its payload.
    fn poll_frame(&mut self) -> Result<Option<WsFrame>> {
        let Some([first, second]) = self.buffer.peek::<2>() else { return Ok(None) };
        let offset = self.buffer.position();
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let opcode = first & OPCODE;
        if !matches!(opcode, CONTINUATION..=BINARY | CLOSE..=PONG) {
            return Err(illegal("WebSocket opcode", at, opcode.into()));
        }
        let extended = match second & !MASKED {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let masked = if second & MASKED != 0 { 4 } else { 0 };
        let Some(header) = self.buffer.take(2 + extended + masked) else { return Ok(None) };
        let (length, mask) = header[2..].split_at(extended);
        let left = match extended {
            0 => u64::from(second & !MASKED),
            _ => length.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
        };
        let mask = mask.first_chunk().copied();
        // "the most significant bit MUST be 0"
        if left > u64::MAX >> 1 {
            return Err(illegal("WebSocket length", at, left));
        }
        let frame = WsFrame { first, mask, left, skip: true };
        if opcode >= CLOSE {
            if left > MAX_CONTROL || first & FIN == 0 {
                return Err(out_of_range("WebSocket control frame", at, left, MAX_CONTROL));
            }
            return Ok(Some(frame));
        }
        if opcode != CONTINUATION {
            let (payload, binary) = (BytesMut::new(), opcode == BINARY);
            self.message = Some(WsAssembly { offset, binary, payload, error: None });
        }
        // A continuation of a message that began before the capture, or that was lost.
        let Some(message) = &mut self.message else { return Ok(Some(frame)) };
        let len = left.saturating_add(message.payload.len() as u64);
        if first & RSV != 0 {
            // Compressed, or an unknown extension.
            message.fail(illegal("WebSocket reserved bits", at, (first & RSV).into()));
        } else if message.binary && len > MAX_WS_MESSAGE as u64 {
            message.fail(out_of_range("WebSocket message length", at, len, MAX_WS_MESSAGE as u64));
        }
        Ok(Some(WsFrame { skip: !message.binary || message.error.is_some(), ..frame }))
    }

    /// Adds a frame to its message and gives the message if it is complete.
    fn finish_frame(&mut self, frame: WsFrame, mut payload: Bytes) -> Option<(u64, Result<Bytes>)> {
        if frame.first & OPCODE >= CLOSE {
            return None;
        }
        let is_last = frame.first & FIN != 0;
        let message = self.message.as_mut()?;
        if let Some(mask) = frame.mask.filter(|mask| *mask != [0; 4]) {
            let mut bytes = BytesMut::from(payload);
            for (byte, key) in bytes.iter_mut().zip(mask.iter().cycle()) {
                *byte ^= key;
            }
            payload = bytes.freeze();
        }
        if !is_last {
            message.payload.extend_from_slice(&payload);
            return None;
        }
        let WsAssembly { offset, binary, payload: mut whole, error } = self.message.take()?;
        if let Some(error) = error {
            return Some((offset, Err(error)));
        }
        if !binary {
            return None;
        }
        if !whole.is_empty() {
            whole.extend_from_slice(&payload);
            payload = whole.freeze();
        }
        Some((offset, Ok(payload)))
    }

    fn handle_gap(&mut self, missing: u64) {
        let at = usize::try_from(self.buffer.position()).unwrap_or(usize::MAX);
        let waiting = self.buffer.len() as u64;
        self.buffer.jump(missing);
        let error = DecodeError {
            reading: "WebSocket payload",
            offset: at,
            kind: DecodeErrorKind::Truncated { needed: usize::try_from(missing).unwrap_or(usize::MAX) },
        };
        if let (Some(frame), Some(message)) = (&self.frame, &mut self.message)
            && frame.first & OPCODE < CLOSE
        {
            message.fail(error);
        }
        // A gap inside a payload leaves the place of the next frame known.
        match self
            .frame
            .as_mut()
            .and_then(|frame| Some((frame.left.checked_sub(waiting.saturating_add(missing))?, frame)))
        {
            Some((left, frame)) => (frame.left, frame.skip) = (left, true),
            None => {
                self.frame = None;
                self.message = None;
                self.phase = WsPhase::Lost;
            }
        }
    }
}

impl WsAssembly {
    fn fail(&mut self, error: DecodeError) {
        self.payload = BytesMut::new();
        self.error.get_or_insert(error);
    }
}

/// Whether a segment looks like a whole binary message, its length in the shortest form.
fn is_plausible(segment: &[u8]) -> bool {
    let Some([first, second]) = segment.first_chunk() else { return false };
    let length = segment.get(2..).unwrap_or_default();
    let is_short_form = match second & !MASKED {
        126 => length.first_chunk().is_some_and(|length| u16::from_be_bytes(*length) >= 126),
        127 => length
            .first_chunk()
            .is_some_and(|length| (1 << 16..=MAX_WS_MESSAGE as u64).contains(&u64::from_be_bytes(*length))),
        _ => true,
    };
    *first == FIN | BINARY && is_short_form
}

/// Whether a header field `Upgrade` of this head names WebSocket.
fn asks_for_websocket(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').skip(1).any(|line| {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        name.trim_ascii().eq_ignore_ascii_case(b"upgrade")
            && value.split(|byte| *byte == b',').any(|v| v.trim_ascii().eq_ignore_ascii_case(b"websocket"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ToClient, ToServer};
    use proptest::prelude::*;

    const REQUEST: &[u8] = b"GET /chat HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\n\
        upgrade: WebSocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    const RESPONSE: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

    fn open() -> WebSocket {
        let mut ws = WebSocket::default();
        assert_eq!(ws.state(), WsState::Undecided);
        ws.handle_data(ToServer, Bytes::from_static(REQUEST));
        assert_eq!(ws.poll_message(), None);
        ws.handle_data(ToClient, Bytes::from_static(RESPONSE));
        assert_eq!(ws.poll_message(), None);
        assert_eq!(ws.state(), WsState::Open);
        ws
    }

    fn frame(first: u8, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
        let masked = if mask.is_some() { MASKED } else { 0 };
        let mut out = vec![first];
        match payload.len() {
            len @ 0..126 => out.push(masked | len as u8),
            len @ 126..0x1_0000 => {
                out.push(masked | 126);
                out.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                out.push(masked | 127);
                out.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        out.extend(mask.iter().flatten());
        let key = mask.unwrap_or_default();
        out.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
        out
    }

    fn payloads(ws: &mut WebSocket) -> Vec<Option<Bytes>> {
        core::iter::from_fn(|| ws.poll_message()).map(|message| message.payload.ok()).collect()
    }

    #[test]
    fn the_frames_of_rfc_6455() {
        let mut ws = open();
        // Section 5.7: a masked text message "Hello", an unmasked fragmented one, a ping, and 256
        // and 65536 bytes of binary data in one unmasked frame.
        ws.handle_data(ToServer, Bytes::from_static(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"));
        assert_eq!(ws.poll_message(), None, "text is skipped");
        // The same with the opcode of a binary message.
        ws.handle_data(ToServer, Bytes::from_static(b"\x82\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"));
        ws.handle_data(ToClient, Bytes::from_static(b"\x02\x03Hel\x89\x05Hello\x80\x02lo"));
        let hello = Some(Bytes::from_static(b"Hello"));
        assert_eq!(payloads(&mut ws), vec![hello.clone(), hello]);
        for (header, len) in [(&b"\x82\x7e\x01\x00"[..], 256), (b"\x82\x7f\0\0\0\0\0\x01\0\0", 65536)] {
            let payload = vec![0x5a; len];
            ws.handle_data(ToClient, [header, &payload].concat().into());
            assert_eq!(payloads(&mut ws), vec![Some(payload.into())]);
        }
    }

    #[test]
    fn an_unmasked_message_in_one_segment_is_a_slice_of_it() {
        let mut ws = open();
        let segment = Bytes::from(frame(0x82, None, &[9; 1000]));
        ws.handle_data(ToClient, segment.clone());
        let message = ws.poll_message().unwrap();
        assert_eq!(message.payload.unwrap().as_ptr(), segment[4..].as_ptr());
        assert_eq!(message.offset, RESPONSE.len() as u64);
    }

    #[test]
    fn other_streams_are_foreign() {
        for (direction, bytes) in [
            (ToServer, &b"\x10\x00\x01"[..]),
            (ToServer, b"GET / HTTP/1.1\r\nHost: upgrade.websocket\r\n\r\n"),
            (ToServer, b"POST"),
            (ToClient, b"HTTP/1.1 404 Not Found\r\n"),
        ] {
            let mut ws = WebSocket::default();
            if direction == ToClient {
                ws.handle_data(ToServer, Bytes::from_static(REQUEST));
                assert_eq!(ws.poll_message(), None);
            }
            ws.handle_data(direction, Bytes::from_static(bytes));
            assert_eq!(ws.poll_message(), None);
            assert_eq!(ws.state(), WsState::Foreign, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_head_without_an_end_is_given_up() {
        let mut ws = WebSocket::default();
        ws.handle_data(ToServer, Bytes::from_static(b"GET "));
        let mut fed = 0;
        while ws.poll_message().is_none() && ws.state() == WsState::Undecided {
            ws.handle_data(ToServer, Bytes::from_static(&[b'x'; 100]));
            fed += 100;
            assert!(fed <= MAX_HTTP_HEAD + 200);
        }
        assert_eq!(ws.state(), WsState::Foreign);
    }

    #[test]
    fn what_cannot_be_a_message_is_an_error_and_later_messages_come() {
        let mut ws = open();
        let good = frame(0x82, None, b"good");
        let huge = frame(0x82, None, &vec![0; MAX_WS_MESSAGE + 1]);
        let compressed = frame(0xc2, None, b"??");
        ws.handle_data(ToClient, [huge, good.clone(), compressed, good.clone()].concat().into());
        let ok = Some(Bytes::from_static(b"good"));
        assert_eq!(payloads(&mut ws), vec![None, ok.clone(), None, ok.clone()]);
        // An opcode that does not exist: the place of the next frame is unknown until a segment starts
        // with one.
        ws.handle_data(ToClient, [&b"\x83\x01x"[..], &good].concat().into());
        assert_eq!(payloads(&mut ws), vec![None]);
        ws.handle_data(ToClient, Bytes::from_static(b"noise"));
        ws.handle_data(ToClient, good.into());
        assert_eq!(payloads(&mut ws), vec![ok]);
    }

    #[test]
    fn an_announced_length_costs_nothing_before_its_bytes_come() {
        let mut ws = open();
        let mut huge = vec![0x82, 127];
        huge.extend_from_slice(&(u64::MAX >> 1).to_be_bytes());
        ws.handle_data(ToClient, huge.into());
        assert_eq!(ws.poll_message(), None);
        for _ in 0..1000 {
            ws.handle_data(ToClient, Bytes::from_static(&[0; 1000]));
            assert_eq!(ws.poll_message(), None);
            assert!(ws.streams[ToClient.index()].buffer.is_empty());
        }
    }

    #[test]
    fn a_gap_inside_a_payload_costs_one_message() {
        let mut ws = open();
        let damaged = frame(0x82, None, &[7; 100]);
        let good = frame(0x82, None, b"good");
        ws.handle_data(ToClient, Bytes::copy_from_slice(&damaged[..30]));
        assert_eq!(ws.poll_message(), None);
        ws.handle_gap(ToClient, 40);
        ws.handle_data(ToClient, [&damaged[70..], &good].concat().into());
        assert_eq!(payloads(&mut ws), vec![None, Some(Bytes::from_static(b"good"))]);
        // A gap that hides frame headers: wait for a segment that starts with a frame.
        ws.handle_gap(ToClient, 10);
        ws.handle_data(ToClient, Bytes::from_static(b"od"));
        assert_eq!(payloads(&mut ws), vec![]);
        ws.handle_data(ToClient, good.into());
        assert_eq!(payloads(&mut ws), vec![Some(Bytes::from_static(b"good"))]);
    }

    #[test]
    fn a_capture_without_the_handshake_resumes_at_a_segment() {
        let mut ws = WebSocket::resume();
        ws.handle_data(ToServer, Bytes::from_static(b"middle of a message"));
        assert_eq!(ws.poll_message(), None);
        ws.handle_data(ToServer, frame(0x82, Some([1, 2, 3, 4]), b"next").into());
        assert_eq!(payloads(&mut ws), vec![Some(Bytes::from_static(b"next"))]);
    }

    proptest! {
        #[test]
        fn any_segmentation_gives_the_same_messages(
            messages in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..400), any::<Option<[u8; 4]>>(), 1usize..200), 1..10),
            cuts in prop::collection::vec(1usize..300, 1..50),
        ) {
            let mut stream = REQUEST.to_vec();
            for (payload, mask, step) in &messages {
                let mut parts = payload.chunks(*step).peekable();
                let mut opcode = BINARY;
                if parts.peek().is_none() {
                    stream.extend(frame(FIN | BINARY, *mask, &[]));
                }
                while let Some(part) = parts.next() {
                    let fin = if parts.peek().is_none() { FIN } else { 0 };
                    stream.extend(frame(fin | opcode, *mask, part));
                    stream.extend(frame(FIN | PONG, *mask, b"pong"));
                    opcode = CONTINUATION;
                }
            }
            let mut ws = WebSocket::default();
            let mut got = Vec::new();
            let mut cuts = cuts.into_iter().cycle();
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let (segment, left) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                rest = left;
                ws.handle_data(ToServer, Bytes::copy_from_slice(segment));
                got.extend(payloads(&mut ws));
            }
            let expected: Vec<_> =
                messages.into_iter().map(|(payload, ..)| Some(Bytes::from(payload))).collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn noise_never_panics(
            start in any::<bool>(),
            segments in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..100), any::<Option<u64>>()), 0..50),
        ) {
            let mut ws = if start { open() } else { WebSocket::resume() };
            for (to_server, segment, gap) in segments {
                let direction = if to_server { ToServer } else { ToClient };
                match gap {
                    Some(missing) => ws.handle_gap(direction, missing),
                    None => ws.handle_data(direction, segment.into()),
                }
                while ws.poll_message().is_some() {}
            }
        }
    }
}
