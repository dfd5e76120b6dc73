//! Direction of a TCP connection, in sequence order.

use super::event::{Connection, FlowEvent};
use bytes::Bytes;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use zwire_proto::pcap::Direction;

/// Most bytes that wait behind a hole in one direction. It exceeds the receive windows that hosts
/// grant by default (4 to 6 MiB on Linux is the maximum that autotuning reaches).
pub const MAX_HELD_BYTES: usize = 8 << 20;
/// Most pieces that wait behind a hole in one direction: [`MAX_HELD_BYTES`] in Ethernet-sized segments.
pub const MAX_HELD_PIECES: usize = 6000;
/// Most bytes that wait behind holes in all connections together.
pub const MAX_HELD_TOTAL: usize = 64 << 20;
/// Pieces to wait for missing bytes that the receiver acknowledged. Such bytes did arrive and only the
/// capture lacks them; a capture that is out of order may still bring them, but not later than after so
/// many pieces …
const PATIENCE_PIECES: usize = 64;
/// … or after so long.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Sink<'a> {
    pub(super) events: &'a mut VecDeque<FlowEvent>,
    /// Bytes held in all connections.
    pub(super) held_total: &'a mut usize,
    pub(super) connection: Connection,
    pub(super) direction: Direction,
}

/// Part of the stream: bytes, or a range that the capture cut off.
#[derive(Debug)]
struct HeldPiece {
    timestamp: Duration,
    len: u64,
    data: Option<Bytes>,
}

impl HeldPiece {
    /// Drops the first `count` bytes.
    fn advance(&mut self, count: u64) {
        let count = count.min(self.len);
        self.len -= count;
        if let Some(data) = &mut self.data {
            *data = data.slice(count as usize..);
        }
    }

    /// Bytes that count against the memory bounds.
    fn held_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }
}

#[derive(Debug, Default)]
pub(super) struct CapturedHalf {
    /// Sequence number of the byte at `offset`; unknown before the first segment.
    next_seq: Option<u32>,
    /// Offset in the stream of the next byte to hand out.
    offset: u64,
    first_seq: Option<u32>,
    /// Pieces behind a hole, by offset, apart from each other.
    held: BTreeMap<u64, HeldPiece>,
    held_bytes: usize,
    /// Offset at which the stream ends.
    fin: Option<u64>,
    /// Offset up to which the receiver has the stream; one more when it has the FIN.
    acked: u64,
}

impl CapturedHalf {
    /// Sets the sequence number of the first byte, unless it is known.
    pub(super) fn start(&mut self, seq: u32) {
        if self.first_seq.is_none() {
            self.first_seq = Some(seq);
            self.next_seq = Some(seq);
        }
    }

    /// Whether the first byte is known to have another number than this.
    pub(super) fn starts_elsewhere(&self, seq: u32) -> bool {
        self.first_seq.is_some_and(|first| first != seq)
    }

    /// Offset of a sequence number, negative if it lies before the start of the stream.
    fn offset_of(&self, seq: u32) -> Option<i64> {
        // The nearest offset with this number: sequence numbers wrap after 4 GiB.
        let distance = seq.wrapping_sub(self.next_seq?).cast_signed();
        Some(self.offset as i64 + i64::from(distance))
    }

    /// Distance from the next expected byte to a sequence number, in either direction.
    pub(super) fn distance(&self, seq: u32) -> Option<u64> {
        self.offset_of(seq).map(|offset| offset.abs_diff(self.offset as i64))
    }

    /// Takes in the data of a segment; `missing` bytes behind it were cut by the capture.
    pub(super) fn handle_data(
        &mut self,
        timestamp: Duration,
        seq: u32,
        data: Bytes,
        missing: usize,
        sink: &mut Sink<'_>,
    ) {
        self.start(seq);
        let Some(start) = self.offset_of(seq) else { return };
        let (len, missing) = (data.len() as u64, missing as u64);
        self.accept(start, HeldPiece { timestamp, len, data: Some(data) }, sink);
        self.accept(start + len as i64, HeldPiece { timestamp, len: missing, data: None }, sink);
        self.relieve(timestamp, sink);
    }

    pub(super) fn handle_fin(&mut self, seq: u32) {
        self.start(seq);
        if let Some(at) = self.offset_of(seq) {
            self.fin.get_or_insert(u64::try_from(at).unwrap_or(0));
        }
    }

    /// Takes in an acknowledgment by the receiver of this direction.
    pub(super) fn handle_ack(&mut self, timestamp: Duration, ack: u32, sink: &mut Sink<'_>) {
        let Some(acked) = self.offset_of(ack).and_then(|offset| u64::try_from(offset).ok()) else { return };
        if acked > self.acked {
            self.acked = acked;
            if !self.held.is_empty() {
                self.relieve(timestamp, sink);
            }
        }
    }

    /// Whether everything up to the FIN was handed out.
    pub(super) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.offset >= fin)
    }

    /// Whether the receiver has everything up to the FIN.
    pub(super) fn is_fin_acked(&self) -> bool {
        self.fin.is_some_and(|fin| self.acked > fin)
    }

    /// Gives up all holes and hands out the pieces behind them.
    pub(super) fn flush(&mut self, sink: &mut Sink<'_>) {
        while self.skip_hole(sink) {}
    }

    /// Drops waiting pieces and accepts no more that would have to wait.
    pub(super) fn discard(&mut self, held_total: &mut usize) {
        *held_total -= self.held_bytes;
        self.held_bytes = 0;
        self.held.clear();
    }

    /// Hands out a piece that starts at the next offset, drops an old one, keeps one behind a hole.
    fn accept(&mut self, start: i64, mut piece: HeldPiece, sink: &mut Sink<'_>) {
        let end = start + piece.len as i64;
        if piece.len == 0 || end <= self.offset as i64 {
            return;
        }
        if start > self.offset as i64 {
            self.hold(start as u64, piece, sink);
            return;
        }
        // A retransmission may begin with bytes that are known already.
        piece.advance(self.offset.abs_diff(start as u64));
        if piece.data.is_none() {
            // Waiting bytes take precedence over a range that the capture cut off.
            let first_held = self.held.first_key_value().map_or(u64::MAX, |(at, _)| *at);
            piece.len = piece.len.min(first_held.saturating_sub(self.offset));
        }
        self.deliver(piece, sink);
        self.drain(sink);
    }

    fn deliver(&mut self, piece: HeldPiece, sink: &mut Sink<'_>) {
        let HeldPiece { timestamp, len, data } = piece;
        if len == 0 {
            return;
        }
        let (connection, direction, offset) = (sink.connection, sink.direction, self.offset);
        self.offset += len;
        self.next_seq = self.next_seq.map(|seq| seq.wrapping_add(len as u32));
        sink.events.push_back(match data {
            Some(data) => FlowEvent::Data { timestamp, connection, direction, offset, data },
            None => FlowEvent::Gap { timestamp, connection, direction, offset, missing: len },
        });
    }

    /// Hands out waiting pieces that now join up.
    fn drain(&mut self, sink: &mut Sink<'_>) {
        while let Some(entry) = self.held.first_entry() {
            if *entry.key() > self.offset {
                break;
            }
            let (at, mut piece) = entry.remove_entry();
            self.held_bytes -= piece.held_bytes();
            *sink.held_total -= piece.held_bytes();
            piece.advance(self.offset - at);
            self.deliver(piece, sink);
        }
    }

    /// Keeps those parts of a piece that are not held yet.
    fn hold(&mut self, start: u64, mut piece: HeldPiece, sink: &mut Sink<'_>) {
        let mut at = start;
        while piece.len > 0 {
            let before = self.held.range(..=at).next_back().map(|(at, held)| at + held.len);
            if let Some(known) = before.filter(|end| *end > at) {
                piece.advance(known - at);
                at = known;
                continue;
            }
            let room = self.held.range(at..).next().map_or(u64::MAX, |(next, _)| next - at);
            let len = piece.len.min(room);
            // A copy: a slice would keep the whole chunk in memory, and the bound counts only copies.
            let data = piece.data.as_ref().map(|data| Bytes::copy_from_slice(&data[..len as usize]));
            let part = HeldPiece { timestamp: piece.timestamp, len, data };
            piece.advance(len);
            self.held_bytes += part.held_bytes();
            *sink.held_total += part.held_bytes();
            self.held.insert(at, part);
            at += len;
        }
    }

    /// Gives up holes that will not fill, or for which the memory bound leaves no room.
    fn relieve(&mut self, timestamp: Duration, sink: &mut Sink<'_>) {
        while let Some((at, first)) = self.held.first_key_value() {
            let full = self.held_bytes > MAX_HELD_BYTES
                || self.held.len() > MAX_HELD_PIECES
                || *sink.held_total > MAX_HELD_TOTAL;
            let lost = self.acked >= *at
                && (self.held.len() >= PATIENCE_PIECES
                    || timestamp.saturating_sub(first.timestamp) >= PATIENCE);
            if !(full || lost) {
                break;
            }
            self.skip_hole(sink);
        }
    }

    /// Gives up the first hole; `false` if there is none.
    fn skip_hole(&mut self, sink: &mut Sink<'_>) -> bool {
        let Some((at, first)) = self.held.first_key_value() else { return false };
        let gap = HeldPiece { timestamp: first.timestamp, len: at - self.offset, data: None };
        self.deliver(gap, sink);
        self.drain(sink);
        true
    }
}
