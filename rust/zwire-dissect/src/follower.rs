//! [`Follower`]: one TCP connection, and the protocol it carries.
//!
//! ```text
//!   Start ──▶ Zmtp      one side begins with a greeting
//!     └─────▶ Zenoh     no greeting: it is Zenoh, or nothing that is read here
//!   Joined ─▶ Zmtp, Zenoh, whichever is found first; the capture began later
//! ```

use super::{
    limits::MAX_GREETING,
    shared::{Shared, StreamStep, Waiting},
    zenoh, zmtp,
};
use crate::capture::{Connection, Direction};
use bytes::Bytes;
use core::time::Duration;

/// A connection that may carry Zenoh or ZMTP.
#[derive(Debug)]
pub(super) struct Follower {
    connection: Connection,
    kind: Carried,
}

#[derive(Debug)]
enum Carried {
    /// At most a greeting on each side; the protocol is not decided yet.
    Start(Vec<EarlyPiece>),
    Zenoh(Box<zenoh::ZenohStream>),
    Zmtp(Box<zmtp::ZmtpStream>),
    /// `None`: the connection is not Zenoh.
    Joined(Option<Box<zenoh::ZenohStream>>, Box<zmtp::ZmtpStream>),
}

#[derive(Debug)]
struct EarlyPiece {
    time: Duration,
    direction: Direction,
    data: Bytes,
}

impl Follower {
    /// Everything on a `forced` connection is Zenoh.
    pub(super) fn new(connection: Connection, from_start: bool, forced: bool) -> Self {
        let kind = if forced {
            Carried::Zenoh(Box::new(zenoh::ZenohStream::new(connection, from_start, true)))
        } else if from_start {
            Carried::Start(Vec::new())
        } else {
            Self::joined(connection, false)
        };
        Self { connection, kind }
    }

    fn joined(connection: Connection, from_start: bool) -> Carried {
        let zenoh = zenoh::ZenohStream::new(connection, from_start, false);
        Carried::Joined(Some(Box::new(zenoh)), Box::new(zmtp::ZmtpStream::joined(connection)))
    }

    /// Takes in the next bytes. Call [`Self::step`] until it has nothing left to do.
    pub(super) fn handle_data(&mut self, time: Duration, direction: Direction, data: Bytes) {
        match &mut self.kind {
            Carried::Zenoh(stream) => stream.handle_data(time, direction, data),
            Carried::Zmtp(stream) => stream.handle_data(time, direction, data),
            Carried::Joined(zenoh, zmtp) => {
                if let Some(zenoh) = zenoh {
                    zenoh.handle_data(time, direction, data.clone());
                }
                zmtp.handle_data(time, direction, data);
            }
            Carried::Start(pieces) => {
                pieces.push(EarlyPiece { time, direction, data });
                match greets(pieces, false) {
                    Some(zmtp) => self.decide(zmtp),
                    // A few waiting bytes must not keep the whole chunk of the file alive.
                    None => {
                        if let Some(last) = pieces.last_mut() {
                            last.data = Bytes::copy_from_slice(&last.data);
                        }
                    }
                }
            }
        }
    }

    /// Takes in a gap: bytes missing in the capture.
    pub(super) fn handle_gap(
        &mut self,
        time: Duration,
        direction: Direction,
        offset: u64,
        missing: u64,
        shared: &mut Shared,
    ) {
        if let Carried::Start(pieces) = &mut self.kind {
            // The greeting may be in the gap.
            let pieces = core::mem::take(pieces);
            self.kind = Self::joined(self.connection, true);
            self.replay(pieces);
        }
        match &mut self.kind {
            Carried::Start(_) => {}
            Carried::Zenoh(stream) => stream.handle_gap(time, direction, offset, missing, shared),
            Carried::Zmtp(stream) => stream.handle_gap(time, direction, offset, missing, shared),
            Carried::Joined(zenoh, zmtp) => {
                if let Some(zenoh) = zenoh {
                    zenoh.handle_gap(time, direction, offset, missing, shared);
                }
                zmtp.handle_gap(time, direction, offset, missing, shared);
            }
        }
    }

    /// Handles at most one batch or frame.
    pub(super) fn step(&mut self, shared: &mut Shared) -> StreamStep {
        match &mut self.kind {
            Carried::Start(_) => StreamStep::Done,
            Carried::Zenoh(stream) => stream.step(shared),
            Carried::Zmtp(stream) => stream.step(shared),
            Carried::Joined(..) => self.step_joined(false, shared),
        }
    }

    /// Same as [`Self::step`], with the knowledge that no more bytes follow. `Done`: everything was
    /// reported.
    pub(super) fn finish(&mut self, shared: &mut Shared) -> StreamStep {
        match &mut self.kind {
            Carried::Start(pieces) => {
                let zmtp = greets(pieces, true) == Some(true);
                self.decide(zmtp);
                StreamStep::Again
            }
            Carried::Zenoh(stream) => stream.finish(shared),
            Carried::Zmtp(stream) => stream.finish(shared),
            Carried::Joined(..) => self.step_joined(true, shared),
        }
    }

    /// Releases its share of the memory bounds that all connections share.
    pub(super) fn forget(self, shared: &mut Shared) {
        match self.kind {
            Carried::Zenoh(stream) | Carried::Joined(Some(stream), _) => stream.forget(shared),
            Carried::Start(_) | Carried::Zmtp(_) | Carried::Joined(None, _) => {}
        }
    }

    /// Number of waiting bytes.
    pub(super) fn waiting(&self) -> Waiting {
        let undecided = match &self.kind {
            Carried::Start(pieces) => pieces.iter().map(|piece| piece.data.len()).sum(),
            Carried::Zenoh(stream) => stream.waiting(),
            Carried::Zmtp(stream) => return Waiting { held: stream.waiting(), undecided: 0 },
            Carried::Joined(zenoh, zmtp) => {
                zenoh.as_ref().map_or(0, |zenoh| zenoh.waiting()) + zmtp.waiting()
            }
        };
        Waiting { undecided, held: 0 }
    }

    fn step_joined(&mut self, end: bool, shared: &mut Shared) -> StreamStep {
        let Carried::Joined(zenoh, zmtp) = &mut self.kind else { return StreamStep::Again };
        if let Some(stream) = zenoh {
            let step = if end { stream.finish(shared) } else { stream.step(shared) };
            if stream.is_known() {
                if let Some(stream) = zenoh.take() {
                    self.kind = Carried::Zenoh(stream);
                }
                return step;
            }
            match step {
                StreamStep::Again => return StreamStep::Again,
                StreamStep::Foreign => {
                    if let Some(stream) = zenoh.take() {
                        stream.forget(shared);
                    }
                }
                StreamStep::Done => {}
            }
        }
        let step = if end { zmtp.finish(shared) } else { zmtp.step(shared) };
        if zmtp.is_known() {
            if let Some(stream) = zenoh.take() {
                stream.forget(shared);
            }
            let zmtp = core::mem::replace(zmtp, Box::new(zmtp::ZmtpStream::new(self.connection)));
            self.kind = Carried::Zmtp(zmtp);
            return step;
        }
        match step {
            // The connection may still turn out to be Zenoh.
            StreamStep::Foreign if zenoh.is_some() => StreamStep::Done,
            step => step,
        }
    }

    fn decide(&mut self, zmtp: bool) {
        let Carried::Start(pieces) = &mut self.kind else { return };
        let pieces = core::mem::take(pieces);
        self.kind = if zmtp {
            Carried::Zmtp(Box::new(zmtp::ZmtpStream::new(self.connection)))
        } else {
            Carried::Zenoh(Box::new(zenoh::ZenohStream::new(self.connection, true, false)))
        };
        self.replay(pieces);
    }

    fn replay(&mut self, pieces: Vec<EarlyPiece>) {
        for EarlyPiece { time, direction, data } in pieces {
            self.handle_data(time, direction, data);
        }
    }
}

/// Whether one side begins with a greeting. With `end` no more bytes follow.
fn greets(pieces: &[EarlyPiece], end: bool) -> Option<bool> {
    let mut first = [const { Vec::new() }; 2];
    for EarlyPiece { direction, data, .. } in pieces {
        let start = &mut first[direction.index()];
        let room: usize = MAX_GREETING - start.len();
        start.extend_from_slice(&data[..data.len().min(room)]);
    }
    let mut said = None;
    for start in first.iter().filter(|start| !start.is_empty()) {
        match zmtp::greets(start) {
            Some(true) => return Some(true),
            Some(false) => said = Some(false),
            // Cut short, but the signature of a greeting is complete.
            None if end && start.len() > 10 => return Some(true),
            None => {}
        }
    }
    said
}
