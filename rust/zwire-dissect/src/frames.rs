//! [`FrameDissector`]: dissects bytes of sessions that come from another source than a capture.

use super::{
    record::Record,
    shared::{Shared, StreamStep},
    zenoh::{Datagram, Datagrams, ZenohStream},
};
use crate::capture::{Connection, ConnectionId, MAX_CONNECTIONS};
use bytes::Bytes;
use core::{net::SocketAddr, time::Duration};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Division of a session's bytes into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Stream: batches behind their lengths, cut into frames at arbitrary places.
    Stream,
    /// Datagrams: one batch each, without a length in front.
    Batch,
}

/// Some bytes of Zenoh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Time on the wire, if known.
    pub time: Option<Duration>,
    /// Sender.
    pub src: SocketAddr,
    /// Receiver.
    pub dst: SocketAddr,
    /// The bytes.
    pub data: Bytes,
}

/// Reads bytes that are known to be Zenoh and do not come from a capture.
///
/// The frames between two addresses form one session and must come in order. As in a capture that began
/// late, its first frames may be missing; an INIT begins a new session.
///
/// After each [`push`](Self::push), and after [`finish`](Self::finish), call
/// [`poll_records`](Self::poll_records) until it returns an empty slice.
pub struct FrameDissector {
    kind: FrameSessions,
    shared: Shared,
    /// Frames that wait for the end of the active session.
    waiting: VecDeque<Frame>,
    /// Number of records handed out in place.
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
    /// Sessions in the order in which they began.
    age: VecDeque<FrameEnds>,
    /// The session that has just got bytes, and whether it is to end.
    active: Option<(FrameEnds, bool)>,
}

impl FrameDissector {
    /// Time of the records of a frame without a known time.
    pub const UNKNOWN: Duration = Duration::MAX;

    /// A dissector without any frames yet.
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

    /// Marks the end of the input; poll on for the last records.
    pub const fn finish(&mut self) {
        self.finishing = true;
    }

    /// The next records, left in place until the next call. Empty asks for the next frame, or after
    /// [`finish`](Self::finish) means that all records were returned.
    pub fn poll_records(&mut self) -> &[Record] {
        self.shared.out.drain(..core::mem::take(&mut self.lent));
        while self.shared.out.is_empty() && self.advance() {}
        self.lent = self.shared.out.len();
        self.shared.out.make_contiguous()
    }

    /// Both ends of all remembered sessions.
    pub fn ends(&self) -> impl Iterator<Item = SocketAddr> {
        let (streams, batches) = match &self.kind {
            FrameSessions::Streams(streams) => (Some(streams.open.keys().copied()), None),
            FrameSessions::Batches(datagrams) => (None, Some(datagrams.pairs())),
        };
        let pairs = streams.into_iter().flatten().chain(batches.into_iter().flatten());
        let waiting = self.waiting.iter().map(|frame| (frame.src, frame.dst));
        pairs.chain(waiting).flat_map(|(a, b)| [a, b])
    }

    /// Does one step; `false` if no work is left.
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
                    // The session that ended made room; the frame is tried again.
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
    /// Takes in bytes, or returns them if a session must end first.
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
            if stream.begins_again(stream.connection.direction_from(src), &data) {
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
        stream.handle_data(time, stream.connection.direction_from(src), data);
        shared.undecided += stream.waiting();
        self.active = Some((pair, false));
        None
    }

    /// Handles at most one batch of the active session; `false` if none is complete.
    fn step(&mut self, shared: &mut Shared) -> bool {
        let Some((pair, ended)) = self.active else { return false };
        let Some(stream) = self.open.get_mut(&pair) else {
            self.active = None;
            return true;
        };
        let before = stream.waiting();
        let step = stream.step(ended, shared);
        shared.undecided = shared.undecided - before + stream.waiting();
        if step == StreamStep::Again {
            return true;
        }
        self.active = None;
        if (ended || step == StreamStep::Foreign)
            && let Some(mut stream) = self.open.remove(&pair)
        {
            shared.undecided -= stream.waiting();
            stream.session.finish(None, shared);
            if self.age.front() == Some(&pair) {
                self.age.pop_front();
            } else {
                self.age.retain(|other| *other != pair);
            }
        }
        true
    }

    /// Makes the oldest session the active one, to end it; `false` if there is none.
    fn end_oldest(&mut self) -> bool {
        self.active = self.age.front().map(|pair| (*pair, true));
        self.active.is_some()
    }
}
