//! [`Side`]: one direction of a connection, from its bytes to batches of Zenoh or frames of ZMTP.

use super::shared::Place;
use crate::capture::{Connection, Direction, StreamBuffer};
use bytes::Bytes;
use core::time::Duration;

/// One direction of a connection, with the state `S` of its protocol.
#[derive(Debug, Default)]
pub(crate) struct Side<S> {
    pub(crate) buffer: StreamBuffer,
    pub(crate) phase: Phase,
    /// When the last bytes were captured.
    pub(crate) time: Duration,
    pub(crate) state: S,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Phase {
    /// No unit was taken yet.
    #[default]
    Start,
    /// A unit begins at the position of the buffer.
    Framed,
    /// So many bytes are skipped; `more` tells whether the message goes on behind them.
    Skip { left: u64, more: bool },
    /// The next unit begins somewhere in the buffer, or later.
    Search {
        /// Position at which the search began.
        since: u64,
        /// Length of the buffer from which on the search runs again.
        wanted: usize,
        /// Nothing before these bytes was read.
        opening: bool,
    },
}

impl<S> Side<S> {
    /// Takes in the next bytes. `Some`: they end a skip, and the message goes on or not.
    pub(crate) fn handle_data(&mut self, time: Duration, data: Bytes) -> Option<bool> {
        self.time = time;
        let Phase::Skip { left, more } = &mut self.phase else {
            self.buffer.push(data);
            return None;
        };
        let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
        *left -= skipped as u64;
        self.buffer.jump(skipped as u64);
        if *left > 0 {
            return None;
        }
        let more = *more;
        self.phase = Phase::Framed;
        self.buffer.push(data.slice(skipped..));
        Some(more)
    }

    /// Takes in a gap. `unit` reads the length of the unit at the position of the buffer, with its head, and
    /// whether the message goes on behind it. `None`: the place of the next unit is lost. Otherwise the bytes
    /// left to skip behind the gap, and whether the message goes on behind them.
    pub(crate) fn handle_gap(
        &mut self,
        missing: u64,
        unit: impl FnOnce(&mut StreamBuffer) -> Option<(u64, bool)>,
    ) -> Option<(u64, bool)> {
        let gone = self.buffer.len() as u64 + missing;
        let rest = match self.phase {
            Phase::Skip { left, more } => left.checked_sub(missing).map(|left| (left, more)),
            Phase::Framed => {
                unit(&mut self.buffer).and_then(|(len, more)| Some((len.checked_sub(gone)?, more)))
            }
            Phase::Start | Phase::Search { .. } => None,
        };
        self.buffer.jump(missing);
        match rest {
            Some((0, _)) => self.phase = Phase::Framed,
            Some((left, more)) => self.phase = Phase::Skip { left, more },
            None => {}
        }
        rest
    }

    /// Starts a search: the place of the next unit is lost.
    pub(crate) fn search(&mut self, opening: bool) {
        self.phase = Phase::Search { since: self.buffer.position(), wanted: 0, opening };
    }

    /// Leaves the bytes for the next run of the search, which waits until they are half as many again.
    pub(crate) fn search_again(&mut self, since: u64, opening: bool) {
        // Waiting bytes must not keep the packets that they came with alive.
        self.buffer.settle();
        let wanted = self.buffer.len() + self.buffer.len() / 2 + 1;
        self.phase = Phase::Search { since, wanted, opening };
    }

    /// Lets the search run again at once: less evidence is needed, or no more bytes follow.
    pub(crate) fn hurry(&mut self) {
        if let Phase::Search { wanted, .. } = &mut self.phase {
            *wanted = 0;
        }
    }

    pub(crate) fn place(&self, connection: &Connection, direction: Direction, offset: u64) -> Place {
        Place { time: self.time, src: connection.src(direction), dst: connection.dst(direction), offset }
    }
}
