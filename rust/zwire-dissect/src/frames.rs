//! [`FrameDissector`]: bytes of sessions that are in no capture, from whoever has them.

use super::{
    record::Record,
    shared::{Shared, StreamStep},
    zenoh::{Datagram, Datagrams, ZenohStream},
};
use crate::capture::{Connection, ConnectionId, Direction, MAX_CONNECTIONS};
use bytes::Bytes;
use core::{net::SocketAddr, time::Duration};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// How frames were cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// As what was read from a stream: batches behind their lengths, and a frame ends anywhere.
    Stream,
    /// As datagrams: a batch each, without a length in front.
    Batch,
}

/// Some bytes of Zenoh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When they were on the wire, if somebody knows.
    pub time: Option<Duration>,
    /// Who sent them.
    pub src: SocketAddr,
    /// To whom.
    pub dst: SocketAddr,
    /// The bytes.
    pub data: Bytes,
}

/// Reads bytes that are known to be Zenoh and are in no capture.
///
/// What two ends say to each other is one session, and its frames come in order. As in a capture that began
/// late its first ones may be missing; an INIT begins a new session.
///
/// After each [`push`](Self::push), and after [`finish`](Self::finish), call
/// [`poll_records`](Self::poll_records) until it gives nothing.
pub struct FrameDissector {
    kind: FrameSessions,
    shared: Shared,
    /// What waits to be handled after the active session.
    waiting: VecDeque<Frame>,
    /// How many records were handed out in place.
    lent: usize,
    finishing: bool,
}

#[allow(clippy::large_enum_variant, reason = "there is one of it")]
enum FrameSessions {
    Streams(Streams),
    Batches(Datagrams),
}

/// The two ends of a session, the smaller address first.
type FrameEnds = (SocketAddr, SocketAddr);

#[derive(Default)]
struct Streams {
    open: HashMap<FrameEnds, ZenohStream>,
    /// Their ends in the order in which they began.
    age: VecDeque<FrameEnds>,
    /// What has just got bytes, or is to end.
    active: Option<(FrameEnds, bool)>,
}

impl FrameDissector {
    /// When a record of a frame of unknown time was captured.
    pub const UNKNOWN: Duration = Duration::MAX;

    /// A dissector that has seen nothing yet.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        let kind = match framing {
            Framing::Stream => FrameSessions::Streams(Streams::default()),
            Framing::Batch => FrameSessions::Batches(Datagrams::default()),
        };
        Self { kind, shared: Shared::default(), waiting: VecDeque::new(), lent: 0, finishing: false }
    }

    /// Adds a frame.
    pub fn push(&mut self, frame: Frame) {
        self.waiting.push_back(frame);
    }

    /// Says that nothing follows; poll on for the last records.
    pub const fn finish(&mut self) {
        self.finishing = true;
    }

    /// The next records, left in place until the next call. Empty asks for the next frame, or after
    /// [`finish`](Self::finish) says that there is no more.
    pub fn poll_records(&mut self) -> &[Record] {
        self.shared.out.drain(..core::mem::take(&mut self.lent));
        while self.shared.out.is_empty() && self.advance() {}
        self.lent = self.shared.out.len();
        self.shared.out.make_contiguous()
    }

    /// The ends of all sessions that are remembered.
    pub fn ends(&self) -> impl Iterator<Item = SocketAddr> {
        let (streams, batches) = match &self.kind {
            FrameSessions::Streams(streams) => (Some(streams.open.keys().copied()), None),
            FrameSessions::Batches(datagrams) => (None, Some(datagrams.pairs())),
        };
        let pairs = streams.into_iter().flatten().chain(batches.into_iter().flatten());
        let waiting = self.waiting.iter().map(|frame| (frame.src, frame.dst));
        pairs.chain(waiting).flat_map(|(a, b)| [a, b])
    }

    /// Does a step; false if there is none to do.
    fn advance(&mut self) -> bool {
        if let FrameSessions::Streams(streams) = &mut self.kind
            && streams.step(&mut self.shared)
        {
            return true;
        }
        if let Some(frame) = self.waiting.pop_front() {
            let Frame { time, src, dst, data } = frame;
            let time = time.unwrap_or(Self::UNKNOWN);
            match &mut self.kind {
                FrameSessions::Streams(streams) => {
                    // What had to end first made room; then the frame is looked at again.
                    if let Some(data) = streams.handle(time, src, dst, data, &mut self.shared) {
                        self.waiting.push_front(Frame { time: Some(time), src, dst, data });
                    }
                }
                FrameSessions::Batches(datagrams) => {
                    let datagram = Datagram { time, src, dst, data, missing: 0 };
                    datagrams.handle(datagram, true, &mut self.shared);
                }
            }
            return true;
        }
        if !self.finishing {
            return false;
        }
        match &mut self.kind {
            FrameSessions::Streams(streams) => streams.end_oldest(),
            FrameSessions::Batches(datagrams) => {
                self.finishing = false;
                datagrams.finish(&mut self.shared);
                true
            }
        }
    }
}

impl Streams {
    /// Takes in bytes, or gives them back if a session has to end before.
    fn handle(
        &mut self,
        time: Duration,
        src: SocketAddr,
        dst: SocketAddr,
        data: Bytes,
        shared: &mut Shared,
    ) -> Option<Bytes> {
        if data.is_empty() {
            return None;
        }
        let pair = if src <= dst { (src, dst) } else { (dst, src) };
        if let Some(stream) = self.open.get(&pair) {
            if stream.begins_again(direction(stream.connection(), src), &data) {
                self.active = Some((pair, true));
                return Some(data);
            }
        } else if self.open.len() >= MAX_CONNECTIONS {
            self.end_oldest();
            return Some(data);
        }
        let stream = self.open.entry(pair).or_insert_with(|| {
            self.age.push_back(pair);
            let connection = Connection { id: ConnectionId(0), client: src, server: dst };
            ZenohStream::new(connection, false, true)
        });
        shared.undecided -= stream.waiting();
        stream.handle_data(time, direction(stream.connection(), src), data);
        shared.undecided += stream.waiting();
        self.active = Some((pair, false));
        None
    }

    /// Handles at most one batch of the active session; false if there is none.
    fn step(&mut self, shared: &mut Shared) -> bool {
        let Some((pair, ended)) = self.active else { return false };
        let Some(stream) = self.open.get_mut(&pair) else {
            self.active = None;
            return true;
        };
        let before = stream.waiting();
        let step = if ended { stream.finish(shared) } else { stream.step(shared) };
        shared.undecided = shared.undecided - before + stream.waiting();
        if step == StreamStep::Again {
            return true;
        }
        self.active = None;
        if (ended || step == StreamStep::Foreign)
            && let Some(stream) = self.open.remove(&pair)
        {
            shared.undecided -= stream.waiting();
            stream.forget(shared);
            if self.age.front() == Some(&pair) {
                self.age.pop_front();
            } else {
                self.age.retain(|other| *other != pair);
            }
        }
        true
    }

    /// Makes the session that began first the active one, to end it; false if there is none.
    fn end_oldest(&mut self) -> bool {
        self.active = self.age.front().map(|pair| (*pair, true));
        self.active.is_some()
    }
}

fn direction(connection: &Connection, src: SocketAddr) -> Direction {
    if src == connection.client { Direction::ToServer } else { Direction::ToClient }
}
