//! Reading from and writing to byte buffers: [`Reader`], [`Sink`], [`Segments`].

use crate::{
    Text,
    error::{DecodeError, DecodeErrorKind, Result},
};
use bytes::{BufMut, Bytes, BytesMut};

/// Longest VLE integer; its ninth byte carries eight bits (`zenoh-wire` 1.2).
pub const MAX_VLE_LEN: usize = 9;

/// A cursor over a shared buffer. Fields read as `Bytes` are slices of that buffer, never copies.
///
/// Each read takes the name of the field in the terms of the specification; errors carry that name and
/// the offset.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    buf: &'a Bytes,
    /// Unread part of `buf[..end]`.
    rest: &'a [u8],
    end: usize,
    shm: bool,
}

impl<'a> Reader<'a> {
    /// A reader over all of `buf`.
    #[must_use]
    #[inline]
    pub fn new(buf: &'a Bytes) -> Self {
        Self { buf, rest: buf, end: buf.len(), shm: false }
    }

    /// A reader over `buf` from an offset on; offsets still count from the start of the buffer.
    #[must_use]
    #[inline]
    pub fn starting_at(buf: &'a Bytes, offset: usize) -> Self {
        Self { rest: buf.get(offset..).unwrap_or_default(), ..Self::new(buf) }
    }

    /// Accepts payloads of shared memory, as a dissector of other nodes' sessions must, and a link whose ends have agreed
    /// on lending.
    #[must_use]
    pub const fn with_shared_memory(mut self) -> Self {
        self.shm = true;
        self
    }

    /// Whether payloads of shared memory are accepted.
    #[must_use]
    pub const fn shared_memory(&self) -> bool {
        self.shm
    }

    /// Offset of the next byte from the start of the buffer.
    #[must_use]
    #[inline]
    pub const fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// How many bytes are left.
    #[must_use]
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether all bytes were read.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte, without consuming it.
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// An error about the field that starts at `offset`.
    #[cold]
    pub const fn error(&self, reading: &'static str, offset: usize, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { reading, offset, kind }
    }

    #[cold]
    #[inline(never)]
    const fn truncated(&self, reading: &'static str, wanted: usize) -> DecodeError {
        DecodeError {
            reading,
            offset: self.offset(),
            kind: DecodeErrorKind::Truncated { needed: wanted - self.remaining() },
        }
    }

    /// A single byte.
    #[inline]
    pub fn u8(&mut self, reading: &'static str) -> Result<u8> {
        match self.rest.split_first() {
            Some((byte, rest)) => {
                self.rest = rest;
                Ok(*byte)
            }
            None => Err(self.truncated(reading, 1)),
        }
    }

    /// A fixed-size little-endian integer; only batch sizes are.
    pub fn u16_le(&mut self, reading: &'static str) -> Result<u16> {
        let raw = self.slice(2, reading)?;
        Ok(u16::from_le_bytes([raw[0], raw[1]]))
    }

    /// A fixed-size big-endian integer, as everything of ZMTP is.
    pub fn u16_be(&mut self, reading: &'static str) -> Result<u16> {
        self.array(reading).map(u16::from_be_bytes)
    }

    /// As [`Self::u16_be`], of four bytes.
    pub fn u32_be(&mut self, reading: &'static str) -> Result<u32> {
        self.array(reading).map(u32::from_be_bytes)
    }

    /// As [`Self::u16_be`], of eight bytes.
    pub fn u64_be(&mut self, reading: &'static str) -> Result<u64> {
        self.array(reading).map(u64::from_be_bytes)
    }

    /// `N` bytes, copied.
    pub fn array<const N: usize>(&mut self, reading: &'static str) -> Result<[u8; N]> {
        match self.rest.split_first_chunk() {
            Some((out, rest)) => {
                self.rest = rest;
                Ok(*out)
            }
            None => Err(self.truncated(reading, N)),
        }
    }

    /// A VLE integer of up to 64 bits.
    #[inline]
    pub fn vle(&mut self, reading: &'static str) -> Result<u64> {
        match self.rest {
            [a, rest @ ..] if *a < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*a))
            }
            [a, b, rest @ ..] if *b < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*a & 0x7f) | u64::from(*b) << 7)
            }
            _ => self.vle_long(reading),
        }
    }

    #[inline(never)]
    fn vle_long(&mut self, reading: &'static str) -> Result<u64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.u8(reading)?;
            // The ninth byte carries eight bits and no continuation flag.
            if shift == 56 || byte < 0x80 {
                return Ok(value | u64::from(byte) << shift);
            }
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
    }

    /// A VLE integer that must not exceed `bound`.
    #[inline]
    pub fn vle_max(&mut self, bound: u64, reading: &'static str) -> Result<u64> {
        let offset = self.offset();
        let value = self.vle(reading)?;
        if value <= bound {
            Ok(value)
        } else {
            Err(self.error(reading, offset, DecodeErrorKind::OutOfRange { value, bound }))
        }
    }

    /// A `z16`.
    #[inline]
    pub fn z16(&mut self, reading: &'static str) -> Result<u16> {
        #[allow(clippy::cast_possible_truncation, reason = "bounded in the line itself")]
        self.vle_max(u64::from(u16::MAX), reading).map(|v| v as u16)
    }

    /// A `z32`.
    #[inline]
    pub fn z32(&mut self, reading: &'static str) -> Result<u32> {
        #[allow(clippy::cast_possible_truncation, reason = "bounded in the line itself")]
        self.vle_max(u64::from(u32::MAX), reading).map(|v| v as u32)
    }

    /// `len` bytes, borrowed.
    #[inline]
    pub fn slice(&mut self, len: usize, reading: &'static str) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(len) {
            Some((out, rest)) => {
                self.rest = rest;
                Ok(out)
            }
            None => Err(self.truncated(reading, len)),
        }
    }

    /// `len` bytes, shared with the buffer.
    #[inline]
    pub fn bytes(&mut self, len: usize, reading: &'static str) -> Result<Bytes> {
        let offset = self.offset();
        self.slice(len, reading)?;
        Ok(self.buf.slice(offset..offset + len))
    }

    /// The unread bytes, borrowed; the position does not change.
    #[inline]
    pub(crate) const fn ahead(&self) -> &'a [u8] {
        self.rest
    }

    /// The buffer and the current offset in it, for slices that are taken later.
    #[inline]
    pub(crate) const fn place(&self) -> (&'a Bytes, usize) {
        (self.buf, self.offset())
    }

    /// Moves the position to the start of `left`, which must be a tail of [`Self::ahead`].
    #[inline]
    pub(crate) fn skip_to(&mut self, left: &'a [u8]) {
        debug_assert!(left.len() <= self.rest.len(), "a reader does not go back");
        self.rest = left;
    }

    /// Takes all unread bytes, shared with the buffer.
    pub fn rest(&mut self) -> Bytes {
        let out = self.buf.slice(self.offset()..self.end);
        self.rest = &[];
        out
    }

    /// A VLE length of at most `bound`, checked against the number of unread bytes.
    #[inline]
    pub fn len(&mut self, bound: u64, reading: &'static str) -> Result<usize> {
        let len = self.vle_max(bound, reading)?;
        match usize::try_from(len) {
            Ok(len) if len <= self.remaining() => Ok(len),
            _ => Err(self.truncated(reading, usize::try_from(len).unwrap_or(usize::MAX))),
        }
    }

    /// `<u8;zN>`: a VLE length of at most `bound`, then the bytes.
    #[inline]
    pub fn zbytes(&mut self, bound: u64, reading: &'static str) -> Result<Bytes> {
        let len = self.len(bound, reading)?;
        self.bytes(len, reading)
    }

    /// `<utf8;zN>`: as [`Self::zbytes`], and UTF-8.
    #[inline]
    pub fn text(&mut self, bound: u64, reading: &'static str) -> Result<Text> {
        let len = self.len(bound, reading)?;
        self.text_of(len, reading)
    }

    /// `len` bytes of UTF-8.
    #[inline]
    pub fn text_of(&mut self, len: usize, reading: &'static str) -> Result<Text> {
        let offset = self.offset();
        let raw = self.slice(len, reading)?;
        if !(raw.is_ascii() || core::str::from_utf8(raw).is_ok()) {
            return Err(self.error(reading, offset, DecodeErrorKind::Utf8));
        }
        Ok(Text::of_checked(self.buf, offset, raw))
    }

    /// A VLE count of items that take at least one byte each, bounded before anything is allocated.
    pub fn count(&mut self, bound: usize, reading: &'static str) -> Result<usize> {
        let offset = self.offset();
        let value = self.vle(reading)?;
        let bound = bound.min(self.remaining()) as u64;
        if value <= bound {
            #[allow(clippy::cast_possible_truncation, reason = "at most what remains")]
            Ok(value as usize)
        } else {
            Err(self.error(reading, offset, DecodeErrorKind::OutOfRange { value, bound }))
        }
    }

    /// A reader over the next `len` bytes, which this reader skips. Offsets stay those of the buffer.
    pub fn sub(&mut self, len: usize, reading: &'static str) -> Result<Reader<'a>> {
        let end = self.offset().saturating_add(len);
        let rest = self.slice(len, reading)?;
        Ok(Reader { buf: self.buf, rest, end, shm: self.shm })
    }

    /// Checks that all bytes were read.
    pub fn finish(&self, reading: &'static str) -> Result<()> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.error(reading, self.offset(), DecodeErrorKind::TrailingBytes { left: self.remaining() }))
        }
    }
}

/// Destination of encoders.
pub trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
    /// Appends one byte.
    fn put_u8(&mut self, byte: u8);
    /// Appends the first `len` bytes of a little-endian word; `len` is at most 8.
    #[inline]
    fn put_word(&mut self, word: u64, len: usize) {
        self.put(&word.to_le_bytes()[..len]);
    }
    /// Appends a payload that the sink may keep by reference.
    #[inline]
    fn put_shared(&mut self, bytes: &Bytes) {
        self.put(bytes);
    }
    /// Appends a VLE integer in its minimal form.
    #[inline]
    fn put_vle(&mut self, value: u64) {
        if value < 0x80 {
            #[allow(clippy::cast_possible_truncation, reason = "below 0x80")]
            self.put_u8(value as u8);
        } else {
            let (raw, len) = vle_bytes(value);
            self.put(&raw[..len]);
        }
    }
}

/// Room for a PUSH with a short key, a timestamp and a small payload.
const GATHER: usize = 96;

/// Gathers the small fields of a message before they go to the sink behind it: a field costs a store
/// instead of a call. The caller must finish with [`Self::finish`].
pub(crate) struct Gather<'a, S: Sink> {
    sink: &'a mut S,
    raw: [u8; GATHER],
    len: usize,
}

impl<'a, S: Sink> Gather<'a, S> {
    #[inline]
    pub(crate) const fn new(sink: &'a mut S) -> Self {
        Self { sink, raw: [0; GATHER], len: 0 }
    }

    #[inline]
    pub(crate) fn finish(self) {
        self.sink.put(&self.raw[..self.len]);
    }

    #[cold]
    #[inline(never)]
    fn flush(&mut self) {
        self.sink.put(&self.raw[..self.len]);
        self.len = 0;
    }

    /// Copies `bytes` if they fit and returns whether they did.
    #[inline]
    fn copy(&mut self, bytes: &[u8]) -> bool {
        match self.raw.get_mut(self.len..).and_then(|room| room.get_mut(..bytes.len())) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
                true
            }
            None => false,
        }
    }
}

impl<S: Sink> Sink for Gather<'_, S> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if !self.copy(bytes) {
            self.flush();
            self.sink.put(bytes);
        }
    }
    #[inline]
    fn put_u8(&mut self, byte: u8) {
        if self.len >= self.raw.len() {
            self.flush();
        }
        self.raw[self.len] = byte;
        self.len += 1;
    }
    #[inline]
    fn put_shared(&mut self, bytes: &Bytes) {
        if !self.copy(bytes) {
            self.flush();
            self.sink.put_shared(bytes);
        }
    }
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
    fn put_vle(&mut self, value: u64) {
        if value < 0x80 {
            self.put_u8(value as u8);
        } else if value < 0x4000 {
            self.put_u8(value as u8 | 0x80);
            self.put_u8((value >> 7) as u8);
        } else {
            let (raw, len) = vle_bytes(value);
            self.put(&raw[..len]);
        }
    }
}

/// Gathers the small fields of a message in a register: bytes that were stored one by one could be loaded together, for
/// a copy, only after they have left the store buffer of the processor. [`Self::sink`] ends it.
pub(crate) struct Words<'a, S: Sink> {
    sink: &'a mut S,
    word: u64,
    /// Bits of `word` that are in use, a multiple of 8.
    used: u32,
}

#[allow(clippy::inline_always, reason = "a call would move the word to memory and back")]
impl<'a, S: Sink> Words<'a, S> {
    #[inline(always)]
    pub(crate) const fn new(sink: &'a mut S) -> Self {
        Self { sink, word: 0, used: 0 }
    }

    /// The sink behind, which has all that was written.
    #[inline(always)]
    pub(crate) fn sink(&mut self) -> &mut S {
        if self.used > 0 {
            self.sink.put_word(self.word, self.used as usize / 8);
            (self.word, self.used) = (0, 0);
        }
        self.sink
    }

    /// Appends bytes that are the lowest `bits` bits of a word; the others are 0.
    #[inline(always)]
    fn put(&mut self, word: u64, bits: u32) {
        if self.used + bits > u64::BITS {
            self.sink();
        }
        self.word |= word.wrapping_shl(self.used);
        self.used += bits;
    }

    #[inline(always)]
    pub(crate) fn u8(&mut self, byte: u8) {
        self.put(byte.into(), 8);
    }

    #[inline(always)]
    pub(crate) fn vle(&mut self, value: u64) {
        if value < 0x80 {
            self.put(value, 8);
        } else if value < 0x4000 {
            self.put(value & 0x7f | 0x80 | (value >> 7) << 8, 16);
        } else {
            self.sink().put_vle(value);
        }
    }
}

/// Implements [`Sink`] for a buffer that grows, given its function that appends a byte.
macro_rules! growing_sink {
    ($buffer:ty, $push:path) => {
        impl Sink for $buffer {
            #[inline]
            fn put(&mut self, bytes: &[u8]) {
                self.extend_from_slice(bytes);
            }
            #[inline(always)]
            #[allow(clippy::inline_always, reason = "most of a call would be saving registers")]
            fn put_word(&mut self, word: u64, len: usize) {
                let begin = <$buffer>::len(self);
                // The copy of a whole word is one store; the bytes too many are cut off again.
                if self.capacity() - begin >= size_of::<u64>() {
                    self.extend_from_slice(&word.to_le_bytes());
                    self.truncate(begin + len);
                } else {
                    self.extend_from_slice(&word.to_le_bytes()[..len]);
                }
            }
            #[inline]
            fn put_u8(&mut self, byte: u8) {
                $push(self, byte);
            }
        }
    };
}

growing_sink!(Vec<u8>, Self::push);
growing_sink!(BytesMut, BufMut::put_u8);

/// Counts bytes instead of writing them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter(pub usize);

impl Sink for Counter {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
    #[inline]
    fn put_u8(&mut self, _: u8) {
        self.0 += 1;
    }
}

/// Keeps payloads of at least [`Segments::SHARE_FROM`] bytes by reference, for vectored writes.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    inline: BytesMut,
    /// Offset in `inline` before which the payload belongs.
    shared: Vec<(usize, Bytes)>,
    shared_len: usize,
}

impl Segments {
    /// From this size on a reference (two more entries in the `iovec`) is cheaper than a copy.
    pub const SHARE_FROM: usize = 4096;

    /// How many bytes were written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inline.len() + self.shared_len
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Clears the contents; keeps the allocation unless parts of it are still shared.
    pub fn clear(&mut self) {
        self.inline.clear();
        self.shared.clear();
        self.shared_len = 0;
    }

    /// The parts in order; none is empty.
    #[must_use]
    pub fn into_parts(mut self) -> Vec<Bytes> {
        let mut parts = Vec::with_capacity(2 * self.shared.len() + 1);
        let mut taken = 0;
        for (at, payload) in self.shared {
            if at > taken {
                parts.push(self.inline.split_to(at - taken).freeze());
                taken = at;
            }
            parts.push(payload);
        }
        if !self.inline.is_empty() {
            parts.push(self.inline.freeze());
        }
        parts
    }
}

impl Sink for Segments {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.inline.extend_from_slice(bytes);
    }
    #[inline]
    fn put_word(&mut self, word: u64, len: usize) {
        self.inline.put_word(word, len);
    }
    #[inline]
    fn put_u8(&mut self, byte: u8) {
        BufMut::put_u8(&mut self.inline, byte);
    }
    #[inline]
    fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() >= Self::SHARE_FROM {
            self.shared.push((self.inline.len(), bytes.clone()));
            self.shared_len += bytes.len();
        } else {
            self.inline.extend_from_slice(bytes);
        }
    }
}

/// How many bytes `value` takes as VLE: 1 to 9.
#[must_use]
pub const fn vle_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    let len = bits.div_ceil(7);
    if len > MAX_VLE_LEN { MAX_VLE_LEN } else { len }
}

/// Writes a VLE integer in its minimal form.
#[inline]
pub fn put_vle(sink: &mut impl Sink, value: u64) {
    sink.put_vle(value);
}

/// The bytes of a VLE integer and how many of them count.
#[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn vle_bytes(mut value: u64) -> ([u8; MAX_VLE_LEN], usize) {
    let mut out = [0; MAX_VLE_LEN];
    let mut len = 0;
    while value >= 0x80 && len < MAX_VLE_LEN - 1 {
        out[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    out[len] = value as u8;
    (out, len + 1)
}

/// Writes `<u8;zN>`.
#[inline]
pub fn put_zbytes(sink: &mut impl Sink, bytes: &[u8]) {
    put_vle(sink, bytes.len() as u64);
    sink.put(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `zenoh-wire` 1.2, the table.
    const VLE: &[(u64, &[u8])] = &[
        (0, &[0x00]),
        (1, &[0x01]),
        (127, &[0x7f]),
        (128, &[0x80, 0x01]),
        (300, &[0xac, 0x02]),
        (16_383, &[0xff, 0x7f]),
        (16_384, &[0x80, 0x80, 0x01]),
        (65_535, &[0xff, 0xff, 0x03]),
        (u32::MAX as u64, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ((1 << 56) - 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        (1 << 56, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
        ((1 << 63) - 1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        (1 << 63, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80]),
        (u64::MAX, &[0xff; 9]),
    ];

    #[test]
    fn vle_table() {
        for &(value, wire) in VLE {
            let mut out = Vec::new();
            put_vle(&mut out, value);
            assert_eq!(out, wire, "{value}");
            assert_eq!(vle_len(value), wire.len(), "{value}");
            let bytes = Bytes::copy_from_slice(wire);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.vle("test"), Ok(value));
            reader.finish("test").unwrap();
            for cut in 0..wire.len() {
                let bytes = Bytes::copy_from_slice(&wire[..cut]);
                let err = Reader::new(&bytes).vle("test").unwrap_err();
                assert_eq!(err.kind, DecodeErrorKind::Truncated { needed: 1 });
            }
        }
    }

    #[test]
    fn non_minimal_vle_is_accepted() {
        for wire in [&[0x80, 0x00][..], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]] {
            let bytes = Bytes::copy_from_slice(wire);
            assert_eq!(Reader::new(&bytes).vle("test"), Ok(0));
        }
    }

    #[test]
    fn a_length_past_the_end_is_truncation() {
        let bytes = Bytes::from_static(&[0x05, 1, 2]);
        let err = Reader::new(&bytes).zbytes(u64::MAX, "PUT payload").unwrap_err();
        assert_eq!(err.reading, "PUT payload");
        assert_eq!(err.kind, DecodeErrorKind::Truncated { needed: 3 });
        let bytes = Bytes::from_static(&[0xff; 12]);
        assert!(Reader::new(&bytes).zbytes(u64::MAX, "x").is_err());
    }

    #[test]
    fn segments_keep_large_payloads_by_reference() {
        let payload = Bytes::from(vec![7; Segments::SHARE_FROM]);
        let mut segments = Segments::default();
        segments.put(b"ab");
        segments.put_shared(&payload);
        segments.put_shared(&Bytes::from_static(b"small"));
        assert_eq!(segments.len(), 2 + payload.len() + 5);
        let parts = segments.into_parts();
        assert_eq!(parts.len(), 3);
        assert_eq!(parts[1].as_ptr(), payload.as_ptr());
        assert_eq!(&parts[2][..], b"small");
    }
}
