//! [`Socket`]: Zenoh over WebSocket, one batch per binary message.

use super::{
    limits::MAX_HELD_MESSAGES,
    plausible::{Proof, Run},
    session::{Format, is_init},
};
use crate::capture::{Direction, WebSocket, WsMessage, WsState};
use bytes::Bytes;
use zwire_proto::{error::DecodeError, zenoh::link::Decompressor};

/// A WebSocket that may carry Zenoh.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) socket: WebSocket,
    knowledge: Knowledge,
    /// Batches known to be Zenoh that wait to be handed out, the last first.
    ready: Vec<Batch>,
}

/// A batch, its stream, and its offset there.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) direction: Direction,
    pub(crate) offset: u64,
    pub(crate) bytes: Bytes,
}

#[derive(Debug)]
enum Knowledge {
    /// The first message has to be INIT.
    FromStart,
    /// The connection began before the capture: the evidence so far, and the messages themselves.
    Joined {
        run: Run,
        held: Vec<Batch>,
    },
    Zenoh,
}

#[derive(Debug)]
pub(crate) enum Next {
    Batch(Batch),
    /// The batches that follow look like this.
    Format(Format),
    /// A message of Zenoh that cannot be reassembled.
    Fault(Direction, u64, DecodeError),
    Nothing,
    Foreign,
}

impl Socket {
    pub(crate) fn new() -> Self {
        Self { socket: WebSocket::default(), knowledge: Knowledge::FromStart, ready: Vec::new() }
    }

    /// A connection that began before the capture.
    pub(crate) fn resume() -> Self {
        let knowledge = Knowledge::Joined { run: Run::default(), held: Vec::new() };
        Self { socket: WebSocket::resume(), knowledge, ready: Vec::new() }
    }

    pub(crate) const fn is_zenoh(&self) -> bool {
        matches!(self.knowledge, Knowledge::Zenoh)
    }

    pub(crate) fn poll(&mut self, decompressor: &mut Decompressor) -> Next {
        loop {
            if let Some(batch) = self.ready.pop() {
                return Next::Batch(batch);
            }
            let Some(WsMessage { direction, offset, payload }) = self.socket.poll_message() else {
                return if self.socket.state() == WsState::Foreign { Next::Foreign } else { Next::Nothing };
            };
            let batch = match payload {
                Ok(bytes) => Batch { direction, offset, bytes },
                Err(error) if self.is_zenoh() => return Next::Fault(direction, offset, error),
                Err(_) => return Next::Foreign,
            };
            match &mut self.knowledge {
                Knowledge::Zenoh => return Next::Batch(batch),
                _ if is_init(&batch.bytes) => {
                    self.knowledge = Knowledge::Zenoh;
                    return Next::Batch(batch);
                }
                Knowledge::FromStart => return Next::Foreign,
                Knowledge::Joined { run, held } => {
                    let Some((longer, format)) = extend(*run, &batch.bytes, decompressor) else {
                        return Next::Foreign;
                    };
                    *run = longer;
                    held.push(batch);
                    if run.proves(Proof::STRANGER) {
                        self.ready = core::mem::take(held);
                        self.ready.reverse();
                        self.knowledge = Knowledge::Zenoh;
                        return Next::Format(format);
                    }
                    // Each message adds to the evidence, except fragments that do not join up.
                    if held.len() >= MAX_HELD_MESSAGES {
                        return Next::Foreign;
                    }
                }
            }
        }
    }
}

/// The run with one more batch, and the format of that batch. Low latency is not guessed: no run of its
/// messages would differ from the other formats by more than a byte.
pub(crate) fn extend(run: Run, batch: &Bytes, decompressor: &mut Decompressor) -> Option<(Run, Format)> {
    [Format::Plain, Format::Compressed].into_iter().find_map(|format| {
        let mut longer = run;
        longer.add_message(batch, format, decompressor).then_some((longer, format))
    })
}

/// Format of a batch of a session without a known handshake; `None` if the batch does not tell.
pub(crate) fn format_of(batch: &Bytes, decompressor: &mut Decompressor) -> Option<Format> {
    Format::ALL.into_iter().find(|format| {
        let mut run = Run::default();
        run.add(batch, *format, decompressor) && run.carries()
    })
}

/// Whether a segment may begin with a WebSocket's whole binary message, at its end or before another.
pub(crate) fn may_be_joined(bytes: &[u8]) -> bool {
    const BINARY: u8 = 0x82;
    let [BINARY, len, rest @ ..] = bytes else { return false };
    let mask = if len & 0x80 == 0 { 0 } else { 4 };
    let (extended, len) = match (len & 0x7f, rest) {
        (126, [high, low, ..]) => (2, usize::from(u16::from_be_bytes([*high, *low]))),
        (126.., _) => return false,
        (len, _) => (0, usize::from(len)),
    };
    rest.get(extended + mask + len..).is_some_and(|rest| rest.first().is_none_or(|next| *next == BINARY))
}
