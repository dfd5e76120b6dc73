//! [`Batch`]: a batch into which messages are encoded in place, and [`Pool`], the source of its memory.

use super::LinkParams;
use crate::buf::{Segments, Sink};
use bytes::Bytes;
use std::collections::VecDeque;

/// Framing around the messages of each batch of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// Bytes of the length prefix.
    pub(super) prefix_len: usize,
    /// Whether the batch header follows.
    pub(super) compression: bool,
    /// Largest batch, prefix included.
    pub(super) max_len: usize,
}

impl Format {
    pub(super) const fn new(params: &LinkParams) -> Self {
        let prefix_len = params.prefix_len();
        Self { prefix_len, compression: params.compression, max_len: params.max_batch() + prefix_len }
    }

    /// Length of the framing in front of the messages.
    pub(super) const fn overhead(&self) -> usize {
        self.prefix_len + self.compression as usize
    }

    /// Room for messages in an empty batch.
    pub(super) const fn capacity(&self) -> usize {
        self.max_len - self.overhead()
    }

    /// Writes the length prefix of a batch of `len` bytes, prefix included, at the start of `bytes`.
    pub(super) fn write_prefix(&self, bytes: &mut [u8], len: usize) {
        #[allow(clippy::cast_possible_truncation, reason = "at most the batch size, a u16")]
        let len = (len - self.prefix_len) as u32;
        bytes[..self.prefix_len].copy_from_slice(&len.to_le_bytes()[..self.prefix_len]);
    }
}

/// Bytes of a batch, with large payloads by reference.
///
/// As a [`Sink`] it accepts any amount: a check of the bound on each of the ten writes of a small
/// message would cost more than the message. The caller checks [`Self::len`] after each message, and
/// uses [`Self::rollback`] if it exceeds the bound.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Offset in `bytes` before which the payload belongs.
    shared: Vec<(usize, Bytes)>,
    shared_len: usize,
    share_from: usize,
}

/// A state of a [`Batch`] to roll back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    bytes: usize,
    shared: usize,
    shared_len: usize,
}

impl Batch {
    /// An empty batch over recycled memory.
    pub(super) fn new(format: &Format, bytes: Vec<u8>) -> Self {
        let mut batch = Self::of_units(format, bytes);
        batch.bytes.resize(format.overhead(), 0);
        batch
    }

    /// For low latency: units of prefix and message, each begun with [`Self::begin_unit`].
    pub(super) fn of_units(format: &Format, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self {
            bytes,
            shared: Vec::new(),
            shared_len: 0,
            // Compression needs the batch in one piece.
            share_from: if format.compression { usize::MAX } else { Segments::SHARE_FROM },
        }
    }

    /// Length of the batch, with the framing in front of the messages.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.bytes.len() + self.shared_len
    }

    #[inline]
    pub(super) const fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), shared: self.shared.len(), shared_len: self.shared_len }
    }

    /// Number of bytes written since `mark`.
    #[inline]
    pub(super) const fn since(&self, mark: &Mark) -> usize {
        self.len() - mark.bytes - mark.shared_len
    }

    /// Removes everything written after `mark`.
    #[cold]
    pub(super) fn rollback(&mut self, mark: &Mark, format: &Format) {
        self.bytes.truncate(mark.bytes);
        self.shared.truncate(mark.shared);
        self.shared_len = mark.shared_len;
        // The buffer may have grown for a large attachment; the memory must not stay.
        self.bytes.shrink_to(2 * format.max_len);
    }

    /// Begins another unit of a low-latency link; its prefix is at the mark.
    pub(super) fn begin_unit(&mut self, format: &Format) -> Mark {
        let mark = self.mark();
        self.bytes.resize(self.bytes.len() + format.prefix_len, 0);
        mark
    }

    /// Writes the prefix that [`Self::begin_unit`] has left open.
    pub(super) fn end_unit(&mut self, format: &Format, mark: &Mark) {
        let len = self.since(mark);
        format.write_prefix(&mut self.bytes[mark.bytes..], len);
    }

    /// The memory, if nothing of the batch is to be sent.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// For the prefix and for compression, which needs everything in one piece.
    pub(super) const fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends the parts in order.
    pub(super) fn emit(self, pool: &mut Pool, out: &mut Vec<Bytes>) {
        let bytes = Bytes::from(self.bytes);
        pool.lend(&bytes);
        if self.shared.is_empty() {
            out.push(bytes);
            return;
        }
        let mut taken = 0;
        for (at, payload) in self.shared {
            if at > taken {
                out.push(bytes.slice(taken..at));
                taken = at;
            }
            out.push(payload);
        }
        if taken < bytes.len() {
            out.push(bytes.slice(taken..));
        }
    }
}

impl Sink for Batch {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    #[inline]
    fn put_word(&mut self, word: u64, len: usize) {
        self.bytes.put_word(word, len);
    }
    #[inline]
    fn put_u8(&mut self, byte: u8) {
        self.bytes.push(byte);
    }
    #[inline]
    fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < self.share_from {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.shared.push((self.bytes.len(), bytes.clone()));
            self.shared_len += bytes.len();
        }
    }
}

/// Most sent buffers that are tracked for reuse. The driver holds one or two while it writes.
const MAX_LENT: usize = 4;
/// Smallest buffer for a batch: one small message with its key.
const MIN_CAPACITY: usize = 256;

/// Memory of batches. Sent buffers are kept by reference, and reused once no other reference is left.
#[derive(Debug, Default)]
pub(super) struct Pool {
    lent: VecDeque<Bytes>,
    spare: Option<Vec<u8>>,
    /// Size of the last batch: the next one will be similar.
    hint: usize,
}

impl Pool {
    pub(super) fn take(&mut self) -> Vec<u8> {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        match self.lent.front() {
            Some(front) if front.is_unique() => {
                let mut front = self.lent.pop_front().unwrap_or_default();
                // Only the memory is reused; its contents need not be copied.
                front.truncate(0);
                front.into()
            }
            _ => Vec::with_capacity(self.hint.max(MIN_CAPACITY)),
        }
    }

    /// Returns memory that was not sent.
    pub(super) fn give(&mut self, bytes: Vec<u8>) {
        self.spare = Some(bytes);
    }

    fn lend(&mut self, bytes: &Bytes) {
        self.hint = bytes.len();
        if self.lent.len() == MAX_LENT {
            // The oldest is still in use, or too many buffers are tracked.
            self.lent.pop_front();
        }
        self.lent.push_back(bytes.clone());
    }

    /// Releases all memory: an idle link holds no buffers.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { prefix_len: 2, compression: false, max_len: 100 };

    #[test]
    fn rollback_leaves_nothing_behind() {
        let mut batch = Batch::new(&FORMAT, Vec::new());
        batch.put(&[1; 90]);
        let mark = batch.mark();
        batch.put(&[2; 100_000]);
        batch.put_u8(3);
        batch.put_shared(&Bytes::from(vec![4; Segments::SHARE_FROM]));
        assert_eq!(batch.since(&mark), 100_001 + Segments::SHARE_FROM);
        batch.rollback(&mark, &FORMAT);
        assert_eq!((batch.len(), batch.shared.len()), (92, 0));
        assert!(batch.bytes.capacity() <= 200, "the memory goes too");
    }

    #[test]
    fn memory_comes_back_when_the_driver_lets_go() {
        let mut pool = Pool::default();
        let mut out = Vec::new();
        Batch::new(&FORMAT, pool.take()).emit(&mut pool, &mut out);
        let at = out[0].as_ptr();
        let busy = pool.take();
        assert_ne!(busy.as_ptr(), at, "the driver still has it");
        out.clear();
        let free = pool.take();
        assert_eq!(free.as_ptr(), at);
        assert!(free.is_empty() && free.capacity() >= MIN_CAPACITY);
    }

    #[test]
    fn memory_held_back_is_bounded() {
        let mut pool = Pool::default();
        let mut out = Vec::new();
        for _ in 0..100 {
            let bytes = pool.take();
            Batch::new(&FORMAT, bytes).emit(&mut pool, &mut out);
        }
        assert!(pool.lent.len() <= MAX_LENT);
    }
}
