//! [`Lane`]: queue of one priority.
//!
//! A message is encoded once, at the end of the open batch. If it does not fit, that batch is sealed
//! and another one opened; if it does not fit an empty batch either, its bytes wait in a list of
//! segments and are cut into fragments when they are sent. Sequence numbers are assigned when a message
//! is accepted, in the order in which batches leave, so that they are consecutive on the wire.

use super::{
    batch::{Batch, Format, Pool},
    compression::Compressor,
    sn,
};
use crate::{
    buf::{Segments, Sink, vle_len},
    zenoh::{
        Priority, Reliability,
        wire::{Fragment, Frame, NetworkMessage, NextSn},
    },
};
use bytes::Bytes;
use std::collections::VecDeque;

/// Segments below this size are copied behind the head of their fragment: cheaper than two more
/// entries in the `iovec`.
const COPY_BELOW: usize = 512;
/// Low-latency messages are collected in one buffer until it has this size.
const MAX_UNITS: usize = 65_536;

/// State shared by all lanes of a link.
pub(super) struct Shared {
    pub(super) format: Format,
    pub(super) pool: Pool,
    pub(super) compressor: Option<Compressor>,
    pub(super) sn_mask: u32,
    /// Whether fragments carry First and Drop.
    pub(super) marks: bool,
    pub(super) low_latency: bool,
}

/// A message of `len` bytes exceeds a batch, and a low-latency link cannot fragment it.
pub(super) struct TooLarge {
    pub(super) len: usize,
}

/// Queued messages that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Number of messages, a half-sent one included.
    pub messages: u64,
    /// Number of their bytes.
    pub bytes: usize,
}

/// The queue of one priority.
pub(super) struct Lane {
    priority: Priority,
    /// The next sequence number of each channel, indexed by reliability.
    sn: [u32; 2],
    sealed: VecDeque<Entry>,
    open: Option<OpenBatch>,
    bytes: usize,
}

enum Entry {
    Batch(OpenBatch),
    Message(QueuedMessage),
    /// Tells the peer to drop a half-sent message.
    Drop(Fragment),
}

/// A batch of whole messages.
struct OpenBatch {
    batch: Batch,
    /// The reliability of the FRAME at its end.
    frame: Reliability,
    messages: u64,
    /// The sequence numbers of the channels before it.
    sn: [u32; 2],
}

/// A message that is sent in fragments.
struct QueuedMessage {
    parts: VecDeque<Bytes>,
    left: usize,
    reliability: Reliability,
    started: bool,
    /// The sequence numbers of the channels before its next fragment.
    sn: [u32; 2],
}

/// Output appended by one call of [`Lane::transmit`].
pub(super) struct Sent {
    pub(super) bytes: usize,
    pub(super) fragment: bool,
}

impl Lane {
    pub(super) const fn new(priority: Priority, initial_sn: u32) -> Self {
        Self { priority, sn: [initial_sn; 2], sealed: VecDeque::new(), open: None, bytes: 0 }
    }

    /// Number of waiting bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.sealed.is_empty()
    }

    /// Queues a message.
    #[inline]
    pub(super) fn push(
        &mut self,
        message: &NetworkMessage,
        reliability: Reliability,
        shared: &mut Shared,
    ) -> Result<(), TooLarge> {
        if shared.low_latency {
            return self.push_unit(message, shared);
        }
        if let Some(open) = &mut self.open {
            match open.append(message, reliability, self.priority, &mut self.sn, shared) {
                Ok(len) => {
                    self.bytes += len;
                    return Ok(());
                }
                Err(len) => {
                    self.seal();
                    if len > shared.format.capacity() {
                        self.push_fragmented(message, reliability, shared);
                        return Ok(());
                    }
                }
            }
        }
        let mut open = OpenBatch::new(Batch::new(&shared.format, shared.pool.take()), reliability, self.sn);
        match open.append(message, reliability, self.priority, &mut self.sn, shared) {
            Ok(_) => {
                self.bytes += open.batch.len();
                self.open = Some(open);
            }
            Err(_) => {
                shared.pool.give(open.batch.into_bytes());
                self.push_fragmented(message, reliability, shared);
            }
        }
        Ok(())
    }

    fn seal(&mut self) {
        self.sealed.extend(self.open.take().map(Entry::Batch));
    }

    #[cold]
    fn push_fragmented(&mut self, message: &NetworkMessage, reliability: Reliability, shared: &Shared) {
        let mut segments = Segments::default();
        message.encode(&mut segments);
        let left = segments.len();
        let message = QueuedMessage {
            parts: segments.into_parts().into(),
            left,
            reliability,
            started: false,
            sn: self.sn,
        };
        self.bytes += left;
        // The numbers behind its last fragment.
        let (mut rest, mut next) = (message.left, message.fragment(self.priority, shared));
        loop {
            rest -= rest.min(shared.format.capacity() - head_len(&next));
            next.sn = sn::next(next.sn, shared.sn_mask);
            next.first = false;
            if rest == 0 {
                break;
            }
        }
        self.sn[reliability as usize] = next.sn;
        self.sealed.push_back(Entry::Message(message));
    }

    /// Queues a message in low latency: alone, behind its own prefix.
    fn push_unit(&mut self, message: &NetworkMessage, shared: &mut Shared) -> Result<(), TooLarge> {
        let mut open = self.open.take().unwrap_or_else(|| {
            let batch = Batch::of_units(&shared.format, shared.pool.take());
            OpenBatch::new(batch, Reliability::Reliable, self.sn)
        });
        let mark = open.batch.begin_unit(&shared.format);
        message.encode(&mut open.batch);
        let unit = open.batch.since(&mark);
        if unit <= shared.format.max_len {
            open.batch.end_unit(&shared.format, &mark);
            open.messages += 1;
            self.bytes += unit;
            self.open = Some(open);
            if self.open_len() >= MAX_UNITS {
                self.seal();
            }
            return Ok(());
        }
        open.batch.rollback(&mark, &shared.format);
        if open.messages == 0 {
            shared.pool.give(open.batch.into_bytes());
        } else {
            self.open = Some(open);
        }
        Err(TooLarge { len: unit - shared.format.prefix_len })
    }

    fn open_len(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.batch.len())
    }

    /// The sequence numbers of the next messages to leave on both channels, not of those accepted next.
    pub(super) fn next_sn(&self) -> NextSn {
        let open = || self.open.as_ref().map_or(self.sn, |open| open.sn);
        let of = |entry: &Entry| match entry {
            Entry::Batch(batch) => Some(batch.sn),
            Entry::Message(message) => Some(message.sn),
            Entry::Drop(_) => None,
        };
        let mut sn = self.sealed.iter().find_map(of).unwrap_or_else(open);
        if let Some(Entry::Drop(fragment)) = self.sealed.front() {
            sn[fragment.reliability as usize] = fragment.sn;
        }
        let [best_effort, reliable] = sn;
        NextSn { reliable, best_effort }
    }

    /// Upper bound of the length of the next batch; compression makes it shorter.
    pub(super) fn next_len(&self, format: &Format) -> usize {
        let head = format.overhead() + MAX_FRAGMENT_HEAD;
        match self.sealed.front() {
            Some(Entry::Batch(sealed)) => sealed.batch.len(),
            Some(Entry::Message(message)) => (head + message.left).min(format.max_len),
            Some(Entry::Drop(_)) => head,
            None => self.open_len(),
        }
    }

    /// Appends the parts of the next batch.
    pub(super) fn transmit(&mut self, shared: &mut Shared, out: &mut Vec<Bytes>) -> Option<Sent> {
        match self.sealed.front_mut() {
            None => self.open.take().map(|open| self.transmit_batch(open, shared, out)),
            Some(Entry::Batch(_)) => match self.sealed.pop_front() {
                Some(Entry::Batch(sealed)) => Some(self.transmit_batch(sealed, shared, out)),
                _ => None,
            },
            Some(Entry::Message(message)) => {
                let before = message.left;
                let bytes = message.transmit(self.priority, shared, out);
                self.bytes -= before - message.left;
                if message.left == 0 {
                    self.sealed.pop_front();
                }
                Some(Sent { bytes, fragment: true })
            }
            Some(Entry::Drop(fragment)) => {
                let mut head = shared.head();
                fragment.encode(&mut head);
                self.sealed.pop_front();
                Some(Sent { bytes: finish(head, shared, out), fragment: false })
            }
        }
    }

    fn transmit_batch(&mut self, mut sealed: OpenBatch, shared: &mut Shared, out: &mut Vec<Bytes>) -> Sent {
        let (format, mut len) = (shared.format, sealed.batch.len());
        self.bytes -= len;
        if !shared.low_latency {
            let bytes = sealed.batch.bytes_mut();
            if let Some(compressor) = &mut shared.compressor {
                compressor.compress(bytes, format.prefix_len);
                len = bytes.len();
            }
            format.write_prefix(bytes, len);
        }
        sealed.batch.emit(&mut shared.pool, out);
        Sent { bytes: len, fragment: false }
    }

    /// Drops the waiting messages, and continues with the sequence numbers of sent ones: a jump of more
    /// than half the range would make the peer drop everything.
    pub(super) fn discard(&mut self, shared: &Shared) -> Discarded {
        self.seal();
        let mut discarded = Discarded { messages: 0, bytes: self.bytes };
        let mut drop = None;
        match self.sealed.front() {
            Some(Entry::Batch(sealed)) => self.sn = sealed.sn,
            Some(Entry::Message(message)) => {
                self.sn = message.sn;
                if message.started && shared.marks {
                    let next = message.fragment(self.priority, shared);
                    drop = Some(Fragment { more: false, drop: true, ..next });
                    let channel = &mut self.sn[message.reliability as usize];
                    *channel = sn::next(*channel, shared.sn_mask);
                }
            }
            Some(Entry::Drop(fragment)) => drop = Some(*fragment),
            None => {}
        }
        for entry in self.sealed.drain(..) {
            discarded.messages += match entry {
                Entry::Batch(sealed) => sealed.messages,
                Entry::Message(_) => 1,
                Entry::Drop(_) => 0,
            };
        }
        self.sealed.extend(drop.map(Entry::Drop));
        self.bytes = 0;
        discarded
    }
}

impl OpenBatch {
    const fn new(batch: Batch, frame: Reliability, sn: [u32; 2]) -> Self {
        Self { batch, frame, messages: 0, sn }
    }

    /// Encodes the message behind the others, with a FRAME in front of it if the last one has another
    /// reliability. If it does not fit, nothing changes and the error holds the length needed.
    #[inline]
    fn append(
        &mut self,
        message: &NetworkMessage,
        reliability: Reliability,
        priority: Priority,
        sn: &mut [u32; 2],
        shared: &Shared,
    ) -> Result<usize, usize> {
        let mark = self.batch.mark();
        let channel = &mut sn[reliability as usize];
        let new_frame = self.messages == 0 || self.frame != reliability;
        if new_frame {
            Frame { reliability, sn: *channel, priority }.encode(&mut self.batch);
        }
        message.encode(&mut self.batch);
        let len = self.batch.since(&mark);
        if self.batch.len() > shared.format.max_len {
            self.batch.rollback(&mark, &shared.format);
            return Err(len);
        }
        if new_frame {
            *channel = sn::next(*channel, shared.sn_mask);
            self.frame = reliability;
        }
        self.messages += 1;
        Ok(len)
    }
}

impl Shared {
    /// Memory for a batch, with the framing in front of its messages.
    fn head(&mut self) -> Vec<u8> {
        // With compression it holds the whole batch; else only a head.
        let mut head = if self.compressor.is_some() { self.pool.take() } else { Vec::with_capacity(64) };
        head.clear();
        head.resize(self.format.overhead(), 0);
        head
    }
}

impl QueuedMessage {
    const fn fragment(&self, priority: Priority, shared: &Shared) -> Fragment {
        Fragment {
            reliability: self.reliability,
            sn: self.sn[self.reliability as usize],
            priority,
            more: true,
            first: shared.marks && !self.started,
            drop: false,
        }
    }

    /// Appends the parts of one fragment; its bytes are not copied, unless they are few or are
    /// compressed.
    fn transmit(&mut self, priority: Priority, shared: &mut Shared, out: &mut Vec<Bytes>) -> usize {
        let mut fragment = self.fragment(priority, shared);
        let mut room = shared.format.capacity() - head_len(&fragment);
        fragment.more = self.left > room;
        let mut head = shared.head();
        fragment.encode(&mut head);
        room = room.min(self.left);
        self.left -= room;
        self.started = true;
        let channel = &mut self.sn[self.reliability as usize];
        *channel = sn::next(*channel, shared.sn_mask);

        let copied = |part: &Bytes| shared.compressor.is_some() || part.len() < COPY_BELOW;
        while room > 0 && self.parts.front().is_some_and(copied) {
            room -= take(&mut self.parts, room, |part| head.put(&part));
        }
        if room == 0 {
            return finish(head, shared, out);
        }
        let len = head.len() + room;
        shared.format.write_prefix(&mut head, len);
        out.push(head.into());
        while room > 0 {
            room -= take(&mut self.parts, room, |part| out.push(part));
        }
        len
    }
}

/// Takes at most `most` bytes of the first part. A part exists as long as bytes are left.
fn take(parts: &mut VecDeque<Bytes>, most: usize, to: impl FnOnce(Bytes)) -> usize {
    let Some(front) = parts.front_mut() else { return most };
    let len = front.len().min(most);
    if len == front.len() {
        parts.pop_front().map(to);
    } else {
        to(front.split_to(len));
    }
    len
}

/// Compresses a batch in one piece, writes its prefix, and appends it.
fn finish(mut batch: Vec<u8>, shared: &mut Shared, out: &mut Vec<Bytes>) -> usize {
    if let Some(compressor) = &mut shared.compressor {
        compressor.compress(&mut batch, shared.format.prefix_len);
    }
    let len = batch.len();
    shared.format.write_prefix(&mut batch, len);
    out.push(batch.into());
    len
}

/// A batch with one transport message that is not a FRAME or FRAGMENT.
pub(super) fn control(message: &[u8], shared: &mut Shared, out: &mut Vec<Bytes>) -> usize {
    let mut batch = vec![0; shared.format.overhead()];
    batch.extend_from_slice(message);
    finish(batch, shared, out)
}

/// Longest head of a FRAGMENT: header, sequence number of 32 bits, QoS and marker of the first.
const MAX_FRAGMENT_HEAD: usize = 1 + 5 + 2 + 1;

/// Length of the head of a fragment.
const fn head_len(fragment: &Fragment) -> usize {
    let qos = if matches!(fragment.priority, Priority::Data) { 0 } else { 2 };
    1 + vle_len(fragment.sn as u64) + qos + fragment.first as usize
}
