//! [`Follower`]: one TCP connection, and what it carries.
//!
//! ```text
//!   Start ──▶ Zmtp      one side begins with a greeting
//!     └─────▶ Zenoh     no greeting: it is Zenoh, or nothing that is read here
//!   Joined ─▶ Zmtp, Zenoh, whichever is found first; the capture began later
//! ```

use super::{
    limits::MAX_GREETING,
    shared::{Shared, Step, Waiting},
    zenoh, zmtp,
};
use crate::capture::{Connection, Direction};
use bytes::Bytes;
use core::time::Duration;

/// A connection that may carry Zenoh or ZMTP.
#[derive(Debug)]
pub(super) struct Follower {
    connection: Connection,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// At most a greeting on each side: nothing is decided yet.
    Start(Vec<Piece>),
    Zenoh(Box<zenoh::Stream>),
    Zmtp(Box<zmtp::Stream>),
    /// `None`: it is not Zenoh.
    Joined(Option<Box<zenoh::Stream>>, Box<zmtp::Stream>),
}

#[derive(Debug)]
struct Piece {
    time: Duration,
    direction: Direction,
    data: Bytes,
}

impl Follower {
    /// Everything on a `forced` connection is Zenoh.
    pub(super) fn new(connection: Connection, from_start: bool, forced: bool) -> Self {
        let kind = if forced {
            Kind::Zenoh(Box::new(zenoh::Stream::new(connection, from_start, true)))
        } else if from_start {
            Kind::Start(Vec::new())
        } else {
            Self::joined(connection, false)
        };
        Self { connection, kind }
    }

    fn joined(connection: Connection, from_start: bool) -> Kind {
        let zenoh = zenoh::Stream::new(connection, from_start, false);
        Kind::Joined(Some(Box::new(zenoh)), Box::new(zmtp::Stream::joined(connection)))
    }

    /// Takes in the next bytes. Call [`Self::step`] until there is nothing more.
    pub(super) fn handle_data(&mut self, time: Duration, direction: Direction, data: Bytes) {
        match &mut self.kind {
            Kind::Zenoh(stream) => stream.handle_data(time, direction, data),
            Kind::Zmtp(stream) => stream.handle_data(time, direction, data),
            Kind::Joined(zenoh, zmtp) => {
                if let Some(zenoh) = zenoh {
                    zenoh.handle_data(time, direction, data.clone());
                }
                zmtp.handle_data(time, direction, data);
            }
            Kind::Start(pieces) => {
                pieces.push(Piece { time, direction, data });
                match greets(pieces, false) {
                    Some(zmtp) => self.decide(zmtp),
                    // Some bytes are not to keep all of the file that was read with them.
                    None => {
                        if let Some(last) = pieces.last_mut() {
                            last.data = Bytes::copy_from_slice(&last.data);
                        }
                    }
                }
            }
        }
    }

    /// Takes in that bytes are missing.
    pub(super) fn handle_gap(
        &mut self,
        time: Duration,
        direction: Direction,
        offset: u64,
        missing: u64,
        shared: &mut Shared,
    ) {
        if let Kind::Start(pieces) = &mut self.kind {
            // The greeting may be in the gap.
            let pieces = core::mem::take(pieces);
            self.kind = Self::joined(self.connection, true);
            self.replay(pieces);
        }
        match &mut self.kind {
            Kind::Start(_) => {}
            Kind::Zenoh(stream) => stream.handle_gap(time, direction, offset, missing, shared),
            Kind::Zmtp(stream) => stream.handle_gap(time, direction, offset, missing, shared),
            Kind::Joined(zenoh, zmtp) => {
                if let Some(zenoh) = zenoh {
                    zenoh.handle_gap(time, direction, offset, missing, shared);
                }
                zmtp.handle_gap(time, direction, offset, missing, shared);
            }
        }
    }

    /// Handles at most one batch or frame.
    pub(super) fn step(&mut self, shared: &mut Shared) -> Step {
        match &mut self.kind {
            Kind::Start(_) => Step::Done,
            Kind::Zenoh(stream) => stream.step(shared),
            Kind::Zmtp(stream) => stream.step(shared),
            Kind::Joined(..) => self.step_joined(false, shared),
        }
    }

    /// The same, knowing that nothing follows. `Done`: everything was told.
    pub(super) fn finish(&mut self, shared: &mut Shared) -> Step {
        match &mut self.kind {
            Kind::Start(pieces) => {
                let zmtp = greets(pieces, true) == Some(true);
                self.decide(zmtp);
                Step::Again
            }
            Kind::Zenoh(stream) => stream.finish(shared),
            Kind::Zmtp(stream) => stream.finish(shared),
            Kind::Joined(..) => self.step_joined(true, shared),
        }
    }

    /// Gives back what it holds of what all connections share.
    pub(super) fn forget(self, shared: &mut Shared) {
        match self.kind {
            Kind::Zenoh(stream) | Kind::Joined(Some(stream), _) => stream.forget(shared),
            Kind::Start(_) | Kind::Zmtp(_) | Kind::Joined(None, _) => {}
        }
    }

    /// How many bytes wait.
    pub(super) fn waiting(&self) -> Waiting {
        let undecided = match &self.kind {
            Kind::Start(pieces) => pieces.iter().map(|piece| piece.data.len()).sum(),
            Kind::Zenoh(stream) => stream.waiting(),
            Kind::Zmtp(stream) => return Waiting { held: stream.waiting(), undecided: 0 },
            Kind::Joined(zenoh, zmtp) => zenoh.as_ref().map_or(0, |zenoh| zenoh.waiting()) + zmtp.waiting(),
        };
        Waiting { undecided, held: 0 }
    }

    fn step_joined(&mut self, end: bool, shared: &mut Shared) -> Step {
        let Kind::Joined(zenoh, zmtp) = &mut self.kind else { return Step::Again };
        if let Some(stream) = zenoh {
            let step = if end { stream.finish(shared) } else { stream.step(shared) };
            if stream.is_known() {
                if let Some(stream) = zenoh.take() {
                    self.kind = Kind::Zenoh(stream);
                }
                return step;
            }
            match step {
                Step::Again => return Step::Again,
                Step::Foreign => {
                    if let Some(stream) = zenoh.take() {
                        stream.forget(shared);
                    }
                }
                Step::Done => {}
            }
        }
        let step = if end { zmtp.finish(shared) } else { zmtp.step(shared) };
        if zmtp.is_known() {
            if let Some(stream) = zenoh.take() {
                stream.forget(shared);
            }
            let zmtp = core::mem::replace(zmtp, Box::new(zmtp::Stream::new(self.connection)));
            self.kind = Kind::Zmtp(zmtp);
            return step;
        }
        match step {
            // Zenoh may be found still.
            Step::Foreign if zenoh.is_some() => Step::Done,
            step => step,
        }
    }

    fn decide(&mut self, zmtp: bool) {
        let Kind::Start(pieces) = &mut self.kind else { return };
        let pieces = core::mem::take(pieces);
        self.kind = if zmtp {
            Kind::Zmtp(Box::new(zmtp::Stream::new(self.connection)))
        } else {
            Kind::Zenoh(Box::new(zenoh::Stream::new(self.connection, true, false)))
        };
        self.replay(pieces);
    }

    fn replay(&mut self, pieces: Vec<Piece>) {
        for Piece { time, direction, data } in pieces {
            self.handle_data(time, direction, data);
        }
    }
}

/// Whether one side begins with a greeting. With `end` nothing follows.
fn greets(pieces: &[Piece], end: bool) -> Option<bool> {
    let mut first = [const { Vec::new() }; 2];
    for Piece { direction, data, .. } in pieces {
        let start = &mut first[direction.index()];
        let room: usize = MAX_GREETING - start.len();
        start.extend_from_slice(&data[..data.len().min(room)]);
    }
    let mut said = None;
    for start in first.iter().filter(|start| !start.is_empty()) {
        match zmtp::greets(start) {
            Some(true) => return Some(true),
            Some(false) => said = Some(false),
            // Whatever it would have become, it has the signature.
            None if end && start.len() > 10 => return Some(true),
            None => {}
        }
    }
    said
}
