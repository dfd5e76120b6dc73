//! [`ZenohStream`]: one TCP connection, from its bytes to the batches of a [`ZenohSession`].
//!
//! ```text
//!          INIT at the start, or a forced port           batch undecodable twice, bytes missing
//!   Start ────────────────────────────────────▶ Framed ─────────────────────────────────────▶ Search
//!     │  "GET " at the start                       ▲                                             │
//!     ├─────────────────────▶ WebSocket            └─────────────────────────────────────────────┘
//!     │  the capture began later: Search                     a run of plausible batches
//!     └─ anything else: Search at the very start, where what is no batch is foreign
//! ```

use super::{
    limits::{MAX_BATCH, MAX_UNDECIDED, MAX_UNDECIDED_TOTAL},
    plausible::{BatchSearch, Proof, search, search_start},
    record::Cause,
    session::{Format, ZenohSession, is_init},
    shared::{DIRECTIONS, Place, Shared, StreamStep},
    socket::{Batch, Next, Socket, may_be_joined},
};
use crate::capture::{Connection, Direction, StreamBuffer, WebSocket};
use bytes::{Bytes, BytesMut};
use core::time::Duration;
use zwire_proto::zenoh::VERSION;

/// A connection that may carry Zenoh.
#[derive(Debug)]
pub(crate) struct ZenohStream {
    connection: Connection,
    from_start: bool,
    kind: ZenohCarrier,
    session: ZenohSession,
    halves: [ZenohHalf; 2],
}

#[derive(Debug)]
enum ZenohCarrier {
    Undecided,
    Zenoh,
    /// The protocol inside is not known before its first message.
    WebSocket(Box<Socket>),
}

#[derive(Debug, Default)]
struct ZenohHalf {
    buffer: StreamBuffer,
    phase: ZenohPhase,
    /// When the last bytes were captured.
    time: Duration,
    /// The last batch did not decode.
    doubtful: bool,
}

#[derive(Debug, Default)]
enum ZenohPhase {
    /// No bytes were taken yet.
    #[default]
    Start,
    /// A batch begins at the position of the buffer.
    Framed,
    /// The batch at the position is damaged; so many of its bytes are left to skip.
    Skip(u64),
    /// The next batch begins somewhere in `waiting`, or later. The buffer is empty, and its position is
    /// that of the first byte of `waiting`.
    Search {
        waiting: BytesMut,
        /// Length of `waiting` from which on the search runs again.
        wanted: usize,
        /// Position at which the search began.
        since: u64,
        /// Only the start of the stream is a candidate.
        at_start: bool,
    },
}

enum StreamStart {
    Await,
    Init,
    Http,
    Other,
}

impl ZenohStream {
    pub(crate) fn new(connection: Connection, from_start: bool, forced: bool) -> Self {
        let mut stream = Self {
            connection,
            from_start,
            kind: if forced { ZenohCarrier::Zenoh } else { ZenohCarrier::Undecided },
            session: ZenohSession::default(),
            halves: [ZenohHalf::default(), ZenohHalf::default()],
        };
        if forced && from_start {
            for half in &mut stream.halves {
                half.phase = ZenohPhase::Framed;
            }
        }
        stream
    }

    pub(crate) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Whether the connection is known to be Zenoh.
    pub(crate) const fn is_known(&self) -> bool {
        match &self.kind {
            ZenohCarrier::Undecided => false,
            ZenohCarrier::Zenoh => true,
            ZenohCarrier::WebSocket(socket) => socket.is_zenoh(),
        }
    }

    /// Whether these bytes begin another session between the same ends: an INIT where the next batch
    /// begins, from a side that is past its own.
    pub(crate) fn begins_again(&self, direction: Direction, data: &[u8]) -> bool {
        let half = &self.halves[direction.index()];
        matches!(half.phase, ZenohPhase::Framed)
            && half.buffer.is_empty()
            && self.session.is_open(direction.index())
            && matches!(start(data), StreamStart::Init)
    }

    /// Takes in the next bytes. Call [`Self::step`] until it has nothing left to do.
    pub(crate) fn handle_data(&mut self, time: Duration, direction: Direction, data: Bytes) {
        let half = &mut self.halves[direction.index()];
        half.time = time;
        // A WebSocket joined inside a message can be recognised at the start of a later one.
        let joins = matches!(half.phase, ZenohPhase::Search { at_start: false, .. }) && may_be_joined(&data);
        if joins && matches!(self.kind, ZenohCarrier::Undecided) {
            self.switch_to(Socket::resume());
        }
        if let ZenohCarrier::WebSocket(socket) = &mut self.kind {
            socket.handle_data(direction, data);
            return;
        }
        let half = &mut self.halves[direction.index()];
        match &mut half.phase {
            ZenohPhase::Search { waiting, .. } => waiting.extend_from_slice(&data),
            ZenohPhase::Skip(left) => {
                let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
                *left -= skipped as u64;
                half.buffer.jump(skipped as u64);
                if *left == 0 {
                    half.phase = ZenohPhase::Framed;
                    half.buffer.push(data.slice(skipped..));
                }
            }
            ZenohPhase::Start | ZenohPhase::Framed => half.buffer.push(data),
        }
    }

    /// Takes in a gap: bytes missing in the capture.
    pub(crate) fn handle_gap(
        &mut self,
        time: Duration,
        direction: Direction,
        offset: u64,
        missing: u64,
        shared: &mut Shared,
    ) {
        let side = direction.index();
        // Bytes that wait for a decision will never be continued.
        if matches!(self.halves[side].phase, ZenohPhase::Search { .. }) {
            while self.step_half(direction, true, shared) == StreamStep::Again {}
        }
        let place = Place { time, ..self.place(direction, offset) };
        self.session.lose(side);
        if let ZenohCarrier::WebSocket(socket) = &mut self.kind {
            socket.handle_gap(direction, missing);
            if socket.is_zenoh() {
                shared.out.push_back(place.fault(offset, Cause::Missing { bytes: missing }));
            }
            return;
        }
        if matches!(self.kind, ZenohCarrier::Zenoh) {
            shared.out.push_back(place.fault(offset, Cause::Missing { bytes: missing }));
        }
        let format = self.session.format(side);
        let half = &mut self.halves[side];
        let gone = half.buffer.len() as u64 + missing;
        let left = match half.phase {
            ZenohPhase::Skip(left) => left.checked_sub(missing),
            // If the batch that is damaged is longer than the gap, the next one begins behind it.
            ZenohPhase::Framed => prefix(&mut half.buffer, format.unwrap_or(Format::Plain))
                .and_then(|(prefix, len)| (prefix as u64 + len).checked_sub(gone)),
            ZenohPhase::Start | ZenohPhase::Search { .. } => None,
        };
        let waited = match &half.phase {
            ZenohPhase::Search { waiting, .. } => waiting.len() as u64,
            _ => 0,
        };
        half.buffer.jump(missing + waited);
        half.phase = match left {
            Some(0) => ZenohPhase::Framed,
            Some(left) => ZenohPhase::Skip(left),
            None => ZenohPhase::search(half.buffer.position()),
        };
        // The handshake may be in the gap; the decision waits for the bytes behind it.
        if left.is_none() {
            self.session.pass_handshake(side);
        }
    }

    /// Handles at most one batch.
    pub(crate) fn step(&mut self, shared: &mut Shared) -> StreamStep {
        if matches!(self.kind, ZenohCarrier::WebSocket(_)) {
            return self.step_web_socket(shared);
        }
        for direction in DIRECTIONS {
            match self.step_half(direction, false, shared) {
                StreamStep::Done => {}
                other => return other,
            }
        }
        StreamStep::Done
    }

    /// Handles at most one batch, with the knowledge that no more bytes follow. `Done`: everything was
    /// reported.
    pub(crate) fn finish(&mut self, shared: &mut Shared) -> StreamStep {
        if matches!(self.kind, ZenohCarrier::WebSocket(_)) {
            match self.step_web_socket(shared) {
                StreamStep::Done => {}
                other => return other,
            }
        } else {
            for direction in DIRECTIONS {
                match self.step_half(direction, true, shared) {
                    StreamStep::Done => {}
                    other => return other,
                }
            }
        }
        if matches!(self.kind, ZenohCarrier::Zenoh) {
            for direction in DIRECTIONS {
                let half = &mut self.halves[direction.index()];
                let (bytes, offset) = (half.buffer.len() as u64, half.buffer.position());
                half.buffer.clear();
                if bytes > 0 {
                    let place = self.place(direction, offset);
                    shared.out.push_back(place.fault(offset, Cause::Cut { bytes }));
                }
            }
        }
        let places = DIRECTIONS
            .map(|direction| self.place(direction, self.halves[direction.index()].buffer.position()));
        self.session.finish(places, shared);
        StreamStep::Done
    }

    /// Releases its share of the memory bounds that all streams share.
    pub(crate) fn forget(mut self, shared: &mut Shared) {
        self.session.forget(shared);
    }

    /// Number of bytes that wait for a decision, or for the rest of their batch.
    pub(crate) fn waiting(&self) -> usize {
        let waiting = |half: &ZenohHalf| match &half.phase {
            ZenohPhase::Search { waiting, .. } => waiting.len(),
            _ => half.buffer.len(),
        };
        self.halves.iter().map(waiting).sum()
    }

    fn place(&self, direction: Direction, offset: u64) -> Place {
        let time = self.halves[direction.index()].time;
        Place { time, src: self.connection.src(direction), dst: self.connection.dst(direction), offset }
    }

    fn step_half(&mut self, direction: Direction, end: bool, shared: &mut Shared) -> StreamStep {
        let half = &mut self.halves[direction.index()];
        match &mut half.phase {
            ZenohPhase::Start if half.buffer.is_empty() => StreamStep::Done,
            ZenohPhase::Start => self.step_start(direction, end, shared.undecided > MAX_UNDECIDED_TOTAL),
            ZenohPhase::Framed => self.step_framed(direction, shared),
            ZenohPhase::Skip(_) => StreamStep::Done,
            ZenohPhase::Search { waiting, .. } if waiting.is_empty() => StreamStep::Done,
            ZenohPhase::Search { .. } => self.step_search(direction, end, shared),
        }
    }

    fn step_start(&mut self, direction: Direction, end: bool, crowded: bool) -> StreamStep {
        let half = &mut self.halves[direction.index()];
        if matches!(self.kind, ZenohCarrier::Zenoh) && self.from_start {
            half.phase = ZenohPhase::Framed;
            return StreamStep::Again;
        }
        let start = match start(half.buffer.as_slice()) {
            // A response captured before its request.
            StreamStart::Other if self.from_start && half.buffer.as_slice().starts_with(b"HTTP/1.1 ") => {
                StreamStart::Await
            }
            start => start,
        };
        match start {
            StreamStart::Init => {
                self.kind = ZenohCarrier::Zenoh;
                half.phase = ZenohPhase::Framed;
                StreamStep::Again
            }
            StreamStart::Http => {
                self.switch_to(Socket::new());
                StreamStep::Again
            }
            StreamStart::Await if !end => {
                // The bytes of the server may be captured before those of the client.
                if half.buffer.len() > MAX_UNDECIDED || crowded {
                    StreamStep::Foreign
                } else {
                    StreamStep::Done
                }
            }
            StreamStart::Other if self.from_start => {
                half.search_from_here();
                if let ZenohPhase::Search { at_start, .. } = &mut half.phase {
                    *at_start = true;
                }
                self.session.pass_handshake(direction.index());
                StreamStep::Again
            }
            StreamStart::Await if self.from_start => StreamStep::Foreign,
            StreamStart::Await | StreamStart::Other
                if matches!(self.kind, ZenohCarrier::Undecided) && may_be_joined(half.buffer.as_slice()) =>
            {
                self.switch_to(Socket::resume());
                StreamStep::Again
            }
            StreamStart::Await | StreamStart::Other => {
                half.search_from_here();
                self.session.pass_handshake(direction.index());
                StreamStep::Again
            }
        }
    }

    fn step_framed(&mut self, direction: Direction, shared: &mut Shared) -> StreamStep {
        let side = direction.index();
        let half = &mut self.halves[side];
        if half.buffer.is_empty() {
            return StreamStep::Done;
        }
        let Some(format) = self.session.format(side) else {
            // The other side's INIT is not in the capture.
            half.search_from_here();
            return StreamStep::Again;
        };
        let Some((prefix, len)) = prefix(&mut half.buffer, format) else { return StreamStep::Done };
        let offset = half.buffer.position() + prefix as u64;
        if len > MAX_BATCH as u64 {
            let place = self.place(direction, offset);
            let cause = Cause::Prefix { len, max: MAX_BATCH as u64 };
            shared.out.push_back(place.fault(place.offset - prefix as u64, cause));
            self.halves[side].search_from_here();
            return StreamStep::Again;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most MAX_BATCH")]
        let Some(batch) = half.buffer.take(prefix + len as usize) else { return StreamStep::Done };
        let place = self.place(direction, offset);
        let good = self.session.handle_batch(side, batch.slice(prefix..), place, shared);
        let half = &mut self.halves[side];
        if !good && half.doubtful {
            half.search_from_here();
        }
        half.doubtful = !good;
        StreamStep::Again
    }

    fn step_search(&mut self, direction: Direction, end: bool, shared: &mut Shared) -> StreamStep {
        let side = direction.index();
        let known = matches!(self.kind, ZenohCarrier::Zenoh);
        let half = &mut self.halves[side];
        let ZenohPhase::Search { waiting, wanted, since, at_start } = &mut half.phase else {
            return StreamStep::Done;
        };
        if waiting.len() < *wanted && !end && shared.undecided <= MAX_UNDECIDED_TOTAL {
            return StreamStep::Done;
        }
        let (since, at_start) = (*since, *at_start && !known);
        let piece = core::mem::take(waiting).freeze();
        let format = self.session.format(side);
        let formats = format.as_ref().map_or(&Format::ALL[..], core::slice::from_ref);
        let decompressor = &mut shared.decompressor;
        let found = match (known, at_start) {
            (true, _) => search(&piece, formats, Proof::KNOWN, end, decompressor),
            (false, false) => search(&piece, formats, Proof::STRANGER, end, decompressor),
            (false, true) => {
                let found = search_start(&piece, formats, Proof::NO_HANDSHAKE, end, decompressor);
                let Some(found) = found else {
                    half.buffer.jump(piece.len() as u64);
                    half.phase = ZenohPhase::search(half.buffer.position());
                    return StreamStep::Foreign;
                };
                found
            }
        };
        match found {
            BatchSearch::Found(at, format) => {
                half.buffer.jump(at as u64);
                half.buffer.push(piece.slice(at..));
                half.phase = ZenohPhase::Framed;
                half.doubtful = false;
                if self.session.format(side).is_none() {
                    self.session.set_format(format);
                }
                let skipped = half.buffer.position() - since;
                if !known {
                    self.kind = ZenohCarrier::Zenoh;
                    if at_start {
                        // The other side's INIT is missing too.
                        self.session.pass_handshake(1 - side);
                    }
                    // The other side needs less evidence now.
                    if let ZenohPhase::Search { wanted, .. } = &mut self.halves[1 - side].phase {
                        *wanted = 0;
                    }
                }
                self.told_skipped(direction, since, skipped, shared);
                StreamStep::Again
            }
            BatchSearch::Wait(at) => {
                half.buffer.jump(at as u64);
                let left = piece.len() - at;
                let crowded = shared.undecided > MAX_UNDECIDED_TOTAL;
                if end || left > MAX_UNDECIDED || crowded {
                    half.buffer.jump(left as u64);
                    let now = half.buffer.position();
                    half.phase = ZenohPhase::search(now);
                    if known {
                        self.told_skipped(direction, since, now - since, shared);
                        return StreamStep::Done;
                    }
                    return if end { StreamStep::Done } else { StreamStep::Foreign };
                }
                let waiting = match piece.try_into_mut() {
                    Ok(mut all) => all.split_off(at),
                    Err(piece) => BytesMut::from(&piece[at..]),
                };
                let wanted = waiting.len() + waiting.len() / 2 + 1;
                half.phase = ZenohPhase::Search { waiting, wanted, since, at_start };
                StreamStep::Done
            }
        }
    }

    fn told_skipped(&self, direction: Direction, since: u64, bytes: u64, shared: &mut Shared) {
        if bytes > 0 {
            let place = self.place(direction, since);
            shared.out.push_back(place.fault(since, Cause::Skipped { bytes }));
        }
    }

    fn switch_to(&mut self, mut socket: Socket) {
        for direction in DIRECTIONS {
            let half = &mut self.halves[direction.index()];
            let searched = match core::mem::take(&mut half.phase) {
                ZenohPhase::Search { waiting, .. } => waiting.len(),
                _ => 0,
            };
            let passed = half.buffer.position() + searched as u64;
            if passed > 0 {
                socket.handle_gap(direction, passed);
            }
            if let Some(data) = half.buffer.take(half.buffer.len()) {
                socket.handle_data(direction, data);
            }
        }
        self.kind = ZenohCarrier::WebSocket(Box::new(socket));
    }

    fn step_web_socket(&mut self, shared: &mut Shared) -> StreamStep {
        let ZenohCarrier::WebSocket(socket) = &mut self.kind else { return StreamStep::Done };
        match socket.poll(&mut shared.decompressor) {
            Next::Batch(Batch { direction, offset, bytes }) => {
                let place = self.place(direction, offset);
                self.session.handle_batch(direction.index(), bytes, place, shared);
            }
            Next::Format(format) => {
                self.session.pass_handshake(0);
                self.session.pass_handshake(1);
                self.session.set_format(format);
            }
            Next::Fault(direction, offset, error) => {
                let place = self.place(direction, offset);
                shared.out.push_back(place.fault(offset, Cause::Decode(error)));
            }
            Next::Nothing => return StreamStep::Done,
            Next::Foreign => return StreamStep::Foreign,
        }
        StreamStep::Again
    }
}

impl ZenohPhase {
    fn search(since: u64) -> Self {
        Self::Search { waiting: BytesMut::new(), wanted: 0, since, at_start: false }
    }
}

impl ZenohHalf {
    /// Starts a search: the place of the next batch is lost.
    fn search_from_here(&mut self) {
        let since = self.buffer.position();
        let waiting = self.buffer.as_slice().into();
        self.buffer = StreamBuffer::default();
        self.buffer.jump(since);
        self.phase = ZenohPhase::Search { waiting, wanted: 0, since, at_start: false };
    }
}

/// Length of the length prefix, and its value. `None`: more bytes are needed.
fn prefix(buffer: &mut StreamBuffer, format: Format) -> Option<(usize, u64)> {
    let first: [u8; 2] = buffer.peek()?;
    let short = u16::from_le_bytes(first);
    if format != Format::LowLatency {
        return Some((2, short.into()));
    }
    // A low-latency session ends with a second CLOSE, behind a short prefix.
    if short == 2
        && let Some([_, _, 0x03 | 0x23, reason]) = buffer.peek::<4>()
        && reason <= 7
    {
        return Some((2, 2));
    }
    buffer.peek::<4>().map(|bytes| (4, u32::from_le_bytes(bytes).into()))
}

/// Kind of the first bytes of one side of a connection.
fn start(bytes: &[u8]) -> StreamStart {
    const INIT: u8 = 0x01;
    if WebSocket::is_request_start(bytes) {
        return if bytes.len() < 4 { StreamStart::Await } else { StreamStart::Http };
    }
    match *bytes {
        [_] | [_, _] => StreamStart::Await,
        [_, _, header, ..] if header & 0x1f != INIT => StreamStart::Other,
        [_, _, _] => StreamStart::Await,
        [_, _, _, version, ..] if version != VERSION => StreamStart::Other,
        [low, high, ref rest @ ..] => {
            let len = usize::from(u16::from_le_bytes([low, high]));
            match rest.get(..len) {
                None => StreamStart::Await,
                Some(batch) if is_init(&Bytes::copy_from_slice(batch)) => StreamStart::Init,
                Some(_) => StreamStart::Other,
            }
        }
        [] => StreamStart::Await,
    }
}
