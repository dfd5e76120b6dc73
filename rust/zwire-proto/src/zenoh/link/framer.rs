//! [`StreamFramer`]: cuts a byte stream into batches (`zenoh-wire` 3.1, 3.14).

use super::{LinkError, LinkParams};
use crate::{
    limits::MAX_BATCH_SIZE,
    zenoh::wire::{Close, CloseReason, TransportMessage},
};
use bytes::{Buf, Bytes, BytesMut};

/// Cuts the bytes of a stream into batches, which share the stream's buffer.
#[derive(Clone, Copy, Debug)]
pub struct StreamFramer {
    /// Two bytes, or four in low latency.
    prefix_len: usize,
    max_len: usize,
}

impl StreamFramer {
    /// For the data phase of a link.
    #[must_use]
    pub const fn new(params: &LinkParams) -> Self {
        let prefix_len = if params.low_latency { 4 } else { 2 };
        Self { prefix_len, max_len: params.max_batch() }
    }

    /// For the handshake: a `u16` prefix, and any length that it can express.
    #[must_use]
    pub const fn handshake() -> Self {
        Self { prefix_len: 2, max_len: MAX_BATCH_SIZE as usize - 2 }
    }

    /// Takes the next whole batch out of `buf`; `None` when more bytes are needed.
    ///
    /// # Errors
    /// A prefix above the bound. It is refused before any byte behind it has arrived.
    #[inline]
    pub fn next(&self, buf: &mut BytesMut) -> Result<Option<Bytes>, LinkError> {
        let Some(len) = self.announced(buf)? else { return Ok(None) };
        if buf.len() < self.prefix_len + len {
            return Ok(None);
        }
        buf.advance(self.prefix_len);
        Ok(Some(buf.split_to(len).freeze()))
    }

    /// Number of bytes missing for the next whole batch, or for its prefix; 0 when it is complete or
    /// refused.
    #[must_use]
    pub fn needed(&self, buf: &BytesMut) -> usize {
        match self.announced(buf) {
            Ok(Some(len)) => (self.prefix_len + len).saturating_sub(buf.len()),
            Ok(None) => self.prefix_len - buf.len(),
            Err(_) => 0,
        }
    }

    #[inline]
    fn announced(&self, buf: &[u8]) -> Result<Option<usize>, LinkError> {
        let len = match *buf {
            [a, b, c, d, ..] if self.prefix_len == 4 => u32::from_le_bytes([a, b, c, d]) as usize,
            [a, b, ..] if self.prefix_len == 2 => usize::from(u16::from_le_bytes([a, b])),
            _ => return Ok(None),
        };
        if len <= self.max_len { Ok(Some(len)) } else { Err(LinkError::TooLong { len, max: self.max_len }) }
    }
}

/// A handshake batch behind its stream prefix. A batch too long for the prefix, which no machine of
/// this crate makes, is cut.
#[must_use]
pub fn frame_batch(batch: &[u8]) -> Bytes {
    let len = u16::try_from(batch.len()).unwrap_or(u16::MAX);
    let mut out = Vec::with_capacity(2 + batch.len());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&batch[..usize::from(len)]);
    out.into()
}

/// A batch with a CLOSE of this link and nothing else, as sent before a session exists.
#[must_use]
pub fn close_batch(reason: CloseReason) -> Bytes {
    let mut out = Vec::with_capacity(2);
    TransportMessage::Close(Close { reason, session: false }).encode(&mut out);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMER: StreamFramer = StreamFramer { prefix_len: 2, max_len: 10 };

    #[test]
    fn any_split_of_the_stream_gives_the_same_batches() {
        // E18 and E19 behind each other, an empty batch between them.
        let stream = [0x01, 0x00, 0x04, 0x00, 0x00, 0x02, 0x00, 0x03, 0x00];
        for cut in 0..=stream.len() {
            let mut buf = BytesMut::new();
            let mut batches = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                buf.extend_from_slice(part);
                while let Some(batch) = FRAMER.next(&mut buf).unwrap() {
                    batches.push(batch);
                }
            }
            assert_eq!(batches, [&[0x04][..], &[], &[0x03, 0x00]], "cut at {cut}");
            assert!(buf.is_empty());
        }
    }

    #[test]
    fn a_prefix_above_the_bound_is_refused_before_its_bytes_arrive() {
        let mut buf = BytesMut::from(&[10, 0][..]);
        assert_eq!(FRAMER.next(&mut buf), Ok(None));
        assert_eq!(FRAMER.needed(&buf), 10);
        let mut buf = BytesMut::from(&[11, 0][..]);
        assert_eq!(FRAMER.next(&mut buf), Err(LinkError::TooLong { len: 11, max: 10 }));
        let low_latency = StreamFramer { prefix_len: 4, max_len: 65535 };
        let mut buf = BytesMut::from(&[0xff, 0xff, 0xff, 0xff][..]);
        let claim = LinkError::TooLong { len: 0xffff_ffff, max: 65535 };
        assert_eq!(low_latency.next(&mut buf), Err(claim));
    }

    #[test]
    fn needed_counts_the_prefix_first() {
        assert_eq!(FRAMER.needed(&BytesMut::new()), 2);
        assert_eq!(FRAMER.needed(&BytesMut::from(&[3][..])), 1);
        assert_eq!(FRAMER.needed(&BytesMut::from(&[3, 0, 1][..])), 2);
        assert_eq!(FRAMER.needed(&BytesMut::from(&[1, 0, 4][..])), 0);
    }

    #[test]
    fn close_is_framed_as_the_reference_does() {
        assert_eq!(frame_batch(&close_batch(CloseReason::EXPIRED)), &[0x02, 0x00, 0x03, 0x05][..]);
    }
}
