//! [`Follower`]: one TCP connection, and the protocol it carries.
//!
//! ```text
//!   Start ──▶ Zmtp      one side begins with a greeting
//!     └─────▶ Zenoh     no greeting: it is Zenoh, or nothing that is read here
//!   Joined ─▶ Zmtp, Zenoh, whichever is found first; the capture began later
//! ```

use super::{
    limits::MAX_GREETING,
    shared::{Hole, Shared, StreamStep, Waiting},
    zenoh::ZenohStream,
    zmtp::{self, ZmtpStream},
};
use crate::capture::{Connection, Direction};
use bytes::Bytes;
use core::time::Duration;

/// A connection that may carry Zenoh or ZMTP: behind its start both streams read it, until one finds its own.
#[derive(Debug)]
pub(super) struct Follower {
    connection: Connection,
    /// At most a greeting on each side, while the protocol is not decided yet.
    start: Option<Vec<EarlyPiece>>,
    zenoh: Option<Box<ZenohStream>>,
    zmtp: Option<Box<ZmtpStream>>,
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
        let mut follower = Self { connection, start: None, zenoh: None, zmtp: None };
        if forced {
            follower.zenoh = Some(Box::new(ZenohStream::new(connection, from_start, true)));
        } else if from_start {
            follower.start = Some(Vec::new());
        } else {
            follower.join(false);
        }
        follower
    }

    fn join(&mut self, from_start: bool) {
        self.zenoh = Some(Box::new(ZenohStream::new(self.connection, from_start, false)));
        self.zmtp = Some(Box::new(ZmtpStream::joined(self.connection)));
    }

    /// Takes in the next bytes. Call [`Self::step`] until it has nothing left to do.
    pub(super) fn handle_data(&mut self, time: Duration, direction: Direction, data: Bytes) {
        if let Some(pieces) = &mut self.start {
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
            return;
        }
        match (&mut self.zenoh, &mut self.zmtp) {
            (Some(zenoh), None) => zenoh.handle_data(time, direction, data),
            (Some(zenoh), Some(zmtp)) => {
                zenoh.handle_data(time, direction, data.clone());
                zmtp.handle_data(time, direction, data);
            }
            (None, Some(zmtp)) => zmtp.handle_data(time, direction, data),
            (None, None) => {}
        }
    }

    pub(super) fn handle_gap(&mut self, hole: Hole, shared: &mut Shared) {
        if let Some(pieces) = self.start.take() {
            // The greeting may be in the gap.
            self.join(true);
            self.replay(pieces);
        }
        if let Some(zenoh) = &mut self.zenoh {
            zenoh.handle_gap(hole, shared);
        }
        if let Some(zmtp) = &mut self.zmtp {
            zmtp.handle_gap(hole, shared);
        }
    }

    /// Handles at most one batch or frame. With `end` no more bytes follow, and `Done` ends all reports.
    pub(super) fn step(&mut self, end: bool, shared: &mut Shared) -> StreamStep {
        if let Some(pieces) = &self.start {
            if !end {
                return StreamStep::Done;
            }
            let zmtp = greets(pieces, true) == Some(true);
            self.decide(zmtp);
            return StreamStep::Again;
        }
        if let Some(zenoh) = &mut self.zenoh {
            let step = zenoh.step(end, shared);
            if zenoh.is_known() {
                self.zmtp = None;
            }
            if self.zmtp.is_none() || step == StreamStep::Again {
                return step;
            }
            if step == StreamStep::Foreign {
                self.forget(shared);
            }
        }
        let Some(zmtp) = &mut self.zmtp else { return StreamStep::Done };
        let step = zmtp.step(end, shared);
        if zmtp.known {
            self.forget(shared);
        }
        // The connection may still turn out to be Zenoh.
        if step == StreamStep::Foreign && self.zenoh.is_some() { StreamStep::Done } else { step }
    }

    /// Releases its share of the memory bounds that all connections share, with the stream that holds it.
    pub(super) fn forget(&mut self, shared: &mut Shared) {
        if let Some(mut zenoh) = self.zenoh.take() {
            zenoh.session.finish(None, shared);
        }
    }

    pub(super) fn waiting(&self) -> Waiting {
        let zmtp = self.zmtp.as_ref().map_or(0, |zmtp| zmtp.waiting());
        if self.zmtp.as_ref().is_some_and(|zmtp| zmtp.known) {
            return Waiting { held: zmtp, undecided: 0 };
        }
        let start: usize = self.start.iter().flatten().map(|piece| piece.data.len()).sum();
        let zenoh = self.zenoh.as_ref().map_or(0, |zenoh| zenoh.waiting());
        Waiting { undecided: start + zenoh + zmtp, held: 0 }
    }

    fn decide(&mut self, zmtp: bool) {
        let pieces = self.start.take().unwrap_or_default();
        if zmtp {
            self.zmtp = Some(Box::new(ZmtpStream::new(self.connection)));
        } else {
            self.zenoh = Some(Box::new(ZenohStream::new(self.connection, true, false)));
        }
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
