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
    shared::{DIRECTIONS, Hole, Place, Shared, StreamStep},
    side::{Phase, Side},
    socket::{Batch, Next, Socket, may_be_joined},
};
use crate::capture::{Connection, Direction, StreamBuffer, WebSocket};
use bytes::Bytes;
use core::time::Duration;
use zwire_proto::zenoh::VERSION;

/// A connection that may carry Zenoh.
#[derive(Debug)]
pub(crate) struct ZenohStream {
    pub(crate) connection: Connection,
    from_start: bool,
    kind: ZenohCarrier,
    pub(crate) session: ZenohSession,
    /// The state tells whether the last batch did not decode.
    halves: [Side<bool>; 2],
}

#[derive(Debug)]
enum ZenohCarrier {
    Undecided,
    Zenoh,
    /// The protocol inside is not known before its first message.
    WebSocket(Box<Socket>),
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
            halves: Default::default(),
        };
        if forced && from_start {
            for half in &mut stream.halves {
                half.phase = Phase::Framed;
            }
        }
        stream
    }

    pub(crate) const fn is_known(&self) -> bool {
        match &self.kind {
            ZenohCarrier::Undecided => false,
            ZenohCarrier::Zenoh => true,
            ZenohCarrier::WebSocket(socket) => socket.is_zenoh(),
        }
    }

    /// Whether these bytes begin another session: an INIT in place of a batch, from a side past its own.
    pub(crate) fn begins_again(&self, direction: Direction, data: &[u8]) -> bool {
        let half = &self.halves[direction.index()];
        matches!(half.phase, Phase::Framed)
            && half.buffer.is_empty()
            && self.session.sides[direction.index()].open
            && matches!(start(data), StreamStart::Init)
    }

    /// Takes in the next bytes. Call [`Self::step`] until it has nothing left to do.
    pub(crate) fn handle_data(&mut self, time: Duration, direction: Direction, data: Bytes) {
        // A WebSocket joined inside a message can be recognised at the start of a later one.
        let joins = matches!(self.halves[direction.index()].phase, Phase::Search { opening: false, .. });
        if joins && may_be_joined(&data) && matches!(self.kind, ZenohCarrier::Undecided) {
            self.switch_to(Socket::resume());
        }
        let half = &mut self.halves[direction.index()];
        if let ZenohCarrier::WebSocket(socket) = &mut self.kind {
            half.time = time;
            socket.socket.handle_data(direction, data);
        } else {
            half.handle_data(time, data);
        }
    }

    pub(crate) fn handle_gap(&mut self, hole: Hole, shared: &mut Shared) {
        let Hole { time, direction, offset, bytes: missing } = hole;
        let side = direction.index();
        // Bytes that wait for a decision will never be continued.
        if matches!(self.halves[side].phase, Phase::Search { .. }) {
            while self.step_half(direction, true, shared) == StreamStep::Again {}
        }
        let place = Place { time, ..self.place(direction, offset) };
        self.session.sides[side].declared.lossy = true;
        if let ZenohCarrier::WebSocket(socket) = &mut self.kind {
            socket.socket.handle_gap(direction, missing);
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
        // If the batch that is damaged is longer than the gap, the next one begins behind it.
        let batch = |buffer: &mut StreamBuffer| {
            prefix(buffer, format.unwrap_or(Format::Plain)).map(|(prefix, len)| (prefix as u64 + len, false))
        };
        if half.handle_gap(missing, batch).is_none() {
            half.search(false);
            // The handshake may be in the gap; the decision waits for the bytes behind it.
            self.session.sides[side].open = true;
        }
    }

    fn advance(&mut self, end: bool, shared: &mut Shared) -> StreamStep {
        if matches!(self.kind, ZenohCarrier::WebSocket(_)) {
            return self.step_web_socket(shared);
        }
        let mut steps = DIRECTIONS.into_iter().map(|direction| self.step_half(direction, end, shared));
        steps.find(|step| *step != StreamStep::Done).unwrap_or(StreamStep::Done)
    }

    /// Handles at most one batch. With `end` no more bytes follow, and `Done` means that everything was reported.
    pub(crate) fn step(&mut self, end: bool, shared: &mut Shared) -> StreamStep {
        let step = self.advance(end, shared);
        if !end || step != StreamStep::Done {
            return step;
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
        self.session.finish(Some(places), shared);
        StreamStep::Done
    }

    /// Number of bytes that wait for a decision, or for the rest of their batch.
    pub(crate) fn waiting(&self) -> usize {
        self.halves.iter().map(|half| half.buffer.len()).sum()
    }

    fn place(&self, direction: Direction, offset: u64) -> Place {
        self.halves[direction.index()].place(&self.connection, direction, offset)
    }

    fn step_half(&mut self, direction: Direction, end: bool, shared: &mut Shared) -> StreamStep {
        let half = &mut self.halves[direction.index()];
        if half.buffer.is_empty() {
            return StreamStep::Done;
        }
        match half.phase {
            Phase::Start => self.step_start(direction, end, shared.undecided > MAX_UNDECIDED_TOTAL),
            Phase::Framed => self.step_framed(direction, shared),
            Phase::Skip { .. } => StreamStep::Done,
            Phase::Search { .. } => self.step_search(direction, end, shared),
        }
    }

    fn step_start(&mut self, direction: Direction, end: bool, crowded: bool) -> StreamStep {
        let half = &mut self.halves[direction.index()];
        if matches!(self.kind, ZenohCarrier::Zenoh) && self.from_start {
            half.phase = Phase::Framed;
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
                half.phase = Phase::Framed;
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
                // Only the start of the stream is a candidate.
                half.search(true);
                self.session.sides[direction.index()].open = true;
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
                half.search(false);
                self.session.sides[direction.index()].open = true;
                StreamStep::Again
            }
        }
    }

    fn step_framed(&mut self, direction: Direction, shared: &mut Shared) -> StreamStep {
        let side = direction.index();
        let half = &mut self.halves[side];
        let Some(format) = self.session.format(side) else {
            // The other side's INIT is not in the capture.
            half.search(false);
            return StreamStep::Again;
        };
        let Some((prefix, len)) = prefix(&mut half.buffer, format) else { return StreamStep::Done };
        let offset = half.buffer.position() + prefix as u64;
        if len > MAX_BATCH as u64 {
            let place = self.place(direction, offset);
            let cause = Cause::Prefix { len, max: MAX_BATCH as u64 };
            shared.out.push_back(place.fault(place.offset - prefix as u64, cause));
            self.halves[side].search(false);
            return StreamStep::Again;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most MAX_BATCH")]
        let Some(batch) = half.buffer.take(prefix + len as usize) else { return StreamStep::Done };
        let place = self.place(direction, offset);
        let good = self.session.handle_batch(side, batch.slice(prefix..), place, shared);
        let half = &mut self.halves[side];
        if !good && half.state {
            half.search(false);
        }
        half.state = !good;
        StreamStep::Again
    }

    fn step_search(&mut self, direction: Direction, end: bool, shared: &mut Shared) -> StreamStep {
        let side = direction.index();
        let known = matches!(self.kind, ZenohCarrier::Zenoh);
        let half = &mut self.halves[side];
        let Phase::Search { since, wanted, opening } = half.phase else {
            return StreamStep::Done;
        };
        if half.buffer.len() < wanted && !end && shared.undecided <= MAX_UNDECIDED_TOTAL {
            half.buffer.settle();
            return StreamStep::Done;
        }
        let opening = opening && !known;
        let piece = Bytes::copy_from_slice(half.buffer.as_slice());
        let format = self.session.format(side);
        let formats = format.as_ref().map_or(&Format::ALL[..], core::slice::from_ref);
        let decompressor = &mut shared.decompressor;
        let found = match (known, opening) {
            (true, _) => search(&piece, formats, Proof::KNOWN, end, decompressor),
            (false, false) => search(&piece, formats, Proof::STRANGER, end, decompressor),
            (false, true) => {
                let found = search_start(&piece, formats, Proof::NO_HANDSHAKE, end, decompressor);
                let Some(found) = found else {
                    half.buffer.clear();
                    half.search(false);
                    return StreamStep::Foreign;
                };
                found
            }
        };
        match found {
            BatchSearch::Found(at, format) => {
                half.buffer.skip(at as u64);
                half.phase = Phase::Framed;
                half.state = false;
                if self.session.format(side).is_none() {
                    self.session.guess = Some(format);
                }
                let skipped = half.buffer.position() - since;
                if !known {
                    self.kind = ZenohCarrier::Zenoh;
                    if opening {
                        // The other side's INIT is missing too.
                        self.session.sides[1 - side].open = true;
                    }
                    // The other side needs less evidence now.
                    self.halves[1 - side].hurry();
                }
                self.told_skipped(direction, since, skipped, shared);
                StreamStep::Again
            }
            BatchSearch::Wait(at) => {
                half.buffer.skip(at as u64);
                let crowded = shared.undecided > MAX_UNDECIDED_TOTAL;
                if end || half.buffer.len() > MAX_UNDECIDED || crowded {
                    half.buffer.clear();
                    half.search(false);
                    if known {
                        let skipped = half.buffer.position() - since;
                        self.told_skipped(direction, since, skipped, shared);
                        return StreamStep::Done;
                    }
                    return if end { StreamStep::Done } else { StreamStep::Foreign };
                }
                half.search_again(since, opening);
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
            if matches!(core::mem::take(&mut half.phase), Phase::Search { .. }) {
                half.buffer.clear();
            }
            let passed = half.buffer.position();
            if passed > 0 {
                socket.socket.handle_gap(direction, passed);
            }
            if let Some(data) = half.buffer.take(half.buffer.len()) {
                socket.socket.handle_data(direction, data);
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
                self.session.pass_handshake(Some(format));
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
