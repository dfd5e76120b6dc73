//! Bytes of a stream on their way from pieces of any size to units of known size.

use bytes::{Bytes, BytesMut};

/// A queue that pieces of a stream go into and units (records, frames, batches) come out of.
///
/// A unit that lies inside one piece is handed out as a slice of it. Only a unit that spans pieces is
/// copied, once. The bytes of an incomplete unit move into a buffer of their own, so that half a unit
/// never keeps the whole piece (a large read of a file, say) in memory.
///
/// The buffer holds only bytes that were pushed and not yet taken; it never allocates for a length that
/// was merely announced. Take every complete unit after each [`push`](Self::push).
#[derive(Debug, Default)]
pub struct StreamBuffer {
    /// The start of an incomplete unit, copied out of earlier pieces.
    head: BytesMut,
    /// The unread rest of the last piece.
    tail: Bytes,
    position: u64,
}

impl StreamBuffer {
    /// Adds the next piece of the stream.
    pub fn push(&mut self, piece: Bytes) {
        self.settle();
        self.tail = piece;
    }

    /// The number of bytes that are waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Whether nothing is waiting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of bytes taken or skipped so far: the offset of the next byte in the stream.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// All waiting bytes, without consuming them.
    pub fn as_slice(&mut self) -> &[u8] {
        if self.head.is_empty() {
            return &self.tail;
        }
        self.settle();
        &self.head
    }

    /// The next `N` bytes without consuming them, if so many are buffered.
    pub fn peek<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.len() < N {
            self.settle();
            return None;
        }
        let mut bytes = [0; N];
        let from_head = N.min(self.head.len());
        let (first, second) = bytes.split_at_mut(from_head);
        first.copy_from_slice(&self.head[..from_head]);
        second.copy_from_slice(&self.tail[..N - from_head]);
        Some(bytes)
    }

    /// Takes the next `count` bytes, if so many are buffered.
    pub fn take(&mut self, count: usize) -> Option<Bytes> {
        if self.len() < count {
            self.settle();
            return None;
        }
        self.position = self.position.saturating_add(count as u64);
        if self.head.is_empty() {
            return Some(self.tail.split_to(count));
        }
        if let Some(rest) = count.checked_sub(self.head.len()) {
            let rest = self.tail.split_to(rest);
            self.head.extend_from_slice(&rest);
        }
        Some(self.head.split_to(count).freeze())
    }

    /// Drops up to `count` bytes and returns how many were dropped.
    pub fn skip(&mut self, count: u64) -> u64 {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.len());
        let from_head = count.min(self.head.len());
        let _ = self.head.split_to(from_head);
        let _ = self.tail.split_to(count - from_head);
        self.position = self.position.saturating_add(count as u64);
        count as u64
    }

    /// Drops everything that is waiting.
    pub fn clear(&mut self) {
        self.skip(u64::MAX);
        self.head = BytesMut::new();
        self.tail = Bytes::new();
    }

    /// Accounts for `count` bytes of the stream that never arrive. Waiting bytes are dropped: they do
    /// not join up with the bytes behind the gap.
    pub fn jump(&mut self, count: u64) {
        self.clear();
        self.position = self.position.saturating_add(count);
    }

    /// Moves the rest of the last piece into the buffer's own memory, so that the piece can be freed.
    pub fn settle(&mut self) {
        if self.tail.is_empty() {
            self.tail = Bytes::new();
        } else {
            self.head.extend_from_slice(&self.tail);
            self.tail = Bytes::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_unit_inside_one_piece_is_a_slice_of_it() {
        let piece = Bytes::from(vec![7; 100]);
        let mut buffer = StreamBuffer::default();
        buffer.push(piece.clone());
        let _ = buffer.take(10);
        let unit = buffer.take(20).unwrap();
        assert_eq!(unit.as_ptr(), piece[10..].as_ptr());
    }

    #[test]
    fn an_incomplete_unit_lets_go_of_the_piece() {
        let piece = Bytes::from(vec![7; 100]);
        let mut buffer = StreamBuffer::default();
        buffer.push(piece.clone());
        assert_eq!(buffer.take(101), None);
        assert!(piece.is_unique(), "the piece is still referenced");
        assert_eq!(buffer.len(), 100);
    }

    #[test]
    fn a_jump_drops_what_waits_and_moves_the_position() {
        let mut buffer = StreamBuffer::default();
        buffer.push(Bytes::from_static(b"abc"));
        buffer.jump(10);
        assert_eq!(buffer.position(), 13);
        buffer.push(Bytes::from_static(b"de"));
        assert_eq!(buffer.take(2).unwrap(), &b"de"[..]);
    }

    proptest! {
        #[test]
        fn any_pieces_give_the_same_units(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            sizes in prop::collection::vec(1usize..30, 1..60),
        ) {
            let whole = pieces.concat();
            let mut buffer = StreamBuffer::default();
            let mut got = Vec::new();
            let mut sizes = sizes.into_iter().cycle();
            let mut size = sizes.next().unwrap();
            for piece in pieces {
                buffer.push(piece.into());
                let waiting = got.len()..got.len() + buffer.len();
                prop_assert_eq!(buffer.as_slice(), &whole[waiting]);
                while let Some(unit) = buffer.take(size) {
                    prop_assert_eq!(unit.len(), size);
                    got.extend_from_slice(&unit);
                    prop_assert_eq!(buffer.position(), got.len() as u64);
                    size = sizes.next().unwrap();
                    if let Some(next) = buffer.peek::<2>() {
                        prop_assert_eq!(&next[..], &whole[got.len()..got.len() + 2]);
                    }
                }
            }
            let left = buffer.len();
            got.extend_from_slice(&buffer.take(left).unwrap());
            prop_assert_eq!(got, whole);
        }
    }
}
