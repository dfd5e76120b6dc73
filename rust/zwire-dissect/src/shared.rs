//! State shared by all parts of the dissector that read one capture.

use super::{
    limits::{MAX_BATCH, MAX_MESSAGE, MAX_REASSEMBLY},
    record::{Cause, Fault, Message, Protocol, Record},
};
use crate::capture::Direction;
use core::{net::SocketAddr, time::Duration};
use std::collections::VecDeque;
use zwire_proto::{
    zenoh::link::{Decompressor, defrag::DefragBudget},
    zmtp::crypto::KeyPair,
};

pub(super) struct Shared {
    pub(super) out: VecDeque<Record>,
    /// Memory of all messages that are being put together from fragments.
    pub(super) budget: DefragBudget,
    pub(super) decompressor: Decompressor,
    /// Bytes that all sessions declare.
    pub(super) declared: usize,
    /// Bytes of streams that wait for the decision where batches begin.
    pub(super) undecided: usize,
    /// Bytes of incomplete ZMTP messages.
    pub(super) held: usize,
    pub(super) keys: Vec<KeyPair>,
}

/// Waiting bytes of a connection: for a decision, or for the rest of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) undecided: usize,
    pub(super) held: usize,
}

impl Shared {
    pub(super) const fn claim(&mut self, waiting: Waiting) {
        self.undecided += waiting.undecided;
        self.held += waiting.held;
    }

    pub(super) const fn release(&mut self, waiting: Waiting) {
        self.undecided -= waiting.undecided;
        self.held -= waiting.held;
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            out: VecDeque::new(),
            budget: DefragBudget::new(MAX_MESSAGE, MAX_REASSEMBLY),
            decompressor: Decompressor::new(MAX_BATCH),
            declared: 0,
            undecided: 0,
            held: 0,
            keys: Vec::new(),
        }
    }
}

pub(super) const DIRECTIONS: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

/// Bytes of one direction that are missing in the capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    pub(super) time: Duration,
    pub(super) direction: Direction,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamStep {
    /// A batch, a frame or a decision was handled: call again.
    Again,
    Done,
    Foreign,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) time: Duration,
    pub(super) src: SocketAddr,
    pub(super) dst: SocketAddr,
    /// Offset of the batch or frame, behind its length, in the stream or the datagram.
    pub(super) offset: u64,
}

impl Place {
    pub(super) fn record(&self, message: Message) -> Record {
        let (src, dst) = (Some(self.src), Some(self.dst));
        Record { time: self.time, src, dst, sn: None, prefix: None, message }
    }

    /// Makes a record of a Zenoh error at this place.
    pub(super) fn fault(&self, offset: u64, cause: Cause) -> Record {
        self.fault_of(Protocol::Zenoh, offset, cause)
    }

    pub(super) fn fault_of(&self, protocol: Protocol, offset: u64, cause: Cause) -> Record {
        self.record(Message::Error(Fault { protocol: Some(protocol), offset, cause }))
    }
}
