//! [`ZmtpStream`]: one connection of ZMTP, from its bytes to records.
//!
//! ```text
//!            the other generations: nothing is read
//!           ┌──────────────────────────────────────▶ Skip
//!   Greeting ──▶ Frames ──▶ records                    │ behind the frame
//!                 ▲  │  frame damaged, too long ───────┘
//!                 │  │  no frame, bytes missing
//!                 │  ▼
//!                Search ◀── the capture began later
//! ```

use super::{
    curve::Watch,
    limits::{FRAME_BYTES, MAX_FRAMES, MAX_MESSAGE, MAX_REASSEMBLY, MAX_UNDECIDED},
    opening::{greeting, greets},
    record::{Cause, Message, Protocol},
    said::{Handshake, Said},
    search::{FrameSearch, SEALED, search},
    shared::{DIRECTIONS, Hole, Place, Shared, StreamStep},
    side::{Phase, Side},
    talk::{Speaker, fault},
};
use crate::capture::{Connection, Direction, StreamBuffer};
use bytes::Bytes;
use core::time::Duration;
use zwire_proto::{
    buf::Reader,
    error::Result,
    zmtp::wire::{
        Command, Error, FrameHead, Mechanism, Metadata, Ready, TrafficCommand, command_name, curve, plain,
    },
};

/// A connection that is ZMTP, or may be if the capture joined it late.
#[derive(Debug)]
pub(crate) struct ZmtpStream {
    connection: Connection,
    halves: [Side<ZmtpSide>; 2],
    pub(crate) known: bool,
    /// No more bytes follow.
    ending: bool,
    /// Direction of the bytes that the CURVE client sends.
    client: Option<Direction>,
    watch: Watch,
}

#[derive(Debug, Default)]
struct ZmtpSide {
    mechanism: Option<Mechanism>,
    speaker: Speaker,
    parts: Parts,
}

/// Frames of a message, until the last one arrives.
#[derive(Debug, Default)]
struct Parts {
    frames: Vec<Bytes>,
    offset: u64,
    /// Bytes of all frames, with the overhead of each.
    held: usize,
    /// Number of frames that were copied into memory of their own.
    settled: usize,
    /// A frame of the message is missing: the rest of it is skipped.
    torn: bool,
}

impl Parts {
    fn push(&mut self, frame: Bytes, offset: u64) {
        if self.frames.is_empty() {
            self.offset = offset;
        }
        self.held += frame.len() + FRAME_BYTES;
        self.frames.push(frame);
    }

    fn take(&mut self) -> Vec<Bytes> {
        (self.held, self.settled) = (0, 0);
        core::mem::take(&mut self.frames)
    }

    fn clear(&mut self) {
        self.take();
    }

    /// Copies waiting frames: as a slice, a frame keeps the whole chunk of the file alive.
    fn settle(&mut self) {
        for frame in &mut self.frames[self.settled..] {
            *frame = Bytes::copy_from_slice(frame);
        }
        self.settled = self.frames.len();
    }
}

impl ZmtpStream {
    /// A connection that begins with a greeting.
    pub(crate) fn new(connection: Connection) -> Self {
        let halves = Default::default();
        Self { connection, halves, known: true, ending: false, client: None, watch: Watch::default() }
    }

    /// A connection without its beginning, which may be of any protocol.
    pub(crate) fn joined(connection: Connection) -> Self {
        let mut stream = Self { known: false, ..Self::new(connection) };
        for half in &mut stream.halves {
            half.search(true);
        }
        stream
    }

    /// Takes in the next bytes. Call [`Self::step`] until it has nothing left to do.
    pub(crate) fn handle_data(&mut self, time: Duration, direction: Direction, data: Bytes) {
        let half = &mut self.halves[direction.index()];
        if let Some(more) = half.handle_data(time, data) {
            half.state.parts.torn = more;
        }
    }

    pub(crate) fn handle_gap(&mut self, hole: Hole, shared: &mut Shared) {
        let Hole { time, direction, offset, bytes: missing } = hole;
        let half = &mut self.halves[direction.index()];
        half.time = time;
        half.state.parts.clear();
        // End of the damaged frame: behind the gap, if it is longer.
        let frame = |buffer: &mut StreamBuffer| {
            let (head, start) = head(buffer).ok()??;
            Some((head.len.saturating_add(start as u64), head.more))
        };
        match (half.handle_gap(missing, frame), half.phase) {
            (Some((0, more)), _) => half.state.parts.torn = more,
            (Some(_), _) => {}
            (None, Phase::Search { since, opening, .. }) => {
                half.phase = Phase::Search { since, wanted: 0, opening };
            }
            (None, phase) => half.search(matches!(phase, Phase::Start)),
        }
        if self.known {
            self.told(direction, Protocol::Zmtp, offset, Cause::Missing { bytes: missing }, shared);
        }
    }

    fn advance(&mut self, shared: &mut Shared) -> StreamStep {
        for direction in DIRECTIONS {
            if self.step_half(direction, shared) {
                return StreamStep::Again;
            }
        }
        let lost = |half: &Side<ZmtpSide>| {
            matches!(half.phase, Phase::Search { since, .. }
                if half.buffer.position() - since > MAX_UNDECIDED as u64)
        };
        let crowded = shared.undecided > super::limits::MAX_UNDECIDED_TOTAL;
        if !self.known && (crowded || self.halves.iter().any(lost)) {
            return StreamStep::Foreign;
        }
        for half in &mut self.halves {
            half.state.parts.settle();
        }
        StreamStep::Done
    }

    /// Handles at most one frame. With `end` no more bytes follow, and `Done` means that everything was reported.
    pub(crate) fn step(&mut self, end: bool, shared: &mut Shared) -> StreamStep {
        if end {
            self.ending = true;
            self.halves.iter_mut().for_each(Side::hurry);
        }
        let step = self.advance(shared);
        if !(end && self.known && step == StreamStep::Done) {
            return step;
        }
        for direction in DIRECTIONS {
            let half = &mut self.halves[direction.index()];
            let (bytes, offset) = (half.buffer.len() as u64, half.buffer.position());
            half.buffer.clear();
            let cause = match half.phase {
                Phase::Skip { .. } => None,
                Phase::Search { since, .. } if offset + bytes > since => {
                    let bytes = offset + bytes - since;
                    Some((since, Cause::Unframed { bytes }))
                }
                _ if !half.state.parts.frames.is_empty() => {
                    let begin = half.state.parts.offset;
                    Some((begin, Cause::Unfinished { bytes: offset + bytes - begin }))
                }
                _ => (bytes > 0).then_some((offset, Cause::Unfinished { bytes })),
            };
            half.state.parts.clear();
            half.phase = Phase::Skip { left: u64::MAX, more: false };
            if let Some((offset, cause)) = cause {
                self.told(direction, Protocol::Zmtp, offset, cause, shared);
            }
        }
        StreamStep::Done
    }

    pub(crate) fn waiting(&self) -> usize {
        self.halves.iter().map(|half| half.buffer.len() + half.state.parts.held).sum()
    }

    /// Handles at most one unit of this direction; `false` if none is complete.
    fn step_half(&mut self, direction: Direction, shared: &mut Shared) -> bool {
        let half = &mut self.halves[direction.index()];
        if half.buffer.is_empty() {
            return false;
        }
        match half.phase {
            Phase::Start => self.step_greeting(direction, shared),
            Phase::Framed => self.step_frame(direction, shared),
            Phase::Skip { .. } => false,
            Phase::Search { .. } => self.step_search(direction, shared),
        }
    }

    fn step_greeting(&mut self, direction: Direction, shared: &mut Shared) -> bool {
        let half = &mut self.halves[direction.index()];
        let first = half.buffer.as_slice();
        let Some((message, len)) = greeting(first) else { return false };
        let offset = half.buffer.position();
        match &message {
            Ok(Said::Greeting(greeting)) => half.state.mechanism = Some(greeting.mechanism),
            Ok(Said::Greeting2(greeting)) => {
                half.state.mechanism = Some(Mechanism::NULL);
                half.state.speaker.introduce(Some(greeting.socket_type), Some(&greeting.identity));
            }
            _ => {}
        }
        half.phase = match &message {
            Ok(_) => {
                half.buffer.skip(len as u64);
                Phase::Framed
            }
            Err(_) => {
                half.buffer.clear();
                Phase::Skip { left: u64::MAX, more: false }
            }
        };
        self.tell(direction, offset, false, message, shared);
        true
    }

    fn step_frame(&mut self, direction: Direction, shared: &mut Shared) -> bool {
        let half = &mut self.halves[direction.index()];
        let offset = half.buffer.position();
        let (head, start) = match head(&mut half.buffer) {
            Ok(Some(head)) => head,
            Ok(None) => return false,
            Err(error) => {
                half.state.parts.clear();
                half.search(false);
                let cause = Cause::Decode(error);
                self.told(direction, Protocol::Zmtp, offset, cause, shared);
                return true;
            }
        };
        let room = MAX_MESSAGE - half.state.parts.held.min(MAX_MESSAGE);
        let short = half.buffer.len() as u64 <= start as u64 + head.len;
        let full = short && shared.held > MAX_REASSEMBLY;
        if head.len > room as u64 || full || half.state.parts.frames.len() >= MAX_FRAMES {
            let cause = if half.state.parts.frames.len() >= MAX_FRAMES {
                Cause::Frames { max: MAX_FRAMES }
            } else {
                Cause::Frame { len: head.len, max: if full { 0 } else { room as u64 } }
            };
            half.state.parts.clear();
            let len = start as u64 + head.len;
            let left = len - half.buffer.skip(len);
            half.state.parts.torn = head.more;
            half.phase = if left == 0 { Phase::Framed } else { Phase::Skip { left, more: head.more } };
            self.told(direction, Protocol::Zmtp, offset, cause, shared);
            return true;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most MAX_MESSAGE")]
        let Some(frame) = half.buffer.take(start + head.len as usize) else { return false };
        self.handle_frame(direction, head, frame.slice(start..), offset + start as u64, shared);
        true
    }

    fn step_search(&mut self, direction: Direction, shared: &mut Shared) -> bool {
        let half = &mut self.halves[direction.index()];
        let Phase::Search { since, wanted, opening } = half.phase else { return false };
        if half.buffer.len() < wanted {
            return false;
        }
        if opening && half.buffer.position() == 0 {
            // Only the opening of the connection is missing.
            match greets(half.buffer.as_slice()) {
                None if !self.ending => return false,
                None | Some(false) => {}
                Some(true) => {
                    half.phase = Phase::Start;
                    self.known = true;
                    return true;
                }
            }
        }
        match search(half.buffer.as_slice(), self.known, self.ending) {
            FrameSearch::Found(at) => {
                half.buffer.skip(at as u64);
                half.phase = Phase::Framed;
                half.state.parts.torn = false;
                let bytes = half.buffer.position() - since;
                if !self.known {
                    self.known = true;
                    // The other side needs less evidence now.
                    self.halves[direction.reverse().index()].hurry();
                }
                // The greeting is not in the capture, which was not reported yet.
                if opening {
                    self.told(direction, Protocol::Zmtp, since, Cause::Joined { bytes }, shared);
                } else if bytes > 0 {
                    self.told(direction, Protocol::Zmtp, since, Cause::Unframed { bytes }, shared);
                }
                true
            }
            FrameSearch::Wait(at) => {
                half.buffer.skip(at as u64);
                if half.buffer.len() > MAX_UNDECIDED {
                    // Nothing that looks like a frame for so long is one.
                    half.buffer.clear();
                }
                half.search_again(since, opening);
                false
            }
        }
    }

    fn handle_frame(
        &mut self,
        direction: Direction,
        head: FrameHead,
        body: Bytes,
        offset: u64,
        shared: &mut Shared,
    ) {
        let half = &self.halves[direction.index()];
        let curve = half.state.mechanism.is_none_or(|mechanism| mechanism == Mechanism::CURVE);
        if curve && body.starts_with(SEALED) {
            self.handle_sealed(direction, &body, offset, shared);
        } else if head.command {
            let said = self.command(direction, &body, shared);
            self.tell(direction, offset, false, said, shared);
        } else {
            self.handle_part(direction, head.more, body, offset, false, shared);
        }
    }

    fn handle_sealed(&mut self, direction: Direction, body: &Bytes, offset: u64, shared: &mut Shared) {
        if let Err(error) = curve::CurveMessage::decode(body) {
            return self.tell(direction, offset, false, Err(error), shared);
        }
        let from_server = self.client == Some(direction.reverse());
        match self.watch.open(from_server, body) {
            None => self.tell(direction, offset, false, Ok(Said::Encrypted(body.len())), shared),
            Some(Err(())) => {
                let cause = Cause::Sealed { command: "MESSAGE" };
                self.told(direction, Protocol::Zmtp, offset, cause, shared);
            }
            Some(Ok(opened)) if opened.command => {
                let said = TrafficCommand::decode(&opened.body).map(Said::Command);
                self.tell(direction, offset, true, said, shared);
            }
            Some(Ok(opened)) => {
                self.handle_part(direction, opened.more, opened.body, offset, true, shared);
            }
        }
    }

    fn handle_part(
        &mut self,
        direction: Direction,
        more: bool,
        body: Bytes,
        offset: u64,
        sealed: bool,
        shared: &mut Shared,
    ) {
        let half = &mut self.halves[direction.index()];
        if half.state.parts.torn {
            half.state.parts.torn = more;
            return;
        }
        half.state.parts.push(body, offset);
        if more {
            return;
        }
        let offset = half.state.parts.offset;
        let frames = half.state.parts.take();
        match half.state.speaker.tell(frames) {
            Ok(message) => self.push(direction, message, shared),
            Err((protocol, error)) => {
                let (at, cause) = fault(offset, sealed, error);
                self.told(direction, protocol, at, cause, shared);
            }
        }
    }

    fn command(&mut self, direction: Direction, body: &Bytes, shared: &Shared) -> Result<Said> {
        let half = &mut self.halves[direction.index()];
        let mechanism = half.state.mechanism;
        if mechanism == Some(Mechanism::PLAIN)
            && let Some(error) = Error::decode_of_plain_server(body)
        {
            return Ok(Said::Command(TrafficCommand::Error(error?)));
        }
        let name = command_name(&mut Reader::new(body))?;
        let mut open = |metadata: Option<Result<Metadata>>| match metadata {
            None => Ok(None),
            Some(metadata) => {
                let metadata = metadata?;
                half.state.speaker.learn(&metadata);
                Ok(Some(metadata))
            }
        };
        let command = match (mechanism, name) {
            (Some(Mechanism::CURVE), b"HELLO") => {
                self.client = Some(direction);
                self.watch.handle_hello(&curve::CurveHello::decode(body)?);
                Handshake::Hello(None)
            }
            (Some(Mechanism::CURVE), b"WELCOME") => {
                self.watch.handle_welcome(&curve::CurveWelcome::decode(body)?, &shared.keys);
                Handshake::Welcome
            }
            (Some(Mechanism::CURVE), b"INITIATE") => {
                let initiate = curve::CurveInitiate::decode(body)?;
                Handshake::Initiate(open(self.watch.handle_initiate(&initiate, &shared.keys))?)
            }
            (Some(Mechanism::CURVE), b"READY") => {
                let ready = curve::CurveReady::decode(body)?;
                Handshake::Ready(open(self.watch.handle_ready(&ready, &shared.keys))?)
            }
            (Some(Mechanism::PLAIN), b"HELLO") => {
                Handshake::Hello(Some(plain::PlainHello::decode(body)?.username))
            }
            (Some(Mechanism::PLAIN), b"WELCOME") => {
                plain::PlainWelcome::decode(body)?;
                Handshake::Welcome
            }
            (Some(Mechanism::PLAIN), b"INITIATE") => {
                Handshake::Initiate(open(Some(Ok(plain::PlainInitiate::decode(body)?.metadata)))?)
            }
            (Some(Mechanism::NULL | Mechanism::PLAIN), b"READY") => {
                Handshake::Ready(open(Some(Ok(Ready::decode(body)?.metadata)))?)
            }
            // The greeting is missing; under NULL, READY follows it. A box of CURVE is no metadata.
            (None, b"READY") => match Ready::decode(body) {
                Ok(Ready { metadata }) if metadata.get(Metadata::SOCKET_TYPE).is_some() => {
                    Handshake::Ready(open(Some(Ok(metadata)))?)
                }
                _ => return Ok(Said::Command(TrafficCommand::decode(body)?)),
            },
            _ => return Ok(Said::Command(TrafficCommand::decode(body)?)),
        };
        Ok(Said::Handshake(command))
    }

    fn place(&self, direction: Direction, offset: u64) -> Place {
        self.halves[direction.index()].place(&self.connection, direction, offset)
    }

    fn push(&self, direction: Direction, message: Message, shared: &mut Shared) {
        shared.out.push_back(self.place(direction, 0).record(message));
    }

    fn told(&self, direction: Direction, protocol: Protocol, at: u64, cause: Cause, shared: &mut Shared) {
        shared.out.push_back(self.place(direction, at).fault_of(protocol, at, cause));
    }

    fn tell(&self, direction: Direction, offset: u64, sealed: bool, said: Result<Said>, shared: &mut Shared) {
        match said {
            Ok(said) => self.push(direction, Message::Zmtp(Box::new(said)), shared),
            Err(error) => {
                let (at, cause) = fault(offset, sealed, error);
                self.told(direction, Protocol::Zmtp, at, cause, shared);
            }
        }
    }
}

/// The head of the next frame and its length, if it is complete.
fn head(buffer: &mut StreamBuffer) -> Result<Option<(FrameHead, usize)>> {
    match buffer.peek::<{ FrameHead::MAX_LEN }>() {
        Some(first) => FrameHead::decode(&first),
        None => FrameHead::decode(buffer.as_slice()),
    }
}
