//! A walk over one batch (`zenoh-wire` 3.1, 3.9).

use super::{NetworkMessage, TransportMessage, frame::Fragment, is_network, push::Plain};
use crate::{buf::Reader, error::Result};
use bytes::Bytes;

/// Next item of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "the large one is the one that is read all the time")]
pub enum BatchItem {
    /// A transport message; the network messages of a FRAME follow as items of their own.
    Transport(TransportMessage),
    /// A fragment and its bytes, which extend to the end of the batch.
    Fragment(Fragment, Bytes),
    /// A network message of the FRAME before it.
    Network(NetworkMessage),
}

/// Walks the messages of a batch without prefix and batch header.
#[derive(Debug)]
pub struct BatchReader<'a> {
    r: Reader<'a>,
    in_frame: bool,
}

impl<'a> BatchReader<'a> {
    /// A walk over all of `batch`.
    #[must_use]
    pub fn new(batch: &'a Bytes) -> Self {
        Self::of(Reader::new(batch))
    }

    /// A walk over the bytes of `reader`.
    #[must_use]
    pub const fn of(reader: Reader<'a>) -> Self {
        Self { r: reader, in_frame: false }
    }

    /// A walk over a batch of a low-latency session: bare network messages.
    #[must_use]
    pub fn low_latency(batch: &'a Bytes) -> Self {
        Self::new(batch).bare()
    }

    /// Makes the walk begin with bare network messages, as in [`low_latency`](Self::low_latency).
    #[must_use]
    pub const fn bare(self) -> Self {
        Self { in_frame: true, ..self }
    }

    /// Read position of the walk.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.r.offset()
    }

    /// The next item, or `None` at the end of the batch.
    ///
    /// # Errors
    /// A message that does not decode; the items before it are valid. The walk cannot continue.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<BatchItem>> {
        let Some(header) = self.r.peek() else { return Ok(None) };
        if self.in_frame && is_network(header) {
            // Same as `NetworkMessage::decode`, but built in its place.
            if let Some(plain) = Plain::decode(&mut self.r) {
                return Ok(Some(BatchItem::Network(NetworkMessage::Push(plain.build()))));
            }
            return NetworkMessage::decode(&mut self.r).map(|m| Some(BatchItem::Network(m)));
        }
        self.in_frame = false;
        Ok(Some(match TransportMessage::decode(&mut self.r)? {
            TransportMessage::Fragment(fragment) => BatchItem::Fragment(fragment, self.r.rest()),
            message => {
                self.in_frame = matches!(message, TransportMessage::Frame(_));
                BatchItem::Transport(message)
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::unhex;
    use super::*;
    use crate::error::DecodeErrorKind;

    /// The kinds of all items, and the error at the end.
    fn walk(hex: &str) -> (String, Option<DecodeErrorKind>) {
        let bytes = unhex(hex);
        let mut batch = BatchReader::new(&bytes);
        let mut kinds = String::new();
        loop {
            match batch.next_item() {
                Ok(Some(BatchItem::Transport(TransportMessage::Frame(_)))) => kinds.push('F'),
                Ok(Some(BatchItem::Transport(TransportMessage::KeepAlive))) => kinds.push('k'),
                Ok(Some(BatchItem::Transport(_))) => kinds.push('t'),
                Ok(Some(BatchItem::Fragment(..))) => kinds.push('f'),
                Ok(Some(BatchItem::Network(_))) => kinds.push('n'),
                Ok(None) => return (kinds, None),
                Err(e) => return (kinds, Some(e.kind)),
            }
        }
    }

    #[test]
    fn frames_end_at_a_transport_message_or_at_the_end() {
        assert_eq!(walk(""), (String::new(), None));
        assert_eq!(walk("05 00"), ("F".into(), None));
        assert_eq!(walk("05 00 1d0002 1d0002"), ("Fnn".into(), None));
        assert_eq!(walk("05 00 1d0002 04 05 01 1a01 04"), ("FnkFnk".into(), None));
        assert_eq!(walk("05 00 1d0002 06 01 1d00"), ("Fnf".into(), None));
        // "Byte 04 after a network message inside a FRAME is a KEEP_ALIVE message."
        assert_eq!(walk("05 00 1d0002 04"), ("Fnk".into(), None));
    }

    #[test]
    fn junk_ends_the_walk_after_what_was_good() {
        assert_eq!(walk("05 00 1d0002 18 00"), ("Fn".into(), Some(DecodeErrorKind::UnknownId { id: 0x18 })));
        assert_eq!(walk("08"), (String::new(), Some(DecodeErrorKind::UnknownId { id: 0x08 })));
        let (kinds, error) = walk("05 00 1d0002 ff");
        assert_eq!((kinds.as_str(), error.is_some()), ("Fn", true));
    }

    #[test]
    fn a_network_message_outside_of_a_frame_is_an_error() {
        assert_eq!(walk("1d0002"), (String::new(), Some(DecodeErrorKind::UnknownId { id: 0x1d })));
        assert_eq!(walk("05 00 04 1d0002"), ("Fk".into(), Some(DecodeErrorKind::UnknownId { id: 0x1d })));
    }

    #[test]
    fn low_latency_batches_are_bare() {
        let bytes = unhex("1d0002");
        let mut batch = BatchReader::low_latency(&bytes);
        assert!(matches!(batch.next_item(), Ok(Some(BatchItem::Network(_)))));
        assert_eq!(batch.next_item(), Ok(None));
        let bytes = unhex("04");
        let keep_alive = BatchItem::Transport(TransportMessage::KeepAlive);
        assert_eq!(BatchReader::low_latency(&bytes).next_item(), Ok(Some(keep_alive)));
    }
}
